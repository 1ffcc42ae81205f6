"""Microseconds for one decision and its learning where features come with each round, next to a bare NumPy loop.

The loop is Sherman and Morrison's update with no checks at all, the shortest code for it: it scores all arms
with V^-1, takes the best and updates. adadim does the same through `select` and `update`, with its checks, random ties
and the bookkeeping that lets it be saved. Both see the same features and rewards, on one thread, in turns; the median
of the turns is given, and the ratio of the two.

Then one decision and its learning on 10 arms and 20 covariates with a model for each arm, next to the packages that are
installed: Vowpal Wabbit, river, MABWiser and bayesianbandits (`_context_peers.py`), in turns too.

With --long also how far the regression is from a fresh solve after 100,000 rounds in 50 features.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

import adadim
from _context_peers import installed
from _report import arguments, describe, load, machine, table, write_json

SIZES = {"few arms": (10, 20, 4000), "shared features": (100, 100, 2000), "the paper's size": (1200, 600, 60)}
QUICK = {"few arms": (10, 20, 100)}
TURNS, PEER_TURNS = 5, 15  # those of the packages are short
ARMS, COVARIATES = 10, 20  # of the comparison with other packages
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


def measure_peers(quick):
    """Microseconds of one decision and its learning, of adadim and of the packages that are installed."""
    rng = np.random.default_rng(0)
    contexts, peers = rng.standard_normal((100, COVARIATES)) / COVARIATES**0.5, installed()
    times: dict[str, list[float]] = {name: [] for name, *_ in peers}
    for _ in range(1 if quick else PEER_TURNS):
        for name, _, play, rounds, _ in peers:
            rewards = rng.standard_normal(20 if quick else rounds).tolist()
            begun = time.process_time()
            play(contexts, rewards, ARMS)
            times[name].append((time.process_time() - begun) / len(rewards) * 1e6)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ours = medians["adadim, disjoint"]
    return [
        {"package": name, "us": medians[name], "times adadim": medians[name] / ours, "wanted": wanted}
        for name, _, _, _, wanted in peers
    ]


def drift(rounds, dim=50):
    """Largest relative error of means and widths after so many rounds of LinUCB, against a fresh solve."""
    rng = np.random.default_rng(1)
    problem = adadim.Problem(arms=4, dim=dim, horizon=rounds, noise=0.1)
    learner, theta = adadim.LinUCB().start(problem), rng.standard_normal(dim) / dim**0.5
    second, b = 0.1 * np.eye(dim), np.zeros(dim)
    for _ in range(rounds):
        features = rng.standard_normal((4, dim)) / dim**0.5
        x = features[arm := learner.select(features)]
        reward = float(x @ theta + 0.1 * rng.standard_normal())
        learner.update(arm, reward)
        second += np.outer(x, x)
        b += reward * x
    offered = rng.standard_normal((1, 100, dim)) / dim**0.5
    mean, width2 = learner.model.regression.predict(offered, learner.everyone)
    exact = offered[0] @ np.linalg.solve(second, b), np.vecdot(offered[0], np.linalg.solve(second, offered[0].T).T)
    return max(float(np.abs(a - e).max() / np.abs(e).max()) for a, e in zip((mean[0], width2[0]), exact, strict=True))


def main() -> int:
    parser = arguments("contexts", __doc__, "a small problem")
    parser.add_argument("--long", action="store_true", help="also the error after 100,000 rounds (about 10 s)")
    options = parser.parse_args()
    before = load()
    with threadpool_limits(1):
        rows = measure(QUICK if options.quick else SIZES)
        peers = measure_peers(options.quick)
        error = drift(100_000) if options.long else None
    described = machine(("adadim", "numpy", "scipy", "vowpalwabbit", "river", "mabwiser", "bayesianbandits"))
    described["load"] = {"before": before, "after": load()}
    report = {"benchmark": "contexts", "machine": described, "rows": rows, "peers": peers, "drift": error}
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
    print(f"\n{ARMS} arms, {COVARIATES} covariates, a model for each arm: one decision and its learning\n")
    lines = [
        [p["package"], f"{p['us']:,.1f}", f"{p['times adadim']:.1f}", f"{p['wanted']}" if p["wanted"] else ""]
        for p in peers
    ]
    print(table(["", "us", "times adadim's", "wanted"], lines))
    if error is not None:
        print(f"\nafter 100,000 rounds in 50 features, largest relative error against a fresh solve: {error:.1e}")
    print(f"\n{describe(described)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
