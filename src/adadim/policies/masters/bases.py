"""The base learners of a master, and rewards turned into losses."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from adadim.backend.arrays import Array, as_numpy, clamp, is_numpy, namespace
from adadim.backend.rows import Rows
from adadim.checks import is_number, shown
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.policies.base import Memo, Policy
from adadim.policies.iterations import Solver
from adadim.policies.linucb import LinUCB
from adadim.policies.memos import marked, merged, part_of, unmarked

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
    chosen one; either way the operations do not depend on the choices. Bases whose operations are not fixed are asked
    in groups there too.

    Parameters
    ----------
    learners : sequence of Solver
        The bases.
    reference : array (R, ...)
        An array of the library and on the device of the arms.
    """

    def __init__(self, learners: Sequence[Solver], reference: Array) -> None:
        self.learners, self.reference = list(learners), reference
        self.masked = not is_numpy(reference) and all(
            getattr(learner, "fixed_operations", False) for learner in learners
        )

    def __len__(self) -> int:
        return len(self.learners)

    def __getitem__(self, b: int) -> Solver:
        return self.learners[b]

    def choose(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        """Arms that the chosen bases propose, one for each replication in `rows`, and what they have to know of it."""
        if self.masked:
            arms = chosen * 0
            memo: dict[str, Array] = {}
            every, wide = rows.masked(chosen)
            for b, learner in enumerate(self.learners):
                proposed, own = learner.choose(every.only(wide == b))
                arms = namespace(arms).where(chosen == b, rows.of(proposed), arms)
                memo |= marked({key: rows.of(values) for key, values in own.items()}, b)
            return arms, memo
        arms, parts = chosen * 0, []
        for b, members, at in rows.split(as_numpy(chosen)):
            arms[at], own = self.learners[b].choose(members)
            parts.append((at, marked(own, b)))
        return arms, merged(parts, len(rows))

    def absorb(self, chosen: Array, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        """Let the chosen bases, and only them, learn from the rewards."""
        if self.masked:
            every, wide, arms, rewards, *values = rows.masked(chosen, arms, rewards, *memo.values())
            memo = dict(zip(memo, values, strict=True))
            for b, learner in enumerate(self.learners):
                own = every.only(wide == b)
                # Arm 0 for the other replications: one that every base has.
                learner.absorb(arms * own.mask, rewards, own, unmarked(memo, b))
            return
        for b, members, at in rows.split(as_numpy(chosen)):
            self.learners[b].absorb(arms[at], rewards[at], members, part_of(unmarked(memo, b), at))

    def sequence(self) -> Hashable:
        """As `Learner.sequence`."""
        names = tuple(learner.sequence() for learner in self.learners)
        return names if self.masked and None not in names else None


def check_loss_range(loss_range: tuple[float, float]) -> None:
    """Raise unless `loss_range` is (lo, hi) with lo < hi."""
    pair = isinstance(loss_range, tuple | list) and len(loss_range) == 2 and all(map(is_number, loss_range))
    if not pair or not -math.inf < loss_range[0] < loss_range[1] < math.inf:
        raise InvalidValueError(
            f"loss_range must be (lowest, highest) reward with lowest < highest, got {shown(loss_range)}"
        )


def loss(rewards: Array, loss_range: tuple[float, float]) -> Array:
    """Rewards in [lo, hi] as losses in [0, 1], clipped."""
    lo, hi = loss_range
    return clamp((hi - rewards) / (hi - lo), 0.0, 1.0)
