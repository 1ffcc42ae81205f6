"""Two versions of adadim side by side: core-seconds per replication of the paper's policies, and their ratio.

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before/src src
    python benchmarks/versions.py ../before/src src --ask   # milliseconds of an agent's asks and tells
    python benchmarks/versions.py ../before/src src --default   # the recommended policy, and LinTS
    python benchmarks/versions.py ../before/src src --http   # an agent's service on this machine

The two play in turns, so that a machine whose speed changes changes both, and each turn is a process of its own, since
where its memory happens to lie makes one process up to a tenth faster than the next. The median of the ratios of
neighbouring turns is given. K = 1200, d = 600, d* = 12, T = 2500, 25 replications in lock step, one thread, processor
time. Agents in two processes ask and tell one by one in turns, since a disk may be slow for seconds. The
services are asked, and asked and told, by 32 connections on a home page of 40 articles, a few seconds each in turns.
Agents and services have one prior for all levels and no memory, as those of version 0.3 had.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _report import arguments, describe, load, machine, table, write_json
from agent_http import SERVE, processor_seconds, started, with_connections

POLICIES = ("linucb", "oracle", "linucb++", "linucb++corral", "smooth-corral", "dynamic-balancing")
SIZE = {"arms": 1200, "dim": 600, "intrinsic_dim": 12, "horizon": 2500, "noise": 0.1}
ONE_LEVEL = "adadim.EvidenceLinUCB(taper=(0.0, 0.9, 1.75), intercept=True, doubt=3.0, probes=2)"
ASKED = {
    "LinUCB": "adadim.LinUCB()",
    "EvidenceLinUCB": "adadim.EvidenceLinUCB()",
    "LinTS": "adadim.LinTS()",
    "the default": ONE_LEVEL,
}
ON_FIXED_ARMS = [(30, 10, 2000, 1), (200, 50, 2000, 1), (600, 400, 1000, 4), (1200, 600, 1000, 4), (2000, 100, 1000, 4)]
WITH_LINTS = [(60, 10, 1000, 1), (80, 10, 500, 25), (200, 100, 500, 1), (200, 200, 200, 4)]
# Arms, features, rounds, replications.
DEFAULT_ON = {"fixed arms": ON_FIXED_ARMS, "contexts": [(30, 20, 1500, 1)], "LinTS, fixed arms": WITH_LINTS}
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

DEFAULT = f"""
import json, sys, time
import adadim
from threadpoolctl import threadpool_limits

made, arms, dim, horizon, count = json.loads(sys.argv[1])
instances = adadim.instances.contexts if made == "contexts" else adadim.instances.sphere
policy = adadim.LinTS() if "LinTS" in made else {ONE_LEVEL}
size = dict(arms=arms, dim=dim, intrinsic_dim=5, noise=0.1, replications=range(count))
times = []
with threadpool_limits(1):
    adadim.simulate(policy, instances(**size, horizon=100, seed=0))
    instance = instances(**size, horizon=horizon, seed=1)
    for _ in range(3):
        begun = time.process_time()
        adadim.simulate(policy, instance)
        times.append(time.process_time() - begun)
print(json.dumps(min(times) / count))
"""

SERVED = f"""
import inspect, json, sys
import adadim, numpy as np

path, rng = sys.argv[1], np.random.default_rng(3)
new = {{"memory": None}} if "memory" in inspect.signature(adadim.Agent.create).parameters else {{}}
features = adadim.Features(products=4, own=16)
with adadim.Agent.create(path, context=8, arm=24, features=features, policy={ONE_LEVEL}, **new) as agent:
    agent.set_arms({{f"article-{{k}}": row for k, row in enumerate(rng.standard_normal((40, 24)) / 24**0.5)}})
    decisions = agent.ask_many(rng.standard_normal((500, 8)) / 8**0.5)
    agent.tell_many({{one.id: float(rng.standard_normal()) for one in decisions}})
print("true")
"""

ASKER = """
import inspect, pathlib, sys, tempfile, time
import adadim, numpy as np

dim, policy = int(sys.argv[1]), eval(sys.argv[2])
rng = np.random.default_rng(0)
with tempfile.TemporaryDirectory() as folder:
    new = {"memory": None} if "memory" in inspect.signature(adadim.Agent.create).parameters else {}
    agent = adadim.Agent.create(pathlib.Path(folder, "a.db"), dim=dim, policy=policy, noise=1.0, **new)
    for _ in sys.stdin:  # a line is a wish for one decision
        arms = {f"arm {k}": row for k, row in enumerate(rng.normal(size=(30, dim)) / np.sqrt(dim))}
        reward = float(rng.normal())
        begun = time.process_time()
        decision = agent.ask(arms)
        asked = time.process_time()
        agent.tell(decision.id, reward=reward)
        print(1e3 * (asked - begun), 1e3 * (time.process_time() - asked), flush=True)
    agent.close()
"""


def output(source: Path, script: str, *words: object) -> Any:
    """What a script prints last with the adadim of one folder, in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, words)]
    done = subprocess.run(command, env=environment(source), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(explained(source, done.stderr))
    return json.loads(done.stdout.splitlines()[-1])


def environment(source: Path) -> dict[str, str]:
    """Variables by which a process imports the adadim of one folder."""
    return {**os.environ, "PYTHONPATH": str(source.resolve())}


def explained(source: Path, failure: str) -> str:
    """Why the adadim of a folder could not be measured, by what its process printed."""
    return f"the adadim in {source} cannot run this benchmark: {failure.strip()[-300:]}"


def asks(sources: dict[str, Path], turns: int, count: int, dims: Sequence[int]) -> list[dict[str, Any]]:
    """Milliseconds of processor time of an ask among 30 arms with new features, after a reward, and of a tell."""
    rows = []
    for name, policy in ASKED.items():
        for dim in dims:
            played = [decide_in_turns(sources, dim, policy, count) for _ in range(turns)]
            for at, call in enumerate(("ask", "tell")):
                times = {version: [turn[version][at] for turn in played] for version in sources}
                rows.append(summary(f"{name}, {dim} features, {call}", times))
    return rows


def decide_in_turns(sources: dict[str, Path], dim: int, policy: str, count: int) -> dict[str, list[float]]:
    """Median milliseconds of an ask and of a tell with the adadim of each folder, which decide in turns.

    A disk may be slow for seconds, which is then so for both.
    """
    processes = {
        version: subprocess.Popen(
            [sys.executable, "-c", ASKER, str(dim), policy],
            env=environment(source),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for version, source in sources.items()
    }
    times: dict[str, list[list[float]]] = {version: [] for version in sources}
    for turn in range(count):
        for version, process in sorted(processes.items(), reverse=bool(turn % 2)):
            assert process.stdin is not None
            assert process.stdout is not None
            print(file=process.stdin, flush=True)
            times[version].append([float(word) for word in process.stdout.readline().split()])
            if not times[version][-1]:
                raise SystemExit(explained(sources[version], process.communicate()[1]))
    for process in processes.values():
        process.communicate()
    later = {version: list(zip(*measured[count // 4 :], strict=True)) for version, measured in times.items()}
    return {version: [statistics.median(values) for values in calls] for version, calls in later.items()}


def play(source: Path, size: dict[str, float], policies: Sequence[str], replications: int) -> dict[str, float]:
    """Core-seconds per replication of each policy with the adadim of one folder, in a process of its own."""
    return output(source, PLAYER, *(json.dumps(part) for part in (size, QUICK, policies)), replications)


def defaults(sources: dict[str, Path], turns: int, sizes: dict[str, list[tuple[int, ...]]]) -> list[dict[str, Any]]:
    """Core-seconds per replication of the recommended policy and LinTS: the least of three, in each turn."""
    rows = []
    for made, each in sizes.items():
        for size in each:
            times: dict[str, list[float]] = {name: [] for name in sources}
            for turn in range(turns):
                for name in sorted(sources, reverse=bool(turn % 2)):
                    times[name].append(output(sources[name], DEFAULT, json.dumps([made, *size])))
            rows.append(summary(f"{made}, {size[0]} x {size[1]}", times))
    return rows


def services(sources: dict[str, Path], turns: int, seconds: float, count: int) -> list[dict[str, Any]]:
    """Milliseconds of processor time of a call, and of a call in all, where two services are called in turns."""
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        started_by = {}
        for name, source in sources.items():
            path = str(Path(folder, f"{name}.db"))
            output(source, SERVED, path)
            serve = (SERVE, "serve", path, "--port", "0", "--rate", "0")
            started_by[name] = running.enter_context(started(*serve, environment=environment(source)))
        for turn in range(turns):
            for telling in (False, True):
                for name in sorted(sources, reverse=bool(turn % 2)):
                    service, url = started_by[name]
                    before = processor_seconds(service.pid)
                    row = asyncio.run(with_connections(url, count, telling, seconds))
                    used = (processor_seconds(service.pid) or 0.0) - (before or 0.0)
                    calls = row["calls per second"]
                    for what, value in (("ms", 1e3 / calls), ("CPU ms", 1e3 * used / (calls * seconds))):
                        by_side = found.setdefault(f"HTTP, {row['calls']}, {what}", {side: [] for side in sources})
                        by_side[name].append(value)
    return [summary(what, times) for what, times in found.items()]


def summary(what: str, times: dict[str, list[float]]) -> dict[str, object]:
    """Medians of both versions and of the ratio, and all turns."""
    ratios = [b / a for a, b in zip(times["before"], times["after"], strict=True)]
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {"policy": what, **medians, "ratio": statistics.median(ratios), "turns": times}


def main() -> int:
    parser = arguments("versions", __doc__, "tiny instances and two turns")
    parser.add_argument("before", type=Path, help="the folder src of the earlier version")
    parser.add_argument("after", type=Path, help="that of the later one")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="one to play; by default all six")
    parser.add_argument("--turns", type=int, default=9, help="of each version (default 9)")
    parser.add_argument("--ask", action="store_true", help="time asks and tells of an agent in a file instead")
    parser.add_argument("--default", action="store_true", help="play the recommended policy instead")
    parser.add_argument("--http", action="store_true", help="call the service of an agent instead")
    options = parser.parse_args()
    size, replications, turns = (QUICK, 2, 2) if options.quick else (SIZE, 25, options.turns)
    first = load()
    sources = {"before": options.before, "after": options.after}
    for source in sources.values():  # without one, Python would import the adadim that is installed
        if not (source / "adadim").is_dir():
            parser.error(f"{source} has no folder adadim; give the folder src of a version")
    if options.ask:
        turns, count, dims = (1, 20, [20]) if options.quick else (turns, 600, [20, 67])
        rows = asks(sources, turns, count, dims)
        setting: dict[str, Any] = {"arms": 30, "turns": turns}
    elif options.default:
        sizes = {made: [(*each[0][:2], 60, 1)] for made, each in DEFAULT_ON.items()} if options.quick else DEFAULT_ON
        rows = defaults(sources, turns, sizes)
        setting = {"sizes": sizes, "turns": turns}
    elif options.http:
        seconds, count = (0.5, 4) if options.quick else (3.0, 32)
        rows = services(sources, turns, seconds, count)
        setting = {"seconds": seconds, "connections": count, "turns": turns}
    else:
        policies = options.policy or POLICIES
        played = []
        for turn in range(turns):
            order = sorted(sources, reverse=bool(turn % 2))
            played.append({name: play(sources[name], size, policies, replications) for name in order})
        rows = [
            summary(policy, {version: [turn[version][policy] for turn in played] for version in sources})
            for policy in policies
        ]
        setting = {**size, "replications": replications, "turns": turns}
    described = machine()
    described["load"] = {"before": first, "after": load()}
    write_json(options.out, {"benchmark": "versions", "machine": described, "setting": setting, "rows": rows})
    print(describe(described))
    lines = [[r["policy"], f"{r['before']:.4f}", f"{r['after']:.4f}", f"{r['ratio']:.3f}"] for r in rows]
    unit = "milliseconds" if options.ask or options.http else "core-seconds per replication"
    print(table([unit, "before", "after", "after/before"], lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
