"""Regressions on groups of columns, against a coordinate descent and systems solved one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from adadim.models.groups import GroupLasso, ridge_predictions


def descent(x, y, groups, penalty, sweeps=400):
    """Group Lasso on copies of the columns: the exact minimum in one group after another."""
    design = np.concatenate([x[:, list(group)] for group in groups], axis=1)
    at = np.split(np.arange(design.shape[1]), np.cumsum([len(group) for group in groups])[:-1])
    v = np.zeros(design.shape[1])
    for _ in range(sweeps):
        for columns in at:
            own = design[:, columns]
            c = own.T @ (y - design @ v + own @ v[columns]) / len(y)
            v[columns] = 0
            if np.linalg.norm(c) > penalty:
                values, basis = np.linalg.eigh(own.T @ own / len(y))
                turned = basis.T @ c

                def excess(length, turned=turned, values=values):
                    return np.linalg.norm(turned * length / (values * length + penalty)) - length

                top = 1.0
                while excess(top) > 0:
                    top *= 2
                length = brentq(excess, 1e-12, top, xtol=1e-14)
                v[columns] = basis @ (turned * length / (values * length + penalty))
    return v, [float(np.linalg.norm(v[columns])) for columns in at]


def test_four_columns_in_two_groups():
    x = np.array([[1, 0, 1, 1], [0, 1, 1, -1], [1, 1, 0, 0.5], [1, -1, 0.5, 0]])
    y, lasso = np.array([1, 0.4, 1.3, 0.2]), GroupLasso(((0, 1), (2, 3)), 4)
    found = lasso.fit(x.T @ x / 4, x.T @ y / 4, 0.05, np.zeros((1, 4)))
    np.testing.assert_allclose(found, [[0.68204475, 0.47220388, 0.06601976, 0.12693322]], rtol=1e-6)
    np.testing.assert_allclose(lasso.norms(found), [0.82955503, 0.14307568], rtol=1e-6)
    np.testing.assert_allclose(lasso.coefficients(found), found)


@pytest.mark.parametrize("groups", [((0, 1), (2,), (3, 4)), ((0,), (0, 1), (0, 1, 2, 3, 4)), ((4, 1), (1, 2), (0, 3))])
@pytest.mark.parametrize("penalty", [0.3, 0.03])
def test_it_finds_what_a_descent_finds(groups, penalty):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 5))
    y, lasso = x @ [1.0, 0.5, 0, 0, -0.4] + 0.1 * rng.standard_normal(40), GroupLasso(groups, 5)
    start = rng.standard_normal((1, len(lasso.columns)))
    found = lasso.fit(x.T @ x / 40, x.T @ y / 40, penalty, start)
    expected, norms = descent(x, y, groups, penalty)
    theta = np.zeros(5)
    np.add.at(theta, lasso.columns, expected)
    np.testing.assert_allclose(lasso.coefficients(found)[0], theta, atol=1e-6)
    assert lasso.kept(found).tolist() == [norm > 0 for norm in norms]


def test_parameters_of_several_arms_are_one_group():
    """Two blocks are a block diagonal design, whose groups have the columns of both."""
    rng = np.random.default_rng(4)
    x, theta = rng.standard_normal((2, 30, 2)), np.array([[1.0, 0.0], [-0.5, 0.1]])
    y = np.einsum("bnd,bd->bn", x, theta) + 0.1 * rng.standard_normal((2, 30))
    second, moment = np.swapaxes(x, 1, 2) @ x / 60, np.einsum("bnd,bn->bd", x, y) / 60
    found = GroupLasso(((0,), (1,)), 2).fit(second, moment, 0.05, np.zeros((2, 2)))
    design = np.zeros((60, 4))
    design[:30, :2], design[30:, 2:] = x
    expected, norms = descent(design, y.ravel(), ((0, 2), (1, 3)), 0.05)
    np.testing.assert_allclose(found, expected.reshape(2, 2).T, atol=1e-6)
    np.testing.assert_allclose(GroupLasso(((0,), (1,)), 2).norms(found), norms, atol=1e-6)


def test_no_data_and_a_large_penalty():
    lasso = GroupLasso(((0,), (1,)), 2)
    assert lasso.fit(np.zeros((1, 2, 2)), np.zeros((1, 2)), 0.1, np.ones((1, 2))).tolist() == [[0, 0]]
    found = lasso.fit(np.eye(2), np.array([0.5, 0.2]), 0.3, np.ones((1, 2)))
    np.testing.assert_allclose(found, [[0.2, 0]], atol=1e-9)
    assert lasso.kept(found).tolist() == [True, False]


def test_ridge_regressions_on_groups():
    rng = np.random.default_rng(5)
    x, y, arms = rng.standard_normal((2, 20, 4)), rng.standard_normal((2, 20)), rng.standard_normal((2, 6, 4))
    second, moment = np.swapaxes(x, 1, 2) @ x, np.einsum("bnd,bn->bd", x, y)
    for group in ((0, 1, 2, 3), (2,), (3, 1)):
        at = list(group)
        mean, width2 = ridge_predictions(second, moment, 0.7, arms, group)
        for b in range(2):
            v = 0.7 * np.eye(len(at)) + x[b][:, at].T @ x[b][:, at]
            theta = np.linalg.solve(v, x[b][:, at].T @ y[b])
            np.testing.assert_allclose(mean[b], arms[b][:, at] @ theta, rtol=1e-9)
            expected = [a @ np.linalg.solve(v, a) for a in arms[b][:, at]]
            np.testing.assert_allclose(width2[b], expected, rtol=1e-9)
