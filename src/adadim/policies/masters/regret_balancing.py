"""Regret Balancing (Abbasi-Yadkori, Pacchiano and Phan 2020): play the base whose empirical regret is least."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from adadim.backend.arrays import Array, clamp
from adadim.backend.rows import Rows
from adadim.policies.base import Learner
from adadim.policies.masters.bounds import Bound, SqrtBound, check_bound
from adadim.policies.masters.learner import Master
from adadim.policies.masters.statistics import CountingMasterLearner, check_counting
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["RegretBalancing"]


@dataclass(frozen=True)
class RegretBalancing(Master):
    """Balance the empirical regrets of several base learners, given a regret bound of the best of them.

    The most optimistic value that any base supports, b = max_i (u_i + U(n_i)) / n_i, is compared with what each base
    has earned; the base with the least n_i b - u_i is played. Nobody is ever dropped. Use it when one bound U is known
    for the best base, but not which base that is. With a bound for each base, which may be false, use
    `BoundBalancing`; without any bound, `D3RB`.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions.
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a nested base in all d features.
    bound : Bound
        U(n), the same function for all bases: it is evaluated at complexity 1. Too small a U holds on to an early
        winner, too large a U plays the bases in turn; it must grow at least as sqrt(n).
    reward_scale : float, optional
        Factor on U, 1 for rewards in [0, 1]; by default sigma + range/2 (range 1 where it is unknown).

    Notes
    -----
    If U bounds the regret of the best base at all times with probability 1 - delta, the regret is at most
    M max_i U(n_i(T)) with that probability. U must be known beforehand. Not a method for the Pareto frontier: where d*
    is beyond what U covers, nothing is promised. An unplayed base is played first, which the source leaves open.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> outcome = adadim.simulate(adadim.RegretBalancing(), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    200
    """

    bound: Bound = field(default_factory=SqrtBound)
    reward_scale: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counting(self.reward_scale)
        check_bound(self.bound)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return RegretBalancingLearner(self, problem, streams)


class RegretBalancingLearner(CountingMasterLearner):
    """State of `RegretBalancing`."""

    def __init__(self, policy: RegretBalancing, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.policies(problem), policy.reward_scale, problem, streams)
        self.policy = policy

    def regrets(self, rows: Rows) -> tuple[Array, Array]:
        """Optimistic value b (n,) and empirical regrets G_i = n_i b - u_i (n, M); every base counts as played once."""
        n, earned = clamp(rows.of(self.plays), 1.0), rows.of(self.rewards)
        optimistic = (earned + rows.of(self.scale) * self.policy.bound(n * 0.0 + 1.0, n)) / n
        best = self.xp.max(optimistic, axis=-1)
        return best, n * best[:, None] - earned

    def scores(self, rows: Rows) -> Array:
        _, regret = self.regrets(rows)
        return self.xp.where(rows.of(self.plays) > 0, -regret, self.xp.full_like(regret, math.inf))

    def judge(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        return

    def descriptions(self) -> list[dict[str, Any]]:
        """Plays, mean reward and empirical regret of each base, in each replication."""
        return self.describe_counts(empirical_regret_of_each_base=self.regrets(self.everyone)[1])
