"""Balancing regret coefficients learned from the data: D3RB and ED2RB (Pacchiano, Dann and Gentile 2024)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from adadim.core.arrays import Array, clamp
from adadim.core.checks import positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.policies.base import Learner
from adadim.policies.masters.base import (
    CountingMasterLearner,
    Master,
    RewardScale,
    mean_width,
)
from adadim.policies.parameters import Delta, WidthScale

RELEASED_DELTA = 0.01  # of the authors' code of D3RB and ED2RB


LARGEST_RELEASED = 1e4  # coefficient, at which that code stops doubling


@dataclass(frozen=True)
class DataDriven(Master):
    """Hyper-parameters of D3RB and ED2RB."""

    d_min: Annotated[float, partial(positive, meaning="the least coefficient, e.g. 1")] = 1.0
    delta: Delta | None = None
    c: WidthScale = 1.0
    reward_scale: RewardScale | None = None
    variant: Literal["printed", "released"] = "printed"


class DataDrivenLearner(CountingMasterLearner):
    """Coefficients dhat_i and potentials phi_i; the base with the least is played, and only its own change."""

    policy: DataDriven

    def __init__(self, policy: DataDriven, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        default = RELEASED_DELTA if policy.variant == "released" else 1 / math.sqrt(problem.horizon)
        self.delta = policy.delta or default
        self.least = policy.d_min * self.scale  # in units of regret / sqrt(n)
        self.coefficients = self.zeros(len(self.bases)) + self.least
        self.potential = self.coefficients + 0.0

    @abstractmethod
    def updated(self, rows: Rows) -> tuple[Array, Array]:
        """Coefficients and potentials as they are if every base has just been played."""

    def scores(self, rows: Rows) -> Array:
        return -rows.of(self.potential)

    def judge(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        coefficients, potential = self.updated(rows)
        own = chosen[:, None] == self.numbers
        rows.put(self.coefficients, self.xp.where(own, coefficients, rows.of(self.coefficients)))
        rows.put(self.potential, self.xp.where(own, potential, rows.of(self.potential)))

    def known(self, rows: Rows) -> tuple[Array, Array, Array, Array]:
        """n_i (at least 1), mean_i, width g(n_i), and the largest mean_j - g(n_j) as a column."""
        n, mean = clamp(rows.of(self.plays), 1.0), self.means(rows)
        width = self.policy.c * rows.of(self.scale) * mean_width(n, len(self.bases), self.delta)
        best = self.xp.max(self.only(rows.of(self.plays) > 0, mean - width), axis=-1)
        return n, mean, width, best[:, None]

    def released_estimate(self, rows: Rows) -> tuple[Array, Array]:
        """n_i (at least 1), and the regret estimate of the authors' code: sums are divided by sqrt(n), not n."""
        xp, n = self.xp, clamp(rows.of(self.plays), 1.0)
        # Their width has n + 1 in the logarithm, and no number of bases.
        slack = self.policy.c * rows.of(self.scale) * xp.sqrt(n * xp.log((n + 1) / self.delta))
        earned, root = rows.of(self.rewards), xp.sqrt(n)
        # A base never played counts with 0 in their maximum.
        best = xp.max(xp.where(rows.of(self.plays) > 0, (earned - slack) / root, 0.0 * root), axis=-1)
        return n, n * (best[:, None] - (earned + slack) / root)

    def descriptions(self) -> list[dict[str, Any]]:
        return self.describe_counts(regret_coefficient_of_each_base=self.coefficients)


@dataclass(frozen=True)
class D3RB(DataDriven):
    """Balance the regrets of base learners by coefficients that are doubled when the data refute them.

    Base i is believed to have regret dhat_i sqrt(n_i), and the base with the least is played; when its rewards fall
    short of what another base is sure to have achieved, dhat_i doubles. Use it when no regret bounds are known, or when
    bases do better in some runs than in others: what counts is the regret realised. `ED2RB` estimates the coefficient
    instead of doubling it. With bounds that can be trusted, `DynamicBalancing` drops bases sooner.

    Parameters
    ----------
    bases, base, ambient
        As in `Corral`.
    d_min : float
        Least coefficient, for rewards in [0, 1]; T^(beta - 1/2) moves along the Pareto frontier.
    delta : float, optional
        Confidence; by default 1/sqrt(T), and 0.01 in the released variant.
    c, reward_scale : float
        As in `BoundBalancing`; `reward_scale` is a factor on `d_min` too.
    variant : {"printed", "released"}
        The algorithm as published, or as the authors' code has it: another width, sums divided by sqrt(n) in the test,
        no doubling above 10^4. The released one is far quicker to give up a base, and nothing is proved of it.

    Notes
    -----
    With d_min >= 1, on a fixed set or i.i.d. ones, the regret is O~(d M sqrt(T) + d^2 sqrt(M T)) with probability
    1 - delta at all times, d being the least realised coefficient (its running maximum). Nothing but the scale of the
    rewards must be known. The largest potential is never above three times the least.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> outcome = adadim.simulate(adadim.D3RB(), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    200
    """

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return D3RBLearner(self, problem, streams)


class D3RBLearner(DataDrivenLearner):
    """State of `D3RB`."""

    def updated(self, rows: Rows) -> tuple[Array, Array]:
        xp, dhat = self.xp, rows.of(self.coefficients)
        if self.policy.variant == "released":
            n, estimate = self.released_estimate(rows)
            doubled = clamp(2.0 * dhat, None, LARGEST_RELEASED)
            dhat = xp.where(estimate > dhat * xp.sqrt(n), doubled, dhat)
        else:
            n, mean, width, best = self.known(rows)
            # The misspecification test of Algorithm 1: even dhat sqrt(n) more reward would not be enough.
            dhat = xp.where(mean + dhat / xp.sqrt(n) + width < best, 2.0 * dhat, dhat)
        return dhat, dhat * xp.sqrt(n)


@dataclass(frozen=True)
class ED2RB(DataDriven):
    """Balance the regrets of base learners by coefficients estimated from the data.

    As `D3RB`, but dhat_i is the regret per sqrt(n_i) that the rewards prove, and a potential at most doubles from one
    play to the next. It follows a base that recovers, which D3RB's doubled coefficients do not; otherwise the two
    differ little.

    Parameters
    ----------
    bases, base, ambient
        As in `Corral`.
    d_min, delta, c, reward_scale, variant
        As in `D3RB`; the released variant has the sums divided by sqrt(n) in the estimate.

    Notes
    -----
    The guarantee is that of `D3RB`, d being the least realised coefficient at the end. The largest potential is never
    above twice the least.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> outcome = adadim.simulate(adadim.ED2RB(variant="released"), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    200
    """

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return ED2RBLearner(self, problem, streams)


class ED2RBLearner(DataDrivenLearner):
    """State of `ED2RB`."""

    def updated(self, rows: Rows) -> tuple[Array, Array]:
        xp, phi, least = self.xp, rows.of(self.potential), rows.of(self.least)
        if self.policy.variant == "released":
            n, estimate = self.released_estimate(rows)
            root = xp.sqrt(n)
            phi = xp.maximum(xp.maximum(xp.minimum(estimate, 2.0 * phi), phi), least * root)
            return phi / root, phi
        n, mean, width, best = self.known(rows)
        root = xp.sqrt(n)
        dhat = xp.maximum(least, root * (best - mean - width))
        # Clipped to [phi, 2 phi], so that potentials stay balanced.
        return dhat, xp.minimum(xp.maximum(dhat * root, phi), 2.0 * phi)
