"""How a master spreads its trust: the log-barrier update of Corral, and EXP3.P."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

__all__ = ["Exp3P", "LogBarrier", "MasterDistribution", "log_barrier_step"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntArray = np.ndarray[Any, np.dtype[np.int64]]

ACCURACY = 1e-13
MAX_STEPS = 200


def log_barrier_step(p: FloatArray, losses: FloatArray, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
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
    inverse = 1.0 / p
    pole = (losses + inverse / eta).min(axis=-1)
    low, high = losses.min(axis=-1), np.minimum(losses.max(axis=-1), pole)
    multiplier = low.copy()
    for _ in range(MAX_STEPS):
        slack = inverse + eta * (losses - multiplier[:, None])
        terms = 1.0 / slack
        total = terms.sum(axis=-1)
        settled = np.abs(total - 1.0) <= ACCURACY
        if settled.all():
            break
        below = total < 1.0  # f increases: the root lies above
        low, high = np.where(below, multiplier, low), np.where(below, high, multiplier)
        # h = 1/f: Newton step (h - 1) / (-h') with h' = -f'/f^2, f' = sum eta / slack^2.
        step = total * (1.0 - total) / (eta * terms * terms).sum(axis=-1)
        proposal = multiplier + step
        inside = (proposal > low) & (proposal < high)
        # A settled row stays put: its last bit must not depend on the rows beside it.
        following = np.where(settled, multiplier, np.where(inside, proposal, 0.5 * (low + high)))
        if (following == multiplier).all():
            break
        multiplier = following
    return terms / total[:, None], multiplier


class MasterDistribution(Protocol):
    """Probabilities over M bases in each replication, moved by losses in [0, 1] (or sums of two)."""

    def probabilities(self, rows: IntArray) -> FloatArray:
        """Sampling probabilities (n, M)."""
        ...

    def update(self, chosen: IntArray, losses: FloatArray, rows: IntArray) -> None:
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
    """

    def __init__(self, replications: int, bases: int, eta: float, horizon: int) -> None:
        horizon = max(3, horizon)
        self.gamma = 1.0 / horizon
        self.growth = math.exp(1.0 / math.log(horizon))
        self.p = np.full((replications, bases), 1.0 / bases)
        self.pbar = self.p.copy()
        self.eta = np.full((replications, bases), float(eta))
        self.rho = np.full((replications, bases), 2.0 * bases)

    def probabilities(self, rows: IntArray) -> FloatArray:
        return self.pbar[rows]

    def update(self, chosen: IntArray, losses: FloatArray, rows: IntArray) -> None:
        at = np.arange(len(rows))
        estimate = np.zeros((len(rows), self.p.shape[1]))
        estimate[at, chosen] = losses / self.pbar[rows, chosen]
        p, _ = log_barrier_step(self.p[rows], estimate, self.eta[rows])
        pbar = (1.0 - self.gamma) * p + self.gamma / p.shape[1]
        self.p[rows], self.pbar[rows] = p, pbar
        rho = self.rho[rows]
        rare = 1.0 / pbar > rho
        if rare.any():
            self.rho[rows] = np.where(rare, 2.0 / pbar, rho)
            self.eta[rows] = np.where(rare, self.growth * self.eta[rows], self.eta[rows])


class Exp3P:
    """EXP3.P: exponential weights on optimistic gain estimates, mixed with the uniform distribution.

    Parameters
    ----------
    replications, bases, horizon : int
        R, M and the number of master rounds.
    eta, gamma, bias : float, optional
        Learning rate, uniform mass and bias of the estimates; the textbook's tuning by default.
    """

    def __init__(
        self,
        replications: int,
        bases: int,
        horizon: int,
        eta: float | None = None,
        gamma: float | None = None,
        bias: float | None = None,
    ) -> None:
        rate = math.sqrt(math.log(max(bases, 2)) / (horizon * bases))
        self.eta = 0.95 * rate if eta is None else eta
        self.gamma = min(1.0, 1.05 * bases * rate) if gamma is None else gamma
        self.bias = rate if bias is None else bias
        self.gains = np.zeros((replications, bases))

    def probabilities(self, rows: IntArray) -> FloatArray:
        weights = self.eta * self.gains[rows]
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed: FloatArray = (1.0 - self.gamma) * weights + self.gamma / weights.shape[1]
        return mixed

    def update(self, chosen: IntArray, losses: FloatArray, rows: IntArray) -> None:
        p = self.probabilities(rows)
        gain = np.full_like(p, self.bias)
        gain[np.arange(len(rows)), chosen] += 1.0 - losses
        self.gains[rows] += gain / p
