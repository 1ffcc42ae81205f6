"""Predictions averaged over the number of features that matter, with the ridge learned (NumPy, one replication).

After 1, 2, 4, 8, ... pulls the evidence of every prefix under every ridge is found anew from counts and sums. Between
them only the prefixes that have not been ruled out are kept up to date, so that a pull costs O(K d*) once d* is found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from adadim.actions import ActionSet
from adadim.posterior.factor import SMALLEST, ArmFactor, forward_solve, log_evidence, prior_precisions
from adadim.posterior.regressions import ManyFeatures, regressions

__all__ = ["AveragedPrefixes", "prefix_evidences"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

NEGLIGIBLE = 1e-3  # chance that a feature matters below which it is left out until the next stock


def prefix_evidences(
    gram: FloatArray, moments: FloatArray, squares: float, pulls: int, ridges: FloatArray, taper: float
) -> FloatArray:
    """Log evidence of every prefix under every ridge, (ridges, d), up to one constant, from X^T X, X^T r and sum r^2.

    Examples
    --------
    >>> import numpy as np
    >>> prefix_evidences(np.eye(2), np.array([1.0, 0.0]), 1.5, 3, np.array([1.0, 10.0]), taper=0.0).round(3)
    array([[-0.347, -0.693],
           [-0.562, -0.61 ]])
    """
    dim = len(gram)
    logdets, residuals = np.zeros((len(ridges), dim)), np.zeros((len(ridges), dim))
    for i, ridge in enumerate(ridges.tolist()):
        weights = prior_precisions(ridge, taper, dim) ** -0.5
        factor = np.linalg.cholesky(weights[:, None] * gram * weights + np.eye(dim))
        w = forward_solve(factor, weights * moments)
        logdets[i] = 2.0 * np.cumsum(np.log(np.diag(factor)))
        residuals[i] = squares - np.cumsum(w * w)
    shared = np.full(len(ridges), float(pulls)), np.full(len(ridges), squares)
    return np.asarray(log_evidence(logdets, residuals, *shared))


class AveragedPrefixes:
    """Regressions on all prefixes of the features of fixed arms, weighed by how likely each is.

    Parameters
    ----------
    arms : array (K, d)
        Features.
    ridges : array
        Ridges to choose from, rising: of those not ruled out by the Bayes factor the smallest is used.
    factor : float
        Bayes factor that rules a ridge out.
    taper : float
        The prior precision of feature j (over sigma^2) is ridge j^taper.
    decay : float
        The prior of d* is m^-decay, up to a constant.

    Attributes
    ----------
    chances : array (active,)
        P(d* = m) of the prefixes that are kept up to date; the last stands for all longer ones too.
    noise2 : float
        Estimate of the noise variance, averaged over the prefixes; not a number before the first stock.
    total : float
        Log of the evidence summed over prefixes and ridges, as of the last stock.
    """

    def __init__(self, arms: FloatArray, ridges: FloatArray, factor: float, taper: float, decay: float) -> None:
        self.arms, self.ridges, self.bayes_factor, self.taper = arms, ridges, factor, taper
        prior = -decay * np.log(np.arange(1.0, arms.shape[1] + 1))
        self.prior = prior - np.logaddexp.reduce(prior)
        self.counts, self.sums = np.zeros(len(arms), dtype=np.int64), np.zeros(len(arms))
        self.pulls, self.squares, self.total, self.noise2 = 0, 0.0, 0.0, math.nan
        self.open = np.zeros(len(arms), dtype=np.int64)  # pulls of each arm whose rewards are not known yet
        self.asked: ManyFeatures | None = None  # the regressions over all pulls, those among them, without rewards
        self._keep(arms.shape[1], float(ridges[0]))

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make the factors of as many features as a saved state has."""
        self._keep(saved["active"], saved["ridge"])
        if saved.get("asked") is not None:
            self._count_open()

    def _keep(self, active: int, ridge: float) -> None:
        """Keep the first `active` features up to date, from all that was seen."""
        self.active, self.ridge = active, ridge
        self.regressions = self._regressions(self.counts, self.sums, self.squares)
        if self.asked is not None:
            self._count_open()
        self._weigh()

    def _regressions(self, counts: Any, sums: FloatArray, squares: float) -> ManyFeatures:
        factor = ArmFactor(ActionSet(self.arms[:, : self.active]), self.ridge, self.taper)
        factor.rebuild(counts[None], sums[None], np.array([squares]), factor.everyone)
        return regressions(factor.z[0], factor.w[0], factor.logdets[0], factor.residuals[0])

    def _count_open(self) -> None:
        self.asked = self._regressions(self.counts + self.open, self.sums * 0.0, 0.0)

    def _weigh(self) -> None:
        n, least = self.pulls, SMALLEST * self.squares
        logs, residuals = self.prior[: self.active], self.regressions.residuals
        if least:  # `log_evidence`, of one replication: this is done every round
            logs = logs - 0.5 * (self.regressions.logdets + n * np.log(np.maximum(residuals, least)))
        chances = np.exp(logs - logs.max())
        self.chances = chances / chances.sum()
        if n:
            residual = max(float(self.chances @ residuals), least)
            self.noise2 = residual / n * (1 + math.sqrt(2 / n))

    def expect(self, arm: int) -> None:
        """Count a pull whose reward is not known yet."""
        self.open[arm] += 1
        if self.asked is None:
            self._count_open()
        else:
            self.asked.absorb(arm, 0.0)

    def drop_expected(self) -> None:
        """Count only the pulls that are answered."""
        self.open[:], self.asked = 0, None

    def absorb(self, arm: int, reward: float) -> None:
        """Learn from a pull that nothing is known of yet."""
        if self.asked is not None:
            self.expect(arm)
            self.answer(arm, reward)
        else:
            self._learn(arm, reward)

    def answer(self, arm: int, reward: float) -> None:
        """Learn the reward of a pull that `expect` has counted."""
        self.open[arm] -= 1
        self._learn(arm, reward)

    def _learn(self, arm: int, reward: float) -> None:
        self.regressions.absorb(arm, reward)
        self.pulls += 1
        self.counts[arm] += 1
        self.sums[arm] += reward
        self.squares += reward * reward
        if self.pulls & (self.pulls - 1) == 0 and self.squares > 0:
            self._take_stock()
        else:
            self._weigh()

    def _take_stock(self) -> None:
        pulled = np.flatnonzero(self.counts)
        features, counts = self.arms[pulled], self.counts[pulled]
        gram, moments = features.T @ (counts[:, None] * features), features.T @ self.sums[pulled]
        logs = prefix_evidences(gram, moments, self.squares, self.pulls, self.ridges, self.taper) + self.prior
        by_ridge = np.logaddexp.reduce(logs, axis=1)
        self.total = float(np.logaddexp.reduce(by_ridge)) - math.log(len(self.ridges))
        chosen = int(np.argmax(by_ridge >= by_ridge.max() - math.log(self.bayes_factor)))
        chances = np.exp(logs[chosen] - by_ridge[chosen])
        tail = np.cumsum(chances[::-1])[::-1]
        self._keep(max(1, int((tail > NEGLIGIBLE).sum())), float(self.ridges[chosen]))

    def predict(self, noise2: float) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of every arm, over d* and the parameters, given the variance of the noise.

        What is open counts in the variance of the parameters given d*, not in how far the prefixes disagree.
        """
        if self.asked is None:
            return self.regressions.predict(self.chances, noise2)
        mean, between = self.regressions.predict(self.chances, 0.0)
        return mean, between + noise2 * self.asked.within(self.chances)

    def drawn(self, uniform: float, normals: FloatArray, deviation: float) -> FloatArray:
        """Means of the arms under parameters drawn from the posterior, `deviation` the noise times a factor."""
        last = min(int(np.searchsorted(np.cumsum(self.chances), uniform, side="right")) + 1, self.active)
        if self.asked is None:
            return self.regressions.combine(self.regressions.w[:last] + deviation * normals[:last])
        mean = self.regressions.combine(self.regressions.w[:last])
        return mean + self.asked.combine(deviation * normals[:last])
