"""The commands about studies and their results."""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from adadim import paper, report, study
from adadim.cli.common import (
    EXIT_FAILED,
    AsJson,
    Device,
    Jobs,
    Plugins,
    Quiet,
    Seed,
    as_json_text,
    errors,
    load_plugins,
    out,
    run_study,
    tell,
)

__all__ = ["register"]

WhichFigure = StrEnum("WhichFigure", [*paper.FIGURES, "all"])  # type: ignore[misc]
WhichVariant = StrEnum("WhichVariant", ["released", "theory", "both"])
WhichBand = StrEnum("WhichBand", ["ci", "std"])
WhichFormat = StrEnum("WhichFormat", ["csv", "parquet"])

Batch = Annotated[int | None, typer.Option(min=1, help="Replications per block; by default what fits memory.")]
Shading = Annotated[WhichBand, typer.Option(help="Shading: 95% confidence interval of the mean, or one std.")]
Folder = Annotated[Path, typer.Argument(help="A results folder.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    for command in (reproduce, run, status, figure, claims, export, policies):
        app.command(command.__name__)(command)


def reproduce(
    figures: Annotated[
        list[WhichFigure], typer.Argument(help="Which figures of the paper, or all.", show_default=False)
    ],
    trials: Annotated[int, typer.Option("--trials", "-n", min=1, help="Replications; the paper has 100.")] = 100,
    variant: Annotated[
        WhichVariant,
        typer.Option(help="'theory' follows the paper's text, 'released' its code where the two differ."),
    ] = WhichVariant.released,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Where results, figures and claims go.")] = Path(
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

    Example: adadim reproduce fig2a fig2b --trials 20
    """
    names = [name for name in paper.FIGURES if "all" in figures or name in figures]
    variants = list(paper.VARIANTS) if variant == WhichVariant.both else [str(variant)]
    with errors():
        plans = [paper.study(name, v, trials=trials, seed=seed) for name in names for v in variants]  # type: ignore[arg-type]
        for plan in plans:
            results = run_study(plan, out_folder / plan.name, jobs, batch, quiet, device)
            tell(_draw(results, out_folder / "figures" / plan.name, band), quiet)
        verdicts = report.claims(_paper_results(out_folder))
        _write_claims(verdicts, out_folder)
    if not quiet:
        out().print(_claims_table(v for v in verdicts if v.figure in names and v.variant in variants))


def run(
    file: Annotated[Path, typer.Argument(help="A study as a TOML file.", show_default=False)],
    out_folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="Results folder; by default results/NAME OF THE STUDY.")
    ] = None,
    plugin: Plugins = None,
    trials: Annotated[int | None, typer.Option("--trials", "-n", min=1, help="Instead of the file's number.")] = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    batch: Batch = None,
    band: Shading = WhichBand.ci,
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
        plugins = load_plugins(plugin)
        plan = study.Study.from_toml(file, plugins=plugins)
        if trials is not None:
            plan = study.Study.from_dict({**plan.to_dict(), "trials": trials}, plugins=plugins)
        if dry_run:
            out().print(plan.to_toml(), markup=False, highlight=False, soft_wrap=True)
            return
        folder = out_folder or Path("results") / plan.name
        results = run_study(plan, folder, jobs, batch, quiet, device)
        tell(_draw(results, folder / "figures" / plan.name, band), quiet)
    if not quiet:
        out().print(_summary_table(results))


def status(folder: Folder, as_json: AsJson = False) -> None:
    """Tell how far a study in a results folder has come.

    Given a folder made by [bold]reproduce[/bold], tells of every study in it.
    The exit code is 0 if nothing is missing, else 1.
    """
    with errors():
        told = [study.status(path) for path in _study_folders(folder)]
    if as_json:
        typer.echo(
            json.dumps(
                [
                    {
                        "name": s.name,
                        "done": s.done,
                        "total": s.total,
                        "complete": s.complete,
                        "cells": [asdict(c) for c in s.cells],
                    }
                    for s in told
                ],
                indent=2,
            )
        )
    else:
        table = Table("study", "done", "wanted", "cells", "")
        for s in told:
            table.add_row(
                s.name, str(s.done), str(s.total), str(len(s.cells)), "complete" if s.complete else "incomplete"
            )
        out().print(table)
    if not all(s.complete for s in told):
        raise typer.Exit(EXIT_FAILED)


def figure(
    folder: Folder,
    band: Shading = WhichBand.ci,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="By default FOLDER/figures.")] = None,
) -> None:
    """Draw what is in a results folder: PNG, PDF and SVG, and the numbers as CSV."""
    with errors():
        for path in _study_folders(folder):
            results = study.load(path)
            tell(_draw(results, (out_folder or folder / "figures") / results.name, band), quiet=False)


def claims(folder: Folder, as_json: AsJson = False) -> None:
    """Hold the paper's claims against the results in a folder made by [bold]reproduce[/bold]."""
    with errors():
        verdicts = report.claims(_paper_results(folder))
        if not verdicts:
            raise study.StoreError(f"no figure of the paper in {folder}; try: adadim reproduce fig2a --out {folder}")
    if as_json:
        typer.echo(as_json_text(verdicts))
    else:
        out().print(_claims_table(verdicts))


def export(
    folder: Folder,
    kind: Annotated[WhichFormat, typer.Option("--format", "-f", help="Format of the table.")] = WhichFormat.csv,
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; by default NAME.csv or NAME.parquet here.")
    ] = None,
) -> None:
    """Write all results of a study as one table: instance, policy, replication, time, regret."""
    with errors():
        folders = _study_folders(folder)
        if out_file is not None and len(folders) > 1:
            raise study.StoreError(f"{folder} holds {len(folders)} studies; export one of them: {folders[0]}")
        for path in folders:
            results = study.load(path)
            target = out_file or Path(f"{results.name}.{kind}")
            buffer = io.BytesIO()
            if kind == WhichFormat.csv:
                results.frame().write_csv(buffer)
            else:
                results.frame().write_parquet(buffer)
            report.write_whole(target, buffer.getvalue())
            tell([target], quiet=False)


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
        table.add_row(str(row["name"]), str(row["what"]), ", ".join(row["parameters"]))
    out().print(table)


def _draw(results: study.Results, stem: Path, band: str) -> list[Path]:
    named = {f"{f.name}-{v}": f"{f.title} ({v})" for f in paper.FIGURES.values() for v in paper.VARIANTS}
    title = named.get(results.name, results.name)
    return report.save(report.draw(results, band=str(band), title=title), results, stem)  # type: ignore[arg-type]


def _study_folders(folder: Path) -> list[Path]:
    """The folder itself if it holds a study, else the studies right below it."""
    if not folder.is_dir():
        raise study.StoreError(f"{folder} is not a folder")
    found = (
        [folder] if (folder / "manifest.json").exists() else sorted(p.parent for p in folder.glob("*/manifest.json"))
    )
    if not found:
        raise study.StoreError(f"no results in {folder}; make some with 'adadim run' or 'adadim reproduce'")
    return found


def _paper_results(folder: Path) -> dict[tuple[str, str], study.Results]:
    named = {f"{name}-{variant}": (name, variant) for name in paper.FIGURES for variant in paper.VARIANTS}
    return {named[path.name]: study.load(path) for path in _study_folders(folder) if path.name in named}


def _write_claims(verdicts: list[report.Verdict], folder: Path) -> None:
    texts = {
        "claims.md": report.claims_markdown(verdicts),
        "claims.json": as_json_text(verdicts) + "\n",
    }
    for name, text in texts.items():
        report.write_whole(folder / name, text.encode())


def _claims_table(verdicts: Iterable[report.Verdict]) -> Table:
    """A row per claim: verdict, statistic and 95% interval for each variant."""
    header, *rows = report.claims_table(verdicts)
    table = Table(*(header[:2] + header[3:]), title="The paper's claims", show_lines=True)
    colours = {"holds": "green", "does not hold": "red", "undecided": "yellow"}
    for figure, claim, _, *told in rows:
        table.add_row(figure, claim, *(f"[{colours[t.split(':')[0]]}]{escape(t)}[/]" if t else "" for t in told))
    return table


def _summary_table(results: study.Results) -> Table:
    table = Table(
        "instance", "policy", "trials", "mean regret", "std", title=f"{results.name}: regret after the last round"
    )
    for instance, policy in results.cells():
        final = results.final(instance, policy)
        spread = f"{final.std(ddof=1):.3g}" if len(final) > 1 else "-"
        table.add_row(instance, policy, str(len(final)), f"{final.mean():.4g}", spread)
    return table
