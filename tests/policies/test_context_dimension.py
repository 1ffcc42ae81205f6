"""`learner.dimension()` where features come with each round: the same as `adadim.dimension` of the logged choices."""

import numpy as np
import pytest

import adadim
from adadim.core.state import take_state
from adadim.policies.base import restore_learner
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


@pytest.mark.parametrize("policy", [adadim.LinUCB(), adadim.LinTS(), adadim.LinUCB(memory=100)], ids=repr)
def test_what_version_0_3_saved_does_not_know_the_means(policy):
    learner, _, _ = played(policy, rounds=20)
    expected = learner.dimension(constant=False).probabilities

    def as_saved_by_0_3(tree):
        if isinstance(tree, dict):
            return {key: as_saved_by_0_3(value) for key, value in tree.items() if key not in ("first", "total")}
        return tree

    tree, arrays = take_state(learner)
    restored = restore_learner(policy, learner.problem, (as_saved_by_0_3(tree), arrays))
    assert_refuses(ValueError, "earlier version of adadim does not have; use constant=False", restored.dimension)
    np.testing.assert_array_equal(restored.dimension(constant=False).probabilities, expected)


def test_features_that_were_not_learned_cannot_be_judged():
    for policy in (adadim.LinUCB(dim=3), adadim.LinTS(dim=3), adadim.Random()):
        learner, _, _ = played(policy, rounds=5)
        assert_refuses(TypeError, "does not keep the pulls and rewards", learner.dimension)
