"""The ridge regression where features come with each round, on torch: all replications at once; see `context`.

A pull is a fixed sequence of operations on fixed memory, so that a round can be recorded and replayed.
"""

from __future__ import annotations

import math

import numpy as np

from adadim.backend.arrays import Array, device_of, namespace, zeros
from adadim.backend.recording import on_host
from adadim.backend.rows import MaskedRows, Rows
from adadim.checks import positive
from adadim.posterior.context import REFRESH
from adadim.posterior.late import CountsOpenPulls

__all__ = ["DeviceContextPosterior"]


class DeviceContextPosterior(CountsOpenPulls):
    """`ContextPosterior` on torch; parameters and attributes as there.

    Parameters
    ----------
    reference : array (R, ...)
        A tensor on the device to use.
    dim : int
        Number of features d.
    ridge : float
        Regularisation lambda of the least squares.
    """

    def __init__(self, reference: Array, dim: int, ridge: float) -> None:
        self.dim, self.ridge = dim, positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        count, xp = int(reference.shape[0]), namespace(reference)
        identity = xp.eye(dim, dtype=xp.float64, device=device_of(reference))
        self.inverse = (identity / ridge).repeat(count, 1, 1)
        self._second = zeros(reference, count, dim, dim)
        self.theta, self._b = zeros(reference, count, dim), zeros(reference, count, dim)
        self.squares, self.logdet = zeros(reference, count), zeros(reference, count)
        self.pulls = zeros(reference, count, integers=True)
        self.everyone = Rows.all(reference)
        self._since = 0

    def predict(self, features: Array, rows: Rows) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered, (n, K_t); open pulls count in the width."""
        xp, inverse = namespace(features), (self if self.asked is None else self.asked).inverse
        width2 = xp.sum(xp.matmul(features, rows.of(inverse)) * features, axis=-1).clamp_(min=0.0)
        return xp.matmul(features, rows.of(self.theta)[..., None])[..., 0], width2

    def without_rewards(self) -> DeviceContextPosterior:
        same = DeviceContextPosterior(self.theta, self.dim, self.ridge)
        same._second.copy_(self._second)
        same.refresh()
        return same

    def answer(self, x: Array, rewards: Array, rows: Rows) -> None:
        """Learn from one pull in each replication of `rows`: features (n, d) and rewards (n,)."""
        xp = namespace(x)
        masked, rewards = rows.masked(rewards)
        if not (rows.everyone or isinstance(rows, MaskedRows)):
            x = (self.theta * 0.0).index_copy_(0, rows.positions, x)
        u = xp.matmul(self.inverse, x[..., None])[..., 0]
        here = xp.sum(x * u, axis=-1)
        c = masked.mask / (1.0 + here)
        self.theta.addcmul_((c * (rewards - xp.sum(x * self.theta, axis=-1)))[:, None], u)
        self.inverse.baddbmm_((c[:, None] * u)[:, :, None], u[:, None, :], alpha=-1.0)
        gone = x * masked.mask[:, None]
        self._second.baddbmm_(gone[:, :, None], gone[:, None, :])
        self._b.addcmul_(rewards[:, None], gone)
        self.squares += masked.mask * rewards * rewards
        self.logdet += masked.mask * xp.log1p(here)
        self.pulls += masked.mask
        on_host(self._count)

    def _count(self) -> None:
        self._since += 1
        if self._since == REFRESH:
            self.refresh()

    def refresh(self) -> None:
        """Make V^-1 and theta anew from the moments, which wipes out rounding."""
        xp = namespace(self.theta)
        identity = xp.eye(self.dim, dtype=xp.float64, device=device_of(self.theta))
        matrix = self._second + self.ridge * identity
        factor, failed = xp.linalg.cholesky_ex(matrix)
        if bool(failed.any()):  # the ridge is lost in the rounding of huge features
            rounding = 4 * self.dim * np.finfo(float).eps
            factor = xp.linalg.cholesky(matrix + rounding * xp.diag_embed(xp.linalg.diagonal(matrix)))
        root = xp.linalg.solve(factor, identity.expand(factor.shape))
        self.inverse.copy_(xp.matmul(xp.matrix_transpose(root), root))
        self.theta.copy_(xp.matmul(self.inverse, self._b[..., None])[..., 0])
        logs = xp.sum(xp.log(xp.linalg.diagonal(factor)), axis=-1)
        self.logdet.copy_(2.0 * logs - self.dim * math.log(self.ridge))
        self._since = 0
