"""Learners whose state is a function of sums over their data, and which can therefore be started from them."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.models.moments import Moments
from adadim.policies.player import Memo


@runtime_checkable
class LearnsFromSums(Protocol):
    """What a learner on one replication of a contextual problem offers to whoever keeps the data: `adadim.Agent`.

    Every learner has `resume`, `choose`, `more_scores` and `scores_in_turn`; the rest is what sums of its data need.
    """

    everyone: Rows

    def resume(self, decided: int, streams: Streams) -> None:
        """Go on as if so many decisions had been made, with the random numbers of these streams."""
        ...

    def choose(self, rows: Rows) -> tuple[FloatArray, Memo]:
        """The arm to pull among those that `rows` offer."""
        ...

    def more_scores(self, rows: Rows, draws: int) -> FloatArray | None:
        """Scores as `choose` would draw them again; None where it does not draw them."""
        ...

    def scores_in_turn(
        self, rounds: FloatArray | Sequence[FloatArray], decided: int
    ) -> Generator[FloatArray, int, None] | None:
        """Scores of several rounds, with the arm chosen in each sent back; None: each has to be chosen by itself."""
        ...

    def restart(self, sums: Moments) -> None:
        """Forget everything, and know what these sums say."""
        ...

    def expect_features(self, features: FloatArray) -> None:
        """Count a pull of features (d,) whose reward is not known yet."""
        ...


@runtime_checkable
class EstimatesFromSums(LearnsFromSums, Protocol):
    """A learner that estimates the means of arms besides."""

    def estimates(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Estimated mean (K,) of arms (K, d) and its standard deviation (K,), infinite while the noise is unknown."""
        ...


def deviations(width2: FloatArray, problem: Problem, residual: float, pulls: int) -> FloatArray:
    """sigma sqrt(x^T V^-1 x), with the noise that is given or, if none is, the residual sum of squares over n.

    Examples
    --------
    >>> problem = Problem(arms=2, dim=2, horizon=10)
    >>> deviations(np.array([0.25, 1.0]), problem, residual=8.0, pulls=2)
    array([1., 2.])
    """
    if problem.noise_known:
        return problem.noise * np.sqrt(width2)
    if not pulls:
        return np.full(len(width2), math.inf)
    return math.sqrt(max(residual, 0.0) / pulls) * np.sqrt(width2)
