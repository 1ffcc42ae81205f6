"""A master's probabilities: Corral's bookkeeping, EXP3.P, and drawing from them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adadim.core.rows import Replications
from adadim.core.ties import sampled
from adadim.policies.masters.corral import LogBarrier
from adadim.policies.masters.smooth_corral import Exp3P
from adadim.policies.parameters import loss, nested_dims
from reference import CorralMaster

ROW = Replications.all(np.zeros((1, 1)))
FIRST = np.array([0])


# Corral's bookkeeping


def test_smoothing_c18():
    master = LogBarrier(np.zeros(1), 2, eta=0.1, horizon=100)
    master.update(FIRST, np.ones(1), ROW)
    np.testing.assert_allclose(master.p[0], [0.4750621894, 0.5249378106], rtol=0, atol=1e-10)
    np.testing.assert_allclose(master.pbar[0], [0.4753115675, 0.5246884325], rtol=0, atol=1e-10)
    assert master.rho.tolist() == [[4.0, 4.0]]
    assert master.eta.tolist() == [[0.1, 0.1]]


def test_nine_rounds_c18():
    master = LogBarrier(np.zeros(1), 2, eta=0.5, horizon=100)
    p, pbar, grown = {}, {}, []
    for t in range(1, 10):
        before = master.eta[0, 0]
        master.update(FIRST, np.ones(1), ROW)
        p[t], pbar[t] = master.p[0].copy(), master.pbar[0, 0]
        if master.eta[0, 0] > before:
            grown.append((t, master.eta[0, 0], master.rho[0, 0]))
    np.testing.assert_allclose(p[1], [0.3819660113, 0.6180339887], rtol=0, atol=1e-10)
    assert pbar[1] == pytest.approx(0.3831463511, abs=1e-10)
    assert p[2][0] == pytest.approx(0.2718611175, abs=1e-10)
    assert p[3][0] == pytest.approx(0.1866263367, abs=1e-10)
    assert pbar[3] == pytest.approx(0.1897600734, abs=1e-10)
    assert [t for t, _, _ in grown] == [3, 5, 7, 9]
    assert [eta for _, eta, _ in grown] == pytest.approx([0.6212635, 0.7719367, 0.9591522, 1.1917726], abs=1e-7)
    assert [rho for _, _, rho in grown] == pytest.approx([10.539625, 25.651862, 66.823838, 153.073263], abs=1e-6)
    assert (master.eta[0, 1], master.rho[0, 1]) == (0.5, 4.0)


def test_growth_factor_c18():
    growth = [LogBarrier(np.zeros(1), 2, 1.0, horizon).growth for horizon in (100, 2500, 10_000)]
    assert growth == pytest.approx([1.242527, 1.136338, 1.114687], abs=1e-6)
    assert (
        LogBarrier(np.zeros(1), 2, 1.0, 1).growth
        == LogBarrier(np.zeros(1), 2, 1.0, 3).growth
        == math.exp(1 / math.log(3))
    )


@given(
    bases=st.integers(1, 6),
    horizon=st.integers(3, 100),
    eta=st.floats(1e-3, 3.0),
    seed=st.integers(0, 2**32 - 1),
    favourite=st.booleans(),
)
@settings(max_examples=30)
def test_invariants(bases, horizon, eta, seed, favourite):
    """Section 6.6, over as many rounds as the horizon says; each round as the reference does it from the same state."""
    rng = np.random.default_rng(seed)
    master, reference = LogBarrier(np.zeros(1), bases, eta, horizon), CorralMaster(bases, eta, horizon)
    rises = np.zeros(bases, dtype=int)
    for _ in range(horizon):
        rho, rates, p = master.rho[0].copy(), master.eta[0].copy(), master.p[0].copy()
        chosen = 0 if favourite else int(rng.choice(bases, p=master.pbar[0]))
        lost = float(rng.choice([0.0, 1.0, rng.random()]))
        for name in ("p", "pbar", "eta", "rho"):
            setattr(reference, name, getattr(master, name)[0].copy())
        master.update(np.array([chosen]), np.array([lost]), ROW)
        reference.update(chosen, lost)
        for ours in (master.p[0], master.pbar[0]):
            assert (ours > 0).all()
            assert abs(ours.sum() - 1) <= 1e-12
        assert (master.pbar[0] >= 1 / (horizon * bases) * (1 - 1e-12)).all()
        np.testing.assert_array_equal(master.probabilities(ROW)[0], master.pbar[0])
        assert (master.rho[0] >= 1 / master.pbar[0]).all()
        rose = master.rho[0] != rho
        rises += rose
        assert (master.rho[0][rose] >= 2 * rho[rose]).all()
        np.testing.assert_allclose(master.eta[0], np.where(rose, rates * master.growth, rates), rtol=1e-15)
        assert master.p[0, chosen] <= p[chosen] * (1 + 1e-12)
        for name in ("p", "pbar", "eta", "rho"):
            np.testing.assert_allclose(getattr(master, name)[0], getattr(reference, name), rtol=1e-12)
    assert (rises <= math.log2(horizon)).all()
    assert (master.eta <= math.exp(1 / math.log(2)) * eta * (1 + 1e-12)).all()


def test_only_the_rows_given_move():
    master = LogBarrier(np.zeros(4), 3, 0.5, 100)
    alone = [LogBarrier(np.zeros(1), 3, 0.5, 100) for _ in range(4)]
    rng = np.random.default_rng(6)
    for _ in range(60):
        rows = rng.permutation(4)[: rng.integers(1, 5)]
        chosen, lost = rng.integers(3, size=len(rows)), rng.random(len(rows))
        master.update(chosen, lost, Replications.some(rows, master.p))
        for r, base, size in zip(rows, chosen, lost, strict=True):
            alone[r].update(np.array([base]), np.array([size]), ROW)
    for r, other in enumerate(alone):
        for name in ("p", "pbar", "eta", "rho"):
            np.testing.assert_array_equal(getattr(master, name)[r], getattr(other, name)[0])


# EXP3.P


def test_exp3p_step_c22():
    master = Exp3P(np.zeros(1), 2, horizon=1000, rates=(0.1, 0.1, 0.05))
    assert master.probabilities(ROW).tolist() == [[0.5, 0.5]]
    master.update(FIRST, np.zeros(1), ROW)
    np.testing.assert_allclose(master.probabilities(ROW)[0], [0.5448505976, 0.4551494024], rtol=0, atol=1e-10)


def test_exp3p_textbook_tuning():
    master = Exp3P(np.zeros(1), 5, horizon=400)
    assert master.bias == pytest.approx(math.sqrt(math.log(5) / 2000), rel=1e-12)
    assert master.eta == pytest.approx(0.95 * math.sqrt(math.log(5) / 2000), rel=1e-12)
    assert master.gamma == pytest.approx(1.05 * math.sqrt(5 * math.log(5) / 400), rel=1e-12)
    assert Exp3P(np.zeros(1), 50, horizon=2).gamma == 1.0


@given(bases=st.integers(1, 6), horizon=st.integers(1, 200), seed=st.integers(0, 2**32 - 1))
def test_exp3p_stays_a_distribution(bases, horizon, seed):
    rng = np.random.default_rng(seed)
    master = Exp3P(np.zeros(2), bases, horizon)
    gains = np.zeros((2, bases))
    for _ in range(50):
        rows = np.flatnonzero(rng.random(2) < 0.7)
        if not rows.size:
            continue
        some = Replications.some(rows, master.gains)
        p = master.probabilities(some)
        assert (p >= master.gamma / bases * (1 - 1e-12)).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        chosen, lost = rng.integers(bases, size=len(rows)), rng.random(len(rows))
        for i, r in enumerate(rows):
            for j in range(bases):
                gains[r, j] += ((1 - lost[i]) * (j == chosen[i]) + master.bias) / p[i, j]
        master.update(chosen, lost, some)
        np.testing.assert_allclose(master.gains, gains, rtol=1e-12)
    weights = np.exp(master.eta * (gains - gains.max(axis=1, keepdims=True)))
    expected = (1 - master.gamma) * weights / weights.sum(axis=1, keepdims=True) + master.gamma / bases
    np.testing.assert_allclose(master.probabilities(Replications.all(gains)), expected, rtol=1e-9)


def test_exp3p_survives_large_gains():
    master = Exp3P(np.zeros(1), 2, horizon=10, rates=(1.0, 0.1, 0.0))
    master.gains[0] = [5000.0, 0.0]
    np.testing.assert_allclose(master.probabilities(ROW)[0], [0.95, 0.05], rtol=1e-12)


# Drawing, losses, dimensions


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any), st.integers(1, 300))
def test_sample_has_the_law_given(weights, size):
    p = np.array(weights) / np.sum(weights)
    drawn = sampled(np.tile(p, (size, 1)), (np.arange(size) + 0.5) / size)
    times = np.bincount(drawn, minlength=len(p))
    assert len(times) == len(p)
    assert (np.abs(times - size * p) < 1 + 1e-6).all()
    extremes = sampled(np.tile(p, (3, 1)), np.array([0.0, 5e-324, 1 - 2.0**-53]))
    assert (p[extremes] > 0).all()


def test_losses():
    rewards = np.array([-3.0, -1.0, 0.0, 0.5, 1.0, 2.0])
    assert loss(rewards, (-1.0, 1.0)).tolist() == [1.0, 1.0, 0.5, 0.25, 0.0, 0.0]
    np.testing.assert_allclose(loss(rewards, (0.0, 2.0)), [1.0, 1.0, 1.0, 0.75, 0.5, 0.0], rtol=1e-15)


def test_nested_dimensions():
    assert nested_dims(600) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert nested_dims(600, ambient=True) == [*nested_dims(600), 600]
    assert nested_dims(24) == [1, 2, 4, 8, 16]
    assert nested_dims(16) == [1, 2, 4, 8]
    assert nested_dims(16, ambient=True) == [1, 2, 4, 8, 16]
    assert nested_dims(17, ambient=True) == [1, 2, 4, 8, 16, 17]
    assert [nested_dims(d) for d in (1, 2, 3)] == [[1], [1], [1, 2]]
    assert [nested_dims(d, ambient=True) for d in (1, 2, 3)] == [[1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize("make", [lambda r: LogBarrier(r, 3, 0.5, 100), lambda r: Exp3P(r, 3, 100)])
def test_masks_move_their_own_rows_only(torch, make):
    """On torch, by mask and by index: outside the mask bit for bit the same, inside it what NumPy gives."""
    rng = np.random.default_rng(7)
    here, by_index, by_mask = make(np.zeros((4, 1))), make(torch.zeros((4, 1))), make(torch.zeros((4, 1)))
    names = ("p", "pbar", "eta", "rho") if isinstance(here, LogBarrier) else ("gains",)
    for _ in range(60):
        mask = rng.random(4) < [0.9, 0.5, 0.2, 0.0]
        chosen, lost, ids = rng.integers(3, size=4), rng.random(4), np.flatnonzero(mask)
        if not ids.size:
            continue
        here.update(chosen[ids], lost[ids], Replications.some(ids, np.zeros((4, 1))))
        some = Replications.some(ids, torch.zeros((4, 1)))
        by_index.update(torch.from_numpy(chosen[ids]), torch.from_numpy(lost[ids]), some)
        before = {name: getattr(by_mask, name).clone() for name in names}
        masked = Replications.where(torch.from_numpy(mask))
        by_mask.update(torch.from_numpy(chosen), torch.from_numpy(lost), masked)
        for name in names:
            assert torch.equal(getattr(by_mask, name)[~masked.mask], before[name][~masked.mask])
            assert torch.equal(getattr(by_mask, name), getattr(by_index, name))
            np.testing.assert_allclose(getattr(by_mask, name), getattr(here, name), rtol=1e-11)
