"""The lower bound as an experiment: no policy does well on the easy problem and on all the hard ones.

A policy meets the family behind Theorem 1 (appendix A): theta_0, where arm a_0 is best, and theta_1..theta_Kl, each of
which hides one better arm. Its regret R_0 on the easy problem says how often it looked for hidden arms,
n = 2 R_0 / Delta pulls in all, and from n alone follows how much it must lose on the hard problems on average:

    mean_i R_i >= (T Delta/2) (1 - n/(Kl T) - Delta sqrt(n/Kl))        (eq:ave_regret_concave, n instead of T)

for every policy and every Delta > 0. A policy that seems to break it was not told the same about every problem, or its
regret was not counted right.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adadim.bootstrap import FEWEST, generator, interval, shares
from adadim.errors import InvalidValueError
from adadim.policies import UCB, Greedy, LinUCB, LinUCBPlusPlus, Policy, Random, SmoothCorral
from adadim.study import Results, StoreError, Study
from adadim.theory import LowerBoundFamily, lower_bound_family

__all__ = ["BoundCheck", "bound_at", "closed_forms", "default_deltas", "lower_bound_checks", "lower_bound_study"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Verdict = Literal["holds", "violated", "undecided"]

DELTAS = 7
LARGEST = 0.8  # norms of theta stay below 1
TARGETS = 16
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


def lower_bound_study(
    policies: Mapping[str, Any] | None = None,
    *,
    horizon: int = 1024,
    alpha: float = 0.5,
    alpha_easy: float = 0.0,
    deltas: Sequence[float] | None = None,
    targets: int = TARGETS,
    trials: int = 32,
    seed: int = 0,
    plugins: Mapping[str, Any] | None = None,
) -> Study:
    """The study behind the check: every policy on theta_0 and on hard members of the family, for each Delta.

    Parameters
    ----------
    policies : mapping, optional
        As in `Study`; by default LinUCB, LinUCB++ at beta 0.5 and 0.75, Smooth Corral, UCB, Greedy and Random.
    horizon, alpha, alpha_easy
        As in `adadim.theory.lower_bound_family`; there are Kl = floor(T^alpha / 2) hard problems.
    deltas : sequence of float, optional
        Gaps to run; `default_deltas` if not given.
    targets : int
        Hard problems to run; if there are more, that many drawn at random without repetition.
    trials, seed, plugins
        As in `Study`. The draw of targets depends on the seed.

    Examples
    --------
    >>> plan = lower_bound_study(horizon=64, deltas=[0.1, 0.3], trials=2)
    >>> len(plan.instances), len(plan.policies)  # 2 gaps, theta_0 and 4 hard problems each; 7 policies
    (10, 7)
    """
    family = lower_bound_family(horizon, alpha, alpha_easy)
    gaps = default_deltas(horizon, alpha) if deltas is None else [float(delta) for delta in deltas]
    if not gaps or len(set(gaps)) < len(gaps):
        raise InvalidValueError(f"deltas must be different numbers, at least one, got {gaps}")
    if isinstance(targets, bool) or not isinstance(targets, int) or targets < 1:
        raise InvalidValueError(f"targets must be an integer of at least 1, got {targets!r}")
    members = np.arange(1, family.arms_count + 1)
    if targets < len(members):
        members = np.sort(np.random.default_rng(seed).permutation(members)[:targets])
    common = {"kind": "lower_bound", "horizon": horizon, "alpha": alpha, "alpha_easy": alpha_easy}
    instances = {
        f"delta={delta:g} target={i}": {**common, "delta": delta, "target": i}
        for delta in gaps
        for i in (0, *members.tolist())
    }
    chosen = _policies() if policies is None else policies
    return Study("lower-bound", instances, chosen, trials=trials, seed=seed, record=1, plugins=plugins or {})


def default_deltas(horizon: int, alpha: float, count: int = DELTAS) -> list[float]:
    """Gaps in geometric progression, from the one that Theorem 1 uses (its budget T^alpha) to 0.8.

    Examples
    --------
    >>> default_deltas(2500, 0.5, count=3)
    [0.01562, 0.1118, 0.8]
    """
    least = lower_bound_family(horizon, alpha).delta
    return [float(f"{delta:.4g}") for delta in np.geomspace(least, LARGEST, count)]


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
    >>> from adadim.study import run
    >>> plan = lower_bound_study({"random": Random()}, horizon=64, deltas=[0.2], trials=8)
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
            exact = _verdict(slack, slack, family)
            rows.append(
                BoundCheck(
                    name, horizon, count, count, delta, easy, hard, 0.0, 0.0, bound, slack, slack, slack, exact, 0
                )
            )
    return rows


def bound_at(family: LowerBoundFamily, easy: float | FloatArray, form: Literal["counts", "paper"] = "counts") -> Any:
    """Least mean regret on the hard problems of a policy with regret `easy` on theta_0; never below 0.

    The form "counts" is `LowerBoundFamily.average_regret_bound` with the same count for every arm; "paper" is the
    weaker one of the proof, (T Delta/2) (1/2 - sqrt(2 Delta R_0/Kl)). Both fall as `easy` grows.

    Examples
    --------
    >>> family = lower_bound_family(2500, 0.5, budget=50.0)
    >>> bound_at(family, 0.0), bound_at(family, 50.0, form="paper")
    (19.53125, 4.8828125)
    """
    horizon, count, delta = family.horizon, family.arms_count, family.delta
    root = np.sqrt(2.0 * delta * np.asarray(easy, dtype=np.float64) / count)  # Delta sqrt(n/Kl) with n = 2 R_0/Delta
    kept = 0.5 if form == "paper" else 1.0 - 2.0 * np.asarray(easy) / (delta * count * horizon)
    value = np.maximum(horizon * delta / 2.0 * (kept - root), 0.0)
    return float(value) if np.ndim(easy) == 0 else value


def _policies() -> dict[str, Policy]:
    return {
        "LinUCB": LinUCB(),
        "LinUCB++ 0.5": LinUCBPlusPlus(beta=0.5),
        "LinUCB++ 0.75": LinUCBPlusPlus(beta=0.75),
        "Smooth Corral": SmoothCorral(ambient=True),
        "UCB": UCB(),
        "Greedy": Greedy(),
        "random": Random(),
    }


def _check(results: Results, policy: str, family: LowerBoundFamily, named: Mapping[int, str]) -> BoundCheck:
    numbers = functools.reduce(np.intersect1d, [results.replications(name, policy) for name in named.values()])
    regret = np.stack(
        [
            results.final(named[i], policy)[np.isin(results.replications(named[i], policy), numbers)]
            for i in sorted(named)
        ]
    )
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
