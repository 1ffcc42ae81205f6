"""What a guard costs where the policy is right, and what it saves where the policy is misled.

The paper's configurations, and policies that mislead on the first of them: mean regret over some trials.

    python examples/guarded.py
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

import adadim

SHAPES = {
    "uniform, d* = 5": {"intrinsic_dim": 5},
    "uniform, d* = 12": {"intrinsic_dim": 12},
    "uniform, d* = 35": {"intrinsic_dim": 35},
    "expressive, d* = 12": {"intrinsic_dim": 12, "arms": 800, "dim": 400, "expressive": True},
    "decay, d* = 20": {"intrinsic_dim": 20, "theta": "decay"},
    "flip, d* = 20": {"intrinsic_dim": 20, "theta": "flip"},
}
EVERY = (16, 32, 64)


class BestThenWorst:
    """Pulls the best arm for 500 rounds, then the worst."""

    def __init__(self, means):
        self.best, self.worst, self.rounds = int(means.argmax()), int(means.argmin()), 0

    def select(self):
        return self.best if self.rounds < 500 else self.worst

    def update(self, arm, reward):
        self.rounds += 1


def misleading(instance):
    """Policies that lose in proportion to the rounds, by name."""
    means = np.asarray(instance.means)

    def script(problem, rng):
        return BestThenWorst(means[next(numbers) % len(means)])

    numbers = iter(range(10**6))
    return {"500 good rounds": adadim.Single(script), "LinUCB in one feature": adadim.LinUCB(dim=1, scale=0.1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=2500)
    arguments = parser.parse_args()
    title = f"mean regret after {arguments.horizon} rounds, {arguments.trials} trials"
    headings = ("problem", "policy", "alone", *(f"m = {m}" for m in EVERY), "guard alone")
    table = Table(*headings, title=title, caption="m: guarded, Guarded(policy, every=m)")
    for number, (shape, sizes) in enumerate(SHAPES.items()):
        known = {"arms": 1200, "dim": 600, "horizon": arguments.horizon, **sizes}
        instance = adadim.instances.sphere(**known, replications=range(arguments.trials))
        policies = {"recommended": adadim.recommended(instance.problem)}
        guard = adadim.Guarded().policies(instance.problem)[1]
        alone = adadim.simulate(guard, instance).final.mean()
        for name, policy in {**policies, **(misleading(instance) if number == 0 else {})}.items():
            played = [policy, *(adadim.Guarded(policy=policy, every=m) for m in EVERY)]
            lost = [adadim.simulate(p, instance).final.mean() for p in played]
            table.add_row(shape, name, *(f"{x:.1f}" for x in lost), f"{alone:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
