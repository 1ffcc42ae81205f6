"""LinUCB++ (Algorithm 1, section 4), with the virtual dimensions as real columns of the feature matrix."""

from __future__ import annotations

from math import ceil, floor, log2
from typing import Literal

import numpy as np

from .common import Floats, Ints, Ties
from .ridge import Bonus, LinUCB, noise_radius, virtual_sigma
from .suplinucb import SupLinUCB

Solver = Literal["linucb", "suplinucb"]


def schedule(T: int, beta: float, d: int) -> list[tuple[int, int]]:
    """The pairs (d_i, DeltaT_i), i = 1..p (Algorithm 1, line 1)."""
    p = max(ceil(beta * log2(T) - 1e-9), 1)
    return [(min(2 ** (p + 2 - i), d), min(2 ** (p + i), T)) for i in range(1, p + 1)]


class Mixtures:
    """The virtual mixture-arms over K real arms; phat_j has length K + j - 1 (4.4)."""

    def __init__(self, K: int) -> None:
        self.K = K
        self.phats: list[Floats] = []

    def __len__(self) -> int:
        return len(self.phats)

    def add(self, phat: Floats) -> None:
        assert len(phat) == self.K + len(self)
        assert abs(phat.sum() - 1) < 1e-9
        self.phats.append(np.asarray(phat, dtype=float))

    def draw(self, j: int, rng: np.random.Generator) -> int:
        """A real arm: draw from mixture j, and again from every earlier mixture that comes out."""
        column = self.K + j
        while column >= self.K:
            phat = self.phats[column - self.K]
            column = int(rng.choice(len(phat), p=phat))
        return column

    def flat(self, j: int) -> Floats:
        """The law of draw(j) over the real arms."""
        phat = self.phats[j]
        law = phat[: self.K].copy()
        for earlier in range(j):
            law += phat[self.K + earlier] * self.flat(earlier)
        return law

    def mean(self, j: int, means: Floats) -> float:
        """Mean reward of mixture j, by the recursion of 4.4."""
        phat = self.phats[j]
        virtual = sum(phat[self.K + earlier] * self.mean(earlier, means) for earlier in range(j))
        return float(phat[: self.K] @ means + virtual)


def closure_levels(T: int, beta: float, d: int) -> list[int]:
    """Truncation levels of the expressive set (section 14): 2^3, ..., 2^l, then d."""
    last = min(ceil(beta * log2(T) - 1e-9) + 1, floor(log2(d)))
    return [2**j for j in range(3, last + 1) if 2**j < d] + [d]


def expressive_closure(base: Floats, levels: list[int]) -> tuple[Floats, Ints]:
    """Blocks of the base arms cut to each level, and the level of every row."""
    blocks = []
    for level in levels:
        block = base.copy()
        block[:, level:] = 0.0
        blocks.append(block)
    return np.concatenate(blocks), np.repeat(levels, len(base))


def usable_rows(levels: Ints | None, K: int, dim: int) -> Ints:
    """Rows played in dimension `dim`: all, or the blocks of level <= dim (the lowest block if none)."""
    if levels is None:
        return np.arange(K)
    return np.flatnonzero(levels <= max(dim, int(levels.min())))


class Iterated:
    """The iterations shared by Algorithms 1 and 2.

    An iteration's actions are columns: 0..K-1 the real arms, K + j the mixture of iteration j + 1.
    Subclasses say how an iteration begins, which column to play, and what is learnt from its reward.
    """

    def __init__(self, X: Floats, T: int, beta: float, rng: np.random.Generator, levels: Ints | None) -> None:
        self.X = np.asarray(X, dtype=float)
        self.K, self.d = self.X.shape
        self.T, self.rng, self.levels = T, rng, levels
        self.schedule = schedule(T, beta, self.d)
        self.mixtures = Mixtures(self.K)
        self.iteration = 0  # 1-based once begun
        self.left = 0  # rounds left in the iteration
        self.counts = np.zeros(self.K)
        self.history: list[tuple[int, int]] = []  # (iteration, column) of every step
        self.column = -1
        self.arm = -1

    def begin(self, dim: int, length: int) -> None:
        raise NotImplementedError

    def choose(self) -> int:
        raise NotImplementedError

    def learn(self, column: int, reward: float) -> None:
        raise NotImplementedError

    def advance(self) -> None:
        """Begin the next iteration if the current one is complete."""
        if self.left > 0:
            return
        if self.iteration > 0:
            self.mixtures.add(self.counts / self.schedule[self.iteration - 1][1])
        dim, length = self.schedule[self.iteration]
        self.iteration += 1
        self.left = length
        self.counts = np.zeros(self.K + len(self.mixtures))
        self.rows = usable_rows(self.levels, self.K, dim)
        self.begin(dim, length)

    def select(self) -> int:
        self.advance()
        return self.play(self.choose())

    def play(self, column: int) -> int:
        """Commit to a column and give the real arm to pull (call `advance` first when not via `select`)."""
        self.column = column
        self.arm = column if column < self.K else self.draw(column - self.K)
        return self.arm

    def draw(self, j: int) -> int:
        return self.mixtures.draw(j, self.rng)

    def update(self, arm: int, reward: float) -> None:
        assert arm == self.arm
        self.counts[self.column] += 1
        self.history.append((self.iteration, self.column))
        self.left -= 1
        self.learn(self.column, reward)

    def mixture_regret(self, means: Floats, steps: int | None = None) -> float:
        """Regret of the first `steps` steps, a virtual pull counted by its mixture's mean (4.5, Q6)."""
        gaps = [means.max() - means[k] for k in range(self.K)]
        gaps += [means.max() - self.mixtures.mean(j, means) for j in range(len(self.mixtures))]
        return float(sum(gaps[column] for _, column in self.history[:steps]))


class LinUCBPP(Iterated):
    """LinUCB++ on the rows of X.

    `mean_range` bounds max - min of the means (2 in theory, the true range in the released code, Q4).
    `rescale` divides the truncated arms by their largest norm (Q3). `levels`, the level of every row,
    makes the set expressive: only rows that exist in dimension d_i are played.
    """

    def __init__(
        self,
        X: Floats,
        T: int,
        sigma: float,
        ridge: float,
        rng: np.random.Generator,
        beta: float = 0.5,
        bonus: Bonus = "norm",
        rescale: bool = False,
        mean_range: float = 2.0,
        levels: Ints | None = None,
        solver: Solver = "linucb",
        ties: Ties = "random",
    ) -> None:
        super().__init__(X, T, beta, rng, levels)
        self.sigma, self.ridge, self.bonus, self.rescale = sigma, ridge, bonus, rescale
        self.mean_range, self.solver_kind, self.ties = mean_range, solver, ties
        self.solver: LinUCB | SupLinUCB

    def begin(self, dim: int, length: int) -> None:
        real, virtual = len(self.rows), len(self.mixtures)
        features = np.zeros((real + virtual, dim + virtual))
        features[:real, :dim] = self.X[self.rows, :dim]
        features[real:, dim:] = np.eye(virtual)
        if self.rescale:  # Q3
            largest = np.linalg.norm(features[:real], axis=1).max()
            if largest <= 1:
                features[:real] /= largest
            else:
                features[real:] *= largest
        radius = np.full(real + virtual, noise_radius(self.sigma, length, real + virtual))
        radius[real:] = noise_radius(virtual_sigma(self.sigma, self.mean_range), length, real + virtual)
        if self.solver_kind == "linucb":
            self.solver = LinUCB(features, length, self.sigma, self.ridge, self.rng, self.bonus, radius, self.ties)
        else:
            self.solver = SupLinUCB(features, length, self.sigma, self.ridge, self.rng, radius, self.ties)

    def choose(self) -> int:
        action = self.solver.select()
        real = len(self.rows)
        return int(self.rows[action]) if action < real else self.K + action - real

    def learn(self, column: int, reward: float) -> None:
        real = len(self.rows)
        action = int(np.searchsorted(self.rows, column)) if column < self.K else real + column - self.K
        self.solver.update(action, reward)
