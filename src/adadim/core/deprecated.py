"""Former names, which work for one version and say what replaces them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn the caller of the caller that a name will not be understood by the next version."""
    message = f"{old} is now {new}; the old name will not be understood by the next version"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def renamed_method(old: str, new: str) -> Any:
    """A method under its former name."""

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        warn_renamed(f"{type(self).__name__}.{old}", new)
        return getattr(self, new)(*arguments, **options)

    method.__name__, method.__doc__ = old, f"The former name of `{new}`."
    return method


def renamed_attribute(old: str, new: str) -> Any:
    """An attribute under its former name."""

    def get(self: Any) -> Any:
        warn_renamed(f"{type(self).__name__}.{old}", new)
        return getattr(self, new)

    return property(get, doc=f"The former name of `{new}`.")


def renamed_parameter(old: str, new: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function one of whose parameters may still be given under its former name."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> T:
            if old in options and new not in options:
                warn_renamed(f"the parameter {old} of {function.__qualname__.removesuffix('.__init__')}", new)
                options[new] = options.pop(old)
            return function(*arguments, **options)

        return call

    return decorate


def with_present_names(table: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A table, and those in it, whose keys that are former names are the present ones."""
    for old in names.keys() & table.keys():
        warn_renamed(f"the key {old}", names[old])
    return {
        names.get(key, key): with_present_names(value, names) if isinstance(value, Mapping) else value
        for key, value in table.items()
    }
