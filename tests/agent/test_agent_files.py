"""What is and is not an agent's file, and files of earlier and later versions."""

import contextlib
import multiprocessing
import sqlite3
import zlib

import numpy as np
import polars as pl
import pytest

import adadim
from adadim import Agent, FileError
from adadim.agent import sqlite
from adadim.agent.statements import COLUMNS, LATER_COLUMNS
from agent_runs import Hands, log_of, numbers, played, scores_of, state_of
from refusals import assert_refuses

pytestmark = pytest.mark.in_a_file

GRID = {"x": [1.0, 0.0, 0.5, 0.0], "y": [0.0, 1.0, 0.0, 0.3]}


def test_only_files_of_agents_are_opened(tmp_path):
    assert_refuses(FileError, "no such file; make one with Agent.create", Agent.open, tmp_path / "none.db")
    assert_refuses(FileError, "not a file", Agent.open, tmp_path)
    (tmp_path / "text.db").write_text("hello" * 1000)
    assert_refuses(FileError, "damaged, or not a file that Agent.create made", Agent.open, tmp_path / "text.db")
    (tmp_path / "empty.db").write_bytes(b"")
    assert_refuses(FileError, "not a file that Agent.create made", Agent.open, tmp_path / "empty.db")
    with sqlite3.connect(tmp_path / "other.db") as file:
        file.execute("CREATE TABLE decisions (id)")
    before = (tmp_path / "other.db").read_bytes()
    assert_refuses(FileError, "not a file that Agent.create made", Agent.open, tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes() == before
    assert (tmp_path / "text.db").read_text() == "hello" * 1000
    assert_refuses(FileError, "path must be a path", Agent.open, 3)


def test_nothing_is_overwritten_and_nothing_left_behind(tmp_path):
    Agent.create(tmp_path / "a.db", dim=4).close()
    before = (tmp_path / "a.db").read_bytes()
    assert_refuses(FileError, "exists already; open it with Agent.open", Agent.create, tmp_path / "a.db", dim=4)
    assert (tmp_path / "a.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]
    (tmp_path / "file").write_text("")
    assert_refuses(FileError, "a part of this path is a file", Agent.create, tmp_path / "file" / "a.db", dim=4)


def test_a_file_of_a_newer_version_is_refused(tmp_path):
    Agent.create(tmp_path / "a.db", dim=4).close()
    with sqlite3.connect(tmp_path / "a.db") as file:
        file.execute(f"PRAGMA user_version = {sqlite.VERSION + 1}")
    file.close()
    assert_refuses(FileError, "written by a newer adadim .its tables are version", Agent.open, tmp_path / "a.db")


@pytest.mark.parametrize("version", range(1, sqlite.VERSION))
def test_a_file_of_an_earlier_version_is_brought_up_to_date(tmp_path, version, monkeypatch):
    clock = Hands(0.0)
    agent, _, _ = played(tmp_path / "new.db", expire_after=10.0, clock=clock)
    agent.ask(GRID)  # expires
    clock.now = 11.0
    for _ in range(2):
        agent.ask(GRID)  # these wait
    agent.ask({"z": [0.3, 0.7]}, context=[1.0, -2.0])
    log = pl.read_parquet(agent.export(tmp_path / "new.parquet"))
    before, scores = numbers(agent.estimate(GRID)), scores_of(agent, GRID)
    agent.close()
    with monkeypatch.context() as patch:  # the file as the earlier version would have made it
        patch.setattr(sqlite, "STEPS", sqlite.STEPS[:version])
        patch.setattr(sqlite, "VERSION", version)
        sqlite.create_file(tmp_path / "old.db", lambda connection: None)
    with sqlite3.connect(tmp_path / "old.db") as old:
        assert old.execute("PRAGMA user_version").fetchone() == (version,)
        tables = [row[0] for row in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert ("arms" in tables) == (version > 1)
        old.execute("ATTACH ? AS new", (str(tmp_path / "new.db"),))
        for table in tables:
            if table not in ("sqlite_sequence", "snapshot"):
                columns = ", ".join(row[1] for row in old.execute(f"PRAGMA main.table_info({table})"))
                old.execute(f"INSERT INTO main.{table} SELECT {columns} FROM new.{table}")
        assert len(old.execute("SELECT * FROM expired").fetchone()) == (2 if version < 3 else 4)
        if version < 4:
            as_before(old)
        else:  # a seal is over the columns that there were
            columns = ", ".join(COLUMNS["decisions"][: -LATER_COLUMNS["decisions"]])
            for *row, seal in old.execute(f"SELECT {columns}, seal FROM decisions"):
                assert sqlite.checksum(*row) == seal
    old.close()
    agent = Agent.open(tmp_path / "old.db", clock=clock)
    assert pl.read_parquet(agent.export(tmp_path / "old.parquet")).equals(log)
    assert state_of(agent) | {"outstanding": 3, "expired": 1, "rewards": 40} == state_of(agent)
    assert np.abs(numbers(agent.estimate(GRID)) - before).max() < 1e-12
    assert np.abs(scores_of(agent, GRID) - scores).max() < 1e-12  # those that wait count
    assert agent.rebuild() < 1e-9
    agent.set_arm("x", GRID["x"])
    assert agent.ask().id == 45
    assert agent.explore == 0.0
    slate = agent.ask(GRID, slots=2)
    assert agent.tell(slate.id, {slate.arms[1]: 0.5})
    clock.now = 30.0
    assert state_of(agent) | {"outstanding": 0, "expired": 6, "rewards": 41} == state_of(agent)
    assert agent.rebuild() < 1e-9
    agent.close()
    with sqlite3.connect(tmp_path / "old.db") as file:
        assert file.execute("PRAGMA user_version").fetchone() == (sqlite.VERSION,)


def as_before(old):
    """Give rows the form that versions 1 to 3 wrote: features after the context, offers as they are."""
    columns = COLUMNS["decisions"][: COLUMNS["decisions"].index("catalogue")]
    for row in old.execute(f"SELECT {', '.join(columns)} FROM decisions").fetchall():
        values = dict(zip(columns, row, strict=True))
        values["features"] = (values["context"] or b"") + values["features"]
        seal = sqlite.checksum(*values.values())
        old.execute("UPDATE decisions SET features = ?, seal = ? WHERE number = ?", (values["features"], seal, row[0]))
    for offer, features in old.execute("SELECT id, features FROM offers").fetchall():
        with contextlib.suppress(zlib.error):  # some are not compressed
            old.execute("UPDATE offers SET features = ? WHERE id = ?", (zlib.decompress(features), offer))
    old.execute("DELETE FROM settings WHERE key IN ('keep', 'designs')")


def test_a_damaged_row_of_an_earlier_version_is_not_made_good(tmp_path):
    agent, _, _ = played(tmp_path / "a.db", count=5)
    agent.close()
    with sqlite3.connect(tmp_path / "a.db") as old:
        as_before(old)
        old.execute("UPDATE decisions SET features = zeroblob(32) WHERE number = 3")
        old.execute("DROP INDEX slates")
        for column in ("unlisted", "slate", "catalogue"):
            old.execute(f"ALTER TABLE decisions DROP COLUMN {column}")
        old.execute("ALTER TABLE arms DROP COLUMN unlisted")
        old.execute("ALTER TABLE offers DROP COLUMN packed")
        old.execute("ALTER TABLE policies DROP COLUMN explore")
        old.execute("DELETE FROM snapshot")
        old.execute("PRAGMA user_version = 3")
    old.close()
    assert_refuses(
        FileError, "a row of the table of decisions is not what was written: 3", Agent.open, tmp_path / "a.db"
    )


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    Agent.create(tmp_path / "a.db", dim=4).close()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "STEPS", (*sqlite.STEPS, "CREATE TABLE more (x);\nCREATE TABLE arms (x);\n"))
        patch.setattr(sqlite, "VERSION", sqlite.VERSION + 1)
        assert_refuses(FileError, "cannot be opened .*table arms already exists", Agent.open, tmp_path / "a.db")
    with sqlite3.connect(tmp_path / "a.db") as file:
        assert file.execute("PRAGMA user_version").fetchone() == (sqlite.VERSION,)
        assert not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'more'").fetchall()
    Agent.open(tmp_path / "a.db")


def test_sums_of_compacted_decisions_that_are_damaged_are_not_made_up(tmp_path):
    agent, _, _ = played(tmp_path / "a.db")
    agent.compact(before=1e12)
    agent.close()
    with sqlite3.connect(tmp_path / "a.db") as file:
        file.execute("UPDATE folded SET body = zeroblob(length(body))")
        file.execute("DELETE FROM snapshot")
    file.close()
    assert_refuses(FileError, "sums of compacted decisions cannot be read", Agent.open, tmp_path / "a.db")


def test_a_cut_file_is_refused(tmp_path):
    agent, _, _ = played(tmp_path / "a.db", count=200)
    agent.close()
    whole = (tmp_path / "a.db").read_bytes()
    (tmp_path / "a.db").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError), Agent.open(tmp_path / "a.db") as cut:
        cut.rebuild()


def _ask_in_child(agent, answers):
    try:
        agent.ask(GRID)
    except adadim.AdadimError as error:
        answers.put(str(error))


def test_a_forked_child_must_open_the_file_itself(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_ask_in_child, args=(agent, answers))
    child.start()
    assert "was opened in another process; call Agent.open in this one" in answers.get(timeout=30)
    child.join()
    assert agent.ask(GRID).id == 1


@pytest.mark.usefixtures("synchronised")
def test_what_is_acknowledged_is_synchronised(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4)
    connection = log_of(agent)._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
