"""Running a study: what is missing is planned, computed by an engine and stored, until nothing is missing."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import joblib

from adadim.core.arrays import check_device
from adadim.core.checks import flag, integer, machine_bytes
from adadim.core.display import Bar, is_interactive
from adadim.core.files import Place, is_alive
from adadim.errors import RunError, StudyError
from adadim.study.cells import Cell, Span, Unit
from adadim.study.engines import REPORT_SECONDS, SHARE, Engine, GpuEngine, Processes, WorkersDiedError, device_batch
from adadim.study.results import Results
from adadim.study.store import Store, missing
from adadim.study.study import Study

if TYPE_CHECKING:
    from distributed import Client

Progress = Callable[[int, int, Unit | None], None]
"""Called as ``progress(units done, units in all, unit)``: first with 0 and None, then after each unit."""

MAX_BATCH = 25  # replications sharing the interpreter's overhead; more would gain little and hold matrices for longer

# Locks on files keep processes apart, not the threads of one process: those take turns in a folder.
_FOLDER_LOCKS: dict[str, threading.Lock] = {}


def run(
    study: Study,
    folder: str | Place,
    jobs: int | None = None,
    batch: int | None = None,
    progress: Progress | bool | None = None,
    device: str = "cpu",
    cluster: str | Client | None = None,
    shared: bool = False,
    fresh: bool = False,
    keep: bool = False,
    reuse: Iterable[str | Place] = (),
) -> Results:
    """Run a study: compute the results that are missing, and return all of them.

    Finished blocks of replications are safe: after Ctrl-C, a crash or ``kill -9`` the next run goes on with what is
    missing. More trials, instances or policies later add to what is there. Several runs may work on
    one folder at the same time: each leaves alone what another is computing, and waits for it in the end. The results
    depend on the study alone, not on `jobs`, `batch`, `cluster`, interruptions or order.

    Parameters
    ----------
    study : Study
        What to run.
    folder : path or URL
        Where the results are kept; it is made if need be. A URL such as ``s3://bucket/results`` is one of fsspec.
    jobs : int, optional
        Number of processes; by default one per core. 1 computes in this process. Within
        ``joblib.parallel_config(backend=...)`` another backend of joblib does the work.
    batch : int, optional
        Largest number of replications computed in parallel and stored in one file; by default `batch_size`, or less
        if some process would have nothing to do.
    progress : callable or bool, optional
        Called as ``progress(units done, units in all, unit)``, first with 0 and None. By default a bar of rounds with
        the time left shows in terminals and notebooks once the run has taken two seconds; True shows it at once,
        False never.
    device : str
        "cuda" (or "cuda:1") computes on a GPU, in this process, with as many replications in parallel as its memory
        holds; needs torch. The arithmetic is the same up to the order of sums, so what was computed on a CPU is kept,
        and the other way round. On a cluster the workers that offer Dask's resource GPU compute.
    cluster : str or distributed.Client, optional
        A Dask cluster that does the work instead of processes here: a client, the address of a scheduler such as
        ``"tcp://scheduler:8786"``, or ``"local:4"``, which starts four workers on this machine (a script needs
        ``if __name__ == "__main__":`` for that). Needs ``pip install 'adadim[cluster]'``.
    shared : bool
        The workers of the cluster write the results themselves, because they reach `folder` too. By default results
        come back to this process, which writes them.
    fresh, keep : bool
        What to do with stored blocks that another source of adadim computed, or one that is unknown (results from
        before 0.3): compute them again, or use them as they are. By default the run is refused, and nothing changes.
        `status` shows what computed the blocks.
    reuse : sequence of path or URL, optional
        Results folders of other studies. What is missing here and was computed there (the same policy on the same
        instances, with the same seed and record points) is copied.

    Raises
    ------
    DeviceError
        The device is not there, or too small.
    StudyError
        The study cannot be run as it is, see `Study.check`.
    StoreError
        The folder cannot be used as it is, holds blocks of another source, or the disk is full.
    RunError
        A policy raised an error, worker processes died, or the cluster cannot be used.

    Examples
    --------
    >>> import tempfile, adadim
    >>> from adadim.study import status
    >>> study = Study(
    ...     name="small",
    ...     instances={"easy": {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}},
    ...     policies={"LinUCB": adadim.LinUCB(), "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"}},
    ...     trials=4,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run(study, folder, jobs=1)
    ...     final = results.final("easy", "oracle")
    ...     complete = status(folder).complete
    >>> final.shape, complete
    ((4,), True)
    """
    if not isinstance(study, Study):
        raise StudyError(f"expected a Study, got {type(study).__name__}; Study.from_toml reads one from a file")
    shared = flag(shared, "shared")
    if cluster is not None and jobs is not None:
        raise StudyError(f"jobs: a cluster has workers of its own, got {jobs!r}; leave it out")
    if cluster is None and shared:
        raise StudyError("shared: it is workers of a cluster that share the folder; name a cluster, or leave it out")
    jobs = None if jobs is None else integer(jobs, "jobs")
    if cluster is None and check_device(device) != "cpu" and jobs not in (None, 1):
        raise StudyError(f"jobs: one process drives {device}, got {jobs!r}; leave it out")
    batch = None if batch is None else integer(batch, "batch")
    fresh, keep = flag(fresh, "fresh"), flag(keep, "keep")
    if fresh and keep:
        raise StudyError("fresh, keep: blocks of another source are computed again or kept, not both; leave out one")
    study.check()
    store = Store(folder)
    with _FOLDER_LOCKS.setdefault(store.key, threading.Lock()), contextlib.ExitStack() as stack:
        engine: Engine = Processes(store, jobs or joblib.cpu_count(), batch)
        if cluster is not None:
            from adadim.study.cluster import Cluster, connected

            engine = Cluster(study, store, stack.enter_context(connected(cluster)), batch, device, shared)
        elif device != "cpu":
            engine = GpuEngine(store, device, batch or device_batch(study.cells, device))
        store.prepare(study)
        stack.enter_context(store.claims.registered())
        manifest = store.open(study, fresh, keep)
        for other in map(Store, reuse):
            if other.key != store.key:
                store.copy_from(other, study)
        if callable(progress):
            _compute_missing(study, store, engine, progress)
        elif progress is False or not is_interactive():
            _compute_missing(study, store, engine, lambda done, total, unit: None)
        else:
            count = stack.enter_context(RoundCount(study.name, progress, engine.pace))
            engine.rounds = count.folder
            _compute_missing(study, store, engine, count.progress, count.plan)
    return Results(store.folder, manifest)


def batch_size(cell: Cell, jobs: int = 1, memory: float | None = None) -> int:
    """Replications that fit into memory in parallel, when `jobs` processes do the same; at most 25.

    Memory is that of this machine, or of another that has so many bytes.

    Examples
    --------
    >>> instance = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}
    >>> study = Study("small", {"easy": instance}, {"random": {"kind": "Random"}}, trials=1)
    >>> batch_size(study.cells[0], jobs=2)
    25
    """
    available = machine_bytes() if memory is None else memory
    return max(1, min(MAX_BATCH, int(SHARE * available / jobs / cell.replication_bytes)))


def plan(
    study: Study,
    stored: Mapping[str, Sequence[Span]],
    jobs: int,
    batch: int | None = None,
    memory: float | None = None,
) -> list[Unit]:
    """Units that compute what is missing, the longest first, those on the same instance one after the other."""
    different = {cell.id: cell for cell in study.cells}
    fair = math.ceil(len(different) * study.trials / jobs)
    units = []
    for cell in different.values():
        size = batch or min(batch_size(cell, jobs, memory), fair)
        # Blocks begin at multiples of it: an interrupted run is completed with the files it would have written itself.
        units += [Unit(cell, *span) for span in _spans(missing(stored.get(cell.id, ()), study.trials), size)]
    return sorted(units, key=lambda unit: (-unit.cost, unit.cell.instance, unit.start))


def _compute_missing(
    study: Study, store: Store, engine: Engine, progress: Progress, note: Callable[[list[Unit]], list[Unit]] = list
) -> None:
    """Compute units until nothing is missing, also of what others compute; `note` is given each plan and returns it."""

    def planned() -> list[Unit]:
        return note(plan(study, store.index(), engine.jobs, engine.batch, engine.memory))

    done, deaths, since = 0, 0, time.monotonic()
    units = planned()
    progress(0, len(units), None)
    while units:
        total, failure = done + len(units), None
        try:
            with closing(engine.compute(units)) as results:
                for unit, status in results:
                    if status != "busy":
                        done += 1
                        progress(done, total, unit)
        except WorkersDiedError as error:
            failure = error
        left = planned()
        stuck = len(left) == len(units)
        if failure is not None:
            deaths = deaths + 1 if stuck else 1
            if deaths > 1:
                # Nothing of this plan was finished, so each worker died in one of its first units.
                suspects = "; ".join(map(str, left[: engine.jobs]))
                raise RunError(
                    "worker processes died twice without finishing anything (killed, out of memory, or crashed by a "
                    f"policy), while they computed some of: {suspects}. Finished blocks are stored: run again, "
                    "with fewer jobs or a smaller batch"
                ) from failure
        elif stuck:  # others are computing all that is left
            store.claims.warn_of_waiting(time.monotonic() - since)
            time.sleep(store.claims.poll_seconds)
        if not stuck:
            since = time.monotonic()
        units = left


def _spans(numbers: Sequence[int], size: int) -> Iterator[Span]:
    """Runs of consecutive numbers that do not cross a multiple of `size`."""
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: (pair[1] - pair[0], pair[1] // size)):
        run = [number for _, number in group]
        yield run[0], run[-1] + 1


def rounds_of(units: Iterable[Unit]) -> int:
    """Rounds that units play, over all their replications."""
    return sum((unit.stop - unit.start) * unit.cell.horizon for unit in units)


class RoundCount:
    """Counts the rounds of a run for its bar, from small files that workers write (`engines.reporter`)."""

    def __init__(self, name: str, wanted: bool | None, pace: Callable[[], str] = str) -> None:
        _remove_left_folders()
        self.folder = Path(tempfile.mkdtemp(prefix=f"adadim-rounds-{socket.gethostname()}-{os.getpid()}-"))
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
        for path in self.folder.glob("*"):
            with contextlib.suppress(OSError, ValueError):  # finished by now, or half written
                under_way += int(path.read_text())
        self._most = min(max(self._most, self._finished + under_way), self._total)
        return self._most

    def _show(self) -> None:
        self._bar.update(self.played(), self._total, self._pace())

    def _watch(self) -> None:
        while not self._over.wait(REPORT_SECONDS):
            self._show()


def _remove_left_folders() -> None:
    """Remove the folders of runs of this machine that were killed."""
    for path in Path(tempfile.gettempdir()).glob("adadim-rounds-*"):
        match = re.fullmatch(r"adadim-rounds-(.+)-([0-9]{1,9})-\w+", path.name)
        if match and not is_alive(match[2], match[1]):
            shutil.rmtree(path, ignore_errors=True)
