"""Candidate regret bounds R_i(n), which a master holds against what its bases earn, as small objects.

A bound is stated for rewards in [0, 1]; a master multiplies it by the scale of the rewards. It is a function of the
number of plays n and of a base's complexity d_i, which is the base's dimension unless the master is given another.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from adadim.backend.arrays import Array, clamp, namespace
from adadim.checks import between, integer, not_negative, positive
from adadim.errors import InvalidTypeError

__all__ = ["Bound", "LinearBound", "PowerBound", "SqrtBound", "SqrtLogBound", "check_bound", "claimed", "oful_constant"]


@dataclass(frozen=True)
class Bound(ABC):
    """A regret bound R_i(n) for rewards in [0, 1]; derive a frozen dataclass from it to have one of your own.

    Examples
    --------
    >>> import numpy as np
    >>> SqrtBound(c=2.0)(np.array([1.0, 4.0]), np.array([9.0, 9.0]))
    array([ 6., 12.])
    """

    @abstractmethod
    def __call__(self, complexity: Array, plays: Array) -> Array:
        """R_i(n) for complexities d_i and plays n of at least 1."""


@dataclass(frozen=True)
class SqrtBound(Bound):
    """R_i(n) = c sqrt(d_i n), the form for finitely many arms.

    Examples
    --------
    >>> SqrtBound() == SqrtBound(c=1.0)
    True
    """

    c: float = 1.0

    def __post_init__(self) -> None:
        positive(self.c, "c", "the factor of the bound, e.g. 1")

    def __call__(self, complexity: Array, plays: Array) -> Array:
        return self.c * namespace(plays).sqrt(complexity * plays)


@dataclass(frozen=True)
class LinearBound(Bound):
    """R_i(n) = c d_i sqrt(n), the form of OFUL, for any number of arms; `oful_constant` says which c is proved.

    Examples
    --------
    >>> import numpy as np
    >>> LinearBound()(np.array([3.0]), np.array([4.0]))
    array([6.])
    """

    c: float = 1.0

    def __post_init__(self) -> None:
        positive(self.c, "c", "the factor of the bound, e.g. 1")

    def __call__(self, complexity: Array, plays: Array) -> Array:
        return self.c * complexity * namespace(plays).sqrt(plays)


@dataclass(frozen=True)
class PowerBound(Bound):
    """R_i(n) = c d_i^dim_power n^power.

    Examples
    --------
    >>> import numpy as np
    >>> PowerBound(power=1.0)(np.array([4.0]), np.array([3.0]))
    array([6.])
    """

    c: float = 1.0
    dim_power: float = 0.5
    power: float = 0.5

    def __post_init__(self) -> None:
        positive(self.c, "c", "the factor of the bound, e.g. 1")
        not_negative(self.dim_power, "dim_power")
        between(self.power, "power", 0, 1)

    def __call__(self, complexity: Array, plays: Array) -> Array:
        return self.c * complexity**self.dim_power * plays**self.power


@dataclass(frozen=True)
class SqrtLogBound(Bound):
    """R_i(n) = c sqrt(d_i n max(ln n, least_log)), the form for UCB on d_i arms at any time.

    With ``least_log=0`` it claims that a first play costs nothing, which no learner can promise.

    Examples
    --------
    >>> import numpy as np
    >>> SqrtLogBound()(np.array([4.0]), np.array([1.0, 10.0])).round(6)
    array([2.      , 9.597052])
    """

    c: float = 1.0
    least_log: float = 1.0

    def __post_init__(self) -> None:
        positive(self.c, "c", "the factor of the bound, e.g. 1")
        not_negative(self.least_log, "least_log")

    def __call__(self, complexity: Array, plays: Array) -> Array:
        xp = namespace(plays)
        return self.c * xp.sqrt(complexity * plays * clamp(xp.log(plays), self.least_log))


def claimed(bound: Bound, complexity: Array, plays: Array) -> Array:
    """R_i(n_i), and 0 for a base never played.

    Examples
    --------
    >>> import numpy as np
    >>> claimed(SqrtBound(), np.array([4.0, 4.0]), np.array([0.0, 9.0]))
    array([0., 6.])
    """
    xp, value = namespace(plays), bound(complexity, clamp(plays, 1.0))
    return xp.where(plays > 0, value, xp.zeros_like(value))


def check_bound(bound: Bound) -> None:
    """Raise unless `bound` is a `Bound`."""
    if not isinstance(bound, Bound):
        raise InvalidTypeError(f"bound must be a Bound such as SqrtBound(c=1.0), got {bound!r}")


def oful_constant(noise: float, ridge: float, theta_norm: float, arm_norm: float, horizon: int, delta: float) -> float:
    """The c of `LinearBound` that is proved for OFUL (Pacchiano, Dann, Gentile and Bartlett 2020).

    2 (sigma + sqrt(lambda) S) sqrt((1 + L^2/lambda) ln((1 + T L^2/lambda)/delta) ln((lambda + T L)/lambda)).

    Examples
    --------
    >>> round(oful_constant(noise=0.1, ridge=1, theta_norm=1, arm_norm=1, horizon=2500, delta=0.01), 6)
    30.682683
    """
    ridge, horizon = positive(ridge, "ridge", "the regularisation lambda"), integer(horizon, "horizon")
    delta = between(delta, "delta", 0, 1, "()")
    arm_norm = positive(arm_norm, "arm_norm", "a bound on the norms of the arms, e.g. 1")
    spread = arm_norm**2 / ridge
    logs = math.log((1 + horizon * spread) / delta) * math.log((ridge + horizon * arm_norm) / ridge)
    radius = positive(noise, "noise", "the scale of the noise") + math.sqrt(ridge) * not_negative(
        theta_norm, "theta_norm"
    )
    return 2 * radius * math.sqrt((1 + spread) * logs)
