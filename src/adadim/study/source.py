"""Which code computes: a digest of the source files that can change a number, which every block of results carries.

It is over the code of those files, in order of their names, as `code_text` has it: without comments, docstrings and
layout, and the same on every machine, in every version of Python, from a checkout or a wheel. Whether other code gives
other numbers it cannot say. For the tables in docs/ `benchmarks/tables.py` checks that, by computing some of each
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from adadim.core.code_text import code_text

PACKAGE = Path(__file__).parents[1]
ROOMS = ("core/", "instances/", "models/", "play/", "policies/", "theory.py")
# What only shows, stores or evaluates from logs; all else in these rooms counts.
EXCLUDED = (
    "core/display.py",
    "core/files.py",
    "core/on_demand.py",
    "core/saving.py",
    "play/evaluation.py",
    "play/logs.py",
    "policies/loading.py",
)


class MadeBy(NamedTuple):
    """Which adadim computed a block, and the digest of its source; None in results from before there was one.

    Examples
    --------
    >>> str(MadeBy("0.2.0", None))
    'adadim 0.2.0, which did not record its source'
    """

    version: str
    source: str | None

    def __str__(self) -> str:
        source = "which did not record its source" if self.source is None else f"source {self.source}"
        return f"adadim {self.version}, {source}"

    @property
    def current(self) -> bool:
        """Whether it is the source that runs now."""
        return self.source == present().source


def digest_of(files: Iterable[Path], folder: Path) -> str:
    """Digest of Python files below a folder, whatever their order: their names and their code."""
    return _code_digest(_texts(files, folder))


def digest_of_bytes(files: Iterable[Path], folder: Path) -> str:
    """Digest of files below a folder: their names and all that is in them, but how lines end. Nothing is parsed."""
    return _digest({name: text.replace(b"\r\n", b"\n") for name, text in _texts(files, folder).items()})


def source_files(package: Path = PACKAGE) -> list[Path]:
    """The files that can change a number."""
    rooms = (file.relative_to(package).as_posix() for file in package.rglob("*.py"))
    return [package / name for name in rooms if name.startswith(ROOMS) and name not in EXCLUDED]


def _texts(files: Iterable[Path], folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def _code_digest(texts: Mapping[str, bytes]) -> str:
    return _digest({name: code_text(text).encode() for name, text in texts.items()})


def _digest(texts: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, text in sorted(texts.items()):
        digest.update(f"{name}\n{len(text)}\n".encode() + text)
    return digest.hexdigest()[:12]


# Read when the rooms have just been imported: a file that is edited while a study runs does not count. Parsing takes
# some tenths of a second, and waits until a block is written or judged.
_TEXTS = _texts(source_files(), PACKAGE)


@cache
def present() -> MadeBy:
    """The version and the source that run now."""
    return MadeBy(version("adadim"), _code_digest(_TEXTS))
