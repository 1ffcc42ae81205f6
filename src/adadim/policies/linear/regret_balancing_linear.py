"""Regret Balancing as a linear bandit (Abbasi-Yadkori, Pacchiano and Phan 2020): every arm is a base of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from adadim.core.arrays import Array, clamp, namespace
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.ties import Ties
from adadim.models import Form
from adadim.policies.base import Learner, Policy
from adadim.policies.confidence import Radius
from adadim.policies.linear.linucb import LinUCB
from adadim.policies.parameters import Dim, RadiusScale, Ridge, ThetaNorm


@dataclass(frozen=True)
class RegretBalancingLinear(Policy):
    """Pull the arm whose gap to the optimistic best value is smallest in units of its squared width.

    With b the largest upper value of any arm, the arm with the least (b - mean) / width^2 is pulled: 1 / width^2 plays
    the part of a number of pulls, so this balances the empirical regrets of the arms. It explores more evenly than
    `LinUCB`, which has the better bound; use it to compare.

    Parameters
    ----------
    ridge, dim, radius, scale, theta_norm, form, ties
        As in `LinUCB`. The default "oful" has the factor 2 under the root that the source's formula lacks.

    Notes
    -----
    Regret O~(d^(3/2) sqrt(T)) for rewards linear in the features used, norms of at most 1 and sub-Gaussian noise of
    known scale.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> policy = adadim.RegretBalancingLinear(ridge=1.0, radius=1.0)
    >>> learner = policy.start(adadim.Problem([[1.0, 0.0], [0.0, 0.9]], horizon=9, noise=0.1))
    >>> learner.select()  # (1 - 0) / 1 is less than (1 - 0) / 0.81
    0
    """

    ridge: Ridge = 0.1
    dim: Dim | None = None
    radius: Radius = "oful"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    form: Form = "auto"
    ties: Ties = "random"

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        # All its parameters are LinUCB's, and so is it but for the score of an arm.
        return _Balanced(**vars(self)).learner(problem, streams)


def empirical_regrets(mean: Array, width2: Array, radius: Array) -> tuple[Array, Array]:
    """The optimistic best value b (n,), and (b - mean) / width^2 of every arm (n, K); an arm of width 0 has much."""
    xp = namespace(mean)
    best = xp.max(mean + radius * xp.sqrt(width2), axis=-1)
    return best, (best[:, None] - mean) / clamp(width2, 1e-300)


@dataclass(frozen=True)
class _Balanced(LinUCB):
    """LinUCB whose score is minus the empirical regret."""

    def scores(self, mean: Array, width2: Array, radius: Array, pulls: Callable[[], Array]) -> Array:
        return -empirical_regrets(mean, width2, radius)[1]
