"""Asking and telling: what is chosen, with which probability, and what a reward told twice does.

That an agent in PostgreSQL chooses what one in a file does is shown in test_agent_postgres.py.
"""

import numpy as np
import pytest

import adadim
from adadim import Agent, DecisionError, UnknownDecisionError
from agent_runs import Hands, numbers, offers, played, ridge, state_of
from refusals import assert_refuses

ARMS = {"a": [1.0, 0.0, 0.0, 0.0], "b": [0.2, 1.0, 0.0, 0.5], "c": [-1.0, 0.3, 0.8, 0.0]}
POLICIES = [adadim.EvidenceLinUCB(), adadim.LinUCB(), adadim.LinUCB(radius="oful"), adadim.TaperedLinUCB()]
POLICIES += [adadim.EvidenceLinUCB(taper=(0.0, 0.9, 1.75), intercept=True, probes=2)]
POLICIES += [adadim.Greedy(), adadim.LinTS(), adadim.Random()]


@pytest.mark.any_store
def test_every_choice_is_that_of_the_textbook(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=adadim.LinUCB(ridge=0.5, radius=0.7), noise=0.3)
    features, rewards, rng = np.zeros((0, 4)), np.zeros(0), np.random.default_rng(5)
    for arms in offers(60):
        v, theta = ridge(features, rewards, 0.5)
        table = np.array(list(arms.values()))
        widths = np.sqrt(np.einsum("ij,jk,ik->i", table, np.linalg.inv(v), table))
        decision = agent.ask(arms)
        assert decision.arm == f"arm {np.argmax(table @ theta + 0.7 * widths)}"
        assert decision.probability == 1.0
        assert np.allclose(numbers(agent.estimate(arms)), np.stack([table @ theta, 0.3 * widths], axis=1))
        features, rewards = np.vstack([features, arms[decision.arm]]), np.append(rewards, rng.normal())
        assert agent.tell(decision.id, reward=rewards[-1])


def test_costs_are_subtracted_from_scores(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=adadim.Greedy(ridge=0.1))
    agent.learn([{"features": ARMS["a"], "reward": 1.0}, {"features": ARMS["b"], "reward": 0.9}])
    estimates = agent.estimate(ARMS)
    gap = estimates["a"][0] - estimates["b"][0]
    assert gap > 0
    assert agent.ask(ARMS).arm == "a"
    assert agent.ask(ARMS, costs={"a": gap * 0.99}).arm == "a"
    assert agent.ask(ARMS, costs={"a": gap * 1.01}).arm == "b"
    assert agent.estimate(ARMS) == estimates


@pytest.mark.any_store
def test_probabilities_of_ties_and_of_random_choices(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=2, policy=adadim.LinUCB(radius=1.0))
    decision = agent.ask({"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.1, 0.1]})
    assert decision.arm in "ab"
    assert decision.probability == 0.5
    agent.replace_policy(adadim.LinUCB(radius=1.0, ties="lowest"))
    twins = {"a": [1.0, 0.5], "b": [1.0, 0.5]}
    assert [agent.ask(twins).arm for _ in range(5)] == ["a"] * 5
    assert agent.ask(twins).probability == 1.0
    agent.replace_policy(adadim.Random())
    drawn = [agent.ask({name: [1.0, 0.0] for name in "abcde"}, costs={"a": 9.0}) for _ in range(400)]
    assert {decision.probability for decision in drawn} == {0.2}
    counts = [sum(decision.arm == name for decision in drawn) for name in "abcde"]
    assert min(counts) > 50  # of 80: P(below) < 0.0001


@pytest.mark.any_store
def test_thompson_sampling_chooses_as_often_as_it_says(tmp_path):
    clock = Hands()
    options = {"noise": 1.0, "expire_after": 1.0, "clock": clock}
    agent = Agent.create(tmp_path / "a.db", dim=2, policy=adadim.LinTS(ridge=1.0), **options)
    agent.learn(([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.2]))
    arms = {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    drawn = []
    for _ in range(300):
        drawn.append(agent.ask(arms))
        clock.now += 2.0  # it expires, or the next draw would be narrower
    # theta_a - theta_b ~ N(0.5 - 0.1, 1/2 + 1/2)
    truth = 0.6554
    stated = np.array([d.probability if d.arm == "a" else 1 - d.probability for d in drawn])
    assert abs(np.mean([d.arm == "a" for d in drawn]) - truth) < 4 * np.sqrt(truth * (1 - truth) / 300)
    assert np.abs(stated - truth).max() < 5 * np.sqrt(truth * (1 - truth) / 1000)
    twins = agent.ask({"a": [1.0, 0.0], "same": [1.0, 0.0]})
    assert twins.probability == 0.5


@pytest.mark.parametrize("policy", [adadim.Random(), adadim.LinTS()], ids=repr)
def test_randomness_belongs_to_the_number_of_the_decision(tmp_path, policy):
    def chosen(name, processes, seed):
        first = Agent.create(tmp_path / name, dim=4, policy=policy, noise=0.3, seed=seed)
        agents = [first, *(Agent.open(tmp_path / name) for _ in range(processes - 1))]
        return [
            (decision.arm, decision.probability) for decision in (agents[i % processes].ask(ARMS) for i in range(40))
        ]

    alone = chosen("one.db", 1, 3)
    assert chosen("three.db", 3, 3) == alone
    assert chosen("other.db", 1, 4) != alone
    assert len({arm for arm, _ in alone}) == 3


def test_a_reward_told_twice_counts_once_and_another_is_refused(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4)
    decision = agent.ask(ARMS)
    assert agent.tell(decision.id, reward=0.25) is True
    before = agent.estimate(ARMS)
    assert agent.tell(decision.id, reward=0.25) is False
    assert_refuses(DecisionError, "has the reward 0.25 already, got 0.5; correct", agent.tell, decision.id, 0.5)
    assert agent.estimate(ARMS) == before
    assert agent.status()["rewards"] == 1
    assert_refuses(UnknownDecisionError, "there is no decision 99; the last one is 1", agent.tell, 99, 1.0)


def test_many_are_told_all_or_none(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4)
    ids = [agent.ask(ARMS).id for _ in range(4)]
    assert_refuses(UnknownDecisionError, "no decision 77", agent.tell_many, [(ids[0], 1.0), (77, 1.0)])
    assert agent.status()["rewards"] == 0
    assert agent.tell_many([(ids[0], 1.0), (ids[1], 0.0)]) == 2
    assert agent.tell_many({ids[1]: 0.0, ids[2]: 0.5}) == 1
    assert state_of(agent) | {"rewards": 3, "outstanding": 1, "decisions": 4} == state_of(agent)


@pytest.mark.any_store
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_every_policy_that_can_play_learns(tmp_path, policy):
    agent, _, rewards = played(tmp_path / "a.db", count=120, policy=policy, noise=0.3)
    mean, width = agent.estimate({"good": [1.0, -0.5, 0.0, 0.0]})["good"]
    assert abs(mean - 1.25) < 0.3
    assert 0 < width < 0.2
    assert (rewards[60:].mean() > 1.0) == (policy != adadim.Random())
    assert agent.describe()["rewards"] == 120


REFUSED = [
    (adadim.SmoothCorral(base=adadim.LinUCB()), "an agent cannot play SmoothCorral: "),
    (adadim.LinUCBPlusPlus(), "an agent cannot play LinUCBPlusPlus: "),
    (adadim.Corral(bases=(adadim.LinUCB(), adadim.Random())), "it needs each reward before its next decision"),
    (adadim.MOSS(), "an agent cannot play MOSS: "),
    (adadim.UCB(), "an agent cannot play UCB: this policy knows arms by their number"),
]


@pytest.mark.any_store
@pytest.mark.parametrize(("policy", "message"), REFUSED, ids=lambda value: type(value).__name__)
def test_policies_that_cannot_play_are_refused_in_one_sentence(tmp_path, policy, message):
    assert_refuses(ValueError, message, Agent.create, tmp_path / "a.db", dim=4, policy=policy, noise=0.1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.any_store
def test_a_policy_that_needs_the_noise_says_so(tmp_path):
    for policy in (adadim.LinUCB(), adadim.LinTS(), adadim.TaperedLinUCB(size=1.0)):
        words = f"{type(policy).__name__} needs to know the noise: give noise="
        assert_refuses(ValueError, words, Agent.create, tmp_path / "a.db", dim=4, policy=policy)
