"""Blocks as files: the regret of some replications as Parquet, with a digest of the whole file inside it.

The metadata of a block say what was run, and hold a digest: the SHA-256 of the file as it is with zeros in the digest's
position. A file is held against it before anything else looks at it, so that a damaged one is never decoded.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adadim.backend.arrays import FloatArray
from adadim.errors import StoreError
from adadim.files import Place
from adadim.study import schema

__all__ = ["SCHEMA", "DamagedBlockError", "Span", "check_digest", "decode", "encode"]

Span = tuple[int, int]
"""Replications from the first number to one before the second."""

SCHEMA = {"replication": pl.Int32, "time": pl.Int32, "regret": pl.Float64}
KEY = "adadim"
DIGEST = re.compile(rb'"digest": "([0-9a-f]{64})"')
OURS = b'"block": "'
BLANK = b'"digest": "' + b"0" * 64 + b'"'
ROUNDING = 1e-9  # regret sums differences that are at least 0; less than this below 0 is rounding


class DamagedBlockError(StoreError):
    """A block whose content is not what was written; `run` computes it again."""


def encode(
    name: str, identity: Mapping[str, Any], span: Span, times: Sequence[int], regret: np.ndarray[Any, Any]
) -> bytes:
    """The file of a block."""
    if reason := _impossible(regret):
        raise StoreError(f"block {name}: {reason}, so it is not stored; look at the features and the policy")
    meta = {"adadim": version("adadim"), "block": name, "cell": identity, "digest": "0" * 64}
    buffer = io.BytesIO()
    frame, text = _frame(span, times, regret), json.dumps(meta, sort_keys=True)
    _without_panic(Path(name), lambda: frame.write_parquet(buffer, metadata={KEY: text}))
    blank = buffer.getvalue()
    if blank.count(BLANK) != 1:
        raise StoreError(f"block {name}: polars {pl.__version__} writes metadata in a way that adadim does not know")
    return blank.replace(BLANK, b'"digest": "' + hashlib.sha256(blank).hexdigest().encode() + b'"')


def check_digest(path: Place, data: bytes) -> None:
    """Raise unless a block's file is as it was written."""
    found = DIGEST.findall(data)
    if len(found) != 1:
        if data[:4] == data[-4:] == b"PAR1" and OURS not in data:
            raise StoreError(f"{path}: a Parquet file that adadim did not write; move it out of this folder")
        raise _damaged(path, "it is cut or overwritten")
    if hashlib.sha256(DIGEST.sub(BLANK, data)).hexdigest().encode() != found[0]:
        raise _damaged(path, "its content does not agree with its digest")


def decode(path: Place, data: bytes, span: Span) -> FloatArray:
    """Regret in a block's file, (replications, record points); raises unless it is whole and what its name says."""
    check_digest(path, data)
    meta = schema.block(schema.parse(_metadata(path, data).get(KEY, ""), path, schema.REMOVE), path)
    if meta["block"] != path.stem:
        raise StoreError(f"{path}: holds {meta['block']!r}, so it was renamed; delete it, and run the study again")
    times = meta["cell"]["times"]
    frame = _read(path, data)
    expected = _frame(span, times, np.zeros((span[1] - span[0], len(times))))
    if frame.schema != expected.schema or not frame.select("replication", "time").equals(
        expected.select("replication", "time")
    ):
        raise _damaged(path, "its rows are not those of this block")
    if frame["regret"].null_count():
        raise _damaged(path, "some regret is missing")
    regret = frame["regret"].to_numpy().reshape(-1, len(times))
    if reason := _impossible(regret):
        raise _damaged(path, reason)
    return regret


def _impossible(regret: np.ndarray[Any, Any]) -> str:
    """What is wrong with some regret, or nothing."""
    if not np.isfinite(regret).all():
        return "some regret is NaN or infinite"
    return "some regret is negative" if (regret < -ROUNDING).any() else ""


def _metadata(path: Place, data: bytes) -> dict[str, str]:
    return _without_panic(path, lambda: pl.read_parquet_metadata(io.BytesIO(data)))  # type: ignore[no-any-return]


def _read(path: Place, data: bytes) -> pl.DataFrame:
    return _without_panic(path, lambda: pl.read_parquet(io.BytesIO(data)))  # type: ignore[no-any-return]


def _without_panic(path: Place, action: Any) -> Any:
    """What `action` gives; the panics of polars, which are no `Exception`, become ours like its errors."""
    try:
        return action()
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise _damaged(path, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _damaged(path, "polars cannot read it") from None


def _frame(span: Span, times: Sequence[int], regret: np.ndarray[Any, Any]) -> pl.DataFrame:
    numbers = np.arange(*span, dtype=np.int32)
    columns = {
        "replication": np.repeat(numbers, len(times)),
        "time": np.tile(np.asarray(times, dtype=np.int32), len(numbers)),
        "regret": np.ascontiguousarray(regret, dtype=np.float64).ravel(),
    }
    return pl.DataFrame(columns, schema=SCHEMA)


def _damaged(path: Place, reason: object) -> DamagedBlockError:
    return DamagedBlockError(f"{path}: damaged ({reason}); running the study again computes it anew")
