"""What a process keeps of a log in memory, so that a fit need not read it: rewards and open decisions with features.

Both have what the log had at the last refresh. A process that does not know drops them and reads them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adadim.agent.reading import Entries, Reader
from adadim.agent.statements import LAST_ROW
from adadim.core.arrays import FloatArray
from adadim.models.likelihoods import BLOCK_ROWS, Trials
from adadim.models.statistics import Moments

KEPT_BYTES = 2**26  # of features of rewards that are kept; a fit reads the others in every pass
KEPT_OPEN_BYTES = 2**24  # of features of open decisions that are kept
BLOCK_BYTES = 2**22  # of features in a block


class KeptRewards:
    """The rewards of a log in the order of their rows, the first ones kept in memory, as far as there is room.

    They come in blocks that do not depend on how many were added at a time, so that sums over them are the same in
    every process.
    """

    def __init__(self, reader: Reader, dim: int) -> None:
        self._reader, self._dim = reader, dim
        self._room = KEPT_BYTES // (8 * dim)  # rewards
        self._blocks: list[_Block] = []
        self._last = 0  # row of the last one kept
        self._whole = all(self._keep(entries) for entries in reader.entries("rewards"))

    def add(self, entries: Entries) -> None:
        """Add the rewards that follow in the log."""
        self._whole = self._whole and self._keep(entries)

    def upto(self, row: int = LAST_ROW) -> Iterator[Entries]:
        """The rewards of the log up to a row."""
        for block in self._blocks:
            entries = block.entries().upto(row)
            if not len(entries.rows):
                return
            yield entries
        if self.has(row):
            return
        for entries in self._reader.entries("rewards", self._last):
            entries = entries.upto(row)
            if len(entries.rows):
                yield entries
            if entries.last >= row or not len(entries.rows):
                return

    def has(self, row: int) -> bool:
        """Whether all rewards up to a row are in memory."""
        return self._whole or self._last >= row

    def _keep(self, entries: Entries) -> bool:
        """Keep rewards as far as there is room; gives whether that was all."""
        start, end = 0, min(len(entries.rows), self._room)
        while start < end:
            if not self._blocks or self._blocks[-1].left == 0:
                self._blocks.append(_Block(self._dim))
            part = slice(start, min(end, start + self._blocks[-1].left))
            self._blocks[-1].add(entries, part)
            start = part.stop
            self._last = int(entries.rows[start - 1])
        self._room -= end
        return end == len(entries.rows)


class _Block:
    """Rewards that are kept, and room for more."""

    def __init__(self, dim: int) -> None:
        size = -(-BLOCK_BYTES // (8 * dim * BLOCK_ROWS)) * BLOCK_ROWS  # a multiple of the rows that a fit adds at once
        self.left, self._corrects = size, False
        self._columns: dict[str, Any] = {
            **{name: np.empty(size, dtype=np.int64) for name in ("rows", "numbers")},
            "features": np.empty((size, dim)),
            "rewards": np.empty(size),
            "replaced": np.full(size, np.nan),
            "by_agent": np.empty(size, dtype=bool),
        }

    def add(self, entries: Entries, part: slice) -> None:
        """Add a part of some entries."""
        start, count = len(self._columns["rows"]) - self.left, part.stop - part.start
        self._corrects = self._corrects or entries.replaced is not None
        for name, column in self._columns.items():
            values = getattr(entries, name)
            if values is not None:
                column[start : start + count] = values[part]
        self.left -= count

    def entries(self) -> Entries:
        """What has been added."""
        end = len(self._columns["rows"]) - self.left
        columns = {name: column[:end] for name, column in self._columns.items()}
        if not self._corrects:
            columns["replaced"] = None
        return Entries(int(columns["rows"][-1]), **columns)


class TrialsOfLog:
    """The rewards of a log up to a row as the trials of a fit, which passes over them several times."""

    def __init__(self, kept: KeptRewards, row: int) -> None:
        self.kept, self.row = kept, row
        self.weigh: Callable[[Any], FloatArray | None] = lambda numbers: None  # by the numbers of decisions

    def __iter__(self) -> Iterator[Trials]:
        for entries in self.kept.upto(self.row):
            weights = self.weigh(entries.numbers)
            if weights is None:
                yield Trials(
                    entries.features, entries.rewards, np.ones(len(entries.rewards)), replaced=entries.replaced
                )
                continue
            counts = weights > 0.0  # those of a world that has changed since need not be read
            replaced = None if entries.replaced is None else entries.replaced[counts]
            yield Trials(entries.features[counts], entries.rewards[counts], weights[counts], replaced=replaced)

    def scales(self, number: int, moments: Moments) -> tuple[int, float, FloatArray]:
        """The last decision, the largest squared norm and the largest values, of these and those given."""
        longest, extent = moments.longest, moments.extent
        for entries in self.kept.upto(self.row):
            number = max(number, int(entries.numbers.max()))
            longest = max(longest, float(np.vecdot(entries.features, entries.features).max()))
            extent = np.maximum(extent, np.abs(entries.features).max(axis=0))
        return number, longest, extent


class KeptOpen:
    """Features of the decisions that wait for their reward, by their number, if there is room for all."""

    def __init__(self, dim: int) -> None:
        self._room = KEPT_OPEN_BYTES // (8 * dim)
        self._features: dict[int, FloatArray] = {}
        self.whole = True  # whether all are kept

    def add(self, numbers: Any, features: FloatArray) -> None:
        """Add decisions that wait from now on."""
        if self.whole:
            # Copies: a view of one row would keep all the others.
            self._features.update((number, row.copy()) for number, row in zip(numbers.tolist(), features, strict=True))
            if len(self._features) > self._room:
                self.whole = False
                self._features.clear()

    def remove(self, numbers: Any) -> None:
        """Remove decisions that no longer wait, as far as they did."""
        if self._features:
            for number in numbers.tolist():
                self._features.pop(number, None)

    def count_in(self, add: Callable[[Any, FloatArray], None]) -> None:
        """Call a function with numbers and features, in the order of the numbers, if there are any."""
        if self._features:
            numbers = sorted(self._features)
            add(np.array(numbers), np.array([self._features[number] for number in numbers]))
