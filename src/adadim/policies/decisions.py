"""What a decision is: the arms chosen, and what its makers have to know of it when the rewards come (its memo)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adadim.core.arrays import Array, device_of, namespace
from adadim.core.rows import EVERY

Memo = Mapping[str, Array]
"""What a learner needs to remember of a decision: arrays with an entry for each replication that it concerns."""

Choice = tuple[np.ndarray[Any, Any], Array, Memo]
"""Positions of replications, their arms, and what to remember of it."""


@dataclass(frozen=True, eq=False)
class Decision:
    """What a learner has decided; give it back with the rewards, at once or later.

    Attributes
    ----------
    arms : int or int array
        Arm to pull: one for each replication it concerns, or a plain int if the problem is a single one.
    number : int
        How many decisions the learner made before this one.
    rows : int array
        Positions of the replications it concerns.
    memo : mapping
        What the learner needs besides, to learn from the rewards: arrays with an entry for each replication.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.LinUCB(ties="lowest").start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    >>> first, second = learner.ask(), learner.ask()
    >>> learner.tell(second, 0.2)  # late, and in any order
    >>> learner.tell(first, 0.4)
    """

    arms: Any
    number: int
    rows: np.ndarray[Any, Any]
    memo: Memo = field(repr=False)


def merged(parts: Sequence[tuple[Any, Memo]], count: int) -> Memo:
    """One memo of `count` replications from those of some of them each; what a part lacks is zero."""
    if len(parts) == 1:
        return parts[0][1]
    whole: dict[str, Array] = {}
    for at, memo in parts:
        for key, values in memo.items():
            if key not in whole:
                shape, device = (count, *values.shape[1:]), device_of(values)
                whole[key] = namespace(values).zeros(shape, dtype=values.dtype, device=device)
            whole[key][at] = values
    return whole


def part_of(memo: Memo, at: Any) -> Memo:
    """The memo of the replications at some positions."""
    if at is EVERY:
        return memo
    return {key: values[at] for key, values in memo.items()}


def marked(memo: Memo, mark: int) -> Memo:
    """The memo with a number before every key, which tells it from those of other learners."""
    return {f"{mark}.{key}": values for key, values in memo.items()}


def unmarked(memo: Memo, mark: int) -> Memo:
    """The part of a memo that `marked` made with this number."""
    start = f"{mark}."
    return {key.removeprefix(start): values for key, values in memo.items() if key.startswith(start)}
