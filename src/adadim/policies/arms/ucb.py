"""UCB: optimism for K unrelated arms, the features ignored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from adadim.core.arrays import Array, as_numpy, clamp, namespace, zeros
from adadim.core.checks import positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.policies.base import Learner, Memo, Policy, pull_counts
from adadim.policies.confidence import Index, self_normalised_bonus, subgaussian_bonus, ucb1_bonus
from adadim.policies.parameters import Delta
from adadim.policies.player import Clock

UNANSWERED = 1e100  # arms without an answer come first, those that were asked least before the others


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


class ArmStatistics:
    """Pulls and reward sums of `arms` unrelated arms in each replication, and their UCB scores.

    `scale` is the sub-Gaussian scale of the rewards: one number, or an array (R, arms).
    """

    open: Array | None = None  # pulls whose rewards are not known yet, once there are any

    def __init__(self, policy: UCB, arms: int, scale: float | Array, horizon: int | None, reference: Array) -> None:
        self.policy, self.arms, self.scale, self.horizon = policy, arms, scale, horizon
        self.counts, self.sums = (zeros(reference, reference.shape[0], arms) for _ in range(2))

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make room for open pulls if a saved state has some."""
        if saved.get("open") is not None:
            self.open = self.counts * 0.0

    def expect(self, arms: Array, rows: Rows) -> None:
        """Count one pull per replication whose reward is not known yet."""
        if self.open is None:
            self.open = self.counts * 0.0
        rows.add(self.open, arms, 1.0)

    def answer(self, arms: Array, rewards: Array, rows: Rows) -> None:
        """Learn the reward of a pull that `expect` has counted."""
        rows.add(self.open, arms, -1.0)
        self.add(arms, rewards, rows)

    def add(self, arms: Array, rewards: Array, rows: Rows) -> None:
        """Count one pull per replication."""
        rows.add(self.counts, arms, 1.0)
        rows.add(self.sums, arms, rewards)

    def scores(self, rows: Rows, t: Array | None = None) -> Array:
        """UCB index of every arm; infinite for arms never pulled. Without a horizon `t` is what `Clock.now` gives."""
        policy, n = self.policy, rows.of(self.counts)
        xp = namespace(n)
        answered = played = xp.where(n > 0, n, xp.ones_like(n))
        if self.open is not None:  # a width counts all pulls, a mean those that are answered
            played = clamp(n + rows.of(self.open), 1.0)
        delta = policy.confidence(self.horizon if t is None else t)
        scale = self.scale if isinstance(self.scale, float) else rows.of(self.scale)
        if policy.index == "subgaussian":
            width = subgaussian_bonus(played, scale, delta)
        elif policy.index == "ucb1":
            width = ucb1_bonus(played, clamp(xp.sum(n, axis=-1), 1.0)[:, None])
        else:
            width = self_normalised_bonus(played, self.arms, scale, delta, released=policy.index == "released")
        index = rows.of(self.sums) / answered + policy.scale * width
        never = xp.full_like(index, math.inf) if self.open is None else UNANSWERED / (1.0 + rows.of(self.open))
        return xp.where(n > 0, index, never)


class UCBLearner(Learner):
    """State of `UCB`: pulls and reward sums of every arm."""

    fixed_operations = True
    takes_new_arms = True

    def __init__(self, policy: UCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        horizon = None if problem.endless else problem.horizon
        self.statistics = ArmStatistics(policy, problem.arms, problem.noise, horizon, problem.reference)
        self.clock = Clock(problem.reference) if problem.endless else None

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        if self.clock is None:
            return self.largest(self.statistics.scores(rows), rows, self.policy.ties), {}
        t = self.clock.now(rows, self.xp.sum(self.statistics.counts, axis=-1))
        chosen = self.largest(self.statistics.scores(rows, t), rows, self.policy.ties)
        self.clock.tick(rows)
        return chosen, {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.statistics.add(arms, rewards, rows)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        self.statistics.expect(arms, rows)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.statistics.answer(arms, rewards, rows)

    def drop_expected(self) -> None:
        self.statistics.open = None

    def descriptions(self) -> list[dict[str, Any]]:
        """Pulls and leading arm of each replication."""
        counts = as_numpy(self.statistics.counts)
        return [{"replication": r, **pull_counts(n)} for r, n in zip(self.problem.replications, counts, strict=True)]
