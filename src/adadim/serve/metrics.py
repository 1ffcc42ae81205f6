"""What the service counts and times, and the same as Prometheus reads it."""

from __future__ import annotations

import bisect
import itertools
import time
from collections import Counter, deque
from collections.abc import Mapping

import numpy as np

__all__ = ["Metrics"]

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the bins of the latencies, in seconds."""

KEPT = 1000  # latencies of each path that the percentiles are taken of

HELP = {
    "decisions": "Decisions in the log.",
    "rewards": "Decisions that have a reward.",
    "outstanding": "Decisions that wait for a reward.",
    "expired": "Decisions whose reward did not come in time.",
    "arms": "Arms of the catalogue.",
}


class Metrics:
    """Requests by path, method and status, and how long they took.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.observe("/ask", "POST", 200, 0.004)
    >>> print(metrics.text({"decisions": 1}).splitlines()[2])
    adadim_requests_total{path="/ask",method="POST",status="200"} 1
    >>> metrics.latency("/ask")
    {'count': 1, 'p50': 0.004, 'p99': 0.004}
    """

    def __init__(self) -> None:
        self.started = time.time()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.bins: dict[str, list[int]] = {}
        self.seconds: Counter[str] = Counter()
        self.recent: dict[str, deque[float]] = {}

    def observe(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count a request; latencies are kept of those that succeeded."""
        self.requests[path, method, status] += 1
        if status < 400:
            self.bins.setdefault(path, [0] * (len(BOUNDS) + 1))[bisect.bisect_left(BOUNDS, seconds)] += 1
            self.seconds[path] += seconds  # type: ignore[assignment]
            self.recent.setdefault(path, deque(maxlen=KEPT)).append(seconds)

    def latency(self, path: str) -> dict[str, float | int | None]:
        """Number of successful requests, and the median and 99th percentile of the last ones, in seconds."""
        recent = self.recent.get(path)
        if not recent:
            return {"count": 0, "p50": None, "p99": None}
        low, high = np.percentile(recent, [50, 99]).tolist()
        return {"count": sum(self.bins[path]), "p50": low, "p99": high}

    def text(self, numbers: Mapping[str, float]) -> str:
        """Prometheus's text format; `numbers` are those of the agent."""
        lines = [*_head("requests_total", "counter", "Requests by path, method and status.")]
        for (path, method, status), count in sorted(self.requests.items()):
            lines.append(f'adadim_requests_total{{path="{path}",method="{method}",status="{status}"}} {count}')
        lines += _head("request_seconds", "histogram", "Seconds that successful requests took.")
        for path, bins in sorted(self.bins.items()):
            for bound, count in zip((*BOUNDS, "+Inf"), itertools.accumulate(bins), strict=True):
                lines.append(f'adadim_request_seconds_bucket{{path="{path}",le="{bound}"}} {count}')
            lines.append(f'adadim_request_seconds_sum{{path="{path}"}} {self.seconds[path]:.6f}')
            lines.append(f'adadim_request_seconds_count{{path="{path}"}} {sum(bins)}')
        lines += _head("uptime_seconds", "gauge", "Seconds since the service started.")
        lines.append(f"adadim_uptime_seconds {time.time() - self.started:.3f}")
        for name, meaning in HELP.items():
            if name in numbers:
                lines += [*_head(name, "gauge", meaning), f"adadim_{name} {numbers[name]}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP adadim_{name} {meaning}", f"# TYPE adadim_{name} {kind}"
