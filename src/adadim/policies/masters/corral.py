"""Corral (Agarwal, Luo, Neyshabur and Schapire 2017)."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from adadim.arrays import Array, Rows, indices, like, tally
from adadim.errors import InvalidValueError
from adadim.policies.base import Learner, Policy
from adadim.policies.linucb import LinUCB
from adadim.policies.masters.bases import check_bases, check_loss_range, loss
from adadim.policies.masters.distributions import LogBarrier
from adadim.policies.masters.learner import MasterLearner
from adadim.policies.masters.smoothing import sample
from adadim.problem import Problem, check_positive
from adadim.randomness import Streams

__all__ = ["Corral"]


@dataclass(frozen=True)
class Corral(Policy):
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

    bases: tuple[Policy, ...] = ()
    base: LinUCB = field(default_factory=LinUCB)
    ambient: bool = False
    eta: float | None = None
    feedback: Literal["stochastic", "importance"] = "stochastic"
    loss_range: tuple[float, float] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        check_bases(self.bases, self.base)
        check_loss_range(self.loss_range)
        if self.eta is not None:
            check_positive(self.eta, "eta", "the learning rate, e.g. 0.02")
        if self.feedback not in ("stochastic", "importance"):
            raise InvalidValueError(f"feedback must be 'stochastic' or 'importance', got {self.feedback!r}")

    def _start(self, problem: Problem, streams: Streams) -> Learner:
        return _CorralLearner(self, problem, streams)


class _CorralLearner(MasterLearner):
    def __init__(self, policy: Corral, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams, apart=policy.feedback == "importance")
        self.policy = policy
        eta = policy.eta or 1 / math.sqrt(problem.horizon)
        base, count = problem.actions.base, len(self.bases)
        self.master = LogBarrier(len(problem), count, eta, problem.horizon, base)
        self.counts = like(np.zeros((len(problem), count), dtype=np.int64), base)
        self._proposed = like(np.zeros((count, len(problem)), dtype=np.int64), base)

    def _select(self, rows: Rows) -> Array:
        chosen = sample(self.master.probabilities(rows), self._draws.uniforms(rows))
        self._chosen[rows] = chosen
        if self.policy.feedback == "stochastic":
            return self.bases.ask(chosen, rows)
        for b, learner in enumerate(self.bases.learners):
            self._proposed[b, rows] = learner._select(rows)
        return self._proposed[chosen, indices(self._chosen)[rows]]

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        chosen, losses = self._chosen[rows], loss(rewards, self.policy.loss_range)
        tally(self.counts, rows, chosen, 1)
        if self.policy.feedback == "stochastic":
            self.bases.teach(chosen, arms, rewards, rows)
        else:
            lo, hi = self.policy.loss_range
            weighted = losses / self.master.pbar[indices(self._chosen)[rows], chosen]
            for b, learner in enumerate(self.bases.learners):
                # A loss l on the [0, 1] scale is the reward hi - (hi - lo) l.
                told = hi - (hi - lo) * self.xp.where(chosen == b, weighted, 0.0 * weighted)
                learner._update(self._proposed[b, rows], told, rows)
                learner._advance(rows)
        self.master.update(chosen, losses, rows)

    def _advance(self, rows: Rows) -> None:
        if self.policy.feedback == "stochastic":
            self.bases.advance(rows)

    def _phase(self) -> Hashable:
        return self.bases.phase() if self.policy.feedback == "stochastic" else None

    def describe(self) -> list[dict[str, Any]]:
        """Probabilities, rounds and learning rates of each base, in each replication."""
        return self._describe(
            probabilities=self.master.pbar, rounds_of_each_base=self.counts, learning_rates=self.master.eta
        )
