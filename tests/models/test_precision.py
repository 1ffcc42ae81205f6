"""Means and widths of awkward features against arithmetic of 60 digits."""

import mpmath
import numpy as np
import pytest

import adadim
from adadim.core.actions import ActionSet
from adadim.core.rows import Replications
from adadim.models.context import ContextPosterior, DeviceContextPosterior
from adadim.models.fixed import check_precision, solve_in_twice_the_digits
from posterior_states import both_forms, make, pull

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


@both_forms
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


SMALL_MEANS = {
    "wide before the first pulls": ([[22.75, 22.75], [22.75, 22.7504]], 5.7e-4, [(0, 2.0), (1, -2.8), (1, 0.8)]),
    "raw units": (
        [[-1.26e6, 2.13e5, 9.4e4], [-2.6e5, -7.3e4, -9.7e4], [-2.12e6, 1.8e5, 1.7e4]],
        1e-2,
        [(0, 1.0), (1, -1.0), (0, -1.0)],
    ),
}


@both_forms
@pytest.mark.parametrize("name", SMALL_MEANS)
def test_means_of_rewards_that_nearly_cancel(form, name):
    """Beside widths and rewards they were off by 2e-10, and so by 1e-8 of themselves."""
    features, ridge, pulls = SMALL_MEANS[name]
    state = make(np.array(features), ridge, form)
    for arm, reward in pulls:
        pull(state, arm, reward)
        mean, width2, _ = in_many_digits(np.array(features), state.counts[0], state.sums[0], ridge)
        scale = np.sqrt(width2.max() * state.squares[0])
        np.testing.assert_allclose(state.mean[0], mean, rtol=0, atol=5e-11 * scale)


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


@pytest.mark.parametrize("apart", [1e-6, 1e-3])
def test_directions_hardly_seen_do_not_blur_widths_that_go_on_shrinking(apart):
    """V^-1 was small enough at a factorisation, and then widths became 20 times smaller: off by up to 3e-8."""
    features, ridge = np.array([[0.4, 0.4 + apart], [0.4 - 3e-12, 0.4 + apart]]), 0.0135
    state = make(features, ridge, "feature")
    for arm in np.random.default_rng(2).integers(2, size=100_000).tolist():
        pull(state, arm, 0.0)
    _, width2, _ = in_many_digits(features, state.counts[0], state.sums[0], ridge)
    np.testing.assert_allclose(state.width2[0], width2, rtol=1e-10)


def test_means_of_arms_whose_rewards_are_pending():
    """Most of V^-1 is 1e8 here; made column by column, it took what is known of two arms to the other two, by 3e-6."""
    features = np.array(
        [
            [1.67, 0.93, 0.68, -0.73, -0.84, 0.18, -0.33, -0.58],
            [-0.81, 2.11, 0.96, -0.14, 0.45, -0.26, 0.41, -0.82],
            [-0.07, -0.39, 1.61, -0.13, -0.87, 0.27, -1.42, -1.96],
            [-0.05, -0.31, -0.66, -0.96, -0.66, 1.48, 0.56, -0.58],
        ]
    )
    arms, errors = [2, 2, 2, 3, 2], []
    for seed in range(5):
        state, rewards = ContextPosterior(1, 8, 1e-8), np.random.default_rng(seed).standard_normal(5)
        for arm, reward in zip(arms, rewards, strict=True):
            state.absorb(features[[arm]], np.array([reward]), Replications.all(state.theta))
        mean, _, _ = in_many_digits(features, np.bincount(arms, minlength=4), np.bincount(arms, rewards, 4), 1e-8)
        found, _ = state.predict(features[None], Replications.all(state.theta))
        errors.append(np.abs(found[0] - mean).max() / np.abs(mean).max())
    assert np.median(errors) < 5e-7


CONTEXTS = {name: CASES[name] for name in ("small ridge", "large ridge", "tiny features", "units from 1e-6 to 1e6")}


@pytest.mark.parametrize("name", CONTEXTS)
def test_features_of_rounds_are_as_exact(name):
    """The first pulls take away nearly all of a width; their difference was rounding."""
    features, ridge = CONTEXTS[name]
    rng, state = np.random.default_rng(1), ContextPosterior(1, features.shape[1], ridge)
    counts, sums = np.zeros(len(features)), np.zeros(len(features))
    for t in range(1, PULLS + 1):
        arm, reward = int(rng.integers(len(features))), rng.standard_normal()
        state.absorb(features[[arm]], np.array([reward]), Replications.all(state.theta))
        counts[arm], sums[arm] = counts[arm] + 1, sums[arm] + reward
        if t in (1, 2, 5, 20, PULLS):
            mean, width2, logdet = in_many_digits(features, counts, sums, ridge)
            found_mean, found_width2 = state.predict(features[None], Replications.all(state.theta))
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
            _, computed = state.predict(features[None], Replications.all(state.theta))
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
    _, computed = state.predict(arm[None], Replications.all(state.theta))
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
    mean, width2 = state.predict(x[None], Replications.all(state.theta))
    assert np.isfinite(mean).all()
    assert (width2 >= 0).all()


@both_forms
def test_more_replications_than_arms(form):
    """Each factors anew on its own, whatever its number."""
    features = np.stack([np.eye(2)] * 7)
    state = make(features, 1e-9, form)
    for _ in range(3):
        state.absorb(np.array([0, 1] * 3 + [0]), np.ones(7), state.everyone)
    np.testing.assert_allclose(state.width2[6], [1 / (3 + 1e-9), 1e9], rtol=1e-9)
    np.testing.assert_allclose(state.mean[5], [0.0, 1.0], rtol=1e-8)


def in_raw_units(rng, arms=11, noise=1e-8):
    """Column 4 is nearly column 1, and both are in units of 1e7."""
    features = rng.standard_normal((arms, 4))
    features[:, 3] = features[:, 0] + noise * rng.standard_normal(arms)
    return features * [4e7, 1, 1, 5e7]


def twins_in_raw_units(rng):
    """The last arm is nearly the first, and units go from 1e-2 to 1e7."""
    features = rng.standard_normal((11, 6))
    features[-1] = features[0] + 1e-7 * features[-1]
    return features * 10.0 ** rng.permutation(np.linspace(-2, 7, 6))


COMBINED = {
    "columns, 11 arms": (lambda rng: in_raw_units(rng), 1e-3),
    "columns, 60 arms": (lambda rng: in_raw_units(rng, 60), 1e-3),
    "columns nearer, small ridge": (lambda rng: in_raw_units(rng, 11, 1e-10), 1e-8),
    "arms": (twins_in_raw_units, 1e-7),
}


@both_forms
@pytest.mark.parametrize("name", COMBINED)
def test_near_dependence_in_raw_units(form, name):
    """Rounding of the arms themselves is as large as what tells the columns apart: QR alone was off by up to 8e-7."""
    make_features, ridge = COMBINED[name]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        features = make_features(rng)
        check_precision(ActionSet(features), ridge, 100)
        state = make(features, ridge, form)
        for t in range(1, 101):
            arm = rng.integers(len(features)) if t % 3 else np.argmax(state.width2[0])
            pull(state, int(arm), rng.standard_normal())
            if t in (2, 10, 30, 100):
                mean, width2, logdet = in_many_digits(features, state.counts[0], state.sums[0], ridge)
                np.testing.assert_allclose(state.width2[0], width2, rtol=1e-9)
                scale = np.maximum(np.abs(mean), np.sqrt(width2 * state.squares[0]))
                np.testing.assert_allclose((state.mean[0] - mean) / scale, 0.0, rtol=0, atol=1e-9)
                np.testing.assert_allclose(state.logdet[0], logdet, rtol=1e-9)


def test_open_pulls_are_as_exact():
    rng = np.random.default_rng(2)
    features, ridge = in_raw_units(rng), 1e-3
    state, asked = make(features, ridge, "gram"), np.zeros(11)
    for arm in rng.integers(11, size=40):
        state.add_pending(np.array([arm]), state.everyone)
        asked[arm] += 1
    _, width2, _ = in_many_digits(features, asked, 0 * asked, ridge)
    np.testing.assert_allclose(state.open_width2[0], width2, rtol=1e-9)


def check_means(features, ridge, state, asked):
    mean, _, _ = in_many_digits(features, state.counts[0], state.sums[0], ridge)
    _, shown, _ = in_many_digits(features, asked, 0 * asked, ridge)
    np.testing.assert_allclose(state.open_width2[0], shown, rtol=1e-8)
    scale = np.maximum(np.abs(mean), np.sqrt(shown * state.squares[0]))
    np.testing.assert_allclose((state.mean[0] - mean) / scale, 0.0, rtol=0, atol=1e-8)


@both_forms
@pytest.mark.parametrize(
    ("units", "ridge"),
    [(10.0 ** np.linspace(-2, 3, 5), 1e-6), (10.0 ** np.linspace(-2, 8, 5), 1e-6), ([5e8, 5e8, 5e8, 5e8, 1.0], 1e-8)],
    ids=["to 1e3", "to 1e8", "the same"],
)
@pytest.mark.parametrize("answered", [(), (0, 1, 0)])
def test_means_are_exact_beside_the_widths_that_pending_pulls_leave(form, units, ridge, answered):
    """An arm that waits for its rewards is wide by those known and narrow as shown: its mean was off by up to 5e-5."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        features = rng.standard_normal((6, 5)) * units
        state, asked = make(features, ridge, form), np.zeros(6)
        for arm in answered:
            pull(state, arm, rng.standard_normal())
            asked[arm] += 1
        for arm in rng.permutation(6):
            state.add_pending(np.array([arm]), state.everyone)
            asked[arm] += 1
            if answered:
                check_means(features, ridge, state, asked)
        for arm in (1, 0, 2):
            state.resolve(np.array([arm]), rng.standard_normal(1), state.everyone)
            check_means(features, ridge, state, asked)
        for arm in (0, 2, 0, 1, 2):
            pull(state, arm, rng.standard_normal())
            asked[arm] += 1
            check_means(features, ridge, state, asked)
        state.shift(0, 0.7, float(state.squares[0]))
        check_means(features, ridge, state, asked)
        state.refactor(state.everyone)
        check_means(features, ridge, state, asked)


def test_solves_in_twice_the_digits():
    rng = np.random.default_rng(0)
    triangle = np.triu(rng.standard_normal((5, 5))) * 10.0 ** rng.uniform(-6, 6, 5)
    triangle[4, 4] *= 1e-12
    rows = rng.standard_normal((3, 5)) * 1e6
    with mpmath.workdps(60):
        right = (mpmath.matrix(triangle.tolist()).T ** -1) * mpmath.matrix(rows.tolist()).T
    np.testing.assert_allclose(solve_in_twice_the_digits(triangle, rows), np.array(right.tolist(), float), rtol=1e-15)


def test_devices_say_how_exact_they_are():
    """What runs on a device is not factored anew: widths were off by up to 7e-4 there, without a word."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    features, ridge = rng.standard_normal((20, 3)), 1e-7
    problem = adadim.Problem(torch.tensor(features), horizon=200, noise=0.1)
    with pytest.warns(adadim.PrecisionWarning, match="ridge of 1e-07 .* widths may be off by") as caught:
        learner = adadim.LinUCB(ridge=ridge).start(problem)
    said = float(str(caught[0].message).partition("off by ")[2].partition(";")[0])
    arms = rng.integers(20, size=200)
    learner.learn(torch.tensor(arms), torch.zeros(200, dtype=torch.float64))
    _, width2, _ = in_many_digits(features, np.bincount(arms, minlength=20), np.zeros(20), ridge)
    off = np.abs(learner.model.regression.width2[0].numpy() / width2 - 1).max()
    assert 1e-9 < off < said < 1e-5
    adadim.LinUCB(ridge=0.1).start(problem)  # exact, so that nothing is said


@pytest.mark.parametrize("late", [False, True])
def test_rounds_on_a_device_are_as_exact(late):
    """V^-1 is made anew after each of the first pulls: the first one took away nearly all of the width, in rounding."""
    torch = pytest.importorskip("torch")
    features, ridge = CASES["units from 1e-6 to 1e6"][0], 0.1
    state = DeviceContextPosterior(torch.zeros(1), 5, ridge)
    rng, counts, x = np.random.default_rng(1), np.zeros(30), torch.tensor(features)
    for t in range(1, 101):
        arm = int(rng.integers(30))
        counts[arm] += 1
        if late:
            state.add_pending(x[[arm]], state.everyone)
        else:
            state.absorb(x[[arm]], torch.zeros(1, dtype=torch.float64), state.everyone)
        if t in (1, 2, 5, 20, 100):
            _, width2, _ = in_many_digits(features, counts, np.zeros(30), ridge)
            v = ridge * np.eye(5) + (features.T * counts) @ features
            root = np.sqrt(np.diag(v))
            said = max(1e-8, 40 * np.finfo(float).eps * np.diag(np.linalg.inv(v / np.outer(root, root))).max())
            np.testing.assert_allclose(state.predict(x[None], state.everyone)[1][0], width2, rtol=min(said, 1e-4))


def test_rounds_that_a_device_cannot_hold_are_told():
    torch = pytest.importorskip("torch")
    x = torch.tensor(np.random.default_rng(0).standard_normal((40, 4)) * [1.0, 1e3, 1.0, 1e3])
    x[:, 3] = x[:, 1]
    state, reward = DeviceContextPosterior(torch.zeros(1), 4, 1e-7), torch.ones(1, dtype=torch.float64)

    def pull_all():
        for vector in x:
            state.absorb(vector[None], reward, state.everyone)

    with pytest.warns(adadim.PrecisionWarning, match="columns 2, 4 of the features are so nearly dependent"):
        pull_all()


def test_rounding_of_many_pulls_on_a_device_is_no_bare_error():
    """Moments of equal columns with an eigenvalue below zero by more than the rounding of one pull."""
    torch = pytest.importorskip("torch")
    state = DeviceContextPosterior(torch.zeros(1), 2, 1e-8)
    state._second[0] = 1e20 * torch.tensor([[1.0, 1.0 + 1e-14], [1.0 + 1e-14, 1.0]], dtype=torch.float64)
    with pytest.warns(adadim.PrecisionWarning, match="columns 1, 2 of the features are so nearly dependent"):
        state.refresh()
    assert torch.isfinite(state.inverse).all()


@pytest.mark.filterwarnings("error::adadim.PrecisionWarning")
@pytest.mark.parametrize(
    ("features", "ridge", "arms"),
    [
        ([[0.0], [-0.3], [4e9], [1e9]], 0.9, [0, 1, 2, 3]),
        ([[1.0, 0.0], [1e3, 1e3]], 1e-6, [0] * 40 + [1] * 5),
    ],
    ids=["one feature", "a second feature"],
)
@pytest.mark.parametrize("late", [False, True])
def test_large_features_seen_late_on_a_device(features, ridge, arms, late):
    """A single update takes a squared width from 1e12 to 1: it was off by up to 1, and told some rounds later."""
    torch = pytest.importorskip("torch")
    features = np.array(features)
    x, counts = torch.tensor(features), np.zeros(len(features))
    state = DeviceContextPosterior(torch.zeros(2), features.shape[1], ridge)
    only = Replications.some(np.array([1]), state.theta)
    for arm in arms:
        if late:
            state.add_pending(x[[arm]], only)
        else:
            state.absorb(x[[arm]], torch.ones(1, dtype=torch.float64), only)
        counts[arm] += 1
        _, width2, _ = in_many_digits(features, counts, np.zeros(len(features)), ridge)
        np.testing.assert_allclose(state.predict(x[None], only)[1][0], width2, rtol=1e-8)


def test_one_arm_pulled_for_long_on_a_device_is_as_exact_as_is_said():
    """Every update rounds V^-1, which stays large across the arm: it is made anew after 64, and was after 512."""
    torch = pytest.importorskip("torch")
    state, reward = DeviceContextPosterior(torch.zeros(1), 2, 1e-6), torch.ones(1, dtype=torch.float64)
    arm = np.array([[0.6, 0.8]])
    for _ in range(400):
        state.absorb(torch.tensor(arm), reward, state.everyone)
    _, width2, _ = in_many_digits(arm, np.array([400]), np.zeros(1), 1e-6)
    _, computed = state.predict(torch.tensor(arm[None]), state.everyone)
    said = 16 * np.finfo(float).eps * 400e6
    np.testing.assert_allclose(computed[0], width2, rtol=said)
    assert state._since < 64
