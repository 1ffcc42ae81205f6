"""Policies and instances as tables, as TOML, as text on the command line, and as the identity that names a result.

A table is a dict whose key `kind` names a class (or a function) and whose other keys are its parameters. It holds
numbers, strings, lists and further tables, and reading it takes nothing but the mapping from names to kinds.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import inspect
import json
import math
import re
import tomllib
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adadim.core.checks import FIELDS, shown, suggestion
from adadim.core.code_text import code_text
from adadim.core.files import open_regular
from adadim.core.released_fields import RELEASED_FIELDS, RELEASED_VALUES
from adadim.errors import InvalidTypeError, InvalidValueError, StudyError

Kinds = Mapping[str, Callable[..., Any]]
"""The classes and functions that a table may name, by the value of its key `kind`."""

REQUIRED = inspect.Parameter.empty
MAX_TOML_BYTES = 2**22
MAX_TOML_DEPTH = 32  # a study needs 6; the time to read a name grows with the square of its parts
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
LONG_NAME = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_TOML_DEPTH},}}+")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
POLICY_NAME = re.compile(r"\w[\w+, -]*")  # of a class, or as figures have it: LinUCB++ with Corral
# What @dataclass writes into a class: it follows from the fields, whose values are recorded anyway.
GENERATED = frozenset(
    ["__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__lt__", "__le__", "__gt__", "__ge__"]
)


def to_table(value: Any, defaults: bool = True) -> dict[str, Any]:
    """A dataclass as a table: its class as `kind`, then its fields as `plain` has them; functions stay as they are."""
    values = fields(value)
    if "kind" in values:
        raise InvalidTypeError(f"{type(value).__name__} has a field 'kind', which names the class; call it otherwise")
    omitted = {entry.name for entry in dataclasses.fields(value) if not defaults and _has_default(value, entry)}
    table = {key: plain(item, defaults) for key, item in values.items() if key not in omitted}
    return {"kind": type(value).__name__, **table}


def from_table(
    table: Mapping[str, Any], kinds: Kinds, where: str = "policy", parameters: Mapping[str, Any] | None = None
) -> Any:
    """Build what a table describes: lists become tuples, ``"@dim"`` is ``parameters["dim"]``, `where` is for errors."""

    def build(value: Any, where: str) -> Any:
        if isinstance(value, Mapping) and "kind" in value:
            return from_table(value, kinds, where, parameters)
        if isinstance(value, Mapping):
            return {key: build(item, f"{where}.{key}") for key, item in value.items()}
        if isinstance(value, list | tuple):
            return tuple(build(item, f"{where}[{i}]") for i, item in enumerate(value))
        if isinstance(value, str) and value.startswith("@"):
            return _parameter_value(value, parameters, where)
        return value

    kind = check_table(table, kinds, where)
    values = {key: build(value, f"{where}.{key}") for key, value in table.items() if key != "kind"}
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        arguments = ", ".join(f"{key}={shown(value)}" for key, value in values.items())
        raise InvalidValueError(f"{where}: {table['kind']}({arguments}) is not possible: {error}") from error


def check_table(
    table: Any, kinds: Kinds, where: str, noun: str = "policy", reserved: Collection[str] = ()
) -> Callable[..., Any]:
    """The kind (a `noun`) that a table names; raises unless it is known and the table has its keys, none `reserved`."""
    if not isinstance(table, Mapping):
        raise InvalidValueError(f"{where}: expected a table with the key 'kind', got {shown(table)}")
    name = table.get("kind")
    if not isinstance(name, str):
        example = next(iter(kinds), "NAME")
        raise InvalidValueError(f"{where}: the key 'kind' is missing; it names what this is, e.g. kind = \"{example}\"")
    if name not in kinds:
        raise InvalidValueError(f"{where}.kind: no {noun} {shown(name)}; {suggestion(name, kinds)}")
    defaults = {key: default for key, default in parameters_of(kinds[name]).items() if key not in reserved}
    for key in table:
        if key != "kind" and key not in defaults:
            raise InvalidValueError(f"{where}.{key}: {name} has no parameter {key!r}; {suggestion(str(key), defaults)}")
    for key, default in defaults.items():
        if default is REQUIRED and key not in table:
            raise InvalidValueError(f"{where}.{key}: missing; {name} has no default for it")
    return kinds[name]


def plain(value: Any, defaults: bool = True) -> Any:
    """`value` with dataclasses as tables (`kind` first), arrays and tuples as lists, all the way; nothing is shared."""
    if _is_dataclass_instance(value):
        return to_table(value, defaults)
    if isinstance(value, Mapping):
        kind_first = sorted(value.items(), key=lambda pair: pair[0] != "kind")
        return {key: plain(item, defaults) for key, item in kind_first}
    if isinstance(value, list | tuple | range):
        return [plain(item, defaults) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def finite_or_none(value: Any) -> Any:
    """`value` with None for NaN and infinity, which JSON lacks, also inside dicts, lists and tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite_or_none(item) for key, item in value.items()}
    return [finite_or_none(item) for item in value] if isinstance(value, list | tuple) else value


def without_none(table: Any, kinds: Kinds) -> Any:
    """A table, and those in it, without parameters that are None by default too: TOML cannot write None."""
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
    """Fields of a dataclass instance that its constructor takes, with their values; see `_written_fields`."""
    if not _is_dataclass_instance(value):
        raise InvalidTypeError(f"expected a dataclass instance, got {shown(value)}")
    return {entry.name: getattr(value, entry.name) for entry in _written_fields(value) if entry.init}


def text_of(value: Any, defaults: bool = True) -> str:
    """A dataclass instance as `dataclasses` would print it, with the fields of `_written_fields`.

    Without `defaults`, no field is printed that has its default.
    """
    entries = [entry for entry in _written_fields(value) if entry.repr and (defaults or not _has_default(value, entry))]
    parts = (f"{entry.name}={getattr(value, entry.name)!r}" for entry in entries)
    return f"{type(value).__qualname__}({', '.join(parts)})"


def _written_fields(value: Any) -> list[dataclasses.Field[Any]]:
    """The fields of a dataclass instance, without those later than `RELEASED_FIELDS` that have their default."""
    entries = dataclasses.fields(value)
    released = RELEASED_FIELDS.get(type(value).__name__, [entry.name for entry in entries])
    return [entry for entry in entries if entry.name in released or not _has_default(value, entry)]


def parameters_of(kind: Callable[..., Any]) -> dict[str, Any]:
    """Parameters of a class or function, with their defaults, or `REQUIRED` where there is none."""
    return {name: entry.default for name, entry in inspect.signature(kind).parameters.items()}


def _parameter_value(value: str, parameters: Mapping[str, Any] | None, where: str) -> Any:
    if parameters is None:
        raise InvalidValueError(
            f"{where}: {shown(value)} stands for a parameter of an instance, and there is none here"
        )
    if value[1:] not in parameters:
        hint = f"a parameter that the instance does not have; {suggestion(value[1:], parameters)}"
        raise InvalidValueError(f"{where}: {shown(value)} stands for {hint}")
    return parameters[value[1:]]


def _is_dataclass_instance(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _has_default(owner: Any, entry: dataclasses.Field[Any]) -> bool:
    """Whether a field has its default value."""
    default, value = _default_of(entry), getattr(owner, entry.name)
    return value is default or (type(value) is type(default) and bool(plain(value) == plain(default)))


def _default_of(entry: dataclasses.Field[Any]) -> Any:
    """The default of a field, `MISSING` if it has none."""
    return entry.default if entry.default_factory is dataclasses.MISSING else entry.default_factory()


def parse_policy(text: str) -> dict[str, Any]:
    """The table of a policy as on the command line: ``LinUCB:dim=5,bonus=norm`` or ``LinUCB(dim=5, bonus='norm')``."""
    if text.rstrip().endswith(")"):
        return _parse_call(text)
    kind, _, arguments = text.strip().partition(":")
    table: dict[str, Any] = {"kind": kind}
    for pair in filter(None, arguments.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidValueError(f"--policy {text}: expected KEY=VALUE after the colon, got {pair!r}")
        table[key.strip()] = parse_value(value)
    return table


def parse_value(text: str) -> Any:
    """A value on the command line: JSON where it is valid, else plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _parse_call(text: str) -> dict[str, Any]:
    name, _, arguments = text.strip().partition("(")
    try:
        call = ast.parse(f"policy({arguments}", mode="eval").body
        if not POLICY_NAME.fullmatch(name) or not isinstance(call, ast.Call) or call.args:
            raise ValueError
        if not isinstance(call.func, ast.Name):  # LinUCB(dim=5)(dim=6)
            raise ValueError
        values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
        if len(values) < len(call.keywords) or "kind" in values:
            raise ValueError
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise InvalidValueError(
            f"--policy must look like NAME or 'NAME(dim=5, scale=0.5)', got {shown(text)}"
        ) from None
    return {"kind": name.strip(), **values}


def is_deeper(tree: Any, depth: int) -> bool:
    """Whether tables and lists lie in each other to more than a depth; found without recursion."""
    level = [tree]
    for _ in range(depth):
        level = [part for node in level if isinstance(node, dict | list) for part in parts_of(node)]
        if not level:
            return False
    return any(isinstance(node, dict | list) for node in level)


def parts_of(node: dict[str, Any] | list[Any]) -> Iterable[Any]:
    """The values of a table, or the items of a list."""
    return node.values() if isinstance(node, dict) else node


def read_toml(file: Path) -> dict[str, Any]:
    """Tables of a TOML file, which may have `MAX_TOML_BYTES` and names of `MAX_TOML_DEPTH` parts."""
    try:
        with open_regular(file, StudyError) as opened:
            data = opened.read(MAX_TOML_BYTES + 1)
        if len(data) > MAX_TOML_BYTES:
            raise StudyError(f"{file}: a TOML file may have {MAX_TOML_BYTES} bytes, and this one has more")
        text = (
            data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        )  # some editors write a byte-order mark
        if name := LONG_NAME.search(text):
            raise StudyError(
                f"{file}: a name may have {MAX_TOML_DEPTH} parts with points between them, got {shown(name[0][:80])}"
            )
        tables = tomllib.loads(text)
        if is_deeper(tables, MAX_TOML_DEPTH):
            raise StudyError(
                f"{file}: at most {MAX_TOML_DEPTH} levels of tables and lists are allowed, here there are more"
            )
        return tables
    except StudyError:
        raise
    except OSError as error:
        raise StudyError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # no TOML, no text, or a number of thousands of digits
        raise StudyError(f"{file}: not valid TOML: {error}") from error
    except RecursionError:
        raise StudyError(f"{file}: not valid TOML: nested too deeply") from None


def to_toml(document: Mapping[str, Any]) -> str:
    """TOML text of nested mappings of numbers, strings and lists, which the standard library does not write."""
    lines = _toml_pairs({key: value for key, value in document.items() if not isinstance(value, Mapping)}, "")
    for section, tables in document.items():
        if not isinstance(tables, Mapping):
            continue
        flat = {name: value for name, value in tables.items() if not isinstance(value, Mapping)}
        if flat:
            lines += ["", f"[{_toml_key(section)}]", *_toml_pairs(flat, f"{section}.")]
        for name, table in tables.items():
            if isinstance(table, Mapping):
                lines += ["", f"[{_toml_key(section)}.{_toml_key(name)}]", *_toml_pairs(table, f"{section}.{name}.")]
    return "\n".join(lines) + "\n"


def _toml_pairs(table: Mapping[str, Any], where: str) -> list[str]:
    return [f"{_toml_key(key)} = {_toml_value(value, f'{where}{key}')}" for key, value in table.items()]


def _toml_key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _toml_string(name)


def _toml_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml_value(item, f'{where}[{i}]') for i, item in enumerate(value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_toml_pairs(value, f'{where}.'))} }}"
    raise StudyError(
        f"{where}: TOML has no way to write {shown(value)}; such a study can only be written in Python, or with a "
        "policy class of your own that takes numbers and strings"
    )


def identity(value: Any, where: str, kinds: Kinds) -> Any:
    """What decides a result, as JSON that is equal for equal values; code that is not in `kinds` by its source.

    Fields that have their default are left out, so that a new field renames no results; but see `RELEASED_FIELDS`.
    """
    if _is_dataclass_instance(value):
        kind: type = type(value)
        params, released = {}, RELEASED_FIELDS.get(kind.__name__, ())
        for entry in dataclasses.fields(value):
            if entry.init:
                named = identity(getattr(value, entry.name), f"{where}.{entry.name}", kinds)
                default = _default_of(entry)
                has_default = default is not dataclasses.MISSING and _same_json(named, identity(default, where, kinds))
                if entry.name in released or not has_default:
                    filed = RELEASED_VALUES.get((entry.name, named)) if isinstance(named, str) else None
                    params[entry.name] = named if filed is None else filed
        source = {} if kinds.get(kind.__name__) is kind else {"source": source_digest(kind)}
        return {"kind": kind.__name__, "params": params, **source}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return [identity(item, f"{where}[{i}]", kinds) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): identity(item, f"{where}.{key}", kinds) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return identity(value.tolist(), where, kinds)
    if callable(value) and hasattr(value, "__qualname__"):
        return {"kind": value.__qualname__, "source": source_digest(value)}
    raise StudyError(
        f"{where}: results are filed by the values of the hyper-parameters, and {value!r} has none that can be "
        "written down; use numbers, strings, sequences, policies or functions"
    )


def _same_json(one: Any, other: Any) -> bool:
    """Whether two values are written alike: 1 and true are not, though equal in Python."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def source_digest(value: Any) -> str:
    """Hash of the code of a class or function, and of all that it uses, also indirectly, of the same module.

    Comments and docstrings do not count (see `code_text`), but for those beside a lambda that is a part of a statement.
    """
    reader = _SourceReader(getattr(value, "__module__", None))
    reader.add("", value)
    return hashlib.sha256("\n".join(reader.parts).encode()).hexdigest()[:16]


class _SourceReader:
    """Collects in `parts` what a class or function is made of, as far as its own module defines it."""

    def __init__(self, module: str | None) -> None:
        self.module = module
        self.parts: list[str] = []
        self.visited: set[int] = set()

    def add(self, name: str, value: Any) -> None:
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, type | types.FunctionType):
            if value.__module__ == self.module and id(value) not in self.visited:
                self.visited.add(id(value))
                self.add_class(value) if isinstance(value, type) else self.add_function(value)
        elif isinstance(value, property):
            for accessor in (value.fget, value.fset):
                self.add(name, accessor)
        elif isinstance(value, tuple | list):
            for i, item in enumerate(value):
                self.add(f"{name}[{i}]", item)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.add(f"{name}[{key!r}]", item)
        elif isinstance(value, set | frozenset):
            self.parts.append(f"{name} = {sorted(map(repr, value))}")
        elif isinstance(value, np.ndarray):
            self.parts.append(f"{name} = {hashlib.sha256(value.tobytes()).hexdigest()}")
        elif isinstance(value, bool | int | float | complex | str | bytes):
            self.parts.append(f"{name} = {value!r}")

    def add_class(self, value: type) -> None:
        self.parts.append(f"class {value.__qualname__}({', '.join(base.__qualname__ for base in value.__bases__)})")
        for base in value.__bases__:
            self.add(base.__qualname__, base)
        inherited = [getattr(base, FIELDS, {}) for base in value.__bases__]
        for name, entry in vars(value).get(FIELDS, {}).items():
            if all(
                known.get(name) is not entry for known in inherited
            ):  # its default decides what is left out of names
                self.add(f"{value.__qualname__}.{name}", plain(_default_of(entry)))
        for name, member in vars(value).items():
            if inspect.isroutine(member) or isinstance(member, property) or not name.startswith("__"):
                self.add(f"{value.__qualname__}.{name}", member)

    def add_function(self, value: types.FunctionType) -> None:
        try:
            self.parts.append(_code_of(inspect.getsource(value)))
        except (OSError, TypeError):  # typed at a prompt, or written by @dataclass
            if value.__name__ in GENERATED:
                return
            for code in _codes(value.__code__):
                self.parts.append(f"{value.__qualname__} {code.co_code.hex()} {code.co_names}")
                constants = [c for c in code.co_consts if not isinstance(c, types.CodeType) and c != value.__doc__]
                self.add(value.__qualname__, constants)
        for name, used_value in _used_names(value):
            self.add(name, used_value)


def _code_of(source: str) -> str:
    """Source as `code_text` has it; as it is where it is not whole, as the line that a lambda is a part of may be."""
    try:
        return code_text(source)
    except SyntaxError:
        return source


def _used_names(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Global and enclosing names that a function uses, with their values."""
    for code in _codes(function.__code__):
        for name in code.co_names:
            if name in function.__globals__ and not name.startswith("__"):
                yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a name that is not bound yet
            continue


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
