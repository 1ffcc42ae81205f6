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

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adadim.bootstrap import FEWEST, resamples
from adadim.paper import FIGURES
from adadim.report.figures import LABELS
from adadim.report.tables import markdown_table
from adadim.study import Results
from adadim.theory import hardness

__all__ = ["Claim", "Verdict", "claims", "claims_markdown", "claims_table"]

IntArray = np.ndarray[Any, np.dtype[np.int64]]
FloatArray = np.ndarray[Any, np.dtype[np.float64]]

RIVALS = ("linucb", "smooth-corral", "dynamic-balancing", "linucb++corral")
CORRALS = ("smooth-corral", "dynamic-balancing", "linucb++corral")
OURS = "linucb++"
COMPARABLE = 0.10  # relative difference of means that still counts as comparable
FLAT = 0.10  # regret per round at the end relative to the start that still counts as almost flat
RANKED = 0.80  # rank correlation from which two orders of the policies count as alike


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


class _Sample:
    """Statistics of the trials of one variant and of its resamples; entry 0 is the data as they are.

    The trials are those that every policy has finished, so that an interrupted study too is compared in pairs.
    """

    def __init__(self, results: Mapping[str, Results]) -> None:
        self.results = results
        stored = [r.replications(*cell) for r in results.values() for cell in r.cells()]
        self.numbers = functools.reduce(np.intersect1d, stored)
        self.trials = len(self.numbers)
        self.index = resamples(self.trials)

    def mean(self, figure: str, d: int, policy: str) -> FloatArray:
        value: FloatArray = self._final(figure, d, policy)[self.index].mean(axis=1)
        return value

    def std(self, figure: str, d: int, policy: str) -> FloatArray:
        value: FloatArray = self._final(figure, d, policy)[self.index].std(axis=1, ddof=1)
        return value

    def slope(self, figure: str, d: int, policy: str, part: slice) -> FloatArray:
        """Mean regret per round between two record points."""
        times, regret = self.results[figure].curves(f"d{d}", policy)
        regret = regret[self._place(figure, d, policy)]
        times, regret = np.concatenate([[0], times]), np.pad(regret, ((0, 0), (1, 0)))
        times, regret = times[part], regret[:, part]
        rate = (regret[:, -1] - regret[:, 0]) / (times[-1] - times[0])
        value: FloatArray = rate[self.index].mean(axis=1)
        return value

    def growth(self, figure: str, policy: str) -> FloatArray:
        """Least-squares slope of the mean final regret in alpha."""
        shown = FIGURES[figure]
        alpha = np.array(
            [hardness(d, p["horizon"]) for d, p in zip(shown.dims, shown.instances().values(), strict=True)]
        )
        means = np.stack([self.mean(figure, d, policy) for d in shown.dims], axis=-1)
        centred = alpha - alpha.mean()
        value: FloatArray = means @ centred / (centred @ centred)
        return value

    def _final(self, figure: str, d: int, policy: str) -> FloatArray:
        return self.results[figure].final(f"d{d}", policy)[self._place(figure, d, policy)]

    def _place(self, figure: str, d: int, policy: str) -> IntArray:
        """Where the common trials stand among those of a cell."""
        place: IntArray = np.searchsorted(self.results[figure].replications(f"d{d}", policy), self.numbers)
        return place


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that can be true or false.

    Attributes
    ----------
    text : str
        The claim, in our words.
    figures : tuple of str
        Figures whose data it needs; the first is the one it is about.
    where : str
        Section of the paper.
    statistic : str
        What is computed; positive means true.
    compute : callable
        The computation: data first, then resamples; a column for each thing that the sentence says.
    """

    text: str
    figures: tuple[str, ...]
    where: str
    statistic: str
    compute: Callable[[_Sample], FloatArray]


def claims(results: Mapping[tuple[str, str], Results]) -> list[Verdict]:
    """Verdicts on every claim whose figures are there.

    Parameters
    ----------
    results : mapping
        (figure, variant) to the results of that study.

    Returns
    -------
    list of Verdict
        In the order of the paper, the variants of a claim side by side.
    """
    variants = sorted({variant for _, variant in results})
    samples = {v: {figure: r for (figure, w), r in results.items() if w == v} for v in variants}
    told = []
    for claim in _claims():
        for variant in variants:
            if all(figure in samples[variant] for figure in claim.figures):
                told.append(_judge(claim, variant, _Sample({f: samples[variant][f] for f in claim.figures})))
    return told


def claims_table(verdicts: Iterable[Verdict]) -> list[list[str]]:
    """The verdicts as a table for people, header first: a row per claim, a column per variant."""
    verdicts = list(verdicts)
    variants = sorted({v.variant for v in verdicts})
    rows = [["figure", "claim", "statistic (positive: true)", *variants]]
    for (figure, claim, statistic), group in itertools.groupby(verdicts, lambda v: (v.figure, v.claim, v.statistic)):
        told = {v.variant: f"{v.verdict}: {v.value:.3g} [{v.low:.3g}, {v.high:.3g}]" for v in group}
        rows.append([figure, claim, statistic, *(told.get(variant, "") for variant in variants)])
    return rows


def claims_markdown(verdicts: Iterable[Verdict]) -> str:
    """The verdicts as a Markdown table: a row per claim; verdict, statistic and 95% interval for each variant."""
    header, *rows = claims_table(verdicts)
    return markdown_table(header, rows)


def _judge(claim: Claim, variant: str, sample: _Sample) -> Verdict:
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


def _claims() -> list[Claim]:
    return [
        *_at_one_dim("fig2a", "5"),
        _spread("fig2a", ("linucb", "oracle", *CORRALS), "every other algorithm's, the oracle's included"),
        _spread("fig2a", RIVALS, "that of every algorithm but the oracle"),
        _flat("fig2a", "before its last restart (rounds 1500 to 1900)", slice(60, 77)),
        _flat("fig2a", "at the end (the last fifth of the rounds)", slice(80, 101)),
        *_at_every_dim("fig2b", "5", RIVALS),
        *_at_one_dim("fig3a", "5"),
        _alike(),
        *_at_every_dim("fig3b", "5", RIVALS),
        *(_behind_linucb(policy) for policy in CORRALS),
        *(_grows_faster(policy) for policy in (*CORRALS, OURS)),
        _comparable(),
        _wider(),
        *_at_every_dim("fig4b", "appendix D", RIVALS),
    ]


def _at_one_dim(figure: str, where: str) -> list[Claim]:
    d = FIGURES[figure].dims[0]
    rows = [
        Claim(
            f"LinUCB++ has less regret than {LABELS[rival]} at d* = {d}",
            (figure,),
            where,
            f"mean regret of {LABELS[rival]} minus that of LinUCB++",
            lambda s, rival=rival: s.mean(figure, d, rival) - s.mean(figure, d, OURS),  # type: ignore[misc]
        )
        for rival in RIVALS
    ]
    oracle = Claim(
        f"The oracle, and only it, has less regret than LinUCB++ at d* = {d}",
        (figure,),
        where,
        "the smaller of: LinUCB++ minus oracle; best other minus LinUCB++",
        lambda s: np.stack(
            [
                s.mean(figure, d, OURS) - s.mean(figure, d, "oracle"),
                *(s.mean(figure, d, rival) - s.mean(figure, d, OURS) for rival in RIVALS),
            ],
            axis=-1,
        ),
    )
    return [*rows, oracle]


def _at_every_dim(figure: str, where: str, rivals: Iterable[str]) -> list[Claim]:
    dims = FIGURES[figure].dims
    return [
        Claim(
            f"LinUCB++ has less regret than {LABELS[rival]} at every alpha",
            (figure,),
            where,
            f"mean regret of {LABELS[rival]} minus that of LinUCB++, smallest over alpha",
            lambda s, rival=rival: np.stack(  # type: ignore[misc]
                [s.mean(figure, d, rival) - s.mean(figure, d, OURS) for d in dims], axis=-1
            ),
        )
        for rival in rivals
    ]


def _spread(figure: str, others: tuple[str, ...], whose: str) -> Claim:
    d = FIGURES[figure].dims[0]
    return Claim(
        f"The spread of LinUCB++ over trials is smaller than {whose}",
        (figure,),
        "5",
        "smallest standard deviation among the others minus that of LinUCB++",
        lambda s: np.stack([s.std(figure, d, other) - s.std(figure, d, OURS) for other in others], axis=-1),
    )


def _flat(figure: str, when: str, part: slice) -> Claim:
    d = FIGURES[figure].dims[0]
    return Claim(
        f"The regret curve of LinUCB++ is almost flat {when}",
        (figure,),
        "5",
        f"{FLAT} minus (regret per round then / in the first fifth of the rounds)",
        lambda s: FLAT - s.slope(figure, d, OURS, part) / s.slope(figure, d, OURS, slice(0, 21)),
    )


def _alike() -> Claim:
    everyone = (*RIVALS, OURS, "oracle")

    def compute(s: _Sample) -> FloatArray:
        ranks = [
            np.argsort(
                np.argsort([s.mean(figure, FIGURES[figure].dims[0], policy) for policy in everyone], axis=0), axis=0
            )
            for figure in ("fig3a", "fig2a")
        ]
        n = len(everyone)
        rho: FloatArray = 1 - 6 * ((ranks[0] - ranks[1]) ** 2).sum(axis=0) / (n * (n**2 - 1))
        return rho - RANKED

    return Claim(
        "With an expressive action set the algorithms come in much the same order as without",
        ("fig3a", "fig2a"),
        "5",
        f"rank correlation of the six mean regrets with and without, minus {RANKED}",
        compute,
    )


def _behind_linucb(policy: str) -> Claim:
    d = FIGURES["fig3b"].dims[-1]
    return Claim(
        f"With an expressive action set {LABELS[policy]} falls behind LinUCB at the largest alpha",
        ("fig3b",),
        "5",
        f"mean regret of {LABELS[policy]} minus that of LinUCB at d* = {d}",
        lambda s: s.mean("fig3b", d, policy) - s.mean("fig3b", d, "linucb"),
    )


def _grows_faster(policy: str) -> Claim:
    return Claim(
        f"The regret of {LABELS[policy]} grows faster in alpha with an expressive action set than without",
        ("fig3b", "fig2b"),
        "5",
        "slope of the mean regret in alpha with, minus without",
        lambda s: s.growth("fig3b", policy) - s.growth("fig2b", policy),
    )


def _comparable() -> Claim:
    dims = FIGURES["fig4a"].dims

    def compute(s: _Sample) -> FloatArray:
        ours, theirs = (
            np.mean([s.mean("fig4a", d, policy) for d in dims], axis=0) for policy in (OURS, "dynamic-balancing")
        )
        more = theirs / ours - 1
        return np.stack([COMPARABLE - more, COMPARABLE + more], axis=-1)

    return Claim(
        "With decaying theta Dynamic Balancing and LinUCB++ have comparable regret on average",
        ("fig4a",),
        "appendix D",
        f"{COMPARABLE} minus |regret of Dynamic Balancing / that of LinUCB++ - 1|, both averaged over alpha",
        compute,
    )


def _wider() -> Claim:
    dims = FIGURES["fig4a"].dims
    return Claim(
        "With decaying theta Dynamic Balancing has the larger spread over trials",
        ("fig4a",),
        "appendix D",
        "standard deviation of Dynamic Balancing minus that of LinUCB++, smallest over alpha",
        lambda s: np.stack([s.std("fig4a", d, "dynamic-balancing") - s.std("fig4a", d, OURS) for d in dims], axis=-1),
    )
