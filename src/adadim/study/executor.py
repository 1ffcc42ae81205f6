"""Running a study: in this process, in several, or on a GPU; each stores what it has computed."""

from __future__ import annotations

import itertools
import math
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from pathlib import Path

import joblib
from threadpoolctl import threadpool_limits

from adadim.backend.arrays import check_device
from adadim.backend.memory import machine_bytes
from adadim.checks import integer
from adadim.errors import RunError, StudyError
from adadim.problem import Instance
from adadim.simulate import simulate
from adadim.study import workers
from adadim.study.cells import Cell, Outcome, Unit
from adadim.study.device import device_batch, device_outcomes
from adadim.study.results import Results, already_there, missing
from adadim.study.rounds import RoundCount, reporter
from adadim.study.store import Span, Store
from adadim.study.study import Study

__all__ = ["Progress", "batch_size", "compute", "plan", "run"]

Progress = Callable[[int, int, Unit | None], None]
"""Called as ``progress(units done, units in all, unit)``: first with 0 and None, then after each unit."""

BATCH = 25  # the Python of a step is shared by so many; more would gain little and hold matrices for longer
SHARE = 0.5  # of the machine's memory, for all workers together
POLL = 0.2  # seconds between looks at what another run is computing

# Locks on files keep processes apart, not the threads of one process: those take turns in a folder.
_FOLDER_LOCKS: dict[Path, threading.Lock] = {}


def run(
    study: Study,
    folder: str | Path,
    jobs: int | None = None,
    batch: int | None = None,
    progress: Progress | bool | None = None,
    device: str = "cpu",
) -> Results:
    """Compute what is missing of a study, and return all of it.

    Finished blocks of replications are safe: after Ctrl-C, a crash or ``kill -9`` the next run goes on with what is
    missing. More trials, instances or policies later add to what is there. Several runs may work on
    one folder at the same time: each leaves alone what another is computing, and waits for it in the end. The results
    depend on the study alone, not on `jobs`, `batch`, interruptions or order.

    Parameters
    ----------
    study : Study
        What to run.
    folder : path
        Where the results are kept; it is made if need be.
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
        and the other way round.

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
        A policy raised an error, or worker processes died.

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
    if check_device(device) != "cpu" and jobs not in (None, 1):
        raise StudyError(f"jobs: one process drives {device}, got {jobs!r}; leave it out")
    jobs = joblib.cpu_count() if jobs is None else integer(jobs, "jobs")
    batch = None if batch is None else integer(batch, "batch")
    study.check()
    store = Store(folder)
    with _FOLDER_LOCKS.setdefault(store.folder.resolve(), threading.Lock()):
        manifest = store.open(study)
        with store.registered():
            store.remove_damaged(study)
            if device == "cpu":
                planned = partial(plan, study, jobs=jobs, batch=batch)
                computed = partial(_cpu_outcomes, store, jobs=jobs)
            else:
                size = batch or device_batch(study.cells, device)
                planned = partial(plan, study, jobs=1, batch=size)
                computed = partial(device_outcomes, store, device=device, batch=size)
            if callable(progress):
                _compute_missing(store, planned, computed, progress)
            else:
                with RoundCount(study.name, progress) as count:
                    if device == "cpu":
                        computed = partial(computed, rounds=count.folder)
                    _compute_missing(store, lambda stored: count.plan(planned(stored)), computed, count.progress)
    return Results(folder, manifest)


def batch_size(cell: Cell, jobs: int = 1) -> int:
    """Replications that fit into memory in lock step, when `jobs` processes do the same; at most 25.

    Examples
    --------
    >>> instance = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}
    >>> study = Study("small", {"easy": instance}, {"random": {"kind": "Random"}}, trials=1)
    >>> batch_size(study.cells[0], jobs=2)
    25
    """
    return max(1, min(BATCH, int(SHARE * machine_bytes() / jobs / cell.replication_bytes)))


def plan(study: Study, stored: Mapping[str, Sequence[Span]], jobs: int, batch: int | None = None) -> list[Unit]:
    """Units that compute what is missing, the longest first, those on the same instance one after the other.

    Blocks begin at multiples of the batch, so that an interrupted run is completed with the files it would have
    written itself.
    """
    different = {cell.id: cell for cell in study.cells}
    fair = math.ceil(len(different) * study.trials / jobs)
    units = []
    for cell in different.values():
        size = batch or min(batch_size(cell, jobs), fair)
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
        if (outcome := already_there(store, unit)) is not None:  # another run was faster, perhaps with other blocks
            return outcome
        try:
            # The instance too is built with one thread, or its last bits might depend on the number of workers.
            with threadpool_limits(1, user_api="blas"):
                regret = simulate(
                    cell.policy_object, _instance(unit), cell.seed, cell.times, reporter(rounds, unit)
                ).regret
        except Exception as error:
            hint = "; use fewer jobs or a smaller batch" if isinstance(error, MemoryError) else ""
            raise RunError(f"{unit}: {type(error).__name__}: {error}{hint}") from error
        store.write(unit, regret)
    return "computed"


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
    store: Store,
    planned: Callable[[Mapping[str, Sequence[Span]]], list[Unit]],
    computed: Callable[[Sequence[Unit]], Generator[tuple[Unit, Outcome]]],
    progress: Progress,
) -> None:
    """Compute units until nothing is missing, what other processes are computing included.

    `planned` lists the units that compute what is missing, given what is stored; `computed` computes some.
    """
    done, deaths, since = 0, 0, time.monotonic()
    units = planned(store.index())
    progress(0, len(units), None)
    while units:
        total, failure = done + len(units), None
        try:
            with closing(computed(units)) as outcomes:
                for unit, outcome in outcomes:
                    if outcome != "busy":
                        done += 1
                        progress(done, total, unit)
        except BrokenProcessPool as error:
            failure = error
        left = planned(store.index())
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
            time.sleep(POLL)
        if not stuck:
            since = time.monotonic()
        units = left


def _cpu_outcomes(
    store: Store, units: Sequence[Unit], jobs: int, rounds: Path | None = None
) -> Generator[tuple[Unit, Outcome]]:
    """Compute units in this process or in several; yields each with its outcome, as they are done."""
    if jobs == 1:
        yield from ((unit, compute(store, unit, rounds)) for unit in units)
        return
    # At least two: joblib would do the work of one in this process, which must survive what a policy does to a worker.
    count = min(jobs, max(2, len(units)))
    store = Store(store.folder.absolute())  # a worker may have been started in another folder
    by_id = {unit.id: unit for unit in units}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*have been cancelled")  # after Ctrl-C: as it should be
        with closing(workers.outcomes(_in_worker, ((store, unit, rounds) for unit in units), count)) as done:
            for name, outcome in done:
                yield by_id[name], outcome


def _in_worker(store: Store, unit: Unit, rounds: Path | None = None) -> tuple[str, Outcome]:
    return unit.id, compute(store, unit, rounds)


def _spans(numbers: Sequence[int], size: int) -> Iterator[Span]:
    """Runs of consecutive numbers that do not cross a multiple of `size`."""
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: (pair[1] - pair[0], pair[1] // size)):
        run = [number for _, number in group]
        yield run[0], run[-1] + 1
