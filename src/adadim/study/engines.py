"""Engines, which compute units and store the results: this process, several through joblib, or a GPU.

Worker processes import nothing that their parent could not: Python would put the current folder first on the path of
each. They end with their parent, however it ends, and leave Ctrl-C to it. A GPU has hundreds of replications in lock
step: units that differ in their instance alone run together, whatever d* they have, which makes it no slower.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import joblib
from joblib.parallel import get_active_backend

from adadim.core.actions import sharing_arms
from adadim.core.arrays import FloatArray
from adadim.core.threads import one_thread
from adadim.errors import DeviceError, RunError
from adadim.instances.contexts import ContextInstance
from adadim.instances.instance import Instance
from adadim.models.cost import replication_bytes
from adadim.play.simulate import ProgressOption, simulate
from adadim.policies.assumptions import without_warning_about_sets
from adadim.study.cells import Cell, Unit, UnitStatus
from adadim.study.store import Store, encoded

WATCH_SECONDS = 0.5  # between looks at whether the parent lives
SHARE = 0.5  # of the memory of a machine or worker, for all units together
GPU_SHARE = 0.8  # of a GPU's free memory
SIDE_BY_SIDE = 6  # runs on a GPU at the same time; more gain little, since the interpreter is then the limit
CHUNK = 2  # replications of an instance for a GPU that one thread makes
TASKS = 4  # for each worker, at least, so that all have work until the end
REPORT_SECONDS = 0.25  # between two reports of rounds played

InstanceKey = tuple[str, int, int]
"""Name of an instance, its first replication and the one after the last."""


class Engine:
    """Computes the units of a study: by processes of this machine, a GPU, or a cluster (`cluster`)."""

    jobs = 1  # units computed at the same time
    batch: int | None = None  # largest number of replications in a unit, if it is not for `executor.plan` to choose
    memory: float | None = None  # bytes for all units together; None are those of this machine
    rounds: Path | None = None  # folder in which to write how many rounds of a unit are played, see `reporter`

    def compute(self, units: Sequence[Unit]) -> Generator[tuple[Unit, UnitStatus]]:
        """Compute and store units, and yield each with what became of it; closing it stops the work."""
        raise NotImplementedError

    def pace(self) -> str:
        """What a progress bar says beside the study's name; empty if nothing."""
        return ""


class WorkersDiedError(Exception):
    """Some units were not computed, because workers died; `run` plans them again."""


class Processes(Engine):
    """`jobs` processes of this machine; 1 is this process itself."""

    def __init__(self, store: Store, jobs: int, batch: int | None) -> None:
        self.store, self.jobs, self.batch = store, jobs, batch

    def compute(self, units: Sequence[Unit]) -> Generator[tuple[Unit, UnitStatus]]:
        if self.jobs == 1:
            yield from ((unit, compute(self.store, unit, self.rounds)[1]) for unit in units)
            return
        # At least two: joblib would do the work of one in this process, which must survive what a policy does to one.
        count = min(self.jobs, max(2, len(units)))
        options: dict[str, Any] = {}
        if type(get_active_backend()[0]).__name__ == "LokyBackend":  # not within joblib.parallel_config(backend=...)
            options = {"initializer": begin, "initargs": (os.getpid(),)}
        pool = joblib.Parallel(count, return_as="generator_unordered", batch_size=1, max_nbytes=None, **options)
        store, by_id = self.store.absolute(), {unit.id: unit for unit in units}
        tasks = (joblib.delayed(compute_in_turn)(store, task, self.rounds) for task in tasks_of(units, count))
        try:
            with warnings.catch_warnings(), _environment("PYTHONSAFEPATH", "1"):
                warnings.filterwarnings("ignore", ".*have been cancelled")  # after Ctrl-C: as it should be
                with _interrupts_held():
                    results = pool(tasks)
                with closing(results):
                    for computed in results:
                        yield from ((by_id[name], status) for name, status in computed)
        except BrokenProcessPool as error:
            raise WorkersDiedError from error


def compute(store: Store, unit: Unit, rounds: Path | None = None) -> tuple[str, UnitStatus]:
    """Compute and store a unit, unless it is stored by now or another process is computing it; see `reporter`."""
    ((_, status),) = store.claim([unit])
    if status is not None:  # another run was faster, perhaps with other blocks
        return unit.id, status
    try:
        store.write(unit, encoded(unit, regret_of(unit, lambda: _instance(unit), reporter(rounds, unit))))
    finally:
        store.claims.drop(unit.block)
    return unit.id, "computed"


def compute_in_turn(store: Store, units: Sequence[Unit], rounds: Path | None) -> list[tuple[str, UnitStatus]]:
    """Compute and store units one after the other; see `compute`."""
    return [compute(store, unit, rounds) for unit in units]


def tasks_of(units: Sequence[Unit], workers: int) -> list[list[Unit]]:
    """Units on the same instance together, which is then made once, as far as every worker gets `TASKS` tasks."""
    together = _grouped(units, _instance_key)
    parts = max(1, math.ceil(TASKS * workers / len(together))) if together else 1
    tasks = []
    for group in together:
        size = math.ceil(len(group) / parts)
        tasks += [group[at : at + size] for at in range(0, len(group), size)]
    return tasks


def reporter(folder: Path | None, unit: Unit) -> ProgressOption:
    """What `simulate` takes as `progress` to write the rounds of a unit now and then into a file of `folder`."""
    if folder is None:
        return False
    written = -math.inf

    def report(done: int, horizon: int) -> None:
        nonlocal written
        if (now := time.monotonic()) - written < REPORT_SECONDS:
            return
        written = now
        with contextlib.suppress(OSError):  # the folder may be gone, or that of another machine
            (folder / unit.id).write_text(str(done * (unit.stop - unit.start)))

    return report


def regret_of(
    unit: Unit, make: Callable[[], Instance], progress: ProgressOption = False, device: str = "", count: int = 0
) -> FloatArray:
    """Regret of a unit's policy on the instance that is made; on a device it has `count` replications."""
    # The instance too is built with one thread, or its last bits might depend on the number of workers. `Study.check`
    # has warned about sets.
    with _failures_explained(unit, device, count), one_thread, without_warning_about_sets():
        cell, instance = unit.cell, make()
        return simulate(cell.policy_object, instance, seed=cell.seed, record=cell.times, progress=progress).regret


@contextmanager
def _failures_explained(unit: Unit, device: str = "", count: int = 0) -> Iterator[None]:
    """Say what failed, and what would help where `count` replications were too many for a device."""
    try:
        yield
    except RunError:
        raise  # explained already
    except Exception as error:
        hint = ""
        if device and "out of memory" in str(error):
            hint = f"; {count} replications at once are too many for {device}: try a batch of {max(1, count // 2)}"
        elif isinstance(error, MemoryError):
            hint = "; use fewer jobs or a smaller batch"
        where = f"{unit} on {device}" if device else unit
        raise RunError(f"{where}: {type(error).__name__}: {error}{hint}") from error


_last_instance: tuple[str, Instance] | None = None


def _instance(unit: Unit) -> Instance:
    """The unit's instance, which is kept, since the next unit often has the same."""
    global _last_instance
    key = f"{unit.cell.identity['instance']} {unit.cell.seed} {unit.start} {unit.stop}"
    if _last_instance is None or _last_instance[0] != key:
        _last_instance = None  # frees the memory before the next one is built
        _last_instance = key, unit.make()
    return _last_instance[1]


_watching: set[int] = set()


def begin(parent: int) -> None:
    """Make a worker end when the process `parent` does, and leave Ctrl-C to that one; called first in each worker."""
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
        time.sleep(WATCH_SECONDS)
    os._exit(1)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for processes that are started meanwhile."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back: processes started meanwhile inherit that, so none is interrupted during its imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def gpu_memory(device: str) -> tuple[int, int]:
    """Bytes of a GPU's memory: free, and in all."""
    import torch

    free, total = torch.cuda.mem_get_info(torch.device(device))
    return free, total


def device_regret(unit: Unit, device: str) -> Any:
    """Regret of the replications of one unit, computed on the device."""
    return regret_of(unit, lambda: instances_on(device, [unit])[0], device=device, count=unit.stop - unit.start)


def device_batch(cells: Sequence[Cell], device: str, memory: tuple[int, int] | None = None) -> int:
    """Replications of the largest cell that fit on a GPU in lock step; `memory` is as from `gpu_memory`."""
    free, total = gpu_memory(device) if memory is None else memory
    largest = max(cells, key=lambda cell: cell.replication_bytes)
    fit = int(GPU_SHARE * free / largest.replication_bytes)
    if fit < 1:
        arms = largest.arms
        while arms and replication_bytes(arms, largest.dim, largest.horizon) > GPU_SHARE * free:
            arms = arms * 9 // 10
        raise DeviceError(
            f"{largest.instance}: one replication of {largest.arms} arms with {largest.dim} features needs about "
            f"{largest.replication_bytes / 2**30:.3g} GiB, and {device} has {free / 2**30:.3g} of "
            f"{total / 2**30:.3g} GiB free; with so many features about "
            f"{arms} arms would fit"
        )
    return fit


class GpuEngine(Engine):
    """A GPU of this machine, with at most `batch` replications in lock step and several policies side by side."""

    batch: int

    def __init__(self, store: Store, device: str, batch: int) -> None:
        self.store, self.device, self.batch = store, device, batch

    def compute(self, units: Sequence[Unit]) -> Generator[tuple[Unit, UnitStatus]]:
        for batch_units in _batches(units, self.batch):
            claimed = self.store.claim(batch_units)
            wanted = [unit for unit, status in claimed if status is None]
            try:
                yield from ((unit, status) for unit, status in claimed if status is not None)
                with closing(_side_by_side(_runs(wanted, self.device), self.device)) as results:
                    for group, regret in results:
                        counts = [unit.stop - unit.start for unit in group]
                        for unit, stop, count in zip(group, itertools.accumulate(counts), counts, strict=True):
                            self.store.write(unit, encoded(unit, regret[stop - count : stop]))
                            yield unit, "computed"
            finally:
                self.store.claims.drop(*(unit.block for unit in wanted))


Run = tuple[list[Unit], Instance]
"""Units of one policy that run together, and the instances of all of them as one."""


def _runs(units: Sequence[Unit], device: str) -> list[Run]:
    """The runs that compute these units; each instance is made once, and joined once with the same others."""
    instances: dict[InstanceKey, Instance] = {}
    for alike in _grouped({_instance_key(unit): unit for unit in units}.values(), lambda u: (u.cell.seed, *u.span)):
        instances |= zip(map(_instance_key, alike), instances_on(device, alike), strict=True)
    joined: dict[tuple[InstanceKey, ...], Instance] = {}
    runs = []
    for policy_units in _grouped(units, lambda u: (str(u.cell.identity["policy"]), u.cell.times)):
        for group in _joinable(policy_units, instances):
            keys = tuple(map(_instance_key, group))
            if keys not in joined:
                with _failures_explained(group[0], device, sum(unit.stop - unit.start for unit in group)):
                    joined[keys] = Instance.join([instances[key] for key in keys])
            runs.append((group, joined[keys]))
    return runs


def _side_by_side(runs: Sequence[Run], device: str) -> Generator[tuple[list[Unit], FloatArray]]:
    """The units of each run, with the regret of all their replications one after the other, as they are done.

    On CUDA `SIDE_BY_SIDE` of them go on at the same time, on streams of their own: one run alone leaves most of a GPU
    idle. What there was no memory for beside the others is done again alone.
    """
    again = list(runs)
    if device.startswith("cuda"):
        import torch

        def on_stream(run: Run) -> FloatArray:
            with torch.cuda.stream(torch.cuda.Stream(device)):
                return _regret_on(device, run)

        again = []
        torch.cuda.synchronize(device)  # the instances are there
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            futures = {pool.submit(on_stream, run): run for run in runs}
            try:
                for future in as_completed(futures):
                    run = futures[future]
                    try:
                        regret = future.result()
                    except RunError as error:
                        if "out of memory" not in str(error):
                            raise
                        again.append(run)
                    else:
                        yield run[0], regret
            finally:
                for future in futures:
                    future.cancel()
    for run in again:
        yield run[0], _regret_on(device, run)


def _regret_on(device: str, run: Run) -> FloatArray:
    """Regret of all replications of a run, one unit after the other."""
    group, instance = run
    return regret_of(group[0], lambda: instance, device=device, count=len(instance.problem))


def _instance_key(unit: Unit) -> InstanceKey:
    return unit.cell.instance, unit.start, unit.stop


def _batches(units: Iterable[Unit], batch: int) -> Iterator[list[Unit]]:
    """Units on equally large instances, in batches of at most so many replications."""
    for of_one_size in _grouped(units, lambda unit: (unit.cell.arms, unit.cell.dim, unit.cell.horizon)):
        batch_units: list[Unit] = []
        replications = 0
        for on_same_instance in _grouped(of_one_size, _instance_key):
            count = on_same_instance[0].stop - on_same_instance[0].start
            if batch_units and replications + count > batch:
                yield batch_units
                batch_units, replications = [], 0
            batch_units += on_same_instance
            replications += count
        yield batch_units


def _grouped(units: Iterable[Unit], key: Callable[[Unit], Hashable]) -> list[list[Unit]]:
    """Units with equal keys together, in the order in which these come first."""
    groups: dict[Hashable, list[Unit]] = {}
    for unit in units:
        groups.setdefault(key(unit), []).append(unit)
    return list(groups.values())


def _joinable(units: Sequence[Unit], instances: dict[InstanceKey, Instance]) -> list[list[Unit]]:
    """Units whose instances can run together."""
    groups: list[list[Unit]] = []
    for unit in units:
        for group in groups:
            if instances[_instance_key(unit)].joins(instances[_instance_key(group[0])]):
                group.append(unit)
                break
        else:
            groups.append([unit])
    return groups


def instances_on(device: str, units: Sequence[Unit]) -> list[Any]:
    """The instances of units with the same replications and seed on the device, made by all cores.

    Arms that are the same in several of them are drawn once.
    """
    replications = range(units[0].start, units[0].stop)

    def made(chunk: Sequence[int]) -> list[Any]:
        instances = []
        with sharing_arms():
            for unit in units:
                with _failures_explained(unit, device, len(units) * len(replications)):
                    instances.append(unit.cell.make(chunk).to(device))
        return instances

    with one_thread, ThreadPoolExecutor(joblib.cpu_count()) as pool:
        chunks = (replications[at : at + CHUNK] for at in range(0, len(replications), CHUNK))
        parts = list(zip(*pool.map(made, chunks), strict=True))
    # In contexts nothing is drawn beforehand, and there is nothing to join.
    return [
        unit.make().to(device) if isinstance(of_unit[0], ContextInstance) else Instance.join(of_unit)
        for unit, of_unit in zip(units, parts, strict=True)
    ]
