"""Small problems of every kind to play a policy in.

What happens depends on a replication's number and its own clock, not on who else plays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adadim.core.arrays import FloatArray, as_numpy, like
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams
from adadim.policies.base import Decision, Learner
from adadim.testing.report import Failure

OFFERS = ("fixed", "contexts", "disjoint", "arriving")
"""Kinds of problems: arms that stay, features that come with each round, a parameter for each arm, arms that arrive."""

HORIZON, ROUNDS, ARM_COUNT, DIM = 52, 40, 6, 5  # horizon of the problem, and rounds that are played
ARRIVES = (1, 1, 1, 10, 20, 500)
TOGETHER = (5, 2, 9)  # numbers of the replications of a batch
NOISE = 0.2


def draw_arms(replications: tuple[int, ...]) -> FloatArray:
    """Features (R, K, d) of arms that stay."""
    drawn = Streams(0, Purpose.INSTANCE, replications).table(ARM_COUNT * DIM, normal=True)
    return drawn.reshape(-1, ARM_COUNT, DIM) / 4


def problem_of(offer: str, library: str = "numpy", replications: tuple[int, ...] | None = None) -> Problem:
    """A small problem of a kind; a single one without `replications`."""
    known: dict[str, Any] = {"horizon": HORIZON, "noise": NOISE, "reward_range": 1.0}
    if offer in ("contexts", "disjoint"):
        problem = Problem(arms=ARM_COUNT, dim=DIM, disjoint=offer == "disjoint", replications=replications, **known)
    else:
        features = draw_arms((0,))[0] if replications is None else draw_arms(replications)
        arrives = ARRIVES if offer == "arriving" else None
        problem = Problem(features, replications=replications, arrives=arrives, **known)
    return problem.to("cpu") if library == "torch" else problem


class World:
    """A small problem with its rewards; `chosen` has the arms of each replication in the order of its decisions."""

    def __init__(self, offer: str, library: str = "numpy", replications: tuple[int, ...] | None = None) -> None:
        self.problem, self.offer = problem_of(offer, library, replications), offer
        numbers = self.problem.replications
        drawn = Streams(0, Purpose.CONTEXT, numbers).table(ROUNDS * ARM_COUNT * DIM, normal=True)
        self._features = drawn.reshape(-1, ROUNDS, ARM_COUNT, DIM) / 4  # those of a context are in the first row
        self._noise = Streams(0, Purpose.NOISE, numbers).table(ROUNDS, normal=True)
        self._clock = np.zeros(len(numbers), dtype=np.int64)
        self._rounds: dict[int, np.ndarray[Any, Any]] = {}  # in which each decision was made, by its number
        self.chosen: dict[int, list[int]] = {number: [] for number in numbers}

    def ask(self, learner: Learner, rows: Any = None, allowed: Any = None) -> Decision:
        """The learner's next decision, which is checked."""
        ids = np.arange(len(self.problem)) if rows is None else np.asarray(rows)
        offered: list[Any] = []
        if self.problem.contextual:
            features = self._features[ids, self._clock[ids]]
            features = features[:, 0] if self.offer == "disjoint" else features
            features = features[0] if self.problem.single else features
            offered = [like(features, self.problem.reference)]
        decision = learner.ask(*offered, allowed=allowed, rows=rows)
        arms = self._checked_arms(decision, ids)
        may = None if allowed is None else np.broadcast_to(np.atleast_2d(allowed), (len(ids), ARM_COUNT))
        for at, (row, arm) in enumerate(zip(ids.tolist(), arms.tolist(), strict=True)):
            where = f"{self.at(row)} it chose arm {arm}"
            if not 0 <= arm < ARM_COUNT:
                raise Failure(f"{where}, and arms are 0..{ARM_COUNT - 1}")
            if may is not None and not may[at, arm]:
                raise Failure(f"{where}, which was not allowed: allowed = {may[at].tolist()}")
            if self.offer == "arriving" and ARRIVES[arm] > self._clock[row] + 1:
                raise Failure(f"{where}, which arrives in round {ARRIVES[arm]}")
            self.chosen[self.problem.replications[row]].append(arm)
        self._rounds[decision.number] = self._clock[ids]
        self._clock[ids] += 1
        return decision

    def tell(self, learner: Learner, decision: Decision) -> None:
        """Tell the learner what a decision earned."""
        times = self._rounds.pop(decision.number)
        earned = np.atleast_1d(as_numpy(decision.arms)) / 10 + NOISE * self._noise[decision.rows, times]
        given = earned.copy()
        learner.tell(decision, float(earned[0]) if self.problem.single else like(given, self.problem.reference))
        if not np.array_equal(given, earned):
            raise Failure(f"{self.at(int(decision.rows[0]))} absorb changed the rewards that it was given")

    def step(self, learner: Learner, rows: Any = None, allowed: Any = None) -> None:
        """One round, answered at once."""
        self.tell(learner, self.ask(learner, rows, allowed))

    def run(self, learner: Learner, rounds: int = ROUNDS) -> dict[int, list[int]]:
        """So many rounds of all replications; gives the arms chosen."""
        for _ in range(rounds):
            self.step(learner)
        return self.chosen

    def at(self, row: int) -> str:
        """The round that a replication is in, in words."""
        number = self.problem.replications[row]
        return f"on {described(self.offer)}, replication {number}, round {int(self._clock[row]) + 1}:"

    def _checked_arms(self, decision: Decision, ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        arms: Any = decision.arms
        if self.problem.single:
            if type(arms) is not int:
                raise Failure(f"{self.at(0)} the arm must be an int, got {type(arms).__name__} {arms!r}")
            return np.array([arms])
        kind, reference = type(arms), self.problem.reference
        if not isinstance(arms, type(reference)):
            raise Failure(f"{self.at(0)} arms must be a {type(reference).__name__}, got a {kind.__name__}")
        if tuple(arms.shape) != (len(ids),) or "int64" not in str(arms.dtype):
            got = f"{arms.dtype} of shape {tuple(arms.shape)}"
            raise Failure(
                f"{self.at(0)} arms must be int64 of shape ({len(ids)},), one for each replication, got {got}"
            )
        return as_numpy(arms)


def described(offer: str) -> str:
    """A kind of problem in words."""
    words = {"fixed": "fixed arms", "disjoint": "contexts with a parameter for each arm", "arriving": "arriving arms"}
    return words.get(offer, offer)
