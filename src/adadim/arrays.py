"""The array library of the input: NumPy in, NumPy out; torch in, torch out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_namespace
from array_api_compat import device as device_of
from array_api_compat import numpy as array_api_numpy

from adadim.errors import DeviceError, InvalidTypeError

Array = Any
"""A NumPy array or a torch tensor."""

Rows = Any
"""Which replications a call concerns: a slice (`ALL`, or a single one), an integer array without repeats, or (torch
only) a boolean mask. Arrays that come with a slice or integers have one entry for each replication named; with a mask
they have one for every replication, and those outside the mask are ignored: shapes then do not depend on the data,
and nothing has to be read back from the device."""

ALL = slice(None)

__all__ = [
    "ALL",
    "Array",
    "Rows",
    "as_numpy",
    "check_device",
    "clamp",
    "device_of",
    "groups",
    "indices",
    "is_mask",
    "is_numpy",
    "like",
    "masked",
    "namespace",
    "positions",
    "put",
    "take",
    "tally",
    "to_torch",
]


def namespace(*arrays: Array) -> Any:
    """Array-API namespace shared by all arguments; a `TypeError` names what was mixed."""
    if all(type(a) is np.ndarray for a in arrays):
        return array_api_numpy
    given = [np.asarray(a) if isinstance(a, list | tuple | int | float) else a for a in arrays]
    try:
        return array_namespace(*given)
    except TypeError as error:
        kinds = sorted({f"{type(a).__module__.split('.')[0]}.{type(a).__name__}" for a in given})
        raise InvalidTypeError(
            f"arrays of one library are needed (all NumPy or all torch), got {', '.join(kinds)}"
        ) from error


def is_numpy(xp: Any) -> bool:
    """Whether the namespace is NumPy's."""
    return bool(is_numpy_namespace(xp))


def as_numpy(array: Array) -> np.ndarray[Any, Any]:
    """Copy to host memory if needed."""
    if type(array) is np.ndarray:
        return array
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    return np.asarray(array)


def check_device(device: str) -> str:
    """Return `device`, or say why nothing can be computed there.

    Examples
    --------
    >>> check_device("cpu")
    'cpu'
    """
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
    if isinstance(array, np.ndarray):
        if array.strides[0] == 0 and len(array) > 1:  # one array shared by all replications
            return to_torch(array[0].copy(order="K"), device)[None].expand(array.shape)
        array = torch.from_numpy(array)
    return array.to(device)


def like(values: Any, reference: Array, dtype: Any = None) -> Array:
    """`values` in the library and on the device of `reference`."""
    if isinstance(reference, np.ndarray):
        return np.asarray(values, dtype=dtype)
    return array_namespace(reference).asarray(values, dtype=dtype, device=device_of(reference))


def indices(array: Array) -> Array:
    """0, 1, ... for each replication of `array`, beside it."""
    if isinstance(array, np.ndarray):
        return np.arange(len(array))
    return array_namespace(array).arange(array.shape[0], device=device_of(array))


def clamp(array: Array, lowest: float | None = None, highest: float | None = None) -> Array:
    """`array` with its values moved into [lowest, highest]."""
    if not isinstance(array, np.ndarray):
        return array.clamp(lowest, highest)
    raised = array if lowest is None else np.maximum(array, lowest)
    return raised if highest is None else np.minimum(raised, highest)


def is_mask(rows: Rows) -> bool:
    """Whether `rows` is a boolean mask over all replications."""
    return type(rows) is not slice and type(rows) is not np.ndarray and "bool" in str(rows.dtype)


def take(array: Array, rows: Rows) -> Array:
    """The part of `array` that belongs to `rows`; all of it for a mask."""
    return array if is_mask(rows) else array[rows]


def put(array: Array, rows: Rows, values: Array) -> None:
    """Write `values` into `array` for the replications in `rows`."""
    if is_mask(rows):
        mask = rows.reshape((-1,) + (1,) * (array.ndim - 1))
        array.copy_(array_namespace(array).where(mask, values, array))
    else:
        array[rows] = values


def tally(array: Array, rows: Rows, columns: Array, values: Array | float) -> None:
    """Add `values` to one column of `array` in each replication of `rows`."""
    ids = indices(array)
    if is_mask(rows):
        array[ids, columns] += values * rows
    else:
        array[ids[rows], columns] += values


def masked(rows: Rows, count: int, *values: Array) -> tuple[Array, ...]:
    """`rows` as a mask over `count` replications, and `values` with an entry for every one of them (torch only)."""
    if is_mask(rows):
        return rows, *values
    xp, place = array_namespace(*values), device_of(values[0])
    every = xp.arange(count, device=place)
    if isinstance(rows, slice) and rows == ALL:
        return every >= 0, *values
    rows = every[rows] if isinstance(rows, slice) else rows
    wide = [xp.zeros(count, dtype=v.dtype, device=place).index_copy_(0, rows, v) for v in values]
    return (every < 0).index_fill_(0, rows, True), *wide


def positions(rows: Rows, count: int) -> np.ndarray[Any, Any]:
    """The replications that `rows` stands for, as host integers."""
    if isinstance(rows, slice):
        return np.arange(count)[rows]
    return as_numpy(rows)


def groups(labels: np.ndarray[Any, Any], rows: Rows, count: int, reference: Array) -> Iterator[tuple[int, Rows, Any]]:
    """(label, replications that have it, their places in `rows`) for each label among those of `rows`."""
    if (labels == labels[0]).all():
        yield int(labels[0]), rows, slice(None)
        return
    ids = positions(rows, count)
    found: dict[int, list[int]] = {}
    for at, label in enumerate(labels.tolist()):
        found.setdefault(label, []).append(at)
    for label in sorted(found):
        places = found[label]
        if len(places) == 1:  # a slice makes views where an index makes copies
            r = int(ids[places[0]])
            yield label, slice(r, r + 1), slice(places[0], places[0] + 1)
        else:
            yield label, like(ids[places], reference), like(places, reference)
