"""A shop whose catalogue changes every day and whose rewards come a day later, played by an agent in a file.

Each visitor is shown one product. What a visitor brings is known the next day: a noisy margin that depends on three of
the product's twelve features, which the agent is not told. Every morning the returns of yesterday come in, some of
them twice; a few never come. Products sell out for a day, come and go, and cost something to show. The agent is closed
every night and opened every morning, as a service that restarts would.

    python examples/changing_shop.py --days 28 --visitors 60
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import adadim

DAY = 86400.0
DIM, MATTER, NOISE = 12, 3, 0.3
LEVELS = {"price and brand": 3, "description": 8, "clicks of others": 12}


class Shop:
    """The world: products and what they are worth to visitors."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.theta = np.zeros(DIM)
        self.theta[:MATTER] = [0.6, -0.5, 0.4]
        self.made, self.now = 0, 0.0

    def product(self) -> tuple[str, np.ndarray, float]:
        """A new product: its name, its features and what it costs to show it."""
        self.made += 1
        features = self.rng.normal(size=DIM) / 2
        return f"sku-{self.made:03d}", features, round(float(self.rng.uniform(0, 0.1)), 3)

    def value(self, features: np.ndarray) -> float:
        """Mean margin of a product."""
        return float(features @ self.theta)

    def margin(self, features: np.ndarray) -> float:
        """What one visitor brings."""
        return self.value(features) + NOISE * float(self.rng.normal())


def play(path: Path, days: int, visitors: int, seed: int) -> tuple[list[dict[str, float]], dict, adadim.Dimension]:
    """Profit per visitor of every day, how the agent stands at the end, and what it believes matters."""
    shop = Shop(seed)
    options = {"clock": lambda: shop.now}
    agent = adadim.Agent.create(path, dim=DIM, levels=LEVELS, seed=seed, expire_after=3 * DAY, **options)
    for name, features, cost in (shop.product() for _ in range(20)):
        agent.set_arm(name, features, cost=cost)
    agent.close()
    returns: dict[int, float] = {}
    ledger = []
    for day in range(days):
        shop.now = day * DAY
        with adadim.Agent.open(path, **options) as agent:
            agent.tell_many(returns)
            agent.tell_many(dict(list(returns.items())[:5]))  # some are reported twice: harmless
            returns = {}
            if day:  # two products go, two come, and one is sold out until tomorrow
                for name in shop.rng.permutation(list(agent.arms))[:2]:
                    agent.retire_arm(str(name))
                for name, features, cost in (shop.product() for _ in range(2)):
                    agent.set_arm(name, features, cost=cost)
            sold_out = str(shop.rng.permutation(list(agent.arms))[0])
            agent.mask_arm(sold_out)
            open_arms = [arm for arm in agent.arms.values() if arm.state == "active"]
            profits = [shop.value(arm.features) - arm.cost for arm in open_arms]
            gained = 0.0
            for visitor in range(visitors):
                shop.now = (day + (visitor + 1) / (visitors + 1)) * DAY
                decision = agent.ask()
                arm = agent.arms[decision.arm]
                gained += shop.value(arm.features) - arm.cost
                if shop.rng.random() < 0.97:  # a few are never heard of again
                    returns[decision.id] = shop.margin(arm.features)
            agent.unmask_arm(sold_out)
            ledger.append({"agent": gained / visitors, "best": max(profits), "chance": float(np.mean(profits))})
    shop.now = (days + 3) * DAY
    with adadim.Agent.open(path, **options) as agent:
        return ledger, agent.status(), agent.dimension()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument("--visitors", type=int, default=60, help="a day")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        ledger, status, found = play(Path(folder, "shop.db"), options.days, options.visitors, options.seed)
    shown = Table(title="Profit per visitor")
    for heading in ("days", "by chance", "agent", "best product of the day"):
        shown.add_column(heading, justify="right")
    for first in range(0, options.days, 7):
        week = ledger[first : first + 7]
        means = [f"{np.mean([day[key] for day in week]):.3f}" for key in ("chance", "agent", "best")]
        shown.add_row(f"{first + 1}-{first + len(week)}", *means)
    console.print(shown)
    console.print(str(found), highlight=False, soft_wrap=True)
    names = ("decisions", "rewards", "outstanding", "expired", "arms", "retired")
    console.print(", ".join(f"{status[name]} {name}" for name in names), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
