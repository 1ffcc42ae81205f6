"""UCB-C: oracles, the plain version in lock step, and what holds of copies and rounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import LinUCB, SqrtBound, SqrtLogBound, UCBCorral
from counting_runs import bases, play_bases
from reference.arora import UCBCorral as Reference
from small_problems import in_torch, small
from stepping import ScriptedDraws, Stepper


def test_constants_f8():
    assert [UCBCorral().copies_for(T) for T in (100, 1000, 2500, 10**6)] == [10, 14, 16, 28]
    assert UCBCorral(variant="released").copies_for(10**6) == 5
    k, n, t = np.array([[4.0]]), np.array([[10.0]]), np.array([[100.0]])
    assert SqrtLogBound()(k, n)[0, 0] == pytest.approx(9.597051824376, abs=1e-10)
    for policy, expected in [
        (UCBCorral(factor=math.sqrt(2)), 2.316933267321),
        (UCBCorral(), 2.879115547313),
        (UCBCorral(variant="printed"), 1.397815940680),
        (UCBCorral(variant="released"), 3.437253049037),
    ]:
        assert policy.bonus(k, n, t, t, np)[0, 0] == pytest.approx(expected, abs=1e-10)
    copies = np.array([[[0.1, 0.5, 0.3, 0.2, 0.4, 0.6]]])
    assert UCBCorral().median(copies, np)[0, 0] == pytest.approx(0.35, abs=1e-12)
    assert UCBCorral(variant="released").median(copies, np)[0, 0] == 0.4


@pytest.mark.parametrize(
    ("factor", "rounds", "picks"),
    [
        (2.0, (14, 58), "011111111111111111110000111101"),
        (math.sqrt(2), (15, 57), "011111111111001011110111011110"),
    ],
)
def test_constant_copies_f9(factor, rounds, picks):
    bound = SqrtLogBound(least_log=0.0)
    policy = UCBCorral(bases=bases(2), bound=bound, complexities=(2.0, 8.0), factor=factor, reward_scale=1.0)
    begun = []
    for t, chosen, learner in play_bases(policy, lambda copy, t: (0.3, 0.6)[copy // 14], 1000):
        if (t - 1) % 14 == 0:
            begun.append(chosen // 14)
        if t == 71 * 14 and factor == 2.0:
            index = learner.scores(learner.everyone)[0]
            assert index == pytest.approx([2.586870629040, 2.584623292701], rel=0, abs=1e-10)
    assert "".join(map(str, begun[:30])) == picks
    assert (begun.count(0), begun.count(1)) == rounds


def test_lock_step():
    """The same copies and arms as the plain master over the library's own learners, on the same draws."""
    rounds, S, dims = 240, 3, (1, 3, 8)
    instance = adadim.instances.sphere(arms=10, dim=16, intrinsic_dim=3, horizon=rounds, noise=0.05)
    nested = tuple(LinUCB(dim=d) for d in dims)
    policy = UCBCorral(bases=nested, copies=S, bound=SqrtBound(c=0.4), reward_scale=0.1, factor=1.3)
    learner = policy.start(instance.problem, seed=3)
    streams = learner.streams
    copies = [
        LinUCB(dim=d).learner(instance.problem, streams.child(1 + 3 * i + s))
        for i, d in enumerate(dims)
        for s in range(S)
    ]
    reference = Reference(3, S, [lambda n, d=d: 0.4 * math.sqrt(d * n) for d in dims], 1.3, 0.1)
    rng, seen = np.random.default_rng(0), []
    for _ in range(rounds):
        uniform = rng.random()
        learner.draws = ScriptedDraws(uniform)
        decision = learner.ask()
        copy = reference.pick(uniform)
        arm = int(copies[copy].select()[0])
        assert (int(decision.memo["base"][0]), int(decision.arms[0])) == (copy, arm)
        reward = float(instance.means[0, arm] + 0.05 * rng.standard_normal())
        learner.tell(decision, [reward])
        copies[copy].update([arm], [reward])
        reference.update(reward)
        seen.append(copy)
    assert len(set(seen)) == 9


@settings(max_examples=25)
@given(copies=st.integers(1, 6), count=st.integers(1, 4), seed=st.integers(0, 1000))
def test_copies_play_equally_often(copies, count, seed):
    rng = np.random.default_rng(seed)
    policy = UCBCorral(bases=bases(count), copies=copies)
    for t, chosen, learner in play_bases(policy, lambda copy, t: rng.normal(), 60, lowest=False):
        plays = learner.plays.reshape(count, copies)
        assert plays.sum() == t
        assert chosen % copies == (t - 1) % copies
        spread = plays.max(axis=1) - plays.min(axis=1)
        assert spread.max() <= (t % copies != 0)
        if t >= count * copies:
            assert (plays >= 1).all()


def test_copies_have_randomness_of_their_own():
    policy = UCBCorral(bases=(adadim.Random(),), copies=6)
    stepper = Stepper(policy, small(horizon=6)).run()
    assert len(set(stepper.arms[0])) > 2


@pytest.mark.parametrize("given_", [{}, {"bases": (LinUCB(dim=3), adadim.UCB()), "copies": 4, "variant": "released"}])
def test_torch_does_the_same(given_, torch):
    instance, policy = small(range(2), horizon=150), UCBCorral(**given_)
    assert Stepper(policy, in_torch(instance, torch)).run().arms == Stepper(policy, instance).run().arms


def test_replications_out_of_step_run_as_if_alone():
    policy = UCBCorral(copies=4)
    together = Stepper(policy, small(range(3), horizon=100)).stagger(np.random.default_rng(1))
    for r in range(3):
        alone = Stepper(policy, small([r], horizon=100)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


def test_no_base_is_kept_for_being_played_twice():
    """Equal rewards: a bound that is 0 at the first play gives every later round to one base, the default does not."""
    rounds = {}
    for least in (0.0, 1.0):
        policy = UCBCorral(bases=bases(4), copies=2, complexities=(64.0,) * 4, bound=SqrtLogBound(least_log=least))
        *_, (_, _, learner) = play_bases(policy, [0.5] * 8, 200)
        rounds[least] = sorted(learner.plays[0, ::2].tolist())
    assert rounds[0.0] == [1, 1, 1, 97]
    assert rounds[1.0] == [25, 25, 25, 25]


@pytest.mark.parametrize("changes", [{"copies": 0}, {"factor": 0}, {"variant": "new"}, {"complexities": (0.0,)}])
def test_bad_hyper_parameters(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        UCBCorral(**changes)
