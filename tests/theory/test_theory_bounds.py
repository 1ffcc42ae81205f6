"""Bounds with their constants: Theorem 1, the confidence radius, and the orders of the upper bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim import theory


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
