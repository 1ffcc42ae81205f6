"""Computing units in this process, or in several through joblib; each stores what it has computed.

Worker processes import nothing that their parent could not: Python would put the current folder first on the path of
each. They end with their parent, however it ends, and leave Ctrl-C to it.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import joblib
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

from adadim.core.arrays import FloatArray
from adadim.errors import RunError
from adadim.instances.instance import Instance
from adadim.play.simulate import simulate
from adadim.policies.assumptions import without_warning_about_sets
from adadim.study.cells import Unit, UnitStatus
from adadim.study.store import Store, encoded

WATCH = 0.5  # seconds between looks at whether the parent lives
SHARE = 0.5  # of the memory of a machine or worker, for all units together
REPORT = 0.25  # seconds between two reports of rounds played


class Engine(Protocol):
    """Who computes the units of a study: processes here, a GPU (`device`), or a cluster (`cluster`)."""

    rounds: Path | None  # folder in which to write how many rounds of a unit are played, see `reporter`; not all do

    @property
    def jobs(self) -> int:
        """Units computed at the same time."""

    @property
    def batch(self) -> int | None:
        """Largest number of replications in a unit, if it is not for `executor.plan` to choose."""

    @property
    def memory(self) -> float | None:
        """Bytes for all units together; None are those of this machine."""

    def compute(self, units: Sequence[Unit]) -> Generator[tuple[Unit, UnitStatus]]:
        """Compute and store units, and yield each with what became of it; closing it stops the work."""

    def pace(self) -> str:
        """What a progress bar says beside the study's name; empty if nothing."""


class WorkersDiedError(Exception):
    """Some units were not computed, because workers died; `run` plans them again."""


class Processes:
    """An engine: `jobs` processes of this machine; 1 is this process itself."""

    memory = None
    rounds: Path | None = None

    def __init__(self, store: Store, jobs: int, batch: int | None) -> None:
        self.store, self.jobs, self.batch = store, jobs, batch

    def pace(self) -> str:
        return ""

    def compute(self, units: Sequence[Unit]) -> Generator[tuple[Unit, UnitStatus]]:
        if self.jobs == 1:
            yield from ((unit, compute(self.store, unit, self.rounds)) for unit in units)
            return
        # At least two: joblib would do the work of one in this process, which must survive what a policy does to one.
        count = min(self.jobs, max(2, len(units)))
        options: dict[str, Any] = {}
        if type(get_active_backend()[0]).__name__ == "LokyBackend":  # not within joblib.parallel_config(backend=...)
            options = {"initializer": begin, "initargs": (os.getpid(),)}
        pool = joblib.Parallel(count, return_as="generator_unordered", batch_size=1, max_nbytes=None, **options)
        store, by_id = self.store.absolute(), {unit.id: unit for unit in units}
        tasks = (joblib.delayed(_compute_in_worker)(store, unit, self.rounds) for unit in units)
        try:
            with warnings.catch_warnings(), _environment("PYTHONSAFEPATH", "1"):
                warnings.filterwarnings("ignore", ".*have been cancelled")  # after Ctrl-C: as it should be
                with _interrupts_held():
                    results = pool(tasks)
                with closing(results):
                    for name, status in results:
                        yield by_id[name], status
        except BrokenProcessPool as error:
            raise WorkersDiedError from error


def _compute_in_worker(store: Store, unit: Unit, rounds: Path | None) -> tuple[str, UnitStatus]:
    return unit.id, compute(store, unit, rounds)


def compute(store: Store, unit: Unit, rounds: Path | None = None) -> UnitStatus:
    """Compute and store a unit, unless it is stored by now or another process is computing it.

    Meanwhile the folder `rounds` says how far it is, see `reporter`.
    """
    with store.claims.hold(unit.cell.id, unit.span) as held:
        if not held:
            return "busy"
        status = store.state(unit)
        if status is None:  # else another run was faster, perhaps with other blocks
            store.write(unit, encoded(unit, regret_of(unit, _instance, reporter(rounds, unit))))
            status = "computed"
        return status


def reporter(folder: Path | None, unit: Unit) -> Callable[[int, int], None] | bool:
    """What `simulate` takes as `progress` to write the rounds of a unit, now and then, into a file of `folder`.

    False where there is no folder. A folder that is gone, or of another machine, is no error.
    """
    if folder is None:
        return False
    written = -math.inf

    def report(done: int, horizon: int) -> None:
        nonlocal written
        if (now := time.monotonic()) - written < REPORT:
            return
        written = now
        with contextlib.suppress(OSError):
            (folder / unit.id).write_text(str(done * (unit.stop - unit.start)))

    return report


def regret_of(
    unit: Unit, instance: Callable[[Unit], Instance], progress: Callable[[int, int], None] | bool = False
) -> FloatArray:
    """Regret of the replications of a unit, on the instance that is made for it; `progress` is that of `simulate`."""
    cell = unit.cell
    try:
        # The instance too is built with one thread, or its last bits might depend on the number of workers.
        with threadpool_limits(1, user_api="blas"), without_warning_about_sets():  # `Study.check` has warned
            return simulate(
                cell.policy_object, instance(unit), seed=cell.seed, record=cell.times, progress=progress
            ).regret
    except Exception as error:
        hint = "; use fewer jobs or a smaller batch" if isinstance(error, MemoryError) else ""
        raise RunError(f"{unit}: {type(error).__name__}: {error}{hint}") from error


_last: tuple[str, Instance] | None = None


def _instance(unit: Unit) -> Instance:
    """The unit's instance, which the unit before it often has used too."""
    global _last
    key = f"{unit.cell.identity['instance']} {unit.cell.seed} {unit.start} {unit.stop}"
    if _last is None or _last[0] != key:
        _last = None  # frees the memory before the next one is built
        _last = key, unit.cell.make(range(unit.start, unit.stop))
    return _last[1]


_watching: set[int] = set()


def begin(parent: int) -> None:
    """What a worker does first: end when the process `parent` does, and let that one see to Ctrl-C."""
    if os.getpid() == parent or parent in _watching:
        return
    _watching.add(parent)
    with contextlib.suppress(ValueError):  # only a main thread may
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        threading.Thread(target=_watch, args=(parent,), name="adadim-parent", daemon=True).start()


def _watch(parent: int) -> None:
    """End this process when it has another parent than `parent`: that one is gone."""
    while os.getppid() == parent:
        time.sleep(WATCH)
    os._exit(1)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable that processes started meanwhile inherit."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait: processes started meanwhile never see it, and so die of it nowhere in their imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
