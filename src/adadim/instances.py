"""Generators of instances: the paper's environments and its lower-bound family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from adadim import theory
from adadim.actions import ActionSet
from adadim.problem import Instance
from adadim.randomness import Purpose, Streams, check_replications

__all__ = ["ball", "clicks", "expressive_levels", "lower_bound", "parameter", "sphere"]

Theta = Literal["uniform", "decay", "flip", "spike"]
FloatArray = np.ndarray[Any, np.dtype[np.float64]]


def sphere(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] = range(1),
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
    theta : {"uniform", "decay", "flip", "spike"}
        Shape of the reward parameter, see `parameter`.
    replications : sequence of int
        Replication numbers; number r gives the same arms whatever the others are.
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
    replications = _check_sizes(arms, dim, replications)
    draw = Streams(seed, Purpose.INSTANCE, replications)
    base = np.empty((len(replications), arms, dim))
    for rows, generator in zip(base, draw.generators, strict=True):
        _fill_unit_rows(generator, rows)
    return _instance(
        base, dim, intrinsic_dim, horizon, noise, theta, replications, expressive=expressive, levels=levels
    )


def ball(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] = range(1),
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
    replications = _check_sizes(arms, dim, replications)
    draw = Streams(seed, Purpose.INSTANCE, replications)
    base = np.empty((len(replications), arms, dim))
    for rows, generator in zip(base, draw.generators, strict=True):
        _fill_unit_rows(generator, rows)
        rows *= generator.random((arms, 1)) ** (1 / dim)
    return _instance(
        base, dim, intrinsic_dim, horizon, noise, theta, replications, expressive=expressive, levels=levels
    )


def clicks(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    theta: Theta = "uniform",
    replications: Sequence[int] = range(1),
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
    replications = _check_sizes(arms, dim, replications)
    if not 2 <= intrinsic_dim <= dim:
        raise ValueError(f"intrinsic_dim must be in 2..{dim} (the constant counts), got {intrinsic_dim!r}")
    draw = Streams(seed, Purpose.INSTANCE, replications)
    base = np.full((len(replications), arms, dim), 1 / math.sqrt(2))
    for rows, generator in zip(base, draw.generators, strict=True):
        points = np.empty((arms, dim - 1))
        _fill_unit_rows(generator, points)
        rows[:, 1:] *= points
    rest = parameter(theta, intrinsic_dim - 1, dim - 1) / math.sqrt(2)
    vector = np.concatenate([[1 / math.sqrt(2)], rest])
    return Instance(base, theta=vector, horizon=horizon, rewards="bernoulli", replications=replications)


def lower_bound(
    *,
    horizon: int,
    alpha: float,
    alpha_easy: float = 0.0,
    budget: float | None = None,
    delta: float | None = None,
    target: int = 0,
    replications: Sequence[int] = range(1),
) -> Instance:
    """One member of the family behind the paper's Theorem 1.

    Parameters
    ----------
    horizon, alpha, alpha_easy, budget, delta
        As in `adadim.theory.lower_bound_family`.
    target : int
        Which reward vector: 0 is the easy problem, i >= 1 hides a better arm i.

    Notes
    -----
    Every member tells the policy the same range of means, Delta. The true ranges, Delta/2 for target 0 and Delta
    for the others, would give away which member it is, and the lower bound is about policies that cannot know.

    Examples
    --------
    >>> easy = lower_bound(horizon=2500, alpha=0.5)
    >>> hard = lower_bound(horizon=2500, alpha=0.5, target=7)
    >>> int(easy.means.argmax()), int(hard.means.argmax())
    (0, 7)
    """
    family = theory.lower_bound_family(horizon, alpha, alpha_easy=alpha_easy, budget=budget, delta=delta)
    if not 0 <= target < len(family.thetas):
        raise ValueError(f"target must be in 0..{len(family.thetas) - 1}, got {target!r}")
    numbers = check_replications(replications)
    shared = np.broadcast_to(family.features, (len(numbers), *family.features.shape))
    return Instance(
        shared,
        theta=family.thetas[target],
        horizon=horizon,
        noise=family.noise,
        reward_range=family.delta,
        replications=numbers,
    )


def parameter(shape: Theta, intrinsic_dim: int, dim: int) -> FloatArray:
    """Reward parameter of norm 1, zero after its first `intrinsic_dim` entries.

    "uniform" has equal entries, "decay" entries proportional to 1/sqrt(j), "flip" those in reverse order, and
    "spike" a single one at position `intrinsic_dim`.

    Examples
    --------
    >>> parameter("spike", 2, 4)
    array([0., 1., 0., 0.])
    """
    if isinstance(intrinsic_dim, bool) or not isinstance(intrinsic_dim, int | np.integer):
        raise ValueError(f"intrinsic_dim must be an integer, got {intrinsic_dim!r}")
    if not 1 <= intrinsic_dim <= dim:
        raise ValueError(f"intrinsic_dim must be in 1..{dim} (the number of features), got {intrinsic_dim!r}")
    index = np.arange(1, intrinsic_dim + 1)
    shapes = {
        "uniform": np.ones(intrinsic_dim),
        "decay": 1 / np.sqrt(index),
        "flip": 1 / np.sqrt(index[::-1]),
        "spike": (index == intrinsic_dim).astype(float),
    }
    if shape not in shapes:
        raise ValueError(f"theta must be one of {', '.join(map(repr, shapes))}, got {shape!r}")
    vector = np.zeros(dim)
    vector[:intrinsic_dim] = shapes[shape] / np.linalg.norm(shapes[shape])
    return vector


def expressive_levels(horizon: int, dim: int, beta: float = 0.5) -> list[int]:
    """Truncation levels of the paper's expressive experiments: 8, 16, ... as far as LinUCB++ uses them, then d.

    Examples
    --------
    >>> expressive_levels(2500, 400)
    [8, 16, 32, 64, 128, 400]
    """
    top = min(theory.schedule(horizon, beta, dim).p + 1, int(math.log2(dim)))
    return sorted({2**j for j in range(3, top + 1)} | {dim})


def _instance(
    base: FloatArray,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float,
    theta: Theta,
    replications: Sequence[int],
    *,
    expressive: bool,
    levels: Sequence[int] | None,
) -> Instance:
    vector = parameter(theta, intrinsic_dim, dim)
    if levels is not None and not expressive:
        raise ValueError("levels are the truncation levels of an expressive set: pass expressive=True with them")
    if expressive and levels is None:
        levels = expressive_levels(horizon, dim)
    actions = ActionSet(base, levels=levels)
    return Instance(actions, theta=vector, horizon=horizon, noise=noise, replications=replications)


def _fill_unit_rows(generator: np.random.Generator, rows: FloatArray) -> None:
    """Overwrite `rows` with points drawn uniformly from the unit sphere."""
    generator.standard_normal(out=rows)
    rows /= np.sqrt(np.vecdot(rows, rows))[:, None]


def _check_sizes(arms: int, dim: int, replications: Sequence[int]) -> tuple[int, ...]:
    for name, value in (("arms", arms), ("dim", dim)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return check_replications(replications)
