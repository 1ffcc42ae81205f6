"""The lower bound as an experiment: no policy does well on the easy problem and on all the hard ones.

A policy meets the family behind Theorem 1 (appendix A): theta_0, where arm a_0 is best, and theta_1..theta_Kl, each of
which hides one better arm. What follows from its regrets is in `adadim.experiments.tradeoff.bound_checks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adadim.checks import integer, require
from adadim.policies import UCB, Greedy, LinUCB, LinUCBPlusPlus, Policy, Random, SmoothCorral
from adadim.study import Study
from adadim.theory import lower_bound_family

__all__ = ["TARGETS", "default_deltas", "lower_bound_study"]

DELTAS = 7
LARGEST = 0.8  # norms of theta stay below 1
TARGETS = 16


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
