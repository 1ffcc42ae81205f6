"""The prior that features stop mattering: after the first d*, whose posterior the predictions are averaged over.

All prefixes come from one Cholesky factor (see `sums`): with z = L^-1 a and w = L^-1 b the mean of an arm given d* = m
is sum_{j<=m} z_j w_j and its variance sigma^2 sum_{j<=m} z_j^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from adadim.core.arrays import FloatArray
from adadim.models.priors import MIN_RESIDUAL_SHARE, RELATIVE_RIDGES, Belief, Prior, log_evidence, taper_weights
from adadim.models.statistics import ArmSums, Moments, QuadraticForm
from adadim.models.sums import unit_factor

COARSE_RIDGES = RELATIVE_RIDGES[::2]
NEGLIGIBLE = 1e-3  # probability that a feature matters below which it is left out


@dataclass(frozen=True)
class PrefixPrior(Prior):
    """P(d* = m) is m^-decay beforehand, up to a constant; within a prefix the ridge is lambda j^taper, lambda learned.

    Of the ridges whose evidence, summed over the prefixes, is within a Bayes factor of the largest, the smallest is
    taken. Where several parameters share the prior, they share d* and the noise.
    """

    factor: float
    taper: float = 0.0
    decay: float = 0.0
    learns = True

    def __call__(self, data: Sequence[Moments | ArmSums], longest: float, units: FloatArray, pending: float) -> Belief:
        n, squares = sum(one.n for one in data), sum(one.squares for one in data)
        weights = taper_weights(self.taper, len(units)) / units
        if not squares > 0:
            return Belief(float(COARSE_RIDGES[0]) * longest, weights, evidence=np.zeros((1, len(COARSE_RIDGES))))
        forms = [one.form(weights, False, 0.0) for one in data]
        ridges = COARSE_RIDGES * longest
        logs = np.array([_prefix_evidence(forms, squares, n, ridge) for ridge in ridges]) + self.log_prior(len(units))
        by_ridge = np.logaddexp.reduce(logs, axis=1)
        chosen = int(np.argmax(by_ridge >= by_ridge.max() - math.log(self.factor)))
        tail = np.cumsum(np.exp(logs[chosen] - by_ridge[chosen])[::-1])[::-1]
        size = max(1, int((tail > NEGLIGIBLE).sum()))
        return Belief(float(ridges[chosen]), weights, evidence=by_ridge[None], size=size)

    def log_prior(self, dim: int) -> FloatArray:
        """ln P(d* = m) beforehand, (dim,)."""
        prior = -self.decay * np.log(np.arange(1.0, dim + 1))
        return np.asarray(prior - np.logaddexp.reduce(prior))

    def posterior(
        self, logdets: FloatArray, residuals: FloatArray, n: float, squares: float
    ) -> tuple[FloatArray, float]:
        """P(d* = m | data) of the prefixes in use, and the variance of the noise over them, plus one standard error.

        The variance is NaN before the first pull.
        """
        logs = self.log_prior(len(logdets)) + log_evidence(logdets, residuals, n, squares)
        probabilities = np.exp(logs - logs.max())
        probabilities /= probabilities.sum()
        if not n:
            return probabilities, math.nan
        residual = max(float(probabilities @ residuals), MIN_RESIDUAL_SHARE * squares)
        return probabilities, residual / n * (1 + math.sqrt(2 / n))


def _prefix_evidence(forms: Sequence[QuadraticForm], squares: float, n: float, ridge: float) -> FloatArray:
    """Log evidence of every prefix, (d,), under one ridge."""
    logdets, explained = np.zeros(len(forms[0].b)), np.zeros(len(forms[0].b))
    for gram, b, _ in forms:
        factor, w = prefix_factor(gram, b, ridge)
        logdets += 2.0 * np.cumsum(np.log(np.diag(factor))) - math.log(ridge) * np.arange(1, len(b) + 1)
        explained += np.cumsum(w * w)
    return log_evidence(logdets, squares - explained, n, squares)


def prefix_factor(gram: FloatArray, b: FloatArray, ridge: float) -> tuple[FloatArray, FloatArray]:
    """Factor L of ridge I + gram, and w = L^-1 b."""
    units, factor = unit_factor(gram[None], np.array([ridge]))
    factor = units[0][:, None] * factor[0]
    return factor, solve_triangular(factor, b, lower=True)


def average(
    z: FloatArray, w: FloatArray, probabilities: FloatArray, noise2: float, counted: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of every arm, (K,), over d* and the parameters.

    z is (m, K), P(d* = j) is (m,), and w is (m,), or (m, K) if each arm has a parameter of its own; `counted` is z of
    the regression that counts pending pulls too, which enter the variance given d*, not that between prefixes.
    """
    tail = np.cumsum(probabilities[::-1])[::-1]
    steps = z * (w[:, None] if w.ndim == 1 else w)
    mean = tail @ steps
    spread = np.cumsum(steps, axis=0) - mean
    return mean, noise2 * (tail @ (counted * counted)) + probabilities @ (spread * spread)


def drawn_length(probabilities: FloatArray, uniform: float) -> int:
    """A length of the prefix drawn with these probabilities, by a uniform random number."""
    return min(int(np.searchsorted(np.cumsum(probabilities), uniform, side="right")) + 1, len(probabilities))
