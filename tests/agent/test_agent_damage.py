"""Damage that SQLite does not see is noticed: every row carries a check value, and tables must agree."""

import sqlite3

import numpy as np
import pytest

import adadim
from adadim import Agent, FileError
from adadim.agent import sqlite, tables
from agent_runs import Hands, played
from refusals import assert_refuses

pytestmark = pytest.mark.in_a_file

GRID = {"x": [1.0, 0.0, 0.5, 0.0], "y": [0.0, 1.0, 0.0, 0.3]}


@pytest.fixture
def file(tmp_path):
    agent, _, _ = played(tmp_path / "a.db", count=30)
    agent.set_arms(GRID)
    agent.ask()
    agent.close()
    return tmp_path / "a.db"


def change(file, statement):
    with sqlite3.connect(file) as connection:
        assert connection.execute(statement).rowcount
    connection.close()


ONE_BIT = [
    "UPDATE rewards SET reward = reward * (1 + 4e-16) WHERE seq = 30",
    "UPDATE rewards SET decision = 31 WHERE seq = 30",
    "UPDATE rewards SET seq = 94 WHERE seq = 30",
    "UPDATE decisions SET features = zeroblob(32) WHERE number = 30",
    "UPDATE settings SET value = '5' WHERE key = 'dim'",
    "UPDATE settings SET key = 'dIm' WHERE key = 'dim'",
    "UPDATE settings SET value = 'nul' WHERE key = 'memory'",
    "UPDATE policies SET policy = replace(policy, '0.35', '0.36')",
    "UPDATE folded SET upto = 16",
    "UPDATE folded SET generation = 'x'",
    "INSERT INTO rewards SELECT seq + 99, decision, time, reward, replaces, seal FROM rewards WHERE seq = 7",
    "DELETE FROM folded",
    "DELETE FROM policies",
    "DELETE FROM settings WHERE key = 'seed'",
    "UPDATE arms SET cost = 4.0 WHERE name = 'x'",
]


@pytest.mark.parametrize("statement", ONE_BIT)
def test_a_changed_value_is_noticed_at_once(file, statement):
    change(file, statement)
    change(file, "DELETE FROM snapshot")  # or the rewards that are in it need not be read again
    assert_refuses(FileError, r"a\.db: .*damaged .*restore it from a backup", Agent.open, file)


LOOKED_THROUGH = [
    "DELETE FROM outstanding",
    "UPDATE outstanding SET time = time + 1",
    "UPDATE sqlite_sequence SET seq = 1e12 WHERE name = 'decisions'",
    "UPDATE sqlite_sequence SET seq = 3 WHERE name = 'rewards'",
    "DELETE FROM rewards WHERE seq = 7",
    "DELETE FROM decisions WHERE number = 7",
    "DELETE FROM arms WHERE name = 'x'",
]


@pytest.mark.parametrize("statement", LOOKED_THROUGH)
def test_rebuild_looks_the_whole_file_through(file, statement):
    change(file, statement)
    agent = Agent.open(file)
    assert_refuses(FileError, r"a\.db: damaged .*restore it from a backup", agent.rebuild)
    agent.close()


def test_a_changed_offer_is_not_exported(file, tmp_path):
    change(file, "UPDATE offers SET arms = replace(arms, 'arm 1', 'arm 7')")
    with Agent.open(file) as agent:
        assert_refuses(FileError, "what was offered in decision", agent.export, tmp_path / "log.parquet")
    assert not (tmp_path / "log.parquet").exists()


def test_a_snapshot_at_another_place_is_not_used(file):
    with Agent.open(file) as agent:
        before = agent.estimate(GRID)
    change(file, "UPDATE snapshot SET seq = 12")
    with Agent.open(file) as agent:
        assert agent.status()["rewards"] == 30
        np.testing.assert_allclose(list(agent.estimate(GRID).values()), list(before.values()), rtol=1e-9)


def test_zeros_of_both_signs_are_rewards(tmp_path):
    """SQLite gives -0.0 back as 0.0."""
    with Agent.create(tmp_path / "a.db", dim=4, clock=Hands(-0.0)) as agent:
        for _ in range(2):
            agent.tell(agent.ask(GRID).id, -0.0)
        assert agent.rebuild() == 0


def test_rows_out_of_order_do_not_hang(tmp_path, monkeypatch):
    agent, _, _ = played(tmp_path / "a.db", count=3)
    monkeypatch.setattr(tables, "BATCH_ROWS", 2)
    columns = f"{sqlite.REWARD}, {sqlite.DECISION}"
    rows = f"SELECT r.decision, {columns}, 0 FROM rewards r JOIN decisions d ON d.number = r.decision"
    query = f"{rows} WHERE ? >= 0 AND ? LIMIT ?"
    monkeypatch.setitem(sqlite.QUERIES, "answered", query)  # as of a tree whose pages lead back
    assert_refuses(FileError, "rows are out of order", agent.rebuild)


def test_odd_calls_are_refused(tmp_path):
    new = tmp_path / "new.db"
    agent = Agent.create(tmp_path / "a.db", dim=2)
    for arms in (np.array(None), [{}], [["x"]]):
        assert_refuses((TypeError, ValueError), "arms? must be", agent.ask, arms)
    assert_refuses(ValueError, "name of an arm must be", agent.set_arm, np.array([1.0]), [1.0, 2.0])
    assert_refuses(TypeError, "costs must be a dict", agent.set_arms, {"x": [1.0, 2.0]}, costs=np.eye(2))
    assert_refuses(TypeError, "tell_many takes pairs", agent.tell_many, [np.array(None)])
    assert_refuses(TypeError, "a log must be", agent.learn, np.array(None))
    assert_refuses(FileError, "log must be a path", agent.learn, "")
    assert_refuses(ValueError, "column 'reward' .*row 1", agent.learn, [{"features": [1.0, 2.0], "reward": 10**400}])
    assert_refuses(FileError, "path must be a path", agent.export, "")
    for prior in (1j, {"a": {}}, -(10**400)):
        assert_refuses(ValueError, "prior must be 'uniform'", agent.dimension, prior=prior)
    assert_refuses(TypeError, "levels must be a dict or a list", agent.dimension, levels=np.array(None))
    assert_refuses(ValueError, "dim = 2147483648 is too much", Agent.create, new, dim=2**31)
    for plugins in (np.array([]), 3, {"x": 3}):
        assert_refuses(TypeError, "plugins must be a dict", Agent.create, new, dim=2, plugins=plugins)
    assert_refuses(TypeError, "clock must be a function", Agent.create, new, dim=2, clock=5)
    assert_refuses(ValueError, "what clock gives.* must be a finite", Agent.create, new, dim=2, clock=lambda: np.nan)
    assert_refuses(FileError, "path of a length that the system can use", Agent.create, "x" * 10_000, dim=2)
    assert [path.name for path in tmp_path.glob("new*")] == []


def test_brackets_in_paths_stand_for_themselves(tmp_path):
    agent, _, _ = played(tmp_path / "a.db", count=3)
    (tmp_path / "log1.csv").write_text("reward,x1,x2,x3,x4\n9,9,9,9,9\n")
    (tmp_path / "log[1].csv").write_text("reward,x1,x2,x3,x4\n1,1,1,1,1\n2,1,1,1,1\n")
    assert agent.learn(tmp_path / "log[1].csv") == 2
    assert agent.export(tmp_path / "[red]x[.parquet").is_file()
    adadim.Agent.open(tmp_path / "a.db").close()
