"""Corral (Agarwal, Luo, Neyshabur and Schapire 2017)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adadim.backend.arrays import Array, indices
from adadim.backend.rows import Rows
from adadim.checks import one_of, positive
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.masters.bases import check_loss_range, loss
from adadim.policies.masters.distributions import LogBarrier
from adadim.policies.masters.learner import Master, MasterLearner
from adadim.policies.masters.smoothing import sample
from adadim.policies.memos import marked, unmarked
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["Corral", "CorralLearner", "CorralMaster"]


class CorralMaster(Master):
    """A master that draws its bases; its classes have the two fields."""

    feedback: Literal["stochastic", "importance"]
    loss_range: tuple[float, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_loss_range(self.loss_range)
        one_of(self.feedback, "feedback", ("stochastic", "importance"))

    @abstractmethod
    def distribution(self, policies: Sequence[Policy], problem: Problem) -> Any:
        """Fresh master probabilities over base policies."""


@dataclass(frozen=True)
class Corral(CorralMaster):
    """Let an adversarial master find the best of several base learners.

    Use it with bases that stay good when fed importance-weighted losses. Bases such as `LinUCB` do not: run them with
    ``feedback="stochastic"`` (no guarantee), or smoothed, by `SmoothCorral`.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions.
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a nested base in all d features.
    eta : float, optional
        Learning rate; T^-1/2 by default.
    feedback : {"stochastic", "importance"}
        "stochastic": only the chosen base learns, from the reward as it is. "importance": every base learns about its
        own proposal, the chosen one from the loss divided by its probability, the others from loss 0.
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0.

    Notes
    -----
    Against a base whose regret under importance weights grows by at most a factor rho (its largest inverse
    probability), regret O~(sqrt(MT) + M R(T)) with eta = min(1 / (40 R(T) ln T), sqrt(M / T)).

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=30, dim=8, intrinsic_dim=2, horizon=100)
    >>> outcome = adadim.simulate(adadim.Corral(bases=(adadim.LinUCB(dim=2), adadim.Random())), instance)
    >>> len(outcome.learner.describe()[0]["probabilities"])
    2
    """

    eta: float | None = None
    feedback: Literal["stochastic", "importance"] = "stochastic"
    loss_range: tuple[float, float] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta is not None:
            positive(self.eta, "eta", "the learning rate, e.g. 0.02")

    def distribution(self, policies: Sequence[Policy], problem: Problem) -> LogBarrier:
        eta = self.eta or 1 / math.sqrt(problem.horizon)
        return LogBarrier(len(problem), len(policies), eta, problem.horizon, problem.reference)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return CorralLearner(self, problem, streams)


class CorralLearner(MasterLearner):
    """State of `Corral`."""

    no_contexts = ""

    def __init__(self, policy: CorralMaster, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.policies(problem), problem, streams, separate=policy.feedback == "importance")
        self.policy = policy
        self.master = policy.distribution(self.policies, problem)
        self.counts = self.zeros(len(self.bases), integers=True)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        probabilities = self.master.probabilities(rows)
        chosen = sample(probabilities, self.draws.uniforms(rows))
        if self.policy.feedback == "stochastic":
            arms, memo = self.bases.choose(chosen, rows)
            return arms, {"base": chosen, **memo}
        proposals = [learner.choose(rows) for learner in self.bases.learners]
        proposed = self.xp.stack([arms for arms, _ in proposals], axis=1)
        each = indices(chosen)
        memo = {"base": chosen, "probability": probabilities[each, chosen], "proposed": proposed}
        for b, (_, own) in enumerate(proposals):
            memo |= marked(own, b)
        return proposed[each, chosen], memo

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        chosen, losses = memo["base"], loss(rewards, self.policy.loss_range)
        rows.add(self.counts, chosen, 1)
        if self.policy.feedback == "stochastic":
            self.bases.absorb(chosen, arms, rewards, rows, memo)
        else:
            lo, hi = self.policy.loss_range
            weighted = losses / memo["probability"]
            for b, learner in enumerate(self.bases.learners):
                # A loss l on the [0, 1] scale is the reward hi - (hi - lo) l.
                gained = hi - (hi - lo) * self.xp.where(chosen == b, weighted, 0.0 * weighted)
                learner.absorb(memo["proposed"][:, b], gained, rows, unmarked(memo, b))
        self.master.update(chosen, losses, rows)

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return super().pull_sums() if self.policy.feedback == "stochastic" else None

    def sequence(self) -> Hashable:
        return super().sequence() if self.policy.feedback == "stochastic" else None

    def descriptions(self) -> list[dict[str, Any]]:
        """Probabilities, rounds and learning rates of each base, in each replication."""
        return self.describe_bases(
            probabilities=self.master.pbar, rounds_of_each_base=self.counts, learning_rates=self.master.eta
        )
