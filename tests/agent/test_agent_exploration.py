"""A share of an agent's decisions is drawn uniformly, and the probability of every decision is known exactly."""

import itertools
import sqlite3
from collections import Counter

import numpy as np
import polars as pl
import pytest
from scipy.stats import chisquare

import adadim
from adadim.agent import Agent, AskCall, copy_agent
from adadim.errors import InvalidValueError
from agent_runs import offers, played, state_of
from refusals import assert_refuses

ARMS = {"a": [1.0, 0.0, 0.2, 0.1], "b": [0.3, 1.0, 0.0, 0.0], "c": [0.8, 0.1, 0.1, 0.4], "d": [0.1, 0.2, 1.0, 0.0]}
POLICIES = [(None, {}), (adadim.Greedy(), {}), (adadim.LinTS(scale=2.0), {"noise": 0.3}), (adadim.Random(), {})]


def choices(agent, count, **options):
    """Many decisions or slates among four arms."""
    return agent.ask_many([None] * count, ARMS, **options)


def assert_mean(terms, expected):
    """The mean of independent terms is what it should be, up to 4 standard errors."""
    error = np.std(terms, ddof=1) / np.sqrt(len(terms))
    assert error > 0
    assert abs(np.mean(terms) - expected) < 4 * error, (np.mean(terms), error)


@pytest.mark.any_store
@pytest.mark.parametrize("explore", [0.1, 0.5, 1.0])
def test_frequencies_are_the_probabilities_of_a_policy_that_is_not_random(tmp_path, explore):
    agent, _, _ = played(tmp_path / "a.db", policy=adadim.Greedy(), explore=explore)  # pending decisions change no mean
    estimates = agent.estimate(ARMS)
    best = max(estimates, key=lambda arm: estimates[arm][0])
    wanted = {arm: explore / 4 + (1 - explore) * (arm == best) for arm in ARMS}
    decisions = choices(agent, 3000)
    counts = Counter(decision.arm for decision in decisions)
    for decision in decisions:
        assert decision.probability == pytest.approx(wanted[decision.arm], rel=1e-15)
    assert chisquare([counts[arm] for arm in ARMS], [3000 * wanted[arm] for arm in ARMS]).pvalue > 1e-3


@pytest.mark.any_store
@pytest.mark.parametrize(("policy", "options"), POLICIES)
def test_probabilities_of_every_policy_are_those_of_its_choices(tmp_path, policy, options):
    """With probabilities p, 1{arm} / p averages 1 for each arm, however the policy changes while it plays."""
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=policy, explore=0.3, **options)
    rng = np.random.default_rng(0)
    decisions = []
    for _ in range(20):
        batch = choices(agent, 50)
        decisions += batch
        agent.tell_many({d.id: float(ARMS[d.arm] @ np.array([0.5, -0.5, 0.4, 0])) + rng.normal() for d in batch})
    arms, probabilities = np.array([d.arm for d in decisions]), np.array([d.probability for d in decisions])
    assert (probabilities >= 0.3 / 4).all()
    for arm in ARMS:
        assert_mean((arms == arm) / probabilities, 1.0)
    if policy == adadim.Random():
        assert np.allclose(probabilities, 1 / 4, rtol=1e-15)


@pytest.mark.any_store
@pytest.mark.parametrize(("policy", "options"), POLICIES[1:])
def test_probabilities_of_slates_multiply_to_that_of_their_arms_in_order(tmp_path, policy, options):
    agent, _, _ = played(tmp_path / "a.db", policy=policy, explore=0.5, **options)
    slates = choices(agent, 1000, slots=2)
    products = np.array([np.prod([one.probability for one in slate.decisions]) for slate in slates])
    for arms in itertools.permutations(ARMS, 2):
        assert_mean(np.array([slate.arms == arms for slate in slates]) / products, 1.0)
    for slate in slates:
        for left, one in zip((4, 3), slate.decisions, strict=True):
            assert one.probability >= 0.5 / left - 1e-15


@pytest.mark.any_store
def test_probabilities_of_the_slots_of_a_greedy_slate(tmp_path):
    agent, _, _ = played(tmp_path / "a.db", policy=adadim.Greedy(), explore=0.4)
    estimates = agent.estimate(ARMS)
    ranked = sorted(ARMS, key=lambda arm: -estimates[arm][0])
    seen = set()
    for slate in choices(agent, 300, slots=3):
        left = list(ranked)
        for one in slate.decisions:
            wanted = 0.4 / len(left) + 0.6 * (one.arm == left[0])
            assert one.probability == pytest.approx(wanted, rel=1e-15)
            seen.add((len(left), one.arm == left[0]))
            left.remove(one.arm)
    assert seen == set(itertools.product((4, 3, 2), (True, False)))


@pytest.mark.any_store
def test_arms_that_tie_share_the_policys_probability(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=adadim.LinUCB(), noise=1.0, explore=0.2)
    arms = {**{f"tied {k}": row for k, row in enumerate(np.eye(4)[:2].tolist())}, "less": [0.0, 0.0, 0.5, 0.0]}
    first = agent.ask(arms)
    wanted = {"tied 0": 0.2 / 3 + 0.4, "tied 1": 0.2 / 3 + 0.4, "less": 0.2 / 3}
    assert first.probability == pytest.approx(wanted[first.arm], rel=1e-15)
    lowest = Agent.create(tmp_path / "b.db", dim=4, policy=adadim.LinUCB(ties="lowest"), noise=1.0, explore=0.2, seed=4)
    first = lowest.ask(arms)
    assert (first.arm, first.probability) == ("tied 0", pytest.approx(0.2 / 3 + 0.8, rel=1e-15))


def test_only_arms_that_may_be_chosen_are_explored(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=adadim.Greedy(), explore=1.0)
    agent.set_arms(ARMS)
    agent.mask_arm("b")
    agent.retire_arm("d")
    decisions = agent.ask_many([None] * 200)
    assert {decision.arm for decision in decisions} == {"a", "c"}
    assert {decision.probability for decision in decisions} == {0.5}
    named = agent.ask_many([None] * 20, ["a"])
    assert {(decision.arm, decision.probability) for decision in named} == {("a", 1.0)}
    agent.unmask_arm("b")
    assert {decision.arm for decision in agent.ask_many([None] * 200)} == {"a", "b", "c"}


@pytest.mark.parametrize(("policy", "options"), POLICIES)
def test_one_by_one_in_batches_and_in_groups_decisions_are_the_same(tmp_path, policy, options):
    agents = [Agent.create(tmp_path / f"{k}.db", dim=4, policy=policy, explore=0.3, **options) for k in range(3)]
    singly = [agents[0].ask(ARMS) for _ in range(40)]
    grouped = agents[2].ask_and_tell([AskCall([None], ARMS, single=True) for _ in range(40)])
    for others in (choices(agents[1], 40), [decisions[0] for decisions in grouped]):
        assert [(d.id, d.arm) for d in others] == [(d.id, d.arm) for d in singly]
        assert [d.probability for d in others] == pytest.approx([d.probability for d in singly], rel=1e-12)
    slates = [agent.ask(ARMS, slots=3) for agent in agents[:2]]
    assert slates[0].arms == slates[1].arms


@pytest.mark.any_store
def test_exploration_leaves_the_policys_random_numbers_alone(tmp_path):
    """The stream of a decision is (seed, number, purpose), so the decisions that do not explore are as without it."""
    without, explores = (
        Agent.create(tmp_path / f"{e}.db", dim=4, policy=adadim.Random(), explore=e) for e in (0.0, 0.3)
    )
    same = [a.arm == b.arm for a, b in zip(choices(without, 400), choices(explores, 400), strict=True)]
    assert abs(np.mean(same) - (0.7 + 0.3 / 4)) < 4 * np.sqrt(0.775 * 0.225 / 400)


def test_the_share_can_be_changed_and_each_decision_has_its_own_probability(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=adadim.Greedy(), explore=1.0)
    assert (agent.explore, agent.status()["explore"], agent.describe()["explore"]) == (1.0, 1.0, 1.0)
    other = Agent.open(tmp_path / "a.db")
    first = agent.ask(ARMS)
    agent.tell(first.id, 1.0)
    assert (first.policy, first.probability) == (1, 0.25)
    assert agent.set_explore(0.2) == 2
    second = other.ask(ARMS)  # another process follows at its next call
    assert (other.explore, second.policy) == (0.2, 2)
    assert second.probability in (0.2 / 4, 0.2 / 4 + 0.8)
    assert agent.replace_policy(adadim.LinUCB(), noise=1.0) == 3
    assert agent.status()["explore"] == 0.2  # another policy explores as much
    assert agent.set_explore(0) == 4
    assert agent.ask(ARMS).probability == 1.0
    assert agent.policy == adadim.LinUCB()
    log = pl.read_parquet(agent.export(tmp_path / "log.parquet"))
    assert log["probability"].to_list() == [0.25, second.probability, 1.0]
    assert log["policy"].to_list() == [1, 2, 4]
    assert agent.rebuild() < 1e-12
    agent.close()
    other.close()
    assert Agent.open(tmp_path / "a.db").explore == 0.0


@pytest.mark.in_a_file
def test_a_share_that_was_changed_in_the_file_is_noticed(tmp_path):
    Agent.create(tmp_path / "a.db", dim=4, explore=0.1).close()
    for value in ("0.2", "NULL"):
        with sqlite3.connect(tmp_path / "a.db") as file:
            file.execute(f"UPDATE policies SET explore = {value}")
        file.close()
        assert_refuses(
            adadim.errors.FileError,
            "a row of the table of policies is not what was written",
            Agent.open,
            tmp_path / "a.db",
        )


def test_features_can_be_appended_while_an_agent_explores(tmp_path):
    agent = Agent.create(tmp_path / "a.db", context=1, arm=2, explore=0.3)
    agent.replace_features(context=2)
    assert agent.explore == 0.3
    agent.set_arms({"x": [1.0, 0.0], "y": [0.0, 1.0]})
    assert agent.ask(context=[1.0, 2.0]).probability in (0.15, 0.85)


def test_a_copy_explores_as_much(tmp_path, store, request):
    copy = f"{request.getfixturevalue('database').url}#explores" if store == "postgres" else tmp_path / "copy.db"
    source = tmp_path / "a.db" if store == "sqlite" else f"{request.getfixturevalue('database').url}#source"
    with Agent.create(source, dim=4, explore=0.25) as agent:
        choices(agent, 5)
    copy_agent(source, copy)
    with Agent.open(copy) as copied, Agent.open(source) as agent:
        assert state_of(copied) == state_of(agent)
        assert copied.explore == 0.25
        assert [d.arm for d in choices(copied, 20)] == [d.arm for d in choices(agent, 20)]


@pytest.mark.any_store
@pytest.mark.parametrize("explore", [-0.1, 1.01, True, "0.1", float("nan"), None])
def test_a_share_that_is_none_is_refused(tmp_path, explore):
    message = "explore must be a share of decisions from 0 to 1, e.g. 0.02, got"
    if explore is not None:
        assert_refuses(InvalidValueError, message, Agent.create, tmp_path / "a.db", dim=4, explore=explore)
    agent = Agent.create(tmp_path / "b.db", dim=4)
    assert_refuses(InvalidValueError, message, agent.set_explore, explore)
    assert agent.status()["policy_version"] == 1


@pytest.mark.any_store
def test_without_exploration_no_arm_but_the_best_is_chosen(tmp_path):
    agent, _, _ = played(tmp_path / "a.db", policy=adadim.Greedy())
    assert len({(decision.arm, decision.probability) for decision in choices(agent, 100)}) == 1
    for arms in offers(3):
        assert agent.ask(arms).probability == 1.0
