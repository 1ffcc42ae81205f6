"""Rate functions: the Pareto frontier, which rate dominates which, and the beta to choose."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim import theory

betas = st.floats(0.5, 1.0, exclude_max=True)
alphas = st.floats(0.0, 1.0)


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


def test_the_frontier_is_the_least_over_all_betas():
    alphas, betas = np.linspace(0, 0.99, 34), np.linspace(0.5, 1, 2001)[:-1]
    rates = np.array([theory.frontier(alphas, beta) for beta in betas])
    np.testing.assert_allclose(rates.min(axis=0), theory.frontier(alphas), atol=3e-4)
    assert (rates >= theory.frontier(alphas) - 1e-15).all()
    assert theory.frontier(0.3, beta=0.75) == theory.pareto_rate(0.3, beta=0.75)
