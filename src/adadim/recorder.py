"""Recording the array operations of a round once and replaying them, where a device can (CUDA graphs).

A round is some fifty small operations, and starting one from Python costs several times what it takes on the device; a
replay starts them all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from adadim.arrays import Array, device_of

__all__ = ["Recorder"]


class Recorder:
    """Calls a function, or replays what it did.

    Parameters
    ----------
    function : callable
        What to call; it works on arrays that exist beforehand, in place, and returns nothing.
    reference : array
        An array on the device it works on.

    Attributes
    ----------
    records : bool
        Whether the device can record; elsewhere phases do not matter.
    replayed : bool
        Whether the function was ever replayed instead of called.
    """

    def __init__(self, function: Callable[[], None], reference: Array) -> None:
        self.function = function
        self.replayed = False
        self.records = str(device_of(reference)).startswith("cuda")
        self._seen: set[Hashable] = set()
        self._graphs: dict[Hashable, Any] = {}

    def __call__(self, phase: Hashable) -> None:
        """Run the function once. Calls of equal `phase` do the same operations; None promises nothing."""
        if phase is None or not self.records:
            self.function()
        elif phase not in self._seen:  # the first call may still set things up
            self._seen.add(phase)
            self.function()
        else:
            if phase not in self._graphs:
                self._graphs[phase] = self._record()
            self._graphs[phase].replay()
            self.replayed = True

    def _record(self) -> Any:
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.function()
        return graph
