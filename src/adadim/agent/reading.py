"""What a log says: its rows as decisions, rewards and arms, with the features by which arms were chosen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from adadim.agent import statements
from adadim.agent.log import (
    EMPTY_VECTOR,
    Arm,
    Log,
    LoggedDecision,
    PolicyRow,
    Round,
    as_matrix,
    as_vector,
    damaged,
    padded,
)
from adadim.agent.statements import LAST_ROW, DecisionRow, OfferRow, Query, RewardRow
from adadim.agent.tables import read_offer
from adadim.core.arrays import BoolArray, FloatArray
from adadim.core.checks import shown

Kind = Literal["waiting", "expired", "rewards", "answered"]

OFFERED = Query(
    {"d": "decisions", "o": "offers"},
    lambda sql: (
        f"""
        FROM {sql.rows("decisions")} d {sql.join("offers", "o", "o.id = d.offer", outer=True)}
        WHERE d.number > ? AND d.number <= ? ORDER BY d.number LIMIT ?"""
    ),
)

TIMED_REWARDS = Query(
    {"r": "rewards", "d": "decisions"},
    lambda sql: (
        f""", {sql.exists("expired", "e", "e.number = r.decision AND e.time = r.time")}
        FROM {sql.rows("rewards")} r {sql.join("decisions", "d", "d.number = r.decision")}
        WHERE r.seq > ? AND r.seq <= ? AND d.policy IS NOT NULL ORDER BY r.seq LIMIT ?"""
    ),
    "rewards",
)


def arm_changes(log: Log, since: int) -> list[tuple[int, Arm]]:
    """Changes of arms after row `since` of the table of arms, each with its row."""
    changes = []
    for row in log.select(statements.ARM_CHANGES, since):
        unlisted = _values_beside_levels(log, row.unlisted)
        changes.append((row.seq, Arm(row.name, as_vector(row.features), row.cost, row.state, unlisted)))
    return changes


def _values_beside_levels(log: Log, text: str | None) -> dict[str, Any] | None:
    """The values of a row that no level of their category lists."""
    try:
        return None if text is None else dict(json.loads(text))
    except (ValueError, TypeError):
        raise damaged(log, "values of a category cannot be read") from None


def policy_since(log: Log, since: int) -> tuple[int, PolicyRow] | None:
    """The last version of the policy with its number; None if there is none after version `since`."""
    for row in log.select(statements.LATEST_POLICY, since):
        return row.version, PolicyRow(row.policy, row.levels, row.noise, row.explore)
    if not since:
        raise damaged(log, "the policy cannot be read")
    return None


class Entries(NamedTuple):
    """A batch of entries of the log, in their order, as columns over decisions; the next batch begins after `last`.

    `rewards`, `by_agent` (whether the agent decided) and `expired` (whether the decision expired) are empty where
    entries have no reward. `replaced` are the rewards that these correct, NaN where it is a first one; None if all are.
    `rows` are those of "rewards".
    """

    last: int
    numbers: np.ndarray[Any, np.dtype[np.int64]]
    features: FloatArray
    rewards: FloatArray = EMPTY_VECTOR
    replaced: FloatArray | None = None
    by_agent: BoolArray = EMPTY_VECTOR.astype(bool)
    expired: BoolArray = EMPTY_VECTOR.astype(bool)
    rows: np.ndarray[Any, np.dtype[np.int64]] = EMPTY_VECTOR.astype(np.int64)

    def after(self, row: int) -> Entries:
        """The rewards after a row."""
        return self._part(slice(self._count(row), None)) if row >= self.rows[0] else self

    def upto(self, row: int) -> Entries:
        """The rewards up to a row."""
        return self if self.last <= row else self._part(slice(self._count(row)))

    def _count(self, row: int) -> int:
        return int(np.searchsorted(self.rows, row, side="right"))

    def _part(self, part: slice) -> Entries:
        columns: list[Any] = [None if column is None else column[part] for column in self[1:]]
        rows = columns[-1]
        return Entries(int(rows[-1]) if len(rows) else 0, *columns)


class TimedReward(NamedTuple):
    """A reward of one of the agent's decisions, and the times of the decision and of the reward.

    The time of the reward is None where it stands for one that did not come in time.
    """

    number: int
    decision_time: float
    reward_time: float | None
    reward: float
    replaces: float | None  # the reward that it corrects


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


class Reader:
    """Reads a log; all methods are called in a transaction, after `Log.place`."""

    def __init__(self, log: Log) -> None:
        self.log, self._arm_versions = log, ArmVersions()

    def entries(self, kind: Kind, since: int = 0, upto: int = LAST_ROW) -> Iterator[Entries]:
        """Entries after one row and up to another, in batches.

        "waiting" decisions count by their number; "expired" ones and "rewards" by their row; "answered" decisions,
        with their latest reward, by their number.
        """
        if kind == "answered":
            yield from self._answered(since, upto)
        elif kind == "waiting":
            for rows in self.log.read(statements.WAITING, since, upto):
                yield Entries(rows[-1].number, _decision_numbers(rows), self.features(rows))
        elif kind == "expired":
            for rows in self.log.read(statements.EXPIRED_DECISIONS, since, upto):
                heads, decisions = zip(*rows, strict=True)
                yield Entries(heads[-1].seq, _decision_numbers(decisions), self.features(decisions))
        else:
            for rows in self.log.read(statements.REWARDS, since, upto):
                heads, decisions, expired = zip(*rows, strict=True)
                replaced = [row.replaces for row in heads]
                corrects = any(reward is not None for reward in replaced)
                yield Entries(
                    heads[-1].seq,
                    _decision_numbers(decisions),
                    self.features(decisions),
                    np.array([row.reward for row in heads]),
                    np.array(replaced, dtype=np.float64) if corrects else None,  # None becomes NaN
                    np.array([row.policy is not None for row in decisions]),
                    np.array(expired, dtype=bool),
                    np.array([row.seq for row in heads]),
                )

    def _answered(self, since: int, upto: int) -> Iterator[Entries]:
        last_rewards = _LastRewards(self.log)
        for rows in self.log.read(statements.DECIDED, since, upto):
            answered = [(row, last_rewards.of(row.number)) for row in rows]
            decisions = [decision for decision, reward in answered if reward is not None]
            if decisions:
                rewards = np.array([reward for _, reward in answered if reward is not None])
                by_agent = np.array([row.policy is not None for row in decisions])
                numbers, features = _decision_numbers(decisions), self.features(decisions)
                yield Entries(rows[-1].number, numbers, features, rewards, None, by_agent)

    def decisions(self) -> Iterator[list[LoggedDecision]]:
        """All decisions with their latest rewards, in batches."""
        last_rewards = _LastRewards(self.log)
        taken: dict[int, list[str]] = {}  # arms of the earlier slots of the present slate, by its number
        for rows in self.log.read(OFFERED, long=True):
            decisions = []
            for (row, offer), x in zip(rows, self.features([row for row, _ in rows]), strict=True):
                unlisted = _values_beside_levels(self.log, row.unlisted) or {}
                if row.catalogue is not None:
                    unlisted |= self._arm(row.arm, row.catalogue, row.number).unlisted or {}
                decisions.append(
                    LoggedDecision(
                        row.number,
                        row.time,
                        row.arm,
                        x,
                        row.probability,
                        row.policy,
                        _remaining(row, self.round(row, offer), taken),
                        last_rewards.of(row.number),
                        slate=row.slate,
                        unlisted=unlisted or None,
                    )
                )
            yield decisions

    def timed_rewards(self, since: int) -> Iterator[list[TimedReward]]:
        """The rewards of the agent's decisions after row `since`, in their order, in batches."""
        for rows in self.log.read(TIMED_REWARDS, since):
            yield [
                TimedReward(row.decision, decision.time, None if expired else row.time, row.reward, row.replaces)
                for row, decision, expired in rows
            ]

    def features(self, decisions: Iterable[DecisionRow]) -> FloatArray:
        """Features (n, d) of the arms chosen, built from rows: bit for bit those by which they were chosen."""
        # Positions of rows by whether another system decided and the bytes of arm and context: most often one group.
        groups: dict[tuple[bool, int, int], list[int]] = {}
        names, arms, contexts, numbers = [], [], [], []
        for at, row in enumerate(decisions):
            features, context = row.features, b"" if row.context is None else row.context
            if row.catalogue is not None:
                features = self._arm(str(row.arm), row.catalogue, row.number).features.tobytes()
            groups.setdefault((row.policy is None, len(features), len(context)), []).append(at)
            names.append(str(row.arm))
            arms.append(features)
            contexts.append(context)
            numbers.append(row.number)
        dim, design = self.log.settings.dim, self.log.settings.design
        blocks = []
        for (complete, arm_bytes, context_bytes), group in groups.items():
            x = as_matrix(b"".join([arms[at] for at in group]), arm_bytes // 8)
            if complete:
                x = self._in_columns(x)
            elif context_bytes or design is not None:
                stored = np.frombuffer(b"".join([contexts[at] for at in group]))
                context_rows = stored.reshape(len(group), context_bytes // 8)
                if design is None:
                    x = np.column_stack([context_rows, x])
                else:
                    x = design.build(x, context_rows, [names[at] for at in group])
            if x.shape[1] != dim:
                raise damaged(self.log, f"decision {numbers[group[0]]} does not have {dim} features")
            blocks.append((group, x))
        if len(blocks) == 1:
            return blocks[0][1]
        built: FloatArray = np.empty((len(numbers), dim))
        for group, x in blocks:
            built[group] = x
        return built

    def _in_columns(self, complete: FloatArray) -> FloatArray:
        """Complete features in the columns of the present design, which may be more than when they were written."""
        dim, design = self.log.settings.dim, self.log.settings.design
        for earlier in self.log.settings.designs:
            if design is not None and earlier.dim == complete.shape[1] != dim:
                moved = np.zeros((len(complete), dim))
                moved[:, earlier.positions_in(design)] = complete
                return moved
        return complete

    def context(self, decision: DecisionRow) -> FloatArray | None:
        """The context of a decision, with zeros for what was appended to contexts since."""
        design = self.log.settings.design
        stored = None if decision.context is None else as_vector(decision.context)
        return stored if design is None else padded(EMPTY_VECTOR if stored is None else stored, len(design.context))

    def round(self, decision: DecisionRow, offer: OfferRow) -> Round | None:
        """The round of a decision; None if its offer was not kept."""
        catalogue, design = decision.catalogue, self.log.settings.design
        if decision.offer is None and catalogue is None:
            return None
        names, features = None, b""
        if decision.offer is not None:
            read = read_offer(offer)
            if read is None:
                raise damaged(self.log, f"what was offered in decision {decision.number} is not what was written")
            names, features = read
        if catalogue is None:
            assert names is not None
            arm_features = as_matrix(features, len(features) // 8 // len(names))
        else:
            self._read_arm_versions(catalogue)
            arms = self._arm_versions.active(catalogue)
            if names is not None:
                arms = [self._arm(name, catalogue, decision.number) for name in names]
            names, size = [arm.name for arm in arms], max(len(arm.features) for arm in arms)
            arm_features = np.array([padded(arm.features, size) for arm in arms])  # some may lack appended features
        if design is not None:
            arm_features = padded(arm_features, len(design.arm))
        context = self.context(decision)
        return Round(names, arm_features, None, context, design, catalogue, decision.offer is not None)

    def _arm(self, name: str, version: int, number: int) -> Arm:
        """An arm as it was in a version of the catalogue, in which decision `number` chose or offered it."""
        self._read_arm_versions(version)
        arm = self._arm_versions.arm(name, version)
        if arm is None:
            raise damaged(self.log, f"arm {shown(name)} of decision {number} is not in the catalogue of that time")
        return arm

    def _read_arm_versions(self, version: int) -> None:
        if version > self._arm_versions.last:
            for seq, arm in arm_changes(self.log, self._arm_versions.last):
                self._arm_versions.add(seq, arm)


def _decision_numbers(decisions: Iterable[DecisionRow]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([row.number for row in decisions])


def _remaining(decision: DecisionRow, asked: Round | None, taken: dict[int, list[str]]) -> Round | None:
    """The round without the arms of earlier slots of the same slate; None if one of these was compacted."""
    number, slate = decision.number, decision.slate
    if slate is None:
        return asked
    if number == slate:
        taken.clear()
        taken[slate] = []
    earlier = taken.get(slate, [])
    if len(earlier) != number - slate:
        return None
    remaining = None if asked is None else asked.without(earlier)
    earlier.append(str(decision.arm))
    return remaining


class _LastRewards:
    """The last reward of each decision, for decisions in their order."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._rows: Iterator[RewardRow] = chain.from_iterable(log.read(statements.REWARDS_BY_DECISION))
        self._ahead = next(self._rows, None)

    def of(self, number: int) -> float | None:
        """The last reward of a decision, None if it has none."""
        last = None
        while self._ahead is not None and self._ahead.decision <= number:
            row = self._ahead
            if row.decision == number:
                last = row.reward
            self._ahead = next(self._rows, None)
            # A damaged tree could be read for ever.
            if self._ahead is not None and (self._ahead.decision, self._ahead.seq) <= (row.decision, row.seq):
                raise damaged(self._log, "rows are out of order")
        return last
