"""Every prefix from one factor, against a Cholesky solve for each of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim import ActionSet
from adadim.core.rows import Rows
from adadim.models.factor import ArmFactor, ContextFactor, log_evidence, prior_precisions
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


def assert_equals_separate(arm, context, features, tolerance):
    precisions = prior_precisions(arm.ridge, arm.taper, arm.dim)
    means, widths2 = arm.means(), arm.widths2()
    other_means, other_widths2 = context.means(features), context.widths2(features)
    for r in range(len(features)):
        expected = separately(features[r], arm.counts[r], arm.sums[r], arm.squares[r], precisions)
        close = {"rtol": tolerance, "atol": tolerance}
        for got in (means[r], other_means[r]):
            np.testing.assert_allclose(got, expected[0], **close)
        for got in (widths2[r], other_widths2[r]):
            np.testing.assert_allclose(got, expected[1], **close)
        for state in (arm, context):
            np.testing.assert_allclose(state.logdets[r], expected[2], **close)
            np.testing.assert_allclose(state.residuals[r], expected[3], **close)


@pytest.mark.parametrize(("arms", "dim", "ridge", "taper"), [(50, 20, 0.1, 0.0), (30, 40, 1e-3, 1.5)])
def test_exact_after_ten_thousand_adaptive_pulls(arms, dim, ridge, taper):
    rng = np.random.default_rng(arms)
    features, theta = unit_rows(rng, 2, arms, dim), rng.standard_normal((2, dim))
    arm, context = ArmFactor(ActionSet(features), ridge, taper), ContextFactor(features, dim, ridge, taper)
    both = np.arange(2)
    for _ in range(10_000):
        scores = np.matvec(arm.z.swapaxes(1, 2), arm.w) + np.sqrt((arm.z**2).sum(axis=1))
        chosen = scores.argmax(axis=1)
        pulled = features[both, chosen]
        rewards = np.vecdot(pulled, theta) + 0.3 * rng.standard_normal(2)
        arm.absorb(chosen, rewards, arm.everyone)
        context.absorb(pulled, rewards, context.everyone)
    assert (arm.pulls == 10_000).all()
    assert (arm.counts.max(axis=1) > 5_000).all()
    assert_equals_separate(arm, context, features, 1e-9)


@given(
    st.integers(1, 6), st.integers(1, 5), st.integers(0, 25), st.sampled_from([0.0, 1.0, 1.75]), st.integers(0, 2**32)
)
def test_updates_equal_refactorisation(arms, dim, steps, taper, seed):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((1, arms, dim)) * 10.0 ** rng.integers(-2, 3, size=dim)
    chosen, rewards = history(rng, steps, arms, run=2)
    ridge = 10.0 ** rng.integers(-2, 2)
    actions = ActionSet(features / np.linalg.norm(features, axis=-1).max())
    state, context = ArmFactor(actions, ridge, taper), ContextFactor(actions.base, dim, ridge, taper)
    for x, reward in zip(chosen, rewards, strict=True):
        state.absorb(x, reward, state.everyone)
        context.absorb(actions.vectors(x), reward, context.everyone)
    again, from_moments = ArmFactor(actions, ridge, taper), ContextFactor(actions.base, dim, ridge, taper)
    again.rebuild(state.counts, state.sums, state.squares, again.everyone)
    pulled = actions.base[0][chosen[:, 0]]
    from_moments.rebuild(
        (pulled.T @ pulled)[None], (pulled.T @ rewards[:, 0])[None], state.squares, state.pulls, again.everyone
    )
    for name in ("z", "w", "logdets", "residuals", "squares", "pulls"):
        np.testing.assert_allclose(getattr(state, name), getattr(again, name), rtol=1e-9, atol=1e-9, err_msg=name)
    for name in ("inverse", "w", "logdets", "residuals", "squares", "pulls"):
        got, expected = getattr(context, name), getattr(from_moments, name)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9, err_msg=name)


def test_another_prior_after_a_rebuild():
    rng = np.random.default_rng(5)
    features = unit_rows(rng, 2, 8, 5)
    state, context = ArmFactor(ActionSet(features), 0.1), ContextFactor(features, 5, 0.1)
    for x, reward in zip(*history(rng, 60, 8, 2), strict=True):
        state.absorb(x, reward, state.everyone)
    state.set_prior(2.0, 1.0)
    state.rebuild(state.counts, state.sums, state.squares, state.everyone)
    gram = np.stack([(features[r].T * state.counts[r]) @ features[r] for r in range(2)])
    moments = np.stack([features[r].T @ state.sums[r] for r in range(2)])
    context.set_prior(2.0, 1.0)
    context.rebuild(gram, moments, state.squares, state.pulls, context.everyone)
    assert_equals_separate(state, context, features, 1e-10)
    for x, reward in zip(*history(rng, 20, 8, 2), strict=True):
        context.absorb(features[np.arange(2), x], reward, context.everyone)
        state.absorb(x, reward, state.everyone)
    assert_equals_separate(state, context, features, 1e-10)


def test_truncations_of_an_expressive_set_are_arms_like_others():
    rng = np.random.default_rng(6)
    closed = ActionSet(unit_rows(rng, 1, 6, 4), levels=[2, 4])
    written_out = ActionSet(closed.dense(0)[None])
    states = [ArmFactor(actions, 0.5) for actions in (closed, written_out)]
    for x, reward in zip(*history(rng, 30, 12), strict=True):
        for state in states:
            state.absorb(x, reward, state.everyone)
    np.testing.assert_array_equal(states[0].z, states[1].z)
    arms, state = closed.dense(0), states[0]
    context = ContextFactor(closed.base, 4, 0.5)
    gram, moments = (arms.T * state.counts[0]) @ arms, arms.T @ state.sums[0]
    context.rebuild(gram[None], moments[None], state.squares, state.pulls, context.everyone)
    assert_equals_separate(state, context, written_out.base, 1e-10)


@pytest.mark.parametrize("some", [False, True])
def test_torch_equals_numpy(torch, some):
    rng = np.random.default_rng(7)
    features = unit_rows(rng, 3, 9, 5)
    tensors = torch.asarray(features)
    here, there = ArmFactor(ActionSet(features), 0.2, 1.0), ArmFactor(ActionSet(tensors), 0.2, 1.0)
    near, far = ContextFactor(features, 5, 0.2, 1.0), ContextFactor(tensors, 5, 0.2, 1.0)
    for x, reward in zip(*history(rng, 80, 9, 3), strict=True):
        ids = rng.permutation(3)[: rng.integers(1, 4)] if some else np.arange(3)
        rows = [Rows.some(ids, a) if some else Rows.all(a) for a in (features, tensors)]
        pulled = features[ids, x[ids]]
        here.absorb(x[ids], reward[ids], rows[0])
        near.absorb(pulled, reward[ids], rows[0])
        there.absorb(torch.asarray(x[ids]), torch.asarray(reward[ids]), rows[1])
        far.absorb(torch.asarray(pulled), torch.asarray(reward[ids]), rows[1])
    pairs = [(here.means(), there.means()), (here.widths2(), there.widths2())]
    pairs += [(near.means(features), far.means(tensors)), (near.widths2(features), far.widths2(tensors))]
    for one, other in ((here, there), (near, far)):
        pairs += [(one.evidences(), other.evidences()), (one.noises(), other.noises())]
        pairs += [(getattr(one, name), getattr(other, name)) for name in ("logdets", "residuals", "squares", "pulls")]
    there.rebuild(there.counts, there.sums, there.squares, there.everyone)
    pairs.append((here.z, there.z))
    assert here.pulls.sum() == (240 if not some else here.counts.sum()) > 0
    for numpys, torchs in pairs:
        assert isinstance(torchs, torch.Tensor)
        np.testing.assert_allclose(numpys, torchs.numpy(), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("tolerance", [0.0, 0.03])
def test_predictions_averaged_over_the_prefixes(tolerance, torch):
    rng = np.random.default_rng(9)
    features = unit_rows(rng, 2, 9, 6)
    state, there = ArmFactor(ActionSet(features), 0.2), ArmFactor(ActionSet(torch.asarray(features)), 0.2)
    for x, reward in zip(*history(rng, 40, 9, 2), strict=True):
        state.absorb(x, reward, state.everyone)
        there.absorb(torch.asarray(x), torch.asarray(reward), there.everyone)
    probabilities = np.array([[0.5, 0.3, 0.18, 0.01, 0.01, 0.0], [0.2, 0.2, 0.2, 0.38, 0.02, 0.0]])
    lumped = probabilities.copy()
    if tolerance:  # the tail of the second falls below 0.03 after feature 4, that of the first after feature 3
        lumped[:, 3], lumped[:, 4:] = probabilities[:, 3:].sum(axis=1), 0.0
    weights, means = lumped[:, :, None], state.means()
    mean = (weights * means).sum(axis=1)
    expected = mean, (weights * state.widths2()).sum(axis=1), (weights * (means - mean[:, None]) ** 2).sum(axis=1)
    for got in (state.averaged(probabilities, tolerance), there.averaged(torch.asarray(probabilities), tolerance)):
        for part, wanted in zip(got, expected, strict=True):
            np.testing.assert_allclose(np.asarray(part), wanted, rtol=1e-10, atol=1e-12)
    state.z[:, 4 if tolerance else 5 :] = np.nan  # later features are not looked at
    assert np.isfinite(state.averaged(probabilities, tolerance)[0]).all()


def test_evidence_is_that_of_the_formula_and_zeros_say_nothing():
    rng = np.random.default_rng(8)
    features = unit_rows(rng, 2, 7, 3)
    state = ArmFactor(ActionSet(features), 0.3)
    assert (state.evidences() == 0).all()
    assert np.isnan(state.noises()).all()
    arms, rewards = history(rng, 40, 7, 2)
    rewards[:, 1] = 0.0
    for x, reward in zip(arms, rewards, strict=True):
        state.absorb(x, reward, state.everyone)
    logs = state.evidences()
    assert (logs[1] == 0).all()
    for m in range(1, 4):
        design = features[0, arms[:, 0], :m]
        covariance = np.eye(40) + design @ design.T / 0.3  # of the rewards, over sigma^2
        quadratic = rewards[:, 0] @ np.linalg.solve(covariance, rewards[:, 0])
        expected = -0.5 * np.linalg.slogdet(covariance)[1] - 20 * np.log(quadratic)
        assert logs[0, m - 1] == pytest.approx(expected, abs=1e-9)


def test_a_residual_of_rounding_counts_as_rounding():
    perfect = log_evidence(np.zeros(2), np.array([0.0, 1e-13]), np.array(2), np.array(1.0))
    assert perfect == pytest.approx(-np.log(1e-12))


def test_priors_that_are_none():
    assert_refuses(ValueError, "ridge must be a positive finite number", ArmFactor, ActionSet(np.eye(2)), 0.0)
    assert_refuses(ValueError, "taper must be a finite number of at least 0", ArmFactor, ActionSet(np.eye(2)), 1.0, -1)
