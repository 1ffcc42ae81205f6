"""The commands for any study: run one, look at its results, list the policies."""

from __future__ import annotations

import inspect
import io
import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from adadim import report, study
from adadim.errors import StoreError, StudyError
from adadim.files import as_place, write_atomic
from adadim.report.console import (
    EXIT_FAILED,
    client_of,
    errors,
    print_written,
    run_study,
    say,
    stdout,
    study_folders,
    summary_table,
    warnings_as_lines,
)
from adadim.report.options import (
    AsJson,
    Batch,
    Cluster,
    Device,
    Folder,
    Jobs,
    Plugins,
    Quiet,
    Shading,
    Shared,
    Titled,
    WhichBand,
    band_of,
    load_plugins,
)

__all__ = ["export", "figure", "policies", "run", "status"]

WhichFormat = StrEnum("WhichFormat", ["csv", "parquet"])


def run(
    file: Annotated[Path, typer.Argument(help="A study as a TOML file.", show_default=False)],
    out_folder: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Results folder, a path or URL; by default results/NAME OF THE STUDY."),
    ] = None,
    plugin: Plugins = None,
    trials: Annotated[int | None, typer.Option("--trials", "-n", min=1, help="Instead of the file's number.")] = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    batch: Batch = None,
    cluster: Cluster = None,
    shared: Shared = False,
    band: Shading = WhichBand.ci,
    titled: Titled = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the study, print it back and stop.")] = False,
    quiet: Quiet = False,
) -> None:
    r"""Run a study of your own, and draw it.

    A study is a TOML file:

        trials = 20

        \[instances.easy]
        kind = "sphere"
        arms = 200
        dim = 50
        intrinsic_dim = 4
        horizon = 1000

        \[policies.adaptive]
        kind = "LinUCBPlusPlus"

        \[policies.oracle]
        kind = "LinUCB"
        dim = "@intrinsic_dim"

    Example: adadim run study.toml --plugin my_policy.py
    """
    with errors():
        plan = _read(file, plugin, trials)
        if dry_run:
            say(plan.to_toml())
            return
        folder = as_place(out_folder or Path("results") / plan.name, "out")
        with client_of(cluster) as client:
            results = run_study(plan, folder, jobs, batch, quiet, device, client, shared)
        print_written(report.draw_and_save(results, folder / "figures" / plan.name, band_of(band), titled), quiet)
    if not quiet:
        stdout().print(summary_table(results))


def status(folder: Folder, as_json: AsJson = False) -> None:
    """Tell how far a study in a results folder has come.

    Given a folder made by [bold]reproduce[/bold], tells of every study in it.
    The exit code is 0 if nothing is missing, else 1.
    """
    with errors():
        found = [study.status(path) for path in study_folders(folder)]
    if as_json:
        typer.echo(json.dumps([_status_entry(s) for s in found], indent=2))
    else:
        table = Table("study", "done", "wanted", "cells", "")
        for s in found:
            counts = (str(s.done), str(s.total), str(len(s.cells)))
            table.add_row(Text(s.name), *counts, "complete" if s.complete else "incomplete")
        stdout().print(table)
    if not all(s.complete for s in found):
        raise typer.Exit(EXIT_FAILED)


def figure(
    folder: Folder,
    band: Shading = WhichBand.ci,
    titled: Titled = True,
    out_folder: Annotated[str | None, typer.Option("--out", "-o", help="By default FOLDER/figures.")] = None,
) -> None:
    """Draw what is in a results folder: PNG, PDF and SVG, and the numbers as CSV."""
    with errors():
        for path in study_folders(folder):
            results = study.load(path)
            stem = as_place(out_folder or as_place(folder, "folder") / "figures", "out") / results.name
            print_written(report.draw_and_save(results, stem, band_of(band), titled), quiet=False)


def export(
    folder: Folder,
    kind: Annotated[WhichFormat, typer.Option("--format", "-f", help="Format of the table.")] = WhichFormat.csv,
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; by default NAME.csv or NAME.parquet here.")
    ] = None,
) -> None:
    """Write all results of a study as one table: instance, policy, replication, time, regret."""
    with errors():
        folders = study_folders(folder)
        if out_file is not None and len(folders) > 1:
            raise StoreError(f"{folder} holds {len(folders)} studies; export one of them: {folders[0]}")
        for path in folders:
            results = study.load(path)
            target = out_file or Path(f"{results.name}.{kind}")
            buffer = io.BytesIO()
            if kind == WhichFormat.csv:
                results.frame().write_csv(buffer)
            else:
                results.frame().write_parquet(buffer)
            print_written([write_atomic(target, buffer.getvalue())], quiet=False)


def policies(as_json: AsJson = False) -> None:
    """List the policies, a line each, with their hyper-parameters."""
    rows = []
    for name, kind in study.policy_kinds().items():
        first = (inspect.getdoc(kind) or "").split("\n")[0]
        shown = [
            str(p).split(": ")[0] + (f"={p.default!r}" if isinstance(p.default, int | float | str | None) else "")
            for p in inspect.signature(kind).parameters.values()
        ]
        rows.append({"name": name, "what": first, "parameters": shown})
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table("policy", "what it does", "hyper-parameters")
    for row in rows:
        table.add_row(*(Text(str(text)) for text in (row["name"], row["what"], ", ".join(row["parameters"]))))
    stdout().print(table)


def _read(file: Path, plugin: list[Path] | None, trials: int | None) -> study.Study:
    """The study in a file, checked, with another number of trials if one is given."""
    plugins = load_plugins(plugin)
    plan = study.Study.from_toml(file, plugins=plugins)
    if trials is not None:
        plan = study.Study.from_dict({**plan.to_dict(), "trials": trials}, plugins=plugins)
    try:
        with warnings_as_lines():
            plan.check()
    except StudyError as error:
        raise StudyError(f"{file}: {error}") from error
    return plan


def _status_entry(s: study.Status) -> dict[str, Any]:
    numbers = {"name": s.name, "done": s.done, "total": s.total, "complete": s.complete}
    return {**numbers, "cells": [asdict(cell) for cell in s.cells]}
