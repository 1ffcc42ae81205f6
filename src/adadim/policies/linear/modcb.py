"""ModCB (Foster, Krishnamurthy and Luo 2019): go on in a larger class of features when a test asks for it.

Within a class it plays SquareCB, LinUCB, or Exp4-IX over linear policies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.checks import between, integer, not_negative, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import argmax
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import noise_radius
from adadim.policies.linear.residual import ExploredSums
from adadim.policies.linear.round_learner import (
    ClassDims,
    Offers,
    RoundLearner,
    RoundRegression,
    class_dims,
)
from adadim.policies.masters.base import loss
from adadim.policies.parameters import Delta, LossRange, Ridge
from adadim.policies.player import marked, merged, part_of, sampled, unmarked

LEAST_EXPLORED = 20

Mask = np.ndarray[Any, np.dtype[np.bool]]
TestConstant = Annotated[float, partial(positive, meaning="a constant of the theory's test, e.g. 1")]


@dataclass(frozen=True)
class ModCB(Policy):
    """Play in a small class of features until pulls of random arms show that a larger one explains more.

    A share of the rounds pulls an arm at random; from these, `adadim.estimate_residual` tells how much of the reward
    the current class leaves unexplained, with sqrt(d) samples where estimating theta would need d. Use it where sets
    are drawn anew each round and uniform exploration is affordable; `EvidenceLinUCB` has much less regret in the
    problems measured here, since it does not set rounds aside.

    Parameters
    ----------
    dims : tuple of int, optional
        Dimensions of the nested classes, increasing; by default 1, 2, 4, ... and d.
    base : {"squarecb", "linucb", "exp4-ix"}
        What plays in a class. SquareCB degrades gracefully while the class is too small, LinUCB does not. Exp4-IX is
        what the theory has, over exponentially many linear policies; here over `experts` random ones.
    test : {"error", "theory"}
        When a class is left: the residual is above `q` standard errors with q = sqrt(2 ln(M T / delta)), or above
        twice the theory's threshold, which at practical horizons never happens.
    kappa : float
        Round t explores with probability min(1, `exploration` t^-kappa); 1/3 or 1/4 in the theory.
    exploration : float, optional
        As above; None for the theory's K^kappa.
    every : int, optional
        Rounds between tests; by default T/100 for "error", and 1 for "theory".
    delta : float, optional
        Confidence; 1/sqrt(T) by default.
    ridge : float
        Regularisation of the regressions of "squarecb" and "linucb".
    gamma : float
        Factor on SquareCB's sqrt(K T / (d ln T)) / sigma.
    floor : float
        Eigenvalues of second moments are raised to at least this much; above 0 it is the variant for features that are
        nearly dependent.
    c1, c2, tau, gam : float
        Constants of the "theory" test: its factors, the sub-Gaussian scale of the features and the least eigenvalue
        of their second moment.
    experts : int
        Number of policies of "exp4-ix".
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0, for "exp4-ix".

    Notes
    -----
    For i.i.d. sets whose arm-averaged second moment is at least gam, and the theory's base and test: regret
    O~(T^(2/3) d*^(1/3)) with kappa = 1/3, O~(T^(3/4) + sqrt(T d*)) with 1/4. Known beforehand: T, gam and tau. The
    constants c1, c2, the powers of tau and gam and the first rounds of tests are unverified against the source. A fixed
    set is an i.i.d. one that happens to repeat; its second moment may be singular, and inverses are then those on
    its range.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.contexts(arms=5, dim=16, intrinsic_dim=6, horizon=600, noise=0.05)
    >>> outcome = adadim.simulate(adadim.ModCB(), instance)
    >>> outcome.learner.describe()[0]["dim"]
    8
    """

    dims: ClassDims | None = None
    base: Literal["squarecb", "linucb", "exp4-ix"] = "squarecb"
    test: Literal["error", "theory"] = "error"
    kappa: Annotated[float, partial(between, low=0, high=1, ends="()")] = 1 / 3
    exploration: Annotated[float, partial(positive, meaning="c in c t^-kappa, or None for K^kappa")] | None = 1.0
    every: Annotated[int, partial(integer, meaning="rounds between tests, or None")] | None = None
    delta: Delta | None = None
    ridge: Ridge = 1.0
    gamma: Annotated[float, partial(positive, meaning="a factor on SquareCB's learning rate, e.g. 1")] = 1.0
    floor: Annotated[float, not_negative] = 0.0
    c1: TestConstant = 1.0
    c2: TestConstant = 1.0
    tau: TestConstant = 1.0
    gam: TestConstant = 1.0
    experts: Annotated[int, partial(integer, most=10**6, meaning="the number of linear policies")] = 100
    loss_range: LossRange = (-1.0, 1.0)

    def exploration_rate(self, t: Any, arms: int) -> Any:
        """Probability mu_t that round t pulls a random arm."""
        factor = arms**self.kappa if self.exploration is None else self.exploration
        return np.minimum(1.0, factor * np.asarray(t, dtype=float) ** -self.kappa)

    def threshold(self, dim: int, t: float, arms: int, classes: int, horizon: int) -> float:
        """a_{m,t} of the theory: twice this much residual makes it leave a class."""
        log = math.log(2 / self._delta0(classes, horizon))
        spread = math.sqrt(dim) * math.log(2 * dim / self._delta0(classes, horizon)) ** 2
        first = self.tau**6 / self.gam**4 * spread / (arms**self.kappa * t ** (1 - self.kappa))
        return float(self.c1 * (first + self.tau**10 / self.gam**8 * dim * log / t))

    def first_test(self, dim: int, arms: int, classes: int, horizon: int) -> float:
        """tmin_m of the theory: no test against a class of this dimension is made before."""
        log = math.log(2 / self._delta0(classes, horizon))
        return float(self.c2 * (self.tau**4 / self.gam**2 * dim * log + log ** (1 / (1 - self.kappa)) + arms) + 1)

    def quantile(self, classes: int, horizon: int) -> float:
        """How many standard errors of residual make it leave a class."""
        return math.sqrt(2 * math.log(classes * horizon / self.confidence(horizon)))

    def confidence(self, horizon: int) -> float:
        """delta, by default 1/sqrt(T)."""
        return self.delta or min(0.5, 1 / math.sqrt(horizon))

    def _delta0(self, classes: int, horizon: int) -> float:
        return self.confidence(horizon) / (10 * classes**2 * horizon**2)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return ModCBLearner(self, problem, streams)


class ModCBLearner(RoundLearner):
    """State of `ModCB`: the class, what was explored, and a learner for each class."""

    needs_sets = "iid"

    def __init__(self, policy: ModCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.dims = policy, class_dims(policy.dims, problem.dim)
        self.current = np.zeros(len(problem), dtype=np.int64)
        self.explored = ExploredSums(problem, self.offers, self.dims[-1], policy.floor)
        self.every = policy.every or (1 if policy.test == "theory" else math.ceil(problem.horizon / 100))
        self.learners = [self._class_learner(d_m, streams.child(m + 1)) for m, d_m in enumerate(self.dims)]

    def _class_learner(self, dim: int, streams: Streams) -> ClassLearner:
        policy, problem = self.policy, self.problem
        if policy.base == "squarecb":
            return SquareCB(problem, self.offers, dim, policy.ridge, policy.gamma)
        if policy.base == "linucb":
            return Optimist(problem, self.offers, dim, policy.ridge)
        delta = policy.confidence(problem.horizon)
        return LinearPolicies(problem, dim, policy.experts, delta, policy.loss_range, streams)

    def decide(self, features: FloatArray, rows: Rows) -> tuple[IntArray, Memo]:
        allowed = self.offered_mask(features, rows)
        explore, uniforms = self.chance.uniforms(rows), self.chance.uniforms(rows)
        rate = self.policy.exploration_rate(self.clock[rows.ids] + 1, self.problem.arms)
        self.explored.offered(features, rows)
        labels = np.where(explore < rate, -1, self.current[rows.ids])
        arms = np.zeros(len(rows), dtype=np.int64)
        parts: list[tuple[Any, Memo]] = []
        for label in np.unique(labels).tolist():
            at = np.flatnonzero(labels == label)
            if label < 0:
                arms[at] = sampled(allowed[at].astype(float), uniforms[at])
                parts.append((at, {}))
                continue
            seen = features[..., : self.dims[label]]  # a copy of all features would be dear
            seen = seen if len(at) == len(rows) else seen[at]
            chosen, memo = self.learners[label].decide(seen, allowed[at], rows.pick(at), uniforms[at])
            arms[at] = chosen
            parts.append((at, marked(memo, label)))
        return arms, {"label": labels, **merged(parts, len(rows))}

    def learned(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
        labels = memo["label"]
        for label in np.unique(labels).tolist():
            at = np.flatnonzero(labels == label)
            if label >= 0:
                own = part_of(unmarked(memo, label), at)
                self.learners[label].learn(x[at], rewards[at], rows.pick(at), own)
                continue
            pulls = zip(rows.ids[at].tolist(), arms[at].tolist(), x[at], rewards[at].tolist(), strict=True)
            for r, arm, features, reward in pulls:
                self.explored.add(r, arm, features, reward)
        for r in rows.ids.tolist():
            if self.clock[r] % self.every == 0:
                self._move(r)

    def _move(self, r: int) -> None:
        """Go on in the smallest class that the test finds to explain more than the current one."""
        policy, n, t = self.policy, int(self.explored.count[r]), float(self.clock[r])
        least = LEAST_EXPLORED if policy.test == "error" else 2
        if n < least:
            return
        classes, horizon, arms = len(self.dims), self.problem.horizon, self.problem.arms
        small = self.dims[self.current[r]]
        for i in range(int(self.current[r]) + 1, classes):
            d = self.dims[i]
            if policy.test == "theory" and t < policy.first_test(d, arms, classes, horizon):
                continue
            value, trace = self.explored.residual(r, small, d)
            if policy.test == "theory":
                bar = 2 * policy.threshold(d, t, arms, classes, horizon)
            else:
                # tr((W Q)^2) is at least tr(W Q)^2 / rank, which spares most tests the product of matrices.
                bar = policy.quantile(classes, horizon) * math.sqrt(2 / min(n, d)) * trace / (n * (n - 1))
                if value >= bar:
                    bar = policy.quantile(classes, horizon) * self.explored.error(r, small, d)
            if value >= bar > 0:
                self.current[r] = i
                return

    def descriptions(self) -> list[dict[str, Any]]:
        dims = [self.dims[m] for m in self.current]
        every = [list(self.dims) for _ in dims]
        return self.described(dim=dims, dims=every, pulls=self.clock, explored=self.explored.count)


class ClassLearner(ABC):
    """What ModCB plays within one class of features; by default by a regression."""

    regression: RoundRegression

    @abstractmethod
    def decide(self, features: FloatArray, allowed: Mask, rows: Rows, uniforms: FloatArray) -> tuple[IntArray, Memo]:
        """Arms for `rows`; `uniforms` are the randomness, one for each."""

    def learn(self, x: FloatArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
        """Learn from the rewards of arms with features x."""
        self.regression.absorb(memo["arm"], x, rewards, rows)


def inverse_gap_weights(predicted: FloatArray, allowed: Mask, g: FloatArray) -> FloatArray:
    """Probabilities 1 / (K + g gap) of all arms but the best by prediction, which has the rest (SquareCB)."""
    shown = np.where(allowed, predicted, -np.inf)
    best = np.argmax(shown, axis=-1)
    gaps = np.where(allowed, shown.max(axis=-1, keepdims=True) - predicted, np.inf)
    # With g = 0 the arms left out would have inf * 0.
    weights = np.where(
        allowed, 1.0 / (allowed.sum(axis=-1, keepdims=True) + g[:, None] * np.where(allowed, gaps, 0)), 0
    )
    each = np.arange(len(best))
    weights[each, best] = 0.0
    weights[each, best] = 1.0 - weights.sum(axis=-1)
    return weights


class SquareCB(ClassLearner):
    """Ridge regression, and arms drawn with less probability the worse they look (Foster and Rakhlin 2020)."""

    def __init__(self, problem: Problem, offers: Offers, dim: int, ridge: float, gamma: float) -> None:
        self.regression = RoundRegression(problem, offers, dim, ridge, widths=False)
        horizon = max(2, problem.horizon)
        self.g = gamma / problem.noise * math.sqrt(problem.arms * horizon / (dim * math.log(horizon)))

    def decide(self, features: FloatArray, allowed: Mask, rows: Rows, uniforms: FloatArray) -> tuple[IntArray, Memo]:
        predicted = self.regression.means(features, rows)
        arms = sampled(inverse_gap_weights(predicted, allowed, np.full(len(rows), self.g)), uniforms)
        return arms, {"arm": arms}


class Optimist(ClassLearner):
    """LinUCB in the first features."""

    def __init__(self, problem: Problem, offers: Offers, dim: int, ridge: float) -> None:
        self.regression = RoundRegression(problem, offers, dim, ridge)
        self.radius = noise_radius(problem.noise, problem.horizon, problem.arms)

    def decide(self, features: FloatArray, allowed: Mask, rows: Rows, uniforms: FloatArray) -> tuple[IntArray, Memo]:
        mean, width2 = self.regression.predict(features, rows)
        scores = np.where(allowed, mean + self.radius * np.sqrt(width2), -np.inf)
        arms: IntArray = argmax(scores, uniforms)
        return arms, {"arm": arms}


class LinearPolicies(ClassLearner):
    """Exp4-IX over random linear policies: expert k takes the arm with the largest product with a vector of its own.

    Weights are exponential in the losses, which are divided by a probability plus half the learning rate.
    """

    def __init__(
        self, problem: Problem, dim: int, experts: int, delta: float, loss_range: tuple[float, float], streams: Streams
    ) -> None:
        drawn = np.stack([g.standard_normal((experts, dim)) for g in streams.generators])
        self.vectors = drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
        self.dim, self.loss_range = dim, loss_range
        logs = math.log(experts) + math.log((problem.arms + 1) / delta)
        self.eta = math.sqrt(2 * logs / (problem.horizon * problem.arms))
        self.losses = np.zeros((len(problem), experts))

    def weights(self, rows: Rows) -> FloatArray:
        """Weights q of the experts, (n, N)."""
        losses = self.losses[rows.ids]
        raw = np.exp(-self.eta * (losses - losses.min(axis=-1, keepdims=True)))
        weights: FloatArray = raw / raw.sum(axis=-1, keepdims=True)
        return weights

    def decide(self, features: FloatArray, allowed: Mask, rows: Rows, uniforms: FloatArray) -> tuple[IntArray, Memo]:
        values = self.vectors[rows.ids] @ features[..., : self.dim].swapaxes(-1, -2)  # (n, N, K)
        advice = np.argmax(np.where(allowed[:, None, :], values, -np.inf), axis=-1)
        probabilities, each = np.zeros((len(rows), features.shape[1])), np.arange(len(rows))
        np.add.at(probabilities, (each[:, None], advice), self.weights(rows))
        arms = sampled(probabilities, uniforms)
        return arms, {"advised": (advice == arms[:, None]).astype(float), "probability": probabilities[each, arms]}

    def learn(self, x: FloatArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
        charged = loss(rewards, self.loss_range) / (memo["probability"] + 0.5 * self.eta)
        self.losses[rows.ids] += memo["advised"] * charged[:, None]
