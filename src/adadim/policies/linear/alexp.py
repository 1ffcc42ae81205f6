"""ALEXP: weights on models by the rewards that a group Lasso predicts for each (Kassraie et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, FloatArray
from adadim.core.checks import LARGEST_INTEGER, between, check_fits, integer, positive, shown
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.core.ties import tie_probabilities
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.models.groups import GroupLasso, ridge_predictions
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.rules import ProbabilityRule, Rule
from adadim.policies.parameters import Delta, RadiusScale, Ties, nested_dims

VARIANCE = math.log(2)  # of a coefficient beforehand, in every model
MIN_MODEL_NOISE = 0.01  # standard deviation of the noise that models assume at least

Groups = tuple[tuple[int, ...], ...]


def check_groups(value: Any, name: str) -> None:
    """Raise unless `value` is a tuple of tuples of distinct numbers of features."""
    pattern = "a tuple of tuples of numbers of features, e.g. ((0,), (0, 1)), or None"
    if not isinstance(value, tuple) or not value or not all(isinstance(group, tuple) and group for group in value):
        raise InvalidTypeError(f"{name} must be {pattern}, got {shown(value)}")
    for group in value:
        for column in group:
            integer(column, name, least=0, meaning="the number of a feature, counted from 0")
        if len(set(group)) < len(group):
            raise InvalidValueError(f"{name} must have every feature once in each group, got {shown(group)}")


def lasso_penalty(n: int, models: int, largest: int, noise: float, delta: float) -> float:
    """Penalty of the group Lasso that its theorem has after n rewards, for models of at most `largest` features.

    Examples
    --------
    >>> round(lasso_penalty(10, 20, 3, 0.01, 0.1), 9)
    0.226607169
    """
    log = math.log(8 * models / delta)
    return 8 * noise / math.sqrt(n) * math.sqrt(1 + 5 / math.sqrt(2) * math.sqrt(largest * log) + 12 / 2**0.5 * log)


@dataclass(frozen=True)
class ALEXP(LinearPolicy):
    """Learn which of several models to follow from the rewards that one regression predicts for all of them.

    Use it for comparison, where it is not known which groups of features matter and the groups are many: its price is
    logarithmic in their number. A group Lasso is fitted in every round. It finds a good model, which need not be the
    right one, and may settle on one that is too small. `EvidenceLinUCB` chooses among nested models by their evidence.

    Parameters
    ----------
    groups : tuple of tuple of int, optional
        The features of each model, counted from 0; by default the first 1, 2, 4, ... and all of them.
    explore : float
        gamma_0: the share of rounds with an arm drawn uniformly is this over t^(1/4).
    rate : float
        eta_0: how fast weights follow predicted rewards.
    penalty : float
        Factor on the penalty of the Lasso; 1 is that of the theorem.
    scale : float
        Factor on the width of a model's means.
    delta : float
        Probability with which the penalty may be too small.
    anytime : bool
        With False the end of the run takes the place of t, throughout.
    released : bool
        As the released code: exploration falls as t^(-1/2), and other estimates (see below).
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Model j has a ridge regression on its features with variance ln 2 of a coefficient beforehand and noise max(sigma,
    0.01), and proposes its arm x_j of the largest mean plus `scale` standard deviations. After n answered rounds the
    group Lasso minimises, theta being the sum of the models' coefficients v_j,

        |y - X theta|^2 / (2 n) + penalty lambda_n sum_j |v_j|,
        lambda_n = (8 sigma / sqrt(n)) sqrt(1 + (5 / sqrt(2)) sqrt(d_max L) + (12 / sqrt(2)) L),   L = ln(8 M / delta),

    and predicts the reward r_j of every x_j. With probability gamma an arm is drawn uniformly, else the arm of model j
    with probability q_j ~ exp(eta sum_s r_sj), gamma = gamma_0 n^(-1/4), eta = eta_0 n^(-1/2). The first round is
    uniform. Predictions count once for each answered reward, in the first decision after it: for the arms that are
    offered then, less their costs.

    Released code has gamma = gamma_0 n^(-1/2) and q_j ~ exp(sum_s eta_s r_sj), and the r_j are means of a ridge
    regression on the union of the groups that the Lasso keeps (all, where it keeps none or n = 1). Models count the
    first reward twice until there is another, and the first estimates are the same for all.

    Kassraie, Emmenegger, Krause and Pacchiano (2023, "Anytime model selection in linear bandits") announce regret of
    order sqrt(T ln(M)^3) + T^(3/4) sqrt(ln M), where drawing arms uniformly explores all directions; unverified here,
    and not for `penalty` below 1 nor for the released rates.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=8, intrinsic_dim=2, horizon=200, replications=range(4))
    >>> learned = adadim.simulate(adadim.ALEXP(groups=((0, 1), (2, 3), (4, 5, 6, 7))), instance)
    >>> [row["model_probabilities"][0] > 0.5 for row in learned.learner.describe()]
    [True, True, True, True]
    """

    groups: Annotated[Groups, check_groups] | None = None
    explore: Annotated[float, partial(between, low=0, high=1)] = 0.1
    rate: Annotated[float, partial(positive, meaning="how fast weights follow predicted rewards, e.g. 10")] = 10.0
    penalty: Annotated[float, partial(positive, meaning="a factor on the penalty of the Lasso, e.g. 0.009")] = 0.009
    scale: RadiusScale = 2.0
    delta: Delta = 0.1
    anytime: bool = True
    released: bool = False
    ties: Ties = "random"

    def groups_for(self, problem: Problem) -> Groups:
        """The features of each model on a problem."""
        if self.groups is None:
            return tuple(tuple(range(size)) for size in nested_dims(problem.dim, ambient=True))
        largest = max(max(group) for group in self.groups)
        if largest >= problem.dim:
            raise InvalidValueError(
                f"groups must have features 0 to {problem.dim - 1}, which the problem has, got {largest}"
            )
        return self.groups

    def model_for(self, problem: Problem) -> LinearModel:
        ridge = max(problem.noise, MIN_MODEL_NOISE) ** 2 / VARIANCE
        return LinearModel(problem, RidgePrior(ridge), samples=True, on_host=True)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return ModelWeights(problem, model, self)


class ModelWeights(ProbabilityRule):
    """The arms of several models, drawn by exponential weights on the rewards that are predicted for them."""

    counts_pending = False
    remembers = True

    def __init__(self, problem: Problem, model: LinearModel, policy: ALEXP) -> None:
        super().__init__(problem, model, policy.ties)
        self.policy, self.lasso, count = policy, GroupLasso(policy.groups_for(problem), problem.dim), len(problem)
        self.noise = max(problem.noise, MIN_MODEL_NOISE)
        if not policy.anytime:
            problem.horizon  # noqa: B018 - a problem without end is refused now
        shape = (model.offer.blocks, len(self.lasso.columns))
        check_fits(8.0 * count * math.prod(shape), dim=problem.dim, replications=count)
        self.copies = np.zeros((count, *shape))  # coefficients of the Lasso
        self.earned = np.zeros((count, len(self.lasso.groups)))  # sums of predictions; released: times their rates
        self.counted = np.zeros(count, dtype=np.int64)  # rewards for which predictions were counted

    def check_restored(self) -> None:
        """Refuse numbers of rewards below 0."""
        check_positions(self, counted=LARGEST_INTEGER)

    def _rounds(self, t: Any) -> Any:
        return np.maximum(t, 1) if self.policy.anytime else np.full(np.shape(t), self.problem.horizon)

    def exploration(self, answered: Array) -> Array:
        """gamma after so many answered rounds."""
        return np.minimum(
            1.0, self.policy.explore * self._rounds(answered) ** (-0.5 if self.policy.released else -0.25)
        )

    def model_probabilities(self, rows: Replications) -> FloatArray:
        """q of every model, (n, M)."""
        logs = self.earned[rows.ids]
        if not self.policy.released:
            logs = self.policy.rate * self._rounds(self.counted[rows.ids])[:, None] ** -0.5 * logs
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def probabilities(self, rows: Replications) -> Array:
        shares = self.proposals(rows)
        for position in np.flatnonzero(rows.of(self.model.pulls) > self.counted[rows.ids]).tolist():
            self._count(rows.pick(np.array([position])), shares[position])
        allowed = np.ones(shares.shape[::2], dtype=bool) if rows.allowed is None else rows.allowed
        uniform = allowed / np.count_nonzero(allowed, axis=1, keepdims=True)
        answered = rows.of(self.model.pulls)
        gamma = np.where(answered == 0, 1.0, self.exploration(answered))[:, None]
        drawn = np.einsum("nm,nmk->nk", self.model_probabilities(rows), shares)
        return np.asarray(gamma * uniform + (1.0 - gamma) * drawn)

    # What models propose

    def _offered(self, rows: Replications) -> FloatArray:
        """Features of the arms of each regression, (n blocks, K / blocks, d)."""
        offered = np.asarray(self.model.offered_inputs(rows))
        if self.problem.disjoint:
            return np.repeat(offered, self.model.offer.blocks, axis=0)[:, None]
        return offered

    def _sums(self, rows: Replications) -> tuple[FloatArray, FloatArray]:
        """sum x x^T and sum r x of each regression, as the models have them."""
        state, regressions = self.model.regression, self.model.offer.regressions(rows)
        times = np.ones(len(rows))
        if self.policy.released:
            times += rows.of(self.model.pulls) == 1
        times = np.repeat(times, self.model.offer.blocks)
        return times[:, None, None] * regressions.of(state.second), times[:, None] * regressions.of(state.b)

    def predictions(self, rows: Replications) -> tuple[FloatArray, FloatArray]:
        """Mean of every arm in every model and its standard deviation, (n, M, K)."""
        self.model.prepare(rows)
        (second, b), arms, ridge = self._sums(rows), self._offered(rows), self.noise**2 / VARIANCE
        both = [ridge_predictions(second, b, ridge, arms, group) for group in self.lasso.groups]
        mean, width2 = (
            np.stack([one.reshape(len(rows), -1) for one in each], axis=1) for each in zip(*both, strict=True)
        )
        return mean, self.noise * np.sqrt(width2)

    def proposals(self, rows: Replications) -> FloatArray:
        """Probability (n, M, K) of every arm to be that of each model: 1, less if several tie."""
        mean, deviation = self.predictions(rows)
        upper = np.swapaxes(mean + self.policy.scale * deviation, 0, 1)
        return np.stack([tie_probabilities(rows.apply_costs_and_mask(one), self.ties) for one in upper], axis=1)

    # What they would earn

    def _count(self, one: Replications, shares: FloatArray) -> None:
        """Count the rewards predicted for the arms (M, K) that the models propose, once for each new reward."""
        r, policy = int(one.ids[0]), self.policy
        before, answered = int(self.counted[r]), int(one.of(self.model.pulls)[0])
        self.counted[r] = answered
        value = self.estimates(one, answered)
        earned = shares @ (value if one.costs is None else value - one.costs)
        if not policy.released:
            self.earned[r] += (answered - before) * earned
            return
        rounds = np.arange(max(before, 1), answered) + 1.0  # the first estimates are the same for all models
        self.earned[r] += policy.rate * float((self._rounds(rounds) ** -0.5).sum()) * earned

    def estimates(self, one: Replications, answered: int) -> FloatArray:
        """Rewards (K,) predicted of the arms offered to one replication."""
        r, policy, lasso = int(one.ids[0]), self.policy, self.lasso
        (second, b), arms = self._sums(one), self._offered(one)
        kept = np.zeros(len(lasso.groups), dtype=bool)
        if answered > 1 or not policy.released:
            penalty = lasso_penalty(answered, len(kept), int(lasso.sizes.max()), self.problem.noise, policy.delta)
            self.copies[r] = lasso.fit(second / answered, b / answered, policy.penalty * penalty, self.copies[r])
            kept = lasso.kept(self.copies[r])
        if not policy.released:
            return np.asarray(arms @ lasso.coefficients(self.copies[r])[..., None]).reshape(-1)
        columns = {
            column for group, has in zip(lasso.groups, kept, strict=True) if has or not kept.any() for column in group
        }
        return ridge_predictions(second, b, self.noise**2 / VARIANCE, arms, sorted(columns))[0].reshape(-1)

    def describe(self, r: int) -> dict[str, Any]:
        return {"model_probabilities": self.model_probabilities(self.everyone.pick(np.array([r])))[0].round(3).tolist()}
