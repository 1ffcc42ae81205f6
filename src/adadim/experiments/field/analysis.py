"""Each number of a source beside ours, with an interval and a verdict.

Ours has a 95% percentile interval of the bootstrap over trials. The two agree if they differ by no more than the root
of the sum of squares of the two half-widths: that of our interval, and that of the source's (or of how well a figure
can be read). A number made with another number of rounds is not comparable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from adadim.core.arrays import FloatArray
from adadim.experiments.field.learners import experiment_five
from adadim.experiments.field.plan import EXPERIMENT, TABLES, Reported, Table
from adadim.report.bootstrap import FEWEST, interval, resamples
from adadim.report.text import label, markdown_table
from adadim.study import Results

Agreement = Literal["agrees", "differs", "undecided", "other horizon"]


@dataclass(frozen=True)
class Row:
    """A number of a source, as in `Reported`, compared with our mean regret and its 95% interval.

    The verdict is what follows at this many trials of ours, "undecided" below 6.
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
    """The rows of a table whose arms are a whole sphere, which are run here and now (seconds)."""
    table, judged = TABLES[name], []
    for entry in table.on_sphere:
        variant, master = entry.policy.split("-")[1:]
        rounds = table.source_horizon(entry.instance) if horizon is None else horizon
        judged.append(_judge(table, entry, experiment_five(master, variant, trials, seed, rounds), rounds))
    return judged


def rows_markdown(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    header = ["table", "experiment", "learner", "rounds", "reported", "ours", "95% interval", "verdict", "remark"]
    lines = []
    for row in rows:
        learner, reported = row.policy.removeprefix(f"{row.instance}-"), f"{row.reported:g} ± {row.error:.3g}"
        ours = [f"{row.ours:.4g}", f"[{row.low:.4g}, {row.high:.4g}]"]
        lines.append([row.table, row.instance, learner, str(row.horizon), reported, *ours, row.verdict, row.remark])
    return markdown_table(header, lines)


def _judge(table: Table, entry: Reported, final: FloatArray, horizon: int) -> Row:
    trials, wanted = len(final), table.source_horizon(entry.instance)
    ours, low, high = float(final.mean()), -math.inf, math.inf
    verdict: Agreement = "undecided"
    if trials > 1:
        low, high = interval(final[resamples(trials)[1:]].mean(axis=1))
    if horizon != wanted:
        verdict = "other horizon"
    elif trials >= FEWEST:
        verdict = "agrees" if abs(ours - entry.value) <= math.hypot((high - low) / 2, entry.error) else "differs"
    about = (table.name, table.source, entry.instance, entry.policy, entry.value, entry.error)
    return Row(*about, ours, low, high, verdict, horizon, wanted, trials, entry.remark)
