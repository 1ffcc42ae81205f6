"""Pulls that were decided and whose rewards are not known yet: widths count them, means do not.

The width of an arm depends on which arms were pulled, not on what they earned, so a pull counts in it from its decision
on; the mean waits for the reward (Desautels, Krause and Burdick 2014, "Parallelizing exploration-exploitation
tradeoffs"). A regression therefore has a second one beside it as soon as a pull is open: over all pulls that were
asked for, with no rewards. Means, noise and ridge are those of the first, widths those of the second. Answered
at once, a pull is never open and there is no second one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from adadim.core.arrays import Array, device_of, namespace
from adadim.core.rows import Rows


class CountsOpenPulls(ABC):
    """A regression whose widths count pulls that are not answered yet.

    `asked` is the same regression over all pulls asked for, answered or not; None while every pull is answered.
    """

    asked: Any = None

    @abstractmethod
    def answer(self, pulled: Array, rewards: Array, rows: Rows) -> None:
        """Learn the rewards of pulls that `expect` has counted, one in each replication of `rows`."""

    @abstractmethod
    def without_rewards(self) -> Any:
        """A regression with the same pulls, whose rewards are all zero."""

    def absorb(self, pulled: Array, rewards: Array, rows: Rows) -> None:
        """Learn from one pull in each replication of `rows` that nothing is known of yet."""
        self.answer(pulled, rewards, rows)
        if self.asked is not None:
            self.asked.answer(pulled, rewards * 0.0, rows)

    def expect(self, pulled: Array, rows: Rows) -> None:
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
