"""The prior that features stop mattering: after the first d*, whose posterior the predictions are averaged over.

All prefixes come from one Cholesky factor (see `sums`): with z = L^-1 a and w = L^-1 b the mean of an arm given d* = m
is sum_{j<=m} z_j w_j and its variance sigma^2 sum_{j<=m} z_j^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from adadim.core.arrays import Array, FloatArray
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.models.context import stacked
from adadim.models.parts import Prediction
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
    learns = needs_sums = True

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

    def prediction(self, offer: Any) -> PrefixAverage:
        return PrefixAverage(offer, self)

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


class PrefixAverage(Prediction):
    """Means and variances of arms averaged over d*.

    Attributes
    ----------
    size : int array (R,)
        Number of leading columns in use.
    """

    offer: Any

    def __init__(self, offer: Any, prior: PrefixPrior) -> None:
        self.offer, self.prior, self.size = offer, prior, np.full(len(offer.problem), offer.dim)

    def check_restored(self) -> None:
        """Refuse numbers of columns that are not there."""
        check_positions(self, size=self.offer.dim + 1)

    def follow(self, r: int, belief: Belief) -> None:
        self.size[r] = belief.size or self.offer.dim

    def dim_posterior(self, r: int) -> tuple[FloatArray, float]:
        """P(d* = m) of the prefixes in use, and the variance of the noise; factorises the sums."""
        offer, state, size = self.offer, self.offer.regression, int(self.size[r])
        at = slice(r * offer.blocks, (r + 1) * offer.blocks)
        for block in range(at.start, at.stop):
            state.factorise_leading(block, size)
        diagonals = np.diagonal(state.inverse[at], axis1=1, axis2=2)[:, :size]  # 1 / L_jj
        logdets = -2.0 * np.cumsum(np.log(diagonals), axis=1).sum(axis=0)
        logdets -= offer.blocks * math.log(state.ridge[at.start]) * np.arange(1, size + 1)
        squares = float(state.squares[at].sum())
        residuals = np.maximum(squares - np.cumsum(state.w[at, :size] ** 2, axis=1).sum(axis=0), 0.0)
        return self.prior.posterior(logdets, residuals, float(state.pulls[at].sum()), squares)

    def _whitened(self, r: int, offered: Array, size: int, counted: bool) -> Array:
        """z (size, K) of what is offered to a replication; with `counted`, pending pulls count too."""
        offer, state = self.offer, self.offer.regression
        state = state.pending if counted and state.pending is not None else state
        at = slice(r * offer.blocks, (r + 1) * offer.blocks)
        z = state.inverse[at, :size, :size] @ offered.reshape(-1, offer.dim)[:, :size].T
        return np.asarray(z.transpose(1, 0, 2).reshape(size, -1))

    def predict(self, rows: Replications) -> tuple[Array, Array]:
        offer, state, predicted = self.offer, self.offer.regression, []
        for r, x in zip(rows.ids.tolist(), offer.offered_inputs(rows), strict=True):
            probabilities, noise2 = self.dim_posterior(r)
            size, at = len(probabilities), slice(r * offer.blocks, (r + 1) * offer.blocks)
            z = self._whitened(r, x, size, counted=False)
            counted = z if state.pending is None else self._whitened(r, x, size, counted=True)
            w = state.w[r, :size] if offer.blocks == 1 else state.w[at, :size].T
            predicted.append(average(z, w, probabilities, noise2 if noise2 > 0 else 1.0, counted))
        return stacked(predicted)

    def sample_means(self, rows: Replications, generators: Sequence[np.random.Generator], scale: float) -> Array:
        """Means of the arms (n, K) under d* and parameters drawn from their posterior, `scale` times as wide."""
        offer, state, means = self.offer, self.offer.regression, []
        for r, x in zip(rows.ids.tolist(), offer.offered_inputs(rows), strict=True):
            probabilities, noise2 = self.dim_posterior(r)
            last = drawn_length(probabilities, generators[r].random())
            normals = generators[r].standard_normal((offer.blocks, offer.dim))[:, :last].T
            at = slice(r * offer.blocks, (r + 1) * offer.blocks)
            drawn = scale * math.sqrt(noise2 if noise2 > 0 else 1.0) * normals
            z, counted = (self._whitened(r, x, last, counted) for counted in (False, True))
            means.append((z * state.w[at, :last].T + counted * drawn).sum(axis=0))
        return np.array(means)

    def describe(self, r: int) -> dict[str, Any]:
        probabilities, noise2 = self.dim_posterior(r)
        return {
            "dim": int(np.argmax(probabilities)) + 1,
            "features_in_use": len(probabilities),
            "noise": None if math.isnan(noise2) else math.sqrt(noise2),
        }


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
