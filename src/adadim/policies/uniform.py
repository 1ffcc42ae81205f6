"""Random: every arm with equal probability."""

from __future__ import annotations

from dataclasses import dataclass

from adadim.arrays import Array, Rows, like
from adadim.policies.base import Learner, Policy
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["Random"]


@dataclass(frozen=True)
class Random(Policy):
    """Pull an arm uniformly at random, whatever was seen.

    The floor that every learner should beat; regret T (mu* - mean of mu).

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=5, intrinsic_dim=2, horizon=20)
    >>> adadim.simulate(adadim.Random(), instance).regret.shape
    (1, 20)
    """

    def _start(self, problem: Problem, streams: Streams) -> Learner:
        return _RandomLearner(problem, streams)


class _RandomLearner(Learner):
    def __init__(self, problem: Problem, streams: Streams) -> None:
        super().__init__(problem)
        self._streams = streams

    def _select(self, rows: Rows) -> Array:
        drawn = (self._streams.uniforms(rows) * self.problem.arms).astype(int)
        return like(drawn, self.problem.actions.base)

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        return
