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

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from adadim.backend.arrays import FloatArray
from adadim.experiments.paper.plan import FIGURES, LABELS
from adadim.report.bootstrap import FEWEST, resamples
from adadim.report.text import label, markdown_table
from adadim.study import Results
from adadim.theory import hardness

LEVEL = 0.05
RIVALS = ("linucb", "smooth-corral", "dynamic-balancing", "linucb++corral")
CORRALS = ("smooth-corral", "dynamic-balancing", "linucb++corral")
OURS = "linucb++"
EVERYONE = (*RIVALS, OURS, "oracle")
COMPARABLE = 0.10  # relative difference of means that still counts as comparable
FLAT = 0.10  # regret per round at the end relative to the start that still counts as almost flat
SHAPE = 0.10  # largest difference of two curves, each relative to its size, that still counts as the same shape
RANKED = 0.80  # rank correlation from which two orders of the policies count as alike

REGRET = "reward"
SHARE = "ratio"

NOT_TESTABLE = (
    "Corral-type algorithms do poorly because they balance over several base algorithms (section 5): an explanation.",
    "LinUCB++ does well because of the virtual mixture-arms and virtual dimensions (section 5): an explanation.",
    "LinUCB++ can be applied in practice without an expressive action set (section 5): a recommendation, which rests "
    "on the claims about figures 2a and 2b.",
)
"""Sentences of the paper about its experiments that no statistic of these figures can be true or false of."""


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
    unit : str
        In which unit it comes.
    compute : callable
        The computation: data first, then resamples; a column for each thing that the sentence says.
    """

    text: str
    figures: tuple[str, ...]
    where: str
    statistic: str
    unit: str
    compute: Callable[[Sample], FloatArray]


def all_claims() -> list[Claim]:
    """Every claim, in the order of the paper."""
    return [
        *_at_one_dim("fig2a", "5"),
        _spread("fig2a", ("linucb", "oracle", *CORRALS), "every other algorithm's, the oracle's included"),
        _spread("fig2a", RIVALS, "that of every algorithm but the oracle"),
        _flat("fig2a", "at early stages (rounds 500 to 1500)", slice(20, 61)),
        _flat("fig2a", "before its last restart (rounds 1500 to 1900)", slice(60, 77)),
        _flat("fig2a", "at the end (the last fifth of the rounds)", slice(80, 101)),
        *_at_every_dim("fig2b", "5", RIVALS),
        *_at_one_dim("fig3a", "5"),
        _alike(),
        _same_shape_in_time(),
        _robust(),
        *_at_every_dim("fig3b", "5", RIVALS),
        _same_shape_in_alpha(),
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
            REGRET,
            lambda s, rival=rival: s.mean(figure, d, rival) - s.mean(figure, d, OURS),  # type: ignore[misc]
        )
        for rival in RIVALS
    ]
    oracle = Claim(
        f"The oracle, and only it, has less regret than LinUCB++ at d* = {d}",
        (figure,),
        where,
        "the smaller of: LinUCB++ minus oracle; best other minus LinUCB++",
        REGRET,
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
            REGRET,
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
        REGRET,
        lambda s: np.stack([s.std(figure, d, other) - s.std(figure, d, OURS) for other in others], axis=-1),
    )


def _flat(figure: str, when: str, part: slice) -> Claim:
    d = FIGURES[figure].dims[0]
    return Claim(
        f"The regret curve of LinUCB++ is almost flat {when}",
        (figure,),
        "5",
        f"{FLAT} minus (regret per round then / in the first fifth of the rounds)",
        SHARE,
        lambda s: FLAT - s.slope(figure, d, OURS, part) / s.slope(figure, d, OURS, slice(0, 21)),
    )


def _alike() -> Claim:
    def compute(s: Sample) -> FloatArray:
        ranks = [
            np.argsort(
                np.argsort([s.mean(figure, FIGURES[figure].dims[0], policy) for policy in EVERYONE], axis=0), axis=0
            )
            for figure in ("fig3a", "fig2a")
        ]
        n = len(EVERYONE)
        rho: FloatArray = 1 - 6 * ((ranks[0] - ranks[1]) ** 2).sum(axis=0) / (n * (n**2 - 1))
        return rho - RANKED

    return Claim(
        "With an expressive action set the algorithms come in much the same order as without",
        ("fig3a", "fig2a"),
        "5",
        f"rank correlation of the six mean regrets with and without, minus {RANKED}",
        "correlation",
        compute,
    )


def _same_shape_in_time() -> Claim:
    d = FIGURES["fig3a"].dims[0]

    def compute(s: Sample) -> FloatArray:
        return SHAPE - np.stack([_apart(*(s.shape(f, d, p) for f in ("fig3a", "fig2a"))) for p in EVERYONE], axis=-1)

    return Claim(
        "With an expressive action set the curves over time have the shape they have without",
        ("fig3a", "fig2a"),
        "5",
        f"{SHAPE} minus the largest difference over time of the two curves, each divided by its end, largest over "
        "the six policies",
        SHARE,
        compute,
    )


def _same_shape_in_alpha() -> Claim:
    dims = FIGURES["fig3b"].dims

    def curve(s: Sample, figure: str, policy: str) -> FloatArray:
        means = np.stack([s.mean(figure, d, policy) for d in dims], axis=-1)
        relative: FloatArray = means / means.mean(axis=-1, keepdims=True)
        return relative

    def compute(s: Sample) -> FloatArray:
        return SHAPE - np.stack([_apart(*(curve(s, f, p) for f in ("fig3b", "fig2b"))) for p in EVERYONE], axis=-1)

    return Claim(
        "With an expressive action set the curves over alpha have the shape they have without",
        ("fig3b", "fig2b"),
        "5",
        f"{SHAPE} minus the largest difference over alpha of the two curves, each divided by its mean, largest over "
        "the six policies",
        SHARE,
        compute,
    )


def _apart(one: FloatArray, other: FloatArray) -> FloatArray:
    """Largest difference along the last axis."""
    found: FloatArray = np.abs(one - other).max(axis=-1)
    return found


def _robust() -> Claim:
    d = FIGURES["fig2a"].dims[0]

    def relative(s: Sample, figure: str) -> FloatArray:
        return s.mean(figure, d, OURS) / s.mean(figure, d, "linucb")

    return Claim(
        f"Without an expressive action set LinUCB++ does as well as with, relative to LinUCB, at d* = {d}",
        ("fig2a", "fig3a"),
        "5",
        f"{COMPARABLE} minus (regret of LinUCB++ / that of LinUCB without, minus the same with)",
        SHARE,
        lambda s: COMPARABLE - (relative(s, "fig2a") - relative(s, "fig3a")),
    )


def _behind_linucb(policy: str) -> Claim:
    d = FIGURES["fig3b"].dims[-1]
    return Claim(
        f"With an expressive action set {LABELS[policy]} falls behind LinUCB at the largest alpha",
        ("fig3b",),
        "5",
        f"mean regret of {LABELS[policy]} minus that of LinUCB at d* = {d}",
        REGRET,
        lambda s: s.mean("fig3b", d, policy) - s.mean("fig3b", d, "linucb"),
    )


def _grows_faster(policy: str) -> Claim:
    return Claim(
        f"The regret of {LABELS[policy]} grows faster in alpha with an expressive action set than without",
        ("fig3b", "fig2b"),
        "5",
        "slope of the mean regret in alpha with, minus without",
        "reward/alpha",
        lambda s: s.growth("fig3b", policy) - s.growth("fig2b", policy),
    )


def _comparable() -> Claim:
    dims = FIGURES["fig4a"].dims

    def compute(s: Sample) -> FloatArray:
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
        SHARE,
        compute,
    )


def _wider() -> Claim:
    dims = FIGURES["fig4a"].dims
    return Claim(
        "With decaying theta Dynamic Balancing has the larger spread over trials",
        ("fig4a",),
        "appendix D",
        "standard deviation of Dynamic Balancing minus that of LinUCB++, smallest over alpha",
        REGRET,
        lambda s: np.stack([s.std("fig4a", d, "dynamic-balancing") - s.std("fig4a", d, OURS) for d in dims], axis=-1),
    )


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


def verdict_of(about: tuple[str, str, str, str, str, str], values: FloatArray, trials: int) -> Verdict:
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


def _p_value(parts: FloatArray) -> float:
    """Two-sided p-value of resamples, a column for each thing that a sentence says.

    All of them must be positive for it to be true: the largest one-sided p-value says how sure that is. One negative
    makes it false: the smallest, times their number, says how sure that is.
    """
    count = len(parts) + 1
    not_positive = ((parts <= 0).sum(axis=0) + 1) / count
    not_negative = ((parts >= 0).sum(axis=0) + 1) / count
    return float(min(1.0, 2 * min(not_positive.max(), not_negative.min() * parts.shape[1])))


class Sample:
    """Statistics of the trials of one variant and of its resamples; entry 0 is the data as they are.

    The trials are those that every policy has finished, so that an interrupted study too is compared in pairs.

    Parameters
    ----------
    results : mapping
        Figure to the results of its study, all of one variant.
    """

    def __init__(self, results: Mapping[str, Results]) -> None:
        self._results = results
        self._instances = {
            (figure, described["intrinsic_dim"]): (name, described)
            for figure, found in results.items()
            for name, described in label(found, "instances").items()
        }
        self._numbers = functools.reduce(np.intersect1d, [found.common_trials() for found in results.values()])
        self.trials = len(self._numbers)
        self._index = resamples(self.trials)

    def mean(self, figure: str, d: int, policy: str) -> FloatArray:
        """Mean final regret of a policy at d* = d."""
        value: FloatArray = self._final(figure, d, policy)[self._index].mean(axis=1)
        return value

    def std(self, figure: str, d: int, policy: str) -> FloatArray:
        """Standard deviation of the final regret over trials."""
        value: FloatArray = self._final(figure, d, policy)[self._index].std(axis=1, ddof=1)
        return value

    def slope(self, figure: str, d: int, policy: str, part: slice) -> FloatArray:
        """Mean regret per round between two record points."""
        name, _ = self._instances[figure, d]
        times, regret = self._results[figure].curves(name, policy, trials=self._numbers)
        times, regret = np.concatenate([[0], times]), np.pad(regret, ((0, 0), (1, 0)))
        times, regret = times[part], regret[:, part]
        rate = (regret[:, -1] - regret[:, 0]) / (times[-1] - times[0])
        value: FloatArray = rate[self._index].mean(axis=1)
        return value

    def shape(self, figure: str, d: int, policy: str) -> FloatArray:
        """Mean regret curve divided by its end, (resamples, record points)."""
        name, _ = self._instances[figure, d]
        _, regret = self._results[figure].curves(name, policy, trials=self._numbers)
        shares = np.zeros((len(self._index), self.trials))
        np.add.at(shares, (np.arange(len(self._index))[:, None], self._index), 1 / self.trials)
        means = shares @ regret
        value: FloatArray = means / means[:, -1:]
        return value

    def growth(self, figure: str, policy: str) -> FloatArray:
        """Least-squares slope of the mean final regret in alpha."""
        dims = FIGURES[figure].dims
        alpha = np.array([hardness(d, self._instances[figure, d][1]["horizon"]) for d in dims])
        means = np.stack([self.mean(figure, d, policy) for d in dims], axis=-1)
        centred = alpha - alpha.mean()
        value: FloatArray = means @ centred / (centred @ centred)
        return value

    def _final(self, figure: str, d: int, policy: str) -> FloatArray:
        name, _ = self._instances[figure, d]
        return self._results[figure].final(name, policy, trials=self._numbers)
