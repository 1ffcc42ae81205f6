"""The family of problems behind the paper's Theorem 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adadim import theory
from adadim.backend.memory import check_fits
from adadim.checks import is_integer, shown
from adadim.errors import InvalidValueError
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.randomness import check_replications

__all__ = ["lower_bound"]


def lower_bound(
    *,
    horizon: int,
    alpha: float,
    alpha_easy: float = 0.0,
    budget: float | None = None,
    delta: float | None = None,
    target: int = 0,
    intrinsic_dim: int | None = None,
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
) -> Instance:
    """One member of the family behind the paper's Theorem 1.

    Parameters
    ----------
    horizon, alpha, alpha_easy, budget, delta
        As in `adadim.theory.lower_bound_family`.
    target : int
        Which reward vector: 0 is the easy problem, i >= 1 hides a better arm i.
    intrinsic_dim : int, optional
        The d* of that member, floor(T^alpha_easy) for target 0 and Kl + i for target i. It changes nothing: in a
        study it is what ``"@intrinsic_dim"`` tells an oracle, and it is checked.
    replications, delay
        As in `sphere`.

    Notes
    -----
    Every member tells the policy the same range of means, Delta. The true ranges, Delta/2 for target 0 and Delta
    for the others, would give away which member it is, and the lower bound is about policies that cannot know.

    Examples
    --------
    >>> easy = lower_bound(horizon=2500, alpha=0.5)
    >>> hard = lower_bound(horizon=2500, alpha=0.5, target=7, intrinsic_dim=32)
    >>> int(easy.means.argmax()), int(hard.means.argmax())
    (0, 7)
    """
    family = theory.lower_bound_family(horizon, alpha, alpha_easy=alpha_easy, budget=budget, delta=delta)
    check_fits(8 * 4 * (family.arms_count + 1) * family.dim, horizon=family.horizon)
    if not is_integer(target) or not 0 <= target <= family.arms_count:
        raise InvalidValueError(f"target must be in 0..{family.arms_count}, got {shown(target)}")
    theta = family.thetas[target]
    true_dim = int(np.flatnonzero(theta)[-1]) + 1
    if intrinsic_dim is not None and not (is_integer(intrinsic_dim) and intrinsic_dim == true_dim):
        raise InvalidValueError(
            f"intrinsic_dim must be {true_dim}, the d* of target {target}, got {shown(intrinsic_dim)}"
        )
    numbers = check_replications(replications)
    shared = np.broadcast_to(family.features, (len(numbers), *family.features.shape))
    return Instance(
        shared,
        theta=theta,
        horizon=horizon,
        noise=family.noise,
        reward_range=family.delta,
        replications=numbers,
        delay=delay,
    )
