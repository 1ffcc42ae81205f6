"""What a ridge regression has to know of its data: X^T X, X^T r, sum r^2 and how many there were.

These are sums, so the order of the data does not matter, and rewards may be added late, replaced and forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adadim.core.arrays import FloatArray

FORGOTTEN = 1e-9  # pulls; less than that is nothing


@dataclass
class Moments:
    """Sums over pulls with features x, reward r and weight w (1, unless old pulls are being forgotten).

    sum w x x^T, sum w r x, sum w r^2 and sum w; the largest squared norm of an x and the largest absolute value of each
    feature; and `asked`, sum w x x^T over all pulls that were decided, those whose rewards are not known yet among them
    (by default every reward is known, and this is `second`).
    """

    second: FloatArray
    moment: FloatArray
    squares: float
    weight: float
    longest: float
    extent: FloatArray
    asked: FloatArray | None = None

    @classmethod
    def zeros(cls, dim: int) -> Moments:
        """Those of no data."""
        return cls(np.zeros((dim, dim)), np.zeros(dim), 0.0, 0.0, 0.0, np.zeros(dim))

    @classmethod
    def of(cls, second: FloatArray, moment: FloatArray, squares: float, weight: float) -> Moments:
        """Those of data of which nobody kept the largest values."""
        return cls(second, moment, squares, weight, 0.0, np.zeros(len(moment)))

    def copy(self) -> Moments:
        """The same sums, to be changed on their own."""
        sums = (self.squares, self.weight, self.longest)
        asked = None if self.asked is None else self.asked.copy()
        return Moments(self.second.copy(), self.moment.copy(), *sums, self.extent.copy(), asked)

    def without_rewards(self) -> Moments:
        """The sums over all pulls that were decided, as if they had all earned nothing."""
        second = self.second if self.asked is None else self.asked
        return Moments(second, np.zeros_like(self.moment), 0.0, self.weight, self.longest, self.extent)

    def add(self, features: FloatArray, rewards: FloatArray, weights: FloatArray | None = None) -> None:
        """Add pulls: features (n, d), rewards (n,) and weights (n,), by default 1."""
        weighted = features if weights is None else features * weights[:, None]
        self.second += weighted.T @ features
        self.moment += weighted.T @ rewards
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
        change = (new - old) * (new + old)
        self.squares = max(self.squares + float(change.sum() if weights is None else change @ weights), 0.0)

    def fade(self, factor: float) -> None:
        """Multiply the weights of all pulls by a number."""
        self.second *= factor
        if self.asked is not None:
            self.asked *= factor
        self.moment *= factor
        self.squares *= factor
        self.weight *= factor

    def seen(self, dim: int, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """X^T X and X^T r of the first `dim` features, each multiplied by its weight."""
        second, moment = self.second[:dim, :dim], self.moment[:dim]
        if weights is None:
            return second.copy(), moment.copy()
        return second * np.outer(weights, weights), moment * weights
