"""A model of a run on a cluster of any size: where the scheduler, the client or the network becomes the limit.

    python benchmarks/scheduler_model.py                        with what docs/measured/cpu-cluster.json says of a block
    python benchmarks/scheduler_model.py --scheduler-ms 1       another scheduler
    python benchmarks/scheduler_model.py --workers 300 --seconds 2      one case

Blocks go the way they go in a run. The client sends some out, at most two for each worker, and more when a quarter has
come back; the scheduler spends half its time on a block when it arrives and half when it is done, hands it to a worker
that is free, and passes the result on over one link; the client checks and stores it. Client and scheduler do one thing
at a time, in order of arrival; workers compute for a random time. What each costs per block is measured by
benchmarks/cluster.py. Efficiency is the share of the workers' time in which they compute: over a whole run of 20 blocks
for each, its end included, when most have nothing left to do; and steady, in the middle half of the run.
"""

from __future__ import annotations

import heapq
import itertools
import json
import sys
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from _report import ROOT, arguments, table, write_json
from adadim.study.store import encoded

MEASURED = ROOT / "docs" / "measured" / "cpu-cluster.json"
WORKERS = (10, 100, 1_000, 4_000)
SECONDS = (0.1, 1.0, 10.0, 60.0)
SENT_PER_WORKER = 2  # blocks with the cluster at a time
BLOCKS_PER_WORKER = 20  # of a run
WANTED = 0.95


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes that a block costs besides computing it.

    Attributes
    ----------
    scheduler, client, worker : float
        Seconds of each.
    result : float
        Bytes that come back.
    bandwidth : float
        Bytes per second of the scheduler's link, which results cross twice.
    spread : float
        Standard deviation of the time of a block, divided by its mean.
    """

    scheduler: float
    client: float
    worker: float
    result: float
    bandwidth: float
    spread: float

    @property
    def most_blocks_per_second(self) -> float:
        """What the slower of scheduler and client lets through."""
        return 1 / max(self.scheduler + self.transfer, self.client)

    @property
    def transfer(self) -> float:
        """Seconds that a result occupies the scheduler's link."""
        return 2 * self.result / self.bandwidth


class Server:
    """Something that does one thing at a time, in order of arrival."""

    def __init__(self) -> None:
        self.free = self.busy = 0.0

    def serve(self, arrival: float, seconds: float) -> float:
        """When it is done with what arrives."""
        self.free = max(self.free, arrival) + seconds
        self.busy += seconds
        return self.free


def simulate(workers: int, seconds: float, costs: Costs, count: int, seed: int = 0) -> dict[str, Any]:
    """A run of `count` blocks that take so many seconds on average."""
    sigma = np.sqrt(np.log1p(costs.spread**2))
    times = np.random.default_rng(seed).lognormal(np.log(seconds) - sigma**2 / 2, sigma, count).tolist()
    client, scheduler = Server(), Server()
    window, order = SENT_PER_WORKER * workers, itertools.count()
    events: list[tuple[float, int, str]] = []
    todo, queued, idle, flying, back = deque(times), deque[float](), workers, 0, 0
    arrivals: deque[float] = deque()

    def at(time: float, what: str) -> None:
        heapq.heappush(events, (time, next(order), what))

    def refill(now: float) -> None:
        nonlocal flying
        if todo and window - flying >= max(1, window // 4):
            for _ in range(min(window - flying, len(todo))):
                arrivals.append(todo.popleft())
                flying += 1
                at(client.serve(now, costs.client / 2), "arrives")

    now, marks = 0.0, list[float]()
    first, last = count // 4, 3 * count // 4
    refill(now)
    while events:
        now, _, what = heapq.heappop(events)
        if what == "arrives":
            scheduled = scheduler.serve(now, costs.scheduler / 2)
            queued.append(arrivals.popleft())
            if idle:
                idle -= 1
                at(scheduled + costs.worker + queued.popleft(), "computed")
        elif what == "computed":
            scheduled = scheduler.serve(now, costs.scheduler / 2 + costs.transfer)
            if queued:
                at(scheduled + costs.worker + queued.popleft(), "computed")
            else:
                idle += 1
            at(scheduled, "returns")
        else:
            flying -= 1
            back += 1
            if back in (first, last):
                marks.append(now)
            refill(client.serve(now, costs.client / 2))
    ended = max(now, client.free)
    assert back == count
    return {
        "workers": workers,
        "seconds": seconds,
        "blocks": count,
        "efficiency": sum(times) / workers / ended,
        "steady": (last - first) * sum(times) / count / workers / (marks[1] - marks[0]),
        "scheduler_busy": scheduler.busy / ended,
        "client_busy": client.busy / ended,
        "blocks_per_second": count / ended,
    }


def shortest(workers: int, costs: Costs) -> float:
    """Seconds that blocks must take for a steady efficiency of 95%, within 5% of that."""
    low, high = 1e-3, 1e3
    while high / low > 1.05:
        middle = float(np.sqrt(low * high))
        steady = simulate(workers, middle, costs, max(4_000, BLOCKS_PER_WORKER * workers))["steady"]
        low, high = (low, middle) if steady >= WANTED else (middle, high)
    return high


def result_bytes(replications: int = 25, points: int = 100) -> float:
    """Size of the file of a block of so many replications and record points."""
    regret = np.random.default_rng(0).exponential(1.0, (replications, points)).cumsum(axis=1)
    times = list(range(25, 25 * points + 1, 25))
    identity = {"instance": {"kind": "sphere", "params": {}}, "policy": {}, "seed": 0, "times": times, "format": 2}
    cell = SimpleNamespace(identity=identity, times=times)
    unit: Any = SimpleNamespace(id="0" * 20 + "-000000-000025", cell=cell, span=(0, replications))
    return float(len(encoded(unit, regret)))


def measured_costs(file: Path) -> dict[str, float]:
    """What a report of benchmarks/cluster.py says about a block."""
    row = json.loads(file.read_text(encoding="utf-8"))["overhead"]["rows"][-1]
    return {
        "scheduler": row["scheduler_ms"],
        "client": row["client_ms"],
        "worker": row["worker_ms"],
        "messages": row["messages"],
    }


def show(report: dict[str, Any]) -> None:
    costs, most = report["costs"], report["most_blocks_per_second"]
    print(f"scheduler {1e3 * costs['scheduler']:.2f} ms, client {1e3 * costs['client']:.2f} ms per block,")
    print(f"{costs['result']:,.0f} bytes back over a link of {costs['bandwidth'] / 1e6:.0f} MB/s:", end=" ")
    print(f"at most {most:.0f} blocks/s\n")
    keys = ("efficiency", "steady", "scheduler_busy", "client_busy")
    rows = [
        [
            str(row["workers"]),
            f"{row['seconds']:g}",
            *(f"{row[key]:.0%}" for key in keys),
            f"{row['blocks_per_second']:.0f}",
        ]
        for row in report["rows"]
    ]
    print(table(["workers", "s per block", "efficiency", "steady", "scheduler", "client", "blocks/s"], rows))
    for row in report["shortest"]:
        n, s = row["workers"], row["seconds"]
        print(
            f"\n{n} workers: blocks of {s:.2g} s or more for {WANTED:.0%}; then {n / s:.0f} blocks/s, "
            f"{row['messages_per_second']:.0f} messages/s, {row['bytes_per_second'] / 1e6:.2f} MB/s back",
            end="",
        )
    print()


def main() -> int:
    parser = arguments("scheduler_model", __doc__, "few workers")
    parser.add_argument("--measured", type=Path, default=MEASURED, help="a report of benchmarks/cluster.py overhead")
    parser.add_argument("--scheduler-ms", type=float, help="CPU milliseconds of the scheduler per block")
    parser.add_argument("--client-ms", type=float, help="milliseconds of the client per block")
    parser.add_argument("--worker-ms", type=float, help="CPU milliseconds of a worker besides computing")
    parser.add_argument(
        "--bandwidth", type=float, default=125e6, help="bytes/s of the scheduler's link (default 1 Gbit/s)"
    )
    parser.add_argument("--spread", type=float, default=0.3, help="of the time of a block (default 0.3)")
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    parser.add_argument("--seconds", type=float, nargs="*", default=SECONDS, help="lengths of blocks")
    options = parser.parse_args()
    measured = measured_costs(options.measured)
    costs = Costs(
        scheduler=(options.scheduler_ms or measured["scheduler"]) / 1e3,
        client=(options.client_ms or measured["client"]) / 1e3,
        worker=(options.worker_ms or measured["worker"]) / 1e3,
        result=result_bytes(),
        bandwidth=options.bandwidth,
        spread=options.spread,
    )
    workers = (2, 20) if options.quick else options.workers
    rows = [simulate(n, s, costs, BLOCKS_PER_WORKER * n) for n in workers for s in options.seconds]
    needed = []
    for n in workers:
        s = shortest(n, costs)
        per_second = {"messages_per_second": measured["messages"] * n / s, "bytes_per_second": costs.result * n / s}
        needed.append({"workers": n, "seconds": s, **per_second})
    report = {
        "benchmark": "scheduler_model",
        "costs": asdict(costs),
        "most_blocks_per_second": costs.most_blocks_per_second,
        "rows": rows,
        "shortest": needed,
    }
    write_json(options.out, report)
    show(report)
    print(f"\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
