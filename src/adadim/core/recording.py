"""CUDA graphs, by which the operations of a round are recorded once and replayed, and access to CUDA kernels.

A round is some fifty small operations, and starting one from Python costs several times what it takes on the device; a
replay starts them all at once. A replay runs no Python, so what a round does on the host goes through `on_host`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from adadim.core.arrays import Array, device_of

Action = Callable[[], None]


def is_on_cuda(reference: Array) -> bool:
    """Whether an array is on a CUDA device."""
    return str(device_of(reference)).startswith("cuda")


def can_record(reference: Array) -> bool:
    """Whether operations on arrays like this one can be recorded."""
    return is_on_cuda(reference)


def cuda_kernels(reference: Array) -> Any:
    """The module `triton_kernels` where its kernels run: for arrays on CUDA, if there is Triton; otherwise None."""
    if not is_on_cuda(reference):
        return None
    try:
        from adadim.core import triton_kernels
    except ImportError:
        return None
    return triton_kernels


class _Recording(threading.local):
    """The actions passed to `on_host` while this thread records a round; None while it does not."""

    actions: list[Action] | None = None


_recording = _Recording()
# Held while a round is recorded, replayed or given up: CUDA's random generator, of which torch lets every graph know,
# can do one of these at a time, whichever thread asks.
_graphs = threading.Lock()


def on_host(action: Callable[..., None], *arguments: Any) -> None:
    """Do something in Python that follows the array operations of a round: at once, or after each replay."""
    if _recording.actions is None:
        action(*arguments)
    else:
        _recording.actions.append(partial(action, *arguments))


class Recorder:
    """Calls a function, which works in place on arrays that exist beforehand, or replays its recorded operations."""

    def __init__(self, function: Action, reference: Array) -> None:
        self.function = function
        self.records = can_record(reference)  # if not, every call is an ordinary one
        self._called: set[Hashable] = set()
        self._recorded: dict[Hashable, tuple[Any, list[Action]]] = {}

    def __call__(self, sequence: Hashable) -> None:
        """Run the function once. Calls of equal `sequence` do the same operations; None promises nothing."""
        if sequence is None or not self.records:
            self.function()
        elif sequence not in self._called:  # the first call may still set things up
            self._called.add(sequence)
            self.function()
        else:
            if sequence not in self._recorded:
                self._recorded[sequence] = self._record_with_actions()
            graph, actions = self._recorded[sequence]
            with _graphs:
                graph.replay()
            for action in actions:
                action()

    def _record_with_actions(self) -> tuple[Any, list[Action]]:
        actions: list[Action] = []
        _recording.actions = actions
        try:
            return self.record(), actions
        finally:
            _recording.actions = None

    def close(self) -> None:
        """Give up what was recorded."""
        with _graphs:
            self._recorded.clear()

    def record(self) -> Any:
        """Record the function without running it; the graph returned has a method `replay`."""
        import torch

        graph, now, aside = torch.cuda.CUDAGraph(), torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(now)
        # Not `torch.cuda.graph`, which would stop all other threads: they go on, with streams of their own.
        with _graphs, torch.cuda.stream(aside):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self.function()
            finally:
                graph.capture_end()
        now.wait_stream(aside)
        return graph
