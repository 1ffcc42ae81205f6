"""Resampling trials: the bootstrap behind every interval that the library states.

The draws are the same each time, so that intervals are as reproducible as the results they come from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adadim.core.arrays import FloatArray

MIN_TRIALS = 6
"""Trials from which an interval means something: with fewer, chance alone makes all agree too often (2^-5 > 0.025)."""

RESAMPLES, WEIGHT_RESAMPLES = 4000, 2000


def resamples(trials: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Which trials are in each resample, (4001, trials); row 0 is the data as they are."""
    draw = generator().integers(max(trials, 1), size=(RESAMPLES, trials))
    return np.vstack([np.arange(trials), draw])


def generator() -> np.random.Generator:
    """A new generator of the draws."""
    return np.random.default_rng(20220328)


def shares(draw: np.random.Generator, count: int, times: int = WEIGHT_RESAMPLES) -> FloatArray:
    """Share of each of `count` trials (or targets) in each of `times` resamples, (times, count)."""
    return np.asarray(draw.multinomial(count, np.full(count, 1 / count), size=times) / count)


def percentile_interval(sample: FloatArray) -> tuple[float, float]:
    """95% percentile interval."""
    low, high = np.quantile(sample, [0.025, 0.975]).tolist()
    return low, high


def mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """95% interval of the mean over trials, for each column of (trials, n) values: low and high ends.

    Percentiles of the bootstrap, so far out that they would agree with Student's t for normal values (Hesterberg's
    expanded percentiles); of fewer than 6 trials Student's interval itself. One trial has none.
    """
    trials = len(values)
    mean = values.mean(axis=0)
    if trials < 2:
        return mean, mean
    from scipy.special import ndtr, stdtrit  # here, since it takes a while to load and most commands draw nothing

    quantile = float(stdtrit(trials - 1, 0.975))
    if trials < MIN_TRIALS:
        half = quantile * values.std(axis=0, ddof=1) / np.sqrt(trials)
        return mean - half, mean + half
    tail = float(ndtr(-quantile * np.sqrt(trials / (trials - 1))))
    drawn = shares(generator(), trials, RESAMPLES) @ values
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return low, high
