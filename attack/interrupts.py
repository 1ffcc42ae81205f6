"""Exceptions in the middle of an agent's calls: at any step of the code, and by signals at any moment."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import adadim
from adadim.agent import AskCall, TellCall
from attack.damage import generator
from attack.tally import Tally

ROOT = Path(__file__).resolve().parents[1]
CODE = str(Path(adadim.__file__).parent / "agent")
CONTEXT, ARM = 2, 2
CASES_PER_AGENT = 60
LOOKED_THROUGH = 10  # cases after which a fresh agent is opened, and the whole log added up anew
FIRST_SIGNALS = 0.05  # seconds up to which the first of the signals comes
STEPS, SIGNAL, SIGNALS = range(3)  # an exception at some step, one by a signal, two by signals one after the other


class Interruption(BaseException):
    """What is raised, like KeyboardInterrupt."""


class Interrupted:
    """An agent whose calls are interrupted, and what they may have done to its log.

    After each, the agent must go on as another one of the same log does, which was not interrupted, and what the call
    was to write is there wholly or not at all.
    """

    def __init__(self, address: Any, seed: int = 0, most_columns: int = 6) -> None:
        self.address, self.most_columns = address, most_columns
        self.draw, self.now = np.random.default_rng(seed), 0.0
        self.open_decisions: list[int] = []
        self.answered: list[int] = []  # at least one
        columns = [f"c{k}" for k in range(CONTEXT)]
        self.agent = adadim.Agent.create(address, context=columns, arm=ARM, expire_after=200.0, clock=self.clock)
        self.agent.set_arms({name: self.numbers(ARM) for name in "abc"})
        self.agent.learn((self.draw.normal(size=(60, self.agent.dim)), self.draw.normal(size=60)))
        self.renew()
        self.other, self.looks = adadim.Agent.open(address, clock=self.clock), 0

    def clock(self) -> float:
        """The time, which a call moves on."""
        return self.now

    def numbers(self, count: int) -> list[float]:
        """Some numbers."""
        return [float(x) for x in self.draw.normal(size=count)]

    def context(self) -> list[float]:
        """A context of as many numbers as the agent takes now."""
        return self.numbers(len(self.agent._log.settings.design.context))  # type: ignore[union-attr]

    def calls(self) -> dict[str, tuple[Callable[[], Any], dict[str, int]]]:
        """Calls by name, each with what it adds to the status if it is done."""
        agent, context = self.agent, self.context()
        arms = {"u": self.numbers(ARM), "v": self.numbers(ARM)}
        told = {number: self.numbers(1)[0] for number in self.open_decisions[-3:]}
        columns = [f"c{k}" for k in range(min(len(context) + 1, self.most_columns))]
        policies = [adadim.LinUCB(), adadim.LinTS(), adadim.EvidenceLinUCB()]
        policy = policies[int(self.draw.integers(3))]
        answers = list(told.items())
        size, corrected = agent.dim, self.answered[-1]
        log = (self.draw.normal(size=(5, size)), self.draw.normal(size=5))
        calls: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
            "ask": (lambda: agent.ask(context=context), {"decisions": 1}),
            "ask with features": (lambda: agent.ask(arms, context), {"decisions": 1}),
            "ask for a slate": (lambda: agent.ask(context=context, slots=2), {"decisions": 2}),
            "ask_many": (lambda: agent.ask_many([context] * 4), {"decisions": 4}),
            "tell_many": (lambda: agent.tell_many(told), {"rewards": len(told)}),
            "ask_and_tell": (
                lambda: agent.ask_and_tell([AskCall([context] * 2), TellCall(answers)]),
                {"decisions": 2, "rewards": len(told)},
            ),
            "correct": (lambda: agent.correct(corrected, self.numbers(1)[0]), {}),
            "learn": (lambda: agent.learn(log), {"learned": 5}),
            "set_arms": (lambda: agent.set_arms({name: self.numbers(ARM) for name in "ab"}), {}),
            "mask_arm": (lambda: agent.mask_arm("c"), {}),
            "unmask_arm": (lambda: agent.unmask_arm("c"), {}),
            "replace_policy": (lambda: agent.replace_policy(policy, noise=0.5), {"policy_version": 1}),
            "compact": (lambda: agent.compact(self.now - 50.0), {}),
            "rebuild": (lambda: agent.rebuild(), {}),
            "estimate": (lambda: agent.estimate(context=context), {}),
            "describe": (lambda: agent.describe(), {}),
            "refresh": (lambda: agent.refresh(), {}),
            "open": (lambda: adadim.Agent.open(self.address, clock=self.clock).close(), {}),
        }
        if len(columns) > len(context):
            calls["replace_features"] = (lambda: agent.replace_features(context=columns), {"policy_version": 1})
        return calls

    def interrupted(self, name: str, interrupt: Callable[[Callable[[], Any]], bool]) -> str:
        """Make a call that `interrupt` interrupts, and look at the agent; gives what is wrong, or nothing."""
        self.now += 1.0
        self.looks += 1
        other = self.other
        before = _facts(other)
        call, whole = self.calls()[name]
        done = interrupt(call)
        if self.looks % LOOKED_THROUGH == 0:  # one that has read nothing yet
            other.close()
            other = self.other = adadim.Agent.open(self.address, clock=self.clock)
        here, after = _facts(self.agent), _facts(other)
        if here != after:
            return f"the agent says {_differing(here, after)}, another {_differing(after, here)}"
        added = {key: after[key] - before[key] for key in ("decisions", "rewards", "learned", "policy_version")}
        wanted = {**dict.fromkeys(added, 0), **whole}
        if added != wanted and (done or any(added.values())):
            return f"added {added}, not {wanted}" + ("" if done else " or nothing")
        context = self.context()
        scores = [np.array(list(one.estimate(context=context).values())) for one in (self.agent, other)]
        if not np.allclose(*scores, rtol=1e-9, atol=1e-12):
            return f"estimates {scores[0].tolist()} of the agent, {scores[1].tolist()} of another"
        self.note(name, after["decisions"] + after["learned"], added)
        return ""

    def close(self) -> None:
        """Close the agents."""
        self.agent.close()
        self.other.close()

    def note(self, name: str, last: int, added: dict[str, int]) -> None:
        """Note decisions and rewards that are in the log now."""
        if added["rewards"]:
            self.answered = self.open_decisions[-3:]
            del self.open_decisions[-3:]
        self.open_decisions += range(last - added["decisions"] + 1, last + 1)
        if len(self.open_decisions) < 3 or name == "compact":  # what was folded cannot be corrected
            self.renew()

    def renew(self) -> None:
        """Decisions that can be corrected and told for a while."""
        decisions = self.agent.ask_many([self.context()] * 8)
        self.agent.tell_many({decision.id: 0.5 for decision in decisions[:2]})
        self.answered = [decision.id for decision in decisions[:2]]
        self.open_decisions = [decision.id for decision in decisions[2:]]


def _facts(agent: adadim.Agent) -> dict[str, Any]:
    """What an agent says of itself."""
    status = {key: value for key, value in agent.status().items() if key not in ("path", "bytes")}
    arms = {name: (arm.features.tolist(), arm.cost, arm.state) for name, arm in agent.arms.items()}
    return {**status, "catalogue": arms, "columns": agent.columns, "levels": agent.levels}


def _differing(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if value != other[key]}


def steps_of(call: Callable[[], Any], at: int | None = None) -> int:
    """Make a call that raises an `Interruption` at a step of the agent's code, by default at none; gives its steps."""
    count = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        if event in ("call", "line"):
            count += 1
            if count == at:
                raise Interruption
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def by_step(at: int) -> Callable[[Callable[[], Any]], bool]:
    """Interrupts a call at a step."""

    def interrupt(call: Callable[[], Any]) -> bool:
        try:
            steps_of(call, at)
        except Interruption:
            return False
        return True

    return interrupt


def _ignore(*_: object) -> None:
    """A handler that does nothing."""


def by_signal(delay: float, again: float = 0.0) -> Callable[[Callable[[], Any]], bool]:
    """Interrupts a call after a time by a signal, and once more a while later."""

    def interrupt(call: Callable[[], Any]) -> bool:
        left, done = 2 if again else 1, False

        def handle(*_: object) -> None:
            nonlocal left
            if left:
                left -= 1
                raise Interruption

        def unraisable(what: sys.UnraisableHookArgs) -> None:
            if what.exc_type is not Interruption:  # it may come where Python goes on, as in a finalizer
                hook(what)

        before, hook = signal.signal(signal.SIGALRM, handle), sys.unraisablehook
        sys.unraisablehook = unraisable
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, delay, again)
                call()
                left, done = 0, True
            except Interruption:
                pass
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interruption:  # the second one, after the call had ended by the first
            signal.setitimer(signal.ITIMER_REAL, 0)
        left, sys.unraisablehook = 0, hook
        signal.signal(signal.SIGALRM, before if callable(before) else _ignore)  # one may still be on its way
        return done

    return interrupt


def interrupts(count: int, folder: Path) -> Tally:
    """Interrupt calls of agents in files, and in PostgreSQL where there is one, each third of the cases another way."""
    tally, draw = Tally(), generator(40)
    for first, store in zip(range(0, count, CASES_PER_AGENT), _stores(folder), strict=False):
        life = Interrupted(store, int(draw.integers(2**31)))
        for case in range(first, min(first + CASES_PER_AGENT, count)):
            names = list(life.calls())
            name = names[int(draw.integers(len(names)))]
            kind = case % 3 if sys.platform != "win32" else STEPS
            if kind == STEPS:
                at = int(draw.integers(1, 40)) if draw.random() < 0.3 else int(10 ** draw.uniform(1, 3.3))
                what, interrupt = f"step {at}", by_step(at)
            else:
                delay = float(draw.uniform(1e-5, FIRST_SIGNALS) * draw.random())
                again = 0.0 if kind == SIGNAL else float(10 ** draw.uniform(-5, -3))
                what = f"a signal after {1000 * delay:.3f} ms" + (f", one {1000 * again:.3f} ms later" if again else "")
                interrupt = by_signal(delay, again)
            wrong = _tried(lambda: life.interrupted(name, interrupt))
            tally.expect(not wrong, f"case {case}, {name} in {life.address}, {what}: {wrong}")
            if wrong:
                break
            if case % LOOKED_THROUGH == 0:
                drift = tally.attempt(f"rebuild after case {case}", life.agent.rebuild, ("nothing",))
                tally.expect(drift is not None and drift < 1e-9, f"case {case}: a rebuild changes sums by {drift}")
        life.close()
    return tally


def _tried(look: Callable[[], str]) -> str:
    try:
        return look()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _stores(folder: Path) -> Iterator[Any]:
    """Addresses for agents: two files, then a database if one can be started, and so on."""
    server = _server()
    for number in range(10**6):
        in_database = server is not None and number % 3 == 2
        yield f"{server.url}#i{number}" if in_database else folder / f"interrupted{number}.db"


def _server() -> Any:
    """A PostgreSQL of one's own; None if there is none here."""
    sys.path.append(str(ROOT / "tests"))
    try:
        from postgres_server import Database

        return Database("fsync = off")
    except Exception:
        return None
    finally:
        sys.path.remove(str(ROOT / "tests"))
