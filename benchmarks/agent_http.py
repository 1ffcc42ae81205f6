"""Decisions and rewards per second through HTTP, with several clients at once, and how long each call takes.

A service runs in a process of its own, on a file with everything on disk before it is acknowledged. Clients are
processes too: each asks for a decision among 30 arms with 20 features that come with the call, tells its reward, and
goes on without a pause. Below the table: what an empty call (/health) takes, and what an fsync on the same disk takes,
which every decision and every reward waits for.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import adadim
from _report import arguments, describe, load, machine, table, write_json
from adadim.serve import Client

ARMS, DIM = 30, 20
CLIENTS = (1, 4, 16)
SECONDS = 10.0


def client(url, number, seconds, results):
    """Seconds that each ask and each tell took."""
    rng = np.random.default_rng(number)
    rounds = rng.standard_normal((20, ARMS, DIM)) / DIM**0.5
    offers = [{f"sku-{i}": x.tolist() for i, x in enumerate(features)} for features in rounds]
    asks, tells = [], []
    with Client(url) as caller:
        caller.health()
        end = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < end:
            decision = caller.ask(offers[len(asks) % len(offers)])
            between = time.perf_counter()
            caller.tell(decision.id, float(rng.standard_normal()))
            asks.append(between - begun)
            tells.append(time.perf_counter() - between)
    results.put((asks, tells))


def processor_seconds(process):
    """What a process has used of the processor; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_clients(url, count, seconds, service):
    before = processor_seconds(service)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=client, args=(url, number, seconds, results)) for number in range(count)]
    for worker in workers:
        worker.start()
    found = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    after = processor_seconds(service)
    row = {"clients": count}
    for name, position in (("ask", 0), ("tell", 1)):
        times = np.concatenate([part[position] for part in found])
        # Each client's own rate: processes start one after the other.
        row[f"{name} per second"] = sum(len(part[0]) / sum(map(sum, part)) for part in found)
        row[f"{name} p50 ms"], row[f"{name} p99 ms"] = (1000 * np.percentile(times, [50, 99])).tolist()
    rounds = sum(len(part[0]) for part in found)
    row["service CPU ms per ask and tell"] = None if before is None else 1000 * (after - before) / rounds
    return row


def fsync_ms(folder):
    """Median time of appending a page to a file and waiting for the disk."""
    times = []
    with open(Path(folder) / "page", "wb") as file:
        for _ in range(50):
            file.write(bytes(4096))
            file.flush()
            begun = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return 1000 * float(np.median(times))


def measure(clients, seconds):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        adadim.Agent.create(path, dim=DIM).close()
        command = "from adadim.cli import main; main()"
        service = subprocess.Popen(
            [sys.executable, "-c", command, "serve", str(path), "--port", "0", "--rate", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            url = service.stdout.readline().split(" at ")[1].split()[0]
            rows = [with_clients(url, count, seconds, service.pid) for count in clients]
            with Client(url) as caller:
                empty = []
                for _ in range(300):
                    begun = time.perf_counter()
                    caller.health()
                    empty.append(time.perf_counter() - begun)
                decisions = caller.status()["decisions"]
        finally:
            service.terminate()
            service.wait()
        with adadim.Agent.open(path) as agent:
            if agent.status()["rewards"] != decisions:
                raise SystemExit("rewards that were acknowledged are missing")
        floors = {"health p50 ms": 1000 * float(np.median(empty)), "fsync p50 ms": fsync_ms(folder)}
    return rows, floors, decisions


def main() -> int:
    options = arguments("agent_http", __doc__, "a second with 1 and 2 clients").parse_args()
    before = load()
    rows, floors, decisions = measure((1, 2), 1.0) if options.quick else measure(CLIENTS, SECONDS)
    described = machine(("adadim", "numpy", "scipy", "fastapi", "uvicorn"))
    described["load"] = {"before": before, "after": load()}
    setting = {"arms": ARMS, "dim": DIM, "seconds": 1.0 if options.quick else SECONDS}
    report = {
        "benchmark": "agent_http",
        "machine": described,
        "setting": setting,
        "rows": rows,
        "floors": floors,
        "decisions": decisions,
    }
    write_json(options.out, report)
    columns = [key for key in rows[0] if key != "clients"]
    print(table(["clients", *columns], [[str(r["clients"]), *(_shown(r[key]) for key in columns)] for r in rows]))
    print("\n" + ", ".join(f"{name} {value:.2f}" for name, value in floors.items()))
    print(f"load average {before} before, {load()} after\n{describe(described)}")
    return 0


def _shown(value):
    return "-" if value is None else f"{value:,.1f}"


if __name__ == "__main__":
    sys.exit(main())
