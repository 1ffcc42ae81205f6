"""What people watch of an agent: rewards day by day, and which arms were chosen lately."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from adadim.agent.log import DayRewards, Log, Round
from adadim.agent.sqlite import SqliteLog

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUANTILE = 1.96  # of the normal distribution, for 95%


@dataclass(frozen=True)
class Day:
    """The rewards of the decisions of one day (UTC): how many came, their mean, and a 95% interval of it."""

    day: str
    rewards: int
    mean: float
    low: float
    high: float


class Watch:
    """A reader of an agent's log, which cannot write, and reads each reward once."""

    def __init__(self, path: Path) -> None:
        self._log: Log = SqliteLog(path, write=False)
        self._seen, self._days = 0, dict[int, DayRewards]()

    def days(self, last: int = 60) -> list[Day]:
        """The days whose decisions have rewards, at most `last` of them.

        A reward counts for the day of its decision. What was compacted before this object was made is not counted.
        """
        with self._log.transaction(write=False):
            seen = self._log.place().reward
            for day, rewards, total, squares in self._log.day_rewards(self._seen):
                before = self._days.get(day, DayRewards(day, 0, 0.0, 0.0))
                total, squares = before.total + total, before.squares + squares
                self._days[day] = DayRewards(day, before.rewards + rewards, total, squares)
            self._seen = seen
        return [_mean_of(self._days[day]) for day in sorted(self._days)[-last:]]

    def choices(self, last: int = 1000) -> dict[str, int]:
        """How often each arm was chosen in the last decisions, most often first."""
        with self._log.transaction(write=False):
            return self._log.choices(last)

    def last_offer(self) -> Round | None:
        """What the last decision was made among; None if there is none."""
        with self._log.transaction(write=False):
            return self._log.last_asked()

    def close(self) -> None:
        """Close the log."""
        self._log.close()


def _mean_of(rewards: DayRewards) -> Day:
    day, count, total, squares = rewards
    mean = total / count
    spread = max(squares / count - mean**2, 0.0) * count / max(count - 1, 1)
    half = QUANTILE * math.sqrt(spread / count)
    return Day((EPOCH + timedelta(days=day)).date().isoformat(), count, mean, mean - half, mean + half)
