"""Two versions of adadim side by side: core-seconds per replication of the paper's policies, and their ratio.

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before/src src

Each version has a process of its own, and the two play the same policy in turns, so that a machine whose speed changes
changes both: the median of the ratios of neighbouring turns is given. K = 1200, d = 600, d* = 12, T = 2500, 25
replications in lock step, one thread, processor time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from _report import arguments, describe, load, machine, table, write_json

POLICIES = ("linucb", "oracle", "linucb++", "linucb++corral", "smooth-corral", "dynamic-balancing")
SIZE = {"arms": 1200, "dim": 600, "intrinsic_dim": 12, "horizon": 2500, "noise": 0.1}
QUICK = {"arms": 30, "dim": 20, "intrinsic_dim": 4, "horizon": 60, "noise": 0.1}

PLAYER = """
import json, sys, time
import adadim
from adadim import paper
from threadpoolctl import threadpool_limits

size, count = json.loads(sys.argv[1]), int(sys.argv[2])
instance = adadim.instances.sphere(**size, replications=range(count), seed=0)
policies = paper.policies("theory", size["intrinsic_dim"])
print("ready", flush=True)
with threadpool_limits(1):
    for line in sys.stdin:
        begun = time.process_time()
        adadim.simulate(policies[line.strip()], instance)
        print((time.process_time() - begun) / count, flush=True)
"""


class Version:
    """A process that plays with the adadim of one folder."""

    def __init__(self, source: Path, size: dict[str, float], replications: int) -> None:
        command = [sys.executable, "-c", PLAYER, json.dumps(size), str(replications)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(source.resolve())}, **pipes)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit(f"no adadim that can play the paper's policies in {source}")

    def play(self, policy: str) -> float:
        """Core-seconds per replication of one turn."""
        self.process.stdin.write(f"{policy}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


def measure(before: Version, after: Version, policy: str, turns: int) -> dict[str, object]:
    """Times of both in turns, after one turn each that does not count."""
    times = {"before": [], "after": []}
    versions = {"before": before, "after": after}
    for turn in range(turns + 1):
        for name in sorted(versions, reverse=bool(turn % 2)):
            spent = versions[name].play(policy)
            if turn:
                times[name].append(spent)
    ratios = [b / a for a, b in zip(times["before"], times["after"], strict=True)]
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {"policy": policy, **medians, "ratio": statistics.median(ratios), "turns": times}


def main() -> int:
    parser = arguments("versions", __doc__, "tiny instances and two turns")
    parser.add_argument("before", type=Path, help="the folder src of the earlier version")
    parser.add_argument("after", type=Path, help="that of the later one")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="one to play; by default all six")
    parser.add_argument("--turns", type=int, default=9, help="of each version (default 9)")
    options = parser.parse_args()
    size, replications, turns = (QUICK, 2, 2) if options.quick else (SIZE, 25, options.turns)
    first = load()
    before, after = (Version(source, size, replications) for source in (options.before, options.after))
    rows = [measure(before, after, policy, turns) for policy in options.policy or POLICIES]
    before.close()
    after.close()
    described = machine()
    described["load"] = {"before": first, "after": load()}
    setting = {**size, "replications": replications, "turns": turns}
    write_json(options.out, {"benchmark": "versions", "machine": described, "setting": setting, "rows": rows})
    print(describe(described))
    lines = [[r["policy"], f"{r['before']:.4f}", f"{r['after']:.4f}", f"{r['ratio']:.3f}"] for r in rows]
    print(table(["core-seconds per replication", "before", "after", "after/before"], lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
