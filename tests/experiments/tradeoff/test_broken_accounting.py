"""The check against the lower bound finds policies that know too much, and regret that is counted wrongly."""

import numpy as np
import pytest

import adadim
from adadim import instances
from adadim.experiments import tradeoff
from adadim.study import Results
from adadim.theory import lower_bound_family


class Peeker:
    """Looks for a hidden arm, round robin and then for good, only if the range of means tells that there is one."""

    def __init__(self, problem, rng):
        self.hard = problem.reward_range > 0.5
        self.sums, self.t = np.zeros(len(problem.features)), 0

    def select(self):
        explore = self.t < 6 * len(self.sums)
        return (self.t % len(self.sums) if explore else int(self.sums.argmax())) if self.hard else 0

    def update(self, arm, reward):
        self.t += 1
        if self.t <= 6 * len(self.sums):
            self.sums[arm] += reward


class Halved(Results):
    """Charges half the regret on the hard problems."""

    def final(self, instance, policy, trials=None):
        return super().final(instance, policy, trials) * (0.5 if self.parameters(instance)["target"] else 1.0)


class WrongRival(Results):
    """Charges pulls against a_0, the best arm of the easy problem, not the best arm: Delta/2 a round too little."""

    def final(self, instance, policy, trials=None):
        p = self.parameters(instance)
        return super().final(instance, policy, trials) - (p["horizon"] * p["delta"] / 2 if p["target"] else 0.0)


class Shuffled(Results):
    """Files the regrets of the hard problems under the easy one and the other way round."""

    def final(self, instance, policy, trials=None):
        target = self.parameters(instance)["target"]
        other = instance.replace(f"target={target}", "target=0" if target else "target=1")
        return super().final(other, policy, trials)


@pytest.mark.parametrize(
    ("broken", "fewest"),
    [
        (Halved, {"always a_0", "Corral", "PrefixLinUCB"}),
        (WrongRival, {"always a_0", "SmoothCorral", "LinUCB", "Random"}),
        (Shuffled, {"always a_0", "Corral", "PrefixLinUCB"}),
    ],
)
def test_broken_accounting_is_found(bounds, bound_checks, broken, fewest):
    assert not any(check.verdict == "violated" for check in bound_checks)
    wrong = tradeoff.lower_bound_checks(broken(bounds.folder))
    caught = {check.policy for check in wrong if check.verdict == "violated"}
    assert caught
    assert caught >= fewest
    for check in wrong:
        assert (check.verdict == "violated") == (check.high < -1e-6)


def test_a_policy_told_which_member_it_meets_would_break_the_bound():
    """Why `instances.lower_bound` tells every member's policy the same range of means."""
    horizon, alpha, delta = 200, 0.5, 0.6  # 7 hard problems
    family = lower_bound_family(horizon, alpha, delta=delta)
    policy = adadim.Single(Peeker)
    fair, leaky = [], []
    for target in range(8):
        honest = instances.lower_bound(horizon=horizon, alpha=alpha, delta=delta, target=target, replications=range(4))
        assert honest.problem.reward_range.tolist() == [delta] * 4
        revealing = adadim.Instance(
            honest.problem.actions, theta=honest.theta, horizon=horizon, noise=0.5, replications=range(4)
        )
        fair.append(adadim.simulate(policy, honest).final.mean())
        leaky.append(adadim.simulate(policy, revealing).final.mean())
    assert leaky[0] == 0
    assert np.mean(leaky[1:]) < 0.9 * tradeoff.bound_at(family, 0.0)
    assert np.mean(fair[1:]) > tradeoff.bound_at(family, fair[0])
