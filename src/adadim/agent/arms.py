"""The catalogue: arms that an agent knows by name, with their features, costs and whether they may be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adadim.agent.log import Log, as_bytes, as_matrix
from adadim.checks import suggestion
from adadim.errors import InvalidValueError

__all__ = ["Arm", "Catalogue"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

State = Literal["active", "masked", "retired"]


@dataclass(frozen=True, eq=False)
class Arm:
    """An arm of the catalogue.

    Attributes
    ----------
    name : str
        Its name.
    features : array (m,)
        Its features: `dim` numbers less those of the context.
    cost : float
        What choosing it costs, in units of the reward; it is subtracted from its score.
    state : {"active", "masked", "retired"}
        Whether it may be chosen, may not for the time being, or is gone.
    """

    name: str
    features: FloatArray
    cost: float
    state: State


class Catalogue:
    """The arms as of the last look at the log, where every change of one is a row.

    Parameters
    ----------
    log : Log
        The log.
    """

    def __init__(self, log: Log) -> None:
        self.log, self.seq = log, 0
        self.known: dict[str, Arm] = {}

    def look(self) -> None:
        """Take in the changes since the last look; called in a transaction of the log."""
        for seq, name, features, cost, state in self.log.arms_since(self.seq):
            row = as_matrix(features, len(features) // 8)[0]
            self.known[name] = Arm(name, row, cost, state)
            self.seq = seq

    def present(self) -> dict[str, Arm]:
        """Arms that are not retired, by name."""
        return {name: arm for name, arm in self.known.items() if arm.state != "retired"}

    def active(self) -> list[Arm]:
        """Arms that may be chosen."""
        return [arm for arm in self.known.values() if arm.state == "active"]

    def write(self, time: float, arm: Arm) -> None:
        """Let this hold from now on."""
        self.log.add_arm(time, arm.name, as_bytes(arm.features), arm.cost, arm.state)

    def get(self, name: str) -> Arm:
        """An arm that is not retired."""
        present = self.present()
        if name not in present:
            gone = "is retired" if name in self.known else "is not in the catalogue"
            raise InvalidValueError(f"arm {name!r} {gone}; {suggestion(name, list(present)[:50])}")
        return present[name]
