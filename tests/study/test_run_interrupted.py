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

# Imports take longer than all else, so one process makes them and forks for each line that it is sent: the child runs
# the study with so many jobs until it is killed. It says the number of the child, and how that ended.
NURSERY = """
import io, os, sys, time
from adadim.core import files
from adadim.study import Study, run

class Slow(io.FileIO):  # most of the time is spent half-way through a file
    def write(self, data):
        super().write(data[: len(data) // 2])
        time.sleep(0.02)
        super().write(data[len(data) // 2 :])

files.open = lambda path, mode: Slow(path, mode.replace("b", ""))
for jobs in sys.stdin:
    child = os.fork()
    if child == 0:
        os.setsid()
        run(Study.from_toml(sys.argv[1]), sys.argv[2], jobs=int(jobs), batch=1)
        time.sleep(60)
        sys.exit()
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_ten_kills_in_a_row_then_completed_gives_the_bytes_of_an_uninterrupted_run(tmp_path):
    study = six_cells(trials=20)
    file, folder = tmp_path / "small.toml", tmp_path / "killed"
    file.write_text(study.to_toml())
    run(study, tmp_path / "whole", jobs=1, batch=1)
    moments, unit_count = random.Random(), len(study.cells) * study.trials
    command = [sys.executable, "-c", NURSERY, str(file), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as nursery:
        for attempt in range(10):
            nursery.stdin.write("2\n" if attempt in (3, 7) else "1\n")
            child = int(nursery.stdout.readline())
            wanted = len(blocks(folder)) + moments.randint(1, 5)
            deadline = time.monotonic() + 30
            while len(blocks(folder)) < wanted and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(moments.uniform(0, 0.02))
            os.killpg(child, signal.SIGKILL)
            assert int(nursery.stdout.readline()) == -signal.SIGKILL
            assert wanted <= len(blocks(folder)) < unit_count
        nursery.stdin.close()
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
