"""Install a wheel into an empty environment, and use it there as a reader of the README would.

    python tests/package/try_wheel.py dist out/package

Needs no checkout: the code of the README runs in an empty folder, from the wheel alone. Every version of Python that
adadim is for is tried, as far as it is on the path; which ones were not is said at the end.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PAGE = ("page.html", "page.css", "page.js", "charts.js", "elements.js", "tables.js")


def main(dist: Path, folder: Path) -> None:
    """Try the only wheel in `dist`, in a new folder."""
    (wheel,) = dist.glob("*.whl")
    (source,) = dist.glob("*.tar.gz")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB; {source.name}: {source.stat().st_size / 1e6:.2f} MB")
    names = zipfile.ZipFile(wheel).namelist()
    for name in ["adadim/py.typed", *(f"adadim/report/page/{part}" for part in PAGE)]:
        if name not in names:
            sys.exit(f"error: {wheel.name} lacks {name}")
    if strange := [name for name in names if not name.startswith(("adadim/", "adadim-"))]:
        sys.exit(f"error: {wheel.name} holds {strange}")
    shutil.rmtree(folder, ignore_errors=True)
    found = {version: interpreter(version) for version in VERSIONS}
    for version, python in found.items():
        if python is not None:
            try_with(python, wheel.resolve(), folder / version)
    tried = ", ".join(version for version, python in found.items() if python is not None)
    print(f"the wheel works: installed alone, it runs the README's code, a study and a report (Python {tried})")
    if missing := [version for version, python in found.items() if python is None]:
        print(f"not tried, since it is not on the path: Python {', '.join(missing)}")


def interpreter(version: str) -> str | None:
    """A Python of that version which starts, this one if it is."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    python = shutil.which(f"python{version}")
    starts = python is not None and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    return python if starts else None


def try_with(python: str, wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment of one Python, and use it."""
    work = (folder / "work").resolve()
    work.mkdir(parents=True)
    run([python, "-m", "venv", str((folder / "environment").resolve())], work)
    scripts = (folder / "environment" / ("Scripts" if sys.platform == "win32" else "bin")).resolve()
    python = str(scripts / "python")
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], work)
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL))
    (work / "readme.py").write_text(code, encoding="utf-8")
    run([python, "readme.py"], work)
    (work / "study.toml").write_text(STUDY, encoding="utf-8")
    run([str(scripts / "adadim"), "--version"], work)
    run([str(scripts / "adadim"), "run", "study.toml", "--quiet", "--jobs", "1"], work)
    run([str(scripts / "adadim"), "report", "results/study", "--out", "report.html"], work)


def run(command: list[str], folder: Path) -> None:
    """Run a command, and stop here if it fails."""
    print("$", *command)
    done = subprocess.run(command, cwd=folder, check=False)
    if done.returncode:
        sys.exit(f"error: exit code {done.returncode} of: {' '.join(command)}")


STUDY = """
trials = 2

[instances.easy]
kind = "sphere"
arms = 20
dim = 6
intrinsic_dim = 2
horizon = 60

[policies.recommended]
kind = "recommended"
"""

if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
