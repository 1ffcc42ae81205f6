"""A prior for each level of the columns: a ridge and an exponent of its own, chosen by the evidence of the data.

Columns fall into levels (`core.levels`): what an arm has, what the context has, their products. Column j of level l, at
rank k in it, has the ridge lambda_l k^(s_l), so that 24 columns that matter and 192 that do not need not share one.

The levels are chosen in turn, each while the others hold. What the other columns O explain is taken out first: with
V_O = Lambda_O + X_O^T X_O, the columns L of the level have the evidence of a regression by themselves on

    X_L^T X_L - X_L^T X_O V_O^-1 X_O^T X_L   and   X_L^T r - X_L^T X_O V_O^-1 X_O^T r,

whose size is that of the level, and of which one tridiagonal matrix gives all ridges. Where fewer arms were pulled than
there are columns, the same is done with rows in the place of columns: X_L and r times the inverse factor of
1 + X_O Lambda_O^-1 X_O^T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.levels import ColumnLevels
from adadim.models.priors import (
    EXPONENTS,
    MIN_RESIDUAL_SHARE,
    MIN_WEIGHT,
    Belief,
    EvidencePrior,
    Prior,
    log_evidences,
    typical_scales,
)
from adadim.models.statistics import ArmSums, Moments, QuadraticForm, smaller_form, whitened

MATTERS_FACTOR = 3.0  # Bayes factor from which a level is said to matter
LARGE_RIDGES: FloatArray = 10.0 ** np.arange(2.5, 4.5, 0.5)
"""Further relative ridges, by which one of several levels is as good as left out."""


@dataclass(frozen=True)
class LevelPrior(Prior):
    """A ridge lambda_l k^(s_l) for each level l of the columns, k the rank of a column in its level.

    The levels are tuned in turn while the others hold: first in their order, with those after each left out, then all
    but the last in the reverse order. A level holds its likeliest ridge and exponent while others are tuned; in the
    belief it has what `one` would choose, which keeps what is in doubt. The levels share the doubt: with L of them, the
    Bayes factors within which each chooses are the L-th roots of those of `one`. With one level the belief is that of
    `one`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((300, 20))
    >>> data = Moments.zeros(20)
    >>> data.add(x, x[:, :2].sum(axis=1) + 0.1 * rng.standard_normal(300))  # the last 18 columns say nothing
    >>> prior = LevelPrior(EvidencePrior((0.0,), factor=20.0), ColumnLevels.of({"price": 2, "text": 20}, 20))
    >>> belief = prior([data], 20.0, np.ones(20), 0)
    >>> bool(belief.scale[2] < 0.01 * belief.scale[1])
    True
    """

    one: EvidencePrior
    levels: ColumnLevels
    learns = True

    @property
    def constant(self) -> bool:  # type: ignore[override]
        """Whether a constant in the rewards stands before the columns."""
        return self.one.constant

    @property
    def ridges(self) -> FloatArray:
        """Relative ridges to choose from."""
        several = len(self.levels.slices) > 1
        return np.append(self.one.ridges, LARGE_RIDGES) if several else self.one.ridges

    def __call__(self, data: Sequence[Moments | ArmSums], longest: float, units: FloatArray, pending: float) -> Belief:
        mean, squares, degrees = self.one.response(data)
        if not squares:  # no reward says anything yet
            widest = (self.one.exponents[-1], float(self.ridges[0]))
            return self._belief([widest] * len(self.levels.slices), longest, units, mean)
        fit = _Fit(self, data, longest, units, mean, squares, degrees)
        choices = fit.tuned(degrees / (degrees + pending))
        noise = self.one.noise or math.sqrt(fit.residual(choices) / degrees * (1 + math.sqrt(2 / degrees)))
        return self._belief([self._values(choice) for choice in choices], longest, units, mean, noise)

    def contributions(
        self, data: Sequence[Moments | ArmSums], longest: float, units: FloatArray
    ) -> list[LevelContribution]:
        """What each level contributes, by the prior that these data choose."""
        mean, squares, degrees = self.one.response(data)
        if not squares:
            return [LevelContribution(name, 0.0, 0.0, math.nan, math.nan) for name in self.levels.slices]
        fit = _Fit(self, data, longest, units, mean, squares, degrees)
        choices, found = fit.tuned(1.0), []
        residual = fit.residual(choices)
        for level, name in enumerate(self.levels.slices):
            logs, without = fit.log_evidences(level, choices)
            factor = float(np.logaddexp.reduce(logs, axis=None)) - math.log(logs.size) - without
            exponent, relative = self._values(choices[level])
            order = Belief(1.0, exponent=exponent, evidence=logs).contradiction(self.one.exponents)
            share = max(fit.residual([*choices[:level], None, *choices[level + 1 :]]) - residual, 0.0) / squares
            found.append(LevelContribution(name, share, factor, relative * longest, exponent, order))
        return found

    def describe(
        self, belief: Belief, data: Sequence[Moments | ArmSums], longest: float, units: FloatArray
    ) -> dict[str, Any]:
        found = self.contributions(data, longest, units)
        levels = {
            one.name: {
                "explains": one.share,
                "matters": one.matters,
                "ridge": None if math.isnan(one.ridge) else one.ridge,
                "taper": None if math.isnan(one.exponent) else one.exponent,
            }
            for one in found
        }
        order = "; ".join(f"in {one.name!r} {one.order}" for one in found if one.order is not None) or None
        return {"order": order, "levels": levels, "levels_that_matter": contributions_text(found)}

    def _values(self, choice: tuple[int, int]) -> tuple[float, float]:
        return self.one.exponents[choice[0]], float(self.ridges[choice[1]])

    def _belief(
        self,
        values: Sequence[tuple[float, float]],
        longest: float,
        units: FloatArray,
        offset: float,
        noise: float = math.nan,
    ) -> Belief:
        """The belief by the exponent and the relative ridge of each level."""
        least = min(ridge for _, ridge in values)
        scale = np.empty(len(units))
        for part, (exponent, ridge) in zip(self.levels.slices.values(), values, strict=True):
            scale[part] = rank_weights(self.levels.rank_array[part], exponent) * math.sqrt(least / ridge)
        scale /= units
        if self.constant:
            scale = np.concatenate([[self.one.constant_scale(least, longest)], scale])
        return Belief(least * longest, scale, offset, noise, values[0][0])


@dataclass(frozen=True)
class LevelContribution:
    """What a level contributes.

    Attributes
    ----------
    name : str
        Name of the level.
    share : float
        Share of the variance of the rewards that would be unexplained without its columns, and is explained with them.
    log_factor : float
        Log of the Bayes factor for its columns against leaving them out, averaged over all ridges and exponents.
    ridge, exponent : float
        What was chosen for it; NaN before the rewards differ.
    order : str, optional
        What the data say against the order of its columns, if they do.
    """

    name: str
    share: float
    log_factor: float
    ridge: float
    exponent: float
    order: str | None = None

    @property
    def matters(self) -> bool:
        """Whether the data say so, by a Bayes factor of at least 3."""
        return self.log_factor >= math.log(MATTERS_FACTOR)


def level_contributions(data: Moments, levels: ColumnLevels) -> list[LevelContribution]:
    """What each level contributes to data of which these are the sums; a constant in the rewards does not matter."""
    prior = LevelPrior(EvidencePrior(EXPONENTS, factor=1.0, constant=True), levels)
    units, longest = typical_scales(data)
    return prior.contributions([data] if longest > 0 else [], longest, units)


def contributions_text(contributions: Sequence[LevelContribution]) -> str:
    """What the levels contribute, in a sentence: the most important first."""
    first, *others = sorted(contributions, key=lambda one: (one.matters, one.share), reverse=True)
    if not first.matters:
        return "no level explains anything so far"
    parts = [f"{first.name!r} explains {100 * first.share:.2g}% of the variance of the rewards"]
    parts += [f"{one.name!r} {one.share / first.share:.2g} times as much" for one in others if one.matters]
    nothing = ", ".join(repr(one.name) for one in contributions if not one.matters)
    return ", ".join(parts) + (f"; nothing so far: {nothing}" if nothing else "")


def rank_weights(ranks: IntArray, exponent: float) -> FloatArray:
    """k^(-exponent/2) of ranks k."""
    return np.maximum(ranks.astype(np.float64) ** (-exponent / 2), MIN_WEIGHT)


@lru_cache(maxsize=64)
def _level_columns(
    levels: ColumnLevels, exponents: tuple[float, ...], constant: bool
) -> tuple[list[IntArray], list[list[FloatArray]], list[list[FloatArray]]]:
    """Of each level: its columns; what each exponent multiplies them by; and 1 over the squares of that.

    A constant that stands before all columns belongs to the first level.
    """
    columns, weights = [], []
    for level, part in enumerate(levels.slices.values()):
        first = constant and level == 0
        columns.append(np.arange(part.start + constant - first, part.stop + constant))
        ranks = np.append(np.ones(int(first), dtype=np.int64), levels.rank_array[part])
        weights.append([rank_weights(ranks, exponent) for exponent in exponents])
    return columns, weights, [[each**-2.0 for each in shapes] for shapes in weights]


class _Fit:
    """The evidence of priors for each level on data whose rewards, less their mean, have these squares."""

    def __init__(
        self,
        prior: LevelPrior,
        data: Sequence[Moments | ArmSums],
        longest: float,
        units: FloatArray,
        mean: float,
        squares: float,
        degrees: float,
    ) -> None:
        self.prior, self.squares, self.degrees = prior, squares, degrees
        self.ridges = prior.ridges * longest
        column = prior.one.column(data, longest)
        self.parts = [_given(each, 1.0 / units, prior.constant, mean, column) for each in data]
        self.columns, self.weights, self.inverse_squares = _level_columns(
            prior.levels, prior.one.exponents, column is not None
        )

    def tuned(self, answered: float) -> list[tuple[int, int]]:
        """Which exponent and which ridge each level has."""
        one, count = self.prior.one, len(self.columns)
        held: list[tuple[int, int] | None] = [None] * count
        choices = [(0, 0)] * count
        for level in (*range(count), *reversed(range(count - 1))):
            logs, _ = self.log_evidences(level, held)
            held[level], choices[level] = one.choices(logs, 0.0, answered / count)  # 0: the likeliest
        return choices

    def log_evidences(self, level: int, held: Sequence[tuple[int, int] | None]) -> tuple[FloatArray, float]:
        """Log evidence (exponents, ridges) of a level while the others hold, and that without the level."""
        others, precisions = self._precisions([None if k == level else choice for k, choice in enumerate(held)])
        rests = [given(others, precisions, self.columns[level]) for given in self.parts]
        left = max(self.squares - sum(rest.explained for rest in rests), MIN_RESIDUAL_SHARE * self.squares)
        shapes = [[rest.form(weights) for rest in rests] for weights in self.weights[level]]
        noise = self.prior.one.noise
        logs, _ = log_evidences(shapes, left, self.degrees, self.ridges, noise)
        without = -0.5 * (self.degrees * math.log(left) if noise is None else left / noise**2)
        return logs, without

    def residual(self, choices: Sequence[tuple[int, int] | None]) -> float:
        """Regularised sum of squared residuals with these priors; None leaves a level out."""
        columns, precisions = self._precisions(choices)
        nothing = np.arange(0)
        explained = sum(given(columns, precisions, nothing).explained for given in self.parts)
        return max(self.squares - explained, MIN_RESIDUAL_SHARE * self.squares)

    def _precisions(self, choices: Sequence[tuple[int, int] | None]) -> tuple[IntArray, FloatArray]:
        """The columns of the levels that have a choice, and the ridge of each column."""
        chosen = [(level, choice) for level, choice in enumerate(choices) if choice is not None]
        if not chosen:
            return np.arange(0), np.zeros(0)
        ridges = [self.ridges[at] * self.inverse_squares[level][shape] for level, (shape, at) in chosen]
        return np.concatenate([self.columns[level] for level, _ in chosen]), np.concatenate(ridges)


class _Left(NamedTuple):
    """What is left of a level's columns and of the rewards after other columns have explained their part."""

    explained: float  # of the rewards' sum of squares, by the other columns
    form: Callable[[FloatArray], QuadraticForm]  # of the columns left, times weights


Given = Callable[[IntArray, FloatArray, IntArray], _Left]
"""What other columns with these precisions leave of a level, all by their positions."""


def _given(data: Moments | ArmSums, weights: FloatArray, centred: bool, mean: float, column: float | None) -> Given:
    """The regression on these data; where rows are fewer than columns by the rows, else by the products of columns."""
    if isinstance(data, ArmSums):
        x, rewards = data.rows(weights, centred, mean)
        if len(x) <= x.shape[1]:
            return partial(_rows_left, x, rewards)
        return partial(_columns_left, QuadraticForm(x.T @ x, x.T @ rewards))
    return partial(_columns_left, data.form(weights, centred, mean, column))


def _columns_left(form: QuadraticForm, others: IntArray, precisions: FloatArray, level: IntArray) -> _Left:
    b, gram = form.b[level], form.gram[level[:, None], level]
    if not len(others):
        return _Left(0.0, QuadraticForm(gram, b).weighted)
    matrix = form.gram[others[:, None], others]
    matrix.ravel()[:: len(others) + 1] += precisions
    right = np.empty((len(others), len(level) + 1))
    right[:, 0], right[:, 1:] = form.b[others], form.gram[others[:, None], level]
    left = whitened(matrix, right)
    products = left.T @ left[:, 1:]
    return _Left(float(left[:, 0] @ left[:, 0]), QuadraticForm(gram - products[1:], b - products[0]).weighted)


def _rows_left(x: FloatArray, rewards: FloatArray, others: IntArray, precisions: FloatArray, level: IntArray) -> _Left:
    explained, rest, rewards_left = 0.0, x[:, level], rewards
    if len(others):
        scaled = x[:, others] / np.sqrt(precisions)
        left = whitened(np.eye(len(x)) + scaled @ scaled.T, np.column_stack([rewards, rest]))
        rest, rewards_left = left[:, 1:], left[:, 0]
        explained = float(rewards @ rewards - rewards_left @ rewards_left)
    return _Left(explained, lambda weights: smaller_form(rest * weights, rewards_left))
