"""Learners started from sums over the data are where learning the data one by one would have brought them."""

import numpy as np
import pytest

import adadim
from adadim.core.randomness import Purpose, Streams
from adadim.models.statistics import Moments
from adadim.policies.player import EstimatesFromSums, LearnsFromSums
from agent_runs import scores_by

POLICIES = [
    adadim.LinUCB(),
    adadim.LinUCB(radius="oful", ridge=0.5, dim=3),
    adadim.TaperedLinUCB(taper=1.2),
    adadim.Greedy(ridge=2.0),
    adadim.EvidenceLinUCB(),
    adadim.LinTS(),
    adadim.LinTS(dim=2, ridge=1.5),
]


def data(count, dim=5, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, dim))
    return features, features[:, :2].sum(axis=1) + 0.2 * rng.normal(size=count)


def sums_of(features, rewards):
    sums = Moments.zeros(features.shape[1])
    sums.add(features, rewards)
    return sums


@pytest.mark.parametrize("horizon", [500, None])
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("count", [0, 1, 64])  # powers of two: EvidenceLinUCB takes stock there either way
def test_restarting_is_learning_everything(policy, count, horizon):
    problem = adadim.Problem(arms=10, dim=5, horizon=horizon, noise=0.3)
    features, rewards = data(count)
    taught, started = policy.start(problem, seed=1), policy.start(problem, seed=1)
    if count:
        taught.learn(features, rewards)
    started.learn(*data(7, seed=3))  # which is to be forgotten
    started.restart(sums_of(features, rewards))
    offered = data(10, seed=5)[0]
    scores = [scores_by(learner, offered, count, seed=2) for learner in (taught, started)]
    assert np.allclose(*scores, rtol=1e-9, atol=1e-9) or count == 0  # with no data, ridges are only relative to lengths
    assert np.argmax(scores[0]) == np.argmax(scores[1])
    if count:
        assert np.allclose(taught.estimates(offered), started.estimates(offered), rtol=1e-9, atol=1e-9)
    assert isinstance(started, EstimatesFromSums)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_scores_less_costs_are_those_by_which_it_chooses(policy):
    learner = policy.start(adadim.Problem(arms=10, dim=5, horizon=500, noise=0.3))
    learner.learn(*data(50))
    offered, costs = data(10, seed=8)[0], np.zeros(10)
    scores = scores_by(learner, offered, 50)
    for _ in range(9):  # the best ones cost too much, one after the other
        best = int(np.argmax(scores - costs))
        learner.resume(50, Streams(0, Purpose.POLICY, [0]))
        rows = learner.everyone.with_offer(offered[None], None, costs)
        choice = learner.choose(rows)
        assert choice.arms.tolist() == [best]
        assert np.array_equal(choice.scores, [scores - costs])
        costs[best] = 100.0


def test_scores_drawn_again_have_the_mean_and_spread_of_the_posterior():
    problem = adadim.Problem(arms=10, dim=5, horizon=500, noise=0.3)
    features, rewards = data(50)
    learner = adadim.LinTS(ridge=0.5).start(problem)
    learner.learn(features, rewards)
    offered = data(4, seed=8)[0]
    learner.resume(50, Streams(0, Purpose.POLICY, [0]))
    rows = learner.everyone.with_offer(offered[None], None)
    learner.choose(rows)
    drawn = learner.rule.resample_scores(rows, 100_000)
    inverse = np.linalg.inv(features.T @ features + 0.5 * np.eye(5))
    covariance = 0.09 * offered @ inverse @ offered.T
    means = offered @ inverse @ features.T @ rewards
    deviations = np.sqrt(np.diag(covariance))
    assert (np.abs(drawn.mean(axis=0) - means) < 5 * deviations / np.sqrt(100_000)).all()
    assert np.allclose(np.cov(drawn.T), covariance, rtol=0, atol=0.03 * covariance.max())
    assert adadim.LinUCB().start(problem).choose(learner.everyone.with_offer(offered[None], None)).estimate is None


@pytest.mark.parametrize("pending", [0, 3])
def test_means_by_parameters_drawn_are_those_of_the_parameters(pending):
    learner = adadim.LinTS(ridge=0.5).start(adadim.Problem(arms=10, dim=5, horizon=500, noise=0.3))
    learner.restart(sums_of(*data(50)))
    for features in data(pending, seed=3)[0]:
        learner.expect_features(features)
    model, rows = learner.model, learner.everyone
    spread = np.random.default_rng(0).standard_normal((1, 7, 5))
    inputs = model.inputs(data(4, seed=8)[0][None], rows)
    by_parameters = model.sample(spread, rows)[0] @ inputs[0].T
    np.testing.assert_allclose(model.sample_means(spread, inputs, rows)[0], by_parameters, rtol=1e-12, atol=1e-12)


def test_random_learns_nothing_and_looks_at_no_score():
    learner = adadim.Random().start(adadim.Problem(arms=4, dim=2, horizon=10))
    learner.restart(sums_of(*data(5, dim=2)))
    assert scores_by(learner, np.eye(2), 0) is None
    assert isinstance(learner, LearnsFromSums)
    assert not isinstance(learner, EstimatesFromSums)


def test_the_standard_deviation_uses_the_residuals_where_no_noise_is_given():
    problem = adadim.Problem(arms=10, dim=5, horizon=None)
    features, rewards = data(400)
    learner = adadim.Greedy(ridge=1e-6).start(problem)
    learner.restart(sums_of(features, rewards))
    _, width = learner.estimates(np.eye(5))
    _, residual, *_ = np.linalg.lstsq(features, rewards)
    exact = np.sqrt(residual[0] / 400 * np.diag(np.linalg.inv(features.T @ features)))
    assert np.allclose(width, exact, rtol=1e-4)


def test_sums_with_weights():
    features, rewards = data(20)
    weights = np.random.default_rng(1).uniform(size=20)
    sums = Moments.zeros(5)
    sums.add(features, np.zeros(20), weights)
    sums.replace(features, np.zeros(20), rewards, weights)
    sums.fade(0.5)
    assert np.allclose(sums.second, 0.5 * np.einsum("i,ij,ik->jk", weights, features, features))
    assert np.allclose(sums.moment, 0.5 * np.einsum("i,i,ij->j", weights, rewards, features))
    assert np.isclose(sums.squares, 0.5 * (weights * rewards**2).sum())
    assert np.isclose(sums.weight, 0.5 * weights.sum())
    assert np.isclose(sums.longest, (features**2).sum(axis=1).max())
