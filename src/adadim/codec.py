"""Objects as plain data: a dataclass as a table for TOML or JSON, and back.

A table is a dict whose key `kind` names a class (or a function) and whose other keys are its parameters. It holds
numbers, strings, lists and further tables, and nothing else has to be known to read it but which kinds there are.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from adadim.checks import shown, suggestion
from adadim.errors import InvalidTypeError, InvalidValueError

__all__ = ["check_table", "fields", "finite", "from_table", "parameters_of", "plain", "to_table", "without_none"]

Kinds = Mapping[str, Callable[..., Any]]
"""What a table may name, by the word that its key `kind` has for it."""

REQUIRED = inspect.Parameter.empty


def to_table(value: Any, defaults: bool = True) -> dict[str, Any]:
    """A dataclass as a table: its class name as `kind`, then its fields.

    Dataclasses inside it become tables too, arrays and tuples lists. What is none of these, a function for instance,
    stays as it is: whoever writes the table to a file refuses it there.

    Parameters
    ----------
    value : dataclass instance
        What to write down; fields that its constructor does not take are left out.
    defaults : bool
        False leaves out fields that have their default value.

    Examples
    --------
    >>> import adadim
    >>> to_table(adadim.Greedy(dim=3))
    {'kind': 'Greedy', 'ridge': 0.1, 'dim': 3, 'ties': 'random'}
    >>> to_table(adadim.SmoothCorral(base=adadim.LinUCB(ridge=0.5)), defaults=False)
    {'kind': 'SmoothCorral', 'base': {'kind': 'LinUCB', 'ridge': 0.5}}
    """
    kept = fields(value)
    if "kind" in kept:
        raise InvalidTypeError(f"{type(value).__name__} has a field 'kind', which names the class; call it otherwise")
    if not defaults:
        usual = _defaults(type(value))
        kept = {key: item for key, item in kept.items() if key not in usual or not _same(item, usual[key])}
    return {"kind": type(value).__name__, **{key: plain(item, defaults) for key, item in kept.items()}}


def from_table(
    table: Mapping[str, Any],
    kinds: Kinds,
    where: str = "policy",
    parameters: Mapping[str, Any] | None = None,
    *,
    noun: str = "policy",
    error: type[InvalidValueError] = InvalidValueError,
) -> Any:
    """Build what a table describes; keys that are left out take their defaults.

    Parameters
    ----------
    table : mapping
        As `to_table` gives it. Lists become tuples.
    kinds : mapping
        Classes that the table and those inside it may name.
    where : str
        Where the table stands, for messages.
    parameters : mapping, optional
        Values for strings such as ``"@dim"``, which stands for ``parameters["dim"]``.
    noun : str
        What the kinds are, for messages.
    error : class
        What to raise.

    Examples
    --------
    >>> import adadim
    >>> kinds = {"LinUCB": adadim.LinUCB, "Greedy": adadim.Greedy}
    >>> from_table({"kind": "Greedy", "dim": "@intrinsic_dim"}, kinds, parameters={"intrinsic_dim": 4})
    Greedy(ridge=0.1, dim=4, ties='random')
    >>> from_table({"kind": "LinUCB", "rigde": 1.0}, kinds)
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: policy.rigde: LinUCB has no parameter 'rigde'; did you mean 'ridge'?
    """

    def built(value: Any, where: str) -> Any:
        if isinstance(value, Mapping) and "kind" in value:
            return from_table(value, kinds, where, parameters, noun=noun, error=error)
        if isinstance(value, Mapping):
            return {key: built(item, f"{where}.{key}") for key, item in value.items()}
        if isinstance(value, list | tuple):
            return tuple(built(item, f"{where}[{i}]") for i, item in enumerate(value))
        if isinstance(value, str) and value.startswith("@"):
            return _filled_in(value, parameters, where, error)
        return value

    kind = check_table(table, kinds, where, noun=noun, error=error)
    values = {key: built(value, f"{where}.{key}") for key, value in table.items() if key != "kind"}
    try:
        return kind(**values)
    except (TypeError, ValueError) as failure:
        given = ", ".join(f"{key}={shown(value)}" for key, value in values.items())
        raise error(f"{where}: {table['kind']}({given}) is not possible: {failure}") from failure


def check_table(
    table: Any,
    kinds: Kinds,
    where: str,
    *,
    noun: str = "policy",
    reserved: Collection[str] = (),
    error: type[InvalidValueError] = InvalidValueError,
) -> Callable[..., Any]:
    """The kind that a table names; raises unless it is known and the table has the keys it takes.

    `reserved` are parameters that are not for the table to set.
    """
    if not isinstance(table, Mapping):
        raise error(f"{where}: expected a table with the key 'kind', got {shown(table)}")
    name = table.get("kind")
    if not isinstance(name, str):
        example = next(iter(kinds), "NAME")
        raise error(f"{where}: the key 'kind' is missing; it names what this is, e.g. kind = \"{example}\"")
    if name not in kinds:
        raise error(f"{where}.kind: no {noun} {shown(name)}; {suggestion(name, kinds)}")
    known = {key: default for key, default in parameters_of(kinds[name]).items() if key not in reserved}
    for key in table:
        if key != "kind" and key not in known:
            raise error(f"{where}.{key}: {name} has no parameter {key!r}; {suggestion(str(key), known)}")
    for key, default in known.items():
        if default is REQUIRED and key not in table:
            raise error(f"{where}.{key}: missing; {name} has no default for it")
    return kinds[name]


def plain(value: Any, defaults: bool = True) -> Any:
    """`value` with dataclasses as tables and with arrays and tuples as lists, all the way down.

    A table starts with its `kind`. Dicts and lists are copied.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"levels": np.array([2, 4]), "rate": (np.float64(0.5),)})
    {'levels': [2, 4], 'rate': [0.5]}
    """
    if _is_dataclass_instance(value):
        return to_table(value, defaults)
    if isinstance(value, Mapping):
        kind_first = sorted(value.items(), key=lambda pair: pair[0] != "kind")
        return {key: plain(item, defaults) for key, item in kind_first}
    if isinstance(value, list | tuple | range):
        return [plain(item, defaults) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def finite(value: Any) -> Any:
    """`value` with None for NaN and infinity, which JSON has not, also inside dicts, lists and tuples.

    Examples
    --------
    >>> finite({"mean": 1.5, "interval": (0.5, float("inf")), "name": "x"})
    {'mean': 1.5, 'interval': [0.5, None], 'name': 'x'}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def without_none(table: Any, kinds: Kinds) -> Any:
    """A table without the parameters that are None and would be None if left out: TOML cannot write None.

    Tables inside it are treated alike; what names no known kind is left alone.

    Examples
    --------
    >>> import adadim
    >>> without_none(to_table(adadim.Greedy()), {"Greedy": adadim.Greedy})
    {'kind': 'Greedy', 'ridge': 0.1, 'ties': 'random'}
    """
    if isinstance(table, list):
        return [without_none(item, kinds) for item in table]
    if not isinstance(table, Mapping):
        return table
    kind = table.get("kind")
    optional = parameters_of(kinds[kind]) if isinstance(kind, str) and kind in kinds else {}
    return {
        key: without_none(value, kinds)
        for key, value in table.items()
        if value is not None or optional.get(key, REQUIRED) is not None
    }


def fields(value: Any) -> dict[str, Any]:
    """Fields of a dataclass instance that its constructor takes, with their values."""
    if not _is_dataclass_instance(value):
        raise InvalidTypeError(f"expected a dataclass instance such as LinUCB(), got {shown(value)}")
    return {entry.name: getattr(value, entry.name) for entry in dataclasses.fields(value) if entry.init}


def parameters_of(kind: Callable[..., Any]) -> dict[str, Any]:
    """Parameters of a class or function, with their defaults, or `REQUIRED` where there is none."""
    return {name: entry.default for name, entry in inspect.signature(kind).parameters.items()}


def _filled_in(value: str, parameters: Mapping[str, Any] | None, where: str, error: type[InvalidValueError]) -> Any:
    name = value[1:]
    if parameters is None:
        raise error(f"{where}: {shown(value)} stands for a parameter of an instance, and there is none here")
    if name not in parameters:
        hint = suggestion(name, parameters)
        raise error(f"{where}: {shown(value)} stands for a parameter that the instance does not have; {hint}")
    return parameters[name]


def _is_dataclass_instance(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _defaults(kind: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in dataclasses.fields(kind):
        if entry.default is not dataclasses.MISSING:
            found[entry.name] = entry.default
        elif entry.default_factory is not dataclasses.MISSING:
            found[entry.name] = entry.default_factory()
    return found


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(plain(value) == plain(default)))
