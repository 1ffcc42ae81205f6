"""MOSS where it is unknown how many arms are best, or how smooth their means are.

MOSS++ and empMOSS++ (Zhu and Nowak 2020) play MOSS in iterations on ever fewer arms, MeDZO (Hadiji 2019), the ancestor
of the idea, on ever wider cells of [0, 1], remembering by mixture-arms. Parallel (Zhu and Nowak 2020) runs copies of
MOSS on samples of many sizes, of which the best so far plays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, clamp, indices, like, namespace
from adadim.core.checks import finite
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.policies.arms import MOSS, ArmStatistics, MOSSScale, SampledMOSSLearner, moss_width, sampled_arms
from adadim.policies.base import Choice, Memo, Policy
from adadim.policies.masters.base import CountingMasterLearner
from adadim.policies.parameters import Beta, Ties
from adadim.policies.player import Solver, choose_largest
from adadim.policies.plusplus.iterations import IteratedLearner
from adadim.theory import Iteration

MIN_ARMS = 4  # in play of empMOSS++


@dataclass(frozen=True)
class IteratedMOSS(Policy):
    """Hyper-parameters of MOSS++ and its kin.

    Parameters
    ----------
    beta : float in [0.5, 1)
        Where on the Pareto frontier to be: the regret is of order T^max(beta, 1 + alpha - beta) for n/m <= 2 T^alpha.
    scale : float, optional
        Factor on the width of arms and mixture-arms alike, 1 for rewards in [0, 1]; by default twice the sub-Gaussian
        scale, which is sigma for arms and sqrt(sigma^2 + (range/2)^2) for mixture-arms (see `LinUCBPlusPlus`).
    ties : {"random", "lowest"}
        How equal scores are resolved.
    """

    uses_features = False

    beta: Beta = 0.5
    scale: MOSSScale | None = None
    ties: Ties = "random"


@dataclass(frozen=True)
class MOSSPlusPlus(IteratedMOSS):
    """Adapt to an unknown number of best arms among many: the ancestor of LinUCB++ for unrelated arms.

    Iterations of doubling length play MOSS on halving numbers of arms, sampled anew; each leaves behind a mixture-arm,
    which replays what it did. Use it when there are about as many arms as rounds or more, of which an unknown share is
    best. It ignores features, so in a linear bandit it is a baseline; `EmpMOSSPlusPlus` keeps its data and does
    better in practice, and `MOSS(sample=...)` does when the share of best arms is known.

    Parameters
    ----------
    beta : float in [0.5, 1)
        Where on the Pareto frontier to be: the regret is of order T^max(beta, 1 + alpha - beta) for n/m <= 2 T^alpha.
    scale : float, optional
        Factor on the width of arms and mixture-arms alike, 1 for rewards in [0, 1]; by default twice the sub-Gaussian
        scale, which is sigma for arms and sqrt(sigma^2 + (range/2)^2) for mixture-arms (see `LinUCBPlusPlus`).
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Regret O(log2(T)^(5/2) T^min(max(beta, 1 + alpha - beta), 1)) for every alpha at once, which is Pareto optimal; the
    exponent 5/2 is unverified, and so is whether the theorem samples with replacement (here without). T and the scale
    of the noise must be known.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.many_best(arms=500, alpha=0.2, horizon=600)
    >>> outcome = adadim.simulate(adadim.MOSSPlusPlus(), instance)
    >>> outcome.learner.describe()[0]["arms_in_play"]
    8
    """

    def learner(self, problem: Problem, streams: Streams) -> IteratedMOSSLearner:
        return IteratedMOSSLearner(self, problem, streams)


class IteratedMOSSLearner(IteratedLearner):
    """State of `MOSSPlusPlus`."""

    policy: IteratedMOSS

    in_play = "arms_in_play"  # name of their number in `describe`

    def __init__(self, policy: IteratedMOSS, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.beta, problem, streams, problem.arms)
        self.policy = policy
        # Factor on the width of an arm: a number, or one for each replication (R, 1).
        self.noise: Any = 2.0 * problem.noise if policy.scale is None else float(policy.scale)

    def sizes(self) -> Sequence[int]:
        """K_i of every iteration."""
        return self.schedule.dims

    def make_solver(self, iteration: Iteration) -> Solver:
        solver = MOSSSolver(self, iteration, self.sizes()[iteration.index - 1], iteration.length)
        solver.sample[...] = self.sampled(iteration.index, solver.count)
        return solver

    def sampled(self, index: int, count: int) -> Array:
        """Arms of iteration `index` in every replication, (R, count)."""
        return sampled_arms(self.streams.child(index), count, self.problem.arms, self.problem.reference)

    def descriptions(self) -> list[dict[str, Any]]:
        rows = super().descriptions()
        for row in rows:
            del row["dim"]
            row[self.in_play] = self.sizes()[row["iteration"] - 1]
        return rows


class MOSSSolver(Solver):
    """MOSS on `count` sampled arms, `sample` (R, count), and the mixture-arms so far, whose statistics come after."""

    def __init__(self, learner: IteratedMOSSLearner, iteration: Iteration, count: int, horizon: int) -> None:
        self.policy, self.draws, self.problem_arms = learner.policy, learner.draws, learner.problem.arms
        self.count, self.horizon, self.virtual = count, horizon, iteration.index - 1
        self.noise, self.virtual_noise = learner.noise, learner.virtual_noise(self.virtual)
        self.sample = learner.zeros(count, integers=True)
        # K_h = K_i + i - 1: mixture-arms compete too.
        self.statistics = ArmStatistics(count + self.virtual, learner.problem.reference)

    def check_restored(self) -> None:
        """Refuse arms that are not there."""
        check_positions(self, sample=self.problem_arms)

    def scale(self, rows: Replications) -> Any:
        """Factor on the width of each arm and mixture-arm."""
        noise = self.noise if isinstance(self.noise, float) else rows.of(self.noise)
        if self.policy.scale is not None or not self.virtual:
            return noise
        virtual = 2.0 * rows.of(self.virtual_noise)
        real = noise + 0.0 * rows.of(self.statistics.counts)[:, : self.count]
        return namespace(real).concat([real, virtual], axis=-1)

    def arms(self, local: Array, rows: Replications) -> Array:
        """The arms at some positions among those in play."""
        return rows.at(self.sample, local)

    def choose(self, rows: Replications) -> Choice:
        width = partial(moss_width, horizon=self.horizon, arms=self.statistics.arms, scale=self.scale(rows))
        local = choose_largest(self.statistics.index(rows, width), rows, self.draws, self.policy.ties).arms
        real = self.arms(clamp(local, None, self.count - 1), rows)
        chosen = namespace(local).where(local < self.count, real, local - self.count + self.problem_arms)
        return Choice(chosen, {"local": local})

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        self.statistics.add(memo["local"], rewards, rows)


@dataclass(frozen=True)
class EmpMOSSPlusPlus(IteratedMOSS):
    """MOSS++ in practice: an iteration goes on with the better half of the arms, and forgets nothing.

    As `MOSSPlusPlus`, but the arms of the next iteration are those with the best empirical means (an arm never pulled
    counts as 0), their statistics and those of mixture-arms are kept, and the index has the time since the start as
    its horizon. Less regret than MOSS++ in its authors' experiments, and nothing is proved of it.

    Parameters
    ----------
    beta : float in [0.5, 1)
        Where on the Pareto frontier to be: the regret is of order T^max(beta, 1 + alpha - beta) for n/m <= 2 T^alpha.
    scale : float, optional
        Factor on the width of arms and mixture-arms alike, 1 for rewards in [0, 1]; by default twice the sub-Gaussian
        scale, which is sigma for arms and sqrt(sigma^2 + (range/2)^2) for mixture-arms (see `LinUCBPlusPlus`).
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    No guarantee. The ranking is of all arms, so where rewards may be negative, arms never pulled come before those
    with a negative mean; equal means are resolved as equal scores are. T and the scale of the noise must be known.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.many_best(arms=500, alpha=0.2, horizon=600)
    >>> outcome = adadim.simulate(adadim.EmpMOSSPlusPlus(), instance)
    >>> outcome.learner.describe()[0]["arms_in_play"]
    8
    """

    def learner(self, problem: Problem, streams: Streams) -> EmpMOSSPlusPlusLearner:
        return EmpMOSSPlusPlusLearner(self, problem, streams)


class EmpMOSSPlusPlusLearner(IteratedMOSSLearner):
    """State of `EmpMOSSPlusPlus`: besides that of MOSS++, what is known of every arm and mixture-arm."""

    def __init__(self, policy: EmpMOSSPlusPlus, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.known = ArmStatistics(problem.arms + self.schedule.p, problem.reference)

    def sizes(self) -> Sequence[int]:
        """K_1 arms, then half of the current number, at least 4."""
        sizes = [self.schedule.dims[0]]
        while len(sizes) < self.schedule.p:
            sizes.append(min(max(sizes[-1] // 2, MIN_ARMS), self.problem.arms))
        return sizes

    def make_solver(self, iteration: Iteration) -> Solver:
        # T_h: time since the start, at most T.
        since = min(sum(self.schedule.lengths[: iteration.index]), self.problem.horizon)
        solver = MOSSSolver(self, iteration, self.sizes()[iteration.index - 1], since)
        if iteration.index == 1:
            solver.sample[...] = self.sampled(1, solver.count)
        return solver

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        # Credit goes to what was chosen: a mixture-arm, not the arm that it drew.
        self.known.add(memo["choice"], rewards, rows)
        super().absorb(arms, rewards, rows, memo)

    def begin(self, i: int, rows: Replications) -> None:
        """Start from the arms with the best means, and all that is known of them."""
        solver, real = self.solver(i), self.problem.arms
        assert isinstance(solver, MOSSSolver)
        pulls, sums = rows.of(self.known.counts), rows.of(self.known.sums)
        means = as_numpy(sums[:, :real] / clamp(pulls[:, :real], 1.0))
        if self.policy.ties == "random":
            keys = self.streams.child(1 + solver.virtual).table(real)[rows.ids]
        else:
            keys = np.broadcast_to(np.arange(real), means.shape)
        order = np.stack([np.lexsort((key, -mean)) for key, mean in zip(keys, means, strict=True)])
        sample = like(order[:, : solver.count].copy(), self.problem.reference)
        rows.put(solver.sample, sample)
        mixtures = like(np.arange(real, real + solver.virtual), self.problem.reference)
        kept = self.xp.concat([sample, 0 * sample[:, :1] + mixtures], axis=-1)
        each = indices(sample)[:, None]
        rows.put(solver.statistics.counts, pulls[each, kept])
        rows.put(solver.statistics.sums, sums[each, kept])


@dataclass(frozen=True)
class MeDZO(IteratedMOSS):
    """Adapt to the unknown smoothness of a reward function on [0, 1], whose points the arms are, in their order.

    Iterations of doubling length play MOSS on halving numbers of cells, a cell being played at a uniform point of it;
    each leaves behind a mixture-arm, which replays what it did. Use it when neighbouring arms have similar means and
    it is unknown how similar. For arms without an order there is `MOSSPlusPlus`, for features `LinUCBPlusPlus`.

    Parameters
    ----------
    beta : float in [0.5, 1)
        Where on the Pareto frontier to be: B = T^beta.
    scale : float, optional
        Factor on the width of cells and mixture-arms alike; by default twice their sub-Gaussian scale, for which the
        spread of means counts too: sqrt(sigma^2 + (range/2)^2) with the range of all means where it is known, and the
        spread of the rewards that made it for a mixture-arm where it is not. 1 for rewards in [0, 1].
    ties : {"random", "lowest"}
        How equal scores are resolved.

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

    def learner(self, problem: Problem, streams: Streams) -> MeDZOLearner:
        return MeDZOLearner(self, problem, streams)


class MeDZOLearner(IteratedMOSSLearner):
    """State of `MeDZO`."""

    in_play = "cells"

    def __init__(self, policy: MeDZO, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.point_streams = streams.child(self.schedule.p + 1)
        if policy.scale is None and problem.reward_range is not None:
            # A cell is played at a random point, so its rewards spread as a mixture's do.
            spread = 2.0 * np.sqrt(problem.noise**2 + (problem.reward_range / 2) ** 2)
            self.noise = like(spread, problem.reference)[:, None]

    def make_solver(self, iteration: Iteration) -> Solver:
        return CellSolver(self, iteration, self.sizes()[iteration.index - 1], iteration.length)

    def finish(self, i: int, rows: Replications) -> None:
        # The memory is of cells, not of the points that happened to be played in them.
        real, index = self.problem.arms, rows.index
        self.counts[index, :real] = spread_over_cells(self.counts[index, :real], self.sizes()[i])
        super().finish(i, rows)


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

    def check_restored(self) -> None:
        super().check_restored()
        check_positions(self, starts=self.problem_arms)

    def arms(self, local: Array, rows: Replications) -> Array:
        """A uniform point of each cell."""
        xp, uniforms = namespace(self.starts), self.point_streams.source(self.rounds).uniforms(rows)
        return self.starts[local] + xp.astype(xp.floor(uniforms * self.widths[local]), xp.int64)


@dataclass(frozen=True)
class ParallelMOSS(Policy):
    """Run MOSS on random samples of growing sizes, and every sqrt(T) rounds go on with the copy of least regret.

    Use it when the best mean is known but not how many arms have it: without that knowledge `MOSSPlusPlus`.

    Parameters
    ----------
    best_mean : float
        Mean reward mu* of a best arm; what the copies have lost is measured against it.
    scale
        Of the copies, as in `MOSS`.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    There are ceil(ln T) copies; copy j plays ceil(T^(j/q) ln(sqrt(T))) arms, at most all. It is said to lose only
    logarithms against the best sample size, which is unverified. mu*, T and the scale of the noise must be known.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.many_best(arms=500, alpha=0.2, horizon=600)
    >>> outcome = adadim.simulate(adadim.ParallelMOSS(best_mean=0.9), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    600
    """

    uses_features = False

    best_mean: Annotated[float, partial(finite, wanted="be the mean reward of a best arm, e.g. 0.9")] = 1.0
    scale: MOSSScale | None = None
    ties: Ties = "random"

    def policies(self, problem: Problem) -> list[MOSS]:
        """The copies of MOSS on a problem."""
        sizes = [min(size, problem.arms) for size in parallel_sizes(problem.horizon)]
        return [MOSS(sample=size, scale=self.scale, ties=self.ties) for size in sizes]

    def learner(self, problem: Problem, streams: Streams) -> ParallelMOSSLearner:
        return ParallelMOSSLearner(self, problem, streams)


def parallel_sizes(horizon: int) -> list[int]:
    """Arms of each copy: min(ceil(T^(j/q) ln(sqrt(T))), T) for j = 1..q, q = ceil(ln T)."""
    q = max(1, math.ceil(math.log(horizon)))
    return [max(1, min(math.ceil(horizon ** (j / q) * math.log(math.sqrt(horizon))), horizon)) for j in range(1, q + 1)]


class ParallelMOSSLearner(CountingMasterLearner):
    """State of `ParallelMOSS`: plays and rewards of the copies, and which one plays how much longer."""

    policy: ParallelMOSS

    def __init__(self, policy: ParallelMOSS, problem: Problem, streams: Streams) -> None:
        if any(copy.sample is not None and copy.sample < problem.arms for copy in policy.policies(problem)):
            self.no_allowed = SampledMOSSLearner.no_allowed
        super().__init__(policy, problem, streams)
        self.interval = math.ceil(math.sqrt(problem.horizon))
        self.base, self.played = self.zeros(integers=True), self.zeros(integers=True)

    def check_restored(self) -> None:
        super().check_restored()
        check_positions(self, base=len(self.bases))

    def scores(self, rows: Replications) -> Array:
        """Minus what each copy has lost so far."""
        return rows.of(self.rewards) - self.policy.best_mean * rows.of(self.plays)

    def next_base(self, rows: Replications) -> Array:
        switch = rows.of(self.played) % self.interval == 0
        return self.xp.where(switch, super().next_base(rows), rows.of(self.base))

    def judge(self, chosen: Array, rewards: Array, rows: Replications) -> None:
        rows.put(self.base, chosen)
        rows.put(self.played, rows.of(self.played) + 1)

    def descriptions(self) -> list[dict[str, Any]]:
        return self.describe_counts(regret_of_each_base=-self.scores(self.everyone))
