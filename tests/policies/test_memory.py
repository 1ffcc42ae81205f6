"""Policies that forget: exact weights, whatever is offered and however late the rewards are."""

import json
import math

import numpy as np
import pytest

import adadim
from adadim import policies
from adadim.core.arrays import as_numpy
from adadim.core.codec import from_table, identity, parse_policy, to_table, to_toml, without_none
from adadim.core.randomness import Purpose, Streams
from adadim.dimension import dimension_of_moments
from adadim.errors import InvalidTypeError
from adadim.models.priors import RELATIVE_RIDGES as RIDGES
from adadim.models.statistics import Moments
from agent_runs import learner_of, model_of
from policy_examples import play
from small_problems import small

HALF_LIFE, ARMS, DIM, NOISE, HORIZON, REPLICATIONS = 7.5, 6, 4, 0.2, 300, (3, 8)
FORGETFUL = {
    "LinUCB": adadim.LinUCB(ridge=0.3, memory=HALF_LIFE),
    "TaperedLinUCB": adadim.TaperedLinUCB(taper=1.2, memory=HALF_LIFE),
    "EvidenceLinUCB": adadim.EvidenceLinUCB(memory=HALF_LIFE),
    "LinTS": adadim.LinTS(ridge=0.5, memory=HALF_LIFE),
    "Greedy": adadim.Greedy(memory=HALF_LIFE),
}
OFFERS = ("fixed", "contexts", "disjoint", "arriving")
forgetful = pytest.mark.parametrize("policy", FORGETFUL.values(), ids=FORGETFUL)
every_offer = pytest.mark.parametrize("offer", OFFERS)
every_library = pytest.mark.parametrize("library", ["numpy", "torch"])


def unit(rng, *shape):
    drawn = rng.standard_normal(shape)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


class Textbook:
    """One replication: every decision with its number, features, arm and reward, and all weights taken anew each time.

    Written for one parameter of each arm; otherwise all pulls are those of arm 0.
    """

    def __init__(self, policy, replication, seed, arms):
        self.policy, self.number, self.pulls, self.arms = policy, 0, {}, arms
        (self.normals,) = Streams(seed, Purpose.POLICY, [replication]).child(0).generators

    def add(self, arm, x, reward=None):
        """Count a decision; gives its number."""
        self.number += 1
        self.pulls[self.number] = [arm, x, reward]
        return self.number

    def sums(self, arm, weights):
        """sum w x x^T over all pulls of an arm and over the answered ones, sum w r x."""
        own = [(n, x, reward) for n, (pulled, x, reward) in self.pulls.items() if pulled == arm]
        numbers = np.array([n for n, _, _ in own], dtype=float)
        seen = np.array([x for _, x, _ in own]).reshape(-1, DIM) * weights
        known = np.array([reward is not None for _, _, reward in own], dtype=bool)
        rewards = np.array([reward or 0.0 for _, _, reward in own])
        w = 2.0 ** (-(self.number + 1 - numbers) / self.policy.memory)
        weighted = w[:, None] * seen
        return weighted.T @ seen, weighted[known].T @ seen[known], weighted.T @ rewards

    def prior(self, weights):
        """Ridge and radius by the evidence of the weighted sums."""
        answered = {n: p for n, p in self.pulls.items() if p[2] is not None}
        w = {n: 2.0 ** (-(self.number + 1 - n) / self.policy.memory) for n in answered}
        total, squares = sum(w.values()), sum(w[n] * p[2] ** 2 for n, p in answered.items())
        if not answered:
            return RIDGES[0], 1.0
        logs, variances = [], []
        parts = [self.sums(arm, weights)[1:] for arm in range(self.arms)]
        for ridge in RIDGES:
            logdet, residual = 0.0, squares
            for second, b in parts:
                v = ridge * np.eye(DIM) + second
                logdet += np.linalg.slogdet(v / ridge)[1]
                residual -= b @ np.linalg.solve(v, b)
            logs.append(-0.5 * (logdet + total * math.log(residual)))
            variances.append(residual / total)
        i = next(i for i, log in enumerate(logs) if log >= max(logs) - math.log(self.policy.factor))
        noise = math.sqrt(variances[i] * (1 + math.sqrt(2 / total)))
        return RIDGES[i], self.policy.scale * noise * math.sqrt(2 * math.log(2 * HORIZON**1.5 * ARMS))

    def scores(self, features):
        """Scores of arms (K, d), or of all arms in one context (d,)."""
        policy, disjoint = self.policy, features.ndim == 1
        weights = np.arange(1.0, DIM + 1) ** (-getattr(policy, "taper", 0.0) / 2)
        if isinstance(policy, adadim.EvidenceLinUCB):
            ridge, radius = self.prior(weights)
        else:
            ridge, radius = policy.ridge, NOISE * math.sqrt(2 * math.log(2 * HORIZON**1.5 * ARMS))
        xi = self.normals.standard_normal((self.arms, DIM)) if isinstance(policy, adadim.LinTS) else None
        found = []
        sums = [self.sums(arm, weights) for arm in range(self.arms)]
        for k in range(ARMS):
            x = (features if disjoint else features[k]) * weights
            every, answered, b = sums[k if disjoint else 0]
            theta = np.linalg.solve(ridge * np.eye(DIM) + answered, b)
            v = ridge * np.eye(DIM) + every
            if xi is not None:
                root = np.linalg.cholesky(v)
                found.append(x @ (theta + NOISE * np.linalg.solve(root.T, xi[k if disjoint else 0])))
            elif isinstance(policy, adadim.Greedy):
                found.append(x @ theta)
            else:
                found.append(x @ theta + radius * math.sqrt(x @ np.linalg.solve(v, x)))
        return np.array(found)


def problem_of(offer, library, rng):
    known = {"horizon": HORIZON, "noise": NOISE, "replications": REPLICATIONS}
    features = unit(rng, len(REPLICATIONS), ARMS, DIM)
    if offer in ("contexts", "disjoint"):
        problem = adadim.Problem(arms=ARMS, dim=DIM, disjoint=offer == "disjoint", **known)
    elif offer == "arriving":
        problem = adadim.Problem(features, arrives=[1, 1, 1, 6, 12, 20], **known)
    else:
        problem = adadim.Problem(features, **known)
    return (problem.to("cpu") if library == "torch" else problem), features


def recorded_scores(learner):
    """A list into which the learner puts the scores of its decisions."""
    seen, scores = [], learner.rule.scores

    def record(rows):
        seen.append(scores(rows))
        return seen[-1]

    learner.rule.scores = record
    return seen


@forgetful
@every_offer
@every_library
def test_scores_are_those_of_a_weighted_regression_from_scratch(policy, offer, library):
    """Replications that go at their own pace, rewards late, in any order or never, arms left out, logged pulls."""
    if library == "torch":
        pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    problem, fixed = problem_of(offer, library, rng)
    learner = policy.start(problem, seed=4)
    books = [Textbook(policy, r, 4, ARMS if offer == "disjoint" else 1) for r in REPLICATIONS]
    scores, waiting, compared = recorded_scores(learner), [], 0
    if offer == "contexts":
        x, rewards = unit(rng, 2, 3, DIM), rng.standard_normal((2, 3))
        learner.learn(x, rewards)
    elif offer != "disjoint":
        arms, rewards = rng.integers(3, size=(2, 3)), rng.standard_normal((2, 3))
        learner.learn(arms.tolist(), rewards.tolist())
        x = np.stack([fixed[r][arms[r]] for r in range(2)])
    if offer != "disjoint":
        for r, book in enumerate(books):
            for seen, reward in zip(x[r], rewards[r].tolist(), strict=True):
                book.add(0, seen, reward)
    for t in range(30):
        rows = [[0, 1], [1, 0], [0], [1], [0, 1]][t % 5]
        offered = {"contexts": unit(rng, 2, ARMS, DIM), "disjoint": unit(rng, 2, DIM)}.get(offer, fixed)
        allowed = np.ones((len(rows), ARMS), dtype=bool)
        allowed[:, t % 3] = False
        given = [problem.xp.asarray(offered[rows])] if offer == "contexts" else [offered[rows]]
        decision = learner.ask(*(given if problem.contextual else []), allowed=allowed, rows=np.array(rows))
        numbers = []
        for i, r in enumerate(rows):
            expected = books[r].scores(offered[r])
            np.testing.assert_allclose(as_numpy(scores[-1])[i], expected, rtol=1e-9, atol=1e-10)
            compared += 1
            arm = int(decision.arms[i])
            assert allowed[i, arm]
            x = offered[r] if offer == "disjoint" else offered[r][arm]
            numbers.append((r, books[r].add(arm if offer == "disjoint" else 0, x)))
        waiting.append((decision, numbers))
        while len(waiting) > [0, 6, 3][t // 10]:
            decision, numbers = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() < 0.1:
                learner.forget(decision)
                for r, number in numbers:
                    del books[r].pulls[number]
                continue
            rewards = rng.standard_normal(len(numbers))
            learner.tell(decision, rewards.tolist())
            for (r, number), reward in zip(numbers, rewards.tolist(), strict=True):
                books[r].pulls[number][2] = reward
    assert compared == 48


@forgetful
@pytest.mark.parametrize("late", [0, 5])
def test_it_is_an_agent_of_the_same_memory(policy, late, tmp_path):
    """The same weights, sums and choices as an agent that learns the same log and is asked the same rounds."""
    rng = np.random.default_rng(9)
    rounds = unit(rng, 60, ARMS, DIM)
    usual = from_table({k: v for k, v in to_table(policy).items() if k != "memory"}, policies.kinds())
    if isinstance(policy, adadim.LinTS):
        usual = adadim.LinTS(ridge=policy.ridge, scale=1e-9)  # an agent draws from other streams
        policy = adadim.LinTS(ridge=policy.ridge, scale=1e-9, memory=policy.memory)
    learner = policy.start(adadim.Problem(arms=ARMS, dim=DIM, horizon=None, noise=NOISE))
    with adadim.Agent.create(
        tmp_path / "agent.db", dim=DIM, policy=usual, memory=HALF_LIFE, noise=NOISE, arms=ARMS
    ) as agent:
        logged = unit(rng, 10, DIM), rng.standard_normal(10)
        agent.learn(logged)
        learner.learn(*logged)
        waiting = []
        for features in rounds:
            theirs = agent.ask({str(k): row for k, row in enumerate(features)})
            ours = learner.ask(features)
            assert ours.arms == int(theirs.arm)
            sums, own = model_of(agent).sums.at(theirs.id), learner.context_sums()[0]
            np.testing.assert_allclose(own.second, sums.second, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(own.moment, sums.moment, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose([own.squares, own.weight], [sums.squares, sums.weight], rtol=1e-9)
            if isinstance(policy, adadim.EvidenceLinUCB):
                agents = learner_of(agent).model
                np.testing.assert_allclose(learner.model.ridge, agents.ridge, rtol=1e-9)
                np.testing.assert_allclose(learner.model.noise, agents.noise, rtol=1e-9)
            waiting.append((ours, theirs, float(features[ours.arms] @ [0.5, -0.3, 0.1, 0.0] + 0.2 * rng.normal())))
            while len(waiting) > late:
                ours, theirs, reward = waiting.pop(int(rng.integers(len(waiting))))
                agent.tell(theirs.id, reward)
                learner.tell(ours, reward)


@forgetful
@every_offer
@every_library
def test_a_saved_learner_goes_on_bit_for_bit(policy, offer, library, tmp_path):
    if library == "torch":
        pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    problem, _ = problem_of(offer, library, rng)
    learner = policy.start(problem, seed=2)
    waiting = []

    def offered():
        if offer == "contexts":
            return [problem.xp.asarray(unit(rng, 2, ARMS, DIM))]
        return [unit(rng, 2, DIM)] if offer == "disjoint" else []

    for _ in range(12):
        waiting.append(learner.ask(*offered()))
        if len(waiting) > 3:
            learner.tell(waiting.pop(int(rng.integers(4))), rng.standard_normal(2).tolist())
    learner.save(tmp_path / "learner.npz")
    restored = adadim.load(tmp_path / "learner.npz", problem)
    assert restored.policy == policy
    kept = recorded_scores(learner), recorded_scores(restored)
    for _ in range(8):
        features = offered()
        waiting.append(learner.ask(*features))
        assert restored.ask(*features).arms.tolist() == waiting[-1].arms.tolist()
        answered, rewards = waiting.pop(int(rng.integers(len(waiting)))), rng.standard_normal(2).tolist()
        for one in (learner, restored):
            one.tell(answered, rewards)
    for ours, theirs in zip(*kept, strict=True):
        np.testing.assert_array_equal(as_numpy(ours), as_numpy(theirs))


@pytest.mark.parametrize("kind", ["LinUCB", "TaperedLinUCB", "LinTS", "Greedy"])
@pytest.mark.parametrize("levels", [None, [2, 5, 8]])
@pytest.mark.parametrize("dim", [None, 3])
def test_a_long_memory_forgets_nothing(kind, levels, dim):
    """In the first few features too, and on an expressive set, where only some of the arms differ."""
    options = {} if dim is None or kind == "TaperedLinUCB" else {"dim": dim}
    closure = {} if levels is None else {"expressive": True, "levels": levels}
    where = small((4, 1), horizon=60, arms=10, dim=8, **closure)
    make = getattr(adadim, kind)
    assert play(make(**options), where, 60) == play(make(memory=1e15, **options), where, 60)


def test_radii_that_depend_on_the_data_and_on_the_round():
    """`logdet` is that of the weighted V, and t counts rounds, not weights."""
    rng = np.random.default_rng(3)
    for problem in (
        adadim.Problem(arms=ARMS, dim=DIM, horizon=None, noise=NOISE),
        adadim.Problem(arms=ARMS, dim=DIM, horizon=None, noise=NOISE, disjoint=True),
    ):
        policy = adadim.LinUCB(radius="oful", memory=HALF_LIFE)
        learner, book = policy.start(problem), Textbook(policy, 0, 0, ARMS)
        for t in range(1, 30):
            context = unit(rng, DIM) if problem.disjoint else unit(rng, ARMS, DIM)
            arm = learner.select(context)
            seconds = [book.sums(k, 1.0)[1] for k in range(ARMS)]
            logdet = sum(np.linalg.slogdet(np.eye(DIM) + second / policy.ridge)[1] for second in seconds)
            np.testing.assert_allclose(learner.model.logdet, [logdet], rtol=1e-9, atol=1e-12)
            radius = math.sqrt(NOISE**2 * (2 * math.log(math.sqrt(t)) + logdet) + policy.ridge)
            assert int(learner.model.pulls[0]) == t - 1
            learner.rule.clock.decided[:] = t - 1
            np.testing.assert_allclose(learner.rule.radius(learner.everyone), [[radius]], rtol=1e-9)
            learner.rule.clock.decided[:] = t
            learner.update(arm, 0.3)
            book.add(arm if problem.disjoint else 0, context if problem.disjoint else context[arm], 0.3)


def drifting(policy, horizon=1000, count=6):
    """Regret of each replication on unit arms whose theta turns round half-way."""
    rng = np.random.default_rng(12)
    features, theta = unit(rng, count, 20, 5), unit(rng, count, 5)
    learner = policy.start(adadim.Problem(features, horizon=horizon, noise=0.1))
    means, regret = (features @ theta[:, :, None])[..., 0], np.zeros(count)
    for t in range(horizon):
        now = means if t < horizon // 2 else -means
        arms = learner.select()
        earned = now[np.arange(count), arms]
        regret += now.max(axis=1) - earned
        learner.update(arms, earned + 0.1 * rng.standard_normal(count))
    return regret


@pytest.mark.parametrize("kind", ["LinUCB", "TaperedLinUCB", "EvidenceLinUCB", "LinTS"])  # those that explore
def test_where_the_world_changes_forgetting_pays(kind):
    make = getattr(adadim, kind)
    forgets, keeps = drifting(make(memory=50)), drifting(make())
    assert forgets.mean() < keeps.mean() / 3
    assert (forgets < keeps).all()


WRITTEN = {  # as they were before there was a memory: results are filed under these
    "LinUCB": '{"kind": "LinUCB", "params": {"ridge": 0.1, "bonus": "norm", "dim": null, "radius": "noise", '
    '"scale": 1, "theta_norm": 1, "only_supported": false, "form": "auto", "ties": "random"}}',
    "TaperedLinUCB": '{"kind": "TaperedLinUCB", "params": {"taper": 1.5, "ridge": 0.1, "size": null, "bonus": "norm", '
    '"radius": "noise", "scale": 1, "theta_norm": 1, "form": "auto", "ties": "random"}}',
    "EvidenceLinUCB": '{"kind": "EvidenceLinUCB", "params": {"taper": 1.75, "scale": 0.35, "factor": 20, '
    '"form": "auto", "ties": "random"}}',
    "LinTS": '{"kind": "LinTS", "params": {"ridge": 0.1, "scale": 1, "dim": null, "ties": "random"}}',
    "Greedy": '{"kind": "Greedy", "params": {"ridge": 0.1, "dim": null, "ties": "random"}}',
}


@pytest.mark.parametrize("name", WRITTEN)
def test_without_a_memory_a_policy_is_written_as_it_always_was(name):
    kinds = policies.kinds()
    plain = kinds[name]()
    assert json.dumps(identity(plain, "policy", kinds)) == WRITTEN[name]
    known = json.loads(WRITTEN[name])["params"]
    assert to_table(plain) == {"kind": name, **known}
    assert "memory" not in to_toml({"policy": without_none(to_table(plain), kinds)})
    assert (
        repr(plain)
        == f"{name}({', '.join(f'{key}={value!r}' for key, value in to_table(plain).items() if key != 'kind')})"
    )
    assert plain == kinds[name](memory=None)
    # A base inside a master is written in the same way.
    inside = identity(adadim.SmoothCorral(base=adadim.LinUCB()), "policy", kinds)["params"]["base"]
    assert json.dumps(inside) == WRITTEN["LinUCB"]


@forgetful
def test_with_a_memory_it_is_another_policy(policy):
    kinds, name = policies.kinds(), type(policy).__name__
    assert to_table(policy)["memory"] == HALF_LIFE
    assert identity(policy, "policy", kinds)["params"]["memory"] == HALF_LIFE
    assert repr(policy).endswith(f", memory={HALF_LIFE})")
    assert from_table(to_table(policy), kinds) == policy
    assert eval(repr(policy), dict(vars(adadim))) == policy
    assert from_table(parse_policy(f"{name}(memory=9)"), kinds) == kinds[name](memory=9)


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "x", True, [5]])
def test_half_lives_that_are_none_are_refused_by_name(name, value):
    with pytest.raises(adadim.InvalidValueError, match="memory must be a positive finite number"):
        getattr(adadim, name)(memory=value)


@forgetful
def test_an_agent_has_a_memory_of_its_own(policy, tmp_path):
    with pytest.raises(adadim.InvalidValueError, match="with a memory: it forgets by its own"):
        adadim.Agent.create(tmp_path / "agent.db", dim=3, policy=policy, noise=0.1)
    assert not list(tmp_path.iterdir())
    learner = policy.start(adadim.Problem(arms=ARMS, dim=DIM, horizon=None, noise=NOISE))
    with pytest.raises(adadim.InvalidValueError, match=r"give memory= to Agent\.create"):
        learner.restart(None)


def test_masters_run_bases_that_forget():
    """Those that keep regressions of their own of LinUCB do not for one that forgets, or refuse it."""
    base = adadim.LinUCB(memory=HALF_LIFE)
    where = small((4, 1), horizon=40, arms=10, dim=8)
    for master in (adadim.UCBCorral(base=base), adadim.Corral(base=base), adadim.DynamicBalancing(base=base)):
        ours = adadim.simulate(master, where, seed=1)
        for learner in ours.learner.bases.learners:
            assert learner.model.memory.half_life == HALF_LIFE
        theirs = adadim.simulate(master, where.to("cpu"), seed=1)
        np.testing.assert_array_equal(ours.pulls, theirs.pulls)
    rounds = adadim.Problem(arms=5, dim=8, horizon=40, noise=0.1, reward_range=1.0)
    with pytest.raises(adadim.InvalidValueError, match="forgets nothing"):
        adadim.SmoothCorral(base=base, ambient=True).start(rounds)


@forgetful
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_how_many_features_matter_by_the_weighted_data(policy, offer):
    """As of sums in which decision n of N counts 2^(-(N - n) / memory)."""
    rng = np.random.default_rng(1)
    problem, fixed = problem_of(offer, "numpy", rng)
    learner = policy.start(problem)
    sums = [Moments.zeros(DIM) for _ in REPLICATIONS]
    for n in range(1, 41):
        offered = fixed if offer == "fixed" else unit(rng, 2, ARMS, DIM)
        arms = learner.select(*([] if offer == "fixed" else [offered]))
        rewards = offered[[0, 1], arms, 0] + 0.2 * rng.standard_normal(2)
        learner.update(arms, rewards)
        for r in range(2):
            weight = np.array([2.0 ** (-(40 - n) / HALF_LIFE)])
            sums[r].add(offered[r, arms[r]][None], rewards[[r]], weight)
    found = learner.dimension()
    for r in range(2):
        expected = dimension_of_moments([sums[r]])
        np.testing.assert_allclose(found.probabilities[r], expected.probabilities, atol=1e-8)


def test_what_it_says_of_itself():
    """How many features matter, by the weighted data; and how much data that is."""
    rng = np.random.default_rng(8)
    features = unit(rng, 30, 6)
    learner = adadim.LinUCB(memory=100).start(adadim.Problem(features, horizon=600, noise=0.1))
    first, then = np.array([1.0, 0, 0, 0, 0, 0]), np.array([0.0, 0, 0, 0.7, 0.7, 0])
    arms = rng.integers(30, size=900)
    truth = np.where(np.arange(900)[:, None] < 450, first, then)
    learner.learn(arms, (features[arms] * truth).sum(axis=1) + 0.1 * rng.standard_normal(900))
    described = learner.describe()
    assert described["pulls"] == 900
    assert described["effective_pulls"] == pytest.approx((1 - 2**-9) / (1 - 2**-0.01), rel=1e-9)
    assert learner.dimension().mode == 5
    with pytest.raises(InvalidTypeError, match="does not keep"):
        adadim.LinUCB(memory=100, dim=3).start(learner.problem).dimension()


@forgetful
def test_late_rewards_in_simulations(policy):
    """The same alone, beside another replication, and on torch."""
    pytest.importorskip("torch")
    both = small((4, 1), horizon=60, arms=10, dim=6)
    alone = small((1,), horizon=60, arms=10, dim=6)
    late = adadim.instances.Delay(distribution="geometric", mean=5)
    runs = [adadim.simulate(policy, where, seed=3, delay=late) for where in (both, alone, both.to("cpu"))]
    np.testing.assert_array_equal(runs[0].regret[1], runs[1].regret[0])
    np.testing.assert_array_equal(runs[0].pulls, runs[2].pulls)


@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_a_memory_with_a_free_constant(offer):
    """A number added to all rewards changes no choice, and the constant is that of the weighted data."""
    rng = np.random.default_rng(5)
    features = unit(rng, 12, DIM)
    rounds = [unit(rng, ARMS, DIM) for _ in range(80)]
    policy = adadim.EvidenceLinUCB(taper=(0.0, 1.75), intercept=True, doubt=3.0, memory=HALF_LIFE)
    chosen = []
    for constant in (0.0, 1000.0):
        problem = (
            adadim.Problem(features, horizon=100)
            if offer == "fixed"
            else adadim.Problem(arms=ARMS, dim=DIM, horizon=100)
        )
        learner, draw, arms, rewards = policy.start(problem, seed=3), np.random.default_rng(6), [], []
        for offered in rounds:
            arm = int(learner.select() if offer == "fixed" else learner.select(offered))
            x = features[arm] if offer == "fixed" else offered[arm]
            arms.append(arm)
            rewards.append(constant + float(x[0]) + 0.1 * draw.standard_normal())
            learner.update(arm, rewards[-1])
        chosen.append(arms)
        learner.select(*([] if offer == "fixed" else [rounds[0]]))  # the belief of the next decision
        weights = 0.5 ** (np.arange(len(rewards), 0, -1.0) / HALF_LIFE)
        np.testing.assert_allclose(learner.model.offset[0], weights @ rewards / weights.sum(), rtol=1e-9)
    assert chosen[0] == chosen[1]
