"""Runs the kernels that `adadim.core.fusion` writes down in NumPy, a program at a time, and watches what they touch.

It has the few words of Triton that these kernels use. Programs run in an order drawn at random. Within one, memory that
was written is not to be touched again before a barrier, nor written after it was read: threads of a GPU would race. No
program may touch what another one writes.
"""

from __future__ import annotations

import functools
import types
from collections import defaultdict

import numpy as np

ORDER = np.random.default_rng(0)


class Race(AssertionError):
    """Threads or programs touch the same memory in an order that is left to chance."""


class Memory:
    """What a launch touches: by address, the programs that read and wrote it, and what this one did since a barrier."""

    def __init__(self):
        self.program, self.readers, self.writers = 0, defaultdict(set), defaultdict(set)
        self.barrier()

    def barrier(self):
        self.read, self.wrote = set(), set()

    def touch(self, addresses, write):
        for address in np.atleast_1d(addresses).tolist():
            if address in self.wrote or (write and address in self.read):
                raise Race(f"no barrier before {'writing' if write else 'reading'}")
            (self.wrote if write else self.read).add(address)
            (self.writers if write else self.readers)[address].add(self.program)
            others = self.writers[address] | (self.readers[address] if write else set())
            if others - {self.program} or len(self.writers[address]) > 1:
                raise Race("two programs meet")


class Pointer:
    """Addresses in the memory of a tensor, in its numbers."""

    def __init__(self, tensor, offset=0):
        self.tensor, self.offset = tensor, offset

    def __add__(self, step):
        return Pointer(self.tensor, self.offset + np.asarray(step, dtype=np.int64))

    def numbers(self):
        """The whole memory as an array, and the positions in it."""
        import torch

        whole = torch.empty(0, dtype=self.tensor.dtype).set_(self.tensor.untyped_storage()).numpy()
        return whole, self.tensor.storage_offset() + self.offset


def words(memory):
    """What Triton's language has."""
    tl = types.SimpleNamespace(
        float64=np.float64, int64=np.int64, int32=np.int32, int8=np.int8, int1=np.bool_, constexpr=None
    )
    tl.program_id = lambda axis: memory.program
    tl.arange = lambda first, stop: np.arange(first, stop, dtype=np.int32)
    tl.cast = lambda x, dtype: np.asarray(x).astype(dtype)[()]
    tl.debug_barrier = memory.barrier
    tl.where, tl.abs, tl.sqrt, tl.exp, tl.log, tl.floor = np.where, np.abs, np.sqrt, np.exp, np.log, np.floor
    for name in ("sum", "max", "min", "argmax", "cumsum"):
        setattr(tl, name, functools.partial(reduced, getattr(np, name)))
    tl.reduce = lambda x, axis, combine: functools.reduce(combine, x)

    def load(pointer, mask=None, other=0):
        whole, at = pointer.numbers()
        addresses = whole.ctypes.data + at * whole.itemsize
        memory.touch(addresses if mask is None else addresses[mask], write=False)
        if mask is None:
            return whole[at]
        value = np.full(mask.shape, other, dtype=whole.dtype)
        value[mask] = whole[at[mask]] if np.ndim(at) else whole[at]
        return value

    def store(pointer, value, mask=None):
        whole, at = pointer.numbers()
        addresses = whole.ctypes.data + at * whole.itemsize
        assert np.asarray(value).dtype == whole.dtype
        if mask is not None:
            assert np.shape(value) == mask.shape
            addresses, at, value = addresses[mask], at[mask], value[mask]
        memory.touch(addresses, write=True)
        whole[at] = value

    tl.load, tl.store = load, store
    return tl


def reduced(function, x, axis):
    """Along a block: Triton has none of less than one axis."""
    assert np.ndim(x) == 1
    value = function(x)
    return value if function is np.cumsum else np.asarray(value).astype(x.dtype)[()] if function is np.sum else value


class FusedKernel:
    """As `triton_kernels.FusedKernel`."""

    is_compiled = True

    def __init__(self, text, count, arguments, blocks):
        self.text, self.count, self.arguments, self.blocks = text, count, arguments, blocks

    def run(self):
        import torch

        memory = Memory()
        scope = {
            "tl": words(memory),
            "libdevice": types.SimpleNamespace(pow=np.power, log1p=np.log1p, log2=np.log2),
            "larger": np.maximum,
            "smaller": np.minimum,
        }
        exec(compile(self.text, "<kernel>", "exec"), scope)
        given = []
        for argument in self.arguments:
            if isinstance(argument, torch.Tensor):
                given.append(Pointer(argument))
            else:
                given.append(np.float64(argument) if isinstance(argument, float) else np.int64(argument))
        with np.errstate(all="ignore"):
            for memory.program in ORDER.permutation(self.count).tolist():
                memory.barrier()
                scope["fused"](*given, *self.blocks)
