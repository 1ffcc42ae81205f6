"""The Gram form on NumPy: inner products of all arms in the metric V^-1, for K up to a few d.

P holds A V^-1 A^T as of the last refresh and H the rows sqrt(weight) g of the runs since then, so that

    g = P[x] - H[:, x]^T H.

Every `BLOCK` runs P -= H^T H, a symmetric rank-k product, so the heavy work is BLAS-3.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dgemv, dsyrk

from adadim.actions import ActionSet
from adadim.backend.arrays import Array
from adadim.posterior.host import HostPosterior

__all__ = ["BLOCK", "HostGram", "rank_update"]

BLOCK = 32  # measured: syrk is at full speed from k = 32 on, and a longer H only makes g dearer


class HostGram(HostPosterior):
    """Ridge posterior held as a K x K matrix; parameters and attributes as in `Posterior`.

    Of P only the lower triangle is kept: syrk writes one half, and reading a symmetric row from one half is cheap.
    Before it is built, the prior's row A a_x / ridge is computed when asked for: a base learner that is hardly ever
    played never pays for the K x K matrix.
    """

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        count, arms = actions.replications, actions.arms
        self._p, self._h = np.empty((count, arms, arms)), np.zeros((count, BLOCK, arms))
        self._fill, self._built = [0] * count, [False] * count  # rows of H in use; whether P is there

    def turn(self, r: int, x: int, run: float, stretch: float) -> None:
        h, p, g, used = self._h[r], self._p[r], self._g[r], self._fill[r]
        if run:
            np.multiply(g, math.sqrt(run / stretch), out=h[used])
            used += 1
            if used == BLOCK:
                if not self._built[r]:
                    rank_update(p, self.actions.dense(r).T, 1.0 / self.ridge, 0.0)
                    self._built[r] = True
                rank_update(p, h, -1.0, 1.0)
                used = 0
            self._fill[r] = used
        if self._built[r]:
            g[:x] = p[x, :x]
            g[x:] = p[x:, x]
        else:
            self.actions.project_row(r, self.actions.vector(r, x) / self.ridge, g)
        if used:
            dgemv(-1.0, h[:used].T, h[:used, x], beta=1.0, y=g, overwrite_y=1)

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        super().restart(r, factor, whitened)
        rank_update(self._p[r], whitened, 1.0, 0.0)
        self._h[r] = 0.0
        self._fill[r], self._built[r] = 0, True


def rank_update(p: Array, rows: Array, alpha: float, beta: float) -> None:
    """Lower triangle of p = beta p + alpha rows^T rows, in place."""
    # rows is C- or Fortran-contiguous; either way syrk reads it in place.
    if rows.flags.c_contiguous:
        dsyrk(alpha, rows.T, beta=beta, c=p.T, overwrite_c=1, lower=0)
    else:
        dsyrk(alpha, rows, beta=beta, c=p.T, overwrite_c=1, lower=0, trans=1)
