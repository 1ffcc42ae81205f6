"""LinUCB++ with Corral (the paper's Algorithm 2): mixture-arms without an expressive action set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from adadim.core.arrays import Array, clamp
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import Ties, argmax
from adadim.policies.arms.ucb import UCB, UCBStatistics
from adadim.policies.base import Memo, Policy
from adadim.policies.confidence import Bonus, Index, Radius
from adadim.policies.linear.linucb import LinUCB
from adadim.policies.masters.base import Bases
from adadim.policies.masters.corral import LogBarrier
from adadim.policies.masters.smooth_corral import RoundFeedback, SmoothedBases, rounds_of
from adadim.policies.parameters import Beta, LossRange, RadiusScale, Ridge
from adadim.policies.plusplus.iterations import IteratedLearner, Solver, check_expressive
from adadim.theory import Iteration


@dataclass(frozen=True)
class LinUCBPlusPlusCorral(Policy):
    """Adapt to an unknown number of relevant features, with a guarantee for every action set.

    The iterations and mixture-arms are those of `LinUCBPlusPlus`, but real arms and mixture-arms are learned apart: by
    `LinUCB` in d_i features, which may be misspecified, and by `UCB`, which is not, under a smoothed corral of the
    two. In experiments the corral costs more than the misspecification does: prefer `LinUCBPlusPlus` in practice.

    Parameters
    ----------
    beta, expressive
        As in `LinUCBPlusPlus`.
    ridge, bonus, radius, scale, ties
        Of the `LinUCB` inside, whose horizon is the length of the iteration.
    index : {"self-normalised", "subgaussian", "ucb1", "released"}
        Index of the `UCB` on mixture-arms.
    feedback, loss_range, replay
        As in `SmoothCorral`.

    Notes
    -----
    Theorem 5 of the paper: the rate function theta_beta, Pareto optimal, without an expressive action set. The
    master's learning rate is 1 / sqrt(d_i DeltaT_i). Iteration 1 has no mixture-arm and is plain `LinUCB`.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=40, intrinsic_dim=2, horizon=300)
    >>> outcome = adadim.simulate(adadim.LinUCBPlusPlusCorral(), instance)
    >>> outcome.learner.describe()[0]["iteration"]
    3
    """

    beta: Beta = 0.5
    ridge: Ridge = 0.1
    bonus: Bonus = "norm"
    radius: Radius = "noise"
    scale: RadiusScale = 1.0
    index: Index = "self-normalised"
    feedback: RoundFeedback = "step2"
    loss_range: LossRange = (-1.0, 1.0)
    replay: bool = True
    expressive: bool | None = None
    ties: Ties = "random"

    def learner(self, problem: Problem, streams: Streams) -> IteratedLearner:
        return LinUCBPlusPlusCorralLearner(self, problem, streams)


class LinUCBPlusPlusCorralLearner(IteratedLearner):
    """State of `LinUCBPlusPlusCorral`."""

    def __init__(self, policy: LinUCBPlusPlusCorral, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.beta, problem, streams)
        self.policy = policy
        self.expressive = check_expressive(policy.expressive, problem)

    def make_solver(self, iteration: Iteration) -> Solver:
        policy, problem, earlier = self.policy, self.problem, iteration.index - 1
        streams = self.streams.child(iteration.index)
        inner = problem.with_horizon(iteration.length)
        shared = {name: getattr(policy, name) for name in ("ridge", "bonus", "radius", "scale", "ties")}
        linucb = LinUCB(dim=iteration.dim, only_supported=self.expressive, **shared).learner(inner, self.streams)
        if not earlier:
            return linucb
        ucb = _MixtureUCB(self, iteration, streams.child(0))
        eta = 1 / math.sqrt(iteration.dim * iteration.length)
        rounds = rounds_of(iteration.length, policy.replay)
        master = LogBarrier(len(problem), 2, eta, rounds, problem.reference)
        bases = Bases([linucb, ucb], problem.reference)
        return SmoothedBases(policy, bases, master, iteration.length, streams)

    def descriptions(self) -> list[dict[str, Any]]:
        rows = super().descriptions()
        for r, row in enumerate(rows):
            solver = self.solvers.get(int(self.iteration[r]))
            if isinstance(solver, SmoothedBases):
                row["probabilities"] = solver.master.probabilities(self.everyone)[r].tolist()
                row["rounds_of_each_base"] = solver.counts[r].tolist()
        return rows


class _MixtureUCB:
    """UCB over the mixture-arms of the finished iterations."""

    fixed_operations = True

    def __init__(self, learner: LinUCBPlusPlusCorralLearner, iteration: Iteration, streams: Streams) -> None:
        policy, problem, earlier = learner.policy, learner.problem, iteration.index - 1
        self.real, self.ties, self.streams, self.horizon = problem.arms, policy.ties, streams, iteration.length
        self.statistics = UCBStatistics(
            UCB(index=policy.index), earlier, learner.virtual_noise(earlier), iteration.length, problem.reference
        )

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        draws = self.streams.source(self.horizon)
        uniforms = draws.uniforms(rows) if self.ties == "random" else None
        return self.real + argmax(self.statistics.scores(rows), uniforms), {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        # Outside a mask there may be a real arm.
        self.statistics.add(clamp(arms - self.real, 0), rewards, rows)

    def sequence(self) -> str:
        return type(self).__name__
