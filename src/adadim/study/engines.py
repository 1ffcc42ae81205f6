"""Who computes the units of a study: processes here (`processes`), a GPU (`device`), or a cluster (`cluster`)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol

from adadim.study.blocks import Span
from adadim.study.cells import Outcome, Unit

__all__ = ["Engine", "WorkersDiedError"]


class Engine(Protocol):
    """What `run` needs to know about whoever does the work."""

    def plan(self, stored: Mapping[str, Sequence[Span]]) -> list[Unit]:
        """Units that compute what is missing, given what is stored."""

    def outcomes(self, units: Sequence[Unit]) -> Generator[tuple[Unit, Outcome]]:
        """Compute and store units, and yield each with its outcome when it is done; closing it stops the work."""

    def pace(self) -> str:
        """What a progress bar says beside the study's name; empty if nothing."""


class WorkersDiedError(Exception):
    """Some units were not computed, because workers died; `run` plans them again."""
