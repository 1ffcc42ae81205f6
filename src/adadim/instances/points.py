"""Arms drawn at random in R^d: sphere, ball, anisotropic Gaussian, and clicks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from adadim.backend.arrays import FloatArray
from adadim.checks import not_negative
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.instances.parameters import Theta, check_sizes, linear_instance, parameter, with_base_rate
from adadim.randomness import Purpose, Streams

__all__ = ["anisotropic", "ball", "clicks", "sphere"]


def sphere(
    *,
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
    replications : sequence of int
        Replication numbers; number r gives the same arms whatever the others are.
    delay : Delay, int or table, optional
        How many rounds a reward takes to come, see `Delay`; by default it comes at once.
    seed : int
        Seed of the arms.
    expressive : bool
        Close the set under truncation (Assumption 1 of the paper, restricted to `levels`).
    levels : sequence of int, optional
        Truncation levels of the closure; `expressive_levels` by default.

    Returns
    -------
    Instance

    Examples
    --------
    >>> instance = sphere(arms=50, dim=20, intrinsic_dim=3, horizon=100, replications=range(2))
    >>> instance.means.shape
    (2, 50)
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    draw = Streams(seed, Purpose.INSTANCE, replications)
    base = np.empty((len(replications), arms, dim))
    for rows, generator in zip(base, draw.generators, strict=True):
        _fill_unit_rows(generator, rows)
    vector = parameter(theta, intrinsic_dim, dim)
    return linear_instance(base, vector, horizon, noise, replications, delay, expressive=expressive, levels=levels)


def ball(
    *,
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
    """Arms drawn uniformly from the unit ball; parameters as in `sphere`.

    Examples
    --------
    >>> instance = ball(arms=50, dim=3, intrinsic_dim=3, horizon=100)
    >>> bool((instance.problem.actions.squared_norms() < 1).all())
    True
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    draw = Streams(seed, Purpose.INSTANCE, replications)
    base = np.empty((len(replications), arms, dim))
    for rows, generator in zip(base, draw.generators, strict=True):
        _fill_unit_rows(generator, rows)
        rows *= generator.random((arms, 1)) ** (1 / dim)
    vector = parameter(theta, intrinsic_dim, dim)
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
    replications: Sequence[int] = range(1),
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
    replications = check_sizes(replications, arms=arms, dim=dim)
    not_negative(decay, "decay")
    draw = Streams(seed, Purpose.INSTANCE, replications)
    base = np.empty((len(replications), arms, dim))
    scales = np.arange(1.0, dim + 1) ** -decay
    for rows, generator in zip(base, draw.generators, strict=True):
        generator.standard_normal(out=rows)
        rows *= scales
        rows /= np.sqrt(np.vecdot(rows, rows).max())
    return linear_instance(base, parameter(theta, intrinsic_dim, dim), horizon, noise, replications, delay)


def clicks(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    theta: Theta = "uniform",
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Clicks: Bernoulli rewards whose probability is linear in the features.

    The first feature is the constant 1/sqrt(2) (the base rate), the others a point of the sphere of radius
    1/sqrt(2); theta is built alike, so the click probability is 1/2 + <z, t>/2 with unit vectors z and t.
    `intrinsic_dim` counts the constant, hence is at least 2.

    Examples
    --------
    >>> instance = clicks(arms=50, dim=10, intrinsic_dim=3, horizon=100)
    >>> instance.rewards, instance.problem.noise
    ('bernoulli', 0.5)
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    vector = with_base_rate(theta, intrinsic_dim, dim)
    draw = Streams(seed, Purpose.INSTANCE, replications)
    base = np.full((len(replications), arms, dim), 1 / math.sqrt(2))
    for rows, generator in zip(base, draw.generators, strict=True):
        points = np.empty((arms, dim - 1))
        _fill_unit_rows(generator, points)
        rows[:, 1:] *= points
    return Instance(base, theta=vector, horizon=horizon, rewards="bernoulli", replications=replications, delay=delay)


def _fill_unit_rows(generator: np.random.Generator, rows: FloatArray) -> None:
    """Overwrite `rows` with points drawn uniformly from the unit sphere."""
    generator.standard_normal(out=rows)
    rows /= np.sqrt(np.vecdot(rows, rows))[:, None]
