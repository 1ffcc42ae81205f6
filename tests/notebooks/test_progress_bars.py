"""Bars: after two seconds, where somebody looks, in rounds."""

import copy
import io
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import joblib
import numpy as np
import pytest

import adadim
from adadim.core import display
from adadim.core.display import Bar
from adadim.study import Study, run
from adadim.study.engines import reporter
from adadim.study.executor import RoundCount, rounds_of

INSTANCE = adadim.Instance(np.eye(2), theta=[0.9, 0.1], horizon=50, noise=0.1)
SPHERE = {"kind": "sphere", "arms": 12, "dim": 6, "intrinsic_dim": 2, "horizon": 40}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watched(monkeypatch, after):
    """Standard error that somebody looks at, and bars after so many seconds."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(display, "SECONDS_BEFORE_BAR", after)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


def test_a_long_run_shows_a_bar_of_rounds(monkeypatch):
    terminal = watched(monkeypatch, after=0.0)
    adadim.simulate(adadim.UCB(), INSTANCE)
    assert "UCB" in terminal.getvalue()
    assert "50 of 50 rounds" in terminal.getvalue()
    assert "left" in terminal.getvalue()


def test_a_short_run_shows_nothing(monkeypatch):
    terminal = watched(monkeypatch, after=60.0)
    adadim.simulate(adadim.UCB(), INSTANCE)
    assert terminal.getvalue() == ""
    adadim.simulate(adadim.UCB(), INSTANCE, progress=True)
    assert "50 of 50 rounds" in terminal.getvalue()


def test_no_bar_where_nobody_looks_or_wants_one(monkeypatch, capsys):
    monkeypatch.setattr(display, "SECONDS_BEFORE_BAR", 0.0)
    adadim.simulate(adadim.UCB(), INSTANCE)
    assert capsys.readouterr() == ("", "")
    terminal = watched(monkeypatch, after=0.0)
    adadim.simulate(adadim.UCB(), INSTANCE, progress=False)
    assert terminal.getvalue() == ""


def test_a_bar_in_a_notebook_needs_no_widgets(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    with Bar("mine", wanted=True) as bar:
        bar.update(3, 7)
    assert "3 of 7 rounds" in terminal.getvalue()


def test_a_narrow_terminal_shows_pace_rounds_and_time_without_the_name(monkeypatch):
    for columns, name in (("80", False), ("120", True)):
        monkeypatch.setenv("COLUMNS", columns)
        terminal = watched(monkeypatch, after=0.0)
        with Bar("a-study-with-a-long-name", wanted=True) as bar:
            bar.update(36_000, 72_000, "2 workers, 4.06 trials/s")
        shown = terminal.getvalue()
        assert ("a-study-with-a-long-name, 2 workers, 4.06 trials/s" in shown) == name
        assert "2 workers, 4.06 trials/s" in shown
        assert "36,000 of 72,000 rounds" in shown
        assert "left -:--:--" in shown.replace("\x1b[36m", "").replace("\x1b[0m", "")


def test_a_study_counts_the_rounds_of_all_trials(monkeypatch, tmp_path):
    study = Study("mine", {"easy": SPHERE}, {"a": adadim.LinUCB(), "b": adadim.UCB()}, trials=3)
    terminal = watched(monkeypatch, after=0.0)
    run(study, tmp_path, jobs=1)
    assert "240 of 240 rounds" in terminal.getvalue()


def test_rounds_under_way_count(tmp_path):
    study = Study("mine", {"easy": SPHERE}, {"a": adadim.LinUCB()}, trials=3)
    (unit,) = (adadim.study.Unit(cell, 0, 3) for cell in study.cells)
    assert rounds_of([unit]) == 120
    with RoundCount("mine", wanted=False) as count:
        assert count.plan([unit]) == [unit]
        assert count.played() == 0
        reporter(count.folder, unit)(10, 40)
        assert count.played() == 30
        count.progress(1, 1, unit)
        assert count.played() == 120
        folder = count.folder
    assert not folder.exists()
    reporter(folder, unit)(10, 40)  # the folder is gone, as on another machine: nothing happens
    assert reporter(None, unit) is False


KILLED = """
import os, signal, sys
from adadim.study.executor import RoundCount
count = RoundCount("mine", wanted=None)
print(count.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_the_folder_of_a_killed_run_is_removed_by_the_next(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    left = Path(killed.stdout.strip())
    assert left.parent == tmp_path
    assert left.is_dir()
    elsewhere = tmp_path / left.name.replace(socket.gethostname(), "another-machine")
    elsewhere.mkdir()
    with RoundCount("living", wanted=None) as living, RoundCount("mine", wanted=None) as count:
        assert sorted(tmp_path.iterdir()) == sorted([elsewhere, living.folder, count.folder])
    assert list(tmp_path.iterdir()) == [elsewhere]


def test_a_run_that_shows_no_bar_needs_no_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "mkdtemp", None)
    study = Study("mine", {"easy": SPHERE}, {"a": adadim.LinUCB()}, trials=3)
    run(study, tmp_path / "nobody looks", jobs=1)
    watched(monkeypatch, after=0.0)
    run(study, tmp_path / "not wanted", jobs=1, progress=False)


def test_a_worker_writes_no_more_often_than_the_bar_looks(monkeypatch, tmp_path):
    study = Study("mine", {"easy": SPHERE}, {"a": adadim.LinUCB()}, trials=3)
    (unit,) = (adadim.study.Unit(cell, 0, 3) for cell in study.cells)
    now = [100.0]
    monkeypatch.setattr("adadim.study.engines.time.monotonic", lambda: now[0])
    report, written = reporter(tmp_path, unit), []
    for done, seconds in ((1, 0.0), (2, 0.1), (3, 0.3), (4, 0.4), (5, 0.6)):
        now[0] = 100.0 + seconds
        report(done, 40)
        written.append((tmp_path / unit.id).read_text())
    assert written == ["3", "3", "9", "9", "15"]


def test_learners_travel_with_joblib():
    problem = adadim.Problem(np.eye(3), horizon=70, noise=0.1)
    learner = adadim.EvidenceLinUCB().start(problem)
    learner.update(learner.select(), 0.5)
    twins = joblib.Parallel(2)(joblib.delayed(copy.deepcopy)(learner) for _ in range(2))
    assert [twin.select() for twin in twins] == [learner.select()] * 2
