"""Optimism with a radius drawn from a ladder: the sheet's numbers, a textbook in lock-step, and known probabilities."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.policies.linear.radius_mixture import ladder, radius_weights
from refusals import assert_refuses

Z = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
PULLED, REWARDS = [0, 1, 2, 0] + [0] * 20, [0.9, 0.2, 0.7, 1.1] + [0.9] * 20


def learned(noise=1.0, **options):
    learner = adadim.RadiusMixture(**options).start(adadim.Problem(Z, horizon=100, noise=noise), seed=1)
    learner.learn(PULLED, REWARDS)
    return learner


def test_the_ladder_and_its_weights():
    assert ladder(16) == [0, 1, 2, 4, 8, 16]
    assert ladder(20) == [0, 1, 2, 4, 8, 16, 32]
    assert ladder(1) == [0, 1]
    expected = [0.50793651, 0.25396825, 0.12698413, 0.06349206, 0.03174603, 0.01587302]
    np.testing.assert_allclose(radius_weights(adadim.RadiusMixture(), 16), expected, rtol=1e-6)
    expected = [0.50393701, 0.2519685, 0.12598425, 0.06299213, 0.03149606, 0.01574803, 0.00787402]
    np.testing.assert_allclose(radius_weights(adadim.RadiusMixture(), 20), expected, rtol=1e-6)
    assert radius_weights(adadim.RadiusMixture(weights="uniform"), 4) == [0.25] * 4
    assert radius_weights(adadim.RadiusMixture(sparsity=4), 16) == [0, 0, 0, 1, 0, 0]
    assert radius_weights(adadim.RadiusMixture(sparsity=1), 16) == [0, 1, 0, 0, 0, 0]
    assert radius_weights(adadim.RadiusMixture(sparsity=20), 20)[-1] == 1


def test_indices_on_the_small_data_set():
    learner = learned(released=True, noise=0.1)
    mean, width2 = learner.model.predict(learner.everyone)
    np.testing.assert_allclose(mean[0, :2], [0.86796256, 0.08617711], rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(width2[0]), [0.20609852, 0.65229285, 0.41480867], rtol=1e-7)
    found = [index[0] for index in learner.rule.indices(learner.everyone)]
    expected = [
        [0.86796256, 0.08617711, 0.74607631],
        [1.2353764, 1.24902589, 1.48555975],
        [1.38756419, 1.73069362, 1.79186382],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    p = learner.choose(learner.everyone).probabilities
    np.testing.assert_allclose(p, [[4 / 7, 0, 3 / 7]])
    np.testing.assert_allclose(learned().choose(learner.everyone).probabilities, p)  # noise 1
    assert learned(0.1).choose(learner.everyone).probabilities.tolist() == [[1.0, 0.0, 0.0]]


def textbook(x, pulls, rewards, weights, noise, ridge, costs=0.0):
    """Probabilities of the arms `x` (K, d) after pulls of features (n, d), without ties."""
    inverse = np.linalg.inv(ridge * np.eye(x.shape[1]) + pulls.T @ pulls)
    mean, width = x @ inverse @ pulls.T @ rewards - costs, np.sqrt([a @ inverse @ a for a in x])
    p = np.zeros(len(x))
    for i, weight in enumerate(weights):
        alpha = 0.0 if i == 0 else 2.0 ** (i - 1)
        p[(mean + noise * np.sqrt(alpha * np.log(max(1, len(rewards)))) * width).argmax()] += weight
    return p


@pytest.mark.parametrize("late", [0, 4], ids=["at once", "late"])
@pytest.mark.parametrize("weights", ["theory", "uniform"])
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_in_lock_step_with_the_textbook(offer, weights, late):
    """Pending rounds do not count. Before the first reward all means are 0, and the arm is drawn from all."""
    rng = np.random.default_rng(5)
    rounds = rng.standard_normal((60, 7, 4)) / 2
    if offer == "fixed":
        rounds[:] = rounds[0]
    sizes = {"features": rounds[0]} if offer == "fixed" else {"arms": 7, "dim": 4}
    policy = adadim.RadiusMixture(weights=weights, ridge=0.5)
    q = np.array([8, 4, 2, 1]) / 15 if weights == "theory" else np.full(4, 0.25)
    learner = policy.start(adadim.Problem(**sizes, horizon=None, noise=0.3), seed=2)
    pulls, rewards, waiting, spread = [], [], [], 0
    for x in rounds:
        offered = [] if offer == "fixed" else [x]
        expected = np.full(7, 1 / 7)
        if pulls:
            expected = textbook(x, np.array(pulls), np.array(rewards), q, 0.3, 0.5)
            spread += np.count_nonzero(expected) > 1
        rows = learner.everyone.with_offer(x[None] if offered else None, None)
        np.testing.assert_allclose(learner.rule.probabilities(rows)[0], expected, atol=1e-12)
        decision = learner.ask(*offered)
        at = decision.arms
        assert expected[at] > 0
        waiting.append((decision, x[at], x[at] @ [0.5, 0, 0.4, 0] + 0.3 * rng.standard_normal()))
        if len(waiting) > late:
            decision, pulled, reward = waiting.pop(0)
            learner.tell(decision, reward)
            pulls.append(pulled)
            rewards.append(reward)
    assert spread > 5


def test_masks_and_costs():
    learner = adadim.RadiusMixture().start(adadim.Problem(arms=3, dim=2, horizon=50, noise=0.5))
    learner.learn(Z[PULLED], REWARDS)
    q = np.array([4, 2, 1]) / 7
    for costs in (np.zeros(3), np.array([0.4, 0.0, 0.1])):
        for allowed in ([True] * 3, [True, True, False], [False, True, True]):
            at = np.flatnonzero(allowed)
            expected = textbook(Z[at], Z[PULLED], np.array(REWARDS), q, 0.5, 1.0, costs[at])
            rows = learner.everyone.with_offer(Z[None], np.array([allowed]), costs)
            found = learner.choose(rows).probabilities[0]
            np.testing.assert_allclose(found[at], expected, atol=1e-12)
            assert found.sum() == pytest.approx(1)


def test_ties():
    problem = adadim.Problem(np.eye(4), horizon=9, noise=0.1)
    for ties, expected in (("random", [0.25] * 4), ("lowest", [1.0, 0, 0, 0])):
        learner = adadim.RadiusMixture(ties=ties).start(problem)
        np.testing.assert_allclose(learner.choose(learner.everyone).probabilities[0], expected)


def test_each_arm_with_a_parameter_of_its_own():
    problem = adadim.Problem(arms=3, dim=2, horizon=50, noise=0.3, disjoint=True)
    learner, rng = adadim.RadiusMixture().start(problem, seed=2), np.random.default_rng(3)
    pulls, rewards, q = np.zeros((0, 6)), np.zeros(0), 2.0 ** -np.arange(5)
    for x in rng.standard_normal((30, 2)):
        arms = np.kron(np.eye(3), x)
        if len(rewards) > 2:
            expected = textbook(arms, pulls, rewards, q / q.sum(), 0.3, 1.0)
            found = learner.rule.probabilities(learner.everyone.with_offer(x[None], None))[0]
            np.testing.assert_allclose(found, expected, atol=1e-12)
        arm = learner.select(x)
        reward = float(x[0] * arm + 0.3 * rng.standard_normal())
        learner.update(arm, reward)
        pulls, rewards = np.vstack([pulls, arms[arm]]), np.append(rewards, reward)


def test_it_beats_chance():
    instance = adadim.instances.sphere(arms=20, dim=4, intrinsic_dim=2, horizon=80, replications=range(2))
    regret = adadim.simulate(adadim.RadiusMixture(), instance, seed=2).final.mean()
    assert regret < adadim.simulate(adadim.Random(), instance).final.mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "known"}, "weights must be"),
        ({"sparsity": 0}, "sparsity must be"),
        ({"released": 2}, "released must be"),
    ],
)
def test_bad_parameters(options, message):
    assert_refuses((ValueError, TypeError), message, adadim.RadiusMixture, **options)


def test_sparsity_must_fit_the_problem():
    policy, problem = adadim.RadiusMixture(sparsity=4), adadim.Problem(np.eye(3), horizon=9, noise=0.1)
    assert_refuses(ValueError, "sparsity must be at most 3, the number of parameters, got 4", policy.start, problem)
