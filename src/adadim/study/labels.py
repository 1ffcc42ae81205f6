"""Labels of a study: what a reader should know about its results, as plain tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from adadim.checks import shown
from adadim.errors import StudyError

__all__ = ["check_labels"]


def check_labels(labels: Any) -> dict[str, Any]:
    """A copy of the labels in plain dicts, lists, numbers, strings and booleans; raises if they hold anything else.

    Examples
    --------
    >>> check_labels({"instances": {"easy": {"levels": (2, 4)}}})
    {'instances': {'easy': {'levels': [2, 4]}}}
    """
    if not isinstance(labels, Mapping):
        raise StudyError(f"labels: must be a table, e.g. [labels.instances.NAME] in TOML, got {shown(labels)}")
    copied: dict[str, Any] = _copied(labels, "labels")
    return copied


def _copied(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or not key:
                raise StudyError(f"{where}: keys must be non-empty strings, got {key!r}")
        return {key: _copied(item, f"{where}.{key}") for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_copied(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise StudyError(f"{where}: must be a finite number, a string, a boolean, a list or a table, got {shown(value)}")
