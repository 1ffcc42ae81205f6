"""What is run for the comparison: every policy of the library on one group of families, as a study."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from adadim.core.checks import one_of, suggestion
from adadim.core.problem import Problem
from adadim.errors import InvalidValueError, SetsWarning, StudyError
from adadim.experiments.comparison import families
from adadim.experiments.comparison.families import LATE, SPLITS, Split
from adadim.policies import (
    D3RB,
    ED2RB,
    MOSS,
    OSOM,
    UCB,
    ALBDim,
    ALBNorm,
    BanditCombiner,
    BoundBalancing,
    Corral,
    DynamicBalancing,
    EmpMOSSPlusPlus,
    EpochBalancing,
    EvidenceLinUCB,
    Greedy,
    LinTS,
    LinUCB,
    LinUCBPlusPlus,
    LinUCBPlusPlusCorral,
    MeDZO,
    ModCB,
    MOSSPlusPlus,
    ParallelMOSS,
    PrefixLinUCB,
    Random,
    RegretBalancing,
    RegretBalancingLinear,
    SmoothCorral,
    SupLinUCB,
    TaperedLinUCB,
    TsallisCorral,
    TwoPriorLinUCB,
    UCBCorral,
    kinds,
)
from adadim.policies.base import Policy
from adadim.policies.recommended import RECOMMENDED
from adadim.policies.released import ReleasedLinUCBPlusPlus
from adadim.study import Study, to_spec

__all__ = ["ORACLE", "PUBLISHED", "plays_contexts", "policies", "study", "takes_late_rewards"]

T = TypeVar("T")

ORACLE, PUBLISHED = "oracle", "linucb++"
"""The policies that all others are measured against: LinUCB told d*, and the paper's Algorithm 1."""

NOT_COMPARED = {
    "Single": "an adapter for policies of the reader's own, not a policy",
    "ReleasedLinUCB": "a base of the released Dynamic Balancing, of which the figures of the paper tell",
    "ReleasedDynamicBalancing": "the figures of the paper tell of it",
}
"""Policies of the library that the comparison does not run, and why."""

RECORDS = 10


def policies() -> dict[str, Any]:
    """Every policy of the library by the name it has in the comparison, as a `Study` takes them.

    Those of the paper are there as its text has them; of the released variants, LinUCB++ and the oracle. The oracle
    is told d* as ``"@intrinsic_dim"``. A policy that has no name here runs with its default parameters.

    Examples
    --------
    >>> list(policies())[:3]
    ['oracle', 'linucb++', 'recommended']
    """
    true_dim = {"dim": "@intrinsic_dim"}
    # Learners in some features use the arms supported on them; where the set is not expressive, those are all arms.
    base = LinUCB(only_supported=True)
    named: dict[str, Any] = {
        ORACLE: {**to_spec(LinUCB(dim=1)), **true_dim},
        PUBLISHED: LinUCBPlusPlus(),
        "recommended": RECOMMENDED,
        "evidence": EvidenceLinUCB(),
        "two-prior": TwoPriorLinUCB(),
        "prefix": PrefixLinUCB(),
        "prefix-thompson": PrefixLinUCB(rule="thompson"),
        "narrow-oracle": {**to_spec(LinUCB(dim=1, scale=0.35)), **true_dim},
        "tapered": TaperedLinUCB(),
        "linucb++reuse": LinUCBPlusPlus(reuse=True),
        "linucb": LinUCB(),
        "greedy": Greedy(),
        "lints": LinTS(),
        "linucb++corral": LinUCBPlusPlusCorral(),
        "smooth-corral": SmoothCorral(base=base),
        "corral": Corral(base=base),
        "dynamic-balancing": DynamicBalancing(base=base),
        "bound-balancing": BoundBalancing(base=base),
        "regret-balancing": RegretBalancing(base=base),
        "regret-balancing-linear": RegretBalancingLinear(),
        "d3rb": D3RB(base=base),
        "ed2rb": ED2RB(base=base),
        "bandit-combiner": BanditCombiner(base=base),
        "tsallis-corral": TsallisCorral(base=base),
        "ucb-corral": UCBCorral(base=base),
        "epoch-balancing": EpochBalancing(),
        "modcb": ModCB(),
        "osom": OSOM(),
        "alb-dim": ALBDim(),
        "alb-norm": ALBNorm(),
        "suplinucb": SupLinUCB(),
        "ucb": UCB(),
        "moss": MOSS(),
        "moss++": MOSSPlusPlus(),
        "emp-moss++": EmpMOSSPlusPlus(),
        "parallel-moss": ParallelMOSS(),
        "medzo": MeDZO(),
        "random": Random(),
        "linucb++released": ReleasedLinUCBPlusPlus(bonus="squared"),
        "oracle-released": {**to_spec(LinUCB(bonus="squared", dim=1)), **true_dim},
    }
    compared = {type(policy).__name__ for policy in named.values()} | NOT_COMPARED.keys()
    return named | {name: kind() for name, kind in kinds().items() if name not in compared}


def study(
    split: Split,
    trials: int = 20,
    seed: int = 0,
    policy: Sequence[str] | None = None,
    family: Sequence[str] | None = None,
    candidates: Mapping[str, Any] | None = None,
    plugins: Mapping[str, Any] | None = None,
) -> Study:
    """The comparison on one group of families, as a study.

    Parameters
    ----------
    split : str
        Which families, one of `SPLITS`. In the two of "contexts" features come with each round, in the two of "late"
        rewards come late, in the two of "everyday" both happen, and the policies are those that can play so; where
        only some families have features that come with each round, some policies play the others alone.
    trials, seed
        As in `Study`.
    policy : sequence of str, optional
        Keys of `policies` to run; by default all. The references are always among them.
    family : sequence of str, optional
        Names of families of that split to run on; by default all.
    candidates : mapping, optional
        Further policies by name, as a `Study` takes them; "@intrinsic_dim" stands for d*, which a fair one is not told.
    plugins : mapping, optional
        As in `Study`, for candidates of the user's own.

    Examples
    --------
    >>> plan = study("development", trials=3, policy=["tapered"], family=["lower-bound-1/50"])
    >>> [cell.policy for cell in plan.cells]
    ['oracle', 'linucb++', 'tapered']
    """
    one_of(split, "split", SPLITS)
    known = policies()
    chosen = _chosen({f.name: f for f in families.FAMILIES if f.split == split}, family, "family")
    fixed = [f.name for f in chosen.values() if not f.contextual]
    available, needs = known, []
    if split in LATE:
        needs.append((takes_late_rewards, "rewards come late"))
    if not fixed:
        needs.append((plays_contexts, "features come with each round"))
    for can_play, where in needs:
        available = {name: p for name, p in available.items() if can_play(p)}
        for name in policy or ():
            if name in known and name not in available:
                raise StudyError(f"policy: {name!r} cannot play where {where}")
    wanted = None if policy is None else {ORACLE, PUBLISHED, *policy} & ({*available, *policy})
    for name in candidates or {}:
        if name in known:
            raise StudyError(f"candidates.{name}: there is a policy of that name already; give it another")
    compared = _chosen(available, wanted, "policy")
    mixed = 0 < len(fixed) < len(chosen)
    return Study(
        name=f"regret-{split}",
        instances={name: f.instance for name, f in chosen.items()},
        policies=compared | dict(candidates or {}),
        trials=trials,
        seed=seed,
        record=RECORDS,
        only={name: fixed for name, p in compared.items() if mixed and not plays_contexts(p)},
        plugins=plugins or {},
        labels={"experiment": "comparison", "split": split},
    )


def plays_contexts(policy: Any) -> bool:
    """Whether a policy can play where features come with each round.

    Examples
    --------
    >>> plays_contexts(LinUCB()), plays_contexts(UCB())
    (True, False)
    """
    if not isinstance(policy, Policy):  # a table, of LinUCB that is told d*
        return True
    try:
        policy.start(Problem(arms=4, dim=4, horizon=100, noise=0.1, reward_range=1.0))
    except InvalidValueError:
        return False
    return True


def takes_late_rewards(policy: Any) -> bool:
    """Whether a policy can play where rewards come late.

    Examples
    --------
    >>> takes_late_rewards(LinUCB()), takes_late_rewards(LinUCBPlusPlus())
    (True, False)
    """
    if not isinstance(policy, Policy):  # a table, of LinUCB that is told d*
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SetsWarning)  # nothing is played
        return policy.start(Problem(np.eye(4), horizon=100, noise=0.1, reward_range=1.0)).takes_late_rewards


def _chosen(table: dict[str, T], names: Collection[str] | None, what: str) -> dict[str, T]:
    for name in names or ():
        if name not in table:
            raise StudyError(f"{what}: none is called {name!r}; {suggestion(name, table)}")
    return {name: value for name, value in table.items() if names is None or name in names}
