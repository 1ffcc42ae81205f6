"""What is known of arms that have nothing to do with each other: pulls, sums of rewards, pulls not answered yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from adadim.core.arrays import Array, as_numpy, clamp, namespace, zeros
from adadim.core.rows import Rows
from adadim.policies.base import Learner, Memo, pull_counts

UNANSWERED = 1e100  # arms without an answer come first, those that were asked least before the others


class ArmStatistics:
    """Pulls and reward sums of unrelated arms in each replication; of pulls without a reward yet, the number."""

    open: Array | None = None  # pulls whose rewards are not known yet, once there are any

    def __init__(self, arms: int, reference: Array) -> None:
        self.arms = arms
        self.counts, self.sums = (zeros(reference, reference.shape[0], arms) for _ in range(2))

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make room for open pulls if a saved state has some."""
        if saved.get("open") is not None:
            self.open = self.counts * 0.0

    def expect(self, arms: Array, rows: Rows) -> None:
        """Count one pull per replication whose reward is not known yet."""
        if self.open is None:
            self.open = self.counts * 0.0
        rows.add(self.open, arms, 1.0)

    def add(self, arms: Array, rewards: Array, rows: Rows) -> None:
        """Count one pull per replication."""
        rows.add(self.counts, arms, 1.0)
        rows.add(self.sums, arms, rewards)

    def index(self, rows: Rows, width: Callable[[Array], Array]) -> Array:
        """Mean plus width(n) of every arm, n counting pulls without an answer too; infinite for arms never pulled."""
        pulls = rows.of(self.counts)
        xp, answered = namespace(pulls), clamp(pulls, 1.0)
        unanswered = None if self.open is None else rows.of(self.open)
        n = answered if unanswered is None else clamp(pulls + unanswered, 1.0)
        index = rows.of(self.sums) / answered + width(n)
        never = xp.full_like(index, math.inf) if unanswered is None else UNANSWERED / (1.0 + unanswered)
        return xp.where(pulls > 0, index, never)


class ArmLearner(Learner):
    """A learner that keeps nothing but the statistics of unrelated arms."""

    fixed_operations = True
    statistics: ArmStatistics

    def positions(self, arms: Array, memo: Memo) -> Array:
        """Where arms stand in the statistics."""
        return arms

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.statistics.add(self.positions(arms, memo), rewards, rows)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        self.statistics.expect(self.positions(arms, memo), rows)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        rows.add(self.statistics.open, self.positions(arms, memo), -1.0)
        self.absorb(arms, rewards, rows, memo)

    def drop_expected(self) -> None:
        self.statistics.open = None

    def descriptions(self) -> list[dict[str, Any]]:
        counts = as_numpy(self.statistics.counts)
        return [{"replication": r, **pull_counts(n)} for r, n in zip(self.problem.replications, counts, strict=True)]
