"""The comparison as Markdown, and how its numbers are written."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from adadim.experiments.comparison.analysis import PolicySummary, Ratio
from adadim.experiments.comparison.plan import ORACLE, PUBLISHED
from adadim.report.tables import markdown_table

__all__ = ["comparison_markdown", "ratio_text"]

NAMED = 3  # losses that a table lists by name


def comparison_markdown(rows: Sequence[Ratio], summaries: Sequence[PolicySummary]) -> str:
    """The comparison as Markdown: for each split a summary of every policy, then the ratios to the oracle."""
    parts = []
    for split in dict.fromkeys(row.split for row in rows):
        header, *lines = _summary_rows([s for s in summaries if s.split == split])
        parts += [f"## {split}\n", markdown_table(header, lines)]
        shown = [row for row in rows if row.split == split and row.reference == ORACLE]
        policies = list(dict.fromkeys(row.policy for row in shown))
        lines = []
        for family, group in itertools.groupby(shown, lambda row: row.family):
            found = {row.policy: ratio_text(row.value) for row in group}
            lines.append([family, *(found.get(policy, "") for policy in policies)])
        parts.append(markdown_table(["mean regret / oracle's", *policies], lines))
    return "\n".join(parts)


def _summary_rows(summaries: Sequence[PolicySummary]) -> list[list[str]]:
    """Header and a row per policy: the references next to each other."""
    used = {s.reference for s in summaries}
    names = {key: name for key, name in ((ORACLE, "oracle"), (PUBLISHED, "LinUCB++")) if key in used}
    header = ["policy"]
    for name in names.values():
        header += [f"worst / {name}", "where", f"median / {name}", f"trials above twice {name}", f"loses to {name}"]
    lines = [header]
    for policy in dict.fromkeys(s.policy for s in summaries):
        line = [policy]
        for reference in names:
            s = next(s for s in summaries if (s.policy, s.reference) == (policy, reference))
            worst, median = (s.worst, s.worst_low, s.worst_high), (s.median, s.median_low, s.median_high)
            line += [_interval(*worst), s.worst_family, _interval(*median), _percent(s.unlucky), _losses(s)]
        lines.append(line)
    return lines


def _losses(summary: PolicySummary) -> str:
    named = [*summary.losses[:NAMED], *(["..."] if len(summary.losses) > NAMED else [])]
    return f"{len(summary.losses)} of {summary.families}{': ' if named else ''}{', '.join(named)}"


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.0f}%"


def _interval(value: float, low: float, high: float) -> str:
    return f"{ratio_text(value)} [{ratio_text(low)}, {ratio_text(high)}]" if np.isfinite(low) else ratio_text(value)


def ratio_text(value: float) -> str:
    """A ratio with two decimals, none if it is large, a dash if there is none.

    Examples
    --------
    >>> ratio_text(1.5), ratio_text(40.2), ratio_text(float("nan"))
    ('1.50', '40', '–')
    """
    if not np.isfinite(value):
        return "–"
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"
