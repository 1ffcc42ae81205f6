"""Learners that find their half-life, wherever the policy plays."""

import math

import numpy as np
import pytest

import adadim
from adadim import policies
from adadim.core.arrays import as_numpy
from adadim.core.codec import from_table, to_table
from adadim.models.memory import AGE_STEP, MemoryBank
from agent_runs import model_of

ARMS, DIM, NOISE = 4, 3, 0.2
TURN, ROUNDS = 130, 400
POLICIES = {
    "LinUCB": adadim.LinUCB(ridge=0.3, memory="auto"),
    "TaperedLinUCB": adadim.TaperedLinUCB(taper=1.2, memory="auto"),
    "EvidenceLinUCB": adadim.EvidenceLinUCB(memory="auto"),
    "recommended": adadim.EvidenceLinUCB((0.0, 0.9, 1.75), intercept=True, doubt=3.0, probes=2, memory="auto"),
    "LinTS": adadim.LinTS(ridge=0.5, memory="auto"),
    "Greedy": adadim.Greedy(memory="auto"),
}
OFFERS = ("fixed", "contexts", "disjoint")
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
every_offer = pytest.mark.parametrize("offer", OFFERS)


def problem_of(offer, rng, library="numpy"):
    features = rng.standard_normal((2, ARMS, DIM))
    features /= np.linalg.norm(features, axis=-1).max()
    if library == "torch":
        torch = pytest.importorskip("torch")
        features = torch.asarray(features)
    if offer == "fixed":
        return adadim.Problem(features, horizon=900, noise=NOISE)
    options = {"library": "torch"} if library == "torch" else {}
    kinds = {
        "arms": ARMS,
        "dim": DIM,
        "horizon": 900,
        "noise": NOISE,
        "replications": 2,
        "disjoint": offer == "disjoint",
    }
    return adadim.Problem(**kinds, **options)


@pytest.fixture
def short_half_lives(monkeypatch):
    """Half-lives that are found within few rewards."""
    monkeypatch.setattr("adadim.models.memory.HALF_LIVES", (math.inf, 400.0, 200.0, 100.0, 40.0))


class World:
    """A learner of two replications, late rewards, and a parameter that turns round at decision `turn`."""

    def __init__(self, policy, offer, turn=TURN, late=3):
        self.rng = np.random.default_rng(7)
        self.offer, self.turn, self.late = offer, turn, late
        self.problem = problem_of(offer, self.rng)
        self.learner, self.waiting, self.number = policy.start(self.problem, seed=2), [], 0
        self.told = [[], []]  # number, arm, features and reward of each replication, in the order of the tells

    def offered(self):
        if self.offer == "fixed":
            return []
        return [self.rng.standard_normal((2, DIM) if self.offer == "disjoint" else (2, ARMS, DIM))]

    def play(self, rounds, also=()):
        chosen = []
        for _ in range(rounds):
            features = self.offered()
            decision = self.learner.ask(*features)
            others = [one.ask(*features) for one in also]
            chosen.append(as_numpy(decision.arms).tolist())
            assert all(as_numpy(other.arms).tolist() == chosen[-1] for other in others)
            self.number += 1
            base = as_numpy(self.problem.actions.base) if self.offer == "fixed" else features[0]
            x = base if self.offer == "disjoint" else base[[0, 1], chosen[-1]]
            sign = 1.0 if self.number < self.turn else -1.0
            noise = NOISE * self.rng.standard_normal(2)
            rewards = sign * (1.0 + x[:, 0] + (0.3 * np.array(chosen[-1]) if self.offer == "disjoint" else 0.0)) + noise
            self.waiting.append((self.number, decision, x.copy(), rewards))
            if len(self.waiting) > self.late:
                number, decision, x, rewards = self.waiting.pop(int(self.rng.integers(len(self.waiting))))
                for one in (self.learner, *also):
                    one.tell(decision, rewards.tolist())
                for r in range(2):
                    self.told[r].append((number, int(as_numpy(decision.arms)[r]), x[r], rewards[r]))
        return chosen


@every_policy
@every_offer
@pytest.mark.usefixtures("short_half_lives")
def test_sums_are_those_from_scratch_with_the_half_life_found(policy, offer):
    """After the change of the half-life, pending pulls included."""
    world = World(policy, offer)
    world.play(ROUNDS)
    learner, model = world.learner, world.learner.model
    described = learner.describe()
    learner.ask(*world.offered())  # weights are those of the next decision
    offer_of, blocks, age = model.offer, model.offer.blocks, (world.number + 1) // AGE_STEP
    for r in range(2):
        half_life, start = described[r]["half_life"], model.memory.banks[r].start
        assert half_life or start > TURN
        assert TURN <= described[r]["half_life_since"] <= ROUNDS
        staying = offer_of.staying if offer == "fixed" else None
        answered, every, moment = np.zeros((blocks, DIM, DIM)), np.zeros((blocks, DIM, DIM)), np.zeros((blocks, DIM))
        waiting = [(n, int(as_numpy(one.arms)[r]), x[r], None) for n, one, x, _ in world.waiting]
        for number, arm, x, reward in [*world.told[r], *waiting]:
            weight = 0.5 ** ((age - number // AGE_STEP) * AGE_STEP / (half_life or math.inf)) * (number >= start)
            x, block = x if staying is None else staying[r, arm], arm if blocks > 1 else 0
            every[block] += weight * np.outer(x, x)
            if reward is not None:
                answered[block] += weight * np.outer(x, x)
                moment[block] += weight * (reward - model.offset[r]) * x
        scale = offer_of.scale[r] if model.prior.learns else offer_of.weights
        for block in range(blocks):
            sums = offer_of._moments(r * blocks + block, scale)
            np.testing.assert_allclose(sums.second, answered[block], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(sums.pending.second, every[block], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(sums.moment, moment[block], rtol=1e-9, atol=1e-8)
        bank = MemoryBank(DIM, blocks)
        inputs = world.told[r]
        if offer == "fixed" and model.offer.staying is not None:
            inputs = [(number, arm, model.offer.staying[r, arm], reward) for number, arm, _, reward in inputs]
        pulled = {number: (x, arm if blocks > 1 else 0) for number, arm, x, _ in [*inputs, *waiting]}
        for decided in range(1, world.late):
            bank.add_pending(decided, *pulled[decided])
        for decided, (number, arm, x, reward) in enumerate(inputs, world.late):  # one more is counted with the next ask
            bank.add_pending(decided, *pulled[decided])
            bank.learn(*map(np.array, ([number], [x], [reward], [arm if blocks > 1 else 0])))
        np.testing.assert_allclose(model.memory.banks[r].scores, bank.scores, rtol=1e-9, atol=1e-9)
        assert model.memory.banks[r].history == bank.history


@every_policy
@every_offer
@pytest.mark.usefixtures("short_half_lives")
def test_a_saved_learner_goes_on_bit_for_bit(policy, offer, tmp_path):
    world = World(policy, offer)
    world.play(TURN)
    world.learner.save(tmp_path / "learner.npz")
    restored = adadim.load(tmp_path / "learner.npz", world.problem)
    assert restored.policy == policy
    world.play(ROUNDS - TURN, also=[restored])  # the half-life changes on the way
    ours, theirs = world.learner.model.memory.banks, restored.model.memory.banks
    assert {bank.half_life for bank in ours} != {math.inf}
    for one, other in zip(ours, theirs, strict=True):
        assert one.scores.tobytes() == other.scores.tobytes()
        assert one.history == other.history


@every_policy
def test_it_is_an_agent_that_finds_its_memory(policy, tmp_path):
    """The same rewards in the same order give the same scores, half-life and sums."""
    rng = np.random.default_rng(9)
    learner = policy.start(adadim.Problem(arms=ARMS, dim=DIM, horizon=None, noise=NOISE))
    features = rng.standard_normal((500, DIM))
    rewards = np.where(np.arange(500) < 250, 1.0, -1.0) * features[:, 0] + NOISE * rng.standard_normal(500)
    learner.learn(features, rewards)
    with adadim.Agent.create(tmp_path / "agent.db", dim=DIM, memory="auto", noise=NOISE) as agent:
        agent.learn((features, rewards))
        status = agent.status()
        assert status["half_life"] == learner.describe()["half_life"] is not None
        (ours,), theirs = learner.model.memory.banks, model_of(agent).bank
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-9, atol=1e-9)
        assert ours.history == theirs.history
        learner.ask(rng.standard_normal((ARMS, DIM)))
        own, sums = learner.context_sums()[0], model_of(agent).sums.at(501)
        np.testing.assert_allclose(own.second, sums.second, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(own.moment, sums.moment, rtol=1e-9, atol=1e-9)


@every_policy
def test_the_same_alone_beside_another_replication_and_on_torch(policy):
    pytest.importorskip("torch")
    made = adadim.instances.sphere
    options = {"arms": 10, "dim": 6, "intrinsic_dim": 2, "horizon": 100}
    both, alone = made(**options, replications=(4, 1)), made(**options, replications=(1,))
    delay = adadim.instances.Delay(distribution="geometric", mean=5)
    runs = [adadim.simulate(policy, where, seed=3, delay=delay) for where in (both, alone, both.to("cpu"))]
    np.testing.assert_array_equal(runs[0].regret[1], runs[1].regret[0])
    np.testing.assert_array_equal(runs[0].pulls, runs[2].pulls)


def test_where_the_world_changes_it_pays_and_where_it_stays_it_costs_nothing():
    regrets = {}
    for memory in (None, "auto"):
        for turn in (math.inf, 500):
            rng = np.random.default_rng(12)
            features, theta = rng.standard_normal((4, 20, 5)), rng.standard_normal((4, 5))
            features /= np.linalg.norm(features, axis=-1, keepdims=True)
            policy = adadim.LinUCB(memory=memory)
            learner, regret = policy.start(adadim.Problem(features, horizon=1200, noise=0.3)), np.zeros(4)
            means = (features @ theta[:, :, None])[..., 0]
            for t in range(1200):
                now, arms = means if t < turn else -means, learner.select()
                earned = now[np.arange(4), arms]
                regret += now.max(axis=1) - earned
                learner.update(arms, earned + 0.3 * rng.standard_normal(4))
            regrets[memory, turn] = regret.mean()
    assert regrets["auto", 500] < 0.75 * regrets[None, 500]
    assert regrets["auto", math.inf] < 1.05 * regrets[None, math.inf]


@every_policy
def test_it_is_written_and_read(policy):
    assert to_table(policy)["memory"] == "auto"
    assert from_table(to_table(policy), policies.kinds()) == policy
    assert eval(repr(policy), dict(vars(adadim))) == policy


@pytest.mark.usefixtures("short_half_lives")
def test_clicks(tmp_path):
    """The expansion follows the half-life found: it is that of the weighted clicks; a saved learner goes on."""
    rng, policy = np.random.default_rng(4), adadim.EvidenceLinUCB(likelihood="bernoulli", intercept=True, memory="auto")
    learner = policy.start(adadim.Problem(arms=ARMS, dim=DIM, horizon=600, rewards="bernoulli"))
    for t in range(600):
        if t == 300:
            learner.save(tmp_path / "learner.npz")
            restored = adadim.load(tmp_path / "learner.npz", learner.problem)
        features = rng.standard_normal((ARMS, DIM))
        arm = learner.select(features)
        click = bool(rng.random() < 1 / (1 + np.exp((-4.0 if t < 300 else 4.0) * features[arm, 0])))
        learner.update(arm, click)
        if t >= 300:
            assert restored.select(features) == arm
            restored.update(arm, click)
    described, model = learner.describe(), learner.model
    half_life, start = described["half_life"] or math.inf, model.memory.banks[0].start
    assert half_life in (200.0, 100.0, 40.0) or start > 280
    assert model.rewards.trials.told(0).number <= 450  # not all 600
    model.rewards.trials.recount(0, lambda at: np.where(at > 500, 0.25, 0.0))
    assert model.rewards.trials.told(0).number == 25
    assert model.rewards.trials.told(0).clicks == model.rewards.trials.rewards[0, 500:600].sum() / 4
    model.relearn(0)
    trials = model.rewards.trials.of(0, None, False, lambda at: model.memory.weights(0, at, int(model.decisions[0])))[0]
    age = 600 // AGE_STEP - np.arange(1, 601) // AGE_STEP
    weights = 0.5 ** (age * AGE_STEP / half_life) * (np.arange(1, 601) >= start)
    np.testing.assert_allclose(np.sort(trials.weights), np.sort(weights))
    assert model.regression.weight[0] > 0
    assert model.rewards.trials.points[0, 0, 1] < 0  # what the last clicks say
