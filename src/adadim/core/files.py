"""Files that are written atomically, on this machine (a `Path`) or in an object store (a `Url`).

Stores are reached by fsspec, which takes credentials and addresses of servers from environment variables and its
configuration.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import socket
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar
from urllib.parse import unquote

from adadim.core.checks import shown
from adadim.errors import FileError, InvalidValueError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
# Protocols of stores in which an object appears once it is complete. Elsewhere a file is renamed when it is complete.
ATOMIC_PROTOCOLS = {"abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "oci", "oss", "s3", "s3a"}
ODD_FILES = {stat.S_ISFIFO: "a pipe", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device", stat.S_ISSOCK: "a socket"}
OS_ERROR = re.compile(r"\(os error ([0-9]+)\)")  # in messages of libraries written in Rust
TEMPORARY_FOLDER = re.compile(r".*\.adadim-(.+)-([0-9]{1,9})-[0-9a-f]{8}\.tmp")  # with the machine and the process
NAME_CHARACTERS = 30  # of a file's name in that of its temporary folder, which the system limits
_temporary_folders: set[Path] = set()  # of this process
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True)
class Url:
    """A file or folder that fsspec reaches, such as ``s3://bucket/results``."""

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
    """A path, or a URL if `value` is text that starts like one; ``file://`` is a path."""
    if isinstance(value, Url):
        return value
    if isinstance(value, str) and (scheme := SCHEME.match(value)):
        if scheme[0].lower() == "file://":
            return as_path(unquote(value[len("file://") :]), name, error)
        if len(value.rstrip("/")) <= len(scheme[0].rstrip("/")):
            raise error(f"{name} must be a path or a URL such as s3://bucket/results, got {shown(value)}")
        return Url(value.rstrip("/"))
    return as_path(value, name, error)


def as_path(value: Any, name: str, error: type[FileError] = FileError) -> Path:
    """A path that the system can use."""
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


def write_atomic(path: P, data: bytes, error: type[FileError] = FileError) -> P:
    """Write a file completely or not at all, even with a power cut or other writers; makes its folder."""
    with _errors(path, error):
        if isinstance(path, Url):
            _write_object(path, data)
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(_partial(path.name))
        try:
            with open(partial, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        sync_folder(path.parent)
        return path


def write_objects(contents: Mapping[Url, bytes], error: type[FileError] = FileError) -> None:
    """Write several small files of one store, concurrently where it allows that."""
    if not contents:
        return
    first = next(iter(contents))
    with _errors(first, error):
        system = _system(first)[0]
        if _is_atomic(system):
            system.pipe({_system(url)[1]: data for url, data in contents.items()})
            return
        for url, data in contents.items():
            _write_object(url, data)


def read(path: Place, error: type[FileError] = FileError) -> bytes:
    """Content of a file."""
    with _errors(path, error):
        if isinstance(path, Url):
            system, name = _system(path)
            return bytes(system.cat_file(name))
        with open_regular(path, error) as file:
            return file.read()


def open_regular(path: Path, error: type[InvalidValueError] = FileError) -> BinaryIO:
    """A file opened for reading; pipes, devices and sockets are refused, since reading one may never end."""
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            kind = next((noun for check, noun in ODD_FILES.items() if check(mode)), "something else")
            raise error(f"{path}: must be a regular file, got {kind}; move it away or give another name")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def names(folder: Place, error: type[FileError] = FileError) -> list[str]:
    """Names of the files and folders in a folder; none if there is no such folder."""
    with _errors(folder, error), contextlib.suppress(FileNotFoundError):
        if not isinstance(folder, Url):
            return os.listdir(folder)
        system, path = _system(folder)
        system.invalidate_cache()  # others write too
        inside = (str(name).rstrip("/") for name in system.ls(path, detail=False))
        return [name.rpartition("/")[2] for name in inside if name.strip("/") != path.strip("/")]
    return []


def exists(path: Place, error: type[FileError] = FileError) -> bool:
    """Whether there is such a file."""
    with _errors(path, error):
        if not isinstance(path, Url):
            return path.exists()
        system, name = _system(path)
        system.invalidate_cache()
        return bool(system.exists(name))


def is_folder(path: Place, error: type[FileError] = FileError) -> bool:
    """Whether there is such a folder; in an object store, whether anything is in it."""
    return bool(names(path, error)) if isinstance(path, Url) else path.is_dir()


def remove(path: Place, error: type[FileError] = FileError) -> None:
    """Remove a file, if it is there."""
    with _errors(path, error), contextlib.suppress(FileNotFoundError):
        if isinstance(path, Url):
            system, name = _system(path)
            system.rm_file(name)
        else:
            path.unlink()


def make_folder(path: Place, error: type[FileError] = FileError) -> None:
    """Make a folder, if it is not there; an object store needs none."""
    if not isinstance(path, Url):
        with _errors(path, error):
            path.mkdir(parents=True, exist_ok=True)


def explained(failure: OSError, path: Place, error: type[FileError] = FileError) -> FileError:
    """The error for what the system reports about a file, with the fix."""
    if failure.errno in NO_SPACE:
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


def explained_writer(failure: Exception, path: Place) -> FileError:
    """The error for what a library reports that could not write a file."""
    number = OS_ERROR.search(str(failure))
    if number is not None:
        return explained(OSError(int(number[1]), os.strerror(int(number[1]))), path)
    return FileError(
        f"{path}: cannot be written ({str(failure).partition(chr(10))[0]}); check the folder and run again"
    )


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """A folder beside a file that is to be made, for what is needed until it is complete; makes the file's folder.

    At the beginning those are removed that processes have left there which were killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.iterdir():
        match = TEMPORARY_FOLDER.fullmatch(left.name)
        mine = match is not None and match[2] == str(os.getpid())  # or of an earlier process of the same number
        if match is not None and (left not in _temporary_folders if mine else not is_alive(match[2], match[1])):
            shutil.rmtree(left, ignore_errors=True)
    name = f"{path.name[:NAME_CHARACTERS]}.adadim-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.tmp"
    folder = path.with_name(name)
    _temporary_folders.add(folder)
    try:
        folder.mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _temporary_folders.discard(folder)


def is_alive(number: str, host: str) -> bool:
    """Whether a process may be running; one of another machine always may."""
    if host != socket.gethostname() or sys.platform == "win32":  # where asking would send Ctrl-C
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    return True


@contextlib.contextmanager
def _errors(place: Place, error: type[FileError]) -> Iterator[None]:
    """Turn failures of the system or of a store into `error`; each store has its own classes of errors."""
    try:
        yield
    except Exception as failure:
        if isinstance(place, Path):
            if not isinstance(failure, OSError):  # also a refusal of `open_regular`
                raise
            raise explained(failure, place, error) from failure
        if isinstance(failure, ImportError):  # fsspec names the package that is missing, unless it is missing itself
            fsspec = "URLs need fsspec; install it with: pip install 'adadim[cluster]'"
            raise error(f"{place}: {fsspec if failure.name == 'fsspec' else failure}") from failure
        message = str(failure) or type(failure).__name__
        fix = "check the address, your rights there and the network, and run again"
        raise error(f"{place}: {message}; {fix}") from failure


def _partial(name: str) -> str:
    """A temporary name for a file that is being written."""
    return f"{name}.{secrets.token_hex(4)}.tmp"


def _system(url: Url) -> Any:
    """The file system of a URL, and the path in it."""
    from fsspec.core import url_to_fs

    return url_to_fs(str(url))


def _is_atomic(system: Any) -> bool:
    protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    return bool(ATOMIC_PROTOCOLS & set(protocols))


def _write_object(url: Url, data: bytes) -> None:
    system, path = _system(url)
    if _is_atomic(system):
        system.pipe_file(path, data)
        return
    system.makedirs(path.rpartition("/")[0], exist_ok=True)
    partial = _partial(path)
    try:
        system.pipe_file(partial, data)
        system.mv(partial, path)
    except BaseException:
        with contextlib.suppress(Exception):
            system.rm_file(partial)
        raise


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot
            os.fsync(handle)
    finally:
        os.close(handle)
