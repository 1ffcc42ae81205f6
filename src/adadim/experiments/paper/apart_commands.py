"""The commands `study footnote` and `study parameter`: claims of the paper that need more than its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from adadim.experiments.paper import footnote as footnotes
from adadim.experiments.paper.commands import Chosen, WhichVariant, chosen_variants
from adadim.experiments.paper.learned import learned_claim
from adadim.experiments.paper.plan import HORIZON
from adadim.experiments.paper.verdicts import Verdict, corrected, entry
from adadim.report.console import (
    as_json_text,
    compact_table,
    errors,
    print_written,
    run_study,
    say,
    stdout,
    write_texts,
)
from adadim.report.options import Batch, Device, Jobs, OutFolder, Quiet, Seed, Trials

__all__ = ["footnote", "parameter"]


def footnote(
    horizon: Annotated[
        list[int] | None,
        typer.Option("--horizon", "-T", min=16, help="A horizon; may be repeated. By default 625, 2500 and 10000."),
    ] = None,
    variant: Chosen = WhichVariant.both,
    trials: Trials = 8,
    out_folder: OutFolder = Path("results/footnote"),
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    batch: Batch = None,
    quiet: Quiet = False,
) -> None:
    """Hold the paper's footnote on beta against the data, and say when its asymptotics begin to hold.

    The footnote recommends beta = (1 + alpha)/2 where alpha is known. The
    table tells the regret of LinUCB++ at 0.5 and at that beta as T grows; a
    ratio below 1 says that the footnote is right. Below it stand the horizons
    at which two lines through these ratios reach 1: the measured one, and one
    that falls as theory says.

    Example: adadim study footnote --horizon 625 --horizon 2500 --trials 8
    """
    lines, found = [], []
    with errors():
        for v in chosen_variants(variant):
            plan = footnotes.footnote_study(v, horizon or footnotes.HORIZONS, trials, seed)
            results = run_study(plan, out_folder / plan.name, jobs, batch, quiet, device)
            points = footnotes.footnote_points(results)
            lines += [(v, points, footnotes.overtaking(points))]
            if HORIZON in (horizon or footnotes.HORIZONS):
                found.append(footnotes.footnote_claim(results))
        table = pl.concat(pl.DataFrame(points).with_columns(variant=pl.lit(v)) for v, points, _ in lines)
        texts = {"footnote.csv": table.write_csv(), "footnote.json": as_json_text(found) + "\n"}
        paths = write_texts(out_folder, texts)
    if quiet:
        return
    print_written(paths, quiet)
    for v, points, ends in lines:
        headings = ("T", "d", "d*", "beta = 0.5", "beta = 0.66", "ratio", "95% interval")
        shown = compact_table(f"LinUCB++ at both betas, {v}, {points[0].trials} trials", headings, wraps="T", least=5)
        for p in points:
            sizes = (str(p.horizon), str(p.dim), str(p.intrinsic_dim))
            shown.add_row(
                *sizes, f"{p.half:.4g}", f"{p.footnote:.4g}", f"{p.ratio:.3g}", f"{p.low:.3g} to {p.high:.3g}"
            )
        stdout().print(shown)
        where = ", ".join(f"{name} line: T = {value:.2g}" for name, value in ends.items())
        say(f"{v}: the footnote's beta would overtake at ({where})")
    _say_verdicts(found)


def parameter(
    variant: Chosen = WhichVariant.both,
    trials: Trials = 20,
    out_folder: OutFolder = Path("results/parameter"),
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Hold "it has learned the true reward parameter" against the data of figure 2a.

    LinUCB++ plays 1500 rounds; what it saw is regressed on the 12 features
    that matter, and the estimate is held against theta.

    Example: adadim study parameter --trials 8
    """
    with errors():
        found = [learned_claim(v, trials, seed) for v in chosen_variants(variant)]
        table = pl.DataFrame({v.variant: values for v, values in found})
        texts = {"parameter.csv": table.write_csv(), "parameter.json": as_json_text([v for v, _ in found]) + "\n"}
        paths = write_texts(out_folder, texts)
    if not quiet:
        print_written(paths, quiet)
        _say_verdicts([v for v, _ in found])


def _say_verdicts(found: list[Verdict]) -> None:
    for verdict in corrected(found):
        say(f"{verdict.claim}, {verdict.variant}: {entry(verdict)} ({verdict.statistic}; {verdict.unit})")
