"""Regressions on all prefixes, in the form for few features and in that for many, against a solve for each prefix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim.models.averaged import FewFeatures, ManyFeatures, averaging_rows
from adadim.models.factor import prefix_regressions
from posterior_states import unit_rows


def variance_matrix(w, chances, noise2):
    """Covariance of sum_{j<=d*} z_j (w_j + noise eps_j) as a quadratic form of z, by the law of total variance."""
    reached = np.tri(len(w)) * w  # row m: the weights of prefix m
    spread = reached - chances @ reached
    return noise2 * np.diag(chances @ np.tri(len(w))) + (spread.T * chances) @ spread


@pytest.mark.parametrize("kind", [FewFeatures, ManyFeatures])
@pytest.mark.parametrize(("arms", "dim", "ridge", "taper"), [(30, 8, 0.1, 0.0), (60, 60, 1e-6, 1.0)])
def test_predictions_equal_a_solve_for_each_prefix(kind, arms, dim, ridge, taper):
    rng = np.random.default_rng(dim)
    features, theta = unit_rows(rng, 1, arms, dim), rng.standard_normal(dim)
    counts = (np.arange(arms) % 3 == 0) * 1.0  # what was known before
    sums, squares, precisions = 0.5 * counts, 0.25 * counts.sum(), ridge * np.arange(1, dim + 1) ** taper
    a, weights = features[0], precisions**-0.5
    lower, *known = prefix_regressions((a.T * counts) @ a, a.T @ sums, squares, weights)
    state = kind(np.linalg.solve(lower, (a * weights).T), *known)
    chances = rng.dirichlet(np.full(dim, 0.2))
    for t in range(1, 401):
        mean, variance = state.predict(chances, 0.3)
        arm = int(np.argmax(mean + np.sqrt(variance)))
        reward = float(features[0, arm] @ theta + 0.3 * rng.standard_normal())
        state.absorb(arm, reward)
        counts[arm], sums[arm], squares = counts[arm] + 1, sums[arm] + reward, squares + reward**2
        if t not in (1, 20, 400):
            continue
        means, widths2 = [], []
        for m in range(1, dim + 1):
            cut = features[0, :, :m]
            inverse = np.linalg.inv(np.diag(precisions[:m]) + (cut.T * counts) @ cut)
            estimate = inverse @ (cut.T @ sums)
            means.append(cut @ estimate)
            widths2.append(np.vecdot(cut @ inverse, cut))
            assert state.residuals[m - 1] == pytest.approx(squares - (cut.T @ sums) @ estimate, rel=1e-6, abs=1e-8)
        mean, variance = state.predict(chances, 0.3)
        average = chances @ means
        expected = 0.3 * (chances @ widths2) + chances @ (np.array(means) - average) ** 2
        np.testing.assert_allclose(mean, average, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(variance, expected, rtol=1e-6, atol=1e-10)
        for m in (1, dim // 2, dim):
            np.testing.assert_allclose(state.combine(state.w[:m]), means[m - 1], rtol=1e-6, atol=1e-8)


@given(
    st.integers(1, 12), st.integers(0, 2**32), st.sampled_from([0.0, 1e-14, 1.0, 100.0]), st.sampled_from([0.02, 1.0])
)
def test_mean_and_root_of_the_covariance(size, seed, noise2, concentration):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(size, concentration))
    w = rng.standard_normal(size) * 10.0 ** rng.integers(-3, 3, size=size) * (rng.random(size) < 0.8)
    *root, mean = averaging_rows(w, chances, noise2)
    root = np.reshape(root, (size, size))
    np.testing.assert_allclose(mean, chances @ (np.tri(size) * w), rtol=1e-12, atol=1e-12)
    assert (root == np.tril(root)).all()
    expected = variance_matrix(w, chances, noise2)
    np.testing.assert_allclose(root.T @ root, expected, rtol=1e-7, atol=1e-12 * max(1.0, np.abs(expected).max()))


def test_chances_that_vanish_leave_no_trace():
    chances = np.array([0.0, 1e-200, 1.0, 1e-320, 0.0])
    rows = averaging_rows(np.arange(1.0, 6.0), chances, 0.25)
    np.testing.assert_allclose(rows[:5], np.diag([0.5, 0.5, 0.5, 0.0, 0.0]), atol=1e-99)
    np.testing.assert_allclose(rows[5], [1.0, 2.0, 3.0, 0.0, 0.0], atol=1e-99)
