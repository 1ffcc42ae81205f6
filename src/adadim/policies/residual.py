"""How much of the reward a smaller class of features leaves unexplained (EstimateResidual of ModCB).

With Sig the second moment of the features and Sig_1 its leading block, R = blockdiag(Sig_1^-1, 0) - Sig^-1 and
W = R Sig R, the mean of x_s^T W x_t y_s y_t over pairs s != t of uniformly explored arms is an unbiased estimate of
E (<x, theta> - <x_1, theta_1>)^2. It needs sqrt(d) samples where estimating theta needs d. Two sums are enough:

    (s^T W s - tr(W Q)) / (n (n - 1)),   s = sum x y,   Q = sum x x^T y^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adadim.backend.arrays import FloatArray, as_numpy, real_array
from adadim.checks import integer, not_negative
from adadim.errors import InvalidValueError

__all__ = [
    "Residual",
    "combined",
    "estimate_residual",
    "raised",
    "residual_error",
    "residual_form",
    "residual_value",
]


SINGULAR = 1e-10  # directions with less than this share of the largest second moment count as absent


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
