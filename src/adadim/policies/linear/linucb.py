"""Policies that are one rule over one linear model, in all features or the first few.

LinUCB is optimism with ridge regression (Chu et al. 2011). Three policies differ from it in one thing: the radius
(`Greedy`), the prior (`TaperedLinUCB`), or the score of an arm (`RegretBalancingLinear`, Abbasi-Yadkori, Pacchiano and
Phan 2020). `LinTS` is Thompson sampling (Agrawal and Goyal 2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.checks import between, integer, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.models.likelihoods import likelihood_of
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.rules import Confidence, Optimism, Rule, Thompson, regret_score
from adadim.policies.parameters import (
    Bonus,
    Dim,
    Form,
    LikelihoodName,
    MemorySetting,
    Radius,
    RadiusScale,
    Ridge,
    Taper,
    ThetaNorm,
    Ties,
)


@dataclass(frozen=True)
class LinUCB(LinearPolicy):
    """Pull the arm with the largest estimated mean plus confidence width.

    Use it when you know how many features matter (`dim`), or when d is small against the horizon. Prefer a
    policy that adapts when d is large and you do not know: in too few features LinUCB is biased for ever, in all of
    them it pays for each.

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares.
    bonus : {"norm", "squared"}
        Width sqrt(a^T V^-1 a) as in the theory, or its square, as in the authors' released code.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    radius : {"noise", "full", "paper", "oful", "oful-2011"} or float
        Multiplier of the width. "noise": sigma sqrt(2 ln(2 T^1.5 K)). "full": that plus sqrt(ridge) times `theta_norm`,
        the bound for a fixed design. "paper": the constants of the paper's corollary, which assume ridge 1 and unit
        noise. "oful": sqrt(sigma^2 (ln det(V/ridge) + 2 ln sqrt(T)) + ridge theta_norm^2), valid for adaptive designs.
        "oful-2011": that bound as published, the sum of the roots of both terms, which is up to 1.41 times as large. On
        a problem without end (``horizon=None``) the number t of the round takes the place of T, so that the radius
        grows.
    scale : float
        Factor on the radius.
    theta_norm : float
        Bound on the norm of theta, where the radius has one.
    only_supported : bool
        On an expressive set with `dim` < d: use only the arms that are zero after the first `dim` features, for which
        the model is still linear, instead of all arms that differ in those.
    form : {"auto", "gram", "feature"}
        How the posterior is held; the choices are the same.
    ties : {"random", "lowest"}
        How equal scores are resolved.
    memory : float or "auto", optional
        Half-life in decisions, for rewards that drift: what a decision taught counts half after so many further ones.
        With "auto" it is found by the data: of several, for ever among them, the longest that predicts the rewards
        about as well as the best. The weights are exact, a decision costs a factorisation (d^3 / 3), and no theorem of
        the library covers a learner that forgets. By default it forgets nothing.
    likelihood : {"gaussian", "bernoulli"}
        What a reward is. "bernoulli": a click, 0 or 1 (or a share in [0, 1]), whose logit is linear in the features,
        with a constant; scores are then logits, noise need not be known, and costs of arms are in units of probability.
        See docs/clicks.md.

    Notes
    -----
    LinUCB itself has no sqrt(dT) proof, since its data depend on its choices; `SupLinUCB` has one, and
    ``radius="oful"`` gives O~(d sqrt(T)) for rewards linear in the features used, norms of at most 1 and
    sub-Gaussian noise.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=100, dim=20, intrinsic_dim=3, horizon=300, replications=range(4))
    >>> ambient = adadim.simulate(adadim.LinUCB(), instance)
    >>> oracle = adadim.simulate(adadim.LinUCB(dim=3), instance)
    >>> bool(oracle.final.mean() < ambient.final.mean())
    True
    """

    ridge: Ridge = 0.1
    bonus: Bonus = "norm"
    dim: Dim | None = None
    radius: Radius = "noise"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    only_supported: bool = False
    form: Form = "auto"
    ties: Ties = "random"
    memory: MemorySetting | None = None
    likelihood: LikelihoodName = "gaussian"

    @property
    def confidence(self) -> Confidence:
        """How wide it believes its estimates to be."""
        return Confidence(self.bonus, self.radius, self.scale, self.ridge, self.theta_norm)

    def model_for(self, problem: Problem) -> LinearModel:
        dim = checked_dim(self.dim, problem)
        prior = prior_for(self.ridge, self.likelihood)
        shared: dict[str, Any] = {"memory": self.memory, "likelihood": self.likelihood}
        return LinearModel(problem, prior, dim=dim, form=self.form, supported=self.only_supported, **shared)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return Optimism(problem, model, self.ties, self.confidence)


def prior_for(ridge: float, likelihood: str, taper: float = 0.0) -> RidgePrior:
    """The ridge lambda j^taper, behind a constant where the likelihood has one."""
    return RidgePrior(ridge, taper, constant=likelihood_of(likelihood).expands)


def checked_dim(dim: int | None, problem: Problem) -> int:
    """Number of features to learn in: as given, or all."""
    return problem.dim if dim is None else integer(dim, "dim", most=problem.dim, meaning="the number of features")


@dataclass(frozen=True)
class Greedy(LinearPolicy):
    """Pull the arm with the largest ridge estimate (`LinUCB` with radius 0).

    A baseline: cheap, often good when arms are diverse, and stuck for ever on an early mistake otherwise (no
    sublinear guarantee).

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    ties : {"random", "lowest"}
        How equal scores are resolved.
    memory : float or "auto", optional
        Half-life in decisions, for rewards that drift: what a decision taught counts half after so many further ones.
        With "auto" it is found by the data: of several, for ever among them, the longest that predicts the rewards
        about as well as the best. The weights are exact, a decision costs a factorisation (d^3 / 3), and no theorem of
        the library covers a learner that forgets. By default it forgets nothing.
    likelihood : {"gaussian", "bernoulli"}
        What a reward is. "bernoulli": a click, 0 or 1 (or a share in [0, 1]), whose logit is linear in the features,
        with a constant; scores are then logits, noise need not be known, and costs of arms are in units of probability.
        See docs/clicks.md.

    Notes
    -----
    Nothing is proved of it: where arms are few or alike its regret can grow like T.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.Greedy(ties="lowest").start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    >>> learner.select()
    0
    """

    ridge: Ridge = 0.1
    dim: Dim | None = None
    ties: Ties = "random"
    memory: MemorySetting | None = None
    likelihood: LikelihoodName = "gaussian"

    def model_for(self, problem: Problem) -> LinearModel:
        dim, prior = checked_dim(self.dim, problem), prior_for(self.ridge, self.likelihood)
        return LinearModel(problem, prior, dim=dim, memory=self.memory, likelihood=self.likelihood)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return Optimism(problem, model, self.ties, Confidence(radius=0.0))


@dataclass(frozen=True)
class TaperedLinUCB(LinearPolicy):
    """Learn in all features at once, with a ridge that grows with the index: lambda_j = ridge * j^taper.

    A soft truncation: feature j is shrunk harder the later it comes, so late features cost little until the data speak
    for them, and nothing is thrown away. It needs no schedule, no restarts and no mixture-arms. Use it when features
    are ordered by importance, d* is unknown and a guarantee is wanted; `EvidenceLinUCB`, which learns the ridge, has
    less regret. When late features matter as much as early ones, plain `LinUCB` is the better prior.

    Parameters
    ----------
    taper : float
        Exponent s of the ridge. 0 is `LinUCB`; larger values favour small d*.
    ridge : float
        Ridge of the first feature.
    size : float, optional
        Size tau of a leading coefficient of theta. If given, the ridge is (noise / tau)^2 instead of `ridge`, the
        prior in units of the noise, so that one setting serves quiet and noisy rewards.
    bonus : {"norm", "squared"}
        Width sqrt(a^T V^-1 a) as in the theory, or its square, as in the authors' released code.
    radius : {"noise", "full", "paper", "oful", "oful-2011"} or float
        Multiplier of the width. "noise": sigma sqrt(2 ln(2 T^1.5 K)). "full": that plus sqrt(ridge) times `theta_norm`,
        the bound for a fixed design. "paper": the constants of the paper's corollary, which assume ridge 1 and unit
        noise. "oful": sqrt(sigma^2 (ln det(V/ridge) + 2 ln sqrt(T)) + ridge theta_norm^2), valid for adaptive designs.
        "oful-2011": that bound as published, the sum of the roots of both terms, which is up to 1.41 times as large. On
        a problem without end (``horizon=None``) the number t of the round takes the place of T, so that the radius
        grows.
    scale : float
        Factor on the radius.
    theta_norm : float
        Bound on the norm of theta after the taper, sum_j j^taper theta_j^2 under the root, which is at most
        d*^(taper/2) if the norm of theta is at most 1.
    form : {"auto", "gram", "feature"}
        How the posterior is held; the choices are the same.
    ties : {"random", "lowest"}
        How equal scores are resolved.
    memory : float or "auto", optional
        Half-life in decisions, for rewards that drift: what a decision taught counts half after so many further ones.
        With "auto" it is found by the data: of several, for ever among them, the longest that predicts the rewards
        about as well as the best. The weights are exact, a decision costs a factorisation (d^3 / 3), and no theorem of
        the library covers a learner that forgets. By default it forgets nothing.
    likelihood : {"gaussian", "bernoulli"}
        What a reward is. "bernoulli": a click, 0 or 1 (or a share in [0, 1]), whose logit is linear in the features,
        with a constant; scores are then logits, noise need not be known, and costs of arms are in units of probability.
        See docs/clicks.md.

    Notes
    -----
    It is LinUCB after multiplying feature j by j^(-taper/2), so the bounds of LinUCB hold with the effective dimension
    of the tapered design, ln det(V / Lambda), and the tapered norm of theta; ``radius="oful"`` uses exactly those. The
    effective dimension grows as T^(1 / (1 + taper)) however large d is (`adadim.theory.tapered_information`), which
    gives the rate `adadim.theory.tapered_rate`; docs/notebook/bounds.md has the proof. That rate is not Pareto optimal.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=300, dim=150, intrinsic_dim=3, horizon=600, replications=range(4))
    >>> published = adadim.simulate(adadim.LinUCBPlusPlus(), instance)
    >>> tapered = adadim.simulate(adadim.TaperedLinUCB(), instance)
    >>> bool(tapered.final.mean() < published.final.mean())
    True
    """

    taper: Taper = 1.5
    ridge: Ridge = 0.1
    size: Annotated[float, partial(between, low=1e-100, high=1e100)] | None = None
    bonus: Bonus = "norm"
    radius: Radius = "noise"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    form: Form = "auto"
    ties: Ties = "random"
    memory: MemorySetting | None = None
    likelihood: LikelihoodName = "gaussian"

    def ridge_for(self, problem: Problem) -> float:
        """Ridge of the first feature: as given, or by the size of a leading coefficient."""
        return self.ridge if self.size is None else max((problem.noise / self.size) ** 2, np.finfo(float).tiny)

    def model_for(self, problem: Problem) -> LinearModel:
        prior = prior_for(self.ridge_for(problem), self.likelihood, self.taper)
        return LinearModel(problem, prior, form=self.form, memory=self.memory, likelihood=self.likelihood)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        confidence = Confidence(self.bonus, self.radius, self.scale, self.ridge_for(problem), self.theta_norm)
        return Optimism(problem, model, self.ties, confidence)


@dataclass(frozen=True)
class RegretBalancingLinear(LinearPolicy):
    """Pull the arm whose gap to the optimistic best value is smallest in units of its squared width.

    With b the largest upper value of any arm, the arm with the least (b - mean) / width^2 is pulled: 1 / width^2 plays
    the part of a number of pulls, so this balances the empirical regrets of the arms. It explores more evenly than
    `LinUCB`, which has the better bound; use it to compare.

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    radius
        As in `LinUCB`. The default "oful-2011", as published, has the factor 2 under the root that the source's formula
        lacks; "oful" is narrower.
    scale : float
        Factor on the radius.
    theta_norm : float
        Bound on the norm of theta, where the radius has one.
    form : {"auto", "gram", "feature"}
        How the posterior is held; the choices are the same.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Regret O~(d^(3/2) sqrt(T)) for rewards linear in the features used, norms of at most 1 and sub-Gaussian noise of
    known scale.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> policy = adadim.RegretBalancingLinear(ridge=1.0, radius=1.0)
    >>> learner = policy.start(adadim.Problem([[1.0, 0.0], [0.0, 0.9]], horizon=9, noise=0.1))
    >>> learner.select()  # (1 - 0) / 1 is less than (1 - 0) / 0.81
    0
    """

    ridge: Ridge = 0.1
    dim: Dim | None = None
    radius: Radius = "oful-2011"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    form: Form = "auto"
    ties: Ties = "random"

    def model_for(self, problem: Problem) -> LinearModel:
        return LinearModel(problem, RidgePrior(self.ridge), dim=checked_dim(self.dim, problem), form=self.form)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        confidence = Confidence("norm", self.radius, self.scale, self.ridge, self.theta_norm, regret_score)
        return Optimism(problem, model, self.ties, confidence)


@dataclass(frozen=True)
class LinTS(LinearPolicy):
    """Draw a parameter from the posterior in every round, and pull the arm that is best for it.

    Use it where many arms are nearly as good as the best, since it spreads its choices over them, or where rewards come
    late and in batches; `LinUCB` has less regret in most of the problems measured here. Of the adaptive policies,
    prefer `EvidenceLinUCB` when the number of features that matter is unknown.

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares: theta ~ N(0, sigma^2 / lambda) beforehand.
    scale : float
        Factor on the standard deviation of the draw. 1 is the posterior itself; the proof below needs more.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    ties : {"random", "lowest"}
        How equal scores are resolved.
    memory : float or "auto", optional
        Half-life in decisions, for rewards that drift: what a decision taught counts half after so many further ones.
        With "auto" it is found by the data: of several, for ever among them, the longest that predicts the rewards
        about as well as the best. The weights are exact, a decision costs a factorisation (d^3 / 3), and no theorem of
        the library covers a learner that forgets. By default it forgets nothing.
    likelihood : {"gaussian", "bernoulli"}
        What a reward is. "bernoulli": a click, 0 or 1 (or a share in [0, 1]), whose logit is linear in the features,
        with a constant; scores are then logits, noise need not be known, and costs of arms are in units of probability.
        See docs/clicks.md.

    Notes
    -----
    The draw is theta_hat + scale sigma L^-T xi with V = L L^T and xi standard normal. Agrawal and Goyal prove regret
    O~(d^(3/2) sqrt(T)) for a scale of order sqrt(d ln T), which is far too wide in practice; with scale 1 the Bayesian
    regret is O~(d sqrt(T)) if theta comes from the prior (Russo and Van Roy 2014).

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=60, dim=10, intrinsic_dim=2, horizon=300, replications=range(4))
    >>> sampled = adadim.simulate(adadim.LinTS(dim=2), instance)
    >>> bool(sampled.final.mean() < adadim.simulate(adadim.Random(), instance).final.mean() / 5)
    True
    """

    ridge: Ridge = 0.1
    scale: Annotated[float, partial(positive, meaning="a factor on the standard deviation of the draw")] = 1.0
    dim: Dim | None = None
    ties: Ties = "random"
    memory: MemorySetting | None = None
    likelihood: LikelihoodName = "gaussian"

    def model_for(self, problem: Problem) -> LinearModel:
        dim, prior = checked_dim(self.dim, problem), prior_for(self.ridge, self.likelihood)
        return LinearModel(problem, prior, dim=dim, memory=self.memory, samples=True, likelihood=self.likelihood)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return Thompson(problem, model, self.ties, streams, self.scale * problem.noise)
