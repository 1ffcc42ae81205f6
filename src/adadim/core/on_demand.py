"""Parts of a package that are imported when first asked for, so that importing the package itself is fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, parts: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """What a package needs as its ``__getattr__`` and ``__dir__``; a part is a module, or "a.b:c" what one holds."""

    def __getattr__(name: str) -> Any:
        if name not in parts:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, member = parts[name].partition(":")
        found = import_module(module)
        return getattr(found, member) if member else found

    def __dir__() -> list[str]:
        return sorted({*vars(import_module(package)), *parts})

    return __getattr__, __dir__
