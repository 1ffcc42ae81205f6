"""Share of the best that is earned on real data, by how many features a policy is given.

Features have a natural order: principal components of images (mnist), latent factors of films and then products with
what is known of a person (movielens), attributes of alternatives and then products (swissmetro, car). A policy is given
the first ones, at several cuts, or all. Others have to find the right cut; `adadim.recommended` should be given all.

Every policy plays the same orders of the data, 10 of them; `LinTS` is left out on mnist, where an order of it takes
minutes. The share is (mean reward - that of random play) / (best
possible - random), for movielens and the surveys too, where nobody can know what a person will choose.

    python benchmarks/features_given.py out/features_given          the table; goes on where it was stopped
    python benchmarks/features_given.py out/features_given --only movielens --figure docs/images/features-given.png
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from adadim.report import markdown_table
from adadim.study import Results, Study, run

TRIALS, HORIZON = 10, 5_000
POLICIES: dict[str, dict[str, Any]] = {
    "recommended": {"kind": "recommended"},
    "LinUCB(scale=0.35)": {"kind": "LinUCB", "scale": 0.35},
    "LinTS": {"kind": "LinTS"},
    "random": {"kind": "Random"},
}
LEFT_OUT = {"mnist": ["LinTS"]}
CUTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "mnist": [
        (str(m), {"kind": "labelled", "data": "mnist", "covariates": m, "horizon": HORIZON})
        for m in (5, 10, 20, 50, 100)
    ],
    "movielens": [
        *((str(m), {"kind": "ratings", "factors": m, "products": 0, "horizon": HORIZON}) for m in (5, 10, 20, 50)),
        ("50 and products", {"kind": "ratings", "factors": 50, "horizon": HORIZON}),
    ],
    "swissmetro": [
        (str(d), {"kind": "choices", "data": "swissmetro", "dim": d, "horizon": HORIZON}) for d in (4, 8, 18, 95, 193)
    ],
    "car": [(str(d), {"kind": "choices", "data": "car", "dim": d, "horizon": 4_600}) for d in (10, 18, 171, 222)],
}


def studies(quick: bool) -> list[Study]:
    """One for each data set, with all its cuts; quick: two cuts of two data sets, 200 rounds, two orders."""
    plans = []
    for name in ("movielens", "car") if quick else CUTS:
        cuts = dict(CUTS[name][:2] if quick else CUTS[name])
        instances = {label: {**table, "horizon": 200} if quick else table for label, table in cuts.items()}
        policies = {policy: table for policy, table in POLICIES.items() if policy not in LEFT_OUT.get(name, [])}
        plans.append(Study(name, instances, policies, trials=2 if quick else TRIALS))
    return plans


def shares(plan: Study, results: Results) -> list[dict[str, Any]]:
    """For each cut and policy: mean share of the best, and half the width of its 95% interval."""
    rows = []
    for label in plan.instances:
        chance = results.final(label, "random")
        for policy in plan.policies:
            if policy == "random":
                continue
            share = 1 - results.final(label, policy) / chance.mean()
            error = 2.26 * share.std(ddof=1) / np.sqrt(len(share))  # Student's t with 9 degrees of freedom
            rows.append({"data": plan.name, "given": label, "policy": policy, "share": share.mean(), "error": error})
    return rows


def printed(rows: list[dict[str, Any]]) -> str:
    """A table for each data set, the cuts from left to right."""
    parts = []
    for name in dict.fromkeys(row["data"] for row in rows):
        here = [row for row in rows if row["data"] == name]
        cuts = list(dict.fromkeys(row["given"] for row in here))
        lines = [
            [policy, *(f"{row['share']:.3f} ± {row['error']:.3f}" for row in here if row["policy"] == policy)]
            for policy in dict.fromkeys(row["policy"] for row in here)
        ]
        parts.append(markdown_table([f"{name}, given", *cuts], lines))
    return "\n\n".join(parts)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """One panel for each data set."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, panels = plt.subplots(1, len(names), figsize=(max(6.4, 3.1 * len(names)), 3.2), squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        for policy in dict.fromkeys(row["policy"] for row in rows if row["data"] == name):
            here = [row for row in rows if row["data"] == name and row["policy"] == policy]
            places = range(len(here))
            panel.errorbar(
                places, [row["share"] for row in here], [row["error"] for row in here], marker="o", label=policy
            )
            panel.set_xticks(places, [row["given"].replace(" and ", "\nand ") for row in here], fontsize=8)
        panel.set_title(name)
        panel.set_xlabel("factors given" if name == "movielens" else "features given")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("share of the best earned")
    panels[0][0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where results are kept; a second run goes on from there")
    parser.add_argument("--quick", action="store_true", help="two data sets, two cuts, 200 rounds: seconds")
    parser.add_argument("--only", choices=CUTS, help="one data set")
    parser.add_argument("--figure", type=Path, help="draw the shares into this file")
    parser.add_argument("--jobs", type=int, help="worker processes; by default one for each core")
    given = parser.parse_args(arguments)
    rows = []
    for plan in studies(given.quick):
        if given.only not in (None, plan.name):
            continue
        rows += shares(plan, run(plan, given.folder / plan.name, jobs=given.jobs))
    print(printed(rows))
    if given.figure is not None:
        draw(rows, given.figure)
        print(f"\n{given.figure}")


if __name__ == "__main__":
    main(sys.argv[1:])
