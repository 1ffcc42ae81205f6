"""ALB-Dim and ALB-Norm (Ghosh, Sankararaman and Ramchandran 2021): phases that refine a support, or a norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.checks import integer, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.errors import InvalidValueError
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import oful_radius
from adadim.policies.linear.osom import BallRadius, LeastEigenvalue, optimistic_mean
from adadim.policies.linear.round_learner import ClassDims, RoundLearner, RoundRegression, class_dims
from adadim.policies.parameters import Delta, RadiusScale, Ridge, ThetaNorm
from adadim.policies.player import sampled

RIDGE = 1.0  # of ALB-Norm


@dataclass(frozen=True)
class ALBDim(Policy):
    """Play on the features that exploration has found to matter, in phases that grow 25-fold.

    Phase i keeps the features whose estimated coefficient is at least 2^-(i+1), plays a fresh OFUL on them for 25^i T_0
    rounds, and ends with 5^i sqrt(T_0) rounds of random arms, from which all coefficients are estimated anew. Use it to
    compare: it needs a horizon of many times T_0, which must itself be about d^2, and until its first estimate it is
    OFUL in all features. At short horizons `EvidenceLinUCB` adapts within the first rounds.

    Parameters
    ----------
    support : {"nested", "coordinates"}
        "nested": the smallest class of leading features that has them all. "coordinates": just the features found, for
        a sparse theta.
    dims : tuple of int, optional
        Dimensions of the nested classes, increasing; by default 1, 2, 4, ... and d.
    first_phase : int, optional
        T_0; by default the least with ceil(sqrt(T_0)) >= d, so that the first exploration determines all coefficients.
        The theory's is some 10^8 rounds for d = 20.
    delta : float, optional
        Confidence delta of phase 0, halved in every phase; 1/sqrt(T) by default.
    ridge, theta_norm, scale : float
        Regularisation of OFUL, bound on the norm of theta, and a factor on its radius.

    Notes
    -----
    For i.i.d. sets with a known law and a positive second moment, with the theory's T_0, probability 1 - delta and gam
    the least nonzero |theta_j|: 2 T_0 max(25^4, 2/gam^4.65) + 308 (1 + ln(2KT ln T))^(3/2) sqrt(T d*) + 100 sqrt(T),
    with SupLinUCB inside; here OFUL plays. The support is promised from phase 4 on. Where the source's text and
    pseudo-code differ (the threshold, by a factor 2), this is the pseudo-code.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.contexts(arms=5, dim=8, intrinsic_dim=2, horizon=900, noise=0.05)
    >>> adadim.simulate(adadim.ALBDim(first_phase=400), instance).learner.describe()[0]["features"]
    [0, 1]
    """

    support: Literal["nested", "coordinates"] = "nested"
    dims: ClassDims | None = None
    first_phase: Annotated[int, partial(integer, meaning="rounds before the first exploration, or None")] | None = None
    delta: Delta | None = None
    ridge: Ridge = 1.0
    theta_norm: ThetaNorm = 1.0
    scale: RadiusScale = 1.0

    def lengths(self, phase: int, dim: int) -> tuple[int, int]:
        """Rounds of play and of exploration in a phase."""
        first = (dim - 1) ** 2 + 1 if self.first_phase is None else self.first_phase
        root = math.isqrt(first - 1) + 1
        return 25**phase * first, 5**phase * root

    def features(self, estimate: FloatArray, phase: int, dims: tuple[int, ...]) -> list[int]:
        """Features on which a phase plays, given the coefficients estimated before it."""
        found = np.flatnonzero(np.abs(estimate) >= 2.0 ** -(phase + 1)).tolist()
        if self.support == "coordinates" and found:
            return found
        least = found[-1] + 1 if found else 1
        return list(range(next((d for d in dims if d >= least), dims[-1])))

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return ALBDimLearner(self, problem, streams)


class ALBDimLearner(RoundLearner):
    """State of `ALBDim`: the phase, the regression of its play, and the moments of all exploration."""

    needs_sets = "iid"

    def __init__(self, policy: ALBDim, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.dims = policy, class_dims(policy.dims, problem.dim)
        count, d = len(problem), problem.dim
        self.delta = policy.delta or min(0.5, 1 / math.sqrt(problem.horizon))
        self.estimate = np.ones((count, d))  # every feature counts until the first exploration
        self.second, self.moment = np.zeros((count, d, d)), np.zeros((count, d))
        self.phase, self.step = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        # Phase 0 is on all features, which is cheaper where arms stay.
        self.first = RoundRegression(problem, self.offers, d, policy.ridge)
        self.later = RoundRegression(problem, self.offers, d, policy.ridge, reweighted=True)

    def exploring(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.bool]]:
        """Whether the next round is one of random arms, in each replication."""
        play = [self.policy.lengths(i, self.problem.dim)[0] for i in self.phase[rows.ids].tolist()]
        return np.asarray(self.step[rows.ids] >= np.array(play))

    def radius(self, phase: int, logdet: FloatArray) -> FloatArray:
        """Radius of OFUL in a phase, whose confidence is halved in each."""
        policy, delta = self.policy, self.delta * 2.0**-phase
        radius: FloatArray = oful_radius(self.problem.noise, policy.ridge, policy.theta_norm, delta, logdet)
        return policy.scale * radius

    def support(self, r: int) -> list[int]:
        """Features on which a replication plays."""
        return list(range(self.problem.dim)) if not self.phase[r] else np.flatnonzero(self.later.weights[r]).tolist()

    def decide(self, features: FloatArray, rows: Rows) -> tuple[IntArray, Memo]:
        allowed, uniforms = self.offered_mask(features, rows), self.chance.uniforms(rows)
        scores = np.zeros(features.shape[:2])
        for phase, members, at in rows.split(self.phase[rows.ids]):
            regression = self.later if phase else self.first
            mean, width2 = regression.predict(features[at], members)
            scores[at] = mean + self.radius(phase, regression.logdet(members)) * np.sqrt(width2)
        greedy = self.pick(scores, rows, uniforms)
        return np.where(self.exploring(rows), sampled(allowed.astype(float), uniforms), greedy), {}

    def learned(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
        exploring = self.exploring(rows)
        playing = np.where(exploring, -1, self.phase[rows.ids])
        for phase, members, at in rows.split(playing):
            if phase >= 0:
                (self.later if phase else self.first).absorb(arms[at], x[at], rewards[at], members)
        for i, r in enumerate(rows.ids.tolist()):
            if exploring[i]:
                self.second[r] += np.outer(x[i], x[i])
                self.moment[r] += rewards[i] * x[i]
            self.step[r] += 1
            if self.step[r] == sum(self.policy.lengths(int(self.phase[r]), self.problem.dim)):
                self._next_phase(r)

    def _next_phase(self, r: int) -> None:
        # Line 14 of the source is least squares on all exploration so far; of least norm while it is not determined.
        self.estimate[r] = np.linalg.lstsq(self.second[r], self.moment[r], rcond=1e-10)[0]
        self.phase[r] += 1
        self.step[r] = 0
        kept = np.zeros(self.problem.dim)
        kept[self.policy.features(self.estimate[r], int(self.phase[r]), self.dims)] = 1.0
        self.later.forget(r, kept)

    def descriptions(self) -> list[dict[str, Any]]:
        features = [self.support(r) for r in range(len(self.problem))]
        return self.described(phase=self.phase, features=features, pulls=self.clock)


class NormRadius(BallRadius):
    """Radius of the ball around the estimate of theta, in an epoch whose norm bound is `bound`."""

    def drift(self, t: Any) -> Any:
        log = math.log(2 * self.arms * self.horizon / self.delta)
        return 10 / 3 * (self.bound + 2 + self.noise * math.sqrt(1 + 2 * log)) * (log + np.sqrt(t * log + log**2))

    def __call__(self, t: Any) -> Any:
        t = np.asarray(t, dtype=float)
        design = 1 + 0.5 * self.rho * t
        late = self.martingale(t) / np.sqrt(design) + self.drift(t) / design
        return np.where(t < self.settled, self.martingale(t) + self.drift(t), late)


def paired_estimate(x: FloatArray, y: FloatArray) -> FloatArray:
    """Least squares on the differences of consecutive pairs, in which the bias of the arm cancels."""
    pairs = len(x) // 2 * 2
    return np.asarray(np.linalg.lstsq(x[0:pairs:2] - x[1:pairs:2], y[0:pairs:2] - y[1:pairs:2], rcond=None)[0])


def first_norm(norm: float, noise: float, dim: int, pairs: int, delta: float) -> float:
    """b_1 = max(|theta_ls| + sqrt(2) sigma sqrt((d / pairs) ln(1/delta)), 1)."""
    return max(norm + math.sqrt(2) * noise * math.sqrt(dim / pairs * math.log(1 / delta)), 1.0)


@dataclass(frozen=True)
class ALBNorm(Policy):
    """Be optimistic about arms' means and a linear function of their features, whose norm is bounded ever better.

    Rewards are mu_i + <theta, x_i> for arm i. Pairs of pulls of one random arm give a first bound on the norm of theta;
    epochs of doubling length then play optimistically with the bound that the last one ended with. Use it to compare,
    where arms keep an identity and theta may be small; `LinUCB` with a constant feature for each arm is simpler.

    Parameters
    ----------
    pairs : int, optional
        Pairs of pulls in the first part; by default d, but at most T/8. Not made if `norm_bound` is given.
    norm_bound : float, optional
        A first bound on the norm of theta that is known beforehand.
    first_epoch : int
        Length T_1 of the first epoch.
    variant : {"ellipsoid", "ball"}
        As in `OSOM`; the source's ball is larger than the bound to be refined at every practical length of an epoch.
    delta : float, optional
        Confidence delta_1, halved in every epoch, and delta_s of the first part; 1/sqrt(T) by default.
    rho, corrected
        As in `OSOM`; the source does correct.
    scale : float
        Factor on the radius; 0.1 in the authors' notebook.

    Notes
    -----
    With the ball, sets that are i.i.d., independent over arms, of mean zero and covariance at least rho, and an epoch
    T_1 of order 10^9: with probability 1 - 18 delta_1 - delta_s regret O~((1 + |theta|)(sqrt(K) + sqrt(d)) sqrt(T)).
    Known beforehand: sigma, T and rho. A fixed set meets none of these assumptions.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.contexts(arms=4, dim=3, intrinsic_dim=3, horizon=400)
    >>> described = adadim.simulate(adadim.ALBNorm(first_epoch=50), instance).learner.describe()[0]
    >>> described["epoch"]
    4
    """

    pairs: Annotated[int, partial(integer, meaning="of pulls of one arm, or None")] | None = None
    norm_bound: Annotated[float, partial(positive, meaning="a bound on the norm of theta, or None")] | None = None
    first_epoch: Annotated[int, partial(integer, meaning="rounds of the first epoch")] = 100
    variant: Literal["ellipsoid", "ball"] = "ellipsoid"
    delta: Delta | None = None
    rho: LeastEigenvalue | None = None
    corrected: bool = True
    scale: RadiusScale = 1.0

    def pairs_for(self, problem: Problem) -> int:
        """Pairs of pulls in the first part."""
        if self.norm_bound is not None:
            return 0
        if self.pairs is None:
            return min(problem.dim, max(1, problem.horizon // 8))
        return min(self.pairs, problem.horizon)  # the first part may last for ever, but nothing is kept for later

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return ALBNormLearner(self, problem, streams)


class ALBNormLearner(RoundLearner):
    """State of `ALBNorm`: pairs of the first part, arms' means, and the epoch with its regression and norm bound."""

    needs_sets = "fresh"

    no_allowed = (
        "this policy compares pulls of one arm with each other and starts by pulling every arm, so it needs all arms "
        "in every round; use OSOM or LinUCB with allowed="
    )

    def __init__(self, policy: ALBNorm, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, count, d, arms = policy, len(problem), problem.dim, problem.arms
        self.pairs = policy.pairs_for(problem)
        self.delta, self.rho = policy.delta or min(0.5, 1 / math.sqrt(problem.horizon)), policy.rho or 1 / d
        self.paired = np.zeros((count, 2 * self.pairs, d))
        self.paired_rewards = np.zeros((count, 2 * self.pairs))
        self.arm = np.zeros(count, dtype=np.int64)  # the one of the first part
        self.bound = np.full(count, float(policy.norm_bound or 1.0))
        self.first = np.zeros((count, arms))  # reward of each arm's first pull, kept for all epochs
        self.pulls, self.sums = np.ones((count, arms)), np.zeros((count, arms))
        self.epoch, self.step = np.ones(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.regression = RoundRegression(problem, self.offers, d, RIDGE)

    def length(self, r: int) -> int:
        """Rounds of the current epoch of a replication."""
        return self.policy.first_epoch << (int(self.epoch[r]) - 1)

    def radius(self, r: int, t: int) -> float:
        """Radius after t rounds of the current epoch of a replication."""
        problem, delta = self.problem, self.delta * 2.0 ** (1 - int(self.epoch[r]))
        if self.policy.variant == "ball":
            made = NormRadius(
                problem.arms, problem.dim, self.length(r), delta, problem.noise, self.rho, float(self.bound[r])
            )
            return self.policy.scale * float(made(t))
        logdet = self.regression.logdet(Rows.some(np.array([r]), self.bound))[:, 0]
        return self.policy.scale * float(oful_radius(problem.noise, RIDGE, float(self.bound[r]), delta, logdet)[0])

    def decide(self, features: FloatArray, rows: Rows) -> tuple[IntArray, Memo]:
        arms, ids = self.problem.arms, rows.ids
        if features.shape[1] != arms:
            raise InvalidValueError(f"this policy needs all {arms} arms in every round, got {features.shape[1]}")
        uniforms, t = self.chance.uniforms(rows), self.clock[ids]
        drawn = np.where(t == 0, (uniforms * arms).astype(np.int64), self.arm[ids])
        after = t - 2 * self.pairs
        chosen = np.where(after < 0, drawn, np.clip(after, 0, arms - 1))
        if (after < arms).all():  # the first part, and the pull of every arm: scores do not matter yet
            return chosen, {"index": np.zeros(len(ids))}
        delta = self.delta * 2.0 ** (1.0 - self.epoch[ids])[:, None]
        n, bound = self.pulls[ids], self.bound[ids][:, None] if self.policy.corrected else 0.0
        index = optimistic_mean(self.sums[ids] / n, n, self.problem.noise, arms, self.problem.dim, delta, bound)
        mean, width2 = self.regression.predict(features, rows)
        radius = np.array([self.radius(r, int(self.step[r])) for r in ids.tolist()])[:, None]
        ball = self.policy.variant == "ball"
        scores = index + mean + radius * (np.sqrt(np.vecdot(features, features)) if ball else np.sqrt(width2))
        chosen = np.where(after < arms, chosen, self.pick(scores, rows, uniforms))
        return chosen, {"index": index[np.arange(len(ids)), chosen]}

    def learned(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
        for i, r in enumerate(rows.ids.tolist()):
            at, arm, reward = int(self.clock[r]) - 1, int(arms[i]), float(rewards[i])
            if at < 2 * self.pairs:
                self.arm[r], self.paired[r, at], self.paired_rewards[r, at] = arm, x[i], reward
                if at == 2 * self.pairs - 1:
                    self._first_bound(r)
            elif at < 2 * self.pairs + self.problem.arms:
                self.first[r, arm] = self.sums[r, arm] = reward
            else:
                residual = rewards[i : i + 1] - memo["index"][i]
                self.regression.absorb(arms[i : i + 1], x[i : i + 1], residual, rows.pick(np.array([i])))
                self.pulls[r, arm] += 1
                self.sums[r, arm] += reward
                self.step[r] += 1
                if self.step[r] == self.length(r):
                    self._next_epoch(r)

    def _first_bound(self, r: int) -> None:
        norm = float(np.linalg.norm(paired_estimate(self.paired[r], self.paired_rewards[r])))
        self.bound[r] = first_norm(norm, self.problem.noise, self.problem.dim, self.pairs, self.delta)

    def _next_epoch(self, r: int) -> None:
        """The bound becomes the largest norm in the region of confidence; everything else starts anew."""
        theta, widest = self.regression.solution(r)
        reach = self.radius(r, int(self.step[r]))
        if self.policy.variant == "ellipsoid":  # |theta| within |.|_V <= radius is at most radius / sqrt(lambda_min(V))
            reach *= math.sqrt(max(widest, 0.0))
        self.bound[r] = float(np.linalg.norm(theta)) + reach
        self.epoch[r] += 1
        self.step[r] = 0
        self.pulls[r], self.sums[r] = 1.0, self.first[r]
        self.regression.forget(r)

    def descriptions(self) -> list[dict[str, Any]]:
        return self.described(epoch=self.epoch, norm_bound=self.bound, pulls=self.clock)
