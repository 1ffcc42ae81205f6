"""Parts of the linear model from outside: each is one class here, and every policy, save and load play it.

What these classes need to know is what another likelihood, memory, prior or rule takes: see docs/architecture.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize
from scipy.special import softmax

import adadim
from adadim.core.rewards import KINDS, RewardKind
from adadim.models import linear
from adadim.models.fading import MEMORIES
from adadim.models.likelihoods import LIKELIHOODS, ExpandedLikelihood, prior_precision
from adadim.models.linear import LinearModel
from adadim.models.parts import Due, Memory, Remade
from adadim.models.priors import Belief, Prior, RidgePrior, log_evidences
from adadim.models.statistics import Moments
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.rules import Confidence, Optimism, ProbabilityRule

DIM, ARMS = 4, 6


class Poisson(ExpandedLikelihood):
    """Counts with mean exp(c + x^T theta)."""

    kind = RewardKind("poisson", low=0.0, values="counts")

    def expansion(self, logits, rewards=None):
        mean = np.exp(logits)
        return mean, logits if rewards is None else logits + (rewards - mean) / mean

    def log_likelihoods(self, logits, rewards):
        return rewards * logits - np.exp(logits)

    def rarer(self, total, number):
        return total

    def centre(self, told):
        return math.log((told.clicks + 0.5) / (told.number + 0.5))

    def mean_rewards(self, logits):
        return np.exp(logits)

    def estimates(self, mean, width2, noise):
        return np.exp(mean), np.exp(mean) * np.sqrt(width2)


class Window(Memory):
    """Only the pulls of the last 40 decisions count."""

    forgets, LENGTH = True, 40

    def begin(self, offer, decisions):
        self.offer, self.decisions = offer, decisions
        self.pulls = [[] for _ in range(len(offer.problem))]  # number, parameter, features, reward

    def prepare(self, rows):
        return Due(sums=rows.ids.tolist())

    def add_pending(self, arms, rows, memo):
        self._keep(arms, np.full(len(rows), math.nan), rows, memo)

    def clear_pending(self):
        for pulls in self.pulls:
            pulls[:] = [one for one in pulls if not math.isnan(one[3])]

    def learn(self, arms, rewards, rows, memo):
        for r, number in zip(rows.ids.tolist(), memo["decision"].tolist(), strict=True):
            self.pulls[r] = [one for one in self.pulls[r] if one[0] != number]
        self._keep(arms, rewards, rows, memo)
        return Due()

    def _keep(self, arms, rewards, rows, memo):
        features = self.offer.pulled_features(arms, rows, memo)
        blocks = arms.tolist() if self.offer.blocks > 1 else [0] * len(rows)
        for i, r in enumerate(rows.ids.tolist()):
            self.pulls[r].append([float(memo["decision"][i]), blocks[i], features[i].copy(), float(rewards[i])])

    def weights(self, r, numbers, number):
        return (numbers > number - self.LENGTH).astype(float)

    def sums(self, r, number):
        self.pulls[r] = [one for one in self.pulls[r] if one[0] > number - self.LENGTH]
        data = []
        for block in range(self.offer.blocks):
            one, pulls = Moments.zeros(self.offer.dim), [pull for pull in self.pulls[r] if pull[1] == block]
            for _, _, x, reward in pulls:
                if not math.isnan(reward):
                    one.add(x[None], np.array([reward]))
            every = one.without_rewards().copy()
            for _, _, x, reward in pulls:
                if math.isnan(reward):
                    every.add(x[None], np.zeros(1))
            one.pending = every
            data.append(one)
        return Remade(data, number)


@dataclass(frozen=True)
class TwoHalves(Prior):
    """The first or the second half of the columns matters, whichever has the larger evidence."""

    ridge: float
    learns = True

    def scales(self, dim):
        first = np.where(np.arange(dim) < dim // 2, 1.0, 0.1)
        return first, first[::-1]

    def __call__(self, data, longest, units, pending):
        scales, squares = self.scales(len(units)), sum(one.squares for one in data)
        if not squares:
            return Belief(self.ridge, scales[0])
        forms = [[one.form(scale, False, 0.0) for one in data] for scale in scales]
        logs, variances = log_evidences(forms, squares, sum(one.n for one in data), np.array([self.ridge]))
        at = int(np.argmax(logs[:, 0]))
        return Belief(self.ridge, scales[at], noise=math.sqrt(variances[at, 0]), exponent=float(at))

    def describe(self, belief, data, longest, units):
        return {"half": int(belief.exponent)}


@dataclass(frozen=True)
class Halves(LinearPolicy):
    """Optimism with `TwoHalves`."""

    ridge: float = 0.5

    def model_for(self, problem):
        return LinearModel(problem, TwoHalves(self.ridge))

    def rule_for(self, problem, model, streams):
        return Optimism(problem, model, "lowest", Confidence(radius=3.0))


class Softmax(ProbabilityRule):
    """Arms in proportion to exp(3 mean)."""

    def probabilities(self, rows):
        mean, _ = self.model.predict(rows)
        return softmax(3.0 * rows.apply_costs_and_mask(mean), axis=1)


@dataclass(frozen=True)
class Boltzmann(LinearPolicy):
    """`Softmax` over a ridge regression."""

    def model_for(self, problem):
        return LinearModel(problem, RidgePrior(1.0), on_host=True)

    def rule_for(self, problem, model, streams):
        return Softmax(problem, model, "lowest")


PLUGINS = {"Halves": Halves, "Boltzmann": Boltzmann}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(KINDS, "poisson", Poisson.kind)
    monkeypatch.setitem(LIKELIHOODS, "poisson", Poisson())
    monkeypatch.setitem(MEMORIES, "window", Window)


def problem_of(offer, **more):
    if offer == "fixed":
        return adadim.Problem(np.random.default_rng(0).normal(size=(ARMS, DIM)) / 2, horizon=500, noise=0.5, **more)
    return adadim.Problem(arms=ARMS, dim=DIM, horizon=500, noise=0.5, disjoint=offer == "disjoint", **more)


def play(learner, rounds, earn, late=0, rng=None):
    """Rounds of a learner; gives features, rewards and parameters of the pulls in their order."""
    problem, pulls, waiting = learner.problem, [], []
    rng = np.random.default_rng(1) if rng is None else rng
    for t in range(rounds):
        if problem.contextual:
            shape = DIM if problem.disjoint else (ARMS, DIM)
            offered = rng.normal(size=shape) / 2
            decision = learner.ask(offered)
        else:
            decision = learner.ask()
        arm = int(decision.arms)
        if problem.contextual:
            x = offered if problem.disjoint else offered[arm]
        else:
            x = problem.actions.dense(0)[arm]
        reward = float(earn(t, x, rng))
        pulls.append((x.copy(), reward, arm if problem.disjoint else 0))
        waiting.append((decision, reward))
        if len(waiting) > late:
            learner.tell(*waiting.pop(0))
    return pulls, waiting


def counts(t, x, rng):
    return rng.poisson(math.exp(-0.5 + x @ np.array([1.0, -0.5, 0.3, 0.0])))


@pytest.mark.parametrize("offer", ["fixed", "contexts", "disjoint"])
@pytest.mark.parametrize(
    "policy",
    [
        (adadim.LinUCB, {}),
        (adadim.LinTS, {}),
        (adadim.EvidenceLinUCB, {"taper": (0.0, 1.75), "intercept": True}),
        (adadim.LinUCB, {"memory": "auto"}),
    ],
)
def test_a_likelihood_is_one_class(policy, offer):
    """The point of a fit is the MAP that SciPy finds, whatever policy it is."""
    kind, parameters = policy
    learner = kind(likelihood="poisson", **parameters).start(problem_of(offer), seed=2)
    pulls, _ = play(learner, 250, counts)
    model = learner.model
    model.relearn(0)
    belief = model.prior(
        model.rewards.sums(0, model.prior, model.memory, int(model.decisions[0])).data, *model.offer.basis(0), 0
    )
    precision = prior_precision(belief)
    for block in range(model.offer.blocks):
        x = np.array([[1.0, *each] for each, _, at in pulls if at == block])
        if offer == "fixed":
            units = model.offer.staying[0] / learner.problem.actions.dense(0)
            x[:, 1:] *= np.nanmedian(units)
        y = np.array([reward for _, reward, at in pulls if at == block])

        def minus_density(theta, x=x, y=y):
            eta, off = x @ theta, theta - np.r_[belief.offset, np.zeros(DIM)]
            return np.exp(eta).sum() - y @ eta + 0.5 * precision @ off**2

        found = optimize.minimize(minus_density, model.rewards.trials.points[0, block], options={"gtol": 1e-8}).x
        assert model.rewards.trials.points[0, block] == pytest.approx(found, abs=1e-4)


def test_a_likelihood_says_what_costs_and_estimates_are():
    learner = adadim.Greedy(likelihood="poisson").start(problem_of("fixed"), seed=2)
    play(learner, 200, counts)
    means, deviations = learner.estimates()
    assert (means > 0).all()
    assert (deviations > 0).all()
    scores, rows = learner.rule.scores(learner.everyone), learner.everyone
    rows = rows.with_offer(None, np.ones((1, ARMS), dtype=bool), np.arange(6.0))
    in_counts = learner.rule.comparable_with_costs(scores, rows)
    np.testing.assert_allclose(in_counts, np.exp(scores + learner.model.offset[0]))
    assert learner.describe()["likelihood"] == "poisson"


def test_a_kind_of_rewards_refuses_others():
    for problem in (problem_of("fixed"), problem_of("fixed", rewards="poisson")):
        learner = adadim.LinUCB(likelihood="poisson").start(problem, seed=2)
        with pytest.raises(adadim.InvalidValueError, match="rewards must be counts, since rewards are 'poisson'"):
            learner.update(learner.select(), -1.0)


def turning(t, x, rng):
    return (1.0 if t < 60 else -1.0) * x[0] + 0.3 * rng.standard_normal()


@pytest.mark.parametrize("late", [0, 7])
@pytest.mark.parametrize("offer", ["fixed", "contexts", "disjoint"])
@pytest.mark.parametrize("kind", [adadim.LinUCB, adadim.LinTS])
def test_a_memory_is_one_class(kind, offer, late):
    """Means are those of a ridge regression on the last 40 decisions, and widths those with pending pulls."""
    learner = kind(memory="window", ridge=0.7).start(problem_of(offer), seed=2)
    pulls, waiting = play(learner, 120, turning, late)
    counted = pulls[-Window.LENGTH :]
    told = counted[: len(counted) - len(waiting)]
    model, everyone = learner.model, learner.everyone
    given = np.random.default_rng(5).normal(size=(1, DIM) if offer == "disjoint" else (1, ARMS, DIM))
    rows = everyone if offer == "fixed" else everyone.with_offer(given, None)
    mean, width2 = model.predict(rows)
    for arm in range(ARMS):
        block = arm if offer == "disjoint" else 0
        arms = learner.problem.actions.dense(0) if offer == "fixed" else given[0]
        x = arms if offer == "disjoint" else arms[arm]

        def products(of, block=block):
            rows = np.array([z for z, _, at in of if at == block]).reshape(-1, DIM)
            return rows.T @ rows, rows.T @ np.array([reward for _, reward, at in of if at == block])

        second, moment = products(told)
        assert mean[0, arm] == pytest.approx(x @ np.linalg.solve(second + 0.7 * np.eye(DIM), moment), abs=1e-9)
        every, _ = products(counted[:-1] if late else counted)  # the last one counts from the next decision on
        assert width2[0, arm] == pytest.approx(x @ np.linalg.solve(every + 0.7 * np.eye(DIM), x), abs=1e-9)


def test_a_memory_weighs_what_a_likelihood_expands():
    """Clicks in a window: the point is that of the pulls in it."""
    learner = adadim.LinUCB(memory="window", likelihood="bernoulli").start(problem_of("contexts"), seed=2)
    play(learner, 200, lambda t, x, rng: rng.random() < 1 / (1 + math.exp(-3.0 * (1 if t < 150 else -1) * x[0])))
    assert learner.model.rewards.trials.points[0, 0, 1] < 0  # what the last decisions say


@pytest.mark.parametrize("offer", ["fixed", "contexts", "disjoint"])
def test_a_prior_is_one_class(offer):
    learner = Halves().start(problem_of(offer), seed=2)

    def earn(t, x, rng):
        return 2.0 * x[3] + 0.1 * rng.standard_normal()

    if offer == "fixed":  # every arm, so that they tell the halves apart
        arms, x = np.arange(128) % ARMS, learner.problem.actions.dense(0)
        learner.learn(arms, [earn(0, x[arm], np.random.default_rng(arm)) for arm in arms])
    else:
        pulls, _ = play(learner, 128, earn)
    assert learner.describe()["half"] == 1
    assert learner.describe()["noise"] < 0.5
    if offer == "contexts":
        scale = TwoHalves(0.5).scales(DIM)[1]
        x = np.array([each for each, _, _ in pulls]) * scale
        y = np.array([reward for _, reward, _ in pulls])
        theta = scale * np.linalg.solve(x.T @ x + 0.5 * np.eye(DIM), x.T @ y)
        given = np.random.default_rng(5).normal(size=(1, ARMS, DIM)) / 10
        mean, _ = learner.model.predict(learner.everyone.with_offer(given, None))
        np.testing.assert_allclose(mean[0], given[0] @ theta, atol=1e-9)


def test_a_rule_with_known_probabilities_is_one_class():
    learner = Boltzmann().start(problem_of("contexts"), seed=2)
    play(learner, 100, lambda t, x, rng: x[0] + 0.1 * rng.standard_normal())
    offered = np.random.default_rng(3).normal(size=(ARMS, DIM)) / 2
    rows = learner.everyone.with_offer(offered[None], None)
    expected = softmax(3.0 * learner.model.predict(rows)[0][0])
    choice = learner.choose(rows)
    np.testing.assert_allclose(choice.distribution()[0], expected, rtol=1e-9)
    drawn = np.bincount([int(learner.choose(rows).arms[0]) for _ in range(4000)], minlength=ARMS)
    assert np.abs(drawn / 4000 - expected).max() < 5 * 0.5 / math.sqrt(4000)


@pytest.mark.parametrize("offer", ["fixed", "contexts"])
@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (adadim.LinUCB, {"likelihood": "poisson"}),
        (adadim.EvidenceLinUCB, {"memory": "window"}),
        (Halves, {}),
        (Boltzmann, {}),
    ],
)
def test_a_learner_of_such_parts_is_saved_and_goes_on(kind, parameters, offer, tmp_path):
    learner, rng = kind(**parameters).start(problem_of(offer), seed=2), np.random.default_rng(9)
    play(learner, 60, counts, rng=rng)
    learner.save(tmp_path / "learner.npz")
    restored = adadim.load(tmp_path / "learner.npz", problem_of(offer), plugins=PLUGINS)
    for _ in range(5):
        arguments = () if offer == "fixed" else (rng.normal(size=(ARMS, DIM)) / 2,)
        assert learner.select(*arguments) == restored.select(*arguments)


@pytest.mark.parametrize("policy", [Halves(), Boltzmann()])
def test_an_agent_plays_a_prior_and_a_rule_and_logs_its_probabilities(policy, tmp_path):
    rng, path = np.random.default_rng(4), tmp_path / "a.db"
    with adadim.Agent.create(path, dim=DIM, policy=policy, plugins=PLUGINS) as agent:
        for _ in range(30):
            arms = {str(k): x for k, x in enumerate(rng.normal(size=(ARMS, DIM)) / 2)}
            means = np.array([mean for mean, _ in agent.estimate(arms).values()])
            decision = agent.ask(arms)
            known = softmax(3.0 * means)[int(decision.arm)] if type(policy) is Boltzmann else 1.0
            assert decision.probability == pytest.approx(known, rel=1e-6)
            agent.tell(decision, float(arms[decision.arm] @ [1.0, -0.5, 0.0, 0.0] + 0.1 * rng.normal()))
        expected = agent.estimate(arms)
    with adadim.Agent.open(path, plugins=PLUGINS) as agent:
        assert agent.estimate(arms) == expected
        assert agent.rebuild() < 1e-9


def test_an_agent_learns_by_a_likelihood_from_outside(tmp_path):
    """Its estimates are those of the MAP that SciPy finds from the log, also when it is opened again."""
    rng, path, pulls = np.random.default_rng(4), tmp_path / "a.db", []
    arms = {str(k): x for k, x in enumerate(rng.normal(size=(ARMS, DIM)) / 2)}
    settings = {"policy": adadim.LinUCB(likelihood="poisson", ridge=0.5), "rewards": "poisson", "memory": None}
    with adadim.Agent.create(path, dim=DIM, **settings) as agent:
        while len(pulls) < 140:  # one of 1, 2, 3, 5, 8, ..., when a fit is due that takes effect at once
            decision = agent.ask(arms)
            pulls.append((arms[decision.arm], float(counts(0, arms[decision.arm], rng))))
            agent.tell(decision, pulls[-1][1])
        expected = agent.estimate(arms)
    x, y = np.array([[1.0, *each] for each, _ in pulls]), np.array([reward for _, reward in pulls])

    def minus_density(theta):
        eta = x @ theta
        return np.exp(eta).sum() - y @ eta + 0.5 * 0.5 * theta[1:] @ theta[1:]

    theta = optimize.minimize(minus_density, np.zeros(1 + DIM), options={"gtol": 1e-8}).x
    for name, (mean, deviation) in expected.items():
        assert mean == pytest.approx(np.exp(theta[0] + arms[name] @ theta[1:]), rel=1e-3)
        assert deviation > 0
    with adadim.Agent.open(path) as agent:
        assert agent.estimate(arms) == expected
        assert agent.rebuild() < 1e-9


def test_a_name_that_is_not_registered_is_refused():
    with pytest.raises(adadim.AdadimError, match="likelihood must be"):
        adadim.LinUCB(likelihood="gamma")
    with pytest.raises(adadim.AdadimError, match="memory must be"):
        adadim.LinUCB(memory="elephant")


def test_parts_are_asked_and_not_recognised():
    """The model names no likelihood, no memory and no prior but in what it is made from."""
    text = Path(linear.__file__).read_text()
    for name in ("Bernoulli", "BERNOULLI", "HalfLife", "MemoryBank", "EvidencePrior", "LevelPrior", "PrefixAverage"):
        assert name not in text
    assert "isinstance(self.prior" not in text
