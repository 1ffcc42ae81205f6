"""What the command `adadim` does before anything else is imported: end in one line, whatever happens meanwhile.

Imports take a second, in which Ctrl-C or a lack of files would show as a traceback. Nothing here concerns programs that
import the library.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType


def is_command() -> bool:
    """Whether this process is the command `adadim`, or ``python -m adadim``."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    module = list(zip(sys.orig_argv, sys.orig_argv[1:], strict=False))
    return os.path.splitext(name)[0] == "adadim" or ("-m", "adadim") in module


def prepare() -> None:
    """Show errors of the system and Ctrl-C in one line from here on, if this process is the command."""
    if is_command():
        sys.excepthook = _one_line


def usable_streams() -> None:
    """Open what the process was started without: output that nobody wants goes nowhere."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open until the end)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def without_current_folder() -> None:
    """Take the current folder off the path of ``python -m adadim`` and ``python -c``, which put it there first."""
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
        here = os.path.join(os.getcwd(), "adadim", "startup.py")
        if not (os.path.exists(here) and os.path.samefile(here, __file__)):
            del sys.path[0]


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        text = "interrupted"
    elif issubclass(kind, OSError | ImportError | MemoryError):
        text = f"error: {error or kind.__name__}"
    else:
        sys.__excepthook__(kind, error, trace)
        return
    if sys.stderr is not None:
        sys.stderr.write(text + "\n")


prepare()
