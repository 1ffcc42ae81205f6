"""Log determinants and residuals of the regressions on all prefixes, from a table of choices and rewards (NumPy).

One QR factorisation of the table with the rewards as its last column gives all of them. Residuals are sums of squares,
so nothing cancels. The table may have one row for each choice, or one for each distinct arm pulled: its features times
the root of its pulls, its sum of rewards divided by that root, and `within`, the squares that such means leave out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adadim.posterior.factor import prior_precisions

__all__ = ["RIDGES", "canonical_prefixes", "given_prefixes"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

RIDGES: FloatArray = 10.0 ** np.arange(-6.0, 6.5, 0.5)
"""Ridges to average over: (noise / size of a coefficient)^2, for features whose mean square is 1."""

DEPENDENT = 1e-11  # share of a column's length outside the columns before it, below which it is rounding


def given_prefixes(
    rows: FloatArray, response: FloatArray, within: float, ridge: float, taper: float
) -> tuple[FloatArray, FloatArray]:
    """ln det(V_m / Lambda_m) and S_m, both (d,), for the features as they are and precisions ridge j^taper.

    Examples
    --------
    >>> import numpy as np
    >>> logdets, residuals = given_prefixes(np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([1.0, 0.0]), 0.0, 1.0, 0.0)
    >>> np.exp(logdets).round(3), residuals.round(3)
    (array([2.36, 3.64]), array([0.576, 0.549]))
    """
    dim = rows.shape[1]
    precisions = prior_precisions(ridge, taper, dim)
    table = np.zeros((len(rows) + dim, dim + 1))
    table[: len(rows), :dim], table[: len(rows), dim] = rows, response
    table[len(rows) :, :dim] = np.diag(np.sqrt(precisions))
    upper = np.asarray(np.linalg.qr(table, mode="r"))
    logdets = np.cumsum(2 * np.log(np.abs(np.diag(upper)[:dim])) - np.log(precisions))
    squares = upper[:, dim] ** 2  # w_1^2, ..., w_d^2 and, where there is a row for it, what no feature explains
    return logdets, _beyond(squares[:dim]) + within + squares[dim:].sum()


def canonical_prefixes(
    rows: FloatArray, response: FloatArray, within: float, n: int, ridges: FloatArray, taper: float
) -> tuple[FloatArray, FloatArray]:
    """ln det(V_m / Lambda_m) and S_m, both (ridges, d), in the canonical basis of the prefix spaces.

    The canonical features are those of the data by Gram-Schmidt, in their order, with mean square 1 over the n choices:
    only the spaces that the prefixes span matter, not the units of a column nor what was added to it of earlier ones. A
    column in the span of those before it adds nothing.

    Examples
    --------
    >>> import numpy as np
    >>> rows, response = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 4.0]]), np.array([0.0, 1.0, 3.0])
    >>> one = canonical_prefixes(rows, response, 0.0, 3, np.array([0.1]), 0.0)
    >>> other = canonical_prefixes(rows @ [[1.0, 5.0], [0.0, 100.0]], response, 0.0, 3, np.array([0.1]), 0.0)
    >>> np.allclose(one, other)
    True
    """
    explained, kept, rest = _coordinates(rows, response)
    precisions = ridges[:, None] * prior_precisions(1.0, taper, rows.shape[1])
    logdets = np.cumsum(kept * np.log1p(n / precisions), axis=-1)
    shrunk = explained * precisions / (precisions + n)  # what the prior keeps a feature from explaining
    return logdets, np.cumsum(shrunk, axis=-1) + _beyond(explained) + within + rest


def _coordinates(rows: FloatArray, response: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Squared coordinates of the response in the canonical basis, which columns are in it, and the squares outside."""
    dim = rows.shape[1]
    sizes = np.abs(rows).max(axis=0, initial=0.0)
    columns = rows / np.where(sizes > 0, sizes, 1.0)
    lengths = np.linalg.norm(columns, axis=0)
    columns /= np.where(lengths > 0, lengths, 1.0)
    upper = np.asarray(np.linalg.qr(np.column_stack([columns, response]), mode="r"))
    count = min(len(rows), dim)
    explained, kept = np.zeros(dim), np.zeros(dim)
    if (np.abs(np.diag(upper)[:count]) > DEPENDENT).all():
        explained[:count], kept[:count] = upper[:count, dim] ** 2, 1.0
        return explained, kept, float((upper[count:, dim] ** 2).sum())
    # A dependent column leaves a direction of the factorisation to chance: orthogonalise without it.
    basis, found, left = np.zeros((len(upper), len(upper))), 0, upper[:, dim].copy()
    for j in range(dim):
        vector = upper[:, j].copy()
        for _ in range(2):
            vector -= basis[:, :found] @ (basis[:, :found].T @ vector)
        length = np.linalg.norm(vector)
        if length > DEPENDENT and found < len(upper):
            basis[:, found] = vector / length
            coordinate = basis[:, found] @ left
            left -= coordinate * basis[:, found]
            explained[j], kept[j], found = coordinate**2, 1.0, found + 1
    return explained, kept, float(left @ left)


def _beyond(squares: FloatArray) -> FloatArray:
    """Sum of the squares after each position."""
    return np.append(np.cumsum(squares[:0:-1])[::-1], 0.0)
