"""What a decision is: the arms chosen, and what its makers have to know when the rewards come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adadim.core.arrays import Array, like

__all__ = ["Choice", "Decision", "Memo", "part_of_choice"]

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


def part_of_choice(choice: Choice, which: np.ndarray[Any, Any]) -> Choice:
    """Some of the replications of a choice."""
    ids, arms, memo = choice
    index = like(np.flatnonzero(which), arms)
    return ids[which], arms[index], {key: values[index] for key, values in memo.items()}
