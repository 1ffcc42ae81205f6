"""SupLinUCB (Chu et al. 2011, after Auer 2002): the version of LinUCB with a sqrt(dT) proof."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.actions import ActionSet
from adadim.arrays import Array, Rows, as_numpy, like, positions
from adadim.errors import InvalidValueError
from adadim.policies.base import Learner, Policy
from adadim.policies.confidence import Radius, check_dim, check_radius, fixed_radius
from adadim.policies.ties import TOLERANCE, Ties, argmax, check_ties
from adadim.posterior import Form, Posterior, check_form, posterior
from adadim.problem import Problem, check_positive
from adadim.randomness import Streams

__all__ = ["Levels", "SupLinUCB"]


@dataclass(frozen=True)
class SupLinUCB(Policy):
    """LinUCB split into about ln T levels of accuracy, each with data of its own.

    A round climbs the levels: while some arm is uncertain at the level's scale it is explored there; once all are
    certain, arms that are clearly worse are dropped and the next level looks more closely. Since the choice at a
    level never depends on that level's own rewards, those are independent given the features, which is what
    the proof needs. Use it for theory; in practice `LinUCB` explores far less.

    Parameters
    ----------
    ridge : float
        Regularisation lambda of each level's least squares (1 in the analysis).
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    radius : {"noise", "full", "paper"} or float
        Multiplier of the width, as in `LinUCB`.
    scale : float
        Factor on the radius: with constants from the theory a level takes very long to leave.
    theta_norm : float
        Bound on the norm of theta, for "full".
    form : {"auto", "gram", "feature"}
        How the posteriors are held.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    With probability 1 - delta the regret is O(sqrt(T d ln^3(K T ln T / delta))), for rewards linear in the features
    used, norms of at most 1 and a fixed horizon.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> instance = adadim.Instance(np.eye(2), theta=[0.5, 0.2], horizon=500, noise=0.1)
    >>> outcome = adadim.simulate(adadim.SupLinUCB(radius=0.05), instance)
    >>> int(outcome.pulls[0].argmax())
    0
    """

    ridge: float = 1.0
    dim: int | None = None
    radius: Radius = "full"
    scale: float = 1.0
    theta_norm: float = 1.0
    form: Form = "auto"
    ties: Ties = "random"

    def __post_init__(self) -> None:
        check_positive(self.ridge, "ridge", "the regularisation lambda, 1 in the analysis")
        check_positive(self.theta_norm, "theta_norm", "a bound on the norm of theta, e.g. 1")
        check_radius(self.radius, self.scale)
        if self.radius == "oful":
            raise InvalidValueError("SupLinUCB takes radius 'noise', 'full', 'paper' or a number, got 'oful'")
        check_ties(self.ties)
        check_dim(self.dim)
        check_form(self.form)

    def width_multiplier(self, noise: float, horizon: int, arms: int) -> float:
        """Radius in force on a sub-problem."""
        return self.scale * float(fixed_radius(self.radius, noise, horizon, arms, self.ridge, self.theta_norm))

    def _start(self, problem: Problem, streams: Streams) -> Learner:
        return _SupLinUCBLearner(self, problem, streams)


class Levels:
    """The levels s = 1..S of SupLinUCB over one action set, and the climb through them.

    `extra` unrelated arms (the virtual arms of LinUCB++) may follow the real ones: each is a dimension of its own,
    so scalars hold it.
    """

    def __init__(self, actions: ActionSet, ridge: float, form: Form, horizon: int, extra: int = 0) -> None:
        self.actions, self.ridge, self.form, self.extra = actions, ridge, form, extra
        self.count = max(1, math.ceil(math.log(horizon)))
        self.finest = 1 / math.sqrt(horizon)
        self.sizes = np.zeros((actions.replications, self.count), dtype=np.int64)
        self.exploits = np.zeros(actions.replications, dtype=np.int64)
        self._posteriors: list[Posterior | None] = [None] * self.count
        self._virtual = np.zeros((self.count, 2, actions.replications, extra))
        self._chosen_level = np.zeros(actions.replications, dtype=np.int64)

    def statistics(self, level: int, rows: Rows) -> tuple[Array, Array]:
        """Mean and squared width of every arm at a level (counted from 0)."""
        state = self._posteriors[level]
        if state is None:
            # A level that was never explored is the prior; its matrices are made on the first pull.
            norms = self.actions.squared_norms()[rows] / self.ridge
            mean, width2 = norms * 0.0, norms
        else:
            mean, width2 = state.mean[rows], state.width2[rows]
        if self.extra:
            pulls, sums = (like(part, mean)[rows] for part in self._virtual[level])
            xp = self.actions.xp
            mean = xp.concat([mean, sums / (self.ridge + pulls)], axis=-1)
            width2 = xp.concat([width2, 1.0 / (self.ridge + pulls)], axis=-1)
        return mean, width2

    def select(self, radius: Array, draws: Array | None, rows: Rows) -> Array:
        """Arm of each replication in `rows`; remembers which level chose it (-1: exploit, nothing to learn)."""
        xp = self.actions.xp
        ids = positions(rows, self.actions.replications)
        chosen, undecided = np.zeros(len(ids), dtype=np.int64), np.ones(len(ids), dtype=bool)
        alive = like(np.ones((len(ids), self.actions.arms + self.extra), dtype=bool), self.actions.base)
        lowest = like(0.0, self.actions.base) - math.inf
        for level in range(self.count):
            mean, width2 = self.statistics(level, rows)
            width = radius * xp.sqrt(width2)
            ucb = xp.where(alive, mean + width, lowest)
            wide = xp.where(alive, width, lowest)
            widest = as_numpy(xp.max(wide, axis=-1))
            scale = 2.0 ** -(level + 1)
            # A width within rounding of the threshold has reached it: on unit arms they are equal after 4^s - 1 pulls.
            exploit = undecided & (widest <= self.finest * (1 + TOLERANCE))
            explore = undecided & ~exploit & (widest > scale * (1 + TOLERANCE))
            if exploit.any():
                chosen[exploit] = as_numpy(argmax(ucb, draws))[exploit]
                self._chosen_level[ids[exploit]] = -1
            if explore.any():
                chosen[explore] = as_numpy(argmax(wide, draws))[explore]
                self._chosen_level[ids[explore]] = level
            undecided &= ~(exploit | explore)
            if not undecided.any():
                break
            alive = alive & (ucb >= (xp.max(ucb, axis=-1) - 2 * scale)[:, None])
        return like(chosen, self.actions.base)

    def update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        """Give the rewards to the levels that chose the arms."""
        ids = positions(rows, self.actions.replications)
        levels = self._chosen_level[ids]
        np.add.at(self.exploits, ids[levels < 0], 1)
        host_arms, host_rewards = as_numpy(arms), as_numpy(rewards)
        for level in np.unique(levels[levels >= 0]):
            at = levels == level
            self.sizes[ids[at], level] += 1
            virtual = at & (host_arms >= self.actions.arms)
            for i in np.flatnonzero(virtual):
                self._virtual[level, :, ids[i], host_arms[i] - self.actions.arms] += (1.0, host_rewards[i])
            at &= ~virtual
            if at.any():
                if self._posteriors[level] is None:
                    self._posteriors[level] = posterior(self.actions, self.ridge, self.form)
                state = self._posteriors[level]
                assert state is not None
                place = like(np.flatnonzero(at), self.actions.base)
                state.update(arms[place], rewards[place], like(ids[at], self.actions.base))


class _SupLinUCBLearner(Learner):
    takes_any_arm = False

    def __init__(self, policy: SupLinUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem)
        self.policy, self._streams = policy, streams
        seen, self._pull = problem.actions.truncate(problem.dim if policy.dim is None else policy.dim)
        self.levels = Levels(seen, policy.ridge, policy.form, problem.horizon)
        self.radius = policy.width_multiplier(problem.noise, problem.horizon, seen.arms)
        self._chosen = like(np.zeros(len(problem), dtype=np.int64), seen.base)

    def _select(self, rows: Rows) -> Array:
        draws = self._streams.uniforms(rows) if self.policy.ties == "random" else None
        self._chosen[rows] = self.levels.select(self.radius, draws, rows)
        return self._pull[self._chosen[rows]]

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        self.levels.update(self._chosen[rows], rewards, rows)

    def describe(self) -> list[dict[str, Any]]:
        """Rounds spent at each level and rounds of pure exploitation."""
        return [
            {"replication": r, "rounds per level": sizes.tolist(), "exploit rounds": int(exploits)}
            for r, sizes, exploits in zip(
                self.problem.replications, self.levels.sizes, self.levels.exploits, strict=True
            )
        ]
