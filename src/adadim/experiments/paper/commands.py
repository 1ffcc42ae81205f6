"""What `adadim reproduce` does with the paper's figures, and the commands `show` and `claims`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from adadim.errors import InvalidValueError, StoreError
from adadim.experiments.paper import plan, verdicts
from adadim.experiments.paper.plan import EXPERIMENT, FIGURES, PAPER_TRIALS, VARIANTS, Variant, study_name
from adadim.experiments.paper.variation import unvaried, vary
from adadim.files import Place
from adadim.report import draw_and_save
from adadim.report.console import (
    VERDICT_COLOURS,
    as_json_text,
    errors,
    print_written,
    run_study,
    say,
    stdout,
    study_folders,
    summary_table,
    typed_as,
    write_texts,
)
from adadim.report.options import (
    AddedPolicies,
    AsJson,
    Folder,
    Plugins,
    Seed,
    Settings,
    Trials,
    WhichBand,
    band_of,
    load_plugins,
    read_policies,
    read_settings,
)
from adadim.study import Results, Study, load

__all__ = ["VARIANT", "Chosen", "WhichVariant", "chosen_variants", "claims", "reproduce_figures", "show"]

WhichVariant = StrEnum("WhichVariant", ["released", "theory", "both"])

# The one place in which the command's default is chosen and said; `plan.policies` is the one for Python.
VARIANT = WhichVariant.released
WhichFigure = StrEnum("WhichFigure", list(FIGURES))  # type: ignore[misc]
Chosen = Annotated[
    WhichVariant,
    typer.Option(
        "--variant",
        help="'released' follows the paper's code, which made its figures, 'theory' its text where the two differ. "
        "(In Python, adadim.paper takes theory unless told.) A study's labels record which.",
    ),
]


def chosen_variants(variant: WhichVariant) -> list[Variant]:
    """The variants that were asked for: one, or both."""
    return [v for v in VARIANTS if variant in (WhichVariant.both, v)]


def reproduce_figures(
    names: Sequence[str],
    trials: int,
    variant: WhichVariant,
    out_folder: Place,
    seed: int,
    jobs: int | None,
    device: str,
    batch: int | None,
    band: WhichBand,
    quiet: bool,
    *,
    settings: list[str] | None = None,
    policy: list[str] | None = None,
    plugin: list[Path] | None = None,
    titled: bool = True,
    client: Any = None,
    shared: bool = False,
) -> None:
    """Run what is missing of some figures, draw them, and hold the paper's claims against the data.

    With `settings` or `policy` the studies are varied ones: they have folders of their own, and no claims.
    """
    variants = chosen_variants(variant)
    found: list[verdicts.Verdict] = []
    plans = [_plan(name, v, trials, seed, settings, policy, plugin) for name in names for v in variants]
    for study in plans:
        results = run_study(study, out_folder / study.name, jobs, batch, quiet, device, client, shared)
        stem = out_folder / "figures" / study.name
        print_written(draw_and_save(results, stem, band_of(band), titled=titled), quiet)
        if varied(study) and not quiet:
            stdout().print(summary_table(results))
    if not varied(plans[0]):
        found = verdicts.claims(_results(out_folder))
        texts = {"claims.md": verdicts.claims_markdown(found), "claims.json": as_json_text(found) + "\n"}
        write_texts(out_folder, texts)
    if quiet:
        return
    if found:
        stdout().print(_table(v for v in found if v.figure in names and v.variant in variants))
    else:
        say("These studies are varied: the paper's claims are judged on the unvaried ones alone.")
    _say_what_next(plans, out_folder, trials)


def show(
    figure: Annotated[WhichFigure, typer.Argument(help="Which figure of the paper.", show_default=False)],
    trials: Trials = PAPER_TRIALS,
    variant: Chosen = VARIANT,
    settings: Settings = None,
    policy: AddedPolicies = None,
    plugin: Plugins = None,
    seed: Seed = 0,
) -> None:
    """Print the study behind a figure of the paper as TOML, to edit and to run.

    The file that it makes gives the same results as [bold]reproduce[/bold], byte for
    byte, until you change it: more instances, other policies, labels for the
    figure. Give it another name then, and its results a folder of their own.

    Example: adadim show fig2a > mine.toml, then adadim run mine.toml
    """
    with errors():
        if variant == WhichVariant.both:
            raise InvalidValueError("a file holds one study: choose one variant, released or theory")
        (chosen,) = chosen_variants(variant)
        study = _plan(str(figure), chosen, trials, seed, settings, policy, plugin)
        text = study.to_toml()
    if not varied(study):
        typer.echo("# Change the name with the content, or the results go into the folder of the paper's study.")
    typer.echo(text, nl=False)


def claims(folder: Folder, as_json: AsJson = False) -> None:
    """Hold the paper's claims against the results in a folder made by [bold]reproduce[/bold].

    Every claim is a statistic, in the unit of its column, that is positive if
    the sentence is true. Next to the verdict stand its value and its 95%
    interval, by bootstrap over trials: above 0 the claim holds, below 0 it
    does not, and else it is undecided. --json says what is computed.
    """
    with errors():
        found = verdicts.claims(_results(folder))
        if not found:
            raise StoreError(f"no figure of the paper in {folder}; try: adadim reproduce fig2a --out {folder}")
    if as_json:
        typer.echo(as_json_text(found))
    else:
        stdout().print(_table(found))


def _plan(
    figure: str,
    variant: Variant,
    trials: int,
    seed: int,
    settings: list[str] | None,
    policy: list[str] | None,
    plugin: list[Path] | None,
) -> Study:
    """The study behind a figure, varied if anything is to be changed."""
    study = plan.study(figure, variant, trials=trials, seed=seed)
    if plugin and not policy:
        raise InvalidValueError(f"--plugin {plugin[0]}: say with --policy which of its policies to run")
    plugins = load_plugins(plugin)
    changes, policies = read_settings(settings), read_policies(policy, plugins)
    return vary(study, changes, policies, plugins) if changes or policies else study


def varied(study: Study) -> bool:
    """Whether a study is not the paper's as it is."""
    return bool(study.labels["experiment"] != EXPERIMENT)


def _results(folder: str | Place) -> list[Results]:
    """Results of the paper's studies, as they are, among those in a folder."""
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
    return [results for results in found if unvaried(results)]


def _say_what_next(plans: list[Study], folder: Place, trials: int) -> None:
    """Commands that can be typed as they are printed."""
    first, adadim = plans[0], typed_as()
    figure, quoted = first.labels["figure"], shlex.quote(str(folder))
    variant = "" if first.labels["variant"] == VARIANT else f" --variant {first.labels['variant']}"
    where = "" if folder == Path("results") else f" --out {quoted}"
    rest = f"{variant}{where}"
    lines = [
        (f"{adadim} status {quoted}", "what is there"),
        (f"{adadim} report {quoted}", "all of it as one page, report.html, to look at and send around"),
        (f"{adadim} reproduce {figure} --trials {trials} --policy EvidenceLinUCB{rest}", "with the recommended policy"),
        (f"{adadim} reproduce {figure} --trials {trials} --set noise=0.5{rest}", "with more noise"),
        (f"{adadim} show {figure}{variant} > mine.toml", f"the study, to edit; then: {adadim} run mine.toml"),
    ]
    if trials < PAPER_TRIALS:
        more = f"{adadim} reproduce {figure} --trials {PAPER_TRIALS}{rest}"
        lines.insert(1, (more, "as many trials as the paper; keeps those that are there"))
    say(f"The picture is {folder / 'figures' / first.name}.png. Next, type one of:")
    for line, why in lines:
        say(f"    {line}  # {why}")


def _table(found: Iterable[verdicts.Verdict]) -> Table:
    """A row per claim: unit of the statistic, then verdict, statistic and 95% interval for each variant."""
    header, *rows = verdicts.claims_table(
        found, lambda v: f"[{VERDICT_COLOURS[v.verdict]}]{escape(verdicts.entry(v))}[/]"
    )
    caption = "verdict: statistic [95% interval by bootstrap], in the unit given; positive means that the claim is true"
    table = Table(*(header[:2] + header[3:]), title="The paper's claims", caption=caption, show_lines=True)
    for figure, claim, _, *entries in rows:
        table.add_row(figure, claim, *entries)
    return table
