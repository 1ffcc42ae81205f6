"""Policies and instances as tables: a kind and its parameters, as TOML and JSON have them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from adadim import codec
from adadim.checks import shown
from adadim.errors import StudyError
from adadim.instances.delay import Delay
from adadim.instances.instance import Instance
from adadim.policies import parts
from adadim.policies.base import Policy
from adadim.study.kinds import Generator, Plugins, instance_kinds, policy_kinds

__all__ = [
    "all_parameters",
    "build_policy",
    "filed_parameters",
    "from_spec",
    "instance_table",
    "make_instance",
    "policy_table",
    "to_spec",
]

Table = dict[str, Any]

# Parameters that generators have had since later than results have been filed: at these values they are not named, so
# that results of before are found again.
LATER: Mapping[str, Any] = {"delay": None, "rewards": "gaussian"}

# What a study decides for all of its instances at once.
SUPPLIED = ("replications", "seed")


def to_spec(policy: Policy) -> Table:
    """Policy as a table: its kind and all hyper-parameters, those left at their default included.

    Examples
    --------
    >>> import adadim
    >>> to_spec(adadim.Greedy(dim=3))
    {'kind': 'Greedy', 'ridge': 0.1, 'dim': 3, 'ties': 'random'}
    """
    if not isinstance(policy, Policy):
        raise StudyError(f"expected a policy such as LinUCB(), got {shown(policy)}")
    return codec.to_table(policy)


def from_spec(table: Mapping[str, Any], plugins: Plugins | None = None) -> Policy:
    """Policy that a table describes; keys left out take their defaults.

    Examples
    --------
    >>> import adadim
    >>> from_spec(to_spec(adadim.LinUCB(dim=3))) == adadim.LinUCB(dim=3)
    True
    >>> from_spec({"kind": "LinUCB", "rigde": 1.0})
    Traceback (most recent call last):
    adadim.errors.StudyError: policy.rigde: LinUCB has no parameter 'rigde'; did you mean 'ridge'?
    """
    return build_policy(table, "policy", plugins)


def build_policy(
    table: Mapping[str, Any], where: str, plugins: Plugins | None, parameters: Mapping[str, Any] | None = None
) -> Policy:
    """Policy that a table describes; `parameters` of an instance replace values that start with @."""
    kinds = {**policy_kinds(plugins), **parts()}
    policy: Policy = codec.from_table(table, kinds, where, parameters, error=StudyError)
    if not isinstance(policy, Policy):
        raise StudyError(f"{where}.kind: {table['kind']!r} is a part of policies, not a policy")
    return policy


def policy_table(value: Any, where: str, plugins: Plugins) -> Table:
    """Table of a policy given as an object or as a table; hyper-parameters that were not given are left out."""
    kinds = policy_kinds(plugins)
    table: Table = codec.without_none(codec.plain(value, defaults=False), {**kinds, **parts()})
    codec.check_table(table, kinds, where, error=StudyError)
    return table


def instance_table(value: Any, where: str, plugins: Plugins) -> Table:
    """Table of an instance, checked: its kind is known, and its keys are those that the kind takes."""
    kinds = instance_kinds(plugins)
    table: Table = codec.without_none(codec.plain(value), {**kinds, "Delay": Delay})
    for key in SUPPLIED:
        if isinstance(table, Mapping) and key in table:
            raise StudyError(f"{where}.{key}: the study sets this for all instances; use its keys trials and seed")
    codec.check_table(table, kinds, where, noun="instances of kind", reserved=SUPPLIED, error=StudyError)
    return table


def all_parameters(table: Mapping[str, Any], generator: Generator) -> dict[str, Any]:
    """Parameters of an instance that its table gives, and the defaults of the others."""
    defaults = {key: value for key, value in codec.parameters_of(generator).items() if key not in SUPPLIED}
    return {**defaults, **{key: value for key, value in table.items() if key != "kind"}}


def filed_parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an instance by which its results are filed, from all of them."""
    return {key: value for key, value in params.items() if key not in LATER or value != LATER[key]}


def make_instance(generator: Generator, params: Mapping[str, Any], replications: Iterable[int], seed: int) -> Instance:
    """Build the given replications; a generator without `seed` has nothing to draw."""
    seeded = {"seed": seed} if "seed" in inspect.signature(generator).parameters else {}
    made: Instance = generator(**params, **seeded, replications=tuple(replications))
    return made
