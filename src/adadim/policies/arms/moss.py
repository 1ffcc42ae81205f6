"""MOSS (Audibert and Bubeck 2009): the index that is optimal in the worst case over K unrelated arms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, clamp, like, namespace
from adadim.core.checks import integer, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.policies.arms.ucb import UNANSWERED
from adadim.policies.base import Learner, Memo, Policy, pull_counts

MOSSScale = Annotated[float, partial(positive, meaning="a factor on the width, 1 for rewards in [0, 1], or None")]


@dataclass(frozen=True)
class MOSS(Policy):
    """Pull the arm with the largest mean plus sqrt(max(ln(T / (K n)), 0) / n); every arm once first.

    Use it for unrelated arms when T is known: it saves the logarithm that `UCB` pays. With many more arms than rounds
    and many good ones among them, let it play on a random `sample`; when nobody knows how many are good,
    `MOSSPlusPlus`. It ignores the features: with K >> d features that say something, prefer `LinUCB`.

    Parameters
    ----------
    sample : int, optional
        Play only this many arms, drawn uniformly without replacement in each replication; all of them by default.
    scale : float, optional
        Factor on the width; 2 sigma by default, which is 1 for rewards in [0, 1] (sigma = 1/2).
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Regret O(sqrt(KT)) over the arms in play, for sub-Gaussian noise of known scale. If m of n arms are best and
    n/m <= 2 T^alpha, a sample of 2 T^alpha ln(sqrt(T)) arms holds a best one with probability 1 - 1/sqrt(T), and the
    regret is O~(T^((1 + alpha)/2)).

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.MOSS(ties="lowest").start(adadim.Problem(np.eye(3), horizon=9, noise=0.5))
    >>> for reward in (0.1, 0.5, 0.2):
    ...     learner.update(learner.select(), reward)
    >>> learner.select()
    1
    """

    sample: Annotated[int, partial(integer, meaning="the number of arms to play, or None for all")] | None = None
    scale: MOSSScale | None = None
    ties: Ties = "random"

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        everything = self.sample is None or self.sample >= problem.arms
        return (MOSSLearner if everything else SampledMOSSLearner)(self, problem, streams)


def moss_index(
    pulls: Array, sums: Array, horizon: float, arms: int, scale: Any, unanswered: Array | None = None
) -> Array:
    """MOSS index: mean + scale sqrt(max(ln(T / (K n)), 0) / n) after n pulls; infinite for arms never pulled.

    Pulls whose rewards are not known yet count in the width alone.
    """
    xp, answered = namespace(pulls), clamp(pulls, 1.0)
    n = answered if unanswered is None else clamp(pulls + unanswered, 1.0)
    index = sums / answered + scale * xp.sqrt(clamp(xp.log(horizon / (arms * n)), 0.0) / n)
    never = xp.full_like(index, math.inf) if unanswered is None else UNANSWERED / (1.0 + unanswered)
    return xp.where(pulls > 0, index, never)


def sampled_arms(streams: Streams, count: int, arms: int, reference: Array) -> Array:
    """`count` of the arms, uniformly without replacement in each replication (R, count); all in order if that many.

    The streams must not have drawn anything yet.
    """
    if count >= arms:
        return like(np.tile(np.arange(arms), (len(streams.generators), 1)), reference)
    return like(np.argsort(streams.table(arms), axis=1)[:, :count].copy(), reference)


class MOSSLearner(Learner):
    """State of `MOSS` on all arms: pulls and reward sums."""

    fixed_operations = True
    open: Array | None = None  # pulls whose rewards are not known yet, once there are any

    def __init__(self, policy: MOSS, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        self.count = min(policy.sample or problem.arms, problem.arms)
        self.scale = 2.0 * problem.noise if policy.scale is None else policy.scale
        self.pulls, self.sums = self.zeros(self.count), self.zeros(self.count)
        self.horizon = problem.horizon

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        unanswered = None if self.open is None else rows.of(self.open)
        known = (rows.of(self.pulls), rows.of(self.sums))
        index = moss_index(*known, self.horizon, self.count, self.scale, unanswered)
        return self.largest(index, rows, self.policy.ties), {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        local = self.positions(arms, memo)
        rows.add(self.pulls, local, 1.0)
        rows.add(self.sums, local, rewards)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        if self.open is None:
            self.open = self.pulls * 0.0
        rows.add(self.open, self.positions(arms, memo), 1.0)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        rows.add(self.open, self.positions(arms, memo), -1.0)
        self.absorb(arms, rewards, rows, memo)

    def drop_expected(self) -> None:
        self.open = None

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make room for open pulls if a saved state has some."""
        if saved.get("open") is not None:
            self.open = self.pulls * 0.0

    def positions(self, arms: Array, memo: Memo) -> Array:
        """Where arms stand in `pulls`."""
        return arms

    def arm(self, r: int, position: int) -> int:
        """The arm at a position of `pulls` in replication `r`."""
        return position

    def descriptions(self) -> list[dict[str, Any]]:
        """Arms in play, pulls and leading arm of each replication."""
        described = []
        for r, number in enumerate(self.problem.replications):
            pulled = pull_counts(as_numpy(self.pulls)[r].astype(int))
            pulled["most_pulled_arm"] = self.arm(r, pulled["most_pulled_arm"])
            described.append({"replication": number, "arms_in_play": self.count, **pulled})
        return described


class SampledMOSSLearner(MOSSLearner):
    """State of `MOSS` on a sample of the arms, `pulls` and `sums` being theirs."""

    takes_any_arm = False  # those outside the sample mean nothing to it

    def __init__(self, policy: MOSS, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.sample = sampled_arms(streams.child(0), self.count, problem.arms, problem.reference)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        local, _ = super().choose(rows)
        return rows.at(self.sample, local), {"local": local}

    def positions(self, arms: Array, memo: Memo) -> Array:
        return memo["local"]

    def arm(self, r: int, position: int) -> int:
        return int(self.sample[r, position])
