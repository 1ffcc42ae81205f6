"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from adadim.checks import shown
from adadim.errors import FileError

__all__ = ["as_path", "explained", "write_whole"]

FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


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


def write_whole(path: Path, data: bytes, error: type[FileError] = FileError) -> Path:
    """Write a file under a temporary name and rename it, so that what has its name is complete.

    Several processes may write the same file at once. It survives a power cut, where the system can promise that.

    Parameters
    ----------
    path : Path
        The file; its folder is made if need be.
    data : bytes
        What to write.
    error : class
        What to raise where it cannot be written.
    """
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


def explained(failure: OSError, path: Path, error: type[FileError] = FileError) -> FileError:
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
