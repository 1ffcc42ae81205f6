"""Parts of a package that are imported when first asked for, so that importing the package itself is fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from adadim.core.checks import suggestion
from adadim.core.deprecated import warn_renamed


def on_demand(
    package: str, parts: Mapping[str, str], former: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, for parts by name: a module "a.b", or what it holds, "a.b:c".

    `former` are names that were replaced, and by what.
    """

    def __getattr__(name: str) -> Any:
        if name in former:
            warn_renamed(f"{package}.{name}", former[name])
            return getattr(import_module(package), former[name])
        if name not in parts:
            hint = "" if name.startswith("_") else suggestion(name, dir(import_module(package)))
            hint = f"; {hint}" if hint.startswith("did you mean") else ""  # a list of all names would be long
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        module, _, member = parts[name].partition(":")
        imported = import_module(module)
        return getattr(imported, member) if member else imported

    def __dir__() -> list[str]:
        return sorted({*vars(import_module(package)), *parts})

    return __getattr__, __dir__
