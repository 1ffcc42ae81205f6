"""Files written whole or not at all, here (a `Path`) or in an object store (a `Url`, see `objects`)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from adadim.checks import shown
from adadim.errors import FileError

__all__ = [
    "Place",
    "Url",
    "as_path",
    "as_place",
    "exists",
    "explained",
    "is_folder",
    "make_folder",
    "names",
    "read",
    "remove",
    "write_whole",
]

FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True)
class Url:
    """A file or folder that fsspec reaches, such as ``s3://bucket/results``.

    Examples
    --------
    >>> file = Url("memory://results") / "blocks" / "first.parquet"
    >>> str(file), file.name, file.stem, str(file.with_name("other"))
    ('memory://results/blocks/first.parquet', 'first.parquet', 'first', 'memory://results/blocks/other')
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> Url:
        return Url(f"{self.text.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """What follows the last slash."""
        return self.text.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without what follows its last point."""
        return self.name.rpartition(".")[0] or self.name

    def with_name(self, name: str) -> Url:
        """The file of another name in the same folder."""
        return Url(f"{self.text.rpartition('/')[0]}/{name}")


Place: TypeAlias = Path | Url
P = TypeVar("P", bound=Place)


def as_place(value: Any, name: str, error: type[FileError] = FileError) -> Place:
    """A path, or a URL if `value` is text that starts like one; ``file://`` is a path.

    Examples
    --------
    >>> as_place("s3://bucket/results/", "folder"), as_place("file:///tmp/results", "folder").name
    (Url(text='s3://bucket/results'), 'results')
    """
    if isinstance(value, Url):
        return value
    if isinstance(value, str) and (found := SCHEME.match(value)):
        if found[0].lower() == "file://":
            return as_path(unquote(value[len("file://") :]), name, error)
        if len(value.rstrip("/")) <= len(found[0].rstrip("/")):
            raise error(f"{name} must be a path or a URL such as s3://bucket/results, got {shown(value)}")
        return Url(value.rstrip("/"))
    return as_path(value, name, error)


def as_path(value: Any, name: str, error: type[FileError] = FileError) -> Path:
    """A path that the system can use.

    Examples
    --------
    >>> as_path(None, "folder")
    Traceback (most recent call last):
    adadim.errors.FileError: folder must be a path, got None
    """
    try:
        path = Path(value)
        os.fsencode(path)
    except (TypeError, ValueError):
        raise error(f"{name} must be a path, got {shown(value)}") from None
    if value == "" or "\0" in str(path):
        raise error(f"{name} must be a path, got {shown(value)}")
    try:
        path.lstat()
    except OSError as failure:
        if failure.errno == errno.ENAMETOOLONG:
            raise error(f"{name} must be a path of a length that the system can use, got {shown(value)}") from None
    return path


def write_whole(path: P, data: bytes, error: type[FileError] = FileError) -> P:
    """Write a file under a temporary name and rename it, so that what has its name is complete.

    Several processes may write the same file at once. It survives a power cut, where the system can promise that. In an
    object store the same holds without a temporary name: an object appears when all of it has arrived.

    Parameters
    ----------
    path : Path or Url
        The file; its folder is made if need be.
    data : bytes
        What to write.
    error : class
        What to raise where it cannot be written.
    """
    if isinstance(path, Url):
        from adadim import objects

        objects.write(path, data, error)
        return path
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(partial, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        _sync_folder(path.parent)
    except OSError as failure:
        raise explained(failure, path, error) from failure
    return path


def read(path: Place, error: type[FileError] = FileError) -> bytes:
    """Content of a file."""
    if isinstance(path, Url):
        from adadim import objects

        return objects.read(path, error)
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as failure:
        raise explained(failure, path, error) from failure


def names(folder: Place, error: type[FileError] = FileError) -> list[str]:
    """Names of what is in a folder; none if there is no such folder."""
    if isinstance(folder, Url):
        from adadim import objects

        return objects.names(folder, error)
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as failure:
        raise explained(failure, folder, error) from failure


def exists(path: Place, error: type[FileError] = FileError) -> bool:
    """Whether there is such a file."""
    if isinstance(path, Url):
        from adadim import objects

        return objects.exists(path, error)
    try:
        return path.exists()
    except OSError as failure:  # a name that is too long, for instance
        raise explained(failure, path, error) from failure


def is_folder(path: Place, error: type[FileError] = FileError) -> bool:
    """Whether there is such a folder; in an object store, whether anything is in it."""
    return bool(names(path, error)) if isinstance(path, Url) else path.is_dir()


def remove(path: Place, error: type[FileError] = FileError) -> None:
    """Remove a file, if it is there."""
    if isinstance(path, Url):
        from adadim import objects

        return objects.remove(path, error)
    try:
        path.unlink(missing_ok=True)
    except OSError as failure:
        raise explained(failure, path, error) from failure


def make_folder(path: Place, error: type[FileError] = FileError) -> None:
    """Make a folder, if it is not there; an object store needs none."""
    if isinstance(path, Url):
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise explained(failure, path, error) from failure


def explained(failure: OSError, path: Place, error: type[FileError] = FileError) -> FileError:
    """What the system said about a file, and what helps."""
    if failure.errno in FULL:
        fix = "free some space and run again; what is finished is kept, and nothing was half-written"
    elif failure.errno in FORBIDDEN:
        fix = "choose a folder you may write to"
    elif failure.errno in (errno.ENOTDIR, errno.EEXIST):
        fix = "a part of this path is a file; choose another folder"
    elif failure.errno == errno.EISDIR:
        fix = "this is a folder; give the name of a file"
    elif failure.errno in (errno.ENOLCK, errno.ENOTSUP):
        fix = "this file system cannot lock files; choose a folder on a local disk"
    else:
        fix = "check the folder and run again; what is finished is kept"
    return error(f"{path}: {failure.strerror or failure}; {fix}")


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot
            os.fsync(handle)
    finally:
        os.close(handle)
