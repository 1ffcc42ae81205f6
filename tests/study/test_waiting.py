"""A run that waits for another one says for whom, and for how long."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_studies import one_instance

from adadim import StoreWarning
from adadim.study import claims, run
from adadim.study.store import Store

HOLDER = """
import sys, time
from adadim.study.store import Store
store = Store(sys.argv[1])
with store.claims.registered(), store.claims.hold(sys.argv[2], (0, 2)) as claimed:
    print(claimed, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(folder):
    """A process that holds the right to compute a block which is missing."""
    cell = one_instance().cells[0].id
    (folder / "blocks" / f"{cell}-000000-000002.parquet").unlink()
    command = [sys.executable, "-c", HOLDER, folder, cell]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "True\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks and signals")
def test_a_run_says_for_whom_it_waits(folder, holder, monkeypatch):
    monkeypatch.setattr(claims, "WARN_AFTER_SECONDS", 0.3)
    monkeypatch.setattr(claims, "WARN_EVERY_SECONDS", 0.4)
    os.kill(holder.pid, signal.SIGSTOP)
    said = []

    def note(message, *_, **__):
        said.append(str(message))
        if len(said) == 2:
            holder.kill()

    monkeypatch.setattr("warnings.showwarning", note)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.filters", [("always", None, StoreWarning, None, 0)])
        run(one_instance(), folder, jobs=1, batch=2)
    assert len(said) == 2
    pattern = rf".*: waiting since \d+ s for process {holder.pid} on {re.escape(socket.gethostname())}"
    for message in said:
        assert re.match(pattern, message), message
        if sys.platform == "linux":
            assert f"stopped: kill -CONT {holder.pid}" in message


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
def test_runs_are_listed_while_they_last(folder, holder):
    own, other = (f".run {number} {socket.gethostname()}" for number in (os.getpid(), holder.pid))

    def listed():
        return {path.name for path in (folder / "blocks").glob(".run*")}

    with Store(folder).claims.registered():
        assert listed() == {own, other}
    assert listed() == {other}
    assert Store(folder).claims.others() == [f"process {holder.pid} on {socket.gethostname()}"]
    holder.kill()
    holder.wait()
    assert Store(folder).claims.others() == []
    with Store(folder).claims.registered():
        assert listed() == {own}
    for name in (".run \N{SNOWMAN} nonsense", ".run 99999999999999999999 here", ".run -1 x", ".run "):
        (folder / "blocks" / name).touch()
    assert Store(folder).claims.others() == []
    assert listed() == set()


ASKER = """
import sys
from adadim.study.store import Store
with Store(sys.argv[1]).claims.hold(sys.argv[2], (0, 2)) as claimed:
    print(claimed)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
def test_a_claim_outlasts_whatever_else_uses_the_lock_file(folder):
    """Closing a file gives up all locks that a process has on it, also those taken through another handle."""
    cell, store, again = "0" * 20, Store(folder), Store(folder / ".." / folder.name)

    def free_for_others():
        command = [sys.executable, "-c", ASKER, folder, cell]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with store.claims.hold(cell, (0, 2)) as claimed:
        assert claimed
        store.claims.others()
        assert free_for_others() == "False\n"
        with again.claims.registered():
            again.claims.others()
        with again.claims.hold("1" * 20, (0, 2)) as claimed:
            assert claimed
        assert free_for_others() == "False\n"
    assert free_for_others() == "True\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
def test_a_short_wait_is_silent(folder, holder):
    began = time.monotonic()
    watcher = subprocess.Popen([sys.executable, "-c", f"import time, os; time.sleep(0.5); os.kill({holder.pid}, 9)"])
    run(one_instance(), folder, jobs=1, batch=2)  # a warning would fail the test
    watcher.wait()
    assert time.monotonic() - began > 0.3


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /dev/shm")
def test_a_run_removes_what_a_killed_one_shared(folder):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = Path(f"/dev/shm/joblib_memmapping_folder_{dead.pid}_x_y")
    semaphore = Path(f"/dev/shm/sem.loky-{dead.pid}-x")
    living = Path(f"/dev/shm/joblib_memmapping_folder_{os.getpid()}_x_y")
    for path in (left, living):
        path.mkdir()
    semaphore.touch()
    try:
        for number in (dead.pid, os.getpid()):
            (folder / "blocks" / f".run {number} {socket.gethostname()}").touch()
        with Store(folder).claims.registered():
            assert (left.exists(), semaphore.exists(), living.exists()) == (False, False, True)
    finally:
        living.rmdir()
