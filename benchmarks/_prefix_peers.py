"""What people use to choose the number of leading features, and logged data with a known number to try it on."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

import adadim

Chooser = Callable[[np.ndarray, np.ndarray], int]


def residual_squares(features: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Residual sum of squares of the least squares fit on every prefix, (d,)."""
    dim = features.shape[1]
    upper = np.linalg.qr(np.column_stack([features, rewards]), mode="r")
    last = upper[:, dim] ** 2
    return np.append(np.cumsum(last[:0:-1])[::-1], 0.0)[:dim] if len(last) > dim else np.zeros(dim)


def information(penalty: Callable[[int], float]) -> Chooser:
    """n ln(RSS / n) + penalty times the number of features: AIC and BIC."""

    def choose(features: np.ndarray, rewards: np.ndarray) -> int:
        n, dim = features.shape
        squares = np.maximum(residual_squares(features, rewards), 1e-300)
        return int(np.argmin(n * np.log(squares / n) + penalty(n) * np.arange(1, dim + 1))) + 1

    return choose


def cross_validation(features: np.ndarray, rewards: np.ndarray, folds: int = 5) -> int:
    """Prefix with the smallest squared error of least squares in 5-fold cross-validation."""
    n, dim = features.shape
    fold = np.random.default_rng(0).permutation(n) % folds
    errors = np.zeros(dim)
    for f in range(folds):
        inside = fold != f
        basis, upper = np.linalg.qr(features[inside])
        canonical = np.linalg.solve(
            upper.T, features[~inside].T
        )  # z_j of the rows left out: one solve for all prefixes
        fitted = np.cumsum(canonical * (basis.T @ rewards[inside])[:, None], axis=0)
        errors += ((rewards[~inside] - fitted) ** 2).sum(axis=1)
    return int(np.argmin(errors)) + 1


def lasso(features: np.ndarray, rewards: np.ndarray) -> int:
    """Last feature that LassoLarsIC (BIC) keeps."""
    from sklearn.linear_model import LassoLarsIC

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = np.flatnonzero(LassoLarsIC(criterion="bic", fit_intercept=False).fit(features, rewards).coef_)
    return int(kept[-1]) + 1 if len(kept) else 1


CHOOSERS: dict[str, Chooser] = {
    "adadim, mode": lambda features, rewards: adadim.dimension(features, rewards).mode,
    "adadim, median": lambda features, rewards: adadim.dimension(features, rewards).median,
    "BIC": information(np.log),
    "AIC": information(lambda _: 2.0),
    "5-fold cross-validation": cross_validation,
    "LassoLarsIC": lasso,
}

SHAPES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "equal": lambda rng, m: rng.choice([-1.0, 1.0], size=m),
    "gaussian": lambda rng, m: rng.standard_normal(m),
    "decay": lambda rng, m: rng.choice([-1.0, 1.0], size=m) / np.arange(1, m + 1),
    "last only": lambda rng, m: np.append(np.zeros(m - 1), 1.0),
}


def parameter(rng: np.random.Generator, shape: str, dim: int, intrinsic: int) -> np.ndarray:
    """theta of norm 1 that is zero after the first `intrinsic` features."""
    theta = np.zeros(dim)
    theta[:intrinsic] = SHAPES[shape](rng, intrinsic)
    return theta / np.linalg.norm(theta)


def logged(rng: np.random.Generator, theta: np.ndarray, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Choices made at random among Gaussian feature vectors, and their rewards."""
    features = rng.standard_normal((n, len(theta)))
    return features, features @ theta + noise * rng.standard_normal(n)
