"""What is believed before the data, given the sums over them: priors as functions from statistics to a belief.

A prior says how large the coefficient of each column is, theta_j ~ N(0, sigma^2 scale_j^2 / ridge): `RidgePrior` is
told, `EvidencePrior` chooses by the evidence of the data, with which it estimates the noise too. Neither knows a
learner: both can be called with sums over any data.

The evidence of a prior on the data of n pulls, with sigma^2 integrated out under 1/sigma^2, is up to a constant

    det(V / ridge)^(-1/2) S^(-n/2),   S = sum r^2 - b^T V^-1 b,

for columns multiplied by their scale, V = ridge I + sum x x^T and b = sum r x. A constant in the rewards with a flat
prior is integrated out by features and rewards less their means over the pulls, and n - 1 in the place of n.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpttrf, dsytrd

from adadim.core.arrays import FloatArray
from adadim.core.checks import not_negative, positive
from adadim.models.parts import Prediction
from adadim.models.statistics import ArmSums, Moments, QuadraticForm

RELATIVE_RIDGES: FloatArray = 10.0 ** np.arange(-6.0, 2.5, 0.5)
"""Ridges to choose from: (noise / size of a leading coefficient)^2, for features whose longest row has norm 1."""

KNOWN_NOISE_RIDGES = RELATIVE_RIDGES[4:]  # where the noise is 1, that of logits, coefficients of 100 are large enough

EXPONENTS = (0.0, 0.9, 1.75)  # of the recommended policy
MIN_WEIGHT = 1e-150  # of a column: as good as none, and its square is still a number
RAW_FACTOR = 10.0  # a column so many times as large as an earlier one is in raw units, which say nothing of its weight
ROUNDING_SHARE = 4 * float(np.finfo(float).eps)  # share of a sum of squares below which a difference of such is nothing
MIN_RESIDUAL_SHARE = 1e-12  # of the rewards' sum of squares; a residual below is rounding
CONSTANT_WIDTH = 1.5  # prior width of the constant, in units of the effect of the longest row, at least the noise
ALIKE_LOGS = 1e-6  # log evidences that differ by less count as equal, as those of all exponents are after two rewards
REPORTED_FACTOR = 10.0  # Bayes factor from which data that contradict the order of the features are reported
TRIDIAGONAL_FROM = 12  # rows from which a tridiagonal matrix is found sooner than eigenvectors (measured)


def taper_weights(taper: float, dim: int) -> FloatArray:
    """j^(-taper/2) for j = 1, ..., dim: a ridge of lambda j^taper is a ridge of lambda on columns so multiplied.

    At least `MIN_WEIGHT`, so that sums over columns so multiplied can be divided by the weights again.
    """
    return np.maximum(np.arange(1.0, dim + 1) ** (-taper / 2), MIN_WEIGHT)


def prior_precisions(ridge: float, taper: float, dim: int) -> FloatArray:
    """lambda_j = ridge j^taper for j = 1, ..., dim."""
    positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
    return ridge * np.arange(1.0, dim + 1) ** not_negative(taper, "taper")


_shared_weights = lru_cache(maxsize=64)(taper_weights)  # the cached array, not to be written to


@dataclass(frozen=True)
class Belief:
    """What is believed of one regression: column j has the prior variance ``noise^2 scale[j]^2 / ridge``.

    Attributes
    ----------
    ridge : float
        Ridge of the regression on columns that are multiplied by their scale.
    scale : array (d,) or (1 + d,), optional
        What each column is multiplied by, the constant first if there is one; None for 1.
    offset : float
        What rewards are learned less.
    noise : float
        Estimated standard deviation of the noise, one standard error above; NaN if nothing is known of it.
    exponent : float
        How fast importance fades with the index.
    evidence : array (exponents, ridges)
        Log evidence of every prior that was compared, up to a constant; empty if none was.
    size : int, optional
        Number of leading columns in use, where later ones are as good as ruled out; None for all.
    """

    ridge: float
    scale: FloatArray | None = None
    offset: float = 0.0
    noise: float = math.nan
    exponent: float = 0.0
    evidence: FloatArray = field(default_factory=lambda: np.zeros((1, 0)))
    size: int | None = None

    @property
    def by_exponent(self) -> FloatArray:
        """Log evidence of each exponent, summed over the ridges."""
        return np.asarray(np.logaddexp.reduce(self.evidence, axis=1))

    def contradiction(self, exponents: Sequence[float]) -> str | None:
        """A sentence on the order of the features if some exponent is far likelier than the last one."""
        logs = self.by_exponent
        gain = logs.max() - logs[-1]
        if gain < math.log(REPORTED_FACTOR):
            return None
        times = f"{math.exp(gain):.0f}" if gain < math.log(1e6) else "more than a million"
        says = "little" if self.exponent else "nothing"
        likely, usual = self.exponent, exponents[-1]
        return f"the order of your features says {says}: exponent {likely:g} is {times} times as likely as {usual:g}"


class Prior(ABC):
    """What is believed before the data, given sums over them."""

    needs_sums = False
    """Whether a prediction needs the sums of the regression."""

    learns = False
    """Whether the belief depends on the data, so that it has to be found again as they grow."""

    constant = False
    """Whether a constant in the rewards stands before the columns."""

    @abstractmethod
    def __call__(self, data: Sequence[Moments | ArmSums], longest: float, units: FloatArray, pending: float) -> Belief:
        """The belief about parameters of which `data` are the sums, one entry for each that shares the prior.

        `longest` is the squared length of the longest row in these units, by which the columns are divided; `pending`
        is how many decisions wait for their rewards.
        """

    def prediction(self, offer: Any) -> Prediction:
        """How means and widths of the arms offered come about."""
        return offer  # type: ignore[no-any-return]

    def describe(
        self, belief: Belief, data: Sequence[Moments | ArmSums], longest: float, units: FloatArray
    ) -> dict[str, Any]:
        """Entries of `Learner.describe`, by what is believed and by the sums over the data."""
        return {}


@dataclass(frozen=True)
class RidgePrior(Prior):
    """The ridge lambda j^taper, as told.

    Examples
    --------
    >>> import numpy as np
    >>> belief = RidgePrior(0.1, taper=2.0)([Moments.zeros(3)], 1.0, np.ones(3), 0)
    >>> belief.ridge, belief.scale
    (0.1, array([1.        , 0.5       , 0.33333333]))
    """

    ridge: float
    taper: float = 0.0
    constant: bool = False  # whether there is one, of prior width `CONSTANT_WIDTH` about the mean reward, for noise 1

    def __post_init__(self) -> None:
        positive(self.ridge, "ridge", "the regularisation lambda, e.g. 0.1")

    def __call__(self, data: Sequence[Moments | ArmSums], longest: float, units: FloatArray, pending: float) -> Belief:
        scale = self.scale(len(units))
        if not self.constant:
            return Belief(self.ridge, scale, exponent=self.taper)
        column, n = CONSTANT_WIDTH * math.sqrt(self.ridge), sum(one.n for one in data)
        scale = np.concatenate([[column], np.ones(len(units)) if scale is None else scale])
        offset = sum(one.total for one in data) / n if n else 0.0
        return Belief(self.ridge, scale, offset, noise=1.0, exponent=self.taper)

    def scale(self, dim: int) -> FloatArray | None:
        """What each of `dim` columns is multiplied by; None for 1."""
        return taper_weights(self.taper, dim) if self.taper else None


@dataclass(frozen=True)
class EvidencePrior(Prior):
    """The ridge lambda j^s with lambda, and s if there are several exponents, chosen by the evidence of the data.

    Of the exponents within a Bayes factor `doubt` of the likeliest the smallest is taken, for which late columns matter
    most, and of the ridges within `factor` the smallest; if all exponents are alike, the largest. A prior in doubt is
    kept so that its arms are explored further. Decisions that wait for their reward explore already: both factors count
    by the share of the decisions that have their reward. A `noise` that is given is not estimated; the constant then
    has the prior width `CONSTANT_WIDTH`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((200, 5))
    >>> data = Moments.zeros(5)
    >>> data.add(x, 7.0 + x[:, 0] + 0.1 * rng.standard_normal(200))
    >>> belief = EvidencePrior((0.0, 1.75), factor=20.0, constant=True)([data], 5.0, np.ones(5), 0)
    >>> round(belief.noise, 2), round(belief.offset, 1), belief.exponent
    (0.1, 6.9, 1.75)
    """

    exponents: tuple[float, ...]
    factor: float
    doubt: float = 1.0
    constant: bool = False
    noise: float | None = None
    learns = True

    @property
    def ridges(self) -> FloatArray:
        """Relative ridges to choose from."""
        return RELATIVE_RIDGES if self.noise is None else KNOWN_NOISE_RIDGES

    def __call__(self, data: Sequence[Moments | ArmSums], longest: float, units: FloatArray, pending: float) -> Belief:
        mean, squares, degrees = self.response(data)
        if not squares:
            return self.undecided(longest, units, mean)
        column, scales = self.column(data, longest), [_shared_weights(s, len(units)) / units for s in self.exponents]
        forms = zip(*[one.forms(scales, self.constant, mean, column) for one in data], strict=True)
        logs, variances = log_evidences(list(forms), squares, degrees, self.ridges * longest, self.noise)
        [(at, chosen)] = self.choices(logs, degrees / (degrees + pending))
        noise = self.noise or math.sqrt(variances[at, chosen] * (1 + math.sqrt(2 / degrees)))
        return self._belief(self.exponents[at], float(self.ridges[chosen]), longest, units, mean, noise, logs)

    def describe(
        self, belief: Belief, data: Sequence[Moments | ArmSums], longest: float, units: FloatArray
    ) -> dict[str, Any]:
        if not self.constant:
            return {}
        return {"taper": belief.exponent, "order": belief.contradiction(self.exponents)}

    def response(self, data: Sequence[Moments | ArmSums]) -> tuple[float, float, float]:
        """Mean of the rewards, if there is a constant; their squares less that, 0 if they say nothing; and degrees."""
        n = total = whole = 0.0
        for one in data:
            n, total, whole = n + one.n, total + one.total, whole + one.squares
        mean = total / n if self.constant and n else 0.0
        squares, degrees = whole - n * mean * mean, n - 1 if self.constant and self.noise is None else n
        return mean, squares if degrees > 0 and squares > ROUNDING_SHARE * whole else 0.0, degrees

    def column(self, data: Sequence[Moments | ArmSums], longest: float) -> float | None:
        """Size of the constant where the parameters differ in it, so that it stays a column; else None."""
        return CONSTANT_WIDTH * math.sqrt(longest) if self.constant and len(data) > 1 else None

    def constant_scale(self, relative: float, longest: float) -> float:
        """Scale of the constant: as good as flat, whatever the rewards less their mean."""
        if self.noise is not None:
            return CONSTANT_WIDTH * math.sqrt(longest * relative) / self.noise
        return CONSTANT_WIDTH * math.sqrt(longest) * max(1.0, math.sqrt(relative))

    def undecided(self, longest: float, units: FloatArray, offset: float = 0.0) -> Belief:
        """The belief while no reward says anything."""
        return self._belief(self.exponents[-1], float(self.ridges[0]), longest, units, offset)

    def with_values(self, exponent: float, relative: float, longest: float, units: FloatArray, offset: float) -> Belief:
        """The belief by an exponent and a relative ridge that are known; the noise is not."""
        return self._belief(exponent, relative, longest, units, offset)

    def choices(self, logs: FloatArray, *answered: float) -> list[tuple[int, int]]:
        """Which exponent and which ridge to use, by the log evidence (exponents, ridges) of each.

        `answered` are shares of the decisions that have their reward; there is a choice for each.
        """
        shapes = np.logaddexp.reduce(logs, axis=1)
        most = shapes.max()
        alike, differ = int(np.flatnonzero(shapes >= most - ALIKE_LOGS)[-1]), shapes.min() < most - ALIKE_LOGS
        chosen = []
        for share in answered:
            at = min(alike, int(np.argmax(shapes >= most - math.log(self.doubt) * share))) if differ else alike
            chosen.append((at, int(np.argmax(logs[at] >= logs[at].max() - math.log(self.factor) * share))))
        return chosen

    def _belief(
        self,
        exponent: float,
        relative: float,
        longest: float,
        units: FloatArray,
        offset: float,
        noise: float = math.nan,
        evidence: FloatArray | None = None,
    ) -> Belief:
        scale = _shared_weights(exponent, len(units)) / units
        if self.constant:
            scale = np.concatenate([[self.constant_scale(relative, longest)], scale])
        table = np.zeros((len(self.exponents), len(self.ridges))) if evidence is None else evidence
        return Belief(relative * longest, scale, offset, noise, exponent, table)


def like_units(extent: FloatArray) -> FloatArray:
    """What to divide columns of these largest values by: the values if the columns are in raw units, or else 1."""
    if 0 < extent.max() <= RAW_FACTOR * extent.min():  # the usual case, and quick
        return np.ones_like(extent)
    above_zero = np.where(extent > 0, extent, np.inf)
    if not np.any(extent > RAW_FACTOR * np.minimum.accumulate(above_zero)):
        return np.ones_like(extent)
    return np.where(extent > 0, extent, 1.0)


def log_evidence(logdets: FloatArray, residuals: FloatArray, n: float, squares: float) -> FloatArray:
    """Log evidence of regressions up to a constant, -logdet / 2 - n/2 ln S, with 1/sigma^2 as prior of the noise.

    A residual below rounding of the rewards' sum of squares counts as that; rewards that are all zero say nothing.
    """
    if squares <= 0.0:
        return np.zeros_like(logdets)
    return -0.5 * (logdets + n * np.log(np.maximum(residuals, MIN_RESIDUAL_SHARE * squares)))


def log_evidences(
    priors: Sequence[Sequence[QuadraticForm]], squares: float, n: float, ridges: FloatArray, noise: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Log evidence and noise variance, (priors, ridges), from the sums of each prior's parameters.

    The variance is S/n, or that of a `noise` which is known; the evidence is then det(V / ridge)^(-1/2) exp(-S / 2).
    """
    parts = [part for prior in priors for part in prior]
    forms = _tridiagonal_forms(parts, ridges) if len(parts[0].b) >= TRIDIAGONAL_FROM else None
    logdets, values = _spectral_forms(parts, ridges) if forms is None else forms
    whole = np.array([math.nan if part.whole is None else part.whole for part in parts])[:, None]
    explained = np.where(np.isnan(whole), values, whole - ridges * values)  # X X^T (X X^T + c)^-1 = 1 - c (...)^-1
    logdets, explained = (each.reshape(len(priors), -1, len(ridges)).sum(axis=1) for each in (logdets, explained))
    residuals = np.maximum(squares - explained, MIN_RESIDUAL_SHARE * squares)
    if noise is not None:
        return -0.5 * (logdets + residuals / noise**2), np.full_like(residuals, noise**2)
    return log_evidence(logdets, residuals, n, squares), residuals / n


def _tridiagonal_forms(parts: Sequence[QuadraticForm], ridges: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """ln det(G / ridge + 1) and b^T (G + ridge)^-1 b, (parts, ridges); None where rounding is larger than a ridge.

    G is made tridiagonal by reflections, the first of which turns b into its length: that of the matrix bordered by b
    does both. With L D L^T = T + ridge from the last row to the first, the form is b^T b over the last of D.
    """
    count, size = len(parts), len(parts[0].b)
    # All parts and ridges in one matrix: blocks on its diagonal, with a zero beside the end of each.
    blocks, between = np.empty((count, len(ridges), size)), np.zeros((count, len(ridges), size))
    lengths = np.empty((count, 1))
    for i, part in enumerate(parts):
        bordered = np.zeros((size + 1, size + 1), order="F")
        bordered[1:, 0], bordered[1:, 1:] = part.b, part.gram
        _, diagonal, beside, _, _ = dsytrd(bordered, lower=1, lwork=32 * (size + 1), overwrite_a=1)
        np.add(diagonal[:0:-1], ridges[:, None], out=blocks[i])
        between[i, :, :-1], lengths[i] = beside[:0:-1], beside[0]
    pivots, _, failed = dpttrf(blocks.ravel(), between.ravel()[:-1])
    if failed:
        return None
    pivots = pivots.reshape(blocks.shape)
    return np.log(pivots).sum(axis=2) - size * np.log(ridges), lengths**2 / pivots[..., -1]


def _spectral_forms(parts: Sequence[QuadraticForm], ridges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """As `_tridiagonal_forms`, by eigenvectors."""
    spectra, bases = np.linalg.eigh(np.stack([part.gram for part in parts]))
    spectra = np.maximum(spectra, 0.0)[:, None]
    turned = np.stack([part.b @ basis for part, basis in zip(parts, bases, strict=True)])[:, None]
    logdets = np.log1p(spectra / ridges[:, None]).sum(axis=2)
    return logdets, (turned**2 / (ridges[:, None] + spectra)).sum(axis=2)


def typical_scales(data: Moments) -> tuple[FloatArray, float]:
    """Units of the columns, and the squared length of a row in them, less their means, on average; 0 if unknown."""
    if data.n < 3 or math.isnan(data.total):
        return np.ones(len(data.moment)), 0.0
    squares = np.diag(data.second)
    units = like_units(data.extent if data.extent.any() else np.sqrt(squares / data.n))
    return units, float(((squares - data.first**2 / data.n) / units**2).sum()) / data.n


def order_contradiction(data: Moments) -> str | None:
    """What the data say against the order of the features, if they do; a constant in the rewards does not matter."""
    units, longest = typical_scales(data)
    if longest <= 0 or not data.extent.any():  # without the last it is not known whether they are raw
        return None
    prior = EvidencePrior(EXPONENTS, factor=1.0, constant=True)
    return prior([data], longest, units, 0).contradiction(EXPONENTS)
