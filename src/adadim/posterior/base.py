"""What all posteriors share: the state that policies read, and how to make it from counts and sums.

With V = ridge I + sum a a^T over the pulled arms, pulling arm x with reward r changes everything through one vector,
g = A V^-1 a_x:

    c = 1 / (1 + g_x);   mean += c (r - mean_x) g;   width^2 -= c g^2;   logdet += ln(1 + g_x).

A form of the posterior only has to find g. NumPy goes one replication at a time through BLAS (`host`), other libraries
take all replications at once (`device`).
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.linalg import qr_multiply, solve_triangular

from adadim.actions import ActionSet
from adadim.backend.arrays import Array, as_numpy, device_of, is_numpy, zeros
from adadim.backend.rows import Rows
from adadim.checks import positive
from adadim.errors import InvalidValueError
from adadim.posterior.factor import forward_solve
from adadim.posterior.late import CountsOpenPulls

__all__ = ["Posterior", "check_precision"]

EPSILON = float(np.finfo(float).eps)

# What rounding may be. V has eigenvalues from the ridge to n |a|^2, so that a Cholesky factor of it is wrong by about
# EPSILON n |a|^2 / ridge, and the QR factor of its root by the root of that: QR takes over where Cholesky is not exact.
CHOLESKY_ERROR = 1e-9
LARGEST_ERROR = 0.1  # of the bound for QR; seen is 1e-9 or less (tests/posterior/test_precision.py)
LARGEST_DEVICE_ERROR = 1e-3  # of the bound for Cholesky: what runs on a device is not refactored
ENDLESS = 10**6  # rounds


def check_precision(actions: ActionSet, ridge: float, horizon: int | None, width2: Array | None = None) -> None:
    """Raise unless float64 can hold the ridge next to what `horizon` pulls of the longest arm add up to.

    Where there is no end (None), a million pulls are looked at. `width2` are the squared widths before any pull, where
    they are known.

    Examples
    --------
    >>> check_precision(ActionSet(np.eye(3)), ridge=0.1, horizon=1000)
    """
    horizon = ENDLESS if horizon is None else horizon
    ratio = horizon * float(actions.xp.max(actions.squared_norms() / ridge if width2 is None else width2))
    on_host = is_numpy(actions.base)
    if not (EPSILON * np.sqrt(ratio) <= LARGEST_ERROR if on_host else EPSILON * ratio <= LARGEST_DEVICE_ERROR):
        columns = as_numpy(abs(actions.base)).max(axis=(0, 1))
        large = ", ".join(map(str, np.flatnonzero(columns > 0.1 * columns.max())[:5].tolist()))
        raise InvalidValueError(
            f"float64 {'' if on_host else 'on a device '}cannot hold a ridge of {ridge:g} next to features as large as "
            f"{columns.max():.3g} (columns {large}) over {horizon} rounds; divide these columns by their size, or use "
            f"{'' if on_host else 'NumPy arrays or '}adadim.recommended(problem), which does"
        )


class Posterior(CountsOpenPulls):
    """Exact ridge regression seen from the arms.

    Parameters
    ----------
    actions : ActionSet
        The arms.
    ridge : float
        Regularisation lambda of the least squares.

    Attributes
    ----------
    mean : array (R, K)
        Estimated mean reward <a, theta_hat> of every arm.
    width2 : array (R, K)
        Squared width a^T V^-1 a of every arm.
    counts, sums : array (R, K)
        Pulls of every arm and the sum of its rewards; they determine all the rest (see `rebuild`).
    pulls : array (R,)
        Pulls of all arms together.
    squares : array (R,)
        Sum of all squared rewards; not a number after a rebuild that did not say.
    logdet : array (R,)
        ln det(V / ridge).
    streamed : int
        Bytes that a pull of another arm reads for each replication.
    """

    streamed = 0

    def __init__(self, actions: ActionSet, ridge: float) -> None:
        self.actions = actions
        self.ridge = positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        base, shape = actions.base, (actions.replications, actions.arms)
        self.mean, self.width2 = self.prior()
        self.sums, self.counts = zeros(base, *shape), zeros(base, *shape, integers=True)
        self.logdet, self.pulls = zeros(base, shape[0]), zeros(base, shape[0], integers=True)
        self.squares = zeros(base, shape[0])
        self.everyone = Rows.all(base)

    def prior(self) -> tuple[Array, Array]:
        """Mean and squared width of every arm before any pull, as arrays to be kept up to date."""
        actions = self.actions
        return zeros(actions.base, actions.replications, actions.arms), actions.squared_norms() / self.ridge

    @property
    def open_width2(self) -> Array:
        """Squared width of every arm, (R, K), in which pulls count whose rewards are not known yet."""
        return self.width2 if self.asked is None else self.asked.width2

    def without_rewards(self) -> Posterior:
        same = type(self)(self.actions, self.ridge)
        same.rebuild(self.counts, self.sums * 0.0, self.everyone)
        return same

    def rebuild(self, counts: Array, sums: Array, rows: Rows, squares: Array | None = None) -> None:
        """Set the state to what `counts` pulls with reward `sums` per arm lead to, by a factorisation.

        The order of the pulls is immaterial. Use it to start from data gathered in other dimensions, or to wipe out
        rounding. Only `squares`, the sums of squared rewards, cannot be found from counts and sums. Pulls that are not
        answered yet stay so.
        """
        xp = self.actions.xp
        if self.asked is not None:
            unanswered = rows.of(self.asked.counts) - rows.of(self.counts)
            self.asked.rebuild(counts + unanswered, sums * 0.0, rows)
        for i, r in enumerate(rows.ids.tolist()):
            arms, n = self.actions.dense(r), xp.astype(counts[i], xp.float64)
            factor, whitened, weights, logdet = self._factored(arms, n, sums[i])
            self.width2[r] = xp.sum(whitened * whitened, axis=0)  # V^-1 = L^-T L^-1, so width^2 = |L^-1 a|^2
            self.mean[r] = whitened.T @ weights
            self.logdet[r] = logdet - self.actions.dim * np.log(self.ridge)
            self.counts[r], self.sums[r] = counts[i], sums[i]
            self.pulls[r] = xp.sum(counts[i])
            self.squares[r] = np.nan if squares is None else squares[i]
            self.restart(r, factor, whitened)

    def _factored(self, arms: Array, n: Array, sums: Array) -> tuple[Array | None, Array, Array, Array]:
        """Cholesky factor L of V, L^-1 A^T, L^-1 A^T s and ln det V; where QR is needed no L, and the rest turned."""
        xp = self.actions.xp
        if is_numpy(arms) and EPSILON * n.sum() * float(np.vecdot(arms, arms).max()) / self.ridge > CHOLESKY_ERROR:
            return None, *_whitened(arms, n, sums, self.ridge)
        identity = xp.eye(self.actions.dim, dtype=xp.float64, device=device_of(arms))
        if is_numpy(arms) and not n.any():  # V is the ridge alone: the bits that the solve below would give
            root = np.sqrt(self.ridge)
            factor, whitened = root * identity, np.multiply(arms.T, 1.0 / root, order="F")
        else:
            factor = xp.linalg.cholesky(self.ridge * identity + arms.T @ (n[:, None] * arms))
            whitened = forward_solve(factor, arms.T)
        return factor, whitened, whitened @ sums, 2.0 * xp.sum(xp.log(xp.linalg.diagonal(factor)))

    @abstractmethod
    def restart(self, r: int, factor: Array | None, whitened: Array) -> None:
        """Set the form's own state in replication `r` from the Cholesky factor L of V, if there is one, and L^-1 A^T.

        Without it `whitened` is L^-1 A^T up to a rotation, which does not change any inner product of its columns.
        """


def _whitened(arms: Array, n: Array, sums: Array, ridge: float) -> tuple[Array, Array, Array]:
    """M^-T A^T and M^-T A^T s for a root M of V = M^T M, and ln det V, by QR of the root that the data are.

    Rows sorted by size and columns pivoted make the error of each row small against that row (Cox and Higham 1998,
    "Stability of Householder QR factorization for weighted least squares problems").
    """
    pulled, dim = np.flatnonzero(n), arms.shape[1]
    root = np.sqrt(n[pulled])
    data = np.concatenate([root[:, None] * arms[pulled], np.sqrt(ridge) * np.eye(dim)])
    order = np.argsort(-np.abs(data).max(axis=1), kind="stable")
    means = np.concatenate([sums[pulled] / root, np.zeros(dim)])
    weights, triangle, columns = qr_multiply(data[order], means[order], pivoting=True)
    whitened = solve_triangular(triangle, arms[:, columns].T, trans="T")
    return whitened, weights, 2.0 * np.sum(np.log(np.abs(np.diag(triangle))))
