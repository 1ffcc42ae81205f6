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

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, as_numpy, clamp, device_of, is_numpy, like, namespace, zeros
from adadim.core.checks import integer, not_negative, positive
from adadim.core.rows import Rows
from adadim.models.late import CountsOpenPulls

FEW = 96  # features up to which a product of matrices is faster than running sums, which take fewer operations


def averaged_arms(z: Array, w: Array, chances: Array) -> tuple[Array, Array, Array]:
    """`ArmFactor.averaged` of one replication (NumPy): z (d, K), w (d,) and P(d* = m), (d,)."""
    tail = np.cumsum(chances[::-1])[::-1]
    mean = (tail * w) @ z
    if len(w) <= FEW:
        spread = ((triangle(len(w), 0) - tail) * w) @ z
    else:
        spread = running_sums(z * w[:, None])
        spread -= mean
    spread *= spread
    return mean, tail @ (z * z), chances @ spread


@lru_cache
def triangle(size: int, diagonal: int) -> Array:
    """Ones on and below a diagonal; to be read only."""
    return np.tri(size, k=diagonal)


def running_sums(steps: Array) -> Array:
    """Running sums over the features of (..., d, K); on NumPy in place, row by row, ten times as fast as its own."""
    if not is_numpy(steps):
        return namespace(steps).cumulative_sum(steps, axis=-2)
    for j in range(1, steps.shape[-2]):
        steps[..., j, :] += steps[..., j - 1, :]
    return steps


def turn_one(columns: Array, w: Array, residuals: Array, logdets: Array, p: Array, reward: float) -> None:
    """`PrefixFactor.turn` of one replication, in place (NumPy)."""
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
    _turn_rows(columns, p, pull, shrink)


def _turn_rows(columns: Array, p: Array, pull: Array, shrink: Array) -> None:
    """Turn the columns (d, C) of one replication in place (NumPy)."""
    if len(p) <= FEW:
        matrix = triangle(len(p), -1) * (-shrink * pull)[:, None] * p
        matrix.flat[:: len(p) + 1] = shrink
        columns[:] = matrix @ columns
        return
    running = running_sums(columns[:-1] * p[:-1, None])
    running *= pull[1:, None]
    columns[1:] -= running
    columns *= shrink[:, None]


SMALLEST = 1e-12  # share of the rewards' sum of squares below which a residual is rounding


def prior_precisions(ridge: float, taper: float, dim: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """lambda_j = ridge j^taper for j = 1, ..., dim.

    Examples
    --------
    >>> prior_precisions(0.5, 1.0, 3)
    array([0.5, 1. , 1.5])
    """
    positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
    return ridge * np.arange(1.0, dim + 1) ** not_negative(taper, "taper")


def log_evidence(logdets: Array, residuals: Array, pulls: Array, squares: Array) -> Array:
    """Log evidence of every prefix, up to a constant that all share: -logdet_m / 2 - n/2 ln S_m.

    The noise variance is integrated out under the prior 1/sigma^2. A residual below rounding of the rewards' sum of
    squares counts as that; rewards that are all zero say nothing.

    Parameters
    ----------
    logdets, residuals : array (..., d)
        ln det(V_m / Lambda_m) and S_m.
    pulls, squares : array (...)
        Number of pulls n and sum of squared rewards.

    Examples
    --------
    >>> import numpy as np
    >>> log_evidence(np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.array(4), np.array(3.0))
    array([-0.5, -1.5])
    """
    xp = namespace(logdets)
    lowest = SMALLEST * squares[..., None]
    kept = xp.where(residuals > lowest, residuals, lowest)
    silent = squares[..., None] <= 0.0
    logs = -0.5 * (logdets + pulls[..., None] * xp.log(xp.where(silent, xp.ones_like(kept), kept)))
    return xp.where(silent, xp.zeros_like(logs), logs)


class PrefixFactor:
    """What both forms share: the regression of every prefix, and its update by a pull.

    Parameters
    ----------
    reference : array (R, ...)
        An array of the library and on the device to use; its first axis counts replications.
    dim : int
        Number of features d.
    ridge, taper : float
        The prior precisions (over sigma^2) are ridge j^taper.

    Attributes
    ----------
    w : array (R, d)
        L^-1 b.
    logdets : array (R, d)
        ln det(V_m / Lambda_m) for m = 1, ..., d.
    residuals : array (R, d)
        S_m.
    squares, pulls : array (R,)
        Sum of squared rewards, and how many there were.
    """

    def __init__(self, reference: Array, dim: int, ridge: float, taper: float = 0.0) -> None:
        self.xp, self.dim = namespace(reference), integer(dim, "dim", meaning="the number of features")
        self.reference, self.everyone = reference, Rows.all(reference)
        self.set_prior(ridge, taper)
        count = len(reference)
        self.w, self.logdets, self.residuals = (zeros(reference, count, dim) for _ in range(3))
        self.squares, self.pulls = zeros(reference, count), zeros(reference, count, integers=True)

    def set_prior(self, ridge: float, taper: float) -> None:
        """Use other prior precisions from the next rebuild on."""
        precisions = prior_precisions(ridge, taper, self.dim)
        self.ridge, self.taper = float(ridge), float(taper)
        self.weights = like(precisions**-0.5, self.reference)  # what feature j is multiplied by

    def evidences(self) -> Array:
        """Log evidence of every prefix, (R, d), up to a constant of each replication."""
        return log_evidence(self.logdets, self.residuals, self.pulls, self.squares)

    def noises(self) -> Array:
        """Estimate S_m / n of the noise variance by every prefix, (R, d); not a number before the first pull."""
        pulls = self.xp.astype(self.pulls, self.xp.float64)[:, None]
        return self.residuals / self.xp.where(pulls > 0, pulls, pulls + np.nan)

    def turn(self, columns: Array, p: Array, rewards: Array, rows: Any) -> None:
        """Take in pulls with p = z(a_x), (n, d), in the replications at `rows`; `columns` (R, d, C) turn with L."""
        if is_numpy(columns):
            for r, one, reward in zip(self.everyone.positions[rows].tolist(), p, rewards.tolist(), strict=True):
                turn_one(columns[r], self.w[r], self.residuals[r], self.logdets[r], one, reward)
            return
        xp, w = self.xp, self.w[rows]
        s = 1.0 + xp.cumulative_sum(p * p, axis=-1)
        before = xp.concat([xp.ones_like(s[:, :1]), s[:, :-1]], axis=-1)  # s_{j-1}, as it is: no difference to round
        surprise = rewards[:, None] - xp.cumulative_sum(p * w, axis=-1)
        self.residuals[rows] += surprise * surprise / s
        self.logdets[rows] += xp.log(s)
        shrink, pull = xp.sqrt(before / s), p / before
        w = w + rewards[:, None] * p
        w[:, 1:] -= pull[:, 1:] * xp.cumulative_sum(p * w, axis=-1)[:, :-1]
        self.w[rows] = shrink * w
        running = xp.cumulative_sum(p[:, :-1, None] * columns[:, :-1], axis=1)
        columns[:, 1:].addcmul_(pull[:, 1:, None], running, value=-1.0)
        columns.mul_(shrink[:, :, None])

    def _count(self, rewards: Array, rows: Any) -> None:
        self.squares[rows] += rewards * rewards
        self.pulls[rows] += 1

    def solve(self, r: int, gram: Array, moments: Array, squares: Array, pulls: Array) -> Array:
        """Set what both forms share in replication `r` from X^T X, X^T r, sum r^2 and n; gives the factor L."""
        xp = self.xp
        scaled = self.weights[:, None] * gram * self.weights
        factor = _lower_factor(scaled + xp.eye(self.dim, dtype=xp.float64, device=device_of(gram)))
        self.w[r] = forward_solve(factor, (self.weights * moments)[:, None])[:, 0]
        self.logdets[r] = 2.0 * xp.cumulative_sum(xp.log(xp.linalg.diagonal(factor)), axis=-1)
        self.squares[r], self.pulls[r] = squares, pulls
        self.residuals[r] = clamp(squares - xp.cumulative_sum(self.w[r] ** 2, axis=-1), 0.0)
        return factor


class ArmFactor(PrefixFactor):
    """Every prefix on a fixed action set: Z = L^-1 A^T, O(d K) a pull.

    Parameters
    ----------
    actions : ActionSet
        The arms.
    ridge, taper : float
        The prior precisions (over sigma^2) are ridge j^taper.

    Attributes
    ----------
    z : array (R, d, K)
        L^-1 a of every arm; means and widths of all prefixes are running sums of it.
    counts, sums : array (R, K)
        Pulls of every arm and the sum of its rewards.

    Examples
    --------
    >>> import numpy as np
    >>> factor = ArmFactor(ActionSet(np.array([[1.0, 0.0], [0.6, 0.8]])), ridge=1.0)
    >>> factor.absorb(np.array([1]), np.array([0.5]), factor.everyone)
    >>> factor.means()[0].round(3)  # of both arms by the first feature alone, and by both features
    array([[0.221, 0.132], [0.15 , 0.25 ]])
    """

    def __init__(self, actions: ActionSet, ridge: float, taper: float = 0.0) -> None:
        super().__init__(actions.base, actions.dim, ridge, taper)
        self.actions = actions
        self.counts = zeros(actions.base, actions.replications, actions.arms, integers=True)
        self.sums = zeros(actions.base, actions.replications, actions.arms)
        self.z = zeros(actions.base, actions.replications, actions.dim, actions.arms)
        for r in range(actions.replications):
            self.z[r] = actions.dense(r).T * self.weights[:, None]

    def means(self) -> Array:
        """Mean of every arm by every prefix, (R, d, K)."""
        return running_sums(self.z * self.w[:, :, None])

    def widths2(self) -> Array:
        """Squared width a^T V_m^-1 a of every arm by every prefix, (R, d, K)."""
        return running_sums(self.z * self.z)

    def averaged(self, probabilities: Array, tolerance: float = 0.0) -> tuple[Array, Array, Array]:
        """Predictions averaged over d*, given P(d* = m), (R, d): mean, and squared widths within and between prefixes.

        With tail_j = P(d* >= j) the mean is sum_j tail_j z_j w_j, and the squared width, averaged over the prefixes, is
        sum_j tail_j z_j^2; how far the prefixes' means spread comes third. Each is (R, K). Prefixes that in all
        replications reach beyond the last feature with a tail above `tolerance` count as ending there, so that later
        features cost nothing.
        """
        xp = self.xp
        tail = xp.flip(xp.cumulative_sum(xp.flip(probabilities, axis=-1), axis=-1), axis=-1)
        active = max(1, int(xp.sum(xp.any(tail > tolerance, axis=0))))  # the tail falls: these come first
        chances = xp.concat([probabilities[:, : active - 1], tail[:, active - 1 : active]], axis=-1)[:, :, None]
        if is_numpy(self.z):
            parts = zip(self.z[:, :active], self.w[:, :active], chances[..., 0], strict=True)
            mean, within, between = (np.array(part) for part in zip(*(averaged_arms(*p) for p in parts), strict=True))
            return mean, within, between
        z, tail = self.z[:, :active], tail[:, :active, None]
        steps = z * self.w[:, :active, None]
        mean = xp.sum(tail * steps, axis=1)
        spread = running_sums(steps) - mean[:, None]
        return mean, xp.sum(tail * z * z, axis=1), xp.sum(chances * spread * spread, axis=1)

    def absorb(self, arms: Array, rewards: Array, rows: Rows) -> None:
        """Learn from one pull in each replication of `rows`."""
        if is_numpy(self.z):
            ids = rows.positions
            self.turn(self.z, self.z[ids, :, arms], rewards, rows.index)
            self._count(rewards, rows.index)
            self.counts[ids, arms] += 1
            self.sums[ids, arms] += rewards
            return
        masked, arms, rewards = rows.masked(arms, rewards)
        mask, at = masked.mask, (self.everyone.positions, arms)
        # Where p and the reward are zero nothing turns.
        self.turn(self.z, self.z[self.everyone.positions, :, arms] * mask[:, None], rewards * mask, slice(None))
        self.squares += mask * rewards * rewards
        self.pulls += mask
        self.counts[at] += mask
        self.sums[at] += mask * rewards

    def rebuild(self, counts: Array, sums: Array, squares: Array, rows: Rows) -> None:
        """Set the replications of `rows` to what counts and sums per arm and the sum of squared rewards lead to.

        Call `set_prior` before to change ridge or taper; then all replications must be rebuilt.
        """
        xp = self.xp
        for i, r in enumerate(rows.ids.tolist()):
            arms, n = self.actions.dense(r), xp.astype(counts[i], xp.float64)
            gram = arms.T @ (n[:, None] * arms)
            factor = self.solve(r, gram, arms.T @ sums[i], squares[i], xp.sum(counts[i]))
            self.z[r] = forward_solve(factor, arms.T * self.weights[:, None])
            self.counts[r], self.sums[r] = counts[i], sums[i]


class ContextFactor(PrefixFactor, CountsOpenPulls):
    """Every prefix when the arms change from round to round: W = L^-1, O(d^2) a pull.

    Parameters
    ----------
    reference : array (R, ...)
        An array of the library and on the device to use; its first axis counts replications.
    dim : int
        Number of features d.
    ridge, taper : float
        The prior precisions (over sigma^2) are ridge j^taper.

    Attributes
    ----------
    inverse : array (R, d, d)
        L^-1, lower triangular, for features divided by the root of their prior precision.

    Examples
    --------
    >>> import numpy as np
    >>> factor = ContextFactor(np.zeros((1, 2)), dim=2, ridge=1.0)
    >>> factor.absorb(np.array([[0.6, 0.8]]), np.array([0.5]), factor.everyone)
    >>> factor.means(np.array([[[1.0, 0.0], [0.6, 0.8]]]))[0].round(3)
    array([[0.221, 0.132], [0.15 , 0.25 ]])
    """

    def __init__(self, reference: Array, dim: int, ridge: float, taper: float = 0.0) -> None:
        super().__init__(reference, dim, ridge, taper)
        self.inverse = zeros(reference, len(reference), dim, dim)
        self.inverse[:, range(dim), range(dim)] = 1.0

    def whiten(self, features: Array) -> Array:
        """z(a) of arms (R, K, d), as (R, d, K)."""
        return self.xp.matmul(self.inverse, self.xp.matrix_transpose(features * self.weights))

    def means(self, features: Array) -> Array:
        """Mean of every arm (R, K, d) by every prefix, (R, d, K)."""
        return running_sums(self.whiten(features) * self.w[:, :, None])

    def widths2(self, features: Array) -> Array:
        """Squared width of every arm (R, K, d) by every prefix, (R, d, K)."""
        return running_sums(self.whiten(features) ** 2)

    def without_rewards(self) -> ContextFactor:
        same = ContextFactor(self.reference, self.dim, self.ridge, self.taper)
        same.inverse[...], same.logdets[...], same.pulls[...] = self.inverse, self.logdets, self.pulls
        return same

    def answer(self, features: Array, rewards: Array, rows: Rows) -> None:
        """Learn from the features (n, d) and reward of one pull in each replication of `rows`."""
        xp, scaled = self.xp, features * self.weights
        if is_numpy(self.inverse):
            ids = rows.positions
            self.turn(self.inverse, xp.matmul(self.inverse[ids], scaled[:, :, None])[..., 0], rewards, ids)
            self._count(rewards, ids)
            return
        index = rows.positions
        wide = zeros(self.reference, len(self.reference), self.dim).index_copy_(0, index, scaled)
        masked, rewards = rows.masked(rewards)
        p = xp.matmul(self.inverse, wide[:, :, None])[..., 0]
        self.turn(self.inverse, p, rewards * masked.mask, slice(None))
        self.squares += masked.mask * rewards * rewards
        self.pulls += masked.mask

    def moments(self, r: int) -> tuple[Array, Array]:
        """X^T X and X^T r of one replication, on NumPy, for features divided by the root of their prior precision."""
        lower = np.linalg.inv(as_numpy(self.inverse[r]))
        return lower @ lower.T - np.eye(self.dim), lower @ as_numpy(self.w[r])

    def rebuild(self, gram: Array, moments: Array, squares: Array, pulls: Array, rows: Rows) -> None:
        """Set the replications of `rows` to what X^T X, X^T r, sum r^2 and n lead to.

        Call `set_prior` before to change ridge or taper; then all replications must be rebuilt.
        """
        for i, r in enumerate(rows.ids.tolist()):
            factor = self.solve(r, gram[i], moments[i], squares[i], pulls[i])
            identity = self.xp.eye(self.dim, dtype=self.xp.float64, device=device_of(factor))
            self.inverse[r] = forward_solve(factor, identity)


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
