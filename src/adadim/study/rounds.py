"""How many rounds of a study are played, those of blocks under way included.

A worker writes the rounds it has played of its block into a small file of a temporary folder, which is removed in the
end. A worker on another machine has no such folder: its rounds are counted when its block is finished.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from adadim.progress import Bar
from adadim.study.cells import Unit

__all__ = ["RoundCount", "reporter", "rounds_of"]

POLL = 0.25  # seconds between looks


def rounds_of(units: Iterable[Unit]) -> int:
    """Rounds that units play, over all their replications."""
    return sum((unit.stop - unit.start) * unit.cell.horizon for unit in units)


def reporter(folder: Path | None, unit: Unit) -> Callable[[int, int], None] | bool:
    """What `simulate` takes as `progress` to write rounds into `folder`; False where there is no folder.

    It writes no more often than `RoundCount` looks.
    """
    if folder is None:
        return False
    written = -math.inf

    def report(done: int, horizon: int) -> None:
        nonlocal written
        if (now := time.monotonic()) - written < POLL:
            return
        written = now
        with contextlib.suppress(OSError):
            (folder / unit.id).write_text(str(done * (unit.stop - unit.start)))

    return report


class RoundCount:
    """Counts the rounds of a run, and shows them in a bar while it lasts.

    Parameters
    ----------
    name : str
        The study.
    wanted : bool, optional
        Whether to show a bar, as `adadim.progress.Bar` takes it.
    pace : callable, optional
        Gives what the bar says beside the name.
    """

    def __init__(self, name: str, wanted: bool | None, pace: Callable[[], str] = str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="adadim-rounds-"))
        self._bar, self._pace = Bar(name, wanted), pace
        self._finished, self._total, self._most = 0, 0, 0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="adadim-rounds", daemon=True)

    def __enter__(self) -> RoundCount:
        self._bar.__enter__()
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._watcher.join()
        if kind is None:
            self._show()
        self._bar.__exit__(kind, error, at)
        shutil.rmtree(self.folder, ignore_errors=True)

    def plan(self, units: list[Unit]) -> list[Unit]:
        """Note what is left to do; returns it."""
        self._total = self._finished + rounds_of(units)
        return units

    def progress(self, done: int, total: int, unit: Unit | None) -> None:
        """Note that a unit is finished."""
        if unit is not None:
            (self.folder / unit.id).unlink(missing_ok=True)
            self._finished += rounds_of([unit])

    def played(self) -> int:
        """Rounds played so far, those of unfinished units included; never fewer than before."""
        under_way = 0
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError, ValueError):  # finished by now, or half written
                under_way += int(path.read_text())
        self._most = min(max(self._most, self._finished + under_way), self._total)
        return self._most

    def _show(self) -> None:
        self._bar.update(self.played(), self._total, self._pace())

    def _watch(self) -> None:
        while not self._over.wait(POLL):
            self._show()
