"""UCB-C (Arora, Marinov and Mohri 2021): UCB over bases, each run in several copies whose median counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

from adadim.core.arrays import Array, clamp, is_numpy
from adadim.core.checks import integer, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import argmax
from adadim.models.shared_prior import FewPulls
from adadim.policies.base import Learner, Policy
from adadim.policies.linear.linucb import LinUCB, LinUCBLearner
from adadim.policies.masters.base import (
    BaseNumbers,
    CountingMasterLearner,
    Master,
    RegretBound,
    RewardScale,
    SqrtLogBound,
    dims_of,
    per_base,
)

RELEASED_COPIES = 5


MOST_COPIES = 1000  # each is a learner of its own; 2 ln T is 138 for T = 10^30


RELEASED_QUANTILE = 0.51


@dataclass(frozen=True)
class UCBCorral(Master):
    """Play the base with the largest optimistic value, judged by the median of S independent copies.

    A round of the master is S steps: each copy of the chosen base plays once. The median makes a bound that holds in
    expectation hold with high probability. Use it when every base owns its arms and one of them owns the best, with
    a gap; where bases share the best arm, as nested ones do, and at short horizons, where a copy sees 1/S of the
    data, `DynamicBalancing` and `D3RB` do better.

    Parameters
    ----------
    bases, base, ambient
        As in `Corral`; what makes copies of a base differ is its own randomness.
    copies : int, optional
        S; by default ceil(2 ln T), and 5 in the released variant. With one copy the regret may be linear.
    bound : Bound
        Rbar_i(n): the regret expected of base i after n plays, for rewards in [0, 1]. If it is 0 at n = 1, as
        sqrt(d_i n ln n) is, a base played once has next to no bonus, and whichever is played twice first is kept.
    complexities : tuple of float, optional
        d_i in the bound (number of arms, or dimension); by default the dimension of each base.
    factor : float
        Factor on Rbar_i: 2 is what the lemma about the median gives; sqrt(2) is what the proof of the theorem uses.
    variant : {"proved", "printed", "released"}
        "proved": `factor` Rbar_i. "printed": sqrt(2 Rbar_i), as the pseudo-code has it. "released": the authors' code,
        index median + 8 sqrt(d_i ln(t + 1)) / n with t counting rounds of the master, 5 copies, and the value
        nearest to the 51st percentile as the median.
    reward_scale : float, optional
        Factor on the bonus, as in `BoundBalancing`.

    Notes
    -----
    With gaps Delta_i between the bases' best arms, regret O(sum_i d_i ln^2(T) / Delta_i + ln(T) R_best(T)); without,
    O(ln(T) sqrt(M T ln(T) max_i d_i)). Known beforehand: the bounds, and T for the number of copies. The last round
    stops at T, whatever copy it has reached.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> outcome = adadim.simulate(adadim.UCBCorral(copies=4), instance)
    >>> sum(outcome.learner.describe()[0]["steps_of_each_base"])
    200
    """

    copies: Annotated[int, partial(integer, most=MOST_COPIES, meaning="or None for 2 ln T of them")] | None = None
    bound: RegretBound = field(default_factory=SqrtLogBound)
    complexities: BaseNumbers | None = None
    factor: Annotated[float, partial(positive, meaning="2, or the square root of 2")] = 2.0
    variant: Literal["proved", "printed", "released"] = "proved"
    reward_scale: RewardScale | None = None

    def copies_for(self, horizon: int) -> int:
        """Number S of copies."""
        usual = RELEASED_COPIES if self.variant == "released" else max(1, math.ceil(2 * math.log(horizon)))
        return usual if self.copies is None else self.copies

    def median(self, means: Array, xp: Any) -> Array:
        """Median over the last axis, the copies."""
        ordered, count = xp.sort(means, axis=-1), means.shape[-1]
        if self.variant == "released":
            return ordered[..., round(RELEASED_QUANTILE * (count - 1))]
        return 0.5 * (ordered[..., (count - 1) // 2] + ordered[..., count // 2])

    def bonus(self, complexity: Array, plays: Array, steps: Array, rounds: Array, xp: Any) -> Array:
        """Optimism for a base after `plays` (at least 1) rounds of its own, for rewards in [0, 1]."""
        if self.variant == "released":
            return 8.0 * xp.sqrt(complexity * xp.log(rounds + 1.0)) / plays
        bound = self.bound(complexity, plays)
        regret = xp.sqrt(2.0 * bound) if self.variant == "printed" else self.factor * bound
        return (regret + xp.sqrt(2.0 * plays * xp.log(steps))) / plays

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return UCBCorralLearner(self, problem, streams)


class UCBCorralLearner(CountingMasterLearner):
    """State of `UCBCorral`: plays and rewards of every copy (those of one base in a row), and where the round is."""

    policy: UCBCorral

    def __init__(self, policy: UCBCorral, problem: Problem, streams: Streams) -> None:
        self.originals = policy.policies(problem)
        self.copies = policy.copies_for(problem.horizon)
        every = tuple(_lean(base) for base in self.originals for _ in range(self.copies))
        super().__init__(policy, problem, streams, every)
        given = dims_of(self.originals, problem) if policy.complexities is None else policy.complexities
        self.dims = per_base(given, len(self.originals), "complexities", problem.reference)
        # The base of the round that is on, and its copy that plays next.
        self.base, self.copy = self.zeros(integers=True), self.zeros(integers=True)

    def base_learners(self, problem: Problem, children: Sequence[Streams]) -> list[Learner]:
        """The copies; those of a LinUCB share what they know before the first pull (NumPy)."""
        if problem.contextual or not is_numpy(problem.reference):
            return super().base_learners(problem, children)
        makers = [FewPulls(problem.horizon, self.copies) for _ in self.originals]
        learners: list[Learner] = []
        for i, (policy, streams) in enumerate(zip(self.policies, children, strict=True)):
            base, make = self.originals[i // self.copies], makers[i // self.copies]
            if type(base) is LinUCB and base.form == "auto" and base.memory is None:
                learners.append(LinUCBLearner(base, problem, streams, base.fixed_model(problem, make)))
            else:
                learners.append(policy.learner(problem, streams))
        return learners

    def scores(self, rows: Rows) -> Array:
        """Index of every base (n, M), as it is between two rounds; infinite for one never played."""
        xp, shape = self.xp, (len(rows), len(self.originals), self.copies)
        plays = xp.reshape(rows.of(self.plays), shape)
        median = self.policy.median(xp.reshape(rows.of(self.rewards), shape) / clamp(plays, 1.0), xp)
        n = clamp(plays[:, :, 0], 1.0)
        rounds = xp.sum(plays[:, :, 0], axis=-1)[:, None]
        steps = 1.0 + self.copies * rounds  # the number of the step that comes next
        index = median + rows.of(self.scale) * self.policy.bonus(self.dims, n, steps, rounds, xp)
        return xp.where(plays[:, :, 0] > 0, index, xp.full_like(index, math.inf))

    def next_base(self, rows: Rows) -> Array:
        copy, uniforms = rows.of(self.copy) + 0, self.draws.uniforms(rows)
        base = rows.of(self.base) + 0
        if not is_numpy(copy) or not copy.all():  # a round of the master begins somewhere
            base = self.xp.where(copy == 0, argmax(self.scores(rows), uniforms), base)
        return base * self.copies + copy

    def judge(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        rows.put(self.base, chosen // self.copies)
        rows.put(self.copy, (chosen % self.copies + 1) % self.copies)

    def descriptions(self) -> list[dict[str, Any]]:
        xp, shape = self.xp, (len(self.problem), len(self.originals), self.copies)
        steps = xp.sum(xp.reshape(self.plays, shape), axis=-1)
        earned = xp.sum(xp.reshape(self.rewards, shape), axis=-1)
        rows = self.describe_bases(
            steps_of_each_base=xp.astype(steps, xp.int64), mean_reward_of_each_base=earned / clamp(steps, 1.0)
        )
        names = [repr(policy) for policy in self.originals]
        return [{**row, "bases": names, "copies": self.copies} for row in rows]


def _lean(base: Policy) -> Policy:
    """The same base in a form that suits many copies of few pulls each: no K x K matrix for every one of them."""
    return replace(base, form="feature") if isinstance(base, LinUCB) and base.form == "auto" else base
