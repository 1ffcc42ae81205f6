"""What is run for the comparison: every policy of the library on one group of families, as a study."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from adadim import policies as library
from adadim.core.checks import one_of, suggestion
from adadim.core.problem import Problem
from adadim.errors import InvalidValueError, SetsWarning, StudyError
from adadim.experiments.comparison import families
from adadim.experiments.comparison.families import LATE, SPLITS, Split
from adadim.policies.base import Policy
from adadim.policies.masters.base import Master
from adadim.policies.names import TRUE_DIM, with_kind
from adadim.study import Study, from_spec, to_spec

T = TypeVar("T")

ORACLE, PUBLISHED = "oracle", "linucb++"
"""The references, which all other policies are compared with: LinUCB told d*, and the paper's Algorithm 1."""
COMPARED = (
    f"{ORACLE} {PUBLISHED} recommended evidence two-prior prefix prefix-thompson narrow-oracle tapered linucb++reuse "
    "linucb greedy lints linucb++corral smooth-corral corral dynamic-balancing bound-balancing regret-balancing "
    "regret-balancing-linear d3rb ed2rb bandit-combiner tsallis-corral ucb-corral epoch-balancing modcb osom alb-dim "
    "alb-norm suplinucb ucb moss moss++ emp-moss++ medzo random linucb++released oracle-released"
).split()
"""Policies in the order of the comparison, by names that `policies.names` knows."""
NOT_COMPARED = {
    "Single": "an adapter for policies of the reader's own, not a policy",
    "ReleasedLinUCB": "a base of the released Dynamic Balancing, which is in the figures of the paper",
    "ReleasedDynamicBalancing": "it is in the figures of the paper",
    "LinMED": "added after its runs",
    "PriorThompson": "added after its runs",
    "PriorElimination": "added after its runs",
    "PriorBalancing": "added after its runs",
    "FeelGood": "added after its runs",
    "RadiusMixture": "added after its runs",
    "RadiusExp3": "added after its runs",
    "ALEXP": "added after its runs",
    "IDS": "added after its runs",
    "MaxRatio": "added after its runs",
    "ParallelMOSS": "it must be told the mean of a best arm, which is another in every replication of a family",
}
"""Policies of the library that the comparison does not run, and why."""


def policies() -> dict[str, Any]:
    """Every policy of the library by the name it has in the comparison, as a `Study` takes them.

    Those of the paper are there as its text has them; of the released variants, LinUCB++ and the oracle. The oracle
    is told d* as ``"@intrinsic_dim"``. A policy that has no name here runs with its default parameters.

    Examples
    --------
    >>> list(policies())[:3]
    ['oracle', 'linucb++', 'recommended']
    """
    kinds = library.kinds()
    named = {name: _policy_of_table(with_kind({"kind": name}, kinds)) for name in COMPARED}
    compared = {type(policy).__name__ for policy in named.values()} | NOT_COMPARED.keys()
    return named | {name: kind() for name, kind in kinds.items() if name not in compared}


def _policy_of_table(table: Mapping[str, Any]) -> Any:
    """The policy that a table describes, or the whole table where it is told d*."""
    if table.get("dim") == TRUE_DIM:
        return {**to_spec(from_spec({**table, "dim": 1})), "dim": TRUE_DIM}
    policy = from_spec(table)
    # Learners in some features use the arms supported on them; where the set is not expressive, those are all arms.
    return replace(policy, base=library.LinUCB(only_supported=True)) if isinstance(policy, Master) else policy


def study(
    split: Split,
    trials: int = 20,
    seed: int = 0,
    policy: Sequence[str] | None = None,
    family: Sequence[str] | None = None,
    candidates: Mapping[str, Any] | None = None,
    plugins: Mapping[str, Any] | None = None,
) -> Study:
    """The comparison on one group of families, as a study; trials, seed and plugins are as there.

    Parameters
    ----------
    split : str
        Which families, one of `SPLITS`. In the two of "contexts" features come with each round, in the two of "late"
        rewards come late, in the two of "everyday" both happen, and the policies are those that can play so; where
        only some families have features that come with each round, some policies play the others alone.
    policy, family : sequence of str, optional
        Keys of `policies` to run, the references always among them, and families of that split; by default all.
    candidates : mapping, optional
        Further policies by name, as a `Study` takes them; "@intrinsic_dim" stands for d*, which a fair one is not told.

    Examples
    --------
    >>> plan = study("development", trials=3, policy=["tapered"], family=["lower-bound-1/50"])
    >>> [cell.policy for cell in plan.cells]
    ['oracle', 'linucb++', 'tapered']
    """
    one_of(split, "split", SPLITS)
    every = policies()
    policy = None if policy is None else [_key_of(name, every) for name in policy]
    chosen = _chosen({f.name: f for f in families.FAMILIES if f.split == split}, family, "family")
    fixed = [f.name for f in chosen.values() if not f.contextual]
    available, needs = every, []
    if split in LATE:
        needs.append((takes_late_rewards, "rewards come late"))
    if not fixed:
        needs.append((plays_contexts, "features come with each round"))
    for can_play, where in needs:
        available = {name: p for name, p in available.items() if can_play(p)}
        for name in policy or ():
            if name in every and name not in available:
                raise StudyError(f"policy: {name!r} cannot play where {where}")
    wanted = None if policy is None else {ORACLE, PUBLISHED, *policy} & ({*available, *policy})
    for name in candidates or {}:
        if name in every:
            raise StudyError(f"candidates.{name}: there is a policy of that name already; give it another")
    compared = _chosen(available, wanted, "policy")
    mixed = 0 < len(fixed) < len(chosen)
    return Study(
        name=f"regret-{split}",
        instances={name: f.instance for name, f in chosen.items()},
        policies=compared | dict(candidates or {}),
        trials=trials,
        seed=seed,
        record=10,
        only={name: fixed for name, p in compared.items() if mixed and not plays_contexts(p)},
        plugins=plugins or {},
        labels={"experiment": "comparison", "split": split},
    )


def plays_contexts(policy: Any) -> bool:
    """Whether a policy can play where features come with each round; a table is that of LinUCB told d*, which can."""
    try:
        if isinstance(policy, Policy):
            policy.start(Problem(arms=4, dim=4, horizon=100, noise=0.1, reward_range=1.0))
    except InvalidValueError:
        return False
    return True


def takes_late_rewards(policy: Any) -> bool:
    """Whether a policy can play where rewards come late; a table is that of LinUCB told d*, which can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SetsWarning)  # nothing is played
        problem = Problem(np.eye(4), horizon=100, noise=0.1, reward_range=1.0)
        return not isinstance(policy, Policy) or policy.start(problem).takes_late_rewards


def _key_of(name: str, keys: Collection[str]) -> str:
    """The comparison's name of a policy that may be named otherwise, by its kind or as in other figures."""
    if name in keys:
        return name
    kinds = library.kinds()
    table = with_kind({"kind": name}, kinds)
    return next((key for key in keys if with_kind({"kind": key}, kinds) == table), name)


def _chosen(table: dict[str, T], names: Collection[str] | None, what: str) -> dict[str, T]:
    for name in names or ():
        if name not in table:
            raise StudyError(f"{what}: none is called {name!r}; {suggestion(name, table)}")
    return {name: value for name, value in table.items() if names is None or name in names}
