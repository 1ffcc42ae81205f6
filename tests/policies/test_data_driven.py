"""D3RB and ED2RB: oracles, the plain versions in lock step, and what always holds of potentials."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import D3RB, ED2RB, LinUCB
from adadim.policies.masters.base import mean_width
from counting_runs import bases, in_lock_step, nested_bases, play_bases, plays
from reference.counting import DataDriven, ReleasedDataDriven
from small_problems import in_torch, small
from stepping import Stepper

EXACT = {"rel": 0, "abs": 1e-10}
TOY = {"bases": bases(3), "c": 0.1, "delta": 0.1, "reward_scale": 1.0}
REWARDS = (0.3, 0.5, 0.45)


def run(policy, rewards, rounds, at):
    """Picks, and (plays, dhat, phi) after some rounds."""
    picks, seen = "", {}
    for t, chosen, learner in play_bases(policy, rewards, rounds):
        picks += str(chosen)
        if t in at:
            seen[t] = plays(learner), learner.coefficients[0].copy(), learner.potential[0].copy()
    return picks, seen


@pytest.mark.parametrize(
    ("kind", "counts", "coefficients", "potentials"),
    [
        (
            D3RB,
            [(34, 33, 33), (112, 444, 444), (137, 2009, 854)],
            [4, 1, 2],
            [46.818799642879, 44.821869662030, 58.446556784810],
        ),
        (
            ED2RB,
            [(34, 33, 33), (124, 438, 438), (229, 1674, 1097)],
            [2.714834986713, 1, 1.236595169954],
            None,
        ),
    ],
)
def test_printed_f17(kind, counts, coefficients, potentials):
    picks, seen = run(kind(**TOY), REWARDS, 3000, (100, 1000, 3000))
    assert picks[:30] == "001122" + "012" * 8
    assert [seen[t][0] for t in (100, 1000, 3000)] == counts
    assert seen[3000][1] == pytest.approx(coefficients, **EXACT)
    if potentials:
        assert seen[3000][2] == pytest.approx(potentials, **EXACT)


def test_released_f18():
    settings_ = TOY | {"variant": "released"}
    _, seen = run(D3RB(**settings_), REWARDS, 1000, (100, 1000))
    assert [seen[t][0] for t in (100, 1000)] == [(15, 43, 42), (17, 826, 157)]
    assert seen[1000][1].tolist() == [8, 1, 4]
    _, seen = run(ED2RB(**settings_), REWARDS, 1000, (100, 1000))
    assert [seen[t][0] for t in (100, 1000)] == [(17, 42, 41), (19, 823, 158)]
    assert seen[1000][2] == pytest.approx([44.384511863596, 28.687976575562, 51.140853853491], **EXACT)


def test_widths_f18():
    n = np.array([1.0, 10.0, 100.0])
    assert mean_width(n, 3, 0.1) == pytest.approx([1.844233548568, 0.650786434010, 0.221999482150], **EXACT)
    learner = D3RB(variant="released", bases=bases(3), reward_scale=1.0).start(
        adadim.Problem(np.eye(4), horizon=9, noise=0.1)
    )
    learner.plays[0] = n
    assert learner.delta == 0.01
    # All rewards are 0: est_i = n_i (best - h_i / sqrt(n_i)) with h_i / n_i the width and best = -min h / sqrt(n).
    _, estimate = learner.released_estimate(learner.everyone)
    widths = np.array([2.301807413001, 0.836843202684, 0.303649315870])
    slack = widths * np.sqrt(n)
    assert estimate[0] == pytest.approx(n * (-slack.min() - slack), rel=1e-11)


def test_a_base_never_played_counts_with_zero_in_the_released_estimate():
    """Reward -9 at the first play: est = max(0, -9 - h) - (-9 + h) = 9 - h, h = sqrt(ln 200), which is above d_min."""
    policy = D3RB(variant="released", bases=bases(3), reward_scale=1.0)
    (_, chosen, learner), *_ = play_bases(policy, (-9.0, -9.0, -9.0), 1)
    assert learner.released_estimate(learner.everyone)[1][0, chosen] == pytest.approx(9 - 2.301807413001)
    assert learner.coefficients[0].tolist() == [2.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("kind", "counts", "coefficients", "next_pick"),
    [
        (D3RB, [(13, 37), (34, 166), (59, 941)], [2, 4, 4], "1"),
        (ED2RB, [(18, 32), (37, 163), (83, 917)], [1.331329, 2.121927, 3.365772], "0"),
    ],
)
def test_two_bases_c20(kind, counts, coefficients, next_pick):
    at = (50, 200, 1000)
    picks, seen = run(kind(**TOY | {"bases": bases(2)}), (0.2, 0.6), 1000, at)
    assert picks[:29] == "0011010101010101010101010111" + next_pick
    assert [seen[t][0] for t in at] == counts
    assert [seen[t][1][0] for t in at] == pytest.approx(coefficients, abs=1e-6)
    if kind is D3RB:
        assert seen[200][2] == pytest.approx([23.323808, 12.884099], abs=1e-6)


@pytest.mark.parametrize("kind", [D3RB, ED2RB])
@pytest.mark.parametrize("variant", ["printed", "released"])
def test_lock_step(kind, variant):
    plain_kind = DataDriven if variant == "printed" else ReleasedDataDriven

    def compare(learner, reference):
        np.testing.assert_allclose(learner.coefficients[0], reference.dhat, rtol=1e-10)
        np.testing.assert_allclose(learner.potential[0], reference.phi, rtol=1e-10)
        assert learner.plays[0].tolist() == reference.n

    policy = kind(bases=nested_bases(), reward_scale=0.1, d_min=0.7, c=0.3, delta=0.2, variant=variant)
    moved = []
    in_lock_step(
        policy,
        lambda plain: plain_kind(plain, 0.1, kind is ED2RB, 0.7, 0.2, 0.3),
        lambda *both: (compare(*both), moved.append(max(both[1].dhat))),
    )
    assert max(moved) > 0.1  # some coefficient has left d_min


@settings(max_examples=30)
@given(
    count=st.integers(2, 5),
    kind=st.sampled_from([D3RB, ED2RB]),
    c=st.floats(0.01, 1.0),
    d_min=st.floats(0.1, 3.0),
    seed=st.integers(0, 1000),
)
def test_potentials_stay_balanced(count, kind, c, d_min, seed):
    """Whatever the rewards: potentials never fall, one base changes, and they stay within 3 (D3RB) or 2 (ED2RB)."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(0, 1, count)
    policy = kind(bases=bases(count), c=c, d_min=d_min, reward_scale=1.0)
    before, factor = np.full(count, d_min), 3 if kind is D3RB else 2
    for t, chosen, learner in play_bases(policy, lambda i, t: levels[i] + rng.normal(0, 0.3), 120, False):
        phi = learner.potential[0].copy()
        others = np.arange(count) != chosen
        assert (phi[others] == before[others]).all()
        assert phi[chosen] >= before[chosen] * (1 - 1e-12)
        assert phi.max() <= factor * phi.min() * (1 + 1e-12)
        assert (learner.coefficients >= d_min * (1 - 1e-12)).all()
        assert learner.plays.sum() == t
        before = phi


def test_coefficients_are_in_units_of_the_rewards():
    """Rewards, and the scale, ten times as large: the same bases are played."""
    small_, large = (
        [c for _, c, _ in play_bases(D3RB(bases=bases(3), c=0.1, reward_scale=s), [s * r for r in REWARDS], 600)]
        for s in (1.0, 16.0)
    )
    assert small_ == large
    assert small_.count(0) < 150


@pytest.mark.parametrize("kind", [D3RB, ED2RB])
@pytest.mark.parametrize("given_", [{"c": 0.1}, {"bases": (LinUCB(dim=3), adadim.UCB()), "variant": "released"}])
def test_torch_does_the_same(kind, given_, torch):
    instance = small(range(2), horizon=120)
    policy = kind(**given_)
    assert Stepper(policy, in_torch(instance, torch)).run().arms == Stepper(policy, instance).run().arms


def test_replications_out_of_step_run_as_if_alone():
    policy = ED2RB(c=0.1)
    together = Stepper(policy, small(range(4), horizon=100)).stagger(np.random.default_rng(1))
    for r in range(4):
        alone = Stepper(policy, small([r], horizon=100)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


def test_defaults():
    problem = small().problem
    assert D3RB().start(problem).delta == 1 / math.sqrt(300)
    assert ED2RB(variant="released").start(problem).delta == 0.01


@pytest.mark.parametrize("kind", [D3RB, ED2RB])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"d_min": 0.0}, ValueError),
        ({"c": 0}, ValueError),
        ({"delta": 1}, ValueError),
        ({"variant": "new"}, ValueError),
    ],
)
def test_bad_hyper_parameters(kind, changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        kind(**changes)
