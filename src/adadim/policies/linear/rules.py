"""Rules over a linear model: which arm to choose, by which score or with which probability.

A rule sees what the model predicts of the arms offered and nothing of what kind of offer it is. A `ScoreRule` gives
every arm a score, of which the largest is chosen: `Optimism` adds the width to the mean, `EvidenceOptimism` with the
noise that the model estimates; `Thompson` and `PrefixThompson` draw. A `ProbabilityRule` gives every arm a probability.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, clamp, like, namespace, zeros
from adadim.core.problem import Problem
from adadim.core.randomness import Draws, LateDraws, Streams
from adadim.core.recording import on_host
from adadim.core.rows import Replications
from adadim.core.ties import mean_tie_probabilities
from adadim.models.linear import LinearModel
from adadim.models.offers import Memo
from adadim.models.prefixes import PrefixAverage
from adadim.policies.confidence import fixed_radius, noise_radius, oful_radius, optimism, root_radius
from adadim.policies.parameters import ADAPTIVE_RULES, Bonus, Radius, Ties
from adadim.policies.player import Choice, Clock, choose_drawn, choose_largest

FIRST_PROBES = 8  # decisions


class Rule(ABC):
    """Which arm to choose, given what a model predicts."""

    clock: Clock | None = None  # what counts the rounds, where scores depend on them
    counts_pending = True  # whether a pull counts in the widths before its reward is known
    remembers = False  # whether it has learned from its own decisions what sums over the data do not give back

    def __init__(self, problem: Problem, model: LinearModel, ties: Ties) -> None:
        self.problem, self.model, self.ties = problem, model, ties
        self.everyone = Replications.all(model.reference)

    @abstractmethod
    def choose(self, rows: Replications, draws: Draws) -> Choice:
        """Choose one of the arms that the model covers, by position, in each replication of `rows`."""

    def comparable_with_costs(self, scores: Array, rows: Replications) -> Array:
        """Scores or means (..., K) in units of the costs of arms: of clicks, logits as probabilities."""
        if rows.costs is None:
            return scores
        model = self.model
        return model.likelihood.in_reward_units(scores, rows.costs, lambda: as_numpy(rows.of(model.offset))[:, None])

    def learn(self, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Learn from rewards, besides what the model learns; the memo has what `choose` has put into it, or nothing."""
        return

    def memo_of_other(self, memo: Memo) -> Memo:
        """The memo of a choice after which other arms were pulled."""
        return memo

    def decided(self, rows: Replications) -> None:
        """Count a decision that was answered at once, or is pending."""
        return

    def answered(self) -> None:
        """Take note that a pending decision was answered."""
        return

    def describe(self, r: int) -> dict[str, Any]:
        """What there is to say of a replication, besides what its model has learned."""
        return {}

    def resume(self, decided: int, streams: Streams) -> None:
        """Continue as if `decided` decisions had been made, with the random numbers of these streams."""
        if self.clock is not None:
            self.clock.set(self.everyone, decided)


class ScoreRule(Rule):
    """A rule that chooses the arm with the largest score."""

    @abstractmethod
    def scores(self, rows: Replications) -> Array:
        """Score of every arm that the model covers, in each replication of `rows`; costs come off afterwards."""

    def choose(self, rows: Replications, draws: Draws) -> Choice:
        return self.choose_by(self.scores(rows), rows, draws)

    def choose_by(self, scores: Array, rows: Replications, draws: Draws | LateDraws) -> Choice:
        """Choose by the scores of all arms, before costs come off them."""
        if rows.costs is not None:
            scores = self.comparable_with_costs(scores, rows)
        return choose_largest(scores, rows, draws, self.ties)


class ProbabilityRule(Rule):
    """A rule that draws the arm from a distribution which it knows."""

    @abstractmethod
    def probabilities(self, rows: Replications) -> Array:
        """Probability of every arm that the model covers, in each replication of `rows`: 0 for arms not allowed.

        `rows.apply_costs_and_mask(means)` are means less the costs, and -inf for arms not allowed. Means of clicks are
        logits: `comparable_with_costs` comes before.
        """

    def choose(self, rows: Replications, draws: Draws) -> Choice:
        return choose_drawn(self.probabilities(rows), draws.uniforms(rows))


Pulls = Callable[[], Array]
"""Gives how many pulls each replication has, (n,)."""


def optimistic_score(mean: Array, width2: Array, radius: Any, bonus: Bonus, pulls: Pulls) -> Array:
    """Mean plus radius times width of every arm."""
    return optimism(mean, width2, radius, bonus)


def regret_score(mean: Array, width2: Array, radius: Any, bonus: Bonus, pulls: Pulls) -> Array:
    """Minus the empirical regret of every arm."""
    return -empirical_regrets(mean, width2, radius)[1]


def empirical_regrets(mean: Array, width2: Array, radius: Any) -> tuple[Array, Array]:
    """The optimistic best value b (n,), and (b - mean) / width^2 of every arm (n, K), huge at width 0."""
    xp = namespace(mean)
    best = xp.max(mean + radius * xp.sqrt(width2), axis=-1)
    return best, (best[:, None] - mean) / clamp(width2, 1e-300)


@dataclass(frozen=True)
class Confidence:
    """How wide an optimist believes its estimates to be, the parameters of `LinUCB` of these names, and its score."""

    bonus: Bonus = "norm"
    radius: Radius = "noise"
    scale: float = 1.0
    ridge: float = 1.0
    theta_norm: float = 1.0
    score: Callable[[Array, Array, Any, Bonus, Pulls], Array] = optimistic_score

    def width_multiplier(self, problem: Problem, arms: int, t: Array | None = None) -> Any:
        """Radius for `arms` arms, as far as it does not depend on the data; `t` as `Clock.now` gives it."""
        if not isinstance(self.radius, str):
            return self.scale * self.radius  # a number needs neither noise nor horizon
        rounds = problem.horizon if t is None else t
        return self.scale * fixed_radius(self.radius, problem.noise, rounds, arms, self.ridge, self.theta_norm)

    def adaptive_radius(self, problem: Problem, logdet: Array, t: Array | None = None) -> Array:
        """Radius of a rule that depends on the data: one for each replication, (n, 1)."""
        delta = 1 / math.sqrt(problem.horizon) if t is None else t**-0.5
        radius = root_radius if self.radius == "oful" else oful_radius
        return self.scale * radius(problem.noise, self.ridge, self.theta_norm, delta, logdet[:, None])

    @property
    def adapts(self) -> bool:
        """Whether the radius depends on the data."""
        return self.radius in ADAPTIVE_RULES


class Optimism(ScoreRule):
    """Mean plus radius times width, or another score of a `Confidence`."""

    def __init__(self, problem: Problem, model: LinearModel, ties: Ties, confidence: Confidence) -> None:
        super().__init__(problem, model, ties)
        self.confidence = confidence
        if problem.endless and isinstance(confidence.radius, str):
            problem.noise  # noqa: B018 - an unknown one is refused now, not in the first round
            self.clock = Clock(model.reference)
            self._radius = None
        else:  # computed for every rule: an unknown noise is refused now
            fixed = confidence.width_multiplier(problem, model.arms)
            self._radius = None if confidence.adapts else fixed

    def radius(self, rows: Replications, t: Array | None = None) -> Any:
        """Current multiplier of the width, or that of rounds `t` (n, 1); one each if it adapts, and without end."""
        if self._radius is not None:
            return self._radius
        if t is None and self.clock is not None:
            t = self.clock.now(rows, self.model.pulls)
        if self.confidence.adapts:
            return self.confidence.adaptive_radius(self.problem, rows.of(self.model.logdet), t)
        return self.confidence.width_multiplier(self.problem, self.model.arms, t)

    def scores(self, rows: Replications) -> Array:
        mean, width2 = self.model.predict(rows)
        confidence = self.confidence
        return confidence.score(mean, width2, self.radius(rows), confidence.bonus, lambda: rows.of(self.model.pulls))

    def past_scores(self, mean: Array, width2: Array, logdet: Array, pulls: Array) -> Array:
        """Scores by what a regression predicted earlier, on a problem with an end."""
        radius = self._radius
        if self.confidence.adapts:
            radius = self.confidence.adaptive_radius(self.problem, logdet)
        return self.confidence.score(mean, width2, radius, self.confidence.bonus, lambda: pulls)


class EvidenceOptimism(Optimism):
    """Optimism with the radius scale sigma sqrt(2 ln(2 T^1.5 K)) of the noise sigma that the model estimates.

    The first `probes` rounds after 8, 16, 32, ... decisions have the whole radius, as if the scale were 1.
    """

    def __init__(self, problem: Problem, model: LinearModel, ties: Ties, scale: float, probes: int) -> None:
        super().__init__(problem, model, ties, Confidence(radius=0.0))
        self._radius = None
        self.scale, self.probes = scale, probes
        if problem.endless:
            self.clock = Clock(model.reference)
        # Without end the noise alone, NaN while it is not known.
        self.radii = zeros(model.reference, len(problem), 1) + (math.nan if problem.endless else 1.0)
        self.probing: list[int] = []  # replications that probe in their next round

    def radius(self, rows: Replications, t: Array | None = None) -> Array:
        if self.model.changed:  # by predicting, where the model forgets
            self._update_radii()
        if self.clock is None:
            return rows.of(self.radii)
        if t is None:
            t = self.clock.now(rows, self.model.pulls)
        xp = namespace(t)
        scale = xp.where(probes_next(t - 1, self.probes), 1.0, self.scale) if self.probes else self.scale
        factor = scale * rows.of(self.radii)
        return xp.where(xp.isnan(factor), 1.0, factor) * noise_radius(1.0, t, self.problem.arms)

    def decided(self, rows: Replications) -> None:
        if rows.on_host:
            self._decided(rows)
        else:
            on_host(self._decided, rows)

    def answered(self) -> None:
        on_host(self._update_radii)

    def _decided(self, rows: Replications) -> None:
        # Where some are pending, a probe may begin or end between two rewards.
        if self.probes and np.count_nonzero(self.model.waiting):
            self.model.changed.extend(rows.ids.tolist())
        if self.model.changed or self.probing:
            self._update_radii()

    def _update_radii(self) -> None:
        """Update the radii by the noise that the model estimates; without end `radius` depends on the round too."""
        if not (self.model.changed or self.probing):
            return
        problem, noises = self.problem, self.model.noise
        if problem.endless:
            for r in self.model.changed:
                self.radii[r] = float(noises[r])
            self.model.changed.clear()
            return
        probing = probes_next(as_numpy(self.model.pulls) + self.model.waiting, self.probes)
        for r in {*self.model.changed, *self.probing}:
            noise, scale = float(noises[r]), 1.0 if probing[r] else self.scale
            radius = noise_radius(noise, problem.horizon, problem.arms)
            self.radii[r] = 1.0 if math.isnan(noise) else scale * radius
        self.model.changed.clear()
        self.probing = np.flatnonzero(probing).tolist()


class EvidenceRadius(Optimism):
    """Optimism with a radius that holds for all ridges, of which the data choose one (see `root_radius`)."""

    def __init__(self, problem: Problem, model: LinearModel, ties: Ties, theta_norm: float, ridges: int) -> None:
        super().__init__(problem, model, ties, Confidence(radius="oful", theta_norm=theta_norm))
        self.share = 1.0 / ridges  # of each ridge in the probability that some radius is wrong
        self.ridges = zeros(model.reference, len(problem), 1) + like(model.ridge[:, None].copy(), model.reference)

    def radius(self, rows: Replications, t: Array | None = None) -> Array:
        if self.model.changed:
            on_host(self._follow)
        if t is None and self.clock is not None:
            t = self.clock.now(rows, self.model.pulls)
        delta = self.share / math.sqrt(self.problem.horizon) if t is None else self.share * t**-0.5
        logdet = rows.of(self.model.logdet)[:, None]
        return root_radius(self.problem.noise, rows.of(self.ridges), self.confidence.theta_norm, delta, logdet)

    def decided(self, rows: Replications) -> None:
        on_host(self._follow)

    def answered(self) -> None:
        on_host(self._follow)

    def _follow(self) -> None:
        for r in self.model.changed:
            self.ridges[r] = float(self.model.ridge[r])
        self.model.changed.clear()


def probes_next(decided: Array, probes: int) -> Array:
    """Whether the next round is one of the `probes` after 8, 16, 32, ... decisions."""
    xp = namespace(decided)
    power = 2.0 ** xp.floor(xp.log2(decided + 0.5))  # the largest up to it; the half keeps rounding away
    return (decided >= FIRST_PROBES) & (decided - power < probes)


class Thompson(ScoreRule):
    """Means by a parameter drawn from the posterior, `deviation` times as wide as L^-1."""

    def __init__(self, problem: Problem, model: LinearModel, ties: Ties, streams: Streams, deviation: float) -> None:
        super().__init__(problem, model, ties)
        self.deviation, self.normals = deviation, streams.child(0)

    def scores(self, rows: Replications) -> Array:
        model, dim = self.model, self.model.columns
        count = model.offer.blocks * dim
        drawn = np.array([self.normals.generators[r].standard_normal(count) for r in rows.ids.tolist()])
        spread = self.deviation * like(drawn.reshape(-1, 1, dim), model.reference)
        return model.means_by(model.sample(spread, rows)[:, 0], rows)

    def resume(self, decided: int, streams: Streams) -> None:
        super().resume(decided, streams)
        self.normals = streams.child(0)

    def choose(self, rows: Replications, draws: Draws) -> Choice:
        choice = super().choose(rows, draws)
        return choice._replace(distribution=None, estimate=partial(self._shares, choice.scores, rows))

    def _shares(self, scores: Array, rows: Replications, draws: int) -> Array:
        """Shares (1, K) of `scores` (1, K) and so many drawn again in which each arm is chosen."""
        return mean_tie_probabilities(np.concatenate([scores, self.resample_scores(rows, draws)]), self.ties)[None]

    def resample_scores(self, rows: Replications, draws: int) -> Array:
        """Scores (draws, K) as `choose` would draw them again in one replication of a problem with contexts."""
        return rows.apply_costs_and_mask(self.comparable_with_costs(self.resampled(rows, draws), rows))

    def resampled(self, rows: Replications, draws: int) -> Array:
        """As `resample_scores`, before costs come off and arms are left out."""
        assert rows.features is not None
        spread = self.deviation * self.normals.generators[0].standard_normal((1, draws, self.model.columns))
        inputs = self.model.inputs(rows.features[..., : self.model.dim], rows)
        return self.model.sample_means(spread, inputs, rows)[0]


class PrefixThompson(Thompson):
    """Means by d* and a parameter drawn from their posterior, `deviation` times as wide."""

    def scores(self, rows: Replications) -> Array:
        self.model.prepare(rows)
        prediction = self.model.prediction
        assert isinstance(prediction, PrefixAverage)
        return prediction.sample_means(rows, self.normals.generators, self.deviation)

    def resampled(self, rows: Replications, draws: int) -> Array:
        return np.concatenate([self.scores(rows) for _ in range(draws)])
