"""Empirical rates: how fast the worst regret grows with the horizon, for problems of hardness alpha.

A policy's rate at alpha is the exponent of T in its largest regret over the problems with d* <= T^alpha. Here T runs
over a few horizons, d* = max(1, floor(T^alpha)), and "largest" is over a few kinds of problems; the rate is estimated
by the slope of ln(regret) in ln T. What that can and cannot show is the subject of docs/tradeoff.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from adadim.errors import InvalidValueError
from adadim.policies import LinUCB, LinUCBPlusPlus, Policy, Random, SmoothCorral
from adadim.study import Study
from adadim.theory import lower_bound_family, schedule

__all__ = ["CEILING", "EVERYTHING", "Problem", "rate_policies", "rates_study"]

HORIZONS = (256, 1024, 4096, 16384)
ALPHAS = (0.0, 0.25, 0.375, 0.5)
THETAS = ("uniform", "spike")
GAPS = (4.0,)
BETAS = (0.5, 0.6, 0.75)
CORRAL_BETAS = (0.5, 0.75)
SCALE = 0.5
MOST_ARMS = 1024
LARGEST_GAP = 0.8

CEILING = "random"
"""Name of the policy whose regret is the most that can be lost: the saturation guard compares with it."""

EVERYTHING = " in all features"
"""Added to the name of an oracle where d* = d; both names stand for one policy."""

TOLD = "@intrinsic_dim"

SLACK = 1.0 + 1e-12  # T^alpha may miss a whole number by an ulp or two


@dataclass(frozen=True)
class Problem:
    """A kind of problem at one horizon, of hardness at most alpha; its name is that of the instance in the study.

    Examples
    --------
    >>> Problem(0.25, 1024, "spike").name
    'alpha=0.25 T=1024 spike'
    >>> Problem.parse("alpha=0.25 T=1024 spike").horizon
    1024
    """

    alpha: float
    horizon: int
    family: str

    @property
    def name(self) -> str:
        """Name in the study."""
        return f"alpha={self.alpha:g} T={self.horizon} {self.family}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read a name back."""
        match = re.fullmatch(r"alpha=(\S+) T=(\d+) (.+)", name)
        if match is None:
            raise InvalidValueError(f"{name!r} is not the name of an instance in a study of rates")
        return cls(float(match[1]), int(match[2]), match[3])


def rate_policies(
    betas: Sequence[float] = BETAS, corral_betas: Sequence[float] = CORRAL_BETAS, scale: float = SCALE
) -> dict[str, Policy | dict[str, Any]]:
    """The policies whose rates theory knows: LinUCB++, Smooth Corral with eta = T^-beta, LinUCB and the oracle.

    Parameters
    ----------
    betas, corral_betas : sequence of float in [0.5, 1)
        Positions on the frontier of LinUCB++ and of Smooth Corral.
    scale : float
        Factor on every confidence radius. It changes no rate in theory, but with the full radius a policy on a short
        horizon spends all of it exploring.

    Examples
    --------
    >>> list(rate_policies([0.5], [0.5]))
    ['LinUCB++ 0.5', 'Smooth Corral 0.5', 'LinUCB', 'oracle']
    """
    return {
        **{f"LinUCB++ {beta:g}": LinUCBPlusPlus(beta=beta, scale=scale) for beta in betas},
        **{
            f"Smooth Corral {beta:g}": SmoothCorral(base=LinUCB(scale=scale), ambient=True, beta=beta)
            for beta in corral_betas
        },
        "LinUCB": LinUCB(scale=scale),
        "oracle": {"kind": "LinUCB", "scale": scale, "dim": TOLD},
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

    Problems at horizon T and hardness alpha: on the sphere, d* = max(1, floor(T^alpha)) and each of `thetas`; of the
    lower-bound family, with gap ``g sqrt(Kl/T)`` for each g of `gaps`, "easy", which is theta_0 of the family of the
    largest alpha (its d* is 1), and "hidden", the last theta_i of the family of alpha itself. The latter needs
    T^alpha >= 4 at every horizon, so that the kinds of problems do not change along a line. A policy called "random" is
    added: its regret is T (mu* - mean mu) on average, the ceiling for the saturation guard.

    Parameters
    ----------
    policies : mapping, optional
        As in `Study`; `rate_policies` by default. One whose `dim` is "@intrinsic_dim" is told d*.
    horizons : sequence of int
        Powers of 4, to keep the ceiling in the schedule of LinUCB++ from making the lines jagged.
    alphas : sequence of float
        Hardness levels.
    thetas : sequence of str
        Reward vectors on the sphere, see `adadim.instances.parameter`.
    gaps : sequence of float
        Gaps in the lower-bound family, relative to sqrt(Kl/T).
    dim : int, optional
        Features d on the sphere; by default as many as LinUCB++ with beta = 1/2 uses in its first iteration, which
        is 2 sqrt(T) for powers of 4, and at least the largest d*. LinUCB itself then has the rate 3/4 at every alpha.
    arms : int, optional
        Arms K on the sphere; by default 2 d, at most 1024.
    trials, seed, plugins
        As in `Study`.

    Examples
    --------
    >>> plan = rates_study(horizons=[64, 256], alphas=[0.0, 0.5], trials=2)
    >>> list(plan.instances)[:2], plan.instances["alpha=0.5 T=256 spike"].params["dim"]
    (['alpha=0 T=64 uniform', 'alpha=0 T=64 easy x4'], 32)
    """
    if len(set(horizons)) < 2:
        raise InvalidValueError(f"horizons must be at least two different numbers of rounds, got {list(horizons)}")
    chosen: dict[str, Any] = dict(rate_policies() if policies is None else policies)
    instances: dict[str, dict[str, Any]] = {}
    for alpha in sorted(set(alphas)):
        for horizon in sorted(set(horizons)):
            size = _size(horizon, max(alphas), dim, arms)
            made = _sphere(alpha, horizon, thetas, size) | _family(alpha, horizon, gaps, max(alphas), min(horizons))
            instances |= {Problem(alpha, horizon, family).name: table for family, table in made.items()}
    only: dict[str, list[str]] = {}
    kinds = {name: Problem.parse(name).family.split()[0] for name in instances}
    for name in [name for name, policy in chosen.items() if _table(policy).get("dim") == TOLD]:
        # In theta_i of the family all features matter, so the oracle is LinUCB in all of them. In theta_0 it would see
        # nothing but a_0.
        everywhere = {name: [n for n, kind in kinds.items() if kind not in ("easy", "hidden")]}
        everywhere[name + EVERYTHING] = [n for n, kind in kinds.items() if kind == "hidden"]
        only |= {label: names for label, names in everywhere.items() if names}
        if everywhere[name + EVERYTHING]:
            chosen[name + EVERYTHING] = {**_table(chosen[name]), "dim": None}
    chosen.setdefault(CEILING, Random())
    return Study("rates", instances, chosen, trials=trials, seed=seed, record=1, only=only, plugins=plugins or {})


def _sphere(alpha: float, horizon: int, thetas: Sequence[str], size: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    d_star = max(1, math.floor(horizon**alpha * SLACK))
    common = {"kind": "sphere", **size, "intrinsic_dim": d_star, "horizon": horizon}
    shapes = thetas[:1] if d_star == 1 else thetas  # all the same then
    return {theta: {**common, "theta": theta} for theta in shapes}


def _family(
    alpha: float, horizon: int, gaps: Sequence[float], hardest: float, shortest: int
) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for g in gaps:
        for name, level in (("easy", hardest), ("hidden", alpha)):
            if shortest**level * SLACK >= 4.0:
                count = lower_bound_family(horizon, level).arms_count
                delta = min(g * math.sqrt(count / horizon), LARGEST_GAP)
                target = count if name == "hidden" else 0
                made[f"{name} x{g:g}"] = {
                    "kind": "lower_bound",
                    "horizon": horizon,
                    "alpha": level,
                    "delta": delta,
                    "target": target,
                }
    return made


def _size(horizon: int, hardest: float, dim: int | None, arms: int | None) -> dict[str, int]:
    if dim is None:
        dim = max(schedule(horizon, 0.5, horizon**2).dims[0], math.floor(horizon**hardest * SLACK))
    return {"arms": min(2 * dim, MOST_ARMS) if arms is None else arms, "dim": dim}


def _table(policy: Any) -> dict[str, Any]:
    if isinstance(policy, Policy):
        policy = {"kind": type(policy).__name__, **vars(policy)}
    elif hasattr(policy, "to_dict"):
        policy = policy.to_dict()
    return dict(policy)
