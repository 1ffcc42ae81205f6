"""What can be said about a ridge that grows with the index, lambda_j = lambda j^s."""

import numpy as np

from adadim.backend.arrays import FloatArray
from adadim.backend.memory import check_fits
from adadim.checks import integer, require
from adadim.theory.checks import check_alphas, check_number

__all__ = ["tapered_information", "tapered_rate"]


def tapered_information(horizon: int, dim: int, taper: float, ridge: float) -> float:
    """Upper bound on ln det(V / Lambda) after `horizon` pulls of arms of norm at most 1.

    By Hadamard's inequality it is at most the largest sum_j ln(1 + T_j / (lambda j^s)) with sum_j T_j <= T. The first J
    terms are at most J ln(1 + T / (lambda J)), the others at most T / (lambda (J + 1)^s) together, for every J; the
    best J of 1, ..., d is taken. It grows as (T / lambda)^(1 / (1 + s)) up to a logarithm, until it meets the d ln T of
    d features.

    Examples
    --------
    >>> round(tapered_information(2500, dim=600, taper=0.0, ridge=1.0))  # all features alike
    985
    >>> round(tapered_information(2500, dim=600, taper=1.5, ridge=1.0))
    116
    """
    rounds, dim = integer(horizon, "horizon"), integer(dim, "dim")
    require(0.0 <= check_number(taper, "taper") < np.inf, "taper", "be finite and at least 0", taper)
    require(0.0 < check_number(ridge, "ridge") < np.inf, "ridge", "be finite and positive", ridge)
    check_fits(32 * dim, dim=dim)
    j = np.arange(1.0, dim + 1)
    tail = rounds / (ridge * (j + 1) ** taper)
    tail[-1] = 0.0
    return float(np.min(j * np.log1p(rounds / (ridge * j)) + tail))


def tapered_rate(alpha: float | FloatArray, taper: float, target: float) -> float | FloatArray:
    """Rate that is proved for `TaperedLinUCB` with ``radius="oful"``, tuned to hardness `target`.

    With theta_norm = T^(s target / 2) and ridge T^(1 - (1 + s) g), g = (1 + s target) / (2 + s), the regret is of order
    T^(1/2 + g) up to logarithms for every alpha <= target, and nothing is known above.

    Examples
    --------
    >>> tapered_rate(0.0, taper=2.0, target=0.0)
    0.75
    >>> tapered_rate(np.array([0.0, 0.25, 0.3]), taper=6.0, target=0.25)
    array([0.8125, 0.8125, 1.    ])
    """
    require(0.0 <= check_number(taper, "taper") < np.inf, "taper", "be finite and at least 0", taper)
    require(0.0 <= check_number(target, "target") <= 1.0, "target", "lie in [0, 1]", target)
    levels = check_alphas(alpha)
    flat = min(0.5 + (1.0 + taper * target) / (2.0 + taper), 1.0)
    rates: FloatArray = np.where(levels <= target, flat, 1.0)
    return rates if np.ndim(alpha) else float(rates)
