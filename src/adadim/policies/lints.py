"""LinTS: Thompson sampling with ridge regression (Agrawal and Goyal 2013), in all features or the first few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.backend.arrays import Array, as_numpy, at_each, like
from adadim.backend.rows import Rows
from adadim.backend.ties import Ties, check_ties
from adadim.checks import integer, positive
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import check_dim
from adadim.policies.inputs import logged_features
from adadim.policies.sums import deviations
from adadim.posterior.factor import ContextFactor
from adadim.posterior.moments import Moments
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["LinTS"]


@dataclass(frozen=True)
class LinTS(Policy):
    """Draw a parameter from the posterior in every round, and pull the arm that is best for it.

    Use it where many arms are nearly as good as the best, since it spreads its choices over them, or where rewards come
    late and in batches; `LinUCB` has less regret in most of the problems measured here. Of the adaptive policies,
    prefer `EvidenceLinUCB` when the number of features that matter is unknown.

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares: theta ~ N(0, sigma^2 / lambda) beforehand.
    scale : float
        Factor on the standard deviation of the draw. 1 is the posterior itself; the proof below needs more.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    The draw is theta_hat + scale sigma L^-T xi with V = L L^T and xi standard normal. Agrawal and Goyal prove regret
    O~(d^(3/2) sqrt(T)) for a scale of order sqrt(d ln T), which is far too wide in practice; with scale 1 the Bayesian
    regret is O~(d sqrt(T)) if theta comes from the prior (Russo and Van Roy 2014).

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=60, dim=10, intrinsic_dim=2, horizon=300, replications=range(4))
    >>> sampled = adadim.simulate(adadim.LinTS(dim=2), instance)
    >>> bool(sampled.final.mean() < adadim.simulate(adadim.Random(), instance).final.mean() / 5)
    True
    """

    ridge: float = 0.1
    scale: float = 1.0
    dim: int | None = None
    ties: Ties = "random"

    def __post_init__(self) -> None:
        positive(self.ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        positive(self.scale, "scale", "a factor on the standard deviation of the draw")
        check_dim(self.dim)
        check_ties(self.ties)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return LinTSLearner(self, problem, streams)


class LinTSLearner(Learner):
    """State of `LinTS`: the factor of the regression, from which it draws."""

    no_contexts = ""
    contexts_on_devices = True
    takes_new_arms = True
    draws_scores = True

    def __init__(self, policy: LinTS, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.deviation = policy, policy.scale * problem.noise
        self.dim = problem.dim if policy.dim is None else integer(policy.dim, "dim", most=problem.dim)
        self.takes_any_arm = not problem.contextual
        self.normal_streams = streams.child(0)
        self.factor = ContextFactor(problem.reference, self.dim, policy.ridge)
        if not problem.contextual:
            self.actions = problem.actions
            self.counts, self.sums = self.zeros(problem.arms, integers=True), self.zeros(problem.arms)

    def sample(self, rows: Rows) -> Array:
        """A parameter for each replication of `rows`, drawn from its posterior."""
        generators = self.normal_streams.generators
        drawn = np.array([generators[r].standard_normal(self.dim) for r in rows.ids.tolist()])
        mean, spread = rows.of(self.factor.w), self.deviation * like(drawn, self.problem.reference)
        return self._parameters(mean, spread, rows) * self.factor.weights

    def _parameters(self, mean: Array, spread: Array, rows: Rows) -> Array:
        """theta = mean L^-1 + spread L^-1, (n, d); open pulls count in the second L."""
        factor = self.factor
        if factor.asked is None:
            return ((mean + spread)[:, None, :] @ rows.of(factor.inverse))[:, 0, :]
        centre = (mean[:, None, :] @ rows.of(factor.inverse))[:, 0, :]
        return centre + (spread[:, None, :] @ rows.of(factor.asked.inverse))[:, 0, :]

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        theta = self.sample(rows)
        if rows.features is not None:
            seen = rows.features[..., : self.dim]
            chosen = self.largest((seen @ theta[..., None])[..., 0], rows, self.policy.ties)
            return chosen, {"features": at_each(seen, chosen)}
        everybody = self.zeros(self.problem.dim)
        everybody[rows.index, : self.dim] = theta
        scores = rows.of(self.actions.project(everybody))
        return self.largest(scores, rows, self.policy.ties), {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self._count(arms, rewards, rows)
        self.factor.absorb(self._features(arms, rows, memo), rewards, rows)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        self.factor.expect(self._features(arms, rows, memo), rows)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self._count(arms, rewards, rows)
        self.factor.answer(self._features(arms, rows, memo), rewards, rows)

    def drop_expected(self) -> None:
        self.factor.drop_expected()

    def _count(self, arms: Array, rewards: Array, rows: Rows) -> None:
        if not self.problem.contextual:
            rows.add(self.counts, arms, 1)
            rows.add(self.sums, arms, rewards)

    def _features(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        """Features (n, dim) of the arms pulled."""
        if "features" in memo:
            return memo["features"]
        pulled = self.zeros(integers=True)
        rows.put(pulled, arms)
        return rows.of(self.actions.vectors(pulled))[:, : self.dim]

    def learn(self, arms: Array, rewards: Array) -> None:
        if not self.problem.contextual:
            super().learn(arms, rewards)
            return
        for x, gained in logged_features(self.problem, arms, rewards):
            self.factor.absorb(like(x[:, : self.dim], self.problem.reference), gained, self.everyone)

    def restart(self, sums: Moments) -> None:
        """Forget everything, and know what these sums say."""
        second, moment = sums.seen(self.dim, None)
        squares, pulls = np.array([sums.squares]), np.array([round(sums.weight)])
        self.factor.rebuild(second[None], moment[None], squares, pulls, self.everyone)
        self.factor.drop_expected()
        if sums.asked is not None:
            asked, nothing = sums.without_rewards().seen(self.dim, None)
            self.factor.asked = self.factor.without_rewards()
            self.factor.asked.rebuild(asked[None], nothing[None], squares * 0.0, pulls, self.everyone)

    def expect_features(self, features: Array) -> None:
        """Count a pull of features (d,) whose reward is not known yet."""
        self.factor.expect(features[None, : self.dim], self.everyone)

    def scores_of(self, features: Array, rounds: int, generator: np.random.Generator, draws: int = 1) -> Array:
        """Means of arms (K, d) by parameters drawn from the posterior, (draws, K)."""
        factor, drawn = self.factor, generator.standard_normal((draws, self.dim))
        if factor.asked is None:
            thetas = (factor.w + self.deviation * drawn) @ factor.inverse[0] * factor.weights
        else:
            spread = self.deviation * drawn @ factor.asked.inverse[0]
            thetas = (factor.w @ factor.inverse[0] + spread) * factor.weights
        return thetas @ features[:, : self.dim].T

    def estimates(self, features: Array) -> tuple[Array, Array]:
        """Estimated mean (K,) of arms (K, d) and its standard deviation."""
        z = self.factor.whiten(features[None, :, : self.dim])[0]
        width2, residual = (z * z).sum(axis=0), float(self.factor.residuals[0, -1])
        return self.factor.w[0] @ z, deviations(width2, self.problem, residual, int(self.factor.pulls[0]))

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return None if self.problem.contextual else (self.counts, self.sums, self.factor.squares)

    def context_sums(self) -> list[Moments] | None:
        if self.dim < self.problem.dim:
            return None
        parts = zip(self.factor.squares.tolist(), self.factor.pulls.tolist(), strict=True)
        return [Moments.of(*self.factor.moments(r), squares, n) for r, (squares, n) in enumerate(parts)]

    def descriptions(self) -> list[dict[str, Any]]:
        """Dimension and pulls of each replication."""
        pulls = zip(self.problem.replications, as_numpy(self.factor.pulls).tolist(), strict=True)
        return [{"replication": r, "dim": self.dim, "pulls": int(n)} for r, n in pulls]
