"""Predictions averaged over the number of features that matter, with the ridge learned (NumPy, one replication).

After 1, 2, 4, 8, ... pulls the evidence of every prefix under every ridge is found anew from counts and sums. Between
them only the prefixes that have not been ruled out are kept up to date, so that a pull costs O(K d*) once d* is found.

With many features, Z = L^-1 A^T is kept up to date, O(m K) a pull. With few, Z stays as it was at the start, Z_0, and L
= L_0 M: a pull turns only M^-1, (m, m), and a decision costs one product with Z_0. The equations are those of `factor`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from adadim.core.actions import ActionSet
from adadim.core.arrays import FloatArray
from adadim.models.factor import (
    FEW,
    SMALLEST,
    ArmFactor,
    averaged_arms,
    forward_solve,
    log_evidence,
    prior_precisions,
    triangle,
    turn_one,
)


class ManyFeatures:
    """Regressions on all prefixes of m features.

    Parameters
    ----------
    z : array (m, K)
        L^-1 a of every arm at the start.
    w, logdets, residuals : array (m,)
        As in `PrefixFactor`; kept up to date in place.
    """

    def __init__(self, z: FloatArray, w: FloatArray, logdets: FloatArray, residuals: FloatArray) -> None:
        self.z, self.w, self.logdets, self.residuals = z, w, logdets, residuals

    def absorb(self, arm: int, reward: float) -> None:
        """Learn from a pull."""
        turn_one(self.z, self.w, self.residuals, self.logdets, self.z[:, arm].copy(), reward)

    def predict(self, chances: FloatArray, noise2: float) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of every arm, averaged over d*, given P(d* = m), (m,), and the variance of the noise."""
        mean, within, between = averaged_arms(self.z, self.w, chances)
        return mean, noise2 * within + between

    def within(self, chances: FloatArray) -> FloatArray:
        """Squared width of every arm, averaged over d*."""
        z = self.rows_of_arms()
        return np.asarray(np.cumsum(chances[::-1])[::-1] @ (z * z))

    def rows_of_arms(self) -> FloatArray:
        """Z, (m, K)."""
        return self.z

    def combine(self, weights: FloatArray) -> FloatArray:
        """Sum of the first rows of Z times weights, one value for every arm."""
        return np.asarray(weights @ self.z[: len(weights)])


class FewFeatures(ManyFeatures):
    """The same, where m is so small that a product of (m, m) and (m, K) matrices costs little."""

    def __init__(self, z: FloatArray, w: FloatArray, logdets: FloatArray, residuals: FloatArray) -> None:
        super().__init__(z, w, logdets, residuals)
        self.turned = np.eye(len(w))  # M^-1

    def absorb(self, arm: int, reward: float) -> None:
        turn_one(self.turned, self.w, self.residuals, self.logdets, self.turned @ self.z[:, arm], reward)

    def predict(self, chances: FloatArray, noise2: float) -> tuple[FloatArray, FloatArray]:
        count = len(chances)
        half = (count + 1) // 2
        rows = averaging_rows(self.w, chances, noise2) @ self.turned  # but for the last, lower triangular as both are
        seen = np.empty((count + 1, self.z.shape[1]))
        np.matmul(rows[:half, :half], self.z[:half], out=seen[:half])
        np.matmul(rows[half:], self.z, out=seen[half:])
        mean, deviations = seen[count], seen[:count]
        deviations *= deviations
        return mean, np.ones(count) @ deviations

    def rows_of_arms(self) -> FloatArray:
        return np.asarray(self.turned @ self.z)

    def combine(self, weights: FloatArray) -> FloatArray:
        return np.asarray((weights @ self.turned[: len(weights)]) @ self.z)


def regressions(z: FloatArray, w: FloatArray, logdets: FloatArray, residuals: FloatArray) -> ManyFeatures:
    """Regressions on all prefixes, in the form that is faster for so many features."""
    kind = FewFeatures if len(w) <= FEW else ManyFeatures
    return kind(z, w, logdets, residuals)


def averaging_rows(w: FloatArray, chances: FloatArray, noise2: float) -> FloatArray:
    """Rows (m + 1, m): R, lower triangular, and q, such that over d* and theta an arm has variance |R z|^2, mean q z.

    Given d* = m the mean of an arm is sum_{j<=m} w_j z_j, its variance noise2 sum_{j<=m} z_j^2. Let t_j = P(d* >= j),
    the tail, so that q_j = t_j w_j. As 1[d* >= i] and 1[d* >= j] have covariance (1 - t_i) t_j for i <= j, the variance
    is z^T H z with

        H_ij = w_i (1 - t_i) w_j t_j  for i < j,    H_jj = noise2 t_j + w_j^2 (1 - t_j) t_j.

    H = R^T R has a root as simple, R_jj = root_j and R_ji = gain_j w_i (1 - t_i) for i < j, found from the last feature
    to the first: with rest_j = t_j - (1 - t_j) sum_{k>j} gain_k^2,

        root_j^2 = noise2 t_j + w_j^2 (1 - t_j) rest_j,    gain_j = w_j rest_j / root_j.

    Examples
    --------
    >>> import numpy as np
    >>> rows = averaging_rows(np.array([3.0, 2.0]), np.array([0.75, 0.25]), noise2=0.5)
    >>> (rows[:2].T @ rows[:2]).round(3)  # 0.5 and 0.5 / 4 by the noise; the second mean is 2 away with a chance of 1/4
    array([[0.5  , 0.   ],
           [0.   , 0.875]])
    >>> rows[2]
    array([3. , 0.5])
    """
    count, tail = len(w), np.cumsum(chances[::-1])[::-1]
    short = np.zeros_like(w)  # 1 - tail, summed up so that nothing cancels
    np.cumsum(chances[:-1], out=short[1:])
    roots, gains, total = [], [], 0.0
    for weight, t, left in zip(w[::-1].tolist(), tail[::-1].tolist(), short[::-1].tolist(), strict=True):
        rest = max(t - left * total, 0.0)
        root = math.sqrt(noise2 * t + weight * weight * left * rest)
        gain = weight * rest / root if root and left else 0.0  # nobody asks for it where all shorter ones are ruled out
        total += gain * gain
        roots.append(root)
        gains.append(gain)
    rows = np.empty((count + 1, count))
    np.multiply(np.array(gains[::-1])[:, None], w * short, out=rows[:count])
    rows[:count] *= triangle(count, -1)
    rows.flat[: count * count : count + 1] = roots[::-1]
    np.multiply(tail, w, out=rows[count])
    return rows


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
