"""A master over smoothed bases (Pacchiano et al. 2020): every round is one step of a base and one replay of its past.

Step 1 plays what the base proposes, and the base learns from it. Step 2 plays one of the base's proposals so far,
uniformly at random; its expected regret is the base's average so far, which is what an adversarial master can trust.
On a fixed action set a past policy is the arm it played, so storing integers is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from adadim.arrays import Array, Rows, as_numpy, groups, like, positions
from adadim.policies.iterations import Solver
from adadim.policies.masters.bases import FloatArray, IntArray, loss
from adadim.policies.masters.distributions import MasterDistribution
from adadim.randomness import Streams

__all__ = ["Feedback", "SmoothedBases", "sample"]

Feedback = Literal["step2", "mean", "sum"]


def sample(probabilities: FloatArray, uniforms: FloatArray) -> IntArray:
    """Index drawn from each row of `probabilities`."""
    steps = np.cumsum(probabilities, axis=-1)
    drawn: IntArray = (steps <= (uniforms * steps[:, -1])[:, None]).sum(axis=-1)
    return drawn


class SmoothedBases:
    """Bases wrapped by smoothing under a master; plays the part of a `Solver`.

    Parameters
    ----------
    bases : sequence of Solver
        What the master chooses among.
    master : MasterDistribution
        Probabilities of the bases.
    replications : int
        R.
    streams : Streams
        The master's own randomness; two draws per round.
    replay : bool
        False plays step 1 only (Stochastic Corral).
    feedback : {"step2", "mean", "sum"}
        Which losses of a round the master sees.
    loss_range : (float, float)
        Rewards mapped to losses 1 and 0.
    reference : array
        An array of the library and on the device of the arms.
    """

    def __init__(
        self,
        bases: Sequence[Solver],
        master: MasterDistribution,
        replications: int,
        streams: Streams,
        replay: bool,
        feedback: Feedback,
        loss_range: tuple[float, float],
        reference: Array,
    ) -> None:
        self.bases, self.master, self.streams = bases, master, streams
        self.replay, self.feedback, self.loss_range = replay, feedback, loss_range
        self.history: list[list[list[int]]] = [[[] for _ in bases] for _ in range(replications)]
        self.reference = reference
        self.chosen: IntArray = np.zeros(replications, dtype=np.int64)
        self._replaying = np.zeros(replications, dtype=bool)
        self._first_loss = np.zeros(replications)

    @property
    def counts(self) -> IntArray:
        """Rounds given to each base, (R, M)."""
        return np.array([[len(past) for past in row] for row in self.history])

    def _select(self, rows: Rows) -> Array:
        ids = positions(rows, len(self.chosen))
        uniforms = self.streams.uniforms(rows)
        arms = np.zeros(len(ids), dtype=np.int64)
        again = self._replaying[ids]
        for i in np.flatnonzero(again):
            past = self.history[ids[i]][self.chosen[ids[i]]]
            arms[i] = past[int(uniforms[i] * len(past))]
        first = np.flatnonzero(~again)
        if first.size:
            fresh = rows if first.size == len(ids) else like(ids[first], self.reference)
            chosen = sample(self.master.probabilities(ids[first]), uniforms[first])
            self.chosen[ids[first]] = chosen
            for b, members, places in groups(chosen, fresh, len(self.chosen), self.reference):
                proposed = as_numpy(self.bases[b]._select(members))
                arms[first[as_numpy(places) if not isinstance(places, slice) else places]] = proposed
        return like(arms, self.reference)

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        ids = positions(rows, len(self.chosen))
        losses = loss(rewards, self.loss_range)
        again = self._replaying[ids]
        first = np.flatnonzero(~again)
        if first.size:
            whole = first.size == len(ids)
            fresh = rows if whole else like(ids[first], self.reference)
            place = like(first, self.reference)
            told = (arms, rewards) if whole else (arms[place], rewards[place])
            for b, members, places in groups(self.chosen[ids[first]], fresh, len(self.chosen), self.reference):
                played = told[0][places]
                self.bases[b]._update(played, told[1][places], members)
                for r, arm in zip(positions(members, len(self.chosen)), as_numpy(played).tolist(), strict=True):
                    self.history[r][b].append(arm)
            self._first_loss[ids[first]] = losses[first]
        ended = np.flatnonzero(again) if self.replay else first
        if ended.size:
            self._feed(ids[ended], losses[ended])
        if self.replay:
            self._replaying[ids] = ~again

    def _feed(self, rows: IntArray, losses: FloatArray) -> None:
        if self.replay and self.feedback == "mean":
            losses = 0.5 * (losses + self._first_loss[rows])
        elif self.replay and self.feedback == "sum":
            losses = losses + self._first_loss[rows]
        self.master.update(self.chosen[rows], losses, rows)
