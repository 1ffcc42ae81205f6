"""EvidenceLinUCB against textbook Bayesian regression, and what it does not need to know."""

import math

import numpy as np
import pytest

import adadim
from adadim.models.priors import RELATIVE_RIDGES as RIDGES
from adadim.models.priors import like_units
from adadim.policies.linear.rules import probes_next
from evidences import evidence_of_rows
from refusals import assert_refuses

ROUNDS = 150


def ball(**changes):
    settings = {"arms": 40, "dim": 12, "intrinsic_dim": 4, "horizon": ROUNDS, "replications": range(2), "seed": 3}
    return adadim.instances.ball(**{**settings, **changes})


class Textbook:
    """One replication, round by round: no counts, no distinct arms, no eigenvalues, everything from all the data."""

    def __init__(self, arms, taper=1.75, scale=0.35, factor=20.0):
        self.arms = arms / np.linalg.norm(arms, axis=1).max()
        self.prior = np.arange(1, arms.shape[1] + 1) ** taper
        self.scale, self.factor = scale, factor
        self.x, self.r = [], []
        self.ridge, self.radius = 1e-6, 1.0

    def marginal(self, ridge):
        """ln of the density of the rewards with the noise scale integrated out, up to a constant; and S/n."""
        x, r = np.array(self.x), np.array(self.r)
        covariance = np.eye(len(r)) + x @ np.diag(1 / (ridge * self.prior)) @ x.T  # in units of the noise variance
        spread = r @ np.linalg.solve(covariance, r)
        return -np.linalg.slogdet(covariance)[1] / 2 - len(r) / 2 * np.log(spread), spread / len(r)

    def scores(self):
        design, total = self.ridge * np.diag(self.prior), np.zeros(len(self.prior))
        for x, r in zip(self.x, self.r, strict=True):
            design, total = design + np.outer(x, x), total + r * x
        inverse = np.linalg.inv(design)
        width = np.sqrt(np.einsum("kd,de,ke->k", self.arms, inverse, self.arms))
        return self.arms @ inverse @ total + self.radius * width

    def add(self, arm, reward):
        self.x.append(self.arms[arm])
        self.r.append(reward)
        n = len(self.r)
        if n in (1, 2, 4, 8, 16, 32, 64, 128):
            found = [self.marginal(ridge) for ridge in RIDGES]
            best = max(log for log, _ in found)
            i = next(i for i, (log, _) in enumerate(found) if log >= best - math.log(self.factor))
            self.ridge = RIDGES[i]
            noise = math.sqrt(found[i][1] * (1 + math.sqrt(2 / n)))
            self.radius = self.scale * noise * math.sqrt(2 * math.log(2 * ROUNDS**1.5 * len(self.arms)))


@pytest.mark.parametrize("form", ["gram", "feature"])
@pytest.mark.parametrize("changes", [{}, {"taper": 2.5, "scale": 0.8, "factor": 1.5}])
@pytest.mark.parametrize("expressive", [False, True])
def test_it_is_bayesian_regression_with_the_smallest_plausible_ridge(form, changes, expressive):
    instance = ball(expressive=expressive, levels=[2, 6, 12] if expressive else None)
    learner = adadim.EvidenceLinUCB(form=form, **changes).start(instance.problem, seed=1)
    books = [Textbook(instance.problem.actions.dense(r), **changes) for r in range(2)]
    noise = instance.noise_streams(0)
    for t in range(ROUNDS):
        arms = learner.select()
        for r, book in enumerate(books):
            scores = book.scores()
            assert scores[arms[r]] == pytest.approx(scores.max(), rel=1e-7), t
        rewards = instance.pull(arms, noise)
        learner.update(arms, rewards)
        for r, book in enumerate(books):
            book.add(arms[r], rewards[r])
    assert [entry["ridge"] for entry in learner.describe()] == [book.ridge for book in books]
    assert learner.model.ridge.tolist() == [book.ridge for book in books]
    assert learner.model.noise.tolist() == [entry["noise"] for entry in learner.describe()]
    assert len({book.ridge for book in books} | {RIDGES[0]}) > 1  # it has moved


def chosen(problem, rewards_of, policy=None, rounds=ROUNDS):
    learner = (policy or adadim.EvidenceLinUCB()).start(problem, seed=4)
    arms = []
    for t in range(rounds):
        arms.append(learner.select().tolist())
        learner.update(np.array(arms[-1]), rewards_of(t, np.array(arms[-1])))
    return arms


def test_units_noise_and_range_do_not_matter():
    instance = ball()
    base, means = np.array(instance.problem.actions.base), instance.means
    errors = np.random.default_rng(0).normal(scale=0.1, size=(ROUNDS, 2))

    def rewards(unit):
        return lambda t, arms: unit * (means[[0, 1], arms] + errors[t])

    expected = chosen(instance.problem, rewards(1.0))
    assert chosen(adadim.Problem(base, horizon=ROUNDS), rewards(1000.0)) == expected
    with pytest.warns(adadim.NormWarning):
        large = adadim.Problem(64.0 * base, horizon=ROUNDS, noise=5.0, reward_range=3.0)
    assert chosen(large, rewards(2.0**-20)) == expected


def test_rewards_that_say_nothing_leave_it_exploring():
    problem = ball().problem
    arms = chosen(problem, lambda t, a: np.zeros(2), rounds=60)
    assert len({a for a, _ in arms}) > problem.dim
    learner = adadim.EvidenceLinUCB().start(problem)
    learner.update(learner.select(), [0.0, 1.0])
    assert [entry["noise"] is None for entry in learner.describe()] == [True, False]


def test_rewards_without_noise():
    instance = ball()
    arms = chosen(instance.problem, lambda t, a: instance.means[[0, 1], a])
    assert arms[-1] == instance.means.argmax(axis=1).tolist()


def test_noise_is_estimated():
    instance = ball(noise=0.3, horizon=1100)
    described = adadim.simulate(adadim.EvidenceLinUCB(), instance).learner.describe()
    assert [entry["noise"] for entry in described] == pytest.approx([0.3, 0.3], rel=0.1)


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (26, 40), (40, 26)])
def test_evidence_from_either_side(shape):
    rng = np.random.default_rng(1)
    x, counts = rng.normal(size=shape), rng.integers(1, 5, size=shape[0])
    every = np.repeat(x, counts, axis=0)
    r = rng.normal(size=len(every))
    sums = np.add.reduceat(r, np.concatenate([[0], counts.cumsum()[:-1]]))
    logs, variance = evidence_of_rows(np.sqrt(counts)[:, None] * x, sums / np.sqrt(counts), float(r @ r), len(r))
    for ridge, log, s in zip(RIDGES, logs, variance, strict=True):
        covariance = np.eye(len(r)) + every @ every.T / ridge
        spread = r @ np.linalg.solve(covariance, r)
        assert s == pytest.approx(spread / len(r), rel=1e-6)
        assert log == pytest.approx(-np.linalg.slogdet(covariance)[1] / 2 - len(r) / 2 * np.log(spread), rel=1e-6)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"taper": -0.5}, "taper must be a finite number of at least 0, got -0.5"),
        ({"taper": "steep"}, "taper must be .* got 'steep'"),
        ({"scale": 0.0}, "scale must be a positive finite number .* got 0.0"),
        ({"factor": 0.5}, "factor must be at least 1 .* got 0.5"),
        ({"factor": math.nan}, "factor must be a positive finite number .* got nan"),
        ({"form": "dense"}, "form must be .* got 'dense'"),
        ({"ties": "first"}, "ties must be .* got 'first'"),
    ],
)
def test_it_refuses(bad, message):
    with pytest.raises(ValueError, match=message):
        adadim.EvidenceLinUCB(**bad)


def test_recommended():
    problem = adadim.Problem(np.eye(4), horizon=50)
    chosen = {"taper": (0.0, 0.9, 1.75), "intercept": True, "doubt": 3.0, "probes": 2}
    assert adadim.recommended(problem) == adadim.EvidenceLinUCB(**chosen)
    with pytest.raises(TypeError, match=r"recommended needs an adadim.Problem, got ndarray"):
        adadim.recommended(np.eye(4))


def test_recommended_is_far_below_the_published_policy_and_near_the_oracle():
    instance = adadim.instances.sphere(
        arms=300, dim=150, intrinsic_dim=8, horizon=1000, replications=range(8), theta="flip"
    )
    regret = {
        name: adadim.simulate(policy, instance, record=1).final.mean()
        for name, policy in {
            "recommended": adadim.recommended(instance.problem),
            "published": adadim.LinUCBPlusPlus(),
            "oracle": adadim.LinUCB(dim=8),
        }.items()
    }
    assert regret["recommended"] < regret["published"] / 2
    assert regret["recommended"] < 1.6 * regret["oracle"]


def test_probes_follow_8_16_and_32_pulls():
    assert np.flatnonzero(probes_next(np.arange(40), 3)).tolist() == [8, 9, 10, 16, 17, 18, 32, 33, 34]


def test_columns_in_raw_units_are_divided_by_their_largest_values():
    assert like_units(np.array([1.0, 30.0, 900.0])).tolist() == [1.0, 30.0, 900.0]
    assert like_units(np.array([1.0, 3.0, 0.0])).tolist() == [1.0, 1.0, 1.0]


def sphere(**changes):
    options = {"arms": 40, "dim": 6, "intrinsic_dim": 2, "horizon": 400, "noise": 0.3, "replications": range(3)}
    return adadim.instances.sphere(**options | changes)


@pytest.mark.parametrize("horizon", [400, None])
def test_the_radius_that_holds_for_all_ridges(horizon):
    """In lock-step with the formula: 17 ridges, the one in use chosen by the evidence of the answered rounds."""
    instance, rng = sphere(replications=range(1)), np.random.default_rng(2)
    features, means = np.asarray(instance.problem.actions.base)[0], instance.means[0]
    problem = adadim.Problem(features, horizon=horizon, noise=0.3)
    policy = adadim.EvidenceLinUCB(radius="evidence", theta_norm=1.7, taper=1.0, ties="lowest")
    learner, taper, used = policy.start(problem, seed=1), np.arange(1.0, 7.0), set()
    gram, b = np.zeros((6, 6)), np.zeros(6)
    for t in range(1, 131):
        ridge = float(learner.model.ridge[0])
        prior = np.diag(ridge * taper)
        v = prior + gram
        gamma = np.linalg.slogdet(v)[1] - np.linalg.slogdet(prior)[1]
        confidence = np.log(17 * np.sqrt(horizon or t))
        radius = np.sqrt(0.09 * (gamma + 2 * confidence) + ridge * 1.7**2)
        scores = features @ np.linalg.solve(v, b) + radius * np.sqrt(np.vecdot(features @ np.linalg.inv(v), features))
        arm = learner.select()
        assert scores[arm] == pytest.approx(scores.max(), rel=1e-9)
        reward = means[arm] + 0.3 * rng.standard_normal()
        learner.update(arm, reward)
        gram, b = gram + np.outer(features[arm], features[arm]), b + reward * features[arm]
        used.add(ridge)
    assert 1 < len(used) <= 17


def test_the_regret_with_that_radius_is_below_its_bound_and_the_best_arm_stays_optimistic():
    instance, policy = sphere(horizon=1500, noise=0.1), adadim.EvidenceLinUCB(radius="evidence", theta_norm=2.0**0.875)
    learner, rng, ends = policy.start(instance.problem, seed=1), np.random.default_rng(0), {}
    best, largest, everyone = instance.means.argmax(axis=1), np.zeros(3), np.arange(3)
    regret = np.zeros(3)
    for _ in range(1500):
        scores = learner.rule.scores(learner.everyone)
        assert (scores[everyone, best] >= instance.best).all()
        largest = np.maximum(largest, learner.rule.radius(learner.everyone)[:, 0])
        for r in range(3):
            ends[r, float(learner.model.ridge[r])] = float(learner.model.logdet[r])  # gamma grows
        arms = learner.select()
        regret += instance.best - instance.means[everyone, arms]
        learner.update(arms, instance.means[everyone, arms] + 0.1 * rng.standard_normal(3))
    information = [sum(gamma for (at, _), gamma in ends.items() if at == r) for r in range(3)]
    bound = 2 * np.maximum(1.0, largest) * np.sqrt(1500 * np.array(information) / np.log(2))
    assert (regret <= bound).all()
    assert adadim.simulate(adadim.EvidenceLinUCB(), instance).final.mean() < regret.mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"intercept": True}, 'radius="evidence" is proved for intercept=False'),
        ({"memory": 50.0}, 'radius="evidence" is proved for memory=None'),
        ({"probes": 2}, 'radius="evidence" is proved for probes=0'),
        ({"levels": "each"}, "radius=\"evidence\" is proved for levels='one'"),
        ({"likelihood": "bernoulli"}, "radius=\"evidence\" is proved for likelihood='gaussian'"),
    ],
)
def test_what_that_radius_is_not_proved_for(options, message):
    assert_refuses(ValueError, message, adadim.EvidenceLinUCB, radius="evidence", **options)


def test_that_radius_needs_arms_that_stay_and_the_noise():
    policy = adadim.EvidenceLinUCB(radius="evidence")
    assert_refuses(ValueError, "arms that stay", policy.start, adadim.Problem(arms=3, dim=2, horizon=9, noise=0.1))
    assert_refuses(ValueError, "noise", policy.start, adadim.Problem(np.eye(3), horizon=9))
