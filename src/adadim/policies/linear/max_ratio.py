"""Thompson sampling or greedy, corrected by optimism where arms not ruled out are much wider (Luo and Bayati 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from adadim.core.arrays import TINY, Array, clamp, namespace
from adadim.core.checks import is_number, not_negative, shown
from adadim.core.problem import Problem
from adadim.core.randomness import Draws, Streams
from adadim.core.rows import Replications
from adadim.errors import InvalidValueError
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.confidence import log_of, oful_radius
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.linucb import checked_dim
from adadim.policies.linear.rules import Rule, ScoreRule, Thompson
from adadim.policies.parameters import MAX_FACTOR, Delta, Dim, Ridge, ThetaNorm, Ties
from adadim.policies.player import Choice, Clock

MAX_WIDTH_RATIO = 1e100  # of two widths, where one is 0


def check_inflation(value: Any, name: str) -> None:
    """Raise unless `value` is "bayes", or a factor that is not negative."""
    if not (value == "bayes" if isinstance(value, str) else is_number(value) and 0 <= value <= MAX_FACTOR):
        raise InvalidValueError(
            f"{name} must be 'bayes' or a number from 0 (greedy) to {MAX_FACTOR:g}, got {shown(value)}"
        )


@dataclass(frozen=True)
class MaxRatio(LinearPolicy):
    """Play Thompson sampling or greedy, and optimism in rounds where the widths of arms differ too much.

    Use it where features change from round to round and the guarantee of an optimist is wanted at nearly the regret of
    Thompson sampling or greedy. Where arms stay it hands most rounds to the optimist sooner or later; `Certified`
    corrects any policy, and less often.

    Parameters
    ----------
    inflation : float or "bayes"
        iota: how wide draws are, of the confidence ellipsoid. 1 is the source's TS-MR, 0 its Greedy-MR. "bayes" draws
        from the posterior itself, as the released code does in simulations.
    threshold : float, optional
        mu_max: rounds of a larger ratio mu are the optimist's. By default 10, and 12 for greedy; the released
        simulations have 0, which makes every round the optimist's.
    delta : float
        Probability with which the bound may fail.
    ridge : float
        Regularisation lambda of the least squares.
    theta_norm : float
        Bound on the norm of theta, where the radius has one.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    With the ridge estimate of the answered rounds, mean m_a and width w_a of every arm, d parameters and

        beta = sigma sqrt(ln det(V / lambda) + 2 ln(2 T / delta)) + sqrt(lambda) S,
        nu = sqrt(2 d ln(4 d T / delta)),

    R are the arms with m_a + beta w_a >= max_b (m_b - beta w_b), B those for iota beta in the place of beta, and

        alpha = max_R w / min_B w,   mu = (1 + iota) (1 + alpha).

    If mu < `threshold` the arm best for theta_hat + (iota beta / nu) L^-T xi is pulled, V = L L^T and xi standard
    normal, else that of the largest m_a + beta w_a. "bayes" is iota = sigma nu / beta. Without end t takes the place of
    T.

    Regret is at most max(D, max(threshold, 2) beta_T) sqrt(T gamma_T / ln 2) with probability 1 - delta, where means
    of a round differ by at most D and gamma_T = ln det(V / lambda): theta is in the ellipsoid of radius beta and, as
    |xi| <= nu in all rounds, the draw in that of iota beta. The best arm is then in R and the one pulled, of width w,
    in B, so that it loses at most (1 + iota) beta (w_best + w) <= mu beta w; the optimist's loses at most 2 beta w.
    It needs rewards linear in the features, |theta| <= `theta_norm`, sub-Gaussian noise of known scale, T, and rewards
    that come at once. Luo and Bayati (2025, "Geometry-aware approaches for balancing performance and theoretical
    guarantees in linear bandits") announce O~(d sqrt(T)).

    Examples
    --------
    >>> import adadim, numpy as np
    >>> policy = adadim.MaxRatio(inflation=0.0, ridge=1.0)
    >>> learner = policy.start(adadim.Problem(np.eye(3), horizon=90, noise=0.1))
    >>> learner.learn([0] * 30 + [1, 2], [0.5] * 30 + [0.8, 0.1])
    >>> learner.select()  # the largest mean, and others are not much wider
    0
    >>> learner.learn([0] * 400, [0.5] * 400)
    >>> learner.select()  # now they are: the optimist's arm
    1
    """

    inflation: Annotated[float | Literal["bayes"], check_inflation] = 1.0
    threshold: Annotated[float, not_negative] | None = None
    delta: Delta = 1e-3
    ridge: Ridge = 0.1
    theta_norm: ThetaNorm = 1.0
    dim: Dim | None = None
    ties: Ties = "random"

    def model_for(self, problem: Problem) -> LinearModel:
        dim, draws = checked_dim(self.dim, problem), self.inflation != 0
        return LinearModel(problem, RidgePrior(self.ridge), dim=dim, samples=draws)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return CourseCorrection(problem, model, self, streams)


class CourseCorrection(Thompson):
    """Means by a parameter drawn, or the estimated ones; optimistic means where the ratio of widths is large."""

    counts_pending = False

    def __init__(self, problem: Problem, model: LinearModel, policy: MaxRatio, streams: Streams) -> None:
        super().__init__(problem, model, policy.ties, streams, 1.0)
        self.policy, self.noise, self.greedy = policy, problem.noise, policy.inflation == 0
        self.threshold = policy.threshold
        if self.threshold is None:
            self.threshold = 12.0 if self.greedy else 10.0
        if problem.endless:
            self.clock = Clock(model.reference)

    def radii(self, rows: Replications) -> tuple[Array, Array, Array]:
        """beta, iota and iota beta / nu of each replication, (n, 1), by the model's last prediction."""
        policy, t = self.policy, self._rounds(rows)
        logdet = rows.of(self.model.logdet)[:, None]
        beta = oful_radius(self.noise, policy.ridge, policy.theta_norm, policy.delta / (2 * t), logdet)
        if policy.inflation == "bayes":
            return beta, self.noise * self.normal_bound(t) / beta, self.noise + 0.0 * beta
        iota = policy.inflation + 0.0 * beta
        return beta, iota, iota * beta / self.normal_bound(t)

    def _rounds(self, rows: Replications) -> Any:
        return self.problem.horizon if self.clock is None else self.clock.now(rows, self.model.pulls)

    def normal_bound(self, t: Any) -> Any:
        """nu: d standard normals have a larger norm in one of t rounds with probability delta / 2 at most."""
        count = self.model.columns * self.model.offer.blocks
        return (2 * count * log_of(4 * count * t / self.policy.delta)) ** 0.5

    def ratio(self, mean: Array, width: Array, beta: Array, iota: Array, rows: Replications) -> Array:
        """mu of each replication, (n, 1)."""
        xp, value = namespace(mean), rows.apply_costs_and_mask(mean)
        widest = xp.max(xp.where(not_ruled_out(value, beta * width), width, 0.0 * width), axis=-1)
        own = not_ruled_out(value, iota * beta * width)
        narrowest = xp.min(xp.where(own, width, math.inf + 0.0 * width), axis=-1)
        alpha = widest / clamp(xp.maximum(narrowest, widest / MAX_WIDTH_RATIO), TINY)
        return (1.0 + iota) * (1.0 + alpha[:, None])

    def scores(self, rows: Replications) -> Array:
        drawn = None if self.greedy else super().scores(rows)
        return self._corrected(drawn, rows)

    def _corrected(self, drawn: Array | None, rows: Replications) -> Array:
        """Scores of the arms, given their means by parameters from N(theta_hat, V^-1), or none for greedy."""
        mean, width2 = self.model.predict(rows)
        xp, (beta, iota, deviation) = namespace(mean), self.radii(rows)
        width = xp.sqrt(clamp(width2, 0.0))
        own = mean if drawn is None else mean + deviation * (drawn - mean)
        corrected = self.ratio(mean, width, beta, iota, rows) >= self.threshold
        return xp.where(corrected, mean + beta * width, own)

    def choose(self, rows: Replications, draws: Draws) -> Choice:
        return ScoreRule.choose(self, rows, draws) if self.greedy else super().choose(rows, draws)

    def resampled(self, rows: Replications, draws: int) -> Array:
        return self._corrected(super().resampled(rows, draws), rows)


def not_ruled_out(mean: Array, half: Array) -> Array:
    """Which arms have an upper bound of at least the largest lower bound, given half the lengths of their intervals."""
    return mean + half >= namespace(mean).max(mean - half, axis=-1)[:, None]
