"""The ridge regression where features come with each round: V^-1 itself, applied to what is offered.

With V = ridge I + sum x x^T over the features pulled, b = sum r x and theta = V^-1 b, pulling x with reward r changes

    u = V^-1 x;   s = 1 + x^T u;   V^-1 -= u u^T / s;   theta -= (x^T theta - r) u / s;   logdet += ln s.

V^-1 and below it theta^T are one matrix M of d + 1 rows: M x is u followed by the mean x^T theta, and both change at
once, M -= (u, x^T theta - r) u^T / s. The pulls are kept too, the last `ROW_BLOCK` one by one and the earlier ones as
sums, from which V^-1 and theta are made anew every `REFRESH` pulls, or when a difference above would be rounding.

With D = diag(V)^(-1/2) a squared width is known to about eps / lambda_min(D V D), whatever the units of the features.
V_jj (V^-1)_jj, the inflation of the variance of theta_j by the other features, is at most 1 / lambda_min and some j has
at least 1 / d of that. Beyond `MAX_INFLATION` a `PrecisionWarning` names the columns.

On torch all replications go at once, by a fixed sequence of operations on fixed memory, which can be recorded.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from itertools import repeat

import numpy as np
from scipy.linalg.blas import dgemv, dger, dsyrk, dtrmm
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from adadim.core.arrays import Array, as_numpy, clamp, device_of, namespace, zeros
from adadim.core.checks import check_fits, positive
from adadim.core.recording import on_host
from adadim.core.rows import Replications
from adadim.errors import PrecisionWarning
from adadim.models.regression import Regression
from adadim.models.statistics import Moments, unit_cholesky

REFRESH = 512  # pulls; the d^3 of a factorisation are then d^3 / 512 a pull
ROW_BLOCK = 64  # divides REFRESH

# A pull takes a squared width w to w / (1 + w), by a difference that is wrong by about eps w times the inflation. Where
# w > 1 and this product is above `MAX_ROUNDING_IN_EPS`, V^-1 is made anew from the moments instead; and after a block
# if the w since the last time add up to `MAX_ADDED_WIDTHS`, or these and the rounding of each pull, times the
# inflation, to `MAX_ERROR_IN_EPS`.
MAX_ROUNDING_IN_EPS, MAX_ADDED_WIDTHS, MAX_ERROR_IN_EPS = 2e6, 1e4, 5e5
MAX_INFLATION = 1e-6 / np.finfo(float).eps  # widths are right to about 1e-6 up to here

# From this size on the widths of K >= d arms are cheaper by a Cholesky factor C of V^-1, |C^T x|^2 (measured): d^3/3 +
# K d^2 flops in place of 2 K d^2.
FACTOR_FROM = 200

ZERO = np.zeros(())  # NumPy compares arrays with this one quicker than with a number


@lru_cache(maxsize=8)
def _lower_triangle(dim: int) -> Array:
    """Whether an entry of a d x d matrix is on or below the diagonal."""
    return np.tri(dim, dtype=bool)


def stacked(pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Means and squared widths of all replications, from those of each."""
    return np.stack([mean for mean, _ in pairs]), np.stack([width2 for _, width2 in pairs])


class ContextPosterior(Regression):
    """Exact ridge regression on features that are new each round (NumPy): `inverse` is V^-1, `theta` V^-1 b."""

    def __init__(self, replications: int, dim: int, ridge: float) -> None:
        self.ridge = np.full(replications, positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1"))
        self.dim = dim
        check_fits(16.0 * replications * dim**2, dim=dim, replications=replications)
        self._model = np.zeros((replications, dim + 1, dim))  # M: V^-1 and below it theta
        self._model[:, :dim] = np.eye(dim) / ridge
        self.squares, self.logdet = np.zeros(replications), np.zeros(replications)
        self.pulls = np.zeros(replications, dtype=np.int64)
        self._warned = False
        # Moments of the pulls before the block under way (lower triangles), and the pulls and rewards of that block.
        self._second, self._b = np.zeros((replications, dim, dim)), np.zeros((replications, dim))
        self._x, self._rewards = np.zeros((replications, ROW_BLOCK, dim)), np.zeros((replications, ROW_BLOCK))
        self.first, self.total = np.zeros((replications, dim)), np.zeros(replications)  # sum x and sum r, of as many
        self._fill, self._since = [0] * replications, [0] * replications  # pulls of that block, and since a refresh
        self._lost = [0.0] * replications
        self._inflation = [1.0] * replications  # a bound of it: a pull multiplies it by s at most

    @property
    def inverse(self) -> Array:
        """V^-1."""
        return self._model[:, :-1]

    @property
    def theta(self) -> Array:
        """V^-1 b."""
        return self._model[:, -1]

    def predict(self, features: Array, rows: Replications) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered, (n, K_t); open pulls count in the width."""
        mean, width2 = self.predict_answered(features, rows)
        return mean, width2 if self.pending is None else self.pending.predict_answered(features, rows)[1]

    def predict_answered(self, features: Array, rows: Replications) -> tuple[Array, Array]:
        """As `predict`, by answered pulls alone."""
        if len(features) == 1:  # the usual case, and quick
            mean, width2 = self._predict(features[0], self._model[rows.ids.item()])
            return mean[None], width2[None]
        return stacked([self._predict(features[i], self._model[r]) for i, r in enumerate(rows.ids.tolist())])

    def predict_in_turn(
        self, rounds: Iterable[Array], roots: Iterable[Array | None] = repeat(None)
    ) -> Generator[tuple[Array, Array], Sequence[int], None]:
        """As `LinearModel.predict_in_turn`, in the first replication; a pull of x counts as root x."""
        for x, root in zip(rounds, roots, strict=False):
            counted = self if self.pending is None else self.pending
            pulled = yield x.dot(self._model[0, -1]), counted._predict(x, counted._model[0])[1]
            if self.pending is None:
                self.pending = self.without_rewards()
            for position in pulled:
                self.pending.pull(0, x[position] if root is None else x[position] * root[position], 0.0)

    def _predict(self, x: Array, model: Array) -> tuple[Array, Array]:
        """x^T theta and x^T V^-1 x for every row x."""
        if FACTOR_FROM <= self.dim <= len(x):
            factor, failed = dpotrf(model[:-1], lower=1, clean=0)
            if not failed:
                z = dtrmm(1.0, factor, x.T, trans_a=1, lower=1)
                return x @ model[-1], np.vecdot(z.T, z.T)
        products = x.dot(model.T)
        width2 = np.vecdot(products[:, :-1], x)
        return products[:, -1].copy(), np.maximum(width2, ZERO, out=width2)

    def predict_each(self, contexts: Array, rows: Replications, count: int) -> tuple[Array, Array]:
        """Mean and squared width, (n, count), of contexts (n, d) in each of the `count` regressions of every row."""
        if len(contexts) == 1:
            mean, width2 = self._predict_each(contexts[0], rows.ids.item() * count, count)
            return mean[None], width2[None]
        return stacked([self._predict_each(contexts[i], r * count, count) for i, r in enumerate(rows.ids.tolist())])

    def _predict_each(self, x: Array, first: int, count: int) -> tuple[Array, Array]:
        if self.pending is not None:
            return self.theta[first : first + count] @ x, self.pending._predict_each(x, first, count)[1]
        models = self._model[first : first + count]
        products = models.reshape(-1, self.dim).dot(x).reshape(count, -1)
        width2 = products[:, :-1].dot(x)
        return products[:, -1].copy(), np.maximum(width2, ZERO, out=width2)

    def without_rewards(self) -> ContextPosterior:
        regression = type(self)(len(self.ridge), self.dim, 1.0)
        for r, ridge in enumerate(self.ridge.tolist()):
            self._fold(r)
            regression._second[r] = self._second[r]
            regression._refresh(r, ridge)
        return regression

    def resolve(self, x: Array, rewards: Array, rows: Replications) -> None:
        """Learn from one pull in each replication of `rows`: features (n, d) and rewards (n,)."""
        vectors, values = np.ascontiguousarray(x), rewards.tolist()
        for i, r in enumerate(rows.ids.tolist()):
            self.pull(r, vectors[i], values[i])

    def pull(self, r: int, x: Array, reward: float) -> None:
        """Learn from one pull in replication `r`, of features (d,) that are contiguous in memory."""
        model = self._model[r]
        change = model.dot(x)  # u, and the mean
        u = change[:-1]
        scale = 1.0 + float(x.dot(u))
        steep = scale > 2.0 and not scale * self._inflation[r] <= MAX_ROUNDING_IN_EPS
        if steep:  # unless the bound is too large
            self._inflation[r] = float(self.variance_inflation(r).max())
            steep = not scale * self._inflation[r] <= MAX_ROUNDING_IN_EPS
        self._inflation[r] *= scale
        self.squares[r] += reward * reward
        self.pulls[r] += 1
        n = self._fill[r]
        self._x[r, n], self._rewards[r, n] = x, reward
        self._fill[r] = n + 1
        if steep or not scale >= 1.0:  # below 1: rounding has made V^-1 indefinite
            self._refresh(r, float(self.ridge[r]))
            return
        change[-1] = change.item(-1) - reward
        dger(-1.0 / scale, u, change, 1, 1, model.T, 0, 0, 1)  # in place; names of arguments would cost 0.5 us
        self.logdet[r] += math.log(scale)
        self._lost[r] += scale - 1.0
        if n + 1 == ROW_BLOCK:
            self._fold(r)
            self._warn_if_inexact(r)
            inexact = (1.0 + self._lost[r]) * self._inflation[r] > MAX_ERROR_IN_EPS
            if self._since[r] >= REFRESH or self._lost[r] > MAX_ADDED_WIDTHS or inexact:
                self._refresh(r, float(self.ridge[r]))

    def _fold(self, r: int) -> None:
        """Add the block under way to the moments."""
        n = self._fill[r]
        if n:
            x, rewards = self._x[r, :n], self._rewards[r, :n]
            dsyrk(1.0, x.T, beta=1.0, c=self._second[r].T, overwrite_c=1, lower=0)
            dgemv(1.0, x.T, rewards, beta=1.0, y=self._b[r], overwrite_y=1)
            self.first[r] += x.sum(axis=0)
            self.total[r] += rewards.sum()
            self._fill[r] = 0
            self._since[r] += n

    def moments(self, r: int) -> tuple[Array, Array]:
        """sum x x^T (symmetric) and sum r x over the pulls of a replication."""
        self._fold(r)
        return np.where(_lower_triangle(self.dim), self._second[r], self._second[r].T), self._b[r]

    def restart(self, r: int, sums: Moments, weights: Array | None = None) -> None:
        """Set the moments of a replication to these sums, of features times `weights`; `refresh` has to follow."""
        self._second[r], self._b[r] = sums.truncated(self.dim, weights)
        self._fill[r] = 0
        self.squares[r], self.pulls[r] = sums.squares, sums.pulls
        self.first[r], self.total[r] = sums.first[: self.dim] * (1.0 if weights is None else weights), sums.total
        if sums.pending is not None and self.pending is None:
            self.pending = self.without_rewards()
        if self.pending is not None:
            self.pending.restart(r, sums.without_rewards(), weights)

    def residual(self, r: int) -> float:
        """Regularised sum of squared residuals, sum r^2 - b^T V^-1 b."""
        self._fold(r)
        return max(float(self.squares[r] - self._b[r] @ self.theta[r]), 0.0)

    def forget(self, r: int) -> None:
        """Forget all pulls of a replication."""
        self.restart(r, Moments.zeros(self.dim))
        self.refresh(r, float(self.ridge[r]))

    def refresh(self, r: int, ridge: float) -> None:
        """Make V^-1 and theta of a replication anew from its moments, with this ridge."""
        self._refresh(r, ridge)
        if self.pending is not None:
            self.pending.refresh(r, ridge)

    def _refresh(self, r: int, ridge: float) -> None:
        self._fold(r)
        diagonal = self._second[r].diagonal() + ridge
        root = np.sqrt(diagonal)
        units = root[:, None] * root
        scaled = self._second[r] / units
        scaled.ravel()[:: self.dim + 1] = 1.0  # the diagonal
        # LAPACK called directly: half of the time of SciPy's functions goes into checks that are not needed here.
        factor = unit_cholesky(scaled)
        # As C^-T C^-1, not column by column: V^-1 may be huge but where pulls have been, and only so is V^-1 x
        # right for an x that was pulled. theta by the factor too, not as V^-1 b.
        inverse, _ = dpotri(factor, lower=1)
        theta, _ = dpotrs(factor, self._b[r] / root, lower=1)
        self.inverse[r] = np.where(_lower_triangle(self.dim), inverse, inverse.T) / units
        self.theta[r] = theta / root
        logdet = 2.0 * np.log(factor.diagonal()).sum() + np.log(diagonal).sum()
        self.logdet[r] = logdet - self.dim * math.log(ridge)
        self.ridge[r], self._since[r], self._lost[r] = ridge, 0, 0.0
        self._warn_if_inexact(r)

    def variance_inflation(self, r: int) -> Array:
        """V_jj (V^-1)_jj of every feature; the largest, times d and 2e-16, says how exact squared widths are."""
        block = self._x[r, : self._fill[r]]
        return (self._second[r].diagonal() + np.vecdot(block.T, block.T) + self.ridge[r]) * self.inverse[r].diagonal()

    def _warn_if_inexact(self, r: int) -> None:
        """Warn once if the regression is no longer exact."""
        inflated = self.variance_inflation(r)
        self._inflation[r] = largest = float(inflated.max())
        if self._warned or not largest > MAX_INFLATION:
            return
        self._warned = True
        warnings.warn(_nearly_dependent(inflated, float(self.ridge[r])), PrecisionWarning, stacklevel=2)


def _nearly_dependent(inflated: Array, ridge: float) -> str:
    """What a warning says where the variances of the coefficients are so inflated."""
    largest = float(inflated.max())
    columns = (np.flatnonzero(inflated > 0.01 * largest) + 1).tolist()
    return (
        f"columns {', '.join(map(str, columns[:10]))}{', ...' if len(columns) > 10 else ''} of the features are so "
        f"nearly dependent, with ridge {ridge:.3g}, that widths are accurate only to about "
        f"{np.finfo(float).eps * largest:.0e}; centre or scale these columns, leave one out or raise the ridge"
    )


class DeviceContextPosterior(Regression):
    """`ContextPosterior` on torch, on the device of `reference` (R, ...)."""

    def __init__(self, reference: Array, dim: int, ridge: float) -> None:
        self.dim, self.ridge = dim, positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        count, xp = int(reference.shape[0]), namespace(reference)
        identity = xp.eye(dim, dtype=xp.float64, device=device_of(reference))
        self.inverse = (identity / ridge).repeat(count, 1, 1)
        self._second = zeros(reference, count, dim, dim)
        self.theta, self._b = zeros(reference, count, dim), zeros(reference, count, dim)
        self.squares, self.logdet = zeros(reference, count), zeros(reference, count)
        self.pulls = zeros(reference, count, integers=True)
        self.everyone = Replications.all(reference)
        # Pulls since a refresh, and after how many the next one is due: 1 at first, when a pull changes widths most.
        self._since, self._due, self._first = 0, 1, 2 * dim
        # As in `ContextPosterior`, of the replication in which it is largest; and the squared width last pulled.
        self._lost, self._inflation, self._widest = 0.0, 1.0, zeros(reference, 1)
        self._warned = False

    def predict(self, features: Array, rows: Replications) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered, (n, K_t); open pulls count in the width."""
        xp, inverse = namespace(features), (self if self.pending is None else self.pending).inverse
        width2 = xp.sum(xp.matmul(features, rows.of(inverse)) * features, axis=-1).clamp_(min=0.0)
        return xp.matmul(features, rows.of(self.theta)[..., None])[..., 0], width2

    def without_rewards(self) -> DeviceContextPosterior:
        regression = DeviceContextPosterior(self.theta, self.dim, self.ridge)
        regression._second.copy_(self._second)
        regression.refresh()
        return regression

    def resolve(self, x: Array, rewards: Array, rows: Replications) -> None:
        """Learn from one pull in each replication of `rows`: features (n, d) and rewards (n,)."""
        xp = namespace(x)
        masked, rewards = rows.masked(rewards)
        if rows.mask is None and not rows.everyone:
            x = (self.theta * 0.0).index_copy_(0, rows.positions, x)
        u = xp.matmul(self.inverse, x[..., None])[..., 0]
        width2 = xp.sum(x * u, axis=-1)
        c = masked.mask / (1.0 + width2)
        self.theta.addcmul_((c * (rewards - xp.sum(x * self.theta, axis=-1)))[:, None], u)
        self.inverse.baddbmm_((c[:, None] * u)[:, :, None], u[:, None, :], alpha=-1.0)
        masked_x = x * masked.mask[:, None]
        self._second.baddbmm_(masked_x[:, :, None], masked_x[:, None, :])
        self._b.addcmul_(rewards[:, None], masked_x)
        self.squares += masked.mask * rewards * rewards
        self.logdet += masked.mask * xp.log1p(width2)
        self.pulls += masked.mask
        self._widest.copy_(xp.where(width2 >= 0.0, masked.mask * width2, math.inf).max())  # below 0: by rounding
        on_host(self._count)

    def _count(self) -> None:
        """Make V^-1 anew if it is time to, or if the pull just learnt has taken too much of it."""
        width2 = float(self._widest)
        steep = width2 > 1.0 and not (1.0 + width2) * self._inflation <= MAX_ROUNDING_IN_EPS
        self._since, self._lost = self._since + 1, self._lost + width2
        self._inflation *= 1.0 + width2
        if not steep and self._since % ROW_BLOCK == 0:
            diagonals = [matrix.diagonal(dim1=1, dim2=2) for matrix in (self._second, self.inverse)]
            self._inflation = float(((diagonals[0] + self.ridge) * diagonals[1]).max())
            error = (1.0 + self._lost) * self._inflation
            steep = self._lost > MAX_ADDED_WIDTHS or error > MAX_ERROR_IN_EPS
        if steep or self._since >= self._due:
            self.refresh()

    def refresh(self) -> None:
        """Make V^-1 and theta anew from the moments, without the rounding of updates, most of it of early pulls."""
        xp = namespace(self.theta)
        identity = xp.eye(self.dim, dtype=xp.float64, device=device_of(self.theta))
        matrix = self._second + self.ridge * identity
        units = xp.sqrt(xp.linalg.diagonal(matrix))
        scaled = matrix / (units[:, :, None] * units[:, None, :])
        factor, failed = xp.linalg.cholesky_ex(scaled)
        if bool(failed.any()):  # the ridge is lost in the rounding of huge features
            below = clamp(-xp.linalg.eigvalsh(scaled)[:, :1, None], 0.0)  # by the rounding of many pulls
            factor = xp.linalg.cholesky(scaled + (4 * self.dim * np.finfo(float).eps + below) * identity)
        root = xp.linalg.solve_triangular(factor, identity.expand(factor.shape), upper=False)
        self._warn_if_inexact(xp.sum(root * root, axis=1))
        root /= units[:, None, :]
        self.inverse.copy_(xp.matmul(xp.matrix_transpose(root), root))
        self.theta.copy_(xp.matmul(self.inverse, self._b[..., None])[..., 0])
        logs = xp.sum(xp.log(xp.linalg.diagonal(factor)) + xp.log(units), axis=-1)
        self.logdet.copy_(2.0 * logs - self.dim * math.log(self.ridge))
        self._since, self._lost, self._first = 0, 0.0, max(self._first - 1, 0)
        self._due = 1 if self._first else min(2 * self._due, REFRESH)

    def _warn_if_inexact(self, inflated: Array) -> None:
        """Warn once if the regression of some replication is no longer exact."""
        self._inflation = float(inflated.max())
        if self._warned or not self._inflation > MAX_INFLATION:
            return
        self._warned = True
        inflations = as_numpy(inflated)
        worst = inflations[inflations.max(axis=1).argmax()]
        warnings.warn(_nearly_dependent(worst, self.ridge), PrecisionWarning, stacklevel=2)
