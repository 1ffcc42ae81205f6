"""The command `study regret`: argument handling and printing, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from adadim import comparison, report, study
from adadim.cli.common import (
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
from adadim.cli.studies import Batch
from adadim.study import toml
from adadim.study.kinds import suggestion

__all__ = ["register"]

ALL = "all"


def register(app: typer.Typer) -> None:
    """Add the group of commands `study` to an application."""
    group = typer.Typer(no_args_is_help=True, help="Standing studies of the library's own policies.")
    group.callback()(lambda: None)  # keeps `regret` a command of the group while it is the only one
    group.command("regret")(regret)
    app.add_typer(group, name="study")


def regret(
    families: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="development, held-out, paper, all, or the name of one family; may be repeated. By default all.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help=f"A policy to run: {', '.join(comparison.policies())}. May be repeated. By default all; "
            f"{comparison.ORACLE} and {comparison.PUBLISHED} always run.",
            show_default=False,
        ),
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with further policies to compare, as \\[policies.NAME] tables.", show_default=False
        ),
    ] = None,
    plugin: Plugins = None,
    trials: Annotated[int, typer.Option("--trials", "-n", min=1, help="Replications.")] = 20,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Where results, figures and tables go.")] = Path(
        "results/regret"
    ),
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    batch: Batch = None,
    quiet: Quiet = False,
) -> None:
    r"""Compare every policy of the library on problems that differ in kind.

    Every policy meets the same instances with the same noise, and its mean
    regret is divided by that of the oracle (LinUCB told d*) and by that of
    LinUCB++. The table tells each policy's worst ratio, where that is, and
    the median over families; the heat map shows them all, and the CSV files
    have the 95% intervals.

    Choose parameters on the families called development, report on those
    called held-out: the split was made before anything was run. The group
    paper has the configurations of the paper's figures. Like every study it
    runs what is missing and nothing else, so interrupt it, add trials or
    policies later. Try a policy of your own against all the others with
    --candidates, and --plugin if you wrote it. Needs scikit-learn: pip install 'adadim\[data]'.

    Example: adadim study regret --families development --policy tapered --trials 4
    """
    with errors():
        plugins, more = load_plugins(plugin), _candidates(candidates)
        plans = [
            comparison.study(split, trials, seed, policy, names, more, plugins)
            for split, names in _by_split(families or [ALL]).items()
        ]
        results = [run_study(plan, out_folder / plan.name, jobs, batch, quiet, device) for plan in plans]
        rows, told = report.ratios(results), report.standings(results)
        paths = []
        for reference in (comparison.ORACLE, comparison.PUBLISHED):
            table = report.ratios_table([row for row in rows if row.reference == reference])
            stem = out_folder / "figures" / f"regret-vs-{reference}"
            paths += report.save(report.draw_ratios(rows, reference), table, stem)
        texts = {"regret.md": report.comparison_markdown(rows, told), "regret.json": as_json_text(told) + "\n"}
        paths += [report.write_whole(out_folder / name, text.encode()) for name, text in texts.items()]
    tell(paths, quiet)
    if not quiet:
        for plan in plans:
            out().print(_table(plan, told))


def _candidates(file: Path | None) -> dict[str, object]:
    """Policies that a file describes."""
    if file is None:
        return {}
    tables = toml.read(file)
    if list(tables) != ["policies"] or not isinstance(tables["policies"], dict):
        raise study.StudyError(f"{file}: candidates are tables [policies.NAME] and nothing else, got {list(tables)}")
    return tables["policies"]


def _by_split(names: Sequence[str]) -> dict[comparison.Split, list[str]]:
    """Families that were asked for, by split."""
    known = {family.name: family.split for family in comparison.FAMILIES}
    for name in names:
        if name not in (ALL, *comparison.SPLITS, *known):
            hint = suggestion(name, [ALL, *comparison.SPLITS, *known])
            raise study.StudyError(f"--families: neither a group nor a family is called {name!r}; {hint}")
    wanted = {
        split: [name for name in known if known[name] == split and {ALL, split, name} & set(names)]
        for split in comparison.SPLITS
    }
    return {split: chosen for split, chosen in wanted.items() if chosen}


def _table(plan: study.Study, told: Sequence[report.Standing]) -> Table:
    """A row per policy, narrow enough for 80 columns."""
    split = plan.name.removeprefix("regret-")
    title = f"{split}: mean regret relative to the oracle's and to that of LinUCB++, {plan.trials} trials"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("policy", "worst", "where", "median", "worst/++", "median/++"):
        table.add_column(heading, no_wrap=heading != "where")
    found = {(s.policy, s.reference): s for s in told if s.split == split}
    for policy in plan.policies:
        oracle, published = (found[policy, reference] for reference in (comparison.ORACLE, comparison.PUBLISHED))
        numbers = [f"{x:.2f}" for x in (oracle.worst, oracle.median, published.worst, published.median)]
        table.add_row(escape(policy), numbers[0], escape(oracle.worst_family), *numbers[1:])
    return table
