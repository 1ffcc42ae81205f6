"""Regret bound balancing and elimination (Pacchiano, Dann, Gentile and Bartlett 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from adadim.backend.arrays import Array, clamp
from adadim.backend.rows import Rows
from adadim.checks import positive
from adadim.policies.base import Learner
from adadim.policies.iterations import check_beta
from adadim.policies.masters.bounds import Bound, SqrtBound, check_bound, claimed
from adadim.policies.masters.learner import Master
from adadim.policies.masters.statistics import CountingMasterLearner, check_counting, check_numbers, mean_width
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["BoundBalancing"]


@dataclass(frozen=True)
class BoundBalancing(Master):
    """Play the base whose claimed regret is least, and remove for ever those whose claim the data refute.

    Use it for bases that come with regret bounds of which some may be false; it competes with the best base whose
    bound holds. `DynamicBalancing` lets a base come back; `D3RB` needs no bounds.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions.
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a nested base in all d features.
    bound : Bound
        Candidate bounds R_i(n) for rewards in [0, 1]; used as min(R_i(n), n).
    complexities : tuple of float, optional
        d_i in the bounds; by default the dimension of each base.
    beta : float in [0.5, 1)
        Bounds below T^(beta - 1/2) sqrt(n) are raised to that, which gives the cheap bases less to try.
    delta : float, optional
        Confidence; 1/sqrt(T) by default.
    c : float
        Factor on the width of a mean.
    reward_scale : float, optional
        Factor on bounds and widths, 1 for rewards in [0, 1]; by default sigma + range/2 (range 1 where it is unknown).

    Notes
    -----
    Proved for bounds d_i C n^b, B of them false and * any true one, with probability 1 - delta at all times, on a fixed
    set or i.i.d. ones: (M + 2 B^(1-b) d*^(1/b-1)) d* C T^b + 5 d*^(1/(2b)) c sqrt(B T ln(M ln T/delta)) + 2M. The
    bounds must be known beforehand. With the constant of the theory (`oful_constant`) min(R_i(n), n) is n for all of a
    short horizon, and the bases are played in turn. The claims of active bases never differ by more than one reward.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> outcome = adadim.simulate(adadim.BoundBalancing(c=0.5), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    200
    """

    bound: Bound = field(default_factory=SqrtBound)
    complexities: tuple[float, ...] | None = None
    beta: float = 0.5
    delta: float | None = None
    c: float = 1.0
    reward_scale: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counting(self.reward_scale, self.delta)
        check_bound(self.bound)
        check_numbers(self.complexities, "complexities")
        check_beta(self.beta)
        positive(self.c, "c", "a factor on the confidence width")

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return BoundBalancingLearner(self, problem, streams)


class BoundBalancingLearner(CountingMasterLearner):
    """State of `BoundBalancing`: besides plays and rewards the claims R_i(n_i) and who is still active."""

    def __init__(self, policy: BoundBalancing, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.policies(problem), policy.reward_scale, problem, streams)
        self.policy = policy
        self.dims = self.complexities(policy.complexities)
        self.delta = policy.delta or 1 / math.sqrt(problem.horizon)
        self.floor = problem.horizon ** (policy.beta - 0.5)
        self.potential = self.zeros(len(self.bases))
        self.active = self.potential == 0.0

    def claims(self, rows: Rows) -> Array:
        """R_i(n_i), at most one reward for each play; 0 for a base never played."""
        xp, plays = self.xp, rows.of(self.plays)
        bound = claimed(self.policy.bound, self.dims, plays)
        if self.policy.beta > 0.5:
            bound = xp.maximum(bound, self.floor * xp.sqrt(plays))
        return rows.of(self.scale) * xp.minimum(bound, plays)

    def scores(self, rows: Rows) -> Array:
        potential = rows.of(self.potential)
        return self.xp.where(rows.of(self.active), -potential, self.xp.full_like(potential, -math.inf))

    def judge(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        xp, plays, active = self.xp, rows.of(self.plays), rows.of(self.active)
        bound, n, mean = self.claims(rows), clamp(plays, 1.0), self.means(rows)
        width = self.policy.c * rows.of(self.scale) * mean_width(n, len(self.bases), self.delta)
        # Line "if every active base has been played": until then nobody is judged.
        early = xp.any(active & (plays == 0), axis=-1)
        best = xp.max(xp.where(active, mean - width, xp.full_like(mean, -math.inf)), axis=-1)
        kept = early[:, None] | (mean + bound / n + width >= best[:, None])
        rows.put(self.potential, bound)
        rows.put(self.active, active & kept)

    def descriptions(self) -> list[dict[str, Any]]:
        """Plays, mean reward and state of each base, in each replication."""
        return self.describe_counts(active=self.active)
