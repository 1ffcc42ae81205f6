"""The cells of a study, and the units of work they are cut into."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from adadim.instances.instance import Instance
from adadim.policies.base import Policy
from adadim.posterior.cost import least_bytes, replication_bytes
from adadim.study.kinds import Generator
from adadim.study.tables import make_instance

__all__ = ["FORMAT", "LARGEST", "Cell", "Outcome", "Unit", "digest"]

FORMAT = 2
"""Version of what is stored and of how it is computed: raise it when a release changes either."""

LARGEST = 2**31 - 1
"""Largest replication number and round that a block can hold."""


Outcome = Literal["computed", "found", "busy"]
"""What became of a unit: computed now, found stored, or being computed by another process."""


@dataclass(frozen=True)
class Cell:
    """One policy on one instance of a study, all replications.

    Attributes
    ----------
    id : str
        Hash of everything that decides the result: instance, policy, seed, record points and `FORMAT`. Names and
        the number of trials are not part of it.
    instance, policy : str
        Names in the study.
    identity : dict
        What was hashed, as plain JSON.
    policy_object : Policy
        The policy, with what it takes from the instance filled in.
    times : tuple of int
        Rounds at which the regret is recorded.
    seed : int
        Seed of the study.
    base_arms, arms, dim, horizon : int
        Size of the instance; the arms of an expressive set are truncations of the base arms.
    generator : callable
        What makes the instance.
    params : mapping
        What the generator is called with, apart from replications and seed.
    """

    id: str
    instance: str
    policy: str
    identity: Mapping[str, Any]
    policy_object: Policy
    times: tuple[int, ...]
    seed: int
    base_arms: int
    arms: int
    dim: int
    horizon: int
    generator: Generator = field(repr=False)
    params: Mapping[str, Any] = field(repr=False)

    @property
    def replication_bytes(self) -> int:
        """Memory that one replication takes, at most."""
        return replication_bytes(self.arms, self.dim, self.horizon)

    @property
    def least_bytes(self) -> int:
        """Memory that one replication takes, at least."""
        return least_bytes(self.base_arms, self.arms, self.dim)

    def make(self, replications: Iterable[int]) -> Instance:
        """Build the instance in the given replications."""
        return make_instance(self.generator, self.params, replications, self.seed)


def digest(identity: Mapping[str, Any]) -> str:
    """Name of a cell: a hash of what decides its results."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Unit:
    """A block of replications of a cell: what is computed and stored in one piece.

    Attributes
    ----------
    cell : Cell
        What is run.
    start, stop : int
        The replications from `start` to `stop` - 1.
    """

    cell: Cell
    start: int
    stop: int

    @property
    def id(self) -> str:
        """Name of the unit and of its file."""
        return f"{self.cell.id}-{self.start:06d}-{self.stop:06d}"

    @property
    def cost(self) -> float:
        """Rough amount of work, to order units and to guess the time left."""
        return float(self.stop - self.start) * self.cell.horizon * self.cell.arms * self.cell.dim

    def __str__(self) -> str:
        return f"{self.cell.policy} on {self.cell.instance}, replications {self.start} to {self.stop - 1}"
