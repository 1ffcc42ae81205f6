"""The model is a function of the log: its order, its processes, snapshots, corrections and compaction do not matter."""

import hashlib
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

import adadim
from adadim import Agent, DecisionError
from adadim.agent import stored_sums as stored
from adadim.agent.log import as_bytes
from adadim.agent.model import SNAPSHOT_ROWS
from adadim.agent.sums import Fading, Sums
from agent_runs import Hands, model_of, numbers, offers, played, ridge
from refusals import assert_refuses

GRID = {f"x{i}": row for i, row in enumerate(np.random.default_rng(9).normal(size=(12, 4)))}


def model(agent):
    """What the agent believes, as numbers."""
    return np.concatenate([numbers(agent.estimate(GRID)).ravel(), agent.dimension().probabilities])


@pytest.mark.parametrize("memory", [None, 200.0])
@pytest.mark.in_a_file
def test_any_order_of_a_thousand_late_rewards_gives_the_same_model(tmp_path, memory):
    agent = Agent.create(tmp_path / "asked.db", dim=4, policy=adadim.Random(), memory=memory)
    asked = [(agent.ask(arms), arms) for arms in offers(1000, arms=3)]
    agent.replace_policy(adadim.EvidenceLinUCB())
    agent.close()
    gained = {d.id: float(arms[d.arm] @ [1, 0.5, 0, 0] + np.sin(d.id)) for d, arms in asked}
    rng, models = np.random.default_rng(3), []
    for attempt in range(4):
        shutil.copy(tmp_path / "asked.db", tmp_path / f"{attempt}.db")
        agent = Agent.open(tmp_path / f"{attempt}.db")
        for part in np.array_split(rng.permutation(list(gained)), 7):
            agent.tell_many([(int(i), gained[int(i)]) for i in part])
            agent.estimate(GRID)
        models.append(model(agent))
        assert np.abs(models[-1] - models[0]).max() < 1e-9
        assert agent.rebuild() < 1e-9
        assert np.abs(model(agent) - models[0]).max() < 1e-9
    assert np.ptp(models[0]) > 0.1


def test_forgetting_is_exact(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=adadim.LinUCB(ridge=0.5), memory=3.0, noise=1.0)
    asked = [(agent.ask(arms), arms) for arms in offers(9)]
    told = [(d.id, float(d.id % 4), arms[d.arm]) for d, arms in asked if d.id not in (2, 8)]
    for number, reward, _ in told[::-1]:
        agent.tell(number, reward=reward)
    weights = np.array([0.5 ** ((10 - number) / 3.0) for number, _, _ in told])  # decision 10 comes next
    v, theta = ridge(np.array([x for *_, x in told]), np.array([r for _, r, _ in told]), 0.5, weights)
    table = np.array(list(GRID.values()))
    means, widths = numbers(agent.estimate(GRID)).T
    assert np.allclose(means, table @ theta)
    assert np.allclose(widths**2, np.einsum("ij,jk,ik->i", table, np.linalg.inv(v), table))


def test_everything_can_be_forgotten(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, memory=0.05)
    agent.tell(agent.ask(GRID).id, reward=1.0)
    for _ in range(60):
        decision = agent.ask(GRID)
    assert np.array_equal(numbers(agent.estimate(GRID))[:, 0], np.zeros(12))
    agent.tell(decision.id, reward=2.0)
    assert agent.ask(GRID).probability > 0
    assert agent.rebuild() < 1e-9


def test_forgetting_follows_a_drift(tmp_path):
    features, rewards = [[1.0, 0.0]] * 200, [1.0] * 100 + [-1.0] * 100
    means = {}
    for memory in (None, 20.0):
        agent = Agent.create(tmp_path / f"{memory}.db", dim=2, policy=adadim.Greedy(ridge=0.1), memory=memory)
        agent.learn((features, rewards))
        means[memory] = agent.estimate({"a": [1.0, 0.0]})["a"][0]
    assert abs(means[None]) < 1e-9
    recent = 0.5 ** (np.arange(200, 0, -1) / 20)
    assert means[20.0] == pytest.approx(recent @ rewards / (recent.sum() + 0.1))
    assert means[20.0] < -0.9


def test_a_correction_counts_as_if_the_first_reward_had_never_been(tmp_path):
    wrong, _, _ = played(tmp_path / "a.db", count=30)
    right, _, rewards = played(tmp_path / "b.db", count=30)
    for number, mistyped in ((3, 1e9), (7, -4.0), (30, 5e5)):
        assert wrong.correct(number, reward=mistyped)
        wrong.estimate(GRID)
        assert wrong.correct(number, reward=rewards[number - 1])
    assert not wrong.correct(7, reward=rewards[6])
    assert np.abs(model(wrong) - model(right)).max() < 1e-9
    assert wrong.rebuild() < 1e-9
    assert wrong.status()["rewards"] == 30
    assert_refuses(DecisionError, "has no reward yet; call tell", wrong.correct, wrong.ask(GRID).id, 1.0)
    wrong.close()
    assert np.abs(model(Agent.open(tmp_path / "a.db")) - model(right)).max() < 1e-9


DAMAGES = [
    "DELETE FROM snapshot",
    "UPDATE snapshot SET body = zeroblob(length(body))",
    "UPDATE snapshot SET body = x'00'",
    "UPDATE snapshot SET generation = 5",
    "UPDATE snapshot SET generation = 'x'",
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.in_a_file
def test_a_missing_or_damaged_snapshot_is_rebuilt(tmp_path, damage):
    agent, _, _ = played(tmp_path / "a.db")
    before = model(agent)
    agent.close()
    with sqlite3.connect(tmp_path / "a.db") as file:
        assert file.execute(damage).rowcount == 1
    agent = Agent.open(tmp_path / "a.db")
    assert np.abs(model(agent) - before).max() < 1e-9
    agent.close()
    assert np.abs(model(Agent.open(tmp_path / "a.db")) - before).max() < 1e-9


@pytest.mark.in_a_file
def test_snapshots_are_kept_while_it_runs(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=4, policy=adadim.Random())
    rng = np.random.default_rng(0)
    agent.learn((rng.normal(size=(SNAPSHOT_ROWS + 5, 4)), rng.normal(size=SNAPSHOT_ROWS + 5)))
    agent.ask(GRID)
    with sqlite3.connect(tmp_path / "a.db") as file:
        assert file.execute("SELECT seq FROM snapshot").fetchone() == (SNAPSHOT_ROWS + 5,)
    assert agent.rebuild() < 1e-9


def test_processes_see_each_others_rewards_policies_and_arms(tmp_path):
    one = Agent.create(tmp_path / "a.db", dim=4)
    two = Agent.open(tmp_path / "a.db")
    for arms in offers(30):
        asked, other = one.ask(arms), two.ask(arms)
        two.tell(asked.id, reward=float(arms[asked.arm].sum()))
        one.tell(other.id, reward=float(arms[other.arm].sum()))
        assert np.array_equal(model(one), model(two))
    one.replace_policy(adadim.Random(), levels={"first": 2, "all": 4})
    one.set_arm("sku", [1.0, 2.0, 3.0, 4.0])
    decision = two.ask()
    assert (decision.arm, decision.policy) == ("sku", 2)
    assert two.levels == {"first": 2, "all": 4}
    assert two.dimension().levels == {"first": 2, "all": 4}


@pytest.mark.parametrize("memory", [None, 25.0])
def test_compaction_leaves_the_model_alone(tmp_path, memory):
    clock = Hands()
    agent = Agent.create(tmp_path / "a.db", dim=4, memory=memory, clock=clock)
    other = Agent.open(tmp_path / "a.db", clock=clock)
    waiting = []
    for arms in offers(60):
        clock.now += 1.0
        decision = agent.ask(arms)
        if decision.id % 10 == 0:
            waiting.append(decision.id)
        else:
            agent.tell(decision.id, reward=float(arms[decision.arm][0] + np.cos(decision.id)))
    agent.correct(5, reward=0.125)
    before, size = model(agent), agent.status()
    assert np.abs(model(other) - before).max() < 1e-9
    assert agent.compact(before=1000.0 + 41.0) == 36  # 40 decisions, less the four that wait
    for who in (agent, other, Agent.open(tmp_path / "a.db")):
        assert np.abs(model(who) - before).max() < 1e-9
        assert who.rebuild() < 1e-9
        changed = {key for key, value in who.status().items() if value != size[key]}
        assert changed <= {"compacted", "bytes"}
        assert who.status()["compacted"] == 40
    assert_refuses(DecisionError, "decision 7 was compacted", agent.tell, 7, 1.0)
    assert_refuses(DecisionError, "decision 7 was compacted", agent.correct, 7, 1.0)
    assert other.tell_many(dict.fromkeys(waiting, 0.5)) == 6
    assert agent.status()["outstanding"] == 0
    assert agent.compact(before=2000.0) == 24
    assert agent.rebuild() < 1e-9
    assert np.abs(model(other) - model(agent)).max() < 1e-9
    assert agent.ask(GRID).id == 61


@pytest.mark.in_a_file
def test_compaction_in_portions_makes_the_file_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr("adadim.agent.model.PORTION_DECISIONS", 90)
    agent, _, _ = played(tmp_path / "a.db", count=400)
    agent.close()
    before, beliefs = (tmp_path / "a.db").stat().st_size, model(agent := Agent.open(tmp_path / "a.db"))
    assert agent.compact(before=1e12) == 400
    assert agent.compact(before=1e12) == 0
    assert np.abs(model(agent) - beliefs).max() < 1e-9
    assert agent.rebuild() < 1e-9
    agent.close()
    assert (tmp_path / "a.db").stat().st_size < before / 2


def test_the_dimension_is_that_of_the_data(tmp_path):
    agent, features, rewards = played(tmp_path / "a.db", count=150, levels={"two": 2, "four": 4})
    direct = adadim.dimension(features, rewards, levels={"two": 2, "four": 4})
    found = agent.dimension()
    assert np.allclose(found.probabilities, direct.probabilities, atol=1e-8)
    assert found.noise == pytest.approx(direct.noise)
    assert found.choices == 150
    assert np.allclose(
        agent.dimension(levels=[1, 2, 3, 4]).probabilities, adadim.dimension(features, rewards).probabilities
    )


def test_the_constant_of_an_agent_s_features_is_the_free_one(tmp_path):
    """Its first column is a constant: the answer is that of the same features without it, one later."""
    rng = np.random.default_rng(4)
    with Agent.create(tmp_path / "a.db", context=["hour"], arm=["price"]) as agent:
        agent.set_arms({f"arm {k}": [price] for k, price in enumerate(rng.normal(size=6))})
        for _ in range(80):
            decision = agent.ask(context=(hour := rng.normal(size=1)))
            agent.tell(decision.id, reward=100 + 0.3 * hour[0] + rng.normal())
        found = agent.dimension(levels=[1, 2, 3, 4])
        table = pl.read_parquet(agent.export(tmp_path / "log.parquet"))
        features, rewards = np.array(table["features"].to_list()), table["reward"].to_numpy()
        assert agent.columns == ["constant", "price", "hour", "price x hour"]
    direct = adadim.dimension(features, rewards)
    assert np.allclose(found.probabilities, direct.probabilities, atol=1e-6)
    later = adadim.dimension(features[:, 1:], rewards).probabilities
    assert np.allclose(found.probabilities[1:] / found.probabilities[1:].sum(), later, atol=1e-6)


def test_another_policy_on_the_same_log_loses_nothing(tmp_path):
    agent, features, rewards = played(tmp_path / "a.db", policy=adadim.Random())
    assert agent.replace_policy(adadim.LinUCB(ridge=2.0), noise=0.5) == 2
    _, theta = ridge(features, rewards, 2.0)
    means = numbers(agent.estimate(GRID))[:, 0]
    assert np.allclose(means, np.array(list(GRID.values())) @ theta)
    assert agent.ask(GRID).policy == 2
    assert agent.replace_policy(levels={"all": 4}) == 3
    assert agent.policy == adadim.LinUCB(ridge=2.0)
    assert_refuses(ValueError, "cannot play UCB", agent.replace_policy, adadim.UCB())
    assert agent.status()["policy_version"] == 3


@pytest.mark.in_a_file
def test_compacting_while_others_ask_and_tell_loses_nothing(tmp_path):
    Agent.create(tmp_path / "a.db", dim=4).close()

    def play(seed):
        with Agent.open(tmp_path / "a.db") as agent:
            waiting = []
            for arms in offers(50, seed=seed):
                waiting.append(agent.ask(arms).id)
                if len(waiting) > 3:
                    agent.tell(waiting.pop(0), reward=np.sin(seed))
            agent.tell_many(dict.fromkeys(waiting, np.sin(seed)))
            return seed

    def tidy():
        with Agent.open(tmp_path / "a.db") as agent:
            return sum(agent.compact(before=1e12) for _ in range(8))

    with ThreadPoolExecutor(4) as pool:
        players = [pool.submit(play, seed) for seed in (1, 2, 3)]
        gone = pool.submit(tidy).result()
        assert [player.result() for player in players] == [1, 2, 3]
    with Agent.open(tmp_path / "a.db") as agent:
        gone += agent.compact(before=1e12)
        status = agent.status()
        assert (status["decisions"], status["rewards"], status["outstanding"], gone) == (150, 150, 0, 150)
        assert agent.rebuild() < 1e-9
        squares = 50 * sum(np.sin([1, 2, 3]) ** 2)
        with sqlite3.connect(tmp_path / "a.db") as file:
            assert file.execute("SELECT count(*) FROM offers").fetchone() == (0,)
        assert model_of(agent).sums.moments.squares == pytest.approx(squares)


def test_sums_forget_by_the_number_of_the_decision():
    sums, one = Sums.empty(1, Fading(2.0)), np.ones((1, 1))
    sums.add(np.array([5]), one, np.ones(1), by_agent=1)
    sums.add(np.array([7, 3]), np.ones((2, 1)), np.ones(2), by_agent=2)  # late rewards may be older
    assert (sums.moments.weight, sums.epoch, sums.at(9).weight) == (1 / 2 + 1 + 1 / 4, 7, 1.75 / 2)
    sums.add_pending(np.array([9]), one)  # decision 9 is made: it counts in the widths
    assert (sums.at(9).second, sums.at(9).pending.second) == (0.875, 1.875)


def test_sums_of_version_0_2_are_no_constant_s():
    """Their first moments were not kept: they are not known, and nothing is made of them."""
    sums = Sums.empty(2)
    sums.add(np.arange(1, 4), np.array([[1.0, 0.5], [0.2, 1.0], [0.3, 0.3]]), np.array([1.0, 2.0, 3.0]), by_agent=3)
    moments = sums.moments
    head = stored.HEAD_0_2.pack(
        stored.FORMAT_0_2,
        2,
        sums.epoch,
        sums.answered,
        sums.learned,
        moments.squares,
        moments.weight,
        moments.longest,
    )
    body = head + b"".join(map(as_bytes, (moments.second, moments.moment, moments.extent)))
    read = stored.decode(body + hashlib.sha256(body).digest(), Sums.empty(2))
    assert np.array_equal(read.moments.second, moments.second)
    with pytest.raises(adadim.InvalidValueError, match="did not keep of what it compacted"):
        read.moments.with_constant()
    assert stored.decode(stored.encode(sums), Sums.empty(2)).moments.with_constant().moment.tolist() == [
        6.0,
        2.3,
        3.4,
    ]


def test_an_agent_with_sums_of_version_0_2_judges_features_without_a_constant(tmp_path):
    agent, _, _ = played(tmp_path / "a.db", count=30, policy=adadim.EvidenceLinUCB())
    known, without = agent.dimension(), agent.dimension(constant=False)
    moments = model_of(agent).sums.moments
    moments.first, moments.total = np.full(4, np.nan), np.nan
    found = agent.dimension()
    assert (known.constant, found.constant) == (True, False)
    assert np.array_equal(found.probabilities, without.probabilities)
    assert "30 choices, no free constant" in agent.describe()["features_that_matter"]
