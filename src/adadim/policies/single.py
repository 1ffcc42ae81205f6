"""An adapter for policies written for one replication, with plain ints and floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Protocol

import numpy as np

from adadim.core.arrays import Array, as_numpy, like
from adadim.core.checks import instance_of
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.errors import InvalidValueError
from adadim.policies.base import Choice, Learner, Memo, Policy


@dataclass(frozen=True, eq=False)
class SingleProblem:
    """What a policy for one replication may know."""

    features: np.ndarray[Any, Any]
    """Features (K, d)."""
    horizon: int | None
    """Number of rounds; None where there is no end."""
    noise: float | None
    """Sub-Gaussian scale of the noise, if known."""
    reward_range: float | None
    """Range of the mean rewards, if known."""


class SingleLearner(Protocol):
    """A learner for one replication."""

    def select(self) -> int:
        """Arm to pull next."""

    def update(self, arm: int, reward: float) -> None:
        """Learn from a reward."""


@dataclass(frozen=True)
class Single(Policy):
    """Run a policy written for a single replication wherever a policy is expected.

    Parameters
    ----------
    make : callable
        ``make(problem, rng)`` returns an object with ``select() -> int`` and ``update(arm, reward)``. It is called once
        per replication, with a `SingleProblem` and that replication's own random generator; take all randomness
        from the generator, and results are reproducible.

    Examples
    --------
    >>> import adadim
    >>> class Stubborn:
    ...     def __init__(self, problem, rng):
    ...         self.arm = int(rng.integers(len(problem.features)))
    ...
    ...     def select(self):
    ...         return self.arm
    ...
    ...     def update(self, arm, reward):
    ...         pass
    >>> instance = adadim.instances.sphere(arms=9, dim=4, intrinsic_dim=2, horizon=30, replications=range(2))
    >>> adadim.simulate(adadim.Single(Stubborn), instance).pulls.max(axis=1)
    array([30, 30])
    """

    make: Annotated[
        Callable[[SingleProblem, np.random.Generator], SingleLearner],
        partial(instance_of, kind=Callable, wanted="callable as make(problem, rng)"),
    ]

    def learner(self, problem: Problem, streams: Streams) -> LiftedLearner:
        return LiftedLearner(self, problem, streams)


class LiftedLearner(Learner):
    """A learner of the user's own for each replication."""

    takes_late_rewards = False
    no_allowed = "a policy written for one replication is asked for an arm without being shown which are allowed"

    def __init__(self, policy: Single, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        ranges = [None] * len(problem) if problem.reward_range is None else problem.reward_range.tolist()
        noise = problem.noise if problem.noise_known else None
        horizon = None if problem.endless else problem.horizon
        self.learners = [
            policy.make(
                SingleProblem(as_numpy(problem.actions.dense(r)), horizon, noise, ranges[r]),
                streams.generators[r],
            )
            for r in range(len(problem))
        ]

    def choose(self, rows: Replications) -> Choice:
        arms = np.array([self.learners[r].select() for r in rows.ids], dtype=np.int64)
        if arms.min() < 0 or arms.max() >= self.problem.arms:
            bad = int(arms[(arms < 0) | (arms >= self.problem.arms)][0])
            raise InvalidValueError(
                f"{type(self.learners[0]).__name__}.select() must be in 0..{self.problem.arms - 1}, got {bad}"
            )
        return Choice(like(arms, self.problem.reference), {})

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        for r, arm, reward in zip(rows.ids, as_numpy(arms).tolist(), as_numpy(rewards).tolist(), strict=True):
            self.learners[r].update(arm, reward)
