"""Evidence LinUCB: one tapered LinUCB in all features, which learns its prior and the noise as it goes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from adadim.actions import ActionSet
from adadim.backend.arrays import Array, as_numpy, at_each, like
from adadim.backend.clock import Clock
from adadim.backend.recording import on_host
from adadim.backend.rows import Rows
from adadim.backend.ties import Ties
from adadim.checks import positive
from adadim.errors import InvalidValueError
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import noise_radius
from adadim.policies.inputs import logged_features
from adadim.policies.linucb import ContextLinUCBLearner, LinUCB, LinUCBLearner
from adadim.policies.tapered import check_taper, taper_weights
from adadim.posterior import Form
from adadim.posterior.context import ContextPosterior
from adadim.posterior.moments import Moments
from adadim.problem import Problem
from adadim.randomness import Draws, Streams

__all__ = ["RAW", "RIDGES", "EvidenceLinUCB", "check_factor", "evidence"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

RIDGES: FloatArray = 10.0 ** np.arange(-6.0, 2.5, 0.5)
"""Ridges to choose from: (noise / size of a leading coefficient)^2, for features whose longest arm has norm 1."""

RAW = 10.0  # a column so many times as large as an earlier one is in raw units, which say nothing about its weight

SMALLEST = 1e-12  # share of the rewards' sum of squares below which a residual is rounding


@dataclass(frozen=True)
class EvidenceLinUCB(Policy):
    """Learn in all features, with a ridge lambda_j = lambda j^taper that grows with the index and is learned too.

    The policy to start with (`adadim.recommended`). It need not be told d*, the noise or the range of the means: it
    reads neither `Problem.noise` nor `Problem.reward_range`, and multiplying all rewards or all features by a number
    changes none of its choices. Columns in raw units (some column more than 10 times as large as an earlier one) are
    divided by their root mean square first, so that powers 1, x, x^2 can be given as they are; where features come with
    each round, by the largest value seen so far, after rounds 1, 2, 4, ... Rewards should be centred, or the first
    feature be a constant. Prefer `TaperedLinUCB` with ``radius="oful"`` where a guarantee matters more than regret, and
    `LinUCB` where d* is known or the order of the features says nothing.

    Parameters
    ----------
    taper : float
        Exponent s of the ridge; larger values favour small d*.
    scale : float
        Factor on the radius.
    factor : float
        Bayes factor that rules a ridge out. The smallest ridge not ruled out is used, the one that explores most; 1
        would trust the likeliest.
    form, ties
        As in `LinUCB`.

    Notes
    -----
    After rounds 1, 2, 4, 8, ... it takes stock. With theta_j ~ N(0, sigma^2 / (lambda j^s)) and Gaussian noise the data
    of n rounds have the evidence

        det(V / Lambda)^(-1/2) S^(-n/2),   S = sum_t r_t^2 - b^T V^-1 b,

    up to a constant, once sigma^2 has been integrated out under the prior 1/sigma^2 (Lambda is diagonal with entries
    lambda j^s, V = Lambda + sum_t a_t a_t^T, b = sum_t r_t a_t). Of the ridges whose evidence is within `factor` of
    the largest it takes the smallest, and estimates sigma^2 by S/n, plus one standard error sqrt(2/n) of itself. Until
    it takes stock again it is LinUCB with these and the radius scale sigma sqrt(2 ln(2 T^1.5 K)). On a problem without
    end (``horizon=None``) the number t of the round takes the place of T in it.

    Nothing is proved about its regret. If theta came from the prior with a known ridge and noise, the radius would hold
    with ``scale=1`` for all arms and rounds with probability 1 - 1/sqrt(T); the default scale is smaller, and chosen by
    experiment.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=300, dim=150, intrinsic_dim=3, horizon=600, replications=range(4))
    >>> published = adadim.simulate(adadim.LinUCBPlusPlus(), instance)
    >>> outcome = adadim.simulate(adadim.EvidenceLinUCB(), instance)
    >>> bool(outcome.final.mean() < published.final.mean() / 2)
    True
    >>> round(outcome.learner.describe()[0]["noise"], 2)  # it was 0.1
    0.1
    """

    taper: float = 1.75
    scale: float = 0.35
    factor: float = 20.0
    form: Form = "auto"
    ties: Ties = "random"

    def __post_init__(self) -> None:
        check_taper(self.taper)
        positive(self.scale, "scale", "a factor on the radius")
        check_factor(self.factor)
        self.linucb()

    def linucb(self) -> LinUCB:
        """The LinUCB inside, whose learner scales the features and widens the radius itself."""
        return LinUCB(ridge=1.0, radius=0.0, form=self.form, ties=self.ties)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        if problem.contextual:
            return ContextEvidenceLearner(self, problem, streams)
        return EvidenceLearner(self, problem, streams)


class EvidenceLearner(LinUCBLearner):
    """State of `EvidenceLinUCB`: LinUCB with ridge 1 on arms divided by the root of each replication's ridges."""

    fixed_operations = False  # between rounds 1, 2, 4, ... they are, see `sequence`

    def __init__(self, policy: EvidenceLinUCB, problem: Problem, streams: Streams) -> None:
        reference, count = problem.reference, len(problem)
        weights = taper_weights(policy.taper, problem.dim) / math.sqrt(RIDGES[0])
        self.weights = like(weights, reference)
        super().__init__(policy.linucb(), problem, streams, self._tapered(problem))
        self.tuning = policy
        self.features = self.posterior.actions.base  # divided anew when the ridge changes
        self.ridge, self.noise = np.full(count, RIDGES[0]), np.full(count, np.nan)
        self.rounds = np.zeros(count, dtype=np.int64)
        self.totals = np.zeros(count)  # log of the evidence averaged over the ridges
        self.radii = self.zeros(1) + 1.0
        self.clock = Clock(reference) if problem.endless else None

    def _tapered(self, problem: Problem) -> ActionSet:
        """Arms in units in which those of round 1 are alike, with the smallest ridge."""
        first = problem.first_arms
        return problem.actions.in_like_units(RAW, first).rescaled(first).weighted(self.weights)

    def arms_added(self) -> None:
        divided = like(np.sqrt(RIDGES[0] / self.ridge), self.features)[:, None, None]
        self.features[...] = self._tapered(self.problem).base * divided
        super().arms_added()

    def radius(self, rows: Rows | None = None) -> Array:
        """Current multiplier of the width, one per replication (by default all)."""
        return _radius_now(self, self.radii, rows or self.everyone)

    def learned(self, rows: Rows) -> None:
        on_host(lambda: self._count_round(rows.ids))

    def sequence(self) -> str:
        return type(self).__name__

    def _count_round(self, ids: np.ndarray[Any, Any]) -> None:
        self.rounds[ids] += 1
        n = self.rounds[ids]
        for r in ids[n & (n - 1) == 0].tolist():  # 1, 2, 4, 8, ...
            self._take_stock(r)

    def _take_stock(self, r: int) -> None:
        """Choose ridge, noise and radius of one replication by what it has seen."""
        state, n, squares = self.posterior, int(self.rounds[r]), float(self.posterior.squares[r])
        if squares == 0:
            return
        pulled = np.flatnonzero(as_numpy(state.counts[r]))
        at = like(pulled, state.squares)
        root = np.sqrt(as_numpy(state.counts[r])[pulled])
        design = as_numpy(state.actions.dense(r)[at]) * (root * math.sqrt(self.ridge[r]))[:, None]
        logs, variance = evidence(design, as_numpy(state.sums[r])[pulled] / root, squares, n)
        self.totals[r] = np.logaddexp.reduce(logs) - math.log(len(logs))
        chosen = int(np.argmax(logs >= logs.max() - math.log(self.tuning.factor)))
        if RIDGES[chosen] != self.ridge[r]:
            self.features[r] *= math.sqrt(self.ridge[r] / RIDGES[chosen])
            self.ridge[r] = RIDGES[chosen]
            row = Rows.some(np.array([r]), state.squares)
            state.rebuild(row.of(state.counts), row.of(state.sums), row, row.of(state.squares))
        self.noise[r] = math.sqrt(variance[chosen] * (1 + math.sqrt(2 / n)))
        self.radii[r] = self.tuning.scale * _known_radius(self.problem, float(self.noise[r]))

    def descriptions(self) -> list[dict[str, Any]]:
        """As `LinUCB`, with the ridge chosen and the noise estimated (None before there is an estimate)."""
        rows = super().descriptions()
        for row, ridge, noise in zip(rows, self.ridge.tolist(), self.noise.tolist(), strict=True):
            row |= {"ridge": ridge, "noise": None if math.isnan(noise) else noise}
        return rows


class ContextEvidenceLearner(ContextLinUCBLearner):
    """State of `EvidenceLinUCB` where features come with each round: it takes stock from the moments of the regression.

    Nobody knows the features beforehand. The ridges are relative to the longest arm offered so far; and columns in raw
    units are divided by the largest value offered so far, which is looked at anew when it takes stock.
    """

    fixed_operations = False

    def __init__(self, policy: EvidenceLinUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.linucb(), problem, streams)
        count = len(problem)
        self.posterior = ContextPosterior(count, self.dim, self.policy.ridge)  # on the host, where it takes stock
        self.tuning, self.tapers = policy, taper_weights(policy.taper, problem.dim)
        self.extent = np.zeros((count, problem.dim))  # largest absolute value of each column
        self.units, self.longest = np.ones((count, problem.dim)), np.zeros(count)
        self.noise = np.full(count, np.nan)
        self.radii = np.ones((count, 1))
        self.clock = Clock(self.noise) if problem.endless else None

    @cached_property
    def draws(self) -> Draws:
        return self.streams

    def radius(self, rows: Rows) -> Array:
        """Current multiplier of the width, one per replication."""
        return _radius_now(self, self.radii, rows)

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        here, reference = rows.to_numpy(), self.problem.reference
        offered = here.features
        assert offered is not None
        self._notice(offered, here)
        chosen = self.largest(self._scores(self._scaled(offered, here), here), here, self.policy.ties)
        if self.clock is not None:
            self.clock.tick(here)
        pulled = at_each(offered, chosen)  # as they are: the units may change till the reward
        return like(chosen, reference), {"features": like(pulled, reference)}

    def _notice(self, offered: Array, rows: Rows) -> None:
        """Keep the longest arm and the largest values; before the first reward, choose the units by them."""
        largest = np.abs(offered).max(axis=1)
        if (largest > rows.of(self.extent)).any():
            rows.put(self.extent, np.maximum(rows.of(self.extent), largest))
            for r in rows.ids.tolist():
                if not self.posterior.pulls[r]:
                    self._change_units(r, like_units(self.extent[r]))
                    if self.posterior.asked is not None:
                        self.posterior.refresh(r, float(self.posterior.ridge[r]))
        lengths = np.vecdot(offered, offered) if (self.units == 1).all() else self._lengths(offered, rows)
        for r, squared in zip(rows.ids.tolist(), lengths.max(axis=1).tolist(), strict=True):
            if squared > self.longest[r]:
                self.longest[r] = squared
                if not self.posterior.pulls[r]:
                    self.posterior.refresh(r, RIDGES[0] * squared)

    def _lengths(self, offered: Array, rows: Rows) -> Array:
        seen = offered / rows.of(self.units)[:, None, :]
        return np.vecdot(seen, seen)

    def _scaled(self, features: Array, rows: Rows) -> Array:
        """Features (n, ..., d) in like units, tapered."""
        factors = self.tapers / rows.of(self.units)
        return features * factors.reshape(len(factors), *[1] * (features.ndim - 2), -1)

    def _seen(self, features: Array) -> Array:
        return self._scaled(features, self.everyone.to_numpy())

    def _change_units(self, r: int, units: FloatArray) -> bool:
        """Use other units from now on, for what was pulled before too; gives whether they differ."""
        if (units == self.units[r]).all():
            return False
        self.posterior.rescale(r, self.units[r] / units)
        self.units[r] = units
        return True

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        rows = rows.to_numpy()
        self.posterior.absorb(self._scaled(as_numpy(memo["features"]), rows), as_numpy(rewards), rows)
        self._learned(rows)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        rows = rows.to_numpy()
        self.posterior.expect(self._scaled(as_numpy(memo["features"]), rows), rows)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        rows = rows.to_numpy()
        self.posterior.answer(self._scaled(as_numpy(memo["features"]), rows), as_numpy(rewards), rows)
        self._learned(rows)

    def _learned(self, rows: Rows) -> None:
        pulls = rows.of(self.posterior.pulls)
        for r in rows.ids[pulls & (pulls - 1) == 0].tolist():  # 1, 2, 4, 8, ...
            if self._change_units(r, like_units(self.extent[r])):
                # Nobody kept the arms: no value is above 1 now, and so no square above their number.
                self.longest[r] = np.count_nonzero(self.extent[r])
                self.posterior.refresh(r, RIDGES[0] * float(self.longest[r]))
            self._take_stock(r, int(self.posterior.pulls[r]))

    def expect_features(self, features: Array) -> None:
        """Count a pull of features (d,) whose reward is not known yet."""
        self.expect(np.zeros(1, dtype=np.int64), self.everyone, {"features": features[None]})

    def restart(self, sums: Moments) -> None:
        """Forget everything, and know what these sums say. It takes stock now, whatever their number."""
        self.extent[0], self.units[0] = sums.extent, like_units(sums.extent)
        raw = (self.units[0] != 1).any()
        self.longest[0] = np.count_nonzero(sums.extent) if raw else sums.longest
        self.noise[0], self.radii[0] = np.nan, 1.0
        if sums.asked is None:
            self.drop_expected()
        self.posterior.restart(0, sums, self.tapers / self.units[0])
        if not sums.squares:  # otherwise taking stock chooses a ridge, and makes V^-1 with that one
            self.posterior.refresh(0, RIDGES[0] * (float(self.longest[0]) or 1.0))
        self._take_stock(0, sums.weight)

    def _take_stock(self, r: int, n: float) -> None:
        """Choose ridge, noise and radius of one replication by the `n` pulls it has seen."""
        state = self.posterior
        squares, scale = float(state.squares[r]), float(self.longest[r]) or 1.0
        if squares == 0:
            return
        second, b = state.moments(r)
        spectrum, basis = np.linalg.eigh(second)
        logs, variance = _evidence(spectrum, (basis.T @ b) ** 2, squares, n, RIDGES * scale)
        chosen = int(np.argmax(logs >= logs.max() - math.log(self.tuning.factor)))
        state.refresh(r, RIDGES[chosen] * scale)
        self.noise[r] = math.sqrt(variance[chosen] * (1 + math.sqrt(2 / n)))
        self.radii[r] = self.tuning.scale * _known_radius(self.problem, float(self.noise[r]))

    def learn(self, arms: Array, rewards: Array) -> None:
        pulls = [(np.asarray(x, dtype=float), gained) for x, gained in logged_features(self.problem, arms, rewards)]
        if pulls:
            self._notice(np.stack([x for x, _ in pulls], axis=1), self.everyone.to_numpy())
        for x, gained in pulls:
            self.absorb(x, gained, self.everyone, {"features": x})

    def descriptions(self) -> list[dict[str, Any]]:
        """As `LinUCB`, with the ridge chosen and the noise estimated (None before there is an estimate)."""
        rows = super().descriptions()
        for row, ridge, noise in zip(rows, self.posterior.ridge.tolist(), self.noise.tolist(), strict=True):
            row |= {"ridge": ridge, "noise": None if math.isnan(noise) else noise}
        return rows


def check_factor(factor: float) -> None:
    """Raise unless `factor` can be the Bayes factor that rules a ridge out."""
    if positive(factor, "factor", "a Bayes factor, e.g. 20") < 1:
        raise InvalidValueError(f"factor must be at least 1 (the Bayes factor that rules a ridge out), got {factor!r}")


def like_units(extent: FloatArray) -> FloatArray:
    """What to divide columns by whose largest values are these: by those if the columns are in raw units, or by 1.

    Examples
    --------
    >>> like_units(np.array([1.0, 30.0, 900.0])), like_units(np.array([1.0, 3.0, 0.0]))
    (array([  1.,  30., 900.]), array([1., 1., 1.]))
    """
    known = np.where(extent > 0, extent, np.inf)
    if not np.any(extent > RAW * np.minimum.accumulate(known)):
        return np.ones_like(extent)
    return np.where(extent > 0, extent, 1.0)


def _known_radius(problem: Problem, noise: float) -> Any:
    """The radius for this noise, or what is known of it before the round's number is, where there is no end."""
    return noise if problem.endless else noise_radius(noise, problem.horizon, problem.arms)


def _radius_now(learner: EvidenceLearner | ContextEvidenceLearner, radii: Array, rows: Rows) -> Array:
    """The radii of `rows` in this round."""
    if learner.clock is None:
        return rows.of(radii)
    return rows.of(radii) * noise_radius(1.0, learner.clock.now(rows, learner.posterior.pulls), learner.problem.arms)


def evidence(design: FloatArray, sums: FloatArray, squares: float, n: int) -> tuple[FloatArray, FloatArray]:
    """Log evidence of every one of `RIDGES`, up to a constant, and the noise variance S/n it goes with.

    Parameters
    ----------
    design : array (p, d)
        Distinct arms pulled, each times the root of its number of pulls.
    sums : array (p,)
        Sum of the rewards of each, divided by that root.
    squares : float
        Sum of all squared rewards.
    n : int
        Number of pulls.

    Examples
    --------
    >>> import numpy as np
    >>> logs, variance = evidence(np.eye(3), np.ones(3), squares=3.0, n=3)
    >>> logs.shape, bool(np.ptp(logs) < 1e-9)  # one pull of each arm cannot tell signal from noise
    ((17,), True)
    """
    # One eigendecomposition, of the smaller side, serves all ridges: X X^T and X^T X share their spectrum.
    if len(design) <= design.shape[1]:
        spectrum, basis = np.linalg.eigh(design @ design.T)
        fitted = np.maximum(spectrum, 0.0) * (basis.T @ sums) ** 2
    else:
        spectrum, basis = np.linalg.eigh(design.T @ design)
        fitted = (basis.T @ (design.T @ sums)) ** 2
    return _evidence(spectrum, fitted, squares, n, RIDGES)


def _evidence(
    spectrum: FloatArray, fitted: FloatArray, squares: float, n: float, grid: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log evidence and noise variance of every ridge, from the spectrum of X^T X and the squares of b in its basis."""
    spectrum, ridges = np.maximum(spectrum, 0.0), grid[:, None]
    residual = np.maximum(squares - np.sum(fitted / (ridges + spectrum), axis=-1), SMALLEST * squares)
    logdet = np.sum(np.log1p(spectrum / ridges), axis=-1)
    return -0.5 * (logdet + n * np.log(residual)), residual / n
