"""UCB: optimism for K unrelated arms, the features ignored."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from adadim.arrays import ALL, Array, Rows, as_numpy, clamp, device_of, namespace, take, tally
from adadim.errors import InvalidValueError
from adadim.policies.base import Learner, Policy
from adadim.policies.confidence import (
    Index,
    self_normalised_bonus,
    subgaussian_bonus,
    ucb1_bonus,
)
from adadim.policies.ties import Ties, argmax, check_ties
from adadim.problem import Problem, check_positive
from adadim.randomness import Streams

__all__ = ["UCB", "ArmStatistics"]


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
        Confidence; by default 1/T^2 for "subgaussian" and 1/sqrt(T) otherwise.
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
    ...     arms = learner.select()
    ...     learner.update(arms, [reward])
    >>> learner.select()
    array([1])
    """

    index: Index = "self-normalised"
    delta: float | None = None
    scale: float = 1.0
    ties: Ties = "random"

    def __post_init__(self) -> None:
        if self.index not in ("self-normalised", "subgaussian", "ucb1", "released"):
            raise InvalidValueError(
                f"index must be 'self-normalised', 'subgaussian', 'ucb1' or 'released', got {self.index!r}"
            )
        if self.delta is not None and not 0 < self.delta < 1:
            raise InvalidValueError(f"delta must be strictly between 0 and 1, got {self.delta!r}")
        check_positive(self.scale, "scale", "a factor on the width")
        check_ties(self.ties)

    def confidence(self, horizon: int) -> float:
        """The delta in force for a horizon."""
        if self.delta is not None:
            return self.delta
        return horizon**-2.0 if self.index == "subgaussian" else 1 / math.sqrt(horizon)

    def _start(self, problem: Problem, streams: Streams) -> Learner:
        return _UCBLearner(self, problem, streams)


class ArmStatistics:
    """Pulls and reward sums of `arms` unrelated arms in each replication, and their UCB scores.

    `scale` is the sub-Gaussian scale of the rewards: one number, or an array (R, arms).
    """

    def __init__(self, policy: UCB, arms: int, scale: float | Array, horizon: int, reference: Array) -> None:
        count = reference.shape[0]
        xp, place = namespace(reference), device_of(reference)
        self.xp, self.policy, self.arms, self.scale, self.horizon = xp, policy, arms, scale, horizon
        self.counts = xp.zeros((count, arms), dtype=xp.float64, device=place)
        self.sums = xp.zeros((count, arms), dtype=xp.float64, device=place)

    def add(self, arms: Array, rewards: Array, rows: Rows = ALL) -> None:
        """Count one pull per replication."""
        tally(self.counts, rows, arms, 1.0)
        tally(self.sums, rows, arms, rewards)

    def scores(self, rows: Rows = ALL) -> Array:
        """UCB index of every arm; infinite for arms never pulled."""
        xp, policy, n = self.xp, self.policy, take(self.counts, rows)
        played = xp.where(n > 0, n, xp.ones_like(n))
        delta = policy.confidence(self.horizon)
        scale = self.scale if isinstance(self.scale, float) else take(self.scale, rows)
        if policy.index == "subgaussian":
            width = subgaussian_bonus(played, scale, delta)
        elif policy.index == "ucb1":
            width = ucb1_bonus(played, clamp(xp.sum(n, axis=-1), 1.0)[:, None])
        else:
            width = self_normalised_bonus(played, self.arms, scale, delta, released=policy.index == "released")
        index = take(self.sums, rows) / played + policy.scale * width
        return xp.where(n > 0, index, xp.full_like(index, math.inf))


class _UCBLearner(Learner):
    takes_masks = True

    def __init__(self, policy: UCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem)
        self._draws = streams.beside(problem.actions.base, problem.horizon)
        self.policy = policy
        base = problem.actions.base
        self.statistics = ArmStatistics(policy, problem.arms, problem.noise, problem.horizon, base)

    def _select(self, rows: Rows) -> Array:
        draws = self._draws.uniforms(rows) if self.policy.ties == "random" else None
        return argmax(self.statistics.scores(rows), draws)

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        self.statistics.add(arms, rewards, rows)

    def _phase(self) -> Hashable:
        return type(self).__name__

    def describe(self) -> list[dict[str, Any]]:
        """Pulls and leading arm of each replication."""
        counts = as_numpy(self.statistics.counts)
        return [
            {
                "replication": r,
                "pulls": int(n.sum()),
                "most pulled arm": int(n.argmax()),
                "its pulls": int(n.max()),
            }
            for r, n in zip(self.problem.replications, counts, strict=True)
        ]
