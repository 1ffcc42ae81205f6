"""The array library of the input: NumPy in, NumPy out; torch in, torch out."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, device
from array_api_compat import numpy as array_api_numpy

from adadim.errors import DeviceError, InvalidTypeError, InvalidValueError

Array = Any
"""A NumPy array or a torch tensor."""

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntArray = np.ndarray[Any, np.dtype[np.int64]]
BoolArray = np.ndarray[Any, np.dtype[np.bool]]

device_of = device
TINY = float(np.finfo(float).tiny)
NUMBERS_PER_COPY = 2**20  # as many numbers `squared_lengths` may copy at a time, or a sixteenth of them all


def namespace(*arrays: Array) -> Any:
    """Array-API namespace shared by all arguments; an error names what was mixed."""
    if type(arrays[0]) is np.ndarray and (len(arrays) == 1 or all(type(a) is np.ndarray for a in arrays)):
        return array_api_numpy
    converted = [np.asarray(a) if isinstance(a, list | tuple | int | float) else a for a in arrays]
    try:
        return array_namespace(*converted)
    except TypeError as error:
        kinds = sorted({f"{type(a).__module__.split('.')[0]}.{type(a).__name__}" for a in converted})
        raise InvalidTypeError(
            f"arrays of one library are needed (all NumPy or all torch), got {', '.join(kinds)}"
        ) from error


def is_numpy(array: Array) -> bool:
    """Whether `array` is NumPy's."""
    return isinstance(array, np.ndarray)


def is_array(value: object) -> bool:
    """Whether `value` is an array of either library."""
    return isinstance(value, np.ndarray) or type(value).__module__ == "torch"


def as_numpy(array: Array) -> np.ndarray[Any, Any]:
    """Copy to host memory if needed."""
    if type(array) is np.ndarray:
        return array
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    return np.asarray(array)


def check_device(device: str) -> str:
    """Return `device`, or say why nothing can be computed there."""
    if not isinstance(device, str) or not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise DeviceError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {device!r}")
    if device == "cpu":
        return device
    torch = _torch(device)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise DeviceError(f"device {device!r} is not there: torch {torch.__version__} sees no CUDA GPU; use 'cpu'")
    if int(device.partition(":")[2] or 0) >= count:
        raise DeviceError(f"device {device!r} is not there: torch sees cuda:0 to cuda:{count - 1}")
    return device


def _torch(device: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise DeviceError(f"device {device!r} needs torch; install it with: pip install 'adadim[torch]'") from error
    return torch


def to_torch(array: Array, device: str) -> Array:
    """`array` as a torch tensor on a device, its layout in memory kept."""
    torch = _torch(check_device(device))
    if is_numpy(array):
        if array.strides[0] == 0 and len(array) > 1:  # one array shared by all replications
            return to_torch(array[0].copy(order="K"), device)[None].expand(array.shape)
        if not array.flags.writeable:  # torch has no read-only arrays, and on the CPU would share the memory
            array = array.copy(order="K") if torch.device(device).type == "cpu" else _writable(array)
        array = torch.from_numpy(array)
    return array.to(device)


def _writable(array: Array) -> Array:
    """A read-only array as a writable one: a view if its memory may be written, else a copy."""
    view = array.view()
    try:
        view.setflags(write=True)
    except ValueError:
        return array.copy(order="K")
    return view


def real_array(values: Any, name: str, *, copy: bool = True) -> Array:
    """`values` in float64, NumPy's unless a tensor, copied unless `copy` is False; an error unless real numbers."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidTypeError(f"{name} must be real numbers, got a masked array; fill it first, e.g. with filled(0)")
    if hasattr(values, "detach"):
        array = values.detach()
    else:
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise InvalidValueError(f"{name} must be an array of numbers: {error}") from error
    kind = str(getattr(array.dtype, "name", array.dtype)).split(".")[-1]
    if not kind.startswith(("float", "bfloat", "int", "uint", "bool")):
        raise InvalidTypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    shared = array.ndim > 0 and len(array) > 1 and (array.strides[0] if is_numpy(array) else array.stride(0)) == 0
    if shared:  # one array for all replications goes on being one
        return namespace(array).broadcast_to(real_array(array[:1], name, copy=copy), tuple(array.shape))
    if is_numpy(array):
        return array.astype(np.float64, order="K", copy=copy)
    return array.to(namespace(array).float64, copy=copy)


def read_only(array: Array) -> Array:
    """`array`, made read-only if it is NumPy's."""
    if is_numpy(array):
        array.setflags(write=False)
    return array


def like(values: Any, reference: Array, dtype: Any = None) -> Array:
    """`values` in the library and on the device of `reference`."""
    if is_numpy(reference):
        return np.asarray(values, dtype=dtype)
    return array_namespace(reference).asarray(values, dtype=dtype, device=device_of(reference))


def zeros(reference: Array, *shape: int, integers: bool = False) -> Array:
    """Zeros in the library and on the device of `reference`."""
    xp = namespace(reference)
    return xp.zeros(shape, dtype=xp.int64 if integers else xp.float64, device=device_of(reference))


def indices(array: Array) -> Array:
    """0, 1, ... for each replication of `array`, in its library and on its device."""
    if is_numpy(array):
        return np.arange(len(array))
    numbers = array_namespace(array).arange(array.shape[0], device=device_of(array))
    numbers.counts_up = True  # for `fusion`: what is indexed by it stays with its replication
    return numbers


def at_each(array: Array, columns: Array) -> Array:
    """The entries ``array[i, columns[i]]``, as an array of their own."""
    if len(columns) == 1 and is_numpy(array):  # the same, quicker
        return array[:, columns.item()].copy()
    return array[indices(columns), columns]


def clamp(array: Array, lowest: float | None = None, highest: float | None = None) -> Array:
    """`array` with its values moved into [lowest, highest]."""
    if not is_numpy(array):
        return array.clamp(lowest, highest)
    raised = array if lowest is None else np.maximum(array, lowest)
    return raised if highest is None else np.minimum(raised, highest)


def squared_lengths(vectors: Array) -> Array:
    """Squared length of every vector of an array (R, K, d), (R, K)."""
    xp = namespace(vectors)
    if is_numpy(vectors):
        return xp.vecdot(vectors, vectors)
    count, arms, dim = vectors.shape
    # On a GPU vecdot copies what it is given.
    part = max(NUMBERS_PER_COPY, count * arms * dim // 16)
    parts = vectors.split(max(1, part // max(1, count * dim)), dim=1)
    return xp.concat([xp.vecdot(part, part) for part in parts], axis=-1)


def same_library(one: Array, other: Array) -> bool:
    """Whether both are NumPy's, or neither is."""
    return is_numpy(one) == is_numpy(other)


def same_device(array: Array, reference: Array) -> bool:
    """Whether a tensor is on the device of `reference`; an array of NumPy's goes with every device."""
    return is_numpy(array) or device_of(array) == device_of(reference)


def copied(array: Array, order: Literal["C", "K"] = "C") -> Array:
    """A copy; with order "K" its layout in memory is that of `array`, which torch always keeps."""
    return array.copy(order=order) if is_numpy(array) else array.clone()


def is_read_only(array: Array) -> bool:
    """Whether `array` cannot be written; torch has no such arrays."""
    return is_numpy(array) and not array.flags.writeable


def any_true_on_host(mask: Array) -> bool:
    """Whether some entry is true; always False for torch, where reading them would stop the device."""
    return is_numpy(mask) and bool(mask.any())


def all_true_on_host(mask: Array) -> bool:
    """Whether all entries are true; always False for torch, where reading them would stop the device."""
    return is_numpy(mask) and bool(mask.all())
