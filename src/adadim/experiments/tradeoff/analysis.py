"""What follows: the Pareto frontier as numbers, policies against the lower bound, and measured rates.

The regret R_0 of a policy on the easy problem says how often it looked for hidden arms, n = 2 R_0 / Delta pulls in all,
and from n alone follows how much it must lose on the hard problems on average:

    mean_i R_i >= (T Delta/2) (1 - n/(Kl T) - Delta sqrt(n/Kl))        (eq:ave_regret_concave, n instead of T)

for every policy and every Delta > 0. A policy that seems to break it was not told the same about every problem, or its
regret was not counted right.

Rates are slopes of ln(regret) in ln T, with bootstrap intervals and a guard against saturation.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from adadim.core.arrays import FloatArray
from adadim.core.checks import integer, require
from adadim.errors import StoreError
from adadim.experiments.tradeoff.plan import CEILING, problems, represented
from adadim.report.bootstrap import MIN_TRIALS, generator, percentile_interval, shares
from adadim.study import Results
from adadim.theory import LowerBoundFamily, lower_bound_family, nonadaptive_rate, pareto_rate, tapered_rate

FRONTIER_BETAS = (0.5, 0.6, 0.75, 0.9)
REGRET_ROUNDING_SHARE = 1e-9  # of T Delta
SATURATED = 0.8  # share of a random policy's regret
MIN_HORIZONS = 3  # for a slope

BoundVerdict = Literal["holds", "violated", "undecided"]


def frontier(
    betas: Sequence[float] = FRONTIER_BETAS,
    points: int = 101,
    tapers: Sequence[float] = (),
    alphas: Sequence[float] | None = None,
) -> pl.DataFrame:
    """Pareto optimal rate functions for some betas, the rate of LinUCB told alpha, and that of tapered LinUCB told it.

    The table has the columns curve ("non-adaptive", "beta = ..." or "taper = ..."), beta (null but for the second),
    alpha and rate, at so many even points of [0, 1] and the corners of the functions, so that straight lines between
    them are exact; or else at the `alphas` given. Each of the tapers, exponents s of `TaperedLinUCB`, adds the rate
    that is proved for it.

    Examples
    --------
    >>> table = frontier([0.75], points=3)
    >>> table.filter(curve="beta = 0.75").select("alpha", "rate").rows()
    [(0.0, 0.75), (0.5, 0.75), (0.75, 1.0), (1.0, 1.0)]
    >>> frontier([0.5], alphas=[0.3]).select("curve", "rate").rows()
    [('non-adaptive', 0.65), ('beta = 0.5', 0.8)]
    """
    grid = np.linspace(0.0, 1.0, integer(points, "points", least=2)) if alphas is None else np.asarray(alphas, float)
    chosen = list(dict.fromkeys(float(beta) for beta in betas))
    require(bool(chosen), "betas", "name at least one beta in [0.5, 1)", betas)
    parts = [_curve("non-adaptive", None, grid, nonadaptive_rate(grid))]
    for beta in chosen:
        pareto_rate(0.0, beta)  # refuses a beta out of range before it moves a corner out of [0, 1]
        corners = [2.0 * beta - 1.0, beta] if alphas is None else []
        at = np.unique(np.concatenate([grid, corners]))
        parts.append(_curve(f"beta = {beta:g}", beta, at, pareto_rate(at, beta)))
    for taper in dict.fromkeys(float(taper) for taper in tapers):
        tapered_rate(0.0, taper, 0.0)
        at = np.unique([*grid, *([0.5] if alphas is None else [])])  # whatever the taper, the rate is 1 from 0.5 on
        rates = np.array([tapered_rate(alpha, taper, alpha) for alpha in at.tolist()])
        parts.append(_curve(f"taper = {taper:g}", None, at, rates))
    return pl.concat(parts)


def _curve(name: str, beta: float | None, alphas: FloatArray, rates: Any) -> pl.DataFrame:
    fixed = [pl.lit(name).alias("curve"), pl.lit(beta, dtype=pl.Float64).alias("beta")]
    return pl.DataFrame({"alpha": alphas, "rate": rates}).select(*fixed, "alpha", "rate")


@dataclass(frozen=True)
class BoundCheck:
    """One policy at one Delta, checked against the lower bound: T rounds, Kl `arms`, of which `targets` were run.

    `easy` and `hard` are the mean regret on theta_0, and on theta_1..theta_Kl averaged over them, with their standard
    errors; `bound` is what `hard` must reach, given `easy`, and `slack` is `hard` minus that, with a 95% interval. It
    "holds" if the interval is above 0, and is "violated" if it is below; fewer than 6 trials leave it "undecided". A
    closed form has no trials.
    """

    policy: str
    horizon: int
    arms: int
    targets: int
    delta: float
    easy: float
    hard: float
    easy_error: float
    hard_error: float
    bound: float
    slack: float
    low: float
    high: float
    verdict: BoundVerdict
    trials: int


def lower_bound_checks(results: Results) -> list[BoundCheck]:
    """Check every policy and Delta of a study made by `lower_bound_study`, finished or not, against the lower bound.

    Regrets on theta_0 and on the hard problems are of the same trials, with the same noise, so the interval of their
    difference is a bootstrap over trials, resampled jointly; if only some of the hard problems were run, these are
    resampled too. Only the total n of pulls is used, not one count per arm: a mean of square roots of estimated counts
    would make the bound too large, while the bias of a single root is at most a quarter of its standard error.

    Examples
    --------
    >>> import tempfile
    >>> from adadim.experiments.tradeoff import lower_bound_study
    >>> from adadim.study import run
    >>> plan = lower_bound_study({"random": {"kind": "Random"}}, horizon=64, deltas=[0.2], trials=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (row,) = lower_bound_checks(run(plan, folder, jobs=1))
    >>> row.verdict, row.arms, row.trials
    ('holds', 4, 8)
    """
    members: dict[LowerBoundFamily, dict[int, str]] = {}
    for name in results.instances:
        p = results.parameters(name)
        if p["kind"] != "lower_bound":
            raise StoreError(f"{results.folder}: instance {name!r} is no member of the lower-bound family")
        family = lower_bound_family(p["horizon"], p["alpha"], p["alpha_easy"], budget=p["budget"], delta=p["delta"])
        members.setdefault(family, {})[p["target"]] = name
    for family, named in members.items():
        if 0 not in named or len(named) < 2:
            raise StoreError(f"{results.folder}: at Delta = {family.delta:g} theta_0 or the hard problems are missing")
    return [_check(results, policy, family, named) for policy in results.policies for family, named in members.items()]


def closed_forms(horizon: int, alpha: float, deltas: Sequence[float], alpha_easy: float = 0.0) -> list[BoundCheck]:
    """Two policies whose regrets are known exactly: uniform over the arms, and always a_0.

    Examples
    --------
    >>> uniform, stubborn = closed_forms(2500, 0.5, [0.015625])
    >>> round(uniform.easy, 6), round(uniform.hard, 6), round(uniform.bound, 6)
    (18.780048, 36.808894, 15.787553)
    >>> stubborn.hard == stubborn.bound == 19.53125  # the bound is sharp
    True
    """
    rows = []
    for name, delta in itertools.product(("uniform", "always a_0"), deltas):
        family = lower_bound_family(horizon, alpha, alpha_easy, delta=delta)
        count, worth = family.arms_count, horizon * delta
        easy, hard = 0.0, worth / 2
        if name == "uniform":
            easy, hard = worth / 2 * count / (count + 1), worth * (1 - 1.5 / (count + 1))
        slack = hard - (bound := float(bound_at(family, easy)))
        exact = (easy, hard, 0.0, 0.0, bound, slack, slack, slack, _verdict(slack, slack, family), 0)
        rows.append(BoundCheck(name, horizon, count, count, delta, *exact))
    return rows


def bound_at(family: LowerBoundFamily, easy: float | FloatArray, form: Literal["counts", "paper"] = "counts") -> Any:
    """Least mean regret on the hard problems of a policy with regret `easy` on theta_0; never below 0.

    It is `LowerBoundFamily.average_regret_bound_from_regret`, and falls as `easy` grows.

    Examples
    --------
    >>> family = lower_bound_family(2500, 0.5, budget=50.0)
    >>> bound_at(family, 0.0), bound_at(family, 50.0, form="paper")
    (19.53125, 4.8828125)
    """
    value = np.maximum(family.average_regret_bound_from_regret(easy, form), 0.0)
    return float(value) if np.ndim(easy) == 0 else value


def bounds_table(checks: Sequence[BoundCheck]) -> pl.DataFrame:
    """Checks as a table, a row each.

    Examples
    --------
    >>> bounds_table(closed_forms(2500, 0.5, [0.1])).select("policy", "verdict").rows()
    [('uniform', 'holds'), ('always a_0', 'holds')]
    """
    return pl.DataFrame([asdict(check) for check in checks])


def _check(results: Results, policy: str, family: LowerBoundFamily, named: Mapping[int, str]) -> BoundCheck:
    order = sorted(named)
    numbers = results.common_trials([(named[i], policy) for i in order])
    regret = np.stack([results.final(named[i], policy, trials=numbers) for i in order])
    easy, hard = regret[0], regret[1:]
    trials, targets = len(numbers), len(hard)
    size = (policy, family.horizon, family.arms_count, targets, family.delta)
    if trials < 2:
        nan = float("nan")
        return BoundCheck(*size, nan, nan, nan, nan, nan, nan, -np.inf, np.inf, "undecided", trials)
    # A policy that pulls nothing but a_0 has no regret, or some 1e-17 of it for each round.
    mean_easy, mean_hard = max(float(easy.mean()), 0.0), float(hard.mean())
    bound = float(bound_at(family, mean_easy))
    easies, hards = _resampled(easy, hard, sampled=targets < family.arms_count)
    low, high = percentile_interval(hards - bound_at(family, np.maximum(easies, 0.0)))
    verdict = _verdict(low, high, family) if trials >= MIN_TRIALS else "undecided"
    regrets = (mean_easy, mean_hard, float(easies.std()), float(hards.std()))
    return BoundCheck(*size, *regrets, bound, mean_hard - bound, low, high, verdict, trials)


def _resampled(easy: FloatArray, hard: FloatArray, sampled: bool) -> tuple[FloatArray, FloatArray]:
    """Bootstrap means of `easy` (trials,) and `hard` (targets, trials); targets are resampled if they are a sample."""
    draw = generator()
    targets, trials = hard.shape
    times = shares(draw, trials)
    if sampled:
        return times @ easy, np.vecdot(shares(draw, targets) @ hard, times)
    return times @ easy, times @ hard.mean(axis=0)


def _verdict(low: float, high: float, family: LowerBoundFamily) -> BoundVerdict:
    rounding = REGRET_ROUNDING_SHARE * family.horizon * family.delta
    if low >= -rounding:
        return "holds"
    return "violated" if high < -rounding else "undecided"


@dataclass(frozen=True)
class Slope:
    """Exponent of T in a regret: least-squares slope of ln(regret) in ln T and its 95% interval.

    They are NaN if fewer than 3 horizons are `kept`; the others are saturated. At each horizon, the family number
    `worst` has the largest mean regret.
    """

    value: float
    low: float
    high: float
    kept: tuple[bool, ...]
    worst: tuple[int, ...]


@dataclass(frozen=True)
class RateEstimate:
    """Estimated rate of one policy at one hardness level, with its 95% interval (bootstrap over trials).

    It is NaN where too much is saturated: a horizon is left out if the worst regret there is over 0.8 of a random
    policy's. `theory` is the rate that is proved for it, if one is, `worst` the kind of problem with the largest regret
    at each of the `horizons` that count.
    """

    policy: str
    alpha: float
    rate: float
    low: float
    high: float
    theory: float | None
    horizons: tuple[int, ...]
    saturated: tuple[int, ...]
    worst: tuple[str, ...]
    trials: int


def fit_slope(horizons: Sequence[int], regret: FloatArray, ceiling: FloatArray | None = None) -> Slope:
    """Slope of ln(worst mean regret) in ln T, of final regrets (families, trials, horizons).

    The mean over trials is taken first, then the largest over families. The bootstrap resamples trials, jointly for all
    families and horizons. `ceiling` (families, horizons) is the mean regret of a policy that learns nothing: a point of
    which the worst family is above 0.8 of it is left out.

    Examples
    --------
    >>> horizons = [64, 256, 1024]
    >>> regret = 2.0 * np.sqrt(horizons) * np.ones((1, 8, 1))
    >>> round(fit_slope(horizons, regret).value, 6)
    0.5
    >>> fit_slope(horizons, regret, ceiling=np.array([[17.0, 50.0, 200.0]])).kept
    (False, True, True)
    """
    regret = np.asarray(regret, dtype=np.float64)
    fits = regret.ndim == 3 and regret.shape[2] == len(horizons) and 0 not in regret.shape
    require(fits, "regret", f"be an array of shape (families, trials, {len(horizons)})", regret.shape)
    means = regret.mean(axis=1)
    worst, x = means.argmax(axis=0), np.log(np.asarray(horizons, dtype=np.float64))
    at = np.arange(len(x))
    kept = means[worst, at] > 0.0
    if ceiling is not None:
        kept &= means[worst, at] <= SATURATED * np.asarray(ceiling, dtype=np.float64)[worst, at]
    value = low = high = float("nan")
    if kept.sum() >= MIN_HORIZONS:
        centred = x[kept] - x[kept].mean()
        lever = centred / (centred @ centred)
        value = float(np.log(means.max(axis=0)[kept]) @ lever)
        if (trials := regret.shape[1]) >= MIN_TRIALS:
            weights = shares(generator(), trials)
            drawn = np.max(np.einsum("bt,fth->fbh", weights, regret[:, :, kept]), axis=0)
            low, high = percentile_interval(np.log(np.maximum(drawn, 1e-300)) @ lever)
    return Slope(value, low, high, tuple(kept.tolist()), tuple(worst.tolist()))


def rate_points(results: Results) -> pl.DataFrame:
    """Mean regret of every policy on every problem of a study of rates, and whether it is saturated.

    The column ceiling has the mean regret of the random policy.
    """
    rows, of_instance = [], problems(results)
    for instance, policy in results.cells():
        final = results.final(instance, policy)
        if policy != CEILING and len(final):
            ceiling, mean = _ceiling(results, instance), float(final.mean())
            measured = {"trials": len(final), "mean": mean, "ceiling": ceiling, "saturated": mean > SATURATED * ceiling}
            rows.append({"policy": represented(results, policy), **asdict(of_instance[instance]), **measured})
    if not rows:
        raise StoreError(f"{results.folder}: nothing is finished yet; run the study first")
    return pl.DataFrame(rows)


def rate_estimates(results: Results) -> list[RateEstimate]:
    """Rates of every policy in a study made by `rates_study`, at every alpha.

    Examples
    --------
    >>> import tempfile
    >>> from adadim.experiments.tradeoff import rates_study
    >>> from adadim.study import run
    >>> mine = {"oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim", "scale": 0.2}}
    >>> plan = rates_study(mine, horizons=[16, 64, 256], alphas=[0.0], gaps=[], dim=4, arms=8, trials=6)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (estimate,) = rate_estimates(run(plan, folder, jobs=1))
    >>> estimate.policy, estimate.alpha, estimate.theory
    ('oracle', 0.0, 0.5)
    """
    cells: dict[tuple[str, float], dict[str, dict[int, tuple[str, str]]]] = {}
    of_instance = problems(results)
    for instance, policy in results.cells():
        if policy != CEILING:
            problem = of_instance[instance]
            families = cells.setdefault((represented(results, policy), problem.alpha), {})
            families.setdefault(problem.family, {})[problem.horizon] = (instance, policy)
    horizons = sorted({problem.horizon for problem in of_instance.values()})
    written = results.study["policies"]
    # A family counts if it is there at every horizon.
    full = {key: {f: c for f, c in families.items() if len(c) == len(horizons)} for key, families in cells.items()}
    order = {represented(results, policy): i for i, policy in reversed(list(enumerate(results.policies)))}
    return [
        _rate_estimate(results, policy, alpha, horizons, full[policy, alpha], _proved(written[policy], alpha))
        for policy, alpha in sorted(full, key=lambda key: (order[key[0]], key[1]))
    ]


def rates_table(estimates: Sequence[RateEstimate]) -> pl.DataFrame:
    """Estimates as a table, a row each; lists of horizons and of kinds of problems as text."""
    rows = []
    for estimate in estimates:
        row = asdict(estimate)
        for key in ("horizons", "saturated", "worst"):
            row[key] = "; ".join(map(str, row[key]))
        rows.append(row)
    return pl.DataFrame(rows, schema_overrides={"theory": pl.Float64})


def _rate_estimate(
    results: Results,
    policy: str,
    alpha: float,
    horizons: Sequence[int],
    families: dict[str, dict[int, tuple[str, str]]],
    theory: float | None,
) -> RateEstimate:
    numbers = results.common_trials([cell for cells in families.values() for cell in cells.values()])
    if not len(numbers):
        return RateEstimate(policy, alpha, np.nan, np.nan, np.nan, theory, (), (), (), 0)
    grid = [[cells[h] for h in horizons] for cells in families.values()]
    regret = np.array([[results.final(*cell, trials=numbers) for cell in row] for row in grid])
    ceiling = np.array([[_ceiling(results, instance) for instance, _ in row] for row in grid])
    slope = fit_slope(horizons, np.swapaxes(regret, 1, 2), ceiling)
    counted = tuple(itertools.compress(horizons, slope.kept))
    saturated = tuple(h for h in horizons if h not in counted)
    worst = tuple(list(families)[w] for w in itertools.compress(slope.worst, slope.kept))
    rate = (slope.value, slope.low, slope.high)
    return RateEstimate(policy, alpha, *rate, theory, counted, saturated, worst, len(numbers))


def _ceiling(results: Results, instance: str) -> float:
    """Mean regret of a policy that learns nothing."""
    final = results.final(instance, CEILING)
    if not len(final):
        raise StoreError(f"{results.folder}: {CEILING!r} has not run on {instance!r} yet; run the study first")
    return float(final.mean())


def _proved(spec: dict[str, Any], alpha: float) -> float | None:
    """The rate that the paper proves for a policy, which is given as its table in the study."""
    if spec["kind"] in ("LinUCBPlusPlus", "LinUCBPlusPlusCorral", "SmoothCorral") and not spec.get("eta"):
        return pareto_rate(alpha, float(spec.get("beta", 0.5)))
    if spec["kind"] in ("LinUCB", "SupLinUCB") and spec.get("dim") == "@intrinsic_dim":
        return nonadaptive_rate(alpha)
    return None
