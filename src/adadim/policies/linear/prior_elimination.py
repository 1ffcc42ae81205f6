"""Several priors of which those that mispredict are dropped (PE-GP-TS, HE-GP-UCB)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.models.hyperprior import HyperPrior, Posteriors
from adadim.models.linear import LinearModel
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.prior_choice import PriorChoice
from adadim.policies.linear.prior_thompson import PositiveNumbers, hyperprior, hyperprior_model
from adadim.policies.linear.round_learner import ClassDims
from adadim.policies.linear.rules import Rule
from adadim.policies.parameters import Delta, Ties


@dataclass(frozen=True)
class PriorElimination(LinearPolicy):
    """Play the most promising of several priors in each round, and drop it once its predictions are off.

    Use it where one of a few priors is right, it is not known which, and no weights of them are believed. It plays the
    most optimistic prior until the data refute it, which takes long where that prior is merely too wide, as those of
    all features are: with ordered features `PriorThompson` loses a fraction of that.

    Parameters
    ----------
    dims, sizes
        The priors, as in `PriorThompson`.
    rule : {"thompson", "optimism"}
        How a prior promises: the best mean by a parameter drawn from its posterior (the source's PE-GP-TS), or the
        largest upper end of its credible intervals (HE-GP-UCB).
    delta : float
        How likely a right prior is dropped, up to a factor of 3.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Prior m has the posterior N(theta_hat_m, sigma^2 V_m^-1), with V_m as in `PriorThompson`, and w_m(a) = ||a|| in the
    norm of V_m^-1. With M priors and K arms let, in round t,

        beta_t = sqrt(2 ln(K M pi^2 t^2 / (6 delta))),   xi_t = 2 sigma^2 ln(M pi^2 t^2 / (6 delta)).

    The round is played by the prior and the arm whose score is the largest of all, the score being <a, theta~_m> with
    theta~_m from the posterior of m, or <a, theta_hat_m> + beta_t sigma w_m(a). Its prediction, made before the reward
    y, is charged to that prior alone: m is dropped after its n-th round if

        |sum (y - <a, theta_hat_m>)| > sqrt(n xi_t) + sum beta sigma w_m(a),

    sums over its rounds. The last prior stays. All priors learn from all rewards; a late reward is charged to the prior
    that was played, with the prediction of that time.

    If theta is drawn from one of the priors and the noise is Gaussian, that prior is dropped with probability at most
    3 delta: the noise of its n rewards exceeds sqrt(n xi_n) with probability 12 delta / (M pi^2 n^2) at most, and a
    mean leaves its credible interval with probability 6 delta / (M pi^2 t^2). Ziomek, Adachi and Osborne, and Sandberg
    and Haghir Chehreghani (2025) for Thompson sampling, announce regret bounds; the constants of their tests could not
    be compared, and these are unverified here.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=8, intrinsic_dim=4, horizon=300)
    >>> outcome = adadim.simulate(adadim.PriorElimination(dims=(1, 8)), instance)
    >>> outcome.learner.describe()[0]["active_priors"]  # features and size of the priors that are still in
    [[8, 0.5]]
    """

    dims: ClassDims | None = None
    sizes: PositiveNumbers = (0.5,)
    rule: Literal["thompson", "optimism"] = "thompson"
    delta: Delta = 0.05
    ties: Ties = "random"

    def prior_for(self, problem: Problem) -> HyperPrior:
        """Its priors on a problem."""
        return hyperprior(self.dims, self.sizes, None, problem)

    def model_for(self, problem: Problem) -> LinearModel:
        return hyperprior_model(self.prior_for(problem), problem)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return MostPromising(problem, model, self, streams)


class MostPromising(PriorChoice):
    """The prior and the arm whose score is the largest of all; residuals of each prior in its own rounds."""

    def __init__(self, problem: Problem, model: LinearModel, policy: PriorElimination, streams: Streams) -> None:
        prior = policy.prior_for(problem)
        super().__init__(problem, model, policy.ties, prior, policy.sizes, policy.delta)
        self.optimism, self.normals = policy.rule == "optimism", streams.child(0)
        self.residuals = np.zeros_like(self.halves)

    def scores(self, posteriors: Posteriors, offered: FloatArray, rows: Replications) -> FloatArray:
        scores = self.optimistic(posteriors, offered, rows) if self.optimism else self._drawn(posteriors, rows)
        return np.where(self.active[rows.ids][:, :, None], scores, -np.inf)

    def _drawn(self, posteriors: Posteriors, rows: Replications) -> FloatArray:
        """Means (n, M, K) by a parameter drawn from each posterior, less costs, -inf for arms not allowed."""
        model, ids = self.model, rows.ids.tolist()
        shape = self.count, model.offer.blocks, model.dim
        normals = np.array([self.normals.generators[r].standard_normal(shape) for r in ids])
        theta = posteriors.draw(np.tile(np.arange(self.count), (len(ids), 1)), self.prior.noise * normals)
        means = [model.means_by(theta[:, m].reshape(-1, model.dim), rows) for m in range(self.count)]
        return self.comparable(np.stack(means, axis=1), rows)

    def judge(self, rewards: FloatArray, predicted: FloatArray, prior: IntArray, rows: Replications) -> None:
        ids = rows.ids
        self.residuals[ids, prior] += rewards - predicted
        slack = np.sqrt(self.rounds[ids, prior] * self.noise_term(rows)[:, 0]) + self.halves[ids, prior]
        wrong = (np.abs(self.residuals[ids, prior]) > slack) & (self.active[ids].sum(axis=1) > 1)
        self.active[ids[wrong], prior[wrong]] = False
