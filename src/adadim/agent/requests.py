"""Checks of what callers give an agent (settings, rewards, times, arms), and the catalogue of arms.

Arms come with their features in the round, or by their names in the catalogue.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, ClassVar, Final, Literal, NamedTuple, cast

import numpy as np

from adadim.agent.log import AgentSettings, Arm, ArmState, Log, LogPosition, RewardReport, Round, padded
from adadim.agent.reading import arm_changes
from adadim.core.arrays import FloatArray
from adadim.core.checks import (
    LARGEST_INTEGER,
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
from adadim.core.columns import LARGEST_FACTOR, MAX_NAME_LENGTH, Coding, Column, Unlisted, declared_columns
from adadim.core.design import Design
from adadim.core.frames import column_values, frame_columns, is_frame, is_series
from adadim.core.randomness import check_seed
from adadim.core.rewards import KINDS, checked_kind
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.models.fading import MemoryName, checked_memory
from adadim.models.memory import HALF_LIVES, RECENT_REWARDS

MAX_MAGNITUDE = 1e30  # of features and rewards: the sums of products of larger numbers would overflow
LARGEST_DIM_OF_AUTO = 1000  # features up to which an agent finds its memory if it is not told otherwise
LARGEST_VALUE = 1e9  # bytes that a store takes in one value
TEXTS, TRUTH_VALUES = (str, bytes), (bool, np.bool)
PLAIN_ROWS = {list, tuple, dict, np.ndarray}  # types of rows that are no frame and no Series


class _ByDefault(str):
    """A text that can be told from an equal one of the caller."""


MEMORY_BY_DEFAULT: Final = cast(Literal["auto"], _ByDefault("auto"))


def checked_name(name: Any) -> str:
    """Name of an arm: a text of 1 to 200 printable characters."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise InvalidValueError(
            f"the name of an arm must be a text of 1 to {MAX_NAME_LENGTH} characters, got {shown(name)}"
        )
    return name if name.isprintable() else printable(name, "the name of an arm")  # isprintable is quick, and stricter


def arm_names(names: Iterable[Any]) -> list[str]:
    """Names of arms."""
    texts = list(names)
    lengths = [len(name) if type(name) is str else 0 for name in texts]
    if texts and min(lengths) > 0 and max(lengths) <= MAX_NAME_LENGTH and "".join(texts).isprintable():
        return texts  # the usual case, and quick
    return [checked_name(name) for name in texts]


class Coded(NamedTuple):
    """The numbers of a context or an arm, None if there are none, and its values that no level of a category lists."""

    numbers: FloatArray | None
    unlisted: Unlisted | None = None


def checked_vector(values: Any, name: str, largest: float = MAX_MAGNITUDE) -> FloatArray:
    """Features: a sequence of finite numbers."""
    numbers = _as_array(values)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iuf":
        raise InvalidTypeError(f"{name} must be a sequence of numbers, got {shown(values)}")
    array: FloatArray = numbers.astype(np.float64, copy=not isinstance(values, list))
    good = np.abs(array) <= largest
    if not good.all():
        at = int(np.flatnonzero(~good)[0])
        wanted = f"at most {largest:g} in size" if np.isfinite(array[at]) else "finite"
        raise InvalidValueError(f"{name} must be {wanted}, but number {at + 1} is {array[at]}")
    return array


def checked_values(values: Any, name: str, coding: Coding | None) -> Coded:
    """A context or an arm as numbers: from values by column, in a dict, a Series or a frame of one row, or in order.

    Without a coding they are ready-made features, which have no names.
    """
    if type(values) not in PLAIN_ROWS:
        values = _one_row(values, name, coding is not None and coding.has_names)
    if coding is None:
        return Coded(checked_vector(values, name))
    if isinstance(values, Mapping):
        coding.check_names(list(values), name)
        values = [values[column] for column in coding.given]
    if coding.is_plain or isinstance(values, np.ndarray):
        numbers = _as_array(values)
        # All at once; if something is wrong, column by column below, to say what. Arms of an agent have their numbers.
        if numbers.dtype.kind in "iuf" and numbers.ndim == 1 and (coding.is_plain or len(numbers) == len(coding.names)):
            array: FloatArray = numbers.astype(np.float64, copy=not isinstance(values, list))
            if (np.abs(array) <= LARGEST_FACTOR).all():
                return Coded(array)
    row = as_list(values)
    if row is None or (coding.is_plain and len(row) != len(coding.given)):
        return Coded(checked_vector(values, name, LARGEST_FACTOR))
    if len(row) != len(coding.given):
        wanted = f"{len(coding.given)} values ({shown(coding.given)})"
        raise InvalidValueError(f"{name} must be {wanted}, as the agent was created for, got {len(row)}")
    coded, unlisted = coding.code({c: [v] for c, v in zip(coding.given, row, strict=True)}, 1, lambda _: name)
    return Coded(coded[0], unlisted[0] or None)


def _as_array(values: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(values)
    except ValueError:
        return np.empty(0, dtype=object)


def _one_row(values: Any, name: str, by_name: bool) -> Any:
    """A Series as a dict, if it is labelled and columns have names, and a frame of one row likewise; others as is."""
    if is_frame(values):
        if len(values) != 1:
            raise InvalidValueError(
                f"{name} must be one row, got {shown(values)}; ask_many takes a frame of contexts, set_arms one of arms"
            )
        row = {column: series.to_list()[0] for column, series in frame_columns(values, name).items()}
        return row if by_name else list(row.values())
    if is_series(values):
        labels = list(getattr(values, "index", ()))
        if by_name and labels and all(isinstance(label, str) for label in labels):
            if len(set(labels)) < len(labels):
                raise InvalidValueError(f"labels of {name} must be different, got {shown(labels)}")
            return dict(zip(labels, values.to_list(), strict=True))
        return column_values(values)
    return values


def _coded_frame(
    columns: dict[str, Any], part: str, where: Callable[[int], str], settings: AgentSettings
) -> list[Coded]:
    """Each row of the columns of a frame, which are contexts or arms, as numbers."""
    design, largest = settings.design, LARGEST_FACTOR
    if design is None:
        names, largest = tuple(columns), MAX_MAGNITUDE
        coding = Coding(tuple(map(Column, names)), names)
    else:
        coding = design.context_coding if part == "context" else design.arm_coding
        if not coding.has_names and len(columns) == len(coding.given):
            columns = dict(zip(coding.given, columns.values(), strict=True))
        coding.check_names(list(columns), part)
    values = {name: column_values(column) for name, column in columns.items()}
    count = len(next(iter(values.values()))) if values else 0
    coded, unlisted = coding.code(values, count, where, largest)
    return [Coded(row, new or None) for row, new in zip(coded, unlisted, strict=True)]


def checked_context(context: Any, settings: AgentSettings, name: str = "context") -> Coded:
    """The context of a decision."""
    design = settings.design
    coding = None if design is None else design.context_coding
    checked = Coded(None) if context is None else checked_values(context, name, coding)
    if design is not None and _length(checked.numbers) != len(design.context):
        text = "none" if checked.numbers is None else len(checked.numbers)
        raise InvalidValueError(
            f"{name} must be {len(design.context)} numbers, as the agent was created for, got {text}"
        )
    return checked


def checked_contexts(contexts: Any, settings: AgentSettings) -> list[Coded]:
    """A context for each decision of a batch."""
    if is_frame(contexts):
        return _coded_frame(frame_columns(contexts, "contexts"), "context", lambda at: f"context {at + 1}", settings)
    rows = None if isinstance(contexts, Mapping) else as_list(contexts)
    if rows is None:
        raise InvalidTypeError(f"contexts must be a sequence with a context for each decision, got {shown(contexts)}")
    if isinstance(contexts, np.ndarray) and contexts.dtype == float and contexts.ndim == 2 and contexts.size:
        wanted = contexts.shape[1] if settings.design is None else len(settings.design.context)
        largest = MAX_MAGNITUDE if settings.design is None else LARGEST_FACTOR
        # All at once; if something is wrong, one by one below, to say what.
        if contexts.shape[1] == wanted and np.abs(contexts).max() <= largest:
            return [Coded(row) for row in contexts.copy()]
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


def checked_reward(reward: Any, name: str = "reward", rewards: str = "gaussian") -> float:
    """A finite number that rewards of this kind can be; True is 1 and False is 0, say for a click."""
    if isinstance(reward, TRUTH_VALUES):
        return float(reward)
    number = _finite_number(reward, name)
    KINDS[rewards].check(number, name)
    return number


def _finite_number(value: Any, name: str) -> float:
    if type(value) is float and abs(value) <= MAX_MAGNITUDE:  # the usual case, and quick
        return value
    if not is_number(value) or not math.isfinite(value):
        raise InvalidValueError(f"{name} must be a finite number, got {shown(value)}")
    if abs(value) > MAX_MAGNITUDE:
        raise InvalidValueError(f"{name} must be at most {MAX_MAGNITUDE:g} in size, got {shown(value)}")
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
    if not is_integer(number) or not 0 < number <= LARGEST_INTEGER:
        raise InvalidValueError(f"id must be that of a decision (a whole number from 1), got {shown(number)}")
    return int(number)


def as_list(values: Any) -> list[Any] | None:
    """An iterable as a list; None for a text, and for what cannot be iterated over."""
    try:
        return None if isinstance(values, TEXTS) else list(values)
    except TypeError:
        return None


def checked_reports(answers: Any, rewards: str = "gaussian") -> list[RewardReport]:
    """Ids and rewards: a dict from one to the other, or pairs of them; of a slate, a dict from its arms to rewards."""
    pairs = as_list(answers.items() if type(answers) is not list and isinstance(answers, Mapping) else answers)
    if pairs is None:
        raise InvalidTypeError(f"tell_many takes a dict from ids to rewards, or pairs of them, got {shown(answers)}")
    reports: list[RewardReport] = []
    for item in pairs:
        pair = item if type(item) is tuple else as_list(item)
        if pair is None or len(pair) != 2:
            raise InvalidTypeError(f"tell_many takes pairs of an id and a reward, got {shown(item)}")
        number, reward = pair
        if type(reward) is not float and isinstance(reward, Mapping):
            id, by_arm = checked_id(number), [(checked_name(arm), earned) for arm, earned in reward.items()]
            checked = {arm: checked_reward(r, f"reward of {arm!r} in slate {id}", rewards) for arm, r in by_arm}
            reports.append((id, checked))
        else:
            id = checked_id(number)
            if isinstance(number, Asked) and number.several:
                raise InvalidTypeError(f"the rewards of a slate are a dict by arm, got {shown(reward)} for slate {id}")
            reports.append((id, checked_reward(reward, f"reward of decision {id}", rewards)))
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
    missing: Any = "error",
    rewards: Any = "gaussian",
) -> AgentSettings:
    """The settings of a new agent."""
    designs: tuple[Design, ...] = ()
    if dim is None:
        if arm is None:
            raise InvalidValueError("give dim=, the number of features; or context= and arm=, what they are made of")
        designs = (Design.of(0 if context is None else context, arm, features, missing),)
        dim = designs[0].dim
    elif context is not None or arm is not None or features is not None:
        raise InvalidValueError("give either dim= or context=, arm= and features=, from which the agent makes them")
    elif missing != "error":
        raise InvalidValueError("missing= is for columns of context= and arm=: ready-made features (dim=) have none")
    dim = integer(dim, "dim", meaning="the number of features")
    settings = AgentSettings(
        dim,
        integer(arms, "arms", meaning="the largest number of arms in a round"),
        check_seed(seed),
        _memory_of(memory, dim),
        None if expire_after is None else positive(expire_after, "expire_after", "in seconds"),
        None if expired_reward is None else checked_reward(expired_reward, "expired_reward", rewards),
        one_of(keep, "keep", ("all", "chosen")),
        designs,
        checked_kind(rewards),
    )
    _check_sums_fit(settings.dim, settings.memory)
    if expired_reward is not None and expire_after is None:
        raise InvalidValueError("expired_reward says what expired decisions earn: give expire_after= in seconds too")
    return settings


def _memory_of(memory: Any, dim: int) -> MemoryName:
    """The memory of a new agent."""
    return None if memory is MEMORY_BY_DEFAULT and dim > LARGEST_DIM_OF_AUTO else checked_memory(memory)


def _check_sums_fit(dim: int, memory: MemoryName) -> None:
    """Raise unless the sums of an agent fit into memory, and into values of its log."""
    sums, half_lives, recent = 8.0 * dim**2, 2 * len(HALF_LIVES), 8.0 * RECENT_REWARDS * dim
    banks = half_lives * sums + recent if memory == "auto" else 0.0  # sums of compacted decisions, and the bank
    check_fits(4 * sums + banks, dim=dim)  # the sums, V^-1, a factor and a copy
    if sums > LARGEST_VALUE:
        raise InvalidValueError(
            f"an agent keeps the sums over its features as one value of its log, which has room for up to "
            f"{math.isqrt(int(LARGEST_VALUE / 8.0))} features, and there are {dim}: give it the most basic of them"
        )
    if banks > LARGEST_VALUE:
        half = RECENT_REWARDS / (2 * half_lives)
        largest = int(math.sqrt(LARGEST_VALUE / (8.0 * half_lives) + half**2) - half)
        raise InvalidValueError(
            f"memory='auto' keeps the sums of {len(HALF_LIVES)} half-lives, which fit into the log for up to {largest} "
            f"features, and there are {dim}: give a half-life in decisions, or None to forget nothing"
        )


def setting_differences(there: AgentSettings, here: AgentSettings) -> list[str]:
    """Where the settings of an agent differ from those that a caller gives, each as a phrase."""

    def values(settings: AgentSettings) -> dict[str, Any]:
        plain = {field.name: getattr(settings, field.name) for field in fields(settings) if field.name != "designs"}
        if settings.design is not None:
            del plain["dim"]  # it follows from these
            context, arm = settings.design.context_columns, settings.design.arm_columns
            plain |= {"context": context, "arm": arm, "features": settings.design.features}
        return plain

    def text(values: Mapping[str, Any], name: str) -> str:
        value = values.get(name, "not given")
        if isinstance(value, tuple):
            return str(len(value)) if value == declared_columns(len(value), name, 0) else shown(list(map(str, value)))
        return str(value)

    old, new = values(there), values(here)
    differing = [name for name in {**old, **new} if name not in old or name not in new or old[name] != new[name]]
    return [f"{name} is {text(old, name)} there, {text(new, name)} here" for name in differing]


def appended_settings(settings: AgentSettings, context: Any, arm: Any, missing: Any = "error") -> AgentSettings:
    """Settings with further columns of context and arm, or further values of their categories."""
    if settings.design is None:
        raise InvalidValueError(
            "this agent takes ready-made features (dim=): only one that was created with context= and arm= can get more"
        )
    design = settings.design.appended(context, arm, missing)
    if design == settings.design:
        raise InvalidValueError("replace_features appends to context= or arm=: give one of them more columns")
    _check_sums_fit(design.dim, settings.memory)
    return replace(settings, dim=design.dim, designs=(*settings.designs, design))


# Arms and rounds


def _checked_arm(values: Any, name: Any, settings: AgentSettings) -> tuple[FloatArray, Unlisted | None]:
    """Numbers of one arm, without those of the context, and its values that no level of a category lists."""
    coding = None if settings.design is None else settings.design.arm_coding
    coded = values if isinstance(values, Coded) else checked_values(values, f"features of {name!r}", coding)
    assert coded.numbers is not None
    return coded.numbers, coded.unlisted


def arms_of_frame(
    frame: Any, settings: AgentSettings, name: Any = None, costs: Any = None
) -> tuple[dict[str, Coded], Any]:
    """Arms of a frame by name, and their costs; names are in the column `name`, or in the index of pandas."""
    columns = frame_columns(frame, "arms")

    def taken(column: Any, parameter: str) -> list[Any]:
        if column not in columns:
            near = suggestion(column, columns)
            raise InvalidValueError(f"{parameter} must be a column of the frame of arms, got {shown(column)}; {near}")
        return list(columns[column].to_list())

    own = [] if settings.design is None else settings.design.arm_coding.given
    if name is not None:
        names = taken(name, "name")
    elif type(getattr(frame, "index", None)).__name__ in ("NoneType", "RangeIndex"):
        raise InvalidValueError(
            "a frame of arms must have their names: as the index of pandas, or in a column, set_arms(frame, "
            f"name='sku'); contexts go to context= or ask_many; got {shown(frame)}"
        )
    else:
        names = frame.index.to_list()
    prices = costs
    if isinstance(costs, str):
        prices = taken(costs, "costs")
    for column in (name, costs):
        if isinstance(column, str) and column not in own:
            del columns[column]
    texts = arm_names(str(text) if is_integer(text) else text for text in names)
    repeated = [text for text, count in Counter(texts).items() if count > 1]
    if repeated:
        raise InvalidValueError(f"names of arms must be different, but {repeated[0]!r} is in two rows of the frame")
    rows = _coded_frame(columns, "arm", lambda at: f"features of {texts[at]!r}", settings)
    by_name = dict(zip(texts, rows, strict=True))
    return by_name, dict(zip(texts, prices, strict=True)) if isinstance(costs, str) else prices


def checked_catalogue_arms(arms: Any, costs: Any, settings: AgentSettings, name: Any = None) -> list[Arm]:
    """Arms for the catalogue, from dicts of features and of costs by name, or from a frame with a row for each."""
    if is_frame(arms):
        arms, costs = arms_of_frame(arms, settings, name, costs)
    elif not isinstance(arms, Mapping):
        raise InvalidTypeError(f"arms must be a dict from names to features, or a frame, got {shown(arms)}")
    elif name is not None:
        raise InvalidValueError(f"name= is the column of a frame that has the names of arms, got a dict and {name!r}")
    rows = {checked_name(arm): _checked_arm(values, arm, settings) for arm, values in arms.items()}
    prices = checked_costs({} if costs is None else costs, rows).tolist()
    return [
        Arm(arm, numbers, cost, "active", unlisted)
        for (arm, (numbers, unlisted)), cost in zip(rows.items(), prices, strict=True)
    ]


class Catalogue:
    """The arms that an agent knows by name, as of the last `refresh`.

    `refresh`, `set_arms` and `change_state` are called in a transaction of the log.
    """

    def __init__(self, log: Log) -> None:
        self.log, self.seq, self.settings = log, 0, log.settings
        self.arms: dict[str, Arm] = {}  # all of them, also retired ones
        self._active: Round | None = None  # a round of all active arms

    def refresh(self, place: LogPosition) -> None:
        """Read the changes up to a place of the log, since the last refresh; features appended since are 0."""
        if place.arm == self.seq and self.settings is self.log.settings:
            return
        changes = arm_changes(self.log, self.seq)
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
        self.refresh(self.log.place())
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
        self.log.append(arms, time)

    def change_state(self, name: str, state: ArmState, time: float) -> None:
        """Write another state of an arm."""
        self.refresh(self.log.place())
        self.log.append([replace(self.get(name), state=state)], time)

    def round(self, arms: Any, context: Coded, costs: Any) -> Round:
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
            chosen = [self.get(name) for name in dict.fromkeys(arm_names(names))]
            for arm in chosen:
                if arm.state == "masked":
                    raise InvalidValueError(f"arm {arm.name!r} is masked; call unmask_arm, or leave it out")
            asked = replace(self._round_of(chosen), by_name=True)
        _check_arm_count(len(asked.names), self.log.settings)
        # The same in all arms.
        _check_feature_count(asked.arm_features[0], asked.names[0], context.numbers, self.log.settings)
        prices = asked.costs
        if costs is not None:
            new = checked_costs(costs, asked.names)
            prices = np.where([name in costs for name in asked.names], new, 0.0 if prices is None else prices)
            prices = prices if prices.any() else None
        return replace(asked, costs=prices, context=context.numbers, unlisted=context.unlisted)

    def _round_of(self, arms: list[Arm]) -> Round:
        """A round of these arms, without a context."""
        arm_features = np.array([arm.features for arm in arms])
        prices = np.array([arm.cost for arm in arms])
        costs, design = prices if prices.any() else None, self.log.settings.design
        return Round([arm.name for arm in arms], arm_features, costs, None, design, self.seq)


def round_with_features(arms: Mapping[Any, Any], context: Coded, costs: Any, settings: AgentSettings) -> Round:
    """A round of arms that come with their features: `dim` less those of the context, or as many as the agent takes."""
    _check_arm_count(len(arms), settings)
    names, rows = arm_names(arms), list(arms.values())
    arm_features, design, unlisted = None, settings.design, {}
    shape = (settings.dim - _length(context.numbers) if design is None else len(design.arm),)
    largest = MAX_MAGNITUDE if design is None else LARGEST_FACTOR
    are_arrays = set(map(type, rows)) == {np.ndarray} and {row.dtype for row in rows} == {np.dtype(float)}
    if are_arrays or all(type(row) is list and row and type(row[0]) in (int, float) for row in rows):
        with suppress(ValueError, OverflowError):  # all at once, if they are alike
            matrix = np.array(rows)
            if matrix.shape[1:] == shape and matrix.dtype.kind in "iuf":
                arm_features = matrix.astype(np.float64, copy=False)
    if arm_features is None or not arm_features.size or not np.abs(arm_features).max() <= largest:
        # Other types, or something is wrong: one by one, to say what.
        checked = {name: _checked_arm(values, name, settings) for name, values in arms.items()}
        for name, (row, new) in checked.items():
            _check_feature_count(row, name, context.numbers, settings)
            if new is not None:
                unlisted[name] = new
        arm_features = np.array([row for row, _ in checked.values()])
    prices = None if costs is None else checked_costs(costs, names)
    return Round(
        names,
        arm_features,
        prices,
        context.numbers,
        design,
        unlisted=context.unlisted,
        unlisted_of_arms=unlisted or None,
    )


def in_contexts(asked: Round, contexts: list[Coded], slots: Any = None) -> list[Round]:
    """A round of the same arms in each of these contexts, which must have as many numbers as that of the round."""
    if slots is not None:
        slots = integer(slots, "slots", most=len(asked.names), meaning="at most one for each arm that is offered")
    length = _length(asked.context)
    for at, (numbers, _) in enumerate(contexts, 1):
        if _length(numbers) != length:
            raise InvalidValueError(
                f"contexts must all have as many numbers: context 1 has {length}, context {at} has {_length(numbers)}"
            )
    names, arms, costs, design = asked.names, asked.arm_features, asked.costs, asked.design
    catalogue, by_name, of_arms = asked.catalogue, asked.by_name, asked.unlisted_of_arms
    return [
        Round(names, arms, costs, numbers, design, catalogue, by_name, slots, unlisted, of_arms)
        for numbers, unlisted in contexts
    ]


def _length(context: FloatArray | None) -> int:
    return 0 if context is None else len(context)


def _check_arm_count(count: int, settings: AgentSettings) -> None:
    if not count:
        raise InvalidValueError("arms must not be empty: name at least one to choose from")
    if count > settings.arms:
        most = settings.arms
        raise InvalidValueError(f"{count} arms are more than the {most} that the agent was created for (arms=)")


def _check_feature_count(arm: FloatArray, name: str, context: FloatArray | None, settings: AgentSettings) -> None:
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
