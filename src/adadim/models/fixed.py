"""The ridge posterior over fixed arms: mean and width of every arm, updated in place; and its forms on NumPy.

With V = ridge I + sum a a^T over the pulled arms, pulling arm x with reward r changes everything through one vector, g
= A V^-1 a_x:

    c = 1 / (1 + g_x);   mean += c (r - mean_x) g;   width^2 -= c g^2;   logdet += ln(1 + g_x).

A form of the posterior only has to find g. NumPy goes one replication at a time through BLAS (here), since a row fits
the nearest cache; torch takes all replications at once (`tensors`). With g as before a run of equal pulls, n of them
have divided it by stretch = 1 + n g_x, so that one more is

    mean += (r - mean_x) / stretch_after g;   width^2 -= g^2 / (stretch_before stretch_after)

and the whole run is one rank-one change of V^-1 with weight n / stretch. An update is a difference, so that rounding
grows with the share of a width that is gone since the last factorisation, which is largest for the arm pulled, and as
the root of the number of updates.

- Gram form, for K up to a few d: with P = A V^-1 A^T as of the last refresh and H the rows sqrt(weight) g of the runs
  since then, g = P[x] - H[:, x]^T H. Every `GRAM_BLOCK` runs P -= H^T H, so the heavy work is BLAS-3. Where the prior
  changes now and then (`lazy_gram`), P is made only once H has 0.6 d rows; until then only its rows of arms pulled are.
  At K = 1200, d = 600 (600, 400) this saves the default a third (two fifths) of its time: blocks of H that are kept and
  rewards learned anew by them an eighth (a quarter), QR in the span of the arms pulled a fifth (a fifth).
- Feature form, for K >> d: V^-1 itself, u = V^-1 a_x and g = A u. Where V^-1 is too badly conditioned, L^-1 a stands
  for each arm a, with V = L L^T as of the last factorisation.

Rewards less another mean are one product (`shift`), which saves the default a seventh at K = 1200, d = 600, T = 2500.
The pulls of few arms are learned again as runs (`_replay`) where the prior changes, which saves it a sixth at 4800, 300
and 500, an eighth at 2000, 100 and 1000.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, qr_multiply, solve_triangular
from scipy.linalg.blas import daxpy, dgemv, dsymv, dsyr, dsyrk

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, as_numpy, device_of, is_numpy, namespace, zeros
from adadim.core.checks import positive, require
from adadim.core.rows import Replications
from adadim.errors import InvalidValueError, PrecisionWarning
from adadim.models.cost import streamed_bytes
from adadim.models.regression import Regression

EPSILON = float(np.finfo(float).eps)

# What rounding may be. V has eigenvalues from the ridge to n |a|^2, so that a Cholesky factor of it is wrong by up to
# about EPSILON n |a|^2 / ridge, and the QR factor of its root by EPSILON times the root of that. Features in like units
# that are far from dependent lose much less; columns that nearly depend on each other, of large units, all of it. So QR
# takes over where Cholesky may be inexact, and is corrected in twice the digits where it may be too (`whiten_by_qr`):
# sooner, since Cholesky mostly stays far below its bound, and a mean has to be right where rewards nearly cancel, too.
FACTOR_ERROR, QR_ERROR = 1e-9, 1e-10
LARGEST_ERROR = 0.1  # of the bound for QR: up to here it is near enough to be corrected
# An error of means is relative to widths by the pulls answered, and is to be small beside those shown, in which pending
# pulls count: where these are much narrower, the factorisation has to be as much more exact (`_hold_means`).
# What runs on a device is not refactored, and wrong by as much as Cholesky, at most twice that bound (measured): up to
# PROMISED nothing is said, up to LARGEST_DEVICE_ERROR a warning.
DEVICE_FACTOR, PROMISED, LARGEST_DEVICE_ERROR = 2.0, 1e-8, 2e-3


def check_precision(
    actions: ActionSet, ridge: float, horizon: int | None, width2: Array | None = None, *, warn: bool = True
) -> None:
    """Raise unless float64 can hold the ridge beside `horizon` pulls (None: a million) of the longest arm.

    On a device, `warn` where widths may be less exact than is promised.
    """
    horizon = 10**6 if horizon is None else horizon
    ratio = horizon * float(actions.xp.max(actions.squared_norms() / ridge if width2 is None else width2))
    on_host = is_numpy(actions.base)
    error = EPSILON * np.sqrt(ratio) if on_host else DEVICE_FACTOR * EPSILON * ratio
    refused = not error <= (LARGEST_ERROR if on_host else LARGEST_DEVICE_ERROR)
    if not refused and (on_host or error <= PROMISED or not warn):
        return
    columns = as_numpy(abs(actions.base)).max(axis=(0, 1))
    large = ", ".join(map(str, np.flatnonzero(columns > 0.1 * columns.max())[:5].tolist()))
    fault = (
        f"a ridge of {ridge:g} next to features as large as {columns.max():.3g} (columns {large}) over {horizon} rounds"
    )
    remedy = (
        f"divide these columns by their size, or use {'' if on_host else 'NumPy arrays or '}"
        "adadim.recommended(problem), which does"
    )
    if refused:
        raise InvalidValueError(f"float64 {'' if on_host else 'on a device '}cannot hold {fault}; {remedy}")
    warnings.warn(
        f"float64 on a device holds {fault} only so far that widths may be off by {error:.0e}; {remedy}",
        PrecisionWarning,
        stacklevel=2,
    )


class Factored(NamedTuple):
    """What a factorisation of V says of the arms."""

    factor: Array | None
    """The Cholesky factor L, if there is one."""
    whitened: Array
    """L^-1 A^T, without L up to a rotation, which does not change any inner product of its columns."""
    mean: Array
    logdet: Array
    """Of V."""
    error: float = 0.0
    """How far inner products of columns of `whitened` may be off, relative to their lengths; 0 on a device."""


class Posterior(Regression):
    """Exact ridge regression seen from the arms: `mean` and `width2` (R, K) are <a, theta_hat> and a^T V^-1 a.

    `counts` and `sums` (R, K) are the pulls and rewards of each, which determine all the rest (see `rebuild`) but
    `squares` (R,), of all rewards (NaN after a `rebuild` without them). `logdet` is ln det(V / ridge).
    """

    may_be_nan = ("squares",)
    lazy_gram = False  # compute only what is needed so far: the same numbers to rounding, not to the bit

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        self.actions = actions
        self.ridge = positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        base, shape = actions.base, (actions.replications, actions.arms)
        self.mean, self.width2 = self.prior()
        self.sums, self.counts = zeros(base, *shape), zeros(base, *shape, integers=True)
        self.logdet, self.pulls = zeros(base, shape[0]), zeros(base, shape[0], integers=True)
        self.squares = zeros(base, shape[0])
        self.everyone = Replications.all(base)

    def prior(self) -> tuple[Array, Array]:
        """Mean and squared width of every arm before any pull, as arrays to be kept up to date."""
        actions = self.actions
        return zeros(actions.base, actions.replications, actions.arms), actions.squared_norms() / self.ridge

    @property
    def open_width2(self) -> Array:
        """Squared width of every arm, (R, K), in which pulls count whose rewards are not known yet."""
        return self.width2 if self.pending is None else self.pending.width2

    def without_rewards(self) -> Posterior:
        posterior = type(self)(self.actions, self.ridge)
        posterior.rebuild(self.counts, self.sums * 0.0, self.everyone)
        return posterior

    def rebuild(self, counts: Array, sums: Array, rows: Replications, squares: Array | None = None) -> None:
        """Set the state to what pulls and sums of rewards per arm determine, by a factorisation; open pulls stay."""
        if self.pending is not None:
            unanswered = rows.of(self.pending.counts) - rows.of(self.counts)
            self.pending.rebuild(counts + unanswered, sums * 0.0, rows)
        for i, r in enumerate(rows.ids.tolist()):
            self._rebuild_one(r, counts[i], sums[i], np.nan if squares is None else squares[i])

    def _rebuild_one(
        self, r: int, counts: Array, sums: Array, squares: Array | float, most: float = FACTOR_ERROR
    ) -> Factored:
        xp = self.actions.xp
        factored = self._factored(self.actions.dense(r), xp.astype(counts, xp.float64), sums, most)
        self.width2[r] = xp.sum(factored.whitened**2, axis=0)  # V^-1 = L^-T L^-1, so width^2 = |L^-1 a|^2
        self.mean[r] = factored.mean
        self.logdet[r] = factored.logdet - self.actions.dim * np.log(self.ridge)
        self.counts[r], self.sums[r] = counts, sums
        self.pulls[r] = xp.sum(counts)
        self.squares[r] = squares
        self.restart(r, factored.factor, factored.whitened)
        return factored

    def relearn(self, r: int, sums: Array, squares: float) -> None:
        """Set replication `r` to what its pulls with these rewards determine: `rebuild`, to rounding, or cheaper."""
        row = Replications.some(np.array([r]), self.squares)
        self.rebuild(row.of(self.counts), sums[None], row, row.of(self.squares) * 0 + squares)

    def shift(self, r: int, amount: float, squares: float) -> None:
        """Subtract `amount` from every reward of replication `r`; `squares` is the sum of their squares after that."""
        self.relearn(r, self.sums[r] - amount * self.counts[r], squares)

    def refactor(self, rows: Replications) -> None:
        """Make the state anew from the pulls so far, with the present features of the arms."""
        self.rebuild(rows.of(self.counts) + 0, rows.of(self.sums) + 0.0, rows, rows.of(self.squares) + 0.0)

    def _factored(self, arms: Array, n: Array, sums: Array, most: float) -> Factored:
        """By Cholesky if that is exact to `most`, else by `whiten_by_qr`."""
        xp = self.actions.xp
        error = EPSILON * largest_ratio(arms, n, self.ridge) if is_numpy(arms) else 0.0
        if error > most:
            return self._whiten_by_qr(arms, n, sums, min(most, QR_ERROR))
        identity = xp.eye(self.actions.dim, dtype=xp.float64, device=device_of(arms))
        if is_numpy(arms) and not n.any():  # V is the ridge alone: the bits that the solve below would give
            root = np.sqrt(self.ridge)
            factor, whitened = root * identity, np.multiply(arms.T, 1.0 / root, order="F")
        else:
            if self.lazy_gram and is_numpy(arms):
                pulled = np.flatnonzero(n)
                second = arms[pulled].T @ (n[pulled, None] * arms[pulled])
            else:
                second = arms.T @ (n[:, None] * arms)
            factor = xp.linalg.cholesky(self.ridge * identity + second)
            whitened = forward_solve(factor, arms.T)
        logdet = 2.0 * xp.sum(xp.log(xp.linalg.diagonal(factor)))
        return Factored(factor, whitened, whitened.T @ (whitened @ sums), logdet, error)

    def _whiten_by_qr(self, arms: Array, n: Array, sums: Array, most: float) -> Factored:
        return whiten_by_qr(arms, n, sums, self.ridge, most)

    @abstractmethod
    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        """Set the state of this form in replication `r` from the Cholesky factor L of V, if there is one, and L^-1 A^T.

        Without it `whitened` is L^-1 A^T up to a rotation, which does not change any inner product of its columns.
        """


def forward_solve(factor: Array, right: Array) -> Array:
    """L^-1 B for a lower triangular L, or for each of several."""
    if is_numpy(factor):
        if factor.ndim == 3:
            return np.stack([solve_triangular(one, right, lower=True) for one in factor])
        return solve_triangular(factor, right, lower=True)
    return namespace(factor).linalg.solve_triangular(factor, right, upper=False)


def whiten_by_qr(arms: Array, n: Array, sums: Array, ridge: float, most: float = QR_ERROR) -> Factored:
    """Whiten by a root M of V = M^T M, from QR of the weighted arms above the prior, corrected unless exact to `most`.

    M^T is L up to a rotation. Rows sorted by size and columns pivoted make the error of each row small against that
    row (Cox and Higham 1998, "Stability of Householder QR factorization for weighted least squares problems").
    """
    pulled, dim = np.flatnonzero(n), arms.shape[1]
    root = np.sqrt(n[pulled])
    data = np.concatenate([root[:, None] * arms[pulled], np.sqrt(ridge) * np.eye(dim)])
    order = np.argsort(-np.abs(data).max(axis=1), kind="stable")
    means = np.concatenate([sums[pulled] / root, np.zeros(dim)])
    weights, triangle, columns = qr_multiply(data[order], means[order], pivoting=True)
    whitened = solve_triangular(triangle, arms[:, columns].T, trans="T")
    error = qr_bound(arms, n, ridge)
    if error > most:
        error = _qr_error(triangle, whitened, arms[:, columns], n, ridge)
    if error > most:
        return _whiten_near(triangle, arms[:, columns], n, sums, ridge)
    logdet = 2.0 * np.sum(np.log(np.abs(np.diag(triangle))))
    return Factored(None, whitened, whitened.T @ weights, logdet, error)


def qr_bound(arms: Array, n: Array, ridge: float) -> float:
    """How far QR may be off however nearly columns or arms depend on each other, and whatever their units."""
    return EPSILON * math.sqrt(largest_ratio(arms, n, ridge))


def _qr_error(triangle: Array, whitened: Array, arms: Array, n: Array, ridge: float) -> float:
    """By how much M^-T A^T and V in these coordinates may change if every number in the arms changes by a rounding."""
    inverse = np.abs(solve_triangular(triangle, np.eye(len(triangle))))
    change2, size2 = np.square(np.abs(arms) @ inverse).sum(axis=1), np.square(whitened).sum(axis=0)
    of_arms = np.divide(change2, size2, out=np.zeros_like(size2), where=size2 > 0).max()
    of_v = change2 @ n + ridge * np.square(inverse).sum()
    return EPSILON * math.sqrt(max(of_arms, of_v))


def largest_ratio(arms: Array, n: Array, ridge: float) -> float:
    """A bound of the ratio of the eigenvalues of V."""
    return float(n.sum() * longest2(arms) / ridge)


def longest2(arms: Array) -> float:
    """Squared length of the longest arm."""
    return float(np.vecdot(arms, arms).max())


def _whiten_near(triangle: Array, arms: Array, n: Array, sums: Array, ridge: float) -> Factored:
    """As `whiten_by_qr`, by a root of V that is right only roughly (columns of the arms in its order).

    QR changes the entries of an arm by their rounding, and where columns differ by little more than that, so do widths.
    But with B = A M^-1 in twice the digits, from the arms as they are, G = M^-T V M^-1 = B^T N B + ridge M^-T M^-1 is a
    sum without cancellation, near the identity: with its factor L, V^-1 = M^-1 L^-T L^-1 M^-T to the last digits.

    Arms that point where none was pulled are long, and theta is small there: entries of B are right one by one, so that
    theta, too, is after a step by its residuals.
    """
    dim = arms.shape[1]
    turned = solve_in_twice_the_digits(triangle, np.concatenate([arms, np.eye(dim)]))
    turned_arms, turned_prior = turned[:, :-dim], turned[:, -dim:]
    factor = np.linalg.cholesky((turned_arms * n) @ turned_arms.T + ridge * turned_prior @ turned_prior.T)
    theta = cho_solve((factor, True), turned_arms @ sums)
    rest = turned_arms @ (sums - n * (theta @ turned_arms)) - ridge * turned_prior @ (theta @ turned_prior)
    theta += cho_solve((factor, True), rest)
    logdet = 2.0 * np.sum(np.log(np.abs(np.diag(triangle))) + np.log(np.diag(factor)))
    return Factored(None, forward_solve(factor, turned_arms), theta @ turned_arms, logdet, EPSILON)


def solve_in_twice_the_digits(triangle: Array, rows: Array) -> Array:
    """M^-T X^T for an upper triangular M and rows X, rounded at the end alone.

    Numbers are sums of two, `high` and `low`: what rounding takes from a sum or a product is a number, too (Dekker
    1971, "A floating-point technique for extending the available precision").
    """
    high = np.array(rows.T, order="C")
    low = np.zeros_like(high)
    for j in range(len(triangle)):
        pivot = triangle[j, j]
        quotient = (high[j] + low[j]) / pivot
        product, lost = _product(quotient, pivot)
        rest = ((high[j] - product) + (low[j] - lost)) / pivot
        high[j], later, after = quotient, triangle[j, j + 1 :, None], high[j + 1 :]
        product, lost = _product(later, quotient)
        lost += later * rest
        total = after - product
        part = total - after
        lost += product + part
        after -= total - part
        after -= lost
        low[j + 1 :] += after
        high[j + 1 :] = total
    return high


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """a b, and what rounding took from it."""
    product, (a_high, a_low), (b_high, b_low) = a * b, _halves(a), _halves(b)
    lost = a_high * b_high
    lost -= product
    lost += a_high * b_low
    lost += a_low * b_high
    lost += a_low * b_low
    return product, lost


def _halves(a: Array) -> tuple[Array, Array]:
    """Two numbers of half the digits each whose sum is `a`."""
    large = (2.0**27 + 1.0) * a
    high = large - (large - a)
    return high, a - high


def whiten_by_qr_in_span(arms: Array, n: Array, sums: Array, ridge: float) -> Factored:
    """As `whiten_by_qr` within the span of the arms pulled; rows for its complement, where V is the ridge, follow."""
    pulled = np.flatnonzero(n)
    basis = np.linalg.qr(arms[pulled].T)[0]
    inside = arms @ basis
    within = whiten_by_qr(inside, n, sums, ridge)
    complement = (arms - inside @ basis.T).T / np.sqrt(ridge)
    logdet = within.logdet + (arms.shape[1] - len(pulled)) * np.log(ridge)
    return within._replace(whitened=np.concatenate([within.whitened, complement]), logdet=logdet)


LOW_SHARE = 1e-4  # of a width^2 as last factored: below it the number of updates counts too
FEW_PULLS = 8  # below this number counting pulls one by one is quicker than by arrays (measured)


def least_share(updates: int) -> float:
    """Share of a width^2 as last factored below which the rounding of so many updates is too large.

    Each is wrong by EPSILON beside that share: 6e-10 for few, which are all that a mean is made of, and 2e-9 for many.
    The least ridge of a learned prior is 1e-6 of the longest arm, so that a first pull leaves a share of about 1e-6: to
    factor anew for each arm pulled first would take several times as long as all other operations.
    """
    return 1e-7 * max(4.0, math.sqrt(updates))


GRAM_BLOCK = 32  # measured: syrk is at full speed from k = 32 on, and with a longer H only g costs more


class HostPosterior(Posterior):
    """What the forms on NumPy share: g, g^2, arm, length and stretch of the run of equal pulls under way.

    They learn their pulls again after features or rewards have changed, if possible without a factorisation.
    """

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        count = actions.replications
        self._g, self._g2 = np.zeros((count, actions.arms)), np.zeros((count, actions.arms))
        self._last, self._run, self._stretch = [-1] * count, [0] * count, [1.0] * count
        self._low, self._factored_at = LOW_SHARE * self.width2, [0] * count
        # Of the last factorisation, as `Factored` has it, and the largest width^2 without pulls.
        self._error, self._widest = [0.0] * count, self.width2.max(axis=1).tolist()

    def check_restored(self) -> None:
        """Refuse vectors over the arms that have another length, of which each replication may have some or none."""
        for name in ("_root", "_unfolded", "_p0_rows", "_whitened", "_h"):
            for r, rows in enumerate(getattr(self, name, ())):
                if rows is not None and (rows.ndim != 2 or rows.shape[1] != self.actions.arms or rows.dtype != float):
                    wanted = f"be a matrix of floats with {self.actions.arms} columns"
                    require(False, f"{type(self).__name__}.{name}[{r}]", wanted, f"{rows.dtype} {rows.shape}")

    def resolve(self, arms: Array, rewards: Array, rows: Replications) -> None:
        pulls = list(zip(rows.ids.tolist(), arms.tolist(), rewards.tolist(), strict=True))
        if len(pulls) < FEW_PULLS:
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
        if self.pending is not None:
            self._hold_means(rows)

    def add_pending(self, pulled: Array, rows: Replications) -> None:
        super().add_pending(pulled, rows)
        self._hold_means(rows)

    def rebuild(self, counts: Array, sums: Array, rows: Replications, squares: Array | None = None) -> None:
        super().rebuild(counts, sums, rows, squares)
        if self.pending is not None:
            self._hold_means(rows)

    def _rebuild_one(
        self, r: int, counts: Array, sums: Array, squares: Array | float, most: float = FACTOR_ERROR
    ) -> Factored:
        factored = super()._rebuild_one(r, counts, sums, squares, most)
        self._error[r], self._widest[r] = factored.error, longest2(self.actions.dense(r)) / self.ridge
        return factored

    def _hold_means(self, rows: Replications) -> None:
        """Make means anew that may be off by more than is promised beside widths in which pending pulls count.

        With f the widths^2 as last factored, rounding of an update is EPSILON sqrt(f_l f_x) / (1 + width^2_x) in the
        mean of arm l, and as the root of their number.
        """
        for r in rows.ids.tolist():
            pulls, decided = int(self.pulls[r]), int(self.pending.pulls[r])
            widest, error = self._widest[r], self._error[r]
            updates = EPSILON * math.sqrt(pulls - self._factored_at[r])
            # Pulls of the longest arm leave least of a width: a bound found at once, and most often enough.
            narrowed, left = math.sqrt(1.0 + (decided - pulls) * widest), math.sqrt(1.0 + decided * widest)
            if max(error * narrowed, updates * left * math.sqrt(widest)) <= PROMISED:
                continue
            width2, shown2, before2 = self.width2[r], self.pending.width2[r], self._low[r] / LOW_SHARE
            narrowed, left = (
                math.sqrt(np.divide(wide2, shown2, out=np.ones_like(width2), where=shown2 > 0).max())
                for wide2 in (width2, before2)
            )
            lost = max(error * narrowed, updates * left * (np.sqrt(before2) / (1.0 + width2)).max())
            if lost > PROMISED and (updates or error > EPSILON):  # else they are as exact as they can be
                counts, sums = self.counts[r].copy(), self.sums[r].copy()
                self._rebuild_one(r, counts, sums, self.squares[r], PROMISED / narrowed)

    def _learn(self, pulls: list[tuple[int, int, float]]) -> None:
        """Learn from pulls, (replication, arm, reward), that are counted already."""
        last, runs, stretches, logdet, low = self._last, self._run, self._stretch, self.logdet, self._low
        for r, x, reward in pulls:
            g, g2, mean, width2 = self._g[r], self._g2[r], self.mean[r], self.width2[r]
            if x != last[r]:
                self.load_gain(r, x, runs[r], stretches[r])
                np.multiply(g, g, out=g2)
                last[r], runs[r], stretches[r] = x, 0, 1.0
            before, g_x = stretches[r], g.item(x)
            after = before + g_x
            daxpy(g, mean, a=(reward - mean.item(x)) / after)
            daxpy(g2, width2, a=-1.0 / (before * after))
            runs[r] += 1
            stretches[r] = after
            logdet[r] += math.log1p(g_x / before)
            left, limit = width2.item(x), low.item(r, x)
            if left < limit:
                np.maximum(width2, 0.0, out=width2)  # above that share rounding cannot make it negative
                since = self.pulls.item(r) - self._factored_at[r]
                if LOW_SHARE * left < least_share(since) * limit:
                    self.refactor(Replications.some(np.array([r]), self.width2))

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        self._g[r], self._last[r], self._run[r], self._stretch[r] = 0.0, -1, 0, 1.0
        self._low[r], self._factored_at[r] = LOW_SHARE * self.width2[r], int(self.pulls[r])

    @abstractmethod
    def load_gain(self, r: int, x: int, run: float, stretch: float) -> None:
        """Fold the finished run into the state of this form and write g of arm `x` into `_g[r]`."""

    def relearn(self, r: int, sums: Array, squares: float) -> None:
        pulled = np.flatnonzero(self.counts[r])
        if self.pending is not None or not (self.replay_at_once(r, pulled, sums) or self._replay(r, pulled, sums)):
            super().relearn(r, sums, squares)
        self.sums[r], self.squares[r] = sums, squares

    def replay_at_once(self, r: int, pulled: Array, sums: Array) -> bool:
        """As `_replay`, for all arms together; False unless it was done and is exact enough."""
        return False

    def _replay(self, r: int, pulled: Array, sums: Array) -> bool:
        """From the prior, learn the pulls of each arm as one run; False unless it was done and is exact enough."""
        if len(pulled) >= GRAM_BLOCK:
            return False
        arms = self.actions.dense(r)
        prior_width2 = np.vecdot(arms, arms) / self.ridge
        self.mean[r], self.width2[r], self.logdet[r] = 0.0, prior_width2, 0.0
        self.begin(r)
        g, mean, width2, run, stretch = self._g[r], self.mean[r], self.width2[r], 0, 1.0
        for x in pulled.tolist():
            self.load_gain(r, x, run, stretch)
            run, g_x = int(self.counts[r, x]), g.item(x)
            stretch = 1.0 + run * g_x
            mean += (sums.item(x) - run * mean.item(x)) / stretch * g
            width2 -= run / stretch * g * g
            self.logdet[r] += math.log1p(run * g_x)
        np.multiply(g, g, out=self._g2[r])
        self._last[r], self._run[r], self._stretch[r] = int(pulled[-1]), run, stretch
        self._begin_anew(r, 0.0, prior_width2, len(pulled))
        return bool((width2 >= least_share(len(pulled)) * prior_width2).all())

    def _begin_anew(self, r: int, error: float, prior_width2: Array, updates: int) -> None:
        self._error[r], self._widest[r] = error, float(prior_width2.max())
        self._low[r], self._factored_at[r] = LOW_SHARE * prior_width2, int(self.pulls[r]) - updates

    def shift(self, r: int, amount: float, squares: float) -> None:
        # The means are A V^-1 A^T s, so that s - amount n takes amount A V^-1 A^T n from them.
        # The difference of few rewards and their mean may be rounding alone, or large beside what pending pulls leave.
        if int(self.pulls[r]) < FEW_PULLS or self.pending is not None:
            super().shift(r, amount, squares)
            return
        counts, g = self.counts[r].astype(float), self._g[r]
        change = self.covariance_times(r, counts) - self._run[r] / self._stretch[r] * (g @ counts) * g
        self.mean[r] -= amount * change
        self.sums[r] -= amount * counts
        self.squares[r] = squares

    @abstractmethod
    def begin(self, r: int) -> None:
        """Set the state of this form in replication `r` to that before any pull."""

    @abstractmethod
    def covariance_times(self, r: int, counts: Array) -> Array:
        """A V^-1 A^T counts, V without the run under way."""


class HostGram(HostPosterior):
    """Ridge posterior held as a K x K matrix P (its lower triangle), built only when enough pulls have been made."""

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        count, arms = actions.replications, actions.arms
        self._p, self._h = np.zeros((count, arms, arms)), np.zeros((count, GRAM_BLOCK, arms))
        self._fill, self._built = [0] * count, [False] * count  # rows of H in use; whether P is built
        # While P is not built: P as of the last factorisation, P_0, is root^T root, or A A^T / ridge without a root.
        self._root: list[Array | None] = [None] * count
        # Where P need not be built (`lazy_gram`): full blocks of H, the rows of P_0 computed so far, and their arms.
        self._unfolded: list[Array | None] = [None] * count
        self._p0_rows: list[Array | None] = [None] * count
        self._p0_arms: list[list[int]] = [[] for _ in range(count)]
        self._most = 3 * actions.dim // 5  # rows of H up to which this is cheaper than to build P (measured)

    def load_gain(self, r: int, x: int, run: float, stretch: float) -> None:
        h, p, g, used = self._h[r], self._p[r], self._g[r], self._fill[r]
        if run:
            np.multiply(g, math.sqrt(run / stretch), out=h[used])
            used += 1
            if used == GRAM_BLOCK:
                if not self._keep_unfolded(r):
                    self._build(r)
                    rank_update(p, h, -1.0, 1.0)
                used = 0
            self._fill[r] = used
        unfolded = self._unfolded[r]
        if self._built[r]:
            g[:x] = p[x, :x]
            g[x:] = p[x:, x]
        elif self.lazy_gram:
            g[:] = self._p0_row(r, x)
            if unfolded is not None:
                dgemv(-1.0, unfolded.T, unfolded[:, x], beta=1.0, y=g, overwrite_y=1)
        else:
            self.actions.project_row(r, self.actions.vector(r, x) / self.ridge, g)
        if used:
            dgemv(-1.0, h[:used].T, h[:used, x], beta=1.0, y=g, overwrite_y=1)

    def _whiten_by_qr(self, arms: Array, n: Array, sums: Array, most: float) -> Factored:
        if self.lazy_gram and np.count_nonzero(n) <= self.actions.dim // 4 and qr_bound(arms, n, self.ridge) <= most:
            return whiten_by_qr_in_span(arms, n, sums, self.ridge)
        return super()._whiten_by_qr(arms, n, sums, most)

    def _build(self, r: int) -> None:
        """Build P, unless it is built already."""
        if not self._built[r]:
            root, unfolded = self._root[r], self._unfolded[r]
            if root is None:
                rank_update(self._p[r], self.actions.dense(r).T, 1.0 / self.ridge, 0.0)
            else:
                rank_update(self._p[r], root, 1.0, 0.0)
            if unfolded is not None:
                rank_update(self._p[r], unfolded, -1.0, 1.0)
            self.begin(r)
            self._built[r] = True

    def _keep_unfolded(self, r: int) -> bool:
        """Keep a full block of H in place of folding it into P, if that is cheaper; returns whether it was done."""
        unfolded = self._unfolded[r]
        count = GRAM_BLOCK if unfolded is None else GRAM_BLOCK + len(unfolded)
        if not self.lazy_gram or self._built[r] or count > self._most:
            return False
        self._unfolded[r] = self._h[r].copy() if unfolded is None else np.concatenate([unfolded, self._h[r]])
        return True

    def _p0_row(self, r: int, x: int) -> Array:
        """Row of P_0, computed when first asked for."""
        arms, rows, root = self._p0_arms[r], self._p0_rows[r], self._root[r]
        if rows is None:
            self._p0_rows[r] = rows = np.zeros((GRAM_BLOCK, self.actions.arms))
        if x in arms:
            return rows[arms.index(x)]
        if len(arms) == len(rows):  # room for as many again
            self._p0_rows[r] = rows = np.concatenate([rows, np.zeros_like(rows)])
        row: Array = rows[len(arms)]
        if root is None:
            self.actions.project_row(r, self.actions.vector(r, x) / self.ridge, row)
        else:
            np.matmul(root[:, x], root, out=row)
        arms.append(x)
        return row

    def replay_at_once(self, r: int, pulled: Array, sums: Array) -> bool:
        # With K = A A^T / ridge, K_p its rows of the arms pulled n times each, and S = K_pp + 1/n = L L^T, Woodbury's
        # identity says A V^-1 A^T = K - H^T H with H = L^-1 K_p, and means H^T L^-1 (sums / n).
        if not self.lazy_gram or len(pulled) > self._most:
            return False
        arms, n = self.actions.dense(r), self.counts[r][pulled].astype(float)
        prior_width2 = np.vecdot(arms, arms) / self.ridge
        error = EPSILON * float(n.max() * prior_width2.max())
        if error > FACTOR_ERROR:
            return False
        rows = arms[pulled] @ arms.T
        rows /= self.ridge
        factor = np.linalg.cholesky(rows[:, pulled] + np.diag(1.0 / n))
        h = np.ascontiguousarray(solve_triangular(factor, rows, lower=True))
        self.width2[r] = prior_width2 - np.square(h).sum(axis=0)
        self.mean[r] = solve_triangular(factor, sums[pulled] / n, lower=True) @ h
        self.logdet[r] = 2.0 * np.log(np.diag(factor)).sum() + np.log(n).sum()
        self.begin(r)
        self._unfolded[r], self._p0_rows[r], self._p0_arms[r] = h, rows, pulled.tolist()
        self._g[r], self._last[r], self._run[r], self._stretch[r] = 0.0, -1, 0, 1.0
        self._begin_anew(r, error, prior_width2, len(pulled))
        return bool((self.width2[r] >= least_share(len(pulled)) * prior_width2).all())

    def begin(self, r: int) -> None:
        self._fill[r], self._built[r], self._root[r] = 0, False, None
        self._unfolded[r] = self._p0_rows[r] = None
        self._p0_arms[r] = []

    def covariance_times(self, r: int, counts: Array) -> Array:
        h, root = self._h[r, : self._fill[r]], self._root[r]
        if self._built[r]:
            product = dsymv(1.0, self._p[r].T, counts, lower=0)
        elif root is not None:
            product = (root @ counts) @ root
        else:
            product = np.empty(len(counts))
            self.actions.project_row(r, sum_of_pulled(self.actions.dense(r), counts) / self.ridge, product)
        if (unfolded := self._unfolded[r]) is not None:
            product -= (unfolded @ counts) @ unfolded
        return product - h.T @ (h @ counts)

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        super().restart(r, factor, whitened)
        self._h[r] = 0.0
        self.begin(r)
        # In one order in memory: it may be saved, and in another its products would have other last bits.
        self._root[r] = np.ascontiguousarray(whitened) if self.lazy_gram else whitened
        if not self.lazy_gram:
            self._build(r)


def rank_update(p: Array, rows: Array, alpha: float, beta: float) -> None:
    """Lower triangle of p = beta p + alpha rows^T rows, in place."""
    # rows is C- or Fortran-contiguous; either way syrk reads it in place.
    if rows.flags.c_contiguous:
        dsyrk(alpha, rows.T, beta=beta, c=p.T, overwrite_c=1, lower=0)
    else:
        dsyrk(alpha, rows, beta=beta, c=p.T, overwrite_c=1, lower=0, trans=1)


def sum_of_pulled(arms: Array, counts: Array) -> Array:
    """A^T counts, from the arms that were pulled."""
    pulled = np.flatnonzero(counts)
    return counts[pulled] @ arms[pulled]


MAX_INVERSE_TO_WIDTH = 1e5  # 100,000 updates of V^-1 add up to 7e-14 of its size (eps sqrt(n))


class HostFeature(HostPosterior):
    """Ridge posterior held as a d x d matrix."""

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        super().__init__(actions, ridge)
        self._w = np.stack([np.eye(actions.dim) / self.ridge] * actions.replications)  # lower triangles are current
        self._u = np.zeros((actions.replications, actions.dim))
        self._whitened: list[Array | None] = [None] * actions.replications  # L^-1 A^T, where V^-1 is not exact enough
        self.streamed = streamed_bytes("feature", actions.base_arms, actions.dim)

    def load_gain(self, r: int, x: int, run: float, stretch: float) -> None:
        w = self._w[r].T  # Fortran order for BLAS: its upper triangle is our lower
        u = self._u[r]
        if run:
            dsyr(-run / stretch, u, a=w, overwrite_a=1, lower=0)
        whitened = self._whitened[r]
        vector = self.actions.vector(r, x) if whitened is None else whitened[:, x]
        dsymv(1.0, w, vector, beta=0.0, y=u, overwrite_y=1, lower=0)
        if whitened is None:
            self.actions.project_row(r, u, self._g[r])
        else:
            np.matmul(u, whitened, out=self._g[r])

    def begin(self, r: int) -> None:
        self._w[r], self._u[r], self._whitened[r] = np.eye(self.actions.dim) / self.ridge, 0.0, None

    def covariance_times(self, r: int, counts: Array) -> Array:
        w, whitened, product = self._w[r].T, self._whitened[r], np.empty(len(counts))
        if whitened is None:
            total = sum_of_pulled(self.actions.dense(r), counts)
            self.actions.project_row(r, dsymv(1.0, w, total, lower=0), product)
        else:
            np.matmul(dsymv(1.0, w, whitened @ counts, lower=0), whitened, out=product)
        return product

    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        super().restart(r, factor, whitened)
        root = None if factor is None else np.linalg.inv(factor)
        if root is not None and not self._is_inexact(r, root, whitened):
            self._whitened[r], self._w[r] = None, root.T @ root
            # Rounding is that of V^-1, which may be large where no arm is pulled, however narrow the arms are.
            rounded = np.square(self.actions.dense(r)) @ np.square(root).sum(axis=0)
            self._low[r] = LOW_SHARE * np.maximum(self.width2[r], rounded)
        else:
            self._whitened[r], self._w[r] = np.ascontiguousarray(whitened), np.eye(self.actions.dim)
        self._u[r] = 0.0

    def _is_inexact(self, r: int, root: Array, whitened: Array) -> bool:
        """Whether V^-1 is so large in some directions that its rounding matters in the smallest width pulled."""
        pulled = self.counts[r] > 0
        if not pulled.any():
            return False
        largest = np.square(root).sum(axis=0).max() * self.actions.squared_norms()[r].max()
        return bool(largest > MAX_INVERSE_TO_WIDTH * np.square(whitened[:, pulled]).sum(axis=0).min())
