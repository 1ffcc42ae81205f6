"""Two sentences of the paper that its figures cannot judge: the footnote on beta, and the parameter that was learned.

The footnote says "we recommend taking beta = (1 + alpha)/2 if an estimation of alpha is available". The advice is about
rates, so it must be right for T large enough. The study runs LinUCB++ at beta = 0.5 and at the footnote's beta while T
grows, at the paper's size for T = 2500 and sizes that grow with T around it, and says where the second overtakes the
first.

Of its flat curve the paper says that LinUCB++ has learned the true reward parameter. What it saw up to a round is
regressed on the d* features that matter, and the estimate is compared with theta. The claim is that they differ by at
most a tenth of theta's length. The threshold is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adadim import instances
from adadim.core.arrays import FloatArray
from adadim.core.checks import one_of, require
from adadim.experiments.paper.analysis import Verdict, verdict_of
from adadim.experiments.paper.plan import FIGURES, HORIZON, VARIANTS, Variant, policies
from adadim.instances.instance import Instance
from adadim.policies.base import Policy
from adadim.report.bootstrap import FEWEST, interval, resamples
from adadim.report.text import label
from adadim.study import Results, Study, to_spec
from adadim.theory import pareto_rate, recommended_beta

ALPHA = 0.32
HALF, FOOTNOTE = "beta = 0.5", "beta = (1 + alpha)/2"
HORIZONS = (625, 2500, 10000)
DIM, ARMS = 600, 1200  # the paper's, at its horizon

LEARNED = 0.10  # distance of the estimate from theta, relative to theta, that counts as learned
RIDGE = 0.1
ROUNDS = 1500


@dataclass(frozen=True)
class FootnotePoint:
    """Mean regret of LinUCB++ at beta = 0.5 and at the footnote's, at one horizon.

    The ratio is the second over the first, with its 95% interval: below 1 the footnote is right.
    """

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
    variant: Variant = "theory", horizons: Sequence[int] = HORIZONS, trials: int = 8, seed: int = 0
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
        dim = round(DIM * (horizon / HORIZON) ** beta)
        sizes = {"dim": dim, "intrinsic_dim": math.floor(horizon**ALPHA), "horizon": int(horizon)}
        instances[f"T={horizon}"] = {"kind": "sphere", "arms": ARMS * dim // DIM, **sizes, "noise": 0.1}
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
    """What a study made by `footnote_study` found, a point for each horizon."""
    points = []
    for name in results.instances:
        half, footnote = _both(results, name)
        sizes = label(results, "instances", name)
        low = high = float("nan")
        if len(half) >= FEWEST:
            index = resamples(len(half))[1:]
            low, high = interval(footnote[index].mean(axis=1) / half[index].mean(axis=1))
        means = (float(half.mean()), float(footnote.mean()), float(footnote.mean() / half.mean()))
        which = (sizes["horizon"], sizes["dim"], sizes["intrinsic_dim"])
        points.append(FootnotePoint(*which, *means, low, high, len(half)))
    return points


def _both(results: Results, name: str) -> list[FloatArray]:
    """Final regret at both betas, in the trials that both have finished."""
    numbers = results.common_trials([(name, HALF), (name, FOOTNOTE)])
    return [results.final(name, policy, trials=numbers) for policy in (HALF, FOOTNOTE)]


def footnote_claim(results: Results) -> Verdict:
    """Verdict on the footnote at the paper's size."""
    half, footnote = _both(results, f"T={HORIZON}")
    about = (
        "If alpha is known, beta = (1 + alpha)/2 gives LinUCB++ less regret than beta = 0.5 at d* = 12",
        "fig2a",
        "5, footnote",
        label(results, "variant"),
        "mean regret at beta = 0.5 minus that at 0.66",
        "reward",
    )
    return verdict_of(about, (half - footnote)[resamples(len(half))].mean(axis=1), len(half))


def overtaking(points: Sequence[FootnotePoint]) -> dict[str, float]:
    """Horizons at which the footnote's beta would overtake 0.5, were two lines right.

    ``measured`` continues the least-squares line of ln(ratio) in ln T; infinite if that does not fall. ``theory``
    starts from the ratio at the horizon nearest to the paper's, and lets it fall by the difference of the two rates.
    """
    x = np.log([point.horizon for point in points])
    y = np.log([point.ratio for point in points])
    measured = math.inf
    if len(points) > 1:
        slope, offset = np.polyfit(x, y, 1)
        measured = math.exp(-offset / slope) if slope < 0 else math.inf
    first = min(points, key=lambda point: abs(math.log(point.horizon / HORIZON)))
    gained = pareto_rate(ALPHA, 0.5) - pareto_rate(ALPHA, recommended_beta(ALPHA))
    return {"measured": measured, "theory": first.horizon * first.ratio ** (1 / gained)}


def learned_claim(variant: Variant = "theory", trials: int = 20, seed: int = 0) -> tuple[Verdict, FloatArray]:
    """Verdict on the claim at the end of the early rounds of figure 2a, and the error of each trial."""
    table = dict(FIGURES["fig2a"].instances()["d12"])
    make = getattr(instances, table.pop("kind"))
    parts = [make(**table, seed=seed, replications=[r]) for r in range(trials)]  # one at a time fits any memory
    policy = policies(variant)["linucb++"]
    errors = np.concatenate([parameter_errors(policy, part, ROUNDS, 12, seed) for part in parts])
    about = (
        f"By round {ROUNDS} LinUCB++ has learned the true reward parameter at d* = 12",
        "fig2a",
        "5",
        variant,
        f"{LEARNED} minus |estimate - theta| / |theta|, mean over trials; the estimate by ridge {RIDGE} on 12 features",
        "ratio",
    )
    return verdict_of(about, LEARNED - errors[resamples(trials)].mean(axis=1), trials), errors


def parameter_errors(policy: Policy, instance: Instance, rounds: int, dim: int, seed: int = 0) -> FloatArray:
    """Relative distance of the estimate from theta in each replication, after so many rounds, by `dim` features."""
    problem, everyone = instance.problem, instance.everyone
    learner = policy.start(problem, seed=seed)
    noise = instance.noise_streams(seed).source(problem.horizon, normal=True)
    features = np.asarray(problem.actions.dense_batch())[:, :, :dim]
    theta = np.asarray(instance.theta).reshape(len(problem), -1)[:, :dim]
    ids = np.arange(len(problem))
    design = np.tile(RIDGE * np.eye(dim), (len(problem), 1, 1))
    sums = np.zeros((len(problem), dim))
    for _ in range(rounds):
        arms, memo = learner.choose(everyone)
        rewards = instance.pull(arms, noise, everyone)
        learner.absorb(arms, rewards, everyone, memo)
        pulled = features[ids, arms]
        design += pulled[:, :, None] * pulled[:, None, :]
        sums += rewards[:, None] * pulled
    estimate = np.linalg.solve(design, sums[:, :, None])[:, :, 0]
    errors: FloatArray = np.linalg.norm(estimate - theta, axis=1) / np.linalg.norm(theta, axis=1)
    return errors
