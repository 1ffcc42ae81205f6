"""Several posteriors on the same arms, in nested dimensions, of which a round concerns one in each replication (torch).

The feature form for all bases of a master at once: what a round does depends on the choices through indices alone, so
it is one fixed sequence of operations. W holds the matrices V^-1 of one replication end to end, sum d_b^2 numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from adadim.actions import ActionSet
from adadim.backend.arrays import Array, clamp, indices, squared_lengths, zeros
from adadim.backend.kernels import lane_kernels
from adadim.backend.rows import EVERY, MaskedRows

__all__ = ["Lanes"]


class Lanes:
    """Ridge posteriors in the first `dims[0]`, `dims[1]`, ... features of the same arms.

    Parameters
    ----------
    actions : ActionSet
        The arms, as torch tensors.
    dims : sequence of int
        Number of features of each lane.
    ridge : float
        Regularisation lambda.

    Attributes
    ----------
    mean, width2 : array (R, M, K)
        Estimated mean reward and squared width of every arm in every lane.
    pulls : array (R, M)
        What each lane has learnt from.
    """

    def __init__(self, actions: ActionSet, dims: Sequence[int], ridge: float) -> None:
        self.actions, self.dims = actions, tuple(dims)
        count, base = actions.replications, actions.base
        shape = (count, len(self.dims), actions.arms)
        self.mean, self.width2 = zeros(base, *shape), zeros(base, *shape)
        self.pulls = zeros(base, *shape[:2], integers=True)
        self._ids = indices(self.mean)
        ends = list(itertools.accumulate(d * d for d in self.dims))
        self._starts = [0, *ends[:-1]]
        self._w = zeros(base, count, ends[-1])
        for lane, (d, start) in enumerate(zip(self.dims, self._starts, strict=True)):
            self._w[:, start : start + d * d : d + 1] = 1.0 / ridge
            for block, level in enumerate(actions.levels):
                here = slice(block * actions.base_arms, (block + 1) * actions.base_arms)
                self.width2[:, lane, here] = squared_lengths(base[:, :, : min(level, d)]) / ridge
        self._kernels = lane_kernels(
            actions.base, actions.levels, self.dims, self._starts, self._w, self.mean, self.width2
        )

    def absorb(self, chosen: Array, arms: Array, rewards: Array, rows: MaskedRows) -> Array:
        """Learn from a pull in lane ``chosen[r]`` of every replication r of `rows`; gives a_x^T V^-1 a_x, (R,)."""
        xp, ids = self.actions.xp, self._ids
        a = self.actions.vectors(arms)
        u = self._solve(chosen, a)  # zero beyond the lane's dimension, so what a has there does not matter
        here = xp.sum(a * u, axis=-1)
        c = rows.mask / (1.0 + here)
        surprise = c * (rewards - self.mean[ids, chosen, arms])
        if self._kernels is not None:
            self._kernels.absorb(chosen, u, c, surprise)
        else:
            g = self.actions.project(u)
            self.mean[ids, chosen] += surprise[:, None] * g
            self.width2[ids, chosen] = clamp(self.width2[ids, chosen] - c[:, None] * g * g, 0.0)
            for lane, w in enumerate(self.matrices()):
                own = u[:, : w.shape[1], None]
                w.baddbmm_(own, xp.matrix_transpose((c * (chosen == lane))[:, None, None] * own), alpha=-1.0)
        # The only lane needs no index: a view, two operations less.
        self.pulls[(ids, chosen) if len(self.dims) > 1 else (EVERY, 0)] += rows.mask
        return here

    def _solve(self, chosen: Array, a: Array) -> Array:
        """u = V^-1 a in the chosen lane, zero beyond its dimension."""
        if self._kernels is not None:
            return self._kernels.solve(chosen, a)
        u = self.actions.xp.zeros_like(a)
        for lane, w in enumerate(self.matrices()):
            d = w.shape[1]
            part = self.actions.xp.matmul(w, a[:, :d, None])[..., 0]
            u[:, :d] = self.actions.xp.where((chosen == lane)[:, None], part, u[:, :d])
        return u

    def matrices(self) -> list[Array]:
        """V^-1 of every lane, (R, d, d) views."""
        return [
            self._w[:, start : start + d * d].reshape(-1, d, d)
            for d, start in zip(self.dims, self._starts, strict=True)
        ]
