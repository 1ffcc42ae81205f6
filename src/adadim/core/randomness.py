"""One independent stream of random numbers per replication.

Replication r of a run with seed s draws from Philox generators keyed by (s, purpose, r) and by nothing else,
so its numbers do not depend on the batch it runs in, on the number of workers, or on what other components draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np

from adadim.core.arrays import Array, FloatArray, as_numpy, like, zeros
from adadim.core.checks import check_fits, integer, is_integer, require, shown
from adadim.core.recording import on_host
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.errors import InvalidTypeError, InvalidValueError

DRAWS_AT_A_TIME = 256  # does not affect results, since the order of a stream does not depend on it
MAX_NORMAL = 40.0  # in absolute value; a larger one comes up with a probability below 1e-300


class Purpose(IntEnum):
    """What a stream is for; streams of different purposes never share a number."""

    INSTANCE = 0
    NOISE = 1
    POLICY = 2
    CONTEXT = 3
    DELAY = 4
    EXPLORATION = 5


def check_seed(seed: int) -> int:
    """Return `seed` as an int, or say what is wrong with it."""
    require(is_integer(seed) and seed >= 0, "seed", "be a non-negative integer", seed)
    return int(seed)


def check_replications(replications: Sequence[int] | np.ndarray[Any, Any] | int) -> tuple[int, ...]:
    """Return the replication numbers as a tuple of distinct non-negative ints; a single number n means range(n)."""
    if is_integer(replications):
        count = integer(replications, "replications", meaning="how many, or a sequence of their numbers")
        check_fits(100.0 * count, replications=count)
        replications = range(count)
    if not isinstance(replications, Iterable) or getattr(replications, "ndim", 1) == 0:
        raise InvalidTypeError(
            f"replications must be a number n or a sequence of numbers, e.g. range(10), got {shown(replications)}"
        )
    numbers = tuple(replications)
    if not numbers:
        raise InvalidValueError("replications is empty; give at least one replication number, e.g. range(10)")
    for r in numbers:
        require(is_integer(r) and r >= 0, "replications", "be non-negative integers", r)
    if len(set(numbers)) != len(numbers):
        repeated = min(int(r) for r in numbers if numbers.count(r) > 1)
        raise InvalidValueError(f"replications must be distinct, but {repeated} appears more than once")
    return tuple(int(r) for r in numbers)


class Streams:
    """Independent streams, one for each replication; `path` is a further key, for parts of a policy (see `child`)."""

    def __init__(
        self,
        seed: int,
        purpose: Purpose,
        replications: Sequence[int],
        path: tuple[int, ...] = (),
        reference: Array | None = None,
    ) -> None:
        self.seed = check_seed(seed)
        self.purpose = purpose
        self.replications = tuple(replications)
        self.path = path
        self.generators = [
            np.random.Generator(np.random.Philox(np.random.SeedSequence(self.seed, spawn_key=(int(purpose), r, *path))))
            for r in self.replications
        ]
        self.everyone = Replications.all(np.empty(len(self.replications)) if reference is None else reference)
        # While all replications have drawn equally often: how many numbers of the block.
        self._in_step, self._drawn = True, DRAWS_AT_A_TIME
        self._cursor = np.zeros(len(self.generators), dtype=np.int64)  # afterwards: how many each has drawn
        self._source: DeviceDraws | None = None
        self._buffer: FloatArray = np.zeros((len(self.generators), DRAWS_AT_A_TIME))
        self._normal = False  # which kind is in the block

    def child(self, index: int) -> Streams:
        """Streams for part `index` of a composite policy, independent of this one's."""
        return Streams(self.seed, self.purpose, self.replications, (*self.path, index), self.everyone.positions)

    def source(self, draws: int, *, normal: bool = False) -> Draws:
        """These numbers on the device of the problem, `draws` of them at a time; later calls give the same source."""
        if self.everyone.on_host:
            return self
        if self._source is None:
            self._source = DeviceDraws([self], self.everyone.positions, draws, normal=normal)
        return self._source

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make the source that a saved state has, unless a part of the learner has asked for it already."""
        if saved["_source"] is not None and self._source is None:
            content = saved["_source"]["object"]
            self._source = DeviceDraws([self], self.everyone.positions, content["draws"] - 1, normal=content["normal"])

    def check_restored(self) -> None:
        """Refuse positions outside the block, and numbers in it that are none of their kind."""
        check_positions(self, _cursor=DRAWS_AT_A_TIME + 1, _drawn=DRAWS_AT_A_TIME + 1)
        check_draws(self, self._buffer, self._normal)

    def uniforms(self, rows: Replications | None = None) -> FloatArray:
        """Next uniform of each replication in `rows` (by default all)."""
        return self._next(rows, normal=False)

    def normals(self, rows: Replications | None = None) -> FloatArray:
        """Next standard normal of each replication in `rows`; a stream draws one kind only."""
        return self._next(rows, normal=True)

    def table(self, draws: int, *, normal: bool = False) -> FloatArray:
        """The first `draws` numbers of every stream, none of which may have drawn any yet, (R, draws)."""
        table: FloatArray = np.empty((len(self.generators), draws))
        for row, generator in zip(table, self.generators, strict=True):
            fill(row, generator, normal)
        return table

    def _next(self, rows: Replications | None, *, normal: bool) -> FloatArray:
        if self._in_step and (rows is None or rows.everyone):
            if self._drawn == DRAWS_AT_A_TIME:
                self._normal = normal
                for row, generator in zip(self._buffer, self.generators, strict=True):
                    fill(row, generator, normal)
                self._drawn = 0
            self._drawn += 1
            return self._buffer[:, self._drawn - 1].copy()
        if self._in_step:
            self._in_step = False
            self._cursor[:] = self._drawn
        chosen = np.arange(len(self.generators)) if rows is None else rows.ids
        at = self._cursor[chosen]
        spent = at >= DRAWS_AT_A_TIME
        if np.count_nonzero(spent):
            self._normal = normal
            for r in chosen[spent]:
                fill(self._buffer[r], self.generators[r], normal)
            at[spent] = 0
        self._cursor[chosen] = at + 1
        draws: FloatArray = self._buffer[chosen, at]
        return draws


def fill(row: FloatArray, generator: np.random.Generator, normal: bool) -> None:
    """Overwrite `row` with the next numbers of a stream."""
    (generator.standard_normal if normal else generator.random)(out=row)


def check_draws(owner: object, numbers: Array, normal: bool) -> None:
    """Refuse uniforms outside [0, 1), and normals that no generator gives."""
    least, most = (-MAX_NORMAL, MAX_NORMAL) if normal else (0.0, 1.0)
    values = as_numpy(numbers)
    if values.size and not (values.min() >= least and values.max() < most):
        raise InvalidValueError(f"the random numbers of a {type(owner).__name__} must be in [{least:g}, {most:g})")


class DeviceDraws:
    """Numbers of batches of streams (lanes), `draws` at a time, on a device, with a cursor for each stream."""

    def __init__(self, lanes: Sequence[Streams], reference: Array, draws: int, *, normal: bool = False) -> None:
        # One more than will be needed, so that nothing is made anew after the last round.
        self.lanes, self.normal, self.calls, self.draws = list(lanes), normal, 0, draws + 1
        tables = np.stack([streams.table(draws + 1, normal=normal) for streams in lanes], axis=1)
        self.buffer = like(tables, reference)
        self.cursor = zeros(reference, *self.buffer.shape[:2], integers=True)
        self._everyone = Replications.all(self.buffer)

    def check_restored(self) -> None:
        """Refuse positions outside the numbers at hand, and numbers that are none of their kind."""
        check_positions(self, cursor=self.draws)
        check_draws(self, self.buffer, self.normal)

    def uniforms(self, rows: Replications | None = None, lane: Array | int = 0) -> Array:
        """Next uniform of each replication in `rows`, from one of the lanes."""
        return self._next(rows, lane)

    def normals(self, rows: Replications | None = None) -> Array:
        """Next standard normal of each replication in `rows`."""
        return self._next(rows, 0)

    def _next(self, rows: Replications | None, lane: Array | int) -> Array:
        rows = self._everyone if rows is None else rows
        if isinstance(lane, int):  # a view
            used = self.cursor[rows.index, lane]
            drawn = self.buffer[rows.positions, lane, used]
            self.cursor[rows.index, lane] += 1 if rows.mask is None else rows.mask
        else:
            drawn = self.buffer[rows.positions, lane, rows.at(self.cursor, lane)]
            rows.add(self.cursor, lane, 1)
        on_host(self._count)
        return drawn

    def _count(self) -> None:
        """Make more numbers when those at hand may be used up."""
        self.calls += 1
        if self.calls < self.draws:
            return
        buffer, used = as_numpy(self.buffer).copy(), as_numpy(self.cursor)
        for lane, streams in enumerate(self.lanes):
            for row, n, generator in zip(buffer[:, lane], used[:, lane], streams.generators, strict=True):
                row[:] = np.roll(row, -n)
                fill(row[len(row) - n :], generator, self.normal)
        self.buffer[...] = like(buffer, self.buffer)
        self.cursor[...] = 0
        self.calls = 0


class LateDraws:
    """The uniform of the decision at a position, whose stream is made when it is used: few have a tie to be settled."""

    def __init__(self, streams: Callable[[int], Streams]) -> None:
        self.streams, self.position = streams, 0

    def uniforms(self, rows: Replications | None = None) -> Any:
        """A stand-in for an array of one number: `item` draws it."""
        return self

    def item(self, position: int) -> float:
        """The uniform."""
        return float(self.streams(self.position).uniforms().item(position))


Draws: TypeAlias = Streams | DeviceDraws
"""Where numbers come from: the streams themselves, or their numbers on a device."""
