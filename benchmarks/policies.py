"""Core-seconds per replication of the paper's six policies at the paper's size, and their sum.

One thread, batches of 8 replications in lock step, whole calls of `adadim.simulate`; instances are timed apart.
Times are those for which the process had a processor.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np

import adadim
from _report import ROOT, describe, machine, table, write_json
from adadim import paper

FULL = {"arms": 1200, "dim": 600, "intrinsic_dim": 12, "horizon": 2500}
QUICK = {"arms": 40, "dim": 24, "intrinsic_dim": 3, "horizon": 60}


def measure(size: dict[str, int], replications: int, batch: int) -> dict[str, Any]:
    """Time every policy of both variants on the same replications."""
    blocks = [range(start, min(start + batch, replications)) for start in range(0, replications, batch)]
    begun = time.process_time()
    instances = [adadim.instances.sphere(**size, replications=block) for block in blocks]
    making = (time.process_time() - begun) / replications
    rows = []
    for variant in paper.VARIANTS:
        for name, policy in paper.policies(variant, intrinsic_dim=size["intrinsic_dim"]).items():
            begun = time.process_time()
            final = np.concatenate([adadim.simulate(policy, instance, record=1).final for instance in instances])
            seconds = (time.process_time() - begun) / replications
            rows.append(
                {
                    "variant": variant,
                    "policy": name,
                    "core_seconds": seconds,
                    "regret_mean": float(final.mean()),
                    "regret_std": float(final.std(ddof=1)),
                }
            )
    sums = {v: sum(row["core_seconds"] for row in rows if row["variant"] == v) for v in paper.VARIANTS}
    return {"instance_core_seconds": making, "rows": rows, "sums": sums}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny problem, to see that it runs")
    parser.add_argument("--replications", type=int, default=32)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "bench" / "policies.json")
    options = parser.parse_args()
    size, replications = (QUICK, 4) if options.quick else (FULL, options.replications)
    report = {
        "setting": {**size, "replications": replications, "batch": 8},
        "machine": machine(),
        **measure(size, replications, 8),
    }
    rows = [
        [
            row["policy"],
            row["variant"],
            f"{row['core_seconds']:.4f}",
            f"{row['regret_mean']:.1f}",
            f"{row['regret_std']:.1f}",
        ]
        for row in report["rows"]
    ]
    rows += [["sum of the six", variant, f"{seconds:.4f}", "", ""] for variant, seconds in report["sums"].items()]
    print(describe(report["machine"]))
    print(f"{report['setting']}; making an instance: {report['instance_core_seconds']:.4f} core-seconds\n")
    print(table(["policy", "variant", "core-seconds per replication", "mean regret", "std"], rows))
    write_json(options.out, report)
    print(f"\nwrote {options.out}")


if __name__ == "__main__":
    main()
