"""The sums over the log, kept up to date: each process reads the rewards that came since it last looked."""

from __future__ import annotations

from typing import Any

import numpy as np

from adadim.agent.file import as_matrix
from adadim.agent.log import Log
from adadim.agent.snapshots import Snapshots
from adadim.agent.sums import Sums, difference

__all__ = ["Model"]

KEEP_EVERY = 1000  # rewards between two snapshots: opening reads at most so many
PORTION = 20_000  # decisions that are folded in one transaction
CANCELS = 1e3  # a correction of rewards whose squares are so many times all others cannot be made by a difference


class Model:
    """The sums over the log as of the last look; all methods are called in a transaction of the file."""

    def __init__(self, log: Log, snapshots: Snapshots) -> None:
        self.log, self.snapshots = log, snapshots
        self.dim, self.half_life = snapshots.dim, snapshots.half_life
        self.sums, self.seq, self.generation = Sums.empty(self.dim, self.half_life), 0, -1
        self.kept, self.rebuilds = 0, 0

    def look(self) -> None:
        """Take in what is new in the log."""
        generation = self.snapshots.generation()
        if generation != self.generation:
            kept = self.snapshots.last(generation)
            if kept is None:
                self.rebuild()
            else:
                (self.seq, self.sums), self.generation = kept, generation
                self.kept = self.seq
        for rows in self.log.rewards_since(self.seq):
            if not self._add(rows):
                self.rebuild()
                break

    def rebuild(self) -> None:
        """Add up the whole log anew."""
        self.generation, self.rebuilds = self.snapshots.generation(), self.rebuilds + 1
        self.sums, self.seq = self.snapshots.folded(), 0
        for rows in self.log.latest_rewards():
            self._add(rows)
        self.seq = self.log.last_reward()

    def renew(self) -> float:
        """Add up the whole log anew and keep the sums; gives the largest change of any of them."""
        self.look()
        before = self.sums
        self.rebuild()
        self.keep()
        return difference(before, self.sums)

    def keep_if_behind(self) -> None:
        """Keep the sums in the file if many rewards came since this process kept or read some, and no other did."""
        if self.seq - self.kept >= KEEP_EVERY:
            self.keep_if_due(KEEP_EVERY)
            self.kept = self.seq

    def keep_if_due(self, every: int = 1) -> None:
        """Keep the sums in the file if those that are there are `every` rewards behind."""
        generation, seq = self.snapshots.place()
        if generation < self.generation or (generation == self.generation and self.seq - seq >= every):
            self.keep()

    def keep(self) -> None:
        """Keep the sums in the file."""
        self.snapshots.keep(self.generation, self.seq, self.sums)
        self.kept = self.seq

    def portions(self, before: float) -> list[int]:
        """Decisions up to which to `fold`, one after the other, to fold all those made before a time."""
        done, last = self.snapshots.compacted(), self.log.last_before(before)
        return [*range(done + PORTION, last, PORTION), last]

    def fold(self, upto: int) -> int:
        """Drop the decisions up to a number, keeping the sums over them; gives how many are gone."""
        self.look()
        folded = self.snapshots.folded()
        for rows in self.log.latest_rewards(upto):
            folded.add(*_columns(rows, self.dim), own=sum(row[5] for row in rows))
        gone = self.log.drop(upto)
        self.snapshots.fold(upto, folded)
        self.generation = self.snapshots.generation()  # the sums over everything are what they were
        self.keep()
        return gone

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
