"""What ModCB plays within one class of features: SquareCB, LinUCB or Exp4-IX over linear policies."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from adadim.backend.arrays import FloatArray, IntArray
from adadim.backend.rows import Rows
from adadim.backend.ties import argmax
from adadim.policies.base import Memo
from adadim.policies.confidence import noise_radius
from adadim.policies.rounds import Offers, RoundRegression, drawn_arm
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["ClassLearner", "Exp4IX", "LinearPolicies", "Optimist", "SquareCB", "inverse_gap_weights"]

Mask = np.ndarray[Any, np.dtype[np.bool]]


class ClassLearner(Protocol):
    """Decides and learns in the first features alone; `uniforms` are its randomness, one for each replication."""

    def decide(
        self, features: FloatArray, allowed: Mask, rows: Rows, uniforms: FloatArray
    ) -> tuple[IntArray, Memo]: ...

    def learn(self, x: FloatArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None: ...


def inverse_gap_weights(predicted: FloatArray, allowed: Mask, g: FloatArray) -> FloatArray:
    """Probabilities 1 / (K + g gap) of all arms but the best by prediction, which has the rest (SquareCB).

    Examples
    --------
    >>> predicted = np.array([[0.5, 0.4, 0.1, 0.45]])
    >>> inverse_gap_weights(predicted, predicted < 9, np.array([20.0])).round(4)
    array([[0.55  , 0.1667, 0.0833, 0.2   ]])
    """
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


class SquareCB:
    """Ridge regression, and arms drawn with less probability the worse they look (Foster and Rakhlin 2020)."""

    def __init__(self, problem: Problem, offers: Offers, dim: int, ridge: float, gamma: float) -> None:
        self.regression = RoundRegression(problem, offers, dim, ridge, widths=False)
        horizon = max(2, problem.horizon)
        self.g = gamma / problem.noise * math.sqrt(problem.arms * horizon / (dim * math.log(horizon)))

    def decide(self, features: FloatArray, allowed: Mask, rows: Rows, uniforms: FloatArray) -> tuple[IntArray, Memo]:
        predicted = self.regression.means(features, rows)
        arms = drawn_arm(inverse_gap_weights(predicted, allowed, np.full(len(rows), self.g)), uniforms)
        return arms, {"arm": arms}

    def learn(self, x: FloatArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
        self.regression.absorb(memo["arm"], x, rewards, rows)


class Optimist:
    """LinUCB in the first features."""

    def __init__(self, problem: Problem, offers: Offers, dim: int, ridge: float) -> None:
        self.regression = RoundRegression(problem, offers, dim, ridge)
        self.radius = noise_radius(problem.noise, problem.horizon, problem.arms)

    def decide(self, features: FloatArray, allowed: Mask, rows: Rows, uniforms: FloatArray) -> tuple[IntArray, Memo]:
        mean, width2 = self.regression.predict(features, rows)
        scores = np.where(allowed, mean + self.radius * np.sqrt(width2), -np.inf)
        arms: IntArray = argmax(scores, uniforms)
        return arms, {"arm": arms}

    def learn(self, x: FloatArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
        self.regression.absorb(memo["arm"], x, rewards, rows)


class Exp4IX:
    """Exponential weights over experts, losses divided by a probability plus half the learning rate.

    Parameters
    ----------
    replications, experts, arms, horizon : int
        R, N, K and T.
    delta : float
        Confidence.

    Examples
    --------
    >>> master = Exp4IX(1, 3, 2, horizon=100, delta=0.05)
    >>> round(master.eta, 6)
    0.227881
    """

    def __init__(self, replications: int, experts: int, arms: int, horizon: int, delta: float) -> None:
        self.eta = math.sqrt(2 * (math.log(experts) + math.log((arms + 1) / delta)) / (horizon * arms))
        self.losses = np.zeros((replications, experts))

    def weights(self, rows: Rows) -> FloatArray:
        """Weights q of the experts, (n, N)."""
        losses = self.losses[rows.ids]
        raw = np.exp(-self.eta * (losses - losses.min(axis=-1, keepdims=True)))
        weights: FloatArray = raw / raw.sum(axis=-1, keepdims=True)
        return weights

    def update(self, advised: FloatArray, probability: FloatArray, loss: FloatArray, rows: Rows) -> None:
        """Charge experts, which advised the arm pulled with probabilities (n, N), for its loss (n,)."""
        self.losses[rows.ids] += advised * (loss / (probability + 0.5 * self.eta))[:, None]


class LinearPolicies:
    """Exp4-IX over random linear policies: expert k takes the arm with the largest product with a vector of its own."""

    def __init__(
        self, problem: Problem, dim: int, experts: int, delta: float, loss_range: tuple[float, float], streams: Streams
    ) -> None:
        drawn = np.stack([g.standard_normal((experts, dim)) for g in streams.generators])
        self.vectors = drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
        self.master = Exp4IX(len(problem), experts, problem.arms, problem.horizon, delta)
        self.dim, self.loss_range = dim, loss_range

    def decide(self, features: FloatArray, allowed: Mask, rows: Rows, uniforms: FloatArray) -> tuple[IntArray, Memo]:
        values = self.vectors[rows.ids] @ features[..., : self.dim].swapaxes(-1, -2)  # (n, N, K)
        advice = np.argmax(np.where(allowed[:, None, :], values, -np.inf), axis=-1)
        q, probabilities = self.master.weights(rows), np.zeros((len(rows), features.shape[1]))
        np.add.at(probabilities, (np.arange(len(rows))[:, None], advice), q)
        arms = drawn_arm(probabilities, uniforms)
        return arms, {
            "advised": (advice == arms[:, None]).astype(float),
            "probability": probabilities[np.arange(len(rows)), arms],
        }

    def learn(self, x: FloatArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
        lo, hi = self.loss_range
        loss = np.clip((hi - rewards) / (hi - lo), 0.0, 1.0)
        self.master.update(memo["advised"], memo["probability"], loss, rows)
