"""Balancing under adversarial contexts (Pacchiano, Dann, Gentile and Bartlett 2020, section 7)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import BoolArray, FloatArray, IntArray
from adadim.core.checks import positive, require
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.ties import argmax, sampled
from adadim.policies.base import Choice, Memo, Policy
from adadim.policies.linear.round_learner import RoundLearner, RoundRegression
from adadim.policies.parameters import Delta, RadiusScale, Ridge, nested_dims

MAX_PLAYED_NORM = 1e70


def check_norm(value: Any, name: str) -> None:
    """Raise unless `value` is a positive number whose square is one."""
    positive(value, name, "a bound on the norm of theta or of the arms, e.g. 1")
    require(value <= MAX_PLAYED_NORM, name, f"be at most {MAX_PLAYED_NORM:g}, so that its square is a number", value)


@dataclass(frozen=True)
class EpochBalancing(Policy):
    """Draw one of several OFUL bases in each round, and drop the smallest class once the rewards are too few.

    Every base in d_i = 1, 2, 4, ... features proposes an arm and a reward that it is sure of; one of them is drawn, the
    small ones more often. An epoch ends when some base has been surer of more reward than all of them earned: then the
    smallest class is wrong and goes. Use it where the sets may be chosen by an adversary, which the other balancing
    masters do not survive; on fixed or i.i.d. sets `BoundBalancing` and `DynamicBalancing` are simpler and cheaper,
    since here every base is asked in every round.

    Parameters
    ----------
    ambient : bool
        Add a base in all d features.
    ridge : float
        Regularisation lambda of the least squares.
    theta_norm, arm_norm : float
        Bounds S on the norm of theta and L on those of the arms.
    reward_bound : float, optional
        Bound Rmax on mean rewards; S times L by default.
    scale : float
        Factor on the radius.
    delta : float, optional
        Confidence; 1/sqrt(T) by default.
    c : float
        Factor on the slack sqrt(t ln(max(ln t, 1) / delta)) of the test.

    Notes
    -----
    Regret O~((sqrt(B) d* + sqrt(B d*) S + sqrt(B) M)(d* + sqrt(d*) S) sqrt(T)) whatever the sets are, B being the
    number of classes that are too small. Known beforehand: sigma, S, L and T. The theory wants the z_i of neighbouring
    bases to double, so dimensions that are too close are left out. Bases start anew in every epoch, which the source
    leaves open, as it does the value of `c`.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.contexts(arms=10, dim=8, intrinsic_dim=2, horizon=200)
    >>> outcome = adadim.simulate(adadim.EpochBalancing(), instance)
    >>> outcome.learner.describe()[0]["dims"]
    [1, 2, 4]
    """

    ambient: bool = False
    ridge: Ridge = 1.0
    theta_norm: Annotated[float, check_norm] = 1.0
    arm_norm: Annotated[float, check_norm] = 1.0
    reward_bound: Annotated[float, partial(positive, meaning="a bound on mean rewards, or None")] | None = None
    scale: RadiusScale = 1.0
    delta: Delta | None = None
    c: Annotated[float, partial(positive, meaning="a factor on the slack")] = 1.0

    def most_reward(self) -> float:
        """Rmax."""
        return self.theta_norm * self.arm_norm if self.reward_bound is None else self.reward_bound

    def sizes(self, dims: Sequence[int]) -> FloatArray:
        """z_i = (d_i^2 + d_i S^2) min(Rmax, L^2), to which the probability of a base is inverse."""
        d = np.asarray(dims, dtype=float)
        return np.asarray((d**2 + d * self.theta_norm**2) * min(self.most_reward(), self.arm_norm**2))

    def dims_for(self, dim: int) -> list[int]:
        """Dimensions of the bases: nested ones, thinned so that the z_i double."""
        nested = nested_dims(dim, self.ambient)
        kept = [nested[-1]]
        for d in reversed(nested[:-1]):
            if 2 * self.sizes([d])[0] <= self.sizes([kept[0]])[0]:
                kept.insert(0, d)
        return kept

    def slack(self, t: Any, delta: float) -> Any:
        """c sqrt(t ln(max(ln t, 1) / delta))."""
        t = np.asarray(t, dtype=float)
        return self.c * np.sqrt(t * np.log(np.maximum(np.log(t), 1.0) / delta))

    def learner(self, problem: Problem, streams: Streams) -> EpochBalancingLearner:
        return EpochBalancingLearner(self, problem, streams)


class EpochBalancingLearner(RoundLearner):
    """State of `EpochBalancing`: the bases' regressions, and what this epoch has earned and was sure of."""

    policy: EpochBalancing

    def __init__(self, policy: EpochBalancing, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.dims = policy, policy.dims_for(problem.dim)
        count, bases = len(problem), len(self.dims)
        self.delta = policy.delta or min(0.5, 1 / math.sqrt(problem.horizon))
        self.regressions = [RoundRegression(problem, d, policy.ridge) for d in self.dims]
        self.weights = 1.0 / policy.sizes(self.dims)
        self.smallest = np.zeros(count, dtype=np.int64)  # the first base that is still in
        self.rounds = np.zeros(count, dtype=np.int64)  # of this epoch
        # Of this epoch: u_i, R_i and the sums of B_{t,i}.
        self.earned, self.owed, self.sure = (np.zeros((count, bases)) for _ in range(3))
        self.plays = np.zeros((count, bases), dtype=np.int64)

    def active(self, rows: Replications) -> BoolArray:
        """Which bases are still in, (n, M)."""
        return np.asarray(np.arange(len(self.dims)) >= self.smallest[rows.ids][:, None])

    def probabilities(self, rows: Replications) -> FloatArray:
        """p_i, (n, M)."""
        weights = np.where(self.active(rows), self.weights, 0.0)
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def decide(self, features: FloatArray, rows: Replications) -> Choice:
        drawn, ties = self.chance.uniforms(rows), self.chance.uniforms(rows)
        most, each = self.policy.most_reward(), np.arange(len(rows))
        proposed, lower, width = [], [], []
        for regression in self.regressions:
            mean, width2 = regression.predict(features, rows)
            radius = self.policy.scale * regression.radius(self.policy.theta_norm, self.delta, rows)
            bonus = radius * np.sqrt(width2)
            arms = argmax(rows.apply_costs_and_mask(mean + bonus), ties)
            proposed.append(arms)
            lower.append(np.maximum(mean[each, arms] - bonus[each, arms], -most))
            width.append(np.minimum(bonus[each, arms], most))
        base = sampled(self.probabilities(rows), drawn)
        memo = {
            "base": base,
            "lower": np.stack(lower, axis=1),
            "owed": 2.0 * np.stack(width, axis=1)[each, base],
        }
        return Choice(np.stack(proposed, axis=1)[each, base], memo)

    def learn_from(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Replications, memo: Memo) -> None:
        base, ids = memo["base"], rows.ids
        for b, members, at in rows.split(base):
            self.regressions[b].absorb(arms[at], x[at], rewards[at], members)
        self.plays[ids, base] += 1
        self.rounds[ids] += 1
        self.earned[ids, base] += rewards
        self.owed[ids, base] += memo["owed"]
        self.sure[ids] += memo["lower"]
        active = self.active(rows)
        total = np.where(active, self.earned[ids] + self.owed[ids], 0.0).sum(axis=-1)
        surest = np.where(active, self.sure[ids], -np.inf).max(axis=-1)
        ended = total + self.policy.slack(self.rounds[ids], self.delta) < surest
        for r in ids[ended & (self.smallest[ids] < len(self.dims) - 1)].tolist():
            self.smallest[r] += 1
            self.rounds[r] = 0
            for sums in (self.earned, self.owed, self.sure):
                sums[r] = 0.0
            for regression in self.regressions:
                regression.forget(r)

    def descriptions(self) -> list[dict[str, Any]]:
        """Dimensions of the bases still in, and rounds of each base, in each replication."""
        dims = [self.dims[smallest:] for smallest in self.smallest]
        return self.described(dims=dims, rounds_of_each_base=self.plays, rounds_of_this_epoch=self.rounds)
