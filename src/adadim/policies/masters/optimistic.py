"""UCB over bases: with putative regret bounds and targets, or each run in several copies whose median counts.

These are Bandit Combiner (Cutkosky, Das and Purohit 2020) and UCB-C (Arora, Marinov and Mohri 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import Array, FloatArray, all_true_on_host, at_each, clamp
from adadim.core.checks import finite, integer, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.core.ties import argmax
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.policies.base import Policy
from adadim.policies.linear.linucb import LinUCB
from adadim.policies.masters.base import (
    BaseNumbers,
    CountingMasterLearner,
    Master,
    RegretBound,
    RewardScale,
    SqrtLogBound,
    check_numbers,
    dims_of,
    per_base,
)
from adadim.policies.parameters import Delta

MAX_COPIES = 1000  # of UCB-C; each is a learner of its own; 2 ln T is 138 for T = 10^30
RELEASED_COPIES, RELEASED_QUANTILE = 5, 0.51


def check_exponents(value: Any, name: str) -> None:
    """Raise unless `value` is a tuple of numbers in [1/2, 1)."""
    check_numbers(value, name)
    if not all(0.5 <= a < 1 for a in value):
        raise InvalidValueError(f"{name} must lie in [0.5, 1), got {value!r}")


def check_targets(value: Any, name: str) -> None:
    """Raise unless `value` is "plain", "theory" or a tuple of positive numbers."""
    if isinstance(value, str):
        if value not in ("plain", "theory"):
            raise InvalidValueError(f"{name} must be 'plain', 'theory' or numbers, got {value!r}")
    elif value is None:
        raise InvalidTypeError(f"{name} must be 'plain', 'theory' or a tuple of numbers, got None")
    else:
        check_numbers(value, name)


@dataclass(frozen=True)
class BanditCombiner(Master):
    """Play the base with the best optimistic value less its allowed regret; drop bases that break their promise.

    Base i promises regret C_i n^(a_i) and has a target R_i, a handicap of R_i / T on its index. A base whose rewards
    fall behind its own running mean by more than its promise is dropped for ever. Use it when bases come with bounds
    of different powers of n; with bounds of one form `DynamicBalancing` and `BoundBalancing` react sooner.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    coefficients : tuple of float, optional
        C_i, for rewards in [0, 1]; by default the square root of the dimension of each base.
    exponents : tuple of float, optional
        a_i in [1/2, 1); by default 1/2.
    targets : {"plain", "theory"} or tuple of float
        R_i. "plain" is C_i T^(a_i), without a guarantee. "theory" is C_i T^(a_i) + k(a_i) C_i^(1/a_i) T
        h_i^((1-a_i)/a_i) + `constant` L T h_i + sum over j != i of 1/h_j, with L = ln(T^3 M / delta).
    weights : tuple of float, optional
        h_i of the "theory" targets; by default 1 / sqrt(`constant` L T), which balances the last two terms up to M.
    constant : float
        As above.
    z : float
        Factor of sqrt(L n) in the test that drops a base; at least 3/sqrt(2) for a base that keeps its promise to stay.
    delta : float, optional
        Confidence; 1/sqrt(T) by default.
    unplayed : float
        Mean that a base never played counts with; the source's 0 is the least reward there is in [0, 1].
    reward_scale : float, optional
        Scale of the rewards, a factor on bounds and widths: 1 for rewards in [0, 1]; by default sigma + range/2 (range
        1 where it is unknown).

    Notes
    -----
    The regret is said to be at most 3 R_j with probability 1 - 3 delta, for every base j that keeps its promise, on a
    fixed set or i.i.d. ones. Unverified against the source: the factor 3, the 288, k(a), the sum of 1/h_j and z (3
    here; 6 and 3 sqrt(8) are in use too). Promises must be known beforehand. The optimistic part is cut off at 1, so in
    the first 8 L plays (some 200) of a base it does not fall, and a base never played looks worse than any base with
    a positive mean: the first base played is kept for hundreds of rounds.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.BanditCombiner(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    coefficients: BaseNumbers | None = None
    exponents: Annotated[tuple[float, ...], check_exponents] | None = None
    targets: Annotated[Literal["plain", "theory"] | tuple[float, ...], check_targets] = "plain"
    weights: BaseNumbers | None = None
    constant: Annotated[float, partial(positive, meaning="the factor of L T h_i, e.g. 288")] = 288.0
    z: Annotated[float, partial(positive, meaning="a factor on the slack, e.g. 3")] = 3.0
    delta: Delta | None = None
    unplayed: Annotated[float, finite] = 0.0
    reward_scale: RewardScale | None = None

    def log_term(self, horizon: int, bases: int) -> float:
        """L = ln(T^3 M / delta)."""
        return math.log(horizon**3 * bases / (self.delta or 1 / math.sqrt(horizon)))

    def target(self, coefficients: FloatArray, exponents: FloatArray, horizon: int) -> FloatArray:
        """R_i for promises C_i n^(a_i)."""
        plain: FloatArray = coefficients * horizon**exponents
        if not isinstance(self.targets, str):
            return np.array(self.targets, dtype=float)
        if self.targets == "plain":
            return plain
        log = self.log_term(horizon, len(coefficients))
        default = 1 / math.sqrt(self.constant * log * horizon)
        h = np.full(len(coefficients), default) if self.weights is None else np.array(self.weights, dtype=float)
        power = (1 - exponents) / exponents
        middle = promise_factor(exponents) * coefficients ** (1 / exponents) * horizon * h**power
        return np.asarray(plain + middle + self.constant * log * horizon * h + (1 / h).sum() - 1 / h)

    def learner(self, problem: Problem, streams: Streams) -> BanditCombinerLearner:
        return BanditCombinerLearner(self, problem, streams)


def promise_factor(a: FloatArray) -> FloatArray:
    """k(a) = (1-a)^((1-a)/a) (1+a)^(1/a) / a^((1-a)/a)."""
    power = (1 - a) / a
    return (1 - a) ** power * (1 + a) ** (1 / a) / a**power


class BanditCombinerLearner(CountingMasterLearner):
    """State of `BanditCombiner`: plays, rewards and deviation of each base, and whether it is still active."""

    policy: BanditCombiner

    def __init__(self, policy: BanditCombiner, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        count, reference = len(self.bases), problem.reference
        dims = np.array(dims_of(self.policies, problem))
        coefficients = np.sqrt(dims) if policy.coefficients is None else np.array(policy.coefficients, dtype=float)
        exponents = np.full(count, 0.5) if policy.exponents is None else np.array(policy.exponents, dtype=float)
        self.promised = per_base(coefficients.tolist(), count, "coefficients", reference)
        self.exponents = per_base(exponents.tolist(), count, "exponents", reference)
        if policy.weights is not None:
            per_base(policy.weights, count, "weights", reference)
        targets = policy.target(coefficients, exponents, problem.horizon)
        self.handicap = per_base(targets.tolist(), count, "targets", reference) / problem.horizon
        self.log = policy.log_term(problem.horizon, count)
        self.deviation = self.zeros(count)
        self.active = self.deviation == 0.0

    def estimates(self, rows: Replications) -> Array:
        """Mean reward of each base, `unplayed` for one never played."""
        mean = self.means(rows)
        return self.xp.where(rows.of(self.plays) > 0, mean, 0.0 * mean + self.policy.unplayed)

    def index(self, rows: Replications) -> Array:
        """m_i + min(1, (C_i n^a_i + sqrt(8 L n)) / n) - R_i / T, all but m_i in units of the rewards' scale."""
        xp, plays = self.xp, rows.of(self.plays)
        n = clamp(plays, 1.0)
        bonus = clamp((self.promised * n**self.exponents + xp.sqrt(8 * self.log * n)) / n, None, 1.0)
        bonus = xp.where(plays > 0, bonus, xp.ones_like(bonus))
        return self.estimates(rows) + rows.of(self.scale) * (bonus - self.handicap)

    def thresholds(self, rows: Replications) -> Array:
        """What a base's deviation may come to: C_i n^a_i + z sqrt(L n)."""
        n = clamp(rows.of(self.plays), 1.0)
        slack = self.promised * n**self.exponents + self.policy.z * self.xp.sqrt(self.log * n)
        return rows.of(self.scale) * slack

    def scores(self, rows: Replications) -> Array:
        return self.only(rows.of(self.active), self.index(rows))

    def judge_before(self, chosen: Array, rewards: Array, rows: Replications) -> None:
        # dev_i += m_i - r, with the mean as it was before r.
        rows.add(self.deviation, chosen, at_each(self.estimates(rows), chosen) - rewards)

    def judge(self, chosen: Array, rewards: Array, rows: Replications) -> None:
        xp, active = self.xp, rows.of(self.active)
        is_chosen = chosen[:, None] == self.numbers
        broken = is_chosen & (rows.of(self.deviation) >= self.thresholds(rows))
        last = xp.sum(xp.astype(active, xp.int64), axis=-1) == 1
        rows.put(self.active, active & (~broken | last[:, None]))

    def descriptions(self) -> list[dict[str, Any]]:
        return self.describe_counts(deviation_of_each_base=self.deviation, active=self.active)


@dataclass(frozen=True)
class UCBCorral(Master):
    """Play the base with the largest optimistic value, judged by the median of S independent copies.

    A round of the master is S steps: each copy of the chosen base plays once. The median makes a bound that holds in
    expectation hold with high probability. Use it when every base owns its arms and one of them owns the best, with
    a gap; where bases share the best arm, as nested ones do, and at short horizons, where a copy sees 1/S of the
    data, `DynamicBalancing` and `D3RB` do better.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    copies : int, optional
        S; by default ceil(2 ln T), and 5 in the released variant. With one copy the regret may be linear. What makes
        copies of a base differ is its own randomness.
    bound : Bound
        Rbar_i(n): the regret expected of base i after n plays, for rewards in [0, 1]. If it is 0 at n = 1, as
        sqrt(d_i n ln n) is, a base played once has next to no bonus, and whichever is played twice first is kept.
    complexities : tuple of float, optional
        d_i in the bounds (number of arms, or dimension); by default the dimension of each base.
    factor : float
        Factor on Rbar_i: 2 is what the lemma about the median gives; sqrt(2) is what the proof of the theorem uses.
    variant : {"proved", "printed", "released"}
        "proved": `factor` Rbar_i. "printed": sqrt(2 Rbar_i), as the pseudo-code has it. "released": the authors' code,
        index median + 8 sqrt(d_i ln(t + 1)) / n with t counting rounds of the master, 5 copies, and the value
        nearest to the 51st percentile as the median.
    reward_scale : float, optional
        Scale of the rewards, a factor on bounds and widths: 1 for rewards in [0, 1]; by default sigma + range/2 (range
        1 where it is unknown).

    Notes
    -----
    With gaps Delta_i between the bases' best arms, regret O(sum_i d_i ln^2(T) / Delta_i + ln(T) R_best(T)); without,
    O(ln(T) sqrt(M T ln(T) max_i d_i)). Known beforehand: the bounds, and T for the number of copies. The last round
    stops at T, whatever copy it has reached.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.UCBCorral(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    copies: Annotated[int, partial(integer, most=MAX_COPIES, meaning="or None for 2 ln T of them")] | None = None
    bound: RegretBound = field(default_factory=SqrtLogBound)
    complexities: BaseNumbers | None = None
    factor: Annotated[float, partial(positive, meaning="2, or the square root of 2")] = 2.0
    variant: Literal["proved", "printed", "released"] = "proved"
    reward_scale: RewardScale | None = None

    def copies_for(self, horizon: int) -> int:
        """Number S of copies."""
        default = RELEASED_COPIES if self.variant == "released" else max(1, math.ceil(2 * math.log(horizon)))
        return default if self.copies is None else self.copies

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

    def learner(self, problem: Problem, streams: Streams) -> UCBCorralLearner:
        return UCBCorralLearner(self, problem, streams)


class UCBCorralLearner(CountingMasterLearner):
    """State of `UCBCorral`: plays and rewards of every copy (those of one base in a row), and where the round is."""

    policy: UCBCorral

    def __init__(self, policy: UCBCorral, problem: Problem, streams: Streams) -> None:
        self.originals, self.copies = policy.policies(problem), policy.copies_for(problem.horizon)
        super().__init__(policy, problem, streams)
        self.dims = self.complexities(policy.complexities, self.originals)
        # The base of the round that is on, and its copy that plays next.
        self.base, self.copy = self.zeros(integers=True), self.zeros(integers=True)

    def check_restored(self) -> None:
        super().check_restored()
        check_positions(self, base=len(self.originals), copy=self.copies + 1)

    def base_policies(self, policy: Any, problem: Problem) -> tuple[Policy, ...]:
        # In a form that suits many copies of few pulls each: no K x K matrix for every one of them.
        lean = [replace(p, form="feature") if isinstance(p, LinUCB) and p.form == "auto" else p for p in self.originals]
        return tuple(base for base in lean for _ in range(self.copies))

    def scores(self, rows: Replications) -> Array:
        """Index of every base (n, M), as it is between two rounds; infinite for one never played."""
        xp, shape = self.xp, (len(rows), len(self.originals), self.copies)
        plays = xp.reshape(rows.of(self.plays), shape)
        median = self.policy.median(xp.reshape(rows.of(self.rewards), shape) / clamp(plays, 1.0), xp)
        n = clamp(plays[:, :, 0], 1.0)
        rounds = xp.sum(plays[:, :, 0], axis=-1)[:, None]
        steps = 1.0 + self.copies * rounds  # the number of the step that comes next
        index = median + rows.of(self.scale) * self.policy.bonus(self.dims, n, steps, rounds, xp)
        return xp.where(plays[:, :, 0] > 0, index, xp.full_like(index, math.inf))

    def next_base(self, rows: Replications) -> Array:
        copy, uniforms = rows.of(self.copy) + 0, self.draws.uniforms(rows)
        base = rows.of(self.base) + 0
        if not all_true_on_host(copy):  # a round of the master begins somewhere
            base = self.xp.where(copy == 0, argmax(self.scores(rows), uniforms), base)
        return base * self.copies + copy

    def judge(self, chosen: Array, rewards: Array, rows: Replications) -> None:
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
