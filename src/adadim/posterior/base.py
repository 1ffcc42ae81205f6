"""What all posteriors share: the state that policies read, and how to make it from counts and sums.

With V = ridge I + sum a a^T over the pulled arms, pulling arm x with reward r changes everything through one vector,
g = A V^-1 a_x:

    c = 1 / (1 + g_x);   mean += c (r - mean_x) g;   width^2 -= c g^2;   logdet += ln(1 + g_x).

A form of the posterior only has to find g. NumPy goes one replication at a time through BLAS (`host`), other libraries
take all replications at once (`device`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from adadim.actions import ActionSet
from adadim.backend.arrays import Array, as_numpy, device_of, zeros
from adadim.backend.rows import Rows
from adadim.checks import positive
from adadim.errors import InvalidValueError

__all__ = ["Posterior", "check_precision"]

LEAST_PRECISION = 0.1  # share of the ridge that rounding may be
ENDLESS = 10**6  # rounds


def check_precision(actions: ActionSet, ridge: float, horizon: int | None) -> None:
    """Raise unless float64 can hold the ridge next to what `horizon` pulls of the longest arm add up to.

    Where there is no end (None), a million pulls are looked at.

    Examples
    --------
    >>> check_precision(ActionSet(np.eye(3)), ridge=0.1, horizon=1000)
    """
    horizon = ENDLESS if horizon is None else horizon
    longest = float(actions.xp.max(actions.squared_norms()))
    if not np.finfo(float).eps * horizon * longest / ridge <= LEAST_PRECISION:
        columns = as_numpy(abs(actions.base)).max(axis=(0, 1))
        large = np.flatnonzero(columns > 0.1 * columns.max())[:5].tolist()
        raise InvalidValueError(
            f"float64 cannot hold a ridge of {ridge:g} next to features as large as {columns.max():.3g} (columns "
            f"{', '.join(map(str, large))}) over {horizon} rounds; divide these columns by their size, or use "
            "adadim.recommended(problem), which does"
        )


class Posterior(ABC):
    """Exact ridge regression seen from the arms.

    Parameters
    ----------
    actions : ActionSet
        The arms.
    ridge : float
        Regularisation lambda of the least squares. Rounding errors grow as 1e-15 / ridge: means and widths are exact to
        1e-8 for a ridge of 1e-5 or more.

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

    @abstractmethod
    def absorb(self, arms: Array, rewards: Array, rows: Rows) -> None:
        """Learn from one pull in each replication of `rows`."""

    def rebuild(self, counts: Array, sums: Array, rows: Rows, squares: Array | None = None) -> None:
        """Set the state to what `counts` pulls with reward `sums` per arm lead to, by a Cholesky factorisation.

        The order of the pulls is immaterial. Use it to start from data gathered in other dimensions, or to wipe out
        rounding. Only `squares`, the sums of squared rewards, cannot be found from counts and sums.
        """
        xp = self.actions.xp
        for i, r in enumerate(rows.ids.tolist()):
            arms, n = self.actions.dense(r), xp.astype(counts[i], xp.float64)
            identity = xp.eye(self.actions.dim, dtype=xp.float64, device=device_of(arms))
            factor = xp.linalg.cholesky(self.ridge * identity + arms.T @ (n[:, None] * arms))
            whitened = xp.linalg.solve(factor, arms.T)  # V^-1 = L^-T L^-1, so width^2 = |L^-1 a|^2
            self.width2[r] = xp.sum(whitened * whitened, axis=0)
            self.mean[r] = whitened.T @ (whitened @ sums[i])
            self.logdet[r] = 2.0 * xp.sum(xp.log(xp.linalg.diagonal(factor))) - self.actions.dim * np.log(self.ridge)
            self.counts[r], self.sums[r] = counts[i], sums[i]
            self.pulls[r] = xp.sum(counts[i])
            self.squares[r] = np.nan if squares is None else squares[i]
            self.restart(r, factor, whitened)

    @abstractmethod
    def restart(self, r: int, factor: Array, whitened: Array) -> None:
        """Set the form's own state in replication `r` from the Cholesky factor L of V and L^-1 A^T."""
