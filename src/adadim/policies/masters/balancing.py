"""Dynamic Balancing (Cutkosky et al. 2021): play the base whose claimed regret is least, drop claims that fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal

from adadim.backend.arrays import Array, FloatArray, as_numpy, clamp, like, namespace
from adadim.backend.rows import Rows
from adadim.backend.ties import TOLERANCE
from adadim.checks import between, numbers, one_of, positive, shown
from adadim.errors import InvalidValueError
from adadim.policies.base import Learner, Memo
from adadim.policies.iterations import check_beta
from adadim.policies.masters.learner import Master, MasterLearner, dims_of
from adadim.policies.masters.statistics import per_base
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["DynamicBalancing"]

Bound = Callable[[FloatArray, FloatArray, int], FloatArray]


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
        Base policies; empty for `base` in nested dimensions.
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a nested base in all d features.
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
    >>> outcome = adadim.simulate(adadim.DynamicBalancing(bound="sqrt"), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    200
    """

    bound: Literal["log", "sqrt"] | Bound = "log"
    beta: float = 0.5
    scalings: tuple[float, ...] | None = None
    biases: tuple[float, ...] | None = None
    delta: float | None = None
    c: float = 1.0
    reference: Literal["lower", "upper"] = "lower"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_beta(self.beta)
        positive(self.c, "c", "a factor on the confidence width")
        if not callable(self.bound) and not (isinstance(self.bound, str) and self.bound in ("log", "sqrt")):
            raise InvalidValueError(f"bound must be 'log', 'sqrt' or a callable, got {shown(self.bound)}")
        if self.delta is not None:
            between(self.delta, "delta", 0, 1, "()")
        one_of(self.reference, "reference", ("lower", "upper"))
        if self.scalings is not None and not all(x > 0 for x in numbers(self.scalings, "scalings")):
            raise InvalidValueError(f"scalings must be positive, got {shown(self.scalings)}")
        if self.biases is not None and not all(x >= 0 for x in numbers(self.biases, "biases")):
            raise InvalidValueError(f"biases must not be negative, got {shown(self.biases)}")

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
        xp = namespace(plays)
        return self.c * xp.sqrt(xp.log(bases * clamp(xp.log(plays), 1.0) / delta) / plays)

    def candidates(self, tied: Array, active: Array) -> Array:
        """Bases to draw from, given those whose potential is least among the active ones', and which are active."""
        return tied & active

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return BalancingLearner(self, problem, streams)


class BalancingLearner(MasterLearner):
    """State of `DynamicBalancing`."""

    no_contexts = ""
    needs_sets = "iid"

    def __init__(self, policy: DynamicBalancing, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.policies(problem), problem, streams)
        self.policy = policy
        count, reference = len(self.bases), problem.reference
        given = {"scalings": (policy.scalings, 1.0), "biases": (policy.biases, 0.0)}
        self.scalings, self.biases = (
            per_base([usual] * count if values is None else values, count, name, reference)
            for name, (values, usual) in given.items()
        )
        self.dims = like(dims_of(self.policies, problem), reference, self.xp.float64)
        self.delta = policy.delta or 1 / math.sqrt(problem.horizon)
        self.plays, self.rewards, self.potential = (self.zeros(count) for _ in range(3))
        self.active = self.plays == 0.0

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        xp, potential, active = self.xp, rows.of(self.potential), rows.of(self.active)
        least = xp.min(xp.where(active, potential, xp.full_like(potential, math.inf)), axis=-1)
        # Equal up to rounding: sqrt(2) sqrt(39) and sqrt(1) sqrt(78) are.
        tied = xp.abs(potential - least[:, None]) <= TOLERANCE * least[:, None]
        rank = xp.cumulative_sum(xp.astype(self.policy.candidates(tied, active), xp.int64), axis=-1)
        wanted = xp.floor(self.draws.uniforms(rows) * rank[:, -1]) + 1
        chosen = xp.argmax(xp.astype(rank >= wanted[:, None], xp.int8), axis=-1)
        arms, memo = self.bases.choose(chosen, rows)
        return arms, {"base": chosen, **memo}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        xp, chosen = self.xp, memo["base"]
        self.bases.absorb(chosen, arms, rewards, rows, memo)
        rows.add(self.plays, chosen, 1.0)
        rows.add(self.rewards, chosen, rewards)
        policy, plays = self.policy, rows.of(self.plays)
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

    def descriptions(self) -> list[dict[str, Any]]:
        """Plays, mean reward and state of each base, in each replication."""
        return self.describe_bases(
            rounds_of_each_base=self.xp.astype(self.plays, self.xp.int64),
            mean_reward_of_each_base=self.rewards / clamp(self.plays, 1.0),
            active=self.active,
        )
