"""Calls that the attack found to end in an error that was not ours, in NaN or in a wrong number."""

import numpy as np
import pytest

import adadim
from adadim import instances
from adadim.core import checks
from refusals import assert_refuses

PROBLEM = adadim.Problem(np.eye(4) * 0.9, horizon=12, noise=0.1)


@pytest.mark.parametrize("path", [3, [], None, ""])
def test_learners_are_read_from_paths(path):
    assert_refuses(adadim.FileError, "path must be a path", adadim.load, path, PROBLEM)


@pytest.mark.parametrize("plugins", [3, b"x", np.array([]), {"x": 3}])
def test_plugins_are_classes_by_name(tmp_path, plugins):
    adadim.LinUCB().start(PROBLEM).save(tmp_path / "learner.npz")
    path = tmp_path / "learner.npz"
    assert_refuses(TypeError, "plugins must be a dict from names", adadim.load, path, PROBLEM, plugins=plugins)


def test_small_integers_are_numbers():
    """The negative of a NumPy uint8 is 253."""
    some, other = (instances.biased_arms(arms=4, dim=2, horizon=5, bias=bias) for bias in (np.uint8(3), 3.0))
    np.testing.assert_array_equal(some.biases, other.biases)


def test_biases_are_small_enough_to_be_drawn():
    assert_refuses(ValueError, "bias must be a number in", instances.biased_arms, arms=4, dim=2, horizon=5, bias=1e308)


def test_owners_are_few_enough_for_memory():
    assert_refuses(ValueError, "owners = .* is too much", instances.owned_arms, best=0.7, horizon=5, owners=2**50)


@pytest.mark.parametrize("top", [1e308, 1e-300])
def test_powers_are_numbers(top):
    sizes = {"arms": 8, "dim": 4, "intrinsic_dim": 2, "horizon": 5}
    assert_refuses(ValueError, "top must have powers up to 4", instances.powers, **sizes, top=top)


@pytest.mark.parametrize("others", [3, "ab", None, [1j]])
def test_other_means_are_numbers(others):
    assert_refuses(
        (ValueError, TypeError), "others must be", instances.many_best, arms=6, horizon=12, share=0.5, others=others
    )


def test_more_pairs_than_rounds_are_as_many_as_rounds():
    problem = adadim.Problem(arms=4, dim=2, horizon=12, noise=0.1, sets="iid")
    many, some = (adadim.ALBNorm(pairs=pairs).start(problem, seed=1) for pairs in (2**31, 12))
    features = np.random.default_rng(0).standard_normal((12, 4, 2))
    for x in features:
        arms = many.select(x), some.select(x)
        assert arms[0] == arms[1]
        for learner in (many, some):
            learner.update(arms[0], 0.5)


@pytest.mark.parametrize("size", [1e308, 1e-320])
def test_the_size_of_a_coefficient_leaves_a_ridge(size):
    assert_refuses(ValueError, "size must be a number in", adadim.TaperedLinUCB, size=size)


def test_a_penalty_is_small_enough_to_be_computed():
    policy = adadim.TsallisCorral(penalty=2.0**31)
    assert_refuses(ValueError, "penalty must be an exponent", policy.start, PROBLEM)


@pytest.mark.parametrize("taper", [1e308, 2.0**31, 300.0])
def test_a_taper_leaves_numbers(taper):
    x = np.random.default_rng(0).standard_normal((20, 4))
    assert_refuses(ValueError, "taper must be a number in", adadim.dimension, x, x[:, 0], taper=taper)


@pytest.mark.parametrize("features", [["a"], [[1j] * 4], np.ma.masked_less(np.eye(4), 0.5)])
def test_logged_features_are_numbers(features):
    learner = adadim.EvidenceLinUCB().start(adadim.Problem(arms=4, dim=4, horizon=12))
    assert_refuses((TypeError, ValueError), "logged features must be", learner.learn, features, np.ones(len(features)))


def test_long_numbers_are_not_echoed_whole():
    for value in (10**399, -(10**400), 10**5000):
        with pytest.raises(adadim.InvalidValueError) as caught:
            checks.integer(value, "dim", most=5)
        assert len(str(caught.value)) < 100


def test_sizes_that_cannot_fit_are_refused_where_features_come_with_rounds():
    problem = adadim.Problem(arms=4, dim=2**31, horizon=12, noise=0.1)
    assert_refuses(ValueError, "dim = 2147483648 is too much", adadim.LinUCB().start, problem)


def test_published_instances_name_what_is_wrong():
    assert_refuses(
        ValueError, "theta must have at least one entry", instances.sphere_rounds, arms=3, theta=[], horizon=5
    )
    options = {"models": 2**31, "dim": 4, "horizon": 5}
    assert_refuses(ValueError, "models = 2147483648 is too much", instances.shared_contexts, **options)


def test_masters_name_what_is_wrong():
    assert_refuses(TypeError, "targets must be 'plain', 'theory' or a tuple", adadim.BanditCombiner, targets=None)
    assert_refuses(ValueError, "theta_norm must be at most 1e.70", adadim.EpochBalancing, theta_norm=1e308)


def test_a_zero_may_have_a_sign():
    instance = adadim.instances.biased_arms(arms=3, dim=2, horizon=5, bias=-0.0)
    assert (instance.biases == 0).all()
