"""The learner of policies that play one of several priors in each round, and drop priors that its rewards refute."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, IntArray
from adadim.core.checks import LARGEST_INTEGER
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.models.hyperprior import Posteriors
from adadim.models.offers import ArrivingRows
from adadim.policies.base import Choice, Memo
from adadim.policies.linear.learner import ModelLearner
from adadim.policies.linear.prior_thompson import hyperprior_model, posteriors_of
from adadim.policies.player import choice_like, pulls_to_numpy


def log_rounds(priors: int, t: Any, delta: float) -> Any:
    """ln(M pi^2 t^2 / (6 delta)): summed over t and M, exp(-this) is delta."""
    return np.log(priors * math.pi**2 / (6 * delta)) + 2 * np.log(t)


def noise_term(noise: float, priors: int, t: Any, delta: float) -> Any:
    """xi = 2 sigma^2 ln(M pi^2 t^2 / (6 delta)): the noise of n rewards sums to more than sqrt(n xi) hardly ever."""
    return 2 * noise**2 * log_rounds(priors, t, delta)


class PriorChoiceLearner(ModelLearner):
    """The posteriors under all priors, which of these are active, and the rounds of each.

    All priors learn from all rewards; a round is charged to the prior that was played in it, unless another arm was
    pulled than it chose.
    """

    policy: Any

    def __init__(self, policy: Any, problem: Problem, streams: Streams) -> None:
        self.prior = policy.prior_for(problem)
        super().__init__(problem, streams, hyperprior_model(self.prior, problem))
        self.policy, self.pairs = policy, [[dim, size] for dim in self.prior.dims for size in policy.sizes]
        self.count = len(self.pairs)
        shape = len(problem), self.count
        self.active = np.ones(shape, dtype=bool)
        self.decided = np.zeros(len(problem), dtype=np.int64)
        self.rounds = np.zeros(shape, dtype=np.int64)  # answered, of each prior
        # Over the rounds of each prior: half the lengths of the credible intervals of the arms played.
        self.halves = np.zeros(shape)

    def check_restored(self) -> None:
        """Refuse numbers of rounds below 0."""
        super().check_restored()
        check_positions(self, decided=LARGEST_INTEGER, rounds=LARGEST_INTEGER)

    @abstractmethod
    def decide(self, posteriors: Posteriors, offered: FloatArray, rows: Replications) -> tuple[IntArray, IntArray]:
        """Prior and arm (n,) to play, given the posteriors and the inputs of what is offered."""

    @abstractmethod
    def judge(self, rewards: FloatArray, predicted: FloatArray, prior: IntArray, ids: IntArray) -> None:
        """Drop priors after rewards of rounds of `prior` (n,), for which it predicted these means."""

    def half_lengths(self, width2: FloatArray, rows: Replications) -> FloatArray:
        """Half the lengths (n, M, K) of credible intervals, by squared widths."""
        t = self.decided[rows.ids][:, None, None]
        beta = np.sqrt(2 * log_rounds(self.count * self.problem.arms, t, self.policy.delta))
        return np.asarray(beta * self.prior.noise * np.sqrt(width2))

    def optimistic(self, posteriors: Posteriors, offered: FloatArray, rows: Replications) -> FloatArray:
        """Upper ends (n, M, K) of the credible intervals of all arms, less costs, -inf for arms not allowed."""
        mean, width2 = posteriors.predict(offered)
        return self.comparable(mean + self.half_lengths(width2, rows), rows)

    def comparable(self, scores: FloatArray, rows: Replications) -> FloatArray:
        """Scores (n, M, K) of arms by prior less the costs of arms, -inf for arms not allowed."""
        return np.stack([rows.apply_costs_and_mask(scores[:, m]) for m in range(self.count)], axis=1)

    def choose(self, rows: Replications) -> Choice:
        model, offer = self.model, self.model.offer
        assert isinstance(offer, ArrivingRows)
        rows = rows.to_numpy() if model.converts else rows
        self.decided[rows.ids] += 1
        posteriors = posteriors_of(self.prior, model, rows)
        offered = offer.inputs(offer.offered(rows), rows)
        prior, chosen = self.decide(posteriors, offered, rows)
        each, column = np.arange(len(chosen)), chosen
        if not self.problem.disjoint:  # of the arm chosen alone: a K-th of the time
            offered, column = offered[each, chosen][:, None, :], np.zeros_like(chosen)
        mean, width2 = posteriors.predict(offered)
        half = self.half_lengths(width2, rows)
        arms, memo = model.choice(chosen, rows)
        of_prior = {"mean": mean[each, prior, column], "half": half[each, prior, column]}
        choice = Choice(arms, {**memo, "arm": arms, "prior": prior, **of_prior})
        return choice_like(choice, self.problem.reference) if model.converts else choice

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        if self.model.converts:
            arms, rewards, rows, memo = pulls_to_numpy(arms, rewards, rows, memo)
        self.model.absorb(arms, rewards, rows, memo)
        if "prior" not in memo:  # logged
            return
        own = arms == memo["arm"]
        ids, prior = rows.ids[own], memo["prior"][own]
        self.rounds[ids, prior] += 1
        self.halves[ids, prior] += memo["half"][own]
        self.judge(rewards[own], memo["mean"][own], prior, ids)

    def descriptions(self) -> list[dict[str, Any]]:
        """What the model says, which priors are still in (features, size), and the rounds of each prior."""
        return [{"replication": n, **self._described(r)} for r, n in enumerate(self.problem.replications)]

    def _described(self, r: int) -> dict[str, Any]:
        active = [list(self.pairs[m]) for m in np.flatnonzero(self.active[r]).tolist()]
        of_model = self.model.describe(r)
        return {**of_model, "active_priors": active, "rounds_of_each_prior": self.rounds[r].tolist()}
