"""SupLinUCB (Chu et al. 2011, after Auer 2002): the version of LinUCB with a sqrt(dT) proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, like
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import saved_keys
from adadim.core.ties import TIE_TOLERANCE, argmax
from adadim.errors import InvalidValueError
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.base import Choice, Learner, Memo, Policy
from adadim.policies.confidence import fixed_radius
from adadim.policies.linear.linucb import checked_dim
from adadim.policies.parameters import ADAPTIVE_RULES, Dim, Form, Radius, RadiusScale, Ridge, ThetaNorm, Ties


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
        Regularisation lambda of the least squares.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    radius : {"noise", "full", "paper"} or float
        As in `LinUCB`.
    scale : float
        Factor on the radius: with constants from the theory a level takes very long to leave.
    theta_norm : float
        Bound on the norm of theta, where the radius has one.
    form : {"auto", "gram", "feature"}
        How the posterior is held; the choices are the same.
    ties : {"random", "lowest"}
        How equal scores are resolved.

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
        if self.radius in ADAPTIVE_RULES:
            raise InvalidValueError(f"SupLinUCB takes radius 'noise', 'full', 'paper' or a number, got {self.radius!r}")

    def width_multiplier(self, noise: float, horizon: int, arms: int) -> float:
        """Radius in force on a sub-problem."""
        return self.scale * float(fixed_radius(self.radius, noise, horizon, arms, self.ridge, self.theta_norm))

    def learner(self, problem: Problem, streams: Streams) -> SupLinUCBLearner:
        return SupLinUCBLearner(self, problem, streams)


class SupLinUCBLearner(Learner):
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
        dim = checked_dim(policy.dim, problem)

        def model() -> LinearModel:
            return LinearModel(problem, RidgePrior(policy.ridge), dim=dim, form=policy.form)

        self.levels = AccuracyLevels(problem, problem.horizon, model)
        self.radius = policy.width_multiplier(problem.noise, problem.horizon, self.levels.unpulled.arms)

    def choose(self, rows: Replications) -> Choice:
        draws = self.draws.uniforms(rows) if self.policy.ties == "random" else None
        model = self.levels.unpulled
        chosen, memo = self.levels.climb(self.radius, draws, rows, model.offer.mask(rows))
        arms, pulled = model.choice(chosen, rows)
        return Choice(arms, {**memo, **pulled})

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        self.levels.absorb(arms, rewards, rows, memo)

    def arms_added(self) -> None:
        self.levels.arms_added()

    def descriptions(self) -> list[dict[str, Any]]:
        return self.described(rounds_per_level=self.levels.sizes, exploit_rounds=self.levels.exploits)


class AccuracyLevels:
    """The levels s = 1..S of SupLinUCB and the climb of a round through them; a model is made on first use.

    `extra` arms that are unrelated to the others, with a dimension each, may follow those of the models: a level has
    mean s / (ridge + n) and squared width 1 / (ridge + n) of each, by its own n pulls and sum s of rewards.
    """

    def __init__(self, problem: Problem, horizon: int, model: Callable[[], LinearModel], extra: int = 0) -> None:
        self.problem, self._model, self.extra = problem, model, extra
        self.count = max(1, math.ceil(math.log(horizon)))
        self.finest = 1 / math.sqrt(horizon)
        self.sizes = np.zeros((len(problem), self.count), dtype=np.int64)
        self.exploits = np.zeros(len(problem), dtype=np.int64)
        self.unpulled = model()  # what levels without a pull predict
        self.ridge = float(self.unpulled.ridge[0])
        self._models: list[LinearModel | None] = [None] * self.count
        self._extra_sums = np.zeros((self.count, 2, len(problem), extra))

    def model(self, level: int) -> LinearModel:
        """Model of a level (counted from 0), made when first asked for."""
        model = self._models[level]
        if model is None:
            self._models[level] = model = self._model()
        return model

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make the models that a saved state has."""
        for level in saved_keys(saved["_models"]):
            self.model(level)

    def predict(self, level: int, rows: Replications) -> tuple[Array, Array]:
        """Mean and squared width of every arm at a level (counted from 0)."""
        mean, width2 = (self._models[level] or self.unpulled).predict(rows)
        if not self.extra:
            return mean, width2
        pulls, sums = (rows.of(like(part, mean)) for part in self._extra_sums[level])
        xp = self.problem.xp
        mean = xp.concat([mean, sums / (self.ridge + pulls)], axis=-1)
        return mean, xp.concat([width2, 1.0 / (self.ridge + pulls)], axis=-1)

    def climb(self, radius: Array, draws: Array | None, rows: Replications, masked: Replications) -> tuple[Array, Memo]:
        """Position chosen in each replication of `rows`, and the level that chose it (-1: exploit, nothing to learn).

        `masked` are the rows with a mask over the arms that `predict` covers.
        """
        xp, reference, count = self.problem.xp, self.problem.reference, len(rows)
        chosen, levels = np.zeros(count, dtype=np.int64), np.full(count, -1)
        undecided = np.ones(count, dtype=bool)
        alive = masked.allowed
        lowest = like(0.0, reference) - math.inf
        for level in range(self.count):
            mean, width2 = self.predict(level, rows)
            alive = xp.ones_like(mean, dtype=xp.bool) if alive is None else alive
            width = radius * xp.sqrt(width2)
            ucb = xp.where(alive, mean + width, lowest)
            wide = xp.where(alive, width, lowest)
            widest = as_numpy(xp.max(wide, axis=-1))
            scale = 2.0 ** -(level + 1)
            # A width within rounding of the threshold has reached it: on unit arms they are equal after 4^s - 1 pulls.
            exploit = undecided & (widest <= self.finest * (1 + TIE_TOLERANCE))
            explore = undecided & ~exploit & (widest > scale * (1 + TIE_TOLERANCE))
            if exploit.any():
                chosen[exploit] = as_numpy(argmax(ucb, draws))[exploit]
            if explore.any():
                chosen[explore] = as_numpy(argmax(wide, draws))[explore]
                levels[explore] = level
            undecided &= ~(exploit | explore)
            if not undecided.any():
                break
            alive = alive & (ucb >= (xp.max(ucb, axis=-1) - 2 * scale)[:, None])
        return like(chosen, reference), {"level": like(levels, reference)}

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Give the rewards of arms to the levels that chose them; those of pure exploitation to none.

        Arms from `Problem.arms` on are the extra ones.
        """
        for level, members, at in rows.split(as_numpy(memo["level"])):
            if level < 0:
                self.exploits[members.ids] += 1
                continue
            self.sizes[members.ids, level] += 1
            part = {key: values[at] for key, values in memo.items()}
            self._learn(level, arms[at], rewards[at], members, part)

    def _learn(self, level: int, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        if not self.extra:
            self.model(level).absorb(arms, rewards, rows, memo)
            return
        pulled, values, real = as_numpy(arms), as_numpy(rewards), self.problem.arms
        for i in np.flatnonzero(pulled >= real):
            self._extra_sums[level, :, rows.ids[i], pulled[i] - real] += (1.0, values[i])
        if (pulled < real).any():
            at = like(np.flatnonzero(pulled < real), arms)
            self.model(level).absorb(arms[at], rewards[at], rows.pick(at), {})

    def arms_added(self) -> None:
        """Let each level compute mean and width of arms that were added."""
        for model in (self.unpulled, *self._models):
            if model is not None:
                model.offer.arms_added()
