"""The commands `reproduce` and `claims`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from adadim.errors import StoreError
from adadim.experiments.paper import plan, verdicts
from adadim.experiments.paper.plan import EXPERIMENT, FIGURES, VARIANTS, study_name
from adadim.files import Place, as_place, write_whole
from adadim.report import draw_and_save
from adadim.report.console import (
    VERDICT_COLOURS,
    AsJson,
    Batch,
    Cluster,
    Device,
    Folder,
    Jobs,
    Quiet,
    Seed,
    Shading,
    Shared,
    WhichBand,
    as_json_text,
    band_of,
    client_of,
    errors,
    print_written,
    run_study,
    stdout,
    study_folders,
)
from adadim.study import Results, load

__all__ = ["claims", "reproduce"]

WhichFigure = StrEnum("WhichFigure", [*FIGURES, "all"])  # type: ignore[misc]
WhichVariant = StrEnum("WhichVariant", ["released", "theory", "both"])


def reproduce(
    figures: Annotated[
        list[WhichFigure], typer.Argument(help="Which figures of the paper, or all.", show_default=False)
    ],
    trials: Annotated[int, typer.Option("--trials", "-n", min=1, help="Replications; the paper has 100.")] = 100,
    variant: Annotated[
        WhichVariant,
        typer.Option(help="'theory' follows the paper's text, 'released' its code where the two differ."),
    ] = WhichVariant.released,
    out_folder: Annotated[
        str, typer.Option("--out", "-o", help="Where results, figures and claims go: a path or URL.")
    ] = "results",
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    batch: Batch = None,
    cluster: Cluster = None,
    shared: Shared = False,
    band: Shading = WhichBand.ci,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments, draw its figures, and hold its claims against the data.

    Runs what is missing in the results folder and nothing else. Interrupt it
    whenever you like: the same command goes on where it stopped, and more
    trials later add to what is there.

    Example: adadim reproduce fig2a fig2b --trials 20
    """
    names = [name for name in FIGURES if "all" in figures or name in figures]
    variants = [v for v in VARIANTS if variant in (WhichVariant.both, v)]
    with errors():
        out = as_place(out_folder, "out")
        with client_of(cluster) as client:
            for study in [plan.study(name, v, trials=trials, seed=seed) for name in names for v in variants]:
                results = run_study(study, out / study.name, jobs, batch, quiet, device, client, shared)
                print_written(draw_and_save(results, out / "figures" / study.name, band_of(band)), quiet)
        found = verdicts.claims(_results(out))
        write_whole(out / "claims.md", verdicts.claims_markdown(found).encode())
        write_whole(out / "claims.json", (as_json_text(found) + "\n").encode())
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


def _results(folder: str | Place) -> list[Results]:
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
