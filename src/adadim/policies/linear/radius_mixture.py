"""SparseLinUCB: optimism with a radius drawn from a ladder that begins at greedy (Jin, Jang and Cesa-Bianchi 2024)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from adadim.core.arrays import Array, clamp, namespace
from adadim.core.checks import integer
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.ties import tie_probabilities
from adadim.errors import InvalidValueError
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.linucb import checked_dim
from adadim.policies.linear.rules import ProbabilityRule, Rule
from adadim.policies.parameters import Dim, Ridge, Ties


@dataclass(frozen=True)
class RadiusMixture(LinearPolicy):
    """Draw the radius of an optimist from a ladder between greedy and a whole confidence set, in every round anew.

    Use it where the right radius is not known and a log is wanted that can judge other policies: the probability of
    every arm is known. A tuned radius has less regret (`LinUCB` with the factor 0.35).

    Parameters
    ----------
    weights : {"theory", "uniform"}
        Probabilities of the radii: halved from each to the next wider one, or all the same.
    sparsity : int, optional
        The number of coefficients that are not 0, where it is known: the radius is then always that of this number.
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
    With d parameters the ladder has ceil(log2 d) + 2 radii sigma sqrt(alpha_i ln t), alpha = 0, 1, 2, 4, ...; t is
    the number of answered rounds, at least 1: the first two rounds are greedy. All radii share one ridge estimate. An
    arm is pulled with the summed probability q_i of the radii for which its mean plus radius times width is the
    largest. A `sparsity` of S_0 uses the radius ceil(log2 S_0) + 1 alone.

    The source has confidence sets by online regression for sparse theta; its released code, which this follows, uses
    the ridge. For that, let beta_i be radius i at T and o the narrowest radius that reaches b_t, the root of sigma^2
    (gamma_t + 2 ln(1 / delta)) + lambda S^2 with gamma_t = ln det(V / lambda), from round t_0 on. If there is one, the
    expected regret is at most, where means of a round differ by at most D and gamma_T <= Gamma,

        sqrt(T Gamma / ln 2) [max(D, 2 beta_o) + max(D, beta_o) / q_o + 2 sum_{i >= o} max(D / 2, beta_i) sqrt(q_i)]
            + D (t_0 + delta T).

    Radii from o on are optimistic and lose at most 2 beta_i w. A narrower one pulls x with w(x) and loses at most
    beta_o w(x_o) + 2 beta_o w(x), where x_o, the arm of radius o, is pulled with probability q_o at least. It needs
    rewards linear in the features, |theta| <= S, sub-Gaussian noise of known scale, and rewards that come at once.
    Jin, Jang and Cesa-Bianchi (2024, "Sparsity-agnostic linear bandits with adaptive adversaries") announce
    O~(S_0 sqrt(d T)) for theirs.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.RadiusMixture().start(adadim.Problem(np.eye(3), horizon=90, noise=0.5))
    >>> learner.learn([0] * 10 + [1, 2], [0.6] * 10 + [0.5, 0.1])
    >>> learner.choose(learner.everyone).probabilities.round(3)
    array([[0.533, 0.467, 0.   ]])
    """

    weights: Literal["theory", "uniform"] = "theory"
    sparsity: Annotated[int, partial(integer, meaning="how many coefficients are not 0")] | None = None
    released: bool = False
    ridge: Ridge = 1.0
    dim: Dim | None = None
    ties: Ties = "random"

    def model_for(self, problem: Problem) -> LinearModel:
        return LinearModel(problem, RidgePrior(self.ridge), dim=checked_dim(self.dim, problem))

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return DrawnRadius(problem, model, self.ties, self.released, radius_weights(self, learned_count(model)))


def learned_count(model: LinearModel) -> int:
    """Number of parameters that a model learns."""
    return model.columns * model.offer.blocks


def ladder(parameters: int) -> list[float]:
    """alpha: 0, 1, 2, 4, ... up to the first power of 2 that is not below the number of parameters."""
    return [0.0, *(2.0**i for i in range(math.ceil(math.log2(parameters)) + 1))]


def ladder_weights(kind: Literal["theory", "uniform"], parameters: int) -> list[float]:
    """Weights of the radii of the ladder, which sum to 1: halved from each to the next, or all the same."""
    weights = [1.0 if kind == "uniform" else 2.0**-i for i in range(len(ladder(parameters)))]
    return [weight / sum(weights) for weight in weights]


def radius_weights(policy: RadiusMixture, parameters: int) -> list[float]:
    """Probability of each radius of the ladder."""
    if policy.sparsity is None:
        return ladder_weights(policy.weights, parameters)
    if policy.sparsity > parameters:
        raise InvalidValueError(
            f"sparsity must be at most {parameters}, the number of parameters, got {policy.sparsity}"
        )
    at = math.ceil(math.log2(policy.sparsity)) + 1
    return [float(i == at) for i in range(len(ladder(parameters)))]


class DrawnRadius(ProbabilityRule):
    """Probabilities of the arms that are largest for each radius of a ladder."""

    counts_pending = False

    def __init__(
        self, problem: Problem, model: LinearModel, ties: Ties, released: bool, weights: Sequence[float]
    ) -> None:
        super().__init__(problem, model, ties)
        self.alpha, self.weights = ladder(learned_count(model)), list(weights)
        self.factor = 1.0 if released else problem.noise

    def indices(self, rows: Replications) -> list[Array]:
        """Mean plus radius times width of every arm, (n, K), for each radius."""
        mean, width2 = self.model.predict(rows)
        xp = namespace(mean)
        answered = clamp(xp.astype(rows.of(self.model.pulls), xp.float64), 1.0)
        unit = self.factor * xp.sqrt(clamp(width2, 0.0)) * xp.sqrt(xp.log(answered))[:, None]
        return [mean + math.sqrt(alpha) * unit for alpha in self.alpha]

    def shares(self, rows: Replications) -> list[Array]:
        """For each radius the probability of every arm, (n, K): 1 where its index is largest, less if some tie."""
        return [tie_probabilities(rows.apply_costs_and_mask(index), self.ties) for index in self.indices(rows)]

    def probabilities(self, rows: Replications) -> Array:
        return sum(weight * share for weight, share in zip(self.weights, self.shares(rows), strict=True))
