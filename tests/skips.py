"""The line at the end of a test run that says what was skipped."""

from collections import Counter

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the outermost wrapper, so that the line comes last
def pytest_terminal_summary(terminalreporter):
    """Say in one line how many tests were skipped and why, the most frequent reason first."""
    yield
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    if reasons:
        listed = ", ".join(f"{count} ({reason})" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"skipped {len(reports)}: {listed}")
