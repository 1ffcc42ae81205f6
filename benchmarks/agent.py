"""Decisions and tells per second of an agent, with durability on, and what a long log costs.

Every ask and every tell is a transaction of its own that is on disk before the call returns (SQLite in WAL mode with
synchronous=FULL), so the disk's time to write through is part of each figure; it is measured first, alone. 30 arms with
20 features, fresh in every round or from the catalogue. Then the homepage of docs/agent.md: 40 articles with 24
features and visitors with 8, of which the agent makes its own; decisions per second in batches of 100, and bytes that
each takes. Then a file with many answered decisions: its size, how long it takes to open with its snapshot and without,
and the same latencies again.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import adadim
from _report import arguments, describe, load, machine, table, write_json
from adadim.agent.log import LoggedDecision, Reward, Round
from adadim.agent.sqlite import SqliteLog

ARMS, DIM = 30, 20
DIMS = (20, 67, 200)


def rounds(count: int, seed: int, dim: int = DIM) -> list[dict[str, np.ndarray]]:
    """Arms by name, new in every round."""
    drawn = np.random.default_rng(seed).normal(size=(count, ARMS, dim)) / np.sqrt(dim)
    return [{f"sku-{k}": row for k, row in enumerate(rows)} for rows in drawn]


def play(how: str, clients: int, connect: Callable[[], Any], count: int, fresh: bool = True) -> dict[str, Any]:
    """Latency and throughput of `clients` at once, each asking and telling `count` times.

    `connect` gives what a client talks to, with the methods ask and tell of an agent: the agent itself, or whatever
    carries the calls to one.
    """
    asks: list[float] = []
    tells: list[float] = []

    def client(seed: int) -> None:
        agent, rng = connect(), np.random.default_rng(seed)
        for arms in rounds(count, seed):
            begun = time.perf_counter()
            decision = agent.ask(arms) if fresh else agent.ask()
            asked = time.perf_counter()
            agent.tell(decision.id, reward=float(rng.normal()))
            tells.append(time.perf_counter() - asked)
            asks.append(asked - begun)

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    return {
        "how": how,
        "clients": clients,
        "decisions": len(asks),
        "decisions_and_tells_per_second": len(asks) / seconds,
        "asks_per_second": len(asks) * clients / sum(asks),
        "tells_per_second": len(tells) * clients / sum(tells),
        **{f"ask_p{p}_ms": float(np.percentile(asks, p) * 1e3) for p in (50, 99)},
        **{f"tell_p{p}_ms": float(np.percentile(tells, p) * 1e3) for p in (50, 99)},
    }


def batches(agent: adadim.Agent, count: int) -> float:
    """Rewards per second told in batches of 100."""
    ids = [agent.ask().id for _ in range(count)]
    begun = time.perf_counter()
    for at in range(0, count, 100):
        agent.tell_many(dict.fromkeys(ids[at : at + 100], 0.5))
    return count / (time.perf_counter() - begun)


def together(folder: Path, policy: adadim.Policy | None, count: int, many: int = 100) -> dict[str, Any]:
    """Decisions per second asked one by one and in batches of `many`, the same ones, nothing told in between."""
    dims = 5  # of the context
    contexts = np.random.default_rng(5).normal(size=(count, dims)) / np.sqrt(DIM)
    arms = {name: row[: DIM - dims] for name, row in rounds(1, 7)[0].items()}
    seconds, chosen = {}, {}
    for how in ("one by one", "together"):
        path = folder / f"{how}-{type(policy).__name__}.db"
        with adadim.Agent.create(path, dim=DIM, policy=policy, noise=1.0) as agent:
            agent.set_arms(arms)
            begun = time.perf_counter()
            if how == "together":
                batches = [agent.ask_many(contexts[at : at + many]) for at in range(0, count, many)]
                decisions = [decision for batch in batches for decision in batch]
            else:
                decisions = [agent.ask(context=context) for context in contexts]
            seconds[how] = time.perf_counter() - begun
            chosen[how] = [decision.arm for decision in decisions]
    assert chosen["together"] == chosen["one by one"]
    return {
        "policy": type(policy or adadim.EvidenceLinUCB()).__name__,
        "batch": many,
        "asks_per_second": count / seconds["one by one"],
        "asks_per_second_together": count / seconds["together"],
        "ratio": seconds["one by one"] / seconds["together"],
    }


def homepage(folder: Path, features: adadim.Features, count: int, many: int = 100) -> dict[str, Any]:
    """Decisions and rewards per second in batches of `many`, each told before the next, and bytes of a decision."""
    rng, path, asking, telling = np.random.default_rng(3), folder / f"homepage-{features.products}.db", 0.0, 0.0
    articles = {f"article-{k}": row for k, row in enumerate(rng.normal(size=(40, 24)) / np.sqrt(24))}
    with adadim.Agent.create(path, context=8, arm=24, features=features) as agent:
        agent.set_arms(articles)
        dim = agent.dim
        for _ in range(0, count, many):
            visitors, noise = rng.normal(size=(many, 8)) / np.sqrt(8), rng.normal(size=many)
            begun = time.perf_counter()
            decisions = agent.ask_many(visitors)
            asked = time.perf_counter()
            agent.tell_many({d.id: float(articles[d.arm][0] + e) for d, e in zip(decisions, noise, strict=True)})
            asking, telling = asking + asked - begun, telling + time.perf_counter() - asked
    return {
        "dim": dim,
        "decisions": count,
        "batch": many,
        "asks_per_second": count / asking,
        "tells_per_second": count / telling,
        "decisions_and_tells_per_second": count / (asking + telling),
        "bytes": path.stat().st_size,
        "bytes_per_decision": path.stat().st_size / count,
    }


def late(folder: Path, dim: int, count: int) -> dict[str, float]:
    """Milliseconds of processor time of an ask while 100 decisions wait, after a reward of one of them and without."""
    after = alone = 0.0
    with adadim.Agent.create(folder / f"late-{dim}.db", dim=dim) as agent:
        waiting = [agent.ask(arms).id for arms in rounds(100, 4, dim)]
        agent.tell_many([(waiting.pop(0), 0.5), (waiting.pop(0), -0.5)])
        for at, arms in enumerate(rounds(2 * count, 3, dim)):
            begun = time.process_time()
            waiting.append(agent.ask(arms).id)
            spent = time.process_time() - begun
            if at % 2:
                alone += spent
                agent.tell_many({waiting.pop(0): float(np.sin(at)), waiting.pop(0): float(np.cos(at))})
            else:
                after += spent
    return {"dim": dim, "ask_after_a_reward_ms": after / count * 1e3, "ask_without_one_ms": alone / count * 1e3}


def processor(folder: Path, dim: int, count: int) -> dict[str, float]:
    """Milliseconds of processor time of an ask that takes in one new reward, and of a tell."""
    asks = tells = 0.0
    with adadim.Agent.create(folder / f"dim-{dim}.db", dim=dim) as agent:
        for arms in rounds(count, 3, dim):
            begun = time.process_time()
            decision = agent.ask(arms)
            asked = time.process_time()
            agent.tell(decision.id, reward=float(arms[decision.arm].sum()))
            asks, tells = asks + asked - begun, tells + time.process_time() - asked
    return {"dim": dim, "ask_ms": asks / count * 1e3, "tell_ms": tells / count * 1e3}


def disk(folder: Path, count: int) -> dict[str, float]:
    """Milliseconds to append 5 kB to a file and have it written through."""
    times = []
    with open(folder / "disk", "wb", buffering=0) as file:
        for _ in range(count):
            begun = time.perf_counter()
            file.write(bytes(5000))
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return {f"p{p}_ms": float(np.percentile(times, p) * 1e3) for p in (50, 99)}


def fill(path: Path, count: int, fresh: bool) -> None:
    """Write answered decisions into an agent's log, many in a transaction."""
    rng, log = np.random.default_rng(7), SqliteLog(path)
    names = [f"sku-{k}" for k in range(ARMS)]
    with log.transaction(write=False):
        version = None if fresh else log.place().arm
    catalogue = rng.normal(size=(ARMS, DIM)) / np.sqrt(DIM)
    done = 0
    while done < count:
        many = min(10_000, count - done)
        offered = rng.normal(size=(many, ARMS, DIM)) / np.sqrt(DIM) if fresh else None
        chosen, rewards = rng.integers(ARMS, size=many).tolist(), rng.normal(size=many).tolist()
        with log.transaction():
            first = log.place().number + 1
            for i in range(many):
                asked = Round(names, catalogue if offered is None else offered[i], catalogue=version)
                now, arm = time.time(), chosen[i]
                decision = LoggedDecision(first + i, now, names[arm], asked.arm_features[arm], 1.0, 1, asked)
                log.append([decision, Reward(first + i, rewards[i])], now)
        done += many
    log.close()


def long_log(folder: Path, count: int, fresh: bool, calls: int) -> dict[str, Any]:
    """What a file with many decisions costs."""
    path = folder / f"{'fresh' if fresh else 'catalogue'}.db"
    with adadim.Agent.create(path, dim=DIM) as agent:
        agent.set_arms(rounds(1, 7)[0])
        early = play("at the start", 1, lambda: agent, calls, fresh)
    begun = time.perf_counter()
    fill(path, count - calls, fresh)
    filled = time.perf_counter() - begun
    adadim.Agent.open(path).close()  # keeps a snapshot
    begun = time.perf_counter()
    agent = adadim.Agent.open(path)
    opened = time.perf_counter() - begun
    late = play("at the end", 1, lambda: agent, calls, fresh)
    begun = time.perf_counter()
    status = agent.status()
    asked = time.perf_counter() - begun
    agent.close()
    with sqlite3.connect(path) as file:
        file.execute("DELETE FROM snapshot")
    file.close()
    begun = time.perf_counter()
    agent = adadim.Agent.open(path)
    rebuilt = time.perf_counter() - begun
    drift = agent.rebuild()
    agent.close()
    assert status["rewards"] == count + calls, status
    return {
        "features": "new in every round" if fresh else "those of a catalogue",
        "decisions": count,
        "fill_seconds": filled,
        "bytes": path.stat().st_size,
        "bytes_per_decision": path.stat().st_size / (count + calls),
        "open_with_snapshot_ms": opened * 1e3,
        "open_without_snapshot_ms": rebuilt * 1e3,
        "status_ms": asked * 1e3,
        "difference_of_a_rebuild": drift,
        "at_the_start": early,
        "at_the_end": late,
    }


def main() -> None:
    parser = arguments("agent", __doc__, "20 calls and a log of 2,000 decisions")
    parser.add_argument("--calls", type=int, default=5000, help="asks and tells of each measurement")
    parser.add_argument("--decisions", type=int, default=1_000_000, help="in the long log, from a catalogue")
    parser.add_argument("--fresh", type=int, default=100_000, help="in the long log whose features are always new")
    parser.add_argument("--homepage", type=int, default=30_000, help="decisions of the homepage")
    options = parser.parse_args()
    if options.quick:
        options.calls, options.decisions, options.fresh, options.homepage = 20, 2000, 500, 200
    with threadpool_limits(1), tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), []
        written = disk(folder, min(options.calls, 1000))
        for policy, fresh in ((None, True), (None, False), (adadim.LinUCB(), True), (adadim.LinTS(), True)):
            label = f"{type(policy or adadim.EvidenceLinUCB()).__name__}, {'new features' if fresh else 'catalogue'}"
            with adadim.Agent.create(folder / f"{len(rows)}.db", dim=DIM, policy=policy, noise=1.0) as agent:
                agent.set_arms(rounds(1, 7)[0])
                rows.append(play(f"in process, {label}", 1, lambda agent=agent: agent, options.calls, fresh))
        with adadim.Agent.create(folder / "batches.db", dim=DIM) as agent:
            agent.set_arms(rounds(1, 7)[0])
            batched = batches(agent, max(options.calls // 100 * 100, 100))
        by_dim = [processor(folder, dim, max(options.calls // 5, 10)) for dim in DIMS]
        waiting = [late(folder, dim, max(options.calls // 10, 10)) for dim in DIMS]
        count = max(options.calls // 200, 1) * 100
        many = [together(folder, policy, count) for policy in (None, adadim.LinUCB(), adadim.LinTS())]
        pages = [homepage(folder, adadim.Features(products=m), max(options.homepage, 100)) for m in (4, 24)]
        logs = [
            long_log(folder, options.decisions, False, options.calls),
            long_log(folder, options.fresh, True, options.calls),
        ]
    report = {
        "benchmark": "agent",
        "setting": {"arms": ARMS, "dim": DIM, "calls": options.calls},
        "disk": written,
        "rows": rows,
        "tells_per_second_in_batches_of_100": batched,
        "processor_time": by_dim,
        "processor_time_while_rewards_are_late": waiting,
        "asked_together": many,
        "homepage": pages,
        "logs": logs,
        "machine": machine() | {"load": load()},
    }
    show(report)
    write_json(options.out, report)


def show(report: dict[str, Any]) -> None:
    """Print the report for people."""
    print(describe(report["machine"]))
    disk_p50, disk_p99 = report["disk"]["p50_ms"], report["disk"]["p99_ms"]
    print(f"the disk alone: {disk_p50:.2f} ms to write 5 kB through (p99 {disk_p99:.2f} ms)\n")

    def cells(row: dict[str, Any]) -> list[str]:
        latencies = [f"{row[key]:.2f}" for key in ("ask_p50_ms", "ask_p99_ms", "tell_p50_ms", "tell_p99_ms")]
        return [
            row["how"],
            str(row["clients"]),
            f"{row['asks_per_second']:.0f}",
            f"{row['tells_per_second']:.0f}",
            *latencies,
        ]

    headers = ["", "clients", "asks/s", "tells/s", "ask p50 ms", "p99", "tell p50 ms", "p99"]
    print(table(headers, [cells(row) for row in report["rows"]]))
    print(f"\nin batches of 100: {report['tells_per_second_in_batches_of_100']:.0f} tells/s")
    for row in report["processor_time"]:
        times = f"{row['ask_ms']:.2f} ms of processor time for an ask, {row['tell_ms']:.2f} ms for a tell"
        print(f"{row['dim']} features: {times}")
    for row in report["processor_time_while_rewards_are_late"]:
        times = f"{row['ask_after_a_reward_ms']:.2f} ms after a reward, {row['ask_without_one_ms']:.2f} ms without one"
        print(f"{row['dim']} features, 100 decisions open: an ask takes {times}")
    for row in report["asked_together"]:
        print(
            f"{row['policy']}: {row['asks_per_second']:.0f} decisions/s one by one, "
            f"{row['asks_per_second_together']:.0f} in batches of {row['batch']} ({row['ratio']:.1f} times as many)"
        )
    for row in report["homepage"]:
        print(
            f"homepage, {row['dim']} features: {row['asks_per_second']:.0f} decisions/s and "
            f"{row['tells_per_second']:.0f} tells/s in batches of {row['batch']}; {row['decisions']:,} decisions take "
            f"{row['bytes'] / 1e6:.1f} MB ({row['bytes_per_decision']:.0f} bytes each, with their rewards)"
        )
    for log in report["logs"]:
        print(
            f"\n{log['decisions']:,} decisions, features {log['features']}: {log['bytes'] / 1e6:.0f} MB "
            f"({log['bytes_per_decision']:.0f} bytes each), opened in {log['open_with_snapshot_ms']:.1f} ms with its "
            f"snapshot, {log['open_without_snapshot_ms']:.0f} ms without; status in {log['status_ms']:.1f} ms"
        )
        print(table(headers, [cells(log["at_the_start"]), cells(log["at_the_end"])]))


if __name__ == "__main__":
    sys.exit(main())
