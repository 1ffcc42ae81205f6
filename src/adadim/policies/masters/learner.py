"""What masters share: base learners, each with randomness of its own."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adadim.backend.arrays import Array, as_numpy, is_numpy
from adadim.checks import flag
from adadim.policies.base import Learner, Policy
from adadim.policies.linucb import LinUCB
from adadim.policies.masters.bases import Bases, check_bases
from adadim.policies.masters.nested import NestedLinUCB, are_nested
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["Master", "MasterLearner", "dims_of", "nested_dims"]


def nested_dims(dim: int, ambient: bool = False) -> list[int]:
    """Dimensions 2^0, 2^1, ..., 2^(M-1) with M = ceil(log2 d), and d itself with `ambient`.

    Examples
    --------
    >>> nested_dims(600)
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    >>> nested_dims(600, ambient=True)[-1]
    600
    """
    dims = [2**i for i in range(max(1, math.ceil(math.log2(dim))))]
    return [*dims, dim] if ambient and dims[-1] < dim else dims


@dataclass(frozen=True)
class Master(Policy):
    """Hyper-parameters that masters share: the bases given, or a template in nested dimensions."""

    bases: tuple[Policy, ...] = ()
    base: LinUCB = field(default_factory=LinUCB)
    ambient: bool = False

    def __post_init__(self) -> None:
        check_bases(self.bases, self.base)
        flag(self.ambient, "ambient")

    def policies(self, problem: Problem) -> tuple[Policy, ...]:
        """The base policies that it runs on a problem."""
        return self.bases or tuple(replace(self.base, dim=m) for m in nested_dims(problem.dim, self.ambient))


def dims_of(policies: Sequence[Policy], problem: Problem) -> list[float]:
    """How many features each base policy uses: its `dim`, or all."""
    return [float(getattr(policy, "dim", None) or problem.dim) for policy in policies]


class MasterLearner(Learner):
    """A learner that runs base learners, each with streams of its own (children 1, 2, ...)."""

    takes_any_arm = False
    takes_late_rewards = False  # which base comes next depends on what the last one earned
    contexts_on_devices = True

    def __init__(self, policies: Sequence[Policy], problem: Problem, streams: Streams, separate: bool = False) -> None:
        """`separate` asks for separate learners, for a master that does not teach just the chosen one."""
        super().__init__(problem, streams)
        self.policies = tuple(policies)
        children = [streams.child(i + 1) for i in range(len(self.policies))]
        self.bases: Bases
        alone = separate or problem.contextual or problem.endless  # without end each has its own clock
        if not (alone or is_numpy(problem.reference)) and are_nested(self.policies):
            self.bases = NestedLinUCB(self.policies, problem, children)
        else:
            self.bases = Bases(self.base_learners(problem, children), problem.reference)

    def base_learners(self, problem: Problem, children: Sequence[Streams]) -> list[Learner]:
        """The learners of all bases, each with its streams."""
        return [p.learner(problem, s) for p, s in zip(self.policies, children, strict=True)]

    def sequence(self) -> Hashable:
        return self.bases.sequence()

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        """What the bases have seen together, if each keeps it; some masters' do not see the rewards as they are."""
        kept = [base.pull_sums() if isinstance(base, Learner) else None for base in self.bases.learners]
        seen = [part for part in kept if part is not None]
        if not seen or len(seen) < len(kept):
            return None
        counts, sums, squares = (sum(parts) for parts in zip(*seen, strict=True))
        return counts, sums, squares

    def describe_bases(self, **columns: Any) -> list[dict[str, Any]]:
        """One dict per replication; `columns` are arrays with a row per replication."""
        shown = {name: as_numpy(values).tolist() for name, values in columns.items()}
        names = [repr(policy) for policy in self.policies]
        return [
            {"replication": number, "bases": names, **{name: rows[r] for name, rows in shown.items()}}
            for r, number in enumerate(self.problem.replications)
        ]
