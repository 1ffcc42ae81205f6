"""UCB over m arms (section 3), with the three indices and UCB1's bonus."""

from __future__ import annotations

from math import log, sqrt
from typing import Literal

import numpy as np

from .common import Floats, Ties, argmax_ties

Index = Literal["self_normalised", "subgaussian", "released"]


def ucb1_bonus(n: int, t: int) -> float:
    return sqrt(2 * log(t) / n)


def subgaussian_bonus(n: int, sigma: float, delta: float) -> float:
    return sigma * sqrt(2 * log(1 / delta) / n)


def self_normalised_bonus(n: int, m: int, sigma: float, delta: float) -> float:
    return sigma * sqrt((1 + n) / n**2 * (1 + 2 * log(m * sqrt(1 + n) / delta)))


def released_bonus(n: int, m: int, T: int) -> float:
    """Q9: sqrt(T) stands outside the logarithm and no sigma appears."""
    return sqrt((1 + n) / n**2 * (1 + 4 * sqrt(T) * log(m * sqrt(1 + n))))


class UCB:
    """UCB on m arms with horizon T; delta defaults to 1/sqrt(T) (self-normalised) or 1/T^2 (sub-Gaussian)."""

    def __init__(
        self,
        m: int,
        T: int,
        sigma: float,
        rng: np.random.Generator,
        index: Index = "self_normalised",
        delta: float | None = None,
        ties: Ties = "random",
    ) -> None:
        self.m, self.T, self.sigma, self.rng, self.index, self.ties = m, T, sigma, rng, index, ties
        self.delta = delta if delta is not None else (T**-0.5 if index == "self_normalised" else T**-2.0)
        self.counts = np.zeros(m, dtype=np.int64)
        self.sums = np.zeros(m)

    def bonus(self, n: int) -> float:
        if self.index == "self_normalised":
            return self_normalised_bonus(n, self.m, self.sigma, self.delta)
        if self.index == "subgaussian":
            return subgaussian_bonus(n, self.sigma, self.delta)
        return released_bonus(n, self.m, self.T)

    def scores(self) -> Floats:
        scores = np.full(self.m, np.inf)
        for j in range(self.m):
            n = int(self.counts[j])
            if n > 0:
                scores[j] = self.sums[j] / n + self.bonus(n)
        return scores

    def select(self) -> int:
        return argmax_ties(self.scores(), self.rng, self.ties)

    def update(self, arm: int, reward: float) -> None:
        self.counts[arm] += 1
        self.sums[arm] += reward
