"""The frame that LinUCB++ and its Corral variant share: a schedule of iterations with falling dimension.

Iteration i runs a fresh solver in d_i features for DeltaT_i rounds, beside the mixture-arms of the iterations before;
what it did becomes mixture-arm i (lines 1-5 of the paper's Algorithms 1 and 2).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator
from typing import Any, Protocol

import numpy as np

from adadim.arrays import Array, Rows, as_numpy, clamp, groups, like, masked, positions, tally
from adadim.errors import InvalidValueError
from adadim.policies.base import Learner
from adadim.policies.mixtures import Mixtures
from adadim.problem import Problem
from adadim.randomness import Streams
from adadim.theory import Iteration, schedule

__all__ = ["IteratedLearner", "Solver", "check_beta", "check_expressive"]


class Solver(Protocol):
    """What plays one iteration. A choice below K is that real arm; K + j is mixture-arm j."""

    def _select(self, rows: Rows) -> Array: ...

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None: ...

    def _advance(self, rows: Rows) -> None: ...

    def _phase(self) -> Hashable: ...


class IteratedLearner(Learner):
    """Runs one solver per iteration and turns each finished iteration into a mixture-arm."""

    takes_any_arm = False

    def __init__(self, beta: float, problem: Problem, streams: Streams) -> None:
        super().__init__(problem)
        count, base = len(problem), problem.actions.base
        self.schedule = schedule(problem.horizon, beta, problem.dim)
        self.mixtures = Mixtures(base, problem.arms, self.schedule.p)
        self._streams = streams
        self._ties = streams.beside(base, problem.horizon)
        self._draws = streams.child(0).beside(base, problem.horizon)
        self._solvers: dict[int, Solver] = {}
        self._iteration = np.zeros(count, dtype=np.int64)
        self._rounds = np.zeros(count, dtype=np.int64)
        self._choice = like(np.zeros(count, dtype=np.int64), base)
        # Pulls of this iteration (real and virtual), of each mixture before it, and this iteration's (n, sum, sum of
        # squares) of rewards.
        self._counts = like(np.zeros((count, problem.arms + self.schedule.p)), base)
        self._drawn = like(np.zeros((count, self.schedule.p)), base)
        self._moments = like(np.zeros((count, 3)), base)
        self._scales = like(np.zeros((count, self.schedule.p)), base)
        if problem.reward_range is not None:
            known = np.sqrt(problem.noise**2 + (problem.reward_range / 2) ** 2)
            self._scales[...] = like(known, base)[:, None]

    @abstractmethod
    def _solver(self, iteration: Iteration) -> Solver:
        """Fresh solver for an iteration, knowing the mixtures so far."""

    def virtual_noise(self, earlier: int) -> Array:
        """Sub-Gaussian scale of each of the first `earlier` mixture-arms, (R, earlier).

        sigma_v^2 = sigma^2 + (range/2)^2 if the range of the means is known; otherwise the standard deviation of
        the rewards that made the mixture, at least sigma. The array is live: a replication that finishes an
        iteration after others have fills in its own.
        """
        return self._scales[:, :earlier]

    def _groups(self, rows: Rows) -> Iterator[tuple[int, Rows, Any]]:
        """(iteration, replications, their places in `rows`) for each iteration under way."""
        at = self._iteration[positions(rows, len(self.problem))]
        return groups(at, rows, len(self.problem), self.problem.actions.base)

    def _select(self, rows: Rows) -> Array:
        arms = self._choice[rows] * 0
        for i, members, places in self._groups(rows):
            if i not in self._solvers:
                self._solvers[i] = self._solver(self.schedule.iterations[i])
            choice = self._solvers[i]._select(members)
            self._choice[members] = choice
            arms[places] = self._realise(choice, members)
        return arms

    def _realise(self, choice: Array, rows: Rows) -> Array:
        """Real arms behind the choices: a mixture-arm draws one."""
        real, base = self.problem.arms, self.problem.actions.base
        if isinstance(base, np.ndarray):
            virtual = np.flatnonzero(choice >= real)
            if not virtual.size:
                return choice
            members, arms = positions(rows, len(self.problem))[virtual], choice.copy()
            arms[virtual] = self.mixtures.draw(choice[virtual] - real, self._draws.uniforms(members), members)
            return arms
        if not self.mixtures.q:
            return choice
        mask, wide = masked(rows, len(self.problem), choice)
        mask = mask & (wide >= real)
        drawn = self.mixtures.draw(clamp(wide - real, 0), self._draws.uniforms(mask), mask)
        return self.xp.where(choice >= real, drawn[rows], choice)

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        for i, members, places in self._groups(rows):
            choice, gained = self._choice[members], rewards[places]
            self._solvers[i]._update(choice, gained, members)
            tally(self._counts, members, choice, 1.0)
            self._moments[members, 0] += 1.0
            self._moments[members, 1] += gained
            self._moments[members, 2] += gained * gained

    def _advance(self, rows: Rows) -> None:
        for i, members, _ in self._groups(rows):
            self._solvers[i]._advance(members)
            host = positions(members, len(self.problem))
            self._rounds[host] += 1
            iteration = self.schedule.iterations[i]
            done = host[self._rounds[host] == iteration.stop] if iteration.complete else host[:0]
            if done.size:
                self._finish(i, like(done, self.problem.actions.base))

    def _phase(self) -> Hashable:
        first = int(self._iteration[0])
        if (self._iteration != first).any():
            return None
        # The first round of an iteration makes its solver, which is not an operation to record.
        within = self._solvers[first]._phase() if first in self._solvers else None
        return None if within is None else (first, within)

    def _finish(self, i: int, rows: Array) -> None:
        """Turn iteration `i` of `rows` into a mixture-arm."""
        real = self.problem.arms
        self.mixtures.add(i, self._counts[rows, :real], self._counts[rows, real : real + i], rows)
        self._drawn[rows] += self._counts[rows, real:]
        self._counts[rows] = 0.0
        if self.problem.reward_range is None:
            xp, moments = self.xp, self._moments[rows]
            n, total, squares = moments[:, 0], moments[:, 1], moments[:, 2]
            spread = xp.sqrt(clamp(squares / n - (total / n) ** 2, 0.0))
            self._scales[rows, i] = clamp(spread, self.problem.noise)
        self._moments[rows] = 0.0
        if i + 1 < len(self.schedule.iterations):
            self._iteration[as_numpy(rows)] += 1
        if (self._iteration > i).all():
            self._solvers.pop(i)

    def describe(self) -> list[dict[str, Any]]:
        """Iteration, dimension, and how often each mixture-arm was drawn, in each replication."""
        real = self.problem.arms
        drawn = as_numpy(self._drawn) + as_numpy(self._counts)[:, real:]
        told = []
        for r, number in enumerate(self.problem.replications):
            at = self.schedule.iterations[self._iteration[r]]
            told.append(
                {
                    "replication": number,
                    "iteration": at.index,
                    "dim": at.dim,
                    "rounds": int(self._rounds[r]),
                    "rounds of this iteration": int(self._rounds[r]) - at.start,
                    "draws of each mixture-arm": drawn[r, : at.index - 1].astype(int).tolist(),
                }
            )
        return told


def check_beta(beta: float) -> None:
    """Raise unless 1/2 <= beta < 1."""
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0.5 <= beta < 1:
        raise InvalidValueError(f"beta must be a number in [0.5, 1), got {beta!r}")


def check_expressive(expressive: bool | None, problem: Problem) -> bool:
    """Whether to pull truncated arms: as asked, or as the action set allows."""
    if expressive is None:
        return problem.actions.expressive
    if expressive and not problem.actions.expressive:
        raise InvalidValueError(
            "expressive=True needs an action set that is closed under truncation: build it with "
            "ActionSet(features, levels=[...]) or instances.sphere(..., expressive=True)"
        )
    return expressive
