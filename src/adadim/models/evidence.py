"""Models that learn their prior and the noise as they go, by the evidence of the data.

The notes of `EvidenceLinUCB` have the formula. After pulls 1, 2, 4, 8, ... a model takes, of the ridges whose evidence
is within a Bayes factor of the largest, the smallest, and estimates the noise by what that ridge leaves over.

**The shape of the prior** (`Shaped`): how fast importance fades with the index, and a free constant. Rewards are
c + <x, theta> plus noise, with theta_j ~ N(0, sigma^2 / (lambda j^s)) and a flat prior on c. With c integrated out, the
evidence of lambda and s is that for features and rewards less their means over the n pulls, with n - 1 in the place of
n. Of several exponents s a model uses the smallest whose evidence, summed over the ridges, is within a Bayes factor
(`doubt`) of the largest; if all are alike, the largest. While rewards are late, both Bayes factors, of the ridge and
of the exponent, count by the share of the decisions that have their reward.

Between two looks at the prior the constant is a column of the regression, in front of the others. Rewards are learned
less their mean as of the last look (`offset`), so that the prior of that column, `WIDE` times as wide as that of the
effect of the longest arm and never narrower than the noise, is as good as flat: adding a number to all rewards changes
nothing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpttrf, dsytrd

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, FloatArray, as_numpy, like, namespace, zeros
from adadim.core.problem import Problem
from adadim.core.recording import on_host
from adadim.core.rows import Rows
from adadim.models import Form
from adadim.models.context import ContextPosterior
from adadim.models.factor import SMALLEST, log_evidence
from adadim.models.linear import ContextModel, FixedModel, Memo, Model
from adadim.models.moments import Moments

RIDGES: FloatArray = 10.0 ** np.arange(-6.0, 2.5, 0.5)
"""Ridges to choose from: (noise / size of a leading coefficient)^2, for features whose longest arm has norm 1."""

RAW = 10.0  # a column this many times as large as an earlier one is in raw units, which say nothing about its weight

TRIDIAGONAL_FROM = 12  # rows from which a tridiagonal matrix is found sooner than eigenvectors (measured)


def taper_weights(taper: float, dim: int) -> FloatArray:
    """j^(-taper/2) for j = 1, ..., dim: a ridge of lambda j^taper is a ridge of lambda on features so multiplied."""
    return np.arange(1.0, dim + 1) ** (-taper / 2)


shared_weights = lru_cache(maxsize=64)(taper_weights)  # the cached array, not to be written to


class Tuned(Model):
    """What models with a learned prior share: `ridge` and `noise` (NaN before an estimate) of each replication."""

    ridge: FloatArray
    noise: FloatArray

    def start_prior(self, count: int, factor: float) -> None:
        """Initialise the prior of `count` replications; `factor` is the Bayes factor that rules a ridge out."""
        self.factor = factor
        self.ridge, self.noise = np.full(count, RIDGES[0]), np.full(count, np.nan)
        self.waiting = np.zeros(count, dtype=np.int64)  # decisions whose reward is not known yet
        self.changed: list[int] = []  # replications whose prior has changed since the radii were updated
        self.totals = np.zeros(count)  # log of the evidence averaged over the ridges

    def learn_by(self, learn: Callable[..., None], arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        super().learn_by(learn, arms, rewards, rows, memo)
        self.after_learning(rows)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        on_host(self._count_waiting, rows, 1)
        super().expect(arms, rows, memo)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        on_host(self._count_waiting, rows, -1)
        super().answer(arms, rewards, rows, memo)

    def drop_expected(self) -> None:
        self.waiting[:] = 0
        super().drop_expected()

    def _count_waiting(self, rows: Rows, change: int) -> None:
        self.waiting[rows.ids] += change

    @abstractmethod
    def after_learning(self, rows: Rows) -> None:
        """Update the prior if it is due, after a reward of each replication of `rows` was learned."""

    def choose_prior(self, r: int, logs: FloatArray, variances: FloatArray, n: float) -> int:
        """Which of the ridges to use, given the log evidence and noise variance of each; sets the noise."""
        chosen = int(np.argmax(logs >= logs.max() - self.log_bound(r, self.factor, n)))
        self.totals[r] = np.logaddexp.reduce(logs) - math.log(len(logs))
        self.noise[r] = math.sqrt(variances[chosen] * (1 + math.sqrt(2 / n)))
        self.changed.append(r)
        return chosen

    def log_bound(self, r: int, factor: float, n: float) -> float:
        """Log of the Bayes factor that rules a prior out, when `n` decisions are answered.

        A prior that is in doubt is kept so that its arms are explored further. Decisions that wait for their reward
        explore already: the factor counts by the share of the decisions that are answered.
        """
        return math.log(factor) * n / (n + int(self.waiting[r]))

    def describe(self, r: int) -> dict[str, Any]:
        noise = float(self.noise[r])
        return {**super().describe(r), "ridge": float(self.ridge[r]), "noise": None if math.isnan(noise) else noise}


class TunedFixedModel(Tuned, FixedModel):
    """The same arms in every round, divided by the root of each replication's ridges, so that the ridge is 1."""

    fixed_operations = False  # between the pulls after which the prior is updated they are
    keeps_ridge = False

    def __init__(self, problem: Problem, taper: float, factor: float, form: Form, columns: int | None = None) -> None:
        self.start_prior(len(problem), factor)
        self.tapers = like(taper_weights(taper, problem.dim) / math.sqrt(RIDGES[0]), problem.reference)
        super().__init__(problem, 1.0, dim=columns, form=form)
        self.answered = np.zeros(len(problem), dtype=np.int64)
        self.divided = self.state.actions.base  # the features, divided again when the ridge changes: they are state

    def features(self) -> ActionSet:
        """Arms in units in which those of round 1 are alike, tapered, divided by the root of the ridge."""
        tapered = in_units(self.problem).weighted(self.tapers)
        if (self.ridge != RIDGES[0]).any():
            divided = like(np.sqrt(RIDGES[0] / self.ridge), tapered.base)[:, None, None]
            tapered = tapered.with_base(tapered.base * divided)
        return tapered

    def after_learning(self, rows: Rows) -> None:
        on_host(self._count, rows.ids)

    def restart(self, counts: Array, sums: Array, squares: Array) -> None:
        """Replace everything learned by what these sums determine, in a model that has learned nothing yet."""
        self.state.rebuild(counts, sums, self.state.everyone, squares)
        self.answered[:] = as_numpy(counts).sum(axis=1)
        for r in np.flatnonzero(self.answered).tolist():
            self._update_prior(r)

    def _count(self, ids: np.ndarray[Any, Any]) -> None:
        self.answered[ids] = answered = self.answered[ids] + 1
        for r, n in zip(ids.tolist(), answered.tolist(), strict=True):
            if not n & (n - 1):  # 1, 2, 4, 8, ...
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
    units are divided by their largest value offered so far, as of the last update of the prior. Where each arm has a
    parameter, they all share prior and noise.
    """

    fixed_operations = False
    on_host = True
    state: ContextPosterior

    def __init__(self, problem: Problem, taper: float, factor: float) -> None:
        count = len(problem)
        self.tapers = taper_weights(taper, problem.dim)
        self.extent = np.zeros((count, problem.dim))  # largest absolute value of each column
        self.units, self.longest = np.ones((count, problem.dim)), np.zeros(count)
        self.start_prior(count, factor)
        super().__init__(problem, 1.0)
        self.ridge[:] = 1.0

    def blocks_of(self, r: int) -> range:
        """The regressions of `state` that belong to a replication."""
        return range(r * self.blocks, (r + 1) * self.blocks)

    def scaled(self, features: Array, rows: Rows) -> Array:
        """Features (n, ..., d) in like units, tapered."""
        factors = self.tapers / rows.of(self.units)
        return features * factors.reshape(len(factors), *[1] * (features.ndim - 2), -1)

    def inputs(self, features: Array) -> Array:
        return self.scaled(features, Rows.all(self.units))

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        assert rows.features is not None
        self.observe_offer(rows.features, rows)
        return self.predict_inputs(self.scaled(rows.features, rows), rows)

    def predict_in_turn(self, rounds: Array | Sequence[Array]) -> Generator[tuple[Array, Array], int, None] | None:
        # Before the first reward, units and ridge go by what is offered in each round.
        return super().predict_in_turn(rounds) if self.pulls[0] else None

    def arms_and_memo(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        return chosen, {"features": self.features_of(chosen, rows)}  # unscaled: the units may change

    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        return self.scaled(memo["features"], rows)

    def logged_memo(self, features: Array) -> Memo:
        return {"features": features}

    def observe_offer(self, offered: Array, rows: Rows) -> None:
        """Record the largest values offered, (n, K, d) or (n, d); before the first reward they set units and ridge."""
        offered = offered.reshape(len(offered), -1, self.dim)
        largest = np.maximum.reduce(np.abs(offered), axis=1)
        if np.logical_or.reduce(largest > rows.of(self.extent), axis=None):
            rows.put(self.extent, np.maximum(rows.of(self.extent), largest))
            for r in rows.ids.tolist():
                if not self.pulls[r]:
                    self._change_units(r, like_units(self.extent[r]))
                    if self.state.asked is not None:
                        self._refresh(r, float(self.ridge[r]))
        if np.logical_and.reduce(self.units == 1, axis=None):
            lengths = np.vecdot(offered, offered)
        else:
            divided = offered / rows.of(self.units)[:, None, :]
            lengths = np.vecdot(divided, divided)
        for r, squared in zip(rows.ids.tolist(), np.maximum.reduce(lengths, axis=1).tolist(), strict=True):
            if squared > self.longest[r]:
                self.longest[r] = squared
                if not self.pulls[r]:
                    self._refresh(r, RIDGES[0] * squared)

    def after_learning(self, rows: Rows) -> None:
        pulls = rows.of(self.pulls)
        for r in rows.ids[pulls & (pulls - 1) == 0].tolist():  # 1, 2, 4, 8, ...
            if self._change_units(r, like_units(self.extent[r])):
                # Earlier arms are not kept: no value is above 1 in these units, and no squared length above the number.
                self.longest[r] = np.count_nonzero(self.extent[r])
                self._refresh(r, RIDGES[0] * float(self.longest[r]))
            self._update_prior(r, int(self.pulls[r]))

    def restart(self, sums: Moments) -> None:
        # The prior is updated now, whatever the number of pulls.
        self._begin(sums)
        self.state.restart(0, sums, self.tapers / self.units[0])
        if not sums.squares:  # otherwise updating the prior chooses a ridge, and makes V^-1 with that one
            self._refresh(0, RIDGES[0] * (float(self.longest[0]) or 1.0))
        self._update_prior(0, sums.weight)

    def _begin(self, sums: Moments) -> None:
        """Forget everything but the sizes of the features in these sums."""
        self.extent[0], self.units[0] = sums.extent, like_units(sums.extent)
        self.waiting[0] = 0  # decisions must depend on the sums alone
        raw = (self.units[0] != 1).any()
        self.longest[0] = np.count_nonzero(sums.extent) if raw else sums.longest
        self.noise[0] = np.nan
        self.changed.append(0)
        if sums.asked is None:
            self.drop_expected()

    def _change_units(self, r: int, units: FloatArray) -> bool:
        """Use these units from now on, for past pulls too; returns whether they differ from the present ones."""
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
        """Choose ridge and noise of one replication by its `n` pulls."""
        state, blocks, scale = self.state, self.blocks_of(r), float(self.longest[r]) or 1.0
        squares = float(sum(state.squares[block] for block in blocks))
        if squares == 0:
            return
        logs, variances = evidence_of_moments([[state.moments(block) for block in blocks]], squares, n, scale)
        self._refresh(r, RIDGES[self.choose_prior(r, logs[0], variances[0], n)] * scale)


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
    """What to divide columns of these largest values by: the values if the columns are in raw units, or else 1."""
    if 0 < extent.max() <= RAW * extent.min():  # the usual case, and quick
        return np.ones_like(extent)
    positive = np.where(extent > 0, extent, np.inf)
    if not np.any(extent > RAW * np.minimum.accumulate(positive)):
        return np.ones_like(extent)
    return np.where(extent > 0, extent, 1.0)


def evidence(design: FloatArray, sums: FloatArray, squares: float, n: float) -> tuple[FloatArray, FloatArray]:
    """Log evidence of every one of `RIDGES`, up to a constant, and the noise variance S/n it goes with.

    `design` (p, d) are the distinct arms pulled, each times the root of its number of pulls, `sums` (p,) the sums of
    their rewards, divided by that root; `squares` is the sum of all squared rewards and `n` the number of pulls.
    """
    # One decomposition, of the smaller side, serves all ridges: X X^T and X^T X share their spectrum.
    wide = len(design) <= design.shape[1]
    gram, b = (design @ design.T, sums) if wide else (design.T @ design, design.T @ sums)
    if len(b) >= TRIDIAGONAL_FROM and (forms := ridge_forms([(gram, b)], RIDGES)) is not None:
        logdet, form = forms[0][0], forms[1][0]
        explained = sums @ sums - RIDGES * form if wide else form  # X X^T (X X^T + ridge)^-1 = 1 - ridge (...)^-1
        return _evidence(logdet, explained, squares, n)
    spectrum, basis = np.linalg.eigh(gram)
    fitted = (basis.T @ b) ** 2
    return evidence_of_spectrum(spectrum, np.maximum(spectrum, 0.0) * fitted if wide else fitted, squares, n, RIDGES)


Parts = Sequence[tuple[FloatArray, FloatArray]]  # X^T X and X^T r of each parameter, all of one size


def ridge_forms(parts: Parts, ridges: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """ln det(G / ridge + 1) and b^T (G + ridge)^-1 b, (parts, ridges); None where rounding is larger than a ridge.

    G is made tridiagonal by reflections, the first of which turns b into its length: that of the matrix bordered by b
    does both. With L D L^T = T + ridge from the last row to the first, the form is b^T b over the last of D.
    """
    count, size = len(parts), len(parts[0][1])
    # All parts and ridges in one matrix: blocks on its diagonal, with a zero beside the end of each.
    blocks, between = np.empty((count, len(ridges), size)), np.zeros((count, len(ridges), size))
    lengths = np.empty((count, 1))
    for i, (gram, b) in enumerate(parts):
        bordered = np.zeros((size + 1, size + 1), order="F")
        bordered[1:, 0], bordered[1:, 1:] = b, gram
        _, diagonal, beside, _, _ = dsytrd(bordered, lower=1, lwork=32 * (size + 1), overwrite_a=1)
        np.add(diagonal[:0:-1], ridges[:, None], out=blocks[i])
        between[i, :, :-1], lengths[i] = beside[:0:-1], beside[0]
    pivots, _, failed = dpttrf(blocks.ravel(), between.ravel()[:-1])
    if failed:
        return None
    pivots = pivots.reshape(blocks.shape)
    return np.log(pivots).sum(axis=2) - size * np.log(ridges), lengths**2 / pivots[..., -1]


def evidence_of_moments(
    priors: Sequence[Parts], squares: float, n: float, scale: float
) -> tuple[FloatArray, FloatArray]:
    """As `evidence`, for `RIDGES` times `scale`, (priors, ridges), from moments of features as each prior has them."""
    ridges, all_parts = RIDGES * scale, [part for parts in priors for part in parts]
    if len(all_parts[0][1]) >= TRIDIAGONAL_FROM and (forms := ridge_forms(all_parts, ridges)) is not None:
        logdets, explained = (form.reshape(len(priors), -1, len(ridges)).sum(axis=1) for form in forms)
        return _evidence(logdets, explained, squares, n)
    evidences = []
    for parts in priors:
        spectra, fitted = [], []
        for second, b in parts:
            spectrum, basis = np.linalg.eigh(second)
            spectra.append(spectrum)
            fitted.append((basis.T @ b) ** 2)
        evidences.append(evidence_of_spectrum(np.concatenate(spectra), np.concatenate(fitted), squares, n, ridges))
    return np.array([logs for logs, _ in evidences]), np.array([variances for _, variances in evidences])


def evidence_of_spectrum(
    spectrum: FloatArray, fitted: FloatArray, squares: float, n: float, ridges: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log evidence and noise variance of every ridge, from the spectrum of X^T X and the squares of b in its basis."""
    spectrum, grid = np.maximum(spectrum, 0.0), ridges[:, None]
    logdet = np.sum(np.log1p(spectrum / grid), axis=-1)
    return _evidence(logdet, np.sum(fitted / (grid + spectrum), axis=-1), squares, n)


def _evidence(logdet: FloatArray, explained: FloatArray, squares: float, n: float) -> tuple[FloatArray, FloatArray]:
    residual = np.maximum(squares - explained, SMALLEST * squares)
    return log_evidence(logdet, residual, n, squares), residual / n


WIDE = 1.5  # see the module's docstring
REPORTED_FACTOR = 10.0  # Bayes factor from which data that contradict the order of the features are reported
SETTLED_PULLS = 64  # after so many a new mean of the rewards alone is not worth a factorisation
ALIKE = 1e-6  # logs of evidences that differ by less count as equal, as those of all exponents are after two rewards

Exponents = tuple[float, ...]
EXPONENTS: Exponents = (0.0, 0.9, 1.75)  # of the recommended policy


def contradiction(shapes: FloatArray, likely: float, usual: float) -> str | None:
    """A sentence on the order of the features if the exponent `likely` is far likelier than `usual`, the last one.

    `shapes` are the logs of the evidence of each exponent.
    """
    log = shapes.max() - shapes[-1]
    if log < math.log(REPORTED_FACTOR):
        return None
    times = f"{math.exp(log):.0f}" if log < math.log(1e6) else "more than a million"
    says = "little" if likely else "nothing"
    return f"the order of your features says {says}: exponent {likely:g} is {times} times as likely as {usual:g}"


def order_contradiction(sums: Moments) -> str | None:
    """As `contradiction`, from sums over pulls; a constant in the rewards does not matter."""
    n, units = sums.weight, like_units(sums.extent)
    if n < 3 or math.isnan(sums.total) or not sums.extent.any():  # without the last the units are unknown
        return None
    squares, mean = sums.squares - sums.total**2 / n, sums.first / n
    second = (sums.second - n * np.outer(mean, mean)) / np.outer(units, units)
    moment = (sums.moment - mean * sums.total) / units
    scale = float(np.trace(second)) / n  # squared length of a row, on average
    if squares <= 0 or scale <= 0:
        return None
    tapers = [taper_weights(exponent, len(moment)) for exponent in EXPONENTS]
    priors = [[(second * np.outer(weights, weights), moment * weights)] for weights in tapers]
    shapes = np.logaddexp.reduce(evidence_of_moments(priors, squares, n - 1, scale)[0], axis=1)
    return contradiction(shapes, EXPONENTS[int(np.argmax(shapes))], EXPONENTS[-1])


class Shaped(Tuned):
    """What models with a learned shape share: `exponent` (R,) in use, and log evidences `shapes` (R, E) of all."""

    problem: Problem

    def start_shape(self, count: int, exponents: Exponents, doubt: float, offset: Array) -> None:
        """Initialise the shape; `offset` (R,) are zeros of the library that it computes with."""
        self.exponents, self.doubt, self.offset = exponents, doubt, offset
        self.exponent, self.shapes = np.full(count, exponents[-1]), np.zeros((count, len(exponents)))

    def learn_by(self, learn: Callable[..., None], arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        super().learn_by(learn, arms, rewards - rows.of(self.offset), rows, memo)

    def choose_shape(self, r: int, logs: FloatArray, variances: FloatArray, n: float) -> float:
        """The ridge to use, given `evidence` of each exponent, (E, ridges); sets exponent and noise."""
        self.shapes[r] = np.logaddexp.reduce(logs, axis=1)
        shapes, most = self.shapes[r], self.shapes[r].max()
        best = int(np.flatnonzero(shapes >= most - ALIKE)[-1])
        if shapes.min() < most - ALIKE:  # of those in doubt the smallest, for which late features matter most
            best = min(best, int(np.argmax(shapes >= most - self.log_bound(r, self.doubt, n))))
        self.exponent[r] = self.exponents[best]
        return float(RIDGES[self.choose_prior(r, logs[best], variances[best], n)])

    def constant(self, ridge: float) -> float:
        """Size of the constant column, in units of the longest arm."""
        return WIDE * max(1.0, math.sqrt(ridge))

    def describe(self, r: int) -> dict[str, Any]:
        shape = {"dim": self.problem.dim, "taper": float(self.exponent[r]), "order": self.contradiction(r)}
        return {**super().describe(r), **shape}

    def contradiction(self, r: int) -> str | None:
        """What the data say against the order of the features, if they do."""
        return contradiction(self.shapes[r], float(self.exponent[r]), self.exponents[-1])


class ShapedFixedModel(Shaped, TunedFixedModel):
    """The same arms in every round, behind a constant, times `multipliers` (R, 1 + d), so that the ridge is 1."""

    def __init__(self, problem: Problem, exponents: Exponents, doubt: float, factor: float, form: Form) -> None:
        self.start_shape(len(problem), exponents, doubt, zeros(problem.reference, len(problem)))
        self.multipliers = np.tile(self._weights(exponents[-1], RIDGES[0], problem.dim), (len(problem), 1))
        TunedFixedModel.__init__(self, problem, exponents[-1], factor, form, problem.dim + 1)
        self.state.sparing = True

    def _weights(self, exponent: float, ridge: float, dim: int) -> FloatArray:
        column = np.array([self.constant(ridge)])
        return np.concatenate([column, taper_weights(exponent, dim)]) / math.sqrt(ridge)

    def features(self) -> ActionSet:
        problem, weights = self.problem, like(self.multipliers, self.problem.reference)
        actions = with_constant(problem.actions.in_like_units(RAW, problem.first_arms), problem.first_arms)
        return actions.with_base(actions.base * weights[:, None, :])

    def _update_prior(self, r: int) -> None:
        state, n = self.state, int(self.answered[r])
        counts, sums = as_numpy(state.counts[r]), as_numpy(state.sums[r])
        pulled = np.flatnonzero(counts)
        weights, root = counts[pulled], np.sqrt(counts[pulled])
        mean = float(sums.sum()) / n
        squares = max(float(state.squares[r]) - n * mean * mean, 0.0)
        ridge, exponent = float(self.ridge[r]), float(self.exponent[r])
        if n > 1 and squares > 0:
            x = as_numpy(state.actions.dense(r)[like(pulled, state.squares)])[:, 1:]
            x = x * (math.sqrt(ridge) / taper_weights(exponent, self.problem.dim))
            centred, means = (x - weights @ x / n) * root[:, None], sums[pulled] / root - root * mean
            tapered = (centred * taper_weights(s, x.shape[1]) for s in self.exponents)
            evidences = [evidence(design, means, squares, n - 1) for design in tapered]
            logs, variances = map(np.array, zip(*evidences, strict=True))
            ridge = self.choose_shape(r, logs, variances, n - 1)
        unchanged = (ridge, exponent) == (self.ridge[r], self.exponent[r])
        if unchanged and n > SETTLED_PULLS:
            return
        self.offset[r] += mean
        if unchanged:
            state.shift(r, mean, squares)
            return
        self.ridge[r] = ridge
        multipliers = self._weights(float(self.exponent[r]), ridge, self.problem.dim)
        self.divided[r] *= like(multipliers / self.multipliers[r], state.squares)
        self.multipliers[r] = multipliers
        state.relearn(r, state.sums[r] - mean * state.counts[r], squares)

    def estimates(self) -> tuple[Array, Array, Array]:
        mean, width2, residuals = super().estimates()
        return mean + as_numpy(self.offset)[:, None], width2, residuals

    def shifted_sums(self) -> tuple[Array, Array, Array]:
        """As `pull_sums`, of rewards less the offset."""
        return super().pull_sums()

    def pull_sums(self) -> tuple[Array, Array, Array]:
        counts, sums, squares = super().pull_sums()
        offset, xp = self.offset[:, None], namespace(squares)
        twice = 2.0 * self.offset * xp.sum(sums, axis=1)
        return counts, sums + offset * counts, squares + twice + self.offset**2 * xp.sum(counts, axis=1)


class ShapedContextModel(Shaped, TunedContextModel):
    """Features that come with each round (NumPy), behind a constant, multiplied by `multipliers` (R, 1 + d)."""

    def __init__(self, problem: Problem, exponents: Exponents, doubt: float, factor: float) -> None:
        count = len(problem)
        self.start_shape(count, exponents, doubt, np.zeros(count))
        self.multipliers = np.ones((count, problem.dim + 1))
        TunedContextModel.__init__(self, problem, exponents[-1], factor)
        for r in range(count):
            self._reweigh(r)

    def regression(self, ridge: float) -> ContextPosterior:
        return ContextPosterior(len(self.problem) * self.blocks, self.dim + 1, ridge)

    def scaled(self, features: Array, rows: Rows) -> Array:
        weights = rows.of(self.multipliers)
        weights = weights.reshape(len(weights), *[1] * (features.ndim - 2), -1)
        inputs = np.empty((*features.shape[:-1], self.dim + 1))
        inputs[..., :1] = weights[..., :1]
        np.multiply(features, weights[..., 1:], out=inputs[..., 1:])
        return inputs

    def _reweigh(self, r: int) -> None:
        """Multiply by the present weights from now on, past pulls too; `_refresh` has to follow."""
        multipliers = self._weights(r)
        if (multipliers != self.multipliers[r]).any():
            for block in self.blocks_of(r):
                self.state.rescale(block, multipliers / self.multipliers[r])
            self.multipliers[r] = multipliers

    def _weights(self, r: int) -> FloatArray:
        scale = float(self.longest[r]) or 1.0
        column = math.sqrt(scale) * self.constant(float(self.ridge[r]) / scale)
        return np.concatenate([[column], shared_weights(float(self.exponent[r]), self.dim) / self.units[r]])

    def _change_units(self, r: int, units: FloatArray) -> bool:
        changed = bool((units != self.units[r]).any())
        self.units[r] = units
        if changed:
            self._reweigh(r)
        return changed

    def _refresh(self, r: int, ridge: float) -> None:
        self.ridge[r] = ridge
        self._reweigh(r)
        super()._refresh(r, ridge)

    def restart(self, sums: Moments) -> None:
        self._begin(sums)
        self.offset[0], self.exponent[0] = 0.0, self.exponents[-1]
        self.ridge[0] = RIDGES[0] * (float(self.longest[0]) or 1.0)
        self.multipliers[0] = self._weights(0)
        self.state.restart(0, sums.with_constant(), self.multipliers[0])
        self._update_prior(0, sums.weight)

    def predict_answered(self, features: Array) -> tuple[Array, Array]:
        mean, width2 = super().predict_answered(features)
        return mean + self.offset[0], width2

    def _update_prior(self, r: int, n: float) -> None:
        state, blocks, scale = self.state, self.blocks_of(r), float(self.longest[r]) or 1.0
        column, tapers = self.multipliers[r, 0], shared_weights(float(self.exponent[r]), self.dim)
        parts = [state.moments(block) for block in blocks]
        mean = sum(float(b[0]) for _, b in parts) / (column * n) if n else 0.0
        squares = float(sum(state.squares[block] for block in blocks)) - n * mean * mean
        for block, (second, b) in zip(blocks, parts, strict=True):  # subtract the mean from all rewards
            shifted = float(state.squares[block]) - 2 * mean * float(b[0]) / column
            state.squares[block] = max(shifted + mean * mean * float(second[0, 0]) / column**2, 0.0)
            b -= (mean / column) * second[:, 0]
            if n == 1:  # a single reward is its mean: the difference is rounding, which may be large
                state.squares[block], b[:] = 0.0, 0.0
        self.offset[r] += mean
        if n > 1 and squares > 0:
            untapered = [self.centred(second, b, tapers) for second, b in parts]
            priors = [
                [(second * (weights[:, None] * weights), b * weights) for second, b in untapered]
                for weights in map(self.shape_of, self.exponents)
            ]
            logs, variances = evidence_of_moments(priors, squares, n - 1, scale)
            self._refresh(r, self.choose_shape(r, logs, variances, n - 1) * scale)
        else:
            self._refresh(r, float(self.ridge[r]))

    def centred(self, second: FloatArray, b: FloatArray, tapers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Moments of the features without taper, less their means; rewards have mean zero already.

        Where each arm has a parameter, the constants of the arms differ, and stay: their prior is that of the column.
        """
        if self.problem.disjoint:
            weights = np.concatenate([[1.0], tapers])
            return second / np.outer(weights, weights), b / weights
        x = second[0, 1:] / tapers
        return second[1:, 1:] / (tapers[:, None] * tapers) - x[:, None] * x / second[0, 0], b[1:] / tapers

    def shape_of(self, exponent: float) -> FloatArray:
        """What `centred` features are multiplied by if this is the exponent."""
        tapers = shared_weights(exponent, self.dim)
        return np.concatenate([[1.0], tapers]) if self.problem.disjoint else tapers

    def moments(self) -> list[Moments] | None:
        return self._moments(self.offset)

    def shifted_sums(self) -> list[Moments] | None:
        """As `moments`, of rewards less the offset."""
        return self._moments(np.zeros_like(self.offset))

    def _moments(self, offsets: FloatArray) -> list[Moments] | None:
        if self.problem.disjoint:
            return None
        moments = []
        for r in range(len(self.problem)):
            second, b = self.state.moments(r)
            column, offset, n = self.multipliers[r, 0], float(offsets[r]), int(self.state.pulls[r])
            squares = float(self.state.squares[r]) + 2 * offset * float(b[0]) / column + n * offset * offset
            first, total = second[0, 1:] / column, float(b[0]) / column + n * offset
            moments.append(Moments.of(second[1:, 1:], b[1:] + offset * first, squares, n, first, total))
        return moments


def shaped_model(problem: Problem, exponents: Exponents, doubt: float, factor: float, form: Form) -> Shaped:
    """The model with a learned shape for what a problem offers."""
    if problem.contextual:
        return ShapedContextModel(problem, exponents, doubt, factor)
    return ShapedFixedModel(problem, exponents, doubt, factor, form)


def with_constant(actions: ActionSet, among: Any) -> ActionSet:
    """The arms behind a feature of 1, divided by the longest norm of what varies in them; `among` as in `rescaled`."""
    xp, base = actions.xp, actions.base
    counted = None if among is None else like(among.astype(float), base)[:, :, None] > 0
    low, high = (xp.amin, xp.amax) if hasattr(xp, "amin") else (xp.min, xp.max)
    smallest = low(base if counted is None else xp.where(counted, base, xp.full_like(base, np.inf)), axis=1)
    largest = high(base if counted is None else xp.where(counted, base, xp.full_like(base, -np.inf)), axis=1)
    varying = xp.astype(largest > smallest, xp.float64)
    squared = actions.with_base(base * varying[:, None, :]).squared_norms()
    if among is not None:
        squared = squared * like(np.tile(among, (1, len(actions.levels))), base)
    longest = xp.sqrt(xp.max(squared, axis=-1))
    longest = xp.where(longest > 0, longest, xp.ones_like(longest))[:, None, None]
    scaled = xp.permute_dims(base / longest, (0, 2, 1))  # feature by feature, as arms lie in memory
    extended = actions.with_base(xp.permute_dims(xp.concat([xp.ones_like(scaled[:, :1]), scaled], axis=1), (0, 2, 1)))
    extended.dim, extended.levels, extended._cuts = actions.dim + 1, tuple(level + 1 for level in actions.levels), None
    return extended
