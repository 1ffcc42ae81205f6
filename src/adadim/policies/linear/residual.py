"""How much of the reward a smaller class of features leaves unexplained (EstimateResidual of ModCB).

With Sig the second moment of the features and Sig_1 its leading block, R = blockdiag(Sig_1^-1, 0) - Sig^-1 and
W = R Sig R, the mean of x_s^T W x_t y_s y_t over pairs s != t of uniformly explored arms is an unbiased estimate of
E (<x, theta> - <x_1, theta_1>)^2. It needs sqrt(d) samples where estimating theta needs d. Two sums are enough:

    (s^T W s - tr(W Q)) / (n (n - 1)),   s = sum x y,   Q = sum x x^T y^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpocon, dpotrf

from adadim.core.arrays import FloatArray, as_numpy, real_array
from adadim.core.checks import integer, not_negative
from adadim.core.problem import Problem
from adadim.core.rows import Rows
from adadim.core.state import unchanging
from adadim.errors import InvalidValueError
from adadim.policies.linear.round_learner import Offers

SINGULAR = 1e-10  # directions with less than this share of the largest second moment count as absent
LEAST_CONDITION = 1e-6  # of a second moment to be factored: every direction is far from counting as absent


@dataclass(frozen=True)
class Residual:
    """An estimate of the mean squared reward that a smaller class leaves unexplained.

    Attributes
    ----------
    value : float
        The estimate; unbiased, and so sometimes below 0.
    error : float
        Its standard error if the smaller class explains everything.
    """

    value: float
    error: float


def estimate_residual(explored: Any, rewards: Any, dim: int, contexts: Any = None, *, floor: float = 0.0) -> Residual:
    """How much of the reward features after the first `dim` explain, by pulls of uniformly random arms.

    Parameters
    ----------
    explored : array (n, d)
        Features of arms that were chosen uniformly at random, n >= 2.
    rewards : array (n,)
        Their rewards.
    dim : int
        Number of features of the smaller class, below d; 0 for no features at all.
    contexts : array (..., d), optional
        Features of all arms seen, chosen or not; they tell the second moment. By default those explored.
    floor : float
        Raise the eigenvalues of second moments to at least this much, for features that are nearly dependent.

    Returns
    -------
    Residual

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((400, 6))
    >>> y = x @ [0.5, 0.3, 0.4, 0, 0, 0] + 0.1 * rng.standard_normal(400)
    >>> round(estimate_residual(x, y, dim=2).value, 2)  # 0.4^2, give or take
    0.18
    >>> enough = estimate_residual(x, y, dim=3)
    >>> abs(enough.value) < 2 * enough.error
    True
    """
    x, y = (as_numpy(real_array(v, name)) for v, name in ((explored, "explored"), (rewards, "rewards")))
    if x.ndim != 2 or len(x) < 2 or y.shape != (len(x),):
        raise InvalidValueError(
            f"explored must be (n, d) and rewards (n,) with n of at least 2, got shapes {x.shape} and {y.shape}"
        )
    dim = integer(dim, "dim", least=0, most=x.shape[1] - 1, meaning="features of the smaller class")
    seen = x if contexts is None else as_numpy(real_array(contexts, "contexts"))
    if seen.ndim < 2 or seen.shape[-1] != x.shape[1]:
        raise InvalidValueError(f"contexts must have {x.shape[1]} features on their last axis, got shape {seen.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all() and np.isfinite(seen).all()):
        raise InvalidValueError("explored, rewards and contexts must be finite")
    rows = seen.reshape(-1, x.shape[1])
    form = residual_form(rows.T @ rows / len(rows), dim, not_negative(floor, "floor"))
    q, n = (x * (y * y)[:, None]).T @ x, len(x)
    fourth = float(np.square(np.vecdot(x @ form, x) * y * y).sum())
    return Residual(residual_value(form, y @ x, q, n), residual_error(form, q, n, fourth))


def residual_form(second: FloatArray, dim: int, floor: float = 0.0) -> FloatArray:
    """W = R Sig R for the class of the first `dim` features, from the second moment Sig.

    Where Sig is singular, inverses are those on its range, in which all features lie.
    """
    return combined(raised(second, floor), raised(second[:dim, :dim], floor)[1] if dim else None)


def combined(whole: tuple[FloatArray, FloatArray], part: FloatArray | None) -> FloatArray:
    """W from Sig and its inverse, as `raised` gives them, and the inverse of its leading block (None if empty)."""
    second, inverse = whole
    r = -inverse
    if part is not None:
        r[: len(part), : len(part)] += part
    return r @ second @ r


def residual_value(form: FloatArray, s: FloatArray, q: FloatArray, n: int) -> float:
    """The estimate, from s = sum x y and q = sum x x^T y^2 over n explored arms."""
    return float((s @ form @ s - np.vdot(form, q)) / (n * (n - 1)))


def residual_error(form: FloatArray, q: FloatArray, n: int, fourth: float = 0.0) -> float:
    """Its standard error; too large without `fourth`, the sum of (x^T W x y^2)^2 (a sample paired with itself)."""
    product = form @ q
    spread = max(float(np.vdot(product.T, product)) - fourth, 0.0) / (n * (n - 1))
    return float(np.sqrt(2.0 * spread / (n * (n - 1))))


def raised(second: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """A second moment with its eigenvalues raised to `floor`, and the inverse of that (on its range)."""
    values, vectors = np.linalg.eigh(second)
    values = np.maximum(values, floor)
    usable = values > SINGULAR * max(float(values[-1]), 1e-300)
    inverses = np.where(usable, 1.0 / np.where(usable, values, 1.0), 0.0)
    return (vectors * values) @ vectors.T, (vectors * inverses) @ vectors.T


class ExploredSums:
    """Sums over the arms that ModCB explores in each replication, in the `dim` features of its largest class.

    With the Cholesky factor L of the second moment Sig, whose leading blocks are the factors of Sig's leading blocks,
    and z = L^-1 x, the form of the class of `small` features within that of `large` is

        x^T W x = x^T Sig^-1 x - x_1^T Sig_1^-1 x_1 = z_(small+1)^2 + ... + z_large^2.

    On a fixed set that has such a factor, sums over z answer for all pairs of classes at once. Where features come with
    each round, or are nearly dependent, or eigenvalues are raised to `floor`, sums over x do, and a W for each pair.
    """

    def __init__(self, problem: Problem, offers: Offers, dim: int, floor: float) -> None:
        replications, self.dim, self.floor = len(problem), dim, floor
        self.sets = None if offers.fixed is None else _FixedSets(offers.fixed[..., :dim], floor)
        self.count = np.zeros(replications, dtype=np.int64)
        self.moment = np.zeros((replications, dim))  # s = sum y x, or of z
        self.fourth = np.zeros((replications, dim, dim))  # Q = sum y^2 x x^T
        self.diagonal, self.weights = np.zeros((replications, dim)), np.zeros((replications, problem.arms))  # see `add`
        self.second, self.seen = np.zeros((replications, dim, dim)), np.zeros(replications, dtype=np.int64)

    def offered(self, features: FloatArray, rows: Rows) -> None:
        """Take note of the features (n, K, d) of a round; those of a fixed set are known."""
        if self.sets is None:
            seen = features[..., : self.dim]
            self.second[rows.ids] += seen.swapaxes(-1, -2) @ seen
            self.seen[rows.ids] += features.shape[1]

    def add(self, r: int, arm: int, x: FloatArray, reward: float) -> None:
        """Learn the reward of an arm with features x (d,), explored in replication r."""
        self.count[r] += 1
        whitened = self._whitened(r)
        if whitened is None:
            seen = x[: self.dim]
            self.moment[r] += reward * seen
            self.fourth[r] += reward**2 * np.outer(seen, seen)
        else:  # the diagonal of Q is enough; what else may be asked of it, the weights y^2 of the arms tell
            z = whitened[arm]
            self.moment[r] += reward * z
            self.diagonal[r] += reward**2 * (z * z)
            self.weights[r, arm] += reward**2

    def residual(self, r: int, small: int, large: int) -> tuple[float, float]:
        """Estimate of what the class of `small` features leaves to that of `large`, and tr(W Q)."""
        n = int(self.count[r])
        if self._whitened(r) is None:
            form, s = self._form(r, small, large), self.moment[r, :large]
            square, trace = float(s @ form @ s), float(np.vdot(form, self.fourth[r, :large, :large]))
        else:
            s = self.moment[r, small:large]
            square, trace = float(s @ s), float(self.diagonal[r, small:large].sum())
        return (square - trace) / (n * (n - 1)), trace

    def error(self, r: int, small: int, large: int) -> float:
        """Standard error of that estimate if the smaller class explains everything, or a bit more."""
        n, whitened = int(self.count[r]), self._whitened(r)
        if whitened is None:
            return residual_error(self._form(r, small, large), self.fourth[r, :large, :large], n)
        arms = np.flatnonzero(self.weights[r])
        z = np.sqrt(self.weights[r, arms])[:, None] * whitened[arms, small:large]
        products = z @ z.T if len(arms) < large - small else z.T @ z
        return math.sqrt(2.0 * float(np.vdot(products, products))) / (n * (n - 1))

    def _whitened(self, r: int) -> FloatArray | None:
        return None if self.sets is None else self.sets.whitened[r]

    def _form(self, r: int, small: int, large: int) -> FloatArray:
        if self.sets is not None:
            return self.sets.form(r, small, large)
        return residual_form(self.second[r, :large, :large] / self.seen[r], small, self.floor)


@unchanging
class _FixedSets:
    """What depends on nothing but the arms of a fixed set: all z, or the matrices W, made when first needed."""

    def __init__(self, features: FloatArray, floor: float) -> None:
        self.features, self.floor = features, floor
        # z of every arm (K, d) of each replication; None where L is not to be trusted.
        self.whitened = [None if floor else _whitened(x) for x in features]
        self.forms: dict[tuple[int, int, int], FloatArray] = {}
        self.inverses: dict[tuple[int, int], tuple[FloatArray, FloatArray]] = {}

    def form(self, r: int, small: int, large: int) -> FloatArray:
        """W of replication r for the class of `small` features within that of `large`."""
        if (r, small, large) not in self.forms:
            for outgrown in [key for key in self.forms if key[0] == r and key[1] < small]:
                del self.forms[outgrown]
            self.forms[r, small, large] = combined(self._inverse(r, large), self._inverse(r, small)[1])
        return self.forms[r, small, large]

    def _inverse(self, r: int, dim: int) -> tuple[FloatArray, FloatArray]:
        if (r, dim) not in self.inverses:
            x = self.features[r, :, :dim]
            self.inverses[r, dim] = raised(x.T @ x / len(x), self.floor)
        return self.inverses[r, dim]


def _whitened(x: FloatArray) -> FloatArray | None:
    """Rows L^-1 x, L L^T the second moment of the rows x (K, d); None if that is nearly singular."""
    second = x.T @ x / len(x)
    factor, failed = dpotrf(second, lower=1)
    if failed or not dpocon(factor, np.abs(second).sum(axis=0).max(), uplo="L")[0] > LEAST_CONDITION:
        return None
    whitened: FloatArray = solve_triangular(factor, x.T, lower=True).T
    return whitened
