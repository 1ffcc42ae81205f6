"""Slopes of regret in the horizon, on power laws of known exponent."""

import math

import numpy as np
import pytest

from adadim.experiments import tradeoff


def power_law(rng, horizons, rates, trials=24, spread=0.3):
    """Regrets (families, trials, horizons) around 3 T^rate, with noise that trials share over horizons in part."""
    t = np.asarray(horizons, dtype=float)
    shared = rng.normal(size=(len(rates), trials, 1))
    own = rng.normal(size=(len(rates), trials, len(t)))
    noise = np.exp(spread * (0.5 * shared + own))
    return 3.0 * t ** np.asarray(rates)[:, None, None] * noise


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.75, 1.0])
def test_slopes_of_power_laws_are_recovered(rate):
    horizons = [64, 256, 1024, 4096]
    regret = power_law(np.random.default_rng(1), horizons, [rate])
    found = tradeoff.fit_slope(horizons, regret)
    assert found.value == pytest.approx(rate, abs=0.1)
    assert found.low < found.value < found.high
    assert found.kept == (True,) * 4
    exact = tradeoff.fit_slope(horizons, power_law(np.random.default_rng(1), horizons, [rate], spread=0.0))
    assert [exact.value, exact.low, exact.high] == pytest.approx([rate] * 3, abs=1e-9)


def test_the_interval_covers():
    horizons, rng = [64, 256, 1024, 4096], np.random.default_rng(2)
    fits = [tradeoff.fit_slope(horizons, power_law(rng, horizons, [0.6])) for _ in range(200)]
    covered = np.mean([fit.low <= 0.6 <= fit.high for fit in fits])
    assert 0.86 <= covered <= 0.99  # 95% but for the few trials
    assert np.mean([fit.value for fit in fits]) == pytest.approx(0.6, abs=0.01)


def test_the_worst_family_counts():
    horizons = [64, 256, 1024]
    regret = np.concatenate(
        [np.full((1, 6, 3), 40.0), 5.0 * np.sqrt(horizons) * np.ones((1, 6, 1)), np.ones((1, 6, 3))]
    )
    fit = tradeoff.fit_slope(horizons, regret)
    assert fit.worst == (0, 1, 1)
    expected = np.polyfit(np.log(horizons), np.log([40.0, 80.0, 160.0]), 1)[0]
    assert fit.value == pytest.approx(expected)


def test_saturated_points_are_left_out():
    """A regret of T^0.5 capped by the ceiling looks linear at first; without the guard the slope is wrong."""
    horizons = [16, 64, 256, 1024, 4096]
    t = np.array(horizons, dtype=float)
    regret = np.minimum(0.5 * t, 8 * np.sqrt(t)) * np.ones((1, 8, 1))
    ceiling = 0.5 * t[None]
    guarded = tradeoff.fit_slope(horizons, regret, ceiling)
    assert guarded.kept == (False, False, False, True, True)  # at T = 256 the regret is just at the ceiling
    assert math.isnan(guarded.value)
    longer = [*horizons, 16384]
    t = np.array(longer, dtype=float)
    regret, ceiling = np.minimum(0.5 * t, 8 * np.sqrt(t)) * np.ones((1, 8, 1)), 0.5 * t[None]
    assert tradeoff.fit_slope(longer, regret, ceiling).value == pytest.approx(0.5)
    assert tradeoff.fit_slope(longer, regret).value > 0.65


def test_fit_slope_refuses_other_shapes_and_bears_zeros():
    with pytest.raises(ValueError, match="regret must be"):
        tradeoff.fit_slope([1, 2], np.ones((3, 2)))
    none = tradeoff.fit_slope([16, 64, 256], np.zeros((1, 8, 3)))
    assert math.isnan(none.value)
    assert none.kept == (False,) * 3
