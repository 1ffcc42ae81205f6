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

from adadim.core.arrays import BoolArray, FloatArray
from adadim.core.checks import shown, suggestion
from adadim.core.columns import Unlisted
from adadim.core.design import Design
from adadim.errors import DecisionError, FileError, InvalidValueError, UnknownDecisionError

State = Literal["active", "masked", "retired"]
Kind = Literal["waiting", "expired", "rewards", "answered"]
Keep = Literal["all", "chosen"]
RewardReport = tuple[int, float | Mapping[str, float]]  # id and reward of a decision; of a slate, rewards by arm
RewardStatus = tuple[bool, float | None]  # whether a decision waits for its reward, and the reward it has

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
class Settings:
    """The parameters of `Agent.create`, which explains each; only `Agent.replace_features` changes any of them.

    `designs` are all designs that features have been made by, the last of them in force; empty for ready-made features.
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
        """The design in force; None where features come ready-made."""
        return self.designs[-1] if self.designs else None

    @classmethod
    def from_table(cls, values: Mapping[str, Any]) -> Settings:
        """Settings from plain values; an `InvalidValueError` if one is missing or they do not fit each other."""
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
    state: State
    unlisted: Unlisted | None = None
    values: dict[str, Any] | None = None


class ArmVersions:
    """Every version of the arms of a catalogue, by the row of the change that made it."""

    def __init__(self) -> None:
        self.last = 0
        self._versions: dict[str, list[tuple[int, Arm]]] = {}
        self._active: tuple[int, list[Arm]] = (0, [])

    def add(self, seq: int, arm: Arm) -> None:
        """Add a change, which must be later than those added before."""
        self._versions.setdefault(arm.name, []).append((seq, arm))
        self.last = seq

    def arm(self, name: str, version: int) -> Arm | None:
        """An arm as it was in a version of the catalogue; None if it was not there yet."""
        for seq, arm in reversed(self._versions.get(name, ())):
            if seq <= version:
                return arm
        return None

    def active(self, version: int) -> list[Arm]:
        """The arms that were active in a version, in the order of a round over the catalogue."""
        if self._active[0] != version:
            arms = [self.arm(name, version) for name in self._versions]
            self._active = version, [arm for arm in arms if arm is not None and arm.state == "active"]
        return self._active[1]


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
    """Features (K, d) of the arms in each of several rounds; (n, K, d) where the same arms are in many contexts."""
    design, arms = rounds[0].design, rounds[0].arm_features
    if len(rounds) == 1 or design is None or any(r.arm_features is not arms or r.design is not design for r in rounds):
        return [one.features for one in rounds]
    contexts = np.array([EMPTY_VECTOR if one.context is None else one.context for one in rounds])
    return design.build(arms, contexts[:, None, :], rounds[0].names)


class Decision(NamedTuple):
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
    draw: int | None = None  # the number of its random stream, as `Log.reserve` gave it
    slate: int | None = None  # the number of the first decision of its slate, None where it is in none
    unlisted: Unlisted | None = None  # values of context and arm that no level of their category lists, if any

    def renumbered(self, shift: int) -> Decision:
        """The same decision with `shift` added to its number and that of its slate."""
        return self._replace(number=self.number + shift, slate=None if self.slate is None else self.slate + shift)


class Reward(NamedTuple):
    """The reward of a decision, and the one that it replaces if it corrects one."""

    number: int
    time: float
    reward: float
    replaces: float | None = None


class Entries(NamedTuple):
    """A batch of entries of the log, in their order, as columns over decisions; the next batch begins after `last`.

    `rewards`, `by_agent` (whether the agent decided) and `expired` (whether the decision expired) are empty where
    entries have no reward. `replaced` are the rewards that these correct, NaN where it is a first one; None if all are.
    """

    last: int
    numbers: np.ndarray[Any, np.dtype[np.int64]]
    features: FloatArray
    rewards: FloatArray = EMPTY_VECTOR
    replaced: FloatArray | None = None
    by_agent: BoolArray = EMPTY_VECTOR.astype(bool)
    expired: BoolArray = EMPTY_VECTOR.astype(bool)


class Place(NamedTuple):
    """How far a log goes: the last decision, the last row of rewards and of expired decisions.

    The generation counts compactions and replacements of features: sums of an earlier generation cannot be continued.
    """

    generation: int = -1
    number: int = 0
    reward: int = 0
    expired: int = 0

    def rows_since(self, other: Place) -> int:
        """The largest number of rows of one kind that were added since another place."""
        return max(a - b for a, b in zip(self[1:], other[1:], strict=True))


class Snapshot(NamedTuple):
    """Encoded sums over the log up to a place: over answered decisions, over these and the open ones, and the peak."""

    place: Place
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


class Counts(NamedTuple):
    """Numbers of decisions that wait for their reward and that expired, and the size of the log in bytes."""

    waiting: int
    expired: int
    bytes: int


class TimedReward(NamedTuple):
    """A reward of one of the agent's decisions, and the times of the decision and of the reward.

    The time of the reward is None where it stands for one that did not come in time.
    """

    number: int
    decision_time: float
    reward_time: float | None
    reward: float
    replaces: float | None  # the reward that it corrects


class Log(ABC):
    """The log of one agent, opened by one process, to which rows are appended; only compaction drops any.

    All methods but `transaction`, `reserve`, `shrink` and `close` are called in a transaction.
    """

    path: Path | str  # a file, or the address of an agent in a database
    settings: Settings

    @abstractmethod
    def transaction(self, write: bool = True) -> AbstractContextManager[None]:
        """A context in which all is written or nothing; a reader sees one state of the log, and one process writes."""

    def reserve(self, count: int) -> list[int] | None:
        """Numbers of random streams for decisions that are made before the transaction that writes them.

        No number is given twice. None where decisions are made in the transaction that writes them: the stream of each
        is then that of its number.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Close the log."""

    @abstractmethod
    def refresh_settings(self) -> None:
        """Read the settings again; to be called whenever `Place.generation` has changed."""

    @abstractmethod
    def replace_settings(self, settings: Settings, body: bytes) -> None:
        """Write other settings, with the sums over compacted decisions by these; a new generation begins."""

    # Decisions and rewards

    @abstractmethod
    def place(self) -> Place:
        """How far the log goes."""

    @abstractmethod
    def append_decisions(self, decisions: Sequence[Decision]) -> None:
        """Write decisions with what was offered in them; those of the agent wait for their rewards from now on."""

    @abstractmethod
    def append_rewards(self, rewards: Sequence[Reward]) -> None:
        """Write rewards; their decisions no longer wait for one."""

    @abstractmethod
    def is_overdue(self, before: float) -> bool:
        """Whether decisions wait that were made before a time, so that `expire` would find them."""

    @abstractmethod
    def expire(self, before: float, now: float, reward: float | None) -> None:
        """Let waiting decisions expire that were made before a time, with `reward` if it is given."""

    @abstractmethod
    def reward_status(self, number: int) -> RewardStatus | None:
        """Whether a decision waits for its reward, and the reward it has; None if it is not in the log."""

    @abstractmethod
    def slate(self, number: int) -> dict[str, int]:
        """Decisions of a slate that are in the log, by their arms; empty if no slate begins with this number."""

    @abstractmethod
    def read(self, kind: Kind, since: int = 0, upto: int = 2**62) -> Iterator[Entries]:
        """Entries after one row and up to another, in batches.

        "waiting" decisions count by their number; "expired" ones and "rewards" by their row; "answered" decisions,
        with their latest reward, by their number.
        """

    @abstractmethod
    def decisions(self) -> Iterator[list[Decision]]:
        """All decisions with their latest rewards, in batches."""

    @abstractmethod
    def add_digest(self, digest: bytes, time: float, rows: int) -> bool:
        """Write the digest of another system's log; False if it was written before."""

    # Catalogue and policies

    @abstractmethod
    def arms(self, since: int) -> list[tuple[int, Arm]]:
        """Changes of arms after row `since` of the table of arms, each with its row."""

    @abstractmethod
    def append_arms(self, arms: Iterable[Arm], time: float) -> None:
        """Write new states of arms, which hold from now on."""

    @abstractmethod
    def policy(self, since: int) -> tuple[int, PolicyRow] | None:
        """The last version of the policy with its number; None if there is none after version `since`."""

    @abstractmethod
    def append_policy(self, policy: PolicyRow, time: float) -> None:
        """Write a version of the policy, which decides from now on."""

    # Sums over the log

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """The snapshot; None if there is none or it is damaged."""

    @abstractmethod
    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Write a snapshot in place of the one before."""

    @abstractmethod
    def folded(self) -> tuple[int, bytes]:
        """The last decision that compaction may have dropped, and the encoded sums over the dropped ones."""

    @abstractmethod
    def fold(self, upto: int, body: bytes) -> int:
        """Drop decisions up to a number that do not wait, which `body` sums up with those before; gives how many."""

    @abstractmethod
    def last_before(self, time: float) -> int:
        """The last decision before the first one that was made at `time` or later."""

    @abstractmethod
    def shrink(self) -> None:
        """Free the space of what was dropped."""

    # Reports and checks

    @abstractmethod
    def counts(self) -> Counts:
        """Numbers of waiting and expired decisions, and the size of the log."""

    @abstractmethod
    def check(self) -> None:
        """Raise a `FileError` if the log is damaged, or contradicts itself."""

    @abstractmethod
    def timed_rewards(self, since: int) -> Iterator[list[TimedReward]]:
        """The rewards of the agent's decisions after row `since`, in their order, in batches."""

    @abstractmethod
    def recent_choices(self, most: int) -> dict[str, int]:
        """How often each arm was chosen in the agent's last decisions, at most `most`, the most frequent first."""

    @abstractmethod
    def last_asked(self) -> Round | None:
        """The round of the agent's last decision; None if there is no decision, or its offer was not kept."""

    @abstractmethod
    def recent_contexts(self, most: int) -> list[FloatArray]:
        """Contexts of the agent's last decisions, of which at most `most` are read; a slate counts once."""

    def data_version(self) -> int | None:
        """A number that changes whenever another process writes; None where the store has no such number."""
        return None

    def check_writable(self) -> None:
        """Raise an error unless the log can be written, by a write that changes nothing."""
        self.place()

    # Rewards: the same in every log

    def reward_statuses(self, numbers: Iterable[int]) -> dict[int, RewardStatus | None]:
        """The `reward_status` of each of many decisions."""
        return {number: self.reward_status(number) for number in numbers}

    def tell_groups(self, groups: Iterable[Sequence[RewardReport]], now: float) -> list[int | DecisionError]:
        """Write the rewards of several groups, each group all or none.

        Gives how many rewards of each group were new, or why it was refused; the other groups are written all the same.
        """
        pairs = [self._rewards_by_decision(group) for group in groups]
        statuses = self.reward_statuses({number for group in pairs if isinstance(group, list) for number, _ in group})
        results: list[int | DecisionError] = []
        rewards: list[Reward] = []
        for group in pairs:
            if isinstance(group, DecisionError):
                results.append(group)
                continue
            new: dict[int, float] = {}
            try:
                for number, reward in group:
                    status = (False, new[number]) if number in new else self._required_status(number, statuses[number])
                    if _is_new(number, reward, *status):
                        new[number] = reward
            except DecisionError as refusal:
                results.append(refusal)
                continue
            for number, reward in new.items():
                statuses[number] = False, reward
                rewards.append(Reward(number, now, reward))
            results.append(len(new))
        if rewards:
            self.append_rewards(rewards)
        return results

    def _rewards_by_decision(self, group: Sequence[RewardReport]) -> list[tuple[int, float]] | DecisionError:
        """Decisions and their rewards, where those of slates were told by arm; or the error of a slate."""
        pairs: list[tuple[int, float]] = []
        try:
            for number, reward in group:
                if isinstance(reward, Mapping):
                    slots = self._decisions_by_arm(number, reward)
                    pairs.extend((slots[arm], earned) for arm, earned in reward.items())
                else:
                    pairs.append((number, reward))
        except DecisionError as refusal:
            return refusal
        return pairs

    def _decisions_by_arm(self, number: int, arms: Iterable[str]) -> dict[str, int]:
        """The decisions of a slate by arm; it must be in the log and have these arms."""
        slots = self.slate(number)
        if not slots:
            self._required_status(number, self.reward_status(number))
            raise UnknownDecisionError(
                f"there is no slate {number}: rewards by arm are for the id of what ask(slots=) gave; the reward of a "
                f"decision is a number, tell({number}, reward=0.5)"
            )
        for arm in arms:
            if arm not in slots:
                compacted = "; others were folded by compact()" if number <= self.folded()[0] else ""
                near = suggestion(arm, list(slots)[:50])
                raise UnknownDecisionError(f"arm {shown(arm)} is not in slate {number}; {near}{compacted}")
        return slots

    def correct(self, number: int, reward: float, now: float) -> bool:
        """Write another reward of a decision, or the first of one that expired; gives whether this was new."""
        waiting, previous_reward = self._required_status(number, self.reward_status(number))
        if waiting:
            raise DecisionError(f"decision {number} has no reward yet; call tell({number}, reward={reward:g})")
        if previous_reward != reward:
            self.append_rewards([Reward(number, now, reward, previous_reward)])
        return previous_reward != reward

    def _required_status(self, number: int, status: RewardStatus | None) -> RewardStatus:
        """The status of a decision, which must be in the log."""
        if status is not None:
            return status
        last = self.place().number
        if 1 <= number <= last:
            raise DecisionError(f"decision {number} was folded by compact(): its reward cannot change any more")
        raise UnknownDecisionError(f"there is no decision {number}; the last one is {last}")

    def damage_error(self, what: str) -> FileError:
        """The error to raise where the log is damaged."""
        return FileError(f"{self.path}: damaged ({what}); restore it from a backup")


def _is_new(number: int, reward: float, waiting: bool, previous_reward: float | None) -> bool:
    """Whether a reward is to be written; an error if the decision expired or has another reward."""
    if waiting:
        return True
    if previous_reward is None:
        raise DecisionError(
            f"decision {number} expired before its reward came; correct({number}, reward={reward:g}) records it "
            "all the same"
        )
    if previous_reward != reward:
        raise DecisionError(
            f"decision {number} has the reward {previous_reward:g} already, got {reward:g}; "
            f"correct({number}, reward={reward:g}) changes it"
        )
    return False
