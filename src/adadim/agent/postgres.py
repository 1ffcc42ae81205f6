"""A log in PostgreSQL: its tables, its queries, and a connection that is renewed when it breaks.

Several agents share the tables, and any number of processes share an agent. What one process must know of the others is
in one row, that of the agent: the numbers of decisions, rewards and other rows. A transaction that writes locks that
row from its beginning to its commit, numbers its rows by it and writes the new counts to it. Thus numbers are in order
of commits and have no gaps, and a reader that sees a count sees all rows up to it, in the same snapshot: no row appears
later among those that were read. A transaction that never ends keeps others from writing, not from reading, until the
server ends it (`SESSION_SETTINGS`). Nothing is decided while the row is locked: a sequence
gives a decision its random numbers before, and the decision gets its number when it is written.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PipelineStatus, TransactionStatus

from adadim.agent.log import Decide, LoggedDecision
from adadim.agent.statements import (
    COUNTERS,
    STORED_COLUMNS,
    TABLES_WITHOUT_CHECKSUM,
    Dialect,
    Rows,
)
from adadim.agent.tables import EXISTS_ALREADY, TableLog
from adadim.core.checks import shown, suggestion
from adadim.errors import AdadimError, AgentExistsError, FileError, InvalidValueError

AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
MIGRATION_LOCK = 0x6164416761646D  # the advisory lock of a process that makes or changes tables
SESSION_SETTINGS = {
    "lock_timeout": "30s",  # to wait for another process that is writing
    "idle_in_transaction_session_timeout": "60s",  # after which the server ends a transaction whose process stopped
    "plan_cache_mode": "force_generic_plan",  # all queries use keys: planning one again costs more than running it
    "enable_seqscan": "off",  # also where a table was small when the query was planned
}
# Unless the URL says otherwise: how long to wait for a server that does not answer, and how a lost one is noticed.
CONNECTION_DEFAULTS = {
    "connect_timeout": "5",
    "tcp_user_timeout": "20000",
    "keepalives_idle": "20",
    "application_name": "adadim",
}
# A commit survives a power cut, also where the default of the server is otherwise.
SYNC_COMMIT = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
PLANS_GROWTH = 4  # factor by which a log may grow while the plans of queries are kept
RETRY_SECONDS = 0.5  # after a connection failed, before another is tried
SETTLE_SECONDS = 10.0  # to find out whether a transaction was committed while the connection broke
READ_BEGIN, WRITE_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "BEGIN ISOLATION LEVEL READ COMMITTED"

LOG = """
CREATE TABLE adadim.version (version integer NOT NULL);
INSERT INTO adadim.version VALUES (0);
-- How far the log of each agent goes. Whoever holds a row is the only one that writes to that log.
CREATE TABLE adadim.agents (
    agent integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE,
    generation bigint NOT NULL, policies bigint NOT NULL, arms bigint NOT NULL, offers bigint NOT NULL,
    decisions bigint NOT NULL, rewards bigint NOT NULL, expired bigint NOT NULL
) WITH (fillfactor = 20);
-- The other tables are those of a file, by agent; a seal is a checksum of the rest of its row.
CREATE TABLE adadim.settings (
    agent integer NOT NULL, key text NOT NULL, value text NOT NULL, seal bigint NOT NULL, PRIMARY KEY (agent, key)
);
CREATE TABLE adadim.policies (
    agent integer NOT NULL, version bigint NOT NULL, time double precision NOT NULL, policy text NOT NULL,
    levels text, noise double precision, seal bigint NOT NULL, PRIMARY KEY (agent, version)
);
CREATE TABLE adadim.arms (
    agent integer NOT NULL, seq bigint NOT NULL, time double precision NOT NULL, name text NOT NULL,
    features bytea NOT NULL, cost double precision NOT NULL, state text NOT NULL, seal bigint NOT NULL,
    PRIMARY KEY (agent, seq)
);
CREATE TABLE adadim.offers (
    agent integer NOT NULL, id bigint NOT NULL, digest bytea NOT NULL, arms text NOT NULL, features bytea NOT NULL,
    packed integer NOT NULL, PRIMARY KEY (agent, id), UNIQUE (agent, digest)
);
-- `draw` is the number of its random stream, null if that is its own number.
CREATE TABLE adadim.decisions (
    agent integer NOT NULL, number bigint NOT NULL, time double precision NOT NULL, arm text, offer bigint,
    context bytea, features bytea NOT NULL, probability double precision, policy bigint, catalogue bigint, draw bigint,
    seal bigint NOT NULL, PRIMARY KEY (agent, number)
);
CREATE TABLE adadim.rewards (
    agent integer NOT NULL, seq bigint NOT NULL, decision bigint NOT NULL, time double precision NOT NULL,
    reward double precision NOT NULL, replaces double precision, seal bigint NOT NULL, PRIMARY KEY (agent, seq)
);
CREATE INDEX rewards_of_decision ON adadim.rewards (agent, decision);
CREATE TABLE adadim.outstanding (
    agent integer NOT NULL, number bigint NOT NULL, time double precision NOT NULL, PRIMARY KEY (agent, number)
);
CREATE TABLE adadim.expired (
    agent integer NOT NULL, seq bigint NOT NULL, number bigint NOT NULL, time double precision NOT NULL,
    seal bigint NOT NULL, PRIMARY KEY (agent, seq), UNIQUE (agent, number)
);
CREATE TABLE adadim.learned (
    agent integer NOT NULL, digest bytea NOT NULL, time double precision NOT NULL, rows bigint NOT NULL,
    PRIMARY KEY (agent, digest)
);
CREATE TABLE adadim.folded (
    agent integer PRIMARY KEY, generation bigint NOT NULL, upto bigint NOT NULL, body bytea NOT NULL,
    seal bigint NOT NULL
);
CREATE TABLE adadim.snapshot (
    agent integer PRIMARY KEY, generation bigint NOT NULL, number bigint NOT NULL, seq bigint NOT NULL,
    expired bigint NOT NULL, body bytea NOT NULL, asked bytea NOT NULL, peak bytea NOT NULL, seal bigint NOT NULL
)
"""

# As in a file.
SLATES = """
ALTER TABLE adadim.decisions ADD COLUMN slate bigint;
CREATE INDEX slates ON adadim.decisions (agent, slate) WHERE slate IS NOT NULL
"""

EXPLORATION = "ALTER TABLE adadim.policies ADD COLUMN explore double precision"

CATEGORIES = """
ALTER TABLE adadim.decisions ADD COLUMN unlisted text;
ALTER TABLE adadim.arms ADD COLUMN unlisted text
"""

STEPS = (LOG, SLATES, EXPLORATION, CATEGORIES)
"""What each version added; a database of version v gets those after the first v."""


class PostgresDialect(Dialect):
    """The dialect of PostgreSQL: its tables have the rows of several agents.

    Statistics may be old: they may say that an agent has next to no rows, for which every index is as good, and any
    order of reading. So that no statement reads all rows of an agent for each of some others, joined rows are looked up
    one by one by their whole key, which "OFFSET 0" ensures, and what is missing from a table is found by EXCEPT.

    The number of the agent is hidden from the planner, which takes the agent for an average one. Of an agent that is in
    its statistics it would know how many rows there are; of one that is newer, or has grown, it would think that it has
    next to none. The average is of the rows that the tables have now.
    """

    greatest = "greatest"
    # That of the tables, which all agents share.
    size = """(SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
        WHERE relnamespace = 'adadim'::regnamespace AND relkind = 'r')"""

    def __init__(self, agent: int) -> None:
        self.agent, self._hidden = agent, f"(SELECT {agent})"

    def rows(self, table: str) -> str:
        return f"(SELECT * FROM adadim.{table} WHERE agent = {self._hidden})"

    def join(self, table: str, alias: str, condition: str, outer: bool = False) -> str:
        found = f"(SELECT * FROM {self._where(table, alias, condition)} OFFSET 0) {alias}"
        return f"LEFT JOIN LATERAL {found} ON true" if outer else f"CROSS JOIN LATERAL {found}"

    def exists(self, table: str, alias: str, condition: str) -> str:
        return f"EXISTS (SELECT 1 FROM {self._where(table, alias, condition)} OFFSET 0)"

    def among(self, column: str) -> str:
        return f"{column} = ANY(ARRAY(SELECT json_array_elements_text(?::json)::bigint))"

    def last(self, counter: str) -> str:
        return f"(SELECT {counter} FROM adadim.agents WHERE agent = {self._hidden})"

    def delete(self, table: str, condition: str) -> str:
        return f"DELETE FROM {self._where(table, 't', condition)}"

    def finished(self, text: str) -> str:
        return text.replace("?", "%s")

    def _where(self, table: str, alias: str, condition: str) -> str:
        return f"adadim.{table} {alias} WHERE {alias}.agent = {self._hidden} AND {condition}"

    @property
    def counts(self) -> str:
        """The statement that reads the counters."""
        return f"SELECT {', '.join(COUNTERS)} FROM adadim.agents WHERE agent = {self._hidden}"

    @property
    def count(self) -> str:
        """The statement that writes the counters."""
        return f"UPDATE adadim.agents SET {', '.join(f'{name} = %s' for name in COUNTERS)} WHERE agent = {self._hidden}"

    def insert(self, table: str) -> str:
        """The statement that adds a row to a table."""
        columns = WRITTEN_COLUMNS[table]
        values = ", %s" * len(columns)
        return f"INSERT INTO adadim.{table} (agent, {', '.join(columns)}) VALUES ({self.agent}{values})"

    def written_row(self, table: str) -> str:
        """The statement that finds a row of a table by its number, as it is written."""
        columns = WRITTEN_COLUMNS[table]
        return f"SELECT {', '.join(columns)} FROM {self.rows(table)} t WHERE {columns[0]} = %s"


WRITTEN_COLUMNS = STORED_COLUMNS | {"decisions": (*STORED_COLUMNS["decisions"], "draw")}
"""Columns in the order in which rows are written."""


class Address(NamedTuple):
    """An agent of a database: the database as psycopg takes it, its URL without the password, and the agent's name."""

    conninfo: str
    url: str
    name: str

    def __repr__(self) -> str:
        return f"{self.url}#{self.name}"

    @classmethod
    def parse(cls, url: str, name: str | None = None) -> Address:
        """The address of an agent from a URL of PostgreSQL, with the name after a # at its end or in `name`."""
        database, _, fragment = url.partition("#")
        if name is not None and fragment and name != fragment:
            raise InvalidValueError(f"two names for one agent: {fragment!r} in the URL, and name={name!r}")
        name = fragment if name is None else name
        try:
            parts = {key: str(value) for key, value in conninfo_to_dict(database).items()}
        except psycopg.Error as error:
            message = f"{database} is no URL of PostgreSQL ({str(error).strip()})"
            raise InvalidValueError(re.sub(r"(//[^/@]*:)[^/@]*@", r"\1...@", message)) from None
        user, hosts = parts.get("user", ""), parts.get("host", "").split(",")
        ports = (parts.get("port", "").split(",") * len(hosts))[: len(hosts)]
        user += "@" if user else ""
        machines = ",".join(host + (f":{port}" if port else "") for host, port in zip(hosts, ports, strict=True))
        address = f"postgresql://{quote(user, safe='@')}{machines}/{quote(parts.get('dbname', ''))}"
        if hosts[0].startswith("/"):  # the folder of a socket
            port = f"&port={ports[0]}" if ports[0] else ""
            address = f"postgresql://{quote(user, safe='@')}/{quote(parts.get('dbname', ''))}?host={hosts[0]}{port}"
        if not isinstance(name, str) or not AGENT_NAME.fullmatch(name):
            raise InvalidValueError(
                f'which agent of {address}? Give its name, name="shop" or {address}#shop: 1 to 63 letters, digits, '
                f"'.', '_' and '-', got {shown(name) if name else 'none'}"
            )
        conninfo = make_conninfo(database, **{**CONNECTION_DEFAULTS, **parts, "client_encoding": "utf8"})
        return cls(conninfo, address, name)


class PostgresLog(TableLog):
    """The log of one agent of a database that is opened; with `write=False` for reading only."""

    path: str
    _dialect: PostgresDialect

    def __init__(self, address: Address, write: bool = True) -> None:
        self.path, self.address, self._may_write = repr(address), address, write
        self._process = os.getpid()
        self._connection: psycopg.Connection[Any] | None = None
        self._closed, self._last_failure = False, (0.0, "")  # when the last connection failed, and why
        self._initial_counts: dict[str, int] = {}  # at the beginning of the transaction
        # Statements and rows that are sent with the next statement or the commit.
        self._unsent: list[tuple[str, list[tuple[Any, ...]]]] = []
        # Table and values of the last counted row of the transaction, by which it can be recognised.
        self._last_row: tuple[str, tuple[Any, ...]] | None = None
        self._draws: dict[int, int | None] = {}  # the random streams of decisions, None for that of their number
        self._has_written = False  # whether the transaction changes anything
        self._planned_rows = 0  # in the log when the connection's plans were made
        with _explained(self.path):
            connection = self._connected()
            _migrate(connection, address.url)
            super().__init__(PostgresDialect(_agent_number(connection, address)))
        self._open_settings()

    @classmethod
    def create(cls, address: Address, rows: Rows, last: Mapping[str, int]) -> None:
        """Make an agent with these rows; `last` are the last numbers of tables that count their rows."""
        with _explained(repr(address)), psycopg.connect(address.conninfo, autocommit=True) as connection:
            try:
                with connection.transaction():
                    _migrate(connection, address.url, create=True)
                    _fill(connection, address, rows, last)
            except errors.UniqueViolation:
                raise AgentExistsError(f"{address!r}: {EXISTS_ALREADY}") from None

    def drop(self) -> None:
        """Remove the agent with all its rows from the database."""
        agent = self._dialect.agent
        with _explained(self.path), self._connected().transaction():
            for table in ("agents", *STORED_COLUMNS):
                self._open_connection().execute(f"DELETE FROM adadim.{table} WHERE agent = %s", [agent])
            self._open_connection().execute(f"DROP SEQUENCE adadim.draws_{agent}")

    def close(self) -> None:
        if self._process == os.getpid():  # a child must leave the parent's connection alone
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    # Transactions

    @property
    def _in_transaction(self) -> bool:
        connection = self._connection
        return connection is not None and not connection.closed and not _is_idle(connection)

    def _explained(self, failure: BaseException) -> FileError | None:
        return _explanation(failure, self.path)

    def commit(self, count: int, decide: Decide, then: Callable[[], None]) -> list[LoggedDecision]:
        reserve = f"SELECT nextval('adadim.draws_{self._dialect.agent}') FROM generate_series(1, %s)"
        with _explained(self.path):
            reserved = self._retry_once(lambda connection: connection.execute(reserve, [count]).fetchall())
        decisions = decide([draw for (draw,) in reserved])
        with self.transaction():
            shift = self.place().number + 1 - decisions[0].number  # other processes may have written
            decisions = [decision.renumbered(shift) for decision in decisions]
            self.append(decisions, decisions[0].time)
            then()
        return decisions

    def _begin(self, write: bool) -> None:
        # It reads the counters; one that writes locks them, so that no other process writes.
        # One message, not a pipeline of psycopg: in a pipeline the server does not time idle transactions.
        start = f"{WRITE_BEGIN if write else READ_BEGIN}; {self._dialect.counts}{' FOR UPDATE' if write else ''}"

        def begin(connection: psycopg.Connection[Any]) -> Any:
            cursor = connection.execute(start)
            cursor.nextset()
            return cursor.fetchone()

        self._unsent.clear()  # rows of a transaction that broke must not be sent by another
        row = self._retry_once(begin)
        if row is None:
            raise FileError(f"{self.path}: this agent is no longer there")
        if sum(row) > PLANS_GROWTH * self._planned_rows:
            self._open_connection().execute("DISCARD PLANS")
            self._planned_rows = sum(row)
        self._take_counters(row)
        self._initial_counts, self._last_row, self._has_written = dict(self._counts), None, False

    def _end(self, write: bool) -> None:
        connection, last_row = self._open_connection(), self._last_row
        if not write or not self._has_written:
            connection.execute("ROLLBACK")  # unlike a commit, it does not wait for the disk
            return
        try:
            with _pipeline(connection):
                self._send(connection)
                if self._counts != self._initial_counts:
                    connection.execute(self._dialect.count, list(self._counts.values()))
                connection.execute("COMMIT")
        except psycopg.OperationalError as failure:
            if not connection.closed:
                raise  # the server refused: nothing was written
            if last_row is None or not self._was_committed(*last_row, failure):
                raise

    def _was_committed(self, table: str, row: tuple[Any, ...], failure: Exception) -> bool:
        """Whether a transaction was committed when the connection broke: whether its last row is in the table.

        It held the agent's row. As soon as another transaction holds that row, the first one has ended.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            try:
                self._begin(write=True)
                stored = self._fetch(self._dialect.written_row(table), [row[0]])
                self._roll_back(failure)
                return stored == [row]
            except (psycopg.OperationalError, FileError):
                if time.monotonic() > deadline:
                    raise FileError(
                        f"{self.path}: the connection broke during a commit ({_first_line(failure)}), and whether "
                        "that was written is not known; reporting a reward again is harmless"
                    ) from failure
                time.sleep(RETRY_SECONDS / 2)

    def _roll_back(self, error: BaseException | None = None) -> None:
        self._unsent.clear()
        connection = self._connection
        if connection is None or connection.closed:
            return
        try:
            # Another exception may have come in the middle of an exchange with the server.
            if isinstance(error, psycopg.Error | AdadimError) and not _is_idle(connection):
                connection.execute("ROLLBACK")
        except psycopg.Error:
            pass
        finally:
            if not isinstance(error, psycopg.Error | AdadimError) or not _is_idle(connection):
                connection.close()

    def _connected(self) -> psycopg.Connection[Any]:
        """The connection, which is renewed if it broke."""
        if self._process != os.getpid():
            raise InvalidValueError(f"{self.path} was opened in another process; call Agent.open in this one")
        if self._closed:
            raise InvalidValueError(f"{self.path}: the agent is closed; open it again with Agent.open")
        if self._connection is not None and not self._connection.closed:
            if _is_idle(self._connection):
                return self._connection
            self._connection.close()  # an exception has left it in the middle of an exchange
        failed, why = self._last_failure
        if time.monotonic() < failed + RETRY_SECONDS:
            raise psycopg.OperationalError(why)  # many callers need not each wait for a server that is down
        try:
            connection = psycopg.connect(self.address.conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            self._last_failure = time.monotonic(), str(error)
            raise
        self._last_failure = 0.0, ""
        session = SESSION_SETTINGS if self._may_write else SESSION_SETTINGS | {"default_transaction_read_only": "on"}
        try:
            for name, value in session.items():
                connection.execute(f"SET {name} = '{value}'")
            connection.execute(SYNC_COMMIT)
        except BaseException:
            connection.close()
            raise
        self._connection, self._planned_rows = connection, 0
        return connection

    def _open_connection(self) -> psycopg.Connection[Any]:
        """The connection of the transaction, which cannot be renewed."""
        if self._connection is None or self._connection.closed:
            raise psycopg.OperationalError("the connection is lost")
        return self._connection

    def _retry_once(self, work: Any) -> Any:
        """The result of `work(connection)`, which is called again with a new connection if the old one broke."""
        connection = self._connected()
        try:
            return work(connection)
        except psycopg.OperationalError:
            if not connection.closed:
                raise
            return work(self._connected())

    # Rows

    def _append_decisions(self, decisions: Sequence[LoggedDecision]) -> None:
        self._draws = {one.number: None if one.draw == one.number else one.draw for one in decisions}
        super()._append_decisions(decisions)

    def _fetch(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._flush().execute(statement, values, binary=True).fetchall()

    def _stream(self, statement: str, size: int) -> Iterator[list[Any]]:
        self._flush().execute(f"DECLARE stream NO SCROLL CURSOR FOR {statement}")
        while rows := self._open_connection().execute(f"FETCH {size} FROM stream", binary=True).fetchall():
            yield rows
        self._open_connection().execute("CLOSE stream")

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        self._has_written = True
        return self._flush().execute(statement, values).rowcount

    def _execute_many(self, statement: str, values: list[tuple[Any, ...]]) -> None:
        if values:
            self._has_written = True
            self._unsent.append((statement, values))

    def _write_rows(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        self._has_written = True
        if table == "decisions":
            rows = [(*row, self._draws.get(row[0])) for row in rows]
        if table in self._counts and table not in TABLES_WITHOUT_CHECKSUM:
            self._last_row = table, rows[-1]
        self._unsent.append((self._dialect.insert(table), rows))

    def _flush(self) -> psycopg.Connection[Any]:
        """Send what is unsent; gives the connection."""
        connection = self._open_connection()
        if self._unsent:
            with _pipeline(connection):
                self._send(connection)
        return connection

    def _send(self, connection: psycopg.Connection[Any]) -> None:
        for query, rows in self._unsent:
            connection.cursor().executemany(query, rows)
        self._unsent.clear()


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Raise errors of the database as those of the library."""
    try:
        yield
    except psycopg.Error as failure:
        raise _explanation(failure, path) or failure from failure


def _explanation(failure: BaseException, path: str) -> FileError | None:
    """An error that says what a failure of the database means; None if it is no such failure."""
    if isinstance(failure, errors.LockNotAvailable):
        return FileError(f"{path}: another process has been writing for too long; try again")
    if isinstance(failure, errors.InsufficientPrivilege):
        return FileError(f"{path}: the role lacks a privilege ({_first_line(failure)}); see docs/operate.md")
    if isinstance(failure, psycopg.Error):
        return FileError(f"{path}: cannot be read or written ({_first_line(failure)})")
    return None


def _is_idle(connection: psycopg.Connection[Any]) -> bool:
    """Whether a connection is in no transaction and waits for nothing."""
    info = connection.info
    return info.transaction_status == TransactionStatus.IDLE and info.pipeline_status == PipelineStatus.OFF


@contextlib.contextmanager
def _pipeline(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A pipeline; where an exception is raised in it, that one comes out, and not what its end then fails with."""
    try:
        with connection.pipeline():
            yield
    except psycopg.Error as failure:
        earlier = None if failure.__suppress_context__ else failure.__context__
        if earlier is None or isinstance(earlier, psycopg.Error):
            raise
        raise earlier from None


def _first_line(failure: BaseException) -> str:
    return (str(failure).strip().splitlines() or [type(failure).__name__])[0]


def _migrate(connection: psycopg.Connection[Any], url: str, create: bool = False) -> None:
    """Bring the tables to this version; they are created where an agent is to be created."""
    version = _schema_version(connection)
    if version is None and not create:
        raise FileError(
            f'{url}: no agent was made in this database; make one with Agent.create(url, name="shop", dim=...)'
        )
    if version is not None and version > len(STEPS):
        raise FileError(
            f"{url}: written by a newer adadim (its tables are version {version}, this one reads up to {len(STEPS)}); "
            "update adadim to open it"
        )
    if version == len(STEPS):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        version = _schema_version(connection)  # another process may have been faster
        if version is None:
            if connection.execute("SELECT to_regnamespace('adadim')").fetchone() == (None,):
                connection.execute("CREATE SCHEMA adadim")
            version = 0
        for step in STEPS[version:]:
            connection.execute(step)
        connection.execute("UPDATE adadim.version SET version = %s", [len(STEPS)])


def _schema_version(connection: psycopg.Connection[Any]) -> int | None:
    if connection.execute("SELECT to_regclass('adadim.version')").fetchone() == (None,):
        return None
    row = connection.execute("SELECT version FROM adadim.version").fetchone()
    return None if row is None else int(row[0])


def _agent_number(connection: psycopg.Connection[Any], address: Address) -> int:
    """The number of an agent."""
    numbers = dict(connection.execute("SELECT name, agent FROM adadim.agents").fetchall())
    if address.name not in numbers:
        near = suggestion(address.name, sorted(numbers)[:50])
        raise FileError(f"{address.url}: there is no agent {address.name!r} in this database; {near}")
    return int(numbers[address.name])


def _fill(connection: psycopg.Connection[Any], address: Address, rows: Rows, last: Mapping[str, int]) -> None:
    """Make an agent with these rows."""
    if connection.execute("SELECT 1 FROM adadim.agents WHERE name = %s", [address.name]).fetchone():
        raise AgentExistsError(f"{address!r}: {EXISTS_ALREADY}")
    counts = dict.fromkeys(COUNTERS, 0) | dict(last)
    query = (
        f"INSERT INTO adadim.agents (name, {', '.join(COUNTERS)}) VALUES (%s{', %s' * len(COUNTERS)}) RETURNING agent"
    )
    cursor = connection.execute(query, [address.name, *counts.values()])
    (agent,) = cursor.fetchone() or (0,)
    for table, batch in rows:
        columns = STORED_COLUMNS[table]
        with cursor.copy(f"COPY adadim.{table} (agent, {', '.join(columns)}) FROM STDIN") as copy:
            for row in batch:
                copy.write_row((agent, *row))
        if table == "offers":
            counts["offers"] = batch[-1][0]
        elif table == "folded":
            counts["generation"] = batch[-1][0]
    cursor.execute(PostgresDialect(agent).count, list(counts.values()))
    cursor.execute(f"CREATE SEQUENCE adadim.draws_{agent} START WITH {counts['decisions'] + 1}")
