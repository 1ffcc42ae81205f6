"""What enters a learner: rows, arms and rewards, checked and in the library of the problem."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from adadim.core.actions import ActionSet
from adadim.core.arrays import (
    Array,
    as_numpy,
    device_of,
    is_array,
    like,
    namespace,
    real_array,
    same_device,
    same_library,
)
from adadim.core.checks import shown
from adadim.core.problem import Problem
from adadim.core.rewards import KINDS
from adadim.core.rows import Replications
from adadim.errors import InvalidTypeError, InvalidValueError

FLOAT64 = np.dtype(np.float64)


def checked_rows(problem: Problem, rows: Any) -> Replications:
    """Positions of replications as `Replications`."""
    index = np.asarray(as_numpy(rows))
    count = len(problem)
    if index.ndim != 1 or index.dtype.kind not in "iu" or not index.size:
        raise InvalidValueError(f"rows must be a non-empty 1-d array of integers, got {shown(rows)}")
    if index.min() < 0 or index.max() >= count or len(np.unique(index)) != len(index):
        raise InvalidValueError(f"rows must be distinct and in 0..{count - 1}, got {index.tolist()}")
    return Replications.some(index, problem.reference)


def checked_arm_numbers(problem: Problem, arms: Any, count: int) -> Array:
    """One arm for each of `count` replications."""
    if type(arms) is int and count == 1 and 0 <= arms < problem.arms:  # the usual case, and the quickest
        return _one(arms, problem.reference)
    array, host = _one_each(problem, arms, "arms", count, "iu", "integers")
    for arm in host.tolist():
        if not 0 <= arm < problem.arms:
            raise InvalidValueError(f"arms must be in 0..{problem.arms - 1}, got {arm}")
    xp = namespace(array)  # torch takes small integers for masks, or not at all
    return array if host.dtype == np.int64 else xp.astype(array, xp.int64)


def checked_rewards(problem: Problem, rewards: Any, count: int) -> Array:
    """One reward for each of `count` replications, as floats."""
    kind = KINDS[problem.rewards]
    if type(rewards) is float and count == 1 and math.isfinite(rewards) and kind.low <= rewards <= kind.high:  # quick
        return _one(rewards, problem.reference)
    array, host = _one_each(problem, rewards, "rewards", count, "fiub", "real numbers")
    for reward in host.tolist():
        if not math.isfinite(reward):
            raise InvalidValueError(f"rewards must be finite, got {float(reward)}")
        kind.check(float(reward), "rewards")
    xp = namespace(array)
    return array if host.dtype == np.float64 else xp.astype(array, xp.float64)


def _one_each(problem: Problem, values: Any, name: str, count: int, kinds: str, wanted: str) -> tuple[Array, Any]:
    """`count` values in the library of the problem, and the same in NumPy."""
    array = in_library(problem, values, name)
    if tuple(array.shape) != (count,):
        raise InvalidValueError(f"{name} must have shape ({count},), one per replication, got {tuple(array.shape)}")
    host = as_numpy(array)
    if host.dtype.kind not in kinds:
        raise InvalidTypeError(f"{name} must be {wanted}, got dtype {host.dtype}")
    return array, host


def _one(value: float, reference: Array) -> Array:
    return like(np.array([value]), reference)


def checked_offer(problem: Problem, features: Any, allowed: Any, count: int) -> tuple[Array | None, Array | None]:
    """What `count` replications are offered this round: features (count, K_t, d) and a mask (count, K_t), or None."""
    offered, arms = None, problem.arms
    if problem.disjoint:
        offered = _checked_contexts(problem, features, count)
    elif problem.contextual:
        offered = _checked_features(problem, features, count)
        arms = int(offered.shape[1])
    elif features is not None:
        raise InvalidValueError(
            "the features of this problem are fixed: leave them out, or start on Problem(arms=, dim=)"
        )
    return offered, None if allowed is None else _checked_mask(problem, allowed, count, arms)


def _checked_contexts(problem: Problem, context: Any, count: int) -> Array:
    if type(context) is not np.ndarray:
        if context is None or isinstance(context, str):
            raise InvalidValueError(f"a context comes with each round of this problem: ask(context), ({problem.dim},)")
        context = as_numpy(context) if is_array(context) else np.asarray(context)
    array = context[None] if context.ndim == 1 and count == 1 else context
    if array.shape != (count, problem.dim):
        raise InvalidValueError(
            f"the context must have shape ({problem.dim},) or ({count}, {problem.dim}), got {np.shape(context)}"
        )
    if array.dtype != FLOAT64:
        if array.dtype.kind not in "fiub":
            raise InvalidTypeError(f"the context must be real numbers, got dtype {array.dtype}")
        array = array.astype(np.float64)
    # A finite sum of squares is quick to find, and has no square that is not.
    if not math.isfinite(np.vdot(array, array)) and not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InvalidValueError(f"the context must be finite, but covariate {column} is not (row {row})")
    return array


def _checked_features(problem: Problem, features: Any, count: int) -> Array:
    if features is None:
        raise InvalidValueError("features come with each round of this problem: ask(features), (K_t, d) or (R, K_t, d)")
    if type(features) is np.ndarray and features.ndim == 2 and count == 1 and features.dtype == FLOAT64:
        arms, dim = features.shape
        fits = 0 < arms <= problem.arms and dim == problem.dim and problem.on_host
        if fits and math.isfinite(np.vdot(features, features)):  # the usual case, and the quickest
            return features[None]
    array = np.asarray(features) if isinstance(features, list | tuple) else features
    if not (is_array(array) and same_library(array, problem.reference)):
        raise InvalidTypeError(f"features must be an array of the problem's library, got {shown(features)}")
    if not same_device(array, problem.reference):
        raise InvalidValueError(
            f"features are on {device_of(array)}, but the problem is on {device_of(problem.reference)}"
        )
    if array.ndim == 2 and count == 1:
        array = array[None]
    if array.ndim != 3 or array.shape[0] != count or 0 in tuple(array.shape):
        raise InvalidValueError(
            f"features must have shape (K_t, {problem.dim}) or ({count}, K_t, {problem.dim}), got {tuple(array.shape)}"
        )
    if array.shape[2] != problem.dim:
        raise InvalidValueError(f"features must have dim = {problem.dim} columns, got {array.shape[2]}")
    if array.shape[1] > problem.arms:
        raise InvalidValueError(f"this round has {array.shape[1]} arms, more than the problem's arms = {problem.arms}")
    xp = namespace(array)
    array = array if array.dtype == (FLOAT64 if problem.on_host else xp.float64) else xp.astype(array, xp.float64)
    # A finite sum is quick to find, and has no summand that is not.
    total = np.vdot(array, array) if problem.on_host else xp.sum(array)
    if not math.isfinite(total) and not bool(xp.all(xp.isfinite(array))):
        row, arm, feature = np.argwhere(~np.isfinite(as_numpy(array)))[0].tolist()
        raise InvalidValueError(f"features must be finite, but feature {feature} of arm {arm} is not (row {row})")
    return array


def checked_new_arms(problem: Problem, features: Any, room: int) -> Array:
    """Features (R, n, d) of arms to be added, at most `room` of them."""
    if problem.contextual:
        raise InvalidValueError("arms come with each round of this problem: ask(features)")
    array = like(features, problem.reference) if isinstance(features, list | tuple) else features
    added = ActionSet(array).base
    if added.shape[0] == 1:
        added = namespace(added).broadcast_to(added, (len(problem), *added.shape[1:]))
    count, dim = len(problem), problem.dim
    if added.shape[0] != count or added.shape[2] != dim:
        raise InvalidValueError(
            f"new arms must have shape (n, {dim}) or ({count}, n, {dim}), got {tuple(np.shape(features))}"
        )
    if added.shape[1] > room:
        raise InvalidValueError(
            f"there is room for {room} more arms, not for {added.shape[1]}; give their largest number at the "
            "start: Problem(features, arms=...)"
        )
    return added


def _checked_mask(problem: Problem, allowed: Any, count: int, arms: int) -> Array:
    array = np.asarray(allowed) if isinstance(allowed, list | tuple) else allowed
    if not is_array(array) or "bool" not in str(array.dtype):
        raise InvalidTypeError(f"allowed must be an array of True and False, got {shown(allowed)}")
    array = like(as_numpy(array), problem.reference)
    if tuple(array.shape) == (arms,):
        array = namespace(array).broadcast_to(array[None], (count, arms))
    if tuple(array.shape) != (count, arms):
        raise InvalidValueError(f"allowed must have shape ({arms},) or ({count}, {arms}), got {tuple(array.shape)}")
    empty = np.flatnonzero(~as_numpy(array).any(axis=1))
    if empty.size:
        raise InvalidValueError(f"allowed leaves no arm to choose (row {int(empty[0])}); let at least one be True")
    return array


def logged_features(problem: Problem, features: Any, rewards: Any) -> Iterator[tuple[Array, Array]]:
    """Features (R, d) and rewards (R,) of logged pulls, one pull after the other."""
    x, y = (as_numpy(real_array(v, name)) for v, name in ((features, "logged features"), (rewards, "rewards")))
    if problem.single:
        x, y = x[None], y[None]
    wanted = (len(problem), y.shape[-1] if y.ndim == 2 else -1, problem.dim)
    if y.ndim != 2 or x.shape != wanted or y.shape[0] != len(problem):
        raise InvalidValueError(
            f"logged features must be (n, {problem.dim}) and rewards (n,), or (R, n, {problem.dim}) and (R, n), got "
            f"{np.shape(features)} and {np.shape(rewards)}"
        )
    if not np.isfinite(x).all():
        raise InvalidValueError("logged features must be finite")
    columns = like(y, problem.reference)
    return ((x[:, i], checked_rewards(problem, columns[:, i], len(problem))) for i in range(y.shape[1]))


def checked_plugins(plugins: Any) -> dict[str, Any]:
    """Policy classes by name."""
    if plugins is None:
        return {}
    if not isinstance(plugins, Mapping) or not all(isinstance(kind, type) for kind in plugins.values()):
        raise InvalidTypeError(f"plugins must be a dict from names to policy classes, got {shown(plugins)}")
    return dict(plugins)


def in_library(problem: Problem, values: Any, name: str) -> Array:
    """`values` as an array of the problem's library; plain numbers are welcome, another library is not."""
    reference = problem.reference
    if type(values) is np.ndarray and problem.on_host:
        return values
    if isinstance(values, list | tuple | int | float | np.generic):
        return like(np.atleast_1d(np.asarray(values)), reference)
    if not is_array(values):
        raise InvalidTypeError(f"{name} must be numbers, one per replication, got {shown(values)}")
    namespace(reference, values)
    if device_of(values) != device_of(reference):
        raise InvalidValueError(f"{name} are on {device_of(values)}, but the features are on {device_of(reference)}")
    return values
