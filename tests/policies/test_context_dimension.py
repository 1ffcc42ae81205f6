"""`learner.dimension()` where features come with each round: the same as `adadim.dimension` of the logged choices."""

import numpy as np
import pytest

import adadim
from refusals import assert_refuses

FREE = adadim.EvidenceLinUCB(taper=(0.0, 1.75), intercept=True)
POLICIES = [FREE, adadim.LinUCB(), adadim.TaperedLinUCB(), adadim.EvidenceLinUCB(), adadim.Greedy(), adadim.LinTS()]


def played(policy, replications=2, rounds=150):
    """A learner after some rounds, and the features (R, n, d) and rewards (R, n) of its choices."""
    instance = adadim.instances.contexts(
        arms=6, dim=8, intrinsic_dim=3, horizon=rounds, noise=0.1, replications=range(replications)
    )
    learner, rng, offers = policy.start(instance.problem), np.random.default_rng(0), instance.played()
    seen, gained = [], []
    for _ in range(rounds):
        features, means = next(offers)
        arms = learner.select(features)
        everyone = np.arange(replications)
        rewards = 5.0 + means[everyone, arms] + 0.1 * rng.standard_normal(replications)
        learner.update(arms, rewards)
        seen.append(features[everyone, arms])
        gained.append(rewards)
    return learner, np.stack(seen, axis=1), np.stack(gained, axis=1)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_the_same_as_of_the_logged_choices(policy, constant):
    learner, features, rewards = played(policy)
    found = learner.dimension(constant=constant)
    for r in range(2):
        expected = adadim.dimension(features[r], rewards[r], constant=constant)
        np.testing.assert_allclose(found.probabilities[r], expected.probabilities, atol=1e-6)
        assert found.noise[r] == pytest.approx(expected.noise, rel=1e-6)
        assert found.choices[r] == 150
    levels = learner.dimension(levels={"few": 3, "all": 8})
    assert levels.probabilities.shape == (2, 2)
    if constant:
        assert (found.mode == 3).all()


def test_features_that_were_not_learned_cannot_be_judged():
    for policy in (adadim.LinUCB(dim=3), adadim.LinTS(dim=3), adadim.Random()):
        learner, _, _ = played(policy, rounds=5)
        assert_refuses(TypeError, "does not keep the pulls and rewards", learner.dimension)
