import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim import theory

betas = st.floats(0.5, 1.0, exclude_max=True)
alphas = st.floats(0.0, 1.0)
horizons = st.integers(1, 10**7)


def ends(plan):
    return [iteration.stop for iteration in plan.iterations]


# Hardness and schedule


def test_hardness():
    found = [theory.hardness(d, 2500) for d in (5, 10, 12, 15, 20, 25, 30, 35)]
    expected = [0.2057, 0.2943, 0.3176, 0.3461, 0.3829, 0.4114, 0.4347, 0.4544]
    assert found == pytest.approx(expected, abs=5e-5)
    assert theory.hardness(1, 2) == 0.0
    assert theory.hardness(4, 2) == pytest.approx(2.0)


def test_schedule_of_the_paper_experiments():
    plan = theory.schedule(2500, 0.5, 600)
    assert plan.p == 6
    assert plan.dims == (128, 64, 32, 16, 8, 4)
    assert plan.lengths == (128, 256, 512, 1024, 2048, 2500)
    assert ends(plan) == [128, 384, 896, 1920, 2500]
    assert [iteration.lifted_dim for iteration in plan.iterations] == [128, 65, 34, 19, 12]
    assert [iteration.complete for iteration in plan.iterations] == [True] * 4 + [False]
    assert plan.iterations[4].stop - plan.iterations[4].start == 580


def test_schedule_larger_beta():
    plan = theory.schedule(2500, 0.7, 600)
    assert plan.p == 8
    assert plan.dims[:3] == (512, 256, 128)
    assert plan.lengths[:4] == (512, 1024, 2048, 2500)
    assert ends(plan) == [512, 1536, 2500]
    assert plan.iterations[2].stop - plan.iterations[2].start == 964
    plan = theory.schedule(2500, 0.9, 600)
    assert (plan.p, plan.dims[0], plan.lengths[0]) == (11, 600, 2500)
    assert ends(plan) == [2500]
    assert plan.iterations[0].complete


def test_schedule_other_horizons():
    plan = theory.schedule(10_000, 0.5, 10_000)
    assert (plan.p, plan.dims[0]) == (7, 256)
    assert ends(plan) == [256, 768, 1792, 3840, 7936, 10_000]
    assert plan.iterations[-1].dim == 8
    plan = theory.schedule(1024, 0.5, 600)
    assert (plan.p, ends(plan), plan.iterations[-1].dim) == (5, [64, 192, 448, 960, 1024], 4)
    plan = theory.schedule(4096, 0.5, 600)
    last = plan.iterations[-1]
    assert (plan.p, last.index, last.start, last.stop) == (6, 6, 3968, 4096)
    plan = theory.schedule(100, 0.5, 600)
    assert (plan.dims, plan.lengths, ends(plan)) == ((32, 16, 8, 4), (32, 64, 100, 100), [32, 96, 100])
    plan = theory.schedule(16, 0.5, 600)
    assert (plan.p, ends(plan)) == (2, [8, 16])


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_schedule_of_tiny_horizons(horizon):
    plan = theory.schedule(horizon, 0.5, 600)
    assert (plan.p, plan.dims, plan.lengths, ends(plan)) == (1, (4,), (horizon,), [horizon])


@pytest.mark.parametrize(
    ("log2_horizon", "beta", "p"), [(20, 0.55, 11), (10, 0.7, 7), (15, 0.6, 9), (10, 0.9, 9), (25, 0.56, 14)]
)
def test_p_at_exact_powers_of_two(log2_horizon, beta, p):
    assert theory.schedule(2**log2_horizon, beta, 600).p == p


@pytest.mark.parametrize("p", range(1, 12))
def test_uncapped_total(p):
    # At T = 4^p, beta = 1/2, only the last length is capped, and it is 2^(2p) = T anyway.
    lengths = theory.schedule(4**p, 0.5, 10**9).lengths
    assert sum(lengths) == 2 ** (2 * p + 1) - 2 ** (p + 1)
    assert p != 6 or sum(lengths) == 8064


@given(horizon=horizons, beta=betas, dim=st.integers(1, 10**6))
def test_schedule_invariants(horizon, beta, dim):
    plan = theory.schedule(horizon, beta, dim)
    dims, lengths = np.array(plan.dims), np.array(plan.lengths)
    assert len(dims) == len(lengths) == plan.p >= 1
    assert np.all(np.diff(dims) <= 0)
    assert np.all(np.diff(lengths) >= 0)
    assert np.all(dims * lengths <= 2 ** (2 * plan.p + 2))
    assert 2 ** (2 * plan.p + 2) <= 16.0 * horizon ** (2 * beta) * (1 + 1e-8)
    assert dims[-1] == min(4, dim)


@given(horizon=horizons, beta=betas)
def test_iterations_tile_the_horizon(horizon, beta):
    plan = theory.schedule(horizon, beta, 600)
    starts = [iteration.start for iteration in plan.iterations]
    assert starts == [0, *ends(plan)[:-1]]
    assert ends(plan)[-1] == horizon
    for i, iteration in enumerate(plan.iterations, start=1):
        expected = (i, plan.dims[i - 1], plan.lengths[i - 1])
        assert (iteration.index, iteration.dim, iteration.length) == expected
        assert 0 < iteration.stop - iteration.start <= iteration.length
        assert iteration.complete or i == len(plan.iterations)


@given(horizon=st.integers(2, 10**9), beta=betas)
def test_norm_of_the_lifted_reward_vector_is_within_2_log_t(horizon, beta):
    # The paper's way, p <= log2(T) + 1 <= 2 ln T, fails at its second step for T < 7; the conclusion holds.
    assert theory.schedule(horizon, beta, 600).p <= 2 * math.log(horizon)


# Rate functions


def test_pareto_rate_table():
    grid = np.arange(11) / 10
    table = {
        0.5: [0.5, 0.6, 0.7, 0.8, 0.9] + [1.0] * 6,
        0.6: [0.6, 0.6, 0.6, 0.7, 0.8, 0.9] + [1.0] * 5,
        0.75: [0.75] * 6 + [0.85, 0.95] + [1.0] * 3,
        0.9: [0.9] * 9 + [1.0] * 2,
    }
    for beta, expected in table.items():
        assert theory.pareto_rate(grid, beta) == pytest.approx(expected, abs=1e-12)


def test_float_in_float_out_array_in_array_out():
    for rate in (
        theory.nonadaptive_rate,
        lambda alpha: theory.pareto_rate(alpha, 0.6),
        lambda alpha: theory.rate_lower_bound(alpha, 0.6),
    ):
        assert type(rate(0.3)) is float
        assert type(rate(np.float64(0.3))) is float
        grid = np.array([[0.1, 0.2], [0.3, 1.0]])
        assert isinstance(rate(grid), np.ndarray)
        assert rate(grid).shape == (2, 2)
        assert rate(grid)[1, 0] == rate(0.3)


@given(beta=betas, alpha=alphas)
def test_pareto_rate_touches_the_nonadaptive_rate_once(beta, alpha):
    rate, floor = theory.pareto_rate(alpha, beta), theory.nonadaptive_rate(alpha)
    assert beta <= rate <= 1.0
    # theta_beta - (1 + alpha)/2 is |alpha - (2 beta - 1)|/2 until theta_beta reaches 1 at alpha = beta.
    excess = abs(alpha - (2 * beta - 1)) / 2 if alpha <= beta else (1 - alpha) / 2
    assert rate - floor == pytest.approx(excess, abs=1e-12)
    touch = 2 * beta - 1
    assert theory.pareto_rate(touch, beta) == pytest.approx(beta, abs=1e-12)
    assert theory.nonadaptive_rate(touch) == pytest.approx(beta, abs=1e-12)


@given(beta=betas, alpha=alphas)
def test_pareto_rate_attains_theorem_2(beta, alpha):
    assert theory.pareto_rate(0.0, beta) == beta
    assert theory.pareto_rate(alpha, beta) == theory.rate_lower_bound(alpha, beta)


@given(beta=betas, a=alphas, b=alphas)
def test_pareto_rate_is_non_decreasing(beta, a, b):
    assert theory.pareto_rate(min(a, b), beta) <= theory.pareto_rate(max(a, b), beta)


@given(one=st.floats(0.5, 0.999), other=st.floats(0.5, 0.999))
def test_no_two_pareto_rates_are_ordered(one, other):
    low, high = sorted((one, other))
    if high - low < 1e-9:
        return
    assert theory.pareto_rate(2 * high - 1, low) == pytest.approx(min(2 * high - low, 1.0), abs=1e-12)

    def rate_low(alpha):
        return theory.pareto_rate(alpha, low)

    def rate_high(alpha):
        return theory.pareto_rate(alpha, high)

    grid = np.append(np.linspace(0.0, 1.0, 101), 2 * high - 1)
    assert not theory.dominates(rate_low, rate_high, grid)
    assert not theory.dominates(rate_high, rate_low, grid)


@given(beta=betas)
def test_dominates(beta):
    def pareto(alpha):
        return theory.pareto_rate(alpha, beta)

    assert theory.dominates(theory.nonadaptive_rate, pareto)
    assert not theory.dominates(pareto, theory.nonadaptive_rate)
    assert not theory.dominates(pareto, pareto)
    assert theory.dominates(pareto, lambda alpha: pareto(alpha) + 0.01)
    assert not theory.dominates(theory.nonadaptive_rate, pareto, grid=[2 * beta - 1])


@given(alpha_hat=st.floats(0.0, 1.0, exclude_max=True))
def test_recommended_beta_meets_the_nonadaptive_rate(alpha_hat):
    beta = theory.recommended_beta(alpha_hat)
    assert theory.pareto_rate(alpha_hat, beta) == pytest.approx(theory.nonadaptive_rate(alpha_hat), abs=1e-12)


@pytest.mark.parametrize(("alpha_hat", "beta"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0), (1.7, 1.0)])
def test_recommended_beta_is_a_legal_beta(alpha_hat, beta):
    found = theory.recommended_beta(alpha_hat)
    assert found == pytest.approx(beta)
    assert theory.schedule(2500, found, 600).p == math.ceil(found * math.log2(2500))


# Bounds


@pytest.mark.parametrize(
    ("horizon", "budget", "count", "average", "headline"),
    [
        (2500, 50.0, 25, 4.8828125, 2.44140625),
        (10_000, 100.0, 50, 19.53125, 9.765625),
        (1_000_000, 1000.0, 500, 1953.125, 976.5625),
    ],
)
def test_lower_bound_numbers(horizon, budget, count, average, headline):
    family = theory.lower_bound_family(horizon, 0.5, budget=budget)
    assert (family.arms_count, family.dim, family.delta) == (count, 2 * count, 0.015625)
    assert family.average_regret_bound_from_regret(budget) == pytest.approx(average)
    assert theory.theorem1_bound(horizon, 0.5, 0.0, budget) == pytest.approx(headline)
    assert theory.lower_bound_family(horizon, 0.5) == family  # T^alpha is the default budget


def test_theorem_1_conditions_name_what_fails():
    with pytest.raises(theory.ConditionError, match=r"floor\(T\^alpha / 2\) >= 2, .* = 3.16228 gives 1"):
        theory.theorem1_bound(100, 0.25, 0.0, 1000.0)
    with pytest.raises(theory.ConditionError, match=r"T\^alpha <= budget, but 2500\^0.5 = 50 > 49"):
        theory.theorem1_bound(2500, 0.5, 0.0, 49.0)
    with pytest.raises(theory.ConditionError, match=r"alpha_easy < alpha, but 0.5 >= 0.5"):
        theory.theorem1_bound(2500, 0.5, 0.5, 50.0)
    with pytest.raises(theory.ConditionError, match=r">= T\^alpha_easy = 33.8.*gives 25"):
        theory.theorem1_bound(2500, 0.5, 0.45, 50.0)
    assert issubclass(theory.ConditionError, ValueError)


@pytest.mark.parametrize(("horizon", "alpha", "power"), [(1000, 2 / 3, 100), (27, 2 / 3, 9), (64, 1 / 3, 4)])
def test_theorem_1_conditions_survive_rounding(horizon, alpha, power):
    # horizon**alpha misses the whole number by rounding.
    assert theory.theorem1_bound(horizon, alpha, 0.0, power) == pytest.approx(2**-10 * horizon)
    assert theory.lower_bound_family(horizon, alpha).arms_count == power // 2


@given(
    horizon=st.integers(64, 10**6),
    longer=st.integers(0, 10**6),
    alpha=st.floats(0.4, 0.9),
    harder=st.floats(0.0, 0.1),
    larger=st.floats(1.0, 10.0),
)
def test_theorem_1_is_monotone(horizon, longer, alpha, harder, larger):
    budget = float(horizon + longer)
    bound = theory.theorem1_bound(horizon, alpha, 0.0, budget)
    assert bound > 0.0
    assert theory.theorem1_bound(horizon + longer, alpha, 0.0, budget) >= bound
    assert theory.theorem1_bound(horizon, alpha + harder, 0.0, budget) >= bound
    assert theory.theorem1_bound(horizon, alpha, 0.0, budget * larger) <= bound


def test_confidence_radius():
    noise_part = theory.confidence_radius(2500, 1200, norm_bound=0.0)
    assert noise_part == pytest.approx(8.836129, abs=1e-6)
    assert theory.confidence_radius(2500, 1200) == pytest.approx(24.484221, abs=1e-6)
    assert theory.confidence_radius(2500, 1200, failure=1 / 50) == theory.confidence_radius(2500, 1200)
    # 2 exp(-alpha^2 / 4) = delta / (T K)
    assert 2 * math.exp(-(noise_part**2) / 4) == pytest.approx(1 / 50 / (2500 * 1200))


def test_bound_orders():
    log = math.log(1200 * 2500 * math.log(2500))
    order = theory.linucbpp_bound_order(2500, 1200, 0.5, 0.25)
    assert order == pytest.approx(log**3.5 * 2500**0.75)
    assert theory.linucbpp_bound_order(2500, 1200, 0.6, 0.8) == pytest.approx(log**3.5 * 2500)
    assert theory.modified_linucb_bound_order(2500, 1200, 12) == pytest.approx(log**2 * math.sqrt(30_000))
    with_failure = theory.modified_linucb_bound_order(2500, 1200, 12, failure=0.1)
    assert with_failure == pytest.approx((log + math.log(10)) ** 2 * math.sqrt(30_000))


# The lower-bound family


def regrets(family, pulls):
    """Exact regret in every instance of a policy with expected pulls (instances, arms)."""
    means = family.thetas @ family.features.T
    return np.sum((means.max(axis=1, keepdims=True) - means) * pulls, axis=1)


def assert_bounded(family, pulls, slack=0.0):
    average = regrets(family, pulls)[1:].mean()
    regret_0 = regrets(family, pulls)[0]
    counts = pulls[0, 1 : family.arms_count + 1]
    exact = family.average_regret_bound(counts)
    pooled = family.average_regret_bound(np.full_like(counts, counts.mean()))
    weak = family.average_regret_bound_from_regret(regret_0)
    rounding = 1e-9 * family.horizon
    assert average + slack + rounding >= exact
    assert exact + rounding >= pooled
    assert pooled + rounding >= weak


@pytest.mark.parametrize("zero_arm", [False, True])
def test_family_structure(zero_arm):
    family = theory.lower_bound_family(2500, 0.5, alpha_easy=0.3, zero_arm=zero_arm)
    count, delta = family.arms_count, family.delta
    assert family.noise == 0.5
    assert family.features.shape == (count + 1 + zero_arm, 2 * count)
    assert family.thetas.shape == (count + 1, 2 * count)
    assert np.linalg.norm(family.features, axis=1).tolist() == [1.0] * (count + 1) + [0.0] * zero_arm
    norms = np.linalg.norm(family.thetas, axis=1)
    assert norms[0] == pytest.approx(delta / 2)
    assert norms[1:] == pytest.approx(math.sqrt(5) * delta / 2)
    means = family.thetas @ family.features.T
    expected = np.zeros_like(means)
    expected[:, 0] = delta / 2
    expected[1:, 1 : count + 1] = delta * np.eye(count)
    assert np.array_equal(means, expected)
    intrinsic = [int(np.flatnonzero(theta)[-1]) + 1 for theta in family.thetas]
    assert intrinsic == [math.floor(2500**0.3), *range(count + 1, 2 * count + 1)]
    assert max(intrinsic) <= 2500**0.5


def test_zero_arm_makes_the_family_expressive():
    family = theory.lower_bound_family(100, 0.5, alpha_easy=0.3, zero_arm=True)
    arms = {tuple(row) for row in family.features}
    for row in family.features:
        for m in range(1, family.dim):
            assert tuple(np.where(np.arange(family.dim) < m, row, 0.0)) in arms


def test_families_compare_and_hash():
    one, same = theory.lower_bound_family(2500, 0.5), theory.lower_bound_family(2500, 0.5)
    assert one == same
    assert hash(one) == hash(same)
    assert one != theory.lower_bound_family(2500, 0.5, delta=0.1)


def test_uniform_policy():
    family = theory.lower_bound_family(2500, 0.5, budget=50.0)
    count, delta, horizon = family.arms_count, family.delta, family.horizon
    pulls = np.full((count + 1, count + 1), horizon / (count + 1))
    found = regrets(family, pulls)
    assert found[0] == pytest.approx(delta / 2 * horizon * count / (count + 1))
    assert found[0] == pytest.approx(18.780048, abs=1e-6)
    assert found[1:] == pytest.approx(horizon * delta * (1 - 1.5 / (count + 1)))
    assert found[1] == pytest.approx(36.808894, abs=1e-6)
    assert family.average_regret_bound(pulls[0, 1:]) == pytest.approx(15.787553, abs=1e-6)
    assert family.average_regret_bound_from_regret(found[0]) == pytest.approx(6.773130, abs=1e-6)
    assert_bounded(family, pulls)


def test_always_the_easy_arm_meets_the_bound_with_equality():
    family = theory.lower_bound_family(2500, 0.5, budget=50.0)
    pulls = np.zeros((26, 26))
    pulls[:, 0] = 2500
    found = regrets(family, pulls)
    assert found[0] == 0.0
    assert found[1:] == pytest.approx(19.53125)
    assert family.average_regret_bound(np.zeros(25)) == pytest.approx(19.53125)


@given(
    weights=st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7).filter(lambda w: sum(w) > 0.01),
    delta=st.floats(1e-4, 0.89),
    zero_arm=st.booleans(),
)
def test_bound_holds_for_every_blind_policy(weights, delta, zero_arm):
    # T = 100: Kl = 5. A policy that ignores rewards has the same expected pulls in every instance.
    family = theory.lower_bound_family(100, 0.5, delta=delta, zero_arm=zero_arm)
    arms = len(family.features)
    shares = np.array(weights[:arms]) + 1e-6
    assert_bounded(family, np.tile(100 * shares / shares.sum(), (family.arms_count + 1, 1)))


@given(
    horizon=st.sampled_from([16, 100, 2500, 10_000]),
    delta=st.floats(1e-3, 0.89),
    share=st.floats(0.01, 0.9),
    threshold=st.floats(-0.2, 1.2),
)
def test_bound_holds_for_test_one_arm_then_commit(horizon, delta, share, threshold):
    # Pick one of a_1..a_Kl at random, pull it m times, and stay with it if its average beats a threshold,
    # else play a_0 for the rest: an adaptive policy whose expected pulls are normal probabilities.
    family = theory.lower_bound_family(horizon, 0.5, delta=delta)
    count, m = family.arms_count, max(1, int(share * horizon))

    def stays(mean):
        return 0.5 * math.erfc((threshold * delta - mean) / (family.noise / math.sqrt(m)) / math.sqrt(2))

    stay = np.full((count + 1, count), stays(0.0))  # (instance, tested arm)
    stay[1:][np.eye(count, dtype=bool)] = stays(delta)
    pulls = np.empty((count + 1, count + 1))
    pulls[:, 1:] = (m + (horizon - m) * stay) / count
    pulls[:, 0] = horizon - pulls[:, 1:].sum(axis=1)
    assert_bounded(family, pulls)


@pytest.mark.parametrize("delta", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("zero_arm", [False, True])
def test_bound_holds_for_explore_then_commit(delta, zero_arm):
    family = theory.lower_bound_family(400, 0.5, delta=delta, zero_arm=zero_arm)
    means = family.thetas @ family.features.T
    instances, arms = means.shape
    trials, each = 2000, 5
    rng = np.random.default_rng(0)
    noise = rng.normal(0.0, family.noise / math.sqrt(each), (trials, instances, arms))
    best = np.argmax(means + noise, axis=2)
    pulls = each + (400 - each * arms) * (best[..., None] == np.arange(arms))
    per_trial = np.stack([regrets(family, trial)[1:].mean() for trial in pulls.astype(float)])
    slack = 4 * per_trial.std() / math.sqrt(trials)
    assert_bounded(family, pulls.mean(axis=0), slack)


def test_one_hard_arm_is_refused_for_a_reason():
    # The form with 1/2 uses Kl >= 2: for Kl = 1, always playing a_1 would break it.
    family = theory.LowerBoundFamily(horizon=100, arms_count=1, delta=0.01)
    pulls = np.array([[0.0, 100.0], [0.0, 100.0]])
    assert regrets(family, pulls)[1] == 0.0
    assert family.average_regret_bound_from_regret(regrets(family, pulls)[0]) > 0.0
    assert family.average_regret_bound([100.0]) <= 0.0
    with pytest.raises(theory.ConditionError):
        theory.lower_bound_family(9, 0.5, delta=0.01)


# Bad values


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.hardness(0, 100), "intrinsic_dim must be an integer of at least 1, got 0"),
        (lambda: theory.hardness(3, 1), "horizon must be an integer of at least 2, got 1"),
        (lambda: theory.schedule(0, 0.5, 3), "horizon must be an integer of at least 1, got 0"),
        (lambda: theory.schedule(2500.0, 0.5, 3), "horizon must be an integer of at least 1, got 2500.0"),
        (lambda: theory.schedule(True, 0.5, 3), "horizon must be an integer of at least 1, got True"),
        (lambda: theory.schedule(100, 0.49, 3), r"beta must lie in \[1/2, 1\), got 0.49"),
        (lambda: theory.schedule(100, 1.0, 3), r"beta must lie in \[1/2, 1\), got 1.0"),
        (lambda: theory.schedule(100, math.nan, 3), r"beta must lie in \[1/2, 1\), got nan"),
        (lambda: theory.schedule(100, 0.5, 0), "dim must be an integer of at least 1, got 0"),
        (lambda: theory.nonadaptive_rate(1.1), r"alpha must lie in \[0, 1\], got \[1.1\]"),
        (lambda: theory.pareto_rate(np.array([0.1, -0.2, math.nan]), 0.5), r"got \[-0.2 +nan\]"),
        (lambda: theory.pareto_rate(0.5, 0.4), "beta must lie in"),
        (lambda: theory.rate_lower_bound(0.5, 0.4), r"rate_at_zero must lie in \[1/2, 1\], got 0.4"),
        (lambda: theory.dominates(lambda a: a, lambda a: a[:3]), "rate_b must map 1001 alphas"),
        (lambda: theory.dominates(lambda a: a * math.nan, lambda a: a), "rate_a must map 1001 alphas"),
        (lambda: theory.dominates(lambda a: a, lambda a: a, grid=[]), "grid must be"),
        (lambda: theory.recommended_beta(-0.1), "alpha_hat must be finite and at least 0, got -0.1"),
        (lambda: theory.recommended_beta(math.inf), "alpha_hat must be finite"),
        (lambda: theory.theorem1_bound(100, 1.5, 0.0, 50.0), r"alpha must lie in \[0, 1\], got 1.5"),
        (lambda: theory.theorem1_bound(100, 0.5, -1.0, 50.0), r"alpha_easy must lie in \[0, 1\], got -1.0"),
        (lambda: theory.theorem1_bound(100, 0.5, 0.0, 0.0), "budget must be positive and finite, got 0.0"),
        (lambda: theory.confidence_radius(1, 3), "horizon must be an integer of at least 2, got 1"),
        (lambda: theory.confidence_radius(100, 3, failure=0.0), r"failure must lie in \(0, 1\), got 0.0"),
        (lambda: theory.confidence_radius(100, 3, norm_bound=-1.0), "norm_bound must be finite"),
        (lambda: theory.modified_linucb_bound_order(100, 0, 3), "arms must be an integer of at least 1, got 0"),
        (lambda: theory.modified_linucb_bound_order(100, 3, 0), "dim must be an integer of at least 1, got 0"),
        (lambda: theory.linucbpp_bound_order(100, 3, 0.5, 1.5), r"alpha must lie in \[0, 1\]"),
        (lambda: theory.lower_bound_family(100, 0.5, budget=20.0, delta=0.1), "budget or delta, not both"),
        (lambda: theory.lower_bound_family(100, 0.5, delta=0.9), r"delta must lie in \(0, 2/sqrt\(5\)\]"),
        (lambda: theory.lower_bound_family(100, 0.5, delta=0.0), r"delta must lie in \(0, 2/sqrt\(5\)\]"),
        (lambda: theory.lower_bound_family(100, 0.5).average_regret_bound([1.0]), "must be 5 counts >= 0"),
        (lambda: theory.lower_bound_family(100, 0.5).average_regret_bound([-1.0] * 5), "5 counts >= 0"),
        (lambda: theory.lower_bound_family(100, 0.5).average_regret_bound([21.0] * 5), "at most T = 100"),
        (lambda: theory.lower_bound_family(100, 0.5).average_regret_bound_from_regret(-1.0), "regret_0 must"),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
