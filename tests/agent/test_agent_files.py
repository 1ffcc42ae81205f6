"""What is and is not an agent's file, and files of earlier and later versions."""

import multiprocessing
import sqlite3

import numpy as np
import pytest

import adadim
from adadim import Agent, FileError
from adadim.agent import sqlite
from agent_runs import Hands, numbers, played, scores_of
from refusals import assert_refuses

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
    for _ in range(3):
        agent.ask(GRID)  # these wait
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
        assert len(old.execute("SELECT * FROM expired").fetchone()) == 2
    old.close()
    agent = Agent.open(tmp_path / "old.db", clock=clock)
    assert agent.status() | {"outstanding": 3, "expired": 1, "rewards": 40} == agent.status()
    assert np.abs(numbers(agent.estimate(GRID)) - before).max() < 1e-12
    assert np.abs(scores_of(agent, GRID) - scores).max() < 1e-12  # those that wait count
    assert agent.rebuild() < 1e-9
    agent.set_arm("x", GRID["x"])
    assert agent.ask().id == 45
    clock.now = 30.0
    assert agent.status() | {"outstanding": 0, "expired": 5} == agent.status()
    assert agent.rebuild() < 1e-9
    agent.close()
    with sqlite3.connect(tmp_path / "old.db") as file:
        assert file.execute("PRAGMA user_version").fetchone() == (sqlite.VERSION,)


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


def test_what_is_acknowledged_is_synchronised(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4)
    connection = agent._log._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
