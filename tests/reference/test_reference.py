"""The reference implementation against the specification's numeric oracles (section 17) and invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import exp, log, sqrt
from typing import Any, Literal

import numpy as np
import pytest

from .balancing import (
    DynamicBalancing,
    NestedDynamicBalancing,
    nested_bound,
    released_width,
    theory_width,
)
from .common import Algorithm, Floats, argmax_ties, loss_of, run
from .corral import Corral, CorralMaster, SmoothCorral, SmoothMaster, log_barrier_omd, nested_dims
from .linucbpp import LinUCBPP, Mixtures, closure_levels, expressive_closure, schedule, usable_rows
from .linucbpp_corral import LinUCBPPCorral
from .ridge import Bonus, LinUCB, chu_radius, noise_radius, oful_radius, virtual_sigma
from .suplinucb import SupLinUCB
from .ucb import UCB, Index, released_bonus, self_normalised_bonus, ucb1_bonus

Generator = np.random.Generator
ARMS = np.array([[1.0, 0.0], [0.0, 0.9], [0.6, 0.7]])
MEANS = ARMS @ np.array([0.5, 0.2])


def sphere(K: int, d: int, rng: Generator) -> Floats:
    X = rng.standard_normal((K, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float64)


def instance(seed: int, K: int = 40, d: int = 24, dstar: int = 3) -> tuple[Floats, Floats, Generator]:
    """Features on the sphere, their means under a theta of dstar coordinates, and a generator."""
    rng = np.random.default_rng(seed)
    X = sphere(K, d, rng)
    theta = np.zeros(d)
    theta[:dstar] = 1 / sqrt(dstar)
    return X, X @ theta, rng


def approx(expected: Any, tolerance: float = 1e-6) -> Any:
    return pytest.approx(expected, abs=tolerance)


# --- Schedule -----------------------------------------------------------------------------------------------


def ends(T: int, beta: float, d: int) -> list[int]:
    """Last round of every iteration, not cut at T."""
    return [int(end) for end in np.cumsum([length for _, length in schedule(T, beta, d)])]


def test_schedules_c1_to_c6() -> None:
    assert schedule(2500, 0.5, 600) == list(
        zip([128, 64, 32, 16, 8, 4], [128, 256, 512, 1024, 2048, 2500], strict=True)
    )
    assert ends(2500, 0.5, 600) == [128, 384, 896, 1920, 3968, 6468]
    assert schedule(2500, 0.7, 600)[:4] == [(512, 512), (256, 1024), (128, 2048), (64, 2500)]
    assert len(schedule(2500, 0.9, 600)) == 11
    assert schedule(2500, 0.9, 600)[0] == (600, 2500)
    assert ends(10000, 0.5, 600)[:5] == [256, 768, 1792, 3840, 7936]
    assert ends(1024, 0.5, 600)[:4] == [64, 192, 448, 960]
    assert schedule(100, 0.5, 600) == [(32, 32), (16, 64), (8, 100), (4, 100)]
    assert ends(16, 0.5, 600) == [8, 24]  # the second one is cut at 16
    assert len(schedule(2, 0.5, 9)) == len(schedule(3, 0.5, 9)) == 1
    lengths = [len(schedule(T, b, 9)) for T, b in [(2**20, 0.55), (2**10, 0.7), (2**15, 0.6), (2**10, 0.9)]]
    assert lengths == [11, 7, 9, 9]


@pytest.mark.parametrize("T", [2, 3, 17, 300, 2500, 4096, 9999])
@pytest.mark.parametrize("beta", [0.5, 0.61, 0.75, 0.9])
def test_schedule_invariants(T: int, beta: float) -> None:
    """4.8, 1."""
    pairs = schedule(T, beta, 600)
    dims, lengths = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert dims == sorted(dims, reverse=True)
    assert lengths == sorted(lengths)
    assert all(dim * length <= 4 ** (len(pairs) + 1) for dim, length in pairs)
    assert sum(lengths) >= T


# --- LinUCB -------------------------------------------------------------------------------------------------


def trace(ridge: float, radius: float, bonus: Bonus, steps: int = 6) -> tuple[list[int], list[Floats], LinUCB]:
    """Arms and scores of noiseless LinUCB on the three arms of C8."""
    algorithm = LinUCB(ARMS, steps, 1.0, ridge, np.random.default_rng(0), bonus, radius)
    arms, scores = [], []
    for _ in range(steps):
        scores.append(algorithm.scores())
        arms.append(algorithm.select())
        algorithm.update(arms[-1], float(MEANS[arms[-1]]))
    return arms, scores, algorithm


def test_linucb_norm_bonus_c8() -> None:
    arms, scores, algorithm = trace(1.0, 1.0, "norm")
    assert arms == [0, 2, 0, 0, 2, 0]
    assert scores[1] == approx(np.array([0.957107, 0.900000, 0.968535]))
    assert scores[2] == approx(np.array([0.970009, 0.865930, 0.899749]))
    assert scores[5] == approx(np.array([0.883575, 0.790623, 0.858651]))
    assert algorithm.ridge.theta == approx(np.array([0.4225988701, 0.1318267420]), 1e-9)
    inverse = np.array([[0.1864406780, -0.0790960452], [-0.0790960452, 0.5386064030]])
    assert np.linalg.inv(algorithm.ridge.V) == approx(inverse, 1e-9)
    assert algorithm.ridge.logdet == approx(2.3627390158, 1e-9)


def test_linucb_squared_bonus_c9() -> None:
    arms, scores, algorithm = trace(1.0, 1.0, "squared")
    assert arms == [0, 2, 0, 0, 2, 0]
    assert scores[1] == approx(np.array([0.75, 0.81, 0.82]))
    assert scores[3] == approx(np.array([0.671636, 0.657391, 0.669814]))
    assert algorithm.ridge.theta == approx(np.array([0.4225988701, 0.1318267420]), 1e-9)


def test_linucb_small_ridge_c10() -> None:
    arms, scores, algorithm = trace(0.1, 0.5, "squared")
    assert arms == [0, 1, 0, 2, 0, 0]
    assert scores[0] == approx(np.array([5.0, 4.05, 4.25]))
    assert scores[1] == approx(np.array([0.909091, 4.05, 2.886364]))
    assert scores[3] == approx(np.array([0.714286, 0.605275, 0.765275]))
    assert algorithm.ridge.theta == approx(np.array([0.4898477157, 0.1887599710]), 1e-9)
    assert algorithm.ridge.logdet == approx(6.4081333257, 1e-9)
    arms, scores, _ = trace(0.1, 0.5, "norm")
    assert arms == [0, 1, 0, 2, 0, 0]
    assert scores[0] == approx(np.array([1.581139, 1.423025, 1.457738]))


def test_radii_c11() -> None:
    assert log(2 * 2500**1.5 * 1200) == approx(19.519293)
    assert noise_radius(0.1, 2500, 1200) == approx(0.624809)
    assert noise_radius(sqrt(2), 2500, 1200) == approx(8.836129)
    assert 2 * log(2500) == approx(15.648092)
    assert noise_radius(sqrt(2), 2500, 1200) + 2 * log(2500) == approx(24.484221)
    lengths = [length for _, length in schedule(2500, 0.5, 600)[:5]]
    real = [noise_radius(0.1, length, 1200 + i) for i, length in enumerate(lengths)]
    assert real == approx([0.548840, 0.567483, 0.585532, 0.603041, 0.620056])
    scale = virtual_sigma(0.1, 0.3)
    virtual = [noise_radius(scale, length, 1200 + i) for i, length in enumerate(lengths)]
    assert virtual == approx([0.989435, 1.023044, 1.055583, 1.087148, 1.117822])
    assert virtual_sigma(1.0, 2.0) == approx(sqrt(2))
    assert oful_radius(0.1, 0.1, 1.0, 1 / 50, 0.0) == approx(0.595943)
    assert chu_radius(2500, 1200, 1 / 50) == approx(3.124043)


@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_augmented_virtual_arms_equal_scalars_c12(bonus: Bonus) -> None:
    X, _, rng = instance(1, K=9, d=5)
    K, d, m, ridge = 9, 5, 3, 0.1
    features = np.zeros((K + m, d + m))
    features[:K, :d] = X
    features[K:, d:] = np.eye(m)
    radius = np.concatenate([np.full(K, 0.3), np.full(m, 0.8)])
    augmented = LinUCB(features, 100, 0.1, ridge, rng, bonus, radius)
    real = LinUCB(X, 100, 0.1, ridge, rng, bonus, 0.3)
    n, sums = np.zeros(m), np.zeros(m)
    for _ in range(200):
        means, widths = sums / (ridge + n), 1 / (ridge + n)
        scalar = means + 0.8 * (np.sqrt(widths) if bonus == "norm" else widths)
        assert augmented.scores() == approx(np.concatenate([real.scores(), scalar]), 1e-12)
        action, reward = int(rng.integers(K + m)), float(rng.standard_normal())
        augmented.update(action, reward)
        if action < K:
            real.update(action, reward)
        else:
            n[action - K] += 1
            sums[action - K] += reward


def test_one_unit_arm_c13() -> None:
    rng = np.random.default_rng(2)
    x = np.array([[0.6, 0.0, 0.8]])
    algorithm = LinUCB(x, 50, 1.0, 1.0, rng)
    rewards = rng.standard_normal(30)
    for n, reward in enumerate(rewards, start=1):
        algorithm.update(0, float(reward))
        means, widths = algorithm.ridge.predict(x)
        assert widths[0] == approx(1 / (1 + n), 1e-12)
        assert means[0] == approx(rewards[:n].sum() / (1 + n), 1e-12)
        assert algorithm.ridge.logdet == approx(log(1 + n), 1e-12)


def test_ridge_invariants() -> None:
    """1.7, 1-2 and 6: determinant identity, shrinking widths, scaling of features and ridge."""
    X, mu, rng = instance(3, K=12, d=6)
    algorithm, scaled = LinUCB(X, 60, 0.1, 0.1, rng), LinUCB(3 * X, 60, 0.1, 0.9, rng)
    total, before = 0.0, np.full(12, np.inf)
    for _ in range(60):
        means, widths = algorithm.ridge.predict(X)
        other_means, other_widths = scaled.ridge.predict(3 * X)
        assert means == approx(other_means, 1e-10)
        assert widths == approx(other_widths, 1e-10)
        assert np.all(widths <= before + 1e-12)
        arm = algorithm.select()
        total, before = total + log(1 + widths[arm]), widths
        reward = float(mu[arm] + 0.1 * rng.standard_normal())
        algorithm.update(arm, reward)
        scaled.update(arm, reward)
    assert algorithm.ridge.logdet == approx(total, 1e-9)


def test_ties_are_uniform_within_a_relative_tolerance() -> None:
    rng = np.random.default_rng(4)
    scores = 7.0 * np.array([1.0, 1 - 1e-12, 0.5, 1 - 1e-8])
    counts = Counter(argmax_ties(scores, rng) for _ in range(4000))
    assert set(counts) == {0, 1}
    assert abs(counts[0] - 2000) < 160
    assert argmax_ties([np.inf, 1.0, np.inf], rng, "lowest") == 0
    assert argmax_ties([-2.0, -1.0, -1.0], rng, "lowest") == 1


# --- SupLinUCB ----------------------------------------------------------------------------------------------


def sup_run(T: int, radius: float) -> SupLinUCB:
    algorithm = SupLinUCB(np.eye(2), T, 1.0, 1.0, np.random.default_rng(0), radius, "lowest")
    run(algorithm, np.array([0.5, 0.2]), T, 0.0, np.random.default_rng(0))
    return algorithm


def test_suplinucb_c14() -> None:
    algorithm = sup_run(100, 1.0)
    assert algorithm.S == 5
    assert algorithm.level_sizes == [6, 30, 64, 0, 0]
    assert list(algorithm.counts) == [50, 50]
    assert algorithm.exploit_rounds == 0
    algorithm = sup_run(10000, 1.0)
    assert algorithm.S == 10
    assert algorithm.level_sizes == [6, 30, 126, 255, 1023, 4095, 4465, 0, 0, 0]
    assert list(algorithm.counts) == [9919, 81]
    algorithm = sup_run(10000, 0.05)  # an exact tie: rounding decides between two outcomes
    assert list(algorithm.counts) == [9998, 2]
    assert (algorithm.level_sizes[6], algorithm.exploit_rounds) in {(24, 9962), (25, 9961)}
    assert algorithm.level_sizes[:6] + algorithm.level_sizes[7:] == [0, 0, 0, 0, 4, 10, 0, 0, 0]


def test_suplinucb_counts_every_round() -> None:
    X, mu, rng = instance(5, K=10, d=4)
    algorithm = SupLinUCB(X, 300, 0.1, 1.0, rng, radius=0.2)
    run(algorithm, mu, 300, 0.1, rng)
    assert sum(algorithm.level_sizes) + algorithm.exploit_rounds == 300
    assert algorithm.exploit_rounds > 0


# --- Mixtures and UCB ---------------------------------------------------------------------------------------


def example_mixtures() -> Mixtures:
    mixtures = Mixtures(3)
    mixtures.add(np.array([0.5, 0.25, 0.25]))
    mixtures.add(np.array([0.125, 0.5, 0.0, 0.375]))
    mixtures.add(np.array([0.0, 0.25, 0.25, 0.125, 0.375]))
    return mixtures


def test_mixtures_c16() -> None:
    mu = np.array([0.1, 0.5, 0.3])
    mixtures = example_mixtures()
    laws = [mixtures.flat(j) for j in range(3)]
    assert laws[1] == approx(np.array([0.3125, 0.59375, 0.09375]), 1e-15)
    assert laws[2] == approx(np.array([0.1796875, 0.50390625, 0.31640625]), 1e-15)
    assert all(law.min() >= 0 and abs(law.sum() - 1) < 1e-15 for law in laws)
    assert [mixtures.mean(j, mu) for j in range(3)] == approx([0.25, 0.35625, 0.36484375], 1e-15)
    assert [law @ mu for law in laws] == approx([0.25, 0.35625, 0.36484375], 1e-15)
    variance = float(laws[1] @ mu**2 - (laws[1] @ mu) ** 2)
    assert variance == approx(0.0330859375, 1e-12)
    assert variance <= (0.4 / 2) ** 2


def test_recursive_draws_follow_the_flattened_law() -> None:
    """4.8, 3."""
    mixtures, rng = example_mixtures(), np.random.default_rng(6)
    draws = np.bincount([mixtures.draw(2, rng) for _ in range(20000)], minlength=3) / 20000
    assert draws == approx(mixtures.flat(2), 0.015)


def test_ucb_bonuses_c17() -> None:
    assert ucb1_bonus(4, 100) == approx(1.517427)
    assert self_normalised_bonus(4, 3, sqrt(2), 0.1) == approx(2.425365)
    cases = [(1, 1, 9.5249, 5.8735), (10, 2, 5.1721, 1.6054), (100, 4, 2.1876, 0.5563)]
    for n, m, released, intended in cases:
        assert released_bonus(n, m, 1024) == approx(released, 5e-5)
        assert self_normalised_bonus(n, m, sqrt(2), 1024**-0.5) == approx(intended, 5e-5)


@pytest.mark.parametrize("index", ["self_normalised", "subgaussian", "released"])
def test_ucb_plays_every_arm_first_and_its_bonus_shrinks(index: Index) -> None:
    rng = np.random.default_rng(7)
    algorithm = UCB(5, 400, 0.2, rng, index)
    outcome = run(algorithm, np.array([0.1, 0.9, 0.2, 0.3, 0.4]), 400, 0.1, rng)
    assert sorted(outcome.arms[:5]) == [0, 1, 2, 3, 4]
    bonuses = [algorithm.bonus(n) for n in range(1, 50)]
    assert bonuses == sorted(bonuses, reverse=True)
    if index != "released":
        assert algorithm.counts[1] > 200


# --- LinUCB++ -----------------------------------------------------------------------------------------------


def test_linucbpp_iterations_and_mixture_regret() -> None:
    """4.8, 2, 4, 7, for T = 300 and d = 24: iterations of 64, 128 and 108 rounds."""
    X, mu, rng = instance(8)
    algorithm = LinUCBPP(X, 300, 0.1, 0.1, rng)
    assert algorithm.schedule[:3] == [(24, 64), (24, 128), (16, 256)]
    outcome = run(algorithm, mu, 300, 0.1, rng)
    assert Counter(i for i, _ in algorithm.history) == {1: 64, 2: 128, 3: 108}
    assert len(algorithm.mixtures) == 2
    assert isinstance(algorithm.solver, LinUCB)
    assert algorithm.solver.X.shape == (42, 18)
    assert all(column < 40 for i, column in algorithm.history if i == 1)
    assert all(column < 39 + i for i, column in algorithm.history)
    assert any(column >= 40 for i, column in algorithm.history if i > 1)
    for j in range(2):
        law = algorithm.mixtures.flat(j)
        assert law.min() >= 0
        assert law.sum() == approx(1.0, 1e-12)
    gaps = [mu.max() - algorithm.mixtures.mean(j, mu) for j in range(2)]
    assert algorithm.mixture_regret(mu, 192) == approx(64 * gaps[0] + 128 * gaps[1], 1e-9)
    assert outcome.regret[63] == approx(64 * gaps[0], 1e-9)
    assert np.all(np.diff(outcome.regret) >= 0)


@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_linucbpp_first_iteration_is_linucb(bonus: Bonus) -> None:
    """4.8, 5 and 6: the first iteration, and a beta with a single iteration, are LinUCB."""
    X, mu, _ = instance(9)
    single = schedule(300, 0.95, 24)
    assert single[0] == (24, 300)
    for beta, dim, steps in [(0.5, 24, 64), (0.95, 24, 300)]:
        plus = LinUCBPP(X, 300, 0.1, 0.1, np.random.default_rng(1), beta=beta, bonus=bonus)
        plain = LinUCB(X[:, :dim], steps, 0.1, 0.1, np.random.default_rng(1), bonus)
        first = run(plus, mu, steps, 0.1, np.random.default_rng(2))
        second = run(plain, mu, steps, 0.1, np.random.default_rng(2))
        assert np.array_equal(first.arms, second.arms)


def test_linucbpp_rescaling_q3() -> None:
    X, mu, rng = instance(10)
    algorithm = LinUCBPP(0.5 * X, 300, 0.1, 0.1, rng, bonus="squared", rescale=True, mean_range=float(np.ptp(mu)))
    run(algorithm, mu, 200, 0.1, rng)
    assert isinstance(algorithm.solver, LinUCB)
    norms = np.linalg.norm(algorithm.solver.X, axis=1)
    assert norms[:40].max() == approx(1.0, 1e-12)
    assert norms[40:] == approx(np.ones(2), 1e-12)
    ratio = np.asarray(algorithm.solver.radius)[40] / np.asarray(algorithm.solver.radius)[0]
    assert ratio == approx(virtual_sigma(0.1, float(np.ptp(mu))) / 0.1, 1e-12)
    algorithm = LinUCBPP(2 * X, 300, 0.1, 0.1, rng, rescale=True)
    run(algorithm, mu, 100, 0.1, rng)
    assert isinstance(algorithm.solver, LinUCB)
    norms = np.linalg.norm(algorithm.solver.X, axis=1)
    assert norms[:40].max() > 1
    assert norms[40:] == approx(norms[:40].max(), 1e-12)


def test_linucbpp_with_suplinucb() -> None:
    X, mu, rng = instance(11)
    algorithm = LinUCBPP(X, 300, 0.1, 1.0, rng, mean_range=float(np.ptp(mu)), solver="suplinucb")
    outcome = run(algorithm, mu, 300, 0.1, rng)
    assert isinstance(algorithm.solver, SupLinUCB)
    assert len(outcome.arms) == 300


def test_expressive_set_c28() -> None:
    assert closure_levels(2500, 0.5, 400) == [8, 16, 32, 64, 128, 400]
    rng = np.random.default_rng(12)
    base = sphere(8, 400, rng)
    X, levels = expressive_closure(base, closure_levels(2500, 0.5, 400))
    assert X.shape == (48, 400)
    assert np.array_equal(X[:8, :8], base[:, :8])
    assert not X[:8, 8:].any()
    usable = [len(usable_rows(levels, 48, dim)) for dim in (128, 64, 32, 16, 8, 4)]
    assert usable == [40, 32, 24, 16, 8, 8]
    assert np.array_equal(usable_rows(None, 5, 2), np.arange(5))


@pytest.mark.parametrize("cls", [LinUCBPP, LinUCBPPCorral])
def test_expressive_algorithms_pull_only_usable_rows(cls: type[LinUCBPP] | type[LinUCBPPCorral]) -> None:
    rng = np.random.default_rng(13)
    X, levels = expressive_closure(sphere(10, 40, rng), [8, 16, 32, 40])
    mu = X[:, :4] @ np.full(4, 0.5)
    algorithm = cls(X, 300, 0.1, 0.1, rng, levels=levels)
    run(algorithm, mu, 300, 0.1, rng)
    for i, column in algorithm.history:
        if column < 40:
            assert levels[column] <= algorithm.schedule[i - 1][0]
    assert algorithm.schedule[1][0] == 32
    assert not algorithm.mixtures.phats[1][30:40].any()


# --- Corral -------------------------------------------------------------------------------------------------


def test_omd_fixed_points_c18() -> None:
    golden = (3 - sqrt(5)) / 2
    p, shift = log_barrier_omd([0.5, 0.5], [1, 0], 1.0)
    assert shift == approx(golden, 1e-10)
    assert p == approx(np.array([golden, 1 - golden]), 1e-10)
    p, shift = log_barrier_omd([0.5, 0.5], [2, 0], 0.1)
    assert shift == approx(0.9501243789, 1e-9)
    assert p == approx(np.array([0.4750621894, 0.5249378106]), 1e-9)
    p, shift = log_barrier_omd(np.full(3, 1 / 3), [3, 0, 0], 0.5)
    assert shift == approx(0.7250827824, 1e-9)
    assert p == approx(np.array([0.2416942608, 0.3791528696, 0.3791528696]), 1e-9)
    p, shift = log_barrier_omd([0.2, 0.3, 0.5], [0, 1 / 0.3, 0], [0.1, 0.2, 0.3])
    assert shift == approx(0.5097969700, 1e-9)
    assert p == approx(np.array([0.2020601935, 0.2565391439, 0.5414006626]), 1e-9)
    p, shift = log_barrier_omd([0.9, 0.1], [0, 10], 2.0)
    assert shift == approx(0.0382685522, 1e-9)
    assert p == approx(np.array([0.9665814079, 0.0334185921]), 1e-9)
    p, _ = log_barrier_omd([0.2, 0.3, 0.5], [0.7, 0.7, 0.7], 1.0)
    assert p == approx(np.array([0.2, 0.3, 0.5]), 1e-15)


def test_corral_smoothing_c18() -> None:
    master = CorralMaster(2, 0.1, 100)
    master.update(0, 1.0)
    assert master.p == approx(np.array([0.4750621894, 0.5249378106]), 1e-9)
    assert master.pbar == approx(np.array([0.4753115675, 0.5246884325]), 1e-9)
    assert list(master.rho) == [4.0, 4.0]


def test_corral_run_c18() -> None:
    master = CorralMaster(2, 0.5, 100)
    increases, p0, pbar0 = [], {}, {}
    for t in range(1, 10):
        before = master.eta[0]
        master.update(0, 1.0)
        p0[t], pbar0[t] = master.p[0], master.pbar[0]
        if master.eta[0] > before:
            increases.append((t, master.eta[0], master.rho[0]))
    assert p0[1] == approx(0.3819660113, 1e-9)
    assert pbar0[1] == approx(0.3831463511, 1e-9)
    assert p0[2] == approx(0.2718611175, 1e-9)
    assert p0[3] == approx(0.1866263367, 1e-9)
    assert pbar0[3] == approx(0.1897600734, 1e-9)
    assert [t for t, _, _ in increases] == [3, 5, 7, 9]
    assert [eta for _, eta, _ in increases] == approx([0.6212635, 0.7719367, 0.9591522, 1.1917726], 1e-7)
    assert [rho for _, _, rho in increases] == approx([10.539625, 25.651862, 66.823838, 153.073263])
    assert master.eta[1] == 0.5
    assert master.rho[1] == 4.0
    assert [CorralMaster(2, 1, T).beta for T in (100, 2500, 10000)] == approx([1.242527, 1.136338, 1.114687])
    assert exp(1 / log(2)) == approx(4.232086)


def test_corral_invariants() -> None:
    """6.6."""
    rng = np.random.default_rng(14)
    M, T, eta = 5, 400, 0.3
    master = CorralMaster(M, eta, T)
    for _ in range(T):
        before, old_rho = master.p, master.rho.copy()
        i = int(rng.choice(M, p=master.pbar))
        master.update(i, float(rng.uniform(0, 1) if i else 1.0))
        assert master.p.sum() == approx(1.0, 1e-12)
        assert master.pbar.sum() == approx(1.0, 1e-12)
        assert master.p.min() > 0
        assert master.pbar.min() >= 1 / (T * M) * (1 - 1e-12)
        assert np.all(master.rho * master.pbar >= 1)
        assert np.all((master.rho == old_rho) | (master.rho >= 2 * old_rho))
        others = np.arange(M) != i
        assert master.p[i] <= before[i] + 1e-12
        assert np.all(master.p[others] >= before[others] - 1e-12)
    assert np.all(master.eta <= eta * exp(1 / log(2)))


def test_omd_solves_its_equation() -> None:
    rng = np.random.default_rng(15)
    for _ in range(200):
        M = int(rng.integers(2, 7))
        p = rng.dirichlet(np.full(M, 0.5)) * (1 - 1e-3) + 1e-3 / M
        losses, eta = rng.uniform(0, 5, M) * (rng.random(M) < 0.7), rng.uniform(0.01, 3, M)
        new, shift = log_barrier_omd(p, losses, eta)
        assert losses.min() <= shift <= losses.max()
        assert new == approx(1 / (1 / p + eta * (losses - shift)), 1e-9)


def test_loss_map_and_dims() -> None:
    assert [loss_of(r, (-1.0, 1.0)) for r in (-3.0, -1.0, 0.5, 1.0, 2.0)] == [1.0, 1.0, 0.25, 0.0, 0.0]
    assert nested_dims(600) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert nested_dims(24) == [1, 2, 4, 8, 16]
    assert nested_dims(16) == [1, 2, 4, 8]
    assert nested_dims(1) == [1]


# --- Smooth Corral ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", [300, 301])
def test_smooth_corral_invariants(T: int) -> None:
    """7.6: stored policies, base updates and environment steps."""
    X, mu, rng = instance(16)
    algorithm = SmoothCorral(X, T, 0.1, 0.1, rng, loss_range=(-0.5, 0.5))
    outcome = run(algorithm, mu, T, 0.1, rng)
    engine = algorithm.engine
    assert engine.rounds == T // 2
    assert (engine.first_loss is not None) == (T % 2 == 1)
    assert [len(stored) for stored in engine.stored] == [base.ridge.n for base in algorithm.bases]
    assert sum(len(stored) for stored in engine.stored) == (T + 1) // 2
    for stored, base in zip(engine.stored, algorithm.bases, strict=True):
        assert np.array_equal(np.bincount(stored, minlength=40), base.counts)
    assert engine.master.gamma == 1 / ((T + 1) // 2)
    assert len(outcome.arms) == T


def test_replay_is_uniform_over_stored_policies() -> None:
    """7.6: with H = [3, 1, 1, 2] arm 1 is replayed half of the time."""
    X, _, rng = instance(17)
    counts: Counter[int] = Counter()
    engine = SmoothMaster([LinUCB(X, 100, 0.1, 0.1, rng)], 0.1, 100, rng)
    for _ in range(4000):
        engine.base, engine.first_loss, engine.stored = 0, 0.5, [[3, 1, 1, 2]]
        counts[engine.next()[1]] += 1
    assert [counts[arm] / 4000 for arm in (1, 2, 3)] == approx([0.5, 0.25, 0.25], 0.03)


def test_smooth_corral_with_one_base_replays_half_of_the_steps() -> None:
    X, mu, rng = instance(18)
    algorithm = SmoothCorral(X, 100, 0.1, 0.1, rng, dims=[8])
    arms = run(algorithm, mu, 100, 0.0, rng).arms
    plain = LinUCB(X[:, :8], 100, 0.1, 0.1, rng)
    assert np.array_equal(arms[::2], run(plain, mu, 50, 0.0, rng).arms)
    assert all(arms[2 * s + 1] in arms[: 2 * s + 1 : 2] for s in range(50))


@pytest.mark.parametrize(("feedback", "expected"), [("step2", 0.25), ("mean", 0.5), ("sum", 1.0)])
def test_smooth_corral_feedback(feedback: Literal["step2", "mean", "sum"], expected: float) -> None:
    X, _, rng = instance(19)
    engine = SmoothMaster([LinUCB(X, 10, 0.1, 0.1, rng)] * 2, 0.1, 10, rng, feedback=feedback)
    base, _ = engine.next()
    engine.feed(-0.5)  # loss 0.75
    assert engine.next()[0] == base
    engine.feed(0.5)  # loss 0.25
    other = CorralMaster(2, 0.1, 10)
    other.update(base, expected)
    assert engine.master.p == approx(other.p, 1e-15)


def test_no_replay_is_stochastic_corral() -> None:
    X, mu, _ = instance(20)
    smooth = SmoothCorral(X, 200, 0.1, 0.1, np.random.default_rng(1), replay=False)
    plain = Corral(X, 200, 0.1, 0.1, np.random.default_rng(1))
    first = run(smooth, mu, 200, 0.1, np.random.default_rng(2))
    second = run(plain, mu, 200, 0.1, np.random.default_rng(2))
    assert np.array_equal(first.arms, second.arms)
    assert smooth.engine.master.p == approx(plain.master.p, 1e-15)


def test_importance_weighted_corral_updates_every_base() -> None:
    X, mu, rng = instance(21)
    algorithm = Corral(X, 100, 0.1, 0.1, rng, mode="importance")
    run(algorithm, mu, 100, 0.1, rng)
    assert [base.ridge.n for base in algorithm.bases] == [100] * 5


# --- LinUCB++ with Corral -----------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["self_normalised", "subgaussian", "released"])
def test_linucbpp_corral_invariants(index: Index) -> None:
    """Section 5: frequencies, fresh masters, no mixture of an unfinished iteration."""
    X, mu, rng = instance(22)
    algorithm = LinUCBPPCorral(X, 301, 0.1, 0.1, rng, index=index)
    masters: list[int] = []
    for t in range(301):
        arm = algorithm.select()
        if algorithm.engine is not None and algorithm.engine.rounds == 0:
            assert list(algorithm.engine.master.p) == [0.5, 0.5]
            masters.append(t)
        algorithm.update(arm, float(mu[arm] + 0.1 * rng.standard_normal()))
    assert masters == [64, 65, 192, 193]
    assert Counter(i for i, _ in algorithm.history) == {1: 64, 2: 128, 3: 109}
    assert all(column < 39 + i for i, column in algorithm.history)
    engine = algorithm.engine
    assert engine is not None
    assert engine.rounds == 54
    assert engine.first_loss is not None
    assert engine.master.gamma == 1 / 128
    assert algorithm.ucb is not None
    pulls = [algorithm.linucb.ridge.n, int(algorithm.ucb.counts.sum())]
    assert [len(stored) for stored in engine.stored] == pulls
    virtual = sum(column >= 40 for _, column in algorithm.history)
    assert 0 < virtual < 237
    gaps = [mu.max() - algorithm.mixtures.mean(j, mu) for j in range(2)]
    assert algorithm.mixture_regret(mu, 192) == approx(64 * gaps[0] + 128 * gaps[1], 1e-9)


def test_linucbpp_corral_step_size() -> None:
    X, mu, rng = instance(23)
    algorithm = LinUCBPPCorral(X, 300, 0.1, 0.1, rng)
    run(algorithm, mu, 66, 0.1, rng)
    assert algorithm.engine is not None
    assert algorithm.engine.master.eta == approx(1 / sqrt(24 * 128), 1e-12)


# --- Dynamic Balancing --------------------------------------------------------------------------------------


class Constant:
    """A base that always plays the same action."""

    def __init__(self, action: int) -> None:
        self.action = action

    def select(self) -> int:
        return self.action

    def update(self, arm: int, reward: float) -> None:
        assert arm == self.action


def balancing(dims: list[int], delta: float, c: float, reference: Literal["lower", "upper"]) -> DynamicBalancing:
    def bound(dim: int) -> Callable[[int], float]:
        return lambda n: sqrt(dim * n)

    return DynamicBalancing(
        [Constant(i) for i in range(len(dims))],
        [bound(dim) for dim in dims],
        np.random.default_rng(0),
        delta,
        c,
        reference=reference,
        ties="lowest",
    )


def test_balanced_counts_c19() -> None:
    """Equal rewards: nobody is de-activated and n_i d_i is balanced; 8.4's ratio of potentials."""
    master = balancing([1, 4, 16], 0.1, 1.0, "lower")
    counts = {}
    for t in range(1, 2101):
        master.update(master.select(), 0.5)
        counts[t] = tuple(int(n) for n in master.counts)
        assert sum(counts[t]) == t
        assert master.active.all()
        if min(counts[t]) > 0:
            potentials = master.potentials()
            assert potentials.max() <= 4 * potentials.min() * (1 + 1e-12)
    assert counts[42] == (32, 8, 2)
    assert counts[210] == (160, 40, 10)
    assert counts[2100] == (1600, 400, 100)


@pytest.mark.parametrize(
    ("reference", "first", "at_first", "at_50"),
    [("lower", 20, (16, 4), (16, 34)), ("upper", 6, (5, 1), (8, 42))],
)
def test_elimination_toy_c19(
    reference: Literal["lower", "upper"], first: int, at_first: tuple[int, int], at_50: tuple[int, int]
) -> None:
    master = balancing([1, 4], 0.1, 0.1, reference)
    deactivated = None
    for t in range(1, 51):
        arm = master.select()
        master.update(arm, (0.2, 0.6)[arm])
        if deactivated is None and not master.active[0]:
            deactivated = (t, tuple(int(n) for n in master.counts))
    assert deactivated == (first, at_first)
    assert tuple(int(n) for n in master.counts) == at_50


def test_released_bounds_and_widths_c19() -> None:
    assert [nested_bound(dim, 1, 1200) for dim in (1, 16, 512)] == [1.0, 1.0, 1.0]
    assert nested_bound(1, 2, 1200) == approx(30.590267)
    assert nested_bound(16, 2, 1200) == approx(122.361068)
    assert nested_bound(1, 10, 1200) == approx(121.366309)
    assert nested_bound(1, 100, 1200) == approx(611.713276)
    widths = [released_width(n, 10, 1 / 50, 1.0) for n in (1, 2, 10, 100)]
    assert widths == approx([0.0, 1.709985, 0.839562, 0.278241])
    assert theory_width(2, 10, 1 / 50, 1.0) == approx(theory_width(1, 10, 1 / 50, 1.0) / sqrt(2), 1e-12)
    assert theory_width(3, 10, 1 / 50, 1.0) == approx(released_width(3, 10, 1 / 50, 1.0), 1e-12)


def test_released_ties_may_draw_an_inactive_learner() -> None:
    """Q8."""
    master = balancing([1, 1, 1], 0.1, 1.0, "upper")
    master.counts[:] = 4
    master.active[:] = [False, True, True]
    master.ties = "random"
    assert {master.pick() for _ in range(100)} == {1, 2}
    master.ties_among_all = True
    assert {master.pick() for _ in range(100)} == {0, 1, 2}


@pytest.mark.parametrize("variant", ["theory", "released"])
def test_nested_balancing(variant: Literal["theory", "released"]) -> None:
    X, mu, rng = instance(24)
    algorithm = NestedDynamicBalancing(X, 300, 0.1, 0.1, rng, variant=variant)
    bases_of_first_steps = []
    for _ in range(300):
        arm = algorithm.select()
        bases_of_first_steps.append(algorithm.base)
        algorithm.update(arm, float(mu[arm] + 0.1 * rng.standard_normal()))
        assert algorithm.active.any()
        assert np.all(algorithm.active[algorithm.counts == 0])
    assert sorted(bases_of_first_steps[:5]) == [0, 1, 2, 3, 4]
    assert algorithm.counts.sum() == 300
    assert list(algorithm.counts) == sorted(algorithm.counts, reverse=True)


# --- All together -------------------------------------------------------------------------------------------

Factory = Callable[[Floats, int, Generator], Algorithm]
ALGORITHMS: dict[str, Factory] = {
    "linucb": lambda X, T, rng: LinUCB(X, T, 0.1, 0.1, rng),
    "suplinucb": lambda X, T, rng: SupLinUCB(X, T, 0.1, 1.0, rng),
    "linucbpp": lambda X, T, rng: LinUCBPP(X, T, 0.1, 0.1, rng),
    "released": lambda X, T, rng: LinUCBPP(X, T, 0.1, 0.1, rng, bonus="squared", rescale=True),
    "corral": lambda X, T, rng: Corral(X, T, 0.1, 0.1, rng),
    "smooth": lambda X, T, rng: SmoothCorral(X, T, 0.1, 0.1, rng),
    "linucbpp_corral": lambda X, T, rng: LinUCBPPCorral(X, T, 0.1, 0.1, rng),
    "balancing": lambda X, T, rng: NestedDynamicBalancing(X, T, 0.1, 0.1, rng),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("T", [2, 3, 5, 97])
def test_every_algorithm_runs_and_repeats(name: str, T: int) -> None:
    X, mu, _ = instance(25, K=15, d=6)
    runs = [
        run(ALGORITHMS[name](X, T, np.random.default_rng(1)), mu, T, 0.1, np.random.default_rng(2)) for _ in range(2)
    ]
    assert np.array_equal(runs[0].arms, runs[1].arms)
    assert np.all(np.diff(runs[0].regret) >= 0)
    assert runs[0].regret[-1] <= T * np.ptp(mu) + 1e-9
