"""The model as a function of the log: sums over its decisions and their rewards, kept up to date and kept in the log.

Means, noise and ridge are learned from the decisions that have a reward; widths shrink with every decision, from the
moment it is made. So there are two second moments: over the answered decisions, and over the answered and the open
ones, those that still wait for their reward.
"""

from __future__ import annotations

import copy
import hashlib
import math
import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adadim.agent.log import Entries, Log, Place, Settings, Snapshot, as_bytes, as_vector
from adadim.core.arrays import FloatArray
from adadim.errors import FileError
from adadim.models.moments import FORGOTTEN, Moments

FORMAT, EARLIER = b"sums2", b"sums1"  # the earlier one lacks `first` and `total`, which are then not known (NaN)
HEAD, EARLIER_HEAD = struct.Struct("<5sqqqqdddd"), struct.Struct("<5sqqqqddd")
DIGEST = 32
ENTRIES = ("second", "moment", "squares", "weight", "longest", "extent", "first", "total")
FAR = 10.0  # times larger than any feature that has a reward: scales then go by what is open too
CANCELS = 1e3  # what was so many times larger than what is left cannot be taken back by a difference
KEEP_EVERY = 1000  # rewards or decisions between two snapshots: opening reads at most so many
PORTION = 20_000  # decisions that are folded in one transaction


@dataclass
class Sums:
    """What the log comes to: the moments of the regression and a few counts.

    With a half-life H, the pull of decision n counts 2^(-(epoch - n) / H) in the moments; without one, 1.
    """

    moments: Moments  # over the decisions that have a reward
    half_life: float | None
    epoch: int = 0  # the decision that counts 1 where older ones count less
    answered: int = 0  # decisions of the agent that have a reward
    learned: int = 0  # those of other systems
    open: int = 0  # decisions that wait for their reward
    asked: Moments | None = None  # over the answered and the open ones, as if all earned 0; None while none is open
    peak: FloatArray | float = 0.0  # the largest diagonal of the second of `asked` since that was added up anew

    @classmethod
    def empty(cls, dim: int, half_life: float | None = None) -> Sums:
        """The sums of an empty log."""
        return cls(Moments.zeros(dim), half_life)

    @property
    def counted(self) -> Moments:
        """Sums over all decisions that count in the widths."""
        return self.moments if self.asked is None else self.asked

    @property
    def scales(self) -> tuple[float, FloatArray]:
        """The largest squared norm and values by which learners choose ridges and units.

        They are those of the decisions that have a reward, unless an open one is far larger: before the first reward,
        say, when nothing else tells raw units from like ones.
        """
        chosen = self.counted if self._far else self.moments
        return chosen.longest, chosen.extent

    @property
    def bounds(self) -> tuple[float, FloatArray]:
        """The largest squared norm and values of an open decision by which `scales` do not change."""
        known, asked = self.moments, self.counted
        if self._far:
            return asked.longest, asked.extent
        return FAR**2 * known.longest, FAR * known.extent

    @property
    def _far(self) -> bool:
        known, asked = self.moments, self.counted
        return bool(asked.longest > FAR**2 * known.longest or (asked.extent > FAR * known.extent).any())

    def expect(self, numbers: Any, features: FloatArray) -> None:
        """Count decisions that wait for their reward."""
        self.forget(int(numbers.max(initial=0)))
        if self.asked is None:
            self.asked = self.moments.without_rewards().copy()
        self._count(numbers, features)
        self.open += len(numbers)

    def withdraw(self, numbers: Any, features: FloatArray) -> bool:
        """Count decisions no longer that waited for their reward; False if a difference is not exact enough.

        `recount` then has to follow.
        """
        self.open -= len(numbers)
        if self._none_waits() or self.asked is None:
            return True
        asked, weights = self.asked, self._weights(numbers)
        asked.second -= (features if weights is None else features * weights[:, None]).T @ features
        asked.first -= features.sum(axis=0) if weights is None else weights @ features
        asked.weight -= float(len(numbers) if weights is None else weights.sum())
        # The largest values are not sums: without those that had one, nobody knows them.
        largest = np.vecdot(features, features).max() * (1 + 1e-9) >= asked.longest > self.moments.longest
        widest = (np.abs(features).max(axis=0) >= asked.extent) & (asked.extent > self.moments.extent)
        return not (largest or widest.any() or (self.peak > CANCELS * np.diag(asked.second)).any())

    def recount(self) -> None:
        """Count only the decisions that have a reward; those that wait can then be counted again by `expect`."""
        self.open, self.asked, self.peak = 0, None, 0.0

    def add(self, numbers: Any, features: FloatArray, rewards: FloatArray, own: int, waited: Any = None) -> None:
        """Add the rewards of decisions that had none, `own` of them the agent's.

        `waited` says of each whether `expect` has counted it, by default none.
        """
        self.forget(int(numbers.max(initial=0)))
        self.moments.add(features, rewards, self._weights(numbers))
        self.answered += own
        self.learned += len(rewards) - own
        if waited is not None:
            self.open -= int(waited.sum())
        if not self._none_waits():
            fresh = np.ones(len(rewards), dtype=bool) if waited is None else ~waited
            if fresh.any():
                self._count(numbers[fresh], features[fresh])

    def replace(self, numbers: Any, features: FloatArray, old: FloatArray, new: FloatArray) -> None:
        """Put corrected rewards in the place of those added before."""
        self.moments.replace(features, old, new, self._weights(numbers))

    def at(self, number: int) -> Moments:
        """The moments as decision `number` sees them."""
        seen, asked = self.moments, self.asked
        if self.half_life is not None:
            asked = None if asked is None else asked.copy()
            faded = replace(self, moments=seen.copy(), asked=asked, peak=0.0)
            faded.forget(number)
            seen = Moments.zeros(len(seen.moment)) if faded.moments.weight < FORGOTTEN else faded.moments
        if asked is None:
            return seen
        longest, extent = self.scales
        known = replace(seen, longest=longest, extent=extent)
        return replace(known, asked=asked.second, asked_first=asked.first, asked_weight=asked.weight)

    def forget(self, number: int) -> None:
        """Let older decisions count less, as of decision `number`."""
        if number > self.epoch:
            if self.half_life is not None:
                factor = 2.0 ** (-(number - self.epoch) / self.half_life)
                self.moments.fade(factor)
                if self.asked is not None:
                    self.asked.fade(factor)
                    self.peak *= factor
            self.epoch = number

    def move(self, positions: list[int], dim: int) -> None:
        """Let features be those at some positions of `dim` features, the others of which are 0 in all decisions."""
        self.moments = _moved(self.moments, positions, dim)
        if self.asked is not None:
            self.asked, peak = _moved(self.asked, positions, dim), np.zeros(dim)
            peak[positions] = self.peak
            self.peak = peak

    def _count(self, numbers: Any, features: FloatArray) -> None:
        assert self.asked is not None
        self.asked.add(features, np.zeros(len(numbers)), self._weights(numbers))
        self.peak = np.maximum(self.peak, np.diag(self.asked.second))

    def _none_waits(self) -> bool:
        if self.open == 0:
            self.recount()
        return self.open == 0

    def _weights(self, numbers: Any) -> FloatArray | None:
        if self.half_life is None:
            return None
        weights: FloatArray = np.exp2((numbers - self.epoch) / self.half_life)
        return weights


def _moved(moments: Moments, positions: list[int], dim: int) -> Moments:
    moved = Moments.zeros(dim)
    moved.second[np.ix_(positions, positions)] = moments.second
    moved.moment[positions], moved.extent[positions] = moments.moment, moments.extent
    moved.first[positions] = moments.first
    numbers = {name: getattr(moments, name) for name in ("squares", "weight", "longest", "total")}
    return replace(moved, **numbers)


def difference(one: Sums, other: Sums) -> float:
    """Largest difference of any two entries, relative to the largest entry of its kind; infinite if counts differ."""
    if any(getattr(one, name) != getattr(other, name) for name in ("epoch", "answered", "learned", "open")):
        return math.inf
    largest = 0.0
    entries = [(part, name) for part in ("moments", "counted") for name in ENTRIES]
    for part, name in entries:
        a, b = (np.nan_to_num(np.atleast_1d(getattr(getattr(sums, part), name))) for sums in (one, other))
        size = max(float(np.abs(a).max()), float(np.abs(b).max()))
        largest = max(largest, float(np.abs(a - b).max()) / size if size else 0.0)
    return largest


def encode(sums: Sums) -> bytes:
    """The sums over answered decisions as bytes, the last of which are a digest of the others."""
    moments = sums.moments
    counts = (len(moments.moment), sums.epoch, sums.answered, sums.learned)
    head = HEAD.pack(FORMAT, *counts, moments.squares, moments.weight, moments.longest, moments.total)
    arrays = (moments.second, moments.moment, moments.extent, moments.first)
    body = head + b"".join(map(as_bytes, arrays))
    return body + hashlib.sha256(body).digest()


def decode(data: bytes, dim: int, half_life: float | None) -> Sums:
    """The sums that `encode` wrote, here or in version 0.2; a `FileError` if these bytes are not that."""
    body, digest = data[:-DIGEST], data[-DIGEST:]
    earlier = data.startswith(EARLIER)
    head, rows = (EARLIER_HEAD, dim + 2) if earlier else (HEAD, dim + 3)
    if len(data) != head.size + 8 * dim * rows + DIGEST or hashlib.sha256(body).digest() != digest:
        raise FileError("damaged sums")
    form, size, epoch, answered, learned, squares, weight, longest, *total = head.unpack_from(body)
    if form not in (FORMAT, EARLIER) or size != dim:
        raise FileError("damaged sums")
    second, (moment, extent, *first) = np.split(as_vector(body[head.size :]).astype(np.float64).reshape(-1, dim), [dim])
    moments = Moments(second, moment, squares, weight, longest, extent)
    if earlier and moments.weight:
        moments.first, moments.total = np.full(dim, math.nan), math.nan
    elif not earlier:
        moments.first, moments.total = first[0], *total
    return Sums(moments, half_life, epoch, answered, learned)


class Model:
    """The sums over the log as of the last `refresh`; all methods are called in a transaction of the log.

    A learner that knows `sums` at some `version` knows them at the same version later too, once it has counted the
    decisions in `recent`, with their numbers, that came since. At another version it has to start again. `renewals`
    counts how often the sums were taken anew from the log: there may have been decisions that were not written.
    """

    def __init__(self, log: Log) -> None:
        self.log, settings = log, log.settings
        self.half_life = settings.memory
        self.withdraws = settings.expire_after is not None and settings.expired_reward is None
        self.sums, self.place = Sums.empty(self.dim, self.half_life), Place()
        self.kept, self.version = Place(), 0
        self.renewals, self.recent = 0, list[tuple[int, FloatArray]]()
        self._batch: list[tuple[int, FloatArray]] = []  # counted, but not in the sums yet
        self._bounds: tuple[float, FloatArray] | None = None  # those of the sums, while there is a batch

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.log.settings.dim

    def refresh(self) -> None:
        """Take in what is new in the log."""
        try:
            self._refresh()
        except BaseException:
            self.unlearn()  # it may have read half of it
            raise

    def unlearn(self) -> None:
        """Take the sums anew from the log at the next refresh: they may have more than the log."""
        self.place = self.place._replace(generation=-1)
        self.renewals += 1
        self._batch.clear()
        self._bounds = None

    def _refresh(self) -> None:
        place = self.log.place()
        if place.generation != self.place.generation:
            self.log.refresh_settings()
            snapshot = self._snapshot(place.generation)
            if snapshot is None:
                self.rebuild()
                return
            self.place, self.sums = snapshot
            self.kept = self.place
            self._changed()
        exact = True
        if place.number > self.place.number:
            for waiting in self.log.read("waiting", self.place.number):
                self.expect(waiting.numbers, waiting.features)
        expired, reward = self.place.expired, self.place.reward
        if self.withdraws:
            for entries in self.log.read("expired", expired):
                expired = entries.last
                counted = entries.numbers <= self.place.number  # those that were never seen waiting are not
                if counted.any():
                    exact = self.sums.withdraw(entries.numbers[counted], entries.features[counted]) and exact
                    self._changed()
        for entries in self.log.read("rewards", reward):
            reward = entries.last
            if not self._add(entries):
                self.rebuild()
                return
        self.place = place._replace(reward=reward, expired=expired)
        self.sums.forget(place.number)
        if not exact:
            self._count_open()

    def _snapshot(self, generation: int) -> tuple[Place, Sums] | None:
        """The sums that were kept last, after so many compactions, and up to where; None if damaged or older."""
        snapshot = self.log.snapshot()
        if snapshot is None or snapshot.place.generation != generation:
            return None
        try:
            sums = decode(snapshot.body, self.dim, self.half_life)
            if math.isnan(sums.moments.total):
                return None  # of version 0.2: the log has more
            if snapshot.asked:
                counted = decode(snapshot.asked, self.dim, self.half_life)
                sums.open, sums.asked = counted.answered, counted.moments
                sums.peak = as_vector(snapshot.peak).astype(np.float64)
        except FileError:
            return None  # it is only a shortcut
        return snapshot.place, sums

    def _add(self, entries: Entries) -> bool:
        """Take in rewards; False if they correct some too large to be taken back by a difference."""
        _, numbers, features, rewards, replaced, own, expired = entries
        # Those that waited have been counted; where decisions expire without a reward, they have been taken out again.
        waited = numbers <= self.place.number
        if self.withdraws:
            waited &= ~expired
        self._changed()
        if replaced is None:
            self.sums.add(numbers, features, rewards, int(own.sum()), waited)
            return True
        first = np.isnan(replaced)
        if first.any():
            self.sums.add(numbers[first], features[first], rewards[first], int(own[first].sum()), waited[first])
        old = replaced[~first]
        self.sums.replace(numbers[~first], features[~first], old, rewards[~first])
        return float(old @ old) <= CANCELS * self.sums.moments.squares

    def expect(self, numbers: Any, features: FloatArray) -> None:
        """Count decisions that wait for their reward."""
        longest, extent = self.sums.scales
        self.sums.expect(numbers, features)
        now = self.sums.scales
        self.recent.extend(zip(numbers.tolist(), features, strict=True))
        if now[0] != longest or (now[1] != extent).any():
            self._changed()  # other scales are no small step

    def count_decision(self, number: int, features: FloatArray) -> None:
        """Count the next decision of a batch, which this process is about to write; `add_batch` ends the batch."""
        if self._bounds is None:
            self._bounds = self.sums.bounds
        longest, extent = self._bounds
        if self.half_life is None and features @ features <= longest and (np.abs(features) <= extent).all():
            # The scales stay what they are, so that the sums can wait for the rest of the batch.
            self._batch.append((number, features))
            self.recent.append((number, features))
            return
        self.add_batch()
        self.expect(np.array([number]), features[None])
        self.sums.forget(number)
        self.place = self.place._replace(number=number)

    def counted(self) -> tuple[Place, Sums]:
        """What `restore` takes."""
        return self.place, copy.deepcopy(self.sums)

    def restore(self, before: tuple[Place, Sums]) -> None:
        """Go back to what was counted before: the log has the decisions since under other numbers."""
        self.place, self.sums = before
        self._batch.clear()
        self._bounds = None
        self.recent[:] = [one for one in self.recent if one[0] <= self.place.number]
        self.renewals += 1
        self._changed()

    def add_batch(self) -> None:
        """Add the decisions of the batch to the sums."""
        self._bounds = None
        if self._batch:
            numbers, features = zip(*self._batch, strict=True)
            self._batch.clear()
            self.sums.expect(np.array(numbers), np.array(features))
            self.place = self.place._replace(number=numbers[-1])

    def replace_features(self, settings: Settings) -> None:
        """Go over to settings with appended features, in which all decisions so far count 0."""
        self.refresh()
        before, after = self.log.settings.design, settings.design
        assert before is not None
        assert after is not None
        positions, folded = before.positions_in(after), self._folded()
        for sums in (self.sums, folded):
            sums.move(positions, after.dim)
        self.log.replace_settings(settings, encode(folded))
        self.place = self.place._replace(generation=self.log.place().generation)
        self._changed()
        self.keep()

    def rebuild(self) -> None:
        """Add up the whole log anew."""
        self.unlearn()  # should this stop half-way
        place, self.sums = self.log.place(), self._folded()
        self._add_answered(self.sums)
        self._count_open()
        self.sums.forget(place.number)
        self.place = place

    def _folded(self) -> Sums:
        """The sums over what compaction dropped."""
        try:
            return decode(self.log.folded()[1], self.dim, self.half_life)
        except FileError:
            raise self.log.damaged("the sums of compacted decisions cannot be read") from None

    def _add_answered(self, sums: Sums, upto: int = 2**62) -> None:
        for entries in self.log.read("answered", upto=upto):
            sums.add(entries.numbers, entries.features, entries.rewards, int(entries.own.sum()))

    def _count_open(self) -> None:
        """Count anew what waits for its reward."""
        self.sums.recount()
        for waiting in self.log.read("waiting"):
            self.sums.expect(waiting.numbers, waiting.features)
        self._changed()

    def _changed(self) -> None:
        self.version += 1

    def renew(self) -> float:
        """Add up the whole log anew and keep the sums; gives the largest change of any of them."""
        self.refresh()
        before = self.sums
        self.rebuild()
        self.keep()
        return difference(before, self.sums)

    def is_behind(self, every: int = KEEP_EVERY) -> bool:
        """Whether `every` rows came since this process kept sums or read some."""
        return self.place.since(self.kept) >= every

    def keep_if_behind(self, every: int = KEEP_EVERY) -> None:
        """Keep the sums in the log if `every` rows came since this process kept or read some, and no other did."""
        if not self.is_behind(every):
            return
        snapshot = self.log.snapshot()
        kept = Place() if snapshot is None else snapshot.place
        behind = kept.generation == self.place.generation and self.place.since(kept) >= every
        if behind or kept.generation < self.place.generation:
            self.keep()
        self.kept = self.place

    def keep(self) -> None:
        """Keep the sums in the log."""
        sums, asked, peak = self.sums, b"", b""
        if sums.asked is not None:
            asked = encode(Sums(sums.asked, sums.half_life, sums.epoch, sums.open))
            peak = as_bytes(sums.peak)
        self.log.keep(Snapshot(self.place, encode(sums), asked, peak))
        self.kept = self.place

    def portions(self, before: float) -> list[int]:
        """Decisions up to which to `fold`, one after the other, to fold all those made before a time."""
        (upto, _), last = self.log.folded(), self.log.last_before(before)
        return [*range(upto + PORTION, last, PORTION), last]

    def fold(self, upto: int) -> int:
        """Drop the decisions up to a number, keeping the sums over them; gives how many are gone."""
        self.refresh()
        folded = self._folded()
        self._add_answered(folded, upto)
        gone = self.log.fold(upto, encode(folded))
        self.place = self.place._replace(generation=self.log.place().generation)  # the sums are what they were
        self.keep()
        return gone
