"""MOSS++ and empMOSS++ (Zhu and Nowak 2020) for one replication, in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, log, log2, sqrt

from .counting import first_of


def moss(n: int, total: float, T: float, K: int, scale: float) -> float:
    """Index of an arm pulled n times."""
    if n == 0:
        return inf
    return total / n + scale * sqrt(max(log(T / (n * K)), 0.0) / n)


class MOSSPlusPlus:
    """Choices below n are arms, n + j is mixture j. `arms_of(i, K)` gives the sampled arms of iteration i (from 1)."""

    def __init__(
        self, n: int, T: int, beta: float, scale: float, arms_of: Callable[[int, int], list[int]], empirical: bool
    ) -> None:
        self.n, self.T, self.scale, self.arms_of, self.empirical = n, T, scale, arms_of, empirical
        self.p = ceil(beta * log2(T) - 1e-9)
        self.i, self.t, self.K = 0, 0, 0
        self.q: list[list[float]] = []
        self.pulls: dict[int, int] = {}
        self.sums: dict[int, float] = {}
        self.begin()

    def begin(self) -> None:
        self.i += 1
        self.counts: dict[int, int] = {}
        self.length = min(2 ** (self.p + self.i), self.T)
        self.left = self.length
        if not self.empirical:
            self.K, self.horizon = min(2 ** (self.p + 2 - self.i), self.n), self.length
            self.arms = self.arms_of(self.i, self.K)
            self.pulls, self.sums = {}, {}
            return
        self.horizon = min(2**self.p * (2 ** (self.i + 1) - 2), self.T)
        if self.i == 1:
            self.K = min(2 ** (self.p + 1), self.n)
            self.arms = self.arms_of(1, self.K)
        else:
            self.K = min(max(self.K // 2, 4), self.n)
            means = [self.sums.get(a, 0.0) / max(self.pulls.get(a, 0), 1) for a in range(self.n)]
            self.arms = sorted(range(self.n), key=lambda a: (-means[a], a))[: self.K]

    def options(self) -> list[int]:
        return self.arms + [self.n + j for j in range(self.i - 1)]

    def choose(self, uniform: float) -> int:
        options = self.options()
        scores = [
            moss(self.pulls.get(o, 0), self.sums.get(o, 0.0), self.horizon, len(options), self.scale) for o in options
        ]
        return options[first_of(scores, uniform)]

    def update(self, choice: int, reward: float) -> None:
        self.counts[choice] = self.counts.get(choice, 0) + 1
        self.pulls[choice] = self.pulls.get(choice, 0) + 1
        self.sums[choice] = self.sums.get(choice, 0.0) + reward
        self.t += 1
        self.left -= 1
        if self.left == 0:
            flat = [self.counts.get(a, 0) / self.length for a in range(self.n)]
            for j, earlier in enumerate(self.q):
                share = self.counts.get(self.n + j, 0) / self.length
                flat = [a + share * b for a, b in zip(flat, earlier, strict=True)]
            self.q.append(flat)
            if self.i < self.p:
                self.begin()


class MeDZO(MOSSPlusPlus):
    """Options are cells of n points on [0, 1], written as their number; n + j is mixture j (Hadiji 2019)."""

    def __init__(self, n: int, T: int, beta: float, scale: float) -> None:
        super().__init__(n, T, beta, scale, lambda i, K: list(range(K)), empirical=False)

    def points(self, cell: int) -> list[int]:
        """Arms a with a/n in [cell/K, (cell + 1)/K)."""
        return [a for a in range(self.n) if cell * self.n <= a * self.K < (cell + 1) * self.n]

    def update(self, choice: int, reward: float) -> None:
        measure = [0.0] * self.n
        for chosen, count in [*self.counts.items(), (choice, 1)]:
            spread = self.points(chosen) if chosen < self.n else []
            for a in spread:
                measure[a] += count / self.length / len(spread)
            if chosen >= self.n:
                earlier = self.q[chosen - self.n]
                measure = [m + count / self.length * b for m, b in zip(measure, earlier, strict=True)]
        made = len(self.q)
        super().update(choice, reward)
        if len(self.q) > made:
            self.q[-1] = measure
