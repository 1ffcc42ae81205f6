"""How many of the features matter: the posterior of d*, from past choices and their rewards.

It is proportional to the prior of d* times the evidence of the regression on that many features. One triangular factor
of the features of the choices, with the rewards as last column, gives the log determinants and residuals of all of
them: by Cholesky where that loses nothing, else by QR. Choices of one arm may be summed up (`Pooled`).

A free constant in the rewards has a flat prior. With it integrated out, the evidence is that of features and rewards
less their means over the n choices, with n - 1 in the place of n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, BoolArray, FloatArray, IntArray, as_numpy, real_array
from adadim.core.checks import between, flag, is_number, one_of, positive, require
from adadim.core.display import html_table
from adadim.core.frames import Tabular, numbers_and_names
from adadim.core.levels import ColumnLevels, Levels, checked_levels
from adadim.errors import InvalidValueError
from adadim.models.level_prior import LevelContribution, contributions_text, level_contributions
from adadim.models.priors import like_units, log_evidence, order_contradiction, prior_precisions
from adadim.models.statistics import Moments

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PriorOnDim = str | float | Sequence[float] | FloatArray
"""Prior of d*: "uniform", an exponent c for m^-c, or weights."""

RIDGES: FloatArray = 10.0 ** np.arange(-6.0, 6.5, 0.5)
"""Ridges to average over: (noise / size of a coefficient)^2, for features whose mean square is 1."""

DEPENDENT = 1e-11  # share of a column's length outside the columns before it, below which it is rounding
SAFE = 1e-4  # share of a column's square left after those before it, above which Cholesky is as good as QR
DEPENDENT_SQUARE = 1e-10  # the same share of a column's square, where only products of columns are known
COLUMN_ROUNDING = 10 * np.finfo(float).eps
ALIKE = 1e-12  # share of a column's largest entry by which entries of equal rows may differ, from rounding
LOST = 1e-10  # share of the rewards' squares that must be left beside their mean, where sums alone are known
SMALLEST_SQUARES = float(np.finfo(float).tiny)  # below which squares of rewards lose digits
LARGEST_REWARD = 1e300  # so that the noise is a number
MAX_SQUARE_TO_RIDGE = 1e280  # of the square of a feature and a ridge, so that their quotient is a number


@dataclass(frozen=True, eq=False, repr=False)
class Dimension(Tabular):
    """The posterior of d*, the number of leading features that matter.

    Arrays have a first axis of R replications if they come from a learner of R replications. As a table it has a row
    for each possible d*: its value and name if it has one, probability, prior, and the tail P(d* >= m).

    Attributes
    ----------
    probabilities : array (d,), or (L,) for L levels
        P(d* = m) for m = 1, ..., d, or for the end m of each level.
    noise : float or array (R,)
        Estimated standard deviation of the rewards' noise; not a number without choices, with one choice and a free
        constant, or where a learner's or an agent's sums cannot tell rewards apart (a mean of 1e5 deviations).
    choices : int or array (R,)
        Number of past choices n.
    prior : array (d,) or (L,)
        P(d* = m) before the data.
    support : array (d,) or (L,)
        The possible values m of d*.
    dim : int
        Number of features d.
    levels : dict or None
        Name of each level and the number of leading features up to its end.
    names : tuple of str or None
        Names of the features, where they came as a table of pandas or polars.
    constant : bool
        Whether the rewards may have a constant that no feature explains.
    order : str or None
        What the choices say against the order of the features, if they do: then d* is the last one that matters, not
        the number of those that do. Only where there is one replication. It is computed when first asked for.
    contributions : dict or None
        For each level, the share of the rewards' variance that only its features explain; 0 where the choices do not
        say, by a Bayes factor of 3, that it matters. Features after the last level are one more, "rest". Each level has
        a ridge and an exponent of its own, chosen by the evidence. Only with levels and one replication.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> features = rng.standard_normal((300, 8))
    >>> answer = adadim.dimension(features, features[:, :3].sum(axis=1) + rng.standard_normal(300))
    >>> answer.mode, answer.interval(0.9)
    (3, (3, 3))
    >>> print(answer)
    3 of 8 features matter (probability 0.94, 90% interval 3 to 3); noise 0.96; 300 choices
    """

    probabilities: FloatArray
    noise: Any
    choices: Any
    prior: FloatArray
    support: IntArray
    dim: int
    levels: dict[str, int] | None = None
    names: tuple[str, ...] | None = None
    constant: bool = True
    data: Pooled | Moments | None = None  # what `order` and `contributions` are computed from

    @cached_property
    def order(self) -> str | None:
        return None if self.data is None else order_contradiction(_moments(self.data))

    @cached_property
    def _contributions(self) -> list[LevelContribution] | None:
        if self.levels is None or self.data is None:
            return None
        return level_contributions(_moments(self.data), ColumnLevels.of(self.levels, self.dim))

    @property
    def contributions(self) -> dict[str, float] | None:
        found = self._contributions
        return None if found is None else {one.name: one.share if one.matters else 0.0 for one in found}

    @property
    def levels_that_matter(self) -> str | None:
        """What each level contributes, in a sentence; None without levels."""
        return None if self._contributions is None else contributions_text(self._contributions)

    @property
    def tail(self) -> FloatArray:
        """P(d* >= j) of every feature j = 1, ..., d: the probability that it, or a later one, matters; (d,)."""
        tails = np.cumsum(self.probabilities[..., ::-1], axis=-1)[..., ::-1]
        padded = np.concatenate([np.minimum(tails, 1.0), np.zeros_like(tails[..., :1])], axis=-1)
        return np.asarray(padded[..., np.searchsorted(self.support, np.arange(1, self.dim + 1))])

    @property
    def mode(self) -> Any:
        """The likeliest d*."""
        return self._number(np.argmax(self.probabilities, axis=-1))

    @property
    def median(self) -> Any:
        """The smallest m with P(d* <= m) >= 1/2."""
        reached = np.cumsum(self.probabilities, axis=-1) >= 0.5 * (1 - 1e-12)
        return self._number(np.argmax(reached, axis=-1))

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Smallest and largest d* of the shortest interval that has a probability of at least `level`.

        Of several that are equally short, the likeliest. With levels, short means few of them.
        """
        between(level, "level", 0.0, 1.0, "()")
        ends = np.array([_shortest(row, level) for row in np.atleast_2d(self.probabilities)])
        ends = ends.reshape(*self.probabilities.shape[:-1], 2)
        return self._number(ends[..., 0]), self._number(ends[..., 1])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw P(d* = m) as bars and P(d* >= j) over the features as a line; gives the axes.

        Of several replications it draws the mean of both, and each tail as a thin line.
        """
        from matplotlib.ticker import MaxNLocator

        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(layout="constrained")
        rows = np.atleast_2d(self.probabilities)
        tails = np.atleast_2d(self.tail)
        features = np.arange(1, tails.shape[-1] + 1)
        ax.bar(self.support, rows.mean(axis=0), width=0.8, color="#0072B2", label="P(d* = m)")
        if len(tails) > 1:
            ax.step(features, tails.T, where="mid", color="#D55E00", linewidth=0.5, alpha=0.3)
        ax.step(features, tails.mean(axis=0), where="mid", color="#D55E00", label="P(d* ≥ j)")
        for name, end in (self.levels or {}).items():  # above the axes, where nothing is drawn
            ax.annotate(
                name,
                (end, 1.0),
                xytext=(0, 4),
                xycoords=ax.get_xaxis_transform(),
                textcoords="offset points",
                rotation=35,
                rotation_mode="anchor",
                fontsize="small",
                parse_math=False,
                arrowprops={"arrowstyle": "-", "color": "0.3"},
            )
        ax.set(xlim=(0.4, self.dim + 0.6), ylim=(0, 1.02), xlabel="leading features", ylabel="probability")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(frameon=False)
        return ax

    def __str__(self) -> str:
        if self.probabilities.ndim > 1:
            modes, low, high = self.mode, *self.interval(0.9)
            return (
                f"{len(modes)} replications: {np.median(modes):g} of {self.dim} features matter (median of the modes, "
                f"which go from {modes.min()} to {modes.max()}; the widest 90% interval has "
                f"{(high - low).max() + 1} values)"
            )
        at = int(np.argmax(self.probabilities))
        last = list(self.levels)[at] if self.levels is not None else self.names and self.names[self.support[at] - 1]
        named = f", up to {last!r}," if last else ""
        low, high = self.interval(0.9)
        moved = 0.5 * float(np.abs(self.probabilities - self.prior).sum())
        little = "; the data say little yet, this is close to the prior" if moved < 0.1 else ""
        return (
            f"{self.mode} of {self.dim} features matter{named} (probability {self.probabilities[at]:.2g}, "
            f"90% interval {low} to {high}); noise {self.noise:.3g}; {self.choices} choices"
            f"{'' if self.constant else ', no free constant'}{little}{'' if self.order is None else f'; {self.order}'}"
        )

    def __repr__(self) -> str:
        return f"<Dimension: {self}>"

    def _repr_html_(self) -> str:
        several = self.probabilities.ndim > 1
        low, high = self.interval(0.9)
        rows = {"answer": str(self), "most likely d*": self.mode, "90% interval": f"{low} to {high}"}
        return html_table("Dimension", {"answer": str(self)} if several else rows)

    def _columns(self) -> dict[str, Any]:
        rows = np.atleast_2d(self.probabilities)
        names = list(self.levels or [])
        if self.levels is None and self.names is not None:
            names = [self.names[m - 1] for m in self.support]
        columns: dict[str, Any] = {"replication": np.repeat(np.arange(len(rows)), len(self.support))}
        columns["features"] = np.tile(self.support, len(rows))
        if names:
            columns["name"] = names * len(rows)
        tails = np.minimum(np.cumsum(rows[:, ::-1], axis=1)[:, ::-1], 1.0)
        columns |= {"probability": rows.ravel(), "prior": np.tile(self.prior, len(rows)), "tail": tails.ravel()}
        if self.probabilities.ndim == 1:
            del columns["replication"]
        return columns

    def _number(self, positions: Any) -> Any:
        values = self.support[positions]
        return int(values) if values.ndim == 0 else values


def _shortest(probabilities: FloatArray, level: float) -> tuple[int, int]:
    """First and last position of the shortest run with a probability of at least `level`."""
    reached = np.append(0.0, np.cumsum(probabilities))
    wanted = min(level, reached[-1]) * (1 - 1e-12)
    starts = np.arange(len(probabilities))
    ends = np.searchsorted(reached, reached[:-1] + wanted)  # reached[end] - reached[start] >= level
    possible = ends <= len(probabilities)
    lengths = np.where(possible, ends - starts, len(probabilities) + 1)
    masses = np.where(possible, reached[np.minimum(ends, len(probabilities))] - reached[:-1], 0.0)
    first = int(np.lexsort((-masses, lengths))[0])
    return first, int(ends[first]) - 1


def dimension(
    features: Array,
    rewards: Array,
    levels: Levels = None,
    prior: PriorOnDim = "uniform",
    taper: float = 0.0,
    ridge: float | None = None,
    *,
    arms: Array | None = None,
    constant: bool = True,
) -> Dimension:
    """Estimate how many of the leading features matter, from past choices, however they were made.

    Parameters
    ----------
    features : array (n, d), or a DataFrame of pandas or polars
        Features of what was chosen, one row per choice, most basic first. The answer has the names of columns.
    rewards : array (n,)
        The observed reward of each choice.
    levels : dict or list, optional
        Groups of features: the number of leading features up to the end of each, e.g. ``{"price": 3, "text": 67}`` or
        ``[3, 67]``. Then d* is one of them.
    prior : "uniform", float or array
        Prior of d*: uniform; a number c for weights m^-c; or the weights themselves, one for each possible d*.
    taper : float
        Exponent s of the prior precisions lambda j^s of the coefficients (over sigma^2); 0: all alike.
    ridge : float, optional
        The lambda of these precisions, for the features as given. By default it is learned: averaged over a grid by
        the evidence, in the canonical basis of the features (see Notes).
    arms : array (K, d), optional
        All that could have been chosen, if it was the same each time: a better ground for the canonical basis than the
        rows that were chosen, if the choices depended on rewards.
    constant : bool
        Whether the rewards may have a constant besides the features, with a flat prior: a number added to all rewards,
        or to a column, then changes nothing. A constant column is part of it: it counts as a feature and adds nothing.

    Notes
    -----
    With theta_j ~ N(0, sigma^2 / (lambda j^s)) for j <= m, zero for j > m, Gaussian noise, and sigma^2 integrated out
    under 1/sigma^2, P(d* = m) is proportional to prior_m det(V_m / Lambda_m)^(-1/2) S_m^(-n/2), where S_m is the
    regularised sum of squared residuals of the regression on the first m features. How the choices were made does not
    enter. If `ridge` is None, the features are replaced by the canonical ones: Gram-Schmidt in their order over the
    distinct rows (and `arms`), with mean square 1 over these, so that the prior does not depend on how often each was
    chosen. Then only the spaces that the prefixes span matter: units, and earlier columns added to later ones, change
    nothing. With a free constant, V_m and S_m are those of features and rewards less their means over the choices, n-1
    takes the place of n, and the canonical features have mean zero.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(0, 30, size=200)
    >>> rewards = 5 + 0.1 * x - 0.02 * x**2 + rng.standard_normal(200)
    >>> powers = np.stack([x**j for j in range(7)], axis=1)
    >>> adadim.dimension(powers, rewards).mode  # the constant, x and x^2
    3
    >>> adadim.dimension(powers[:, 1:], rewards).mode  # x and x^2: the constant need not be a feature
    2
    >>> adadim.dimension(powers, rewards, levels={"line": 2, "cubic": 4, "all": 7}).probabilities.round(2)
    array([0., 1., 0.])
    """
    features, columns = numbers_and_names(features)
    table, response = checked_choices(features, rewards)
    others = None if arms is None else checked_arm_features(arms, table.shape[1])
    question = _Question.of(table.shape[1], levels, prior, taper, ridge, constant)
    unit = float(_powers_of_two(np.abs(response).max(initial=0.0)))
    data = replace(Pooled.of(table, question.rewards(response / unit), others), unit=unit)
    return replace(question.answer([data], single=True), names=columns)


def dimension_of_arms(
    actions: ActionSet,
    counts: Array,
    sums: Array,
    squares: Array,
    levels: Levels = None,
    prior: PriorOnDim = "uniform",
    *,
    constant: bool = True,
) -> Dimension:
    """`dimension` of the pulls and sums of rewards (R, K) of the arms of `actions`, and sums of squares (R,)."""
    pulls, totals = as_numpy(counts).astype(np.int64), as_numpy(sums)
    data = [
        Pooled(as_numpy(actions.dense(r)), pulls[r], totals[r], square)
        for r, square in enumerate(as_numpy(squares).tolist())
    ]
    question = _Question.of(actions.dim, levels, prior, constant=constant)
    return replace(question.answer(data, actions.single), names=actions.names)


def dimension_of_moments(
    data: Sequence[Moments],
    levels: Levels = None,
    prior: PriorOnDim = "uniform",
    *,
    single: bool = True,
    constant: bool = True,
) -> Dimension:
    """`dimension` from the sums of each replication alone; the same, if no two choices had equal features."""
    return _Question.of(len(data[0].moment), levels, prior, constant=constant).answer(data, single)


@dataclass(frozen=True)
class _Question:
    """The possible d*, their prior, and the prior of the coefficients."""

    dim: int
    support: IntArray
    levels: dict[str, int] | None
    prior: FloatArray
    taper: float
    ridge: float | None
    constant: bool

    @classmethod
    def of(
        cls,
        dim: int,
        levels: Levels,
        prior: PriorOnDim,
        taper: float = 0.0,
        ridge: float | None = None,
        constant: bool = True,
    ) -> _Question:
        named = None if levels is None else checked_levels(levels, dim)
        support = np.arange(1, dim + 1) if named is None else np.array(list(named.values()))
        weights = checked_prior(prior, support)
        if ridge is not None:
            ridge = positive(ridge, "ridge", "the prior precision of a coefficient over sigma^2; None learns it")
            ridge = between(ridge, "ridge", 1e-100, 1e100)  # so that its products with j^taper are numbers
        largest = 300.0 / math.log(max(dim, 2))  # so that every j^taper is a number, and its root and square are
        taper, constant = between(taper, "taper", 0.0, largest), flag(constant, "constant")
        return cls(dim, support, named, weights, taper, ridge, constant)

    def rewards(self, rewards: FloatArray) -> FloatArray:
        """The rewards (n,) that the features have to explain."""
        return _centred(rewards[:, None], np.ones(len(rewards)))[:, 0] if self.constant else rewards

    def answer(self, data: Sequence[Pooled] | Sequence[Moments], single: bool) -> Dimension:
        """The answer from the data of each replication."""
        probabilities, noise = map(np.array, zip(*map(self._posterior, data), strict=True))
        choices = np.array([round(part.weight) for part in data])
        question = (self.prior, self.support, self.dim, self.levels, None, self.constant)
        if single:
            return Dimension(probabilities[0], float(noise[0]), int(choices[0]), *question, data[0])
        return Dimension(probabilities, noise, choices, *question)

    def _posterior(self, data: Pooled | Moments) -> tuple[FloatArray, float]:
        """P(d* = m) and the estimated noise."""
        degrees = data.weight - self.constant
        if degrees <= 0:
            return self.prior, np.nan
        squares = data.squares
        if self.constant and isinstance(data, Moments) and not np.isfinite([data.total, *data.first]).all():
            raise InvalidValueError(
                "constant=True needs the sums of features and of rewards, which the file of an earlier version of "
                "adadim does not have; use constant=False"
            )
        if not np.isfinite(squares):
            raise InvalidValueError("the squares of such large rewards are not finite; divide the rewards by a number")
        if squares == 0.0 and data.total == 0.0:
            return self.prior, 0.0
        if self.constant:
            squares -= data.total * data.total / data.weight
        if squares <= max(LOST * data.squares, SMALLEST_SQUARES):  # sums do not tell such rewards from equal ones
            return self.prior, np.nan
        size = float(np.sqrt(squares))  # rewards of any unit, and no overflow
        logdets, residuals = self._prefixes(data.scale_rewards(size))
        at = self.support - 1
        # Of differences of sums what is below rounding of the sums counts as that.
        logs = log_evidence(logdets[:, at], residuals[:, at], degrees, data.squares / squares)
        with np.errstate(divide="ignore"):
            logs = logs + np.log(self.prior)
        joint = np.exp(logs - logs.max())  # of d* and the ridge
        joint /= joint.sum()
        noise = size * float(np.sqrt((joint * residuals[:, at]).sum() / degrees))
        return joint.sum(axis=0), noise * data.unit if isinstance(data, Pooled) else noise

    def _prefixes(self, data: Pooled | Moments) -> tuple[FloatArray, FloatArray]:
        """ln det(V_m / Lambda_m) and S_m, both (ridges, d)."""
        if isinstance(data, Moments):
            return moment_prefixes(data, RIDGES, self.taper, self.constant)
        if self.ridge is None:
            return canonical_prefixes(data, RIDGES, self.taper, self.constant)
        largest = np.abs(data.arms).max(axis=0)
        sizes = np.maximum(_powers_of_two(largest), 1.0)
        precisions = prior_precisions(self.ridge, self.taper, self.dim)
        for j in np.flatnonzero(2 * np.log(sizes) - np.log(precisions) > math.log(MAX_SQUARE_TO_RIDGE))[:1]:
            raise InvalidValueError(
                f"ridge={self.ridge:g} is lost beside a feature of size {largest[j]:.2g} (column {j}); divide that "
                "column by a number, or leave ridge out: then units do not matter"
            )
        table, within = data.table(data.arms / sizes, self.constant)
        steps, squares, unexplained = _factored(table, precisions / sizes / sizes)
        return np.cumsum(steps)[None], (_sums_after(squares) + within + unexplained)[None]


def _moments(data: Pooled | Moments) -> Moments:
    """The sums over the choices, whose features are divided by numbers so that their squares are finite."""
    if isinstance(data, Pooled):
        pulled = np.flatnonzero(data.counts)
        x, counts, rewards = data.arms[pulled], data.counts[pulled], data.sums[pulled]
        extent = np.abs(x).max(axis=0, initial=0.0)
        units = like_units(extent)
        if (units == 1.0).all():  # features of any unit, and no overflow
            units = _powers_of_two(extent.max(initial=0.0)) * units
        x, extent = x / units, extent / units
        sums = (x.T * counts) @ x, rewards @ x, data.squares, data.weight, 0.0, extent
        data = Moments(*sums, first=counts @ x, total=data.total)
    return data


def checked_choices(features: Array, rewards: Array) -> tuple[FloatArray, FloatArray]:
    """Features (n, d) and rewards (n,) of past choices as floats."""
    table: FloatArray = as_numpy(real_array(features, "features"))
    response: FloatArray = as_numpy(real_array(rewards, "rewards"))
    ok, wanted = table.ndim == 2 and table.shape[-1] > 0, "a row for each choice and at least one column"
    require(ok, "features", f"have shape (n, d), {wanted}", table.shape)
    wanted = f"have shape ({len(table)},), one for each row of features"
    require(response.shape == table.shape[:1], "rewards", wanted, response.shape)
    largest = np.abs(response).max(initial=0.0)
    require(not LARGEST_REWARD < largest < np.inf, "rewards", f"be at most {LARGEST_REWARD:g} in size", largest)
    for name, array in (("features", table), ("rewards", response)):
        for where in np.argwhere(~np.isfinite(array))[:1].tolist():
            raise InvalidValueError(
                f"{name} must be finite, but {name}[{', '.join(map(str, where))}] is {array[tuple(where)]}; "
                "drop such rows or fill them in"
            )
    return table, response


def checked_arm_features(arms: Array, dim: int) -> FloatArray:
    """Features (K, d) of all arms that could have been chosen, as floats."""
    array = as_numpy(arms)
    shaped = array.dtype.kind in "biuf" and array.ndim == 2 and array.shape[1] == dim
    wanted = f"be finite numbers of shape (K, {dim}), with the columns of features"
    require(shaped and bool(np.isfinite(array).all()), "arms", wanted, arms)
    return array.astype(np.float64)


def checked_prior(prior: PriorOnDim, support: IntArray) -> FloatArray:
    """Prior probabilities of the possible values of d*."""
    if isinstance(prior, str):
        one_of(prior, "prior", ("uniform",))
        prior = 0.0
    if isinstance(prior, int | float | np.integer | np.floating) and is_number(prior):
        require(bool(np.isfinite(prior)), "prior", "be a finite exponent c of weights m^-c", prior)
        logs = -float(prior) * np.log(support)
        weights: FloatArray = np.exp(logs - logs.max())
    else:
        try:
            weights = np.asarray(prior, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            weights = np.empty(0)
        good = weights.shape == support.shape and bool(np.isfinite(weights).all()) and bool((weights >= 0).all())
        wanted = f"be 'uniform', an exponent or {len(support)} weights, not negative and not all zero"
        require(good and bool(weights.sum() > 0), "prior", wanted, prior)
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class Pooled:
    """Numbers of choices and sums of rewards by arm, chosen or not; `squares` is the sum of all squared rewards.

    The rewards are divided by `unit`.
    """

    arms: FloatArray
    counts: np.ndarray[Any, Any]
    sums: FloatArray
    squares: float
    unit: float = 1.0

    @classmethod
    def of(cls, features: FloatArray, rewards: FloatArray, others: FloatArray | None = None) -> Pooled:
        """Pool choices (n, d) that have equal features; `others` (k, d) could have been chosen too."""
        rows = features if others is None else np.concatenate([features, others])
        chosen = np.arange(len(rows)) < len(features)
        gains = np.append(rewards, np.zeros(len(rows) - len(features)))
        sizes = np.abs(rows).max(axis=0, initial=0.0)
        scaled = rows / np.where(sizes > 0, sizes, 1.0)
        # Equal rows are neighbours in the order of any one number made of them.
        order = np.argsort(scaled @ np.sin(1.0 + np.arange(rows.shape[1])), kind="stable")
        new = np.append(True, np.abs(np.diff(scaled[order], axis=0)).max(axis=1, initial=0.0) > ALIKE)[: len(rows)]
        group, first = np.cumsum(new) - 1, order[new]
        counts, sums = (np.bincount(group, part[order], len(first)).astype(np.float64) for part in (chosen, gains))
        return cls(rows[first], counts.astype(np.int64), sums, float(rewards @ rewards))

    @property
    def weight(self) -> float:
        """Number of choices."""
        return float(self.counts.sum())

    @property
    def total(self) -> float:
        """Sum of all rewards."""
        return float(self.sums.sum())

    def scale_rewards(self, size: float) -> Pooled:
        """The same with rewards divided by a number."""
        return replace(self, sums=self.sums / size, squares=self.squares / size / size)

    def table(self, columns: FloatArray, constant: bool) -> tuple[FloatArray, float]:
        """Rows of the arms chosen, rewards last, times the root of their counts; and the squares around the means.

        With a constant, less the mean of each column over the choices.
        """
        chosen = np.flatnonzero(self.counts)
        counts, columns, means = self.counts[chosen], columns[chosen], self.sums[chosen] / self.counts[chosen]
        within = max(self.squares - float(counts @ means**2), 0.0) if self.weight > len(chosen) else 0.0
        rows = np.column_stack([columns, means])
        return (_centred(rows, counts) if constant else rows) * np.sqrt(counts)[:, None], within


def _powers_of_two(sizes: Any) -> Any:
    """For each size the power of two just below it, 1 for 0: to divide by it rounds nothing."""
    return np.where(np.asarray(sizes) > 0, np.ldexp(1.0, np.frexp(sizes)[1] - 1), 1.0)


def _centred(columns: FloatArray, weights: np.ndarray[Any, Any]) -> FloatArray:
    """Columns (n, c) less their weighted means; exactly zero where nothing but rounding is left."""
    total = float(weights.sum()) or 1.0
    centred: FloatArray = columns - weights @ columns / total
    centred -= weights @ centred / total  # rounding of the mean of many
    left, sizes = (np.abs(part).max(axis=0, initial=0.0) for part in (centred, columns))
    centred[:, left <= COLUMN_ROUNDING * sizes] = 0.0
    return centred


def canonical_prefixes(data: Pooled, ridges: FloatArray, taper: float, constant: bool) -> tuple[FloatArray, FloatArray]:
    """ln det(V_m / Lambda_m) and S_m, both (ridges, d), in the canonical basis of the prefix spaces.

    That is the arms' by Gram-Schmidt, in their order, with mean square 1 over the arms: only the spaces that prefixes
    span matter. A column in the span of those before it adds nothing. With a constant, that comes before all columns.
    """
    basis, kept = _canonical(data.arms, constant)
    precisions = ridges[:, None] * prior_precisions(1.0, taper, len(kept))
    logdets, squares = np.zeros_like(precisions), np.zeros_like(precisions)
    if (data.counts == 1).all():  # the data are orthogonal: V is diagonal for every ridge
        rewards = _centred(data.sums[:, None], data.counts)[:, 0] if constant else data.sums
        coordinates = basis.T @ rewards / len(basis)
        unexplained = float(((rewards - basis @ coordinates) ** 2).sum())
        explained = np.zeros(len(kept))
        explained[kept] = coordinates**2 * len(basis)
        return _orthogonal(explained, kept, len(basis), precisions, unexplained)
    table, within = data.table(basis, constant)
    table = np.asarray(np.linalg.qr(table, mode="r"))
    remainders = np.zeros((len(ridges), 1))
    for i, row in enumerate(precisions):
        logdets[i, kept], squares[i, kept], remainders[i] = _factored(table, row[kept])
    return np.cumsum(logdets, axis=-1), np.array([_sums_after(row) for row in squares]) + within + remainders


def moment_prefixes(sums: Moments, ridges: FloatArray, taper: float, constant: bool) -> tuple[FloatArray, FloatArray]:
    """`canonical_prefixes` of choices that differ and whose sums alone are known, in the basis of the choices."""
    if constant:
        sums = sums.with_constant()
    dim, n = len(sums.moment), sums.weight
    lengths = np.sqrt(np.diag(sums.second))
    scale = np.where(lengths > 0, lengths, 1.0)
    gram, moment = sums.second / np.outer(scale, scale), sums.moment / scale
    # L L^T = gram without the columns in the span of those before; w = L^-1 b, so that w^2 is what each explains.
    lower, w = np.zeros((dim, dim)), np.zeros(dim)
    kept = np.zeros(dim, dtype=bool)
    for j in range(dim):
        done = np.flatnonzero(kept[:j])
        row, least = np.zeros(0), DEPENDENT_SQUARE
        if done.size:
            factor = lower[np.ix_(done, done)]
            row = solve_triangular(factor, gram[done, j], lower=True)
            # With c the column's coefficients in the columns before it, rounding of what is left of it grows as
            # eps (1 + |c|)^2 (Higham 2002, "Accuracy and Stability of Numerical Algorithms", lemma 10.10).
            coefficients = solve_triangular(factor, row, lower=True, trans="T")
            least = max(least, COLUMN_ROUNDING * (1.0 + np.abs(coefficients).sum()) ** 2)
        left = gram[j, j] - row @ row
        if left > least:
            kept[j] = True
            lower[j, done], lower[j, j] = row, np.sqrt(left)
            w[j] = (moment[j] - row @ w[done]) / lower[j, j]
    features = slice(int(constant), None)
    precisions = ridges[:, None] * prior_precisions(1.0, taper, len(w[features]))
    return _orthogonal(w[features] ** 2, kept[features], n, precisions, max(sums.squares - float(w @ w), 0.0))


def _orthogonal(
    explained: FloatArray, kept: BoolArray, n: float, precisions: FloatArray, unexplained: float
) -> tuple[FloatArray, FloatArray]:
    """What `canonical_prefixes` gives where V is diagonal, from the squares that each feature explains."""
    logdets = np.zeros_like(precisions)
    logdets[:, kept] = np.log1p(n / precisions[:, kept])
    shrunk = explained * precisions / (precisions + n)  # what the prior keeps a feature from explaining
    return np.cumsum(logdets, axis=-1), np.cumsum(shrunk, axis=-1) + _sums_after(explained) + unexplained


def _factored(table: FloatArray, precisions: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Steps of ln det(V_m / Lambda_m), w^2, and the squares that no feature explains, of features with rewards last."""
    dim, upper = len(precisions), triangle(table, precisions)
    steps = 2 * np.log(np.abs(np.diag(upper)[:dim])) - np.log(precisions)
    return steps, upper[:dim, dim] ** 2, float((upper[dim:, dim] ** 2).sum())


def triangle(table: FloatArray, precisions: FloatArray) -> FloatArray:
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


def _canonical(arms: FloatArray, constant: bool) -> tuple[FloatArray, BoolArray]:
    """Canonical features (k, c) of the arms, orthogonal with mean square 1, and which columns they come from, (d,).

    With a constant they are orthogonal to it too: less their means.
    """
    sizes = np.abs(arms).max(axis=0)
    columns = arms / np.where(sizes > 0, sizes, 1.0)
    lengths = np.linalg.norm(columns, axis=0)
    columns /= np.where(lengths > 0, lengths, 1.0)
    if constant:
        columns = _centred(columns, np.ones(len(columns)))
    varying = np.flatnonzero(np.linalg.norm(columns, axis=0) > DEPENDENT)
    basis, upper = np.linalg.qr(columns if len(varying) == len(sizes) else columns[:, varying])
    count, dim = upper.shape
    kept = np.zeros(len(sizes), dtype=bool)
    rank = min(len(arms) - constant, dim)  # the largest possible
    if (np.abs(np.diag(upper))[:rank] > DEPENDENT).all():
        kept[varying[:rank]] = True
        return basis[:, :rank] * np.sqrt(len(arms)), kept
    # A dependent column leaves a direction of the factorisation to chance: orthogonalise without it.
    directions, rank = np.zeros((count, count)), 0
    for j in range(dim):
        vector = upper[:, j].copy()
        for _ in range(2):
            vector -= directions[:, :rank] @ (directions[:, :rank].T @ vector)
        length = np.linalg.norm(vector)
        if length > DEPENDENT and rank < count:
            directions[:, rank], kept[varying[j]] = vector / length, True
            rank += 1
    return basis @ directions[:, :rank] * np.sqrt(len(arms)), kept


def _sums_after(squares: FloatArray) -> FloatArray:
    """Sum of the squares after each position."""
    return np.append(np.cumsum(squares[:0:-1])[::-1], 0.0)
