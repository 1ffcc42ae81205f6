"""The command `reproduce`: the paper's figures, and other people's tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from adadim.errors import InvalidValueError
from adadim.experiments.field.commands import reproduce_tables
from adadim.experiments.field.plan import TABLES
from adadim.experiments.paper.commands import VARIANT, Chosen, reproduce_figures
from adadim.experiments.paper.plan import FIGURES, PAPER_TRIALS
from adadim.files import as_place
from adadim.report.console import client_of, errors
from adadim.report.options import (
    AddedPolicies,
    Batch,
    Cluster,
    Device,
    Jobs,
    OutPlace,
    Plugins,
    Quiet,
    Seed,
    Settings,
    Shading,
    Shared,
    Titled,
    WhichBand,
)

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
    variant: Chosen = VARIANT,
    settings: Settings = None,
    policy: AddedPolicies = None,
    plugin: Plugins = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            min=1, help="Of tables: rounds, to try them out; by default the source's (arora21: a tenth of them)."
        ),
    ] = None,
    out_folder: OutPlace = "results",
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    batch: Batch = None,
    cluster: Cluster = None,
    shared: Shared = False,
    band: Shading = WhichBand.ci,
    titled: Titled = True,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments, draw its figures, and hold its claims against the data.

    Runs what is missing in the results folder and nothing else. Interrupt it
    whenever you like: the same command goes on where it stopped, and more
    trials later add to what is there.

    With --set or --policy the study is a varied one: its results go into a
    folder of their own, and the paper's claims are not held against it, since
    they are about the study as it is. A policy of your own comes from a file:
    'adadim new policy MyPolicy' writes one to start from.

    d3rb24, osom20, albdim21, rb20 and arora21 are experiments of other papers:
    each number reported is put beside ours, with an interval, a verdict, and
    what it really measured where that is known.

    Example: adadim reproduce fig2a fig2b --trials 20

    Example: adadim reproduce fig2a --set dim=900 --set noise=0.5 --plugin mine.py --policy MyPolicy
    """
    figures = [name for name in FIGURES if "all" in what or name in what]
    tables = [t for t in TABLES if t in what]
    with errors():
        if tables and (settings or policy or plugin):
            raise InvalidValueError(f"--set, --policy and --plugin vary figures of the paper, not {tables[0]}")
        out = as_place(out_folder, "out")
        with client_of(cluster) as client:
            if figures:
                run = (out, seed, jobs, device, batch, band, quiet)
                reproduce_figures(
                    figures,
                    trials or PAPER_TRIALS,
                    variant,
                    *run,
                    settings=settings,
                    policy=policy,
                    plugin=plugin,
                    titled=titled,
                    client=client,
                    shared=shared,
                )
            reproduce_tables(tables, trials, horizon, out, seed, jobs, batch, quiet, client, shared)
