"""Arms that arrive while the problem is played."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from adadim.actions import ActionSet
from adadim.checks import integer
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.instances.parameters import Theta, check_sizes, parameter
from adadim.instances.points import sphere

__all__ = ["growing"]


def growing(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    first: int = 5,
    best: int = 1,
    noise: float = 0.1,
    theta: Theta = "uniform",
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Arms of `sphere` that arrive one after the other: sets that only grow, as in the paper's remark.

    Parameters
    ----------
    arms, dim, intrinsic_dim, horizon, noise, theta, replications, seed, delay
        As in `sphere`; the arms are the same, in another order.
    first : int
        Number of arms that are there from the start. The others arrive at even distances over the horizon; with
        `first` of at least `arms` all are there.
    best : int
        Round in which the best arm arrives, or the next in which one does, or else the last; 1 for one that is there
        from the start, which the guarantee of `LinUCBPlusPlus` needs.

    Returns
    -------
    Instance

    Examples
    --------
    >>> instance = growing(arms=6, dim=4, intrinsic_dim=2, horizon=100, first=2)
    >>> instance.problem.arrives
    array([[ 1,  1, 20, 40, 60, 80]])
    >>> late = growing(arms=6, dim=4, intrinsic_dim=2, horizon=100, first=2, best=50)
    >>> int(late.means.argmax()), bool(late.late[0] > 0)
    (4, True)
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    horizon = integer(horizon, "horizon", meaning="the number of rounds")
    first = min(integer(first, "first", meaning="the number of arms there from the start"), arms)
    later = arms - first
    # Arrivals at T/(n+1), 2T/(n+1), ...: rounds 2 to T.
    rounds = [max(2, horizon * (i + 1) // (later + 1)) for i in range(later)]
    arrives = np.array([1] * first + rounds)
    wanted = min(integer(best, "best", meaning="a round in which an arm arrives"), int(arrives[-1]))
    given = sphere(
        arms=arms,
        dim=dim,
        intrinsic_dim=intrinsic_dim,
        horizon=horizon,
        noise=noise,
        theta=theta,
        replications=replications,
        seed=seed,
    )
    place = int(np.argmax(arrives >= wanted))
    base = np.array(given.problem.actions.base)
    for rows, leading in zip(base, given.means.argmax(axis=1).tolist(), strict=True):
        rows[[place, leading]] = rows[[leading, place]]
    return Instance(
        ActionSet(base),
        theta=parameter(theta, intrinsic_dim, dim),
        horizon=horizon,
        noise=noise,
        replications=replications,
        arrives=arrives,
        delay=delay,
        slack=math.inf,
    )
