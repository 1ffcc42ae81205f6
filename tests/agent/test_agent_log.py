"""What a store promises (`Log`), tried on both."""

import inspect

import numpy as np
import pytest

from adadim import Agent
from adadim.agent.log import Arm, Decision, Expiry, Log, Place, PolicyRow, Reward, Round, Snapshot
from adadim.agent.statements import (
    ALL,
    ARM_CHANGES,
    COLUMNS,
    DECIDED,
    REWARDS,
    REWARDS_BY_DECISION,
    ROW_TYPES,
    LearnedRow,
)
from adadim.agent.stores import open_log

OFFERED = Round(["a", "b"], np.array([[1.0, 2.0], [0.5, -1.0]]))


@pytest.fixture
def log(address_of, tmp_path):
    Agent.create(tmp_path / "a.db", dim=2).close()
    opened = open_log(address_of(tmp_path / "a.db"))
    yield opened
    opened.close()


def decisions(first, count):
    return [Decision(first + i, 10.0 + i, "b", OFFERED.arm_features[1], 0.5, 1, OFFERED) for i in range(count)]


def test_the_contract_is_small_and_stores_add_nothing_to_it():
    public = {name for name, _ in inspect.getmembers(Log, inspect.isfunction) if not name.startswith("_")}
    assert public == set(Log.__abstractmethods__)
    assert len(public) <= 12


def test_events_are_numbered_rows_by_name(log):
    with log.transaction():
        log.append(decisions(1, 3), 10.0)
        log.append([Reward(1, 0.5), Reward(2, 1.0), Expiry(3)], 20.0)
        log.append([Reward(1, 0.25, 0.5), LearnedRow(b"digest", 21.0, 3)], 21.0)
        log.append([Arm("a", np.array([1.0, 2.0]), 0.5, "masked")], 22.0)
        log.append([PolicyRow("{}", None, None, 0.5)], 23.0)
    with log.transaction(write=False):
        assert log.place() == Place(0, number=3, reward=3, expired=1, arm=1, policy=2)
        assert [(row.number, row.time, row.arm, row.offer) for row in log.select(DECIDED, 1, 3, 10)] == [
            (2, 11.0, "b", 1),
            (3, 12.0, "b", 1),
        ]
        assert log.select(ALL["rewards"], 0, 9, 9) == [
            (1, 1, 20.0, 0.5, None),
            (2, 2, 20.0, 1.0, None),
            (3, 1, 21.0, 0.25, 0.5),
        ]
        assert [(row.seq, row.name, row.cost, row.state) for row in log.select(ARM_CHANGES, 0)] == [
            (1, "a", 0.5, "masked")
        ]
        assert log.select(ALL["expired"], 0, 9, 9) == [(1, 3, 20.0)]
        assert log.select(ALL["outstanding"], 0, 9, 9) == []
        assert log.select(ALL["learned"]) == [(b"digest", 21.0, 3)]
        assert [row.explore for row in log.select(ALL["policies"], 1, 9, 9)] == [0.5]
        # A joined row has its parts by name, and what is not a row as it is.
        rewards = log.select(REWARDS, 0, 9, 9)
        assert [(row.decision, decision.number, bool(expired)) for row, decision, expired in rewards] == [
            (1, 1, False),
            (2, 2, False),
            (1, 1, False),
        ]


def test_every_table_gives_its_rows(log):
    with log.transaction():
        log.append([*decisions(1, 2), Reward(1, 0.5), Expiry(2), Arm("a", np.ones(2), 0.0, "active")], 20.0)
        log.append(decisions(3, 1), 21.0)
        log.append([LearnedRow(b"digest", 21.0, 3)], 21.0)
        log.write_snapshot(Snapshot(Place(0, 2, 1, 1), b"sums", b"", b""))
    with log.transaction(write=False):
        for table, query in ALL.items():
            rows = log.select(query, *((0, 99, 99) if "LIMIT" in log._statement(query) else ()))
            assert rows, table
            assert all(type(row) is ROW_TYPES[table] and len(row) == len(COLUMNS[table]) for row in rows)
        assert log.snapshot() == Snapshot(Place(0, 2, 1, 1), b"sums", b"", b"")
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


def test_what_is_taken_back_was_never_there(log):
    with log.transaction():
        log.append(decisions(1, 2), 10.0)
        before = log.place()

    def fail():
        with log.transaction():
            log.append([*decisions(3, 2), Reward(1, 0.5)], 11.0)
            assert log.place() == before._replace(number=4, reward=1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with log.transaction(write=False):
        assert log.place() == before
        assert [row.number for row in log.select(DECIDED, 0, 9, 9)] == [1, 2]
        assert [row.number for row in log.select(ALL["outstanding"], 0, 9, 9)] == [1, 2]


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
        assert log.place() == Place(0, number=2 * len(calls), arm=len(calls), policy=1)


def test_a_decision_that_fails_writes_nothing(log):
    def fail():
        raise KeyError

    with pytest.raises(KeyError):
        log.commit(2, lambda draws: decisions(1, 2), fail)
    with log.transaction(write=False):
        assert log.place() == Place(0, policy=1)
    assert [one.number for one in log.commit(2, lambda draws: decisions(1, 2), lambda: None)] == [1, 2]


def test_a_fold_drops_what_does_not_wait_and_begins_a_generation(log):
    with log.transaction():
        log.append([*decisions(1, 4), Reward(1, 0.5), Reward(3, 0.5)], 20.0)
    with log.transaction():
        assert log.fold(b"sums", upto=3) == 2
    log.shrink()
    with log.transaction(write=False):
        assert log.place() == Place(1, number=4, reward=2, policy=1)
        assert [row.number for row in log.select(DECIDED, 0, 9, 9)] == [2, 4]
        assert log.select(ALL["folded"]) == [(1, 3, b"sums")]
        settings = log.settings
    with log.transaction():
        log.fold(b"other", settings=changed_settings(settings, arms=7))
        assert log.settings is settings  # until `place` is asked
        assert log.place().generation == 2
        assert log.settings.arms == 7
        assert log.select(ALL["folded"]) == [(2, 3, b"other")]


def changed_settings(settings, **changes):
    return type(settings).from_table(settings.to_table() | changes)
