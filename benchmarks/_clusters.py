"""A Dask cluster whose scheduler, workers and client are processes of their own, and what each of them spends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster


@contextlib.contextmanager
def separate_cluster(workers: int) -> Iterator[Client]:
    """A client of a scheduler in one process and workers in others, so that the CPU time of each is its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])  # they import this module
        quiet = {**os.environ, "DASK_LOGGING__DISTRIBUTED": "error", "PYTHONPATH": path}
        start = [sys.executable, "-m"]
        commands = [[*start, "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]]
        commands += [
            [*start, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        ] * workers
        options = ["--scheduler-file", str(file)]
        children = []
        try:
            for command in commands:
                children.append(subprocess.Popen([*command, *options], env=quiet, cwd=folder))
                while not file.exists():
                    time.sleep(0.05)
            with Client(scheduler_file=str(file), set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=60)
                yield client
        finally:
            for child in reversed(children):
                child.kill()
                child.wait()


def spent(client: Client) -> dict[str, Any]:
    """CPU seconds so far of scheduler, workers and this process, and messages and bytes on the lasting connections."""
    scheduler = client.run_on_scheduler(_scheduler)
    workers = list(client.run(_worker).values())
    client_comm = client.scheduler_comm
    return {
        "scheduler_cpu": scheduler["cpu"],
        "scheduler_rss": scheduler["rss"],
        "worker_cpu": sum(worker["cpu"] for worker in workers),
        "client_cpu": time.process_time(),
        "messages": scheduler["messages"] + sum(worker["messages"] for worker in workers) + client_comm.message_count,
        "bytes_from_scheduler": scheduler["bytes"],
        "bytes_to_scheduler": sum(worker["bytes"] for worker in workers) + client_comm.byte_count,
    }


def _scheduler(dask_scheduler: Any) -> dict[str, float]:
    comms = [*dask_scheduler.stream_comms.values(), *dask_scheduler.client_comms.values()]
    messages, sent = sum(comm.message_count for comm in comms), sum(comm.byte_count for comm in comms)
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {"cpu": time.process_time(), "messages": messages, "bytes": sent, "rss": rss}


def _worker(dask_worker: Any) -> dict[str, float]:
    stream = dask_worker.batched_stream
    return {"cpu": time.process_time(), "messages": stream.message_count, "bytes": stream.byte_count}


@contextlib.contextmanager
def killed_now_and_then(cluster: LocalCluster, seconds: float, done: Mapping[str, int]) -> Iterator[list[int]]:
    """Kill a worker of a local cluster every so many seconds; gives the numbers of the processes killed.

    Between two kills at least one block is stored, as `done` counts: otherwise workers that take longer than that to
    start would never compute anything.
    """
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        before = 0
        while not ended.wait(seconds):
            if sum(done.values()) == before:
                continue
            before = sum(done.values())
            # Only workers that are registered: Dask gives up on one that dies while it starts.
            registered = cluster.scheduler.workers
            nannies = [nanny for nanny in list(cluster.workers.values()) if nanny.worker_address in registered]
            alive = [
                nanny.pid for nanny in nannies if nanny.process.status.name == "running" and nanny.pid not in killed
            ]
            if alive:
                chosen = alive[len(killed) % len(alive)]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chosen, signal.SIGKILL)
                    killed.append(chosen)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()
