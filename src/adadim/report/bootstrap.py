"""Resampling trials: the bootstrap behind every interval that the library states.

The draws are the same each time, so that intervals are as reproducible as the results they come from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["FEWEST", "generator", "interval", "resamples", "shares"]

FEWEST = 6
"""Trials from which an interval means something: with fewer, chance alone makes all agree too often (2^-5 > 0.025)."""

SEED = 20220328
RESAMPLES, SHARES = 4000, 2000

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


def resamples(trials: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Which trials are in each resample, (4001, trials); row 0 is the data as they are.

    Examples
    --------
    >>> resamples(3)[0]
    array([0, 1, 2])
    """
    draw = generator().integers(max(trials, 1), size=(RESAMPLES, trials))
    return np.vstack([np.arange(trials), draw])


def generator() -> np.random.Generator:
    """Fresh source of the draws."""
    return np.random.default_rng(SEED)


def shares(draw: np.random.Generator, count: int) -> FloatArray:
    """Share of each of `count` things in each of 2000 resamples."""
    made: FloatArray = draw.multinomial(count, np.full(count, 1 / count), size=SHARES) / count
    return made


def interval(sample: FloatArray) -> tuple[float, float]:
    """95% percentile interval.

    Examples
    --------
    >>> interval(np.arange(41.0))
    (1.0, 39.0)
    """
    low, high = np.quantile(sample, [0.025, 0.975]).tolist()
    return low, high
