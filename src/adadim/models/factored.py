"""A linear model by the Cholesky factor of its regression, from which parameters can be drawn, whatever is offered."""

from __future__ import annotations

from typing import Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, like, namespace, zeros
from adadim.core.problem import Problem
from adadim.core.rows import Rows
from adadim.models.factor import ContextFactor
from adadim.models.linear import ContextModel, Memo
from adadim.models.moments import Moments


def predicted(state: Any, features: Array, rows: Rows) -> tuple[Array, Array]:
    """Mean and squared width of arms (n, K, d), by a regression that keeps L^-1 and L^-1 b; open pulls count in L."""
    xp = namespace(features)
    turned = xp.matrix_transpose(features * state.weights)
    z = xp.matmul(rows.of(state.inverse), turned)
    mean = xp.sum(z * rows.of(state.w)[:, :, None], axis=1)
    if state.asked is not None:
        z = xp.matmul(rows.of(state.asked.inverse), turned)
    return mean, xp.sum(z * z, axis=1)


def moments_of(state: Any, pulls: Array) -> list[Moments]:
    """The sums of each regression, over so many pulls (R,)."""
    sums = []
    for r, (squares, n) in enumerate(zip(state.squares.tolist(), pulls.tolist(), strict=True)):
        second, moment = state.moments(r)
        sums.append(Moments.of(second, moment, squares, n))
    return sums


class FactorModel(ContextModel):
    """What is offered does not matter here: fixed arms, features of the round, or a context with a parameter per arm.

    Where each arm has a parameter of its own, arm k of replication r is number r K + k in `state`. `weights` are for
    features that come with the round.
    """

    fixed_operations = False

    def __init__(self, problem: Problem, ridge: float, *, dim: int | None = None, weights: Array | None = None) -> None:
        self.blocks = problem.arms if problem.disjoint else 1  # regressions of a replication
        super().__init__(problem, ridge, dim=dim, weights=weights)
        if not problem.contextual:
            shape = len(problem), problem.arms
            self.counts, self.sums = zeros(self.reference, *shape, integers=True), zeros(self.reference, *shape)

    def regression(self, ridge: float) -> Any:
        return ContextFactor(zeros(self.reference, len(self.problem) * self.blocks), self.dim, ridge)

    def regressions(self, rows: Rows, arms: Array | None = None) -> Rows:
        """The regressions of these replications: of the arms pulled in each, or else all, an arm after the other."""
        if self.blocks == 1:
            return rows
        blocks = np.arange(self.blocks) if arms is None else as_numpy(arms)[:, None]
        return Rows.some((rows.ids[:, None] * self.blocks + blocks).ravel(), self.state.w)

    def sample(self, spread: Array, rows: Rows) -> Array:
        """theta_hat + spread L^-1, (n, m, d), of spreads (n, m, d) for all regressions of `rows`.

        Open pulls count in L, not in theta_hat.
        """
        state, every = self.state, self.regressions(rows)
        mean, inverse = every.of(state.w)[:, None, :], every.of(state.inverse)
        if state.asked is None:
            return (mean + spread) @ inverse * state.weights
        return (mean @ inverse + spread @ every.of(state.asked.inverse)) * state.weights

    def means(self, theta: Array, rows: Rows) -> Array:
        """Means of the arms offered, (n, K), by parameters (n, d), or (n K, d) where each arm has one."""
        if rows.features is None:
            everybody = zeros(self.reference, len(self.problem), self.problem.dim)
            everybody[rows.index, : self.dim] = theta
            return rows.of(self.problem.actions.project(everybody))
        seen = self._offered(rows)
        if self.problem.disjoint:
            return (theta.reshape(len(rows), -1, self.dim) @ seen[..., None])[..., 0]
        return (seen @ theta[..., None])[..., 0]

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        if not self.problem.contextual:
            arms = self.problem.actions.dense_batch()[..., : self.dim]
            return predicted(self.state, rows.of(arms), rows)
        seen = self._offered(rows)
        if not self.problem.disjoint:
            return predicted(self.state, seen, rows)
        each = namespace(seen).stack([seen] * self.blocks, axis=1).reshape(-1, 1, self.dim)
        mean, width2 = predicted(self.state, each, self.regressions(rows))
        return mean.reshape(len(rows), -1), width2.reshape(len(rows), -1)

    def predict_answered(self, features: Array) -> tuple[Array, Array]:
        z = self.state.whiten(self.seen(features[None]))[0]
        return self.state.w[0] @ z, (z * z).sum(axis=0)

    def _offered(self, rows: Rows) -> Array:
        return self.seen(like(rows.features, self.reference))

    def decided(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        if rows.features is None:
            return chosen, {}
        if self.problem.disjoint:
            return chosen, {"features": self._offered(rows) + 0.0}
        return super().decided(chosen, rows)

    def pulled(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        if self.problem.contextual:
            return memo["features"]
        pulled = zeros(self.reference, len(self.problem), integers=True)
        rows.put(pulled, arms)
        return rows.of(self.problem.actions.vectors(pulled))[:, : self.dim]

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self._count(arms, rewards, rows)
        self.state.absorb(self.pulled(arms, rows, memo), rewards, self.regressions(rows, arms))

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        self.state.expect(self.pulled(arms, rows, memo), self.regressions(rows, arms))

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self._count(arms, rewards, rows)
        self.state.answer(self.pulled(arms, rows, memo), rewards, self.regressions(rows, arms))

    def _count(self, arms: Array, rewards: Array, rows: Rows) -> None:
        if not self.problem.contextual:
            rows.add(self.counts, arms, 1)
            rows.add(self.sums, arms, rewards)

    @property
    def pulls(self) -> Array:
        return self.state.pulls.reshape(len(self.problem), -1).sum(axis=1)

    def restart(self, sums: Moments) -> None:
        state, everyone = self.state, Rows.all(self.reference)
        second, moment = sums.seen(self.dim, None)
        squares, pulls = np.array([sums.squares]), np.array([round(sums.weight)])
        state.rebuild(second[None], moment[None], squares, pulls, everyone)
        state.drop_expected()
        if sums.asked is not None:
            asked, nothing = sums.without_rewards().seen(self.dim, None)
            state.asked = state.without_rewards()
            state.asked.rebuild(asked[None], nothing[None], squares * 0.0, pulls, everyone)

    def residual(self) -> float:
        return float(self.state.residuals[0, -1])

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return None if self.problem.contextual else (self.counts, self.sums, self.state.squares)

    def moments(self) -> list[Moments] | None:
        if self.dim < self.problem.dim or not self.problem.contextual or self.problem.disjoint:
            return None
        return moments_of(self.state, self.state.pulls)
