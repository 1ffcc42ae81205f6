"""The reference LinUCB++ against the specification's oracles and invariants: schedule, mixtures, iterations."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from .common import run
from .instances import approx, instance, sphere
from .linucbpp import LinUCBPP, Mixtures, closure_levels, expressive_closure, schedule, usable_rows
from .linucbpp_corral import LinUCBPPCorral
from .ridge import Bonus, LinUCB, virtual_sigma
from .suplinucb import SupLinUCB

# Schedule


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


# Mixtures and UCB


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


# LinUCB++


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
