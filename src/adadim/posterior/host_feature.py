"""The feature form on NumPy: V^-1 itself, for K >> d.

u = V^-1 a_x and g = A u; an expressive set costs one pass over its base arms (see `ActionSet.project`). Where V^-1 is
too badly conditioned to be written down or updated often, the arms are described by L^-1 a, V = L L^T as of the last
factorisation.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsymv, dsyr

from adadim.actions import ActionSet
from adadim.backend.arrays import Array
from adadim.posterior.cost import streamed_bytes
from adadim.posterior.host import HostPosterior

__all__ = ["HostFeature"]

LARGEST_RATIO = 1e5  # 100,000 updates of V^-1 add up to 7e-14 of its size (eps sqrt(n))


class HostFeature(HostPosterior):
    """Ridge posterior held as a d x d matrix; parameters and attributes as in `Posterior`."""

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        self._w = np.stack([np.eye(actions.dim) / self.ridge] * actions.replications)  # lower triangles are current
        self._u = np.zeros((actions.replications, actions.dim))
        self._whitened: list[Array | None] = [None] * actions.replications  # L^-1 A^T, where it is needed
        self.streamed = streamed_bytes("feature", actions.base_arms, actions.dim)

    def turn(self, r: int, x: int, run: float, stretch: float) -> None:
        w = self._w[r].T  # Fortran order for BLAS: its upper triangle is our lower
        u = self._u[r]
        if run:
            dsyr(-run / stretch, u, a=w, overwrite_a=1, lower=0)
        whitened = self._whitened[r]
        vector = self.actions.vector(r, x) if whitened is None else whitened[:, x]
        dsymv(1.0, w, vector, beta=0.0, y=u, overwrite_y=1, lower=0)
        if whitened is None:
            self.actions.project_row(r, u, self._g[r])
        else:
            np.matmul(u, whitened, out=self._g[r])

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        super().restart(r, factor, whitened)
        root = None if factor is None else np.linalg.inv(factor)
        if root is not None and not self._loses(r, root, whitened):
            self._whitened[r], self._w[r] = None, root.T @ root
        else:
            self._whitened[r], self._w[r] = np.ascontiguousarray(whitened), np.eye(self.actions.dim)
        self._u[r] = 0.0

    def _loses(self, r: int, root: Array, whitened: Array) -> bool:
        """Whether the rounding of V^-1, which some directions keep large, would show in the smallest width pulled."""
        pulled = self.counts[r] > 0
        if not pulled.any():
            return False
        largest = np.square(root).sum(axis=0).max() * self.actions.squared_norms()[r].max()
        return bool(largest > LARGEST_RATIO * np.square(whitened[:, pulled]).sum(axis=0).min())
