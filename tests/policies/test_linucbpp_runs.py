"""Runs of LinUCB++: mixtures and regret, an unknown range, batches, and what `describe` says."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import LinUCBPlusPlus
from iterated_learners import mixture_means, solver_of
from small_problems import in_torch, small, with_range
from stepping import Stepper

SIGMA = 0.1


# Mixtures and regret


def mixture_regret(stepper, r, steps):
    """Regret of the first steps with a mixture-arm's pull counted by its mean."""
    learner, arms = stepper.learner, stepper.instance.problem.arms
    gaps = stepper.instance.best[r] - stepper.instance.means[r]
    virtual = stepper.instance.best[r] - mixture_means(learner.mixtures, stepper.instance.means)[r]
    return sum(gaps[c] if c < arms else virtual[c - arms] for c in stepper.choices[r][:steps])


@settings(max_examples=25)
@given(
    horizon=st.integers(2, 220),
    beta=st.floats(0.5, 0.8),
    arms=st.integers(1, 8),
    dim=st.integers(1, 12),
    solver=st.sampled_from(["linucb", "suplinucb"]),
    seed=st.integers(0, 1000),
)
def test_invariants_of_a_run(horizon, beta, arms, dim, solver, seed):
    instance = small(range(2), horizon=horizon, arms=arms, dim=dim, intrinsic_dim=min(2, dim), seed=seed)
    stepper = Stepper(LinUCBPlusPlus(beta=beta, solver=solver, radius=0.3), instance, seed=seed).run()
    learner = stepper.learner
    plan = learner.schedule
    assert all(a >= b for a, b in itertools.pairwise(plan.dims))
    assert all(a <= b for a, b in itertools.pairwise(plan.lengths))
    assert all(d * n <= 2 ** (2 * plan.p + 2) for d, n in zip(plan.dims, plan.lengths, strict=True))
    complete = [iteration for iteration in plan.iterations if iteration.complete]
    assert len(learner.mixtures.q) == len(complete)
    for law in learner.mixtures.q:
        assert (law >= 0).all()
        np.testing.assert_allclose(law.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    for r in range(2):
        # An iteration may choose the mixtures of those before it, and no other.
        for iteration in plan.iterations:
            assert max(stepper.choices[r][iteration.start : iteration.stop]) < arms + iteration.index - 1
        for choice, arm in zip(stepper.choices[r], stepper.arms[r], strict=True):
            assert choice == arm if choice < arms else learner.mixtures.q[choice - arms][r, arm] > 0
        # Section 4.8 (4): the regret of a finished iteration is its length times the gap of its mixture.
        if complete:
            gaps = instance.best[r] - mixture_means(learner.mixtures, instance.means)[r]
            lengths = np.array([iteration.length for iteration in complete])
            ends = [iteration.stop for iteration in complete]
            regrets = [mixture_regret(stepper, r, end) for end in ends]
            np.testing.assert_allclose(regrets, np.cumsum(lengths * gaps), rtol=0, atol=1e-9)


def test_regret_of_simulate_is_that_of_the_arms_pulled():
    instance = small(range(3))
    outcome = adadim.simulate(LinUCBPlusPlus(), instance, seed=2, record=300)
    stepper = Stepper(LinUCBPlusPlus(), instance, seed=2).run()
    pulled = np.array(stepper.arms)
    gaps = (instance.best[:, None] - instance.means)[np.arange(3)[:, None], pulled]
    np.testing.assert_allclose(outcome.regret, np.cumsum(gaps, axis=1), rtol=0, atol=1e-9)
    assert (np.diff(outcome.regret) >= 0).all()
    # The mixture's mean instead of the arm drawn is another number, of the same expectation.
    assert abs(outcome.final[0] - mixture_regret(stepper, 0, 300)) > 1e-3


# Unknown range


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_unknown_range_takes_the_spread_of_the_rewards(library, request):
    instance = with_range(small(range(3)), known=False)
    if library == "torch":
        instance = in_torch(instance, request.getfixturevalue("torch"))
    stepper = Stepper(LinUCBPlusPlus(), instance).run()
    rewards = np.array(stepper.rewards)
    spread = np.stack([rewards[:, :64].std(axis=1), rewards[:, 64:192].std(axis=1)], axis=1)
    assert (spread > SIGMA).all()
    np.testing.assert_allclose(np.asarray(stepper.learner.virtual_noise(2)), spread, rtol=1e-9)
    solver = solver_of(stepper.learner)
    expected = spread * math.sqrt(2 * math.log(2 * 256**1.5 * 42))
    np.testing.assert_allclose(np.asarray(solver.virtual_radius(stepper.learner.everyone)), expected, rtol=1e-9)


def test_unknown_range_is_never_below_the_noise():
    instance = adadim.Instance(np.eye(4), means=[0.3] * 4, horizon=300, noise=SIGMA, reward_range="unknown")
    learner = LinUCBPlusPlus().start(instance.problem)
    for _ in range(300):
        learner.update(learner.select(), 0.3)
    np.testing.assert_array_equal(learner.virtual_noise(2), [[SIGMA, SIGMA]])


# Batches and describe


def short(replications):
    """Iterations of 32, 64 and 54 rounds."""
    return small(replications, horizon=150)


@pytest.mark.parametrize("range_known", [True, False])
@pytest.mark.parametrize("solver", ["linucb", "suplinucb"])
def test_replications_out_of_step_run_as_if_alone(solver, range_known):
    policy = LinUCBPlusPlus(solver=solver, radius="noise")
    together = Stepper(policy, with_range(short(range(4)), range_known)).stagger(np.random.default_rng(0))
    assert together.lead > 64
    for r in range(4):
        alone = Stepper(policy, with_range(short([r]), range_known)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.choices[r] == alone.choices[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]
        for ours, theirs in zip(together.learner.mixtures.q, alone.learner.mixtures.q, strict=True):
            np.testing.assert_array_equal(ours[r], theirs[0])


def test_describe_follows_the_run():
    instance = small([4, 7])
    stepper = Stepper(LinUCBPlusPlus(), instance)
    before = stepper.learner.describe()[1]
    assert before == {
        "replication": 7,
        "iteration": 1,
        "dim": 24,
        "rounds": 0,
        "rounds_of_this_iteration": 0,
        "draws_of_each_mixture_arm": [],
    }
    starts = [0, 64, 192]
    for t in range(1, 301):
        stepper.step()
        index = sum(t >= start for start in starts)
        for r, entry in enumerate(stepper.learner.describe()):
            assert entry["replication"] == (4, 7)[r]
            assert (entry["iteration"], entry["dim"]) == (index, (24, 24, 16)[index - 1])
            assert (entry["rounds"], entry["rounds_of_this_iteration"]) == (t, t - starts[index - 1])
            drawn = [stepper.choices[r].count(40 + j) for j in range(index - 1)]
            assert entry["draws_of_each_mixture_arm"] == drawn
    assert all(sum(entry["draws_of_each_mixture_arm"]) > 0 for entry in stepper.learner.describe())


# Edges


@pytest.mark.parametrize("horizon", [1, 2, 3, 5])
@pytest.mark.parametrize("changes", [{}, {"radius": "paper"}, {"solver": "suplinucb", "ridge": 1.0}])
def test_short_horizons(horizon, changes):
    outcome = adadim.simulate(LinUCBPlusPlus(**changes), small(horizon=horizon, arms=6, dim=5))
    assert outcome.pulls.sum() == horizon


def test_a_finished_last_iteration_goes_on():
    """T = 60 at beta .8 is a single iteration; rounds beyond the horizon stay in it."""
    learner = LinUCBPlusPlus(beta=0.8).start(small(horizon=60).problem)
    for _ in range(70):
        learner.update(learner.select(), [0.0])
    assert len(learner.mixtures.q) == 1
    assert learner.describe()[0]["iteration"] == 1
    assert learner.describe()[0]["draws_of_each_mixture_arm"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"beta": 0.4},
        {"beta": 1.0},
        {"beta": True},
        {"ridge": 0.0},
        {"radius": "oful"},
        {"radius": -1.0},
        {"scale": 0.0},
        {"theta_norm": 0.0},
        {"bonus": "cubed"},
        {"solver": "ucb"},
        {"solver": "suplinucb", "bonus": "squared"},
        {"ties": "highest"},
    ],
)
def test_bad_hyper_parameters(changes):
    with pytest.raises(ValueError, match=next(reversed(changes))):
        LinUCBPlusPlus(**changes)
