"""What a round does in Python: at once, or after each replay of a recording."""

import threading

import numpy as np
import pytest

from adadim.core.recording import Recorder, on_host


class Tape(Recorder):
    """Records by running the function, and replays by noting that it did."""

    def __init__(self, function, log):
        super().__init__(function, np.zeros(1))
        self.records, self.log = True, log

    def record(self):
        self.function()
        return self

    def replay(self):
        self.log.append("replay")


def test_outside_a_recording_it_happens_at_once():
    log = []
    on_host(lambda: log.append("done"))
    log.append("after")
    assert log == ["done", "after"]


def test_a_recorded_round_acts_after_every_replay():
    log = []

    def a_round():
        log.append("operations")
        on_host(lambda: log.append("first"))
        on_host(lambda: log.append("second"))

    tape = Tape(a_round, log)
    tape("name")  # the first call may still set things up: it is an ordinary one
    assert log == ["operations", "first", "second"]
    log.clear()
    tape("name")
    assert log == ["operations", "replay", "first", "second"]
    log.clear()
    for _ in range(2):
        tape("name")
    assert log == ["replay", "first", "second"] * 2


def test_every_sequence_has_actions_of_its_own():
    log, now = [], {"name": "a"}

    def a_round():
        name = now["name"]
        on_host(lambda: log.append(name))

    tape = Tape(a_round, log)
    for name in "abababa":
        now["name"] = name
        tape(name)
    assert log == ["a", "b", "replay", "a", "replay", "b", "replay", "a", "replay", "b", "replay", "a"]


def test_a_round_without_a_name_is_never_recorded():
    log = []
    tape = Tape(lambda: on_host(lambda: log.append("done")), log)
    for _ in range(3):
        tape(None)
    assert log == ["done"] * 3


def test_a_recording_that_fails_ends():
    log = []

    class Broken(Tape):
        def record(self):
            raise ValueError("no recording today")

    tape = Broken(lambda: on_host(lambda: log.append("done")), log)
    tape("name")
    with pytest.raises(ValueError, match="no recording today"):
        tape("name")
    on_host(lambda: log.append("at once"))
    assert log == ["done", "at once"]


def test_another_thread_does_not_record():
    log = []

    def a_round():
        other = threading.Thread(target=lambda: on_host(lambda: log.append("other thread")))
        other.start()
        other.join()
        on_host(lambda: log.append("this thread"))

    tape = Tape(a_round, log)
    tape("name")
    log.clear()
    tape("name")
    assert log == ["other thread", "replay", "this thread"]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_host_records_nothing(library, request):
    reference = np.zeros(1) if library == "numpy" else request.getfixturevalue("torch").zeros(1)
    calls = []
    recorder = Recorder(lambda: calls.append(1), reference)
    assert not recorder.records
    for _ in range(4):
        recorder("name")
    assert len(calls) == 4
