"""Posteriors for tests: how to make and feed them, and what they must equal."""

import numpy as np
import pytest

from adadim import ActionSet, models
from adadim.core.rows import Replications

FORMS = ("gram", "feature")
both_forms = pytest.mark.parametrize("form", FORMS)


def make(features, ridge=0.1, form="gram", levels=None):
    return models.posterior(ActionSet(features, levels=levels), ridge, form)


def unit_rows(rng, *shape):
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def solved(features, counts, sums, ridge):
    """Means, squared widths and logdet from one dense solve, nothing shared with the code under test."""
    dim = features.shape[1]
    v = ridge * np.eye(dim) + (features.T * counts) @ features
    factor = np.linalg.cholesky(v)
    white = np.linalg.solve(factor, features.T)
    mean = features @ np.linalg.solve(v, features.T @ sums)
    return mean, (white**2).sum(axis=0), 2 * np.log(np.diag(factor)).sum() - dim * np.log(ridge)


def assert_exact(state, features, ridge, tolerance=1e-8):
    """The state of every replication equals a fresh solve from the pulls it has counted."""
    np.testing.assert_array_equal(state.pulls, state.counts.sum(axis=1))
    for r in range(state.actions.replications):
        mean, width2, logdet = solved(features[r], state.counts[r], state.sums[r], ridge)
        np.testing.assert_allclose(state.mean[r], mean, rtol=0, atol=tolerance)
        np.testing.assert_allclose(state.width2[r], width2, rtol=0, atol=tolerance)
        np.testing.assert_allclose(state.logdet[r], logdet, rtol=0, atol=tolerance)


def assert_same(one, other, tolerance=1e-10):
    for name in ("mean", "width2", "logdet", "sums"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=tolerance, err_msg=name)
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_array_equal(one.pulls, other.pulls)


def feed(state, arms, rewards):
    """Pulls of all replications: arms and rewards (n, R)."""
    for chosen, gained in zip(arms, rewards, strict=True):
        state.absorb(chosen, gained, state.everyone)
    return state


def history(rng, steps, arms, replications=1, run=1):
    """Random arms and rewards; each arm is pulled `run` times in a row on average."""
    chosen = rng.integers(arms, size=(steps, replications))
    again = rng.random((steps, replications)) < 1 - 1 / run
    began = np.where(again, 0, np.arange(steps)[:, None])  # the round in which the arm of each round was drawn
    chosen = np.take_along_axis(chosen, np.maximum.accumulate(began), axis=0)
    return chosen, rng.standard_normal((steps, replications))


STATE = ("mean", "width2", "counts", "sums", "pulls", "logdet")


def pull(state, arm, reward):
    """One pull in the only replication."""
    state.absorb(np.array([arm]), np.array([reward]), state.everyone)


def rows_of(state, *ids):
    """Some replications of a posterior."""
    return Replications.some(np.array(ids, dtype=np.int64), state.actions.base)
