"""The threads that work with the agent, so that the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from adadim.agent import Agent
from adadim.agent.watch import Watch

__all__ = ["Desk"]

T = TypeVar("T")


class Desk:
    """The agent of a file in a thread of its own, which does one thing after the other, and in another its reader."""

    def __init__(self, path: str | Path) -> None:
        self.name = Path(path).name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agent")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="watch")
        try:
            self._agent = self._thread.submit(Agent.open, path).result()
            self._watch = self._reader.submit(Watch, Path(path)).result()
        except BaseException:
            self._thread.shutdown()
            self._reader.shutdown()
            raise

    async def do(self, work: Callable[[Agent], T]) -> T:
        """What `work` makes of the agent; it is done to its end even if the client leaves."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._agent)

    async def watch(self, work: Callable[[Watch], T]) -> T:
        """What `work` reads in the file, while the agent goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, work, self._watch)

    def close(self) -> None:
        """Finish what was begun, and close the agent."""
        for thread, opened in ((self._thread, self._agent), (self._reader, self._watch)):
            thread.submit(opened.close).result()
            thread.shutdown()
