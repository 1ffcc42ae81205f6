"""ALB-Dim and EpochBalancing for one replication, everything solved anew in every round."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log, sqrt

import numpy as np

from .common import Floats
from .counting import first_of


class OFUL:
    """Ridge regression on some coordinates, with its self-normalised radius."""

    def __init__(self, coordinates: list[int], ridge: float, sigma: float, S: float, delta: float) -> None:
        self.at, self.ridge, self.sigma, self.S, self.delta = coordinates, ridge, sigma, S, delta
        self.data: list[tuple[Floats, float]] = []

    def scores(self, X: Floats) -> tuple[list[float], list[float]]:
        """Mean and radius times width of every arm."""
        k = len(self.at)
        V, b = self.ridge * np.eye(k), np.zeros(k)
        for x, y in self.data:
            V += np.outer(x[self.at], x[self.at])
            b += y * x[self.at]
        theta = np.linalg.solve(V, b)
        logdet = np.linalg.slogdet(V / self.ridge)[1]
        beta = self.sigma * sqrt(2 * log(1 / self.delta) + logdet) + sqrt(self.ridge) * self.S
        part = X[:, self.at]
        return (part @ theta).tolist(), [beta * sqrt(x @ np.linalg.solve(V, x)) for x in part]


class ALBDim:
    """Section 8.1."""

    def __init__(
        self, d: int, dims: list[int], nested: bool, T0: int, sigma: float, delta: float, uniform: Callable[[], float]
    ) -> None:
        self.d, self.dims, self.nested, self.T0, self.sigma, self.delta = d, dims, nested, T0, sigma, delta
        self.uniform = uniform
        self.explored: list[tuple[Floats, float]] = []
        self.phase = -1
        self.begin(list(range(d)))

    def begin(self, support: list[int]) -> None:
        self.phase += 1
        self.support, self.step = support, 0
        self.base = OFUL(support, 1.0, self.sigma, 1.0, self.delta * 2.0**-self.phase)

    def select(self, X: Floats) -> int:
        u = self.uniform()
        if self.step >= 25**self.phase * self.T0:
            return int(u * len(X))
        mean, bonus = self.base.scores(X)
        return first_of([m + b for m, b in zip(mean, bonus, strict=True)], u)

    def update(self, x: Floats, y: float) -> None:
        playing = self.step < 25**self.phase * self.T0
        (self.base.data if playing else self.explored).append((x, y))
        self.step += 1
        if self.step == 25**self.phase * self.T0 + 5**self.phase * ceil(sqrt(self.T0)):
            A, r = np.array([x for x, _ in self.explored]), np.array([y for _, y in self.explored])
            theta = np.linalg.lstsq(A, r)[0]
            D = [j for j in range(self.d) if abs(theta[j]) >= 2.0 ** -(self.phase + 1) / 2]
            if self.nested or not D:
                top = max(D) + 1 if D else self.dims[0]
                D = list(range(min(m for m in self.dims if m >= top)))
            self.begin(D)


class EpochBalancing:
    """Section 2.1 with S = L = Rmax = 1."""

    def __init__(
        self, dims: list[int], ridge: float, sigma: float, delta: float, c: float, uniform: Callable[[], float]
    ) -> None:
        self.ridge, self.sigma, self.delta, self.c, self.uniform = ridge, sigma, delta, c, uniform
        self.begin(dims)

    def begin(self, dims: list[int]) -> None:
        self.dims = dims
        self.bases = {d: OFUL(list(range(d)), self.ridge, self.sigma, 1.0, self.delta) for d in dims}
        self.u, self.R, self.B = dict.fromkeys(dims, 0.0), dict.fromkeys(dims, 0.0), dict.fromkeys(dims, 0.0)
        self.t = 0

    def select(self, X: Floats) -> int:
        drawn, ties = self.uniform(), self.uniform()
        arms, widths = {}, {}
        for d in self.dims:
            mean, bonus = self.bases[d].scores(X)
            a = first_of([m + b for m, b in zip(mean, bonus, strict=True)], ties)
            arms[d], widths[d] = a, min(bonus[a], 1.0)
            self.B[d] += max(mean[a] - bonus[a], -1.0)
        inverse = {d: 1 / (d**2 + d) for d in self.dims}
        reached = 0.0
        for d in self.dims:
            reached += inverse[d] / sum(inverse.values())
            if drawn < reached:
                break
        self.chosen = d
        self.R[d] += 2 * widths[d]
        return arms[d]

    def update(self, x: Floats, y: float) -> None:
        self.bases[self.chosen].data.append((x, y))
        self.u[self.chosen] += y
        self.t += 1
        slack = self.c * sqrt(self.t * log(max(log(self.t), 1.0) / self.delta))
        if len(self.dims) > 1 and sum(self.u[d] + self.R[d] for d in self.dims) + slack < max(self.B.values()):
            self.begin(self.dims[1:])
