"""Decisions and rewards per second through HTTP, with several clients at once, and how long each call takes.

A service runs in a process of its own, on a file with everything on disk before it is acknowledged. Clients are
processes too: each asks for a decision among 30 arms with 20 features that come with the call, tells its reward, and
goes on without a pause. Below the table: what an empty call (/health) takes, and what an fsync on the same disk takes,
which every decision and every reward waits for.

Then the homepage of docs/agent.md, 40 articles in the catalogue and a context in each call, with 32 clients, beside a
bare FastAPI application in the place of the service, which reads the same calls and answers at once. Here
the clients are connections of one process that spends little on each call, so that the services have a core to
themselves; both are measured in turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
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
MANY_CLIENTS, TURNS = 32, 3
SERVE = "from adadim.cli import main; main()"
BARE = """
import socket, sys
from typing import Any
import uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/ask")
async def ask(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": 1, "arm": "article-1", "probability": 1.0}
@app.post("/tell")
async def tell(body: dict[str, Any]) -> dict[str, Any]:
    return {"told": 1}
listener = socket.create_server(("127.0.0.1", 0), backlog=512)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(f"serving at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])
"""


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
    times_by_client = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    after = processor_seconds(service)
    row = {"clients": count}
    for name, position in (("ask", 0), ("tell", 1)):
        times = np.concatenate([part[position] for part in times_by_client])
        # Each client's own rate: processes start one after the other.
        row[f"{name} per second"] = sum(len(part[0]) / sum(map(sum, part)) for part in times_by_client)
        row[f"{name} p50 ms"], row[f"{name} p99 ms"] = (1000 * np.percentile(times, [50, 99])).tolist()
    rounds = sum(len(part[0]) for part in times_by_client)
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


@contextlib.contextmanager
def started(*arguments, environment=None):
    """A service in a process of its own, and its address."""
    command = [sys.executable, "-c", *arguments]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield service, service.stdout.readline().split(" at ")[1].split()[0]
    finally:
        service.terminate()
        service.wait()


class Connection(asyncio.Protocol):
    """A client that asks, tells if it should, and goes on until it is late enough; the times of each call."""

    def __init__(self, asks, telling, end):
        self.asks, self.telling, self.end = asks, telling, end
        self.times, self.done, self.received = {"ask": [], "tell": []}, asyncio.Event(), b""

    def connection_made(self, transport):
        self.transport, self.at = transport, 0
        self.send("ask", self.asks[0])

    def send(self, path, body):
        self.path, self.begun = path, time.perf_counter()
        head = f"POST /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def data_received(self, data):
        self.received += data
        head, separator, body = self.received.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(self.received.decode())
        self.received = b""
        now = time.perf_counter()
        self.times[self.path].append(now - self.begun)
        if now > self.end:
            self.transport.close()
            self.done.set()
        elif self.path == "ask" and self.telling:
            self.send("tell", json.dumps({"id": json.loads(body)["id"], "reward": self.at % 3 - 1.0}).encode())
        else:
            self.at += 1
            self.send("ask", self.asks[self.at % len(self.asks)])


async def with_connections(url, count, telling, seconds):
    """Calls per second of `count` clients, and their times."""
    rng, loop = np.random.default_rng(0), asyncio.get_running_loop()
    host, port = url.removeprefix("http://").split(":")
    begun = time.perf_counter()
    clients = []
    for _ in range(count):
        contexts = rng.standard_normal((50, 8)) / 8**0.5
        asks = [json.dumps({"context": context.tolist()}).encode() for context in contexts]
        client = Connection(asks, telling, begun + seconds)
        await loop.create_connection(lambda client=client: client, host, int(port))
        clients.append(client)
    for client in clients:
        await client.done.wait()
    took = time.perf_counter() - begun
    row = {"clients": count, "calls": "asks and tells" if telling else "asks"}
    times = {path: np.concatenate([client.times[path] for client in clients]) for path in ("ask", "tell")}
    row["calls per second"] = sum(map(len, times.values())) / took
    row["decisions per second"] = len(times["ask"]) / took
    for path, seconds_each in times.items():
        if len(seconds_each):
            row[f"{path} p50 ms"], row[f"{path} p99 ms"] = (1000 * np.percentile(seconds_each, [50, 99])).tolist()
    return row


def homepage(seconds, count):
    """The service and a bare application in turns; the median turn of each."""
    rng, measured = np.random.default_rng(3), []
    articles = {f"article-{k}": row for k, row in enumerate(rng.standard_normal((40, 24)) / 24**0.5)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "home.db"
        with adadim.Agent.create(path, context=8, arm=24, features=adadim.Features(products=4, own=16)) as agent:
            agent.set_arms(articles)
            decisions = agent.ask_many(rng.standard_normal((500, 8)) / 8**0.5)
            agent.tell_many({one.id: float(articles[one.arm][0] + rng.standard_normal()) for one in decisions})
        serve = (SERVE, "serve", str(path), "--port", "0", "--rate", "0")
        with started(*serve) as (service, url), started(BARE) as (bare, bare_url):
            for _ in range(TURNS):
                for telling in (False, True):
                    for what, process, address in (("service", service, url), ("bare", bare, bare_url)):
                        before = processor_seconds(process.pid)
                        row = asyncio.run(with_connections(address, count, telling, seconds))
                        calls = row["calls per second"] * seconds
                        if before is not None:
                            row["CPU ms per call"] = 1000 * (processor_seconds(process.pid) - before) / calls
                        measured.append({"what": what, **row})
    rows = []
    for calls in ("asks", "asks and tells"):
        for what in ("service", "bare"):
            turns = [row for row in measured if (row["what"], row["calls"]) == (what, calls)]
            rows.append(sorted(turns, key=lambda row: row["calls per second"])[len(turns) // 2])
    return rows


def measure(clients, seconds):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        adadim.Agent.create(path, dim=DIM).close()
        with started(SERVE, "serve", str(path), "--port", "0", "--rate", "0") as (service, url):
            rows = [with_clients(url, count, seconds, service.pid) for count in clients]
            with Client(url) as caller:
                empty = []
                for _ in range(300):
                    begun = time.perf_counter()
                    caller.health()
                    empty.append(time.perf_counter() - begun)
                decisions = caller.status()["decisions"]
        with adadim.Agent.open(path) as agent:
            if agent.status()["rewards"] != decisions:
                raise SystemExit("rewards that were acknowledged are missing")
        floors = {"health p50 ms": 1000 * float(np.median(empty)), "fsync p50 ms": fsync_ms(folder)}
    return rows, floors, decisions


def main() -> int:
    options = arguments("agent_http", __doc__, "a second with 1 and 2 clients").parse_args()
    before = load()
    rows, floors, decisions = measure((1, 2), 1.0) if options.quick else measure(CLIENTS, SECONDS)
    many = homepage(*(0.5, 4) if options.quick else (SECONDS, MANY_CLIENTS))
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
        "homepage": many,
    }
    write_json(options.out, report)
    columns = [key for key in rows[0] if key != "clients"]
    print(table(["clients", *columns], [[str(r["clients"]), *(_shown(r[key]) for key in columns)] for r in rows]))
    columns = ["calls per second", "ask p50 ms", "ask p99 ms", "tell p50 ms", "tell p99 ms", "CPU ms per call"]
    cells = [
        [row["what"], str(row["clients"]), row["calls"], *(_shown(row.get(key)) for key in columns)] for row in many
    ]
    print("\n" + table(["homepage", "clients", "calls", *columns], cells))
    for service, bare in zip(many[::2], many[1::2], strict=True):
        share = service["calls per second"] / bare["calls per second"]
        print(f"{service['calls']}: {share:.2f} of what the bare application answers")
    print("\n" + ", ".join(f"{name} {value:.2f}" for name, value in floors.items()))
    print(f"load average {before} before, {load()} after\n{describe(described)}")
    return 0


def _shown(value):
    return "-" if value is None else f"{value:,.1f}"


if __name__ == "__main__":
    sys.exit(main())
