"""Models that learn their prior and the noise as they go, by the evidence of the data.

The notes of `EvidenceLinUCB` have the formula. After pulls 1, 2, 4, 8, ... a model takes, of the ridges whose evidence
is within a Bayes factor of the largest, the smallest, and estimates the noise by what that ridge leaves over.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, FloatArray, as_numpy, like
from adadim.core.problem import Problem
from adadim.core.recording import on_host
from adadim.core.rows import Rows
from adadim.models import Form
from adadim.models.context import ContextPosterior
from adadim.models.linear import ContextModel, FixedModel, Memo, Model
from adadim.models.moments import Moments

RIDGES: FloatArray = 10.0 ** np.arange(-6.0, 2.5, 0.5)
"""Ridges to choose from: (noise / size of a leading coefficient)^2, for features whose longest arm has norm 1."""

RAW = 10.0  # a column so many times as large as an earlier one is in raw units, which say nothing about its weight

SMALLEST = 1e-12  # share of the rewards' sum of squares below which a residual is rounding


def taper_weights(taper: float, dim: int) -> FloatArray:
    """j^(-taper/2) for j = 1, ..., dim: a ridge of lambda j^taper is a ridge of lambda on features so multiplied."""
    return np.arange(1.0, dim + 1) ** (-taper / 2)


class Tuned(Model):
    """What models with a learned prior share: `ridge` and `noise` (NaN before an estimate) of each replication."""

    ridge: FloatArray
    noise: FloatArray

    def learn_prior(self, count: int, factor: float) -> None:
        """Begin with nothing known, in `count` replications; `factor` is the Bayes factor that rules a ridge out."""
        self.factor = factor
        self.ridge, self.noise = np.full(count, RIDGES[0]), np.full(count, np.nan)
        self.changed: list[int] = []  # replications whose prior changed since a rule last looked
        self.totals = np.zeros(count)  # log of the evidence averaged over the ridges

    def learn_by(self, learn: Callable[..., None], arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        super().learn_by(learn, arms, rewards, rows, memo)
        self.learned(rows)

    @abstractmethod
    def learned(self, rows: Rows) -> None:
        """Take note that a reward of each replication of `rows` was learned: update the prior when it is time."""

    def choose_prior(self, r: int, logs: FloatArray, variances: FloatArray, n: float) -> int:
        """Which of the ridges to use, given the log evidence and noise variance of each; sets the noise."""
        chosen = int(np.argmax(logs >= logs.max() - math.log(self.factor)))
        self.totals[r] = np.logaddexp.reduce(logs) - math.log(len(logs))
        self.noise[r] = math.sqrt(variances[chosen] * (1 + math.sqrt(2 / n)))
        self.changed.append(r)
        return chosen

    def describe(self, r: int) -> dict[str, Any]:
        noise = float(self.noise[r])
        return {**super().describe(r), "ridge": float(self.ridge[r]), "noise": None if math.isnan(noise) else noise}


class TunedFixedModel(Tuned, FixedModel):
    """The same arms in every round, divided by the root of each replication's ridges, so that the ridge is 1."""

    fixed_operations = False  # between the pulls after which the prior is updated they are

    def __init__(self, problem: Problem, taper: float, factor: float, form: Form, columns: int | None = None) -> None:
        self.learn_prior(len(problem), factor)
        self.tapers = like(taper_weights(taper, problem.dim) / math.sqrt(RIDGES[0]), problem.reference)
        super().__init__(problem, 1.0, dim=columns, form=form)
        self.answered = np.zeros(len(problem), dtype=np.int64)
        self.divided = self.state.actions.base  # the features, divided anew when the ridge changes: they are state

    def features(self) -> ActionSet:
        """Arms in units in which those of round 1 are alike, tapered, divided by the root of the ridge."""
        tapered = in_units(self.problem).weighted(self.tapers)
        if (self.ridge != RIDGES[0]).any():
            divided = like(np.sqrt(RIDGES[0] / self.ridge), tapered.base)[:, None, None]
            tapered = tapered.with_base(tapered.base * divided)
        return tapered

    def learned(self, rows: Rows) -> None:
        on_host(lambda: self._count(rows.ids))

    def _count(self, ids: np.ndarray[Any, Any]) -> None:
        self.answered[ids] += 1
        n = self.answered[ids]
        for r in ids[n & (n - 1) == 0].tolist():  # 1, 2, 4, 8, ...
            self._update_prior(r)

    def _update_prior(self, r: int) -> None:
        state, n, squares = self.state, int(self.answered[r]), float(self.state.squares[r])
        if squares == 0:
            return
        pulled = np.flatnonzero(as_numpy(state.counts[r]))
        at = like(pulled, state.squares)
        root = np.sqrt(as_numpy(state.counts[r])[pulled])
        design = as_numpy(state.actions.dense(r)[at]) * (root * math.sqrt(self.ridge[r]))[:, None]
        logs, variances = evidence(design, as_numpy(state.sums[r])[pulled] / root, squares, n)
        ridge = RIDGES[self.choose_prior(r, logs, variances, n)]
        if ridge != self.ridge[r]:
            self.divided[r] *= math.sqrt(self.ridge[r] / ridge)
            self.ridge[r] = ridge
            state.refactor(Rows.some(np.array([r]), state.squares))


class TunedContextModel(Tuned, ContextModel):
    """Features that come with each round (NumPy): the prior is updated from the moments of the regression.

    The features are not known beforehand. The ridges are relative to the longest arm offered so far; and columns in raw
    units are divided by the largest value offered so far, which is looked at anew when the prior is updated. Where each
    arm has a parameter, they all share prior and noise.
    """

    fixed_operations = False
    on_host = True
    state: ContextPosterior

    def __init__(self, problem: Problem, taper: float, factor: float) -> None:
        count = len(problem)
        self.tapers = taper_weights(taper, problem.dim)
        self.extent = np.zeros((count, problem.dim))  # largest absolute value of each column
        self.units, self.longest = np.ones((count, problem.dim)), np.zeros(count)
        self.learn_prior(count, factor)
        super().__init__(problem, 1.0)
        self.ridge[:] = 1.0

    def blocks_of(self, r: int) -> range:
        """The regressions of `state` that belong to a replication."""
        return range(r * self.blocks, (r + 1) * self.blocks)

    def scaled(self, features: Array, rows: Rows) -> Array:
        """Features (n, ..., d) in like units, tapered."""
        factors = self.tapers / rows.of(self.units)
        return features * factors.reshape(len(factors), *[1] * (features.ndim - 2), -1)

    def seen(self, features: Array) -> Array:
        return self.scaled(features, Rows.all(self.units))

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        assert rows.features is not None
        self.notice(rows.features, rows)
        return self.predict_seen(self.scaled(rows.features, rows), rows)

    def decided(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        return chosen, {"features": self.features_of(chosen, rows)}  # as they are: the units may change

    def pulled(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        return self.scaled(memo["features"], rows)

    def logged(self, features: Array) -> Memo:
        return {"features": features}

    def notice(self, offered: Array, rows: Rows) -> None:
        """Keep the largest values offered, (n, K, d) or (n, d); before the first reward they choose units and ridge."""
        offered = offered.reshape(len(offered), -1, self.dim)
        largest = np.abs(offered).max(axis=1)
        if (largest > rows.of(self.extent)).any():
            rows.put(self.extent, np.maximum(rows.of(self.extent), largest))
            for r in rows.ids.tolist():
                if not self.pulls[r]:
                    self._change_units(r, like_units(self.extent[r]))
                    if self.state.asked is not None:
                        self._refresh(r, float(self.ridge[r]))
        if (self.units == 1).all():
            lengths = np.vecdot(offered, offered)
        else:
            in_units = offered / rows.of(self.units)[:, None, :]
            lengths = np.vecdot(in_units, in_units)
        for r, squared in zip(rows.ids.tolist(), lengths.max(axis=1).tolist(), strict=True):
            if squared > self.longest[r]:
                self.longest[r] = squared
                if not self.pulls[r]:
                    self._refresh(r, RIDGES[0] * squared)

    def learned(self, rows: Rows) -> None:
        pulls = rows.of(self.pulls)
        for r in rows.ids[pulls & (pulls - 1) == 0].tolist():  # 1, 2, 4, 8, ...
            if self._change_units(r, like_units(self.extent[r])):
                # The arms are gone: no value is above 1 now, and so no square above their number.
                self.longest[r] = np.count_nonzero(self.extent[r])
                self._refresh(r, RIDGES[0] * float(self.longest[r]))
            self._update_prior(r, int(self.pulls[r]))

    def restart(self, sums: Moments) -> None:
        """Forget everything, and know what these sums say. The prior is updated now, whatever their number."""
        self._begin(sums)
        self.state.restart(0, sums, self.tapers / self.units[0])
        if not sums.squares:  # otherwise updating the prior chooses a ridge, and makes V^-1 with that one
            self._refresh(0, RIDGES[0] * (float(self.longest[0]) or 1.0))
        self._update_prior(0, sums.weight)

    def _begin(self, sums: Moments) -> None:
        """Forget everything but the sizes of the features in these sums."""
        self.extent[0], self.units[0] = sums.extent, like_units(sums.extent)
        raw = (self.units[0] != 1).any()
        self.longest[0] = np.count_nonzero(sums.extent) if raw else sums.longest
        self.noise[0] = np.nan
        self.changed.append(0)
        if sums.asked is None:
            self.drop_expected()

    def _change_units(self, r: int, units: FloatArray) -> bool:
        """Use other units from now on, for what was pulled before too; gives whether they differ."""
        if (units == self.units[r]).all():
            return False
        for block in self.blocks_of(r):
            self.state.rescale(block, self.units[r] / units)
        self.units[r] = units
        return True

    def _refresh(self, r: int, ridge: float) -> None:
        self.ridge[r] = ridge
        for block in self.blocks_of(r):
            self.state.refresh(block, ridge)

    def _update_prior(self, r: int, n: float) -> None:
        """Choose ridge and noise of one replication by the `n` pulls it has seen."""
        state, blocks, scale = self.state, self.blocks_of(r), float(self.longest[r]) or 1.0
        squares = float(sum(state.squares[block] for block in blocks))
        if squares == 0:
            return
        logs, variances = evidence_of_moments([state.moments(block) for block in blocks], squares, n, scale)
        self._refresh(r, RIDGES[self.choose_prior(r, logs, variances, n)] * scale)


def tuned_model(problem: Problem, taper: float, factor: float, form: Form) -> Tuned:
    """The model with a learned prior for what a problem offers."""
    if problem.contextual:
        return TunedContextModel(problem, taper, factor)
    return TunedFixedModel(problem, taper, factor, form)


def in_units(problem: Problem) -> ActionSet:
    """The arms in units in which those of round 1 are alike, and the longest of them has norm 1."""
    first = problem.first_arms
    return problem.actions.in_like_units(RAW, first).rescaled(first)


def like_units(extent: FloatArray) -> FloatArray:
    """What to divide columns by whose largest values are these: by those if the columns are in raw units, or by 1."""
    known = np.where(extent > 0, extent, np.inf)
    if not np.any(extent > RAW * np.minimum.accumulate(known)):
        return np.ones_like(extent)
    return np.where(extent > 0, extent, 1.0)


def evidence(design: FloatArray, sums: FloatArray, squares: float, n: int) -> tuple[FloatArray, FloatArray]:
    """Log evidence of every one of `RIDGES`, up to a constant, and the noise variance S/n it goes with.

    `design` (p, d) are the distinct arms pulled, each times the root of its number of pulls, `sums` (p,) the sums of
    their rewards, divided by that root; `squares` is the sum of all squared rewards and `n` the number of pulls.
    """
    # One eigendecomposition, of the smaller side, serves all ridges: X X^T and X^T X share their spectrum.
    if len(design) <= design.shape[1]:
        spectrum, basis = np.linalg.eigh(design @ design.T)
        fitted = np.maximum(spectrum, 0.0) * (basis.T @ sums) ** 2
    else:
        spectrum, basis = np.linalg.eigh(design.T @ design)
        fitted = (basis.T @ (design.T @ sums)) ** 2
    return evidence_of_spectrum(spectrum, fitted, squares, n, RIDGES)


def evidence_of_moments(
    parts: Sequence[tuple[FloatArray, FloatArray]], squares: float, n: float, scale: float
) -> tuple[FloatArray, FloatArray]:
    """The same of every one of `RIDGES` times `scale`, from X^T X and X^T r of every parameter."""
    spectra, fitted = [], []
    for second, b in parts:
        spectrum, basis = np.linalg.eigh(second)
        spectra.append(spectrum)
        fitted.append((basis.T @ b) ** 2)
    return evidence_of_spectrum(np.concatenate(spectra), np.concatenate(fitted), squares, n, RIDGES * scale)


def evidence_of_spectrum(
    spectrum: FloatArray, fitted: FloatArray, squares: float, n: float, ridges: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log evidence and noise variance of every ridge, from the spectrum of X^T X and the squares of b in its basis."""
    spectrum, grid = np.maximum(spectrum, 0.0), ridges[:, None]
    residual = np.maximum(squares - np.sum(fitted / (grid + spectrum), axis=-1), SMALLEST * squares)
    logdet = np.sum(np.log1p(spectrum / grid), axis=-1)
    return -0.5 * (logdet + n * np.log(residual)), residual / n
