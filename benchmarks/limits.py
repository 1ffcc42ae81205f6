"""What one decision costs at the far end: thousands of features, a million arms; and what is said where it ends.

    python benchmarks/limits.py
    python benchmarks/limits.py --quick

Every row is a process of its own with at most `--gib` of memory, on one thread. A learner plays a few rounds of an
instance with `adadim.simulate`; an agent in a file is asked and told as many times. The first decision makes what the
later ones use, so that it is given by itself; of the later ones the median and the longest, since a learned prior is
updated after 1, 2, 4, 8, ... rewards. Times are processor time. Where a row ends with an error, its text is the row.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np

import adadim
from _report import arguments, describe, load, machine, resident, table, write_json

ROUNDS = 16
ARMS = 20
CASES: tuple[tuple[str, str, int, int], ...] = (
    # who decides, on what, features, arms
    ("LinUCB()", "features that come with each round", 1000, ARMS),
    ("recommended", "features that come with each round", 1000, ARMS),
    ("LinUCB()", "features that come with each round", 5000, ARMS),
    ("recommended", "features that come with each round", 5000, ARMS),
    ("agent", "features that come with each round", 1000, ARMS),
    ("agent", "features that come with each round", 5000, ARMS),
    ("agent", "features that come with each round", 100_000, ARMS),
    ("LinUCB()", "arms that stay", 64, 1_000_000),
    ("LinUCBPlusPlus()", "arms that stay", 64, 1_000_000),
    ("recommended", "arms that stay", 64, 100_000),
    ("recommended", "arms that stay", 64, 1_000_000),
    ("agent", "a catalogue of arms", 20, 10_000),
    ("agent", "a catalogue of arms", 20, 100_000),
)


def decide(who: str, on: str, dim: int, arms: int, rounds: int) -> list[float]:
    """Seconds of processor time of each decision, its reward learned."""
    if who == "agent":
        return ask(on, dim, arms, rounds)
    size: dict[str, Any] = {"arms": arms, "dim": dim, "intrinsic_dim": min(8, dim), "horizon": rounds}
    drawn = adadim.instances.sphere if on == "arms that stay" else adadim.instances.contexts
    instance = drawn(**size) if on == "arms that stay" else drawn(distribution="repeated", **size)
    policies = {"LinUCB()": adadim.LinUCB(), "LinUCBPlusPlus()": adadim.LinUCBPlusPlus()}
    policy = policies.get(who) or adadim.recommended(instance.problem)
    marks = [time.process_time()]
    adadim.simulate(policy, instance, record=rounds, progress=lambda done, of: marks.append(time.process_time()))
    return np.diff(marks).tolist()


def ask(on: str, dim: int, arms: int, rounds: int) -> list[float]:
    """The same of an agent in a file."""
    rng, names, times = np.random.default_rng(0), [f"arm {k}" for k in range(arms)], []
    features = rng.standard_normal((arms, dim)) / np.sqrt(dim)
    with (
        tempfile.TemporaryDirectory() as folder,
        adadim.Agent.create(Path(folder) / "a.db", dim=dim, arms=arms) as agent,
    ):
        if on == "a catalogue of arms":
            agent.set_arms(dict(zip(names, features, strict=True)))
        for _ in range(rounds):
            features = rng.standard_normal((arms, dim)) / np.sqrt(dim) if on != "a catalogue of arms" else features
            begun = time.process_time()
            offered = None if on == "a catalogue of arms" else dict(zip(names, features, strict=True))
            decision = agent.ask(offered)
            agent.tell(decision.id, float(rng.standard_normal()))
            times.append(time.process_time() - begun)
    return times


def case(who: str, on: str, dim: int, arms: int, rounds: int, gib: float) -> dict[str, Any]:
    """One row, in this process."""
    limit = int(gib * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        times = decide(who, on, dim, arms, rounds)
    except (adadim.AdadimError, MemoryError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    later = times[1:]
    return {"first": times[0], "median": median(later), "longest": max(later), "peak_bytes": resident()[1]}


def measure(cases: tuple[tuple[str, str, int, int], ...], rounds: int, gib: float) -> dict[str, Any]:
    """Every row, in a process of its own."""
    before, rows = load(), []
    for one in cases:
        given = json.dumps([*one, rounds, gib])
        done = subprocess.run([sys.executable, __file__, "--case", given], capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
            result: dict[str, Any] = {"error": last}
        else:
            result = json.loads(done.stdout.splitlines()[-1])
        rows.append({"who": one[0], "on": one[1], "dim": one[2], "arms": one[3], **result})
    described = machine()
    described["load"] = {"before": before, "after": load()}
    return {"benchmark": "limits", "machine": described, "rounds": rounds, "gib": gib, "rows": rows}


def show(report: dict[str, Any]) -> None:
    """Print the report."""
    print(describe(report["machine"]))
    print(f"{report['rounds']} decisions with their rewards, at most {report['gib']} GiB of memory\n")
    lines = []
    for row in report["rows"]:
        start = [row["who"], row["on"], f"{row['dim']:,}", f"{row['arms']:,}"]
        if "error" in row:
            lines.append([*start, "(below)", "", "", ""])
        else:
            times = [f"{1e3 * row[key]:,.1f}" for key in ("first", "median", "longest")]
            lines.append([*start, *times, f"{row['peak_bytes'] / 1e9:.2f}"])
    print(table(["who", "on", "d", "K", "first (ms)", "median", "longest", "GB"], lines))
    for row in report["rows"]:
        if "error" in row:
            print(f"\n{row['who']}, d = {row['dim']:,}, K = {row['arms']:,}: {row['error']}")


def main() -> int:
    parser = arguments("limits", __doc__, "two small cases")
    parser.add_argument("--gib", type=float, default=8.0, help="memory that a row may take (default 8)")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(case(*options.case)))
        return 0
    cases, rounds = CASES, ROUNDS
    if options.quick:
        cases, rounds = (("agent", "a catalogue of arms", 3, 5), ("LinUCB()", "arms that stay", 3, 50)), 3
    report = measure(cases, rounds, options.gib)
    write_json(options.out, report)
    show(report)
    print(f"\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
