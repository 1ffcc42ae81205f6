"""The command `report`: studies, the paper's claims and the comparison as one web page."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from adadim.cli import kit
from adadim.errors import AdadimError
from adadim.experiments import comparison, paper
from adadim.experiments.paper.analysis import NOT_TESTABLE
from adadim.report import title as title_of
from adadim.report.page import Claims, Heading, HeatMap, Table, write_page
from adadim.study import Results, Study, load

# What a verdict means, and what the columns of the claims hold.
VERDICTS = {
    "holds": "the 95% interval of the statistic lies above 0: the data support the sentence.",
    "does not hold": "the interval lies below 0: the data contradict the sentence.",
    "undecided": "the interval contains 0, or there are fewer than 6 trials: more trials would tell.",
}
TALLIED = {  # of one claim, and of several
    "holds": ("holds", "hold"),
    "does not hold": ("does not", "do not"),
    "undecided": ("undecided", "undecided"),
}
CLAIM_COLUMNS = {
    "figure": Heading("figure", "figure of the paper that the claim is about"),
    "claim": Heading("claim", "the paper's sentence, in our words"),
    "variant": Heading("variant", "theory follows the paper's text, released its code where the two differ"),
    "verdict": Heading("verdict", "what the data say", "verdict"),
    "holds_after_holm": Heading(
        "holds after Holm", "whether the verdict stands when all verdicts are to be right at once (Holm's correction)"
    ),
    "value": Heading("value", "the statistic; positive means that the claim is true", "number"),
    "low": Heading("low", "lower end of its 95% interval", "number"),
    "high": Heading("high", "upper end of its 95% interval", "number"),
    "unit": Heading("unit", "unit of the statistic"),
    "p": Heading("p", "two-sided p-value of the verdict by itself", "number"),
    "trials": Heading("trials", "number of trials", "number"),
    "statistic": Heading("statistic", "what was computed"),
    "where": Heading("section", "section of the paper"),
}
SUMMARY_COLUMNS = (
    Heading("families", "group of families"),
    Heading("policy"),
    Heading("relative to", "the reference"),
    Heading("median", "median ratio over families", "number"),
    Heading("low", "lower end of its 95% interval", "number"),
    Heading("high", "upper end of its 95% interval", "number"),
    Heading("worst", "largest ratio", "number"),
    Heading("on", "the family of the largest ratio"),
    Heading("unlucky", "share of trials that lost more than twice the reference's mean", "number"),
    Heading("losses", "families on which the ratio is above 1, interval and all", "number"),
)


def report(
    folders: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Results folders: paths or URLs.", show_default=False)
    ],
    out_file: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Heading of the page.", show_default=False)] = None,
) -> None:
    """Write an HTML report of results that can be shared as one file.

    The page is self-contained and loads nothing from the network. It shows the regret of every study, for the policies,
    trials and bands that you select, and regret against any parameter that varies; the paper's claims with their
    verdicts; the comparison as a sortable table; and how to run each study again. FOLDER is a folder made by
    [bold]run[/bold], [bold]reproduce[/bold] or [bold]study regret[/bold], or one that contains such folders, up to two
    levels deep.

    Example: adadim report results --out report.html
    """
    places = [place for folder in folders for place in kit.study_folders(folder, levels=2)]
    # A folder may be named twice, in two ways.
    distinct = {place.resolve() if isinstance(place, Path) else place: place for place in places}
    studies = [load(place) for place in distinct.values()]
    blocks = [*_claims(studies), *_comparison(studies)]
    heading = title or (title_of(studies[0]) if len(studies) == 1 else "adadim results")
    reruns = {results.name: command for results in studies if (command := _rerun(results))}
    kit.print_written([write_page(out_file, studies, heading, blocks, reruns)])


def _rerun(results: Results) -> list[str]:
    """The command that runs one of the library's own experiments again; none for studies of any other kind."""
    labels, trials, seed = results.labels, results.trials, results.study.get("seed", 0)
    try:
        if labels.get("experiment") == "paper":
            figure, variant = labels["figure"], labels["variant"]
            plan, chosen = paper.study(figure, variant, trials, seed), f"reproduce {figure} --variant {variant}"
        elif labels.get("experiment") == "comparison":
            names, families = list(results.policies), list(results.instances)
            plan = comparison.study(labels["split"], trials, seed, names, families)
            policies = " ".join(f"--policy {shlex.quote(name)}" for name in names)
            all_families = [family.name for family in comparison.FAMILIES if family.split == labels["split"]]
            groups = [labels["split"]] if families == all_families else families
            chosen = f"study regret {' '.join(f'--families {shlex.quote(name)}' for name in groups)} {policies}"
        else:
            return []
        stored = Study.from_dict(results.study)
    except (AdadimError, KeyError):  # varied, or with policies from a plugin: the page has its TOML file
        return []
    same = all(getattr(stored, key) == getattr(plan, key) for key in ("instances", "policies", "record", "only"))
    return [f"adadim {chosen} --trials {trials} --seed {seed}"] if same else []


def _claims(studies: Sequence[Results]) -> list[Claims]:
    """The paper's claims, as far as its figures are there."""
    verdicts = paper.claims([results for results in studies if paper.unvaried(results)])
    if not verdicts:
        return []
    counts = Counter(v.verdict for v in verdicts).most_common()
    tally = ", ".join(f"{count} {TALLIED[verdict][count > 1]}" for verdict, count in counts)
    listed: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for v in verdicts:
        listed.setdefault((v.figure, v.claim), []).append((v.variant, v.verdict))
    text = [
        "Each sentence of the paper about its experiments is a statistic that is positive if the sentence is true, "
        "with a 95% interval from the bootstrap over trials.",
        "Each interval has 95% coverage by itself. The column 'holds after Holm' says whether the verdict stands after "
        "Holm's correction for all of them together: "
        f"{sum(v.holds_after_holm for v in verdicts)} do.",
        f"Not testable: {' '.join(NOT_TESTABLE)}",
    ]
    rows = [{**asdict(v), "holds_after_holm": "yes" if v.holds_after_holm else "no"} for v in verdicts]
    cells = [[row[name] for name in CLAIM_COLUMNS] for row in rows]
    columns = list(CLAIM_COLUMNS.values())
    statistics = Table("The statistics behind the verdicts", text, columns, cells, "verdict", VERDICTS)
    claims = [(*key, cases) for key, cases in listed.items()]
    many = f"{f'{len(verdicts)} verdicts on ' if len(verdicts) > len(claims) else ''}{len(claims)} claims"
    return [Claims("The paper's claims", [f"{many}: {tally}."], claims, statistics)]


def _comparison(studies: Sequence[Results]) -> list[Table | HeatMap]:
    """The comparison's heat map and summary, as far as it was run."""
    parts = [results for results in studies if results.labels.get("experiment") == "comparison"]
    rows = comparison.ratios(parts)
    if not rows:
        return []
    families = list(dict.fromkeys((row.split, row.family) for row in rows))
    policies = list(dict.fromkeys(row.policy for row in rows))
    references = list(dict.fromkeys(row.reference for row in rows))
    position = {id(row): (families.index((row.split, row.family)), policies.index(row.policy)) for row in rows}
    text = [
        "Mean regret of a policy on a family of problems, divided by that of the reference on the same instances with "
        "the same noise: blue is better than the reference, red worse. Names end in d*/d; a dash means that the "
        "reference loses nothing. Click a policy to sort by it."
    ]
    ratios = {
        name: {position[id(row)]: (row.value, row.low, row.high) for row in rows if row.reference == name}
        for name in references
    }
    regrets = {position[id(row)]: row.regret for row in rows}
    cells = [
        (
            *(s.split, s.policy, s.reference, s.median, s.median_low, s.median_high),
            *(s.worst, s.worst_family, s.unlucky, len(s.losses)),
        )
        for s in comparison.policy_summaries(parts)
    ]
    summary_text = ["Every policy over all families of a group. Below 1 means less regret than the reference."]
    return [
        HeatMap("The comparison", text, families, policies, ratios, regrets),
        Table("The comparison, summarised", summary_text, SUMMARY_COLUMNS, cells, choose="relative to"),
    ]
