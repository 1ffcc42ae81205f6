"""Sums over the data: all that a regression and its prior have to know of them.

Sums do not depend on the order of the data, and rewards may be added late, replaced and faded. There are two shapes:
by arm (`ArmSums`), where arms stay, and by feature (`Moments`), where they come with the round.

Pulls that were decided and whose rewards are not known yet are pending: they count in widths, not in means, since the
width of an arm depends on which arms were pulled, not on what they earned (Desautels, Krause and Burdick 2014,
"Parallelizing exploration-exploitation tradeoffs").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotrf, dtrtrs

from adadim.core.arrays import FloatArray
from adadim.errors import InvalidValueError

FORGOTTEN = 1e-9  # sum of weights, in pulls, below which all data count as forgotten


class QuadraticForm(NamedTuple):
    """X^T X and X^T r of columns as a prior has them; or X X^T and r, with `whole` = r^T r, where these are smaller."""

    gram: FloatArray
    b: FloatArray
    whole: float | None = None

    def weighted(self, weights: FloatArray) -> QuadraticForm:
        """The form of the columns times `weights`, of X^T X and X^T r."""
        return QuadraticForm(self.gram * (weights[:, None] * weights), self.b * weights)


def smaller_form(x: FloatArray, rewards: FloatArray) -> QuadraticForm:
    """The form of rows X and their rewards, of the smaller side."""
    if len(x) <= x.shape[1]:
        return QuadraticForm(x @ x.T, rewards, float(rewards @ rewards))
    return QuadraticForm(x.T @ x, x.T @ rewards)


@dataclass(frozen=True)
class ArmSums:
    """Sums by arm: features (p, d) of the arms pulled, pulls and sums of rewards of each; and sum r^2 of all pulls."""

    features: FloatArray
    counts: FloatArray
    sums: FloatArray
    squares: float

    @property
    def n(self) -> float:
        """Number of pulls."""
        return float(self.counts.sum())

    @property
    def total(self) -> float:
        """Sum of the rewards."""
        return float(self.sums.sum())

    def form(self, weights: FloatArray, centred: bool, mean: float, column: float | None = None) -> QuadraticForm:
        """As `Moments.form`, of the smaller side: X X^T and X^T X share their spectrum."""
        return smaller_form(*self.rows(weights, centred, mean))

    def forms(
        self, shapes: Sequence[FloatArray], centred: bool, mean: float, column: float | None = None
    ) -> list[QuadraticForm]:
        """The forms for several weights."""
        x, rewards, root = self._centred(centred, mean)
        return [smaller_form(x * weights * root, rewards) for weights in shapes]

    def rows(self, weights: FloatArray, centred: bool, mean: float) -> tuple[FloatArray, FloatArray]:
        """X and r of one row for each arm, times the root of its pulls; the arguments are those of `Moments.form`."""
        x, rewards, root = self._centred(centred, mean)
        return x * weights * root, rewards

    def _centred(self, centred: bool, mean: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Features, rewards times the root of the pulls, and that root (p, 1)."""
        root, x = np.sqrt(self.counts), self.features
        if centred:
            x = x - self.counts @ x / self.n
        return x, self.sums / root - root * mean, root[:, None]


def check_total_known(total: float | FloatArray) -> None:
    """Raise if the sum of the rewards was not recorded."""
    if np.isnan(total).any():
        raise InvalidValueError(
            "a policy with intercept=True needs the sum of the rewards, which version 0.2 did not keep of what it "
            "compacted; use intercept=False"
        )


@dataclass
class Moments:
    """Sums over pulls with features x, reward r and weight w (1, unless old pulls are being forgotten).

    sum w x x^T, sum w r x, sum w r^2 and sum w; the largest |x|^2 and the largest of each feature; `pending`, the same
    over all pulls decided with rewards of 0, if some are unanswered. For models with a constant: `first` and `total`,
    sum w x and sum w r (NaN where not recorded).
    Where a likelihood gives the weights (`likelihoods`): `count`, the number of pulls, and `point` (1 + d,), about
    which it was expanded.
    """

    second: FloatArray
    moment: FloatArray
    squares: float
    weight: float
    longest: float
    extent: FloatArray
    pending: Moments | None = None
    first: FloatArray = None  # type: ignore[assignment]  # not recorded, and `total` neither
    total: float = 0.0
    count: float | None = None
    point: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.first is None:
            self.first = np.full(len(self.moment), math.nan if self.weight else 0.0)
            self.total = math.nan if self.weight else 0.0

    @classmethod
    def zeros(cls, dim: int) -> Moments:
        """Moments of no data."""
        return cls(np.zeros((dim, dim)), np.zeros(dim), 0.0, 0.0, 0.0, np.zeros(dim))

    @classmethod
    def of(
        cls, second: FloatArray, moment: FloatArray, squares: float, weight: float, first: FloatArray, total: float
    ) -> Moments:
        """Moments of data whose largest values were not recorded."""
        return cls(second, moment, squares, weight, 0.0, np.zeros(len(moment)), first=first, total=total)

    @property
    def n(self) -> float:
        """Sum of the weights: the number of pulls, if nothing is forgotten."""
        return self.weight

    @property
    def pulls(self) -> int:
        """The number of pulls, whatever a likelihood makes them weigh."""
        return round(self.weight if self.count is None else self.count)

    def form(self, weights: FloatArray, centred: bool, mean: float, column: float | None = None) -> QuadraticForm:
        """X^T X and X^T r of features times `weights`, rewards less their `mean`; features less theirs if `centred`.

        With `column`, a constant of this size stands before the features, which then stay as they are.
        """
        return self.forms([weights], centred, mean, column)[0]

    def forms(
        self, shapes: Sequence[FloatArray], centred: bool, mean: float, column: float | None = None
    ) -> list[QuadraticForm]:
        """The forms for several weights."""
        if column is not None:
            extended = self.with_constant()
            form = QuadraticForm(extended.second, extended.moment - mean * extended.second[0])
            return [form.weighted(np.concatenate([[column], weights])) for weights in shapes]
        form = QuadraticForm(self.second, self.moment)
        if centred:
            second = self.second - self.first[:, None] * (self.first / self.weight)
            form = QuadraticForm(second, self.moment - mean * self.first)
        return [form.weighted(weights) for weights in shapes]

    def copy(self) -> Moments:
        """A copy that shares no array with this one."""
        parts: dict[str, Any] = {n: part for n, part in vars(self).items() if isinstance(part, np.ndarray | Moments)}
        return replace(self, **{name: part.copy() for name, part in parts.items()})

    def scale_rewards(self, size: float) -> Moments:
        """The sums with rewards divided by a number."""
        squares = self.squares / size / size
        return replace(self, moment=self.moment / size, squares=squares, total=self.total / size)

    def less(self, amount: float, nothing: bool = False) -> Moments:
        """The same sums of rewards less an amount; with `nothing`, these differences are rounding, and count as 0."""
        if nothing:
            return replace(self, moment=np.zeros_like(self.moment), total=0.0, squares=0.0)
        squares = self.squares - amount * (2.0 * self.total - amount * self.weight)
        return replace(
            self,
            moment=self.moment - amount * self.first,
            total=self.total - amount * self.weight,
            squares=max(squares, 0.0),
        )

    def alike(self, reward: float) -> Moments:
        """The same sums if all rewards were this one."""
        moment, total = reward * self.first, reward * self.weight
        return replace(self, moment=moment, total=total, squares=reward * total)

    def without_rewards(self) -> Moments:
        """The sums over all pulls that were decided, with rewards of zero."""
        if self.pending is not None:
            return self.pending
        nothing = np.zeros_like(self.moment)
        return Moments(self.second, nothing, 0.0, self.weight, self.longest, self.extent, first=self.first)

    def with_constant(self) -> Moments:
        """The same sums of features (1, x)."""
        check_total_known(self.total)
        moment = np.concatenate([[self.total], self.moment])
        extent = np.concatenate([[1.0], self.extent])
        second = np.empty((len(extent), len(extent)))
        second[0, 0], second[1:, 1:] = self.weight, self.second
        second[0, 1:] = second[1:, 0] = self.first
        pending = None if self.pending is None else self.pending.with_constant()
        values = (second, moment, self.squares, self.weight, self.longest, extent, pending, second[0], self.total)
        return Moments(*values, count=self.count)

    def add(self, features: FloatArray, rewards: FloatArray, weights: FloatArray | None = None) -> None:
        """Add pulls: features (n, d), rewards (n,) and weights (n,), by default 1."""
        if len(features) == 1:  # the usual case of an agent, and quick: the same to the bit
            x, reward, weight = features[0], float(rewards[0]), 1.0 if weights is None else float(weights[0])
            root = x * math.sqrt(weight)
            self.second += root[:, None] * root
            self.moment += reward * weight * x
            self.first += weight * x
            self.total += reward * weight
            self.squares += reward * (reward * weight)
            self.weight += weight
            self.longest = max(self.longest, float(np.vecdot(x, x)))
            self.extent = np.maximum(self.extent, np.abs(x))
            return
        rooted = features if weights is None else features * np.sqrt(weights)[:, None]
        self.second += rooted.T @ rooted  # a product with itself takes half the time
        self.moment += (rewards if weights is None else rewards * weights) @ features
        self.first += features.sum(axis=0) if weights is None else weights @ features
        self.total += float(rewards.sum() if weights is None else rewards @ weights)
        self.squares += float(rewards @ (rewards if weights is None else rewards * weights))
        self.weight += float(len(rewards) if weights is None else weights.sum())
        self.longest = max(self.longest, float(np.vecdot(features, features).max(initial=0.0)))
        self.extent = np.maximum(self.extent, np.abs(features).max(axis=0, initial=0.0))

    def replace(
        self, features: FloatArray, old: FloatArray, new: FloatArray, weights: FloatArray | None = None
    ) -> None:
        """Put the rewards `new` (n,) in the place of `old`, of pulls that were added before."""
        weighted = features if weights is None else features * weights[:, None]
        self.moment += weighted.T @ (new - old)
        self.total += float((new - old).sum() if weights is None else (new - old) @ weights)
        change = (new - old) * (new + old)
        self.squares = max(self.squares + float(change.sum() if weights is None else change @ weights), 0.0)

    def moved(self, positions: list[int], dim: int) -> Moments:
        """The same sums with the features at these positions among `dim`, of which the others are 0 in all pulls."""
        moved = Moments.zeros(dim)
        moved.second[np.ix_(positions, positions)] = self.second
        moved.moment[positions], moved.extent[positions] = self.moment, self.extent
        moved.first[positions] = self.first
        numbers = {name: getattr(self, name) for name in ("squares", "weight", "longest", "total")}
        return replace(moved, **numbers)

    def fade(self, factor: float) -> None:
        """Multiply the weights of all pulls by a number."""
        for name, value in vars(self).items():
            if isinstance(value, Moments):
                value.fade(factor)
            elif value is not None and name not in ("longest", "extent", "point"):
                value *= factor  # arrays in place
                setattr(self, name, value)

    def estimate(self, ridge: float) -> FloatArray:
        """The parameter by ridge regression, (X^T X + ridge I)^-1 X^T r."""
        factor = cho_factor(self.second + ridge * np.eye(len(self.moment)))
        return np.asarray(cho_solve(factor, self.moment))

    def truncated(self, dim: int, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """X^T X and X^T r of the first `dim` features, each multiplied by its entry of `weights`."""
        second, moment = self.second[:dim, :dim], self.moment[:dim]
        if weights is None:
            return second.copy(), moment.copy()
        return second * (weights[:, None] * weights), moment * weights


def whitened(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """L^-1 right, where L L^T is the matrix."""
    root = np.sqrt(matrix.diagonal())
    scaled = matrix / (root[:, None] * root)
    solved, _ = dtrtrs(unit_cholesky(scaled), right / root[:, None], lower=1)
    return np.asarray(solved)


def unit_cholesky(scaled: FloatArray) -> FloatArray:
    """L of L L^T, a matrix with ones on its diagonal, of which the lower triangle counts; the matrix is written to.

    Where prior precisions are lost in the rounding of huge sums, its eigenvalues are raised to what rounding leaves.
    """
    factor, failed = dpotrf(scaled, lower=1, clean=0)
    if failed:
        least = float(np.linalg.eigvalsh(scaled)[0])
        scaled.ravel()[:: len(scaled) + 1] += 4 * len(scaled) * np.finfo(float).eps + max(-least, 0.0)
        factor, _ = dpotrf(scaled, lower=1, clean=0)
    return np.asarray(factor)
