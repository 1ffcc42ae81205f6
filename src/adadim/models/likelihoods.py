"""What a reward says about the mean of its arm: for Gaussian rewards nothing has to be done; for clicks, this.

A Bernoulli reward y, 0 or 1 or a share in between, has the mean p = 1 / (1 + exp(-eta)) with the logit eta = c + x^T
theta. Expanding its log likelihood to second order about a point (c_0, theta_0), where the logit is eta_0, gives a
weight and a working reward,

    v = p_0 (1 - p_0),   z = eta_0 + (y - p_0) / v,

with which everything of the linear model holds, for noise known to be 1: sums over v x x^T and v z x do not depend on
the order of the rewards, which may be late, replaced and faded, and a pending pull counts with its weight. Means are
logits, which order the arms as their probabilities do.

The point is the most probable parameter by the data so far (MAP), found by Newton's method from the data themselves
once there are half as many again as at the last time, or a quarter more of the rarer kind of rewards, clicks or not:
the first click after thousands of rewards without one lies far outside an expansion about so low a rate. Just after
that the linear model's estimate is the MAP, and until the next time its later rewards enter through the expansion.
Steps are halved until the posterior density rises. Before two rewards of each kind there is nothing to fit: the point
is then the overall rate, and no arm differs in mean.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from adadim.core.arrays import Array, FloatArray
from adadim.core.checks import one_of
from adadim.core.problem import Problem
from adadim.core.rewards import BERNOULLI_REWARDS as CLICKS
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.models.offers import ArrivingRows, Memo
from adadim.models.parts import Likelihood, Memory, Numbers, Remade, Rewards
from adadim.models.priors import Belief, Prior
from adadim.models.statistics import Moments

MIN_OF_EACH_KIND = 2  # clicks, and rewards that are none, before parameters are fitted
GROWTH = 1.5  # of the number of rewards from one fit to the next
RARER_GROWTH = 1.25  # of the number of those of the rarer kind, clicks or not
MAX_LOGIT = 30.0  # of an expansion: its weight is then 1e-13, and still a number to divide by
MAX_STEPS = 100
MAX_HALVINGS = 40
MAX_CHOICES = 8  # of the prior in a fit; it seldom changes after the second
NEAR_DECREMENT = 0.1  # of Newton's method, from which the expansion is good enough to choose the prior again
SETTLED_DECREMENT = 1e-10  # the next step leaves an error of its order
BLOCK_ROWS = 512  # of trials, which stay in the cache of a processor
DENSITY_ROUNDING = 1e-13  # of a log density, relative to it, by which it may fall in a step that is no worse


class Trials(NamedTuple):
    """Pulls with their rewards, of parameters that share a prior."""

    features: FloatArray  # (n, d)
    rewards: FloatArray  # (n,), shares in [0, 1]
    weights: FloatArray  # (n,), how many pulls each stands for
    blocks: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None  # (n,), whose parameter each is; None if all one's
    replaced: FloatArray | None = None  # (n,), the rewards that these correct, NaN where it is a first one

    def of(self, block: int) -> Trials:
        """Those of one parameter."""
        if self.blocks is None:
            return self
        at = self.blocks == block
        return Trials(self.features[at], self.rewards[at], self.weights[at])

    def in_blocks(self) -> Iterator[Trials]:
        """The same a few rows at a time."""
        for start in range(0, len(self.rewards), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            blocks = None if self.blocks is None else self.blocks[part]
            replaced = None if self.replaced is None else self.replaced[part]
            yield Trials(self.features[part], self.rewards[part], self.weights[part], blocks, replaced)


def next_due(due: int, growth: float = GROWTH) -> int:
    """The number of rewards at which the next fit is due after the one at `due`."""
    return max(due + 1, math.ceil(growth * due))


def last_due(count: int, growth: float = GROWTH) -> int:
    """The number of rewards at which a fit was due last, when there are `count`: 1, 2, 3, 5, 8, 12, 18, 27, ..."""
    due = 0
    while (following := next_due(due, growth)) <= count:
        due = following
    return due


class Told(NamedTuple):
    """How many rewards were told, in their order, which says when a fit is due.

    Examples
    --------
    >>> told, due = Told().after(BERNOULLI, np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.0]))
    >>> [(at, then.due) for at, then in due]  # fits were due with rewards 1, 2, 3 and 5, a click
    [(0, (1, 0)), (1, (2, 0)), (2, (3, 0)), (4, (5, 1))]
    """

    number: int = 0
    clicks: float = 0.0  # their sum
    rarer: float = 0.0  # `ExpandedLikelihood.rarer`, of clicks or of rewards that are none: the most there have been

    @property
    def due(self) -> tuple[int, int]:
        """The numbers of rewards, and of those of the rarer kind, at which a fit was due last."""
        return last_due(self.number), last_due(int(self.rarer), RARER_GROWTH)

    def after(
        self, likelihood: ExpandedLikelihood, rewards: FloatArray, replaced: FloatArray | None = None
    ) -> tuple[Told, list[tuple[int, Told]]]:
        """The same after further rewards, and after those of them at which a fit was due, with their positions.

        Sums are taken one by one, so that they do not depend on how many come together.
        """
        if not len(rewards):
            return self, []
        first = np.ones(len(rewards), dtype=bool) if replaced is None else np.isnan(replaced)
        counts = self.number + np.cumsum(first)
        changes = rewards if replaced is None else np.where(first, rewards, rewards - np.where(first, 0.0, replaced))
        clicks = np.cumsum(np.concatenate([[self.clicks], changes]))[1:]
        rarer = np.maximum.accumulate(np.maximum(likelihood.rarer(clicks, counts), self.rarer))

        def told(at: int) -> Told:
            return Told(int(counts[at]), float(clicks[at]), float(rarer[at]))

        positions: set[int] = set()
        for values, growth, before in ((counts, GROWTH, self.number), (rarer, RARER_GROWTH, int(self.rarer))):
            due = last_due(before, growth)
            while (due := next_due(due, growth)) <= values[-1]:
                positions.add(int(np.searchsorted(values, due)))
        return told(-1), [(at, told(at)) for at in sorted(positions)]

    @property
    def decided(self) -> bool:
        """Whether there are enough rewards of each kind to fit parameters."""
        return self.rarer >= MIN_OF_EACH_KIND


def logits_at(point: FloatArray, features: FloatArray) -> FloatArray:
    """Logits (n,) of features (n, d) at points (1 + d,) or (n, 1 + d), as far as an expansion about them goes."""
    if point.ndim == 1:
        logits = features @ point[1:] + point[0]
    else:
        logits = np.vecdot(point[:, 1:], features) + point[:, 0]
    return np.asarray(np.clip(logits, -MAX_LOGIT, MAX_LOGIT))


class ExpandedLikelihood(Likelihood):
    """A likelihood that is expanded about a point: a weight and a working reward for each pull."""

    expands = True
    noise = 1.0

    def played(self, problem: Problem) -> tuple[Problem, Problem]:
        told = problem.with_rewards(self.kind.name)
        return told, told.with_noise(1.0)  # that of working rewards

    def check(self, rewards: Array) -> None:
        """Refuse rewards that there are none of."""
        for reward in rewards.tolist():
            self.kind.check(reward, "rewards")

    @abstractmethod
    def expansion(self, logits: FloatArray, rewards: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Weights v and working rewards z at these linear predictors; without rewards z is the predictor."""

    @abstractmethod
    def log_likelihoods(self, logits: FloatArray, rewards: FloatArray) -> FloatArray:
        """Log likelihood of each reward, up to what does not depend on the predictor; linear in the reward."""

    @abstractmethod
    def rarer(self, total: Any, number: Any) -> Any:
        """How much so many rewards of this sum say, as a number of rewards: parameters are fitted from 2 on."""

    @abstractmethod
    def centre(self, told: Told) -> float:
        """The predictor of the overall mean."""

    @abstractmethod
    def mean_rewards(self, logits: Array) -> Array:
        """Means of the rewards at these predictors."""

    def rewards(self, count: int, offer: Any) -> ExpandedRewards:
        return ExpandedRewards(self, count, offer)

    def weights(self, point: FloatArray | None, features: FloatArray) -> FloatArray:
        assert point is not None
        return self.expansion(logits_at(point, features))[0]

    def working(self, point: FloatArray | None, features: FloatArray, rewards: FloatArray) -> FloatArray:
        assert point is not None
        return self.expansion(logits_at(point, features), rewards)[1]

    def in_reward_units(self, scores: Array, costs: Array, offset: Any) -> Array:
        if np.ptp(costs) == 0.0:
            return scores  # where costs are the same for all arms, predictors tell more of them apart
        return self.mean_rewards(scores + offset())


class Bernoulli(ExpandedLikelihood):
    """Clicks, 0 or 1 or shares in between: the predictor is a logit."""

    kind = CLICKS

    def expansion(self, logits: FloatArray, rewards: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        p = expit(logits)
        weights = p * expit(-logits)
        return weights, logits if rewards is None else logits + (rewards - p) / weights

    def log_likelihoods(self, logits: FloatArray, rewards: FloatArray) -> FloatArray:
        return np.asarray(rewards * logits - np.logaddexp(0.0, logits))

    def rarer(self, total: Any, number: Any) -> Any:
        return np.minimum(total, number - total)

    def centre(self, told: Told) -> float:
        """Logit of the overall rate, half a click and half a reward that is none added."""
        rate = (min(max(told.clicks, 0.0), told.number) + 0.5) / (told.number + 1.0)
        return math.log(rate / (1.0 - rate))

    def mean_rewards(self, logits: Array) -> Array:
        return np.asarray(expit(logits))

    def estimates(self, mean: FloatArray, width2: FloatArray, noise: Any) -> tuple[FloatArray, FloatArray]:
        return probability_estimates(mean, width2)


BERNOULLI = Bernoulli()

LIKELIHOODS: dict[str, Likelihood] = {one.kind.name: one for one in (Likelihood(), BERNOULLI)}
"""What the parameter `likelihood` of a policy names."""


def likelihood_of(named: str | Likelihood) -> Likelihood:
    """A likelihood, by its name or as it is."""
    return named if isinstance(named, Likelihood) else LIKELIHOODS[named]


def checked_likelihood(value: Any, name: str = "likelihood") -> str:
    """Raise unless `value` is the name of a likelihood."""
    return str(one_of(value, name, tuple(LIKELIHOODS)))


def add_expanded(
    likelihood: ExpandedLikelihood, sums: Moments, trials: Trials, point: FloatArray, decided: bool = True
) -> float:
    """Add trials to the sums of the linear model about a point (1 + d,); gives their log likelihood at the point.

    Unless `decided`, working rewards are the logit, so that none differs from the others.
    """
    x, y, weights, _, replaced = trials
    logits = x @ point[1:] + point[0]
    bounded = np.clip(logits, -MAX_LOGIT, MAX_LOGIT)
    precisions, working = likelihood.expansion(bounded, y if decided else None)
    precisions = weights * precisions
    values = weights * likelihood.log_likelihoods(logits, y)
    if replaced is None:
        sums.add(x, working, precisions)
        return float(values.sum())
    first = np.isnan(replaced)
    later, old = ~first, replaced[~first]
    sums.add(x[first], working[first], precisions[first])
    _, before = likelihood.expansion(bounded[later], old if decided else None)
    sums.replace(x[later], before, working[later], precisions[later])
    return float(values[first].sum() + (weights[later] * logits[later]) @ (y[later] - old))


def expanded_moments(
    likelihood: ExpandedLikelihood, trials: Trials, points: FloatArray, decided: bool, pending: Trials | None = None
) -> list[Moments]:
    """Sums of the linear model over these trials about points (B, 1 + d), for each parameter.

    `pending` are pulls without rewards. Unless `decided`, no working reward differs from the others.
    """
    moments = []
    for block, point in enumerate(points):
        part, sums = trials.of(block), Moments.zeros(trials.features.shape[1])
        add_expanded(likelihood, sums, part, point, decided)
        if pending is not None and len(pending.rewards):
            open_part, counted = pending.of(block), sums.without_rewards().copy()
            weights = likelihood.weights(point, open_part.features)
            counted.add(open_part.features, np.zeros(len(weights)), open_part.weights * weights)
            sums = replace(sums, pending=counted)
        moments.append(replace(sums, count=float(part.weights.sum()), point=point))
    return moments


class _Passes:
    """Passes over the trials of one parameter, in batches; `folded` are sums over further pulls, which stay."""

    def __init__(self, likelihood: ExpandedLikelihood, batches: Iterable[Trials], folded: Moments | None) -> None:
        self.likelihood, self.batches, self.folded = likelihood, batches, folded
        self._last: tuple[FloatArray, Moments, float] | None = None

    def at(self, point: FloatArray) -> tuple[Moments, float]:
        """Sums of the linear model about a point, and the log likelihood there."""
        if self._last is None or not np.array_equal(self._last[0], point):
            sums, value = Moments.zeros(len(point) - 1), 0.0
            if self.folded is not None:
                sums, extended = self.folded.copy(), self.folded.with_constant()
                value = float(point @ (extended.moment - 0.5 * (extended.second @ point)))
            for trials in self.batches:
                for part in trials.in_blocks():
                    value += add_expanded(self.likelihood, sums, part, point)
            self._last = point.copy(), sums, value
        return self._last[1:]

    def step(self, theta: FloatArray, precision: FloatArray, centre: float) -> tuple[FloatArray, float]:
        """The step of Newton's method from a point, and twice by how much it would raise a quadratic density."""
        root, sums = 1.0 / np.sqrt(precision), self.at(theta)[0].with_constant()
        gradient = sums.moment - sums.second @ theta - precision * _less(theta, centre)  # v z = v eta + y - p
        factor = cho_factor((sums.second + np.diag(precision)) * (root[:, None] * root), check_finite=False)
        step = root * cho_solve(factor, root * gradient, check_finite=False)
        return step, float(gradient @ step)

    def raised(self, theta: FloatArray, step: FloatArray, precision: FloatArray, centre: float) -> FloatArray:
        """The point after a step, which is halved until the posterior density rises."""

        def density(point: FloatArray) -> float:
            return self.at(point)[1] - 0.5 * float(precision @ _less(point, centre) ** 2)

        value = density(theta)
        least, size = value - DENSITY_ROUNDING * abs(value), 1.0
        for _ in range(MAX_HALVINGS):
            following = theta + size * step
            if density(following) >= least:
                break
            size /= 2
        return following


def _less(theta: FloatArray, centre: float) -> FloatArray:
    """A point less that of the largest prior density."""
    return np.concatenate([[theta[0] - centre], theta[1:]])


def fit(
    likelihood: ExpandedLikelihood,
    parameters: Sequence[Iterable[Trials]],
    prior: Prior,
    basis: tuple[float, FloatArray],
    told: Told,
    folded: Moments | None = None,
) -> FloatArray:
    """Points (B, 1 + d), a constant and coefficients for each parameter: the MAP under the prior that its data choose.

    `parameters` are the trials of each, in batches which are passed over several times, so that they need not be held
    in memory. The result depends on these trials and no other state: the prior is chosen by the expansion about the
    overall rate, and again before every step near the MAP, until it stays. `folded` are sums over further pulls of the
    only parameter, which count as they are.
    """
    points = np.zeros((len(parameters), 1 + len(basis[1])))
    points[:, 0] = likelihood.centre(told)
    if not told.decided:
        return points
    passes = [_Passes(likelihood, batches, folded) for batches in parameters]
    belief: Belief | None = None
    choices, decrement = 0, 0.0
    for _ in range(MAX_STEPS):
        stays = choices == MAX_CHOICES
        if choices < MAX_CHOICES and decrement <= NEAR_DECREMENT:
            data = [one.at(point)[0] for one, point in zip(passes, points, strict=True)]
            before, belief = belief, prior(data, *basis, 0)
            choices, stays = choices + 1, before is not None and _same(before, belief)
        assert belief is not None
        precision, centre = prior_precision(belief), belief.offset
        steps = [one.step(point, precision, centre) for one, point in zip(passes, points, strict=True)]
        decrement = sum(rise for _, rise in steps)
        if stays and decrement <= SETTLED_DECREMENT:
            return np.asarray(points + np.array([step for step, _ in steps]))
        for at, (step, _) in enumerate(steps):
            points[at] = passes[at].raised(points[at], step, precision, centre)
    return points


def _same(one: Belief, other: Belief) -> bool:
    """Whether two beliefs differ in the offset at most, which follows the point."""
    return one.ridge == other.ridge and np.array_equal(prior_precision(one), prior_precision(other))


def prior_precision(belief: Belief) -> FloatArray:
    """Prior precision (1 + d,) of the constant, about the offset of the belief, and of the coefficients, about 0."""
    assert belief.scale is not None
    return np.asarray(belief.ridge / belief.scale**2)


def probability_estimates(mean: FloatArray, width2: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Probabilities and their standard deviations, by logits and their variances.

    The deviation is that of the logit times p (1 - p), and at most what keeps p plus or minus twice it in [0, 1].
    """
    p = expit(mean)
    deviation = p * expit(-mean) * np.sqrt(np.maximum(width2, 0.0))
    return p, np.minimum(deviation, 0.5 * np.minimum(p, 1.0 - p))


class PastTrials:
    """The pulls of every replication and their rewards, from which points are fitted; and these points.

    Of arms that stay their positions are kept, where features come with the round these too. `rewards` are NaN while
    they are pending; `numbers` count the decisions, by which pulls are found and fade. `points` are (R, B, 1 + d).
    """

    changes_shape = ("arms", "features", "numbers", "rewards")

    def __init__(self, likelihood: ExpandedLikelihood, count: int, dim: int, blocks: int, contextual: bool) -> None:
        self.likelihood = likelihood
        self.points = np.zeros((count, blocks, 1 + dim))
        self.arms, self.numbers = np.zeros((count, 1), dtype=np.int64), np.zeros((count, 1), dtype=np.int64)
        self.features, self.rewards = np.zeros((count, int(contextual), dim)), np.full((count, 1), np.nan)
        self.fill = np.zeros(count, dtype=np.int64)  # pulls that are kept
        self.answered, self.clicks, self.rarer = np.zeros(count, dtype=np.int64), np.zeros(count), np.zeros(count)
        self.fitted = np.zeros((count, 2), dtype=np.int64)  # `Told.due` as of the last fit

    def check_restored(self) -> None:
        """Refuse more pulls than there is room for."""
        check_positions(self, fill=self.rewards.shape[1] + 1)

    def add(self, r: int, arm: int, features: FloatArray, number: int, reward: float) -> None:
        """Keep a pull of replication `r`; a reward of NaN is pending."""
        at = int(self.fill[r])
        if at == self.rewards.shape[1]:
            for name in self.changes_shape:
                kept = getattr(self, name)
                setattr(self, name, np.concatenate([kept, np.full_like(kept, np.nan if name == "rewards" else 0)], 1))
        self.arms[r, at], self.numbers[r, at], self.rewards[r, at] = arm, number, reward
        if self.features.shape[1]:
            self.features[r, at] = features
        self.fill[r] = at + 1
        if not math.isnan(reward):
            self._count(r, reward)

    def resolve(self, r: int, number: int, reward: float) -> None:
        """Give the pending pull of this number its reward."""
        pulls = slice(0, int(self.fill[r]))
        pending = (self.numbers[r, pulls] == number) & np.isnan(self.rewards[r, pulls])
        self.rewards[r, np.argmax(pending)] = reward
        self._count(r, reward)

    def _count(self, r: int, reward: float) -> None:
        self.answered[r] += 1
        self.clicks[r] += reward
        self.rarer[r] = max(self.rarer[r], self.likelihood.rarer(self.clicks[r], self.answered[r]))

    def recount(self, r: int, weigh: Callable[[Numbers], FloatArray | None]) -> None:
        """Count the rewards of a replication by the weights of their decisions, as fits are due from now on."""
        answered = np.flatnonzero(~np.isnan(self.rewards[r, : self.fill[r]]))
        rewards, weights = self.rewards[r, answered], weigh(self.numbers[r, answered])
        weights = np.ones(len(rewards)) if weights is None else weights
        self.answered[r], self.clicks[r] = round(float(weights.sum())), float(weights @ rewards)
        self.rarer[r] = self.likelihood.rarer(self.clicks[r], self.answered[r])

    def told(self, r: int) -> Told:
        """How many rewards a replication has, or those that count since they were counted anew."""
        return Told(int(self.answered[r]), float(self.clicks[r]), float(self.rarer[r]))

    def clear_pending(self) -> None:
        """Forget the pulls that are pending."""
        for r, count in enumerate(self.fill.tolist()):
            at = np.flatnonzero(~np.isnan(self.rewards[r, :count]))
            for kept in (self.arms, self.numbers, self.features, self.rewards):
                if kept.shape[1]:
                    kept[r, : len(at)] = kept[r, at]
            self.rewards[r, len(at) :] = np.nan
            self.fill[r] = len(at)

    def fit_is_due(self, r: int) -> bool:
        """Whether a replication has so many more rewards than at its last fit that another is due."""
        return self.told(r).due != tuple(self.fitted[r].tolist())

    def decided(self, ids: Any) -> Any:
        """Whether the last fit of replications had enough rewards of each kind."""
        return self.fitted[ids, 1] >= MIN_OF_EACH_KIND

    def of(
        self,
        r: int,
        staying: FloatArray | None,
        by_arm: bool,
        weigh: Callable[[Numbers], FloatArray | None] = lambda numbers: None,
    ) -> tuple[Trials, Trials]:
        """The trials of a replication, answered and pending; pulls of an arm (K, d) that stays count together.

        `weigh` gives the weights of pulls by the numbers of their decisions, None for 1.
        """
        pulls = slice(0, int(self.fill[r]))
        arms, rewards, numbers = self.arms[r, pulls], self.rewards[r, pulls], self.numbers[r, pulls]
        weights = weigh(numbers)
        weights = np.ones(len(arms)) if weights is None else weights
        is_pending, parts = np.isnan(rewards), []
        for at in (np.flatnonzero(~is_pending), np.flatnonzero(is_pending)):
            if staying is None:
                x, y, w = self.features[r, at], rewards[at], weights[at]
                parts.append(Trials(x, y, w, arms[at] if by_arm else None))
                continue
            counts = np.bincount(arms[at], weights[at], minlength=len(staying)).astype(np.float64)
            clicks = np.bincount(arms[at], weights[at] * rewards[at], minlength=len(staying))
            pulled = np.flatnonzero(counts)
            parts.append(Trials(staying[pulled], clicks[pulled] / counts[pulled], counts[pulled]))
        return parts[0], parts[1]

    def squares(self) -> FloatArray:
        """Sums of squared rewards of every replication, (R,)."""
        return np.asarray(np.nansum(self.rewards**2, axis=1))


class ExpandedRewards(Rewards):
    """What a model keeps of rewards that it expands about a point: the pulls, from which points are fitted."""

    fits = True

    def __init__(self, likelihood: ExpandedLikelihood, count: int, offer: ArrivingRows) -> None:
        self.likelihood, self.offer = likelihood, offer
        self.trials = PastTrials(likelihood, count, offer.dim, offer.blocks, offer.problem.contextual)

    def keep(self, arms: Array, rewards: Array | None, rows: Replications, memo: Memo) -> None:
        offer, contextual = self.offer, self.offer.problem.contextual
        if rewards is not None:
            self.likelihood.check(rewards)
        values = [math.nan] * len(rows) if rewards is None else rewards.tolist()
        numbers = memo["decision"].astype(np.int64).tolist()
        at = np.zeros(len(rows), dtype=np.int64) if offer.blocks == 1 and contextual else arms
        at = offer.positions(at)
        features = offer.pulled_features(arms, rows, memo) if contextual else at
        for i, (r, number, reward) in enumerate(zip(rows.ids.tolist(), numbers, values, strict=True)):
            self.trials.add(r, int(at[i]), features[i], number, reward)

    def resolve(self, rewards: Array, rows: Replications, memo: Memo) -> None:
        self.likelihood.check(rewards)
        for r, number, reward in zip(rows.ids.tolist(), memo["decision"].tolist(), rewards.tolist(), strict=True):
            self.trials.resolve(r, number, reward)

    def clear_pending(self) -> None:
        self.trials.clear_pending()

    def expand(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> tuple[Array | None, Array]:
        logits = self._logits(arms, rows, memo)
        weights, working = self.likelihood.expansion(logits, rewards)
        working = np.where(self.trials.decided(rows.ids), working, logits)  # until then no arm differs in mean
        return np.sqrt(weights), working

    def roots(self, arms: Array, rows: Replications, memo: Memo) -> Array:
        return np.sqrt(self.likelihood.expansion(self._logits(arms, rows, memo))[0])

    def roots_in_turn(self, rounds: Iterable[Array]) -> Iterable[Array]:
        point = self.trials.points[0, 0]
        return (np.sqrt(self.likelihood.weights(point, arms)) for arms in rounds)

    def _logits(self, arms: Array, rows: Replications, memo: Memo) -> FloatArray:
        """Logits of the arms pulled at the points of these replications."""
        points = self.trials.points[rows.ids, arms if self.offer.blocks > 1 else 0]
        return logits_at(points, self.offer.pulled_features(arms, rows, memo))

    def due(self, rows: Replications) -> list[int]:
        return [r for r in rows.ids.tolist() if self.trials.fit_is_due(r)]

    def recount(self, r: int, memory: Memory, number: int) -> None:
        self.trials.recount(r, lambda at: memory.weights(r, at, number))

    def sums(self, r: int, prior: Prior, memory: Memory, number: int) -> Remade:
        """The sums about the MAP by the pulls of a replication, which becomes its point."""
        offer, trials = self.offer, self.trials
        staying = None if offer.staying is None else offer.staying[r]
        answered, pending = trials.of(r, staying, offer.blocks > 1, lambda at: memory.weights(r, at, number))
        told, parameters = trials.told(r), [[answered.of(block)] for block in range(offer.blocks)]
        trials.points[r] = fit(self.likelihood, parameters, prior, offer.basis(r), told)
        trials.fitted[r] = told.due
        data = expanded_moments(self.likelihood, answered, trials.points[r], told.decided, pending)
        waiting = (0.0 if one.pending is None else max(0.0, one.pending.weight - one.weight) for one in data)
        return Remade(data, number, sum(waiting))

    def restart(self, sums: Moments) -> None:
        self.trials = PastTrials(self.likelihood, 1, self.offer.dim, 1, contextual=True)
        self.trials.points[0, 0] = 0.0 if sums.point is None else sums.point

    def unweighted(self, data: list[Moments], pulls: Sequence[float]) -> list[Moments]:
        for one, count in zip(data, pulls, strict=True):  # their weights are precisions, and what is n counts
            one.fade(count / one.weight if one.weight else 1.0)
        return data

    def squares(self) -> FloatArray:
        return self.trials.squares()

    def describe(self, r: int) -> dict[str, Any]:
        return {"likelihood": self.likelihood.kind.name}
