"""Checks of every request before the application (rate, host, token, type, size), and its time and status counted."""

from __future__ import annotations

import asyncio
import bisect
import hmac
import ipaddress
import itertools
import logging
import math
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from fastapi import FastAPI, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from adadim.serve.events import log_event, logger
from adadim.serve.messages import Refusal
from adadim.serve.settings import Settings

# They show nothing of the agent; the last two have examples of it for callers with the token.
PATHS_WITHOUT_TOKEN = ("/", "/health", "/ready", "/docs", "/openapi.json")
METHODS = ("GET", "POST", "DELETE")
DRAIN_FACTOR = 8  # a body of up to so many times the limit is read to its end, so that the client sees the answer
# Browsers do not cache the answer to a POST, nor show it as a page: it needs fewer headers.
HEADERS_OF_POST = [(b"x-content-type-options", b"nosniff")]
HEADERS = [*HEADERS_OF_POST, (b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer")]
LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
LATENCIES_KEPT = 1000  # of each path, for the percentiles
MIN_FOR_P99 = 20  # calls below which the largest latency is all that a 99th percentile would say
AGENT_GAUGES = {
    "decisions": "Decisions in the log.",
    "rewards": "Decisions that have a reward.",
    "outstanding": "Decisions that wait for a reward.",
    "expired": "Decisions whose reward did not arrive in time.",
    "arms": "Arms of the catalogue.",
    "memory": "Half-life in use, in decisions; +Inf where nothing is forgotten.",
    "memory_since": "Decision since which this half-life is in use, 0 for the start.",
    "world_changed": "Decision at which a change in the rewards was last detected, 0 if never.",
}


class Gate:
    """Refuses requests that should not reach the application, passes on the others with their bodies, and counts both.

    `posts` are the functions that answer a POST, by path; the application answers all else.
    """

    def __init__(
        self,
        app: FastAPI,
        settings: Settings,
        metrics: Metrics,
        posts: Mapping[str, Callable[[bytes], Awaitable[Response]]],
    ) -> None:
        self.app, self.settings, self.metrics, self.posts = app, settings, metrics, posts
        self.rate_limit = RateLimit(settings.rate, settings.burst)
        self.paths = {route.path for route in app.routes if isinstance(route, Route)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500
        added_headers = HEADERS_OF_POST if scope["method"] == "POST" else HEADERS

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *added_headers]
            await send(message)

        try:
            try:
                body = await self.admit(scope, receive)
            except Refusal as refusal:
                await refusal.response()(scope, receive, send_with_headers)
                return
            post = self.posts.get(scope["path"]) if scope["method"] == "POST" else None
            if post is None:
                await self.app(scope, _replaying(body, receive), send_with_headers)
            else:
                await (await post(body))(scope, receive, send_with_headers)
        except Exception:  # a defect: it was answered by 500, and the service goes on
            logger.exception("%s %s", scope["method"], scope["path"])
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            method = scope["method"] if scope["method"] in METHODS else "other"
            seconds = time.perf_counter() - begun
            self.metrics.observe(path, method, status, seconds)
            if logger.isEnabledFor(logging.INFO):
                client = scope["client"][0] if scope.get("client") else None
                took = round(1000 * seconds, 3)
                log_event("request", method=method, path=path, status=status, ms=took, client=client)

    async def admit(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request, after all checks."""
        client = scope.get("client")
        wait = self.rate_limit.take(client[0] if client else "")
        if wait:
            reason = f"more than {self.settings.rate:g} requests per second from one address"
            raise Refusal(429, reason, headers={"Retry-After": str(math.ceil(wait))})
        headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))  # the first of each name counts
        self._check_caller(scope["path"], headers)
        if scope["method"] == "POST" and scope["path"] in self.posts:  # elsewhere no body would do: 404 or 405
            _check_type(headers)
        try:
            async with asyncio.timeout(self.settings.request_timeout):
                return await self._read_body(headers.get(b"content-length", b"0"), receive)
        except _DisconnectError:
            raise Refusal(400, "the client left before the request was complete") from None
        except TimeoutError:
            reason = f"the request was not complete after {self.settings.request_timeout:g} seconds"
            raise Refusal(408, reason, headers={"Connection": "close"}) from None

    def _check_caller(self, path: str, headers: Mapping[bytes, bytes]) -> None:
        if self.settings.token is None:
            # A web page that points its own name at this machine could otherwise call the service from a browser here.
            host = headers.get(b"host", b"").decode("latin-1")
            if not _is_loopback(host):
                raise Refusal(421, f"without a token the service answers to localhost and 127.0.0.1 only, got {host!r}")
        elif path not in PATHS_WITHOUT_TOKEN:
            authorization = headers.get(b"authorization", b"").decode("latin-1")
            if not carries_token(authorization, self.settings.token):
                reason = "the wrong token" if authorization else "a token is needed: Authorization: Bearer TOKEN"
                raise Refusal(401, reason, headers={"WWW-Authenticate": 'Bearer realm="adadim"'})

    async def _read_body(self, declared: bytes, receive: Receive) -> bytes:
        most = self.settings.largest_body
        parts, size, more = [], 0, not (declared.isdigit() and int(declared) > DRAIN_FACTOR * most)
        too_large = not more
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _DisconnectError
            part = message.get("body", b"")
            size += len(part)
            too_large = size > most
            if not too_large:
                parts.append(part)
            more = message.get("more_body", False) and size <= DRAIN_FACTOR * most
        if too_large:
            raise Refusal(413, f"a request may have {most} bytes", headers={"Connection": "close"})
        return b"".join(parts)


def carries_token(authorization: str, token: str) -> bool:
    """Whether the header Authorization carries the token."""
    scheme, _, given = authorization.partition(" ")
    right = hmac.compare_digest(given.strip().encode("latin-1"), token.encode())
    return scheme.lower() == "bearer" and right


class _DisconnectError(Exception):
    """The client disconnected before its request was complete."""


class RateLimit:
    """A token bucket for each address: `burst` calls at once, `rate` per second on average (0: no limit).

    The last `addresses` that called are remembered.
    """

    def __init__(
        self, rate: float, burst: int, addresses: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self.addresses, self.clock = rate, burst, addresses, clock
        self.calls: OrderedDict[str, tuple[float, float]] = OrderedDict()  # calls left, and as of when

    def take(self, address: str) -> float:
        """Seconds to wait before the next call; 0 if this one is allowed, which is then counted."""
        if self.rate == 0:
            return 0.0
        now = self.clock()
        left, then = self.calls.pop(address, (float(self.burst), now))
        left = min(self.burst, left + (now - then) * self.rate)
        allowed = left >= 1
        self.calls[address] = (left - allowed, now)
        if len(self.calls) > self.addresses:
            self.calls.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self.rate


class Metrics:
    """Requests by path, method and status, and how long those that succeeded took."""

    def __init__(self) -> None:
        self.started = time.time()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.bins: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(LATENCY_BOUNDS) + 1))
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.recent: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=LATENCIES_KEPT))

    def observe(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests[path, method, status] += 1
        if status < 400:
            self.bins[path][bisect.bisect_left(LATENCY_BOUNDS, seconds)] += 1
            self.seconds[path] += seconds
            self.recent[path].append(seconds)

    def latency(self, path: str) -> dict[str, float | int | None]:
        """Number of successful requests, and the median and 99th percentile of the last ones, in seconds.

        Fewer than 20 have no 99th percentile: it is None.
        """
        if path not in self.recent:
            return {"count": 0, "p50": None, "p99": None}
        median, p99 = np.percentile(self.recent[path], [50, 99]).tolist()
        count = sum(self.bins[path])
        return {"count": count, "p50": median, "p99": p99 if count >= MIN_FOR_P99 else None}

    def text(self, numbers: Mapping[str, Any]) -> str:
        """Prometheus's text format; `numbers` are those of the agent."""
        lines: list[str] = []

        def add(name: str, kind: str, meaning: str, values: Mapping[str, object]) -> None:
            lines.extend([f"# HELP adadim_{name} {meaning}", f"# TYPE adadim_{name} {kind}"])
            lines.extend(f"adadim_{name}{series} {value}" for series, value in values.items())

        counts = {
            f'{{path="{path}",method="{method}",status="{status}"}}': count
            for (path, method, status), count in sorted(self.requests.items())
        }
        add("requests_total", "counter", "Requests by path, method and status.", counts)
        latencies: dict[str, object] = {}
        for path, bins in sorted(self.bins.items()):
            for bound, count in zip((*LATENCY_BOUNDS, "+Inf"), itertools.accumulate(bins), strict=True):
                latencies[f'_bucket{{path="{path}",le="{bound}"}}'] = count
            latencies[f'_sum{{path="{path}"}}'] = f"{self.seconds[path]:.6f}"
            latencies[f'_count{{path="{path}"}}'] = sum(bins)
        add("request_seconds", "histogram", "Seconds that successful requests took.", latencies)
        uptime = f"{time.time() - self.started:.3f}"
        add("uptime_seconds", "gauge", "Seconds since the service started.", {"": uptime})
        for name, meaning in AGENT_GAUGES.items():
            add(name, "gauge", meaning, {"": numbers[name]})
        return "\n".join(lines) + "\n"


def _check_type(headers: Mapping[bytes, bytes]) -> None:
    if headers.get(b"content-type") != b"application/json":
        content_type = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise Refusal(415, f"the content type must be application/json, got {content_type!r}")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refusal(415, "the body must not be compressed")


@lru_cache(maxsize=64)
def _is_loopback(host: str) -> bool:
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _replaying(body: bytes, receive: Receive) -> Receive:
    """A `receive` for a request whose body was read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
