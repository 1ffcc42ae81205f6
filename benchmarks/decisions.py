"""What a decision of an agent costs, with an earlier version's agent and with this one's, in turns.

    git worktree add ../before f36b153   # version 0.3
    python benchmarks/decisions.py ../before/src src
    python benchmarks/decisions.py ../before/src src --features 65 --ask 2000
    python benchmarks/decisions.py ../before/src src --refresh

On the page of `homepage.py`, with late clicks. Five agents play, each in a process of its own, one call at a time in
turns, so that a machine whose speed changes changes all of them: that of the earlier version, and of this one as that
was (one prior for all levels, no memory), without memory, with its default memory, and with everything on (clicks, a
prior for each level, `memory="auto"`). Each decides in batches of 100 first, then one by one, with the rewards that
have come told before. Milliseconds of processor time: medians; means, which have the fits; and the 99.9th percentile
or, of fewer calls than 1000, the longest. Bytes are those of the file, with rewards. With `--refresh` each agent learns
from the rewards before it is asked, as the service lets it: the time of telling then has all fits and priors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _report import table
from versions import ONE_LEVEL, explained

AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "before": ("before", {}),
    "now, as before": ("after", {"memory": None, "policy": ONE_LEVEL}),
    "now, memory=None": ("after", {"memory": None}),
    "now": ("after", {}),
    "now, rewards='bernoulli'": ("after", {"rewards": "bernoulli"}),
}
PRODUCTS = {65: 4, 225: None}  # products of context and arm, by the number of features

PLAYER = """
import json, pathlib, sys, tempfile, time
from collections import defaultdict

import adadim
from homepage import ABOUT_ARTICLE, ABOUT_VISITOR, REPLACED_EVERY, HomePage
from threadpoolctl import threadpool_limits

rounds, products, settings, refreshes = (json.loads(word) for word in sys.argv[1:])
page, told, offered, ids, start = HomePage(0, rounds), defaultdict(list), {}, {}, 0
features = adadim.Features(products=products)
if "policy" in settings:
    settings["policy"] = eval(settings["policy"])
with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "page.db")
    columns = {"context": ABOUT_VISITOR, "arm": ABOUT_ARTICLE, "features": features, "keep": "chosen"}
    agent = adadim.Agent.create(path, **columns, **settings)
    refresh = agent.refresh if hasattr(agent, "refresh") else agent.catch_up  # its name in version 0.3
    for line in sys.stdin:  # how many decisions to make at once
        count, arrived = int(line), []
        if start % REPLACED_EVERY == 0:
            shelf = {str(number): int(number) for number in page.shelf(start)}
            for name in offered.keys() - shelf.keys():
                agent.retire_arm(name)
            agent.set_arms({name: page.articles[shelf[name]] for name in shelf.keys() - offered.keys()})
            offered = shelf
        for t in range(max(0, start - count + 1), start + 1):
            arrived += told.pop(t, ())
        clock = [time.process_time()]
        if arrived:
            agent.tell_many(arrived) if len(arrived) > 1 else agent.tell(*arrived[0])
            if refreshes:
                refresh()
        clock.append(time.process_time())
        if count > 1:
            decisions = agent.ask_many(page.visitors[start : start + count])
        else:
            decisions = [agent.ask(context=page.visitors[start])]
        clock.append(time.process_time())
        for t, decision in enumerate(decisions, start):
            if page.told[t]:
                p = page.probabilities(t)[int(decision.arm) - page.shelf(t)[0]]
                told[t + int(page.wait[t])].append((decision.id, float(page.luck[t] < p)))
        start += count
        print(clock[1] - clock[0], clock[2] - clock[1], len(arrived), flush=True)
    agent.close()
    print(path.stat().st_size / start, flush=True)
"""


class Player:
    """An agent in a process of its own."""

    def __init__(self, source: Path, rounds: int, features: int, settings: dict[str, Any], refreshes: bool) -> None:
        self.source = source
        paths = os.pathsep.join([str(source.resolve()), str(Path(__file__).resolve().parent)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", PLAYER, *map(json.dumps, (rounds, PRODUCTS[features], settings, refreshes))],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def decide(self, count: int) -> list[float]:
        """Seconds of telling and of asking for so many decisions, and how many rewards were told."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return self._line()

    def close(self) -> float:
        """Bytes a decision."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        (size,) = self._line()
        self.process.wait()
        return size

    def _line(self) -> list[float]:
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        if not words:
            assert self.process.stderr is not None
            raise SystemExit(explained(self.source, self.process.stderr.read()))
        return [float(word) for word in words]


def measure(
    sources: dict[str, Path], features: int, batches: int, asks: int, agents: Sequence[str], refreshes: bool
) -> list[dict[str, Any]]:
    """Times and bytes of some of the agents."""
    rounds = 100 * batches + asks
    chosen = {name: AGENTS[name] for name in agents}
    players = {name: Player(sources[side], rounds, features, kind, refreshes) for name, (side, kind) in chosen.items()}
    found: dict[str, list[list[list[float]]]] = {name: [[], []] for name in chosen}
    for at, count in enumerate([100] * batches + [1] * asks):
        order = list(players.items())
        for name, player in order if at % 2 else reversed(order):
            found[name][count == 1].append(player.decide(count))
    sizes = {name: player.close() for name, player in players.items()}
    rows = []
    for name, parts in found.items():
        # The first fifth of the batches, when there is next to no reward, does not count; all of the time does.
        batch, single = (1e3 * np.array(part)[:, :2] for part in (parts[0][batches // 5 :], parts[1]))
        rows.append(
            {
                "features": features,
                "agent": name,
                "ask": np.median(single[:, 1]),
                "ask, mean": single[:, 1].mean(),
                "ask, 99.9%": np.percentile(single[:, 1], 99.9),
                "tell": np.median(single[single[:, 0] > 0, 0]),
                "batch of 100": np.median(batch[:, 1]),
                "batch, mean": batch[:, 1].mean(),
                "batch, longest": batch[:, 1].max(),
                "tell 100": np.median(batch[:, 0]),
                "a decision in all": 1e3 * np.array(parts[0])[:, :2].sum() / (100 * batches),
                "bytes": sizes[name],
            }
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the folder src of the earlier version")
    parser.add_argument("after", type=Path, help="that of the later one")
    parser.add_argument("--features", type=int, nargs="+", choices=PRODUCTS, default=list(PRODUCTS))
    parser.add_argument("--batches", type=int, default=60, help="of 100 decisions (default 60)")
    parser.add_argument("--ask", type=int, default=1000, help="further decisions, one by one (default 1000)")
    parser.add_argument("--refresh", action="store_true", help="let the agents learn before they are asked")
    parser.add_argument("--agent", action="append", choices=[*AGENTS][1:], help="one of this version (default: all)")
    options = parser.parse_args()
    agents = ["before", *(options.agent or [*AGENTS][1:])]
    sources = {"before": options.before, "after": options.after}
    for features in options.features:
        rows = measure(sources, features, options.batches, options.ask, agents, options.refresh)
        columns = [name for name in rows[0] if name not in ("features", "agent")]
        lines = []
        for row in rows:
            cells = [f"{row[name]:.2f} ({row[name] / rows[0][name]:.2f})" for name in columns]
            lines.append([row["agent"], *cells])
        print(f"{features} features; in brackets as a multiple of the earlier version", flush=True)
        print(table(["ms", *columns], lines), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
