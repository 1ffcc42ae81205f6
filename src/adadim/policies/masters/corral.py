"""Corral (Agarwal, Luo, Neyshabur and Schapire 2017): log-barrier mirror descent over base learners."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import Array, indices, is_numpy, like, namespace
from adadim.core.checks import positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.recording import cuda_kernels
from adadim.core.rows import Rows
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.masters.base import Master, MasterLearner, loss
from adadim.policies.parameters import LossRange
from adadim.policies.player import marked, sampled, unmarked

Feedback = Literal["stochastic", "importance"]
LearningRate = Annotated[float, partial(positive, meaning="the learning rate, e.g. 0.02")]

ACCURACY = 1e-13
MAX_STEPS = 200
FIXED_STEPS = 16  # on torch, where asking whether all have settled would stop the device; 15 were the most ever seen
HOST = np.zeros(0)


class CorralMaster(Master):
    """A master that draws its bases; its classes have the two fields."""

    feedback: Feedback
    loss_range: LossRange

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
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
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

    eta: LearningRate | None = None
    feedback: Feedback = "stochastic"
    loss_range: LossRange = (-1.0, 1.0)

    def distribution(self, policies: Sequence[Policy], problem: Problem) -> LogBarrier:
        eta = self.eta or 1 / math.sqrt(problem.horizon)
        return LogBarrier(len(problem), len(policies), eta, problem.horizon, problem.reference)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return CorralLearner(self, problem, streams)


class CorralLearner(MasterLearner):
    """State of `Corral`."""

    no_contexts = ""
    policy: CorralMaster

    def __init__(self, policy: CorralMaster, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams, separate=policy.feedback == "importance")
        self.master = policy.distribution(self.policies, problem)
        self.counts = self.zeros(len(self.bases), integers=True)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        probabilities = self.master.probabilities(rows)
        chosen = sampled(probabilities, self.draws.uniforms(rows))
        if self.policy.feedback == "stochastic":
            return self.bases.choose(chosen, rows)
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
            self.teach_weighted(arms, rewards, rows, memo)
        self.master.update(chosen, losses, rows)

    def teach_weighted(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        """Let every base learn about its own proposal, from importance-weighted losses."""
        lo, hi = self.policy.loss_range
        weighted = loss(rewards, self.policy.loss_range) / memo["probability"]
        for b, learner in enumerate(self.bases.learners):
            # A loss l on the [0, 1] scale is the reward hi - (hi - lo) l.
            gained = hi - (hi - lo) * self.xp.where(memo["base"] == b, weighted, 0.0 * weighted)
            learner.absorb(memo["proposed"][:, b], gained, rows, unmarked(memo, b))

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return super().pull_sums() if self.policy.feedback == "stochastic" else None

    def sequence(self) -> Hashable:
        return super().sequence() if self.policy.feedback == "stochastic" else None

    def descriptions(self) -> list[dict[str, Any]]:
        p = self.master.probabilities(self.everyone)
        return self.describe_bases(probabilities=p, rounds_of_each_base=self.counts, learning_rates=self.master.eta)


class LogBarrier:
    """Probabilities of the bases by log-barrier mirror descent, learning rates rising from `eta`.

    `horizon` counts the master's rounds; at least 3 is used.
    """

    def __init__(self, replications: int, bases: int, eta: float, horizon: int, reference: Array = HOST) -> None:
        horizon = max(3, horizon)
        self.gamma = 1.0 / horizon
        self.growth = math.exp(1.0 / math.log(horizon))
        self.p = like(np.full((replications, bases), 1.0 / bases), reference)
        self.pbar = self.p + 0.0
        self.eta = self.p * 0.0 + eta
        self.rho = self.p * 0.0 + 2.0 * bases

    def probabilities(self, rows: Rows) -> Array:
        return rows.of(self.pbar)

    def update(self, chosen: Array, losses: Array, rows: Rows) -> None:
        xp, pbar = namespace(self.p), rows.of(self.pbar)
        at = (indices(pbar), chosen)
        estimate = xp.zeros_like(pbar)
        estimate[at] = losses / pbar[at]
        p, _ = log_barrier_step(rows.of(self.p), estimate, rows.of(self.eta))
        pbar = (1.0 - self.gamma) * p + self.gamma / p.shape[1]
        rows.put(self.p, p)
        rows.put(self.pbar, pbar)
        rho, eta = rows.of(self.rho), rows.of(self.eta)
        rare = 1.0 / pbar > rho
        rows.put(self.rho, xp.where(rare, 2.0 / pbar, rho))
        rows.put(self.eta, xp.where(rare, self.growth * eta, eta))


def log_barrier_step(p: Array, losses: Array, eta: Array) -> tuple[Array, Array]:
    """One step of online mirror descent with the log-barrier, for n distributions at once.

    Finds lambda with sum_i 1 / (1/p_i + eta_i (l_i - lambda)) = 1 and returns those summands, and lambda. With f the
    sum, h = 1/f is concave and decreasing up to the pole of f, and 0 there: Newton's method on h needs no care
    at the pole, where f is infinite, and falls back to bisection of a bracket of the root.
    """
    kernels = cuda_kernels(p)
    if kernels is not None:
        return kernels.log_barrier_step(p, losses, eta, ACCURACY, MAX_STEPS)  # type: ignore[no-any-return]
    xp = namespace(p)
    inverse = 1.0 / p
    pole = xp.min(losses + inverse / eta, axis=-1)
    low, high = xp.min(losses, axis=-1), xp.minimum(xp.max(losses, axis=-1), pole)
    multiplier = low + 0.0
    eager = is_numpy(p)
    for _ in range(MAX_STEPS if eager else FIXED_STEPS):
        slack = inverse + eta * (losses - multiplier[:, None])
        terms = 1.0 / slack
        total = xp.sum(terms, axis=-1)
        settled = xp.abs(total - 1.0) <= ACCURACY
        if eager and settled.all():
            break
        below = total < 1.0  # f increases: the root lies above
        low, high = xp.where(below, multiplier, low), xp.where(below, high, multiplier)
        # h = 1/f: Newton step (h - 1) / (-h') with h' = -f'/f^2, f' = sum eta / slack^2.
        step = total * (1.0 - total) / xp.sum(eta * terms * terms, axis=-1)
        proposal = multiplier + step
        inside = (proposal > low) & (proposal < high)
        # A settled row stays put: its last bit must not depend on the rows beside it.
        following = xp.where(settled, multiplier, xp.where(inside, proposal, 0.5 * (low + high)))
        if eager and (following == multiplier).all():
            break
        multiplier = following
    return terms / total[:, None], multiplier
