"""Estimators of the value of a policy from logged choices: pure functions of weights, rewards and predictions.

Row i of the log has the reward r_i of the arm a_i, chosen with probability p_i. The policy to be judged would choose it
with probability pi_i: its weight is w_i = pi_i / p_i. Intervals are the normal ones of the mean over rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

__all__ = ["Estimate", "doubly_robust", "effective_rows", "ips", "mean_of", "snips"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Estimate:
    """A value with its interval.

    Attributes
    ----------
    value : float
        Estimated mean reward of a decision; not a number if no row says anything.
    error : float
        Its standard error.
    low, high : float
        Ends of the interval.
    rows : int
        Number of rows that it is the mean of.

    Examples
    --------
    >>> mean_of(np.array([1.0, 2.0, 3.0, 2.0]), level=0.95)
    Estimate(2 +- 0.8, 4 rows)
    """

    value: float
    error: float
    low: float
    high: float
    rows: int

    def __repr__(self) -> str:
        return f"Estimate({self.value:.4g} +- {self.high - self.value:.2g}, {self.rows} rows)"


def mean_of(terms: FloatArray, level: float) -> Estimate:
    """Mean of independent terms."""
    if not len(terms):
        return Estimate(math.nan, math.nan, math.nan, math.nan, 0)
    spread = float(terms.std(ddof=1)) if len(terms) > 1 else math.nan
    return _estimate(float(terms.mean()), spread / math.sqrt(len(terms)), level, len(terms))


def ips(weights: FloatArray, rewards: FloatArray, level: float) -> Estimate:
    """Inverse propensity score: the mean of w r. Unbiased, if the probabilities of the log are right.

    Examples
    --------
    >>> ips(np.array([2.0, 0.0, 2.0, 0.0]), np.array([1.0, 5.0, 0.0, 7.0]), 0.95).value
    0.5
    """
    return mean_of(weights * rewards, level)


def snips(weights: FloatArray, rewards: FloatArray, level: float) -> Estimate:
    """The same divided by the mean weight: a little biased, steadier, and unmoved by a constant added to all rewards.

    Its error is that of the ratio, by the delta method.

    Examples
    --------
    >>> snips(np.array([2.0, 0.0, 1.0, 0.0]), np.array([1.0, 5.0, 0.0, 7.0]), 0.95).value
    0.6666666666666666
    """
    n, total = len(weights), float(weights.sum())
    if total == 0:
        return Estimate(math.nan, math.nan, math.nan, math.nan, n)
    value = float((weights * rewards).sum()) / total
    spread = float((weights * (rewards - value)).std(ddof=1)) if n > 1 else math.nan
    return _estimate(value, math.sqrt(n) * spread / total, level, n)


def doubly_robust(
    weights: FloatArray, rewards: FloatArray, expected: FloatArray, predicted: FloatArray, level: float
) -> Estimate:
    """Mean of the model's value, corrected by the weighted error of the model: right if either of the two is.

    Parameters
    ----------
    weights, rewards : array (n,)
        As for the others.
    expected : array (n,)
        What the model says the policy would earn in each row, sum_a pi(a) q(a).
    predicted : array (n,)
        What it says of the arm that was chosen, q(a_i).
    level : float
        Level of the interval.

    Examples
    --------
    >>> w, r = np.array([2.0, 0.0]), np.array([1.0, 5.0])
    >>> doubly_robust(w, r, expected=np.array([0.5, 0.5]), predicted=np.array([0.75, 3.0]), level=0.95).value
    0.75
    """
    return mean_of(expected + weights * (rewards - predicted), level)


def effective_rows(weights: FloatArray) -> float:
    """How many rows of equal weight would say as much: (sum w)^2 / sum w^2 (Kish).

    Examples
    --------
    >>> effective_rows(np.array([2.0, 2.0, 0.0, 0.0])), effective_rows(np.array([9.0, 1.0]))
    (2.0, 1.2195121951219512)
    """
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _estimate(value: float, error: float, level: float, rows: int) -> Estimate:
    half = NormalDist().inv_cdf(0.5 + level / 2) * error
    return Estimate(value, error, value - half, value + half, rows)
