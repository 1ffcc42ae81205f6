"""Hardness, and the schedule of iterations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim import theory

betas = st.floats(0.5, 1.0, exclude_max=True)
horizons = st.integers(1, 10**7)


def ends(plan):
    return [iteration.stop for iteration in plan.iterations]


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
