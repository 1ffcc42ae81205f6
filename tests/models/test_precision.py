"""Means and widths of awkward features against arithmetic of 60 digits."""

import mpmath
import numpy as np
import pytest

import adadim
from adadim.core.actions import ActionSet
from adadim.core.rows import Rows
from adadim.models.context import ContextPosterior
from adadim.models.fixed import check_precision
from posterior_states import host_forms, make, pull

pytestmark = pytest.mark.filterwarnings("ignore::adadim.NormWarning")

PULLS = 400


def powers(largest, count):
    return np.linspace(0, largest, 25)[:, None] ** np.arange(count)


def nearly_dependent(rng):
    features = rng.standard_normal((30, 5))
    features[:, 4] = features[:, 3] + 1e-9 * rng.standard_normal(30)
    return features


def cases():
    rng = np.random.default_rng(0)
    units = 10.0 ** rng.uniform(-6, 6, 5)
    return {
        "cubes of 30": (powers(30, 4), 0.1),
        "six powers of 100": (powers(100, 6), 0.1),
        "eight powers of 10": (powers(10, 8), 0.1),
        "eight powers of 10, small ridge": (powers(10, 8), 1e-4),
        "units from 1e-6 to 1e6": (rng.standard_normal((30, 5)) * units, 0.1),
        "nearly dependent": (nearly_dependent(rng), 1e-8),
        "small ridge": (rng.standard_normal((30, 5)), 1e-8),
        "large ridge": (rng.standard_normal((30, 5)), 1e8),
        "tiny features": (1e-6 * rng.standard_normal((30, 5)), 1e-8),
    }


CASES = cases()


def in_many_digits(features, counts, sums, ridge):
    """Mean and squared width of every arm, and ln det(V / ridge)."""
    with mpmath.workdps(60):
        arms = mpmath.matrix(features.tolist())
        v = ridge * mpmath.eye(features.shape[1])
        b = mpmath.matrix(features.shape[1], 1)
        for k in np.flatnonzero(counts).tolist():
            v += int(counts[k]) * arms[k, :].T * arms[k, :]
            b += mpmath.mpf(float(sums[k])) * arms[k, :].T
        inverse = v**-1
        mean = [float(m) for m in arms * (inverse * b)]
        width2 = [float((arms[k, :] * inverse * arms[k, :].T)[0]) for k in range(len(features))]
        return np.array(mean), np.array(width2), float(mpmath.log(mpmath.det(v / ridge)))


@host_forms
@pytest.mark.parametrize("name", CASES)
def test_exact_at_any_time(form, name):
    features, ridge = CASES[name]
    check_precision(ActionSet(features), ridge, PULLS)
    rng = np.random.default_rng(1)
    state = make(features, ridge, form)
    for t in range(1, PULLS + 1):
        arm = rng.integers(len(features)) if t % 3 else np.argmax(state.width2[0])
        pull(state, int(arm), rng.standard_normal())
        if t in (1, 2, 5, 20, 100, PULLS):
            mean, width2, logdet = in_many_digits(features, state.counts[0], state.sums[0], ridge)
            np.testing.assert_allclose(state.width2[0], width2, rtol=1e-8)
            scale = np.sqrt(width2.max() * (state.squares[0] + 1))  # |mean| <= width |r|
            np.testing.assert_allclose(state.mean[0], mean, rtol=0, atol=1e-8 * np.abs(mean).max() + 1e-10 * scale)
            np.testing.assert_allclose(state.logdet[0], logdet, rtol=1e-8)


def test_directions_never_seen_do_not_blur_the_others():
    """V^-1 stays large where two columns hardly differ; its updates used to blur all widths, by 3e-8 here."""
    rng = np.random.default_rng(3)
    features = rng.standard_normal((6, 3))
    features[:, 2] = features[:, 0] + 1e-9 * features[:, 2]
    state = make(features, 0.1, "feature")
    arms, rewards = rng.integers(6, size=60_000).tolist(), rng.standard_normal(60_000).tolist()
    for arm, reward in zip(arms, rewards, strict=True):
        pull(state, arm, reward)
    _, width2, _ = in_many_digits(features, state.counts[0], state.sums[0], 0.1)
    np.testing.assert_allclose(state.width2[0], width2, rtol=1e-8)


CONTEXTS = {name: CASES[name] for name in ("small ridge", "large ridge", "tiny features", "units from 1e-6 to 1e6")}


@pytest.mark.parametrize("name", CONTEXTS)
def test_features_of_rounds_are_as_exact(name):
    """The first pulls take away nearly all of a width; their difference was rounding."""
    features, ridge = CONTEXTS[name]
    rng, state = np.random.default_rng(1), ContextPosterior(1, features.shape[1], ridge)
    counts, sums = np.zeros(len(features)), np.zeros(len(features))
    for t in range(1, PULLS + 1):
        arm, reward = int(rng.integers(len(features))), rng.standard_normal()
        state.absorb(features[[arm]], np.array([reward]), Rows.all(state.theta))
        counts[arm], sums[arm] = counts[arm] + 1, sums[arm] + reward
        if t in (1, 2, 5, 20, PULLS):
            mean, width2, logdet = in_many_digits(features, counts, sums, ridge)
            found_mean, found_width2 = state.predict(features[None], Rows.all(state.theta))
            exact_to = max(
                1e-8, state.dim * np.finfo(float).eps * state.variance_inflation(0).max()
            )  # 3e-6 at most here
            np.testing.assert_allclose(found_width2[0], width2, rtol=exact_to)
            scale = np.sqrt(width2.max() * (state.squares[0] + 1))
            np.testing.assert_allclose(found_mean[0], mean, rtol=0, atol=exact_to * (np.abs(mean).max() + 0.01 * scale))
            np.testing.assert_allclose(state.logdet[0], logdet, rtol=1e-8)


@pytest.mark.parametrize(
    ("largest", "count", "ridge"),
    [(3, 6, 1e-6), (10, 4, 1e-6), (10, 6, 0.01), (30, 5, 0.01), (30, 6, 1.0), (100, 6, 1e4)],
)
def test_rounds_of_powers_are_as_exact_as_is_said(largest, count, ridge):
    """What an update loses of a width grows with the inflation of the variance, too; widths were off by up to 4e-7."""
    features, rng = powers(largest, count), np.random.default_rng(1)
    state, counts = ContextPosterior(1, count, ridge), np.zeros(25)
    for t in range(1, 31):
        arm = int(min(rng.integers(25, size=3)))  # most often a small one
        rng.standard_normal()
        state.pull(0, features[arm], 0.0)
        counts[arm] += 1
        if t % 5 == 0:
            _, width2, _ = in_many_digits(features, counts, np.zeros(25), ridge)
            said = max(1e-8, 8 * count * np.finfo(float).eps * state.variance_inflation(0).max())
            _, computed = state.predict(features[None], Rows.all(state.theta))
            np.testing.assert_allclose(computed[0], width2, rtol=said)


@pytest.mark.parametrize("seed", range(6))
def test_one_arm_pulled_for_long_is_as_exact_as_is_said(seed):
    """Every update rounds V^-1, which stays large across the arm: it is made anew after 64, and was after 512."""
    arm, ridge, pulls = np.random.default_rng(seed).standard_normal((1, 2)), 1e-6, 3580
    arm /= np.linalg.norm(arm)
    state = ContextPosterior(1, 2, ridge)
    for _ in range(pulls):
        state.pull(0, arm[0], 1.0)
    _, width2, _ = in_many_digits(arm, np.array([pulls]), np.array([1.0 * pulls]), ridge)
    _, computed = state.predict(arm[None], Rows.all(state.theta))
    said = max(1e-8, 16 * np.finfo(float).eps * state.variance_inflation(0).max())
    np.testing.assert_allclose(computed[0], width2, rtol=said)
    assert state._since[0] < 64


def test_what_moments_cannot_hold_is_said_by_name():
    x = np.random.default_rng(0).standard_normal((40, 4)) * [1.0, 1e3, 1.0, 1e3]
    x[:, 3] = x[:, 1]
    state = ContextPosterior(1, 4, 1e-7)

    def pull_all():
        for vector in x:
            state.pull(0, vector, 1.0)

    with pytest.warns(adadim.PrecisionWarning, match="columns 2, 4 of the features are so nearly dependent"):
        pull_all()
    mean, width2 = state.predict(x[None], Rows.all(state.theta))
    assert np.isfinite(mean).all()
    assert (width2 >= 0).all()


@host_forms
def test_more_replications_than_arms(form):
    """Each factors anew on its own, whatever its number."""
    features = np.stack([np.eye(2)] * 7)
    state = make(features, 1e-9, form)
    for _ in range(3):
        state.absorb(np.array([0, 1] * 3 + [0]), np.ones(7), state.everyone)
    np.testing.assert_allclose(state.width2[6], [1 / (3 + 1e-9), 1e9], rtol=1e-9)
    np.testing.assert_allclose(state.mean[5], [0.0, 1.0], rtol=1e-8)
