"""LinUCB: optimism with ridge regression (Chu et al. 2011), in all features or the first few."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adadim.actions import ActionSet
from adadim.arrays import ALL, Array, Rows, as_numpy, like, put, take
from adadim.errors import ForeignArmError, InvalidValueError
from adadim.policies.base import Learner, Policy
from adadim.policies.confidence import (
    Bonus,
    Radius,
    check_bonus,
    check_dim,
    check_radius,
    fixed_radius,
    oful_radius,
    optimism,
)
from adadim.policies.ties import Ties, argmax, check_ties
from adadim.posterior import Form, check_form, posterior
from adadim.problem import Problem, check_positive
from adadim.randomness import Streams

__all__ = ["LinUCB", "LinUCBLearner"]


@dataclass(frozen=True)
class LinUCB(Policy):
    """Pull the arm with the largest estimated mean plus confidence width.

    Use it when you know how many features matter (`dim`), or when d is small against the horizon. Prefer a
    policy that adapts when d is large and you do not know: in too few features LinUCB is biased for ever, in all of
    them it pays for each.

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares.
    bonus : {"norm", "squared"}
        Width sqrt(a^T V^-1 a) as in the theory, or its square, as in the authors' released code.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    radius : {"noise", "full", "paper", "oful"} or float
        Multiplier of the width. "noise": sigma sqrt(2 ln(2 T^1.5 K)). "full": that plus sqrt(ridge) times
        `theta_norm`, the bound for a fixed design. "paper": the constants of the paper's corollary, which assume
        ridge 1 and unit noise. "oful": the self-normalised bound, valid for adaptive designs.
    scale : float
        Factor on the radius.
    theta_norm : float
        Bound on the norm of theta, for "full" and "oful".
    arms : {"distinct", "supported"}
        On an expressive set with `dim` < d: all arms that differ in the first `dim` features, or only those that are
        zero afterwards, for which the model is still linear.
    first_pull : {"optimistic", "uniform"}
        How the first arm is chosen: by its score (the longest arm), or uniformly, as the released code does for the
        base learners of Dynamic Balancing.
    form : {"auto", "gram", "feature"}
        How the posterior is held; the choices are the same.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    LinUCB itself has no sqrt(dT) proof, since its data depend on its choices; `SupLinUCB` has one, and
    ``radius="oful"`` gives O~(d sqrt(T)) for rewards linear in the features used, norms of at most 1 and
    sub-Gaussian noise.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=100, dim=20, intrinsic_dim=3, horizon=300, replications=range(4))
    >>> ambient = adadim.simulate(adadim.LinUCB(), instance)
    >>> oracle = adadim.simulate(adadim.LinUCB(dim=3), instance)
    >>> bool(oracle.final.mean() < ambient.final.mean())
    True
    """

    ridge: float = 0.1
    bonus: Bonus = "norm"
    dim: int | None = None
    radius: Radius = "noise"
    scale: float = 1.0
    theta_norm: float = 1.0
    arms: Literal["distinct", "supported"] = "distinct"
    first_pull: Literal["optimistic", "uniform"] = "optimistic"
    form: Form = "auto"
    ties: Ties = "random"

    def __post_init__(self) -> None:
        check_positive(self.ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        check_positive(self.theta_norm, "theta_norm", "a bound on the norm of theta, e.g. 1")
        check_bonus(self.bonus)
        check_radius(self.radius, self.scale)
        check_ties(self.ties)
        check_dim(self.dim)
        check_form(self.form)
        if self.arms not in ("distinct", "supported"):
            raise InvalidValueError(f"arms must be 'distinct' or 'supported', got {self.arms!r}")
        if self.first_pull not in ("optimistic", "uniform"):
            raise InvalidValueError(f"first_pull must be 'optimistic' or 'uniform', got {self.first_pull!r}")

    def width_multiplier(self, problem: Problem, arms: int) -> Any:
        """Radius for `arms` arms, as far as it does not depend on the data."""
        noise = problem.noise if isinstance(self.radius, str) else 0.0  # a number needs no noise scale
        return self.scale * fixed_radius(self.radius, noise, problem.horizon, arms, self.ridge, self.theta_norm)

    def _start(self, problem: Problem, streams: Streams) -> LinUCBLearner:
        return LinUCBLearner(self, problem, streams)


class LinUCBLearner(Learner):
    """State of `LinUCB`: a posterior on the (truncated) arms, or on other features of them (`actions`)."""

    takes_masks = True

    def __init__(self, policy: LinUCB, problem: Problem, streams: Streams, actions: ActionSet | None = None) -> None:
        super().__init__(problem)
        self.policy = policy
        self._draws = streams.beside(problem.actions.base, problem.horizon)
        dim = problem.dim if policy.dim is None else policy.dim
        seen, self._pull = (actions or problem.actions).truncate(dim, supported=policy.arms == "supported")
        self._whole = seen.arms == problem.arms
        if not self._whole:
            place, foreign = np.zeros(problem.arms, dtype=np.int64), np.ones(problem.arms, dtype=bool)
            place[as_numpy(self._pull)], foreign[as_numpy(self._pull)] = np.arange(seen.arms), False
            self._place, self._foreign = like(place, seen.base), like(foreign, seen.base)
        self.posterior = posterior(seen, policy.ridge, policy.form)
        self._streamed = self.posterior.streamed
        self._started = self.posterior.logdet > 0.0
        self._radius = policy.width_multiplier(problem, seen.arms)

    def radius(self, rows: Rows = ALL) -> Any:
        """Current multiplier of the width; one per replication for "oful"."""
        policy = self.policy
        if policy.radius != "oful":
            return self._radius
        logdet, delta = take(self.posterior.logdet, rows), 1 / math.sqrt(self.problem.horizon)
        value = oful_radius(self.problem.noise, policy.ridge, policy.theta_norm, delta, logdet)[:, None]
        return policy.scale * value

    def scores(self, rows: Rows = ALL) -> Array:
        """Optimistic score of every arm of the (truncated) set."""
        state = self.posterior
        return optimism(take(state.mean, rows), take(state.width2, rows), self.radius(rows), self.policy.bonus)

    def _select(self, rows: Rows) -> Array:
        draws = self._draws.uniforms(rows) if self.policy.ties == "random" else None
        scores = self.scores(rows)
        if self.policy.first_pull == "uniform":
            started = take(self._started, rows)
            if not isinstance(started, np.ndarray) or not started.all():
                scores = self.xp.where(started[:, None], scores, self.xp.zeros_like(scores))
        chosen = argmax(scores, draws)
        return chosen if self._whole else self._pull[chosen]

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        self.posterior.absorb(arms if self._whole else self._place[arms], rewards, rows)
        if self.policy.first_pull == "uniform":
            put(self._started, rows, take(self._started, rows) | True)

    def _advance(self, rows: Rows) -> None:
        self.posterior.settle()

    def _phase(self) -> Hashable:
        return type(self).__name__

    def _checked_arms(self, arms: Array, count: int) -> Array:
        checked = super()._checked_arms(arms, count)
        if not self._whole and as_numpy(self._foreign[checked]).any():
            raise ForeignArmError(
                f"arms {as_numpy(checked).tolist()} include one that LinUCB(dim={self.policy.dim}) does not use"
            )
        return checked

    def describe(self) -> list[dict[str, Any]]:
        """Dimension, pulls and leading arm of each replication."""
        counts = as_numpy(self.posterior.counts)
        pull = as_numpy(self._pull)
        return [
            {
                "replication": r,
                "dim": self.posterior.actions.dim,
                "pulls": int(n.sum()),
                "distinct arms pulled": int((n > 0).sum()),
                "most pulled arm": int(pull[n.argmax()]),
                "its pulls": int(n.max()),
            }
            for r, n in zip(self.problem.replications, counts, strict=True)
        ]
