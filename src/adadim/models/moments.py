"""What a ridge regression has to know of its data: X^T X, X^T r, sum r^2 and how many there were.

These are sums, so the order of the data does not matter, and rewards may be added late, replaced and forgotten.

Pulls that were decided and whose rewards are not known yet count in widths, not in means: the width of an arm depends
on which arms were pulled, not on what they earned (Desautels, Krause and Burdick 2014, "Parallelizing
exploration-exploitation tradeoffs"). A regression therefore has a second one beside it as soon as a pull is open: over
all pulls that were asked for, with no rewards. Means, noise and ridge are those of the first, widths those of the
second. Answered at once, a pull is never open and there is no second one.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, device_of, namespace
from adadim.core.rows import Rows
from adadim.errors import InvalidValueError

FORGOTTEN = 1e-9  # sum of weights, in pulls, below which all data count as forgotten


@dataclass
class Moments:
    """Sums over pulls with features x, reward r and weight w (1, unless old pulls are being forgotten).

    sum w x x^T, sum w r x, sum w r^2 and sum w; the largest |x|^2 and the largest of each feature; `asked`, sum w x x^T
    over all pulls decided, if some are unanswered. For models with a constant: `first` and `total`, sum w x and sum w r
    (NaN where not recorded), and `asked_first` and `asked_weight`, of the pulls of `asked`.
    """

    second: FloatArray
    moment: FloatArray
    squares: float
    weight: float
    longest: float
    extent: FloatArray
    asked: FloatArray | None = None
    first: FloatArray = None  # type: ignore[assignment]  # not recorded, and `total` neither
    total: float = 0.0
    asked_first: FloatArray | None = None
    asked_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.first is None:
            self.first = np.full(len(self.moment), math.nan if self.weight else 0.0)
            self.total = math.nan if self.weight else 0.0

    @classmethod
    def zeros(cls, dim: int) -> Moments:
        """Moments of no data."""
        return cls(np.zeros((dim, dim)), np.zeros(dim), 0.0, 0.0, 0.0, np.zeros(dim))

    @classmethod
    def of(
        cls, second: FloatArray, moment: FloatArray, squares: float, weight: float, first: FloatArray, total: float
    ) -> Moments:
        """Moments of data whose largest values were not recorded."""
        return cls(second, moment, squares, weight, 0.0, np.zeros(len(moment)), first=first, total=total)

    def copy(self) -> Moments:
        """A copy that shares no array with this one."""
        return replace(self, **{name: copy.copy(value) for name, value in vars(self).items()})

    def divided(self, size: float) -> Moments:
        """The sums with rewards divided by a number."""
        squares = self.squares / size / size
        return replace(self, moment=self.moment / size, squares=squares, total=self.total / size)

    def without_rewards(self) -> Moments:
        """The sums over all pulls that were decided, with rewards of zero."""
        second, first, weight = self.second if self.asked is None else self.asked, self.first, self.weight
        if self.asked is not None and self.asked_first is not None:
            first, weight = self.asked_first, self.asked_weight
        return Moments(second, np.zeros_like(self.moment), 0.0, weight, self.longest, self.extent, first=first)

    def with_constant(self) -> Moments:
        """The same sums of features (1, x)."""
        if math.isnan(self.total):
            raise InvalidValueError(
                "a policy with intercept=True needs the sum of the rewards, which version 0.2 did not keep of what it "
                "compacted; use EvidenceLinUCB()"
            )
        moment = np.concatenate([[self.total], self.moment])
        extent = np.concatenate([[1.0], self.extent])
        second = _bordered(self.second, self.first, self.weight)
        asked = None if self.asked is None else _bordered(self.asked, self.asked_first, self.asked_weight)
        first = second[0]
        return Moments(second, moment, self.squares, self.weight, self.longest, extent, asked, first, self.total)

    def add(self, features: FloatArray, rewards: FloatArray, weights: FloatArray | None = None) -> None:
        """Add pulls: features (n, d), rewards (n,) and weights (n,), by default 1."""
        weighted = features if weights is None else features * weights[:, None]
        self.second += weighted.T @ features
        self.moment += weighted.T @ rewards
        self.first += weighted.sum(axis=0)
        self.total += float(rewards.sum() if weights is None else rewards @ weights)
        self.squares += float(rewards @ (rewards if weights is None else rewards * weights))
        self.weight += float(len(rewards) if weights is None else weights.sum())
        self.longest = max(self.longest, float(np.vecdot(features, features).max(initial=0.0)))
        self.extent = np.maximum(self.extent, np.abs(features).max(axis=0, initial=0.0))

    def replace(
        self, features: FloatArray, old: FloatArray, new: FloatArray, weights: FloatArray | None = None
    ) -> None:
        """Put the rewards `new` (n,) in the place of `old`, of pulls that were added before."""
        weighted = features if weights is None else features * weights[:, None]
        self.moment += weighted.T @ (new - old)
        self.total += float((new - old).sum() if weights is None else (new - old) @ weights)
        change = (new - old) * (new + old)
        self.squares = max(self.squares + float(change.sum() if weights is None else change @ weights), 0.0)

    def fade(self, factor: float) -> None:
        """Multiply the weights of all pulls by a number."""
        for name, value in vars(self).items():
            if value is not None and name not in ("longest", "extent"):
                value *= factor  # arrays in place
                setattr(self, name, value)

    def truncated(self, dim: int, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """X^T X and X^T r of the first `dim` features, each multiplied by its entry of `weights`."""
        second, moment = self.second[:dim, :dim], self.moment[:dim]
        if weights is None:
            return second.copy(), moment.copy()
        return second * (weights[:, None] * weights), moment * weights


def _bordered(second: FloatArray, first: FloatArray | None, weight: float) -> FloatArray:
    """sum w (1, x) (1, x)^T."""
    matrix = np.empty((len(second) + 1, len(second) + 1))
    matrix[0, 0], matrix[1:, 1:] = weight, second
    matrix[0, 1:] = matrix[1:, 0] = 0.0 if first is None else first
    return matrix


class CountsOpenPulls(ABC):
    """A regression beside which a second one, `asked`, counts all pulls decided, while some of them are open."""

    asked: Any = None

    @abstractmethod
    def answer(self, pulled: Array, rewards: Array, rows: Rows) -> None:
        """Learn the rewards of pulls that `expect` has counted, one in each replication of `rows`."""

    @abstractmethod
    def without_rewards(self) -> Any:
        """A regression with the same pulls, whose rewards are all zero."""

    def absorb(self, pulled: Array, rewards: Array, rows: Rows) -> None:
        """Learn from one pull in each replication of `rows` that `expect` has not counted."""
        self.answer(pulled, rewards, rows)
        if self.asked is not None:
            self.asked.answer(pulled, rewards * 0.0, rows)

    def expect(self, pulled: Array, rows: Rows) -> None:
        """Count one pull in each replication of `rows` whose reward is not known yet."""
        if self.asked is None:
            self.asked = self.without_rewards()
        xp = namespace(pulled)
        self.asked.answer(pulled, xp.zeros(len(pulled), dtype=xp.float64, device=device_of(pulled)), rows)

    def drop_expected(self) -> None:
        """Count only the pulls that are answered."""
        self.asked = None

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make the second regression if a saved state has one."""
        if saved.get("asked") is not None:
            self.asked = self.without_rewards()
