"""The sums over the log, kept up to date: each process reads the rewards that came since it last looked."""

from __future__ import annotations

from typing import Any

import numpy as np

from adadim.agent.log import Log, as_matrix
from adadim.agent.sums import Sums, decode, encode
from adadim.errors import FileError

__all__ = ["Model"]

KEEP_EVERY = 1000  # rewards between two snapshots: opening reads at most so many
CANCELS = 1e3  # a correction of rewards whose squares are so many times all others cannot be made by a difference


class Model:
    """The sums over the log as of the last look.

    All methods are called inside a transaction of the log.

    Parameters
    ----------
    log : Log
        The log.
    dim : int
        Number of features d.
    half_life : float or None
        Decisions after which a reward counts half.
    """

    def __init__(self, log: Log, dim: int, half_life: float | None) -> None:
        self.log, self.dim, self.half_life = log, dim, half_life
        self.sums, self.seq, self.generation = Sums.empty(dim, half_life), 0, -1
        self.kept = 0

    def look(self) -> bool:
        """Take in what is new in the log; says whether anything was."""
        before = (self.generation, self.seq)
        if self.log.generation() != self.generation:
            self.load()
        for rows in self.log.rewards_since(self.seq):
            if not self._add(rows):
                self.rebuild()
                break
        return before != (self.generation, self.seq)

    def load(self) -> None:
        """Start from the snapshot, or from nothing if there is none or it is damaged."""
        kept, generation = self.log.snapshot(), self.log.generation()
        if kept is not None and kept[0] == generation:
            try:
                self.sums, self.seq, self.generation = decode(kept[2], self.dim, self.half_life), kept[1], generation
                self.kept = self.seq
                return
            except FileError:
                pass  # it is only a shortcut
        self.rebuild()

    def rebuild(self) -> None:
        """Add up the whole log anew."""
        self.generation, _, body = self.log.folded()
        self.sums, self.seq = self.folded(body), 0
        for rows in self.log.latest_rewards():
            self._add(rows)
        self.seq = self.log.last_reward()

    def folded(self, body: bytes) -> Sums:
        """The sums over what was compacted."""
        try:
            return decode(body, self.dim, self.half_life)
        except FileError:
            raise FileError(
                f"{self.log.path}: damaged: the sums of compacted decisions cannot be read; restore it from a backup"
            ) from None

    def keep_if_due(self) -> None:
        """Keep the sums in the file if none that are nearly as new are there."""
        if self.due():
            self.keep()
        else:
            self.kept = self.seq

    def keep(self) -> None:
        """Keep the sums in the file."""
        self.log.keep(self.generation, self.seq, encode(self.sums))
        self.kept = self.seq

    def behind(self) -> bool:
        """Whether many rewards came since this process kept or read a snapshot."""
        return self.seq - self.kept >= KEEP_EVERY

    def fold(self, upto: int) -> int:
        """Drop the decisions up to a number, keeping the sums over them; gives how many are gone."""
        self.look()
        kept = self.folded(self.log.folded()[2])
        for rows in self.log.latest_rewards(upto):
            kept.add(*_columns(rows, self.dim), own=sum(row[5] for row in rows))
        gone = self.log.fold(upto, encode(kept))
        self.generation = self.log.generation()  # the sums over everything are what they were
        self.keep()
        return gone

    def due(self, every: int = KEEP_EVERY) -> bool:
        """Whether the snapshot in the file is `every` rewards behind."""
        generation, seq = self.log.snapshot_place()
        return generation < self.generation or (generation == self.generation and self.seq - seq >= every)

    def _add(self, rows: list[Any]) -> bool:
        """Take in rows of rewards; False if they correct rewards too large to be taken back by a difference."""
        first = [row for row in rows if row[3] is None]
        if first:
            self.sums.add(*_columns(first, self.dim), own=sum(row[5] for row in first))
        changed = [row for row in rows if row[3] is not None]
        if changed:
            numbers, features, new = _columns(changed, self.dim)
            old = np.array([row[3] for row in changed])
            self.sums.replace(numbers, features, old, new)
            if float(old @ old) > CANCELS * self.sums.moments.squares:
                return False
        self.seq = rows[-1][0]
        return True


def _columns(rows: list[Any], dim: int) -> tuple[Any, Any, Any]:
    """Numbers of decisions, features and rewards."""
    features = as_matrix(b"".join(row[4] for row in rows), dim)
    return np.array([row[1] for row in rows]), features, np.array([row[2] for row in rows])
