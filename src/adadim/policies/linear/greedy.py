"""Greedy: the arm that looks best, without exploration."""

from __future__ import annotations

from dataclasses import dataclass, field

from adadim.core.codec import ADDED_LATER
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.policies.base import Learner, Policy
from adadim.policies.linear.linucb import linucb_of
from adadim.policies.parameters import Dim, HalfLife, Ridge, Ties


@dataclass(frozen=True)
class Greedy(Policy):
    """Pull the arm with the largest ridge estimate (`LinUCB` with radius 0).

    A baseline: cheap, often good when arms are diverse, and stuck for ever on an early mistake otherwise (no
    sublinear guarantee).

    Notes
    -----
    Nothing is proved of it: where arms are few or alike its regret can grow like T.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.Greedy(ties="lowest").start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    >>> learner.select()
    0
    """

    ridge: Ridge = 0.1
    dim: Dim | None = None
    ties: Ties = "random"
    memory: HalfLife | None = field(default=None, metadata=ADDED_LATER)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return linucb_of(self, radius=0.0).learner(problem, streams)
