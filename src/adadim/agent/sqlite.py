"""A log in an SQLite file: its tables, how files of earlier versions get them, its queries, and damage to it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zlib import compress, crc32, decompress
from zlib import error as CompressionError

import numpy as np

from adadim.agent.log import (
    NOTHING,
    Answer,
    Arm,
    ArmVersions,
    Counts,
    DayRewards,
    Decision,
    Entries,
    FloatArray,
    Found,
    Kind,
    Log,
    Place,
    PolicyRow,
    Reward,
    Round,
    Settings,
    Snapshot,
    as_bytes,
    as_matrix,
    as_vector,
    padded,
)
from adadim.core.checks import shown
from adadim.core.files import explained, sync_folder
from adadim.errors import AdadimError, FileError, InvalidValueError

APPLICATION = 0x61644167  # "adAg": what makes a SQLite file an agent's
THERE = "exists already; open it with Agent.open, or choose another name"
BUSY_SECONDS = 30.0  # to wait for another process that is writing
BATCH = 20_000  # rows read at a time
FOLDED = "sums of compacted decisions"
COMPRESSION = 1  # zlib's quickest
SAMPLE = 1024  # bytes by which to see whether compressing the rest is worth its time
WORTHWHILE = 0.9  # what compression must leave of the sample at most

LOG = """
-- A seal is a checksum of the rest of its row: SQLite does not notice every flipped bit.
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL, seal INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE policies (
    version INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL,
    policy TEXT NOT NULL, levels TEXT, noise REAL, seal INTEGER NOT NULL
);
-- What was offered: names of the arms and their features (float64, row by row), each distinct offer once.
CREATE TABLE offers (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, arms TEXT NOT NULL, features BLOB NOT NULL);
-- `features` are those of the arm chosen, after the context; `policy` is null for what another system decided.
CREATE TABLE decisions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, arm TEXT, offer INTEGER, context BLOB,
    features BLOB NOT NULL, probability REAL, policy INTEGER, seal INTEGER NOT NULL
);
-- A correction is a row more, with the reward that it replaces.
CREATE TABLE rewards (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, decision INTEGER NOT NULL, time REAL NOT NULL,
    reward REAL NOT NULL, replaces REAL, seal INTEGER NOT NULL
);
CREATE INDEX rewards_of_decision ON rewards (decision);
CREATE INDEX corrections ON rewards (decision) WHERE replaces IS NOT NULL;
CREATE TABLE outstanding (number INTEGER PRIMARY KEY, time REAL NOT NULL);
CREATE TABLE expired (number INTEGER PRIMARY KEY, time REAL NOT NULL);
CREATE TABLE learned (digest BLOB PRIMARY KEY, time REAL NOT NULL, rows INTEGER NOT NULL) WITHOUT ROWID;
-- The sums over what was compacted, and those over the whole log up to a reward.
CREATE TABLE folded (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL, upto INTEGER NOT NULL,
    body BLOB NOT NULL, seal INTEGER NOT NULL);
CREATE TABLE snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL, seq INTEGER NOT NULL,
    body BLOB NOT NULL, seal INTEGER NOT NULL);
"""

CATALOGUE = """
-- Every change of an arm; the last row of a name is what holds.
CREATE TABLE arms (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, name TEXT NOT NULL, features BLOB NOT NULL,
    cost REAL NOT NULL, state TEXT NOT NULL, seal INTEGER NOT NULL
);
"""

LATE = """
-- Decisions that waited too long, in the order in which they were given up: a process reads those it has not seen.
ALTER TABLE expired RENAME TO expired_before;
CREATE TABLE expired (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL UNIQUE, time REAL NOT NULL, seal INTEGER NOT NULL
);
INSERT INTO expired (seq, number, time, seal) SELECT seq, number, time, checksum(seq, number, time)
    FROM (SELECT row_number() OVER (ORDER BY number) AS seq, number, time FROM expired_before);
DROP TABLE expired_before;
-- The sums over the log up to a decision, a reward and an expiry: `body` over the decisions that have a reward, `asked`
-- over those that wait for theirs too (empty if none does), `peak` as in model.py. A shortcut: it is made anew.
DROP TABLE snapshot;
CREATE TABLE snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL, number INTEGER NOT NULL,
    seq INTEGER NOT NULL, expired INTEGER NOT NULL, body BLOB NOT NULL, asked BLOB NOT NULL, peak BLOB NOT NULL,
    seal INTEGER NOT NULL);
"""

SMALL = """
-- `features` are those of the arm chosen alone: the context is in `context`, and both make what the model learns from.
-- Of a decision over the catalogue they are empty: `catalogue` is its version, the last row of `arms` by then, and
-- `offer` is null, or has names without features if only these were offered. What another system decided has all.
ALTER TABLE decisions ADD COLUMN catalogue INTEGER;
UPDATE decisions SET features = substr(features, length(ifnull(context, x'')) + 1),
    seal = checksum(number, time, arm, offer, context, substr(features, length(ifnull(context, x'')) + 1), probability,
        policy, NULL)
    WHERE seal = checksum(number, time, arm, offer, context, features, probability, policy);
-- Whether the features of an offer are compressed.
ALTER TABLE offers ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
INSERT OR IGNORE INTO settings (key, value, seal) SELECT key, value, checksum(key, value)
    FROM (SELECT 'keep' AS key, '"all"' AS value UNION SELECT 'designs', '[]') WHERE EXISTS (SELECT 1 FROM settings);
"""

STEPS = (LOG, CATALOGUE, LATE, SMALL)
"""What each version added; a file of version v gets those after the first v."""

VERSION = len(STEPS)

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
    "expired decisions that are not there or wait": """
        SELECT 1 FROM expired WHERE number IN (SELECT number FROM outstanding)
            OR (number > (SELECT upto FROM folded) AND number NOT IN (SELECT number FROM decisions))""",
    "two first rewards of one decision": """
        SELECT 1 FROM rewards WHERE replaces IS NULL GROUP BY decision HAVING count(*) > 1""",
    "decisions out of count": """
        SELECT 1 FROM folded, (SELECT ifnull(max(number), 0) AS last, count(*) AS all_of_them FROM decisions) d
            WHERE ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'decisions'), 0) IS NOT max(upto, last)
            OR (SELECT count(*) FROM decisions WHERE number > upto) != max(last - upto, 0)""",
    "arms out of count": """
        SELECT 1 FROM (SELECT count(*) AS changes, ifnull(min(seq), 1) AS first, ifnull(max(seq), 0) AS last FROM arms)
            WHERE first != 1 OR last != changes""",
    "decisions over a catalogue that is not there": """
        SELECT 1 FROM decisions WHERE catalogue > (SELECT ifnull(max(seq), 0) FROM arms)
            OR (catalogue IS NULL) != (length(features) > 0)""",
    "expired decisions out of count": """
        SELECT 1 FROM (SELECT count(*) AS all_of_them, ifnull(max(seq), 0) AS last FROM expired)
            WHERE last != all_of_them
            OR ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'expired'), 0) IS NOT last""",
    "rewards out of count": """
        SELECT 1 WHERE ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'rewards'), 0) <
            max((SELECT ifnull(max(seq), 0) FROM rewards), (SELECT ifnull(max(seq), 0) FROM snapshot))""",
}


# Tables whose rows have a checksum, in the column `seal`, of these columns.
COLUMNS = {
    "settings": ("key", "value"),
    "policies": ("version", "time", "policy", "levels", "noise"),
    "decisions": ("number", "time", "arm", "offer", "context", "features", "probability", "policy", "catalogue"),
    "rewards": ("seq", "decision", "time", "reward", "replaces"),
    "expired": ("seq", "number", "time"),
    "arms": ("seq", "time", "name", "features", "cost", "state"),
    "folded": ("generation", "upto", "body"),
    "snapshot": ("generation", "number", "seq", "expired", "body", "asked", "peak"),
}
INSERT = {
    table: f"INSERT INTO {table} ({', '.join(columns)}, seal) VALUES ({'?, ' * len(columns)}?)"
    for table, columns in COLUMNS.items()
}


def _columns(table: str, alias: str) -> str:
    return ", ".join(f"{alias}.{column}" for column in (*COLUMNS[table], "seal"))


REWARD, DECISION, EXPIRED = _columns("rewards", "r"), _columns("decisions", "d"), _columns("expired", "e")

# Where to read on from, the row of rewards or of expired decisions (nothing for "waiting"), and the decision.
READ: dict[Kind, str] = {
    "waiting": f"""
        SELECT o.number, {DECISION} FROM outstanding o JOIN decisions d ON d.number = o.number
        WHERE o.number > ? AND o.number <= ? ORDER BY o.number LIMIT ?""",
    "expired": f"""
        SELECT e.seq, {EXPIRED}, {DECISION} FROM expired e JOIN decisions d ON d.number = e.number
        WHERE e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?""",
    "rewards": f"""
        SELECT r.seq, {REWARD}, {DECISION}, EXISTS (SELECT 1 FROM expired e WHERE e.number = r.decision)
        FROM rewards r JOIN decisions d ON d.number = r.decision
        WHERE r.seq > ? AND r.seq <= ? ORDER BY r.seq LIMIT ?""",
    "answered": f"""
        SELECT d.number, {REWARD}, {DECISION}, 0 FROM decisions d JOIN rewards r ON r.decision = d.number
        WHERE d.number > ? AND d.number <= ? AND NOT EXISTS (
            SELECT 1 FROM rewards n WHERE n.decision = r.decision AND n.replaces IS NOT NULL AND n.seq > r.seq)
        ORDER BY d.number LIMIT ?""",
}
ARMS = f"SELECT {_columns('arms', 'a')} FROM arms a WHERE seq > ? ORDER BY seq"
POLICY = f"SELECT {_columns('policies', 'p')} FROM policies p WHERE version > ? ORDER BY version DESC LIMIT 1"
PLACE = "SELECT (SELECT generation FROM folded), " + ", ".join(
    f"(SELECT seq FROM sqlite_sequence WHERE name = '{table}')" for table in ("decisions", "rewards", "expired")
)
DECISIONS = f"""
    SELECT {REWARD}, {DECISION}, o.arms, o.features, o.digest, o.packed
    FROM decisions d LEFT JOIN offers o ON o.id = d.offer
        LEFT JOIN rewards r ON r.seq = (SELECT max(seq) FROM rewards WHERE decision = d.number)
    WHERE d.number > ? ORDER BY d.number LIMIT ?
"""
DAY_REWARDS = """
    SELECT CAST(d.time / 86400 AS INTEGER), count(*) - count(r.replaces), sum(r.reward - ifnull(r.replaces, 0)),
        sum(r.reward * r.reward - ifnull(r.replaces * r.replaces, 0))
    FROM rewards r JOIN decisions d ON d.number = r.decision
    WHERE r.seq > ? AND d.policy IS NOT NULL GROUP BY 1
"""
ANSWERS = """
    SELECT r.decision, d.time, iif(e.number IS NULL, r.time, NULL), r.reward, r.replaces IS NULL
    FROM rewards r JOIN decisions d ON d.number = r.decision
        LEFT JOIN expired e ON e.number = r.decision AND e.time = r.time
    WHERE r.seq > ? AND d.policy IS NOT NULL ORDER BY r.seq DESC LIMIT ?
"""
CHOICES = """
    SELECT arm, count(*) AS n FROM (
        SELECT arm FROM decisions WHERE policy IS NOT NULL ORDER BY number DESC LIMIT ?
    ) GROUP BY arm ORDER BY n DESC, arm
"""
LAST_ASKED = f"""
    SELECT {DECISION}, o.arms, o.features, o.digest, o.packed FROM decisions d LEFT JOIN offers o ON o.id = d.offer
    WHERE d.policy IS NOT NULL ORDER BY d.number DESC LIMIT 1
"""
END_OF_DECISION = len(COLUMNS["decisions"]) + 1  # its columns and the checksum


def checksum(*values: Any) -> int:
    """Checksum of a row, by which damage that SQLite does not see is noticed."""
    # SQLite stores -0.0 as 0.0.
    return crc32(
        b"".join([v if type(v) is bytes else repr(v or 0.0 if type(v) is float else v).encode() for v in values])
    )


class SqliteLog(Log):
    """The log in a file, opened; or, with `write=False` and without its settings, for people who watch it."""

    def __init__(self, path: Path, write: bool = True) -> None:
        self.path, self._process, self._versions = path, os.getpid(), ArmVersions()
        if not write:  # nothing is read yet: the last to close could not tidy up what SQLite writes beside the file
            self._connection = _connection(path, "ro")
            return
        self._connection = _connect(path)
        try:
            with self.transaction(write=False):
                self.refresh_settings()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, time: float, settings: Settings, policy: PolicyRow, sums: bytes) -> None:
        """Make the file of a new agent, with sums of nothing."""

        def fill(connection: sqlite3.Connection) -> None:
            _insert(connection, "settings", _setting_rows(settings))
            _insert(connection, "policies", [(1, time, *policy)])
            _insert(connection, "folded", [(0, 0, sums)])

        create_file(path, fill)

    def close(self) -> None:
        if self._process == os.getpid():  # a child must leave the parent's locks alone
            self._connection.close()

    @contextlib.contextmanager
    def transaction(self, write: bool = True) -> Iterator[None]:
        if self._process != os.getpid():
            raise InvalidValueError(f"{self.path} was opened in another process; call Agent.open in this one")
        try:
            with _transaction(self._connection, write):
                yield
        except sqlite3.OperationalError as failure:
            if "locked" in str(failure) or "busy" in str(failure):
                raise FileError(f"{self.path}: another process has been writing for too long; try again") from failure
            raise FileError(f"{self.path}: cannot be read or written ({failure})") from failure
        except sqlite3.ProgrammingError as failure:
            raise InvalidValueError(f"{self.path}: the agent is closed; open it again with Agent.open") from failure
        except (sqlite3.DatabaseError, UnicodeDecodeError) as failure:  # its message may quote what is no text
            raise self.damaged(str(failure)) from failure

    def refresh_settings(self) -> None:
        settings = self._settings()
        if settings != getattr(self, "settings", None):
            self.settings = settings

    def replace_settings(self, settings: Settings, body: bytes) -> None:
        generation, (upto, _) = self.place().generation, self.folded()
        self._connection.execute("DELETE FROM settings")
        _insert(self._connection, "settings", _setting_rows(settings))
        self._replace_folded(generation + 1, upto, body)
        self.refresh_settings()

    # Decisions and rewards

    def place(self) -> Place:
        generation, number, reward, expired = self._row(PLACE)
        if not isinstance(generation, int):
            raise self.damaged(f"the {FOLDED} cannot be read")
        try:
            return Place(generation, int(number or 0), int(reward or 0), int(expired or 0))
        except (TypeError, ValueError):
            raise self.damaged("the numbers of the last rows cannot be read") from None

    def append_decisions(self, decisions: Sequence[Decision]) -> None:
        rows: list[tuple[Any, ...]] = []
        offers: dict[tuple[int, int], int | None] = {}  # many decisions may be among the same arms
        for number, time, arm, features, probability, policy, asked, _ in decisions:
            offer = context = catalogue = None
            if asked is not None:
                same = id(asked.names), id(asked.own)
                if same not in offers:
                    offers[same] = self._offer(asked)
                offer, catalogue = offers[same], asked.catalogue
                context = None if asked.context is None else as_bytes(asked.context)
                features = NOTHING if catalogue is not None else asked.own[asked.names.index(str(arm))]
            rows.append((number, time, arm, offer, context, as_bytes(features), probability, policy, catalogue))
        _insert(self._connection, "decisions", rows)
        waiting = [(decision.number, decision.time) for decision in decisions if decision.policy is not None]
        self._connection.executemany("INSERT INTO outstanding (number, time) VALUES (?, ?)", waiting)

    def _offer(self, asked: Round) -> int | None:
        """Number of what was offered, which is written if it is new; None if the version of the catalogue says it.

        Also None where only what was chosen is kept.
        """
        if not asked.some if asked.catalogue is not None else self.settings.keep == "chosen":
            return None
        names, features = json.dumps(asked.names), as_bytes(asked.own if asked.catalogue is None else NOTHING)
        digest = _offer_digest(names, features)
        row = self._row("SELECT id FROM offers WHERE digest = ?", digest)
        if row is not None:
            return int(row[0])
        query = "INSERT INTO offers (digest, arms, features, packed) VALUES (?, ?, ?, ?)"
        return self._connection.execute(query, (digest, names, *_packed(features))).lastrowid

    def append_rewards(self, rewards: Sequence[Reward]) -> None:
        self._append("rewards", rewards)
        self._stop_waiting([(reward.number,) for reward in rewards if reward.replaces is None])

    def expire(self, before: float, now: float, reward: float | None) -> None:
        oldest = self._row("SELECT time FROM outstanding ORDER BY number LIMIT 1")
        if oldest is None or oldest[0] >= before:
            return
        numbers = [row[0] for row in self._rows("SELECT number FROM outstanding WHERE time < ?", before)]
        self._append("expired", [(number, now) for number in numbers])
        self._stop_waiting([(number,) for number in numbers])
        if reward is not None:
            self.append_rewards([Reward(number, now, reward) for number in numbers])

    def _stop_waiting(self, numbers: list[tuple[int]]) -> None:
        self._connection.executemany("DELETE FROM outstanding WHERE number = ?", numbers)

    def find(self, number: int) -> Found:
        if self._row("SELECT 1 FROM outstanding WHERE number = ?", number) is not None:
            return True, None
        rows = self._rows(f"SELECT {REWARD} FROM rewards r WHERE decision = ? ORDER BY seq DESC LIMIT 1", number)
        for _, _, _, reward, _ in self._verified(rows, "rewards"):
            return False, float(reward)
        if self._row("SELECT 1 FROM decisions WHERE number = ?", number) is None:
            return None
        if self._row("SELECT 1 FROM expired WHERE number = ?", number) is None:
            raise self.damaged(f"decision {number} neither waits nor has a reward")
        return False, None

    def read(self, kind: Kind, since: int = 0, upto: int = 2**62) -> Iterator[Entries]:
        table = {"waiting": None, "expired": "expired"}.get(kind, "rewards")
        start = 1 if table is None else len(COLUMNS[table]) + 2
        end = start + END_OF_DECISION
        while rows := self._rows(READ[kind], since, upto, BATCH):
            since = self._next(since, rows[-1][0])
            heads = [] if table is None else self._verified([row[1:start] for row in rows], table)
            decisions = self._verified([row[start:end] for row in rows], "decisions")
            numbers = np.array([row[0] for row in decisions])
            features = self._features(decisions)
            if table != "rewards":
                yield Entries(since, numbers, features)
                continue
            rewards, replaced = np.array([row[3] for row in heads]), [row[4] for row in heads]
            own = np.array([row[7] is not None for row in decisions])
            expired = np.array([row[end] for row in rows], dtype=bool)
            corrects = any(reward is not None for reward in replaced)
            corrected = np.array(replaced, dtype=np.float64) if corrects else None  # None becomes NaN
            yield Entries(since, numbers, features, rewards, corrected, own, expired)

    def _features(self, decisions: list[Any]) -> FloatArray:
        """Features (n, d) of the arms chosen, from what the rows have of them: bit for bit those of the decisions."""
        rows: dict[tuple[bool, int, int], list[int]] = {}  # by what they have; most often all rows are alike
        names, arms, contexts = [], [], []
        for at, (number, _, arm, _, context, features, _, policy, catalogue) in enumerate(decisions):
            if catalogue is not None:
                features = self._arm(arm, catalogue, number).features.tobytes()
            context = b"" if context is None else context
            rows.setdefault((policy is None, len(features), len(context)), []).append(at)
            names.append(arm)
            arms.append(features)
            contexts.append(context)
        built: FloatArray = np.empty((len(decisions), self.settings.dim))
        for (complete, size, before), chosen in rows.items():
            own = as_matrix(b"".join([arms[at] for at in chosen]), size // 8)
            if complete:
                made = self._in_columns(own)
            else:
                context = np.frombuffer(b"".join([contexts[at] for at in chosen])).reshape(len(chosen), before // 8)
                if self.settings.design is None:
                    made = np.column_stack([context, own])
                else:
                    made = self.settings.design.build(own, context, [names[at] for at in chosen])
            if made.shape[1] != self.settings.dim:
                raise self.damaged(f"decision {decisions[chosen[0]][0]} does not have {self.settings.dim} features")
            built[chosen] = made
        return built

    def _in_columns(self, complete: FloatArray) -> FloatArray:
        """Complete features (n, d) in the columns that they have now, which may be more than when they were written."""
        dim, design = self.settings.dim, self.settings.design
        for earlier in self.settings.designs:
            if design is not None and earlier.dim == complete.shape[1] != dim:
                moved = np.zeros((len(complete), dim))
                moved[:, earlier.positions_in(design)] = complete
                return moved
        return complete

    def _arm(self, name: str, version: int, number: int) -> Arm:
        """An arm as it was in a version of the catalogue, in which decision `number` chose or offered it."""
        self._read_versions(version)
        arm = self._versions.arm(name, version)
        if arm is None:
            raise self.damaged(f"arm {shown(name)} of decision {number} is not in the catalogue of that time")
        return arm

    def _read_versions(self, version: int) -> None:
        if version > self._versions.last:
            for seq, arm in self.arms(self._versions.last):
                self._versions.add(seq, arm)

    def decisions(self) -> Iterator[list[Decision]]:
        self.refresh_settings()
        number, start, end = 0, len(COLUMNS["rewards"]) + 1, len(COLUMNS["rewards"]) + 1 + END_OF_DECISION
        while rows := self._rows(DECISIONS, number, BATCH // 10):  # these are long rows
            number = self._next(number, rows[-1][start])
            decided = self._verified([row[start:end] for row in rows], "decisions")
            features = self._features(decided)
            yield [
                self._decision(row[:start], one, x, self._asked(one, *row[end:]))
                for row, one, x in zip(rows, decided, features, strict=True)
            ]

    def _decision(self, told: Any, decided: Any, features: FloatArray, asked: Round | None) -> Decision:
        reward = None if told[0] is None else self._verified([told], "rewards")[0][3]
        number, time, arm, _, _, _, probability, policy, _ = decided
        return Decision(number, time, arm, features, probability, policy, asked, reward)

    def _asked(
        self, decided: Any, stored_names: str | None, stored: bytes, digest: bytes, packed: int | None
    ) -> Round | None:
        """What was offered in a decision; None if nobody knows."""
        number, _, _, offer, stored_context, _, _, _, catalogue = decided
        design = self.settings.design
        context = None if stored_context is None else as_vector(stored_context)
        if offer is None and catalogue is None:
            return None
        names, features = None, b""
        if offer is not None:
            try:
                features = decompress(stored) if packed else stored
            except (CompressionError, TypeError):
                stored_names = None
            if stored_names is None or _offer_digest(stored_names, features) != digest:
                raise self.damaged(f"what was offered in decision {number} is not what was written")
            names = json.loads(stored_names)
        if catalogue is None:
            assert names is not None
            own = as_matrix(features, len(features) // 8 // len(names))
        else:
            self._read_versions(catalogue)
            arms = self._versions.active(catalogue)
            if names is not None:
                arms = [self._arm(name, catalogue, number) for name in names]
            names, own = [arm.name for arm in arms], _own(arms)
        if design is not None:
            own = padded(own, len(design.arm))
            context = padded(NOTHING if context is None else context, len(design.context))
        return Round(names, own, None, context, design, catalogue, offer is not None)

    def _next(self, before: int, after: Any) -> int:
        """Where to read on: always further, or a damaged tree would be read for ever."""
        if not isinstance(after, int) or after <= before:
            raise self.damaged("rows are out of order")
        return after

    def add_digest(self, digest: bytes, time: float, rows: int) -> bool:
        query = "INSERT OR IGNORE INTO learned (digest, time, rows) VALUES (?, ?, ?)"
        return self._connection.execute(query, (digest, time, rows)).rowcount == 1

    # Catalogue and policies

    def arms(self, since: int) -> list[tuple[int, Arm]]:
        return [
            (seq, Arm(name, as_vector(features), cost, state))
            for seq, _, name, features, cost, state in self._verified(self._rows(ARMS, since), "arms")
        ]

    def append_arms(self, arms: Iterable[Arm], time: float) -> None:
        rows = [(time, arm.name, as_bytes(arm.features), float(arm.cost), arm.state) for arm in arms]
        self._append("arms", rows)

    def policy(self, since: int) -> tuple[int, PolicyRow] | None:
        row = self._row(POLICY, since)
        if row is None and since:
            return None
        version, _, policy, levels, noise = self._one(row, "policy")
        return version, PolicyRow(policy, levels, noise)

    def append_policy(self, policy: PolicyRow, time: float) -> None:
        self._append("policies", [(time, *policy)])

    def _settings(self) -> Settings:
        rows = self._verified(self._rows("SELECT key, value, seal FROM settings"), "settings")
        values = {key: json.loads(value) for key, value in rows}
        try:
            return Settings.from_table(values)
        except AdadimError as error:
            raise self.damaged(str(error)) from error

    # Sums over the log

    def snapshot(self) -> Snapshot | None:
        row = self._row(f"SELECT {_columns('snapshot', 's')} FROM snapshot s")
        if row is None or checksum(*row[:-1]) != row[-1]:
            return None
        return Snapshot(Place(*row[:4]), *row[4:7])

    def keep(self, snapshot: Snapshot) -> None:
        self._connection.execute("DELETE FROM snapshot")
        _insert(self._connection, "snapshot", [(*snapshot.place, *snapshot[1:])])

    def folded(self) -> tuple[int, bytes]:
        _, upto, body = self._one(self._row(f"SELECT {_columns('folded', 'f')} FROM folded f"), FOLDED)
        return upto, body

    def fold(self, upto: int, body: bytes) -> int:
        generation, (before, _) = self.place().generation, self.folded()
        query = "DELETE FROM decisions WHERE number <= ? AND number NOT IN (SELECT number FROM outstanding)"
        gone = self._connection.execute(query, (upto,)).rowcount
        self._connection.execute("DELETE FROM rewards WHERE decision <= ?", (upto,))
        self._replace_folded(generation + 1, max(before, upto), body)
        return gone

    def _replace_folded(self, generation: int, upto: int, body: bytes) -> None:
        self._connection.execute("DELETE FROM folded")
        _insert(self._connection, "folded", [(generation, upto, body)])

    def last_before(self, time: float) -> int:
        first = self._row("SELECT number FROM decisions WHERE time >= ? ORDER BY number LIMIT 1", time)
        return self.place().number if first is None else int(first[0]) - 1

    def shrink(self) -> None:
        with self.transaction():
            self._connection.execute(
                "DELETE FROM offers WHERE id NOT IN (SELECT offer FROM decisions WHERE offer IS NOT NULL)"
            )
        with contextlib.suppress(sqlite3.OperationalError):  # another process is writing: next time
            # `execute` would stop after the first page.
            self._connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(PASSIVE);")

    # Looking at it

    def counts(self) -> Counts:
        waiting, expired = self._row("SELECT (SELECT count(*) FROM outstanding), (SELECT count(*) FROM expired)")
        return Counts(waiting, expired, self.path.stat().st_size)

    def check(self) -> None:
        (problem,) = self._row("PRAGMA quick_check(1)")
        if problem != "ok":
            raise self.damaged(str(problem))
        for what, query in CONTRADICTIONS.items():
            if self._row(f"{query} LIMIT 1") is not None:
                raise self.damaged(what)

    def others_wrote(self) -> int | None:
        return int(self._row("PRAGMA data_version")[0])

    def check_writable(self) -> None:
        self._connection.execute(f"PRAGMA user_version = {VERSION}")  # which it is; this goes to disk all the same

    def day_rewards(self, since: int) -> list[DayRewards]:
        return [DayRewards(*row) for row in self._rows(DAY_REWARDS, since)]

    def answers(self, since: int, last: int) -> list[Answer]:
        rows = self._rows(ANSWERS, since, last)
        return [Answer(number, at, told, reward, bool(first)) for number, at, told, reward, first in reversed(rows)]

    def choices(self, last: int) -> dict[str, int]:
        return dict(self._rows(CHOICES, last))

    def last_asked(self) -> Round | None:
        self.refresh_settings()
        row = self._row(LAST_ASKED)
        if row is None:
            return None
        (decided,) = self._verified([row[:END_OF_DECISION]], "decisions")
        return self._asked(decided, *row[END_OF_DECISION:])

    # Rows

    def _append(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows to a table that counts them in its first column."""
        row = self._row("SELECT seq FROM sqlite_sequence WHERE name = ?", table)  # the last that was ever there
        last = 0 if row is None else int(row[0])
        _insert(self._connection, table, [(last + i, *row) for i, row in enumerate(rows, 1)])

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self._connection.execute(query, values).fetchall()

    def _row(self, query: str, *values: Any) -> Any:
        """The first row, None if there is none."""
        return self._connection.execute(query, values).fetchone()

    def _verified(self, rows: Iterable[Any], table: str) -> list[Any]:
        """Rows without their checksums, which must fit."""
        verified = []
        for *row, check in rows:
            if checksum(*row) != check:
                what = "expired decisions" if table == "expired" else table
                raise self.damaged(f"a row of the table of {what} is not what was written: {shown(row[0])}")
            verified.append(row)
        return verified

    def _one(self, row: Any, what: str) -> Any:
        """A row that must be there, without its checksum."""
        if row is None or checksum(*row[:-1]) != row[-1]:
            raise self.damaged(f"the {what} cannot be read")
        return row[:-1]


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    connection.executemany(INSERT[table], [(*row, checksum(*row)) for row in rows])


def _offer_digest(names: str, features: bytes) -> bytes:
    return hashlib.blake2b(names.encode() + b"\0" + features, digest_size=16).digest()


def _packed(features: bytes) -> tuple[bytes, int]:
    """Features as they are stored, and whether they are compressed: digits of measured numbers are like noise."""
    sample = features[:SAMPLE]
    if len(compress(sample, COMPRESSION)) > WORTHWHILE * len(sample):
        return features, 0
    return compress(features, COMPRESSION), 1


def _setting_rows(settings: Settings) -> list[tuple[str, str]]:
    return [(key, json.dumps(value)) for key, value in asdict(settings).items()]


def _own(arms: Sequence[Arm]) -> FloatArray:
    """Features of arms (K, m), those of which fewer are stored with zeros behind them."""
    size = max(len(arm.features) for arm in arms)
    return np.array([padded(arm.features, size) for arm in arms])


# The file


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, write: bool = True) -> Iterator[sqlite3.Connection]:
    """All or nothing; a writer takes its turn at once, a reader sees one state of the file."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield connection
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def create_file(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make the file of a new agent, whole or not at all; one that is there already is left alone."""

    def make(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        _migrate(connection)
        with _transaction(connection):
            fill(connection)

    _make_file(path, make)


def backup_file(path: Path, copy: Path) -> int:
    """Copy the file of an agent as it is at this moment, also while others write; gives how many decisions it has.

    The copy is checked, and made whole or not at all. Its tables are of the version that the file has.
    """
    if not path.exists():
        raise FileError(f"{path}: no such file")
    decisions = 0

    def make(connection: sqlite3.Connection) -> None:
        nonlocal decisions
        source = _open_file(path)
        try:
            source.backup(connection)  # in one step: a reader sees one state, and a writer need not wait
        finally:
            source.close()
        connection.execute("PRAGMA journal_mode = DELETE")  # one file; it is opened with a write-ahead log again
        (problem,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if problem != "ok":
            raise FileError(f"{path}: the copy is damaged ({problem}); nothing was kept")
        if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
            for what, query in CONTRADICTIONS.items():
                if connection.execute(f"{query} LIMIT 1").fetchone() is not None:
                    raise FileError(f"{path}: damaged ({what}); nothing was copied")
        decisions = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]

    try:
        _make_file(copy, make)
    except sqlite3.DatabaseError as failure:
        raise FileError(f"{path}: damaged ({failure}); nothing was copied") from failure
    return decisions


def _make_file(path: Path, make: Callable[[sqlite3.Connection], None]) -> None:
    """Make a file that is not there yet; it has its name when it is complete and on disk."""
    if path.exists():
        raise FileError(f"{path}: {THERE}")
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _connection(partial, "rwc")
        try:
            make(connection)
        finally:
            connection.close()
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        try:
            os.link(partial, path)  # unlike a rename, it never replaces a file that another process has just made
        except FileExistsError:
            raise FileError(f"{path}: {THERE}") from None
        sync_folder(path.parent)
    except OSError as failure:
        raise explained(failure, path) from failure
    except sqlite3.OperationalError as failure:
        raise FileError(f"{path}: cannot be written ({failure}); choose a folder you may write to") from failure
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                partial.with_name(partial.name + suffix).unlink()


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file of an agent, brought to this version; what is none is refused."""
    if not path.exists():
        raise FileError(f"{path}: no such file; make one with Agent.create(path, dim=...)")
    connection = _open_file(path)
    with _closed_unless_usable(connection, path):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise FileError(
                f"{path}: written by a newer adadim (its tables are version {version}, this one reads up to "
                f"{VERSION}); update adadim to open it"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # what was acknowledged survives a power cut
        _migrate(connection)
    return connection


def _open_file(path: Path) -> sqlite3.Connection:
    """A connection to the file of an agent, of whatever version."""
    if not path.is_file():
        raise FileError(f"{path}: not a file")
    try:
        connection = _connection(path, "rw")
    except sqlite3.Error as failure:
        raise FileError(f"{path}: cannot be opened ({failure})") from failure
    with _closed_unless_usable(connection, path):
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise FileError(f"{path}: not a file that Agent.create made")
    return connection


@contextlib.contextmanager
def _closed_unless_usable(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as failure:
        connection.close()
        raise FileError(f"{path}: cannot be opened for reading and writing ({failure})") from failure
    except (sqlite3.Error, UnicodeDecodeError) as failure:  # its message may quote what is no text
        connection.close()
        raise FileError(f"{path}: damaged, or not a file that Agent.create made ({failure})") from failure
    except BaseException:
        connection.close()
        raise


def _migrate(connection: sqlite3.Connection) -> None:
    """Take the steps that the file has not taken yet, all or none."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    connection.create_function("checksum", -1, checksum)
    with _transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]  # another process may have been faster
        for step in STEPS[version:]:
            for statement in step.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
