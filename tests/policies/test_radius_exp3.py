"""A radius that exponential weights choose: the sheet's numbers, a textbook in lock-step, what does not teach it."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.agent import Agent
from adadim.policies.linear.radius_exp3 import NO_RADIUS
from refusals import assert_refuses

DRAWN = [(1, 0.5), (2, -0.3), (1, 1.2)]  # radius and reward of three rounds


def after_three_rounds(**options):
    """Three radii: two parameters."""
    learner = adadim.RadiusExp3(**options).start(adadim.Problem(np.eye(2), horizon=100, noise=1.0), seed=1)
    for radius, reward in DRAWN:
        share = learner.rule.radius_probabilities(learner.everyone)[:, radius]
        memo = {"radius": np.array([radius]), "share": share}
        learner.absorb(np.array([0]), np.array([reward]), learner.everyone, memo)
    return learner


def test_three_steps_of_the_weights():
    learner = after_three_rounds(weights="uniform")
    rule = learner.rule
    np.testing.assert_allclose(rule.earned, [[0, -2.02136905, -1.29734651]], rtol=1e-8)
    expected = [[0.6069941, 0.14782922, 0.24517668]]
    np.testing.assert_allclose(rule.radius_probabilities(learner.everyone), expected, rtol=1e-7)
    theory = adadim.RadiusExp3().start(learner.problem)
    theory.learn([0, 0, 0], [0.5, -0.3, 1.2])
    assert theory.rule.earned.tolist() == [[0, 0, 0]]  # pulls that it did not decide
    theory.rule.earned[:] = rule.earned
    expected = [[0.81782773, 0.09958815, 0.08258412]]
    np.testing.assert_allclose(theory.rule.radius_probabilities(theory.everyone), expected, rtol=1e-7)


def test_losses_are_clipped_to_their_range():
    narrow, wide = (after_three_rounds(loss_range=(lo, hi)) for lo, hi in ((0.0, 1.0), (-2.0, 2.0)))
    p, eta = np.array([4, 2, 1]) / 7, 2 * np.sqrt(np.log(3) / 3)
    first = -0.5 / p[1]
    p = p * np.exp(eta * np.array([0, first, 0]))
    np.testing.assert_allclose(narrow.rule.earned[0, 1:], [first, -1 / (p[2] / p.sum())])  # and then a loss of 0
    assert (wide.rule.earned[0, 1:] != narrow.rule.earned[0, 1:]).all()


def textbook_indices(x, pulls, rewards, noise, ridge):
    """Indices (radii, K) of arms `x` (K, 4) after pulls of features (n, 4)."""
    inverse = np.linalg.inv(ridge * np.eye(4) + pulls.T @ pulls)
    mean, width = x @ inverse @ pulls.T @ rewards, np.sqrt([a @ inverse @ a for a in x])
    log = np.log(max(1, len(rewards)))
    return np.array([mean + noise * np.sqrt(alpha * log) * width for alpha in (0.0, 1.0, 2.0, 4.0)])


@pytest.mark.parametrize("late", [0, 4], ids=["at once", "late"])
@pytest.mark.parametrize(("weights", "explore"), [("theory", 0.0), ("uniform", 0.3)])
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_in_lock_step_with_the_textbook(offer, weights, explore, late):
    """A loss counts once it is known, with the probability of the decision; t counts answered rounds."""
    rng = np.random.default_rng(5)
    rounds = rng.standard_normal((80, 7, 4)) / 4
    if offer == "fixed":
        rounds[:] = rounds[0]
    sizes = {"features": rounds[0]} if offer == "fixed" else {"arms": 7, "dim": 4}
    policy = adadim.RadiusExp3(weights=weights, explore=explore, ridge=0.5, loss_range=(-1.0, 1.0))
    learner = policy.start(adadim.Problem(**sizes, horizon=None, noise=0.3), seed=2)
    prior = np.array([8, 4, 2, 1]) if weights == "theory" else np.ones(4)
    pulls, rewards, waiting, scores, seen = np.zeros((0, 4)), np.zeros(0), [], np.zeros(4), []
    for x in rounds:
        indices = textbook_indices(x, pulls, rewards, 0.3, 0.5)
        p = prior * np.exp(2 * np.sqrt(np.log(4) / (4 * max(1, len(rewards)))) * scores)
        p /= p.sum()
        expected = np.full(7, 1 / 7)  # before the first reward all arms tie
        if len(pulls):
            expected = np.zeros(7)
            np.add.at(expected, indices.argmax(axis=1), (1 - explore) * p)
            expected[indices[-1].argmax()] += explore
        rows = learner.everyone.with_offer(x[None] if offer == "contexts" else None, None)
        np.testing.assert_allclose(learner.rule.probabilities(rows)[0], expected, atol=1e-12)
        decision = learner.ask(*[] if offer == "fixed" else [x])
        radius, arm = int(decision.memo["radius"][0]), decision.arms
        seen.append(radius)
        if len(pulls):
            assert arm == indices[radius].argmax()  # the coin's -1 is the widest, which is the last
        reward = float(np.clip(x[arm] @ [0.5, 0, 0.4, 0] + 0.3 * rng.standard_normal(), -0.9, 0.9))
        waiting.append((decision, x[arm], reward, radius, p))
        if len(waiting) > late:
            decision, pulled, reward, radius, p = waiting.pop(0)
            learner.tell(decision, reward)
            pulls, rewards = np.vstack([pulls, pulled]), np.append(rewards, reward)
            if radius != NO_RADIUS:
                scores[radius] -= (1 - reward) / 2 / p[radius]
        np.testing.assert_allclose(learner.rule.earned[0], scores, rtol=1e-9, atol=1e-12)
    assert (NO_RADIUS in seen) == (explore > 0)
    assert set(seen) >= {0, 1, 2}


def test_arms_are_drawn_by_their_probabilities():
    count = 4_000
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
    problem = adadim.Problem(np.tile(features, (count, 1, 1)), horizon=50, noise=1.0)
    learner = adadim.RadiusExp3(weights="uniform", explore=0.4).start(problem, seed=3)
    pulled = [0, 1, 2, 0] + [0] * 20
    learner.learn(np.tile(pulled, (count, 1)), np.tile([0.9, 0.2, 0.7, 1.1] + [0.9] * 20, (count, 1)))
    decision = learner.ask()
    p = np.array([0.6 / 3, 0, 0.8])  # greedy pulls arm 0, all others arm 2
    np.testing.assert_allclose(learner.choose(learner.everyone).probabilities[0], p)
    drawn = np.bincount(decision.arms, minlength=3) / count
    np.testing.assert_allclose(drawn, p, atol=4 * np.sqrt(0.25 / count))
    shares = [(decision.memo["radius"] == radius).mean() for radius in (NO_RADIUS, 0, 1, 2)]
    np.testing.assert_allclose(shares, [0.4, 0.2, 0.2, 0.2], atol=4 * np.sqrt(0.25 / count))


def test_a_radius_that_earns_more_is_drawn_more():
    """Greedy stays on arm 0, which earns 0; the wider radii come to arm 1, which earns 1."""
    learner = adadim.RadiusExp3(loss_range=(0.0, 1.0)).start(adadim.Problem(np.eye(2), horizon=None, noise=1.0), seed=1)
    for _ in range(400):
        decision = learner.ask()
        learner.tell(decision, float(decision.memo["radius"][0] > 0))
    shares = learner.describe()["radius_probabilities"]
    assert shares[0] < 0.05
    assert sum(shares) == pytest.approx(1, abs=0.002)


def test_a_round_in_which_another_arm_was_pulled_teaches_the_ridge_alone():
    policy = adadim.Certified(adadim.RadiusExp3(), mu=1e-6)
    learner = policy.start(adadim.Problem(np.eye(3), horizon=60, noise=0.1), seed=1)
    taught = 0
    for _ in range(60):
        before = learner.inner.rule.earned.copy()
        decision = learner.ask()
        learner.tell(decision, 0.2)
        changed = bool((learner.inner.rule.earned != before).any())
        assert changed == (not decision.memo["overruled"][0])
        taught += changed
    assert 0 < taught < 60
    assert int(learner.inner.model.pulls[0]) == 60


def test_an_agent_refuses_it(tmp_path):
    """What its weights have learned cannot be had from sums over the data."""
    with pytest.raises(ValueError, match=r"an agent cannot play RadiusExp3: it keeps more than a regression"):
        Agent.create(tmp_path / "a.db", dim=2, policy=adadim.RadiusExp3(), noise=0.5)


def test_on_torch_it_decides_the_same(torch):
    instance = adadim.instances.sphere(arms=20, dim=4, intrinsic_dim=2, horizon=80, replications=range(2))
    policy = adadim.RadiusExp3(explore=0.1, released=True)
    ours, theirs = (adadim.simulate(policy, which, seed=2) for which in (instance, instance.to("cpu")))
    np.testing.assert_array_equal(ours.pulls, theirs.pulls)
    np.testing.assert_allclose(ours.learner.rule.earned, theirs.learner.rule.earned.numpy(), rtol=1e-9)
    assert (ours.learner.rule.earned < 0).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "flat"}, "weights must be 'theory' or 'uniform', got 'flat'"),
        ({"explore": 1.5}, r"explore must be a number in \[0, 1\], got 1.5"),
        ({"loss_range": (1.0, 0.0)}, r"loss_range must be \(lowest, highest\) reward"),
        ({"released": 1}, "released must be"),
        ({"ridge": 0.0}, "ridge must be a positive"),
    ],
)
def test_bad_parameters(options, message):
    assert_refuses((ValueError, TypeError), message, adadim.RadiusExp3, **options)
