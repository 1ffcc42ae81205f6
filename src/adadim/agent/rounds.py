"""A round: the arms to choose from, given with their features or by their names in the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from adadim.agent.arms import Catalogue
from adadim.agent.inputs import LARGEST, checked_costs, checked_name, listed, vector
from adadim.agent.settings import Settings
from adadim.checks import shown
from adadim.errors import InvalidTypeError, InvalidValueError

__all__ = ["Round", "from_catalogue", "given"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Round:
    """Names, own features (K, m) and costs of the arms, None if they cost nothing; and the context before each."""

    names: list[str]
    own: FloatArray
    costs: FloatArray | None = None
    context: FloatArray | None = None

    @cached_property
    def features(self) -> FloatArray:
        """Features (K, d) of the arms with the context before each."""
        if self.context is None:
            return self.own
        return np.column_stack([np.broadcast_to(self.context, (len(self.own), len(self.context))), self.own])

    def in_contexts(self, contexts: list[FloatArray | None]) -> list[Round]:
        """The same arms in each of these contexts, which must have as many numbers as this one's."""
        length = _length(self.context)
        for at, context in enumerate(contexts, 1):
            if _length(context) != length:
                raise InvalidValueError(
                    f"contexts must all have as many numbers: context 1 has {length}, context {at} has "
                    f"{_length(context)}"
                )
        return [replace(self, context=context) for context in contexts]


def given(arms: Mapping[Any, Any], context: FloatArray | None, costs: Any, settings: Settings) -> Round:
    """A round of arms that come with their features; with a context of c numbers, they have `dim` - c each.

    Examples
    --------
    >>> settings = Settings(dim=2, arms=10, seed=0, memory=None, expire_after=None, expired_reward=None)
    >>> given({"a": [1, 0], "b": [0, 1, 0]}, None, None, settings)
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: features of 'b' must be 2 numbers (dim = 2), got 3
    """
    _check_count(len(arms), settings)
    names = [checked_name(name) for name in arms]
    shape = (settings.dim - _length(context),)
    found = list(arms.values())
    own = None
    if all(type(values) is np.ndarray and values.shape == shape and values.dtype == float for values in found):
        own = np.array(found)
    if own is None or not own.size or not np.abs(own).max() <= LARGEST:
        # Lists, or something is wrong: one by one, to say what.
        rows = [vector(values, f"features of {name!r}") for name, values in arms.items()]
        for name, row in zip(names, rows, strict=True):
            _check_length(row, name, context, settings)
        own = np.array(rows)
    return Round(names, own, None if costs is None else checked_costs(costs, names), context)


def from_catalogue(
    catalogue: Catalogue, arms: Any, context: FloatArray | None, costs: Any, settings: Settings
) -> Round:
    """A round of arms of the catalogue, by their names or all that are active."""
    if arms is None:
        chosen = catalogue.active()
        if not chosen:
            raise InvalidValueError(
                "the catalogue has no active arm: give arms to ask({name: features}), or add some by set_arm"
            )
    else:
        asked = listed(arms)
        if asked is None:
            raise InvalidTypeError(f"arms must be a dict from names to features, or names, got {shown(arms)}")
        chosen = [catalogue.get(name) for name in dict.fromkeys(map(checked_name, asked))]
        for arm in chosen:
            if arm.state == "masked":
                raise InvalidValueError(f"arm {arm.name!r} is masked; call unmask_arm, or leave it out")
    _check_count(len(chosen), settings)
    for arm in chosen:
        _check_length(arm.features, arm.name, context, settings)
    names = [arm.name for arm in chosen]
    prices = np.array([arm.cost for arm in chosen])
    if costs is not None:
        other = checked_costs(costs, names)
        prices = np.where([name in costs for name in names], other, prices)
    return Round(names, np.array([arm.features for arm in chosen]), prices if prices.any() else None, context)


def _length(context: FloatArray | None) -> int:
    return 0 if context is None else len(context)


def _check_count(count: int, settings: Settings) -> None:
    if not count:
        raise InvalidValueError("arms must not be empty: name at least one to choose from")
    if count > settings.arms:
        most = settings.arms
        raise InvalidValueError(f"{count} arms are more than the {most} that the agent was created for (arms=)")


def _check_length(own: FloatArray, name: str, context: FloatArray | None, settings: Settings) -> None:
    dim, before = settings.dim, _length(context)
    if len(own) + before != dim:
        rest = f"dim = {dim}" if not before else f"dim = {dim} less the {before} of the context"
        raise InvalidValueError(f"features of {name!r} must be {max(dim - before, 0)} numbers ({rest}), got {len(own)}")
