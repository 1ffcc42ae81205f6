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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from adadim.core.arrays import FloatArray
from adadim.core.state import check_positions
from adadim.models.priors import Belief, Prior
from adadim.models.statistics import Moments

Likelihood = Literal["gaussian", "bernoulli"]

MIN_OF_EACH_KIND = 2  # clicks, and rewards that are none, before parameters are fitted
GROWTH = 1.5  # of the number of rewards from one fit to the next
RARER_GROWTH = 1.25  # of the number of those of the rarer kind, clicks or not
MAX_LOGIT = 30.0  # of an expansion: its weight is then 1e-13, and still a number to divide by
MAX_STEPS = 100
MAX_HALVINGS = 40
MAX_CHOICES = 8  # of the prior in a fit; it seldom changes after the second
NEAR_DECREMENT = 0.1  # of Newton's method, from which the expansion is good enough to choose the prior again
SETTLED_DECREMENT = 1e-10  # the next step leaves an error of its order
BLOCK_ROWS = 256  # of trials, which stay in the cache of a processor
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


def last_due(count: int, growth: float = GROWTH) -> int:
    """The number of rewards at which a fit was due last, when there are `count`: 1, 2, 3, 5, 8, 12, 18, 27, ..."""
    due = 0
    while (following := max(due + 1, math.ceil(growth * due))) <= count:
        due = following
    return due


class Told(NamedTuple):
    """How many rewards were told, in their order, which says when a fit is due.

    Examples
    --------
    >>> told, at = Told().after(np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.0]))
    >>> told.due, at  # the last of these fits was due at position 4, with the click
    ((5, 1), 4)
    """

    number: int = 0
    clicks: float = 0.0  # their sum
    rarer: float = 0.0  # clicks, or rewards that are none, whichever are fewer: the most there have been

    @property
    def due(self) -> tuple[int, int]:
        """The numbers of rewards, and of those of the rarer kind, at which a fit was due last."""
        return last_due(self.number), last_due(int(self.rarer), RARER_GROWTH)

    def after(self, rewards: FloatArray, replaced: FloatArray | None = None) -> tuple[Told, int | None]:
        """The same after further rewards, and the position of the last one at which a fit was due; None if none was.

        Sums are taken one by one, so that they do not depend on how many come together.
        """
        if not len(rewards):
            return self, None
        first = np.ones(len(rewards), dtype=bool) if replaced is None else np.isnan(replaced)
        counts = self.number + np.cumsum(first)
        changes = rewards if replaced is None else np.where(first, rewards, rewards - np.where(first, 0.0, replaced))
        clicks = np.cumsum(np.concatenate([[self.clicks], changes]))[1:]
        rarer = np.maximum.accumulate(np.maximum(np.minimum(clicks, counts - clicks), self.rarer))
        told = Told(int(counts[-1]), float(clicks[-1]), float(rarer[-1]))
        if told.due == self.due:
            return told, None
        number, few = told.due
        return told, int(max(np.searchsorted(counts, number), np.searchsorted(rarer, few)))

    @property
    def decided(self) -> bool:
        """Whether there are enough rewards of each kind to fit parameters."""
        return self.rarer >= MIN_OF_EACH_KIND

    @property
    def rate_logit(self) -> float:
        """Logit of the overall rate, half a click and half a reward that is none added."""
        rate = (min(max(self.clicks, 0.0), self.number) + 0.5) / (self.number + 1.0)
        return math.log(rate / (1.0 - rate))


def logits_at(point: FloatArray, features: FloatArray) -> FloatArray:
    """Logits (n,) of features (n, d) at points (1 + d,) or (n, 1 + d), as far as an expansion about them goes."""
    if point.ndim == 1:
        logits = features @ point[1:] + point[0]
    else:
        logits = np.vecdot(point[:, 1:], features) + point[:, 0]
    return np.asarray(np.clip(logits, -MAX_LOGIT, MAX_LOGIT))


def expansion(logits: FloatArray, rewards: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Weights v and working rewards z at these logits; without rewards z is the logit, as if y were p."""
    p = expit(logits)
    weights = p * expit(-logits)
    return weights, logits if rewards is None else logits + (rewards - p) / weights


def add_expanded(sums: Moments, trials: Trials, point: FloatArray, decided: bool = True) -> float:
    """Add trials to the sums of the linear model about a point (1 + d,); gives their log likelihood at the point.

    Unless `decided`, working rewards are the logit, so that none differs from the others.
    """
    x, y, weights, _, replaced = trials
    logits = x @ point[1:] + point[0]
    bounded = np.clip(logits, -MAX_LOGIT, MAX_LOGIT)
    precisions, working = expansion(bounded, y if decided else None)
    precisions = weights * precisions
    values = weights * (y * logits - np.logaddexp(0.0, logits))
    if replaced is None:
        sums.add(x, working, precisions)
        return float(values.sum())
    first = np.isnan(replaced)
    later, old = ~first, replaced[~first]
    sums.add(x[first], working[first], precisions[first])
    _, before = expansion(bounded[later], old if decided else None)
    sums.replace(x[later], before, working[later], precisions[later])
    return float(values[first].sum() + (weights[later] * logits[later]) @ (y[later] - old))


def expanded_moments(trials: Trials, points: FloatArray, decided: bool, pending: Trials | None = None) -> list[Moments]:
    """Sums of the linear model over these trials about points (B, 1 + d), for each parameter.

    `pending` are pulls without rewards. Unless `decided`, no working reward differs from the others.
    """
    moments = []
    for block, point in enumerate(points):
        part, sums = trials.of(block), Moments.zeros(trials.features.shape[1])
        add_expanded(sums, part, point, decided)
        if pending is not None and len(pending.rewards):
            open_part, counted = pending.of(block), sums.without_rewards().copy()
            weights, _ = expansion(logits_at(point, open_part.features))
            counted.add(open_part.features, np.zeros(len(weights)), open_part.weights * weights)
            sums = replace(sums, pending=counted.second, pending_first=counted.first, pending_weight=counted.weight)
        moments.append(replace(sums, count=float(part.weights.sum()), point=point))
    return moments


class _Passes:
    """Passes over the trials of one parameter, in batches; `folded` are sums over further pulls, which stay."""

    def __init__(self, batches: Iterable[Trials], folded: Moments | None) -> None:
        self.batches, self.folded = batches, folded
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
                    value += add_expanded(sums, part, point)
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
    points[:, 0] = told.rate_logit
    if not told.decided:
        return points
    passes = [_Passes(batches, folded) for batches in parameters]
    belief: Belief | None = None
    choices, decrement = 0, 0.0
    for _ in range(MAX_STEPS):
        stays = choices == MAX_CHOICES
        if choices < MAX_CHOICES and decrement <= NEAR_DECREMENT:
            before, belief = (
                belief,
                prior([one.at(point)[0] for one, point in zip(passes, points, strict=True)], *basis, 0),
            )
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


def most_probable(
    batches: Iterable[Trials], precision: FloatArray, centre: float, start: FloatArray, folded: Moments | None = None
) -> FloatArray:
    """Constant and coefficients (1 + d,) of the largest posterior density, by Newton's method from `start`.

    `precision` (1 + d,) is that of a Gaussian prior about `centre` for the constant and 0 for the coefficients;
    `folded` are sums over further pulls as `expanded_moments` makes them.
    """
    passes, theta = _Passes(batches, folded), start
    for _ in range(MAX_STEPS):
        step, decrement = passes.step(theta, precision, centre)
        if decrement <= SETTLED_DECREMENT:
            return theta + step
        theta = passes.raised(theta, step, precision, centre)
    return theta


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

    def __init__(self, count: int, dim: int, blocks: int, contextual: bool) -> None:
        self.points = np.zeros((count, blocks, 1 + dim))
        self.arms, self.numbers = np.zeros((count, 1), dtype=np.int64), np.zeros((count, 1), dtype=np.int64)
        self.features, self.rewards = np.zeros((count, int(contextual), dim)), np.full((count, 1), np.nan)
        self.fill = np.zeros(count, dtype=np.int64)  # pulls that are kept
        self.answered, self.clicks, self.rarer = np.zeros(count, dtype=np.int64), np.zeros(count), np.zeros(count)
        self.fitted = np.zeros((count, 2), dtype=np.int64)  # `Told.due` as of the last fit
        self.numbered = np.zeros(count, dtype=np.int64)  # decisions

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
        self.rarer[r] = max(self.rarer[r], min(self.clicks[r], self.answered[r] - self.clicks[r]))

    def told(self, r: int) -> Told:
        """How many rewards a replication has."""
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
        self, r: int, staying: FloatArray | None, by_arm: bool, memory: float | None, step: int = 1
    ) -> tuple[Trials, Trials]:
        """The trials of a replication, answered and pending; pulls of an arm (K, d) that stays count together.

        With a half-life `memory`, decisions age `step` at a time.
        """
        pulls = slice(0, int(self.fill[r]))
        arms, rewards, numbers = self.arms[r, pulls], self.rewards[r, pulls], self.numbers[r, pulls]
        weights = (
            np.ones(len(arms))
            if memory is None
            else np.exp2((numbers // step - self.numbered[r] // step) * step / memory)
        )
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
