"""The progress bar of a long run, in terminals and notebooks, and objects as HTML."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from html import escape
from types import TracebackType
from typing import Any

SECONDS_BEFORE_BAR = 2.0  # that a run takes before it shows a bar by itself
MAX_LABEL = 30  # characters of a name in the bar
LONGEST_VALUE = 300  # characters of a value in HTML


def is_interactive() -> bool:
    """Whether standard error is a terminal, or the output of a notebook's cell."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def in_notebook() -> bool:
    """Whether this Python is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and hasattr(running, "kernel")


class Bar:
    """A progress bar of rounds, with the time left; `wanted` shows it at once (True) or never (False)."""

    def __init__(self, name: str, wanted: bool | None = None) -> None:
        self.name = name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 3]}..."
        self._allowed = wanted is not False and is_interactive()
        self._show_from = time.monotonic() + (0.0 if wanted else SECONDS_BEFORE_BAR)
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, done: int, total: int, beside: str = "") -> None:
        """Set the number of rounds done, the number of all rounds, and the text beside the name."""
        if not self._allowed or (self._progress is None and time.monotonic() < self._show_from):
            return
        if self._progress is None:
            self._progress = _rich_bar()
            self._task = self._progress.add_task(self.name, completed=done, total=total)
            self._progress.start()
        self._progress.update(self._task, completed=done, total=total, description=self._text(done, total, beside))

    def _text(self, done: int, total: int, beside: str) -> str:
        """The name and the text beside it, or that text alone where both would leave too little room for the bar."""
        both = f"{self.name}, {beside}" if beside else self.name
        bar_width = len(f"{done:,} of {total:,} rounds") + 33  # with a short bar, both times and what is between them
        return beside if beside and len(both) + bar_width > self._progress.console.width else both


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rounds"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # Without ipywidgets rich has no way of its own to redraw in a notebook; the terminal's way works there too.
    options: dict[str, Any] = {"force_jupyter": False, "force_terminal": True, "width": 100} if in_notebook() else {}
    return Progress(*columns, console=Console(stderr=True, **options))


def html_table(heading: str, rows: Mapping[str, Any]) -> str:
    """HTML of a heading and a small table of names and values; values that are None are left out."""
    left = 'style="text-align: left"'
    cells = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(_value_text(value))}</td></tr>"
        for name, value in rows.items()
        if value is not None
    )
    return f"<div><strong>{escape(heading)}</strong><table>{cells}</table></div>"


def _value_text(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} ..."
