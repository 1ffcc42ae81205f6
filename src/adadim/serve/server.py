"""A process that serves until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from adadim.core.threads import one_thread
from adadim.errors import InvalidValueError
from adadim.serve import events
from adadim.serve.app import AgentThread, create_app
from adadim.serve.messages import Refusal
from adadim.serve.settings import Settings

KEEP_ALIVE_SECONDS = 30  # that a connection may wait for its next request
MAX_CONNECTIONS = 1000  # beyond which the answer is 503
BACKLOG = 512  # connections that wait to be accepted
HEAD_BYTES = 16 * 1024  # the most of a request's line and headers
SHUTDOWN_SECONDS = 15  # that requests under way have when the service stops


class Service:
    """A service for an agent. Connections are accepted as soon as it is made, and answered while it runs.

    Parameters
    ----------
    path : str or Path
        File of the agent, which must exist, or its address in a database: ``"postgresql://user@host/db#shop"``.
    settings : Settings, optional
        Where it listens, token and limits.
    listener : socket, optional
        A socket that listens already, which several processes may share.

    Attributes
    ----------
    url : str
        Address of the service.

    Examples
    --------
    `run` serves until SIGTERM or Ctrl-C. As a context, the service runs in a thread of this program:

    >>> import adadim, pathlib, tempfile
    >>> from adadim.serve import Client, Service, Settings
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "shop.db")
    >>> adadim.Agent.create(path, dim=2).close()
    >>> with Service(path, Settings(port=0)) as service, Client(service.url) as client:
    ...     answer = client.ask({"red": [1.0, 0.0]})
    ...     new = client.tell(answer.id, 1.0)
    ...     print(answer.arm, new, client.status()["rewards"])
    red True 1
    >>> folder.cleanup()
    """

    def __init__(
        self, path: str | Path, settings: Settings | None = None, listener: socket.socket | None = None
    ) -> None:
        settings = settings or Settings()
        self._agent = AgentThread(path)
        try:
            self._listener = listener or listen(settings)
        except BaseException:
            self._agent.close()
            raise
        self.url = url_of(self._listener)
        self._server = uvicorn.Server(
            uvicorn.Config(
                create_app(self._agent, settings),
                loop="asyncio",
                http=type("Protocol", (TimedProtocol,), {"request_timeout": settings.request_timeout}),
                ws="none",
                lifespan="off",
                log_level="error",  # a bad request is answered, and does not belong in the log
                access_log=False,
                proxy_headers=False,  # the address of a client is not what the client says it is
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                limit_concurrency=MAX_CONNECTIONS,
                h11_max_incomplete_event_size=HEAD_BYTES,
            )
        )
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until SIGTERM, Ctrl-C or `stop`; requests under way are finished first."""
        events.log_event("started", url=self.url)
        try:
            # uvicorn finishes its requests, then raises the signal again in this process.
            with self._listener, one_thread, contextlib.suppress(KeyboardInterrupt):
                self._server.run(sockets=[self._listener])
        finally:
            self._agent.close()
            events.log_event("stopped")

    def stop(self) -> None:
        """Make `run` end."""
        self._server.should_exit = True

    def __enter__(self) -> Service:
        self._thread = threading.Thread(target=self.run, name="service")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()


class TimedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn, which closes connections on which no complete head of a request comes in time.

    uvicorn waits for ever for the first request, and stops its clock as soon as a byte of a later one arrives: clients
    that send a byte now and then could hold all connections.
    """

    request_timeout: float
    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(GatheredWrites(transport, self.loop))  # type: ignore[arg-type]
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Between two requests uvicorn's own clock runs, which the first byte stops; most often the whole head is there.
        if self.timer is None and (self.cycle is None or self.cycle.response_complete):
            self._start_timer()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is no HTTP/1.1 request, or its head is too long")

    def _start_timer(self) -> None:
        self.timer = self.loop.call_later(self.request_timeout, self._give_up)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self._refuse(408, f"no complete request within {self.request_timeout:g} seconds")

    def _refuse(self, status: int, reason: str) -> None:
        answer = Refusal(status, reason, headers={"connection": "close"}).response()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            head = h11.Response(status_code=status, headers=answer.raw_headers)
            for event in (head, h11.Data(bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class GatheredWrites:
    """A transport that sends all that is written in one turn of the event loop at once: head and body of an answer."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._parts = transport, loop, list[bytes]()

    def write(self, data: bytes) -> None:
        """Send this in the next turn of the event loop, after what was written before."""
        if data:
            if not self._parts:
                self._loop.call_soon(self._flush)
            self._parts.append(data)

    def close(self) -> None:
        """Send what was written, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def url_of(listener: socket.socket) -> str:
    """The URL of a service that listens on a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(settings: Settings) -> socket.socket:
    """A socket that accepts connections from now on."""
    address = (settings.host, settings.port)
    try:
        family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listener = socket.create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:  # a name that cannot be a name of a machine is the latter
        raise InvalidValueError(f"cannot listen on {settings.host}, port {settings.port}: {error}") from error
    # Connections inherit it: asyncio would leave Nagle's algorithm on, with which every answer takes 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
