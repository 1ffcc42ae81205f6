"""What the arms that ModCB explores add up to, and what the classes leave unexplained by it (see `residual`).

With the Cholesky factor L of the second moment Sig, whose leading blocks are the factors of Sig's leading blocks, and
z = L^-1 x, the form of the class of `small` features within that of `large` is

    x^T W x = x^T Sig^-1 x - x_1^T Sig_1^-1 x_1 = z_(small+1)^2 + ... + z_large^2.

On a fixed set that has such a factor, sums over z answer for all pairs of classes at once. Where features come with
each round, or are nearly dependent, or eigenvalues are raised, sums over x do, and a matrix W for each pair.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpocon, dpotrf

from adadim.backend.arrays import FloatArray
from adadim.backend.rows import Rows
from adadim.backend.state import unchanging
from adadim.policies.residual import combined, raised, residual_error, residual_form
from adadim.policies.rounds import Offers
from adadim.problem import Problem

__all__ = ["ExploredSums"]

LEAST_CONDITION = 1e-6  # of a second moment to be factored: every direction is far from counting as absent


class ExploredSums:
    """Sums over the arms explored in each replication.

    Parameters
    ----------
    problem : Problem
        Where they are explored.
    offers : Offers
        Its arms.
    dim : int
        Number of features of the largest class.
    floor : float
        Eigenvalues of second moments are raised to at least this much.

    Attributes
    ----------
    count : int array (R,)
        Number n of arms explored.
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
    """What depends on nothing but the arms of a fixed set: all z, or the matrices W, made when first needed.

    Attributes
    ----------
    whitened : list of array (K, d) or None
        z of every arm of each replication; None where L is not to be trusted.
    """

    def __init__(self, features: FloatArray, floor: float) -> None:
        self.features, self.floor = features, floor
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
