"""What a learner shows of fixed arms is a function of the pulls and rewards, not of their order."""

import numpy as np
import pytest

import adadim

pytestmark = pytest.mark.filterwarnings("ignore::adadim.NormWarning")

POLICIES = {
    "recommended": lambda problem: adadim.recommended(problem),
    "with a constant": lambda _: adadim.EvidenceLinUCB(form="feature", intercept=True),
    "EvidenceLinUCB": lambda _: adadim.EvidenceLinUCB(),
    "LinUCB": lambda _: adadim.LinUCB(),
}


def logged(seed, pulls):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((9, 4))
    arms = rng.integers(9, size=pulls)
    rewards = 5.0 + features[arms] @ rng.standard_normal(4) + 0.5 * rng.standard_normal(pulls)
    return features, arms, rewards, rng.permutation(pulls)


@pytest.mark.parametrize("noise", [0.5, None])
@pytest.mark.parametrize("pulls", [1, 64, 100])
@pytest.mark.parametrize("name", POLICIES)
def test_estimates_do_not_depend_on_the_order(name, pulls, noise):
    """Means differed by up to 1, since rewards were counted from the mean of those that came first."""
    if name == "LinUCB" and noise is None:
        return  # it has to know the noise
    for seed in range(2):
        features, arms, rewards, order = logged(seed, pulls)
        problem = adadim.Problem(features, horizon=1000, noise=noise)
        learners = [POLICIES[name](problem).start(problem) for _ in range(2)]
        learners[0].learn(arms, rewards)
        learners[1].learn(arms[order], rewards[order])
        (mean, deviation), (other_mean, other_deviation) = [learner.estimates() for learner in learners]
        np.testing.assert_allclose(mean, other_mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(deviation, other_deviation, rtol=1e-7, atol=1e-8)
        if pulls == 100 and name in ("recommended", "with a constant"):
            np.testing.assert_allclose(mean, by_least_squares(features, arms, rewards), atol=0.3)


def by_least_squares(features, arms, rewards):
    """Means of all arms, with a constant."""
    design = np.column_stack([np.ones(len(features)), features])
    return design @ np.linalg.lstsq(design[arms], rewards, rcond=None)[0]


def test_decisions_are_left_alone():
    """Looking does not change what a learner does next, nor what it has learned."""
    features, arms, rewards, _ = logged(0, 100)
    problem = adadim.Problem(features, horizon=1000)
    looked, other = (adadim.recommended(problem).start(problem) for _ in range(2))
    for learner in (looked, other):
        learner.learn(arms, rewards)
    looked.estimates()
    assert looked.describe() == other.describe()
    np.testing.assert_array_equal(looked.model.regression.mean, other.model.regression.mean)
    for _ in range(50):
        arm = looked.select()
        assert arm == other.select()
        looked.update(arm, 5.0)
        other.update(arm, 5.0)


def test_replications_and_arms_that_came_later():
    features, arms, rewards, _ = logged(0, 40)
    both = adadim.Problem(np.stack([features, features[::-1]]), horizon=100, noise=0.5)
    learner = adadim.LinUCB().start(both)
    learner.learn(np.stack([arms, 8 - arms]), np.stack([rewards, rewards]))
    mean, deviation = learner.estimates()
    assert mean.shape == deviation.shape == (2, 9)
    np.testing.assert_allclose(mean[0], mean[1, ::-1], rtol=1e-9)
    grown = adadim.Problem(features[:8], arms=9, horizon=100, noise=0.5)
    learner = adadim.EvidenceLinUCB().start(grown)
    learner.learn(arms[arms < 8], rewards[arms < 8])
    learner.add_arms(features[8:])
    mean, deviation = learner.estimates()
    whole = adadim.EvidenceLinUCB().start(adadim.Problem(features, horizon=100, noise=0.5))
    whole.learn(arms[arms < 8], rewards[arms < 8])
    np.testing.assert_allclose(mean[:8], whole.estimates()[0][:8], rtol=0.2)
    assert np.isfinite(mean).all()


def test_where_features_come_with_the_rounds_they_are_needed():
    learner = adadim.LinUCB().start(adadim.Problem(arms=3, dim=2, horizon=10, noise=0.1))
    with pytest.raises(adadim.InvalidValueError, match="needs the features of the arms"):
        learner.estimates()
