"""The model as a function of the log: it follows the log by `Sums` over it, with snapshots of these in the log."""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from adadim.agent.fits import DueFit, FitSchedule, Recount
from adadim.agent.kept import KeptOpen, KeptRewards, TrialsOfLog
from adadim.agent.log import AgentSettings, Log, LogPosition, as_vector, damaged
from adadim.agent.reading import Entries, Reader
from adadim.agent.statements import ALL, FIRST_SINCE
from adadim.agent.stored_sums import EARLIER_BANK, Folded, decode, decode_bank, parted, snapshot_of
from adadim.agent.sums import CANCELLATION_FACTOR, NOTHING_FADES, Fading, FitKey, Sums, difference
from adadim.core.arrays import FloatArray
from adadim.core.threads import one_thread
from adadim.errors import FileError
from adadim.models.likelihoods import ExpandedLikelihood, Told, fit
from adadim.models.memory import BLOCK_REWARDS, HALF_LIVES, MemoryBank
from adadim.models.offers import basis_of
from adadim.models.priors import Prior, RidgePrior

SNAPSHOT_ROWS = 1000  # rewards or decisions between two snapshots, which is the most that opening reads
PORTION_DECISIONS = 20_000  # decisions that are folded in one transaction

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
        return self.sums.fading.half_life

    @property
    def forgets(self) -> bool:
        """Whether some decisions count less than others."""
        return self.sums.fading != NOTHING_FADES

    @property
    def fades_always(self) -> bool:
        """Whether all weights change from one decision to the next."""
        return self.half_life is not None and self.bank is None

    def state(self, number: int) -> tuple[int, int | None]:
        """What changes whenever a learner has to start again, for decision `number`: the sums, or their weights."""
        half_life, step, _ = self.sums.fading
        return self.version, None if half_life is None else number // step

    def _fading(self) -> Fading:
        """How much decisions count in the sums, by the settings or by the bank."""
        memory = self.log.settings.memory
        if self.bank is None:
            assert not isinstance(memory, str)
            return Fading(memory)
        return Fading.of(self.bank, self.bank.in_use)

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
            schedule = self.sums.schedule
            self._sum_up(place._replace(reward=reward, expired=expired), folded, schedule, *in_memory)
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
        memory = 0 if bank is None else bank.in_use + len(HALF_LIVES) * bank.since
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
            body, rest = parted(snapshot.body, dim)
            fading = self._fading()
            if self.bank is not None:
                if rest.startswith(EARLIER_BANK):
                    return None  # the log says more
                bank, _ = decode_bank(rest, dim)
                fading = Fading.of(bank, bank.in_use)
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
        self.sums.schedule = self._learned(self.sums.schedule, entries)
        if self._kept is not None:
            self._kept.add(entries)
        if self._open is not None:
            self._open.remove(numbers)
        old = self.sums.add_entries(entries, waited)
        return self.sums.point is not None or float(old @ old) <= CANCELLATION_FACTOR * self.sums.moments.squares

    def _learned(self, schedule: FitSchedule, entries: Entries) -> FitSchedule:
        """Let the bank learn rewards; gives the schedule of fits after them."""
        recount = None if self.bank is None else _teach(self.bank, entries)
        likelihood = self.sums.likelihood
        return schedule.after(entries, likelihood, recount) if isinstance(likelihood, ExpandedLikelihood) else schedule

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
        if self.half_life is None and features @ features <= longest and (np.abs(features) <= extent).all():
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
        self.bank, schedule = folded.bank, folded.sums[0].schedule
        kept = None if folded.sums[0].point is None else KeptRewards(self.reader, self.log.settings.dim)
        if self.bank is not None or kept is not None:
            for entries in self.reader.entries("rewards", folded.reward) if kept is None else kept.upto():
                news = entries.after(folded.reward)
                schedule = self._learned(schedule, news) if len(news.rows) else schedule
        self._sum_up(place, folded, schedule, kept)

    def _sum_up(
        self,
        place: LogPosition,
        folded: Folded,
        schedule: FitSchedule,
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
            self.sums = self._fitted(self.sums, kept, schedule, ahead or {})
            for entries in kept.upto():
                self.sums.add_entries(entries.after(self.sums.schedule.used.row))
        self._count_open(open)
        self.sums.forget(place.number)
        self.place, self._kept, self._ahead = place, kept, ahead or {}

    def _folded(self) -> Folded:
        """What is known of compacted decisions."""
        dim = self.log.settings.dim
        try:
            (row,) = self.log.select(ALL["folded"])
            body, rest = parted(row.body, dim)
            if self.bank is None:
                return Folded([decode(body, self._empty_sums(self._fading()))])
            if not rest:  # nothing was compacted
                bank = MemoryBank(dim)
                return Folded([self._empty_sums(Fading.of(bank, at)) for at in range(len(HALF_LIVES))], bank)
            bodies = [body]
            for _ in HALF_LIVES[1:]:
                body, rest = parted(rest, dim)
                bodies.append(body)
            bank, reward = decode_bank(rest, dim)
            sums = [decode(body, self._empty_sums(Fading.of(bank, at))) for at, body in enumerate(bodies)]
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
        fading, sums = Fading.of(self.bank, at), folded.sums[at]
        if sums.fading == fading:
            return sums
        empty = self._empty_sums(fading)
        return replace(empty, answered=sums.answered, learned=sums.learned, schedule=sums.schedule)

    def _fitted(self, sums: Sums, kept: KeptRewards, schedule: FitSchedule, ahead: Ahead) -> Sums:
        """Sums over the rewards up to the row of the fit that is in use, which is made unless it was made ahead.

        `sums` are those over compacted decisions, and `schedule` is that of the whole log.
        """
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
        self.log.write_snapshot(snapshot_of(self.sums, self.bank, self.place))
        self.snapshot_place = self.place

    def _write_in_next_generation(self, sums: Sums, bank: MemoryBank | None) -> None:
        """Write sums and bank as the snapshot of the generation that was just begun; the next refresh reads it.

        What is in memory stays that of the log before, in case the transaction is taken back.
        """
        place = self.place._replace(generation=self.place.generation + 1)
        self.log.write_snapshot(snapshot_of(sums, bank, place))

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
        sums.add_entries(entries)
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


def _teach(bank: MemoryBank, entries: Entries) -> Recount | None:
    """Let a bank learn rewards in the order of their rows; gives what counts if it chose another half-life."""
    _, numbers, features, rewards, replaced, *_ = entries
    recount, start = None, 0
    with one_thread:  # so that every process gets the same last digits
        while start < len(numbers):
            old = math.nan if replaced is None else float(replaced[start])
            stop = start + (BLOCK_REWARDS - bank.filled if replaced is None else 1)
            if math.isnan(old):
                part, before = slice(start, stop), bank.since
                bank.learn(numbers[part], features[part], rewards[part])
                if bank.since != before:
                    (sums,) = bank.moments()
                    recount = Recount(int(entries.rows[min(stop, len(numbers)) - 1]), sums.weight, sums.total)
            else:
                bank.replace(int(numbers[start]), features[start], old, float(rewards[start]))
                if old * old > CANCELLATION_FACTOR * bank.sums[0][0].squares > 0:
                    bank.restart()
            start = stop
    return recount
