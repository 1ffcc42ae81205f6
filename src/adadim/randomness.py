"""One independent stream of random numbers per replication.

Replication r of a run with seed s draws from Philox generators keyed by (s, purpose, r) and by nothing else,
so its numbers do not depend on the batch it runs in, on the number of workers, or on what other components draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from adadim.arrays import ALL, Array, Rows, as_numpy, indices, is_mask, like, positions
from adadim.errors import InvalidValueError

__all__ = ["Draws", "Purpose", "Streams", "check_replications", "check_seed"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

BLOCK = 256  # draws made at a time; part of no result, since a stream's order does not depend on it


class Purpose(IntEnum):
    """What a stream is for; streams of different purposes never share a number."""

    INSTANCE = 0
    NOISE = 1
    POLICY = 2


def check_seed(seed: int) -> int:
    """Return `seed` as an int, or say what is wrong with it."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidValueError(f"seed must be a non-negative integer, got {seed!r}")
    return int(seed)


def check_replications(replications: Sequence[int] | np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Return the replication numbers as a tuple of distinct non-negative ints."""
    numbers = tuple(replications)
    if not numbers:
        raise InvalidValueError("replications is empty; give at least one replication number, e.g. range(10)")
    for r in numbers:
        if isinstance(r, bool) or not isinstance(r, int | np.integer) or r < 0:
            raise InvalidValueError(f"replications must be non-negative integers, got {r!r}")
    if len(set(numbers)) != len(numbers):
        twice = sorted({int(r) for r in numbers if numbers.count(r) > 1})
        raise InvalidValueError(f"replications must be distinct, but {twice[0]} appears more than once")
    return tuple(int(r) for r in numbers)


class Streams:
    """Independent streams, one for each replication of a batch.

    Parameters
    ----------
    seed : int
        Seed of the whole run.
    purpose : Purpose
        Component that draws.
    replications : sequence of int
        Replication numbers of the batch.
    path : tuple of int
        Further key, for the parts of a composite policy (see `child`).

    Examples
    --------
    >>> batch = Streams(7, Purpose.NOISE, [3, 4])
    >>> alone = Streams(7, Purpose.NOISE, [4])
    >>> bool(batch.normals()[1] == alone.normals()[0])
    True
    """

    def __init__(self, seed: int, purpose: Purpose, replications: Sequence[int], path: tuple[int, ...] = ()) -> None:
        self.seed = check_seed(seed)
        self.purpose = purpose
        self.replications = tuple(replications)
        self.path = path
        self.generators = [
            np.random.Generator(np.random.Philox(np.random.SeedSequence(self.seed, spawn_key=(int(purpose), r, *path))))
            for r in self.replications
        ]
        self._cursor = np.full(len(self.generators), BLOCK)
        self._level = True  # every replication has drawn equally often
        self._preloaded: _Preloaded | None = None
        self._buffer: FloatArray = np.empty((len(self.generators), BLOCK))

    def child(self, index: int) -> Streams:
        """Streams for part `index` of a composite policy, independent of this one's."""
        return Streams(self.seed, self.purpose, self.replications, (*self.path, index))

    def beside(self, reference: Array, draws: int, *, normal: bool = False) -> Draws:
        """These numbers in the library and on the device of `reference`; each replication may need `draws` of them.

        Whoever asks again gets the same source, which goes on where it is.
        """
        if isinstance(reference, np.ndarray):
            return self
        if self._preloaded is None:
            self._preloaded = _Preloaded(self, reference, draws, normal)
        return self._preloaded

    def uniforms(self, rows: Rows = ALL) -> FloatArray:
        """Next uniform of each replication in `rows`."""
        return self._next(rows, normal=False)

    def normals(self, rows: Rows = ALL) -> FloatArray:
        """Next standard normal of each replication in `rows`; a stream draws one kind only."""
        return self._next(rows, normal=True)

    def table(self, draws: int, *, normal: bool = False) -> FloatArray:
        """The first `draws` numbers of every stream, (R, draws): what as many calls would give a fresh stream."""
        made: FloatArray = np.empty((len(self.generators), draws))
        for row, generator in zip(made, self.generators, strict=True):
            _fill(row, generator, normal)
        return made

    def _next(self, rows: Rows, *, normal: bool) -> FloatArray:
        everyone = rows is ALL or (isinstance(rows, slice) and rows == ALL)
        if everyone and self._level and (at := self._cursor.item(0)) < BLOCK:
            self._cursor += 1
            return self._buffer[:, at].copy()
        self._level = everyone and self._level
        chosen = positions(rows, len(self.generators))
        at = self._cursor[chosen]
        if at.max(initial=0) >= BLOCK:
            for r in chosen[at >= BLOCK]:
                _fill(self._buffer[r], self.generators[r], normal)
            at[at >= BLOCK] = 0
        self._cursor[chosen] = at + 1
        draws: FloatArray = self._buffer[chosen, at]
        return draws


def _fill(row: FloatArray, generator: np.random.Generator, normal: bool) -> None:
    """Overwrite `row` with the next numbers of a stream."""
    (generator.standard_normal if normal else generator.random)(out=row)


class Draws(Protocol):
    """Where numbers come from: the streams themselves, or what they give, moved to a device."""

    def uniforms(self, rows: Rows = ALL) -> Array:
        """Next uniform of each replication in `rows`."""
        ...

    def normals(self, rows: Rows = ALL) -> Array:
        """Next standard normal of each replication in `rows`."""
        ...


class _Preloaded:
    """The numbers of a batch of streams, made beforehand and kept on a device.

    How far each replication has come is known on the device only, so that a draw is a fixed sequence of operations
    there; after `draws` calls the numbers still unused are read back and more are made.
    """

    def __init__(self, streams: Streams, reference: Array, draws: int, normal: bool) -> None:
        self.streams, self.normal = streams, normal
        self.calls, self.draws = 0, draws
        self.buffer = like(streams.table(draws, normal=normal), reference)
        self.cursor = indices(self.buffer) * 0

    def uniforms(self, rows: Rows = ALL) -> Array:
        return self._next(rows)

    def normals(self, rows: Rows = ALL) -> Array:
        return self._next(rows)

    def _next(self, rows: Rows) -> Array:
        if self.calls == self.draws:
            self._refill()
        self.calls += 1
        ids = indices(self.buffer)
        if is_mask(rows):
            drawn = self.buffer[ids, self.cursor]
            self.cursor += rows
        else:
            drawn = self.buffer[ids[rows], self.cursor[rows]]
            self.cursor[rows] += 1
        return drawn

    def _refill(self) -> None:
        left, used = as_numpy(self.buffer), as_numpy(self.cursor)
        for row, n, generator in zip(left, used, self.streams.generators, strict=True):
            row[:] = np.roll(row, -n)
            _fill(row[len(row) - n :], generator, self.normal)
        self.buffer[...] = like(left, self.buffer)
        self.cursor[...] = 0
        self.calls = 0
