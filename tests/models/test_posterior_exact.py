"""The ridge posterior in all forms against fresh solves, the specification's oracles, and its invariants."""

import numpy as np
import pytest

from posterior_states import assert_exact, assert_same, both_forms, feed, history, make, pull, unit_rows
from reference.ridge import Ridge

ARMS = np.array([[1.0, 0.0], [0.0, 0.9], [0.6, 0.7]])


# Against fresh solves


@both_forms
@pytest.mark.parametrize(("arms", "dim", "run"), [(300, 150, 1), (60, 150, 3), (400, 20, 2)])
def test_exact_after_2500_steps(form, arms, dim, run):
    rng = np.random.default_rng(arms)
    features = unit_rows(rng, 2, arms, dim)
    state = feed(make(features, 0.1, form), *history(rng, 2500, arms, 2, run))
    assert (state.counts.sum(axis=1) == 2500).all()
    assert_exact(state, features, 0.1)


@both_forms
def test_exact_at_the_size_of_the_paper(form):
    rng = np.random.default_rng(1)
    features = unit_rows(rng, 1, 1200, 600)
    state = feed(make(features, 0.1, form), *history(rng, 2500, 1200))
    assert_exact(state, features, 0.1)


@pytest.mark.parametrize(("form", "updates"), [("gram", 300_000), ("feature", 100_000)])
def test_exact_after_many_updates(form, updates):
    """What drifts is looked for by what both forms share; the feature form's own state is tested over fewer."""
    rng = np.random.default_rng(2)
    features = unit_rows(rng, 1, 6, 3)
    arms, rewards = history(rng, updates, 6, run=2)
    state = feed(make(features, 0.1, form), arms, rewards)
    np.testing.assert_array_equal(state.counts[0], np.bincount(arms[:, 0], minlength=6))
    np.testing.assert_allclose(state.sums[0], np.bincount(arms[:, 0], rewards[:, 0], minlength=6), atol=1e-8)
    assert_exact(state, features, 0.1)


@both_forms
def test_every_step_equals_the_textbook(form):
    """C13 and the update itself, one step at a time, with ridge other than 1 and runs of one arm."""
    rng = np.random.default_rng(3)
    features = unit_rows(rng, 9, 4)
    arms, rewards = history(rng, 120, 9, run=2)
    state, textbook = make(features, 0.3, form), Ridge(4, 0.3)
    for chosen, gained in zip(arms, rewards, strict=True):
        pull(state, chosen[0], gained[0])
        textbook.add(features[chosen[0]], gained[0])
        mean, width2 = textbook.predict(features)
        np.testing.assert_allclose(state.mean[0], mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.width2[0], width2, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.logdet[0], textbook.logdet, rtol=0, atol=1e-11)


# Oracles of the specification


@both_forms
@pytest.mark.parametrize(
    ("ridge", "arms", "theta", "logdet"),
    [
        (1.0, [0, 2, 0, 0, 2, 0], [0.4225988701, 0.1318267420], 2.3627390158),
        (0.1, [0, 1, 0, 2, 0, 0], [0.4898477157, 0.1887599710], 6.4081333257),
    ],
    ids=["C8", "C10"],
)
def test_theta_hat_and_logdet(form, ridge, arms, theta, logdet):
    state = make(ARMS, ridge, form)
    for arm in arms:
        pull(state, arm, [0.5, 0.18, 0.44][arm])
    np.testing.assert_allclose(state.mean[0], ARMS @ theta, atol=1e-9)
    # Arms 0 and 1 are multiples of the basis, so their means are theta_hat itself.
    np.testing.assert_allclose(state.mean[0, :2] / [1.0, 0.9], theta, atol=1e-9)
    np.testing.assert_allclose(state.logdet, logdet, atol=1e-9)


@both_forms
def test_inverse_of_c8(form):
    """V^-1 after the six pulls of C8, read off the widths: diagonal from arms 0 and 1, the rest from arm 2."""
    state = make(ARMS, 1.0, form)
    for arm in (0, 2, 0, 0, 2, 0):
        pull(state, arm, 0.0)
    inverse = np.array([[0.1864406780, -0.0790960452], [-0.0790960452, 0.5386064030]])
    np.testing.assert_allclose(state.width2[0], np.einsum("kd,de,ke->k", ARMS, inverse, ARMS), atol=1e-9)
    cross = (state.width2[0, 2] - 0.36 * state.width2[0, 0] - 0.49 / 0.81 * state.width2[0, 1]) / (2 * 0.6 * 0.7)
    np.testing.assert_allclose(cross, inverse[0, 1], atol=1e-9)


@both_forms
@pytest.mark.parametrize("pulls", [1, 2, 31, 32, 33, 500])
def test_repeated_pulls_of_one_unit_arm(form, pulls):
    """C13."""
    rewards = np.random.default_rng(4).standard_normal((pulls, 1))
    state = feed(make(np.eye(3)[:2], 1.0, form), np.zeros((pulls, 1), dtype=int), rewards)
    np.testing.assert_allclose(state.width2[0, 0], 1 / (1 + pulls), rtol=1e-12)
    np.testing.assert_allclose(state.mean[0, 0], rewards.sum() / (1 + pulls), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(state.logdet[0], np.log(1 + pulls), rtol=1e-12)
    np.testing.assert_array_equal(state.counts[0], [pulls, 0])


# Invariants (section 1.7)


@both_forms
def test_logdet_is_the_sum_over_the_widths_pulled(form):
    rng = np.random.default_rng(5)
    features = unit_rows(rng, 2, 12, 5)
    state, total = make(features, 0.1, form), np.zeros(2)
    for arms, rewards in zip(*history(rng, 200, 12, 2, run=2), strict=True):
        total += np.log1p(state.width2[[0, 1], arms])
        state.absorb(arms, rewards, state.everyone)
    np.testing.assert_allclose(state.logdet, total, rtol=1e-12)
    for r in range(2):
        v = np.eye(5) + (features[r].T * state.counts[r]) @ features[r] / 0.1
        np.testing.assert_allclose(state.logdet[r], np.linalg.slogdet(v)[1], rtol=1e-12)


@both_forms
def test_order_of_the_pulls_is_immaterial(form):
    rng = np.random.default_rng(6)
    features = unit_rows(rng, 10, 4)
    arms, rewards = history(rng, 150, 10, run=2)
    state = feed(make(features, 0.1, form), arms, rewards)
    shuffled = rng.permutation(150)
    assert_same(feed(make(features, 0.1, form), arms[shuffled], rewards[shuffled]), state)


@both_forms
def test_orthonormal_arms_are_unrelated(form):
    rng = np.random.default_rng(7)
    arms, rewards = history(rng, 200, 5, run=2)
    state = feed(make(np.linalg.qr(rng.standard_normal((5, 5)))[0], 0.3, form), arms, rewards)
    counts = np.bincount(arms[:, 0], minlength=5)
    sums = np.bincount(arms[:, 0], rewards[:, 0], minlength=5)
    np.testing.assert_allclose(state.mean[0], sums / (0.3 + counts), atol=1e-12)
    np.testing.assert_allclose(state.width2[0], 1 / (0.3 + counts), atol=1e-12)


@both_forms
def test_zero_and_orthogonal_arms_learn_nothing(form):
    features = np.array([[0.0, 0.0, 0.0], [0.6, 0.0, 0.8], [0.8, 0.0, 0.6], [0.0, 0.5, 0.0]])
    rng = np.random.default_rng(8)
    arms = 1 + rng.integers(2, size=(100, 1))
    arms[::10] = 0
    state = feed(make(features, 0.1, form), arms, rng.standard_normal((100, 1)))
    assert state.mean[0, 0] == state.width2[0, 0] == 0
    assert state.mean[0, 3] == 0
    np.testing.assert_allclose(state.width2[0, 3], 0.25 / 0.1, rtol=1e-12)
    assert (state.width2[0, 1:3] < 0.1).all()


COLLINEAR = np.random.default_rng(23).random((200, 1))


def test_widths_that_rounding_would_make_negative(torch):
    """Collinear arms and hardly any ridge: w - g^2 / (1 + g_x) cancels to the last bit, and below 0 unless clipped."""
    state = make(torch.asarray(COLLINEAR), 1e-15, "feature")
    for arm in range(40):
        state.absorb(torch.asarray([arm]), torch.asarray([0.1]), state.everyone)
        assert (state.width2 >= 0).all()
    assert (state.width2 == 0).any()  # the arms are not zero: without the clip these would be below


@both_forms
def test_collinear_arms_and_hardly_any_ridge(form):
    """The same on NumPy, which factors anew before anything is lost."""
    state = make(COLLINEAR, 1e-15, form)
    for arm in range(40):
        pull(state, arm, 0.1)
        width2 = COLLINEAR[:, 0] ** 2 / (1e-15 + (COLLINEAR[: arm + 1] ** 2).sum())
        np.testing.assert_allclose(state.width2[0], width2, rtol=1e-9)
