"""Every prefix of the features from one Cholesky factor.

Prior: theta_j ~ N(0, sigma^2 / lambda_j) for j <= m and zero after, with lambda_j = ridge j^taper. Divide feature j by
the root of lambda_j, so that the ridge is 1, and let V = I + sum a a^T = L L^T and b = sum r a. The leading m x m block
of L is the factor of the leading block of V. So with z(a) = L^-1 a and w = L^-1 b, for every m at once,

    mean_m(a) = sum_{j<=m} z_j w_j,   width_m^2(a) = sum_{j<=m} z_j^2,   logdet_m = 2 sum_{j<=m} ln L_jj,
    S_m = sum r^2 - sum_{j<=m} w_j^2   (the regularised sum of squared residuals).

A pull of arm x with p = z(a_x) and s_j = 1 + sum_{i<=j} p_i^2 turns every vector L^-1 v into

    z_j <- sqrt(s_{j-1} / s_j) (z_j - (p_j / s_{j-1}) sum_{i<j} p_i z_i),

the same for w after adding r p to it; logdet_m grows by ln s_m and S_m by (r - mean_m(a_x))^2 / s_m, which adds up
without cancellation. No factorisation and no solve.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from adadim.core.arrays import Array, FloatArray, as_numpy, clamp, device_of, is_numpy, like, namespace, zeros
from adadim.core.checks import integer, not_negative, positive
from adadim.core.rows import Rows
from adadim.models.moments import CountsOpenPulls

FEW_FEATURES = 96  # up to which a product of matrices is faster than running sums, which take fewer operations

SMALLEST = 1e-12  # share of the rewards' sum of squares below which a residual is rounding


def prior_precisions(ridge: float, taper: float, dim: int) -> FloatArray:
    """lambda_j = ridge j^taper for j = 1, ..., dim."""
    positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
    return ridge * np.arange(1.0, dim + 1) ** not_negative(taper, "taper")


def log_evidence(logdets: FloatArray, residuals: FloatArray, n: float, squares: float) -> FloatArray:
    """Log evidence of every prefix, up to a constant: -logdet_m / 2 - n/2 ln S_m, with 1/sigma^2 as prior of the noise.

    A residual below rounding of the rewards' sum of squares counts as that; rewards that are all zero say nothing.
    """
    if squares <= 0.0:
        return np.zeros_like(logdets)
    return -0.5 * (logdets + n * np.log(np.maximum(residuals, SMALLEST * squares)))


def prefix_regressions(gram: Array, moments: Array, squares: Array, weights: Array) -> tuple[Array, ...]:
    """L, w, logdet_m and S_m from X^T X, X^T r and sum r^2, with feature j multiplied by ``weights[j]``."""
    xp = namespace(gram)
    scaled = weights[:, None] * gram * weights
    factor = _lower_factor(scaled + xp.eye(len(weights), dtype=xp.float64, device=device_of(gram)))
    w = forward_solve(factor, (weights * moments)[:, None])[:, 0]
    logdets = 2.0 * xp.cumulative_sum(xp.log(xp.linalg.diagonal(factor)), axis=-1)
    return factor, w, logdets, clamp(squares - xp.cumulative_sum(w**2, axis=-1), 0.0)


def averaged_arms(z: FloatArray, w: FloatArray, chances: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Averages over d* for every arm: the mean, and its squared widths within and between the prefixes.

    z is (m, K), P(d* = j) is (m,), and w is (m,), or (m, K) if each arm has a regression of its own.
    """
    tail = np.cumsum(chances[::-1])[::-1]
    steps = z * (w[:, None] if w.ndim == 1 else w)
    mean = (tail * w) @ z if w.ndim == 1 else tail @ steps
    spread = (triangle(len(w), 0) - tail) @ steps if len(w) <= FEW_FEATURES else running_sums(steps) - mean
    spread *= spread
    return mean, tail @ (z * z), chances @ spread


@lru_cache
def triangle(size: int, diagonal: int) -> FloatArray:
    """Ones on and below a diagonal; to be read only."""
    return np.tri(size, k=diagonal)


def running_sums(steps: FloatArray) -> FloatArray:
    """Running sums over the features of (d, K), in place and row by row, ten times as fast as NumPy's own."""
    for j in range(1, len(steps)):
        steps[j] += steps[j - 1]
    return steps


def turn_one(
    columns: FloatArray, w: FloatArray, residuals: FloatArray, logdets: FloatArray, p: FloatArray, reward: float
) -> None:
    """Learn from a pull with p = z(a_x), in place; the columns (d, C) are multiplied as L^-1 is."""
    sums = np.empty((2, len(p) + 1))
    sums[0, 0], sums[1, 0] = 1.0, -reward
    np.multiply(p, p, out=sums[0, 1:])
    np.multiply(p, w, out=sums[1, 1:])
    s, surprise = np.cumsum(sums, axis=1)  # s_0, ..., s_d, and the prefixes' means less the reward
    before, s = s[:-1], s[1:]
    logdets += np.log(s)
    shrink, pull = np.sqrt(before / s), p / before
    w -= pull * surprise[:-1]  # adding r p and taking off its running sum leaves this
    w *= shrink
    surprise = surprise[1:]
    residuals += surprise * surprise / s
    if len(p) <= FEW_FEATURES:
        matrix = triangle(len(p), -1) * (-shrink * pull)[:, None] * p
        matrix.flat[:: len(p) + 1] = shrink
        columns[:] = matrix @ columns
        return
    running = running_sums(columns[:-1] * p[:-1, None])
    running *= pull[1:, None]
    columns[1:] -= running
    columns *= shrink[:, None]


class FactoredRegression(CountsOpenPulls):
    """A regression that keeps L^-1 (`inverse`) and L^-1 b (`w`), for features times `weights`."""

    weights: Any = 1.0
    inverse: Array
    w: Array

    def predict(self, features: Array, rows: Rows) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered, (n, K); open pulls count in the width."""
        xp = namespace(features)
        turned = xp.matrix_transpose(features * self.weights)
        z = xp.matmul(rows.of(self.inverse), turned)
        mean = xp.sum(z * rows.of(self.w)[:, :, None], axis=1)
        if self.asked is not None:
            z = xp.matmul(rows.of(self.asked.inverse), turned)
        return mean, xp.sum(z * z, axis=1)

    def predict_each(self, contexts: Array, rows: Rows, count: int) -> tuple[Array, Array]:
        """Mean and squared width, (n, count), of contexts (n, d) in each of the `count` regressions of every row."""
        x = namespace(contexts).stack([contexts] * count, axis=1).reshape(-1, 1, contexts.shape[-1])
        regressions = Rows.some((rows.ids[:, None] * count + np.arange(count)).ravel(), self.w)
        mean, width2 = self.predict(x, regressions)
        return mean.reshape(len(rows), -1), width2.reshape(len(rows), -1)


class ContextFactor(FactoredRegression):
    """Every prefix where arms change from round to round: W = L^-1, O(d^2) a pull, for features times `weights` (d,).

    `inverse` (R, d, d) is W; `w`, `logdets` and `residuals` are (R, d), `squares` (of rewards) and `pulls` (R,).
    """

    def __init__(self, reference: Array, dim: int, ridge: float) -> None:
        self.xp, self.dim = namespace(reference), integer(dim, "dim", meaning="the number of features")
        self.reference, self.everyone, self.ridge = reference, Rows.all(reference), ridge
        self.weights = like(prior_precisions(ridge, 0.0, dim) ** -0.5, reference)
        count = len(reference)
        self.w, self.logdets, self.residuals = (zeros(reference, count, dim) for _ in range(3))
        self.squares, self.pulls = zeros(reference, count), zeros(reference, count, integers=True)
        self.first, self.total = zeros(reference, count, dim), zeros(reference, count)  # sum x and sum r
        self.inverse = zeros(reference, count, dim, dim)
        self.inverse[:, range(dim), range(dim)] = 1.0

    def whiten(self, features: Array) -> Array:
        """z(a) of arms (R, K, d), as (R, d, K)."""
        return self.xp.matmul(self.inverse, self.xp.matrix_transpose(features * self.weights))

    def without_rewards(self) -> ContextFactor:
        factor = ContextFactor(self.reference, self.dim, self.ridge)
        factor.inverse[...], factor.logdets[...], factor.pulls[...] = self.inverse, self.logdets, self.pulls
        return factor

    def answer(self, features: Array, rewards: Array, rows: Rows) -> None:
        """Learn from the features (n, d) and reward of one pull in each replication of `rows`."""
        xp, scaled, ids = self.xp, features * self.weights, rows.positions
        if is_numpy(self.inverse):
            p = (rows.of(self.inverse) @ scaled[:, :, None])[..., 0]
            for r, one, reward in zip(ids.tolist(), p, rewards.tolist(), strict=True):
                turn_one(self.inverse[r], self.w[r], self.residuals[r], self.logdets[r], one, reward)
            self.squares[ids] += rewards * rewards
            self.pulls[ids] += 1
            self.first[ids] += scaled
            self.total[ids] += rewards
            return
        wide = zeros(self.reference, len(self.reference), self.dim).index_copy_(0, ids, scaled)
        masked, rewards = rows.masked(rewards)
        # Where p and the reward are zero nothing changes.
        self._turn(xp.matmul(self.inverse, wide[:, :, None])[..., 0], rewards * masked.mask)
        self.squares += masked.mask * rewards * rewards
        self.pulls += masked.mask
        self.first += wide
        self.total += masked.mask * rewards

    def _turn(self, p: Array, rewards: Array) -> None:
        """`turn_one` in all replications at once (torch)."""
        xp = self.xp
        s = 1.0 + xp.cumulative_sum(p * p, axis=-1)
        before = xp.concat([xp.ones_like(s[:, :1]), s[:, :-1]], axis=-1)  # s_{j-1}, as it is: no difference to round
        surprise = rewards[:, None] - xp.cumulative_sum(p * self.w, axis=-1)
        self.residuals += surprise * surprise / s
        self.logdets += xp.log(s)
        shrink, pull = xp.sqrt(before / s), p / before
        w = self.w + rewards[:, None] * p
        w[:, 1:] -= pull[:, 1:] * xp.cumulative_sum(p * w, axis=-1)[:, :-1]
        self.w.copy_(shrink * w)
        running = xp.cumulative_sum(p[:, :-1, None] * self.inverse[:, :-1], axis=1)
        self.inverse[:, 1:].addcmul_(pull[:, 1:, None], running, value=-1.0)
        self.inverse.mul_(shrink[:, :, None])

    def moments(self, r: int) -> tuple[Array, Array]:
        """X^T X and X^T r of one replication, on NumPy, for features times `weights`."""
        lower = np.linalg.inv(as_numpy(self.inverse[r]))
        return lower @ lower.T - np.eye(self.dim), lower @ as_numpy(self.w[r])

    def rebuild(self, gram: Array, moments: Array, squares: Array, pulls: Array, rows: Rows) -> None:
        """Set the replications of `rows` to what X^T X, X^T r, sum r^2 and n determine."""
        identity = self.xp.eye(self.dim, dtype=self.xp.float64, device=device_of(self.inverse))
        for i, r in enumerate(rows.ids.tolist()):
            factor, self.w[r], self.logdets[r], self.residuals[r] = prefix_regressions(
                gram[i], moments[i], squares[i], self.weights
            )
            self.inverse[r] = forward_solve(factor, identity)
            self.squares[r], self.pulls[r] = squares[i], pulls[i]


def forward_solve(factor: Array, right: Array) -> Array:
    """L^-1 B for a lower triangular L."""
    if is_numpy(factor):
        return solve_triangular(factor, right, lower=True)
    return namespace(factor).linalg.solve_triangular(factor, right, upper=False)


def _lower_factor(matrix: Array) -> Array:
    """Cholesky factor of a matrix I + X^T X, even where huge features have rounded the identity away."""
    xp = namespace(matrix)
    try:
        return xp.linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError):  # NumPy's error and torch's
        spectrum, basis = xp.linalg.eigh(matrix)
        root = xp.matrix_transpose(basis * xp.sqrt(clamp(spectrum, 1.0)))
        upper = xp.linalg.qr(root)[1]
        diagonal = xp.linalg.diagonal(upper)
        lower = xp.matrix_transpose(upper * xp.where(diagonal < 0, -1.0, 1.0)[:, None])
        at = range(len(diagonal))
        lower[at, at] = clamp(xp.abs(diagonal), 1.0)  # as it is in exact arithmetic
        return lower
