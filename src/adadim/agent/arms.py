"""The catalogue: arms that an agent knows by name, with their features, costs and whether they may be chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from adadim.agent.file import File, as_bytes, as_matrix, sealed
from adadim.agent.inputs import checked_costs, checked_name, vector
from adadim.checks import shown, suggestion
from adadim.errors import InvalidTypeError, InvalidValueError

__all__ = ["Arm", "Catalogue", "State", "checked_arms"]

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


def checked_arms(arms: Any, costs: Any) -> list[Arm]:
    """Arms for the catalogue, from dicts of features and of costs by name."""
    if not isinstance(arms, Mapping):
        raise InvalidTypeError(f"arms must be a dict from names to features, got {shown(arms)}")
    rows = {checked_name(name): vector(values, f"features of {name!r}") for name, values in arms.items()}
    prices = checked_costs({} if costs is None else costs, rows).tolist()
    return [Arm(name, row, cost, "active") for (name, row), cost in zip(rows.items(), prices, strict=True)]


class Catalogue:
    """The arms as of the last look at the file, where every change of one is a row.

    `look` and what changes arms is called in a transaction of the file.
    """

    def __init__(self, file: File, dim: int) -> None:
        self.file, self.dim, self.seq = file, dim, 0
        self.known: dict[str, Arm] = {}

    def look(self) -> None:
        """Take in the changes since the last look."""
        query = "SELECT seq, time, name, features, cost, state, seal FROM arms WHERE seq > ? ORDER BY seq"
        for seq, _, name, features, cost, state in self.file.intact(self.file.rows(query, self.seq), "arm"):
            row = as_matrix(features, len(features) // 8)[0]
            self.known[name] = Arm(name, row, cost, state)
            self.seq = seq

    def present(self) -> dict[str, Arm]:
        """Arms that are not retired, by name."""
        return {name: arm for name, arm in self.known.items() if arm.state != "retired"}

    def active(self) -> list[Arm]:
        """Arms that may be chosen."""
        return [arm for arm in self.known.values() if arm.state == "active"]

    def counts(self) -> Counter[State]:
        """How many arms are in each state."""
        return Counter(arm.state for arm in self.known.values())

    def get(self, name: str) -> Arm:
        """An arm that is not retired."""
        present = self.present()
        if name not in present:
            gone = "is retired" if name in self.known else "is not in the catalogue"
            raise InvalidValueError(f"arm {name!r} {gone}; {suggestion(name, list(present)[:50])}")
        return present[name]

    def set(self, time: float, arms: list[Arm]) -> None:
        """Add or change arms; all must have as many features."""
        self.look()
        new = {arm.name for arm in arms}
        others = {len(arm.features) for name, arm in self.present().items() if name not in new}
        for arm in arms:
            length = len(arm.features)
            if length > self.dim:
                raise InvalidValueError(
                    f"features of {arm.name!r} must be at most dim = {self.dim} numbers, got {length}"
                )
            if others and length not in others:
                raise InvalidValueError(
                    f"features of {arm.name!r} must be {min(others)} numbers, as those of other arms, got {length}"
                )
            others.add(length)
            self._write(time, arm)

    def change(self, time: float, name: str, state: State) -> None:
        """Bring an arm into another state."""
        self.look()
        self._write(time, replace(self.get(name), state=state))

    def _write(self, time: float, arm: Arm) -> None:
        seq = int(self.file.value("SELECT ifnull(max(seq), 0) FROM arms")) + 1
        query = "INSERT INTO arms (seq, time, name, features, cost, state, seal) VALUES (?, ?, ?, ?, ?, ?, ?)"
        self.file.run(query, *sealed(seq, float(time), arm.name, as_bytes(arm.features), float(arm.cost), arm.state))
