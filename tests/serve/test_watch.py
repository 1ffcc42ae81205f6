"""What is read for the live page, held against sums over the exported log."""

import sqlite3
from datetime import UTC, datetime

import numpy as np
import pytest

from adadim.agent import Agent
from adadim.agent.watch import Watch

START = datetime(2026, 3, 1, 22, tzinfo=UTC).timestamp()


@pytest.fixture
def clock():
    return [START]


@pytest.fixture
def agent(tmp_path, clock):
    with Agent.create(tmp_path / "shop.db", dim=2, clock=lambda: clock[0]) as created:
        yield created


@pytest.fixture
def watch(agent):
    opened = Watch(agent.path)
    yield opened
    opened.close()


def play(agent, clock, rounds, rng):
    """Decisions an hour apart, most of them with a reward: {id: [day, reward]}."""
    days, arms = {}, {f"arm {i}": x for i, x in enumerate(rng.standard_normal((3, 2)))}
    for _ in range(rounds):
        clock[0] += 3600
        days[agent.ask(arms).id] = datetime.fromtimestamp(clock[0], UTC).strftime("%Y-%m-%d")
    told = {i: [day, float(rng.standard_normal())] for i, day in days.items() if rng.random() < 0.8}
    agent.tell_many({i: reward for i, (_, reward) in told.items()})
    return told


def test_days_as_rewards_come_in_and_are_corrected(agent, watch, clock):
    rng, known = np.random.default_rng(0), {}
    for _ in range(3):
        told = play(agent, clock, 30, rng)
        corrected = list(told)[3]
        agent.correct(corrected, 9.0)
        watch.days()
        agent.correct(corrected, -2.0)
        told[corrected][1] = -2.0
        agent.learn((rng.standard_normal((5, 2)), np.full(5, 100.0)))  # of another system: not this agent's rewards
        known |= told
        days = watch.days()
        assert [day.day for day in days] == sorted({day for day, _ in known.values()})
        for day in days:
            rewards = np.array([reward for when, reward in known.values() if when == day.day])
            half = 1.96 * np.std(rewards, ddof=1) / np.sqrt(len(rewards)) if len(rewards) > 1 else 0.0
            assert day.rewards == len(rewards)
            assert day.mean == pytest.approx(rewards.mean())
            assert day.high - day.mean == pytest.approx(half)
            assert day.mean - day.low == pytest.approx(half)
    assert watch.days(2) == watch.days()[-2:]


def test_a_late_reward_counts_for_the_day_of_its_decision(agent, watch, clock):
    decision = agent.ask({"a": [1.0, 0.0]})
    clock[0] += 10 * 86400
    agent.tell(decision.id, 0.25)
    (day,) = watch.days()
    assert (day.day, day.rewards, day.mean, day.low, day.high) == ("2026-03-01", 1, 0.25, 0.25, 0.25)


def test_what_was_seen_stays_after_compaction(agent, watch, clock):
    play(agent, clock, 30, np.random.default_rng(1))
    before = watch.days()
    agent.compact(before=clock[0] + 1)
    assert watch.days() == before


def test_choices_of_the_last_decisions(agent, watch):
    for name, count in (("a", 5), ("b", 2), ("c", 3)):
        for _ in range(count):
            agent.ask({name: [1.0, 0.0]})
    assert watch.choices() == {"a": 5, "c": 3, "b": 2}
    assert list(watch.choices()) == ["a", "c", "b"]
    assert watch.choices(4) == {"c": 3, "b": 1}


def test_the_last_offer(agent, watch):
    assert watch.last_offer() is None
    assert (watch.days(), watch.choices()) == ([], {})
    agent.ask({"a": [1.0], "b": [3.0]}, context=[0.5])
    offer = watch.last_offer()
    assert {name: x.tolist() for name, x in offer.arms.items()} == {"a": [1.0], "b": [3.0]}
    assert offer.context.tolist() == [0.5]
    assert set(agent.estimate(offer.arms, offer.context)) == {"a", "b"}
    agent.ask({"c": [1.0, 2.0]})
    assert watch.last_offer().context is None


def test_it_cannot_write(agent, watch):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        watch._log._connection.execute("DELETE FROM decisions")
