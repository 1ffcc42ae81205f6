"""Numeric columns of a Stata file in format 118, the one of Stata 14 and later (little-endian)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.errors import FileError

VARIABLE_NAME_BYTES = 129


class _Storage(NamedTuple):
    dtype: str
    largest: float  # values above are Stata's codes for a missing value


_STORAGE = {
    65526: _Storage("<f8", 8.9884656743e307),
    65527: _Storage("<f4", 1.70141173e38),
    65528: _Storage("<i4", 2_147_483_620),
    65529: _Storage("<i2", 32_740),
    65530: _Storage("<i1", 100),
}


def read_stata(path: Path) -> dict[str, FloatArray]:
    """Columns by name, with NaN where a value is missing."""
    content = path.read_bytes()
    if not content.startswith(b"<stata_dta><header><release>118</release><byteorder>LSF</byteorder>"):
        raise FileError(f"{path} is not a Stata file in format 118, little-endian")
    (count,) = struct.unpack_from("<H", content, _after(content, b"<K>"))
    (rows,) = struct.unpack_from("<Q", content, _after(content, b"<N>"))
    places = struct.unpack_from("<14Q", content, _after(content, b"<map>"))  # of the parts, in bytes from the start
    types = struct.unpack_from(f"<{count}H", content, places[2] + len(b"<variable_types>"))
    first = places[3] + len(b"<varnames>")
    names = [
        content[start : start + VARIABLE_NAME_BYTES].split(b"\0")[0].decode()
        for start in range(first, first + count * VARIABLE_NAME_BYTES, VARIABLE_NAME_BYTES)
    ]
    unknown = [name for name, kind in zip(names, types, strict=True) if kind not in _STORAGE]
    if unknown:
        raise FileError(f"{path}: the column {unknown[0]!r} is not numeric")
    kinds = [_STORAGE[kind] for kind in types]
    layout = np.dtype([(name, kind.dtype) for name, kind in zip(names, kinds, strict=True)])
    table = np.frombuffer(content, layout, rows, places[9] + len(b"<data>"))
    columns = {}
    for name, kind in zip(names, kinds, strict=True):
        values = table[name].astype(np.float64)
        columns[name] = np.where(values > kind.largest, np.nan, values)
    return columns


def _after(content: bytes, tag: bytes) -> int:
    return content.index(tag) + len(tag)
