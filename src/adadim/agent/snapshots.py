"""The sums that an agent's file keeps: over what was compacted, and over the whole log up to some reward."""

from __future__ import annotations

from adadim.agent.file import File, seal, sealed
from adadim.agent.settings import Settings
from adadim.agent.sums import Sums, decode, encode
from adadim.errors import FileError

__all__ = ["Snapshots"]

FOLDED = "sums of compacted decisions"


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

    def last(self, generation: int) -> tuple[int, Sums] | None:
        """The sums that were kept last, after so many compactions, and up to which reward; None if damaged or older."""
        row = self.file.row("SELECT generation, seq, body, seal FROM snapshot")
        if row is None or seal(*row[:-1]) != row[-1] or row[0] != generation:
            return None
        try:
            return row[1], decode(row[2], self.dim, self.half_life)
        except FileError:
            return None  # it is only a shortcut

    def place(self) -> tuple[int, int]:
        """Compactions and reward of the sums that were kept last."""
        row = self.file.row("SELECT generation, seq FROM snapshot")
        if row is None or not all(isinstance(value, int) for value in row):
            return -1, -1  # none, or damaged: the next one takes its place
        return row[0], row[1]

    def keep(self, generation: int, seq: int, sums: Sums) -> None:
        """Keep the sums over the log up to a reward."""
        query = "REPLACE INTO snapshot (id, generation, seq, body, seal) VALUES (1, ?, ?, ?, ?)"
        self.file.run(query, *sealed(generation, seq, encode(sums)))
