"""Two versions of adadim side by side: core-seconds per replication of the paper's policies, and their ratio.

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before/src src
    python benchmarks/versions.py ../before/src src --ask   # milliseconds of an agent's ask that follows a reward

The two play in turns, so that a machine whose speed changes changes both, and each turn is a process of its own, since
where its memory happens to lie makes one process up to a tenth faster than the next. The median of the ratios of
neighbouring turns is given. K = 1200, d = 600, d* = 12, T = 2500, 25 replications in lock step, one thread, processor
time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _report import arguments, describe, load, machine, table, write_json

POLICIES = ("linucb", "oracle", "linucb++", "linucb++corral", "smooth-corral", "dynamic-balancing")
SIZE = {"arms": 1200, "dim": 600, "intrinsic_dim": 12, "horizon": 2500, "noise": 0.1}
ASKED = {
    "LinUCB": "adadim.LinUCB()",
    "EvidenceLinUCB": "adadim.EvidenceLinUCB()",
    "LinTS": "adadim.LinTS()",
    "the default": "None",
}
QUICK = {"arms": 30, "dim": 20, "intrinsic_dim": 4, "horizon": 60, "noise": 0.1}

PLAYER = """
import json, sys, time
import adadim
from adadim import paper
from threadpoolctl import threadpool_limits

size, quick, names = (json.loads(part) for part in sys.argv[1:4])
count = int(sys.argv[4])
policies = paper.policies("theory", size["intrinsic_dim"])
times = {}
with threadpool_limits(1):
    for name in names:
        adadim.simulate(policies[name], adadim.instances.sphere(**quick, seed=0))  # what only the first run pays
        instance = adadim.instances.sphere(**size, replications=range(count), seed=0)
        begun = time.process_time()
        adadim.simulate(policies[name], instance)
        times[name] = (time.process_time() - begun) / count
print(json.dumps(times))
"""

ASKER = """
import json, pathlib, statistics, sys, tempfile, time
import adadim, numpy as np

dim, policy, count = int(sys.argv[1]), eval(sys.argv[2]), int(sys.argv[3])
rng, seconds = np.random.default_rng(0), []
with tempfile.TemporaryDirectory() as folder:
    agent = adadim.Agent.create(pathlib.Path(folder, "a.db"), dim=dim, policy=policy, noise=1.0)
    for rows in rng.normal(size=(count, 30, dim)) / np.sqrt(dim):
        arms = {f"arm {k}": row for k, row in enumerate(rows)}
        begun = time.perf_counter()
        decision = agent.ask(arms)
        seconds.append(time.perf_counter() - begun)
        agent.tell(decision.id, reward=float(rng.normal()))
    agent.close()
print(json.dumps(1e3 * statistics.median(seconds[count // 4 :])))
"""


def output(source: Path, script: str, *words: object) -> Any:
    """What a script prints last with the adadim of one folder, in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the adadim in {source} cannot run this benchmark: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])


def asks(sources: dict[str, Path], turns: int, count: int, dims: Sequence[int]) -> list[dict[str, Any]]:
    """Median milliseconds of an ask among 30 arms with new features, after a reward: the least of all turns."""
    rows = []
    for name, policy in ASKED.items():
        for dim in dims:
            played = [
                {version: output(sources[version], ASKER, dim, policy, count) for version in sources}
                for _ in range(turns)
            ]
            least = {version: min(turn[version] for turn in played) for version in sources}
            rows.append({"policy": f"{name}, {dim} features", **least, "ratio": least["after"] / least["before"]})
    return rows


def play(source: Path, size: dict[str, float], policies: Sequence[str], replications: int) -> dict[str, float]:
    """Core-seconds per replication of each policy with the adadim of one folder, in a process of its own."""
    return output(source, PLAYER, *(json.dumps(part) for part in (size, QUICK, policies)), replications)


def summary(policy: str, turns: list[dict[str, dict[str, float]]]) -> dict[str, object]:
    """Medians of both versions and of the ratio, and all turns."""
    times = {name: [turn[name][policy] for turn in turns] for name in ("before", "after")}
    ratios = [b / a for a, b in zip(times["before"], times["after"], strict=True)]
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {"policy": policy, **medians, "ratio": statistics.median(ratios), "turns": times}


def main() -> int:
    parser = arguments("versions", __doc__, "tiny instances and two turns")
    parser.add_argument("before", type=Path, help="the folder src of the earlier version")
    parser.add_argument("after", type=Path, help="that of the later one")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="one to play; by default all six")
    parser.add_argument("--turns", type=int, default=9, help="of each version (default 9)")
    parser.add_argument("--ask", action="store_true", help="time asks of an agent in a file instead")
    options = parser.parse_args()
    size, replications, turns = (QUICK, 2, 2) if options.quick else (SIZE, 25, options.turns)
    first = load()
    sources = {"before": options.before, "after": options.after}
    if options.ask:
        turns, count, dims = (1, 20, [20]) if options.quick else (turns, 400, [20, 67])
        rows = asks(sources, turns, count, dims)
        setting: dict[str, Any] = {"arms": 30, "turns": turns}
    else:
        policies = options.policy or POLICIES
        played = []
        for turn in range(turns):
            order = sorted(sources, reverse=bool(turn % 2))
            played.append({name: play(sources[name], size, policies, replications) for name in order})
        rows = [summary(policy, played) for policy in policies]
        setting = {**size, "replications": replications, "turns": turns}
    described = machine()
    described["load"] = {"before": first, "after": load()}
    write_json(options.out, {"benchmark": "versions", "machine": described, "setting": setting, "rows": rows})
    print(describe(described))
    lines = [[r["policy"], f"{r['before']:.4f}", f"{r['after']:.4f}", f"{r['ratio']:.3f}"] for r in rows]
    unit = "ms of an ask" if options.ask else "core-seconds per replication"
    print(table([unit, "before", "after", "after/before"], lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
