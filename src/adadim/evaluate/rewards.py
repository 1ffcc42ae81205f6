"""A model of the rewards for the doubly robust estimator, which never sees the row that it predicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from adadim.evaluate.logs import Log

__all__ = ["predictions"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

FIRST, SHARE = 16, 16  # rows of the first fit; then it doubles until a block is 1/16 of the log


def predictions(log: Log) -> FloatArray:
    """Predicted reward of every arm in every row, (n, K), by ridge regression on the rows before it; 0 in the first.

    The ridge weighs as much as one row. It is fitted anew for blocks of rows, so that what a row is predicted by
    does not depend on it: the estimator stays unbiased however wrong the model is.
    """
    predicted = np.zeros((len(log), log.arms))
    second, moment, trace = np.zeros((log.dim, log.dim)), np.zeros(log.dim), 0.0
    for start, stop in _blocks(len(log)):
        offers = log.offers(start, stop)
        if start and trace:
            ridge = trace / (start * log.dim)
            theta = cho_solve(cho_factor(second + ridge * np.eye(log.dim)), moment)
            for row, offer in enumerate(offers, start):
                predicted[row, : len(offer)] = offer @ theta
        x = np.stack([offer[at] for offer, at in zip(offers, log.chosen[start:stop].tolist(), strict=True)])
        second += x.T @ x
        moment += log.rewards[start:stop] @ x
        trace += float((x * x).sum())
    return predicted


def _blocks(rows: int) -> Iterator[tuple[int, int]]:
    """Ends of the blocks: 0-16, 16-32, 32-64, ..., then 1/16 of the rows each."""
    start, size = 0, FIRST
    while start < rows:
        stop = min(rows, start + size)
        yield start, stop
        start, size = stop, min(max(FIRST, stop), max(FIRST, rows // SHARE))
