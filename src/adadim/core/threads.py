"""Linear algebra in one thread, for matrices too small to be shared out over several."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Any

from threadpoolctl import ThreadpoolController


class OneThread(ContextDecorator, threading.local):
    """Context, or decorator, in which BLAS uses one thread for what this thread computes.

    Some libraries keep the number for each thread, some for the process, and some let only the main thread set it. So
    every thread sets it for itself; the last thread to leave, and the main thread whenever it leaves, restore what the
    process had when no thread was inside.
    """

    _lock, _threads_inside = threading.Lock(), 0
    _limit: Any = None
    _pools: ThreadpoolController | None = None
    depth = 0

    def __enter__(self) -> None:
        self.depth += 1
        if self.depth > 1:
            return
        kind = type(self)
        with self._lock:
            if kind._pools is None:  # it searches all loaded libraries, so only once
                kind._pools = ThreadpoolController().select(user_api="blas")
            if any(pool.num_threads != 1 for pool in kind._pools.lib_controllers):
                limit = kind._pools.limit(limits=1)
                kind._limit = kind._limit or limit
            kind._threads_inside += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if self.depth:
            return
        kind = type(self)
        with self._lock:
            kind._threads_inside -= 1
            last = not kind._threads_inside
            if kind._limit is not None and (last or threading.current_thread() is threading.main_thread()):
                kind._limit.restore_original_limits()
                kind._limit = None if last else kind._limit


one_thread = OneThread()
