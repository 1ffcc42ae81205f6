"""What the files in a results folder must look like: every manifest and every block's metadata is read through here.

Each check names the file, the key, what it must be and what it was, and says what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from itertools import pairwise
from typing import Any, NoReturn

from adadim.checks import file_name, is_integer, printable, shown
from adadim.errors import InvalidValueError, StoreError
from adadim.files import Place
from adadim.study.cells import FORMAT, LARGEST, digest

__all__ = ["REMOVE", "RESTORE", "block", "manifest", "manifest_digest", "parse"]

RESTORE = "move it away and run the study again, which writes a new one and keeps the blocks"
REMOVE = "delete it, and running the study again computes it anew"
CELL = re.compile(r"[0-9a-f]{20}")


def parse(text: str, path: Place, fix: str) -> Any:
    """JSON in a file; `fix` says what to do where it is none."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise StoreError(f"{path}: not readable as JSON ({error}); {fix}") from error
    except RecursionError:
        raise StoreError(f"{path}: not readable as JSON (nested too deeply); {fix}") from None


def manifest(content: Any, path: Place) -> dict[str, Any]:
    """The content of a manifest, checked."""
    if not isinstance(content, dict) or content.get("made_by") != "adadim":
        raise StoreError(f"{path}: not written by adadim; choose another folder")
    if content.get("format") != FORMAT:
        raise StoreError(
            f"{path}: results of format {shown(content.get('format'))}, by adadim {content.get('adadim')!s:.20}, "
            f"but adadim {version('adadim')} uses format {FORMAT}; choose another folder, or use that version"
        )
    read = _Reader(path, RESTORE)
    read.text(content, "adadim")
    study = read.table(content, "study")
    read.file_name(study.get("name"), "study.name")
    read.count(study, "trials", "study.trials", LARGEST)
    instances, policies = (read.names(study, key) for key in ("instances", "policies"))
    if "labels" in study:
        read.table(study, "labels", "study.labels")
    pairs = set()
    for i, cell in enumerate(read.list(content, "cells")):
        where = f"cells[{i}]"
        read.is_table(cell, where)
        names = [read.text(cell, key, f"{where}.{key}") for key in ("instance", "policy")]
        if names[0] not in instances or names[1] not in policies:
            read.wrong(where, "name an instance and a policy of the study", cell)
        spec = read.table(cell, "spec", f"{where}.spec")
        _cell(read, spec, f"{where}.spec")
        if not CELL.fullmatch(str(cell.get("id"))) or digest(spec) != cell["id"]:
            read.wrong(f"{where}.id", "be the digest of its spec", cell.get("id"))
        pairs.add(tuple(names))
    if len(pairs) != len(content["cells"]) or not pairs:
        read.wrong("cells", "hold every cell of the study once", content["cells"])
    if content.get("digest") != manifest_digest(content):
        raise StoreError(f"{path}: its content does not agree with its digest: edited or damaged; {RESTORE}")
    return content


def manifest_digest(content: Mapping[str, Any]) -> str:
    """Digest of what a manifest says about the results; labels may be edited."""
    study = {key: value for key, value in content["study"].items() if key != "labels"}
    return digest({"study": study, "cells": content["cells"]})


def block(content: Any, path: Place) -> dict[str, Any]:
    """The metadata of a block, checked."""
    read = _Reader(path, REMOVE)
    read.is_table(content, "metadata")
    read.text(content, "block")
    _cell(read, read.table(content, "cell"), "cell")
    checked: dict[str, Any] = content
    return checked


def _cell(read: _Reader, spec: dict[str, Any], where: str) -> None:
    """What a cell's hash is made of."""
    instance = read.table(spec, "instance", f"{where}.instance")
    read.text(instance, "kind", f"{where}.instance.kind")
    read.table(instance, "params", f"{where}.instance.params")
    times = read.list(spec, "times", f"{where}.times")
    inside = all(is_integer(t) and 0 < t <= LARGEST for t in times)
    if not times or not inside or any(b <= a for a, b in pairwise(times)):
        read.wrong(f"{where}.times", "be increasing rounds", times)


class _Reader:
    """Takes values out of the tables of a file; says what is wrong where they are not what they must be."""

    def __init__(self, path: Place, fix: str) -> None:
        self.path, self.fix = path, fix

    def wrong(self, where: str, wanted: str, value: object) -> NoReturn:
        raise StoreError(f"{self.path}: {where} must {wanted}, got {shown(value)}; {self.fix}")

    def value(self, table: dict[str, Any], key: str, where: str) -> Any:
        if key not in table:
            raise StoreError(f"{self.path}: incomplete: {where or key} is missing; {self.fix}")
        return table[key]

    def is_table(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            self.wrong(where, "be a table", value)

    def table(self, table: dict[str, Any], key: str, where: str = "") -> dict[str, Any]:
        value = self.value(table, key, where)
        self.is_table(value, where or key)
        found: dict[str, Any] = value
        return found

    def list(self, table: dict[str, Any], key: str, where: str = "") -> list[Any]:
        value = self.value(table, key, where)
        if not isinstance(value, list):
            self.wrong(where or key, "be a list", value)
        return value

    def text(self, table: dict[str, Any], key: str, where: str = "") -> str:
        value = self.value(table, key, where)
        if not isinstance(value, str):
            self.wrong(where or key, "be a string", value)
        return value

    def count(self, table: dict[str, Any], key: str, where: str, most: int) -> int:
        value = self.value(table, key, where)
        if not is_integer(value) or not 1 <= value <= most:
            self.wrong(where, f"be an integer in 1..{most}", value)
        return int(value)

    def file_name(self, value: Any, where: str) -> None:
        try:
            file_name(value, where)
        except InvalidValueError as error:
            raise StoreError(f"{self.path}: {error}; {self.fix}") from error

    def printable(self, value: str, where: str) -> None:
        try:
            printable(value, where)
        except InvalidValueError as error:
            raise StoreError(f"{self.path}: {error}; {self.fix}") from error

    def names(self, study: dict[str, Any], key: str) -> set[str]:
        """Names of the instances or policies of a study."""
        tables = self.table(study, key, f"study.{key}")
        if not tables:
            self.wrong(f"study.{key}", "not be empty", tables)
        for name, table in tables.items():
            self.printable(name, f"study.{key}")
            self.is_table(table, f"study.{key}.{name}")
        return set(tables)
