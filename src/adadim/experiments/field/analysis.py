"""Each number of a source beside ours, with an interval and a verdict.

Ours has a 95% percentile interval of the bootstrap over trials. The two agree if they differ by no more than the root
of the sum of squares of the two half-widths: that of our interval, and that of the source's (or of how well a figure
can be read). z is the difference in joint standard errors: the root of the sum of squares of ours and of half the
source's half-width, which is two standard errors. A number made with another number of rounds is not comparable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from adadim.core.arrays import FloatArray
from adadim.experiments.field.learners import sphere_experiment
from adadim.experiments.field.plan import EXPERIMENT, TABLES, PublishedTable, Reported
from adadim.report.bootstrap import MIN_TRIALS, percentile_interval, resamples
from adadim.report.text import label, markdown_table
from adadim.study import Results

Agreement = Literal["agrees", "differs", "undecided", "other horizon"]


@dataclass(frozen=True)
class Row:
    """A number of a source, as in `Reported`, compared with our mean regret and its 95% interval.

    z is ours minus reported in joint standard errors, None where the two cannot be compared. The verdict is what
    follows at this many trials of ours, "undecided" below 6.
    """

    table: str
    source: str
    instance: str
    policy: str
    reported: float
    error: float
    ours: float
    low: float
    high: float
    z: float | None
    verdict: Agreement
    horizon: int
    source_horizon: int
    trials: int
    remark: str


def rows(results: Iterable[Results]) -> list[Row]:
    """The rows of every table among the results, in the order of `TABLES`; other experiments are passed over."""
    by_table = {label(r, "table"): r for r in results if r.labels.get("experiment") == EXPERIMENT}
    judged = []
    for name, table in TABLES.items():
        for entry in table.reported if name in by_table else ():
            final = by_table[name].final(entry.instance, entry.policy)
            horizon = int(label(by_table[name], "instances", entry.instance, "horizon"))
            judged.append(_judge(table, entry, final, horizon))
    return judged


def sphere_rows(name: str, trials: int, seed: int = 0, horizon: int | None = None) -> list[Row]:
    """The rows of a table whose arms are all points of a sphere; runs them, which takes seconds."""
    table, judged = TABLES[name], []
    for entry in table.on_sphere:
        experiment, variant, master = entry.policy.split("-", 2)
        rounds = table.source_horizon(entry.instance) if horizon is None else horizon
        final = sphere_experiment(experiment, variant, master, trials, seed, rounds)
        judged.append(_judge(table, entry, final, rounds))
    return judged


def rows_markdown(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    header = ["table", "experiment", "learner", "rounds", "reported", "ours", "95% interval", "z", "verdict", "remark"]
    lines = []
    for row in rows:
        learner, reported = row.policy.removeprefix(f"{row.instance}-"), f"{row.reported:g} ± {row.error:.3g}"
        ours = [f"{row.ours:.4g}", f"[{row.low:.4g}, {row.high:.4g}]", z_text(row)]
        lines.append([row.table, row.instance, learner, str(row.horizon), reported, *ours, row.verdict, row.remark])
    return markdown_table(header, lines)


def z_text(row: Row) -> str:
    """z of a row with its sign; empty where there is none."""
    return "" if row.z is None else f"{row.z:+.1f}"


def _judge(table: PublishedTable, entry: Reported, final: FloatArray, horizon: int) -> Row:
    trials, source_horizon = len(final), table.source_horizon(entry.instance)
    ours, low, high = float(final.mean()), -math.inf, math.inf
    verdict: Agreement = "undecided"
    z = None
    if trials > 1:
        low, high = percentile_interval(final[resamples(trials)[1:]].mean(axis=1))
    if horizon != source_horizon:
        verdict = "other horizon"
    elif trials > 1:
        z = (ours - entry.value) / math.hypot(float(final.std(ddof=1)) / math.sqrt(trials), entry.error / 2)
        if trials >= MIN_TRIALS:
            verdict = "agrees" if abs(ours - entry.value) <= math.hypot((high - low) / 2, entry.error) else "differs"
    about = (table.name, table.source, entry.instance, entry.policy, entry.value, entry.error)
    return Row(*about, ours, low, high, z, verdict, horizon, source_horizon, trials, entry.remark)
