"""A limit on how often one address may call."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["Buckets"]


class Buckets:
    """A token bucket for each address: `burst` calls at once, `rate` per second on average.

    Parameters
    ----------
    rate : float
        Calls per second; 0: no limit.
    burst : int
        Calls that may come at once.
    most : int
        Addresses remembered; the one that called longest ago is forgotten first.
    clock : callable
        Seconds now.

    Examples
    --------
    >>> now = 0.0
    >>> buckets = Buckets(rate=2, burst=3, clock=lambda: now)
    >>> [buckets.take("10.0.0.1") for _ in range(4)]
    [0.0, 0.0, 0.0, 0.5]
    >>> now = 0.5
    >>> buckets.take("10.0.0.1"), buckets.take("10.0.0.2")
    (0.0, 0.0)
    """

    def __init__(
        self, rate: float, burst: int, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self.most, self.clock = rate, burst, most, clock
        self.calls: OrderedDict[str, tuple[float, float]] = OrderedDict()  # calls left, and as of when

    def take(self, address: str) -> float:
        """Seconds to wait before the next call; 0 if this one may go on, which is then counted."""
        if self.rate == 0:
            return 0.0
        now = self.clock()
        left, then = self.calls.pop(address, (float(self.burst), now))
        left = min(self.burst, left + (now - then) * self.rate)
        allowed = left >= 1
        self.calls[address] = (left - allowed, now)
        if len(self.calls) > self.most:
            self.calls.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self.rate
