"""Worker processes: what they may import, and when they end.

Workers import nothing that their parent could not: Python would put the current folder first on the path of each. They
end with their parent, however it ends, and leave Ctrl-C to it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

import joblib
from joblib.parallel import get_active_backend

__all__ = ["outcomes"]

T = TypeVar("T")

WATCH = 0.5  # seconds between looks at whether the parent lives

_watching: set[int] = set()


def outcomes(function: Callable[..., T], calls: Iterable[tuple[Any, ...]], count: int) -> Generator[T]:
    """What `function` gives for each call, in `count` processes, as they are done.

    Within ``joblib.parallel_config(backend=...)`` another backend of joblib does the work.
    """
    backend, _ = get_active_backend()
    options: dict[str, Any] = {}
    if type(backend).__name__ == "LokyBackend":
        options = {"initializer": begin, "initargs": (os.getpid(),)}
    pool = joblib.Parallel(count, return_as="generator_unordered", batch_size=1, max_nbytes=None, **options)
    tasks = (joblib.delayed(function)(*call) for call in calls)
    with _environment("PYTHONSAFEPATH", "1"):
        with _interrupts_held():
            done = pool(tasks)
        yield from done


def begin(parent: int) -> None:
    """What a worker does first: end when the process `parent` does, and let that one see to Ctrl-C."""
    if os.getpid() == parent or parent in _watching:
        return
    _watching.add(parent)
    with contextlib.suppress(ValueError):  # only a main thread may
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        threading.Thread(target=_watch, args=(parent,), name="adadim-parent", daemon=True).start()


def _watch(parent: int) -> None:
    """End this process when it has another parent than `parent`: that one is gone."""
    while os.getppid() == parent:
        time.sleep(WATCH)
    os._exit(1)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable that processes started meanwhile inherit."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait: processes started meanwhile never see it, and so die of it nowhere in their imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
