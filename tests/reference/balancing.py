"""Dynamic Balancing (section 8) and its released variant (Q8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log, sqrt
from typing import Literal

import numpy as np

from .common import Base, Floats, Ties, argmax_ties
from .corral import nested_dims
from .ridge import Bonus, LinUCB

Bound = Callable[[int], float]
Variant = Literal["theory", "released"]


def theory_width(n: int, M: int, delta: float, c: float) -> float:
    """c sqrt(ln(M max(ln n, 1) / delta) / n)."""
    return c * sqrt(log(M * max(log(n), 1.0) / delta) / n)


def released_width(n: int, M: int, delta: float, c: float) -> float:
    """c sqrt(ln(max(M ln n / delta, 1)) / n), which is 0 at n = 1."""
    return c * sqrt(log(max(M * log(n) / delta, 1.0)) / n)


def nested_bound(dim: int, n: int, K: int) -> float:
    """R_i(n) of 8.2; 0 before the first play."""
    if n == 0:
        return 0.0
    return max(sqrt(dim * n * log(max(K * n**1.5 * log(n), 1.0)) ** 3), 1.0)


class DynamicBalancing:
    """The master of 8.1 over given bases.

    `reference` "lower" tests against max_j (mean_j - width_j), "upper" against max_j (mean_j + width_j).
    With `ties_among_all`, a learner that is not active but whose potential equals the active minimum may
    be drawn too (Q8).
    """

    def __init__(
        self,
        bases: Sequence[Base],
        bounds: Sequence[Bound],
        rng: np.random.Generator,
        delta: float,
        c: float = 1.0,
        scalings: Sequence[float] | None = None,
        biases: Sequence[Bound] | None = None,
        reference: Literal["lower", "upper"] = "lower",
        width: Callable[[int, int, float, float], float] = theory_width,
        ties_among_all: bool = False,
        ties: Ties = "random",
    ) -> None:
        self.bases, self.bounds, self.rng, self.delta, self.c = bases, bounds, rng, delta, c
        self.M = len(bases)
        self.scalings = [1.0] * self.M if scalings is None else list(scalings)
        self.biases = [lambda t: 0.0] * self.M if biases is None else list(biases)
        self.reference, self.width = reference, width
        self.ties_among_all, self.ties = ties_among_all, ties
        self.counts = np.zeros(self.M, dtype=np.int64)
        self.sums = np.zeros(self.M)
        self.active = np.ones(self.M, dtype=bool)
        self.t = 0
        self.base = -1

    def potentials(self) -> Floats:
        """v_i R_i(n_i), with R_i(0) = 0."""
        values = [
            v * (bound(int(n)) if n > 0 else 0.0)
            for v, bound, n in zip(self.scalings, self.bounds, self.counts, strict=True)
        ]
        return np.array(values)

    def pick(self) -> int:
        potentials = self.potentials()
        lowest = potentials[self.active].min()
        tied = np.isclose(potentials, lowest, rtol=1e-10, atol=0.0)
        if not self.ties_among_all:
            tied &= self.active
        return argmax_ties(tied, self.rng, self.ties)

    def select(self) -> int:
        self.base = self.pick()
        return self.bases[self.base].select()

    def update(self, arm: int, reward: float) -> None:
        self.bases[self.base].update(arm, reward)
        self.t += 1
        self.counts[self.base] += 1
        self.sums[self.base] += reward
        upper, reference = np.full(self.M, inf), -inf
        for i in range(self.M):
            n = int(self.counts[i])
            if n == 0:
                continue
            mean = self.sums[i] / n - self.biases[i](self.t)
            width = self.width(n, self.M, self.delta, self.c)
            upper[i] = mean + width + self.bounds[i](n) / n
            reference = max(reference, mean - width if self.reference == "lower" else mean + width)
        self.active = upper >= reference


class NestedDynamicBalancing(DynamicBalancing):
    """Dynamic Balancing over LinUCB in nested dimensions (8.2).

    "released" is Q8: upper reference, width 0 at n = 1, ties among all learners, uniform first pulls.
    """

    def __init__(
        self,
        X: Floats,
        T: int,
        sigma: float,
        ridge: float,
        rng: np.random.Generator,
        dims: Sequence[int] | None = None,
        variant: Variant = "theory",
        bound: Callable[[int, int], float] | None = None,
        delta: float | None = None,
        c: float = 1.0,
        bonus: Bonus = "norm",
        base_horizon: int | None = None,
        ties: Ties = "random",
    ) -> None:
        X = np.asarray(X, dtype=float)
        K = len(X)
        self.dims = list(nested_dims(X.shape[1]) if dims is None else dims)
        released = variant == "released"
        bases = [
            LinUCB(X[:, :m], base_horizon or T, sigma, ridge, rng, bonus, ties=ties, first_uniform=released)
            for m in self.dims
        ]

        def bound_of(dim: int) -> Bound:
            return lambda n: nested_bound(dim, n, K) if bound is None else bound(dim, n)

        super().__init__(
            bases,
            [bound_of(dim) for dim in self.dims],
            rng,
            T**-0.5 if delta is None else delta,
            c,
            reference="upper" if released else "lower",
            width=released_width if released else theory_width,
            ties_among_all=released,
            ties=ties,
        )
