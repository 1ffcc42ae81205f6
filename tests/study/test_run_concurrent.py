"""Several runs at once in one folder."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from small_studies import six_cells

from adadim.study import engines, load, run, status

COUNTED = """
import pathlib, sys, time
from adadim.study import Study, engines, run
real, count, at_work, deadline = engines.simulate, 0, pathlib.Path(sys.argv[4]), time.monotonic() + 45
def counted(policy, instance, **options):
    global count
    count += len(instance.problem)
    (at_work / sys.argv[5]).touch()
    while len(list(at_work.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)  # until the other has a block to compute too
    return real(policy, instance, **options)
engines.simulate = counted
study = Study.from_toml(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
run(study, sys.argv[2], jobs=1, batch=int(sys.argv[3]))
print(count)
"""


@pytest.mark.parametrize("batches", [(2, 2), (3, 4)])
def test_two_runs_at_once_share_the_work(tmp_path, batches):
    study = six_cells(trials=12)
    file, folder, at_work = tmp_path / "small.toml", tmp_path / "shared", tmp_path / "at work"
    file.write_text(study.to_toml())
    at_work.mkdir()
    command = [sys.executable, "-c", COUNTED, str(file), str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [
        subprocess.Popen([*command, str(batch), str(at_work), name], **pipes)
        for batch, name in zip(batches, ("one", "other"), strict=True)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    counts = [int(child.communicate(timeout=60)[0]) for child in children]
    assert sum(counts) == len(study.cells) * study.trials
    assert min(counts) > 0
    assert load(folder).frame().equals(run(study, tmp_path / "alone", jobs=1).frame())


def test_two_threads_take_turns(tmp_path, monkeypatch):
    computed, real = [], engines.simulate

    def counted(policy, instance, **options):
        computed.append(policy)
        time.sleep(0.005)
        return real(policy, instance, **options)

    monkeypatch.setattr(engines, "simulate", counted)
    threads = [threading.Thread(target=run, args=(six_cells(), tmp_path, 1, 1)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(computed) == 30
    assert status(tmp_path).complete


HOLDER = """
import sys, time
from adadim.study.store import Store
with Store(sys.argv[1]).claims.hold(sys.argv[2], (0, 5)):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_run_leaves_to_others_what_they_compute_and_takes_over_when_they_die(tmp_path):
    (tmp_path / "blocks").mkdir()
    command = [sys.executable, "-c", HOLDER, str(tmp_path), six_cells().cells[0].id]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    units = []

    def progress(done, total, unit):
        units.append(unit)
        if done == 5:
            holder.kill()

    run(six_cells(), tmp_path, jobs=1, batch=8, progress=progress)
    assert len(units) == 7
    assert units[-1].cell.id == six_cells().cells[0].id
    assert status(tmp_path).complete
    holder.communicate()
