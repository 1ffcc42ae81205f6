"""The theory of the taper: its information and its rate."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim import theory


@given(
    seed=st.integers(0, 10**6),
    taper=st.floats(0.0, 3.0),
    ridge=st.floats(0.001, 10.0),
    dim=st.integers(1, 12),
    rounds=st.integers(1, 60),
)
def test_information_is_bounded(seed, taper, ridge, dim, rounds):
    rng = np.random.default_rng(seed)
    scales = rng.random(dim) ** rng.integers(0, 6)
    x = rng.normal(size=(rounds, dim)) * scales
    x /= np.linalg.norm(x, axis=1)[:, None]
    prior = ridge * np.arange(1.0, dim + 1) ** taper
    gain = np.linalg.slogdet(np.diag(prior) + x.T @ x)[1] - np.log(prior).sum()
    assert gain <= theory.tapered_information(rounds, dim, taper, ridge) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("taper", [0.5, 1.0, 1.5, 3.0])
def test_information_grows_at_the_stated_rate(taper):
    horizons = np.array([1e4, 1e6, 1e8])
    bound = np.array([theory.tapered_information(int(t), 10**5, taper, 1.0) for t in horizons])
    order = horizons ** (1 / (1 + taper))
    ceiling = np.ceil(order) * (1 + np.log1p(horizons))
    evenly = [np.log1p(t / j / np.arange(1.0, j + 1) ** taper).sum() for t, j in zip(horizons, order, strict=True)]
    assert (bound <= ceiling).all()
    assert (bound >= evenly).all()  # pulls spread over the first T^(1/(1+s)) axes
    assert (np.array(evenly) >= 0.5 * order).all()


@given(taper=st.floats(0.0, 20.0), target=st.floats(0.0, 1.0))
def test_proved_rate_is_the_best_choice_of_the_ridge_and_respects_the_frontier(taper, target):
    rate = theory.tapered_rate(target, taper, target)
    g = np.linspace(0.0, 1.0, 4001)  # effective dimension T^g, hence ridge T^(1 - (1 + s) g)
    norm = (1 - (1 + taper) * g + taper * target) / 2  # of theta in the metric Lambda
    every = 0.5 + np.maximum(g, g / 2 + norm)
    assert rate == pytest.approx(min(every.min(), 1.0), abs=2e-3 * (1 + taper))
    levels = np.linspace(0, 1, 51)
    assert (theory.tapered_rate(levels, taper, target) >= theory.rate_lower_bound(levels, rate) - 1e-12).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.tapered_information(0, 3, 1.0, 1.0), "horizon must be an integer of at least 1, got 0"),
        (lambda: theory.tapered_information(5, 3, -1.0, 1.0), "taper must be finite and at least 0, got -1.0"),
        (lambda: theory.tapered_information(5, 3, 1.0, 0.0), "ridge must be finite and positive, got 0.0"),
        (lambda: theory.tapered_rate(0.1, math.inf, 0.5), "taper must be finite and at least 0, got inf"),
        (lambda: theory.tapered_rate(0.1, 1.0, 1.5), r"target must lie in \[0, 1\], got 1.5"),
        (lambda: theory.tapered_rate(1.1, 1.0, 0.5), r"alpha must lie in \[0, 1\]"),
    ],
)
def test_theory_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
