"""The results folder: one Parquet file per unit of work, and a manifest that says what they are.

A results folder holds

- ``manifest.json``: the study last run in it, and the cells it consists of;
- ``blocks/CELL-START-STOP.parquet``: the regret of replications START to STOP - 1 of the cell with that hash. Its rows
  are (replication, time, regret); its metadata repeat its name and what was run, and hold a digest;
- ``blocks/.lock`` and ``blocks/.run ...``, or in an object store ``claims/`` and ``runs/``: see `claims`.

Files are written under a temporary name and renamed, so a file that has its name is complete. They hold no time of
day and no machine name: computing a block again gives the same bytes. Names are taken literally: no character of a
path stands for others.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.core.files import Place, Url, as_place, exists, make_folder, names, read, remove, write_atomic
from adadim.errors import StoreError, StoreWarning
from adadim.study import formats
from adadim.study.cells import LARGEST, Span, Unit, UnitStatus
from adadim.study.claims import Claims, Leases, Locks
from adadim.study.study import Study

BLOCK = re.compile(r"([0-9a-f]{20})-(\d{6,10})-(\d{6,10})\.parquet")
PARTIAL = re.compile(BLOCK.pattern + r"\.[0-9a-f]{8}\.tmp")
MANIFEST_PARTIAL = re.compile(r"manifest\.json\.[0-9a-f]{8}\.tmp")
BoolArray = np.ndarray[Any, np.dtype[np.bool_]]


class Store:
    """A results folder, given as a path or URL; nothing is touched before it is needed."""

    def __init__(self, folder: str | Place) -> None:
        self.folder = as_place(folder, "folder", StoreError)
        self.blocks = self.folder / "blocks"
        self.manifest = self.folder / "manifest.json"
        self.claims: Claims = Leases(self.folder) if isinstance(self.folder, Url) else Locks(self.folder)
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

    def prepare(self, study: Study) -> None:
        """Make the folder, unless it holds another study."""
        if exists(self.manifest, StoreError) and (name := self.describe()["study"]["name"]) != study.name:
            raise StoreError(
                f"{self.manifest}: this folder holds the results of the study {name!r}, not of {study.name!r}; choose "
                "another folder, or give the study that name if it is the same one"
            )
        make_folder(self.blocks, StoreError)

    def open(self, study: Study) -> dict[str, Any]:
        """Write the manifest, remove temporary files of processes that are gone, and damaged blocks of the study."""
        content = formats.manifest_of(study)
        data = formats.encode_manifest(content)
        if not exists(self.manifest, StoreError) or read(self.manifest, StoreError) != data:
            write_atomic(self.manifest, data, StoreError)
        partial = [name for name in names(self.folder, StoreError) if MANIFEST_PARTIAL.fullmatch(name)]
        if partial and not self.claims.others():  # another run may be writing its own
            for name in partial:
                remove(self.folder / name, StoreError)
        for name in names(self.blocks, StoreError):
            if match := PARTIAL.fullmatch(name):
                with self.claims.hold(match[1], _span(match)) as held:
                    if held:
                        remove(self.blocks / name, StoreError)
        self._remove_damaged(study)
        return content

    def describe(self) -> dict[str, Any]:
        """Contents of the manifest."""
        if not exists(self.manifest, StoreError):
            raise StoreError(
                f"{self.manifest}: there is none, so this is not a results folder; name one that a study was run in"
            )
        return formats.decode_manifest(self.manifest, read(self.manifest, StoreError))

    def index(self) -> dict[str, list[Span]]:
        """Stored replications of every cell, from the names of the files."""
        spans: dict[str, list[Span]] = {}
        for name in sorted(names(self.blocks, StoreError)):
            if name.endswith(".parquet"):
                cell, span = self._parsed.get(name) or self._parse(name)
                spans.setdefault(cell, []).append(span)
        return spans

    def _parse(self, name: str) -> tuple[str, Span]:
        """Cell and replications that the name of a block says."""
        if match := BLOCK.fullmatch(name):
            cell, span = match[1], _span(match)
            if span[0] < span[1] <= LARGEST and name == self.path(cell, span).name:
                self._parsed[name] = cell, span
                return cell, span
        raise StoreError(f"{self.blocks / name}: not a result of adadim; move it out of this folder")

    def path(self, cell: str, span: Span) -> Place:
        """File of a block."""
        return self.blocks / f"{cell}-{span[0]:06d}-{span[1]:06d}.parquet"

    def read(self, cell: str, span: Span) -> FloatArray:
        """Regret of a block, (replications, record points); raises unless it is whole and what its name says."""
        path = self.path(cell, span)
        return formats.decode_block(path, read(path, StoreError), span)

    def write(self, unit: Unit, data: bytes) -> None:
        """Store the file of a unit, see `encoded`, whole or not at all."""
        path = self.path(unit.cell.id, unit.span)
        formats.check_digest(path, data)
        write_atomic(path, data, StoreError)

    def claim(self, units: Sequence[Unit]) -> list[tuple[Unit, UnitStatus | None]]:
        """Claim units; gives each with what became of it, None for those to be computed, whose claims are now held.

        One is "found" if all of it is stored, "busy" if another process computes a part of it or has stored it in
        blocks of another size.
        """
        taken = self.claims.take([(unit.cell.id, unit.span) for unit in units])
        try:
            stored = self.index()  # after claiming: what another run stored before is in it
        except BaseException:
            self.claims.drop_all()
            raise
        last = max((unit.stop for unit in units), default=0)
        present = {cell: covered(stored.get(cell, ()), last) for cell in {unit.cell.id for unit in units}}
        claimed: list[tuple[Unit, UnitStatus | None]] = []
        for unit, held in zip(units, taken, strict=True):
            status: UnitStatus | None = "busy"
            if held and not (there := int(present[unit.cell.id][unit.start : unit.stop].sum())):
                status = None
            elif held:
                status = "found" if there == unit.stop - unit.start else "busy"
                self.drop(unit)
            claimed.append((unit, status))
        return claimed

    def drop(self, unit: Unit) -> None:
        """Give the claim on a unit up; where that fails, it ends with the process or a while after it."""
        with contextlib.suppress(StoreError):
            self.claims.drop((unit.cell.id, unit.span))

    def _remove_damaged(self, study: Study) -> None:
        """Remove the blocks of a study that are damaged, with a warning that names each."""
        stored = self.index()
        for cell in {cell.id: cell for cell in study.cells}.values():
            for span in stored.get(cell.id, []):
                try:
                    self.read(cell.id, span)
                except formats.DamagedBlockError as error:
                    with self.claims.hold(cell.id, span) as held:
                        if held:
                            remove(self.path(cell.id, span), StoreError)
                    message = str(error).partition(";")[0]
                    warnings.warn(f"{message}; it is computed again", StoreWarning, stacklevel=4)


def encoded(unit: Unit, regret: FloatArray) -> bytes:
    """The file of a unit."""
    return formats.encode_block(unit.id, unit.cell.identity, unit.span, unit.cell.times, regret)


def _span(match: re.Match[str]) -> Span:
    return int(match[2]), int(match[3])


def missing(spans: Iterable[Span], trials: int) -> list[int]:
    """Replications below `trials` that no span covers."""
    present = covered(spans, trials)
    return [*np.flatnonzero(~present).tolist(), *range(len(present), trials)]


def covered(spans: Iterable[Span], trials: int) -> BoolArray:
    """Which replications below `trials` some span covers, as far as there are any."""
    spans = list(spans)
    present = np.zeros(min(trials, max((stop for _, stop in spans), default=0)), dtype=bool)
    for start, stop in spans:
        present[start:stop] = True
    return present
