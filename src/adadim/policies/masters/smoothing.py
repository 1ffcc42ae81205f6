"""A master over smoothed bases (Pacchiano et al. 2020): every round is one step of a base and one replay of its past.

Step 1 plays what the base proposes, and the base learns from it. Step 2 plays one of the base's proposals so far,
uniformly at random; its expected regret is the base's average so far, which is what an adversarial master can trust.
On a fixed action set a past policy is the arm it played, so storing integers is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Literal

import numpy as np

from adadim.arrays import ALL, Array, Rows, device_of, indices, like, namespace, positions, tally
from adadim.policies.masters.bases import Bases, loss
from adadim.policies.masters.distributions import MasterDistribution
from adadim.randomness import Streams

__all__ = ["Feedback", "SmoothedBases", "sample"]

Feedback = Literal["step2", "mean", "sum"]

Part = Callable[[Rows, Rows], Array]
"""Does something for some replications, given them and their places in the arrays at hand."""


def sample(probabilities: Array, uniforms: Array) -> Array:
    """Index drawn from each row of `probabilities`."""
    xp = namespace(probabilities)
    steps = xp.cumulative_sum(probabilities, axis=-1)
    return xp.sum(xp.astype(steps <= (uniforms * steps[:, -1])[:, None], xp.int64), axis=-1)


class SmoothedBases:
    """Bases wrapped by smoothing under a master; plays the part of a `Solver`.

    Parameters
    ----------
    bases : Bases
        What the master chooses among.
    master : MasterDistribution
        Probabilities of the bases.
    horizon : int
        Number of steps that will be played.
    streams : Streams
        The master's own randomness; two draws per round.
    replay : bool
        False plays step 1 only (Stochastic Corral).
    feedback : {"step2", "mean", "sum"}
        Which losses of a round the master sees.
    loss_range : (float, float)
        Rewards mapped to losses 1 and 0.

    Attributes
    ----------
    counts : array (R, M)
        Rounds given to each base.
    history : array (R, M, n)
        Arms that each base has played, in its first `counts` places.
    """

    def __init__(
        self,
        bases: Bases,
        master: MasterDistribution,
        horizon: int,
        streams: Streams,
        replay: bool,
        feedback: Feedback,
        loss_range: tuple[float, float],
    ) -> None:
        self.bases, self.master = bases, master
        self.replay, self.feedback, self.loss_range = replay, feedback, loss_range
        reference = bases.reference
        self.xp = xp = namespace(reference)
        self._draws = streams.beside(reference, horizon)
        self._ids = indices(reference)
        self.chosen = self._ids * 0
        shape, place = (len(self.chosen), len(bases)), device_of(reference)
        self.counts = xp.zeros(shape, dtype=xp.int64, device=place)
        self._first_loss = xp.zeros(shape[:1], dtype=xp.float64, device=place)
        self.history = xp.zeros((*shape, math.ceil(horizon / 2) if replay else horizon), dtype=xp.int64, device=place)
        self._played = np.zeros(shape[0], dtype=np.int64)
        self._replaying = np.zeros(shape[0], dtype=bool)

    def _select(self, rows: Rows) -> Array:
        return self._by_step(rows, lambda part, at: self._repeat(part), lambda part, at: self._propose(part))

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        losses = loss(rewards, self.loss_range)
        self._by_step(
            rows,
            lambda part, at: self._feed(losses[at], part),
            lambda part, at: self._learn(arms[at], rewards[at], losses[at], part),
        )

    def _advance(self, rows: Rows) -> None:
        ids = positions(rows, len(self.chosen))
        first = ids[~self._replaying[ids]]
        if first.size:
            self.bases.advance(like(first, self.chosen))
            self._played[first] += 1
        if self.replay:
            self._replaying[ids] = ~self._replaying[ids]
        if (self._played[ids][~self._replaying[ids]] == self.history.shape[2]).any():  # more is played than was said
            self.history = self.xp.concat([self.history, self.history * 0], axis=2)

    def _phase(self) -> Hashable:
        if self._replaying.any() != self._replaying.all():
            return None
        within = self.bases.phase()
        return None if within is None else (bool(self._replaying[0]), within)

    def _by_step(self, rows: Rows, second: Part, first: Part) -> Array:
        """Apply one function to the replications of `rows` that replay and another to the rest."""
        again = self._replaying[positions(rows, len(self.chosen))]
        if again.all() or not again.any():
            return (second if again[0] else first)(rows, ALL)
        ids, result = self._ids[rows], self._ids[rows] * 0
        for function, flags in ((second, again), (first, ~again)):
            at = like(np.flatnonzero(flags), ids)
            given = function(ids[at], at)
            if given is not None:
                result[at] = given
        return result

    def _repeat(self, rows: Rows) -> Array:
        """Step 2: one of the chosen base's proposals so far."""
        ids, chosen = self._ids[rows], self.chosen[rows]
        nth = self.xp.astype(self._draws.uniforms(rows) * self.counts[ids, chosen], self.xp.int64)
        return self.history[ids, chosen, nth]

    def _propose(self, rows: Rows) -> Array:
        """Step 1: what a base drawn by the master proposes."""
        chosen = sample(self.master.probabilities(rows), self._draws.uniforms(rows))
        self.chosen[rows] = chosen
        return self.bases.ask(chosen, rows)

    def _learn(self, arms: Array, rewards: Array, losses: Array, rows: Rows) -> None:
        ids, chosen = self._ids[rows], self.chosen[rows]
        self.bases.teach(chosen, arms, rewards, rows)
        self.history[ids, chosen, self.counts[ids, chosen]] = arms
        tally(self.counts, rows, chosen, 1)
        if self.replay:
            self._first_loss[rows] = losses
        else:
            self.master.update(chosen, losses, rows)

    def _feed(self, losses: Array, rows: Rows) -> None:
        if self.feedback == "mean":
            losses = 0.5 * (losses + self._first_loss[rows])
        elif self.feedback == "sum":
            losses = losses + self._first_loss[rows]
        self.master.update(self.chosen[rows], losses, rows)
