"""Who runs a study: this process or several, each writing what it computed."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

from adadim.arrays import check_device
from adadim.problem import Instance
from adadim.simulate import simulate
from adadim.study.cells import Cell, Outcome, RunError, Unit
from adadim.study.device import device_batch, outcomes
from adadim.study.kinds import StudyError
from adadim.study.parts import identity
from adadim.study.results import Results, missing, standing
from adadim.study.spec import Study
from adadim.study.store import Span, Store

__all__ = ["Progress", "RunError", "batch_size", "run"]

Progress = Callable[[int, int, Unit | None], None]
"""Called as ``progress(units done, units in all, unit)``: first with 0 and None, then after each unit."""

BATCH = 25  # the Python of a step is shared by so many; more would gain little and hold matrices for longer
SHARE = 0.5  # of the machine's memory, for all workers together
COPIES = 4  # of the largest matrices that a policy and its bases may hold at once
POLL = 0.2  # seconds between looks at what another run is computing

_TURNS: dict[Path, threading.Lock] = {}


def run(
    study: Study,
    folder: str | Path,
    jobs: int | None = None,
    batch: int | None = None,
    progress: Progress | None = None,
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
    progress : callable, optional
        Called as ``progress(units done, units in all, unit)``, first with 0 and None.
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
    jobs = joblib.cpu_count() if jobs is None else _at_least_one(jobs, "jobs")
    batch = None if batch is None else _at_least_one(batch, "batch")
    store = Store(folder)
    # Locks keep processes apart, not the threads of one process: those take turns.
    with _TURNS.setdefault(store.folder.resolve(), threading.Lock()):
        entries = [_entry(cell) for cell in study.cells]
        manifest = store.open(study.name, entries, identity(study.to_dict(), "study"))
        stored = store.index()
        for cell in study.cells:
            for span in stored.get(cell.id, []):
                store.check(cell.id, span)
        if device == "cpu":
            planned, computed = partial(plan, study, jobs=jobs, batch=batch), partial(_outcomes, store, jobs=jobs)
        else:
            size = batch or device_batch(study.cells, device)
            planned = partial(plan, study, jobs=1, batch=size)
            computed = partial(_device_outcomes, store, device=device, batch=size)
        _fill(store, planned, computed, progress or _silent)
    return Results(folder, manifest)


def batch_size(cell: Cell, jobs: int = 1) -> int:
    """Replications that fit into memory in lock step, when `jobs` processes do the same; at most 25.

    Counts the features, K d numbers, and what a posterior holds, at most K^2 numbers, four times over.

    Examples
    --------
    >>> instance = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}
    >>> study = Study("small", {"easy": instance}, {"random": {"kind": "Random"}}, trials=1)
    >>> batch_size(study.cells[0], jobs=2)
    25
    """
    needed = COPIES * 8 * (cell.arms * cell.dim + min(cell.arms**2, cell.arms * cell.dim * 5 + cell.dim**2))
    return max(1, min(BATCH, int(SHARE * _memory() / jobs / needed)))


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


def compute(store: Store, unit: Unit) -> Outcome:
    """Compute and store a unit, unless it is there by now or another process is at it."""
    cell, span = unit.cell, (unit.start, unit.stop)
    with store.claim(cell.id, span) as mine:
        if not mine:
            return "busy"
        if (outcome := standing(store, unit)) is not None:  # another run was faster, perhaps with other blocks
            return outcome
        try:
            # The instance too is built with one thread, or its last bits might depend on the number of workers.
            with threadpool_limits(1, user_api="blas"):
                regret = simulate(cell.agent, _made(unit), seed=cell.seed, record=cell.times).regret
        except Exception as error:
            hint = "; use fewer jobs or a smaller batch" if isinstance(error, MemoryError) else ""
            raise RunError(f"{unit}: {type(error).__name__}: {error}{hint}") from error
        store.write(unit, regret)
    return "computed"


_last: tuple[str, Instance] | None = None


def _made(unit: Unit) -> Instance:
    """The unit's instance, which the unit before it often has used too."""
    global _last
    key = f"{unit.cell.identity['instance']} {unit.cell.seed} {unit.start} {unit.stop}"
    if _last is None or _last[0] != key:
        _last = None  # room for the next
        _last = key, unit.cell.make(range(unit.start, unit.stop))
    return _last[1]


def _silent(done: int, total: int, unit: Unit | None) -> None:
    return


def _fill(
    store: Store,
    planned: Callable[[Mapping[str, Sequence[Span]]], list[Unit]],
    compute_all: Callable[[Sequence[Unit]], Generator[tuple[int, Outcome]]],
    progress: Progress,
) -> None:
    done = deaths = 0
    units = planned(store.index())
    progress(0, len(units), None)
    while units:
        total, failure = done + len(units), None
        try:
            with closing(compute_all(units)) as outcomes:
                for position, outcome in outcomes:
                    if outcome != "busy":
                        done += 1
                        progress(done, total, units[position])
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
            time.sleep(POLL)
        units = left


def _outcomes(store: Store, units: Sequence[Unit], jobs: int) -> Generator[tuple[int, Outcome]]:
    """Position and outcome of each unit, as they come."""
    if jobs == 1:
        yield from ((position, compute(store, unit)) for position, unit in enumerate(units))
        return
    # At least two: joblib would do the work of one in this process, which must survive what a policy does to a worker.
    count = min(jobs, max(2, len(units)))
    store = Store(store.folder.absolute())  # a worker may have been started in another folder
    workers = joblib.Parallel(count, return_as="generator_unordered", batch_size=1, max_nbytes=None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*have been cancelled")  # after Ctrl-C: as it should be
        yield from workers(joblib.delayed(_numbered)(store, position, unit) for position, unit in enumerate(units))


def _device_outcomes(store: Store, units: Sequence[Unit], device: str, batch: int) -> Generator[tuple[int, Outcome]]:
    """The same on a GPU."""
    numbers = {unit.id: position for position, unit in enumerate(units)}
    yield from ((numbers[unit.id], outcome) for unit, outcome in outcomes(store, units, device, batch))


def _numbered(store: Store, position: int, unit: Unit) -> tuple[int, Outcome]:
    if multiprocessing.current_process().name != "MainProcess":
        # Ctrl-C reaches the workers too: the parent stops them, without a traceback from each.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return position, compute(store, unit)


def _spans(numbers: Sequence[int], size: int) -> Iterator[Span]:
    """Runs of consecutive numbers that do not cross a multiple of `size`."""
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: (pair[1] - pair[0], pair[1] // size)):
        run = [number for _, number in group]
        yield run[0], run[-1] + 1


def _entry(cell: Cell) -> dict[str, Any]:
    return {"id": cell.id, "instance": cell.instance, "policy": cell.policy, "spec": cell.identity}


def _at_least_one(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise StudyError(f"{name}: must be an integer of at least 1, got {value!r}")
    return value


def _memory() -> float:
    """Bytes of memory of this machine (not those free now: the choice of blocks should not vary)."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 4e9
