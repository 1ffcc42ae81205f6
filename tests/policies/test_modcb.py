"""ModCB and its residual estimate: oracles, the plain version in lock step, unbiasedness by brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import ModCB, estimate_residual
from adadim.core.randomness import Purpose, Streams
from adadim.core.rows import Replications
from adadim.core.ties import sampled
from adadim.policies.linear.modcb import (
    ExploredSums,
    LinearPolicies,
    inverse_gap_weights,
    residual_error,
    residual_form,
    residual_value,
)
from adadim.policies.linear.round_learner import Offers, class_dims
from reference.modcb import ModCB as Reference
from reference.modcb import residual_of_pairs
from round_runs import in_lock_step, sets

EXACT = {"rel": 0, "abs": 1e-10}
SETS = np.array(
    [
        [(1, 0, 0.5), (0, 1, -0.5)],
        [(1, 1, 0), (-1, 0, 1)],
        [(0, 0.5, 1), (1, -1, 0)],
        [(0.5, 0.5, 0.5), (0, 0, 1)],
    ]
)
EXPLORED, REWARDS = SETS[range(4), [0, 1, 0, 1]], np.array([0.4, -0.1, 0.7, 0.2])


def second_moment():
    rows = SETS.reshape(-1, 3)
    return rows.T @ rows / len(rows)


# The estimate


def test_residual_f20():
    second = [[0.53125, 0.03125, -0.03125], [0.03125, 0.4375, 0.03125], [-0.03125, 0.03125, 0.46875]]
    assert second_moment() == pytest.approx(np.array(second), **EXACT)
    found = [estimate_residual(EXPLORED, REWARDS, d, SETS).value for d in range(3)]
    assert found == pytest.approx([0.090690895325, 0.078141875717, 0.082027041597], **EXACT)
    floored = [estimate_residual(EXPLORED, REWARDS, d, SETS, floor=0.5).value for d in range(3)]
    assert floored == pytest.approx([0.084572883708, 0.072265857398, 0.073119406551], **EXACT)


def test_residual_of_the_population_f20():
    rows, theta = SETS.reshape(-1, 3), np.array([0.5, -0.2, 0.3])
    moment = second_moment() @ theta
    found = [moment @ residual_form(second_moment(), d) @ moment for d in (1, 2)]
    assert found == pytest.approx([0.055477941176, 0.041795886076], **EXACT)
    for d, value in zip((1, 2), found, strict=True):  # the definition: what the best fit in d features leaves over
        fit = np.linalg.lstsq(rows[:, :d], rows @ theta)[0]
        assert np.mean((rows @ theta - rows[:, :d] @ fit) ** 2) == pytest.approx(value, **EXACT)


def test_standard_error_f21():
    errors = [estimate_residual(EXPLORED, REWARDS, d, SETS).error for d in (1, 2)]
    assert errors == pytest.approx([0.076685194192, 0.078602349245], **EXACT)
    spread = [e**2 * 12 / 2 for e in errors]
    assert spread == pytest.approx([0.035283714049, 0.037069975841], **EXACT)
    q = (EXPLORED * (REWARDS**2)[:, None]).T @ EXPLORED
    rough = [residual_error(residual_form(second_moment(), d), q, 4) for d in (1, 2)]
    assert rough == pytest.approx([0.167713748808, 0.140344017029], **EXACT)
    assert ModCB(delta=0.1).quantile(4, 1000) == pytest.approx(4.603614826003, **EXACT)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(2, 12))
def test_sums_are_enough(seed, d, n):
    """The form of two sums and the mean over pairs are one number."""
    rng = np.random.default_rng(seed)
    x, y, rows = rng.standard_normal((n, d)), rng.standard_normal(n), rng.standard_normal((40, d))
    second, small = rows.T @ rows / 40, int(rng.integers(0, d))
    form = residual_form(second, small)
    q = (x * (y * y)[:, None]).T @ x
    value, error = residual_of_pairs(x, y, second, small)
    assert residual_value(form, y @ x, q, n) == pytest.approx(value, rel=1e-8, abs=1e-8)
    assert residual_error(form, q, n) == pytest.approx(error, rel=1e-8)


def test_the_estimate_is_unbiased_given_the_second_moment():
    """Over all samples of three of the eight arms, with repetition, the mean of the estimates is the residual."""
    rows, theta = SETS.reshape(-1, 3), np.array([0.5, -0.2, 0.3])
    for d, expected in ((1, 0.055477941176), (2, 0.041795886076)):
        every = [
            estimate_residual(rows[list(s)], rows[list(s)] @ theta, d, SETS).value
            for s in itertools.product(range(8), repeat=3)
        ]
        assert np.mean(every) == pytest.approx(expected, **EXACT)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_maps_that_keep_the_first_features_apart_change_nothing(seed, small):
    rng = np.random.default_rng(seed)
    x, y, rows = rng.standard_normal((9, 4)), rng.standard_normal(9), rng.standard_normal((30, 4))
    change = np.eye(4) + 0.2 * rng.standard_normal((4, 4))
    change[small:, :small] = 0.0  # the first features of an image depend on the first features alone
    value = estimate_residual(x, y, small, rows).value
    assert estimate_residual(x @ change, y, small, rows @ change).value == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_dependent_features_have_a_residual_too():
    x = np.random.default_rng(1).standard_normal((300, 3))
    doubled = np.concatenate([x, x[:, :1] + x[:, 1:2]], axis=1)  # the fourth feature says nothing new
    for theta in ([1, 1, 0], [1, 1, 1]):
        one, other = (estimate_residual(features, x @ theta, dim=2) for features in (doubled, x))
        assert one.value == pytest.approx(other.value, rel=1e-9)
        assert one.error == pytest.approx(other.error, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(3), np.ones(2), 1), "explored must be"),
        ((np.eye(3)[:1], np.ones(1), 1), "n of at least 2"),
        ((np.eye(3), np.ones(3), 3), "dim must be an integer in 0..2"),
        ((np.eye(3), np.ones(3), 1, np.eye(2)), "contexts must have 3 features"),
        ((np.eye(3), [1, 2, math.nan], 1), "finite"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        estimate_residual(*arguments)


# The policy


def test_rates_and_thresholds_f19():
    for kappa, rates, total in (
        (1 / 3, [0.793700525984, 0.464158883361, 0.215443469003], 317.775695597105),
        (1 / 4, [0.840896415254, 0.562341325190, 0.316227766017], 417.963877677338),
    ):
        policy = ModCB(kappa=kappa, exploration=None)
        assert policy.exploration_rate(np.array([20, 100, 1000]), 10) == pytest.approx(rates, **EXACT)
        assert policy.exploration_rate(np.arange(1, 1001), 10).sum() == pytest.approx(total, **EXACT)
    sizes = {"arms": 10, "classes": 4, "horizon": 1000}
    policy = ModCB(delta=0.1)
    assert policy.threshold(8, 1000, **sizes) == pytest.approx(7.715547687314, **EXACT)
    assert ModCB(delta=0.1, kappa=0.25).threshold(8, 1000, **sizes) == pytest.approx(5.312344444327, **EXACT)
    assert policy.threshold(8, 10**6, **sizes) == pytest.approx(0.075579654875, **EXACT)
    assert policy.first_test(8, **sizes) == pytest.approx(288.482382506865, **EXACT)


def test_inverse_gap_weights_f22():
    predicted = np.array([[0.5, 0.4, 0.1, 0.45]])
    for g, expected in (
        (20, [0.55, 0.166666666667, 0.083333333333, 0.2]),
        (200, [0.875, 0.041666666667, 0.011904761905, 0.071428571429]),
        (0, [0.25] * 4),
    ):
        found = inverse_gap_weights(predicted, predicted < 9, np.array([float(g)]))
        assert found[0] == pytest.approx(expected, **EXACT)
    masked = inverse_gap_weights(predicted, np.array([[False, True, True, True]]), np.array([20.0]))
    assert masked[0] == pytest.approx([0, 0.25, 0.1, 0.65], **EXACT)


def test_exp4_ix_f23():
    problem = adadim.Problem(np.eye(2), horizon=100, noise=0.1)
    streams = Streams(0, Purpose.POLICY, range(1))
    master = LinearPolicies(problem, dim=2, experts=3, delta=0.05, loss_range=(0.0, 1.0), streams=streams)
    rows = Replications.all(master.losses)
    assert master.eta == pytest.approx(0.227880601432, **EXACT)
    advice = np.array([[1, 0], [0, 1], [0.5, 0.5]])
    p = master.weights(rows)[0] @ advice
    master.learn(np.eye(2)[:1], np.array([0.2]), rows, {"advised": advice[None, :, 0], "probability": p[:1]})
    assert master.losses[0] == pytest.approx([1.303058292585, 0, 0.651529146293], **EXACT)
    advice = np.array([[0, 1], [0, 1], [1, 0]])
    p = master.weights(rows)[0] @ advice
    assert p == pytest.approx([0.330897473769, 0.669102526231], **EXACT)
    master.learn(np.eye(2)[1:], np.array([0.7]), rows, {"advised": advice[None, :, 1], "probability": p[1:]})
    assert master.losses[0] == pytest.approx([1.686179099872, 0.383120807287, 0.651529146293], **EXACT)
    assert master.weights(rows)[0] == pytest.approx([0.276883413812, 0.372612213309, 0.350504372879], **EXACT)


@pytest.mark.parametrize("fixed", [False, True])
def test_lock_step(fixed):
    theta, rng = np.array([0.5, 0.4, 0.6, 0.0, 0.0]), np.random.default_rng(2)
    noise = 0.1 * rng.standard_normal((240, 2))

    def compare(learner, version, r):
        assert learner.current[r] == version.m
        assert learner.explored.count[r] == len(version.explored)

    in_lock_step(
        ModCB(dims=(1, 3, 5), every=8),
        lambda uniform: Reference([1, 3, 5], 7, 240, 0.1, uniform, every=8),
        sets(240, 7, 5),
        lambda t, r, arm, x: float(x @ theta) + noise[t, r],
        0.1,
        compare,
        fixed=fixed,
    )


# The sums over what is explored


def explored(features, floor=0.0, dims=None, n=30):
    """Sums over n random arms of each fixed set (R, K, d), and these arms with their rewards."""
    rng, problem = np.random.default_rng(5), adadim.Problem(features, horizon=99, noise=0.1)
    sums = ExploredSums(problem, Offers(problem), dims or problem.dim, floor)
    arms, rewards = rng.integers(problem.arms, size=(len(features), n)), rng.standard_normal((len(features), n))
    for r, x in enumerate(features):
        for arm, reward in zip(arms[r].tolist(), rewards[r].tolist(), strict=True):
            sums.add(r, arm, x[arm], reward)
    return sums, np.stack([x[a] for x, a in zip(features, arms, strict=True)]), rewards


@pytest.mark.parametrize("n", [3, 30])
def test_sums_of_fixed_sets_are_those_over_pairs(n):
    """Every pair of classes at once, against the mean over pairs of samples; also where not all features are used."""
    features = (
        np.random.default_rng(4).standard_normal((2, 20, 7))
        * [1, 3, 0.2, 1, 1, 0.5, 1]
        @ (np.eye(7) + 0.3 * np.random.default_rng(6).standard_normal((7, 7)))
    )
    features /= 10
    sums, x, y = explored(features, dims=6, n=n)
    assert sums.count.tolist() == [n, n]
    for r in range(2):
        assert sums.sets.whitened[r] is not None
        second = features[r].T @ features[r] / 20
        for small, large in itertools.combinations(range(1, 7), 2):
            value, error = residual_of_pairs(x[r, :, :large], y[r], second[:large, :large], small)
            assert sums.residual(r, small, large)[0] == pytest.approx(value, rel=1e-9, abs=1e-10)
            assert sums.error(r, small, large) == pytest.approx(error, rel=1e-9)
            form = residual_form(second[:large, :large], small)
            q = (x[r, :, :large] * (y[r] ** 2)[:, None]).T @ x[r, :, :large]
            assert sums.residual(r, small, large)[1] == pytest.approx(np.vdot(form, q), rel=1e-9)


def test_sums_where_features_depend_on_each_other_or_eigenvalues_are_raised():
    rng = np.random.default_rng(7)
    good, few = rng.standard_normal((9, 5)) / 9, rng.standard_normal((9, 5)) / 9
    few[:, 4] = few[:, 0] - few[:, 2]
    for floor, known in ((0.0, [True, False]), (0.05, [False, False])):
        sums, x, y = explored(np.stack([good, few]), floor)
        assert [sums.sets.whitened[r] is not None for r in range(2)] == known
        for r, features in enumerate((good, few)):
            for small in (1, 3):
                found = estimate_residual(x[r], y[r], small, features, floor=floor).value
                assert sums.residual(r, small, 5)[0] == pytest.approx(found, rel=1e-8, abs=1e-10)


def test_the_class_grows_to_the_right_one():
    instance = adadim.instances.contexts(
        arms=5, dim=16, intrinsic_dim=6, horizon=700, noise=0.1, distribution="sphere", replications=range(8)
    )
    for base in ("squarecb", "linucb"):
        learner = adadim.simulate(ModCB(base=base), instance).learner
        assert (learner.current == 3).sum() >= 6, base  # d = 8 holds the six that matter


def test_a_sufficient_class_is_kept():
    instance = adadim.instances.contexts(
        arms=5, dim=8, intrinsic_dim=1, horizon=700, noise=0.1, distribution="sphere", replications=range(8)
    )
    assert (adadim.simulate(ModCB(), instance).learner.current == 0).sum() >= 7


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from(["squarecb", "linucb", "exp4-ix"]))
def test_the_class_never_shrinks(seed, base):
    rng = np.random.default_rng(seed)
    problem = adadim.Problem(arms=3, dim=4, horizon=80, noise=0.1)
    learner, before = ModCB(base=base, every=3, experts=5).start(problem, seed=seed % 7), 0
    for _ in range(80):
        learner.update(learner.select(rng.standard_normal((3, 4))), rng.standard_normal())
        assert before <= learner.current[0]
        before = learner.current[0]


def test_the_theory_never_fires():
    """With all constants 1 twice the threshold is above any residual of means in [-1, 1] (F19)."""
    instance = adadim.instances.contexts(arms=5, dim=8, intrinsic_dim=8, horizon=600, replications=range(2))
    learner = adadim.simulate(ModCB(test="theory", exploration=None), instance).learner
    assert (learner.current == 0).all()
    eager = adadim.simulate(ModCB(test="theory", exploration=None, c1=1e-4, c2=1e-3), instance).learner
    assert (eager.current > 0).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"dims": (2, 2)},
        {"dims": [1, 2]},
        {"dims": ()},
        {"base": "ucb"},
        {"test": "best"},
        {"kappa": 1.0},
        {"exploration": 0.0},
        {"every": 0},
        {"delta": 1.0},
        {"floor": -1.0},
        {"gam": 0.0},
        {"experts": 0},
        {"loss_range": (1.0, 0.0)},
    ],
)
def test_bad_hyper_parameters(changes):
    with pytest.raises(adadim.AdadimError, match=next(iter(changes))):
        ModCB(**changes)
    with pytest.raises(ValueError, match="dims must not exceed the problem's 3 features"):
        ModCB(dims=(1, 4)).start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))


def test_dimensions_of_classes_and_arms_that_are_drawn():
    assert class_dims(None, 10) == (1, 2, 4, 8, 10)
    assert sampled(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0.4, 0.0])).tolist() == [0, 1]
