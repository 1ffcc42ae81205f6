"""Who works in a results folder: rights to compute blocks, and the runs that are under way.

A process that computes a block holds a lock on the range of bytes of ``blocks/.lock`` that belongs to the block. The
content of that file lists the runs: a line with process number and machine for each.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from adadim.errors import StoreError
from adadim.files import explained

if sys.platform != "win32":
    import fcntl

__all__ = ["Block", "Claims", "Locks"]

Block = tuple[str, int, int]
"""Identifier of a cell, first replication, and the one after the last."""

# A cell has 2^20 bytes of the lock file, chosen by its hash; should two cells share them, one waits for the other.
LOCK_BITS = 20
FOLDER_OFFSET = 1 << 62
POLL = 0.1  # seconds
MOST_BYTES = 100_000  # of the list of runs


class Claims(Protocol):
    """Rights to compute blocks, taken and given up one by one; all end with the process."""

    def take(self, wanted: Sequence[Block]) -> list[bool]:
        """Claim blocks; False for those of which another process is computing a part."""

    def drop(self, block: Block) -> None:
        """Give a claim up."""


class Locks:
    """The lock file of a results folder.

    Parameters
    ----------
    path : Path
        The file; it is made when first needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def claim(self, cell: str, start: int, stop: int) -> Iterator[bool]:
        """Hold the right to compute a block; gives False if another process is computing a part of it.

        The right ends with the block of code or with the process, whichever comes first. The blocks that
        a process claims together end together: closing the lock file gives up all its claims in this folder.
        """
        with self.claims() as claims:
            yield claims.take([(cell, start, stop)])[0]

    @contextlib.contextmanager
    def claims(self) -> Iterator[Claims]:
        """Claim blocks and give them up one by one.

        Until this ends, nothing else in this process may open the lock file: closing it gives up every claim.
        """
        with self._open() as handle:
            yield _Held(handle, self.path)

    @contextlib.contextmanager
    def exclusive(self, waiting: Callable[[float], None]) -> Iterator[int]:
        """Be the only one to change the folder's own files; `waiting` is called with the seconds waited so far.

        Gives the handle of the lock file.
        """
        began = time.monotonic()
        with self._open() as handle:
            while not _locked(handle, FOLDER_OFFSET, 1, self.path):
                waiting(time.monotonic() - began)
                time.sleep(POLL)
            yield handle

    @contextlib.contextmanager
    def registered(self, waiting: Callable[[float], None]) -> Iterator[None]:
        """Be listed among the runs."""
        own = f"{os.getpid()} {socket.gethostname()}"
        with self.exclusive(waiting) as handle:
            lines = self._lines(handle)
            for line in lines:
                if _is_gone(line):
                    _remove_shared(line.partition(" ")[0])
            self._write(handle, [*(line for line in lines if _alive(line)), own])
        try:
            yield
        finally:
            with contextlib.suppress(StoreError, OSError), self.exclusive(waiting) as handle:
                self._write(handle, [line for line in self._lines(handle) if line != own])

    def others(self) -> str:
        """The other runs that are under way, as text."""
        own = f"{os.getpid()} {socket.gethostname()}"
        try:
            lines = self.path.read_bytes()[:MOST_BYTES].decode("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        found = [line.partition(" ") for line in lines if line != own and _alive(line)]
        named = [f"process {number} on {host}{_stopped(number, host)}" for number, _, host in found]
        return " and ".join(named) or "another process"

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        if sys.platform == "win32":  # two runs at once may then do the same work, with the same result
            yield -1
            return
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise explained(error, self.path, StoreError) from error
        try:
            yield handle
        finally:
            os.close(handle)

    def _lines(self, handle: int) -> list[str]:
        if handle < 0:
            return []
        return os.pread(handle, MOST_BYTES, 0).decode("utf-8", "replace").splitlines()

    def _write(self, handle: int, lines: list[str]) -> None:
        if handle >= 0:
            text = "".join(f"{line}\n" for line in lines).encode()
            try:
                os.ftruncate(handle, 0)
                os.pwrite(handle, text, 0)
            except OSError as error:
                raise explained(error, self.path, StoreError) from error


class _Held:
    """Claims as locks on an open lock file."""

    def __init__(self, handle: int, path: Path) -> None:
        self._handle, self._path = handle, path

    def take(self, wanted: Sequence[Block]) -> list[bool]:
        return [_locked(self._handle, _offset(cell, start), stop - start, self._path) for cell, start, stop in wanted]

    def drop(self, block: Block) -> None:
        cell, start, stop = block
        if sys.platform != "win32":
            fcntl.lockf(self._handle, fcntl.LOCK_UN, stop - start, _offset(cell, start))


def _offset(cell: str, start: int) -> int:
    return (int(cell[:10], 16) << LOCK_BITS) + start


def _locked(handle: int, start: int, length: int, path: Path) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise explained(error, path, StoreError) from error
        return False
    return True


def _alive(line: str) -> bool:
    """Whether a line names a run that may be under way; of other machines nothing is known."""
    number, _, host = line.partition(" ")
    if not number.isascii() or not number.isdigit() or not host or len(number) > 9:
        return False
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _is_gone(line: str) -> bool:
    """Whether a line names a run of this machine that ended without taking itself off the list."""
    number, _, host = line.partition(" ")
    return number.isascii() and number.isdigit() and host == socket.gethostname() and not _alive(line)


def _remove_shared(number: str) -> None:
    """Remove what joblib kept in shared memory for a run that was killed together with all its processes."""
    for folder in {Path("/dev/shm"), Path(tempfile.gettempdir())}:
        for path in folder.glob(f"joblib_memmapping_folder_{number}_*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in folder.glob(f"sem.loky-{number}-*"):
            with contextlib.suppress(OSError):
                path.unlink()


def _stopped(number: str, host: str) -> str:
    """A note if the process is stopped, which Linux tells."""
    if host != socket.gethostname():
        return ""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
    return f" (which is stopped: kill -CONT {number} lets it go on)" if state == "T" else ""
