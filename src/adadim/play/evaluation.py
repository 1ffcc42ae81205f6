"""Off-policy evaluation: a policy walks through a log, and estimators say what it would have earned.

Row i of the log has the reward r_i of the arm a_i, chosen with probability p_i. The policy to be judged would choose it
with probability pi_i: its weight is w_i = pi_i / p_i. Intervals are the normal ones of the mean over rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from adadim.core.arrays import Array, BoolArray, FloatArray, IntArray, as_numpy
from adadim.core.checks import between, require
from adadim.core.frames import Frame
from adadim.core.problem import Problem
from adadim.core.threads import one_thread
from adadim.errors import EvaluationWarning, InvalidTypeError, InvalidValueError
from adadim.models.statistics import Moments
from adadim.play.logs import LoggedChoices, read_log
from adadim.play.simulate import policy_for, replayed
from adadim.policies.base import Choice, Policy

MIN_ROWS = 50.0  # effective sample size below which an interval means nothing
MIN_REWARDS = 10  # that differ from the most common one: with fewer, an interval is not a normal one
LARGEST_DEVIATION = 4.0  # standard errors by which the mean weight may differ from 1
REMEDY = "; let a share of the decisions explore, Agent.create(..., explore=0.02)"
FIRST_BLOCK = 16  # rows of the reward model's first fit; blocks then double until they are 1/16 of the log


@dataclass(frozen=True)
class Estimate:
    """A mean reward (not a number if no row says anything), its standard error, its interval, and how many rows it has.

    Examples
    --------
    >>> mean_of(np.array([1.0, 2.0, 3.0, 2.0]), level=0.95)
    Estimate(2 +- 0.8, 4 rows)
    """

    value: float
    error: float
    low: float
    high: float
    rows: int

    def __repr__(self) -> str:
        return f"Estimate({self.value:.4g} +- {self.high - self.value:.2g}, {self.rows} rows)"


@dataclass(frozen=True)
class Evaluation:
    """Estimates of the mean reward of a policy.

    Attributes
    ----------
    replay : Estimate or None
        Mean reward of the rows in which the policy, learning from these alone, chose the logged arm. None unless the
        log is uniform and the policy's choices are not random.
    ips, snips, dr : Estimate
        Inverse propensity score, its self-normalised form, and the doubly robust one.
    logged : Estimate
        Mean reward of the log itself, for comparison.
    rows : int
        Rows that were judged.
    matched : int
        How many of them the policy agrees with.
    effective : float
        Effective sample size (sum w)^2 / sum w^2 of the weights.
    mean_weight : float
        Mean of the weights, which should be 1.
    level : float
        Level of the intervals.
    warnings : tuple of str
        Reasons not to trust the estimates.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, arm = rng.standard_normal(2000), rng.integers(2, size=2000)
    >>> clicks = (rng.random(2000) < np.where(arm == (x > 0), 0.8, 0.2)).astype(float)
    >>> log = {"arm": arm, "reward": clicks, "propensity": np.full(2000, 0.5), "x": x}
    >>> result = adadim.evaluate(adadim.recommended, log)
    >>> bool(0.75 < result.snips.value < 0.82), bool(0.45 < result.logged.value < 0.55), result.warnings
    (True, True, ())
    """

    replay: Estimate | None
    ips: Estimate
    snips: Estimate
    dr: Estimate
    logged: Estimate
    rows: int
    matched: int
    effective: float
    mean_weight: float
    level: float
    warnings: tuple[str, ...] = ()

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The estimates by name, those that there are."""
        every = {"replay": self.replay, "ips": self.ips, "snips": self.snips, "dr": self.dr}
        return {name: estimate for name, estimate in every.items() if estimate is not None}

    def __str__(self) -> str:
        lines = [f"{'':8}{'value':>10}  {self.level:.0%} interval"]
        for name, e in {**self.estimates, "logged": self.logged}.items():
            lines.append(f"{name:8}{e.value:>10.4g}  {e.low:.4g} to {e.high:.4g}")
        lines.append(
            f"{self.rows} rows, of which the policy agrees with {self.matched}; effective sample size "
            f"{self.effective:.0f}; mean weight {self.mean_weight:.3g}"
        )
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])


def evaluate(
    policy: Policy | Callable[[Problem], Policy] | Array,
    log: LoggedChoices | Frame | str | Path,
    *,
    arm: str = "arm",
    reward: str = "reward",
    propensity: str | float | None = None,
    features: Sequence[str] | None = None,
    standardise: bool = True,
    model: Array | None = None,
    noise: float | None = None,
    warmup: float = 0.2,
    level: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """Estimate what a policy would earn, from a log of randomised decisions.

    A policy walks through the log in its order: in each row it says what it would choose, is judged by that, and then
    learns from the row. Nothing is judged by what it has learned from the same row.

    Parameters
    ----------
    policy : Policy, callable or array
        What to judge: a policy; a function from the problem to a policy, such as `adadim.recommended`; or a fixed rule
        that learns nothing, as the arms it would choose in each row, int (n,), or their probabilities, (n, K), by
        position among the arms (in a plain table, the sorted names). Policies that ignore features, such as `UCB`, need
        a log with the same arms in each row. `Random` is judged by its probabilities, not by what it draws.
    log : path, polars or pandas DataFrame, dict of columns, or list of dicts
        A Parquet or CSV file, or a table. Either a plain one, a row for each decision with the arm, the reward, the
        probability of the arm and covariates; or one with the columns "offered" (a list with the names of the arms),
        "offered_features" (a list for each of them, or all of them one after the other) and, if there is one, "context"
        (a list that goes before the features of each arm, or is multiplied with them as "design" says), as
        `Agent.export` writes. Rows without a reward, a probability or arms offered are left out.
    arm, reward : str
        Columns with the name of the arm that was chosen and with its reward.
    propensity : str or float, optional
        Column with the probability with which the arm was chosen; or this probability, if it was always the same; or
        "uniform". By default the column "propensity" or "probability".
    features : sequence of str, optional
        Of a plain table: columns with the covariates, most basic first; by default all others.
    standardise : bool
        Of a plain table: centre the covariates and divide them by their standard deviation.
    model : array (n, K), optional
        Predicted rewards for the doubly robust estimator; by default a ridge regression on the rows before.
    noise : float, optional
        Noise level given to the policy; by default the standard deviation of the log's rewards.
    warmup : float in [0, 1)
        Share of the log, at its beginning, that a policy only learns from.
    level : float
        Level of the intervals.
    seed : int
        Seed of the policy's own randomness.

    Warns
    -----
    EvaluationWarning
        If the log can say nothing about this policy: the effective sample size is below 50, fewer than 10 of the
        rewards that count differ from the most common one, all choices of the log had probability 1, or the weights do
        not average 1, which they would if the probabilities were right and no choice of the policy had probability 0 in
        the log.

    Notes
    -----
    With w = pi(chosen) / propensity: IPS is the mean of w r, SNIPS divides it by the mean of w, and the doubly robust
    estimate is the mean of sum_a pi(a) q(a) + w (r - q(chosen)). These judge the policy as it is after learning from
    the log (on average over the rows judged; a policy that learns only from its own choices learns where it agrees).
    Replay judges it from its first round on, as if it had been alone; the log must be uniform for that.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(3, size=3000)
    >>> log = {"arm": arm, "reward": arm + rng.standard_normal(3000)}
    >>> always_2 = np.full(3000, 2)
    >>> adadim.evaluate(always_2, log, propensity="uniform").snips
    Estimate(1.967 +- 0.059, 3000 rows)
    """
    between(level, "level", 0.0, 1.0, "()")
    between(warmup, "warmup", 0.0, 1.0, "[)")
    log = read_log(log, arm=arm, reward=reward, propensity=propensity, features=features, standardise=standardise)
    with one_thread:
        predicted = predictions(log) if model is None else _checked_model(model, log)
        if isinstance(policy, Policy) or callable(policy):
            noise = (float(log.rewards.std()) or None) if noise is None else noise
            problem = Problem(arms=log.arms, dim=log.dim, horizon=len(log), noise=noise)
            candidate = policy_for(policy, problem)
            if log.names is not None and not candidate.uses_features:  # arms that stay, known by their numbers
                problem = Problem(np.eye(log.arms), horizon=len(log), noise=noise)
            shares = np.array([_choice_shares(each, log.arms) for each in _choices(candidate, problem, log, seed)])
            drawn = bool((shares.max(axis=1) < 1)[log.sizes > 1].all())  # from a distribution that the policy knows
            in_replay = None
            if log.uniform and not drawn:
                agreeing = _choices(candidate, problem, log, seed, every=False)
                in_replay = np.array([int(each.arms[0]) for each in agreeing])
            first = int(warmup * len(log))
        else:
            shares, in_replay = _fixed_rule(policy, log)
            first = 0
    evaluation = _estimates(log, shares, in_replay, predicted, first, level)
    for text in evaluation.warnings:
        warnings.warn(text, EvaluationWarning, stacklevel=2)
    return evaluation


def _estimates(
    log: LoggedChoices, shares: FloatArray, in_replay: IntArray | None, predicted: FloatArray, first: int, level: float
) -> Evaluation:
    """Estimates from the rows from `first` on; `in_replay` are the choices of one that learns from its own only."""
    rows = np.arange(len(log))
    weights = (shares[rows, log.chosen] / log.propensities)[first:]
    rewards, certain = log.rewards[first:], ((log.propensities == 1.0) & (log.sizes > 1))[first:]
    expected = np.vecdot(shares, predicted)[first:]
    replay = None if in_replay is None else mean_of(log.rewards[in_replay == log.chosen], level)
    return Evaluation(
        replay=replay,
        ips=mean_of(weights * rewards, level),
        snips=snips(weights, rewards, level),
        dr=mean_of(expected + weights * (rewards - predicted[rows, log.chosen][first:]), level),
        logged=mean_of(log.rewards, level),
        rows=len(weights),
        matched=int((weights > 0).sum()),
        effective=effective_rows(weights),
        mean_weight=float(weights.mean()),
        level=level,
        warnings=tuple(_doubts(weights, rewards, certain)),
    )


def _doubts(weights: FloatArray, rewards: FloatArray, certain: BoolArray) -> list[str]:
    """Reasons why the log says little about the policy, if any; `certain` choices had no alternative in the log."""
    doubts, effective = [], effective_rows(weights)
    counted = rewards[weights > 0]
    if effective < MIN_ROWS:
        doubts.append(
            f"the effective sample size is {effective:.0f} of {len(weights)} rows, too few to say anything: log more "
            "rows, or judge a policy that is closer to the one that made the log"
        )
    else:
        counts = np.unique(counted, return_counts=True)[1]
        if (rare := int(len(counted) - counts.max())) < MIN_REWARDS:
            doubts.append(
                f"only {rare} of the {len(counted)} rewards that count differ from the most common one: do not trust "
                "the intervals"
            )
    error = float(weights.std(ddof=1)) / math.sqrt(len(weights)) if len(weights) > 1 else math.inf
    average = f"the weights average {weights.mean():.3g} instead of 1"
    deviates = abs(float(weights.mean()) - 1.0) > max(LARGEST_DEVIATION * error, 1e-9)
    if certain.all():
        doubts.append(
            f"all {len(certain)} choices of the log had probability 1, so it says nothing about other arms{REMEDY}"
        )
    elif deviates and certain.any():
        doubts.append(
            f"{average}: {certain.sum()} of {len(certain)} choices of the log had probability 1, so other arms had no "
            f"chance there{REMEDY}"
        )
    elif deviates:
        doubts.append(
            f"{average}: the probabilities of the log are wrong, or some of what the policy chooses had no chance in it"
        )
    return doubts


def _choices(policy: Policy, problem: Problem, log: LoggedChoices, seed: int, every: bool = True) -> Iterator[Choice]:
    """What a policy chooses in each row, learning from every row, or only from those where it agrees."""
    learner = policy.start(problem, seed=seed)
    rows = log.rows() if problem.contextual else ((None, chosen, rewards) for _, chosen, rewards in log.rows())
    return (choice for choice, _, _ in replayed(learner, rows, every))


def _choice_shares(choice: Choice, arms: int) -> FloatArray:
    """Probability (K,) of each arm; where the policy does not know them, 1 for the arm chosen."""
    known, probabilities = choice.probabilities, np.zeros(arms)
    if known is None:
        probabilities[choice.arms[0]] = 1.0
    else:
        probabilities[: known.shape[1]] = known[0]
    return probabilities


def _fixed_rule(rule: Array, log: LoggedChoices) -> tuple[FloatArray, IntArray | None]:
    """Probabilities (n, K) of a rule that learns nothing, and its choices if none is random and the log is uniform."""
    choices = as_numpy(rule)
    wanted = "be a Policy, a function that makes one, arms (n,) or probabilities (n, K)"
    require(choices.dtype.kind in "biuf", "policy", wanted, rule, InvalidTypeError)
    n, arms = len(log), log.arms
    if choices.shape == (n,) and choices.dtype.kind in "iu":
        if (choices < 0).any() or (choices >= log.sizes).any():
            raise InvalidValueError(f"the arms of the policy must be in 0..{arms - 1}, by their position in the row")
        shares = np.zeros((n, arms))
        shares[np.arange(n), choices] = 1.0
        return shares, choices if log.uniform else None
    if choices.shape != (n, arms):
        raise InvalidValueError(
            f"the policy must have an arm for each of the {n} rows of the log, int ({n},), or probabilities ({n}, "
            f"{arms}), got {choices.dtype} of shape {choices.shape}"
        )
    shares = choices.astype(np.float64)
    outside = np.arange(arms) >= log.sizes[:, None]
    if not ((shares >= 0).all() and np.allclose(shares.sum(axis=1), 1.0) and not shares[outside].any()):
        raise InvalidValueError("the probabilities of the policy must be at least 0 and sum to 1 in each row")
    replayable = log.uniform and bool((shares.max(axis=1) == 1.0).all())
    return shares, shares.argmax(axis=1) if replayable else None


def _checked_model(model: Array, log: LoggedChoices) -> FloatArray:
    predicted, shape = as_numpy(model), (len(log), log.arms)
    shaped = predicted.dtype.kind in "biuf" and predicted.shape == shape
    require(shaped and bool(np.isfinite(predicted).all()), "model", f"hold finite predicted rewards, {shape}", model)
    return predicted.astype(np.float64)


def predictions(log: LoggedChoices) -> FloatArray:
    """Predicted reward of every arm in every row, (n, K), by ridge regression on the rows of the blocks before it.

    No row is used to predict its own reward, so the doubly robust estimator is unbiased however wrong the model is.
    """
    predicted = np.zeros((len(log), log.arms))
    sums = Moments.zeros(log.dim)
    for start, stop in _blocks(len(log)):
        offers = log.offers(start, stop)
        if trace := float(np.trace(sums.second)):
            theta = sums.estimate(trace / (start * log.dim))  # the ridge weighs as much as one row
            for row, offer in enumerate(offers, start):
                predicted[row, : len(offer)] = offer @ theta
        x = np.stack([offer[at] for offer, at in zip(offers, log.chosen[start:stop].tolist(), strict=True)])
        sums.add(x, log.rewards[start:stop])
    return predicted


def _blocks(rows: int) -> Iterator[tuple[int, int]]:
    """Ends of the blocks: 0-16, 16-32, 32-64, ..., then 1/16 of the rows each."""
    start, size = 0, FIRST_BLOCK
    while start < rows:
        stop = min(rows, start + size)
        yield start, stop
        start, size = stop, min(max(FIRST_BLOCK, stop), max(FIRST_BLOCK, rows // 16))


def mean_of(terms: FloatArray, level: float) -> Estimate:
    """Mean of independent terms."""
    if not len(terms):
        return _with_interval(math.nan, math.nan, level, 0)
    deviation = float(terms.std(ddof=1)) if len(terms) > 1 else math.nan
    return _with_interval(float(terms.mean()), deviation / math.sqrt(len(terms)), level, len(terms))


def snips(weights: FloatArray, rewards: FloatArray, level: float) -> Estimate:
    """IPS divided by the mean weight: a little biased, but steadier; its error is that of a ratio (delta method)."""
    n, total = len(weights), float(weights.sum())
    if total == 0:
        return _with_interval(math.nan, math.nan, level, n)
    value = float((weights * rewards).sum()) / total
    deviation = float((weights * (rewards - value)).std(ddof=1)) if n > 1 else math.nan
    return _with_interval(value, math.sqrt(n) * deviation / total, level, n)


def effective_rows(weights: FloatArray) -> float:
    """How many rows of equal weight would say as much: (sum w)^2 / sum w^2 (Kish)."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _with_interval(value: float, error: float, level: float, rows: int) -> Estimate:
    half = NormalDist().inv_cdf(0.5 + level / 2) * error
    return Estimate(value, error, value - half, value + half, rows)
