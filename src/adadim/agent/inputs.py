"""What enters an agent: names, features, costs, rewards and numbers of decisions, checked before any work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from adadim.checks import is_integer, is_number, printable, shown
from adadim.errors import InvalidTypeError, InvalidValueError

__all__ = [
    "LARGEST",
    "LONGEST_NAME",
    "checked_contexts",
    "checked_costs",
    "checked_id",
    "checked_moment",
    "checked_name",
    "checked_pairs",
    "checked_reward",
    "checked_time",
    "listed",
    "vector",
]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

LONGEST_NAME = 200
LARGEST = 1e30  # larger numbers would overflow in the sums of their products, for ever


def checked_name(name: Any) -> str:
    """Name of an arm: a text of 1 to 200 printable characters.

    Examples
    --------
    >>> checked_name("")
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: the name of an arm must be a text of 1 to 200 characters, got ''
    """
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidValueError(
            f"the name of an arm must be a text of 1 to {LONGEST_NAME} characters, got {shown(name)}"
        )
    return name if name.isprintable() else printable(name, "the name of an arm")  # the first is quick, and stricter


def vector(values: Any, name: str) -> FloatArray:
    """Features: a sequence of finite numbers.

    Examples
    --------
    >>> vector([1, float("nan")], "features of 'sku-1'")
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: features of 'sku-1' must be finite, but number 2 is nan
    """
    try:
        given = np.asarray(values)
    except ValueError:
        given = np.empty(0, dtype=object)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iuf":
        raise InvalidTypeError(f"{name} must be a sequence of numbers, got {shown(values)}")
    array: FloatArray = given.astype(np.float64)
    good = np.abs(array) <= LARGEST
    if not good.all():
        at = int(np.flatnonzero(~good)[0])
        wanted = f"at most {LARGEST:g} in size" if np.isfinite(array[at]) else "finite"
        raise InvalidValueError(f"{name} must be {wanted}, but number {at + 1} is {array[at]}")
    return array


def checked_contexts(contexts: Any) -> list[FloatArray | None]:
    """A context for each decision of a batch, None where there is none.

    Examples
    --------
    >>> checked_contexts([[1, 2], None])
    [array([1., 2.]), None]
    """
    rows = None if isinstance(contexts, Mapping) else listed(contexts)
    if rows is None:
        raise InvalidTypeError(f"contexts must be a sequence with a context for each decision, got {shown(contexts)}")
    return [None if row is None else vector(row, f"context {at}") for at, row in enumerate(rows, 1)]


def checked_costs(costs: Any, names: Iterable[str]) -> FloatArray:
    """Cost of each arm, 0 for those that are not named."""
    if not isinstance(costs, Mapping):
        raise InvalidTypeError(f"costs must be a dict from names of arms to numbers, got {shown(costs)}")
    order = list(names)
    for name in costs:
        if name not in order:
            raise InvalidValueError(f"costs name {shown(name)}, which is no arm of this round")
    return np.array([checked_reward(costs.get(name, 0.0), f"cost of {name!r}") for name in order])


def checked_reward(reward: Any, name: str = "reward") -> float:
    """A finite number.

    Examples
    --------
    >>> checked_reward(float("inf"))
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: reward must be a finite number, got inf
    """
    if not is_number(reward) or not math.isfinite(reward):
        raise InvalidValueError(f"{name} must be a finite number, got {shown(reward)}")
    if abs(reward) > LARGEST:
        raise InvalidValueError(f"{name} must be at most {LARGEST:g} in size, got {shown(reward)}")
    return float(reward)


def checked_time(clock: Any) -> float:
    """What a clock says now, in seconds since 1970."""
    if not callable(clock):
        raise InvalidTypeError(f"clock must be a function such as time.time, got {shown(clock)}")
    return checked_reward(clock(), "what clock gives, seconds since 1970,")


def checked_moment(before: Any) -> float:
    """A time in seconds since 1970, also from a datetime."""
    if isinstance(before, datetime):
        before = before.timestamp()
    if not is_number(before) or not math.isfinite(before):
        raise InvalidValueError(f"before must be a time, in seconds since 1970 or a datetime, got {shown(before)}")
    return float(before)


def checked_id(number: Any) -> int:
    """Id of a decision, as `ask` gave it."""
    if not is_integer(number) or not 0 < number < 2**63:
        raise InvalidValueError(f"id must be that of a decision (a whole number from 1), got {shown(number)}")
    return int(number)


def listed(values: Any) -> list[Any] | None:
    """What can be iterated over, as a list; None for the rest and for texts, which are not meant as lists of letters.

    Examples
    --------
    >>> listed(("a", "b")), listed("ab"), listed(np.array(3))
    (['a', 'b'], None, None)
    """
    try:
        return None if isinstance(values, str | bytes) else list(values)
    except TypeError:
        return None


def checked_pairs(answers: Any) -> list[tuple[int, float]]:
    """Ids and rewards: a dict from one to the other, or pairs of them.

    Examples
    --------
    >>> checked_pairs({3: 1, 5: 0.5})
    [(3, 1.0), (5, 0.5)]
    """
    pairs = listed(answers.items() if isinstance(answers, Mapping) else answers)
    if pairs is None:
        raise InvalidTypeError(f"tell_many takes a dict from ids to rewards, or pairs of them, got {shown(answers)}")
    found = []
    for given in pairs:
        pair = listed(given)
        if pair is None or len(pair) != 2:
            raise InvalidTypeError(f"tell_many takes pairs of an id and a reward, got {shown(given)}")
        number, reward = pair
        found.append((checked_id(number), checked_reward(reward, f"reward of decision {number}")))
    return found
