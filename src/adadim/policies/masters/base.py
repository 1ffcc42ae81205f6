"""What masters share: base learners, each with randomness of its own, asked and taught one at a time.

Masters that judge their bases by plays and rewards share the counts too, and the candidate regret bounds R_i(n). A
bound is stated for rewards in [0, 1]; a master multiplies it by the scale of the rewards. It is a function of the
number of plays n and of a base's complexity d_i, which is the base's dimension unless the master is given another.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, TypeGuard

import numpy as np

from adadim.core.arrays import Array, as_numpy, clamp, indices, like, namespace
from adadim.core.checks import between, check_fields, instance_of, is_number, not_negative, positive
from adadim.core.problem import Problem
from adadim.core.randomness import DeviceDraws, Streams
from adadim.core.rows import Replications
from adadim.core.ties import argmax
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.models.fixed import check_precision
from adadim.models.tensors import Lanes
from adadim.policies.base import Choice, Learner, Memo, Policy, started
from adadim.policies.linear.learner import LinearLearner
from adadim.policies.linear.linucb import LinUCB
from adadim.policies.parameters import nested_dims
from adadim.policies.player import Solver, merged, part_of, with_prefix, without_prefix


def dims_of(policies: Sequence[Policy], problem: Problem) -> list[float]:
    """How many features each base policy uses: its `dim`, or all."""
    return [float(getattr(policy, "dim", None) or problem.dim) for policy in policies]


def check_bases(value: Any, name: str) -> None:
    """Raise unless `value` is a tuple of policies, maybe empty."""
    if not isinstance(value, tuple) or not all(isinstance(base, Policy) for base in value):
        raise InvalidTypeError(f"{name} must be a tuple of policies (empty for nested dimensions), got {value!r}")


Template = Annotated[
    LinUCB, partial(instance_of, kind=LinUCB, wanted="a LinUCB, whose dim is then set for each base learner")
]


@dataclass(frozen=True)
class Master(Policy):
    """Hyper-parameters that masters share: the bases given, or a template in nested dimensions.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    """

    bases: Annotated[tuple[Policy, ...], check_bases] = ()
    base: Template = field(default_factory=LinUCB)
    ambient: bool = False

    def policies(self, problem: Problem) -> tuple[Policy, ...]:
        """The base policies that it runs on a problem."""
        return self.bases or tuple(replace(self.base, dim=m) for m in nested_dims(problem.dim, self.ambient))


class Bases:
    """Base learners under a master, each round asking and teaching one of them in each replication.

    With torch, if their operations are fixed, all compute for all replications under a mask; otherwise those chosen do.
    """

    def __init__(self, learners: Sequence[Solver], reference: Array) -> None:
        self.learners, self.reference = list(learners), reference
        self.masked = not Replications.all(reference).on_host and all(
            getattr(learner, "fixed_operations", False) for learner in learners
        )

    def __len__(self) -> int:
        return len(self.learners)

    def choose(self, chosen: Array, rows: Replications) -> Choice:
        """Arms that the chosen bases propose, one for each replication in `rows`, and what has to be remembered."""
        if self.masked:
            arms = chosen * 0
            memo = {"base": chosen}
            masked, wide = rows.masked(chosen)
            for b, learner in enumerate(self.learners):
                proposed, base_memo, *_ = learner.choose(masked.only(wide == b))
                arms = namespace(arms).where(chosen == b, rows.of(proposed), arms)
                memo |= with_prefix({key: rows.of(values) for key, values in base_memo.items()}, b)
            return Choice(arms, memo)
        arms, parts = chosen * 0, []
        for b, members, at in rows.split(as_numpy(chosen)):
            arms[at], base_memo, *_ = self.learners[b].choose(members)
            parts.append((at, with_prefix(base_memo, b)))
        return Choice(arms, {"base": chosen, **merged(parts, len(rows))})

    def absorb(self, chosen: Array, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Let the chosen bases, and only them, learn from the rewards."""
        if self.masked:
            masked, wide, arms, rewards, *values = rows.masked(chosen, arms, rewards, *memo.values())
            memo = dict(zip(memo, values, strict=True))
            for b, learner in enumerate(self.learners):
                members = masked.only(wide == b)
                # Arm 0 for the other replications: one that every base has.
                learner.absorb(arms * members.mask, rewards, members, without_prefix(memo, b))
            return
        for b, members, at in rows.split(as_numpy(chosen)):
            self.learners[b].absorb(arms[at], rewards[at], members, part_of(without_prefix(memo, b), at))

    def sequence(self) -> Hashable:
        """As `Learner.sequence`."""
        names = tuple(learner.sequence() for learner in self.learners)
        return names if self.masked and None not in names else None


def are_nested(policies: Sequence[Policy]) -> TypeGuard[Sequence[LinUCB]]:
    """Whether the policies are LinUCB with equal hyper-parameters in different dimensions."""
    first = policies[0]
    if not isinstance(first, LinUCB) or first.confidence.adapts or first.memory is not None:
        return False
    return all(type(p) is type(first) and replace(p, dim=first.dim) == first for p in policies)


class NestedLinUCB(Bases):
    """Bases that are `LinUCB` up to their dimension, all at once (torch): what `Bases` does, with `Lanes`."""

    def __init__(self, policies: Sequence[LinUCB], problem: Problem, streams: Sequence[Streams]) -> None:
        super().__init__((), problem.reference)
        self.policy, self.confidence = policies[0], policies[0].confidence
        dims = [problem.dim if p.dim is None else p.dim for p in policies]
        check_precision(problem.actions, self.policy.ridge, problem.horizon)
        self.lanes = Lanes(problem.actions, dims, self.policy.ridge)
        excluded, radii = np.ones((len(dims), problem.arms), dtype=bool), []
        for lane, dim in enumerate(dims):
            actions, arms = problem.actions.truncate(dim, supported=self.policy.only_supported)
            excluded[lane, as_numpy(arms)] = False
            radii.append(self.confidence.width_multiplier(problem, actions.arms))
        self.radii = like(np.asarray(radii), self.reference)
        self.excluded = like(excluded, self.reference) if excluded.any() else None
        if self.policy.ties == "random":
            self.draws = DeviceDraws(streams, self.reference, problem.horizon)

    def __len__(self) -> int:
        return len(self.lanes.dims)

    def choose(self, chosen: Array, rows: Replications) -> Choice:
        lanes, at = self.lanes, (rows.positions, chosen)
        radius = self.radii[chosen][:, None]
        scores = self.confidence.score(
            lanes.mean[at], lanes.width2[at], radius, self.confidence.bonus, lambda: lanes.pulls[at]
        )
        xp = namespace(scores)
        if self.excluded is not None:
            scores = xp.where(self.excluded[chosen], xp.full_like(scores, -np.inf), scores)
        uniforms = self.draws.uniforms(rows, chosen) if self.policy.ties == "random" else None
        return Choice(argmax(rows.apply_costs_and_mask(scores), uniforms), {"base": chosen})

    def absorb(self, chosen: Array, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        masked, chosen, arms, rewards = rows.masked(chosen, arms, rewards)
        self.lanes.absorb(chosen, arms, rewards, masked)

    def sequence(self) -> Hashable:
        return type(self).__name__


class MasterLearner(Learner):
    """A learner that runs base learners, each with streams of its own (children 1, 2, ...)."""

    takes_any_arm = False
    takes_late_rewards = False  # which base comes next depends on what the last one earned
    no_contexts = ""
    contexts_on_devices = True
    policy: Any
    bases: Bases
    updates_all_bases = False  # in one round

    def __init__(self, policy: Any, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.policies = policy, self.base_policies(policy, problem)
        children = [streams.child(i + 1) for i in range(len(self.policies))]
        separate = self.updates_all_bases or problem.contextual or problem.endless  # without end each has its own clock
        if not (separate or problem.on_host) and are_nested(self.policies):
            self.bases = NestedLinUCB(self.policies, problem, children)
        else:
            self.bases = Bases(self.base_learners(problem, children), problem.reference)

    def base_policies(self, policy: Any, problem: Problem) -> tuple[Policy, ...]:
        """The policies of all bases."""
        return tuple(policy.policies(problem))

    def base_learners(self, problem: Problem, children: Sequence[Streams]) -> list[Learner]:
        """The learners of all bases, each with its streams."""
        learners = [started(p, problem, s) for p, s in zip(self.policies, children, strict=True)]
        for learner in learners:
            if isinstance(learner, LinearLearner):
                learner.model.offer.expect_few_pulls()  # the others play the rest of the rounds
        return learners

    def sequence(self) -> Hashable:
        return self.bases.sequence()

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        """The sums of all bases together, if each keeps them; the bases of some masters learn from changed rewards."""
        by_base = [base.pull_sums() if isinstance(base, Learner) else None for base in self.bases.learners]
        kept = [sums for sums in by_base if sums is not None]
        if not kept or len(kept) < len(by_base):
            return None
        counts, sums, squares = (sum(parts) for parts in zip(*kept, strict=True))
        return counts, sums, squares

    def describe_bases(self, **columns: Any) -> list[dict[str, Any]]:
        """As `described`, with the names of the bases before the columns."""
        names = [repr(policy) for policy in self.policies]
        return self.described(bases=[names] * len(self.problem), **columns)


Factor = Annotated[float, partial(positive, meaning="the factor of the bound, e.g. 1")]


@dataclass(frozen=True)
class Bound(ABC):
    """A regret bound R_i(n) for rewards in [0, 1]; derive a frozen dataclass from it to have one of your own.

    Examples
    --------
    >>> import numpy as np
    >>> SqrtBound(c=2.0)(np.array([1.0, 4.0]), np.array([9.0, 9.0]))
    array([ 6., 12.])
    """

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def __call__(self, complexity: Array, plays: Array) -> Array:
        """R_i(n) for complexities d_i and plays n of at least 1."""


@dataclass(frozen=True)
class SqrtBound(Bound):
    """R_i(n) = c sqrt(d_i n), the form for finitely many arms.

    Examples
    --------
    >>> SqrtBound() == SqrtBound(c=1.0)
    True
    """

    c: Factor = 1.0

    def __call__(self, complexity: Array, plays: Array) -> Array:
        return self.c * namespace(plays).sqrt(complexity * plays)


@dataclass(frozen=True)
class LinearBound(Bound):
    """R_i(n) = c d_i sqrt(n), the form of OFUL, for any number of arms.

    Examples
    --------
    >>> import numpy as np
    >>> LinearBound()(np.array([3.0]), np.array([4.0]))
    array([6.])
    """

    c: Factor = 1.0

    def __call__(self, complexity: Array, plays: Array) -> Array:
        return self.c * complexity * namespace(plays).sqrt(plays)


@dataclass(frozen=True)
class PowerBound(Bound):
    """R_i(n) = c d_i^dim_power n^power.

    Examples
    --------
    >>> import numpy as np
    >>> PowerBound(power=1.0)(np.array([4.0]), np.array([3.0]))
    array([6.])
    """

    c: Factor = 1.0
    dim_power: Annotated[float, not_negative] = 0.5
    power: Annotated[float, partial(between, low=0, high=1)] = 0.5

    def __call__(self, complexity: Array, plays: Array) -> Array:
        return self.c * complexity**self.dim_power * plays**self.power


@dataclass(frozen=True)
class SqrtLogBound(Bound):
    """R_i(n) = c sqrt(d_i n max(ln n, least_log)), the form for UCB on d_i arms at any time.

    With ``least_log=0`` it claims that a first play costs nothing, which no learner can promise.

    Examples
    --------
    >>> import numpy as np
    >>> SqrtLogBound()(np.array([4.0]), np.array([1.0, 10.0])).round(6)
    array([2.      , 9.597052])
    """

    c: Factor = 1.0
    least_log: Annotated[float, not_negative] = 1.0

    def __call__(self, complexity: Array, plays: Array) -> Array:
        xp = namespace(plays)
        return self.c * xp.sqrt(complexity * plays * clamp(xp.log(plays), self.least_log))


def claimed(bound: Bound, complexity: Array, plays: Array) -> Array:
    """R_i(n_i), and 0 for a base never played."""
    xp, value = namespace(plays), bound(complexity, clamp(plays, 1.0))
    return xp.where(plays > 0, value, xp.zeros_like(value))


def mean_width(plays: Array, bases: int, delta: float) -> Array:
    """sqrt(ln(M max(ln n, 1) / delta) / n): how far a mean of n rewards in [0, 1] is from what it should be."""
    xp = namespace(plays)
    return xp.sqrt(xp.log(bases * clamp(xp.log(plays), 1.0) / delta) / plays)


def check_numbers(value: Any, name: str) -> None:
    """Raise unless `value` is a tuple of positive finite numbers."""
    if not isinstance(value, tuple) or not all(map(is_number, value)):
        raise InvalidTypeError(f"{name} must be a tuple of numbers, one for each base, or None, got {value!r}")
    if not all(0 < number < math.inf for number in value):
        raise InvalidValueError(f"{name} must be finite numbers above 0, got {value!r}")


RegretBound = Annotated[Bound, partial(instance_of, kind=Bound, wanted="a Bound such as SqrtBound(c=1.0)")]
BaseNumbers = Annotated[tuple[float, ...], check_numbers]
RewardScale = Annotated[float, partial(positive, meaning="1 for rewards in [0, 1], or None")]


def per_base(values: Sequence[float], count: int, name: str, reference: Array) -> Array:
    """Numbers of the bases as an array (M,); raises unless there is one for each."""
    if len(values) != count:
        raise InvalidValueError(f"{name} must have one entry for each of the {count} bases, got {len(values)}")
    return like(np.array(values, dtype=float), reference)


class CountingMasterLearner(MasterLearner):
    """A master that plays the base with the largest score, made from n_i plays and reward sums u_i.

    `scale` (R, 1) is that of the rewards: as the policy says, or sigma + range/2, where an unknown range counts as 1.
    """

    needs_sets = "iid"

    def __init__(self, policy: Any, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.plays, self.rewards = self.zeros(len(self.bases)), self.zeros(len(self.bases))
        self.numbers = indices(self.plays[0])
        reward_scale = getattr(policy, "reward_scale", 1.0)  # some do not scale rewards
        spread = np.ones(len(problem)) if problem.reward_range is None else problem.reward_range
        scale = problem.noise + 0.5 * spread if reward_scale is None else np.full(len(problem), float(reward_scale))
        self.scale = like(scale, problem.reference)[:, None]

    @abstractmethod
    def scores(self, rows: Replications) -> Array:
        """Scores (n, M) of the bases, of which the largest is played; -inf excludes one."""

    def next_base(self, rows: Replications) -> Array:
        """The base that plays next in each replication, (n,)."""
        return argmax(self.scores(rows), self.draws.uniforms(rows))

    def judge_before(self, chosen: Array, rewards: Array, rows: Replications) -> None:
        """Draw conclusions from a round before it is counted; by default none."""

    def judge(self, chosen: Array, rewards: Array, rows: Replications) -> None:
        """Draw conclusions from a round once it is counted; by default none."""

    def only(self, which: Array, values: Array) -> Array:
        """The values of some bases, minus infinity for the others."""
        xp = self.xp
        return xp.where(which, values, xp.full_like(values, -math.inf))

    def complexities(self, stated: tuple[float, ...] | None, policies: Sequence[Policy]) -> Array:
        """d_i of each base (M,): as stated, or its dimension, or the problem's."""
        values = dims_of(policies, self.problem) if stated is None else stated
        return per_base(values, len(policies), "complexities", self.problem.reference)

    def means(self, rows: Replications) -> Array:
        """u_i / n_i, and 0 for a base never played."""
        return rows.of(self.rewards) / clamp(rows.of(self.plays), 1.0)

    def choose(self, rows: Replications) -> Choice:
        return self.bases.choose(self.next_base(rows), rows)

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        chosen = memo["base"]
        self.bases.absorb(chosen, arms, rewards, rows, memo)
        self.judge_before(chosen, rewards, rows)
        rows.add(self.plays, chosen, 1.0)
        rows.add(self.rewards, chosen, rewards)
        self.judge(chosen, rewards, rows)

    def describe_counts(self, **columns: Any) -> list[dict[str, Any]]:
        """Plays and mean reward of each base, and `columns`, in each replication."""
        return self.describe_bases(
            rounds_of_each_base=self.xp.astype(self.plays, self.xp.int64),
            mean_reward_of_each_base=self.means(self.everyone),
            **columns,
        )
