"""The field in one table: regret of every policy on fixed families and on the paper's figures, cost, and what it asks.

    adadim study regret --families development --families held-out --trials 10 --out results/field
    adadim study regret --families fig2b-d5 ... --families fig3b-d35 --trials 10 --out results/field
    python benchmarks/field.py results/field          # the table as Markdown
    python benchmarks/field.py results/field --cost   # and core-seconds of a replication at the paper's size
    python benchmarks/field.py results/field --picture field-fig2b.png  # figure 2b with all masters

Regrets on figures are means over the seven values of d*; ratios are to the oracle's mean regret, LinUCB told d*.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import adadim
from adadim.experiments.comparison.plan import ORACLE, policies
from adadim.report.looks import ORACLE as ORACLE_LOOK
from adadim.report.looks import look_of
from adadim.study import Results, load

ASKS = {
    "recommended": "T", "two-prior": "T", "prefix": "T", "prefix-thompson": "T", "random": "nothing",
    "greedy": "nothing", "oracle": "d*, noise, T", "narrow-oracle": "d*, noise, T", "oracle-released": "d*, T",
    "medzo": "range, T", "moss": "range, T", "moss++": "range, T", "emp-moss++": "range, T",
    "parallel-moss": "range, T",
}  # fmt: skip
MASTERS = (
    "oracle", "linucb++", "recommended", "linucb++corral", "smooth-corral", "corral", "dynamic-balancing",
    "bound-balancing", "regret-balancing", "d3rb", "ed2rb", "bandit-combiner", "tsallis-corral", "ucb-corral",
    "epoch-balancing", "modcb", "osom", "alb-dim", "alb-norm",
)  # fmt: skip
FIGURES = ("fig2b", "fig3b", "fig4a", "fig4b")


def finals(results: Results, families: Iterable[str], policy: str) -> list[float]:
    """Mean regret of a policy on each of the families that it has finished as far as the oracle has."""
    found = []
    for family in families:
        trials = results.replications(family, ORACLE)
        if len(trials) and len(results.replications(family, policy)) == len(trials):
            found.append(float(results.final(family, policy).mean()))
    return found


def ratios(results: Results, policy: str) -> np.ndarray:
    """Ratio of mean regrets to the oracle's on every family where that loses something."""
    families = dict.fromkeys(family for family, _ in results.cells())
    pairs = ((results.final(f, policy).mean(), results.final(f, ORACLE).mean()) for f in families)
    return np.array([mine / oracle for mine, oracle in pairs if oracle > 1e-9])


def seconds(spec: Any) -> float:
    """Processor time of one replication of figure 2b with d* = 15."""
    instance = adadim.instances.sphere(arms=1200, dim=600, intrinsic_dim=15, horizon=2500, noise=0.1)
    policy = spec if isinstance(spec, adadim.Policy) else adadim.LinUCB(dim=15)
    begun = time.process_time()
    adadim.simulate(policy, instance, progress=False)
    return time.process_time() - begun


def draw(paper: Results, families: list[str], path: Path) -> None:
    """Mean regret against d* on figure 2b, of the masters and what they are compared with."""
    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    dims = [paper.parameters(family)["intrinsic_dim"] for family in families]
    for name, spec in policies().items():
        if name not in MASTERS:
            continue
        look = look_of(ORACLE_LOOK if name == ORACLE else type(spec).__name__)
        regrets = finals(paper, families, name)
        axes.plot(dims, regrets, markersize=5, label=name, **look)
    axes.set(xlabel="d*", ylabel="mean regret after 2500 rounds", ylim=0)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8, frameon=False)
    figure.savefig(path, dpi=150, metadata={"Software": None} if path.suffix == ".png" else None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    splits = {name: load(options.folder / f"regret-{name}") for name in ("development", "held-out")}
    paper = load(options.folder / "regret-paper")
    figures = {name: [f for f in dict.fromkeys(i for i, _ in paper.cells()) if f.startswith(name)] for name in FIGURES}
    figures = {name: families for name, families in figures.items() if finals(paper, families, ORACLE)}
    if options.picture:
        draw(paper, figures["fig2b"], options.picture)
        return 0
    heads = ["policy", *(f"{name}, median" for name in splits), *(f"{name}, worst" for name in splits), *figures]
    print("| " + " | ".join([*heads, *(["core-s"] if options.cost else []), "asks for"]) + " |")
    print("|---" * (len(heads) + 1 + options.cost) + "|")
    for name, spec in policies().items():
        found = [ratios(results, name) for results in splits.values()]
        cells = [f"{np.median(r):.2f}" for r in found] + [f"{r.max():.3g}" for r in found]
        for families in figures.values():
            regrets = finals(paper, families, name)
            cells.append(f"{np.mean(regrets):.0f}" if len(regrets) == len(families) else "")
        if options.cost:
            cells.append(f"{seconds(spec):.2f}")
        print("| " + " | ".join([name, *cells, ASKS.get(name, "noise, T")]) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
