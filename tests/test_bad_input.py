"""Bad input is refused where it enters, with an error that names the value."""

import re
import warnings

import numpy as np
import pytest

import adadim
from adadim import (
    UCB,
    ActionSet,
    Greedy,
    Instance,
    LinUCB,
    NormWarning,
    NotSelectedError,
    Problem,
    SupLinUCB,
    instances,
    theory,
)

GOOD = np.eye(3)
nan, inf = float("nan"), float("inf")


def features_with(value):
    features = np.full((2, 3, 4), 0.1)
    features[1, 2, 0] = value
    return features


def problem(**changes):
    arguments = {"features": GOOD, "horizon": 10, "noise": 0.1} | changes
    return Problem(arguments.pop("features"), **arguments)


def instance(**changes):
    arguments = {"features": GOOD, "theta": [0.1, 0.2, 0.3], "horizon": 10, "noise": 0.1} | changes
    return Instance(arguments.pop("features"), **arguments)


def sphere(**changes):
    return instances.sphere(**{"arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 10} | changes)


def refuses(error, message, call, *arguments, **options):
    with pytest.raises(error, match=message):
        call(*arguments, **options)


# Features


@pytest.mark.parametrize("call", [ActionSet, lambda f: problem(features=f), lambda f: instance(features=f)])
@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (features_with(nan), ValueError, "features must be finite, but arm 2 of replication 1 has a NaN or infinite"),
        (features_with(inf), ValueError, "features must be finite, but arm 2 of replication 1 has a NaN or infinite"),
        (features_with(-inf), ValueError, "features must be finite, but arm 2 of replication 1"),
        (np.zeros(3), ValueError, r"features must have shape \(K, d\) or \(R, K, d\), got \(3,\)"),
        (np.zeros((1, 1, 2, 2)), ValueError, r"features must have shape .*, got \(1, 1, 2, 2\)"),
        (np.float64(1.0), ValueError, r"features must have shape .*, got \(\)"),
        (np.zeros((0, 3)), ValueError, r"at least one replication, arm and feature, got shape \(1, 0, 3\)"),
        (np.zeros((3, 0)), ValueError, r"at least one replication, arm and feature, got shape \(1, 3, 0\)"),
        (np.zeros((0, 3, 3)), ValueError, r"at least one replication, arm and feature, got shape \(0, 3, 3\)"),
        (np.full((2, 2), 1j), TypeError, "features must be real numbers, got dtype complex128"),
        (np.array([["a", "b"]]), TypeError, "features must be real numbers, got dtype <U1"),
        (np.array([[None, 1]]), TypeError, "features must be real numbers, got dtype object"),
    ],
)
def test_features(call, features, error, message):
    refuses(error, message, call, features)


def test_features_in_torch(torch):
    refuses(ValueError, "arm 2 of replication 1", ActionSet, torch.asarray(features_with(nan)))
    refuses(ValueError, r"got \(3,\)", ActionSet, torch.zeros(3))
    refuses(TypeError, "features must be real numbers, got dtype torch.complex64", ActionSet, torch.eye(2) * 1j)


def test_plain_numbers_of_other_types_are_welcome():
    for features in ([[1, 0], [0, 1]], np.eye(2, dtype=np.int8), np.eye(2, dtype=np.float32), np.eye(2, dtype=bool)):
        assert ActionSet(features).base.dtype == np.float64


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "levels is empty"),
        ([0, 2], r"levels must be integers in 1\.\.3 \(the number of features\), got 0"),
        ([2, 4], r"levels must be integers in 1\.\.3 \(the number of features\), got 4"),
        ([1.5], r"levels must be integers in 1\.\.3 .*, got 1\.5"),
        ([True], r"levels must be integers in 1\.\.3 .*, got True"),
        ([3, 2], r"levels must increase, got \[3, 2\]"),
        ([2, 2], r"levels must increase, got \[2, 2\]"),
    ],
)
def test_levels(levels, message):
    refuses(ValueError, message, ActionSet, GOOD, levels=levels)


# Norms above 1


@pytest.mark.parametrize("call", [ActionSet, lambda f: problem(features=f), lambda f: instance(features=f)])
def test_long_arms_warn_of_the_consequence(call):
    with pytest.warns(
        NormWarning, match=r"longest arm has norm 2\.5 > 1: confidence radii and regret bounds .* do not"
    ):
        call(2.5 * GOOD)


def test_unit_arms_do_not_warn():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ActionSet(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        ActionSet(GOOD * (1 + 1e-12))
    assert issubclass(NormWarning, UserWarning)


def test_warning_points_at_the_caller():
    with pytest.warns(NormWarning) as caught:
        Problem(2 * GOOD, horizon=10, noise=0.1)
    assert caught[0].filename == __file__


def test_long_arms_still_work():
    with pytest.warns(NormWarning):
        learner = LinUCB().start(problem(features=2 * GOOD))
    learner.update(learner.select(), [0.3])


# Problem and Instance


@pytest.mark.parametrize("make", [problem, instance, sphere])
@pytest.mark.parametrize("horizon", [0, -1, 1.5, 10.0, nan, True, None, "10"])
def test_horizon(make, horizon):
    message = rf"horizon must .*{re.escape(repr(horizon) if make is not sphere else str(horizon))}"
    refuses(ValueError, message, make, horizon=horizon)


@pytest.mark.parametrize("make", [problem, instance, sphere])
@pytest.mark.parametrize("noise", [0, 0.0, -0.1, nan, inf, True, "0.1", [0.1]])
def test_noise(make, noise):
    message = rf"noise must be a positive finite number \(.*\), got {re.escape(repr(noise))}"
    refuses(ValueError, message, make, noise=noise)


@pytest.mark.parametrize("make", [problem, instance])
@pytest.mark.parametrize(
    ("replications", "message"),
    [
        ([0, 4, 4], "replications must be distinct, but 4 appears more than once"),
        ([0, 1], "features hold 3 replications, but 2 numbers were given"),
        ([0, 1, -2], "replications must be non-negative integers, got -2"),
        ([0, 1, 2.0], r"replications must be non-negative integers, got 2\.0"),
        ([0, 1, True], "replications must be non-negative integers, got True"),
        ([], "replications is empty"),
    ],
)
def test_replications(make, replications, message):
    features = np.broadcast_to(GOOD, (3, 3, 3))
    refuses(ValueError, message, make, features=features, replications=replications)


@pytest.mark.parametrize("make", [instances.sphere, instances.ball, instances.clicks])
def test_replications_of_a_generator(make):
    good = {"arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 10}
    refuses(ValueError, "distinct, but 1 appears more than once", make, **good, replications=[1, 0, 1])
    refuses(ValueError, "replications is empty", make, **good, replications=[])
    refuses(ValueError, "non-negative integers, got -1", make, **good, replications=[-1])


def test_replications_of_the_lower_bound():
    call = instances.lower_bound
    refuses(ValueError, "distinct, but 3 appears more", call, horizon=2500, alpha=0.5, replications=[3, 3])
    refuses(theory.ConditionError, "100\\^0.25 = 3.16228 gives 1", call, horizon=100, alpha=0.25)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward_range": -0.5}, r"reward_range must be finite and non-negative, got -0\.5"),
        ({"reward_range": nan}, "reward_range must be finite and non-negative, got nan"),
        ({"reward_range": [0.1, 0.2]}, r"reward_range must be one number or have shape \(1,\), got \(2,\)"),
    ],
)
def test_reward_range(changes, message):
    refuses(ValueError, message, problem, **changes)
    refuses(ValueError, message, instance, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"theta": None}, r"give exactly one of theta \(linear rewards\) and means"),
        ({"means": [0.1, 0.2, 0.3]}, r"give exactly one of theta \(linear rewards\) and means"),
        ({"noise": None}, "noise is needed for Gaussian rewards"),
        ({"rewards": "poisson"}, "rewards must be 'gaussian' or 'bernoulli', got 'poisson'"),
        ({"reward_range": "exact"}, "reward_range must be 'true', 'unknown' or a number, got 'exact'"),
        ({"theta": [0.1, 0.2]}, r"theta must have shape \(3,\) or \(1, 3\), got \(1, 2\)"),
        ({"theta": np.zeros((2, 3))}, r"theta must have shape \(3,\) or \(1, 3\), got \(2, 3\)"),
        ({"theta": [0.1, nan, 0.2]}, "theta must be finite, but has a NaN or infinite entry"),
        ({"theta": None, "means": [0.1]}, r"means must have shape \(3,\) or \(1, 3\), got \(1, 1\)"),
        ({"theta": None, "means": [0.1, inf, 0.2]}, "means must be finite, but has a NaN or infinite entry"),
        ({"rewards": "bernoulli", "theta": [0.1, -0.2, 0.3]}, r"means in \[0, 1\], but they range from -0\.2 to 0\.3"),
        ({"rewards": "bernoulli", "theta": [0.1, 0.2, 1.25]}, r"means in \[0, 1\], but they range from 0\.1 to 1\.25"),
    ],
)
def test_instance(changes, message):
    refuses(ValueError, message, instance, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": 0}, "arms must be an integer of at least 1, got 0"),
        ({"arms": 2.0}, r"arms must be an integer of at least 1, got 2\.0"),
        ({"dim": 0}, "dim must be an integer of at least 1, got 0"),
        ({"dim": True}, "dim must be an integer of at least 1, got True"),
        ({"intrinsic_dim": 0}, r"intrinsic_dim must be in 1\.\.3 \(the number of features\), got 0"),
        ({"intrinsic_dim": 4}, r"intrinsic_dim must be in 1\.\.3 \(the number of features\), got 4"),
        ({"intrinsic_dim": 1.5}, r"intrinsic_dim must be an integer, got 1\.5"),
        ({"theta": "sparse"}, "theta must be one of 'uniform', 'decay', 'flip', 'spike', 'heavy', got 'sparse'"),
        ({"seed": -1}, "seed must be a non-negative integer, got -1"),
        ({"expressive": True, "levels": [2, 9]}, r"levels must be integers in 1\.\.3 .*, got 9"),
    ],
)
def test_generators(changes, message):
    refuses(ValueError, message, sphere, **changes)
    refuses(ValueError, message, instances.ball, **{"arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 10} | changes)


def test_clicks_count_the_constant():
    for wrong in (1, 4):
        refuses(
            ValueError,
            rf"intrinsic_dim must be in 2\.\.3 \(the constant counts\), got {wrong}",
            instances.clicks,
            arms=5,
            dim=3,
            intrinsic_dim=wrong,
            horizon=10,
        )


# Policies


@pytest.mark.parametrize("policy", [LinUCB, SupLinUCB, Greedy])
@pytest.mark.parametrize("ridge", [0, -0.1, nan, inf, True, None, "0.1"])
def test_ridge(policy, ridge):
    refuses(ValueError, f"ridge must be a positive finite number .*, got {ridge!r}", policy, ridge=ridge)


@pytest.mark.parametrize("policy", [LinUCB, SupLinUCB, Greedy])
@pytest.mark.parametrize("dim", [0, -1, True, 2.5])
def test_dim_below_one(policy, dim):
    refuses(ValueError, f"dim must be an integer of at least 1, or None for all features, got {dim!r}", policy, dim=dim)


@pytest.mark.parametrize("policy", [LinUCB, SupLinUCB, Greedy])
@pytest.mark.parametrize("dim", [4, 100])
def test_dim_above_the_number_of_features(policy, dim):
    chosen = policy(dim=dim)
    message = rf"dim must be an integer in 1\.\.3 \(the number of features\), got {dim!r}"
    refuses(ValueError, message, chosen.start, problem())
    refuses(ValueError, message, adadim.simulate, chosen, instance())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LinUCB(bonus="cubed"), r"bonus must be 'norm' \(theory\) or 'squared' .*, got 'cubed'"),
        (lambda: LinUCB(radius="wide"), "radius must be 'noise', 'full', 'paper', 'oful' or a number, got 'wide'"),
        (lambda: LinUCB(radius=-1.0), r"radius must be a non-negative finite number or a rule, got -1\.0"),
        (lambda: LinUCB(radius=nan), "radius must be a non-negative finite number or a rule, got nan"),
        (lambda: LinUCB(radius=True), "radius must be a non-negative finite number or a rule, got True"),
        (lambda: LinUCB(scale=0), r"scale must be a positive finite number \(a factor on the radius\), got 0"),
        (lambda: LinUCB(theta_norm=-1), r"theta_norm must be a positive finite number .*, got -1"),
        (lambda: LinUCB(arms="some"), "arms must be 'distinct' or 'supported', got 'some'"),
        (lambda: LinUCB(ties="first"), r"ties must be 'random' or 'lowest' \(index\), got 'first'"),
        (lambda: Greedy(ties="first"), r"ties must be 'random' or 'lowest' \(index\), got 'first'"),
        (lambda: SupLinUCB(radius="oful"), "SupLinUCB takes radius 'noise', 'full', 'paper' or a number, got 'oful'"),
        (lambda: SupLinUCB(scale=-2.0), r"scale must be a positive finite number .*, got -2\.0"),
        (lambda: SupLinUCB(ties="first"), "got 'first'"),
        (lambda: UCB(index="ucb2"), "index must be 'self-normalised', .* got 'ucb2'"),
        (lambda: UCB(delta=0.0), r"delta must be strictly between 0 and 1, got 0\.0"),
        (lambda: UCB(delta=1.0), r"delta must be strictly between 0 and 1, got 1\.0"),
        (lambda: UCB(scale=0.0), r"scale must be a positive finite number .*, got 0\.0"),
        (lambda: UCB(ties="first"), "got 'first'"),
        (lambda: LinUCB(form="dense").start(problem()), "form must be 'auto', 'gram' or 'feature', got 'dense'"),
        (lambda: LinUCB().start(problem(), seed=-1), "seed must be a non-negative integer, got -1"),
        (lambda: LinUCB().start(problem(), seed=0.5), r"seed must be a non-negative integer, got 0\.5"),
    ],
)
def test_hyper_parameters(call, message):
    refuses(ValueError, message, call)


def test_start_needs_a_problem():
    refuses(TypeError, r"start needs an adadim\.Problem, got Instance", LinUCB().start, instance())
    refuses(TypeError, r"start needs an adadim\.Problem, got ndarray", LinUCB().start, GOOD)


# select and update


def started(count=2, **options):
    features = np.broadcast_to(GOOD, (count, 3, 3))
    return LinUCB(**options).start(Problem(features, horizon=10, noise=0.1, replications=range(7, 7 + count)))


@pytest.mark.parametrize(
    ("arms", "rewards", "error", "message"),
    [
        ([0, 3], [0.1, 0.2], ValueError, r"arms must be in 0\.\.2, got 3"),
        ([-1, 0], [0.1, 0.2], ValueError, r"arms must be in 0\.\.2, got -1"),
        ([0], [0.1], ValueError, r"arms must have shape \(2,\), one per replication, got \(1,\)"),
        ([[0, 1]], [0.1, 0.2], ValueError, r"arms must have shape \(2,\), one per replication, got \(1, 2\)"),
        ([0.0, 1.0], [0.1, 0.2], TypeError, "arms must be integers, got dtype float64"),
        (np.array([True, False]), [0.1, 0.2], TypeError, "arms must be integers, got dtype bool"),
        ([0, 1], [0.1], ValueError, r"rewards must have shape \(2,\), one per replication, got \(1,\)"),
        ([0, 1], [0.1, 0.2, 0.3], ValueError, r"rewards must have shape \(2,\), one per replication, got \(3,\)"),
        ([0, 1], 0.1, ValueError, r"rewards must have shape \(2,\), one per replication, got \(1,\)"),
        ([0, 1], np.zeros((2, 1)), ValueError, r"rewards must have shape \(2,\), one per replication, got \(2, 1\)"),
        ([0, 1], [0.1, nan], ValueError, "rewards must be finite, got nan"),
        ([0, 1], np.array([-inf, 0.1]), ValueError, "rewards must be finite, got -inf"),
        ([0, 1], np.array([1j, 0]), TypeError, "rewards must be real numbers, got dtype complex128"),
        ([0, 1], ["a", "b"], TypeError, "rewards must be real numbers, got dtype <U1"),
    ],
)
def test_update(arms, rewards, error, message):
    learner = started()
    learner.select()
    refuses(error, message, learner.update, arms, rewards)
    # Nothing was half done: no pull was counted, and the right call still goes through.
    assert not learner.posterior.counts.any()
    assert not learner.posterior.mean.any()
    learner.update([0, 1], [0.1, 0.2])
    np.testing.assert_array_equal(learner.posterior.counts, [[1, 0, 0], [0, 1, 0]])


def test_update_before_select():
    learner = started()
    refuses(NotSelectedError, "update before select: replication 7 has no pending", learner.update, [0, 0], [0.1, 0.1])
    assert not learner.posterior.counts.any()
    learner.update(learner.select(), [0.1, 0.1])
    refuses(NotSelectedError, "update before select", learner.update, [0, 0], [0.1, 0.1])
    assert (learner.posterior.counts.sum(axis=1) == 1).all()
    assert issubclass(NotSelectedError, ValueError)


def test_update_before_select_of_some_rows():
    learner = started(4)
    learner.select([0, 2])
    message = "replication 10 has no pending decision"  # the fourth of 7, 8, 9, 10
    refuses(NotSelectedError, message, learner.update, [0, 0], [0.1, 0.1], rows=[2, 3])
    refuses(NotSelectedError, "replication 8 has no pending decision", learner.update, [0] * 4, [0.1] * 4)
    learner.update([0, 1], [0.1, 0.2], rows=[2, 0])
    np.testing.assert_array_equal(learner.posterior.counts.argmax(axis=1)[[2, 0]], [0, 1])
    refuses(NotSelectedError, "replication 9 has no pending", learner.update, [0], [0.1], rows=[2])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"rows must be a non-empty 1-d array of integers, got \[\]"),
        (1, "rows must be a non-empty 1-d array of integers, got 1"),
        ([[0, 1]], "rows must be a non-empty 1-d array of integers"),
        ([0.0], r"rows must be a non-empty 1-d array of integers, got \[0\.0\]"),
        ([True, False], "rows must be a non-empty 1-d array of integers"),
        ([0, 2], r"rows must be distinct and in 0\.\.1, got \[0, 2\]"),
        ([-1], r"rows must be distinct and in 0\.\.1, got \[-1\]"),
        ([1, 1], r"rows must be distinct and in 0\.\.1, got \[1, 1\]"),
    ],
)
def test_rows(rows, message):
    learner = started()
    refuses(ValueError, message, learner.select, rows)
    learner.select()
    refuses(ValueError, message, learner.update, [0], [0.1], rows)


def test_plain_numbers_are_welcome_in_update():
    learner = started(1)
    for arms, rewards in ((0, 0.5), ([1], [1]), (np.int64(2), np.float32(0.25)), ((0,), (True,))):
        learner.select()
        learner.update(arms, rewards)
    np.testing.assert_array_equal(learner.posterior.counts, [[2, 1, 1]])
    np.testing.assert_array_equal(learner.posterior.sums, [[1.5, 1.0, 0.25]])


# Mixed array libraries


def test_mixed_array_libraries(torch):
    message = r"arrays of one library are needed \(all NumPy or all torch\), got numpy\.ndarray, torch\.Tensor"
    features = torch.eye(3, dtype=torch.float64)
    refuses(TypeError, message, Instance, features, theta=np.zeros(3), horizon=10, noise=0.1)
    refuses(TypeError, message, Instance, GOOD, means=torch.zeros(3), horizon=10, noise=0.1)
    learner = LinUCB().start(problem())
    learner.select()
    refuses(TypeError, message, learner.update, torch.asarray([0]), np.array([0.1]))
    refuses(TypeError, message, learner.update, np.array([0]), torch.asarray([0.1]))
    learner.update([0], [0.1])
    learner = LinUCB().start(problem(features=features))
    arms = learner.select()
    refuses(TypeError, message, learner.update, arms, np.array([0.1]))
    learner.update(arms, [0.1])  # plain numbers belong to no library
    assert learner.posterior.counts.sum() == 1


def test_update_in_torch(torch):
    learner = LinUCB().start(problem(features=torch.eye(3, dtype=torch.float64)))
    refuses(NotSelectedError, "update before select", learner.update, torch.asarray([0]), torch.asarray([0.1]))
    learner.select()
    refuses(ValueError, r"arms must be in 0\.\.2, got 3", learner.update, torch.asarray([3]), torch.asarray([0.1]))
    refuses(ValueError, "rewards must be finite, got nan", learner.update, torch.asarray([0]), torch.asarray([nan]))
    refuses(TypeError, "arms must be integers", learner.update, torch.asarray([0.0]), torch.asarray([0.1]))
    refuses(ValueError, r"rewards must have shape \(1,\)", learner.update, torch.asarray([0]), torch.zeros(2))
    learner.update(torch.asarray([0]), torch.asarray([0.5]))
    assert learner.posterior.sums.tolist() == [[0.5, 0.0, 0.0]]
