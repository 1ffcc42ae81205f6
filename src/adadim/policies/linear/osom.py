"""Policies for arms with means of their own and features, where the data decide how much the features count.

OSOM (Chatterji, Muthukumar and Bartlett 2020) asks for features when the data do; ALB-Dim and ALB-Norm (Ghosh,
Sankararaman and Ramchandran 2021) refine a support, or a norm, in phases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import BoolArray, FloatArray, IntArray
from adadim.core.checks import LARGEST_INTEGER, integer, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.core.ties import argmax, sampled
from adadim.errors import InvalidValueError
from adadim.policies.base import Choice, Memo, Policy
from adadim.policies.confidence import log_of, self_normalised_bonus
from adadim.policies.linear.round_learner import ClassDims, RoundLearner, RoundRegression, class_dims
from adadim.policies.parameters import Delta, RadiusScale, Ridge, ThetaNorm

PUBLISHED_RIDGE = 1.0  # of OSOM and ALB-Norm
LeastEigenvalue = Annotated[
    float, partial(positive, meaning="the least eigenvalue of the features' covariance, or None for 1/d")
]


@dataclass(frozen=True)
class BallRadius:
    """Functions of the source: the radius of a ball around the estimate of theta, and what optimism may cost."""

    arms: int
    dim: int
    horizon: int
    delta: float
    noise: float
    rho: float
    bound: float = 1.0  # on the norm of theta

    @property
    def first(self) -> int:
        """Rounds that do not count: the first pulls of all arms."""
        return self.arms

    @property
    def log(self) -> float:
        """ln(2 d n / delta)."""
        return math.log(2 * self.dim * self.horizon / self.delta)

    @property
    def settled(self) -> float:
        """tau: rounds after which the design is sure to be well conditioned."""
        return (16 / self.rho**2 + 8 / (3 * self.rho)) * self.log

    def drift(self, t: Any) -> Any:
        """Upsilon(t): bound on the effect of errors in the arms' means."""
        spread = 20 / 3 + 10 * self.noise / 3 * math.sqrt(1 + 2 * math.log(2 * self.arms * self.horizon / self.delta))
        return spread * (self.log + np.sqrt(t * self.log + self.log**2))

    def martingale(self, t: Any) -> Any:
        """M(t): bound on the effect of noise."""
        inner = 0.5 * self.dim * np.log1p(np.asarray(t) / self.dim) + math.log(1 / self.delta)
        return self.bound + np.sqrt(2 * self.noise**2 * inner)

    def __call__(self, t: Any) -> Any:
        """K_delta(t): radius of the ball around the estimate (8d); the first branch also where it leaves t = K out."""
        t = np.asarray(t, dtype=float)
        design = 1 + 0.5 * self.rho * np.maximum(t - self.first, 0.0)
        late = self.martingale(t) / np.sqrt(design) + self.drift(t) / design
        return np.where(t <= self.first + self.settled, self.martingale(t) + self.drift(t), late)

    def slack(self, t: Any) -> Any:
        """The part of W(t) that does not come from the ball."""
        t = np.asarray(t, dtype=float)
        noise = np.sqrt(0.5 * (1 + t) * math.log(1 / self.delta))
        means = 2 * np.sqrt(1 + 2 * np.log(self.arms * np.sqrt(t) / self.delta)) * np.sqrt(self.arms * t)
        return self.noise * (noise + means)


def optimistic_mean(mean: Any, pulls: Any, noise: float, arms: int, dim: int, delta: Any, bound: Any) -> Any:
    """mu~_i of an arm after `pulls` (at least 1), with a bound on the norm of theta (0 for no correction)."""
    value = mean + self_normalised_bonus(np.asarray(pulls, dtype=float), arms, noise, delta)
    return value + bound * np.sqrt(2 * dim / pulls * log_of(1 / delta))


@dataclass(frozen=True)
class OSOM(Policy):
    """Play arms by their means; go over to means plus a linear function of the features once those must matter.

    Rewards are mu_i + <theta, x_i> for arm i. While the rewards are no worse than what theta = 0 explains, it is UCB on
    the arms; afterwards, for ever, it is optimistic about theta too. Use it where arms keep an identity and their
    features may be irrelevant; there are two models only, so how many features matter is not asked.

    Parameters
    ----------
    model : {"both", "simple", "complex"}
        Start with the simple model and test it, or keep to one: "simple" is UCB on the arms, whatever their features;
        "complex" is OFUL with a mean for each arm.
    variant : {"ellipsoid", "ball"}
        "ellipsoid": theta within the OFUL radius of its estimate, in the norm of the design. "ball": the source's
        radius, whose test never changes the model at its own experiment's scale.
    delta : float, optional
        Confidence; 1/sqrt(T) by default.
    rho : float, optional
        Least eigenvalue of the covariance of an arm's features, for "ball"; by default 1/d, as on the unit sphere.
    corrected : bool
        Add `theta_norm` sqrt((2d/n) ln(1/delta)) to an arm's index, as Ghosh, Sankararaman and Ramchandran (2021) found
        necessary: without it the index does not cover the mean while theta is not 0.
    theta_norm : float
        Bound on the norm of theta, where the radius has one.

    Notes
    -----
    With the ball, sets that are i.i.d., independent over arms, of mean zero and covariance at least rho: with
    probability 1 - 9 delta regret sigma sum_i (3 gap_i + 16 / gap_i ln(2K / (gap_i delta))) if theta = 0, and
    O~(sigma (sqrt(d) + sqrt(K)) sqrt(T)) otherwise. Known beforehand: sigma, T and rho. A fixed set meets none of these
    assumptions: arms then differ by their means alone, and the features add nothing.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.contexts(arms=4, dim=3, intrinsic_dim=3, horizon=400)
    >>> adadim.simulate(adadim.OSOM(), instance).learner.describe()[0]["model"]
    'complex'
    """

    model: Literal["both", "simple", "complex"] = "both"
    variant: Literal["ellipsoid", "ball"] = "ellipsoid"
    delta: Delta | None = None
    rho: LeastEigenvalue | None = None
    corrected: bool = False
    theta_norm: ThetaNorm = 1.0

    def radius(self, problem: Problem) -> BallRadius:
        """The source's functions for a problem."""
        delta = self.delta or min(0.5, 1 / math.sqrt(problem.horizon))
        return BallRadius(problem.arms, problem.dim, problem.horizon, delta, problem.noise, self.rho or 1 / problem.dim)

    def index(self, mean: Any, pulls: Any, ball: BallRadius) -> Any:
        """mu~_i: optimistic mean of an arm after `pulls` (at least 1) of it."""
        bound = self.theta_norm if self.corrected else 0.0
        return optimistic_mean(mean, pulls, ball.noise, ball.arms, ball.dim, ball.delta, bound)

    def learner(self, problem: Problem, streams: Streams) -> OSOMLearner:
        return OSOMLearner(self, problem, streams)


class OSOMLearner(RoundLearner):
    """State of `OSOM`: arms' means, a regression of what they leave over, and the test that changes the model."""

    policy: OSOM
    needs_sets = "iid-centred"

    def __init__(self, policy: OSOM, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.ball = policy, policy.radius(problem)
        self.pulls, self.sums = np.zeros((len(problem), problem.arms)), np.zeros((len(problem), problem.arms))
        self.regression = RoundRegression(problem, problem.dim, PUBLISHED_RIDGE)
        # Sum of (optimistic value - reward), and twice the sum of the optimism about theta.
        self.shortfall, self.optimism = np.zeros(len(problem)), np.zeros(len(problem))
        self.complex = np.full(len(problem), policy.model == "complex")
        self.changed_at = np.zeros(len(problem), dtype=np.int64)

    def index(self, rows: Replications, arms: int) -> FloatArray:
        """mu~ of the first `arms` arms, infinite for one never pulled."""
        n = self.pulls[rows.ids, :arms]
        counted = np.maximum(n, 1.0)
        values: FloatArray = self.policy.index(self.sums[rows.ids, :arms] / counted, counted, self.ball)
        return np.where(n > 0, values, np.inf)

    def decide(self, features: FloatArray, rows: Replications) -> Choice:
        ids, allowed, t = rows.ids, self.offered_mask(features, rows), self.clock[rows.ids] + 1
        uniforms, index = self.chance.uniforms(rows), self.index(rows, features.shape[1])
        fresh = allowed & np.isinf(index)
        starting = fresh.any(axis=-1)
        mean, width2 = self.regression.predict(features, rows)
        if self.policy.variant == "ball":
            bonus = self.ball(t - 1)[:, None] * np.sqrt(np.vecdot(features, features))
        else:
            bonus = self.regression.radius(self.policy.theta_norm, self.ball.delta, rows) * np.sqrt(width2)
        finite_index = np.where(np.isinf(index), 0.0, index)
        scores = finite_index + mean + bonus
        each = np.arange(len(ids))
        simple, full = (argmax(rows.apply_costs_and_mask(values), uniforms) for values in (finite_index, scores))
        spent = 2.0 * (self.ball(t - 1) if self.policy.variant == "ball" else bonus[each, full])
        # Line 5 of the source; the prose makes the change final, the printed loop forgets it.
        budget = self.optimism[ids] + spent + self.ball.slack(t)
        asked = ~starting & (self.shortfall[ids] > budget) & (self.policy.model == "both")
        later = self.complex[ids] | asked
        chosen = np.where(starting, fresh.argmax(axis=-1), np.where(later, full, simple))
        memo = {
            "starting": starting.astype(np.int64),
            "complex": later.astype(np.int64),
            "index": np.where(starting, 0.0, finite_index[each, chosen]),
            "optimistic": scores[each, full],
            "spent": spent,
        }
        return Choice(chosen, memo)

    def learn_from(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Replications, memo: Memo) -> None:
        self.pulls[rows.ids, arms] += 1
        self.sums[rows.ids, arms] += rewards
        at = np.flatnonzero(memo["starting"] == 0)
        if not len(at):
            return
        ids, part = rows.ids[at], rows.pick(at)
        self.regression.absorb(arms[at], x[at], rewards[at] - memo["index"][at], part)
        self.shortfall[ids] += memo["optimistic"][at] - rewards[at]
        self.optimism[ids] += memo["spent"][at]
        new = (memo["complex"][at] > 0) & ~self.complex[ids]
        self.changed_at[ids] = np.where(new, self.clock[ids], self.changed_at[ids])
        self.complex[ids] |= memo["complex"][at] > 0

    def descriptions(self) -> list[dict[str, Any]]:
        changes = zip(self.complex.tolist(), self.changed_at.tolist(), strict=True)
        return self.described(
            model=["complex" if late else "simple" for late in self.complex],
            changed_in_round=[at if late else None for late, at in changes],
            pulls=self.pulls.sum(axis=1).astype(np.int64),
            most_pulled_arm=self.pulls.argmax(axis=1),
        )


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
    ridge : float
        Regularisation lambda of the least squares.
    theta_norm : float
        Bound on the norm of theta, where the radius has one.
    scale : float
        Factor on the radius.

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
        relevant = np.flatnonzero(np.abs(estimate) >= 2.0 ** -(phase + 1)).tolist()
        if self.support == "coordinates" and relevant:
            return relevant
        least = relevant[-1] + 1 if relevant else 1
        return list(range(next((d for d in dims if d >= least), dims[-1])))

    def learner(self, problem: Problem, streams: Streams) -> ALBDimLearner:
        return ALBDimLearner(self, problem, streams)


class ALBDimLearner(RoundLearner):
    """State of `ALBDim`: the phase, the regression of its play, and the moments of all exploration."""

    policy: ALBDim
    needs_sets = "iid"

    def __init__(self, policy: ALBDim, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.dims = policy, class_dims(policy.dims, problem.dim)
        count, d = len(problem), problem.dim
        self.delta = policy.delta or min(0.5, 1 / math.sqrt(problem.horizon))
        self.estimate = np.ones((count, d))  # every feature counts until the first exploration
        self.second, self.moment = np.zeros((count, d, d)), np.zeros((count, d))
        self.phase, self.step = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        # Phase 0 plays on all features, for which a regression on arms that stay is cheaper.
        self.first = RoundRegression(problem, d, policy.ridge)
        self.later = RoundRegression(problem, d, policy.ridge, reweighted=True)

    def check_restored(self) -> None:
        super().check_restored()
        check_positions(self, phase=13, step=LARGEST_INTEGER)

    def exploring(self, rows: Replications) -> BoolArray:
        """Whether the next round is one of random arms, in each replication."""
        play = [self.policy.lengths(i, self.problem.dim)[0] for i in self.phase[rows.ids].tolist()]
        return np.asarray(self.step[rows.ids] >= np.array(play))

    def support(self, r: int) -> list[int]:
        """Features on which a replication plays."""
        return list(range(self.problem.dim)) if not self.phase[r] else np.flatnonzero(self.later.weights[r]).tolist()

    def decide(self, features: FloatArray, rows: Replications) -> Choice:
        allowed, uniforms = self.offered_mask(features, rows), self.chance.uniforms(rows)
        scores = np.zeros(features.shape[:2])
        for phase, members, at in rows.split(self.phase[rows.ids]):
            regression = self.later if phase else self.first
            mean, width2 = regression.predict(features[at], members)
            # Its confidence is halved in each phase.
            radius = self.policy.scale * regression.radius(self.policy.theta_norm, self.delta * 2.0**-phase, members)
            scores[at] = mean + radius * np.sqrt(width2)
        greedy = argmax(rows.apply_costs_and_mask(scores), uniforms)
        return Choice(np.where(self.exploring(rows), sampled(allowed.astype(float), uniforms), greedy), {})

    def learn_from(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Replications, memo: Memo) -> None:
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
        weights = np.zeros(self.problem.dim)
        weights[self.policy.features(self.estimate[r], int(self.phase[r]), self.dims)] = 1.0
        self.later.forget(r, weights)

    def descriptions(self) -> list[dict[str, Any]]:
        features = [self.support(r) for r in range(len(self.problem))]
        return self.described(phase=self.phase, features=features, pulls=self.clock)


class NormRadius(BallRadius):
    """Radius of the ball around the estimate of theta, in an epoch whose norm bound is `bound`."""

    first = 0

    def drift(self, t: Any) -> Any:
        log = math.log(2 * self.arms * self.horizon / self.delta)
        return 10 / 3 * (self.bound + 2 + self.noise * math.sqrt(1 + 2 * log)) * (log + np.sqrt(t * log + log**2))


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
    >>> adadim.simulate(adadim.ALBNorm(first_epoch=50), instance).learner.describe()[0]["epoch"]
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
        return min(self.pairs, problem.horizon)  # no room is kept for pairs after the horizon

    def learner(self, problem: Problem, streams: Streams) -> ALBNormLearner:
        return ALBNormLearner(self, problem, streams)


class ALBNormLearner(RoundLearner):
    """State of `ALBNorm`: pairs of the first part, arms' means, and the epoch with its regression and norm bound."""

    policy: ALBNorm
    needs_sets = "iid-centred"
    no_allowed = (
        "this policy compares pulls of one arm with each other and starts by pulling every arm, so it needs all arms "
        "in every round; use adadim.recommended(problem) with allowed="
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
        self.regression = RoundRegression(problem, d, PUBLISHED_RIDGE)

    def check_restored(self) -> None:
        super().check_restored()
        check_positions(self, epoch=64, step=LARGEST_INTEGER, arm=self.problem.arms)

    def length(self, r: int) -> int:
        """Rounds of the current epoch of a replication."""
        return self.policy.first_epoch << (int(self.epoch[r]) - 1)

    def radius(self, r: int, t: int) -> float:
        """Radius after t rounds of the current epoch of a replication."""
        problem, delta = self.problem, self.delta * 2.0 ** (1 - int(self.epoch[r]))
        if self.policy.variant == "ball":
            ball = NormRadius(
                problem.arms, problem.dim, self.length(r), delta, problem.noise, self.rho, float(self.bound[r])
            )
            return self.policy.scale * float(ball(t))
        row = Replications.some(np.array([r]), self.bound)
        return self.policy.scale * float(self.regression.radius(float(self.bound[r]), delta, row)[0, 0])

    def decide(self, features: FloatArray, rows: Replications) -> Choice:
        arms, ids = self.problem.arms, rows.ids
        if features.shape[1] != arms:
            raise InvalidValueError(f"this policy needs all {arms} arms in every round, got {features.shape[1]}")
        uniforms, t = self.chance.uniforms(rows), self.clock[ids]
        drawn = np.where(t == 0, (uniforms * arms).astype(np.int64), self.arm[ids])
        after = t - 2 * self.pairs
        chosen = np.where(after < 0, drawn, np.clip(after, 0, arms - 1))
        if (after < arms).all():  # the first part, and the pull of every arm: scores do not matter yet
            return Choice(chosen, {"index": np.zeros(len(ids))})
        delta = self.delta * 2.0 ** (1.0 - self.epoch[ids])[:, None]
        n, bound = self.pulls[ids], self.bound[ids][:, None] if self.policy.corrected else 0.0
        index = optimistic_mean(self.sums[ids] / n, n, self.problem.noise, arms, self.problem.dim, delta, bound)
        mean, width2 = self.regression.predict(features, rows)
        radius = np.array([self.radius(r, int(self.step[r])) for r in ids.tolist()])[:, None]
        ball = self.policy.variant == "ball"
        scores = index + mean + radius * (np.sqrt(np.vecdot(features, features)) if ball else np.sqrt(width2))
        chosen = np.where(after < arms, chosen, argmax(rows.apply_costs_and_mask(scores), uniforms))
        return Choice(chosen, {"index": index[np.arange(len(ids)), chosen]})

    def learn_from(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Replications, memo: Memo) -> None:
        for i, r in enumerate(rows.ids.tolist()):
            at, arm, reward = int(self.clock[r]) - 1, int(arms[i]), float(rewards[i])
            if at < 2 * self.pairs:
                self.arm[r], self.paired[r, at], self.paired_rewards[r, at] = arm, x[i], reward
                if at == 2 * self.pairs - 1:
                    norm = float(np.linalg.norm(paired_estimate(self.paired[r], self.paired_rewards[r])))
                    self.bound[r] = first_norm(norm, self.problem.noise, self.problem.dim, self.pairs, self.delta)
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
