"""LinUCB: optimism with ridge regression (Chu et al. 2011), in all features or the first few."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.actions import ActionSet
from adadim.backend.arrays import Array, as_numpy, at_each, like
from adadim.backend.clock import Clock
from adadim.backend.rows import Rows
from adadim.backend.ties import Ties, check_ties
from adadim.checks import flag, integer, positive
from adadim.errors import ForeignArmError, InvalidValueError
from adadim.policies.base import Learner, Memo, Policy, pull_counts
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
from adadim.policies.disjoint import DisjointLinUCBLearner
from adadim.policies.inputs import logged_features
from adadim.policies.sums import deviations
from adadim.posterior import Form, Posterior, check_form, context_posterior, posterior
from adadim.posterior.base import check_precision
from adadim.posterior.context import ContextPosterior
from adadim.posterior.moments import Moments
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["ContextLinUCBLearner", "LinUCB", "LinUCBLearner"]


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
        ridge 1 and unit noise. "oful": the self-normalised bound, valid for adaptive designs. On a problem without end
        (``horizon=None``) the number t of the round takes the place of T, so that the radius grows with it.
    scale : float
        Factor on the radius.
    theta_norm : float
        Bound on the norm of theta, for "full" and "oful".
    only_supported : bool
        On an expressive set with `dim` < d: use only the arms that are zero after the first `dim` features, for which
        the model is still linear, instead of all arms that differ in those.
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
    only_supported: bool = False
    form: Form = "auto"
    ties: Ties = "random"

    def __post_init__(self) -> None:
        positive(self.ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        positive(self.theta_norm, "theta_norm", "a bound on the norm of theta, e.g. 1")
        check_bonus(self.bonus)
        check_radius(self.radius, self.scale)
        check_ties(self.ties)
        check_dim(self.dim)
        check_form(self.form)
        flag(self.only_supported, "only_supported")

    def width_multiplier(self, problem: Problem, arms: int, t: Array | None = None) -> Any:
        """Radius for `arms` arms, as far as it does not depend on the data; `t` as `Clock.now` gives it."""
        if not isinstance(self.radius, str):
            return self.scale * self.radius  # a number needs neither noise nor horizon
        rounds = problem.horizon if t is None else t
        return self.scale * fixed_radius(self.radius, problem.noise, rounds, arms, self.ridge, self.theta_norm)

    def adaptive_radius(self, problem: Problem, logdet: Array, t: Array | None = None) -> Array:
        """Radius of the rule "oful", which depends on the data: one for each replication, (n, 1)."""
        delta = 1 / math.sqrt(problem.horizon) if t is None else t**-0.5
        return self.scale * oful_radius(problem.noise, self.ridge, self.theta_norm, delta, logdet[:, None])

    def clock(self, problem: Problem) -> Clock | None:
        """What counts the rounds, where the radius depends on them."""
        if not problem.endless or not isinstance(self.radius, str):
            return None
        problem.noise  # noqa: B018 - an unknown one is refused now, not in the first round
        return Clock(problem.reference)

    def scores(self, mean: Array, width2: Array, radius: Array, pulls: Array) -> Array:
        """Optimistic score of every arm, given what is known of them and how many pulls (n,) that is from."""
        return optimism(mean, width2, radius, self.bonus)

    def checked_dim(self, problem: Problem) -> int:
        """Number of features that it learns in."""
        return problem.dim if self.dim is None else integer(self.dim, "dim", most=problem.dim)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        if problem.disjoint:
            return DisjointLinUCBLearner(self, problem, streams)
        if problem.contextual:
            return ContextLinUCBLearner(self, problem, streams)
        return LinUCBLearner(self, problem, streams)


class LinUCBLearner(Learner):
    """State of `LinUCB`: a posterior on the (truncated) arms, or on other features of them (`actions`).

    `make_posterior` makes and checks it, given these arms and the ridge; by default it has the policy's form.
    """

    fixed_operations = True
    takes_new_arms = True

    def __init__(
        self,
        policy: LinUCB,
        problem: Problem,
        streams: Streams,
        actions: ActionSet | None = None,
        make_posterior: Callable[[ActionSet, float], Posterior] | None = None,
    ) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        dim = problem.dim if policy.dim is None else policy.dim
        seen, self._pull = (actions or problem.actions).truncate(dim, supported=policy.only_supported)
        self._all_arms = seen.arms == problem.arms
        if not self._all_arms:
            within = np.full(problem.arms, -1)  # where each arm is in the truncated set; -1: nowhere
            within[as_numpy(self._pull)] = np.arange(seen.arms)
            self._within = like(within, seen.base)
        if make_posterior is None:
            self.posterior = posterior(seen, policy.ridge, policy.form)
            horizon = None if problem.endless else problem.horizon
            check_precision(seen, policy.ridge, horizon, self.posterior.width2)
        else:
            self.posterior = make_posterior(seen, policy.ridge)
        self.bytes_per_round = self.posterior.streamed
        self.clock = policy.clock(problem)
        self._radius = policy.width_multiplier(problem, seen.arms) if self.clock is None else None

    def radius(self, rows: Rows | None = None) -> Any:
        """Current multiplier of the width; one per replication (by default all) for "oful" and without end."""
        policy, state, rows = self.policy, self.posterior, rows or self.everyone
        t = None if self.clock is None else self.clock.now(rows, state.pulls)
        if policy.radius == "oful":
            return policy.adaptive_radius(self.problem, rows.of(state.logdet), t)
        return self._radius if t is None else policy.width_multiplier(self.problem, state.actions.arms, t)

    def scores(self, rows: Rows | None = None) -> Array:
        """Optimistic score of every arm of the (truncated) set, in each replication (by default all)."""
        state, rows = self.posterior, rows or self.everyone
        known = (rows.of(state.mean), rows.of(state.open_width2))
        return self.policy.scores(*known, self.radius(rows), rows.of(state.pulls))

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        scores = self.scores(rows)
        if not self._all_arms and rows.allowed is not None:
            allowed = rows.allowed[:, self._pull]
            if not self.problem.growing and not as_numpy(allowed).any(axis=1).all():
                raise InvalidValueError(f"no arm allowed is one that LinUCB(dim={self.policy.dim}) uses")
            rows = rows.offering(None, allowed)
        chosen = self.largest(scores, rows, self.policy.ties)
        if self.clock is not None:
            self.clock.tick(rows)
        return (chosen if self._all_arms else self._pull[chosen]), {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.posterior.absorb(arms if self._all_arms else self._within[arms], rewards, rows)
        self.learned(rows)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        self.posterior.expect(arms if self._all_arms else self._within[arms], rows)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.posterior.answer(arms if self._all_arms else self._within[arms], rewards, rows)
        self.learned(rows)

    def drop_expected(self) -> None:
        self.posterior.drop_expected()

    def learned(self, rows: Rows) -> None:
        """Take note that a reward of each replication of `rows` was learned."""
        return

    def arms_added(self) -> None:
        state = self.posterior
        state.rebuild(state.counts + 0, state.sums + 0.0, self.everyone, state.squares + 0.0)

    def check_arms(self, arms: Array) -> None:
        if not self._all_arms and (as_numpy(self._within[arms]) < 0).any():
            raise ForeignArmError(
                f"arms {as_numpy(arms).tolist()} include one that LinUCB(dim={self.policy.dim}) does not use"
            )

    def pull_sums(self) -> tuple[Array, Array, Array]:
        state, problem = self.posterior, self.problem
        if self._all_arms:
            return state.counts, state.sums, state.squares
        counts, sums = self.zeros(problem.arms, integers=True), self.zeros(problem.arms)
        counts[:, self._pull], sums[:, self._pull] = state.counts, state.sums
        return counts, sums, state.squares

    def descriptions(self) -> list[dict[str, Any]]:
        """Dimension, pulls and leading arm of each replication."""
        counts, pull = as_numpy(self.posterior.counts), as_numpy(self._pull)
        rows = []
        for r, n in zip(self.problem.replications, counts, strict=True):
            pulled = pull_counts(n)
            pulled["most_pulled_arm"] = int(pull[pulled["most_pulled_arm"]])
            rows.append(
                {
                    "replication": r,
                    "dim": self.posterior.actions.dim,
                    "distinct_arms_pulled": int((n > 0).sum()),
                    **pulled,
                }
            )
        return rows


class ContextLinUCBLearner(Learner):
    """State of `LinUCB` where features come with each round: a regression on them, or on multiples of them."""

    takes_any_arm = False  # only the features of the arm chosen are remembered
    no_contexts = ""
    contexts_on_devices = True
    fixed_operations = True
    draws_scores = False

    def __init__(self, policy: LinUCB, problem: Problem, streams: Streams, weights: Array | None = None) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        self.dim = policy.checked_dim(problem)
        self.weights = weights
        self.posterior: Any = context_posterior(problem.reference, self.dim, policy.ridge)
        self.clock = policy.clock(problem)
        self._radius = policy.width_multiplier(problem, problem.arms) if self.clock is None else None

    def radius(self, rows: Rows) -> Any:
        """Current multiplier of the width; one per replication for "oful" and without end."""
        policy, state = self.policy, self.posterior
        t = None if self.clock is None else self.clock.now(rows, state.pulls)
        if policy.radius == "oful":
            return policy.adaptive_radius(self.problem, rows.of(state.logdet), t)
        return self._radius if t is None else policy.width_multiplier(self.problem, self.problem.arms, t)

    def chosen_by(self, state: ContextPosterior, row: Rows) -> int:
        """Arm that it would choose in one replication, had it learned `state` and nothing else."""
        assert row.features is not None
        mean, width2 = state.predict(as_numpy(self._seen(row.features)), Rows.all(state.theta))
        radius = self._radius
        if self.policy.radius == "oful":
            radius = self.policy.adaptive_radius(self.problem, state.logdet)
        scores = like(self.policy.scores(mean, width2, radius, state.pulls), self.problem.reference)
        return int(self.largest(scores, row, self.policy.ties)[0])

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        assert rows.features is not None
        seen = self._seen(rows.features)
        chosen = self.largest(self._scores(seen, rows), rows, self.policy.ties)
        if self.clock is not None:
            self.clock.tick(rows)
        return chosen, {"features": at_each(seen, chosen)}

    def _scores(self, seen: Array, rows: Rows) -> Array:
        mean, width2 = self.posterior.predict(seen, rows)
        return self.policy.scores(mean, width2, self.radius(rows), rows.of(self.posterior.pulls))

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.posterior.absorb(memo["features"], rewards, rows)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        self.posterior.expect(memo["features"], rows)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.posterior.answer(memo["features"], rewards, rows)

    def drop_expected(self) -> None:
        self.posterior.drop_expected()

    def learn(self, arms: Array, rewards: Array) -> None:
        for x, gained in logged_features(self.problem, arms, rewards):
            self.absorb(x, gained, self.everyone, {"features": self._seen(like(x, self.problem.reference))})

    def context_sums(self) -> list[Moments] | None:
        state = self.posterior
        if not isinstance(state, ContextPosterior) or self.dim < self.problem.dim:
            return None
        parts = zip(state.squares.tolist(), state.pulls.tolist(), strict=True)
        return [Moments.of(*state.moments(r), squares, n) for r, (squares, n) in enumerate(parts)]

    def restart(self, sums: Moments) -> None:
        """Forget everything, and know what these sums say."""
        if sums.asked is None:
            self.drop_expected()
        self.posterior.restart(0, sums, self.weights)
        self.posterior.refresh(0, float(self.posterior.ridge[0]))

    def expect_features(self, features: Array) -> None:
        """Count a pull of features (d,) whose reward is not known yet."""
        self.expect(np.zeros(1, dtype=np.int64), self.everyone, {"features": self._seen(features[None])})

    def scores_of(self, features: Array, rounds: int, generator: np.random.Generator, draws: int = 1) -> Array:
        """Optimistic scores (1, K) of arms (K, d), `rounds` decisions having been made."""
        if self.clock is not None:
            self.clock.set(self.everyone, rounds)
        return self._scores(self._seen(features[None]), self.everyone)

    def estimates(self, features: Array) -> tuple[Array, Array]:
        """Estimated mean (K,) of arms (K, d) and its standard deviation."""
        mean, width2 = self.posterior.predict_answered(self._seen(features[None]), self.everyone)
        return mean[0], deviations(width2[0], self.problem, self.posterior.residual(0), int(self.posterior.pulls[0]))

    def _seen(self, features: Array) -> Array:
        """The features that it learns from."""
        first = features[..., : self.dim]
        return first if self.weights is None else first * self.weights

    def descriptions(self) -> list[dict[str, Any]]:
        """Dimension and pulls of each replication."""
        pulls = zip(self.problem.replications, self.posterior.pulls.tolist(), strict=True)
        return [{"replication": r, "dim": self.dim, "pulls": n} for r, n in pulls]
