"""Computing units on a Dask cluster.

Blocks go out as tasks, twice as many as the workers can do at a time, so that several clients can share a folder. A
cell travels pickled, with classes and functions of the user's own by value, and is unpacked only where the versions are
the client's. What comes back is stored by this process, or has been stored by the worker; this process holds the
claims. When a worker dies, Dask gives the blocks that it was computing to another; nothing else is lost.
"""

from __future__ import annotations

import logging
import platform
import re
import secrets
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any

from adadim.core.arrays import check_device
from adadim.core.checks import GIB, machine_bytes, shown
from adadim.core.files import Place, exists
from adadim.errors import AdadimError, RunError, StoreWarning, StudyError
from adadim.study.cells import Cell, Span, Unit, UnitStatus
from adadim.study.engines import SHARE, Engine, WorkersDiedError, device_batch, device_regret, gpu_memory, regret_of
from adadim.study.source import PACKAGE, digest_of_bytes
from adadim.study.store import Store, encoded
from adadim.study.study import Study

try:
    import cloudpickle
    import dask
    import distributed
    from distributed import Client, Future
except ImportError as _error:
    raise StudyError("cluster: needs dask.distributed; install it with: pip install 'adadim[cluster]'") from _error

DECIDING = ("numpy", "scipy", "polars")  # packages whose version may change the bytes of a block
LOCAL = re.compile(r"local:(0*[1-9]\d{0,3})")
SCHEDULER_ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss|inproc)://\S+")
RESTART = {"distributed.deploy.lost-worker-timeout": "10 minutes"}  # for a worker that is started again
CONNECT_SECONDS = 20.0  # to reach a scheduler, and to see a first worker
COUNT_SECONDS = 5.0  # between two counts of the workers
WARN_SECONDS = 30.0  # without workers before a warning, and between two warnings
BLOCKS_PER_SLOT = 2  # sent out for each that can be computed now: the next one is there when a worker has finished
QUEUED_SECONDS = 2.0  # of work to have with the cluster at least: sending out a block at a time costs more


@contextmanager
def connected(cluster: str | Client) -> Iterator[Client]:
    """A client of a cluster, which is named as in `run`; one that is made here is closed in the end."""
    if isinstance(cluster, Client) and not cluster.asynchronous:
        yield cluster
    elif isinstance(cluster, str) and (local := LOCAL.fullmatch(cluster)):
        options: dict[str, Any] = {"n_workers": int(local[1]), "threads_per_worker": 1, "dashboard_address": ":0"}
        with (
            dask.config.set(RESTART),
            distributed.LocalCluster(silence_logs=logging.CRITICAL, preload=[__name__], **options) as workers,
            Client(workers, set_as_default=False) as client,
        ):
            yield client
    elif isinstance(cluster, str) and SCHEDULER_ADDRESS.fullmatch(cluster):
        try:
            client = Client(cluster, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise RunError(f"cluster {cluster}: no scheduler answers there ({error})") from error
        with client:
            yield client
    else:
        raise StudyError(
            "cluster must be 'local:4', the address of a scheduler such as 'tcp://scheduler:8786', or a dask Client, "
            f"got {shown(cluster)}"
        )


class Cluster(Engine):
    """The workers of a Dask cluster, on a GPU those that offer Dask's resource GPU; see `run`."""

    def __init__(
        self, study: Study, store: Store, client: Client, batch: int | None, device: str, shared: bool
    ) -> None:
        if not isinstance(device, str) or not re.fullmatch(r"cpu|cuda(:\d+)?", device):
            raise StudyError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {shown(device)}")
        self.study, self.store, self.client = study, store.absolute(), client
        self.batch, self.device, self.folder = batch, device, self.store.folder if shared else None
        workers = self._workers()
        if device != "cpu":
            workers = {address: fact for address, fact in workers.items() if fact.gpus}
            if not workers:
                raise RunError("no worker of the cluster offers a GPU; start some with: dask worker --resources GPU=1")
            if batch is None:
                free = client.run(free_gpu, device, workers=list(workers))
                self.batch = device_batch(study.cells, device, min(free.values()))
        else:
            self._check_memory(workers)
        self._slots = {address: fact.gpus if device != "cpu" else fact.threads for address, fact in workers.items()}
        self.jobs = sum(self._slots.values())
        # `plan` divides memory between jobs; workers say how much there is for one.
        self.memory = self.jobs * min(fact.memory / fact.threads for fact in workers.values())
        self._packed: dict[str, bytes] = {}
        self._created_at = self._compute_began_at = self._counted_at = time.monotonic()
        self._blocks_done = self._replications_done = 0

    def pace(self) -> str:
        rate = self._replications_done / max(time.monotonic() - self._created_at, 1.0)
        return f"{len(self._slots)} workers, {rate:.3g} trials/s"

    def compute(self, units: Sequence[Unit]) -> Generator[tuple[Unit, UnitStatus]]:
        if self.folder is not None:
            self._check_shared()
        waiting, running, killed = deque(units), dict[Future, Unit](), None
        self._compute_began_at, self._blocks_done = time.monotonic(), 0
        done = distributed.as_completed(loop=self.client.loop)
        try:
            while waiting or running:
                room = self._window() - len(running)
                if waiting and room >= max(1, self._window() // 4):
                    chosen = [waiting.popleft() for _ in range(min(room, len(waiting)))]
                    for unit, status in self.store.claim(chosen):
                        if status is not None:
                            yield unit, status
                            continue
                        future = self._submit(unit)
                        running[future] = unit
                        done.add(future)
                if running:
                    for future, result in self._results(self._next(done), running):
                        unit = running.pop(future)
                        if isinstance(result, bytes):
                            self.store.write(unit, result)
                        self.store.claims.drop(unit.block)
                        future.release()
                        self._blocks_done += 1
                        if isinstance(result, distributed.KilledWorker):
                            killed = result
                        else:
                            self._replications_done += unit.stop - unit.start
                            yield unit, "computed"
        finally:
            if running:  # stopped early: nothing of this run stays with the cluster
                with suppress(Exception):
                    self.client.cancel(list(running), force=True)
                running.clear()
            self.store.claims.drop(*self.store.claims.held)
        if killed is not None:
            raise WorkersDiedError from killed

    def _submit(self, unit: Unit) -> Future:
        cell = unit.cell
        if cell.id not in self._packed:
            self._packed[cell.id] = cloudpickle.dumps(cell)
        return self.client.submit(
            perform,
            self._packed[cell.id],
            unit.span,
            versions(),
            self.device,
            self.folder,
            key=f"adadim-{unit.id}-{secrets.token_hex(4)}",  # never the same as another run's
            resources=None if self.device == "cpu" else {"GPU": 1},
        )

    def _results(self, futures: Sequence[Future], running: Mapping[Future, Unit]) -> Iterator[tuple[Future, Any]]:
        """Futures with their results: bytes, None, or the error if worker after worker died of it."""
        # A result may have been lost with its worker since: gathering waits until it is computed again.
        good = [future for future in futures if future.status not in ("error", "cancelled")]
        results = dict(zip(good, self._gathered(good), strict=True))
        for future in futures:
            if future in results:
                yield future, results[future]
                continue
            if future.status == "cancelled":
                raise RunError("the cluster dropped the work (shut down or restarted?); what is finished is stored")
            error = future.exception()
            if not isinstance(error, distributed.KilledWorker):
                if isinstance(error, AdadimError):
                    raise error
                raise RunError(f"{running[future]}: {type(error).__name__}: {error}") from error
            yield future, error

    def _gathered(self, futures: list[Future]) -> list[Any]:
        try:
            results: list[Any] = self.client.gather(futures)
            return results
        except distributed.KilledWorker as error:  # one was lost on the way, and computing it again killed workers
            if len(futures) == 1:
                return [error]
            return [result for future in futures for result in self._gathered([future])]

    def _next(self, done: Any) -> list[Future]:
        """Futures that are done, as soon as there are some."""
        begun = warned = time.monotonic()
        pause = 0.001
        while not done.has_ready():
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
            self._count()
            if self._slots:
                begun = warned = time.monotonic()
            elif time.monotonic() - warned > WARN_SECONDS:
                warned = time.monotonic()
                message = (
                    f"the cluster has had no workers for {warned - begun:.0f} s; this run goes on when it has some"
                )
                warnings.warn(message, StoreWarning, stacklevel=5)
        ready: list[Future] = done.next_batch(block=True)
        return ready

    def _count(self) -> None:
        """Count the workers, if the last count was a while ago."""
        if time.monotonic() - self._counted_at > COUNT_SECONDS:
            now = self.client.nthreads()
            self._slots = now if self.device == "cpu" else {name: self._slots.get(name, 1) for name in now}
            self._counted_at = time.monotonic()
            cluster = self.client.cluster
            if isinstance(cluster, distributed.LocalCluster) and len(cluster.workers) < len(cluster.worker_spec):
                cluster.scale(len(cluster.worker_spec))  # starts again workers that Dask gave up

    def _window(self) -> int:
        """How many blocks to have with the cluster now."""
        self._count()
        rate = self._blocks_done / max(time.monotonic() - self._compute_began_at, 1.0)
        return max(2, BLOCKS_PER_SLOT * sum(self._slots.values()), int(QUEUED_SECONDS * rate))

    def _workers(self, folder: Place | None = None) -> dict[str, Facts]:
        """What every worker says about itself; raises unless all have what this process has."""
        try:
            self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (TimeoutError, distributed.TimeoutError) as error:
            raise RunError(f"the cluster at {self.client.scheduler.address} has no workers") from error
        workers: dict[str, Facts] = {}
        for address, answer in self.client.run(facts, folder, on_error="return").items():
            if isinstance(answer, OSError):  # the worker is ending
                continue
            if isinstance(answer, BaseException):
                raise RunError(f"worker {address} cannot run adadim {versions()['adadim']}: {answer}") from answer
            if reason := disagreement(answer.versions, versions()):
                raise RunError(f"worker {address} has {reason}; install the same on both")
            workers[address] = answer
        if not workers:
            raise RunError(f"the workers of the cluster at {self.client.scheduler.address} do not answer")
        return workers

    def _check_shared(self) -> None:
        for address, fact in self._workers(self.folder).items():
            if not fact.sees_folder:
                raise RunError(f"worker {address} does not see {self.folder}; leave out 'shared', or mount it there")

    def _check_memory(self, workers: Mapping[str, Facts]) -> None:
        address = min(workers, key=lambda name: workers[name].memory)
        largest = max(self.study.cells, key=lambda cell: cell.replication_bytes)
        if largest.replication_bytes > SHARE * workers[address].memory:
            raise RunError(
                f"{largest.instance}: a replication needs about {largest.replication_bytes / GIB:.3g} GiB, and worker "
                f"{address} has {SHARE * workers[address].memory / GIB:.3g} for blocks; use workers with more memory"
            )


# What follows is done by workers.


@dataclass(frozen=True)
class Facts:
    """What a worker says about itself."""

    versions: dict[str, str]
    memory: float  # bytes that it may use
    threads: int  # tasks that it does at the same time
    gpus: int  # how many it offers, as Dask's resource GPU
    sees_folder: bool  # whether the results folder in question is there


def perform(
    packed: bytes, span: Span, client_versions: dict[str, str], device: str, folder: Place | None = None
) -> bytes | None:
    """Compute replications of a cell: gives the file of the block, or writes it to a results folder and gives None."""
    if reason := disagreement(versions(), client_versions):
        raise RunError(f"a worker has {reason}; install the same on both")
    unit = Unit(_unpacked(packed), *span)
    store = None if folder is None else Store(folder)
    if store is not None and exists(store.path(*unit.block)):  # by a worker that died before it reported it
        return None
    if device == "cpu":
        with _memory().reserved((unit.stop - unit.start) * unit.cell.replication_bytes, unit):
            regret = regret_of(unit, unit.make)
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
    sees_folder = folder is None or exists(Store(folder).manifest)
    return Facts(versions(), _limit(dask_worker), state.nthreads, int(state.total_resources.get("GPU", 0)), sees_folder)


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C to the client; Dask calls this first in a worker that `connected` has started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def free_gpu(device: str) -> tuple[int, int]:
    """Bytes of this worker's GPU: free, and in all."""
    return gpu_memory(check_device(device))


@cache
def versions() -> dict[str, str]:
    """What decides the bytes of a block, besides the study: the source of this package, and what it computes with."""
    source = digest_of_bytes(PACKAGE.rglob("*.py"), PACKAGE)
    installed = {name: version(name) for name in DECIDING}
    python = ".".join(platform.python_version_tuple()[:2])
    return {"adadim": version("adadim"), "source": source, "Python": python, **installed}


def disagreement(worker: dict[str, str], client: dict[str, str]) -> str:
    """How the versions of a worker differ from the client's, as text; empty if they do not."""
    for name, version_here in client.items():
        if worker.get(name) != version_here:
            if name == "source":
                return f"another adadim {worker['adadim']} than the client (its source files differ)"
            return f"{name} {worker.get(name, '(none)')}, and the client {name} {version_here}"
    return ""


@lru_cache(64)
def _unpacked(packed: bytes) -> Cell:
    cell: Cell = cloudpickle.loads(packed)
    return cell


@dataclass
class MemoryBudget:
    """Bytes of a worker that running blocks may take together; a block waits until there is enough for it."""

    capacity: float
    used: float = 0.0
    changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    @contextmanager
    def reserved(self, needed: float, what: object) -> Iterator[None]:
        """Reserve so many bytes, as soon as other blocks have released enough."""
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


_memories: dict[str, MemoryBudget] = {}
_memories_lock = threading.Lock()


def _memory() -> MemoryBudget:
    """The memory of the worker in whose thread this runs."""
    worker = distributed.get_worker()
    with _memories_lock:
        return _memories.setdefault(worker.address, MemoryBudget(SHARE * _limit(worker)))


def _limit(worker: Any) -> float:
    return float(worker.memory_manager.memory_limit or machine_bytes())
