"""The results folder: one Parquet file per unit of work, and a manifest that says what they are.

A results folder holds

- ``manifest.json``: the study last run in it, and the cells it consists of;
- ``blocks/CELL-START-STOP.parquet``: the regret of replications START to STOP - 1 of the cell with that hash. Its rows
  are (replication, time, regret); its metadata repeat its name and what was run;
- ``blocks/.lock``: empty; a process that computes a block holds a lock on the range of bytes that belongs to the block.

Files are written under a temporary name and renamed, so a file that has its name is complete. They hold no time of
day and no machine name: computing a block again gives the same bytes.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adadim.errors import StoreError
from adadim.files import explained, write_whole
from adadim.study.cells import FORMAT, Unit
from adadim.study.identity import identity
from adadim.study.study import Study

if sys.platform != "win32":
    import fcntl

__all__ = ["Span", "Store"]

Span = tuple[int, int]
"""Replications from the first number to one before the second."""

BLOCK = re.compile(r"([0-9a-f]{20})-(\d{6,})-(\d{6,})\.parquet")
PARTIAL = re.compile(BLOCK.pattern + r"\.[0-9a-f]{8}\.tmp")
SCHEMA = {"replication": pl.Int32, "time": pl.Int32, "regret": pl.Float64}
KEY = "adadim"

# A cell has 2^20 bytes of the lock file, chosen by its hash; should two cells share them, one waits for the other.
LOCK_BITS = 20
MANIFEST_OFFSET = 1 << 62


class Store:
    """A results folder.

    Parameters
    ----------
    folder : path
        Where the results are or will be; nothing is touched before it is needed.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.blocks = self.folder / "blocks"
        self.manifest = self.folder / "manifest.json"

    def open(self, study: Study) -> dict[str, Any]:
        """Make the folder ready for a study: check what is there, write the manifest, remove temporary files."""
        if self.manifest.exists() and (found := self.describe()["study"]["name"]) != study.name:
            raise StoreError(
                f"{self.manifest}: this folder holds the results of the study {found!r}, not of {study.name!r}; choose "
                "another folder, or give the study that name if it is the same one"
            )
        try:
            self.blocks.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise explained(error, self.blocks, StoreError) from error
        content = _manifest(study)
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        with self._locked(MANIFEST_OFFSET, 1, wait=True):
            for path in self.folder.glob("manifest.json.*.tmp"):
                path.unlink(missing_ok=True)
            if not self.manifest.exists() or self.manifest.read_text(encoding="utf-8") != text:
                write_whole(self.manifest, text.encode(), StoreError)
        self._remove_leftovers()
        return content

    def describe(self) -> dict[str, Any]:
        """Contents of the manifest."""
        fix = "move it away and run the study again, which writes a new one and keeps the blocks"
        try:
            content = json.loads(self.manifest.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise StoreError(
                f"{self.manifest}: there is none, so this is not a results folder; name one that a study was run in"
            ) from error
        except OSError as error:
            raise StoreError(f"{self.manifest}: cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise StoreError(f"{self.manifest}: not readable as JSON ({error}); {fix}") from error
        if not isinstance(content, dict) or content.get("made_by") != "adadim":
            raise StoreError(f"{self.manifest}: not written by adadim; choose another folder")
        if content.get("format") != FORMAT:
            raise StoreError(
                f"{self.manifest}: results of format {content.get('format')!r}, by adadim {content.get('adadim')}, "
                f"but adadim {version('adadim')} uses format {FORMAT}; choose another folder, or use that version"
            )
        if not {"study", "cells", "adadim"} <= content.keys():
            raise StoreError(f"{self.manifest}: incomplete; {fix}")
        return content

    def index(self) -> dict[str, list[Span]]:
        """Stored replications of every cell, from the names of the files."""
        found: dict[str, list[Span]] = {}
        try:
            names = sorted(os.listdir(self.blocks))
        except FileNotFoundError:
            return found
        except OSError as error:
            raise explained(error, self.blocks, StoreError) from error
        for name in names:
            if match := BLOCK.fullmatch(name):
                found.setdefault(match[1], []).append((int(match[2]), int(match[3])))
            elif name.endswith(".parquet"):
                raise StoreError(f"{self.blocks / name}: not a result of adadim; move it out of this folder")
        return found

    def path(self, cell: str, span: Span) -> Path:
        """File of a block."""
        return self.blocks / f"{cell}-{span[0]:06d}-{span[1]:06d}.parquet"

    def check(self, cell: str, span: Span) -> dict[str, Any]:
        """Read the metadata of a block; raise unless it is the one that its name says."""
        path = self.path(cell, span)
        try:
            text = pl.read_parquet_metadata(path).get(KEY)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise _damaged(path, error) from error
        if text is None:
            raise StoreError(f"{path}: a Parquet file that adadim did not write; move it out of this folder")
        try:
            meta: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise _damaged(path, error) from error
        if meta.get("block") != path.stem:
            raise StoreError(
                f"{path}: holds {meta.get('block')!r}, so it was renamed; delete it, and run the study again"
            )
        return meta

    def read(self, cell: str, span: Span) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Regret of a block, (replications, record points)."""
        path, times = self.path(cell, span), self.check(cell, span)["cell"]["times"]
        try:
            frame = pl.read_parquet(path)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise _damaged(path, error) from error
        expected = _frame(span, times, np.zeros((span[1] - span[0], len(times))))
        if frame.schema != expected.schema or not frame.select("replication", "time").equals(
            expected.select("replication", "time")
        ):
            raise _damaged(path, "its rows are not those of this block")
        return frame["regret"].to_numpy().reshape(-1, len(times))

    def write(self, unit: Unit, regret: np.ndarray[Any, Any]) -> None:
        """Store the result of a unit, whole or not at all."""
        meta = {"adadim": version("adadim"), "block": unit.id, "cell": unit.cell.identity}
        buffer = io.BytesIO()
        frame = _frame((unit.start, unit.stop), unit.cell.times, regret)
        frame.write_parquet(buffer, metadata={KEY: json.dumps(meta, sort_keys=True)})
        write_whole(self.path(unit.cell.id, (unit.start, unit.stop)), buffer.getvalue(), StoreError)

    @contextlib.contextmanager
    def claim(self, cell: str, span: Span) -> Iterator[bool]:
        """Hold the right to compute a block; gives False if another process is computing a part of it.

        The right ends with the block of code or with the process, whichever comes first. The blocks that
        a process claims together end together: closing the lock file gives up all its claims in this folder.
        """
        offset = (int(cell[:10], 16) << LOCK_BITS) + span[0]
        with self._locked(offset, span[1] - span[0]) as claimed:
            yield claimed

    @contextlib.contextmanager
    def _locked(self, start: int, length: int, wait: bool = False) -> Iterator[bool]:
        if sys.platform == "win32":  # two runs at once may then do the same work, with the same result
            yield True
            return
        path = self.blocks / ".lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise explained(error, path, StoreError) from error
        try:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), length, start)
                locked = True
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise explained(error, path, StoreError) from error
                locked = False
            yield locked
        finally:
            os.close(handle)

    def _remove_leftovers(self) -> None:
        """Remove temporary files of processes that are gone."""
        for path in self.blocks.glob("*.tmp"):
            if match := PARTIAL.fullmatch(path.name):
                with self.claim(match[1], (int(match[2]), int(match[3]))) as claimed:
                    if claimed:
                        path.unlink(missing_ok=True)


def _manifest(study: Study) -> dict[str, Any]:
    # Labels stay exactly as they are; everything else is written like what a cell's hash is made of.
    written = {key: value if key == "labels" else identity(value, key) for key, value in study.to_dict().items()}
    cells = [
        {"id": cell.id, "instance": cell.instance, "policy": cell.policy, "spec": cell.identity} for cell in study.cells
    ]
    return {"made_by": "adadim", "format": FORMAT, "adadim": version("adadim"), "study": written, "cells": cells}


def _frame(span: Span, times: Sequence[int], regret: np.ndarray[Any, Any]) -> pl.DataFrame:
    numbers = np.arange(*span, dtype=np.int32)
    columns = {
        "replication": np.repeat(numbers, len(times)),
        "time": np.tile(np.asarray(times, dtype=np.int32), len(numbers)),
        "regret": np.ascontiguousarray(regret, dtype=np.float64).ravel(),
    }
    return pl.DataFrame(columns, schema=SCHEMA)


def _damaged(path: Path, reason: object) -> StoreError:
    return StoreError(f"{path}: damaged ({reason}); delete it, and running the study again computes it anew")
