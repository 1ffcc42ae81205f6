"""The model as a function of the log: sums over its decisions and their rewards, kept up to date and kept in the file.

Means, noise and ridge are learned from the decisions that have a reward; widths shrink with every decision, from the
moment it is made. So there are two second moments: over the answered decisions, and over the answered and the open
ones, those that still wait for their reward.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adadim.agent.file import as_bytes, as_matrix
from adadim.errors import FileError
from adadim.models.moments import Moments

__all__ = ["Sums", "decode", "difference", "encode"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

FORMAT = b"sums1"
HEAD = struct.Struct("<5sqqqqddd")
DIGEST = 32
ENTRIES = ("second", "moment", "squares", "weight", "longest", "extent")
FORGOTTEN = 1e-9  # pulls; less than that is nothing
FAR = 10.0  # times larger than any feature that has a reward: scales then go by what is open too
CANCELS = 1e3  # what was so many times larger than what is left cannot be taken back by a difference


@dataclass
class Sums:
    """What the log comes to: the moments of the regression and a few counts.

    With a half-life H, the pull of decision n counts 2^(-(epoch - n) / H) in the moments; without one, 1.

    Attributes
    ----------
    moments : Moments
        Sums over the decisions that have a reward.
    half_life : float or None
        H, in decisions.
    epoch : int
        The decision that counts 1 where older ones count less.
    answered, learned : int
        Decisions of the agent that have a reward, and of other systems.
    open : int
        Decisions that wait for their reward.
    asked : Moments or None
        Sums over the decisions that have a reward and those that wait for it, as if all had earned 0; None while none
        waits, since then they are `moments`.
    peak : array (d,)
        The largest that the diagonal of the second moment of `asked` has been since it was last added up anew.

    Examples
    --------
    >>> sums = Sums.empty(1, half_life=2.0)
    >>> sums.add(np.array([5]), np.ones((1, 1)), np.ones(1), own=1)
    >>> sums.add(np.array([7, 3]), np.ones((2, 1)), np.ones(2), own=2)  # late rewards may be older
    >>> sums.moments.weight == 1 / 2 + 1 + 1 / 4, sums.epoch, sums.at(9).weight == 1.75 / 2
    (True, 7, True)
    >>> sums.expect(np.array([9]), np.ones((1, 1)))  # decision 9 is made: it counts in the widths
    >>> sums.at(9).second, sums.at(9).asked
    (array([[0.875]]), array([[1.875]]))
    """

    moments: Moments
    half_life: float | None
    epoch: int = 0
    answered: int = 0
    learned: int = 0
    open: int = 0
    asked: Moments | None = None
    peak: FloatArray | float = 0.0

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
        known, asked = self.moments, self.counted
        far = asked.longest > FAR**2 * known.longest or (asked.extent > FAR * known.extent).any()
        chosen = asked if far else known
        return chosen.longest, chosen.extent

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
            factor = 2.0 ** (-(number - self.epoch) / self.half_life)
            if factor * seen.weight < FORGOTTEN:
                seen = Moments.zeros(len(seen.moment))
            else:
                seen = seen.copy()
                seen.fade(factor)
            if asked is not None:
                asked = asked.copy()
                asked.fade(factor)
        if asked is None:
            return seen
        longest, extent = self.scales
        return replace(seen, asked=asked.second, longest=longest, extent=extent)

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


def difference(one: Sums, other: Sums) -> float:
    """Largest difference of any two entries, relative to the largest entry of its kind; infinite if counts differ."""
    if any(getattr(one, name) != getattr(other, name) for name in ("epoch", "answered", "learned", "open")):
        return math.inf
    largest = 0.0
    entries = [(part, name) for part in ("moments", "counted") for name in ENTRIES]
    for part, name in entries:
        a, b = (np.atleast_1d(getattr(getattr(sums, part), name)) for sums in (one, other))
        size = max(float(np.abs(a).max()), float(np.abs(b).max()))
        largest = max(largest, float(np.abs(a - b).max()) / size if size else 0.0)
    return largest


def encode(sums: Sums) -> bytes:
    """The sums over answered decisions as bytes, the last of which are a digest of the others."""
    moments = sums.moments
    counts = (len(moments.moment), sums.epoch, sums.answered, sums.learned)
    head = HEAD.pack(FORMAT, *counts, moments.squares, moments.weight, moments.longest)
    body = head + as_bytes(moments.second) + as_bytes(moments.moment) + as_bytes(moments.extent)
    return body + hashlib.sha256(body).digest()


def decode(data: bytes, dim: int, half_life: float | None) -> Sums:
    """The sums that `encode` wrote; a `FileError` if these bytes are not that.

    Examples
    --------
    >>> decode(encode(Sums.empty(3)), 3, None).moments.second.shape
    (3, 3)
    """
    body, digest = data[:-DIGEST], data[-DIGEST:]
    if len(data) != HEAD.size + 8 * dim * (dim + 2) + DIGEST or hashlib.sha256(body).digest() != digest:
        raise FileError("damaged sums")
    form, size, epoch, answered, learned, squares, weight, longest = HEAD.unpack_from(body)
    if form != FORMAT or size != dim:
        raise FileError("damaged sums")
    numbers = as_matrix(body[HEAD.size :], 1)[:, 0].astype(np.float64)
    second, moment, extent = numbers[: dim * dim].reshape(dim, dim), numbers[dim * dim : -dim], numbers[-dim:]
    moments = Moments(second, moment, squares, weight, longest, extent)
    return Sums(moments, half_life, epoch, answered, learned)
