"""Choosing the largest score, ties broken uniformly at random."""

from __future__ import annotations

from typing import Literal

import numpy as np

from adadim.core.arrays import Array, is_numpy, like, namespace

Ties = Literal["random", "lowest"]

TIE_TOLERANCE = 1e-10
"""Scores this close to the top, relative to it, tie: arms on a sphere differ by rounding alone."""

FEW_SCORES = 40  # up to so many, Python's own numbers are faster than NumPy's


def argmax(scores: Array, uniforms: Array | None) -> Array:
    """Position of the largest score in each row; one uniform per row picks among ties, None takes the lowest index."""
    if is_numpy(scores):
        if len(scores) > 1:
            return _argmax_numpy(scores, uniforms)
        tied = positions_of_largest(scores[0])
        return np.array([tied[0 if uniforms is None else int(uniforms.item(0) * len(tied))]])
    xp = namespace(scores)
    tied = xp.astype(tied_for_first(scores), xp.int64)
    rank = xp.cumulative_sum(tied, axis=-1)
    draw = xp.zeros_like(scores[:, 0]) if uniforms is None else like(uniforms, scores)
    wanted = xp.astype(xp.floor(draw * xp.sum(tied, axis=-1)), xp.int64) + 1
    return xp.argmax(xp.astype(rank >= wanted[:, None], xp.int64), axis=-1)


def tie_probabilities(scores: Array, ties: Ties) -> Array:
    """Probability (n, K) with which `argmax` gives each position."""
    xp, tied = namespace(scores), tied_for_first(scores)
    tied[:, 0] |= ~xp.any(tied, axis=-1)  # no score is above one that is not a number
    if ties == "lowest":
        return xp.astype(tied & (xp.cumulative_sum(xp.astype(tied, xp.int64), axis=-1) == 1), xp.float64)
    return tied / xp.sum(xp.astype(tied, xp.float64), axis=-1)[:, None]


def mean_tie_probabilities(scores: Array, ties: Ties) -> Array:
    """Mean (K,) of `tie_probabilities` over the rows; where nothing ties, the shares of rows (NumPy)."""
    largest, each = scores.argmax(axis=1), np.arange(len(scores))
    tied = _reaches(scores, scores[each, largest])
    if np.count_nonzero(tied) == len(scores) and tied[each, largest].all():  # not so if a score is not a number
        return np.bincount(largest, minlength=scores.shape[1]) / len(scores)
    return np.ascontiguousarray(tie_probabilities(scores, ties).T).mean(axis=1)


def equal_probabilities(positions: Array | list[int], count: int) -> Array:
    """Probabilities (1, count) that are equal at some positions and 0 elsewhere (NumPy)."""
    probabilities = np.zeros((1, count))
    probabilities[0, positions if len(positions) > 1 else positions[0]] = 1 / len(positions)
    return probabilities


def tied_for_first(scores: Array) -> Array:
    """Which scores (n, K) are the largest of their row, up to rounding."""
    if not is_numpy(scores):
        xp = namespace(scores)
        top = xp.max(scores, axis=-1)
        slack = xp.where(xp.isfinite(top), TIE_TOLERANCE * xp.abs(top), xp.zeros_like(top))
        return scores >= (top - slack)[:, None]
    return _reaches(scores, np.maximum.reduce(scores, axis=-1))


def _reaches(scores: Array, top: Array) -> Array:
    """Which scores (n, K) are as large as `top` (n,), up to rounding (NumPy)."""
    bar = np.minimum(top * (1 - TIE_TOLERANCE), top * (1 + TIE_TOLERANCE))  # below the top of any sign; infinity stays
    return scores >= bar[:, None]


def sampled(probabilities: Array, uniforms: Array) -> Array:
    """Index drawn from each row of `probabilities`, which need not sum to exactly 1."""
    return draw_indices(namespace(probabilities).cumulative_sum(probabilities, axis=-1), uniforms)


def draw_indices(steps: Array, uniforms: Array) -> Array:
    """Index drawn from each row of cumulative probabilities."""
    xp = namespace(steps)
    return xp.sum(xp.astype(steps <= (uniforms * steps[:, -1])[:, None], xp.int64), axis=-1)


def _argmax_numpy(scores: Array, uniforms: Array | None) -> Array:
    tied = tied_for_first(scores)
    chosen = tied.argmax(axis=-1)
    if np.count_nonzero(tied) > len(scores):
        for i in range(len(scores)):
            candidates = np.flatnonzero(tied[i])
            if len(candidates) > 1:
                chosen[i] = candidates[0 if uniforms is None else int(uniforms[i] * len(candidates))]
    return chosen


def positions_of_largest(row: Array) -> Array | list[int]:
    """Where the largest scores of one row (K,) are, up to rounding (NumPy)."""
    few = len(row) <= FEW_SCORES
    values = row.tolist() if few else row
    best = max(values) if few else row.item(row.argmax())
    bar = min(best * (1 - TIE_TOLERANCE), best * (1 + TIE_TOLERANCE))
    tied = [k for k, value in enumerate(values) if value >= bar] if few else (row >= bar).nonzero()[0]
    return tied if len(tied) else [0]  # no score is above one that is not a number
