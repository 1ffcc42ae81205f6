"""What happens to an agent over the days: a catalogue that changes, a context, decisions that expire."""

from datetime import UTC, datetime

import numpy as np
import pytest

import adadim
from adadim import Agent, DecisionError
from agent_runs import Hands, numbers, state_of
from refusals import assert_refuses

DAY = 86400.0


@pytest.fixture
def agent(tmp_path):
    with Agent.create(tmp_path / "a.db", dim=3, policy=adadim.Greedy()) as made:
        yield made


def test_arms_are_added_changed_masked_and_retired(agent):
    agent.set_arms({"x": [1.0, 0.0, 0.0], "y": [0.0, 1.0, 0.0]}, costs={"y": 0.25})
    agent.set_arm("z", [0.0, 0.0, 1.0])
    assert {name: (arm.cost, arm.state) for name, arm in agent.arms.items()} == {
        "x": (0.0, "active"),
        "y": (0.25, "active"),
        "z": (0.0, "active"),
    }
    agent.learn([{"features": [1, 0, 0], "reward": 3.0}, {"features": [0, 1, 0], "reward": 2.0}])
    assert agent.ask().arm == "x"
    agent.mask_arm("x")
    assert agent.ask().arm == "y"
    assert_refuses(ValueError, "arm 'x' is masked", agent.ask, ["x", "y"])
    agent.unmask_arm("x")
    assert agent.ask(["y", "x"]).arm == "x"
    assert agent.ask(["y", "z"]).arm == "y"
    agent.set_arm("x", [0.0, 0.0, 1.0])  # its features change
    assert agent.ask().arm == "y"
    assert list(agent.estimate()) == ["x", "y", "z"]
    asked = agent.ask()
    agent.retire_arm("y")
    assert "y" not in agent.arms
    assert agent.tell(asked.id, reward=0.5)
    assert_refuses(ValueError, "arm 'y' is retired", agent.ask, ["y"])
    assert_refuses(ValueError, "arm 'xx' is not in the catalogue; did you mean 'x'", agent.mask_arm, "xx")
    assert state_of(agent) | {"arms": 2, "masked": 0, "retired": 1} == state_of(agent)
    agent.set_arm("y", [0.0, 1.0, 0.0])
    assert agent.ask().arm == "y"


def test_costs_of_the_catalogue_and_of_a_round(agent):
    agent.set_arms({"x": [1.0, 0.0, 0.0], "y": [0.0, 1.0, 0.0]}, costs={"x": 5.0})
    agent.learn([{"features": [1, 0, 0], "reward": 3.0}, {"features": [0, 1, 0], "reward": 2.0}])
    assert agent.ask().arm == "y"
    assert agent.ask(costs={"x": 0.0}).arm == "x"
    assert agent.ask(costs={"y": 9.0}).arm == "x"


def test_the_context_comes_before_the_features_of_every_arm(tmp_path):
    whole = Agent.create(tmp_path / "whole.db", dim=3, policy=adadim.LinUCB(), noise=0.1)
    split = Agent.create(tmp_path / "split.db", dim=3, policy=adadim.LinUCB(), noise=0.1)
    split.set_arms({"x": [1.0], "y": [0.4]})
    rng = np.random.default_rng(1)
    for _ in range(30):
        context = rng.normal(size=2)
        arms = {"x": [*context, 1.0], "y": [*context, 0.4]}
        one, two = whole.ask(arms), split.ask(context=context)
        assert one.arm == two.arm
        assert split.estimate({"x": [1.0], "y": [0.4]}, context) == split.estimate(context=context)
        whole.tell_many({one.id: context.sum()})
        split.tell_many({two.id: context.sum()})
        assert np.allclose(numbers(whole.estimate(arms)), numbers(split.estimate(context=context)), atol=1e-12)
    assert_refuses(ValueError, r"features of 'x' must be 2 numbers \(dim = 3 less the 1", split.ask, context=[1.0])
    assert_refuses(ValueError, r"features of 'x' must be 3 numbers \(dim = 3\), got 1", split.ask)
    assert_refuses(ValueError, "as those of other arms, got 2", split.set_arm, "z", [1.0, 2.0])


@pytest.mark.parametrize("reward", [None, 0.0])
def test_decisions_expire(tmp_path, reward):
    clock, arms = Hands(), {"x": [1.0, 0.0], "y": [0.0, 1.0]}
    options = {"expire_after": DAY, "expired_reward": reward, "clock": clock}
    agent = Agent.create(tmp_path / "a.db", dim=2, **options)
    early = [agent.ask(arms).id for _ in range(3)]
    agent.tell(early[0], reward=1.0)
    clock.now += DAY * 0.75
    late = agent.ask(arms).id
    clock.now += DAY * 0.5
    assert state_of(agent) | {"expired": 2, "outstanding": 1, "rewards": 1 if reward is None else 3} == state_of(agent)
    assert agent.tell(early[0], reward=1.0) is False
    assert agent.tell(late, reward=1.0) is True
    words = (
        "expired before its reward arrived; correct" if reward is None else "has the reward 0 already, got 1; correct"
    )
    assert_refuses(DecisionError, words, agent.tell, early[1], 1.0)
    assert agent.correct(early[1], reward=1.0)
    assert agent.tell(early[1], reward=1.0) is False
    assert agent.rebuild() < 1e-9
    assert agent.status()["rewards"] == (3 if reward is None else 4)
    before = state_of(agent)
    assert agent.compact(before=datetime.fromtimestamp(clock.now + 1, UTC)) == 4
    assert agent.rebuild() < 1e-9
    assert state_of(agent) | {"compacted": 0} == before | {"compacted": 0}


def test_an_expired_reward_needs_a_time(tmp_path):
    assert_refuses(ValueError, "give expire_after=", Agent.create, tmp_path / "a.db", dim=2, expired_reward=0.0)


def test_threads_share_an_agent(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    agent = Agent.create(tmp_path / "a.db", dim=2)

    def play(i):
        decision = agent.ask({"x": [1.0, float(i)], "y": [0.0, 1.0]})
        return decision.id, agent.tell(decision.id, reward=float(i))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(play, range(60)))
    assert sorted(number for number, _ in found) == list(range(1, 61))
    assert all(new for _, new in found)
    assert agent.rebuild() < 1e-9


def test_a_closed_agent_says_so(tmp_path):
    with Agent.create(tmp_path / "a.db", dim=2) as agent:
        agent.ask({"x": [1.0, 0.0]})
    agent.close()
    assert_refuses(ValueError, "the agent is closed", agent.ask, {"x": [1.0, 0.0]})
    assert_refuses(ValueError, "the agent is closed", agent.tell, 1, 1.0)
    assert not list(tmp_path.glob("*-wal"))


def test_a_policy_of_ones_own(tmp_path):
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Mine(adadim.Greedy):
        pass

    assert_refuses(ValueError, "cannot be written to a file", Agent.create, tmp_path / "a.db", dim=2, policy=Mine())
    plugins = {"Mine": Mine}
    with Agent.create(tmp_path / "a.db", dim=2, policy=Mine(ridge=0.5), plugins=plugins) as agent:
        assert agent.policy == Mine(ridge=0.5)
    assert_refuses(adadim.FileError, "no policy 'Mine'", Agent.open, tmp_path / "a.db")
    assert Agent.open(tmp_path / "a.db", plugins=plugins).policy == Mine(ridge=0.5)
