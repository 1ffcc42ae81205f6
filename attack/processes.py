"""Processes: killed, several on one folder, in odd surroundings, with names that look like paths and markup."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from adadim.study import load, run
from attack.damage import generator
from attack.tally import Tally
from attack.worlds import SPHERE, TABLE, contents, study

COMMAND = [sys.executable, "-m", "adadim"]
LONG = {"easy": {**SPHERE, "arms": 100, "dim": 20, "horizon": 400}}
POLICIES = {"LinUCB": {"kind": "LinUCB"}, "UCB": {"kind": "UCB"}}


def _started(*words: object, **options: object) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    return subprocess.Popen([*COMMAND, *map(str, words)], **{**pipes, **options})  # type: ignore[call-overload,no-any-return]


def alive(group: int) -> list[int]:
    """Processes of a session that are still there (Linux)."""
    numbers = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == group and fields[0] != "Z":
            numbers.append(int(stat.parent.name))
    return numbers


def _ended(tally: Tally, process: subprocess.Popen[str], what: str) -> None:
    """Check that no process of the session is left after a while, and that no traceback of adadim was printed."""
    try:
        _, error = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        tally.expect(False, f"{what}: hangs")
        os.killpg(process.pid, signal.SIGKILL)
        _, error = process.communicate()
    deadline = time.monotonic() + 10
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = alive(process.pid)
    tally.expect(not left, f"{what}: processes {left} are left behind")
    for number in left:
        os.kill(number, signal.SIGKILL)
    # A traceback that does not mention adadim comes from the start of Python itself.
    tally.expect("Traceback" not in error or "adadim" not in error, f"{what}: traceback: {error[-300:]}")


def kills(count: int, folder: Path) -> Tally:
    """Stop a run at any moment by any signal: nothing is left behind, and the next run completes it, byte for byte."""
    tally, draw = Tally(), generator(7)
    plan = study(instances=LONG, policies=POLICIES, only={}, trials=40, record=4)
    run(plan, folder / "whole", jobs=2, batch=1)
    wanted = contents(folder / "whole")
    file = folder / "mine.toml"
    file.write_text(plan.to_toml())
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP]
    for i in range(count):
        results, number = folder / f"killed{i // 10}", numbers[i % 4]
        process = _started("run", file, "--out", results, "--jobs", 1 + i % 2, "--batch", 1, "--quiet")
        time.sleep(float(draw.uniform(0.1, 2.5)))
        (os.killpg if i % 3 == 0 else os.kill)(process.pid, number)
        _ended(tally, process, f"kill {i} by {number.name}")
        if i % 10 == 9 or i == count - 1:
            run(plan, results, jobs=1, batch=1)
            kept = {name: data for name, data in contents(results).items() if not name.startswith("figures/")}
            tally.expect(kept == wanted, f"after kill {i}: other bytes")
    return tally


def together(count: int, folder: Path) -> Tally:
    """Several runs on one folder at once: each ends well, and the results are those of one run."""
    tally, draw = Tally(), generator(9)
    plan = study(instances=LONG, policies=POLICIES, only={}, trials=12, record=4)
    file = folder / "mine.toml"
    file.write_text(plan.to_toml())
    run(plan, folder / "whole", jobs=1, batch=1)
    for i in range(count):
        results = folder / f"shared{i}"
        words = ("run", file, "--out", results, "--batch", 1, "--quiet", "--jobs")
        runs = [_started(*words, 1 + k % 2) for k in range(3)]
        if i % 2:
            time.sleep(float(draw.uniform(0.2, 2.0)))
            os.killpg(runs[0].pid, signal.SIGKILL)
        for k, process in enumerate(runs):
            _ended(tally, process, f"run {k} of folder {i}")
            tally.expect(process.returncode == 0 or (i % 2 and k == 0), f"run {k} of folder {i}: {process.returncode}")
        same = load(results).frame().equals(load(folder / "whole").frame())
        tally.expect(same, f"folder {i}: other numbers")
    return tally


def environments(count: int, folder: Path) -> Tally:
    """The command with other variables, closed pipes, few files and modules of the same names in the folder."""
    tally, draw = Tally(), generator(11)
    file = folder / "mine.toml"
    file.write_text(study(trials=2).to_toml())
    for name in ("random", "json", "numpy", "polars", "joblib", "queue"):
        (folder / f"{name}.py").write_text(f"open('ran-{name}', 'w')\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "adadim").write_text("from adadim.cli import main\nif __name__ == '__main__':\n    main()\n")
    variables = [
        {}, {"MPLBACKEND": "nonsense"}, {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}, {"TERM": "dumb"},
        {"COLUMNS": "1"}, {"COLUMNS": "x"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"},
        {"TMPDIR": "/nowhere"}, {"PYTHONWARNINGS": "error::UserWarning"}, {"OMP_NUM_THREADS": "0"}, {"TZ": "nowhere"},
    ]  # fmt: skip
    shells = ["", ">&-", "2>&-", ">&- 2>&- <&-", "| true", "ulimit -n 6;", "ulimit -n 12;", "ulimit -n 20;"]
    words = [f"run {file} --jobs 2 --out ", f"run {file} --jobs 1 --quiet --out ", "policies #"]
    cases = [(v, "", words[i % 2]) for i, v in enumerate(variables)]
    cases += [({}, s, w) for s, w in itertools.product(shells, words)]
    for i, (more, shell, word) in enumerate(cases[k] for k in draw.permutation(len(cases))[:count]):
        before, after = (shell, "") if shell.startswith("ulimit") else ("", shell)
        line = f"{before} {sys.executable} bin/adadim {word}out{i} {after}"
        process = subprocess.Popen(
            ["bash", "-c", line], cwd=folder, env={**os.environ, **more}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        _ended(tally, process, f"{more} {line}")
        fine = process.returncode == 0 or (shell and process.returncode in (1, 2))
        tally.expect(bool(fine), f"{more} {line}: exit code {process.returncode}")
    tally.expect(not list(folder.glob("**/ran-*")), "a module of the current folder was run")
    return tally


def names(count: int, folder: Path) -> Tally:
    """Names of studies, instances, policies and folders that look like paths, patterns and markup."""
    tally, draw = Tally(), generator(8)
    pieces = ["..", "/", "\\", "[/]", "[red]", "[", "]", "*", "?", "~", "$HOME", "{0}", "%s", "\n", "\x1b[2J", "\x00",
              "a", "é", "\U0001f600", " ", ".", "-", "--out", "'", '"', ":", "#", "$x$", "\u202e", "|"]  # fmt: skip
    outside = folder / "outside"
    outside.mkdir()
    (outside / "important.csv").write_text("mine")
    inside = folder / "inside"
    inside.mkdir()
    os.chdir(inside)
    for i in range(count):
        odd = "".join(pieces[k] for k in draw.integers(len(pieces), size=int(draw.integers(1, 4))))
        if i % 5 == 0:
            odd = "../" * int(draw.integers(1, 4)) + "outside/important"
        table = {
            **TABLE,
            "instances": {"easy": SPHERE},
            "policies": {"p": {"kind": "Random"}},
            "only": {},
            "labels": {},
        }
        key = i % 3
        if key == 0:
            table["name"] = odd
        elif key == 1:
            table["instances"] = {odd: SPHERE}
        else:
            table["policies"] = {odd: {"kind": "Random"}}
        text = re.sub(r"\\ud[89a-f]..", "", json.dumps(table))
        file = inside / f"study{i}.toml"
        result = tally.attempt(f"name {odd!r}", lambda text=text: study(**json.loads(text)).to_toml())
        if result is None:
            continue
        file.write_text(result)
        tally.command("run", file, "--jobs", 1, "--trials", 1)
        for results in sorted(inside.glob("results/*")):
            tally.command("status", results)
            tally.command("export", results)
        top_names = {path.relative_to(folder).parts[0] for path in folder.rglob("*")}
        tally.expect(top_names == {"outside", "inside"}, f"name {odd!r}: wrote {top_names}")
        tally.expect(contents(outside) == {"important.csv": b"mine"}, f"name {odd!r}: harmed a file")
        for path in sorted(inside.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    return tally
