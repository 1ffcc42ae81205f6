"""The paper's six policies as one would write them from the paper, one replication at a time.

The algorithms are the plain ones that the tests compare the library with (`tests/reference`). Their least squares are
exchanged for the fastest that is common in textbooks and libraries: V^-1 kept by Sherman-Morrison, d^2 work, and every
arm rescored at every step from A V^-1, K d^2 work.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from _report import ROOT

sys.path.append(str(ROOT / "tests"))

import reference
from reference import LinUCB, LinUCBPP, LinUCBPPCorral, NestedDynamicBalancing, SmoothCorral

RIDGE = 0.1


class Inverse:
    """Ridge regression that keeps V^-1 and, instead of solving, multiplies by it."""

    def __init__(self, dim: int, ridge: float) -> None:
        self.inverse = np.eye(dim) / ridge
        self.moment = np.zeros(dim)
        self.n = 0
        self._product: Any = np.empty((0, dim))

    def add(self, x: Any, reward: float) -> None:
        u = self.inverse @ x
        self.inverse -= np.outer(u / (1.0 + x @ u), u)
        self.moment += reward * x
        self.n += 1

    def predict(self, features: Any) -> tuple[Any, Any]:
        """Means and squared widths of the rows of `features`."""
        if len(self._product) != len(features):
            self._product = np.empty_like(features)  # reused: fresh memory at every step costs page faults
        np.matmul(features, self.inverse, out=self._product)
        widths = np.einsum("kd,kd->k", self._product, features)
        return features @ (self.inverse @ self.moment), np.maximum(widths, 0.0)


def _by_inverse(learner: Any) -> None:
    learner.X = np.ascontiguousarray(learner.X)
    learner.ridge = Inverse(learner.d, RIDGE)


class _LinUCBPP(LinUCBPP):
    def begin(self, dim: int, length: int) -> None:
        super().begin(dim, length)
        _by_inverse(self.solver)


class _LinUCBPPCorral(LinUCBPPCorral):
    def begin(self, dim: int, length: int) -> None:
        super().begin(dim, length)
        _by_inverse(self.linucb)


def learner(name: str, variant: str, instance: Any, intrinsic_dim: int, seed: int = 0) -> Any:
    """Plain version of the policy that `adadim.paper.policies` has under that name, on a single replication.

    LinUCB's equal scores go to the lowest index, so that it can be compared round by round; the masters draw.
    """
    problem, released = instance.problem, variant == "released"
    features, spread = np.ascontiguousarray(problem.actions.dense(0)), float(np.ptp(instance.means[0]))
    bonus: Any = "squared" if released else "norm"
    common = (problem.horizon, problem.noise, RIDGE, np.random.default_rng(seed))
    algorithm: Any
    if name == "linucb":
        algorithm = LinUCB(features, *common, bonus, ties="lowest")
        _by_inverse(algorithm)
    elif name == "oracle":
        algorithm = LinUCB(features[:, :intrinsic_dim], *common, bonus, ties="lowest")
        _by_inverse(algorithm)
    elif name == "linucb++":
        algorithm = _LinUCBPP(features, *common, bonus=bonus, rescale=released, mean_range=spread, ties="lowest")
    elif name == "linucb++corral":
        index: Any = "released" if released else "self_normalised"
        algorithm = _LinUCBPPCorral(features, *common, bonus=bonus, mean_range=spread, index=index, ties="lowest")
    else:
        algorithm = (
            SmoothCorral(features, *common, bonus=bonus)
            if name == "smooth-corral"
            else NestedDynamicBalancing(features, *common, variant="released" if released else "theory", bonus=bonus)
        )
        for base in algorithm.bases:
            _by_inverse(base)
    return algorithm


class _Noise:
    """The noise that `adadim.simulate` gives the instance, as the generator that the plain loop asks."""

    def __init__(self, instance: Any, seed: int) -> None:
        self._streams = instance.noise_streams(seed)

    def standard_normal(self) -> float:
        return float(self._streams.normals()[0])


def run(algorithm: Any, instance: Any, seed: int = 0) -> Any:
    """Cumulative regret after every round of a run on the first replication of `instance`."""
    problem = instance.problem
    noise: Any = _Noise(instance, seed)
    return reference.run(algorithm, instance.means[0], problem.horizon, problem.noise, noise).regret
