"""Microseconds for one decision and its learning where features come with each round, next to a bare NumPy loop.

The loop is Sherman and Morrison's update with no checks at all, the least that anybody would write: it scores all arms
with V^-1, takes the best and updates. adadim does the same through `select` and `update`, with its checks, random ties
and the bookkeeping that lets it be saved. Both see the same features and rewards, on one thread, in turns; the median
of the turns is given, and the ratio of the two.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

import adadim
from _report import arguments, describe, load, machine, table, write_json

SIZES = {"few arms": (10, 20, 4000), "shared features": (100, 100, 2000), "the paper's size": (1200, 600, 60)}
QUICK = {"few arms": (10, 20, 100)}
TURNS = 5
SETS = 50  # rounds of features made beforehand


def bare(features, rewards):
    """Arms that the loop chooses."""
    dim = features.shape[2]
    inverse, theta, arms = np.eye(dim) / 0.1, np.zeros(dim), []
    for t, reward in enumerate(rewards):
        x = features[t % SETS]
        scores = x @ theta + 0.5 * np.sqrt(np.einsum("ij,ij->i", x @ inverse, x))
        arm = int(scores.argmax())
        a = x[arm]
        u = inverse @ a
        c = 1 / (1 + a @ u)
        theta += c * (reward - a @ theta) * u
        inverse -= c * np.outer(u, u)
        arms.append(arm)
    return arms


def ours(features, rewards):
    """Arms that adadim chooses."""
    _, count, dim = features.shape
    problem = adadim.Problem(arms=count, dim=dim, horizon=len(rewards), noise=0.1)
    learner, arms = adadim.LinUCB(ridge=0.1, radius=0.5).start(problem), []
    for t, reward in enumerate(rewards):
        arms.append(learner.select(features[t % SETS]))
        learner.update(arms[-1], reward)
    return arms


def timed(function, features, rewards):
    begun = time.process_time()
    arms = function(features, rewards)
    return (time.process_time() - begun) / len(rewards) * 1e6, arms


def measure(sizes):
    rows = []
    for name, (arms, dim, rounds) in sizes.items():
        rng = np.random.default_rng(0)
        features, rewards = rng.standard_normal((SETS, arms, dim)) / dim**0.5, rng.standard_normal(rounds).tolist()
        times = {"bare loop": [], "adadim": []}
        for _ in range(TURNS):
            spent, expected = timed(bare, features, rewards)
            times["bare loop"].append(spent)
            spent, chosen = timed(ours, features, rewards)
            times["adadim"].append(spent)
        medians = {key: statistics.median(values) for key, values in times.items()}
        ratio = medians["adadim"] / medians["bare loop"]
        same = sum(a == b for a, b in zip(expected, chosen, strict=True)) / rounds
        rows.append({"size": name, "arms": arms, "dim": dim, **medians, "ratio": ratio, "same arms": same})
    return rows


def main() -> int:
    options = arguments("contexts", __doc__, "a small problem").parse_args()
    before = load()
    with threadpool_limits(1):
        rows = measure(QUICK if options.quick else SIZES)
    described = machine(("adadim", "numpy", "scipy"))
    described["load"] = {"before": before, "after": load()}
    report = {"benchmark": "contexts", "machine": described, "rows": rows}
    write_json(options.out, report)
    lines = [
        [
            r["size"],
            f"{r['arms']} x {r['dim']}",
            *(f"{r[k]:,.1f}" for k in ("bare loop", "adadim")),
            f"{r['ratio']:.2f}",
        ]
        for r in rows
    ]
    print(table(["", "arms x features", "bare loop, us", "adadim, us", "ratio"], lines))
    print(f"\n{describe(described)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
