"""The posterior on torch: all replications at once, as a fixed sequence of operations on fixed memory.

Every pull is a run of its own, and replications that a pull does not concern are masked out, so that nothing depends on
the data through shapes or through Python, and a round can be recorded and replayed.
"""

from __future__ import annotations

from abc import abstractmethod

from adadim.actions import ActionSet
from adadim.backend.arrays import Array, zeros
from adadim.backend.recording import on_host
from adadim.backend.rows import MaskedRows, Rows
from adadim.posterior.base import Posterior
from adadim.posterior.host_gram import BLOCK
from adadim.posterior.lanes import Lanes

__all__ = ["DeviceFeature", "DeviceGram"]


class DevicePosterior(Posterior):
    """What both forms on torch share; parameters and attributes as in `Posterior`."""

    def answer(self, arms: Array, rewards: Array, rows: Rows) -> None:
        masked, arms, rewards = rows.masked(arms, rewards)
        here = self.step(arms, rewards, masked)
        gained = masked.mask * rewards
        at = (self.everyone.positions, arms)
        self.logdet += masked.mask * self.actions.xp.log1p(here)
        self.counts[at] += masked.mask
        self.sums[at] += gained
        self.squares.addcmul_(gained, rewards)

    @abstractmethod
    def step(self, arms: Array, rewards: Array, rows: MaskedRows) -> Array:
        """Count a pull in every replication of `rows`; update means, widths and own state; gives g_x, (R,)."""


class DeviceGram(DevicePosterior):
    """Ridge posterior held as a K x K matrix P; see `host_gram`.

    All replications write the same row of H, which the device keeps count of; unused rows are zero.
    """

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        dense = actions.dense_batch()
        self._h = zeros(actions.base, actions.replications, BLOCK, actions.arms)
        self._slot, self._used = self.everyone.positions[:1] * 0, 0
        self._p = actions.xp.matmul(dense, actions.xp.matrix_transpose(dense)).div_(self.ridge)

    def step(self, arms: Array, rewards: Array, rows: MaskedRows) -> Array:
        xp, numbers = self.actions.xp, self.everyone.positions
        column = self._h[numbers, :, arms]
        g = self._p[numbers, arms] - xp.matmul(column[:, None, :], self._h)[:, 0, :]
        here = g[numbers, arms]
        c = rows.mask / (1.0 + here)
        self.mean.addcmul_((c * (rewards - self.mean[numbers, arms]))[:, None], g)
        self.width2.addcmul_(c[:, None] * g, g, value=-1.0).clamp_(min=0.0)
        self._h.index_copy_(1, self._slot, (xp.sqrt(c)[:, None] * g)[:, None, :])
        self._slot += 1
        self.pulls += rows.mask
        on_host(self._fold)
        return here

    def _fold(self) -> None:
        """Fold H into P every `BLOCK` pulls."""
        self._used += 1
        if self._used == BLOCK:
            self._p.baddbmm_(self.actions.xp.matrix_transpose(self._h), self._h, alpha=-1.0)
            self._h.zero_()
            self._slot.zero_()
            self._used = 0

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        self._p[r] = whitened.T @ whitened
        self._h[r] = 0.0


class DeviceFeature(DevicePosterior):
    """Ridge posterior held as a d x d matrix: the only lane of `Lanes`."""

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        self.pulls = self._lanes.pulls[:, 0]

    def prior(self) -> tuple[Array, Array]:
        self._lanes = Lanes(self.actions, [self.actions.dim], self.ridge)
        self._only = self._lanes.pulls[:, 0] * 0
        return self._lanes.mean[:, 0], self._lanes.width2[:, 0]

    def step(self, arms: Array, rewards: Array, rows: MaskedRows) -> Array:
        return self._lanes.absorb(self._only, arms, rewards, rows)

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        root = self.actions.xp.linalg.inv(factor)
        self._lanes.matrices()[0][r] = root.T @ root
