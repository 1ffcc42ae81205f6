"""The paper's sentences about its experiments, each as a statistic that is positive if the sentence is true.

A sentence that says several things at once (less regret at every alpha) has a column of statistics for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from adadim.backend.arrays import FloatArray
from adadim.experiments.paper.plan import FIGURES, LABELS
from adadim.experiments.paper.sample import Sample

__all__ = ["NOT_TESTABLE", "Claim", "all_claims"]


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
