"""Predictions averaged over the number of features that matter, with ridge and noise learned (NumPy).

After 1, 2, 4, 8, ... pulls the evidence of every prefix under every ridge is found anew from the sums over the data.
Between them one factor is kept up to date, by the equations of `factor`. On fixed arms only the prefixes that have not
been ruled out are, so that a pull costs O(K d*) once d* is found: with many features Z = L^-1 A^T is, O(m K) a pull;
with few, Z stays as it was at the start, Z_0, and L = L_0 M: a pull turns only M^-1, (m, m), and a decision costs one
product with Z_0. Where features come with each round, L^-1 is, and a decision is one product with it.

If each arm has a parameter of its own, all share d*, ridge and noise: the notes of `PrefixLinUCB` have the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, as_numpy
from adadim.core.problem import Problem
from adadim.core.rows import Rows
from adadim.models.context import ContextPosterior, stacked
from adadim.models.evidence import RIDGES as FINE_RIDGES
from adadim.models.evidence import TunedContextModel, in_units
from adadim.models.factor import (
    FEW_FEATURES,
    SMALLEST,
    averaged_arms,
    forward_solve,
    log_evidence,
    prefix_regressions,
    prior_precisions,
    triangle,
    turn_one,
)
from adadim.models.linear import Memo, Model

RIDGES = FINE_RIDGES[::2]

NEGLIGIBLE = 1e-3  # chance that a feature matters below which it is left out


class ManyFeatures:
    """Regressions on all prefixes of m features of fixed arms: Z (m, K), w, logdets and residuals (m,), in place."""

    def __init__(self, z: FloatArray, w: FloatArray, logdets: FloatArray, residuals: FloatArray) -> None:
        self.z, self.w, self.logdets, self.residuals = z, w, logdets, residuals

    def absorb(self, arm: int, reward: float) -> None:
        """Learn from a pull."""
        turn_one(self.z, self.w, self.residuals, self.logdets, self.z[:, arm].copy(), reward)

    def predict(self, chances: FloatArray, noise2: float) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of every arm, averaged over d*, given P(d* = m), (m,), and the variance of the noise."""
        mean, within, between = averaged_arms(self.z, self.w, chances)
        return mean, noise2 * within + between

    def within(self, chances: FloatArray) -> FloatArray:
        """Squared width of every arm, averaged over d*."""
        return averaged_width2(self.z, chances)

    def combine(self, weights: FloatArray) -> FloatArray:
        """Sum of the first rows of Z times weights, one value for every arm."""
        return np.asarray(weights @ self.z[: len(weights)])


class FewFeatures(ManyFeatures):
    """The same, where m is so small that a product of (m, m) and (m, K) matrices costs little: Z_0 and M^-1."""

    def __init__(self, z: FloatArray, w: FloatArray, logdets: FloatArray, residuals: FloatArray) -> None:
        super().__init__(z, w, logdets, residuals)
        self.turned = np.eye(len(w))  # M^-1

    def absorb(self, arm: int, reward: float) -> None:
        turn_one(self.turned, self.w, self.residuals, self.logdets, self.turned @ self.z[:, arm], reward)

    def predict(self, chances: FloatArray, noise2: float) -> tuple[FloatArray, FloatArray]:
        count = len(chances)
        half = (count + 1) // 2
        rows = averaging_rows(self.w, chances, noise2) @ self.turned  # but for the last, lower triangular as both are
        products = np.empty((count + 1, self.z.shape[1]))
        np.matmul(rows[:half, :half], self.z[:half], out=products[:half])
        np.matmul(rows[half:], self.z, out=products[half:])
        mean, deviations = products[count], products[:count]
        deviations *= deviations
        return mean, np.ones(count) @ deviations

    def within(self, chances: FloatArray) -> FloatArray:
        return averaged_width2(self.turned @ self.z, chances)

    def combine(self, weights: FloatArray) -> FloatArray:
        return np.asarray((weights @ self.turned[: len(weights)]) @ self.z)


def averaging_rows(w: FloatArray, chances: FloatArray, noise2: float) -> FloatArray:
    """Rows (m + 1, m): R, lower triangular, and q, such that over d* and theta an arm has variance |R z|^2, mean q z.

    Given d* = m the mean of an arm is sum_{j<=m} w_j z_j, its variance noise2 sum_{j<=m} z_j^2. Let t_j = P(d* >= j),
    the tail, so that q_j = t_j w_j. As 1[d* >= i] and 1[d* >= j] have covariance (1 - t_i) t_j for i <= j, the variance
    is z^T H z with

        H_ij = w_i (1 - t_i) w_j t_j  for i < j,    H_jj = noise2 t_j + w_j^2 (1 - t_j) t_j.

    H = R^T R has a root as simple, R_jj = root_j and R_ji = gain_j w_i (1 - t_i) for i < j, found from the last feature
    to the first: with rest_j = t_j - (1 - t_j) sum_{k>j} gain_k^2,

        root_j^2 = noise2 t_j + w_j^2 (1 - t_j) rest_j,    gain_j = w_j rest_j / root_j.
    """
    count, tail = len(w), np.cumsum(chances[::-1])[::-1]
    head = np.zeros_like(w)  # 1 - tail, summed up so that nothing cancels
    np.cumsum(chances[:-1], out=head[1:])
    roots, gains, total = [], [], 0.0
    for weight, t, h in zip(w[::-1].tolist(), tail[::-1].tolist(), head[::-1].tolist(), strict=True):
        rest = max(t - h * total, 0.0)
        root = math.sqrt(noise2 * t + weight * weight * h * rest)
        gain = weight * rest / root if root and h else 0.0  # not used where all shorter prefixes are ruled out
        total += gain * gain
        roots.append(root)
        gains.append(gain)
    rows = np.empty((count + 1, count))
    np.multiply(np.array(gains[::-1])[:, None], w * head, out=rows[:count])
    rows[:count] *= triangle(count, -1)
    rows.flat[: count * count : count + 1] = roots[::-1]
    np.multiply(tail, w, out=rows[count])
    return rows


def averaged_width2(z: FloatArray, chances: FloatArray) -> FloatArray:
    """Squared width of every arm, averaged over d*, from z (m, K)."""
    return np.asarray(np.cumsum(chances[::-1])[::-1] @ (z * z))


def length_prior(decay: float, dim: int) -> FloatArray:
    """ln P(d* = m) beforehand, for m^-decay up to a constant."""
    prior = -decay * np.log(np.arange(1.0, dim + 1))
    return np.asarray(prior - np.logaddexp.reduce(prior))


def prefix_evidences(
    blocks: Iterable[tuple[FloatArray, FloatArray]], squares: float, pulls: float, ridges: FloatArray, taper: float
) -> FloatArray:
    """Log evidence (ridges, d) of every prefix, up to a constant, from X^T X and X^T r of each parameter."""
    sums, logs = list(blocks), []
    for ridge in ridges.tolist():
        weights = prior_precisions(ridge, taper, len(sums[0][1])) ** -0.5
        logdets, explained = np.zeros(len(weights)), np.zeros(len(weights))
        for gram, moments in sums:
            _, w, steps, _ = prefix_regressions(gram, moments, squares, weights)
            logdets += steps
            explained += np.cumsum(w * w)
        logs.append(log_evidence(logdets, squares - explained, pulls, squares))
    return np.array(logs)


def chosen_ridge(logs: FloatArray, factor: float) -> tuple[int, float]:
    """The smallest ridge that a Bayes factor does not rule out, and the log evidence averaged; logs are (ridges, d)."""
    by_ridge = np.logaddexp.reduce(logs, axis=1)
    total = float(np.logaddexp.reduce(by_ridge)) - math.log(len(by_ridge))
    return int(np.argmax(by_ridge >= by_ridge.max() - math.log(factor))), total


def chances_and_noise(
    prior: FloatArray, logdets: FloatArray, residuals: FloatArray, n: int, squares: float
) -> tuple[FloatArray, float]:
    """P(d* = m | data), and the noise variance over the prefixes plus one standard error, NaN before the first pull."""
    logs = prior + log_evidence(logdets, residuals, n, squares)
    chances = np.exp(logs - logs.max())
    chances /= chances.sum()
    if not n:
        return chances, math.nan
    residual = max(float(chances @ residuals), SMALLEST * squares)
    return chances, residual / n * (1 + math.sqrt(2 / n))


def features_in_use(chances: FloatArray) -> int:
    """How many features matter with a chance that is not negligible; at least one."""
    return max(1, int((np.cumsum(chances[::-1])[::-1] > NEGLIGIBLE).sum()))


class ArmPrefixes:
    """Regressions on all prefixes of the features of fixed arms (K, d), weighed by how likely each is.

    `chances` (active,) are P(d* = m) of the prefixes in use, the last for all longer ones; `total` is the log evidence.
    """

    def __init__(self, arms: FloatArray, factor: float, taper: float, decay: float) -> None:
        self.arms, self.bayes_factor, self.taper = arms.copy(order="K"), factor, taper
        self.prior = length_prior(decay, arms.shape[1])
        self.counts, self.sums = np.zeros(len(arms), dtype=np.int64), np.zeros(len(arms))
        self.pulls, self.squares, self.total = 0, 0.0, 0.0
        self.open = np.zeros(len(arms), dtype=np.int64)  # pulls of each arm whose rewards are not known yet
        self.asked: ManyFeatures | None = None  # the regressions over all pulls, open ones too, without rewards
        self.rebuild(arms.shape[1], float(RIDGES[0]))

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make the factors of as many features as a saved state has."""
        self.rebuild(saved["active"], saved["ridge"])
        if saved.get("asked") is not None:
            self._count_open()

    def rebuild(self, active: int, ridge: float) -> None:
        """Make the regressions on the first `active` features anew, from all pulls."""
        self.active, self.ridge = active, ridge
        self.regressions = self._regressions(self.counts, self.sums, self.squares)
        if self.asked is not None:
            self._count_open()
        self._weigh()

    def _regressions(self, counts: Any, sums: FloatArray, squares: float) -> ManyFeatures:
        arms = np.asfortranarray(self.arms[:, : self.active])
        weights = prior_precisions(self.ridge, self.taper, self.active) ** -0.5
        factor, *rest = prefix_regressions(arms.T @ (counts[:, None] * arms), arms.T @ sums, squares, weights)
        z = np.ascontiguousarray(forward_solve(factor, arms.T * weights[:, None]))
        return (FewFeatures if self.active <= FEW_FEATURES else ManyFeatures)(z, *rest)

    def _count_open(self) -> None:
        self.asked = self._regressions(self.counts + self.open, self.sums * 0.0, 0.0)

    def _weigh(self) -> None:
        logdets, residuals = self.regressions.logdets, self.regressions.residuals
        self.chances, self.noise2 = chances_and_noise(
            self.prior[: self.active], logdets, residuals, self.pulls, self.squares
        )

    def expect(self, arm: int) -> None:
        """Count a pull whose reward is not known yet."""
        self.open[arm] += 1
        if self.asked is None:
            self._count_open()
        else:
            self.asked.absorb(arm, 0.0)

    def drop_expected(self) -> None:
        """Count only the pulls that are answered."""
        self.open[:], self.asked = 0, None

    def absorb(self, arm: int, reward: float) -> None:
        """Learn from a pull that `expect` has not counted."""
        if self.asked is not None:
            self.asked.absorb(arm, 0.0)
        self._learn(arm, reward)

    def answer(self, arm: int, reward: float) -> None:
        """Learn the reward of a pull that `expect` has counted."""
        self.open[arm] -= 1
        self._learn(arm, reward)

    def _learn(self, arm: int, reward: float) -> None:
        self.regressions.absorb(arm, reward)
        self.pulls += 1
        self.counts[arm] += 1
        self.sums[arm] += reward
        self.squares += reward * reward
        if self.pulls & (self.pulls - 1) == 0 and self.squares > 0:
            self._update_prior()
        else:
            self._weigh()

    def _update_prior(self) -> None:
        pulled = np.flatnonzero(self.counts)
        features, counts = self.arms[pulled], self.counts[pulled]
        block = features.T @ (counts[:, None] * features), features.T @ self.sums[pulled]
        logs = prefix_evidences([block], self.squares, self.pulls, RIDGES, self.taper) + self.prior
        chosen, self.total = chosen_ridge(logs, self.bayes_factor)
        chances = np.exp(logs[chosen] - np.logaddexp.reduce(logs[chosen]))
        self.rebuild(features_in_use(chances), float(RIDGES[chosen]))

    def predict(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of every arm; open pulls count in the variance given d*, not between prefixes."""
        noise2 = noise2_or_1(self.noise2)
        if self.asked is None:
            return self.regressions.predict(self.chances, noise2)
        mean, between = self.regressions.predict(self.chances, 0.0)
        return mean, between + noise2 * self.asked.within(self.chances)

    def sample(self, uniform: float, normals: FloatArray, scale: float) -> FloatArray:
        """Means of the arms under parameters drawn from the posterior, `scale` a factor on their deviation."""
        last, deviation = drawn_length(self.chances, uniform), scale * math.sqrt(noise2_or_1(self.noise2))
        if self.asked is None:
            return self.regressions.combine(self.regressions.w[:last] + deviation * normals[:last])
        mean = self.regressions.combine(self.regressions.w[:last])
        return mean + self.asked.combine(deviation * normals[:last])


def noise2_or_1(noise2: float) -> float:
    """The noise variance, or 1 while no reward says anything about it."""
    return noise2 if noise2 > 0 else 1.0


def drawn_length(chances: FloatArray, uniform: float) -> int:
    """A length of the prefix drawn with these chances, by a uniform random number."""
    return min(int(np.searchsorted(np.cumsum(chances), uniform, side="right")) + 1, len(chances))


class PrefixFixedModel(Model):
    """The same arms in every round: `ArmPrefixes` of every replication."""

    fixed_operations = False
    on_host = True

    def __init__(self, problem: Problem, taper: float, factor: float, decay: float) -> None:
        super().__init__(problem, problem.dim)
        self.each = [ArmPrefixes(arms, factor, taper, decay) for arms in self._features()]

    def _features(self) -> Iterator[FloatArray]:
        """The arms of each replication, in units in which they are alike."""
        actions = in_units(self.problem)
        return (as_numpy(actions.dense(r)) for r in range(len(self.problem)))

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        return stacked([self.each[r].predict() for r in rows.ids.tolist()])

    def sample(self, rows: Rows, generators: Sequence[np.random.Generator], scale: float) -> Array:
        """Means of the arms under parameters drawn from the posterior, (n, K)."""
        drawn = ((r, generators[r].random(), generators[r].standard_normal(self.dim)) for r in rows.ids.tolist())
        return np.array([self.each[r].sample(uniform, normals, scale) for r, uniform, normals in drawn])

    def arms_and_memo(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        return chosen, {}

    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        return arms

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        for r, arm, reward in zip(rows.ids.tolist(), arms.tolist(), rewards.tolist(), strict=True):
            self.each[r].absorb(arm, reward)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        for r, arm in zip(rows.ids.tolist(), arms.tolist(), strict=True):
            self.each[r].expect(arm)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        for r, arm, reward in zip(rows.ids.tolist(), arms.tolist(), rewards.tolist(), strict=True):
            self.each[r].answer(arm, reward)

    def drop_expected(self) -> None:
        for one in self.each:
            one.drop_expected()

    def arms_added(self) -> None:
        for one, arms in zip(self.each, self._features(), strict=True):
            one.arms[...] = arms
            one.rebuild(one.active, one.ridge)

    @property
    def totals(self) -> FloatArray:
        """Log of the evidence of each replication, averaged over the ridges."""
        return np.array([one.total for one in self.each])

    @property
    def pulls(self) -> Array:
        return np.array([one.pulls for one in self.each])

    def pull_sums(self) -> tuple[Array, Array, Array]:
        counts, sums = (np.array([getattr(one, name) for one in self.each]) for name in ("counts", "sums"))
        return counts, sums, np.array([one.squares for one in self.each])

    def describe(self, r: int) -> dict[str, Any]:
        one = self.each[r]
        return {
            "dim": int(np.argmax(one.chances)) + 1,
            "features_in_use": one.active,
            "pulls": one.pulls,
            "most_pulled_arm": int(one.counts.argmax()),
            "pulls_of_that_arm": int(one.counts.max()),
            "ridge": one.ridge,
            "noise": None if math.isnan(one.noise2) else math.sqrt(one.noise2),
        }


class PrefixPosterior(ContextPosterior):
    """The regression on features that are new each round; `root` (R, d, d) is L^-1, for those on all prefixes."""

    def __init__(self, replications: int, dim: int, ridge: float) -> None:
        super().__init__(replications, dim, ridge)
        self.root = np.stack([np.eye(dim)] * replications)
        self.w, self.logdets, self.residuals = (np.zeros((replications, dim)) for _ in range(3))

    def pull(self, r: int, x: Array, reward: float) -> None:
        root = self.root[r]
        turn_one(root, self.w[r], self.residuals[r], self.logdets[r], root @ x / math.sqrt(self.ridge[r]), reward)
        super().pull(r, x, reward)  # afterwards: it may refresh everything, from all pulls and this one

    def _refresh(self, r: int, ridge: float) -> None:
        super()._refresh(r, ridge)
        weights = np.full(self.dim, ridge**-0.5)
        factor, self.w[r], self.logdets[r], self.residuals[r] = prefix_regressions(
            *self.moments(r), self.squares[r], weights
        )
        self.root[r] = forward_solve(factor, np.eye(self.dim))

    def whiten(self, at: slice, offered: Array, size: int) -> tuple[Array, Array]:
        """z (size, K) of arms (K, d), or of one context for a regression per arm, by those at some positions; and w."""
        x = offered.reshape(-1, self.dim)[:, :size] / math.sqrt(self.ridge[at][0])
        z = self.root[at, :size, :size] @ x.T
        return z.transpose(1, 0, 2).reshape(size, -1), self.w[at, :size].T


class PrefixContextModel(TunedContextModel):
    """Features that come with each round; where each arm has a parameter, they share d*, ridge and noise."""

    state: PrefixPosterior

    def __init__(self, problem: Problem, taper: float, factor: float, decay: float) -> None:
        self.prior = length_prior(decay, problem.dim)
        super().__init__(problem, taper, factor)

    def regression(self, ridge: float) -> PrefixPosterior:
        return PrefixPosterior(len(self.problem) * self.blocks, self.dim, ridge)

    def chances(self, r: int) -> tuple[FloatArray, float]:
        """P(d* = m) of the prefixes in use, the last of which stands for all longer ones, and the noise variance."""
        state, at = self.state, self._at(r)
        logdets, residuals = state.logdets[at].sum(axis=0), state.residuals[at].sum(axis=0)
        n, squares = int(state.pulls[at].sum()), float(state.squares[at].sum())
        chances, noise2 = chances_and_noise(self.prior, logdets, residuals, n, squares)
        size = features_in_use(chances)
        return np.append(chances[: size - 1], chances[size - 1 :].sum()), noise2

    def _at(self, r: int) -> slice:
        """Where the regressions of a replication are in `state`."""
        return slice(r * self.blocks, (r + 1) * self.blocks)

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        offered = self._offered_inputs(rows)
        return stacked([self._predict(r, x) for r, x in zip(rows.ids.tolist(), offered, strict=True)])

    def _offered_inputs(self, rows: Rows) -> Array:
        """Inputs of the regression for what is offered."""
        assert rows.features is not None
        self.observe_offer(rows.features, rows)
        return self.scaled(rows.features, rows)

    def _predict(self, r: int, offered: Array) -> tuple[Array, Array]:
        """Mean and variance of every arm of one replication, over d* and the parameters; see `ArmPrefixes.predict`."""
        chances, noise2 = self.chances(r)
        mean, within, between = averaged_arms(*self.state.whiten(self._at(r), offered, len(chances)), chances)
        if self.state.asked is not None:
            within = averaged_width2(self.state.asked.whiten(self._at(r), offered, len(chances))[0], chances)
        return mean, noise2_or_1(noise2) * within + between

    def sample(self, rows: Rows, generators: Sequence[np.random.Generator], scale: float) -> Array:
        """Means of the arms under parameters drawn from the posterior, (n, K)."""
        offered = zip(rows.ids.tolist(), self._offered_inputs(rows), strict=True)
        return np.array([self._sample(r, x, generators[r], scale) for r, x in offered])

    def _sample(self, r: int, offered: Array, generator: np.random.Generator, scale: float) -> Array:
        chances, noise2 = self.chances(r)
        last, at = drawn_length(chances, generator.random()), self._at(r)
        normals = generator.standard_normal((self.blocks, self.dim))[:, :last].T
        spread = scale * math.sqrt(noise2_or_1(noise2)) * normals
        z, w = self.state.whiten(at, offered, last)
        if self.state.asked is None:
            return (z * (w + spread)).sum(axis=0)
        return (z * w).sum(axis=0) + (self.state.asked.whiten(at, offered, last)[0] * spread).sum(axis=0)

    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        self.observe_offer(memo["features"], rows)  # pulls of a log were not offered before
        return super().pulled_inputs(arms, rows, memo)

    def _update_prior(self, r: int, n: float) -> None:
        state, scale = self.state, float(self.longest[r]) or 1.0
        squares = float(state.squares[self._at(r)].sum())
        if squares == 0:
            return
        sums = [state.moments(block) for block in self.blocks_of(r)]
        chosen, self.totals[r] = chosen_ridge(
            prefix_evidences(sums, squares, n, RIDGES * scale, taper=0.0) + self.prior, self.factor
        )
        self._refresh(r, RIDGES[chosen] * scale)

    def describe(self, r: int) -> dict[str, Any]:
        chances, noise2 = self.chances(r)
        return {
            **super().describe(r),
            "dim": int(np.argmax(chances)) + 1,
            "features_in_use": len(chances),
            "noise": None if math.isnan(noise2) else math.sqrt(noise2),
        }


PrefixModel = PrefixFixedModel | PrefixContextModel


def prefix_model(problem: Problem, taper: float, factor: float, decay: float) -> PrefixModel:
    """The model that averages over d*, for what a problem offers."""
    return (PrefixContextModel if problem.contextual else PrefixFixedModel)(problem, taper, factor, decay)
