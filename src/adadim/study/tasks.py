"""What a cluster is told about a unit, and what a worker does with it.

What travels is a description, as a study is: tables, numbers, and the text of plugins. The worker makes the cell from
it, which must have the same hash there as here, computes, and gives back the file of the block.
"""

from __future__ import annotations

import hashlib
import platform
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from adadim.core.arrays import check_device
from adadim.core.checks import GIB, machine_bytes
from adadim.core.files import Place, exists
from adadim.errors import RunError
from adadim.instances.instance import Instance
from adadim.study.cells import Cell, Unit
from adadim.study.device import device_regret, gpu_memory
from adadim.study.kinds import SOURCES, PluginSource, load_source
from adadim.study.processes import SHARE, regret_of
from adadim.study.store import Store, encoded
from adadim.study.study import Study

DECIDING = ("numpy", "scipy", "polars")  # packages whose version may change the bytes of a block
MOST_CELLS = 64  # that a worker keeps ready


@dataclass(frozen=True)
class Description:
    """A cell as a worker is told of it, with what must be the same there as here."""

    study: dict[str, Any]  # tables of a study of one instance and one policy
    sources: tuple[PluginSource, ...]  # files of the user's own that it needs
    cell: str  # identifier that the cell must have
    versions: dict[str, str]  # what must be installed
    # The cell itself, where it needs classes or functions of the user's own that come from no file: they then travel as
    # Dask sends any object.
    ready: Cell | None = None


@dataclass(frozen=True)
class Facts:
    """What a worker says about itself."""

    versions: dict[str, str]
    memory: float  # bytes that it may use
    threads: int  # tasks that it does at the same time
    gpus: int  # how many it offers, as Dask's resource GPU
    sees: bool  # whether the results folder asked for is there


def describe(study: Study, cell: Cell) -> Description:
    """A cell of a study, for workers."""
    whole = study.to_dict()
    part = {key: whole[key] for key in ("name", "trials", "seed", "record")}
    part["instances"] = {cell.instance: whole["instances"][cell.instance]}
    part["policies"] = {cell.policy: whole["policies"][cell.policy]}
    of_plugins = [SOURCES.get(value) for value in study.plugins.values()]
    sources = tuple(dict.fromkeys(source for source in of_plugins if source is not None))
    return Description(part, sources, cell.id, versions(), cell if None in of_plugins else None)


def perform(described: Description, start: int, stop: int, device: str, folder: Place | None) -> bytes | None:
    """Compute the replications from `start` to `stop` - 1 of a cell.

    Gives the file of the block, or writes it to the results folder `folder` and gives None.
    """
    if reason := disagreement(versions(), described.versions):
        raise RunError(f"a worker has {reason}; install the same on both")
    unit = Unit(_cell(described), start, stop)
    store = None if folder is None else Store(folder)
    if store is not None and exists(store.path(unit.cell.id, unit.span)):  # whoever wrote it died before telling
        return None
    if device == "cpu":
        with _memory().taken((stop - start) * unit.cell.replication_bytes, unit), _one_blas_thread():
            regret = regret_of(unit, _instance)
    else:
        regret = device_regret(unit, check_device(device))
    data = encoded(unit, regret)
    if store is None:
        return data
    store.write(unit, data)
    return None


def facts(folder: Place | None = None, dask_worker: Any = None) -> Facts:
    """What a worker says about itself, and whether it sees a results folder; Dask passes the worker."""
    state = dask_worker.state
    sees = folder is None or exists(Store(folder).manifest)
    return Facts(versions(), _limit(dask_worker), state.nthreads, int(state.total_resources.get("GPU", 0)), sees)


def dask_setup(worker: Any) -> None:
    """What Dask calls first in a worker that `cluster` has started: it leaves Ctrl-C to the client."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def free_gpu(device: str) -> tuple[int, int]:
    """Bytes of this worker's GPU that are free, and all."""
    return gpu_memory(check_device(device))


@cache
def versions() -> dict[str, str]:
    """What decides the bytes of a block, besides the study: this package, to the letter, and what it computes with."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder).as_posix()}\n".encode() + file.read_bytes())
    installed = {name: version(name) for name in DECIDING}
    python = ".".join(platform.python_version_tuple()[:2])
    return {"adadim": version("adadim"), "source": digest.hexdigest()[:12], "Python": python, **installed}


def disagreement(there: dict[str, str], here: dict[str, str]) -> str:
    """How the versions of a worker differ from the client's, as text; empty if they do not."""
    for name, wanted in here.items():
        if there.get(name) != wanted:
            if name == "source":
                return f"another adadim {there['adadim']} than the client (its source files differ)"
            return f"{name} {there.get(name, '(none)')}, and the client {name} {wanted}"
    return ""


def _cell(job: Description) -> Cell:
    """The cell that is described."""
    if job.ready is not None:
        return job.ready
    with _making:
        if job.cell not in _cells:
            loaded = {name: value for source in job.sources for name, value in _loaded(source).items()}
            (cell,) = Study.from_dict(job.study, plugins=loaded).cells
            if cell.id != job.cell:
                raise RunError(
                    f"{cell.policy} on {cell.instance} is not the same cell on a worker ({cell.id}) as on the client "
                    f"({job.cell}); install the same packages on both"
                )
            while len(_cells) >= MOST_CELLS:
                del _cells[next(iter(_cells))]
            _cells[job.cell] = cell
        return _cells[job.cell]


_making = threading.RLock()
_cells: dict[str, Cell] = {}


@lru_cache(8)
def _loaded(source: PluginSource) -> dict[str, Any]:
    return load_source(source)


def _instance(unit: Unit) -> Instance:
    return unit.cell.make(range(unit.start, unit.stop))


@dataclass
class Memory:
    """Bytes of a worker that running blocks may take together; who finds too little waits."""

    capacity: float
    used: float = 0.0
    changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    @contextmanager
    def taken(self, needed: float, what: object) -> Iterator[None]:
        """Have so many bytes, as soon as others have given back enough."""
        if needed > self.capacity:
            raise RunError(
                f"{what}: needs about {needed / GIB:.3g} GiB, and blocks on this worker may take "
                f"{self.capacity / GIB:.3g}; use a smaller batch, or workers with more memory"
            )
        with self.changed:
            self.changed.wait_for(lambda: self.used + needed <= self.capacity)
            self.used += needed
        try:
            yield
        finally:
            with self.changed:
                self.used -= needed
                self.changed.notify_all()


_memories: dict[str, Memory] = {}


def _memory() -> Memory:
    """That of the worker whose thread this is."""
    from distributed import get_worker

    worker = get_worker()
    with _making:
        return _memories.setdefault(worker.address, Memory(SHARE * _limit(worker)))


def _limit(worker: Any) -> float:
    return float(worker.memory_manager.memory_limit or machine_bytes())


class _OneThread:
    """BLAS with one thread while any thread of this process computes; what was set before returns after the last."""

    def __init__(self) -> None:
        self.lock, self.count, self.limits = threading.Lock(), 0, None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if self.count == 0:
                self.limits = threadpool_limits(1, user_api="blas")
            self.count += 1
        try:
            yield
        finally:
            with self.lock:
                self.count -= 1
                if self.count == 0 and self.limits is not None:
                    self.limits.restore_original_limits()


_one_blas_thread = _OneThread()
