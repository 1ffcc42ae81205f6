"""Feel-Good Thompson sampling (Zhang 2022) with a prior over the number of features that matter."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, FloatArray
from adadim.core.checks import LARGEST_INTEGER, between, check_fits, integer, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.errors import InvalidValueError
from adadim.models.hyperprior import HyperPrior
from adadim.models.linear import LinearModel
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.prior_thompson import PositiveNumbers, hyperprior, hyperprior_model, posteriors_of
from adadim.policies.linear.round_learner import ClassDims
from adadim.policies.linear.rules import PrefixThompson, Rule
from adadim.policies.parameters import Ties
from adadim.policies.player import Clock

KEPT_SETS = 64  # past sets of arms that stand for all of them
FEW = 50.0  # effective number of draws below which three times as many are added
LEAST_NOISE, LARGEST_BONUS = 1e-100, 1e100


@dataclass(frozen=True)
class FeelGood(LinearPolicy):
    """Thompson sampling that prefers parameters under which the arms offered so far are good.

    Use it as `PriorThompson`, where noise and the size of a coefficient are known and the number of leading features
    that matter is not: the preference guards against a posterior that has settled on too low a value of the best arm.
    A decision costs `draws` parameters in the place of one.

    Parameters
    ----------
    dims, sizes, weights
        The priors, as in `PriorThompson`.
    eta : float, optional
        Weight of a squared residual; by default 1 / (2 sigma^2), which is Bayes' rule. The proof has at most 1/4, for
        rewards in [0, 1].
    bonus : float, optional
        Weight of the best mean in a round; by default 1 / (sigma sqrt(T)), without end of t rounds. 0 is
        `PriorThompson`.
    cap : float
        A best mean above it counts as this; with `intercept` a best mean less the mean reward so far.
    draws : int
        Parameters drawn in a round, of which one is drawn again by the bonus. Where less than 50 of them count
        effectively, three times as many are added.
    particles : int, optional
        Draw so many parameters from the prior once, and none later: exact on any sets, but no better than the best of
        them, so for a few features only. `draws` is not used then, and there is no intercept.
    ties : {"random", "lowest"}
        How equal scores are resolved.
    intercept : bool
        Whether the rewards have a constant of their own, as in `PriorThompson`.

    Notes
    -----
    With p_0 the two-level prior, a parameter is drawn from

        p_t(theta) ~ p_0(theta) exp(-eta sum_s (<a_s, theta> - y_s)^2 + bonus sum_s min(cap, max_{a in A_s} <a, theta>))

    over the answered rounds s < t in the first sum and all rounds s < t in the second, and the best arm for it is
    pulled. On arms that stay that is exact as `draws` grows; the arms allowed in the present round stand for those of
    past ones. Where features come with the rounds, 64 past sets, drawn uniformly, stand for all, an approximation
    without a proof; an agent, which keeps no sets, has the present one in their place.

    Zhang (2022, "Feel-good Thompson sampling for contextual bandits and reinforcement learning") bounds the regret for
    every theta, by order sqrt(min(K, d) T ln(1/p)) with p the prior probability of a ball of radius 1/T around it;
    constants unverified here. With priors over d_i features that is O~(sqrt(min(K, d) d* T)) for every d* at once.
    Released code of a benchmark has eta=1, bonus=0.5, cap=1000 and sizes=(50 ** 0.5,), in all features; it draws by
    Langevin steps at a temperature, which is not this law and is not imitated.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=8, intrinsic_dim=2, horizon=200, replications=range(4))
    >>> nested = adadim.simulate(adadim.FeelGood(draws=200), instance)
    >>> bool(nested.final.mean() < adadim.simulate(adadim.LinTS(), instance).final.mean())
    True
    """

    dims: ClassDims | None = None
    sizes: PositiveNumbers = (0.5,)
    weights: PositiveNumbers | None = None
    eta: Annotated[float, partial(positive, meaning="the weight of a squared residual, or None")] | None = None
    bonus: Annotated[float, partial(between, low=0, high=LARGEST_BONUS)] | None = None
    cap: Annotated[float, partial(positive, meaning="the largest value that a best mean counts as")] = 1.0
    draws: Annotated[int, partial(integer, meaning="how many parameters are drawn in a round")] = 1000
    particles: Annotated[int, partial(integer, meaning="how many parameters are drawn once, or None")] | None = None
    ties: Ties = "random"
    intercept: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.intercept and self.particles is not None:
            raise InvalidValueError("intercept=True is for parameters drawn in each round: leave particles=None")

    def prior_for(self, problem: Problem) -> HyperPrior:
        """Its priors on a problem."""
        noise = problem.noise if self.eta is None else math.sqrt(0.5 / self.eta)
        return hyperprior(self.dims, self.sizes, self.weights, problem, noise, self.intercept)

    def model_for(self, problem: Problem) -> LinearModel:
        return hyperprior_model(self.prior_for(problem), problem)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        kind = FeelGoodDraws if self.particles is None else FeelGoodParticles
        return kind(problem, model, streams, self)


class FeelGoodRule(PrefixThompson):
    """Means by one of many parameters, drawn by its log weight and the bonus."""

    counts_pending = False
    clock: Clock

    def __init__(self, problem: Problem, model: LinearModel, streams: Streams, policy: FeelGood) -> None:
        self.prior = policy.prior_for(problem)
        super().__init__(problem, model, policy.ties, streams, self.prior.noise)
        self.policy, self.clock = policy, Clock(model.reference)
        self.keeps_sets = problem.contextual  # until it is played by an agent
        self.effective = np.zeros(len(problem))  # number of draws in the last decision: 1 / sum of squared weights
        if policy.bonus is None:
            problem.noise  # noqa: B018 - an unknown one is refused now

    def factor(self, t: float) -> float:
        """Weight of the best mean of a round, in round t."""
        if self.policy.bonus is not None:
            return self.policy.bonus
        rounds = t if self.problem.endless else self.problem.horizon
        return 1.0 / (max(self.problem.noise, LEAST_NOISE) * math.sqrt(rounds))

    def means(self, theta: FloatArray, offered: Array) -> FloatArray:
        """Means (..., N, K) of the arms offered, (..., K, d) or (..., d) if disjoint, by parameters (N, blocks, d)."""
        if self.problem.disjoint:
            return np.asarray(np.einsum("nkd,...d->...nk", theta, offered))
        used = np.flatnonzero(theta[:, 0].any(axis=0))
        size = int(used[-1]) + 1 if len(used) else 1  # 0 after the longest prefix that was drawn
        return np.asarray(theta[:, 0, :size] @ np.swapaxes(offered[..., :size], -1, -2))

    def best(self, means: FloatArray, allowed: Array | None) -> FloatArray:
        """min(cap, largest mean of those allowed)."""
        if allowed is not None:
            means = np.where(allowed, means, -math.inf)
        return np.asarray(np.minimum(means.max(axis=-1), self.policy.cap))

    def weights(self, logs: FloatArray, best: FloatArray, t: float) -> FloatArray:
        """Probability of every draw, given its log weight by the residuals and its mean best value of past rounds."""
        with np.errstate(over="ignore"):
            logs = logs + self.factor(t) * (t - 1.0) * (best - best.max())
            weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    def scores(self, rows: Replications) -> Array:
        return np.array([self._drawn(rows, position, 1, True)[0] for position in range(len(rows))])

    def resampled(self, rows: Replications, draws: int) -> Array:
        return self._drawn(rows, 0, draws, False)

    def _drawn(self, rows: Replications, position: int, count: int, decides: bool) -> FloatArray:
        """Means (count, K) by parameters drawn for one of `rows`, by its position; `decides` if that is a decision."""
        one = rows.pick(np.array([position]))
        offered, r = self.model.offered_inputs(one)[0], int(one.ids[0])
        t = float(self.clock.now(one, self.model.pulls)[0, 0])
        allowed = None if one.allowed is None else one.allowed[0]
        means, weights = self.weighted(one, r, offered, allowed, t)
        if decides:
            self.effective[r] = 1.0 / float(weights @ weights)
        steps = np.cumsum(weights)
        drawn = np.searchsorted(steps, self.normals.generators[r].random(count) * steps[-1], side="right")
        if decides and self.keeps_sets:
            self.keep(r, offered, allowed, means)
        return np.asarray(means[np.minimum(drawn, len(steps) - 1)])

    @abstractmethod
    def weighted(
        self, one: Replications, r: int, offered: Array, allowed: Array | None, t: float
    ) -> tuple[FloatArray, FloatArray]:
        """Means (N, K) of the arms offered to replication r by many parameters, and the weights (N,) of these."""

    @abstractmethod
    def keep(self, r: int, offered: Array, allowed: Array | None, means: FloatArray) -> None:
        """Take note of a set of arms offered."""

    def describe(self, r: int) -> dict[str, Any]:
        return {"effective_draws": float(self.effective[r])}

    def resume(self, decided: int, streams: Streams) -> None:
        super().resume(decided, streams)
        self.keeps_sets = False


class FeelGoodDraws(FeelGoodRule):
    """Parameters drawn in each round from the posterior without the bonus, which then draws one of them."""

    def __init__(self, problem: Problem, model: LinearModel, streams: Streams, policy: FeelGood) -> None:
        super().__init__(problem, model, streams, policy)
        count, kept = len(problem), KEPT_SETS if problem.contextual else 0
        arms = () if problem.disjoint else (problem.arms,)
        check_fits(8.0 * count * kept * problem.arms * model.dim, arms=problem.arms, dim=model.dim, replications=count)
        self.sets = np.zeros((count, kept, *arms, model.dim))
        self.sets_allowed = np.ones((count, kept, problem.arms), bool)
        self.offered = np.zeros(count, dtype=np.int64)  # sets so far

    def check_restored(self) -> None:
        """Refuse numbers of sets below 0."""
        check_positions(self, offered=LARGEST_INTEGER)

    def weighted(
        self, one: Replications, r: int, offered: Array, allowed: Array | None, t: float
    ) -> tuple[FloatArray, FloatArray]:
        posteriors, generator = posteriors_of(self.prior, self.model, one), self.normals.generators[r]
        steps, draws = np.cumsum(posteriors.probabilities[0]), self.policy.draws
        means, best = np.zeros((0, self.problem.arms)), np.zeros(0)
        for more in (draws, 3 * draws):
            at = np.minimum(np.searchsorted(steps, generator.random(more), side="right"), len(steps) - 1)
            normals = generator.standard_normal((more, self.model.offer.blocks, self.model.dim))
            theta = posteriors.draw(at[None], self.prior.noise * normals[None])[0]
            constant: Any = 0.0
            if self.prior.constant:  # less the mean reward
                wide = self.prior.noise / math.sqrt(posteriors.pulls[0])
                constant = (wide * generator.standard_normal(more) - theta[:, 0] @ posteriors.means[0])[:, None]
            new = self.means(theta, offered) + constant
            means = np.concatenate([means, new])
            best = np.concatenate([best, self._past_best(r, theta, constant, self.best(new, allowed))])
            weights = self.weights(np.zeros(len(best)), best, t)
            if 1.0 / (weights @ weights) >= min(FEW, draws):
                break
        return means, weights

    def _past_best(self, r: int, theta: FloatArray, constant: Any, present: FloatArray) -> FloatArray:
        """Mean over past sets of the best value of each parameter, by those that are kept."""
        kept = min(int(self.offered[r]), KEPT_SETS) if self.keeps_sets else 0
        if not kept:
            return present
        values = self.means(theta, self.sets[r, :kept]) + constant
        return np.asarray(self.best(values, self.sets_allowed[r, :kept, None, :]).mean(axis=0))

    def keep(self, r: int, offered: Array, allowed: Array | None, means: FloatArray) -> None:
        at = int(self.offered[r])
        if at >= KEPT_SETS:
            at = int(self.normals.generators[r].integers(at + 1))
        if at < KEPT_SETS:
            self.sets[r, at], self.sets_allowed[r, at] = offered, True if allowed is None else allowed
        self.offered[r] += 1


class FeelGoodParticles(FeelGoodRule):
    """Parameters drawn from the prior once, which the data and the bonus weigh."""

    def __init__(self, problem: Problem, model: LinearModel, streams: Streams, policy: FeelGood) -> None:
        super().__init__(problem, model, streams, policy)
        assert policy.particles is not None
        count, shape = policy.particles, (policy.particles, model.offer.blocks, model.dim)
        check_fits(16.0 * len(problem) * math.prod(shape), particles=count, dim=model.dim, replications=len(problem))
        prior, columns = self.prior, np.arange(model.dim)
        deviations = prior.noise / np.sqrt(np.tile(prior.ridges, len(prior.dims)))
        prefixes = np.repeat(prior.dims, len(prior.ridges))
        self.particles = np.zeros((len(problem), *shape))
        for particles, generator in zip(self.particles, streams.child(1).generators, strict=True):
            at = generator.choice(len(prefixes), size=count, p=prior.weights)
            kept = columns < prefixes[at][:, None]
            particles[:] = generator.standard_normal(shape) * (deviations[at][:, None] * kept)[:, None, :]
        self.total = np.zeros((len(problem), count))  # best values of past sets, summed

    def weighted(
        self, one: Replications, r: int, offered: Array, allowed: Array | None, t: float
    ) -> tuple[FloatArray, FloatArray]:
        self.model.prepare(one)
        means = self.means(self.particles[r], offered)
        best = self.total[r] / max(t - 1.0, 1.0) if self.keeps_sets else self.best(means, allowed)
        return means, self.weights(-0.5 * self._squares(one, r) / max(self.prior.noise, LEAST_NOISE) ** 2, best, t)

    def _squares(self, one: Replications, r: int) -> FloatArray:
        """Sum of squared residuals of every particle, up to the same number for all."""
        state, regressions = self.model.regression, self.model.offer.regressions(one)
        second, b, theta = regressions.of(state.second), regressions.of(state.b), self.particles[r]
        return np.asarray(np.einsum("nbi,bij,nbj->n", theta, second, theta) - 2.0 * np.einsum("nbi,bi->n", theta, b))

    def keep(self, r: int, offered: Array, allowed: Array | None, means: FloatArray) -> None:
        self.total[r] += self.best(means, allowed)
