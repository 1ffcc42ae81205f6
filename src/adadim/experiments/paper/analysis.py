"""The paper's sentences about its experiments, each with a verdict from the data.

A claim is a statistic that is positive if the sentence is true. Its interval is a 95% percentile interval of the
bootstrap over trials, resampled jointly for all policies and all d*, which share instances and noise, so differences
are paired. The verdict is "holds" if the interval is above 0, "does not hold" if it is below.

A sentence that says several things at once (less regret at every alpha) has a statistic for each, and is as true as the
smallest of them. Resampling the smallest would make it smaller still; instead the interval reaches from the smallest of
the lower ends to the smallest of the upper ends, each taken far enough out for all to be right at once (Bonferroni).

Each interval errs once in twenty, so among some eighty verdicts a few would be wrong by chance alone.
`Verdict.holds_after_holm` says which stand when all of them are to be right at once with 95%, by Holm's step-down
procedure on their bootstrap p-values, which asks nothing of how they depend on each other.

Two sentences need runs of their own. The footnote recommends beta = (1 + alpha)/2 where alpha is known, which must be
right for T large enough: LinUCB++ plays at beta = 0.5 and at the footnote's while T grows, at the paper's size for T =
2500 and sizes that grow with T around it. And LinUCB++ is said to have learned the true reward parameter: what it saw
is regressed on the d* features that matter, and may differ from theta by a tenth of its length, a threshold of ours.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from adadim import instances
from adadim.core.arrays import FloatArray
from adadim.core.checks import one_of, require
from adadim.core.deprecated import renamed_attribute
from adadim.experiments.paper.plan import FIGURES, LABELS, PAPER_HORIZON, VARIANTS, Variant, policies
from adadim.instances.instance import Instance
from adadim.models.statistics import Moments
from adadim.policies.base import Policy
from adadim.report.bootstrap import MIN_TRIALS, percentile_interval, resamples
from adadim.report.text import label, markdown_table
from adadim.study import Results, Study, to_spec
from adadim.theory import hardness, pareto_rate, recommended_beta

LEVEL = 0.05
COMPARABLE = 0.10  # relative difference of means that still counts as comparable
FLAT = 0.10  # regret per round at the end relative to the start that still counts as almost flat
SHAPE = 0.10  # largest difference of two curves, each relative to its size, that still counts as the same shape
RANKED = 0.80  # rank correlation from which two orders of the policies count as alike
ALPHA = 0.32
HALF, FOOTNOTE = "beta = 0.5", "beta = (1 + alpha)/2"
SCALED_HORIZONS = (625, 2500, 10000)
PAPER_DIM, PAPER_ARMS = 600, 1200  # the paper's, at its horizon
LEARNED = 0.10  # distance of the estimate from theta, relative to theta, that counts as learned
RIDGE = 0.1
LEARNING_ROUNDS = 1500

OURS, BALANCING = "linucb++", "dynamic-balancing"
CORRALS = ("smooth-corral", BALANCING, "linucb++corral")
RIVALS = ("linucb", *CORRALS)
ALL_POLICIES = (*RIVALS, OURS, "oracle")
REGRET_UNIT, RATIO_UNIT = "reward", "ratio"

# Sentences of the paper about its experiments that no statistic of these figures can be true or false of.
NOT_TESTABLE = (
    "Corral-type algorithms do poorly because they balance over several base algorithms (section 5): an explanation.",
    "LinUCB++ does well because of the virtual mixture-arms and virtual dimensions (section 5): an explanation.",
    "LinUCB++ can be applied in practice without an expressive action set (section 5): a recommendation, which rests "
    "on the claims about figures 2a and 2b.",
)


@dataclass(frozen=True)
class Verdict:
    """A claim, in our words, checked against the data of one variant, "released" or "theory".

    It is about a figure, and stands in the section `where` of the paper. The statistic's value, positive if the claim
    is true, comes with its 95% interval, in the given unit; the verdict is what follows at this many trials, always
    "undecided" below 6. `p` is the two-sided bootstrap p-value of the verdict by itself, never below 2/4001, what the
    resamples can tell; it `holds_after_holm` if it stands after Holm's correction for all verdicts it was made with.
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
    holds_after_holm: bool = False

    survives = renamed_attribute("survives", "holds_after_holm")


def claims(results: Iterable[Results]) -> list[Verdict]:
    """Verdicts on every claim whose figures are among the results of `study`, for any figures and variants.

    They come in the order of the paper, the variants of a claim next to each other.
    """
    by_variant: dict[str, dict[str, Results]] = {}
    for part in results:
        by_variant.setdefault(label(part, "variant"), {})[label(part, "figure")] = part
    verdicts = []
    for claim in all_claims():
        for variant, figures in sorted(by_variant.items()):
            if all(figure in figures for figure in claim.figures):
                sample = Sample({figure: figures[figure] for figure in claim.figures})
                about = (claim.text, claim.figures[0], claim.where, variant, claim.statistic, claim.unit)
                values = claim.compute(sample) if sample.trials > 1 else np.empty(0)
                verdicts.append(verdict_of(about, values, sample.trials))
    return corrected(verdicts)


def corrected(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts, each with whether it stands after Holm's correction for all of them at 5%."""
    verdicts = list(verdicts)
    stands = True
    for rank, i in enumerate(sorted(range(len(verdicts)), key=lambda i: verdicts[i].p)):
        stands = stands and verdicts[i].p <= LEVEL / (len(verdicts) - rank)
        verdicts[i] = replace(verdicts[i], holds_after_holm=stands and verdicts[i].verdict != "undecided")
    return verdicts


def verdict_text(verdict: Verdict) -> str:
    """Verdict, statistic and 95% interval as text; a star says that the verdict does not survive the correction."""
    star = "*" if verdict.verdict != "undecided" and not verdict.holds_after_holm else ""
    return f"{verdict.verdict}{star}: {verdict.value:.3g} [{verdict.low:.3g}, {verdict.high:.3g}]"


def claims_table(verdicts: Iterable[Verdict], text: Callable[[Verdict], str] = verdict_text) -> list[list[str]]:
    """The verdicts as a table for people, header first: a row per claim, a column per variant, filled by `text`."""
    verdicts = list(verdicts)
    variants = sorted({v.variant for v in verdicts})
    rows = [["figure", "claim", "statistic (positive: true)", "unit", *variants]]
    for key, group in itertools.groupby(verdicts, lambda v: (v.figure, v.claim, v.statistic, v.unit)):
        texts = {v.variant: text(v) for v in group}
        rows.append([*key, *(texts.get(variant, "") for variant in variants)])
    return rows


def claims_markdown(verdicts: Iterable[Verdict]) -> str:
    """The verdicts as `claims_table` in Markdown, how to read it, and which sentences of the paper cannot be tested."""
    verdicts = list(verdicts)
    header, *rows = claims_table(verdicts)
    untested = "\n".join(f"- {sentence}" for sentence in NOT_TESTABLE)
    return f"{markdown_table(header, rows)}\n{correction_note(verdicts)}\n\nNot testable:\n\n{untested}\n"


def correction_note(verdicts: Sequence[Verdict]) -> str:
    """How many verdicts there are, how they are corrected, and which do not survive that."""
    changed = [v for v in verdicts if v.verdict != "undecided" and not v.holds_after_holm]
    text = (
        f"Every interval is one of 95% by itself. Of {len(verdicts)} verdicts, those with a star do not survive Holm's "
        f"correction, which makes all of them right at once with 95%: {len(changed) or 'none'}"
    )
    names = "; ".join(f"{v.figure} {v.variant}, {v.claim}" for v in changed)
    return f"{text} ({names})." if changed else f"{text}."


def verdict_of(about: tuple[str, str, str, str, str, str], values: FloatArray, trials: int) -> Verdict:
    """Verdict on a claim by its statistic, of the data and of resamples, a column for each thing that is said."""
    if trials < 2:
        return Verdict(*about, float("nan"), float("-inf"), float("inf"), "undecided", trials)
    parts = values.reshape(len(values), -1)
    low = float(np.quantile(parts[1:], 0.025, axis=0).min())
    high = float(np.quantile(parts[1:], 1 - 0.025 / parts.shape[1], axis=0).min())
    verdict: Literal["holds", "does not hold", "undecided"] = "undecided"
    p = 1.0
    if trials >= MIN_TRIALS:
        p = _p_value(parts[1:])
        verdict = "holds" if low > 0 else "does not hold" if high < 0 else "undecided"
    return Verdict(*about, float(parts[0].min()), low, high, verdict, trials, p)


def _p_value(parts: FloatArray) -> float:
    """Two-sided p-value of resamples, a column for each thing that a sentence says.

    It is true if all are positive, by the largest one-sided p-value; false if one is not, by the smallest times that.
    """
    count = len(parts) + 1
    not_positive = ((parts <= 0).sum(axis=0) + 1) / count
    not_negative = ((parts >= 0).sum(axis=0) + 1) / count
    return float(min(1.0, 2 * min(not_positive.max(), not_negative.min() * parts.shape[1])))


class Sample:
    """Statistics of the trials that all policies have finished, and of resamples; entry 0 is the data, columns d*."""

    def __init__(self, results: Mapping[str, Results]) -> None:
        self._results = results
        self._instances = {
            (figure, described["intrinsic_dim"]): (name, described["horizon"])
            for figure, part in results.items()
            for name, described in label(part, "instances").items()
        }
        self._numbers = functools.reduce(np.intersect1d, [part.common_trials() for part in results.values()])
        self.trials = len(self._numbers)
        self._index = resamples(self.trials)

    def means(self, figure: str, policy: str) -> FloatArray:
        """Mean final regret of a policy at every d*."""
        return np.stack([final.mean(axis=1) for final in self._finals(figure, policy)], axis=-1)

    def stds(self, figure: str, policy: str) -> FloatArray:
        """Standard deviation of the final regret over trials at every d*."""
        return np.stack([final.std(axis=1, ddof=1) for final in self._finals(figure, policy)], axis=-1)

    def slope(self, figure: str, policy: str, part: slice) -> FloatArray:
        """Mean regret per round between two record points."""
        times, regret = self._curves(figure, policy)
        times, regret = np.concatenate([[0], times])[part], np.pad(regret, ((0, 0), (1, 0)))[:, part]
        rate = (regret[:, -1] - regret[:, 0]) / (times[-1] - times[0])
        return np.asarray(rate[self._index].mean(axis=1))

    def shape(self, figure: str, policy: str) -> FloatArray:
        """Mean regret curve divided by its end, (resamples, record points)."""
        shares = np.zeros((len(self._index), self.trials))
        np.add.at(shares, (np.arange(len(self._index))[:, None], self._index), 1 / self.trials)
        means = shares @ self._curves(figure, policy)[1]
        return np.asarray(means / means[:, -1:])

    def growth(self, figure: str, policy: str) -> FloatArray:
        """Least-squares slope of the mean final regret in alpha."""
        alpha = np.array([hardness(d, self._instances[figure, d][1]) for d in FIGURES[figure].dims])
        centred = alpha - alpha.mean()
        return np.asarray(self.means(figure, policy) @ centred / (centred @ centred))

    def _curves(self, figure: str, policy: str) -> tuple[Any, FloatArray]:
        """Record points and regret at the one d* of a figure."""
        name, _ = self._instances[figure, FIGURES[figure].dims[0]]
        return self._results[figure].curves(name, policy, trials=self._numbers)

    def _finals(self, figure: str, policy: str) -> Iterator[FloatArray]:
        for d in FIGURES[figure].dims:
            name, _ = self._instances[figure, d]
            yield self._results[figure].final(name, policy, trials=self._numbers)[self._index]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that can be true or false, in our words; the first of its figures is the one it is about.

    `compute` gives the statistic, positive if it is true, of the data and of resamples; a column for each thing said.
    """

    text: str
    figures: tuple[str, ...]
    statistic: str
    unit: str
    compute: Callable[[Sample], FloatArray]

    @property
    def where(self) -> str:
        """Section of the paper that says it."""
        return "appendix D" if self.figures[0].startswith("fig4") else "5"


def all_claims() -> list[Claim]:
    """Every claim, in the order of the paper."""
    return [
        *_less_regret("fig2a"),
        _only_the_oracle("fig2a"),
        _spread(("linucb", "oracle", *CORRALS), "every other algorithm's, the oracle's included"),
        _spread(RIVALS, "that of every algorithm but the oracle"),
        _flat("at early stages (rounds 500 to 1500)", slice(20, 61)),
        _flat("before its last restart (rounds 1500 to 1900)", slice(60, 77)),
        _flat("at the end (the last fifth of the rounds)", slice(80, 101)),
        *_less_regret("fig2b"),
        *_less_regret("fig3a"),
        _only_the_oracle("fig3a"),
        *_about_expressive_sets(),
        *_less_regret("fig3b"),
        *_about_growth(),
        *_about_decaying_theta(),
        *_less_regret("fig4b"),
    ]


def _difference(figure: str, larger: str, smaller: str) -> Callable[[Sample], FloatArray]:
    return lambda s: s.means(figure, larger) - s.means(figure, smaller)


def _less_regret(figure: str) -> Iterator[Claim]:
    one = FIGURES[figure].curves
    at, smallest = (f"d* = {FIGURES[figure].dims[0]}", "") if one else ("every alpha", ", smallest over alpha")
    for rival in RIVALS:
        text = f"LinUCB++ has less regret than {LABELS[rival]} at {at}"
        statistic = f"mean regret of {LABELS[rival]} minus that of LinUCB++{smallest}"
        yield Claim(text, (figure,), statistic, REGRET_UNIT, _difference(figure, rival, OURS))


def _only_the_oracle(figure: str) -> Claim:
    parts = [_difference(figure, OURS, "oracle"), *(_difference(figure, rival, OURS) for rival in RIVALS)]
    text = f"The oracle, and only it, has less regret than LinUCB++ at d* = {FIGURES[figure].dims[0]}"
    statistic = "the smaller of: LinUCB++ minus oracle; best other minus LinUCB++"
    return Claim(text, (figure,), statistic, REGRET_UNIT, lambda s: np.hstack([part(s) for part in parts]))


def _spread(others: tuple[str, ...], whose: str) -> Claim:
    text = f"The spread of LinUCB++ over trials is smaller than {whose}"
    statistic = "smallest standard deviation among the others minus that of LinUCB++"

    def compute(s: Sample) -> FloatArray:
        return np.hstack([s.stds("fig2a", other) - s.stds("fig2a", OURS) for other in others])

    return Claim(text, ("fig2a",), statistic, REGRET_UNIT, compute)


def _flat(when: str, part: slice) -> Claim:
    text = f"The regret curve of LinUCB++ is almost flat {when}"
    statistic = f"{FLAT} minus (regret per round then / in the first fifth of the rounds)"

    def compute(s: Sample) -> FloatArray:
        return FLAT - s.slope("fig2a", OURS, part) / s.slope("fig2a", OURS, slice(0, 21))

    return Claim(text, ("fig2a",), statistic, RATIO_UNIT, compute)


def _about_expressive_sets() -> Iterator[Claim]:
    """What figures 3a and 2a say together."""

    def correlation(s: Sample) -> FloatArray:
        ranks = [
            np.argsort(np.argsort([s.means(figure, policy)[:, 0] for policy in ALL_POLICIES], axis=0), axis=0)
            for figure in ("fig3a", "fig2a")
        ]
        n = len(ALL_POLICIES)
        return np.asarray(1 - 6 * ((ranks[0] - ranks[1]) ** 2).sum(axis=0) / (n * (n**2 - 1)))

    def as_well(s: Sample) -> FloatArray:
        without, with_set = (s.means(figure, OURS) / s.means(figure, "linucb") for figure in ("fig2a", "fig3a"))
        return COMPARABLE - (without - with_set)

    text = "With an expressive action set the algorithms come in much the same order as without"
    statistic = f"rank correlation of the six mean regrets with and without, minus {RANKED}"
    yield Claim(text, ("fig3a", "fig2a"), statistic, "correlation", lambda s: correlation(s) - RANKED)
    yield _same_shape("time", "end", ("fig3a", "fig2a"), Sample.shape)
    dim = FIGURES["fig2a"].dims[0]
    text = f"Without an expressive action set LinUCB++ does as well as with, relative to LinUCB, at d* = {dim}"
    statistic = f"{COMPARABLE} minus (regret of LinUCB++ / that of LinUCB without, minus the same with)"
    yield Claim(text, ("fig2a", "fig3a"), statistic, RATIO_UNIT, as_well)


def _same_shape(axis: str, by: str, figures: tuple[str, str], curve: Callable[[Sample, str, str], FloatArray]) -> Claim:
    def compute(s: Sample) -> FloatArray:
        pairs = ([curve(s, figure, policy) for figure in figures] for policy in ALL_POLICIES)
        return SHAPE - np.stack([np.abs(first - second).max(axis=-1) for first, second in pairs], axis=-1)

    text = f"With an expressive action set the curves over {axis} have the shape they have without"
    statistic = (
        f"{SHAPE} minus the largest difference over {axis} of the two curves, each divided by its {by}, largest over "
        "the six policies"
    )
    return Claim(text, figures, statistic, RATIO_UNIT, compute)


def _about_growth() -> Iterator[Claim]:
    """What figures 3b and 2b say together."""

    def curve(s: Sample, figure: str, policy: str) -> FloatArray:
        means = s.means(figure, policy)
        return np.asarray(means / means.mean(axis=-1, keepdims=True))

    def last(s: Sample, policy: str) -> FloatArray:
        return _difference("fig3b", policy, "linucb")(s)[:, -1]

    def faster(s: Sample, policy: str) -> FloatArray:
        return s.growth("fig3b", policy) - s.growth("fig2b", policy)

    yield _same_shape("alpha", "mean", ("fig3b", "fig2b"), curve)
    for policy in CORRALS:
        text = f"With an expressive action set {LABELS[policy]} falls behind LinUCB at the largest alpha"
        statistic = f"mean regret of {LABELS[policy]} minus that of LinUCB at d* = {FIGURES['fig3b'].dims[-1]}"
        yield Claim(text, ("fig3b",), statistic, REGRET_UNIT, functools.partial(last, policy=policy))
    for policy in (*CORRALS, OURS):
        text = f"The regret of {LABELS[policy]} grows faster in alpha with an expressive action set than without"
        statistic = "slope of the mean regret in alpha with, minus without"
        yield Claim(text, ("fig3b", "fig2b"), statistic, "reward/alpha", functools.partial(faster, policy=policy))


def _about_decaying_theta() -> Iterator[Claim]:
    def comparable(s: Sample) -> FloatArray:
        ours, theirs = (s.means("fig4a", policy).mean(axis=-1) for policy in (OURS, BALANCING))
        more = theirs / ours - 1
        return np.stack([COMPARABLE - more, COMPARABLE + more], axis=-1)

    text = "With decaying theta Dynamic Balancing and LinUCB++ have comparable regret on average"
    statistic = f"{COMPARABLE} minus |regret of Dynamic Balancing / that of LinUCB++ - 1|, both averaged over alpha"
    yield Claim(text, ("fig4a",), statistic, RATIO_UNIT, comparable)
    text = "With decaying theta Dynamic Balancing has the larger spread over trials"
    statistic = "standard deviation of Dynamic Balancing minus that of LinUCB++, smallest over alpha"
    yield Claim(text, ("fig4a",), statistic, REGRET_UNIT, lambda s: s.stds("fig4a", BALANCING) - s.stds("fig4a", OURS))


@dataclass(frozen=True)
class FootnotePoint:
    """Mean regret of LinUCB++ at beta = 0.5 and at the footnote's, which is right where their ratio is below 1."""

    horizon: int
    dim: int
    intrinsic_dim: int
    half: float
    footnote: float
    ratio: float
    low: float
    high: float
    trials: int


def footnote_study(
    variant: Variant = "theory", horizons: Sequence[int] = SCALED_HORIZONS, trials: int = 8, seed: int = 0
) -> Study:
    """LinUCB++ at both betas on the sphere, with d* = floor(T^0.32), d growing like T^0.66 and twice as many arms.

    T = 2500 has the paper's 1200 arms and 600 features.
    """
    one_of(variant, "variant", VARIANTS)
    require(len(horizons) == len(set(horizons)) > 0, "horizons", "be different numbers, at least one", list(horizons))
    beta = recommended_beta(ALPHA)
    instances, described = {}, {}
    for horizon in sorted(horizons):
        require(horizon >= 16, "horizons", "be at least 16", horizon)
        dim = round(PAPER_DIM * (horizon / PAPER_HORIZON) ** beta)
        sizes = {"dim": dim, "intrinsic_dim": math.floor(horizon**ALPHA), "horizon": int(horizon)}
        instances[f"T={horizon}"] = {"kind": "sphere", "arms": PAPER_ARMS * dim // PAPER_DIM, **sizes, "noise": 0.1}
        described[f"T={horizon}"] = sizes
    ours = to_spec(policies(variant)["linucb++"])
    return Study(
        name=f"footnote-{variant}",
        instances=instances,
        policies={HALF: {**ours, "beta": 0.5}, FOOTNOTE: {**ours, "beta": beta}},
        trials=trials,
        seed=seed,
        record=10,
        labels={"title": f"The footnote on beta ({variant})", "variant": variant, "instances": described},
    )


def footnote_points(results: Results) -> list[FootnotePoint]:
    """The results of a study made by `footnote_study`, a point for each horizon."""
    points = []
    for name in results.instances:
        half, footnote = _finals_at_both_betas(results, name)
        sizes = label(results, "instances", name)
        low = high = float("nan")
        if len(half) >= MIN_TRIALS:
            index = resamples(len(half))[1:]
            low, high = percentile_interval(footnote[index].mean(axis=1) / half[index].mean(axis=1))
        means = (float(half.mean()), float(footnote.mean()), float(footnote.mean() / half.mean()))
        which = (sizes["horizon"], sizes["dim"], sizes["intrinsic_dim"])
        points.append(FootnotePoint(*which, *means, low, high, len(half)))
    return points


def _finals_at_both_betas(results: Results, name: str) -> list[FloatArray]:
    """Final regret at both betas, in the trials that both have finished."""
    numbers = results.common_trials([(name, HALF), (name, FOOTNOTE)])
    return [results.final(name, policy, trials=numbers) for policy in (HALF, FOOTNOTE)]


def footnote_claim(results: Results) -> Verdict:
    """Verdict on the footnote at the paper's size."""
    half, footnote = _finals_at_both_betas(results, f"T={PAPER_HORIZON}")
    about = (
        "If alpha is known, beta = (1 + alpha)/2 gives LinUCB++ less regret than beta = 0.5 at d* = 12",
        "fig2a",
        "5, footnote",
        label(results, "variant"),
        "mean regret at beta = 0.5 minus that at 0.66",
        REGRET_UNIT,
    )
    return verdict_of(about, (half - footnote)[resamples(len(half))].mean(axis=1), len(half))


def overtaking(points: Sequence[FootnotePoint]) -> dict[str, float]:
    """Horizons at which the footnote's beta would overtake 0.5, according to two lines of ln(ratio) in ln T.

    "measured" is their least-squares line; "theory" starts at the ratio nearest to T = 2500 and falls as theory says.
    """
    x = np.log([point.horizon for point in points])
    y = np.log([point.ratio for point in points])
    measured = math.inf
    if len(points) > 1:
        slope, offset = np.polyfit(x, y, 1)
        measured = math.exp(-offset / slope) if slope < 0 else math.inf
    nearest = min(points, key=lambda point: abs(math.log(point.horizon / PAPER_HORIZON)))
    gained = pareto_rate(ALPHA, 0.5) - pareto_rate(ALPHA, recommended_beta(ALPHA))
    return {"measured": measured, "theory": nearest.horizon * nearest.ratio ** (1 / gained)}


def learned_claim(variant: Variant = "theory", trials: int = 20, seed: int = 0) -> tuple[Verdict, FloatArray]:
    """Verdict on the claim at the end of the early rounds of figure 2a, and the error of each trial."""
    table = dict(FIGURES["fig2a"].instances()["d12"])
    make = getattr(instances, table.pop("kind"))
    parts = [make(**table, seed=seed, replications=[r]) for r in range(trials)]  # one at a time fits any memory
    policy = policies(variant)["linucb++"]
    errors = np.concatenate([parameter_errors(policy, part, LEARNING_ROUNDS, 12, seed) for part in parts])
    about = (
        f"By round {LEARNING_ROUNDS} LinUCB++ has learned the true reward parameter at d* = 12",
        "fig2a",
        "5",
        variant,
        f"{LEARNED} minus |estimate - theta| / |theta|, mean over trials; the estimate by ridge {RIDGE} on 12 features",
        RATIO_UNIT,
    )
    return verdict_of(about, LEARNED - errors[resamples(trials)].mean(axis=1), trials), errors


def parameter_errors(policy: Policy, instance: Instance, rounds: int, dim: int, seed: int = 0) -> FloatArray:
    """Relative distance of the estimate from theta in each replication, after so many rounds, by `dim` features."""
    problem, rows = instance.problem, instance.everyone
    learner = policy.start(problem, seed=seed)
    noise = instance.noise_streams(seed).source(problem.horizon, normal=True)
    features = np.asarray(problem.actions.dense_batch())[:, :, :dim]
    theta = np.asarray(instance.theta).reshape(len(problem), -1)[:, :dim]
    ids = np.arange(len(problem))
    sums = [Moments.zeros(dim) for _ in ids]
    for _ in range(rounds):
        arms, memo, *_ = learner.choose(rows)
        rewards = instance.pull(arms, noise, rows)
        learner.absorb(arms, rewards, rows, memo)
        for r, one in enumerate(sums):
            one.add(features[r, arms[r : r + 1]], rewards[r : r + 1])
    estimate = np.array([one.estimate(RIDGE) for one in sums])
    return np.asarray(np.linalg.norm(estimate - theta, axis=1) / np.linalg.norm(theta, axis=1))
