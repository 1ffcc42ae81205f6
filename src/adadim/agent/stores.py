"""Where logs are kept, by the address of an agent: a path is a file of SQLite, a URL a database of PostgreSQL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from adadim.agent.sqlite import SqliteLog
from adadim.agent.statements import Rows
from adadim.agent.tables import TableLog
from adadim.core.checks import shown
from adadim.core.files import SCHEME, as_path
from adadim.errors import FileError, InvalidValueError

URLS = ("postgresql://", "postgres://")


def is_url(address: Any) -> bool:
    """Whether an address is that of an agent in a database."""
    return isinstance(address, str) and address.startswith(URLS)


def full_address(address: str | Path, name: str | None, optional: bool = False) -> str | Path:
    """An address with the name of the agent in it; with `optional`, one that takes no name or has one is left alone."""
    if name is None or (optional and (not is_url(address) or "#" in str(address))):
        return address
    if not is_url(address):
        return _file(address, name)  # a file takes no name: an error
    return f"{str(address).partition('#')[0]}#{_postgres().Address.parse(address, name).name}"


def shown_address(address: str | Path) -> str:
    """An address for people to read, without a password."""
    return repr(_postgres().Address.parse(address)) if is_url(address) else str(address)


def display_name(address: str | Path) -> str:
    """The name of an agent on a page."""
    return str(address).rpartition("#")[2] if is_url(address) else Path(address).name


def open_log(address: str | Path, name: str | None = None, write: bool = True) -> TableLog:
    """The log of an agent; with `write=False` for reading only."""
    if is_url(address):
        postgres = _postgres()
        log: TableLog = postgres.PostgresLog(postgres.Address.parse(address, name), write)
        return log
    return SqliteLog(_file(address, name), write)


def create_log(address: str | Path, name: str | None, rows: Rows, last: dict[str, int]) -> None:
    """Make an agent whose log has these rows; `last` are the last numbers of tables that count their rows."""
    if is_url(address):
        postgres = _postgres()
        postgres.PostgresLog.create(postgres.Address.parse(address, name), rows, last)
    else:
        SqliteLog.create(_path_of_new_agent(address, name), rows, last)


def copy_agent(source: str | Path, target: str | Path) -> None:
    """Make an agent with all of the log of another, in the same state; all of it or nothing.

    Examples
    --------
    >>> import adadim, pathlib, tempfile
    >>> from adadim.agent import copy_agent
    >>> folder = tempfile.TemporaryDirectory()
    >>> one, other = pathlib.Path(folder.name, "one.db"), pathlib.Path(folder.name, "other.db")
    >>> with adadim.Agent.create(one, dim=1) as agent:
    ...     agent.tell(agent.ask({"a": [1.0]}).id, reward=0.5)
    True
    >>> copy_agent(one, other)
    >>> with adadim.Agent.open(other) as agent:
    ...     agent.status()["rewards"]
    1
    >>> folder.cleanup()
    """
    log = open_log(source)
    try:
        with log.transaction(write=False):
            create_log(target, None, log.rows(), log.last_numbers())
    finally:
        log.close()


def _file(address: Any, name: str | None) -> Path:
    if name is not None:
        raise InvalidValueError(
            f"name={name!r} is for an agent in PostgreSQL, postgresql://user@host/db; {address} is a file of its own"
        )
    return as_path(address, "path")


def _path_of_new_agent(address: Any, name: str | None) -> Path:
    """The path of a file to be made, unless it is plainly meant as something else, or its folder is missing."""
    path, text = _file(address, name), str(address)
    if text == ":memory:" or SCHEME.match(text):
        raise InvalidValueError(
            f"path must be a file such as shop.db, or postgresql://user@host/db, got {shown(text)}; an agent is kept "
            "on disk, a learner in memory: adadim.recommended(problem).start(problem)"
        )
    if os.sep == "/" and "\\" in text:
        raise FileError(f"{text}: a Windows path; on this system folders are separated by /")
    if not path.parent.exists():
        raise FileError(f"{path}: the folder {path.parent} does not exist; make it first, or choose another")
    return path


def _postgres() -> Any:
    try:
        from adadim.agent import postgres
    except ImportError as error:
        if error.name is not None and not error.name.startswith("psycopg"):
            raise
        raise InvalidValueError("an agent in PostgreSQL needs psycopg: pip install 'adadim[postgres]'") from error
    return postgres
