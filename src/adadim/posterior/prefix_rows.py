"""What all prefixes of one replication need, on NumPy: predictions averaged over them, and their turn by a pull.

The equations are those of `factor`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from adadim.backend.arrays import Array

__all__ = ["averaged_arms", "triangle", "turn_one"]

FEW = 96  # features up to which a product of matrices is faster than running sums, which take fewer operations


def averaged_arms(z: Array, w: Array, chances: Array) -> tuple[Array, Array, Array]:
    """Predictions averaged over d*, given z (d, K), w (d,) and P(d* = m), (d,): mean, and squared widths.

    With tail_j = P(d* >= j) the mean of each arm is sum_j tail_j z_j w_j, and the squared width within the prefixes is
    sum_j tail_j z_j^2; how far their means spread comes third.
    """
    tail = np.cumsum(chances[::-1])[::-1]
    mean = (tail * w) @ z
    if len(w) <= FEW:
        spread = ((triangle(len(w), 0) - tail) * w) @ z
    else:
        spread = _running_sums(z * w[:, None])
        spread -= mean
    spread *= spread
    return mean, tail @ (z * z), chances @ spread


@lru_cache
def triangle(size: int, diagonal: int) -> Array:
    """Ones on and below a diagonal; to be read only."""
    return np.tri(size, k=diagonal)


def _running_sums(steps: Array) -> Array:
    """Running sums over the features of (d, K), in place, row by row: ten times as fast as NumPy's own."""
    for j in range(1, len(steps)):
        steps[j] += steps[j - 1]
    return steps


def turn_one(columns: Array, w: Array, residuals: Array, logdets: Array, p: Array, reward: float) -> None:
    """`PrefixFactor.turn` of one replication, in place (NumPy)."""
    sums = np.empty((2, len(p) + 1))
    sums[0, 0], sums[1, 0] = 1.0, -reward
    np.multiply(p, p, out=sums[0, 1:])
    np.multiply(p, w, out=sums[1, 1:])
    s, surprise = np.cumsum(sums, axis=1)  # s_0, ..., s_d, and the prefixes' means less the reward
    before, s = s[:-1], s[1:]
    logdets += np.log(s)
    shrink, pull = np.sqrt(before / s), p / before
    w -= pull * surprise[:-1]  # adding r p and taking off its running sum leaves this
    w *= shrink
    surprise = surprise[1:]
    residuals += surprise * surprise / s
    _turn_rows(columns, p, pull, shrink)


def _turn_rows(columns: Array, p: Array, pull: Array, shrink: Array) -> None:
    """Turn the columns (d, C) of one replication in place (NumPy)."""
    if len(p) <= FEW:
        matrix = triangle(len(p), -1) * (-shrink * pull)[:, None] * p
        matrix.flat[:: len(p) + 1] = shrink
        columns[:] = matrix @ columns
        return
    running = _running_sums(columns[:-1] * p[:-1, None])
    running *= pull[1:, None]
    columns[1:] -= running
    columns *= shrink[:, None]
