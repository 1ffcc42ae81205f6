"""What every regression answers: learn from pulls, and count those whose rewards are not known yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from adadim.core.arrays import Array, device_of, namespace
from adadim.core.rows import Replications


class Regression(ABC):
    """Ridge regressions, one for each replication, each a function of the sums over its pulls.

    While pulls are pending a second regression stands beside it, `pending`: over all pulls that were decided, with no
    rewards. Means are those of the first, widths those of the second.
    """

    pending: Any = None
    streamed = 0
    """Bytes that a pull reads for each replication."""

    @abstractmethod
    def resolve(self, pulled: Any, rewards: Array, rows: Replications) -> None:
        """Learn the rewards of pulls that `add_pending` has counted, one in each replication of `rows`."""

    @abstractmethod
    def without_rewards(self) -> Any:
        """A regression with the same pulls, whose rewards are all zero."""

    def absorb(self, pulled: Any, rewards: Array, rows: Replications) -> None:
        """Learn from one pull in each replication of `rows` that `add_pending` has not counted."""
        if self.pending is not None:
            self.pending.resolve(pulled, rewards * 0.0, rows)
        self.resolve(pulled, rewards, rows)

    def add_pending(self, pulled: Any, rows: Replications) -> None:
        """Count one pull in each replication of `rows` whose reward is not known yet."""
        if self.pending is None:
            self.pending = self.without_rewards()
        xp = namespace(pulled)
        self.pending.resolve(pulled, xp.zeros(len(pulled), dtype=xp.float64, device=device_of(pulled)), rows)

    def clear_pending(self) -> None:
        """Count only the pulls that are answered."""
        self.pending = None

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make the second regression if a saved state has one."""
        if saved.get("pending") is not None:
            self.pending = self.without_rewards()
