"""Problems drawn at random: points in R^d, products of attributes, polynomials, arms that arrive, everyday ones."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from adadim.core.actions import ActionSet, made_once
from adadim.core.arrays import FloatArray
from adadim.core.checks import flag, integer, not_negative, numbers, one_of, positive, require, rounds
from adadim.core.deprecated import renamed_parameter
from adadim.errors import NormWarning
from adadim.instances.contexts import ContextInstance, context_problem
from adadim.instances.delay import DelayLike
from adadim.instances.instance import (
    Instance,
    Theta,
    check_beyond_constant,
    check_sizes,
    closure_levels,
    generators,
    linear_instance,
    parameter,
    with_base_rate,
)

Generator = np.random.Generator

MAX_ATTRIBUTES = 30

EverydayDistribution = Literal["gaussian", "heavy", "correlated", "binary", "counts", "one-hot", "groups"]
WORDS_PER_TEXT = 30.0  # expected, of the distribution "counts"
SAMPLE_ROWS = 2000  # by which the size of effects is set where features come with each round


def sphere(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
    expressive: bool = False,
    levels: Sequence[int] | None = None,
) -> Instance:
    """Arms drawn uniformly from the unit sphere, afresh in each replication.

    Parameters
    ----------
    arms, dim : int
        Number of arms K (base arms, for an expressive set) and of features d.
    intrinsic_dim : int
        Number d* of leading features that matter.
    horizon : int
        Number of rounds T.
    noise : float
        Standard deviation of the Gaussian noise.
    theta : {"uniform", "decay", "flip", "spike", "heavy"}
        Shape of the reward parameter, see `parameter`.
    replications : sequence of int, or int
        Replication numbers, or how many (8 for range(8)); number r gives the same arms whatever the others are.
    delay : Delay, int or table, optional
        How many rounds a reward takes to come, see `Delay`; by default it comes at once.
    seed : int
        Seed of the arms.
    expressive : bool
        Close the set under truncation (Assumption 1 of the paper, restricted to `levels`).
    levels : sequence of int, optional
        Truncation levels of the closure; `expressive_levels` by default.

    Examples
    --------
    >>> instance = sphere(arms=50, dim=20, intrinsic_dim=3, horizon=100, replications=range(2))
    >>> instance.means.shape
    (2, 50)
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    vector, levels = parameter(theta, intrinsic_dim, dim), closure_levels(expressive, levels, horizon, dim)

    def drawn() -> ActionSet:
        return ActionSet(_filled_features(_fill_unit_rows, arms, dim, replications, seed), levels)

    actions = made_once(f"sphere {arms} {dim} {replications} {seed} {np.asarray(levels).tolist()}", drawn)
    return Instance(actions, theta=vector, horizon=horizon, noise=noise, replications=replications, delay=delay)


def ball(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
    expressive: bool = False,
    levels: Sequence[int] | None = None,
) -> Instance:
    """Arms drawn uniformly from the unit ball; parameters as in `sphere`.

    Examples
    --------
    >>> instance = ball(arms=50, dim=3, intrinsic_dim=3, horizon=100)
    >>> bool((instance.problem.actions.squared_norms() < 1).all())
    True
    """

    def fill(generator: Generator, rows: FloatArray) -> None:
        _fill_unit_rows(generator, rows)
        rows *= generator.random((arms, 1)) ** (1 / dim)

    replications = check_sizes(replications, arms=arms, dim=dim)
    base, vector = _filled_features(fill, arms, dim, replications, seed), parameter(theta, intrinsic_dim, dim)
    return linear_instance(base, vector, horizon, noise, replications, delay, expressive=expressive, levels=levels)


def anisotropic(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    decay: float = 1.0,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Gaussian features whose scale falls as j^-decay, divided by the norm of the longest arm.

    Such are principal components, or features that a practitioner has ordered by how much they vary. The other
    parameters are as in `sphere`.

    Parameters
    ----------
    decay : float
        Exponent of the scales; 0 gives all features the same.

    Examples
    --------
    >>> instance = anisotropic(arms=50, dim=20, intrinsic_dim=3, horizon=100)
    >>> round(float(instance.problem.actions.squared_norms().max()), 9)
    1.0
    """

    def fill(generator: Generator, rows: FloatArray) -> None:
        generator.standard_normal(out=rows)
        rows *= scales
        rows /= _longest(rows)

    replications = check_sizes(replications, arms=arms, dim=dim)
    not_negative(decay, "decay")
    scales = np.arange(1.0, dim + 1) ** -decay
    base, vector = _filled_features(fill, arms, dim, replications, seed), parameter(theta, intrinsic_dim, dim)
    return linear_instance(base, vector, horizon, noise, replications, delay)


def clicks(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    theta: Theta = "uniform",
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Clicks: Bernoulli rewards whose probability is linear in the features.

    The first feature is the constant 1/sqrt(2) (the base rate), the others a point of the sphere of radius
    1/sqrt(2); theta is built alike, so the click probability is 1/2 + <z, t>/2 with unit vectors z and t.
    `intrinsic_dim` counts the constant, hence is at least 2. The other parameters are as in `sphere`.

    Examples
    --------
    >>> instance = clicks(arms=50, dim=10, intrinsic_dim=3, horizon=100)
    >>> instance.rewards, instance.problem.noise
    ('bernoulli', 0.5)
    """

    def fill(generator: Generator, rows: FloatArray) -> None:
        points = np.empty((arms, dim - 1))
        _fill_unit_rows(generator, points)
        rows[:, 0] = 1.0
        rows[:, 1:] = points
        rows *= 1 / math.sqrt(2)

    replications = check_sizes(replications, arms=arms, dim=dim)
    vector = with_base_rate(theta, intrinsic_dim, dim)
    base = _filled_features(fill, arms, dim, replications, seed)
    return Instance(base, theta=vector, horizon=horizon, rewards="bernoulli", replications=replications, delay=delay)


def products(
    *,
    attributes: int,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
    expressive: bool = False,
    levels: Sequence[int] | None = None,
) -> Instance:
    """Arms that have or lack each of several attributes; features are the attributes, then their pairs, triples, ...

    An arm is one of the 2^attributes combinations, drawn without repetition. A feature of degree k is 1 if the arm has
    all of k attributes, else 0; after that all features are divided by the norm of the longest arm. With
    ``expressive=True`` an arm comes with its truncations, the paper's example of an expressive set: the same goods
    without what goes beyond the basic features. Theta has the size that `parameter` says and random signs,
    since otherwise the arm with all attributes would be best. The other parameters are as in `sphere`.

    Parameters
    ----------
    attributes : int
        Number of attributes, at most 30.
    dim : int
        Number of features, at most 2^attributes - 1; n attributes have n features of degree 1, n(n-1)/2 of degree 2.

    Examples
    --------
    >>> instance = products(attributes=3, arms=8, dim=6, intrinsic_dim=3, horizon=100)
    >>> arms = instance.problem.actions.dense(0) * 6**0.5  # features 4 to 6 are products of the first three
    >>> bool(np.allclose(arms[:, 3:], arms[:, [0, 0, 1]] * arms[:, [1, 2, 2]]))
    True
    """
    replications = check_sizes(replications, attributes=attributes, arms=arms, dim=dim)
    require(attributes <= MAX_ATTRIBUTES, "attributes", f"be at most {MAX_ATTRIBUTES}", attributes)
    combinations = 2**attributes
    require(arms <= combinations, "arms", f"be at most 2^attributes = {combinations}, the combinations", arms)
    require(dim < combinations, "dim", f"be at most 2^attributes - 1 = {combinations - 1}, the products", dim)
    sets = (itertools.combinations(range(attributes), k) for k in itertools.count(1))
    chosen = list(itertools.islice(itertools.chain.from_iterable(sets), dim))

    def columns(generator: Generator) -> list[Any]:
        codes = generator.choice(combinations, arms, replace=False, shuffle=False)
        has = (codes[:, None] >> np.arange(attributes)) & 1 == 1
        return [has[:, list(members)].all(axis=1) for members in chosen]

    vector = parameter(theta, intrinsic_dim, dim)
    base, vectors = _drawn_with_signs(columns, vector, arms, replications, seed)
    return linear_instance(base, vectors, horizon, noise, replications, delay, expressive=expressive, levels=levels)


def polynomials(
    *,
    variables: int,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Arms are settings of a few variables; features are polynomials of increasing degree in them.

    A setting is a point drawn uniformly from the cube [-1, 1]^variables. Features are products of Legendre polynomials,
    orthonormal under that distribution, ordered by total degree, the constant first; then all are divided by the norm
    of the longest arm. Theta has random signs, as in `products`. The other parameters are as in `sphere`.

    Parameters
    ----------
    variables : int
        Number of variables n; there are (n + k)! / (n! k!) features of degree at most k.
    intrinsic_dim : int
        Number d* of leading features that matter. The constant counts and decides nothing, so at least 2.

    Examples
    --------
    >>> instance = polynomials(variables=2, arms=50, dim=10, intrinsic_dim=6, horizon=100)  # cubic; quadratic matters
    >>> arms = instance.problem.actions.dense(0)
    >>> bool(np.allclose(arms[:, 4] * arms[:, 0], arms[:, 1] * arms[:, 2]))  # feature 5 is the product of 2 and 3
    True
    """
    replications = check_sizes(replications, variables=variables, arms=arms, dim=dim)
    check_beyond_constant(intrinsic_dim, dim)
    terms = (itertools.combinations_with_replacement(range(variables), k) for k in itertools.count())
    chosen = itertools.islice(itertools.chain.from_iterable(terms), dim)
    degrees = [[term.count(v) for v in range(variables)] for term in chosen]  # (0, 0, 2) is x_0^2 x_2
    highest = max(map(max, degrees))
    lengths = np.sqrt(2 * np.arange(highest + 1) + 1)  # the mean square of P_k on [-1, 1] is 1 / (2k + 1)

    def columns(generator: Generator) -> list[Any]:
        points = generator.uniform(-1, 1, (arms, variables))
        values = np.polynomial.legendre.legvander(points, highest) * lengths
        return [math.prod(values[:, v, k] for v, k in enumerate(d)) for d in degrees]

    vector = parameter(theta, intrinsic_dim, dim)
    base, vectors = _drawn_with_signs(columns, vector, arms, replications, seed)
    return linear_instance(base, vectors, horizon, noise, replications, delay)


def powers(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    top: float = 30.0,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Arms are values x in [0, top]; features are 1, x, x^2, ... as they are, however large.

    The mean reward is a random polynomial of degree d* - 1, scaled to a range of 1 over the arms. Norms are far above
    1 and columns nearly dependent, which no theorem allows and every user does; the warning about norms is left out.
    The other parameters are as in `sphere`.

    Parameters
    ----------
    intrinsic_dim : int
        Number d* of leading features that matter, at least 2: the constant alone decides nothing.
    top : float
        Largest x.

    Examples
    --------
    >>> instance = powers(arms=40, dim=4, intrinsic_dim=2, horizon=100)
    >>> bool(np.ptp(instance.means[0]).round(9) == 1.0), instance.theta.shape
    (True, (1, 4))
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    check_beyond_constant(intrinsic_dim, dim)
    positive(top, "top", "the largest x, e.g. 30")
    require(abs(math.log10(top)) * dim < 100, "top", f"have powers up to {dim} that are numbers", top)
    base, vectors = np.empty((len(replications), arms, dim)), np.zeros((len(replications), dim))
    for r, generator in enumerate(generators(seed, replications)):
        x = np.sort(generator.uniform(0, top, arms))
        base[r] = x[:, None] ** np.arange(dim)
        # A polynomial in u = 2 x / top - 1, written out in powers of x.
        wave = np.polynomial.Legendre(generator.standard_normal(intrinsic_dim), domain=[0, top])
        raw = wave.convert(kind=np.polynomial.Polynomial, domain=[-1, 1], window=[-1, 1])
        coefficients = np.asarray(raw.coef, dtype=float)
        vectors[r, : len(coefficients)] = coefficients / (np.ptp(base[r, :, : len(coefficients)] @ coefficients) or 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NormWarning)
        return linear_instance(base, vectors, horizon, noise, replications, delay)


@renamed_parameter("first", "initial_arms")
def growing(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    initial_arms: int = 5,
    best: int = 1,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Arms of `sphere` that arrive one after the other: sets that only grow, as in the paper's remark.

    The other parameters are as in `sphere`, and the arms are the same in another order.

    Parameters
    ----------
    initial_arms : int
        Number of arms that are there from the start. The others arrive at even distances over the horizon; with
        `initial_arms` of at least `arms` all are there.
    best : int
        Round in which the best arm arrives, or the next in which one does, or else the last; 1 for one that is there
        from the start, which the guarantee of `LinUCBPlusPlus` needs.

    Examples
    --------
    >>> instance = growing(arms=6, dim=4, intrinsic_dim=2, horizon=100, initial_arms=2)
    >>> instance.problem.arrives
    array([[ 1,  1, 20, 40, 60, 80]])
    >>> late = growing(arms=6, dim=4, intrinsic_dim=2, horizon=100, initial_arms=2, best=50)
    >>> int(late.means.argmax()), bool(late.arrival_gain[0] > 0)
    (4, True)
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    horizon = rounds(horizon)
    initial_arms = min(integer(initial_arms, "initial_arms", meaning="the number of arms there from the start"), arms)
    later = arms - initial_arms
    # Arrivals at T/(n+1), 2T/(n+1), ...: rounds 2 to T.
    arrives = np.array([1] * initial_arms + [max(2, horizon * (i + 1) // (later + 1)) for i in range(later)])
    best_round = min(integer(best, "best", meaning="a round in which an arm arrives"), int(arrives[-1]))
    place = int(np.argmax(arrives >= best_round))
    vector = parameter(theta, intrinsic_dim, dim)
    base = _filled_features(_fill_unit_rows, arms, dim, replications, seed)
    for rows, leading in zip(base, (base @ vector).argmax(axis=1).tolist(), strict=True):
        rows[[place, leading]] = rows[[leading, place]]
    return linear_instance(base, vector, horizon, noise, replications, delay, arrives=arrives, slack=math.inf)


@renamed_parameter("law", "distribution")
@renamed_parameter("first", "first_relevant")
def everyday(
    *,
    distribution: EverydayDistribution,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    first_relevant: int = 1,
    constant: float = 0.0,
    column: bool = False,
    per_round: bool = False,
    noise: float = 1.0,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance | ContextInstance:
    """Problems as users have them, in which the order of the features may be wrong and rewards far from zero.

    Features `first_relevant` to `intrinsic_dim` matter, with Gaussian coefficients, so that the mean rewards of the
    arms have a standard deviation of 1 around `constant`. All features are divided by the norm of the longest arm (with
    `per_round`, of the longest of a sample). The other parameters are as in `sphere`.

    Parameters
    ----------
    distribution : {"gaussian", "heavy", "correlated", "binary", "counts", "one-hot", "groups"}
        Independent Gaussian columns; columns with Student's t of 3 degrees of freedom; Gaussian columns, each of which
        has a correlation of 0.9 with the next; columns of zeros and ones, with 0.3 of ones; counts of words, the j-th
        as frequent as 1/j; one column for each arm (with `per_round`, for each arm in each of ``dim / arms`` segments
        of users, of which one comes in a round); columns for the groups that the arms belong to (``dim - arms``
        of them), whose effects are twice as large, then one for each arm.
    first_relevant : int
        Number of the first feature that matters; at least 2 with ``column=True``.
    constant : float
        What is added to all rewards. The best arm does not depend on it.
    column : bool
        Whether the first feature is a constant, whose coefficient `constant` is; otherwise no feature accounts for it.
    per_round : bool
        Whether features are drawn anew in each round.

    Examples
    --------
    >>> instance = everyday(
    ...     distribution="counts", arms=50, dim=20, first_relevant=8, intrinsic_dim=12, horizon=100, constant=5.0
    ... )
    >>> float(instance.means.std().round(6)), bool(abs(instance.means.mean() - 5) < 2)
    (1.0, True)
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    one_of(distribution, "distribution", get_args(EverydayDistribution))
    (constant,) = numbers((constant,), "constant")
    columns = int(flag(column, "column"))
    least, after = 1 + columns, ", after the constant of column=True" if columns else ""
    integer(intrinsic_dim, "intrinsic_dim", least, dim, meaning=f"the last feature that matters{after}")
    integer(first_relevant, "first_relevant", least, intrinsic_dim, meaning=f"the first feature that matters{after}")
    positive(noise, "noise", "the standard deviation of the noise, e.g. 1")
    draw = _drawer(distribution, arms, dim - columns, flag(per_round, "per_round"))

    def features(generator: Generator) -> FloatArray:
        drawn = draw(generator)
        return np.concatenate([np.ones((arms, 1)), drawn], axis=1) if columns else drawn

    hidden = 0.0 if columns else constant
    theta, sets = np.zeros((len(replications), dim)), []
    for vector, generator in zip(theta, generators(seed, replications), strict=True):
        weights = generator.standard_normal(intrinsic_dim - first_relevant + 1)
        if distribution == "groups":
            weights[: max(0, dim - columns - arms - first_relevant + 1)] *= 2.0
        rows = _sample(features, generator, arms) if per_round else features(generator)
        relevant = slice(first_relevant - 1, intrinsic_dim)
        vector[relevant] = weights / ((rows[:, relevant] @ weights).std() or 1.0)
        vector[0] += constant if columns else 0.0
        sets.append(rows)
    if not per_round:
        base = np.stack([rows / _longest(rows) for rows in sets])
        means = (np.stack(sets) @ theta[:, :, None])[..., 0] + hidden
        return Instance(base, means=means, horizon=horizon, noise=noise, replications=replications, delay=delay)
    scale = _longest(_sample(features, np.random.default_rng(0), arms))  # the same in all replications and seeds
    problem = context_problem(arms, dim, horizon, noise, replications)

    def draw_round(generator: Generator) -> FloatArray:
        return features(generator) / scale

    return ContextInstance(problem, theta * scale, distribution, seed, delay=delay, draw=draw_round, noise_mean=hidden)


def _sample(draw: Callable[[Generator], FloatArray], generator: Generator, arms: int) -> FloatArray:
    """Features of several rounds below each other."""
    return np.concatenate([draw(generator) for _ in range(-(-SAMPLE_ROWS // arms))])


def _longest(rows: FloatArray) -> float:
    return float(np.sqrt(np.vecdot(rows, rows).max()))


def _drawer(distribution: str, arms: int, dim: int, per_round: bool) -> Callable[[Generator], FloatArray]:
    """A function that draws the features (K, d) of all arms."""
    if distribution == "one-hot":
        segments, remainder = divmod(dim, arms)
        fits = not remainder and (per_round or segments == 1)
        require(fits, "dim", f"be {'a multiple of ' if per_round else ''}the number of arms, {arms}", dim)
        return lambda generator: np.eye(dim)[generator.integers(segments) * arms + np.arange(arms)]
    if distribution == "groups":
        groups = dim - arms
        require(0 < groups <= arms, "dim", f"be above the number of arms, {arms}, by the number of groups", dim)
        features = np.concatenate([np.eye(groups)[np.arange(arms) % groups], np.eye(arms)], axis=1)
        return lambda generator: features
    if distribution == "counts":
        rates = 1.0 / np.arange(1, dim + 1)
        rates *= WORDS_PER_TEXT / rates.sum()
        return lambda generator: generator.poisson(rates, (arms, dim)).astype(float)
    if distribution == "binary":
        return lambda generator: (generator.random((arms, dim)) < 0.3).astype(float)
    if distribution == "heavy":
        return lambda generator: generator.standard_t(3, (arms, dim))
    if distribution == "gaussian":
        return lambda generator: generator.standard_normal((arms, dim))
    index = np.arange(dim)
    root = np.linalg.cholesky(0.9 ** np.abs(index[:, None] - index))
    return lambda generator: generator.standard_normal((arms, dim)) @ root.T


def _filled_features(
    fill: Callable[[Generator, FloatArray], None], arms: int, dim: int, replications: Sequence[int], seed: int
) -> FloatArray:
    """Features (R, K, d), where `fill` draws those of a replication."""
    base = np.empty((len(replications), arms, dim))
    for rows, generator in zip(base, generators(seed, replications), strict=True):
        fill(generator, rows)
    return base


def _fill_unit_rows(generator: Generator, rows: FloatArray) -> None:
    """Overwrite `rows` with points drawn uniformly from the unit sphere."""
    generator.standard_normal(out=rows)
    rows /= np.sqrt(np.vecdot(rows, rows))[:, None]


def _drawn_with_signs(
    columns: Callable[[Generator], list[Any]], vector: FloatArray, arms: int, replications: Sequence[int], seed: int
) -> tuple[FloatArray, FloatArray]:
    """Features (R, K, d) by their columns, over the norm of the longest; and theta with random signs, (R, d)."""
    base, vectors = np.empty((len(replications), arms, len(vector))), np.tile(vector, (len(replications), 1))
    for r, generator in enumerate(generators(seed, replications)):
        vectors[r] *= np.where(generator.random(len(vector)) < 0.5, -1.0, 1.0)
        rows = np.stack(columns(generator), axis=1).astype(float)
        base[r] = rows / (_longest(rows) or 1.0)
    return base, vectors
