"""What callers give an agent, checked before any work: settings, rewards, times, and the arms to choose from.

Arms come with their features in the round, or by their names in the catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from adadim.agent.log import Arm, FloatArray, Log, Round, Settings, State
from adadim.core.checks import check_fits, integer, is_integer, is_number, positive, printable, shown, suggestion
from adadim.core.randomness import check_seed
from adadim.errors import InvalidTypeError, InvalidValueError

LONGEST_NAME = 200
LARGEST = 1e30  # larger numbers would overflow in the sums of their products, for ever


def checked_name(name: Any) -> str:
    """Name of an arm: a text of 1 to 200 printable characters."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidValueError(
            f"the name of an arm must be a text of 1 to {LONGEST_NAME} characters, got {shown(name)}"
        )
    return name if name.isprintable() else printable(name, "the name of an arm")  # the first is quick, and stricter


def vector(values: Any, name: str) -> FloatArray:
    """Features: a sequence of finite numbers."""
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
    """A context for each decision of a batch, None where there is none."""
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
    """A finite number."""
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
    """What can be iterated over, as a list; None for the rest and for texts, which are not lists of letters here."""
    try:
        return None if isinstance(values, str | bytes) else list(values)
    except TypeError:
        return None


def checked_pairs(answers: Any) -> list[tuple[int, float]]:
    """Ids and rewards: a dict from one to the other, or pairs of them."""
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


def checked_settings(dim: Any, arms: Any, seed: Any, memory: Any, expire_after: Any, expired_reward: Any) -> Settings:
    """What a new agent is created with."""
    settings = Settings(
        integer(dim, "dim", meaning="the number of features"),
        integer(arms, "arms", meaning="the largest number of arms in a round"),
        check_seed(seed),
        None if memory is None else positive(memory, "memory", "a half-life in decisions"),
        None if expire_after is None else positive(expire_after, "expire_after", "in seconds"),
        None if expired_reward is None else checked_reward(expired_reward, "expired_reward"),
    )
    check_fits(32.0 * settings.dim**2, dim=settings.dim)  # the sums, V^-1, a factor and a copy
    if expired_reward is not None and expire_after is None:
        raise InvalidValueError("expired_reward says what expired decisions earn: give expire_after= in seconds too")
    return settings


# The arms to choose from


def checked_arms(arms: Any, costs: Any) -> list[Arm]:
    """Arms for the catalogue, from dicts of features and of costs by name."""
    if not isinstance(arms, Mapping):
        raise InvalidTypeError(f"arms must be a dict from names to features, got {shown(arms)}")
    rows = {checked_name(name): vector(values, f"features of {name!r}") for name, values in arms.items()}
    prices = checked_costs({} if costs is None else costs, rows).tolist()
    return [Arm(name, row, cost, "active") for (name, row), cost in zip(rows.items(), prices, strict=True)]


class Catalogue:
    """The arms that an agent knows by name, as of the last `refresh`; the log is read and written in transactions."""

    def __init__(self, log: Log) -> None:
        self.log, self.seq = log, 0
        self.every: dict[str, Arm] = {}

    def refresh(self) -> None:
        """Take in the changes since the last time."""
        for seq, arm in self.log.arms(self.seq):
            self.every[arm.name], self.seq = arm, seq

    def present(self) -> dict[str, Arm]:
        """Arms that are not retired, by name."""
        return {name: arm for name, arm in self.every.items() if arm.state != "retired"}

    def get(self, name: str) -> Arm:
        """An arm that is not retired."""
        present = self.present()
        if name not in present:
            gone = "is retired" if name in self.every else "is not in the catalogue"
            raise InvalidValueError(f"arm {name!r} {gone}; {suggestion(name, list(present)[:50])}")
        return present[name]

    def set(self, arms: list[Arm], time: float) -> None:
        """Add or change arms; all must have as many features."""
        self.refresh()
        dim, new = self.log.settings.dim, {arm.name for arm in arms}
        others = {len(arm.features) for name, arm in self.present().items() if name not in new}
        for arm in arms:
            length = len(arm.features)
            if length > dim:
                raise InvalidValueError(f"features of {arm.name!r} must be at most dim = {dim} numbers, got {length}")
            if others and length not in others:
                raise InvalidValueError(
                    f"features of {arm.name!r} must be {min(others)} numbers, as those of other arms, got {length}"
                )
            others.add(length)
        self.log.append_arms(arms, time)

    def change(self, name: str, state: State, time: float) -> None:
        """Bring an arm into another state."""
        self.refresh()
        self.log.append_arms([replace(self.get(name), state=state)], time)

    def round(self, arms: Any, context: FloatArray | None, costs: Any) -> Round:
        """A round of arms of the catalogue, by their names or all that are active."""
        if arms is None:
            chosen = [arm for arm in self.every.values() if arm.state == "active"]
            if not chosen:
                raise InvalidValueError(
                    "the catalogue has no active arm: give arms to ask({name: features}), or add some by set_arm"
                )
        else:
            asked = listed(arms)
            if asked is None:
                raise InvalidTypeError(f"arms must be a dict from names to features, or names, got {shown(arms)}")
            chosen = [self.get(name) for name in dict.fromkeys(map(checked_name, asked))]
            for arm in chosen:
                if arm.state == "masked":
                    raise InvalidValueError(f"arm {arm.name!r} is masked; call unmask_arm, or leave it out")
        _check_count(len(chosen), self.log.settings)
        for arm in chosen:
            _check_length(arm.features, arm.name, context, self.log.settings)
        names = [arm.name for arm in chosen]
        prices = np.array([arm.cost for arm in chosen])
        if costs is not None:
            others = checked_costs(costs, names)
            prices = np.where([name in costs for name in names], others, prices)
        return Round(names, np.array([arm.features for arm in chosen]), prices if prices.any() else None, context)


def given_round(arms: Mapping[Any, Any], context: FloatArray | None, costs: Any, settings: Settings) -> Round:
    """A round of arms that come with their features; with a context of c numbers, they have `dim` - c each."""
    _check_count(len(arms), settings)
    names = [checked_name(name) for name in arms]
    shape = (settings.dim - _length(context),)
    own = None
    if all(type(row) is np.ndarray and row.shape == shape and row.dtype == float for row in arms.values()):
        own = np.array(list(arms.values()))
    if own is None or not own.size or not np.abs(own).max() <= LARGEST:
        # Lists, or something is wrong: one by one, to say what.
        rows = [vector(values, f"features of {name!r}") for name, values in arms.items()]
        for name, row in zip(names, rows, strict=True):
            _check_length(row, name, context, settings)
        own = np.array(rows)
    return Round(names, own, None if costs is None else checked_costs(costs, names), context)


def in_contexts(asked: Round, contexts: list[FloatArray | None]) -> list[Round]:
    """The same arms in each of these contexts, which must have as many numbers as that of the round."""
    length = _length(asked.context)
    for at, context in enumerate(contexts, 1):
        if _length(context) != length:
            raise InvalidValueError(
                f"contexts must all have as many numbers: context 1 has {length}, context {at} has {_length(context)}"
            )
    return [replace(asked, context=context) for context in contexts]


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
