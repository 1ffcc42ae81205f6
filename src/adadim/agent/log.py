"""The log of an agent: decisions, what was offered in them, and their rewards. Only compaction ever drops a row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from adadim.agent.file import File, as_bytes, sealed
from adadim.agent.rounds import Round
from adadim.errors import DecisionError, UnknownDecisionError

__all__ = ["Log"]

BATCH = 20_000  # rows read at a time
MOST = 2**62

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
OPEN = f"""
    SELECT {DECISION} FROM outstanding o JOIN decisions d ON d.number = o.number
    WHERE o.number > ? ORDER BY o.number LIMIT ?
"""
EXPIRED = f"""
    SELECT e.seq, e.number, e.time, e.seal, {DECISION} FROM expired e JOIN decisions d ON d.number = e.number
    WHERE e.seq > ? ORDER BY e.seq LIMIT ?
"""
EVERY = f"""
    SELECT {REWARD}, {DECISION}, o.arms, o.features, o.digest
    FROM decisions d LEFT JOIN offers o ON o.id = d.offer
        LEFT JOIN rewards r ON r.seq = (SELECT max(seq) FROM rewards WHERE decision = d.number)
    WHERE d.number > ? ORDER BY d.number LIMIT ?
"""
ADD_REWARD = "INSERT INTO rewards (seq, decision, time, reward, replaces, seal) VALUES (?, ?, ?, ?, ?, ?)"
ADD_DECISION = """
    INSERT INTO decisions (number, time, arm, offer, context, features, probability, policy, seal)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class Log:
    """The log in an agent's file; all methods are called in a transaction of it."""

    def __init__(self, file: File) -> None:
        self.file = file

    # Decisions

    def last_number(self) -> int:
        """Number of the last decision."""
        return int(self.file.value("SELECT seq FROM sqlite_sequence WHERE name = 'decisions'") or 0)

    def last_before(self, time: float) -> int:
        """The last decision before the first one that was made at `time` or later."""
        first = self.file.value("SELECT number FROM decisions WHERE time >= ? ORDER BY number LIMIT 1", time)
        return self.last_number() if first is None else int(first) - 1

    def decide(
        self, time: float, asked: Round, chosen: int, probability: float, policy: int, offer: int | None = None
    ) -> int:
        """Write down which of the arms was chosen, and by which version of the policy; gives the decision's number.

        `offer` is what `offer` gave for the same arms, if that is known.
        """
        number, before = self.last_number() + 1, None if asked.context is None else as_bytes(asked.context)
        arm, features = asked.names[chosen], as_bytes(asked.features[chosen])
        offered = self.offer(asked) if offer is None else offer
        row = (number, float(time), arm, offered, before, features, float(probability), policy)
        self.file.run(ADD_DECISION, *sealed(*row))
        self.file.run("INSERT INTO outstanding (number, time) VALUES (?, ?)", number, float(time))
        return number

    def offer(self, asked: Round) -> int | None:
        """Number of what was offered, which is written if it is new."""
        names, stored = json.dumps(asked.names), as_bytes(asked.own)
        digest = _offer_digest(names, stored)
        found = self.file.value("SELECT id FROM offers WHERE digest = ?", digest)
        if found is not None:
            return int(found)
        return self.file.run(
            "INSERT INTO offers (digest, arms, features) VALUES (?, ?, ?)", digest, names, stored
        ).lastrowid

    def drop(self, upto: int) -> int:
        """Drop the decisions up to a number that wait for nothing; gives how many."""
        query = "DELETE FROM decisions WHERE number <= ? AND number NOT IN (SELECT number FROM outstanding)"
        gone = self.file.run(query, upto).rowcount
        self.file.run("DELETE FROM rewards WHERE decision <= ?", upto)
        return gone

    def drop_unused_offers(self) -> None:
        """Drop what was offered in decisions that are gone."""
        self.file.run("DELETE FROM offers WHERE id NOT IN (SELECT offer FROM decisions WHERE offer IS NOT NULL)")

    # Telling rewards

    def tell(self, number: int, reward: float, now: float) -> bool:
        """Write down what a decision earned; gives whether this was new."""
        if self.file.row("SELECT 1 FROM outstanding WHERE number = ?", number) is not None:
            self._add_reward(number, now, reward)
            return True
        known = self.reward_of(number)
        if known is None:
            raise DecisionError(
                f"decision {number} expired before its reward came; correct({number}, reward={reward:g}) records it "
                "all the same"
            )
        if known != reward:
            raise DecisionError(
                f"decision {number} has the reward {known:g} already, got {reward:g}; "
                f"correct({number}, reward={reward:g}) changes it"
            )
        return False

    def correct(self, number: int, reward: float, now: float) -> bool:
        """Write down another reward of a decision, or the first of one that expired; gives whether this was new."""
        known = self.reward_of(number)
        if known is None and not self.has_expired(number):
            raise DecisionError(f"decision {number} has no reward yet; call tell({number}, reward={reward:g})")
        if known != reward:
            self._add_reward(number, now, reward, known)
        return known != reward

    def expire(self, before: float, now: float, reward: float | None) -> None:
        """Wait no longer for the rewards of decisions made before a time; `reward` may stand for them."""
        oldest = self.file.value("SELECT time FROM outstanding ORDER BY number LIMIT 1")
        if oldest is None or oldest >= before:
            return
        for (number,) in self.file.rows("SELECT number FROM outstanding WHERE time < ?", before):
            self.file.run("DELETE FROM outstanding WHERE number = ?", number)
            row = sealed(self.last_expired() + 1, number, float(now))
            self.file.run("INSERT INTO expired (seq, number, time, seal) VALUES (?, ?, ?, ?)", *row)
            if reward is not None:
                self._add_reward(number, now, reward)

    def waiting(self) -> tuple[int, int]:
        """How many decisions wait for their reward, and how many waited too long."""
        found = self.file.row("SELECT (SELECT count(*) FROM outstanding), (SELECT count(*) FROM expired)")
        return int(found[0]), int(found[1])

    def reward_of(self, number: int) -> float | None:
        """The reward of a decision that is in the log, None if it has none; a `DecisionError` if it is not there."""
        rows = self.file.rows(f"SELECT {REWARD} FROM rewards r WHERE decision = ? ORDER BY seq DESC LIMIT 1", number)
        for _, _, _, reward, _ in self.file.intact(rows, "reward"):
            return float(reward)
        if self.file.row("SELECT 1 FROM decisions WHERE number = ?", number) is None:
            if 1 <= number <= self.last_number():
                raise DecisionError(f"decision {number} was folded by compact(): its reward cannot change any more")
            raise UnknownDecisionError(f"there is no decision {number}; the last one is {self.last_number()}")
        return None

    def _add_reward(self, number: int, time: float, reward: float, replaces: float | None = None) -> None:
        self.file.run(ADD_REWARD, *sealed(self.last_reward() + 1, number, float(time), reward, replaces))
        if replaces is None:
            self.file.run("DELETE FROM outstanding WHERE number = ?", number)

    # Reading what is new

    def open_since(self, number: int) -> Iterator[list[Any]]:
        """Rows (number, features) of the decisions after `number` that wait for their reward, in batches."""
        while rows := self.file.rows(OPEN, number, BATCH):
            number = self._next(number, rows[-1][0])
            yield [(row[0], row[5]) for row in self.file.intact(rows, "decision")]

    def last_expired(self) -> int:
        """Number of the last row of expired decisions."""
        return int(self.file.value("SELECT seq FROM sqlite_sequence WHERE name = 'expired'") or 0)

    def expired_since(self, seq: int) -> Iterator[list[Any]]:
        """Rows (seq, number, features) of decisions that expired after `seq`, in batches."""
        while rows := self.file.rows(EXPIRED, seq, BATCH):
            seq = self._next(seq, rows[-1][0])
            expired = self.file.intact([row[:4] for row in rows], "expired decision")
            decisions = self.file.intact([row[4:] for row in rows], "decision")
            yield [(e[0], e[1], d[5]) for e, d in zip(expired, decisions, strict=True)]

    def has_expired(self, number: int) -> bool:
        """Whether a decision waited too long."""
        return self.file.row("SELECT 1 FROM expired WHERE number = ?", number) is not None

    def last_reward(self) -> int:
        """Number of the last row of rewards."""
        return int(self.file.value("SELECT seq FROM sqlite_sequence WHERE name = 'rewards'") or 0)

    def rewards_since(self, seq: int) -> Iterator[list[Any]]:
        """Rows (seq, decision, reward, replaced reward, features, own) after `seq`, in batches."""
        while rows := self.file.rows(SINCE, seq, BATCH):
            seq = self._next(seq, rows[-1][0])
            yield self._answered(rows)

    def latest_rewards(self, upto: int = MOST) -> Iterator[list[Any]]:
        """The same for what holds now: one row for each decision up to a number that has a reward."""
        number = 0
        while rows := self.file.rows(LATEST, number, upto, BATCH):
            number = self._next(number, rows[-1][1])
            yield [(seq, n, reward, None, x, own) for seq, n, reward, _, x, own in self._answered(rows)]

    def _answered(self, rows: list[Any]) -> list[Any]:
        rewards = self.file.intact([row[:6] for row in rows], "reward")
        decisions = self.file.intact([row[6:] for row in rows], "decision")
        return [
            (seq, number, reward, replaces, row[5], row[7] is not None)
            for (seq, number, _, reward, replaces), row in zip(rewards, decisions, strict=True)
        ]

    def _next(self, before: int, found: Any) -> int:
        """Where to read on: always further, or a damaged tree would be read for ever."""
        if not isinstance(found, int) or found <= before:
            raise self.file.damaged("rows are out of order")
        return found

    # Logs of other systems, and this one for others

    def add_log(self, digest: bytes, now: float, rows: Iterable[tuple[Any, ...]]) -> int:
        """Write down what another system did: features, reward, arm, probability and time of each decision.

        Gives how many rows are new: none, if a log with this digest was written before.
        """
        if self.file.row("SELECT 1 FROM learned WHERE digest = ?", digest) is not None:
            return 0
        first, seq = self.last_number() + 1, self.last_reward() + 1
        decisions, rewards = [], []
        for i, (x, reward, arm, probability, time) in enumerate(rows):
            made = float(now if time is None else time)
            decisions.append(sealed(first + i, made, arm, None, None, as_bytes(x), probability, None))
            rewards.append(sealed(seq + i, first + i, float(now), reward, None))
        self.file.run_for_each(ADD_DECISION, decisions)
        self.file.run_for_each(ADD_REWARD, rewards)
        self.file.run("INSERT INTO learned (digest, time, rows) VALUES (?, ?, ?)", digest, now, len(rewards))
        return len(rewards)

    def every_decision(self) -> Iterator[list[Any]]:
        """Rows of all decisions with what was offered and their rewards, in batches."""
        number = 0
        while rows := self.file.rows(EVERY, number, BATCH // 10):  # these are long rows
            number = self._next(number, rows[-1][6])
            yield [self._exported(row) for row in rows]

    def _exported(self, row: Any) -> tuple[Any, ...]:
        told, made, (arms, offered, digest) = row[:6], row[6:15], row[15:]
        reward = None if told[0] is None else self.file.intact([told], "reward")[0][3]
        (number, time, arm, offer, context, features, probability, policy) = self.file.intact([made], "decision")[0]
        if offer is not None and (arms is None or _offer_digest(arms, offered) != digest):
            raise self.file.damaged(f"what was offered in decision {number} is not what was written")
        return number, time, arm, probability, policy, features, context, arms, offered, reward


def _offer_digest(names: str, stored: bytes) -> bytes:
    return hashlib.blake2b(names.encode() + b"\0" + stored, digest_size=16).digest()
