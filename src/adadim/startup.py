"""What the command `adadim` does before anything else is imported: report errors of the imports in one line.

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
    pairs = zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return os.path.splitext(name)[0] == "adadim" or ("-m", "adadim") in pairs


def open_missing_streams() -> None:
    """Open standard output and standard error where the process was started without them; what is written is lost."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open until the end)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def leave_out_current_folder() -> None:
    """Take the current folder off the path of ``python -m adadim`` and ``python -c``, which put it there first."""
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
        local_module = os.path.join(os.getcwd(), "adadim", "startup.py")
        if not (os.path.exists(local_module) and os.path.samefile(local_module, __file__)):
            del sys.path[0]


def _report_in_one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        text = "interrupted"
    elif issubclass(kind, OSError | ImportError | MemoryError):
        text = f"error: {error or kind.__name__}"
    else:
        sys.__excepthook__(kind, error, trace)
        return
    if sys.stderr is not None:
        sys.stderr.write(text + "\n")


if is_command():
    sys.excepthook = _report_in_one_line
