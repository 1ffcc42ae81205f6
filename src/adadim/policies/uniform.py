"""Random: every arm with equal probability."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from adadim.arrays import Array, Rows
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
    takes_masks = True

    def __init__(self, problem: Problem, streams: Streams) -> None:
        super().__init__(problem)
        self._draws = streams.beside(problem.actions.base, problem.horizon)

    def _select(self, rows: Rows) -> Array:
        return self.xp.astype(self._draws.uniforms(rows) * self.problem.arms, self.xp.int64)

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        return

    def _phase(self) -> Hashable:
        return type(self).__name__
