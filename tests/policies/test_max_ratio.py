"""Thompson sampling and greedy corrected by the ratio of widths: the sheet's numbers, and a textbook in lock-step."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.agent import Agent
from adadim.core.randomness import Purpose, Streams
from refusals import assert_refuses

Z = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
PULLED, REWARDS = [0, 1, 2, 0], [0.9, 0.2, 0.7, 1.1]


def learned(further=0, **options):
    policy = adadim.MaxRatio(ridge=1.0, delta=1e-3, **options)
    learner = policy.start(adadim.Problem(Z, horizon=1000, noise=0.2), seed=1)
    learner.learn(PULLED + [0] * further, REWARDS + [1.0] * further)
    return learner


def quantities(learner):
    rule, everyone = learner.rule, learner.everyone
    mean, width2 = learner.model.predict(everyone)
    beta, iota, deviation = rule.radii(everyone)
    mu = rule.ratio(mean, np.sqrt(width2), beta, iota, everyone)
    return float(beta[0, 0]), float(deviation[0, 0]), float(mu[0, 0]), mean[0] + beta[0] * np.sqrt(width2[0])


@pytest.mark.parametrize(("inflation", "mu"), [(1.0, 4.48384612), (0.0, 2.24192306)])
def test_quantities_on_the_small_data_set(inflation, mu):
    learner = learned(inflation=inflation)
    beta, deviation, found, upper = quantities(learner)
    assert beta == pytest.approx(2.11607838, rel=1e-8)
    assert learner.rule.normal_bound(1000) == pytest.approx(7.97369478, rel=1e-8)
    assert deviation == pytest.approx(inflation * 0.265382416, rel=1e-8)
    assert found == pytest.approx(mu, rel=1e-8)
    assert found / (1 + inflation) - 1 == pytest.approx(1.24192306, rel=1e-8)
    np.testing.assert_allclose(upper, [1.81138756, 1.51926833, 1.7477512], rtol=1e-8)


def test_after_400_more_pulls_of_the_best_arm_greedy_is_corrected():
    learner = learned(400, inflation=0.0)
    beta, _, mu, upper = quantities(learner)
    assert beta == pytest.approx(2.19793587, rel=1e-8)
    assert mu == pytest.approx(14.0779929, rel=1e-8)
    assert mu - 1 == pytest.approx(13.0779929, rel=1e-8)  # alpha
    np.testing.assert_allclose(upper, [1.10666652, 1.49078816, 1.69537053], rtol=1e-8)
    assert learner.select() == 2
    assert learned(400, inflation=0.0, threshold=14.1).select() == 0
    assert learned(250, inflation=0.0).select() == 0  # 12 comes after 250, and before 400


def test_draws_of_the_posterior_itself():
    learner = learned(inflation="bayes")
    mu = quantities(learner)[2]
    _, iota, deviation = learner.rule.radii(learner.everyone)
    assert deviation.tolist() == [[0.2]]
    assert iota[0, 0] == pytest.approx(0.2 * 7.97369478 / 2.11607838, rel=1e-8)
    assert mu == pytest.approx((1 + iota[0, 0]) * 2.24192306, rel=1e-8)


def textbook(x, pulls, rewards, t, iota, threshold, normals, costs=0.0, noise=0.3, ridge=0.5, norm=2.0, delta=0.01):
    """The arm of `x` (K, d) after pulls of features (n, d), and whether it is the optimist's."""
    dim = x.shape[1]
    v = ridge * np.eye(dim) + pulls.T @ pulls
    inverse = np.linalg.inv(v)
    theta = inverse @ pulls.T @ rewards
    mean, width = x @ theta - costs, np.sqrt([a @ inverse @ a for a in x])
    gamma = np.linalg.slogdet(v)[1] - dim * np.log(ridge)
    beta = noise * np.sqrt(gamma + 2 * np.log(2 * t / delta)) + np.sqrt(ridge) * norm
    nu = np.sqrt(2 * dim * np.log(4 * dim * t / delta))
    iota = noise * nu / beta if iota == "bayes" else iota
    survivors = [mean + r * width >= (mean - r * width).max() for r in (beta, iota * beta)]
    mu = (1 + iota) * (1 + width[survivors[0]].max() / width[survivors[1]].min())
    if mu >= threshold:
        return int((mean + beta * width).argmax()), True
    drawn = theta + iota * beta / nu * np.linalg.solve(np.linalg.cholesky(v).T, normals)
    return int((x @ drawn - costs).argmax()), False


@pytest.mark.parametrize("late", [0, 4], ids=["at once", "late"])
@pytest.mark.parametrize("horizon", [80, None], ids=["T", "endless"])
@pytest.mark.parametrize(("inflation", "threshold"), [(1.0, 7.0), (0.0, 4.0), ("bayes", 9.0)])
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_in_lock_step_with_the_textbook(offer, inflation, threshold, horizon, late):
    """Pending rounds do not count; both the policy and the optimist have their turns."""
    rng = np.random.default_rng(5)
    rounds = rng.standard_normal((80, 7, 4)) / 2
    if offer == "fixed":
        rounds[:] = rounds[0]
    sizes = {"features": rounds[0]} if offer == "fixed" else {"arms": 7, "dim": 4}
    policy = adadim.MaxRatio(inflation=inflation, threshold=threshold, delta=0.01, ridge=0.5, theta_norm=2.0)
    learner = policy.start(adadim.Problem(**sizes, horizon=horizon, noise=0.3), seed=2)
    (generator,) = Streams(2, Purpose.POLICY, [0]).child(0).generators
    pulls, rewards, waiting, corrected = [], [], [], []
    for t, x in enumerate(rounds, 1):
        normals = 0.0 if inflation == 0 else generator.standard_normal(4)
        told = np.array(pulls).reshape(-1, 4), np.array(rewards)
        expected, optimistic = textbook(x, *told, horizon or t, inflation, threshold, normals * np.ones(4))
        corrected.append(optimistic)
        decision = learner.ask(*[] if offer == "fixed" else [x])
        if pulls or inflation != 0 or optimistic:  # else all means are 0, and the arm is drawn
            assert decision.arms == expected
        at = decision.arms
        waiting.append((decision, x[at], x[at] @ [0.5, 0, 0.4, 0] + 0.3 * rng.standard_normal()))
        if len(waiting) > late:
            decision, pulled, reward = waiting.pop(0)
            learner.tell(decision, reward)
            pulls.append(pulled)
            rewards.append(reward)
    assert 0 < sum(corrected) < 80


def test_masks_and_costs_count_in_the_ratio():
    problem = adadim.Problem(arms=3, dim=2, horizon=50, noise=0.3)
    policy = adadim.MaxRatio(inflation=0.0, threshold=3.0, delta=0.01, ridge=0.5, theta_norm=2.0)
    learner = policy.start(problem)
    pulls = np.concatenate([Z[PULLED], np.tile(Z[0], (12, 1))])
    rewards = np.concatenate([REWARDS, np.ones(12)])
    learner.learn(pulls, rewards)
    seen = set()
    for costs in (np.zeros(3), np.array([9.0, 0.0, 0.0]), np.array([0.0, 3.0, 3.0]), np.array([0.1, 0.3, 0.2])):
        for allowed in ([True] * 3, [True, True, False], [False, True, True], [True, False, False]):
            arm, optimistic = textbook(Z[allowed], pulls, rewards, 50, 0.0, 3.0, np.zeros(2), costs[allowed])
            seen.add(optimistic)
            rows = learner.everyone.with_offer(Z[None], np.array([allowed]), costs)
            assert learner.choose(rows).arms.tolist() == [np.flatnonzero(allowed)[arm]]
    assert seen == {True, False}


def test_arms_without_width():
    learner = adadim.MaxRatio(inflation=0.0).start(adadim.Problem([[0.0, 0.0], [1.0, 0.0]], horizon=9, noise=0.1))
    learner.learn([1], [-0.1])
    assert learner.select() == 1  # the arm of mean 0 is known exactly, the other is infinitely wider
    alone = adadim.MaxRatio().start(adadim.Problem([[0.0, 0.0]], horizon=9, noise=0.1))
    assert alone.select() == 0


def test_each_arm_with_a_parameter_of_its_own():
    """One regression on the products of arms and covariates: d K parameters."""
    problem = adadim.Problem(arms=3, dim=2, horizon=50, noise=0.3, disjoint=True)
    policy = adadim.MaxRatio(threshold=1e9, delta=0.01, ridge=0.5, theta_norm=2.0)
    learner, rng = policy.start(problem, seed=2), np.random.default_rng(3)
    (generator,) = Streams(2, Purpose.POLICY, [0]).child(0).generators
    pulls, rewards = np.zeros((0, 6)), np.zeros(0)
    for x in rng.standard_normal((30, 2)):
        arms = np.kron(np.eye(3), x)
        expected, _ = textbook(arms, pulls, rewards, 50, 1.0, 1e9, generator.standard_normal(6))
        assert learner.select(x) == expected
        reward = float(x[0] * expected + 0.3 * rng.standard_normal())
        learner.update(expected, reward)
        pulls, rewards = np.vstack([pulls, arms[expected]]), np.append(rewards, reward)


def test_an_agent_estimates_probabilities_of_both_kinds_of_rounds(tmp_path):
    def logged(name, threshold):
        policy = adadim.MaxRatio(inflation=1.0, threshold=threshold, theta_norm=0.1)
        with Agent.create(tmp_path / name, dim=2, policy=policy, noise=0.5) as agent:
            decisions = []
            for x in np.random.default_rng(1).standard_normal((8, 3, 2)):
                decisions.append(agent.ask(dict(zip("abc", x.tolist(), strict=True))))
                agent.tell(decisions[-1].id, 0.3)
        return [decision.probability for decision in decisions]

    assert logged("optimist.db", 0.0) == [1.0] * 8
    assert min(logged("sampler.db", 1e9)) < 0.95


def test_a_threshold_of_0_is_the_optimist():
    instance = adadim.instances.sphere(arms=20, dim=4, intrinsic_dim=2, horizon=80, replications=range(2))
    found = [adadim.simulate(adadim.MaxRatio(inflation=i, threshold=0.0, ties="lowest"), instance) for i in (0.0, 1.0)]
    np.testing.assert_array_equal(found[0].pulls, found[1].pulls)
    assert not np.array_equal(found[0].pulls, adadim.simulate(adadim.MaxRatio(ties="lowest"), instance).pulls)


def test_on_torch_it_decides_the_same(torch):
    instance = adadim.instances.sphere(arms=20, dim=4, intrinsic_dim=2, horizon=80, replications=range(2))
    for policy in (adadim.MaxRatio(), adadim.MaxRatio(inflation=0.0, threshold=4.0)):
        ours, theirs = (adadim.simulate(policy, which, seed=2) for which in (instance, instance.to("cpu")))
        np.testing.assert_array_equal(ours.pulls, theirs.pulls)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inflation": -1.0}, r"inflation must be 'bayes' or a number from 0 \(greedy\) to 1e\+100, got -1.0"),
        ({"inflation": "wide"}, "inflation must be 'bayes' or a number"),
        ({"inflation": np.array([1.0, 2.0])}, "inflation must be 'bayes' or a number"),
        ({"threshold": -1.0}, "threshold must be"),
        ({"delta": 0.0}, r"delta must be a number in \(0, 1\), got 0.0"),
    ],
)
def test_bad_parameters(options, message):
    assert_refuses((ValueError, TypeError), message, adadim.MaxRatio, **options)


def test_an_arm_of_no_width_makes_the_round_the_optimists():
    features = np.vstack([np.eye(3), np.zeros((1, 3))])
    for inflation in (0.0, 1.0, "bayes"):
        learner = adadim.MaxRatio(inflation).start(adadim.Problem(features, horizon=50, noise=0.1))
        with np.errstate(all="raise", under="ignore"):
            assert learner.select() < 3
