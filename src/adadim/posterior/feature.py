"""The feature form: V^-1 itself, for K >> d.

u = V^-1 a_x and g = A u; an expressive set costs one pass over its base arms (see `ActionSet.project`).
"""

from __future__ import annotations

from scipy.linalg.blas import dsymv, dsyr

from adadim.actions import ActionSet
from adadim.arrays import Array, device_of
from adadim.kernels import lane_kernels
from adadim.posterior.base import Posterior

__all__ = ["FeaturePosterior"]

NUMBER = 8  # bytes


class FeaturePosterior(Posterior):
    """Ridge posterior held as a d x d matrix; parameters and attributes as in `Posterior`."""

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        xp, count, dim = self.xp, actions.replications, actions.dim
        place = device_of(actions.base)
        identity = xp.eye(dim, dtype=xp.float64, device=place)
        # NumPy: only the lower triangle is kept up to date.
        self._w = xp.stack([identity / self.ridge] * count)
        self._u = xp.zeros((count, dim), dtype=xp.float64, device=place)
        self.streamed = NUMBER * (actions.base_arms * dim + dim * dim // 2)
        # One lane.
        views = self._w.reshape(count, dim * dim), self.mean[:, None], self.width2[:, None]
        self._kernels = lane_kernels(actions.base, actions.levels, [dim], [0], *views)

    def _turn(self, r: int, x: int, run: float, stretch: float) -> None:
        w = self._w[r].T  # Fortran order for BLAS: its upper triangle is our lower
        if run:
            dsyr(-run / stretch, self._u[r], a=w, overwrite_a=1, lower=0)
        u = self._u[r]
        dsymv(1.0, w, self.actions.vector(r, x), beta=0.0, y=u, overwrite_y=1, lower=0)
        self.actions.project_row(r, u, self._g[r])

    def _absorb_batch(self, arms: Array, rewards: Array, mask: Array) -> None:
        if self._kernels is None:
            super()._absorb_batch(arms, rewards, mask)
            return
        xp, at, only = self.xp, (self._ids, arms), self._ids * 0
        a = self.actions.vectors(arms)
        u = self._kernels.solve(only, a)
        here = xp.sum(a * u, axis=-1)
        c = mask / (1.0 + here)
        self._kernels.absorb(only, u, c, c * (rewards - self.mean[at]))
        self._count(at, rewards, mask, here)

    def _project_batch(self, arms: Array) -> Array:
        self._u = self.xp.matmul(self._w, self.actions.vectors(arms)[..., None])
        return self.actions.project(self._u[..., 0])

    def _fold_batch(self, c: Array, g: Array) -> None:
        self._w.baddbmm_(self._u, self.xp.matrix_transpose(c[:, None, None] * self._u), alpha=-1.0)

    def _restart(self, r: int, factor: Array, whitened: Array) -> None:
        xp = self.xp
        root = xp.linalg.inv(factor)
        self._w[r] = root.T @ root
        self._u[r] = 0.0
