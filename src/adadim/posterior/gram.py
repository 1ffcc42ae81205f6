"""The Gram form: inner products of all arms in the metric V^-1, for K up to a few d.

P holds A V^-1 A^T as of the last refresh and H the rows sqrt(weight) g of the runs since then, so that

    g = P[x] - H[:, x]^T H.

Every `BLOCK` runs P -= H^T H, a symmetric rank-k product, so the heavy work is BLAS-3.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dgemv, dsyrk

from adadim.actions import ActionSet
from adadim.arrays import Array, device_of
from adadim.posterior.base import Posterior

__all__ = ["GramPosterior"]

BLOCK = 32  # measured: syrk is at full speed from k = 32 on, and a longer H only makes g dearer


class GramPosterior(Posterior):
    """Ridge posterior held as a K x K matrix; parameters and attributes as in `Posterior`."""

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        xp, count, arms = self.xp, actions.replications, actions.arms
        place = device_of(actions.base)
        self._h = xp.zeros((count, BLOCK, arms), dtype=xp.float64, device=place)
        self._fill = [0] * count  # rows of H in use (NumPy)
        self._built = [not self._numpy] * count
        if self._numpy:
            # Lower triangle only: syrk writes one half, and reading a symmetric row from one half is cheap. Before it
            # is built the prior's row A a_x / ridge is computed when asked for: a base learner that is hardly ever
            # played never pays for the K x K matrix.
            self._p = xp.empty((count, arms, arms))
        else:
            # All replications write the same row of H, which the device keeps count of; unused rows are zero.
            self._slot, self._used = self._ids[:1] * 0, 0
            dense = actions.dense_batch()
            self._p = xp.matmul(dense, xp.matrix_transpose(dense)).div_(self.ridge)

    def _turn(self, r: int, x: int, run: float, stretch: float) -> None:
        h, p, g, used = self._h[r], self._p[r], self._g[r], self._fill[r]
        if run:
            np.multiply(g, math.sqrt(run / stretch), out=h[used])
            used += 1
            if used == BLOCK:
                if not self._built[r]:
                    _rank_update(p, self.actions.dense(r).T, 1.0 / self.ridge, 0.0)
                    self._built[r] = True
                _rank_update(p, h, -1.0, 1.0)
                used = 0
            self._fill[r] = used
        if self._built[r]:
            g[:x] = p[x, :x]
            g[x:] = p[x:, x]
        else:
            self.actions.project_row(r, self.actions.vector(r, x) / self.ridge, g)
        if used:
            dgemv(-1.0, h[:used].T, h[:used, x], beta=1.0, y=g, overwrite_y=1)

    def _project_batch(self, arms: Array) -> Array:
        column = self._h[self._ids, :, arms]
        return self._p[self._ids, arms] - self.xp.matmul(column[:, None, :], self._h)[:, 0, :]

    def _fold_batch(self, c: Array, g: Array) -> None:
        self._h.index_copy_(1, self._slot, (self.xp.sqrt(c)[:, None] * g)[:, None, :])
        self._slot += 1

    def settle(self) -> None:
        if self._numpy:
            return
        self._used += 1
        if self._used == BLOCK:
            self._p.baddbmm_(self.xp.matrix_transpose(self._h), self._h, alpha=-1.0)
            self._h.zero_()
            self._slot.zero_()
            self._used = 0

    def _restart(self, r: int, factor: Array, whitened: Array) -> None:
        if self._numpy:
            _rank_update(self._p[r], whitened, 1.0, 0.0)
        else:
            self._p[r] = whitened.T @ whitened
        self._h[r] = 0.0
        self._fill[r], self._built[r] = 0, True


def _rank_update(p: Array, rows: Array, alpha: float, beta: float) -> None:
    """Lower triangle of p = beta p + alpha rows^T rows, in place."""
    # rows is C- or Fortran-contiguous; either way syrk reads it in place.
    if rows.flags.c_contiguous:
        dsyrk(alpha, rows.T, beta=beta, c=p.T, overwrite_c=1, lower=0)
    else:
        dsyrk(alpha, rows, beta=beta, c=p.T, overwrite_c=1, lower=0, trans=1)
