"""Calling the command `adadim` in tests, and looking at what it printed and wrote."""

import re
import sys
from pathlib import Path

from typer.testing import CliRunner

from adadim import cli

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


MAIN = "from adadim.cli import main; main()"
# A PDF takes longer than all else of a small study.
MAIN_WITH_ONE_FORMAT = (
    "from adadim.cli import main; from adadim.report import figures; figures.FORMATS = ['png']; main()"
)


def command(*arguments, one_format=False):
    """The command as a process of its own; with `one_format` its figures are PNG alone."""
    return [sys.executable, "-c", MAIN_WITH_ONE_FORMAT if one_format else MAIN, *map(str, arguments)]


def draw_quickly(patch):
    """Have figures drawn as PNG alone and with few dots."""
    from matplotlib.figure import Figure

    save = Figure.savefig
    patch.setattr(Figure, "savefig", lambda self, file, **options: save(self, file, **options | {"dpi": 50}))
    patch.setattr("adadim.report.figures.FORMATS", ("png",))
