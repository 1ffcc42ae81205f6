"""The cells of a study, the units of work they are cut into, and small instances that show how large a cell is."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from adadim.core.checks import is_integer, shown
from adadim.core.problem import Problem, Sets
from adadim.errors import StudyError
from adadim.instances.contexts import ContextInstance
from adadim.instances.delay import Delay
from adadim.instances.instance import Instance
from adadim.models.cost import least_bytes, replication_bytes
from adadim.play.simulate import check_takes_late
from adadim.policies.assumptions import Need, sets_lacking, warn_about_sets
from adadim.policies.base import Learner, Policy
from adadim.study.kinds import Factory, make_instance

FORMAT = 2
"""Version of what is stored and of how it is computed: raise it when a release changes either."""

MAX_INTEGER = 2**31 - 1
"""Largest replication number and round that a block can hold."""

PROBE_ARMS = 2
MAX_NAMES = 3  # of instances that a warning lists

Span = tuple[int, int]
"""Replications from the first number to one before the second."""

UnitStatus = Literal["computed", "stored", "busy"]
"""What became of a unit: computed now, stored before, or being computed by another process."""


@dataclass(frozen=True)
class Cell:
    """One policy on one instance of a study, by their names in it, all replications.

    `id` is the hash of everything that decides the result, instance, policy, seed, record points and `FORMAT` (names
    and the number of trials do not), which `identity` has as plain JSON. `policy_object` has filled in what it takes
    from the instance, `times` are the rounds at which the regret is recorded. Of the sizes, the arms of an expressive
    set are truncations of the base arms. `generator` makes the instance, from `params`, replications and seed.
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
    generator: Factory = field(repr=False)
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
    """The replications from `start` to `stop` - 1 of a cell: what is computed and stored in one piece."""

    cell: Cell
    start: int
    stop: int

    @property
    def id(self) -> str:
        """Name of the unit and of its file."""
        return f"{self.cell.id}-{self.start:06d}-{self.stop:06d}"

    @property
    def span(self) -> Span:
        """First replication, and the one after the last."""
        return self.start, self.stop

    @property
    def block(self) -> tuple[str, Span]:
        """Identifier of the cell, and the replications."""
        return self.cell.id, self.span

    @property
    def cost(self) -> float:
        """Rough amount of work, to order units and to guess the time left."""
        return float(self.stop - self.start) * self.cell.horizon * self.cell.arms * self.cell.dim

    def make(self) -> Instance:
        """Build the instance in these replications."""
        return self.cell.make(range(self.start, self.stop))

    def __str__(self) -> str:
        return f"{self.cell.policy} on {self.cell.instance}, replications {self.start} to {self.stop - 1}"


class Probe(NamedTuple):
    """The problem of one replication, built with few arms where the generator allows it, and its full sizes."""

    problem: Problem
    arms: int
    base_arms: int  # those that are not truncations of others
    delay: Delay | None  # how many rounds its rewards take


def build_probe(generator: Factory, params: Mapping[str, Any], seed: int, where: str, shrink: bool = True) -> Probe:
    """Build one replication, which shows whether the parameters fit; with `shrink` one of two arms.

    To `shrink`, the instances must have as many arms as the parameter says, or so many per level, as adadim's have. It
    has all arms if other parameters do not fit two.
    """
    wanted: Any = params.get("arms")
    shrunk = shrink and is_integer(wanted) and wanted > PROBE_ARMS
    built = PROBE_ARMS if shrunk else wanted
    try:
        instance = make_instance(generator, {**params, "arms": built} if "arms" in params else params, [0], seed)
    except (TypeError, ValueError, MemoryError, OverflowError) as error:
        if shrunk:
            return build_probe(generator, params, seed, where, shrink=False)
        raise StudyError(f"{where}: {error}") from error
    if not isinstance(instance, Instance | ContextInstance):
        raise StudyError(f"{where}: {generator.__name__} must return an adadim.Instance, got {shown(instance)}")
    problem = instance.problem
    arms = problem.arms * int(wanted) // PROBE_ARMS if shrunk else problem.arms
    base_arms = arms if problem.contextual else arms // len(problem.actions.levels)
    return Probe(problem, arms, base_arms, instance.delay)


def check_starts(cells: Iterable[Cell], probes: Mapping[str, Probe]) -> None:
    """Raise unless each policy can start where it is to run; warn where its guarantee needs sets of another law."""
    instances: dict[tuple[str, str, Need, Sets | None], list[str]] = {}
    for cell in cells:
        learner = _probe_learner(cell, probes[cell.instance])
        kind = type(cell.policy_object).__name__
        names = instances.setdefault((cell.policy, kind, learner.needs_sets, learner.problem.sets), [])
        names.append(f"instances.{cell.instance}")
    for (policy, kind, need, sets), names in instances.items():
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        lacking = sets_lacking(kind, need, sets, ", ".join(names[:MAX_NAMES]) + more)
        warn_about_sets(lacking and f"policies.{policy}: {lacking}")


def _probe_learner(cell: Cell, probe: Probe) -> Learner:
    """Start a learner on the problem of a probe, or else on that of the full instance."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                learner = cell.policy_object.start(probe.problem)
            except Exception:  # perhaps only because the probe has few arms
                learner = cell.policy_object.start(cell.make([0]).problem)
        check_takes_late(learner, probe.delay)
    except Exception as error:
        raise StudyError(f"policies.{cell.policy}: cannot run on instances.{cell.instance}: {error}") from error
    return learner
