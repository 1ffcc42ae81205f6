"""An agent's file, opened: transactions, queries whose values are always bound, and rows that are what was written."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adadim.agent.schema import CONTRADICTIONS, connect, seal, transaction
from adadim.checks import shown
from adadim.errors import FileError, InvalidValueError

__all__ = ["File", "as_bytes", "as_matrix", "seal", "sealed"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

STORED = "<f8"


def as_bytes(features: Any) -> bytes:
    """Numbers as they are stored."""
    return np.ascontiguousarray(features, dtype=STORED).tobytes()


def as_matrix(stored: bytes, columns: int) -> FloatArray:
    """Rows of numbers that were stored one after the other."""
    return np.frombuffer(stored, dtype=STORED).reshape(-1, columns)


def sealed(*values: Any) -> tuple[Any, ...]:
    """A row with its seal."""
    return (*values, seal(*values))


class File:
    """An agent's file, opened; or one that is being made, with its connection."""

    def __init__(self, path: Path, connection: sqlite3.Connection | None = None) -> None:
        self.path = path
        self._connection = connect(path) if connection is None else connection
        self._process = os.getpid()

    def close(self) -> None:
        """Let go of the file."""
        if self._process == os.getpid():  # a child must leave the parent's locks alone
            self._connection.close()

    @contextlib.contextmanager
    def transaction(self, write: bool = True) -> Iterator[None]:
        """All or nothing; what SQLite complains about becomes a `FileError`."""
        if self._process != os.getpid():
            raise InvalidValueError(f"{self.path} was opened in another process; call Agent.open in this one")
        try:
            with transaction(self._connection, write):
                yield
        except sqlite3.OperationalError as failure:
            if "locked" in str(failure) or "busy" in str(failure):
                raise FileError(f"{self.path}: another process has been writing for too long; try again") from failure
            raise FileError(f"{self.path}: cannot be read or written ({failure})") from failure
        except sqlite3.ProgrammingError as failure:
            raise InvalidValueError(f"{self.path}: the agent is closed; open it again with Agent.open") from failure
        except (sqlite3.DatabaseError, UnicodeDecodeError) as failure:  # its message may quote what is no text
            raise FileError(f"{self.path}: damaged ({failure}); restore it from a backup") from failure

    # Queries, all of them in a transaction

    def run(self, query: str, *values: Any) -> sqlite3.Cursor:
        """Run a query."""
        return self._connection.execute(query, values)

    def run_for_each(self, query: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run a query with each of the rows."""
        self._connection.executemany(query, rows)

    def rows(self, query: str, *values: Any) -> list[Any]:
        """All rows that a query finds."""
        return self.run(query, *values).fetchall()

    def row(self, query: str, *values: Any) -> Any:
        """The first row, None if there is none."""
        return self.run(query, *values).fetchone()

    def value(self, query: str, *values: Any) -> Any:
        """The first value of the first row, None if there is none."""
        row = self.row(query, *values)
        return None if row is None else row[0]

    # Damage

    def intact(self, rows: Iterable[Any], what: str) -> list[Any]:
        """Rows without their seals, which must fit."""
        found = []
        for *row, mark in rows:
            if seal(*row) != mark:
                raise self.damaged(f"a row of the table of {what}s is not what was written: {shown(row[0])}")
            found.append(row)
        return found

    def only(self, query: str, what: str) -> Any:
        """The one row that there must be, without its seal."""
        row = self.row(query)
        if row is None or seal(*row[:-1]) != row[-1]:
            raise self.damaged(f"the {what} cannot be read")
        return row[:-1]

    def check(self) -> None:
        """Raise a `FileError` if SQLite finds the file damaged, or its tables contradict each other."""
        problem = self.value("PRAGMA quick_check(1)")
        if problem != "ok":
            raise self.damaged(str(problem))
        for what, query in CONTRADICTIONS.items():
            if self.row(f"{query} LIMIT 1") is not None:
                raise self.damaged(what)

    def damaged(self, what: str) -> FileError:
        """The error that says so."""
        return FileError(f"{self.path}: damaged ({what}); restore it from a backup")

    def shrink(self) -> None:
        """Give the room of what was dropped back to the system; not in a transaction."""
        with contextlib.suppress(sqlite3.OperationalError):  # another process is writing: next time
            # `execute` would stop after the first page.
            self._connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(PASSIVE);")
