"""LinMED: sampling with probabilities in closed form (Balagopalan and Jun 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import TINY, Array, FloatArray, IntArray
from adadim.core.checks import between
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.errors import InvalidValueError
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.confidence import oful_radius
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.linucb import checked_dim
from adadim.policies.linear.rules import ProbabilityRule, Rule
from adadim.policies.parameters import Dim, ThetaNorm
from adadim.policies.player import Clock

SPREAD = 1e-6  # variance below which a direction counts as one in which the arms do not differ

Share = Annotated[float, partial(between, low=0, high=1)]


def check_delta(value: Any, name: str) -> None:
    """Raise unless `value` is a probability in (0, 1), or "decreasing"."""
    if isinstance(value, str):
        if value != "decreasing":
            raise InvalidValueError(f"{name} must be 'decreasing' or a number in (0, 1), got {value!r}")
    else:
        between(value, name, 0, 1, "()")


@dataclass(frozen=True)
class LinMED(LinearPolicy):
    """Draw the arm with probabilities that are a formula: minimum empirical divergence in linear bandits.

    Use it where the log will judge other policies: the probability of every arm is known exactly, without Monte Carlo,
    and none is 0. While rewards are late its choices stay random. It explores more than `LinUCB` with the factor 0.35
    and `LinTS`, and loses more where only the regret counts.

    Parameters
    ----------
    a_emp : float
        Weight of the arm with the largest estimate. The source's LinMED-99, -90 and -50 have 0.99, 0.9 and 0.5.
    a_opt : float
        Weight of the design over the arms; 0.005, 0.05 and 0.25 there. The rest is uniform over the arms.
    delta : float or "decreasing"
        Confidence of the radius. A number as in the released code, or 1/(t+1) in round t.
    theta_norm : float
        S: a bound on the norm of theta. The ridge is (sigma / S)^2.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.

    Notes
    -----
    With the ridge estimate of the answered rounds, k the arm of the largest estimate, and

        beta = (sigma sqrt(ln det(V / lambda) + 2 ln(1/delta)) + sqrt(lambda) S)^2,
        f_a = exp(-(mean_k - mean_a)^2 / (beta ||a - a_k||^2)),   norm of V^-1, f_a = 1 where a = a_k,
        q_a = a_opt design_a + a_emp [a = k] + (1 - a_opt - a_emp) / K,

    arm a is drawn with probability q_a f_a / sum_b q_b f_b, which for a = k is at least q_k. Before the first reward
    there is no k: its weight is uniform, and f = 1. The design is a cheap one over the rows sqrt(f_a) a
    (`design`). The released code, which this follows, computes a safeguard (with probability 1/2 an arm of
    width above 1) and does not use it; neither does this.

    Balagopalan and Jun (2025, "Minimum empirical divergence for sub-Gaussian linear bandits") announce regret
    O~(d sqrt(T)) and O(d^2/Delta ln^2 T ln ln T), unverified here: their conditions on delta and on the three weights
    could not be compared.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.LinMED().start(adadim.Problem(np.eye(3), horizon=90, noise=0.5), seed=1)
    >>> learner.learn([0, 1, 2] * 10, [0.9, 0.2, 0.1] * 10)
    >>> learner.choose(learner.everyone).probabilities.round(3)
    array([[0.953, 0.025, 0.023]])
    """

    a_emp: Share = 0.9
    a_opt: Share = 0.05
    delta: Annotated[float | Literal["decreasing"], check_delta] = 0.01
    theta_norm: ThetaNorm = 1.0
    dim: Dim | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.a_emp + self.a_opt > 1:
            raise InvalidValueError(
                f"a_emp + a_opt must be at most 1, and the rest is uniform, got {self.a_emp} + {self.a_opt}"
            )

    def ridge_for(self, problem: Problem) -> float:
        """(sigma / S)^2."""
        return max((problem.noise / self.theta_norm) ** 2, TINY)

    def model_for(self, problem: Problem) -> LinearModel:
        prior = RidgePrior(self.ridge_for(problem))
        dim = checked_dim(self.dim, problem)
        return LinearModel(problem, prior, dim=dim, samples=True, on_host=True)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        return EmpiricalDivergence(problem, model, self)


class EmpiricalDivergence(ProbabilityRule):
    """Probabilities by how unlikely it is that an arm is better than the empirical best."""

    counts_pending = False

    def __init__(self, problem: Problem, model: LinearModel, policy: LinMED) -> None:
        super().__init__(problem, model, "lowest")
        self.policy = policy
        if policy.delta == "decreasing":
            self.clock = Clock(model.reference)

    def beta(self, rows: Replications) -> Array:
        """Squared radius, (n, 1)."""
        policy, problem, delta = self.policy, self.problem, self.policy.delta
        confidence: Any = delta
        if self.clock is not None:
            confidence = 1.0 / (self.clock.now(rows, self.model.pulls) + 1.0)
        logdet = rows.of(self.model.logdet)[:, None]
        return oful_radius(problem.noise, policy.ridge_for(problem), policy.theta_norm, confidence, logdet) ** 2

    def divergences(self, rows: Replications) -> tuple[Array, Array]:
        """The empirical best arm k (n,), and f of every arm (n, K), 0 for arms not allowed."""
        parameters = np.zeros((len(rows) * self.model.offer.blocks, 1, self.model.columns))
        mean = self.model.means_by(self.model.sample(parameters, rows)[:, 0], rows)  # widths are not needed
        best = rows.apply_costs_and_mask(mean).argmax(axis=-1)
        difference, apart = self.model.contrasts(best, rows)
        gap = -difference
        if rows.costs is not None:
            gap = gap + rows.costs - rows.costs[best][:, None]
        gap = np.maximum(gap, 0.0)
        with np.errstate(over="ignore"):
            f = np.exp(-((gap / np.sqrt(np.maximum(self.beta(rows) * apart, TINY))) ** 2))
        return best, f if rows.allowed is None else np.where(rows.allowed, f, 0.0)

    def probabilities(self, rows: Replications) -> Array:
        best, f = self.divergences(rows)
        allowed = np.ones(f.shape, dtype=bool) if rows.allowed is None else rows.allowed
        fresh = rows.of(self.model.pulls) == 0
        f = np.where(fresh[:, None], allowed * 1.0, f)
        return np.array([self._of_one(*one) for one in zip(self._arms(rows), f, best, fresh, allowed, strict=True)])

    def _arms(self, rows: Replications) -> Any:
        """Features (K, d) of the arms of each replication; None where each arm has a parameter of its own."""
        return [None] * len(rows) if self.problem.disjoint else self.model.offered_inputs(rows)

    def _of_one(self, arms: Any, f: FloatArray, best: int, fresh: bool, allowed: Any) -> FloatArray:
        policy, uniform = self.policy, allowed / np.count_nonzero(allowed)
        spread = uniform
        if arms is not None:  # parameters of their own are orthogonal: every arm once
            spread = np.zeros(len(f))
            spread[allowed] = design(np.sqrt(f[allowed])[:, None] * arms[allowed])
        if fresh:
            return np.asarray(policy.a_opt * spread + (1 - policy.a_opt) * uniform)
        q = policy.a_opt * spread + (1 - policy.a_opt - policy.a_emp) * uniform
        q[best] += policy.a_emp
        total = float(q @ f)
        if total <= 0:  # a_emp = 0, and all other f underflow
            return np.asarray(np.arange(len(f)) == best, dtype=float)
        return np.asarray(q * f / total)


def design(rows: FloatArray) -> FloatArray:
    """Weights (K,) of rows (K, d) by which every direction in which they differ is observed; cheap, not optimal.

    Rows are first reduced to the directions in which they differ from their mean by more than 1e-6 in variance.
    """
    if len(rows) < 2 or differ_in_half(rows):
        return np.full(len(rows), 1.0 / len(rows))
    spectrum, basis = np.linalg.eigh(np.atleast_2d(np.cov(rows, rowvar=False)))
    return design_of_reduced(rows @ basis[:, np.abs(spectrum) > SPREAD])


def design_of_reduced(rows: FloatArray) -> FloatArray:
    """The same for rows that are reduced.

    With n picks, repeats included, and W the sum of b b^T over them, every row has b^T W^-1 b <= 1.
    """
    if not rows.shape[1]:
        return np.full(len(rows), 1.0 / len(rows))
    picks = start_set(rows)
    gram = rows[picks].T @ rows[picks]
    inverse = np.linalg.pinv(gram, hermitian=True)
    counts: IntArray = np.bincount(picks, minlength=len(rows))
    for _ in range(64 * rows.shape[1]):  # each step doubles a determinant that cannot grow for long
        leverage = np.vecdot(rows @ inverse, rows)
        widest = int(leverage.argmax())
        if leverage[widest] <= 1.0 + 1e-9:
            break
        counts[widest] += 1
        u = inverse @ rows[widest]
        inverse -= np.outer(u, u) / (1.0 + leverage[widest])
    return np.asarray(counts / counts.sum())


def differ_in_half(rows: FloatArray) -> bool:
    """Whether rows (K, d) differ in K/2 directions or more: then all of them are the start set, and the design.

    The eigenvalues above the threshold are counted, without the eigenvectors.
    """
    count = len(rows)
    if count > 2 * rows.shape[1]:
        return False
    centred, least = rows - rows.mean(axis=0), SPREAD * (count - 1)
    longest = np.argsort(-np.vecdot(centred, centred))[: (count + 1) // 2]
    if exceeds(centred[longest] @ centred[longest].T, least):  # as many eigenvalues of the whole interlace with these
        return True
    gram = centred @ centred.T if count <= rows.shape[1] else centred.T @ centred
    return bool(2 * np.count_nonzero(np.linalg.eigvalsh(gram) > least) >= count)


def exceeds(gram: FloatArray, least: float) -> bool:
    """Whether all eigenvalues of a symmetric matrix are above a number."""
    try:
        np.linalg.cholesky(gram - least * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        return False
    return True


def start_set(rows: FloatArray) -> list[int]:
    """Rows (K, r) to start a design with: all, or the two that are farthest apart along each of r directions."""
    count, width = rows.shape
    if count <= 2 * width:
        return list(range(count))
    picks: list[int] = []
    directions = np.zeros((0, width))
    for axis in np.eye(width):
        across = axis - directions.T @ (directions @ axis)
        if across @ across < 1e-20:  # the axis is in their span: any direction that is not
            across = np.linalg.svd(directions)[2][-1]
        values = rows @ across
        ends = int(values.argmax()), int(values.argmin())
        picks += [end for end in ends if end not in picks]
        difference = rows[ends[0]] - rows[ends[1]]
        difference = difference - directions.T @ (directions @ difference)
        length = float(np.sqrt(difference @ difference))
        if length > 0:
            directions = np.concatenate([directions, difference[None] / length])
    return picks
