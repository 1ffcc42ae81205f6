"""One independent stream of random numbers per replication.

Replication r of a run with seed s draws from Philox generators keyed by (s, purpose, r) and by nothing else,
so its numbers do not depend on the batch it runs in, on the number of workers, or on what other components draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from adadim.arrays import ALL, Rows, positions

__all__ = ["Purpose", "Streams", "check_replications", "check_seed"]

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
        raise ValueError(f"seed must be a non-negative integer, got {seed!r}")
    return int(seed)


def check_replications(replications: Sequence[int] | np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Return the replication numbers as a tuple of distinct non-negative ints."""
    numbers = tuple(replications)
    if not numbers:
        raise ValueError("replications is empty; give at least one replication number, e.g. range(10)")
    for r in numbers:
        if isinstance(r, bool) or not isinstance(r, int | np.integer) or r < 0:
            raise ValueError(f"replications must be non-negative integers, got {r!r}")
    if len(set(numbers)) != len(numbers):
        twice = sorted({int(r) for r in numbers if numbers.count(r) > 1})
        raise ValueError(f"replications must be distinct, but {twice[0]} appears more than once")
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
        self._buffer: FloatArray = np.empty((len(self.generators), BLOCK))

    def child(self, index: int) -> Streams:
        """Streams for part `index` of a composite policy, independent of this one's."""
        return Streams(self.seed, self.purpose, self.replications, (*self.path, index))

    def uniforms(self, rows: Rows = ALL) -> FloatArray:
        """Next uniform of each replication in `rows`."""
        return self._next(rows, normal=False)

    def normals(self, rows: Rows = ALL) -> FloatArray:
        """Next standard normal of each replication in `rows`; a stream draws one kind only."""
        return self._next(rows, normal=True)

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
                generator = self.generators[r]
                self._buffer[r] = generator.standard_normal(BLOCK) if normal else generator.random(BLOCK)
            at[at >= BLOCK] = 0
        self._cursor[chosen] = at + 1
        draws: FloatArray = self._buffer[chosen, at]
        return draws
