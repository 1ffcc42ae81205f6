"""What a check found: which parts passed, failed or do not apply, and how to see a failure again."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from adadim.core.checks import shown, suggestion
from adadim.errors import InvalidTypeError, InvalidValueError

CheckOutcome = Literal["passed", "failed", "refused", "skipped"]
HERE = Path(__file__).parent


class Failure(AssertionError):
    """What a check found wrong, in one sentence."""


class NotApplicable(Exception):
    """A check that does not apply: what is checked says that it cannot do it, or the check was not made."""

    def __init__(self, reason: str, outcome: CheckOutcome = "refused") -> None:
        super().__init__(reason)
        self.outcome: CheckOutcome = outcome


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes
    ----------
    name : str
        Its name, which `only` takes.
    outcome : {"passed", "failed", "refused", "skipped"}
        "refused" where what is checked says that it cannot do this, "skipped" where it was not tried.
    message : str
        What is wrong, or why it does not apply; empty if it passed.
    again : str
        Python that makes this check alone.
    """

    name: str
    outcome: CheckOutcome
    message: str = ""
    again: str = ""


@dataclass(frozen=True)
class Report:
    """What `check_policy` or `check_log` found; printed, it names what failed and how to see it again.

    Attributes
    ----------
    subject : str
        What was checked.
    checks : tuple of Check
        The outcome of each check.
    plays : mapping
        Of a policy: which kinds of problems it plays and what it can do there, e.g. ``plays["contexts"]``. What was not
        tried is not in it.
    """

    subject: str
    checks: tuple[Check, ...]
    plays: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that failed."""
        return self._names("failed")

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of the checks that passed."""
        return self._names("passed")

    def _names(self, outcome: CheckOutcome) -> tuple[str, ...]:
        return tuple(check.name for check in self.checks if check.outcome == outcome)

    def __str__(self) -> str:
        tried = len(self.failed) + len(self.passed)
        if self.failed:
            lines = [f"{self.subject} failed {len(self.failed)} of {tried} checks"]
        else:
            lines = [f"{self.subject} passed {tried} checks"]
        for check in self.checks:
            if check.outcome == "failed":
                lines += [f"FAILED {check.name}: {check.message}", f"    to reproduce: {check.again}"]
        lines += [f"passed: {', '.join(self.passed)}"] if self.passed else []
        others = [check for check in self.checks if check.outcome in ("refused", "skipped")]
        return "\n".join([*lines, *(f"{check.outcome} {check.name}: {check.message}" for check in others)])


class ConformanceError(AssertionError):
    """A policy or a store that does not do what it must; the message is the report, which is also in `report`."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


def checks_to_make(only: Any, names: Collection[str]) -> tuple[str, ...]:
    """The checks to make; by default all."""
    if only is None:
        return tuple(names)
    wanted = list(only) if isinstance(only, (list, tuple, set, frozenset)) else [only]
    if not all(isinstance(name, str) for name in wanted):
        raise InvalidTypeError(f"only must be the name of a check or a list of names, got {shown(only)}")
    for name in wanted:
        if name not in names:
            raise InvalidValueError(f"only: there is no check {shown(name)}; {suggestion(name, names)}")
    if not wanted:
        raise InvalidValueError("only must name a check at least, got an empty list")
    return tuple(dict.fromkeys(wanted))


def run_checks(
    subject: str,
    again: Callable[[str], str],
    checks: Mapping[str, Callable[[], None]],
    plays: Callable[[], Mapping[str, bool]] = dict,
) -> Report:
    """Make the checks and raise a `ConformanceError` if one fails; `again` gives the call that makes one of them alone.

    `plays` is called at the end.
    """
    found: list[Check] = []
    first: Exception | None = None
    for name, check in checks.items():
        call = again(name)
        try:
            check()
        except NotApplicable as reason:
            found.append(Check(name, reason.outcome, str(reason), call))
        except Exception as error:  # whatever the code that is checked raises
            first = first or error
            found.append(Check(name, "failed", _cause_in_words(error), call))
        else:
            found.append(Check(name, "passed", "", call))
    report = Report(subject, tuple(found), MappingProxyType(dict(plays())))
    if report.failed:
        raise ConformanceError(report) from first
    return report


def _cause_in_words(error: BaseException) -> str:
    """What went wrong; of an error that no check expects, also the line of the code checked that raised it."""
    if type(error) is Failure:
        cause = error.__cause__
        return str(error) if cause is None else f"{error}: {_cause_in_words(cause)}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if HERE not in Path(frame.filename).parents]
    at = f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno})" if inside else ""
    return f"{type(error).__name__}: {error}{at}"
