"""The paper's sentences about its experiments, each with a verdict from the data.

A claim is a statistic that is positive if the sentence is true. Its interval is a 95% percentile interval of the
bootstrap over trials; trials are resampled jointly for all policies and all d*, which share instances and noise, so
differences are paired. The verdict is "holds" if the interval is above 0, "does not hold" if it is below.

A sentence that says several things at once (less regret at every alpha) has a statistic for each, and is as true as the
smallest of them. Resampling the smallest would make it smaller still, and find sentences false that are nearly ties.
Instead the interval reaches from the smallest of the lower ends to the smallest of the upper ends, each upper end
taken far enough out for all of them to be right at once (Bonferroni); it covers the smallest with 95%.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from adadim.experiments.paper.sample import Sample
from adadim.experiments.paper.sentences import Claim, all_claims
from adadim.report.bootstrap import FEWEST
from adadim.report.labels import label
from adadim.report.tables import markdown_table
from adadim.study import Results

__all__ = ["Verdict", "claims", "claims_markdown", "claims_table", "entry"]


@dataclass(frozen=True)
class Verdict:
    """A claim held against the data of one variant.

    Attributes
    ----------
    claim : str
        The claim, in our words.
    figure, where : str
        The figure it is about, and the section of the paper that makes it.
    variant : str
        "released" or "theory".
    statistic : str
        What was computed; positive means that the claim is true.
    value, low, high : float
        The statistic and its 95% interval.
    verdict : {"holds", "does not hold", "undecided"}
        What follows at this many trials; always "undecided" below 6.
    trials : int
        Number of trials.
    """

    claim: str
    figure: str
    where: str
    variant: str
    statistic: str
    value: float
    low: float
    high: float
    verdict: Literal["holds", "does not hold", "undecided"]
    trials: int


def claims(results: Iterable[Results]) -> list[Verdict]:
    """Verdicts on every claim whose figures are there.

    Parameters
    ----------
    results : iterable of Results
        What came of `study`, for any figures and variants; their labels say which they are.

    Returns
    -------
    list of Verdict
        In the order of the paper, the variants of a claim next to each other.
    """
    by_variant: dict[str, dict[str, Results]] = {}
    for found in results:
        by_variant.setdefault(label(found, "variant"), {})[label(found, "figure")] = found
    verdicts = []
    for claim in all_claims():
        for variant, figures in sorted(by_variant.items()):
            if all(figure in figures for figure in claim.figures):
                verdicts.append(_judge(claim, variant, Sample({figure: figures[figure] for figure in claim.figures})))
    return verdicts


def entry(verdict: Verdict) -> str:
    """Verdict, statistic and 95% interval as text."""
    return f"{verdict.verdict}: {verdict.value:.3g} [{verdict.low:.3g}, {verdict.high:.3g}]"


def claims_table(verdicts: Iterable[Verdict], entry: Callable[[Verdict], str] = entry) -> list[list[str]]:
    """The verdicts as a table for people, header first: a row per claim, a column per variant, filled by `entry`."""
    verdicts = list(verdicts)
    variants = sorted({v.variant for v in verdicts})
    rows = [["figure", "claim", "statistic (positive: true)", *variants]]
    for (figure, claim, statistic), group in itertools.groupby(verdicts, lambda v: (v.figure, v.claim, v.statistic)):
        entries = {v.variant: entry(v) for v in group}
        rows.append([figure, claim, statistic, *(entries.get(variant, "") for variant in variants)])
    return rows


def claims_markdown(verdicts: Iterable[Verdict]) -> str:
    """The verdicts as a Markdown table: a row per claim; verdict, statistic and 95% interval for each variant."""
    header, *rows = claims_table(verdicts)
    return markdown_table(header, rows)


def _judge(claim: Claim, variant: str, sample: Sample) -> Verdict:
    verdict: Literal["holds", "does not hold", "undecided"] = "undecided"
    if sample.trials < 2:
        value, low, high = float("nan"), float("-inf"), float("inf")
    else:
        values = claim.compute(sample)
        parts = values.reshape(len(values), -1)
        value = float(parts[0].min())
        low = float(np.quantile(parts[1:], 0.025, axis=0).min())
        high = float(np.quantile(parts[1:], 1 - 0.025 / parts.shape[1], axis=0).min())
        if sample.trials >= FEWEST and low > 0:
            verdict = "holds"
        elif sample.trials >= FEWEST and high < 0:
            verdict = "does not hold"
    return Verdict(
        claim.text, claim.figures[0], claim.where, variant, claim.statistic, value, low, high, verdict, sample.trials
    )
