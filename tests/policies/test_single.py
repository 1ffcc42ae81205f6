"""Policies written for one replication."""

import numpy as np
import pytest

import adadim
import reference
from adadim import LinUCB, Random, Single, instances, simulate
from adadim.core.randomness import Purpose
from scripted_policies import Scripted, scripted


def test_single_random_equals_random():
    class OneRandom:
        def __init__(self, problem, rng):
            self.arms, self.rng = len(problem.features), rng

        def select(self):
            return int(self.rng.random() * self.arms)

        def update(self, arm, reward):
            pass

    instance = instances.sphere(arms=30, dim=4, intrinsic_dim=2, horizon=600, replications=range(5))
    one, many = (simulate(policy, instance, seed=8, record=600) for policy in (Single(OneRandom), Random()))
    np.testing.assert_array_equal(one.regret, many.regret)


@pytest.mark.parametrize("levels", [None, [2, 6]], ids=["plain", "expressive"])
def test_single_linucb_equals_linucb(levels):
    def textbook(problem, rng):
        return reference.LinUCB(problem.features, problem.horizon, problem.noise, 0.1, rng)

    instance = instances.ball(
        arms=20, dim=6, intrinsic_dim=2, horizon=300, replications=[3, 1], expressive=levels is not None, levels=levels
    )
    one, many = (simulate(policy, instance, record=300) for policy in (Single(textbook), LinUCB()))
    np.testing.assert_array_equal(one.pulls, many.pulls)
    np.testing.assert_array_equal(one.regret, many.regret)


def test_single_knows_the_problem():
    seen = []

    def make(problem, rng):
        seen.append((problem, rng))
        return Scripted([0] * 3, [])

    instance = instances.ball(arms=5, dim=3, intrinsic_dim=1, horizon=3, noise=0.4, replications=[8, 2])
    simulate(Single(make), instance, seed=1)
    for r, (problem, rng) in enumerate(seen):
        np.testing.assert_array_equal(problem.features, instance.problem.actions.dense(r))
        assert (problem.horizon, problem.noise) == (3, 0.4)
        assert problem.reward_range == pytest.approx(np.ptp(instance.means[r]))
        expected = np.random.Philox(np.random.SeedSequence(1, spawn_key=(int(Purpose.POLICY), [8, 2][r])))
        assert rng.random() == np.random.Generator(expected).random()
    unknown = adadim.Instance(np.eye(2), theta=[0.1, 0.2], horizon=3, noise=0.1, reward_range="unknown")
    simulate(Single(make), unknown)
    assert seen[-1][0].reward_range is None


def test_single_choosing_an_arm_that_does_not_exist():
    policy, _ = scripted([0, 9])
    with pytest.raises(ValueError, match=r"Scripted\.select\(\) must be in 0\.\.3, got 9"):
        simulate(policy, instances.ball(arms=4, dim=2, intrinsic_dim=1, horizon=3))


def test_single_needs_a_callable():
    with pytest.raises(TypeError, match=r"make must be callable as make\(problem, rng\), got 3"):
        Single(3)
