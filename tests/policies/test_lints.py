"""Thompson sampling: the draws have the posterior's law, the choices are those of a textbook version."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.core.randomness import Purpose, Streams
from small_problems import small


def normals(seed, replication, count, dim):
    """The standard normals that a learner draws, one row per round."""
    (generator,) = Streams(seed, Purpose.POLICY, [replication]).child(0).generators
    return np.array([generator.standard_normal(dim) for _ in range(count)])


def textbook(features, rewards, xi, ridge, deviation):
    """Thompson sampling with a factorisation in every round: theta_hat + deviation L^-T xi."""
    dim = features.shape[-1]
    v, b, arms = ridge * np.eye(dim), np.zeros(dim), []
    for x, gained, noise in zip(features, rewards, xi, strict=True):
        factor = np.linalg.cholesky(v)
        theta = np.linalg.solve(v, b) + deviation * np.linalg.solve(factor.T, noise)
        arm = int(np.argmax(x @ theta))
        arms.append(arm)
        v += np.outer(x[arm], x[arm])
        b += gained[arm] * x[arm]
    return arms


@pytest.mark.parametrize("dim", [5, 3])
@pytest.mark.parametrize("contextual", [False, True])
def test_in_lock_step_with_the_textbook(contextual, dim):
    rng = np.random.default_rng(3)
    rounds = rng.standard_normal((400, 12, 5)) / 3
    if not contextual:
        rounds = np.broadcast_to(rounds[0], rounds.shape)
    rewards = rounds @ [0.5, -0.4, 0.3, 0, 0] + 0.1 * rng.standard_normal((400, 12))
    problem = adadim.Problem(None if contextual else rounds[0], horizon=400, noise=0.1, **(
        {"arms": 12, "dim": 5} if contextual else {}
    ))  # fmt: skip
    learner = adadim.LinTS(ridge=0.3, scale=0.7, dim=dim).start(problem, seed=6)
    arms = []
    for features, gained in zip(rounds, rewards, strict=True):
        arms.append(learner.select(features) if contextual else learner.select())
        learner.update(arms[-1], gained[arms[-1]])
    xi = normals(6, 0, 400, dim)
    assert arms == textbook(rounds[..., :dim], rewards, xi, 0.3, 0.07)


def test_draws_have_the_law_of_the_posterior():
    count, times = 500, 40
    features = np.random.default_rng(0).standard_normal((6, 3)) / 2
    problem = adadim.Problem(np.broadcast_to(features, (count, 6, 3)), horizon=50, noise=0.2)
    learner = adadim.LinTS(ridge=0.5, scale=1.5).start(problem)
    pulled, rewards = [0, 3, 3, 5], [0.4, -0.1, 0.2, 0.3]
    learner.learn(np.tile(pulled, (count, 1)), np.tile(rewards, (count, 1)))
    x = features[pulled]
    v = 0.5 * np.eye(3) + x.T @ x
    model, normals = learner.model, np.random.default_rng(1)
    spreads = 1.5 * 0.2 * normals.standard_normal((times, count, 1, 3))
    drawn = np.concatenate([model.sample(spread, learner.everyone)[:, 0] for spread in spreads])
    assert len(drawn) == 20_000
    covariance = (1.5 * 0.2) ** 2 * np.linalg.inv(v)
    error = np.sqrt(np.diag(covariance) / len(drawn))
    assert (np.abs(drawn.mean(axis=0) - np.linalg.solve(v, x.T @ rewards)) < 4.5 * error).all()
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) * 2 / len(drawn))
    assert (np.abs(np.cov(drawn.T) - covariance) < 4.5 * spread).all()


@pytest.mark.parametrize("expressive", [False, True])
def test_the_same_on_torch(expressive, torch):
    closure = {"expressive": True, "levels": [4, 12]} if expressive else {}
    instance = small(range(3), horizon=120, arms=15, dim=12, **closure)
    for policy in (adadim.LinTS(), adadim.LinTS(dim=4, scale=0.5)):
        ours, theirs = (adadim.simulate(policy, which, seed=2) for which in (instance, instance.to("cpu")))
        np.testing.assert_array_equal(ours.pulls, theirs.pulls)


def test_it_learns():
    instance = small(range(10), horizon=500, arms=60, dim=10, intrinsic_dim=2)
    final = {
        p: adadim.simulate(p, instance).final.mean() for p in (adadim.LinTS(), adadim.LinTS(dim=2), adadim.Random())
    }
    sampled, knowing, random = final.values()
    assert knowing < sampled < random / 4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ridge": 0}, "ridge must be a positive finite number"),
        ({"scale": -1.0}, "scale must be a positive finite number"),
        ({"dim": 0}, "dim must be an integer of at least 1"),
        ({"ties": "first"}, "ties must be 'random' or 'lowest'"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(adadim.InvalidValueError, match=message):
        adadim.LinTS(**parameters)


def test_too_many_features():
    with pytest.raises(adadim.InvalidValueError, match=r"dim must be an integer in 1\.\.3 .*got 4"):
        adadim.LinTS(dim=4).start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
