"""Which code computes: a digest of the source files that can change a number, which every block of results carries.

It is over the bytes of those files, in order of their names, with lines ended by a newline: the same on every machine,
from a checkout or a wheel. A comment changes it as a formula does; whether numbers changed too, it cannot say. For the
tables in docs/ `benchmarks/tables.py` checks that, by computing some of each again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

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
        return self.source == SOURCE


def digest_of(files: Iterable[Path], folder: Path) -> str:
    """Digest of files below a folder: their names and their text, whatever their order and their ends of lines."""
    digest = hashlib.sha256()
    for name, file in sorted((file.relative_to(folder).as_posix(), file) for file in files):
        text = file.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name}\n{len(text)}\n".encode() + text)
    return digest.hexdigest()[:12]


def source_files(package: Path = PACKAGE) -> list[Path]:
    """The files that can change a number."""
    rooms = (file.relative_to(package).as_posix() for file in package.rglob("*.py"))
    return [package / name for name in rooms if name.startswith(ROOMS) and name not in EXCLUDED]


# Taken when the rooms have just been imported: a file that is edited while a study runs does not count.
SOURCE = digest_of(source_files(), PACKAGE)
PRESENT = MadeBy(version("adadim"), SOURCE)
