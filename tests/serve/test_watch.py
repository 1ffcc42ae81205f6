"""What is read for the live page, held against sums over the exported log."""

import sqlite3
from datetime import UTC, datetime

import numpy as np
import pytest

from adadim.agent import Agent

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
    pytest.importorskip("fastapi")
    from adadim.serve.page import Watch

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
        watch.overview()
        agent.correct(corrected, -2.0)
        told[corrected][1] = -2.0
        agent.learn((rng.standard_normal((5, 2)), np.full(5, 100.0)))  # of another system: not this agent's rewards
        known |= told
        days = watch.overview()["days"]
        assert [day["day"] for day in days] == sorted({day for day, _ in known.values()})
        for day in days:
            rewards = np.array([reward for when, reward in known.values() if when == day["day"]])
            half = 1.96 * np.std(rewards, ddof=1) / np.sqrt(len(rewards)) if len(rewards) > 1 else 0.0
            assert day["rewards"] == len(rewards)
            assert day["mean"] == pytest.approx(rewards.mean())
            assert day["high"] - day["mean"] == pytest.approx(half)
            assert day["mean"] - day["low"] == pytest.approx(half)


def test_a_late_reward_counts_for_the_day_of_its_decision(agent, watch, clock):
    decision = agent.ask({"a": [1.0, 0.0]})
    clock[0] += 10 * 86400
    agent.tell(decision.id, 0.25)
    (day,) = watch.overview()["days"]
    assert day == {"day": "2026-03-01", "rewards": 1, "mean": 0.25, "low": 0.25, "high": 0.25}


def test_the_last_sixty_days_are_shown(agent, watch, clock):
    for reward in range(62):
        clock[0] += 86400
        agent.tell(agent.ask({"a": [1.0, 0.0]}).id, float(reward))
    assert [day["mean"] for day in watch.overview()["days"]] == list(range(2, 62))


def test_what_was_seen_stays_after_compaction(agent, watch, clock):
    play(agent, clock, 30, np.random.default_rng(1))
    before = watch.overview()["days"]
    agent.compact(before=clock[0] + 1)
    assert watch.overview()["days"] == before
    assert before


def test_choices_of_the_last_decisions(agent, watch):
    for name, count in (("a", 5), ("b", 2), ("c", 3)):
        for _ in range(count):
            agent.ask({name: [1.0, 0.0]})
    shares = watch.overview()["shares"]
    assert [(one["arm"], one["decisions"], one["share"]) for one in shares] == [
        ("a", 5, 0.5),
        ("c", 3, 0.3),
        ("b", 2, 0.2),
    ]
    agent.ask_many([None] * 997, {"d": [1.0, 0.0]})
    assert [(one["arm"], one["decisions"]) for one in watch.overview()["shares"]] == [("d", 997), ("c", 3)]


def test_the_last_offer(agent, watch):
    empty = watch.overview()
    assert (empty["offer"], empty["days"], empty["shares"]) == (None, [], [])
    agent.ask({"a": [1.0], "b": [3.0]}, context=[0.5])
    offer = watch.overview()["offer"]
    assert {name: x.tolist() for name, x in offer.arms.items()} == {"a": [1.0], "b": [3.0]}
    assert offer.context.tolist() == [0.5]
    assert set(agent.estimate(offer.arms, offer.context)) == {"a", "b"}
    agent.ask({"c": [1.0, 2.0]})
    assert watch.overview()["offer"].context is None


def test_it_cannot_write(agent, watch):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        watch._log._connection.execute("DELETE FROM decisions")
