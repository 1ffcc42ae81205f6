"""The likelihoods and memories that the parameters `likelihood` and `memory` of a policy name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adadim.core.checks import one_of, positive
from adadim.models.fading import FoundHalfLife, HalfLife
from adadim.models.likelihoods import BERNOULLI
from adadim.models.parts import Likelihood, Memory

MemoryName = float | str | None
"""A half-life in decisions, the name of a memory ("auto": the data find the half-life), or None to forget nothing."""

LIKELIHOODS: dict[str, Likelihood] = {one.kind.name: one for one in (Likelihood(), BERNOULLI)}
MEMORIES: dict[str, Callable[[], Memory]] = {"auto": FoundHalfLife}


def likelihood_of(named: str | Likelihood) -> Likelihood:
    """A likelihood, by its name or as it is."""
    return named if isinstance(named, Likelihood) else LIKELIHOODS[named]


def memory_of(named: MemoryName | Memory) -> Memory:
    """A memory for one model, by a half-life in decisions, by its name, as it is, or one that forgets nothing."""
    if named is None:
        return Memory()
    if isinstance(named, str):
        return MEMORIES[named]()
    return named if isinstance(named, Memory) else HalfLife(named)


def checked_likelihood(value: Any, name: str = "likelihood") -> str:
    """Raise unless `value` is the name of a likelihood."""
    return str(one_of(value, name, tuple(LIKELIHOODS)))


def checked_memory(value: Any, name: str = "memory") -> MemoryName:
    """Raise unless `value` is a half-life, the name of a memory, or None."""
    if value is None or (isinstance(value, str) and value in MEMORIES):
        return value
    return float(positive(value, name, "a half-life in decisions, 'auto' to find it, or None to forget nothing"))
