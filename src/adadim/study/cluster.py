"""Computing units on a Dask cluster.

Blocks go out as tasks (`tasks`), twice as many as the workers can do at a time, so that several clients can share a
folder. What comes back is stored by this process, or has been stored by the worker; the claims are held here. A worker
that dies takes nothing with it but what it was computing: Dask gives that to another.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from adadim.core.checks import GIB, shown
from adadim.core.files import Place
from adadim.errors import AdadimError, RunError, StoreWarning, StudyError
from adadim.study import tasks
from adadim.study.cells import Unit, UnitStatus
from adadim.study.device import device_batch
from adadim.study.processes import SHARE, WorkersDiedError
from adadim.study.store import Store, already_there, covered
from adadim.study.study import Study
from adadim.study.tasks import Description, Facts, describe, disagreement, facts, free_gpu, perform, versions

try:
    import dask
    import distributed
    from distributed import Client, Future
except ImportError as _error:
    raise StudyError("cluster: needs dask.distributed; install it with: pip install 'adadim[cluster]'") from _error

LOCAL = re.compile(r"local:(0*[1-9]\d{0,3})")
ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss|inproc)://\S+")
RESTART = {"distributed.deploy.lost-worker-timeout": "10 minutes"}  # for a worker that is started again
CONNECT = 20.0  # seconds to reach a scheduler, and to see a first worker
COUNT = 5.0  # seconds between looks at how many workers there are
SPEAK = 30.0  # seconds without workers after which that is said, again and again
AHEAD = 2  # blocks sent out for each that can be computed now: the next one is there when a worker has finished
QUEUED = 2.0  # seconds of work to have with the cluster at least: sending out a block at a time costs more


@contextmanager
def connected(cluster: str | Client) -> Iterator[Client]:
    """A client of a cluster: the one given, or one for as long as this lasts.

    A cluster is a client, the address of a scheduler, or ``"local:4"``, which starts four workers on this machine.
    """
    if isinstance(cluster, Client) and not cluster.asynchronous:
        yield cluster
    elif isinstance(cluster, str) and (local := LOCAL.fullmatch(cluster)):
        options: dict[str, Any] = {"n_workers": int(local[1]), "threads_per_worker": 1, "dashboard_address": ":0"}
        with (
            dask.config.set(RESTART),
            distributed.LocalCluster(silence_logs=logging.CRITICAL, preload=[tasks.__name__], **options) as workers,
            Client(workers, set_as_default=False) as client,
        ):
            yield client
    elif isinstance(cluster, str) and ADDRESS.fullmatch(cluster):
        try:
            client = Client(cluster, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise RunError(f"cluster {cluster}: no scheduler answers there ({error})") from error
        with client:
            yield client
    else:
        raise StudyError(
            "cluster must be 'local:4', the address of a scheduler such as 'tcp://scheduler:8786', or a dask Client, "
            f"got {shown(cluster)}"
        )


class Cluster:
    """An engine: the workers of a Dask cluster.

    By default a block is what fits the smallest worker. On a GPU it is workers that offer Dask's resource GPU that
    compute. With `shared` the workers write blocks themselves.
    """

    rounds: Path | None = None

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
        # `plan` divides memory between jobs; what is known here is the memory for one.
        self.memory = self.jobs * min(fact.memory / fact.threads for fact in workers.values())
        self._described: dict[str, Description] = {}
        self._made = self._begun = self._counted = time.monotonic()
        self._done = self._replications = 0

    def pace(self) -> str:
        rate = self._replications / max(time.monotonic() - self._made, 1.0)
        return f"{len(self._slots)} workers, {rate:.3g} trials/s"

    def compute(self, units: Sequence[Unit]) -> Generator[tuple[Unit, UnitStatus]]:
        if self.folder is not None:
            self._check_shared()
        waiting, running, killed = deque(units), dict[Future, Unit](), None
        self._begun, self._done = time.monotonic(), 0
        done = distributed.as_completed(loop=self.client.loop)
        try:
            while waiting or running:
                room = self._window() - len(running)
                if waiting and room >= max(1, self._window() // 4):
                    chosen = [waiting.popleft() for _ in range(min(room, len(waiting)))]
                    for unit, status in self._claimed(chosen):
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
                        self.store.claims.drop((unit.cell.id, unit.span))
                        future.release()
                        self._done += 1
                        if isinstance(result, distributed.KilledWorker):
                            killed = result
                        else:
                            self._replications += unit.stop - unit.start
                            yield unit, "computed"
        finally:
            if running:  # stopped early: nothing of this run stays with the cluster
                with suppress(Exception):
                    self.client.cancel(list(running), force=True)
                running.clear()
            self.store.claims.drop_all()
        if killed is not None:
            raise WorkersDiedError from killed

    def _claimed(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, UnitStatus | None]]:
        """Claim units; gives each with what became of it, None for those that are to be computed."""
        claims = self.store.claims
        taken = claims.take([(unit.cell.id, unit.span) for unit in units])
        stored = self.store.index()  # after claiming: what another run stored before is in it
        present = {cell: covered(stored.get(cell, ()), self.study.trials) for cell in {unit.cell.id for unit in units}}
        for unit, held in zip(units, taken, strict=True):
            status: UnitStatus | None = already_there(present[unit.cell.id], unit) if held else "busy"
            if status is not None:
                claims.drop((unit.cell.id, unit.span))
            yield unit, status

    def _submit(self, unit: Unit) -> Future:
        cell = unit.cell
        if cell.id not in self._described:
            self._described[cell.id] = describe(self.study, cell)
        return self.client.submit(
            perform,
            self._described[cell.id],
            unit.start,
            unit.stop,
            self.device,
            self.folder,
            key=f"adadim-{unit.id}-{secrets.token_hex(4)}",  # never the same as another run's
            resources=None if self.device == "cpu" else {"GPU": 1},
        )

    def _results(self, futures: Sequence[Future], running: Mapping[Future, Unit]) -> Iterator[tuple[Future, Any]]:
        """Futures with what they gave: bytes, None, or that worker after worker died of it."""
        # One that was done a moment ago may be lost by now, with its worker: gathering waits until it is done again.
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
        begun = spoken = time.monotonic()
        pause = 0.001
        while not done.has_ready():
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
            self._count()
            if self._slots:
                begun = spoken = time.monotonic()
            elif time.monotonic() - spoken > SPEAK:
                spoken = time.monotonic()
                message = (
                    f"the cluster has had no workers for {spoken - begun:.0f} s; this run goes on when it has some"
                )
                warnings.warn(message, StoreWarning, stacklevel=5)
        ready: list[Future] = done.next_batch(block=True)
        return ready

    def _count(self) -> None:
        """See now and then how many workers there are."""
        if time.monotonic() - self._counted > COUNT:
            now = self.client.nthreads()
            self._slots = now if self.device == "cpu" else {name: self._slots.get(name, 1) for name in now}
            self._counted = time.monotonic()
            _restart_workers(self.client.cluster)

    def _window(self) -> int:
        """How many blocks to have with the cluster now."""
        self._count()
        rate = self._done / max(time.monotonic() - self._begun, 1.0)
        return max(2, AHEAD * sum(self._slots.values()), int(QUEUED * rate))

    def _workers(self, folder: Place | None = None) -> dict[str, Facts]:
        """What every worker says about itself; raises unless all have what this process has."""
        try:
            self.client.wait_for_workers(1, timeout=CONNECT)
        except (TimeoutError, distributed.TimeoutError) as error:
            raise RunError(f"the cluster at {self.client.scheduler.address} has no workers") from error
        workers: dict[str, Facts] = {}
        for address, said in self.client.run(facts, folder, on_error="return").items():
            if isinstance(said, OSError):  # it is dying
                continue
            if isinstance(said, BaseException):
                raise RunError(f"worker {address} cannot run adadim {versions()['adadim']}: {said}") from said
            if reason := disagreement(said.versions, versions()):
                raise RunError(f"worker {address} has {reason}; install the same on both")
            workers[address] = said
        if not workers:
            raise RunError(f"the workers of the cluster at {self.client.scheduler.address} do not answer")
        return workers

    def _check_shared(self) -> None:
        for address, fact in self._workers(self.folder).items():
            if not fact.sees:
                raise RunError(f"worker {address} does not see {self.folder}; leave out 'shared', or mount it there")

    def _check_memory(self, workers: Mapping[str, Facts]) -> None:
        address = min(workers, key=lambda name: workers[name].memory)
        largest = max(self.study.cells, key=lambda cell: cell.replication_bytes)
        if largest.replication_bytes > SHARE * workers[address].memory:
            raise RunError(
                f"{largest.instance}: a replication needs about {largest.replication_bytes / GIB:.3g} GiB, and worker "
                f"{address} has {SHARE * workers[address].memory / GIB:.3g} for blocks; use workers with more memory"
            )


def _restart_workers(cluster: Any) -> None:
    """Start workers again that a cluster of this machine has given up: it does so with one that is away for long."""
    if isinstance(cluster, distributed.LocalCluster) and len(cluster.workers) < len(cluster.worker_spec):
        cluster.scale(len(cluster.worker_spec))
