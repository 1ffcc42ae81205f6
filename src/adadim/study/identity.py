"""What makes two results the same: the values that decide them, and the source text of code that is not adadim's."""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from adadim import codec
from adadim.errors import StudyError
from adadim.policies import Bound, parts
from adadim.policies.base import Policy
from adadim.study.kinds import policy_kinds

__all__ = ["identity", "source_digest"]

# What @dataclass writes into a class: it follows from the fields, whose values are recorded anyway.
GENERATED = frozenset(
    ["__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__lt__", "__le__", "__gt__", "__ge__"]
)


def identity(value: Any, where: str) -> Any:
    """What decides a result, as plain JSON: equal values give equal text, whoever wrote them and how.

    Code that is not adadim's counts with its source, see `source_digest`.

    Examples
    --------
    >>> import adadim
    >>> identity(adadim.Greedy(ridge=1), "here") == identity(adadim.Greedy(ridge=1.0), "here")
    True
    """
    if isinstance(value, Policy | Bound):
        kind: type = type(value)
        params = {key: identity(item, f"{where}.{key}") for key, item in codec.fields(value).items()}
        known = {**policy_kinds(), **parts()}.get(kind.__name__) is kind
        own = {} if known else {"source": source_digest(kind)}
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


def source_digest(value: Any) -> str:
    """Hash of the source text behind a class or function.

    Covers the text of the functions of the class, and of the functions, classes and constants of the same module that
    they use, directly or through one another. Other modules are taken to stay as they are.

    Examples
    --------
    >>> def half(x):
    ...     return x / 2
    >>> def third(x):
    ...     return x / 3
    >>> source_digest(half) == source_digest(half), source_digest(half) == source_digest(third)
    (True, False)
    """
    reader = _Reader(getattr(value, "__module__", None))
    reader.add("", value)
    return hashlib.sha256("\n".join(reader.parts).encode()).hexdigest()[:16]


class _Reader:
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
        for name, member in vars(value).items():
            if inspect.isroutine(member) or isinstance(member, property) or not name.startswith("__"):
                self.add(f"{value.__qualname__}.{name}", member)

    def add_function(self, value: types.FunctionType) -> None:
        try:
            self.parts.append(inspect.getsource(value))
        except (OSError, TypeError):  # typed at a prompt, or written by @dataclass
            if value.__name__ in GENERATED:
                return
            for code in _codes(value.__code__):
                self.parts.append(f"{value.__qualname__} {code.co_code.hex()} {code.co_names}")
                self.add(value.__qualname__, [c for c in code.co_consts if not isinstance(c, types.CodeType)])
        for name, used in _used(value):
            self.add(name, used)


def _used(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Global and enclosing names in a function, with what they stand for."""
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
