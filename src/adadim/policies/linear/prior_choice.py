"""The rule of policies that play one of several priors in each round, and drop priors that its rewards refute."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, IntArray
from adadim.core.checks import LARGEST_INTEGER
from adadim.core.problem import Problem
from adadim.core.randomness import Draws
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.core.ties import argmax
from adadim.models.hyperprior import HyperPrior, Posteriors
from adadim.models.linear import LinearModel
from adadim.models.offers import Memo
from adadim.policies.linear.prior_thompson import posteriors_of
from adadim.policies.linear.rules import Rule
from adadim.policies.parameters import Ties
from adadim.policies.player import Choice, Clock

NO_PRIOR = -1  # of a round in which another arm was pulled than the prior chose


def log_rounds(priors: int, t: Any, delta: float) -> Any:
    """ln(M pi^2 t^2 / (6 delta)): summed over t and M, exp(-this) is delta."""
    return np.log(priors * math.pi**2 / (6 * delta)) + 2 * np.log(t)


def noise_term(noise: float, priors: int, t: Any, delta: float) -> Any:
    """xi = 2 sigma^2 ln(M pi^2 t^2 / (6 delta)): the noise of n rewards sums to more than sqrt(n xi) hardly ever."""
    return 2 * noise**2 * log_rounds(priors, t, delta)


class PriorChoice(Rule):
    """The posteriors under all priors, which of these are active, and what the rounds of each have shown.

    All priors learn from all rewards; a round is charged to the prior that was played in it.
    """

    clock: Clock
    counts_pending = False
    remembers = True

    def __init__(
        self,
        problem: Problem,
        model: LinearModel,
        ties: Ties,
        prior: HyperPrior,
        sizes: Sequence[float],
        delta: float,
    ) -> None:
        super().__init__(problem, model, ties)
        self.prior, self.delta, self.clock = prior, delta, Clock(model.reference)
        self.pairs = [(dim, size) for dim in prior.dims for size in sizes]
        self.count = len(self.pairs)
        shape = len(problem), self.count
        self.active = np.ones(shape, dtype=bool)
        self.rounds = np.zeros(shape, dtype=np.int64)  # answered, of each prior
        # Over the rounds of each prior: half the lengths of the credible intervals of the arms played.
        self.halves = np.zeros(shape)

    def check_restored(self) -> None:
        """Refuse numbers of rounds below 0."""
        check_positions(self, rounds=LARGEST_INTEGER)

    @abstractmethod
    def scores(self, posteriors: Posteriors, offered: FloatArray, rows: Replications) -> FloatArray:
        """Scores (n, M, K) by the posteriors and the inputs of what is offered: prior and arm of the largest play."""

    @abstractmethod
    def judge(self, rewards: FloatArray, predicted: FloatArray, prior: IntArray, rows: Replications) -> None:
        """Drop priors after rewards of rounds of `prior` (n,), for which it predicted these means."""

    def half_lengths(self, width2: FloatArray, rows: Replications) -> FloatArray:
        """Half the lengths (n, M, K) of credible intervals, by squared widths."""
        t = self.clock.now(rows, self.model.pulls)[:, :, None]
        beta = np.sqrt(2 * log_rounds(self.count * self.problem.arms, t, self.delta))
        return np.asarray(beta * self.prior.noise * np.sqrt(width2))

    def noise_term(self, rows: Replications) -> FloatArray:
        """xi after the last decision, (n, 1)."""
        t = self.clock.now(rows, self.model.pulls) - 1.0
        return np.asarray(noise_term(self.prior.noise, self.count, t, self.delta))

    def optimistic(self, posteriors: Posteriors, offered: FloatArray, rows: Replications) -> FloatArray:
        """Upper ends (n, M, K) of the credible intervals of all arms, less costs, -inf for arms not allowed."""
        mean, width2 = posteriors.predict(offered)
        return self.comparable(mean + self.half_lengths(width2, rows), rows)

    def comparable(self, scores: FloatArray, rows: Replications) -> FloatArray:
        """Scores (n, M, K) of arms by prior less the costs of arms, -inf for arms not allowed."""
        return np.stack([rows.apply_costs_and_mask(scores[:, m]) for m in range(self.count)], axis=1)

    def choose(self, rows: Replications, draws: Draws) -> Choice:
        posteriors, offered = posteriors_of(self.prior, self.model, rows), self.model.offered_inputs(rows)
        uniforms = draws.uniforms(rows) if self.ties == "random" else None
        scores = self.scores(posteriors, offered, rows)
        prior, chosen = np.divmod(argmax(scores.reshape(len(scores), -1), uniforms), scores.shape[-1])
        each, column = np.arange(len(chosen)), chosen
        if not self.problem.disjoint:  # of the arm chosen alone: a K-th of the time
            offered, column = offered[each, chosen][:, None, :], np.zeros_like(chosen)
        mean, width2 = posteriors.predict(offered)
        half, at = self.half_lengths(width2, rows), (each, prior, column)
        return Choice(chosen, {"prior": prior, "mean": mean[at], "half": half[at]})

    def learn(self, rewards: Array, rows: Replications, memo: Memo) -> None:
        if "prior" not in memo:  # logged
            return
        own = np.flatnonzero(memo["prior"] != NO_PRIOR)
        if not len(own):
            return
        rows, prior = rows.pick(own), memo["prior"][own]
        self.rounds[rows.ids, prior] += 1
        self.halves[rows.ids, prior] += memo["half"][own]
        self.judge(rewards[own], memo["mean"][own], prior, rows)

    def memo_of_other(self, memo: Memo) -> Memo:
        return {**memo, "prior": 0 * memo["prior"] + NO_PRIOR}

    def describe(self, r: int) -> dict[str, Any]:
        """Which priors are still in (features, size), and the answered rounds of each prior."""
        active = [list(self.pairs[m]) for m in np.flatnonzero(self.active[r]).tolist()]
        return {"active_priors": active, "rounds_of_each_prior": self.rounds[r].tolist()}
