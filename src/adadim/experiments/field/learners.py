"""Policies that only these experiments need: UCB1 on some of the arms, and Thompson sampling on a whole sphere.

The arms of experiment 5 of Pacchiano, Dann and Gentile 2024 are all points of the unit sphere. Such a set cannot be
listed, so these runs are no study: a base proposes a point, which travels in the memo of its decision, and the masters
of the library do the rest as always.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, clamp
from adadim.core.checks import integer, not_negative, numbers, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams
from adadim.core.rows import Rows
from adadim.models.context import ContextPosterior
from adadim.policies import D3RB, ED2RB
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import ucb1_bonus

RIDGE = 1.0
BALANCED = {"d3rb": D3RB, "ed2rb": ED2RB}


@dataclass(frozen=True)
class OwnArmsUCB(Policy):
    """UCB1 on `count` arms in a row from the arm `first`, as if there were no others."""

    first: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        integer(self.first, "first", least=0, meaning="the number of an arm")
        integer(self.count, "count", meaning="of arms")

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        integer(self.first + self.count, "first + count", most=problem.arms, meaning="the number of arms")
        return OwnArmsUCBLearner(self, problem, streams)


class OwnArmsUCBLearner(Learner):
    """State of `OwnArmsUCB`."""

    fixed_operations = True
    takes_any_arm = False

    def __init__(self, policy: OwnArmsUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        self.pulls, self.sums = self.zeros(policy.count), self.zeros(policy.count)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        xp, n = self.xp, rows.of(self.pulls)
        counted = clamp(n, 1.0)
        index = rows.of(self.sums) / counted + ucb1_bonus(counted, clamp(xp.sum(n, axis=-1)[:, None], 1.0))
        index = xp.where(n > 0, index, xp.full_like(index, float("inf")))
        return self.largest(index, rows) + self.policy.first, {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        own = clamp(arms - self.policy.first, 0)
        rows.add(self.pulls, own, 1.0)
        rows.add(self.sums, own, rewards)

    def descriptions(self) -> list[dict[str, Any]]:
        """Pulls of each arm, in each replication."""
        return [
            {"replication": number, "first_arm": self.policy.first, "pulls_of_each_arm": self.pulls[r].tolist()}
            for r, number in enumerate(self.problem.replications)
        ]


@dataclass(frozen=True)
class SphereTS(Policy):
    """Thompson sampling on the unit sphere: the point is the direction of theta_hat + scale sqrt(d) V^(-1/2) xi.

    Parameters
    ----------
    dim : int
        Number of features.
    scale : float
        Factor on the draw; 0 is greedy, and starts in a random direction.

    Examples
    --------
    >>> final = play_on_sphere(SphereTS(dim=2, scale=1.0), [0.0, 2.0], horizon=200, replications=range(3))
    >>> bool((final < 200).all())  # the worst is 4 a round
    True
    """

    dim: int = 1
    scale: float = 1.0

    def __post_init__(self) -> None:
        integer(self.dim, "dim", meaning="the number of features")
        not_negative(self.scale, "scale")

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return SphereTSLearner(self, problem, streams)


class SphereTSLearner(Learner):
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

    Parameters
    ----------
    policy : Policy
        What to run.
    theta : sequence of float
        The reward parameter.
    horizon : int
        Number of rounds.
    noise, noise_mean : float
        Standard deviation and mean of the Gaussian noise.
    replications, seed
        As in `adadim.simulate`.
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


def experiment_five(
    name: str, variant: str, trials: int, seed: int = 0, horizon: int = 1000, dims: Sequence[int] = (2, 5, 10, 15)
) -> FloatArray:
    """Regret of a master, "d3rb" or "ed2rb", in experiment 5, theta = (0, 1, 2, 3, 4) and zeros, (trials,).

    The variant "released" is as the authors' code has it (noise of mean 1, Thompson sampling of scale d_i), "printed"
    as the paper does (0, and 2). The last of `dims`, those of the bases, is the number of features.
    """
    released = variant == "released"
    bases = tuple(SphereTS(d, float(d) if released else 2.0) for d in dims)
    master = BALANCED[name](bases=bases, reward_scale=1.0, delta=0.01, variant=variant)  # type: ignore[arg-type]
    theta = [*map(float, range(5)), *[0.0] * (dims[-1] - 5)]
    return play_on_sphere(
        master, theta, horizon=horizon, noise_mean=float(released), replications=range(trials), seed=seed
    )
