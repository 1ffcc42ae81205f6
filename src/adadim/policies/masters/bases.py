"""The base learners of a master, and rewards turned into losses."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from adadim.arrays import Array, Rows, as_numpy, clamp, groups, masked, namespace, take
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.policies.base import Policy
from adadim.policies.iterations import Solver
from adadim.policies.linucb import LinUCB

__all__ = ["Bases", "check_bases", "check_loss_range", "loss"]


def check_bases(bases: tuple[Policy, ...], base: LinUCB) -> None:
    """Raise unless `bases` is a tuple of policies (maybe empty) and `base` a LinUCB."""
    if not isinstance(bases, tuple) or not all(isinstance(b, Policy) for b in bases):
        raise InvalidTypeError(f"bases must be a tuple of policies (empty for nested dimensions), got {bases!r}")
    if not isinstance(base, LinUCB):
        raise InvalidTypeError(f"base must be a LinUCB, whose dim is then set for each base learner, got {base!r}")


class Bases:
    """Base learners under a master, each round asking and teaching one of them in each replication.

    NumPy: the replications of each base are a group of their own, so that nobody pays for a base not chosen. Torch:
    every base computes for all replications under a mask, or, for LinUCB in nested dimensions, one `Lanes` does for the
    chosen one; either way the operations do not depend on the choices. Bases that take no masks are asked in groups
    there too.

    Parameters
    ----------
    learners : sequence of Solver
        The bases.
    reference : array (R, ...)
        An array of the library and on the device of the arms.
    """

    def __init__(self, learners: Sequence[Solver], reference: Array) -> None:
        self.learners, self.reference = learners, reference
        self.replications = int(reference.shape[0])
        self.fixed = not isinstance(reference, np.ndarray) and all(
            getattr(learner, "takes_masks", False) for learner in learners
        )

    def __len__(self) -> int:
        return len(self.learners)

    def __getitem__(self, b: int) -> Solver:
        return self.learners[b]

    def ask(self, chosen: Array, rows: Rows) -> Array:
        """Arms that the chosen bases propose, one for each replication in `rows`."""
        arms = chosen * 0
        if self.fixed:
            mask, wide = masked(rows, self.replications, chosen)
            for b, learner in enumerate(self.learners):
                proposed = take(learner._select(mask & (wide == b)), rows)
                arms = namespace(arms).where(chosen == b, proposed, arms)
            return arms
        for b, members, places in self._groups(chosen, rows):
            arms[places] = self.learners[b]._select(members)
        return arms

    def teach(self, chosen: Array, arms: Array, rewards: Array, rows: Rows) -> None:
        """Tell the chosen bases, and only them, what came of it."""
        if self.fixed:
            mask, wide, arms, rewards = masked(rows, self.replications, chosen, arms, rewards)
            for b, learner in enumerate(self.learners):
                own = mask & (wide == b)
                learner._update(arms * own, rewards, own)  # arm 0 for the others: one that every base has a place for
            return
        for b, members, places in self._groups(chosen, rows):
            self.learners[b]._update(arms[places], rewards[places], members)
            self.learners[b]._advance(members)

    def advance(self, rows: Rows) -> None:
        """Do what is due after `teach`."""
        if self.fixed:
            for learner in self.learners:
                learner._advance(rows)

    def phase(self) -> Hashable:
        """As `Learner._phase`."""
        phases = tuple(learner._phase() for learner in self.learners)
        return phases if self.fixed and None not in phases else None

    def _groups(self, chosen: Array, rows: Rows) -> Iterator[tuple[int, Rows, Any]]:
        return groups(as_numpy(chosen), rows, self.replications, self.reference)


def check_loss_range(loss_range: tuple[float, float]) -> None:
    """Raise unless `loss_range` is (lo, hi) with lo < hi."""
    if len(loss_range) != 2 or not all(map(math.isfinite, loss_range)) or not loss_range[0] < loss_range[1]:
        raise InvalidValueError(
            f"loss_range must be (lowest, highest) reward with lowest < highest, got {loss_range!r}"
        )


def loss(rewards: Array, loss_range: tuple[float, float]) -> Array:
    """Rewards in [lo, hi] as losses in [0, 1], clipped."""
    lo, hi = loss_range
    return clamp((hi - rewards) / (hi - lo), 0.0, 1.0)
