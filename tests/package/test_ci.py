"""What checks a change: the script of CI, the workflow of the public forge, and the line on skipped tests."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT, WORKFLOW = ROOT / ".ci" / "run", ROOT / ".github" / "workflows" / "tests.yml"
needs_script = pytest.mark.skipif(not SCRIPT.exists() or sys.platform == "win32", reason="needs .ci/run and a shell")
APT = {
    "installs": 'case "$*" in *install*) cp "$0" "${0%/*}/chromium"; cp "$0" "${0%/*}/chromedriver";; esac',
    "fails": 'echo "E: no route to the mirror" >&2; exit 100',
    "installs something else": "exit 0",
}


def run_ci(folder, user=0, apt=None, browser=False):
    """Run the script where `make` and `apt-get` only write down how they were called; gives output and calls."""
    programs, calls = folder / "bin", folder / "calls"
    programs.mkdir()
    (programs / "id").write_text(f"#!/bin/sh\necho {user}\n")
    (programs / "make").write_text(f'#!/bin/sh\necho make "$@" >> {calls}\n')
    if apt is not None:
        (programs / "apt-get").write_text(f'#!/bin/sh\necho apt-get "$@" >> {calls}\n{APT[apt]}\n')
    for name in ("chromium", "chromedriver") * browser:
        (programs / name).write_text("#!/bin/sh\n")
    for path in programs.iterdir():
        path.chmod(0o755)
    for name in ("sh", "cp", "dirname"):
        (programs / name).symlink_to(shutil.which(name))
    call = [shutil.which("bash"), str(SCRIPT)]
    done = subprocess.run(call, env={"PATH": str(programs)}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, calls.read_text().splitlines()


@needs_script
def test_ci_runs_the_command_of_the_readme(tmp_path):
    assert re.search(r"^    make test$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert run_ci(tmp_path, browser=True, apt="installs") == ("", ["make test"])


@needs_script
def test_ci_installs_a_browser(tmp_path):
    installed = ["apt-get update", "apt-get install -y chromium chromium-driver"]
    assert run_ci(tmp_path, apt="installs") == ("", [*installed, "make test"])


@needs_script
@pytest.mark.parametrize(
    ("machine", "why"),
    [
        ({"user": 1000, "apt": "installs"}, "not root, so nothing is installed"),
        ({}, "no apt-get here to install it with"),
        ({"apt": "fails"}, "apt-get failed: E: no route to the mirror"),
        ({"apt": "installs something else"}, "apt-get installed something else under that name"),
    ],
    ids=["not root", "no apt-get", "apt-get fails", "something else"],
)
def test_ci_says_why_there_is_no_browser(machine, why, tmp_path):
    printed, calls = run_ci(tmp_path, **machine)
    assert printed == f"no Chromium ({why}): the tests that open pages in a browser are skipped\n"
    assert calls[-1] == "make test"


@pytest.mark.skipif(not WORKFLOW.exists(), reason="the workflow is not part of a source package")
def test_the_workflow_runs_the_supported_versions():
    yaml = pytest.importorskip("yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    versions = sorted(classified, key=lambda version: int(version.partition(".")[2]))
    assert project["requires-python"] == f">={versions[0]}"
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    assert list(jobs) == ["test", "docs", "package"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]
    targets = re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for name, job in jobs.items():
        (setup,) = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@")]
        assert setup["python-version"] == ("${{ matrix.python }}" if name == "test" else versions[-1])
        assert [step["run"] for step in job["steps"] if "run" in step] == [f"make {name} PYTHON=python"]
        assert name in targets


def test_a_run_says_in_one_line_what_was_skipped(tmp_path):
    (tmp_path / "conftest.py").write_text("from skips import pytest_terminal_summary  # noqa: F401\n")
    (tmp_path / "test_some.py").write_text(
        "import pytest\n\n\n"
        "def test_good():\n    pass\n\n\n"
        "@pytest.mark.parametrize('i', range(3))\n"
        "def test_page(i):\n    pytest.skip('no browser')\n\n\n"
        "@pytest.mark.skipif(True, reason='no GPU')\n"
        "def test_device():\n    pass\n"
    )
    call = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "."]
    done = subprocess.run(
        call,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "tests"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2] == "skipped 4: 3 (no browser), 1 (no GPU)"
