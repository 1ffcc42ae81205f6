"""The log of an agent: what is in it, and what a database has to offer to keep it.

`adadim.agent.sqlite` keeps a log in a file, `adadim.agent.postgres` in a database that many processes share. Nothing
outside these modules knows which database it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from adadim.agent.statements import LAST_ROW, LearnedRow, Query
from adadim.core.arrays import FloatArray
from adadim.core.columns import Unlisted
from adadim.core.design import Design
from adadim.errors import FileError, InvalidValueError
from adadim.models.fading import MemoryName

ArmState = Literal["active", "masked", "retired"]
Keep = Literal["all", "chosen"]
RewardReport = tuple[int, float | Mapping[str, float]]  # id and reward of a decision; of a slate, rewards by arm

STORED_DTYPE = "<f8"
EMPTY_VECTOR: FloatArray = np.empty(0)


def as_bytes(features: Any) -> bytes:
    """The bytes in which the log stores numbers."""
    return np.ascontiguousarray(features, dtype=STORED_DTYPE).tobytes()


def as_matrix(stored: bytes, columns: int) -> FloatArray:
    """The matrix whose rows were stored one after the other."""
    return np.frombuffer(stored, dtype=STORED_DTYPE).reshape(-1, columns)


def as_vector(stored: bytes) -> FloatArray:
    """The vector whose numbers were stored."""
    return np.frombuffer(stored, dtype=STORED_DTYPE)


def padded(numbers: FloatArray, size: int) -> FloatArray:
    """Numbers with zeros behind them, (..., size)."""
    missing = size - numbers.shape[-1]
    return numbers if missing <= 0 else np.concatenate([numbers, np.zeros((*numbers.shape[:-1], missing))], axis=-1)


@dataclass(frozen=True)
class AgentSettings:
    """The parameters of `Agent.create`, which explains each; only `Agent.replace_features` changes any of them.

    `designs` are all designs that features have been made by, the last of them in force; empty for ready-made features.
    """

    dim: int
    arms: int
    seed: int
    memory: MemoryName
    expire_after: float | None
    expired_reward: float | None
    keep: Keep = "all"
    designs: tuple[Design, ...] = ()
    rewards: str = "gaussian"

    @property
    def design(self) -> Design | None:
        """The design in force; None where features come ready-made."""
        return self.designs[-1] if self.designs else None

    @classmethod
    def from_table(cls, values: Mapping[str, Any]) -> AgentSettings:
        """Settings from plain values; an `InvalidValueError` if one is missing or they do not fit each other."""
        values = {"rewards": "gaussian", **values}  # which agents have that were created without
        names = [field.name for field in fields(cls)]
        for name in names:
            if name not in values:
                raise InvalidValueError(f"the setting {name!r} is missing")
        plain = {name: values[name] for name in names}
        settings = cls(**plain | {"designs": tuple(map(Design.from_table, plain["designs"]))})
        if settings.design is not None and settings.design.dim != settings.dim:
            raise InvalidValueError(f"features of {settings.design.dim} columns do not fit dim = {settings.dim}")
        return settings

    def to_table(self) -> dict[str, Any]:
        """The settings as plain values."""
        table = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.rewards == "gaussian":  # as in files of earlier versions
            del table["rewards"]
        return table | {"designs": [design.to_table() for design in self.designs]}


@dataclass(frozen=True, eq=False)
class Arm:
    """An arm of the catalogue.

    Attributes
    ----------
    name : str
        Its name.
    features : array (m,)
        Its features: `dim` numbers less those of the context.
    cost : float
        What choosing it costs, in units of the reward; it is subtracted from its score.
    state : {"active", "masked", "retired"}
        Whether it may be chosen, may not for the time being, or is gone.
    unlisted : dict, optional
        Values that no level of their category lists, by column.
    values : dict, optional
        Its values by column, as they were given; None where features come ready-made.
    """

    name: str
    features: FloatArray
    cost: float
    state: ArmState
    unlisted: Unlisted | None = None
    values: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Round:
    """What is asked in one round: names, features and costs of the arms, the context, and the design of the features.

    `catalogue` is the version of the catalogue that the arms are from, None where they came with their features;
    `by_name` says whether the caller named them, so that they may not be all of its active arms. `slots` is the length
    of the slate that is asked for, None where one arm is. `unlisted` are values of the context that no level of their
    category lists, and `unlisted_of_arms` those of arms that came with their features, by name.
    """

    names: list[str]
    arm_features: FloatArray  # (K, m), without those of the context
    costs: FloatArray | None = None  # None if no arm costs anything
    context: FloatArray | None = None
    design: Design | None = None
    catalogue: int | None = None
    by_name: bool = False
    slots: int | None = None
    unlisted: Unlisted | None = None
    unlisted_of_arms: Mapping[str, Unlisted] | None = None

    @property
    def decisions(self) -> int:
        """Number of decisions that it takes: one, or one for each slot."""
        return 1 if self.slots is None else self.slots

    @cached_property
    def features(self) -> FloatArray:
        """Features (K, d) of the arms in the context; ready-made ones have the context before each."""
        if self.design is not None:
            context = EMPTY_VECTOR if self.context is None else self.context
            return self.design.build(self.arm_features, context, self.names)
        if self.context is None:
            return self.arm_features
        contexts = np.broadcast_to(self.context, (len(self.arm_features), len(self.context)))
        return np.column_stack([contexts, self.arm_features])

    @property
    def arms(self) -> dict[str, FloatArray]:
        """Features of the arms by name, as `Agent.ask` takes them."""
        return dict(zip(self.names, self.arm_features, strict=True))

    def without(self, names: Collection[str]) -> Round:
        """The same round without the arms of these names."""
        left = [at for at, name in enumerate(self.names) if name not in names]
        costs = None if self.costs is None else self.costs[left]
        return replace(self, names=[self.names[at] for at in left], arm_features=self.arm_features[left], costs=costs)


def features_of(rounds: Sequence[Round]) -> FloatArray | list[FloatArray]:
    """Features (K, d) of the arms in each of several rounds, as one array (n, K, d) where all have as many arms."""
    design, arms = rounds[0].design, rounds[0].arm_features
    if len(rounds) == 1:
        return rounds[0].features[None]
    if design is None or any(r.arm_features is not arms or r.design is not design for r in rounds):
        features = [one.features for one in rounds]
        return features if len(set(map(len, features))) > 1 else np.array(features)
    contexts = np.array([EMPTY_VECTOR if one.context is None else one.context for one in rounds])
    return design.build(arms, contexts[:, None, :], rounds[0].names)


class LoggedDecision(NamedTuple):
    """A decision; `policy` and `asked` are None for one of another system.

    When a decision is written, `asked` is the round that it answers. When it is read, `asked` has the arms among which
    it was chosen: in a slate, those that the earlier slots had left.
    """

    number: int
    time: float
    arm: str | None
    features: FloatArray  # (d,) of the arm chosen in its context
    probability: float | None
    policy: int | None
    asked: Round | None
    reward: float | None = None  # only when it is read; a `Reward` writes one
    draw: int | None = None  # the number of its random stream, as `Log.commit` gave it
    slate: int | None = None  # the number of the first decision of its slate, None where it is in none
    unlisted: Unlisted | None = None  # values of context and arm that no level of their category lists, if any

    def renumbered(self, shift: int) -> LoggedDecision:
        """The same decision with `shift` added to its number and that of its slate."""
        return self._replace(number=self.number + shift, slate=None if self.slate is None else self.slate + shift)


class Reward(NamedTuple):
    """The reward of a decision, and the one that it replaces if it corrects one."""

    number: int
    reward: float
    replaces: float | None = None


class Expiry(NamedTuple):
    """A decision that no longer waits for its reward."""

    number: int


class LogPosition(NamedTuple):
    """How far a log goes: the last decision, the last row of rewards, of expired decisions, of arms and of policies.

    The generation counts compactions and replacements of features: sums of an earlier generation cannot be continued.
    Places that are equal are places of the same log: nothing was written in between.
    """

    generation: int = -1
    number: int = 0
    reward: int = 0
    expired: int = 0
    arm: int = 0
    policy: int = 0

    def rows_since(self, other: LogPosition) -> int:
        """The largest number of rows of decisions, rewards or expired decisions that were added since another place."""
        return max(self.number - other.number, self.reward - other.reward, self.expired - other.expired)


class Snapshot(NamedTuple):
    """Encoded sums over the log up to a place: over answered decisions, over these and the open ones, and the peak."""

    place: LogPosition
    body: bytes
    asked: bytes
    peak: bytes


class PolicyRow(NamedTuple):
    """A version of the policy: the policy and names of levels, both as JSON, the noise, and the share that explores.

    The share is None where no decision explores.
    """

    policy: str
    levels: str | None
    noise: float | None
    explore: float | None


Decide = Callable[[Sequence[int] | None], list[LoggedDecision]]
Event = LoggedDecision | Reward | Expiry | Arm | PolicyRow | LearnedRow
"""What is appended to a log."""


class Log(ABC):
    """The log of one agent, opened by one process: events, a snapshot of the sums over them, and transactions.

    What a store promises:

    - A transaction is written completely or not at all, whatever exception comes and when, and is on disk when it ends.
    - One process writes at a time. A reader sees one state of the log, and does not wait for a writer.
    - Rows are numbered 1, 2, 3, ... in the order of commits and without gaps, and a number is never used again: who has
      read up to a place has seen all rows before it, and reads on from there.
    - Rows are never changed. Only `fold` drops any, and keeps the sums over them.
    - A row that is not what was written is never returned: it is a `FileError`.

    All methods but `transaction`, `commit`, `shrink` and `close` are called in a transaction.
    """

    path: Path | str  # a file, or the address of an agent in a database
    settings: AgentSettings  # as of the last `place`

    @abstractmethod
    def transaction(self, write: bool = True) -> AbstractContextManager[None]:
        """A context in which all is written or nothing."""

    @abstractmethod
    def commit(self, count: int, decide: Decide, then: Callable[[], None]) -> list[LoggedDecision]:
        """Make `count` decisions by `decide`, and write them with what `then` writes; gives them as they are written.

        A store that locks before it decides calls ``decide(None)`` in the transaction that writes: what other processes
        wrote can be read there. One that decides first and checks after calls ``decide(draws)`` before that
        transaction, with the numbers of the random streams of the decisions, none of which is given twice; if other
        processes have decided meanwhile, the decisions get later numbers.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the log."""

    @abstractmethod
    def place(self) -> LogPosition:
        """How far the log goes; the settings are read again where another generation began."""

    @abstractmethod
    def append(self, events: Iterable[Event], time: float) -> None:
        """Write events at a time; decisions have times of their own.

        Decisions of the agent wait from then on, until a reward or an expiry comes; an arm and a policy hold.
        """

    @abstractmethod
    def select(self, query: Query, *values: Any) -> list[Any]:
        """What a query finds, verified: of each row found the rows of its tables, by name, and the further values.

        Where it gives one row or value alone, it is that one.
        """

    @abstractmethod
    def read(self, query: Query, since: int = 0, upto: int = LAST_ROW, long: bool = False) -> Iterator[list[Any]]:
        """What a query finds after one row and up to another, in batches, which are smaller where rows are `long`."""

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """The snapshot; None if there is none or it is damaged."""

    @abstractmethod
    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Write a snapshot in place of the one before."""

    @abstractmethod
    def fold(self, sums: bytes, upto: int = 0, settings: AgentSettings | None = None) -> int:
        """Drop decisions up to a number that do not wait, or replace the settings; a new generation begins.

        `sums` are those over all decisions that were ever dropped. Gives how many were dropped now.
        """

    @abstractmethod
    def check(self, whole: bool = True) -> None:
        """Raise a `FileError` if the log cannot be written, or, with `whole`, is damaged or contradicts itself."""

    @abstractmethod
    def shrink(self) -> None:
        """Free the space of what was dropped."""


def damaged(log: Log, what: str) -> FileError:
    """The error to raise where a log is damaged."""
    return FileError(f"{log.path}: damaged ({what}); restore it from a backup")
