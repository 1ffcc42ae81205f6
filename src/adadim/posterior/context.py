"""The ridge regression where features come with each round: V^-1 itself, applied to what is offered.

With V = ridge I + sum x x^T over the features pulled and b = sum r x, pulling x with reward r changes

    u = V^-1 x;   c = 1 / (1 + x^T u);   theta += c (r - x^T theta) u;   V^-1 -= c u u^T;   logdet += ln(1 + x^T u).

V and b are kept too: every `REFRESH` pulls V^-1 and theta are made anew from them, which wipes out rounding.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dger, dsymv, dsyr

from adadim.backend.arrays import Array
from adadim.backend.rows import Rows
from adadim.checks import positive
from adadim.posterior.moments import Moments

__all__ = ["ContextPosterior"]

REFRESH = 500  # pulls; the d^3 of a factorisation are then d^3 / 500 a pull


class ContextPosterior:
    """Exact ridge regression on features that are new each round (NumPy).

    Parameters
    ----------
    replications, dim : int
        R and the number of features d.
    ridge : float
        Regularisation lambda of the least squares.

    Attributes
    ----------
    theta : array (R, d)
        Estimated parameter V^-1 b.
    inverse : array (R, d, d)
        V^-1, symmetric.
    second, b : array (R, d, d), (R, d)
        sum x x^T (lower triangle) and sum r x over the pulls.
    squares, logdet : array (R,)
        Sum of squared rewards; ln det(V / ridge).
    pulls : array (R,)
        Number of pulls.

    Examples
    --------
    >>> state = ContextPosterior(1, 2, ridge=1.0)
    >>> rows = Rows.all(state.theta)
    >>> state.absorb(np.array([[1.0, 0.0]]), np.array([3.0]), rows)
    >>> mean, width2 = state.predict(np.array([[[1.0, 0.0], [0.0, 2.0]]]), rows)
    >>> mean, width2
    (array([[1.5, 0. ]]), array([[0.5, 4. ]]))
    """

    def __init__(self, replications: int, dim: int, ridge: float) -> None:
        self.ridge = np.full(replications, positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1"))
        self.dim = dim
        self.inverse = np.stack([np.eye(dim) / ridge] * replications)
        self.theta, self.b = np.zeros((replications, dim)), np.zeros((replications, dim))
        self.second = np.zeros((replications, dim, dim))
        self.squares, self.logdet = np.zeros(replications), np.zeros(replications)
        self.pulls = np.zeros(replications, dtype=np.int64)

    def predict(self, features: Array, rows: Rows) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered, (n, K_t)."""
        width2 = np.vecdot(features @ rows.of(self.inverse), features)
        np.maximum(width2, 0.0, out=width2)
        return (features @ rows.of(self.theta)[..., None])[..., 0], width2

    def absorb(self, x: Array, rewards: Array, rows: Rows) -> None:
        """Learn from one pull in each replication of `rows`: features (n, d) and rewards (n,)."""
        for r, vector, reward in zip(rows.ids.tolist(), np.ascontiguousarray(x), rewards.tolist(), strict=True):
            self._absorb(r, vector, reward)

    def _absorb(self, r: int, x: Array, reward: float) -> None:
        w, theta = self.inverse[r], self.theta[r]
        u = w @ x
        scale = 1.0 + float(x @ u)
        theta += ((reward - float(x @ theta)) / scale) * u
        dger(-1.0 / scale, u, u, a=w.T, overwrite_x=0, overwrite_y=0, overwrite_a=1)
        dsyr(1.0, x, a=self.second[r].T, overwrite_a=1, lower=0)
        self.b[r] += reward * x
        self.squares[r] += reward * reward
        self.logdet[r] += math.log(scale)
        self.pulls[r] += 1
        if self.pulls[r] % REFRESH == 0:
            self.refresh(r, float(self.ridge[r]))

    def restart(self, r: int, sums: Moments, weights: Array | None = None) -> None:
        """Set the moments of a replication to given sums, of features to be multiplied by `weights`; then `refresh`."""
        self.second[r], self.b[r] = sums.seen(self.dim, weights)
        self.squares[r], self.pulls[r] = sums.squares, round(sums.weight)

    def residual(self, r: int) -> float:
        """Regularised sum of squared residuals, sum r^2 - b^T V^-1 b."""
        return max(float(self.squares[r] - self.b[r] @ self.theta[r]), 0.0)

    def forget(self, r: int) -> None:
        """Forget all pulls of a replication."""
        self.inverse[r] = np.eye(self.dim) / self.ridge[r]
        for moments in (self.theta, self.b, self.second, self.squares, self.logdet, self.pulls):
            moments[r] = 0

    def refresh(self, r: int, ridge: float) -> None:
        """Make V^-1 and theta of a replication anew from its moments, with this ridge."""
        identity = np.eye(self.dim)
        factor = cho_factor(self.second[r] + ridge * identity, lower=True)
        inverse = cho_solve(factor, identity)
        self.inverse[r] = 0.5 * (inverse + inverse.T)
        self.theta[r] = dsymv(1.0, self.inverse[r], self.b[r])
        self.logdet[r] = 2.0 * np.log(np.diag(factor[0])).sum() - self.dim * math.log(ridge)
        self.ridge[r] = ridge
