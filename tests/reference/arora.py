"""UCB-C and the Tsallis-INF corral (Arora, Marinov and Mohri 2021) for one replication, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, floor, inf, log, log2, sqrt
from statistics import median

from .counting import first_of


class UCBCorral:
    """The master of UCB-C: which copy plays next; copies of base i are i S, ..., i S + S - 1."""

    def __init__(self, M: int, S: int, bounds: Sequence[Callable[[float], float]], factor: float, scale: float) -> None:
        self.M, self.S, self.bounds, self.factor, self.scale = M, S, bounds, factor, scale
        self.sums = [[0.0] * S for _ in range(M)]
        self.n = [0] * M
        self.t, self.base, self.copy = 1, -1, 0

    def scores(self) -> list[float]:
        scores = []
        for i, n in enumerate(self.n):
            if n == 0:
                scores.append(inf)
                continue
            bonus = (self.factor * self.bounds[i](n) + sqrt(2 * n * log(self.t))) / n
            scores.append(median(total / n for total in self.sums[i]) + self.scale * bonus)
        return scores

    def pick(self, uniform: float) -> int:
        if self.copy == 0:
            self.base = first_of(self.scores(), uniform)
        return self.base * self.S + self.copy

    def update(self, reward: float) -> None:
        self.sums[self.base][self.copy] += reward
        self.t += 1
        self.copy += 1
        if self.copy == self.S:
            self.copy = 0
            self.n[self.base] += 1


def solve(slack: Sequence[float], losses: Sequence[float], eta: Sequence[float]) -> tuple[list[float], float]:
    """w_i = (slack_i + eta_i (l_i - nu)/2)^-2 with sum 1, by bisection."""

    def weights(nu: float) -> list[float]:
        return [(s + e * (x - nu) / 2) ** -2 for s, x, e in zip(slack, losses, eta, strict=True)]

    high = min(x + 2 * (s - 1) / e for s, x, e in zip(slack, losses, eta, strict=True))  # one weight is 1
    low = high - 1.0
    while sum(weights(low)) > 1:
        low -= 2 * (high - low)
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return weights(middle), middle
        if sum(weights(middle)) > 1:
            high = middle
        else:
            low = middle


def ftrl(losses: Sequence[float], eta: Sequence[float]) -> tuple[list[float], float]:
    return solve([1.0] * len(losses), losses, eta)


def omd(w: Sequence[float], losses: Sequence[float], eta: Sequence[float]) -> tuple[list[float], float]:
    return solve([1 / sqrt(x) for x in w], losses, eta)


class TsallisMaster:
    """Weights of the Tsallis-INF corral, as a state machine: start, ordinary rounds, NEG-REG-STEP of three rounds."""

    def __init__(self, M: int, eta: float, D: Sequence[float], T: int, start: int, rho: float) -> None:
        self.M, self.D, self.T, self.start, self.rho = M, D, T, start * M, rho
        self.beta = exp(1 / log(T) ** 2)
        self.L, self.eta, self.level = [0.0] * M, [eta] * M, [0] * M
        self.w, self.nu = [1 / M] * M, 0.0
        self.played, self.t, self.epoch = 0, 0, 1
        self.phase, self.rested, self.R = "ordinary", True, set()

    def probabilities(self) -> list[float]:
        if self.played < self.start:
            return [float(i == self.played % self.M) for i in range(self.M)]
        return [(1 - 1 / (self.T * self.M)) * w + 1 / (self.T * self.M**2) for w in self.w]

    def trigger(self) -> set[int]:
        if self.t >= self.epoch:  # first round of an epoch
            self.epoch *= 2
            for i in range(self.M):
                if self.w[i] <= 1 / self.rho:
                    s = max(floor(log2(1 / (self.w[i] * self.rho))) - 1, 0)
                    while self.w[i] <= 1 / (self.rho * 2**s):
                        s += 1
                    self.level[i] = s
        rhos = [self.rho * 2**s for s in self.level]
        return {i for i in range(self.M) if self.w[i] <= 1 / rhos[i] and rhos[i] <= self.T}

    def slow_down(self) -> None:
        self.eta = [1 / sqrt(1 / e**2 + 1) for e in self.eta]

    def update(self, i: int, loss: float) -> None:
        if self.played < self.start:
            self.L[i] += loss
            self.played += 1
            if self.played == self.start:
                self.w, self.nu = ftrl(self.L, self.eta)
                self.slow_down()
            return
        p = self.probabilities()
        self.played += 1
        self.t += 1
        lhat = [self.D[j] + (loss / p[j] if j == i else 0.0) for j in range(self.M)]
        if self.phase == "ordinary":
            triggered = self.trigger()
            if triggered and self.rested:
                self.R, self.phase = triggered, "second"
                shifted = [(self.L[j] - self.nu) / (self.beta if j in self.R else 1) for j in range(self.M)]
                self.w, _ = omd(self.w, lhat, self.eta)
                self.L = [a + b for a, b in zip(shifted, lhat, strict=True)]
                return
            self.rested = True
        self.L = [a + b for a, b in zip(self.L, lhat, strict=True)]
        if self.phase == "ordinary":
            self.slow_down()
        elif self.phase == "second":
            for j in self.R:
                self.eta[j] *= self.beta
                self.level[j] += 1
            self.phase = "third"
        else:
            self.phase, self.rested = "ordinary", False
        self.w, self.nu = ftrl(self.L, self.eta)
