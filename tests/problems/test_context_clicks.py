"""Clicks where features come with each round."""

import numpy as np
import pytest

import adadim
from adadim import instances, simulate
from adadim.errors import InvalidValueError
from adadim.instances.contexts import DISTRIBUTIONS

SIZES = {"arms": 6, "dim": 8, "intrinsic_dim": 4, "horizon": 60, "replications": [0, 2]}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_probabilities_are_linear_and_between_zero_and_one(distribution):
    instance = instances.contexts(**SIZES, distribution=distribution, rewards="bernoulli")
    for (features, means), _ in zip(instance.played(), range(60), strict=False):
        np.testing.assert_allclose(features[..., 0], np.sqrt(0.5))
        assert (np.linalg.norm(features[..., 1:], axis=-1) <= np.sqrt(0.5) + 1e-12).all()
        np.testing.assert_allclose(means, np.einsum("rkd,rd->rk", features, instance.theta))
        assert 0 <= means.min() < means.max() <= 1
    assert (instance.theta[:, 4:] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(instance.theta, axis=1), 1.0)


def test_rewards_are_clicks_of_that_probability():
    instance = instances.contexts(**SIZES, rewards="bernoulli")
    assert instance.problem.noise == 0.5
    noise = instance.noise_streams(0)
    means = np.full((2, 6), 0.3)
    means[1] = 0.8
    pulled = np.array([instance.pull(means, np.array([1, 4]), noise) for _ in range(4000)])
    assert set(np.unique(pulled)) == {0.0, 1.0}
    assert abs(pulled.mean(axis=0) - [0.3, 0.8]).max() < 0.03


def test_torch_plays_the_same_clicks(torch):
    instance = instances.contexts(**SIZES, rewards="bernoulli")
    here, there = (simulate(adadim.LinUCB(), where, seed=1) for where in (instance, instance.to("cpu")))
    np.testing.assert_array_equal(there.pulls, here.pulls)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"rewards": "clicks"}, "rewards must be 'gaussian' or 'bernoulli', got 'clicks'"),
        (
            {"rewards": "bernoulli", "intrinsic_dim": 1},
            r"intrinsic_dim must be in 2\.\.8 \(the constant counts\), got 1",
        ),
    ],
)
def test_refusals(more, message):
    with pytest.raises(InvalidValueError, match=message):
        instances.contexts(**{**SIZES, **more})
