"""Small instances for the tests of the reference."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

from .common import Floats

Generator = np.random.Generator


def sphere(K: int, d: int, rng: Generator) -> Floats:
    X = rng.standard_normal((K, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float64)


def instance(seed: int, K: int = 40, d: int = 24, dstar: int = 3) -> tuple[Floats, Floats, Generator]:
    """Features on the sphere, their means under a theta of dstar coordinates, and a generator."""
    rng = np.random.default_rng(seed)
    X = sphere(K, d, rng)
    theta = np.zeros(d)
    theta[:dstar] = 1 / sqrt(dstar)
    return X, X @ theta, rng


def approx(expected: Any, tolerance: float = 1e-6) -> Any:
    return pytest.approx(expected, abs=tolerance)
