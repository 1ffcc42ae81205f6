"""Problems as users have them: columns in no order, categories, counts, correlated columns, rewards far from zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.core.checks import flag, integer, numbers, one_of, positive, require
from adadim.core.problem import Problem
from adadim.instances.contexts import ContextInstance
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.instances.parameters import check_sizes, generators

EverydayLaw = Literal["gaussian", "heavy", "correlated", "binary", "counts", "one-hot", "groups"]
LAWS = ("gaussian", "heavy", "correlated", "binary", "counts", "one-hot", "groups")

WORDS = 30.0  # expected length of a text of "counts"
SAMPLE = 2000  # rows by which the size of effects is set where features come with each round


def everyday(
    *,
    law: EverydayLaw,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    first: int = 1,
    constant: float = 0.0,
    column: bool = False,
    per_round: bool = False,
    noise: float = 1.0,
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance | ContextInstance:
    """Problems as users have them, in which the order of the features may be wrong and rewards far from zero.

    The features from number `first` to number `intrinsic_dim` matter, with Gaussian coefficients, so that the mean
    rewards of the arms have a standard deviation of 1 around `constant`. All features are divided by the norm of the
    longest arm (with `per_round`, of the longest of a sample). The other parameters are as in `sphere`.

    Parameters
    ----------
    law : {"gaussian", "heavy", "correlated", "binary", "counts", "one-hot", "groups"}
        Independent Gaussian columns; columns with Student's t of 3 degrees of freedom; Gaussian columns, each of which
        has a correlation of 0.9 with the next; columns of zeros and ones, with 0.3 of ones; counts of words, the j-th
        as frequent as 1/j; one column for each arm (with `per_round`, for each arm in each of ``dim / arms`` segments
        of users, of which one comes in a round); columns for the groups that the arms belong to (``dim - arms``
        of them), whose effects are twice as large, then one for each arm.
    first : int
        Number of the first feature that matters.
    constant : float
        What is added to all rewards. The best arm does not depend on it.
    column : bool
        Whether the first feature is a constant, whose coefficient `constant` is; otherwise no feature accounts for it.
    per_round : bool
        Whether features are drawn anew in each round.

    Examples
    --------
    >>> instance = everyday(law="counts", arms=50, dim=20, first=8, intrinsic_dim=12, horizon=100, constant=5.0)
    >>> float(instance.means.std().round(6)), bool(abs(instance.means.mean() - 5) < 2)
    (1.0, True)
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    one_of(law, "law", LAWS)
    (constant,) = numbers((constant,), "constant")
    columns = 1 if flag(column, "column") else 0
    integer(intrinsic_dim, "intrinsic_dim", least=1 + columns, most=dim, meaning="the last feature that matters")
    integer(first, "first", least=1 + columns, most=intrinsic_dim, meaning="the first feature that matters")
    positive(noise, "noise", "the standard deviation of the noise, e.g. 1")
    draw = _drawer(law, arms, dim - columns, flag(per_round, "per_round"))

    def features(generator: np.random.Generator) -> FloatArray:
        drawn = draw(generator)
        return np.concatenate([np.ones((arms, 1)), drawn], axis=1) if columns else drawn

    hidden = 0.0 if columns else constant
    theta, sets = np.zeros((len(replications), dim)), []
    for vector, generator in zip(theta, generators(seed, replications), strict=True):
        weights = generator.standard_normal(intrinsic_dim - first + 1)
        if law == "groups":
            weights[: max(0, dim - columns - arms - first + 1)] *= 2.0
        rows = _sample(features, generator, arms) if per_round else features(generator)
        vector[first - 1 : intrinsic_dim] = weights / ((rows[:, first - 1 : intrinsic_dim] @ weights).std() or 1.0)
        vector[0] += constant if columns else 0.0
        sets.append(rows)
    if not per_round:
        base = np.stack([rows / _longest(rows) for rows in sets])
        means = (np.stack(sets) @ theta[:, :, None])[..., 0] + hidden
        return Instance(base, means=means, horizon=horizon, noise=noise, replications=replications, delay=delay)
    scale = _longest(_sample(features, np.random.default_rng(0), arms))  # the same whatever is drawn
    problem = Problem(arms=arms, dim=dim, horizon=horizon, noise=noise, replications=replications, sets="iid")

    def draw_round(generator: np.random.Generator) -> FloatArray:
        return features(generator) / scale

    return ContextInstance(problem, theta * scale, law, seed, delay=delay, draw=draw_round, noise_mean=hidden)


def _sample(draw: Callable[[np.random.Generator], FloatArray], generator: np.random.Generator, arms: int) -> FloatArray:
    """Features of several rounds below each other."""
    return np.concatenate([draw(generator) for _ in range(-(-SAMPLE // arms))])


def _longest(rows: FloatArray) -> float:
    return float(np.sqrt(np.vecdot(rows, rows).max()))


def _drawer(law: str, arms: int, dim: int, per_round: bool) -> Callable[[np.random.Generator], FloatArray]:
    """What draws the features (K, d) of all arms."""
    if law == "one-hot":
        segments, rest = divmod(dim, arms)
        fits = not rest and (per_round or segments == 1)
        require(fits, "dim", f"be {'a multiple of' if per_round else ''} the number of arms, {arms}", dim)
        return lambda generator: np.eye(dim)[generator.integers(segments) * arms + np.arange(arms)]
    if law == "groups":
        groups = dim - arms
        require(0 < groups <= arms, "dim", f"be above the number of arms, {arms}, by the number of groups", dim)
        each = np.concatenate([np.eye(groups)[np.arange(arms) % groups], np.eye(arms)], axis=1)
        return lambda generator: each
    if law == "counts":
        rates = 1.0 / np.arange(1, dim + 1)
        rates *= WORDS / rates.sum()
        return lambda generator: generator.poisson(rates, (arms, dim)).astype(float)
    if law == "binary":
        return lambda generator: (generator.random((arms, dim)) < 0.3).astype(float)
    if law == "heavy":
        return lambda generator: generator.standard_t(3, (arms, dim))
    if law == "gaussian":
        return lambda generator: generator.standard_normal((arms, dim))
    index = np.arange(dim)
    root = np.linalg.cholesky(0.9 ** np.abs(index[:, None] - index))
    return lambda generator: generator.standard_normal((arms, dim)) @ root.T
