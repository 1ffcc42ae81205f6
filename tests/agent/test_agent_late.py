"""Rewards that come late: widths count a decision from the moment it is made, means wait for its reward."""

import sqlite3
import warnings

import numpy as np
import polars as pl
import pytest

import adadim
from adadim import Agent, FileError
from adadim.agent.log import LoggedDecision
from adadim.agent.model import SNAPSHOT_ROWS, Model
from adadim.agent.sqlite import SqliteLog
from adadim.agent.statements import REWARDS, WAITING
from adadim.agent.sums import Fading, Sums
from agent_runs import Hands, decider_of, failing_writes, learner_of, model_of, numbers, offers, scores_of
from refusals import assert_refuses

DIM, RIDGE, RADIUS = 4, 0.5, 0.7
GRID = {f"x{i}": row for i, row in enumerate(np.random.default_rng(9).normal(size=(12, DIM)))}
TABLE = np.array(list(GRID.values()))
PLAIN = adadim.LinUCB(ridge=RIDGE, radius=RADIUS)


class Truth:
    """What happened to an agent: features of its decisions, rewards that hold and decisions that expired."""

    def __init__(self, memory=None):
        self.memory, self.features, self.rewards, self.gone, self.folded = memory, {}, {}, set(), 0

    def scores(self):
        """Means by the answered decisions, widths by these and the open ones, written out."""
        last = max(self.features)
        answered, asked, b = RIDGE * np.eye(DIM), RIDGE * np.eye(DIM), np.zeros(DIM)
        for number, x in self.features.items():
            weight = 1.0 if self.memory is None else 0.5 ** ((last + 1 - number) / self.memory)
            if number in self.rewards:
                answered += weight * np.outer(x, x)
                b += weight * self.rewards[number] * x
            if number in self.rewards or number not in self.gone:
                asked += weight * np.outer(x, x)
        widths = np.sqrt(np.einsum("ij,jk,ik->i", TABLE, np.linalg.inv(asked), TABLE))
        return TABLE @ np.linalg.solve(answered, b) + RADIUS * widths


def lived(path, memory, expired_reward, rounds=70):
    """Two objects on one file, late rewards in any order, some never, corrections before and after they expired."""
    clock, truth, rng = Hands(0.0), Truth(memory), np.random.default_rng(5)
    options = {"noise": 0.3, "memory": memory, "expire_after": 20.0, "expired_reward": expired_reward}
    agents = [Agent.create(path, dim=DIM, policy=PLAIN, clock=clock, **options), Agent.open(path, clock=clock)]
    made = {}
    for arms in offers(rounds):
        clock.now += 1.0
        asking, telling = rng.permutation(2)
        decision = agents[asking].ask(arms)
        truth.features[decision.id], made[decision.id] = arms[decision.arm], clock.now
        waiting = [n for n in made if n not in truth.rewards and n not in truth.gone]
        for number in [n for n in waiting if made[n] < clock.now - 20.0]:
            truth.gone.add(number)
            if expired_reward is not None:
                truth.rewards[number] = expired_reward
        waiting = [n for n in waiting if n not in truth.gone]
        if rng.random() < 0.6:
            number = int(rng.choice(waiting))
            truth.rewards[number] = float(rng.normal())
            assert agents[telling].tell(number, truth.rewards[number])
        late = sorted(number for number in truth.gone if number > truth.folded)
        if late and rng.random() < 0.15:
            number = int(rng.choice(late))
            truth.rewards[number] = float(rng.normal())
            assert agents[asking].correct(number, truth.rewards[number])
        told = [number for number in truth.rewards if number > truth.folded]
        if told and rng.random() < 0.1:
            number = int(rng.choice(told))
            truth.rewards[number] = float(rng.normal())
            assert agents[telling].correct(number, truth.rewards[number])
        yield clock, truth, agents
    assert truth.gone - truth.rewards.keys() or expired_reward is not None
    assert len(truth.features.keys() - truth.rewards.keys() - truth.gone) > 5


@pytest.mark.parametrize("expired_reward", [None, 0.25])
@pytest.mark.parametrize("memory", [None, 25.0])
def test_scores_are_what_the_log_says(tmp_path, memory, expired_reward):
    path = tmp_path / "a.db"
    for step, (clock, truth, agents) in enumerate(lived(path, memory, expired_reward)):
        for agent in agents if step % 7 == 0 else agents[step % 2 :][:1]:
            assert np.abs(scores_of(agent, GRID) - truth.scores()).max() < 1e-9
        if step in (30, 55):
            assert agents[0].compact(before=clock.now - 10.0) > 10
            truth.folded = agents[0].status()["compacted"]
        if step == 42:
            agents[1].close()
            agents[1] = Agent.open(path, clock=clock)
    for agent in (*agents, Agent.open(path, clock=clock)):
        assert np.abs(scores_of(agent, GRID) - truth.scores()).max() < 1e-9
        assert agent.rebuild() < 1e-9
        assert np.abs(scores_of(agent, GRID) - truth.scores()).max() < 1e-9


def test_the_exported_log_has_all_that_the_scores_need(tmp_path):
    *_, (_, truth, agents) = lived(tmp_path / "a.db", None, None)
    log = pl.read_parquet(agents[0].export(tmp_path / "log.parquet"))
    exported = Truth()
    exported.gone = truth.gone  # the one thing that the log of decisions does not say
    for number, x, reward in log.select("decision", "features", "reward").iter_rows():
        exported.features[number] = np.array(x)
        if reward is not None:
            exported.rewards[number] = reward
    assert np.abs(scores_of(agents[1], GRID) - exported.scores()).max() < 1e-9


@pytest.mark.parametrize("memory", [None, 25.0])
@pytest.mark.parametrize("expired_reward", [None, 0.25])
def test_a_fresh_agent_fed_the_same_log_in_another_order_is_the_same(tmp_path, memory, expired_reward):
    *_, (clock, truth, (agent, _)) = lived(tmp_path / "a.db", memory, expired_reward)
    rng, later = np.random.default_rng(8), Hands(0.0)
    options = {"memory": memory, "noise": 0.3, "expire_after": 1000.0, "clock": later}
    fresh = Agent.create(tmp_path / "b.db", dim=DIM, policy=adadim.Random(), **options)
    order = list(truth.features)
    if memory is None:  # then neither the order of the decisions matters, nor that some were made and given up
        order = rng.permutation([n for n in order if n in truth.rewards or n not in truth.gone]).tolist()
    ids = {}
    for number in order:
        later.now = float(number) if memory else 1000.0
        ids[number] = fresh.ask({"only": truth.features[number]}).id
    for number in rng.permutation(list(truth.rewards)).tolist():
        assert fresh.tell(ids[number], truth.rewards[number])
    later.now = clock.now + 980.0  # those made as long ago as the others' that expired
    free = adadim.EvidenceLinUCB(taper=(0.0, 1.75), intercept=True, probes=2)
    for policy in (PLAIN, free, adadim.EvidenceLinUCB(), adadim.TaperedLinUCB(), adadim.LinTS()):
        found = []
        for one in (agent, fresh):
            one.replace_policy(policy, noise=0.3)
            estimates = numbers(one.estimate(GRID)).ravel()
            found.append(np.concatenate([scores_of(one, GRID, decided=1000), estimates]))  # round 1000 to both
        assert np.abs(found[0] - found[1]).max() < 1e-9


def test_an_open_decision_counts_in_the_widths_and_nowhere_else(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=DIM, noise=0.3)
    for arms in offers(20):
        decision = agent.ask(arms)
        agent.tell(decision.id, float(arms[decision.arm][0] + np.sin(decision.id)))
    before, scores, dimension = agent.estimate(GRID), scores_of(agent, GRID), agent.dimension().probabilities
    agent.ask({"x0": GRID["x0"]})
    assert agent.describe()["outstanding"] == 1
    assert agent.estimate(GRID) == before
    assert np.array_equal(agent.dimension().probabilities, dimension)
    assert scores_of(agent, GRID)[0] < scores[0] - 1e-3


def test_one_that_was_answered_at_once_leaves_the_second_sums_empty(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=DIM)
    first, second = agent.ask(GRID), agent.ask(GRID)
    agent.tell(second.id, 1.0)
    agent.status()
    assert model_of(agent).sums.at(3).pending is not None
    agent.tell(first.id, 1.0)
    agent.status()
    assert model_of(agent).sums.at(3).pending is None
    agent.ask(GRID)
    learner = decider_of(agent).prepare(3)
    assert learner.model.regression.pending is None  # nothing is computed twice


@pytest.mark.parametrize("memory", [None, 25.0])
def test_decisions_alone_are_small_steps_of_the_learner(tmp_path, memory, monkeypatch):
    agent = Agent.create(tmp_path / "a.db", dim=DIM, policy=adadim.EvidenceLinUCB(), memory=memory)
    for arms in offers(30):
        agent.tell(agent.ask(arms).id, float(np.sin(arms["arm 1"][0])))
    restarts = []
    learner = learner_of(agent)
    monkeypatch.setattr(learner, "restart", lambda sums, old=learner.restart: (restarts.append(sums), old(sums)))
    for arms in offers(30, seed=3):
        agent.ask(arms)
    assert len(restarts) == (1 if memory is None else 30)
    running = scores_of(agent, GRID)
    agent.close()
    reopened = Agent.open(tmp_path / "a.db")
    assert np.abs(scores_of(reopened, GRID) - running).max() < 1e-9
    reopened.rebuild()
    assert np.abs(scores_of(reopened, GRID) - running).max() < 1e-9


SIZES = [(1, 1, 1, 1, 1, 1), (1, 0.9, 1.1, 1, 0.8, 1.2), (1e-4, 1.1e-4, 1e-4, 1e-4, 1e-4, 1e-4)]


@pytest.mark.parametrize("policy", [adadim.EvidenceLinUCB(), adadim.LinUCB()], ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("sizes", SIZES)
def test_before_the_first_reward_it_spreads_out(tmp_path, policy, sizes):
    if sizes[0] < 1 and policy != adadim.EvidenceLinUCB():
        policy = adadim.LinUCB(ridge=1e-9)  # its ridge is in the units of the features
    agent = Agent.create(tmp_path / "a.db", dim=6, policy=policy, noise=1.0)
    agent.set_arms({f"arm {k}": row for k, row in enumerate(np.diag(sizes))})
    assert len({agent.ask().arm for _ in range(6)}) == 6


def test_raw_units_before_the_first_reward(tmp_path):
    """Age, income and two small ones: the widths stay exact, and many directions are tried."""
    agent, rng = Agent.create(tmp_path / "a.db", dim=4), np.random.default_rng(2)
    arms = {f"arm {k}": row * [1.0, 40.0, 5e4, 1e7] for k, row in enumerate(rng.uniform(0.2, 1.0, size=(8, 4)))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = [agent.ask(arms).arm for _ in range(40)]
    assert len(set(chosen[:4])) == 4
    assert max(chosen.count(arm) for arm in arms) <= 20


def test_clicks_that_do_not_come(tmp_path):
    """The first hundred rewards are all 0: arms are tried alike."""
    agent = Agent.create(tmp_path / "a.db", dim=5)
    agent.set_arms({f"arm {k}": row for k, row in enumerate(np.eye(5))})
    chosen, waiting = [], []
    for _ in range(150):
        decision = agent.ask()
        chosen.append(decision.arm)
        waiting.append(decision.id)
        if len(waiting) > 50:
            agent.tell(waiting.pop(0), 0.0)
    assert agent.status()["rewards"] == 100
    assert {chosen.count(arm) for arm in set(chosen)} == {30}


def test_a_first_reward_after_a_thousand_decisions(tmp_path):
    agent, rng = Agent.create(tmp_path / "a.db", dim=5), np.random.default_rng(1)
    table = np.eye(5) * [1.0, 0.9, 1.1, 1.0, 0.95]
    agent.set_arms({f"arm {k}": row for k, row in enumerate(table)})
    decisions = [decision for _ in range(20) for decision in agent.ask_many([None] * 50)]
    chosen = [decision.arm for decision in decisions]
    assert min(chosen.count(f"arm {k}") for k in range(5)) >= 150
    agent.tell_many({d.id: float(d.arm == "arm 3") + 0.1 * rng.normal() for d in decisions})
    assert {agent.ask().arm for _ in range(20)} == {"arm 3"}


@pytest.mark.filterwarnings("ignore::adadim.PrecisionWarning")  # as long as it waits, it is known only roughly
def test_an_expired_decision_of_huge_features_leaves_nothing_behind(tmp_path):
    clock, truth = Hands(0.0), Truth()
    options = {"policy": PLAIN, "noise": 0.3, "expire_after": 10.0, "clock": clock}
    agent = Agent.create(tmp_path / "a.db", dim=DIM, **options)
    other = Agent.open(tmp_path / "a.db", clock=clock)
    agent.ask({"huge": [1e9, -2e8, 3e9, 1e8]})
    clock.now = 5.0
    for number, arms in enumerate(offers(12), 2):
        decision = agent.ask(arms)
        truth.features[number] = arms[decision.arm]
        if number % 3 == 0:
            truth.rewards[number] = float(np.sin(number))
            agent.tell(number, truth.rewards[number])
    scores_of(other, GRID)
    clock.now = 11.0
    for one in (agent, other):
        assert one.status()["expired"] == 1
        assert np.abs(scores_of(one, GRID) - truth.scores()).max() < 1e-9
    assert other.rebuild() < 1e-9


def test_what_a_difference_cannot_take_back_is_said():
    def counted(*rows, half_life=None):
        sums = Sums.empty(1, Fading(half_life))
        for number, x, reward in rows:
            if reward is None:
                sums.add_pending(np.array([number]), np.array([[x]]))
            else:
                sums.add(np.array([number]), np.array([[x]]), np.array([reward]), by_agent=1)
        return sums

    small, large = (np.array([2]), np.array([[1.0]])), (np.array([3]), np.array([[5.0]]))
    rows = [(1, 2.0, 1.0), (2, 1.0, None), (3, 5.0, None), (4, 1.5, None)]
    assert counted(*rows).withdraw(*small)  # two larger ones are left
    assert not counted(*rows).withdraw(*large)  # it was the largest, and nobody kept the second
    assert counted((0, 5.0, 1.0), *rows).withdraw(*large)  # one with a reward is as large
    # An answered decision was as large, but is nearly forgotten: 1 is left of 5e11.
    rows = [(1, 1e6, 1.0), (60, 1e6, None), (61, 1.0, None)]
    assert not counted(*rows, half_life=1.0).withdraw(np.array([60]), np.array([[1e6]]))


@pytest.mark.in_a_file
def test_a_look_that_fails_half_way_is_made_up_for(tmp_path, monkeypatch):
    one = Agent.create(tmp_path / "a.db", dim=DIM, policy=PLAIN, noise=1.0)
    two = Agent.open(tmp_path / "a.db")
    for arms in offers(9):
        decision = one.ask(arms)
        if decision.id % 3:
            one.tell(decision.id, 1.0)

    read = SqliteLog.read

    def failing(log, query, *rest):
        if query is REWARDS:
            raise sqlite3.OperationalError("disk I/O error")
        return read(log, query, *rest)

    monkeypatch.setattr(SqliteLog, "read", failing)
    assert_refuses(FileError, "disk I/O error", two.status)
    monkeypatch.undo()
    assert np.abs(scores_of(two, GRID) - scores_of(one, GRID)).max() < 1e-12
    assert two.rebuild() < 1e-9


@pytest.mark.in_a_file
def test_the_snapshot_has_what_is_open(tmp_path, monkeypatch):
    clock = Hands(0.0)
    agent = Agent.create(tmp_path / "a.db", dim=DIM, expire_after=100.0, clock=clock)
    for arms in offers(30):
        clock.now += 1.0
        decision = agent.ask(arms)
        if decision.id % 3:
            agent.tell(decision.id, float(arms[decision.arm][0]))
    before = scores_of(agent, GRID)
    agent.close()
    monkeypatch.setattr(Model, "rebuild", None)
    read = SqliteLog.read
    monkeypatch.setattr(
        SqliteLog, "read", lambda log, query, since, *rest: read(log, query, since if query is not WAITING else 2**62)
    )
    agent = Agent.open(tmp_path / "a.db", clock=clock)
    assert np.abs(scores_of(agent, GRID) - before).max() < 1e-9
    monkeypatch.undo()
    with sqlite3.connect(tmp_path / "a.db") as file:
        file.execute("UPDATE snapshot SET asked = zeroblob(length(asked))")
    file.close()
    assert np.abs(scores_of(Agent.open(tmp_path / "a.db", clock=clock), GRID) - before).max() < 1e-9


@pytest.mark.in_a_file
def test_decisions_alone_make_snapshots_too(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=DIM, policy=PLAIN, noise=1.0)
    agent.ask_many([None] * SNAPSHOT_ROWS, GRID)
    agent.ask(GRID)
    with sqlite3.connect(tmp_path / "a.db") as file:
        assert file.execute("SELECT number, seq FROM snapshot").fetchone() == (SNAPSHOT_ROWS, 0)
    file.close()
    assert agent.rebuild() < 1e-9


EXPIRED = [
    ("UPDATE expired SET number = 4 WHERE seq = 2", True),
    ("UPDATE expired SET seq = 7 WHERE seq = 2", True),
    ("DELETE FROM expired WHERE seq = 1", False),
    ("UPDATE sqlite_sequence SET seq = 9 WHERE name = 'expired'", False),
    ("INSERT INTO outstanding SELECT number, time FROM decisions WHERE number = 1", False),
]


@pytest.mark.parametrize(("statement", "at_once"), EXPIRED)
@pytest.mark.in_a_file
def test_changed_rows_of_expired_decisions_are_noticed(tmp_path, statement, at_once):
    clock = Hands(0.0)
    agent = Agent.create(tmp_path / "a.db", dim=DIM, expire_after=10.0, clock=clock)
    other = Agent.open(tmp_path / "a.db", clock=clock)
    for _ in range(3):
        agent.ask(GRID)
    clock.now = 5.0
    agent.ask(GRID)
    other.status()
    clock.now = 11.0
    agent.status()
    with sqlite3.connect(tmp_path / "a.db") as file:
        file.execute(statement)
    file.close()
    if at_once:
        assert_refuses(FileError, "table of expired decisions is not what was written", other.status)
    assert_refuses(FileError, "damaged", agent.rebuild)


# Many at once


@pytest.mark.parametrize("memory", [None, 25.0])
@pytest.mark.parametrize("policy", [None, PLAIN, adadim.LinTS(), adadim.Random()], ids=lambda p: type(p).__name__)
def test_many_are_asked_as_one_after_the_other(tmp_path, policy, memory):
    rng, clock = np.random.default_rng(4), Hands()
    options = {"dim": 5, "policy": policy, "noise": 0.3, "memory": memory, "clock": clock, "seed": 7}
    one, many = (Agent.create(tmp_path / name, **options) for name in ("one.db", "many.db"))
    for agent in (one, many):
        agent.set_arms({f"arm {k}": row for k, row in enumerate(np.random.default_rng(1).normal(size=(6, 3)))})
        agent.mask_arm("arm 2")
    for step in range(6):
        contexts, costs = rng.normal(size=(9, 2)), {"arm 1": 0.1 * step}
        singly = [one.ask(context=context, costs=costs) for context in contexts]
        together = many.ask_many(contexts, costs=costs)
        assert [(d.id, d.arm, d.policy, d.time) for d in together] == [(d.id, d.arm, d.policy, d.time) for d in singly]
        assert np.allclose([d.probability for d in together], [d.probability for d in singly], rtol=0, atol=1e-12)
        answers = {d.id: float(np.sin(d.id)) for d in singly[:: step % 3 + 1]}
        assert one.tell_many(answers) == many.tell_many(answers)
    logs = [pl.read_parquet(agent.export(tmp_path / "log.parquet")) for agent in (one, many)]
    assert logs[0].equals(logs[1])
    assert many.rebuild() < 1e-9


def test_many_over_names_and_arms_with_features(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=3)
    agent.set_arms({"x": [1.0, 0.0], "y": [0.0, 1.0], "z": [1.0, 1.0]})
    assert {d.arm for d in agent.ask_many([[0.5]] * 8, ["x", "y"])} == {"x", "y"}
    assert {d.arm for d in agent.ask_many([None] * 8, {"u": [1.0, 0.0, 0.0], "v": [0.0, 1.0, 0.0]})} == {"u", "v"}
    assert agent.ask_many([]) == []
    assert agent.ask_many(iter([[0.5], [0.25]]))[1].id == 18


BATCHES = [
    ({"contexts": [[1.0], [1.0, 2.0]]}, ValueError, "context 1 has 1, context 2 has 2"),
    ({"contexts": [[1.0], None]}, ValueError, "context 1 has 1, context 2 has 0"),
    ({"contexts": [[1.0], [np.nan]]}, ValueError, "context 2 must be finite"),
    ({"contexts": [[1.0], "a"]}, TypeError, "context 2 must be a sequence of numbers"),
    ({"contexts": [1.0, 2.0]}, TypeError, "context 1 must be a sequence of numbers"),
    ({"contexts": 3}, TypeError, "contexts must be a sequence with a context for each decision, got 3"),
    ({"contexts": {"a": [1.0]}}, TypeError, "contexts must be a sequence"),
    ({"contexts": [[1.0, 2.0]]}, ValueError, "features of 'x' must be 1 numbers"),
    ({"contexts": [[1.0]], "arms": ["q"]}, ValueError, "arm 'q' is not in the catalogue"),
    ({"contexts": [[1.0]], "arms": {}}, ValueError, "arms must not be empty"),
    ({"contexts": [[1.0]], "costs": {"q": 1.0}}, ValueError, "costs name 'q'"),
]


@pytest.mark.parametrize(("options", "kind", "words"), BATCHES, ids=lambda value: str(value)[:40])
def test_a_bad_batch_writes_nothing(tmp_path, options, kind, words):
    agent = Agent.create(tmp_path / "a.db", dim=3)
    agent.set_arms({"x": [1.0, 0.0], "y": [0.0, 1.0]})
    assert_refuses(kind, words, agent.ask_many, **options)
    assert agent.status()["decisions"] == 0


def test_a_batch_that_fails_half_way_is_not_counted(tmp_path, monkeypatch):
    agent = Agent.create(tmp_path / "a.db", dim=DIM, policy=PLAIN, noise=1.0)
    agent.ask(GRID)
    before = scores_of(agent, GRID)
    failing_writes(monkeypatch, LoggedDecision, OSError("no space left"), written=3)
    with pytest.raises(OSError, match="no space"):
        agent.ask_many([None] * 5, GRID)
    monkeypatch.undo()
    assert agent.status()["decisions"] == 1
    assert np.abs(scores_of(agent, GRID) - before).max() < 1e-12
    assert agent.rebuild() < 1e-9
    assert [d.id for d in agent.ask_many([None] * 2, GRID)] == [2, 3]
