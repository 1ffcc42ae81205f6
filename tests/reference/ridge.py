"""Textbook LinUCB (section 1): V and b are kept, and every arm is rescored from them by a solve."""

from __future__ import annotations

from math import log, sqrt
from typing import Literal

import numpy as np

from .common import Floats, Ties, argmax_ties

Bonus = Literal["norm", "squared"]


def noise_radius(sigma: float, T: float, K: int) -> float:
    """sigma * sqrt(2 ln(2 T^1.5 K)): the noise part of 1.4 with delta = 1/sqrt(T), no norm term."""
    return sigma * sqrt(2 * log(2 * T**1.5 * K))


def virtual_sigma(sigma: float, mean_range: float) -> float:
    """Sub-Gaussian scale of a reward drawn through a mixture of arms (section 3)."""
    return sqrt(sigma**2 + (mean_range / 2) ** 2)


def oful_radius(sigma: float, ridge: float, norm: float, delta: float, logdet: float) -> float:
    """OFUL's radius (1.4) from logdet = ln det(V / ridge)."""
    return sigma * sqrt(2 * log(1 / delta) + logdet) + sqrt(ridge) * norm


def root_radius(sigma: float, ridge: float, norm: float, delta: float, logdet: float) -> float:
    """The root of the sum of the squares of both terms of `oful_radius`, which holds with the same probability."""
    return sqrt(sigma**2 * (2 * log(1 / delta) + logdet) + ridge * norm**2)


def chu_radius(T: int, K: int, delta: float) -> float:
    """The alpha of Chu et al. 2011 for rewards in [0, 1]."""
    return sqrt(0.5 * log(2 * T * K / delta))


class Ridge:
    """Ridge regression on the pulls (x, r) it is given."""

    def __init__(self, d: int, ridge: float) -> None:
        self.ridge = ridge
        self.V = ridge * np.eye(d)
        self.b = np.zeros(d)
        self.n = 0

    def add(self, x: Floats, reward: float) -> None:
        self.V = self.V + np.outer(x, x)
        self.b = self.b + reward * x
        self.n += 1

    @property
    def theta(self) -> Floats:
        return np.asarray(np.linalg.solve(self.V, self.b), dtype=np.float64)

    @property
    def logdet(self) -> float:
        """ln det(V / ridge)."""
        return float(np.linalg.slogdet(self.V)[1] - len(self.b) * log(self.ridge))

    def predict(self, X: Floats) -> tuple[Floats, Floats]:
        """Means x^T theta and squared widths x^T V^-1 x of the rows of X."""
        means = X @ self.theta
        widths = np.einsum("kd,dk->k", X, np.linalg.solve(self.V, X.T))
        return means, np.maximum(widths, 0.0)


class LinUCB:
    """LinUCB on the rows of X; `radius` is one number, or one per arm."""

    def __init__(
        self,
        X: Floats,
        T: int,
        sigma: float,
        ridge: float,
        rng: np.random.Generator,
        bonus: Bonus = "norm",
        radius: float | Floats | None = None,
        ties: Ties = "random",
        first_uniform: bool = False,
    ) -> None:
        self.X = np.asarray(X, dtype=float)
        self.K, self.d = self.X.shape
        self.rng, self.bonus, self.ties, self.first_uniform = rng, bonus, ties, first_uniform
        self.radius = noise_radius(sigma, T, self.K) if radius is None else radius
        self.ridge = Ridge(self.d, ridge)
        self.counts = np.zeros(self.K, dtype=np.int64)

    def scores(self) -> Floats:
        means, widths = self.ridge.predict(self.X)
        return means + self.radius * (np.sqrt(widths) if self.bonus == "norm" else widths)

    def select(self) -> int:
        if self.first_uniform and self.ridge.n == 0:  # Q8: scores start equal
            return int(self.rng.integers(self.K))
        return argmax_ties(self.scores(), self.rng, self.ties)

    def update(self, arm: int, reward: float) -> None:
        self.ridge.add(self.X[arm], reward)
        self.counts[arm] += 1
