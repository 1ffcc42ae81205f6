"""SupLinUCB (section 2): one ridge regression per level, updated only by the pulls that level chose."""

from __future__ import annotations

from math import ceil, log, sqrt

import numpy as np

from .common import Floats, Ties, argmax_ties
from .ridge import Ridge, noise_radius


class SupLinUCB:
    """SupLinUCB on the rows of X; `radius`, one number or one per arm, multiplies every norm."""

    def __init__(
        self,
        X: Floats,
        T: int,
        sigma: float,
        ridge: float,
        rng: np.random.Generator,
        radius: float | Floats | None = None,
        ties: Ties = "random",
    ) -> None:
        self.X = np.asarray(X, dtype=float)
        self.K, self.d = self.X.shape
        self.T, self.rng, self.ties = T, rng, ties
        self.radius = noise_radius(sigma, T, self.K) if radius is None else radius
        self.S = max(ceil(log(T)), 1)
        self.levels = [Ridge(self.d, ridge) for _ in range(self.S)]
        self.predictions = [level.predict(self.X) for level in self.levels]
        self.exploit_rounds = 0
        self.counts = np.zeros(self.K, dtype=np.int64)
        self.chosen_level: int | None = None  # 1-based; None after an exploit round

    @property
    def level_sizes(self) -> list[int]:
        """|Psi_s| for s = 1..S."""
        return [level.n for level in self.levels]

    def select(self) -> int:
        alive = np.arange(self.K)
        for s in range(1, self.S + 1):
            means, squared = self.predictions[s - 1]
            width = (self.radius * np.sqrt(squared))[alive]
            upper = means[alive] + width
            if width.max() <= 1 / sqrt(self.T):
                self.chosen_level = None
                return int(alive[argmax_ties(upper, self.rng, self.ties)])
            if width.max() > 2.0**-s:
                self.chosen_level = s
                return int(alive[argmax_ties(width, self.rng, self.ties)])
            alive = alive[upper >= upper.max() - 2.0 ** (1 - s)]
        raise AssertionError("unreachable: 2^-S <= 1/sqrt(T)")

    def update(self, arm: int, reward: float) -> None:
        self.counts[arm] += 1
        if self.chosen_level is None:
            self.exploit_rounds += 1
            return
        level = self.levels[self.chosen_level - 1]
        level.add(self.X[arm], reward)
        self.predictions[self.chosen_level - 1] = level.predict(self.X)
