"""LinUCB++: radii, and the modified problem of an iteration, on plain and on expressive sets."""

import itertools
import math

import numpy as np
import pytest

import adadim
from adadim import LinUCB, LinUCBPlusPlus
from adadim.policies.released import ReleasedLinUCBPlusPlus
from iterated_learners import levels_of, solver_of
from reference import LinUCBPP, usable_rows
from small_problems import small
from stepping import Stepper

SIGMA = 0.1


# Radii


def test_radii_c11():
    """K = 1200, T = 2500, beta = 1/2, range .3: iterations of 128, 256, ... rounds with K + i - 1 arms."""
    features = np.random.default_rng(0).uniform(-0.4, 0.4, (1200, 5))
    problem = adadim.Problem(features, horizon=2500, noise=SIGMA, reward_range=0.3)
    learner = LinUCBPlusPlus().start(problem)
    solvers = [learner.solver(i) for i in range(len(learner.schedule.iterations))]
    assert [solver.radius for solver in solvers] == pytest.approx(
        [0.548840, 0.567483, 0.585532, 0.603041, 0.620056], abs=1e-6
    )
    for i, solver in enumerate(solvers):
        assert solver.virtual_radius(learner.everyone).shape == (1, i)
    # The first iteration has no mixture-arm; its radius is what one would have.
    virtual = [learner.policy.width_multiplier(math.sqrt(0.1**2 + 0.15**2), 128, 1200, 2500)]
    virtual += [solver.virtual_radius(learner.everyone)[0, 0] for solver in solvers[1:]]
    assert virtual == pytest.approx([0.989435, 1.023044, 1.055583, 1.087148, 1.117822], abs=1e-6)


def test_range_is_per_replication():
    problem = adadim.Problem(np.ones((2, 3, 5)) / 3, horizon=300, noise=SIGMA, reward_range=[0.0, 0.3])
    learner = LinUCBPlusPlus().start(problem)
    noise = learner.virtual_noise(2)
    np.testing.assert_allclose(noise, [[0.1, 0.1], [math.sqrt(0.0325)] * 2], rtol=1e-12)


def test_radius_rules():
    """Rules of section 1.4, for the third iteration of T = 2500: 512 rounds, 1202 arms."""
    noise = 0.2

    def radius(**changes):
        return LinUCBPlusPlus(**changes).width_multiplier(noise, 512, 1202, 2500)

    plain = noise * math.sqrt(2 * math.log(2 * 512**1.5 * 1202))
    assert radius() == pytest.approx(plain, rel=1e-12)
    assert radius(scale=0.5) == pytest.approx(plain / 2, rel=1e-12)
    assert radius(radius="full", ridge=0.25, theta_norm=3.0) == pytest.approx(plain + 1.5, rel=1e-12)
    paper = 2 * math.sqrt(math.log(2 * 512**1.5 * 1202)) + 2 * math.log(2500)
    assert radius(radius="paper") == pytest.approx(paper, rel=1e-12)
    assert radius(radius=0.7, scale=2.0) == pytest.approx(1.4, rel=1e-12)


# The modified problem


@pytest.mark.parametrize("expressive", [False, True])
@pytest.mark.parametrize(("bonus", "rescale"), [("norm", False), ("squared", True), ("squared", False)])
def test_scalars_choose_as_the_augmented_matrix_c12(bonus, rescale, expressive):
    """In lock step with a LinUCB that has a real column for every mixture: same scores, same choices."""
    instance = small(expressive=True, dim=40, arms=12) if expressive else small()
    policy = (ReleasedLinUCBPlusPlus if rescale else LinUCBPlusPlus)(bonus=bonus, ties="lowest")
    stepper = Stepper(policy, instance)
    learner, mu = stepper.learner, instance.means[0]
    features = instance.problem.actions.dense(0)
    if rescale:
        features = features * (1 - 1e-13)  # norm 1 + rounding would take the reference's branch for longer arms
    reference = LinUCBPP(
        features,
        300,
        SIGMA,
        0.1,
        None,
        bonus=bonus,
        rescale=rescale,
        mean_range=float(np.ptp(mu)),
        levels=levels_of(instance),
        ties="lowest",
    )
    virtual = 0
    for _ in range(300):
        decision = stepper.ask()
        arm, column = int(decision.arms[0]), int(decision.memo["choice"][0])
        reference.advance()
        scores = solver_of(learner).scores(learner.everyone)[0]
        np.testing.assert_allclose(scores, reference.solver.scores(), rtol=0, atol=1e-12)
        assert reference.choose() == column
        reference.draw = lambda j, arm=arm: arm
        assert reference.play(column) == arm
        virtual += column >= instance.problem.arms
        stepper.tell(decision)
        reference.update(arm, stepper.rewards[0][-1])
    assert virtual > 0
    for j in range(2):
        np.testing.assert_allclose(learner.mixtures.q[j][0], reference.mixtures.flat(j), rtol=0, atol=1e-12)


def test_restart_and_sizes_of_every_iteration():
    """A fresh solver on K + i - 1 arms in d_i features; nothing learnt before it."""
    instance = small(dim=100, horizon=500)
    stepper = Stepper(LinUCBPlusPlus(ties="lowest"), instance)
    learner, seen = stepper.learner, []
    for t in range(500):
        decision = stepper.ask()
        if t in (0, 64, 192, 448):
            solver = solver_of(learner)
            i = len(seen)
            seen.append(solver)
            assert solver.reals.regression.actions.dim == learner.schedule.dims[i] == (64, 32, 16, 8)[i]
            assert solver.scores(learner.everyone).shape == (1, 40 + i)
            assert solver.reals.regression.counts.sum() == 0
            assert solver.pulls.sum() == 0
            assert len(learner.mixtures.q) == i
        assert solver_of(learner) is seen[-1]
        stepper.tell(decision)
    assert len({id(solver) for solver in seen}) == 4
    assert len(learner.mixtures.q) == 3
    assert len(learner.solvers) == 1


@pytest.mark.parametrize("bonus", ["norm", "squared"])
@pytest.mark.parametrize(("horizon", "beta", "dim"), [(300, 0.95, 24), (60, 0.8, 64)])
def test_single_iteration_is_linucb(horizon, beta, dim, bonus):
    instance = small(range(3), horizon=horizon, dim=100 if dim == 64 else 24)
    stepper = Stepper(LinUCBPlusPlus(beta=beta, bonus=bonus), instance, seed=5).run()
    assert len(stepper.learner.schedule.iterations) == 1
    assert stepper.learner.describe()[0]["dim"] == dim
    assert stepper.arms == Stepper(LinUCB(dim=dim, bonus=bonus), instance, seed=5).run().arms
    assert stepper.arms != Stepper(LinUCB(dim=dim // 2, bonus=bonus), instance, seed=5).run().arms


def test_first_iteration_is_linucb():
    stepper = Stepper(LinUCBPlusPlus(), small(range(3)), seed=5).run(65)
    plain = Stepper(LinUCB(), small(range(3), horizon=64), seed=5).run()
    assert [arms[:64] for arms in stepper.arms] == plain.arms
    assert stepper.learner.describe()[0]["iteration"] == 2


def test_rescaled_arms():
    """The longest truncated arm of every replication gets norm 1, like the mixture-arms."""
    learner = ReleasedLinUCBPlusPlus().start(small(range(3)).problem)
    plain = LinUCBPlusPlus().start(small(range(3)).problem)
    scaled, given = (which.solver(2).actions for which in (learner, plain))
    assert scaled.dim == 16
    longest = np.sqrt(given.squared_norms().max(axis=1))
    assert (longest < 0.99).all()
    np.testing.assert_allclose(scaled.squared_norms().max(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(scaled.base * longest[:, None, None], given.base, rtol=0, atol=1e-15)


# Expressive sets


@pytest.mark.parametrize("solver", ["linucb", "suplinucb"])
def test_expressive_sets_pull_arms_that_exist_in_the_iteration(solver):
    """Levels 8, 16, 32, 40 and dimensions 40, 32, 16, 8, 4: an arm pulled is zero after d_i features.

    Dimension 4 is below every level: the shortest stands in.
    """
    instance = small(range(2), dim=40, arms=10, horizon=1000, expressive=True, levels=[8, 16, 32, 40])
    stepper = Stepper(LinUCBPlusPlus(solver=solver, radius=0.3), instance).run()
    learner, actions = stepper.learner, instance.problem.actions
    assert learner.expressive
    assert learner.schedule.dims[:5] == (40, 32, 16, 8, 4)
    levels = levels_of(instance)
    features = actions.dense(0)
    used = set()
    for r, iteration in itertools.product(range(2), learner.schedule.iterations):
        span = slice(iteration.start, iteration.stop)
        choices = np.array(stepper.choices[r][span])
        real = choices[choices < 40]
        allowed = usable_rows(levels, 40, iteration.dim)
        assert np.isin(real, allowed).all()
        if iteration.dim >= 8:
            assert not features[real, iteration.dim :].any()
        used |= {(iteration.index, int(levels[k])) for k in real}
    assert {(1, 40), (2, 32), (3, 16), (4, 8)} <= used
    for j, law in enumerate(learner.mixtures.q):
        beyond = levels > max(learner.schedule.dims[: j + 1])
        assert not law[:, beyond].any()


def test_expressive_flag():
    closed, plain = small(dim=40, arms=10, expressive=True), small(dim=40, arms=10)
    assert LinUCBPlusPlus().start(closed.problem).expressive
    assert not LinUCBPlusPlus().start(plain.problem).expressive
    with pytest.raises(ValueError, match="closed under truncation"):
        LinUCBPlusPlus(expressive=True).start(plain.problem)
    loose = LinUCBPlusPlus(expressive=False).start(closed.problem)
    assert not loose.expressive
    # Seen through 16 features, levels 8 and 40 (which stands for 16 and 32 as well) remain.
    solver = loose.solver(2)
    assert solver.actions.levels == (8, 16)
    assert np.asarray(solver.real)[10] == 30
    tight = LinUCBPlusPlus().start(closed.problem)
    solver = tight.solver(2)
    assert np.asarray(solver.real)[:20].tolist() == list(range(20))
