"""The regressions of one replication on all prefixes of the features of fixed arms: few features or many (NumPy).

With many, Z = L^-1 A^T is kept up to date, O(m K) a pull. With few, Z stays as it was at the start, Z_0, and L = L_0 M:
a pull turns only M^-1, (m, m), and a decision costs one product with Z_0. The equations are those of `factor`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adadim.posterior.prefix_rows import FEW, averaged_arms, triangle, turn_one

__all__ = ["FewFeatures", "ManyFeatures", "averaging_rows", "regressions"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


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
