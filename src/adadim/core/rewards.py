"""Which kinds of rewards there are, and what is known of each before any data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from adadim.core.checks import one_of, shown
from adadim.errors import InvalidValueError


@dataclass(frozen=True)
class RewardKind:
    """What all rewards of a kind have in common.

    Attributes
    ----------
    name : str
        Its name.
    low, high : float
        Between which numbers they lie.
    noise : float, optional
        Sub-Gaussian scale of their noise, whatever the arm.
    values : str
        What they are, in words, if not any number.
    """

    name: str
    low: float = -math.inf
    high: float = math.inf
    noise: float | None = None
    values: str | None = None

    def check(self, reward: Any, name: str) -> None:
        """Refuse a number that no reward of this kind is."""
        if not self.low <= reward <= self.high:
            raise InvalidValueError(
                f"{name} must be {self.values}, since rewards are {self.name!r}, got {shown(reward)}"
            )

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest reward, where there are both."""
        return (self.low, self.high) if math.isfinite(self.high - self.low) else None


GAUSSIAN = RewardKind("gaussian")
BERNOULLI_REWARDS = RewardKind("bernoulli", 0.0, 1.0, noise=0.5, values="0, 1 or a share in [0, 1]")
KINDS = {kind.name: kind for kind in (GAUSSIAN, BERNOULLI_REWARDS)}


def checked_kind(value: Any, name: str = "rewards") -> str:
    """The name of a kind of rewards."""
    return str(one_of(value, name, tuple(KINDS)))
