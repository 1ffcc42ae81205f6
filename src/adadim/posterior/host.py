"""The posterior on NumPy: one replication at a time, through BLAS.

A row fits the nearest cache and BLAS updates it in one pass, which is faster than temporaries for a whole batch.
Pulling the same arm again shrinks g by c = 1 / (1 + g_x): with g as before the run of equal pulls, n of them have
divided it by stretch = 1 + n g_x, so that one more is

    mean += (r - mean_x) / stretch_after g;   width^2 -= g^2 / (stretch_before stretch_after)

and the whole run is one rank-one change of V^-1 with weight n / stretch.

An update is a difference, so that rounding grows with the share of a width that is gone since the last factorisation.
A pull divides the width^2 of its own arm by more than any other arm's, so that arm says when to factor anew. The errors
of n updates add up like a random walk, to sqrt(n) times that of one.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from scipy.linalg.blas import daxpy

from adadim.actions import ActionSet
from adadim.backend.arrays import Array
from adadim.backend.rows import Rows
from adadim.posterior.base import Posterior

__all__ = ["HostPosterior"]

LEAST_SHARE = 1e-7  # of a width^2: with less of it left, the rounding of one update is above 1e-9
LOW_SHARE = 1e-4  # below this the number of updates is looked at
FEW = 8  # below this many pulls counting them one by one is quicker than by arrays (measured)


class HostPosterior(Posterior):
    """What the forms on NumPy share; parameters and attributes as in `Posterior`.

    Of the run of equal pulls under way in each replication it keeps g and g^2 as before it, its arm, length and
    stretch.
    """

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        count = actions.replications
        self._g, self._g2 = np.zeros((count, actions.arms)), np.zeros((count, actions.arms))
        self._last, self._run, self._stretch = [-1] * count, [0] * count, [1.0] * count
        self._low, self._factored_at = LOW_SHARE * self.width2, [0] * count

    def answer(self, arms: Array, rewards: Array, rows: Rows) -> None:
        pulls = list(zip(rows.ids.tolist(), arms.tolist(), rewards.tolist(), strict=True))
        if len(pulls) < FEW:
            for r, x, reward in pulls:
                self.counts[r, x] += 1
                self.sums[r, x] += reward
                self.pulls[r] += 1
                self.squares[r] += reward * reward
        else:
            rows.add(self.counts, arms, 1)
            rows.add(self.sums, arms, rewards)
            self.pulls[rows.index] += 1
            self.squares[rows.index] += rewards * rewards
        self._learn(pulls)

    def _learn(self, pulls: list[tuple[int, int, float]]) -> None:
        """Learn from pulls, (replication, arm, reward), that are counted already."""
        last, runs, stretches, logdet, low = self._last, self._run, self._stretch, self.logdet, self._low
        for r, x, reward in pulls:
            g, g2, mean, width2 = self._g[r], self._g2[r], self.mean[r], self.width2[r]
            if x != last[r]:
                self.turn(r, x, runs[r], stretches[r])
                np.multiply(g, g, out=g2)
                last[r], runs[r], stretches[r] = x, 0, 1.0
            before, here = stretches[r], g.item(x)
            after = before + here
            daxpy(g, mean, a=(reward - mean.item(x)) / after)
            daxpy(g2, width2, a=-1.0 / (before * after))
            runs[r] += 1
            stretches[r] = after
            logdet[r] += math.log1p(here / before)
            if width2.item(x) < low.item(r, x):
                np.maximum(width2, 0.0, out=width2)  # with more of it left, rounding cannot take a width below 0
                if self._has_drifted(r, x):
                    self.refactor(r)

    def refactor(self, r: int) -> None:
        """Make the state of replication `r` anew from its counts and sums."""
        row = Rows.some(np.array([r]), self.width2)
        self.rebuild(row.of(self.counts), row.of(self.sums), row, row.of(self.squares))

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        self._g[r], self._last[r], self._run[r], self._stretch[r] = 0.0, -1, 0, 1.0
        self._low[r], self._factored_at[r] = LOW_SHARE * self.width2[r], int(self.pulls[r])

    def _has_drifted(self, r: int, x: int) -> bool:
        since = int(self.pulls[r]) - self._factored_at[r]
        return bool(self.width2.item(r, x) < LEAST_SHARE / LOW_SHARE * math.sqrt(since) * self._low.item(r, x))

    @abstractmethod
    def turn(self, r: int, x: int, run: float, stretch: float) -> None:
        """Fold the finished run into the form's own state and write g of arm `x` into `_g[r]`."""
