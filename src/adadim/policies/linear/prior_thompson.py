"""Thompson sampling with several priors, drawn from with the probability that the data give them (HP-GP-TS)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array
from adadim.core.checks import positive, shown
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.models.hyperprior import HyperPrior, Posteriors
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.round_learner import ClassDims, class_dims
from adadim.policies.linear.rules import PrefixThompson, Rule
from adadim.policies.parameters import Ties

LEAST_RIDGE = 1e-200


def check_positive_numbers(value: Any, name: str) -> None:
    """Raise unless `value` is a tuple of positive numbers."""
    if not isinstance(value, tuple) or not value:
        raise InvalidTypeError(f"{name} must be a tuple of positive numbers, e.g. (0.5,), got {shown(value)}")
    for one in value:
        positive(one, name, "a tuple of positive numbers")


PositiveNumbers = Annotated[tuple[float, ...], check_positive_numbers]


def hyperprior(
    dims: tuple[int, ...] | None,
    sizes: tuple[float, ...],
    weights: tuple[float, ...] | None,
    problem: Problem,
    noise: float | None = None,
    intercept: bool = False,
) -> HyperPrior:
    """The priors of a policy with these parameters on a problem, whose noise counts unless another is given."""
    if intercept and problem.disjoint:
        raise InvalidValueError(
            "intercept=True is for arms that share their parameters; where each has its own, add a feature that is 1"
        )
    noise = problem.noise if noise is None else noise
    dims = class_dims(dims, problem.dim)
    count = len(dims) * len(sizes)
    if weights is None:
        weights = tuple(2.0**-i for i in range(len(dims)) for _ in sizes)
    if len(weights) != count:
        raise InvalidValueError(
            f"weights must be {count} numbers, one for each of {len(dims)} dims with each of {len(sizes)} sizes, got "
            f"{len(weights)}"
        )
    ridges = tuple(max((noise / size) ** 2, LEAST_RIDGE) for size in sizes)
    largest = max(weights)
    total = sum(one / largest for one in weights)
    return HyperPrior(dims, ridges, tuple(one / largest / total for one in weights), noise, intercept)


def hyperprior_model(prior: HyperPrior, problem: Problem) -> LinearModel:
    """The sums of all features, from which every prior has its posterior; what it predicts has the first ridge."""
    return LinearModel(problem, RidgePrior(prior.ridges[0]), samples=True, on_host=True)


def posteriors_of(prior: HyperPrior, model: LinearModel, rows: Replications) -> Posteriors:
    """The posteriors of the replications of `rows`."""
    model.prepare(rows)
    return prior.posteriors(model.regression, model.offer.regressions(rows), model.offer.blocks)


@dataclass(frozen=True)
class PriorThompson(LinearPolicy):
    """Draw one of several priors by its evidence, then a parameter from its posterior, and pull the arm best for it.

    Use it where features are ordered, d* is unknown, and noise and the size of a coefficient are known: it is Thompson
    sampling for the belief that d_1, d_2, ... leading features matter. Its choices stay random while rewards are late.
    Prefer `EvidenceLinUCB`, which needs to be told neither noise nor size, where they are not known.

    Parameters
    ----------
    dims : tuple of int, optional
        Dimensions of the nested classes, increasing; by default 1, 2, 4, ... and d.
    sizes : tuple of float
        Standard deviations of a coefficient of theta beforehand. Every number of features goes with every size.
    weights : tuple of float, optional
        Probability of each prior beforehand, up to a constant: the first of `dims` with each of `sizes`, then the next.
        By default those of the i-th number of features are 2^-i.
    ties : {"random", "lowest"}
        How equal scores are resolved.
    intercept : bool
        Whether the rewards have a constant of their own, with a flat prior. Adding a number to all rewards then
        changes none of its choices. Not where each arm has a parameter of its own.

    Notes
    -----
    Prior m says theta ~ N(0, size_m^2 I) on the first d_m features and 0 beyond, that is a ridge of (sigma / size)^2.
    With V_m = ridge_m I + sum_t a_t a_t^T in those features and S_m the regularised sum of squared residuals, m is
    drawn with probability proportional to weight_m det(V_m / ridge_m)^(-1/2) exp(-S_m / (2 sigma^2)), and then theta
    from N(theta_hat_m, sigma^2 V_m^-1). All priors learn from all rewards; pending ones change nothing. `estimates` and
    widths that the learner shows are those of all features with the first size. With `intercept` a constant with a flat
    prior is integrated out: features and rewards are then less their means over the pulls, but not in `estimates` and
    widths.

    It is exact Thompson sampling for the two-level prior, so the Bayesian regret bounds of Thompson sampling hold on
    average over that prior (Sandberg and Haghir Chehreghani 2025 announce a sublinear one, unverified here). Nothing is
    claimed for a fixed theta.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=100, dim=20, intrinsic_dim=2, horizon=300, replications=range(4))
    >>> nested = adadim.simulate(adadim.PriorThompson(), instance)
    >>> bool(nested.final.mean() < adadim.simulate(adadim.LinTS(), instance).final.mean())
    True
    """

    dims: ClassDims | None = None
    sizes: PositiveNumbers = (0.5,)
    weights: PositiveNumbers | None = None
    ties: Ties = "random"
    intercept: bool = False

    def prior_for(self, problem: Problem) -> HyperPrior:
        """Its priors on a problem."""
        return hyperprior(self.dims, self.sizes, self.weights, problem, intercept=self.intercept)

    def model_for(self, problem: Problem) -> LinearModel:
        return hyperprior_model(self.prior_for(problem), problem)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return HyperPriorThompson(problem, model, self.ties, streams, self.prior_for(problem))


class HyperPriorThompson(PrefixThompson):
    """Means by a prior drawn by its evidence, and a parameter drawn from its posterior."""

    counts_pending = False

    def __init__(self, problem: Problem, model: LinearModel, ties: Ties, streams: Streams, prior: HyperPrior) -> None:
        super().__init__(problem, model, ties, streams, prior.noise)
        self.prior = prior

    def scores(self, rows: Replications) -> Array:
        posteriors, model = posteriors_of(self.prior, self.model, rows), self.model
        steps, at, normals = np.cumsum(posteriors.probabilities, axis=1), [], []
        for r, step in zip(rows.ids.tolist(), steps, strict=True):
            generator = self.normals.generators[r]
            at.append(min(int(np.searchsorted(step, generator.random(), side="right")), len(step) - 1))
            normals.append(generator.standard_normal((model.offer.blocks, model.dim)))
        drawn = posteriors.draw(np.array(at)[:, None], self.prior.noise * np.array(normals)[:, None])
        return model.means_by(drawn.reshape(-1, model.dim), rows)
