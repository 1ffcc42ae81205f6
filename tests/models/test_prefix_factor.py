"""Every prefix from one factor, against a Cholesky solve for each of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim.core.rows import Rows
from adadim.models.factor import ContextFactor, log_evidence, prefix_regressions, prior_precisions
from posterior_states import history, unit_rows
from refusals import assert_refuses


def separately(features, counts, sums, squares, precisions):
    """Means, squared widths, logdets and residuals of all prefixes, each by its own solve."""
    found = []
    for m in range(1, len(precisions) + 1):
        cut = features[:, :m]
        lower = np.linalg.cholesky(np.diag(precisions[:m]) + (cut.T * counts) @ cut)
        white, w = np.linalg.solve(lower, cut.T), np.linalg.solve(lower, cut.T @ sums)
        logdet = 2 * np.log(np.diag(lower)).sum() - np.log(precisions[:m]).sum()
        found.append((white.T @ w, (white**2).sum(axis=0), logdet, squares - w @ w))
    return [np.array(part) for part in zip(*found, strict=True)]


def assert_equals_separate(factor, features, counts, sums, tolerance):
    z = factor.whiten(features)
    means, widths2 = np.cumsum(z * factor.w[:, :, None], axis=1), np.cumsum(z * z, axis=1)
    for r in range(len(features)):
        ridge = np.full(factor.dim, factor.ridge)
        expected = separately(features[r], counts[r], sums[r], factor.squares[r], ridge)
        for got, wanted in zip((means, widths2, factor.logdets, factor.residuals), expected, strict=True):
            np.testing.assert_allclose(got[r], wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("arms", "dim", "ridge", "pulls"), [(50, 20, 0.1, 10_000), (30, 40, 1e-3, 5_000), (40, 100, 0.1, 2_000)]
)
def test_exact_after_ten_thousand_adaptive_pulls(arms, dim, ridge, pulls):
    rng = np.random.default_rng(arms)
    features, theta = unit_rows(rng, 2, arms, dim), rng.standard_normal((2, dim))
    factor, both = ContextFactor(features, dim, ridge), np.arange(2)
    counts, sums = np.zeros((2, arms)), np.zeros((2, arms))
    for _ in range(pulls):
        z = factor.whiten(features)
        chosen = (np.matvec(z.swapaxes(1, 2), factor.w) + np.sqrt((z**2).sum(axis=1))).argmax(axis=1)
        pulled = features[both, chosen]
        rewards = np.vecdot(pulled, theta) + 0.3 * rng.standard_normal(2)
        factor.absorb(pulled, rewards, factor.everyone)
        counts[both, chosen] += 1
        sums[both, chosen] += rewards
    assert (factor.pulls == pulls).all()
    assert (counts.max(axis=1) > pulls / 2).all()
    assert_equals_separate(factor, features, counts, sums, 1e-9)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 25), st.integers(0, 2**32))
def test_updates_equal_refactorisation(arms, dim, steps, seed):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((arms, dim)) * 10.0 ** rng.integers(-2, 3, size=dim)
    features /= np.linalg.norm(features, axis=-1).max()
    chosen, rewards = history(rng, steps, arms, run=2)
    ridge = 10.0 ** rng.integers(-2, 2)
    factor, again = (ContextFactor(np.zeros(1), dim, ridge) for _ in range(2))
    for x, reward in zip(chosen, rewards, strict=True):
        factor.absorb(features[x], reward, factor.everyone)
    pulled = features[chosen[:, 0]]
    sums = (pulled.T @ pulled)[None], (pulled.T @ rewards[:, 0])[None]
    again.rebuild(*sums, factor.squares, factor.pulls, again.everyone)
    for name in ("inverse", "w", "logdets", "residuals", "squares", "pulls"):
        got, expected = getattr(factor, name), getattr(again, name)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("some", [False, True])
def test_torch_equals_numpy(torch, some):
    rng = np.random.default_rng(7)
    features = unit_rows(rng, 3, 9, 5)
    near, far = ContextFactor(features, 5, 0.2), ContextFactor(torch.asarray(features), 5, 0.2)
    for x, reward in zip(*history(rng, 80, 9, 3), strict=True):
        ids = rng.permutation(3)[: rng.integers(1, 4)] if some else np.arange(3)
        rows = [Rows.some(ids, a) if some else Rows.all(a) for a in (near.reference, far.reference)]
        pulled = features[ids, x[ids]]
        near.absorb(pulled, reward[ids], rows[0])
        far.absorb(torch.asarray(pulled), torch.asarray(reward[ids]), rows[1])
    assert near.pulls.sum() == 240 or some
    again = ContextFactor(far.reference, 5, 0.2)
    second, moment = (torch.asarray(np.stack(part)) for part in zip(*map(far.moments, range(3)), strict=True))
    again.rebuild(second / far.weights**2, moment / far.weights, far.squares, far.pulls, again.everyone)
    for other in (far, again):
        for name in ("inverse", "w", "logdets", "residuals", "squares", "pulls"):
            assert isinstance(getattr(other, name), torch.Tensor)
            got, expected = getattr(other, name).numpy(), getattr(near, name)
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10, err_msg=name)


def test_evidence_is_that_of_the_formula_and_zeros_say_nothing():
    rng = np.random.default_rng(8)
    features, (arms, rewards) = unit_rows(rng, 1, 7, 3)[0], history(rng, 40, 7)
    x, r = features[arms[:, 0]], rewards[:, 0]
    _, _, logdets, residuals = prefix_regressions(x.T @ x, x.T @ r, r @ r, np.full(3, 0.3**-0.5))
    logs = log_evidence(logdets, residuals, 40, r @ r)
    assert (log_evidence(logdets, residuals * 0.0, 40, 0.0) == 0).all()
    for m in range(1, 4):
        covariance = np.eye(40) + x[:, :m] @ x[:, :m].T / 0.3  # of the rewards, over sigma^2
        quadratic = r @ np.linalg.solve(covariance, r)
        expected = -0.5 * np.linalg.slogdet(covariance)[1] - 20 * np.log(quadratic)
        assert logs[m - 1] == pytest.approx(expected, abs=1e-9)


def test_a_residual_of_rounding_counts_as_rounding():
    perfect = log_evidence(np.zeros(2), np.array([0.0, 1e-13]), 2, 1.0)
    assert perfect == pytest.approx(-np.log(1e-12))


def test_huge_features_round_the_prior_away():
    """Cholesky fails where the identity is lost next to the data; the factor is then still one of I + X^T X."""
    x = np.array([[1e9, 1e9], [1e9, 1e9 * (1 + 1e-16)]])
    factor, *known = prefix_regressions(x.T @ x, x.T @ np.ones(2), 2.0, np.ones(2))
    assert (np.diag(factor) >= 1).all()
    assert all(np.isfinite(part).all() for part in known)
    np.testing.assert_allclose(factor @ factor.T, x.T @ x, rtol=1e-9)


def test_priors_that_are_none():
    assert_refuses(ValueError, "ridge must be a positive finite number", ContextFactor, np.zeros(1), 2, 0.0)
    assert_refuses(ValueError, "taper must be a finite number of at least 0", prior_precisions, 1.0, -1, 2)
