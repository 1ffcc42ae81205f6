"""The same study on a Dask cluster: the same bytes, workers killed or not, and what the cluster costs per block.

    python benchmarks/cluster.py                  all parts: minutes
    python benchmarks/cluster.py bytes kills      fig2b with 100 trials, and again while workers are killed
    python benchmarks/cluster.py overhead         10,000 blocks with next to nothing in them

bytes      fig2b with joblib and on a LocalCluster of 2 workers, into results folders that must not differ
kills      the same on a LocalCluster whose workers are killed every few seconds; the store counts what is written
overhead   CPU seconds per block of scheduler, client and worker, messages and bytes, with 1 and 2 worker processes

CPU seconds are those of the processes themselves, so other work on the machine hardly changes them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from _clusters import killed_now_and_then, separate_cluster, spent
from _report import arguments, describe, load, machine, table, write_json
from adadim import paper
from adadim.study import Study, run
from adadim.study.cluster import connected
from adadim.study.store import Store
from figures import shrunk

PARTS = ("bytes", "kills", "overhead")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a results folder."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def tiny(trials: int) -> Study:
    """A study of blocks with next to nothing in them."""
    instance = {"kind": "sphere", "arms": 2, "dim": 2, "intrinsic_dim": 1, "horizon": 1}
    return Study("tiny", {"smallest": instance}, {"random": {"kind": "Random"}}, trials=trials, record=[1])


class CountedStore:
    """How often each block was written, counted where the store writes."""

    def __enter__(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        self.real = Store.write

        def counted(store: Store, unit: Any, data: bytes) -> None:
            counts[unit.id] += 1
            self.real(store, unit, data)

        Store.write = counted  # type: ignore[method-assign]
        return counts

    def __exit__(self, *_: object) -> None:
        Store.write = self.real  # type: ignore[method-assign]


def same_bytes(study: Study, folder: Path, batch: int | None) -> dict[str, Any]:
    """One machine, then a cluster."""
    begun = time.perf_counter()
    run(study, folder / "joblib", jobs=2, batch=batch)
    middle = time.perf_counter()
    with connected("local:2") as client:
        run(study, folder / "dask", batch=batch, cluster=client)
    ended = time.perf_counter()
    by_joblib, by_cluster = contents(folder / "joblib"), contents(folder / "dask")
    return {
        "figure": study.name,
        "blocks": len(by_joblib) - 1,
        "bytes": sum(map(len, by_joblib.values())),
        "same_bytes": by_joblib == by_cluster,
        "joblib_seconds": middle - begun,
        "cluster_seconds": ended - middle,
    }


def with_kills(study: Study, folder: Path, batch: int, every: float, least: int) -> dict[str, Any]:
    """A cluster whose workers die, until at least so many have died: more trials are asked for as long as it takes."""
    seconds, rounds, trials = 0.0, 0, study.trials
    with (
        CountedStore() as counts,
        connected("local:2") as client,
        killed_now_and_then(client.cluster, every, counts) as killed,
    ):
        while rounds == 0 or len(killed) < least:
            rounds += 1
            study = Study.from_dict({**study.to_dict(), "trials": rounds * trials})
            begun = time.perf_counter()
            run(study, folder / "killed", batch=batch, cluster=client)
            seconds += time.perf_counter() - begun
        kills = len(killed)
    run(study, folder / "whole", jobs=2, batch=batch)
    expected, with_killed_workers = contents(folder / "whole"), contents(folder / "killed")
    units = len(expected) - 1
    return {
        "figure": study.name,
        "trials": study.trials,
        "blocks": units,
        "kills": kills,
        "seconds_between_kills": every,
        "same_bytes": expected == with_killed_workers,
        "blocks_written_once": sum(count == 1 for count in counts.values()),
        "blocks_written_more_than_once": sum(count > 1 for count in counts.values()),
        "seconds": seconds,
    }


def overhead(blocks: int, workers: int, folder: Path) -> dict[str, Any]:
    """What a block costs beyond itself."""
    study = tiny(blocks)
    with separate_cluster(workers) as client:
        run(tiny(50), folder / "warm", batch=1, cluster=client)
        before, begun = spent(client), time.perf_counter()
        run(study, folder / "tiny", batch=1, cluster=client)
        wall, after = time.perf_counter() - begun, spent(client)
    used = {key: (after[key] - before[key]) / blocks for key in before if key != "scheduler_rss"}
    size = sum(path.stat().st_size for path in (folder / "tiny" / "blocks").glob("*.parquet")) / blocks
    return {
        "workers": workers,
        "blocks": blocks,
        "blocks_per_second": blocks / wall,
        "scheduler_ms": 1e3 * used["scheduler_cpu"],
        "client_ms": 1e3 * used["client_cpu"],
        "worker_ms": 1e3 * used["worker_cpu"],
        "messages": used["messages"],
        "bytes_out": used["bytes_from_scheduler"],
        "bytes_in": used["bytes_to_scheduler"],
        "block_bytes": size,
        "scheduler_mib": after["scheduler_rss"] / 2**20,
    }


def alone(blocks: int, folder: Path) -> dict[str, Any]:
    """The same blocks in one process, without a cluster."""
    run(tiny(50), folder / "warm", jobs=1, batch=1)
    begun, cpu = time.perf_counter(), time.process_time()
    run(tiny(blocks), folder / "alone", jobs=1, batch=1)
    return {
        "blocks": blocks,
        "process_ms": 1e3 * (time.process_time() - cpu) / blocks,
        "blocks_per_second": blocks / (time.perf_counter() - begun),
    }


def measure(parts: list[str], trials: int, blocks: int, every: float, kills: int, quick: bool) -> dict[str, Any]:
    before = load()
    report: dict[str, Any] = {"benchmark": "cluster"}
    study = paper.study("fig2b", "released", trials=trials)
    study = shrunk(study) if quick else study
    for part in parts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if part == "bytes":
                report[part] = same_bytes(study, folder, None)
            elif part == "kills":
                report[part] = with_kills(study, folder, 2 if quick else 5, every, kills)
            else:
                fewer = max(100, blocks // 5)  # enough for a mean: only the last row has all
                rows = [overhead(count, workers, folder / str(workers)) for count, workers in ((fewer, 1), (blocks, 2))]
                report[part] = {"rows": rows, "alone": alone(fewer, folder)}
    report["machine"] = machine(("adadim", "numpy", "scipy", "distributed", "dask"))
    report["machine"]["load"] = {"before": before, "after": load()}
    report["setting"] = {"trials": trials, "blocks": blocks, "quick": quick}
    return report


def show(report: dict[str, Any]) -> None:
    print(describe(report["machine"]))
    if part := report.get("bytes"):
        verdict = "the same bytes" if part["same_bytes"] else "OTHER BYTES"
        print(f"\n{part['figure']}, {part['blocks']} blocks, {part['bytes']:,} bytes: {verdict} as with joblib")
        print(
            f"joblib {part['joblib_seconds']:.1f} s, LocalCluster of 2 {part['cluster_seconds']:.1f} s with its start"
        )
    if part := report.get("kills"):
        verdict = "the same bytes" if part["same_bytes"] else "OTHER BYTES"
        print(f"\n{part['figure']}, {part['trials']} trials, {part['blocks']} blocks, {part['kills']} kills, one")
        print(
            f"every {part['seconds_between_kills']:g} s: {verdict}; written once: {part['blocks_written_once']}, more"
        )
        print(f"than once: {part['blocks_written_more_than_once']}")
    if part := report.get("overhead"):
        keys = ("scheduler_ms", "client_ms", "worker_ms", "messages", "bytes_out", "bytes_in", "block_bytes")
        rows = [
            [
                str(row["workers"]),
                str(row["blocks"]),
                f"{row['blocks_per_second']:.0f}",
                *(f"{row[key]:.3g}" for key in keys),
            ]
            for row in part["rows"]
        ]
        print("\ntiny blocks; CPU ms, messages and bytes per block")
        print(table(["workers", "blocks", "blocks/s", *(key.replace("_", " ") for key in keys)], rows))
        print(f"in one process without a cluster: {part['alone']['process_ms']:.3g} ms")


def main() -> int:
    parser = arguments("cluster", __doc__, "tiny instances, 4 trials, 200 blocks, 2 kills")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default all")
    parser.add_argument("--trials", type=int, default=100, help="replications of fig2b (default 100)")
    parser.add_argument("--blocks", type=int, default=10_000, help="tiny blocks (default 10000)")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between kills (default 3)")
    parser.add_argument("--kills", type=int, default=20, help="workers to kill at least (default 20)")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"no part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    if options.quick:
        options.trials, options.blocks, options.kills, options.every = 4, 200, 2, 1.0
    parts = options.parts or list(PARTS)
    report = measure(parts, options.trials, options.blocks, options.every, options.kills, options.quick)
    write_json(options.out, report)
    show(report)
    print(f"\nwrote {options.out}")
    fine = all(report[part]["same_bytes"] for part in ("bytes", "kills") if part in report)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
