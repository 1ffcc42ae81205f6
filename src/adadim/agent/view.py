"""An agent's file as one process sees it: all that is in it, as of the last look."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from adadim.agent.arms import Catalogue
from adadim.agent.decider import Decider
from adadim.agent.file import File
from adadim.agent.inputs import vector
from adadim.agent.log import Log
from adadim.agent.model import Model
from adadim.agent.policy import Plugins
from adadim.agent.rounds import Round, from_catalogue, given
from adadim.agent.settings import Settings
from adadim.agent.snapshots import Snapshots
from adadim.errors import AdadimError

__all__ = ["View"]


class View:
    """What a file holds, and the number of its last decision; `expire` is called in a transaction of the file."""

    def __init__(self, file: File, plugins: Plugins) -> None:
        self.file = file
        with file.transaction(write=False):
            self.settings = Settings.read(file)
        self.log, self.snapshots = Log(file), Snapshots(file, self.settings)
        self.model = Model(self.log, self.snapshots, self.settings)
        self.catalogue = Catalogue(file, self.settings.dim)
        self.decider = Decider(file, self.model, self.settings, plugins)
        self.look()

    def look(self, now: float | None = None) -> None:
        """Take in what this and other processes wrote since the last look, after what is overdue `now` has expired."""
        if now is not None and self.settings.expire_after is not None:
            with self.file.transaction():
                self.expire(now)
        with self.file.transaction(write=False):
            self.model.look()
            self.catalogue.look()
            self.decider.look()
            self.last = self.model.place.number

    def expire(self, now: float) -> None:
        """Let decisions expire that have waited too long."""
        after = self.settings.expire_after
        if after is not None:
            self.log.expire(now - after, now, self.settings.expired_reward)

    def round(self, arms: Any, context: Any, costs: Any = None, now: float | None = None) -> Round:
        """What is asked, by the latest look; arms that come with their features are checked before that."""
        return self.rounds(arms, [None if context is None else vector(context, "context")], costs, now)[0]

    def rounds(self, arms: Any, contexts: list[Any], costs: Any = None, now: float | None = None) -> list[Round]:
        """The same for one round in each of several contexts, already checked."""
        before = contexts[0]
        if isinstance(arms, Mapping):
            asked = given(arms, before, costs, self.settings).in_contexts(contexts)
            self.look(now)
            return asked
        self.look(now)
        return from_catalogue(self.catalogue, arms, before, costs, self.settings).in_contexts(contexts)

    def status(self) -> dict[str, Any]:
        """How things stand, as `Agent.status` says."""
        sums, arms = self.model.sums, self.catalogue.counts()
        with self.file.transaction(write=False):
            (waiting, expired), compacted = self.log.waiting(), self.snapshots.compacted()
        return {
            "path": str(self.file.path),
            "decisions": self.last - sums.learned,
            "rewards": sums.answered,
            "outstanding": waiting,
            "expired": expired,
            "learned": sums.learned,
            "compacted": compacted,
            "arms": arms["active"],
            "masked": arms["masked"],
            "retired": arms["retired"],
            "policy": repr(self.decider.policy),
            "policy_version": self.decider.version,
            "dim": self.settings.dim,
            "memory": self.settings.memory,
            "bytes": self.file.path.stat().st_size,
        }

    def compact(self, before: float) -> int:
        """Fold the decisions made before a time, in portions, so that others can write in between; gives how many."""
        with self.file.transaction(write=False):
            portions, gone = self.model.portions(before), 0
        for upto in portions:
            with self.file.transaction():
                gone += self.model.fold(upto)
        with self.file.transaction():
            self.log.drop_unused_offers()
        self.file.shrink()
        return gone

    def close(self) -> None:
        """Keep the model in the file, if it can be written, and let go of it; once more does no harm."""
        with suppress(AdadimError), self.file.transaction():
            self.model.look()
            self.model.keep_if_due()
        self.file.close()
