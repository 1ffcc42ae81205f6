"""Core-seconds per replication of the paper's six policies at the paper's size, beside their textbook versions.

One thread, everything in one run, both variants (`adadim.paper.policies`: as the paper's text has them, and as its
released code has them). Times are processor time, so waiting for a busy machine does not count.

adadim    Whole calls of `adadim.simulate` on batches of replications in lock step, several repeats on the same
          replications: the best repeat is given, and the ratios to textbook are those of the median repeat. Instances
          are timed apart.
textbook  Whole runs of one replication (`textbook.py`: V^-1 by Sherman-Morrison, all arms rescored at each step; 45
          seconds for LinUCB alone), once each.

Both meet the same arms and noise. Where a policy draws nothing at random they must pull the same arms: in all rounds
of LinUCB, and in the first iteration of LinUCB++ with and without Corral. The regrets of the others are shown side by
side; that they have the same law is what `tests/test_agreement.py` tests.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from statistics import median
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np
from threadpoolctl import threadpool_limits

import adadim
import textbook
from _report import arguments, describe, load, machine, table, write_json
from adadim import paper, theory

FULL: dict[str, Any] = {"arms": 1200, "dim": 600, "intrinsic_dim": 12, "horizon": 2500}
QUICK: dict[str, Any] = {"arms": 40, "dim": 24, "intrinsic_dim": 3, "horizon": 60}
AT_MOST, AT_LEAST = 0.5, 100  # core-seconds of the six, and times faster than their textbook versions
TOLERANCE = 1e-9


def time_policies(size: dict[str, Any], replications: int, batch: int, repeats: int) -> tuple[float, list[Any]]:
    """Core-seconds per replication of making an instance, and of every policy of both variants."""
    blocks = [range(start, min(start + batch, replications)) for start in range(0, replications, batch)]
    begun = time.process_time()
    instances = [adadim.instances.sphere(**size, replications=block) for block in blocks]
    making = (time.process_time() - begun) / replications
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for _ in range(repeats):
        for variant in paper.VARIANTS:
            for name, policy in paper.policies(variant, intrinsic_dim=size["intrinsic_dim"]).items():
                begun = time.process_time()
                final = np.concatenate([adadim.simulate(policy, instance, record=1).final for instance in instances])
                seconds = (time.process_time() - begun) / replications
                row = rows.setdefault((variant, name), {"variant": variant, "policy": name, "repeats": []})
                row["repeats"].append(seconds)
                row.update(regret_mean=float(final.mean()), regret_std=float(final.std(ddof=1)))
    for row in rows.values():
        row.update(core_seconds=min(row["repeats"]), core_seconds_median=median(row["repeats"]))
    return making, list(rows.values())


def time_textbook(size: dict[str, Any], variant: Any, name: str) -> dict[str, Any]:
    """Core-seconds of the textbook version on replication 0, and in how many rounds it does as the library does."""
    instance = adadim.instances.sphere(**size)
    begun = time.process_time()
    plain = textbook.run(textbook.learner(name, variant, instance, size["intrinsic_dim"]), instance)
    seconds = time.process_time() - begun
    row: dict[str, Any] = {"textbook_core_seconds": seconds, "textbook_regret": float(plain[-1])}
    horizon = size["horizon"]
    policy: Any = paper.policies(variant, intrinsic_dim=size["intrinsic_dim"])[name]
    first = theory.schedule(horizon, 0.5, size["dim"]).iterations[0].stop
    rounds = {"linucb": horizon, "oracle": horizon, "linucb++": first, "linucb++corral": first}.get(name, 0)
    if rounds:
        policy = replace(policy, ties="lowest")
    library_regret = adadim.simulate(policy, instance, record=horizon).regret[0]
    apart = np.flatnonzero(np.abs(library_regret - plain) > TOLERANCE * np.maximum(1.0, plain))
    row |= {"rounds_alike": int(apart[0]) if len(apart) else horizon, "rounds_alike_needed": rounds}
    return row | {"regret_there": float(library_regret[-1])}


def measure(size: dict[str, Any], replications: int, batch: int, repeats: int, plain: bool) -> dict[str, Any]:
    """Everything, in one run."""
    with threadpool_limits(1):
        before = load()
        making, rows = time_policies(size, replications, batch, repeats)
        if plain:
            for row in rows:
                row.update(time_textbook(size, row["variant"], row["policy"]))
                row["textbook_over_this"] = row["textbook_core_seconds"] / row["core_seconds_median"]
        described = machine()
    described["load"] = {"before": before, "after": load()}
    sums = {}
    for variant in paper.VARIANTS:
        mine = [row for row in rows if row["variant"] == variant]
        total = {key: sum(row[key] for row in mine) for key in ("core_seconds", "core_seconds_median")}
        if plain:
            total["textbook_core_seconds"] = sum(row["textbook_core_seconds"] for row in mine)
            total["textbook_over_this"] = total["textbook_core_seconds"] / total["core_seconds_median"]
        sums[variant] = total
    return {
        "benchmark": "policies",
        "machine": described,
        "setting": {**size, "replications": replications, "batch": batch, "repeats": repeats},
        "instance_core_seconds": making,
        "rows": rows,
        "sums": sums,
        "targets": {"core_seconds_at_most": AT_MOST, "textbook_over_this_at_least": AT_LEAST},
    }


def show(report: dict[str, Any], full: bool) -> None:
    """Print the report."""
    setting = report["setting"]
    print(describe(report["machine"]))
    print(", ".join(f"{key} {value}" for key, value in setting.items()), end="")
    print(f"; making an instance: {report['instance_core_seconds']:.4f} core-seconds\n")

    def cells(row: dict[str, Any]) -> list[str]:
        seconds = [f"{row['core_seconds']:.4f}", f"{row['core_seconds_median']:.4f}"]
        if "textbook_over_this" not in row:
            return [*seconds, "-", "-"]
        return [*seconds, f"{row['textbook_core_seconds']:.2f}", f"{row['textbook_over_this']:.0f}"]

    lines = []
    for row in report["rows"]:
        regrets = [f"{row['regret_mean']:.1f}", f"{row['regret_std']:.1f}"]
        if "textbook_regret" in row:
            alike = f"{row['rounds_alike']} of {setting['horizon']}" if row["rounds_alike_needed"] else "random"
            regrets += [f"{row['regret_there']:.1f}", f"{row['textbook_regret']:.1f}", alike]
        else:
            regrets += ["-"] * 3
        lines.append([row["policy"], row["variant"], *cells(row), *regrets])
    for variant, total in report["sums"].items():
        lines.append(["sum of the six", variant, *cells(total), *[""] * 5])
    headers = ["policy", "variant", "best", "median", "textbook", "textbook/median"]
    print(table([*headers, "mean regret", "std", "in replication 0", "textbook's", "rounds alike"], lines))
    print("\nbest, median and textbook: core-seconds per replication")
    if full:
        for variant, total in report["sums"].items():
            verdict = "met" if total["core_seconds"] <= AT_MOST else "MISSED"
            print(f"{variant}: {total['core_seconds']:.3f} core-seconds for the six (at most {AT_MOST}): {verdict}")
            if "textbook_over_this" in total:
                verdict = "met" if total["textbook_over_this"] >= AT_LEAST else "MISSED"
                print(f"{variant}: {total['textbook_over_this']:.0f} times textbook (at least {AT_LEAST}): {verdict}")


def main() -> int:
    parser = arguments("policies", __doc__, "a tiny problem")
    parser.add_argument("--replications", type=int, default=25, help="replications of each policy (default 25)")
    parser.add_argument("--batch", type=int, default=25, help="of them in lock step (default 25, as in studies)")
    parser.add_argument("--repeats", type=int, default=3, help="times that everything but textbook is run (default 3)")
    parser.add_argument("--no-textbook", action="store_true", help="leave out the two minutes of textbook")
    options = parser.parse_args()
    size, replications = (QUICK, 4) if options.quick else (FULL, options.replications)
    report = measure(size, replications, options.batch, options.repeats, not options.no_textbook)
    write_json(options.out, report)
    show(report, full=not options.quick)
    print(f"\nwrote {options.out}")
    wrong = [row for row in report["rows"] if row.get("rounds_alike", 0) < row.get("rounds_alike_needed", 0)]
    for row in wrong:
        where = f"{row['variant']} {row['policy']}"
        print(f"error: {where} leaves its textbook version in round {row['rounds_alike'] + 1}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
