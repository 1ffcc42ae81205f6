"""Log determinants and residuals of the regressions on all prefixes, from choices and their rewards (NumPy).

One triangular factor of the features of the choices, with the rewards as last column, gives all of them: by Cholesky
where that loses nothing, else by QR. Choices of one arm may be summed up (`Pooled`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from adadim.core.arrays import FloatArray
from adadim.models.factor import prior_precisions
from adadim.models.moments import Moments

RIDGES: FloatArray = 10.0 ** np.arange(-6.0, 6.5, 0.5)
"""Ridges to average over: (noise / size of a coefficient)^2, for features whose mean square is 1."""

DEPENDENT = 1e-11  # share of a column's length outside the columns before it, below which it is rounding
SAFE = 1e-4  # share of a column's square left after those before it, above which Cholesky is as good as QR
DEPENDENT_SQUARE = 1e-10  # the same share of a column's square, where only products of columns are known
ALIKE = 1e-12  # share of a column's largest entry by which entries of equal rows may differ, from rounding


@dataclass(frozen=True, eq=False)
class Pooled:
    """Choices and rewards summed up by arm, chosen or not; `squares` is the sum of all squared rewards."""

    arms: FloatArray
    counts: np.ndarray[Any, Any]
    sums: FloatArray
    squares: float

    @classmethod
    def of(cls, features: FloatArray, rewards: FloatArray, others: FloatArray | None = None) -> Pooled:
        """Pool choices (n, d) that have equal features; `others` (k, d) could have been chosen too."""
        rows = features if others is None else np.concatenate([features, others])
        chosen = np.arange(len(rows)) < len(features)
        gained = np.append(rewards, np.zeros(len(rows) - len(features)))
        sizes = np.abs(rows).max(axis=0, initial=0.0)
        scaled = rows / np.where(sizes > 0, sizes, 1.0)
        # Equal rows are neighbours in the order of any one number made of them.
        order = np.argsort(scaled @ np.sin(1.0 + np.arange(rows.shape[1])), kind="stable")
        new = np.append(True, np.abs(np.diff(scaled[order], axis=0)).max(axis=1, initial=0.0) > ALIKE)[: len(rows)]
        group, first = np.cumsum(new) - 1, order[new]
        counts, sums = (np.bincount(group, part[order], len(first)).astype(np.float64) for part in (chosen, gained))
        return cls(rows[first], counts.astype(np.int64), sums, float(rewards @ rewards))

    @property
    def n(self) -> int:
        """Number of choices."""
        return int(self.counts.sum())

    def table(self, columns: FloatArray) -> tuple[FloatArray, float]:
        """Columns of the arms chosen, rewards last, times the root of the choices; and squares that means leave out."""
        chosen = np.flatnonzero(self.counts)
        root = np.sqrt(self.counts[chosen])
        means = self.sums[chosen] / root
        rows = np.column_stack([columns[chosen] * root[:, None], means])
        return rows, max(self.squares - float(means @ means), 0.0) if self.n > len(chosen) else 0.0


def given_prefixes(data: Pooled, ridge: float, taper: float) -> tuple[FloatArray, FloatArray]:
    """ln det(V_m / Lambda_m) and S_m, both (d,), for the features as they are and precisions ridge j^taper."""
    table, within = data.table(data.arms)
    logdets, squares, rest = _factored(table, prior_precisions(ridge, taper, data.arms.shape[1]))
    return np.cumsum(logdets), _beyond(squares) + within + rest


def canonical_prefixes(data: Pooled, ridges: FloatArray, taper: float) -> tuple[FloatArray, FloatArray]:
    """ln det(V_m / Lambda_m) and S_m, both (ridges, d), in the canonical basis of the prefix spaces.

    The canonical features are those of the arms by Gram-Schmidt, in their order, with mean square 1 over the arms: only
    the spaces that the prefixes span matter, not the units of a column nor what was added to it of earlier ones. A
    column in the span of those before it adds nothing.
    """
    basis, kept = _canonical(data.arms)
    precisions = ridges[:, None] * prior_precisions(1.0, taper, len(kept))
    logdets, squares = np.zeros_like(precisions), np.zeros_like(precisions)
    if (data.counts == 1).all():  # the data are orthogonal: V is diagonal for every ridge
        coordinates = basis.T @ data.sums / len(basis)
        rest = float(((data.sums - basis @ coordinates) ** 2).sum())
        ahead = np.zeros(len(kept))
        ahead[kept] = coordinates**2 * len(basis)
        return _orthogonal(ahead, kept, len(basis), precisions, rest)
    table, within = data.table(basis)
    table = np.asarray(np.linalg.qr(table, mode="r"))
    rests = np.zeros(len(ridges))
    for i, row in enumerate(precisions):
        logdets[i, kept], squares[i, kept], rests[i] = _factored(table, row[kept])
    return np.cumsum(logdets, axis=-1), np.array([_beyond(row) for row in squares]) + within + rests[:, None]


def moment_prefixes(sums: Moments, ridges: FloatArray, taper: float) -> tuple[FloatArray, FloatArray]:
    """`canonical_prefixes` of choices that differ and whose sums alone are known, in the basis of the choices."""
    dim, n = len(sums.moment), sums.weight
    lengths = np.sqrt(np.diag(sums.second))
    scale = np.where(lengths > 0, lengths, 1.0)
    gram, moment = sums.second / np.outer(scale, scale), sums.moment / scale
    # L L^T = gram without the columns in the span of those before; w = L^-1 b, so that w^2 is what each explains.
    lower, w = np.zeros((dim, dim)), np.zeros(dim)
    kept = np.zeros(dim, dtype=bool)
    for j in range(dim):
        done = np.flatnonzero(kept[:j])
        row = np.zeros(0)
        if done.size:
            row = solve_triangular(lower[np.ix_(done, done)], gram[done, j], lower=True)
        left = gram[j, j] - row @ row
        if left > DEPENDENT_SQUARE:
            kept[j] = True
            lower[j, done], lower[j, j] = row, np.sqrt(left)
            w[j] = (moment[j] - row @ w[done]) / lower[j, j]
    precisions = ridges[:, None] * prior_precisions(1.0, taper, dim)
    return _orthogonal(w**2, kept, n, precisions, max(sums.squares - float(w @ w), 0.0))


def _orthogonal(
    ahead: FloatArray, kept: np.ndarray[Any, np.dtype[np.bool]], n: float, precisions: FloatArray, rest: float
) -> tuple[FloatArray, FloatArray]:
    """What `canonical_prefixes` gives where V is diagonal, from the squares that each feature explains."""
    logdets = np.zeros_like(precisions)
    logdets[:, kept] = np.log1p(n / precisions[:, kept])
    shrunk = ahead * precisions / (precisions + n)  # what the prior keeps a feature from explaining
    return np.cumsum(logdets, axis=-1), np.cumsum(shrunk, axis=-1) + _beyond(ahead) + rest


def _factored(table: FloatArray, precisions: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Steps of ln det(V_m / Lambda_m), w^2, and the squares that no feature explains, of features with rewards last."""
    dim, upper = len(precisions), _triangle(table, precisions)
    steps = 2 * np.log(np.abs(np.diag(upper)[:dim])) - np.log(precisions)
    return steps, upper[:dim, dim] ** 2, float((upper[dim:, dim] ** 2).sum())


def _triangle(table: FloatArray, precisions: FloatArray) -> FloatArray:
    """Upper triangular factor of the table's Gram matrix plus the precisions (0 for the rewards, which come last)."""
    dim = len(precisions)
    gram = table.T @ table
    gram[range(dim), range(dim)] += precisions
    try:
        lower = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
        if (np.diag(lower) ** 2 > SAFE * np.diag(gram)).all():
            return lower.T
    except np.linalg.LinAlgError:  # not positive to working precision
        pass
    prior = np.column_stack([np.diag(np.sqrt(precisions)), np.zeros(dim)])
    return np.asarray(np.linalg.qr(np.concatenate([table, prior]), mode="r"))


def _canonical(arms: FloatArray) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool]]]:
    """Canonical features (k, c) of the arms, orthogonal with mean square 1, and which columns they come from, (d,)."""
    sizes = np.abs(arms).max(axis=0)
    columns = arms / np.where(sizes > 0, sizes, 1.0)
    lengths = np.linalg.norm(columns, axis=0)
    basis, upper = np.linalg.qr(columns / np.where(lengths > 0, lengths, 1.0))
    count, dim = upper.shape
    kept = np.zeros(dim, dtype=bool)
    if (np.abs(np.diag(upper)) > DEPENDENT).all():
        kept[:count] = True
        return basis * np.sqrt(len(arms)), kept
    # A dependent column leaves a direction of the factorisation to chance: orthogonalise without it.
    turned, found = np.zeros((count, count)), 0
    for j in range(dim):
        vector = upper[:, j].copy()
        for _ in range(2):
            vector -= turned[:, :found] @ (turned[:, :found].T @ vector)
        length = np.linalg.norm(vector)
        if length > DEPENDENT and found < count:
            turned[:, found], kept[j] = vector / length, True
            found += 1
    return basis @ turned[:, :found] * np.sqrt(len(arms)), kept


def _beyond(squares: FloatArray) -> FloatArray:
    """Sum of the squares after each position."""
    return np.append(np.cumsum(squares[:0:-1])[::-1], 0.0)
