"""Linear algebra in one thread, for matrices too small to be shared out over several."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Any, ClassVar

from threadpoolctl import ThreadpoolController


class OneThread(ContextDecorator, threading.local):
    """Context, or decorator, in which BLAS uses one thread for what this thread computes.

    Some libraries keep the number for each thread, some for the process, and some let only the main thread set it. So
    every thread sets it for itself; the last thread to leave, and the main thread whenever it leaves, restore what the
    process had when no thread was inside.
    """

    _lock, _threads_inside = threading.Lock(), 0
    _threads_before: ClassVar[list[int]] = []  # of each library; empty while it has the number that it had before
    _pools: ClassVar[list[Any] | None] = None
    depth = 0

    def __enter__(self) -> None:
        self.depth += 1
        if self.depth > 1:
            return
        kind = type(self)
        with self._lock:
            if kind._pools is None:  # it searches all loaded libraries, so only once
                kind._pools = ThreadpoolController().select(user_api="blas").lib_controllers
            threads = [pool.num_threads for pool in kind._pools]
            if threads.count(1) < len(threads):
                self._set_threads([1] * len(threads))
                kind._threads_before = kind._threads_before or threads
            kind._threads_inside += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if self.depth:
            return
        kind = type(self)
        with self._lock:
            kind._threads_inside -= 1
            last = not kind._threads_inside
            if kind._threads_before and (last or threading.current_thread() is threading.main_thread()):
                self._set_threads(kind._threads_before)
                kind._threads_before = [] if last else kind._threads_before

    def _set_threads(self, numbers: list[int]) -> None:
        # One by one: an object of threadpoolctl that does this and undoes it takes twice as long.
        for pool, threads in zip(self._pools or (), numbers, strict=True):
            pool.set_num_threads(threads)


one_thread = OneThread()
