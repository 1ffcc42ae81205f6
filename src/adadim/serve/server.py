"""Running a service until it is told to stop."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path

import uvicorn

from adadim.errors import InvalidValueError
from adadim.serve.app import create_app
from adadim.serve.desk import Desk
from adadim.serve.protocol import protocol
from adadim.serve.settings import Settings

__all__ = ["Service"]

KEEP_ALIVE = 30  # seconds that a connection may wait for its next request
CONNECTIONS = 1000  # beyond which clients are told to come back: 503
BACKLOG = 512  # connections that wait to be accepted
HEAD = 16 * 1024  # bytes of a request's line and headers
LAST_WAIT = 15  # seconds that requests under way have when the service stops


class Service:
    """A service for the agent in a file. Connections are accepted as soon as it is made, and answered while it runs.

    Parameters
    ----------
    path : str or Path
        File of the agent, which must exist.
    settings : Settings, optional
        Where it listens, token and limits.

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

    def __init__(self, path: str | Path, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self._desk = Desk(path)
        try:
            self._listener = _listener(settings)
        except BaseException:
            self._desk.close()
            raise
        host, port = self._listener.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                create_app(self._desk, settings),
                loop="asyncio",
                http=protocol(settings.patience),
                ws="none",
                lifespan="off",
                log_level="error",  # a bad request is the client's affair: it gets its answer, and the log stays short
                access_log=False,
                proxy_headers=False,  # the address of a client is not what the client says it is
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=LAST_WAIT,
                limit_concurrency=CONNECTIONS,
                h11_max_incomplete_event_size=HEAD,
            )
        )
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until SIGTERM, Ctrl-C or `stop`; requests under way are finished first."""
        try:
            # uvicorn stops in good order, then raises the signal again for whoever called it.
            with self._listener, contextlib.suppress(KeyboardInterrupt):
                self._server.run(sockets=[self._listener])
        finally:
            self._desk.close()

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


def _listener(settings: Settings) -> socket.socket:
    listener = None
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = found[0]
        # The number of TCP is needed: without it asyncio leaves Nagle's algorithm on, and every answer takes 40 ms.
        listener = socket.socket(family, kind, number or socket.IPPROTO_TCP)
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart need not wait
        listener.bind(address)
        listener.listen(BACKLOG)
        return listener
    except OSError as error:
        if listener is not None:
            listener.close()
        raise InvalidValueError(f"cannot listen on {settings.host}, port {settings.port}: {error}") from error
