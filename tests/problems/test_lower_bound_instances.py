"""The lower-bound family as instances to simulate."""

import numpy as np
import pytest

import adadim
from adadim import instances
from instance_makers import features

# Lower-bound family (section 13.1)


def always(arm):
    class Always:
        def __init__(self, problem, rng):
            pass

        def select(self):
            return arm

        def update(self, arm, reward):
            pass

    return adadim.Single(Always)


def test_lower_bound_means():
    count, delta = 25, 0.015625
    for target in (0, 1, 7, 25):
        instance = instances.lower_bound(horizon=2500, alpha=0.5, target=target)
        expected = np.zeros(count + 1)
        expected[0] = delta / 2
        if target:
            expected[target] = delta
        np.testing.assert_allclose(instance.means[0], expected, atol=1e-16)
        assert instance.problem.noise == 0.5
        assert np.linalg.norm(instance.theta[0]) <= 1
        dense = features(instance)
        np.testing.assert_array_equal(dense @ dense.T, np.eye(count + 1))


def test_regret_of_always_the_easy_arm():
    """R_0 = 0 and R_i = T Delta / 2 (C27: 19.53125)."""
    easy = instances.lower_bound(horizon=2500, alpha=0.5)
    hard = instances.lower_bound(horizon=2500, alpha=0.5, target=9, replications=[4, 8])
    np.testing.assert_array_equal(adadim.simulate(always(0), easy).regret, 0)
    outcome = adadim.simulate(always(0), hard)
    np.testing.assert_allclose(outcome.final, [19.53125] * 2, rtol=1e-11)
    np.testing.assert_allclose(outcome.regret[0], outcome.times * 0.015625 / 2, rtol=1e-11)
    # The arm that the easy problem calls best is the only one worth half a gap.
    np.testing.assert_allclose(adadim.simulate(always(3), hard).final, 2 * 19.53125, rtol=1e-11)
    np.testing.assert_array_equal(adadim.simulate(always(9), hard).final, 0)


def test_regret_of_the_uniform_policy():
    """C27: R_0 = 18.780048, mean R_i = 36.808894 in expectation; the simulated ones are near."""
    easy = instances.lower_bound(horizon=2500, alpha=0.5, replications=range(20))
    hard = instances.lower_bound(horizon=2500, alpha=0.5, target=9, replications=range(20))
    for instance, expected in ((easy, 18.780048), (hard, 36.808894)):
        np.testing.assert_allclose(2500 * (instance.best - instance.means.mean(axis=1)), expected, atol=1e-6)
        assert abs(adadim.simulate(adadim.Random(), instance).final.mean() / expected - 1) < 0.005


def test_lower_bound_of_a_larger_easy_class():
    instance = instances.lower_bound(horizon=10_000, alpha=0.5, alpha_easy=0.25, delta=0.1, target=3)
    assert features(instance)[0].argmax() == 9  # floor(T^0.25) = 10 features
    assert instance.means[0, 3] == pytest.approx(0.1)
    with pytest.raises(ValueError, match=r"target must be in 0\.\.50, got 51"):
        instances.lower_bound(horizon=10_000, alpha=0.5, target=51)


# Features of other kinds


def test_intrinsic_dimension_of_the_lower_bound_is_checked():
    assert instances.lower_bound(horizon=2500, alpha=0.5, intrinsic_dim=1).theta[0].nonzero()[0].tolist() == [0]
    assert instances.lower_bound(horizon=2500, alpha=0.5, target=7, intrinsic_dim=32).theta[0, 31] > 0
    with pytest.raises(ValueError, match="intrinsic_dim must be 32, the d\\* of target 7, got 30"):
        instances.lower_bound(horizon=2500, alpha=0.5, target=7, intrinsic_dim=30)
