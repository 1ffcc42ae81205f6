"""Arms that have nothing to do with each other: many of them, some of which are best."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from adadim.checks import between, numbers, shown
from adadim.errors import InvalidValueError
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.instances.parameters import check_sizes
from adadim.randomness import Purpose, Streams

__all__ = ["many_best"]


def many_best(
    *,
    arms: int,
    horizon: int,
    alpha: float | None = None,
    share: float | None = None,
    top: float = 0.9,
    others: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5),
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Unrelated arms with Bernoulli rewards, of which several have the best mean (Zhu and Nowak 2020).

    Parameters
    ----------
    arms, horizon : int
        Number of arms n and of rounds T.
    alpha : float in [0, 1], optional
        Hardness level: ceil(n / (2 T^alpha)) arms are best. Give this or `share`.
    share : float in (0, 1], optional
        Share of the best arms; their number is rounded up.
    top : float
        Mean of the best arms.
    others : sequence of float
        Means of the other arms, each about equally often.
    replications, seed, delay
        As in `sphere`; they decide which arms are the best.

    Returns
    -------
    Instance
        All arms have the same single feature, which says nothing.

    Examples
    --------
    >>> instance = many_best(arms=20_000, horizon=50_000, alpha=0.25)
    >>> int((instance.means == 0.9).sum())
    669
    """
    replications = check_sizes(replications, arms=arms, horizon=horizon)
    if alpha is not None and share is None:
        count = math.ceil(arms / (2 * horizon ** between(alpha, "alpha", 0, 1)))
    elif share is not None and alpha is None:
        count = math.ceil(arms * between(share, "share", 0, 1, "(]") - 1e-9)  # 0.07 of 100 arms are 7
    else:
        raise InvalidValueError("give exactly one of alpha (the hardness level) and share (of best arms)")
    between(top, "top", 0, 1)
    others = numbers(others, "others")
    if not others or not all(0 <= mean <= top for mean in others):
        raise InvalidValueError(
            f"others must be means in [0, top] with top = {top:g}, the mean of the best arms, got {shown(others)}"
        )
    values = np.concatenate([np.full(count, float(top)), np.resize(np.array(others, dtype=float), arms - count)])
    draw = Streams(seed, Purpose.INSTANCE, replications)
    means = np.stack([generator.permutation(values) for generator in draw.generators])
    features = np.broadcast_to(np.ones((1, arms, 1)), (len(replications), arms, 1))
    return Instance(features, means=means, horizon=horizon, rewards="bernoulli", replications=replications, delay=delay)
