"""Instances and policies as data: a kind and its parameters."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from adadim.policies.base import Policy
from adadim.problem import Instance
from adadim.study.kinds import Generator, Plugins, StudyError, policy_kinds, source_digest, suggestion

__all__ = ["InstanceSpec", "PolicySpec", "from_spec", "identity", "to_spec"]

# What a study decides for all of its instances at once.
SUPPLIED = ("replications", "seed")

MISSING = inspect.Parameter.empty


@dataclass(frozen=True)
class _Spec:
    kind: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", {key: _frozen(value) for key, value in self.params.items()})

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], where: str) -> Self:
        """Read a table whose key `kind` says what the other keys are parameters of."""
        if not isinstance(table, Mapping):
            raise StudyError(f"{where}: expected a table with the key 'kind', got {table!r}")
        if not isinstance(table.get("kind"), str):
            raise StudyError(f"{where}: the key 'kind' is missing; it names what this is, e.g. kind = \"LinUCB\"")
        return cls(table["kind"], {key: value for key, value in table.items() if key != "kind"})

    def to_dict(self) -> dict[str, Any]:
        """The table that `from_dict` reads."""
        return {"kind": self.kind, **{key: _thawed(value) for key, value in self.params.items()}}


class InstanceSpec(_Spec):
    """An instance generator and its parameters, except `replications` and `seed`, which the study sets.

    Parameters
    ----------
    kind : str
        Name of a generator in `adadim.instances`, or of a plugin.
    params : mapping
        Its keyword arguments.

    Examples
    --------
    >>> InstanceSpec("sphere", {"arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}).to_dict()
    {'kind': 'sphere', 'arms': 20, 'dim': 6, 'intrinsic_dim': 2, 'horizon': 60}
    """

    def defaults(self, kinds: Mapping[str, Generator], where: str) -> dict[str, Any]:
        """Parameters of the kind that have a default."""
        return {key: value for key, value in self._accepted(kinds, where).items() if value is not MISSING}

    def complete(self, kinds: Mapping[str, Generator], where: str) -> dict[str, Any]:
        """All parameters, defaults included; raises if the kind or a key is unknown, or a key is missing."""
        accepted = self._accepted(kinds, where)
        for key in SUPPLIED:
            if key in self.params:
                raise StudyError(f"{where}.{key}: the study sets this for all instances; use its keys trials and seed")
        _check_keys(self, accepted, [key for key, default in accepted.items() if default is MISSING], where)
        return {**accepted, **self.params}

    def _accepted(self, kinds: Mapping[str, Generator], where: str) -> dict[str, Any]:
        if self.kind not in kinds:
            raise StudyError(f"{where}.kind: no instances of kind {self.kind!r}; {suggestion(self.kind, kinds)}")
        accepted = inspect.signature(kinds[self.kind]).parameters.values()
        return {p.name: p.default for p in accepted if p.name not in SUPPLIED}

    @staticmethod
    def make(generator: Generator, params: Mapping[str, Any], replications: Iterable[int], seed: int) -> Instance:
        """Build the given replications; a generator without `seed` has nothing to draw."""
        seeded = {"seed": seed} if "seed" in inspect.signature(generator).parameters else {}
        return generator(**params, **seeded, replications=tuple(replications))


class PolicySpec(_Spec):
    """A policy class and its hyper-parameters; what is not given takes the default.

    A value such as ``"@intrinsic_dim"`` stands for that parameter of the instance the policy meets. Values may be
    specs themselves, alone or in sequences: the bases of a master.

    Parameters
    ----------
    kind : str
        Name of a public policy of `adadim.policies`, or of a plugin.
    params : mapping
        Its hyper-parameters.

    Examples
    --------
    >>> oracle = PolicySpec("LinUCB", {"dim": "@intrinsic_dim"})
    >>> oracle.build(policy_kinds(), "policies.oracle", {"intrinsic_dim": 4}).dim
    4
    """

    @classmethod
    def of(cls, policy: Policy) -> PolicySpec:
        """Spec of a policy object: its hyper-parameters that differ from the defaults."""
        given = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy) if f.init}
        defaults = _defaults(type(policy))
        kept = {key: value for key, value in given.items() if key not in defaults or not _same(value, defaults[key])}
        return cls(type(policy).__name__, kept)

    def build(
        self, kinds: Mapping[str, type[Policy]], where: str, parameters: Mapping[str, Any] | None = None
    ) -> Policy:
        """Make the policy object; `parameters` of the instance replace values that start with @."""
        chosen, defaults = self._chosen(kinds, where), self.defaults(kinds, where)
        names = [f.name for f in dataclasses.fields(chosen) if f.init]
        _check_keys(self, names, [name for name in names if name not in defaults], where)
        values = {key: _built(value, kinds, f"{where}.{key}", parameters) for key, value in self.params.items()}
        try:
            return chosen(**values)
        except (TypeError, ValueError) as error:
            given = ", ".join(f"{key}={value!r}" for key, value in values.items())
            raise StudyError(f"{where}: {self.kind}({given}) is not possible: {error}") from error

    def defaults(self, kinds: Mapping[str, type[Policy]], where: str) -> dict[str, Any]:
        """Hyper-parameters of the kind that have a default."""
        return _defaults(self._chosen(kinds, where))

    def _chosen(self, kinds: Mapping[str, type[Policy]], where: str) -> type[Policy]:
        if self.kind not in kinds:
            raise StudyError(f"{where}.kind: no policy {self.kind!r}; {suggestion(self.kind, kinds)}")
        return kinds[self.kind]


def to_spec(policy: Policy) -> dict[str, Any]:
    """Policy as a table: its kind and all hyper-parameters, those left at their default included.

    Examples
    --------
    >>> import adadim
    >>> to_spec(adadim.Greedy(dim=3))
    {'kind': 'Greedy', 'ridge': 0.1, 'dim': 3, 'ties': 'random'}
    """
    if not isinstance(policy, Policy):
        raise StudyError(f"expected a policy such as LinUCB(), got {policy!r}")
    values = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy) if f.init}
    return {"kind": type(policy).__name__, **{key: _table(value) for key, value in values.items()}}


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
    return PolicySpec.from_dict(table, "policy").build(policy_kinds(plugins), "policy")


def identity(value: Any, where: str) -> Any:
    """What decides a result, as plain JSON: equal values give equal text, whoever wrote them and how.

    Code that is not adadim's counts with its source, see `source_digest`.

    Examples
    --------
    >>> import adadim
    >>> identity(adadim.Greedy(ridge=1), "here") == identity(adadim.Greedy(ridge=1.0), "here")
    True
    """
    if isinstance(value, Policy):
        kind = type(value)
        values = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        params = {key: identity(item, f"{where}.{key}") for key, item in values.items()}
        own = {} if policy_kinds().get(kind.__name__) is kind else {"source": source_digest(kind)}
        return {"kind": kind.__name__, "params": params, **own}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return [identity(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): identity(item, f"{where}.{key}") for key, item in value.items()}
    if hasattr(value, "tolist"):
        return identity(value.tolist(), where)
    if callable(value) and hasattr(value, "__qualname__"):
        return {"kind": value.__qualname__, "source": source_digest(value)}
    raise StudyError(
        f"{where}: results are filed by the values of the hyper-parameters, and {value!r} has none that can be "
        "written down; use numbers, strings, sequences, policies or functions"
    )


def drop_none(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters without those that are None by default too: TOML has no None."""
    return {key: value for key, value in params.items() if value is not None or defaults.get(key, 0) is not None}


def _check_keys(spec: _Spec, known: Iterable[str], required: Iterable[str], where: str) -> None:
    known = list(known)
    for key in spec.params:
        if key not in known:
            raise StudyError(f"{where}.{key}: {spec.kind} has no parameter {key!r}; {suggestion(key, known)}")
    for key in required:
        if key not in spec.params:
            raise StudyError(f"{where}.{key}: missing; {spec.kind} has no default for it")


def _defaults(kind: type[Policy]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in dataclasses.fields(kind):
        if entry.default is not dataclasses.MISSING:
            found[entry.name] = entry.default
        elif entry.default_factory is not dataclasses.MISSING:
            found[entry.name] = entry.default_factory()
    return found


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _frozen(value: Any) -> Any:
    """`value` with policies and tables as specs, and arrays and lists as tuples."""
    if isinstance(value, Policy):
        return PolicySpec.of(value)
    if isinstance(value, Mapping):
        return PolicySpec.from_dict(value, "policy") if "kind" in value else {k: _frozen(v) for k, v in value.items()}
    if isinstance(value, list | tuple | range):
        return tuple(_frozen(item) for item in value)
    return _frozen(value.tolist()) if hasattr(value, "tolist") else value


def _thawed(value: Any) -> Any:
    if isinstance(value, _Spec):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _thawed(item) for key, item in value.items()}
    return [_thawed(item) for item in value] if isinstance(value, tuple) else value


def _table(value: Any) -> Any:
    if isinstance(value, Policy):
        return to_spec(value)
    if isinstance(value, list | tuple):
        return [_table(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _built(value: Any, kinds: Mapping[str, type[Policy]], where: str, parameters: Mapping[str, Any] | None) -> Any:
    """`value` with specs as policies and @names filled in."""
    if isinstance(value, PolicySpec):
        return value.build(kinds, where, parameters)
    if isinstance(value, tuple):
        return tuple(_built(item, kinds, f"{where}[{i}]", parameters) for i, item in enumerate(value))
    if isinstance(value, str) and value.startswith("@"):
        if parameters is None:
            raise StudyError(f"{where}: {value!r} stands for a parameter of an instance, and there is none here")
        if value[1:] not in parameters:
            raise StudyError(
                f"{where}: {value!r} stands for a parameter that the instance does not have; "
                f"{suggestion(value[1:], parameters)}"
            )
        return parameters[value[1:]]
    return value
