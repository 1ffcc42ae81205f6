"""The machine that makes a page, and the versions of what it runs."""

from __future__ import annotations

import os
import platform
from importlib import metadata

__all__ = ["machine"]

PACKAGES = ("adadim", "numpy", "scipy", "polars", "joblib", "torch")


def machine() -> list[tuple[str, str]]:
    """Pairs of a thing and its version or size; packages that are not installed are left out.

    Examples
    --------
    >>> [name for name, _ in machine()][:3]
    ['adadim', 'numpy', 'scipy']
    """
    found = []
    for package in PACKAGES:
        try:
            found.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            continue
    system = f"{platform.system()} {platform.machine()}"
    return [*found, ("Python", platform.python_version()), ("system", system), ("processor", _processor())]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else platform.processor() or 'unknown'}, {os.cpu_count()} cores"
