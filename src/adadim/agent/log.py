"""The log of an agent in SQLite: decisions and rewards are only ever added. All SQL on them is here, always bound."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adadim.agent.schema import connect, transaction
from adadim.errors import DecisionError, FileError, InvalidValueError, UnknownDecisionError

__all__ = ["Log", "as_bytes", "as_matrix", "first_rows"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

BATCH = 20_000  # rows read at a time
STORED = "<f8"

LATEST = """
    SELECT r.seq, r.decision, r.reward, NULL, d.features, d.policy IS NOT NULL
    FROM decisions d JOIN rewards r ON r.decision = d.number
    WHERE d.number > ? AND d.number <= ? AND NOT EXISTS (
        SELECT 1 FROM rewards n WHERE n.decision = r.decision AND n.replaces IS NOT NULL AND n.seq > r.seq)
    ORDER BY d.number LIMIT ?
"""
SINCE = """
    SELECT r.seq, r.decision, r.reward, r.replaces, d.features, d.policy IS NOT NULL
    FROM rewards r JOIN decisions d ON d.number = r.decision
    WHERE r.seq > ? ORDER BY r.seq LIMIT ?
"""
EVERY = """
    SELECT d.number, d.time, d.arm, d.probability, d.policy, d.features, d.context, o.arms, o.features,
        (SELECT reward FROM rewards r WHERE r.decision = d.number ORDER BY seq DESC LIMIT 1)
    FROM decisions d LEFT JOIN offers o ON o.id = d.offer WHERE d.number > ? ORDER BY d.number LIMIT ?
"""
MOST = 2**62


def as_bytes(features: Any) -> bytes:
    """Numbers as they are stored."""
    return np.ascontiguousarray(features, dtype=STORED).tobytes()


def as_matrix(stored: bytes, columns: int) -> FloatArray:
    """Rows of numbers that were stored one after the other."""
    return np.frombuffer(stored, dtype=STORED).reshape(-1, columns)


def first_rows(
    connection: sqlite3.Connection, settings: Mapping[str, Any], policy: tuple[Any, ...], sums: bytes
) -> None:
    """Fill the tables of a new file: settings, the policy (time, table, levels, noise) and the sums of nothing."""
    rows = [(key, json.dumps(value)) for key, value in settings.items()]
    connection.executemany("INSERT INTO settings (key, value) VALUES (?, ?)", rows)
    connection.execute("INSERT INTO policies (time, policy, levels, noise) VALUES (?, ?, ?, ?)", policy)
    connection.execute("INSERT INTO folded (id, generation, upto, body) VALUES (1, 0, 0, ?)", (sums,))


class Log:
    """An agent's file, opened.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = connect(path)
        self._process = os.getpid()

    def close(self) -> None:
        """Let go of the file."""
        if self._process == os.getpid():  # a child must leave the parent's locks alone
            self._connection.close()

    @contextlib.contextmanager
    def transaction(self, write: bool = True) -> Iterator[None]:
        """All or nothing; what SQLite complains about becomes a `FileError`."""
        if self._process != os.getpid():
            raise InvalidValueError(f"{self.path} was opened in another process; call Agent.open in this one")
        try:
            with transaction(self._connection, write):
                yield
        except sqlite3.OperationalError as failure:
            if "locked" in str(failure) or "busy" in str(failure):
                raise FileError(f"{self.path}: another process has been writing for too long; try again") from failure
            raise FileError(f"{self.path}: cannot be read or written ({failure})") from failure
        except sqlite3.ProgrammingError as failure:
            raise InvalidValueError(f"{self.path}: the agent is closed; open it again with Agent.open") from failure
        except sqlite3.DatabaseError as failure:
            raise FileError(f"{self.path}: damaged ({failure}); restore it from a backup") from failure

    # Settings and policies

    def settings(self) -> dict[str, Any]:
        """What `Agent.create` was given."""
        return {key: json.loads(value) for key, value in self._rows("SELECT key, value FROM settings")}

    def add_policy(self, time: float, policy: str, levels: str | None, noise: float | None) -> None:
        """Write down the policy that holds from now on."""
        self._run("INSERT INTO policies (time, policy, levels, noise) VALUES (?, ?, ?, ?)", time, policy, levels, noise)

    def policy_version(self) -> int:
        """Number of the policy that holds."""
        return int(self._value("SELECT max(version) FROM policies"))

    def policy(self) -> tuple[int, str, str | None, float | None]:
        """The policy that holds: its number, its table and levels as JSON, and the noise."""
        row = self._row("SELECT version, policy, levels, noise FROM policies ORDER BY version DESC LIMIT 1")
        return (*row,)

    # Decisions

    def last_number(self) -> int:
        """Number of the last decision."""
        return int(self._value("SELECT seq FROM sqlite_sequence WHERE name = 'decisions'") or 0)

    def offer(self, arms: Sequence[str], features: FloatArray) -> int:
        """Number of an offer, which is written if it is new."""
        names, stored = json.dumps(list(arms)), as_bytes(features)
        digest = hashlib.blake2b(names.encode() + b"\0" + stored, digest_size=16).digest()
        found = self._value("SELECT id FROM offers WHERE digest = ?", digest)
        if found is None:
            found = self._run("INSERT INTO offers (digest, arms, features) VALUES (?, ?, ?)", digest, names, stored)
        return int(found)

    def add_decision(
        self,
        time: float,
        arm: str | None,
        features: FloatArray,
        *,
        offer: int | None = None,
        context: FloatArray | None = None,
        probability: float | None = None,
        policy: int | None = None,
    ) -> int:
        """Write a decision down; gives its number. Without a policy it is another system's."""
        stored = None if context is None else as_bytes(context)
        number = self._run(
            "INSERT INTO decisions (time, arm, offer, context, features, probability, policy) VALUES (?,?,?,?,?,?,?)",
            *(time, arm, offer, stored, as_bytes(features), probability, policy),
        )
        if policy is not None:
            self._run("INSERT INTO outstanding (number, time) VALUES (?, ?)", number, time)
        return number

    def outstanding(self) -> int:
        """How many decisions wait for their reward."""
        return int(self._value("SELECT count(*) FROM outstanding"))

    def expired(self) -> int:
        """How many decisions waited too long."""
        return int(self._value("SELECT count(*) FROM expired"))

    def overdue(self, before: float) -> list[int]:
        """Decisions made before that time that still wait for their reward."""
        oldest = self._row("SELECT time FROM outstanding ORDER BY number LIMIT 1")
        if oldest is None or oldest[0] >= before:
            return []
        return [row[0] for row in self._rows("SELECT number FROM outstanding WHERE time < ?", before)]

    def expire(self, number: int, time: float, reward: float | None) -> None:
        """Wait no longer for the reward of a decision; it may stand for one."""
        self._run("DELETE FROM outstanding WHERE number = ?", number)
        self._run("INSERT INTO expired (number, time) VALUES (?, ?)", number, time)
        if reward is not None:
            self._run("INSERT INTO rewards (decision, time, reward) VALUES (?, ?, ?)", number, time, reward)

    # Rewards

    def is_outstanding(self, number: int) -> bool:
        """Whether a decision waits for its reward."""
        return self._row("SELECT 1 FROM outstanding WHERE number = ?", number) is not None

    def is_expired(self, number: int) -> bool:
        """Whether a decision waited too long for its reward."""
        return self._row("SELECT 1 FROM expired WHERE number = ?", number) is not None

    def reward_of(self, number: int) -> float | None:
        """The reward of a decision that is in the log, None if it has none; a `DecisionError` if it is not there."""
        row = self._row("SELECT reward FROM rewards WHERE decision = ? ORDER BY seq DESC LIMIT 1", number)
        if row is not None:
            return float(row[0])
        if self._row("SELECT 1 FROM decisions WHERE number = ?", number) is None:
            if 1 <= number <= self.last_number():
                raise DecisionError(f"decision {number} was folded by compact(): its reward cannot change any more")
            raise UnknownDecisionError(f"there is no decision {number}; the last one is {self.last_number()}")
        return None

    def add_reward(self, number: int, time: float, reward: float, replaces: float | None = None) -> None:
        """Write a reward down."""
        values = (number, time, reward, replaces)
        self._run("INSERT INTO rewards (decision, time, reward, replaces) VALUES (?, ?, ?, ?)", *values)
        if replaces is None:
            self._run("DELETE FROM outstanding WHERE number = ?", number)

    def last_reward(self) -> int:
        """Number of the last row of rewards."""
        return int(self._value("SELECT seq FROM sqlite_sequence WHERE name = 'rewards'") or 0)

    def rewards_since(self, seq: int) -> Iterator[list[Any]]:
        """Rows (seq, decision, reward, replaced reward, features, own) after `seq`, in batches."""
        while rows := self._rows(SINCE, seq, BATCH):
            yield rows
            seq = rows[-1][0]

    def latest_rewards(self, upto: int = MOST) -> Iterator[list[Any]]:
        """The same for what holds now: one row for each decision up to a number that has a reward."""
        number = 0
        while rows := self._rows(LATEST, number, upto, BATCH):
            yield rows
            number = rows[-1][1]

    # Logs of other systems, and this one for others

    def knows_log(self, digest: bytes) -> bool:
        """Whether a log was learned before."""
        return self._row("SELECT 1 FROM learned WHERE digest = ?", digest) is not None

    def add_log(self, digest: bytes, now: float, rows: Iterable[tuple[Any, ...]]) -> int:
        """Write down what another system did: features, reward, arm, probability and time of each decision."""
        first = self.last_number() + 1
        decisions, rewards = [], []
        for number, (x, reward, arm, probability, time) in enumerate(rows, first):
            decisions.append((number, now if time is None else time, arm, as_bytes(x), probability))
            rewards.append((number, now, reward))
        self._connection.executemany(
            "INSERT INTO decisions (number, time, arm, features, probability) VALUES (?, ?, ?, ?, ?)", decisions
        )
        self._connection.executemany("INSERT INTO rewards (decision, time, reward) VALUES (?, ?, ?)", rewards)
        self._run("INSERT INTO learned (digest, time, rows) VALUES (?, ?, ?)", digest, now, len(rewards))
        return len(rewards)

    def every_decision(self) -> Iterator[list[Any]]:
        """Rows of all decisions with what was offered and their rewards, in batches."""
        number = 0
        while rows := self._rows(EVERY, number, BATCH // 10):  # these are long rows
            yield rows
            number = rows[-1][0]

    # The sums

    def folded(self) -> tuple[int, int, bytes]:
        """How often the log was compacted, up to which decision, and the sums over what is gone."""
        return (*self._row("SELECT generation, upto, body FROM folded"),)

    def generation(self) -> int:
        """How often the log was compacted."""
        return int(self._value("SELECT generation FROM folded"))

    def snapshot(self) -> tuple[int, int, bytes] | None:
        """The sums that were kept last: after how many compactions, up to which reward, and they."""
        row = self._row("SELECT generation, seq, body FROM snapshot")
        return None if row is None else (*row,)

    def snapshot_place(self) -> tuple[int, int]:
        """Compactions and reward of the sums that were kept last."""
        row = self._row("SELECT generation, seq FROM snapshot")
        return (-1, -1) if row is None else (int(row[0]), int(row[1]))

    def keep(self, generation: int, seq: int, body: bytes) -> None:
        """Keep the sums over the log up to a reward."""
        self._run("REPLACE INTO snapshot (id, generation, seq, body) VALUES (1, ?, ?, ?)", generation, seq, body)

    def last_before(self, time: float) -> int:
        """The last decision before the first one that was made at `time` or later."""
        first = self._value("SELECT number FROM decisions WHERE time >= ? ORDER BY number LIMIT 1", time)
        return self.last_number() if first is None else int(first) - 1

    def fold(self, upto: int, body: bytes) -> int:
        """Drop the decisions up to a number that wait for nothing, whose sums are in `body`; gives how many."""
        gone = self._run_count(
            "DELETE FROM decisions WHERE number <= ? AND number NOT IN (SELECT number FROM outstanding)", upto
        )
        self._run("DELETE FROM rewards WHERE decision <= ?", upto)
        self._run("UPDATE folded SET generation = generation + 1, upto = max(upto, ?), body = ?", upto, body)
        return gone

    def drop_unused_offers(self) -> None:
        """Drop what was offered in decisions that are gone."""
        self._run("DELETE FROM offers WHERE id NOT IN (SELECT offer FROM decisions WHERE offer IS NOT NULL)")

    def shrink(self) -> None:
        """Give the room of what was dropped back to the system."""
        with contextlib.suppress(sqlite3.OperationalError):  # another process is writing: next time
            # `execute` would stop after the first page.
            self._connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(PASSIVE);")

    # Arms

    def arms_since(self, seq: int) -> list[Any]:
        """Changes (seq, name, features, cost, state) of arms after `seq`."""
        return self._rows("SELECT seq, name, features, cost, state FROM arms WHERE seq > ? ORDER BY seq", seq)

    def add_arm(self, time: float, name: str, features: bytes, cost: float, state: str) -> None:
        """Write down what holds for an arm from now on."""
        values = (time, name, features, cost, state)
        self._run("INSERT INTO arms (time, name, features, cost, state) VALUES (?, ?, ?, ?, ?)", *values)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self._connection.execute(query, values).fetchall()

    def _row(self, query: str, *values: Any) -> Any:
        return self._connection.execute(query, values).fetchone()

    def _value(self, query: str, *values: Any) -> Any:
        row = self._row(query, *values)
        return None if row is None else row[0]

    def _run(self, query: str, *values: Any) -> int:
        return int(self._connection.execute(query, values).lastrowid or 0)

    def _run_count(self, query: str, *values: Any) -> int:
        return int(self._connection.execute(query, values).rowcount)
