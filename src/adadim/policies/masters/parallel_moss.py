"""Parallel (Zhu and Nowak 2020): copies of MOSS on samples of many sizes, of which the best so far plays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from adadim.core.arrays import Array
from adadim.core.checks import finite
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.policies.arms.moss import MOSS, MOSSScale
from adadim.policies.base import Learner, Policy
from adadim.policies.masters.base import (
    CountingMasterLearner,
)


@dataclass(frozen=True)
class ParallelMOSS(Policy):
    """Run MOSS on random samples of growing sizes, and every sqrt(T) rounds go on with the copy of least regret.

    Use it when the best mean is known but not how many arms have it: without that knowledge `MOSSPlusPlus`.

    Parameters
    ----------
    best_mean : float
        Mean reward mu* of a best arm; what the copies have lost is measured against it.
    scale, ties
        Of the copies, as in `MOSS`.

    Notes
    -----
    There are ceil(ln T) copies; copy j plays ceil(T^(j/q) ln(sqrt(T))) arms, at most all. It is said to lose only
    logarithms against the best sample size, which is unverified. mu*, T and the scale of the noise must be known.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.many_best(arms=500, alpha=0.2, horizon=600)
    >>> outcome = adadim.simulate(adadim.ParallelMOSS(best_mean=0.9), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    600
    """

    best_mean: Annotated[float, partial(finite, wanted="be the mean reward of a best arm, e.g. 0.9")] = 1.0
    scale: MOSSScale | None = None
    ties: Ties = "random"

    def policies(self, problem: Problem) -> list[MOSS]:
        """The copies of MOSS on a problem."""
        sizes = [min(size, problem.arms) for size in parallel_sizes(problem.horizon)]
        return [MOSS(sample=size, scale=self.scale, ties=self.ties) for size in sizes]

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return ParallelMOSSLearner(self, problem, streams)


def parallel_sizes(horizon: int) -> list[int]:
    """Arms of each copy: min(ceil(T^(j/q) ln(sqrt(T))), T) for j = 1..q, q = ceil(ln T)."""
    q = max(1, math.ceil(math.log(horizon)))
    return [max(1, min(math.ceil(horizon ** (j / q) * math.log(math.sqrt(horizon))), horizon)) for j in range(1, q + 1)]


class ParallelMOSSLearner(CountingMasterLearner):
    """State of `ParallelMOSS`: plays and rewards of the copies, and which one plays how much longer."""

    policy: ParallelMOSS

    def __init__(self, policy: ParallelMOSS, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.interval = math.ceil(math.sqrt(problem.horizon))
        self.base, self.played = self.zeros(integers=True), self.zeros(integers=True)

    def scores(self, rows: Rows) -> Array:
        """Minus what each copy has lost so far."""
        return rows.of(self.rewards) - self.policy.best_mean * rows.of(self.plays)

    def next_base(self, rows: Rows) -> Array:
        switch = rows.of(self.played) % self.interval == 0
        return self.xp.where(switch, super().next_base(rows), rows.of(self.base))

    def judge(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        rows.put(self.base, chosen)
        rows.put(self.played, rows.of(self.played) + 1)

    def descriptions(self) -> list[dict[str, Any]]:
        return self.describe_counts(regret_of_each_base=-self.scores(self.everyone))
