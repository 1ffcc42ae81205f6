"""The agent that a newcomer gets: a prior for each level, a memory that finds itself and, if told so, clicks."""

import numpy as np
import pytest
from scipy.special import expit

import adadim
from adadim import Agent, AgentExistsError
from agent_runs import Hands, model_of
from refusals import assert_refuses

CONTEXT, ARM, SIZE, BATCHES, TURN = 2, 3, 30, 30, 450
ARTICLES = {f"a{i}": row for i, row in enumerate(np.random.default_rng(5).standard_normal((8, ARM)))}


def clicked(number, name, context, rng):
    sign = 3.0 if number < TURN else -3.0
    logit = sign * (ARTICLES[name] @ [1.0, -0.5, 0.2] + 0.6 * ARTICLES[name][0] * context[0])
    return bool(rng.random() < expit(logit - 0.5))


def lived(agent, clock):
    """Let an agent be asked in batches, and told up to two batches later, in any order; gives what still waits."""
    agent.set_arms(ARTICLES)
    rng, waiting = np.random.default_rng(3), []
    for _ in range(BATCHES):
        clock.now += 1.0
        contexts = rng.standard_normal((SIZE, CONTEXT))
        for decision, context in zip(agent.ask_many(contexts), contexts, strict=True):
            waiting.append((decision.id, clicked(decision.id, decision.arm, context, rng)))
        waiting = [waiting[at] for at in rng.permutation(len(waiting))]
        told, waiting = waiting[: -2 * SIZE], waiting[-2 * SIZE :]
        agent.tell_many(told)
    return waiting


def state(agent):
    """All that decides: the memory to the last bit, and the model."""
    agent.status()
    bank, sums = model_of(agent).bank, model_of(agent).sums
    exact = (bank.scores.tobytes(), bank.history, bank.epoch, sums.fitted, sums.fading)
    return exact, sums.point, sums.moments.second, sums.counted.second, sums.moments.moment


def assert_same(agent, other):
    exact, *arrays = state(agent)
    same, *others = state(other)
    assert exact == same
    for ours, theirs in zip(arrays, others, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
    estimates = [list(who.estimate(context=[0.3, -0.2]).values()) for who in (agent, other)]
    np.testing.assert_allclose(*estimates, rtol=1e-6)


def test_clicks_levels_and_memory_together_are_a_function_of_the_log(tmp_path):
    """The same in another process, after reopening, a rebuild, a compaction, and further rewards."""
    path, clock = tmp_path / "a.db", Hands()
    agent = Agent.create(path, context=CONTEXT, arm=ARM, rewards="bernoulli", clock=clock)
    waiting = lived(agent, clock)
    described = agent.describe()
    assert described["memory"] == "auto"
    assert TURN <= described["world_changed"] <= described["half_life_since"]
    assert (agent.policy.levels, agent.policy.likelihood) == ("each", "bernoulli")
    assert list(described["learner"]["levels"]) == ["arm", "context", "products"]
    other = Agent.open(path, clock=clock)
    assert_same(other, agent)
    assert other.rebuild() < 1e-9
    assert_same(other, agent)
    agent.tell_many(waiting[:SIZE])
    assert_same(other, agent)
    assert agent.compact(before=1000.0 + BATCHES / 2) > 100
    assert_same(other, agent)
    other.tell_many(waiting[SIZE:])
    assert_same(other, agent)
    other.close()
    with Agent.open(path, clock=clock) as again:
        assert_same(again, agent)
        assert again.rebuild() < 1e-9
        assert_same(again, agent)
        ids = [who.ask(context=[0.1, 0.2]).id for who in (again, agent)]
    assert ids == [SIZE * BATCHES + 1, SIZE * BATCHES + 2]
    agent.close()


@pytest.mark.any_store
def test_the_memory_of_a_new_agent(tmp_path):
    with Agent.create(tmp_path / "a.db", dim=2) as agent:
        assert agent.status()["memory"] == "auto"
    with Agent.create(tmp_path / "b.db", dim=2, memory=None) as agent:
        assert agent.status()["memory"] is None
        assert agent.describe()["half_life"] is None


@pytest.mark.any_store
@pytest.mark.parametrize("memory", [None, 500.0, "auto"])
def test_an_agent_keeps_the_memory_that_it_was_made_with(tmp_path, memory):
    """As those of earlier versions do, which forgot nothing by default."""
    Agent.create(tmp_path / "a.db", dim=2, memory=memory).close()
    for again in (lambda: Agent.open(tmp_path / "a.db"), lambda: Agent.create(tmp_path / "a.db", dim=2, exist_ok=True)):
        with again() as agent:
            assert agent.status()["memory"] == memory
    for given in {None, 500.0, "auto"} - {memory}:
        message = f"memory is {memory} there, {given} here"
        assert_refuses(AgentExistsError, message, Agent.create, tmp_path / "a.db", dim=2, memory=given, exist_ok=True)


@pytest.mark.any_store
def test_many_features(tmp_path):
    """The sums of five half-lives, twice, and 512 recent rewards have to fit into the log."""
    with Agent.create(tmp_path / "a.db", dim=1001) as agent:
        assert agent.status()["memory"] is None
    with Agent.create(tmp_path / "b.db", dim=1000) as agent:
        assert agent.status()["memory"] == "auto"
    largest = next(dim for dim in range(4000, 0, -1) if 8 * (2 * 5 * dim**2 + 512 * dim) <= 10**9)
    assert_refuses(
        adadim.InvalidValueError,
        f"which fit into the log for up to {largest} features, and there are {largest + 1}: give a half-life",
        Agent.create,
        tmp_path / "c.db",
        dim=largest + 1,
        memory="auto",
    )


@pytest.mark.any_store
@pytest.mark.parametrize(
    "policy",
    [adadim.LinUCB(radius=1.0), adadim.LinTS(), adadim.Greedy(ridge=1.0), adadim.TaperedLinUCB(), adadim.Random()],
    ids=lambda policy: type(policy).__name__,
)
def test_whatever_the_policy_the_agent_forgets(tmp_path, policy):
    rng = np.random.default_rng(0)
    with Agent.create(tmp_path / "a.db", dim=2, policy=policy, noise=0.3) as agent:
        x = rng.standard_normal((600, 2))
        agent.learn((x, np.where(np.arange(600) < 300, 1.0, -1.0) * x[:, 0] + 0.3 * rng.standard_normal(600)))
        described = agent.describe()
        assert described["memory"] == "auto"
        assert 300 <= described["world_changed"] <= 450
        assert agent.estimate({"a": [1.0, 0.0]})["a"][0] < -0.8
        assert agent.ask({"a": [1.0, 0.0], "b": [0.0, 1.0]}).id == 601


@pytest.mark.parametrize("memory", [None, 100.0, "auto"])
def test_more_features_than_a_value_of_the_log_holds_are_refused(tmp_path, monkeypatch, memory):
    monkeypatch.setattr("adadim.core.checks.machine_bytes", lambda: 1e15)
    message = (
        "one value of its log, which has room for up to 11180 features, and there are 11181: give it the most basic"
    )
    assert_refuses(adadim.InvalidValueError, message, Agent.create, tmp_path / "a.db", dim=11_181, memory=memory)
    assert not list(tmp_path.iterdir())
