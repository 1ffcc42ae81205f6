"""The history of an agent, as a report shows it: read without a lock, and without being able to write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from adadim.agent.log import Round
from adadim.agent.reading import Reader, TimedReward
from adadim.agent.statements import Query, where
from adadim.agent.stores import open_log
from adadim.core.arrays import FloatArray

RECENT = where("decisions", "policy IS NOT NULL ORDER BY number DESC LIMIT ?")
LAST_OFFERED = Query(
    {"d": "decisions", "o": "offers"},
    lambda sql: (
        f"""
        FROM {sql.rows("decisions")} d {sql.join("offers", "o", "o.id = d.offer", outer=True)}
        WHERE d.policy IS NOT NULL ORDER BY d.number DESC LIMIT 1"""
    ),
)


class ArmTaken(NamedTuple):
    """An arm that the agent chose, and the context if it is the first decision in it: a slate has several."""

    arm: str
    context: FloatArray | None


class History:
    """A reader of the log of an agent, which cannot write; all else is called within `transaction`.

    Examples
    --------
    >>> import adadim, pathlib, tempfile
    >>> from adadim.agent.history import History
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "a.db")
    >>> with adadim.Agent.create(path, dim=1) as agent:
    ...     history = History(path)
    ...     first = agent.ask({"a": [1.0]})
    ...     with history.transaction():
    ...         [choice.arm for choice in history.choices(10)]
    ...     history.close()
    ['a']
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path) -> None:
        self._log = open_log(path, write=False)
        self._reader = Reader(self._log)
        self.close = self._log.close

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A context in which one state of the log is seen."""
        with self._log.transaction(write=False):
            self._place = self._log.place()
            yield

    @property
    def last_reward(self) -> int:
        """The last row of rewards."""
        return self._place.reward

    def rewards(self, since: int) -> Iterator[list[TimedReward]]:
        """The rewards of the agent's decisions after row `since`, in their order, in batches."""
        return self._reader.timed_rewards(since)

    def choices(self, most: int) -> list[ArmTaken]:
        """What the agent chose in its last decisions, at most `most`, the latest first."""
        return [
            ArmTaken(
                row.arm,
                None if row.context is None or row.slate not in (None, row.number) else self._reader.context(row),
            )
            for row in self._log.select(RECENT, most)
        ]

    def last_round(self) -> Round | None:
        """The round of the agent's last decision; None if there is none, or its offer was not kept."""
        return next((self._reader.round(*found) for found in self._log.select(LAST_OFFERED)), None)
