"""MOSS (Audibert and Bubeck 2009): the index that is optimal in the worst case over K unrelated arms."""

from __future__ import annotations

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
from adadim.policies.arms.statistics import ArmLearner, ArmStatistics
from adadim.policies.base import Learner, Memo, Policy

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


def moss_width(n: Array, horizon: float, arms: int, scale: Any) -> Array:
    """scale sqrt(max(ln(T / (K n)), 0) / n)."""
    xp = namespace(n)
    return scale * xp.sqrt(clamp(xp.log(horizon / (arms * n)), 0.0) / n)


def sampled_arms(streams: Streams, count: int, arms: int, reference: Array) -> Array:
    """`count` of the arms, uniformly without replacement in each replication (R, count); all in order if that many.

    The streams must not have drawn anything yet.
    """
    if count >= arms:
        return like(np.tile(np.arange(arms), (len(streams.generators), 1)), reference)
    return like(np.argsort(streams.table(arms), axis=1)[:, :count].copy(), reference)


class MOSSLearner(ArmLearner):
    """State of `MOSS` on all arms."""

    def __init__(self, policy: MOSS, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        self.count = min(policy.sample or problem.arms, problem.arms)
        self.scale = 2.0 * problem.noise if policy.scale is None else policy.scale
        self.horizon = problem.horizon  # asked for now: a problem without end is refused at the start
        self.statistics = ArmStatistics(self.count, problem.reference)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        width = partial(moss_width, horizon=self.horizon, arms=self.count, scale=self.scale)
        return self.largest(self.statistics.index(rows, width), rows, self.policy.ties), {}

    def descriptions(self) -> list[dict[str, Any]]:
        rows = super().descriptions()
        return [{"replication": row["replication"], "arms_in_play": self.count, **row} for row in rows]


class SampledMOSSLearner(MOSSLearner):
    """State of `MOSS` on a sample of the arms, whose statistics it keeps."""

    takes_any_arm = False  # those outside the sample mean nothing to it

    def __init__(self, policy: MOSS, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.sample = sampled_arms(streams.child(0), self.count, problem.arms, problem.reference)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        local, _ = super().choose(rows)
        return rows.at(self.sample, local), {"local": local}

    def positions(self, arms: Array, memo: Memo) -> Array:
        return memo["local"]

    def descriptions(self) -> list[dict[str, Any]]:
        rows = super().descriptions()
        for sample, row in zip(as_numpy(self.sample), rows, strict=True):
            row["most_pulled_arm"] = int(sample[row["most_pulled_arm"]])
        return rows
