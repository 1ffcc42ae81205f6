"""What does an agent of clicks earn on a home page, and what does each part of it contribute?

40 articles at a time with 24 ordered features, visitors with 8. A click is a logistic function of 6 main effects of the
article, 5 x 3 products, the visitor, and an effect of each article that no feature explains. 8 articles are replaced
every 1,000 decisions. Whether a visitor clicked is told 200 to 2,000 decisions later, one in ten never. The page is
played twice: as it is, and with effects that are all drawn again half-way.

The agent is told nothing of this but `context=8, arm=24, rewards="bernoulli"`; it makes 225 features itself. The others
differ from it in what their names say; those "by hand" have the 65 features that an expert might choose, with products
of the first 4 features of an article alone, and `LinTS` and `Greedy` take clicks for Gaussian rewards. bayesianbandits
(logistic regression with empirical Bayes, Thompson sampling) and Vowpal Wabbit (`--squarecb`) play too where they are
installed, with the features chosen by hand; docs/compared.md has more of them on such pages.

    python examples/clicks.py             # about two minutes; some more with each package
    python examples/clicks.py --seed 1    # another page
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

import adadim

ARTICLES, ABOUT_ARTICLE, ABOUT_VISITOR = 40, 24, 8
MAIN_EFFECTS, PRODUCTS = 6, (5, 3)  # features of the article that matter; of the article and the visitor in products
REPLACED_EVERY, REPLACED = 1000, 8
EARLIEST, LATEST, NEVER = 200, 2000, 0.1  # decisions until a click is told, and the share that never is

Drift = Literal["none", "once", "abrupt", "slow"]


class HomePage:
    """Who comes, what there is, what would be clicked, and when that is told: the same for every policy.

    `drift` is "none"; "once", where the effects are drawn again after half of the decisions; "abrupt", where they are
    drawn again after a third and after two thirds; or "slow", where they rotate from one draw to another.
    """

    def __init__(self, seed: int, rounds: int = 30_000, drift: Drift = "none") -> None:
        rng = np.random.default_rng([seed, 38])
        self.seed, self.rounds, self.drift = seed, rounds, drift
        count = ARTICLES + rounds // REPLACED_EVERY * REPLACED
        self.articles = rng.standard_normal((count, ABOUT_ARTICLE))
        self.own = rng.normal(0, 0.3, count)
        self.visitors = rng.standard_normal((rounds, ABOUT_VISITOR))
        self.luck = rng.random(rounds)
        self.wait = rng.integers(EARLIEST, LATEST + 1, rounds)
        self.told = rng.random(rounds) >= NEVER
        self.effects = [self._draw(rng) for _ in range(3)]

    @staticmethod
    def _draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
        main, visitor = rng.normal(0, 0.45, MAIN_EFFECTS), rng.normal(0, 0.2, ABOUT_VISITOR)
        return {"main": main, "visitor": visitor, "products": rng.normal(0, 0.25, PRODUCTS)}

    def shelf(self, t: int) -> np.ndarray:
        """Numbers of the articles that are there in round `t`, the oldest first."""
        first = t // REPLACED_EVERY * REPLACED
        return np.arange(first, first + ARTICLES)

    def _effect(self, name: str, t: int) -> np.ndarray:
        draws = [one[name] for one in self.effects]
        if self.drift == "none":
            return draws[0]
        if self.drift == "once":
            return draws[2 * t // self.rounds]
        if self.drift == "abrupt":
            return draws[min(3 * t // self.rounds, 2)]
        angle = np.pi / 2 * t / self.rounds * 2  # two quarter turns
        one, other = (draws[0], draws[1]) if angle < np.pi / 2 else (draws[1], draws[2])
        angle %= np.pi / 2
        return np.cos(angle) * one + np.sin(angle) * other

    def probabilities(self, t: int) -> np.ndarray:
        """Probability of a click on each article of the shelf."""
        shelf = self.shelf(t)
        articles, visitor = self.articles[shelf], self.visitors[t]
        products = articles[:, : PRODUCTS[0]] @ self._effect("products", t) @ visitor[: PRODUCTS[1]]
        logit = articles[:, :MAIN_EFFECTS] @ self._effect("main", t) + visitor @ self._effect("visitor", t)
        return 1 / (1 + np.exp(3.6 - logit - products - self.own[shelf]))

    @property
    def best(self) -> float:
        """Clicks per decision of the best article in each round."""
        return float(np.mean([self.probabilities(t).max() for t in range(self.rounds)]))


def play(
    page: HomePage, batch: int = 1, watch: Callable[[adadim.Agent], None] | None = None, **settings: Any
) -> tuple[np.ndarray, float]:
    """Expected clicks of each decision of `Agent.create(path, context=8, arm=24, **settings)`; and seconds a decision.

    The agent is asked over its catalogue, which changes as articles are replaced, for `batch` visitors at a time.
    `watch` is called with the agent after each batch.
    """
    if REPLACED_EVERY % batch or batch > EARLIEST:
        raise ValueError(f"a batch must divide {REPLACED_EVERY} and be at most {EARLIEST}, got {batch}")
    earned, told, begun = np.zeros(page.rounds), defaultdict(list), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path, offered = Path(folder, "page.db"), dict[str, int]()
        chosen = {"context": ABOUT_VISITOR, "arm": ABOUT_ARTICLE, "seed": page.seed, "keep": "chosen"} | settings
        with adadim.Agent.create(path, **chosen) as agent:
            for start in range(0, page.rounds, batch):
                if start % REPLACED_EVERY == 0:
                    shelf = {str(number): int(number) for number in page.shelf(start)}
                    for name in offered.keys() - shelf.keys():
                        agent.retire_arm(name)
                    new = [name for name in shelf if name not in offered]  # in this order, by which ties are drawn
                    agent.set_arms({name: page.articles[shelf[name]] for name in new})
                    offered = shelf
                if start in told:
                    agent.tell_many(told.pop(start))
                for t, decision in enumerate(agent.ask_many(page.visitors[start : start + batch]), start):
                    earned[t] = page.probabilities(t)[int(decision.arm) - page.shelf(t)[0]]
                    if page.told[t]:
                        known = -(-(t + int(page.wait[t])) // batch) * batch  # when the next batch begins
                        told[known].append((decision.id, float(page.luck[t] < earned[t])))
                if watch is not None:
                    watch(agent)
    return earned, (time.process_time() - begun) / page.rounds


class BayesianBandits:
    """Thompson sampling for a logistic regression whose prior is found by empirical Bayes."""

    name, package = "bayesianbandits, by hand", "bayesianbandits"

    def __init__(self, columns: int, seed: int) -> None:
        package: Any = importlib.import_module(self.package)

        def features(row: Any, arms: Any) -> np.ndarray:
            return np.asarray(row).reshape(-1, ARTICLES, columns)[:, list(arms)].transpose(0, 2, 1)

        self.agent = package.LipschitzContextualAgent(
            arms=[package.Arm(arm) for arm in range(ARTICLES)],
            learner=package.EmpiricalBayesGLM(),
            arm_featurizer=package.FunctionArmFeaturizer(features),
            policy=package.ThompsonSampling(),
            random_seed=seed,
        )

    def choose(self, features: np.ndarray) -> tuple[int, Any]:
        row = features.reshape(1, -1)
        (arm,) = self.agent.pull(row)
        return int(arm), (row, arm)

    def learn(self, memo: Any, clicked: bool) -> None:
        row, arm = memo
        self.agent.select_for_update(arm).update(row, np.array([float(clicked)]))


class VowpalWabbit:
    """Inverse gap weighting, of costs 1 - click."""

    name, package = "Vowpal Wabbit, by hand", "vowpalwabbit"

    def __init__(self, columns: int, seed: int) -> None:
        package: Any = importlib.import_module(self.package)
        self.work = package.Workspace("--cb_explore_adf --squarecb --quiet")
        self.rng = np.random.default_rng(seed)

    def choose(self, features: np.ndarray) -> tuple[int, Any]:
        # it has a constant of its own in the place of the first column
        rows = ["|A " + " ".join(f"{i}:{x:.6g}" for i, x in enumerate(row)) for row in features[:, 1:].tolist()]
        shares = np.asarray(self.work.predict(rows))
        arm = int(self.rng.choice(ARTICLES, p=shares / shares.sum()))
        return arm, (rows, arm, shares[arm])

    def learn(self, memo: Any, clicked: bool) -> None:
        rows, arm, share = memo
        rows[arm] = f"0:{1 - clicked}:{share} {rows[arm]}"
        self.work.learn(rows)


def features_by_hand(page: HomePage, t: int) -> np.ndarray:
    """1, the article, the visitor, and products of the first 4 features of the article with the visitor (40, 65)."""
    articles, visitor = page.articles[page.shelf(t)], page.visitors[t]
    products = (articles[:, :4, None] * visitor).reshape(ARTICLES, -1)
    return np.column_stack([np.ones(ARTICLES), articles, np.tile(visitor, (ARTICLES, 1)), products])


def play_package(page: HomePage, player: BayesianBandits | VowpalWabbit) -> np.ndarray:
    """Expected clicks of each decision of another package."""
    earned, told = np.zeros(page.rounds), defaultdict(list)
    for t in range(page.rounds):
        for memo, clicked in told.pop(t, ()):
            player.learn(memo, clicked)
        arm, memo = player.choose(features_by_hand(page, t))
        earned[t] = page.probabilities(t)[arm]
        if page.told[t]:
            told[t + int(page.wait[t])].append((memo, bool(page.luck[t] < earned[t])))
    return earned


def players() -> dict[str, dict[str, Any]]:
    """The arguments of `Agent.create` of each row of the table."""
    clicks, by_hand = {"rewards": "bernoulli"}, {"features": adadim.Features(products=4)}
    made = 1 + ABOUT_ARTICLE + ABOUT_VISITOR + ABOUT_ARTICLE * ABOUT_VISITOR
    levels = {"arm": 1 + ABOUT_ARTICLE, "context": 1 + ABOUT_ARTICLE + ABOUT_VISITOR, "products": made}
    default = adadim.recommended(adadim.Problem(arms=ARTICLES, dim=made, horizon=None, levels=levels, **clicks))
    plain = {"noise": 0.5, "memory": None, **by_hand}
    return {
        "agent of clicks": clicks,
        "Gaussian rewards": {},
        "one prior for all levels": {"policy": replace(default, levels="one"), **clicks},
        "features by hand": clicks | by_hand,
        "memory=None": clicks | {"memory": None},
        "LinTS, by hand": {"policy": adadim.LinTS(), **plain},
        "Greedy, by hand": {"policy": adadim.Greedy(), **plain},
        "random": {"policy": adadim.Random(), **plain},
    }


def main() -> None:
    """Print clicks per decision of each, on a page that stays and on one that changes, and the shares of the best."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=8_000, help="decisions (default: 8000)")
    options.add_argument("--seed", type=int, default=0, help="of the page")
    given = options.parse_args()
    console = Console()
    pages = [HomePage(given.seed, given.rounds, drift) for drift in ("none", "once")]
    best = [page.best for page in pages]
    title = f"Clicks per decision, {given.rounds:,} decisions"
    table = Table("", "stays", "share", "changes half-way", "share", title=title)

    def add(name: str, earned: Callable[[HomePage], float]) -> None:
        with console.status(name):
            means = [earned(page) for page in pages]
        shares = [f"{mean / most:.3f}" for mean, most in zip(means, best, strict=True)]
        table.add_row(name, f"{means[0]:.3f}", shares[0], f"{means[1]:.3f}", shares[1])

    for name, settings in players().items():
        add(name, lambda page, settings=settings: play(page, 50, **settings)[0].mean())
    for package in (BayesianBandits, VowpalWabbit):
        if importlib.util.find_spec(package.package) is None:
            table.add_row(package.name, "not installed", "-", "-", "-")
        else:
            add(package.name, lambda page, package=package: play_package(page, package(65, page.seed)).mean())
    add("best possible", lambda page: page.best)
    console.print(table)


if __name__ == "__main__":
    main()
