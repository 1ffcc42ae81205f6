"""Information-directed sampling (Russo and Van Roy 2018; Kirschner and Krause 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
from scipy.special import log_ndtr

from adadim.core.arrays import Array, FloatArray
from adadim.core.checks import integer
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.ties import tie_probabilities
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.confidence import root_radius
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.linucb import checked_dim
from adadim.policies.linear.rules import ProbabilityRule, Rule
from adadim.policies.parameters import Delta, Dim, Ridge, ThetaNorm

CERTAIN = 38.0  # standard deviations beyond which the density of a normal is 0


@dataclass(frozen=True)
class IDS(LinearPolicy):
    """Draw the arm from the distribution, over two arms at most, of the least squared regret per information.

    Use it where an arm that earns little says much about the others, which optimism and Thompson sampling do not pull
    (`adadim.instances.informative`), and noise and the size of theta are known. Elsewhere it is near `LinTS`, and a
    decision costs `draws` parameters in the place of one.

    Parameters
    ----------
    variant : {"bayes", "frequentist"}
        Regret and information by draws from the posterior, or by a confidence set.
    draws : int
        Parameters drawn in a round; where two arms are offered there is a formula, and none are drawn.
    ridge : float
        Regularisation lambda of the least squares; "bayes" has the prior N(0, sigma^2 / lambda I) for theta.
    delta : float
        Confidence of the set of "frequentist".
    theta_norm : float
        Bound on the norm of theta, where the radius has one.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.

    Notes
    -----
    With f_k(a) the mean of arm a by draw k, p_b the share of the draws for which b is best and f(a | b) the mean of
    f_k(a) over these,

        Delta(a) = mean_k max_b f_k(b) - mean_k f_k(a),   v(a) = sum_b p_b (f(a | b) - mean_k f_k(a))^2,

    and the arm is drawn from the distribution that minimises (sum_a q_a Delta(a))^2 / sum_a q_a v(a), which has two
    arms at most. For two arms Delta and v are those of the posterior itself. "frequentist" has Delta(a) = max_b UCB(b)
    - LCB(a) and ln(1 + w(a)^2) in the place of v, with the radius "oful" of `LinUCB` at confidence `delta`.

    A pull counts in the widths before its reward is known: what is on its way is not bought again. Probabilities are
    those given the draws of the round; arms other than the two have 0, so that a log of it says nothing of them.

    Russo and Van Roy (2018, "Learning to optimize via information-directed sampling") bound the Bayesian regret of
    "bayes" by sqrt(G T H), H the entropy of the best arm beforehand and G the mean of the smallest ratio, of order d
    at most; constants unverified here. Where sets change from round to round it invests nothing in sets to come.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.IDS().start(adadim.Problem(np.eye(2), horizon=90, noise=0.5))
    >>> learner.learn([0] * 20 + [1], [0.6] * 20 + [0.2])
    >>> learner.choose(learner.everyone).probabilities.round(3)  # arm 1 seems worse, and less is known of it
    array([[0.876, 0.124]])
    """

    variant: Literal["bayes", "frequentist"] = "bayes"
    draws: Annotated[int, partial(integer, meaning="how many parameters are drawn in a round")] = 200
    ridge: Ridge = 0.1
    delta: Delta = 0.01
    theta_norm: ThetaNorm = 1.0
    dim: Dim | None = None

    def model_for(self, problem: Problem) -> LinearModel:
        dim = checked_dim(self.dim, problem)
        return LinearModel(problem, RidgePrior(self.ridge), dim=dim, samples=True, on_host=True)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return InformationDirected(problem, model, self, streams)


class InformationDirected(ProbabilityRule):
    """Probabilities of two arms at most, by the regret and the information of all."""

    def __init__(self, problem: Problem, model: LinearModel, policy: IDS, streams: Streams) -> None:
        super().__init__(problem, model, "lowest")
        self.policy, self.noise, self.normals = policy, problem.noise, streams.child(0)

    def probabilities(self, rows: Replications) -> Array:
        return np.array([self._of_one(rows.pick(np.array([position]))) for position in range(len(rows))])

    def _of_one(self, one: Replications) -> FloatArray:
        offered = None if self.problem.disjoint else one.features
        count = self.problem.arms if offered is None else offered.shape[1]
        allowed = np.arange(count) if one.allowed is None else np.flatnonzero(one.allowed[0])
        if self.policy.variant == "frequentist":
            regret, information = self.by_confidence(*self.model.predict(one), one)
        elif len(allowed) == 2:
            mean, width2 = self.model.predict(one)
            regret, information = self.of_two(mean[0], width2[0], allowed, one)
        else:
            regret, information = regret_and_information(self.means(one), one)
        first, second, share = best_pair(regret[allowed], information[allowed])
        probabilities = np.zeros(count)
        probabilities[allowed[second]] = 1.0 - share
        probabilities[allowed[first]] += share
        return probabilities

    def by_confidence(self, mean: Array, width2: Array, one: Replications) -> tuple[FloatArray, FloatArray]:
        """Regret and information of every arm, (K,), by confidence bounds."""
        policy, logdet = self.policy, one.of(self.model.logdet)[:, None]
        half = root_radius(self.noise, policy.ridge, policy.theta_norm, policy.delta, logdet) * np.sqrt(width2)
        top = one.apply_costs_and_mask(mean + half).max()
        lower = mean - half if one.costs is None else mean - half - one.costs
        return (top - lower)[0], np.log1p(width2[0])

    def of_two(
        self, mean: FloatArray, width2: FloatArray, pair: Array, one: Replications
    ) -> tuple[FloatArray, FloatArray]:
        """Regret and information of the arms, (K,), where only a pair is allowed."""
        net = mean if one.costs is None else mean - one.costs
        apart = self.model.contrasts(pair[:1], one)[1][0, pair[1]]
        found = exact_pair(net[pair], self.noise**2 * width2[pair], self.noise**2 * float(apart))
        regret, information = np.zeros((2, len(mean)))
        regret[pair], information[pair] = found
        return regret, information

    def means(self, one: Replications) -> FloatArray:
        """Means (draws, K) of the arms offered to one replication by parameters drawn from its posterior."""
        model, offer = self.model, self.model.offer
        generator = self.normals.generators[int(one.ids[0])]
        normals = generator.standard_normal((offer.blocks, self.policy.draws, model.columns))
        theta = model.sample(self.noise * normals, one)
        inputs = model.offered_inputs(one)[0]
        return np.asarray((theta @ inputs).T if self.problem.disjoint else theta[0] @ inputs.T)

    def resume(self, decided: int, streams: Streams) -> None:
        super().resume(decided, streams)
        self.normals = streams.child(0)


def regret_and_information(means: FloatArray, one: Replications) -> tuple[FloatArray, FloatArray]:
    """Delta and v of every arm, (K,), by means (draws, K) of which costs come off; arms not allowed are never best."""
    values = one.apply_costs_and_mask(means)
    regret = (values.max(axis=1)[:, None] - values).mean(axis=0)  # exactly 0 for an arm that all draws prefer
    shares = tie_probabilities(values, "random")
    wins = shares.sum(axis=0)
    best = np.flatnonzero(wins)
    given = shares[:, best].T @ means / wins[best, None]
    return regret, wins[best] / len(means) @ (given - means.mean(axis=0)) ** 2


def exact_pair(mean: FloatArray, variance: FloatArray, apart: float) -> tuple[FloatArray, FloatArray]:
    """Delta and v of two arms with jointly Gaussian means of these expectations and variances.

    `apart` is the variance of their difference.

    Examples
    --------
    >>> regret, information = exact_pair(np.array([0.3, 0.1]), np.array([0.5, 0.8]), apart=0.5 + 0.8 - 2 * 0.1)
    >>> regret.round(4), information.round(4)
    (array([0.326, 0.526]), array([0.0914, 0.2799]))
    """
    gap = float(mean[0] - mean[1])
    if abs(gap) >= CERTAIN * math.sqrt(max(apart, 0.0)):
        return np.array([max(-gap, 0.0), max(gap, 0.0)]), np.zeros(2)
    deviation = math.sqrt(apart)
    z = gap / deviation
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    tails = np.exp(log_ndtr([-z, z]))
    regret = deviation * (density + np.array([-z, z]) * tails)
    between = np.array([variance[0] - variance[1] + apart, variance[0] - variance[1] - apart]) / (2 * deviation)
    squared = np.exp(-z * z - log_ndtr([z, -z])).sum() / (2 * math.pi)  # of the normal's density over both tails
    return np.maximum(regret, 0.0), between**2 * squared


def best_pair(regret: FloatArray, information: FloatArray) -> tuple[int, int, float]:
    """Arms i and j and the probability q of i that minimise (q D_i + (1-q) D_j)^2 / (q v_i + (1-q) v_j).

    0/0 counts as 0 and x/0 as infinite; if all are infinite, the arm of the least regret. Equal ones: the first.

    Examples
    --------
    >>> best_pair(np.array([0.1, 1.0, 0.12]), np.array([0.001, 0.4, 0.0011]))
    (0, 1, 0.893901...)
    """
    order = np.lexsort((np.arange(len(regret)), -information, regret))
    highest = np.maximum.accumulate(information[order])
    kept = order[np.concatenate([[True], information[order[1:]] > highest[:-1]])]  # more regret, more information
    d, v = regret[kept], information[kept]
    if d[0] <= 0:
        return int(kept[0]), int(kept[0]), 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alone = np.where(v > 0, d * (d / v), math.inf)
        i, j = np.triu_indices(len(kept), 1)
        less, fewer = d[i] - d[j], v[i] - v[j]
        share = d[j] / less - 2 * v[j] / fewer
        regrets, informations = share * d[i] + (1 - share) * d[j], share * v[i] + (1 - share) * v[j]
        mixed = np.where((share > 0) & (share < 1) & (informations > 0), regrets * (regrets / informations), math.inf)
    single = int(alone.argmin())
    if len(mixed) and mixed.min() < alone[single]:
        pair = int(mixed.argmin())
        return int(kept[i[pair]]), int(kept[j[pair]]), float(share[pair])
    return int(kept[single]), int(kept[single]), 1.0
