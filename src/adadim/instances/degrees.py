"""Features that are products of simpler ones, ordered by degree: binary attributes and polynomials."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from adadim.backend.arrays import FloatArray
from adadim.checks import is_integer, shown
from adadim.errors import InvalidValueError
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.instances.parameters import Theta, check_sizes, linear_instance, parameter
from adadim.randomness import Purpose, Streams

__all__ = ["polynomials", "products"]

MOST_ATTRIBUTES = 30


def products(
    *,
    attributes: int,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] = range(1),
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
    if attributes > MOST_ATTRIBUTES:
        raise InvalidValueError(f"attributes must be at most {MOST_ATTRIBUTES}, got {attributes!r}")
    if arms > 2**attributes:
        raise InvalidValueError(f"arms must be at most 2^attributes = {2**attributes}, the combinations, got {arms!r}")
    if dim > 2**attributes - 1:
        raise InvalidValueError(
            f"dim must be at most 2^attributes - 1 = {2**attributes - 1}, the products, got {dim!r}"
        )
    sets = (itertools.combinations(range(attributes), k) for k in itertools.count(1))
    chosen = list(itertools.islice(itertools.chain.from_iterable(sets), dim))
    base = np.empty((len(replications), arms, dim))
    vectors = np.empty((len(replications), dim))
    for r, generator in enumerate(Streams(seed, Purpose.INSTANCE, replications).generators):
        vectors[r] = _signed(theta, intrinsic_dim, dim, generator)
        codes = generator.choice(2**attributes, arms, replace=False, shuffle=False)
        has = (codes[:, None] >> np.arange(attributes)) & 1 == 1
        base[r] = _scaled(np.stack([has[:, list(members)].all(axis=1) for members in chosen], axis=1))
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
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Arms are settings of a few variables; features are polynomials of increasing degree in them.

    A setting is a point drawn uniformly from the cube [-1, 1]^variables. Features are products of Legendre polynomials,
    orthonormal under that law, ordered by total degree, the constant first; then all are divided by the norm of the
    longest arm. Theta has random signs, as in `products`. The other parameters are as in `sphere`.

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
    if not is_integer(intrinsic_dim) or not 2 <= intrinsic_dim <= dim:
        raise InvalidValueError(f"intrinsic_dim must be in 2..{dim} (the constant counts), got {shown(intrinsic_dim)}")
    terms = (itertools.combinations_with_replacement(range(variables), k) for k in itertools.count())
    powers = [_powers(t, variables) for t in itertools.islice(itertools.chain.from_iterable(terms), dim)]
    degree = max(map(max, powers))
    lengths = np.sqrt(2 * np.arange(degree + 1) + 1)  # the mean square of P_k on [-1, 1] is 1 / (2k + 1)
    base = np.empty((len(replications), arms, dim))
    vectors = np.empty((len(replications), dim))
    for r, generator in enumerate(Streams(seed, Purpose.INSTANCE, replications).generators):
        vectors[r] = _signed(theta, intrinsic_dim, dim, generator)
        points = generator.uniform(-1, 1, (arms, variables))
        values = np.polynomial.legendre.legvander(points, degree) * lengths
        base[r] = _scaled(np.stack([math.prod(values[:, v, k] for v, k in enumerate(p)) for p in powers], axis=1))
    return linear_instance(base, vectors, horizon, noise, replications, delay)


def _powers(term: Iterable[int], variables: int) -> list[int]:
    """Degree in each variable of a product of variables: (0, 0, 2) is x_0^2 x_2."""
    return np.bincount(np.array(list(term), dtype=int), minlength=variables).tolist()  # type: ignore[no-any-return]


def _signed(theta: Theta, intrinsic_dim: int, dim: int, generator: np.random.Generator) -> FloatArray:
    signs = np.where(generator.random(dim) < 0.5, -1.0, 1.0)
    return parameter(theta, intrinsic_dim, dim) * signs


def _scaled(rows: FloatArray) -> FloatArray:
    """Rows divided by the norm of the longest; if all are zero, they stay so."""
    rows = rows.astype(float)
    longest = float(np.sqrt(np.vecdot(rows, rows).max()))
    return rows / (longest or 1.0)
