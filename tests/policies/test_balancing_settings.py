"""Dynamic Balancing: its hyper-parameters, its bases, batches, and what `describe` says."""

import math

import numpy as np
import pytest

import adadim
from adadim import DynamicBalancing, LinUCB
from adadim.models.fixed import HostPosterior
from adadim.policies.released import ReleasedDynamicBalancing, ReleasedLinUCB
from balancing_runs import balance, plays
from small_problems import in_torch, small
from stepping import ScriptedDraws, Stepper

# Hyper-parameters


def test_biases_tilt_the_comparison():
    """Base 1 pays .6 against .2, and counts for nothing more once .5 is taken off."""
    for biases, dropped in (((0.0, 0.0), True), ((0.0, 0.5), False)):
        states = [learner.active[0].copy() for _, _, learner in balance((1, 1), (0.2, 0.6), 60, c=0.05, biases=biases)]
        assert any(not state[0] for state in states) == dropped


def test_scalings_share_the_plays():
    *_, (_, _, learner) = balance((1, 1), (0.5, 0.5), 500, scalings=(1.0, 2.0))
    assert plays(learner) == (400, 100)


def test_sqrt_bound_has_a_floor():
    """Section 13.4: the coefficient is at least T^(beta - 1/2)."""
    policy = DynamicBalancing(bound="sqrt", beta=0.75)
    found = policy.candidate(np.array([1.0, 9.0, 100.0]), np.array([4.0, 4.0, 4.0]), 10, 625)
    np.testing.assert_allclose(found, [10.0, 10.0, 20.0], rtol=1e-12)
    assert DynamicBalancing(bound="sqrt").candidate(np.ones(1), np.full(1, 9.0), 10, 625).tolist() == [3.0]


def test_callable_bound_gets_dimensions_plays_and_arms():
    seen = []

    def bound(dims, n, arms):
        seen.append((dims.tolist(), n.tolist(), arms))
        return np.ones_like(n)

    policy = DynamicBalancing(bases=(LinUCB(dim=3), adadim.Random(), LinUCB()), bound=bound)
    learner = policy.start(small().problem)
    decision = learner.ask()
    learner.tell(decision, [0.1])
    assert seen == [([3.0, 24.0, 24.0], [[1.0, 1.0, 1.0]], 40)]
    assert learner.potential[0, decision.memo["base"][0]] == 1.0
    assert learner.potential.sum() == 1.0


@pytest.mark.parametrize(("kind", "expected"), [(DynamicBalancing, {1, 2}), (ReleasedDynamicBalancing, {0, 1, 2})])
def test_ties(kind, expected):
    learner = kind(bases=(LinUCB(dim=1),) * 4).start(small().problem)
    learner.potential[:] = [4.0, 4.0, 4.0, 2.0]
    learner.active[:] = [False, True, True, False]
    drawn = []
    for u in (np.arange(60) + 0.5) / 60:
        learner.draws = ScriptedDraws(u)
        drawn.append(int(learner.choose(learner.everyone)[1]["base"][0]))
    assert set(drawn) == expected
    assert len(set(np.bincount(drawn)[sorted(expected)])) == 1


def test_nested_bases():
    learner = DynamicBalancing(base=LinUCB(ridge=0.7)).start(small().problem)
    assert learner.policies == tuple(LinUCB(ridge=0.7, dim=m) for m in (1, 2, 4, 8, 16))
    ambient = DynamicBalancing(ambient=True).start(small().problem)
    assert ambient.dims.tolist() == [1, 2, 4, 8, 16, 24]


def test_first_pull_of_a_base_is_uniform():
    """Released code: untouched scores tie. The optimistic first pull is the longest truncated arm instead."""
    instance = small(range(40), arms=10)
    uniform = DynamicBalancing(base=ReleasedLinUCB())
    optimistic = DynamicBalancing()
    longest = [instance.problem.actions.truncate(m)[0].squared_norms().argmax(axis=1) for m in (1, 2, 4, 8, 16)]
    hits = []
    for policy in (uniform, optimistic):
        learner, hit = policy.start(instance.problem), []
        for _ in range(5):
            decision = learner.ask()
            both = zip(decision.arms, decision.memo["base"], strict=True)
            hit += [arm == longest[b][r] for r, (arm, b) in enumerate(both)]
            learner.tell(decision, np.zeros(40))
        hits.append(np.mean(hit))
    assert hits[1] == 1.0
    assert hits[0] == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 200))


# Cost, batches, describe, errors


def test_only_the_chosen_base_is_touched(monkeypatch):
    seen, real = [], HostPosterior.resolve

    def counted(self, arms, rewards, rows):
        seen.append(len(arms))
        real(self, arms, rewards, rows)

    monkeypatch.setattr(HostPosterior, "resolve", counted)
    learner = adadim.simulate(DynamicBalancing(), small(range(4), horizon=101)).learner
    assert sum(seen) == 4 * 101
    pulls = np.stack([base.model.regression.counts.sum(axis=1) for base in learner.bases.learners], axis=1)
    np.testing.assert_array_equal(pulls, learner.plays)


def test_one_base_is_the_base():
    instance = small(range(2), horizon=120)
    base = LinUCB(dim=8, ties="lowest")
    stepper = Stepper(DynamicBalancing(bases=(base,)), instance).run()
    assert stepper.arms == Stepper(base, instance).run().arms
    assert stepper.learner.describe()[0]["active"] == [True]


@pytest.mark.parametrize(
    "policy",
    [DynamicBalancing(bound="sqrt"), ReleasedDynamicBalancing(bound="sqrt", reference="upper", c=0.1)],
    ids=["theory", "released"],
)
def test_replications_out_of_step_run_as_if_alone(policy):
    together = Stepper(policy, small(range(5), horizon=150)).stagger(np.random.default_rng(1))
    assert together.lead > 20
    for r in range(5):
        alone = Stepper(policy, small([r], horizon=150)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


def test_torch_with_other_bases(torch):
    bases = (LinUCB(dim=3), adadim.UCB(), adadim.SupLinUCB(radius=0.2))
    policy, instance = DynamicBalancing(bases=bases, bound="sqrt", c=0.1), small(range(2), horizon=150)
    assert Stepper(policy, in_torch(instance, torch)).run().arms == Stepper(policy, instance).run().arms


def test_describe_follows_the_run():
    stepper = Stepper(DynamicBalancing(bound="sqrt", c=0.05), small([3, 9]))
    counts, sums = np.zeros((2, 5), dtype=int), np.zeros((2, 5))
    for t in range(100):
        for r, entry in enumerate(stepper.learner.describe()):
            assert entry["replication"] == (3, 9)[r]
            assert entry["bases"][2] == repr(LinUCB(dim=4))
            assert entry["rounds_of_each_base"] == counts[r].tolist()
            assert sum(entry["rounds_of_each_base"]) == t
            means = [s / n if n else 0.0 for s, n in zip(sums[r], counts[r], strict=True)]
            assert entry["mean_reward_of_each_base"] == pytest.approx(means, abs=1e-12)
            assert entry["active"] == stepper.learner.active[r].tolist()
        at = np.arange(2), stepper.step().memo["base"]
        counts[at] += 1
        sums[at] += [rewards[-1] for rewards in stepper.rewards]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"bases": [LinUCB()]}, TypeError),
        ({"base": None}, TypeError),
        ({"bound": "linear"}, ValueError),
        ({"beta": 1.0}, ValueError),
        ({"scalings": (1.0, 0.0)}, ValueError),
        ({"biases": (0.0, -1.0)}, ValueError),
        ({"delta": 1.0}, ValueError),
        ({"c": 0.0}, ValueError),
        ({"reference": "middle"}, ValueError),
    ],
)
def test_bad_hyper_parameters(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        DynamicBalancing(**changes)


@pytest.mark.parametrize("changes", [{"scalings": (1.0, 2.0)}, {"biases": (0.0,) * 6}])
def test_one_scaling_and_bias_per_base(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        DynamicBalancing(**changes).start(small().problem)
