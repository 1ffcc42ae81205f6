"""Install a wheel into an empty environment, and use it there as a reader of the README would.

    python tests/package/try_wheel.py dist out/package

Needs no checkout: the code of the README runs in an empty folder, from the wheel alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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
    venv.create(folder / "environment", with_pip=True)
    work = (folder / "work").resolve()
    work.mkdir()
    scripts = (folder / "environment" / ("Scripts" if sys.platform == "win32" else "bin")).resolve()
    python = str(scripts / "python")
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel.resolve())], work)
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL))
    (work / "readme.py").write_text(code, encoding="utf-8")
    run([python, "readme.py"], work)
    (work / "study.toml").write_text(STUDY, encoding="utf-8")
    run([str(scripts / "adadim"), "--version"], work)
    run([str(scripts / "adadim"), "run", "study.toml", "--quiet", "--jobs", "1"], work)
    run([str(scripts / "adadim"), "report", "results/study", "--out", "report.html"], work)
    print("the wheel works: installed alone, it runs the README's code, a study and a report")


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
kind = "EvidenceLinUCB"
"""

if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
