"""Smooth Corral (Pacchiano et al. 2020): a corral of smoothed base learners, by log-barrier or by EXP3.P."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import Array, indices, like, namespace
from adadim.core.checks import positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.policies.base import Learner, Memo
from adadim.policies.masters.base import Master, MasterLearner
from adadim.policies.masters.corral import HOST, LearningRate, LogBarrier
from adadim.policies.masters.smoothing import (
    MasterDistribution,
    RoundFeedback,
    SmoothedBases,
    StoredPolicies,
    rounds_of,
)
from adadim.policies.parameters import Beta, LossRange


@dataclass(frozen=True)
class SmoothCorral(Master):
    """Let an adversarial master find the best of several base learners, each smoothed by replaying its past.

    By default the bases are `LinUCB` in 1, 2, 4, ... features. Use it when the candidates differ in kind and the
    best is unknown; on nested dimensions `LinUCBPlusPlus` has less regret in the paper's experiments, since a master
    pays for every base it tries and for the replays.

    Parameters
    ----------
    bases, base, ambient
        As in `Corral`.
    beta : float in [0.5, 1)
        Learning rate eta = T^-beta, which is where on the Pareto frontier the guarantee lies.
    eta : float, optional
        Learning rate, instead of T^-beta; with ``tuning="single-rate"`` that of EXP3.P, instead of q/M.
    master : {"corral", "exp3p"}
        Log-barrier mirror descent or EXP3.P, which explores and learns at the rates of `tuning`.
    tuning : {"textbook", "single-rate"}
        Of EXP3.P. "textbook": bias, learning rate and uniform mass each of order sqrt(ln(M) / (M T)). "single-rate":
        uniform mass q and bias q/2, q = T^(-1/3), with learning rate q/M (``eta=1`` is the source's, with which one
        gain at a small probability decides the rest of the run).
    base_regret : float, optional
        c, if the bases have regret c sqrt(t): then q = T^(-1/3) (c/M)^(2/3).
    feedback : {"step2", "mean", "sum"}
        Which losses of a two-step round the master sees: the replay's, the mean or the sum of both.
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0. The safe (-1, 1) leaves losses close together when rewards are; a
        tighter range discriminates better.
    replay : bool
        False drops the second step of every round: Stochastic Corral, without the guarantee.

    Notes
    -----
    With bases whose regret is O~(sqrt(d_i t)) with high probability, the regret is O~(T^max(beta, 1 + alpha - beta))
    for d* = T^alpha (appendix C of the paper), without an expressive action set. With EXP3.P and bases of regret d t^a
    it is O~(sqrt(MT) + M^((1-a)/(2-a)) T^(1/(2-a)) d), T^(2/3) for a = 1/2, which is off the frontier; how exactly the
    source sets EXP3.P's learning rate and bias is unverified. Where features come with each round, a replay asks one of
    the base's past regressions about the arms of the new round; the guarantee then needs rounds that are independent
    and alike.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> outcome = adadim.simulate(adadim.SmoothCorral(loss_range=(-0.5, 0.5)), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    100
    """

    beta: Beta = 0.5
    eta: LearningRate | None = None
    master: Literal["corral", "exp3p"] = "corral"
    tuning: Literal["textbook", "single-rate"] = "textbook"
    base_regret: Annotated[float, partial(positive, meaning="c in the bases' regret c sqrt(t), or None")] | None = None
    feedback: RoundFeedback = "step2"
    loss_range: LossRange = (-1.0, 1.0)
    replay: bool = True

    def distribution(self, bases: int, horizon: int, reference: Array) -> MasterDistribution:
        """Fresh master probabilities for a run of `horizon` rounds, in the library of `reference` (R, ...)."""
        replications = int(reference.shape[0])
        rounds = rounds_of(horizon, self.replay)
        if self.master == "exp3p":
            if self.tuning == "textbook":
                return Exp3P(replications, bases, rounds, reference=reference)
            q = exploration_rate(rounds, bases, self.base_regret)
            return Exp3P(replications, bases, rounds, self.eta or q / bases, q, q / 2, reference)
        return LogBarrier(replications, bases, self.eta or horizon**-self.beta, rounds, reference)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        if problem.contextual:
            return ContextSmoothCorralLearner(self, problem, streams)
        return SmoothCorralLearner(self, problem, streams)


class SmoothCorralLearner(MasterLearner):
    """State of `SmoothCorral`."""

    needs_sets = "iid"
    no_allowed = (
        "a replay is an arm of an earlier round, so this policy needs all arms in every round; use Corral, "
        "DynamicBalancing or adadim.recommended(problem) with allowed="
    )
    smoothing: type[SmoothedBases] = SmoothedBases

    def __init__(self, policy: SmoothCorral, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        master = policy.distribution(len(self.bases), problem.horizon, problem.reference)
        self.smoothed = self.smoothing(policy, self.bases, master, problem.horizon, streams)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        return self.smoothed.choose(rows)

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.smoothed.absorb(arms, rewards, rows, memo)

    def sequence(self) -> Hashable:
        return self.smoothed.sequence()

    def pull_sums(self) -> None:
        return None  # the bases do not learn from replays

    def descriptions(self) -> list[dict[str, Any]]:
        """Probabilities and rounds of each base, in each replication."""
        p = self.smoothed.master.probabilities(self.everyone)
        return self.describe_bases(probabilities=p, rounds_of_each_base=self.smoothed.counts)


class ContextSmoothCorralLearner(SmoothCorralLearner):
    """State of `SmoothCorral` where features come with each round: past policies are past regressions."""

    no_contexts = ""
    no_allowed = ""
    smoothing = StoredPolicies


def exploration_rate(rounds: int, bases: int, base_regret: float | None = None) -> float:
    """The single rate q of EXP3.P in Pacchiano et al. (2020): T^(-1/3), T being the rounds of the master.

    With a known base regret c sqrt(t) it is T^(-1/3) M^(-2/3) c^(2/3).
    """
    rate: float = rounds ** (-1 / 3)
    if base_regret is not None:
        rate *= (base_regret / bases) ** (2 / 3)
    return min(1.0, rate)


class Exp3P:
    """EXP3.P: exponential weights on optimistic gain estimates, mixed with the uniform distribution.

    Learning rate `eta`, uniform mass `gamma` and `bias` of the estimates are by default those of the textbook, for
    `horizon` rounds of the master.
    """

    def __init__(
        self,
        replications: int,
        bases: int,
        horizon: int,
        eta: float | None = None,
        gamma: float | None = None,
        bias: float | None = None,
        reference: Array = HOST,
    ) -> None:
        rate = math.sqrt(math.log(max(bases, 2)) / (horizon * bases))
        self.eta = 0.95 * rate if eta is None else eta
        self.gamma = min(1.0, 1.05 * bases * rate) if gamma is None else gamma
        self.bias = rate if bias is None else bias
        self.gains = like(np.zeros((replications, bases)), reference)

    def probabilities(self, rows: Rows) -> Array:
        xp, weights = namespace(self.gains), self.eta * rows.of(self.gains)
        weights = xp.exp(weights - xp.max(weights, axis=-1)[:, None])
        weights = weights / xp.sum(weights, axis=-1)[:, None]
        return (1.0 - self.gamma) * weights + self.gamma / weights.shape[1]

    def update(self, chosen: Array, losses: Array, rows: Rows) -> None:
        p = self.probabilities(rows)
        gain = p * 0.0 + self.bias
        gain[indices(p), chosen] += 1.0 - losses
        rows.put(self.gains, rows.of(self.gains) + gain / p)
