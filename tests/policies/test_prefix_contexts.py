"""Prefix and two-prior LinUCB where features come with each round, against a solve for every prefix of all data."""

import math

import numpy as np
import pytest

import adadim
from adadim.core.arrays import as_numpy, like
from adadim.models import prefixes

ARMS, DIM, ROUNDS, NOISE, HORIZON = 4, 5, 70, 0.1, 500
RADIUS = 0.35 * math.sqrt(2 * math.log(2 * HORIZON**1.5 * ARMS))
THETA = np.array([[0.9, -0.6, 0.0, 0.0, 0.0], [0.3, 0.8, 0.0, 0.0, 0.0], [-0.5, 0.1, 0, 0, 0], [0.2, 0.2, 0, 0, 0]])
KINDS = ["contexts", "disjoint"]
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def keep_every_feature(monkeypatch):
    """The plain version leaves no feature out, however unlikely."""
    monkeypatch.setattr(prefixes, "NEGLIGIBLE", 0.0)


def problem_of(kind, library="numpy", **changes):
    problem = adadim.Problem(arms=ARMS, dim=DIM, horizon=HORIZON, disjoint=kind == "disjoint", **changes)
    if library == "torch":
        pytest.importorskip("torch")
        return problem.to("cpu")
    return problem


def offer_of(kind, rng):
    """What a round brings: features of every arm, or one context for all."""
    return rng.standard_normal((ARMS, DIM) if kind == "contexts" else DIM) / 2


def mean_reward(kind, offer, arm):
    return float(offer[arm] @ THETA[0] if kind == "contexts" else offer @ THETA[arm])


class Plain:
    """All that was offered, asked and answered; whatever is wanted of it by solves and determinants from scratch.

    With a parameter for each arm an arm's features are its products with all covariates, and prefix m has the first m
    covariates of every arm.
    """

    def __init__(self, kind, ridges, taper=0.0, decay=0.0, averages=True):
        self.kind, self.ridges, self.taper, self.averages = kind, ridges, taper, averages
        self.x, self.rewards = {}, {}
        self.longest, self.total = 0.0, 0.0
        lengths = np.arange(1.0, DIM + 1)
        self.prior = np.log(lengths**-decay / (lengths**-decay).sum()) if averages else np.zeros(1)
        self.ridge = None

    def wide(self, offer):
        """Features of all arms, a block for each parameter."""
        if self.kind == "contexts":
            return offer
        features = np.zeros((ARMS, ARMS, DIM))
        features[range(ARMS), range(ARMS)] = offer
        return features.reshape(ARMS, -1)

    def offered(self, offer):
        self.longest = max(self.longest, float(np.vecdot(offer, offer).max()))
        if not self.rewards:
            self.ridge = self.ridges[0] * self.longest

    def prefixes(self):
        """The columns that belong to each prefix, and their prior precisions over the ridge."""
        blocks = 1 if self.kind == "contexts" else ARMS
        for m in range(1, DIM + 1) if self.averages else [DIM]:
            columns = np.concatenate([np.arange(m) + DIM * k for k in range(blocks)])
            yield columns, np.tile(np.arange(1.0, m + 1) ** self.taper, blocks)

    def regressions(self, ridge):
        """(log evidence, columns, V^-1 of the answered, theta, S) of every prefix."""
        numbers = list(self.rewards)
        rewards = np.array([self.rewards[n] for n in numbers])
        for columns, precisions in self.prefixes():
            x = np.array([self.x[n][columns] for n in numbers]).reshape(-1, len(columns))
            v = ridge * np.diag(precisions) + x.T @ x
            theta = np.linalg.solve(v, x.T @ rewards)
            rest = float(rewards @ rewards - rewards @ x @ theta)
            logdet = np.linalg.slogdet(v)[1] - np.log(ridge * precisions).sum()
            log = -0.5 * logdet - 0.5 * len(rewards) * math.log(rest) if len(rewards) else 0.0
            yield log, columns, precisions, theta, rest

    def told(self, number, reward):
        self.rewards[number] = reward
        n = len(self.rewards)
        if n & (n - 1) == 0:
            ridges = [ridge * self.longest for ridge in self.ridges]
            logs = [np.logaddexp.reduce([one[0] for one in self.regressions(r)] + self.prior) for r in ridges]
            self.total = np.logaddexp.reduce(logs) - math.log(len(logs))
            self.ridge = next(r for r, log in zip(ridges, logs, strict=True) if log >= max(logs) - math.log(20.0))
            if not self.averages:
                (one,) = self.regressions(self.ridge)
                self.noise2 = one[-1] / n * (1 + math.sqrt(2 / n))

    def predictions(self, offer, but=()):
        """Mean and variance of every arm; pulls that are not answered, except `but`, count in the variance."""
        logs, means, widths2, rests = [], [], [], []
        asked = [x for number, x in self.x.items() if number not in but]
        for log, columns, precisions, theta, rest in self.regressions(self.ridge):
            x = np.array([one[columns] for one in asked]).reshape(-1, len(columns))
            seen = self.wide(offer)[:, columns]
            v = self.ridge * np.diag(precisions) + x.T @ x
            logs.append(log)
            means.append(seen @ theta)
            widths2.append(np.vecdot(seen, np.linalg.solve(v, seen.T).T))
            rests.append(rest)
        chances = np.exp(np.array(logs) + self.prior - np.logaddexp.reduce(np.array(logs) + self.prior))
        n, average = len(self.rewards), chances @ np.array(means)
        noise2 = chances @ rests / n * (1 + math.sqrt(2 / n)) if n else 1.0
        if not self.averages and n:
            noise2 = self.noise2  # that of the last update of the prior
        variance = noise2 * (chances @ np.array(widths2)) + chances @ (np.array(means) - average) ** 2
        return average, variance, chances


def prefix_plain(kind, policy):
    return Plain(kind, [10.0**k for k in range(-6, 3)], policy.taper, policy.decay)


def fading_plain(kind):
    return Plain(kind, [10.0 ** (k / 2) for k in range(-12, 5)], 1.75, averages=False)


def script(learner, kind, plains, look, seed=0, rounds=ROUNDS, late=True):
    """Ask, tell and forget in random order; `look(offer, newest, arm)` is called after every ask."""
    rng, waiting = np.random.default_rng(seed), {}
    reference = learner.problem.reference if kind == "contexts" else np.zeros(1)
    for _ in range(rounds):
        offer = offer_of(kind, rng)
        for plain in plains:
            plain.offered(offer)
        decision = learner.ask(like(offer, reference))
        number, arm = decision.number, int(decision.arms)
        for plain in plains:
            plain.x[number] = plain.wide(offer)[arm]
        look(offer, number, arm)
        waiting[number] = decision, mean_reward(kind, offer, arm) + NOISE * rng.standard_normal()
        while waiting and (not late or rng.random() < 0.55):
            number = rng.choice(list(waiting))
            told, reward = waiting.pop(number)
            if late and rng.random() < 0.2:
                learner.forget(told)
                for plain in plains:
                    del plain.x[number]
                continue
            learner.tell(told, reward)
            for plain in plains:
                plain.told(number, reward)
    assert len(plains[0].rewards) > rounds / 4
    return waiting


def close(found, wanted):
    np.testing.assert_allclose(as_numpy(found), wanted, rtol=1e-6, atol=1e-8)


def predicted(learner, offer):
    mean, variance = learner.model.predict(learner.everyone.to_numpy().with_offer(offer[None], None))
    return mean[0], variance[0]


@every_kind
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("rule", "taper", "decay"), [("optimism", 0.0, 0.0), ("optimism", 1.0, 2.0), ("thompson", 0, 0)]
)
def test_predictions_equal_a_solve_for_each_prefix(kind, library, rule, taper, decay):
    policy = adadim.PrefixLinUCB(rule=rule, taper=taper, decay=decay, ties="lowest")
    learner = policy.start(problem_of(kind, library), seed=1)
    plain, waited = prefix_plain(kind, policy), []

    def look(offer, newest, arm):
        mean, variance, chances = plain.predictions(offer, but=[newest])
        close(predicted(learner, offer)[0], mean)
        close(predicted(learner, offer)[1], variance)
        close(learner.model.prediction.dim_posterior(0)[0], chances)
        if rule == "optimism":
            scores = mean + RADIUS * np.sqrt(variance)
            assert scores[arm] >= scores.max() - 1e-6
        waited.append(len(plain.x) - len(plain.rewards))

    script(learner, kind, [plain], look)
    assert max(waited) > 3
    described = learner.describe()
    assert described["ridge"] == pytest.approx(plain.ridge)
    assert described["pulls"] == len(plain.rewards)
    assert described["features_in_use"] == DIM


@every_kind
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_likelier_prior_plays(kind, library):
    policy = adadim.TwoPriorLinUCB(ties="lowest")
    learner = policy.start(problem_of(kind, library), seed=1)
    prefix, fading = prefix_plain(kind, policy.beliefs()[1]), fading_plain(kind)
    prefix.taper = 0.0
    seen = set()

    def look(offer, newest, arm):
        ends = prefix.total > fading.total + 1e-9
        assert learner.describe()["belief"] == ("prefix" if ends else "fading")
        close(predicted(learner.prefix, offer)[0], prefix.predictions(offer, but=[newest])[0])
        mean, variance, _ = (prefix if ends else fading).predictions(offer, but=[newest])
        scores = mean + RADIUS * np.sqrt(variance)
        if not ends and not fading.rewards:  # the radius is 1 before the noise is known
            scores = mean + np.sqrt(variance)
        assert scores[arm] >= scores.max() - 1e-6
        seen.add(bool(ends))
        assert learner.prefix.model.log_evidence()[0] == pytest.approx(prefix.total, rel=1e-6, abs=1e-6)
        assert learner.fading.model.log_evidence()[0] == pytest.approx(fading.total, rel=1e-6, abs=1e-6)

    script(learner, kind, [prefix, fading], look, rounds=140)
    assert seen == {True, False}


@every_kind
def test_draws_have_mean_and_variance_of_the_predictions(kind):
    learner = adadim.PrefixLinUCB(rule="thompson").start(problem_of(kind), seed=1)
    script(learner, kind, [prefix_plain(kind, learner.policy)], lambda *_: None, rounds=40)
    assert learner.model.regression.pending is not None
    rng = np.random.default_rng(0)
    offer = offer_of(kind, rng)
    rows = learner.everyone.with_offer(offer[None], None)
    mean, variance = predicted(learner, offer)
    drawn = np.array([learner.model.prediction.sample_means(rows, [rng], 1.0)[0] for _ in range(6000)])
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * math.sqrt(variance.max() / 6000))
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.12)


@pytest.mark.parametrize(
    "policy", [adadim.PrefixLinUCB(), adadim.PrefixLinUCB(rule="thompson"), adadim.TwoPriorLinUCB()]
)
def test_the_same_arms_in_every_round_are_fixed_arms(policy):
    rng = np.random.default_rng(4)
    features = rng.standard_normal((9, 6)) / 4
    fixed = policy.start(adadim.Problem(features, horizon=300), seed=3)
    offered = policy.start(adadim.Problem(arms=9, dim=6, horizon=300), seed=3)
    for _ in range(150):
        arm = fixed.select()
        assert offered.select(features) == arm
        reward = float(features[arm, :2] @ [0.7, -0.4] + 0.05 * rng.standard_normal())
        fixed.update(arm, reward)
        offered.update(arm, reward)
    one, other = fixed.describe(), offered.describe()
    assert one["noise"] == pytest.approx(other["noise"])
    assert one["dim"] == other["dim"]


@pytest.mark.parametrize("policy", [adadim.PrefixLinUCB(), adadim.TwoPriorLinUCB()])
def test_raw_units_do_not_decide(policy):
    """Columns of very different sizes are brought into like units, the pulls of the past among them."""
    rng, units = np.random.default_rng(5), np.array([1.0, 40.0, 1.0, 300.0, 2.0])
    learner, regret, chance = policy.start(problem_of("contexts"), seed=2), 0.0, 0.0
    for _ in range(200):
        offer = offer_of("contexts", rng)
        means = offer @ THETA[0]
        arm = int(learner.select(offer * units))
        learner.update(arm, float(means[arm] + NOISE * rng.standard_normal()))
        regret, chance = regret + means.max() - means[arm], chance + means.max() - means.mean()
    assert regret < chance / 8
    model = getattr(learner, "prefix", learner).model
    assert (model.offer.units[0] > 1).any()
    assert model.describe(0)["dim"] == 2


@pytest.mark.parametrize("policy", [adadim.PrefixLinUCB(), adadim.TwoPriorLinUCB()])
def test_a_log_tells_as_much_as_pulls_do(policy):
    rng = np.random.default_rng(6)
    features, noise = rng.standard_normal((32, DIM)) / 2, NOISE * rng.standard_normal(32)
    rewards = features @ THETA[0] + noise
    learner = policy.start(problem_of("contexts"), seed=2)
    learner.learn(features, rewards)
    plain = prefix_plain("contexts", getattr(learner, "prefix", learner).policy or adadim.PrefixLinUCB(decay=1.0))
    for n, (x, reward) in enumerate(zip(features, rewards, strict=True)):
        plain.offered(x[None])
        plain.x[n] = x
        plain.told(n, reward)
    offer = offer_of("contexts", rng)
    mean, variance = predicted(getattr(learner, "prefix", learner), offer)
    close(mean, plain.predictions(offer)[0])
    close(variance, plain.predictions(offer)[1])
    assert learner.describe()["pulls"] == 32


def test_features_ruled_out_are_left_out(monkeypatch):
    monkeypatch.setattr(prefixes, "NEGLIGIBLE", 1e-3)
    instance = adadim.instances.contexts(arms=10, dim=120, intrinsic_dim=2, horizon=300, noise=0.05)
    learner = adadim.simulate(adadim.PrefixLinUCB(), instance).learner
    described = learner.describe()[0]
    assert described["dim"] == 2
    assert described["features_in_use"] < 30
    assert learner.dimension().mode[0] == 2


BOTH = [adadim.PrefixLinUCB(), adadim.PrefixLinUCB(rule="thompson"), adadim.TwoPriorLinUCB()]


@every_kind
@pytest.mark.parametrize("policy", BOTH)
def test_saved_while_decisions_are_open(kind, policy, tmp_path):
    problem, rng = problem_of(kind), np.random.default_rng(7)
    learner = policy.start(problem, seed=2)
    waiting = [learner.ask(offer_of(kind, rng)) for _ in range(9)]
    for decision in waiting[:5]:
        learner.tell(decision, float(rng.standard_normal()))
    learner.ask(offer_of(kind, rng))
    learner.save(tmp_path / "learner.npz")
    restored = adadim.load(tmp_path / "learner.npz", problem)
    assert restored.describe() == learner.describe()
    for decision in waiting[5:]:
        offer = offer_of(kind, rng)
        assert restored.ask(offer).arms == learner.ask(offer).arms
        for each in (learner, restored):
            each.tell(decision, 0.3)
    assert restored.describe() == learner.describe()


@every_kind
@pytest.mark.parametrize("policy", BOTH)
def test_a_replication_depends_on_its_number_alone(kind, policy):
    """The same in a batch, of which others answer late, as on its own."""
    rng = np.random.default_rng(8)
    both, alone = (policy.start(problem_of(kind, replications=numbers), seed=1) for numbers in ([4, 7], [7]))
    for t in range(40):
        offers = np.stack([offer_of(kind, rng) for _ in range(2)])
        if t % 3:
            both.ask(offers[:1], rows=[0])
        decision, other = both.ask(offers[1:], rows=[1]), alone.ask(offers[1:])
        assert decision.arms.tolist() == other.arms.tolist()
        reward = [mean_reward(kind, offers[1], int(decision.arms[0])) + 0.1 * math.sin(t)]
        both.tell(decision, reward)
        alone.tell(other, reward)
    assert both.describe()[1] == alone.describe()[0]
