"""Several priors whose regret bounds are balanced, and dropped by their average rewards (after LB-GP-UCB)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.models.hyperprior import HyperPrior, Posteriors
from adadim.models.linear import LinearModel
from adadim.policies.certificate import Ellipsoid
from adadim.policies.linear.learner import LinearLearner, LinearPolicy
from adadim.policies.linear.prior_choice import PriorChoice
from adadim.policies.linear.prior_thompson import PositiveNumbers, hyperprior, hyperprior_model
from adadim.policies.linear.round_learner import ClassDims
from adadim.policies.linear.rules import Rule
from adadim.policies.parameters import Delta, Ties


@dataclass(frozen=True)
class PriorBalancing(LinearPolicy):
    """Play the prior whose regret bound is the smallest, and drop priors under which the rewards are too small.

    Use it to compare with: it is regret balancing whose bases share all data. On sets that stay it tries every prior a
    share of the time that its bound allows; `PriorThompson` goes by the evidence, sooner. Rounds of different priors
    are compared by their average rewards, so it needs sets that are fixed or i.i.d.

    Parameters
    ----------
    dims, sizes
        The priors, as in `PriorThompson`.
    delta : float
        Confidence of the test and of the bounds; 0.01 as in the released code.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    The source (Ziomek et al., NeurIPS 2024) learns the length scale of a kernel; here a prior of d_m features and size
    s_m takes the place of a length scale. Its bound after n rounds is that of the optimistic algorithm,

        R_m(n) = 2 max(D/2, b) sqrt(n Gamma / ln 2),   Gamma = d_m ln(1 + n L^2 / (d_m ridge_m)),
        b = sqrt(sigma^2 (Gamma + 2 ln(1/delta)) + ridge_m S_m^2),   D = 2 S_m L,

    with ridge_m = (sigma / s_m)^2, S_m = s_m sqrt(d_m) and the largest norm L of an arm offered so far. Each round is
    played by the active prior of the smallest R_m(n_m + 1), n_m being its answered rounds. Its arm is that with the
    largest upper end of the credible interval, <a, theta_hat_m> + beta_t sigma w_m(a), with the beta_t of
    `PriorElimination`. Once every prior has had a reward, m is dropped if

        mean_m + mean_m(beta sigma w) + sqrt(xi / n_m) < max_j (mean_j - sqrt(xi / n_j)),

    means over the n_m answered rounds of m, xi = 2 sigma^2 ln(M pi^2 t^2 / (6 delta)), j over all priors, those dropped
    too. One prior stays. The released code has 1e-4 in the place of sigma and standardises all rewards anew as data
    arrive; it adds shorter length scales with time, for which a list of priors has no counterpart.

    Nothing is proved for it here: the source's theorem is for length scales, and R_m is a bound for another radius than
    the one of the credible intervals.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=8, intrinsic_dim=4, horizon=300)
    >>> outcome = adadim.simulate(adadim.PriorBalancing(dims=(1, 8)), instance)
    >>> [n > 0 for n in outcome.learner.describe()[0]["rounds_of_each_prior"]]
    [True, True]
    """

    dims: ClassDims | None = None
    sizes: PositiveNumbers = (0.5,)
    delta: Delta = 0.01
    ties: Ties = "random"

    def prior_for(self, problem: Problem) -> HyperPrior:
        """Its priors on a problem."""
        return hyperprior(self.dims, self.sizes, None, problem)

    def learner(self, problem: Problem, streams: Streams) -> LinearLearner:
        learner = super().learner(problem, streams)
        learner.needs_sets = "iid"
        return learner

    def model_for(self, problem: Problem) -> LinearModel:
        return hyperprior_model(self.prior_for(problem), problem)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return SmallestBound(problem, model, self)


class SmallestBound(PriorChoice):
    """The prior of the smallest bound, and the rewards of each prior in its own rounds."""

    def __init__(self, problem: Problem, model: LinearModel, policy: PriorBalancing) -> None:
        prior, blocks = policy.prior_for(problem), model.offer.blocks
        super().__init__(problem, model, policy.ties, prior, policy.sizes, policy.delta)
        self.ellipsoids = []
        for m, (dim, size) in enumerate(self.pairs):
            parameters, ridge = dim * blocks, prior.ridges[m % len(prior.ridges)]
            norm = size * math.sqrt(parameters)
            self.ellipsoids.append(Ellipsoid(parameters, prior.noise, norm, ridge, policy.delta))
        self.earned = np.zeros_like(self.halves)
        self.longest = np.zeros(len(problem))  # norm of an arm offered so far

    def scores(self, posteriors: Posteriors, offered: FloatArray, rows: Replications) -> FloatArray:
        lengths = np.sqrt(np.vecdot(offered, offered).reshape(len(offered), -1).max(axis=1))
        self.longest[rows.ids] = np.maximum(self.longest[rows.ids], lengths)
        prior = np.where(self.active[rows.ids], self.bounds(rows), np.inf).argmin(axis=1)
        plays = np.arange(self.count) == prior[:, None]
        return np.where(plays[:, :, None], self.optimistic(posteriors, offered, rows), -np.inf)

    def bounds(self, rows: Replications) -> FloatArray:
        """R_m(n_m + 1) of each prior, (n, M)."""
        n, longest = self.rounds[rows.ids] + 1.0, self.longest[rows.ids]
        each = zip(self.ellipsoids, n.T, strict=True)
        return np.stack([one.bound(plays, plays, longest, one.spread(longest)) for one, plays in each], axis=1)

    def judge(self, rewards: FloatArray, predicted: FloatArray, prior: IntArray, rows: Replications) -> None:
        self.earned[rows.ids, prior] += rewards
        rows = rows.pick(np.flatnonzero((self.rounds[rows.ids] > 0).all(axis=1)))
        lower, upper = self.limits(rows)
        upper = np.where(self.active[rows.ids], upper, -np.inf)
        stays = upper >= lower.max(axis=1)[:, None]
        stays[np.arange(len(rows)), upper.argmax(axis=1)] = True
        self.active[rows.ids] &= stays

    def limits(self, rows: Replications) -> tuple[FloatArray, FloatArray]:
        """What the mean reward of each prior's rounds surely is, and what their best arms' could be, (n, M)."""
        n = self.rounds[rows.ids]
        mean, radius = self.earned[rows.ids] / n, np.sqrt(self.noise_term(rows) / n)
        return mean - radius, mean + self.halves[rows.ids] / n + radius
