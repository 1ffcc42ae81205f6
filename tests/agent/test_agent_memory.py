"""An agent that finds its memory: a function of its log, in the order of the rows of rewards."""

import hashlib
import sqlite3

import numpy as np
import pytest

import adadim
from adadim import Agent
from adadim.agent import stored_sums
from adadim.errors import FileError
from adadim.models.memory import AGE_STEP, BLOCK_REWARDS, HALF_LIVES, MemoryBank
from agent_runs import Hands, learner_of, model_of
from refusals import assert_refuses

DIM = 3
THETA = np.array([1.0, -0.5, 0.2])


def reward_of(number, x, turn, rng):
    return float((1.0 if number < turn else -1.0) * x @ THETA + 0.3 * rng.standard_normal())


def lived(path, clock, rounds=26, size=20, turn=260, **options):
    """An agent asked in batches whose rewards come up to three batches later; with what it was told, in that order."""
    agent = Agent.create(path, dim=DIM, memory="auto", clock=clock, **options)
    rng, waiting, told, features = np.random.default_rng(3), [], [], {}
    for _ in range(rounds):
        clock.now += 1.0
        arms = dict(zip("abcdef", rng.standard_normal((6, DIM)), strict=True))
        for decision in agent.ask_many([None] * size, arms):
            features[decision.id] = arms[decision.arm]
            waiting.append(decision.id)
        waiting = [waiting[at] for at in rng.permutation(len(waiting))]
        answered, waiting = waiting[: max(len(waiting) - 3 * size, 0)], waiting[max(len(waiting) - 3 * size, 0) :]
        answers = [(number, reward_of(number, features[number], turn, rng)) for number in answered]
        agent.tell_many(answers)
        told.extend(answers)
        agent.status()
    return agent, features, told, waiting


def drifting(path, **options):
    """An agent that uses a half-life: it learned of a world that turned round, but whose rewards did not fall."""
    agent, rng = Agent.create(path, dim=DIM, memory="auto", **options), np.random.default_rng(3)
    features = rng.standard_normal((512, DIM))
    agent.learn((features, np.array([reward_of(at, x, 380, rng) for at, x in enumerate(features)])))
    assert agent.status()["half_life"] is not None
    return agent


def bank_of(agent):
    agent.status()
    bank = model_of(agent).bank
    return bank.scores.tobytes(), bank.history, bank.epoch, [part[0].second.tobytes() for part in bank.sums]


def summed(features, told, waiting, half_life, last, start):
    """Weighted second moments of answered and of all decisions, and sum w r x, from scratch."""
    answered, every, moment = np.zeros((DIM, DIM)), np.zeros((DIM, DIM)), np.zeros(DIM)
    for number, reward in [*told, *((number, None) for number in waiting)]:
        steps = (last + 1) // AGE_STEP - number // AGE_STEP
        weight, x = 0.5 ** (steps * AGE_STEP / (half_life or np.inf)) * (number >= start), features[number]
        every += weight * np.outer(x, x)
        if reward is not None:
            answered += weight * np.outer(x, x)
            moment += weight * reward * x
    return answered, every, moment


def test_the_model_is_that_of_the_log_with_the_half_life_found(tmp_path):
    """And the same in every process, after a restart, a rebuild and a compaction."""
    clock = Hands()
    agent, features, told, waiting = lived(tmp_path / "a.db", clock)
    status, last = agent.status(), max(features)
    assert 260 <= status["world_changed"] <= 460
    start = model_of(agent).sums.fading.start
    assert (status["half_life"] in (250.0, 800.0, 2500.0)) != (260 <= start <= status["world_changed"])
    assert status["half_life_since"] >= status["world_changed"]
    described = agent.describe()
    assert [described[key] for key in ("memory", "half_life", "half_life_since", "world_changed")] == [
        "auto",
        *(status[key] for key in ("half_life", "half_life_since", "world_changed")),
    ]
    answered, every, moment = summed(features, told, waiting, status["half_life"], last, start)

    def check(who):
        sums = model_of(who).sums.at(last + 1)
        np.testing.assert_allclose(sums.second, answered, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(sums.pending.second, every, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(sums.moment, moment, rtol=1e-9, atol=1e-9)

    found = bank_of(agent)
    check(agent)
    other = Agent.open(tmp_path / "a.db", clock=clock)
    assert bank_of(other) == found
    check(other)
    assert other.rebuild() < 1e-9
    assert bank_of(other) == found
    assert agent.compact(before=1000.0 + 12.0) > 100
    for who in (agent, other, Agent.open(tmp_path / "a.db", clock=clock)):
        assert bank_of(who) == found
        check(who)
        assert who.rebuild() < 1e-9
        assert bank_of(who) == found
        check(who)
    other.tell_many((number, 0.5) for number in waiting)  # they fill another block
    assert bank_of(agent) == bank_of(other) != found
    assert agent.rebuild() < 1e-9
    assert bank_of(agent) == bank_of(other)


@pytest.mark.in_a_file
def test_a_log_without_its_snapshot_gives_the_same_before_and_after_compaction(tmp_path):
    clock = Hands()
    agent, *_ = lived(tmp_path / "a.db", clock)
    found = bank_of(agent)
    agent.close()
    for compacted in (False, True):
        if compacted:
            with Agent.open(tmp_path / "a.db", clock=clock) as again:
                assert again.compact(before=1000.0 + 9.0) > 50
        with sqlite3.connect(tmp_path / "a.db") as connection:
            assert connection.execute("DELETE FROM snapshot").rowcount == 1
        connection.close()
        again = Agent.open(tmp_path / "a.db", clock=clock)
        assert bank_of(again) == found
        again.close()


def test_the_rewards_of_one_call_in_many_calls(tmp_path):
    """How rewards are batched makes no difference, only their order."""
    found = []
    for size in (1, 130):
        rng = np.random.default_rng(1)
        agent = Agent.create(tmp_path / f"{size}.db", dim=DIM, memory="auto", policy=adadim.Random())
        arms = dict(zip("abcd", rng.standard_normal((4, DIM)), strict=True))
        decisions = agent.ask_many([None] * 130, arms)
        answers = [(d.id, reward_of(d.id, arms[d.arm], 65, rng)) for d in decisions]
        for start in range(0, 130, size):
            agent.tell_many(answers[start : start + size])
            agent.status()
        found.append(bank_of(agent))
    assert found[0] == found[1]


@pytest.mark.any_store
def test_corrections_also_huge_ones(tmp_path):
    clock = Hands()
    agent, features, told, waiting = lived(tmp_path / "a.db", clock)
    rewards = dict(told)
    late = waiting[0]
    for number, reward in ((5, 0.25), (told[-1][0], -1.0), (late, 1e9)):
        assert agent.tell(number, reward) if number == late else agent.correct(number, reward)
        rewards[number] = reward
    answers = [(number, 0.1) for number in waiting[1:]]
    agent.tell_many(answers)  # the huge one is learned with its block
    agent.ask_many([None] * BLOCK_REWARDS, {"a": np.ones(DIM)})
    more = [(number, 0.3) for number in range(521, 521 + BLOCK_REWARDS)]
    agent.tell_many(more)
    agent.status()
    assert agent.correct(late, 0.5)
    rewards |= dict([*answers, *more, (late, 0.5)])
    features |= {number: np.ones(DIM) for number, _ in more}
    other = Agent.open(tmp_path / "a.db", clock=clock)
    assert bank_of(agent) == bank_of(other)
    assert other.rebuild() < 1e-9
    assert bank_of(agent) == bank_of(other)
    status = other.status()
    half_life = np.inf if status["half_life"] is None else status["half_life"]
    answered, _, moment = summed(
        features, list(rewards.items()), [], half_life, max(features), model_of(other).sums.fading.start
    )
    sums = model_of(other).sums.at(max(features) + 1)
    np.testing.assert_allclose(sums.second, answered, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sums.moment, moment, rtol=1e-6, atol=1e-6)


def test_appended_features_are_as_if_they_had_been_there_with_zeros(tmp_path):
    rng = np.random.default_rng(2)
    banks = []
    for late in (False, True):
        agent = Agent.create(tmp_path / f"{late}.db", context=1, arm=1 if late else 2, memory="auto")
        rng = np.random.default_rng(2)
        for at in range(3):
            x, c = rng.standard_normal((50, 1)), rng.standard_normal((50, 1))
            rewards = (x * c)[:, 0] + 0.1 * rng.standard_normal(50)
            wide = x if late and at < 2 else np.column_stack([x, np.zeros(50)])
            names = ["arm 1"] if wide.shape[1] == 1 else ["arm 1", "arm 2"]
            rows = [
                {"context 1": float(c[i, 0]), **dict(zip(names, wide[i].tolist(), strict=True)), "reward": rewards[i]}
                for i in range(50)
            ]
            agent.learn(rows)
            if late and at == 1:
                agent.replace_features(arm=2)
                agent.rebuild()
        banks.append(model_of(agent).bank if agent.status()["learned"] == 150 else None)
    ours, theirs = banks
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.moments(1)[0].second, theirs.moments(1)[0].second, atol=1e-9)


@pytest.mark.in_a_file
def test_a_bank_that_an_earlier_version_wrote_is_read(tmp_path, monkeypatch):
    """Compacted or not: from the log as far as it goes."""
    clock, encode = Hands(), stored_sums.encode_bank

    def earlier(bank, reward):
        """Without the recent rewards, as it was."""
        kept, bank.kept = bank.kept, 0
        body, bank.kept = encode(bank, reward)[: -stored_sums.DIGEST_BYTES], kept
        counts = 8 * len(HALF_LIVES) + 3 * len(bank.history) + bank.filled * (2 + DIM)
        at = stored_sums.BANK_HEAD.size + 8 * counts
        body = b"bank3" + body[5:at] + body[at + 8 * (3 + bank.usual.size) :]
        return body + hashlib.sha256(body).digest()

    agent, *_ = lived(tmp_path / "a.db", clock, rounds=13)
    found = bank_of(agent)
    for compacted in (False, True):
        monkeypatch.setattr(stored_sums, "encode_bank", earlier)
        if compacted:
            assert agent.compact(before=1000.0 + 9.0) > 50
        agent.close()
        monkeypatch.undo()
        agent = Agent.open(tmp_path / "a.db", clock=clock)
        assert bank_of(agent) == found
        assert agent.rebuild() < 1e-9
        assert bank_of(agent) == found
    agent.close()


@pytest.mark.any_store
def test_decisions_alone_restart_the_learner_once_in_a_while(tmp_path, monkeypatch):
    """Not for each decision, as with a half-life that is given."""
    agent = drifting(tmp_path / "a.db")
    restarts, restart = [], type(learner_of(agent)).restart
    monkeypatch.setattr(type(learner_of(agent)), "restart", lambda *args: (restarts.append(1), restart(*args))[1])
    arms = dict(zip("ab", np.eye(DIM)[:2], strict=True))
    for _ in range(2 * AGE_STEP):
        agent.ask(arms)
    assert len(restarts) in (2, 3)
    one = agent.ask_many([None] * 40, arms)
    assert len({decision.id for decision in one}) == 40


@pytest.mark.any_store
def test_many_are_asked_as_one_after_the_other(tmp_path):
    chosen = []
    for many in (False, True):
        agent = drifting(tmp_path / f"{many}.db", policy=adadim.LinUCB(radius=30.0), noise=0.3)
        rng = np.random.default_rng(8)
        arms = dict(zip("abcdef", rng.standard_normal((6, DIM)), strict=True))
        if many:
            decisions = agent.ask_many([None] * 70, arms)
        else:
            decisions = [agent.ask(arms) for _ in range(70)]
        chosen.append([(decision.arm, decision.probability) for decision in decisions])
    assert chosen[0] == chosen[1]
    assert len({arm for arm, _ in chosen[0]}) > 1


@pytest.mark.any_store
def test_memories_that_are_none(tmp_path):
    for memory in ("Auto", "for ever", 0, -1, np.nan, True, [3]):
        assert_refuses(
            adadim.InvalidValueError,
            "memory must be a positive finite number \\(a half-life in decisions, 'auto' to find it, or None",
            Agent.create,
            tmp_path / "a.db",
            dim=2,
            memory=memory,
        )
    assert not list(tmp_path.iterdir())
    assert_refuses(
        adadim.InvalidValueError,
        "with a memory: it forgets by its own",
        Agent.create,
        tmp_path / "a.db",
        dim=2,
        policy=adadim.EvidenceLinUCB(memory="auto"),
    )


@pytest.mark.any_store
def test_clicks_are_expanded_anew_with_the_half_life_found(tmp_path):
    """The same in another process, after a rebuild and a compaction, which also writes the point."""
    clock, rng = Hands(), np.random.default_rng(6)
    agent = Agent.create(tmp_path / "a.db", dim=DIM, memory="auto", rewards="bernoulli", clock=clock)
    features = rng.standard_normal((900, DIM))
    sign = np.where(np.arange(900) < 650, 6.0, -6.0)
    clicks = rng.random(900) < 1 / (1 + np.exp(-sign * features[:, 0]))
    for start in range(0, 900, 90):
        clock.now += 1.0
        part = slice(start, start + 90)
        agent.learn((features[part], clicks[part].astype(float)))
        status = agent.status()
    assert status["half_life"] is not None
    other = Agent.open(tmp_path / "a.db", clock=clock)
    arms = {"good": [-1.0, 0.0, 0.0], "bad": [1.0, 0.0, 0.0]}
    estimated = agent.estimate(arms)
    assert estimated["good"][0] > 0.5 > estimated["bad"][0]
    for who in (other, agent):
        assert bank_of(who) == bank_of(agent)
        assert who.rebuild() < 1e-9
        np.testing.assert_allclose(list(who.estimate(arms).values()), list(estimated.values()), rtol=1e-6)
    assert agent.compact(before=1000.0 + 5.5) == 450
    for who in (agent, other):
        assert bank_of(who) == bank_of(agent)
        assert who.rebuild() < 1e-9
        np.testing.assert_allclose(list(who.estimate(arms).values()), list(estimated.values()), rtol=1e-6)


def test_a_bank_that_says_to_keep_less_than_no_reward_is_refused():
    """The digest fits, as of a file that was made on purpose; it was a bare ValueError."""
    body = bytearray(stored_sums.encode_bank(MemoryBank(2), 0)[: -stored_sums.DIGEST_BYTES])
    lanes = len(HALF_LIVES)  # before it: scores, tuned, starts, left, begun, and from when on half-lives are compared
    at = stored_sums.BANK_HEAD.size + 8 * (lanes * (1 + 3 + 1 + 1 + 2) + 1)
    assert np.frombuffer(body, float, 1, at) == 0
    body[at : at + 8] = np.array(-1.0).tobytes()
    short = bytes(body[: -8 * (4 + 2)])  # by the numbers of one reward
    with pytest.raises(FileError, match="damaged sums"):
        stored_sums.decode_bank(short + hashlib.sha256(short).digest(), 2)
