"""What the command `adadim` does before anything else is imported: report errors of the imports in one line.

Imports take a second, in which Ctrl-C or a lack of files would show as a traceback. Nothing here concerns programs that
import the library.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType


def is_command() -> bool:
    """Whether this process is the command `adadim`, or ``python -m adadim``."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    if name == "-m":  # Python looks for the module, whose name is not in sys.argv yet
        return ("-m", "adadim") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return os.path.splitext(name)[0] == "adadim"


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


def interrupt_as_usual() -> None:
    """From now on, when all is imported, Ctrl-C raises KeyboardInterrupt, so that a command can clean up."""
    if signal.getsignal(signal.SIGINT) is _end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    """End by the signal itself: an exception could be swallowed, or become another, where Python imports."""
    if sys.stderr is not None:
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _is_worker() -> bool:
    """Whether another process started this one to work for it, by multiprocessing."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


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
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, by nohup for example
    if usual and threading.current_thread() is threading.main_thread() and not _is_worker():
        signal.signal(signal.SIGINT, _end_at_once)
