"""An agent in PostgreSQL: decisions per second by processes, what a decision costs the database, and its bytes.

A PostgreSQL of its own is started in a folder, with the settings it has by default (every commit is on disk). Processes
ask and tell one agent as fast as they can, one decision at a time and in batches; then processes that decide nothing
write decisions to the log, of one agent and of one agent each: the most that the store takes. Everything shares the
processors of one machine, so the CPU seconds a decision are given too, of the processes and of the server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import psutil
import psycopg

import adadim
from _report import ROOT, arguments, describe, load, machine, write_json

sys.path.append(str(ROOT / "tests"))
from adadim.agent.log import LoggedDecision
from adadim.agent.stores import open_log
from postgres_server import Database

CONTEXT, ARM, ARMS = 8, 3, 20
WORKERS = (1, 2, 4)


def contexts(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(size=(count, CONTEXT))


def create(address: str) -> None:
    rng = np.random.default_rng(0)
    with adadim.Agent.create(address, context=CONTEXT, arm=ARM) as agent:
        agent.set_arms({f"arm {k}": row for k, row in enumerate(rng.normal(size=(ARMS, ARM)))})
        for decision in agent.ask_many(contexts(rng, 200)):
            agent.tell(decision.id, float(rng.normal()))


def wait_for_start() -> float:
    """Say that this process is ready, and wait for the others; gives when they begin."""
    print("ready", flush=True)
    input()
    return time.time()


def play(address: str, batch: int, seconds: float, seed: int) -> dict[str, object]:
    """Ask and tell for some time; gives how much was done."""
    rng, agent, times = np.random.default_rng(seed), adadim.Agent.open(address), []
    for row in contexts(rng, 10):  # after a few the server has the queries prepared
        agent.tell(agent.ask(context=row).id, float(rng.normal()))
    begin, cpu = wait_for_start(), time.process_time()
    while time.time() < begin + seconds:
        rows = contexts(rng, batch)
        start = time.perf_counter()
        decisions = agent.ask_many(rows) if batch > 1 else [agent.ask(context=rows[0])]
        times.append(time.perf_counter() - start)
        agent.tell_many({decision.id: float(rng.normal()) for decision in decisions})
    return {"decisions": len(times) * batch, "cpu": time.process_time() - cpu, "times": times}


def write(address: str, batch: int, seconds: float, seed: int) -> dict[str, object]:
    """Write decisions that no policy made, for some time; gives how many."""
    log, times = open_log(address), []
    arms = np.ones(log.settings.dim)
    begin, cpu = wait_for_start(), time.process_time()
    while time.time() < begin + seconds:
        start = time.perf_counter()
        with log.transaction():
            first, now = log.place().number + 1, time.time()
            log.append([LoggedDecision(first + i, now, "arm", arms, 1.0, None, None) for i in range(batch)], now)
        times.append(time.perf_counter() - start)
    return {"decisions": len(times) * batch, "cpu": time.process_time() - cpu, "times": times}


WORK = {"play": play, "write": write}


class Meter:
    """What the server has done since the meter was made."""

    def __init__(self, server: Database) -> None:
        self.server, self.connection = server, psycopg.connect(server.url, autocommit=True)
        self.before = self.read()

    def read(self) -> np.ndarray:
        """Seconds in statements, CPU seconds, bytes of tables and of the write-ahead log."""
        query = """
            SELECT (SELECT sum(active_time) / 1000 FROM pg_stat_database),
                (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
                    WHERE relnamespace = to_regnamespace('adadim') AND relkind = 'r'),
                pg_current_wal_lsn() - '0/0'::pg_lsn"""
        active, size, wal = self.connection.execute(query).fetchone()
        return np.array([float(active or 0), self.cpu(), float(size or 0), float(wal)])

    def cpu(self) -> float:
        """CPU seconds of the server's processes, those that have ended included."""
        main = psutil.Process(int((self.server.folder / "postmaster.pid").read_text().splitlines()[0]))
        spent = main.cpu_times()
        total = spent.user + spent.system + spent.children_user + spent.children_system
        for child in main.children():
            times = child.cpu_times()
            total += times.user + times.system
        return total

    def since(self) -> np.ndarray:
        time.sleep(1.2)  # a server counts what a session did at most a second later
        return self.read() - self.before


def measure(server: Database, kind: str, addresses: list[str], batch: int, seconds: float) -> dict[str, float]:
    """What so many processes do at once, each with its address."""
    commands = [
        [sys.executable, __file__, "--work", kind, address, str(batch), str(seconds), str(seed)]
        for seed, address in enumerate(addresses)
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for command in commands]
    for process in processes:
        process.stdout.readline()
    meter = Meter(server)
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outcomes = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    active, cpu, size, wal = meter.since()
    count = sum(outcome["decisions"] for outcome in outcomes)
    times = np.concatenate([outcome["times"] for outcome in outcomes])
    return {
        "processes": len(addresses),
        "agents": len(set(addresses)),
        "batch": batch,
        "decisions_per_second": round(count / seconds, 1),
        "p50_ms": round(1000 * float(np.median(times)), 2),
        "p99_ms": round(1000 * float(np.quantile(times, 0.99)), 2),
        "database_ms_per_decision": round(1000 * active / count, 3),
        "server_cpu_ms_per_decision": round(1000 * cpu / count, 3),
        "client_cpu_ms_per_decision": round(1000 * sum(outcome["cpu"] for outcome in outcomes) / count, 3),
        "table_bytes_per_decision": round(size / count),
        "log_bytes_per_decision": round(wal / count),
    }


def catch_up(server: Database, count: int) -> dict[str, float]:
    """What it costs a process to take in decisions of others, with their rewards."""
    address = f"{server.url}#catch-up"
    create(address)
    with adadim.Agent.open(address) as reader, adadim.Agent.open(address) as writer:
        for _ in range(count // 100):
            decisions = writer.ask_many(contexts(np.random.default_rng(1), 100))
            writer.tell_many({decision.id: 0.5 for decision in decisions})
        meter, cpu = Meter(server), time.process_time()
        reader.status()
        cpu = time.process_time() - cpu
        server_cpu = meter.since()[1]
    return {
        "decisions": count,
        "client_cpu_ms_per_decision": round(1000 * cpu / count, 4),
        "server_cpu_ms_per_decision": round(1000 * server_cpu / count, 4),
    }


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        kind, address, batch, seconds, seed = sys.argv[2:]
        print(json.dumps(WORK[kind](address, int(batch), float(seconds), int(seed))))
        return
    parser = arguments("agent_postgres", __doc__, "a second each")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    seconds = 1.0 if options.quick else options.seconds
    server, rows = Database(), {"play": [], "write": []}
    try:
        fsync = commit_seconds(server)
        plans = [("play", batch, workers, 1) for batch in (1, 100) for workers in WORKERS]
        plans += [("write", batch, workers, 1) for batch in (1, 100) for workers in WORKERS]
        plans += [("write", 1, workers, workers) for workers in WORKERS[1:]]
        for i, (kind, batch, workers, agents) in enumerate(plans):
            addresses = [f"{server.url}#agent-{i}-{k % agents}" for k in range(workers)]
            for address in sorted(set(addresses)):
                create(address)
            rows[kind].append(measure(server, kind, addresses, batch, seconds))
            print(json.dumps({"kind": kind, **rows[kind][-1]}), flush=True)
        reading = catch_up(server, 500 if options.quick else 5000)
        print(json.dumps({"kind": "catch_up", **reading}), flush=True)
        with psycopg.connect(server.url) as connection:
            version = connection.execute("SHOW server_version").fetchone()[0]
    finally:
        server.delete()
    report = {
        "benchmark": "agent_postgres",
        "setting": {"context": CONTEXT, "arm": ARM, "arms": ARMS, "seconds": seconds, "postgresql": version},
        "commit_ms": round(1000 * fsync, 3),
        **rows,
        "catch_up": reading,
        "machine": machine(("adadim", "numpy", "psycopg")) | {"load": load()},
    }
    print(describe(report["machine"]))
    write_json(options.out, report)


def commit_seconds(server: Database) -> float:
    """Seconds of a transaction that writes one small row, for comparison."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE small (x integer)")
        times = []
        for i in range(300):
            start = time.perf_counter()
            connection.execute("INSERT INTO small VALUES (%s)", [i])
            times.append(time.perf_counter() - start)
    return float(np.median(times))


if __name__ == "__main__":
    main()
