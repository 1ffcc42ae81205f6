"""Confidence radii and the indices of K-armed bandits."""

from __future__ import annotations

import math
from typing import Any

from adadim.core.arrays import Array, clamp, is_array, namespace
from adadim.policies.parameters import Bonus, Radius
from adadim.theory import confidence_radius


def noise_radius(noise: float | Array, horizon: Any, arms: int) -> Any:
    """sigma sqrt(2 ln(2 T^1.5 K)), for confidence 1 / sqrt(T); `horizon` T may be an array of round numbers."""
    value = 2 * horizon**1.5 * arms
    if not is_array(value):
        return noise * math.sqrt(2 * math.log(value))
    xp = namespace(value)
    return noise * xp.sqrt(2 * xp.log(value))


def fixed_radius(
    rule: Radius, noise: Any, horizon: Any, arms: int, ridge: float, theta_norm: float, total: int | None = None
) -> Any:
    """Radius by a rule that does not look at the data, as `LinUCB` describes them; `noise` and `horizon` may be arrays.

    `horizon` is that of the sub-problem, `total` that of the whole (else the same), which bounds theta in "paper".
    """
    if not isinstance(rule, str):
        return rule + 0.0 * noise
    if rule == "paper" and is_array(horizon):
        t = clamp(horizon, 2.0)
        return 2 * _root(log_of(2 * t**1.5 * arms)) + 2 * log_of(t)
    if rule == "paper":
        bound = 2 * math.log(max(2, horizon) if total is None else total)
        return confidence_radius(max(2, horizon), arms, norm_bound=bound) + 0.0 * noise
    value = noise_radius(noise, horizon, arms)
    return value + math.sqrt(ridge) * theta_norm if rule == "full" else value


def oful_radius(noise: float, ridge: float, theta_norm: float, delta: float | Array, logdet: Array) -> Array:
    """sigma sqrt(2 ln(1/delta) + ln det(V/ridge)) + sqrt(ridge) S (Abbasi-Yadkori et al. 2011)."""
    xp = namespace(logdet)
    return noise * xp.sqrt(2 * log_of(1 / delta) + logdet) + math.sqrt(ridge) * theta_norm


def root_radius(noise: float, ridge: float | Array, theta_norm: float, delta: float | Array, logdet: Array) -> Array:
    """sqrt(sigma^2 (2 ln(1/delta) + ln det(V/ridge)) + ridge S^2), which holds at all times for data chosen adaptively.

    With M = int prod_s exp(u_s eta_s - u_s^2 sigma^2 / 2) dN(theta'; 0, sigma^2/ridge), u_s = <x_s, theta' - theta> /
    sigma^2, a non-negative supermartingale that starts at 1, the integral is 2 ln M = -ln det(V/ridge) +
    (||theta - theta_hat||_V^2 - ridge ||theta||^2) / sigma^2; by Ville's inequality it stays below 2 ln(1/delta).
    """
    xp = namespace(logdet)
    return xp.sqrt(noise**2 * (2 * log_of(1 / delta) + logdet) + ridge * theta_norm**2)


def optimism(mean: Array, width2: Array, radius: Array, bonus: Bonus) -> Array:
    """Optimistic score of every arm: mean + radius * width, or * width^2 for the released code's bonus."""
    if bonus == "norm":
        score = namespace(mean).sqrt(width2)
        score *= radius
    else:
        score = radius * width2
    score += mean
    return score


def ucb1_bonus(n: Array, t: Array) -> Array:
    """sqrt(2 ln t / n), for rewards in [0, 1] (Auer et al. 2002)."""
    xp = namespace(n)
    return xp.sqrt(2 * xp.log(t) / n)


def subgaussian_bonus(n: Array, scale: Array, delta: float | Array) -> Array:
    """sigma sqrt(2 ln(1/delta) / n)."""
    return scale * namespace(n).sqrt(2 * log_of(1 / delta) / n)


def self_normalised_bonus(n: Array, arms: int, scale: Array, delta: float | Array, released: bool = False) -> Array:
    """sigma sqrt((1+n)/n^2 (1 + 2 ln(m sqrt(1+n)/delta))): an anytime bound (Abbasi-Yadkori et al. 2011).

    ``released=True`` is what the authors' code computes instead: no sigma, and 1/delta outside the logarithm.
    """
    xp = namespace(n)
    spread = (1 + n) / n**2
    if released:
        return xp.sqrt(spread * (1 + 4 / delta * xp.log(arms * xp.sqrt(1 + n))))
    return scale * xp.sqrt(spread * (1 + 2 * xp.log(arms * xp.sqrt(1 + n) / delta)))


def log_of(value: Any) -> Any:
    """Natural logarithm of a number or an array."""
    return namespace(value).log(value) if is_array(value) else math.log(value)


def _root(value: Any) -> Any:
    return namespace(value).sqrt(value) if is_array(value) else math.sqrt(value)
