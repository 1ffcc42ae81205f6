"""The field in one table: regret of every policy, what it costs, what it must be told, and what is proved of it.

    adadim study regret --families development --families held-out --trials 10 --out results/field
    adadim study regret --families contexts --families contexts-held-out --trials 10 --out results/field
    adadim study regret --families fig2b-d5 ... --families fig4b-d35 --trials 10 --out results/field
    python benchmarks/field.py results/field --curves      # figures 2a and 3a with every policy
    python benchmarks/field.py results/field --cost        # core-seconds of a replication; writes cost.json there
    python benchmarks/field.py results/field               # the table as Markdown
    python benchmarks/field.py results/field --by-family   # mean, median and largest regret of two policies
    python benchmarks/field.py docs --guarantees  # write columns and tables of what is proved into docs/

Regrets on figures are means over the seven values of d* (2a and 3a have one). Ratios are two, "a / b": to the mean
regret of the oracle, LinUCB told d* with the radius of the theory, and to that of the narrow oracle, told d* too, whose
radius is the 0.35 of it that the recommended policy has.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import adadim
from _guarantees import BY_NAME, GUARANTEES
from adadim.experiments.comparison.plan import ORACLE, policies
from adadim.experiments.paper.plan import FIGURES as PAPER
from adadim.report import markdown_table
from adadim.study import Results, Study, load, run

# What a policy must be told; "noise, T" is what most must.
ASKS = {
    "recommended": "T", "evidence": "T", "two-prior": "T", "prefix": "T", "prefix-thompson": "T", "random": "nothing",
    "greedy": "nothing", "oracle": "d*, noise, T", "narrow-oracle": "d*, noise, T", "oracle-released": "d*, noise, T",
}  # fmt: skip
CURVES, AGAINST_ALPHA = ("fig2a", "fig3a"), ("fig2b", "fig3b", "fig4a", "fig4b")
TRIALS, LOCK_STEP = 10, 10
NARROW = "narrow-oracle"
COLUMNS = 16  # of the table in docs/notebook/field.md
BEGIN, END = "<!-- what is proved: begin -->\n", "\n<!-- what is proved: end -->"


def finals(results: Results, families: Iterable[str], policy: str) -> list[float]:
    """Mean regret of a policy on each of the families that it has finished as far as the oracle has."""
    means = []
    for family in families:
        trials = results.replications(family, ORACLE)
        if len(trials) and len(results.replications(family, policy)) == len(trials):
            means.append(float(results.final(family, policy).mean()))
    return means


def ratios(results: Results, policy: str, oracle: str) -> np.ndarray:
    """Ratio of mean regrets to an oracle's on every family where that loses something."""
    families = dict.fromkeys(family for family, _ in results.cells())
    pairs = ((results.final(f, policy).mean(), results.final(f, oracle).mean()) for f in families)
    return np.array([mine / least for mine, least in pairs if least > 1e-9])


def beside(results: Results, policy: str, what: Callable[[np.ndarray], float], form: str) -> str:
    """The median or the worst ratio to the oracle, and to the oracle of the narrow radius."""
    if policy not in results.policies:
        return ""
    return " / ".join(format(what(ratios(results, policy, oracle)), form) for oracle in (ORACLE, NARROW))


def asks(policy: str) -> str:
    """What a policy must be told."""
    return ASKS.get(policy, "noise, T")


def proved(policy: str) -> str:
    """What is proved of a policy as it is run here, and the assumption that fails if one does."""
    return BY_NAME[policy].label


def write_guarantees(docs: Path) -> None:
    """Write what policies must be told into the table of field.md, and what is proved there and into guarantees.md."""
    page = docs / "notebook" / "field.md"
    measured, lines = {}, page.read_text(encoding="utf-8").splitlines()
    for i, line in enumerate(lines):
        cells = line.strip("| ").split(" | ")
        if cells[0] in BY_NAME and len(cells) == COLUMNS:
            measured[cells[0]] = cells[2]
            lines[i] = "| " + " | ".join([*cells[:-2], asks(cells[0]), proved(cells[0])]) + " |"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    page = docs / "notebook" / "guarantees.md"
    before, _, after = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(before + BEGIN + guarantees_table(measured) + END + after.partition(END)[2], encoding="utf-8")


def guarantees_table(measured: dict[str, str]) -> str:
    """Policy, what is proved, assumptions, what is measured: median regret over both oracles' on held-out families."""
    rows = ["\n| policy | proved | under which assumptions, or which one fails | measured |", "|---|---|---|---|"]
    for row in GUARANTEES:
        bound = ", ".join(filter(None, (row.bound, row.source)))
        ratios = ", ".join(f"{name} {measured[name]}" for name in row.names) or "not run"
        says = f"**{row.verdict}**" + (f": {bound}" if bound else "")
        rows.append(f"| `{row.policy}` | {says} | {row.assumes or 'fails: ' + row.fails} | {ratios} |")
    return "\n".join(rows) + "\n"


def run_curves(folder: Path) -> None:
    """Figures 2a and 3a of the paper with every policy of the comparison."""
    instances = {figure: table for figure in CURVES for table in PAPER[figure].instances().values()}  # one each
    study = Study("curves", instances=instances, policies=policies(), trials=TRIALS, record=10)
    run(study, folder / "curves")


def seconds(spec: Any) -> float:
    """Processor time of one replication of figure 2b with d* = 15, of several in lock step."""
    instance = adadim.instances.sphere(
        arms=1200, dim=600, intrinsic_dim=15, horizon=2500, noise=0.1, replications=range(LOCK_STEP)
    )
    policy = spec if isinstance(spec, adadim.Policy) else adadim.LinUCB(dim=15, scale=spec.get("scale", 1.0))
    begun = time.process_time()
    with threadpool_limits(1):
        adadim.simulate(policy, instance, progress=False)
    return (time.process_time() - begun) / LOCK_STEP


def measure_cost(path: Path) -> None:
    """Core-seconds of every policy, into a file."""
    cost = {}
    for name, spec in policies().items():
        cost[name] = seconds(spec)
        print(f"{name}: {cost[name]:.3f}", flush=True)
    path.write_text(json.dumps(cost, indent=1) + "\n")


def figure_means(folder: Path) -> dict[str, dict[str, float]]:
    """Mean regret of every policy on each figure that every policy has finished."""
    paper, means = load(folder / "regret-paper"), {}
    sources = {f: (paper, [i for i in paper.instances if i.startswith(f)]) for f in AGAINST_ALPHA}
    if (folder / "curves").exists():
        curves = load(folder / "curves")
        sources |= {f: (curves, [f]) for f in CURVES}
    for figure in sorted(sources):
        results, families = sources[figure]
        regrets = {name: finals(results, families, name) for name in policies()}
        if families and all(len(values) == len(families) for values in regrets.values()):
            means[figure] = {name: float(np.mean(values)) for name, values in regrets.items()}
    return means


def print_table(folder: Path) -> None:
    """Every policy with everything."""
    names = ("development", "held-out", "contexts", "contexts-held-out")
    splits = {name: load(folder / f"regret-{name}") for name in names if (folder / f"regret-{name}").exists()}
    figures = figure_means(folder)
    measured = folder / "cost.json"
    cost = json.loads(measured.read_text()) if measured.exists() else {}
    worst = [name for name in splits if not name.startswith("contexts")]
    heads = ["policy", *splits, *(f"{name}, worst" for name in worst), *figures, "core-s", "requires", "proved"]
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for name in policies():
        cells = [beside(results, name, np.median, ".2f") for results in splits.values()]
        cells += [beside(splits[split], name, np.max, ".3g") for split in worst]
        cells += [f"{means[name]:.0f}" for means in figures.values()]
        cells.append(f"{cost[name]:.2f}" if name in cost else "")
        print("| " + " | ".join([name, *cells, asks(name), proved(name)]) + " |")


def print_by_family(folder: Path) -> None:
    """Mean, median and largest regret of the recommended policy, `EvidenceLinUCB()` and the narrow oracle."""
    names = ("recommended", "evidence", NARROW, "random")
    heads = ["family", "recommended", "`EvidenceLinUCB()`", "narrow oracle", "uniform play"]
    for split in ("development", "held-out", "contexts", "contexts-held-out"):
        results, rows = load(folder / f"regret-{split}"), []
        for family in results.instances:
            finals = [results.final(family, name) for name in names]
            cells = [f"{r.mean():.1f} / {np.median(r):.1f} / {r.max():.1f}" for r in finals[:-1]]
            rows.append([family, *cells, f"{finals[-1].mean():.0f}"])
        print(f"## {split}\n\n{markdown_table(heads, rows)}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--curves", action="store_true", help="run figures 2a and 3a with every policy")
    parser.add_argument("--cost", action="store_true", help="measure core-seconds and write FOLDER/cost.json")
    parser.add_argument("--by-family", action="store_true", help="print regrets of the recommended policy by family")
    parser.add_argument("--guarantees", action="store_true", help="write what is proved into the pages of that folder")
    options = parser.parse_args()
    if options.curves:
        run_curves(options.folder)
    elif options.cost:
        measure_cost(options.folder / "cost.json")
    elif options.by_family:
        print_by_family(options.folder)
    elif options.guarantees:
        write_guarantees(options.folder)
    else:
        print_table(options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
