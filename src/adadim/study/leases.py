"""Who works in a results folder of an object store, where there are no locks.

A run puts an object ``runs/RUN`` and writes it anew every few seconds. For a block that it is going to compute it puts
``claims/CELL/START-STOP-RUN``, and then looks who else claims a part of the block: if a run that is alive does, it
takes its own claim back. Each looks after it has put, and stores list what was put before, so never do both go on.
A run whose object has not changed for `LEASE` seconds is dead, and its claims count for nothing. The seconds are those
of whoever looks, so clocks need not agree.

Should a run that was taken for dead wake up, a block is computed twice, with the same bytes.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from adadim import objects
from adadim.errors import StoreError
from adadim.files import Url
from adadim.study.locks import Block, Claims

__all__ = ["Leases"]

LEASE, BEAT = 30.0, 5.0  # seconds
PAUSE = 1.0  # seconds in which another run, having seen a claim of ours, takes back its own
CLAIM = re.compile(r"(\d{6,10})-(\d{6,10})-([0-9a-f]{16})")

_seen: dict[Url, tuple[bytes, float]] = {}
"""Objects of other runs: what they held, and since when."""


class Leases:
    """Claims as objects; the counterpart of `Locks`.

    Parameters
    ----------
    folder : Url
        The results folder.
    """

    def __init__(self, folder: Url) -> None:
        self.folder = folder
        self.run = secrets.token_hex(8)

    @contextlib.contextmanager
    def claim(self, cell: str, start: int, stop: int) -> Iterator[bool]:
        """Hold the right to compute a block; gives False if another run is computing a part of it."""
        with self.claims() as claims:
            yield claims.take([(cell, start, stop)])[0]

    @contextlib.contextmanager
    def claims(self) -> Iterator[Claims]:
        """Claim blocks and give them up one by one."""
        held = _Held(self.folder, self.run)
        try:
            yield held
        finally:
            held.drop_all()

    @contextlib.contextmanager
    def exclusive(self, waiting: Callable[[float], None]) -> Iterator[None]:
        """Nothing to hold: the only file that runs share is the manifest, which is put whole."""
        yield

    @contextlib.contextmanager
    def registered(self, waiting: Callable[[float], None]) -> Iterator[None]:
        """Be listed among the runs, and alive, until this ends."""
        own, ended = _run_object(self.folder, self.run), threading.Event()
        objects.write(own, self._beat(0), StoreError)
        thread = threading.Thread(target=self._beats, args=(own, ended), name="adadim-alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with contextlib.suppress(StoreError):
                objects.remove(own, StoreError)

    def others(self) -> str:
        """The other runs that are under way, as text."""
        found = [run for run in objects.names(self.folder / "runs", StoreError) if run != self.run]
        alive = [content for run in found if (content := _alive(self.folder, run)) is not None]
        named = [content.decode("utf-8", "replace").partition(",")[0] for content in alive]
        return " and ".join(named) or "another process"

    def _beat(self, count: int) -> bytes:
        return f"process {os.getpid()} on {socket.gethostname()}, {count}\n".encode()

    def _beats(self, own: Url, ended: threading.Event) -> None:
        count = 0
        while not ended.wait(BEAT):
            count += 1
            with contextlib.suppress(StoreError):  # the network may come back
                objects.write(own, self._beat(count), StoreError)


class _Held:
    """Claims of one run as objects."""

    def __init__(self, folder: Url, run: str) -> None:
        self._folder, self._run = folder, run
        self._blocks: set[Block] = set()

    def take(self, wanted: Sequence[Block]) -> list[bool]:
        rivals = self._rivals(wanted)
        free = [block for block in wanted if not rivals[block]]
        objects.write_all({self._object(block): b"" for block in free}, StoreError)
        self._blocks.update(free)
        rivals |= self._rivals(free)
        # Two runs that meet would both give way: the one of the lower number looks again when the other has done so.
        met = [block for block in free if rivals[block] and min(rivals[block]) > self._run]
        if met:
            time.sleep(PAUSE)
            rivals |= self._rivals(met)
        for block in free:
            if rivals[block]:
                self.drop(block)
        return [block in self._blocks for block in wanted]

    def drop(self, block: Block) -> None:
        self._blocks.discard(block)
        objects.remove(self._object(block), StoreError)

    def drop_all(self) -> None:
        for block in list(self._blocks):
            with contextlib.suppress(StoreError):
                self.drop(block)

    def _object(self, block: Block) -> Url:
        cell, start, stop = block
        return self._folder / "claims" / cell / f"{start:06d}-{stop:06d}-{self._run}"

    def _rivals(self, blocks: Sequence[Block]) -> dict[Block, set[str]]:
        """Other runs, alive, that claim a part of each block; what the dead left is removed."""
        claims: dict[str, list[tuple[int, int, str]]] = {}
        living: dict[str, bool] = {}
        for cell in {cell for cell, _, _ in blocks}:
            folder = self._folder / "claims" / cell
            claims[cell] = []
            for name in objects.names(folder, StoreError):
                found = CLAIM.fullmatch(name)
                if found is None or found[3] == self._run:
                    continue
                if found[3] not in living:
                    living[found[3]] = _alive(self._folder, found[3]) is not None
                if living[found[3]]:
                    claims[cell].append((int(found[1]), int(found[2]), found[3]))
                else:
                    objects.remove(folder / name, StoreError)
        return {
            (cell, start, stop): {run for a, b, run in claims[cell] if a < stop and start < b}
            for cell, start, stop in blocks
        }


def _run_object(folder: Url, run: str) -> Url:
    return folder / "runs" / run


def _alive(folder: Url, run: str) -> bytes | None:
    """What the object of a run holds, if it is there and has changed lately; if it has not, it is removed."""
    own = _run_object(folder, run)
    try:
        content = objects.read(own, StoreError)
    except StoreError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        _seen.pop(own, None)
        return None
    before, since = _seen.get(own, (b"", 0.0))
    if content != before:
        _seen[own] = (content, time.monotonic())
    elif time.monotonic() - since > LEASE:
        objects.remove(own, StoreError)
        return None
    return content
