"""The sums over the log, kept up to date: each process reads what came since it last looked."""

from __future__ import annotations

from typing import Any

import numpy as np

from adadim.agent.file import as_matrix
from adadim.agent.log import Log
from adadim.agent.settings import Settings
from adadim.agent.snapshots import Place, Snapshots
from adadim.agent.sums import CANCELS, Sums, difference

__all__ = ["Model"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

KEEP_EVERY = 1000  # rewards or decisions between two snapshots: opening reads at most so many
PORTION = 20_000  # decisions that are folded in one transaction


class Model:
    """The sums over the log as of the last look; all methods are called in a transaction of the file.

    A learner that knows `sums` at some `version` knows them at the same version later too, once it has counted the
    decisions whose features are in `expected`, and they are taken out. At another version it has to start again.
    """

    def __init__(self, log: Log, snapshots: Snapshots, settings: Settings) -> None:
        self.log, self.snapshots = log, snapshots
        self.dim, self.half_life = settings.dim, settings.memory
        self.withdraws = settings.expire_after is not None and settings.expired_reward is None
        self.sums, self.place, self.generation = Sums.empty(self.dim, self.half_life), Place(), -1
        self.kept, self.version = Place(), 0
        self.expected: list[FloatArray] = []

    def look(self) -> None:
        """Take in what is new in the log."""
        try:
            self._look()
        except BaseException:
            self.unlearn()  # it may have read half of it
            raise

    def unlearn(self) -> None:
        """Take the sums anew from the file at the next look: they may have more than the file."""
        self.generation = -1

    def _look(self) -> None:
        generation = self.snapshots.generation()
        if generation != self.generation:
            kept = self.snapshots.last(generation)
            if kept is None:
                self.rebuild()
                return
            (self.place, self.sums), self.generation = kept, generation
            self.kept = self.place
            self._changed()
        last, exact = self.log.last_number(), True
        for rows in self.log.open_since(self.place.number):
            self.expect(*_decisions(rows, self.dim))
        expired, reward = self.place.expired, self.place.reward
        if self.withdraws:
            for rows in self.log.expired_since(expired):
                expired = rows[-1][0]
                # Those that were never seen waiting have not been counted.
                counted = [(number, x) for _, number, x in rows if number <= self.place.number]
                if counted:
                    exact = self.sums.withdraw(*_decisions(counted, self.dim)) and exact
                    self._changed()
        for rows in self.log.rewards_since(reward):
            reward = rows[-1][0]
            if not self._add(rows):
                self.rebuild()
                return
        self.place = Place(last, reward, expired)
        self.sums.forget(last)
        if not exact:
            self._count_open()

    def expect(self, numbers: Any, features: FloatArray) -> None:
        """Count decisions that wait for their reward."""
        longest, extent = self.sums.scales
        self.sums.expect(numbers, features)
        now = self.sums.scales
        self.expected.extend(features)
        if now[0] != longest or (now[1] != extent).any() or len(self.expected) > self.dim:
            self._changed()  # other scales are no small step; and so many steps cost more than to start again

    def decided(self, number: int, features: FloatArray) -> None:
        """Count the next decision, which has just been written by this process."""
        self.expect(np.array([number]), features[None])
        self.place = self.place._replace(number=number)
        self.sums.forget(number)

    def rebuild(self) -> None:
        """Add up the whole log anew."""
        self.unlearn()  # should this stop half-way
        self.place = Place(self.log.last_number(), self.log.last_reward(), self.log.last_expired())
        self.sums = self.snapshots.folded()
        for rows in self.log.latest_rewards():
            self.sums.add(*_columns(rows, self.dim), own=sum(row[5] for row in rows))
        self._count_open()
        self.sums.forget(self.place.number)
        self.generation = self.snapshots.generation()

    def _count_open(self) -> None:
        """Count anew what waits for its reward."""
        self.sums.recount()
        for rows in self.log.open_since(0):
            self.sums.expect(*_decisions(rows, self.dim))
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self.expected.clear()

    def renew(self) -> float:
        """Add up the whole log anew and keep the sums; gives the largest change of any of them."""
        self.look()
        before = self.sums
        self.rebuild()
        self.keep()
        return difference(before, self.sums)

    def keep_if_behind(self) -> None:
        """Keep the sums in the file if much came since this process kept or read some, and no other did."""
        if self.place.since(self.kept) >= KEEP_EVERY:
            self.keep_if_due(KEEP_EVERY)
            self.kept = self.place

    def keep_if_due(self, every: int = 1) -> None:
        """Keep the sums in the file if those that are there are `every` decisions or rewards behind."""
        generation, place = self.snapshots.place()
        if generation < self.generation or (generation == self.generation and self.place.since(place) >= every):
            self.keep()

    def keep(self) -> None:
        """Keep the sums in the file."""
        self.snapshots.keep(self.generation, self.place, self.sums)
        self.kept = self.place

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
            waited = np.array([self._waited(row[1]) for row in first])
            self.sums.add(*_columns(first, self.dim), own=sum(row[5] for row in first), waited=waited)
        changed = [row for row in rows if row[3] is not None]
        self._changed()
        if changed:
            numbers, features, new = _columns(changed, self.dim)
            old = np.array([row[3] for row in changed])
            self.sums.replace(numbers, features, old, new)
            return float(old @ old) <= CANCELS * self.sums.moments.squares
        return True

    def _waited(self, number: int) -> bool:
        """Whether a decision that now has its first reward was counted before; one that expired has been taken out."""
        return number <= self.place.number and not (self.withdraws and self.log.has_expired(number))


def _decisions(rows: list[Any], dim: int) -> tuple[Any, FloatArray]:
    """Numbers of decisions and features."""
    return np.array([row[0] for row in rows]), as_matrix(b"".join(row[1] for row in rows), dim)


def _columns(rows: list[Any], dim: int) -> tuple[Any, Any, Any]:
    """Numbers of decisions, features and rewards."""
    features = as_matrix(b"".join(row[4] for row in rows), dim)
    return np.array([row[1] for row in rows]), features, np.array([row[2] for row in rows])
