"""What every request passes before the service looks at it: rate, host, token, size, type, time."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from adadim.serve.metrics import Metrics
from adadim.serve.rate import Buckets
from adadim.serve.refusals import Refusal
from adadim.serve.settings import Settings

__all__ = ["Gate"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

logger = logging.getLogger("adadim.serve")

WITHOUT_TOKEN = ("/", "/health", "/docs", "/openapi.json")
"""Paths that show nothing of the agent."""

METHODS = ("GET", "POST", "DELETE")
DRAINED = 8  # a body of up to so many times the limit is read to its end, so that the client sees the answer
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
]


class Gate:
    """Refuses what should not reach the application, hands over the rest with its whole body, and takes the time.

    Parameters
    ----------
    app : ASGI application
        What is behind the gate.
    settings : Settings
        Limits and token.
    metrics : Metrics
        Where requests are counted.
    paths : set of str
        Paths that exist; requests to others are counted together.
    """

    def __init__(self, app: App, settings: Settings, metrics: Metrics, paths: set[str]) -> None:
        self.app, self.settings, self.metrics, self.paths = app, settings, metrics, paths
        self.buckets = Buckets(settings.rate, settings.burst)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            try:
                body = await self.admit(scope, receive)
            except Refusal as refusal:
                await refusal.response()(scope, receive, noting)
                return
            await self.app(scope, _replaying(body, receive), noting)
        except Exception:  # a defect: it was answered by 500, and the service goes on
            logger.exception("%s %s", scope["method"], scope["path"])
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            method = scope["method"] if scope["method"] in METHODS else "other"
            self.metrics.observe(path, method, status, time.perf_counter() - begun)

    async def admit(self, scope: Message, receive: Receive) -> bytes:
        """The body of a request that may go on."""
        wait = self.buckets.take(scope["client"][0] if scope.get("client") else "")
        if wait:
            reason = f"more than {self.settings.rate:g} requests per second from one address"
            raise Refusal(429, reason, headers={"Retry-After": str(math.ceil(wait))})
        headers = {name.lower(): value for name, value in scope["headers"]}
        self._check_caller(scope["path"], headers)
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if scope["method"] == "POST" and kind != b"application/json":
            raise Refusal(415, f"the content type must be application/json, got {kind.decode('latin-1')!r}")
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refusal(415, "the body must not be compressed")
        return await self._body(headers, receive)

    def _check_caller(self, path: str, headers: dict[bytes, bytes]) -> None:
        token = self.settings.token
        if token is None:
            # A web page that points its own name at this machine could otherwise call the service from a browser here.
            host = headers.get(b"host", b"").decode("latin-1")
            if not _is_loopback(host):
                raise Refusal(421, f"without a token the service answers to localhost and 127.0.0.1 only, got {host!r}")
        elif path not in WITHOUT_TOKEN:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), token.encode()):
                reason = "the wrong token" if scheme else "a token is needed: Authorization: Bearer TOKEN"
                raise Refusal(401, reason, headers={"WWW-Authenticate": 'Bearer realm="adadim"'})

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        most = self.settings.largest_body
        too_large = Refusal(413, f"a request may have {most} bytes", headers={"Connection": "close"})
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > DRAINED * most:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.settings.patience):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the client left before the request was complete")
                    part, more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    if size <= most:
                        parts.append(part)
                    elif size > DRAINED * most:
                        raise too_large
        except TimeoutError:
            reason = f"the request was not complete after {self.settings.patience:g} seconds"
            raise Refusal(408, reason, headers={"Connection": "close"}) from None
        if size > most:
            raise too_large
        return b"".join(parts)


def _is_loopback(host: str) -> bool:
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _replaying(body: bytes, receive: Receive) -> Receive:
    """The messages of a request whose body was read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
