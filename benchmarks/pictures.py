"""One picture for each idea of the users' pages, drawn from what the library computes.

    python benchmarks/pictures.py                  # all of them, into docs/images (ten seconds)
    python benchmarks/pictures.py levels clicks --out out

- log.png: an agent's log, and its model after some of the rows.
- levels.png: the prior of each level, early and late.
- pending.png: widths with and without pending decisions.
- half-life.png: how well each half-life predicts, and the one in use.
- clicks.png: a linear and a logistic model of the same clicks.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import adadim
from adadim.models.memory import HALF_LIVES, MemoryBank
from adadim.report.style import COLOURS

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
BLUE, BLACK, RED, _, GREEN, ORANGE, LIGHT = COLOURS


def draw_log(folder: Path) -> Any:
    """Rows of an agent's log, and mean and interval of each arm after 10, 40 and 160 of them."""
    rng, worth = np.random.default_rng(4), {"tea": 0.2, "coffee": 0.5, "cocoa": 0.35}
    arms = {name: [1.0, *row] for name, row in zip(worth, np.eye(3)[:, 1:].tolist(), strict=True)}
    figure, (log, model) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", width_ratios=[1.15, 1])
    rows, numbers = [], (10, 40, 160)
    with adadim.Agent.create(folder / "log.db", dim=3, seed=1, explore=0.1) as agent:
        agent.set_arms(arms)
        for n in range(1, numbers[-1] + 1):
            decision, late = agent.ask(), n in (6, 8)
            reward = worth[decision.arm] + 0.2 * rng.normal()
            rows.append([str(n), decision.arm, f"{decision.probability:.2f}", "pending" if late else f"{reward:.2f}"])
            if not late:
                agent.tell(decision.id, reward=reward)
            if n in numbers:
                place = numbers.index(n)
                for k, (name, (mean, deviation)) in enumerate(agent.estimate().items()):
                    colour, label = (BLUE, RED, GREEN)[k], name if place == 0 else None
                    at = place + 0.2 * (k - 1)
                    model.errorbar(at, mean, 2 * deviation, fmt="o", color=colour, capsize=3, label=label)
                    model.plot([at - 0.08, at + 0.08], [worth[name]] * 2, color=BLACK, lw=1)
    shown = [*rows[:8], ["...", "...", "...", "..."], rows[-1]]
    table = log.table(shown, colLabels=["decision", "arm", "probability", "reward"], loc="center", cellLoc="center")
    table.scale(1, 1.15)
    for (_, column), cell in table.get_celld().items():
        cell.set_linewidth(0.4)
        if column == 3 and cell.get_text().get_text() == "pending":
            cell.set_facecolor("#FFE5B4")
    log.set(title="the log: one row per decision")
    log.axis("off")
    model.set_xticks(range(3), [f"{n} rows" for n in numbers])
    model.set(title="the model: a function of the log", ylabel="reward: mean ± 2 deviations")
    model.plot([], [], color=BLACK, lw=1, label="truth")
    model.legend(frameon=False, ncols=4, fontsize="small", loc="upper center")
    model.set_ylim(top=model.get_ylim()[1] + 0.25)
    return figure


def draw_levels(folder: Path) -> Any:
    """Prior standard deviation of every coefficient, and the coefficients, where no product matters."""
    rng, colours = np.random.default_rng(0), (BLUE, ORANGE, RED)
    articles = {f"article-{k}": x for k, x in enumerate(rng.normal(size=(30, 8)))}
    effects, of_visitor = np.array([0.6, -0.4, 0.3, 0.0, 0.2, 0.0, 0.0, 0.0]), np.array([0.5, -0.3, 0.0, 0.0])
    truth = np.concatenate([[0.0], effects, of_visitor, np.zeros(32)])
    ranks = {"arm": [1, *range(1, 9)], "context": [*range(1, 5)], "products": [*range(1, 9)] * 4}
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained", sharey=True)
    with adadim.Agent.create(folder / "levels.db", context=4, arm=8, seed=1) as agent:
        agent.set_arms(articles)
        for n in range(1, 1001):
            visitor = rng.normal(size=4)
            decision = agent.ask(context=visitor)
            mean = effects @ articles[decision.arm] + of_visitor @ visitor
            agent.tell(decision.id, reward=mean + 0.5 * rng.normal())
            if n not in (20, 1000):
                continue
            axes, learned, begin = panels[int(n == 1000)], agent.describe()["learner"], 0
            for (name, end), colour in zip(agent.levels.items(), colours, strict=True):
                level = learned["levels"][name]
                deviations = learned["noise"] / np.sqrt(level["ridge"] * np.array(ranks[name], float) ** level["taper"])
                axes.bar(range(begin, end), deviations, 1.0, color=colour, alpha=0.6, label=name)
                begin = end
            axes.plot(np.abs(truth), ".", color=BLACK, ms=4, label="size of the coefficient")
            axes.set(title=f"after {n:,} decisions", xlabel="column")
    panels[0].set_ylabel("prior standard deviation")
    panels[1].legend(frameon=False, fontsize="small")
    return figure


def draw_pending(_: Path) -> Any:
    """Intervals of six arms after twelve decisions without rewards: pending ones left out, and counted."""
    arms = np.array([[math.cos(a), math.sin(a)] for a in np.linspace(0.0, 2.2, 6)])
    policy, noise, tried = adadim.LinUCB(), 0.3, (0, 2, 4)
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained", sharey=True)
    for axes, counted in zip(panels, (False, True), strict=True):
        learner = policy.start(adadim.Problem(arms, horizon=100, noise=noise), seed=3)
        learner.learn(np.array(tried), arms[list(tried)] @ [0.5, 0.4])
        waiting = np.zeros(len(arms), int)
        for _ in range(12):
            decision = learner.ask()
            waiting[decision.arms] += 1
            if not counted:
                learner.forget(decision)  # as if it had not been made
        means, _ = learner.estimates()  # by the rewards that are known
        pulls = np.concatenate([arms[list(tried)], np.repeat(arms, waiting, axis=0) if counted else arms[:0]])
        design = policy.ridge * np.eye(2) + pulls.T @ pulls
        widths = noise * np.sqrt(np.einsum("ij,ij->i", arms, np.linalg.solve(design, arms.T).T))
        axes.errorbar(range(1, 7), means, 2 * widths, fmt="o", color=BLUE, capsize=4)
        for k, upper in enumerate(means + 2 * widths):
            place = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "color": RED}
            axes.annotate(f"{waiting[k]}", (k + 1, upper), **place)
        axes.set(title="pending decisions count" if counted else "if pending decisions did not count", xlabel="arm")
    panels[0].set_ylabel("reward: mean ± 2 widths")
    panels[0].set_ylim(top=panels[0].get_ylim()[1] + 0.15)
    figure.supxlabel("red: how many of twelve decisions chose this arm", fontsize="small", color=RED)
    return figure


def draw_half_life(_: Path) -> Any:
    """Scores of the half-lives against the best, and the half-life in use, in a world that changes twice."""
    rng, rounds, changes = np.random.default_rng(0), 14_000, (2000, 11_000)
    features = rng.normal(size=(rounds, 4))
    theta = rng.normal(size=(3, 4)) / 2
    phase = np.searchsorted(changes, np.arange(rounds), side="right")
    rewards = (features * theta[phase]).sum(axis=1) + rng.normal(size=rounds)
    bank, seen, scores, used = MemoryBank(4), [], [], []
    for first in range(0, rounds, 64):
        part = slice(first, min(first + 64, rounds))
        bank.learn(np.arange(part.start + 1, part.stop + 1), features[part], rewards[part])
        seen.append(part.stop)
        scores.append(bank.scores - bank.scores.max())
        used.append(bank.half_life)
    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 4.2), layout="constrained", sharex=True)
    for k, (life, colour) in enumerate(zip(HALF_LIVES, (BLACK, BLUE, GREEN, ORANGE, RED), strict=True)):
        above.plot(
            seen, np.array(scores)[:, k], color=colour, label="no forgetting" if math.isinf(life) else f"{life:,.0f}"
        )
    above.axhline(-3, color="0.6", ls=":", lw=1)
    above.set(ylabel="score behind the best")
    above.legend(
        frameon=False,
        ncols=5,
        fontsize="small",
        title="half-life in decisions",
        loc="lower center",
        bbox_to_anchor=(0.5, 1),
    )
    places = [sorted(HALF_LIVES).index(life) for life in used]
    below.step(seen, places, where="post", color=BLUE)
    below.set_yticks(range(5), ["250", "800", "2,500", "8,000", "none"])
    below.set(xlabel="decision", ylabel="half-life in use")
    for axes in (above, below):
        for change in changes:
            axes.axvline(change, color="0.6", lw=1)
    below.annotate(
        "the world changes", (changes[0], 2), (4, -3), textcoords="offset points", fontsize="small", color="0.4"
    )
    return figure


def draw_clicks(folder: Path) -> Any:
    """Click rates by one feature, as a linear and as a logistic model estimate them from the same clicks."""
    rng, grid = np.random.default_rng(0), np.linspace(-2.5, 2.5, 41)
    truth = 1 / (1 + np.exp(4 - 1.6 * grid))
    x = rng.normal(size=1500)
    clicks = (rng.random(1500) < 1 / (1 + np.exp(4 - 1.6 * x))).astype(float)
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.9), layout="constrained", sharey=True)
    for axes, kind, title in zip(
        panels, ("gaussian", "bernoulli"), ("a linear model", 'a model of clicks: rewards="bernoulli"'), strict=True
    ):
        with adadim.Agent.create(folder / f"{kind}.db", dim=2, rewards=kind) as agent:
            agent.learn((np.column_stack([np.ones_like(x), x]), clicks))
            found = agent.estimate({str(k): [1.0, at] for k, at in enumerate(grid)})
        means, deviations = (np.array(part) for part in zip(*found.values(), strict=True))
        colour = BLUE if kind == "bernoulli" else RED
        axes.fill_between(grid, means - 2 * deviations, means + 2 * deviations, color=colour, alpha=0.2, lw=0)
        axes.plot(grid, means, color=colour, label="estimate ± 2 deviations")
        axes.plot(grid, truth, color=BLACK, ls="--", label="truth")
        axes.axhline(0, color="0.7", lw=0.8)
        axes.set(title=title, xlabel="feature")
        axes.legend(frameon=False, fontsize="small", loc="upper left")
    panels[0].set_ylabel("probability of a click")
    return figure


PICTURES: dict[str, Callable[[Path], Any]] = {
    "log": draw_log,
    "levels": draw_levels,
    "pending": draw_pending,
    "half-life": draw_half_life,
    "clicks": draw_clicks,
}


def main() -> None:
    """Draw the pictures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}; by default all")
    parser.add_argument("--out", type=Path, default=IMAGES)
    options = parser.parse_args()
    if unknown := set(options.names) - set(PICTURES):
        parser.error(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9})
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            figure = PICTURES[name](Path(folder))
        figure.savefig(options.out / f"{name}.png", dpi=130)
        plt.close(figure)
        print(options.out / f"{name}.png")


if __name__ == "__main__":
    main()
