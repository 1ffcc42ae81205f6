"""What logs in tables have in common in every database: how decisions become rows, and rows decisions.

A row has a checksum of its values, in the column `seal`: not every store notices every flipped bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import FrameType
from typing import Any
from zlib import compress, crc32, decompress
from zlib import error as CompressionError

import numpy as np

from adadim.agent.log import (
    EMPTY_VECTOR,
    Arm,
    ArmVersions,
    Decision,
    Entries,
    Kind,
    Log,
    Place,
    PolicyRow,
    Reward,
    RewardStatus,
    Round,
    Settings,
    Snapshot,
    TimedReward,
    as_bytes,
    as_matrix,
    as_vector,
    padded,
)
from adadim.core.arrays import FloatArray
from adadim.core.checks import shown
from adadim.core.columns import Unlisted
from adadim.errors import AdadimError, InvalidValueError

BATCH_ROWS = 20_000  # rows read at a time
LAST_ROW = 2**62  # the largest number that a row can have
FOLDED = "sums of compacted decisions"
EXISTS_ALREADY = "exists already; open it with Agent.open or Agent.create(..., exist_ok=True), or choose another name"
COMPRESSION_LEVEL = 1  # zlib's quickest
SAMPLE_BYTES = 1024  # of an offer, which are compressed to see whether compression is worth its time
SAMPLING_INTERVAL = 16  # offers, one of which is sampled, and decides for those after it
LARGEST_COMPRESSED_SHARE = 0.9  # of the sample, up to which compression is worth its time

# The columns of each table, to which most tables add a checksum.
COLUMNS = {
    "settings": ("key", "value"),
    "policies": ("version", "time", "policy", "levels", "noise", "explore"),
    "arms": ("seq", "time", "name", "features", "cost", "state", "unlisted"),
    "offers": ("id", "digest", "arms", "features", "packed"),
    "decisions": (
        "number",
        "time",
        "arm",
        "offer",
        "context",
        "features",
        "probability",
        "policy",
        "catalogue",
        "slate",
        "unlisted",
    ),
    "rewards": ("seq", "decision", "time", "reward", "replaces"),
    "outstanding": ("number", "time"),
    "expired": ("seq", "number", "time"),
    "learned": ("digest", "time", "rows"),
    "folded": ("generation", "upto", "body"),
    "snapshot": ("generation", "number", "seq", "expired", "body", "asked", "peak"),
}
TABLES_WITHOUT_CHECKSUM = ("offers", "outstanding", "learned")
# How many of the last columns of a table were added later, and may be null.
LATER_COLUMNS = {"policies": 1, "arms": 1, "decisions": 2}

COUNTED_TABLES = ("policies", "arms", "decisions", "rewards", "expired")
"""Tables that number their rows in the first column, in the order of commits; no number is used twice."""

NUMBERED_TABLES = (*COUNTED_TABLES, "offers", "outstanding")
"""Tables that can be read in the order of their first column, an integer."""

Rows = Iterable[tuple[str, list[tuple[Any, ...]]]]
"""Rows of tables as they are stored, a table at a time or in several batches."""


STORED_COLUMNS = {
    table: columns if table in TABLES_WITHOUT_CHECKSUM else (*columns, "seal") for table, columns in COLUMNS.items()
}
"""The columns of each table, the checksum among them."""


def listed_columns(table: str, alias: str) -> str:
    """The columns of a table, the checksum among them, as a query lists them."""
    return ", ".join(f"{alias}.{column}" for column in STORED_COLUMNS[table])


# Columns in queries, by the aliases d, r, e and o of their tables.
DECISION, REWARD = listed_columns("decisions", "d"), listed_columns("rewards", "r")
EXPIRED, OFFER = listed_columns("expired", "e"), "o.arms, o.features, o.digest, o.packed"


def with_checksums(table: str, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows as they are stored: with their checksums, in tables that have them."""
    return [tuple(row) if table in TABLES_WITHOUT_CHECKSUM else (*row, row_checksum(table, row)) for row in rows]


def initial_rows(time: float, settings: Settings, policy: PolicyRow, sums: bytes) -> Rows:
    """The rows of the log of a new agent; `sums` are the empty ones."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "settings": _setting_rows(settings),
        "policies": [(1, time, *policy)],
        "folded": [(0, 0, sums)],
    }
    return [(table, with_checksums(table, new)) for table, new in rows.items()]


def checksum(*values: Any) -> int:
    """Checksum of values, which shows damage that the database does not notice."""
    # SQLite stores -0.0 as 0.0.
    return crc32(
        b"".join([v if type(v) is bytes else repr(v or 0.0 if type(v) is float else v).encode() for v in values])
    )


def row_checksum(table: str, row: Sequence[Any]) -> int:
    """Checksum of a row; it leaves out nulls at the end in columns that were added later, so that earlier ones hold."""
    end = len(row)
    while end > len(row) - LATER_COLUMNS.get(table, 0) and row[end - 1] is None:
        end -= 1
    return checksum(*row[:end])


class TableLog(Log):
    """A log in tables; a store has the queries by name, and runs them."""

    contradictions: Mapping[str, str]
    """Queries that find a row only if rows were lost or changed, by what they find."""

    def __init__(self) -> None:
        self._arm_versions, self._process = ArmVersions(), os.getpid()
        self._compresses: bool | None = None  # whether offers are compressed; None until one was sampled
        self._frame: FrameType | None = None  # that of the ``with`` block of the transaction

    def transaction(self, write: bool = True) -> Transaction:
        if self._process != os.getpid():
            raise InvalidValueError(f"{self.path} was opened in another process; call Agent.open in this one")
        return Transaction(self, write)

    # What a store implements

    @property
    @abstractmethod
    def _in_transaction(self) -> bool:
        """Whether the connection is in a transaction, or in a state that is not known."""

    @abstractmethod
    def _begin(self, write: bool) -> None:
        """Begin a transaction."""

    @abstractmethod
    def _end(self, write: bool) -> None:
        """Commit the transaction."""

    @abstractmethod
    def _roll_back(self, error: BaseException | None = None) -> None:
        """End a transaction without writing anything, because of an error, or of one that is not known any more."""

    @abstractmethod
    def _explained(self, failure: BaseException) -> AdadimError | None:
        """An error that says what a failure of the database means; None if it is no such failure."""

    @abstractmethod
    def _rows(self, query: str, *values: Any) -> list[Any]:
        """The rows that a query finds."""

    def _row(self, query: str, *values: Any) -> Any:
        """The first row that a query finds; None if there is none."""
        return next(iter(self._rows(query, *values)), None)

    @abstractmethod
    def _execute(self, query: str, *values: Any) -> int:
        """Run a query that changes rows; gives how many."""

    @abstractmethod
    def _execute_many(self, query: str, values: list[tuple[Any, ...]]) -> None:
        """Run a query that changes rows, once for each of the values."""

    @abstractmethod
    def _insert(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows to a table."""

    @abstractmethod
    def _last(self, table: str) -> int:
        """The number of the last row that was ever in a table."""

    @abstractmethod
    def _ordered_rewards(self) -> Iterator[list[Any]]:
        """All rows of rewards, ordered by their decisions, in batches; in one pass, whatever the database plans."""

    # Settings

    def _read_settings(self) -> None:
        """Read the settings of a log that was just opened; close it if that fails."""
        try:
            with self.transaction(write=False):
                self.refresh_settings()
        except BaseException:
            self.close()
            raise

    def refresh_settings(self) -> None:
        settings = self._settings()
        if settings != getattr(self, "settings", None):
            self.settings = settings

    def replace_settings(self, settings: Settings, body: bytes) -> None:
        generation, (upto, _) = self.place().generation, self.folded()
        self._execute("clear_settings")
        self._insert("settings", _setting_rows(settings))
        self._replace_folded(generation + 1, upto, body)

    def _settings(self) -> Settings:
        rows = self._verified(self._rows("settings"), "settings")
        values = {key: json.loads(value) for key, value in rows}
        try:
            return Settings.from_table(values)
        except AdadimError as error:
            raise self.damage_error(str(error)) from error

    # Decisions and rewards

    def append_decisions(self, decisions: Sequence[Decision]) -> None:
        rows: list[tuple[Any, ...]] = []
        offers: dict[tuple[int, int], int | None] = {}  # numbers of offers, which many decisions may share
        for number, time, arm, features, probability, policy, asked, *_, slate, unlisted in decisions:
            offer = context = catalogue = None
            if asked is not None:
                key = id(asked.names), id(asked.arm_features)
                if key not in offers:
                    offers[key] = self._offer_number(asked)
                offer, catalogue = offers[key], asked.catalogue
                context = None if asked.context is None else as_bytes(asked.context)
                features = EMPTY_VECTOR if catalogue is not None else asked.arm_features[asked.names.index(str(arm))]
                unlisted = {**(asked.unlisted or {}), **(asked.unlisted_of_arms or {}).get(str(arm), {})}
            body = as_bytes(features), probability, policy, catalogue, slate
            rows.append((number, time, arm, offer, context, *body, _as_json(unlisted)))
        self._insert("decisions", rows)
        self._insert(
            "outstanding", [(decision.number, decision.time) for decision in decisions if decision.policy is not None]
        )

    def _offer_number(self, asked: Round) -> int | None:
        """Number of the offer of a round, which is written if it is new.

        None where the offer is all of the catalogue, or where only features of the arm chosen are to be kept.
        """
        if not asked.by_name if asked.catalogue is not None else self.settings.keep == "chosen":
            return None
        names = json.dumps(asked.names)
        features = as_bytes(asked.arm_features if asked.catalogue is None else EMPTY_VECTOR)
        digest = _offer_digest(names, features)
        row = self._row("offer", digest)
        if row is not None:
            return int(row[0])
        number = self._next("offers")
        if features and (self._compresses is None or number % SAMPLING_INTERVAL == 0):
            sample = features[:SAMPLE_BYTES]  # the digits of measured numbers are like noise
            self._compresses = len(compress(sample, COMPRESSION_LEVEL)) <= LARGEST_COMPRESSED_SHARE * len(sample)
        packed = bool(features and self._compresses)
        stored = compress(features, COMPRESSION_LEVEL) if packed else features
        self._insert("offers", [(number, digest, names, stored, int(packed))])
        return number

    def append_rewards(self, rewards: Sequence[Reward]) -> None:
        self._append("rewards", rewards)
        self._execute_many("stop_waiting", [(reward.number,) for reward in rewards if reward.replaces is None])

    def is_overdue(self, before: float) -> bool:
        oldest = self._row("oldest")
        if oldest is not None and not isinstance(oldest[0], float | int):
            raise self.damage_error("the time of a waiting decision cannot be read")
        return oldest is not None and oldest[0] < before

    def expire(self, before: float, now: float, reward: float | None) -> None:
        if not self.is_overdue(before):
            return
        numbers = [row[0] for row in self._rows("overdue", before)]
        self._append("expired", [(number, now) for number in numbers])
        self._execute_many("stop_waiting", [(number,) for number in numbers])
        if reward is not None:
            self.append_rewards([Reward(number, now, reward) for number in numbers])

    def reward_status(self, number: int) -> RewardStatus | None:
        if self._row("is_waiting", number) is not None:
            return True, None
        rewards = self._verified(self._rows("rewards_of", number), "rewards")
        if rewards:
            return False, float(max(rewards)[3])  # the last of them, by their rows
        if self._row("is_decided", number) is None:
            return None
        if self._row("is_expired", number) is None:
            raise self.damage_error(f"decision {number} neither waits nor has a reward")
        return False, None

    def slate(self, number: int) -> dict[str, int]:
        return {row[2]: row[0] for row in self._verified(self._rows("slate", number), "decisions")}

    def read(self, kind: Kind, since: int = 0, upto: int = LAST_ROW) -> Iterator[Entries]:
        if kind == "answered":
            yield from self._answered(since, upto)
            return
        table = {"waiting": None, "expired": "expired", "rewards": "rewards"}[kind]
        start = 1 if table is None else len(COLUMNS[table]) + 2
        end = start + len(STORED_COLUMNS["decisions"])
        more = True
        while more and (rows := self._rows(kind, since, upto, BATCH_ROWS)):
            more, since = len(rows) == BATCH_ROWS, self._next_row(since, rows[-1][0])
            heads = [] if table is None else self._verified([row[1:start] for row in rows], table)
            decisions = self._verified([row[start:end] for row in rows], "decisions")
            numbers = np.array([row[0] for row in decisions])
            features = self._features(decisions)
            if table != "rewards":
                yield Entries(since, numbers, features)
                continue
            rewards, replaced = np.array([row[3] for row in heads]), [row[4] for row in heads]
            by_agent = np.array([row[7] is not None for row in decisions])
            expired = np.array([row[end] for row in rows], dtype=bool)
            corrects = any(reward is not None for reward in replaced)
            corrected = np.array(replaced, dtype=np.float64) if corrects else None  # None becomes NaN
            yield Entries(since, numbers, features, rewards, corrected, by_agent, expired)

    def _answered(self, since: int, upto: int) -> Iterator[Entries]:
        last_rewards = _LastRewards(self._verified(rows, "rewards") for rows in self._ordered_rewards())
        while rows := self._rows("decided", since, upto, BATCH_ROWS):
            since = self._next_row(since, rows[-1][0])
            answered = [(row, last_rewards.of(row[0])) for row in self._verified(rows, "decisions")]
            decisions = [decision for decision, reward in answered if reward is not None]
            if not decisions:
                continue
            rewards = np.array([reward[3] for _, reward in answered if reward is not None])
            numbers, by_agent = np.array([(row[0], row[7] is not None) for row in decisions]).T
            yield Entries(since, numbers, self._features(decisions), rewards, None, by_agent.astype(bool))

    def _features(self, decisions: list[Any]) -> FloatArray:
        """Features (n, d) of the arms chosen, built from rows: bit for bit those by which they were chosen."""
        # Positions of rows by whether another system decided and the bytes of arm and context: most often one group.
        groups: dict[tuple[bool, int, int], list[int]] = {}
        names, arms, contexts = [], [], []
        for at, (number, _, arm, _, context, features, _, policy, catalogue, *_) in enumerate(decisions):
            if catalogue is not None:
                features = self._arm(arm, catalogue, number).features.tobytes()
            context = b"" if context is None else context
            groups.setdefault((policy is None, len(features), len(context)), []).append(at)
            names.append(arm)
            arms.append(features)
            contexts.append(context)
        dim, design = self.settings.dim, self.settings.design
        blocks = []
        for (complete, arm_bytes, context_bytes), group in groups.items():
            x = as_matrix(b"".join([arms[at] for at in group]), arm_bytes // 8)
            if complete:
                x = self._in_columns(x)
            elif context_bytes or design is not None:
                stored = np.frombuffer(b"".join([contexts[at] for at in group]))
                context = stored.reshape(len(group), context_bytes // 8)
                if design is None:
                    x = np.column_stack([context, x])
                else:
                    x = design.build(x, context, [names[at] for at in group])
            if x.shape[1] != dim:
                raise self.damage_error(f"decision {decisions[group[0]][0]} does not have {dim} features")
            blocks.append((group, x))
        if len(blocks) == 1:
            return blocks[0][1]
        built: FloatArray = np.empty((len(decisions), dim))
        for group, x in blocks:
            built[group] = x
        return built

    def _in_columns(self, complete: FloatArray) -> FloatArray:
        """Complete features in the columns of the present design, which may be more than when they were written."""
        dim, design = self.settings.dim, self.settings.design
        for earlier in self.settings.designs:
            if design is not None and earlier.dim == complete.shape[1] != dim:
                moved = np.zeros((len(complete), dim))
                moved[:, earlier.positions_in(design)] = complete
                return moved
        return complete

    def _arm(self, name: str, version: int, number: int) -> Arm:
        """An arm as it was in a version of the catalogue, in which decision `number` chose or offered it."""
        self._read_arm_versions(version)
        arm = self._arm_versions.arm(name, version)
        if arm is None:
            raise self.damage_error(f"arm {shown(name)} of decision {number} is not in the catalogue of that time")
        return arm

    def _read_arm_versions(self, version: int) -> None:
        if version > self._arm_versions.last:
            for seq, arm in self.arms(self._arm_versions.last):
                self._arm_versions.add(seq, arm)

    def decisions(self) -> Iterator[list[Decision]]:
        self.refresh_settings()
        number, end = 0, len(STORED_COLUMNS["decisions"])
        last_rewards = _LastRewards(self._verified(rows, "rewards") for rows in self._ordered_rewards())
        taken: dict[int, list[str]] = {}  # arms of the earlier slots of the present slate, by its number
        while rows := self._rows("decisions", number, BATCH_ROWS // 10):  # these are long rows
            number = self._next_row(number, rows[-1][0])
            decision_rows = self._verified([row[:end] for row in rows], "decisions")
            features = self._features(decision_rows)
            decisions = []
            for row, decision, x in zip(rows, decision_rows, features, strict=True):
                asked = self._remaining(decision, self._asked(decision, *row[end:]), taken)
                reward = last_rewards.of(decision[0])
                decisions.append(self._decision(decision, x, asked, None if reward is None else reward[3]))
            yield decisions

    def _decision(self, row: Any, features: FloatArray, asked: Round | None, reward: float | None) -> Decision:
        number, time, arm, _, _, _, probability, policy, catalogue, slate, stored = row
        unlisted = {} if stored is None else json.loads(stored)
        if catalogue is not None:
            unlisted |= self._arm(arm, catalogue, number).unlisted or {}
        return Decision(number, time, arm, features, probability, policy, asked, reward, None, slate, unlisted or None)

    def _remaining(self, decision: Any, asked: Round | None, taken: dict[int, list[str]]) -> Round | None:
        """The round without the arms of earlier slots of the same slate; None if one of these was compacted."""
        number, arm, slate = decision[0], decision[2], decision[-2]
        if slate is None:
            return asked
        if number == slate:
            taken.clear()
            taken[slate] = []
        earlier = taken.get(slate, [])
        if len(earlier) != number - slate:
            return None
        remaining = None if asked is None else asked.without(earlier)
        earlier.append(arm)
        return remaining

    def _asked(self, decision: Any, *stored_offer: Any) -> Round | None:
        """The round of a decision; None if its offer was not kept."""
        number, _, _, offer, stored_context, _, _, _, catalogue, *_ = decision
        design = self.settings.design
        context = None if stored_context is None else as_vector(stored_context)
        if offer is None and catalogue is None:
            return None
        names, features = None, b""
        if offer is not None:
            read = _read_offer(*stored_offer)
            if read is None:
                raise self.damage_error(f"what was offered in decision {number} is not what was written")
            names, features = read
        if catalogue is None:
            assert names is not None
            arm_features = as_matrix(features, len(features) // 8 // len(names))
        else:
            self._read_arm_versions(catalogue)
            arms = self._arm_versions.active(catalogue)
            if names is not None:
                arms = [self._arm(name, catalogue, number) for name in names]
            names, size = [arm.name for arm in arms], max(len(arm.features) for arm in arms)
            arm_features = np.array([padded(arm.features, size) for arm in arms])  # some may lack appended features
        if design is not None:
            arm_features = padded(arm_features, len(design.arm))
            context = padded(EMPTY_VECTOR if context is None else context, len(design.context))
        return Round(names, arm_features, None, context, design, catalogue, offer is not None)

    def _next_row(self, before: int, after: Any) -> int:
        """The row to read on from, which must be later than the one before; a damaged tree could be read for ever."""
        if not isinstance(after, int) or after <= before:
            raise self.damage_error("rows are out of order")
        return after

    # Catalogue and policies

    def arms(self, since: int) -> list[tuple[int, Arm]]:
        return [
            (seq, Arm(name, as_vector(features), cost, state, None if unlisted is None else json.loads(unlisted)))
            for seq, _, name, features, cost, state, unlisted in self._verified(self._rows("arms", since), "arms")
        ]

    def append_arms(self, arms: Iterable[Arm], time: float) -> None:
        rows = [
            (time, arm.name, as_bytes(arm.features), float(arm.cost), arm.state, _as_json(arm.unlisted)) for arm in arms
        ]
        self._append("arms", rows)

    def policy(self, since: int) -> tuple[int, PolicyRow] | None:
        row = self._row("policy", since)
        if row is None and since:
            return None
        version, _, policy, levels, noise, explore = self._required_row(row, "policy", "policies")
        return version, PolicyRow(policy, levels, noise, explore)

    def append_policy(self, policy: PolicyRow, time: float) -> None:
        self._append("policies", [(time, *policy)])

    # Sums over the log

    def snapshot(self) -> Snapshot | None:
        row = self._row("snapshot")
        if row is None or checksum(*row[:-1]) != row[-1]:
            return None
        return Snapshot(Place(*row[:4]), *row[4:7])

    def write_snapshot(self, snapshot: Snapshot) -> None:
        self._execute("clear_snapshot")
        self._insert("snapshot", [(*snapshot.place, *snapshot[1:])])

    def folded(self) -> tuple[int, bytes]:
        _, upto, body = self._required_row(self._row("folded"), FOLDED, "folded")
        return upto, body

    def fold(self, upto: int, body: bytes) -> int:
        generation, (before, _) = self.place().generation, self.folded()
        dropped = self._execute("fold_decisions", upto)
        self._execute("fold_rewards", upto)
        self._replace_folded(generation + 1, max(before, upto), body)
        return dropped

    def _replace_folded(self, generation: int, upto: int, body: bytes) -> None:
        self._execute("clear_folded")
        self._insert("folded", [(generation, upto, body)])

    def shrink(self) -> None:
        with self.transaction():
            self._execute_many("drop_offer", self._rows("unused_offers"))

    def last_before(self, time: float) -> int:
        first = self._row("first_since", time)
        return self.place().number if first is None else int(first[0]) - 1

    def add_digest(self, digest: bytes, time: float, rows: int) -> bool:
        return self._execute("add_digest", digest, time, rows) == 1

    # Reports and checks

    def check(self) -> None:
        for what in self.contradictions:
            if self._rows(what):
                raise self.damage_error(what)
        for table, rows in self.rows():
            for number, digest, names, features, packed in rows if table == "offers" else ():
                if _read_offer(names, features, digest, packed) is None:
                    raise self.damage_error(f"offer {shown(number)} is not what was written")

    def timed_rewards(self, since: int) -> Iterator[list[TimedReward]]:
        start = len(STORED_COLUMNS["rewards"])
        end = start + len(STORED_COLUMNS["decisions"])
        while rows := self._rows("timed_rewards", since, BATCH_ROWS):
            since = self._next_row(since, rows[-1][0])
            rewards = self._verified([row[:start] for row in rows], "rewards")
            decisions = self._verified([row[start:end] for row in rows], "decisions")
            yield [
                TimedReward(number, decision[1], None if row[end] else time, reward, replaces)
                for row, decision, (_, number, time, reward, replaces) in zip(rows, decisions, rewards, strict=True)
            ]

    def recent_choices(self, most: int) -> dict[str, int]:
        arms = Counter(row[2] for row in self._verified(self._rows("recent_decisions", most), "decisions"))
        return dict(sorted(arms.items(), key=lambda item: (-item[1], item[0])))

    def last_asked(self) -> Round | None:
        self.refresh_settings()
        row = self._row("last_asked")
        if row is None:
            return None
        end = len(STORED_COLUMNS["decisions"])
        (decision,) = self._verified([row[:end]], "decisions")
        return self._asked(decision, *row[end:])

    def recent_contexts(self, most: int) -> list[FloatArray]:
        self.refresh_settings()
        design, contexts = self.settings.design, []
        for number, *_, context, _, _, _, _, slate, _ in self._verified(
            self._rows("recent_decisions", most), "decisions"
        ):
            if context is not None and slate in (None, number):
                vector = as_vector(context)
                contexts.append(vector if design is None else padded(vector, len(design.context)))
        return contexts

    # Rows

    def rows(self) -> Rows:
        """All rows but the snapshot, which is written anew where it is missing; checksums are verified."""
        for table in COLUMNS:
            if table == "snapshot":
                continue
            since, size = 0, BATCH_ROWS // 10
            while rows := self._rows(f"all {table}", *((since, size) if table in NUMBERED_TABLES else ())):
                if table not in TABLES_WITHOUT_CHECKSUM:
                    self._verified(rows, table)
                yield table, rows
                if table not in NUMBERED_TABLES or len(rows) < size:
                    break
                since = self._next_row(since, rows[-1][0])

    def last_numbers(self) -> dict[str, int]:
        """The number of the last row that was ever in each of `COUNTED_TABLES`."""
        return {table: self._last(table) for table in COUNTED_TABLES}

    def _append(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows to one of `COUNTED_TABLES`, with their numbers."""
        first = self._next(table)
        self._insert(table, [(number, *row) for number, row in enumerate(rows, first)])

    def _next(self, table: str) -> int:
        """The number of the next row of a table."""
        return self._checked_number(self._last(table)) + 1

    def _checked_number(self, stored: Any) -> int:
        """The number of the last row of a table, after which there is room for others; None is that of an empty one."""
        try:
            number = int(stored or 0)
        except (TypeError, ValueError, OverflowError):
            number = -1
        if not 0 <= number < LAST_ROW:
            raise self.damage_error(f"the last number of a table is {shown(stored)}, after which there is none")
        return number

    def _verified(self, rows: Iterable[Any], table: str) -> list[Any]:
        """Rows without their checksums, which are verified."""
        verified = []
        for *row, stored in rows:
            if row_checksum(table, row) != stored:
                what = "expired decisions" if table == "expired" else table
                raise self.damage_error(f"a row of the table of {what} is not what was written: {shown(row[0])}")
            verified.append(row)
        return verified

    def _required_row(self, row: Any, what: str, table: str) -> Any:
        """A row that must exist, without its checksum, which is verified."""
        if row is None or row_checksum(table, row[:-1]) != row[-1]:
            raise self.damage_error(f"the {what} cannot be read")
        return row[:-1]


class Transaction:
    """A transaction of a log: all of it is written or nothing, whatever exception comes and when.

    An exception may also come from outside, by Ctrl-C or another signal: between any two steps, in the beginning and
    the end of a transaction too. Then the next transaction ends the one that was left. (As a generator this would take
    three times as long, and every decision has two.)
    """

    def __init__(self, log: TableLog, write: bool) -> None:
        self._log, self._write = log, write

    def __enter__(self) -> None:
        log = self._log
        if log._in_transaction:
            if _is_running(log._frame):
                raise InvalidValueError(
                    f"{log.path}: an agent was called while a call of it in the same thread was not done, by a signal "
                    "handler, a clock or a policy; call it after that one"
                )
            log._roll_back()
        log._frame = sys._getframe(1)
        try:
            log._begin(self._write)
        except BaseException as error:
            explained = self._take_back(error)
            if explained is None:
                raise
            raise explained from error

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            try:
                self._log._end(self._write)
                self._log._frame = None
                return
            except BaseException as failure:
                explained = self._take_back(failure)
                if explained is None:
                    raise
                raise explained from failure
        explained = self._take_back(error)
        if explained is not None:
            raise explained from error

    def _take_back(self, error: BaseException) -> AdadimError | None:
        """Take back what was written; gives an error to raise in the place of one of the database."""
        self._log._roll_back(error)
        self._log._frame = None
        return self._log._explained(error)


def _is_running(frame: FrameType | None) -> bool:
    """Whether a frame is among the callers."""
    caller: FrameType | None = sys._getframe()
    while caller is not None and caller is not frame:
        caller = caller.f_back
    return caller is not None


class _LastRewards:
    """The last reward of each decision, from rows of rewards that are ordered by decision, and of one by their row."""

    def __init__(self, batches: Iterable[list[Any]]) -> None:
        self._rows = chain.from_iterable(batches)
        self._ahead = next(self._rows, None)

    def of(self, number: int) -> Any:
        """The row of the last reward of a decision, None if it has none; they are asked for in their order."""
        last = None
        while self._ahead is not None and self._ahead[1] <= number:
            if self._ahead[1] == number:
                last = self._ahead
            self._ahead = next(self._rows, None)
        return last


def _read_offer(names: Any, stored: Any, digest: Any, packed: Any) -> tuple[list[str], bytes] | None:
    """Names and features of a stored offer; None if it is not what was written, or not there."""
    try:
        features = decompress(stored) if packed else stored
        return (json.loads(names), features) if _offer_digest(names, features) == digest else None
    except (CompressionError, AttributeError, TypeError):  # of values of another type
        return None


def _as_json(values: Unlisted | None) -> str | None:
    """Values as JSON; None where there are none."""
    return json.dumps(values) if values else None


def _offer_digest(names: str, features: bytes) -> bytes:
    return hashlib.blake2b(names.encode() + b"\0" + features, digest_size=16).digest()


def _setting_rows(settings: Settings) -> list[tuple[Any, ...]]:
    return [(key, json.dumps(value)) for key, value in settings.to_table().items()]
