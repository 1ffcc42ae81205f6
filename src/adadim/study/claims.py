"""Which runs are under way in a results folder, and which blocks each of them may compute.

On disks (`Locks`), a process that computes a block holds a lock on the range of bytes of ``blocks/.lock`` that belongs
to the block. An empty file ``blocks/.run PROCESS MACHINE`` stands for each run.

In object stores there are no locks (`Leases`). A run puts an object ``runs/RUN`` and writes it anew every few seconds.
For a block that it is going to compute it puts ``claims/CELL/START-STOP-RUN``, and then lists the other claims on a
part of the block: if one of them belongs to a run that is alive, it takes its own claim back. Each run lists claims
after it has put its own, and stores list what was put before, so two runs never both go on. A run whose object has not
changed for `LEASE_SECONDS` is dead, and its claims count for nothing. Each run measures these seconds by its own clock,
so clocks need not agree. Should a run that was taken for dead wake up, a block is computed twice, with the same bytes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from adadim.core import files
from adadim.core.files import Place, Url, explained, is_alive
from adadim.errors import StoreError, StoreWarning
from adadim.study.cells import Span

if sys.platform != "win32":
    import fcntl

Block = tuple[str, Span]
"""Identifier of a cell, and some of its replications."""

WARN_AFTER_SECONDS, WARN_EVERY_SECONDS = 3.0, 60.0  # of waiting for another run
POLL_SECONDS, REMOTE_POLL_SECONDS = 0.2, 2.0  # between looks at what another run is computing
# A cell has 2^20 bytes of the lock file, chosen by its hash; should two cells share them, one waits for the other.
LOCK_BITS = 20
RUN_NAME = re.compile(r"\.run ([0-9]{1,9}) (.+)")  # process and machine
LEASE_SECONDS, HEARTBEAT_SECONDS = 30.0, 5.0
WITHDRAW_SECONDS = 1.0  # in which another run that has listed our claim takes back its own
CLAIM_NAME = re.compile(r"(\d{6,10})-(\d{6,10})-([0-9a-f]{16})")


class WorkLocks(ABC):
    """The other runs in a results folder, and the blocks that this process has claimed."""

    poll_seconds = POLL_SECONDS

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        self.held: dict[Block, int] = {}  # each with the handle that its lock is on, if it is a lock
        self._warned_seconds = 0.0  # how long this wait had lasted when it was last warned of

    @abstractmethod
    def take(self, wanted: Sequence[Block]) -> list[bool]:
        """Claim blocks; gives False for those of which another process computes a part. Claims end with the process."""

    @abstractmethod
    def _release(self, block: Block, handle: int) -> None:
        """Give a claim up."""

    @abstractmethod
    def registered(self) -> contextlib.AbstractContextManager[None]:
        """List this run among those under way, until the end."""

    @abstractmethod
    def others(self) -> list[str]:
        """The other runs that are under way, as text; removes what dead runs have left."""

    @contextlib.contextmanager
    def hold(self, cell: str, span: Span) -> Iterator[bool]:
        """Hold the right to compute a block; gives False if another process is computing a part of it."""
        try:
            yield self.take([(cell, span)])[0]
        finally:
            self.drop((cell, span))

    def drop(self, *blocks: Block) -> None:
        """Give claims up, if they are held; what cannot be given up now ends with the process, or a while after it."""
        for block in blocks:
            if block in self.held:
                with contextlib.suppress(StoreError):
                    self._release(block, self.held.pop(block))

    def warn_of_waiting(self, seconds: float) -> None:
        """Warn now and then that this run has been waiting for other runs, for so many seconds by now."""
        if seconds < self._warned_seconds:  # another wait
            self._warned_seconds = 0.0
        if seconds >= (self._warned_seconds + WARN_EVERY_SECONDS if self._warned_seconds else WARN_AFTER_SECONDS):
            self._warned_seconds = seconds
            others = " and ".join(self.others()) or "another process"
            warnings.warn(
                f"{self.folder}: waiting since {seconds:.0f} s for {others}, which works in this folder; "
                "this run goes on when that one is done or ends",
                StoreWarning,
                stacklevel=4,
            )


class Locks(WorkLocks):
    """Claims in a folder on a disk, through its lock file, which is made when first needed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "blocks" / ".lock"

    def take(self, wanted: Sequence[Block]) -> list[bool]:
        for block in wanted:
            handle = _open(self.path)
            try:
                _lock_bytes(handle, block)
            except OSError as error:
                _close(handle)
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise explained(error, self.path, StoreError) from error
            else:
                self.held[block] = handle
        return [block in self.held for block in wanted]

    def _release(self, block: Block, handle: int) -> None:
        with contextlib.suppress(OSError):  # what cannot lock cannot unlock
            _lock_bytes(handle, block, unlock=True)
        _close(handle)

    @contextlib.contextmanager
    def registered(self) -> Iterator[None]:
        run_file = self._run_file
        self.others()
        try:
            run_file.touch()
        except OSError as error:
            raise explained(error, run_file, StoreError) from error
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                run_file.unlink()

    def others(self) -> list[str]:
        alive = []
        for name in files.names(self.path.parent, StoreError):
            if not name.startswith(".run ") or name == self._run_file.name:
                continue
            run = RUN_NAME.fullmatch(name)
            if run and is_alive(run[1], run[2]):
                alive.append(f"process {run[1]} on {run[2]}{_stopped(run[1], run[2])}")
                continue
            if run:
                _remove_shared(run[1])
            files.remove(self.path.with_name(name), StoreError)
        return alive

    @property
    def _run_file(self) -> Path:
        return self.path.with_name(f".run {os.getpid()} {socket.gethostname()}")


_claims_lock = threading.Lock()
_users: Counter[int] = Counter()
"""Handles of lock files, and how many claims use each. Closing any handle of a file gives up every lock that the
process has on it, so an open file is not opened again, and is closed after its last use."""


def _open(path: Path) -> int:
    """A handle of a lock file, to be given to `_close` once."""
    if sys.platform == "win32":  # two runs at once may then do the same work, with the same result
        return -1
    with _claims_lock:
        try:
            existing = os.stat(path) if path.exists() else None
            opened = (handle for handle in _users if existing and os.path.samestat(existing, os.fstat(handle)))
            handle = next(opened, -1)
            if handle < 0:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise explained(error, path, StoreError) from error
        _users[handle] += 1
        return handle


def _close(handle: int) -> None:
    with _claims_lock:
        _users[handle] -= 1
        if handle >= 0 and not _users[handle]:
            del _users[handle]
            os.close(handle)


def _lock_bytes(handle: int, block: Block, unlock: bool = False) -> None:
    """Lock the bytes of the lock file that belong to a block, or give them up; the system's error if it cannot."""
    if sys.platform != "win32":
        cell, (start, stop) = block
        action = fcntl.LOCK_UN if unlock else fcntl.LOCK_EX | fcntl.LOCK_NB
        fcntl.lockf(handle, action, stop - start, (int(cell[:10], 16) << LOCK_BITS) + start)


def _remove_shared(number: str) -> None:
    """Remove what joblib kept in shared memory for a run of this machine that was killed with all its processes."""
    for folder in {Path("/dev/shm"), Path(tempfile.gettempdir())}:
        for path in folder.glob(f"joblib_memmapping_folder_{number}_*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in folder.glob(f"sem.loky-{number}-*"):
            with contextlib.suppress(OSError):
                path.unlink()


def _stopped(number: str, host: str) -> str:
    """A note if the process is stopped, as far as /proc says so; else empty."""
    if host != socket.gethostname():
        return ""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
    return f" (which is stopped: kill -CONT {number} lets it go on)" if state == "T" else ""


_run_contents: dict[Url, tuple[bytes, float]] = {}
"""Objects of other runs: their content, and when it was first read. All `Leases` of a process share it, since a worker
process gets a new one with each unit."""


class Leases(WorkLocks):
    """Claims in a folder of an object store, as objects."""

    def __init__(self, folder: Url) -> None:
        super().__init__(folder)
        self.url, self.poll_seconds, self.run = folder, REMOTE_POLL_SECONDS, secrets.token_hex(8)

    def take(self, wanted: Sequence[Block]) -> list[bool]:
        rivals = self._rivals(wanted)
        free = [block for block in wanted if not rivals[block]]
        files.write_objects({self._object(block): b"" for block in free}, StoreError)
        self.held |= dict.fromkeys(free, -1)
        rivals |= self._rivals(free)
        # Two runs that claim a block at once would both withdraw: the one of the lower number lists the claims again
        # when the other has withdrawn.
        contested = [block for block in free if rivals[block] and min(rivals[block]) > self.run]
        if contested:
            time.sleep(WITHDRAW_SECONDS)
            rivals |= self._rivals(contested)
        self.drop(*(block for block in free if rivals[block]))
        return [block in self.held for block in wanted]

    def _release(self, block: Block, handle: int) -> None:
        files.remove(self._object(block), StoreError)

    @contextlib.contextmanager
    def registered(self) -> Iterator[None]:
        """List this run among those under way, and keep it alive, until the end."""
        run_object, ended = self.url / "runs" / self.run, threading.Event()
        text = f"process {os.getpid()} on {socket.gethostname()}"

        def beat() -> None:
            count = 0
            while not ended.wait(HEARTBEAT_SECONDS):
                count += 1
                with contextlib.suppress(StoreError):  # the network may come back
                    files.write_atomic(run_object, f"{text}, {count}\n".encode(), StoreError)

        files.write_atomic(run_object, f"{text}, 0\n".encode(), StoreError)
        thread = threading.Thread(target=beat, name="adadim-alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with contextlib.suppress(StoreError):
                files.remove(run_object, StoreError)

    def others(self) -> list[str]:
        runs = [run for run in files.names(self.url / "runs", StoreError) if run != self.run]
        alive = [content for run in runs if (content := self._content_if_alive(run)) is not None]
        return [content.decode("utf-8", "replace").partition(",")[0] for content in alive]

    def _object(self, block: Block) -> Url:
        cell, (start, stop) = block
        return self.url / "claims" / cell / f"{start:06d}-{stop:06d}-{self.run}"

    def _rivals(self, blocks: Sequence[Block]) -> dict[Block, set[str]]:
        """Other runs, alive, that claim a part of each block; removes the claims of dead runs."""
        claims: dict[str, list[tuple[int, int, str]]] = {}
        living: dict[str, bool] = {}
        for cell in {cell for cell, _ in blocks}:
            folder = self.url / "claims" / cell
            claims[cell] = []
            for name in files.names(folder, StoreError):
                match = CLAIM_NAME.fullmatch(name)
                if match is None or match[3] == self.run:
                    continue
                if match[3] not in living:
                    living[match[3]] = self._content_if_alive(match[3]) is not None
                if living[match[3]]:
                    claims[cell].append((int(match[1]), int(match[2]), match[3]))
                else:
                    files.remove(folder / name, StoreError)
        return {
            (cell, (start, stop)): {run for a, b, run in claims[cell] if a < stop and start < b}
            for cell, (start, stop) in blocks
        }

    def _content_if_alive(self, run: str) -> bytes | None:
        """The content of a run's object, if there is one that has changed lately; one that has not is removed."""
        run_object = self.url / "runs" / run
        try:
            content = files.read(run_object, StoreError)
        except StoreError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            _run_contents.pop(run_object, None)
            return None
        before, since = _run_contents.get(run_object, (b"", 0.0))
        if content != before:
            _run_contents[run_object] = (content, time.monotonic())
        elif time.monotonic() - since > LEASE_SECONDS:
            files.remove(run_object, StoreError)
            return None
        return content
