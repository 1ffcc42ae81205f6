"""The number of the round, for policies on a problem without end."""

from __future__ import annotations

from adadim.backend.arrays import Array, namespace, zeros
from adadim.backend.rows import Rows

__all__ = ["Clock"]


class Clock:
    """Counts the rounds of each replication, where t takes the place of the horizon T.

    A round counts from its decision on, whether or not its reward is known; pulls from a log count as well.

    Examples
    --------
    >>> import numpy as np
    >>> clock, pulls = Clock(np.zeros(2)), np.array([0, 4])
    >>> rows = Rows.all(pulls)
    >>> clock.tick(rows)
    >>> clock.now(rows, pulls)
    array([[2.], [5.]])
    """

    def __init__(self, reference: Array) -> None:
        self.decided = zeros(reference, reference.shape[0], integers=True)

    def now(self, rows: Rows, pulls: Array) -> Array:
        """Number t of the round to be decided, (n, 1), given the pulls (R,) that the learner has learned from."""
        xp = namespace(self.decided)
        t = xp.maximum(rows.of(self.decided), xp.astype(rows.of(pulls), xp.int64)) + 1
        return xp.astype(t, xp.float64)[:, None]

    def tick(self, rows: Rows) -> None:
        """Count a decision in each replication of `rows`."""
        rows.put(self.decided, rows.of(self.decided) + 1)

    def set(self, rows: Rows, decided: int) -> None:
        """Let so many decisions have been made in each replication of `rows`."""
        rows.put(self.decided, rows.of(self.decided) * 0 + decided)
