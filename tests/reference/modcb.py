"""ModCB for one replication: samples are kept, and the residual is the sum over pairs as it is printed."""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt

import numpy as np

from .common import Floats


def root(matrix: Floats) -> Floats:
    """Symmetric square root."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def residual_of_pairs(xs: Floats, ys: Floats, second: Floats, small: int) -> tuple[float, float]:
    """Ehat as a mean over pairs of <z_s, z_t>, z = Sig^(1/2) R x y; and its standard error from Q4 alone."""
    d, n = xs.shape[1], len(xs)
    R = -np.linalg.inv(second)
    if small:
        R[:small, :small] += np.linalg.inv(second[:small, :small])
    z = [root(second) @ R @ x * y for x, y in zip(xs, ys, strict=True)]
    total = sum(float(z[s] @ z[t]) for s in range(n) for t in range(s + 1, n))
    every = sum(float(a @ b) ** 2 for a in z for b in z)
    assert second.shape == (d, d)
    return total / (n * (n - 1) / 2), sqrt(2 * every) / (n * (n - 1))


class ModCB:
    """Steps 1 to 3 with SquareCB as the base, tests against q standard errors."""

    def __init__(
        self,
        dims: list[int],
        arms: int,
        T: int,
        noise: float,
        uniform: Callable[[], float],
        ridge: float = 1.0,
        kappa: float = 1 / 3,
        every: int | None = None,
    ) -> None:
        self.dims, self.K, self.T, self.noise, self.uniform = dims, arms, T, noise, uniform
        self.ridge, self.kappa, self.every = ridge, kappa, every or -(-T // 100)
        self.delta = 1 / sqrt(T)
        self.m, self.t = 0, 0
        self.contexts: list[Floats] = []
        self.explored: list[tuple[Floats, float]] = []
        self.own: list[tuple[Floats, float]] = []  # what the base of the current class was told
        self.exploring = False

    def select(self, X: Floats) -> int:
        self.t += 1
        self.contexts += list(X)
        first, second = self.uniform(), self.uniform()
        self.exploring = first < min(1.0, self.t**-self.kappa)
        p = np.full(self.K, 1 / self.K) if self.exploring else self.squarecb(X)
        arm, reached = 0, p[0]
        while reached <= second:
            arm += 1
            reached += p[arm]
        return arm

    def squarecb(self, X: Floats) -> Floats:
        d = self.dims[self.m]
        V, b = self.ridge * np.eye(d), np.zeros(d)
        for x, y in self.own:
            V += np.outer(x[:d], x[:d])
            b += y * x[:d]
        predicted = X[:, :d] @ np.linalg.solve(V, b)
        best = int(np.argmax(predicted))
        g = sqrt(self.K * self.T / (d * log(self.T))) / self.noise
        p = [0.0 if a == best else 1 / (self.K + g * (predicted[best] - predicted[a])) for a in range(self.K)]
        p[best] = 1 - sum(p)
        return np.array(p)

    def update(self, x: Floats, y: float) -> None:
        (self.explored if self.exploring else self.own).append((x, y))
        if self.t % self.every == 0 and len(self.explored) >= 20:
            self.test()

    def test(self) -> None:
        xs, ys = np.array([x for x, _ in self.explored]), np.array([y for _, y in self.explored])
        rows = np.array(self.contexts)
        second = rows.T @ rows / len(rows)
        q = sqrt(2 * log(len(self.dims) * self.T / self.delta))
        for i in range(self.m + 1, len(self.dims)):
            d = self.dims[i]
            value, error = residual_of_pairs(xs[:, :d], ys, second[:d, :d], self.dims[self.m])
            if value >= q * error:
                self.m, self.own = i, []
                return
