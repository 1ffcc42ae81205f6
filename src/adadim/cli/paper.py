"""The commands `reproduce`, `show` and `claims`, and `study footnote` and `study parameter`: what papers say."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from adadim import report
from adadim.cli import kit
from adadim.core.checks import suggestion
from adadim.core.codec import parse_policy, parse_value
from adadim.core.files import Place, as_place
from adadim.errors import InvalidValueError, StoreError
from adadim.experiments import field
from adadim.experiments.paper import analysis, plan
from adadim.experiments.paper.analysis import Verdict
from adadim.experiments.paper.plan import (
    EXPERIMENT,
    FIGURES,
    LABELS,
    PAPER_HORIZON,
    PAPER_TRIALS,
    VARIANTS,
    Variant,
    study_name,
)
from adadim.policies.names import letters_of, with_kind
from adadim.study import Results, Study, load, policy_kinds

WHAT = (*FIGURES, "all", *field.TABLES)
WhichFigure = StrEnum("WhichFigure", list(FIGURES))  # type: ignore[misc]
WhichVariant = StrEnum("WhichVariant", ["released", "theory", "both"])

# The default of the commands; that of Python is in `plan.policies`.
VARIANT = WhichVariant.released
ChosenVariant = Annotated[
    WhichVariant,
    typer.Option(
        "--variant",
        help="'released' follows the paper's code, which made its figures, 'theory' its text where the two differ. "
        "(In Python, adadim.paper takes theory unless told.) A study's labels record which.",
    ),
]


@dataclass(frozen=True)
class Variation:
    """Which studies of the paper, and what is changed in them: options of commands that run or print some."""

    variant: ChosenVariant = VARIANT
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a parameter of the instances (dim=900, noise=0.5) or of a policy (linucb++.beta=0.6); may be "
            "repeated. The results go into a separate folder.",
        ),
    ] = None
    policy: kit.AddedPolicies = None
    plugin: kit.Plugins = None

    def studies(self, figures: Sequence[str], trials: int, seed: int) -> list[Study]:
        """The studies behind figures, varied if anything is to be changed."""
        if self.plugin and not self.policy:
            raise InvalidValueError(f"--plugin {self.plugin[0]}: say with --policy which of its policies to run")
        plugins, changes = kit.load_plugins(self.plugin), _changes(self.settings)
        plans = [plan.study(figure, v, trials, seed) for figure in figures for v in _variants(self.variant)]
        if not changes and not self.policy:
            return plans
        return [plan.vary(study, changes, self._added(study, plugins), plugins) for study in plans]

    def _added(self, study: Study, plugins: dict[str, Any]) -> dict[str, Any]:
        """Policies to add, by what was typed; a name that the study has for one of its own means that, changed."""
        added, kinds = kit.read_policies(self.policy, plugins), policy_kinds(plugins)
        for text in added:
            table = parse_policy(text)
            if table["kind"] not in kinds and (key := _own_policy(text)) is not None:
                changes = {name: value for name, value in with_kind(table, kinds).items() if name != "kind"}
                added[text] = {**study.policies[key], **changes}
        return added

    def typed(self) -> str:
        """The options that vary the studies, as they were typed."""
        parts = [("--set", self.settings), ("--policy", self.policy), ("--plugin", self.plugin)]
        return "".join(f" {option} {shlex.quote(str(value))}" for option, values in parts for value in values or ())


def _known(what: list[str]) -> list[str]:
    for name in what:
        if name not in WHAT:
            raise typer.BadParameter(f"there is no figure or table {name!r}; {suggestion(name, WHAT)}")
    return what


def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(
            callback=_known,
            help="Figures of the paper, all of them (all), or tables of other papers.",
            show_default=False,
        ),
    ],
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            "-n",
            min=1,
            help="Replications (default: 100 for the paper, otherwise the number in the source).",
        ),
    ] = None,
    *,
    variation: Variation,
    horizon: Annotated[
        int | None,
        typer.Option(
            min=1, help="Rounds, for tables of other papers (default: the source's; for arora21 a tenth of them)."
        ),
    ] = None,
    out_folder: kit.OutPlace = "results",
    seed: kit.Seed = 0,
    batch: kit.Batch = None,
    band: kit.Shading = kit.WhichBand.ci,
    titled: kit.Titled = True,
    how: kit.RunOptions,
) -> None:
    """Run the paper's experiments, draw its figures, and check its claims against the data.

    Only results missing from the results folder are computed. You can interrupt the command at any time: run again, it
    continues where it stopped, and with more trials it adds to the existing ones.

    With --set or --policy the study is varied: its results go into a separate folder, and the paper's claims are not
    checked on it, because they are about the original study. To add a policy of your own, write it in a file;
    'adadim new policy MyPolicy' creates one to start from.

    WHAT is fig2a|fig2b|fig3a|fig3b|fig4a|fig4b|all, or an experiment of another paper: d3rb24, osom20, albdim21,
    rb20, arora21, linmed25, adalinucb24, alexp23, luo25 or systems26. For these the table shows each reported number
    beside ours, with an interval, a z-score, a verdict, and what the reported number actually measured where that is
    known.

    Example: adadim reproduce fig2a fig2b --trials 20

    Example: adadim reproduce fig2a --set dim=900 --set noise=0.5 --plugin mine.py --policy MyPolicy
    """
    figures = [name for name in FIGURES if "all" in what or name in what]
    tables = [name for name in field.TABLES if name in what]
    if tables and (variation.settings or variation.policy or variation.plugin):
        raise InvalidValueError(f"--set, --policy and --plugin vary figures of the paper, not {tables[0]}")
    out = as_place(out_folder, "out")
    if figures:
        plans = variation.studies(figures, trials or PAPER_TRIALS, seed)
        for results in kit.run_studies(plans, out, how, batch):
            paths = report.draw_and_save(results, out / "figures" / results.name, kit.band_of(band), titled)
            if not how.quiet:
                kit.print_written(paths)
                if _varied(plans[0]):
                    kit.stdout().print(kit.summary_table(results))
                    _explain_names(results, variation.policy or ())
        _judge_figures(plans, out, variation, how.quiet)
    if tables:
        plans = [field.study(name, trials, seed, horizon) for name in tables]
        # Tables of other papers are computed on the CPU, whatever the device.
        outcomes = kit.run_studies(plans, out, replace(how, device="cpu"), batch)
        for name, study, results in zip(tables, plans, outcomes, strict=True):
            rows = field.rows([results]) + field.sphere_rows(name, study.trials, seed, horizon)
            paths = kit.write_rows(out / "tables", f"{name}.md", field.rows_markdown(rows), rows)
            if not how.quiet:
                kit.print_written(paths)
                _show_rows(name, rows)


def show(
    figure: Annotated[WhichFigure, typer.Argument(help="Which figure of the paper.", show_default=False)],
    trials: kit.Trials = PAPER_TRIALS,
    *,
    variation: Variation,
    seed: kit.Seed = 0,
) -> None:
    """Print the study behind a figure of the paper as TOML, to edit and to run.

    Unchanged, the file gives the same results as [bold]reproduce[/bold], byte for byte. When you edit it (more
    instances, other policies, labels for the figure), also change the name of the study, so that its results go into a
    separate folder.

    Example: adadim show fig2a > mine.toml, then adadim run mine.toml
    """
    if variation.variant == WhichVariant.both:
        raise InvalidValueError("a file holds one study: choose one variant, released or theory")
    (study,) = variation.studies([str(figure)], trials, seed)
    text = study.to_toml()
    if not _varied(study):
        typer.echo("# Change the name with the content, or the results go into the folder of the paper's study.")
    typer.echo(text, nl=False)


def claims(folder: kit.Folder, as_json: kit.AsJson = False) -> None:
    """Check the paper's claims against the results in a folder made by [bold]reproduce[/bold].

    Every claim is a statistic, in the unit of its column, that is positive if
    the sentence is true. Next to the verdict stand its value and its 95%
    interval, by bootstrap over trials: above 0 the claim holds, below 0 it
    does not, and else it is undecided. --json says what is computed.
    """
    verdicts = analysis.claims(_results(folder))
    if not verdicts:
        raise StoreError(f"no figure of the paper in {folder}; try: adadim reproduce fig2a --out {folder}")
    if as_json:
        typer.echo(kit.as_json_text(verdicts))
    else:
        kit.stdout().print(_claims_table(verdicts))


def footnote(
    horizon: Annotated[
        list[int] | None,
        typer.Option("--horizon", "-T", min=16, help="A horizon; may be repeated (default: 625, 2500 and 10000)."),
    ] = None,
    variant: ChosenVariant = WhichVariant.both,
    trials: kit.Trials = 8,
    out_folder: kit.OutFolder = Path("results/footnote"),
    seed: kit.Seed = 0,
    batch: kit.Batch = None,
    *,
    how: kit.RunOptions,
) -> None:
    """Check the paper's footnote on beta against the data, and estimate the horizon from which it holds.

    The footnote recommends beta = (1 + alpha)/2 where alpha is known. The table shows the
    regret of LinUCB++ at 0.5 and at that beta as T grows; where the ratio is below 1, the footnote's beta is better.
    Below the table are the horizons at which two lines through these ratios reach 1: the fitted line, and one with the
    slope that theory predicts.

    Example: adadim study footnote --horizon 625 --horizon 2500 --trials 8
    """
    variants, horizons = _variants(variant), horizon or analysis.SCALED_HORIZONS
    plans = [analysis.footnote_study(v, horizons, trials, seed) for v in variants]
    studies = dict(zip(variants, kit.run_studies(plans, out_folder, how, batch), strict=True))
    points = {v: analysis.footnote_points(results) for v, results in studies.items()}
    crossings = {v: analysis.overtaking(line) for v, line in points.items()}
    at_paper_size = studies.values() if PAPER_HORIZON in horizons else ()
    verdicts = [analysis.footnote_claim(results) for results in at_paper_size]
    table = pl.concat(pl.DataFrame(line).with_columns(variant=pl.lit(v)) for v, line in points.items())
    paths = kit.write_rows(out_folder, "footnote.csv", table.write_csv(), verdicts)
    if how.quiet:
        return
    kit.print_written(paths)
    headings = ("T", "d", "d*", "beta = 0.5", "beta = 0.66", "ratio", "95% interval")
    for v, line in points.items():
        title = f"LinUCB++ at both betas, {v}, {line[0].trials} trials"
        rows = []
        halves, others = (kit.aligned(getattr(p, name) for p in line) for name in ("half", "footnote"))
        for p, half, other in zip(line, halves, others, strict=True):
            numbers = (str(p.horizon), str(p.dim), str(p.intrinsic_dim), half, other)
            rows.append([*numbers, f"{p.ratio:.2f}", f"{p.low:.2f} to {p.high:.2f}"])
        kit.stdout().print(kit.compact_table(title, headings, rows, wraps="T", least=5, numbers=headings[:-1]))
        where = ", ".join(f"{name} line: T = {value:.2g}" for name, value in crossings[v].items())
        kit.say(f"{v}: the footnote's beta would overtake at ({where})")
    _say_verdicts(verdicts)


def parameter(
    variant: ChosenVariant = WhichVariant.both,
    trials: kit.Trials = 20,
    out_folder: kit.OutFolder = Path("results/parameter"),
    seed: kit.Seed = 0,
    quiet: kit.Quiet = False,
) -> None:
    """Check "it has learned the true reward parameter" against the data of figure 2a.

    LinUCB++ plays 1500 rounds; the rewards it observed are regressed on the 12 features that matter, and the estimate
    is compared with theta.

    Example: adadim study parameter --trials 8
    """
    judged = [analysis.learned_claim(v, trials, seed) for v in _variants(variant)]
    verdicts = [verdict for verdict, _ in judged]
    table = pl.DataFrame({verdict.variant: errors for verdict, errors in judged})
    paths = kit.write_rows(out_folder, "parameter.csv", table.write_csv(), verdicts)
    if not quiet:
        kit.print_written(paths)
        _say_verdicts(verdicts)


def _variants(variant: WhichVariant) -> list[Variant]:
    return [v for v in VARIANTS if variant in (WhichVariant.both, v)]


def _changes(settings: Sequence[str] | None) -> dict[str, Any]:
    """Changes by key, from texts KEY=VALUE."""
    changes: dict[str, Any] = {}
    for text in settings or []:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise InvalidValueError(f"--set {text}: expected KEY=VALUE, e.g. --set noise=0.5")
        if key in changes:
            raise InvalidValueError(f"--set {text}: {key} is set twice")
        changes[key] = parse_value(value)
    return changes


def _varied(study: Study) -> bool:
    """Whether a study is not the paper's as it is."""
    return bool(study.labels["experiment"] != EXPERIMENT)


def _results(folder: str | Place) -> list[Results]:
    """Results of the paper's unvaried studies in a folder."""
    stored = [load(path) for path in kit.study_folders(folder)]
    for results, figure, variant in itertools.product(stored, FIGURES, VARIANTS):
        if results.name == study_name(figure, variant) and not results.labels:
            raise StoreError(
                f"{results.folder}: stored by an older adadim, without labels; run it again, which finds the stored "
                f"blocks: adadim reproduce {figure} --variant {variant} --out {folder} --trials {results.trials}"
            )
    return [results for results in stored if plan.unvaried(results)]


def _own_policy(text: str) -> str | None:
    """The name that the paper's studies have for the policy of this name, as typed: "LinUCB++ 0.6" is linucb++."""
    letters = letters_of(re.sub(r"\s+[\d.]+$", "", parse_policy(text)["kind"]))
    return next((key for key, label in LABELS.items() if letters in (letters_of(key), letters_of(label))), None)


def _explain_names(results: Results, added: Sequence[str]) -> None:
    """Say what an added policy is where the study has one of its own under nearly the same name."""
    for text in added:
        kind, key = parse_policy(text)["kind"], _own_policy(text)
        if key is None:
            continue
        own = f"{key} ({results.study['policies'][key]['kind']}, {results.labels['variant']})"
        if kind not in policy_kinds():
            kit.say(f"{text} is the study's {own} with what you changed.")
        elif results.labels["variant"] == "released":  # in the other variant they are the same
            instead = shlex.quote(text.replace(kind, key, 1))
            kit.say(f"{text} follows the paper's text, unlike the study's {own}; to vary that: --policy {instead}")


def _judge_figures(plans: Sequence[Study], out: Place, variation: Variation, quiet: bool) -> None:
    """Judge the paper's claims on its studies in a folder, unless those just run are varied; then suggest commands."""
    verdicts: list[Verdict] = []
    if not _varied(plans[0]):
        verdicts = analysis.claims(_results(out))
        kit.write_rows(out, "claims.md", analysis.claims_markdown(verdicts), verdicts)
    if quiet:
        return
    if verdicts:
        chosen = {(study.labels["figure"], study.labels["variant"]) for study in plans}
        kit.stdout().print(_claims_table(v for v in verdicts if (v.figure, v.variant) in chosen))
    else:
        kit.say("Claims are not checked on varied studies, since they are about the original ones.")
    _suggest_commands(plans[0], out, variation)


def _suggest_commands(study: Study, folder: Place, variation: Variation) -> None:
    """Print commands to type next, each exactly as it can be typed."""
    adadim, quoted = kit.typed_as(), shlex.quote(str(folder))
    variant = "" if study.labels["variant"] == VARIANT else f" --variant {study.labels['variant']}"
    where = "" if folder == Path("results") else f" --out {quoted}"
    varied = variation.typed()
    again, options = f"{adadim} reproduce {study.labels['figure']} --trials", f"{variant}{where}"
    lines = [(f"{adadim} status {quoted}", "the progress")]
    if study.trials < PAPER_TRIALS:
        more = f"{again} {PAPER_TRIALS}{varied}{options}"
        lines.append((more, "as many trials as in the paper; existing ones are kept"))
    lines.append((f"{adadim} report {quoted}", "everything on one HTML page that can be shared, report.html"))
    if "recommended" not in (variation.policy or ()):
        lines.append((f"{again} {study.trials}{varied} --policy recommended{options}", "with the recommended policy"))
    if not any(setting.startswith("noise=") for setting in variation.settings or ()):
        lines.append((f"{again} {study.trials}{varied} --set noise=0.5{options}", "with more noise"))
    shown = f"{adadim} show {study.labels['figure']}{varied}{variant} > mine.toml"
    lines.append((shown, f"the study, to edit; then: {adadim} run mine.toml"))
    kit.say(f"The picture is {folder / 'figures' / study.name}.png. Next, type one of:")
    for line, why in lines:
        kit.say(f"    {line}  # {why}")


def _claims_table(verdicts: Iterable[Verdict]) -> Table:
    """A row per claim: unit of the statistic, then verdict, statistic and 95% interval for each variant."""
    header, *rows = analysis.claims_table(
        verdicts, lambda v: f"[{kit.VERDICT_COLOURS[v.verdict]}]{escape(analysis.verdict_text(v))}[/]"
    )
    caption = "verdict: statistic [95% interval by bootstrap], in the unit given; positive means that the claim is true"
    table = Table(*(header[:2] + header[3:]), title="The paper's claims", caption=caption, show_lines=True)
    for figure, claim, _, *entries in rows:
        table.add_row(figure, claim, *entries)
    return table


def _say_verdicts(verdicts: Iterable[Verdict]) -> None:
    for v in analysis.corrected(verdicts):
        kit.say(f"{v.claim}, {v.variant}: {analysis.verdict_text(v)} ({v.statistic}; {v.unit})")


def _show_rows(name: str, rows: Sequence[field.Row]) -> None:
    """Print a table of another paper, and its remarks."""
    title = f"{name}: {rows[0].source}, {rows[0].trials} trials"
    lines, comparable = [], any(row.z is not None for row in rows)
    for row in rows:
        learner, reported = row.policy.removeprefix(f"{row.instance}-"), f"{row.reported:g} ± {row.error:.0f}"
        ours = f"{row.ours:.4g} [{row.low:.4g}, {row.high:.4g}]"
        z = [field.z_text(row)] if comparable else []
        lines.append([row.instance, learner, reported, ours, *z, kit.coloured(row.verdict)])
    headings = ("experiment", "learner", "reported", "ours", *(["z"] if comparable else []), "verdict")
    kit.stdout().print(kit.compact_table(title, headings, lines, "learner", 9))
    for remark in dict.fromkeys(row.remark for row in rows):
        about = dict.fromkeys(row.policy for row in rows if row.remark == remark)
        kit.stdout().print(Text(f"{', '.join(about)}: {remark}."), highlight=False)
