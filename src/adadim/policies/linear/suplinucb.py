"""SupLinUCB (Chu et al. 2011, after Auer 2002): the version of LinUCB with a sqrt(dT) proof."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, as_numpy, at_each, like, squared_lengths
from adadim.core.checks import integer
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.state import check_positions, saved_keys
from adadim.core.ties import TOLERANCE, argmax
from adadim.errors import InvalidValueError
from adadim.models import context_posterior, posterior
from adadim.models.fixed import check_precision
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import fixed_radius
from adadim.policies.parameters import Dim, Form, Radius, RadiusScale, Ridge, ThetaNorm, Ties


@dataclass(frozen=True)
class SupLinUCB(Policy):
    """LinUCB split into about ln T levels of accuracy, each with data of its own.

    A round climbs the levels: while some arm is uncertain at the level's scale it is explored there; once all are
    certain, arms that are clearly worse are dropped and the next level looks more closely. Since the choice at a
    level never depends on that level's own rewards, those are independent given the features, which is what
    the proof needs. Use it for theory; in practice `LinUCB` explores far less.

    Parameters
    ----------
    radius : {"noise", "full", "paper"} or float
        As in `LinUCB`.
    scale : float
        Factor on the radius: with constants from the theory a level takes very long to leave.

    Notes
    -----
    With probability 1 - delta the regret is O(sqrt(T d ln^3(K T ln T / delta))), for rewards linear in the features
    used, norms of at most 1 and a fixed horizon. Where features come with each round they must not depend on
    rewards seen before.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> instance = adadim.Instance(np.eye(2), theta=[0.5, 0.2], horizon=500, noise=0.1)
    >>> outcome = adadim.simulate(adadim.SupLinUCB(radius=0.05), instance)
    >>> int(outcome.pulls.argmax())
    0
    """

    ridge: Ridge = 1.0
    dim: Dim | None = None
    radius: Radius = "full"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    form: Form = "auto"
    ties: Ties = "random"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius == "oful":
            raise InvalidValueError("SupLinUCB takes radius 'noise', 'full', 'paper' or a number, got 'oful'")

    def width_multiplier(self, noise: float, horizon: int, arms: int) -> float:
        """Radius in force on a sub-problem."""
        return self.scale * float(fixed_radius(self.radius, noise, horizon, arms, self.ridge, self.theta_norm))


class SupLinUCBLearner(Learner, of=SupLinUCB):
    """State of `SupLinUCB`: its levels."""

    policy: SupLinUCB
    no_contexts = ""
    contexts_on_devices = True
    needs_sets = "oblivious"
    takes_any_arm = False
    takes_new_arms = True

    def __init__(self, policy: SupLinUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        dim, arms = problem.dim if policy.dim is None else policy.dim, problem.arms
        self.levels: AccuracyLevels
        if problem.contextual:
            self.dim = integer(dim, "dim", most=problem.dim)
            self.levels = ContextLevels(problem, problem.horizon, policy.ridge, dim)
        else:
            actions, self._pull = problem.actions.truncate(dim)
            check_precision(actions, policy.ridge, problem.horizon)
            self.levels, arms = ArmLevels(problem, problem.horizon, policy.ridge, actions, policy.form), actions.arms
        self.radius = policy.width_multiplier(problem.noise, problem.horizon, arms)

    def check_restored(self) -> None:
        super().check_restored()
        if not self.problem.contextual:
            check_positions(self, _pull=self.problem.arms)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        draws = self.draws.uniforms(rows) if self.policy.ties == "random" else None
        if rows.features is not None:
            chosen, memo = self.levels.choose(self.radius, draws, rows)
            return chosen, {**memo, "features": at_each(rows.features[..., : self.dim], chosen)}
        if rows.allowed is not None:
            rows = rows.offering(None, rows.allowed[:, self._pull])
        chosen, memo = self.levels.choose(self.radius, draws, rows)
        return self._pull[chosen], {**memo, "within": chosen}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.levels.absorb(memo["features"] if self.problem.contextual else memo["within"], rewards, rows, memo)

    def arms_added(self) -> None:
        self.levels.arms_added()

    def descriptions(self) -> list[dict[str, Any]]:
        return self.described(rounds_per_level=self.levels.sizes, exploit_rounds=self.levels.exploits)


class AccuracyLevels(ABC):
    """The levels s = 1..S of SupLinUCB and the climb of a round through them; a regression is made on first use."""

    def __init__(self, problem: Problem, horizon: int, ridge: float) -> None:
        self.problem, self.ridge = problem, ridge
        self.count = max(1, math.ceil(math.log(horizon)))
        self.finest = 1 / math.sqrt(horizon)
        self.sizes = np.zeros((len(problem), self.count), dtype=np.int64)
        self.exploits = np.zeros(len(problem), dtype=np.int64)
        self._posteriors: list[Any] = [None] * self.count

    @abstractmethod
    def new_regression(self) -> Any:
        """A regression before any pull."""

    @abstractmethod
    def statistics(self, level: int, rows: Rows) -> tuple[Array, Array]:
        """Mean and squared width of every arm at a level (counted from 0)."""

    def posterior(self, level: int) -> Any:
        """Regression of a level (counted from 0), made when first asked for."""
        if self._posteriors[level] is None:
            self._posteriors[level] = self.new_regression()
        return self._posteriors[level]

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make the regressions that a saved state has."""
        for level in saved_keys(saved["_posteriors"]):
            self.posterior(level)

    def choose(self, radius: Array, draws: Array | None, rows: Rows) -> tuple[Array, Memo]:
        """Arm of each replication in `rows`, and the level that chose it (-1: exploit, nothing to learn)."""
        xp, reference, count = self.problem.xp, self.problem.reference, len(rows)
        chosen, chosen_by = np.zeros(count, dtype=np.int64), np.full(count, -1)
        undecided = np.ones(count, dtype=bool)
        alive = rows.allowed
        lowest = like(0.0, reference) - math.inf
        for level in range(self.count):
            mean, width2 = self.statistics(level, rows)
            alive = xp.ones_like(mean, dtype=xp.bool) if alive is None else alive
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
            if explore.any():
                chosen[explore] = as_numpy(argmax(wide, draws))[explore]
                chosen_by[explore] = level
            undecided &= ~(exploit | explore)
            if not undecided.any():
                break
            alive = alive & (ucb >= (xp.max(ucb, axis=-1) - 2 * scale)[:, None])
        return like(chosen, reference), {"level": like(chosen_by, reference)}

    def absorb(self, pulled: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        """Give the rewards of what was pulled to the levels that chose it; those of pure exploitation to none."""
        for level, members, at in rows.split(as_numpy(memo["level"])):
            if level < 0:
                self.exploits[members.ids] += 1
            else:
                self.sizes[members.ids, level] += 1
                self.learn(level, pulled[at], rewards[at], members)

    def learn(self, level: int, pulled: Array, rewards: Array, rows: Rows) -> None:
        """Let one level learn."""
        self.posterior(level).absorb(pulled, rewards, rows)

    def arms_added(self) -> None:
        """Let each level compute mean and width of arms that were added."""
        for state in self._posteriors:
            if state is not None:
                state.refactor(state.everyone)


class ArmLevels(AccuracyLevels):
    """The levels over one action set, whose arms have numbers; `extra` unrelated ones may follow, a dimension each."""

    def __init__(
        self, problem: Problem, horizon: int, ridge: float, actions: ActionSet, form: Form, extra: int = 0
    ) -> None:
        super().__init__(problem, horizon, ridge)
        self.actions, self.form, self.extra = actions, form, extra
        self._virtual = np.zeros((self.count, 2, len(problem), extra))

    def new_regression(self) -> Any:
        return posterior(self.actions, self.ridge, self.form)

    def statistics(self, level: int, rows: Rows) -> tuple[Array, Array]:
        state = self._posteriors[level]
        if state is None:
            width2 = rows.of(self.actions.squared_norms()) / self.ridge
            mean = width2 * 0.0
        else:
            mean, width2 = rows.of(state.mean), rows.of(state.width2)
        if self.extra:
            pulls, sums = (rows.of(like(part, mean)) for part in self._virtual[level])
            xp = self.actions.xp
            mean = xp.concat([mean, sums / (self.ridge + pulls)], axis=-1)
            width2 = xp.concat([width2, 1.0 / (self.ridge + pulls)], axis=-1)
        return mean, width2

    def learn(self, level: int, pulled: Array, rewards: Array, rows: Rows) -> None:
        if not self.extra:
            super().learn(level, pulled, rewards, rows)
            return
        arms, values, real = as_numpy(pulled), as_numpy(rewards), self.actions.arms
        for i in np.flatnonzero(arms >= real):
            self._virtual[level, :, rows.ids[i], arms[i] - real] += (1.0, values[i])
        if (arms < real).any():
            at = like(np.flatnonzero(arms < real), pulled)
            super().learn(level, pulled[at], rewards[at], rows.pick(at))


class ContextLevels(AccuracyLevels):
    """The levels where features come with each round; an arm pulled is given by its features."""

    def __init__(self, problem: Problem, horizon: int, ridge: float, dim: int) -> None:
        super().__init__(problem, horizon, ridge)
        self.dim = dim

    def new_regression(self) -> Any:
        return context_posterior(self.problem.reference, self.dim, self.ridge)

    def statistics(self, level: int, rows: Rows) -> tuple[Array, Array]:
        assert rows.features is not None
        x, state = rows.features[..., : self.dim], self._posteriors[level]
        if state is None:
            return x[..., 0] * 0.0, squared_lengths(x) / self.ridge
        return state.predict(x, rows)  # type: ignore[no-any-return]
