"""Learners that look at the features of every round, and keep NumPy statistics of their own.

Features come with each round or stay the same; to these learners that makes no difference. The library of the problem
enters and leaves in `RoundLearner`: `decide` and `learn_from` take NumPy arrays.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, BoolArray, FloatArray, IntArray, as_numpy
from adadim.core.checks import LARGEST_INTEGER, integer, shown
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import check_positions, stateless
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.models import Posterior, posterior
from adadim.models.context import ContextPosterior
from adadim.policies.base import Choice, Learner, Memo
from adadim.policies.confidence import oful_radius
from adadim.policies.parameters import nested_dims
from adadim.policies.player import choice_like, pulls_to_numpy


def class_dims(dims: tuple[int, ...] | None, dim: int) -> tuple[int, ...]:
    """Dimensions of nested classes: as given, or 1, 2, 4, ... and d itself."""
    if dims is None:
        return tuple(nested_dims(dim, ambient=True))
    if dims[-1] > dim:
        raise InvalidValueError(f"dims must not exceed the problem's {dim} features, got {dims}")
    return dims


def check_class_dims(value: Any, name: str) -> None:
    """Raise unless `value` is a tuple of increasing numbers of features."""
    if not isinstance(value, tuple) or not value:
        raise InvalidTypeError(
            f"{name} must be a tuple of increasing integers, e.g. (1, 2, 4), or None, got {shown(value)}"
        )
    for d in value:
        integer(d, name, meaning="a number of features")
    if any(b <= a for a, b in itertools.pairwise(value)):
        raise InvalidValueError(f"{name} must increase, got {value}")


ClassDims = Annotated[tuple[int, ...], check_class_dims]


@stateless
class Offers:
    """The arms of a problem in every round: those that come with it, or those that stay."""

    def __init__(self, problem: Problem) -> None:
        self.fixed: FloatArray | None = None if problem.contextual else as_numpy(problem.actions.dense_batch())

    def of(self, rows: Replications) -> FloatArray:
        """Features (n, K, d) that the replications of `rows` are offered."""
        offered: FloatArray | None = rows.features if self.fixed is None else rows.of(self.fixed)
        assert offered is not None
        return offered


class RoundRegression:
    """Ridge regression on the first `dim` features of what is pulled, with mean and width of every arm offered.

    Where arms stay, it is the posterior on a fixed set; learners that need no widths have V^-1 itself there too.
    Features that are `reweighted` can be left out when it starts anew.
    """

    def __init__(self, problem: Problem, dim: int, ridge: float, widths: bool = True, reweighted: bool = False) -> None:
        self.dim, self.problem, self.ridge, self.noise = dim, problem, ridge, problem.noise
        self.weights = np.ones((len(problem), dim))  # of the features; 0 leaves one out
        self.state: Posterior | None = None
        if problem.contextual or not widths:
            self.context = ContextPosterior(len(problem), dim, ridge)
            return
        actions = problem.actions.with_base(as_numpy(problem.actions.base)).truncate(dim, merged=False)[0]
        if reweighted:
            self.weighted_features = actions.base + 0.0  # a copy that is written to: it is state
            actions = actions.with_base(self.weighted_features)
        self.state = posterior(actions, ridge)

    def predict(self, features: FloatArray, rows: Replications) -> tuple[FloatArray, FloatArray]:
        """Mean and squared width of every arm offered, (n, K)."""
        if self.state is not None:
            return rows.of(self.state.mean), rows.of(self.state.width2)
        return self.context.predict(features[..., : self.dim] * rows.of(self.weights)[:, None, :], rows)

    def means(self, features: FloatArray, rows: Replications) -> FloatArray:
        """Mean of every arm offered, (n, K), for a learner without widths."""
        return np.asarray((features[..., : self.dim] @ rows.of(self.context.theta)[..., None])[..., 0])

    def absorb(self, arms: IntArray, x: FloatArray, rewards: FloatArray, rows: Replications) -> None:
        """Learn from one pull in each replication of `rows`: arms (n,), their features (n, d) and rewards (n,)."""
        if self.state is not None:
            self.state.absorb(arms, rewards, rows)
        else:
            self.context.absorb(x[:, : self.dim] * rows.of(self.weights), rewards, rows)

    def forget(self, r: int, weights: FloatArray | None = None) -> None:
        """Start anew in replication r, with these weights of the features (by default as before)."""
        if weights is not None:
            self.weights[r] = weights[: self.dim]
        if self.state is None:
            self.context.forget(r)
            return
        if weights is not None:
            self.weighted_features[r] = as_numpy(self.problem.actions.base[r])[:, : self.dim] * self.weights[r]
        row, nothing = Replications.some(np.array([r]), self.state.mean), np.zeros((1, self.problem.arms))
        self.state.rebuild(nothing, nothing, row, squares=nothing[:, 0])

    def radius(self, theta_norm: float, delta: float, rows: Replications) -> FloatArray:
        """Radius of OFUL, as a column (n, 1)."""
        logdet = rows.of(self.context.logdet if self.state is None else self.state.logdet)[:, None]
        radius: FloatArray = oful_radius(self.noise, self.ridge, theta_norm, delta, logdet)
        return radius

    def solution(self, r: int) -> tuple[FloatArray, float]:
        """theta_hat of replication r, and the largest eigenvalue of its V^-1."""
        if self.state is None:
            return self.context.theta[r], float(np.linalg.eigvalsh(self.context.inverse[r])[-1])
        pulled = np.flatnonzero(self.state.counts[r])
        x, n, sums = self.state.actions.dense(r)[pulled], self.state.counts[r, pulled], self.state.sums[r, pulled]
        if len(pulled) < self.dim:  # beside the span of the arms pulled V is the ridge, and theta lies in the span
            return x.T @ np.linalg.solve(x @ x.T + np.diag(self.ridge / n), sums / n), 1.0 / self.ridge
        v = self.ridge * np.eye(self.dim) + x.T @ (n[:, None] * x)
        return np.linalg.solve(v, x.T @ sums), 1.0 / float(np.linalg.eigvalsh(v)[0])


class RoundLearner(Learner):
    """A learner that decides by this round's features and learns from those of the arm it chose."""

    takes_any_arm = False
    takes_late_rewards = False
    no_contexts = ""
    contexts_on_devices = True

    def __init__(self, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.offers = Offers(problem)
        self.clock = np.zeros(len(problem), dtype=np.int64)
        self.chance = Streams(streams.seed, streams.purpose, streams.replications, streams.path)

    def check_restored(self) -> None:
        super().check_restored()
        check_positions(self, clock=LARGEST_INTEGER)

    @abstractmethod
    def decide(self, features: FloatArray, rows: Replications) -> Choice:
        """Arms for the replications of `rows`, which are offered features (n, K, d)."""

    @abstractmethod
    def learn_from(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Replications, memo: Memo) -> None:
        """Learn from the rewards of arms with features x (n, d)."""

    def choose(self, rows: Replications) -> Choice:
        host_rows = rows.to_numpy()
        features = self.offers.of(host_rows)
        choice = self.decide(features, host_rows)
        memo = {"features": features[np.arange(len(choice.arms)), choice.arms], **choice.memo}
        return choice_like(choice._replace(memo=memo), self.problem.reference)

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        arms, rewards, rows, memo = pulls_to_numpy(arms, rewards, rows, memo)
        self.clock[rows.ids] += 1
        self.learn_from(memo["features"], arms, rewards, rows, memo)

    def offered_mask(self, features: FloatArray, rows: Replications) -> BoolArray:
        """Which arms may be chosen, (n, K)."""
        count = features.shape[1]
        return np.ones((len(rows), count), dtype=bool) if rows.allowed is None else rows.allowed
