"""A log in tables: how events become rows, and what the databases have in common."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import Any
from zlib import compress, decompress
from zlib import error as CompressionError

from adadim.agent.log import (
    EMPTY_VECTOR,
    AgentSettings,
    Arm,
    Decide,
    Event,
    Expiry,
    Log,
    LoggedDecision,
    LogPosition,
    PolicyRow,
    Reward,
    Round,
    Snapshot,
    as_bytes,
    damaged,
)
from adadim.agent.statements import (
    ALL,
    COUNTED_TABLES,
    COUNTERS,
    LAST_ROW,
    NUMBERED_TABLES,
    OFFER,
    ROW_TYPES,
    STORED_COLUMNS,
    TABLES_WITHOUT_CHECKSUM,
    UNUSED_OFFERS,
    Dialect,
    LearnedRow,
    Query,
    Rows,
    contradictions,
    row_checksum,
    with_checksums,
)
from adadim.core.checks import shown
from adadim.core.columns import Unlisted
from adadim.core.threads import is_running
from adadim.errors import AdadimError, InvalidValueError

BATCH_ROWS = 20_000  # rows read at a time
FOLDED = "sums of compacted decisions"
EXISTS_ALREADY = "exists already; open it with Agent.open or Agent.create(..., exist_ok=True), or choose another name"
COMPRESSION_LEVEL = 1  # zlib's quickest
SAMPLE_BYTES = 1024  # of an offer, which are compressed to see whether compression is worth its time
SAMPLING_INTERVAL = 16  # offers, one of which is sampled, and decides for those after it
LARGEST_COMPRESSED_SHARE = 0.9  # of the sample, up to which compression is worth its time
NAMED = {table: partial(tuple.__new__, kind) for table, kind in ROW_TYPES.items()}
"""How rows get their names; `_make` takes three times as long."""
PLACE_COUNTERS = ("generation", "decisions", "rewards", "expired", "arms", "policies")  # as `LogPosition` has them


def initial_rows(time: float, settings: AgentSettings, policy: PolicyRow, sums: bytes) -> Rows:
    """The rows of the log of a new agent; `sums` are the empty ones."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "settings": _setting_rows(settings),
        "policies": [(1, time, *policy)],
        "folded": [(0, 0, sums)],
    }
    return [(table, with_checksums(table, new)) for table, new in rows.items()]


class TableLog(Log):
    """A log in tables; a store has a dialect and a connection, and runs the statements."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect, self._process = dialect, os.getpid()
        self._end_of_waiting = dialect.finished(dialect.delete("outstanding", "number = ?"))
        self._statements: dict[Any, str] = {}  # by query or text
        self._counts = dict.fromkeys(COUNTERS, 0)  # in the transaction, with the rows that it wrote
        self._settings_generation: int | None = None
        self._compresses: bool | None = None  # whether offers are compressed; None until one was sampled
        self._frame: FrameType | None = None  # that of the ``with`` block of the transaction
        self._transactions = {write: Transaction(self, write) for write in (False, True)}

    # What a store implements

    @property
    @abstractmethod
    def _in_transaction(self) -> bool:
        """Whether the connection is in a transaction, or in a state that is not known."""

    @abstractmethod
    def _begin(self, write: bool) -> None:
        """Begin a transaction, and read its counters."""

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
    def _fetch(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """What a statement finds."""

    @abstractmethod
    def _stream(self, statement: str, size: int) -> Iterator[list[Any]]:
        """What a statement finds, in batches of a size, in one pass."""

    @abstractmethod
    def _execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement that changes rows; gives how many."""

    @abstractmethod
    def _execute_many(self, statement: str, values: list[tuple[Any, ...]]) -> None:
        """Run a statement that changes rows, once for each of the values."""

    @abstractmethod
    def _write_rows(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Add rows with their checksums to a table."""

    # Transactions

    def transaction(self, write: bool = True) -> Transaction:
        if self._process != os.getpid():
            raise InvalidValueError(f"{self.path} was opened in another process; call Agent.open in this one")
        return self._transactions[write]

    def commit(self, count: int, decide: Decide, then: Callable[[], None]) -> list[LoggedDecision]:
        with self.transaction():
            decisions = decide(None)
            self.append(decisions, decisions[0].time)
            then()
        return decisions

    def _take_counters(self, stored: Sequence[Any]) -> None:
        """Take the counters that a transaction has read; that of offers is checked when it is used."""
        counts = dict(zip(COUNTERS, stored, strict=True))
        if not isinstance(counts["generation"], int):
            raise damaged(self, f"the {FOLDED} cannot be read")
        counts.update((table, self._with_room(counts[table])) for table in COUNTED_TABLES)
        self._counts = counts

    def _with_room(self, stored: Any) -> int:
        """A counter as a number, after which there must be room for all that a process may write."""
        try:
            number = int(stored)
        except (TypeError, ValueError, OverflowError):
            number = -1
        if not 0 <= number <= LAST_ROW // 2:
            raise damaged(self, f"the last number of a table is {shown(stored)}, after which there is none")
        return number

    def place(self) -> LogPosition:
        counts = self._counts
        if counts["generation"] != self._settings_generation:
            self._read_settings()
            self._settings_generation = counts["generation"]
        return LogPosition(*map(counts.__getitem__, PLACE_COUNTERS))

    def _open_settings(self) -> None:
        """Read the settings of a log that was just opened; close it if that fails."""
        try:
            with self.transaction(write=False):
                self.place()
        except BaseException:
            self.close()
            raise

    def _read_settings(self) -> None:
        values = {row.key: json.loads(row.value) for row in self.select(ALL["settings"])}
        try:
            settings = AgentSettings.from_table(values)
        except AdadimError as error:
            raise damaged(self, str(error)) from error
        if settings != getattr(self, "settings", None):
            self.settings = settings

    # Reading

    def select(self, query: Query, *values: Any) -> list[Any]:
        if query.counter is not None and values[0] >= self._counts[query.counter]:
            return []
        found = self._fetch(self._statements.get(query) or self._statement(query), values)
        if not found:
            return found
        return self._verified(query, found) if query.alone is None else self._verified_rows(query.alone, found)

    def read(self, query: Query, since: int = 0, upto: int = LAST_ROW, long: bool = False) -> Iterator[list[Any]]:
        if query.in_one_pass:
            for found in self._stream(self._statement(query), BATCH_ROWS):
                yield self._verified(query, found)
            return
        size = BATCH_ROWS // 10 if long else BATCH_ROWS
        while rows := self.select(query, since, upto, size):
            since = self._later(since, (rows[-1] if len(query.tables) == 1 else rows[-1][0])[0])
            yield rows
            if len(rows) < size:
                return

    def _later(self, before: int, after: Any) -> int:
        """The row to read on from, which must be later than the one before; a damaged tree could be read for ever."""
        if not isinstance(after, int) or after <= before:
            raise damaged(self, "rows are out of order")
        return after

    def _statement(self, query: Query) -> str:
        if query not in self._statements:
            self._statements[query] = query.statement(self._dialect)
        return self._statements[query]

    def _verified(self, query: Query, found: list[Any]) -> list[Any]:
        """What a query found, with rows by name; their checksums are verified."""
        columns: list[list[Any]] = []
        end = 0
        for table in query.tables.values():
            start, end = end, end + len(STORED_COLUMNS[table])
            rows = found if end - start == len(found[0]) else [row[start:end] for row in found]
            columns.append(self._verified_rows(table, rows))
        columns.extend([row[at] for row in found] for at in range(end, len(found[0])))
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def _verified_rows(self, table: str, rows: Iterable[Any]) -> list[Any]:
        named = NAMED[table]
        if table in TABLES_WITHOUT_CHECKSUM:
            return list(map(named, rows))
        verified = []
        for stored in rows:
            row = stored[:-1]
            if row_checksum(table, row) != stored[-1]:
                what = "expired decisions" if table == "expired" else table
                raise damaged(self, f"a row of the table of {what} is not what was written: {shown(row[0])}")
            verified.append(named(row))
        return verified

    def rows(self) -> Rows:
        """All rows but the snapshot, which is written anew where it is missing; checksums are verified."""
        for table, query in ALL.items():
            since, size, statement = 0, BATCH_ROWS // 10, self._statement(query)
            while table != "snapshot":
                rows = self._fetch(statement, (since, LAST_ROW, size) if table in NUMBERED_TABLES else ())
                if rows:
                    self._verified_rows(table, rows)
                    yield table, rows
                if table not in NUMBERED_TABLES or len(rows) < size:
                    break
                since = self._later(since, rows[-1][0])

    def last_numbers(self) -> dict[str, int]:
        """The number of the last row that was ever in each of `COUNTED_TABLES`."""
        return {table: self._counts[table] for table in COUNTED_TABLES}

    # Writing

    def append(self, events: Iterable[Event], time: float) -> None:
        events = list(events)
        kinds = dict.fromkeys(map(type, events))
        for kind in kinds:
            group: list[Any] = events if len(kinds) == 1 else [one for one in events if type(one) is kind]
            if kind is LoggedDecision:
                self._append_decisions(group)
            elif kind is Reward:
                rows = enumerate(group, self._counts["rewards"] + 1)
                self._insert("rewards", [(seq, one.number, time, one.reward, one.replaces) for seq, one in rows])
                self._execute_many(self._end_of_waiting, [(one.number,) for one in group if one.replaces is None])
            elif kind is Expiry:
                self._number("expired", [(one.number, time) for one in group])
                self._execute_many(self._end_of_waiting, [(one.number,) for one in group])
            elif kind is Arm:
                self._number("arms", [(time, *_arm_values(arm)) for arm in group])
            elif kind is PolicyRow:
                self._number("policies", [(time, *one) for one in group])
            else:
                assert kind is LearnedRow
                self._insert("learned", group)

    def _append_decisions(self, decisions: Sequence[LoggedDecision]) -> None:
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
                if asked.unlisted or asked.unlisted_of_arms:
                    unlisted = {**(asked.unlisted or {}), **(asked.unlisted_of_arms or {}).get(str(arm), {})}
            body = as_bytes(features), probability, policy, catalogue, slate
            rows.append((number, time, arm, offer, context, *body, _as_json(unlisted) if unlisted else None))
        self._insert("decisions", rows)
        self._insert("outstanding", [(one.number, one.time) for one in decisions if one.policy is not None])

    def _offer_number(self, asked: Round) -> int | None:
        """Number of the offer of a round, which is written if it is new.

        None where the offer is all of the catalogue, or where only features of the arm chosen are to be kept.
        """
        if not asked.by_name if asked.catalogue is not None else self.settings.keep == "chosen":
            return None
        names = json.dumps(asked.names)
        features = as_bytes(asked.arm_features if asked.catalogue is None else EMPTY_VECTOR)
        digest = _offer_digest(names, features)
        for row in self.select(OFFER, digest):
            return int(row.id)
        number = self._with_room(self._counts["offers"]) + 1
        if features and (self._compresses is None or number % SAMPLING_INTERVAL == 0):
            sample = features[:SAMPLE_BYTES]  # the digits of measured numbers are like noise
            self._compresses = len(compress(sample, COMPRESSION_LEVEL)) <= LARGEST_COMPRESSED_SHARE * len(sample)
        packed = bool(features and self._compresses)
        stored = compress(features, COMPRESSION_LEVEL) if packed else features
        self._insert("offers", [(number, digest, names, stored, int(packed))])
        return number

    def _number(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows to one of `COUNTED_TABLES`, with the next numbers."""
        self._insert(table, [(number, *row) for number, row in enumerate(rows, self._counts[table] + 1)])

    def _insert(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows to a table."""
        stored = with_checksums(table, rows)
        if stored:
            self._write_rows(table, stored)
            if table in self._counts:
                self._counts[table] = stored[-1][0]

    def _deletion(self, table: str, condition: str = "true") -> str:
        key = table, condition
        if key not in self._statements:
            self._statements[key] = self._dialect.finished(self._dialect.delete(table, condition))
        return self._statements[key]

    # Sums over the log

    def snapshot(self) -> Snapshot | None:
        for row in self._fetch(self._statement(ALL["snapshot"])):
            if row_checksum("snapshot", row[:-1]) == row[-1]:
                return Snapshot(LogPosition(*row[:4]), *row[4:7])
        return None

    def write_snapshot(self, snapshot: Snapshot) -> None:
        self._execute(self._deletion("snapshot"))
        self._insert("snapshot", [(*snapshot.place[:4], *snapshot[1:])])

    def fold(self, sums: bytes, upto: int = 0, settings: AgentSettings | None = None) -> int:
        generation, (before,) = self.place().generation, self.select(ALL["folded"])
        dropped = 0
        if upto:
            waits = self._dialect.exists("outstanding", "o", "o.number = t.number")
            dropped = self._execute(self._deletion("decisions", f"number <= ? AND NOT {waits}"), [upto])
            self._execute(self._deletion("rewards", "decision <= ?"), [upto])
        if settings is not None:
            self._execute(self._deletion("settings"))
            self._insert("settings", _setting_rows(settings))
        self._execute(self._deletion("folded"))
        self._insert("folded", [(generation + 1, max(before.upto, upto), sums)])
        self._counts["generation"] = generation + 1
        return dropped

    def shrink(self) -> None:
        with self.transaction():
            unused = self._fetch(self._statement(UNUSED_OFFERS))
            self._execute_many(self._deletion("offers", "id = ?"), unused)

    def check(self, whole: bool = True) -> None:
        self.place()
        if not whole:
            return
        for what, statement in contradictions(self._dialect).items():
            if self._fetch(statement):
                raise damaged(self, what)
        for table, rows in self.rows():
            for row in rows if table == "offers" else ():
                offer = ROW_TYPES[table]._make(row)
                if read_offer(offer) is None:
                    raise damaged(self, f"offer {shown(offer.id)} is not what was written")


class Transaction:
    """A transaction of a log: all of it is written or nothing, whatever exception comes and when.

    An exception may also come from outside, by Ctrl-C or another signal: between any two steps, in the beginning and
    the end of a transaction too. Then the next transaction ends the one that was left. (As a generator this would take
    three times as long, and every decision has two.) It keeps nothing of its own, so that a log needs one of each kind.
    """

    def __init__(self, log: TableLog, write: bool) -> None:
        self._log, self._write = log, write

    def __enter__(self) -> None:
        log = self._log
        if log._in_transaction:
            if is_running(log._frame, sys._getframe()):
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


def read_offer(offer: Any) -> tuple[list[str], bytes] | None:
    """Names and features of a stored offer; None if it is not what was written, or not there."""
    try:
        features = decompress(offer.features) if offer.packed else offer.features
        return (json.loads(offer.arms), features) if _offer_digest(offer.arms, features) == offer.digest else None
    except (CompressionError, AttributeError, TypeError):  # of values of another type
        return None


def _arm_values(arm: Arm) -> tuple[Any, ...]:
    return arm.name, as_bytes(arm.features), float(arm.cost), arm.state, _as_json(arm.unlisted)


def _as_json(values: Unlisted | None) -> str | None:
    """Values as JSON; None where there are none."""
    return json.dumps(values) if values else None


def _offer_digest(names: str, features: bytes) -> bytes:
    return hashlib.blake2b(names.encode() + b"\0" + features, digest_size=16).digest()


def _setting_rows(settings: AgentSettings) -> list[tuple[Any, ...]]:
    return [(key, json.dumps(value)) for key, value in settings.to_table().items()]
