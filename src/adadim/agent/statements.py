"""The tables of an agent's log and the statements over them, once for every database.

A row of each table is a named tuple, whose fields are the columns; sqlite.py says what each of them holds. Most tables
have one column more, `seal`: a checksum of the others, since not every store notices every flipped bit. What databases
say in different ways is in a `Dialect`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

SettingRow = namedtuple("SettingRow", "key value")  # the value as JSON
PolicyVersionRow = namedtuple("PolicyVersionRow", "version time policy levels noise explore")
ArmRow = namedtuple("ArmRow", "seq time name features cost state unlisted")  # a change; the last of a name holds
OfferRow = namedtuple("OfferRow", "id digest arms features packed")  # each distinct offer once
DecisionRow = namedtuple(
    "DecisionRow", "number time arm offer context features probability policy catalogue slate unlisted"
)
RewardRow = namedtuple("RewardRow", "seq decision time reward replaces")
WaitingRow = namedtuple("WaitingRow", "number time")
ExpiredRow = namedtuple("ExpiredRow", "seq number time")
LearnedRow = namedtuple("LearnedRow", "digest time rows")  # the log of another system that was learned
FoldedRow = namedtuple("FoldedRow", "generation upto body")  # sums over what was compacted, up to a decision
SnapshotRow = namedtuple("SnapshotRow", "generation number seq expired body asked peak")

ROW_TYPES: dict[str, Any] = {
    "settings": SettingRow,
    "policies": PolicyVersionRow,
    "arms": ArmRow,
    "offers": OfferRow,
    "decisions": DecisionRow,
    "rewards": RewardRow,
    "outstanding": WaitingRow,
    "expired": ExpiredRow,
    "learned": LearnedRow,
    "folded": FoldedRow,
    "snapshot": SnapshotRow,
}
LAST_ROW = 2**62  # the largest number that a row can have
TABLES_WITHOUT_CHECKSUM = ("offers", "outstanding", "learned")
# How many of the last columns of a table were added later, and may be null.
LATER_COLUMNS = {"policies": 1, "arms": 1, "decisions": 2}

COUNTED_TABLES = ("policies", "arms", "decisions", "rewards", "expired")
"""Tables that number their rows in the first column, in the order of commits; no number is used twice."""

COUNTERS = ("generation", "policies", "arms", "offers", "decisions", "rewards", "expired")
"""What a transaction reads at its beginning: the generation, and the last number of these tables."""

NUMBERED_TABLES = (*COUNTED_TABLES, "offers", "outstanding")
"""Tables that can be read in the order of their first column, an integer."""

COLUMNS: dict[str, tuple[str, ...]] = {table: kind._fields for table, kind in ROW_TYPES.items()}
STORED_COLUMNS = {
    table: columns if table in TABLES_WITHOUT_CHECKSUM else (*columns, "seal") for table, columns in COLUMNS.items()
}
"""The columns of each table, the checksum among them."""

Rows = Iterable[tuple[str, list[tuple[Any, ...]]]]
"""Rows of tables as they are stored, a table at a time or in several batches."""


def row_checksum(table: str, row: Sequence[Any]) -> int:
    """Checksum of a row; it leaves out nulls at the end in columns that were added later, so that earlier ones hold."""
    if row[-1] is None and table in LATER_COLUMNS:
        end, first = len(row), len(row) - LATER_COLUMNS[table]
        while end > first and row[end - 1] is None:
            end -= 1
        row = row[:end]
    # SQLite stores -0.0 as 0.0.
    return crc32(b"".join([v if type(v) is bytes else repr(v or 0.0 if type(v) is float else v).encode() for v in row]))


def checksum(*values: Any) -> int:
    """Checksum of values, which shows damage that the database does not notice."""
    return row_checksum("", values)


def with_checksums(table: str, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows as they are stored: with their checksums, in tables that have them."""
    return [tuple(row) if table in TABLES_WITHOUT_CHECKSUM else (*row, row_checksum(table, row)) for row in rows]


class Dialect(ABC):
    """How a database says what the statements have in common. They have a question mark for each value."""

    greatest: str  # the function that gives the largest of its arguments
    size: str  # the size of the log in bytes

    @abstractmethod
    def rows(self, table: str) -> str:
        """The rows of this agent, to select from."""

    @abstractmethod
    def join(self, table: str, alias: str, condition: str, outer: bool = False) -> str:
        """A join with the row that the condition finds by its key; with `outer`, with nulls where there is none."""

    @abstractmethod
    def exists(self, table: str, alias: str, condition: str) -> str:
        """Whether there is a row that the condition finds by its key."""

    @abstractmethod
    def among(self, column: str) -> str:
        """Whether a column is one of the integers of a JSON list, which is the value."""

    @abstractmethod
    def last(self, counter: str) -> str:
        """One of `COUNTERS`."""

    @abstractmethod
    def delete(self, table: str, condition: str) -> str:
        """A statement that deletes the rows for which a condition holds; it may call the table `t`."""

    @abstractmethod
    def finished(self, text: str) -> str:
        """A statement as the database takes it."""


@dataclass(frozen=True, eq=False)
class Query:
    """A statement that reads whole rows of tables, and further values.

    `tables` are those whose rows it gives, by their aliases. What `text` gives follows their columns: further values,
    if it begins with a comma, and FROM and the rest. The first value that the statement takes is a row of the table
    `counter`, after which alone it finds rows; without one it is always run. One that finds its rows `in_one_pass`
    takes no values. `alone` is the table of which it gives whole rows and nothing else.
    """

    tables: Mapping[str, str]
    text: Callable[[Dialect], str]
    counter: str | None = None
    in_one_pass: bool = False
    alone: str | None = None

    def statement(self, sql: Dialect) -> str:
        """The statement in a dialect."""
        columns = [f"{alias}.{name}" for alias, table in self.tables.items() for name in STORED_COLUMNS[table]]
        return sql.finished(f"SELECT {', '.join(columns)}{self.text(sql)}")


def where(table: str, condition: str, counter: str | None = None) -> Query:
    """The rows of one table for which a condition holds; the condition may call the table `t`."""
    return Query({"t": table}, lambda sql: f" FROM {sql.rows(table)} t WHERE {condition}", counter, alone=table)


def in_order(table: str, counter: str | None = None) -> Query:
    """The rows of a table after one number and up to another, in the order of their numbers."""
    number = COLUMNS[table][0]
    return where(table, f"{number} > ? AND {number} <= ? ORDER BY {number} LIMIT ?", counter)


# Of one table each.
ALL = {
    table: in_order(table) if table in NUMBERED_TABLES else where(table, "true ORDER BY 1") for table in STORED_COLUMNS
}
DECIDED = in_order("decisions", "decisions")
ARM_CHANGES = where("arms", "seq > ? ORDER BY seq", "arms")
LATEST_POLICY = where("policies", "version > ? ORDER BY version DESC LIMIT 1", "policies")
OFFER = where("offers", "digest = ?")
LEARNED_LOG = where("learned", "digest = ?")
FIRST_SINCE = where("decisions", "time >= ? ORDER BY number LIMIT 1")
OLDEST_WAITING = where("outstanding", "true ORDER BY number LIMIT 1")
OVERDUE = where("outstanding", "time < ?")
SLATE = where("decisions", "slate = ? ORDER BY number")
DECISION = where("decisions", "number = ?")
REWARDS_OF = where("rewards", "decision = ?")
EXPIRED = where("expired", "number = ?")
REWARDS_BY_DECISION = Query(
    {"t": "rewards"}, lambda sql: f" FROM {sql.rows('rewards')} t ORDER BY decision, seq", in_one_pass=True
)
IS_WAITING = where("outstanding", "number = ?")
ARE_WAITING = Query(
    {"t": "outstanding"},
    lambda sql: f" FROM {sql.rows('outstanding')} t WHERE {sql.among('number')}",
    alone="outstanding",
)
# The size, and how many decisions wait.
SIZE = Query({}, lambda sql: f"(SELECT count(*) FROM {sql.rows('outstanding')} o), {sql.size}")

# With their decisions, in the order of the first table.
WAITING = Query(
    {"d": "decisions"},
    lambda sql: (
        f"""
        FROM {sql.rows("outstanding")} o {sql.join("decisions", "d", "d.number = o.number")}
        WHERE o.number > ? AND o.number <= ? ORDER BY o.number LIMIT ?"""
    ),
    "decisions",
    alone="decisions",
)
EXPIRED_DECISIONS = Query(
    {"e": "expired", "d": "decisions"},
    lambda sql: (
        f"""
        FROM {sql.rows("expired")} e {sql.join("decisions", "d", "d.number = e.number")}
        WHERE e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?"""
    ),
    "expired",
)
REWARDS = Query(
    {"r": "rewards", "d": "decisions"},
    lambda sql: (
        f""", {sql.exists("expired", "e", "e.number = r.decision")}
        FROM {sql.rows("rewards")} r {sql.join("decisions", "d", "d.number = r.decision")}
        WHERE r.seq > ? AND r.seq <= ? ORDER BY r.seq LIMIT ?"""
    ),
    "rewards",
)

UNUSED_OFFERS = Query(
    {}, lambda sql: f"id FROM {sql.rows('offers')} t EXCEPT SELECT offer FROM {sql.rows('decisions')} t"
)


def contradictions(sql: Dialect) -> dict[str, str]:
    """Statements that find a row only if rows were lost or changed, by what they find."""

    def number(table: str, column: str = "number", condition: str = "true") -> str:
        return f"SELECT {column} FROM {sql.rows(table)} t WHERE {condition}"

    def either(*statements: str) -> str:
        return " UNION ALL ".join(f"SELECT * FROM ({text}) u{at}" for at, text in enumerate(statements))

    upto = f"(SELECT upto FROM {sql.rows('folded')} t)"
    counted = "(SELECT count(*) AS entries, coalesce(min(seq), 1) AS first, coalesce(max(seq), 0) AS last FROM {} t) n"
    statements = {
        "rewards of no decision": f"{number('rewards', 'decision')} EXCEPT {number('decisions')}",
        "decisions of an offer that is not there": f"""
            {number("decisions", "offer", "offer IS NOT NULL")} EXCEPT {number("offers", "id")}""",
        "decisions that neither wait nor have a reward": f"""
            {number("decisions", condition="policy IS NOT NULL")} EXCEPT {number("outstanding")}
            EXCEPT {number("expired")} EXCEPT {number("rewards", "decision")}""",
        "waiting decisions that are not there or have a reward": either(
            f"{number('outstanding', 'number, time')} EXCEPT {number('decisions', 'number, time')}",
            f"{number('outstanding', 'number, 0.0')} INTERSECT {number('rewards', 'decision, 0.0')}",
        ),
        "expired decisions that are not there or wait": either(
            f"{number('expired')} INTERSECT {number('outstanding')}",
            f"{number('expired', condition=f'number > {upto}')} EXCEPT {number('decisions')}",
        ),
        "two first rewards of one decision": f"""
            {number("rewards", "decision", "replaces IS NULL")} GROUP BY decision HAVING count(*) > 1""",
        "decisions out of count": f"""
            SELECT 1 FROM {sql.rows("folded")} f, (
                SELECT coalesce(max(number), 0) AS last FROM {sql.rows("decisions")} t) d
            WHERE {sql.last("decisions")} != {sql.greatest}(upto, last) OR {sql.last("generation")} != f.generation
            OR (SELECT count(*) FROM {sql.rows("decisions")} t WHERE number > {upto})
                != {sql.greatest}(last - upto, 0)""",
        "arms out of count": f"""
            SELECT 1 FROM {counted.format(sql.rows("arms"))}
            WHERE first != 1 OR last != entries OR {sql.last("arms")} != last""",
        "decisions over a catalogue that is not there": f"""
            SELECT 1 FROM {sql.rows("decisions")} t
            WHERE catalogue > {sql.last("arms")} OR (catalogue IS NULL) != (length(features) > 0)""",
        "expired decisions out of count": f"""
            SELECT 1 FROM {counted.format(sql.rows("expired"))}
            WHERE last != entries OR {sql.last("expired")} != last""",
        "rewards out of count": f"""
            SELECT 1 FROM {sql.rows("folded")} f WHERE {sql.last("rewards")} < {sql.greatest}(
                (SELECT coalesce(max(seq), 0) FROM {sql.rows("rewards")} t),
                (SELECT coalesce(max(seq), 0) FROM {sql.rows("snapshot")} t))""",
    }
    return {what: sql.finished(f"{text} LIMIT 1") for what, text in statements.items()}
