"""Linear algebra in one thread, for matrices too small to be shared out over several."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from threadpoolctl import ThreadpoolController


class OneThread:
    """Context in which BLAS uses one thread for what this thread computes.

    Some libraries keep the number for each thread, some for the process, and some let only the main thread set it. So
    every thread sets it for itself; the last thread to leave, and the main thread whenever it leaves, restore what the
    process had when no thread was inside.
    """

    _lock, _threads_inside = threading.Lock(), 0
    _threads_before: ClassVar[list[int]] = []  # of each library; empty while it has the number that it had before
    _pools: ClassVar[list[Any] | None] = None
    _this_thread = threading.local()  # how deep it is inside

    def __enter__(self) -> None:
        kind, here = OneThread, self._this_thread
        here.depth = depth = getattr(here, "depth", 0) + 1
        if depth > 1:
            return
        with kind._lock:
            pools = kind._pools
            if pools is None:  # it searches all loaded libraries, so only once
                pools = kind._pools = ThreadpoolController().select(user_api="blas").lib_controllers
            threads = [pool.num_threads for pool in pools]
            if threads.count(1) < len(threads):
                # One by one: an object of threadpoolctl that does this and undoes it takes twice as long.
                for pool in pools:
                    pool.set_num_threads(1)
                kind._threads_before = kind._threads_before or threads
            kind._threads_inside += 1

    def __exit__(self, *_: object) -> None:
        kind, here = OneThread, self._this_thread
        here.depth = depth = here.depth - 1
        if depth:
            return
        with kind._lock:
            kind._threads_inside -= 1
            last = not kind._threads_inside
            if kind._threads_before and (last or threading.current_thread() is threading.main_thread()):
                for pool, threads in zip(kind._pools or (), kind._threads_before, strict=True):
                    pool.set_num_threads(threads)
                kind._threads_before = [] if last else kind._threads_before


one_thread = OneThread()
