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
from zlib import crc32

import numpy as np

from adadim.agent.schema import connect, transaction
from adadim.checks import shown
from adadim.errors import DecisionError, FileError, InvalidValueError, UnknownDecisionError

__all__ = ["Log", "as_bytes", "as_matrix", "first_rows"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

BATCH = 20_000  # rows read at a time
STORED = "<f8"

REWARD = "r.seq, r.decision, r.time, r.reward, r.replaces, r.seal"
DECISION = "d.number, d.time, d.arm, d.offer, d.context, d.features, d.probability, d.policy, d.seal"
LATEST = f"""
    SELECT {REWARD}, {DECISION} FROM decisions d JOIN rewards r ON r.decision = d.number
    WHERE d.number > ? AND d.number <= ? AND NOT EXISTS (
        SELECT 1 FROM rewards n WHERE n.decision = r.decision AND n.replaces IS NOT NULL AND n.seq > r.seq)
    ORDER BY d.number LIMIT ?
"""
SINCE = f"""
    SELECT {REWARD}, {DECISION} FROM rewards r JOIN decisions d ON d.number = r.decision
    WHERE r.seq > ? ORDER BY r.seq LIMIT ?
"""
EVERY = f"""
    SELECT {REWARD}, {DECISION}, o.arms, o.features, o.digest
    FROM decisions d LEFT JOIN offers o ON o.id = d.offer
        LEFT JOIN rewards r ON r.seq = (SELECT max(seq) FROM rewards WHERE decision = d.number)
    WHERE d.number > ? ORDER BY d.number LIMIT ?
"""
# What cannot be, unless rows were lost or changed.
CONTRADICTIONS = {
    "rewards of no decision": """
        SELECT 1 FROM rewards WHERE decision NOT IN (SELECT number FROM decisions)""",
    "decisions that neither wait nor have a reward": """
        SELECT 1 FROM decisions WHERE policy IS NOT NULL AND number NOT IN (SELECT number FROM outstanding)
            AND number NOT IN (SELECT number FROM expired) AND number NOT IN (SELECT decision FROM rewards)""",
    "waiting decisions that are not there or have a reward": """
        SELECT 1 FROM outstanding o LEFT JOIN decisions d ON d.number = o.number
            WHERE d.time IS NOT o.time OR o.number IN (SELECT decision FROM rewards)""",
    "two first rewards of one decision": """
        SELECT 1 FROM rewards WHERE replaces IS NULL GROUP BY decision HAVING count(*) > 1""",
    "decisions out of count": """
        SELECT 1 FROM folded, (SELECT ifnull(max(number), 0) AS last, count(*) AS all_of_them FROM decisions) d
            WHERE ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'decisions'), 0) IS NOT max(upto, last)
            OR (SELECT count(*) FROM decisions WHERE number > upto) != max(last - upto, 0)""",
    "arms out of count": """
        SELECT 1 FROM (SELECT count(*) AS changes, ifnull(min(seq), 1) AS first, ifnull(max(seq), 0) AS last FROM arms)
            WHERE first != 1 OR last != changes""",
    "rewards out of count": """
        SELECT 1 WHERE ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'rewards'), 0) <
            max((SELECT ifnull(max(seq), 0) FROM rewards), (SELECT ifnull(max(seq), 0) FROM snapshot))""",
}
MOST = 2**62
SETTINGS = {"dim", "arms", "seed", "memory", "expire_after", "expired_reward"}
FOLDED = "sums of compacted decisions"
ADD_POLICY = "INSERT INTO policies (version, time, policy, levels, noise, seal) VALUES (?, ?, ?, ?, ?, ?)"
ADD_REWARD = "INSERT INTO rewards (seq, decision, time, reward, replaces, seal) VALUES (?, ?, ?, ?, ?, ?)"
ADD_DECISION = """
    INSERT INTO decisions (number, time, arm, offer, context, features, probability, policy, seal)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def as_bytes(features: Any) -> bytes:
    """Numbers as they are stored."""
    return np.ascontiguousarray(features, dtype=STORED).tobytes()


def as_matrix(stored: bytes, columns: int) -> FloatArray:
    """Rows of numbers that were stored one after the other."""
    return np.frombuffer(stored, dtype=STORED).reshape(-1, columns)


def seal(*values: Any) -> int:
    """Check value of a row, by which damage that SQLite does not see is noticed.

    Examples
    --------
    >>> seal(1, 0.5, None) == seal(1, 0.5, None), seal(1, 0.5, None) == seal(1, 0.75, None)
    (True, False)
    """
    check = 0
    for value in values:
        if isinstance(value, float):
            value += 0.0  # SQLite stores -0.0 as 0.0
        check = crc32(value if isinstance(value, bytes) else repr(value).encode(), check)
    return check


def sealed(*values: Any) -> tuple[Any, ...]:
    """A row with its seal."""
    return (*values, seal(*values))


def first_rows(
    connection: sqlite3.Connection, settings: Mapping[str, Any], policy: tuple[Any, ...], sums: bytes
) -> None:
    """Fill the tables of a new file: settings, the policy (time, table, levels, noise) and the sums of nothing."""
    rows = [sealed(key, json.dumps(value)) for key, value in settings.items()]
    connection.executemany("INSERT INTO settings (key, value, seal) VALUES (?, ?, ?)", rows)
    connection.execute(ADD_POLICY, _policy_row(1, *policy))
    connection.execute(
        "INSERT INTO folded (id, generation, upto, body, seal) VALUES (1, ?, ?, ?, ?)", sealed(0, 0, sums)
    )


def _policy_row(version: int, time: float, policy: str, levels: str | None, noise: float | None) -> tuple[Any, ...]:
    return sealed(version, float(time), policy, levels, None if noise is None else float(noise))


def _offer_digest(names: str, stored: bytes) -> bytes:
    return hashlib.blake2b(names.encode() + b"\0" + stored, digest_size=16).digest()


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
        except (sqlite3.DatabaseError, UnicodeDecodeError) as failure:  # its message may quote what is no text
            raise FileError(f"{self.path}: damaged ({failure}); restore it from a backup") from failure

    # Settings and policies

    def settings(self) -> dict[str, Any]:
        """What `Agent.create` was given."""
        rows = self._intact(self._rows("SELECT key, value, seal FROM settings"), "settings")
        found = {key: json.loads(value) for key, value in rows}
        if missing := SETTINGS - found.keys():
            raise self._damaged(f"the setting {min(missing)!r} is missing")
        return found

    def add_policy(self, time: float, policy: str, levels: str | None, noise: float | None) -> None:
        """Write down the policy that holds from now on."""
        self._run(ADD_POLICY, *_policy_row(self.policy_version() + 1, time, policy, levels, noise))

    def policy_version(self) -> int:
        """Number of the policy that holds."""
        found = self._value("SELECT max(version) FROM policies")
        if not isinstance(found, int):
            raise self._damaged("there is no policy")
        return found

    def policy(self) -> tuple[int, str, str | None, float | None]:
        """The policy that holds: its number, its table and levels as JSON, and the noise."""
        query = "SELECT version, time, policy, levels, noise, seal FROM policies ORDER BY version DESC LIMIT 1"
        version, _, policy, levels, noise = self._only(query, "policy")
        return version, policy, levels, noise

    # Decisions

    def last_number(self) -> int:
        """Number of the last decision."""
        return int(self._value("SELECT seq FROM sqlite_sequence WHERE name = 'decisions'") or 0)

    def offer(self, arms: Sequence[str], features: FloatArray) -> int:
        """Number of an offer, which is written if it is new."""
        names, stored = json.dumps(list(arms)), as_bytes(features)
        digest = _offer_digest(names, stored)
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
        number, stored = self.last_number() + 1, None if context is None else as_bytes(context)
        chance = None if probability is None else float(probability)
        self._run(ADD_DECISION, *sealed(number, float(time), arm, offer, stored, as_bytes(features), chance, policy))
        if policy is not None:
            self._run("INSERT INTO outstanding (number, time) VALUES (?, ?)", number, float(time))
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
            self._run(ADD_REWARD, *sealed(self.last_reward() + 1, number, float(time), reward, None))

    # Rewards

    def is_outstanding(self, number: int) -> bool:
        """Whether a decision waits for its reward."""
        return self._row("SELECT 1 FROM outstanding WHERE number = ?", number) is not None

    def is_expired(self, number: int) -> bool:
        """Whether a decision waited too long for its reward."""
        return self._row("SELECT 1 FROM expired WHERE number = ?", number) is not None

    def reward_of(self, number: int) -> float | None:
        """The reward of a decision that is in the log, None if it has none; a `DecisionError` if it is not there."""
        rows = self._rows(f"SELECT {REWARD} FROM rewards r WHERE decision = ? ORDER BY seq DESC LIMIT 1", number)
        for _, _, _, reward, _ in self._intact(rows, "reward"):
            return float(reward)
        if self._row("SELECT 1 FROM decisions WHERE number = ?", number) is None:
            if 1 <= number <= self.last_number():
                raise DecisionError(f"decision {number} was folded by compact(): its reward cannot change any more")
            raise UnknownDecisionError(f"there is no decision {number}; the last one is {self.last_number()}")
        return None

    def add_reward(self, number: int, time: float, reward: float, replaces: float | None = None) -> None:
        """Write a reward down."""
        self._run(ADD_REWARD, *sealed(self.last_reward() + 1, number, float(time), reward, replaces))
        if replaces is None:
            self._run("DELETE FROM outstanding WHERE number = ?", number)

    def last_reward(self) -> int:
        """Number of the last row of rewards."""
        return int(self._value("SELECT seq FROM sqlite_sequence WHERE name = 'rewards'") or 0)

    def rewards_since(self, seq: int) -> Iterator[list[Any]]:
        """Rows (seq, decision, reward, replaced reward, features, own) after `seq`, in batches."""
        while rows := self._rows(SINCE, seq, BATCH):
            seq = self._next(seq, rows[-1][0])
            yield self._answered(rows)

    def latest_rewards(self, upto: int = MOST) -> Iterator[list[Any]]:
        """The same for what holds now: one row for each decision up to a number that has a reward."""
        number = 0
        while rows := self._rows(LATEST, number, upto, BATCH):
            number = self._next(number, rows[-1][1])
            yield [(seq, n, reward, None, x, own) for seq, n, reward, _, x, own in self._answered(rows)]

    def _answered(self, rows: list[Any]) -> list[Any]:
        rewards = self._intact([row[:6] for row in rows], "reward")
        decisions = self._intact([row[6:] for row in rows], "decision")
        return [
            (seq, number, reward, replaces, row[5], row[7] is not None)
            for (seq, number, _, reward, replaces), row in zip(rewards, decisions, strict=True)
        ]

    # Logs of other systems, and this one for others

    def knows_log(self, digest: bytes) -> bool:
        """Whether a log was learned before."""
        return self._row("SELECT 1 FROM learned WHERE digest = ?", digest) is not None

    def add_log(self, digest: bytes, now: float, rows: Iterable[tuple[Any, ...]]) -> int:
        """Write down what another system did: features, reward, arm, probability and time of each decision."""
        first, seq = self.last_number() + 1, self.last_reward() + 1
        decisions, rewards = [], []
        for i, (x, reward, arm, probability, time) in enumerate(rows):
            made = float(now if time is None else time)
            decisions.append(sealed(first + i, made, arm, None, None, as_bytes(x), probability, None))
            rewards.append(sealed(seq + i, first + i, float(now), reward, None))
        self._connection.executemany(ADD_DECISION, decisions)
        self._connection.executemany(ADD_REWARD, rewards)
        self._run("INSERT INTO learned (digest, time, rows) VALUES (?, ?, ?)", digest, now, len(rewards))
        return len(rewards)

    def every_decision(self) -> Iterator[list[Any]]:
        """Rows of all decisions with what was offered and their rewards, in batches."""
        number = 0
        while rows := self._rows(EVERY, number, BATCH // 10):  # these are long rows
            number = self._next(number, rows[-1][6])
            yield [self._exported(row) for row in rows]

    def _exported(self, row: Any) -> tuple[Any, ...]:
        told, made, (arms, offered, digest) = row[:6], row[6:15], row[15:]
        reward = None if told[0] is None else self._intact([told], "reward")[0][3]
        (number, time, arm, offer, context, features, probability, policy) = self._intact([made], "decision")[0]
        if offer is not None and (arms is None or _offer_digest(arms, offered) != digest):
            raise self._damaged(f"what was offered in decision {number} is not what was written")
        return number, time, arm, probability, policy, features, context, arms, offered, reward

    def check(self) -> None:
        """Raise a `FileError` if SQLite finds the file damaged, or its tables contradict each other."""
        problem = self._value("PRAGMA quick_check(1)")
        if problem != "ok":
            raise self._damaged(str(problem))
        for what, query in CONTRADICTIONS.items():
            if self._row(f"{query} LIMIT 1") is not None:
                raise self._damaged(what)

    # The sums

    def folded(self) -> tuple[int, int, bytes]:
        """How often the log was compacted, up to which decision, and the sums over what is gone."""
        generation, upto, body = self._only("SELECT generation, upto, body, seal FROM folded", FOLDED)
        return generation, upto, body

    def generation(self) -> int:
        """How often the log was compacted."""
        found = self._value("SELECT generation FROM folded")
        if not isinstance(found, int):
            raise self._damaged(f"the {FOLDED} cannot be read")
        return found

    def snapshot(self) -> tuple[int, int, bytes] | None:
        """The sums that were kept last: after how many compactions, up to which reward, and they; None if damaged."""
        row = self._row("SELECT generation, seq, body, seal FROM snapshot")
        return None if row is None or seal(*row[:-1]) != row[-1] else (*row[:-1],)

    def snapshot_place(self) -> tuple[int, int]:
        """Compactions and reward of the sums that were kept last."""
        row = self._row("SELECT generation, seq FROM snapshot")
        return (-1, -1) if row is None else (int(row[0]), int(row[1]))

    def keep(self, generation: int, seq: int, body: bytes) -> None:
        """Keep the sums over the log up to a reward."""
        query = "REPLACE INTO snapshot (id, generation, seq, body, seal) VALUES (1, ?, ?, ?, ?)"
        self._run(query, *sealed(generation, seq, body))

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
        generation, before, _ = self.folded()
        values = sealed(generation + 1, max(before, upto), body)
        self._run("UPDATE folded SET generation = ?, upto = ?, body = ?, seal = ?", *values)
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
        query = "SELECT seq, time, name, features, cost, state, seal FROM arms WHERE seq > ? ORDER BY seq"
        return [(row[0], *row[2:]) for row in self._intact(self._rows(query, seq), "arm")]

    def add_arm(self, time: float, name: str, features: bytes, cost: float, state: str) -> None:
        """Write down what holds for an arm from now on."""
        seq = int(self._value("SELECT ifnull(max(seq), 0) FROM arms")) + 1
        query = "INSERT INTO arms (seq, time, name, features, cost, state, seal) VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._run(query, *sealed(seq, float(time), name, features, float(cost), state))

    def _intact(self, rows: Iterable[Any], what: str) -> list[Any]:
        """Rows without their seals, which must fit."""
        found = []
        for *row, mark in rows:
            if seal(*row) != mark:
                raise self._damaged(f"a row of the table of {what}s is not what was written: {shown(row[0])}")
            found.append(row)
        return found

    def _only(self, query: str, what: str) -> Any:
        row = self._row(query)
        if row is None or seal(*row[:-1]) != row[-1]:
            raise self._damaged(f"the {what} cannot be read")
        return row[:-1]

    def _next(self, before: int, found: Any) -> int:
        """Where to read on: always further, or a damaged tree would be read for ever."""
        if not isinstance(found, int) or found <= before:
            raise self._damaged("rows are out of order")
        return found

    def _damaged(self, what: str) -> FileError:
        return FileError(f"{self.path}: damaged ({what}); restore it from a backup")

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
