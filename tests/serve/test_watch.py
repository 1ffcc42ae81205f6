"""What is read for the live page, held against sums over the exported log."""

import re
import sqlite3
import uuid
from contextlib import closing
from datetime import UTC, date, datetime

import numpy as np
import pytest

import adadim
from adadim.agent import Agent
from adadim.agent.log import Reward
from adadim.agent.stores import open_log
from adadim.dimension import Dimension
from adadim.errors import FileError
from refusals import assert_refuses

START = datetime(2026, 3, 1, 22, tzinfo=UTC).timestamp()


@pytest.fixture
def clock():
    return [START]


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    """Where an agent may be made."""
    if request.param == "sqlite":
        return tmp_path / "shop.db"
    return f"{request.getfixturevalue('database').url}#w{uuid.uuid4().hex}"


@pytest.fixture
def agent(address, clock):
    with Agent.create(address, dim=2, clock=lambda: clock[0]) as created:
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
    assert day == {"day": "2026-03-01", "last": decision.id, "rewards": 1, "mean": 0.25, "low": 0.25, "high": 0.25}


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


def test_three_days_are_drawn_as_days(agent, watch, clock):
    play(agent, clock, 60, np.random.default_rng(2))
    shown = watch.overview()
    assert shown["trend"]["by"] == "day"
    assert [point["long"] for point in shown["trend"]["points"]] == [day["day"] for day in shown["days"]]
    assert [point["short"] for point in shown["trend"]["points"]][:2] == ["Mar 1", "Mar 2"]
    assert np.diff([point["at"] for point in shown["trend"]["points"]]).tolist() == [1] * (len(shown["days"]) - 1)
    assert [point["mean"] for point in shown["trend"]["points"]] == [day["mean"] for day in shown["days"]]


def test_one_day_is_drawn_by_the_hour_of_the_decision(agent, watch, clock):
    rewards = {}
    for k in range(16):  # of two days, four in each hour
        decision = agent.ask({"a": [1.0, 0.0]})
        rewards.setdefault(f"{datetime.fromtimestamp(clock[0], UTC):%Y-%m-%d %H:00}", []).append(float(k % 5))
        agent.tell(decision.id, float(k % 5))
        clock[0] += 900
    trend = watch.overview()["trend"]
    assert trend["by"] == "hour"
    assert [point["long"] for point in trend["points"]] == list(rewards)
    assert [point["short"] for point in trend["points"]] == ["22:00", "23:00", "00:00", "01:00"]
    for point, told in zip(trend["points"], rewards.values(), strict=True):
        assert (point["rewards"], point["mean"]) == (4, np.mean(told))
        assert point["high"] - point["mean"] == pytest.approx(1.96 * np.std(told, ddof=1) / 2)


@pytest.mark.parametrize(("rounds", "sizes"), [(7, [1] * 7), (43, [6, 6, 6, 5, 5, 5, 5, 5]), (1200, [50] * 20)])
def test_an_hour_is_drawn_by_decisions(agent, watch, rounds, sizes):
    decisions = agent.ask_many([None] * rounds, {"a": [1.0, 0.0]})
    agent.tell_many({decision.id: float(decision.id) for decision in decisions})
    trend = watch.overview()["trend"]
    assert trend["by"] == "decision"
    assert [point["rewards"] for point in trend["points"]] == sizes
    ends = rounds - sum(sizes) + np.cumsum(sizes)  # the last thousand count
    assert [point["short"] for point in trend["points"]] == [str(end) for end in ends]
    means = [end - (size - 1) / 2 for end, size in zip(ends, sizes, strict=True)]
    assert [point["mean"] for point in trend["points"]] == pytest.approx(means)


def test_a_correction_changes_the_point_of_its_decision(agent, watch):
    first, second = (agent.ask({"a": [1.0, 0.0]}).id for _ in range(2))
    agent.tell_many({first: 1.0, second: 2.0})
    assert [point["mean"] for point in watch.overview()["trend"]["points"]] == [1.0, 2.0]
    agent.correct(first, 5.0)
    assert [point["mean"] for point in watch.overview()["trend"]["points"]] == [5.0, 2.0]


def test_waits_are_from_the_decision_to_its_first_reward(agent, watch, clock):
    assert watch.overview()["waits"] == {"rewards": 0, "median": None, "p90": None}
    made = {agent.ask({"a": [1.0, 0.0]}).id: clock[0] for _ in range(11)}
    agent.learn((np.ones((5, 2)), np.ones(5)))  # of another system: nobody waited for them
    waits = [60.0 * (k + 1) ** 2 for k in range(10)]
    for (number, asked), wait in zip(made.items(), waits, strict=False):
        clock[0] = asked + wait
        agent.tell(number, 1.0)
        watch.overview()
    clock[0] += 1e6
    agent.correct(1, 2.0)
    expected = {"rewards": 10, "median": np.median(waits), "p90": np.quantile(waits, 0.9)}
    assert watch.overview()["waits"] == pytest.approx(expected)


def test_a_reward_that_stands_for_one_that_never_came_is_no_wait(address, clock):
    pytest.importorskip("fastapi")
    from adadim.serve.page import Watch

    options = {"expire_after": 100.0, "expired_reward": 0.0, "clock": lambda: clock[0]}
    with Agent.create(address, dim=2, **options) as agent:
        answered, _ = agent.ask({"a": [1.0, 0.0]}).id, agent.ask({"a": [1.0, 0.0]})
        clock[0] += 7
        agent.tell(answered, 1.0)
        clock[0] += 1000
        agent.ask({"a": [1.0, 0.0]})  # the second has expired now
        watch = Watch(agent.path)
        shown = watch.overview()
        watch.close()
    assert shown["waits"] == {"rewards": 1, "median": 7.0, "p90": 7.0}
    assert [point["mean"] for point in shown["trend"]["points"]] == [1.0, 0.0]


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


def test_the_last_contexts(agent, watch, clock):
    assert watch.overview()["contexts"].size == 0
    contexts = np.random.default_rng(3).standard_normal((1005, 1))
    agent.ask_many(contexts[:5], {"a": [1.0], "b": [3.0]})
    assert watch.overview()["contexts"].tolist() == contexts[4::-1].tolist()
    agent.ask({"a": [1.0], "b": [3.0]}, context=[7.0], slots=2)
    agent.learn((np.ones((2, 2)), np.ones(2)))  # of another system
    assert watch.overview()["contexts"].tolist() == [[7.0], *contexts[4::-1].tolist()]  # a slate has one visitor
    agent.ask_many(contexts[5:], {"a": [1.0], "b": [3.0]})
    assert watch.overview()["contexts"].tolist() == contexts[:4:-1].tolist()  # of the last thousand
    agent.ask({"c": [1.0, 2.0]})
    assert watch.overview()["contexts"].size == 0  # nothing is known of the last visitor


@pytest.fixture
def shop(address, clock):
    with Agent.create(address, context=["hour"], arm=["price", "size"], clock=lambda: clock[0]) as created:
        created.set_arms({"a": [1.0, 0.2], "b": [-1.0, 0.5], "c": [0.4, -0.9]})
        yield created


def overview(agent, watch):
    from adadim.serve.page import model_overview

    shown = watch.overview()
    return model_overview(agent, shown["offer"], shown["contexts"])


def test_the_best_arms_are_those_on_average_over_visitors(shop, address):
    pytest.importorskip("fastapi")
    from adadim.serve.page import Watch

    rng, contexts = np.random.default_rng(4), []
    watch = Watch(shop.path)
    shop.ask(context=[0.5])
    assert (overview(shop, watch)["top"], overview(shop, watch)["top_text"]) == ([], "")  # no reward yet
    for _ in range(40):
        contexts.append(float(rng.uniform(0, 2)))
        decision = shop.ask(context=contexts[-1:])
        price = {"a": 1.0, "b": -1.0, "c": 0.4}[decision.arm]
        shop.tell(decision.id, price * contexts[-1] + 0.1 * rng.normal())
    shop.ask(["b", "c"], context=[-50.0])  # a strange visitor, who is offered two of the arms
    contexts = [0.5, *contexts, -50.0]
    shown = overview(shop, watch)
    means = {arm: np.mean([shop.estimate([arm], context=[c])[arm][0] for c in contexts]) for arm in "abc"}
    assert [one["arm"] for one in shown["top"]] == sorted(means, key=means.get, reverse=True)
    for one in shown["top"]:
        assert one["mean"] == pytest.approx(means[one["arm"]])
        deviation = shop.estimate([one["arm"]], context=[np.mean(contexts)])[one["arm"]][1]
        assert one["high"] - one["mean"] == pytest.approx(2 * deviation)
    assert shown["top_text"] == (
        "Estimated mean reward ± 2 standard deviations, on average over the last 42 visitors; 3 arms of the catalogue"
    )
    shop.mask_arm("a")
    shop.replace_features(context=["hour", "weekend"])
    shop.ask(context=[0.5, 1.0])
    assert {one["arm"] for one in overview(shop, watch)["top"]} == {"b", "c"}
    assert watch.overview()["contexts"].shape == (43, 2)
    watch.close()


def test_what_is_certain(tmp_path, monkeypatch):
    page = pytest.importorskip("adadim.serve.page")
    with adadim.Agent.create(tmp_path / "plain.db", dim=1) as agent:
        shown = page.model_overview(agent, None, np.zeros((0, 0)))["certificate_text"]
        assert shown.startswith("No bound on the regret: noise is None")
    with adadim.Agent.create(tmp_path / "noisy.db", dim=1, noise=0.1) as agent:
        agent.set_arms({"a": [1.0], "b": [-1.0]})
        decisions = agent.ask_many([None] * 80)
        agent.tell_many({one.id: 0.8 if one.arm == "a" else -0.8 for one in decisions})
        agent.ask()
        shown = page.model_overview(agent, None, np.zeros((0, 0)))["certificate_text"]
        assert shown == f"{agent.certificate()} {page.CERTIFICATE_ASSUMES}"
        assert "1 of 2 arms can still be best." in shown
        monkeypatch.setattr(page, "MAX_CERTIFIED_DECISIONS", 80)
        shown = page.model_overview(agent, None, np.zeros((0, 0)))["certificate_text"]
        assert shown == "The log has 81 decisions, which agent.certificate() replays; this page does not."


def test_arms_that_come_with_their_features_are_those_of_the_last_offer(agent, watch):
    for context in ([1.0], [3.0]):
        agent.tell(agent.ask({"a": [1.0], "b": [3.0]}, context=context).id, 1.0)
    shown = overview(agent, watch)
    assert shown["top_text"].endswith(", on average over the last 2 visitors; 2 arms offered last")
    expected = agent.estimate({"a": [1.0], "b": [3.0]}, context=[2.0])
    assert {one["arm"]: one["mean"] for one in shown["top"]} == pytest.approx({k: m for k, (m, _) in expected.items()})
    agent.tell(agent.ask({"c": [1.0, 0.0]}).id, 0.5)
    assert overview(agent, watch)["top_text"] == "Estimated mean reward ± 2 standard deviations; 1 arm offered last"


def test_the_mean_of_the_last_day_says_which_day():
    pytest.importorskip("fastapi")
    from adadim.serve.page import _mean_text

    today = date(2026, 3, 1)
    assert _mean_text([], today) == "mean reward"
    assert _mean_text([{"day": "2026-02-28"}, {"day": "2026-03-01"}], today) == "mean reward today (UTC)"
    assert _mean_text([{"day": "2026-02-08"}], today) == "mean reward on February 8 (UTC)"


@pytest.mark.parametrize(
    ("probabilities", "levels", "choices", "text"),
    [
        ([0.25] * 4, None, 0, "No reward yet: these are the prior probabilities"),
        ([0, 0, 0, 1.0], None, 9, "Most likely: all 4 features matter (100%)"),
        ([0, 1.0], {"arm": 3, "products": 4}, 9, "Most likely: all 4 features matter ('products', 100%)"),
        ([0.99, 0.01], {"arm": 3, "all": 4}, 9, "Most likely: the first 3 of 4 features matter ('arm', 99%)"),
        ([0, 0.6, 0.3, 0.1], None, 9, "Most likely: the first 2 of 4 features matter (60%); 90% interval 2 to 3"),
    ],
)
def test_how_many_features_matter_in_a_sentence(probabilities, levels, choices, text):
    pytest.importorskip("fastapi")
    from adadim.serve.page import _dimension_text

    support = np.array(list(levels.values()) if levels else range(1, 5))
    given = {"noise": 0.1, "choices": choices, "prior": np.full(len(support), 1 / len(support)), "levels": levels}
    posterior = Dimension(probabilities=np.array(probabilities), support=support, dim=4, **given)
    assert _dimension_text(posterior) == text


def test_what_reads_cannot_write(agent, address):
    log = open_log(address, write=False)
    with pytest.raises(FileError, match=r"readonly|in a read-only transaction"), log.transaction():
        log.append([Reward(agent.ask({"a": [1.0, 2.0]}).id, 1.0)], 1.0)
    log.close()


def changed(address, statement):
    """Change a row of an agent in its store."""
    if not isinstance(address, str):
        with closing(sqlite3.connect(address, isolation_level=None)) as connection:
            assert connection.execute(statement.format(table="", where="")).rowcount
        return
    import psycopg

    url, _, name = address.partition("#")
    with psycopg.connect(url, autocommit=True) as connection:
        (number,) = connection.execute("SELECT agent FROM adadim.agents WHERE name = %s", [name]).fetchone()
        assert connection.execute(statement.format(table="adadim.", where=f" AND agent = {number}")).rowcount


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        ("UPDATE {table}rewards SET reward = reward + 1 WHERE seq = 2{where}", "reward = reward - 1"),
        ("UPDATE {table}rewards SET time = time + 1 WHERE seq = 2{where}", "time = time - 1"),
        ("UPDATE {table}decisions SET time = time + 1 WHERE number = 2{where}", "time = time - 1"),
        ("UPDATE {table}decisions SET arm = 'x' || arm WHERE number = 2{where}", "arm = substr(arm, 2)"),
    ],
)
def test_what_fails_its_check_value_is_not_shown_and_nothing_is_counted_twice(
    agent, address, watch, clock, change, undo
):
    ids = [agent.ask({"a": [1.0, 0.5]}).id for _ in range(4)]
    agent.tell_many(dict.fromkeys(ids, 0.5))
    changed(address, change)
    for _ in range(2):
        assert_refuses(FileError, "damaged .*is not what was written: 2", watch.overview)
    changed(address, re.sub("SET .* WHERE", f"SET {undo} WHERE", change))
    (day,) = watch.overview()["days"]
    assert (day["rewards"], day["mean"]) == (4, 0.5)
    agent.tell(agent.ask({"a": [1.0, 0.5]}).id, 1.0)
    (day,) = watch.overview()["days"]
    assert (day["rewards"], day["mean"]) == (5, pytest.approx(0.6))
