"""The reference Corral and Smooth Corral against the specification's oracles and invariants."""

from __future__ import annotations

from collections import Counter
from math import exp, log, sqrt
from typing import Literal

import numpy as np
import pytest

from .common import loss_of, run
from .corral import Corral, CorralMaster, SmoothCorral, SmoothMaster, log_barrier_omd, nested_dims
from .instances import approx, instance
from .ridge import LinUCB

# Corral


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


# Smooth Corral


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
