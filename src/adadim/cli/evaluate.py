"""The command that says what policies would have earned, from a log of somebody else's choices."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from adadim import study
from adadim.checks import suggestion
from adadim.codec import finite, parse_policy
from adadim.errors import EvaluationWarning, InvalidValueError
from adadim.evaluate import Evaluation, read_log
from adadim.evaluate import evaluate as judge
from adadim.policies.base import Policy
from adadim.policies.recommended import recommended
from adadim.problem import Problem
from adadim.report.console import compact_table, errors, stdout
from adadim.report.options import AsJson, Plugins, Seed, load_plugins

__all__ = ["evaluate"]

NAMES = {"replay": "replay", "ips": "IPS", "snips": "SNIPS", "dr": "doubly robust", "logged": "the log itself"}


def evaluate(
    file: Annotated[Path, typer.Argument(help="A log, a decision per row: Parquet or CSV.", show_default=False)],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", help="What to judge: recommended (the default), LinUCB, 'LinUCB(dim=5)'; again for more."
        ),
    ] = None,
    arm: Annotated[str, typer.Option(help="Column of what was chosen.")] = "arm",
    reward: Annotated[str, typer.Option("--reward", "-r", help="Column of the rewards.")] = "reward",
    propensity: Annotated[
        str | None,
        typer.Option(
            help="Column with the probability of what was chosen (by default propensity or probability), a number, or "
            "uniform."
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option("--features", "-f", help="Columns of the covariates, a,b,c: most basic first; by default all."),
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="What policies are told of the noise; by default the std.")
    ] = None,
    warmup: Annotated[float, typer.Option(help="Share of the log that a policy only learns from.")] = 0.2,
    seed: Seed = 0,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Estimate what policies would earn, from a log of choices that were made at random.

    A row of the log is a decision: what was chosen, with which probability, what it brought, and covariates, or the
    arms offered and their features, as an agent exports them.

    Each policy walks through the log: it is judged by its choice in a row, and then learns from the row. A warning
    says when the log is too small, or its probabilities do not fit, to say anything.

    Example: adadim evaluate log.parquet --policy recommended --policy "LinUCB(dim=5)"

    Example: adadim evaluate trial.csv --arm drug --reward cd4 --propensity uniform --features age,weight
    """
    with errors():
        plugins = load_plugins(plugin)
        wanted = {text: _policy(text, plugins) for text in policy or ["recommended"]}
        columns = None if features is None else [name.strip() for name in features.split(",") if name.strip()]
        log = read_log(file, arm=arm, reward=reward, propensity=_number(propensity), features=columns)
        found = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvaluationWarning)  # they are shown with the results
            for text, one in wanted.items():
                found[text] = judge(one, log, noise=noise, warmup=warmup, seed=seed)
    if as_json:
        typer.echo(json.dumps({text: _entry(result) for text, result in found.items()}, indent=2, allow_nan=False))
        return
    for text, result in found.items():
        _show(text, result)


def _show(name: str, found: Evaluation) -> None:
    table = compact_table("", ("", "value", f"{found.level:.0%} interval"), wraps="")
    for key, e in {**found.estimates, "logged": found.logged}.items():
        table.add_row(NAMES[key], f"{e.value:.5g}", f"{e.low:.5g} to {e.high:.5g}")
    console = stdout()
    console.print(Text(name, style="bold"))
    console.print(table)
    console.print(
        f"{found.rows} rows judged, the policy agrees with {found.matched}; effective sample size "
        f"{found.effective:.0f}, mean weight {found.mean_weight:.3g}",
        highlight=False,
        soft_wrap=True,
    )
    for text in found.warnings:
        console.print(Text.assemble(("warning:", "yellow"), " ", text), soft_wrap=True)
    console.print()


def _entry(found: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON has it, which knows neither NaN nor infinity."""
    entry: dict[str, Any] = {key: finite(asdict(e)) for key, e in {**found.estimates, "logged": found.logged}.items()}
    numbers = {"rows": found.rows, "matched": found.matched, "effective": found.effective}
    return entry | numbers | {"mean_weight": found.mean_weight, "level": found.level, "warnings": list(found.warnings)}


def _number(text: str | None) -> str | float | None:
    """A probability if it is one, else the name of a column."""
    try:
        return text if text is None else float(text)
    except ValueError:
        return text


def _policy(text: str, plugins: dict[str, Any]) -> Policy | Callable[[Problem], Policy]:
    """What a policy written as in Python means; nothing is executed, values are plain numbers and strings.

    Examples
    --------
    >>> _policy("LinUCB(dim=5, radius='oful')", {}).dim
    5
    """
    if text.strip() == "recommended":
        return recommended
    table, kinds = parse_policy(text), study.policy_kinds(plugins)
    if table["kind"] not in kinds:
        raise InvalidValueError(f"there is no policy {table['kind']!r}; {suggestion(table['kind'], kinds)}")
    return study.from_spec(table, plugins=plugins)
