"""Parameters that policies of several kinds have, each declared once with its guard (see `checks.check_fields`)."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, Literal

from adadim.core.arrays import Array, clamp
from adadim.core.checks import between, integer, is_number, not_negative, positive, shown
from adadim.core.ties import Ties as Ties
from adadim.errors import InvalidValueError
from adadim.models import Form as Form
from adadim.models.fading import checked_memory
from adadim.models.likelihoods import checked_likelihood


def nested_dims(dim: int, ambient: bool = False) -> list[int]:
    """Dimensions 2^0, 2^1, ..., 2^(M-1) with M = ceil(log2 d), and d itself with `ambient`."""
    dims = [2**i for i in range(max(1, math.ceil(math.log2(dim))))]
    return [*dims, dim] if ambient and dims[-1] < dim else dims


def loss(rewards: Array, loss_range: tuple[float, float]) -> Array:
    """Rewards in [lo, hi] as losses in [0, 1], clipped."""
    lo, hi = loss_range
    return clamp((hi - rewards) / (hi - lo), 0.0, 1.0)


def check_loss_range(value: Any, name: str) -> None:
    """Raise unless `value` is (lo, hi) with lo < hi."""
    pair = isinstance(value, tuple | list) and len(value) == 2 and all(map(is_number, value))
    if not pair or not -math.inf < value[0] < value[1] < math.inf:
        raise InvalidValueError(f"{name} must be (lowest, highest) reward with lowest < highest, got {shown(value)}")


def check_bayes_factor(value: Any, name: str) -> None:
    """Raise unless `value` can be the Bayes factor that rules a ridge out."""
    if positive(value, name, "a Bayes factor, e.g. 20") < 1:
        raise InvalidValueError(f"{name} must be at least 1 (the Bayes factor that rules a ridge out), got {value!r}")


def check_tapers(value: Any, name: str) -> None:
    """Raise unless `value` is an exponent of the ridge, or several to choose from."""
    for exponent in value if isinstance(value, tuple) and value else (value,):
        not_negative(exponent, name)


def check_radius_rule(value: Any, name: str) -> None:
    """Raise unless `value` is a known rule or a non-negative number."""
    if isinstance(value, str):
        if value not in RADIUS_RULES:
            listed = ", ".join(map(repr, RADIUS_RULES))
            raise InvalidValueError(f"{name} must be {listed} or a number, got {value!r}")
    elif not is_number(value) or not 0 <= value < math.inf:
        raise InvalidValueError(f"{name} must be a non-negative finite number or a rule, got {shown(value)}")


def check_factor(value: Any, name: str, meaning: str) -> None:
    """Raise unless `value` is a positive number by which a radius can be multiplied without overflow."""
    if positive(value, name, meaning) > MAX_FACTOR:
        raise InvalidValueError(f"{name} must be at most {MAX_FACTOR:g} ({meaning}), got {shown(value)}")


MAX_FACTOR = 1e100
ADAPTIVE_RULES = ("oful", "oful-2011")  # rules of the radius that look at the data
RADIUS_RULES = ("noise", "full", "paper", *ADAPTIVE_RULES)

BayesFactor = Annotated[float, check_bayes_factor]
Beta = Annotated[float, partial(between, low=0.5, high=1, ends="[)")]
Bonus = Literal["norm", "squared"]
Decay = Annotated[float, not_negative]
Delta = Annotated[float, partial(between, low=0, high=1, ends="()")]
Dim = Annotated[int, partial(integer, meaning="or None for all features")]
MemorySetting = Annotated[float | str, checked_memory]
LikelihoodName = Annotated[str, checked_likelihood]
Index = Literal["self-normalised", "subgaussian", "ucb1", "released"]
LossRange = Annotated[tuple[float, float], check_loss_range]
Probes = Annotated[int, partial(integer, least=0, meaning="rounds")]
Radius = Annotated[Literal["noise", "full", "paper", "oful", "oful-2011"] | float, check_radius_rule]
RadiusScale = Annotated[float, partial(check_factor, meaning="a factor on the radius")]
Ridge = Annotated[float, partial(positive, meaning="the regularisation lambda, e.g. 0.1")]
Taper = Annotated[float, not_negative]
Tapers = Annotated[float | tuple[float, ...], check_tapers]
ThetaNorm = Annotated[float, partial(positive, meaning="a bound on the norm of theta, e.g. 1")]
WidthScale = Annotated[float, partial(check_factor, meaning="a factor on the confidence width")]
