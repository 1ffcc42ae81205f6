"""Commands for tables of past choices: how many features matter, and what policies would have earned."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from adadim import study
from adadim.cli import kit
from adadim.core.checks import suggestion
from adadim.core.codec import finite_or_none, parse_policy
from adadim.core.files import write_atomic
from adadim.core.frames import DataTable
from adadim.core.problem import Problem
from adadim.dimension import Dimension
from adadim.dimension import dimension as dimension_of
from adadim.errors import AdadimError, EvaluationWarning, InvalidValueError
from adadim.play.evaluation import Evaluation
from adadim.play.evaluation import evaluate as evaluate_policy
from adadim.play.logs import read_log
from adadim.policies.base import Policy
from adadim.policies.linear.evidence import recommended
from adadim.policies.names import with_kind

ESTIMATORS = {"replay": "replay", "ips": "IPS", "snips": "SNIPS", "dr": "doubly robust", "logged": "the log itself"}


def dimension(
    file: Annotated[Path, typer.Argument(help="Past choices, one per row: Parquet or CSV.", show_default=False)],
    reward: Annotated[str, typer.Option("--reward", "-r", help="Column of the rewards.", show_default=False)],
    features: Annotated[
        str | None,
        typer.Option(
            "--features", "-f", help="Columns of the features, a,b,c, most basic first (default: all others)."
        ),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(help="Groups of features by their ends: price=3,text=67, or 3,67. d* is one of these."),
    ] = None,
    ridge: Annotated[
        float | None, typer.Option(help="Use this ridge, on unscaled features, instead of estimating it.")
    ] = None,
    constant: Annotated[bool, typer.Option("--constant/--no-constant", help="Fit an intercept.")] = True,
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="Draw the answer into this file: PNG, PDF or SVG.")
    ] = None,
    as_json: kit.AsJson = False,
) -> None:
    """Estimate how many of the features matter, from a table of past choices and their rewards.

    An intercept is fitted, so adding a constant to all rewards does not change the answer.

    Example: adadim dimension choices.csv --reward sales --features price,age,clicks --out picture.png
    """
    table = DataTable(file)
    if features is None:
        names = [name for name in table.names if name != reward]
    else:
        names = [name.strip() for name in features.split(",")]
    rewards = table.numbers(reward)
    answer = dimension_of(table.matrix(names), rewards, levels=_levels(levels), ridge=ridge, constant=constant)
    if out_file is not None:
        _draw(answer, out_file)
    if as_json:
        entry = {"features": names, "levels": answer.levels, "constant": constant, "choices": answer.choices}
        entry |= {name: getattr(answer, name).tolist() for name in ("support", "probabilities", "tail")}
        entry |= {"mode": answer.mode, "median": answer.median, "interval90": answer.interval(0.9)}
        entry |= {"noise": None if np.isnan(answer.noise) else answer.noise}
        typer.echo(json.dumps(entry, indent=2))
    else:
        typer.echo(str(answer))
        if out_file is not None:
            kit.print_written([out_file])


def _levels(text: str | None) -> dict[str, int] | list[int] | None:
    """Levels as `adadim.dimension` takes them, from "price=3,text=67" or "3,67"."""
    if text is None:
        return None
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(end.strip().isdigit() for _, _, end in pairs):
        raise InvalidValueError(f"levels must look like price=3,text=67 or 3,67, got {text!r}")
    if not any(sign for _, sign, _ in pairs):
        return [int(end) for _, _, end in pairs]
    named = {name.strip(): int(end) for name, _, end in pairs}
    if len(named) < len(pairs) or "" in named:
        raise InvalidValueError(f"levels must have names that differ, got {text!r}")
    return named


def _draw(answer: Dimension, path: Path) -> None:
    kind = path.suffix.removeprefix(".")
    if kind not in ("png", "pdf", "svg"):
        raise InvalidValueError(f"--out must end in .png, .pdf or .svg, got {path}")
    from adadim.report.figures import picture
    from adadim.report.style import PANEL, NotebookFigure, figure_style

    with figure_style():
        figure = NotebookFigure(figsize=PANEL, layout="constrained")
        answer.plot(figure.subplots())
    write_atomic(path, picture(figure, kind))


def evaluate(
    file: Annotated[Path, typer.Argument(help="A log with one decision per row: Parquet or CSV.", show_default=False)],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            help="Policy to evaluate: recommended (the default), LinUCB++, 'LinUCB(dim=5)'; may be repeated.",
        ),
    ] = None,
    arm: Annotated[str, typer.Option(help="Column with the arm that was chosen.")] = "arm",
    reward: Annotated[str, typer.Option("--reward", "-r", help="Column of the rewards.")] = "reward",
    propensity: Annotated[
        str | None,
        typer.Option(
            help="Column with the probability of the chosen arm (default: propensity or probability), a number, or "
            "uniform."
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option("--features", "-f", help="Columns of the covariates, a,b,c, most basic first (default: all)."),
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="Noise level given to policies (default: standard deviation of the rewards).")
    ] = None,
    warmup: Annotated[
        float, typer.Option(help="Share of the log, at its start, that policies learn from without being judged.")
    ] = 0.2,
    seed: kit.Seed = 0,
    plugin: kit.Plugins = None,
    as_json: kit.AsJson = False,
) -> None:
    """Estimate what policies would earn, from a log of randomised decisions.

    A row of the log is a decision: the arm chosen, the probability with which it was chosen (its propensity), the
    reward observed, and covariates, or the arms offered and their features, as an agent exports them.

    Each policy goes through the log row by row: its choice is judged, then it learns from the row. A warning says if
    the log is too small, or if its propensities do not match its choices. If one of several policies cannot be
    evaluated on the log, its error is printed instead of its estimates, and the exit code is 1.

    Example: adadim evaluate log.parquet --policy recommended --policy "LinUCB(dim=5)"

    Example: adadim evaluate trial.csv --arm drug --reward cd4 --propensity uniform --features age,weight
    """
    plugins = kit.load_plugins(plugin)
    policies = {text: _policy_from_text(text, plugins) for text in policy or ["recommended"]}
    columns = None if features is None else [name.strip() for name in features.split(",") if name.strip()]
    log = read_log(file, arm=arm, reward=reward, propensity=_probability_or_column(propensity), features=columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvaluationWarning)  # they are shown with the results
        options: dict[str, Any] = {"noise": noise, "warmup": warmup, "seed": seed}
        results: dict[str, Evaluation | AdadimError] = {}
        for text, candidate in policies.items():
            try:
                results[text] = evaluate_policy(candidate, log, **options)
            except AdadimError as error:
                if len(policies) == 1:
                    raise
                results[text] = error  # the others' results are shown all the same
    if as_json:
        typer.echo(json.dumps({text: _entry(result) for text, result in results.items()}, indent=2, allow_nan=False))
    else:
        for text, result in results.items():
            _show(text, result)
    if any(isinstance(result, AdadimError) for result in results.values()):
        raise typer.Exit(kit.EXIT_FAILED)


def _show(name: str, result: Evaluation | AdadimError) -> None:
    console = kit.stdout()
    console.print(Text(name, style="bold"))
    if isinstance(result, AdadimError):
        kit.notice(console, "error", "red", str(result))
        console.print()
        return
    estimates = {**result.estimates, "logged": result.logged}
    lines = [[ESTIMATORS[key], f"{e.value:.5g}", f"{e.low:.5g} to {e.high:.5g}"] for key, e in estimates.items()]
    console.print(kit.compact_table("", ("", "value", f"{result.level:.0%} interval"), lines, wraps=""))
    console.print(
        f"{result.rows} rows judged, the policy agrees with {result.matched}; effective sample size "
        f"{result.effective:.0f}, mean weight {result.mean_weight:.3g}",
        highlight=False,
        soft_wrap=True,
    )
    for text in result.warnings:
        kit.notice(console, "warning", "yellow", text)
    console.print()


def _entry(result: Evaluation | AdadimError) -> dict[str, Any]:
    """An evaluation as plain data for JSON, which has neither NaN nor infinity."""
    if isinstance(result, AdadimError):
        return {"error": str(result)}
    estimates = {key: finite_or_none(asdict(e)) for key, e in {**result.estimates, "logged": result.logged}.items()}
    names = ("rows", "matched", "effective", "mean_weight", "level", "warnings")
    return estimates | {name: getattr(result, name) for name in names}


def _probability_or_column(text: str | None) -> str | float | None:
    """A probability if it is one, else the name of a column."""
    try:
        return text if text is None else float(text)
    except ValueError:
        return text


def _policy_from_text(text: str, plugins: dict[str, Any]) -> Policy | Callable[[Problem], Policy]:
    """The policy that is written as in Python; nothing is executed, values are plain numbers and strings."""
    if text.strip() == "recommended":
        return recommended
    kinds = study.policy_kinds(plugins)
    table = with_kind(parse_policy(text), kinds)
    if table["kind"] not in kinds:
        raise InvalidValueError(f"there is no policy {table['kind']!r}; {suggestion(table['kind'], kinds)}")
    return study.from_spec(table, plugins=plugins)
