"""What every store of an agent's log must do, tried out on logs of new agents."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adadim.agent.agent import Agent
from adadim.agent.log import Arm, Expiry, Log, LoggedDecision, LogPosition, PolicyRow, Reward, Round, Snapshot
from adadim.agent.statements import (
    ALL,
    ARM_CHANGES,
    DECIDED,
    LAST_ROW,
    REWARDS,
    REWARDS_BY_DECISION,
    LearnedRow,
    Query,
)
from adadim.agent.stores import is_url, open_log
from adadim.agent.tables import TableLog
from adadim.core.checks import shown
from adadim.core.files import as_path
from adadim.errors import FileError, InvalidTypeError, InvalidValueError
from adadim.testing.report import Failure, NotApplicable, Report, checks_to_make, run_checks

LOG_DIM = 2
OFFERED_ROUND = Round(["a", "b"], np.array([[1.0, 2.0], [0.5, -1.0]]))
WAIT_SECONDS = 0.2  # in which a second writer must not come in
PATIENCE_SECONDS = 20.0  # in which one that need not wait must be done

Opener = Callable[[str], Log]


def check_log(store: str | os.PathLike[str] | Opener | Log, *, only: Any = None) -> Report:
    """Check that a store keeps the log of an agent as it must: a file system, a database, or a `Log` of your own.

    Logs of new agents are written, with a few rows each, and removed; existing agents are left alone.

    =============  ===================================================================================================
    Check          What must hold
    =============  ===================================================================================================
    events         What is written is read again, of every kind; decisions that have a reward do not wait.
    numbers        Rows are numbered 1, 2, 3, ... without gaps, and no number is used again.
    transactions   A transaction that an exception ends has written nothing, and the next one works.
    durability     What a transaction wrote is there for who opens the log next, also while it is open.
    one writer     A second process that wants to write waits until the first has ended.
    readers        A reader does not wait for a writer, and sees one state of the log until it ends.
    commit         Decisions are made once, and written with what follows, or not at all.
    reading        Rows are read in order, after one number and up to another.
    snapshot       A snapshot is read as it was written, and replaces the one before.
    fold           Answered decisions are dropped, and those that wait are kept; a new generation begins.
    damage         A row that is not what was written is an error.
    check          A log that contradicts itself is an error.
    =============  ===================================================================================================

    Parameters
    ----------
    store : path, str, function or Log
        A folder, for files of SQLite in it; the URL of a database of PostgreSQL, ``"postgresql://user@host/db"``; or a
        function that opens the log of the agent of a given name and makes the agent where it is missing, with
        ``dim=2``. It is called for several agents, and again for one that is open, also from other threads. Or a log
        that you have opened, of a new agent with ``dim=2``, which is of no use afterwards: what needs a second
        connection is skipped then.
    only : str or list of str, optional
        Names of checks to make; by default all.

    Returns
    -------
    Report
        What passed and what was skipped.

    Raises
    ------
    ConformanceError
        If a check fails: an AssertionError, so that a test needs no more than the call. Its message is the report,
        which names what failed and how to see it again.

    Examples
    --------
    Whether agents can be kept in a folder:

    >>> import tempfile
    >>> from adadim.testing import check_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = check_log(folder)
    >>> report.failed
    ()
    >>> report.passed[:4]
    ('events', 'numbers', 'transactions', 'durability')
    """
    with ExitStack() as stack:
        subject, opener, given = _opened_store(store, stack)
        tried = _StoreChecks(opener, given)
        names = checks_to_make(only, tried.checks)

        def again(name: str) -> str:
            return f"adadim.testing.check_log({subject}, only={name!r})"

        return run_checks(subject, again, {name: tried.checks[name] for name in names})


def _opened_store(store: Any, stack: ExitStack) -> tuple[str, Opener, Log | None]:
    """What is checked in words, what opens logs of it, and the log if one was given; removed with the stack."""
    if isinstance(store, Log):
        with store.transaction(write=False):
            place = store.place()
        if place.number or store.settings.dim != LOG_DIM:
            raise InvalidValueError(
                f"store must be the log of a new agent with dim = {LOG_DIM}, since checks write to it, got "
                f"{shown(str(store.path))} with {place.number} decisions and dim = {store.settings.dim}"
            )
        return str(store.path), lambda name: store, store
    if callable(store):
        return getattr(store, "__qualname__", repr(store)), store, None
    if not isinstance(store, str | os.PathLike):
        wanted = "a folder, a URL of PostgreSQL, a function that opens a log, or a log"
        raise InvalidTypeError(f"store must be {wanted}, got {shown(store)}")
    if is_url(store):
        if "#" in str(store):
            raise InvalidValueError(f"store must be a database without the name of an agent, got {shown(store)}")

        def address(name: str) -> str | Path:
            return f"{store}#{name}"
    else:
        path = as_path(store, "store")
        if not os.path.isdir(path):
            raise FileError(f"{path}: no such folder; store must be a folder, in which files of agents can be made")
        try:
            folder = Path(tempfile.mkdtemp(prefix="check-", dir=path))
        except OSError as error:
            raise FileError(f"{path}: no file can be made in this folder ({error.strerror})") from error
        stack.callback(shutil.rmtree, folder, ignore_errors=True)

        def address(name: str) -> str | Path:
            return folder / f"{name}.db"

    made: set[str] = set()

    def opener(name: str) -> Log:
        if name not in made:
            Agent.create(address(name), dim=LOG_DIM).close()
            made.add(name)
            if is_url(store):
                stack.callback(_drop, address(name))
        return open_log(address(name))

    return repr(str(store)), opener, None


def _drop(address: Any) -> None:
    """Remove an agent from its database."""
    log: Any = open_log(address)
    log.drop()
    log.close()


class _StoreChecks:
    """A store and the checks that are made of it."""

    def __init__(self, opener: Opener, given: Log | None) -> None:
        self.opener, self.given = opener, given
        self.checks: Mapping[str, Callable[[], None]] = {
            "events": self.check_events,
            "numbers": self.check_numbers,
            "transactions": self.check_transactions,
            "durability": self.check_durability,
            "one writer": self.check_one_writer,
            "readers": self.check_readers,
            "commit": self.check_commit,
            "reading": self.check_reading,
            "snapshot": self.check_snapshot,
            "fold": self.check_fold,
            "damage": self.check_damage,
            "check": self.check_check,
        }

    def new_name(self) -> str:
        """A name that no agent has."""
        return f"check-{uuid.uuid4().hex[:12]}"

    @contextmanager
    def log(self, name: str | None = None) -> Iterator[tuple[Log, LogPosition]]:
        """The log of an agent, by default a new one, and how far it goes; of all checks the same where it was given."""
        log = self.opener(name or self.new_name())
        if not isinstance(log, Log):
            raise Failure(f"the function must return a log, an adadim.agent.log.Log, got {type(log).__name__}")
        try:
            yield log, place_of(log)
        finally:
            if log is not self.given:
                log.close()

    # The checks

    def check_events(self) -> None:
        with self.log() as (log, start):
            first = start.number + 1
            with log.transaction():
                log.append(decisions(first, 3), 10.0)
                log.append([Reward(first, 0.5), Reward(first + 1, 1.0), Expiry(first + 2)], 20.0)
                log.append([Reward(first, 0.25, 0.5), LearnedRow(b"digest", 21.0, 3)], 21.0)
                log.append([Arm("a", np.array([1.0, 2.0]), 0.5, "masked")], 22.0)
                log.append([PolicyRow("{}", None, None, 0.5)], 23.0)
                log.append(decisions(first + 3, 1), 30.0)
            end = start._replace(number=first + 3, reward=start.reward + 3, expired=start.expired + 1)
            expect("the place", place_of(log), end._replace(arm=start.arm + 1, policy=start.policy + 1))
            with log.transaction(write=False):
                made = all_of(log, DECIDED, start.number)
                expect(
                    "decisions (number, time, arm, features, probability, policy)",
                    [(*row[:3], np.frombuffer(row.features).tolist(), row.probability, row.policy) for row in made],
                    [(first + at, 10.0 + (at % 3), "b", [0.5, -1.0], 0.5, 1) for at in range(4)],
                )
                expect("decisions of one offer have its number", len({row.offer for row in made}), 1)
                rewards = [(first, 20.0, 0.5, None), (first + 1, 20.0, 1.0, None), (first, 21.0, 0.25, 0.5)]
                expect("rewards", [row[1:] for row in all_of(log, ALL["rewards"], start.reward)], rewards)
                joined = all_of(log, REWARDS, start.reward)
                expect("decisions of rewards", [one.number for _, one, _ in joined], [first, first + 1, first])
                expect("expiries", [row[1:] for row in all_of(log, ALL["expired"], start.expired)], [(first + 2, 20.0)])
                expect("decisions that wait", [row.number for row in all_of(log, ALL["outstanding"])], [first + 3])
                arms = [(row.name, row.cost, row.state) for row in log.select(ARM_CHANGES, start.arm)]
                expect("arms", arms, [("a", 0.5, "masked")])
                policies = [(row.policy, row.explore) for row in all_of(log, ALL["policies"], start.policy)]
                expect("policies", policies, [("{}", 0.5)])
                expect("learned logs", log.select(ALL["learned"]), [(b"digest", 21.0, 3)])
            answer(log, first + 3)

    def check_numbers(self) -> None:
        with self.log() as (log, start):
            first = start.number + 1
            with log.transaction():
                log.append([*decisions(first, 4), Reward(first, 0.5), Reward(first + 1, 0.5)], 10.0)
            with abandoned(log):
                log.append([Reward(first + 2, 9.0), Arm("x", np.ones(2), 0.0, "active")], 11.0)
            with log.transaction():
                log.append([Reward(first + 2, 0.5), Arm("a", np.ones(2), 0.0, "active")], 12.0)
            with log.transaction(write=False):
                numbers = [row.seq for row in all_of(log, ALL["rewards"], start.reward)]
                expect("numbers of rewards", numbers, [start.reward + at for at in (1, 2, 3)])
                numbers = [row.seq for row in all_of(log, ALL["arms"], start.arm)]
                expect("numbers of arms, of which one was taken back before", numbers, [start.arm + 1])
            with log.transaction():
                log.fold(b"sums", upto=first + 3)
            with log.transaction():
                log.append([Reward(first + 3, 0.5)], 13.0)
            with log.transaction(write=False):
                numbers = [row.seq for row in all_of(log, ALL["rewards"])]
                expect("numbers of rewards after three were dropped", numbers, [start.reward + 4])

    def check_transactions(self) -> None:
        with self.log() as (log, start):
            first = start.number + 1
            with log.transaction():
                log.append(decisions(first, 2), 10.0)
            before = place_of(log)
            for error in (KeyError(), KeyboardInterrupt()):
                with abandoned(log, error):
                    log.append([*decisions(first + 2, 2), Reward(first, 0.5)], 11.0)
                    expect(
                        "the place in the transaction",
                        log.place(),
                        before._replace(number=first + 3, reward=start.reward + 1),
                    )
                what = f"after a transaction that {type(error).__name__} ended"
                expect(f"the place {what}", place_of(log), before)
                with log.transaction(write=False):
                    expect(f"decisions {what}", numbers_of(log, DECIDED, start.number), [first, first + 1])
                    expect(f"decisions that wait {what}", numbers_of(log, ALL["outstanding"]), [first, first + 1])
            answer(log, first, first + 1)

    def check_durability(self) -> None:
        with self.two_logs() as (log, other, thread):
            start = place_of(log)
            with log.transaction():
                log.append([*decisions(1, 2), Reward(1, 0.5)], 10.0)
            seen = thread.submit(place_of, other).result(PATIENCE_SECONDS)
            expect("the place for another process", seen, start._replace(number=2, reward=1))
            log.close()

            def rewards() -> list[float]:
                with other.transaction(write=False):
                    return [row.reward for row in all_of(other, ALL["rewards"])]

            found = thread.submit(rewards).result(PATIENCE_SECONDS)
            expect("rewards after the log was closed", found, [0.5])

    @contextmanager
    def two_logs(self) -> Iterator[tuple[Log, Log, ThreadPoolExecutor]]:
        """The log of a new agent twice, as two processes have it; the second is used by a thread of its own."""
        if self.given is not None:
            raise NotApplicable("it needs a second connection: give a function that opens logs", "skipped")
        name = self.new_name()
        with ThreadPoolExecutor(1) as thread, self.log(name) as (log, _):
            other = thread.submit(self.opener, name).result(PATIENCE_SECONDS)
            try:
                yield log, other, thread
            finally:
                thread.submit(other.close)

    def check_one_writer(self) -> None:
        inside = threading.Event()

        def write() -> int:
            with other.transaction():
                inside.set()
                seen = other.place().number
                other.append(decisions(seen + 1, 1), 11.0)
            return seen

        with self.two_logs() as (log, other, thread):
            with log.transaction():
                log.append(decisions(1, 1), 10.0)
                second = thread.submit(write)
                if inside.wait(WAIT_SECONDS):
                    raise Failure("two transactions that write were open at once: the second must wait for the first")
            expect("decisions that the second writer found", second.result(PATIENCE_SECONDS), 1)
            with log.transaction(write=False):
                expect("decisions of both writers", numbers_of(log, DECIDED), [1, 2])

    def check_readers(self) -> None:
        def write() -> None:
            with other.transaction():
                other.append(decisions(2, 1), 11.0)

        with self.two_logs() as (log, other, thread):
            start = place_of(log)
            with log.transaction():
                log.append(decisions(1, 1), 10.0)
                try:
                    seen = thread.submit(place_of, other).result(PATIENCE_SECONDS)
                except FutureTimeout:
                    raise Failure(f"a reader waited for a writer, for {PATIENCE_SECONDS:g} seconds") from None
                expect("the place for a reader while another process writes", seen, start)
            with log.transaction(write=False):
                before = log.place()
                written = thread.submit(write)
                wait([written], PATIENCE_SECONDS)
                expect("the place later in the transaction of a reader", log.place(), before)
                expect("decisions later in it", numbers_of(log, ALL["decisions"]), [1])
            written.result(PATIENCE_SECONDS)
            expect("the place in its next transaction", place_of(log), before._replace(number=2))

    def check_commit(self) -> None:
        with self.log() as (log, start):
            first, calls = start.number + 1, 0

            def decide(draws: Sequence[int] | None) -> list[LoggedDecision]:
                nonlocal calls
                calls += 1
                if draws is not None and len(set(draws)) != 2:
                    raise Failure(f"two decisions must have two random streams, got draws = {list(draws)}")
                drawn = [None, None] if draws is None else draws
                return [one._replace(draw=draw) for one, draw in zip(decisions(first, 2), drawn, strict=True)]

            def fail() -> None:
                log.append([Arm("x", np.ones(LOG_DIM), 0.0, "active")], 20.0)
                raise KeyError

            with suppress(KeyError):
                log.commit(2, decide, fail)
            expect("the place after a commit that failed", place_of(log), start)
            made = log.commit(2, decide, lambda: log.append([Arm("a", np.ones(LOG_DIM), 0.0, "active")], 20.0))
            expect("how often decisions were made in two commits", calls, 2)
            expect("numbers of the decisions", [one.number for one in made], [first, first + 1])
            place = place_of(log)
            expect("the place after a commit", place, start._replace(number=first + 1, arm=start.arm + 1))

            answer(log, first, first + 1)
        if self.given is None:
            self._check_others_decide()

    def _check_others_decide(self) -> None:
        """Decisions get later numbers where another process has decided meanwhile."""
        first = 1

        def decide(draws: Sequence[int] | None) -> list[LoggedDecision]:
            nonlocal first
            if draws is not None:  # the log is not locked
                first = 3
                thread.submit(other.commit, 2, lambda draws: decisions(1, 2, draws), lambda: None).result(
                    PATIENCE_SECONDS
                )
            return decisions(1, 2, draws)

        with self.two_logs() as (log, other, thread):
            made = log.commit(2, decide, lambda: None)
            numbers = [one.number for one in made]
            expect("numbers of decisions after those of another process", numbers, [first, first + 1])
            with log.transaction(write=False):
                expect("decisions of both", numbers_of(log, DECIDED), list(range(1, first + 2)))

    def check_reading(self) -> None:
        with self.log() as (log, start):
            first = start.number + 1
            order = [first + at for at in (8, 2, 4, 0, 1, 6)]
            with log.transaction():
                log.append(decisions(first, 9), 10.0)
                log.append([Reward(number, float(number)) for number in order], 20.0)
            with log.transaction(write=False):
                found = [row.number for batch in log.read(DECIDED, first, first + 7) for row in batch]
                expect(f"decisions after {first} and up to {first + 7}", found, [first + at for at in range(1, 8)])
                found = [row.decision for batch in log.read(REWARDS_BY_DECISION) for row in batch]
                found = [number for number in found if number >= first]
                expect("decisions of rewards in the order of decisions", found, sorted(order))
                found = [row.decision for batch in log.read(ALL["rewards"], start.reward) for row in batch]
                expect("decisions of rewards in the order of rewards", found, order)
            answer(log, *(first + at for at in (3, 5, 7)))

    def check_snapshot(self) -> None:
        with self.log() as (log, _):
            for body in (b"one", b"two"):
                written = Snapshot(LogPosition(0, 2, 1, 1), body, b"asked", b"")
                with log.transaction():
                    log.write_snapshot(written)
                with abandoned(log):
                    log.write_snapshot(written._replace(body=b"taken back"))
                with log.transaction(write=False):
                    expect("the snapshot", log.snapshot(), written)

    def check_fold(self) -> None:
        with self.log() as (log, start):
            if start.number:
                with log.transaction():
                    log.fold(b"earlier", upto=start.number)
                start = place_of(log)
            first = start.number + 1
            with log.transaction():
                log.append([*decisions(first, 4), Reward(first, 0.5), Reward(first + 2, 0.5)], 20.0)
            with log.transaction():
                expect("how many decisions were dropped", log.fold(b"sums", upto=first + 2), 2)
            log.shrink()
            place = start._replace(generation=start.generation + 1, number=first + 3, reward=start.reward + 2)
            expect("the place after a fold", place_of(log), place)
            with log.transaction(write=False):
                expect("decisions that are left", numbers_of(log, DECIDED), [first + 1, first + 3])
                expect("rewards that are left", all_of(log, ALL["rewards"]), [])
                expect("the sums", log.select(ALL["folded"]), [(place.generation, first + 2, b"sums")])
            changed = replace(log.settings, arms=log.settings.arms + 1)
            with log.transaction():
                log.fold(b"other", settings=changed)
            expect("the generation after settings were replaced", place_of(log).generation, place.generation + 1)
            expect("the settings", log.settings, changed)
            answer(log, first + 1, first + 3)

    def check_damage(self) -> None:
        with self.log() as (log, start):
            if not isinstance(log, TableLog):
                raise NotApplicable("only rows of a TableLog can be damaged from here", "skipped")
            with abandoned(log):
                log.append(decisions(start.number + 1, 1), 10.0)
                checksum = 1  # of no such row
                log._write_rows("rewards", [(start.reward + 1, start.number + 1, 10.0, 0.5, None, checksum)])
                try:
                    rows = all_of(log, ALL["rewards"], start.reward)
                except FileError:
                    return
                raise Failure(f"a row whose checksum is wrong must be a FileError, got {rows}")

    def check_check(self) -> None:
        with self.log() as (log, start):
            with log.transaction(write=False):
                log.check()
            with abandoned(log):
                try:
                    log.append([Reward(start.number + 7, 0.5)], 10.0)
                    log.check()
                except FileError:
                    return
                raise Failure("check() must be a FileError where a decision has a reward and is not there")


def decisions(first: int, count: int, draws: Sequence[int] | None = None) -> list[LoggedDecision]:
    """Decisions of one offer with the numbers from `first` on."""
    chosen = "b", OFFERED_ROUND.arm_features[1], 0.5, 1, OFFERED_ROUND
    drawn = [None] * count if draws is None else draws
    return [LoggedDecision(first + at, 10.0 + at, *chosen, draw=draw) for at, draw in enumerate(drawn)]


def place_of(log: Log) -> LogPosition:
    """How far a log goes."""
    with log.transaction(write=False):
        return log.place()


def all_of(log: Log, query: Query, since: int = 0) -> list[Any]:
    """All that a query finds after a number."""
    return log.select(query, since, LAST_ROW, 1000)


def numbers_of(log: Log, query: Query, since: int = 0) -> list[int]:
    """Numbers of all decisions that a query finds after one."""
    return [row.number for row in all_of(log, query, since)]


def answer(log: Log, *numbers: int) -> None:
    """End the waiting of decisions, so that they do not concern the checks that follow on the same log."""
    with log.transaction():
        log.append([Expiry(number) for number in numbers], 40.0)


@contextmanager
def abandoned(log: Log, error: BaseException | None = None) -> Iterator[None]:
    """A transaction that an exception ends."""
    error = error or KeyError()
    with suppress(type(error)), log.transaction():
        yield
        raise error


def expect(what: str, found: Any, expected: Any) -> None:
    """Compare what a store gives with what it should."""
    if found != expected:
        raise Failure(f"{what}: expected {expected}, found {found}")
