"""The results folder: one Parquet file per unit of work, and a manifest that says what they are.

- ``manifest.json``: the study last run in it, and the cells it consists of;
- ``blocks/CELL-START-STOP.parquet``: the regret of replications START to STOP - 1 of the cell with that hash. Its rows
  are (replication, time, regret); its metadata repeat its name and what was run, and say which source computed it;
- ``blocks/.lock`` and ``blocks/.run ...``, or in an object store ``claims/`` and ``runs/``: see `claims`.

Files are written under a temporary name and renamed, so a file that has its name is complete. They hold no time of
day and no machine name: computing a block again gives the same bytes. Names are taken literally: no character of a
path stands for others. Manifest and blocks carry a digest: that of a block is the SHA-256 of the file as it is with
zeros in the digest's position, and is compared before anything else looks at the file. Each check names the file, the
key, what it must be and what it was, and says what to do.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl

from adadim.core.arrays import BoolArray, FloatArray
from adadim.core.checks import file_name, is_integer, printable, shown
from adadim.core.files import Place, Url, as_place, exists, make_folder, names, read, remove, write_atomic
from adadim.errors import InvalidValueError, StoreError, StoreWarning
from adadim.study.cells import FORMAT, MAX_INTEGER, Span, Unit, UnitStatus, digest
from adadim.study.claims import Block, Leases, Locks, WorkLocks
from adadim.study.kinds import result_identity
from adadim.study.source import MadeBy, present
from adadim.study.study import Study

BLOCK_NAME = re.compile(r"([0-9a-f]{20})-(\d{6,10})-(\d{6,10})\.parquet")
PARTIAL = re.compile(BLOCK_NAME.pattern + r"\.[0-9a-f]{8}\.tmp")
MANIFEST_PARTIAL = re.compile(r"manifest\.json\.[0-9a-f]{8}\.tmp")
RESTORE = "move it away and run the study again, which writes a new one and keeps the blocks"
REMOVE = "delete it, and running the study again recomputes it"
NOUNS: dict[type, str] = {dict: "a table", list: "a list", str: "a string"}
BLOCK_COLUMNS = {"replication": pl.Int32, "time": pl.Int32, "regret": pl.Float64}
METADATA_KEY = "adadim"
DIGEST = re.compile(rb'"digest": "([0-9a-f]{64})"')
BLOCK_MARK = b'"block": "'  # in the metadata of every block
BLANK_DIGEST = b'"digest": "' + b"0" * 64 + b'"'
ROUNDING = 1e-9  # regret sums differences that are at least 0; less than this below 0 is rounding


class Store:
    """A results folder, given as a path or URL; nothing is touched before it is needed."""

    def __init__(self, folder: str | Place) -> None:
        self.folder = as_place(folder, "folder", StoreError)
        self.blocks = self.folder / "blocks"
        self.manifest = self.folder / "manifest.json"
        self.claims: WorkLocks = Leases(self.folder) if isinstance(self.folder, Url) else Locks(self.folder)
        self._parsed: dict[str, Block] = {}

    def absolute(self) -> Store:
        """The same folder for processes that may have been started elsewhere; their claims count as this run's."""
        if isinstance(self.folder, Url):
            return self
        return Store(self.folder.absolute())

    @property
    def key(self) -> str:
        """A text that is the same for all names of one folder."""
        return str(self.folder if isinstance(self.folder, Url) else self.folder.resolve())

    def prepare(self, study: Study) -> None:
        """Make the folder, unless it holds another study."""
        if exists(self.manifest, StoreError) and (name := self.describe()["study"]["name"]) != study.name:
            raise StoreError(
                f"{self.manifest}: this folder holds the results of the study {name!r}, not of {study.name!r}; choose "
                "another folder, or give the study that name if it is the same one"
            )
        make_folder(self.blocks, StoreError)

    def open(self, study: Study, fresh: bool = False, keep: bool = False) -> dict[str, Any]:
        """Write the manifest, and remove temporary files of processes that are gone and damaged blocks of the study.

        Blocks that another source computed are removed too if `fresh`, stay if `keep`, and are refused otherwise.
        """
        damaged, made_by = self._survey(study)
        other = {block: by for block, by in made_by.items() if not by.current}
        if other and not fresh and not keep:
            makers = "; ".join(sorted({str(by) for by in other.values()}))
            raise StoreError(
                f"{self.folder}: {len(other)} of {len(made_by)} blocks were computed by another source than this "
                f"({present()}): {makers}. Nothing was changed; --fresh (fresh=True) computes them again, --keep "
                "(keep=True) uses them as they are"
            )
        content = manifest_of(study)
        data = (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
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
        for block, message in damaged.items():
            self._remove(block)
            warnings.warn(f"{message}; it is computed again", StoreWarning, stacklevel=3)
        for block in other if fresh else ():
            self._remove(block)
        return content

    def describe(self) -> dict[str, Any]:
        """Contents of the manifest."""
        if not exists(self.manifest, StoreError):
            raise StoreError(
                f"{self.manifest}: there is none, so this is not a results folder; name one that a study was run in"
            )
        return check_manifest(_parse(read(self.manifest, StoreError), self.manifest, RESTORE), self.manifest)

    def index(self) -> dict[str, list[Span]]:
        """Stored replications of every cell, from the names of the files."""
        spans: dict[str, list[Span]] = {}
        for name in sorted(names(self.blocks, StoreError)):
            if name.endswith(".parquet"):
                cell, span = self._parsed.get(name) or self._block_of(name)
                spans.setdefault(cell, []).append(span)
        return spans

    def _block_of(self, name: str) -> Block:
        """Cell and replications of a block, from the name of its file."""
        if match := BLOCK_NAME.fullmatch(name):
            cell, span = match[1], _span(match)
            if span[0] < span[1] <= MAX_INTEGER and name == self.path(cell, span).name:
                self._parsed[name] = cell, span
                return cell, span
        raise StoreError(f"{self.blocks / name}: not a result of adadim; move it out of this folder")

    def path(self, cell: str, span: Span) -> Place:
        """File of a block."""
        return self.blocks / f"{cell}-{span[0]:06d}-{span[1]:06d}.parquet"

    def read_block(self, cell: str, span: Span) -> tuple[FloatArray, MadeBy]:
        """Regret of a block, and which source computed it; see `decode_block`."""
        path = self.path(cell, span)
        return decode_block(path, read(path, StoreError), span)

    def write(self, unit: Unit, data: bytes) -> None:
        """Store the file of a unit (see `encoded`), completely or not at all."""
        path = self.path(unit.cell.id, unit.span)
        check_digest(path, data)
        write_atomic(path, data, StoreError)

    def copy_from(self, other: Store, study: Study) -> None:
        """Copy what is missing of a study from another folder, as far as this source computed it there."""
        try:
            here, there = self.index(), other.index()
        except StoreError:  # something in the other folder is no result
            return
        for cell in dict.fromkeys(cell.id for cell in study.cells):
            lacking = set(missing(here.get(cell, ()), study.trials))
            for span in there.get(cell, ()):
                path = other.path(cell, span)
                if not lacking & set(range(*span)) or covered(here.get(cell, ()), span[1])[span[0] :].any():
                    continue
                try:
                    data = read(path, StoreError)
                    usable = decode_block(path, data, span)[1].current
                except StoreError:  # it is computed here; what is wrong there is said where it is used
                    continue
                with self.claims.hold(cell, span) as held:
                    if usable and held:
                        write_atomic(self.path(cell, span), data, StoreError)
                        here.setdefault(cell, []).append(span)

    def claim(self, units: Sequence[Unit]) -> list[tuple[Unit, UnitStatus | None]]:
        """Claim units; gives each with what became of it, None for those to be computed, whose claims are now held.

        One is "busy" too if another process has stored a part of it in blocks of another size.
        """
        taken = self.claims.take([unit.block for unit in units])
        try:
            stored = self.index()  # after claiming: what another run stored before is in it
        except BaseException:
            self.claims.drop(*self.claims.held)
            raise
        last = max((unit.stop for unit in units), default=0)
        present = {cell: covered(stored.get(cell, ()), last) for cell in {unit.cell.id for unit in units}}
        claimed: list[tuple[Unit, UnitStatus | None]] = []
        for unit, held in zip(units, taken, strict=True):
            status: UnitStatus | None = "busy"
            if held and not (count := int(present[unit.cell.id][unit.start : unit.stop].sum())):
                status = None
            elif held:
                status = "stored" if count == unit.stop - unit.start else "busy"
                self.claims.drop(unit.block)
            claimed.append((unit, status))
        return claimed

    def _survey(self, study: Study) -> tuple[dict[Block, str], dict[Block, MadeBy]]:
        """The blocks of a study: what is wrong with those that are damaged, and which source computed the others."""
        damaged, made_by = {}, {}
        stored = self.index()
        for cell in {cell.id for cell in study.cells}:
            for span in stored.get(cell, []):
                try:
                    made_by[cell, span] = self.read_block(cell, span)[1]
                except DamagedBlockError as error:
                    damaged[cell, span] = str(error).partition(";")[0]
        return damaged, made_by

    def _remove(self, block: Block) -> None:
        """Remove a block, unless another process is at work on it."""
        with self.claims.hold(*block) as held:
            if held:
                remove(self.path(*block), StoreError)


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


class DamagedBlockError(StoreError):
    """A block whose content is not what was written; `run` computes it again."""


def manifest_of(study: Study) -> dict[str, Any]:
    """What a manifest says about a study."""
    # Labels stay exactly as they are; everything else is written like what a cell's hash is made of.
    written = {key: value if key == "labels" else result_identity(value, key) for key, value in study.to_dict().items()}
    cells = [
        {"id": cell.id, "instance": cell.instance, "policy": cell.policy, "spec": cell.identity} for cell in study.cells
    ]
    content = {"made_by": "adadim", "format": FORMAT, "adadim": version("adadim"), "study": written, "cells": cells}
    return {**content, "digest": manifest_digest(content)}


def manifest_digest(content: Mapping[str, Any]) -> str:
    """Digest of what a manifest says about the results; labels may be edited."""
    study = {key: value for key, value in content["study"].items() if key != "labels"}
    return digest({"study": study, "cells": content["cells"]})


def check_manifest(content: Any, path: Place) -> dict[str, Any]:
    """The content of a manifest; raises unless it is what adadim writes."""
    if not isinstance(content, dict) or content.get("made_by") != "adadim":
        raise StoreError(f"{path}: not written by adadim; choose another folder")
    if content.get("format") != FORMAT:
        raise StoreError(
            f"{path}: results of format {shown(content.get('format'))}, by adadim {content.get('adadim')!s:.20}, "
            f"but adadim {version('adadim')} uses format {FORMAT}; choose another folder, or use that version"
        )
    check = _Checker(path, RESTORE)
    check.get(content, "adadim", str)
    study = check.get(content, "study", dict)
    check.text(file_name, study.get("name"), "study.name")
    trials = check.get(study, "trials", object, "study.")
    if not is_integer(trials) or not 1 <= trials <= MAX_INTEGER:
        check.wrong("study.trials", f"be an integer in 1..{MAX_INTEGER}", trials)
    for key in ("instances", "policies"):
        tables = check.get(study, key, dict, "study.")
        if not tables:
            check.wrong(f"study.{key}", "not be empty", tables)
        for name in tables:
            check.text(printable, name, f"study.{key}")
            check.get(tables, name, dict, f"study.{key}.")
    if "labels" in study:
        check.get(study, "labels", dict, "study.")
    pairs = set()
    for i, cell in enumerate(check.get(content, "cells", list)):
        where = f"cells[{i}]"
        check.kind(cell, dict, where)
        instance, policy = (check.get(cell, key, str, f"{where}.") for key in ("instance", "policy"))
        if instance not in study["instances"] or policy not in study["policies"]:
            check.wrong(where, "name an instance and a policy of the study", cell)
        spec = check.get(cell, "spec", dict, f"{where}.")
        _check_cell(check, spec, f"{where}.spec")
        if digest(spec) != cell.get("id"):
            check.wrong(f"{where}.id", "be the digest of its spec", cell.get("id"))
        pairs.add((instance, policy))
    if len(pairs) != len(content["cells"]) or not pairs:
        check.wrong("cells", "hold every cell of the study once", content["cells"])
    if content.get("digest") != manifest_digest(content):
        raise StoreError(f"{path}: its content does not agree with its digest: edited or damaged; {RESTORE}")
    return content


def check_metadata(content: Any, path: Place) -> dict[str, Any]:
    """The metadata of a block; raises unless they are what adadim writes."""
    check = _Checker(path, REMOVE)
    check.kind(content, dict, "metadata")
    check.get(content, "block", str)
    check.get(content, "adadim", str)
    if "source" in content:  # not in results from before there was one
        check.get(content, "source", str)
    _check_cell(check, check.get(content, "cell", dict), "cell")
    return dict(content)


def _check_cell(check: _Checker, spec: dict[str, Any], where: str) -> None:
    """What a cell's hash is made of."""
    instance = check.get(spec, "instance", dict, f"{where}.")
    check.get(instance, "kind", str, f"{where}.instance.")
    check.get(instance, "params", dict, f"{where}.instance.")
    times = check.get(spec, "times", list, f"{where}.")
    inside = all(is_integer(t) and 0 < t <= MAX_INTEGER for t in times)
    if not times or not inside or any(b <= a for a, b in pairwise(times)):
        check.wrong(f"{where}.times", "be increasing rounds", times)


class _Checker:
    """Takes values out of the tables of a file; says what is wrong where they are not what they must be."""

    def __init__(self, path: Place, fix: str) -> None:
        self.path, self.fix = path, fix

    def wrong(self, where: str, wanted: str, value: object) -> NoReturn:
        raise StoreError(f"{self.path}: {where} must {wanted}, got {shown(value)}; {self.fix}")

    def kind(self, value: Any, kind: type, where: str) -> None:
        if not isinstance(value, kind):
            self.wrong(where, f"be {NOUNS[kind]}", value)

    def get(self, table: dict[str, Any], key: str, kind: type, within: str = "") -> Any:
        if key not in table:
            raise StoreError(f"{self.path}: incomplete: {within}{key} is missing; {self.fix}")
        self.kind(table[key], kind, f"{within}{key}")
        return table[key]

    def text(self, check: Callable[[str, str], str], value: Any, where: str) -> None:
        try:
            check(value, where)
        except InvalidValueError as error:
            raise StoreError(f"{self.path}: {error}; {self.fix}") from error


def _parse(text: str | bytes, path: Place, fix: str) -> Any:
    try:
        return json.loads(text if isinstance(text, str) else text.decode())
    except ValueError as error:
        raise StoreError(f"{path}: not readable as JSON ({error}); {fix}") from error
    except RecursionError:
        raise StoreError(f"{path}: not readable as JSON (nested too deeply); {fix}") from None


def encoded(unit: Unit, regret: FloatArray) -> bytes:
    """The file of a unit."""
    if reason := _impossible(regret):
        raise StoreError(f"block {unit.id}: {reason}, so it is not stored; look at the features and the policy")
    made_by = {"adadim": present().version, "source": present().source}
    meta = {**made_by, "block": unit.id, "cell": unit.cell.identity, "digest": "0" * 64}
    buffer = io.BytesIO()
    frame, text = _block_frame(unit.span, unit.cell.times, regret), json.dumps(meta, sort_keys=True)
    _without_panic(Path(unit.id), lambda: frame.write_parquet(buffer, metadata={METADATA_KEY: text}))
    blank = buffer.getvalue()
    if blank.count(BLANK_DIGEST) != 1:
        raise StoreError(f"block {unit.id}: polars {pl.__version__} writes metadata in a way that adadim does not know")
    return blank.replace(BLANK_DIGEST, b'"digest": "' + hashlib.sha256(blank).hexdigest().encode() + b'"')


def check_digest(path: Place, data: bytes) -> None:
    """Raise unless a block's file is as it was written."""
    digests = DIGEST.findall(data)
    if len(digests) != 1:
        if data[:4] == data[-4:] == b"PAR1" and BLOCK_MARK not in data:
            raise StoreError(f"{path}: a Parquet file that adadim did not write; move it out of this folder")
        raise _damaged(path, "it is cut or overwritten")
    if hashlib.sha256(DIGEST.sub(BLANK_DIGEST, data)).hexdigest().encode() != digests[0]:
        raise _damaged(path, "its content does not agree with its digest")


def decode_block(path: Place, data: bytes, span: Span) -> tuple[FloatArray, MadeBy]:
    """Regret in a block's file, (replications, record points), and its source; raises unless they fit its name."""
    check_digest(path, data)
    written = _without_panic(path, lambda: pl.read_parquet_metadata(io.BytesIO(data)))
    meta = check_metadata(_parse(written.get(METADATA_KEY, ""), path, REMOVE), path)
    if meta["block"] != path.stem:
        raise StoreError(f"{path}: holds {meta['block']!r}, so it was renamed; delete it, and run the study again")
    times = meta["cell"]["times"]
    frame = _without_panic(path, lambda: pl.read_parquet(io.BytesIO(data)))
    expected = _block_frame(span, times, np.zeros((span[1] - span[0], len(times))))
    if frame.schema != expected.schema or not frame.select("replication", "time").equals(
        expected.select("replication", "time")
    ):
        raise _damaged(path, "its rows are not those of this block")
    if frame["regret"].null_count():
        raise _damaged(path, "some regret is missing")
    regret: FloatArray = frame["regret"].to_numpy().reshape(-1, len(times))
    if reason := _impossible(regret):
        raise _damaged(path, reason)
    return regret, MadeBy(meta["adadim"], meta.get("source"))


def _impossible(regret: FloatArray) -> str:
    """What is wrong with some regret; empty if nothing is."""
    if not np.isfinite(regret).all():
        return "some regret is NaN or infinite"
    return "some regret is negative" if (regret < -ROUNDING).any() else ""


def _without_panic(path: Place, action: Any) -> Any:
    """The result of `action`; errors of polars and its panics, which are no `Exception`, become `DamagedBlockError`."""
    try:
        return action()
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise _damaged(path, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _damaged(path, "polars cannot read it") from None


def _block_frame(span: Span, times: Sequence[int], regret: FloatArray) -> pl.DataFrame:
    numbers = np.arange(*span, dtype=np.int32)
    columns = {
        "replication": np.repeat(numbers, len(times)),
        "time": np.tile(np.asarray(times, dtype=np.int32), len(numbers)),
        "regret": np.ascontiguousarray(regret, dtype=np.float64).ravel(),
    }
    return pl.DataFrame(columns, schema=BLOCK_COLUMNS)


def _damaged(path: Place, reason: object) -> DamagedBlockError:
    return DamagedBlockError(f"{path}: damaged ({reason}); running the study again recomputes it")
