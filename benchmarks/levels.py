"""A prior for each level of the features against one for all of them: what it gains, and what it costs.

    python benchmarks/levels.py worlds --seeds 0 1 2 3          # development
    python benchmarks/levels.py worlds --seeds 100 101 102 103  # held out, once
    python benchmarks/levels.py harm                            # families whose levels mean nothing
    python benchmarks/levels.py harm --split everyday-held-out contexts-held-out
    python benchmarks/levels.py cost                            # processor time of a decision of an agent
    python benchmarks/levels.py changes --seeds 10 11 12 13     # two later changes, see below

The worlds have levels that mean something, in every seed of another weight:

- home page: `homepage.HomePage`, late clicks, 225 features that an agent makes of 24 and 8 numbers;
- shop: 80 products with 12 categories, 2 brands and 6 numbers, visitors of 5 segments with 3 numbers, all products of
  both, and 64 intercepts of products; Gaussian rewards at once;
- groups: 200 fixed arms with 4 features of price, 16 of category and 60 of text. Each of the last two groups matters by
  a factor drawn from 0, 0.3 and 1.

Harm is measured on the families "everyday" and "contexts" of the standing comparison. Their features have no levels:
they are cut into thirds as if they had.

The rule, written before the figures. A cell is regret as a share of what uniform play loses. (1) There were five ways
to tune the levels in turn: a level holds, while others are tuned, its likeliest prior or the widest one in doubt; two
sweeps, or one forth and one back; with the likeliest, forth and back, each level in doubt within the Bayes factors of
one prior, or within their L-th roots for L levels. The one of the smallest geometric mean over the three worlds, on
development seeds, is built. (2) It is what `adadim.recommended` and agents use wherever there are several levels if, on
held-out seeds, the geometric mean over the three worlds of the ratios to one prior is below 1 and no world has a ratio
above 1.02; and if in the families without levels, held out, the geometric mean of the ratios of mean regret is at most
1.05, and none is above 1.2 by more than two standard errors of the ratio (which were added to the rule when development
showed them to be up to 0.7). (3) If (2) fails in the families alone, agents that make their features use it, and
`recommended` does not. (4) Otherwise it is an option.

Two later changes were made on development seeds of the home page with clicks: products fade with the ranks of both
features, not of the arm's alone, and clicks with several levels have 0.17 of the radius, not 0.35. "changes" plays them
on worlds and seeds that they were not made on: home page and shop, 4,000 decisions, rewards taken as Gaussian, and as
clicks (in the shop with probability 1 / (1 + exp(2 - mean))). The rule, written before: a change stays if the geometric
mean of its ratios of regret, after to before, is at most 1 over the worlds that it concerns, and none is above 1.05;
otherwise it is taken back. So the radius stayed, and the ranks were taken back: 1.063 in the shop with clicks.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import statistics
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import adadim
from adadim.core.design import Design
from adadim.core.levels import ColumnLevels
from adadim.experiments.comparison import FAMILIES
from adadim.policies.linear.evidence import RECOMMENDED
from adadim.report import markdown_table
from adadim.study import instance_kinds
from adadim.study.kinds import make_instance
from homepage import ABOUT_ARTICLE, ABOUT_VISITOR, ARTICLES, HomePage

POLICIES = {"one": replace(RECOMMENDED, levels="one"), "each": replace(RECOMMENDED, levels="each")}


@dataclass
class Rounds:
    """A world that brings features with each round: `offer(t)` gives features (K, d) and means (K,)."""

    rounds: int
    columns: ColumnLevels
    arms: int
    offer: Callable[[int], tuple[np.ndarray, np.ndarray]]
    reward: Callable[[int, float], float]  # of an arm of this mean in round t
    wait: Callable[[int], int | None]  # rounds until the reward of round t comes; None for never

    def regret(self, policy: adadim.EvidenceLinUCB) -> float:
        """Regret of a policy as a share of that of uniform play."""
        problem = adadim.Problem(arms=self.arms, dim=self.columns.dim, horizon=None, levels=self.columns)
        learner, told, lost, uniform = policy.start(problem), defaultdict(list), 0.0, 0.0
        for t in range(self.rounds):
            for decision, reward in told.pop(t, ()):
                learner.tell(decision, reward)
            features, means = self.offer(t)
            decision = learner.ask(features)
            mean, wait = float(means[decision.arms]), self.wait(t)
            lost, uniform = lost + means.max() - mean, uniform + means.max() - means.mean()
            if wait is not None:
                told[t + 1 + wait].append((decision, self.reward(t, mean)))
        return lost / uniform


def home_page(seed: int, rounds: int = 12_000) -> Rounds:
    page, design = HomePage(seed, rounds), Design.of(ABOUT_VISITOR, ABOUT_ARTICLE, None)

    def offer(t: int) -> tuple[np.ndarray, np.ndarray]:
        return design.build(page.articles[page.shelf(t)], page.visitors[t], [""] * ARTICLES), page.probabilities(t)

    return Rounds(
        rounds,
        design.column_levels,
        ARTICLES,
        offer,
        lambda t, mean: float(page.luck[t] < mean),
        lambda t: int(page.wait[t]) if page.told[t] else None,
    )


def shop(seed: int, rounds: int = 6000, products: int = 80) -> Rounds:
    """Effects of each level are drawn with a size of its own: 0, 0.3 or 1."""
    rng = np.random.default_rng([seed, 382])
    categories, brands, numbers, segments, others = 12, 2, 6, 5, 3
    design = Design.of(segments + others, categories + brands + numbers, adadim.Features(own=64))
    arms = np.concatenate(
        [
            np.eye(categories)[rng.integers(categories, size=products)],
            rng.integers(2, size=(products, brands)) - 0.5,
            rng.standard_normal((products, numbers)),
        ],
        axis=1,
    )
    visitors = np.concatenate(
        [np.eye(segments)[rng.integers(segments, size=rounds)], rng.standard_normal((rounds, others))], axis=1
    )
    names = [f"product {k}" for k in range(products)]
    theta = np.zeros(design.dim)
    for part in design.column_levels.slices.values():
        size = rng.choice([0.0, 0.3, 1.0], p=[0.3, 0.4, 0.3])
        theta[part] = size * rng.standard_normal(part.stop - part.start) / np.sqrt(part.stop - part.start) * 2
    theta[1 : 1 + categories] += rng.standard_normal(categories) * 0.3
    noise = rng.standard_normal(rounds)

    def offer(t: int) -> tuple[np.ndarray, np.ndarray]:
        offered = np.random.default_rng([seed, t]).permutation(products)[:30]
        features = design.build(arms[offered], visitors[t], [names[k] for k in offered])
        return features, features @ theta

    return Rounds(rounds, design.column_levels, 30, offer, lambda t, mean: mean + float(noise[t]), lambda t: 0)


def groups(seed: int, policy: adadim.EvidenceLinUCB, replications: int = 16) -> float:
    """Regret on fixed arms in groups, as a share of that of uniform play."""
    ends, lost, uniform = {"price": 4, "category": 20, "text": 80}, 0.0, 0.0
    for replication in range(replications):
        rng = np.random.default_rng([seed, replication, 383])
        features, theta, start = rng.standard_normal((200, 80)), np.zeros(80), 0
        features[:, 4:20] = np.eye(16)[rng.integers(16, size=200)]
        for at, end in enumerate(ends.values()):
            factor = rng.choice([0.0, 0.3, 1.0]) if at else 0.5
            theta[start:end] = factor * rng.standard_normal(end - start) * np.arange(1, end - start + 1) ** -0.5
            start = end
        instance = adadim.Instance(
            features / np.linalg.norm(features, axis=1).max(),
            theta=3 * theta,
            horizon=3000,
            noise=0.3,
            replications=[replication],
        )
        instance.problem = instance.problem.with_levels(ends)
        lost += adadim.simulate(policy, instance, record=1, seed=seed).final.mean()
        uniform += float((instance.best - instance.means.mean(axis=1)).mean()) * 3000
    return lost / uniform


def with_clicks(world: Rounds, seed: int) -> Rounds:
    """The same world with clicks, 12% where the mean of the rewards was 0."""
    luck = np.random.default_rng([seed, 384]).random(world.rounds)

    def offer(t: int) -> tuple[np.ndarray, np.ndarray]:
        features, means = world.offer(t)
        return features, 1 / (1 + np.exp(2 - means))

    return replace(world, offer=offer, reward=lambda t, mean: float(luck[t] < mean))


CHANGED = {
    "home page": lambda seed: home_page(seed, 4_000),
    "shop": lambda seed: shop(seed, 4_000),
    "shop, clicks": lambda seed: with_clicks(shop(seed, 4_000), seed),
}
EACH = replace(RECOMMENDED, levels="each")
CLICKS = replace(EACH, likelihood="bernoulli")
CHANGES: dict[str, tuple[str, adadim.EvidenceLinUCB, bool, adadim.EvidenceLinUCB, bool]] = {
    # in which world; policy, and whether products have the ranks of both, before; and after
    "ranks, home page": ("home page", EACH, False, EACH, True),
    "ranks, shop": ("shop", EACH, False, EACH, True),
    "ranks, home page, clicks": ("home page", CLICKS, False, CLICKS, True),
    "ranks, shop, clicks": ("shop, clicks", CLICKS, False, CLICKS, True),
    "radius, home page, clicks": ("home page", CLICKS, False, replace(CLICKS, scale=0.17), False),
    "radius, shop, clicks": ("shop, clicks", CLICKS, False, replace(CLICKS, scale=0.17), False),
}


def changed(world: str, seed: int, policy: adadim.EvidenceLinUCB, both: bool) -> float:
    """Regret in a world whose products have the ranks of both features, or of the arm's alone."""
    rounds = CHANGED[world](seed)
    if both:
        part, ranks = rounds.columns.slices["products"], list(rounds.columns.ranks)
        products = ranks[part]  # those of the arm's features, once for each of the visitor's
        width = max(products)
        ranks[part] = [rank * (1 + at // width) for at, rank in enumerate(products)]
        rounds.columns = replace(rounds.columns, ranks=tuple(ranks))
    with threadpool_limits(1):
        return rounds.regret(policy)


def changes(seeds: list[int], jobs: int) -> None:
    """Print the regret before and after each change, by seed."""
    sides = {(world, *side) for world, *both in CHANGES.values() for side in (tuple(both[:2]), tuple(both[2:]))}
    cells = list(itertools.product(sorted(sides, key=str), seeds))
    shares = Parallel(n_jobs=jobs)(delayed(changed)(world, seed, *side) for (world, *side), seed in cells)
    found, lines, ratios = dict(zip(cells, shares, strict=True)), [], defaultdict(list)
    for name, (world, *both) in CHANGES.items():
        before, after = ([found[(world, *side), seed] for seed in seeds] for side in (both[:2], both[2:]))
        ratios[name.split(",")[0]].append(statistics.fmean(after) / statistics.fmean(before))
        by_seed = ", ".join(f"{new / old:.3f}" for old, new in zip(before, after, strict=True))
        means = [f"{statistics.fmean(each):.4f}" for each in (before, after)]
        lines.append([name, *means, f"{ratios[name.split(',')[0]][-1]:.3f}", by_seed])
    print(markdown_table(["change", "before", "after", "ratio", "ratio of each seed"], lines))
    for name, each in ratios.items():
        print(f"{name}: geometric mean of the ratios {np.exp(np.mean(np.log(each))):.3f}, largest {max(each):.3f}")


WORLDS: dict[str, Callable[[int, Any], float]] = {
    "home page": lambda seed, policy: home_page(seed).regret(policy),
    "shop": lambda seed, policy: shop(seed).regret(policy),
    "groups": groups,
}


def worlds(seeds: list[int], jobs: int) -> None:
    """Print the regret of both policies in each world, by seed."""
    cells = list(itertools.product(WORLDS, seeds, POLICIES))
    shares = Parallel(n_jobs=jobs)(delayed(_alone)(world, seed, POLICIES[name]) for world, seed, name in cells)
    found = dict(zip(cells, shares, strict=True))
    lines, ratios = [], []
    for world in WORLDS:
        means = {name: statistics.fmean(found[world, seed, name] for seed in seeds) for name in POLICIES}
        ratios.append(means["each"] / means["one"])
        by_seed = ", ".join(f"{found[world, seed, 'each'] / found[world, seed, 'one']:.3f}" for seed in seeds)
        lines.append([world, f"{means['one']:.4f}", f"{means['each']:.4f}", f"{ratios[-1]:.3f}", by_seed])
    print(markdown_table(["world", "one prior", "each level", "ratio", "ratio of each seed"], lines))
    print(f"geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.3f}")


def _alone(world: str, seed: int, policy: adadim.EvidenceLinUCB) -> float:
    with threadpool_limits(1):
        return WORLDS[world](seed, policy)


def harm(trials: int, jobs: int, split: list[str]) -> None:
    """Print mean regrets in families without levels, cut into thirds as if they had some."""
    families = [family for family in FAMILIES if family.split in split]
    found = Parallel(n_jobs=jobs)(delayed(_cut_in_thirds)(family.instance, trials) for family in families)
    lines, ratios = [], []
    for family, (one, each) in zip(families, found, strict=True):
        ratios.append(each.mean() / one.mean())
        error = (each - ratios[-1] * one).std(ddof=1) / np.sqrt(trials) / one.mean()
        lines.append([family.name, f"{one.mean():.1f}", f"{each.mean():.1f}", f"{ratios[-1]:.3f} ± {error:.3f}"])
    print(markdown_table(["family", "one prior", "each third", "ratio"], lines))
    print(f"geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.3f}, largest {max(ratios):.3f}")


def _cut_in_thirds(table: dict[str, Any], trials: int) -> list[np.ndarray]:
    warnings.simplefilter("ignore", adadim.NormWarning)
    parameters = {key: value for key, value in table.items() if key != "kind"}
    with threadpool_limits(1):
        drawn = make_instance(instance_kinds()[table["kind"]], parameters, range(trials), seed=0)
        cut, dim = copy.copy(drawn), drawn.problem.dim
        ends = sorted({max(1, dim // 3), max(1, 2 * dim // 3), dim})
        cut.problem = drawn.problem.with_levels(ends)
        return [adadim.simulate(policy, cut, record=1).final for policy in POLICIES.values()]


def cost(turns: int = 40) -> None:
    """Print processor times of an agent's decision after a reward, without one, and of 100 at once, in turns."""
    lines = []
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        for products in (4, None):
            times: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in POLICIES}
            agents = {name: _trained(f"{folder}/{name}-{products}.db", products, name) for name in POLICIES}
            for turn, (name, agent) in itertools.product(range(turns), agents.items()):
                visitors = np.random.default_rng(turn).standard_normal((102, ABOUT_VISITOR))
                told = _timed(times[name]["after a reward"], agent.ask, context=visitors[0])
                _timed(times[name]["without one"], agent.ask, context=visitors[1])
                if turn % 8 == 0:
                    _timed(times[name]["100 at once"], agent.ask_many, visitors[2:])
                agent.tell(told.id, 1.0)
            for what in times["one"]:
                one, each = (1e3 * statistics.median(times[name][what]) for name in POLICIES)
                lines.append([str(agents["one"].dim), what, f"{one:.2f}", f"{each:.2f}", f"{each / one:.2f}"])
            for agent in agents.values():
                agent.close()
    print(markdown_table(["features", "ask, in ms", "one prior", "each level", "ratio"], lines))


def _trained(path: str, products: int | None, name: str) -> adadim.Agent:
    rng, features = np.random.default_rng(1), adadim.Features(products=products)
    agent = adadim.Agent.create(
        path, context=ABOUT_VISITOR, arm=ABOUT_ARTICLE, features=features, policy=POLICIES[name]
    )
    agent.set_arms({f"article {k}": row for k, row in enumerate(rng.standard_normal((ARTICLES, ABOUT_ARTICLE)))})
    decisions = agent.ask_many(rng.standard_normal((1500, ABOUT_VISITOR)))
    agent.tell_many([(decision.id, float(rng.random() < 0.3)) for decision in decisions])
    return agent


def _timed(times: list[float], call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    begun = time.thread_time()
    answer = call(*arguments, **more)
    times.append(time.thread_time() - begun)
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["worlds", "harm", "cost", "changes"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--split", nargs="+", default=["everyday", "contexts"])
    options = parser.parse_args()
    if options.what == "worlds":
        worlds(options.seeds, options.jobs)
    elif options.what == "harm":
        harm(options.trials, options.jobs, options.split)
    elif options.what == "changes":
        changes(options.seeds, options.jobs)
    else:
        cost()
    return 0


if __name__ == "__main__":
    sys.exit(main())
