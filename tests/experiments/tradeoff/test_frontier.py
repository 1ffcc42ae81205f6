"""The Pareto frontier as numbers."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim import theory
from adadim.experiments import tradeoff


def test_frontier_holds_the_values_of_c26():
    table = tradeoff.frontier([0.5, 0.6, 0.75, 0.9], points=11)
    expected = {
        0.5: [0.5, 0.6, 0.7, 0.8, 0.9] + [1.0] * 6,
        0.6: [0.6, 0.6, 0.6, 0.7, 0.8, 0.9] + [1.0] * 5,
        0.75: [0.75] * 6 + [0.85, 0.95] + [1.0] * 3,
        0.9: [0.9] * 9 + [1.0] * 2,
    }
    grid = np.linspace(0, 1, 11)
    for beta, rates in expected.items():
        curve = table.filter(pl.col("beta") == beta)
        np.testing.assert_allclose(np.interp(grid, curve["alpha"], curve["rate"]), rates, atol=1e-12)
    line = table.filter(curve="non-adaptive")
    np.testing.assert_allclose(line["rate"], (1 + line["alpha"]) / 2)
    assert line["beta"].null_count() == line.height


@given(beta=st.floats(0.5, 0.999), points=st.integers(2, 7))
def test_frontier_has_its_corners_and_touches_the_line_once(beta, points):
    curve = tradeoff.frontier([beta], points).filter(pl.col("beta") == beta)
    fine = np.linspace(0, 1, 401)
    np.testing.assert_allclose(
        np.interp(fine, curve["alpha"], curve["rate"]), theory.pareto_rate(fine, beta), atol=1e-12
    )
    at = np.interp(2 * beta - 1, curve["alpha"], curve["rate"])
    assert at == pytest.approx((1 + (2 * beta - 1)) / 2)
    assert (curve["rate"] >= (1 + curve["alpha"]) / 2 - 1e-12).all()


@given(taper=st.floats(0, 50), points=st.integers(2, 7))
def test_frontier_of_the_taper(taper, points):
    """A straight line from 1/2 + 1/(2 + s) at alpha = 0 to 1 at alpha = 1/2, above that of LinUCB told alpha."""
    curve = tradeoff.frontier([0.5], points, tapers=[taper]).filter(pl.col("curve") == f"taper = {taper:g}")
    fine = np.linspace(0, 1, 201)
    start = 0.5 + 1 / (2 + taper)
    expected = np.minimum(start + 2 * (1 - start) * fine, 1.0)
    np.testing.assert_allclose(np.interp(fine, curve["alpha"], curve["rate"]), expected, atol=1e-12)
    assert (curve["rate"] >= (1 + curve["alpha"]) / 2 - 1e-12).all()


@pytest.mark.parametrize(("betas", "points"), [([], 5), ([0.4], 5), ([1.0], 5), ([0.5], 1), ([0.5], 2.5)])
def test_frontier_refuses(betas, points):
    with pytest.raises(ValueError, match="must"):
        tradeoff.frontier(betas, points)
