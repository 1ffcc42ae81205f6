"""UCB: optimism for K unrelated arms, the features ignored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from adadim.core.arrays import Array, clamp, namespace
from adadim.core.checks import positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.policies.arms.statistics import ArmLearner, ArmStatistics
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import Index, self_normalised_bonus, subgaussian_bonus, ucb1_bonus
from adadim.policies.parameters import Delta
from adadim.policies.player import Clock


@dataclass(frozen=True)
class UCB(Policy):
    """Pull the arm with the largest empirical mean plus confidence width; every arm once first.

    Use it for few arms whose features say nothing; with K >> d features that do, prefer `LinUCB`.

    Parameters
    ----------
    index : {"self-normalised", "subgaussian", "ucb1", "released"}
        "self-normalised" is valid at all times at once; "subgaussian" is sigma sqrt(2 ln(1/delta)/n); "ucb1" assumes
        rewards in [0, 1]; "released" is the index of the paper's released code, kept for comparison.
    delta : float, optional
        Confidence; by default 1/T^2 for "subgaussian" and 1/sqrt(T) otherwise. On a problem without end
        (``horizon=None``) the number t of the round takes the place of T.
    scale : float
        Factor on the width.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Regret O(sqrt(K T ln T)) for sub-Gaussian noise of the scale the problem states.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.UCB(ties="lowest").start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    >>> for reward in (0.1, 0.5, 0.2):
    ...     learner.update(learner.select(), reward)
    >>> learner.select()
    1
    """

    index: Index = "self-normalised"
    delta: Delta | None = None
    scale: Annotated[float, partial(positive, meaning="a factor on the width")] = 1.0
    ties: Ties = "random"

    def confidence(self, horizon: Any) -> Any:
        """The delta in force for a horizon, or for each number of a round."""
        if self.delta is not None:
            return self.delta
        if self.index == "subgaussian":
            return horizon**-2.0
        return 1 / math.sqrt(horizon) if isinstance(horizon, int) else horizon**-0.5

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return UCBLearner(self, problem, streams)


class UCBStatistics(ArmStatistics):
    """The statistics of `UCB`; `scale` is the sub-Gaussian scale of the rewards: one number, or an array (R, arms)."""

    def __init__(self, policy: UCB, arms: int, scale: float | Array, horizon: int | None, reference: Array) -> None:
        super().__init__(arms, reference)
        self.policy, self.scale, self.horizon = policy, scale, horizon

    def scores(self, rows: Rows, t: Array | None = None) -> Array:
        """UCB index of every arm. Without a horizon `t` is what `Clock.now` gives."""
        policy = self.policy
        delta = policy.confidence(self.horizon if t is None else t)
        scale = self.scale if isinstance(self.scale, float) else rows.of(self.scale)

        def width(n: Array) -> Array:
            if policy.index == "subgaussian":
                return policy.scale * subgaussian_bonus(n, scale, delta)
            if policy.index == "ucb1":
                total = namespace(n).sum(rows.of(self.counts), axis=-1)
                return policy.scale * ucb1_bonus(n, clamp(total, 1.0)[:, None])
            released = policy.index == "released"
            return policy.scale * self_normalised_bonus(n, self.arms, scale, delta, released=released)

        return self.index(rows, width)


class UCBLearner(ArmLearner):
    """State of `UCB`."""

    takes_new_arms = True
    statistics: UCBStatistics

    def __init__(self, policy: UCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        horizon = None if problem.endless else problem.horizon
        self.statistics = UCBStatistics(policy, problem.arms, problem.noise, horizon, problem.reference)
        self.clock = Clock(problem.reference) if problem.endless else None

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        t = None
        if self.clock is not None:
            t = self.clock.now(rows, self.xp.sum(self.statistics.counts, axis=-1))
            self.clock.tick(rows)
        return self.largest(self.statistics.scores(rows, t), rows, self.policy.ties), {}
