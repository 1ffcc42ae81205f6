"""Ratios of mean regrets in the comparison, and a summary of them for every policy.

A ratio is one policy's mean regret over that of a reference on the same instances with the same noise. Its interval is
a 95% percentile interval of the bootstrap over trials, which are resampled jointly for both and for all families, so
the comparison is paired. Where the reference loses nothing there is no ratio: it is NaN, and counts nowhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from adadim.core.arrays import FloatArray
from adadim.experiments.comparison.plan import ORACLE, PUBLISHED
from adadim.report.bootstrap import MIN_TRIALS, percentile_interval, resamples
from adadim.report.text import label, markdown_table
from adadim.study import Results

MIN_REGRET = 1e-9  # a regret below is none
MAX_NAMED = 3  # losses that a table lists by name
NAN = float("nan")


@dataclass(frozen=True)
class Ratio:
    """Mean regret of a policy on a family after the last round, and its ratio to that of a reference.

    The ratio and its 95% interval are NaN where the reference loses nothing; fewer than 6 trials have no interval.
    `unlucky` is the share of the trials that lost more than twice the reference's mean; `trials` counts those that all
    policies have finished.
    """

    split: str
    family: str
    policy: str
    reference: str
    regret: float
    value: float
    low: float
    high: float
    unlucky: float
    trials: int


@dataclass(frozen=True)
class PolicySummary:
    """One policy over all families of a split, relative to a reference: median and largest ratio with 95% intervals.

    `families` counts those that have a ratio; `unlucky` is the share of all trials that lost more than twice the
    reference's mean on their family; `losses` are the families on which the ratio is above 1, interval and all, worst
    first.
    """

    split: str
    policy: str
    reference: str
    families: int
    median: float
    median_low: float
    median_high: float
    worst: float
    worst_low: float
    worst_high: float
    worst_family: str
    unlucky: float
    losses: tuple[str, ...]


def ratios(results: Iterable[Results], references: Sequence[str] = (ORACLE, PUBLISHED)) -> list[Ratio]:
    """Every policy on every family of results of `study`, relative to each of the references that played there.

    Examples
    --------
    >>> import tempfile
    >>> from adadim.experiments import comparison
    >>> from adadim.study import run
    >>> plan = comparison.study("development", trials=2, policy=["random"], family=["lower-bound-35/50"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = ratios([run(plan, folder, jobs=1)])
    >>> [row.policy for row in rows if row.reference == "oracle"]
    ['oracle', 'linucb++', 'random']
    """
    return [row for part in results for row, _ in _sampled(part, references)]


def policy_summaries(
    results: Iterable[Results], references: Sequence[str] = (ORACLE, PUBLISHED)
) -> list[PolicySummary]:
    """Worst case, median and losses of every policy, by split and reference."""
    summaries = []
    for part in results:
        groups: dict[tuple[str, str], list[tuple[Ratio, FloatArray]]] = {}
        for row, sample in _sampled(part, references):
            groups.setdefault((row.policy, row.reference), []).append((row, sample))
        summaries += [_policy_summary(group) for group in groups.values()]
    return summaries


def ratios_table(rows: Sequence[Ratio]) -> pl.DataFrame:
    """Ratios as a table, a row each."""
    return pl.DataFrame([asdict(row) for row in rows])


def _sampled(results: Results, references: Sequence[str]) -> list[tuple[Ratio, FloatArray]]:
    """Every ratio of one split with its resamples."""
    split = label(results, "split")
    sampled = []
    for family in results.instances:
        cells = [cell for cell in results.cells() if cell[0] == family]
        numbers = results.common_trials(cells)
        if not len(numbers):
            continue
        index, policies = resamples(len(numbers)), [policy for _, policy in cells]
        finals = {policy: results.final(family, policy, trials=numbers) for policy in policies}
        means = {policy: final[index].mean(axis=1) for policy, final in finals.items()}
        present = [name for name in references if name in policies]
        for policy, reference in itertools.product(policies, present):
            value, low, high, sample = _quotient(means[policy], means[reference], len(numbers))
            regret, unlucky = float(means[policy][0]), float(np.mean(finals[policy] > 2 * means[reference][0]))
            row = Ratio(split, family, policy, reference, regret, value, low, high, unlucky, len(numbers))
            sampled.append((row, sample))
    return sampled


def _quotient(ours: FloatArray, theirs: FloatArray, trials: int) -> tuple[float, float, float, FloatArray]:
    """Ratio of means, its interval and its resamples."""
    if theirs[0] <= MIN_REGRET:
        return NAN, NAN, NAN, np.full(len(ours), NAN)
    # A resample may hold only trials in which the reference loses nothing; it then counts as a very large ratio.
    sample: FloatArray = ours / np.maximum(theirs, MIN_REGRET)
    low, high = percentile_interval(sample[1:]) if trials >= MIN_TRIALS else (NAN, NAN)
    return float(sample[0]), low, high, sample


def _policy_summary(group: Sequence[tuple[Ratio, FloatArray]]) -> PolicySummary:
    about = (group[0][0].split, group[0][0].policy, group[0][0].reference)
    rows = [row for row, _ in group if np.isfinite(row.value)]
    if not rows:
        return PolicySummary(*about, 0, NAN, NAN, NAN, NAN, NAN, NAN, "", NAN, ())
    medians = np.median([sample for row, sample in group if row in rows], axis=0)
    low, high = percentile_interval(medians[1:]) if min(row.trials for row in rows) >= MIN_TRIALS else (NAN, NAN)
    worst, *_ = order = sorted(rows, key=lambda row: -row.value)
    median, largest = (float(medians[0]), low, high), (worst.value, worst.low, worst.high)
    unlucky = float(np.average([row.unlucky for row in rows], weights=[row.trials for row in rows]))
    losses = tuple(row.family for row in order if row.low > 1)
    return PolicySummary(*about, len(rows), *median, *largest, worst.family, unlucky, losses)


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
            texts = {row.policy: ratio_text(row.value) for row in group}
            lines.append([family, *(texts.get(policy, "") for policy in policies)])
        parts.append(markdown_table(["mean regret / oracle's", *policies], lines))
    return "\n".join(parts)


def _summary_rows(summaries: Sequence[PolicySummary]) -> list[list[str]]:
    """Header, and a row per policy with the columns of each reference."""
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
            named = [*s.losses[:MAX_NAMED], *(["..."] if len(s.losses) > MAX_NAMED else [])]
            losses = f"{len(s.losses)} of {s.families}{': ' if named else ''}{', '.join(named)}"
            unlucky = "–" if np.isnan(s.unlucky) else f"{100 * s.unlucky:.0f}%"
            line += [_interval(*worst), s.worst_family, _interval(*median), unlucky, losses]
        lines.append(line)
    return lines


def _interval(value: float, low: float, high: float) -> str:
    return f"{ratio_text(value)} [{ratio_text(low)}, {ratio_text(high)}]" if np.isfinite(low) else ratio_text(value)


def ratio_text(value: float) -> str:
    """A ratio with two decimals, none if it is large, a dash if there is none."""
    if not np.isfinite(value):
        return "–"
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"
