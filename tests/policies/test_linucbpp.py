"""LinUCB++: radii, the modified problem of an iteration, mixtures and what `describe` tells of a run."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import LinUCB, LinUCBPlusPlus
from driving import ALL, Driver, in_torch, small, told
from reference import LinUCBPP, usable_rows

SIGMA = 0.1


def solver_of(learner, r=0):
    return learner._solvers[int(learner._iteration[r])]


def levels_of(instance):
    """Level of every arm, None for a set that is not expressive."""
    actions = instance.problem.actions
    return np.repeat(actions.levels, actions.base_arms) if actions.expressive else None


# Radii


def test_radii_c11():
    """K = 1200, T = 2500, beta = 1/2, range .3: iterations of 128, 256, ... rounds with K + i - 1 arms."""
    features = np.random.default_rng(0).uniform(-0.4, 0.4, (1200, 5))
    problem = adadim.Problem(features, horizon=2500, noise=SIGMA, reward_range=0.3)
    learner = LinUCBPlusPlus().start(problem)
    solvers = [learner._solver(iteration) for iteration in learner.schedule.iterations]
    assert [solver.radius for solver in solvers] == pytest.approx(
        [0.548840, 0.567483, 0.585532, 0.603041, 0.620056], abs=1e-6
    )
    for i, solver in enumerate(solvers):
        assert solver.virtual_radius(ALL).shape == (1, i)
    # The first iteration has no mixture-arm; its radius is what one would have.
    virtual = [learner.policy.width_multiplier(math.sqrt(0.1**2 + 0.15**2), 128, 1200, 2500)]
    virtual += [solver.virtual_radius(ALL)[0, 0] for solver in solvers[1:]]
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
    policy = LinUCBPlusPlus(bonus=bonus, rescale=rescale, ties="lowest")
    driver = Driver(policy, instance)
    learner, mu = driver.learner, instance.means[0]
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
        asked = driver.ask()
        arm, column = int(asked[2][0]), int(learner._choice[0])
        reference.advance()
        scores = solver_of(learner).scores(ALL)[0]
        np.testing.assert_allclose(scores, reference.solver.scores(), rtol=0, atol=1e-12)
        assert reference.choose() == column
        reference.draw = lambda j, arm=arm: arm
        assert reference.play(column) == arm
        virtual += column >= instance.problem.arms
        driver.tell(*asked)
        reference.update(arm, driver.rewards[0][-1])
    assert virtual > 0
    for j in range(2):
        np.testing.assert_allclose(learner.mixtures.q[j][0], reference.mixtures.flat(j), rtol=0, atol=1e-12)


def test_restart_and_sizes_of_every_iteration():
    """A fresh solver on K + i - 1 arms in d_i features; nothing learnt before it."""
    instance = small(dim=100, horizon=500)
    driver = Driver(LinUCBPlusPlus(ties="lowest"), instance)
    learner, seen = driver.learner, []
    for t in range(500):
        asked = driver.ask()
        if t in (0, 64, 192, 448):
            solver = solver_of(learner)
            i = len(seen)
            seen.append(solver)
            assert solver.posterior.actions.dim == learner.schedule.dims[i] == (64, 32, 16, 8)[i]
            assert solver.scores(ALL).shape == (1, 40 + i)
            assert solver.posterior.counts.sum() == 0
            assert solver.pulls.sum() == 0
            assert len(learner.mixtures.q) == i
        assert solver_of(learner) is seen[-1]
        driver.tell(*asked)
    assert len({id(solver) for solver in seen}) == 4
    assert len(learner.mixtures.q) == 3
    assert len(learner._solvers) == 1


@pytest.mark.parametrize("bonus", ["norm", "squared"])
@pytest.mark.parametrize(("horizon", "beta", "dim"), [(300, 0.95, 24), (60, 0.8, 64)])
def test_single_iteration_is_linucb(horizon, beta, dim, bonus):
    instance = small(range(3), horizon=horizon, dim=100 if dim == 64 else 24)
    driver = Driver(LinUCBPlusPlus(beta=beta, bonus=bonus), instance, seed=5).run()
    assert len(driver.learner.schedule.iterations) == 1
    assert driver.learner.describe()[0]["dim"] == dim
    assert driver.arms == Driver(LinUCB(dim=dim, bonus=bonus), instance, seed=5).run().arms
    assert driver.arms != Driver(LinUCB(dim=dim // 2, bonus=bonus), instance, seed=5).run().arms


def test_first_iteration_is_linucb():
    driver = Driver(LinUCBPlusPlus(), small(range(3)), seed=5).run(65)
    plain = Driver(LinUCB(), small(range(3), horizon=64), seed=5).run()
    assert [arms[:64] for arms in driver.arms] == plain.arms
    assert driver.learner.describe()[0]["iteration"] == 2


def test_rescaled_arms():
    """The longest truncated arm of every replication gets norm 1, like the mixture-arms."""
    learner = LinUCBPlusPlus(rescale=True).start(small(range(3)).problem)
    plain = LinUCBPlusPlus().start(small(range(3)).problem)
    last = learner.schedule.iterations[2]
    scaled, given = (which._solver(last).actions for which in (learner, plain))
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
    driver = Driver(LinUCBPlusPlus(solver=solver, radius=0.3), instance).run()
    learner, actions = driver.learner, instance.problem.actions
    assert learner.expressive
    assert learner.schedule.dims[:5] == (40, 32, 16, 8, 4)
    levels = levels_of(instance)
    features = actions.dense(0)
    used = set()
    for r, iteration in itertools.product(range(2), learner.schedule.iterations):
        span = slice(iteration.start, iteration.stop)
        choices = np.array(driver.choices[r][span])
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
    solver = loose._solver(loose.schedule.iterations[2])
    assert solver.actions.levels == (8, 16)
    assert np.asarray(solver.pull)[10] == 30
    tight = LinUCBPlusPlus().start(closed.problem)
    solver = tight._solver(tight.schedule.iterations[2])
    assert np.asarray(solver.pull)[:20].tolist() == list(range(20))


# SupLinUCB inside


@pytest.mark.parametrize("noise", [0.1, 0.002])
@pytest.mark.parametrize("expressive", [False, True])
def test_suplinucb_solver_in_lock_step(noise, expressive):
    """Same choices and level sizes as SupLinUCB on the augmented features; large noise explores, small exploits."""
    instance = small(dim=40, arms=12, expressive=expressive, noise=noise)
    driver = Driver(LinUCBPlusPlus(solver="suplinucb", ridge=1.0, ties="lowest"), instance)
    learner, mu = driver.learner, instance.means[0]
    features = instance.problem.actions.dense(0)
    reference = LinUCBPP(
        features,
        300,
        noise,
        1.0,
        None,
        mean_range=float(np.ptp(mu)),
        levels=levels_of(instance),
        solver="suplinucb",
        ties="lowest",
    )
    exploits = 0
    for t in range(300):
        asked = driver.ask()
        arm, column = int(asked[2][0]), int(learner._choice[0])
        reference.advance()
        assert reference.choose() == column
        reference.draw = lambda j, arm=arm: arm
        reference.play(column)
        levels = solver_of(learner).levels
        iteration = int(learner._iteration[0])
        driver.tell(*asked)
        reference.update(arm, driver.rewards[0][-1])
        assert levels.count == math.ceil(math.log(learner.schedule.lengths[iteration]))
        for level, (means, width2) in enumerate(reference.solver.predictions):
            ours = levels.statistics(level, ALL)
            np.testing.assert_allclose([ours[0][0], ours[1][0]], [means, width2], rtol=0, atol=1e-12)
        assert levels.sizes[0].tolist() == reference.solver.level_sizes
        assert levels.exploits[0] == reference.solver.exploit_rounds
        rounds = t + 1 - learner.schedule.iterations[iteration].start
        assert levels.sizes.sum() + levels.exploits.sum() == rounds
        real = sum(int(state.counts.sum()) for state in levels._posteriors if state is not None)
        assert real + levels._virtual[:, 0].sum() == levels.sizes.sum()
        exploits += levels.exploits[0]
    assert (exploits > 0) == (noise < 0.1)
    assert max(driver.choices[0]) >= instance.problem.arms


def test_suplinucb_widths():
    instance = told(small(range(2)), range_known=False)
    driver = Driver(LinUCBPlusPlus(solver="suplinucb", ridge=1.0), instance).run(200)
    solver = solver_of(driver.learner)
    radii = solver.radii(ALL)
    assert radii.shape == (2, 42)
    assert (radii[:, :40] == solver.radius).all()
    scales = driver.learner.virtual_noise(2)
    np.testing.assert_allclose(radii[:, 40:], scales * solver.radius / SIGMA, rtol=1e-12)
    np.testing.assert_array_equal(solver.radii(np.array([1])), radii[1:])


# Mixtures and regret


def mixture_regret(driver, r, steps):
    """Regret of the first steps with a mixture-arm's pull counted by its mean."""
    learner, arms = driver.learner, driver.instance.problem.arms
    gaps = driver.instance.best[r] - driver.instance.means[r]
    virtual = driver.instance.best[r] - learner.mixtures.mean(driver.instance.means)[r]
    return sum(gaps[c] if c < arms else virtual[c - arms] for c in driver.choices[r][:steps])


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
    driver = Driver(LinUCBPlusPlus(beta=beta, solver=solver, radius=0.3), instance, seed=seed).run()
    learner = driver.learner
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
            assert max(driver.choices[r][iteration.start : iteration.stop]) < arms + iteration.index - 1
        for choice, arm in zip(driver.choices[r], driver.arms[r], strict=True):
            assert choice == arm if choice < arms else learner.mixtures.q[choice - arms][r, arm] > 0
        # Section 4.8 (4): the regret of a finished iteration is its length times the gap of its mixture.
        if complete:
            gaps = instance.best[r] - learner.mixtures.mean(instance.means)[r]
            lengths = np.array([iteration.length for iteration in complete])
            ends = [iteration.stop for iteration in complete]
            regrets = [mixture_regret(driver, r, end) for end in ends]
            np.testing.assert_allclose(regrets, np.cumsum(lengths * gaps), rtol=0, atol=1e-9)


def test_regret_of_simulate_is_that_of_the_arms_pulled():
    instance = small(range(3))
    outcome = adadim.simulate(LinUCBPlusPlus(), instance, seed=2, record=300)
    driver = Driver(LinUCBPlusPlus(), instance, seed=2).run()
    pulled = np.array(driver.arms)
    gaps = (instance.best[:, None] - instance.means)[np.arange(3)[:, None], pulled]
    np.testing.assert_allclose(outcome.regret, np.cumsum(gaps, axis=1), rtol=0, atol=1e-9)
    assert (np.diff(outcome.regret) >= 0).all()
    # The mixture's mean instead of the arm drawn is another number, of the same expectation.
    assert abs(outcome.final[0] - mixture_regret(driver, 0, 300)) > 1e-3


# Unknown range


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_unknown_range_takes_the_spread_of_the_rewards(library, request):
    instance = told(small(range(3)), range_known=False)
    if library == "torch":
        instance = in_torch(instance, request.getfixturevalue("torch"))
    driver = Driver(LinUCBPlusPlus(), instance).run()
    rewards = np.array(driver.rewards)
    spread = np.stack([rewards[:, :64].std(axis=1), rewards[:, 64:192].std(axis=1)], axis=1)
    assert (spread > SIGMA).all()
    np.testing.assert_allclose(np.asarray(driver.learner.virtual_noise(2)), spread, rtol=1e-9)
    solver = solver_of(driver.learner)
    expected = spread * math.sqrt(2 * math.log(2 * 256**1.5 * 42))
    np.testing.assert_allclose(np.asarray(solver.virtual_radius(ALL)), expected, rtol=1e-9)


def test_unknown_range_is_never_below_the_noise():
    instance = adadim.Instance(np.eye(4), means=[0.3] * 4, horizon=300, noise=SIGMA, reward_range="unknown")
    learner = LinUCBPlusPlus().start(instance.problem)
    for _ in range(300):
        arms = learner.select()
        learner.update(arms, [0.3])
    np.testing.assert_array_equal(learner.virtual_noise(2), [[SIGMA, SIGMA]])


# Batches and describe


@pytest.mark.parametrize("range_known", [True, False])
@pytest.mark.parametrize("solver", ["linucb", "suplinucb"])
def test_replications_out_of_step_run_as_if_alone(solver, range_known):
    policy = LinUCBPlusPlus(solver=solver, radius="noise")
    together = Driver(policy, told(small(range(5)), range_known)).stagger(np.random.default_rng(0))
    assert together.lead > 128
    for r in range(5):
        alone = Driver(policy, told(small([r]), range_known)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.choices[r] == alone.choices[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]
        for ours, theirs in zip(together.learner.mixtures.q, alone.learner.mixtures.q, strict=True):
            np.testing.assert_array_equal(ours[r], theirs[0])


def test_describe_follows_the_run():
    instance = small([4, 7])
    driver = Driver(LinUCBPlusPlus(), instance)
    before = driver.learner.describe()[1]
    assert before == {
        "replication": 7,
        "iteration": 1,
        "dim": 24,
        "rounds": 0,
        "rounds of this iteration": 0,
        "draws of each mixture-arm": [],
    }
    starts = [0, 64, 192]
    for t in range(1, 301):
        driver.step()
        index = sum(t >= start for start in starts)
        for r, entry in enumerate(driver.learner.describe()):
            assert entry["replication"] == (4, 7)[r]
            assert (entry["iteration"], entry["dim"]) == (index, (24, 24, 16)[index - 1])
            assert (entry["rounds"], entry["rounds of this iteration"]) == (t, t - starts[index - 1])
            drawn = [driver.choices[r].count(40 + j) for j in range(index - 1)]
            assert entry["draws of each mixture-arm"] == drawn
    assert all(sum(entry["draws of each mixture-arm"]) > 0 for entry in driver.learner.describe())


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
    assert learner.describe()[0]["draws of each mixture-arm"] == []


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
