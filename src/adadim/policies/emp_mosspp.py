"""empMOSS++ (Zhu and Nowak 2020): MOSS++ that keeps its data and goes on with the arms that look best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adadim.backend.arrays import Array, as_numpy, clamp, indices, like
from adadim.backend.rows import Rows
from adadim.policies.base import Learner, Memo
from adadim.policies.iterations import Solver
from adadim.policies.mosspp import IteratedMOSS, IteratedMOSSLearner, MOSSSolver
from adadim.problem import Problem
from adadim.randomness import Streams
from adadim.theory import Iteration

__all__ = ["EmpMOSSPlusPlus"]

FEWEST = 4


@dataclass(frozen=True)
class EmpMOSSPlusPlus(IteratedMOSS):
    """MOSS++ in practice: an iteration goes on with the better half of the arms, and forgets nothing.

    As `MOSSPlusPlus`, but the arms of the next iteration are those with the best empirical means (an arm never pulled
    counts as 0), their statistics and those of mixture-arms are kept, and the index has the time since the start as
    its horizon. Less regret than MOSS++ in its authors' experiments, and nothing is proved of it.

    Parameters
    ----------
    beta : float in [0.5, 1)
        Where on the Pareto frontier to be, as in `MOSSPlusPlus`.
    scale : float, optional
        Factor on the width, as in `MOSSPlusPlus`.
    ties : {"random", "lowest"}
        How equal scores are resolved, and equal means when arms are ranked.

    Notes
    -----
    No guarantee. The ranking is of all arms, so where rewards may be negative, arms never pulled come before those
    with a negative mean. T and the scale of the noise must be known.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.many_best(arms=500, alpha=0.2, horizon=600)
    >>> outcome = adadim.simulate(adadim.EmpMOSSPlusPlus(), instance)
    >>> outcome.learner.describe()[0]["arms_in_play"]
    8
    """

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return EmpMOSSPlusPlusLearner(self, problem, streams)


class EmpMOSSPlusPlusLearner(IteratedMOSSLearner):
    """State of `EmpMOSSPlusPlus`: besides that of MOSS++, what is known of every arm and mixture-arm."""

    def __init__(self, policy: EmpMOSSPlusPlus, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        width = problem.arms + self.schedule.p
        self.known_pulls, self.known_sums = self.zeros(width), self.zeros(width)

    def sizes(self) -> Sequence[int]:
        """K_1 arms, then half of the current number, at least 4."""
        made = [self.schedule.dims[0]]
        while len(made) < self.schedule.p:
            made.append(min(max(made[-1] // 2, FEWEST), self.problem.arms))
        return made

    def make_solver(self, iteration: Iteration) -> Solver:
        # T_h: time since the start, at most T.
        since = min(sum(self.schedule.lengths[: iteration.index]), self.problem.horizon)
        solver = MOSSSolver(self, iteration, self.sizes()[iteration.index - 1], since)
        if iteration.index == 1:
            solver.sample[...] = self.sampled(1, solver.count)
        return solver

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        # Credit goes to what was chosen: a mixture-arm, not the arm that it drew.
        rows.add(self.known_pulls, memo["choice"], 1.0)
        rows.add(self.known_sums, memo["choice"], rewards)
        super().absorb(arms, rewards, rows, memo)

    def finish(self, i: int, rows: Rows) -> None:
        super().finish(i, rows)
        if i + 1 < len(self.schedule.iterations):
            following = self.solver(i + 1)
            assert isinstance(following, MOSSSolver)
            self._inherit(following, rows)

    def _inherit(self, solver: MOSSSolver, rows: Rows) -> None:
        """Start `rows` of an iteration from the arms with the best means, and all that is known of them."""
        real = self.problem.arms
        pulls, sums = rows.of(self.known_pulls), rows.of(self.known_sums)
        means = as_numpy(sums[:, :real] / clamp(pulls[:, :real], 1.0))
        if self.policy.ties == "random":
            table = self.streams.child(1 + solver.virtual).table(real)
            keys = table[rows.ids]
        else:
            keys = np.broadcast_to(np.arange(real), means.shape)
        order = np.stack([np.lexsort((key, -mean)) for key, mean in zip(keys, means, strict=True)])
        sample = like(order[:, : solver.count].copy(), self.problem.reference)
        rows.put(solver.sample, sample)
        mixtures = like(np.arange(real, real + solver.virtual), self.problem.reference)
        kept = self.xp.concat([sample, 0 * sample[:, :1] + mixtures], axis=-1)
        each = indices(sample)[:, None]
        rows.put(solver.pulls, pulls[each, kept])
        rows.put(solver.sums, sums[each, kept])
