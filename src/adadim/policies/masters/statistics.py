"""What masters that count know of their bases: plays, reward sums, the scale of the rewards, widths of means."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from adadim.backend.arrays import Array, clamp, like, namespace
from adadim.backend.rows import Rows
from adadim.backend.ties import argmax
from adadim.checks import between, is_number, positive
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.policies.base import Memo, Policy
from adadim.policies.masters.learner import MasterLearner, dims_of
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["CountingMasterLearner", "check_counting", "check_numbers", "mean_width", "per_base"]


def check_counting(reward_scale: float | None, delta: float | None = None) -> None:
    """Raise unless the hyper-parameters that such masters share are possible."""
    if reward_scale is not None:
        positive(reward_scale, "reward_scale", "1 for rewards in [0, 1], or None")
    if delta is not None:
        between(delta, "delta", 0, 1, "()")


def check_numbers(values: tuple[float, ...] | None, name: str, least: float = 0.0) -> None:
    """Raise unless `values` is None or a tuple of finite numbers above `least`."""
    if values is None:
        return
    if not isinstance(values, tuple) or not all(map(is_number, values)):
        raise InvalidTypeError(f"{name} must be a tuple of numbers, one for each base, or None, got {values!r}")
    if not all(least < value < math.inf for value in values):
        raise InvalidValueError(f"{name} must be finite numbers above {least:g}, got {values!r}")


def per_base(values: Sequence[float], count: int, name: str, reference: Array) -> Array:
    """Numbers of the bases as an array (M,); raises unless there is one for each."""
    if len(values) != count:
        raise InvalidValueError(f"{name} must have one entry for each of the {count} bases, got {len(values)}")
    return like(np.array(values, dtype=float), reference)


def mean_width(plays: Array, bases: int, delta: float) -> Array:
    """sqrt(ln(M max(ln n, 1) / delta) / n): how far a mean of n rewards in [0, 1] is from what it should be.

    Examples
    --------
    >>> import numpy as np
    >>> mean_width(np.array([1.0, 10.0, 100.0]), 3, 0.1).round(6)
    array([1.844234, 0.650786, 0.221999])
    """
    xp = namespace(plays)
    return xp.sqrt(xp.log(bases * clamp(xp.log(plays), 1.0) / delta) / plays)


class CountingMasterLearner(MasterLearner):
    """A master that plays the base with the largest score, made from n_i plays and reward sums u_i.

    Attributes
    ----------
    plays, rewards : array (R, M)
        n_i and u_i.
    scale : array (R, 1)
        Scale s of the rewards: as given, or sigma + range/2, which is 1 for rewards in [0, 1]; an unknown range counts
        as 1.
    """

    no_contexts = ""
    needs_sets = "iid"

    def __init__(
        self, policies: Sequence[Policy], reward_scale: float | None, problem: Problem, streams: Streams
    ) -> None:
        super().__init__(policies, problem, streams)
        self.plays, self.rewards = self.zeros(len(self.bases)), self.zeros(len(self.bases))
        if reward_scale is not None:
            scale = np.full(len(problem), float(reward_scale))
        else:
            spread = np.ones(len(problem)) if problem.reward_range is None else problem.reward_range
            scale = problem.noise + 0.5 * spread
        self.scale = like(scale, problem.reference)[:, None]

    @abstractmethod
    def scores(self, rows: Rows) -> Array:
        """Scores (n, M) of the bases, of which the largest is played; -inf excludes one."""

    @abstractmethod
    def judge(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        """Draw conclusions from a round, once it is counted."""

    def complexities(self, given: tuple[float, ...] | None) -> Array:
        """d_i of each base (M,): as given, or its dimension, or the problem's."""
        values = dims_of(self.policies, self.problem) if given is None else given
        return per_base(values, len(self.bases), "complexities", self.problem.reference)

    def means(self, rows: Rows) -> Array:
        """u_i / n_i, and 0 for a base never played."""
        return rows.of(self.rewards) / clamp(rows.of(self.plays), 1.0)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        chosen = argmax(self.scores(rows), self.draws.uniforms(rows))
        arms, memo = self.bases.choose(chosen, rows)
        return arms, {"base": chosen, **memo}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        chosen = memo["base"]
        self.bases.absorb(chosen, arms, rewards, rows, memo)
        self.judge_before(chosen, rewards, rows)
        rows.add(self.plays, chosen, 1.0)
        rows.add(self.rewards, chosen, rewards)
        self.judge(chosen, rewards, rows)

    def judge_before(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        """What has to be noted before a round is counted; by default nothing."""
        return

    def describe_counts(self, **columns: Any) -> list[dict[str, Any]]:
        """Plays and mean reward of each base, and `columns`, in each replication."""
        return self.describe_bases(
            rounds_of_each_base=self.xp.astype(self.plays, self.xp.int64),
            mean_reward_of_each_base=self.means(self.everyone),
            **columns,
        )
