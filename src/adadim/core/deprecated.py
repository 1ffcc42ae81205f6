"""Former names, which work for one version and say what replaces them."""

from __future__ import annotations

import warnings
from typing import Any


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
