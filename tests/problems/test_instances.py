"""Generators of instances: their laws, the expressive closure and the lower-bound family."""

import numpy as np
import pytest
from scipy import stats

import adadim
from adadim import ActionSet, Instance, instances

GENERATORS = {"sphere": instances.sphere, "ball": instances.ball, "clicks": instances.clicks}
both = pytest.mark.parametrize("make", [instances.sphere, instances.ball], ids=["sphere", "ball"])


def small(make, **changes):
    return make(**{"arms": 30, "dim": 8, "intrinsic_dim": 3, "horizon": 100, "replications": range(4)} | changes)


def features(instance, replication=0):
    return instance.problem.actions.dense(replication)


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


# Expressive closure


def test_expressive_closure_of_the_paper():
    """C28."""
    assert instances.expressive_levels(2500, 400) == [8, 16, 32, 64, 128, 400]
    instance = instances.sphere(arms=800, dim=400, intrinsic_dim=12, horizon=2500, expressive=True)
    plain = instances.sphere(arms=800, dim=400, intrinsic_dim=12, horizon=2500)
    actions = instance.problem.actions
    assert actions.levels == (8, 16, 32, 64, 128, 400)
    assert instance.problem.arms == actions.arms == 4800
    dense, base = actions.dense(0), features(plain)
    assert dense.shape == (4800, 400)
    for block, level in enumerate(actions.levels):
        rows = dense[800 * block : 800 * (block + 1)]
        np.testing.assert_array_equal(rows[:, :level], base[:, :level])
        assert not rows[:, level:].any()
    np.testing.assert_allclose(instance.means[0], dense @ instance.theta[0], atol=1e-14)
    np.testing.assert_allclose(actions.squared_norms()[0], (dense**2).sum(axis=1), atol=1e-14)
    usable = [actions.truncate(m, supported=True)[0].arms for m in (128, 64, 32, 16, 8, 4)]
    assert usable == [4000, 3200, 2400, 1600, 800, 800]
    oracle, pull = actions.truncate(12)
    assert oracle.dense(0).shape == (1600, 12)
    np.testing.assert_array_equal(pull, [*range(800), *range(4000, 4800)])


def test_levels_follow_horizon_and_dimension():
    assert instances.expressive_levels(2500, 600) == [8, 16, 32, 64, 128, 600]
    assert instances.expressive_levels(2500, 32) == [8, 16, 32]
    assert instances.expressive_levels(2500, 5) == [5]
    assert instances.expressive_levels(100, 400) == [8, 16, 32, 400]
    assert instances.expressive_levels(2500, 400, beta=0.7) == [8, 16, 32, 64, 128, 256, 400]


@both
def test_levels_are_an_argument(make):
    instance = small(make, expressive=True, levels=[1, 4, 8])
    assert instance.problem.actions.levels == (1, 4, 8)
    assert instance.means.shape == (4, 90)
    for r in range(4):
        np.testing.assert_allclose(instance.means[r], features(instance, r) @ instance.theta[r], atol=1e-14)
    with pytest.raises(ValueError, match="pass expressive=True"):
        small(make, levels=[1, 4])


# Truncation


def test_truncation_of_plain_arms():
    rng = np.random.default_rng(0)
    actions = ActionSet(rng.random((2, 6, 5)) / 5)
    cut, pull = actions.truncate(3)
    np.testing.assert_array_equal(cut.base, actions.base[:, :, :3])
    np.testing.assert_array_equal(pull, np.arange(6))
    assert actions.truncate(5)[0] is actions


@pytest.mark.parametrize("supported", [False, True])
@pytest.mark.parametrize("dim", range(1, 9))
def test_truncation_of_expressive_arms(dim, supported):
    rng = np.random.default_rng(1)
    actions = ActionSet(rng.random((2, 3, 8)) / 8, levels=[2, 4, 7])
    cut, pull = actions.truncate(dim, supported=supported)
    for r in range(2):
        dense = actions.dense(r)
        np.testing.assert_array_equal(cut.dense(r), dense[pull, :dim])
        seen = {tuple(row) for row in dense[:, :dim]}
        if supported:
            usable = [k for k in range(9) if not dense[k, dim:].any()]
            np.testing.assert_array_equal(pull, usable or [0, 1, 2])
        else:
            assert {tuple(row) for row in cut.dense(r)} == seen
            assert cut.arms == len(seen)  # every distinct truncation once
    np.testing.assert_allclose(cut.squared_norms()[1], (cut.dense(1) ** 2).sum(axis=1), atol=1e-15)


def test_vectors_and_projections_of_expressive_arms(torch):
    rng = np.random.default_rng(2)
    base, levels = rng.random((3, 4, 6)) / 6, [2, 5]
    here, there = ActionSet(base, levels=levels), ActionSet(torch.asarray(base), levels=levels)
    arms, directions = np.array([6, 1, 4]), rng.standard_normal((3, 6))
    expected = np.stack([here.dense(r)[k] for r, k in enumerate(arms)])
    np.testing.assert_array_equal(here.vectors(arms), expected)
    np.testing.assert_array_equal(there.vectors(torch.asarray(arms)), expected)
    for k in range(8):
        np.testing.assert_array_equal(here.vector(1, k), here.dense(1)[k])
    projected = np.stack([here.dense(r) @ u for r, u in enumerate(directions)])
    np.testing.assert_allclose(here.project(directions), projected, atol=1e-15)
    np.testing.assert_allclose(there.project(torch.asarray(directions)), projected, atol=1e-15)


def test_rescaled_to_the_longest_arm():
    rng = np.random.default_rng(3)
    for actions in (ActionSet(rng.random((2, 4, 6)) / 9), ActionSet(rng.random((2, 4, 6)) / 9, levels=[2, 6])):
        norms = np.sqrt(actions.squared_norms())
        scaled = np.sqrt(actions.rescaled().squared_norms())
        np.testing.assert_allclose(scaled, norms / norms.max(axis=1, keepdims=True), rtol=1e-13)
    np.testing.assert_array_equal(ActionSet(np.zeros((2, 3))).rescaled().base, 0)


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


@pytest.mark.parametrize(("told", "expected"), [("true", [0.8]), ("unknown", None), (0.5, [0.5]), ([0.25], [0.25])])
def test_what_the_policy_is_told_about_the_range(told, expected):
    instance = Instance(np.eye(3), means=[0.1, 0.9, 0.4], horizon=10, noise=0.2, reward_range=told)
    if expected is None:
        assert instance.problem.reward_range is None
    else:
        np.testing.assert_allclose(instance.problem.reward_range, expected)


# On a device, and joined


@pytest.mark.parametrize("expressive", [False, True])
def test_an_instance_on_a_device_is_the_same(torch, expressive):
    here = small(instances.sphere, expressive=expressive, levels=[2, 8] if expressive else None, replications=[4, 1])
    there = here.to("cpu")
    problem, moved = here.problem, there.problem
    for name in ("means", "best", "theta"):
        assert isinstance(getattr(there, name), torch.Tensor)
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    assert isinstance(moved.actions.base, torch.Tensor)
    np.testing.assert_array_equal(moved.actions.dense_batch(), problem.actions.dense_batch())
    np.testing.assert_array_equal(moved.reward_range, problem.reward_range)
    same = ("replications", "horizon", "noise", "arms", "dim")
    assert [getattr(moved, name) for name in same] == [getattr(problem, name) for name in same]
    assert (moved.actions.levels, moved.actions.expressive) == (problem.actions.levels, expressive)
    assert isinstance(here.means, np.ndarray)
    assert isinstance(here.problem.actions.base, np.ndarray)
    np.testing.assert_array_equal(there.to("cpu").means, here.means)


def test_means_that_are_not_linear_on_a_device(torch):
    there = Instance(np.eye(3), means=[0.1, 0.9, 0.4], horizon=10, noise=0.2).to("cpu")
    assert there.theta is None
    np.testing.assert_array_equal(there.means, [[0.1, 0.9, 0.4]])


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("expressive", [False, True])
def test_joined_instances_are_their_parts(library, expressive, request):
    levels = [2, 8] if expressive else None
    size = {"expressive": expressive, "levels": levels}
    parts = [small(instances.sphere, intrinsic_dim=m, replications=rs, **size) for m, rs in ((1, [3, 0]), (8, [0]))]
    parts.append(small(instances.ball, intrinsic_dim=4, replications=[9, 5], **size))
    if library == "torch":
        request.getfixturevalue("torch")
        parts = [part.to("cpu") for part in parts]
    joined = Instance.join(parts)
    assert joined.problem.replications == (3, 0, 0, 9, 5)
    assert len(joined.problem) == joined.problem.actions.replications == 5
    for name in ("means", "best", "theta"):
        np.testing.assert_array_equal(getattr(joined, name), np.concatenate([getattr(p, name) for p in parts]))
    ranges = [part.problem.reward_range for part in parts]
    np.testing.assert_array_equal(joined.problem.reward_range, np.concatenate(ranges))
    dense = [part.problem.actions.dense_batch() for part in parts]
    np.testing.assert_array_equal(joined.problem.actions.dense_batch(), np.concatenate(dense))
    for policy in (adadim.LinUCB(), adadim.DynamicBalancing()):
        together = adadim.simulate(policy, joined, seed=2)
        alone = [adadim.simulate(policy, part, seed=2) for part in parts]
        np.testing.assert_array_equal(together.pulls, np.concatenate([one.pulls for one in alone]))
        np.testing.assert_allclose(together.regret, np.concatenate([one.regret for one in alone]), atol=1e-10)
    assert [part.problem.replications for part in parts] == [(3, 0), (0,), (9, 5)]


def test_one_part_needs_no_joining():
    part = small(instances.sphere)
    assert Instance.join([part]) is part


def test_joined_arms_lie_feature_by_feature():
    """As every set's do: A u streams through memory, and a prefix of the features is one block."""
    joined = ActionSet.join([small(instances.sphere).problem.actions, small(instances.ball).problem.actions])
    assert joined.base.shape == (8, 30, 8)
    assert joined.base.strides == (8 * 30 * 8, 8, 8 * 30)


def test_joining_forgets_a_theta_that_not_all_have():
    linear = Instance(np.eye(2), theta=[0.1, 0.2], horizon=5, noise=0.1)
    free = Instance(np.eye(2), means=[0.3, 0.2], horizon=5, noise=0.1)
    joined = Instance.join([linear, free])
    assert joined.theta is None
    np.testing.assert_array_equal(joined.means, [[0.1, 0.2], [0.3, 0.2]])


@pytest.mark.parametrize(
    "changes",
    [
        {"horizon": 101},
        {"arms": 31},
        {"dim": 9},
        {"noise": 0.2},
        {"expressive": True, "levels": [2, 8]},
        {"expressive": True, "levels": [8]},
    ],
)
def test_instances_that_differ_in_more_are_not_joined(changes):
    one, other = small(instances.sphere), small(instances.sphere, **changes)
    assert not one.joins(other)
    assert not other.joins(one)
    assert one.joins(small(instances.sphere, replications=[7], intrinsic_dim=1, seed=3))
    with pytest.raises(ValueError, match="instances must differ in their replications alone to be joined: Instance"):
        Instance.join([one, other])


def test_instances_of_another_law_are_not_joined():
    clicks = small(instances.clicks)
    arms = clicks.problem.actions
    gaussian = Instance(arms, means=clicks.means, horizon=100, noise=0.5)
    unknown = Instance(arms, means=clicks.means, horizon=100, rewards="bernoulli", reward_range="unknown")
    assert not clicks.joins(gaussian)
    assert not clicks.joins(unknown)
    assert clicks.joins(Instance(arms, means=clicks.means, horizon=100, rewards="bernoulli"))


# Features of other kinds

OTHERS = {
    "anisotropic": (instances.anisotropic, {"decay": 0.5}),
    "products": (instances.products, {"attributes": 6}),
    "polynomials": (instances.polynomials, {"variables": 2}),
    "pca": (instances.pca, {"data": "wine"}),
}
others = pytest.mark.parametrize(("make", "more"), OTHERS.values(), ids=OTHERS)


@others
def test_others_depend_on_replication_number_and_seed_alone(make, more):
    batch = small(make, **more, replications=[2, 17, 5])
    alone = small(make, **more, replications=[17])
    np.testing.assert_array_equal(features(alone), features(batch, 1))
    np.testing.assert_array_equal(alone.means[0], batch.means[1])
    assert not np.array_equal(features(batch, 0), features(batch, 2))
    assert not np.array_equal(features(small(make, **more, replications=[17], seed=1)), features(alone))


@others
def test_others_are_linear_in_the_first_features(make, more):
    instance = small(make, **more)
    for r in range(4):
        arms, theta = features(instance, r), instance.theta[r]
        np.testing.assert_allclose(instance.means[r], arms @ theta, atol=1e-14)
        assert np.linalg.norm(arms, axis=1).max() <= 1 + 1e-12
        assert np.linalg.norm(theta) == pytest.approx(1)
        assert theta[2] != 0
        assert not theta[3:].any()


def test_heavy_tail():
    np.testing.assert_allclose(instances.parameter("heavy", 4, 5) * np.sqrt(205) / 12, [1, 1 / 2, 1 / 3, 1 / 4, 0])


def test_anisotropic_scales_and_longest_arm():
    arms = features(small(instances.anisotropic, arms=20_000, decay=0.7))
    np.testing.assert_allclose(arms.std(axis=0) / arms[:, 0].std(), np.arange(1, 9) ** -0.7, rtol=0.03)
    assert stats.kstest(arms[:, 3] / arms[:, 3].std(), stats.norm.cdf).pvalue > 1e-3
    assert np.linalg.norm(arms, axis=1).max() == pytest.approx(1)


def test_products_of_attributes():
    instance = instances.products(attributes=4, arms=16, dim=15, intrinsic_dim=10, horizon=100)
    arms = features(instance) * np.sqrt(15)  # the arm with all attributes is among all 16, and is the longest
    sets = [(0,), (1,), (2,), (3,), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    sets += [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3), (0, 1, 2, 3)]
    for j, members in enumerate(sets):
        np.testing.assert_allclose(arms[:, j], arms[:, members].prod(axis=1), atol=1e-12)
    assert len({tuple(row) for row in np.round(arms[:, :4]).astype(int)}) == 16
    assert set(np.round(arms.ravel(), 9)) == {0.0, 1.0}


def test_products_closed_under_truncation():
    instance = instances.products(
        attributes=5, arms=20, dim=31, intrinsic_dim=5, horizon=2500, expressive=True, levels=[5, 15, 31]
    )
    arms = features(instance)
    rows = {tuple(row) for row in arms}
    for level in (5, 15):
        assert {(*row[:level], *[0.0] * (31 - level)) for row in arms.tolist()} <= rows
    np.testing.assert_allclose(instance.means[0], arms @ instance.theta[0], atol=1e-14)


def test_signs_of_products_are_fair():
    signs = np.sign(small(instances.products, attributes=6, replications=range(400)).theta[:, :3])
    assert abs(signs.mean(axis=0)).max() < 0.2


def test_polynomials_are_legendre_by_degree():
    instance = small(instances.polynomials, variables=2, dim=10, arms=200)
    arms = features(instance)
    arms = arms / arms[:, :1]  # the constant becomes 1
    x, y = arms[:, 1] / np.sqrt(3), arms[:, 2] / np.sqrt(3)
    assert abs(np.stack([x, y])).max() <= 1
    second, third = lambda z: np.sqrt(5) * (3 * z**2 - 1) / 2, lambda z: np.sqrt(7) * (5 * z**3 - 3 * z) / 2
    expected = [second(x), 3 * x * y, second(y)]
    expected += [third(x), second(x) * np.sqrt(3) * y, np.sqrt(3) * x * second(y), third(y)]
    np.testing.assert_allclose(arms[:, 3:].T, expected, atol=1e-12)


def test_polynomials_are_orthonormal_under_the_uniform_law():
    arms = features(small(instances.polynomials, variables=1, dim=6, arms=40_000))
    gram = arms.T @ arms / 40_000 / arms[0, 0] ** 2
    np.testing.assert_allclose(gram, np.eye(6), atol=0.06)


def test_principal_components_agree_with_scikit_learn():
    from sklearn.datasets import load_diabetes
    from sklearn.decomposition import PCA, KernelPCA
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import StandardScaler

    raw, target = load_diabetes(return_X_y=True)
    columns = StandardScaler().fit_transform(raw)
    models = {"linear": PCA(8, svd_solver="full"), "rbf": KernelPCA(8, kernel="rbf", gamma=0.1, eigen_solver="dense")}
    for kernel, model in models.items():
        scores = model.fit_transform(columns)
        scores /= np.linalg.norm(scores, axis=1).max()
        instance = small(instances.pca, data="diabetes", arms=442, kernel=kernel, replications=[3])
        arms, theta = features(instance), instance.theta[0]
        order = np.lexsort(np.round(abs(arms[:, :2]), 9).T), np.lexsort(np.round(abs(scores[:, :2]), 9).T)
        np.testing.assert_allclose(abs(arms[order[0]]), abs(scores[order[1]]), atol=1e-9)
        fit = LinearRegression().fit(scores[:, :3], target).coef_
        np.testing.assert_allclose(abs(theta[:3]), abs(fit) / np.linalg.norm(fit), rtol=1e-9)
        raw_means = small(instances.pca, data="diabetes", arms=442, kernel=kernel, linear=False, replications=[3]).means
        expected = (target - target.mean()) / np.ptp(target)
        np.testing.assert_allclose(raw_means[0][order[0]], expected[order[1]], atol=1e-12)


def test_classes_of_real_data_are_drawn():
    """A wine is of one of three classes: each is the rewarded one in some replication, in the same share."""
    instance = small(instances.pca, data="wine", linear=False, arms=178, replications=range(60))
    shares = np.array([(row == row.max()).sum() for row in instance.means])
    assert set(shares.tolist()) == {59, 71, 48}
    np.testing.assert_allclose(np.ptp(instance.means, axis=1), 1)


def test_intrinsic_dimension_of_the_lower_bound_is_checked():
    assert instances.lower_bound(horizon=2500, alpha=0.5, intrinsic_dim=1).theta[0].nonzero()[0].tolist() == [0]
    assert instances.lower_bound(horizon=2500, alpha=0.5, target=7, intrinsic_dim=32).theta[0, 31] > 0
    with pytest.raises(ValueError, match="intrinsic_dim must be 32, the d\\* of target 7, got 30"):
        instances.lower_bound(horizon=2500, alpha=0.5, target=7, intrinsic_dim=30)


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (instances.anisotropic, {"decay": -1.0}, "decay must be a finite number of at least 0, got -1.0"),
        (instances.anisotropic, {"decay": np.inf}, "decay must be a finite number of at least 0, got inf"),
        (instances.products, {"attributes": 0}, "attributes must be an integer of at least 1, got 0"),
        (instances.products, {"attributes": 4, "arms": 17}, r"arms must be at most 2\^attributes = 16, .* got 17"),
        (instances.products, {"attributes": 3, "arms": 4}, r"dim must be at most 2\^attributes - 1 = 7, .* got 8"),
        (instances.products, {"attributes": 31}, "attributes must be at most 30, got 31"),
        (instances.polynomials, {"variables": 2, "intrinsic_dim": 1}, r"in 2\.\.8 \(the constant counts\), got 1"),
        (instances.polynomials, {"variables": 1.5}, "variables must be an integer of at least 1, got 1.5"),
        (instances.pca, {"data": "iris"}, "data must be one of 'breast_cancer', .*, got 'iris'"),
        (instances.pca, {"data": "wine", "kernel": "poly"}, "kernel must be 'linear' or 'rbf', got 'poly'"),
        (instances.pca, {"data": "wine", "arms": 179}, "arms must be at most 178, the samples of 'wine', got 179"),
        (instances.pca, {"data": "wine", "dim": 14}, "dim must be at most 13, the components of 'wine', got 14"),
        (instances.pca, {"data": "wine", "intrinsic_dim": 9}, r"intrinsic_dim must be in 1\.\.8 .* got 9"),
        (instances.pca, {"data": "wine", "intrinsic_dim": 2.0}, "intrinsic_dim must be an integer, got 2.0"),
    ],
)
def test_others_refuse_what_cannot_be(make, changes, message):
    with pytest.raises(ValueError, match=message):
        small(make, **changes)
