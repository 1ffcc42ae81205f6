"""A policy of your own on whole arrays: UCB with a width that you choose, for any number of replications at once.

adadim run examples/vectorised_study.toml --plugin examples/vectorised_policy.py
"""

from dataclasses import dataclass

import adadim


@dataclass(frozen=True)
class WidthUCB(adadim.Policy):
    """Pull the arm with the largest mean plus `width` / sqrt(pulls); an arm never pulled counts as pulled once."""

    width: float = 0.5

    def learner(self, problem, streams):
        return WidthUCBLearner(self, problem, streams)


class WidthUCBLearner(adadim.Learner):
    fixed_operations = True  # no `if` and no loop below looks at the data

    def __init__(self, policy, problem, streams):
        super().__init__(problem, streams)
        self.policy = policy
        # (replications, arms)
        self.pulls, self.sums = self.zeros(problem.arms), self.zeros(problem.arms)

    def choose(self, rows):
        pulls = rows.of(self.pulls).clip(1.0)
        scores = rows.of(self.sums) / pulls + self.policy.width / pulls**0.5
        return self.choose_largest(scores, rows)

    def absorb(self, arms, rewards, rows, memo):
        rows.add(self.pulls, arms, 1.0)
        rows.add(self.sums, arms, rewards)
