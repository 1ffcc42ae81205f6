"""What generators share: the reward parameter, the truncation levels, checks of sizes, random generators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from adadim import theory
from adadim.core.actions import ActionSet
from adadim.core.arrays import FloatArray
from adadim.core.checks import check_fits, flag, integer, is_integer, require
from adadim.core.randomness import Purpose, Streams, check_replications
from adadim.errors import InvalidValueError
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance

Theta = Literal["uniform", "decay", "flip", "spike", "heavy"]


def parameter(shape: Theta, intrinsic_dim: int, dim: int) -> FloatArray:
    """Reward parameter of norm 1, zero after its first `intrinsic_dim` entries.

    "uniform" has equal entries, "decay" entries proportional to 1/sqrt(j), "flip" those in reverse order, "spike" a
    single one at position `intrinsic_dim`, and "heavy" entries proportional to 1/j: with ``intrinsic_dim=dim`` a tail
    that no truncation gets rid of, while the first features say most.

    Examples
    --------
    >>> parameter("spike", 2, 4)
    array([0., 1., 0., 0.])
    """
    check_fits(16 * integer(dim, "dim"), dim=dim)
    integer(intrinsic_dim, "intrinsic_dim", most=dim, meaning="the number of features")
    index = np.arange(1, intrinsic_dim + 1)
    shapes = {
        "uniform": np.ones(intrinsic_dim),
        "decay": 1 / np.sqrt(index),
        "flip": 1 / np.sqrt(index[::-1]),
        "spike": (index == intrinsic_dim).astype(float),
        "heavy": 1 / index,
    }
    is_shape = isinstance(shape, str) and shape in shapes
    require(is_shape, "theta", f"be one of {', '.join(map(repr, shapes))}", shape)
    vector = np.zeros(dim)
    vector[:intrinsic_dim] = shapes[shape] / np.linalg.norm(shapes[shape])
    return vector


def with_base_rate(shape: Theta, intrinsic_dim: int, dim: int) -> FloatArray:
    """Parameter of clicks: 1/sqrt(2) for the constant feature, and `parameter` for the others, divided by sqrt(2)."""
    check_beyond_constant(intrinsic_dim, dim)
    rest = parameter(shape, intrinsic_dim - 1, dim - 1) / math.sqrt(2)
    return np.concatenate([[1 / math.sqrt(2)], rest])


def check_beyond_constant(intrinsic_dim: int, dim: int) -> None:
    """Raise unless more features matter than the constant, the first."""
    ok = is_integer(intrinsic_dim) and 2 <= intrinsic_dim <= dim
    require(ok, "intrinsic_dim", f"be in 2..{dim} (the constant counts)", intrinsic_dim)


def expressive_levels(horizon: int, dim: int, beta: float = 0.5) -> list[int]:
    """Truncation levels of the paper's expressive experiments: 8, 16, ... as far as LinUCB++ uses them, then d.

    Examples
    --------
    >>> expressive_levels(2500, 400)
    [8, 16, 32, 64, 128, 400]
    """
    top = min(theory.schedule(horizon, beta, dim).p + 1, int(math.log2(dim)))
    return sorted({2**j for j in range(3, top + 1)} | {dim})


def linear_instance(
    base: FloatArray,
    vector: FloatArray,
    horizon: int,
    noise: float,
    replications: Sequence[int],
    delay: DelayLike = None,
    *,
    expressive: bool = False,
    levels: Sequence[int] | None = None,
) -> Instance:
    """Instance with the rows of `base` as arms, closed under truncation if asked for, and `vector` as theta."""
    if levels is not None and not flag(expressive, "expressive"):
        raise InvalidValueError("levels are the truncation levels of an expressive set: pass expressive=True with them")
    if flag(expressive, "expressive") and levels is None:
        levels = expressive_levels(horizon, base.shape[-1])
    actions = ActionSet(base, levels=levels)
    return Instance(actions, theta=vector, horizon=horizon, noise=noise, replications=replications, delay=delay)


def generators(seed: int, replications: Sequence[int]) -> list[np.random.Generator]:
    """What draws the instance of each replication."""
    return Streams(seed, Purpose.INSTANCE, replications).generators


def check_sizes(replications: Sequence[int], **sizes: int) -> tuple[int, ...]:
    """Return the replication numbers as ints, or say which size or number is wrong."""
    sizes = {name: integer(value, name) for name, value in sizes.items()}  # NumPy's small ones would overflow
    numbers = check_replications(replications)
    # Drawn, then laid out feature by feature; and what generators keep for each feature while they draw.
    cells = len(numbers) * sizes.get("arms", 1) * sizes.get("dim", 1)
    drawn = sizes.get("variables", 1) * (sizes.get("arms", 1) + sizes.get("dim", 1))
    check_fits(16 * cells + 8 * drawn + (200 * sizes.get("dim", 1) if len(sizes) > 2 else 0), **sizes)
    return numbers
