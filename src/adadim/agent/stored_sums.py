"""How the sums over a log are written into it: as bytes, the last of which are a digest of the others."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from adadim.agent.fits import DueFit, FitSchedule
from adadim.agent.log import LogPosition, Snapshot, as_bytes, as_vector
from adadim.agent.sums import Sums
from adadim.core.arrays import FloatArray
from adadim.errors import FileError
from adadim.models.likelihoods import Told
from adadim.models.memory import HALF_LIVES, MemoryBank
from adadim.models.statistics import Moments

SUMS_FORMAT, FORMAT_0_2 = b"sums2", b"sums1"  # that of version 0.2 lacks `first` and `total`, which are then NaN
HEAD, HEAD_0_2 = struct.Struct("<5sqqqqdddd"), struct.Struct("<5sqqqqddd")
FORMAT_CLICKS, HEAD_CLICKS = b"clic2", struct.Struct("<5s7qdd")  # before sums of clicks
DUE_NUMBERS = 4  # of a fit that was due
BANK_FORMAT, EARLIER_BANK = b"bank4", b"bank3"  # that had no recent rewards
BANK_HEAD = struct.Struct("<5s8q")
DIGEST_BYTES = 32  # of SHA-256


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


def encode(sums: Sums) -> bytes:
    """The sums over answered decisions."""
    moments = sums.moments
    counts = (len(moments.moment), sums.epoch, sums.answered, sums.learned)
    head = HEAD.pack(SUMS_FORMAT, *counts, moments.squares, moments.weight, moments.longest, moments.total)
    body = head + _arrays_of(moments)
    if sums.point is not None:
        told, due = sums.schedule.told, (sums.schedule.used, *sums.schedule.ahead)
        head = HEAD_CLICKS.pack(FORMAT_CLICKS, *sums.fitted, sums.schedule.row, len(due), *told)
        rows = np.array([(one.row, *one.told) for one in due], dtype=float)
        body = head + as_bytes(sums.point) + as_bytes(rows) + body
    return _with_digest(body)


def decode(data: bytes, empty: Sums) -> Sums:
    """The sums that `encode` of this version or of 0.2 wrote, which began as `empty`; a `FileError` if damaged."""
    dim, body = len(empty.moments.moment), _without_digest(data)
    start = _size_before_sums(body, dim)
    head, _ = _sums_format(body[start:], dim)
    if len(data) != _size_of_sums(data, dim) or (start and empty.point is None):
        raise FileError("damaged sums")
    form, size, epoch, answered, learned, squares, weight, longest, *total = head.unpack_from(body, start)
    if form not in (SUMS_FORMAT, FORMAT_0_2) or size != dim:
        raise FileError("damaged sums")
    moments = _Numbers(body[start + head.size :]).moments(dim, squares, weight, longest, *total)
    sums = replace(empty, moments=moments, epoch=epoch, answered=answered, learned=learned)
    if not start:
        return sums
    _, *fitted, row, count, number, clicks, rarer = HEAD_CLICKS.unpack_from(body)
    numbers = _Numbers(body[HEAD_CLICKS.size : start])
    point, due = numbers.take(1 + dim), numbers.take(count, DUE_NUMBERS).tolist()
    used, *ahead = [DueFit(int(one[0]), Told(int(one[1]), *one[2:])) for one in due]
    schedule = FitSchedule(Told(number, clicks, rarer), row, used, tuple(ahead))
    return replace(sums, point=point, fitted=tuple(fitted), schedule=schedule)


def parted(data: bytes, dim: int) -> tuple[bytes, bytes]:
    """The bytes of sums, and those behind them."""
    size = _size_of_sums(data, dim)
    return data[:size], data[size:]


def encode_bank(bank: MemoryBank, reward: int) -> bytes:
    """A bank that has learned the rewards up to a row."""
    block, dim = slice(bank.filled), bank.features.shape[1]
    counts = (dim, reward, bank.epoch, bank.in_use, bank.rewards, bank.whole, bank.filled, len(bank.history))
    lanes = [bank.scores, bank.tuned, *(each.astype(float) for each in (bank.starts, bank.left, bank.begun))]
    arrays = [*lanes, np.array(bank.history, dtype=float), bank.numbers[block], bank.values[block]]
    recent = slice(len(bank.recent_values) - bank.kept, None)
    arrays += [bank.features[block], np.array([bank.scored_after, bank.kept, bank.dropped], dtype=float)]
    arrays += [bank.usual, bank.recent_numbers[recent], bank.recent_values[recent]]
    arrays += [bank.recent_errors[recent], bank.recent_features[recent]]
    body = BANK_HEAD.pack(BANK_FORMAT, *counts) + b"".join(map(as_bytes, arrays))
    for (moments,) in bank.sums:
        body += as_bytes([moments.squares, moments.weight, moments.longest, moments.total]) + _arrays_of(moments)
    return _with_digest(body)


def decode_bank(data: bytes, dim: int) -> tuple[MemoryBank, int]:
    """The bank that `encode_bank` wrote and the row of its last reward; a `FileError` if the bytes are damaged.

    One without recent rewards, which an earlier version wrote, is as it was.
    """
    body = _without_digest(data)
    if len(body) < BANK_HEAD.size:
        raise FileError("damaged sums")
    form, size, reward, epoch, in_use, rewards, whole, filled, changes = BANK_HEAD.unpack_from(body)
    lanes, known = len(HALF_LIVES), form in (BANK_FORMAT, EARLIER_BANK) and size == dim
    expected = 8 * lanes + 3 * changes + filled * (2 + dim) + lanes * (4 + dim * (dim + 3))
    bank, numbers, left = MemoryBank(dim), _Numbers(body[BANK_HEAD.size :]), len(body) - BANK_HEAD.size - 8 * expected
    least = 8 * (3 + bank.usual.size) if form == BANK_FORMAT else 0  # of the recent rewards, if none is kept
    if not known or left < least or (form == EARLIER_BANK and left):
        raise FileError("damaged sums")
    bank.epoch, bank.in_use, bank.rewards, bank.whole, bank.filled = epoch, in_use, rewards, bool(whole), filled
    bank.scores, bank.tuned = numbers.take(lanes), numbers.take(lanes, 3)
    bank.starts, bank.left = numbers.take(lanes).astype(np.int64), numbers.take(lanes).astype(np.int64)
    bank.begun = numbers.take(lanes, 2).astype(np.int64)
    bank.history = numbers.take(changes, 3).astype(int).tolist()
    bank.numbers[:filled], bank.values[:filled] = numbers.take(filled), numbers.take(filled)
    bank.features[:filled] = numbers.take(filled, dim)
    if form == BANK_FORMAT:
        bank.scored_after, bank.kept, bank.dropped = numbers.take(3).astype(int).tolist()
        if left != least + 8 * bank.kept * (4 + dim) or bank.kept > len(bank.recent_values):
            raise FileError("damaged sums")
        bank.usual = numbers.take(*bank.usual.shape)
        recent = slice(len(bank.recent_values) - bank.kept, None)
        bank.recent_numbers[recent], bank.recent_values[recent] = numbers.take(2, bank.kept)
        bank.recent_errors[recent] = numbers.take(bank.kept, 2)
        bank.recent_features[recent] = numbers.take(bank.kept, dim)
    for half_life in range(lanes):
        bank.sums[half_life] = [numbers.moments(dim, *numbers.take(4).tolist())]
    return bank, reward


def snapshot_of(sums: Sums, bank: MemoryBank | None, place: LogPosition) -> Snapshot:
    """Sums and bank as of a place, as a log keeps them."""
    pending, peak = b"", b""
    if sums.pending is not None:
        pending = encode(Sums(sums.pending, sums.fading, sums.epoch, sums.open))
        peak = as_bytes(sums.peak)
    body = encode(sums) + (b"" if bank is None else encode_bank(bank, place.reward))
    return Snapshot(place, body, pending, peak)


class _Numbers:
    """The numbers of stored bytes, taken from the first on."""

    def __init__(self, data: bytes) -> None:
        self._left = as_vector(data).astype(np.float64)

    def take(self, *shape: int) -> FloatArray:
        """An array of the next numbers."""
        taken, self._left = np.split(self._left, [math.prod(shape)])
        return taken.reshape(shape).copy()

    def moments(self, dim: int, squares: float, weight: float, longest: float, total: float | None = None) -> Moments:
        """Moments whose arrays are the next numbers; without `total` neither is there the sum of the features."""
        second, moment, extent = self.take(dim, dim), self.take(dim), self.take(dim)
        if total is None:
            return Moments(second, moment, squares, weight, longest, extent)
        return Moments(second, moment, squares, weight, longest, extent, first=self.take(dim), total=total)


def _arrays_of(moments: Moments) -> bytes:
    return b"".join(map(as_bytes, (moments.second, moments.moment, moments.extent, moments.first)))


def _with_digest(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def _without_digest(data: bytes) -> bytes:
    body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise FileError("damaged sums")
    return body


def _sums_format(data: bytes, dim: int) -> tuple[struct.Struct, int]:
    """The head of sums, and the number of rows of `dim` numbers behind it."""
    return (HEAD_0_2, dim + 2) if data.startswith(FORMAT_0_2) else (HEAD, dim + 3)


def _size_of_sums(data: bytes, dim: int) -> int:
    """Bytes of the sums with which data begin."""
    start = _size_before_sums(data, dim)
    head, rows = _sums_format(data[start:], dim)
    return start + head.size + 8 * dim * rows + DIGEST_BYTES


def _size_before_sums(data: bytes, dim: int) -> int:
    """Bytes of what stands before sums of clicks."""
    if not data.startswith(FORMAT_CLICKS) or len(data) < HEAD_CLICKS.size:
        return 0
    count: int = HEAD_CLICKS.unpack_from(data)[6]
    return HEAD_CLICKS.size + 8 * (1 + dim + DUE_NUMBERS * count)
