"""Policies that only these experiments need: UCB1 on some of the arms, and Thompson sampling on a whole sphere.

The arms of experiments 3 and 5 of Pacchiano, Dann and Gentile 2024 are all points of the unit sphere. Such a set cannot
be listed, so these runs are no study: a base proposes a point, which travels in the memo of its decision, and the
masters do the rest as always.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, clamp
from adadim.core.checks import integer, not_negative, numbers, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams
from adadim.core.rows import Rows
from adadim.experiments.field.masters import masters
from adadim.models.context import ContextPosterior
from adadim.policies import UCB
from adadim.policies.arms import UCBStatistics
from adadim.policies.base import Learner, Memo, Policy

RIDGE = 1.0
CONFIDENCE = (0.0, 0.16, 2.5, 5.0, 25.0)  # scales of Thompson sampling that the masters choose from
NESTED = (2, 5, 10, 15)  # or dimensions


@dataclass(frozen=True)
class OwnArmsUCB(Policy):
    """UCB1 on `count` arms in a row from the arm `first`, as if there were no others."""

    first: Annotated[int, partial(integer, least=0, meaning="the number of an arm")] = 0
    count: Annotated[int, partial(integer, meaning="of arms")] = 1


class OwnArmsUCBLearner(Learner, of=OwnArmsUCB):
    """State of `OwnArmsUCB`."""

    fixed_operations = True
    takes_any_arm = False

    def __init__(self, policy: OwnArmsUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        integer(policy.first + policy.count, "first + count", most=problem.arms, meaning="the number of arms")
        self.policy = policy
        self.statistics = UCBStatistics(UCB(index="ucb1"), policy.count, 1.0, problem.horizon, problem.reference)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        return self.largest(self.statistics.scores(rows), rows) + self.policy.first, {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.statistics.add(clamp(arms - self.policy.first, 0), rewards, rows)

    def descriptions(self) -> list[dict[str, Any]]:
        """Pulls of each arm, in each replication."""
        first = [self.policy.first] * len(self.problem)
        return self.described(first_arm=first, pulls_of_each_arm=self.statistics.counts)


@dataclass(frozen=True)
class SphereTS(Policy):
    """Thompson sampling on the unit sphere: the point is the direction of theta_hat + scale sqrt(d) V^(-1/2) xi.

    A scale of 0 is greedy, and starts in a random direction.

    Examples
    --------
    >>> final = play_on_sphere(SphereTS(dim=2, scale=1.0), [0.0, 2.0], horizon=200, replications=range(3))
    >>> bool((final < 200).all())  # the worst is 4 a round
    True
    """

    dim: Annotated[int, partial(integer, meaning="the number of features")] = 1
    scale: Annotated[float, not_negative] = 1.0


class SphereTSLearner(Learner, of=SphereTS):
    """State of `SphereTS`."""

    takes_any_arm = False
    no_contexts = ""

    def __init__(self, policy: SphereTS, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.factor = policy, policy.scale * math.sqrt(policy.dim)
        integer(policy.dim, "dim", most=problem.dim)
        self.posterior = ContextPosterior(len(problem), policy.dim, RIDGE)
        first = [generator.standard_normal(policy.dim) for generator in streams.generators]
        self.posterior.theta[:] = first / np.linalg.norm(first, axis=1, keepdims=True)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        generators, d = self.streams.generators, self.policy.dim
        drawn = np.array([generators[r].standard_normal(d) for r in rows.ids.tolist()])
        # V^-1 = L L^T, so L xi has the law of V^(-1/2) xi.
        root = np.linalg.cholesky(self.posterior.inverse[rows.ids])
        sampled = self.posterior.theta[rows.ids] + self.factor * (root @ drawn[..., None])[..., 0]
        point = np.zeros((len(rows), self.problem.dim))
        point[:, :d] = sampled / np.linalg.norm(sampled, axis=1, keepdims=True)
        return np.zeros(len(rows), dtype=np.int64), {"point": point}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        for r in rows.ids[self.posterior.pulls[rows.ids] == 0].tolist():
            self.posterior.theta[r] = 0.0  # the first direction was no estimate
        self.posterior.absorb(memo["point"][:, : self.policy.dim], rewards, rows)


def play_on_sphere(
    policy: Policy,
    theta: Sequence[float],
    *,
    horizon: int,
    noise: float = 1.0,
    noise_mean: float = 0.0,
    replications: Sequence[int] = range(1),
    seed: int = 0,
) -> FloatArray:
    """Regret of a `SphereTS`, or of a master over some, against the best point of the unit sphere, (R,).

    The noise is Gaussian, with standard deviation `noise`; the rest is as in `adadim.simulate`.
    """
    vector = np.array(numbers(theta, "theta"), dtype=float)
    positive(noise, "noise", "the standard deviation of the noise, e.g. 1")
    problem = Problem(arms=1, dim=len(vector), horizon=horizon, noise=noise, replications=replications, sets="iid")
    learner, draws = policy.start(problem, seed=seed), Streams(seed, Purpose.NOISE, problem.replications)
    rows = Rows.all(problem.reference).offering(np.zeros((len(problem), 1, problem.dim)), None)
    regret, best = np.zeros(len(problem)), float(np.linalg.norm(vector))
    for _ in range(horizon):
        arms, memo = learner.choose(rows)
        # Of a master's bases only the one asked has a point, and the others have zeros.
        point = sum((values for key, values in memo.items() if key.endswith("point")), np.zeros(1))
        means = point @ vector
        learner.absorb(arms, means + noise_mean + noise * draws.normals(), rows, memo)
        regret += best - means
    return regret


def sphere_experiment(experiment: str, variant: str, master: str, trials: int, seed: int, horizon: int) -> FloatArray:
    """Regret of one of `masters` in an experiment on the whole sphere, (trials,).

    In "exp3" theta is (0, 1, ..., 9) of norm 5 and bases differ in their scale, in "exp5" it is (0, 1, 2, 3, 4) and ten
    zeros, and they differ in their dimension. The variant "released" is as the authors' code has it (noise of mean 1,
    in "exp5" Thompson sampling of scale d_i), "printed" as the paper does (0, and 2).
    """
    released = variant == "released"
    if experiment == "exp3":
        theta = 5 * np.arange(10) / np.linalg.norm(np.arange(10))
        bases = tuple(SphereTS(10, c) for c in CONFIDENCE)
    else:
        theta = np.array([*range(5), *[0] * 10], dtype=float)
        bases = tuple(SphereTS(d, float(d) if released else 2.0) for d in NESTED)
    policy, mean = masters(bases, variant)[master], float(released)
    return play_on_sphere(
        policy, theta.tolist(), horizon=horizon, noise_mean=mean, replications=range(trials), seed=seed
    )
