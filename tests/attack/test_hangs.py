"""What the attack takes for hanging: work without end, and waiting without end."""

import signal
import sys
import time

import pytest

from attack import tally


def work():
    while True:
        pass


def wait():
    time.sleep(100)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("action", [work, wait])
def test_what_never_ends_is_interrupted(monkeypatch, action):
    monkeypatch.setattr(tally, "LIMIT", 0.05)
    tried = tally.Tally()
    tried.attempt("it", action)
    assert tried.failures == ["it: hangs"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_signal_that_comes_late_is_not_a_hang():
    tried = tally.Tally()
    assert tried.attempt("it", lambda: signal.raise_signal(signal.SIGALRM) or "done", ("nothing",)) == "done"
    assert tried.failures == []
