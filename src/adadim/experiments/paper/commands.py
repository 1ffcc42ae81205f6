"""What `adadim reproduce` does with the paper's figures, and the command `claims`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from adadim.errors import StoreError
from adadim.experiments.paper import plan, verdicts
from adadim.experiments.paper.plan import EXPERIMENT, FIGURES, VARIANTS, study_name
from adadim.files import write_whole
from adadim.report import draw_and_save
from adadim.report.console import (
    VERDICT_COLOURS,
    AsJson,
    Folder,
    WhichBand,
    as_json_text,
    band_of,
    errors,
    print_written,
    run_study,
    stdout,
    study_folders,
)
from adadim.study import Results, load

__all__ = ["WhichVariant", "claims", "reproduce_figures"]

WhichVariant = StrEnum("WhichVariant", ["released", "theory", "both"])


def reproduce_figures(
    names: Sequence[str],
    trials: int,
    variant: WhichVariant,
    out_folder: Path,
    seed: int,
    jobs: int | None,
    device: str,
    batch: int | None,
    band: WhichBand,
    quiet: bool,
) -> None:
    """Run what is missing of some figures, draw them, and hold the paper's claims against the data."""
    variants = [v for v in VARIANTS if variant in (WhichVariant.both, v)]
    for study in [plan.study(name, v, trials=trials, seed=seed) for name in names for v in variants]:
        results = run_study(study, out_folder / study.name, jobs, batch, quiet, device)
        print_written(draw_and_save(results, out_folder / "figures" / study.name, band_of(band)), quiet)
    found = verdicts.claims(_results(out_folder))
    write_whole(out_folder / "claims.md", verdicts.claims_markdown(found).encode())
    write_whole(out_folder / "claims.json", (as_json_text(found) + "\n").encode())
    if not quiet:
        stdout().print(_table(v for v in found if v.figure in names and v.variant in variants))


def claims(folder: Folder, as_json: AsJson = False) -> None:
    """Hold the paper's claims against the results in a folder made by [bold]reproduce[/bold]."""
    with errors():
        found = verdicts.claims(_results(folder))
        if not found:
            raise StoreError(f"no figure of the paper in {folder}; try: adadim reproduce fig2a --out {folder}")
    if as_json:
        typer.echo(as_json_text(found))
    else:
        stdout().print(_table(found))


def _results(folder: Path) -> list[Results]:
    """Results of the paper's studies among those in a folder."""
    commands = {
        study_name(figure, variant): f"adadim reproduce {figure} --variant {variant} --out {folder}"
        for figure in FIGURES
        for variant in VARIANTS
    }
    found = [load(path) for path in study_folders(folder)]
    for results in found:
        if results.name in commands and not results.labels:
            raise StoreError(
                f"{results.folder}: stored by an older adadim, without labels; run it again, which finds the stored "
                f"blocks: {commands[results.name]} --trials {results.trials}"
            )
    return [results for results in found if results.labels.get("experiment") == EXPERIMENT]


def _table(found: Iterable[verdicts.Verdict]) -> Table:
    """A row per claim: verdict, statistic and 95% interval for each variant."""
    header, *rows = verdicts.claims_table(
        found, lambda v: f"[{VERDICT_COLOURS[v.verdict]}]{escape(verdicts.entry(v))}[/]"
    )
    table = Table(*(header[:2] + header[3:]), title="The paper's claims", show_lines=True)
    for figure, claim, _, *entries in rows:
        table.add_row(figure, claim, *entries)
    return table
