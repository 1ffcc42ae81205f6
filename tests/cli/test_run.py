"""The command `run`: what it computes, prints and writes, and which studies it refuses."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from adadim import study
from adadim.study import engines
from command_line import STUDY, adadim_, command, contents, refused


@pytest.mark.every_format
def test_run_computes_draws_and_sums_up(file):
    printed, error = adadim_("run", file, "--jobs", 1)
    assert error == ""
    results = study.load("results/mine")
    for kind in ("png", "pdf", "svg", "csv"):
        assert f"wrote results/mine/figures/mine.{kind}\n" in printed
        assert Path(f"results/mine/figures/mine.{kind}").stat().st_size > 0
    for policy in ("LinUCB", "adaptive", "oracle"):
        final = results.final("easy", policy)
        (line,) = [line for line in printed.splitlines() if f" {policy} " in line]
        *names, mean, std = [cell.strip() for cell in line.split("│")[1:-1]]
        assert names == ["easy", policy, "4"]
        assert float(mean) == pytest.approx(final.mean(), rel=0.005)
        assert float(std) == pytest.approx(final.std(ddof=1), rel=0.005)


def test_run_takes_another_folder_and_number_of_trials(file):
    adadim_("run", file, "--jobs", 1, "--out", "there", "--trials", 2, "--quiet")
    assert study.status("there").total == 6
    assert not Path("results").exists()
    adadim_("run", file, "--jobs", 1, "--out", "there", "--quiet")
    assert study.status("there").total == 12


def test_run_is_idempotent(results, file, monkeypatch):
    before = contents(results)
    monkeypatch.setattr(engines, "simulate", None)
    adadim_("run", file, "--jobs", 1)
    assert contents(results) == before


def test_quiet_prints_nothing(file):
    assert adadim_("run", file, "--jobs", 1, "--quiet") == ("", "")


def test_one_trial_is_enough(file):
    printed, _ = adadim_("run", file, "--jobs", 1, "--trials", 1)
    assert re.search(r"oracle +│ 1 +│ +[\d.]+ │ +- ", printed)


def test_dry_run_prints_the_study_and_writes_nothing(file):
    before = contents(Path())
    printed, _ = adadim_("run", file, "--dry-run", "--trials", 7)
    assert contents(Path()) == before
    Path("again.toml").write_text(printed)
    again = study.Study.from_toml("again.toml")
    assert again == study.Study.from_dict({**study.Study.from_toml(file).to_dict(), "trials": 7})


def test_run_with_a_policy_of_ones_own(file):
    Path("own.py").write_text(
        "from dataclasses import dataclass\nimport adadim\n\n"
        "@dataclass(frozen=True)\nclass Half(adadim.Policy):\n    ridge: float = 1.0\n\n"
        "    def learner(self, problem, streams):\n"
        "        return adadim.LinUCB(ridge=self.ridge, dim=problem.dim // 2).learner(problem, streams)\n"
    )
    file.write_text(STUDY + '\n[policies.half]\nkind = "Half"\nridge = 0.5\n')
    printed, _ = adadim_("run", file, "--plugin", "own.py", "--jobs", 1)
    assert re.search(r"easy +│ half +│ 4 ", printed)
    refused("run", file, "--jobs", 1, message=r"mine\.toml: policies\.half\.kind: no policy 'Half'")


def test_the_bar_shows_progress_and_the_time_left(file):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    arguments = command("run", file, "--jobs", 1, one_format=True)
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert process.wait(60) == 0
    assert b"mine" in seen
    assert re.search(rb"720 of 720 rounds.*left", seen)  # three policies, four trials, 60 rounds


def test_a_real_process(file):
    parts = command("run", file, "--jobs", 1, one_format=True)
    done = subprocess.run(parts, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "wrote results/mine/figures/mine.png" in done.stdout
    failed = subprocess.run(command("status", "nowhere"), capture_output=True, text=True, timeout=120)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == "error: nowhere is not a folder\n"


# Bad studies


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"LinUCBPlusPlus"', '"LinUCB+"', r"policies\.adaptive\.kind: no policy 'LinUCB\+'; did you mean 'LinUCB'\?"),
        ('"sphere"', '"spheer"', r"instances\.easy\.kind: no instances of kind 'spheer'; did you mean 'sphere'\?"),
        ("horizon", "horizn", r"instances\.easy\.horizn: sphere has no parameter .*did you mean 'horizon'\?"),
        ("beta", "betta", r"policies\.adaptive\.betta: LinUCBPlusPlus has no parameter .*did you mean 'beta'\?"),
        ("trials", "trails", r"trails: a study has no such key; did you mean 'trials'\?"),
        ("trials = 4", "trials = 0", r"trials: must be an integer of at least 1, got 0"),
        (
            "intrinsic_dim = 2",
            "intrinsic_dim = 7",
            r"instances\.easy: intrinsic_dim must be an integer in 1\.\.6 .*got 7",
        ),
        ("beta = 0.5", "beta = 0.4", r"policies\.adaptive: .*beta must be a number in \[0\.5, 1\).*0\.4"),
        ("beta = 0.5", "beta = 1.0", r"policies\.adaptive: .*beta must be a number in \[0\.5, 1\).*1\.0"),
        ("@intrinsic_dim", "@intrinsic", r"policies\.oracle\.dim: '@intrinsic' .*did you mean 'intrinsic_dim'\?"),
        ("record = 10", "record = 0", r"record: record must be at least 1"),
        ("[policies.LinUCB]", "[policies.LinUCB", r"not valid TOML: .*line 12"),
        ("[instances.easy]", "[instance.easy]", r"instance: a study has no such key; did you mean 'instances'\?"),
    ],
)
def test_bad_studies_are_refused_and_nothing_is_written(file, old, new, message):
    assert old in STUDY
    file.write_text(STUDY.replace(old, new, 1))
    refused("run", file, "--jobs", 1, message=rf"mine\.toml: {message}")


def test_square_brackets_in_messages_survive(file):
    file.write_text("trials = 4\ninstances = {}\npolicies = {}\n")
    refused("run", file, message=r"instances: must be a non-empty table of names, e\.g\. \[instances\.mine\] in TOML")


def test_files_that_are_not_there():
    refused("run", "nowhere.toml", message=r"nowhere\.toml: cannot be read: No such file")
    Path("mine.toml").write_text(STUDY)
    refused("run", "mine.toml", "--plugin", "nowhere.py", message=r"nowhere\.py: no such file; a plugin is")
    Path("bad.py").write_text("import nonsense_that_is_not_there\n")
    refused("run", "mine.toml", "--plugin", "bad.py", message=r"bad\.py: the plugin raised ModuleNotFoundError")


def test_a_policy_that_breaks_is_a_failure(file):
    Path("own.py").write_text(
        "from dataclasses import dataclass\nimport adadim\n\n"
        "class Broken:\n"
        "    def __init__(self, problem, rng):\n        self.count = 0\n"
        "    def select(self):\n        self.count += 1\n        return [0][self.count // 30]\n"
        "    def update(self, arm, reward):\n        pass\n\n"
        "@dataclass(frozen=True)\nclass Mine(adadim.Policy):\n"
        "    def learner(self, problem, streams):\n"
        "        return adadim.Single(Broken).learner(problem, streams)\n"
    )
    file.write_text(STUDY + '\n[policies.broken]\nkind = "Mine"\n')
    printed, error = adadim_("run", file, "--plugin", "own.py", "--jobs", 1, code=1)
    assert error == "error: broken on easy, replications 0 to 3: IndexError: list index out of range\n"
    assert printed == ""
    # What was finished is there, and the study goes on without the broken policy.
    adadim_("status", "results/mine", code=1)
    file.write_text(STUDY)
    adadim_("run", file, "--jobs", 1)
    adadim_("status", "results/mine")


def test_what_a_guarantee_lacks_is_one_line(file):
    file.write_text(STUDY + '\n[policies.mine]\nkind = "OSOM"\n')
    parts = command("run", file, "--jobs", 2, "--batch", 1, "--quiet", one_format=True)
    done = subprocess.run(parts, capture_output=True, text=True, check=True, timeout=120)
    lacking = r"the guarantee of OSOM needs .* the sets of instances\.easy are fixed: .*"
    assert re.fullmatch(rf"warning: policies\.mine: {lacking}\n", done.stderr), done.stderr
