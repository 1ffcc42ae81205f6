"""A master over smoothed bases (Pacchiano et al. 2020): every round is one step of a base and one replay of its past.

Step 1 plays what the base proposes, and the base learns from it. Step 2 plays one of the base's proposals so far,
uniformly at random; its expected regret is the base's average so far, which is what an adversarial master can trust.
On a fixed action set a past policy is the arm it played, so storing integers is enough; where features come with each
round it is a regression.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from adadim.core.arrays import Array, as_numpy, like, namespace, zeros
from adadim.core.randomness import Streams
from adadim.core.recording import on_host
from adadim.core.rows import Rows
from adadim.errors import InvalidValueError
from adadim.models.context import ContextPosterior
from adadim.policies.base import Memo
from adadim.policies.linear.linucb import LinUCBLearner
from adadim.policies.masters.base import Bases, loss
from adadim.policies.masters.corral import sample
from adadim.policies.memos import merged, part_of, unmarked

RoundFeedback = Literal["step2", "mean", "sum"]

EVERY = 32  # pulls; memory then grows by d^2 / 32 numbers a pull


def rounds_of(steps: int, replay: bool) -> int:
    """Rounds of a master in so many steps."""
    return math.ceil(steps / 2) if replay else steps


class MasterDistribution(Protocol):
    """Probabilities (n, M) of the bases, moved by the losses in [0, 1] (or sums of two) of those that were sampled."""

    def probabilities(self, rows: Rows) -> Array: ...

    def update(self, chosen: Array, losses: Array, rows: Rows) -> None: ...


class SmoothedBases:
    """Bases wrapped by smoothing under a master; plays the part of a `Solver`.

    `horizon` is the number of steps that will be played; the streams are the master's own, two draws a round. The
    policy's `replay`, `feedback` and `loss_range` say whether there is a step 2, and which losses the master sees.
    `counts` (R, M) are the rounds given to each base, `history` (R, M, n) the arms that each has played.
    """

    def __init__(self, policy: Any, bases: Bases, master: MasterDistribution, horizon: int, streams: Streams) -> None:
        self.bases, self.master = bases, master
        self.replay, self.feedback, self.loss_range = policy.replay, policy.feedback, policy.loss_range
        reference, count = bases.reference, int(bases.reference.shape[0])
        self.streams, self.horizon = streams, horizon
        self.counts = zeros(reference, count, len(bases), integers=True)
        self.history = zeros(reference, count, len(bases), rounds_of(horizon, policy.replay), integers=True)
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
        return self.bases.choose(sample(self.master.probabilities(rows), self._draw(rows)), rows)

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


class PastRegression:
    """The regression of one base as it was after each number of pulls, in every replication.

    The pulls are kept, and V^-1 and theta after every `EVERY` of them: a past regression is then made exactly, by at
    most `EVERY` - 1 rank-one steps.
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
    """`SmoothedBases` where features come with each round, and an arm of an earlier one means nothing.

    What a base would have done after its first n pulls is said by the regression on them, which step 2 asks.
    """

    def __init__(self, policy: Any, bases: Bases, master: MasterDistribution, horizon: int, streams: Streams) -> None:
        super().__init__(policy, bases, master, horizon, streams)
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
    kept = [one for one in learners if type(one) is LinUCBLearner and one.clock is None and one.policy.memory is None]
    if len(kept) != len(learners):
        raise InvalidValueError(
            "where features come with each round, Smooth Corral replays past regressions, which only the bases LinUCB, "
            "Greedy and TaperedLinUCB have that forget nothing; use these, or Corral, which replays nothing"
        )
    return kept
