"""Mirror descent with the log-barrier, for the distributions of all replications at once."""

from __future__ import annotations

from collections.abc import Sequence

from adadim.core.arrays import Array, all_true_on_host, indices, namespace
from adadim.core.recording import cuda_kernels
from adadim.core.rows import Replications

ACCURACY = 1e-13
LOG_BARRIER_MAX_STEPS = 200
FIXED_STEPS = 16  # on torch, where a test of convergence would stop the device; the most ever needed were 15

BarrierState = Sequence[Array]
"""Distributions p and pbar, p mixed with the uniform, learning rates eta and thresholds rho, (R, M) each."""


def log_barrier_round(
    state: BarrierState, chosen: Array, losses: Array, gamma: float, growth: float, rows: Replications
) -> None:
    """Learn the losses of those chosen, in place: a step of p, and rates raised by `growth` where pbar became small.

    pbar is (1 - gamma) p + gamma / M, and gamma one over the number of rounds.
    """
    kernels = cuda_kernels(state[0]) if rows.whole else None
    if kernels is not None:
        kernels.log_barrier_round(state, chosen, losses, rows.mask, round(1.0 / gamma), ACCURACY, LOG_BARRIER_MAX_STEPS)
        return
    xp, (p, pbar, eta, rho) = namespace(state[0]), map(rows.of, state)
    at = (indices(pbar), chosen)
    estimate = xp.zeros_like(pbar)
    estimate[at] = losses / pbar[at]
    p, _ = log_barrier_step(p, estimate, eta, rows.on_host)
    pbar = (1.0 - gamma) * p + gamma / p.shape[1]
    rare = 1.0 / pbar > rho
    changed = p, pbar, xp.where(rare, growth * eta, eta), xp.where(rare, 2.0 / pbar, rho)
    for array, values in zip(state, changed, strict=True):
        rows.put(array, values)


def log_barrier_step(p: Array, losses: Array, eta: Array, on_host: bool = True) -> tuple[Array, Array]:
    """One step of online mirror descent with the log-barrier, for n distributions at once.

    Finds lambda with sum_i 1 / (1/p_i + eta_i (l_i - lambda)) = 1 and returns those summands, and lambda. With f the
    sum, h = 1/f is concave and decreasing up to the pole of f, and 0 there: Newton's method on h needs no care
    at the pole, where f is infinite, and falls back to bisection of a bracket of the root. Unless `on_host`, it takes
    `FIXED_STEPS` steps.
    """
    xp = namespace(p)
    inverse = 1.0 / p
    pole = xp.min(losses + inverse / eta, axis=-1)
    low, high = xp.min(losses, axis=-1), xp.minimum(xp.max(losses, axis=-1), pole)
    multiplier = low + 0.0
    for _ in range(LOG_BARRIER_MAX_STEPS if on_host else FIXED_STEPS):
        slack = inverse + eta * (losses - multiplier[:, None])
        terms = 1.0 / slack
        total = xp.sum(terms, axis=-1)
        settled = xp.abs(total - 1.0) <= ACCURACY
        if all_true_on_host(settled):
            break
        below = total < 1.0  # f increases: the root lies above
        low, high = xp.where(below, multiplier, low), xp.where(below, high, multiplier)
        # h = 1/f: Newton step (h - 1) / (-h') with h' = -f'/f^2, f' = sum eta / slack^2.
        step = total * (1.0 - total) / xp.sum(eta * terms * terms, axis=-1)
        proposal = multiplier + step
        inside = (proposal > low) & (proposal < high)
        # A settled row stays put: its last bit must not depend on the rows beside it.
        following = xp.where(settled, multiplier, xp.where(inside, proposal, 0.5 * (low + high)))
        if all_true_on_host(following == multiplier):
            break
        multiplier = following
    return terms / total[:, None], multiplier
