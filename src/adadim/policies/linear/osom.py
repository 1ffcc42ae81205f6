"""OSOM (Chatterji, Muthukumar and Bartlett 2020): arms with fixed means, until the data ask for features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.checks import positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import log_of, oful_radius, self_normalised_bonus
from adadim.policies.linear.round_learner import RoundLearner, RoundRegression
from adadim.policies.parameters import Delta, ThetaNorm

RIDGE = 1.0
LeastEigenvalue = Annotated[
    float, partial(positive, meaning="the least eigenvalue of the features' covariance, or None for 1/d")
]


@dataclass(frozen=True)
class BallRadius:
    """The functions of the source: how far theta is from its estimate, and how much optimism may cost."""

    arms: int
    dim: int
    horizon: int
    delta: float
    noise: float
    rho: float
    bound: float = 1.0  # on the norm of theta

    @property
    def log(self) -> float:
        """ln(2 d n / delta)."""
        return math.log(2 * self.dim * self.horizon / self.delta)

    @property
    def settled(self) -> float:
        """tau: rounds after which the design is sure to be well conditioned."""
        return (16 / self.rho**2 + 8 / (3 * self.rho)) * self.log

    def drift(self, t: Any) -> Any:
        """Upsilon(t): what errors of the arms' means can do."""
        spread = 20 / 3 + 10 * self.noise / 3 * math.sqrt(1 + 2 * math.log(2 * self.arms * self.horizon / self.delta))
        return spread * (self.log + np.sqrt(t * self.log + self.log**2))

    def martingale(self, t: Any) -> Any:
        """M(t): what noise can do."""
        inner = 0.5 * self.dim * np.log1p(np.asarray(t) / self.dim) + math.log(1 / self.delta)
        return self.bound + np.sqrt(2 * self.noise**2 * inner)

    def __call__(self, t: Any) -> Any:
        """K_delta(t): radius of the ball around the estimate (8d); the first branch also where it leaves t = K out."""
        t = np.asarray(t, dtype=float)
        design = 1 + 0.5 * self.rho * np.maximum(t - self.arms, 0.0)
        late = self.martingale(t) / np.sqrt(design) + self.drift(t) / design
        return np.where(t <= self.arms + self.settled, self.martingale(t) + self.drift(t), late)

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
        Bound on the norm of theta.

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

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return OSOMLearner(self, problem, streams)


class OSOMLearner(RoundLearner):
    """State of `OSOM`: arms' means, a regression of what they leave over, and the test that changes the model."""

    needs_sets = "fresh"

    def __init__(self, policy: OSOM, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.ball = policy, policy.radius(problem)
        self.pulls, self.sums = np.zeros((len(problem), problem.arms)), np.zeros((len(problem), problem.arms))
        self.regression = RoundRegression(problem, self.offers, problem.dim, RIDGE)
        # Sum of (optimistic value - reward), and twice the sum of the optimism about theta.
        self.shortfall, self.optimism = np.zeros(len(problem)), np.zeros(len(problem))
        self.complex = np.full(len(problem), policy.model == "complex")
        self.changed_at = np.zeros(len(problem), dtype=np.int64)

    def index(self, rows: Rows, arms: int) -> FloatArray:
        """mu~ of the first `arms` arms, infinite for one never pulled."""
        n = self.pulls[rows.ids, :arms]
        counted = np.maximum(n, 1.0)
        values: FloatArray = self.policy.index(self.sums[rows.ids, :arms] / counted, counted, self.ball)
        return np.where(n > 0, values, np.inf)

    def decide(self, features: FloatArray, rows: Rows) -> tuple[IntArray, Memo]:
        ids, allowed, t = rows.ids, self.offered_mask(features, rows), self.clock[rows.ids] + 1
        uniforms, index = self.chance.uniforms(rows), self.index(rows, features.shape[1])
        fresh = allowed & np.isinf(index)
        starting = fresh.any(axis=-1)
        mean, width2 = self.regression.predict(features, rows)
        if self.policy.variant == "ball":
            bonus = self.ball(t - 1)[:, None] * np.sqrt(np.vecdot(features, features))
        else:
            radius = oful_radius(
                self.ball.noise, RIDGE, self.policy.theta_norm, self.ball.delta, self.regression.logdet(rows)
            )
            bonus = radius * np.sqrt(width2)
        known = np.where(np.isinf(index), 0.0, index)
        scores = known + mean + bonus
        each = np.arange(len(ids))
        simple, full = self.pick(known, rows, uniforms), self.pick(scores, rows, uniforms)
        spent = 2.0 * (self.ball(t - 1) if self.policy.variant == "ball" else bonus[each, full])
        # Line 5 of the source; the prose makes the change final, the printed loop forgets it.
        budget = self.optimism[ids] + spent + self.ball.slack(t)
        asked = ~starting & (self.shortfall[ids] > budget) & (self.policy.model == "both")
        later = self.complex[ids] | asked
        chosen = np.where(starting, fresh.argmax(axis=-1), np.where(later, full, simple))
        return chosen, {
            "starting": starting.astype(np.int64),
            "complex": later.astype(np.int64),
            "index": np.where(starting, 0.0, known[each, chosen]),
            "optimistic": scores[each, full],
            "spent": spent,
        }

    def learned(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
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
