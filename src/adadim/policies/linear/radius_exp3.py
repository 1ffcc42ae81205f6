"""AdaLinUCB: optimism with a radius that exponential weights choose by its rewards (Jin et al. 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import TINY, Array, as_numpy, at_each, clamp, like, namespace, zeros
from adadim.core.checks import between
from adadim.core.problem import Problem
from adadim.core.randomness import Draws, Streams
from adadim.core.rows import Replications
from adadim.core.ties import sampled
from adadim.models.linear import LinearModel
from adadim.models.offers import Memo
from adadim.models.priors import RidgePrior
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.linucb import checked_dim
from adadim.policies.linear.radius_mixture import DrawnRadius, ladder_weights, learned_count
from adadim.policies.linear.rules import Rule
from adadim.policies.parameters import Dim, LossRange, Ridge, Ties, loss
from adadim.policies.player import Choice

NO_RADIUS = -1  # of a round that says nothing of the radii: the first coin, or an arm that others chose


@dataclass(frozen=True)
class RadiusExp3(LinearPolicy):
    """Draw the radius of an optimist from the ladder of `RadiusMixture`, by weights that learn which radius earns most.

    Use it in place of `RadiusMixture` over many thousand rounds, where a poor radius costs so much that rewards tell,
    and a log with known probabilities is wanted. It learns slowly, by single noisy rewards; a tuned radius has less
    regret (`LinUCB` with the factor 0.35).

    Parameters
    ----------
    weights : {"theory", "uniform"}
        Weights of the radii beforehand: halved from each to the next wider one, or all the same.
    explore : float
        q_0: share of rounds with the widest radius, from which the weights do not learn. All released runs have 0.
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0; the released code has (-2, 2).
    released : bool
        Leave the scale of the noise out of the radii, as the released code does, which has noise of about 1.
    ridge : float
        Regularisation lambda of the least squares.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    With probability q_0 the widest radius is used. Otherwise one of the n radii is drawn, i with probability

        p_i ~ weight_i exp(eta S_i),   eta = 2 sqrt(ln n / (t n)),

    t the number of answered rounds, at least 1; its arm is pulled, and once the loss is known S_i falls by loss / p_i
    with the p_i of the decision. All radii share one ridge estimate, which pulls that it did not decide teach too. The
    probability of an arm is the sum over the radii for which its mean plus radius times width is the largest.

    Jin, Jang and Cesa-Bianchi (2024, "Sparsity-agnostic linear bandits with adaptive adversaries") announce
    O~(max(sqrt(d q_0), sqrt(S_0 / q_0)) sqrt(d T)) for confidence sets by online regression with S_0 coefficients that
    are not 0. It says nothing for q_0 = 0, the default here and in their experiments.

    For the ridge, which the released code has and this, and q_0 > 0: let the widest radius reach b_t, as in
    `RadiusMixture`, from round t_0 on, and let beta be this radius at T. Then whatever the weights do the expected
    regret is at most

        sqrt(T Gamma / ln 2) [max(D, 2 beta) + max(D, beta) / q_0] + D (t_0 + delta T),

    since every radius loses at most beta w(x_o) + 2 beta w(x) where it pulls x, and x_o, the arm of the widest radius,
    is pulled with probability q_0 at least. It needs what `RadiusMixture` needs, rewards at once among it.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> instance = adadim.instances.sphere(arms=30, dim=4, intrinsic_dim=4, horizon=500, noise=0.5)
    >>> learner = adadim.simulate(adadim.RadiusExp3(loss_range=(-1, 1)), instance).learner
    >>> learner.describe()[0]["radii"], len(learner.describe()[0]["radius_probabilities"])
    ([0.0, 1.246, 1.763, 2.493], 4)
    """

    weights: Literal["theory", "uniform"] = "theory"
    explore: Annotated[float, partial(between, low=0, high=1)] = 0.0
    loss_range: LossRange = (-2.0, 2.0)
    released: bool = False
    ridge: Ridge = 1.0
    dim: Dim | None = None
    ties: Ties = "random"

    def model_for(self, problem: Problem) -> LinearModel:
        return LinearModel(problem, RidgePrior(self.ridge), dim=checked_dim(self.dim, problem))

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return LearnedRadius(problem, model, self)


class LearnedRadius(DrawnRadius):
    """A radius drawn by exponential weights, and the arm that is largest for it."""

    remembers = True

    def __init__(self, problem: Problem, model: LinearModel, policy: RadiusExp3) -> None:
        weights = ladder_weights(policy.weights, learned_count(model))
        super().__init__(problem, model, policy.ties, policy.released, weights)
        self.policy = policy
        self.logs = like(np.log(weights), model.reference)
        self.earned = zeros(model.reference, len(problem), len(weights))  # S

    def radius_probabilities(self, rows: Replications) -> Array:
        """p of every radius, (n, radii), without the rounds of the widest one."""
        earned, count = rows.of(self.earned), len(self.weights)
        xp = namespace(earned)
        answered = clamp(xp.astype(rows.of(self.model.pulls), xp.float64), 1.0)
        logs = self.logs + 2.0 * xp.sqrt(math.log(count) / (count * answered))[:, None] * earned
        weights = xp.exp(logs - xp.max(logs, axis=-1)[:, None])
        return weights / xp.sum(weights, axis=-1)[:, None]

    def joint(self, rows: Replications) -> tuple[Array, Array]:
        """Probability of every radius and then the coin's, with every arm, (n, radii + 1, K); and p (n, radii)."""
        p, explore, shares = self.radius_probabilities(rows), self.policy.explore, self.shares(rows)
        ways = [(1.0 - explore) * p[:, i : i + 1] * share for i, share in enumerate(shares)]
        return namespace(p).stack([*ways, explore * shares[-1]], axis=1), p

    def probabilities(self, rows: Replications) -> Array:
        joint, _ = self.joint(rows)
        return namespace(joint).sum(joint, axis=1)

    def choose(self, rows: Replications, draws: Draws) -> Choice:
        joint, p = self.joint(rows)
        xp, arms = namespace(p), joint.shape[-1]
        drawn = sampled(joint.reshape(len(p), -1), draws.uniforms(rows))  # radius and arm by one number
        learns = drawn < len(self.weights) * arms
        radius = xp.where(learns, drawn // arms, 0 * drawn)
        noted = {"radius": xp.where(learns, radius, 0 * radius + NO_RADIUS), "share": at_each(p, radius)}
        return Choice(drawn % arms, noted, None, lambda: xp.sum(joint, axis=1))

    def learn(self, rewards: Array, rows: Replications, memo: Memo) -> None:
        if "radius" not in memo:  # a pull that it did not choose
            return
        radius, share = memo["radius"], memo["share"]
        xp = namespace(radius)
        learns = radius != NO_RADIUS
        lost = xp.where(learns, loss(rewards, self.policy.loss_range) / clamp(share, TINY), 0.0 * share)
        rows.add(self.earned, xp.where(learns, radius, 0 * radius), -lost)

    def memo_of_other(self, memo: Memo) -> Memo:
        return {**memo, "radius": 0 * memo["radius"] + NO_RADIUS}

    def describe(self, r: int) -> dict[str, Any]:
        one = self.everyone.pick(like([r], self.model.reference))
        answered = max(1, int(self.model.pulls[r]))
        radii = [self.factor * math.sqrt(alpha * math.log(answered)) for alpha in self.alpha]
        shown = as_numpy(self.radius_probabilities(one))[0]
        return {"radii": [round(one, 3) for one in radii], "radius_probabilities": shown.round(3).tolist()}
