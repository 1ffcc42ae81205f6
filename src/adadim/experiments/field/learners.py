"""Learners that only these experiments need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adadim.backend.arrays import Array, clamp
from adadim.backend.rows import Rows
from adadim.checks import integer
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import ucb1_bonus
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["OwnArmsUCB"]


@dataclass(frozen=True)
class OwnArmsUCB(Policy):
    """UCB1 on some arms in a row, as if there were no others.

    Parameters
    ----------
    first, count : int
        Number of the first arm, and how many arms there are.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.owned_arms(best=0.7, horizon=300)
    >>> pulls = adadim.simulate(OwnArmsUCB(first=10, count=5), instance).pulls
    >>> int(pulls[0, 10:15].sum())
    300
    """

    first: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        integer(self.first, "first", least=0, meaning="the number of an arm")
        integer(self.count, "count", meaning="of arms")

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        integer(self.first + self.count, "first + count", most=problem.arms, meaning="the number of arms")
        return OwnArmsUCBLearner(self, problem, streams)


class OwnArmsUCBLearner(Learner):
    """State of `OwnArmsUCB`."""

    fixed_operations = True
    takes_any_arm = False

    def __init__(self, policy: OwnArmsUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        self.pulls, self.sums = self.zeros(policy.count), self.zeros(policy.count)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        xp, n = self.xp, rows.of(self.pulls)
        counted = clamp(n, 1.0)
        index = rows.of(self.sums) / counted + ucb1_bonus(counted, clamp(xp.sum(n, axis=-1)[:, None], 1.0))
        index = xp.where(n > 0, index, xp.full_like(index, float("inf")))
        return self.largest(index, rows) + self.policy.first, {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        own = clamp(arms - self.policy.first, 0)
        rows.add(self.pulls, own, 1.0)
        rows.add(self.sums, own, rewards)

    def descriptions(self) -> list[dict[str, Any]]:
        """Pulls of each arm, in each replication."""
        return [
            {"replication": number, "first_arm": self.policy.first, "pulls_of_each_arm": self.pulls[r].tolist()}
            for r, number in enumerate(self.problem.replications)
        ]
