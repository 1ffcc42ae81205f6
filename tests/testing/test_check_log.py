"""`check_log` names what is wrong with stores that are broken on purpose, each in one way."""

import re

import pytest

from adadim import Agent
from adadim.agent.log import Snapshot
from adadim.agent.sqlite import SqliteLog
from adadim.agent.statements import LAST_ROW, ROW_TYPES
from adadim.agent.stores import open_log
from adadim.errors import FileError, InvalidTypeError, InvalidValueError
from adadim.testing import ConformanceError, check_log, stores
from refusals import assert_refuses


class LosesCosts(SqliteLog):
    """Writes arms without their costs."""

    def _insert(self, table, rows):
        rows = [(*row[:4], 0.0, *row[5:]) for row in rows] if table == "arms" else rows
        super()._insert(table, rows)


class KeepsWaiting(SqliteLog):
    """A decision waits also after its reward."""

    def _execute_many(self, statement, rows):
        if statement != self._end_of_waiting:
            super()._execute_many(statement, rows)


class NumbersAgain(SqliteLog):
    """Counts the rows that are there, so that a number is used again once its row was dropped."""

    def append(self, events, time):
        self._counts["rewards"] = self._fetch("SELECT count(*) FROM rewards")[0][0]
        super().append(events, time)


class KeepsHalf(SqliteLog):
    """Commits where it should roll back."""

    def _roll_back(self, error=None):
        if self._in_transaction:
            self._end(True)


class NeverCommits(SqliteLog):
    """Says that a transaction was written, and forgets it."""

    def _end(self, write):
        super()._roll_back()


class NeverLocks(SqliteLog):
    """Begins to write without a lock, which it takes when it writes the first row."""

    def _begin(self, write):
        super()._begin(False)


class ReadersLock(SqliteLog):
    """A reader locks out writers, and so waits for them."""

    def _begin(self, write):
        super()._begin(True)


class SeesLater(SqliteLog):
    """A reader sees what is written after its transaction began."""

    def select(self, query, *values):
        if not self._writes:
            self._end(False)
            super()._begin(False)
        return super().select(query, *values)

    def _begin(self, write):
        self._writes = write
        super()._begin(write)


class CommitsApart(SqliteLog):
    """Writes decisions in one transaction and what follows in another."""

    def commit(self, count, decide, then):
        with self.transaction():
            decisions = decide(None)
            self.append(decisions, decisions[0].time)
        with self.transaction():
            then()
        return decisions


class DecidesTwice(SqliteLog):
    def commit(self, count, decide, then):
        decide(None)
        return super().commit(count, decide, then)


class DrawsOnce(SqliteLog):
    """Gives two decisions the same random stream."""

    def commit(self, count, decide, then):
        return super().commit(count, lambda _: decide([1] * count), then)


class ForgetsOthers(SqliteLog):
    """Decides before it locks, and writes nothing where another process has decided meanwhile."""

    def commit(self, count, decide, then):
        with self.transaction(write=False):
            before = self.place()
        decisions = decide(list(range(before.number + 1, before.number + 1 + count)))
        with self.transaction():
            if self.place() == before:
                self.append(decisions, decisions[0].time)
                then()
        return decisions


class ReadsBackwards(SqliteLog):
    def read(self, query, since=0, upto=LAST_ROW, long=False):
        return (batch[::-1] for batch in super().read(query, since, upto, long))


class ReadsOn(SqliteLog):
    """Does not stop at the last number that is wanted."""

    def read(self, query, since=0, upto=LAST_ROW, long=False):
        return super().read(query, since, LAST_ROW, long)


class OldSnapshot(SqliteLog):
    """Keeps the first snapshot."""

    def write_snapshot(self, snapshot):
        if self.snapshot() is None:
            super().write_snapshot(snapshot)


class EmptySnapshot(SqliteLog):
    def write_snapshot(self, snapshot):
        super().write_snapshot(Snapshot(snapshot.place, b"", b"", b""))


class DropsWaiting(SqliteLog):
    """Drops decisions that wait, too."""

    def fold(self, sums, upto=0, settings=None):
        self._execute("DELETE FROM outstanding WHERE number <= ?", [upto])
        return super().fold(sums, upto, settings)


class KeepsSettings(SqliteLog):
    def fold(self, sums, upto=0, settings=None):
        return super().fold(sums, upto)


class OneGeneration(SqliteLog):
    """Begins no new generation."""

    def place(self):
        return super().place()._replace(generation=0)


class Trusts(SqliteLog):
    """Does not look at checksums."""

    def _verified_rows(self, table, rows):
        kind = ROW_TYPES[table]
        return [kind._make(row[: len(kind._fields)]) for row in rows]


class ChecksNothing(SqliteLog):
    def check(self, whole=True):
        self.place()


BROKEN = {
    LosesCosts: ("events", r"arms: expected \[\('a', 0.5, 'masked'\)\], found \[\('a', 0.0, 'masked'\)\]"),
    KeepsWaiting: ("events", r"decisions that wait: expected \[4\], found \[1, 2, 3, 4\]"),
    NumbersAgain: ("numbers", r"numbers of rewards after three were dropped: expected \[4\], found \[1\]"),
    KeepsHalf: ("transactions", r"the place after a transaction that KeyError ended: expected .*number=2, .*number=4"),
    NeverCommits: ("durability", r"the place for another process: expected LogPosition\(.*number=2"),
    NeverLocks: ("one writer", r"two transactions that write were open at once: the second must wait for the first"),
    ReadersLock: ("readers", r"a reader waited for a writer, for 0\.5 seconds|database is locked"),
    SeesLater: ("readers", r"decisions later in it: expected \[1\], found \[1, 2\]"),
    CommitsApart: ("commit", r"the place after a commit that failed: expected .*number=0.*found .*number=2"),
    DecidesTwice: ("commit", r"how often decisions were made in two commits: expected 2, found 4"),
    DrawsOnce: ("commit", r"two decisions must have two random streams, got draws = \[1, 1\]"),
    ForgetsOthers: ("commit", r"after those of another process: expected \[3, 4\], found \[1, 2\]"),
    ReadsBackwards: ("reading", r"decisions after 1 and up to 8: expected \[2, 3.*found \[8, 7"),
    ReadsOn: ("reading", r"decisions after 1 and up to 8: .*found \[2, 3, 4, 5, 6, 7, 8, 9\]"),
    OldSnapshot: ("snapshot", r"body=b'two'.*body=b'one'"),
    EmptySnapshot: ("snapshot", r"body=b'one'.*body=b''"),
    DropsWaiting: ("fold", r"how many decisions were dropped: expected 2, found 3"),
    KeepsSettings: ("fold", r"the settings: expected .*arms=\d+"),
    OneGeneration: ("fold", r"the place after a fold: expected LogPosition\(generation=1"),
    Trusts: ("damage", r"a row whose checksum is wrong must be a FileError, got \[RewardRow"),
    ChecksNothing: ("check", r"check\(\) must be a FileError where a decision has a reward and is not there"),
}


def opener(kind, folder):
    def opened(name):
        path = folder / f"{name}.db"
        if not path.exists():
            Agent.create(path, dim=2).close()
        return kind(path)

    return opened


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_broken_is_named(kind, tmp_path, monkeypatch):
    check, words = BROKEN[kind]
    if kind is NeverLocks:  # it need not wait for long: a store that is broken comes in
        monkeypatch.setattr(stores, "WAIT_SECONDS", 20.0)
    if kind is ReadersLock:
        monkeypatch.setattr(stores, "PATIENCE_SECONDS", 0.5)
    with pytest.raises(ConformanceError) as caught:
        check_log(opener(kind, tmp_path), only=check)
    report = caught.value.report
    assert report.failed == (check,)
    assert re.search(words, report.checks[0].message, flags=re.DOTALL), report.checks[0].message
    assert f"FAILED {check}: " in str(report)


@pytest.mark.parametrize("kind", [LosesCosts, ReadsOn, CommitsApart, EmptySnapshot, Trusts, ChecksNothing])
def test_nothing_else_is_blamed(kind, tmp_path):
    with pytest.raises(ConformanceError) as caught:
        check_log(opener(kind, tmp_path))
    assert caught.value.report.failed == (BROKEN[kind][0],)


def test_every_check_can_fail(tmp_path):
    assert {check for check, _ in BROKEN.values()} == set(check_log(tmp_path).passed)


def test_a_folder_is_left_as_it_was(tmp_path):
    Agent.create(tmp_path / "mine.db", dim=3).close()
    report = check_log(str(tmp_path))
    assert len(report.passed) == len(report.checks) == 12
    assert str(report).startswith(f"{str(tmp_path)!r} passed 12 checks\npassed: events, numbers, ")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.db"]


def test_a_database_is_left_as_it_was(database):
    Agent.create(f"{database.url}#kept", dim=2, exist_ok=True).close()
    with open_log(f"{database.url}#kept")._connected() as connection:
        tables = ("agents", "settings", "policies", "decisions", "rewards", "folded", "snapshot")
        counts = [f"SELECT count(*) FROM adadim.{table}" for table in tables]
        counts.append("SELECT count(*) FROM pg_sequences WHERE schemaname = 'adadim'")
        before = [connection.execute(count).fetchone() for count in counts]
        assert check_log(database.url).failed == ()
        assert [connection.execute(count).fetchone() for count in counts] == before


def test_an_open_log(tmp_path):
    log = opener(SqliteLog, tmp_path)("a")
    report = check_log(log)
    outcomes = {check.name: check.outcome for check in report.checks}
    assert {name for name, outcome in outcomes.items() if outcome == "skipped"} == {
        "durability",
        "one writer",
        "readers",
    }
    assert len(report.passed) == 9
    with log.transaction(write=False):  # it is still open, and sound
        log.check()
    # It has decisions now: what was written to it would be lost among them.
    assert_refuses(InvalidValueError, "store must be the log of a new agent with dim = 2", check_log, log)
    log.close()


def test_arguments_are_checked(tmp_path):
    assert_refuses(InvalidTypeError, "store must be a folder, a URL of PostgreSQL, a function", check_log, 3)
    assert_refuses(FileError, "no such folder; store must be a folder", check_log, tmp_path / "missing")
    assert_refuses(FileError, "store must be a path of a length that the system can use", check_log, "x" * 5000)
    assert_refuses(InvalidValueError, "a database without the name", check_log, "postgresql://user@host/db#shop")
    assert_refuses(InvalidValueError, "there is no check 'fold it'", check_log, tmp_path, only="fold it")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConformanceError, match=r"the function must return a log, an adadim\.agent\.log\.Log, got str"):
        check_log(lambda name: name, only="events")
