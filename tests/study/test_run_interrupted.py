"""Kills and Ctrl-C: what is finished is kept, and the next run goes on from there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from small_studies import blocks, contents, done_by, six_cells

from adadim.study import run

CHILD = """
import io, sys, time
from adadim.core import files
from adadim.study import Study, run

class Slow(io.FileIO):  # most of the time is spent half-way through a file
    def write(self, data):
        super().write(data[: len(data) // 2])
        time.sleep(0.02)
        super().write(data[len(data) // 2 :])

files.open = lambda path, mode: Slow(path, mode.replace("b", ""))
run(Study.from_toml(sys.argv[1]), sys.argv[2], jobs=int(sys.argv[3]), batch=1)
time.sleep(60)
"""


def test_ten_kills_in_a_row_then_completed_gives_the_bytes_of_an_uninterrupted_run(tmp_path):
    study = six_cells(trials=20)
    file, folder = tmp_path / "small.toml", tmp_path / "killed"
    file.write_text(study.to_toml())
    run(study, tmp_path / "whole", jobs=1, batch=1)
    moments, unit_count = random.Random(), len(study.cells) * study.trials
    for attempt in range(10):
        jobs = 2 if attempt in (3, 7) else 1
        command = [sys.executable, "-c", CHILD, str(file), str(folder), str(jobs)]
        child = subprocess.Popen(command, start_new_session=True)
        wanted = len(blocks(folder)) + moments.randint(1, 5)
        deadline = time.monotonic() + 30
        while len(blocks(folder)) < wanted and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.02))
        os.killpg(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        assert wanted <= len(blocks(folder)) < unit_count
    run(study, folder, jobs=2, batch=1)
    assert contents(folder) == contents(tmp_path / "whole")


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_what_is_finished(tmp_path, jobs):
    finished = []

    def interrupt(done, total, unit):
        if done:
            finished.append(unit.id)
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(six_cells(), tmp_path / "results", jobs=jobs, batch=1, progress=interrupt)
    stored = {path.stem for path in (tmp_path / "results" / "blocks").glob("*.parquet")}
    assert set(finished) <= stored
    rest = done_by(six_cells(), tmp_path / "results", jobs=1, batch=1)
    assert len(rest) == 30 - len(stored)
    run(six_cells(), tmp_path / "whole", jobs=1, batch=1)
    assert contents(tmp_path / "results") == contents(tmp_path / "whole")
