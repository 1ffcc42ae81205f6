"""From regrets to rates: slopes of ln(regret) in ln T, with bootstrap intervals and a guard against saturation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from adadim.backend.arrays import FloatArray
from adadim.checks import require
from adadim.errors import StoreError
from adadim.experiments.tradeoff.rates import CEILING, problems, represented
from adadim.report.bootstrap import FEWEST, generator, interval, shares
from adadim.study import Results
from adadim.theory import nonadaptive_rate, pareto_rate

__all__ = ["RateEstimate", "Slope", "fit_slope", "rate_estimates", "rate_points", "rates_table"]


SATURATED = 0.8  # of what a random policy loses
POINTS = 3  # fewer horizons make no line


@dataclass(frozen=True)
class Slope:
    """Exponent of T in a regret.

    Attributes
    ----------
    value, low, high : float
        Least-squares slope of ln(regret) in ln T and its 95% interval; NaN if fewer than 3 horizons are left.
    kept : tuple of bool
        Which horizons count; the others are saturated.
    worst : tuple of int
        Which family has the largest mean regret at each horizon.
    """

    value: float
    low: float
    high: float
    kept: tuple[bool, ...]
    worst: tuple[int, ...]


@dataclass(frozen=True)
class RateEstimate:
    """Estimated rate of one policy at one hardness level.

    Attributes
    ----------
    policy : str
        Its name in the study.
    alpha : float
        Hardness level.
    rate, low, high : float
        The slope and its 95% interval (bootstrap over trials); NaN where too much is saturated.
    theory : float or None
        The rate that is proved for it, if one is.
    horizons, saturated : tuple of int
        Horizons that count, and those left out because the worst regret there is over 0.8 of a random policy's.
    worst : tuple of str
        Kind of problem with the largest regret, at each of `horizons`.
    trials : int
        Number of trials.
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
    """Slope of ln(worst mean regret) in ln T.

    Parameters
    ----------
    horizons : sequence of int
        The T of each point.
    regret : array (families, trials, horizons)
        Final regrets. The mean over trials is taken first, then the largest over families. The bootstrap resamples
        trials, jointly for all families and horizons.
    ceiling : array (families, horizons), optional
        Mean regret of a policy that learns nothing; a point of which the worst family is above 0.8 of it is left out.

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
    if kept.sum() >= POINTS:
        centred = x[kept] - x[kept].mean()
        lever = centred / (centred @ centred)
        value = float(np.log(means.max(axis=0)[kept]) @ lever)
        if (trials := regret.shape[1]) >= FEWEST:
            weights = shares(generator(), trials)
            drawn = np.max(np.einsum("bt,fth->fbh", weights, regret[:, :, kept]), axis=0)
            low, high = interval(np.log(np.maximum(drawn, 1e-300)) @ lever)
    return Slope(value, low, high, tuple(kept.tolist()), tuple(worst.tolist()))


def rate_points(results: Results) -> pl.DataFrame:
    """Mean regret of every policy on every problem of a study of rates, and whether it is saturated.

    Returns
    -------
    polars.DataFrame
        Columns policy, alpha, horizon, family, trials, mean, ceiling (mean regret of the random policy) and saturated.
    """
    rows, known = [], problems(results)
    for instance, policy in results.cells():
        problem, found = known[instance], results.final(instance, policy)
        if policy != CEILING and len(found):
            ceiling = _ceiling(results, instance)
            rows.append(
                {
                    "policy": represented(results, policy),
                    "alpha": problem.alpha,
                    "horizon": problem.horizon,
                    "family": problem.family,
                    "trials": len(found),
                    "mean": float(found.mean()),
                    "ceiling": ceiling,
                    "saturated": bool(found.mean() > SATURATED * ceiling),
                }
            )
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
    known = problems(results)
    for instance, policy in results.cells():
        if policy != CEILING:
            problem = known[instance]
            families = cells.setdefault((represented(results, policy), problem.alpha), {})
            families.setdefault(problem.family, {})[problem.horizon] = (instance, policy)
    horizons = sorted({problem.horizon for problem in known.values()})
    written = results.study["policies"]
    # A family counts if it is there at every horizon.
    full = {key: {f: c for f, c in families.items() if len(c) == len(horizons)} for key, families in cells.items()}
    order = {represented(results, policy): i for i, policy in reversed(list(enumerate(results.policies)))}
    return [
        _estimate(results, policy, alpha, horizons, full[policy, alpha], _proved(written[policy], alpha))
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


def _estimate(
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
    regret = np.array(
        [[results.final(*cells[horizon], trials=numbers) for horizon in horizons] for cells in families.values()]
    )
    ceiling = np.array([[_ceiling(results, cells[h][0]) for h in horizons] for cells in families.values()])
    slope = fit_slope(horizons, np.swapaxes(regret, 1, 2), ceiling)
    names = list(families)
    return RateEstimate(
        policy,
        alpha,
        slope.value,
        slope.low,
        slope.high,
        theory,
        tuple(h for h, kept in zip(horizons, slope.kept, strict=True) if kept),
        tuple(h for h, kept in zip(horizons, slope.kept, strict=True) if not kept),
        tuple(names[w] for w, kept in zip(slope.worst, slope.kept, strict=True) if kept),
        len(numbers),
    )


def _ceiling(results: Results, instance: str) -> float:
    found = results.final(instance, CEILING)
    if not len(found):
        raise StoreError(f"{results.folder}: {CEILING!r} has not run on {instance!r} yet; run the study first")
    return float(found.mean())


def _proved(spec: dict[str, Any], alpha: float) -> float | None:
    """Rate in the paper of a policy of a study, given how it is written there."""
    if spec["kind"] in ("LinUCBPlusPlus", "LinUCBPlusPlusCorral", "SmoothCorral") and not spec.get("eta"):
        return pareto_rate(alpha, float(spec.get("beta", 0.5)))
    if spec["kind"] in ("LinUCB", "SupLinUCB") and spec.get("dim") == "@intrinsic_dim":
        return nonadaptive_rate(alpha)
    return None
