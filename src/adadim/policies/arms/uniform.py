"""Random: every arm with equal probability."""

from __future__ import annotations

from dataclasses import dataclass

from adadim.core.arrays import Array
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.models.moments import Moments
from adadim.policies.base import Learner, Memo, Policy


@dataclass(frozen=True)
class Random(Policy):
    """Pull an arm uniformly at random, whatever was seen.

    The floor that every learner should beat.

    Notes
    -----
    Its mean regret is T (mu* - mean of mu).

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=5, intrinsic_dim=2, horizon=20)
    >>> adadim.simulate(adadim.Random(), instance).regret.shape
    (1, 20)
    """

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return RandomLearner(problem, streams)


class RandomLearner(Learner):
    """State of `Random`: nothing but its random numbers."""

    fixed_operations = True
    takes_new_arms = True
    no_contexts = ""
    no_disjoint = ""
    contexts_on_devices = True

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        xp, draws = self.xp, self.draws.uniforms(rows)
        if rows.allowed is None:
            offered = None if self.problem.disjoint else rows.features
            arms = self.problem.arms if offered is None else offered.shape[1]
            return xp.astype(draws * arms, xp.int64), {}
        rank = xp.cumulative_sum(xp.astype(rows.allowed, xp.int64), axis=-1)
        wanted = xp.astype(draws * rank[:, -1], xp.int64) + 1
        return xp.argmax(xp.astype(rank >= wanted[:, None], xp.int64), axis=-1), {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        return

    def restart(self, sums: Moments) -> None:
        """Nothing: it does not learn."""

    def expect_features(self, features: Array) -> None:
        """Nothing, likewise."""
