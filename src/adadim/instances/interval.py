"""Arms on a grid of [0, 1], with a mean reward that is smooth in their position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adadim.checks import between, positive
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.instances.parameters import check_sizes
from adadim.randomness import Purpose, Streams

__all__ = ["interval"]


def interval(
    *,
    arms: int,
    horizon: int,
    smoothness: float = 1.0,
    steepness: float = 1.0,
    top: float = 0.9,
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Bernoulli rewards with mean max(top - steepness |x - x*|^smoothness, 0) at the points of a grid on [0, 1].

    Parameters
    ----------
    arms, horizon : int
        Number of points and of rounds; arm k of K is the point (k + 1/2) / K.
    smoothness : float in (0, 1]
        Hoelder exponent of the mean reward.
    steepness : float
        Its Hoelder constant L.
    top : float
        Mean reward at x*, which is drawn uniformly from the points in each replication.
    replications, seed, delay
        As in `sphere`.

    Examples
    --------
    >>> instance = interval(arms=100, horizon=500, smoothness=0.5)
    >>> float(instance.best[0]), instance.problem.dim
    (0.9, 1)
    """
    replications = check_sizes(replications, arms=arms, horizon=horizon)
    between(smoothness, "smoothness", 0, 1, "(]")
    positive(steepness, "steepness", "the Hoelder constant, e.g. 1")
    between(top, "top", 0, 1)
    points = (np.arange(arms) + 0.5) / arms
    draw = Streams(seed, Purpose.INSTANCE, replications)
    best = np.array([points[generator.integers(arms)] for generator in draw.generators])
    means = np.maximum(top - steepness * np.abs(points - best[:, None]) ** smoothness, 0.0)
    features = np.broadcast_to(points[None, :, None], (len(replications), arms, 1))
    return Instance(features, means=means, horizon=horizon, rewards="bernoulli", replications=replications, delay=delay)
