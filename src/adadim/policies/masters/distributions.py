"""How a master spreads its trust: the log-barrier update of Corral, and EXP3.P."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from adadim.backend.arrays import Array, indices, is_numpy, like, namespace
from adadim.backend.kernels import log_barrier_kernel
from adadim.backend.rows import Rows

__all__ = ["Exp3P", "LogBarrier", "MasterDistribution", "exploration_rate", "log_barrier_step"]

ACCURACY = 1e-13
MAX_STEPS = 200
FIXED_STEPS = 16  # on torch, where asking whether all have settled would stop the device; 15 were the most ever seen
HOST = np.zeros(0)


def log_barrier_step(p: Array, losses: Array, eta: Array) -> tuple[Array, Array]:
    """One step of online mirror descent with the log-barrier, for n distributions at once.

    Finds lambda with sum_i 1 / (1/p_i + eta_i (l_i - lambda)) = 1 and returns those summands, and lambda. With f the
    sum, h = 1/f is concave and decreasing up to the pole of f, and 0 there: Newton's method on h needs no care
    at the pole, where f is infinite, and falls back to bisection of a bracket of the root.

    Parameters
    ----------
    p, losses, eta : array (n, M)
        Distributions, losses and learning rates.

    Returns
    -------
    array (n, M), array (n,)

    Examples
    --------
    >>> import numpy as np
    >>> p, multiplier = log_barrier_step(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]), np.ones((1, 2)))
    >>> p.round(6), multiplier.round(6)
    (array([[0.381966, 0.618034]]), array([0.381966]))
    """
    kernel = log_barrier_kernel(p)
    if kernel is not None:
        return kernel(p, losses, eta, ACCURACY, MAX_STEPS)  # type: ignore[no-any-return]
    xp = namespace(p)
    inverse = 1.0 / p
    pole = xp.min(losses + inverse / eta, axis=-1)
    low, high = xp.min(losses, axis=-1), xp.minimum(xp.max(losses, axis=-1), pole)
    multiplier = low + 0.0
    eager = is_numpy(p)
    for _ in range(MAX_STEPS if eager else FIXED_STEPS):
        slack = inverse + eta * (losses - multiplier[:, None])
        terms = 1.0 / slack
        total = xp.sum(terms, axis=-1)
        settled = xp.abs(total - 1.0) <= ACCURACY
        if eager and settled.all():
            break
        below = total < 1.0  # f increases: the root lies above
        low, high = xp.where(below, multiplier, low), xp.where(below, high, multiplier)
        # h = 1/f: Newton step (h - 1) / (-h') with h' = -f'/f^2, f' = sum eta / slack^2.
        step = total * (1.0 - total) / xp.sum(eta * terms * terms, axis=-1)
        proposal = multiplier + step
        inside = (proposal > low) & (proposal < high)
        # A settled row stays put: its last bit must not depend on the rows beside it.
        following = xp.where(settled, multiplier, xp.where(inside, proposal, 0.5 * (low + high)))
        if eager and (following == multiplier).all():
            break
        multiplier = following
    return terms / total[:, None], multiplier


class MasterDistribution(Protocol):
    """Probabilities over M bases in each replication, moved by losses in [0, 1] (or sums of two)."""

    def probabilities(self, rows: Rows) -> Array:
        """Sampling probabilities (n, M)."""
        ...

    def update(self, chosen: Array, losses: Array, rows: Rows) -> None:
        """Learn the loss of the base that was sampled."""
        ...


class LogBarrier:
    """Corral's master (Agarwal et al. 2017): log-barrier mirror descent with rising learning rates.

    Parameters
    ----------
    replications, bases : int
        R and M.
    eta : float
        Initial learning rate.
    horizon : int
        Number of master rounds; at least 3 is used.
    reference : array
        An array of the library and on the device to use.
    """

    def __init__(self, replications: int, bases: int, eta: float, horizon: int, reference: Array = HOST) -> None:
        horizon = max(3, horizon)
        self.gamma = 1.0 / horizon
        self.growth = math.exp(1.0 / math.log(horizon))
        self.p = like(np.full((replications, bases), 1.0 / bases), reference)
        self.pbar = self.p + 0.0
        self.eta = self.p * 0.0 + eta
        self.rho = self.p * 0.0 + 2.0 * bases

    def probabilities(self, rows: Rows) -> Array:
        return rows.of(self.pbar)

    def update(self, chosen: Array, losses: Array, rows: Rows) -> None:
        xp, pbar = namespace(self.p), rows.of(self.pbar)
        at = (indices(pbar), chosen)
        estimate = xp.zeros_like(pbar)
        estimate[at] = losses / pbar[at]
        p, _ = log_barrier_step(rows.of(self.p), estimate, rows.of(self.eta))
        pbar = (1.0 - self.gamma) * p + self.gamma / p.shape[1]
        rows.put(self.p, p)
        rows.put(self.pbar, pbar)
        rho, eta = rows.of(self.rho), rows.of(self.eta)
        rare = 1.0 / pbar > rho
        rows.put(self.rho, xp.where(rare, 2.0 / pbar, rho))
        rows.put(self.eta, xp.where(rare, self.growth * eta, eta))


def exploration_rate(rounds: int, bases: int, base_regret: float | None = None) -> float:
    """The single rate q of EXP3.P in Pacchiano et al. (2020): T^(-1/3), T being the rounds of the master.

    With a known base regret c sqrt(t) it is T^(-1/3) M^(-2/3) c^(2/3).

    Examples
    --------
    >>> round(exploration_rate(1000, 4), 6), round(exploration_rate(1000, 4, base_regret=1.0), 6)
    (0.1, 0.039685)
    """
    rate: float = rounds ** (-1 / 3)
    if base_regret is not None:
        rate *= (base_regret / bases) ** (2 / 3)
    return min(1.0, rate)


class Exp3P:
    """EXP3.P: exponential weights on optimistic gain estimates, mixed with the uniform distribution.

    Parameters
    ----------
    replications, bases, horizon : int
        R, M and the number of master rounds.
    eta, gamma, bias : float, optional
        Learning rate, uniform mass and bias of the estimates; the textbook's tuning by default.
    reference : array
        An array of the library and on the device to use.
    """

    def __init__(
        self,
        replications: int,
        bases: int,
        horizon: int,
        eta: float | None = None,
        gamma: float | None = None,
        bias: float | None = None,
        reference: Array = HOST,
    ) -> None:
        rate = math.sqrt(math.log(max(bases, 2)) / (horizon * bases))
        self.eta = 0.95 * rate if eta is None else eta
        self.gamma = min(1.0, 1.05 * bases * rate) if gamma is None else gamma
        self.bias = rate if bias is None else bias
        self.gains = like(np.zeros((replications, bases)), reference)

    def probabilities(self, rows: Rows) -> Array:
        xp, weights = namespace(self.gains), self.eta * rows.of(self.gains)
        weights = xp.exp(weights - xp.max(weights, axis=-1)[:, None])
        weights = weights / xp.sum(weights, axis=-1)[:, None]
        return (1.0 - self.gamma) * weights + self.gamma / weights.shape[1]

    def update(self, chosen: Array, losses: Array, rows: Rows) -> None:
        p = self.probabilities(rows)
        gain = p * 0.0 + self.bias
        gain[indices(p), chosen] += 1.0 - losses
        rows.put(self.gains, rows.of(self.gains) + gain / p)
