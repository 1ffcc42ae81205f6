"""The sums that an agent's file keeps: over what was compacted, and over the whole log up to some place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adadim.agent.file import File, as_bytes, as_matrix, seal, sealed
from adadim.agent.settings import Settings
from adadim.agent.sums import Sums, decode, encode
from adadim.errors import FileError

__all__ = ["Place", "Snapshots"]

FOLDED = "sums of compacted decisions"


class Place(NamedTuple):
    """How far a log was read: the last decision, and the last row of rewards and of expired decisions."""

    number: int = 0
    reward: int = 0
    expired: int = 0

    def since(self, other: Place) -> int:
        """How many rows of one kind have come since another place, at most."""
        return max(a - b for a, b in zip(self, other, strict=True))


class Snapshots:
    """The sums in a file; all methods are called in a transaction of it."""

    def __init__(self, file: File, settings: Settings) -> None:
        self.file, self.dim, self.half_life = file, settings.dim, settings.memory

    def begin(self) -> None:
        """Write the sums of nothing to a new file."""
        query = "INSERT INTO folded (id, generation, upto, body, seal) VALUES (1, ?, ?, ?, ?)"
        self.file.run(query, *sealed(0, 0, encode(Sums.empty(self.dim))))

    # Over what was compacted

    def generation(self) -> int:
        """How often the log was compacted."""
        found = self.file.value("SELECT generation FROM folded")
        if not isinstance(found, int):
            raise self.file.damaged(f"the {FOLDED} cannot be read")
        return found

    def compacted(self) -> int:
        """The last decision that may have been folded."""
        return self._folded()[1]

    def folded(self) -> Sums:
        """The sums over what is gone."""
        body = self._folded()[2]
        try:
            return decode(body, self.dim, self.half_life)
        except FileError:
            raise self.file.damaged(f"the {FOLDED} cannot be read") from None

    def fold(self, upto: int, sums: Sums) -> None:
        """Write the sums over what is gone, now that decisions up to a number are."""
        generation, before, _ = self._folded()
        values = sealed(generation + 1, max(before, upto), encode(sums))
        self.file.run("UPDATE folded SET generation = ?, upto = ?, body = ?, seal = ?", *values)

    def _folded(self) -> tuple[int, int, bytes]:
        generation, upto, body = self.file.only("SELECT generation, upto, body, seal FROM folded", FOLDED)
        return generation, upto, body

    # Over the whole log

    def last(self, generation: int) -> tuple[Place, Sums] | None:
        """The sums that were kept last, after so many compactions, and up to where; None if damaged or older."""
        query = "SELECT generation, number, seq, expired, body, asked, peak, seal FROM snapshot"
        row = self.file.row(query)
        if row is None or seal(*row[:-1]) != row[-1] or row[0] != generation:
            return None
        body, asked, peak = row[4:7]
        try:
            sums = decode(body, self.dim, self.half_life)
            if asked:
                counted = decode(asked, self.dim, self.half_life)
                sums.open, sums.asked = counted.answered, counted.moments
                sums.peak = as_matrix(peak, self.dim)[0].astype(np.float64)
        except FileError:
            return None  # it is only a shortcut
        return Place(*row[1:4]), sums

    def place(self) -> tuple[int, Place]:
        """Compactions and place of the sums that were kept last."""
        row = self.file.row("SELECT generation, number, seq, expired FROM snapshot")
        if row is None or not all(isinstance(value, int) for value in row):
            return -1, Place()  # none, or damaged: the next one takes its place
        return row[0], Place(*row[1:])

    def keep(self, generation: int, place: Place, sums: Sums) -> None:
        """Keep the sums over the log up to a place."""
        asked = peak = b""
        if sums.asked is not None:
            asked = encode(Sums(sums.asked, sums.half_life, sums.epoch, sums.open))
            peak = as_bytes(sums.peak)
        query = """
            REPLACE INTO snapshot (id, generation, number, seq, expired, body, asked, peak, seal)
            VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)
        """
        self.file.run(query, *sealed(generation, *place, encode(sums), asked, peak))
