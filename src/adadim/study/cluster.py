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
from typing import Any

from adadim.backend.memory import GIB
from adadim.checks import shown
from adadim.errors import AdadimError, RunError, StoreWarning, StudyError
from adadim.files import Place
from adadim.study import tasks
from adadim.study.cells import Outcome, Unit
from adadim.study.device import device_batch
from adadim.study.engines import WorkersDiedError
from adadim.study.executor import SHARE, plan
from adadim.study.locks import Block, Claims
from adadim.study.results import already_there, covered
from adadim.study.store import Span, Store
from adadim.study.study import Study
from adadim.study.tasks import Description, Facts, card_free, describe, disagreement, facts, perform, versions

try:
    import dask
    import distributed
    from distributed import Client, Future
except ImportError as _error:
    raise StudyError("cluster: needs dask.distributed; install it with: pip install 'adadim[cluster]'") from _error

__all__ = ["Cluster", "connected"]

LOCAL = re.compile(r"local:(\d{1,4})")
ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss|inproc)://\S+")
PATIENCE = {"distributed.deploy.lost-worker-timeout": "10 minutes"}  # for a worker that is started again
CONNECT = 20.0  # seconds to reach a scheduler, and to see a first worker
COUNT = 5.0  # seconds between looks at how many workers there are
SPEAK = 30.0  # seconds without workers after which that is said, again and again
AHEAD = 2  # blocks sent out for each that can be computed now: the next one is there when a worker has finished
QUEUED = 2.0  # seconds of work to have with the cluster at least: sending out a block at a time costs more


@contextmanager
def connected(cluster: str | Client) -> Iterator[Client]:
    """A client of a cluster: the one given, or one for as long as this lasts.

    Parameters
    ----------
    cluster : str or distributed.Client
        A client, the address of a scheduler, or ``"local:4"``, which starts four workers on this machine.
    """
    if not isinstance(cluster, str):
        if not isinstance(cluster, Client) or cluster.asynchronous:
            raise StudyError(f"{_wanted}, got {shown(cluster)}")
        yield cluster
    elif found := LOCAL.fullmatch(cluster):
        with _local(int(found[1])) as client:
            yield client
    elif ADDRESS.fullmatch(cluster):
        try:
            client = Client(cluster, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise RunError(f"cluster {cluster}: no scheduler answers there ({error})") from error
        with client:
            yield client
    else:
        raise StudyError(f"{_wanted}, got {shown(cluster)}")


_wanted = "cluster must be 'local:4', the address of a scheduler such as 'tcp://scheduler:8786', or a dask Client"


@contextmanager
def _local(count: int) -> Iterator[Client]:
    """A client of a cluster of `count` processes, which end with this."""
    if count < 1:
        raise StudyError(f"{_wanted}, got 'local:{count}'")
    options: dict[str, Any] = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        dask.config.set(PATIENCE),
        distributed.LocalCluster(silence_logs=logging.CRITICAL, preload=[tasks.__name__], **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


class Cluster:
    """An engine: the workers of a Dask cluster.

    Parameters
    ----------
    study : Study
        What to run.
    store : Store
        Where results go.
    client : distributed.Client
        The cluster.
    batch : int, optional
        Largest number of replications in a block; by default what fits the smallest worker.
    device : str
        "cpu", or a GPU of each worker that offers Dask's resource GPU.
    shared : bool
        Workers write blocks themselves.
    """

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
            self.batch = batch or self._device_batch(list(workers))
        else:
            self._check_memory(workers)
        self._slots = {address: fact.gpus if device != "cpu" else fact.threads for address, fact in workers.items()}
        self.slots = sum(self._slots.values())
        self.memory = min(fact.memory / fact.threads for fact in workers.values())
        self._described: dict[str, Description] = {}
        self._made = self._begun = self._counted = time.monotonic()
        self._done = self._replications = 0

    def plan(self, stored: Mapping[str, Sequence[Span]]) -> list[Unit]:
        # `plan` divides memory between jobs; what is known here is the memory for one.
        return plan(self.study, stored, self.slots, self.batch, self.memory * self.slots)

    def pace(self) -> str:
        rate = self._replications / max(time.monotonic() - self._made, 1.0)
        return f"{len(self._slots)} workers, {rate:.3g} trials/s"

    def outcomes(self, units: Sequence[Unit]) -> Generator[tuple[Unit, Outcome]]:
        if self.folder is not None:
            self._check_shared()
        waiting, running, killed = deque(units), dict[Future, Unit](), None
        self._begun, self._done = time.monotonic(), 0
        done = distributed.as_completed(loop=self.client.loop)
        with self.store.claims() as claims:
            try:
                while waiting or running:
                    room = self._window() - len(running)
                    if waiting and room >= max(1, self._window() // 4):
                        chosen = [waiting.popleft() for _ in range(min(room, len(waiting)))]
                        for unit, outcome in self._claimed(chosen, claims):
                            if outcome is not None:
                                yield unit, outcome
                                continue
                            future = self._submit(unit)
                            running[future] = unit
                            done.add(future)
                    if running:
                        for future, result in self._results(self._next(done), running):
                            unit = running.pop(future)
                            if isinstance(result, bytes):
                                self.store.write_encoded(unit, result)
                            claims.drop(_block(unit))
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
        if killed is not None:
            raise WorkersDiedError from killed

    def _claimed(self, units: Sequence[Unit], claims: Claims) -> Iterator[tuple[Unit, Outcome | None]]:
        """Claim units; gives each with what became of it, None for those that are to be computed."""
        taken = claims.take([_block(unit) for unit in units])
        stored = self.store.index()  # after claiming: what another run stored before is in it
        present = {cell: covered(stored.get(cell, ()), self.study.trials) for cell in {unit.cell.id for unit in units}}
        for unit, own in zip(units, taken, strict=True):
            outcome: Outcome | None = already_there(present[unit.cell.id], unit) if own else "busy"
            if own and outcome is not None:
                claims.drop(_block(unit))
            yield unit, outcome

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
        given = dict(zip(good, self._gathered(good), strict=True))
        for future in futures:
            if future in given:
                yield future, given[future]
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
            found: list[Any] = self.client.gather(futures)
            return found
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
        found: list[Future] = done.next_batch(block=True)
        return found

    def _count(self) -> None:
        """See now and then how many workers there are."""
        if time.monotonic() - self._counted > COUNT:
            now = self.client.nthreads()
            self._slots = now if self.device == "cpu" else {name: self._slots.get(name, 1) for name in now}
            self._counted = time.monotonic()
            _revive(self.client.cluster)

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
        found: dict[str, Facts] = {}
        for address, said in self.client.run(facts, folder, on_error="return").items():
            if isinstance(said, OSError):  # it is dying
                continue
            if isinstance(said, BaseException):
                raise RunError(f"worker {address} cannot run adadim {versions()['adadim']}: {said}") from said
            if reason := disagreement(said.versions, versions()):
                raise RunError(f"worker {address} has {reason}; install the same on both")
            found[address] = said
        if not found:
            raise RunError(f"the workers of the cluster at {self.client.scheduler.address} do not answer")
        return found

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

    def _device_batch(self, addresses: list[str]) -> int:
        free = self.client.run(card_free, self.device, workers=addresses)
        return device_batch(self.study.cells, self.device, min(free.values()))


def _revive(cluster: Any) -> None:
    """Start workers again that a cluster of this machine has given up: it does so with one that is away for long."""
    if isinstance(cluster, distributed.LocalCluster) and len(cluster.workers) < len(cluster.worker_spec):
        cluster.scale(len(cluster.worker_spec))


def _block(unit: Unit) -> Block:
    return unit.cell.id, unit.start, unit.stop
