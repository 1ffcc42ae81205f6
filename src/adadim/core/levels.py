"""Levels: named groups of consecutive columns, most basic first."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from adadim.core.arrays import IntArray
from adadim.core.checks import integer, require, shown
from adadim.errors import InvalidTypeError

Levels = Mapping[str, int] | Sequence[int] | None
"""Groups of features: the number of leading features up to the end of each, by name or in a list."""

REST = "rest"  # the level of the columns after the last one named


@dataclass(frozen=True)
class ColumnLevels:
    """The levels of `dim` columns, and the rank of each column in its level.

    Parameters
    ----------
    ends : tuple of (str, int)
        Name of each level, and the number of leading columns up to its end.
    dim : int
        Number of columns. Those after the last level are a level of their own.
    ranks : tuple of int, optional
        Rank of each column in its level, from 1, by which importance may fade; by default its position in the level.

    Examples
    --------
    >>> levels = ColumnLevels.of({"price": 2, "text": 5}, 6)
    >>> list(levels.slices)
    ['price', 'text', 'rest']
    >>> levels.ranks
    (1, 2, 1, 2, 3, 1)
    """

    ends: tuple[tuple[str, int], ...]
    dim: int
    ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.ranks:
            ranks = [k for part in self.slices.values() for k in range(1, part.stop - part.start + 1)]
            object.__setattr__(self, "ranks", tuple(ranks))

    @classmethod
    def of(cls, levels: Mapping[str, int] | Sequence[int], dim: int) -> ColumnLevels:
        """The levels that a caller names."""
        return cls(tuple(checked_levels(levels, dim).items()), dim)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The columns of each level, by name."""
        names, ends = [name for name, _ in self.ends], [end for _, end in self.ends]
        if ends[-1] < self.dim:
            names, ends = [*names, next(name for name in _rest_names() if name not in names)], [*ends, self.dim]
        return {name: slice(a, b) for name, a, b in zip(names, [0, *ends], ends, strict=False)}

    @cached_property
    def rank_array(self) -> IntArray:
        """The rank of each column, (dim,)."""
        return np.array(self.ranks)


def _rest_names() -> Any:
    return itertools.chain([REST], (f"{REST} {k}" for k in itertools.count(2)))


def checked_levels(levels: Mapping[str, int] | Sequence[int], dim: int) -> dict[str, int]:
    """Levels by name, with the number of leading features up to the end of each."""
    if isinstance(levels, Mapping):
        names, ends = [str(name) for name in levels], list(levels.values())
    elif isinstance(levels, str) or not hasattr(levels, "__iter__") or getattr(levels, "ndim", 1) == 0:
        raise InvalidTypeError(f"levels must be a dict or a list of numbers of features, got {shown(levels)}")
    else:
        ends = list(levels)
        names = [f"first {end}" for end in ends]
    require(bool(ends), "levels", 'name at least one group of features, e.g. {"price": 3}', levels)
    for end in ends:
        integer(end, "levels", most=dim, meaning="the number of leading features up to the end of the level")
    require(all(a < b for a, b in itertools.pairwise(ends)), "levels", "increase", levels)
    return dict(zip(names, map(int, ends), strict=True))
