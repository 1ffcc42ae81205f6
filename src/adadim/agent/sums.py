"""The model as a function of the log: sums over all answered decisions, kept up to date and kept in the file."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.agent.file import as_bytes, as_matrix
from adadim.errors import FileError
from adadim.posterior.moments import Moments

__all__ = ["Sums", "decode", "difference", "encode"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

FORMAT = b"sums1"
HEAD = struct.Struct("<5sqqqqddd")
DIGEST = 32
FORGOTTEN = 1e-9  # pulls; less than that is nothing


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

    Examples
    --------
    >>> sums = Sums.empty(1, half_life=2.0)
    >>> sums.add(np.array([5]), np.ones((1, 1)), np.ones(1), own=1)
    >>> sums.add(np.array([7, 3]), np.ones((2, 1)), np.ones(2), own=2)  # late rewards may be older
    >>> sums.moments.weight == 1 / 2 + 1 + 1 / 4, sums.epoch, sums.at(9).weight == 1.75 / 2
    (True, 7, True)
    """

    moments: Moments
    half_life: float | None
    epoch: int = 0
    answered: int = 0
    learned: int = 0

    @classmethod
    def empty(cls, dim: int, half_life: float | None = None) -> Sums:
        """The sums of an empty log."""
        return cls(Moments.zeros(dim), half_life)

    def add(self, numbers: Any, features: FloatArray, rewards: FloatArray, own: int) -> None:
        """Add the rewards of decisions that had none, `own` of them the agent's."""
        self._forget(int(numbers.max(initial=0)))
        self.moments.add(features, rewards, self._weights(numbers))
        self.answered += own
        self.learned += len(rewards) - own

    def replace(self, numbers: Any, features: FloatArray, old: FloatArray, new: FloatArray) -> None:
        """Put corrected rewards in the place of those added before."""
        self.moments.replace(features, old, new, self._weights(numbers))

    def at(self, number: int) -> Moments:
        """The moments as decision `number` sees them."""
        if self.half_life is None:
            return self.moments
        factor = 2.0 ** (-(number - self.epoch) / self.half_life)
        if factor * self.moments.weight < FORGOTTEN:
            return Moments.zeros(len(self.moments.moment))
        seen = self.moments.copy()
        seen.fade(factor)
        return seen

    def _forget(self, number: int) -> None:
        if number > self.epoch:
            if self.half_life is not None:
                self.moments.fade(2.0 ** (-(number - self.epoch) / self.half_life))
            self.epoch = number

    def _weights(self, numbers: Any) -> FloatArray | None:
        if self.half_life is None:
            return None
        weights: FloatArray = np.exp2((numbers - self.epoch) / self.half_life)
        return weights


def difference(one: Sums, other: Sums) -> float:
    """Largest difference of any two entries, relative to the largest entry of its kind; infinite if counts differ."""
    if (one.epoch, one.answered, one.learned) != (other.epoch, other.answered, other.learned):
        return math.inf
    largest = 0.0
    for name in ("second", "moment", "squares", "weight", "longest", "extent"):
        a, b = (np.atleast_1d(getattr(sums.moments, name)) for sums in (one, other))
        size = max(float(np.abs(a).max()), float(np.abs(b).max()))
        largest = max(largest, float(np.abs(a - b).max()) / size if size else 0.0)
    return largest


def encode(sums: Sums) -> bytes:
    """The sums as bytes, the last of which are a digest of the others."""
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
