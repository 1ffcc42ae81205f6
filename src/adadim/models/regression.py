"""What every regression answers: learn from pulls, and count those whose rewards are not known yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from adadim.core.arrays import Array, device_of, namespace
from adadim.core.rows import Rows


class Regression(ABC):
    """Ridge regressions, one for each replication, each a function of the sums over its pulls.

    While pulls are pending a second regression stands beside it, `asked`: over all pulls that were decided, with no
    rewards. Means are those of the first, widths those of the second.
    """

    asked: Any = None
    streamed = 0
    """Bytes that a pull reads for each replication."""

    @abstractmethod
    def answer(self, pulled: Any, rewards: Array, rows: Rows) -> None:
        """Learn the rewards of pulls that `expect` has counted, one in each replication of `rows`."""

    @abstractmethod
    def without_rewards(self) -> Any:
        """A regression with the same pulls, whose rewards are all zero."""

    def absorb(self, pulled: Any, rewards: Array, rows: Rows) -> None:
        """Learn from one pull in each replication of `rows` that `expect` has not counted."""
        if self.asked is not None:
            self.asked.answer(pulled, rewards * 0.0, rows)
        self.answer(pulled, rewards, rows)

    def expect(self, pulled: Any, rows: Rows) -> None:
        """Count one pull in each replication of `rows` whose reward is not known yet."""
        if self.asked is None:
            self.asked = self.without_rewards()
        xp = namespace(pulled)
        self.asked.answer(pulled, xp.zeros(len(pulled), dtype=xp.float64, device=device_of(pulled)), rows)

    def drop_expected(self) -> None:
        """Count only the pulls that are answered."""
        self.asked = None

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make the second regression if a saved state has one."""
        if saved.get("asked") is not None:
            self.asked = self.without_rewards()
