"""The interrupts of the attack."""

import sys
import time

import pytest

if sys.platform == "win32":
    pytest.skip("there is no SIGALRM", allow_module_level=True)

import attack_folder  # noqa: F401  (finds the attack)

from attack.interrupts import by_signal


class Slow:
    """What takes a moment to be finalized, and may fail in it."""

    def __init__(self, error=None):
        self.error = error

    def __del__(self):
        until = time.perf_counter() + 0.02
        while time.perf_counter() < until:
            pass
        if self.error is not None:
            raise self.error


def test_a_signal_in_a_finalizer_is_nobody_elses_matter(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: seen.append(what.exc_type))
    before = sys.unraisablehook
    by_signal(0.002)(Slow)  # Python goes on after it
    assert seen == []
    assert by_signal(5.0)(lambda: Slow(ValueError("other"))) is True
    assert seen == [ValueError]
    assert sys.unraisablehook is before
