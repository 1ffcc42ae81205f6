"""A log in an SQLite file: its tables, the migration of earlier files, its queries, and errors about damage."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from adadim.agent.log import damaged
from adadim.agent.statements import COUNTERS, STORED_COLUMNS, Dialect, Rows, checksum, contradictions
from adadim.agent.tables import EXISTS_ALREADY, TableLog
from adadim.core.checks import shown
from adadim.core.files import explained, sync_folder, temporary_folder
from adadim.errors import AdadimError, AgentExistsError, FileError, InvalidValueError

APPLICATION_ID = 0x61644167  # "adAg": marks a SQLite file as that of an agent
SQLITE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)  # the message of the second may quote what is no text
BUSY_SECONDS = 30.0  # to wait for another process that is writing

LOG = """
-- A seal is a checksum of the rest of its row: SQLite does not notice every flipped bit.
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL, seal INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE policies (
    version INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL,
    policy TEXT NOT NULL, levels TEXT, noise REAL, seal INTEGER NOT NULL
);
-- What was offered: names of the arms and their features (float64, row by row), each distinct offer once.
CREATE TABLE offers (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, arms TEXT NOT NULL, features BLOB NOT NULL);
-- `features` are those of the arm chosen, after the context; `policy` is null for what another system decided.
CREATE TABLE decisions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, arm TEXT, offer INTEGER, context BLOB,
    features BLOB NOT NULL, probability REAL, policy INTEGER, seal INTEGER NOT NULL
);
-- A correction is a row more, with the reward that it replaces.
CREATE TABLE rewards (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, decision INTEGER NOT NULL, time REAL NOT NULL,
    reward REAL NOT NULL, replaces REAL, seal INTEGER NOT NULL
);
CREATE INDEX rewards_of_decision ON rewards (decision);
CREATE INDEX corrections ON rewards (decision) WHERE replaces IS NOT NULL;
CREATE TABLE outstanding (number INTEGER PRIMARY KEY, time REAL NOT NULL);
CREATE TABLE expired (number INTEGER PRIMARY KEY, time REAL NOT NULL);
CREATE TABLE learned (digest BLOB PRIMARY KEY, time REAL NOT NULL, rows INTEGER NOT NULL) WITHOUT ROWID;
-- The sums over what was compacted, and those over the whole log up to a reward.
CREATE TABLE folded (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL, upto INTEGER NOT NULL,
    body BLOB NOT NULL, seal INTEGER NOT NULL);
CREATE TABLE snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL, seq INTEGER NOT NULL,
    body BLOB NOT NULL, seal INTEGER NOT NULL);
"""

CATALOGUE = """
-- Every change of an arm; the last row of a name is what holds.
CREATE TABLE arms (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, name TEXT NOT NULL, features BLOB NOT NULL,
    cost REAL NOT NULL, state TEXT NOT NULL, seal INTEGER NOT NULL
);
"""

MIGRATION_3 = """
-- Decisions that waited too long, in the order in which they were given up: a process reads those it has not seen.
ALTER TABLE expired RENAME TO expired_before;
CREATE TABLE expired (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL UNIQUE, time REAL NOT NULL, seal INTEGER NOT NULL
);
INSERT INTO expired (seq, number, time, seal) SELECT seq, number, time, checksum(seq, number, time)
    FROM (SELECT row_number() OVER (ORDER BY number) AS seq, number, time FROM expired_before);
DROP TABLE expired_before;
-- The sums over the log up to a decision, a reward and an expiry: `body` over the decisions that have a reward, `asked`
-- over those that wait for theirs too (empty if none does), `peak` as in model.py. A shortcut: it is made anew.
DROP TABLE snapshot;
CREATE TABLE snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL, number INTEGER NOT NULL,
    seq INTEGER NOT NULL, expired INTEGER NOT NULL, body BLOB NOT NULL, asked BLOB NOT NULL, peak BLOB NOT NULL,
    seal INTEGER NOT NULL);
"""

MIGRATION_4 = """
-- `features` are those of the arm chosen alone: the context is in `context`, and both make what the model learns from.
-- Of a decision over the catalogue they are empty: `catalogue` is its version, the last row of `arms` by then, and
-- `offer` is null, or has names without features if only these were offered. What another system decided has all.
ALTER TABLE decisions ADD COLUMN catalogue INTEGER;
UPDATE decisions SET features = substr(features, length(ifnull(context, x'')) + 1),
    seal = checksum(number, time, arm, offer, context, substr(features, length(ifnull(context, x'')) + 1), probability,
        policy, NULL)
    WHERE seal = checksum(number, time, arm, offer, context, features, probability, policy);
-- Whether the features of an offer are compressed.
ALTER TABLE offers ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
INSERT OR IGNORE INTO settings (key, value, seal) SELECT key, value, checksum(key, value)
    FROM (SELECT 'keep' AS key, '"all"' AS value UNION SELECT 'designs', '[]') WHERE EXISTS (SELECT 1 FROM settings);
"""

SLATES = """
-- The first decision of the slate that a decision is in, null where it stands alone. Those of a slate follow each other
-- and have one offer: each was chosen among that without the arms of those before. The seals of earlier rows hold.
ALTER TABLE decisions ADD COLUMN slate INTEGER;
CREATE INDEX slates ON decisions (slate) WHERE slate IS NOT NULL;
"""

EXPLORATION = """
-- The share of decisions that are drawn uniformly, null where none is. The seals of earlier rows hold.
ALTER TABLE policies ADD COLUMN explore REAL;
"""

CATEGORIES = """
-- Values of context and arm that no level of their category lists, as JSON, null where there are none: what is stored
-- in numbers says that there was such a value, not which. The seals of earlier rows hold.
ALTER TABLE decisions ADD COLUMN unlisted TEXT;
ALTER TABLE arms ADD COLUMN unlisted TEXT;
"""

STEPS = (LOG, CATALOGUE, MIGRATION_3, MIGRATION_4, SLATES, EXPLORATION, CATEGORIES)
"""What each version added; a file of version v gets those after the first v."""

VERSION = len(STEPS)

# What could let a row that was written vanish, or be other than it was.
FOREIGN = """
    SELECT type, name FROM sqlite_master
    WHERE type IN ('trigger', 'view') OR sql LIKE '%CONFLICT%' OR sql LIKE 'CREATE VIRTUAL%'"""


class SqliteDialect(Dialect):
    """The dialect of SQLite: a file has one agent."""

    greatest = "max"
    size = "(SELECT page_count * page_size FROM pragma_page_count, pragma_page_size)"

    def rows(self, table: str) -> str:
        return table

    def join(self, table: str, alias: str, condition: str, outer: bool = False) -> str:
        return f"{'LEFT ' if outer else ''}JOIN {table} {alias} ON {condition}"

    def exists(self, table: str, alias: str, condition: str) -> str:
        return f"EXISTS (SELECT 1 FROM {table} {alias} WHERE {condition})"

    def among(self, column: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(?))"

    def last(self, counter: str) -> str:
        if counter == "generation":
            return "(SELECT generation FROM folded)"
        if counter == "offers":
            return "coalesce((SELECT max(id) FROM offers), 0)"
        return f"coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{counter}'), 0)"

    def delete(self, table: str, condition: str) -> str:
        return f"DELETE FROM {table} AS t WHERE {condition}"

    def finished(self, text: str) -> str:
        return text


DIALECT = SqliteDialect()
COUNTS = f"SELECT {', '.join(map(DIALECT.last, COUNTERS))}"
INSERT = {
    table: f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    for table, columns in STORED_COLUMNS.items()
}


class SqliteLog(TableLog):
    """The log in a file that is opened; with `write=False` for reading only, and without its settings."""

    path: Path

    def __init__(self, path: Path, write: bool = True) -> None:
        super().__init__(DIALECT)
        self.path = path
        self._counted_version: int | None = None  # of the file, as of which `_counts` are known
        if not write:  # nothing is read yet: a reader that closes last could not remove the files beside this one
            self._connection = _connection(path, "ro")
            return
        self._connection = _connect(path)
        self._open_settings()

    @classmethod
    def create(cls, path: Path, rows: Rows, last: Mapping[str, int]) -> None:
        """Make the file of an agent with these rows; `last` are the last numbers of tables that count their rows."""

        def fill(connection: sqlite3.Connection) -> None:
            for table, batch in rows:
                connection.executemany(INSERT[table], batch)
            for table, number in last.items():
                connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
                connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, number))

        create_file(path, fill)

    def close(self) -> None:
        if self._process == os.getpid():  # a child must leave the parent's locks alone
            self._connection.close()

    # Transactions

    @property
    def _in_transaction(self) -> bool:
        try:
            return self._connection.in_transaction
        except sqlite3.ProgrammingError:  # it is closed
            return False

    def _begin(self, write: bool) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE" if write else "BEGIN")  # a writer locks the file at its beginning
        version = execute("PRAGMA data_version").fetchone()[0]
        if version != self._counted_version:  # another connection has written, or what this one wrote was taken back
            self._take_counters(execute(COUNTS).fetchone())
            self._counted_version = version

    def _end(self, write: bool) -> None:
        self._connection.execute("COMMIT")

    def _roll_back(self, error: BaseException | None = None) -> None:
        self._counted_version = None
        with contextlib.suppress(sqlite3.Error):  # the next transaction tries again
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _explained(self, failure: BaseException) -> AdadimError | None:
        if not isinstance(failure, SQLITE_ERRORS):
            return None
        if isinstance(failure, sqlite3.OperationalError):
            if "locked" in str(failure) or "busy" in str(failure):
                return FileError(f"{self.path}: another process has been writing for too long; try again")
            return FileError(f"{self.path}: cannot be read or written ({failure})")
        if isinstance(failure, sqlite3.ProgrammingError):
            return InvalidValueError(f"{self.path}: the agent is closed; open it again with Agent.open")
        return damaged(self, str(failure))

    # Rows

    def shrink(self) -> None:
        super().shrink()
        with contextlib.suppress(sqlite3.OperationalError):  # another process is writing: next time
            # `execute` would stop after the first page.
            self._connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(PASSIVE);")

    def check(self, whole: bool = True) -> None:
        self._execute(f"PRAGMA user_version = {VERSION}")  # the version it has: a write that changes nothing
        if whole:
            ((problem,),) = self._fetch("PRAGMA quick_check(1)")
            if problem != "ok":
                raise damaged(self, str(problem))
        super().check(whole)

    def _fetch(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def _stream(self, statement: str, size: int) -> Iterator[list[Any]]:
        cursor = self._connection.execute(statement)
        while rows := cursor.fetchmany(size):
            yield rows

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(statement, values).rowcount

    def _execute_many(self, statement: str, values: list[tuple[Any, ...]]) -> None:
        self._connection.executemany(statement, values)

    def _write_rows(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        self._connection.executemany(INSERT[table], rows)


# The file


def create_file(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make the file of a new agent, completely or not at all; a file that exists is refused."""

    def make(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _migrate(connection)
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            fill(connection)

    _make_file(path, make)


def backup_file(path: Path, copy: Path) -> int:
    """Copy the file of an agent as it is now, also while processes write to it; gives how many decisions it has.

    The copy is checked, and made completely or not at all. Its tables have the version of the file.
    """
    if not path.exists():
        raise FileError(f"{path}: no such file")
    decisions = 0

    def make(connection: sqlite3.Connection) -> None:
        nonlocal decisions
        source = _open_file(path)
        try:
            source.backup(connection)  # in one step: a reader sees one state, and a writer need not wait
        finally:
            source.close()
        connection.execute("PRAGMA journal_mode = DELETE")  # one file; it is opened with a write-ahead log again
        (problem,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if problem != "ok":
            raise FileError(f"{path}: the copy is damaged ({problem}); nothing was kept")
        if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
            for what, statement in contradictions(DIALECT).items():
                if connection.execute(statement).fetchone() is not None:
                    raise FileError(f"{path}: damaged ({what}); nothing was copied")
        decisions = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]

    try:
        _make_file(copy, make)
    except sqlite3.DatabaseError as failure:
        raise FileError(f"{path}: damaged ({failure}); nothing was copied") from failure
    return decisions


def _make_file(path: Path, make: Callable[[sqlite3.Connection], None]) -> None:
    """Make a file that does not exist yet; it gets its name when it is complete and on disk."""
    if path.exists():
        raise AgentExistsError(f"{path}: {EXISTS_ALREADY}")
    try:
        with temporary_folder(path) as folder:
            partial = folder / path.name
            connection = _connection(partial, "rwc")
            try:
                make(connection)
            finally:
                connection.close()
            with open(partial, "rb+") as file:
                os.fsync(file.fileno())
            try:
                os.link(partial, path)  # unlike a rename, it never replaces a file that another process has just made
            except FileExistsError:
                raise AgentExistsError(f"{path}: {EXISTS_ALREADY}") from None
            sync_folder(path.parent)
    except OSError as failure:
        raise explained(failure, path) from failure
    except sqlite3.OperationalError as failure:
        raise FileError(f"{path}: cannot be written ({failure}); choose a folder you may write to") from failure


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file of an agent and bring it to this version; other files are refused."""
    if not path.exists():
        raise FileError(f"{path}: no such file; make one with Agent.create(path, dim=...)")
    connection = _open_file(path)
    with _closed_unless_usable(connection, path):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise FileError(
                f"{path}: written by a newer adadim (its tables are version {version}, this one reads up to "
                f"{VERSION}); update adadim to open it"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # what was acknowledged survives a power cut
        _migrate(connection)
    return connection


def _open_file(path: Path) -> sqlite3.Connection:
    """A connection to the file of an agent of any version."""
    if not path.is_file():
        raise FileError(f"{path}: not a file")
    try:
        connection = _connection(path, "rw")
    except sqlite3.Error as failure:
        raise FileError(f"{path}: cannot be opened ({failure})") from failure
    with _closed_unless_usable(connection, path):
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise FileError(f"{path}: not a file that Agent.create made")
        foreign = connection.execute(FOREIGN).fetchone()
        if foreign is not None:
            kind, name = foreign
            raise FileError(
                f"{path}: has the {kind} {shown(name)}, which Agent.create did not make and which may change what an "
                "agent writes or reads; remove it, or restore the file from a backup"
            )
    return connection


@contextlib.contextmanager
def _closed_unless_usable(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as failure:
        connection.close()
        raise FileError(f"{path}: cannot be opened for reading and writing ({failure})") from failure
    except (sqlite3.Error, UnicodeDecodeError) as failure:  # its message may quote what is no text
        connection.close()
        raise FileError(f"{path}: damaged, or not a file that Agent.create made ({failure})") from failure
    except BaseException:
        connection.close()
        raise


def _migrate(connection: sqlite3.Connection) -> None:
    """Run the steps of the schema that the file lacks, all or none."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    connection.create_function("checksum", -1, checksum)
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]  # another process may have been faster
        for step in STEPS[version:]:
            for statement in step.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
