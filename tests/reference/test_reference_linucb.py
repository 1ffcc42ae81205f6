"""The reference LinUCB and SupLinUCB against the specification's oracles and invariants."""

from __future__ import annotations

from collections import Counter
from math import log, sqrt

import numpy as np
import pytest

from .common import Floats, argmax_ties, run
from .instances import approx, instance
from .linucbpp import schedule
from .ridge import Bonus, LinUCB, chu_radius, noise_radius, oful_radius, virtual_sigma
from .suplinucb import SupLinUCB

ARMS = np.array([[1.0, 0.0], [0.0, 0.9], [0.6, 0.7]])
MEANS = ARMS @ np.array([0.5, 0.2])


# LinUCB


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


# SupLinUCB


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
