"""What was tried and what failed; everything is tried through `Tally`."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from typer.testing import CliRunner

from adadim import AdadimError, cli

LIMIT = 60  # seconds of work, or ten times as many on the wall, after which something counts as hanging


class HangError(BaseException):
    """Something took longer than `LIMIT`."""


@dataclass
class Tally:
    """Number of things tried, and what went wrong with some."""

    tried: int = 0
    failures: list[str] = field(default_factory=list)

    def expect(self, ok: bool, what: str) -> None:
        """Count a try; `what` says what it was."""
        self.tried += 1
        if not ok:
            self.failures.append(what)

    def attempt(self, what: str, action: Callable[[], Any], names: tuple[str, ...] = ()) -> Any:
        """Call `action`, which may succeed or raise an AdadimError that has one of `names` in it; gives its result."""
        self.tried += 1
        try:
            with _limited(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return action()
        except AdadimError as error:
            if names and not any(name in str(error) for name in names):
                self.failures.append(f"{what}: does not name the value: {error}")
        except HangError:
            self.failures.append(f"{what}: hangs")
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {str(error)[:200]} ({where.filename.rpartition('/')[2]}:{where.lineno})"
            self.failures.append(f"{what}: {reason}")
        return None

    def command(self, *arguments: object) -> tuple[int, str]:
        """Call the command in this process; gives its exit code and what it complained of."""
        what = f"adadim {' '.join(map(str, arguments))[:150]}"
        result: Any = self.attempt(what, lambda: CliRunner().invoke(cli.app, [str(a) for a in arguments]))
        if result is None:
            return -1, ""
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            self.failures.append(f"{what}: {type(result.exception).__name__}: {str(result.exception)[:200]}")
        elif (
            result.exit_code and not result.stderr.startswith(("error: ", "Usage:", "warning: ")) and not result.stdout
        ):
            self.failures.append(f"{what}: exit code {result.exit_code} without a word")
        return result.exit_code, result.stderr


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Interrupt what hangs, where the system can."""
    if sys.platform == "win32":
        yield
        return

    worked, waited = time.process_time(), time.monotonic()

    def stop(*_: object) -> None:
        # A signal of an earlier clock may come late.
        if time.process_time() - worked > 0.9 * LIMIT or time.monotonic() - waited > 9 * LIMIT:
            raise HangError

    clocks = {signal.SIGPROF: (signal.ITIMER_PROF, LIMIT), signal.SIGALRM: (signal.ITIMER_REAL, 10 * LIMIT)}
    before = {number: signal.signal(number, stop) for number in clocks}
    for clock, seconds in clocks.values():
        signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        for number, (clock, _) in clocks.items():
            signal.setitimer(clock, 0)
            signal.signal(number, before[number])
