"""Generators of instances: the laws of their arms, their means, and instances from the user's own arrays."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from adadim import Instance, Random, instances, simulate
from adadim.study import Study, instance_kinds
from instance_makers import features, small

GENERATORS = {"sphere": instances.sphere, "ball": instances.ball, "clicks": instances.clicks}
both = pytest.mark.parametrize("make", [instances.sphere, instances.ball], ids=["sphere", "ball"])


# Laws


def test_sphere_has_unit_norms():
    np.testing.assert_allclose(np.linalg.norm(small(instances.sphere).problem.actions.base, axis=-1), 1, rtol=1e-14)


def test_prefix_norms_on_the_sphere():
    """C29."""
    arms = features(instances.sphere(arms=1200, dim=600, intrinsic_dim=12, horizon=2500))
    dims = [128, 64, 32, 16, 8, 4]
    norms = np.array([np.linalg.norm(arms[:, :m], axis=1) for m in dims])
    np.testing.assert_allclose(norms.mean(axis=1), [0.4626, 0.3261, 0.2301, 0.1623, 0.1134, 0.0771], atol=0.004)
    np.testing.assert_allclose(norms.max(axis=1), [0.533, 0.411, 0.334, 0.269, 0.229, 0.172], atol=0.05)


def test_sphere_is_uniform():
    dim = 5
    arms = features(small(instances.sphere, arms=4000, dim=dim))
    for j in range(dim):
        # The square of a coordinate of a uniform point is Beta(1/2, (d-1)/2), its sign fair.
        assert stats.kstest(arms[:, j] ** 2, stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > 1e-3
        assert abs((arms[:, j] > 0).mean() - 0.5) < 0.03
    assert abs(np.corrcoef(arms.T)[np.triu_indices(dim, 1)]).max() < 0.06


def test_ball_is_uniform():
    dim = 5
    arms = features(small(instances.ball, arms=4000, dim=dim))
    norms = np.linalg.norm(arms, axis=1)
    assert norms.max() < 1
    assert stats.kstest(norms**dim, stats.uniform.cdf).pvalue > 1e-3  # P(norm <= r) = r^d
    squared = (arms / norms[:, None]) ** 2
    for j in range(dim):
        assert stats.kstest(squared[:, j], stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(norms, arms[:, 0])[0, 1]) < 0.06


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_replication_number_and_seed_alone_decide_the_arms(make):
    batch = small(make, replications=[2, 17, 5])
    np.testing.assert_array_equal(features(small(make, replications=[17])), features(batch, 1))
    np.testing.assert_array_equal(small(make, replications=[17]).means[0], batch.means[1])
    assert not np.isclose(features(batch, 0), features(batch, 2))[:, 1:].any()
    assert not np.isclose(features(small(make, replications=[17], seed=1)), features(batch, 1))[:, 1:].any()
    np.testing.assert_array_equal(features(small(make, replications=[17], horizon=7)), features(batch, 1))
    assert batch.problem.replications == (2, 17, 5)


# Reward parameter and means


def test_parameter_shapes():
    root = 1 / np.sqrt([1, 2, 3])
    expected = {"uniform": np.ones(3), "decay": root, "flip": root[::-1], "spike": np.array([0.0, 0.0, 1.0])}
    for shape, head in expected.items():
        vector = instances.parameter(shape, 3, 7)
        np.testing.assert_allclose(vector[:3], head / np.linalg.norm(head), rtol=1e-14)
        np.testing.assert_array_equal(vector[3:], 0)
        np.testing.assert_allclose(np.linalg.norm(vector), 1, rtol=1e-14)


@both
@pytest.mark.parametrize("theta", ["uniform", "decay", "flip", "spike"])
def test_means_are_linear(make, theta):
    instance = small(make, theta=theta, noise=0.3)
    for r in range(4):
        expected = features(instance, r) @ instances.parameter(theta, 3, 8)
        np.testing.assert_allclose(instance.means[r], expected, atol=1e-14)
        assert instance.best[r] == instance.means[r].max()
        np.testing.assert_allclose(instance.problem.reward_range[r], np.ptp(expected), atol=1e-14)
    assert (instance.problem.horizon, instance.problem.noise, instance.rewards) == (100, 0.3, "gaussian")


def test_best_mean_of_the_paper_experiment():
    """Section 14: mu* is about 0.14, so a random policy pays about 350."""
    instance = instances.sphere(arms=1200, dim=600, intrinsic_dim=12, horizon=2500, replications=range(3))
    assert 0.11 < instance.best.mean() < 0.17
    assert abs(instance.means.mean()) < 0.01


# Clicks


def test_clicks_are_probabilities():
    instance = small(instances.clicks, dim=10, intrinsic_dim=4, arms=200)
    assert instance.rewards == "bernoulli"
    assert instance.problem.noise == 0.5
    assert ((instance.means >= 0) & (instance.means <= 1)).all()
    for r in range(4):
        arms = features(instance, r)
        np.testing.assert_allclose(np.linalg.norm(arms, axis=1), 1, rtol=1e-14)
        z, t = arms[:, 1:] * np.sqrt(2), instances.parameter("uniform", 3, 9)
        np.testing.assert_allclose(instance.means[r], 0.5 + z @ t / 2, atol=1e-14)
    assert np.ptp(instance.means) > 0.3


# Instances from the user's own arrays


def test_instance_from_arrays():
    rng = np.random.default_rng(4)
    arms, theta = rng.random((3, 5, 2)) / 2, np.array([0.6, -0.3])
    instance = Instance(arms, theta=theta, horizon=10, noise=0.2, replications=[3, 1, 2])
    np.testing.assert_allclose(instance.means, arms @ theta, atol=1e-15)
    np.testing.assert_array_equal(instance.best, instance.means.max(axis=1))
    each = Instance(arms, theta=rng.random((3, 2)), horizon=10, noise=0.2)
    np.testing.assert_allclose(each.means, np.einsum("rkd,rd->rk", arms, each.theta), atol=1e-15)
    assert Instance(arms[0].tolist(), theta=[1, 0], horizon=10, noise=0.2).means.shape == (1, 5)


def test_instance_with_means_that_are_not_linear():
    means = np.array([[0.1, 0.9, 0.4]])
    instance = Instance(np.eye(3)[:, :1], means=means, horizon=10, noise=0.2)
    np.testing.assert_array_equal(instance.means, means)
    assert instance.theta is None
    means[0, 0] = 7.0  # the caller's array stays the caller's
    assert instance.means[0, 0] == 0.1


@pytest.mark.parametrize(("given", "expected"), [("true", [0.8]), ("unknown", None), (0.5, [0.5]), ([0.25], [0.25])])
def test_what_the_policy_knows_of_the_range(given, expected):
    instance = Instance(np.eye(3), means=[0.1, 0.9, 0.4], horizon=10, noise=0.2, reward_range=given)
    if expected is None:
        assert instance.problem.reward_range is None
    else:
        np.testing.assert_allclose(instance.problem.reward_range, expected)


# Legendre polynomials


def test_legendre_polynomials_that_matter():
    instance = instances.legendre(horizon=10, arms=101, dim=6, replications=range(300))
    arms, points = features(instance, 0), np.linspace(-1, 1, 101) / 1.1
    longest = np.sqrt(1 / 2) / arms[0, 0]
    assert np.linalg.norm(arms, axis=1).max() == pytest.approx(1)
    np.testing.assert_allclose(arms[:, 0], np.sqrt(1 / 2) / longest)
    np.testing.assert_allclose(arms[:, 2], np.sqrt(5 / 2) * (3 * points**2 - 1) / 2 / longest)
    np.testing.assert_allclose(arms[:, 3], np.sqrt(7 / 2) * (5 * points**3 - 3 * points) / 2 / longest)
    theta = instance.theta / longest
    assert (np.count_nonzero(theta, axis=1) == 3).all()
    np.testing.assert_allclose(np.linalg.norm(theta, axis=1), 1)
    assert (np.count_nonzero(theta, axis=0) > 100).all()  # 150 on average: each matters as often
    assert 0.4 < (theta[theta != 0] > 0).mean() < 0.6
    alone = instances.legendre(horizon=10, arms=101, replications=[7])
    np.testing.assert_array_equal(alone.theta[0], instance.theta[7])


# Numbers as people write them

USUAL = {"arms": 12, "dim": 5, "intrinsic_dim": 2}
OTHER = {
    "biased_arms": {"arms": 4, "dim": 5},
    "everyday": {"distribution": "counts", **USUAL},
    "end_of_optimism": {},
    "informative": {"dim": 5},
    "interval": {"arms": 9},
    "legendre": {"arms": 9},
    "lower_bound": {"alpha": 0.8},
    "many_best": {"arms": 20, "alpha": 0.25},
    "owned_arms": {"best": 0.7},
    "polynomials": {"variables": 2, **USUAL},
    "products": {"attributes": 4, **USUAL},
    "shared_contexts": {"models": 2, "dim": 3},
    "sphere_rounds": {"arms": 4, "theta": [0.1, 0.2]},
    "growing": {**USUAL, "arms": 6},
}
DRAWN = [
    name for name in instance_kinds() if name not in ("choices", "labelled", "pca", "ratings")
]  # these need tables of data


@pytest.mark.parametrize("name", DRAWN)
def test_a_horizon_of_1e2_and_two_replications(name):
    make, sizes = instance_kinds()[name], OTHER.get(name, USUAL)
    one = make(**sizes, horizon=100, replications=range(2))
    other = make(**sizes, horizon=1e2, replications=2)
    assert type(other.problem.horizon) is int
    assert one.problem.replications == other.problem.replications == (0, 1)
    first, second = (simulate(Random(), instance) for instance in (one, other))
    np.testing.assert_array_equal(first.final, second.final)


def test_a_horizon_of_1e2_in_sets_closed_under_truncation():
    sizes = {"arms": 5, "dim": 40, "intrinsic_dim": 2, "expressive": True}
    assert instances.sphere(**sizes, horizon=1e2).problem.arms == instances.sphere(**sizes, horizon=100).problem.arms


def test_a_horizon_of_1e2_in_a_table():
    columns = {"x": np.arange(200) / 200, "k": np.arange(200) % 2}
    one, other = (
        instances.table(pl.DataFrame(columns), features=["x"], classes="k", horizon=horizon, replications=replications)
        for horizon, replications in ((100, range(3)), (1e2, 3))
    )
    assert (one.problem.horizon, len(one.problem)) == (other.problem.horizon, len(other.problem)) == (100, 3)


def test_a_horizon_of_1e2_in_a_study():
    sphere = {"kind": "sphere", **USUAL}
    one, other = (
        Study("mine", {"easy": {**sphere, "horizon": horizon}}, {"Random": {"kind": "Random"}}, trials=1)
        for horizon in (100, 1e2)
    )
    assert other.to_toml() == one.to_toml()
