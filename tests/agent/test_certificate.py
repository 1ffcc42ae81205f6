"""`Agent.certificate`: a bound on the regret of what is in the log, by hand, with late rewards, costs and slates."""

import numpy as np
import pytest

import adadim
from refusals import assert_refuses

ARMS = {"red": [1.0, 0.0], "blue": [0.0, 1.0], "green": [0.8, 0.6]}
THETA = np.array([0.9, 0.2])


class Clock:
    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        self.time += 1.0
        return self.time


def made(path, **options):
    return adadim.Agent.create(path / "agent.db", dim=2, clock=Clock(), **{"noise": 0.2, **options})


def value(arm):
    return float(np.dot(ARMS[arm], THETA))


def by_hand(rounds, noise=0.2, delta=0.01):
    """The sum of gaps of (arms, chosen features, features and rewards known by then) and the last intervals."""
    dim, ridge, longest, total = 2, 2.5 * 2 * noise**2, 0.0, 0.0
    for arms, chosen, known in rounds:
        longest = max(longest, np.linalg.norm(arms, axis=1).max())
        second = ridge * np.eye(dim) + sum((np.outer(x, x) for x, _ in known), np.zeros((dim, dim)))
        inverse = np.linalg.inv(second)
        theta = inverse @ sum((y * x for x, y in known), np.zeros(dim))
        gamma = np.linalg.slogdet(second)[1] - dim * np.log(ridge)
        radius = np.sqrt(noise**2 * (gamma + 2 * np.log(1 / delta)) + ridge)
        width = radius * np.sqrt(np.einsum("kd,de,ke->k", arms, inverse, arms))
        upper, lower = arms @ theta + width, arms @ theta - width
        total += min(2 * longest, upper.max() - lower[chosen])
    return total, lower, upper


def test_the_log_is_replayed_as_it_was(tmp_path):
    """With rewards that come two decisions late, of which one is corrected at once."""
    rng, pending, told, rounds = np.random.default_rng(0), [], [], []
    x = np.array(list(ARMS.values()))
    with made(tmp_path) as agent:
        for _ in range(25):
            known = [(f, y) for f, y in told]
            decision = agent.ask(ARMS)
            chosen = list(ARMS).index(decision.arm)
            rounds.append((x, chosen, known))
            pending.append((decision, x[chosen]))
            if len(pending) > 2:
                late, features = pending.pop(0)
                reward = value(late.arm) + 0.2 * rng.standard_normal()
                agent.tell(late.id, reward if len(told) != 3 else 50.0)
                if len(told) == 3:
                    agent.correct(late.id, reward)
                told.append((features, reward))
        certificate = agent.certificate(ARMS)
    expected, _, _ = by_hand(rounds)
    _, lower, upper = by_hand([(x, 0, told)])
    assert certificate.rounds == 25
    assert certificate.regret_at_most == pytest.approx(expected)
    assert certificate.largest_possible == pytest.approx(50)
    assert certificate.can_be_best == tuple(np.array(list(ARMS))[upper >= lower.max()])
    assert certificate.promised == np.inf
    assert certificate.overruled == 0


def test_the_bound_holds_and_becomes_useful(tmp_path):
    rng, regret = np.random.default_rng(1), 0.0
    with made(tmp_path, policy=adadim.Random()) as agent:
        agent.set_arms(ARMS)
        assert str(agent.certificate()).startswith("Says nothing yet: there is no decision so far. 3 of 3 arms")
        decisions = agent.ask_many([None] * 3)
        regret += sum(0.9 - value(one.arm) for one in decisions)
        assert "With 2 features it will at about" in str(agent.certificate())
        agent.tell_many({one.id: value(one.arm) + 0.2 * rng.standard_normal() for one in decisions})
        for _ in range(10):
            decisions = agent.ask_many([None] * 60)
            regret += sum(0.9 - value(one.arm) for one in decisions)
            agent.tell_many({one.id: value(one.arm) + 0.2 * rng.standard_normal() for one in decisions})
            certificate = agent.certificate()
            assert regret <= certificate.regret_at_most <= certificate.largest_possible
            assert "red" in certificate.can_be_best
        assert not certificate.says_nothing
        assert "blue" not in certificate.can_be_best


def test_silence_counts_from_the_time_out_on_and_so_does_everything_else(tmp_path):
    """A click that comes at once says nothing before the time-out: only clicks come before it."""
    clock = Clock()
    with adadim.Agent.create(
        tmp_path / "agent.db", dim=2, clock=clock, expire_after=1000.0, expired_reward=0.0
    ) as agent:
        for _ in range(30):
            agent.tell(agent.ask(ARMS).id, 1.0)
        bounded = {"reward_bounds": (0.0, 1.0)}
        assert agent.certificate(ARMS, **bounded).says_nothing
        assert len(agent.certificate(ARMS, **bounded).can_be_best) == 3
        clock.time += 5000.0
        agent.ask(ARMS)
        before = agent.certificate(ARMS, **bounded)
        assert before.rounds == 31
        assert before.regret_at_most < 31


def test_contexts_the_catalogue_and_its_costs(tmp_path):
    rng = np.random.default_rng(2)
    with adadim.Agent.create(tmp_path / "agent.db", context=["hour"], arm=["price"], noise=0.1, clock=Clock()) as agent:
        agent.set_arm("cheap", [0.1])
        agent.set_arm("dear", [0.9], cost=0.2)
        contexts = rng.uniform(0, 1, (40, 1))
        decisions = agent.ask_many(contexts)
        agent.tell_many({one.id: 0.3 + 0.01 * rng.standard_normal() for one in decisions})
        assert agent.certificate().can_be_best is None  # of which context?
        with_context = agent.certificate(context=[0.5])
        assert with_context.arms == 2
        assert with_context.rounds == 40
        assert 0 < with_context.regret_at_most <= with_context.largest_possible


def test_a_slate_is_a_decision_for_each_slot(tmp_path):
    with made(tmp_path) as agent:
        slate = agent.ask(ARMS, slots=2)
        agent.tell(slate.id, {arm: value(arm) for arm in slate.arms})
        assert agent.certificate().rounds == 2


def test_features_that_were_added_are_0_in_earlier_decisions(tmp_path):
    with adadim.Agent.create(tmp_path / "agent.db", context=0, arm=["a"], noise=0.1, clock=Clock()) as agent:
        agent.set_arms({"one": [0.1], "two": [0.5]})
        agent.tell(agent.ask().id, 0.2)
        agent.replace_features(arm=["a", "b"])
        agent.set_arms({"one": [0.1, 0.3], "two": [0.5, 0.2]})
        agent.tell(agent.ask().id, 0.2)
        assert agent.certificate().rounds == 2


def test_what_is_refused(tmp_path):
    with adadim.Agent.create(tmp_path / "plain.db", dim=2) as agent:
        agent.ask(ARMS)
        assert_refuses(ValueError, "noise", agent.certificate)
        assert agent.certificate(reward_bounds=(0, 1)).rounds == 1
        assert_refuses(ValueError, "theta_norm", lambda: agent.certificate(theta_norm=-1))
        assert_refuses(ValueError, "reward_bounds", lambda: agent.certificate(reward_bounds=(1, 0)))
    with adadim.Agent.create(tmp_path / "drift.db", dim=2, noise=0.1, memory=100) as agent:
        assert_refuses(ValueError, "rewards drift", agent.certificate)
    with adadim.Agent.create(tmp_path / "chosen.db", dim=2, noise=0.1, keep="chosen") as agent:
        agent.ask(ARMS)
        assert_refuses(ValueError, 'keep="all"', agent.certificate)
