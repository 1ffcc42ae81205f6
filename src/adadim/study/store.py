"""The results folder: one Parquet file per unit of work, and a manifest that says what they are.

A results folder holds

- ``manifest.json``: the study last run in it, and the cells it consists of;
- ``blocks/CELL-START-STOP.parquet``: the regret of replications START to STOP - 1 of the cell with that hash. Its rows
  are (replication, time, regret); its metadata repeat its name and what was run, and hold a digest;
- ``blocks/.lock``: see `locks`; in an object store ``claims/`` and ``runs/`` instead, see `leases`.

Files are written under a temporary name and renamed, so a file that has its name is complete. They hold no time of
day and no machine name: computing a block again gives the same bytes. Names are taken literally: no character of a
path stands for others.
"""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np

from adadim.errors import StoreError, StoreWarning
from adadim.files import Place, Url, as_place, exists, make_folder, names, read, remove, write_whole
from adadim.study import blocks, schema
from adadim.study.blocks import DamagedBlockError, Span
from adadim.study.cells import FORMAT, LARGEST, Unit
from adadim.study.identity import identity
from adadim.study.leases import Leases
from adadim.study.locks import Claims, Locks
from adadim.study.study import Study

__all__ = ["Span", "Store", "encoded"]

BLOCK = re.compile(r"([0-9a-f]{20})-(\d{6,10})-(\d{6,10})\.parquet")
PARTIAL = re.compile(BLOCK.pattern + r"\.[0-9a-f]{8}\.tmp")
MANIFEST_PARTIAL = re.compile(r"manifest\.json\.[0-9a-f]{8}\.tmp")
SPEAK_AFTER, SPEAK_EVERY = 3.0, 60.0  # seconds
POLL, REMOTE_POLL = 0.2, 2.0  # seconds


class Store:
    """A results folder.

    Parameters
    ----------
    folder : path or URL
        Where the results are or will be; nothing is touched before it is needed.

    Attributes
    ----------
    poll : float
        Seconds between looks at what another run is computing.
    """

    def __init__(self, folder: str | Place) -> None:
        self.folder = as_place(folder, "folder", StoreError)
        self.blocks = self.folder / "blocks"
        self.manifest = self.folder / "manifest.json"
        self.locks = Leases(self.folder) if isinstance(self.folder, Url) else Locks(self.folder / "blocks" / ".lock")
        self.poll = REMOTE_POLL if isinstance(self.folder, Url) else POLL
        self._spoken = 0.0  # seconds waited when a wait was last told of
        self._parsed: dict[str, tuple[str, Span]] = {}

    def absolute(self) -> Store:
        """The same folder for processes that may have been started elsewhere; their claims count as this run's."""
        if isinstance(self.folder, Url):
            return self
        return Store(self.folder.absolute())

    @property
    def key(self) -> str:
        """What is the same for two names of one folder."""
        return str(self.folder if isinstance(self.folder, Url) else self.folder.resolve())

    def open(self, study: Study) -> dict[str, Any]:
        """Make the folder ready for a study: check what is there, write the manifest, remove temporary files."""
        if exists(self.manifest, StoreError) and (found := self.describe()["study"]["name"]) != study.name:
            raise StoreError(
                f"{self.manifest}: this folder holds the results of the study {found!r}, not of {study.name!r}; choose "
                "another folder, or give the study that name if it is the same one"
            )
        make_folder(self.blocks, StoreError)
        content = _manifest(study)
        data = (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
        with self.locks.exclusive(self.waiting):
            for name in names(self.folder, StoreError):
                if MANIFEST_PARTIAL.fullmatch(name):
                    remove(self.folder / name, StoreError)
            if not exists(self.manifest, StoreError) or read(self.manifest, StoreError) != data:
                write_whole(self.manifest, data, StoreError)
        self._remove_leftovers()
        return content

    def registered(self) -> contextlib.AbstractContextManager[None]:
        """Be listed among the runs that work in this folder."""
        return self.locks.registered(self.waiting)

    def describe(self) -> dict[str, Any]:
        """Contents of the manifest."""
        if not exists(self.manifest, StoreError):
            raise StoreError(
                f"{self.manifest}: there is none, so this is not a results folder; name one that a study was run in"
            )
        try:
            text = read(self.manifest, StoreError).decode("utf-8")
        except UnicodeDecodeError as error:
            raise StoreError(f"{self.manifest}: not readable as JSON ({error}); {schema.RESTORE}") from error
        return schema.manifest(schema.parse(text, self.manifest, schema.RESTORE), self.manifest)

    def index(self) -> dict[str, list[Span]]:
        """Stored replications of every cell, from the names of the files."""
        found: dict[str, list[Span]] = {}
        for name in sorted(names(self.blocks, StoreError)):
            if name.endswith(".parquet"):
                cell, span = self._parsed.get(name) or self._parse(name)
                found.setdefault(cell, []).append(span)
        return found

    def _parse(self, name: str) -> tuple[str, Span]:
        """Cell and replications that the name of a block says."""
        match = BLOCK.fullmatch(name)
        if not match or not int(match[2]) < int(match[3]) <= LARGEST:
            raise StoreError(f"{self.blocks / name}: not a result of adadim; move it out of this folder")
        cell, span = match[1], _span(match)
        if name != self.path(cell, span).name:
            raise StoreError(f"{self.blocks / name}: not a result of adadim; move it out of this folder")
        self._parsed[name] = cell, span
        return cell, span

    def path(self, cell: str, span: Span) -> Place:
        """File of a block."""
        return self.blocks / f"{cell}-{span[0]:06d}-{span[1]:06d}.parquet"

    def read(self, cell: str, span: Span) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Regret of a block, (replications, record points); raises unless it is whole and what its name says."""
        path = self.path(cell, span)
        return blocks.decode(path, read(path, StoreError), span)

    def write(self, unit: Unit, regret: np.ndarray[Any, Any]) -> None:
        """Store the result of a unit, whole or not at all."""
        self.write_encoded(unit, encoded(unit, regret))

    def write_encoded(self, unit: Unit, data: bytes) -> None:
        """Store the file of a unit, made elsewhere, whole or not at all."""
        path = self.path(unit.cell.id, (unit.start, unit.stop))
        blocks.check_digest(path, data)
        write_whole(path, data, StoreError)

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
                            remove(self.path(cell.id, span), StoreError)
                    message = str(error).partition(";")[0]
                    warnings.warn(f"{message}; it is computed again", StoreWarning, stacklevel=4)

    @contextlib.contextmanager
    def claim(self, cell: str, span: Span) -> Iterator[bool]:
        """Hold the right to compute a block; gives False if another process is computing a part of it."""
        with self.locks.claim(cell, *span) as claimed:
            yield claimed

    def claims(self) -> contextlib.AbstractContextManager[Claims]:
        """Hold rights to compute blocks, taken and given up one by one."""
        return self.locks.claims()

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
                stacklevel=5,
            )

    def _remove_leftovers(self) -> None:
        """Remove temporary files of processes that are gone."""
        for name in names(self.blocks, StoreError):
            if match := PARTIAL.fullmatch(name):
                with self.claim(match[1], _span(match)) as claimed:
                    if claimed:
                        remove(self.blocks / name, StoreError)


def encoded(unit: Unit, regret: np.ndarray[Any, Any]) -> bytes:
    """The file of a unit."""
    return blocks.encode(unit.id, unit.cell.identity, (unit.start, unit.stop), unit.cell.times, regret)


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
