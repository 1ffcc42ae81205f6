"""The command `reproduce`: the paper's figures, and other people's tables."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from adadim.experiments.field.commands import reproduce_tables
from adadim.experiments.field.plan import TABLES
from adadim.experiments.paper.commands import WhichVariant, reproduce_figures
from adadim.experiments.paper.plan import FIGURES
from adadim.report.console import Batch, Device, Jobs, Quiet, Seed, Shading, WhichBand, errors

__all__ = ["reproduce"]

What = StrEnum("What", [*FIGURES, "all", *TABLES])  # type: ignore[misc]


def reproduce(
    what: Annotated[
        list[What],
        typer.Argument(help="Figures of the paper, all of them, or tables of other papers.", show_default=False),
    ],
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials", "-n", min=1, help="Replications; by default 100 for the paper, else as many as the source has."
        ),
    ] = None,
    variant: Annotated[
        WhichVariant,
        typer.Option(help="Of figures: 'theory' follows the paper's text, 'released' its code where the two differ."),
    ] = WhichVariant.released,
    horizon: Annotated[
        int | None,
        typer.Option(
            min=1, help="Of tables: rounds, to try them out; by default the source's (arora21: a tenth of them)."
        ),
    ] = None,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Where results, figures and tables go.")] = Path(
        "results"
    ),
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    batch: Batch = None,
    band: Shading = WhichBand.ci,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments, draw its figures, and hold its claims against the data.

    Runs what is missing in the results folder and nothing else. Interrupt it
    whenever you like: the same command goes on where it stopped, and more
    trials later add to what is there.

    d3rb24, osom20, albdim21, rb20 and arora21 are experiments of other papers:
    each number reported is put beside ours, with an interval, a verdict, and
    what it really measured where that is known.

    Example: adadim reproduce fig2a fig2b --trials 20
    """
    figures = [name for name in FIGURES if "all" in what or name in what]
    with errors():
        if figures:
            reproduce_figures(figures, trials or 100, variant, out_folder, seed, jobs, device, batch, band, quiet)
        reproduce_tables([t for t in TABLES if t in what], trials, horizon, out_folder, seed, jobs, batch, quiet)
