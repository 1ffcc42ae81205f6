"""Masters that balance the regret of their bases.

By candidate bounds (`DynamicBalancing`, `BoundBalancing`), by one bound of the best base (`RegretBalancing`), or by
regret coefficients learned from the data (`D3RB` and `ED2RB`, Pacchiano, Dann and Gentile 2024).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

from adadim.core.arrays import Array, FloatArray, as_numpy, clamp, like, namespace
from adadim.core.checks import numbers, positive, shown
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.ties import TIE_TOLERANCE
from adadim.errors import InvalidValueError
from adadim.policies.masters.base import (
    BaseNumbers,
    CountingMasterLearner,
    Master,
    RegretBound,
    RewardScale,
    SqrtBound,
    claimed,
    dims_of,
    mean_width,
    per_base,
)
from adadim.policies.parameters import Beta, Delta, WidthScale

BoundFunction = Callable[[FloatArray, FloatArray, int], FloatArray]


def check_bound_rule(value: Any, name: str) -> None:
    """Raise unless `value` is "log", "sqrt" or a callable."""
    if not callable(value) and not (isinstance(value, str) and value in ("log", "sqrt")):
        raise InvalidValueError(f"{name} must be 'log', 'sqrt' or a callable, got {shown(value)}")


def check_each(value: Any, name: str, zero: bool) -> None:
    """Raise unless `value` is a sequence of positive numbers; with `zero` they may be 0."""
    if not all(x > 0 or (zero and x == 0) for x in numbers(value, name)):
        raise InvalidValueError(f"{name} must {'not be negative' if zero else 'be positive'}, got {shown(value)}")


@dataclass(frozen=True)
class DynamicBalancing(Master):
    """Balance the claimed regrets of several base learners, and stop playing those whose claim the data refute.

    Each round plays the active base with the least v_i R_i(n_i), R_i being its candidate regret bound after n_i plays.
    A base is inactive while even the most favourable reading of its rewards, mean + width + R_i(n_i)/n_i, falls short
    of what some base is sure to have achieved; it may come back. Use it when you trust the form of the bounds; it pays
    for trying every base in proportion.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    bound : {"log", "sqrt"} or callable
        Candidate bounds R_i(n) for a base in d_i features. "log", the paper's:
        max(sqrt(d_i n ln(max(K n^1.5 ln n, 1))^3), 1). "sqrt": max(sqrt(d_i), T^(beta - 1/2)) sqrt(n). A callable gets
        (d_i, n, K) as arrays and returns an array.
    beta : float in [0.5, 1)
        Place on the Pareto frontier, for ``bound="sqrt"``.
    scalings, biases : tuple of float, optional
        v_i (default 1) and b_i (default 0): how often each base is tried, and how much better it must look to count.
    delta : float, optional
        Confidence; 1/sqrt(T) by default.
    c : float
        Factor on the width, 1 for rewards within an interval of length 1.
    reference : {"lower", "upper"}
        What a base is compared with: the largest lower confidence value, as the proof needs, or the largest upper
        one, as in the released code.

    Notes
    -----
    With correct bounds and the "lower" reference a well-specified base is never dropped (with probability 1 - delta)
    and the regret is O~(d* sqrt(T)) for bounds of order sqrt(d_i n), without an expressive action set.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.DynamicBalancing(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    bound: Annotated[Literal["log", "sqrt"] | BoundFunction, check_bound_rule] = "log"
    beta: Beta = 0.5
    scalings: Annotated[tuple[float, ...], partial(check_each, zero=False)] | None = None
    biases: Annotated[tuple[float, ...], partial(check_each, zero=True)] | None = None
    delta: Delta | None = None
    c: WidthScale = 1.0
    reference: Literal["lower", "upper"] = "lower"

    def candidate(self, dims: Array, plays: Array, arms: int, horizon: int) -> Array:
        """R_i(n_i); 0 for a base never played."""
        xp = namespace(plays)
        n = clamp(plays, 1.0)
        if callable(self.bound):
            value = like(self.bound(as_numpy(dims), as_numpy(n), arms), plays)
        elif self.bound == "sqrt":
            value = clamp(xp.sqrt(dims), horizon ** (self.beta - 0.5)) * xp.sqrt(n)
        else:
            inner = xp.log(clamp(arms * n**1.5 * xp.log(n), 1.0))
            value = clamp(xp.sqrt(dims * n * inner**3), 1.0)
        return xp.where(plays > 0, value, xp.zeros_like(value))

    def confidence(self, plays: Array, bases: int, delta: float) -> Array:
        """Width of a base's mean reward after `plays` plays (at least 1)."""
        return self.c * mean_width(plays, bases, delta)

    def candidates(self, tied: Array, active: Array) -> Array:
        """Bases to draw from, given those whose potential is least among the active ones', and which are active."""
        return tied & active

    def learner(self, problem: Problem, streams: Streams) -> BalancingLearner:
        return BalancingLearner(self, problem, streams)


class ClaimsLearner(CountingMasterLearner):
    """Keeps the claims of the bases (`potential`) and which are active; the active base that claims least plays."""

    def __init__(self, policy: Any, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.delta = policy.delta or 1 / math.sqrt(problem.horizon)
        self.potential = self.zeros(len(self.bases))
        self.active = self.potential == 0.0

    def scores(self, rows: Replications) -> Array:
        return self.only(rows.of(self.active), -rows.of(self.potential))

    def descriptions(self) -> list[dict[str, Any]]:
        return self.describe_counts(active=self.active)


class BalancingLearner(ClaimsLearner):
    """State of `DynamicBalancing`."""

    policy: DynamicBalancing

    def __init__(self, policy: DynamicBalancing, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        count, reference = len(self.bases), problem.reference
        scalings, biases = policy.scalings, policy.biases
        self.scalings = per_base([1.0] * count if scalings is None else scalings, count, "scalings", reference)
        self.biases = per_base([0.0] * count if biases is None else biases, count, "biases", reference)
        self.dims = like(dims_of(self.policies, problem), reference, self.xp.float64)

    def next_base(self, rows: Replications) -> Array:
        xp, potential, active = self.xp, rows.of(self.potential), rows.of(self.active)
        least = xp.min(xp.where(active, potential, xp.full_like(potential, math.inf)), axis=-1)
        # Equal up to rounding: sqrt(2) sqrt(39) and sqrt(1) sqrt(78) are.
        tied = xp.abs(potential - least[:, None]) <= TIE_TOLERANCE * least[:, None]
        rank = xp.cumulative_sum(xp.astype(self.policy.candidates(tied, active), xp.int64), axis=-1)
        wanted = xp.floor(self.draws.uniforms(rows) * rank[:, -1]) + 1
        return xp.argmax(xp.astype(rank >= wanted[:, None], xp.int8), axis=-1)

    def judge(self, chosen: Array, rewards: Array, rows: Replications) -> None:
        xp, policy, plays = self.xp, self.policy, rows.of(self.plays)
        played, n = plays > 0, clamp(plays, 1.0)
        bound = policy.candidate(self.dims, plays, self.problem.arms, self.problem.horizon)
        rows.put(self.potential, self.scalings * bound)
        value = rows.of(self.rewards) / n - self.biases
        width = policy.confidence(n, len(self.bases), self.delta)
        achieved = value - width if policy.reference == "lower" else value + width
        best = xp.max(xp.where(played, achieved, xp.full_like(achieved, -math.inf)), axis=-1)
        rows.put(self.active, ~played | (value + width + bound / n >= best[:, None]))

    def sequence(self) -> Hashable:
        return None if callable(self.policy.bound) else super().sequence()


@dataclass(frozen=True)
class BoundBalancing(Master):
    """Play the base whose claimed regret is least, and remove for ever those whose claim the data refute.

    Use it for bases that come with regret bounds of which some may be false; it competes with the best base whose
    bound holds. `DynamicBalancing` lets a base come back; `D3RB` needs no bounds.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    bound : Bound
        Candidate bounds R_i(n) for rewards in [0, 1]; used as min(R_i(n), n).
    complexities : tuple of float, optional
        d_i in the bounds (number of arms, or dimension); by default the dimension of each base.
    beta : float in [0.5, 1)
        Bounds below T^(beta - 1/2) sqrt(n) are raised to that, which gives the cheap bases less to try.
    delta : float, optional
        Confidence; 1/sqrt(T) by default.
    c : float
        Factor on the width of a mean.
    reward_scale : float, optional
        Scale of the rewards, a factor on bounds and widths: 1 for rewards in [0, 1]; by default sigma + range/2 (range
        1 where it is unknown).

    Notes
    -----
    Proved for bounds d_i C n^b, B of them false and * any true one, with probability 1 - delta at all times, on a fixed
    set or i.i.d. ones: (M + 2 B^(1-b) d*^(1/b-1)) d* C T^b + 5 d*^(1/(2b)) c sqrt(B T ln(M ln T/delta)) + 2M. The
    bounds must be known beforehand. With the constant that is proved for OFUL min(R_i(n), n) is n for all of a short
    horizon, and the bases are played in turn. The claims of active bases never differ by more than one reward.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.BoundBalancing(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    bound: RegretBound = field(default_factory=SqrtBound)
    complexities: BaseNumbers | None = None
    beta: Beta = 0.5
    delta: Delta | None = None
    c: WidthScale = 1.0
    reward_scale: RewardScale | None = None

    def learner(self, problem: Problem, streams: Streams) -> BoundBalancingLearner:
        return BoundBalancingLearner(self, problem, streams)


class BoundBalancingLearner(ClaimsLearner):
    """State of `BoundBalancing`."""

    policy: BoundBalancing

    def __init__(self, policy: BoundBalancing, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.dims = self.complexities(policy.complexities, self.policies)
        self.floor = problem.horizon ** (policy.beta - 0.5)

    def claims(self, rows: Replications) -> Array:
        """R_i(n_i), at most one reward for each play; 0 for a base never played."""
        xp, plays = self.xp, rows.of(self.plays)
        bound = claimed(self.policy.bound, self.dims, plays)
        if self.policy.beta > 0.5:
            bound = xp.maximum(bound, self.floor * xp.sqrt(plays))
        return rows.of(self.scale) * xp.minimum(bound, plays)

    def judge(self, chosen: Array, rewards: Array, rows: Replications) -> None:
        xp, plays, active = self.xp, rows.of(self.plays), rows.of(self.active)
        bound, n, mean = self.claims(rows), clamp(plays, 1.0), self.means(rows)
        width = self.policy.c * rows.of(self.scale) * mean_width(n, len(self.bases), self.delta)
        # Line "if every active base has been played": until then no base is judged.
        early = xp.any(active & (plays == 0), axis=-1)
        best = xp.max(self.only(active, mean - width), axis=-1)
        kept = early[:, None] | (mean + bound / n + width >= best[:, None])
        rows.put(self.potential, bound)
        rows.put(self.active, active & kept)


@dataclass(frozen=True)
class RegretBalancing(Master):
    """Balance the empirical regrets of several base learners, given a regret bound of the best of them.

    The most optimistic value that any base supports, b = max_i (u_i + U(n_i)) / n_i, is compared with what each base
    has earned; the base with the least n_i b - u_i is played. No base is ever dropped. Use it when one bound U is known
    for the best base, but not which base that is. With a bound for each base, which may be false, use
    `BoundBalancing`; without any bound, `D3RB`.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    bound : Bound
        U(n), the same function for all bases: it is evaluated at complexity 1. Too small a U holds on to an early
        winner, too large a U plays the bases in turn; it must grow at least as sqrt(n).
    reward_scale : float, optional
        Scale of the rewards, a factor on bounds and widths: 1 for rewards in [0, 1]; by default sigma + range/2 (range
        1 where it is unknown).

    Notes
    -----
    If U bounds the regret of the best base at all times with probability 1 - delta, the regret is at most
    M max_i U(n_i(T)) with that probability. U must be known beforehand. Not a method for the Pareto frontier: where d*
    is beyond what U covers, nothing is promised. An unplayed base is played first, which the source leaves open.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.RegretBalancing(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    bound: RegretBound = field(default_factory=SqrtBound)
    reward_scale: RewardScale | None = None

    def learner(self, problem: Problem, streams: Streams) -> RegretBalancingLearner:
        return RegretBalancingLearner(self, problem, streams)


class RegretBalancingLearner(CountingMasterLearner):
    """State of `RegretBalancing`."""

    policy: RegretBalancing

    def regrets(self, rows: Replications) -> tuple[Array, Array]:
        """Optimistic value b (n,) and empirical regrets G_i = n_i b - u_i (n, M); every base counts as played once."""
        n, earned = clamp(rows.of(self.plays), 1.0), rows.of(self.rewards)
        optimistic = (earned + rows.of(self.scale) * self.policy.bound(n * 0.0 + 1.0, n)) / n
        best = self.xp.max(optimistic, axis=-1)
        return best, n * best[:, None] - earned

    def scores(self, rows: Replications) -> Array:
        _, regret = self.regrets(rows)
        return self.xp.where(rows.of(self.plays) > 0, -regret, self.xp.full_like(regret, math.inf))

    def descriptions(self) -> list[dict[str, Any]]:
        return self.describe_counts(empirical_regret_of_each_base=self.regrets(self.everyone)[1])


@dataclass(frozen=True)
class DataDriven(Master):
    """Hyper-parameters of D3RB and ED2RB.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    d_min : float
        Least coefficient, for rewards in [0, 1]; T^(beta - 1/2) moves along the Pareto frontier.
    delta : float, optional
        Confidence; by default 1/sqrt(T), and 0.01 in the released variant.
    c : float
        Factor on the width of a mean.
    reward_scale : float, optional
        As in `BoundBalancing`, and a factor on `d_min` too.
    variant : {"printed", "released"}
        The algorithm as published, or as the authors' code has it: another width, sums divided by sqrt(n) in the test
        (of ED2RB in the estimate), no doubling above 10^4. The released one is far quicker to give up a base, and
        nothing is proved of it.
    """

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
        default = 0.01 if policy.variant == "released" else 1 / math.sqrt(problem.horizon)
        self.delta = policy.delta or default
        self.least = policy.d_min * self.scale  # in units of regret / sqrt(n)
        self.coefficients = self.zeros(len(self.bases)) + self.least
        self.potential = self.coefficients + 0.0

    @abstractmethod
    def updated(self, rows: Replications) -> tuple[Array, Array]:
        """Coefficients and potentials as they are if every base has just been played."""

    def scores(self, rows: Replications) -> Array:
        return -rows.of(self.potential)

    def judge(self, chosen: Array, rewards: Array, rows: Replications) -> None:
        coefficients, potential = self.updated(rows)
        is_chosen = chosen[:, None] == self.numbers
        rows.put(self.coefficients, self.xp.where(is_chosen, coefficients, rows.of(self.coefficients)))
        rows.put(self.potential, self.xp.where(is_chosen, potential, rows.of(self.potential)))

    def statistics(self, rows: Replications) -> tuple[Array, Array, Array, Array]:
        """n_i (at least 1), mean_i, width g(n_i), and the largest mean_j - g(n_j) as a column."""
        n, mean = clamp(rows.of(self.plays), 1.0), self.means(rows)
        width = self.policy.c * rows.of(self.scale) * mean_width(n, len(self.bases), self.delta)
        best = self.xp.max(self.only(rows.of(self.plays) > 0, mean - width), axis=-1)
        return n, mean, width, best[:, None]

    def released_estimate(self, rows: Replications) -> tuple[Array, Array]:
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
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    d_min : float
        Least coefficient, for rewards in [0, 1]; T^(beta - 1/2) moves along the Pareto frontier.
    delta : float, optional
        Confidence; by default 1/sqrt(T), and 0.01 in the released variant.
    c : float
        Factor on the width of a mean.
    reward_scale : float, optional
        As in `BoundBalancing`, and a factor on `d_min` too.
    variant : {"printed", "released"}
        The algorithm as published, or as the authors' code has it: another width, sums divided by sqrt(n) in the test
        (of ED2RB in the estimate), no doubling above 10^4. The released one is far quicker to give up a base, and
        nothing is proved of it.

    Notes
    -----
    With d_min >= 1, on a fixed set or i.i.d. ones, the regret is O~(d M sqrt(T) + d^2 sqrt(M T)) with probability
    1 - delta at all times, d being the least realised coefficient (its running maximum). Nothing but the scale of the
    rewards must be known. The largest potential is never above three times the least.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.D3RB(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    def learner(self, problem: Problem, streams: Streams) -> D3RBLearner:
        return D3RBLearner(self, problem, streams)


class D3RBLearner(DataDrivenLearner):
    """State of `D3RB`."""

    def updated(self, rows: Replications) -> tuple[Array, Array]:
        xp, dhat = self.xp, rows.of(self.coefficients)
        if self.policy.variant == "released":
            n, estimate = self.released_estimate(rows)
            doubled = clamp(2.0 * dhat, None, 1e4)
            dhat = xp.where(estimate > dhat * xp.sqrt(n), doubled, dhat)
        else:
            n, mean, width, best = self.statistics(rows)
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
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    d_min : float
        Least coefficient, for rewards in [0, 1]; T^(beta - 1/2) moves along the Pareto frontier.
    delta : float, optional
        Confidence; by default 1/sqrt(T), and 0.01 in the released variant.
    c : float
        Factor on the width of a mean.
    reward_scale : float, optional
        As in `BoundBalancing`, and a factor on `d_min` too.
    variant : {"printed", "released"}
        The algorithm as published, or as the authors' code has it: another width, sums divided by sqrt(n) in the test
        (of ED2RB in the estimate), no doubling above 10^4. The released one is far quicker to give up a base, and
        nothing is proved of it.

    Notes
    -----
    The guarantee is that of `D3RB`, d being the least realised coefficient at the end. The largest potential is never
    above twice the least.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.ED2RB(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    def learner(self, problem: Problem, streams: Streams) -> ED2RBLearner:
        return ED2RBLearner(self, problem, streams)


class ED2RBLearner(DataDrivenLearner):
    """State of `ED2RB`."""

    def updated(self, rows: Replications) -> tuple[Array, Array]:
        xp, phi, least = self.xp, rows.of(self.potential), rows.of(self.least)
        if self.policy.variant == "released":
            n, estimate = self.released_estimate(rows)
            root = xp.sqrt(n)
            phi = xp.maximum(xp.maximum(xp.minimum(estimate, 2.0 * phi), phi), least * root)
            return phi / root, phi
        n, mean, width, best = self.statistics(rows)
        root = xp.sqrt(n)
        dhat = xp.maximum(least, root * (best - mean - width))
        # Clipped to [phi, 2 phi], so that potentials stay balanced.
        return dhat, xp.minimum(xp.maximum(dhat * root, phi), 2.0 * phi)
