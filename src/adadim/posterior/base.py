"""What both forms of the posterior share: the state that policies read, and the update of it.

With V = ridge I + sum a a^T over the pulled arms, pulling arm x with reward r changes everything through one vector,
g = A V^-1 a_x:

    c = 1 / (1 + g_x);   mean += c (r - mean_x) g;   width^2 -= c g^2;   logdet += ln(1 + g_x).

A form only has to find g for an arm that was not the last one pulled. Pulling the same arm again shrinks g by c: with g
as before the run, n pulls have divided it by stretch = 1 + n g_x, so that one more is

    mean += (r - mean_x) / stretch_after g;   width^2 -= g^2 / (stretch_before stretch_after)

and the whole run is one rank-one change of V^-1 with weight n / stretch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg.blas import daxpy

from adadim.actions import ActionSet
from adadim.arrays import ALL, Array, Rows, device_of, indices, is_numpy, masked, positions
from adadim.problem import check_positive

__all__ = ["Posterior"]


class Posterior(ABC):
    """Exact ridge regression seen from the arms.

    Parameters
    ----------
    actions : ActionSet
        The arms.
    ridge : float
        Regularisation lambda of the least squares. Rounding errors grow as 1e-15 / ridge: means and widths are exact to
        1e-8 for a ridge of 1e-5 or more.

    Attributes
    ----------
    mean : array (R, K)
        Estimated mean reward <a, theta_hat> of every arm.
    width2 : array (R, K)
        Squared width a^T V^-1 a of every arm.
    counts, sums : array (R, K)
        Pulls of every arm and the sum of its rewards; they determine all the rest (see `rebuild`).
    logdet : array (R,)
        ln det(V / ridge).
    streamed : int
        Bytes that a pull of another arm reads for each replication.
    """

    streamed = 0

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        self.actions = actions
        self.ridge = check_positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        self.xp = xp = actions.xp
        self._numpy = is_numpy(xp)
        shape, place = (actions.replications, actions.arms), device_of(actions.base)
        self.width2 = actions.squared_norms() / self.ridge
        self.mean = xp.zeros(shape, dtype=xp.float64, device=place)
        self.sums = xp.zeros(shape, dtype=xp.float64, device=place)
        self.counts = xp.zeros(shape, dtype=xp.int64, device=place)
        self.logdet = xp.zeros(shape[0], dtype=xp.float64, device=place)
        self._ids = indices(self.mean)
        if self._numpy:
            # The run of equal pulls under way in each replication: g and g^2 as before it, its arm, length and stretch.
            self._g, self._g2 = np.zeros(shape), np.zeros(shape)
            self._last, self._run, self._stretch = [-1] * shape[0], [0] * shape[0], [1.0] * shape[0]

    def update(self, arms: Array, rewards: Array, rows: Rows = ALL) -> None:
        """Learn from one pull in each replication of `rows`."""
        self.absorb(arms, rewards, rows)
        self.settle()

    def absorb(self, arms: Array, rewards: Array, rows: Rows = ALL) -> None:
        """Do what `update` does, but leave it to the caller to `settle` afterwards.

        On torch this is a fixed sequence of operations on fixed memory, which can be recorded and replayed.
        """
        if self._numpy:
            # A row fits the nearest cache and BLAS updates it in one pass: faster than whole-batch temporaries.
            for r, x, reward in zip(self._ids[rows].tolist(), arms.tolist(), rewards.tolist(), strict=True):
                self._absorb(r, x, reward)
            return
        mask, arms, rewards = masked(rows, self.actions.replications, arms, rewards)
        self._absorb_batch(arms, rewards, mask)

    def _absorb_batch(self, arms: Array, rewards: Array, mask: Array) -> None:
        """Absorb a pull in every replication of the mask, every pull a run of its own (torch)."""
        at = (self._ids, arms)
        g = self._project_batch(arms)
        here = g[at]
        c = mask / (1.0 + here)
        self.mean.addcmul_((c * (rewards - self.mean[at]))[:, None], g)
        self.width2.addcmul_(c[:, None] * g, g, value=-1.0).clamp_(min=0.0)
        self._count(at, rewards, mask, here)
        self._fold_batch(c, g)

    def _count(self, at: tuple[Array, Array], rewards: Array, mask: Array, here: Array) -> None:
        self.logdet += mask * self.xp.log1p(here)
        self.counts[at] += mask
        self.sums[at] += mask * rewards

    def settle(self) -> None:
        """Do what is due only now and then; to be called once after each `absorb`."""
        return

    def _absorb(self, r: int, x: int, reward: float) -> None:
        """Absorb one pull of one replication (NumPy)."""
        g, g2, mean, width2 = self._g[r], self._g2[r], self.mean[r], self.width2[r]
        if x != self._last[r]:
            self._turn(r, x, self._run[r], self._stretch[r])
            np.multiply(g, g, out=g2)
            self._last[r], self._run[r], self._stretch[r] = x, 0, 1.0
        before, here = self._stretch[r], g.item(x)
        after = before + here
        daxpy(g, mean, a=(reward - mean.item(x)) / after)
        daxpy(g2, width2, a=-1.0 / (before * after))
        np.maximum(width2, 0.0, out=width2)
        self._run[r] += 1
        self._stretch[r] = after
        self.logdet[r] += math.log1p(here / before)
        self.counts[r, x] += 1
        self.sums[r, x] += reward

    def rebuild(self, counts: Array, sums: Array, rows: Rows = ALL) -> None:
        """Set the state to what `counts` pulls with reward `sums` per arm lead to, by a Cholesky factorisation.

        The order of the pulls is immaterial. Use it to restore a checkpoint, to start from data gathered in
        other dimensions, or to wipe out rounding.
        """
        xp = self.xp
        for i, r in enumerate(positions(rows, self.actions.replications)):
            arms, n = self.actions.dense(r), xp.astype(counts[i], xp.float64)
            identity = xp.eye(self.actions.dim, dtype=xp.float64, device=device_of(arms))
            factor = xp.linalg.cholesky(self.ridge * identity + arms.T @ (n[:, None] * arms))
            whitened = xp.linalg.solve(factor, arms.T)  # V^-1 = L^-T L^-1, so width^2 = |L^-1 a|^2
            self.width2[r] = xp.sum(whitened * whitened, axis=0)
            self.mean[r] = whitened.T @ (whitened @ sums[i])
            self.logdet[r] = 2.0 * xp.sum(xp.log(xp.linalg.diagonal(factor))) - self.actions.dim * np.log(self.ridge)
            self.counts[r], self.sums[r] = counts[i], sums[i]
            if self._numpy:
                self._g[r], self._last[r], self._run[r], self._stretch[r] = 0.0, -1, 0, 1.0
            self._restart(r, factor, whitened)

    @abstractmethod
    def _turn(self, r: int, x: int, run: float, stretch: float) -> None:
        """Fold the finished run into the form's own state and write g of arm `x` into `_g[r]` (NumPy)."""

    @abstractmethod
    def _project_batch(self, arms: Array) -> Array:
        """Compute g of one arm in every replication, (R, K) (torch)."""

    @abstractmethod
    def _fold_batch(self, c: Array, g: Array) -> None:
        """Fold those pulls into the form's own state; c is 0 where there was none (torch)."""

    @abstractmethod
    def _restart(self, r: int, factor: Array, whitened: Array) -> None:
        """Set the form's own state from the Cholesky factor L of V and L^-1 A^T."""
