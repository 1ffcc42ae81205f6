"""How many rounds a reward takes to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.checks import between, integer, is_integer, one_of, positive, shown, suggestion
from adadim.core.deprecated import renamed_attribute, renamed_parameter, with_present_names
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.errors import InvalidTypeError, InvalidValueError

DELAY_PARAMETERS = {"fixed": ("rounds",), "geometric": ("mean",), "uniform": ("least", "most")}
"""The parameters of each distribution."""

NEVER = -1  # in place of a number of rounds: the reward never comes
LONGEST_DELAY = 2**53  # rounds


@dataclass(frozen=True)
class Delay:
    """How many rounds a reward takes: that of round t is known before the decision of round t + D + 1.

    With D = 0 rewards come at once. A number in place of a `Delay` is a fixed one: ``delay=5`` is ``Delay(5)``.

    Parameters
    ----------
    rounds : int, optional
        D of the distribution "fixed".
    distribution : {"fixed", "geometric", "uniform"}
        "fixed": always `rounds`. "geometric": k with probability p (1 - p)^k, where p = 1 / (1 + mean). "uniform": a
        whole number from `least` to `most`.
    mean : float, optional
        Mean of the distribution "geometric".
    least, most : int, optional
        Smallest and largest D of the distribution "uniform".
    never : float
        Share of the rewards that never come.

    Examples
    --------
    >>> import adadim
    >>> from adadim.instances import Delay
    >>> instance = adadim.instances.sphere(arms=30, dim=8, intrinsic_dim=2, horizon=400, delay=50)
    >>> late = adadim.simulate(adadim.LinUCB(), instance)
    >>> late.learner.describe()[0]["pulls"]  # answered before the last decision
    349
    >>> some = adadim.simulate(adadim.LinUCB(), instance, delay=Delay(distribution="geometric", mean=20, never=0.5))
    >>> 140 < some.learner.describe()[0]["pulls"] < 240
    True
    """

    rounds: int | None = None
    distribution: Literal["fixed", "geometric", "uniform"] = "fixed"
    mean: float | None = None
    least: int | None = None
    most: int | None = None
    never: float = 0.0

    law = renamed_attribute("law", "distribution")

    def __post_init__(self) -> None:
        one_of(self.distribution, "distribution", tuple(DELAY_PARAMETERS))
        numbers = {name: getattr(self, name) for names in DELAY_PARAMETERS.values() for name in names}
        used = {name: value for name, value in numbers.items() if value is not None}
        needed = DELAY_PARAMETERS[self.distribution]
        if set(used) != set(needed):
            got = ", ".join(f"{name}={shown(value)}" for name, value in used.items())
            raise InvalidValueError(
                f"a delay with distribution {self.distribution!r} is given by {' and '.join(needed)} and by no other "
                f"of {', '.join(numbers)}, got {got}"
            )
        if self.distribution == "fixed":
            integer(self.rounds, "rounds", least=0, most=LONGEST_DELAY, meaning="how many rounds a reward takes")
        elif self.distribution == "geometric":
            positive(self.mean, "mean", "of the rounds that a reward takes, e.g. 100")
        else:
            least = integer(self.least, "least", least=0, most=LONGEST_DELAY, meaning="the shortest delay")
            integer(self.most, "most", least=least, most=LONGEST_DELAY, meaning="the longest delay")
        between(self.never, "never", 0, 1)

    @property
    def at_once(self) -> bool:
        """Whether every reward comes at once."""
        return self.distribution == "fixed" and self.rounds == 0 and self.never == 0

    def draw(self, streams: Streams, rows: Replications) -> IntArray:
        """D of one pull in each replication of `rows`, or `NEVER`; a pull takes one number of its stream."""
        if self.distribution == "fixed" and self.never == 0:
            return np.full(len(rows), self.rounds)
        return self.of_uniforms(streams.uniforms(rows))

    def of_uniforms(self, uniforms: FloatArray) -> IntArray:
        """D, or `NEVER`, from a number drawn uniformly from [0, 1)."""
        # Where the reward comes, the number is uniform again after this.
        rescaled = np.clip((uniforms - self.never) / max(1.0 - self.never, 1e-300), 0.0, 1 - 2**-53)
        rounds = np.full(rescaled.shape, float(self.rounds or 0))
        if self.mean is not None:
            # P(D >= k) = (1 - p)^k, and ln(1 - p) = -ln(1 + 1 / mean)
            rounds = np.floor(np.log1p(-rescaled) / -np.log1p(1.0 / self.mean))
        elif self.least is not None and self.most is not None:
            rounds = np.minimum(self.least + np.floor(rescaled * (self.most - self.least + 1)), self.most)
        return np.where(uniforms < self.never, NEVER, np.minimum(rounds, LONGEST_DELAY)).astype(np.int64)


Delay.__init__ = renamed_parameter("law", "distribution")(Delay.__init__)  # type: ignore[method-assign]

DelayLike = Delay | int | Mapping[str, Any] | None
"""A delay, a fixed number of rounds, a table such as TOML has, or None for no delay."""


def as_delay(value: DelayLike) -> Delay | None:
    """A delay from a `DelayLike`, checked."""
    if value is None or isinstance(value, Delay):
        return value
    if isinstance(value, int | np.integer) and is_integer(value):
        return Delay(int(value))
    if not isinstance(value, Mapping):
        raise InvalidTypeError(
            "delay must be a whole number of rounds or an adadim.instances.Delay, e.g. Delay(distribution='geometric', "
            f"mean=100), got {shown(value)}"
        )
    names = list(Delay.__dataclass_fields__)
    parameters = with_present_names(value, {"law": "distribution"})
    if parameters.get("kind") == "Delay":
        del parameters["kind"]
    for key in parameters:
        if key not in names:
            raise InvalidValueError(f"delay.{key}: a delay has no parameter {key!r}; {suggestion(str(key), names)}")
    return Delay(**parameters)
