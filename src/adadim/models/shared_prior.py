"""The Gram form without a matrix of its own, on NumPy: for many learners of few pulls each on the same arms.

Before any pull A V^-1 A^T is A A^T / ridge, which all of them share (`PriorRows`). Each keeps only H, the rows
sqrt(weight) g of its runs, so that

    g = A a_x / ridge - H[:, x]^T H.

H grows with the runs; once it would cost more than the feature form does, the posterior is factored anew, after which
the arms are described by L^-1 a, V = L L^T, in place of the prior, and H is empty.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dgemv

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array
from adadim.core.rows import Rows
from adadim.core.state import unchanging
from adadim.models.cost import most_runs, suits_few_pulls
from adadim.models.fixed import BLOCK, HostFeature, HostPosterior, Posterior, check_precision, rank_update

ROOM = 32  # rows that H grows by at least


class PriorRows:
    """Rows A a_x / ridge of the posterior before any pull, for all learners that start from it, and squared widths.

    The first few of a replication are computed one by one, the others taken from the whole product.
    """

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        self.actions, self.ridge = actions, ridge
        self.width2 = actions.squared_norms() / ridge
        self._asked = [0] * actions.replications  # rows computed one by one: whoever is restored goes on bit for bit
        self._products = _Products(actions, ridge)

    def write(self, r: int, x: int, out: Array) -> None:
        """Write the row of arm `x` in replication `r` into `out`."""
        if self._asked[r] < BLOCK:
            self._asked[r] += 1
            self.actions.project_row(r, self.actions.vector(r, x) / self.ridge, out)
        else:
            out[:] = self._products(r)[x]


@unchanging
class _Products:
    """A A^T / ridge of each replication, made when first needed: it depends on nothing but the arms."""

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        self.actions, self.ridge = actions, ridge
        self.made: dict[int, Array] = {}

    def __call__(self, r: int) -> Array:
        if r not in self.made:
            arms = self.actions.arms
            product = np.empty((arms, arms))
            rank_update(product, self.actions.dense(r).T, 1.0 / self.ridge, 0.0)
            for lo in range(0, arms, BLOCK):  # the other half; in strips, which stay in the cache
                hi = lo + BLOCK
                corner = np.tril(product[lo:hi, lo:hi])
                product[:lo, lo:hi] = product[lo:hi, :lo].T
                product[lo:hi, lo:hi] = corner + np.tril(corner, -1).T
            self.made[r] = product
        return self.made[r]


class HostRuns(HostPosterior):
    """Ridge posterior held as one vector for each run of equal pulls, from a prior that others share."""

    def __init__(self, actions: ActionSet, prior: PriorRows) -> None:
        self._prior = prior
        super().__init__(actions, prior.ridge)
        count = actions.replications
        self._most = most_runs(actions.arms, actions.base_arms, actions.dim)
        self._h = [np.empty((0, actions.arms)) for _ in range(count)]
        self._fill = [0] * count  # rows of H in use
        self._whitened: list[Array | None] = [None] * count  # L^-1 A^T, once factored

    def prior(self) -> tuple[Array, Array]:
        return np.zeros_like(self._prior.width2), self._prior.width2.copy()

    def answer(self, arms: Array, rewards: Array, rows: Rows) -> None:
        super().answer(arms, rewards, rows)
        for r in rows.ids.tolist():
            if self._fill[r] == self._most:
                self.refactor(r)

    def turn(self, r: int, x: int, run: float, stretch: float) -> None:
        g, used = self._g[r], self._fill[r]
        if run:
            if used == len(self._h[r]):
                self._make_room(r)
            np.multiply(g, math.sqrt(run / stretch), out=self._h[r][used])
            used += 1
            self._fill[r] = used
        whitened = self._whitened[r]
        if whitened is None:
            self._prior.write(r, x, g)
        else:
            np.matmul(whitened[:, x], whitened, out=g)
        if used:
            h = self._h[r][:used]
            dgemv(-1.0, h.T, h[:, x], beta=1.0, y=g, overwrite_y=1)

    def _make_room(self, r: int) -> None:
        h = self._h[r]
        larger = np.zeros((min(len(h) + max(ROOM, len(h) // 2), self._most), h.shape[1]))
        larger[: len(h)] = h
        self._h[r] = larger

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        super().restart(r, factor, whitened)
        self._whitened[r], self._fill[r] = np.ascontiguousarray(whitened), 0


class FewPulls:
    """Makes the posteriors of several learners on the same arms (NumPy), each with a share of the horizon.

    They share their prior where that is cheaper than a matrix for each.
    """

    def __init__(self, horizon: int, learners: int) -> None:
        self.horizon, self.pulls = horizon, math.ceil(horizon / learners)
        self._checked = False
        self._prior: PriorRows | None = None

    def __call__(self, actions: ActionSet, ridge: float) -> Posterior:
        """The posterior of one more learner."""
        if not self._checked:
            check_precision(actions, ridge, self.horizon)
            self._checked = True
        if not suits_few_pulls(actions.arms, actions.base_arms, actions.dim, self.pulls):
            return HostFeature(actions, ridge)
        if self._prior is None:
            self._prior = PriorRows(actions, ridge)
        return HostRuns(actions, self._prior)
