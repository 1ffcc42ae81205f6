"""The paper's sentences about its experiments, each with a verdict from the data.

A claim is a statistic that is positive if the sentence is true. Its interval is a 95% percentile interval of the
bootstrap over trials; trials are resampled jointly for all policies and all d*, which share instances and noise, so
differences are paired. The verdict is "holds" if the interval is above 0, "does not hold" if it is below.

A sentence that says several things at once (less regret at every alpha) has a statistic for each, and is as true as the
smallest of them. Resampling the smallest would make it smaller still, and find sentences false that are nearly ties.
Instead the interval reaches from the smallest of the lower ends to the smallest of the upper ends, each upper end
taken far enough out for all of them to be right at once (Bonferroni); it covers the smallest with 95%.

Each interval errs once in twenty, so among some eighty verdicts a few would be wrong by chance alone.
`Verdict.survives` says which stand when all of them are to be right at once with 95%: Holm's step-down procedure on the
bootstrap p-values of all verdicts together, which asks nothing of how they depend on each other (they share trials).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from adadim.experiments.paper.sample import Sample
from adadim.experiments.paper.sentences import NOT_TESTABLE, Claim, all_claims
from adadim.report.bootstrap import FEWEST
from adadim.report.labels import label
from adadim.report.tables import markdown_table
from adadim.study import Results

__all__ = [
    "Verdict",
    "claims",
    "claims_markdown",
    "claims_table",
    "corrected",
    "correction_note",
    "entry",
    "verdict_of",
]

LEVEL = 0.05


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
    unit : str
        In which unit it comes.
    value, low, high : float
        The statistic and its 95% interval.
    verdict : {"holds", "does not hold", "undecided"}
        What follows at this many trials; always "undecided" below 6.
    trials : int
        Number of trials.
    p : float
        Two-sided bootstrap p-value of the verdict by itself; never below 2/4001, what the resamples can tell.
    survives : bool
        Whether the verdict stands after Holm's correction for all verdicts it was made with.
    """

    claim: str
    figure: str
    where: str
    variant: str
    statistic: str
    unit: str
    value: float
    low: float
    high: float
    verdict: Literal["holds", "does not hold", "undecided"]
    trials: int
    p: float = 1.0
    survives: bool = False


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
    return corrected(verdicts)


def corrected(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts, each with whether it stands after Holm's correction for all of them at 5%."""
    found = list(verdicts)
    order = sorted(range(len(found)), key=lambda i: found[i].p)
    stands, surviving = True, set()
    for rank, i in enumerate(order):
        stands = stands and found[i].p <= LEVEL / (len(found) - rank)
        if stands and found[i].verdict != "undecided":
            surviving.add(i)
    return [replace(verdict, survives=i in surviving) for i, verdict in enumerate(found)]


def entry(verdict: Verdict) -> str:
    """Verdict, statistic and 95% interval as text; a star says that the verdict does not survive the correction."""
    star = "*" if verdict.verdict != "undecided" and not verdict.survives else ""
    return f"{verdict.verdict}{star}: {verdict.value:.3g} [{verdict.low:.3g}, {verdict.high:.3g}]"


def claims_table(verdicts: Iterable[Verdict], entry: Callable[[Verdict], str] = entry) -> list[list[str]]:
    """The verdicts as a table for people, header first: a row per claim, a column per variant, filled by `entry`."""
    verdicts = list(verdicts)
    variants = sorted({v.variant for v in verdicts})
    rows = [["figure", "claim", "statistic (positive: true)", "unit", *variants]]
    for key, group in itertools.groupby(verdicts, lambda v: (v.figure, v.claim, v.statistic, v.unit)):
        entries = {v.variant: entry(v) for v in group}
        rows.append([*key, *(entries.get(variant, "") for variant in variants)])
    return rows


def claims_markdown(verdicts: Iterable[Verdict]) -> str:
    """The verdicts as a Markdown table: a row per claim; verdict, statistic and 95% interval for each variant.

    Below it stands how to read it, and which sentences of the paper cannot be tested.
    """
    found = list(verdicts)
    header, *rows = claims_table(found)
    untested = "\n".join(f"- {sentence}" for sentence in NOT_TESTABLE)
    return f"{markdown_table(header, rows)}\n{correction_note(found)}\n\nNot testable:\n\n{untested}\n"


def correction_note(verdicts: Iterable[Verdict]) -> str:
    """How many verdicts there are, how they are corrected, and which do not survive that."""
    found = list(verdicts)
    changed = [v for v in found if v.verdict != "undecided" and not v.survives]
    text = (
        f"Every interval is one of 95% by itself. Of {len(found)} verdicts, those with a star do not survive Holm's "
        f"correction, which makes all of them right at once with 95%: {len(changed) or 'none'}"
    )
    names = "; ".join(f"{v.figure} {v.variant}, {v.claim}" for v in changed)
    return f"{text} ({names})." if changed else f"{text}."


def _judge(claim: Claim, variant: str, sample: Sample) -> Verdict:
    about = (claim.text, claim.figures[0], claim.where, variant, claim.statistic, claim.unit)
    return verdict_of(about, claim.compute(sample) if sample.trials > 1 else np.empty(0), sample.trials)


def verdict_of(
    about: tuple[str, str, str, str, str, str], values: np.ndarray[Any, np.dtype[np.float64]], trials: int
) -> Verdict:
    """Verdict that follows from a statistic.

    Parameters
    ----------
    about : tuple of str
        Claim, figure, where, variant, statistic and unit.
    values : array (resamples, ...)
        The statistic of the data, then of resamples; a column for each thing that the sentence says.
    trials : int
        Number of trials; fewer than 6 decide nothing.
    """
    if trials < 2:
        return Verdict(*about, float("nan"), float("-inf"), float("inf"), "undecided", trials)
    parts = values.reshape(len(values), -1)
    low = float(np.quantile(parts[1:], 0.025, axis=0).min())
    high = float(np.quantile(parts[1:], 1 - 0.025 / parts.shape[1], axis=0).min())
    verdict: Literal["holds", "does not hold", "undecided"] = "undecided"
    p = 1.0
    if trials >= FEWEST:
        p = _p_value(parts[1:])
        verdict = "holds" if low > 0 else "does not hold" if high < 0 else "undecided"
    return Verdict(*about, float(parts[0].min()), low, high, verdict, trials, p)


def _p_value(parts: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Two-sided p-value of resamples, a column for each thing that a sentence says.

    All of them must be positive for it to be true: the largest one-sided p-value says how sure that is. One negative
    makes it false: the smallest, times their number, says how sure that is.
    """
    count = len(parts) + 1
    not_positive = ((parts <= 0).sum(axis=0) + 1) / count
    not_negative = ((parts >= 0).sum(axis=0) + 1) / count
    return float(min(1.0, 2 * min(not_positive.max(), not_negative.min() * parts.shape[1])))
