"""Greedy: the arm that looks best, without exploration."""

from __future__ import annotations

from dataclasses import dataclass, field

from adadim.core.codec import ADDED_LATER
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.ties import Ties
from adadim.policies.base import Learner, Policy
from adadim.policies.linear.linucb import LinUCB
from adadim.policies.parameters import Dim, HalfLife, Ridge


@dataclass(frozen=True)
class Greedy(Policy):
    """Pull the arm with the largest ridge estimate (`LinUCB` with radius 0).

    A baseline: cheap, often good when arms are diverse, and stuck for ever on an early mistake otherwise (no
    sublinear guarantee).

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    ties : {"random", "lowest"}
        How equal scores are resolved.
    memory : float, optional
        Half-life in decisions, as in `LinUCB`.

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
        linucb = LinUCB(ridge=self.ridge, dim=self.dim, radius=0.0, ties=self.ties, memory=self.memory)
        return linucb.learner(problem, streams)
