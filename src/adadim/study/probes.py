"""Trying out an instance before a run: how large it is, and whether a policy can start on it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from adadim.checks import is_integer, shown
from adadim.errors import StudyError
from adadim.instances.contexts import ContextInstance
from adadim.instances.delay import Delay
from adadim.instances.instance import Instance
from adadim.policies.base import Learner
from adadim.policies.laws import Need, sets_lacking, warn_about_sets
from adadim.problem import Problem, Sets
from adadim.simulate import check_takes_late
from adadim.study.cells import Cell
from adadim.study.kinds import Generator
from adadim.study.tables import make_instance

__all__ = ["Probe", "build_probe", "check_starts"]

PROBE_ARMS = 2
MOST_NAMES = 3  # of instances that a warning lists


@dataclass(frozen=True)
class Probe:
    """What one replication of an instance shows, built with few arms where the generator allows it.

    Attributes
    ----------
    problem : Problem
        The problem that was built.
    arms : int
        Number of arms of the instance that a run builds.
    delay : Delay or None
        How many rounds its rewards take.
    """

    problem: Problem
    arms: int
    delay: Delay | None

    @property
    def base_arms(self) -> int:
        """Number of arms that are not truncations of others."""
        return self.arms if self.problem.contextual else self.arms // len(self.problem.actions.levels)

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.problem.dim

    @property
    def horizon(self) -> int:
        """Number of rounds."""
        return self.problem.horizon


def build_probe(generator: Generator, params: Mapping[str, Any], seed: int, where: str, shrink: bool = True) -> Probe:
    """Build one replication, which shows whether the parameters fit.

    With `shrink` it has two arms instead of `params["arms"]`. That asks for a generator, as adadim's are, whose
    instances have a fixed number of arms for each that is asked for: one, or one per level in an expressive set.
    Nothing is known about what a generator of the user's own makes of `arms`, so it needs ``shrink=False``.
    """
    wanted: Any = params.get("arms")
    small = PROBE_ARMS if shrink and is_integer(wanted) and wanted > PROBE_ARMS else wanted
    try:
        instance = make_instance(generator, {**params, "arms": small} if "arms" in params else params, [0], seed)
    except (TypeError, ValueError, MemoryError, OverflowError) as error:
        raise StudyError(f"{where}: {error}") from error
    if not isinstance(instance, Instance | ContextInstance):
        raise StudyError(f"{where}: {generator.__name__} must return an adadim.Instance, got {shown(instance)}")
    arms = instance.problem.arms
    return Probe(instance.problem, arms if small == wanted else arms * int(wanted) // PROBE_ARMS, instance.delay)


def check_starts(cells: Iterable[Cell], probes: Mapping[str, Probe]) -> None:
    """Raise unless each policy can start where it is to run; warn where its guarantee needs sets of another law."""
    where: dict[tuple[str, str, Need, Sets | None], list[str]] = {}
    for cell in cells:
        learner = _started(cell, probes[cell.instance].problem)
        try:
            check_takes_late(learner, probes[cell.instance].delay)
        except ValueError as error:
            raise StudyError(f"policies.{cell.policy}: cannot run on instances.{cell.instance}: {error}") from error
        kind = type(cell.policy_object).__name__
        found = where.setdefault((cell.policy, kind, learner.needs_sets, learner.problem.sets), [])
        found.append(f"instances.{cell.instance}")
    for (policy, kind, need, sets), names in where.items():
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        lacking = sets_lacking(kind, need, sets, ", ".join(names[:MOST_NAMES]) + more)
        warn_about_sets(lacking and f"policies.{policy}: {lacking}")


def _started(cell: Cell, problem: Problem) -> Learner:
    """A learner on the problem of a probe, or else on that of the whole instance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return cell.policy_object.start(problem)
        except Exception:  # perhaps only because the probe has few arms
            try:
                return cell.policy_object.start(cell.make([0]).problem)
            except Exception as error:
                raise StudyError(f"policies.{cell.policy}: cannot run on instances.{cell.instance}: {error}") from error
