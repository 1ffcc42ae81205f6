"""A decision is a value: asked for now, answered later, in any order, or never."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.errors import DecisionError, ForeignArmError, InvalidTypeError, InvalidValueError, NotSelectedError
from recorded_policies import POLICIES, in_numpy, on_torch

LATE = [name for name, policy in POLICIES.items() if policy.start(in_numpy().problem).takes_late_rewards]
ANY_ARM = [name for name, policy in POLICIES.items() if policy.start(in_numpy().problem).takes_any_arm]


def rewards_of(instance, arms, t):
    """Rewards that depend on the arm and the number of the decision alone, so that order does not matter to them."""
    noise = np.random.default_rng(t).standard_normal(len(instance.problem))
    return np.asarray(instance.means)[np.arange(len(instance.problem)), np.asarray(arms)] + 0.1 * noise


def test_who_can_wait():
    kinds = {type(POLICIES[name]).__name__ for name in LATE}
    assert kinds >= {"LinUCB", "UCB", "Random", "Greedy", "TaperedLinUCB", "EvidenceLinUCB", "SupLinUCB"}
    assert not kinds & {
        "LinUCBPlusPlus",
        "LinUCBPlusPlusCorral",
        "SmoothCorral",
        "Corral",
        "DynamicBalancing",
        "Single",
    }


@pytest.mark.parametrize("name", POLICIES)
def test_ask_and_tell_are_select_and_update(name):
    instance = in_numpy()
    one, other = (POLICIES[name].start(instance.problem, seed=2) for _ in range(2))
    for t in range(50):  # over the ends of iterations, after rounds 16 and 48
        decision, arms = one.ask(), other.select()
        assert decision.number == t
        assert decision.arms.tolist() == arms.tolist()
        rewards = rewards_of(instance, arms, t)
        one.tell(decision, rewards)
        other.update(arms, rewards)
    assert one.describe() == other.describe()


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", LATE)
def test_the_order_of_late_answers_does_not_matter(name, library, request):
    """Decisions open at once, answered in three orders: the same means and the same next choice.

    After 32 rounds in all, when EvidenceLinUCB has just taken stock of everything.
    """
    if library == "torch":
        request.getfixturevalue("torch")
    instance = in_numpy() if library == "numpy" else on_torch()
    ends = []
    for order in (range(22), reversed(range(22)), np.random.default_rng(5).permutation(22)):
        learner = POLICIES[name].start(instance.problem, seed=2)
        for t in range(10):
            arms = learner.select()
            learner.update(arms, rewards_of(instance, arms, t).tolist())
        decisions = [learner.ask() for _ in range(22)]
        for t in list(order):
            learner.tell(decisions[t], rewards_of(instance, decisions[t].arms, 10 + t).tolist())
        posterior = getattr(learner, "posterior", None)
        means = [] if posterior is None else np.asarray(posterior.mean)
        ends.append((means, learner.select().tolist(), [row.get("pulls") for row in learner.describe()]))
    for means, chosen, pulls in ends[1:]:
        np.testing.assert_allclose(means, ends[0][0], rtol=0, atol=1e-9)
        assert pulls == ends[0][2]
        assert chosen == ends[0][1]


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in LATE])
@pytest.mark.parametrize("first", ["ask", "select"])
@pytest.mark.parametrize("second", ["ask", "select"])
def test_those_that_cannot_wait_say_so(name, first, second):
    learner = POLICIES[name].start(in_numpy().problem)
    getattr(learner, first)(rows=[0, 2])
    with pytest.raises(
        DecisionError, match=r"\w+ makes one decision at a time, since .* of replication 2 is not known"
    ):
        getattr(learner, second)(rows=[1, 2])
    getattr(learner, second)(rows=[1])  # another replication is another matter


def test_the_memo_holds_what_the_makers_need():
    problem = in_numpy().problem

    def memo(policy, rounds=0):
        learner = policy.start(problem)
        for _ in range(rounds):
            learner.update(learner.select(), [0.1, 0.2, 0.3])
        return {key: values.shape for key, values in learner.ask().memo.items()}

    assert memo(adadim.LinUCB()) == {}
    assert memo(adadim.SupLinUCB()) == {"level": (3,)}
    assert memo(adadim.LinUCBPlusPlus()) == {"choice": (3,)}
    assert memo(adadim.SmoothCorral()) == {"base": (3,)}
    assert memo(adadim.SmoothCorral(), rounds=1) == {}  # the replay is of the same base
    three = (adadim.UCB(), adadim.SupLinUCB(), adadim.Random())
    weights = adadim.Corral(bases=three, feedback="importance")
    expected = {"base": (3,), "probability": (3,), "proposed": (3, 3), "1.level": (3,)}
    assert memo(weights) == expected


def test_a_decision_is_answered_once():
    learner = adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    decision = learner.ask()
    learner.tell(decision, 0.5)
    with pytest.raises(DecisionError, match="decision 0 was answered already, or another learner made it"):
        learner.tell(decision, 0.5)
    with pytest.raises(DecisionError, match="decision 3 was answered already, or another learner made it"):
        learner.tell(3, 0.5)
    for other in ("0", 0.0, True, None):
        with pytest.raises(InvalidTypeError, match=r"tell needs a decision that ask\(\) gave, or its id, got "):
            learner.tell(other, 0.5)
    assert learner.describe()["pulls"] == 1


def test_a_decision_may_be_named_by_its_id():
    one, other = (adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=9, noise=0.1)) for _ in range(2))
    for learner, named in ((one, lambda decision: decision), (other, lambda decision: np.int64(decision.id))):
        first, second, third = (learner.ask() for _ in range(3))
        learner.tell(named(second), 0.2)
        learner.forget(named(first))
        learner.tell(named(third), 0.4)
    assert one.describe() == other.describe()
    assert one.describe()["pulls"] == 2


def test_a_bad_reward_leaves_the_decision_open():
    learner = adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    decision = learner.ask()
    for bad in (np.nan, "much", [0.1, 0.2], None):
        with pytest.raises((InvalidValueError, InvalidTypeError), match="rewards"):
            learner.tell(decision, bad)
    learner.tell(decision, 0.5)
    assert learner.describe()["pulls"] == 1


def test_some_replications_at_a_time():
    """`update` takes any of the replications that were asked for, in any order; what is left stays open."""
    problem = in_numpy().problem
    learner, whole = (adadim.SupLinUCB().start(problem, seed=1) for _ in range(2))
    for t in range(12):
        arms = learner.select()
        assert whole.select().tolist() == arms.tolist()
        rewards = np.array([0.1 * t, -0.2, 0.3])
        whole.update(arms, rewards)
        learner.update(arms[[2, 0]], rewards[[2, 0]], rows=[2, 0])
        with pytest.raises(NotSelectedError, match="replication 0 has no open decision"):
            learner.update(arms[[1, 0]], [0.0, 0.0], rows=[1, 0])
        learner.update(arms[[1]], rewards[[1]], rows=[1])
    assert learner.describe() == whole.describe()


def test_parts_of_two_decisions_are_answered_together():
    problem = in_numpy().problem
    learner = adadim.LinUCB().start(problem)
    first, second = learner.select(rows=[0, 1]), learner.select(rows=[2])
    learner.update([first[1], second[0]], [0.1, 0.2], rows=[1, 2])
    assert learner.model.regression.pulls.tolist() == [0, 1, 1]
    learner.update(first[:1], [0.3], rows=[0])
    with pytest.raises(NotSelectedError):
        learner.update(first[:1], [0.3], rows=[0])


def test_selecting_again_forgets_the_first_choice():
    learner = adadim.LinUCB().start(in_numpy().problem)
    learner.select()
    again = learner.select(rows=[1])
    learner.update(again, [0.1], rows=[1])
    with pytest.raises(NotSelectedError, match="replication 1"):
        learner.update(again, [0.1], rows=[1])


# Logged data


@pytest.mark.parametrize("name", ANY_ARM)
def test_logged_pulls_are_learned_as_if_played(name):
    instance = in_numpy()
    played, logged, at_once = (POLICIES[name].start(instance.problem, seed=4) for _ in range(3))
    arms, rewards = [], []
    for t in range(25):
        chosen = played.select()
        arms.append(chosen)
        rewards.append(rewards_of(instance, chosen, t))
        played.update(chosen, rewards[-1])
        logged.learn(chosen, rewards[-1])
    at_once.learn(np.stack(arms, axis=1), np.stack(rewards, axis=1))
    assert learned(logged) == learned(played) == learned(at_once)


def learned(learner):
    """What a learner says of the data, without what it says of its own decisions: logged ones are not among them."""
    own = ("overruled", "regret_at_most", "effective_draws", "active_priors", "rounds_of_each_prior")
    own += ("radius_probabilities", "model_probabilities")
    return [{key: value for key, value in row.items() if key not in own} for row in learner.describe()]


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ANY_ARM])
def test_those_that_need_their_own_choices_refuse_logged_pulls(name):
    learner = POLICIES[name].start(in_numpy().problem)
    with pytest.raises(ForeignArmError, match=r"learns only from the arms it chose, so it cannot learn from logged"):
        learner.learn([0, 0, 0], [0.1, 0.1, 0.1])


def test_logs_that_do_not_fit():
    learner = adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    learner.learn([0, 1, 1], [0.1, 0.2, 0.3])
    assert learner.describe()["pulls"] == 3
    learner.learn(2, 0.5)
    with pytest.raises(InvalidValueError, match=r"arms and rewards must have one shape, got \(2,\) and \(3,\)"):
        learner.learn([0, 1], [0.1, 0.2, 0.3])
    with pytest.raises(InvalidValueError, match=r"arms must be in 0..2, got 7"):
        learner.learn([7], [0.1])
    with pytest.raises(InvalidTypeError, match="arms must be numbers, one per replication, got None"):
        learner.learn(None, [0.1])
    assert learner.describe()["pulls"] == 4


# Single problems


def test_numbers_in_numbers_out():
    instance = adadim.Instance(np.eye(3), theta=[0.1, 0.9, 0.2], horizon=50, noise=0.1)
    for policy in (adadim.UCB(), adadim.LinUCBPlusPlus(), adadim.SmoothCorral(), adadim.EvidenceLinUCB()):
        learner = policy.start(instance.problem)
        arm = learner.select()
        assert type(arm) is int
        learner.update(arm, 0.3)
        arm = learner.select()
        learner.update([arm], np.array([0.3]))  # arrays of length one are taken too
        decision = learner.ask()
        assert type(decision.arms) is int
        learner.tell(decision, 0.1)
        assert isinstance(learner.describe(), dict)
        outcome = adadim.simulate(policy, instance, record=10)
        assert (outcome.regret.shape, outcome.pulls.shape, np.ndim(outcome.final)) == ((10,), (3,), 0)


def test_a_replication_axis_of_one_stays():
    instance = adadim.Instance(np.eye(3)[None], theta=[0.1, 0.9, 0.2], horizon=50, noise=0.1)
    learner = adadim.UCB().start(instance.problem)
    assert learner.select().shape == (1,)
    assert adadim.simulate(adadim.UCB(), instance, record=10).regret.shape == (1, 10)


def test_single_problems_on_torch(torch):
    problem = adadim.Problem(torch.eye(3, dtype=torch.float64), horizon=20, noise=0.1)
    learner = adadim.LinUCB().start(problem)
    arm = learner.select()
    assert type(arm) is int
    learner.update(arm, 0.5)
    assert learner.describe()["pulls"] == 1
