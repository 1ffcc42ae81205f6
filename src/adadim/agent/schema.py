"""The tables of an agent's file, and how a file of an earlier version gets those of this one."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from adadim.errors import FileError
from adadim.files import explained

__all__ = [
    "APPLICATION",
    "CONTRADICTIONS",
    "STEPS",
    "VERSION",
    "connect",
    "create_file",
    "migrate",
    "seal",
    "transaction",
]

APPLICATION = 0x61644167  # "adAg": what makes a SQLite file an agent's
THERE = "exists already; open it with Agent.open, or choose another name"
BUSY = 30.0  # seconds to wait for another process that is writing

LOG = """
-- A seal is a check value of the rest of its row: SQLite does not notice every flipped bit.
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

LATE = """
-- Decisions that waited too long, in the order in which they were given up: a process reads those it has not seen.
ALTER TABLE expired RENAME TO expired_before;
CREATE TABLE expired (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL UNIQUE, time REAL NOT NULL, seal INTEGER NOT NULL
);
INSERT INTO expired (seq, number, time, seal) SELECT seq, number, time, seal(seq, number, time)
    FROM (SELECT row_number() OVER (ORDER BY number) AS seq, number, time FROM expired_before);
DROP TABLE expired_before;
-- The sums over the log up to a decision, a reward and an expiry: `body` over the decisions that have a reward, `asked`
-- over those that wait for theirs too (empty if none does), `peak` as in sums.py. A shortcut: it is made anew.
DROP TABLE snapshot;
CREATE TABLE snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL, number INTEGER NOT NULL,
    seq INTEGER NOT NULL, expired INTEGER NOT NULL, body BLOB NOT NULL, asked BLOB NOT NULL, peak BLOB NOT NULL,
    seal INTEGER NOT NULL);
"""

STEPS = (LOG, CATALOGUE, LATE)
"""What each version added; a file of version v gets those after the first v."""

VERSION = len(STEPS)

# What cannot be, unless rows were lost or changed.
CONTRADICTIONS = {
    "rewards of no decision": """
        SELECT 1 FROM rewards WHERE decision NOT IN (SELECT number FROM decisions)""",
    "decisions that neither wait nor have a reward": """
        SELECT 1 FROM decisions WHERE policy IS NOT NULL AND number NOT IN (SELECT number FROM outstanding)
            AND number NOT IN (SELECT number FROM expired) AND number NOT IN (SELECT decision FROM rewards)""",
    "waiting decisions that are not there or have a reward": """
        SELECT 1 FROM outstanding o LEFT JOIN decisions d ON d.number = o.number
            WHERE d.time IS NOT o.time OR o.number IN (SELECT decision FROM rewards)""",
    "expired decisions that are not there or wait": """
        SELECT 1 FROM expired WHERE number IN (SELECT number FROM outstanding)
            OR (number > (SELECT upto FROM folded) AND number NOT IN (SELECT number FROM decisions))""",
    "two first rewards of one decision": """
        SELECT 1 FROM rewards WHERE replaces IS NULL GROUP BY decision HAVING count(*) > 1""",
    "decisions out of count": """
        SELECT 1 FROM folded, (SELECT ifnull(max(number), 0) AS last, count(*) AS all_of_them FROM decisions) d
            WHERE ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'decisions'), 0) IS NOT max(upto, last)
            OR (SELECT count(*) FROM decisions WHERE number > upto) != max(last - upto, 0)""",
    "arms out of count": """
        SELECT 1 FROM (SELECT count(*) AS changes, ifnull(min(seq), 1) AS first, ifnull(max(seq), 0) AS last FROM arms)
            WHERE first != 1 OR last != changes""",
    "expired decisions out of count": """
        SELECT 1 FROM (SELECT count(*) AS all_of_them, ifnull(max(seq), 0) AS last FROM expired)
            WHERE last != all_of_them
            OR ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'expired'), 0) IS NOT last""",
    "rewards out of count": """
        SELECT 1 WHERE ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'rewards'), 0) <
            max((SELECT ifnull(max(seq), 0) FROM rewards), (SELECT ifnull(max(seq), 0) FROM snapshot))""",
}


def seal(*values: Any) -> int:
    """Check value of a row, by which damage that SQLite does not see is noticed.

    Examples
    --------
    >>> seal(1, 0.5, None) == seal(1, 0.5, None), seal(1, 0.5, None) == seal(1, 0.75, None)
    (True, False)
    """
    check = 0
    for value in values:
        if isinstance(value, float):
            value += 0.0  # SQLite stores -0.0 as 0.0
        check = crc32(value if isinstance(value, bytes) else repr(value).encode(), check)
    return check


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, write: bool = True) -> Iterator[sqlite3.Connection]:
    """All or nothing; a writer takes its turn at once, a reader sees one state of the file."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield connection
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def create_file(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make the file of a new agent, whole or not at all; one that is there already is left alone."""
    if path.exists():
        raise FileError(f"{path}: {THERE}")
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _connection(partial, "rwc")
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            migrate(connection)
            with transaction(connection):
                fill(connection)
        finally:
            connection.close()
        try:
            os.link(partial, path)  # unlike a rename, it never replaces a file that another process has just made
        except FileExistsError:
            raise FileError(f"{path}: {THERE}") from None
    except OSError as failure:
        raise explained(failure, path) from failure
    except sqlite3.OperationalError as failure:
        raise FileError(f"{path}: cannot be written ({failure}); choose a folder you may write to") from failure
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                partial.with_name(partial.name + suffix).unlink()


def connect(path: Path) -> sqlite3.Connection:
    """Open the file of an agent, brought to this version; what is none is refused."""
    if not path.exists():
        raise FileError(f"{path}: no such file; make one with Agent.create(path, dim=...)")
    if not path.is_file():
        raise FileError(f"{path}: not a file")
    try:
        connection = _connection(path, "rw")
    except sqlite3.Error as failure:
        raise FileError(f"{path}: cannot be opened ({failure})") from failure
    try:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise FileError(f"{path}: not a file that Agent.create made")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise FileError(
                f"{path}: written by a newer adadim (its tables are version {version}, this one reads up to "
                f"{VERSION}); update adadim to open it"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # what was acknowledged survives a power cut
        migrate(connection)
    except sqlite3.OperationalError as failure:
        connection.close()
        raise FileError(f"{path}: cannot be opened for reading and writing ({failure})") from failure
    except (sqlite3.Error, UnicodeDecodeError) as failure:  # its message may quote what is no text
        connection.close()
        raise FileError(f"{path}: damaged, or not a file that Agent.create made ({failure})") from failure
    except BaseException:
        connection.close()
        raise
    return connection


def migrate(connection: sqlite3.Connection) -> None:
    """Take the steps that the file has not taken yet, all or none."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    connection.create_function("seal", -1, seal)
    with transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]  # another process may have been faster
        for step in STEPS[version:]:
            for statement in step.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY, isolation_level=None, check_same_thread=False
    )
