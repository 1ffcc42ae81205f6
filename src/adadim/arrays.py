"""The array library of the input: NumPy in, NumPy out; torch in, torch out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_namespace
from array_api_compat import device as device_of
from array_api_compat import numpy as array_api_numpy

Array = Any
"""A NumPy array or a torch tensor."""

Rows = Any
"""Which replications a call concerns: a slice (`ALL`, or a single one), or an integer array without repeats."""

ALL = slice(None)

__all__ = ["ALL", "Array", "Rows", "as_numpy", "device_of", "groups", "is_numpy", "like", "namespace", "positions"]


def namespace(*arrays: Array) -> Any:
    """Array-API namespace shared by all arguments; a `TypeError` names what was mixed."""
    if all(type(a) is np.ndarray for a in arrays):
        return array_api_numpy
    given = [np.asarray(a) if isinstance(a, list | tuple | int | float) else a for a in arrays]
    try:
        return array_namespace(*given)
    except TypeError as error:
        kinds = sorted({f"{type(a).__module__.split('.')[0]}.{type(a).__name__}" for a in given})
        raise TypeError(f"arrays of one library are needed (all NumPy or all torch), got {', '.join(kinds)}") from error


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


def like(values: Any, reference: Array, dtype: Any = None) -> Array:
    """`values` in the library and on the device of `reference`."""
    if isinstance(reference, np.ndarray):
        return np.asarray(values, dtype=dtype)
    return array_namespace(reference).asarray(values, dtype=dtype, device=device_of(reference))


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
    for i in np.unique(labels):
        at = np.flatnonzero(labels == i)
        if len(at) == 1:  # a slice makes views where an index makes copies
            yield int(i), slice(ids[at[0]], ids[at[0]] + 1), slice(at[0], at[0] + 1)
        else:
            yield int(i), like(ids[at], reference), like(at, reference)
