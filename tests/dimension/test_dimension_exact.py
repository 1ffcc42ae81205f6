"""The posterior of d* against the formula, numerical integration, a case by hand, and its invariances."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adadim
from adadim.dimension import RIDGES
from refusals import assert_refuses

prefixes = importlib.import_module("adadim.dimension")  # adadim.dimension is its function


def by_formula(features, rewards, ridge, taper=0.0, constant=True):
    """NESTED: evidence det(V_m)^(-1/2) S_m^(-n/2), one solve for each m; centred and with n - 1 for a flat constant."""
    n, dim = features.shape
    if constant:
        features, rewards, n = features - features.mean(axis=0), rewards - rewards.mean(), n - 1
    scaled = features / np.sqrt(ridge * np.arange(1.0, dim + 1) ** taper)
    logs = []
    for m in range(1, dim + 1):
        v = np.eye(m) + scaled[:, :m].T @ scaled[:, :m]
        b = scaled[:, :m].T @ rewards
        residual = rewards @ rewards - b @ np.linalg.solve(v, b)
        logs.append(-0.5 * np.linalg.slogdet(v)[1] - n / 2 * np.log(residual))
    return np.array(logs)


def shares(logs):
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def data(seed, n, dim, intrinsic=2, noise=0.5):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, dim))
    return features, features[:, :intrinsic].sum(axis=1) + noise * rng.standard_normal(n)


@given(st.integers(2, 30), st.integers(1, 8), st.sampled_from([0.0, 1.5]), st.booleans(), st.integers(0, 2**32))
def test_a_given_ridge_is_the_formula(n, dim, taper, constant, seed):
    features, rewards = data(seed, n, dim, min(2, dim))
    options = {"ridge": 0.3, "taper": taper, "constant": constant}
    found = adadim.dimension(features, rewards, **options)
    logs = by_formula(features, rewards, **options)
    np.testing.assert_allclose(found.probabilities, shares(logs), atol=1e-9)
    assert found.constant is constant
    prior = np.arange(1.0, dim + 1) ** -0.5
    weighted = adadim.dimension(features, rewards, **options, prior=0.5).probabilities
    np.testing.assert_allclose(weighted, shares(logs + np.log(prior)), atol=1e-9)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("n", "dim"), [(40, 5), (6, 9), (6, 6), (6, 5)])
def test_a_learned_ridge_is_the_average_over_the_grid_on_canonical_features(n, dim, constant):
    features, rewards = data(3, n, dim)
    canonical = (
        np.sqrt(n) * np.linalg.qr(np.column_stack([np.ones((n, int(constant))), features]))[0][:, int(constant) :]
    )
    if canonical.shape[1] < dim:  # columns in the span of those before them
        canonical = np.hstack([canonical, np.zeros((n, dim - canonical.shape[1]))])
    logs = np.array([by_formula(canonical, rewards, ridge, constant=constant) for ridge in RIDGES])
    found = adadim.dimension(features, rewards, constant=constant)
    np.testing.assert_allclose(found.probabilities, shares(logs).sum(axis=0), atol=1e-9)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("all_known", [False, True])
def test_how_often_a_row_was_chosen_does_not_enter_the_canonical_basis(all_known, constant):
    rng = np.random.default_rng(10)
    arms = rng.standard_normal((30, 4)) @ np.diag([1, 10, 0.1, 1])
    chosen = np.append(np.zeros(40, dtype=int), rng.integers(20, size=30))
    rewards = rng.standard_normal(70) + 0.5 * arms[chosen, 0]
    ground = arms if all_known else arms[np.unique(chosen)]
    _, upper = np.linalg.qr(ground - constant * ground.mean(axis=0))
    canonical = arms[chosen] @ np.linalg.inv(upper) * np.sqrt(len(ground))
    logs = [by_formula(canonical, rewards, ridge, constant=constant) for ridge in RIDGES]
    expected = shares(np.array(logs)).sum(axis=0)
    found = adadim.dimension(arms[chosen], rewards, arms=arms if all_known else None, constant=constant)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-9)
    mixing = np.triu(rng.standard_normal((4, 4)), 1) + np.diag([1e-3, 1e6, 1, 10])
    mixed = {"arms": arms @ mixing if all_known else None, "constant": constant}
    after = adadim.dimension(arms[chosen] @ mixing, rewards, **mixed)
    np.testing.assert_allclose(after.probabilities, expected, atol=1e-6)


def test_a_free_constant_against_integration_over_it():
    """Likelihood times priors, 1 for the constant, summed over a fine grid of sigma, constant and theta."""
    features, rewards = data(5, 6, 2, intrinsic=1, noise=1.0)
    features, rewards, ridge = features + np.array([3.0, -1.0]), rewards + 5.0, 0.9
    sigmas, steps = np.exp(np.linspace(np.log(0.05), np.log(200.0), 80)), np.linspace(-7, 7, 41)
    evidences = []
    for m in (1, 2):
        grid = np.stack(np.meshgrid(*[steps] * (1 + m), indexing="ij"), axis=-1).reshape(-1, 1 + m)
        cut = np.column_stack([np.ones(6), features[:, :m]])
        precisions = np.diag([0.0, *[ridge] * m])
        v = precisions + cut.T @ cut
        centre, spread = np.linalg.solve(v, cut.T @ rewards), np.linalg.inv(np.linalg.cholesky(v))
        total = 0.0
        for sigma in sigmas:  # around the fit, along the axes of the likelihood, where the mass is
            theta = centre + sigma * grid @ spread
            misfit = ((rewards - theta @ cut.T) ** 2).sum(axis=1) + ridge * (theta[:, 1:] ** 2).sum(axis=1)
            logs = -0.5 * misfit / sigma**2 - 6 * np.log(sigma) + m / 2 * np.log(ridge / (2 * np.pi * sigma**2))
            cell = (sigma * (steps[1] - steps[0])) ** (1 + m) * np.linalg.det(spread)
            total += np.exp(logs).sum() * cell
        evidences.append(total)
    expected = np.array(evidences) / sum(evidences)
    np.testing.assert_allclose(adadim.dimension(features, rewards, ridge=ridge).probabilities, expected, atol=1e-5)
    assert abs(expected - adadim.dimension(features, rewards, ridge=ridge, constant=False).probabilities).max() > 0.05


def test_the_evidence_against_integration_over_noise_and_coefficients():
    """Likelihood times priors, summed over a fine grid of sigma and theta, for d* = 1, 2 and 3."""
    features, rewards = data(5, 6, 3, intrinsic=2, noise=1.0)
    ridge, sigmas = 0.9, np.exp(np.linspace(np.log(0.03), np.log(60.0), 80))
    evidences = []
    for m in (1, 2, 3):
        steps = np.linspace(-7, 7, 49)  # in units of sigma around the fit, where the mass is
        grid = np.stack(np.meshgrid(*[steps] * m, indexing="ij"), axis=-1).reshape(-1, m)
        cut = features[:, :m]
        centre = np.linalg.solve(ridge * np.eye(m) + cut.T @ cut, cut.T @ rewards)
        total = 0.0
        for sigma in sigmas:
            theta = centre + sigma * grid
            misfit = ((rewards - theta @ cut.T) ** 2).sum(axis=1) + ridge * (theta**2).sum(axis=1)
            logs = -0.5 * misfit / sigma**2 - 6 * np.log(sigma) + m / 2 * np.log(ridge / (2 * np.pi * sigma**2))
            cell = (sigma * (steps[1] - steps[0])) ** m
            total += np.exp(logs).sum() * cell  # sigmas are even in the logarithm: d(sigma) / sigma is constant
        evidences.append(total)
    expected = np.array(evidences) / sum(evidences)
    found = adadim.dimension(features, rewards, ridge=ridge, constant=False)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-5)


def test_a_case_by_hand():
    # Two choices, (1, 0) -> 1 and (0, 1) -> 2, ridge 1. V_1 = 2 and V_2 = 2 I, b = (1, 2), so that
    # S_1 = 5 - 1/2 = 9/2 and S_2 = 5 - 1/2 - 2 = 5/2, and det^(-1/2) S^(-1) is 1 / (sqrt(2) 4.5) and 1 / (2 2.5).
    found = adadim.dimension(np.eye(2), [1.0, 2.0], ridge=1.0, constant=False)
    first, second = 1 / (2**0.5 * 4.5), 1 / 5
    assert found.probabilities[0] == pytest.approx(first / (first + second), abs=1e-12)
    assert found.noise**2 == pytest.approx((first * 4.5 + second * 2.5) / (first + second) / 2, abs=1e-12)


def test_a_case_with_a_constant_by_hand():
    # Choices (1, 0) -> 6, (-1, 0) -> 4 and (0, 1) -> 8, ridge 1. Means 0, 1/3 and 6: what is left is (1, -1/3) -> 0,
    # (-1, -1/3) -> -2, (0, 2/3) -> 2. X^T X = diag(2, 2/3), b = (2, 2), sum r^2 = 8. V_1 = 3, S_1 = 8 - 4/3 = 20/3;
    # V_2 = diag(3, 5/3), S_2 = 20/3 - 12/5 = 64/15. det^(-1/2) S^(-1) is 3 / (20 sqrt(3)) and 15 / (64 sqrt(5)).
    found = adadim.dimension([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [6.0, 4.0, 8.0], ridge=1.0)
    first, second = 3 / (20 * 3**0.5), 15 / (64 * 5**0.5)
    assert found.probabilities[0] == pytest.approx(first / (first + second), abs=1e-12)
    expected = (first * 20 / 3 + second * 64 / 15) / (first + second) / 2
    assert found.noise**2 == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ridge", [None, 0.5])
def test_numbers_added_to_rewards_and_columns_change_nothing(ridge):
    features, rewards = data(12, 80, 6, intrinsic=3, noise=2.0)
    features[40:] = features[:40]  # chosen twice
    before = adadim.dimension(features, rewards, ridge=ridge)
    after = adadim.dimension(features + np.array([5, -300, 0, 1e5, 2, 1]), rewards + 1e6, ridge=ridge)
    np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-6)
    assert after.noise == pytest.approx(before.noise)
    assert 0.01 < before.probabilities.max() < 0.999  # a posterior that could change
    without = (adadim.dimension(features, rewards + c, ridge=ridge, constant=False) for c in (0, 10))
    assert abs(np.subtract(*(one.probabilities for one in without))).max() > 0.03


@pytest.mark.parametrize("ridge", [None, 0.5])
@pytest.mark.parametrize("value", [1.0, -1e6, 1e-7])
def test_a_constant_column_is_part_of_the_constant(ridge, value):
    features, rewards = data(13, 80, 5, intrinsic=2, noise=2.0)
    rewards += 3.0
    plain = adadim.dimension(features, rewards, ridge=ridge).probabilities
    found = adadim.dimension(
        np.column_stack([features[:, :1], np.full(80, value), features[:, 1:]]), rewards, ridge=ridge
    )
    expected = plain[[0, 0, 1, 2, 3, 4]] / (1 + plain[0])
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-9)


def test_rewards_that_are_all_alike_say_nothing():
    features, _ = data(14, 50, 4)
    for rewards in (np.full(50, 0.1), np.full(50, 1e8 / 3)):
        found = adadim.dimension(features, rewards)
        np.testing.assert_array_equal(found.probabilities, 0.25)
        assert found.noise == 0


HUGE = {"rewards": (1.0, 1e155), "features": (1e154, 1.0), "both": (1e300, 1e299), "tiny": (1e-300, 1e-310)}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("units", HUGE.values(), ids=HUGE.keys())
def test_no_unit_overflows(units, repeated, constant):
    features, rewards = data(7, 50, 6, noise=2.0)
    if repeated:
        features[25:] = features[:25]
    before = adadim.dimension(features, rewards, constant=constant)
    after = adadim.dimension(units[0] * features, units[1] * rewards, constant=constant)
    np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-9)
    assert after.noise == pytest.approx(units[1] * before.noise, rel=1e-9)
    assert after.order == before.order
    mixed = adadim.dimension(features * [1e154, 1, 1e-150, 1, 1e200, 1], rewards, constant=constant)
    np.testing.assert_allclose(mixed.probabilities, before.probabilities, atol=1e-9)


def test_a_ridge_beside_huge_features():
    features, rewards = data(7, 50, 6, noise=2.0)
    before = adadim.dimension(features, rewards, ridge=0.3)
    after = adadim.dimension(2.0**160 * features, rewards, ridge=0.3 * 2.0**320)
    np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-9)
    assert_refuses(
        ValueError,
        r"ridge=0.3 is lost beside a feature of size .*e\+154 \(column 0\)",
        adadim.dimension,
        1e154 * features,
        rewards,
        ridge=0.3,
    )
    assert_refuses(ValueError, r"rewards must be at most 1e\+300 in size", adadim.dimension, features, 1e305 * rewards)


@pytest.mark.parametrize("levels", [None, [2, 5, 12]])
def test_only_the_prefix_spaces_matter(levels):
    features, rewards = data(6, 120, 12, intrinsic=4, noise=2.0)
    rng = np.random.default_rng(60)
    before = adadim.dimension(features, rewards, levels=levels)
    scaled = features * 10.0 ** rng.uniform(-3, 6, size=12)
    mixed = scaled @ np.triu(rng.standard_normal((12, 12)), 1) * 1e-3 + scaled
    powers = features @ (np.triu(rng.integers(-3, 4, size=(12, 12)), 1) + np.eye(12))
    for other in (scaled, mixed, powers):
        after = adadim.dimension(other, rewards, levels=levels)
        np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-6)
        assert after.noise == pytest.approx(before.noise)
    assert 0.01 < before.probabilities.max() < 0.999  # a posterior that could change


def test_rewards_in_any_unit():
    features, rewards = data(7, 50, 6)
    before = adadim.dimension(features, rewards)
    for unit in (1e-100, 1e-3, 1e100):
        after = adadim.dimension(features, unit * rewards)
        np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-9)
        assert after.noise == pytest.approx(unit * before.noise)


def test_dependent_columns_add_nothing():
    features, rewards = data(8, 60, 5, intrinsic=4)
    a, b, c, d, e = features.T
    doubled = np.stack([a, np.zeros(60), b, a - 2 * b, c, d, e], axis=1)
    plain, found = adadim.dimension(features, rewards), adadim.dimension(doubled, rewards)
    evidence = plain.probabilities[[0, 0, 1, 1, 2, 3, 4]]
    np.testing.assert_allclose(found.probabilities, evidence / evidence.sum(), atol=1e-9)
    assert found.mode == 6


def test_raw_powers():
    rng = np.random.default_rng(9)
    x = rng.uniform(0, 30, size=400)
    rewards = 2 - 0.3 * x + rng.standard_normal(400)
    found = adadim.dimension(np.stack([x**j for j in range(9)], axis=1), rewards)
    assert found.mode == 2
    assert found.noise == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("ridge", [0.3, None])
@pytest.mark.parametrize("seed", range(5))
def test_cholesky_and_qr_agree(ridge, seed, monkeypatch):
    features, rewards = data(seed, 50, 7, noise=1.0)
    features[25:] = features[
        :25
    ]  # chosen twice each, so that the canonical features are not orthogonal over the choices
    features[30:] = features[3]
    by_cholesky = adadim.dimension(features, rewards, ridge=ridge)
    monkeypatch.setattr(prefixes, "SAFE", 2.0)  # no share is that large
    by_qr = adadim.dimension(features, rewards, ridge=ridge)
    np.testing.assert_allclose(by_cholesky.probabilities, by_qr.probabilities, atol=1e-11)
    assert by_cholesky.noise == pytest.approx(by_qr.noise, rel=1e-11)


def test_a_factor_that_cholesky_would_spoil_comes_from_qr():
    rng = np.random.default_rng(11)
    table = rng.standard_normal((40, 4))
    good = prefixes.triangle(table, np.full(3, 0.1))
    assert (np.diag(good) > 0).all()  # as Cholesky has it
    table[:, 2] = table[:, 1] + 1e-9 * table[:, 2]
    exact = prefixes.triangle(table, np.full(3, 1e-30))
    assert np.diag(exact)[0] < 0  # as Householder's reflections have it
    assert abs(exact[2, 2]) == pytest.approx(1e-9 * np.linalg.norm(_rest(table)), rel=1e-5)


def _rest(table):
    """What the third column had outside the first two before it was made small, by least squares."""
    original = (table[:, 2] - table[:, 1]) * 1e9
    return original - table[:, :2] @ np.linalg.lstsq(table[:, :2], original, rcond=None)[0]
