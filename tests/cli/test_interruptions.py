"""Ctrl-C: its exit code, and that nothing is lost."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from adadim import study
from adadim.report import figures
from adadim.study.executor import RoundCount
from command_line import STUDY, adadim_, blocks, command, contents


@pytest.mark.parametrize("where", ["run", "draw"])
def test_control_c_has_its_own_exit_code(file, where, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(*((study, "run") if where == "run" else (figures, "draw")), interrupted)
    _, error = adadim_("run", file, "--jobs", 1, code=130)
    assert error == "interrupted; finished results are kept, and the same command continues from there\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_real_control_c_loses_nothing(file, jobs):
    file.write_text(STUDY.replace("trials = 4", "trials = 400"))
    arguments = command("run", file, "--jobs", jobs, "--batch", 1, one_format=True)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    folder = Path("results/mine")
    deadline = time.monotonic() + 60
    while len(blocks(folder)) < 40 and time.monotonic() < deadline:  # by then every worker has begun
        time.sleep(0.01)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    printed, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert printed == b""
    assert b"interrupted; finished results are kept" in error
    assert b"Traceback" not in error
    # A worker that was writing at that moment may leave a temporary file, which the next run sweeps away.
    kept = {name: data for name, data in contents(folder).items() if not name.endswith(".tmp")}
    assert len(blocks(folder)) >= 4
    adadim_("status", folder, code=1)
    adadim_("run", file, "--jobs", 1, "--batch", 1, "--trials", 5, "--quiet")
    adadim_("status", folder)
    after = contents(folder)
    assert all(after[name] == data for name, data in kept.items() if name.startswith("blocks/"))
    assert not [name for name in after if name.endswith(".tmp")]


COUNTING = """
import time
from adadim.study.executor import RoundCount
with RoundCount("mine", True) as count:
    (count.folder / "unit").write_text("3")
    print(count.folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_after_a_killed_run_nothing_stays_in_the_temporary_folder(ended_by, tmp_path, monkeypatch):
    """What a run that shows its progress leaves there: nothing, or after SIGKILL what the next run removes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", COUNTING], text=True, **pipes)
    folder = Path(process.stdout.readline().strip())
    assert folder.parent == tmp_path
    process.send_signal(ended_by)
    process.communicate()
    assert folder.exists() == (ended_by == signal.SIGKILL)
    with RoundCount("next", False) as count:
        assert list(tmp_path.glob("adadim-*")) == [count.folder]
    assert list(tmp_path.glob("adadim-*")) == []
