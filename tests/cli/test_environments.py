"""The command in odd surroundings: folders, output, backends, interruptions."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adadim import startup
from command_line import STUDY, adadim_, blocks, command

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
MODULE = [sys.executable, "-m", "adadim"]


def finished(arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.parametrize("backend", ["nonsense", "module://matplotlib_inline.backend_inline"])
def test_a_backend_that_is_not_there_breaks_nothing(file, backend):
    arguments = command("run", file, "--jobs", 1, "--quiet", one_format=backend != "nonsense")
    done = finished(arguments, env={**os.environ, "MPLBACKEND": backend})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_backend_that_is_there_stays_what_it_was():
    code = "import adadim.report, matplotlib, os; print(matplotlib.rcParams['backend'], os.environ['MPLBACKEND'])"
    done = finished([sys.executable, "-c", code], env={**os.environ, "MPLBACKEND": "svg"})
    assert done.stdout == "svg svg\n"


MODULES = (
    "random",
    "json",
    "numpy",
    "scipy",
    "joblib",
    "polars",
    "site",
    "adadim_extra",
    "sitecustomize",
    "glob",
    "queue",
)


@pytest.mark.parametrize("jobs", [1, 2])
def test_nothing_is_imported_from_the_current_folder(file, jobs):
    for name in MODULES:
        Path(f"{name}.py").write_text(f"open('ran-{name}', 'w')\n")
    # As the installed command starts: the folder of the script comes first on the path.
    Path("bin").mkdir()
    formats = "" if jobs == 1 else "    from adadim.report import figures\n    figures.FORMATS = ['png']\n"
    Path("bin/adadim").write_text(f"from adadim.cli import main\nif __name__ == '__main__':\n{formats}    main()\n")
    done = finished([sys.executable, "bin/adadim", "run", str(file), "--jobs", str(jobs), "--batch", "1", "--quiet"])
    assert (done.returncode, done.stderr) == (0, "")
    assert list(Path().glob("ran-*")) == []


def test_python_m_hands_no_current_folder_to_workers(monkeypatch):
    for first in ("", os.getcwd()):
        monkeypatch.setattr(sys, "path", [first, "elsewhere"])
        startup.leave_out_current_folder()
        assert sys.path == ["elsewhere"]
        startup.leave_out_current_folder()
        assert sys.path == ["elsewhere"]
    monkeypatch.chdir(Path(startup.__file__).parents[1])
    monkeypatch.setattr(sys, "path", ["", "elsewhere"])
    startup.leave_out_current_folder()
    assert sys.path == ["", "elsewhere"]  # where adadim itself comes from


NAMES = ("[/]", "[red]", "[bold]x[/bold]", ":smile:", "back\\", "[link=x]", "{0}", "%s")


def test_names_are_never_markup(file):
    tables = "".join(
        f"[instances.'i{n}']\nkind = 'sphere'\narms = 5\ndim = 3\nintrinsic_dim = 2\nhorizon = 9\n"
        f"[policies.'{n}']\nkind = 'Random'\n"
        for n in NAMES
    )
    file.write_text(f"name = '[red]'\ntrials = 2\n{tables}")
    printed, _ = adadim_("run", file, "--jobs", 1)
    for shown in ("[red]", *NAMES, *(f"i{n}" for n in NAMES)):
        assert shown in printed
    printed, _ = adadim_("status", "results/[red]")
    assert "[red]" in printed
    for bad in ("[/]", "[red]x"):
        file.write_text(f"trials = 2\n[policies.'{bad}']\nkind = 'None'\n[instances.x]\nkind='{bad}'\n")
        _, error = adadim_("run", file, code=2)
        assert bad in error
        for arguments in (("run", bad), ("status", bad), ("export", bad), ("claims", bad)):
            _, error = adadim_(*arguments, code=2)
            assert bad in error


# Imports take longer than anything else here. So one process imports, in the surroundings in question, and forks for
# each call of the command. `codes.json` has how they ended.
EACH_FORKED = """
import json, os, resource, sys
from adadim.cli import main
from adadim.report import figures

figures.FORMATS = ['png']
codes = []
for words, files in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        sys.argv = ['adadim', *words.split()]
        main()
        sys.exit()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with open('codes.json', 'w') as file:
    json.dump(codes, file)
"""


def forked(cases, surroundings=""):
    """Exit code of the command for each (words, most open files or None), and what all of them complained of."""
    call = shlex.join([sys.executable, "-c", EACH_FORKED, json.dumps(cases)])
    done = finished(["bash", "-c", f"{call} {surroundings}"])
    codes = json.loads(Path("codes.json").read_text())
    Path("codes.json").unlink()
    return dict(zip([f"{words} {files or ''}" for words, files in cases], codes, strict=True)), done.stderr


@POSIX
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-", "| true"])
def test_output_that_nobody_reads(results, closed):
    words = ("policies", f"export {results}", "run mine.toml --jobs 2 --out x")
    codes, error = forked([(each, None) for each in words], closed)
    assert "Traceback" not in error, codes
    assert set(codes.values()) <= {0, 1}, (codes, error)


@POSIX
@pytest.mark.parametrize("files", [5, 16])
def test_few_file_descriptors_for_imports(results, files):
    done = finished(["bash", "-c", f"ulimit -n {files}; {sys.executable} -m adadim status {results}"])
    assert "Traceback" not in done.stderr, done.stderr


@POSIX
def test_few_file_descriptors(results):
    runs = ("run mine.toml --jobs 1 --out y", "run mine.toml --jobs 2 --out z")
    codes, error = forked([(f"{words}{files}", files) for files in (5, 16) for words in runs])
    assert "Traceback" not in error, codes


# Each is read before Python imports anything of adadim, and sends Ctrl-C from where its name says. Before Python 3.12
# what a `__set_name__` raises becomes a RuntimeError; what a `__del__` raises is printed and forgotten.
CONTROL_C = {
    "import numpy": "sys.addaudithook(lambda event, about: event == 'import' and about[0] == 'numpy' and interrupt())",
    "import the command": (
        "sys.addaudithook(lambda event, about: event == 'import' and about[0] == 'adadim.cli.studies' and interrupt())"
    ),
    "__set_name__": "dataclasses.Field.__set_name__ = lambda *_: 'adadim.study' in sys.modules and interrupt()",
    "__del__": "importlib._bootstrap._ModuleLock.__del__ = lambda lock: 'adadim.errors' in sys.modules and interrupt()",
}


@POSIX
@pytest.mark.parametrize("moment", CONTROL_C)
def test_control_c_while_python_still_imports(tmp_path, moment):
    (tmp_path / "sitecustomize.py").write_text(
        "import dataclasses, importlib, signal, sys\n"
        "def interrupt():\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        f"{CONTROL_C[moment]}\n"
    )
    done = finished([*MODULE, "policies"], env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.stdout, done.stderr, done.returncode) == ("", "interrupted\n", -signal.SIGINT)


def test_a_program_with_arguments_like_those_of_the_command_keeps_control_c(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import signal, adadim\nassert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    done = finished([sys.executable, tmp_path / "mine.py", "-m", "adadim"])
    assert done.returncode == 0, done.stderr


def alive(group):
    """Processes of a group that are still there."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(file, number):
    file.write_text(STUDY.replace("trials = 4", "trials = 2000").replace("horizon = 60", "horizon = 600"))
    arguments = command("run", file, "--jobs", 2, "--batch", 10, one_format=True)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(alive(process.pid)) < 4 and time.monotonic() < deadline:  # two workers, and who counts what they share
        time.sleep(0.05)
    while len(blocks(Path("results/mine"))) < 3 and time.monotonic() < deadline:  # both are at work
        time.sleep(0.01)
    assert process.poll() is None
    process.send_signal(number)
    deadline = time.monotonic() + 20
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = alive(process.pid)
    for number_left in left:
        os.kill(number_left, signal.SIGKILL)
    assert left == []
    _, error = process.communicate(timeout=10)
    assert b"Traceback" not in error, error
    shared = [
        path
        for path in Path("/dev/shm").glob("*")
        if f"-{process.pid}-" in path.name or f"_{process.pid}_" in path.name
    ]
    assert shared == []
