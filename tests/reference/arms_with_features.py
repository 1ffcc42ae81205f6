"""OSOM and ALB-Norm for one replication: rewards mu_i + <theta, x_i>, everything solved anew in every round."""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt

import numpy as np

from .common import Floats
from .counting import first_of


def mu_tilde(mean: float, n: int, K: int, delta: float, sigma: float) -> float:
    return mean + sigma * sqrt((1 + n) / n**2 * (1 + 2 * log(K * sqrt(1 + n) / delta)))


class Ridge:
    """Ridge regression with lambda = 1, from a list."""

    def __init__(self, d: int) -> None:
        self.d, self.data = d, list[tuple[Floats, float]]()

    def solve(self) -> tuple[Floats, Floats]:
        V, b = np.eye(self.d), np.zeros(self.d)
        for x, y in self.data:
            V += np.outer(x, x)
            b += y * x
        return V, np.linalg.solve(V, b)


class OSOM:
    """Section 7, in the printed (`ball`) and the practical form."""

    def __init__(
        self, K: int, d: int, n: int, delta: float, sigma: float, rho: float, ball: bool, uniform: Callable[[], float]
    ) -> None:
        self.K, self.d, self.n, self.delta, self.sigma, self.rho = K, d, n, delta, sigma, rho
        self.ball, self.uniform = ball, uniform
        self.rewards: list[list[float]] = [[] for _ in range(K)]
        self.ridge, self.complex, self.t = Ridge(d), False, 0
        self.statistic = self.first_sum = 0.0

    def Kd(self, t: int) -> float:
        Ld = log(2 * self.d * self.n / self.delta)
        tau = (16 / self.rho**2 + 8 / (3 * self.rho)) * Ld
        ups = (20 / 3 + 10 * self.sigma / 3 * sqrt(1 + 2 * log(2 * self.K * self.n / self.delta))) * (
            Ld + sqrt(t * Ld + Ld**2)
        )
        m = sqrt(2 * self.sigma**2 * (self.d / 2 * log(1 + t / self.d) + log(1 / self.delta))) + 1
        if t <= self.K + tau:
            return m + ups
        return m / sqrt(1 + self.rho * (t - self.K) / 2) + ups / (1 + self.rho * (t - self.K) / 2)

    def select(self, X: Floats) -> int:
        self.t += 1
        u = self.uniform()
        if self.t <= self.K:
            self.term = None
            return self.t - 1
        self.mut = [mu_tilde(float(np.mean(g)), len(g), self.K, self.delta, self.sigma) for g in self.rewards]
        V, theta = self.ridge.solve()
        beta = self.sigma * sqrt(2 * log(1 / self.delta) + np.linalg.slogdet(V)[1]) + 1.0
        widths = [
            self.Kd(self.t - 1) * float(np.linalg.norm(x)) if self.ball else beta * sqrt(x @ np.linalg.solve(V, x))
            for x in X
        ]
        scores = [self.mut[k] + float(X[k] @ theta) + widths[k] for k in range(self.K)]
        i, j = first_of(self.mut, u), first_of(scores, u)
        self.first_sum += 2 * (self.Kd(self.t - 1) if self.ball else widths[j])
        t, K = self.t, self.K
        W = self.first_sum + self.sigma * sqrt((1 + t) / 2 * log(1 / self.delta))
        W += 2 * self.sigma * sqrt(1 + 2 * log(K * sqrt(t) / self.delta)) * sqrt(K * t)
        if self.statistic > W:
            self.complex = True
        self.term = scores[j]
        return j if self.complex else i

    def update(self, arm: int, x: Floats, g: float) -> None:
        if self.term is not None:
            self.ridge.data.append((x, g - self.mut[arm]))
            self.statistic += self.term - g
        self.rewards[arm].append(g)


class ALBNorm:
    """Section 8.2 with the source's ball (`ball`) or an ellipsoid, and the corrected index."""

    def __init__(
        self,
        K: int,
        d: int,
        pairs: int,
        first_epoch: int,
        delta: float,
        sigma: float,
        rho: float,
        ball: bool,
        uniform: Callable[[], float],
    ) -> None:
        self.K, self.d, self.pairs, self.T1, self.delta1 = K, d, pairs, first_epoch, delta
        self.sigma, self.rho, self.ball, self.uniform = sigma, rho, ball, uniform
        self.start: list[tuple[Floats, float]] = []
        self.first: list[float] = []
        self.t, self.epoch, self.b = 0, 0, 1.0

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.length, self.delta = self.T1 * 2 ** (self.epoch - 1), self.delta1 * 2 ** (1 - self.epoch)
        self.rewards = [[g] for g in self.first]
        self.ridge = Ridge(self.d)

    def reach(self, t: int) -> float:
        """Radius after t rounds of the epoch."""
        if not self.ball:
            V, _ = self.ridge.solve()
            return self.sigma * sqrt(2 * log(1 / self.delta) + np.linalg.slogdet(V)[1]) + self.b
        Lk = log(2 * self.K * self.length / self.delta)
        m = self.b + sqrt(2 * self.sigma**2 * (self.d / 2 * log(1 + t / self.d) + log(1 / self.delta)))
        ups = 10 / 3 * (self.b + 2 + self.sigma * sqrt(1 + 2 * Lk)) * (Lk + sqrt(t * Lk + Lk**2))
        least = (16 / self.rho**2 + 8 / (3 * self.rho)) * log(2 * self.d * self.length / self.delta)
        design = 1 + self.rho * t / 2
        return m + ups if t < least else m / sqrt(design) + ups / design

    def select(self, X: Floats) -> int:
        u = self.uniform()
        if self.t == 0:
            self.arm = int(u * self.K)
        self.t += 1
        if self.t <= 2 * self.pairs:
            return self.arm
        if self.t <= 2 * self.pairs + self.K:
            return self.t - 2 * self.pairs - 1
        V, theta = self.ridge.solve()
        reach = self.reach(len(self.ridge.data))
        extra = sqrt(2 * self.d * log(1 / self.delta))
        self.mut = [
            mu_tilde(float(np.mean(g)), len(g), self.K, self.delta, self.sigma) + self.b * extra / sqrt(len(g))
            for g in self.rewards
        ]
        scores = []
        for k, x in enumerate(X):
            size = float(np.linalg.norm(x)) if self.ball else sqrt(x @ np.linalg.solve(V, x))
            scores.append(self.mut[k] + float(x @ theta) + reach * size)
        return first_of(scores, u)

    def update(self, arm: int, x: Floats, g: float) -> None:
        if self.t <= 2 * self.pairs:
            self.start.append((x, g))
            if self.t == 2 * self.pairs:
                D = np.array([self.start[k][0] - self.start[k + 1][0] for k in range(0, 2 * self.pairs, 2)])
                y = np.array([self.start[k][1] - self.start[k + 1][1] for k in range(0, 2 * self.pairs, 2)])
                norm = float(np.linalg.norm(np.linalg.lstsq(D, y)[0]))
                self.b = max(norm + sqrt(2) * self.sigma * sqrt(self.d / self.pairs * log(1 / self.delta1)), 1.0)
            return
        if self.t <= 2 * self.pairs + self.K:
            self.first.append(g)
            if len(self.first) == self.K:
                self.begin_epoch()
            return
        self.ridge.data.append((x, g - self.mut[arm]))
        self.rewards[arm].append(g)
        if len(self.ridge.data) == self.length:
            V, theta = self.ridge.solve()
            reach = self.reach(self.length)
            if not self.ball:
                reach /= sqrt(float(np.linalg.eigvalsh(V)[0]))
            self.b = float(np.linalg.norm(theta)) + reach
            self.begin_epoch()
