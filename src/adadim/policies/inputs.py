"""What enters a learner: rows, arms and rewards, checked and in the library of the problem."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adadim.backend.arrays import Array, as_numpy, device_of, is_array, is_numpy, like, namespace
from adadim.backend.rows import Rows
from adadim.checks import shown
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.problem import Problem

__all__ = ["checked_arms", "checked_rewards", "checked_rows", "in_library"]


def checked_rows(problem: Problem, rows: Any) -> Rows:
    """Positions of replications as `Rows`."""
    index = np.asarray(as_numpy(rows))
    count = len(problem)
    if index.ndim != 1 or index.dtype.kind not in "iu" or not index.size:
        raise InvalidValueError(f"rows must be a non-empty 1-d array of integers, got {shown(rows)}")
    if index.min() < 0 or index.max() >= count or len(np.unique(index)) != len(index):
        raise InvalidValueError(f"rows must be distinct and in 0..{count - 1}, got {index.tolist()}")
    return Rows.some(index, problem.reference)


def checked_arms(problem: Problem, arms: Any, count: int) -> Array:
    """One arm for each of `count` replications."""
    array = in_library(problem, arms, "arms")
    if tuple(array.shape) != (count,):
        raise InvalidValueError(f"arms must have shape ({count},), one per replication, got {tuple(array.shape)}")
    host = as_numpy(array)
    if host.dtype.kind not in "iu":
        raise InvalidTypeError(f"arms must be integers, got dtype {host.dtype}")
    for arm in host.tolist():
        if not 0 <= arm < problem.arms:
            raise InvalidValueError(f"arms must be in 0..{problem.arms - 1}, got {arm}")
    return array


def checked_rewards(problem: Problem, rewards: Any, count: int) -> Array:
    """One reward for each of `count` replications, as floats."""
    array = in_library(problem, rewards, "rewards")
    if tuple(array.shape) != (count,):
        raise InvalidValueError(f"rewards must have shape ({count},), one per replication, got {tuple(array.shape)}")
    host = as_numpy(array)
    if host.dtype.kind not in "fiub":
        raise InvalidTypeError(f"rewards must be real numbers, got dtype {host.dtype}")
    for reward in host.tolist():
        if not math.isfinite(reward):
            raise InvalidValueError(f"rewards must be finite, got {float(reward)}")
    if host.dtype == np.float64:
        return array
    xp = namespace(array)
    return xp.astype(array, xp.float64)


def in_library(problem: Problem, values: Any, name: str) -> Array:
    """`values` as an array of the problem's library; plain numbers are welcome, another library is not."""
    reference = problem.reference
    if type(values) is np.ndarray and is_numpy(reference):
        return values
    if isinstance(values, list | tuple | int | float | np.generic):
        return like(np.atleast_1d(np.asarray(values)), reference)
    if not is_array(values):
        raise InvalidTypeError(f"{name} must be numbers, one per replication, got {shown(values)}")
    namespace(reference, values)
    if device_of(values) != device_of(reference):
        given, wanted = device_of(values), device_of(reference)
        raise InvalidValueError(f"{name} are on {given}, but the features are on {wanted}")
    return values
