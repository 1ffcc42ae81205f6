"""How much memory this machine has, and whether something can fit into it at all."""

from __future__ import annotations

import os

from adadim.checks import shown
from adadim.errors import InvalidValueError

__all__ = ["GIB", "check_fits", "machine_bytes"]

GIB = 2**30


def machine_bytes() -> float:
    """Bytes of memory of this machine (not those free now: no decision should vary with them)."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 4e9


def check_fits(needed: float, **sizes: int) -> None:
    """Raise an error that names the largest of the sizes if so many bytes cannot fit into memory.

    Examples
    --------
    >>> check_fits(1e18, arms=10**9, dim=100)
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: arms = 1000000000 is too much (with dim = 100): ... GiB are needed, and ...
    """
    have = machine_bytes()
    if needed > have:
        needed = min(needed, 10**300)  # beyond, a float cannot hold it
        name = max(sizes, key=lambda key: sizes[key])
        rest = ", ".join(f"{key} = {shown(value)}" for key, value in sizes.items() if key != name)
        with_rest = f" (with {rest})" if rest else ""
        raise InvalidValueError(
            f"{name} = {shown(sizes[name])} is too much{with_rest}: {needed / GIB:.3g} GiB are needed, "
            f"and this machine has {have / GIB:.3g}; make it smaller"
        )
