"""Policies held against the lower bound.

The regret R_0 of a policy on the easy problem says how often it looked for hidden arms, n = 2 R_0 / Delta pulls in all,
and from n alone follows how much it must lose on the hard problems on average:

    mean_i R_i >= (T Delta/2) (1 - n/(Kl T) - Delta sqrt(n/Kl))        (eq:ave_regret_concave, n instead of T)

for every policy and every Delta > 0. A policy that seems to break it was not told the same about every problem, or its
regret was not counted right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from adadim.backend.arrays import FloatArray
from adadim.errors import StoreError
from adadim.report.bootstrap import FEWEST, generator, interval, shares
from adadim.study import Results
from adadim.theory import LowerBoundFamily, lower_bound_family

__all__ = ["BoundCheck", "bound_at", "bounds_table", "closed_forms", "lower_bound_checks"]

Verdict = Literal["holds", "violated", "undecided"]

ROUNDING = 1e-9  # of T Delta


@dataclass(frozen=True)
class BoundCheck:
    """One policy at one Delta, held against the lower bound.

    Attributes
    ----------
    policy : str
        Its name in the study.
    horizon : int
        Number of rounds T.
    arms : int
        Number Kl of hard problems.
    targets : int
        How many of them were run.
    delta : float
        The gap Delta.
    easy, hard : float
        Mean regret on theta_0, and on theta_1..theta_Kl averaged over them.
    easy_error, hard_error : float
        Standard errors of the two.
    bound : float
        What `hard` must reach, given `easy`.
    slack, low, high : float
        `hard` minus `bound`, with its 95% interval.
    verdict : {"holds", "violated", "undecided"}
        "holds" if the interval is above 0, "violated" if it is below. Always "undecided" below 6 trials.
    trials : int
        Number of trials; 0 for a closed form.
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
    verdict: Verdict
    trials: int


def lower_bound_checks(results: Results) -> list[BoundCheck]:
    """Hold every policy and Delta of a study against the lower bound.

    Regrets on theta_0 and on the hard problems are of the same trials, with the same noise, so the interval of their
    difference is a bootstrap over trials, resampled jointly; if only some of the hard problems were run, these are
    resampled too. Only the total n of pulls is used, not one count per arm: a mean of square roots of estimated counts
    would make the bound too large, while the bias of a single root is at most a quarter of its standard error.

    Parameters
    ----------
    results : Results
        Of a study made by `lower_bound_study`, finished or not.

    Examples
    --------
    >>> import tempfile
    >>> import adadim
    >>> from adadim.experiments.tradeoff import lower_bound_study
    >>> from adadim.study import run
    >>> plan = lower_bound_study({"random": adadim.Random()}, horizon=64, deltas=[0.2], trials=8)
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
    for name in ("uniform", "always a_0"):
        for delta in deltas:
            family = lower_bound_family(horizon, alpha, alpha_easy, delta=delta)
            count, worth = family.arms_count, horizon * delta
            if name == "uniform":
                easy, hard = worth / 2 * count / (count + 1), worth * (1 - 1.5 / (count + 1))
            else:
                easy, hard = 0.0, worth / 2
            bound = float(bound_at(family, easy))
            slack = hard - bound
            verdict = _verdict(slack, slack, family)
            known = (easy, hard, 0.0, 0.0, bound, slack, slack, slack, verdict, 0)
            rows.append(BoundCheck(name, horizon, count, count, delta, *known))
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
    low, high = interval(hards - bound_at(family, np.maximum(easies, 0.0)))
    return BoundCheck(
        *size,
        mean_easy,
        mean_hard,
        float(easies.std()),
        float(hards.std()),
        bound,
        mean_hard - bound,
        low,
        high,
        _verdict(low, high, family) if trials >= FEWEST else "undecided",
        trials,
    )


def _resampled(easy: FloatArray, hard: FloatArray, sampled: bool) -> tuple[FloatArray, FloatArray]:
    """Bootstrap means of `easy` (trials,) and `hard` (targets, trials); targets are resampled if they are a sample."""
    draw = generator()
    targets, trials = hard.shape
    times = shares(draw, trials)
    if sampled:
        return times @ easy, np.vecdot(shares(draw, targets) @ hard, times)
    return times @ easy, times @ hard.mean(axis=0)


def _verdict(low: float, high: float, family: LowerBoundFamily) -> Verdict:
    rounding = ROUNDING * family.horizon * family.delta
    if low >= -rounding:
        return "holds"
    return "violated" if high < -rounding else "undecided"
