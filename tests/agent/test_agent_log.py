"""What a store promises (`Log`), tried on both."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from adadim import Agent
from adadim.agent.log import Arm, Expiry, Log, LoggedDecision, LogPosition, Reward, Round, Snapshot
from adadim.agent.statements import (
    ALL,
    COLUMNS,
    DECIDED,
    REWARDS_BY_DECISION,
    ROW_TYPES,
    LearnedRow,
)
from adadim.agent.stores import open_log
from adadim.testing import check_log

OFFERED = Round(["a", "b"], np.array([[1.0, 2.0], [0.5, -1.0]]))


@pytest.fixture
def log(address_of, tmp_path):
    Agent.create(tmp_path / "a.db", dim=2).close()
    opened = open_log(address_of(tmp_path / "a.db"))
    yield opened
    opened.close()


def decisions(first, count):
    return [LoggedDecision(first + i, 10.0 + i, "b", OFFERED.arm_features[1], 0.5, 1, OFFERED) for i in range(count)]


def test_the_contract_is_small_and_stores_add_nothing_to_it():
    public = {name for name, _ in inspect.getmembers(Log, inspect.isfunction) if not name.startswith("_")}
    assert public == set(Log.__abstractmethods__)
    assert len(public) <= 12


def test_a_store_keeps_its_promises(store, tmp_path, request):
    """`check_log` tries them; tests/testing has stores that break each."""
    report = check_log(tmp_path if store == "sqlite" else request.getfixturevalue("database").url)
    assert len(report.passed) == len(report.checks)


def test_every_table_gives_its_rows(log):
    with log.transaction():
        log.append([*decisions(1, 2), Reward(1, 0.5), Expiry(2), Arm("a", np.ones(2), 0.0, "active")], 20.0)
        log.append(decisions(3, 1), 21.0)
        log.append([LearnedRow(b"digest", 21.0, 3)], 21.0)
        log.write_snapshot(Snapshot(LogPosition(0, 2, 1, 1), b"sums", b"", b""))
    with log.transaction(write=False):
        for table, query in ALL.items():
            rows = log.select(query, *((0, 99, 99) if "LIMIT" in log._statement(query) else ()))
            assert rows, table
            assert all(type(row) is ROW_TYPES[table] and len(row) == len(COLUMNS[table]) for row in rows)
        assert log.snapshot() == Snapshot(LogPosition(0, 2, 1, 1), b"sums", b"", b"")
        log.check(whole=False)


def test_rows_come_in_batches_and_in_order(log, monkeypatch):
    monkeypatch.setattr("adadim.agent.tables.BATCH_ROWS", 4)
    with log.transaction():
        log.append(decisions(1, 9), 10.0)
        log.append([Reward(number, float(number)) for number in (9, 3, 5, 1, 2, 7)], 20.0)
    with log.transaction(write=False):
        assert [[row.number for row in batch] for batch in log.read(DECIDED, 1, 8)] == [[2, 3, 4, 5], [6, 7, 8]]
        ordered = [row.decision for batch in log.read(REWARDS_BY_DECISION) for row in batch]
        assert ordered == [1, 2, 3, 5, 7, 9]


def test_decisions_are_made_once_and_written_with_what_follows(log, store):
    calls = []

    def decide(draws):
        calls.append(draws)
        return [one._replace(draw=None if draws is None else draws[at]) for at, one in enumerate(decisions(1, 2))]

    # A store that does not lock before gives later numbers where others have decided meanwhile.
    for first in (1,) if store == "sqlite" else (1, 3):
        made = log.commit(2, decide, lambda: log.append([Arm("a", np.ones(2), 0.0, "active")], 20.0))
        assert [one.number for one in made] == [first, first + 1]
    assert calls == ([None] if store == "sqlite" else [[1, 2], [3, 4]])
    with log.transaction(write=False):
        assert log.place() == LogPosition(0, number=2 * len(calls), arm=len(calls), policy=1)


def test_settings_are_read_again_where_the_place_is_asked(log):
    with log.transaction(write=False):
        settings = log.settings
    with log.transaction():
        log.fold(b"other", settings=replace(settings, arms=7))
        assert log.settings is settings  # until `place` is asked
        assert log.place().generation == 1
        assert log.settings.arms == 7
