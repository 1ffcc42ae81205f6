"""What people watch of an agent: rewards day by day, and which arms were chosen lately.

It reads the file through a connection of its own, which cannot write, and reads each reward once.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from adadim.agent.file import as_matrix
from adadim.errors import FileError

__all__ = ["Day", "Offer", "Watch"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

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


@dataclass(frozen=True, eq=False)
class Offer:
    """Arms of a decision with their features, and the context if there was one; as `Agent.estimate` takes them."""

    arms: dict[str, FloatArray]
    context: FloatArray | None


@dataclass
class _Total:
    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def day(self, number: int) -> Day:
        mean = self.total / self.count
        spread = max(self.squares / self.count - mean**2, 0.0) * self.count / max(self.count - 1, 1)
        half = QUANTILE * math.sqrt(spread / self.count)
        return Day((EPOCH + timedelta(days=number)).date().isoformat(), self.count, mean, mean - half, mean + half)


class Watch:
    """A reader of the file of an agent."""

    def __init__(self, path: Path) -> None:
        self.path, self._seen = path, 0
        self._totals: defaultdict[int, _Total] = defaultdict(_Total)
        uri = f"{path.absolute().as_uri()}?mode=ro"
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)

    def days(self, last: int = 60) -> list[Day]:
        """The days whose decisions have rewards, at most `last` of them.

        A reward counts for the day of its decision. What was compacted before this object was made is not counted.
        """
        query = """
            SELECT CAST(d.time / 86400 AS INTEGER), count(*) - count(r.replaces), sum(r.reward - ifnull(r.replaces, 0)),
                   sum(r.reward * r.reward - ifnull(r.replaces * r.replaces, 0))
            FROM rewards r JOIN decisions d ON d.number = r.decision
            WHERE r.seq > ? AND r.seq <= ? AND d.policy IS NOT NULL GROUP BY 1
        """
        ((upto,),) = self._rows("SELECT ifnull(max(seq), 0) FROM rewards")
        for number, count, total, squares in self._rows(query, self._seen, upto):
            day = self._totals[number]
            day.count, day.total, day.squares = day.count + count, day.total + total, day.squares + squares
        self._seen = max(self._seen, upto)
        return [self._totals[number].day(number) for number in sorted(self._totals)[-last:]]

    def choices(self, last: int = 1000) -> dict[str, int]:
        """How often each arm was chosen in the last decisions, most often first."""
        query = """
            SELECT arm, count(*) AS n FROM (
                SELECT arm FROM decisions WHERE policy IS NOT NULL ORDER BY number DESC LIMIT ?
            ) GROUP BY arm ORDER BY n DESC, arm
        """
        return dict(self._rows(query, last))

    def last_offer(self) -> Offer | None:
        """What the last decision was made among; None if there is none."""
        query = """
            SELECT o.arms, o.features, d.context FROM decisions d JOIN offers o ON o.id = d.offer
            ORDER BY d.number DESC LIMIT 1
        """
        for arms, stored, before in self._rows(query):
            names = json.loads(arms)
            features = as_matrix(stored, len(stored) // 8 // len(names))
            context = None if before is None else as_matrix(before, len(before) // 8)[0]
            return Offer(dict(zip(names, features, strict=True)), context)
        return None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as failure:
            raise FileError(f"{self.path}: cannot be read ({failure})") from failure
