"""The command line: what is printed, what is written, and what the exit codes say."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import adadim
from adadim import cli, paper, report, study
from adadim.report import figures
from adadim.study import executor

STUDY = """
trials = 4
record = 10

[instances.easy]
kind = "sphere"
arms = 20
dim = 6
intrinsic_dim = 2
horizon = 60

[policies.LinUCB]
kind = "LinUCB"

[policies.adaptive]
kind = "LinUCBPlusPlus"
beta = 0.5

[policies.oracle]
kind = "LinUCB"
dim = "@intrinsic_dim"
"""
COMMANDS = ("reproduce", "run", "status", "figure", "claims", "export", "policies")
HORIZON = 100
VERDICTS = {"holds", "does not hold", "undecided"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Whatever a command writes by default lands in a folder of the test's own, at a width that does not vary."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture
def tiny(monkeypatch):
    """The paper's experiments at a size that takes no time."""
    whole = paper.Figure.instances

    def instances(self):
        reduced = {"arms": 30, "dim": 12, "horizon": HORIZON}
        return {name: {**table, **reduced} for name, table in whole(self).items()}

    monkeypatch.setattr(paper, "HORIZON", HORIZON)
    monkeypatch.setattr(paper.Figure, "instances", instances)
    monkeypatch.setattr(paper.Figure, "dims", property(lambda self: (3,) if self.curves else (2, 4, 6)))


@pytest.fixture
def one_format(monkeypatch):
    monkeypatch.setattr(figures, "FORMATS", ("png",))


@pytest.fixture
def file():
    path = Path("mine.toml")
    path.write_text(STUDY)
    return path


@pytest.fixture
def results(file, one_format):
    """A results folder of the study above."""
    adadim_("run", file, "--jobs", 1, "--batch", 2, "--quiet")
    return Path("results/mine")


def adadim_(*arguments, code=0):
    """Call the command, check the exit code, and return what it printed to (stdout, stderr)."""
    result = CliRunner().invoke(cli.app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    return result.stdout, result.stderr


def refused(*arguments, message, code=2):
    """Call the command, which must complain in one line that matches `message` and change nothing."""
    before = contents(Path())
    printed, error = adadim_(*arguments, code=code)
    assert contents(Path()) == before
    assert printed == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert re.search(message, error), error


def contents(folder):
    passing = {".lock", "__pycache__"}  # what Python and a lock leave behind is no result
    files = (path for path in folder.rglob("*") if path.is_file() and not passing & set(path.parts))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def blocks(folder):
    return sorted((folder / "blocks").glob("*.parquet"))


def command(*arguments):
    """The command as a process of its own."""
    return [sys.executable, "-c", "from adadim.cli import main; main()", *map(str, arguments)]


# Help and version


def test_the_command_is_installed():
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="adadim")
    assert entry.load() is cli.main


def test_version():
    assert adadim_("--version") == (f"{adadim.__version__}\n", "")


def test_help_without_arguments():
    printed, _ = adadim_(code=2)
    assert printed.rstrip() == adadim_("--help")[0].rstrip()
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", printed)
    assert "adadim reproduce fig2a --trials 20" in printed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("reproduce", ["fig2a|fig2b|fig3a|fig3b|fig4a|fig4b|all", "released|theory|both", "Example: adadim reproduce"]),
        ("run", ["[instances.easy]", "[policies.adaptive]", 'dim = "@intrinsic_dim"', "--plugin", "--dry-run"]),
        ("status", ["The exit code is 0 if nothing is missing, else 1."]),
        ("figure", ["PNG, PDF and SVG", "CSV", "ci|std"]),
        ("claims", ["claims", "--json"]),
        ("export", ["csv|parquet", "instance, policy, replication, time, regret"]),
        ("policies", ["hyper-parameters", "--json"]),
    ],
)
def test_help_of_each_command_teaches(name, words):
    printed, error = adadim_(name, "--help")
    assert error == ""
    for word in words:
        assert word in printed


def test_the_study_in_the_help_of_run_is_one():
    printed, _ = adadim_("run", "--help")
    lines = [line.strip() for line in printed.splitlines()]
    text = "\n".join(lines[lines.index("trials = 20") : lines.index('dim = "@intrinsic_dim"') + 1])
    Path("help.toml").write_text(text)
    assert set(study.Study.from_toml("help.toml").policies) == {"adaptive", "oracle"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("reproduce", "fig2a", "--trials", 1),
        ("run", "mine.toml"),
        ("rates",),
        ("lower-bound",),
        ("study", "regret", "--families", "paper", "--trials", 1),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_device_that_is_not_there(arguments, file, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    version = re.escape(torch.__version__)
    message = rf"^error: device 'cuda' is not there: torch {version} sees no CUDA GPU; use 'cpu'\n$"
    refused(*arguments, "--device", "cuda", message=message)
    refused(*arguments, "--device", "gpu", message=r"device must be 'cpu', 'cuda' or 'cuda:N', got 'gpu'")


def test_a_device_without_torch(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"device 'cuda' needs torch; install it with: pip install 'adadim\[torch\]'$"
    refused("run", file, "--device", "cuda", message=message)


def test_one_process_drives_a_device(file, monkeypatch):
    monkeypatch.setattr(executor, "check_device", lambda device: device)
    refused("run", file, "--device", "cuda", "--jobs", 2, message="jobs: one process drives cuda, got 2; leave it out")


@pytest.mark.parametrize(
    "arguments",
    [
        ("reproduce",),
        ("reproduce", "fig9"),
        ("reproduce", "fig2a", "--trials", "0"),
        ("reproduce", "fig2a", "--jobs", "0"),
        ("reproduce", "fig2a", "--variant", "mine"),
        ("reproduce", "fig2a", "--seed", "-1"),
        ("run", "mine.toml", "--trials", "0"),
        ("figure", ".", "--band", "iqr"),
        ("export", ".", "--format", "xlsx"),
        ("nonsense",),
        ("--nonsense",),
    ],
)
def test_bad_arguments(arguments):
    _, error = adadim_(*arguments, code=2)
    assert "Usage" in error
    assert contents(Path()) == {}


# Policies


def test_policies_lists_them_all():
    printed, _ = adadim_("policies")
    for name in study.policy_kinds():
        assert re.search(rf"\b{name}\b", printed)
    rows = json.loads(adadim_("policies", "--json")[0])
    assert [row["name"] for row in rows] == list(study.policy_kinds())
    assert all(row["what"].endswith(".") for row in rows)
    (linucb,) = [row for row in rows if row["name"] == "LinUCB"]
    assert {"ridge=0.1", "bonus='norm'", "dim=None"} <= set(linucb["parameters"])


# Running a study of one's own


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
        assert [cell.strip() for cell in line.split("│")[1:-1]] == [
            "easy",
            policy,
            "4",
            f"{final.mean():.4g}",
            f"{final.std(ddof=1):.3g}",
        ]


def test_run_takes_another_folder_and_number_of_trials(file, one_format):
    adadim_("run", file, "--jobs", 1, "--out", "there", "--trials", 2, "--quiet")
    assert study.status("there").total == 6
    assert not Path("results").exists()
    adadim_("run", file, "--jobs", 1, "--out", "there", "--quiet")
    assert study.status("there").total == 12


def test_run_is_idempotent(results, file, monkeypatch):
    before = contents(results)
    monkeypatch.setattr(executor, "simulate", None)
    adadim_("run", file, "--jobs", 1)
    assert contents(results) == before


def test_quiet_prints_nothing(file, tiny, one_format):
    assert adadim_("run", file, "--jobs", 1, "--quiet") == ("", "")
    assert adadim_("reproduce", "fig2a", "--trials", 2, "--jobs", 1, "--quiet") == ("", "")


def test_one_trial_is_enough(file, one_format):
    printed, _ = adadim_("run", file, "--jobs", 1, "--trials", 1)
    assert re.search(r"oracle +│ 1 +│ [\d.]+ +│ - ", printed)


def test_dry_run_prints_the_study_and_writes_nothing(file):
    before = contents(Path())
    printed, _ = adadim_("run", file, "--dry-run", "--trials", 7)
    assert contents(Path()) == before
    Path("again.toml").write_text(printed)
    again = study.Study.from_toml("again.toml")
    assert again == study.Study.from_dict({**study.Study.from_toml(file).to_dict(), "trials": 7})


def test_run_with_a_policy_of_ones_own(file, one_format):
    Path("own.py").write_text(
        "from dataclasses import dataclass\nimport adadim\n\n"
        "@dataclass(frozen=True)\nclass Half(adadim.Policy):\n    ridge: float = 1.0\n\n"
        "    def _start(self, problem, streams):\n"
        "        return adadim.LinUCB(ridge=self.ridge, dim=problem.dim // 2)._start(problem, streams)\n"
    )
    file.write_text(STUDY + '\n[policies.half]\nkind = "Half"\nridge = 0.5\n')
    printed, _ = adadim_("run", file, "--plugin", "own.py", "--jobs", 1)
    assert re.search(r"easy +│ half +│ 4 ", printed)
    refused("run", file, "--jobs", 1, message=r"mine\.toml: policies\.half\.kind: no policy 'Half'")


def test_the_bar_shows_progress_and_the_time_left(file):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command("run", file, "--jobs", 1), stdout=subprocess.DEVNULL, stderr=theirs)
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
    assert re.search(rb"3/3.*left", seen)


def test_a_real_process(file):
    done = subprocess.run(command("run", file, "--jobs", 1), capture_output=True, text=True, timeout=120)
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
        ("intrinsic_dim = 2", "intrinsic_dim = 7", r"instances\.easy: intrinsic_dim must be in 1\.\.6 .*got 7"),
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


def test_a_policy_that_breaks_is_a_failure(file, one_format):
    Path("own.py").write_text(
        "from dataclasses import dataclass\nimport adadim\n\n"
        "class Broken:\n"
        "    def __init__(self, problem, rng):\n        self.count = 0\n"
        "    def select(self):\n        self.count += 1\n        return [0][self.count // 30]\n"
        "    def update(self, arm, reward):\n        pass\n\n"
        "@dataclass(frozen=True)\nclass Mine(adadim.Policy):\n"
        "    def _start(self, problem, streams):\n"
        "        return adadim.Single(Broken)._start(problem, streams)\n"
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


# Bad folders


def test_folders_that_cannot_be_written_to(file, monkeypatch):
    refused("run", file, "--jobs", 1, "--out", "mine.toml", message=r"mine\.toml/blocks: .*choose another folder")
    refused("run", file, "--jobs", 1, "--out", "mine.toml/x", message=r"mine\.toml/x/blocks: .*choose another folder")

    def forbidden(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", forbidden)
    refused(
        "run", file, "--jobs", 1, message=r"results/mine/blocks: Permission denied; choose a folder you may write to"
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(file):
    Path("locked").mkdir(mode=0o500)
    refused(
        "run", file, "--jobs", 1, "--out", "locked/x", message=r"locked/x/blocks: Permission denied; choose a folder"
    )


def test_a_full_disk_loses_nothing(results, file, monkeypatch):
    before = contents(results)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        _, error = adadim_("run", file, "--jobs", 1, "--trials", 6, code=2)
    assert re.search(r"error: results/mine/.*: No space left on device; free some space and run again", error)
    assert contents(results) == before
    adadim_("run", file, "--jobs", 1, "--trials", 6)
    assert study.status(results).done == 18


DAMAGE = {
    "empty": (lambda data: b"", r"damaged .*; delete it"),
    "cut": (lambda data: data[: len(data) // 2], r"damaged .*; delete it"),
    "short": (lambda data: data[:-1], r"damaged .*; delete it"),
    "text": (lambda data: b"not a table\n" * 50, r"damaged .*; delete it"),
    "foreign": (None, r"a Parquet file that adadim did not write; move it out of this folder"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_and_foreign_blocks_are_named(results, file, damage, tmp_path):
    change, message = DAMAGE[damage]
    block = blocks(results)[0]
    good = block.read_bytes()
    if change is None:
        pl.DataFrame({"replication": [0], "time": [1], "regret": [0.5]}).write_parquet(block)
    else:
        block.write_bytes(change(good))
    for arguments in (
        ("run", file, "--jobs", 1),
        ("status", results),
        ("figure", results),
        ("export", results, "--out", tmp_path / "x.csv"),
    ):
        refused(*arguments, message=rf"results/mine/blocks/{block.name}: {message}")
    assert not (tmp_path / "x.csv").exists()
    block.unlink()  # as the message says
    adadim_("run", file, "--jobs", 1, "--quiet")
    assert block.read_bytes() == good


def test_a_foreign_file_among_the_blocks_is_named(results, file):
    pl.DataFrame({"a": [1]}).write_parquet(results / "blocks" / "holiday.parquet")
    for arguments in (("run", file, "--jobs", 1), ("status", results), ("figure", results), ("export", results)):
        message = r"results/mine/blocks/holiday\.parquet: not a result of adadim; move it out of this folder"
        refused(*arguments, message=message)


def test_a_folder_of_another_version_is_left_alone(results, file):
    manifest = results / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "format": 99, "adadim": "7.0"}))
    message = (
        r"results/mine/manifest\.json: results of format 99, by adadim 7\.0, but adadim "
        rf"{re.escape(adadim.__version__)} uses format \d+; choose another folder, or use that version"
    )
    for arguments in (("run", file, "--jobs", 1), ("status", results), ("figure", results), ("export", results)):
        refused(*arguments, message=message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"not readable as JSON .*; move it away and run the study again"),
        ('{"made_by": "someone"}', r"not written by adadim; choose another folder"),
        ('{"made_by": "adadim", "format": 1}', r"incomplete; move it away and run the study again"),
    ],
)
def test_bad_manifests_are_named(results, file, text, message):
    (results / "manifest.json").write_text(text)
    for arguments in (("run", file, "--jobs", 1), ("status", results)):
        refused(*arguments, message=rf"results/mine/manifest\.json: {message}")


def test_a_folder_of_another_study_is_left_alone(results):
    Path("other.toml").write_text(STUDY)
    arguments = ("run", "other.toml", "--jobs", 1, "--out", results)
    refused(*arguments, message=r"this folder holds the results of the study 'mine', not of 'other'; choose another")


@pytest.mark.parametrize("name", ["status", "figure", "claims", "export"])
def test_folders_without_results(name):
    refused(name, "nowhere", message="nowhere is not a folder")
    Path("empty").mkdir()
    refused(name, "empty", message=r"no results in empty; make some with 'adadim run' or 'adadim reproduce'")


# Looking at results


def test_status_tells_what_is_missing(results):
    printed, _ = adadim_("status", results)
    assert re.search(r"mine +│ 12 +│ 12 +│ 3 +│ complete", printed)
    (told,) = json.loads(adadim_("status", results, "--json")[0])
    assert (told["name"], told["done"], told["total"], told["complete"]) == ("mine", 12, 12, True)
    assert told["cells"][0] == {"instance": "easy", "policy": "LinUCB", "done": 4, "trials": 4}
    blocks(results)[0].unlink()
    printed, _ = adadim_("status", results, code=1)
    assert re.search(r"mine +│ 10 +│ 12 +│ 3 +│ incomplete", printed)
    (told,) = json.loads(adadim_("status", results, "--json", code=1)[0])
    assert (told["done"], told["complete"]) == (10, False)
    assert sorted(cell["done"] for cell in told["cells"]) == [2, 4, 4]
    assert json.loads(adadim_("status", "results", "--json", code=1)[0]) == [told]


def test_figure_draws_what_is_there(results, file):
    shutil.rmtree(results / "figures")
    printed, _ = adadim_("figure", results)
    assert printed == "wrote results/mine/figures/mine.png\nwrote results/mine/figures/mine.csv\n"
    adadim_("figure", results, "--out", "pictures", "--band", "std")
    first, second = (Path(folder, "mine.png").read_bytes() for folder in (results / "figures", "pictures"))
    assert first != second
    blocks(results)[0].unlink()
    adadim_("figure", results, "--out", "partly")
    counts = pl.read_csv("partly/mine.csv")["trials"]
    assert set(counts) == {2, 4}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_export_writes_one_table(results, kind):
    printed, _ = adadim_("export", results, "--format", kind)
    assert printed == f"wrote mine.{kind}\n"
    read = pl.read_csv if kind == "csv" else pl.read_parquet
    expected = study.load(results).frame()
    assert read(f"mine.{kind}").equals(expected)
    adadim_("export", results, "-f", kind, "-o", "new/folder/table")
    assert read("new/folder/table").equals(expected)
    assert expected.height == 3 * 4 * 10


def test_export_to_a_place_that_is_taken(results):
    refused(
        "export", results, "--out", "results", message=r"results: cannot be written: Is a directory; choose a place"
    )


def test_names_that_look_like_the_papers(file, one_format):
    for name in ("fig2a", "fig2a-mine", "fig2a-released-old"):
        file.write_text(f'name = "{name}"\n{STUDY}')
        adadim_("run", file, "--jobs", 1, "--trials", 1, "--quiet")
        assert Path(f"results/{name}/figures/{name}.png").exists()
    refused("claims", "results", message="no figure of the paper in results; try: adadim reproduce fig2a --out results")


# The paper


def test_reproduce_runs_draws_and_judges(tiny):
    arguments = ("reproduce", "fig2b", "--trials", 4, "--jobs", 1, "--out", "out")
    printed, error = adadim_(*arguments)
    assert error == ""
    wanted = [f"out/figures/fig2b-released.{kind}" for kind in ("png", "pdf", "svg", "csv")]
    assert re.findall("wrote (.*)", printed) == wanted
    verdicts = json.loads(Path("out/claims.json").read_text())
    assert {(v["figure"], v["variant"], v["trials"]) for v in verdicts} == {("fig2b", "released", 4)}
    assert Path("out/claims.md").read_text().count("\n") == 2 + len(verdicts)
    for verdict in verdicts:
        assert f" {verdict['claim']} " in printed
        assert f"{verdict['value']:.3g}" in printed
    plan = paper.study("fig2b", "released", trials=4)
    assert len(plan.cells) == 18
    assert {cell.horizon for cell in plan.cells} == {HORIZON}
    assert [cell.id for cell in plan.cells] == [
        c["id"] for c in study.store.Store("out/fig2b-released").describe()["cells"]
    ]


def test_reproducing_again_computes_nothing_and_changes_no_byte(tiny, monkeypatch):
    arguments = ("reproduce", "fig2a", "--trials", 4, "--jobs", 1)
    first, _ = adadim_(*arguments)
    before = contents(Path("results"))
    assert {"claims.md", "claims.json", "figures/fig2a-released.pdf"} <= before.keys()
    with monkeypatch.context() as patch:
        patch.setattr(executor, "simulate", None)
        assert adadim_(*arguments)[0] == first
    assert contents(Path("results")) == before
    # More trials add; what was there stays, and the first four trials are the same.
    adadim_("export", "results/fig2a-released", "--out", "four.csv")
    adadim_("reproduce", "fig2a", "--trials", 6, "--jobs", 1, "--quiet")
    after = contents(Path("results"))
    old = {name for name in before if "/blocks/" in name}
    assert {name: after[name] for name in old} == {name: before[name] for name in old}
    new = [name for name in after if "/blocks/" in name and name not in old]
    assert len(new) == 6
    assert all(name.endswith("-000004-000006.parquet") for name in new)
    adadim_("export", "results/fig2a-released", "--out", "six.csv")
    six = pl.read_csv("six.csv")
    assert six["replication"].n_unique() == 6
    assert six.filter(pl.col("replication") < 4).equals(pl.read_csv("four.csv"))
    assert after["figures/fig2a-released.png"] != before["figures/fig2a-released.png"]


def test_reproduce_all_in_both_variants(tiny, one_format):
    printed, error = adadim_("reproduce", "all", "--variant", "both", "--trials", 4, "--jobs", 1)
    assert error == ""
    names = [f"{figure}-{variant}" for figure in paper.FIGURES for variant in ("released", "theory")]
    assert re.findall(r"wrote results/figures/(.*)\.png", printed) == names
    printed, _ = adadim_("status", "results")
    assert printed.count(" complete") == 12
    verdicts = json.loads(adadim_("claims", "results", "--json")[0])
    assert verdicts == json.loads(Path("results/claims.json").read_text())
    assert len(verdicts) == 72
    assert {v["verdict"] for v in verdicts} == {"undecided"}  # four trials decide nothing
    assert [v["variant"] for v in verdicts] == ["released", "theory"] * 36
    assert {v["figure"] for v in verdicts} == set(paper.FIGURES)
    assert all(v["low"] <= v["high"] for v in verdicts)
    table, _ = adadim_("claims", "results")
    assert all(v["claim"] in table for v in verdicts)
    for name in names:
        assert study.load(f"results/{name}").trials == 4
    # Exporting many studies makes a table each; into one file they do not go.
    refused(
        "export", "results", "--out", "x.csv", message=r"results holds 12 studies; export one of them: results/fig2a"
    )
    adadim_("export", "results", "--format", "parquet")
    assert sorted(path.stem for path in Path().glob("*.parquet")) == sorted(names)


def test_claims_decide_when_there_are_trials_enough(tiny, one_format):
    adadim_("reproduce", "fig2a", "--trials", 8, "--jobs", 1, "--variant", "theory")
    verdicts = json.loads(Path("results/claims.json").read_text())
    assert {v["verdict"] for v in verdicts} <= VERDICTS
    assert {v["verdict"] for v in verdicts} != {"undecided"}
    for verdict in verdicts:
        decided = {True: "holds", False: "does not hold"}.get(
            True if verdict["low"] > 0 else False if verdict["high"] < 0 else None, "undecided"
        )
        assert verdict["verdict"] == decided


def test_json_of_one_trial_has_no_nan(tiny, one_format):
    adadim_("reproduce", "fig2a", "--trials", 1, "--jobs", 1)

    def no_constants(name):
        raise AssertionError(f"{name} is not JSON")

    for text in (adadim_("claims", "results", "--json")[0], Path("results/claims.json").read_text()):
        verdicts = json.loads(text, parse_constant=no_constants)
        assert {(v["value"], v["low"], v["verdict"]) for v in verdicts} == {(None, None, "undecided")}


def test_jobs_and_batches_do_not_change_what_is_exported(tiny, one_format):
    for jobs, batch in ((1, 4), (2, 1)):
        adadim_("reproduce", "fig3b", "--trials", 4, "--jobs", jobs, "--batch", batch, "--out", jobs, "--quiet")
        adadim_("export", f"{jobs}/fig3b-released", "--out", f"{jobs}.csv")
    assert Path("1.csv").read_bytes() == Path("2.csv").read_bytes()
    assert len(blocks(Path("1/fig3b-released"))) == 18
    assert len(blocks(Path("2/fig3b-released"))) == 72
    for name in ("figures/fig3b-released.png", "figures/fig3b-released.csv", "claims.json", "claims.md"):
        assert Path("1", name).read_bytes() == Path("2", name).read_bytes()


def test_seeds_and_bands(tiny, one_format):
    common = ("reproduce", "fig2a", "--trials", 2, "--jobs", 1, "--quiet")
    adadim_(*common, "--out", "zero")
    adadim_(*common, "--out", "one", "--seed", 1)
    adadim_(*common, "--out", "std", "--band", "std")
    tables = [Path(name, "figures/fig2a-released.csv").read_bytes() for name in ("zero", "one", "std")]
    pictures = [Path(name, "figures/fig2a-released.png").read_bytes() for name in ("zero", "one", "std")]
    assert [tables[0] == table for table in tables] == [True, False, True]
    assert len(set(pictures)) == 3


def test_claims_of_an_unfinished_run(tiny, one_format):
    adadim_("reproduce", "fig2a", "--trials", 8, "--jobs", 1, "--batch", 2, "--quiet")
    folder = Path("results/fig2a-released")
    oracle = next(cell for cell in paper.study("fig2a", "released").cells if cell.policy == "oracle")
    (folder / "blocks" / f"{oracle.id}-000002-000004.parquet").unlink()
    verdicts = json.loads(adadim_("claims", "results", "--json")[0])
    assert {v["trials"] for v in verdicts} == {6}
    results = study.load(folder)
    ours, theirs = (results.final("d3", policy)[[0, 1, 4, 5, 6, 7]] for policy in ("linucb++", "linucb"))
    assert verdicts[0]["claim"] == "LinUCB++ has less regret than LinUCB at d* = 3"
    assert verdicts[0]["value"] == pytest.approx((theirs - ours).mean())
    for path in (folder / "blocks").glob(f"{oracle.id}-*.parquet"):
        path.unlink()
    verdicts = json.loads(adadim_("claims", "results", "--json")[0])
    assert {v["verdict"] for v in verdicts} == {"undecided"}


def test_reproduce_refuses_bad_folders(tiny, one_format):
    common = ("reproduce", "fig2a", "--trials", 2, "--jobs", 1)
    Path("file").write_text("mine")
    refused(*common, "--out", "file", message=r"file/fig2a-released/blocks: Not a directory; .*choose another folder")
    adadim_(*common, "--quiet")
    folder = Path("results/fig2a-released")
    blocks(folder)[0].write_bytes(blocks(folder)[0].read_bytes()[:100])
    name = blocks(folder)[0].name
    refused(*common, message=rf"results/fig2a-released/blocks/{name}: damaged .*; delete it")
    refused("claims", "results", message=rf"results/fig2a-released/blocks/{name}: damaged .*; delete it")


# Interruptions


@pytest.mark.parametrize("where", ["run", "draw"])
def test_control_c_has_its_own_exit_code(file, where, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(*((study, "run") if where == "run" else (report, "draw")), interrupted)
    _, error = adadim_("run", file, "--jobs", 1, code=130)
    assert error == "interrupted; what was finished is kept, and the same command goes on from there\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_real_control_c_loses_nothing(file, jobs):
    file.write_text(STUDY.replace("trials = 4", "trials = 5000"))
    arguments = command("run", file, "--jobs", jobs, "--batch", 1)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    folder = Path("results/mine")
    deadline = time.monotonic() + 60
    while len(blocks(folder)) < 40 and time.monotonic() < deadline:  # by then every worker has begun
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    printed, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert printed == b""
    assert b"interrupted; what was finished is kept" in error
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
