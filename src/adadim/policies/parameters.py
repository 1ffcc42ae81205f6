"""Parameters that policies of several kinds have, each declared once with its guard (see `checks.check_fields`)."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any

from adadim.core.checks import between, integer, is_number, not_negative, positive, shown
from adadim.errors import InvalidValueError


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


BayesFactor = Annotated[float, check_bayes_factor]
Beta = Annotated[float, partial(between, low=0.5, high=1, ends="[)")]
Decay = Annotated[float, not_negative]
Delta = Annotated[float, partial(between, low=0, high=1, ends="()")]
Dim = Annotated[int, partial(integer, meaning="or None for all features")]
HalfLife = Annotated[float, partial(positive, meaning="a half-life in decisions, or None to forget nothing")]
LossRange = Annotated[tuple[float, float], check_loss_range]
Probes = Annotated[int, partial(integer, least=0, meaning="rounds")]
RadiusScale = Annotated[float, partial(positive, meaning="a factor on the radius")]
Ridge = Annotated[float, partial(positive, meaning="the regularisation lambda, e.g. 0.1")]
Taper = Annotated[float, not_negative]
Tapers = Annotated[float | tuple[float, ...], check_tapers]
ThetaNorm = Annotated[float, partial(positive, meaning="a bound on the norm of theta, e.g. 1")]
WidthScale = Annotated[float, partial(positive, meaning="a factor on the confidence width")]
