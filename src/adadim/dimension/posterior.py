"""The posterior of d*: proportional to its prior times the evidence of the regression on that many features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adadim.actions import ActionSet
from adadim.backend.arrays import Array, FloatArray, as_numpy
from adadim.checks import between, positive
from adadim.dimension.answer import Dimension
from adadim.dimension.inputs import Levels, Prior, checked_arms, checked_choices, checked_levels, checked_prior
from adadim.frames import without_frame
from adadim.posterior.factor import log_evidence
from adadim.posterior.moments import Moments
from adadim.posterior.prefixes import RIDGES, Pooled, canonical_prefixes, given_prefixes, moment_prefixes

__all__ = ["dimension", "dimension_of_arms", "dimension_of_moments", "dimension_of_sums"]


def dimension(
    features: Array,
    rewards: Array,
    levels: Levels = None,
    prior: Prior = "uniform",
    taper: float = 0.0,
    ridge: float | None = None,
    *,
    arms: Array | None = None,
) -> Dimension:
    """How many of the leading features matter, from past choices, whoever made them.

    Parameters
    ----------
    features : array (n, d), or a DataFrame of pandas or polars
        Features of what was chosen, one row per choice, most basic first. The answer knows the names of columns.
    rewards : array (n,)
        What each choice brought.
    levels : dict or list, optional
        Groups of features: the number of leading features up to the end of each, e.g. ``{"price": 3, "text": 67}`` or
        ``[3, 67]``. Then d* is one of them.
    prior : "uniform", float or array
        Prior of d*: uniform; a number c for weights m^-c; or the weights themselves, one for each possible d*.
    taper : float
        Exponent s of the prior precisions lambda j^s of the coefficients (over sigma^2); 0: all alike.
    ridge : float, optional
        The lambda of these precisions, for the features as given. By default it is learned: averaged over a grid by
        the evidence, in the canonical basis of the features (see Notes).
    arms : array (K, d), optional
        All that could have been chosen, if it was the same each time: a better ground for the canonical basis than the
        rows that were chosen, if who chose them did so by their rewards.

    Notes
    -----
    With theta_j ~ N(0, sigma^2 / (lambda j^s)) for j <= m, zero for j > m, Gaussian noise, and sigma^2 integrated out
    under 1/sigma^2, P(d* = m) is proportional to prior_m det(V_m / Lambda_m)^(-1/2) S_m^(-n/2), where S_m is the
    regularised sum of squared residuals of the regression on the first m features. How the choices were made does not
    enter. If `ridge` is None, the features are replaced by the canonical ones: Gram-Schmidt in their order over the
    distinct rows (and `arms`), with mean square 1 over these, so that the prior does not depend on how often each was
    chosen. Then only the spaces that the prefixes span matter: units, and earlier columns added to later ones, change
    nothing. Give a constant as first feature, or centred rewards.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(0, 30, size=200)
    >>> rewards = 5 + 0.1 * x - 0.02 * x**2 + rng.standard_normal(200)
    >>> powers = np.stack([x**j for j in range(7)], axis=1)
    >>> adadim.dimension(powers, rewards).mode  # the constant, x and x^2
    3
    >>> adadim.dimension(powers, rewards, levels={"line": 2, "cubic": 4, "all": 7}).probabilities.round(2)
    array([0., 1., 0.])
    """
    features, columns = without_frame(features)
    table, response = checked_choices(features, rewards)
    others = None if arms is None else checked_arms(arms, table.shape[1])
    plan = _Plan.of(table.shape[1], levels, prior, taper, ridge)
    return replace(plan.dimension([Pooled.of(table, response, others)], single=True), names=columns)


def dimension_of_arms(
    actions: ActionSet, arms: Array, counts: Array, sums: Array, squares: Array, levels: Levels, prior: Prior
) -> Dimension:
    """`dimension` of what learners have seen: pulls and sums (R, k) of some arms (k,) of `actions`, squares (R,)."""
    plan = _Plan.of(actions.dim, levels, prior, 0.0, None)
    pulls = np.zeros((actions.replications, actions.arms), dtype=np.int64)
    totals = np.zeros(pulls.shape)
    pulls[:, as_numpy(arms)], totals[:, as_numpy(arms)] = as_numpy(counts), as_numpy(sums)
    data = [
        Pooled(as_numpy(actions.dense(r)), pulls[r], totals[r], square)
        for r, square in enumerate(as_numpy(squares).tolist())
    ]
    return replace(plan.dimension(data, actions.single), names=actions.names)


def dimension_of_sums(sums: Moments, levels: Levels = None, prior: Prior = "uniform") -> Dimension:
    """`dimension` of choices of which only the sums are known; the same, if no two choices had equal features.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> features = rng.standard_normal((300, 8))
    >>> rewards = features[:, :3].sum(axis=1) + rng.standard_normal(300)
    >>> sums = Moments.zeros(8)
    >>> sums.add(features, rewards)
    >>> print(dimension_of_sums(sums))
    3 of 8 features matter (probability 0.93, 90% interval 3 to 3); noise 0.961; 300 choices
    """
    return dimension_of_moments([sums], True, levels, prior)


def dimension_of_moments(data: Sequence[Moments], single: bool, levels: Levels, prior: Prior) -> Dimension:
    """`dimension_of_sums` of each replication."""
    plan = _Plan.of(len(data[0].moment), levels, prior, 0.0, None)
    return plan.answer([plan.of_sums(sums) for sums in data], [round(sums.weight) for sums in data], single)


@dataclass(frozen=True)
class _Plan:
    """What is asked: the possible d*, their prior, and the prior of the coefficients."""

    dim: int
    support: np.ndarray[Any, np.dtype[np.int64]]
    names: dict[str, int] | None
    prior: FloatArray
    taper: float
    ridge: float | None

    @classmethod
    def of(cls, dim: int, levels: Levels, prior: Prior, taper: float, ridge: float | None) -> _Plan:
        names = None if levels is None else checked_levels(levels, dim)
        support = np.arange(1, dim + 1) if names is None else np.array(list(names.values()))
        weights = checked_prior(prior, support)
        if ridge is not None:
            ridge = positive(ridge, "ridge", "the prior precision of a coefficient over sigma^2; None learns it")
            ridge = between(ridge, "ridge", 1e-100, 1e100)  # so that its products with j^taper are numbers
        largest = 300.0 / math.log(max(dim, 2))  # so that every j^taper is a number, and its root and square are
        return cls(dim, support, names, weights, between(taper, "taper", 0.0, largest), ridge)

    def dimension(self, data: Sequence[Pooled], single: bool) -> Dimension:
        """The answer for each replication."""
        return self.answer([self._posterior(part) for part in data], [part.n for part in data], single)

    def answer(self, found: Sequence[tuple[FloatArray, float]], counts: Sequence[int], single: bool) -> Dimension:
        """What was found of each replication, with its number of choices, as one answer."""
        probabilities, noise = np.array([p for p, _ in found]), np.array([s for _, s in found])
        choices = np.array(counts)
        rest = (self.prior, self.support, self.dim, self.names)
        if single:
            return Dimension(probabilities[0], float(noise[0]), int(choices[0]), *rest)
        return Dimension(probabilities, noise, choices, *rest)

    def _posterior(self, data: Pooled) -> tuple[FloatArray, float]:
        """P(d* = m) and the estimated noise."""
        if data.n == 0 or data.squares == 0.0:
            return self.prior, np.nan if data.n == 0 else 0.0
        size = np.sqrt(data.squares)  # rewards of any unit, and no overflow
        data = Pooled(data.arms, data.counts, data.sums / size, 1.0)
        if self.ridge is None:
            logdets, residuals = canonical_prefixes(data, RIDGES, self.taper)
        else:
            logdets, residuals = (part[None] for part in given_prefixes(data, self.ridge, self.taper))
        return self._averaged(logdets, residuals, data.n, float(size))

    def of_sums(self, sums: Moments) -> tuple[FloatArray, float]:
        """P(d* = m) and the estimated noise, from sums over the choices."""
        if sums.weight == 0 or sums.squares == 0.0:
            return self.prior, np.nan if sums.weight == 0 else 0.0
        size = float(np.sqrt(sums.squares))
        scaled = Moments(sums.second, sums.moment / size, 1.0, sums.weight, sums.longest, sums.extent)
        return self._averaged(*moment_prefixes(scaled, RIDGES, self.taper), sums.weight, size)

    def _averaged(self, logdets: FloatArray, residuals: FloatArray, n: float, size: float) -> tuple[FloatArray, float]:
        """P(d* = m) and the noise, averaged over the ridges, of rewards divided by `size`."""
        at = self.support - 1
        logs = log_evidence(logdets[:, at], residuals[:, at], np.asarray(n), np.asarray(1.0))
        with np.errstate(divide="ignore"):
            logs = logs + np.log(self.prior)
        joint = np.exp(logs - logs.max())
        joint /= joint.sum()
        return joint.sum(axis=0), float(size * np.sqrt((joint * residuals[:, at]).sum() / n))
