"""Slates: several arms for one question, each a decision of its own."""

import multiprocessing
import os
import signal
import sqlite3

import numpy as np
import polars as pl
import pytest

import adadim
from adadim.agent import Agent, AgentDecision, AskCall, Slate, TellCall, copy_agent, sqlite
from adadim.agent import agent as module
from adadim.agent.log import LoggedDecision
from adadim.errors import DecisionError, FileError, InvalidTypeError, InvalidValueError, UnknownDecisionError
from agent_runs import Hands, failing_writes, log_of, numbers, offers, played, ridge, scores_of, state_of
from refusals import assert_refuses

ARMS = {f"sku-{k}": row for k, row in enumerate(np.random.default_rng(7).normal(size=(9, 4)))}
POLICIES = {
    "recommended": None,
    "one exponent": adadim.EvidenceLinUCB(),
    "LinUCB": adadim.LinUCB(),
    "lowest": adadim.TaperedLinUCB(ties="lowest"),
    "Greedy": adadim.Greedy(dim=3),
    "LinTS": adadim.LinTS(),
    "Random": adadim.Random(),
}
FIXED = {name: policy for name, policy in POLICIES.items() if name not in ("LinTS", "Random")}


def best(scores, arms, slots):
    """The arms of the largest scores."""
    return tuple(list(arms)[at] for at in np.argsort(-np.asarray(scores), kind="stable")[:slots])


def earned(arm):
    return float(ARMS[arm] @ [1.0, -0.5, 0.2, 0.0])


def twins(folder, **options):
    """Two agents that have learned the same."""
    return [played(folder / name, count=9, noise=0.5, clock=Hands(), **options)[0] for name in ("one.db", "other.db")]


@pytest.fixture
def agent(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=adadim.LinUCB(), noise=0.5)
    agent.set_arms(ARMS)
    yield agent
    agent.close()


# What is chosen


def test_a_slate_of_linucb_has_the_largest_upper_bounds_of_a_ridge_regression(tmp_path):
    agent, features, rewards = played(tmp_path / "a.db", policy=adadim.LinUCB(ridge=2.0, radius=0.7), noise=0.5)
    v, theta = ridge(features, rewards, 2.0)
    x = np.array(list(ARMS.values()))
    bounds = x @ theta + 0.7 * np.sqrt(np.vecdot(x @ np.linalg.inv(v), x))
    slate = agent.ask(ARMS, slots=4)
    assert isinstance(slate, Slate)
    assert (slate.id, slate.arms) == (41, best(bounds, ARMS, 4))
    assert [one.id for one in slate.decisions] == [41, 42, 43, 44]
    assert tuple(one.arm for one in slate.decisions) == slate.arms
    assert {one.probability for one in slate.decisions} == {1.0}
    # The widths count all four: the next slate goes by the bounds of a regression that has them.
    chosen = np.array([ARMS[arm] for arm in slate.arms])
    bounds = x @ theta + 0.7 * np.sqrt(np.vecdot(x @ np.linalg.inv(v + chosen.T @ chosen), x))
    assert agent.ask(ARMS, slots=9).arms == best(bounds, ARMS, 9)


@pytest.mark.parametrize("options", [{}, {"memory": 20.0}], ids=str)
@pytest.mark.parametrize("policy", FIXED.values(), ids=FIXED)
def test_a_slate_has_the_best_arms_by_the_scores_of_one_moment(tmp_path, policy, options):
    agent = played(tmp_path / "a.db", count=12, policy=policy, noise=0.5, **options)[0]
    for slots in (1, 3, 9):  # the second and third with open decisions
        expected = best(scores_of(agent, ARMS), ARMS, slots)
        assert agent.ask(ARMS, slots=slots).arms == expected
    prices = np.linspace(0.5, -0.5, 9)
    expected = best(scores_of(agent, ARMS) - prices, ARMS, 3)
    assert agent.ask(ARMS, slots=3, costs=dict(zip(ARMS, prices.tolist(), strict=True))).arms == expected


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_before_any_reward_a_slate_has_no_arm_twice(tmp_path, policy):
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=policy, noise=0.5)
    for slots in (2, 9):
        assert len(set(agent.ask(ARMS, slots=slots).arms)) == slots


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_first_slot_is_what_one_question_would_get(tmp_path, policy):
    one, other = twins(tmp_path, policy=policy)
    slate = other.ask(ARMS, slots=3)
    assert one.ask(ARMS) == slate.decisions[0]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_many_slates_are_those_that_would_come_one_after_the_other(tmp_path, policy, monkeypatch):
    one, many = twins(tmp_path, policy=policy)
    for slots, count in ((3, 1), (4, 12), (1, 3)):
        singly = [one.ask(ARMS, slots=slots) for _ in range(count)]
        together = many.ask_many([None] * count, ARMS, slots=slots)
        assert [(s.id, s.arms) for s in together] == [(s.id, s.arms) for s in singly]
        one.tell(singly[0].id, {arm: earned(arm) for arm in singly[0].arms})
        many.tell(together[0].id, {arm: earned(arm) for arm in together[0].arms})
        monkeypatch.setattr("adadim.agent.policy.PORTION_BYTES", 8 * 4 * 9 * 4 * 5)  # the next in portions of five
    assert one.rebuild() < 1e-9
    assert many.rebuild() < 1e-9


def test_features_far_larger_than_before_do_not_change_the_scores_of_a_slate(tmp_path):
    one, many = twins(tmp_path)
    far = {**ARMS, "far": np.array([500.0, 0.0, 0.0, 0.0]), "farther": np.array([9000.0, 1.0, 0.0, 0.0])}
    expected = best(scores_of(one, far), far, 3)
    slates = [one.ask(far, slots=3), one.ask(far, slots=3)]
    assert slates[0].arms == expected
    assert [s.arms for s in many.ask_many([None] * 2, far, slots=3)] == [s.arms for s in slates]
    assert one.rebuild() < 1e-9


def test_ties_are_broken_at_random_in_each_slot(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=2, policy=adadim.LinUCB(), noise=0.5, seed=2)
    agent.tell_many({agent.ask({"good": [1.0, 0.0]}).id: 1.0 for _ in range(30)})
    arms = {"left": [1.0, 0.0], "middle": [1.0, 0.0], "right": [1.0, 0.0], "worse": [-1.0, 0.0]}
    slates = agent.ask_many([None] * 60, arms, slots=4)
    assert {slate.arms[3] for slate in slates} == {"worse"}
    assert {slate.arms[:3] for slate in slates} == {
        (a, b, c) for a in arms for b in arms for c in arms if len({a, b, c, "worse"}) == 4
    }
    for slate in slates:
        assert [one.probability for one in slate.decisions] == [1 / 3, 1 / 2, 1.0, 1.0]


@pytest.mark.any_store
def test_the_probability_of_a_slot_is_given_the_slots_before(tmp_path):
    random = Agent.create(tmp_path / "r.db", dim=4, policy=adadim.Random())
    assert [d.probability for d in random.ask(ARMS, slots=9).decisions] == [1 / k for k in range(9, 0, -1)]
    # Thompson sampling draws for each slot: how often an arm follows another is what the decisions said.
    agent = played(tmp_path / "t.db", count=8, policy=adadim.LinTS(), noise=3.0, keep="chosen")[0]
    arms = dict(list(ARMS.items())[:4])
    said, seen = {}, {}
    for slate in agent.ask_many([None] * 1500, arms, slots=2):
        first, second = slate.arms
        said.setdefault((first, second), []).append(slate.decisions[1].probability)
        seen.setdefault(first, []).append(second)
    counted = [(pair, len(said[pair]), len(seen[pair[0]])) for pair in said if len(seen[pair[0]]) > 300]
    assert len(counted) >= 2
    for pair, count, all_of_them in counted:
        assert count / all_of_them == pytest.approx(np.mean(said[pair]), abs=0.12)


# What is learned


@pytest.mark.parametrize("options", [{}, {"memory": 15.0}, {"expire_after": 50.0}], ids=str)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_model_is_that_of_one_decision_after_the_other(tmp_path, policy, options):
    slates, singly = twins(tmp_path, policy=policy, **options)
    for step in range(4):
        slate = slates.ask(ARMS, slots=3)
        ids = [singly.ask({arm: ARMS[arm]}).id for arm in slate.arms]
        assert ids == [one.id for one in slate.decisions]
        # The last one stays open, and the others come late and in another order.
        rewards = {arm: earned(arm) for arm in slate.arms[1 - step % 2 :: -1]}
        assert slates.tell(slate.id, rewards)
        for arm, reward in rewards.items():
            assert singly.tell(ids[slate.arms.index(arm)], reward)
    assert state_of(slates) == state_of(singly)
    assert np.abs(numbers(slates.estimate(ARMS)) - numbers(singly.estimate(ARMS))).max() < 1e-9
    if policy not in (POLICIES["LinTS"], POLICIES["Random"]):
        assert np.abs(scores_of(slates, ARMS) - scores_of(singly, ARMS)).max() < 1e-9
    assert slates.rebuild() < 1e-9


def test_rewards_come_for_some_arms_and_later_for_the_rest(agent):
    agent.ask()
    slate = agent.ask(slots=3)
    first, second, third = slate.arms
    assert agent.tell(slate.id, {second: 0.5})
    assert agent.status()["outstanding"] == 3
    assert not agent.tell(slate.id, {second: 0.5})
    assert not agent.tell(slate.id, {})
    assert agent.tell(slate.id, {first: 0.1, second: 0.5})  # one of them is new
    assert agent.tell(slate.decisions[2].id, 0.9)  # a slot by itself
    assert not agent.tell(slate.id, {third: 0.9})
    assert agent.tell_many([(1, 0.3), (slate.id, {first: 0.1, third: 0.9})]) == 1
    assert state_of(agent) | {"rewards": 4, "outstanding": 0} == state_of(agent)
    assert_refuses(
        DecisionError, r"decision 2 has the reward 0.1 already, got 0.2; correct\(2", agent.tell, 2, {first: 0.2}
    )
    assert agent.correct(slate.decisions[0].id, 0.2)
    assert not agent.tell(slate.id, {first: 0.2})
    assert agent.rebuild() < 1e-12


def test_what_ask_gave_may_stand_for_its_id(agent):
    decision, slate = agent.ask(), agent.ask(slots=2)
    first, second = slate.arms
    assert agent.tell(decision, 0.3)
    assert not agent.tell(decision.id, 0.3)
    assert agent.tell(slate, {first: 0.1})
    assert agent.tell_many([(slate, {first: 0.1, second: 0.2}), (decision, 0.3)]) == 1
    assert agent.correct(slate.decisions[1], 0.4)
    assert agent.status()["outstanding"] == 0
    refusal = r"the rewards of a slate are a dict by arm, got 0\.5 for slate 2"
    assert_refuses(InvalidTypeError, refusal, agent.tell, slate, 0.5)
    other = adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=9, noise=0.1)).ask()
    assert_refuses(InvalidValueError, "id must be that of a decision", agent.tell, other, 0.5)


def test_all_or_none_of_a_slate_is_told(agent):
    slate, other = agent.ask(slots=3), agent.ask(slots=2)
    agent.tell(slate.id, {slate.arms[1]: 0.5})
    for rewards in ({slate.arms[0]: 1.0, slate.arms[1]: 0.6}, {slate.arms[0]: 1.0, "sku-none": 0.5}):
        with pytest.raises(DecisionError):
            agent.tell(slate.id, rewards)
        with pytest.raises(DecisionError):
            agent.tell_many([(other.id, {other.arms[0]: 1.0}), (slate.id, rewards)])
    results = agent.ask_and_tell(
        [
            TellCall([(slate.id, {"sku-none": 1.0}), (other.id, 0.0)]),
            TellCall([(other.id, {other.arms[1]: 1.0})]),
            AskCall([None, None], slots=2),
            AskCall([None], slots=99),
            TellCall([(other.id, {other.arms[1]: 1.0})]),
        ]
    )
    assert [type(result) for result in results] == [UnknownDecisionError, int, list, InvalidValueError, int]
    assert (results[1], results[4], [s.id for s in results[2]]) == (1, 0, [6, 8])
    assert state_of(agent) | {"decisions": 9, "rewards": 2, "outstanding": 7} == state_of(agent)


def test_what_is_wrong_is_named_before_anything_is_written(agent):
    alone, slate = agent.ask(), agent.ask(["sku-1", "sku-2", "sku-3"], slots=2)
    before = state_of(agent)
    for slots in (0, -1, 10, 2.0, True, "3", [3], np.nan):
        refused = (InvalidValueError, rf"slots must be an integer in 1\.\.9 .*, got {'' if slots == [3] else slots!r}")
        if isinstance(slots, list | str):
            refused = (InvalidValueError, r"slots must be an integer in 1\.\.9")
        assert_refuses(*refused, agent.ask, slots=slots)
        assert_refuses(*refused, agent.ask_many, [None], slots=slots)
    assert_refuses(InvalidValueError, r"slots must be an integer in 1\.\.2", agent.ask, ["sku-1", "sku-2"], slots=3)
    refusals = {
        (slate.id, "sku-9"): "arm 'sku-9' is not in slate 2; did you mean",
        (slate.id, "other"): f"arm 'other' is not in slate 2; choose from {', '.join(slate.arms)}",
        (alone.id, alone.arm): r"there is no slate 1: .*tell\(1, reward=0.5\)",
        (slate.decisions[1].id, slate.arms[1]): "there is no slate 3: rewards by arm are for the id of what ask",
        (77, "sku-1"): "there is no decision 77; the last one is 3",
    }
    for (number, arm), words in refusals.items():
        assert_refuses(UnknownDecisionError, words, agent.tell, number, {arm: 1.0})
    for reward in (np.nan, "1", None, "true", 1e31, {"a": 1.0}):
        name = f"reward of {slate.arms[0]!r} in slate 2 must be"
        assert_refuses(InvalidValueError, name, agent.tell, slate.id, {slate.arms[0]: reward})
    assert_refuses(InvalidValueError, "the name of an arm must be a text", agent.tell, slate.id, {3: 1.0})
    assert_refuses(InvalidValueError, "id must be that of a decision", agent.tell, "2", {"sku-1": 1.0})
    assert_refuses(InvalidTypeError, "tell_many takes", agent.tell_many, 3)
    assert_refuses(InvalidValueError, "reward must be a finite number", agent.correct, slate.id, {slate.arms[0]: 1.0})
    assert state_of(agent) == before


# The log


def test_a_slate_stands_in_the_log_as_decisions_among_what_was_left(tmp_path):
    agent = Agent.create(tmp_path / "a.db", context=2, arm=2, policy=adadim.Random(), seed=4)
    arms = {name: row[:2] for name, row in ARMS.items()}
    agent.set_arms(arms)
    slates = [agent.ask(context=[0.1, 0.2], slots=9), agent.ask(arms, context=[0.1, 0.2], slots=2)]
    alone = agent.ask(["sku-1", "sku-4"], context=[0.3, 0.4])
    slates += agent.ask_many([[0.3, 0.4], [0.5, 0.6]], ["sku-1", "sku-4"], slots=2)
    agent.tell_many([(slate.id, {arm: earned(arm) for arm in slate.arms}) for slate in slates])
    log = pl.read_parquet(agent.export(tmp_path / "log.parquet"))
    assert log["slate"].to_list() == [1] * 9 + [10] * 2 + [None] + [13] * 2 + [15] * 2
    assert log["arm"].to_list()[11] == alone.arm
    for slate in slates:
        offered = list(arms) if slate.id < 12 else ["sku-1", "sku-4"]
        for row, one in zip(log.filter(pl.col("slate") == slate.id).to_dicts(), slate.decisions, strict=True):
            assert (row["decision"], row["arm"], row["probability"]) == (one.id, one.arm, one.probability)
            assert row["reward"] == earned(one.arm)
            assert row["offered"] == offered
            assert row["probability"] == 1 / len(offered)
            assert np.array_equal(row["offered_features"], np.concatenate([arms[name] for name in offered]))
            offered = [name for name in offered if name != one.arm]
    other = Agent.create(tmp_path / "other.db", dim=agent.dim)
    assert other.learn(tmp_path / "log.parquet") == 15


@pytest.mark.parametrize("policy", [adadim.Random(), adadim.LinTS(scale=2.0)], ids=["Random", "LinTS"])
def test_a_log_of_slates_is_evaluated_slot_by_slot(tmp_path, policy):
    agent = played(tmp_path / "a.db", count=10, policy=policy, noise=2.0)[0]
    arms = dict(list(ARMS.items())[:5])
    slates = agent.ask_many([None] * 350, arms, slots=3)
    agent.tell_many([(slate.id, {arm: earned(arm) for arm in slate.arms}) for slate in slates])
    log = pl.read_parquet(agent.export(tmp_path / "log.parquet")).filter(pl.col("slate").is_not_null())
    offered = log["offered"].to_list()
    assert [len(names) for names in offered] == [5, 4, 3] * 350
    # The rule that takes the best of what is left in each row, whose reward is known.
    rule = np.array([int(np.argmax([earned(name) for name in names])) for names in offered])
    truth = np.mean([max(map(earned, names)) for names in offered])
    found = adadim.evaluate(rule, log)
    assert found.rows == 1050
    assert abs(found.mean_weight - 1) < 0.15
    assert abs(found.ips.value - truth) < 4 * found.ips.error
    assert abs(found.snips.value - truth) < 1e-9 + 4 * found.snips.error
    assert abs(found.logged.value - truth) > 10 * found.logged.error


def test_an_offer_is_stored_once_for_a_slate(tmp_path, store):
    agent = Agent.create(tmp_path / "a.db", dim=4)
    agent.ask_many([None] * 3, ARMS, slots=5)
    agent.close()
    log = module.open_log(tmp_path / "a.db")
    with log.transaction(write=False):
        rows = dict(log.rows())
    log.close()
    assert len(rows["offers"]) == 1
    assert len(rows["decisions"]) == 15


def test_slates_that_were_half_compacted(tmp_path):
    clock = Hands()
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=adadim.LinUCB(), noise=0.5, clock=clock)
    slates = [agent.ask(ARMS, slots=4) for _ in range(3)]
    alone = agent.ask(ARMS)
    first, second, third = (slate.arms for slate in slates)
    agent.tell(slates[0].id, {first[0]: 0.1, first[1]: 0.2})
    agent.tell(slates[1].id, {second[3]: 0.3})
    agent.tell(slates[2].id, dict.fromkeys(third[:3], 0.4))
    before = numbers(agent.estimate(ARMS))
    clock.now += 10
    assert agent.compact(before=clock.now) == 6
    assert np.abs(numbers(agent.estimate(ARMS)) - before).max() < 1e-9
    log = pl.read_parquet(agent.export(tmp_path / "log.parquet"))
    assert log["decision"].to_list() == [3, 4, 5, 6, 7, 12, alone.id]
    left = [None if names is None else len(names) for names in log["offered"].to_list()]
    assert left == [None, None, 9, 8, 7, None, 9]  # where a slot before is gone, what it left is not known
    message = f"arm {first[0]!r} is not in slate 1; .*; others were compacted"
    assert_refuses(UnknownDecisionError, message, agent.tell, slates[0].id, {first[0]: 0.1})
    assert agent.tell(slates[0].id, {first[2]: 0.5, first[3]: 0.6})
    assert agent.tell(slates[2].id, {third[3]: 0.5})
    assert agent.compact(before=clock.now) == 3
    assert_refuses(DecisionError, "decision 1 was compacted", agent.tell, slates[0].id, {first[2]: 0.5})
    assert agent.rebuild() < 1e-9


@pytest.mark.parametrize("reward", [None, 0.25])
def test_slots_expire_as_decisions_do(tmp_path, reward):
    clock = Hands()
    agent = Agent.create(tmp_path / "a.db", dim=4, expire_after=10.0, expired_reward=reward, clock=clock)
    slate = agent.ask(ARMS, slots=3)
    clock.now += 5
    agent.tell(slate.id, {slate.arms[1]: 1.0})
    clock.now += 6
    assert state_of(agent) | {"outstanding": 0, "expired": 2, "rewards": 1 if reward is None else 3} == state_of(agent)
    words = "decision 1 expired before" if reward is None else "decision 1 has the reward 0.25 already"
    assert_refuses(DecisionError, words, agent.tell, slate.id, {slate.arms[1]: 1.0, slate.arms[0]: 0.5})
    assert agent.correct(slate.decisions[0].id, 0.5)
    assert agent.rebuild() < 1e-9


def test_a_slate_is_answered_after_reopening_and_by_another_process(tmp_path):
    path = tmp_path / "a.db"
    with Agent.create(path, dim=4, policy=adadim.LinUCB(), noise=0.5) as agent:
        slate = agent.ask(ARMS, slots=3)
    with Agent.open(path) as agent, Agent.open(path) as other:
        assert other.tell(slate.id, {slate.arms[2]: 1.0})
        assert not agent.tell(slate.id, {slate.arms[2]: 1.0})
        later = other.ask(ARMS, slots=2)
        assert agent.tell(later.id, {later.arms[0]: 0.5})
        assert agent.ask(ARMS, slots=1).id == 6
        assert np.abs(scores_of(agent, ARMS) - scores_of(other, ARMS)).max() < 1e-12
        assert state_of(agent) | {"decisions": 6, "rewards": 2, "outstanding": 4} == state_of(agent)
        assert agent.rebuild() < 1e-12


def test_numbers_of_a_slate_that_others_overtook(tmp_path, store, monkeypatch):
    """Where decisions are made before they have numbers, those of a slate stay together."""
    path = tmp_path / "a.db"
    slow = Agent.create(path, dim=4, policy=adadim.LinTS(), noise=0.5)
    quick, others = Agent.open(path), []
    kind = type(log_of(slow))
    commit = kind.commit

    def overtaken(log, count, decide, then):
        def overtake():
            patch.undo()
            others.extend([quick.ask(ARMS), quick.ask(ARMS, slots=2)])

        def decide_slowly(draws):
            if draws is not None:
                overtake()
            return decide(draws)

        if store == "sqlite":  # where it decides in the transaction that writes
            overtake()
        return commit(log, count, decide_slowly, then)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "commit", overtaken)
        slate = slow.ask(ARMS, slots=3)
    assert (slate.id, [one.id for one in slate.decisions]) == (4, [4, 5, 6])
    assert quick.tell(slate.id, dict.fromkeys(slate.arms, 0.5))
    assert slow.tell(others[1].id, dict.fromkeys(others[1].arms, 0.5))
    log = pl.read_parquet(slow.export(tmp_path / "log.parquet"))
    assert log["slate"].to_list() == [None, 2, 2, 4, 4, 4]
    assert slow.rebuild() < 1e-12


def test_copies_have_slates(tmp_path, store, request):
    if store == "postgres":
        url = request.getfixturevalue("database").url
        places = [f"{url}#slates1", tmp_path / "copy.db", f"{url}#slates2"]
    else:
        places = [tmp_path / name for name in ("a.db", "b.db", "c.db")]
    with Agent.create(places[0], dim=4) as agent:
        slate = agent.ask(ARMS, slots=3)
        agent.tell(slate.id, {slate.arms[1]: 0.5})
        log = pl.read_parquet(agent.export(tmp_path / "log.parquet"))
    copy_agent(places[0], places[1])
    copy_agent(places[1], places[2])
    for place in places[1:]:
        opened = sqlite_agent(place) if store == "postgres" and not isinstance(place, str) else Agent.open(place)
        with opened as agent:
            assert pl.read_parquet(agent.export(tmp_path / "copy.parquet")).equals(log)
            assert agent.tell(slate.id, {slate.arms[0]: 0.5, slate.arms[1]: 0.5})
            assert agent.rebuild() < 1e-12


def sqlite_agent(path):
    """An agent in a file, also where tests keep theirs in a database."""
    return Agent(sqlite.SqliteLog(path), None, Hands())


def ask_slates(path, acknowledged):
    with Agent.open(path) as agent:
        while True:
            slate = agent.ask(ARMS, slots=3)
            agent.tell(slate.id, {slate.arms[0]: 1.0, slate.arms[2]: 0.0})
            acknowledged.send((slate.id, slate.arms))


@pytest.mark.in_a_file
def test_processes_that_are_killed_leave_whole_slates(tmp_path):
    path, acknowledged = tmp_path / "a.db", []
    Agent.create(path, dim=4).close()
    context = multiprocessing.get_context("spawn")
    for count in (2, 1):
        pipes = [context.Pipe(duplex=False) for _ in range(count)]
        children = [context.Process(target=ask_slates, args=(path, sender)) for _, sender in pipes]
        for child in children:
            child.start()
        for (receiver, _), child in zip(pipes, children, strict=True):
            for _ in range(8):
                acknowledged.append(receiver.recv())
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            while receiver.poll():
                acknowledged.append(receiver.recv())
    with Agent.open(path) as agent:
        log = pl.read_parquet(agent.export(tmp_path / "log.parquet"))
        rows = {key[0]: rows for key, rows in log.partition_by("slate", as_dict=True).items()}
        assert {len(part) for part in rows.values()} == {3}
        for number, arms in acknowledged:
            assert tuple(rows[number]["arm"]) == arms
            assert rows[number]["reward"].to_list() == [1.0, None, 0.0]
        assert len(rows) - len(acknowledged) <= 3  # one for each process killed
        assert agent.rebuild() < 1e-9


@pytest.mark.in_a_file
def test_a_slate_that_was_changed_in_the_file_is_noticed(tmp_path):
    for column, value in (("slate", "NULL"), ("slate", "2"), ("arm", "'sku-0'")):
        path = tmp_path / f"{value}.db"
        with Agent.create(path, dim=4) as agent:
            agent.ask(ARMS)
            slate = agent.ask(ARMS, slots=3)
        with sqlite3.connect(path) as file:
            where = "number = 1" if value == "2" else "number = 3"
            file.execute(f"UPDATE decisions SET {column} = {value} WHERE {where}")
            file.execute("DELETE FROM snapshot")
        file.close()

        def look(path=path, slate=slate):
            with Agent.open(path) as agent:
                agent.tell(slate.id, {slate.arms[0]: 1.0})

        assert_refuses(FileError, "a row of the table of decisions is not what was written", look)


def test_a_failed_write_leaves_no_part_of_a_slate(agent, monkeypatch):
    with monkeypatch.context() as patched:
        failing_writes(patched, LoggedDecision, FileError("disk is full"))
        assert_refuses(FileError, "disk is full", agent.ask, slots=3)
    slate = agent.ask(slots=3)
    assert (slate.id, agent.status()["outstanding"]) == (1, 3)
    assert agent.rebuild() < 1e-12


def test_one_slot_is_a_slate_and_no_slots_a_decision(agent):
    slate, decision = agent.ask(slots=1), agent.ask()
    assert isinstance(slate, Slate)
    assert isinstance(decision, AgentDecision)
    assert agent.tell(slate.id, {slate.arms[0]: 1.0})
    assert agent.ask_many([], slots=3) == []
    assert agent.ask(slots=np.int64(9)).arms != ()


def test_masters_are_refused_as_before(tmp_path):
    policy = adadim.Corral(bases=(adadim.LinUCB(), adadim.Random()))
    assert_refuses(
        InvalidValueError,
        "an agent cannot play Corral: it needs each reward before its next",
        *(Agent.create, tmp_path / "a.db"),
        dim=4,
        policy=policy,
        noise=0.5,
    )


def test_offers_with_new_features_each_time(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, keep="chosen")
    for arms in offers(20):
        slate = agent.ask(arms, slots=3)
        agent.tell(slate.id, {arm: float(arms[arm][0]) for arm in slate.arms})
    log = pl.read_parquet(agent.export(tmp_path / "log.parquet"))
    assert log["offered"].null_count() == 60
    assert log["slate"].to_list() == [1 + at // 3 * 3 for at in range(60)]
    assert agent.rebuild() < 1e-9
