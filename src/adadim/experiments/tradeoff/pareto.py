"""The Pareto frontier of rates: the paper's Figure 1 as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from adadim.checks import integer, require
from adadim.theory import nonadaptive_rate, pareto_rate, tapered_rate

__all__ = ["BETAS", "NON_ADAPTIVE", "beta_curve", "frontier", "taper_curve"]

BETAS = (0.5, 0.6, 0.75, 0.9)
NON_ADAPTIVE = "non-adaptive"


def frontier(betas: Sequence[float] = BETAS, points: int = 101, tapers: Sequence[float] = ()) -> pl.DataFrame:
    """Pareto optimal rate functions for some betas, the rate of LinUCB told alpha, and that of tapered LinUCB told it.

    Parameters
    ----------
    betas : sequence of float in [0.5, 1)
        Which of the Pareto optimal rate functions.
    points : int
        Even points of [0, 1]; the corners of the functions are added, so that straight lines between the points
        are exact.
    tapers : sequence of float
        Exponents s of `TaperedLinUCB`, each of which adds the rate that is proved for it when it is told alpha.

    Returns
    -------
    polars.DataFrame
        Columns curve ("non-adaptive", "beta = ..." or "taper = ..."), beta (null but for the second), alpha and rate.

    Examples
    --------
    >>> table = frontier([0.75], points=3)
    >>> table.filter(curve="beta = 0.75").select("alpha", "rate").rows()
    [(0.0, 0.75), (0.5, 0.75), (0.75, 1.0), (1.0, 1.0)]
    """
    grid = np.linspace(0.0, 1.0, integer(points, "points", least=2))
    chosen = list(dict.fromkeys(float(beta) for beta in betas))
    require(bool(chosen), "betas", "name at least one beta in [0.5, 1)", betas)
    parts = [_curve(NON_ADAPTIVE, None, grid, nonadaptive_rate(grid))]
    for beta in chosen:
        pareto_rate(0.0, beta)  # refuses a beta out of range before it moves a corner out of [0, 1]
        alphas = np.unique(np.concatenate([grid, [2.0 * beta - 1.0, beta]]))
        parts.append(_curve(beta_curve(beta), beta, alphas, pareto_rate(alphas, beta)))
    for taper in dict.fromkeys(float(taper) for taper in tapers):
        tapered_rate(0.0, taper, 0.0)
        alphas = np.unique([*grid, 0.5])  # whatever the taper, the rate is 1 from there on
        rates = np.array([tapered_rate(alpha, taper, alpha) for alpha in alphas.tolist()])
        parts.append(_curve(taper_curve(taper), None, alphas, rates))
    return pl.concat(parts)


def beta_curve(beta: float) -> str:
    """Name of the curve of a beta."""
    return f"beta = {beta:g}"


def taper_curve(taper: float) -> str:
    """Name of the curve of a taper."""
    return f"taper = {taper:g}"


def _curve(
    name: str, beta: float | None, alphas: np.ndarray[Any, np.dtype[np.float64]], rates: np.ndarray[Any, Any]
) -> pl.DataFrame:
    fixed = [pl.lit(name).alias("curve"), pl.lit(beta, dtype=pl.Float64).alias("beta")]
    return pl.DataFrame({"alpha": alphas, "rate": rates}).select(*fixed, "alpha", "rate")
