"""What the rest of `adadim.theory` shares: checks of its quantities, and the slack for rounding."""

import numpy as np
from numpy.typing import ArrayLike

from adadim.backend.arrays import FloatArray, real_array
from adadim.checks import is_number, require, shown
from adadim.errors import InvalidTypeError

__all__ = ["ONE", "check_alphas", "check_failure", "check_number", "check_rate_beta"]


ONE = 1.0 + 1e-12  # T^alpha may miss a whole number by an ulp or two


def check_number(value: float, name: str) -> float:
    """Return a real number as it is, or say that it is none."""
    if not is_number(value):
        raise InvalidTypeError(f"{name} must be a number, got {shown(value)}")
    return value


def check_rate_beta(beta: float) -> float:
    """Return beta if it is in [1/2, 1)."""
    require(0.5 <= check_number(beta, "beta") < 1.0, "beta", "lie in [1/2, 1)", beta)
    return float(beta)


def check_failure(failure: float) -> float:
    """Return a probability strictly between 0 and 1."""
    require(0.0 < check_number(failure, "failure") < 1.0, "failure", "lie in (0, 1)", failure)
    return float(failure)


def check_alphas(alpha: ArrayLike) -> FloatArray:
    """Return hardness levels in [0, 1] as an array."""
    values: FloatArray = np.asarray(real_array(alpha, "alpha"))
    wrong = values[~((values >= 0.0) & (values <= 1.0))]
    require(wrong.size == 0, "alpha", "lie in [0, 1]", wrong)
    return values
