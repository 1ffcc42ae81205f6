"""What cannot be a problem is refused where it enters, with an error that names the value."""

import re
import warnings

import numpy as np
import pytest

from adadim import (
    ActionSet,
    LinUCB,
    NormWarning,
    Problem,
    instances,
    theory,
)
from refusals import GOOD, assert_refuses, instance, problem

nan, inf = float("nan"), float("inf")


def features_with(value):
    features = np.full((2, 3, 4), 0.1)
    features[1, 2, 0] = value
    return features


def sphere(**changes):
    return instances.sphere(**{"arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 10} | changes)


# Features


@pytest.mark.parametrize("call", [ActionSet, lambda f: problem(features=f), lambda f: instance(features=f)])
@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (features_with(nan), ValueError, "features must be finite, but arm 2 of replication 1 has a NaN or infinite"),
        (features_with(inf), ValueError, "features must be finite, but arm 2 of replication 1 has a NaN or infinite"),
        (features_with(-inf), ValueError, "features must be finite, but arm 2 of replication 1"),
        (np.zeros(3), ValueError, r"features must have shape \(K, d\) or \(R, K, d\), got \(3,\)"),
        (np.zeros((1, 1, 2, 2)), ValueError, r"features must have shape .*, got \(1, 1, 2, 2\)"),
        (np.float64(1.0), ValueError, r"features must have shape .*, got \(\)"),
        (np.zeros((0, 3)), ValueError, r"at least one replication, arm and feature, got shape \(1, 0, 3\)"),
        (np.zeros((3, 0)), ValueError, r"at least one replication, arm and feature, got shape \(1, 3, 0\)"),
        (np.zeros((0, 3, 3)), ValueError, r"at least one replication, arm and feature, got shape \(0, 3, 3\)"),
        (np.full((2, 2), 1j), TypeError, "features must be real numbers, got dtype complex128"),
        (np.array([["a", "b"]]), TypeError, "features must be real numbers, got dtype <U1"),
        (np.array([[None, 1]]), TypeError, "features must be real numbers, got dtype object"),
    ],
)
def test_features(call, features, error, message):
    assert_refuses(error, message, call, features)


def test_features_in_torch(torch):
    assert_refuses(ValueError, "arm 2 of replication 1", ActionSet, torch.asarray(features_with(nan)))
    assert_refuses(ValueError, r"got \(3,\)", ActionSet, torch.zeros(3))
    assert_refuses(TypeError, "features must be real numbers, got dtype torch.complex64", ActionSet, torch.eye(2) * 1j)


def test_plain_numbers_of_other_types_are_welcome():
    for features in ([[1, 0], [0, 1]], np.eye(2, dtype=np.int8), np.eye(2, dtype=np.float32), np.eye(2, dtype=bool)):
        assert ActionSet(features).base.dtype == np.float64


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "levels is empty"),
        ([0, 2], r"levels must be an integer in 1\.\.3 \(the number of features\), got 0"),
        ([2, 4], r"levels must be an integer in 1\.\.3 \(the number of features\), got 4"),
        ([1.5], r"levels must be an integer in 1\.\.3 .*, got 1\.5"),
        ([True], r"levels must be an integer in 1\.\.3 .*, got True"),
        ([3, 2], r"levels must increase, got \[3, 2\]"),
        ([2, 2], r"levels must increase, got \[2, 2\]"),
    ],
)
def test_levels(levels, message):
    assert_refuses(ValueError, message, ActionSet, GOOD, levels=levels)


# Norms above 1


@pytest.mark.parametrize("call", [ActionSet, lambda f: problem(features=f), lambda f: instance(features=f)])
def test_long_arms_warn_of_the_consequence(call):
    with pytest.warns(
        NormWarning, match=r"longest arm has norm 2\.5 > 1: confidence radii and regret bounds .* do not"
    ):
        call(2.5 * GOOD)


def test_unit_arms_do_not_warn():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ActionSet(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        ActionSet(GOOD * (1 + 1e-12))
    assert issubclass(NormWarning, UserWarning)


def test_warning_points_at_the_caller():
    with pytest.warns(NormWarning) as caught:
        Problem(2 * GOOD, horizon=10, noise=0.1)
    assert caught[0].filename == __file__


def test_long_arms_still_work():
    with pytest.warns(NormWarning):
        learner = LinUCB().start(problem(features=2 * GOOD))
    learner.update(learner.select(), [0.3])


# Problem and Instance


@pytest.mark.parametrize("make", [problem, instance, sphere])
@pytest.mark.parametrize("horizon", [0, -1, 1.5, inf, nan, True, None, "10"])
def test_horizon(make, horizon):
    if make is problem and horizon is None:
        assert make(horizon=None).endless
        return
    message = rf"horizon must .*{re.escape(repr(horizon) if make is not sphere else str(horizon))}"
    assert_refuses(ValueError, message, make, horizon=horizon)


@pytest.mark.parametrize("make", [problem, instance, sphere])
@pytest.mark.parametrize("noise", [0, 0.0, -0.1, nan, inf, True, "0.1", [0.1]])
def test_noise(make, noise):
    message = rf"noise must be a positive finite number \(.*\), got {re.escape(repr(noise))}"
    assert_refuses(ValueError, message, make, noise=noise)


@pytest.mark.parametrize("make", [problem, instance])
@pytest.mark.parametrize(
    ("replications", "message"),
    [
        ([0, 4, 4], "replications must be distinct, but 4 appears more than once"),
        ([0, 1], "features hold 3 replications, but 2 numbers were given"),
        ([0, 1, -2], "replications must be non-negative integers, got -2"),
        ([0, 1, 2.0], r"replications must be non-negative integers, got 2\.0"),
        ([0, 1, True], "replications must be non-negative integers, got True"),
        ([], "replications is empty"),
    ],
)
def test_replications(make, replications, message):
    features = np.broadcast_to(GOOD, (3, 3, 3))
    assert_refuses(ValueError, message, make, features=features, replications=replications)


@pytest.mark.parametrize("make", [instances.sphere, instances.ball, instances.clicks])
def test_replications_of_a_generator(make):
    good = {"arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 10}
    assert_refuses(ValueError, "distinct, but 1 appears more than once", make, **good, replications=[1, 0, 1])
    assert_refuses(ValueError, "replications is empty", make, **good, replications=[])
    assert_refuses(ValueError, "non-negative integers, got -1", make, **good, replications=[-1])


def test_how_many_replications():
    for bad in (0, -3, True, 2.0, "8", None):
        assert_refuses((TypeError, ValueError), "replications must be", sphere, replications=bad)
    assert_refuses(ValueError, "replications = 100000000000000 is too much", sphere, replications=10**14)


def test_replications_of_the_lower_bound():
    call = instances.lower_bound
    assert_refuses(ValueError, "distinct, but 3 appears more", call, horizon=2500, alpha=0.5, replications=[3, 3])
    assert_refuses(theory.ConditionError, "100\\^0.25 = 3.16228 gives 1", call, horizon=100, alpha=0.25)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward_range": -0.5}, r"reward_range must be finite and non-negative, got -0\.5"),
        ({"reward_range": nan}, "reward_range must be finite and non-negative, got nan"),
        ({"reward_range": [0.1, 0.2]}, r"reward_range must be one number or have shape \(1,\), got \(2,\)"),
    ],
)
def test_reward_range(changes, message):
    assert_refuses(ValueError, message, problem, **changes)
    assert_refuses(ValueError, message, instance, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"theta": None}, r"give exactly one of theta \(linear rewards\) and means"),
        ({"means": [0.1, 0.2, 0.3]}, r"give exactly one of theta \(linear rewards\) and means"),
        ({"noise": None}, "noise is needed for Gaussian rewards"),
        ({"rewards": "poisson"}, "rewards must be 'gaussian' or 'bernoulli', got 'poisson'"),
        ({"reward_range": "exact"}, "reward_range must be 'true', 'unknown' or a number, got 'exact'"),
        ({"theta": [0.1, 0.2]}, r"theta must have shape \(3,\) or \(1, 3\), got \(1, 2\)"),
        ({"theta": np.zeros((2, 3))}, r"theta must have shape \(3,\) or \(1, 3\), got \(2, 3\)"),
        ({"theta": [0.1, nan, 0.2]}, "theta must be finite, but has a NaN or infinite entry"),
        ({"theta": None, "means": [0.1]}, r"means must have shape \(3,\) or \(1, 3\), got \(1, 1\)"),
        ({"theta": None, "means": [0.1, inf, 0.2]}, "means must be finite, but has a NaN or infinite entry"),
        ({"rewards": "bernoulli", "theta": [0.1, -0.2, 0.3]}, r"means in \[0, 1\], but they range from -0\.2 to 0\.3"),
        ({"rewards": "bernoulli", "theta": [0.1, 0.2, 1.25]}, r"means in \[0, 1\], but they range from 0\.1 to 1\.25"),
    ],
)
def test_instance(changes, message):
    assert_refuses(ValueError, message, instance, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": 0}, "arms must be an integer of at least 1, got 0"),
        ({"arms": 2.0}, r"arms must be an integer of at least 1, got 2\.0"),
        ({"dim": 0}, "dim must be an integer of at least 1, got 0"),
        ({"dim": True}, "dim must be an integer of at least 1, got True"),
        ({"intrinsic_dim": 0}, r"intrinsic_dim must be an integer in 1\.\.3 \(the number of features\), got 0"),
        ({"intrinsic_dim": 4}, r"intrinsic_dim must be an integer in 1\.\.3 \(the number of features\), got 4"),
        ({"intrinsic_dim": 1.5}, r"intrinsic_dim must be an integer in 1\.\.3 \(the number of features\), got 1\.5"),
        ({"theta": "sparse"}, "theta must be one of 'uniform', 'decay', 'flip', 'spike', 'heavy', got 'sparse'"),
        ({"seed": -1}, "seed must be a non-negative integer, got -1"),
        ({"expressive": True, "levels": [2, 9]}, r"levels must be an integer in 1\.\.3 .*, got 9"),
    ],
)
def test_generators(changes, message):
    assert_refuses(ValueError, message, sphere, **changes)
    assert_refuses(
        ValueError, message, instances.ball, **{"arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 10} | changes
    )


def test_clicks_count_the_constant():
    for wrong in (1, 4):
        assert_refuses(
            ValueError,
            rf"intrinsic_dim must be in 2\.\.3 \(the constant counts\), got {wrong}",
            instances.clicks,
            arms=5,
            dim=3,
            intrinsic_dim=wrong,
            horizon=10,
        )
