"""A home page whose clicks arrive hundreds of decisions later: what does a bandit lose by the wait?

Each visitor is shown one of 40 articles. An article has 24 features in order, a visitor 8, and the first 4 features
of the article are multiplied by the visitor's: 1 + 24 + 8 + 32 = 65 features that come with each decision. Whether a
visitor clicks is a logistic function of some of them. Every 1,000 decisions 8 articles are replaced by new ones. A
click (or its absence) is known 200 to 2,000 decisions later, and one in ten is never heard of.

The same page is played by the recommended policy told at once and told late, and by chance. With `--raw` features are
not centred and scaled: each column is in its own unit, divided by its largest value, as tables often come.

    python examples/homepage.py
    python examples/homepage.py --raw
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

import adadim

ARTICLES, ABOUT_ARTICLE, ABOUT_USER, CROSSED = 40, 24, 8, 4
DIM = 1 + ABOUT_ARTICLE + ABOUT_USER + CROSSED * ABOUT_USER
CHURN, REPLACED = 1000, 8
SOONEST, LATEST, NEVER = 200, 2000, 0.1


@dataclass
class Page:
    """The world, the same for every policy: who comes, what there is, what would be clicked, and when that is known."""

    seed: int
    rounds: int
    raw: bool

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.base_rate = -3.6
        self.article_weights = np.where(np.arange(ABOUT_ARTICLE) < 8, rng.normal(0, 0.45, ABOUT_ARTICLE), 0.0)
        self.user_weights = rng.normal(0, 0.2, ABOUT_USER)
        self.cross_weights = rng.normal(0, 0.25, (CROSSED, ABOUT_USER))
        self.articles = rng.normal(size=(ARTICLES + self.rounds // CHURN * REPLACED, ABOUT_ARTICLE))
        self.users = rng.normal(size=(self.rounds, ABOUT_USER))
        self.luck = rng.random(self.rounds)
        self.wait = rng.integers(SOONEST, LATEST + 1, self.rounds)
        self.lost = rng.random(self.rounds) < NEVER
        # What a table holds: a column in a unit of its own, all numbers positive, divided by the largest.
        self.offsets = rng.uniform(4, 12, ABOUT_ARTICLE + ABOUT_USER)
        shelves, shelf, oldest = [], list(range(ARTICLES)), 0
        for t in range(self.rounds):
            if t and t % CHURN == 0:
                first = ARTICLES + (t // CHURN - 1) * REPLACED
                for article in range(first, first + REPLACED):
                    shelf[oldest % ARTICLES] = article
                    oldest += 1
            shelves.append(list(shelf) if t % CHURN == 0 else shelves[-1])
        self.shelves = shelves

    def offered(self, t: int) -> np.ndarray:
        """Features of the 40 articles for the visitor of round `t`."""
        articles, user = self.articles[self.shelves[t]], self.users[t]
        if self.raw:
            articles = self._in_raw_units(articles, self.articles, self.offsets[:ABOUT_ARTICLE])
            user = self._in_raw_units(user, self.users, self.offsets[ABOUT_ARTICLE:])
        crossed = (articles[:, :CROSSED, None] * user).reshape(ARTICLES, -1)
        return np.hstack([np.ones((ARTICLES, 1)), articles, np.tile(user, (ARTICLES, 1)), crossed])

    @staticmethod
    def _in_raw_units(values: np.ndarray, column: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return np.maximum(values + offsets, 0.0) / np.max(column + offsets, axis=0)

    def probabilities(self, t: int) -> np.ndarray:
        """Probability of a click on each of the 40."""
        articles, user = self.articles[self.shelves[t]], self.users[t]
        crossed = articles[:, :CROSSED] @ self.cross_weights @ user
        return 1 / (
            1 + np.exp(-(self.base_rate + articles @ self.article_weights + user @ self.user_weights + crossed))
        )


def clicks(page: Page, policy: adadim.Policy | None = None, late: bool = False) -> float:
    """Expected clicks per decision of a policy; without one, of the best possible."""
    if policy is None:
        return float(np.mean([page.probabilities(t).max() for t in range(page.rounds)]))
    learner = policy.start(adadim.Problem(arms=ARTICLES, dim=DIM, horizon=page.rounds, noise=0.5), seed=page.seed)
    arriving: dict[int, list[tuple[adadim.Decision, float]]] = defaultdict(list)
    earned = 0.0
    for t in range(page.rounds):
        for decision, clicked in arriving.pop(t, []):
            learner.tell(decision, clicked)
        decision, chances = learner.ask(page.offered(t)), page.probabilities(t)
        chance = chances[decision.arms]
        earned += chance
        clicked = float(page.luck[t] < chance)
        if not late:
            learner.tell(decision, clicked)
        elif not page.lost[t]:
            arriving[t + int(page.wait[t]) + 1].append((decision, clicked))
    return earned / page.rounds


def main() -> None:
    """Print clicks per decision, and how much of what it earns over chance the policy keeps."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=30_000, help="decisions (default: 30000)")
    options.add_argument("--seed", type=int, default=0, help="of the page")
    options.add_argument("--raw", action="store_true", help="features in raw units")
    given = options.parse_args()
    page = Page(given.seed, given.rounds, given.raw)
    best = adadim.recommended(adadim.Problem(arms=ARTICLES, dim=DIM, horizon=given.rounds, noise=0.5))
    chance, at_once, late = clicks(page, adadim.Random()), clicks(page, best), clicks(page, best, late=True)
    table = Table("", "clicks per decision", title=f"{given.rounds:,} decisions, {type(best).__name__}")
    rows = {"chance": chance, "told late": late, "told at once": at_once, "best possible": clicks(page)}
    for name, value in rows.items():
        table.add_row(name, f"{value:.3f}")
    kept = f"told late it keeps {(late - chance) / (at_once - chance):.2f} of what it earns over chance"
    console = Console()
    console.print(table)
    console.print(kept, highlight=False)


if __name__ == "__main__":
    main()
