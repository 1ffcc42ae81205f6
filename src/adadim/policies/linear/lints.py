"""LinTS: Thompson sampling with ridge regression (Agrawal and Goyal 2013), in all features or the first few."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, at_each, like, zeros
from adadim.core.checks import integer, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.models.factor import ContextFactor
from adadim.models.moments import Moments
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.inputs import logged_features
from adadim.policies.parameters import Dim, Ridge
from adadim.policies.sums import deviations

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

    ridge: Ridge = 0.1
    scale: Annotated[float, partial(positive, meaning="a factor on the standard deviation of the draw")] = 1.0
    dim: Dim | None = None
    ties: Ties = "random"

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return LinTSLearner(self, problem, streams)


class LinTSLearner(Learner):
    """State of `LinTS`: the factor of the regression from which it draws, or one for each arm."""

    no_contexts = ""
    no_disjoint = ""
    contexts_on_devices = True
    takes_new_arms = True

    def __init__(self, policy: LinTS, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.deviation = policy, policy.scale * problem.noise
        self.dim = problem.dim if policy.dim is None else integer(policy.dim, "dim", most=problem.dim)
        self.takes_any_arm = not problem.contextual
        self.normal_streams = streams.child(0)
        self.blocks = problem.arms if problem.disjoint else 1  # regressions of a replication, side by side in `factor`
        reference = problem.reference
        if problem.disjoint:
            reference = zeros(reference, len(problem) * self.blocks)
        self.factor = ContextFactor(reference, self.dim, policy.ridge)
        if not problem.contextual:
            self.actions = problem.actions
            self.counts, self.sums = self.zeros(problem.arms, integers=True), self.zeros(problem.arms)

    def sample(self, rows: Rows) -> Array:
        """Parameters drawn from the posteriors, (n, d); (n * K, d) if each arm has one."""
        generators, count = self.normal_streams.generators, self.blocks * self.dim
        drawn = np.array([generators[r].standard_normal(count) for r in rows.ids.tolist()]).reshape(-1, self.dim)
        every = self._regressions(np.arange(self.blocks), rows)
        return self._parameters(self.deviation * like(drawn, self.problem.reference)[:, None], every)[:, 0]

    def _regressions(self, arms: Array, rows: Rows) -> Rows:
        """The regressions in `factor` of some arms, each in the replications of `rows` in turn."""
        if not self.problem.disjoint:
            return rows
        return Rows.some((rows.ids[:, None] * self.blocks + as_numpy(arms)).ravel(), self.factor.reference)

    def _parameters(self, spread: Array, rows: Rows) -> Array:
        """theta_hat + spread L^-1, (n, m, d), of spreads (n, m, d); open pulls count in L, not in theta_hat."""
        factor, mean = self.factor, rows.of(self.factor.w)
        if factor.asked is None:
            return (mean[:, None, :] + spread) @ rows.of(factor.inverse) * factor.weights
        centre = mean[:, None, :] @ rows.of(factor.inverse)
        return (centre + spread @ rows.of(factor.asked.inverse)) * factor.weights

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        theta = self.sample(rows)
        if rows.features is None:
            everybody = self.zeros(self.problem.dim)
            everybody[rows.index, : self.dim] = theta
            scores = rows.of(self.actions.project(everybody))
            return self.largest(scores, rows, self.policy.ties), {}
        seen = like(rows.features, self.problem.reference)[..., : self.dim]
        if self.problem.disjoint:
            scores = (theta.reshape(len(rows), -1, self.dim) @ seen[..., None])[..., 0]
            return self.largest(scores, rows, self.policy.ties), {"features": seen + 0.0}
        chosen = self.largest((seen @ theta[..., None])[..., 0], rows, self.policy.ties)
        return chosen, {"features": at_each(seen, chosen)}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self._count(arms, rewards, rows)
        self.factor.absorb(self._features(arms, rows, memo), rewards, self._pulled(arms, rows))

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        self.factor.expect(self._features(arms, rows, memo), self._pulled(arms, rows))

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self._count(arms, rewards, rows)
        self.factor.answer(self._features(arms, rows, memo), rewards, self._pulled(arms, rows))

    def drop_expected(self) -> None:
        self.factor.drop_expected()

    def _pulled(self, arms: Array, rows: Rows) -> Rows:
        """The regressions of the arms pulled."""
        return self._regressions(as_numpy(arms)[:, None], rows) if self.problem.disjoint else rows

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
        if not self.problem.contextual or self.problem.disjoint:
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

    def resume(self, decided: int, streams: Streams) -> None:
        super().resume(decided, streams)
        self.normal_streams = streams.child(0)

    def more_scores(self, rows: Rows, draws: int) -> Array | None:
        assert rows.features is not None
        spread = self.deviation * self.normal_streams.generators[0].standard_normal((draws, self.dim))
        return self._parameters(spread[None], rows)[0] @ rows.features[0, :, : self.dim].T

    def estimates(self, features: Array) -> tuple[Array, Array]:
        """Estimated mean (K,) of arms (K, d) and its standard deviation."""
        z = self.factor.whiten(features[None, :, : self.dim])[0]
        width2, residual = (z * z).sum(axis=0), float(self.factor.residuals[0, -1])
        return self.factor.w[0] @ z, deviations(width2, self.problem, residual, int(self.factor.pulls[0]))

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return None if self.problem.contextual else (self.counts, self.sums, self.factor.squares)

    def context_sums(self) -> list[Moments] | None:
        if self.dim < self.problem.dim or self.problem.disjoint:
            return None
        parts = zip(self.factor.squares.tolist(), self.factor.pulls.tolist(), strict=True)
        return [Moments.of(*self.factor.moments(r), squares, n) for r, (squares, n) in enumerate(parts)]

    def descriptions(self) -> list[dict[str, Any]]:
        """Dimension and pulls of each replication."""
        pulls = as_numpy(self.factor.pulls).reshape(len(self.problem), -1).sum(axis=1)
        numbers = zip(self.problem.replications, pulls.tolist(), strict=True)
        return [{"replication": r, "dim": self.dim, "pulls": int(n)} for r, n in numbers]
