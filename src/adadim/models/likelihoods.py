"""What a reward says about the mean of its arm: for Gaussian rewards nothing has to be done; for clicks, this.

A Bernoulli reward y, 0 or 1 or a share in between, has the mean p = 1 / (1 + exp(-eta)) with the logit eta = c + x^T
theta. Expanding its log likelihood to second order about a point (c_0, theta_0), where the logit is eta_0, gives a
weight and a working reward,

    v = p_0 (1 - p_0),   z = eta_0 + (y - p_0) / v,

with which everything of the linear model holds, for noise known to be 1: sums over v x x^T and v z x do not depend on
the order of the rewards, which may be late, replaced and faded, and a pending pull counts with its weight. Means are
logits, which order the arms as their probabilities do.

The point is the most probable parameter by the data so far (MAP), found by Newton's method from the data themselves
once there are half as many again as at the last time; just after that the linear model's estimate is the MAP, and until
the next time its later rewards enter through the expansion. Steps are halved until the posterior density rises.
Before two rewards of each kind there is nothing to fit: the point is then the overall rate, and no arm differs in mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from adadim.core.arrays import FloatArray
from adadim.core.state import check_positions
from adadim.models.priors import Belief, Prior
from adadim.models.statistics import Moments

Likelihood = Literal["gaussian", "bernoulli"]

MIN_OF_EACH_KIND = 2.0  # clicks, and rewards that are none, by weight, before parameters are fitted
GROWTH = 1.5  # of the number of rewards from one fit to the next
MAX_LOGIT = 30.0  # of an expansion: its weight is then 1e-13, and still a number to divide by
MAX_STEPS = 100
MAX_HALVINGS = 40
MAX_PASSES = 8  # choices of the prior in a fit; it seldom changes after the second
SETTLED_DECREMENT = 1e-10  # of Newton's method: the next step leaves an error of its order
SETTLED_OFFSET = 1e-9


class Trials(NamedTuple):
    """Pulls with their rewards, of parameters that share a prior."""

    features: FloatArray  # (n, d)
    rewards: FloatArray  # (n,), shares in [0, 1]
    weights: FloatArray  # (n,), how many pulls each stands for
    blocks: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None  # (n,), whose parameter each is; None if all one's

    def of(self, block: int) -> Trials:
        """Those of one parameter."""
        if self.blocks is None:
            return self
        at = self.blocks == block
        return Trials(self.features[at], self.rewards[at], self.weights[at])

    @property
    def decided(self) -> bool:
        """Whether there are enough rewards of each kind to fit parameters."""
        clicks = float(self.weights @ self.rewards)
        return min(clicks, float(self.weights.sum()) - clicks) >= MIN_OF_EACH_KIND


def last_due(count: int) -> int:
    """The number of rewards at which a fit was due last, when there are `count`: 1, 2, 3, 5, 8, 12, 18, 27, ..."""
    due = 0
    while (following := max(due + 1, math.ceil(GROWTH * due))) <= count:
        due = following
    return due


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


def expanded_moments(
    trials: Trials, points: FloatArray, pending: Trials | None = None, folded: Sequence[Moments] = ()
) -> list[Moments]:
    """Sums of the linear model over these trials about points (B, 1 + d), for each parameter.

    `pending` are pulls without rewards, and `folded` sums over further ones. Where too few rewards are of one kind, the
    working rewards of all are the logit, so that none differs from the others.
    """
    decided, moments = trials.decided or bool(folded), []
    for block, point in enumerate(points):
        part = trials.of(block)
        sums = folded[block].copy() if folded else Moments.zeros(trials.features.shape[1])
        weights, working = expansion(logits_at(point, part.features), part.rewards if decided else None)
        sums.add(part.features, working, part.weights * weights)
        if pending is not None and len(pending.rewards):
            open_part, counted = pending.of(block), sums.without_rewards().copy()
            weights, _ = expansion(logits_at(point, open_part.features))
            counted.add(open_part.features, np.zeros(len(weights)), open_part.weights * weights)
            sums = replace(sums, pending=counted.second, pending_first=counted.first, pending_weight=counted.weight)
        moments.append(replace(sums, count=float(part.weights.sum()), point=point))
    return moments


def fit(
    trials: Trials,
    prior: Prior,
    basis: tuple[float, FloatArray],
    blocks: int = 1,
    folded: Sequence[Moments] = (),
) -> FloatArray:
    """Points (B, 1 + d), a constant and coefficients for each parameter: the MAP under the prior that its data choose.

    It depends on these trials and no other state: the prior is chosen by the expansion about the overall rate, then by
    that about the MAP, until it stays. `folded` are sums over further pulls, which count as they are.
    """
    count = float(trials.weights.sum())
    rate = (float(trials.weights @ trials.rewards) + 0.5) / (count + 1.0)
    points = np.zeros((blocks, 1 + trials.features.shape[1]))
    points[:, 0] = math.log(rate / (1.0 - rate))
    if not trials.decided and not folded:
        return points
    before: Belief | None = None
    for _ in range(MAX_PASSES):
        belief = prior(expanded_moments(trials, points, folded=folded), *basis, 0)
        if before is not None and _same(belief, before):
            break
        before, precision, centre = belief, prior_precision(belief), belief.offset
        for block in range(blocks):
            part, fixed = trials.of(block), folded[block] if folded else None
            points[block] = most_probable(part, precision, centre, points[block], fixed)
    return points


def _same(one: Belief, other: Belief) -> bool:
    same_prior = one.ridge == other.ridge and np.array_equal(prior_precision(one), prior_precision(other))
    return same_prior and abs(one.offset - other.offset) <= SETTLED_OFFSET


def prior_precision(belief: Belief) -> FloatArray:
    """Prior precision (1 + d,) of the constant, about the offset of the belief, and of the coefficients, about 0."""
    assert belief.scale is not None
    return np.asarray(belief.ridge / belief.scale**2)


def most_probable(
    trials: Trials, precision: FloatArray, centre: float, start: FloatArray, folded: Moments | None = None
) -> FloatArray:
    """Constant and coefficients (1 + d,) of the largest posterior density, by Newton's method from `start`.

    `precision` (1 + d,) is that of a Gaussian prior about `centre` for the constant and 0 for the coefficients;
    `folded` are sums over further pulls as `expanded_moments` makes them.
    """
    x, y, weights, _ = trials
    theta, root = start.copy(), 1.0 / np.sqrt(precision)
    middle = np.zeros_like(theta)
    middle[0] = centre
    extended = None if folded is None else folded.with_constant()

    def density(theta: FloatArray) -> float:
        eta = x @ theta[1:] + theta[0]
        value = float(weights @ (y * eta - np.logaddexp(0.0, eta))) - 0.5 * float(precision @ (theta - middle) ** 2)
        if extended is not None:
            value += float(theta @ (extended.moment - 0.5 * (extended.second @ theta)))
        return value

    for _ in range(MAX_STEPS):
        eta = x @ theta[1:] + theta[0]
        p = expit(eta)
        gap, curvature = weights * (y - p), weights * p * expit(-eta)
        gradient = precision * (middle - theta)
        gradient[0] += gap.sum()
        gradient[1:] += gap @ x
        hessian = np.diag(precision)
        weighted = x * curvature[:, None]
        hessian[0, 0] += curvature.sum()
        hessian[0, 1:] += weighted.sum(axis=0)
        hessian[1:, 0] = hessian[0, 1:]
        hessian[1:, 1:] += weighted.T @ x
        if extended is not None:
            gradient += extended.moment - extended.second @ theta
            hessian += extended.second
        factor = cho_factor(hessian * (root[:, None] * root), check_finite=False)
        step = root * cho_solve(factor, root * gradient, check_finite=False)
        decrement = float(gradient @ step)
        if decrement <= SETTLED_DECREMENT:
            return np.asarray(theta + step)
        size, before = 1.0, density(theta)
        for _ in range(MAX_HALVINGS):
            if density(theta + size * step) >= before:
                break
            size /= 2
        theta = theta + size * step
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
        self.answered, self.fitted = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.decided = np.zeros(count, dtype=np.int64)  # decisions

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
        self.answered[r] += not math.isnan(reward)

    def resolve(self, r: int, number: int, reward: float) -> None:
        """Give the pending pull of this number its reward."""
        pulls = slice(0, int(self.fill[r]))
        pending = (self.numbers[r, pulls] == number) & np.isnan(self.rewards[r, pulls])
        self.rewards[r, np.argmax(pending)] = reward
        self.answered[r] += 1

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
        """Whether a replication has half as many rewards again as at its last fit."""
        fitted = int(self.fitted[r])
        return int(self.answered[r]) >= max(fitted + 1, math.ceil(GROWTH * fitted))

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
            else np.exp2((numbers // step - self.decided[r] // step) * step / memory)
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
