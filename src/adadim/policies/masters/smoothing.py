"""A master over smoothed bases (Pacchiano et al. 2020): every round is one step of a base and one replay of its past.

Step 1 plays what the base proposes, and the base learns from it. Step 2 plays one of the base's proposals so far,
uniformly at random; its expected regret is the base's average so far, which is what an adversarial master can trust.
On a fixed action set a past policy is the arm it played, so storing integers is enough; where features come with each
round it is a regression (`adadim.policies.masters.stored`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, Literal

import numpy as np

from adadim.backend.arrays import Array, namespace, zeros
from adadim.backend.recording import on_host
from adadim.backend.rows import Rows
from adadim.policies.base import Memo
from adadim.policies.masters.bases import Bases, loss
from adadim.policies.masters.distributions import MasterDistribution
from adadim.policies.memos import merged, part_of
from adadim.randomness import Streams

__all__ = ["Feedback", "SmoothedBases", "sample"]

Feedback = Literal["step2", "mean", "sum"]


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
        reference, count = bases.reference, int(bases.reference.shape[0])
        self.streams, self.horizon = streams, horizon
        self.counts = zeros(reference, count, len(bases), integers=True)
        self.history = zeros(reference, count, len(bases), math.ceil(horizon / 2) if replay else horizon, integers=True)
        # Between the two steps of a round: the base that played the first, and its loss.
        self.base = zeros(reference, count, integers=True)
        self.first_loss = zeros(reference, count)
        self.played = np.zeros(count, dtype=np.int64)
        self.replaying = np.zeros(count, dtype=bool)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        parts = []
        for again, members, at in rows.split(self.replaying[rows.ids]):
            arms, memo = self._repeat(members) if again else self._propose(members)
            parts.append((at, {"arms": arms, **memo}))
        memo = dict(merged(parts, len(rows)))
        return memo.pop("arms"), memo

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        losses = loss(rewards, self.loss_range)
        for again, members, at in rows.split(self.replaying[rows.ids]):
            if again:
                self._feed(losses[at], members)
            else:
                self._learn(arms[at], rewards[at], losses[at], members, part_of(memo, at))
        on_host(lambda: self._count_step(rows.ids))

    def sequence(self) -> Hashable:
        """As `Learner.sequence`."""
        if self.replaying.any() != self.replaying.all():
            return None
        within = self.bases.sequence()
        return None if within is None else (bool(self.replaying[0]), within)

    def _count_step(self, ids: np.ndarray[Any, Any]) -> None:
        again = self.replaying[ids]
        self.played[ids[~again]] += 1
        if self.replay:
            self.replaying[ids] = ~again
            ids = ids[again]  # those that propose next
        if (self.played[ids] == self.history.shape[2]).any():
            self.keep_room()

    def keep_room(self) -> None:
        """Make room for more policies than were expected."""
        self.history = namespace(self.history).concat([self.history, self.history * 0], axis=2)

    def _draw(self, rows: Rows) -> Array:
        return self.streams.source(self.horizon).uniforms(rows)

    def _repeat(self, rows: Rows) -> tuple[Array, Memo]:
        """Step 2: one of the chosen base's proposals so far."""
        base, xp = rows.of(self.base), namespace(self.counts)
        nth = xp.astype(self._draw(rows) * rows.at(self.counts, base), xp.int64)
        return self.recall(base, nth, rows), {}

    def recall(self, base: Array, nth: Array, rows: Rows) -> Array:
        """What the nth policy (from 0) of a base chooses now."""
        return self.history[rows.positions, base, nth]

    def store(self, base: Array, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        """Keep the policies that have just been played."""
        self.history[rows.positions, base, rows.at(self.counts, base)] = arms

    def _propose(self, rows: Rows) -> tuple[Array, Memo]:
        """Step 1: what a base drawn by the master proposes."""
        chosen = sample(self.master.probabilities(rows), self._draw(rows))
        arms, memo = self.bases.choose(chosen, rows)
        return arms, {"base": chosen, **memo}

    def _learn(self, arms: Array, rewards: Array, losses: Array, rows: Rows, memo: Memo) -> None:
        base = memo["base"]
        self.bases.absorb(base, arms, rewards, rows, memo)
        self.store(base, arms, rewards, rows, memo)
        rows.add(self.counts, base, 1)
        if self.replay:
            rows.put(self.base, base)
            rows.put(self.first_loss, losses)
        else:
            self.master.update(base, losses, rows)

    def _feed(self, losses: Array, rows: Rows) -> None:
        if self.feedback == "mean":
            losses = 0.5 * (losses + rows.of(self.first_loss))
        elif self.feedback == "sum":
            losses = losses + rows.of(self.first_loss)
        self.master.update(rows.of(self.base), losses, rows)
