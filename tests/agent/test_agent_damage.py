"""Damage that SQLite does not see is noticed: every row carries a check value, and tables must agree."""

import sqlite3
from contextlib import closing, suppress

import numpy as np
import pytest

import adadim
from adadim import Agent, FileError
from adadim.agent import sqlite, statements, tables
from adadim.agent.statements import Query
from agent_runs import Hands, offers, played
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
    "UPDATE arms SET unlisted = x'' WHERE name = 'x'",
    "UPDATE arms SET unlisted = '[1]' WHERE name = 'x'",
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


def offered_file(path):
    """A file with offers of several kinds: compressed or not, with features or with names alone."""
    with Agent.create(path, dim=4, clock=Hands()) as agent:
        agent.set_arms(GRID)
        for k, arms in enumerate(offers(6, arms=3)):
            agent.ask({name: np.round(row) for name, row in arms.items()} if k % 2 else arms)
        agent.ask(["x"])
    return path


def test_rebuild_finds_every_flip_in_offers_that_an_export_finds(tmp_path):
    original = offered_file(tmp_path / "original.db").read_bytes()
    path, rng, seen = tmp_path / "a.db", np.random.default_rng(0), 0
    for column in ("id", "digest", "arms", "features", "packed"):
        for _ in range(12):
            path.write_bytes(original)
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                rows = connection.execute(f"SELECT id, {column} FROM offers").fetchall()
                number, value = rows[rng.integers(len(rows))]
                new = flipped(value, rng)
                with suppress(sqlite3.IntegrityError):
                    connection.execute(f"UPDATE offers SET {column} = ? WHERE id = ?", (new, number))
            with Agent.open(path, clock=Hands()) as agent:
                try:
                    agent.export(tmp_path / "log.parquet")
                except FileError:
                    seen += 1
                    assert_refuses(FileError, "damaged .*offer", agent.rebuild)
    assert seen > 30


def flipped(value, rng):
    """A value with one bit flipped, or of another type."""
    if isinstance(value, int):
        return value ^ (1 << int(rng.integers(40)))
    data = bytearray(value.encode() if isinstance(value, str) else value)
    if not data or rng.random() < 0.2:
        return 7
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(7))
    return bytes(data).decode("latin-1") if isinstance(value, str) else bytes(data)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE offers SET arms = x'00'",
        "UPDATE offers SET arms = 7",
        "UPDATE offers SET features = 'text'",
        "UPDATE offers SET packed = 'x'",
        "DELETE FROM offers WHERE id = 2",
    ],
)
def test_offers_of_another_type_are_damaged_offers(tmp_path, statement):
    path = offered_file(tmp_path / "a.db")
    change(path, statement)
    with Agent.open(path) as agent:
        assert_refuses(FileError, "damaged .*offer", agent.rebuild)
        assert_refuses(FileError, "what was offered in decision", agent.export, tmp_path / "log.parquet")


@pytest.mark.parametrize(
    "statement", ["UPDATE decisions SET time = 5.0 WHERE number = 7", "UPDATE decisions SET arm = 'z' WHERE number = 7"]
)
def test_rebuild_reads_decisions_that_expired(tmp_path, statement):
    clock = Hands()
    with Agent.create(tmp_path / "a.db", dim=4, clock=clock, expire_after=10.0) as agent:
        agent.ask_many([None] * 9, GRID)
        clock.now += 100
        agent.status()
    change(tmp_path / "a.db", statement)
    with Agent.open(tmp_path / "a.db", clock=clock) as agent:
        assert_refuses(FileError, "table of decisions is not what was written: 7", agent.rebuild)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (
            "CREATE TRIGGER swallow AFTER INSERT ON decisions BEGIN DELETE FROM decisions; END",
            "trigger 'swallow'",
        ),
        ("CREATE VIEW looks AS SELECT * FROM rewards", "view 'looks'"),
        (
            "CREATE TABLE more (x UNIQUE ON CONFLICT IGNORE)",
            "table 'more'",
        ),
    ],
)
def test_what_could_swallow_decisions_is_refused(file, tmp_path, statement, named):
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)
    assert_refuses(FileError, rf"a\.db: has the {named}, which Agent\.create did not make", Agent.open, file)
    assert_refuses(FileError, f"has the {named}", sqlite.backup_file, file, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("table", ["decisions", "rewards", "expired", "arms", "policies"])
@pytest.mark.parametrize("last", [2**63 - 1, 2**62, -1, "'x'"])
def test_a_sequence_at_its_end_is_said_to_be(file, table, last):
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        connection.execute(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', {last})")

    def use():
        with Agent.open(file) as agent:
            agent.set_arm("x", GRID["x"])
            agent.replace_policy(adadim.Greedy(), noise=1.0)
            agent.tell(agent.ask(GRID).id, 0.5)

    assert_refuses(FileError, "damaged .the last number of a table is", use)


def test_the_last_offer_can_be_the_last_there_is(tmp_path):
    path = offered_file(tmp_path / "a.db")
    change(path, f"UPDATE offers SET id = {2**63 - 1} WHERE id = 1")
    with Agent.open(path) as agent:
        assert_refuses(FileError, "damaged .the last number of a table is", agent.ask, offers(1, seed=8)[0])


@pytest.mark.parametrize(
    "statement", ["UPDATE outstanding SET time = 'x'", "UPDATE outstanding SET number = number + 100"]
)
def test_waiting_decisions_that_cannot_be_read_are_said_to_be(tmp_path, statement):
    with Agent.create(tmp_path / "a.db", dim=4, expire_after=10.0, clock=Hands()) as agent:
        agent.ask(GRID)
    change(tmp_path / "a.db", statement)

    def use():
        with Agent.open(tmp_path / "a.db", clock=Hands(5000.0)) as agent:
            agent.status()
            agent.rebuild()

    assert_refuses(FileError, "damaged", use)


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
    """As of a tree whose pages lead back."""
    agent, _, _ = played(tmp_path / "a.db", count=15)
    monkeypatch.setattr(tables, "BATCH_ROWS", 10)
    again = Query({"t": "decisions"}, lambda sql: " FROM decisions t WHERE ? >= 0 AND ? LIMIT ?")
    back = Query({"t": "rewards"}, lambda sql: " FROM rewards t ORDER BY decision / 3, seq DESC", in_one_pass=True)
    for name, query in {"DECIDED": again, "REWARDS_BY_DECISION": back}.items():
        with monkeypatch.context() as patch:
            patch.setattr(statements, name, query)
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
