"""What several callers ask and tell at the same time, in one transaction; and batches beside single questions."""

import multiprocessing
import threading
import time
from collections import Counter

import numpy as np
import pytest

import adadim
from adadim.agent import Agent, AskCall, TellCall
from adadim.agent.log import LoggedDecision, Reward
from adadim.agent.tables import TableLog
from adadim.errors import DecisionError, FileError, InvalidValueError, UnknownDecisionError
from agent_runs import decider_of, failing_writes, model_of, scores_by

ARTICLES = {f"article {k}": row for k, row in enumerate(np.random.default_rng(0).normal(size=(12, 6)) / 3)}
HOMEPAGE = {"context": 4, "arm": 6, "features": adadim.Features(products=3, own=5), "clock": lambda: 1e9}
POLICIES = {
    "recommended": None,
    "one exponent": adadim.EvidenceLinUCB(),
    "LinUCB": adadim.LinUCB(),
    "oful": adadim.LinUCB(radius="oful"),
    "lowest": adadim.TaperedLinUCB(ties="lowest"),
    "Greedy": adadim.Greedy(dim=7),
    "LinTS": adadim.LinTS(),
    "Random": adadim.Random(),
}


def visitors(count, seed):
    return np.random.default_rng(seed).normal(size=(count, 4)) / 2


def of(decision):
    return decision.id, decision.arm, decision.policy


def reward(decision):
    return float(ARTICLES[decision.arm][0] + np.sin(decision.id))


@pytest.fixture
def agent(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=2, policy=adadim.LinUCB(), noise=1.0)
    agent.set_arms({"x": [1.0, 0.0], "y": [0.0, 1.0]})
    yield agent
    agent.close()


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_batches_decide_what_single_questions_would(tmp_path, policy):
    one, many = (Agent.create(tmp_path / n, **HOMEPAGE, policy=policy, noise=0.5, seed=3) for n in ("1.db", "2.db"))
    for agent in (one, many):
        agent.set_arms(ARTICLES, costs={"article 3": 0.02})
    for step, count in enumerate((1, 15, 20, 2, 30)):  # the first ones before any reward
        users = visitors(count, step)
        singly, together = [one.ask(context=user) for user in users], many.ask_many(users)
        assert [of(d) for d in together] == [of(d) for d in singly]
        assert [d.probability for d in together] == pytest.approx([d.probability for d in singly], abs=1e-12)
        answers = {d.id: reward(d) for d in singly[:: step % 2 + 1]}
        assert one.tell_many(answers) == many.tell_many(answers)
    assert many.rebuild() < 1e-9
    many.close()
    with Agent.open(tmp_path / "2.db", clock=HOMEPAGE["clock"]) as opened:  # from its log alone
        users = visitors(5, 9)
        assert [of(d) for d in opened.ask_many(users)] == [of(one.ask(context=user)) for user in users]


def test_a_batch_larger_than_what_is_made_at_once(tmp_path, monkeypatch):
    one, many = (Agent.create(tmp_path / name, **HOMEPAGE) for name in ("1.db", "2.db"))
    for agent in (one, many):
        agent.set_arms(ARTICLES)
        agent.tell_many({d.id: reward(d) for d in agent.ask_many(visitors(20, 1))})
    expected = [of(d) for d in one.ask_many(visitors(30, 2))]
    monkeypatch.setattr("adadim.agent.policy.PORTION_BYTES", 8 * one.dim * len(ARTICLES) * 4)  # four rounds
    assert [of(d) for d in many.ask_many(visitors(30, 2))] == expected


def test_features_far_larger_than_before_start_the_learner_again(tmp_path):
    one, many = (Agent.create(tmp_path / name, dim=3) for name in ("1.db", "2.db"))
    for agent in (one, many):
        agent.set_arms({"a": [1.0, 0.2], "b": [0.3, 1.0]})
        agent.tell_many({d.id: float(d.id % 3) for d in agent.ask_many([[0.1]] * 9)})
    contexts = [[0.1], [0.2], [500.0], [0.1], [7000.0], [0.3], [0.1]]  # beyond ten times what has a reward
    singly = [one.ask(context=context) for context in contexts]
    before = model_of(many).version
    assert [of(d) for d in many.ask_many(contexts)] == [of(d) for d in singly]
    assert model_of(many).version > before + 1
    assert many.rebuild() < 1e-9


def test_a_tie_is_broken_by_the_number_of_the_decision(tmp_path):
    twins = {"left": [1.0, 0.0], "right": [1.0, 0.0], "worse": [-1.0, 0.0]}
    one, many = (Agent.create(tmp_path / name, dim=2, seed=5) for name in ("1.db", "2.db"))
    for agent in (one, many):
        agent.tell_many({agent.ask({"a": [1.0, 0.1]}).id: 1.0, agent.ask({"b": [-1.0, 0.1]}).id: -1.0})
    singly, together = [one.ask(twins) for _ in range(20)], many.ask_many([None] * 20, twins)
    assert [of(d) for d in together] == [of(d) for d in singly]
    assert {d.arm for d in together} == {"left", "right"}
    assert {d.probability for d in together} == {0.5}


# Several callers


def test_calls_of_several_are_done_together(agent):
    first = agent.ask()
    calls = [AskCall([None] * 2), TellCall([(first.id, 1.0)]), AskCall([None], {"z": [0.5, 0.5]}), AskCall([])]
    made, told, other, none = agent.ask_and_tell(calls)
    assert ([d.id for d in made], told, [d.id for d in other], none) == ([2, 3], 1, [4], [])
    assert other[0].arm == "z"
    assert (agent.status()["decisions"], agent.status()["rewards"]) == (4, 1)


def test_they_are_one_transaction(agent, monkeypatch):
    first, begun = agent.ask(), []
    transaction = TableLog.transaction

    def counting(log, write=True):
        begun.append(write)
        return transaction(log, write)

    monkeypatch.setattr(TableLog, "transaction", counting)
    agent.ask_and_tell([AskCall([None]), TellCall([(first.id, 1.0)]), AskCall([None] * 3)])
    assert begun.count(True) == 1


def test_one_that_is_wrong_fails_alone(agent):
    ids = [agent.ask().id for _ in range(3)]
    agent.tell(ids[2], 1.0)
    results = agent.ask_and_tell(
        [
            AskCall([None], ["nothing"]),
            TellCall([(ids[0], 1.0), (99, 1.0)]),  # all or none: the first is not written either
            AskCall([None]),
            TellCall([(ids[2], 2.0)]),
            TellCall([(ids[1], 0.25)]),
            TellCall([(ids[1], 0.25)]),
            TellCall([(ids[1], 0.5)]),
            TellCall([("one", 1.0)]),
            AskCall([[1.0]], single=True),
        ]
    )
    kinds = [type(result) for result in results]
    errors = [InvalidValueError, UnknownDecisionError, list, DecisionError, int, int, DecisionError]
    assert kinds == [*errors, InvalidValueError, InvalidValueError]
    assert (results[4], results[5], results[2][0].id) == (1, 0, 4)
    assert agent.status()["rewards"] == 2
    assert agent.rebuild() == 0.0


def test_a_defect_met_by_one_leaves_the_others_alone(agent, monkeypatch):
    chosen = decider_of(agent).choose_in_turn

    def failing(rounds, *given):
        if any("bad" in one.names for one in rounds):
            raise ZeroDivisionError("a defect")
        return chosen(rounds, *given)

    monkeypatch.setattr(decider_of(agent), "choose_in_turn", failing)
    made, bad, other = agent.ask_and_tell([AskCall([None]), AskCall([None], {"bad": [1.0, 1.0]}), AskCall([None])])
    assert (made[0].id, type(bad), other[0].id) == (1, ZeroDivisionError, 2)
    assert agent.status()["decisions"] == 2


def test_a_disk_that_fails_is_told_to_all_and_nothing_is_written(agent, monkeypatch):
    first = agent.ask()
    with monkeypatch.context() as patched:
        failing_writes(patched, Reward, FileError("disk is full"))
        results = agent.ask_and_tell([AskCall([None]), TellCall([(first.id, 1.0)])])
    assert [type(result) for result in results] == [FileError, FileError]
    assert (agent.status()["decisions"], agent.status()["rewards"]) == (1, 0)
    assert agent.ask_and_tell([AskCall([None])])[0][0].id == 2


def test_rewards_are_taken_in_once_and_before_the_next_decision(agent, monkeypatch):
    learner = decider_of(agent).prepare(1)
    restarts, restart = [], learner.restart

    def counting(sums):
        restarts.append(sums.weight)
        restart(sums)

    monkeypatch.setattr(learner, "restart", counting)
    ids = [d.id for d in agent.ask_many([None] * 4)]
    restarts.clear()
    agent.ask_and_tell([TellCall([(id, 1.0)]) for id in ids])
    agent.refresh()
    agent.refresh()
    agent.ask()
    assert restarts == [4.0]


def ask_and_tell_in(path, seed, results):
    with Agent.open(path) as agent:
        made, waiting = [], []
        for step in range(12):
            calls = [AskCall(list(visitors(3, 100 * seed + step))), AskCall(list(visitors(1, 1000 * seed + step)))]
            tells = [TellCall([(decision.id, reward(decision))]) for decision in waiting]
            first, second, *told = agent.ask_and_tell(calls + tells)
            assert told == [1] * len(tells)
            waiting = first + second
            made += [decision.id for decision in waiting]
    results.put(made)


@pytest.mark.in_a_file
def test_several_processes_in_groups(tmp_path):
    path = tmp_path / "a.db"
    with Agent.create(path, **HOMEPAGE) as agent:
        agent.set_arms(ARTICLES)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=ask_and_tell_in, args=(path, seed, results)) for seed in (1, 2, 3)]
    for worker in workers:
        worker.start()
    made = sorted(id for _ in workers for id in results.get(timeout=120))
    for worker in workers:
        worker.join()
    assert made == list(range(1, 3 * 12 * 4 + 1))
    with Agent.open(path) as agent:
        assert agent.status()["rewards"] == 3 * 11 * 4
        assert agent.rebuild() < 1e-9


# Learners refreshed in the background


@pytest.fixture
def background(tmp_path, monkeypatch):
    """An agent whose refresh takes long: it waits until `go_on` is set."""
    agent = Agent.create(tmp_path / "b.db", dim=2, policy=adadim.LinUCB(), noise=1.0)
    agent.set_arms({"x": [1.0, 0.0], "y": [0.0, 1.0]})
    go_on, start = threading.Event(), adadim.LinUCB.start

    def slow(self, *arguments, **options):
        learner = start(self, *arguments, **options)
        if threading.current_thread().name.startswith("refresh"):
            assert go_on.wait(30)
        return learner

    monkeypatch.setattr(adadim.LinUCB, "start", slow)
    monkeypatch.setattr("adadim.agent.policy.REFRESH_SECONDS", 0.0)
    agent.enable_background_refresh()
    yield agent, go_on
    go_on.set()
    agent.close()


def wait_until_refreshed(agent):
    end = time.monotonic() + 30
    while pause := agent.refresh():
        assert time.monotonic() < end
        time.sleep(min(pause, 0.01))


def test_decisions_go_on_while_rewards_are_taken_in(background, tmp_path):
    agent, go_on = background
    first = agent.ask_many([None] * 6)
    agent.tell_many({d.id: 3.0 if d.arm == "y" else -3.0 for d in first})
    assert agent.refresh() > 0
    assert agent.is_behind
    made = agent.ask_many([None] * 4) + [agent.ask() for _ in range(4)]
    assert Counter(d.arm for d in made) == {"x": 4, "y": 4}  # by the widths, which count all of them
    go_on.set()
    wait_until_refreshed(agent)
    assert not agent.is_behind
    assert {agent.ask().arm for _ in range(3)} == {"y"}
    # The learner made in the background is the one that a fresh process finds in the log.
    agent.refresh()
    with Agent.open(tmp_path / "b.db") as fresh:
        arms = {"x": [1.0, 0.0], "y": [0.0, 1.0], "z": [0.6, 0.6]}
        ours, theirs = decider_of(agent).prepare(99), decider_of(fresh).prepare(99)
        table = np.array(list(arms.values()))
        assert np.allclose(scores_by(ours, table, 98), scores_by(theirs, table, 98), rtol=0, atol=1e-12)


def test_all_rewards_that_came_meanwhile_are_taken_in_at_once(background, monkeypatch):
    agent, go_on = background
    ids = [d.id for d in agent.ask_many([None] * 8)]
    agent.tell(ids[0], 1.0)
    agent.refresh()
    for id in ids[1:]:
        agent.tell(id, 1.0)
        agent.refresh()
    go_on.set()
    seen, restart = [], adadim.policies.linear.learner.LinearLearner.restart

    def counting(self, sums):
        seen.append(sums.weight)
        restart(self, sums)

    monkeypatch.setattr(adadim.policies.linear.learner.LinearLearner, "restart", counting)
    wait_until_refreshed(agent)
    assert seen[-1] == 8.0
    assert len(seen) <= 2  # the first one had begun before


def test_what_is_asked_of_the_model_never_lacks_rewards(background):
    agent, _ = background
    first = agent.ask_many([None] * 6)
    agent.tell_many({d.id: 1.0 for d in first})
    agent.refresh()
    assert agent.describe()["learner"]["pulls"] == 6
    assert agent.estimate()["x"][0] > 0.5


def test_another_policy_or_a_failed_batch_ends_what_is_under_way(background, monkeypatch):
    agent, go_on = background
    first = agent.ask_many([None] * 6)
    agent.tell_many({d.id: 1.0 for d in first})
    agent.refresh()
    agent.replace_policy(adadim.LinUCB(radius=0.0))
    go_on.set()
    wait_until_refreshed(agent)
    assert agent.policy == adadim.LinUCB(radius=0.0)
    assert agent.describe()["learner"]["pulls"] == 6
    last = agent.ask()
    agent.tell(last.id, 1.0)
    agent.refresh()
    with monkeypatch.context() as patched:
        failing_writes(patched, LoggedDecision, FileError("disk is full"))
        with pytest.raises(FileError):
            agent.ask_many([None] * 3)
    wait_until_refreshed(agent)
    assert agent.ask().id == 8
    assert agent.describe()["learner"]["pulls"] == 7
    assert agent.rebuild() < 1e-12


def test_an_error_in_the_background_is_met_by_the_next_one(background, monkeypatch):
    agent, go_on = background
    agent.tell_many({d.id: 1.0 for d in agent.ask_many([None] * 6)})
    agent.refresh()

    def failing(self, sums):
        raise InvalidValueError("no such model")

    with monkeypatch.context() as patched:
        patched.setattr(adadim.policies.linear.learner.LinearLearner, "restart", failing)
        go_on.set()
        decider_of(agent)._background_refresh.learner.exception(30)
        with pytest.raises(InvalidValueError, match="no such model"):
            agent.ask()
    assert agent.ask().id == 7
