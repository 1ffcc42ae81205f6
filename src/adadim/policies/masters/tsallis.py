"""The Tsallis-INF master of Arora, Marinov and Mohri (2021): potential -4 sum_i (sqrt(w_i) - w_i/2) / eta_i."""

from __future__ import annotations

import math

import numpy as np

from adadim.backend.arrays import Array, indices, is_numpy, like, namespace
from adadim.backend.rows import Rows

__all__ = ["TsallisMaster", "tsallis_step"]

ACCURACY = 1e-13
STEPS = 20  # 11 were the most ever seen; rounding may keep a row from settling, and no further step helps it then


def tsallis_step(slack: Array, losses: Array, eta: Array) -> tuple[Array, Array]:
    """Distributions w_i = (slack_i + eta_i (l_i - nu) / 2)^-2 and their multipliers nu.

    With slack 1 and summed losses this is follow the regularised leader, with slack 1/sqrt(w_i) and the losses of one
    round a step of mirror descent from w. With f the sum over i, h = f^(-1/2) is concave and decreasing in nu. Newton's
    method on h starts where the largest w_i is 1, above the root, and falls to it without ever crossing.

    Parameters
    ----------
    slack, losses, eta : array (n, M)
        As above.

    Returns
    -------
    array (n, M), array (n,)

    Examples
    --------
    >>> w, nu = tsallis_step(np.ones((1, 3)), np.array([[3.0, 1.0, 0.0]]), np.array([[0.5, 0.4, 0.3]]))
    >>> w.round(6), nu.round(6)
    (array([[0.168942, 0.327896, 0.503162]]), array([-2.731757]))
    """
    xp = namespace(losses)
    nu = xp.min(losses + 2.0 * (slack - 1.0) / eta, axis=-1)
    eager = is_numpy(losses)
    for _ in range(STEPS):
        inverse = 1.0 / (slack + 0.5 * eta * (losses - nu[:, None]))
        squares = inverse * inverse
        total = xp.sum(squares, axis=-1)
        settled = xp.abs(total - 1.0) <= ACCURACY
        if eager and settled.all():
            break
        # h = f^(-1/2), f' = sum eta inverse^3: nu falls by (1 - h) / -h' = 2 (f^(3/2) - f) / f'.
        step = 2.0 * (total**1.5 - total) / xp.sum(eta * squares * inverse, axis=-1)
        nu = xp.where(settled, nu, nu - step)  # a settled row stays, whatever the rows with it need
    return squares / total[:, None], nu


class TsallisMaster:
    """Weights of M bases in each replication: a start, then follow the leader, with steps that raise learning rates.

    Every base is played `start` times in turn. After that a round adds the estimated losses and moves the weights; when
    a weight has fallen to a threshold, three rounds raise the learning rates of the bases concerned (NEG-REG-STEP).

    Parameters
    ----------
    eta : float
        Initial learning rate.
    penalties : array (M,)
        Added to the loss of each base in every round.
    horizon, start : int
        T, and first plays of every base.
    threshold : float
        rho_1; the thresholds are 1/rho_1, 1/(2 rho_1), ... down to 1/T.
    reference : array (R, ...)
        An array of the library and on the device to use.

    Attributes
    ----------
    w, eta, losses : array (R, M)
        Weights, learning rates and summed loss estimates.
    """

    def __init__(
        self, eta: float, penalties: Array, horizon: int, start: int, threshold: float, reference: Array
    ) -> None:
        count, bases = int(reference.shape[0]), int(penalties.shape[0])
        self.horizon = max(3, horizon)
        self.growth = math.exp(1.0 / math.log(self.horizon) ** 2)
        self.penalties, self.threshold, self.start = penalties, threshold, start * bases
        self.w = like(np.full((count, bases), 1.0 / bases), reference)
        self.losses, self.eta = self.w * 0.0, self.w * 0.0 + eta
        self.level = self.w * 0.0  # rho of a base is threshold * 2^level
        self.raised = self.w < 0.0  # the bases whose rates a step under way raises
        self.nu = self.w[:, 0] * 0.0
        self.round = self.w[:, 0] * 0.0  # rounds played, those of the start included
        self.epoch = self.nu + 1.0  # round after the start at which the next epoch begins
        self.phase = self.nu * 0.0  # 1 and 2: second and third round of a raising step
        self.rested = self.nu == 0.0  # whether the last round belonged to no raising step
        self.numbers = indices(self.w[0])

    def starting(self, rows: Rows) -> Array:
        """Whether the round that comes next is one of the start."""
        return rows.of(self.round) < self.start

    def probabilities(self, rows: Rows) -> Array:
        """Sampling probabilities (n, M): (1 - 1/(TM)) w + 1/(T M^2), and in the start the base whose turn it is."""
        xp, bases = namespace(self.w), self.w.shape[1]
        share = 1.0 / (self.horizon * bases)
        mixed = (1.0 - share) * rows.of(self.w) + share / bases
        turn = (rows.of(self.round) % bases)[:, None] == self.numbers
        return xp.where(self.starting(rows)[:, None], xp.astype(turn, mixed.dtype), mixed)

    def update(self, chosen: Array, losses: Array, rows: Rows) -> None:
        """Learn the loss of the base that was sampled."""
        xp, w, eta = namespace(self.w), rows.of(self.w), rows.of(self.eta)
        played, starting, phase = rows.of(self.round) + 1.0, self.starting(rows), rows.of(self.phase)
        ended = played == self.start  # the start is over; weights for the first time
        p = self.probabilities(rows)
        own = chosen[:, None] == self.numbers
        likely = xp.sum(xp.where(own, p, xp.zeros_like(p)), axis=-1)
        estimate = xp.where(own, (losses / likely)[:, None], xp.zeros_like(p))
        estimate = estimate + xp.where(starting[:, None], xp.zeros_like(p), self.penalties + xp.zeros_like(p))
        ordinary = ~starting & (phase == 0.0)
        triggered, level = self._trigger(rows, ordinary, played - self.start)
        raising = ordinary & rows.of(self.rested) & xp.any(triggered, axis=-1)
        plain = ordinary & ~raising
        # NEG-REG-STEP: shifted by nu and divided by the growth, the losses give the same weights with raised rates.
        shifted = (rows.of(self.losses) - rows.of(self.nu)[:, None]) / xp.where(triggered, self.growth, 1.0)
        summed = xp.where(raising[:, None], shifted, rows.of(self.losses)) + estimate
        raised = (phase == 1.0)[:, None] & rows.of(self.raised)
        slower = 1.0 / xp.sqrt(1.0 / (eta * eta) + 1.0)
        used = xp.where(plain[:, None], slower, xp.where(raised, self.growth * eta, eta))
        # The first round of the step goes by mirror descent from w, every other by the summed losses.
        slack = xp.where(raising[:, None], 1.0 / xp.sqrt(w), xp.ones_like(w))
        weights, nu = tsallis_step(slack, xp.where(raising[:, None], estimate, summed), used)
        wait = starting & ~ended
        rows.put(self.w, xp.where(wait[:, None], w, weights))
        rows.put(self.nu, xp.where(wait, rows.of(self.nu), nu))
        rows.put(self.losses, summed)
        rows.put(self.eta, xp.where(ended[:, None], slower, used))
        rows.put(self.level, level + xp.astype(raised, level.dtype))
        rows.put(self.raised, xp.where(raising[:, None], triggered, rows.of(self.raised)))
        rows.put(self.rested, starting | plain)
        rows.put(self.phase, xp.where(raising, 1.0 + phase, xp.where(phase == 1.0, 1.0 + phase, 0.0 * phase)))
        rows.put(self.round, played)

    def _trigger(self, rows: Rows, ordinary: Array, round_: Array) -> tuple[Array, Array]:
        """Which weights are at their threshold; and the levels, set anew in the first round of an epoch."""
        xp, w, level, epoch = namespace(self.w), rows.of(self.w), rows.of(self.level), rows.of(self.epoch)
        first = ordinary & (round_ >= epoch)
        rows.put(self.epoch, xp.where(first, 2.0 * epoch, epoch))
        ratio = 1.0 / (w * self.threshold)
        least = xp.floor(xp.log2(xp.maximum(ratio, xp.ones_like(ratio))))
        least = xp.where(ratio >= 2.0**least, least + 1.0, least)  # least s with w > 1 / rho_s
        level = xp.where(first[:, None] & (ratio >= 1.0), least, level)
        rho = self.threshold * 2.0**level
        return (w * rho <= 1.0) & (rho <= self.horizon), level
