"""The ridge posterior over fixed arms on torch: all replications at once, a fixed sequence of operations.

Every pull is a run of its own, and replications that a pull does not concern are masked out, so that nothing depends on
the data through shapes or through Python, and a round can be recorded and replayed. `Lanes` holds several posteriors on
the same arms, in nested dimensions, of which a round concerns one in each replication: the bases of a master.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, clamp, indices, squared_lengths, zeros
from adadim.core.recording import cuda_kernels, on_host
from adadim.core.rows import EVERY, Replications
from adadim.models.fixed import GRAM_BLOCK, Posterior


class Lanes:
    """Ridge posteriors in the first `dims[0]`, ... features of the same arms; means (R, M, K), `pulls` (R, M)."""

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
                arms = slice(block * actions.base_arms, (block + 1) * actions.base_arms)
                self.width2[:, lane, arms] = squared_lengths(base[:, :, : min(level, d)]) / ridge
        kernels, state = cuda_kernels(base), (self._w, self.mean, self.width2, self.pulls)
        self._kernels = kernels and kernels.LaneKernels(actions.base, actions.levels, self.dims, self._starts, *state)

    def absorb(self, chosen: Array, arms: Array, rewards: Array, rows: Replications) -> Array:
        """Learn from a pull in lane ``chosen[r]`` of every replication r of `rows`; returns a_x^T V^-1 a_x, (R,)."""
        if self._kernels is not None:
            return self._kernels.absorb(chosen, arms, rewards, rows.mask)
        xp, ids = self.actions.xp, self._ids
        a = self.actions.vectors(arms)
        u = self._solve(chosen, a)  # zero beyond the lane's dimension, so the rest of `a` does not matter
        g_x = xp.sum(a * u, axis=-1)
        c = rows.mask / (1.0 + g_x)
        surprise = c * (rewards - self.mean[ids, chosen, arms])
        g = self.actions.project(u)
        self.mean[ids, chosen] += surprise[:, None] * g
        self.width2[ids, chosen] = clamp(self.width2[ids, chosen] - c[:, None] * g * g, 0.0)
        for lane, w in enumerate(self.matrices()):
            column = u[:, : w.shape[1], None]
            w.baddbmm_(column, xp.matrix_transpose((c * (chosen == lane))[:, None, None] * column), alpha=-1.0)
        # The only lane needs no index: a view, two operations less.
        self.pulls[(ids, chosen) if len(self.dims) > 1 else (EVERY, 0)] += rows.mask
        return g_x

    def tally(self, *tallies: Array) -> bool:
        """Let kernels update what a `DevicePosterior` counts besides; returns whether there are some."""
        if self._kernels is not None:
            self._kernels.tallies = tallies
        return self._kernels is not None

    def defer(self, block: list[Array]) -> None:
        """Let kernels keep the last pulls of the only lane in U and H, of which `block` is made, out of V^-1."""
        self._kernels.block = block

    def _solve(self, chosen: Array, a: Array) -> Array:
        """u = V^-1 a in the chosen lane, zero beyond its dimension."""
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


class DevicePosterior(Posterior):
    """What both forms on torch share."""

    tallied = False  # whether a step counts the pull too

    def resolve(self, arms: Array, rewards: Array, rows: Replications) -> None:
        masked, arms, rewards = rows.masked(arms, rewards)
        g_x = self.step(arms, rewards, masked)
        if self.tallied:
            return
        masked_rewards = masked.mask * rewards
        at = (self.everyone.positions, arms)
        self.logdet += masked.mask * self.actions.xp.log1p(g_x)
        self.counts[at] += masked.mask
        self.sums[at] += masked_rewards
        self.squares.addcmul_(masked_rewards, rewards)

    @abstractmethod
    def step(self, arms: Array, rewards: Array, rows: Replications) -> Array:
        """Count a pull in every replication of `rows`; update means, widths and the form; returns g_x, (R,)."""


class DeviceGram(DevicePosterior):
    """Ridge posterior held as a K x K matrix P, as `HostGram`; all replications write the same row of H."""

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        dense = actions.dense_batch()
        self._h = zeros(actions.base, actions.replications, GRAM_BLOCK, actions.arms)
        self._slot, self._used = self.everyone.positions * 0, 0  # rows of H in use, the same in all replications
        self._p = actions.xp.matmul(dense, actions.xp.matrix_transpose(dense)).div_(self.ridge)
        kernels, state = cuda_kernels(actions.base), (self._p, self._h, self._slot, self.mean, self.width2)
        tallies = (self.logdet, self.counts, self.sums, self.squares)
        self._kernels = kernels and kernels.GramKernels(*state, tallies, self.pulls)
        self.tallied = self._kernels is not None

    def step(self, arms: Array, rewards: Array, rows: Replications) -> Array:
        if self._kernels is not None:
            g_x = self._kernels.step(arms, rewards, rows.mask)
            on_host(self._fold)
            return g_x
        xp, numbers = self.actions.xp, self.everyone.positions
        column = self._h[numbers, :, arms]
        g = self._p[numbers, arms] - xp.matmul(column[:, None, :], self._h)[:, 0, :]
        g_x = g[numbers, arms]
        c = rows.mask / (1.0 + g_x)
        self.mean.addcmul_((c * (rewards - self.mean[numbers, arms]))[:, None], g)
        self.width2.addcmul_(c[:, None] * g, g, value=-1.0).clamp_(min=0.0)
        self._h.index_copy_(1, self._slot[:1], (xp.sqrt(c)[:, None] * g)[:, None, :])
        self._slot += 1
        self.pulls += rows.mask
        on_host(self._fold)
        return g_x

    def _fold(self) -> None:
        """Fold H into P every `GRAM_BLOCK` pulls."""
        self._used += 1
        if self._used == GRAM_BLOCK:
            self._p.baddbmm_(self.actions.xp.matrix_transpose(self._h), self._h, alpha=-1.0)
            self._h.zero_()
            self._slot.zero_()
            self._used = 0

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        self._p[r] = whitened.T @ whitened
        self._h[r] = 0.0


class DeviceFeature(DevicePosterior):
    """Ridge posterior held as a d x d matrix: the only lane of `Lanes`.

    Where kernels compute it and rows of H are few beside W, V^-1 is updated `GRAM_BLOCK` pulls at a time.
    """

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        lanes, base, block = self._lanes, actions.base, (actions.replications, GRAM_BLOCK)
        self.pulls = lanes.pulls[:, 0]
        self.tallied = lanes.tally(self.logdet, self.counts, self.sums, self.squares)
        self.defers = self.tallied and actions.dim**2 >= GRAM_BLOCK * actions.arms
        self._block: list[Array] = []  # U, H, and rows of them in use
        self._used = 0
        if self.defers:
            self._block = [zeros(base, *block, actions.dim), zeros(base, *block, actions.arms)]
            self._block.append(self.everyone.positions * 0)
            lanes.defer(self._block)

    def prior(self) -> tuple[Array, Array]:
        self._lanes = Lanes(self.actions, [self.actions.dim], self.ridge)
        self._only = self._lanes.pulls[:, 0] * 0
        return self._lanes.mean[:, 0], self._lanes.width2[:, 0]

    def step(self, arms: Array, rewards: Array, rows: Replications) -> Array:
        g_x = self._lanes.absorb(self._only, arms, rewards, rows)
        if self.defers:
            on_host(self._fold)
        return g_x

    def _fold(self) -> None:
        """Fold U into V^-1 every `GRAM_BLOCK` pulls."""
        self._used += 1
        if self._used == GRAM_BLOCK:
            u, _, slots = self._block
            self._lanes.matrices()[0].baddbmm_(self.actions.xp.matrix_transpose(u), u, alpha=-1.0)
            slots.zero_()
            self._used = 0

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        root = self.actions.xp.linalg.inv(factor)
        self._lanes.matrices()[0][r] = root.T @ root
        for rows in self._block[:2]:
            rows[r] = 0.0
