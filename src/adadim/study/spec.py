"""What to run: a study is instances x policies x replications, recorded at some rounds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from adadim.policies.base import Policy
from adadim.problem import Instance
from adadim.randomness import check_seed
from adadim.simulate import RECORDS, record_points
from adadim.study import toml
from adadim.study.cells import FORMAT, Cell
from adadim.study.kinds import (
    Generator,
    Plugins,
    StudyError,
    check_plugins,
    instance_kinds,
    policy_kinds,
    source_digest,
    suggestion,
)
from adadim.study.parts import InstanceSpec, PolicySpec, drop_none, identity

__all__ = ["Study"]

PROBE_ARMS = 2


@dataclass(frozen=True)
class Study:
    """Which policies to run on which instances, how often, and when to look.

    Everything is checked on construction; a `StudyError` names the key that is wrong and what would be right.

    Parameters
    ----------
    name : str
        What the study is called; a results folder holds the results of one.
    instances : mapping
        Name to `InstanceSpec`, or to a table such as ``{"kind": "sphere", "arms": 20, ...}``.
    policies : mapping
        Name to `PolicySpec`, to a policy object, or to a table such as ``{"kind": "LinUCB", "dim": 3}``. In
        tables ``"@intrinsic_dim"`` stands for that parameter of the instance.
    trials : int
        Number of replications; they are numbered from 0.
    seed : int
        Seed of instances, noise and policies.
    record : int or sequence of int
        Rounds at which the regret is recorded, as in `adadim.simulate`.
    only : mapping, optional
        Policy name to the instances it runs on, for policies that do not run on all.
    plugins : mapping, optional
        Policies and instance generators of your own that tables name, see `load_plugin`. Classes of policy objects
        need not be repeated here.

    Attributes
    ----------
    cells : tuple of Cell
        Every policy on every instance.

    Examples
    --------
    >>> import adadim
    >>> study = Study(
    ...     name="small",
    ...     instances={"easy": {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}},
    ...     policies={"LinUCB": adadim.LinUCB(), "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"}},
    ...     trials=4,
    ... )
    >>> [cell.agent.dim for cell in study.cells]
    [None, 2]
    >>> import tomllib
    >>> Study.from_dict(tomllib.loads(study.to_toml())) == study
    True
    """

    name: str
    instances: Mapping[str, Any]
    policies: Mapping[str, Any]
    trials: int
    seed: int = 0
    record: int | Sequence[int] = RECORDS
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    plugins: Plugins = field(default_factory=dict, repr=False)
    cells: tuple[Cell, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise StudyError(f"name: must be a non-empty string, got {self.name!r}")
        if isinstance(self.trials, bool) or not isinstance(self.trials, int | np.integer) or self.trials < 1:
            raise StudyError(f"trials: must be an integer of at least 1, got {self.trials!r}")
        try:
            check_seed(self.seed)
        except ValueError as error:
            raise StudyError(f"seed: {error}") from error
        for key in ("instances", "policies"):
            _check_names(getattr(self, key), key)
        own = dict(self.plugins)
        for kind in _classes(self.policies):
            if own.setdefault(kind.__name__, kind) is not kind:
                raise StudyError(f"policies: two different classes are called {kind.__name__}; rename one of them")
        check_plugins(own)
        change = object.__setattr__
        change(self, "trials", int(self.trials))
        change(self, "seed", int(self.seed))
        change(self, "plugins", own)
        change(self, "instances", {n: _as_instance(v, f"instances.{n}", own) for n, v in self.instances.items()})
        change(self, "policies", {n: _as_policy(v, f"policies.{n}", own) for n, v in self.policies.items()})
        if isinstance(self.record, int | np.integer):
            change(self, "record", int(self.record))
        else:
            change(self, "record", _as_tuple(self.record, "record"))
        change(self, "only", _check_only(self.only, self.instances, self.policies))
        change(self, "cells", tuple(self._cells()))

    @classmethod
    def from_toml(cls, path: str | Path, plugins: Plugins | None = None) -> Study:
        """Read a study from a TOML file; this runs no code (`load_plugin` is what does).

        Parameters
        ----------
        path : path
            File with the keys `name` (by default the name of the file), `trials`, `seed`, `record`, a table
            ``[instances.NAME]`` and ``[policies.NAME]`` for each, with the key `kind`, and optionally ``[only]``.
        plugins : mapping, optional
            Policies and generators of your own that the file names.
        """
        file = Path(path)
        table = toml.read(file)
        try:
            return cls.from_dict({"name": file.stem, **table}, plugins)
        except StudyError as error:
            raise StudyError(f"{file}: {error}") from error

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], plugins: Plugins | None = None) -> Study:
        """Study from nested tables, as TOML or JSON give them."""
        entries = [f for f in dataclasses.fields(cls) if f.init and f.name != "plugins"]
        for key in table:
            if key not in [f.name for f in entries]:
                raise StudyError(f"{key}: a study has no such key; {suggestion(key, [f.name for f in entries])}")
        for entry in entries[:4]:
            if entry.name not in table:
                raise StudyError(f"{entry.name}: missing; a study needs name, instances, policies and trials")
        return cls(**table, plugins=plugins or {})

    def to_dict(self) -> dict[str, Any]:
        """The tables that `from_dict` reads."""
        parts: dict[str, Any] = {"name": self.name, "trials": self.trials, "seed": self.seed}
        parts["record"] = self.record if isinstance(self.record, int) else list(self.record)
        if self.only:
            parts["only"] = {name: list(where) for name, where in self.only.items()}
        for key in ("instances", "policies"):
            parts[key] = {name: spec.to_dict() for name, spec in getattr(self, key).items()}
        return parts

    def to_toml(self) -> str:
        """The study as a TOML document, which `from_toml` reads back."""
        return toml.dumps(self.to_dict())

    def _cells(self) -> Iterator[Cell]:
        generators, kinds = instance_kinds(self.plugins), policy_kinds(self.plugins)
        for name, spec in self.instances.items():
            where, generator = f"instances.{name}", generators[spec.kind]
            params = spec.complete(generators, where)
            probe, arms = _probe(generator, params, self.seed, where)
            written = {"kind": spec.kind, "params": identity(params, where)}
            if spec.kind in self.plugins:
                written["source"] = source_digest(generator)
            horizon = probe.problem.horizon
            try:
                times = tuple(record_points(self.record, horizon).tolist())
            except ValueError as error:
                raise StudyError(f"record: {error}, on instance {name!r}") from error
            for policy, chosen in self.policies.items():
                if name not in self.only.get(policy, self.instances):
                    continue
                agent = chosen.build(kinds, f"policies.{policy}", params)
                whole = {
                    "format": FORMAT,
                    "instance": written,
                    "policy": identity(agent, f"policies.{policy}"),
                    "seed": self.seed,
                    "times": list(times),
                }
                digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:20]
                size = (arms, probe.problem.dim, horizon)
                cell = Cell(digest, name, policy, whole, agent, times, self.seed, *size, generator, params)
                _check_start(cell, probe)
                yield cell


def _probe(generator: Generator, params: Mapping[str, Any], seed: int, where: str) -> tuple[Instance, int]:
    """Build one replication with few arms, which shows whether the parameters fit; also the real number of arms."""
    wanted = params.get("arms")
    small = wanted
    if isinstance(wanted, int) and wanted > PROBE_ARMS:
        small = PROBE_ARMS
    reduced = {**params, "arms": small} if "arms" in params else params
    try:
        instance = InstanceSpec.make(generator, reduced, [0], seed)
    except (TypeError, ValueError) as error:
        raise StudyError(f"{where}: {error}") from error
    if not isinstance(instance, Instance):
        raise StudyError(f"{where}: {generator.__name__} must return an adadim.Instance, got {instance!r}")
    grown = wanted // small if isinstance(wanted, int) and isinstance(small, int) else 1
    return instance, instance.problem.arms * grown


def _check_start(cell: Cell, probe: Instance) -> None:
    """Raise unless the policy accepts the problem (features it lacks, for one)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cell.agent.start(probe.problem)
        except Exception:  # perhaps only because the probe has few arms
            try:
                cell.agent.start(cell.make([0]).problem)
            except Exception as error:
                raise StudyError(f"policies.{cell.policy}: cannot run on instances.{cell.instance}: {error}") from error


def _check_names(table: Mapping[str, Any], key: str) -> None:
    if not isinstance(table, Mapping) or not table:
        raise StudyError(f"{key}: must be a non-empty table of names, e.g. [{key}.mine] in TOML, got {table!r}")
    for name in table:
        if not isinstance(name, str) or not name.strip():
            raise StudyError(f"{key}: names must be non-empty strings, got {name!r}")


def _check_only(
    only: Mapping[str, Sequence[str]], instances: Mapping[str, Any], policies: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    if not isinstance(only, Mapping):
        raise StudyError(f"only: must be a table of policy = [instances], got {only!r}")
    for policy, names in only.items():
        if policy not in policies:
            raise StudyError(f"only.{policy}: there is no such policy; {suggestion(str(policy), policies)}")
        for name in _as_tuple(names, f"only.{policy}"):
            if name not in instances:
                raise StudyError(f"only.{policy}: no instance {name!r}; {suggestion(str(name), instances)}")
    return {policy: tuple(names) for policy, names in only.items()}


def _as_tuple(values: Any, where: str) -> tuple[Any, ...]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise StudyError(f"{where}: must be a non-empty list, got {values!r}")
    return tuple(values)


def _as_instance(value: Any, where: str, plugins: Plugins) -> InstanceSpec:
    spec = value if isinstance(value, InstanceSpec) else InstanceSpec.from_dict(value, where)
    return InstanceSpec(spec.kind, drop_none(spec.params, spec.defaults(instance_kinds(plugins), where)))


def _as_policy(value: Any, where: str, plugins: Plugins) -> PolicySpec:
    if isinstance(value, Policy):
        return PolicySpec.of(value)
    spec = value if isinstance(value, PolicySpec) else PolicySpec.from_dict(value, where)
    return PolicySpec(spec.kind, drop_none(spec.params, spec.defaults(policy_kinds(plugins), where)))


def _classes(value: Any) -> Iterator[type[Policy]]:
    """Classes of the policy objects in `value` that are not adadim's own."""
    if isinstance(value, Policy):
        if policy_kinds().get(type(value).__name__) is not type(value):
            yield type(value)
        value = [getattr(value, f.name) for f in dataclasses.fields(value)]
    if isinstance(value, PolicySpec):
        value = value.params
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _classes(item)
