"""What a study may name: adadim's policies and instance generators, and those in a file of the user's own."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adadim import instances, policies
from adadim.errors import StudyError
from adadim.policies.base import Policy
from adadim.problem import Instance

__all__ = ["Plugins", "StudyError", "instance_kinds", "load_plugin", "policy_kinds", "source_digest", "suggestion"]

Generator = Callable[..., Instance]

Plugins = Mapping[str, Any]
"""Policy classes and instance generators that are not adadim's, by name."""

# What @dataclass writes into a class: it follows from the fields, whose values are recorded anyway.
GENERATED = frozenset(
    ["__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__lt__", "__le__", "__gt__", "__ge__"]
)


def policy_kinds(plugins: Plugins | None = None) -> dict[str, type[Policy]]:
    """Policies that a study may name: the public ones of `adadim.policies`, then those of `plugins`.

    Examples
    --------
    >>> policy_kinds()["LinUCB"](dim=3)
    LinUCB(ridge=0.1, bonus='norm', dim=3, ...)
    """
    found = {name: getattr(policies, name) for name in policies.__all__}
    return {
        name: value
        for name, value in {**found, **(plugins or {})}.items()
        if isinstance(value, type) and _usable(value)
    }


def instance_kinds(plugins: Plugins | None = None) -> dict[str, Generator]:
    """Generators of instances that a study may name: functions with a parameter `replications`.

    Examples
    --------
    >>> list(instance_kinds())
    ['anisotropic', 'ball', 'clicks', 'lower_bound', 'pca', 'polynomials', 'products', 'sphere']
    """
    found = {name: getattr(instances, name) for name in instances.__all__}
    return {name: value for name, value in {**found, **(plugins or {})}.items() if _generates(value)}


def load_plugin(path: str | Path) -> dict[str, Any]:
    """Run a Python file and collect the policies and instance generators it defines.

    This executes the file: load only files you would run yourself. Nothing else in a study does.

    Parameters
    ----------
    path : path
        A Python file that defines subclasses of `adadim.Policy` (frozen dataclasses), functions that take
        `replications` (and, if they draw anything, `seed`) and return an `adadim.Instance`, or both.

    Returns
    -------
    dict
        Name to class or function: what `Study` and `Study.from_toml` take as ``plugins``.

    Notes
    -----
    Results of a plugin are filed under its name, its hyper-parameters and the text of what its class or function
    uses in its own file (see `source_digest`): an edited policy is computed anew, a new comment elsewhere is not.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> code = '''
    ... from dataclasses import dataclass
    ... from adadim import LinUCB, Policy
    ...
    ... @dataclass(frozen=True)
    ... class Half(Policy):
    ...     ridge: float = 1.0
    ...
    ...     def _start(self, problem, streams):
    ...         return LinUCB(ridge=self.ridge, dim=max(1, problem.dim // 2))._start(problem, streams)
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "half.py")
    ...     _ = file.write_text(code)
    ...     plugins = load_plugin(file)
    >>> plugins["Half"](ridge=0.5)
    Half(ridge=0.5)
    """
    file = Path(path)
    if not file.is_file():
        raise StudyError(f"{file}: no such file; a plugin is a Python file that defines a policy")
    name = f"adadim_plugin_{file.stem}"
    source = importlib.util.spec_from_file_location(name, file)
    if source is None or source.loader is None:
        raise StudyError(f"{file}: not a Python file; a plugin's name ends in .py")
    module = importlib.util.module_from_spec(source)
    # Registered only while it runs (dataclasses look their module up): what is in no importable module travels to
    # worker processes by value.
    sys.modules[name] = module
    try:
        source.loader.exec_module(module)
    except Exception as error:
        raise StudyError(f"{file}: the plugin raised {type(error).__name__}: {error}") from error
    finally:
        del sys.modules[name]
    own = {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_")
        and getattr(value, "__module__", None) == name
        and (_usable(value) or _generates(value))
    }
    if not own:
        raise StudyError(
            f"{file}: defines no policy; it should define a frozen dataclass that derives from adadim.Policy"
        )
    check_plugins(own)
    return own


def check_plugins(plugins: Plugins) -> None:
    """Raise unless every plugin is a policy class or a generator, under a name adadim does not use."""
    for name, value in plugins.items():
        if not (_usable(value) or _generates(value)):
            raise StudyError(
                f"plugins.{name}: neither a policy class nor a function that makes instances (one with a parameter "
                f"'replications'), but {value!r}"
            )
        if {**policy_kinds(), **instance_kinds()}.get(name, value) is not value:
            raise StudyError(f"plugins.{name}: adadim has a {name} of its own; give yours another name")
        if isinstance(value, type):
            for part in value.__mro__:
                if "__init__" in vars(part) and "__dataclass_params__" not in vars(part) and part is not object:
                    raise StudyError(
                        f"plugins.{name}: {part.__name__} defines __init__, which hides its hyper-parameters; make it "
                        "a frozen dataclass with one field for each"
                    )


def suggestion(word: str, known: Iterable[str]) -> str:
    """What the writer of an unknown word may have meant.

    Examples
    --------
    >>> suggestion("linucb", ["LinUCB", "UCB"])
    "did you mean 'LinUCB'?"
    >>> suggestion("zzz", ["LinUCB", "UCB"])
    'choose from LinUCB, UCB'
    """
    names = list(known)
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), lower, 1)
    if close:
        return f"did you mean {lower[close[0]]!r}?"
    return f"choose from {', '.join(names)}" if names else "there are none to choose from"


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


def _usable(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Policy) and not inspect.isabstract(value)


def _generates(value: Any) -> bool:
    return inspect.isfunction(value) and "replications" in inspect.signature(value).parameters


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
