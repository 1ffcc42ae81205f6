"""The regression that keeps its sums alone, and factorises them for a decision.

For what no rank-one step leads to: old pulls that count less from one decision to the next (the sums fade and the prior
does not), parameters drawn from the posterior, and the regressions on all prefixes of the columns. With V = ridge I +
sum x x^T = L L^T and b = sum r x, the leading m x m block of L is the factor of the leading block of V. So with z(a) =
L^-1 a and w = L^-1 b, for every prefix of m columns at once,

    mean_m(a) = sum_{j<=m} z_j w_j,   width_m^2(a) = sum_{j<=m} z_j^2,   logdet_m = 2 sum_{j<=m} ln L_jj,
    S_m = sum r^2 - sum_{j<=m} w_j^2   (the regularised sum of squared residuals).

A decision costs d^3 / 3 operations for L and as many for L^-1, a pull d^2.
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, any_true_on_host, as_numpy, device_of, like, namespace, zeros
from adadim.core.checks import check_fits, positive
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.errors import PrecisionWarning
from adadim.models.context import MAX_INFLATION
from adadim.models.fixed import EPSILON, FEW_PULLS, forward_solve
from adadim.models.regression import Regression
from adadim.models.statistics import Moments

MAX_FACTOR_UPDATES = 256  # of a factor
PRODUCT_UP_TO = 96  # features up to which a product of matrices is quicker than running sums of rows (measured)
MAX_UPDATED_WIDTH2 = 1e3  # of a pull: an update by more is a difference that is rounding, as far as means go


class SumsRegression(Regression):
    """Ridge regressions as sums, on NumPy or torch, one for each entry of `reference` (R, ...).

    `inverse` is L^-1 and `w` L^-1 b as of the last `factorise`, which does nothing while `is_factorised`; `weight` is
    the sum of the weights of the pulls, and `epoch` the decision whose pull has weight 1, where they fade (`memory`,
    the half-lives in decisions).
    """

    def __init__(self, reference: Array, dim: int, ridge: float, memory: float | None = None) -> None:
        count, xp = len(reference), namespace(reference)
        self.dim, self.memory = dim, None if memory is None else zeros(reference, count) + memory
        check_fits(16.0 * count * dim**2, dim=dim, replications=count)
        self.ridge = zeros(reference, count) + positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        self.second, self.b = zeros(reference, count, dim, dim), zeros(reference, count, dim)
        self.squares, self.weight, self.epoch, self.total = (zeros(reference, count) for _ in range(4))
        self.first = zeros(reference, count, dim)  # sum x, and `total` is sum r
        self.pulls = zeros(reference, count, integers=True)
        self.inverse = self.second + xp.eye(dim, dtype=xp.float64, device=device_of(reference)) / math.sqrt(ridge)
        self.w, self.logdet = zeros(reference, count, dim), zeros(reference, count)
        self.is_factorised = False  # whether nothing has changed since all were

    def without_rewards(self) -> SumsRegression:
        regression = SumsRegression(self.w, self.dim, 1.0)
        regression.memory = self.memory  # shared: it may change
        for name in ("ridge", "second", "weight", "epoch", "pulls", "inverse", "logdet"):
            getattr(regression, name)[...] = getattr(self, name)
        return regression

    def fade(self, number: Array, rows: Replications) -> None:
        """Fade all pulls to their weights at the decisions of these numbers (n,), unless the epoch is later."""
        self.is_factorised = False
        later = namespace(number).maximum(number, rows.of(self.epoch))
        factor = 2.0 ** ((rows.of(self.epoch) - later) / rows.of(self.memory))
        for sums in (self.second, self.b, self.squares, self.weight, self.first, self.total):
            rows.put(sums, rows.of(sums) * factor.reshape(-1, *[1] * (sums.ndim - 1)))
        rows.put(self.epoch, later)
        if self.pending is not None:
            self.pending.fade(number, rows)

    def resolve(self, pulled: Array | tuple[Array, Array], rewards: Array, rows: Replications) -> None:
        """Learn from features (n, d); with the numbers (n,) of the decisions, where old ones fade."""
        self.is_factorised = False
        x, number = _dated(pulled)
        weighted, weight = x, 1.0
        if number is not None:
            self.fade(number, rows)
            weight = 2.0 ** ((number - rows.of(self.epoch)) / rows.of(self.memory))
            weighted = weight[:, None] * x
        rows.put(self.second, rows.of(self.second) + weighted[:, :, None] * x[:, None, :])
        rows.put(self.b, rows.of(self.b) + weighted * rewards[:, None])
        rows.put(self.squares, rows.of(self.squares) + weight * rewards * rewards)
        rows.put(self.weight, rows.of(self.weight) + weight)
        rows.put(self.first, rows.of(self.first) + weighted)
        rows.put(self.total, rows.of(self.total) + weight * rewards)
        rows.put(self.pulls, rows.of(self.pulls) + 1)

    def add_pending(self, pulled: Array | tuple[Array, Array], rows: Replications) -> None:
        if self.pending is None:
            self.pending = self.without_rewards()
        self.pending.resolve(pulled, _dated(pulled)[0][:, 0] * 0.0, rows)

    def factorise_leading(self, r: int, size: int) -> None:
        """Make the leading block of L^-1 and of `w` again in one regression (NumPy)."""
        self.is_factorised = False
        inverse, _ = inverse_factor(self.second[r : r + 1, :size, :size], self.ridge[r : r + 1])
        self.inverse[r, :size, :size], self.w[r, :size] = inverse[0], inverse[0] @ self.b[r, :size]
        if self.pending is not None:
            self.pending.factorise_leading(r, size)

    def factorise(self, rows: Replications) -> None:
        """Make L^-1, `w` and `logdet` again, from the sums."""
        if not self.is_factorised:
            self.factorise_answered(rows)
        if self.pending is not None:
            self.pending.factorise(rows)

    def factorise_answered(self, rows: Replications) -> None:
        """As `factorise`, without the pulls that are pending."""
        xp, ridge = namespace(self.w), rows.of(self.ridge)
        inverse, logdet = inverse_factor(rows.of(self.second), ridge)
        rows.put(self.inverse, inverse)
        rows.put(self.w, xp.matmul(inverse, rows.of(self.b)[..., None])[..., 0])
        rows.put(self.logdet, logdet - self.dim * xp.log(ridge))
        self.is_factorised = rows.everyone

    def whiten(self, features: Array, rows: Replications) -> Array:
        """z(a) of arms (n, K, d), as (n, d, K)."""
        xp = namespace(features)
        return xp.matmul(rows.of(self.inverse), xp.matrix_transpose(features))

    def predict(self, features: Array, rows: Replications) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered, (n, K); pending pulls count in the width."""
        mean, width2 = self.predict_answered(features, rows)
        return mean, width2 if self.pending is None else self.pending.predict_answered(features, rows)[1]

    def predict_answered(self, features: Array, rows: Replications) -> tuple[Array, Array]:
        """As `predict`, by answered pulls alone."""
        xp, z = namespace(features), self.whiten(features, rows)
        return xp.sum(z * rows.of(self.w)[:, :, None], axis=1), xp.sum(z * z, axis=1)

    def predict_each(self, contexts: Array, rows: Replications, count: int) -> tuple[Array, Array]:
        """Mean and squared width, (n, count), of contexts (n, d) in each of the `count` regressions of every row."""
        x = namespace(contexts).stack([contexts] * count, axis=1).reshape(-1, 1, contexts.shape[-1])
        regressions = Replications.some((rows.ids[:, None] * count + np.arange(count)).ravel(), self.w)
        mean, width2 = self.predict(x, regressions)
        return mean.reshape(len(rows), -1), width2.reshape(len(rows), -1)

    def sample(self, spread: Array, rows: Replications) -> Array:
        """theta_hat + spread L^-1 (n, m, d) of spreads; pending pulls count in L alone."""
        mean, inverse = rows.of(self.w)[:, None, :], rows.of(self.inverse)
        if self.pending is None:
            return (mean + spread) @ inverse
        return mean @ inverse + spread @ rows.of(self.pending.inverse)

    def sample_means(self, spread: Array, inputs: Array, rows: Replications) -> Array:
        """Means (n, m, K) of inputs (n, K, d) by parameters as `sample` draws them, of which there are many more."""
        z = self.whiten(inputs, rows)
        means: Array = spread @ (z if self.pending is None else self.pending.whiten(inputs, rows))
        means += rows.of(self.w)[:, None, :] @ z
        return means

    def moments(self, r: int) -> tuple[Array, Array]:
        """The weighted sums of x x^T and r x of a regression."""
        return as_numpy(self.second[r]), as_numpy(self.b[r])

    def residual(self, r: int) -> float:
        """Regularised sum of squared residuals as of the last `factorise`."""
        return max(float(self.squares[r] - (self.w[r] ** 2).sum()), 0.0)

    def restart(self, r: int, sums: Moments, weights: Array | None = None) -> None:
        """Set the sums of a regression to these, of features times `weights`; `refresh` has to follow."""
        self.is_factorised = False
        second, moment = sums.truncated(self.dim, weights)
        self.second[r], self.b[r] = like(second, self.w), like(moment, self.w)
        self.squares[r], self.weight[r], self.total[r] = sums.squares, sums.weight, sums.total
        self.first[r] = like(sums.first[: self.dim] * (1.0 if weights is None else weights), self.w)
        if self.memory is None:
            self.pulls[r] = sums.pulls
        if sums.pending is not None and self.pending is None:
            self.pending = self.without_rewards()
        if self.pending is not None:
            self.pending.restart(r, sums.without_rewards(), weights)

    def refresh(self, r: int, ridge: float) -> None:
        """Use this ridge from the next `factorise` on."""
        self.ridge[r], self.is_factorised = ridge, False
        if self.pending is not None:
            self.pending.refresh(r, ridge)


@lru_cache(maxsize=8)
def _below_diagonal(dim: int) -> FloatArray:
    """Ones below the diagonal; to be read only."""
    return np.tri(dim, k=-1)


class UpdatedSums(SumsRegression):
    """The same on NumPy, without memory, with L^-1, `w` and `logdet` updated by each pull: d^2 operations for d^3.

    With z = L^-1 x and s_i = 1 + z_1^2 + ... + z_i^2, the factor G of I + z z^T = G G^T has

        (G^-1 v)_i = sqrt(s_{i-1} / s_i) (v_i - z_i / s_{i-1} sum_{j<i} z_j v_j),

    and L G is the factor of V + x x^T. Rounding adds up, so the factor is made anew after 256 pulls, and after one that
    narrows an arm very much. While pulls are pending, widths are those of plain sums beside it.
    """

    def __init__(self, reference: Array, dim: int, ridge: float, memory: float | None = None) -> None:
        assert memory is None
        super().__init__(reference, dim, ridge)
        self.age = np.full(len(reference), MAX_FACTOR_UPDATES)  # pulls since the factor was made anew

    def check_restored(self) -> None:
        """Refuse ages that no factor has."""
        check_positions(self, age=MAX_FACTOR_UPDATES + 1)

    def resolve(self, pulled: Any, rewards: Array, rows: Replications) -> None:
        few = len(rows) < FEW_PULLS
        if not few:
            super().resolve(pulled, rewards, rows)
        self.is_factorised = False
        for r, x, reward in zip(rows.ids.tolist(), _dated(pulled)[0], rewards.tolist(), strict=True):
            if few:
                self._add(r, x, reward)
            if self.age[r] < MAX_FACTOR_UPDATES:
                self.age[r] += 1
            if self.age[r] < MAX_FACTOR_UPDATES:
                self._update(r, x, reward)

    def _add(self, r: int, x: FloatArray, reward: float) -> None:
        self.second[r] += x[:, None] * x
        self.b[r] += reward * x
        self.first[r] += x
        self.squares[r] += reward * reward
        self.total[r] += reward
        self.weight[r] += 1.0
        self.pulls[r] += 1

    def _update(self, r: int, x: FloatArray, reward: float) -> None:
        inverse, w = self.inverse[r], self.w[r]
        z = inverse @ x
        later = 1.0 + np.cumsum(z * z)
        if not later[-1] <= MAX_UPDATED_WIDTH2:
            self.age[r] = MAX_FACTOR_UPDATES
            return
        earlier = np.empty_like(later)
        earlier[0], earlier[1:] = 1.0, later[:-1]
        shrinks, share = np.sqrt(earlier / later), z / earlier
        w += reward * z
        weighted = z * w
        w -= share * (np.cumsum(weighted) - weighted)
        w *= shrinks
        if self.dim <= PRODUCT_UP_TO:
            change = _below_diagonal(self.dim) * (-shrinks * share)[:, None] * z
            change.ravel()[:: self.dim + 1] = shrinks
            inverse[:] = change @ inverse
        else:
            running = inverse[:-1] * z[:-1, None]
            for j in range(1, len(running)):  # row by row, many times as fast as NumPy's running sums of a matrix
                running[j] += running[j - 1]
            running *= share[1:, None]
            inverse[1:] -= running
            inverse *= shrinks[:, None]
        self.logdet[r] += math.log(later[-1])

    def factorise_answered(self, rows: Replications) -> None:
        old = rows.ids[self.age[rows.ids] == MAX_FACTOR_UPDATES]
        if len(old):
            super().factorise_answered(Replications.some(old, self.w))
            self.age[old] = 0

    def restart(self, r: int, sums: Moments, weights: Array | None = None) -> None:
        super().restart(r, sums, weights)
        self.age[r] = MAX_FACTOR_UPDATES

    def refresh(self, r: int, ridge: float) -> None:
        super().refresh(r, ridge)
        self.age[r] = MAX_FACTOR_UPDATES


def _dated(pulled: Array | tuple[Array, Array]) -> tuple[Array, Array | None]:
    """Features and numbers of the decisions, None where none are given."""
    return pulled if isinstance(pulled, tuple) else (pulled, None)


def unit_factor(second: Array, ridge: Array) -> tuple[Array, Array]:
    """Units u, the roots of the diagonal of V = ridge I + second, (n, d, d), and the factor of V / (u u^T).

    The factor exists even where huge features have rounded the ridge away.
    """
    xp, dim = namespace(second), second.shape[-1]
    identity = xp.eye(dim, dtype=xp.float64, device=device_of(second))
    v = second + ridge[:, None, None] * identity
    units = xp.sqrt(xp.linalg.diagonal(v))
    scaled = v / (units[:, :, None] * units[:, None, :])
    try:
        return units, xp.linalg.cholesky(scaled)
    except (np.linalg.LinAlgError, RuntimeError):  # NumPy's error and torch's: the ridge is lost in rounding
        return units, xp.linalg.cholesky(scaled + 4 * dim * EPSILON * identity)


def inverse_factor(second: Array, ridge: Array) -> tuple[Array, Array]:
    """L^-1 and ln det V of V = L L^T = ridge I + second, (n, d, d)."""
    xp, (units, factor) = namespace(second), unit_factor(second, ridge)
    identity = xp.eye(second.shape[-1], dtype=xp.float64, device=device_of(second))
    inverse = forward_solve(factor, identity)
    inflation = xp.sum(inverse * inverse, axis=-2)  # V_jj (V^-1)_jj
    if any_true_on_host(inflation > MAX_INFLATION):
        warnings.warn(
            f"some features are so nearly dependent, next to the ridge, that widths are accurate only to about "
            f"{EPSILON * float(inflation.max()):.0e}; centre or scale them, leave some out or raise the ridge",
            PrecisionWarning,
            stacklevel=2,
        )
    logdet = 2.0 * (xp.sum(xp.log(xp.linalg.diagonal(factor)), axis=-1) + xp.sum(xp.log(units), axis=-1))
    return inverse / units[:, None, :], logdet
