"""Checks of what callers give an agent (settings, rewards, times, arms), and the catalogue of arms.

Arms come with their features in the round, or by their names in the catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from adadim.agent.log import Arm, Log, RewardReport, Round, Settings, State, padded
from adadim.core.arrays import FloatArray
from adadim.core.checks import (
    check_fits,
    integer,
    is_integer,
    is_number,
    one_of,
    positive,
    printable,
    shown,
    suggestion,
)
from adadim.core.design import Design, column_names
from adadim.core.randomness import check_seed
from adadim.errors import InvalidTypeError, InvalidValueError

LONGEST_NAME = 200
LARGEST = 1e30  # of features and rewards: the sums of products of larger numbers would overflow
LARGEST_FACTOR = 1e15  # of numbers that are multiplied to make features


def checked_name(name: Any) -> str:
    """Name of an arm: a text of 1 to 200 printable characters."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidValueError(
            f"the name of an arm must be a text of 1 to {LONGEST_NAME} characters, got {shown(name)}"
        )
    return name if name.isprintable() else printable(name, "the name of an arm")  # isprintable is quick, and stricter


def checked_names(names: Iterable[Any]) -> list[str]:
    """Names of arms."""
    texts = list(names)
    lengths = [len(name) if type(name) is str else 0 for name in texts]
    if texts and min(lengths) > 0 and max(lengths) <= LONGEST_NAME and "".join(texts).isprintable():
        return texts  # the usual case, and quick
    return [checked_name(name) for name in texts]


def checked_vector(values: Any, name: str, columns: Sequence[str] = (), largest: float = LARGEST) -> FloatArray:
    """Features: a sequence of finite numbers, or numbers by their columns, where these have names."""
    if columns and isinstance(values, Mapping):
        values = _in_column_order(values, name, columns)
    try:
        numbers = np.asarray(values)
    except ValueError:
        numbers = np.empty(0, dtype=object)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iuf":
        raise InvalidTypeError(f"{name} must be a sequence of numbers, got {shown(values)}")
    array: FloatArray = numbers.astype(np.float64, copy=not isinstance(values, list))
    good = np.abs(array) <= largest
    if not good.all():
        at = int(np.flatnonzero(~good)[0])
        wanted = f"at most {largest:g} in size" if np.isfinite(array[at]) else "finite"
        raise InvalidValueError(f"{name} must be {wanted}, but number {at + 1} is {array[at]}")
    return array


def _in_column_order(values: Mapping[Any, Any], name: str, columns: Sequence[str]) -> list[Any]:
    for column in values:
        if column not in columns:
            raise InvalidValueError(f"{name} has no column {shown(column)}; {suggestion(column, columns)}")
    for column in columns:
        if column not in values:
            raise InvalidValueError(f"{name} must have the column {column!r}, which is missing")
    return [values[column] for column in columns]


def checked_context(context: Any, settings: Settings, name: str = "context") -> FloatArray | None:
    """The context of a decision, None if there is none."""
    design = settings.design
    if design is None:
        return None if context is None else checked_vector(context, name)
    checked = None if context is None else checked_vector(context, name, design.context, LARGEST_FACTOR)
    if _length(checked) != len(design.context):
        text = "none" if checked is None else len(checked)
        raise InvalidValueError(
            f"{name} must be {len(design.context)} numbers, as the agent was created for, got {text}"
        )
    return checked


def checked_contexts(contexts: Any, settings: Settings) -> list[FloatArray | None]:
    """A context for each decision of a batch, None where there is none."""
    rows = None if isinstance(contexts, Mapping) else as_list(contexts)
    if rows is None:
        raise InvalidTypeError(f"contexts must be a sequence with a context for each decision, got {shown(contexts)}")
    if isinstance(contexts, np.ndarray) and contexts.dtype == float and contexts.ndim == 2 and contexts.size:
        wanted = contexts.shape[1] if settings.design is None else len(settings.design.context)
        largest = LARGEST if settings.design is None else LARGEST_FACTOR
        # All at once; if something is wrong, one by one below, to say what.
        if contexts.shape[1] == wanted and np.abs(contexts).max() <= largest:
            return list(contexts.copy())
    return [checked_context(row, settings, f"context {at}") for at, row in enumerate(rows, 1)]


def checked_costs(costs: Any, names: Iterable[str]) -> FloatArray:
    """Cost of each arm, 0 for those that are not named."""
    if not isinstance(costs, Mapping):
        raise InvalidTypeError(f"costs must be a dict from names of arms to numbers, got {shown(costs)}")
    order = list(names)
    for name in costs:
        if name not in order:
            raise InvalidValueError(f"costs name {shown(name)}, which is no arm of this round")
    return np.array([_finite_number(costs.get(name, 0.0), f"cost of {name!r}") for name in order])


def checked_reward(reward: Any, name: str = "reward") -> float:
    """A finite number; True is 1 and False is 0, say for a click."""
    return float(reward) if isinstance(reward, bool | np.bool) else _finite_number(reward, name)


def _finite_number(value: Any, name: str) -> float:
    if not is_number(value) or not math.isfinite(value):
        raise InvalidValueError(f"{name} must be a finite number, got {shown(value)}")
    if abs(value) > LARGEST:
        raise InvalidValueError(f"{name} must be at most {LARGEST:g} in size, got {shown(value)}")
    return float(value)


def checked_time(clock: Any) -> float:
    """The time now by a clock, in seconds since 1970."""
    if not callable(clock):
        raise InvalidTypeError(f"clock must be a function such as time.time, got {shown(clock)}")
    return _finite_number(clock(), "what clock gives, seconds since 1970,")


def checked_moment(before: Any) -> float:
    """A time in seconds since 1970, also from a datetime."""
    if isinstance(before, datetime):
        before = before.timestamp()
    if not is_number(before) or not math.isfinite(before):
        raise InvalidValueError(f"before must be a time, in seconds since 1970 or a datetime, got {shown(before)}")
    return float(before)


class Asked:
    """What `ask` gives, a decision or a slate; it may stand for its id."""

    id: int
    several: ClassVar[bool] = False  # whether it is a slate


def checked_id(asked: Any) -> int:
    """Id of a decision or a slate, from the id or from what `ask` gave."""
    number = asked.id if isinstance(asked, Asked) else asked
    if not is_integer(number) or not 0 < number < 2**63:
        raise InvalidValueError(f"id must be that of a decision (a whole number from 1), got {shown(number)}")
    return int(number)


def as_list(values: Any) -> list[Any] | None:
    """An iterable as a list; None for a text, and for what cannot be iterated over."""
    try:
        return None if isinstance(values, str | bytes) else list(values)
    except TypeError:
        return None


def checked_reports(answers: Any) -> list[RewardReport]:
    """Ids and rewards: a dict from one to the other, or pairs of them; of a slate, a dict from its arms to rewards."""
    pairs = as_list(answers.items() if isinstance(answers, Mapping) else answers)
    if pairs is None:
        raise InvalidTypeError(f"tell_many takes a dict from ids to rewards, or pairs of them, got {shown(answers)}")
    reports: list[RewardReport] = []
    for item in pairs:
        pair = as_list(item)
        if pair is None or len(pair) != 2:
            raise InvalidTypeError(f"tell_many takes pairs of an id and a reward, got {shown(item)}")
        number, reward = pair
        if isinstance(reward, Mapping):
            id, by_arm = checked_id(number), [(checked_name(arm), earned) for arm, earned in reward.items()]
            reports.append((id, {arm: checked_reward(r, f"reward of {arm!r} in slate {id}") for arm, r in by_arm}))
        else:
            id = checked_id(number)
            if isinstance(number, Asked) and number.several:
                raise InvalidTypeError(f"the rewards of a slate are a dict by arm, got {shown(reward)} for slate {id}")
            reports.append((id, checked_reward(reward, f"reward of decision {id}")))
    return reports


def checked_settings(
    dim: Any,
    context: Any,
    arm: Any,
    features: Any,
    arms: Any,
    seed: Any,
    memory: Any,
    expire_after: Any,
    expired_reward: Any,
    keep: Any,
) -> Settings:
    """The settings of a new agent."""
    designs: tuple[Design, ...] = ()
    if dim is None:
        if arm is None:
            raise InvalidValueError("give dim=, the number of features; or context= and arm=, what they are made of")
        designs = (Design.of(0 if context is None else context, arm, features),)
        dim = designs[0].dim
    elif context is not None or arm is not None or features is not None:
        raise InvalidValueError("give either dim= or context=, arm= and features=, from which the agent makes them")
    settings = Settings(
        integer(dim, "dim", meaning="the number of features"),
        integer(arms, "arms", meaning="the largest number of arms in a round"),
        check_seed(seed),
        None if memory is None else positive(memory, "memory", "a half-life in decisions"),
        None if expire_after is None else positive(expire_after, "expire_after", "in seconds"),
        None if expired_reward is None else checked_reward(expired_reward, "expired_reward"),
        one_of(keep, "keep", ("all", "chosen")),
        designs,
    )
    check_fits(32.0 * settings.dim**2, dim=settings.dim)  # the sums, V^-1, a factor and a copy
    if expired_reward is not None and expire_after is None:
        raise InvalidValueError("expired_reward says what expired decisions earn: give expire_after= in seconds too")
    return settings


def setting_differences(there: Settings, here: Settings) -> list[str]:
    """Where the settings of an agent differ from those that a caller gives, each as a phrase."""

    def values(settings: Settings) -> dict[str, Any]:
        plain = {field.name: getattr(settings, field.name) for field in fields(settings) if field.name != "designs"}
        if settings.design is not None:
            del plain["dim"]  # it follows from these
            plain |= {part.name: getattr(settings.design, part.name) for part in fields(settings.design)}
        return plain

    def text(values: Mapping[str, Any], name: str) -> str:
        value = values.get(name, "not given")
        if isinstance(value, tuple):  # names of columns
            return str(len(value)) if value == column_names(len(value), name, 0) else shown(list(value))
        return str(value)

    old, new = values(there), values(here)
    differing = [name for name in {**old, **new} if name not in old or name not in new or old[name] != new[name]]
    return [f"{name} is {text(old, name)} there, {text(new, name)} here" for name in differing]


def appended_settings(settings: Settings, context: Any, arm: Any) -> Settings:
    """Settings with further columns of context and arm."""
    if settings.design is None:
        raise InvalidValueError(
            "this agent takes ready-made features (dim=): only one that was created with context= and arm= can get more"
        )
    design = settings.design.appended(context, arm)
    if design == settings.design:
        raise InvalidValueError("replace_features appends to context= or arm=: give one of them more columns")
    return replace(settings, dim=design.dim, designs=(*settings.designs, design))


# Arms and rounds


def _checked_arm_features(values: Any, name: Any, settings: Settings) -> FloatArray:
    """Features of one arm, without those of the context."""
    if settings.design is None:
        return checked_vector(values, f"features of {name!r}")
    return checked_vector(values, f"features of {name!r}", settings.design.arm, LARGEST_FACTOR)


def checked_catalogue_arms(arms: Any, costs: Any, settings: Settings) -> list[Arm]:
    """Arms for the catalogue, from dicts of features and of costs by name."""
    if not isinstance(arms, Mapping):
        raise InvalidTypeError(f"arms must be a dict from names to features, got {shown(arms)}")
    rows = {checked_name(name): _checked_arm_features(values, name, settings) for name, values in arms.items()}
    prices = checked_costs({} if costs is None else costs, rows).tolist()
    return [Arm(name, row, cost, "active") for (name, row), cost in zip(rows.items(), prices, strict=True)]


class Catalogue:
    """The arms that an agent knows by name, as of the last `refresh`.

    `refresh`, `set_arms` and `change_state` are called in a transaction of the log.
    """

    def __init__(self, log: Log) -> None:
        self.log, self.seq, self.settings = log, 0, log.settings
        self.arms: dict[str, Arm] = {}  # all of them, also retired ones
        self._active: Round | None = None  # a round of all active arms

    def refresh(self) -> None:
        """Read the changes since the last refresh; features that were appended since are 0."""
        changes = self.log.arms(self.seq)
        if not changes and self.settings is self.log.settings:
            return
        arms = self.arms | {arm.name: arm for _, arm in changes}
        settings, last = self.log.settings, changes[-1][0] if changes else self.seq
        if settings.design is not None:
            size = len(settings.design.arm)
            arms = {name: replace(arm, features=padded(arm.features, size)) for name, arm in arms.items()}
        # At the end, without a call in between at which a signal could be noticed: all of it or nothing.
        self.arms, self._active, self.settings, self.seq = arms, None, settings, last

    def not_retired(self) -> dict[str, Arm]:
        """Arms that are not retired, by name."""
        return {name: arm for name, arm in self.arms.items() if arm.state != "retired"}

    def get(self, name: str) -> Arm:
        """An arm that is not retired."""
        arms = self.not_retired()
        if name not in arms:
            reason = "is retired" if name in self.arms else "is not in the catalogue"
            raise InvalidValueError(f"arm {name!r} {reason}; {suggestion(name, list(arms)[:50])}")
        return arms[name]

    def set_arms(self, arms: list[Arm], time: float) -> None:
        """Add or change arms; all must have the same number of features."""
        self.refresh()
        settings, new = self.log.settings, {arm.name for arm in arms}
        dim, design = settings.dim, settings.design
        if design is not None:
            for arm in arms:
                _check_feature_count(arm.features, arm.name, None, settings)
        others = {len(arm.features) for name, arm in self.not_retired().items() if name not in new}
        for arm in arms:
            length = len(arm.features)
            if design is None and length > dim:
                raise InvalidValueError(f"features of {arm.name!r} must be at most dim = {dim} numbers, got {length}")
            if others and length not in others:
                raise InvalidValueError(
                    f"features of {arm.name!r} must be {min(others)} numbers, as those of other arms, got {length}"
                )
            others.add(length)
        self.log.append_arms(arms, time)

    def change_state(self, name: str, state: State, time: float) -> None:
        """Write another state of an arm."""
        self.refresh()
        self.log.append_arms([replace(self.get(name), state=state)], time)

    def round(self, arms: Any, context: FloatArray | None, costs: Any) -> Round:
        """A round of arms of the catalogue, by their names, or of all active ones."""
        if arms is None:
            if self._active is None:
                self._active = self._round_of([arm for arm in self.arms.values() if arm.state == "active"])
            asked = self._active
            if not asked.names:
                raise InvalidValueError(
                    "the catalogue has no active arm: give arms to ask({name: features}), or add some by set_arm"
                )
        else:
            names = as_list(arms)
            if names is None:
                raise InvalidTypeError(f"arms must be a dict from names to features, or names, got {shown(arms)}")
            chosen = [self.get(name) for name in dict.fromkeys(checked_names(names))]
            for arm in chosen:
                if arm.state == "masked":
                    raise InvalidValueError(f"arm {arm.name!r} is masked; call unmask_arm, or leave it out")
            asked = replace(self._round_of(chosen), by_name=True)
        _check_arm_count(len(asked.names), self.log.settings)
        _check_feature_count(asked.arm_features[0], asked.names[0], context, self.log.settings)  # the same in all arms
        prices = asked.costs
        if costs is not None:
            new = checked_costs(costs, asked.names)
            prices = np.where([name in costs for name in asked.names], new, 0.0 if prices is None else prices)
            prices = prices if prices.any() else None
        return Round(asked.names, asked.arm_features, prices, context, asked.design, asked.catalogue, asked.by_name)

    def _round_of(self, arms: list[Arm]) -> Round:
        """A round of these arms, without a context."""
        arm_features = np.array([arm.features for arm in arms])
        prices = np.array([arm.cost for arm in arms])
        costs, design = prices if prices.any() else None, self.log.settings.design
        return Round([arm.name for arm in arms], arm_features, costs, None, design, self.seq)


def round_with_features(arms: Mapping[Any, Any], context: FloatArray | None, costs: Any, settings: Settings) -> Round:
    """A round of arms that come with their features: `dim` less those of the context, or as many as the agent takes."""
    _check_arm_count(len(arms), settings)
    names, rows = checked_names(arms), list(arms.values())
    arm_features, design = None, settings.design
    shape = (settings.dim - _length(context) if design is None else len(design.arm),)
    largest = LARGEST if design is None else LARGEST_FACTOR
    are_arrays = set(map(type, rows)) == {np.ndarray} and {row.dtype for row in rows} == {np.dtype(float)}
    if are_arrays or all(type(row) is list and row and type(row[0]) in (int, float) for row in rows):
        with suppress(ValueError, OverflowError):  # all at once, if they are alike
            matrix = np.array(rows)
            if matrix.shape[1:] == shape and matrix.dtype.kind in "iuf":
                arm_features = matrix.astype(np.float64, copy=False)
    if arm_features is None or not arm_features.size or not np.abs(arm_features).max() <= largest:
        # Other types, or something is wrong: one by one, to say what.
        checked = [_checked_arm_features(values, name, settings) for name, values in arms.items()]
        for name, row in zip(names, checked, strict=True):
            _check_feature_count(row, name, context, settings)
        arm_features = np.array(checked)
    return Round(names, arm_features, None if costs is None else checked_costs(costs, names), context, design)


def in_contexts(asked: Round, contexts: list[FloatArray | None], slots: Any = None) -> list[Round]:
    """A round of the same arms in each of these contexts, which must have as many numbers as that of the round."""
    if slots is not None:
        slots = integer(slots, "slots", most=len(asked.names), meaning="at most one for each arm that is offered")
    length = _length(asked.context)
    for at, context in enumerate(contexts, 1):
        if _length(context) != length:
            raise InvalidValueError(
                f"contexts must all have as many numbers: context 1 has {length}, context {at} has {_length(context)}"
            )
    names, arms, costs, design = asked.names, asked.arm_features, asked.costs, asked.design
    return [Round(names, arms, costs, context, design, asked.catalogue, asked.by_name, slots) for context in contexts]


def _length(context: FloatArray | None) -> int:
    return 0 if context is None else len(context)


def _check_arm_count(count: int, settings: Settings) -> None:
    if not count:
        raise InvalidValueError("arms must not be empty: name at least one to choose from")
    if count > settings.arms:
        most = settings.arms
        raise InvalidValueError(f"{count} arms are more than the {most} that the agent was created for (arms=)")


def _check_feature_count(arm: FloatArray, name: str, context: FloatArray | None, settings: Settings) -> None:
    dim, in_context, count = settings.dim, _length(context), len(arm)
    if settings.design is not None:
        wanted = len(settings.design.arm)
        if count != wanted:
            raise InvalidValueError(
                f"features of {name!r} must be {wanted} numbers, as the agent was created for, got {count}"
            )
    elif count + in_context != dim:
        explanation = f"dim = {dim}" if not in_context else f"dim = {dim} less the {in_context} of the context"
        raise InvalidValueError(
            f"features of {name!r} must be {max(dim - in_context, 0)} numbers ({explanation}), got {count}"
        )
