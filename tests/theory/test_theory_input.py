"""Values that no theorem is about are refused by name."""

import math

import numpy as np
import pytest

from adadim import theory


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
        (lambda: theory.lower_bound_family(100, 0.5).average_regret_bound_from_regret([1.0, np.nan]), "regret_0 must"),
        (
            lambda: theory.lower_bound_family(100, 0.5).average_regret_bound_from_regret(1.0, "mine"),
            "form must be 'paper' or 'counts', got 'mine'",
        ),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
