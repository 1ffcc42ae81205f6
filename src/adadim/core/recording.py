"""CUDA graphs, by which the operations of a round are recorded once and replayed, and access to CUDA kernels.

A round is some fifty small operations, and starting one from Python costs several times what it takes on the device; a
replay starts them all at once. A replay runs no Python, so what a round does on the host goes through `on_host`. Before
they are recorded, operations are put together to a few kernels (`fusion`).
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from adadim.core.arrays import Array, device_of

Action = Callable[[], None]
Launch = Callable[[str, int, list[Any], list[int]], None]
"""Takes the text of a kernel, the number of replications, arguments and sizes of blocks."""


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
    """What this thread does: None while it does not."""

    actions: list[Action] | None = None  # passed to `on_host` while it records a round
    fusing: Any = None  # has the operations that wait to be done together


_recording = _Recording()
# Held while a round is recorded, replayed or given up: CUDA's random generator, of which torch lets every graph know,
# can do one of these at a time, whichever thread asks.
_graphs = threading.Lock()


def on_host(action: Callable[..., None], *arguments: Any) -> None:
    """Do something in Python that follows the array operations of a round: at once, or after each replay."""
    if _recording.actions is None:
        action(*arguments)
    else:
        _recording.actions.append(functools.partial(action, *arguments))


def settle() -> None:
    """Do what waits to be done together, before something that torch does not know is started."""
    if _recording.fusing is not None:
        _recording.fusing.flush()


@functools.cache
def stream_aside(device: str) -> Any:
    """The stream of a device on which rounds are recorded, one after the other, and nobody computes.

    Ordinary streams are 32, and go round: what another thread does on the same one would be recorded too.
    """
    import torch

    return torch.cuda.Stream(device, priority=-1)


class Recorder:
    """Calls a function, which works in place on arrays that exist beforehand, or replays its recorded operations."""

    def __init__(self, function: Action, reference: Array) -> None:
        self.function, self.reference = function, reference
        self.records = can_record(reference)  # if not, every call is an ordinary one
        self.fuses = True  # until a kernel cannot be compiled
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
        kernels: Any = cuda_kernels(self.reference) if self.fuses else None
        missing: list[Any] = []

        def launch(*given: Any) -> None:
            kernel = kernels.FusedKernel(*given)
            if kernel.is_compiled:
                kernel.run()
            else:  # a recording cannot wait for it: this one is thrown away
                missing.append(kernel)

        graph = self._capture(kernels and launch)
        while missing:
            self.fuses = _compile(missing)
            missing.clear()
            assert _recording.actions is not None
            _recording.actions.clear()
            graph = self._capture(launch if self.fuses else None)
        return graph

    def _capture(self, launch: Launch | None) -> Any:
        import torch

        graph, now = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        with _graphs:
            aside = stream_aside(str(now.device))
            aside.wait_stream(now)
            # Not `torch.cuda.graph`, which would stop all other threads: they go on, with streams of their own.
            with torch.cuda.stream(aside):
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self.call_fused(launch)
                finally:
                    graph.capture_end()
            now.wait_stream(aside)
        return graph

    def call_fused(self, launch: Launch | None) -> None:
        """Call the function, its operations put together to kernels that are given to `launch`, if there is one."""
        if launch is None:
            self.function()
            return
        from adadim.core.fusion import Fusing

        with Fusing(launch) as _recording.fusing:
            try:
                self.function()
                settle()
            finally:
                _recording.fusing = None


def _compile(kernels: Sequence[Any]) -> bool:
    """Compile kernels while other threads go on; where one cannot be, that is said, and torch is to do without."""
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda kernel: kernel.compile(), kernels))
    except Exception as error:  # whatever a compiler may say
        warnings.warn(f"a kernel could not be made, so torch does it: {error!r}", RuntimeWarning, stacklevel=2)
        return False
    return True
