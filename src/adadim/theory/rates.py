"""Rate functions, the Pareto frontier, upper bounds, and what a ridge that grows with the index gives."""

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from adadim.core.arrays import FloatArray, real_array
from adadim.core.checks import check_fits, integer, number, require, shown
from adadim.errors import InvalidTypeError
from adadim.theory.iterations import checked_beta

F = TypeVar("F", float, FloatArray)


def nonadaptive_rate(alpha: F) -> F:
    """Rate (1 + alpha)/2 of LinUCB told alpha (Section 2); ``alpha`` is a number or an array.

    Examples
    --------
    >>> nonadaptive_rate(0.5)
    0.75
    """
    return _like(alpha, (1.0 + _checked_alphas(alpha)) / 2.0)


def pareto_rate(alpha: F, beta: float) -> F:
    """Pareto optimal rate theta_beta(alpha) = min(max(beta, 1 + alpha - beta), 1) (Theorem 4).

    Examples
    --------
    >>> pareto_rate(0.25, beta=0.5)
    0.75
    >>> pareto_rate(np.array([0.0, 0.5, 1.0]), beta=0.75)
    array([0.75, 0.75, 1.  ])
    """
    return rate_lower_bound(alpha, checked_beta(beta))


def rate_lower_bound(alpha: F, rate_at_zero: float) -> F:
    """Least rate at ``alpha`` of any algorithm whose rate at 0 is ``rate_at_zero`` (Theorem 2).

    Examples
    --------
    >>> rate_lower_bound(0.25, rate_at_zero=1.0)
    1.0
    """
    require(0.5 <= number(rate_at_zero, "rate_at_zero") <= 1.0, "rate_at_zero", "lie in [1/2, 1]", rate_at_zero)
    # In this order the sum is exactly >= 1 whenever alpha >= rate_at_zero.
    rising = 1.0 + (_checked_alphas(alpha) - rate_at_zero)
    return _like(alpha, np.minimum(np.maximum(rate_at_zero, rising), 1.0))


def dominates(
    rate_a: Callable[[FloatArray], ArrayLike],
    rate_b: Callable[[FloatArray], ArrayLike],
    grid: ArrayLike | None = None,
) -> bool:
    """Whether ``rate_a <= rate_b`` on the whole grid and ``<`` somewhere on it (the order of Definition 2).

    ``grid`` is 1001 even points of [0, 1] unless given; differences up to 1e-12 count as equality.

    Examples
    --------
    >>> dominates(nonadaptive_rate, lambda alpha: pareto_rate(alpha, 0.5))
    True
    >>> dominates(lambda alpha: pareto_rate(alpha, 0.6), lambda alpha: pareto_rate(alpha, 0.5))
    False
    """
    points = np.asarray(real_array(np.linspace(0.0, 1.0, 1001) if grid is None else grid, "grid"))
    require(bool(np.all((points >= 0.0) & (points <= 1.0))), "grid", "be alphas in [0, 1]", grid)
    require(points.ndim == 1 and points.size > 0, "grid", "be a non-empty list of alphas", grid)
    a, b = _rates(rate_a, "rate_a", points), _rates(rate_b, "rate_b", points)
    return bool(np.all(a <= b + 1e-12) and np.any(a < b - 1e-12))


def _rates(rate: Callable[[FloatArray], ArrayLike], name: str, points: FloatArray) -> FloatArray:
    if not callable(rate):
        raise InvalidTypeError(f"{name} must be a function of an array of alphas, got {shown(rate)}")
    try:
        rates = rate(points)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must map an array of alphas to as many rates, but raised: {error}") from error
    values = np.asarray(real_array(rates, name))
    ok = values.shape == points.shape and bool(np.all(np.isfinite(values)))
    require(ok, name, f"map {points.size} alphas to as many rates", values)
    return values


def recommended_beta(alpha_hat: float) -> float:
    """Choose beta = (1 + alpha_hat)/2, as the paper does given an estimate of the hardness (Section 5).

    With it theta_beta meets the non-adaptive rate at alpha_hat. As beta = 1 is not allowed, an estimate of 1
    or more gives the largest number below 1.

    This is about rates, which are limits. At the paper's size (T = 2500, alpha = 0.32) beta = 0.66 more than doubles
    the regret of LinUCB++ in the released variant and raises it by 73% in the theory variant, and up to T = 10,000 the
    ratio does not fall (`adadim study footnote`, docs/tradeoff.md): unless T is far larger, take beta = 0.5.

    Examples
    --------
    >>> recommended_beta(0.5)
    0.75
    """
    require(0.0 <= number(alpha_hat, "alpha_hat") < math.inf, "alpha_hat", "be finite and at least 0", alpha_hat)
    return min((1.0 + float(alpha_hat)) / 2.0, math.nextafter(1.0, 0.0))


def confidence_radius(horizon: int, arms: int, failure: float | None = None, norm_bound: float | None = None) -> float:
    """Width multiplier alpha + 2 ln T of the modified LinUCB, alpha = 2 sqrt(ln(2TK/delta)) (eq:lm_bound).

    For ridge 1 and sqrt(2)-sub-Gaussian noise. ``failure`` is delta, 1/sqrt(T) unless given; ``norm_bound``
    replaces 2 ln T, the paper's bound on the norm of the reward vector, and 0 leaves alpha alone.

    Examples
    --------
    >>> round(confidence_radius(2500, arms=1200), 6)
    24.484221
    """
    horizon, arms = integer(horizon, "horizon", least=2), integer(arms, "arms")
    delta = 1.0 / math.sqrt(horizon) if failure is None else _checked_failure(failure)
    norm = 2.0 * math.log(horizon) if norm_bound is None else float(number(norm_bound, "norm_bound"))
    require(0.0 <= norm < math.inf, "norm_bound", "be finite and at least 0", norm)
    return 2.0 * math.sqrt(math.log(2.0 * horizon * arms / delta)) + norm


def modified_linucb_bound_order(horizon: int, arms: int, dim: int, failure: float | None = None) -> float:
    """Order ln^2(K T ln T / delta) sqrt(d T) of the modified LinUCB's regret (thm:modified_linucb).

    Given ``failure``, delta, it is for the bound that holds with probability 1 - delta; otherwise for the one
    on the expected regret, where delta drops out (corollary:linucb). The constant is unspecified.

    Examples
    --------
    >>> round(modified_linucb_bound_order(2500, arms=1200, dim=12))
    49888
    """
    delta = 1.0 if failure is None else _checked_failure(failure)
    log = _log_ktlogt(horizon, arms) - math.log(delta)
    return log**2 * math.sqrt(integer(dim, "dim") * horizon)


def linucbpp_bound_order(horizon: int, arms: int, beta: float, alpha: float) -> float:
    """Order ln^(7/2)(K T ln T) T^theta_beta(alpha) of LinUCB++'s regret on H_T(alpha) (Theorem 3).

    The constant is unspecified.

    Examples
    --------
    >>> round(linucbpp_bound_order(2500, arms=1200, beta=0.5, alpha=0.0))
    1006874
    """
    return float(_log_ktlogt(horizon, arms) ** 3.5 * horizon ** pareto_rate(float(number(alpha, "alpha")), beta))


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
    require(0.0 <= number(taper, "taper") < np.inf, "taper", "be finite and at least 0", taper)
    require(0.0 < number(ridge, "ridge") < np.inf, "ridge", "be finite and positive", ridge)
    check_fits(32 * dim, dim=dim)
    j = np.arange(1.0, dim + 1)
    tail = rounds / (ridge * (j + 1) ** taper)
    tail[-1] = 0.0
    return float(np.min(j * np.log1p(rounds / (ridge * j)) + tail))


def tapered_rate(alpha: F, taper: float, target: float) -> F:
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
    require(0.0 <= number(taper, "taper") < np.inf, "taper", "be finite and at least 0", taper)
    require(0.0 <= number(target, "target") <= 1.0, "target", "lie in [0, 1]", target)
    flat = min(0.5 + (1.0 + taper * target) / (2.0 + taper), 1.0)
    return _like(alpha, np.where(_checked_alphas(alpha) <= target, flat, 1.0))


def _log_ktlogt(horizon: int, arms: int) -> float:
    horizon = integer(horizon, "horizon", least=2)
    return math.log(integer(arms, "arms") * horizon * math.log(horizon))


def _like(alpha: F, values: FloatArray) -> F:
    return cast(F, values if np.ndim(cast(Any, alpha)) else float(values))


def _checked_alphas(alpha: ArrayLike) -> FloatArray:
    values: FloatArray = np.asarray(real_array(alpha, "alpha"))
    wrong = values[~((values >= 0.0) & (values <= 1.0))]
    require(wrong.size == 0, "alpha", "lie in [0, 1]", wrong)
    return values


def _checked_failure(failure: float) -> float:
    require(0.0 < number(failure, "failure") < 1.0, "failure", "lie in (0, 1)", failure)
    return float(failure)
