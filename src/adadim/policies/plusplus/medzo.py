"""MeDZO (Hadiji 2019): MOSS on ever wider cells of [0, 1], remembering by mixture-arms; the ancestor of the idea."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.core.arrays import Array, like, namespace
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.policies.base import Learner
from adadim.policies.plusplus.iterations import Solver
from adadim.policies.plusplus.mosspp import IteratedMOSS, IteratedMOSSLearner, MOSSSolver
from adadim.theory import Iteration


@dataclass(frozen=True)
class MeDZO(IteratedMOSS):
    """Adapt to the unknown smoothness of a reward function on [0, 1], whose points the arms are, in their order.

    Iterations of doubling length play MOSS on halving numbers of cells, a cell being played at a uniform point of it;
    each leaves behind a mixture-arm, which replays what it did. Use it when neighbouring arms have similar means and
    nobody knows how similar. For arms without an order there is `MOSSPlusPlus`, for features `LinUCBPlusPlus`.

    Parameters
    ----------
    beta : float in [0.5, 1)
        Where on the Pareto frontier to be: B = T^beta.
    scale : float, optional
        Factor on the width of cells and mixture-arms alike; by default twice their sub-Gaussian scale, for which the
        spread of means counts too: sqrt(sigma^2 + (range/2)^2) with the range of all means where it is known, and the
        spread of the rewards that made it for a mixture-arm where it is not. 1 for rewards in [0, 1].
    ties
        As in `MOSS`.

    Notes
    -----
    For means that are a-Hoelder with constant L the regret is at most 412 log2(B)^(3/2) max(B, T L^(1/(a+1))
    B^(-a/(a+1))) for all a and L at once. Everything but the form of the schedule is unverified: the
    412, the constant in MOSS (here that of `MOSSPlusPlus`), and which point of a cell is played. T must be known.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.interval(arms=500, horizon=1000)
    >>> outcome = adadim.simulate(adadim.MeDZO(scale=1.0), instance)
    >>> outcome.learner.describe()[0]["cells"]
    4
    """

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return MeDZOLearner(self, problem, streams)


class MeDZOLearner(IteratedMOSSLearner):
    """State of `MeDZO`."""

    def __init__(self, policy: MeDZO, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.point_streams = streams.child(self.schedule.p + 1)
        if policy.scale is None and problem.reward_range is not None:
            # A cell is played at a random point, so its rewards spread as a mixture's do.
            spread = 2.0 * np.sqrt(problem.noise**2 + (problem.reward_range / 2) ** 2)
            self.noise = like(spread, problem.reference)[:, None]

    def make_solver(self, iteration: Iteration) -> Solver:
        return CellSolver(self, iteration, self.sizes()[iteration.index - 1], iteration.length)

    def finish(self, i: int, rows: Rows) -> None:
        # The memory is of cells, not of the points that happened to be played in them.
        real, index = self.problem.arms, rows.index
        self.counts[index, :real] = spread_over_cells(self.counts[index, :real], self.sizes()[i])
        super().finish(i, rows)

    def descriptions(self) -> list[dict[str, Any]]:
        rows = super().descriptions()
        for row in rows:
            row["cells"] = row.pop("arms_in_play")
        return rows


def cell_starts(arms: int, cells: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """First arm of each of the cells [k/K, (k+1)/K), and `arms` after the last."""
    return -(-np.arange(cells + 1) * arms // cells)


def spread_over_cells(counts: Array, cells: int) -> Array:
    """Counts of arms with those of each cell spread evenly over its arms."""
    xp, arms = namespace(counts), counts.shape[-1]
    starts = cell_starts(arms, cells)
    sizes = np.diff(starts)
    totals = xp.cumulative_sum(counts, axis=-1)
    totals = xp.concat([totals[:, :1] * 0.0, totals], axis=-1)[:, like(starts, counts)]
    means = (totals[:, 1:] - totals[:, :-1]) / like(sizes.astype(float), counts)
    return means[:, like(np.repeat(np.arange(cells), sizes), counts)]


class CellSolver(MOSSSolver):
    """MOSS on the cells of one iteration and the mixture-arms so far."""

    def __init__(self, learner: MeDZOLearner, iteration: Iteration, count: int, horizon: int) -> None:
        super().__init__(learner, iteration, count, horizon)
        self.point_streams, self.rounds = learner.point_streams, learner.problem.horizon
        starts = cell_starts(learner.problem.arms, count)
        self.starts = like(starts[:-1].copy(), learner.problem.reference)
        self.widths = like(np.diff(starts).astype(float), learner.problem.reference)

    def arms(self, local: Array, rows: Rows) -> Array:
        """A uniform point of each cell."""
        xp, uniforms = namespace(self.starts), self.point_streams.source(self.rounds).uniforms(rows)
        return self.starts[local] + xp.astype(xp.floor(uniforms * self.widths[local]), xp.int64)
