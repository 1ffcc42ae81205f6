"""The results folder: one Parquet file per unit of work, and a manifest that says what they are.

A results folder holds

- ``manifest.json``: the study last run in it, and the cells it consists of;
- ``blocks/CELL-START-STOP.parquet``: the regret of replications START to STOP - 1 of the cell with that hash. Its rows
  are (replication, time, regret); its metadata repeat its name and what was run, and hold a digest;
- ``blocks/.lock``: see `locks`.

Files are written under a temporary name and renamed, so a file that has its name is complete. They hold no time of
day and no machine name: computing a block again gives the same bytes. Names are taken literally: no character of a
path stands for others.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from adadim.errors import StoreError, StoreWarning
from adadim.files import as_path, explained, write_whole
from adadim.study import blocks, schema
from adadim.study.blocks import DamagedBlockError, Span
from adadim.study.cells import FORMAT, LARGEST, Unit
from adadim.study.identity import identity
from adadim.study.locks import Locks
from adadim.study.study import Study

__all__ = ["Span", "Store"]

BLOCK = re.compile(r"([0-9a-f]{20})-(\d{6,10})-(\d{6,10})\.parquet")
PARTIAL = re.compile(BLOCK.pattern + r"\.[0-9a-f]{8}\.tmp")
MANIFEST_PARTIAL = re.compile(r"manifest\.json\.[0-9a-f]{8}\.tmp")
SPEAK_AFTER, SPEAK_EVERY = 3.0, 60.0  # seconds


class Store:
    """A results folder.

    Parameters
    ----------
    folder : path
        Where the results are or will be; nothing is touched before it is needed.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = as_path(folder, "folder", StoreError)
        self.blocks = self.folder / "blocks"
        self.manifest = self.folder / "manifest.json"
        self.locks = Locks(self.blocks / ".lock")
        self._spoken = 0.0  # seconds waited when a wait was last told of

    def open(self, study: Study) -> dict[str, Any]:
        """Make the folder ready for a study: check what is there, write the manifest, remove temporary files."""
        if self._has_manifest() and (found := self.describe()["study"]["name"]) != study.name:
            raise StoreError(
                f"{self.manifest}: this folder holds the results of the study {found!r}, not of {study.name!r}; choose "
                "another folder, or give the study that name if it is the same one"
            )
        try:
            self.blocks.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise explained(error, self.blocks, StoreError) from error
        content = _manifest(study)
        data = (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
        with self.locks.folder(self.waiting):
            for name in self._names(self.folder):
                if MANIFEST_PARTIAL.fullmatch(name):
                    self._remove(self.folder / name)
            if not self._has_manifest() or self._read(self.manifest) != data:
                write_whole(self.manifest, data, StoreError)
        self._remove_leftovers()
        return content

    def registered(self) -> contextlib.AbstractContextManager[None]:
        """Be listed among the runs that work in this folder."""
        return self.locks.registered(self.waiting)

    def describe(self) -> dict[str, Any]:
        """Contents of the manifest."""
        if not self._has_manifest():
            raise StoreError(
                f"{self.manifest}: there is none, so this is not a results folder; name one that a study was run in"
            )
        try:
            text = self._read(self.manifest).decode("utf-8")
        except UnicodeDecodeError as error:
            raise StoreError(f"{self.manifest}: not readable as JSON ({error}); {schema.RESTORE}") from error
        return schema.manifest(schema.parse(text, self.manifest, schema.RESTORE), self.manifest)

    def index(self) -> dict[str, list[Span]]:
        """Stored replications of every cell, from the names of the files."""
        found: dict[str, list[Span]] = {}
        for name in sorted(self._names(self.blocks)):
            match = BLOCK.fullmatch(name)
            if match and int(match[2]) < int(match[3]) <= LARGEST and name == self.path(match[1], _span(match)).name:
                found.setdefault(match[1], []).append(_span(match))
            elif name.endswith(".parquet"):
                raise StoreError(f"{self.blocks / name}: not a result of adadim; move it out of this folder")
        return found

    def path(self, cell: str, span: Span) -> Path:
        """File of a block."""
        return self.blocks / f"{cell}-{span[0]:06d}-{span[1]:06d}.parquet"

    def read(self, cell: str, span: Span) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Regret of a block, (replications, record points); raises unless it is whole and what its name says."""
        path = self.path(cell, span)
        return blocks.decode(path, self._read(path), span)

    def write(self, unit: Unit, regret: np.ndarray[Any, Any]) -> None:
        """Store the result of a unit, whole or not at all."""
        span = unit.start, unit.stop
        data = blocks.encode(unit.id, unit.cell.identity, span, unit.cell.times, regret)
        write_whole(self.path(unit.cell.id, span), data, StoreError)

    def remove_damaged(self, study: Study) -> None:
        """Remove the blocks of a study that are damaged, with a warning that names each."""
        stored = self.index()
        for cell in {cell.id: cell for cell in study.cells}.values():
            for span in stored.get(cell.id, []):
                try:
                    self.read(cell.id, span)
                except DamagedBlockError as error:
                    with self.claim(cell.id, span) as claimed:
                        if claimed:
                            self._remove(self.path(cell.id, span))
                    message = str(error).partition(";")[0]
                    warnings.warn(f"{message}; it is computed again", StoreWarning, stacklevel=4)

    @contextlib.contextmanager
    def claim(self, cell: str, span: Span) -> Iterator[bool]:
        """Hold the right to compute a block; gives False if another process is computing a part of it."""
        with self.locks.claim(cell, *span) as claimed:
            yield claimed

    def waiting(self, seconds: float) -> None:
        """Say now and then for whom this run waits, having waited for so long."""
        if seconds < self._spoken:  # another wait
            self._spoken = 0.0
        if seconds >= (self._spoken + SPEAK_EVERY if self._spoken else SPEAK_AFTER):
            self._spoken = seconds
            warnings.warn(
                f"{self.folder}: waiting since {seconds:.0f} s for {self.locks.others()}, which works in this folder; "
                "this run goes on when that one is done or ends",
                StoreWarning,
                stacklevel=4,
            )

    def _has_manifest(self) -> bool:
        try:
            return self.manifest.exists()
        except OSError as error:  # a name that is too long, for instance
            raise explained(error, self.manifest, StoreError) from error

    def _read(self, path: Path) -> bytes:
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            raise explained(error, path, StoreError) from error

    def _names(self, folder: Path) -> list[str]:
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise explained(error, folder, StoreError) from error

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise explained(error, path, StoreError) from error

    def _remove_leftovers(self) -> None:
        """Remove temporary files of processes that are gone."""
        for name in self._names(self.blocks):
            if match := PARTIAL.fullmatch(name):
                with self.claim(match[1], _span(match)) as claimed:
                    if claimed:
                        self._remove(self.blocks / name)


def _span(match: re.Match[str]) -> Span:
    return int(match[2]), int(match[3])


def _manifest(study: Study) -> dict[str, Any]:
    # Labels stay exactly as they are; everything else is written like what a cell's hash is made of.
    written = {key: value if key == "labels" else identity(value, key) for key, value in study.to_dict().items()}
    cells = [
        {"id": cell.id, "instance": cell.instance, "policy": cell.policy, "spec": cell.identity} for cell in study.cells
    ]
    content = {"made_by": "adadim", "format": FORMAT, "adadim": version("adadim"), "study": written, "cells": cells}
    return {**content, "digest": schema.manifest_digest(content)}
