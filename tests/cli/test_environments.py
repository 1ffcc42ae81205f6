"""The command in odd surroundings: folders, output, backends, interruptions."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adadim import startup
from command_line import MAIN_WITH_ONE_FORMAT, STUDY, adadim_, command

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
MODULE = [sys.executable, "-m", "adadim"]


def finished(arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.parametrize("backend", ["nonsense", "module://matplotlib_inline.backend_inline"])
def test_a_backend_that_is_not_there_breaks_nothing(file, backend):
    arguments = command("run", file, "--jobs", 1, "--quiet")
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
    Path("bin/adadim").write_text("from adadim.cli import main\nif __name__ == '__main__':\n    main()\n")
    done = finished([sys.executable, "bin/adadim", "run", str(file), "--jobs", str(jobs), "--batch", "1", "--quiet"])
    assert (done.returncode, done.stderr) == (0, "")
    assert list(Path().glob("ran-*")) == []


def test_python_m_hands_no_current_folder_to_workers(monkeypatch):
    for first in ("", os.getcwd()):
        monkeypatch.setattr(sys, "path", [first, "elsewhere"])
        startup.without_current_folder()
        assert sys.path == ["elsewhere"]
        startup.without_current_folder()
        assert sys.path == ["elsewhere"]
    monkeypatch.chdir(Path(startup.__file__).parents[1])
    monkeypatch.setattr(sys, "path", ["", "elsewhere"])
    startup.without_current_folder()
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


@POSIX
def test_output_that_nobody_reads(results):
    shell = f'{sys.executable} -c "{MAIN_WITH_ONE_FORMAT}"'
    for closed in (">&-", ">&- 2>&- <&-", "| true"):
        for words in ("policies", f"export {results}", f"run mine.toml --jobs 2 --out x{len(closed)}"):
            done = finished(["bash", "-c", f"{shell} {words} {closed}"])
            assert "Traceback" not in done.stderr, (closed, words, done.stderr)
            assert done.returncode in (0, 1), (closed, words, done.stderr)


@POSIX
@pytest.mark.parametrize("files", [5, 16])
def test_few_file_descriptors(results, files):
    for words in (f"status {results}", "run mine.toml --jobs 1 --out y", "run mine.toml --jobs 2 --out z"):
        done = finished(["bash", "-c", f"ulimit -n {files}; {sys.executable} -m adadim {words}"])
        assert "Traceback" not in done.stderr, (words, done.stderr)


@POSIX
def test_control_c_while_python_still_imports():
    seen = set()
    for wait in (0.1, 0.2, 0.4, 0.8):
        process = subprocess.Popen([*MODULE, "policies"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        if "adadim" in error or "interrupted" in error or not error:  # else Python had not come to adadim
            assert "Traceback" not in error
            assert error in ("", "interrupted\n", "Aborted.\n")
            seen.add(error)
    assert seen


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
    file.write_text(STUDY.replace("trials = 4", "trials = 3000").replace("horizon = 60", "horizon = 3000"))
    arguments = command("run", file, "--jobs", 2, "--batch", 100, one_format=True)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(alive(process.pid)) < 4 and time.monotonic() < deadline:  # two workers, and who counts what they share
        time.sleep(0.05)
    time.sleep(1.5)
    process.send_signal(number)
    deadline = time.monotonic() + 20
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
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
