"""Past policies of LinUCB bases where features come with each round, for the replays of Smooth Corral.

An arm of an earlier round means nothing there. What a base would have done after its first n pulls is said by the
regression on them, so the pulls are kept, and V^-1 and theta after every `EVERY` of them: a past policy is then made
exactly, by at most `EVERY` - 1 rank-one steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adadim.backend.arrays import Array, as_numpy, like
from adadim.backend.rows import Rows
from adadim.errors import InvalidValueError
from adadim.policies.base import Memo
from adadim.policies.linucb import LinUCBLearner
from adadim.policies.masters.smoothing import SmoothedBases
from adadim.policies.memos import unmarked
from adadim.posterior.context import ContextPosterior

__all__ = ["PastRegression", "StoredPolicies"]

EVERY = 32  # pulls; memory then grows by d^2 / 32 numbers a pull


class PastRegression:
    """The regression of one base as it was after each number of pulls, in every replication.

    Parameters
    ----------
    replications, dim : int
        R and the number of features that the base learns in.
    ridge : float
        Its regularisation.

    Examples
    --------
    >>> past = PastRegression(1, 2, ridge=1.0)
    >>> past.add(0, np.array([1.0, 0.0]), 3.0)
    >>> past.after(0, 0).theta, past.after(0, 1).theta
    (array([[0., 0.]]), array([[1.5, 0. ]]))
    """

    def __init__(self, replications: int, dim: int, ridge: float) -> None:
        self.dim, self.ridge = dim, ridge
        self.pulls = np.zeros(replications, dtype=np.int64)
        self.x, self.rewards = np.zeros((replications, EVERY, dim)), np.zeros((replications, EVERY))
        self.inverse, self.theta = np.zeros((replications, 0, dim, dim)), np.zeros((replications, 0, dim))
        self.logdet = np.zeros((replications, 0))

    def add(self, r: int, x: Array, reward: float) -> None:
        """Keep a pull."""
        n = int(self.pulls[r])
        if n == self.x.shape[1]:
            self.x, self.rewards = (
                np.concatenate([part, np.zeros_like(part)], axis=1) for part in (self.x, self.rewards)
            )
        self.x[r, n], self.rewards[r, n] = x, reward
        self.pulls[r] = n + 1
        if (n + 1) % EVERY == 0:
            self._mark(r, (n + 1) // EVERY - 1)

    def _mark(self, r: int, place: int) -> None:
        if place == self.theta.shape[1]:
            parts = (self.inverse, self.theta, self.logdet)
            shapes = [(len(part), max(1, place), *part.shape[2:]) for part in parts]
            longer = [
                np.concatenate([part, np.zeros(shape)], axis=1) for part, shape in zip(parts, shapes, strict=True)
            ]
            self.inverse, self.theta, self.logdet = longer
        now = self.after(r, (place + 1) * EVERY)
        self.inverse[r, place], self.theta[r, place], self.logdet[r, place] = (
            now.inverse[0],
            now.theta[0],
            now.logdet[0],
        )

    def after(self, r: int, pulls: int) -> ContextPosterior:
        """The regression on the first so many pulls of replication `r`, as that of a single one."""
        state = ContextPosterior(1, self.dim, self.ridge)
        begun = (pulls - 1) // EVERY * EVERY if pulls else 0
        if begun:
            place = begun // EVERY - 1
            state.inverse[0], state.theta[0] = self.inverse[r, place], self.theta[r, place]
            state.logdet[0] = self.logdet[r, place]
        only = Rows.all(state.theta)
        for n in range(begun, pulls):
            state.absorb(self.x[r, n : n + 1], self.rewards[r, n : n + 1], only)
        state.pulls[0] = pulls
        return state


class StoredPolicies(SmoothedBases):
    """`SmoothedBases` where features come with each round: step 2 asks a past regression of the base."""

    def __init__(self, bases: Any, *rest: Any) -> None:
        super().__init__(bases, *rest)
        self.history = self.history[:, :, :1]  # arms of earlier rounds are not needed
        learners = check_stored(bases.learners)
        count = len(self.played)
        self.past = [PastRegression(count, one.model.dim, one.policy.ridge) for one in learners]

    def recall(self, base: Array, nth: Array, rows: Rows) -> Array:
        arms = np.empty(len(rows), dtype=np.int64)
        for i, (b, n) in enumerate(zip(base.tolist(), nth.tolist(), strict=True)):
            one = rows.pick(like([i], self.base))
            arms[i] = self.bases.learners[b].chosen_by(self.past[b].after(int(one.ids[0]), n), one)
        return like(arms, self.base)

    def store(self, base: Array, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        for i, (r, b) in enumerate(zip(rows.ids.tolist(), base.tolist(), strict=True)):
            own: Mapping[str, Array] = unmarked(memo, b)
            self.past[b].add(r, as_numpy(own["features"][i]), float(rewards[i]))

    def keep_room(self) -> None:
        return

    def sequence(self) -> None:
        """None: a replay reads the past on the host."""


def check_stored(learners: Sequence[Any]) -> list[LinUCBLearner]:
    """The base learners, if what they did can be done again: each a LinUCB with a radius that rewards do not change."""
    kept = [one for one in learners if type(one) is LinUCBLearner and one.clock is None]
    if len(kept) != len(learners):
        raise InvalidValueError(
            "where features come with each round, Smooth Corral replays past regressions, which only the bases LinUCB, "
            "Greedy and TaperedLinUCB have; use these, or Corral, which replays nothing"
        )
    return kept
