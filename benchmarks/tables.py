"""The tables in docs/: which source gave their numbers, and whether the present one still does.

    python benchmarks/tables.py            # compute a little of each table again; the exit code is 1 if it differs
    python benchmarks/tables.py --record   # and whole cells besides (some minutes); then note the present source

Beside the tables of a folder lies `made-by.json`: version and digest of the source (`adadim.study.source`) that last
made them or was found to give their numbers, and for each table the regret of replication 0 of every policy on one of
its instances. A digest changes with the code, these regrets with the numbers alone: the first command computes
them again wherever the digest is another. The second also computes whole cells, all trials of them, and compares them
with the table as it is written; it writes `made-by.json` only if all agree. Numbers agree if they differ by rounding at
most: on the processor that made a table they are the same to the last digit, on another BLAS adds in another order.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from adadim.errors import SetsWarning
from adadim.experiments import comparison, paper
from adadim.report.figures import summary
from adadim.study import Results, Study, run
from adadim.study.source import present

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTE = "made-by.json"
FAMILY = "sphere-uniform-1/100"  # of the comparison: the one of the fewest rounds that needs no data
QUICK = ("oracle", "linucb++", "greedy", "ucb", "moss", "random")  # policies of the field that take little time
ROUNDING = 1e-6  # a smaller relative difference is one of rounding


@dataclass(frozen=True)
class Table:
    """A table, the study that it was made from, an instance to try, and what compares whole cells with what it says."""

    file: str  # below docs/
    study: Study
    instance: str
    compare: Callable[[Table], list[str]]

    @property
    def note(self) -> Path:
        """The file that says which source made it."""
        file = DOCS / self.file
        return (file.parent if file.suffix == ".csv" else file.with_suffix("")) / NOTE

    def run(self, policies: Iterable[str], trials: int) -> Results:
        """What the present source gives for some policies on the instance."""
        plan = self.study.to_dict()
        part = {
            "name": plan["name"],
            "instances": {self.instance: plan["instances"][self.instance]},
            "policies": {policy: plan["policies"][policy] for policy in policies},
            "trials": trials,
            "seed": plan["seed"],
            "record": plan["record"],
        }
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", SetsWarning)
            results = run(Study.from_dict(part), folder, jobs=1 if trials == 1 else None, progress=False)
            results.frame()  # read as long as it is there
        return results

    def regrets(self, policies: Sequence[str]) -> dict[str, float]:
        """Regret of policies after the last round of replication 0."""
        results = self.run(policies, 1)
        return {policy: float(results.final(self.instance, policy)[0]) for policy in policies}


def agree(computed: float, written: float) -> bool:
    """Whether two numbers are the same but for rounding."""
    return abs(computed - written) <= ROUNDING * max(1.0, abs(written))


def compare_figure(table: Table) -> list[str]:
    """Rounds in which the oracle's mean regret or its spread differ."""
    written = pl.read_csv(DOCS / table.file)
    written = written.filter((pl.col("instance") == table.instance) & (pl.col("policy") == "oracle"))
    columns = ("time", "mean", "std")
    computed = summary(table.run(["oracle"], table.study.trials)).select(columns).rows()
    pairs = zip(computed, written.select(columns).rows(), strict=True)
    return [f"oracle: {new}, not {old}" for new, old in pairs if not all(map(agree, new, old))]


def compare_regrets(table: Table) -> list[str]:
    """Policies whose mean regret on the family differs."""
    written = pl.read_csv(DOCS / table.file).filter(pl.col("family") == table.instance)
    results = table.run(written["policy"], table.study.trials)
    computed = {policy: float(results.final(table.instance, policy).mean()) for policy in written["policy"]}
    rows = written.select("policy", "regret").rows()
    return [f"{policy}: {computed[policy]}, not {old}" for policy, old in rows if not agree(computed[policy], old)]


def compare_field(table: Table) -> list[str]:
    """Policies whose mean regret on figure 2a differs from what docs/notebook/field.md has, rounded as there."""
    lines = [line.strip("| ").split(" | ") for line in (DOCS / table.file).read_text(encoding="utf-8").splitlines()]
    (head,) = [line for line in lines if line[0] == "policy" and "fig2a" in line]
    written = {line[0]: line[head.index("fig2a")] for line in lines if len(line) == len(head)}
    instances = {"fig2a": next(iter(paper.FIGURES["fig2a"].instances().values()))}
    curves = replace(table, study=replace(table.study, instances=instances, only={}), instance="fig2a")
    results = curves.run(QUICK, table.study.trials)
    computed = {policy: f"{results.final('fig2a', policy).mean():.0f}" for policy in QUICK}
    return [f"{policy}: {new}, not {written[policy]}" for policy, new in computed.items() if new != written[policy]]


def tables() -> list[Table]:
    """All tables that have such a file beside them."""
    listed = []
    for figure in paper.FIGURES:
        for variant in paper.VARIANTS:
            study = paper.study(figure, variant)
            listed.append(Table(f"reproduction/{study.name}.csv", study, next(iter(study.instances)), compare_figure))
    for name in ("regret-vs-oracle", "regret-vs-linucb++"):
        compared = pl.read_csv(DOCS / "comparison" / f"{name}.csv")["policy"].unique(maintain_order=True).to_list()
        study = comparison.study("development", policy=compared, family=[FAMILY])
        listed.append(Table(f"comparison/{name}.csv", study, FAMILY, compare_regrets))
    study = comparison.study("development", trials=10, family=[FAMILY])
    return [*listed, Table("notebook/field.md", study, FAMILY, compare_field)]


def differences(table: Table, note: dict[str, Any]) -> list[str]:
    """How replication 0 differs from what was noted, a text for each policy; the same source computes nothing."""
    if note["source"] == present().source:
        return []
    noted = {policy: float.fromhex(regret) for policy, regret in note["tables"][table.file].items()}
    known = [policy for policy in noted if policy in table.study.policies]
    computed = table.regrets(known)
    removed = [f"{policy}: no longer in the study" for policy in noted if policy not in known]
    differ = [policy for policy in known if not agree(computed[policy], noted[policy])]
    return removed + [f"{policy}: {computed[policy]}, not {noted[policy]}" for policy in differ]


def outdated(table: Table) -> str:
    """A sentence that says that a table is out of date and what to do, or nothing."""
    note = json.loads(table.note.read_text(encoding="utf-8"))
    if not (differ := differences(table, note)):
        return ""
    return (
        f"docs/{table.file} has the numbers of adadim {note['adadim']}, source {note['source']}, and {present()} gives "
        f"others (replication 0 of {table.instance}, {'; '.join(differ)}): make it again with the command in "
        f"docs/{note['page']}, then python benchmarks/tables.py --record"
    )


def record() -> int:
    """Compare whole cells with the tables, and note the present source if all agree."""
    notes: dict[Path, dict[str, Any]] = {}
    pages = {
        "reproduction": "reproduction/README.md",
        "comparison": "notebook/how-the-default-was-chosen.md",
        "field": "notebook/field.md",
    }
    failed = False
    for table in tables():
        differ = table.compare(table)
        failed |= bool(differ)
        print(f"{table.file}: {'; '.join(differ[:3]) or 'the same'}", flush=True)
        by = {
            "adadim": present().version,
            "source": present().source,
            "page": pages[table.note.parent.name],
            "tables": {},
        }
        noted = {policy: regret.hex() for policy, regret in table.regrets(tuple(table.study.policies)).items()}
        notes.setdefault(table.note, by)["tables"][table.file] = noted
    if not failed:
        for path, note in notes.items():
            path.write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="compare whole cells too, and note the present source")
    if parser.parse_args().record:
        return record()
    sentences = [sentence for table in tables() if (sentence := outdated(table))]
    print("\n".join(sentences) or f"every table agrees with {present()}")
    return int(bool(sentences))


if __name__ == "__main__":
    sys.exit(main())
