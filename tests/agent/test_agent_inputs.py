"""Bad input gets an error that names it, and nothing is written."""

import numpy as np
import polars as pl
import pytest

import adadim
from adadim import Agent
from refusals import assert_refuses

GOOD = {"x": [1.0, 0.0], "y": [0.0, 1.0]}
NAN, INF = float("nan"), float("inf")

ASKED = [
    ({}, "arms must not be empty"),
    ([], "arms must not be empty"),
    (3, "arms must be a dict"),
    ("xy", "arms must be a dict"),
    ({"x": [1.0, NAN]}, "features of 'x' must be finite, but number 2 is nan"),
    ({"x": [INF, 1.0]}, "must be finite, but number 1 is inf"),
    ({"x": [1.0]}, r"features of 'x' must be 2 numbers \(dim = 2\), got 1"),
    ({"x": [1.0, 2.0], "y": [1.0, 2.0, 3.0]}, "features of 'y' must be 2 numbers"),
    ({"x": ["1.0", "2.0"]}, "features of 'x' must be a sequence of numbers"),
    ({"x": [True, False]}, "must be a sequence of numbers"),
    ({"x": [[1.0, 2.0]]}, "must be a sequence of numbers"),
    ({"x": [1.0, [2.0]]}, "must be a sequence of numbers"),
    ({"x": None}, "must be a sequence of numbers"),
    ({"x": [1.0, 10**400]}, "must be a sequence of numbers"),
    ({"x": [1.0, 1j]}, "must be a sequence of numbers"),
    ({"": [1.0, 2.0]}, "name of an arm must be a text of 1 to 200"),
    ({3: [1.0, 2.0]}, "name of an arm must be a text of 1 to 200"),
    ({"n" * 201: [1.0, 2.0]}, "name of an arm must be a text of 1 to 200"),
    ({"a\0b": [1.0, 2.0]}, "no control characters"),
    ({f"arm {k}": [1.0, 2.0] for k in range(21)}, "21 arms are more than the 20"),
    (["x", "z"], "arm 'x' is not in the catalogue"),
    (None, "the catalogue has no active arm"),
]


@pytest.fixture
def agent(tmp_path):
    with Agent.create(tmp_path / "a.db", dim=2, arms=20) as made:
        yield made
        assert made.rebuild() < 1e-9


@pytest.mark.parametrize(("arms", "message"), ASKED, ids=lambda value: str(value)[:30])
def test_bad_arms_are_refused_and_nothing_is_written(agent, arms, message):
    assert_refuses((ValueError, TypeError), message, agent.ask, arms)
    assert_refuses((ValueError, TypeError), message, agent.estimate, arms)
    assert agent.status()["decisions"] == 0
    assert agent.ask(GOOD).id == 1


@pytest.mark.parametrize("true", [True, np.True_])
def test_a_reward_may_be_true_or_false(agent, true, tmp_path):
    one, two = agent.ask(GOOD), agent.ask(GOOD)
    assert agent.tell(one.id, true)
    assert not agent.tell(one.id, 1.0)  # the same
    assert agent.tell_many({two.id: not true}) == 1
    assert agent.correct(two.id, true)
    slate = agent.ask(GOOD, slots=1)
    assert agent.tell(slate.id, {slate.arms[0]: true})
    assert pl.read_parquet(agent.export(tmp_path / "log.parquet"))["reward"].to_list() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("reward", [NAN, INF, -INF, None, "1", "true", 10**400, [1.0]])
def test_bad_rewards_are_refused(agent, reward):
    decision = agent.ask(GOOD)
    assert_refuses(ValueError, "reward.* must be a finite number", agent.tell, decision.id, reward)
    assert_refuses(ValueError, "reward.* must be a finite number", agent.tell_many, {decision.id: reward})
    assert agent.status()["rewards"] == 0
    assert agent.tell(decision.id, reward=np.float32(0.5))


@pytest.mark.parametrize("number", [0, -1, 1.0, "1", None, True, 2**63, NAN])
def test_bad_ids_are_refused(agent, number):
    agent.ask(GOOD)
    assert_refuses(ValueError, "id must be that of a decision", agent.tell, number, 1.0)
    assert_refuses(ValueError, "id must be that of a decision", agent.correct, number, 1.0)


@pytest.mark.parametrize("answers", [3, "ab", [1, 2], [(1, 2, 3)], ["ab"], None])
def test_bad_batches_are_refused(agent, answers):
    agent.ask(GOOD)
    assert_refuses((ValueError, TypeError), "tell_many takes", agent.tell_many, answers)


def test_contexts_and_costs_are_checked(agent):
    assert_refuses(ValueError, "context must be finite", agent.ask, GOOD, context=[NAN])
    assert_refuses(TypeError, "context must be a sequence", agent.ask, GOOD, context="a")
    assert_refuses(ValueError, r"less the 1 of the context", agent.ask, GOOD, context=[1.0])
    assert_refuses(ValueError, "costs name 'z', which is no arm", agent.ask, GOOD, costs={"z": 1.0})
    assert_refuses(ValueError, "cost of 'x' must be a finite number", agent.ask, GOOD, costs={"x": NAN})
    assert_refuses(TypeError, "costs must be a dict", agent.ask, GOOD, costs=3)
    agent.set_arm("x", [1.0, 2.0])
    assert_refuses(TypeError, "costs must be a dict", agent.ask, costs=3)
    assert_refuses(ValueError, "cost of 'x' must be a finite", agent.set_arm, "x", [1.0, 2.0], cost=INF)
    assert_refuses(ValueError, "at most dim = 2", agent.set_arm, "y", [1.0, 2.0, 3.0])
    assert_refuses(ValueError, "as those of other arms", agent.set_arms, {"y": [1.0, 2.0], "z": [1.0]})
    assert_refuses(TypeError, "arms must be a dict", agent.set_arms, ["y"])
    assert list(agent.arms) == ["x"]


CREATED = [
    ({"dim": 0}, "dim must be an integer of at least 1"),
    ({"dim": 2.0}, "dim must be an integer"),
    ({"dim": 2, "arms": 0}, "arms must be an integer"),
    ({"dim": 2, "seed": -1}, "seed must be a non-negative"),
    ({"dim": 2, "memory": 0}, "memory must be a positive"),
    ({"dim": 2, "memory": INF}, "memory must be a positive"),
    ({"dim": 2, "noise": -1.0}, "noise must be a positive"),
    ({"dim": 2, "levels": {"a": 3}}, "levels must be an integer in 1..2"),
    ({"dim": 2, "levels": {}}, "levels must name at least one"),
    ({"dim": 2, "policy": "LinUCB"}, "policy must be a policy such as"),
    ({"dim": 2, "expire_after": 0}, "expire_after must be a positive"),
    ({"dim": 2, "expire_after": 1, "expired_reward": NAN}, "expired_reward must be a finite"),
]


@pytest.mark.parametrize(("settings", "message"), CREATED, ids=lambda value: str(value)[:40])
def test_bad_settings_are_refused_and_leave_no_file(tmp_path, settings, message):
    assert_refuses((ValueError, TypeError), message, Agent.create, tmp_path / "a.db", **settings)
    assert list(tmp_path.iterdir()) == []


NAMES = ["'); DROP TABLE decisions; --", '"', "%s", "?", "NULL", "ü 漢字 🚲", "a" * 200, "../../etc/passwd", " "]


def test_names_are_data_only(tmp_path):
    with Agent.create(tmp_path / "a.db", dim=2) as agent:
        for k, name in enumerate(NAMES):
            agent.set_arm(name, [1.0, float(k)])
        assert list(agent.arms) == NAMES
        decision = agent.ask(["'); DROP TABLE decisions; --"])
        assert decision.arm == "'); DROP TABLE decisions; --"
        agent.tell(decision.id, reward=1.0)
        assert agent.ask({name: [1.0, 0.0] for name in NAMES}).arm in NAMES
        agent.retire_arm(NAMES[0])
        assert list(agent.arms) == NAMES[1:]
        assert list(agent.estimate()) == NAMES[1:]


def test_compact_wants_a_time(agent):
    assert_refuses(ValueError, "before must be a time", agent.compact, "yesterday")
    assert_refuses(ValueError, "before must be a time", agent.compact, NAN)


HUGE = [(1e9, 1e9), (1.7e9, 1.0), (1e30, -1e30), (1e-30, 1e30)]


@pytest.mark.filterwarnings("ignore::adadim.PrecisionWarning")
@pytest.mark.parametrize("policy", [adadim.EvidenceLinUCB(), adadim.LinUCB(), adadim.LinTS()], ids=repr)
@pytest.mark.parametrize("features", HUGE, ids=str)
def test_numbers_of_any_size_do_not_stop_it(tmp_path, policy, features):
    with Agent.create(tmp_path / "a.db", dim=2, policy=policy, noise=0.1) as agent:
        for reward in (1.0, -1e30, 0.0, 1e30, 2.0):
            agent.tell(agent.ask({"x": features, "y": [1.0, 0.5]}).id, reward=reward)
        agent.learn(([features] * 3, [1.0, 2.0, 1e30]))
        assert agent.ask(GOOD).arm in GOOD
        assert np.isfinite(list(agent.estimate(GOOD).values())).all()
        assert np.isclose(agent.dimension().probabilities.sum(), 1.0)
        assert agent.rebuild() < 1e-9


def test_numbers_too_large_for_sums_are_refused(agent):
    assert_refuses(ValueError, r"must be at most 1e\+30 in size, but number 2 is 1e\+31", agent.ask, {"x": [1.0, 1e31]})
    array = np.array([1e200, 1.0])
    assert_refuses(ValueError, r"must be at most 1e\+30 in size", agent.ask, {"x": array, "y": array})
    decision = agent.ask(GOOD)
    assert_refuses(ValueError, r"must be at most 1e\+30 in size, got 1e\+31", agent.tell, decision.id, 1e31)
