"""Running a study: what is missing is planned, computed by an engine and stored, until nothing is missing."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from adadim.backend.arrays import check_device
from adadim.backend.memory import machine_bytes
from adadim.checks import flag, integer
from adadim.errors import RunError, StudyError
from adadim.files import Place
from adadim.instances.instance import Instance
from adadim.policies.laws import without_warning_about_sets
from adadim.simulate import simulate
from adadim.study.cells import Cell, Outcome, Unit
from adadim.study.device import Card, device_batch
from adadim.study.engines import Engine, WorkersDiedError
from adadim.study.processes import Processes
from adadim.study.results import Results, already_there, covered, missing
from adadim.study.rounds import RoundCount, reporter
from adadim.study.store import Span, Store
from adadim.study.study import Study

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["SHARE", "Progress", "batch_size", "compute", "plan", "regret_of", "run"]

Progress = Callable[[int, int, Unit | None], None]
"""Called as ``progress(units done, units in all, unit)``: first with 0 and None, then after each unit."""

BATCH = 25  # the Python of a step is shared by so many; more would gain little and hold matrices for longer
SHARE = 0.5  # of the machine's memory, for all workers together

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
) -> Results:
    """Compute what is missing of a study, and return all of it.

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
        Largest number of replications computed in lock step and stored in one file; by default `batch_size`, or less
        if some process would have nothing to do.
    progress : callable or bool, optional
        Called as ``progress(units done, units in all, unit)``, first with 0 and None. By default a bar of rounds with
        the time left shows in terminals and notebooks once the run has taken two seconds; True shows it at once,
        False never.
    device : str
        "cuda" (or "cuda:1") computes on a GPU, in this process, with as many replications in lock step as its memory
        holds; needs torch. The arithmetic is the same up to the order of sums, so what was computed on a CPU is kept,
        and the other way round. On a cluster the workers that offer Dask's resource GPU compute.
    cluster : str or distributed.Client, optional
        A Dask cluster that does the work instead of processes here: a client, the address of a scheduler such as
        ``"tcp://scheduler:8786"``, or ``"local:4"``, which starts four workers on this machine (a script needs
        ``if __name__ == "__main__":`` for that). Needs ``pip install 'adadim[cluster]'``.
    shared : bool
        The workers of the cluster write the results themselves, because they reach `folder` too. By default results
        come back to this process, which writes them.

    Returns
    -------
    Results

    Raises
    ------
    DeviceError
        The device is not there, or too small.
    StudyError
        The study cannot be run as it is, see `Study.check`.
    StoreError
        The folder cannot be used as it is, or the disk is full.
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
    jobs = joblib.cpu_count() if jobs is None else jobs
    batch = None if batch is None else integer(batch, "batch")
    study.check()
    store = Store(folder)
    with _FOLDER_LOCKS.setdefault(store.key, threading.Lock()):
        if cluster is None:
            return _run(study, store, _engine_here(study, store, jobs, batch, device), progress)
        from adadim.study.cluster import Cluster, connected

        with connected(cluster) as client:
            return _run(study, store, Cluster(study, store, client, batch, device, shared), progress)


def _engine_here(study: Study, store: Store, jobs: int, batch: int | None, device: str) -> Engine:
    """Processors of this machine, or its GPU."""
    if device == "cpu":
        return Processes(store, partial(plan, study, jobs=jobs, batch=batch), compute, jobs)
    size = batch or device_batch(study.cells, device)
    return Card(store, partial(plan, study, jobs=1, batch=size), device, size)


def _run(study: Study, store: Store, engine: Engine, progress: Progress | bool | None) -> Results:
    manifest = store.open(study)
    with store.registered():
        store.remove_damaged(study)
        if callable(progress):
            _compute_missing(store, engine, progress)
        else:
            with RoundCount(study.name, progress, engine.pace) as count:
                if isinstance(engine, Processes):
                    engine.compute = partial(compute, rounds=count.folder)
                _compute_missing(store, engine, count.progress, count.plan)
    return Results(store.folder, manifest)


def batch_size(cell: Cell, jobs: int = 1, memory: float | None = None) -> int:
    """Replications that fit into memory in lock step, when `jobs` processes do the same; at most 25.

    Memory is that of this machine, or of another that has so many bytes.

    Examples
    --------
    >>> instance = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}
    >>> study = Study("small", {"easy": instance}, {"random": {"kind": "Random"}}, trials=1)
    >>> batch_size(study.cells[0], jobs=2)
    25
    """
    have = machine_bytes() if memory is None else memory
    return max(1, min(BATCH, int(SHARE * have / jobs / cell.replication_bytes)))


def plan(
    study: Study,
    stored: Mapping[str, Sequence[Span]],
    jobs: int,
    batch: int | None = None,
    memory: float | None = None,
) -> list[Unit]:
    """Units that compute what is missing, the longest first, those on the same instance one after the other.

    Blocks begin at multiples of the batch, so that an interrupted run is completed with the files it would have
    written itself.
    """
    different = {cell.id: cell for cell in study.cells}
    fair = math.ceil(len(different) * study.trials / jobs)
    units = []
    for cell in different.values():
        size = batch or min(batch_size(cell, jobs, memory), fair)
        units += [Unit(cell, *span) for span in _spans(missing(stored.get(cell.id, ()), study.trials), size)]
    return sorted(units, key=lambda unit: (-unit.cost, unit.cell.instance, unit.start))


def compute(store: Store, unit: Unit, rounds: Path | None = None) -> Outcome:
    """Compute and store a unit, unless it is stored by now or another process is computing it.

    Meanwhile the folder `rounds` says how far it is, see `RoundCount`.
    """
    cell = unit.cell
    with store.claim(cell.id, (unit.start, unit.stop)) as claimed:
        if not claimed:
            return "busy"
        found = already_there(covered(store.index().get(unit.cell.id, ()), unit.stop), unit)
        if found is not None:  # another run was faster, perhaps with other blocks
            return found
        store.write(unit, regret_of(unit, _instance, reporter(rounds, unit)))
    return "computed"


def regret_of(
    unit: Unit, instance: Callable[[Unit], Instance], progress: Callable[[int, int], None] | bool = False
) -> np.ndarray[Any, Any]:
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


def _compute_missing(
    store: Store, engine: Engine, progress: Progress, planned: Callable[[list[Unit]], list[Unit]] = list
) -> None:
    """Compute units until nothing is missing, what other processes are computing included.

    `planned` is told of each plan and gives it back.
    """
    done, deaths, since = 0, 0, time.monotonic()
    units = planned(engine.plan(store.index()))
    progress(0, len(units), None)
    while units:
        total, failure = done + len(units), None
        try:
            with closing(engine.outcomes(units)) as outcomes:
                for unit, outcome in outcomes:
                    if outcome != "busy":
                        done += 1
                        progress(done, total, unit)
        except WorkersDiedError as error:
            failure = error
        left = planned(engine.plan(store.index()))
        stuck = len(left) == len(units)
        if failure is not None:
            deaths = deaths + 1 if stuck else 1
            if deaths > 1:
                raise RunError(
                    "worker processes died twice without finishing anything (killed, out of memory, or crashed by a "
                    f"policy); among what they were to compute: {left[0]}. Finished blocks are stored: run again, "
                    "with fewer jobs or a smaller batch"
                ) from failure
        elif stuck:  # others are computing all that is left
            store.waiting(time.monotonic() - since)
            time.sleep(store.poll)
        if not stuck:
            since = time.monotonic()
        units = left


def _spans(numbers: Sequence[int], size: int) -> Iterator[Span]:
    """Runs of consecutive numbers that do not cross a multiple of `size`."""
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: (pair[1] - pair[0], pair[1] // size)):
        run = [number for _, number in group]
        yield run[0], run[-1] + 1
