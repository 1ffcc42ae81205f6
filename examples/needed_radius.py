"""How wide a radius would have kept the best arm optimistic in every round, beside the radius that is proved.

For each run, the largest (mean of the best arm - its estimate) / (radius x width) over all rounds: the factor on
sigma sqrt(2 ln(2 T^1.5 K)) below which some round's upper value of the best arm was below its mean. The play is that
of LinUCB with a factor of 0.35 in the first d* features, and the last column is the factor that is proved.

    python examples/needed_radius.py
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

import adadim
from adadim.policies.confidence import noise_radius, root_radius

ARMS, NOISE, SHARE = 100, 0.1, 0.35


def needed(intrinsic_dim, horizon, trials):
    """The factor of each run (R,), and the proved one at the end, on average."""
    instance = adadim.instances.sphere(
        arms=ARMS, dim=60, intrinsic_dim=intrinsic_dim, horizon=horizon, noise=NOISE, replications=range(trials)
    )
    policy = adadim.LinUCB(dim=intrinsic_dim, ridge=NOISE**2, scale=SHARE)
    learner, rng, runs = policy.start(instance.problem), np.random.default_rng(0), np.arange(trials)
    means, largest = np.asarray(instance.means), np.zeros(trials)
    best, unit = means.argmax(axis=1), noise_radius(NOISE, horizon, ARMS)
    for _ in range(horizon):
        mean, width2 = learner.model.predict(learner.everyone)
        short = means[runs, best] - mean[runs, best]
        largest = np.maximum(largest, short / (unit * np.sqrt(width2[runs, best])))
        arms = learner.select()
        learner.update(arms, means[runs, arms] + NOISE * rng.standard_normal(trials))
    proved = root_radius(NOISE, NOISE**2, 1.0, horizon**-0.5, learner.model.logdet)
    return largest, float(proved.mean()) / unit


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--horizon", type=int, default=2000)
    arguments = parser.parse_args()
    table = Table("d*", "median", "90%", "share of runs above 0.35", "proved")
    for intrinsic_dim in (2, 5, 15, 40):
        factors, proved = needed(intrinsic_dim, arguments.horizon, arguments.trials)
        above = f"{(factors > SHARE).mean():.0%}"
        table.add_row(
            str(intrinsic_dim), f"{np.median(factors):.2f}", f"{np.quantile(factors, 0.9):.2f}", above, f"{proved:.2f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
