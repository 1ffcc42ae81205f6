"""The log of an agent: what is in it, and what a database has to offer to keep it.

`adadim.agent.sqlite` keeps a log in a file, `adadim.agent.postgres` in a database that many processes share. Nothing
outside these modules knows which database it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.core.checks import shown, suggestion
from adadim.core.design import Design
from adadim.errors import DecisionError, FileError, InvalidValueError, UnknownDecisionError

BoolArray = np.ndarray[Any, np.dtype[np.bool]]
State = Literal["active", "masked", "retired"]
Kind = Literal["waiting", "expired", "rewards", "answered"]
Keep = Literal["all", "chosen"]
Told = tuple[int, float | Mapping[str, float]]  # a decision and its reward, or a slate and rewards by arm
Found = tuple[bool, float | None] | None  # whether a decision waits, and its reward; None if it is not in the log

STORED = "<f8"
NOTHING: FloatArray = np.empty(0)


def as_bytes(features: Any) -> bytes:
    """Numbers as they are stored."""
    return np.ascontiguousarray(features, dtype=STORED).tobytes()


def as_matrix(stored: bytes, columns: int) -> FloatArray:
    """Rows of numbers that were stored one after the other."""
    return np.frombuffer(stored, dtype=STORED).reshape(-1, columns)


def as_vector(stored: bytes) -> FloatArray:
    """Numbers that were stored."""
    return np.frombuffer(stored, dtype=STORED)


def padded(numbers: FloatArray, size: int) -> FloatArray:
    """Numbers with zeros behind them, (..., size)."""
    missing = size - numbers.shape[-1]
    return numbers if missing <= 0 else np.concatenate([numbers, np.zeros((*numbers.shape[:-1], missing))], axis=-1)


@dataclass(frozen=True)
class Settings:
    """What `Agent.create` was given, where each is explained; only `Agent.replace_features` changes any of it.

    `designs` are what features have been made of so far, the last of them what holds; none where they come ready-made.
    """

    dim: int
    arms: int
    seed: int
    memory: float | None
    expire_after: float | None
    expired_reward: float | None
    keep: Keep = "all"
    designs: tuple[Design, ...] = ()

    @property
    def design(self) -> Design | None:
        """What features are made of."""
        return self.designs[-1] if self.designs else None

    @classmethod
    def from_table(cls, values: Mapping[str, Any]) -> Settings:
        """Settings from plain values; an `InvalidValueError` if they are none."""
        names = [field.name for field in fields(cls)]
        for name in names:
            if name not in values:
                raise InvalidValueError(f"the setting {name!r} is missing")
        plain = {name: values[name] for name in names}
        settings = cls(**plain | {"designs": tuple(map(Design.from_table, plain["designs"]))})
        if settings.design is not None and settings.design.dim != settings.dim:
            raise InvalidValueError(f"features of {settings.design.dim} columns do not fit dim = {settings.dim}")
        return settings


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
    """

    name: str
    features: FloatArray
    cost: float
    state: State


class ArmVersions:
    """Every version of the arms of a catalogue, by the row of the change that made it."""

    def __init__(self) -> None:
        self.last = 0
        self._versions: dict[str, list[tuple[int, Arm]]] = {}
        self._active: tuple[int, list[Arm]] = (0, [])

    def add(self, seq: int, arm: Arm) -> None:
        """Take in a change, which comes after those before."""
        self._versions.setdefault(arm.name, []).append((seq, arm))
        self.last = seq

    def arm(self, name: str, version: int) -> Arm | None:
        """An arm as it was in a version of the catalogue; None if it was not there yet."""
        for seq, arm in reversed(self._versions.get(name, ())):
            if seq <= version:
                return arm
        return None

    def active(self, version: int) -> list[Arm]:
        """The arms that could be chosen in a version, in the order of a round over the catalogue."""
        if self._active[0] != version:
            arms = [self.arm(name, version) for name in self._versions]
            self._active = version, [arm for arm in arms if arm is not None and arm.state == "active"]
        return self._active[1]


@dataclass(frozen=True, eq=False)
class Round:
    """Names, own features (K, m) and costs of the arms, None if they cost nothing; the context, and what both make.

    `catalogue` is the version of the catalogue that the arms are from, None where they came with their features, and
    `some` says whether they were named, and may not be all of its active arms. `slots` are those of the slate that is
    asked for, None where one arm is.
    """

    names: list[str]
    own: FloatArray
    costs: FloatArray | None = None
    context: FloatArray | None = None
    design: Design | None = None
    catalogue: int | None = None
    some: bool = False
    slots: int | None = None

    @property
    def decisions(self) -> int:
        """How many decisions answer it."""
        return 1 if self.slots is None else self.slots

    @cached_property
    def features(self) -> FloatArray:
        """Features (K, d) of the arms in the context; ready-made ones have the context before each."""
        if self.design is not None:
            return self.design.build(self.own, NOTHING if self.context is None else self.context, self.names)
        if self.context is None:
            return self.own
        return np.column_stack([np.broadcast_to(self.context, (len(self.own), len(self.context))), self.own])

    @property
    def description(self) -> str | None:
        """What features are made of, as JSON; None if they come ready-made."""
        return None if self.design is None else self.design.to_json()

    @property
    def arms(self) -> dict[str, FloatArray]:
        """The arms' own features by name, as `Agent.ask` takes them."""
        return dict(zip(self.names, self.own, strict=True))

    def without(self, names: Collection[str]) -> Round:
        """What is left of it without some of its arms."""
        left = [at for at, name in enumerate(self.names) if name not in names]
        costs = None if self.costs is None else self.costs[left]
        return replace(self, names=[self.names[at] for at in left], own=self.own[left], costs=costs)


def features_of(rounds: Sequence[Round]) -> FloatArray | list[FloatArray]:
    """Features (K, d) of the arms in each of several rounds; (n, K, d) where the same arms are in many contexts."""
    first = rounds[0]
    design, own = first.design, first.own
    if len(rounds) == 1 or design is None or any(one.own is not own or one.design is not design for one in rounds):
        return [one.features for one in rounds]
    contexts = np.array([NOTHING if one.context is None else one.context for one in rounds])
    return design.build(own, contexts[:, None, :], first.names)


class Decision(NamedTuple):
    """A decision; `policy` and `asked` are None for one of another system.

    `asked` is what was asked for, when it is written. When it is read it is what this one was chosen among: in a slate,
    what the slots before had left.
    """

    number: int
    time: float
    arm: str | None
    features: FloatArray  # (d,) of the arm chosen in its context
    probability: float | None
    policy: int | None
    asked: Round | None
    reward: float | None = None  # if it is read; to write one down, see `Reward`
    draw: int | None = None  # the number of its random stream, as `Log.reserve` gave it
    slate: int | None = None  # the number of the first decision of its slate, None where it stands alone

    def moved(self, shift: int) -> Decision:
        """The same so many numbers later."""
        return self._replace(number=self.number + shift, slate=None if self.slate is None else self.slate + shift)


class Reward(NamedTuple):
    """The reward of a decision, and the one that it replaces if it corrects one."""

    number: int
    time: float
    reward: float
    replaces: float | None = None


class Entries(NamedTuple):
    """A batch of entries of the log, in their order, and how far it goes, as columns over their decisions.

    `rewards`, `own` (whether the agent decided) and `expired` (whether the decision did) are empty where entries have
    no reward. `replaced` are the rewards that these correct, NaN where there was none, or None if none does.
    """

    last: int
    numbers: np.ndarray[Any, np.dtype[np.int64]]
    features: FloatArray
    rewards: FloatArray = NOTHING
    replaced: FloatArray | None = None
    own: BoolArray = NOTHING.astype(bool)
    expired: BoolArray = NOTHING.astype(bool)


class Place(NamedTuple):
    """How far a log goes: the last decision, the last row of rewards and of expired decisions.

    The generation counts compactions and replacements of features: sums of an earlier one do not go on.
    """

    generation: int = -1
    number: int = 0
    reward: int = 0
    expired: int = 0

    def since(self, other: Place) -> int:
        """How many rows of one kind have come since another place, at most."""
        return max(a - b for a, b in zip(self[1:], other[1:], strict=True))


class Snapshot(NamedTuple):
    """The sums over the log up to a place, encoded: answered decisions, those with the open ones, and their peak."""

    place: Place
    body: bytes
    asked: bytes
    peak: bytes


class PolicyRow(NamedTuple):
    """What decides: the policy and names of levels, both as JSON, and the noise."""

    policy: str
    levels: str | None
    noise: float | None


class Counts(NamedTuple):
    """How many decisions wait for their reward and how many waited too long, and the size of the log."""

    waiting: int
    expired: int
    bytes: int


class DayRewards(NamedTuple):
    """Rewards of the decisions of one day since 1970: how many, their sum and the sum of their squares."""

    day: int
    rewards: int
    total: float
    squares: float


class Answer(NamedTuple):
    """A reward of one of the agent's decisions, when that was made, and when the reward came.

    `told` is None where the reward stands for one that did not come in time; `first` is False for corrections.
    """

    number: int
    decided: float
    told: float | None
    reward: float
    first: bool


class Log(ABC):
    """The log of one agent, opened by one process, to which rows are appended; only compaction drops any.

    All methods but `transaction`, `reserve`, `shrink` and `close` are called in a transaction.
    """

    path: Path | str  # a file, or the address of an agent in a database
    settings: Settings

    @abstractmethod
    def transaction(self, write: bool = True) -> AbstractContextManager[None]:
        """All or nothing; a reader sees one state of the log, and one writes at a time."""

    def reserve(self, count: int) -> list[int] | None:
        """Numbers of random streams for decisions that are made before the transaction that writes them, each once.

        None where decisions are made in their transaction, and have the streams of their own numbers.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Let go of the log."""

    @abstractmethod
    def refresh_settings(self) -> None:
        """Take in that features were replaced; to be called whenever `Place.generation` has changed."""

    @abstractmethod
    def replace_settings(self, settings: Settings, body: bytes) -> None:
        """Write down other settings, and the sums over what compaction dropped as they are by these; a generation."""

    # Decisions and rewards

    @abstractmethod
    def place(self) -> Place:
        """How far the log goes."""

    @abstractmethod
    def append_decisions(self, decisions: Sequence[Decision]) -> None:
        """Write down decisions with what was offered in them; those of the agent wait for their rewards from now on."""

    @abstractmethod
    def append_rewards(self, rewards: Sequence[Reward]) -> None:
        """Write down what decisions earned; they wait no longer."""

    @abstractmethod
    def is_overdue(self, before: float) -> bool:
        """Whether `expire` would find decisions made before a time that wait."""

    @abstractmethod
    def expire(self, before: float, now: float, reward: float | None) -> None:
        """Wait no longer for the rewards of decisions made before a time; `reward` may stand for them."""

    @abstractmethod
    def find(self, number: int) -> Found:
        """Whether a decision waits for its reward, and its reward; None if it is not in the log."""

    @abstractmethod
    def slate(self, number: int) -> dict[str, int]:
        """The decisions of a slate that are in the log, by their arms; none if no slate begins with this one."""

    @abstractmethod
    def read(self, kind: Kind, since: int = 0, upto: int = 2**62) -> Iterator[Entries]:
        """Entries after one row and up to another, in batches.

        "waiting" decisions by their number; "expired" ones and "rewards" by their row; "answered" decisions with the
        reward that holds now, by their number.
        """

    @abstractmethod
    def decisions(self) -> Iterator[list[Decision]]:
        """All decisions, with the rewards that hold, in batches."""

    @abstractmethod
    def add_digest(self, digest: bytes, time: float, rows: int) -> bool:
        """Write down the digest of another system's log; False if it is there already."""

    # Catalogue and policies

    @abstractmethod
    def arms(self, since: int) -> list[tuple[int, Arm]]:
        """Changes of arms after a row of theirs, each with its row."""

    @abstractmethod
    def append_arms(self, arms: Iterable[Arm], time: float) -> None:
        """Write down how arms are from now on."""

    @abstractmethod
    def policy(self, since: int) -> tuple[int, PolicyRow] | None:
        """The last version of the policy with its number; None if that is not after `since`."""

    @abstractmethod
    def append_policy(self, policy: PolicyRow, time: float) -> None:
        """Write down what decides from now on."""

    # Sums over the log

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """The sums that were kept last; None if there are none, or damaged ones."""

    @abstractmethod
    def keep(self, snapshot: Snapshot) -> None:
        """Keep sums in the place of those that were kept before."""

    @abstractmethod
    def folded(self) -> tuple[int, bytes]:
        """The last decision that compaction may have dropped, and the encoded sums over those that it did."""

    @abstractmethod
    def fold(self, upto: int, body: bytes) -> int:
        """Drop decisions up to a number that wait for nothing, now that sums have them; gives how many."""

    @abstractmethod
    def last_before(self, time: float) -> int:
        """The last decision before the first one that was made at `time` or later."""

    @abstractmethod
    def shrink(self) -> None:
        """Give back the room of what was dropped."""

    # Looking at it

    @abstractmethod
    def counts(self) -> Counts:
        """How much there is."""

    @abstractmethod
    def check(self) -> None:
        """Raise a `FileError` if the log is damaged, or contradicts itself."""

    @abstractmethod
    def day_rewards(self, since: int) -> list[DayRewards]:
        """What rewards after a row of theirs add to each day of the agent's decisions."""

    @abstractmethod
    def answers(self, since: int, last: int) -> list[Answer]:
        """The last rewards of the agent's decisions after a row of theirs, in their order."""

    @abstractmethod
    def choices(self, last: int) -> dict[str, int]:
        """How often each arm was chosen in the agent's last decisions, most often first."""

    @abstractmethod
    def last_asked(self) -> Round | None:
        """What the last decision was made among; None if there is none."""

    def others_wrote(self) -> int | None:
        """A number that is another one whenever other processes wrote in between; None where that is not known."""
        return None

    def check_writable(self) -> None:
        """Write something that changes nothing, to see whether that works."""
        self.place()

    # What every log does alike

    def find_many(self, numbers: Iterable[int]) -> dict[int, Found]:
        """What `find` says of each of many decisions."""
        return {number: self.find(number) for number in numbers}

    def tell(self, number: int, reward: float, now: float) -> bool:
        """Write down what a decision earned; gives whether this was new."""
        (told,) = self.tell_groups([[(number, reward)]], now)
        if isinstance(told, DecisionError):
            raise told
        return told == 1

    def tell_groups(self, groups: Iterable[Sequence[Told]], now: float) -> list[int | DecisionError]:
        """Write down what decisions earned, each group of them all or none.

        Gives how many of each group were new, or why it was refused; the others are written all the same.
        """
        pairs = [self._by_decision(group) for group in groups]
        known = self.find_many({number for group in pairs if isinstance(group, list) for number, _ in group})
        results: list[int | DecisionError] = []
        rewards: list[Reward] = []
        for group in pairs:
            if isinstance(group, DecisionError):
                results.append(group)
                continue
            told: dict[int, float] = {}
            try:
                for number, reward in group:
                    found = (False, told[number]) if number in told else self._there(number, known[number])
                    if _is_new(number, reward, *found):
                        told[number] = reward
            except DecisionError as refusal:
                results.append(refusal)
                continue
            for number, reward in told.items():
                known[number] = False, reward
                rewards.append(Reward(number, now, reward))
            results.append(len(told))
        if rewards:
            self.append_rewards(rewards)
        return results

    def _by_decision(self, group: Sequence[Told]) -> list[tuple[int, float]] | DecisionError:
        """What each decision earned, those of slates by their arms; or why that cannot be said."""
        pairs: list[tuple[int, float]] = []
        try:
            for number, reward in group:
                if isinstance(reward, Mapping):
                    slots = self._slots(number, reward)
                    pairs.extend((slots[arm], earned) for arm, earned in reward.items())
                else:
                    pairs.append((number, reward))
        except DecisionError as refusal:
            return refusal
        return pairs

    def _slots(self, number: int, arms: Iterable[str]) -> dict[str, int]:
        """The decisions of a slate, which must be in the log and have these arms."""
        slots = self.slate(number)
        if not slots:
            self._there(number, self.find(number))
            raise UnknownDecisionError(
                f"there is no slate {number}: rewards by arm are for the id of what ask(slots=) gave; the reward of a "
                f"decision is a number, tell({number}, reward=0.5)"
            )
        for arm in arms:
            if arm not in slots:
                gone = "; others were folded by compact()" if number <= self.folded()[0] else ""
                near = suggestion(arm, list(slots)[:50])
                raise UnknownDecisionError(f"arm {shown(arm)} is not in slate {number}; {near}{gone}")
        return slots

    def correct(self, number: int, reward: float, now: float) -> bool:
        """Write down another reward of a decision, or the first of one that expired; gives whether this was new."""
        waiting, known = self._there(number, self.find(number))
        if waiting:
            raise DecisionError(f"decision {number} has no reward yet; call tell({number}, reward={reward:g})")
        if known != reward:
            self.append_rewards([Reward(number, now, reward, known)])
        return known != reward

    def _there(self, number: int, found: Found) -> tuple[bool, float | None]:
        """What was found of a decision, which must be in the log."""
        if found is not None:
            return found
        last = self.place().number
        if 1 <= number <= last:
            raise DecisionError(f"decision {number} was folded by compact(): its reward cannot change any more")
        raise UnknownDecisionError(f"there is no decision {number}; the last one is {last}")

    def damaged(self, what: str) -> FileError:
        """The error that says so."""
        return FileError(f"{self.path}: damaged ({what}); restore it from a backup")


def _is_new(number: int, reward: float, waiting: bool, known: float | None) -> bool:
    """Whether a reward is to be written: of a decision that waits, or that has another one, which is refused."""
    if waiting:
        return True
    if known is None:
        raise DecisionError(
            f"decision {number} expired before its reward came; correct({number}, reward={reward:g}) records it "
            "all the same"
        )
    if known != reward:
        raise DecisionError(
            f"decision {number} has the reward {known:g} already, got {reward:g}; "
            f"correct({number}, reward={reward:g}) changes it"
        )
    return False
