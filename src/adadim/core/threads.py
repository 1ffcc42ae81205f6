"""Linear algebra in one thread, for matrices too small to be shared out over several."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any, ClassVar

from threadpoolctl import ThreadpoolController

LOCK_SECONDS = 0.2  # it is held for microseconds: one that is held longer was left by an interrupt
_pools_lock = threading.Lock()


def _acquired() -> threading.Lock:
    """The lock, or a new one in the place of one that an interrupt has left locked."""
    global _pools_lock
    lock = _pools_lock
    if not lock.acquire(timeout=LOCK_SECONDS):
        _pools_lock = lock = threading.Lock()
        lock.acquire()
    return lock


class OneThread:
    """Context in which BLAS uses one thread for what this thread computes.

    Some libraries keep the number for each thread, some for the process, and some let only the main thread set it. So
    every thread sets it for itself; the last thread to leave, and the main thread whenever it leaves, restore what the
    process had when no thread was inside.

    An interrupt may strike on the way in or out; what it leaves is put right by the next one to enter.
    """

    _inside: ClassVar[set[int]] = set()  # threads
    _threads_before: ClassVar[list[int]] = []  # of each library; empty while it has the number that it had before
    _pools: ClassVar[list[Any] | None] = None
    _this_thread = threading.local()  # the frame that entered first, and how often it was entered again

    def __enter__(self) -> None:
        kind, here, frame = OneThread, self._this_thread, sys._getframe(1)
        owner = getattr(here, "owner", None)
        if owner is not None and is_running(owner, frame):
            here.depth += 1
            return
        here.owner, here.depth = frame, 0
        lock = _acquired()
        try:
            kind._inside.add(threading.get_ident())
            pools = kind._pools
            if pools is None:  # it searches all loaded libraries, so only once
                pools = kind._pools = ThreadpoolController().select(user_api="blas").lib_controllers
            threads = [pool.num_threads for pool in pools]
            if threads.count(1) < len(threads):
                kind._threads_before = kind._threads_before or threads
                # One by one: an object of threadpoolctl that does this and undoes it takes twice as long.
                for pool in pools:
                    pool.set_num_threads(1)
        finally:
            lock.release()

    def __exit__(self, *_: object) -> None:
        kind, here = OneThread, self._this_thread
        if here.depth:
            here.depth -= 1
            return
        lock = _acquired()
        try:
            kind._inside.discard(threading.get_ident())
            last = not kind._inside
            if kind._threads_before and (last or threading.current_thread() is threading.main_thread()):
                for pool, threads in zip(kind._pools or (), kind._threads_before, strict=True):
                    pool.set_num_threads(threads)
                kind._threads_before = [] if last else kind._threads_before
        finally:
            lock.release()
        here.owner = None


def is_running(owner: FrameType | None, frame: FrameType | None) -> bool:
    """Whether a frame is this one, or has called it."""
    while frame is not None and frame is not owner:
        frame = frame.f_back
    return frame is not None


one_thread = OneThread()
