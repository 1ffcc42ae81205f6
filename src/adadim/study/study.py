"""What to run: a study is instances x policies x replications, recorded at some rounds."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from adadim.core import codec
from adadim.core.checks import check_fits, file_name, integer, is_integer, printable, require, shown, suggestion
from adadim.core.codec import Kinds
from adadim.core.display import html_table
from adadim.core.randomness import check_seed
from adadim.errors import StudyError
from adadim.play.simulate import RECORDED_ROUNDS, record_points
from adadim.policies.base import Policy
from adadim.study.cells import FORMAT, MAX_INTEGER, Cell, Probe, build_probe, check_starts, digest
from adadim.study.kinds import (
    SUPPLIED,
    Factory,
    build_policy,
    check_plugins,
    instance_identity,
    instance_kinds,
    instance_table,
    policy_kinds,
    policy_table,
    result_identity,
    study_errors,
)

MAX_POINTS = 1_000_000  # of record


@dataclass(frozen=True)
class Study:
    """Which policies to run on which instances, how often, and at which rounds to record the regret.

    Construction checks what can be checked without running anything: names, kinds, keys, hyper-parameters. `check` also
    builds a small instance of each kind and starts the policies on it. Either raises a `StudyError` that names the key
    that is wrong and what would be right.

    Parameters
    ----------
    name : str
        What the study is called; a results folder holds the results of one.
    instances : mapping
        Name to a table such as ``{"kind": "sphere", "arms": 20, ...}``: a generator and its parameters, except
        `replications` and `seed`, which the study sets.
    policies : mapping
        Name to a policy object, or to a table such as ``{"kind": "LinUCB", "dim": 3}``, where hyper-parameters that are
        not given take their default. In tables ``"@intrinsic_dim"`` stands for that parameter of the instance, and a
        value may be a table itself, alone or in a list: the bases of a master.
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
    labels : mapping, optional
        What a reader of the results should know about them, as tables, lists, numbers, strings and booleans. It is kept
        with the results and decides none of them: changing it recomputes nothing. By convention
        ``labels["instances"][name]`` describes an instance.

    Attributes
    ----------
    instances, policies : dict
        All as tables.
    cells : tuple of Cell
        Every policy on every instance; asking for them builds a small instance of each kind, to learn its size.

    Examples
    --------
    >>> import adadim
    >>> study = Study(
    ...     name="small",
    ...     instances={"easy": {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}},
    ...     policies={"LinUCB": adadim.LinUCB(), "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"}},
    ...     trials=4,
    ... )
    >>> study.policies["LinUCB"]
    {'kind': 'LinUCB'}
    >>> [cell.policy_object.dim for cell in study.cells]
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
    record: int | Sequence[int] = RECORDED_ROUNDS
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    plugins: Kinds = field(default_factory=dict, repr=False)
    labels: Mapping[str, Any] = field(default_factory=dict, repr=False)
    _started: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with study_errors():
            file_name(self.name, "name:")
        for key in ("instances", "policies"):
            _check_names(getattr(self, key), key)
        plugins = _with_classes_of(self.policies, self.plugins)
        instances = {name: instance_table(v, f"instances.{name}", plugins) for name, v in self.instances.items()}
        policies = {name: policy_table(v, f"policies.{name}", plugins) for name, v in self.policies.items()}
        with study_errors():
            trials = integer(self.trials, "trials:")
        with study_errors("seed: "):
            seed = check_seed(self.seed)
        record: Any = self.record
        checked = {
            "trials": trials,
            "seed": seed,
            "plugins": plugins,
            "instances": instances,
            "policies": policies,
            "record": int(record) if is_integer(record) else _as_tuple(record, "record"),
            "only": _check_only(self.only, instances, policies),
            "labels": _check_labels(self.labels),
        }
        for key, value in checked.items():
            object.__setattr__(self, key, value)
        for instance, policy in self._pairs():
            result_identity(self._build(policy, instance), f"policies.{policy}")  # raises if the values cannot be used

    @classmethod
    def from_toml(cls, path: str | Path, plugins: Kinds | None = None) -> Study:
        """Read a study from a TOML file; this runs no code (`load_plugin`, which makes `plugins`, is what does).

        It has the keys `name` (by default the name of the file), `trials`, `seed`, `record`, a table
        ``[instances.NAME]`` and ``[policies.NAME]`` for each, with the key `kind`, and optionally ``[only]`` and
        ``[labels]``.
        """
        file = Path(path)
        table = codec.read_toml(file)
        try:
            return cls.from_dict({"name": file.stem, **table}, plugins)
        except StudyError as error:
            raise StudyError(f"{file}: {error}") from error

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], plugins: Kinds | None = None) -> Study:
        """Study from nested tables, as TOML or JSON give them."""
        if not isinstance(table, Mapping):
            raise StudyError(f"a study is a table of name, instances, policies and trials, got {shown(table)}")
        entries = [f for f in dataclasses.fields(cls) if f.init and f.name != "plugins"]
        for key in table:
            if key not in [f.name for f in entries]:
                raise StudyError(f"{key!s}: a study has no such key; {suggestion(key, [f.name for f in entries])}")
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
        if self.labels:
            parts["labels"] = self.labels
        return copy.deepcopy({**parts, "instances": self.instances, "policies": self.policies})

    def to_toml(self) -> str:
        """The study as a TOML document, which `from_toml` reads back."""
        return codec.to_toml(self.to_dict())

    def _repr_html_(self) -> str:
        about = {"instances": ", ".join(self.instances), "policies": ", ".join(self.policies)}
        variant = self.labels.get("variant")
        return html_table(f"Study {self.name}", {**about, "trials": self.trials, "seed": self.seed, "variant": variant})

    def check(self) -> Study:
        """Try the study out: build a small instance of each kind, start every policy on it, and return the study.

        Raises
        ------
        StudyError
            The parameters of an instance do not fit together, a record point lies after its horizon, or a policy
            cannot run on it.

        Warns
        -----
        SetsWarning
            The guarantee of a policy needs action sets of another distribution than those it is to run on. A run does
            not repeat this warning.

        Examples
        --------
        >>> instance = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 7, "horizon": 60}
        >>> Study("small", {"easy": instance}, {"random": {"kind": "Random"}}, trials=1).check()
        Traceback (most recent call last):
        adadim.errors.StudyError: instances.easy: intrinsic_dim must be an integer in 1..6 (...), got 7
        """
        _check_memory(self.cells, self.trials)
        if not self._started:  # it does not change: once is enough, and warns once
            check_starts(self.cells, self._probes)
            object.__setattr__(self, "_started", True)
        return self

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every policy on every instance."""
        require(self.trials <= MAX_INTEGER, "trials:", f"be at most {MAX_INTEGER}", self.trials, StudyError)
        points = self.record if isinstance(self.record, int) else len(self.record)
        require(points <= MAX_POINTS, "record:", f"be at most {MAX_POINTS} rounds", points, StudyError)
        return tuple(self._cell(instance, policy) for instance, policy in self._pairs())

    @cached_property
    def _probes(self) -> dict[str, Probe]:
        """A small instance of each kind."""
        probes = {}
        for name, table in self.instances.items():
            shrink, params = table["kind"] not in self.plugins, self._parameters[name]
            probes[name] = build_probe(self._generators[name], params, self.seed, f"instances.{name}", shrink)
        return probes

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Pairs (instance, policy) that the study runs."""
        for instance in self.instances:
            for policy in self.policies:
                if instance in self.only.get(policy, self.instances):
                    yield instance, policy

    @cached_property
    def _generators(self) -> dict[str, Factory]:
        """The generator of each instance."""
        kinds = instance_kinds(self.plugins)
        return {name: kinds[table["kind"]] for name, table in self.instances.items()}

    @cached_property
    def _parameters(self) -> dict[str, dict[str, Any]]:
        """The arguments that the generator of each instance is called with, defaults included."""
        complete = {name: codec.parameters_of(self._generators[name]) | table for name, table in self.instances.items()}
        return {name: {k: v for k, v in p.items() if k not in ("kind", *SUPPLIED)} for name, p in complete.items()}

    def _build(self, policy: str, instance: str) -> Policy:
        return build_policy(self.policies[policy], f"policies.{policy}", self.plugins, self._parameters[instance])

    def _cell(self, instance: str, policy: str) -> Cell:
        kind, probe = self.instances[instance]["kind"], self._probes[instance]
        generator, params = self._generators[instance], self._parameters[instance]
        try:
            times = tuple(record_points(self.record, probe.problem.horizon).tolist())
        except ValueError as error:
            raise StudyError(f"record: {error}, on instance {instance!r}") from error
        policy_object = self._build(policy, instance)
        cell_identity = {
            "format": FORMAT,
            "instance": instance_identity(generator, kind, params, self.plugins, f"instances.{instance}"),
            "policy": result_identity(policy_object, f"policies.{policy}"),
            "seed": self.seed,
            "times": list(times),
        }
        return Cell(
            id=digest(cell_identity),
            instance=instance,
            policy=policy,
            identity=cell_identity,
            policy_object=policy_object,
            times=times,
            seed=self.seed,
            base_arms=probe.base_arms,
            arms=probe.arms,
            dim=probe.problem.dim,
            horizon=probe.problem.horizon,
            generator=generator,
            params=params,
        )


def _check_names(table: Mapping[str, Any], key: str) -> None:
    wanted = f"be a non-empty table of names, e.g. [{key}.mine] in TOML"
    require(isinstance(table, Mapping) and len(table) > 0, f"{key}:", wanted, table, StudyError)
    for name in table:
        named = isinstance(name, str) and name.strip() != ""
        require(named, f"{key}: names", "be non-empty strings", name, StudyError)
        with study_errors():
            printable(name, f"{key}: names")


def _check_only(
    only: Mapping[str, Sequence[str]], instances: Mapping[str, Any], policies: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    require(isinstance(only, Mapping), "only:", "be a table of policy = [instances]", only, StudyError)
    for policy, names in only.items():
        if not isinstance(policy, str) or policy not in policies:
            raise StudyError(f"only.{policy}: there is no such policy; {suggestion(str(policy), policies)}")
        for name in _as_tuple(names, f"only.{policy}"):
            if not isinstance(name, str) or name not in instances:
                raise StudyError(f"only.{policy}: no instance {shown(name)}; {suggestion(str(name), instances)}")
    return {policy: tuple(names) for policy, names in only.items()}


def _as_tuple(values: Any, where: str) -> tuple[Any, ...]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    listed = isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0
    require(listed, f"{where}:", "be a non-empty list", values, StudyError)
    return tuple(values)


def _with_classes_of(policies: Mapping[str, Any], plugins: Kinds) -> dict[str, Any]:
    """Plugins together with the classes of policy objects that are not adadim's own."""
    require(isinstance(plugins, Mapping), "plugins:", "be a table of name = class or function", plugins, StudyError)
    with_classes = dict(plugins)
    for kind in _classes(policies):
        if with_classes.setdefault(kind.__name__, kind) is not kind:
            raise StudyError(f"policies: two different classes are called {kind.__name__}; rename one of them")
    check_plugins(with_classes)
    return with_classes


def _classes(value: Any) -> Iterator[type[Policy]]:
    """Classes of the policy objects in `value` that are not adadim's own."""
    if isinstance(value, Policy):
        if policy_kinds().get(type(value).__name__) is not type(value):
            yield type(value)
        value = codec.fields(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _classes(item)


def _check_labels(labels: Any) -> dict[str, Any]:
    """A copy of the labels in plain dicts, lists, numbers, strings and booleans; raises if they hold anything else."""
    wanted = "be a table, e.g. [labels.instances.NAME] in TOML"
    require(isinstance(labels, Mapping), "labels:", wanted, labels, StudyError)

    def copied(value: Any, where: str) -> Any:
        if isinstance(value, Mapping):
            for key in value:
                named = isinstance(key, str) and key != ""
                require(named, f"{where}: keys", "be non-empty strings", key, StudyError)
            return {key: copied(item, f"{where}.{key}") for key, item in value.items()}
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, list | tuple):
            return [copied(item, f"{where}[{i}]") for i, item in enumerate(value)]
        fits = isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value))
        wanted = "be a finite number, a string, a boolean, a list or a table"
        require(fits, f"{where}:", wanted, value, StudyError)
        return value

    return dict(copied(labels, "labels"))


def _check_memory(cells: Sequence[Cell], trials: int) -> None:
    """Raise unless a replication of every cell, the plan and the results of one cell fit into this machine's memory."""
    for cell in cells:
        where = f"instances.{cell.instance}"
        require(cell.horizon <= MAX_INTEGER, f"{where}.horizon:", f"be at most {MAX_INTEGER}", cell.horizon, StudyError)
        with study_errors(f"{where}: "):
            check_fits(cell.least_bytes, arms=cell.arms, dim=cell.dim)
    points = max(len(cell.times) for cell in cells)
    with study_errors("trials: "):
        check_fits(trials * (8 * 3 * points + 200 * len(cells)), trials=trials)  # 200 bytes each in the plan
