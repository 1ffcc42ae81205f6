"""The action set: features of every arm, prefix truncations and the expressive closure."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from adadim.core.arrays import (
    Array,
    as_numpy,
    device_of,
    indices,
    is_numpy,
    like,
    namespace,
    read_only,
    real_array,
    squared_lengths,
    to_torch,
)
from adadim.core.checks import integer, require, shown
from adadim.core.frames import numbers_and_names
from adadim.core.state import stateless
from adadim.errors import InvalidTypeError, InvalidValueError, NormWarning

LARGEST_NORM = 1e100  # beyond, squares of squares overflow

_made: ContextVar[dict[Hashable, ActionSet] | None] = ContextVar("made", default=None)


@contextmanager
def sharing_arms() -> Iterator[None]:
    """Within, arms are drawn once for all instances that differ in their rewards alone, and go to a device once."""
    token = _made.set({})
    try:
        yield
    finally:
        _made.reset(token)


def made_once(key: Hashable, make: Callable[[], ActionSet]) -> ActionSet:
    """What `make` returns; while arms are shared it is called once for each key."""
    made = _made.get()
    if made is None:
        return make()
    if key not in made:
        made[key] = make()
    return made[key]


@stateless
class ActionSet:
    """Arms of R replications, each a vector of d ordered features.

    Parameters
    ----------
    features : array (K, d) or (R, K, d), or a DataFrame of pandas or polars with K rows
        One row per arm. NumPy or torch; everything computed from it stays in that library, on that device.
    levels : sequence of int, optional
        Truncation levels of an expressive set. The arms are then the K rows of `features` cut after the first
        `levels[0]` features, then the same rows cut after `levels[1]`, and so on: arm ``b * K + k`` is row k with
        everything after feature ``levels[b]`` set to zero. Levels increase, and the last is at most d.

    Attributes
    ----------
    base, levels : array (R, K_0, d), tuple of int
        The rows given, and the truncation levels: ``(d,)`` unless the set is an expressive closure.
    single : bool
        Whether `features` had no replication axis.

    Examples
    --------
    >>> import numpy as np
    >>> closed = ActionSet(np.full((2, 4), 0.5), levels=[1, 4])
    >>> closed.arms, closed.dim
    (4, 4)
    >>> closed.dense(0)[0]
    array([0.5, 0. , 0. , 0. ])
    """

    names: tuple[str, ...] | None = None  # of the features, where they came as a table

    def __init__(self, features: Array, levels: Sequence[int] | None = None) -> None:
        features, self.names = numbers_and_names(features)
        base = _real_features(features)
        self.base = base
        self.single = len(np.shape(features)) == 2
        self.replications, self.base_arms, self.dim = (int(n) for n in base.shape)
        self.levels = (self.dim,) if levels is None else _checked_levels(levels, self.dim)
        self.expressive = levels is not None
        self.arms = self.base_arms * len(self.levels)
        self._cuts: Array | None = None  # the levels as an array

    @property
    def xp(self) -> Any:
        """Array namespace of the features."""
        return namespace(self.base)

    def __repr__(self) -> str:
        closure = f", levels={list(self.levels)}" if self.expressive else ""
        return f"ActionSet({self.replications} x {self.arms} arms, dim={self.dim}{closure})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickling writes arrays row by row; sums must not depend on having been sent to another process.
        self.__dict__.update(state)
        if self.on_host:
            self.base = read_only(_feature_major(self.base))

    @property
    def on_host(self) -> bool:
        """Whether the features are NumPy's."""
        return is_numpy(self.base)

    def truncate(self, dim: int, supported: bool = False, merged: bool = True) -> tuple[ActionSet, Array]:
        """Arms reduced to their first `dim` features, without duplicates unless they are not to be `merged`.

        Returns the truncated set and, for each of its arms, the arm of this set to pull. In an expressive set the
        arms cut at levels >= `dim` become equal, and the longest is pulled for them. With ``supported=True`` only arms
        that are zero after feature `dim` remain (those for which a model in `dim` features is still linear), or else
        those of the shortest level.
        """
        dim = integer(dim, "dim", most=self.dim, meaning="the number of features")
        if supported:
            blocks = [b for b, level in enumerate(self.levels) if level <= dim] or [0]
        elif not merged:
            blocks = list(range(len(self.levels)))
        else:
            blocks = [b for b, level in enumerate(self.levels) if level < dim]
            if self.levels[-1] >= dim:
                blocks.append(len(self.levels) - 1)
        index = (np.asarray(blocks)[:, None] * self.base_arms + np.arange(self.base_arms)).ravel()
        pull = like(index, self.base)
        if dim == self.dim and len(blocks) == len(self.levels):
            return self, pull
        cut = copy.copy(self)
        cut.dim = dim
        cut.levels = tuple(min(self.levels[b], dim) for b in blocks)
        cut.base = self.base[:, :, :dim]
        cut.arms = cut.base_arms * len(cut.levels)
        cut._cuts = None
        return cut, pull

    def rescaled(self, among: Any = None) -> ActionSet:
        """The same arms divided, in each replication, by the norm of the longest (arms that are all zero stay so).

        `among`, (R, K_0), says among which rows of the features to look for the longest; all by default.
        """
        xp = self.xp
        squared = self.squared_norms()
        if among is not None:
            squared = squared * like(np.tile(among, (1, len(self.levels))), self.base)
        longest = xp.sqrt(xp.max(squared, axis=-1))
        longest = xp.where(longest > 0, longest, xp.ones_like(longest))
        return self.with_base(self.base / longest[:, None, None])

    def weighted(self, weights: Array) -> ActionSet:
        """The same arms with feature j multiplied by ``weights[j]``."""
        require(bool(self.xp.all(self.xp.isfinite(weights))), "weights", "be finite", weights)
        return self.with_base(self.base * weights)

    def in_like_units(self, factor: float, among: Any = None) -> ActionSet:
        """The same arms, each column divided by its root mean square where the columns are in raw units.

        They are in raw units in a replication in which some column is more than `factor` times as large as an earlier
        one: the order says that earlier features matter more, and a prior in such units would say the opposite. `among`
        is as in `rescaled`.
        """
        xp = self.xp
        squares = self.base * self.base
        if among is None:
            rms = as_numpy(xp.sqrt(xp.mean(squares, axis=1)))
        else:
            shares = like(among / among.sum(axis=1, keepdims=True), self.base)
            rms = as_numpy(xp.sqrt(xp.sum(squares * shares[:, :, None], axis=1)))
        smallest_so_far = np.minimum.accumulate(np.where(rms > 0, rms, np.inf), axis=-1)
        raw = np.any(rms > factor * smallest_so_far, axis=-1)
        if not raw.any():
            return self
        divisors = np.where(raw.reshape(-1, 1) & (rms > 0), rms, 1.0)
        return self.with_base(self.base / like(divisors, self.base)[:, None, :])

    def to(self, device: str) -> ActionSet:
        """The same arms as torch tensors on a device."""

        def moved() -> ActionSet:
            copied = self.with_base(to_torch(self.base, device))
            copied._cuts = None
            return copied

        return made_once((self, device), moved)

    @staticmethod
    def join(parts: Sequence[ActionSet]) -> ActionSet:
        """The replications of several sets of equal shape in one."""
        first = parts[0]
        # Feature by feature, as each of them lies in memory.
        turned = first.xp.concat([first.xp.permute_dims(part.base, (0, 2, 1)) for part in parts])
        joined = first.with_base(first.xp.permute_dims(turned, (0, 2, 1)))
        joined.replications = sum(part.replications for part in parts)
        joined.single = False
        return joined

    def with_room(self, room: int) -> ActionSet:
        """The same set with `room` more arms, all zero so far."""
        if not room:
            return self
        xp, (count, arms, dim) = self.xp, self.base.shape
        turned = xp.zeros((count, dim, arms + room), dtype=self.base.dtype, device=device_of(self.base))
        turned[:, :, :arms] = xp.permute_dims(self.base, (0, 2, 1))
        wider = self.with_base(read_only(xp.permute_dims(turned, (0, 2, 1))))
        wider.base_arms = wider.arms = arms + room
        return wider

    def with_base(self, base: Array) -> ActionSet:
        """The same set with other features of as many arms."""
        changed = copy.copy(self)
        changed.base = base
        return changed

    def squared_norms(self) -> Array:
        """Squared length of every arm, (R, K)."""
        parts = (squared_lengths(self.base[:, :, lo:hi]) for lo, hi in self.segments())
        return self.xp.concat(list(itertools.accumulate(parts)), axis=-1)

    def segments(self) -> list[tuple[int, int]]:
        """Feature ranges between successive levels."""
        return list(zip((0, *self.levels[:-1]), self.levels, strict=True))

    def dense(self, replication: int) -> Array:
        """All arms of one replication as a matrix (K, d)."""
        rows = self.base[replication]
        if not self.expressive:
            return rows
        stacked = self.xp.concat([rows] * len(self.levels), axis=0)
        for b, level in enumerate(self.levels):
            stacked[b * self.base_arms : (b + 1) * self.base_arms, level:] = 0.0
        return stacked

    def vector(self, replication: int, arm: int) -> Array:
        """Features of one arm, (d,)."""
        if not self.expressive:
            return self.base[replication, arm]
        block, row = divmod(arm, self.base_arms)
        cut = self.base[replication, row] + 0.0
        cut[self.levels[block] :] = 0.0
        return cut

    def dense_batch(self) -> Array:
        """All arms of every replication, (R, K, d)."""
        if not self.expressive:
            return self.base
        return self.xp.stack([self.dense(r) for r in range(self.replications)])

    def vectors(self, arms: Array) -> Array:
        """Features of one arm per replication, (R, d)."""
        xp = self.xp
        chosen = self.base[indices(self.base), arms % self.base_arms]
        if not self.expressive:
            return chosen
        if self._cuts is None:
            self._cuts = like(np.asarray(self.levels), self.base)
        beyond = (
            xp.arange(self.dim, device=device_of(self.base))[None, :] >= self._cuts[arms // self.base_arms][:, None]
        )
        return xp.where(beyond, xp.zeros_like(chosen), chosen)

    def project(self, vectors: Array) -> Array:
        """Inner product of every arm with one vector per replication, (R, K).

        Truncations share their prefix, so an expressive set costs one pass over its base arms.
        """
        if self.on_host:
            out = np.empty((self.replications, self.arms))
            for r in range(self.replications):
                self.project_row(r, vectors[r], out[r])
            return out
        parts = ((self.base[:, :, lo:hi] @ vectors[:, lo:hi, None])[..., 0] for lo, hi in self.segments())
        return self.xp.concat(list(itertools.accumulate(parts)), axis=-1)

    def project_row(self, replication: int, vector: Array, out: Array) -> None:
        """Write `project` of a single replication into `out` (NumPy only)."""
        base, width = self.base[replication], self.base_arms
        if not self.expressive:
            np.dot(base, vector, out=out)
            return
        for b, (lo, hi) in enumerate(self.segments()):
            block = out[b * width : (b + 1) * width]
            np.dot(base[:, lo:hi], vector[lo:hi], out=block)
            if b:
                block += out[(b - 1) * width : b * width]


def _real_features(features: Array) -> Array:
    array = real_array(features, "features", copy=hasattr(features, "detach"))
    xp = namespace(array)
    require(array.ndim in (2, 3), "features", "have shape (K, d) or (R, K, d)", tuple(array.shape))
    if array.ndim == 2:
        array = array[None]
    if 0 in tuple(array.shape):
        raise InvalidValueError(
            f"features must have at least one replication, arm and feature, got shape {tuple(array.shape)}"
        )
    if is_numpy(array):
        array = read_only(_unshared(_feature_major(array), features))  # policies share it
    with np.errstate(over="ignore"):
        squared = as_numpy(squared_lengths(array))  # finite where every entry is, and is not huge
    for r, k in np.argwhere(~np.isfinite(squared)).tolist():
        if not bool(xp.all(xp.isfinite(array[r, k]))):
            raise InvalidValueError(
                f"features must be finite, but arm {k} of replication {r} has a NaN or infinite entry"
            )
    longest = float(np.sqrt(squared.max()))
    if longest > LARGEST_NORM:
        raise InvalidValueError(
            f"features must be smaller than {LARGEST_NORM:g}, but an arm is longer; use other units"
        )
    if longest > 1 + 1e-9:  # rounding on the unit sphere
        warnings.warn(
            f"the longest arm has norm {longest:.6g} > 1: confidence radii and regret bounds assume norms of at "
            "most 1 and do not hold as stated; divide the features by that norm to restore them",
            NormWarning,
            stacklevel=4,
        )
    return array


def _feature_major(array: Array) -> Array:
    """The same values with contiguous columns, which products read fastest; replications go on sharing memory."""
    if array.strides[0] == 0 and len(array) > 1:
        return np.broadcast_to(_feature_major(array[:1]), array.shape)
    return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)


def _unshared(array: Array, source: Array) -> Array:
    """`array`, copied if it shares memory with `source`."""
    if not isinstance(source, np.ndarray) or not np.may_share_memory(array, source):
        return array
    if array.strides[0] == 0 and len(array) > 1:
        return np.broadcast_to(_unshared(array[:1], source), array.shape)
    return array.copy(order="K")


def _checked_levels(levels: Sequence[int], dim: int) -> tuple[int, ...]:
    if not isinstance(levels, Iterable) or getattr(levels, "ndim", 1) == 0:
        raise InvalidTypeError(f"levels must be a sequence of integers, e.g. [8, 16], got {shown(levels)}")
    levels = tuple(levels)
    if not levels:
        raise InvalidValueError("levels is empty; give at least one truncation level, e.g. levels=[8, 16, 64]")
    for level in levels:
        integer(level, "levels", most=dim, meaning="the number of features")
    require(all(a < b for a, b in itertools.pairwise(levels)), "levels", "increase", list(levels))
    return tuple(int(level) for level in levels)
