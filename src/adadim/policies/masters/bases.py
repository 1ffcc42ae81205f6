"""What masters share: their base learners, and rewards turned into losses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from adadim.arrays import Array, Rows, as_numpy, groups, like
from adadim.policies.base import Learner, Policy
from adadim.policies.linucb import LinUCB
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["MasterLearner", "check_bases", "check_loss_range", "loss", "nested_dims"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntArray = np.ndarray[Any, np.dtype[np.int64]]


def nested_dims(dim: int, ambient: bool = False) -> list[int]:
    """Dimensions 2^0, 2^1, ..., 2^(M-1) with M = ceil(log2 d), and d itself with `ambient`.

    Examples
    --------
    >>> nested_dims(600)
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    >>> nested_dims(600, ambient=True)[-1]
    600
    """
    dims = [2**i for i in range(max(1, math.ceil(math.log2(dim))))]
    return [*dims, dim] if ambient and dims[-1] < dim else dims


def check_bases(bases: tuple[Policy, ...], base: LinUCB) -> None:
    """Raise unless `bases` is a tuple of policies (maybe empty) and `base` a LinUCB."""
    if not isinstance(bases, tuple) or not all(isinstance(b, Policy) for b in bases):
        raise TypeError(f"bases must be a tuple of policies (empty for nested dimensions), got {bases!r}")
    if not isinstance(base, LinUCB):
        raise TypeError(f"base must be a LinUCB, whose dim is then set for each base learner, got {base!r}")


class _Master(Protocol):
    """Hyper-parameters that every master has: the bases given, or a template in nested dimensions."""

    @property
    def bases(self) -> tuple[Policy, ...]: ...

    @property
    def base(self) -> LinUCB: ...

    @property
    def ambient(self) -> bool: ...


class MasterLearner(Learner):
    """A learner that runs base learners, each with streams of its own (children 1, 2, ...)."""

    takes_any_arm = False

    def __init__(self, policy: _Master, problem: Problem, streams: Streams) -> None:
        super().__init__(problem)
        self._streams = streams
        nested = (replace(policy.base, dim=m) for m in nested_dims(problem.dim, policy.ambient))
        self.policies = policy.bases or tuple(nested)
        self.bases = [base._start(problem, streams.child(i + 1)) for i, base in enumerate(self.policies)]
        self._chosen: IntArray = np.zeros(len(problem), dtype=np.int64)

    def _ask(self, chosen: IntArray, rows: Rows) -> Array:
        """Arms that the chosen bases propose."""
        base = self.problem.actions.base
        arms = like(np.zeros(len(chosen), dtype=np.int64), base)
        for b, members, places in groups(chosen, rows, len(self.problem), base):
            arms[places] = self.bases[b]._select(members)
        return arms

    def _teach(self, chosen: IntArray, arms: Array, rewards: Array, rows: Rows) -> None:
        """Tell the chosen bases, and only them, what came of it."""
        for b, members, places in groups(chosen, rows, len(self.problem), self.problem.actions.base):
            self.bases[b]._update(arms[places], rewards[places], members)

    def _describe(self, **columns: Any) -> list[dict[str, Any]]:
        """One dict per replication; `columns` are arrays with a row per replication."""
        shown = {name.replace("_", " "): np.asarray(values).tolist() for name, values in columns.items()}
        names = [repr(policy) for policy in self.policies]
        return [
            {"replication": number, "bases": names, **{name: rows[r] for name, rows in shown.items()}}
            for r, number in enumerate(self.problem.replications)
        ]


def check_loss_range(loss_range: tuple[float, float]) -> None:
    """Raise unless `loss_range` is (lo, hi) with lo < hi."""
    if len(loss_range) != 2 or not all(map(math.isfinite, loss_range)) or not loss_range[0] < loss_range[1]:
        raise ValueError(f"loss_range must be (lowest, highest) reward with lowest < highest, got {loss_range!r}")


def loss(rewards: Array, loss_range: tuple[float, float]) -> FloatArray:
    """Rewards in [lo, hi] as losses in [0, 1], clipped."""
    lo, hi = loss_range
    return np.clip((hi - as_numpy(rewards)) / (hi - lo), 0.0, 1.0)
