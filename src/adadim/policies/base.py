"""What a policy is: frozen hyper-parameters (`Policy`) that start a learner with state (`Learner`)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.arrays import ALL, Array, Rows, as_numpy, device_of, is_numpy, like, namespace, positions
from adadim.errors import ForeignArmError, InvalidTypeError, InvalidValueError, NotSelectedError
from adadim.problem import Problem
from adadim.randomness import Purpose, Streams

__all__ = ["Learner", "Policy"]


@dataclass(frozen=True)
class Policy(ABC):
    """Hyper-parameters of an algorithm; prints, compares and hashes by value.

    A policy file defines a frozen dataclass with `_start`, and a `Learner` with `_select` and `_update`.

    Examples
    --------
    >>> import adadim
    >>> adadim.LinUCB(dim=3) == adadim.LinUCB(dim=3), adadim.LinUCB(dim=3) == adadim.LinUCB(dim=4)
    (True, False)
    """

    def start(self, problem: Problem, seed: int = 0) -> Learner:
        """Fresh learners for every replication of `problem`, advancing in lock step."""
        if not isinstance(problem, Problem):
            raise InvalidTypeError(f"start needs an adadim.Problem, got {type(problem).__name__}")
        return self._start(problem, Streams(seed, Purpose.POLICY, problem.replications))

    @abstractmethod
    def _start(self, problem: Problem, streams: Streams) -> Learner:
        """Do the same as `start`, drawing from the streams given (a master hands each base its own)."""


class Learner(ABC):
    """State of a policy on R replications.

    `select` and `update` check what enters and call `_select` and `_update`, which the loop and the masters use
    directly. `rows` (default: all) names the replications concerned, by position.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> features = np.stack([np.eye(3), np.eye(3)])  # two replications
    >>> learner = adadim.UCB(ties="lowest").start(adadim.Problem(features, horizon=9, noise=0.1))
    >>> learner.select()
    array([0, 0])
    >>> learner.update([0, 0], [0.2, 0.4])
    >>> learner.select(rows=[1])  # only the second goes on
    array([1])
    """

    takes_any_arm = True
    """Whether `update` may be told of arms that `select` did not choose."""

    takes_masks = False
    """Whether `_select` and `_update` take a mask for `rows`, and are then a fixed sequence of array operations."""

    _streamed = 0
    """Bytes that every round reads anew for each replication."""

    _over = False  # its horizon was played by replaying recorded operations

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.xp = problem.xp
        self._pending = np.full(len(problem), -1)

    def select(self, rows: Any = None) -> Array:
        """Arm to pull next in each replication, an integer array."""
        if self._over:
            raise RuntimeError(
                f"this {type(self).__name__} has played its {self.problem.horizon} rounds; to go on, start one on a "
                "problem with a longer horizon"
            )
        place = self._checked_rows(rows)
        arms = self._select(place)
        self._pending[place if place is ALL else as_numpy(place)] = as_numpy(arms)
        return arms

    def update(self, arms: Array, rewards: Array, rows: Any = None) -> None:
        """Learn from the rewards of `arms`, one per replication."""
        place = self._checked_rows(rows)
        ids = place if place is ALL else as_numpy(place)
        pending = self._pending[ids]
        if -1 in pending.tolist():
            missing = self.problem.replications[positions(place, len(self.problem))[pending < 0][0]]
            raise NotSelectedError(
                f"update before select: replication {missing} has no pending decision; call select() first"
            )
        arms, rewards = self._checked_arms(arms, len(pending)), self._checked_rewards(rewards, len(pending))
        if not self.takes_any_arm and (as_numpy(arms) != pending).any():
            raise ForeignArmError(
                f"{type(self).__name__} learns only from the arms it chose: select() said "
                f"{pending.tolist()}, update got {as_numpy(arms).tolist()}"
            )
        self._update(arms, rewards, place)
        self._advance(place)
        self._pending[ids] = -1

    def describe(self) -> list[dict[str, Any]]:
        """State of each replication in words and numbers, for people."""
        return [{"replication": r} for r in self.problem.replications]

    @abstractmethod
    def _select(self, rows: Rows) -> Array: ...

    @abstractmethod
    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None: ...

    def _advance(self, rows: Rows) -> None:
        """Do what is due after a round and depends on its number alone; called after each `_update`."""
        return

    def _phase(self) -> Hashable:
        """What decides the array operations of the next round of all replications; None if the data do.

        Rounds of equal phase can be recorded once and replayed, since all else happens in `_advance`.
        """
        return None

    def _checked_rows(self, rows: Any) -> Rows:
        if rows is None:
            return ALL
        index = np.asarray(as_numpy(rows))
        count = len(self.problem)
        if index.ndim != 1 or index.dtype.kind not in "iu" or not index.size:
            raise InvalidValueError(f"rows must be a non-empty 1-d array of integers, got {rows!r}")
        if index.min() < 0 or index.max() >= count or len(np.unique(index)) != len(index):
            raise InvalidValueError(f"rows must be distinct and in 0..{count - 1}, got {index.tolist()}")
        return like(index, self.problem.actions.base)

    def _checked_arms(self, arms: Array, count: int) -> Array:
        array = self._own(arms, "arms")
        if tuple(array.shape) != (count,):
            raise InvalidValueError(f"arms must have shape ({count},), one per replication, got {tuple(array.shape)}")
        host = as_numpy(array)
        if host.dtype.kind not in "iu":
            raise InvalidTypeError(f"arms must be integers, got dtype {host.dtype}")
        top = self.problem.arms
        for arm in host.tolist():
            if not 0 <= arm < top:
                raise InvalidValueError(f"arms must be in 0..{top - 1}, got {arm}")
        return array

    def _checked_rewards(self, rewards: Array, count: int) -> Array:
        array = self._own(rewards, "rewards")
        if tuple(array.shape) != (count,):
            raise InvalidValueError(
                f"rewards must have shape ({count},), one per replication, got {tuple(array.shape)}"
            )
        host = as_numpy(array)
        if host.dtype.kind not in "fiub":
            raise InvalidTypeError(f"rewards must be real numbers, got dtype {host.dtype}")
        for reward in host.tolist():
            if not math.isfinite(reward):
                raise InvalidValueError(f"rewards must be finite, got {float(reward)}")
        return array if array.dtype == self.xp.float64 else self.xp.astype(array, self.xp.float64)

    def _own(self, values: Array, name: str) -> Array:
        """`values` as an array of the features' library; plain numbers are welcome, another library is not."""
        base = self.problem.actions.base
        if type(values) is np.ndarray and type(base) is np.ndarray:
            return values
        if isinstance(values, list | tuple | int | float | np.generic):
            return like(np.atleast_1d(np.asarray(values)), base)
        xp = namespace(base, values)
        if not is_numpy(xp) and device_of(values) != device_of(base):
            raise InvalidValueError(f"{name} are on {device_of(values)}, but the features are on {device_of(base)}")
        return values
