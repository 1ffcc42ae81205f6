"""Masters that compare bases by plays n_i and reward sums u_i, for one replication, in plain Python.

Every `pick` takes the uniform that settles ties; scores within 1e-10 (relative) tie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log, sqrt

from .common import TIE_TOLERANCE, Base


def first_of(scores: Sequence[float], uniform: float) -> int:
    """The largest score; `uniform` picks among ties."""
    best = max(scores)
    slack = TIE_TOLERANCE * abs(best) if abs(best) < inf else 0.0
    tied = [i for i, score in enumerate(scores) if score >= best - slack]
    return tied[int(uniform * len(tied))]


def width(n: float, M: int, delta: float) -> float:
    """sqrt(ln(M max(ln n, 1) / delta) / n)."""
    return sqrt(log(M * max(log(n), 1.0) / delta) / n)


class CountingMaster:
    """n_i and u_i of bases, of which one is asked and taught in every round."""

    def __init__(self, bases: Sequence[Base], scale: float) -> None:
        self.bases, self.M, self.scale = bases, len(bases), scale
        self.n = [0] * self.M
        self.u = [0.0] * self.M
        self.base = -1

    def mean(self, i: int) -> float:
        return self.u[i] / self.n[i] if self.n[i] else 0.0

    def scores(self) -> list[float]:
        raise NotImplementedError

    def pick(self, uniform: float) -> int:
        self.base = first_of(self.scores(), uniform)
        return self.base

    def update(self, reward: float) -> None:
        self.n[self.base] += 1
        self.u[self.base] += reward


class RegretBalancing(CountingMaster):
    """Abbasi-Yadkori et al. 2020; U is one function."""

    def __init__(self, bases: Sequence[Base], scale: float, U: Callable[[float], float]) -> None:
        super().__init__(bases, scale)
        self.U = U

    def regrets(self) -> tuple[float, list[float]]:
        b = max((self.u[i] + self.scale * self.U(self.n[i])) / self.n[i] for i in range(self.M))
        return b, [self.n[i] * b - self.u[i] for i in range(self.M)]

    def scores(self) -> list[float]:
        if min(self.n) == 0:
            return [inf if n == 0 else -inf for n in self.n]
        return [-g for g in self.regrets()[1]]


class BoundBalancing(CountingMaster):
    """Pacchiano et al. 2020: R_i(n) = min(bound_i(n), n)."""

    def __init__(
        self, bases: Sequence[Base], scale: float, bounds: Sequence[Callable[[float], float]], delta: float, c: float
    ) -> None:
        super().__init__(bases, scale)
        self.bounds, self.delta, self.c = bounds, delta, c
        self.active = [True] * self.M

    def claim(self, i: int) -> float:
        n = self.n[i]
        return self.scale * min(self.bounds[i](n), n) if n else 0.0

    def scores(self) -> list[float]:
        return [-self.claim(i) if self.active[i] else -inf for i in range(self.M)]

    def update(self, reward: float) -> None:
        super().update(reward)
        inside = [i for i in range(self.M) if self.active[i]]
        if any(self.n[i] == 0 for i in inside):
            return
        g = {i: self.c * self.scale * width(self.n[i], self.M, self.delta) for i in inside}
        best = max(self.mean(i) - g[i] for i in inside)
        for i in inside:
            if self.mean(i) + self.claim(i) / self.n[i] + g[i] < best:
                self.active[i] = False


class DataDriven(CountingMaster):
    """D3RB and ED2RB (Pacchiano, Dann and Gentile 2024), as printed."""

    def __init__(self, bases: Sequence[Base], scale: float, estimating: bool, d_min: float, delta: float, c: float):
        super().__init__(bases, scale)
        self.estimating, self.d_min, self.delta, self.c = estimating, scale * d_min, delta, c
        self.dhat = [self.d_min] * self.M
        self.phi = [self.d_min] * self.M

    def scores(self) -> list[float]:
        return [-phi for phi in self.phi]

    def update(self, reward: float) -> None:
        super().update(reward)
        i, played = self.base, [j for j in range(self.M) if self.n[j]]
        g = {j: self.c * self.scale * width(self.n[j], self.M, self.delta) for j in played}
        best = max(self.mean(j) - g[j] for j in played)
        root = sqrt(self.n[i])
        if self.estimating:
            self.dhat[i] = max(self.d_min, root * (best - self.mean(i) - g[i]))
            self.phi[i] = min(max(self.dhat[i] * root, self.phi[i]), 2 * self.phi[i])
        else:
            if self.mean(i) + self.dhat[i] / root + g[i] < best:
                self.dhat[i] *= 2
            self.phi[i] = self.dhat[i] * root


class ReleasedDataDriven(DataDriven):
    """The same as the authors' code has them."""

    def update(self, reward: float) -> None:
        CountingMaster.update(self, reward)
        i, played = self.base, [j for j in range(self.M) if self.n[j]]
        h = {j: self.n[j] * self.c * self.scale * sqrt(log((self.n[j] + 1) / self.delta) / self.n[j]) for j in played}
        best = max((self.u[j] - h[j]) / sqrt(self.n[j]) if self.n[j] else 0.0 for j in range(self.M))
        root = sqrt(self.n[i])
        estimate = self.n[i] * (best - (self.u[i] + h[i]) / root)
        if self.estimating:
            self.phi[i] = max(min(estimate, 2 * self.phi[i]), self.phi[i], self.d_min * root)
            self.dhat[i] = self.phi[i] / root
        else:
            if estimate > self.dhat[i] * root:
                self.dhat[i] = min(2 * self.dhat[i], 1e4)
            self.phi[i] = self.dhat[i] * root


class BanditCombiner(CountingMaster):
    """Cutkosky, Das and Purohit 2020, with given targets."""

    def __init__(
        self,
        bases: Sequence[Base],
        scale: float,
        promises: Sequence[tuple[float, float]],
        targets: Sequence[float],
        T: int,
        delta: float,
        z: float,
    ) -> None:
        super().__init__(bases, scale)
        self.promises, self.targets, self.T, self.z = promises, targets, T, z
        self.L = log(T**3 * self.M / delta)
        self.dev = [0.0] * self.M
        self.active = [True] * self.M

    def promise(self, i: int) -> float:
        C, a = self.promises[i]
        return C * self.n[i] ** a

    def scores(self) -> list[float]:
        scores = []
        for i, n in enumerate(self.n):
            bonus = min(1.0, (self.promise(i) + sqrt(8 * self.L * n)) / n) if n else 1.0
            index = self.mean(i) + self.scale * (bonus - self.targets[i] / self.T)
            scores.append(index if self.active[i] else -inf)
        return scores

    def update(self, reward: float) -> None:
        i = self.base
        self.dev[i] += self.mean(i) - reward
        super().update(reward)
        limit = self.scale * (self.promise(i) + self.z * sqrt(self.L * self.n[i]))
        if self.dev[i] >= limit and sum(self.active) > 1:
            self.active[i] = False
