"""What is run: policies on the family behind the lower bound, and problems of growing horizons to measure rates.

The family behind Theorem 1 (appendix A) has theta_0, where arm a_0 is best, and theta_1..theta_Kl, each of which hides
one better arm: no policy does well on all of them.

A policy's rate at alpha is the exponent of T in its largest regret over the problems with d* <= T^alpha. Here T runs
over a few horizons, d* = max(1, floor(T^alpha)), and "largest" is over a few kinds of problems: theta of several shapes
on the sphere, and in the lower-bound family with gap g sqrt(Kl/T) "easy", theta_0 of the family of the largest alpha
(its d* is 1), and "hidden", the last theta_i of that of alpha itself, which needs T^alpha >= 4 at every horizon. What
the slope of ln(regret) in ln T can and cannot show is the subject of docs/tradeoff.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from adadim.core.checks import integer, require
from adadim.policies import UCB, Greedy, LinUCB, LinUCBPlusPlus, Policy, Random, SmoothCorral
from adadim.policies.names import TRUE_DIM
from adadim.report.text import label
from adadim.study import Results, Study
from adadim.theory import lower_bound_family, schedule

DELTAS, TARGETS = 7, 16
LARGEST_GAP = 0.8  # norms of theta stay below 1
HORIZONS = (256, 1024, 4096, 16384)
ALPHAS = (0.0, 0.25, 0.375, 0.5)
THETAS = ("uniform", "spike")
GAPS = (4.0,)
RATE_BETAS = (0.5, 0.6, 0.75)
CORRAL_BETAS = (0.5, 0.75)
SCALE = 0.5
MAX_ARMS = 1024
SLACK = 1.0 + 1e-12  # T^alpha may miss a whole number by an ulp or two
CEILING = "random"  # policy whose regret is the most that can be lost: the saturation guard compares with it
# Added to the name of an oracle where d* = d; the label "represents" says that both names mean one policy.
ALL_FEATURES = " in all features"


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
    policies, trials, seed, plugins
        As in `Study`; by default LinUCB, LinUCB++ at beta 0.5 and 0.75, Smooth Corral, UCB, Greedy and Random.
    horizon, alpha, alpha_easy
        As in `adadim.theory.lower_bound_family`; there are Kl = floor(T^alpha / 2) hard problems.
    deltas : sequence of float, optional
        Gaps to run; `default_deltas` if not given.
    targets : int
        Hard problems to run; if there are more, that many drawn at random (by the seed) without repetition.

    Examples
    --------
    >>> plan = lower_bound_study(horizon=64, deltas=[0.1, 0.3], trials=2)
    >>> len(plan.instances), len(plan.policies)  # 2 gaps, theta_0 and 4 hard problems each; 7 policies
    (10, 7)
    """
    family = lower_bound_family(horizon, alpha, alpha_easy)
    gaps = default_deltas(horizon, alpha) if deltas is None else [float(delta) for delta in deltas]
    require(0 < len(gaps) == len(set(gaps)), "deltas", "be different numbers, at least one", gaps)
    for delta in gaps:
        lower_bound_family(horizon, alpha, alpha_easy, delta=delta)  # raises where the gap is not possible
    members = np.arange(1, family.arms_count + 1)
    if integer(targets, "targets") < len(members):
        members = np.sort(np.random.default_rng(seed).permutation(members)[:targets])
    common = {"kind": "lower_bound", "horizon": horizon, "alpha": alpha, "alpha_easy": alpha_easy}
    instances = {
        f"delta={delta:g} target={i}": {**common, "delta": delta, "target": i}
        for delta in gaps
        for i in (0, *members.tolist())
    }
    if policies is None:
        policies = {
            "LinUCB": LinUCB(),
            "LinUCB++ 0.5": LinUCBPlusPlus(beta=0.5),
            "LinUCB++ 0.75": LinUCBPlusPlus(beta=0.75),
            "Smooth Corral": SmoothCorral(ambient=True),
            "UCB": UCB(),
            "Greedy": Greedy(),
            "random": Random(),
        }
    return Study("lower-bound", instances, policies, trials=trials, seed=seed, record=1, plugins=plugins or {})


def default_deltas(horizon: int, alpha: float, count: int = DELTAS) -> list[float]:
    """Gaps in geometric progression, from the one that Theorem 1 uses (its budget T^alpha) to 0.8.

    Examples
    --------
    >>> default_deltas(2500, 0.5, count=3)
    [0.01562, 0.1118, 0.8]
    """
    least = lower_bound_family(horizon, alpha).delta
    return [float(f"{delta:.4g}") for delta in np.geomspace(least, LARGEST_GAP, count)]


@dataclass(frozen=True)
class RateCase:
    """A kind of problem at one horizon, of hardness at most alpha: an instance of the study of rates, and its label.

    Examples
    --------
    >>> RateCase(0.25, 1024, "spike").name
    'alpha=0.25 T=1024 spike'
    """

    alpha: float
    horizon: int
    family: str

    @property
    def name(self) -> str:
        """Name in the study."""
        return f"alpha={self.alpha:g} T={self.horizon} {self.family}"


def problems(results: Results) -> dict[str, RateCase]:
    """The problem behind every instance of a study of rates, from its labels."""
    return {name: RateCase(**label(results, "instances", name)) for name in results.instances}


def represented(results: Results, policy: str) -> str:
    """The policy that one of a study of rates represents: itself, or the oracle whose name it extends."""
    return str(label(results, "represents").get(policy, policy))


def rate_policies(
    betas: Sequence[float] = RATE_BETAS, corral_betas: Sequence[float] = CORRAL_BETAS, scale: float = SCALE
) -> dict[str, Policy | dict[str, Any]]:
    """The policies whose rates theory knows: LinUCB++, Smooth Corral with eta = T^-beta, LinUCB and the oracle.

    `betas` and `corral_betas`, in [0.5, 1), are positions on the frontier. `scale` is a factor on every confidence
    radius: it changes no rate in theory, but with the full radius a policy on a short horizon only explores.

    Examples
    --------
    >>> list(rate_policies([0.5], [0.5]))
    ['LinUCB++ 0.5', 'Smooth Corral 0.5', 'LinUCB', 'oracle']
    """
    base = LinUCB(scale=scale)
    return {
        **{f"LinUCB++ {beta:g}": LinUCBPlusPlus(beta=beta, scale=scale) for beta in betas},
        **{f"Smooth Corral {beta:g}": SmoothCorral(base=base, ambient=True, beta=beta) for beta in corral_betas},
        "LinUCB": base,
        "oracle": {"kind": "LinUCB", "scale": scale, "dim": TRUE_DIM},
    }


def rates_study(
    policies: Mapping[str, Any] | None = None,
    *,
    horizons: Sequence[int] = HORIZONS,
    alphas: Sequence[float] = ALPHAS,
    thetas: Sequence[str] = THETAS,
    gaps: Sequence[float] = GAPS,
    dim: int | None = None,
    arms: int | None = None,
    trials: int = 24,
    seed: int = 0,
    plugins: Mapping[str, Any] | None = None,
) -> Study:
    """The study behind the estimates of rates.

    A policy called "random" is added: its regret is T (mu* - mean mu) on average, the ceiling for the saturation guard.

    Parameters
    ----------
    policies, trials, seed, plugins
        As in `Study`; `rate_policies` by default. One whose `dim` is "@intrinsic_dim" is told d*.
    horizons, alphas : sequence
        Hardness levels, and horizons, best powers of 4: the ceiling in the schedule of LinUCB++ makes other lines
        jagged.
    thetas, gaps : sequence
        Reward vectors on the sphere (see `adadim.instances.parameter`), and gaps in the lower-bound family, relative
        to sqrt(Kl/T).
    dim, arms : int, optional
        Features d on the sphere, by default as many as LinUCB++ with beta = 1/2 uses in its first iteration, which
        is 2 sqrt(T) for powers of 4, and at least the largest d*: LinUCB itself then has the rate 3/4 at every alpha.
        Arms K, by default 2 d, at most 1024.

    Examples
    --------
    >>> plan = rates_study(horizons=[64, 256], alphas=[0.0, 0.5], trials=2)
    >>> list(plan.instances)[:2], plan.instances["alpha=0.5 T=256 spike"]["dim"]
    (['alpha=0 T=64 uniform', 'alpha=0 T=64 easy x4'], 32)
    """
    require(len(set(horizons)) > 1, "horizons", "be at least two different numbers of rounds", list(horizons))
    hardest, shortest = max(alphas, default=0.0), min(horizons)
    instances: dict[RateCase, dict[str, Any]] = {}
    for alpha, horizon in itertools.product(sorted(set(alphas)), sorted(set(horizons))):
        d_star = max(1, math.floor(horizon**alpha * SLACK))
        needed = max(schedule(horizon, 0.5, horizon**2).dims[0], math.floor(horizon**hardest * SLACK))
        d = needed if dim is None else dim
        count = min(2 * d, MAX_ARMS) if arms is None else arms
        size = {"arms": count, "dim": d, "intrinsic_dim": d_star, "horizon": horizon}
        shapes = thetas[:1] if d_star == 1 else thetas  # with one feature all shapes are the same
        tables: dict[str, dict[str, Any]] = {theta: {"kind": "sphere", **size, "theta": theta} for theta in shapes}
        tables |= _lower_bound_tables(alpha, horizon, gaps, hardest, shortest)
        instances |= {RateCase(float(alpha), int(horizon), family): table for family, table in tables.items()}
    chosen, only, represents = _with_oracles(rate_policies() if policies is None else policies, instances)
    chosen.setdefault(CEILING, Random())
    named = {problem.name: table for problem, table in instances.items()}
    labels = {"instances": {problem.name: asdict(problem) for problem in instances}, "represents": represents}
    options: dict[str, Any] = {"trials": trials, "seed": seed, "record": 1, "only": only, "plugins": plugins or {}}
    return Study("rates", named, chosen, **options, labels=labels)


def _with_oracles(
    policies: Mapping[str, Any], instances: Mapping[RateCase, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, list[str]], dict[str, str]]:
    """Policies with those that know d* split in two; the instances of either half; which name represents which.

    In theta_i of the lower-bound family all features matter, so the oracle is LinUCB in all of them. In theta_0 it
    would see nothing but a_0, so it does not run there.
    """
    sphere = [problem.name for problem, table in instances.items() if table["kind"] == "sphere"]
    hidden = [p.name for p, table in instances.items() if table["kind"] == "lower_bound" and table["target"] > 0]
    chosen, only, represents = dict(policies), {}, {}
    for name, policy in policies.items():
        if isinstance(policy, Mapping) and policy.get("dim") == TRUE_DIM:
            if sphere:
                only[name] = sphere
            if hidden:
                chosen[name + ALL_FEATURES] = {**policy, "dim": None}
                only[name + ALL_FEATURES] = hidden
                represents[name + ALL_FEATURES] = name
    return chosen, only, represents


def _lower_bound_tables(
    alpha: float, horizon: int, gaps: Sequence[float], hardest: float, shortest: int
) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    for g in gaps:
        for name, level in (("easy", hardest), ("hidden", alpha)):
            if shortest**level * SLACK >= 4.0:
                count = lower_bound_family(horizon, level).arms_count
                delta = min(g * math.sqrt(count / horizon), LARGEST_GAP)
                member = {"delta": delta, "target": count if name == "hidden" else 0}
                tables[f"{name} x{g:g}"] = {"kind": "lower_bound", "horizon": horizon, "alpha": level, **member}
    return tables
