"""Feel-Good Thompson sampling: the sheet's weights, a textbook version in lock-step, and the law that it draws from."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.core.randomness import Purpose, Streams
from refusals import assert_refuses

Z = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
PARTICLES = np.array([[0.9, 0.0], [0.5, 0.5], [1.2, -0.1], [0.2, 0.9]])


@pytest.mark.parametrize(
    ("bonus", "expected"),
    [
        (0.3, [0.46697828, 0.12736828, 0.39036521, 0.01528822]),
        (0.0, [0.47150177, 0.16348526, 0.34957665, 0.01543632]),
    ],
)
def test_weights_of_four_particles(bonus, expected):
    policy = adadim.FeelGood(eta=2.0, bonus=bonus, cap=1.0, particles=4)
    learner = policy.start(adadim.Problem(Z, horizon=100, noise=0.1), seed=1)
    learner.rule.particles[0, :, 0] = PARTICLES
    learner.learn([0, 1, 2, 0], [0.9, 0.2, 0.7, 1.1])
    _, weights = learner.rule.weighted(learner.everyone, 0, Z, None, 5.0)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_particles_come_from_the_prior():
    policy = adadim.FeelGood(dims=(1, 3), sizes=(0.5, 2.0), weights=(1.0, 1.0, 2.0, 4.0), particles=40_000)
    learner = policy.start(adadim.Problem(np.eye(3), horizon=9, noise=0.1), seed=1)
    particles = learner.rule.particles[0, :, 0]
    short = particles[:, 1] == 0
    assert short.mean() == pytest.approx(0.25, abs=0.01)
    assert (particles[short, 2] == 0).all()
    assert (particles[:, 0] ** 2).mean() == pytest.approx(3 / 8 * 0.25 + 5 / 8 * 4, rel=0.05)
    assert (particles[~short, 2] ** 2).mean() == pytest.approx(2 / 6 * 0.25 + 4 / 6 * 4, rel=0.05)


def test_the_bonus_by_default():
    """1 / (sigma sqrt(T)); without end of t rounds."""
    rule = adadim.FeelGood().start(adadim.Problem(Z, horizon=400, noise=0.1)).rule
    assert rule.factor(9.0) == pytest.approx(0.5)
    rule = adadim.FeelGood().start(adadim.Problem(Z, horizon=None, noise=0.1)).rule
    assert rule.factor(25.0) == pytest.approx(2.0)


def textbook_weights(theta, past, pulls, rewards, eta, bonus, cap):
    logs = np.zeros(len(theta))
    for x, y in zip(pulls, rewards, strict=True):
        logs -= eta * (theta @ x - y) ** 2
    for offered in past:
        logs += bonus * np.minimum(cap, (theta @ offered.T).max(axis=1))
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.parametrize("late", [0, 4], ids=["at once", "late"])
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_particles_in_lock_step_with_the_textbook(offer, late):
    """A reward counts once it is known, a set when it is offered."""
    rng = np.random.default_rng(5)
    rounds = rng.standard_normal((60, 5, 3)) / 2
    if offer == "fixed":
        rounds[:] = rounds[0]
    sizes = {"features": rounds[0]} if offer == "fixed" else {"arms": 5, "dim": 3}
    policy = adadim.FeelGood(eta=1.5, bonus=0.7, cap=0.6, particles=30)
    learner = policy.start(adadim.Problem(**sizes, horizon=None, noise=0.3), seed=2)
    (generator,) = Streams(2, Purpose.POLICY, [0]).child(0).generators
    theta = learner.rule.particles[0, :, 0].copy()
    past, pulls, rewards, waiting = [], [], [], []
    for x in rounds:
        weights = textbook_weights(theta, past, pulls, rewards, 1.5, 0.7, 0.6)
        drawn = int((np.cumsum(weights) <= generator.random()).sum())
        decision = learner.ask(*[] if offer == "fixed" else [x])
        arm = int((x @ theta[drawn]).argmax())
        assert decision.arms == arm
        assert learner.describe()["effective_draws"] == pytest.approx(1 / (weights @ weights))
        past.append(x)
        waiting.append((decision, x[arm], x[arm] @ [0.5, 0, 0.4] + 0.3 * rng.standard_normal()))
        if len(waiting) > late:
            decision, pulled, reward = waiting.pop(0)
            learner.tell(decision, reward)
            pulls.append(pulled)
            rewards.append(reward)


def test_draws_have_the_law_of_many_particles():
    """Means of the best arm's value and of arm 1, by two ways to the same law: from the posterior, from the prior."""
    pulls, rewards = [0, 1, 2, 0, 1, 2], [0.9, 0.5, 0.7, 1.1, 0.3, 0.8]
    found, options_of_all = [], {"sizes": (1.0,), "bonus": 1.5, "cap": 1.2}
    for options in ({"draws": 40_000}, {"particles": 400_000}, {"draws": 40_000, "bonus": 0.0}):
        learner = adadim.FeelGood(**(options_of_all | options)).start(adadim.Problem(Z, horizon=100, noise=0.5), seed=3)
        learner.learn(pulls, rewards)
        means, weights = learner.rule.weighted(learner.everyone, 0, Z, None, 7.0)
        found.append([weights @ np.minimum(means.max(axis=1), 1.2), weights @ means[:, 1]])
    np.testing.assert_allclose(found[0], found[1], atol=0.02)
    assert found[0][0] - found[2][0] > 0.05  # the bonus matters here


def test_draws_with_an_intercept_have_the_law_of_a_wide_column():
    """By particles with a column of ones in front, drawn near the posterior, its size being as good as free."""
    pulls, rewards = [0, 1, 2, 0, 1, 2], np.array([0.9, 0.5, 0.7, 1.1, 0.3, 0.8])
    rng, noise, bonus, cap, rounds, count = np.random.default_rng(1), 0.5, 1.5, 0.4, 7.0, 400_000
    a, mean = Z[pulls], rewards.mean()
    theta = rng.standard_normal((count, 2))  # the prior; the constant given it has a Gaussian posterior
    prefix = rng.random(count) < 2 / 3  # 1 feature has weight 1, and 2 have 1/2
    theta[prefix, 1] = 0.0
    residuals = rewards - theta @ a.T
    constant = residuals.mean(axis=1) + noise / np.sqrt(6) * rng.standard_normal(count)
    values = theta @ Z.T + constant[:, None] - mean
    best = np.minimum(values.max(axis=1), cap)
    logs = -0.5 * 6 * residuals.var(axis=1) / noise**2
    found = []
    for one in (bonus, 0.0):
        weights = np.exp(logs - logs.max() + one * (rounds - 1) * (best - best.max()))
        weights /= weights.sum()
        options = {"sizes": (1.0,), "bonus": one, "cap": cap, "draws": 40_000, "intercept": True}
        learner = adadim.FeelGood(**options).start(adadim.Problem(Z, horizon=100, noise=noise), seed=3)
        learner.learn(pulls, rewards + 20.0)
        means, drawn = learner.rule.weighted(learner.everyone, 0, Z, None, rounds)
        expected = [weights @ best, weights @ values[:, 1]]
        found.append([drawn @ np.minimum(means.max(axis=1), cap), drawn @ means[:, 1]])
        np.testing.assert_allclose(found[-1], expected, atol=0.02)
    assert found[0][0] - found[1][0] > 0.05  # the bonus matters here


def test_without_a_bonus_it_is_prior_thompson():
    learners = [
        policy.start(adadim.Problem(Z, horizon=100, noise=0.5), seed=4)
        for policy in (adadim.FeelGood(bonus=0.0, draws=30_000), adadim.PriorThompson())
    ]
    for learner in learners:
        learner.learn([0, 1, 2, 0], [0.9, 0.2, 0.7, 1.1])
    means, weights = learners[0].rule.weighted(learners[0].everyone, 0, Z, None, 5.0)
    np.testing.assert_allclose(weights, 1 / 30_000)
    drawn = np.array([learners[1].rule.scores(learners[1].everyone)[0] for _ in range(4_000)])
    np.testing.assert_allclose(means.mean(axis=0), drawn.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(means.std(axis=0), drawn.std(axis=0), atol=0.03)


def test_more_is_drawn_where_few_draws_count():
    learner = adadim.FeelGood(bonus=1e4, draws=100, cap=1e3).start(adadim.Problem(Z, horizon=9, noise=0.5), seed=1)
    learner.learn([0, 1], [0.9, 0.2])
    means, weights = learner.rule.weighted(learner.everyone, 0, Z, None, 3.0)
    assert len(means) == len(weights) == 400
    assert weights.argmax() == means.max(axis=1).argmax()


def test_past_sets_are_a_uniform_sample():
    """Of 100 sets each is among the 64 kept in 64% of the runs."""
    count, rounds = 300, 100
    problem = adadim.Problem(arms=2, dim=1, horizon=rounds, noise=0.5, replications=range(count))
    learner = adadim.FeelGood(draws=1).start(problem, seed=1)
    for s in range(rounds):
        for r in range(count):
            learner.rule.keep(r, np.full((2, 1), float(s)), None, np.zeros((1, 2)))
    kept = np.array([(learner.rule.sets[:, :, 0, 0] == s).any(axis=1).mean() for s in range(rounds)])
    assert kept.sum() == pytest.approx(64)
    assert np.abs(kept - 0.64).max() < 5 * np.sqrt(0.64 * 0.36 / count)


def test_sets_that_are_kept_are_averaged():
    problem = adadim.Problem(arms=2, dim=2, horizon=50, noise=0.5)
    rule = adadim.FeelGood(cap=0.7).start(problem, seed=1).rule
    rule.keep(0, np.eye(2), None, np.zeros((1, 2)))
    rule.keep(0, np.eye(2), np.array([False, True]), np.zeros((1, 2)))
    theta = np.array([[[0.5, 0.2]], [[0.9, -0.1]]])
    np.testing.assert_allclose(rule._past_best(0, theta, 0.0, np.zeros(2)), [(0.5 + 0.2) / 2, (0.7 - 0.1) / 2])


@pytest.mark.parametrize("options", [{"draws": 50}, {"particles": 50}], ids=["draws", "particles"])
def test_arms_with_parameters_of_their_own(options):
    problem = adadim.Problem(arms=2, dim=2, horizon=200, noise=0.1, disjoint=True)
    learner = adadim.FeelGood(**options).start(problem, seed=1)
    rng = np.random.default_rng(0)
    right = 0
    for t in range(200):
        x = rng.standard_normal(2)
        decision = learner.ask(x)
        learner.tell(decision, float(x @ [[0.6, 0.0], [-0.6, 0.0]][decision.arms]))
        right += t >= 100 and (decision.arms == 0) == (x[0] > 0)
    assert right >= 90


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": 0.0}, "eta must be a positive"),
        ({"bonus": -1.0}, "bonus must be"),
        ({"cap": 0.0}, "cap must be a positive"),
        ({"draws": 0}, "draws must be an integer of at least 1"),
        ({"particles": 2.5}, "particles must be an integer"),
        ({"particles": 9, "intercept": True}, "intercept=True is for parameters drawn in each round"),
    ],
)
def test_bad_parameters(options, message):
    assert_refuses((ValueError, TypeError), message, adadim.FeelGood, **options)
