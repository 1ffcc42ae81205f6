"""Whatever exception comes in a call, Ctrl-C too, and at whichever step: the agent goes on as its log says."""

import signal
import sqlite3
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from adadim import Agent, FileError
from adadim.agent.log import LoggedDecision
from agent_runs import failing_writes, log_of, offers, scores_of, state_of
from refusals import assert_refuses

sys.path.append(str(Path(__file__).parents[2]))

from attack.interrupts import Interrupted, by_step, steps_of

GRID = offers(1, arms=5, seed=99)[0]
WRITES = (
    "ask", "ask for a slate", "ask_many", "tell_many", "ask_and_tell", "correct", "learn", "set_arms", "mask_arm",
    "replace_policy", "replace_features", "compact", "rebuild",
)  # fmt: skip


@pytest.fixture
def address(address_of, tmp_path):
    """Where an agent is to be made."""
    return address_of(tmp_path / "a.db")


class OtherWriter:
    """A process that holds the lock of an agent."""

    def __init__(self, address):
        if isinstance(address, Path):
            self.connection = sqlite3.connect(address, isolation_level=None, check_same_thread=False, timeout=0)
            self.begin = "BEGIN IMMEDIATE"
        else:
            import psycopg

            url, _, name = address.partition("#")
            self.connection = psycopg.connect(url, autocommit=True)
            self.begin = f"BEGIN; SELECT 1 FROM adadim.agents WHERE name = '{name}' FOR UPDATE NOWAIT"

    def hold(self):
        self.connection.execute(self.begin)

    def release(self):
        self.connection.execute("ROLLBACK")


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError])
def test_an_agent_that_waited_for_another_process_and_was_interrupted_goes_on(address, kind):
    def interrupt(*_):
        raise kind

    agent = Agent.create(address, dim=4)
    agent.ask(GRID)
    other = OtherWriter(address)
    other.hold()
    before = signal.signal(signal.SIGALRM, interrupt)
    release = threading.Timer(0.3, other.release)
    try:
        release.start()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(kind):
            agent.ask(GRID)
    finally:
        signal.signal(signal.SIGALRM, before)
        release.join()
    other.hold()  # no lock was left
    other.release()
    assert agent.ask(GRID).id == 2
    assert agent.tell(2, 0.5)
    assert agent.rebuild() < 1e-12
    other.connection.close()
    agent.close()


class Failing:
    """A connection whose n-th statement raises, before or after it was run."""

    def __init__(self, connection, at, after):
        self._connection, self._at, self._after, self.count = connection, at, after, 0

    def __getattr__(self, name):
        value = getattr(self._connection, name)
        if name == "cursor":
            return lambda *options: Failing._Cursor(self, value(*options))
        return self._counting(value) if name in ("execute", "executemany", "executescript") else value

    def _counting(self, run):
        def counted(*statement, **options):
            self.count += 1
            if self.count == self._at and not self._after:
                raise KeyboardInterrupt
            result = run(*statement, **options)
            if self.count == self._at:
                raise KeyboardInterrupt
            return result

        return counted

    class _Cursor:
        def __init__(self, connection, cursor):
            self.executemany = connection._counting(cursor.executemany)


def by_statement(log, at, after):
    def interrupt(call):
        log._connection = failing = Failing(log._connection, at, after)
        try:
            call()
        except KeyboardInterrupt:
            return False
        finally:
            if log._connection is failing:
                log._connection = failing._connection
        return True

    return interrupt


@pytest.mark.parametrize("call", WRITES)
def test_an_exception_at_any_statement_leaves_all_or_nothing(address, store, call):
    life = Interrupted(address, most_columns=40)
    assert life.interrupted("ask", lambda ask: ask() is not None) == ""  # its connection is there
    # In a database, where each exception costs a new connection, at every other statement before, or after it was run.
    for after in (False, True) if store == "sqlite" else (None,):
        for at in range(1, 100):
            done = []
            by = by_statement(log_of(life.agent), at, at % 2 == 0 if after is None else after)
            assert life.interrupted(call, lambda work, by=by, done=done: done.append(by(work)) or done[0]) == "", at
            if done[0]:
                break
        assert 3 < at < 60
    assert life.agent.rebuild() < 1e-9
    life.close()


@pytest.mark.in_a_file
@pytest.mark.parametrize("call", ["ask_many", "compact", "estimate"])
def test_an_exception_at_any_step_leaves_memory_as_the_log_is(tmp_path, call):
    life = Interrupted(tmp_path / "a.db")
    steps = steps_of(life.calls()[call][0])
    for at in range(1, steps, max(1, steps // 50)):
        assert life.interrupted(call, by_step(at)) == "", at
    assert life.agent.rebuild() < 1e-9
    life.close()


def test_decisions_that_were_not_written_are_not_counted_later(tmp_path, monkeypatch):
    agent = Agent.create(tmp_path / "a.db", dim=4)
    for _ in range(3):
        agent.tell(agent.ask(GRID).id, 0.5)
    with monkeypatch.context() as patch:
        failing_writes(patch, LoggedDecision, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            agent.ask_many([None] * 4, GRID)
    for _ in range(6):  # the numbers that they had, and more
        agent.ask(GRID)
    with Agent.open(tmp_path / "a.db") as fresh:
        np.testing.assert_allclose(scores_of(agent, GRID), scores_of(fresh, GRID), rtol=1e-10)


def test_a_call_within_a_call_is_refused_and_the_first_goes_on(tmp_path):
    refusals = []

    def clock():
        if number is not None:  # `correct` asks for the time in its transaction
            assert_refuses(ValueError, "while a call of it in the same thread was not done", lambda: agent.arms)
            refusals.append(number)
        return 1000.0

    number = None
    agent = Agent.create(tmp_path / "a.db", dim=4, clock=clock)
    decision = agent.ask(GRID)
    agent.tell(decision.id, 0.5)
    number = decision.id
    assert agent.correct(number, 0.25)
    number = None
    assert refusals
    assert state_of(agent) | {"decisions": 1, "rewards": 1} == state_of(agent)
    assert agent.rebuild() < 1e-12


def test_an_agent_that_is_closed_within_a_call_writes_nothing_of_it(tmp_path):
    """As a handler of SIGTERM may do."""

    def clock():
        if number is not None:
            agent.close()
        return 1000.0

    number = None
    agent = Agent.create(tmp_path / "a.db", dim=4, clock=clock)
    decision = agent.ask(GRID)
    agent.tell(decision.id, 0.5)
    number = decision.id
    assert_refuses((ValueError, FileError), "agent is closed|connection is lost", agent.correct, number, 0.25)
    number = None
    with Agent.open(tmp_path / "a.db") as fresh:
        assert fresh.correct(decision.id, 0.25)  # it had the reward of before
        assert fresh.rebuild() < 1e-12
