"""What logs in tables have in common, whichever database has them: how decisions become rows, and rows decisions.

A row has a checksum of its values, in the column `seal`: not every store notices every flipped bit.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from zlib import compress, crc32, decompress
from zlib import error as CompressionError

import numpy as np

from adadim.agent.log import (
    NOTHING,
    Answer,
    Arm,
    ArmVersions,
    DayRewards,
    Decision,
    Entries,
    Found,
    Kind,
    Log,
    Place,
    PolicyRow,
    Reward,
    Round,
    Settings,
    Snapshot,
    as_bytes,
    as_matrix,
    as_vector,
    padded,
)
from adadim.core.arrays import FloatArray
from adadim.core.checks import shown
from adadim.errors import AdadimError

BATCH = 20_000  # rows read at a time
FOLDED = "sums of compacted decisions"
COMPRESSION = 1  # zlib's quickest
SAMPLE = 1024  # bytes by which to see whether compressing the rest is worth its time
SAMPLED = 16  # one offer of so many is sampled, and the others are stored as it was
WORTHWHILE = 0.9  # what compression must leave of the sample at most

# The columns of each table; those of a sealed one have a checksum behind them.
COLUMNS = {
    "settings": ("key", "value"),
    "policies": ("version", "time", "policy", "levels", "noise"),
    "arms": ("seq", "time", "name", "features", "cost", "state"),
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
    ),
    "rewards": ("seq", "decision", "time", "reward", "replaces"),
    "outstanding": ("number", "time"),
    "expired": ("seq", "number", "time"),
    "learned": ("digest", "time", "rows"),
    "folded": ("generation", "upto", "body"),
    "snapshot": ("generation", "number", "seq", "expired", "body", "asked", "peak"),
}
PLAIN = ("offers", "outstanding", "learned")
"""Tables without seals."""

COUNTED = ("policies", "arms", "decisions", "rewards", "expired")
"""Tables that count their rows in the first column, in the order in which they are committed; no number comes twice."""

NUMBERED = (*COUNTED, "offers", "outstanding")
"""Tables that can be read in the order of their first column, an integer."""

Rows = Iterable[tuple[str, list[tuple[Any, ...]]]]
"""Rows of tables as they are stored, a table at a time or in several batches."""


def stored_columns(table: str) -> tuple[str, ...]:
    """The columns of a table, its seal among them."""
    return COLUMNS[table] if table in PLAIN else (*COLUMNS[table], "seal")


def listed_columns(table: str, alias: str) -> str:
    """The columns of a table, its seal among them, as a query names them."""
    return ", ".join(f"{alias}.{column}" for column in stored_columns(table))


def sealed(table: str, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows as they are stored."""
    return [tuple(row) if table in PLAIN else (*row, seal_of(table, row)) for row in rows]


def first_rows(time: float, settings: Settings, policy: PolicyRow, sums: bytes) -> Rows:
    """What is in the log of a new agent, with sums of nothing."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "settings": _setting_rows(settings),
        "policies": [(1, time, *policy)],
        "folded": [(0, 0, sums)],
    }
    return [(table, sealed(table, new)) for table, new in rows.items()]


END_OF_DECISION = len(stored_columns("decisions"))


def checksum(*values: Any) -> int:
    """Checksum of a row, by which damage that the database does not see is noticed."""
    # SQLite stores -0.0 as 0.0.
    return crc32(
        b"".join([v if type(v) is bytes else repr(v or 0.0 if type(v) is float else v).encode() for v in values])
    )


def seal_of(table: str, row: Sequence[Any]) -> int:
    """Checksum of a row; that of a decision in no slate is as before there were any, so that none was written anew."""
    return checksum(*(row[:-1] if table == "decisions" and row[-1] is None else row))


class TableLog(Log):
    """A log in tables; a store has the queries by their names, and runs them."""

    queries: Mapping[str, str]
    contradictions: Mapping[str, str]
    """What cannot be, unless rows were lost or changed: queries that find no row."""

    def __init__(self) -> None:
        self._versions = ArmVersions()
        self._compresses: bool | None = None  # whether offers are worth compressing, once one was sampled

    # What a store does

    @abstractmethod
    def _rows(self, query: str, *values: Any) -> list[Any]:
        """The rows that a query gives."""

    def _row(self, query: str, *values: Any) -> Any:
        """The first row, None if there is none."""
        return next(iter(self._rows(query, *values)), None)

    @abstractmethod
    def _execute(self, query: str, *values: Any) -> int:
        """Change rows; gives how many."""

    @abstractmethod
    def _execute_many(self, query: str, values: list[tuple[Any, ...]]) -> None:
        """Change rows, once for each of the values."""

    @abstractmethod
    def _insert(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows to a table."""

    @abstractmethod
    def _last(self, table: str) -> int:
        """The number of the last row that was ever in a table."""

    # Settings

    def _read_settings(self) -> None:
        """What a log does when it has been opened; it is closed again if that fails."""
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
        self.refresh_settings()

    def _settings(self) -> Settings:
        rows = self._verified(self._rows("settings"), "settings")
        values = {key: json.loads(value) for key, value in rows}
        try:
            return Settings.from_table(values)
        except AdadimError as error:
            raise self.damaged(str(error)) from error

    # Decisions and rewards

    def append_decisions(self, decisions: Sequence[Decision]) -> None:
        rows: list[tuple[Any, ...]] = []
        offers: dict[tuple[int, int], int | None] = {}  # many decisions may be among the same arms
        for number, time, arm, features, probability, policy, asked, *_, slate in decisions:
            offer = context = catalogue = None
            if asked is not None:
                same = id(asked.names), id(asked.own)
                if same not in offers:
                    offers[same] = self._offer(asked)
                offer, catalogue = offers[same], asked.catalogue
                context = None if asked.context is None else as_bytes(asked.context)
                features = NOTHING if catalogue is not None else asked.own[asked.names.index(str(arm))]
            rows.append((number, time, arm, offer, context, as_bytes(features), probability, policy, catalogue, slate))
        self._insert("decisions", rows)
        self._insert(
            "outstanding", [(decision.number, decision.time) for decision in decisions if decision.policy is not None]
        )

    def _offer(self, asked: Round) -> int | None:
        """Number of what was offered, which is written if it is new; None if the version of the catalogue says it.

        Also None where only what was chosen is kept.
        """
        if not asked.some if asked.catalogue is not None else self.settings.keep == "chosen":
            return None
        names, features = json.dumps(asked.names), as_bytes(asked.own if asked.catalogue is None else NOTHING)
        digest = _offer_digest(names, features)
        row = self._row("offer", digest)
        if row is not None:
            return int(row[0])
        number = self._last("offers") + 1
        if features and (self._compresses is None or number % SAMPLED == 0):
            self._compresses = _is_compressible(features[:SAMPLE])
        packed = bool(features and self._compresses)
        stored = compress(features, COMPRESSION) if packed else features
        self._insert("offers", [(number, digest, names, stored, int(packed))])
        return number

    def append_rewards(self, rewards: Sequence[Reward]) -> None:
        self._append("rewards", rewards)
        self._stop_waiting([(reward.number,) for reward in rewards if reward.replaces is None])

    def is_overdue(self, before: float) -> bool:
        oldest = self._row("oldest")
        return oldest is not None and oldest[0] < before

    def expire(self, before: float, now: float, reward: float | None) -> None:
        if not self.is_overdue(before):
            return
        numbers = [row[0] for row in self._rows("overdue", before)]
        self._append("expired", [(number, now) for number in numbers])
        self._stop_waiting([(number,) for number in numbers])
        if reward is not None:
            self.append_rewards([Reward(number, now, reward) for number in numbers])

    def _stop_waiting(self, numbers: list[tuple[Any, ...]]) -> None:
        self._execute_many("stop_waiting", numbers)

    def find(self, number: int) -> Found:
        if self._row("is_waiting", number) is not None:
            return True, None
        for _, _, _, reward, _ in self._verified(self._rows("last_reward", number), "rewards"):
            return False, float(reward)
        if self._row("is_decided", number) is None:
            return None
        if self._row("is_expired", number) is None:
            raise self.damaged(f"decision {number} neither waits nor has a reward")
        return False, None

    def slate(self, number: int) -> dict[str, int]:
        return {row[2]: row[0] for row in self._verified(self._rows("slate", number), "decisions")}

    def read(self, kind: Kind, since: int = 0, upto: int = 2**62) -> Iterator[Entries]:
        table = {"waiting": None, "expired": "expired"}.get(kind, "rewards")
        start = 1 if table is None else len(COLUMNS[table]) + 2
        end = start + END_OF_DECISION
        more = True
        while more and (rows := self._rows(kind, since, upto, BATCH)):
            more, since = len(rows) == BATCH, self._next(since, rows[-1][0])
            heads = [] if table is None else self._verified([row[1:start] for row in rows], table)
            decisions = self._verified([row[start:end] for row in rows], "decisions")
            numbers = np.array([row[0] for row in decisions])
            features = self._features(decisions)
            if table != "rewards":
                yield Entries(since, numbers, features)
                continue
            rewards, replaced = np.array([row[3] for row in heads]), [row[4] for row in heads]
            own = np.array([row[7] is not None for row in decisions])
            expired = np.array([row[end] for row in rows], dtype=bool)
            corrects = any(reward is not None for reward in replaced)
            corrected = np.array(replaced, dtype=np.float64) if corrects else None  # None becomes NaN
            yield Entries(since, numbers, features, rewards, corrected, own, expired)

    def _features(self, decisions: list[Any]) -> FloatArray:
        """Features (n, d) of the arms chosen, from what the rows have of them: bit for bit those of the decisions."""
        rows: dict[tuple[bool, int, int], list[int]] = {}  # by what they have; most often all rows are alike
        names, arms, contexts = [], [], []
        for at, (number, _, arm, _, context, features, _, policy, catalogue, _) in enumerate(decisions):
            if catalogue is not None:
                features = self._arm(arm, catalogue, number).features.tobytes()
            context = b"" if context is None else context
            rows.setdefault((policy is None, len(features), len(context)), []).append(at)
            names.append(arm)
            arms.append(features)
            contexts.append(context)
        built: FloatArray = np.empty((len(decisions), self.settings.dim))
        for (complete, size, before), chosen in rows.items():
            own = as_matrix(b"".join([arms[at] for at in chosen]), size // 8)
            if complete:
                made = self._in_columns(own)
            elif not before and self.settings.design is None:
                made = own
            else:
                context = np.frombuffer(b"".join([contexts[at] for at in chosen])).reshape(len(chosen), before // 8)
                if self.settings.design is None:
                    made = np.column_stack([context, own])
                else:
                    made = self.settings.design.build(own, context, [names[at] for at in chosen])
            if made.shape[1] != self.settings.dim:
                raise self.damaged(f"decision {decisions[chosen[0]][0]} does not have {self.settings.dim} features")
            built[chosen] = made
        return built

    def _in_columns(self, complete: FloatArray) -> FloatArray:
        """Complete features (n, d) in the columns that they have now, which may be more than when they were written."""
        dim, design = self.settings.dim, self.settings.design
        for earlier in self.settings.designs:
            if design is not None and earlier.dim == complete.shape[1] != dim:
                moved = np.zeros((len(complete), dim))
                moved[:, earlier.positions_in(design)] = complete
                return moved
        return complete

    def _arm(self, name: str, version: int, number: int) -> Arm:
        """An arm as it was in a version of the catalogue, in which decision `number` chose or offered it."""
        self._read_versions(version)
        arm = self._versions.arm(name, version)
        if arm is None:
            raise self.damaged(f"arm {shown(name)} of decision {number} is not in the catalogue of that time")
        return arm

    def _read_versions(self, version: int) -> None:
        if version > self._versions.last:
            for seq, arm in self.arms(self._versions.last):
                self._versions.add(seq, arm)

    def decisions(self) -> Iterator[list[Decision]]:
        self.refresh_settings()
        start = len(stored_columns("rewards"))
        number, end = 0, start + END_OF_DECISION
        taken: dict[int, list[str]] = {}  # arms of the slots before, in the slate that was begun last
        while rows := self._rows("decisions", number, BATCH // 10):  # these are long rows
            number = self._next(number, rows[-1][start])
            decided = self._verified([row[start:end] for row in rows], "decisions")
            features = self._features(decided)
            yield [
                self._decision(row[:start], one, x, self._left(one, self._asked(one, *row[end:]), taken))
                for row, one, x in zip(rows, decided, features, strict=True)
            ]

    def _left(self, decided: Any, asked: Round | None, taken: dict[int, list[str]]) -> Round | None:
        """What a decision was chosen among: of a slate, what the slots before had left; None if one of them is gone."""
        number, arm, slate = decided[0], decided[2], decided[-1]
        if slate is None:
            return asked
        if number == slate:
            taken.clear()
            taken[slate] = []
        before = taken.get(slate, [])
        if len(before) != number - slate:
            return None
        left = None if asked is None else asked.without(before)
        before.append(arm)
        return left

    def _decision(self, told: Any, decided: Any, features: FloatArray, asked: Round | None) -> Decision:
        reward = None if told[0] is None else self._verified([told], "rewards")[0][3]
        number, time, arm, _, _, _, probability, policy, _, slate = decided
        return Decision(number, time, arm, features, probability, policy, asked, reward, slate=slate)

    def _asked(
        self, decided: Any, stored_names: str | None, stored: bytes, digest: bytes, packed: int | None
    ) -> Round | None:
        """What was offered in a decision; None if nobody knows."""
        number, _, _, offer, stored_context, _, _, _, catalogue, _ = decided
        design = self.settings.design
        context = None if stored_context is None else as_vector(stored_context)
        if offer is None and catalogue is None:
            return None
        names, features = None, b""
        if offer is not None:
            try:
                features = decompress(stored) if packed else stored
            except (CompressionError, TypeError):
                stored_names = None
            if stored_names is None or _offer_digest(stored_names, features) != digest:
                raise self.damaged(f"what was offered in decision {number} is not what was written")
            names = json.loads(stored_names)
        if catalogue is None:
            assert names is not None
            own = as_matrix(features, len(features) // 8 // len(names))
        else:
            self._read_versions(catalogue)
            arms = self._versions.active(catalogue)
            if names is not None:
                arms = [self._arm(name, catalogue, number) for name in names]
            names, own = [arm.name for arm in arms], _own(arms)
        if design is not None:
            own = padded(own, len(design.arm))
            context = padded(NOTHING if context is None else context, len(design.context))
        return Round(names, own, None, context, design, catalogue, offer is not None)

    def _next(self, before: int, after: Any) -> int:
        """Where to read on: always further, or a damaged tree would be read for ever."""
        if not isinstance(after, int) or after <= before:
            raise self.damaged("rows are out of order")
        return after

    # Catalogue and policies

    def arms(self, since: int) -> list[tuple[int, Arm]]:
        return [
            (seq, Arm(name, as_vector(features), cost, state))
            for seq, _, name, features, cost, state in self._verified(self._rows("arms", since), "arms")
        ]

    def append_arms(self, arms: Iterable[Arm], time: float) -> None:
        rows = [(time, arm.name, as_bytes(arm.features), float(arm.cost), arm.state) for arm in arms]
        self._append("arms", rows)

    def policy(self, since: int) -> tuple[int, PolicyRow] | None:
        row = self._row("policy", since)
        if row is None and since:
            return None
        version, _, policy, levels, noise = self._one(row, "policy")
        return version, PolicyRow(policy, levels, noise)

    def append_policy(self, policy: PolicyRow, time: float) -> None:
        self._append("policies", [(time, *policy)])

    # Sums over the log

    def snapshot(self) -> Snapshot | None:
        row = self._row("snapshot")
        if row is None or checksum(*row[:-1]) != row[-1]:
            return None
        return Snapshot(Place(*row[:4]), *row[4:7])

    def keep(self, snapshot: Snapshot) -> None:
        self._execute("clear_snapshot")
        self._insert("snapshot", [(*snapshot.place, *snapshot[1:])])

    def folded(self) -> tuple[int, bytes]:
        _, upto, body = self._one(self._row("folded"), FOLDED)
        return upto, body

    def fold(self, upto: int, body: bytes) -> int:
        generation, (before, _) = self.place().generation, self.folded()
        gone = self._execute("fold_decisions", upto)
        self._execute("fold_rewards", upto)
        self._replace_folded(generation + 1, max(before, upto), body)
        return gone

    def _replace_folded(self, generation: int, upto: int, body: bytes) -> None:
        self._execute("clear_folded")
        self._insert("folded", [(generation, upto, body)])

    def last_before(self, time: float) -> int:
        first = self._row("first_since", time)
        return self.place().number if first is None else int(first[0]) - 1

    def add_digest(self, digest: bytes, time: float, rows: int) -> bool:
        return self._execute("add_digest", digest, time, rows) == 1

    # Looking at it

    def check(self) -> None:
        for what in self.contradictions:
            if self._rows(what):
                raise self.damaged(what)

    def day_rewards(self, since: int) -> list[DayRewards]:
        return [DayRewards(*row) for row in self._rows("day_rewards", since)]

    def answers(self, since: int, last: int) -> list[Answer]:
        rows = self._rows("answers", since, last)
        return [Answer(number, at, told, reward, bool(first)) for number, at, told, reward, first in reversed(rows)]

    def choices(self, last: int) -> dict[str, int]:
        return dict(self._rows("choices", last))

    def last_asked(self) -> Round | None:
        self.refresh_settings()
        row = self._row("last_asked")
        if row is None:
            return None
        (decided,) = self._verified([row[:END_OF_DECISION]], "decisions")
        return self._asked(decided, *row[END_OF_DECISION:])

    # Rows

    def rows(self) -> Rows:
        """All rows but the snapshot, which is made anew where it is missing; seals are checked."""
        for table in COLUMNS:
            if table == "snapshot":
                continue
            since, size = 0, BATCH // 10
            while rows := self._rows(f"all {table}", *((since, size) if table in NUMBERED else ())):
                if table not in PLAIN:
                    self._verified(rows, table)
                yield table, rows
                if table not in NUMBERED or len(rows) < size:
                    break
                since = self._next(since, rows[-1][0])

    def last_numbers(self) -> dict[str, int]:
        """The number of the last row that was ever in a table, of those that count their rows."""
        return {table: self._last(table) for table in COUNTED}

    def _append(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows to a table that counts them in its first column."""
        last = self._last(table)
        self._insert(table, [(last + i, *row) for i, row in enumerate(rows, 1)])

    def _verified(self, rows: Iterable[Any], table: str) -> list[Any]:
        """Rows without their checksums, which must fit."""
        verified = []
        for *row, check in rows:
            if seal_of(table, row) != check:
                what = "expired decisions" if table == "expired" else table
                raise self.damaged(f"a row of the table of {what} is not what was written: {shown(row[0])}")
            verified.append(row)
        return verified

    def _one(self, row: Any, what: str) -> Any:
        """A row that must be there, without its checksum."""
        if row is None or checksum(*row[:-1]) != row[-1]:
            raise self.damaged(f"the {what} cannot be read")
        return row[:-1]


def _offer_digest(names: str, features: bytes) -> bytes:
    return hashlib.blake2b(names.encode() + b"\0" + features, digest_size=16).digest()


def _is_compressible(sample: bytes) -> bool:
    """Whether compression is worth its time: digits of measured numbers are like noise."""
    return len(compress(sample, COMPRESSION)) <= WORTHWHILE * len(sample)


def _setting_rows(settings: Settings) -> list[tuple[Any, ...]]:
    return [(key, json.dumps(value)) for key, value in asdict(settings).items()]


def _own(arms: Sequence[Arm]) -> FloatArray:
    """Features of arms (K, m), those of which fewer are stored with zeros behind them."""
    size = max(len(arm.features) for arm in arms)
    return np.array([padded(arm.features, size) for arm in arms])
