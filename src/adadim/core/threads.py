"""Linear algebra in one thread, for matrices too small to be shared out over several."""

from __future__ import annotations

import threading
from typing import Any

from threadpoolctl import ThreadpoolController


class OneThread(threading.local):
    """Context in which BLAS uses one thread for what this thread computes.

    Some libraries keep the number for each thread, some for the process, and some let only the main thread set it. So
    every thread sets it for itself; the last one out, and the main thread whenever it leaves, set back what the process
    had when nobody was inside.
    """

    _lock, _everyone = threading.Lock(), 0
    _limit: Any = None
    _pools: ThreadpoolController | None = None
    depth = 0

    def __enter__(self) -> None:
        self.depth += 1
        if self.depth > 1:
            return
        kind = type(self)
        with self._lock:
            if kind._pools is None:
                kind._pools = ThreadpoolController()  # looks through all libraries that are loaded: once is enough
            limit = kind._pools.limit(limits=1, user_api="blas")
            if not kind._everyone:
                kind._limit = limit
            kind._everyone += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if self.depth:
            return
        kind = type(self)
        with self._lock:
            kind._everyone -= 1
            if not kind._everyone or threading.current_thread() is threading.main_thread():
                kind._limit.restore_original_limits()


one_thread = OneThread()
