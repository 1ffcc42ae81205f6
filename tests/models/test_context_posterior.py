"""The regression where features come with each round: exact, in any order of replications."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim.core.rows import Replications
from adadim.models.context import FACTOR_FROM, REFRESH, ContextPosterior


def test_a_pull_by_hand():
    state = ContextPosterior(1, 2, ridge=0.5)
    rows = Replications.all(state.theta)
    state.absorb(np.array([[1.0, 1.0]]), np.array([2.0]), rows)
    v = np.array([[1.5, 1.0], [1.0, 1.5]])
    np.testing.assert_allclose(state.inverse[0], np.linalg.inv(v), atol=1e-14)
    np.testing.assert_allclose(state.theta[0], np.linalg.solve(v, [2.0, 2.0]), atol=1e-14)
    assert state.logdet[0] == pytest.approx(np.log(np.linalg.det(v / 0.5)))


@pytest.mark.filterwarnings("ignore::adadim.PrecisionWarning")
def test_the_mean_of_what_was_pulled_is_right_where_rounding_loses_the_ridge():
    state = ContextPosterior(1, 3, ridge=1e-3)
    rows, x = Replications.all(state.theta), np.array([[1e9, 1e9, -2e9]])
    for reward in (1.0, 2.0, 6.0):
        state.absorb(x, np.array([reward]), rows)
    state.refresh(0, 1e-3)
    mean, width2 = state.predict(x[None], rows)
    assert mean[0, 0] == pytest.approx(3.0, rel=1e-9)
    assert 0 <= width2[0, 0] < 1
    assert np.linalg.eigvalsh(state.inverse[0]).min() > 0


def test_a_replication_that_forgets_is_as_at_the_start():
    state, rng = ContextPosterior(2, 3, ridge=0.3), np.random.default_rng(0)
    for _ in range(70):
        state.absorb(rng.standard_normal((2, 3)), rng.standard_normal(2), Replications.all(state.theta))
    kept = state.inverse[1].copy()
    state.forget(0)
    np.testing.assert_allclose(state.inverse[0], np.eye(3) / 0.3, rtol=1e-14)
    assert not state.theta[0].any()
    assert (state.pulls[0], state.logdet[0], state.residual(0)) == (0, pytest.approx(0.0, abs=1e-14), 0.0)
    np.testing.assert_array_equal(state.inverse[1], kept)


@given(st.integers(0, 10_000), st.integers(1, 6), st.floats(0.01, 10.0))
def test_it_is_the_ridge_regression(seed, dim, ridge):
    rng = np.random.default_rng(seed)
    x, rewards = rng.standard_normal((40, 2, dim)), rng.standard_normal((40, 2))
    state = ContextPosterior(2, dim, ridge)
    for t in range(40):
        rows = Replications.some(rng.permutation(2)[: rng.integers(1, 3)], state.theta)
        state.absorb(x[t, rows.ids], rewards[t, rows.ids], rows)
        x[t, [r for r in range(2) if r not in rows.ids]] = 0.0
    offered = rng.standard_normal((2, 5, dim))
    mean, width2 = state.predict(offered, Replications.all(state.theta))
    for r in range(2):
        v = ridge * np.eye(dim) + x[:, r].T @ x[:, r]
        theta = np.linalg.solve(v, x[:, r].T @ rewards[:, r])
        np.testing.assert_allclose(mean[r], offered[r] @ theta, atol=1e-9)
        np.testing.assert_allclose(width2[r], np.vecdot(offered[r] @ np.linalg.inv(v), offered[r]), atol=1e-9)


def test_exact_after_a_hundred_thousand_rounds():
    rng = np.random.default_rng(0)
    state = ContextPosterior(1, 8, ridge=0.1)
    rows = Replications.all(state.theta)
    second, b = 0.1 * np.eye(8), np.zeros(8)
    for _ in range(100_000):
        x, reward = rng.standard_normal(8) * 10.0 ** -np.arange(8).clip(0, 3), float(rng.standard_normal())
        state.absorb(x[None], np.array([reward]), rows)
        second += np.outer(x, x)
        b += reward * x
    offered = rng.standard_normal((1, 5, 8))
    mean, width2 = state.predict(offered, rows)
    np.testing.assert_allclose(mean[0], offered[0] @ np.linalg.solve(second, b), rtol=1e-9)
    expected = np.vecdot(offered[0], np.linalg.solve(second, offered[0].T).T)
    np.testing.assert_allclose(width2[0], expected, rtol=1e-9)
    assert state.pulls[0] % REFRESH > 100  # many pulls after V^-1 was last made anew


def test_widths_of_many_arms_by_a_factor():
    rng, dim = np.random.default_rng(1), FACTOR_FROM
    x, state = rng.standard_normal((30, dim)) / 9, ContextPosterior(1, dim, ridge=0.2)
    rows = Replications.all(state.theta)
    for vector in x:
        state.absorb(vector[None], np.array([0.5]), rows)
    offered = rng.standard_normal((1, dim + 10, dim)) / 9
    expected = np.vecdot(offered[0] @ np.linalg.inv(0.2 * np.eye(dim) + x.T @ x), offered[0])
    for arms in (dim + 10, dim - 1):  # by the factor, and without
        np.testing.assert_allclose(state.predict(offered[:, :arms], rows)[1][0], expected[:arms], rtol=1e-10)


def test_one_vector_in_several_regressions():
    rng, state = np.random.default_rng(2), ContextPosterior(6, 4, ridge=0.3)
    for _ in range(30):
        rows = Replications.some(rng.permutation(6)[:2], state.theta)
        state.absorb(rng.standard_normal((2, 4)), rng.standard_normal(2), rows)
    contexts = rng.standard_normal((2, 4))
    for rows in (Replications.all(contexts), Replications.some(np.array([1]), contexts)):
        mean, width2 = state.predict_each(rows.of(contexts), rows, 3)  # regressions 0 to 2, and 3 to 5
        for i, (r, x) in enumerate(zip(rows.ids, rows.of(contexts), strict=True)):
            own = range(3 * r, 3 * r + 3)
            np.testing.assert_allclose(mean[i], [x @ state.theta[b] for b in own], rtol=1e-12)
            np.testing.assert_allclose(width2[i], [x @ state.inverse[b] @ x for b in own], rtol=1e-12)
