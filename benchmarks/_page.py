"""The home page of benchmarks/homepage.py as one task of the comparison in benchmarks/practitioners.py.

Every tool decides one visitor after the other and learns a click, 0 or 1, 200 to 2,000 decisions later, one in ten
never: a queue hands each tool the clicks in the order in which they become known. A round has 40 articles with the 225
features that an agent makes (a constant, 24 of the article, 8 of the visitor, their 192 products), or with the 65 that
a practitioner would choose by hand (products of the article's first 4 alone). All tools get the same columns. Vowpal
Wabbit is given the visitor and the articles, and makes the same products itself (`-q`), as its tutorial does. River has
no policy for arms with features: it plays with a model for each article of the visitor's 8 numbers.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from typing import Any

import numpy as np

import adadim
import homepage
from _rivals import TOOLS, River, Setting, Sizes, Tool, VowpalWabbit
from adadim.core.design import Design
from homepage import ABOUT_ARTICLE, ABOUT_VISITOR, ARTICLES, HomePage

TASK = "home page"
DEVELOPMENT, HELD_OUT, ROUNDS = range(2), range(300, 310), 4_000
HAND_PRODUCTS = 4  # features of an article that are multiplied with the visitor's, chosen by hand
ALL, BY_HAND = (
    Design.of(ABOUT_VISITOR, ABOUT_ARTICLE, adadim.Features(products=products)) for products in (None, HAND_PRODUCTS)
)
AGENTS: dict[str, Setting] = {
    "agent": {"agent": {}},
    'agent, rewards="bernoulli"': {"agent": {"rewards": "bernoulli"}},
}


@functools.cache
def world(seed: int, rounds: int) -> HomePage:
    return HomePage(seed, rounds)


def offered(page: HomePage, t: int, cut: bool = False) -> np.ndarray:
    """Features (40, 225) of the articles in round `t`, or (40, 65)."""
    shelf = page.shelf(t)
    return (BY_HAND if cut else ALL).build(page.articles[shelf], page.visitors[t], [str(one) for one in shelf])


@functools.cache
def references(seed: int, rounds: int) -> tuple[float, float]:
    """Clicks per decision of random play, and of the linear rule fitted to the probabilities of all articles."""
    page = world(seed, rounds)
    square, product, chance, earned = np.eye(ALL.dim), np.zeros(ALL.dim), 0.0, 0.0
    for t in range(rounds):
        rows, clicks = offered(page, t), page.probabilities(t)
        square, product, chance = square + rows.T @ rows, product + rows.T @ clicks, chance + clicks.mean()
    theta = np.linalg.solve(square, product)
    for t in range(rounds):
        earned += page.probabilities(t)[(offered(page, t) @ theta).argmax()]
    return float(chance / rounds), float(earned / rounds)


def described(page: HomePage, t: int, cut: bool) -> list[str]:
    """The articles of round `t` for Vowpal Wabbit, which multiplies namespace A with the visitor."""
    first = HAND_PRODUCTS if cut else ABOUT_ARTICLE

    def words(row: np.ndarray, start: int) -> str:
        return " ".join(f"{start + k}:{value:.6g}" for k, value in enumerate(row))

    rows = page.articles[page.shelf(t)]
    return [f"|A {words(row[:first], 0)} |C {words(row[first:], first)}" for row in rows]


def play(tool: type[Tool], setting: Setting, seed: int, rounds: int) -> tuple[float, float]:
    """Expected clicks per decision, and seconds of processor time for a decision and its learning."""
    page, cut = world(seed, rounds), bool(setting.get("cut"))
    by_article = issubclass(tool, River | VowpalWabbit)
    columns = 1 + ABOUT_VISITOR if by_article else (BY_HAND if cut else ALL).dim
    player = tool(Sizes(ARTICLES, columns, by_article, seed), setting)
    earned, spent, due = 0.0, 0.0, defaultdict[int, list[tuple[Any, float]]](list)
    for t in range(rounds):
        first, clicks = int(page.shelf(t)[0]), page.probabilities(t)
        seen = np.append(1.0, page.visitors[t]) if by_article else offered(page, t, cut)
        begun = time.process_time()
        for memo, reward in due.pop(t, []):
            player.learn(memo, reward)
        if isinstance(player, River):
            player.arms = page.shelf(t).tolist()
        elif isinstance(player, VowpalWabbit) and t % homepage.REPLACED_EVERY == 0:
            player.labels = described(page, t, cut)
        arm, memo = player.choose(seen)
        spent += time.process_time() - begun
        place = arm - first if isinstance(player, River) else arm
        earned += clicks[place]
        if page.told[t]:
            due[t + int(page.wait[t])].append((memo, float(page.luck[t] < clicks[place])))
    return earned / rounds, spent / rounds


def play_agent(options: dict[str, Any], seed: int, rounds: int) -> tuple[float, float]:
    """The same of an agent in a file, which makes the 225 features itself."""
    earned, seconds = homepage.play(world(seed, rounds), **options)
    return float(earned.mean()), seconds


def settings_of(tool: type[Tool]) -> list[int]:
    """Numbers of the settings that differ here: River has no features that could be left out."""
    return list(range(len(tool.settings) if tool.plays_alternatives else len(tool.settings) // 2))


def entries(name: str, before: int, here: int) -> dict[str, Setting]:
    """What a tool plays on the held-out worlds: documented, tuned before on other tasks, and tuned on this one."""
    numbers: dict[int, list[str]] = {}
    for number, label in ((0, "documented"), (before, "tuned on other tasks"), (here, "tuned on this one")):
        same = number if number in settings_of(TOOLS[name]) else number - len(TOOLS[name].settings) // 2
        numbers.setdefault(same, []).append(label)
    found = {", ".join(labels): TOOLS[name].settings[number] for number, labels in numbers.items()}
    return {**found, **AGENTS} if name == "adadim" else found


def measured(name: str, setting: Setting, worlds: range, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """What a setting earns on each world, and what the references do."""
    rows: dict[str, list[float]] = {"reward": [], "random": [], "hindsight": [], "seconds": []}
    for seed in worlds:
        if "agent" in setting:
            reward, seconds = play_agent(setting["agent"], seed, rounds)
        else:
            reward, seconds = play(TOOLS[name], setting, seed, rounds)
        values = (reward, *references(seed, rounds), seconds)
        for column, value in zip(rows.values(), values, strict=True):
            column.append(float(value))
    return rows
