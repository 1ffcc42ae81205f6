"""What the gate of the service keeps: the rate of each address, and how long requests took."""

import pytest

pytest.importorskip("fastapi")

from adadim.serve.gate import Metrics, RateLimit


def test_calls_come_back_at_the_rate():
    now = [0.0]
    limit = RateLimit(rate=2, burst=3, clock=lambda: now[0])
    assert [limit.take("10.0.0.1") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    now[0] = 0.5
    assert (limit.take("10.0.0.1"), limit.take("10.0.0.2")) == (0.0, 0.0)
    assert limit.take("10.0.0.1") == 0.5


def test_the_address_that_called_longest_ago_is_forgotten():
    limit = RateLimit(rate=1, burst=1, addresses=2, clock=lambda: 0.0)
    assert [limit.take(address) for address in ("a", "b", "c")] == [0.0, 0.0, 0.0]
    assert (limit.take("c"), limit.take("a")) == (1.0, 0.0)


def test_latencies_of_requests_that_succeeded():
    metrics = Metrics()
    assert metrics.latency("/ask") == {"count": 0, "p50": None, "p99": None}
    metrics.observe("/ask", "POST", 200, 0.004)
    metrics.observe("/ask", "POST", 422, 9.0)
    assert metrics.latency("/ask") == {"count": 1, "p50": 0.004, "p99": None}
    for _ in range(18):
        metrics.observe("/ask", "POST", 200, 0.004)
    assert metrics.latency("/ask") == {"count": 19, "p50": 0.004, "p99": None}  # the largest of 19 is no p99
    metrics.observe("/ask", "POST", 200, 0.004)
    assert metrics.latency("/ask") == {"count": 20, "p50": 0.004, "p99": 0.004}
