"""The model as a function of the log: sums over its decisions and rewards, with snapshots of them in the log.

Means, noise and ridge are learned from the decisions that have a reward; widths shrink with every decision, from the
moment it is made. So there are two second moments: over the answered decisions, and over the answered and the open
ones, those that still wait for their reward.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from adadim.agent.fits import NOTHING_SCHEDULED, DueFit, FitSchedule
from adadim.agent.kept import KeptOpen, KeptRewards, TrialsOfLog
from adadim.agent.log import AgentSettings, Log, LogPosition, Snapshot, as_bytes, as_vector, damaged
from adadim.agent.reading import Entries, Reader
from adadim.agent.statements import ALL, FIRST_SINCE
from adadim.core.arrays import FloatArray
from adadim.core.threads import one_thread
from adadim.errors import FileError
from adadim.models.likelihoods import MIN_OF_EACH_KIND, ExpandedLikelihood, Told, fit, likelihood_of
from adadim.models.memory import AGE_STEP, HALF_LIVES, MemoryBank
from adadim.models.offers import basis_of
from adadim.models.parts import Likelihood
from adadim.models.priors import Prior, RidgePrior
from adadim.models.statistics import FORGOTTEN, Moments

SUMS_FORMAT, FORMAT_0_2 = b"sums2", b"sums1"  # that of version 0.2 lacks `first` and `total`, which are then NaN
FORMAT_CLICKS, HEAD_CLICKS = b"clic2", struct.Struct("<5s7qdd")  # before sums of clicks
DUE_BYTES = 32  # of a fit that was due
HEAD, HEAD_0_2 = struct.Struct("<5sqqqqdddd"), struct.Struct("<5sqqqqddd")
BANK_FORMAT, BANK_HEAD = b"bank3", struct.Struct("<5s8q")
DIGEST_BYTES = 32  # of SHA-256
MOMENT_FIELDS = ("second", "moment", "squares", "weight", "longest", "extent", "first", "total")
MIN_REWARDS_OF_HINT = 20  # that are all 0 or 1, before an agent says how to tell it so
FAR_FACTOR = 10.0  # an open feature so many times larger than all with a reward enters the scales
CANCELLATION_FACTOR = 1e3  # a sum that a subtraction would make so many times smaller is added up anew instead
SNAPSHOT_ROWS = 1000  # rewards or decisions between two snapshots, which is the most that opening reads
PORTION_DECISIONS = 20_000  # decisions that are folded in one transaction


GAUSSIAN_LIKELIHOOD = likelihood_of("gaussian")

FitKey = tuple[int, int, int, int]
"""What a fit depends on: `Told.due`, the half-life that the data find, with its start, and the prior."""


class Fading(NamedTuple):
    """How much decisions count by their age."""

    half_life: float | None = None
    step: int = 1  # in which they age
    start: int = 0  # the first that counts


NOTHING_FADES = Fading()


@dataclass
class Sums:
    """Sums over the log: the moments of the regression and a few counts.

    With a half-life H, the pull of decision n counts 2^(-(epoch - n) / H) in the moments; without one, 1. Decisions age
    `step` at a time: both numbers are rounded down to a multiple of it. Those before decision `start` count 0.
    """

    moments: Moments  # over the decisions that have a reward
    half_life: float | None
    epoch: int = 0  # the decision that counts 1 where older ones count less
    answered: int = 0  # decisions of the agent that have a reward
    learned: int = 0  # decisions of other systems
    open: int = 0  # decisions that wait for their reward
    pending: Moments | None = None  # over answered and open decisions, as if all earned 0; None while none is open
    likelihood: Likelihood = GAUSSIAN_LIKELIHOOD
    point: FloatArray | None = None  # about which the likelihood is expanded, if it is (`likelihoods`)
    fitted: FitKey = (0, 0, 0, 0)  # what it was found for
    schedule: FitSchedule = NOTHING_SCHEDULED
    peak: FloatArray | float = 0.0  # the largest diagonal that `pending.second` has had since it was last added up anew
    step: int = 1
    start: int = 0

    @classmethod
    def empty(cls, dim: int, fading: Fading = NOTHING_FADES, rewards: str = "gaussian") -> Sums:
        """The sums of an empty log."""
        likelihood = likelihood_of(rewards)
        point = np.zeros(1 + dim) if likelihood.expands else None
        return cls(
            Moments.zeros(dim),
            fading.half_life,
            likelihood=likelihood,
            point=point,
            step=fading.step,
            start=fading.start,
        )

    @property
    def fading(self) -> Fading:
        """How much decisions count by their age."""
        return Fading(self.half_life, self.step, self.start)

    @property
    def expanded(self) -> ExpandedLikelihood:
        """The likelihood, of which there is a point."""
        assert isinstance(self.likelihood, ExpandedLikelihood)
        return self.likelihood

    @property
    def count(self) -> int:
        """Decisions that have a reward."""
        return self.answered + self.learned

    @property
    def counted(self) -> Moments:
        """The moments over all decisions that count in the widths."""
        return self.moments if self.pending is None else self.pending

    @property
    def scales(self) -> tuple[float, FloatArray]:
        """The largest squared norm and values by which learners choose ridges and units.

        They are those of the decisions that have a reward, unless an open one is far larger. Before the first reward,
        for example, only open decisions show the units of the features.
        """
        chosen = self.counted if self._far else self.moments
        return chosen.longest, chosen.extent

    @property
    def bounds(self) -> tuple[float, FloatArray]:
        """The largest squared norm and values that an open decision may have without changing `scales`."""
        if self._far:
            return self.counted.longest, self.counted.extent
        return FAR_FACTOR**2 * self.moments.longest, FAR_FACTOR * self.moments.extent

    @property
    def _far(self) -> bool:
        answered, counted = self.moments, self.counted
        too_long = counted.longest > FAR_FACTOR**2 * answered.longest
        return bool(too_long or (counted.extent > FAR_FACTOR * answered.extent).any())

    def add_pending(self, numbers: Any, features: FloatArray) -> None:
        """Count decisions that wait for their reward."""
        self.forget(int(numbers.max(initial=0)))
        if self.pending is None:
            self.pending = self.moments.without_rewards().copy()
        self._count(numbers, features)
        self.open += len(numbers)

    def withdraw(self, numbers: Any, features: FloatArray) -> bool:
        """Subtract decisions that waited for their reward; False if the difference is not exact enough.

        The open decisions then have to be counted anew: `clear_pending` and `add_pending`.
        """
        self.open -= len(numbers)
        if self._clear_unless_pending() or self.pending is None:
            return True
        pending, weights = self.pending, self._weights(numbers, features)
        pending.second -= (features if weights is None else features * weights[:, None]).T @ features
        pending.first -= features.sum(axis=0) if weights is None else weights @ features
        pending.weight -= float(len(numbers) if weights is None else weights.sum())
        # The largest values are not sums: without the decision that had one, they are unknown.
        largest = np.vecdot(features, features).max() * (1 + 1e-9) >= pending.longest > self.moments.longest
        widest = (np.abs(features).max(axis=0) >= pending.extent) & (pending.extent > self.moments.extent)
        return not (largest or widest.any() or (self.peak > CANCELLATION_FACTOR * np.diag(pending.second)).any())

    def clear_pending(self) -> None:
        """Drop all open decisions from the sums; `add_pending` can count them again."""
        self.open, self.pending, self.peak = 0, None, 0.0

    def add(self, numbers: Any, features: FloatArray, rewards: FloatArray, by_agent: int, waited: Any = None) -> None:
        """Add the rewards of decisions that had none, `by_agent` of them the agent's.

        `waited` says of each whether `add_pending` has counted it, by default none.
        """
        self.forget(int(numbers.max(initial=0)))
        self.moments.add(features, self._working(features, rewards), self._weights(numbers, features))
        self.answered += by_agent
        self.learned += len(rewards) - by_agent
        if waited is not None:
            self.open -= int(waited.sum())
        if not self._clear_unless_pending():
            fresh = np.ones(len(rewards), dtype=bool) if waited is None else ~waited
            if fresh.any():
                self._count(numbers[fresh], features[fresh])

    def replace(self, numbers: Any, features: FloatArray, old: FloatArray, new: FloatArray) -> None:
        """Replace rewards that were added before by corrected ones."""
        working = self._working(features, old), self._working(features, new)
        self.moments.replace(features, *working, self._weights(numbers, features))

    @property
    def look_like_clicks(self) -> bool:
        """Whether an agent that was not told of clicks has had 0 and 1 alone as rewards, and enough of them."""
        moments = self.moments
        only_0_and_1 = abs(moments.squares - moments.total) <= 1e-9 * moments.weight  # false for NaN
        some_of_each = 0 < moments.total < moments.weight
        return self.point is None and self.count >= MIN_REWARDS_OF_HINT and only_0_and_1 and some_of_each

    def at(self, number: int) -> Moments:
        """The moments by which decision `number` is made."""
        moments, pending = self.moments, self.pending
        if self.half_life is not None or self.start:
            pending = None if pending is None else pending.copy()
            faded = replace(self, moments=moments.copy(), pending=pending, peak=0.0)
            faded.forget(number)
            moments = Moments.zeros(len(moments.moment)) if faded.moments.weight < FORGOTTEN else faded.moments
        if self.point is not None:
            if self.fitted[1] < MIN_OF_EACH_KIND:  # no arm differs in mean
                moments = moments.alike(float(self.point[0]))
            moments = replace(moments, count=float(self.count), point=self.point)
        if pending is None:
            return moments
        longest, extent = self.scales
        return replace(moments, longest=longest, extent=extent, pending=pending)

    def forget(self, number: int) -> None:
        """Multiply the weights of all decisions by what they lose until decision `number`."""
        number = number // self.step * self.step
        if number > self.epoch:
            if self.half_life is not None:
                factor = 2.0 ** (-(number - self.epoch) / self.half_life)
                self.moments.fade(factor)
                if self.pending is not None:
                    self.pending.fade(factor)
                    self.peak *= factor
            self.epoch = number

    def move(self, positions: list[int], dim: int) -> None:
        """Move the features to these positions among `dim`; the others are 0 in all decisions."""
        self.moments = self.moments.moved(positions, dim)
        if self.point is not None:
            point, self.point = self.point, np.zeros(1 + dim)
            self.point[0], self.point[1 + np.array(positions, dtype=np.int64)] = point[0], point[1:]
        if self.pending is not None:
            self.pending, peak = self.pending.moved(positions, dim), np.zeros(dim)
            peak[positions] = self.peak
            self.peak = peak

    def _count(self, numbers: Any, features: FloatArray) -> None:
        assert self.pending is not None
        self.pending.add(features, np.zeros(len(numbers)), self._weights(numbers, features))
        self.peak = np.maximum(self.peak, np.diag(self.pending.second))

    def _clear_unless_pending(self) -> bool:
        """Whether no decision is open; then rounding is cleared too."""
        if self.open == 0:
            self.clear_pending()
        return self.open == 0

    def ages(self, numbers: Any) -> Any:
        """How much older than the epoch decisions are, as a negative number of decisions."""
        return numbers // self.step * self.step - self.epoch

    def faded(self, numbers: Any) -> FloatArray | None:
        """Weights of decisions by their age; None where nothing is forgotten."""
        if self.half_life is None and not self.start:
            return None
        ages = np.zeros(len(numbers)) if self.half_life is None else self.ages(numbers) / self.half_life
        return np.where(numbers >= self.start, np.exp2(ages), 0.0)

    def _weights(self, numbers: Any, features: FloatArray) -> FloatArray | None:
        faded, weights = self.faded(numbers), self.likelihood.weights(self.point, features)
        if weights is None or faded is None:
            return faded if weights is None else weights
        return weights * faded

    def _working(self, features: FloatArray, rewards: FloatArray) -> FloatArray:
        """What the moments are made of: the rewards, or those of the linear model in their place."""
        return self.likelihood.working(self.point, features, rewards)


def difference(one: Sums, other: Sums) -> float:
    """Largest difference of any two entries, relative to the largest entry of its kind; infinite if counts differ."""
    if any(getattr(one, name) != getattr(other, name) for name in ("epoch", "answered", "learned", "open", "fitted")):
        return math.inf
    largest = 0.0
    for part, name in itertools.product(("moments", "counted"), MOMENT_FIELDS):
        a, b = (np.nan_to_num(np.atleast_1d(getattr(getattr(sums, part), name))) for sums in (one, other))
        size = max(float(np.abs(a).max()), float(np.abs(b).max()))
        largest = max(largest, float(np.abs(a - b).max()) / size if size else 0.0)
    return largest


def encode(sums: Sums) -> bytes:
    """The sums over answered decisions as bytes, the last of which are a digest of the others."""
    moments = sums.moments
    counts = (len(moments.moment), sums.epoch, sums.answered, sums.learned)
    head = HEAD.pack(SUMS_FORMAT, *counts, moments.squares, moments.weight, moments.longest, moments.total)
    arrays = (moments.second, moments.moment, moments.extent, moments.first)
    body = head + b"".join(map(as_bytes, arrays))
    if sums.point is not None:
        told, due = sums.schedule.told, (sums.schedule.used, *sums.schedule.ahead)
        head = HEAD_CLICKS.pack(FORMAT_CLICKS, *sums.fitted, sums.schedule.row, len(due), *told)
        rows = np.array([(one.row, *one.told) for one in due], dtype=float)
        body = head + as_bytes(sums.point) + as_bytes(rows) + body
    return body + hashlib.sha256(body).digest()


def decode(data: bytes, empty: Sums) -> Sums:
    """The sums that `encode` of this version or of 0.2 wrote, which began as `empty`; a `FileError` if damaged."""
    dim = len(empty.moments.moment)
    if data.startswith(FORMAT_CLICKS):
        body, digest, start = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:], _size_before_sums(data, dim)
        if hashlib.sha256(body).digest() != digest or len(body) < start or empty.point is None:
            raise FileError("damaged sums")
        _, *fitted, row, _, number, clicks, rarer = HEAD_CLICKS.unpack_from(body)
        sums = decode(body[start:] + hashlib.sha256(body[start:]).digest(), empty)
        point, due = np.split(as_vector(body[HEAD_CLICKS.size : start]).astype(np.float64), [1 + dim])
        used, *ahead = [DueFit(int(one[0]), Told(int(one[1]), *one[2:])) for one in due.reshape(-1, 4).tolist()]
        schedule = FitSchedule(Told(number, clicks, rarer), row, used, tuple(ahead))
        return replace(sums, point=point, fitted=tuple(fitted), schedule=schedule)
    body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    earlier = data.startswith(FORMAT_0_2)
    head, rows = (HEAD_0_2, dim + 2) if earlier else (HEAD, dim + 3)
    if len(data) != head.size + 8 * dim * rows + DIGEST_BYTES or hashlib.sha256(body).digest() != digest:
        raise FileError("damaged sums")
    form, size, epoch, answered, learned, squares, weight, longest, *total = head.unpack_from(body)
    if form not in (SUMS_FORMAT, FORMAT_0_2) or size != dim:
        raise FileError("damaged sums")
    second, (moment, extent, *first) = np.split(as_vector(body[head.size :]).astype(np.float64).reshape(-1, dim), [dim])
    moments = Moments(second, moment, squares, weight, longest, extent)
    if earlier and moments.weight:
        moments.first, moments.total = np.full(dim, math.nan), math.nan
    elif not earlier:
        moments.first, moments.total = first[0], *total
    return replace(empty, moments=moments, epoch=epoch, answered=answered, learned=learned)


def encode_bank(bank: MemoryBank, reward: int) -> bytes:
    """A bank that has learned the rewards up to a row, as bytes, the last of which are a digest of the others."""
    block, dim = slice(bank.filled), bank.features.shape[1]
    counts = (dim, reward, bank.epoch, bank.in_use, bank.rewards, bank.whole, bank.filled, len(bank.history))
    lanes = [bank.scores, bank.tuned, *(each.astype(float) for each in (bank.starts, bank.left, bank.begun))]
    arrays = [*lanes, np.array(bank.history, dtype=float), bank.numbers[block], bank.values[block]]
    arrays.append(bank.features[block])
    for (moments,) in bank.sums:
        arrays.append(np.array([moments.squares, moments.weight, moments.longest, moments.total]))
        arrays.extend((moments.second, moments.moment, moments.extent, moments.first))
    body = BANK_HEAD.pack(BANK_FORMAT, *counts) + b"".join(map(as_bytes, arrays))
    return body + hashlib.sha256(body).digest()


def decode_bank(data: bytes, dim: int) -> tuple[MemoryBank, int]:
    """The bank that `encode_bank` wrote and the row of its last reward; a `FileError` if the bytes are damaged."""
    body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if len(body) < BANK_HEAD.size or hashlib.sha256(body).digest() != digest:
        raise FileError("damaged sums")
    form, size, reward, epoch, in_use, rewards, whole, filled, changes = BANK_HEAD.unpack_from(body)
    lanes, numbers = len(HALF_LIVES), as_vector(body[BANK_HEAD.size :]).astype(np.float64)
    expected = 8 * lanes + 3 * changes + filled * (2 + dim) + lanes * (4 + dim * (dim + 3))
    if form != BANK_FORMAT or size != dim or len(numbers) != expected:
        raise FileError("damaged sums")
    bank, at = MemoryBank(dim), 0

    def taken(*shape: int) -> FloatArray:
        nonlocal at
        at += math.prod(shape)
        return numbers[at - math.prod(shape) : at].reshape(shape).copy()

    bank.epoch, bank.in_use, bank.rewards, bank.whole, bank.filled = epoch, in_use, rewards, bool(whole), filled
    bank.scores, bank.tuned = taken(lanes), taken(lanes, 3)
    bank.starts, bank.left = taken(lanes).astype(np.int64), taken(lanes).astype(np.int64)
    bank.begun = taken(lanes, 2).astype(np.int64)
    bank.history = taken(changes, 3).astype(int).tolist()
    bank.numbers[:filled], bank.values[:filled] = taken(filled), taken(filled)
    bank.features[:filled] = taken(filled, dim)
    for half_life in range(lanes):
        squares, weight, longest, total = taken(4).tolist()
        second, moment, extent, first = taken(dim, dim), taken(dim), taken(dim), taken(dim)
        bank.sums[half_life] = [Moments(second, moment, squares, weight, longest, extent, first=first, total=total)]
    return bank, reward


Ahead = dict[tuple[int, FitKey], Future[Sums]]
"""Fits that were made ahead, by their row and what they depend on."""


class Model:
    """The sums over the log as of the last `refresh`; all methods are called in a transaction of the log.

    While `version` stays the same, a learner started from `sums` can follow by counting the decisions that are added
    to `recent`, with their numbers; at another version it has to start again. `resets` counts how often the sums were
    replaced because they had decisions that the log lacks, or has under other numbers.
    """

    def __init__(self, log: Log) -> None:
        self.log, self.reader, settings = log, Reader(log), log.settings
        # That of the policy in force, by which the point of clicks is found; `Decider` sets it.
        self.prior: Prior = RidgePrior(1.0, constant=True)
        # What finds the half-life, where the agent is to find it.
        self.bank = MemoryBank(settings.dim) if settings.memory == "auto" else None
        self.expires_without_reward = settings.expire_after is not None and settings.expired_reward is None
        self.sums, self.place = self._empty_sums(self._fading()), LogPosition()
        self.snapshot_place, self.version = LogPosition(), 0  # the last snapshot that this process wrote or read
        self.resets, self.recent = 0, list[tuple[int, FloatArray]]()
        self._batch: list[tuple[int, FloatArray]] = []  # decisions counted, but not in the sums yet
        self._bounds: tuple[float, FloatArray] | None = None  # those of the sums before the batch
        # What fits of clicks need of the log, as of the last refresh; None where that is not in memory.
        self._kept: KeptRewards | None = None
        self._open: KeptOpen | None = None
        self._ahead: Ahead = {}
        self._thread: ThreadPoolExecutor | None = None

    @property
    def half_life(self) -> float | None:
        """The half-life of the sums in decisions; None where nothing is forgotten."""
        return self.sums.half_life

    @property
    def forgets(self) -> bool:
        """Whether some decisions count less than others."""
        return self.sums.fading != NOTHING_FADES

    @property
    def fades_always(self) -> bool:
        """Whether all weights change from one decision to the next."""
        return self.sums.half_life is not None and self.bank is None

    def state(self, number: int) -> tuple[int, int | None]:
        """What changes whenever a learner has to start again, for decision `number`: the sums, or their weights."""
        sums = self.sums
        return self.version, None if sums.half_life is None else number // sums.step

    def _fading(self) -> Fading:
        """How much decisions count in the sums, by the settings or by the bank."""
        memory = self.log.settings.memory
        if self.bank is None:
            assert not isinstance(memory, str)
            return Fading(memory)
        return _fading_of(self.bank, self.bank.in_use)

    def _empty_sums(self, fading: Fading) -> Sums:
        return Sums.empty(self.log.settings.dim, fading, self.log.settings.rewards)

    def refresh(self, place: LogPosition) -> None:
        """Add what is new in the log, up to this place, which is its end."""
        try:
            self._refresh(place)
        except BaseException:
            self.invalidate()  # it may have added a part
            raise

    def invalidate(self) -> None:
        """Let the next refresh read the sums from the log, since these may have what the log lacks."""
        self.place = self.place._replace(generation=-1)
        self.resets += 1
        self.recent.clear()
        self._batch.clear()
        self._bounds = self._kept = self._open = None
        self._ahead = {}

    def _refresh(self, place: LogPosition) -> None:
        if place.generation != self.place.generation:
            self._kept, self._open, self._ahead = None, None, {}
            snapshot = self._snapshot(place.generation)
            if snapshot is None:
                self.rebuild()
                return
            self.place, self.sums, self.bank = snapshot
            self.snapshot_place = self.place
            self.version += 1
        exact = True
        if place.number > self.place.number:
            for waiting in self.reader.entries("waiting", self.place.number):
                self.add_pending(waiting.numbers, waiting.features)
        expired, reward = self.place.expired, self.place.reward
        if self.expires_without_reward and place.expired > expired:
            for entries in self.reader.entries("expired", expired):
                expired = entries.last
                counted = entries.numbers <= self.place.number  # later ones expired before they were read
                if self._open is not None:
                    self._open.remove(entries.numbers)
                if counted.any():
                    exact = self.sums.withdraw(entries.numbers[counted], entries.features[counted]) and exact
                    self.version += 1
        if place.reward > reward:
            for entries in self.reader.entries("rewards", reward):
                reward = entries.last
                if not self._add(entries):
                    self.rebuild()
                    return
        self.place = place._replace(reward=reward, expired=expired)
        changed = self.bank is not None and self._fading() != self.sums.fading
        if self.fit_is_due:
            folded, in_memory = self._folded(), (self._kept, self._open, self._ahead)
            learner = self.resets, self.recent.copy()  # it may go on until it has restarted
            self.invalidate()  # in case of an error below
            self._sum_up(place._replace(reward=reward, expired=expired), folded, *in_memory)
            self.resets, self.recent[:] = learner
            return
        if changed:
            self._change_half_life()
            exact = False
        self.sums.forget(place.number)
        if not exact:
            self._count_open(self._open)

    @property
    def fit_is_due(self) -> bool:
        """Whether the point about which the likelihood of clicks is expanded has to be found anew."""
        return self.sums.point is not None and self._key(self.sums.schedule.used) != self.sums.fitted

    def _key(self, due: DueFit) -> FitKey:
        bank = self.bank
        memory = 0 if bank is None else bank.in_use + len(HALF_LIVES) * bank.start
        return (*due.told.due, memory, zlib.crc32(repr(self.prior).encode()))

    def _change_half_life(self) -> None:
        """Weigh the decisions that have a reward by the half-life that the bank has found."""
        answered, learned, bank = self.sums.answered, self.sums.learned, self.bank
        assert bank is not None
        if bank.whole and not bank.start:
            empty, (moments,) = self._empty_sums(self._fading()), bank.moments()
            self.sums = replace(empty, moments=moments, epoch=bank.epoch, answered=answered, learned=learned)
        else:
            self.sums = self._compacted(self._folded())
            self._add_answered([self.sums])
        self.version += 1

    def _snapshot(self, generation: int) -> tuple[LogPosition, Sums, MemoryBank | None] | None:
        """LogPosition, sums and bank of the snapshot; None if it is damaged or of an earlier generation."""
        snapshot = self.log.snapshot()
        if snapshot is None or snapshot.place.generation != generation:
            return None
        try:
            dim, bank = self.log.settings.dim, None
            body, rest = _parted(snapshot.body, dim)
            fading = self._fading()
            if self.bank is not None:
                bank, _ = decode_bank(rest, dim)
                fading = _fading_of(bank, bank.in_use)
            sums = decode(body, self._empty_sums(fading))
            if snapshot.asked:
                counted = decode(snapshot.asked, self._empty_sums(fading))
                sums.open, sums.pending = counted.answered, counted.moments
                sums.peak = as_vector(snapshot.peak).astype(np.float64)
            if math.isnan(sums.moments.total + sums.counted.total):
                return None  # of version 0.2: the log says more
        except FileError:
            return None  # the log has all that a snapshot has
        return snapshot.place, sums, bank

    def _add(self, entries: Entries) -> bool:
        """Add rewards; False if they correct some too large to be subtracted exactly."""
        numbers, expired = entries.numbers, entries.expired
        # Decisions that waited have been counted; those that expired without a reward have been subtracted again.
        waited = numbers <= self.place.number
        if self.expires_without_reward:
            waited &= ~expired
        self.version += 1
        if self.sums.point is not None:
            self.sums.schedule = self.sums.schedule.after(entries, self.sums.expanded)
        if self._kept is not None:
            self._kept.add(entries)
        if self._open is not None:
            self._open.remove(numbers)
        if self.bank is not None:
            _teach(self.bank, entries)
        old = _add_rewards(self.sums, entries, waited)
        return self.sums.point is not None or float(old @ old) <= CANCELLATION_FACTOR * self.sums.moments.squares

    def add_pending(self, numbers: Any, features: FloatArray) -> None:
        """Count decisions that wait for their reward."""
        longest, extent = self.sums.scales
        self.sums.add_pending(numbers, features)
        if self._open is not None:
            self._open.add(numbers, features)
        new_longest, new_extent = self.sums.scales
        self.recent.extend(zip(numbers.tolist(), features, strict=True))
        if new_longest != longest or (new_extent != extent).any():
            self.version += 1  # a learner cannot follow to other scales

    def count_decision(self, number: int, features: FloatArray) -> None:
        """Count the next decision of a batch, which this process is about to write; `add_batch` ends the batch."""
        if self._bounds is None:
            self._bounds = self.sums.bounds
        longest, extent = self._bounds
        if self.sums.half_life is None and features @ features <= longest and (np.abs(features) <= extent).all():
            # The scales do not change, so that the decision can be added with the rest of the batch.
            self._batch.append((number, features))
            self.recent.append((number, features))
            return
        self.add_batch()
        self.add_pending(np.array([number]), features[None])
        self.sums.forget(number)
        self.place = self.place._replace(number=number)

    def checkpoint(self) -> tuple[LogPosition, Sums]:
        """The present state, for `restore`."""
        return self.place, copy.deepcopy(self.sums)

    def restore(self, checkpoint: tuple[LogPosition, Sums]) -> None:
        """Go back to a checkpoint: the log lacks the decisions since, or has them under other numbers."""
        self.place, self.sums = checkpoint
        self._batch.clear()
        self._bounds = self._open = None
        self.recent[:] = [one for one in self.recent if one[0] <= self.place.number]
        self.resets += 1
        self.version += 1

    def add_batch(self) -> None:
        """Add the decisions of the batch to the sums."""
        self._bounds = None
        if self._batch:
            numbers, features = map(np.array, zip(*self._batch, strict=True))
            self._batch.clear()
            self.sums.add_pending(numbers, features)
            if self._open is not None:
                self._open.add(numbers, features)
            self.place = self.place._replace(number=int(numbers[-1]))

    def replace_features(self, settings: AgentSettings) -> None:
        """Write settings with appended features, which are 0 in all decisions so far, for the next refresh to read."""
        self.refresh(self.log.place())
        before, after = self.log.settings.design, settings.design
        assert before is not None
        assert after is not None
        positions, sums, bank = before.positions_in(after), copy.deepcopy(self.sums), copy.deepcopy(self.bank)
        folded = self._folded()
        for moved in (sums, *folded.sums):
            moved.move(positions, after.dim)
        for one in (bank, folded.bank):
            if one is not None:
                one.move(positions, after.dim)
        self.log.fold(folded.encode(), settings=settings)
        self._write_in_next_generation(sums, bank)

    def rebuild(self) -> None:
        """Add up the whole log anew."""
        self.invalidate()  # in case of an error below
        place, folded = self.log.place(), self._folded()
        self.bank = folded.bank
        if self.bank is not None:
            for entries in self.reader.entries("rewards", folded.reward):
                _teach(self.bank, entries)
        self._sum_up(place, folded)

    def _sum_up(
        self,
        place: LogPosition,
        folded: Folded,
        kept: KeptRewards | None = None,
        open: KeptOpen | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        """Add up the whole log anew with the half-life that is in use."""
        self.sums = self._compacted(folded)
        if self.sums.point is None:
            self._add_answered([self.sums])
        else:
            kept = KeptRewards(self.reader, self.log.settings.dim) if kept is None else kept
            self.sums = self._fitted(self.sums, kept, ahead or {})
            for entries in kept.upto():
                _add_rewards(self.sums, entries.after(self.sums.schedule.used.row))
        self._count_open(open)
        self.sums.forget(place.number)
        self.place, self._kept, self._ahead = place, kept, ahead or {}

    def _folded(self) -> Folded:
        """What is known of compacted decisions."""
        dim = self.log.settings.dim
        try:
            (row,) = self.log.select(ALL["folded"])
            body, rest = _parted(row.body, dim)
            if self.bank is None:
                return Folded([decode(body, self._empty_sums(self._fading()))])
            if not rest:  # nothing was compacted
                bank = MemoryBank(dim)
                return Folded([self._empty_sums(_fading_of(bank, at)) for at in range(len(HALF_LIVES))], bank)
            bodies = [body]
            for _ in HALF_LIVES[1:]:
                body, rest = _parted(rest, dim)
                bodies.append(body)
            bank, reward = decode_bank(rest, dim)
            sums = [decode(body, self._empty_sums(_fading_of(bank, at))) for at, body in enumerate(bodies)]
            return Folded(sums, bank, reward)
        except (FileError, ValueError):
            raise damaged(self.log, "the sums of compacted decisions cannot be read") from None

    def _compacted(self, folded: Folded, at: int | None = None) -> Sums:
        """The sums over compacted decisions for a half-life, by default the one in use.

        Those of a half-life that has begun again since are empty: all of it was decided before it was compacted.
        """
        if self.bank is None:
            return folded.sums[0]
        at = self.bank.in_use if at is None else at
        fading, sums = _fading_of(self.bank, at), folded.sums[at]
        if sums.fading == fading:
            return sums
        empty = self._empty_sums(fading)
        return replace(empty, answered=sums.answered, learned=sums.learned, schedule=sums.schedule)

    def _fitted(self, sums: Sums, kept: KeptRewards, ahead: Ahead) -> Sums:
        """Sums over the rewards up to the row of the fit that is in use, which is made unless it was made ahead.

        `sums` are those over compacted decisions. The schedule is that of the whole log.
        """
        schedule = sums.schedule
        for entries in kept.upto():
            schedule = schedule.after(entries, sums.expanded)
        used, key = schedule.used, self._key(schedule.used)
        made = ahead.get((used.row, key))
        fitted = _fitted_to(sums, kept, used, self.prior, key) if made is None else made.result()
        return replace(fitted, schedule=schedule)

    def work_ahead(self) -> None:
        """Begin the fits that take effect with later rewards: in the background, if that is enabled."""
        due = self.sums.schedule.ahead
        if not due:
            return
        if self._kept is None:
            self._kept = KeptRewards(self.reader, self.log.settings.dim)
        ahead: Ahead = {}
        for one in due:
            key = one.row, self._key(one)
            if key in self._ahead:
                ahead[key] = self._ahead[key]
            elif self._kept.has(one.row):  # otherwise the log has to be read, which takes a transaction
                sums = self._compacted(self._folded())
                ahead[key] = self._call(_fitted_to, sums, self._kept, one, self.prior, key[1])
        self._ahead = ahead

    def enable_background_fits(self) -> None:
        """From now on, let `work_ahead` work in a thread."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="fit")

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def _call(self, call: Callable[..., Sums], *arguments: Any) -> Future[Sums]:
        if self._thread is not None:
            return self._thread.submit(call, *arguments)
        done: Future[Sums] = Future()
        done.set_result(call(*arguments))
        return done

    def _add_answered(self, every: Sequence[Sums], upto: int = 2**62) -> None:
        """Add the decisions that have a reward to each of several sums."""
        for entries in self.reader.entries("answered", upto=upto):
            for sums in every:
                sums.add(entries.numbers, entries.features, entries.rewards, int(entries.by_agent.sum()))

    def _count_open(self, kept: KeptOpen | None = None) -> None:
        """Count all open decisions anew, those that are kept in memory if they are."""
        self.sums.clear_pending()
        if kept is not None and kept.whole:
            kept.count_in(self.sums.add_pending)
        else:
            kept = None if self.sums.point is None else KeptOpen(self.log.settings.dim)
            for waiting in self.reader.entries("waiting"):
                self.sums.add_pending(waiting.numbers, waiting.features)
                if kept is not None:
                    kept.add(waiting.numbers, waiting.features)
        self._open = kept
        self.version += 1

    def renew(self) -> float:
        """Add up the whole log anew and write a snapshot; gives the largest change of any sum."""
        self.refresh(self.log.place())
        before = self.sums
        self.rebuild()
        self.write_snapshot()
        return difference(before, self.sums)

    def snapshot_is_due(self, rows: int = SNAPSHOT_ROWS) -> bool:
        """Whether so many rows were added since this process wrote or read a snapshot."""
        return self.place.rows_since(self.snapshot_place) >= rows

    def write_snapshot_if_due(self, rows: int = SNAPSHOT_ROWS) -> None:
        """Write a snapshot if so many rows were added since the last one, of this process or another."""
        if not self.snapshot_is_due(rows):
            return
        snapshot = self.log.snapshot()
        last = LogPosition() if snapshot is None else snapshot.place
        due = last.generation == self.place.generation and self.place.rows_since(last) >= rows
        if due or last.generation < self.place.generation:
            self.write_snapshot()
        self.snapshot_place = self.place

    def write_snapshot(self) -> None:
        """Write the sums to the log, as its snapshot."""
        self.log.write_snapshot(_snapshot_of(self.sums, self.bank, self.place))
        self.snapshot_place = self.place

    def _write_in_next_generation(self, sums: Sums, bank: MemoryBank | None) -> None:
        """Write sums and bank as the snapshot of the generation that was just begun; the next refresh reads it.

        What is in memory stays that of the log before, in case the transaction is taken back.
        """
        place = self.place._replace(generation=self.place.generation + 1)
        self.log.write_snapshot(_snapshot_of(sums, bank, place))

    def portions(self, before: float) -> list[int]:
        """The numbers with which to call `fold` in turn, to drop all decisions made before a time."""
        upto, last = max(row.upto for row in self.log.select(ALL["folded"])), self.log.place().number
        for first in self.log.select(FIRST_SINCE, before):
            last = first.number - 1
        return [*range(upto + PORTION_DECISIONS, last, PORTION_DECISIONS), last]

    def fold(self, upto: int) -> int:
        """Drop the decisions up to a number that do not wait, and keep the sums over them; gives how many."""
        self.refresh(self.log.place())
        folded = self._folded()
        every = [self._compacted(folded, at) for at in range(len(folded.sums))]
        for sums in every:  # so that the model stays the same
            for name in ("point", "fitted", "schedule"):
                setattr(sums, name, getattr(self.sums, name))
        self._add_answered(every, upto)
        folded = Folded(every, self.bank, self.place.reward)
        dropped = self.log.fold(folded.encode(), upto)
        self._write_in_next_generation(self.sums, self.bank)  # they do not change
        return dropped


def _fitted_to(sums: Sums, kept: KeptRewards, due: DueFit, prior: Prior, key: FitKey) -> Sums:
    """Sums over compacted decisions and the rewards up to the row of a fit, about the point that it finds.

    The point is the MAP by these rewards, with corrections, or by the compacted ones alone if they are later: the same
    in every process, and after a restart. The sums over compacted decisions enter as they are.
    """
    row = max(due.row, sums.schedule.row)  # of the fit, or of the compaction
    if key != sums.fitted:
        sums.point, sums.fitted = _point(sums, TrialsOfLog(kept, row), due.told, prior), key
    for entries in kept.upto(due.row):
        _add_rewards(sums, entries)
    return sums


def _point(folded: Sums, trials: TrialsOfLog, told: Told, prior: Prior) -> FloatArray:
    """The MAP by rewards and sums over compacted decisions."""
    if not told.decided:  # nothing has to be read
        return np.concatenate([[folded.expanded.centre(told)], np.zeros(len(folded.moments.moment))])
    number, longest, extent = trials.scales(folded.epoch, folded.moments)
    faded = replace(folded, moments=folded.moments.copy(), pending=None)
    faded.forget(number)
    trials.weigh = faded.faded
    with one_thread:
        compacted = faded.moments if folded.count else None
        return np.asarray(fit(folded.expanded, [trials], prior, basis_of(longest, extent), told, compacted)[0])


class Folded(NamedTuple):
    """Sums over compacted decisions, for each half-life if the agent finds its own.

    `bank` is then that of the log as it was when it was compacted, with the rewards up to row `reward`.
    """

    sums: list[Sums]
    bank: MemoryBank | None = None
    reward: int = 0

    def encode(self) -> bytes:
        """All of it as bytes."""
        bank = b"" if self.bank is None else encode_bank(self.bank, self.reward)
        return b"".join(map(encode, self.sums)) + bank


def _fading_of(bank: MemoryBank, at: int) -> Fading:
    """How much decisions count by the half-life at a position of `HALF_LIVES`."""
    half_life, start = HALF_LIVES[at], int(bank.starts[at])
    return Fading(None, 1, start) if math.isinf(half_life) else Fading(half_life, AGE_STEP, start)


def _teach(bank: MemoryBank, entries: Entries) -> None:
    """Let a bank learn rewards in the order of their rows."""
    _, numbers, features, rewards, replaced, *_ = entries
    with one_thread:  # so that every process gets the same last digits
        if replaced is None:
            bank.learn(numbers, features, rewards)
            return
        for at in range(len(numbers)):
            old = float(replaced[at])
            if math.isnan(old):
                bank.learn(numbers[at : at + 1], features[at : at + 1], rewards[at : at + 1])
                continue
            bank.replace(int(numbers[at]), features[at], old, float(rewards[at]))
            if old * old > CANCELLATION_FACTOR * bank.sums[0][0].squares > 0:
                bank.restart()


def _add_rewards(sums: Sums, entries: Entries, waited: Any = None) -> FloatArray:
    """Add rewards and corrections to sums; gives the rewards that were replaced."""
    _, numbers, features, rewards, replaced, by_agent, *_ = entries
    if replaced is None:
        sums.add(numbers, features, rewards, int(by_agent.sum()), waited)
        return np.zeros(0)
    first = np.isnan(replaced)
    if first.any():
        counted = None if waited is None else waited[first]
        sums.add(numbers[first], features[first], rewards[first], int(by_agent[first].sum()), counted)
    old = replaced[~first]
    sums.replace(numbers[~first], features[~first], old, rewards[~first])
    return np.asarray(old)


def _parted(data: bytes, dim: int) -> tuple[bytes, bytes]:
    """The bytes of sums, and those behind them."""
    head, rows = (HEAD_0_2, dim + 2) if data.startswith(FORMAT_0_2) else (HEAD, dim + 3)
    size = head.size + 8 * dim * rows + DIGEST_BYTES
    if data.startswith(FORMAT_CLICKS):
        size += _size_before_sums(data, dim)
    return data[:size], data[size:]


def _size_before_sums(data: bytes, dim: int) -> int:
    """Bytes of what stands before sums of clicks."""
    due = HEAD_CLICKS.unpack_from(data)[6] if len(data) >= HEAD_CLICKS.size else 0
    return HEAD_CLICKS.size + 8 * (1 + dim) + DUE_BYTES * max(due, 1)


def _snapshot_of(sums: Sums, bank: MemoryBank | None, place: LogPosition) -> Snapshot:
    pending, peak = b"", b""
    if sums.pending is not None:
        pending = encode(Sums(sums.pending, sums.half_life, sums.epoch, sums.open))
        peak = as_bytes(sums.peak)
    body = encode(sums) + (b"" if bank is None else encode_bank(bank, place.reward))
    return Snapshot(place, body, pending, peak)
