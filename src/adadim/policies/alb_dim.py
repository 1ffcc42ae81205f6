"""ALB-Dim (Ghosh, Sankararaman and Ramchandran 2021): play on the support found so far, in phases that explore."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adadim.backend.arrays import FloatArray, IntArray
from adadim.backend.rows import Rows
from adadim.checks import between, integer, not_negative, one_of, positive
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import oful_radius
from adadim.policies.rounds import (
    RoundLearner,
    RoundRegression,
    check_class_dims,
    class_dims,
    drawn_arm,
)
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["ALBDim", "theory_first_phase"]


@dataclass(frozen=True)
class ALBDim(Policy):
    """Play on the features that exploration has found to matter, in phases that grow 25-fold.

    Phase i keeps the features whose estimated coefficient is at least 2^-(i+1), plays a fresh OFUL on them for 25^i T_0
    rounds, and ends with 5^i sqrt(T_0) rounds of random arms, from which all coefficients are estimated anew. Use it to
    compare: it needs a horizon of many times T_0, which must itself be about d^2, and until its first estimate it is
    OFUL in all features. At short horizons `EvidenceLinUCB` adapts within the first rounds.

    Parameters
    ----------
    support : {"nested", "coordinates"}
        "nested": the smallest class of leading features that has them all. "coordinates": just the features found, for
        a sparse theta.
    dims : tuple of int, optional
        Dimensions of the nested classes, increasing; by default 1, 2, 4, ... and d.
    first_phase : int, optional
        T_0; by default the least with ceil(sqrt(T_0)) >= d, so that the first exploration determines all coefficients.
        `theory_first_phase` gives the theory's, some 10^8 rounds for d = 20.
    delta : float, optional
        Confidence delta of phase 0, halved in every phase; 1/sqrt(T) by default.
    ridge, theta_norm, scale : float
        Regularisation of OFUL, bound on the norm of theta, and a factor on its radius.

    Notes
    -----
    For i.i.d. sets with a known law and a positive second moment, with the theory's T_0, probability 1 - delta and gam
    the least nonzero |theta_j|: 2 T_0 max(25^4, 2/gam^4.65) + 308 (1 + ln(2KT ln T))^(3/2) sqrt(T d*) + 100 sqrt(T),
    with SupLinUCB inside; here OFUL plays. The support is promised from phase 4 on. Where the source's text and
    pseudo-code differ (the threshold, by a factor 2), this is the pseudo-code.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.contexts(arms=5, dim=8, intrinsic_dim=2, horizon=900, noise=0.05)
    >>> adadim.simulate(adadim.ALBDim(first_phase=400), instance).learner.describe()[0]["features"]
    [0, 1]
    """

    support: Literal["nested", "coordinates"] = "nested"
    dims: tuple[int, ...] | None = None
    first_phase: int | None = None
    delta: float | None = None
    ridge: float = 1.0
    theta_norm: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        one_of(self.support, "support", ("nested", "coordinates"))
        check_class_dims(self.dims)
        if self.first_phase is not None:
            integer(self.first_phase, "first_phase", meaning="rounds of play before the first exploration, or None")
        if self.delta is not None:
            between(self.delta, "delta", 0, 1, "()")
        positive(self.ridge, "ridge", "the regularisation lambda, e.g. 1")
        positive(self.theta_norm, "theta_norm", "a bound on the norm of theta, e.g. 1")
        positive(self.scale, "scale", "a factor on the radius")

    def lengths(self, phase: int, dim: int) -> tuple[int, int]:
        """Rounds of play and of exploration in a phase.

        Examples
        --------
        >>> [ALBDim(first_phase=16).lengths(i, 4) for i in range(3)]
        [(16, 4), (400, 20), (10000, 100)]
        """
        first = (dim - 1) ** 2 + 1 if self.first_phase is None else self.first_phase
        root = math.isqrt(first - 1) + 1
        return 25**phase * first, 5**phase * root

    def features(self, estimate: FloatArray, phase: int, dims: tuple[int, ...]) -> list[int]:
        """Features on which a phase plays, given the coefficients estimated before it.

        Examples
        --------
        >>> ALBDim(support="coordinates").features(np.array([0.6, -0.3, 0.2, 0.05]), 2, (1, 2, 4))
        [0, 1, 2]
        >>> ALBDim().features(np.array([0.6, -0.3, 0.2, 0.05]), 2, (1, 2, 4))
        [0, 1, 2, 3]
        """
        found = np.flatnonzero(np.abs(estimate) >= 2.0 ** -(phase + 1)).tolist()
        if self.support == "coordinates" and found:
            return found
        least = found[-1] + 1 if found else 1
        return list(range(next((d for d in dims if d >= least), dims[-1])))

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return ALBDimLearner(self, problem, streams)


def theory_first_phase(dim: int, noise: float, delta: float, least: float, most: float) -> int:
    """T_0 of the theory, for features whose second moment has eigenvalues from `least` to `most`.

    Examples
    --------
    >>> theory_first_phase(5, noise=0.1, delta=0.1, least=0.2, most=0.2)
    1248854
    """
    dim, delta = integer(dim, "dim", meaning="the number of features"), between(delta, "delta", 0, 1, "()")
    least = positive(least, "least", "the least eigenvalue")
    most, noise = positive(most, "most", "the largest eigenvalue"), not_negative(noise, "noise")
    log = math.log(2 * dim / delta)
    root = max(
        32 * noise**2 * log / least**2,
        4 / 3 * (6 * most + least) * (dim + most) * log / least**2,
    )
    return math.ceil(root**2)


class ALBDimLearner(RoundLearner):
    """State of `ALBDim`: the phase, the regression of its play, and the moments of all exploration."""

    needs_sets = "iid"

    def __init__(self, policy: ALBDim, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.dims = policy, class_dims(policy.dims, problem.dim)
        count, d = len(problem), problem.dim
        self.delta = policy.delta or min(0.5, 1 / math.sqrt(problem.horizon))
        self.estimate = np.ones((count, d))  # every feature counts until the first exploration
        self.second, self.moment = np.zeros((count, d, d)), np.zeros((count, d))
        self.phase, self.step = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        # Phase 0 is on all features, which is cheaper where arms stay.
        self.first = RoundRegression(problem, self.offers, d, policy.ridge)
        self.later = RoundRegression(problem, self.offers, d, policy.ridge, reweighted=True)

    def exploring(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.bool]]:
        """Whether the next round is one of random arms, in each replication."""
        play = [self.policy.lengths(i, self.problem.dim)[0] for i in self.phase[rows.ids].tolist()]
        return np.asarray(self.step[rows.ids] >= np.array(play))

    def radius(self, phase: int, logdet: FloatArray) -> FloatArray:
        """Radius of OFUL in a phase, whose confidence is halved in each."""
        policy, delta = self.policy, self.delta * 2.0**-phase
        radius: FloatArray = oful_radius(self.problem.noise, policy.ridge, policy.theta_norm, delta, logdet)
        return policy.scale * radius

    def support(self, r: int) -> list[int]:
        """Features on which a replication plays."""
        return list(range(self.problem.dim)) if not self.phase[r] else np.flatnonzero(self.later.weights[r]).tolist()

    def decide(self, features: FloatArray, rows: Rows) -> tuple[IntArray, Memo]:
        allowed, uniforms = self.offered_mask(features, rows), self.chance.uniforms(rows)
        scores = np.zeros(features.shape[:2])
        for phase, members, at in rows.split(self.phase[rows.ids]):
            regression = self.later if phase else self.first
            mean, width2 = regression.predict(features[at], members)
            scores[at] = mean + self.radius(phase, regression.logdet(members)) * np.sqrt(width2)
        greedy = self.pick(scores, rows, uniforms)
        return np.where(self.exploring(rows), drawn_arm(allowed.astype(float), uniforms), greedy), {}

    def learned(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Rows, memo: Memo) -> None:
        exploring = self.exploring(rows)
        playing = np.where(exploring, -1, self.phase[rows.ids])
        for phase, members, at in rows.split(playing):
            if phase >= 0:
                (self.later if phase else self.first).absorb(arms[at], x[at], rewards[at], members)
        for i, r in enumerate(rows.ids.tolist()):
            if exploring[i]:
                self.second[r] += np.outer(x[i], x[i])
                self.moment[r] += rewards[i] * x[i]
            self.step[r] += 1
            if self.step[r] == sum(self.policy.lengths(int(self.phase[r]), self.problem.dim)):
                self._next_phase(r)

    def _next_phase(self, r: int) -> None:
        # Line 14 of the source is least squares on all exploration so far; of least norm while it is not determined.
        self.estimate[r] = np.linalg.lstsq(self.second[r], self.moment[r], rcond=1e-10)[0]
        self.phase[r] += 1
        self.step[r] = 0
        kept = np.zeros(self.problem.dim)
        kept[self.policy.features(self.estimate[r], int(self.phase[r]), self.dims)] = 1.0
        self.later.forget(r, kept)

    def descriptions(self) -> list[dict[str, Any]]:
        """Phase and features in use of each replication."""
        return [
            {
                "replication": number,
                "phase": int(self.phase[r]),
                "features": self.support(r),
                "pulls": int(self.clock[r]),
            }
            for r, number in enumerate(self.problem.replications)
        ]
