"""Thompson sampling with several priors: the sheet's numbers, a textbook version in lock-step, and the law of draws."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.core.randomness import Purpose, Streams
from adadim.policies.linear.prior_thompson import posteriors_of
from refusals import assert_refuses

Z = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
X = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8], [0.5, 0.5, 0.5]])
Y = np.array([0.8, 0.5, -0.2, 0.4])


def posteriors(policy, features, pulls, rewards, noise):
    learner = policy.start(adadim.Problem(features, horizon=100, noise=noise), seed=1)
    learner.learn(pulls, rewards)
    return posteriors_of(learner.rule.prior, learner.model, learner.everyone), learner


def three_priors():
    """Ridges 0.01, 0.09 and 1 at noise 0.3."""
    policy = adadim.PriorThompson(dims=(3,), sizes=(3.0, 1.0, 0.3), weights=(0.5, 0.3, 0.2))
    return posteriors(policy, X, [0, 1, 2, 3], Y, 0.3)


def test_evidence_and_probabilities_of_three_ridges():
    found, learner = three_priors()
    np.testing.assert_allclose(learner.rule.prior.ridges, [0.01, 0.09, 1.0])
    np.testing.assert_allclose(found.log_evidence[0], [-6.80888067, -3.99923456, -3.46030053], rtol=1e-8)
    np.testing.assert_allclose(found.probabilities[0], [0.04474805, 0.4457991, 0.50945285], rtol=1e-6)
    mixture = np.logaddexp.reduce(found.log_evidence[0] + np.log([0.5, 0.3, 0.2]))
    assert mixture == pytest.approx(-4.39532048, rel=1e-8)
    assert 2 * 0.09 * (np.log(100) - mixture) == pytest.approx(1.62008832, rel=1e-8)
    assert ((Y - X @ [0.7, 0.1, -0.2]) ** 2).sum() == pytest.approx(0.03)


def test_a_draw_from_the_second_prior():
    """By the lower factor C of V^-1: C z is L^-T xi of the draw made here, with xi = L^T C z."""
    found, learner = three_priors()
    inverse = np.linalg.inv(0.09 * np.eye(3) + X.T @ X)
    xi = np.linalg.cholesky(np.linalg.inv(inverse)).T @ np.linalg.cholesky(inverse) @ [0.3, -1.1, 0.4]
    theta = found.draw(np.array([[1]]), 0.3 * xi[None, None, None])[0, 0]
    np.testing.assert_allclose(theta[0], [0.85665939, -0.38945044, 0.23359991], rtol=1e-7)
    scores = learner.model.means_by(theta, learner.everyone)
    np.testing.assert_allclose(scores[0], [0.85665939, 0.20243528, -0.04679033, 0.35040443], rtol=1e-6)


def test_nested_prefixes():
    policy = adadim.PriorThompson(dims=(1, 2), sizes=(1.0,), weights=(0.5, 0.25))
    found, _ = posteriors(policy, Z, [0, 1, 2, 0], [0.9, 0.2, 0.7, 1.1], 0.5)
    np.testing.assert_allclose(found.log_evidence[0], [-1.78841211, -2.64468368], rtol=1e-8)
    np.testing.assert_allclose(found.probabilities[0], [0.82482977, 0.17517023], rtol=1e-7)
    by_default, _ = posteriors(adadim.PriorThompson(sizes=(1.0,)), Z, [0, 1, 2, 0], [0.9, 0.2, 0.7, 1.1], 0.5)
    np.testing.assert_allclose(by_default.probabilities, found.probabilities)


def textbook(x, pulls, rewards, priors, noise, uniform, normals, intercept=False):
    """The arm of `x` (K, d): `priors` are (features, ridge, weight), each with its own regression."""
    logs, posterior = [], []
    if intercept and len(pulls):
        pulls, rewards = pulls - pulls.mean(axis=0), rewards - rewards.mean()
    for dim, ridge, weight in priors:
        a = pulls[:, :dim]
        v = ridge * np.eye(dim) + a.T @ a
        mean = np.linalg.solve(v, a.T @ rewards)
        residual = rewards @ rewards - rewards @ a @ mean
        logs.append(np.log(weight) - 0.5 * np.linalg.slogdet(v / ridge)[1] - residual / (2 * noise**2))
        posterior.append((mean, np.linalg.cholesky(v)))
    p = np.exp(np.array(logs) - max(logs))
    m = int((np.cumsum(p / p.sum()) <= uniform).sum())
    mean, factor = posterior[m]
    theta = mean + noise * np.linalg.solve(factor.T, normals[: len(mean)])
    return int((x[:, : len(mean)] @ theta).argmax())


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("late", [0, 4], ids=["at once", "late"])
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_in_lock_step_with_the_textbook(offer, late, intercept):
    """Pending rounds do not count."""
    rng = np.random.default_rng(5)
    rounds = rng.standard_normal((120, 7, 4)) / 2
    if offer == "fixed":
        rounds[:] = rounds[0]
    sizes = {"features": rounds[0]} if offer == "fixed" else {"arms": 7, "dim": 4}
    weights = (3.0, 1.0, 2.0, 1.0, 1.0, 1.0)
    policy = adadim.PriorThompson(dims=(1, 3, 4), sizes=(0.5, 2.0), weights=weights, intercept=intercept)
    priors = [(dim, (0.3 / size) ** 2) for dim in (1, 3, 4) for size in (0.5, 2.0)]
    priors = [(*prior, weight) for prior, weight in zip(priors, (3, 1, 2, 1, 1, 1), strict=True)]
    learner = policy.start(adadim.Problem(**sizes, horizon=None, noise=0.3), seed=2)
    (generator,) = Streams(2, Purpose.POLICY, [0]).child(0).generators
    pulls, rewards, waiting = [], [], []
    for x in rounds:
        drawn = generator.random(), generator.standard_normal(4)
        expected = textbook(x, np.array(pulls).reshape(-1, 4), np.array(rewards), priors, 0.3, *drawn, intercept)
        decision = learner.ask(*[] if offer == "fixed" else [x])
        assert decision.arms == expected
        waiting.append((decision, x[expected], x[expected] @ [0.5, 0, 0.4, 0] + 0.3 * rng.standard_normal()))
        if len(waiting) > late:
            decision, pulled, reward = waiting.pop(0)
            learner.tell(decision, reward)
            pulls.append(pulled)
            rewards.append(reward)


def test_arms_with_parameters_of_their_own_share_the_prior():
    """The evidence is the product over the arms."""
    problem = adadim.Problem(arms=2, dim=2, horizon=50, noise=0.5, disjoint=True)
    learner = adadim.PriorThompson(sizes=(1.0,)).start(problem, seed=1)
    pulls = [(0, [0.8, 0.6], 0.9), (1, [1.0, 0.2], -0.3), (0, [0.1, 1.0], 0.4)]
    for arm, x, reward in pulls:
        learner.absorb(np.array([arm]), np.array([reward]), learner.everyone, {"features": np.array([x])})
    expected = []
    for dim in (1, 2):
        log = 0.0
        for block in (0, 1):
            a = np.array([x[:dim] for arm, x, _ in pulls if arm == block])
            y = np.array([reward for arm, _, reward in pulls if arm == block])
            v = 0.25 * np.eye(dim) + a.T @ a
            residual = y @ y - y @ a @ np.linalg.solve(v, a.T @ y)
            log += -0.5 * np.linalg.slogdet(v / 0.25)[1] - residual / (2 * 0.25)
        expected.append(log)
    found = posteriors_of(learner.rule.prior, learner.model, learner.everyone)
    np.testing.assert_allclose(found.log_evidence[0], expected, rtol=1e-10)
    drawn = found.draw(np.array([[0]]), np.zeros((1, 1, 2, 2)))[0, 0]
    assert drawn[:, 1].tolist() == [0, 0]
    assert drawn[0, 0] == pytest.approx((0.8 * 0.9 + 0.1 * 0.4) / (0.25 + 0.65))


def test_an_intercept_is_a_constant_of_any_size():
    """As a column in front of which nothing is known: prior standard deviation 1e4, where the rewards are near 40."""
    rng, wide = np.random.default_rng(2), 1e4
    x = rng.standard_normal((30, 3))
    rewards = 40 + x @ [0.6, 0.0, -0.4] + 0.3 * rng.standard_normal(30)
    policy = adadim.PriorThompson(dims=(1, 2, 3), sizes=(0.5, 2.0), intercept=True)
    found, _ = posteriors(policy, x, list(range(30)), rewards, 0.3)
    logs, at = [], np.array([5])
    for dim in (1, 2, 3):
        for size in (0.5, 2.0):
            a = np.concatenate([np.ones((30, 1)), x[:, :dim]], axis=1)
            prior = np.diag(0.09 / np.array([wide, *[size] * dim]) ** 2)
            v, b = prior + a.T @ a, a.T @ rewards
            theta = np.linalg.solve(v, b)
            gamma = np.linalg.slogdet(v)[1] - np.linalg.slogdet(prior)[1]
            logs.append(-0.5 * gamma - (rewards @ rewards - b @ theta) / 0.18 + np.log(2.0 ** -[1, 2, 3].index(dim)))
    probabilities = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
    np.testing.assert_allclose(found.probabilities[0], probabilities, rtol=1e-4)
    drawn = found.draw(at[None], np.zeros((1, 1, 1, 3)))[0, 0, 0]
    np.testing.assert_allclose(drawn, theta[1:], rtol=1e-5)
    width2 = found.predict(np.eye(3)[None])[1][0, 5]
    np.testing.assert_allclose(width2, np.diag(np.linalg.inv(v))[1:], rtol=1e-5)


@pytest.mark.parametrize("kind", [adadim.PriorThompson, adadim.FeelGood])
def test_with_an_intercept_no_constant_changes_a_choice(kind):
    options = {} if kind is adadim.PriorThompson else {"draws": 40}
    instance = adadim.instances.sphere(arms=30, dim=6, intrinsic_dim=2, horizon=80, noise=0.1)
    noise = 0.1 * np.random.default_rng(4).standard_normal(80)

    def played(constant, **more):
        learner, arms = kind(**options, **more).start(instance.problem, seed=3), []
        for one in noise:
            (arm,) = learner.select()
            learner.update([arm], [instance.means[0, arm] + constant + one])
            arms.append(int(arm))
        return arms

    assert played(-30.0, intercept=True) == played(0.0, intercept=True) == played(1e5, intercept=True)
    assert played(-30.0) != played(0.0)


def test_an_intercept_is_shared():
    problem = adadim.Problem(arms=2, dim=2, horizon=50, noise=0.5, disjoint=True)
    message = "intercept=True is for arms that share their parameters"
    assert_refuses(ValueError, message, adadim.PriorThompson(intercept=True).start, problem)


def test_it_finds_how_many_features_matter():
    instance = adadim.instances.sphere(arms=60, dim=12, intrinsic_dim=2, horizon=300, replications=range(4))
    outcome = adadim.simulate(adadim.PriorThompson(), instance)
    learner = outcome.learner
    found = posteriors_of(learner.rule.prior, learner.model, learner.everyone)
    assert (found.probabilities.argmax(axis=1) == 1).all()  # the prior of 2 features
    assert outcome.final.mean() < adadim.simulate(adadim.LinTS(), instance).final.mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": ()}, r"sizes must be a tuple of positive numbers, e.g. \(0.5,\), got \(\)"),
        ({"sizes": (0.0,)}, "sizes must be a positive"),
        ({"weights": [1.0]}, "weights must be a tuple of positive numbers"),
        ({"dims": (2, 1)}, "dims must increase"),
    ],
)
def test_bad_parameters(options, message):
    assert_refuses((ValueError, TypeError), message, adadim.PriorThompson, **options)


def test_weights_and_dims_must_fit_the_problem():
    problem = adadim.Problem(np.eye(3), horizon=9, noise=0.1)
    policy = adadim.PriorThompson(sizes=(1.0, 2.0), weights=(1.0, 1.0, 1.0))
    assert_refuses(ValueError, "weights must be 6 numbers, .* 3 dims .* 2 sizes, got 3", policy.start, problem)
    assert_refuses(ValueError, "dims must not exceed", adadim.PriorThompson(dims=(4,)).start, problem)
