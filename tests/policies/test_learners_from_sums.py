"""Learners started from sums over the data are where learning the data one by one would have brought them."""

import numpy as np
import pytest

import adadim
from adadim.models.moments import Moments
from adadim.policies.sums import EstimatesFromSums, LearnsFromSums

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
    draws = [learner.scores_of(offered, count, np.random.default_rng(2), 3) for learner in (taught, started)]
    assert np.allclose(*draws, rtol=1e-9, atol=1e-9) or count == 0  # with no data, ridges are only relative to lengths
    assert np.argmax(draws[0]) == np.argmax(draws[1])
    if count:
        assert np.allclose(taught.estimates(offered), started.estimates(offered), rtol=1e-9, atol=1e-9)
    assert isinstance(started, EstimatesFromSums)


def test_scores_are_those_of_choose():
    problem = adadim.Problem(arms=10, dim=5, horizon=500, noise=0.3)
    features, rewards = data(50)
    for policy in POLICIES[:5]:
        learner = policy.start(problem)
        learner.learn(features, rewards)
        offered = data(10, seed=8)[0]
        assert learner.select(offered) == np.argmax(learner.scores_of(offered, 50, np.random.default_rng(0)))


def test_random_learns_nothing_and_every_arm_ties():
    learner = adadim.Random().start(adadim.Problem(arms=4, dim=2, horizon=10))
    learner.restart(sums_of(*data(5, dim=2)))
    scores = learner.scores_of(np.eye(2), 0, np.random.default_rng(0)) - np.array([3.0, 0.0])
    assert np.array_equal(scores, [[np.inf, np.inf]])
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
