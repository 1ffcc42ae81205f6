"""Features of other kinds: anisotropic, products, polynomials, principal components."""

import numpy as np
import pytest
from scipy import stats

from adadim import instances
from instance_makers import features, small

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
        (instances.pca, {"data": "iris"}, "data must be 'breast_cancer', .* or '.*', got 'iris'"),
        (instances.pca, {"data": "wine", "kernel": "poly"}, "kernel must be 'linear' or 'rbf', got 'poly'"),
        (instances.pca, {"data": "wine", "arms": 179}, "arms must be at most 178, the samples of 'wine', got 179"),
        (instances.pca, {"data": "wine", "dim": 14}, "dim must be at most 13, the components of 'wine', got 14"),
        (instances.pca, {"data": "wine", "intrinsic_dim": 9}, r"intrinsic_dim must be an integer in 1\.\.8 .* got 9"),
        (
            instances.pca,
            {"data": "wine", "intrinsic_dim": 2.0},
            r"intrinsic_dim must be an integer in 1\.\.8 \(the number of features\), got 2\.0",
        ),
    ],
)
def test_others_refuse_what_cannot_be(make, changes, message):
    with pytest.raises(ValueError, match=message):
        small(make, **changes)
