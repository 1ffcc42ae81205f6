"""What masters share that judge their bases by plays and rewards: the candidate regret bounds, and the counts.

A bound R_i(n) is stated for rewards in [0, 1]; a master multiplies it by the scale of the rewards. It is a function of
the number of plays n and of a base's complexity d_i, which is the base's dimension unless the master is given another.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, clamp, like, namespace
from adadim.core.checks import between, check_fields, instance_of, is_number, not_negative, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import argmax
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.policies.base import Memo, Policy
from adadim.policies.masters.base import MasterLearner, dims_of

Factor = Annotated[float, partial(positive, meaning="the factor of the bound, e.g. 1")]


@dataclass(frozen=True)
class Bound(ABC):
    """A regret bound R_i(n) for rewards in [0, 1]; derive a frozen dataclass from it to have one of your own.

    Examples
    --------
    >>> import numpy as np
    >>> SqrtBound(c=2.0)(np.array([1.0, 4.0]), np.array([9.0, 9.0]))
    array([ 6., 12.])
    """

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def __call__(self, complexity: Array, plays: Array) -> Array:
        """R_i(n) for complexities d_i and plays n of at least 1."""


@dataclass(frozen=True)
class SqrtBound(Bound):
    """R_i(n) = c sqrt(d_i n), the form for finitely many arms.

    Examples
    --------
    >>> SqrtBound() == SqrtBound(c=1.0)
    True
    """

    c: Factor = 1.0

    def __call__(self, complexity: Array, plays: Array) -> Array:
        return self.c * namespace(plays).sqrt(complexity * plays)


@dataclass(frozen=True)
class LinearBound(Bound):
    """R_i(n) = c d_i sqrt(n), the form of OFUL, for any number of arms.

    Examples
    --------
    >>> import numpy as np
    >>> LinearBound()(np.array([3.0]), np.array([4.0]))
    array([6.])
    """

    c: Factor = 1.0

    def __call__(self, complexity: Array, plays: Array) -> Array:
        return self.c * complexity * namespace(plays).sqrt(plays)


@dataclass(frozen=True)
class PowerBound(Bound):
    """R_i(n) = c d_i^dim_power n^power.

    Examples
    --------
    >>> import numpy as np
    >>> PowerBound(power=1.0)(np.array([4.0]), np.array([3.0]))
    array([6.])
    """

    c: Factor = 1.0
    dim_power: Annotated[float, not_negative] = 0.5
    power: Annotated[float, partial(between, low=0, high=1)] = 0.5

    def __call__(self, complexity: Array, plays: Array) -> Array:
        return self.c * complexity**self.dim_power * plays**self.power


@dataclass(frozen=True)
class SqrtLogBound(Bound):
    """R_i(n) = c sqrt(d_i n max(ln n, least_log)), the form for UCB on d_i arms at any time.

    With ``least_log=0`` it claims that a first play costs nothing, which no learner can promise.

    Examples
    --------
    >>> import numpy as np
    >>> SqrtLogBound()(np.array([4.0]), np.array([1.0, 10.0])).round(6)
    array([2.      , 9.597052])
    """

    c: Factor = 1.0
    least_log: Annotated[float, not_negative] = 1.0

    def __call__(self, complexity: Array, plays: Array) -> Array:
        xp = namespace(plays)
        return self.c * xp.sqrt(complexity * plays * clamp(xp.log(plays), self.least_log))


def claimed(bound: Bound, complexity: Array, plays: Array) -> Array:
    """R_i(n_i), and 0 for a base never played."""
    xp, value = namespace(plays), bound(complexity, clamp(plays, 1.0))
    return xp.where(plays > 0, value, xp.zeros_like(value))


def mean_width(plays: Array, bases: int, delta: float) -> Array:
    """sqrt(ln(M max(ln n, 1) / delta) / n): how far a mean of n rewards in [0, 1] is from what it should be."""
    xp = namespace(plays)
    return xp.sqrt(xp.log(bases * clamp(xp.log(plays), 1.0) / delta) / plays)


def check_numbers(value: Any, name: str) -> None:
    """Raise unless `value` is a tuple of positive finite numbers."""
    if not isinstance(value, tuple) or not all(map(is_number, value)):
        raise InvalidTypeError(f"{name} must be a tuple of numbers, one for each base, or None, got {value!r}")
    if not all(0 < number < math.inf for number in value):
        raise InvalidValueError(f"{name} must be finite numbers above 0, got {value!r}")


RegretBound = Annotated[Bound, partial(instance_of, kind=Bound, wanted="a Bound such as SqrtBound(c=1.0)")]
BaseNumbers = Annotated[tuple[float, ...], check_numbers]
RewardScale = Annotated[float, partial(positive, meaning="1 for rewards in [0, 1], or None")]


def per_base(values: Sequence[float], count: int, name: str, reference: Array) -> Array:
    """Numbers of the bases as an array (M,); raises unless there is one for each."""
    if len(values) != count:
        raise InvalidValueError(f"{name} must have one entry for each of the {count} bases, got {len(values)}")
    return like(np.array(values, dtype=float), reference)


class CountingMasterLearner(MasterLearner):
    """A master that plays the base with the largest score, made from n_i plays and reward sums u_i.

    `scale` (R, 1) is that of the rewards: `reward_scale` of the policy, or sigma + range/2, which is 1 for rewards in
    [0, 1]; an unknown range counts as 1.
    """

    no_contexts = ""
    needs_sets = "iid"

    def __init__(
        self, policy: Any, problem: Problem, streams: Streams, policies: Sequence[Policy] | None = None
    ) -> None:
        super().__init__(policy, problem, streams, policies)
        self.plays, self.rewards = self.zeros(len(self.bases)), self.zeros(len(self.bases))
        if policy.reward_scale is not None:
            scale = np.full(len(problem), float(policy.reward_scale))
        else:
            spread = np.ones(len(problem)) if problem.reward_range is None else problem.reward_range
            scale = problem.noise + 0.5 * spread
        self.scale = like(scale, problem.reference)[:, None]

    @abstractmethod
    def scores(self, rows: Rows) -> Array:
        """Scores (n, M) of the bases, of which the largest is played; -inf excludes one."""

    def judge_before(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        """Draw conclusions from a round before it is counted; by default none."""
        return

    def judge(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        """Draw conclusions from a round once it is counted; by default none."""
        return

    def complexities(self, given: tuple[float, ...] | None) -> Array:
        """d_i of each base (M,): as given, or its dimension, or the problem's."""
        values = dims_of(self.policies, self.problem) if given is None else given
        return per_base(values, len(self.bases), "complexities", self.problem.reference)

    def means(self, rows: Rows) -> Array:
        """u_i / n_i, and 0 for a base never played."""
        return rows.of(self.rewards) / clamp(rows.of(self.plays), 1.0)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        return self.bases.choose(argmax(self.scores(rows), self.draws.uniforms(rows)), rows)

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        chosen = memo["base"]
        self.bases.absorb(chosen, arms, rewards, rows, memo)
        self.judge_before(chosen, rewards, rows)
        rows.add(self.plays, chosen, 1.0)
        rows.add(self.rewards, chosen, rewards)
        self.judge(chosen, rewards, rows)

    def describe_counts(self, **columns: Any) -> list[dict[str, Any]]:
        """Plays and mean reward of each base, and `columns`, in each replication."""
        return self.describe_bases(
            rounds_of_each_base=self.xp.astype(self.plays, self.xp.int64),
            mean_reward_of_each_base=self.means(self.everyone),
            **columns,
        )
