"""Shared-parameter LinUCB in textbook NumPy and in the peer libraries that pip installs.

Every driver holds one ridge model over the arms' features (never one model per arm) in float64, goes through
its library's public API alone, and scores arm a by

    a^T theta + radius * sqrt(a^T V^-1 a),   V = ridge * I + sum of x x^T over the arms x pulled so far.

One step to time is `select` then `update`. `agreement` says how far a driver is from the textbook.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


class Driver(ABC):
    """LinUCB with a constant radius on a fixed set of arms.

    Parameters
    ----------
    features
        One row per arm, of shape (K, d).
    ridge
        The regularisation lambda, positive.
    radius
        What multiplies the width, positive.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    version: ClassVar[str]
    setting: ClassVar[str]  # how the library is driven, for the benchmark's table

    def __init__(self, features: Floats, ridge: float, radius: float) -> None:
        self.features = np.ascontiguousarray(features, dtype=np.float64)
        if self.features.ndim != 2 or 0 in self.features.shape:
            raise ValueError(f"features must have shape (K, d) with K, d >= 1, got {self.features.shape}")
        self.ridge, self.radius = float(ridge), float(radius)
        if not (self.ridge > 0 and self.radius > 0):
            raise ValueError(f"ridge and radius must be positive, got {ridge} and {radius}")

    @abstractmethod
    def scores(self) -> Floats:
        """Optimistic score of every arm, of shape (K,)."""

    @abstractmethod
    def update(self, arm: int, reward: float) -> None:
        """Learn the reward of a pull of `arm`."""

    def select(self) -> int:
        """The arm of highest score."""
        return int(np.argmax(self.scores()))


class Textbook(Driver):
    """Rescores all K arms each step, K d^2 work, with V^-1 kept by Sherman-Morrison."""

    name = "textbook"
    module = "numpy"
    version = f"NumPy {np.__version__}"
    setting = "A @ V^-1 each step, V^-1 by Sherman-Morrison"

    def __init__(self, features: Floats, ridge: float, radius: float) -> None:
        super().__init__(features, ridge, radius)
        d = self.features.shape[1]
        self._inverse = np.eye(d) / self.ridge
        self._moment = np.zeros(d)
        self._product = np.empty_like(self.features)  # reused: 8 K d fresh bytes a step cost page faults

    def scores(self) -> Floats:
        np.matmul(self.features, self._inverse, out=self._product)
        squared_widths = np.einsum("kd,kd->k", self._product, self.features)
        theta = self._inverse @ self._moment
        scores: Floats = self.features @ theta + self.radius * np.sqrt(squared_widths)
        return scores

    def update(self, arm: int, reward: float) -> None:
        pulled = self.features[arm]
        u = self._inverse @ pulled
        self._inverse -= np.outer(u / (1.0 + pulled @ u), u)
        self._moment += reward * pulled


class ContextualBandits(Driver):
    """`contextualbandits.linreg.LinearRegression`; its `alpha` is the radius."""

    name = "contextualbandits"
    module = "contextualbandits.linreg"
    version = _version("contextualbandits")
    setting = "linreg.LinearRegression, method='sm', float64"

    def __init__(self, features: Floats, ridge: float, radius: float) -> None:
        super().__init__(features, ridge, radius)
        linear_regression = importlib.import_module(self.module).LinearRegression
        # 'chol' factors V anew at every partial_fit, and the default is float32.
        self._model: Any = linear_regression(lambda_=self.ridge, fit_intercept=False, method="sm", use_float=False)

    def scores(self) -> Floats:
        scores: Floats = self._model.predict_ucb(self.features, alpha=self.radius)
        return scores

    def update(self, arm: int, reward: float) -> None:
        self._model.partial_fit(self.features[arm : arm + 1], np.array([reward], dtype=np.float64))


class MABWiser(Driver):
    """`mabwiser`'s LinUCB. It has a model per arm, so one dummy arm has the shared model and K contexts."""

    name = "mabwiser"
    module = "mabwiser.mab"
    version = _version("mabwiser")
    setting = "LearningPolicy.LinUCB, one dummy arm, K contexts"

    _ARM = 0

    def __init__(self, features: Floats, ridge: float, radius: float) -> None:
        super().__init__(features, ridge, radius)
        mab = importlib.import_module(self.module)
        policy = mab.LearningPolicy.LinUCB(alpha=self.radius, l2_lambda=self.ridge)
        self._bandit: Any = mab.MAB([self._ARM], policy)
        # It predicts only once fitted; a row of zeros leaves V = ridge * I and theta = 0.
        self._bandit.fit([self._ARM], [0.0], np.zeros((1, self.features.shape[1])))

    def scores(self) -> Floats:
        rows = self._bandit.predict_expectations(self.features)
        if isinstance(rows, dict):  # a single context is answered by its dict alone
            rows = [rows]
        return np.fromiter((row[self._ARM] for row in rows), dtype=np.float64, count=len(rows))

    def update(self, arm: int, reward: float) -> None:
        self._bandit.partial_fit([self._ARM], [reward], self.features[arm : arm + 1])


class Coba(Driver):
    """`coba`'s LinUCBLearner on action features alone.

    Its ridge is always 1: features divided by sqrt(ridge) give the scores of any other. It says which action
    it would take, not the scores; `select` and `update` use the learner as its users do, and `scores`, for
    checking only, finds them by comparisons.
    """

    name = "coba"
    module = "coba.learners"
    version = _version("coba")
    setting = "LinUCBLearner(features=['a'])"

    def __init__(self, features: Floats, ridge: float, radius: float) -> None:
        super().__init__(features, ridge, radius)
        self._learner = self._new_learner()
        # Lists of Python floats: its encoder is slower on NumPy's floats and fails on arrays.
        self._actions: list[list[float]] = (self.features / np.sqrt(self.ridge)).tolist()
        self._arm_of = {id(action): arm for arm, action in enumerate(self._actions)}
        self._history: list[tuple[int, float]] = []

    def _new_learner(self) -> Any:
        return importlib.import_module(self.module).LinUCBLearner(alpha=self.radius, features=["a"])

    def select(self) -> int:
        action, _ = self._learner.predict(None, self._actions)
        return self._arm_of[id(action)]  # the learner hands back one of the very lists it was given

    def update(self, arm: int, reward: float) -> None:
        self._learner.learn(None, self._actions[arm], reward, 1.0)
        self._history.append((arm, reward))

    def scores(self) -> Floats:
        """Scores to about 1e-13, from a learner told the same history with one more feature, 0 for every arm.

        Once that feature alone is pulled with a known reward, the action with c there and 0 elsewhere has a
        known score, increasing in c; bisection finds where the learner turns from an arm to it.
        """
        learner = self._new_learner()
        actions = [[*action, 0.0] for action in self._actions]
        for arm, reward in self._history:
            learner.learn(None, actions[arm], reward, 1.0)
        zeros = [0.0] * self.features.shape[1]
        # With ridge 1 and one pull at 1, theta is half the reward there and the width 1 / sqrt(2).
        theta, width = 1.0 + self.radius, self.radius / np.sqrt(2.0)
        learner.learn(None, [*zeros, 1.0], 2.0 * theta, 1.0)

        def below(action: list[float], value: float) -> bool:
            probe = [*zeros, float(value / (theta + width if value > 0 else theta - width))]
            chosen, _ = learner.predict(None, [action, probe])
            return chosen is probe

        return np.array([_threshold(partial(below, action)) for action in actions])


def _threshold(passed: Callable[[float], bool]) -> float:
    """Where a monotone `passed` turns from False to True."""
    low, high = -1.0, 1.0
    while not passed(high):
        high *= 2.0
    while passed(low):
        low *= 2.0
    while high - low > 1e-13 * max(1.0, abs(low), abs(high)):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if passed(middle) else (middle, high)
    return 0.5 * (low + high)


PEERS: tuple[type[Driver], ...] = (ContextualBandits, MABWiser, Coba)


def _reason(peer: type[Driver]) -> str | None:
    try:
        importlib.import_module(peer.module)
    except Exception as error:  # an extension built for another NumPy raises more than ImportError
        return f"{type(error).__name__}: {error}"
    return None


def available() -> list[type[Driver]]:
    """The peers whose package imports."""
    return [peer for peer in PEERS if _reason(peer) is None]


def missing() -> dict[str, str]:
    """Why each of the other peers does not import, by name."""
    reasons = {peer.name: _reason(peer) for peer in PEERS}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def agreement(
    driver_cls: type[Driver],
    features: Floats,
    ridge: float,
    radius: float,
    steps: int,
    rng: np.random.Generator,
) -> float:
    """Largest difference from the textbook over a run of random pulls, before the first and after each.

    It is the larger of the difference between the two scores of any arm and of what the arm that the driver
    selects falls short of the best in textbook score.
    """
    textbook, driver = Textbook(features, ridge, radius), driver_cls(features, ridge, radius)
    worst = 0.0
    for step in range(steps + 1):
        expected = textbook.scores()
        worst = max(worst, float(np.max(np.abs(driver.scores() - expected))))
        worst = max(worst, float(np.max(expected) - expected[driver.select()]))
        if step < steps:
            arm, reward = int(rng.integers(len(expected))), float(rng.normal())
            textbook.update(arm, reward)
            driver.update(arm, reward)
    return worst
