"""Several processes that serve one agent on one port."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from adadim.agent import Agent
from adadim.errors import AdadimError
from adadim.serve.events import logger
from adadim.serve.server import SHUTDOWN_SECONDS, Service, listen, url_of
from adadim.serve.settings import Settings

RESTART_SECONDS = 1.0  # before a process that died is replaced


def run_workers(path: str | Path, settings: Settings, count: int, ready: Callable[[str], None]) -> None:
    """Serve by `count` processes until SIGTERM or Ctrl-C; `ready` is called with the URL once it accepts connections.

    All accept connections on the same port, and each opens the agent for itself. A process that dies is replaced.
    """
    Agent.open(path).close()  # so that an error is raised before any process is started
    context = multiprocessing.get_context("spawn")

    def start(listener: socket.socket) -> BaseProcess:
        process = context.Process(target=_serve, args=(path, settings, listener), name="adadim-serve")
        process.start()
        return process

    with listen(settings) as listener:
        processes = [start(listener) for _ in range(count)]
        try:
            ready(url_of(listener))
            while True:
                wait([process.sentinel for process in processes])
                time.sleep(RESTART_SECONDS)
                for i, process in enumerate(processes):
                    if not process.is_alive():
                        logger.error("a process of the service ended (%s); another takes its place", process.exitcode)
                        processes[i] = start(listener)
        except KeyboardInterrupt:
            pass
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.join(SHUTDOWN_SECONDS + 5)
                process.kill()


def _serve(path: str | Path, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGTERM, or until the process that started this one has ended."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        service = Service(path, settings, listener)
    except AdadimError as error:
        logger.error("%s", error)
        raise SystemExit(1) from None
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_stop_after_parent, args=(parent.sentinel, service), daemon=True).start()
    service.run()


def _stop_after_parent(sentinel: int, service: Service) -> None:
    wait([sentinel])
    service.stop()
