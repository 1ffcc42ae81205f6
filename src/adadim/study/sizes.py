"""What a study needs before it starts: room for its results on disk, and for one replication in memory."""

from __future__ import annotations

from collections.abc import Sequence

from adadim.backend.memory import check_fits
from adadim.errors import InvalidValueError, StudyError
from adadim.study.cells import LARGEST, Cell

__all__ = ["check_counts", "check_memory"]

MOST_POINTS = 1_000_000
PLANNED = 200  # bytes that a replication takes in the plan of a run


def check_counts(trials: int, record: int | Sequence[int]) -> None:
    """Raise unless so many replications and record points can be stored."""
    if trials > LARGEST:
        raise StudyError(f"trials: must be at most {LARGEST}, got {trials}")
    points = record if isinstance(record, int) else len(record)
    if points > MOST_POINTS:
        raise StudyError(f"record: must be at most {MOST_POINTS} rounds, got {points}")


def check_memory(cells: Sequence[Cell], trials: int) -> None:
    """Raise unless a replication of every cell, the plan and the results of one cell fit into this machine's memory."""
    for cell in cells:
        where = f"instances.{cell.instance}"
        if cell.horizon > LARGEST:
            raise StudyError(f"{where}.horizon: must be at most {LARGEST}, got {cell.horizon}")
        try:
            check_fits(cell.least_bytes, arms=cell.arms, dim=cell.dim)
        except InvalidValueError as error:
            raise StudyError(f"{where}: {error}") from error
    points = max(len(cell.times) for cell in cells)
    try:
        check_fits(trials * (8 * 3 * points + PLANNED * len(cells)), trials=trials)
    except InvalidValueError as error:
        raise StudyError(f"trials: {error}") from error
