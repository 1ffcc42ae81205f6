"""The script that counts the source counts what it says."""

import subprocess
import sys
import textwrap
from pathlib import Path

import house
import pytest

TREE = {
    "models/a.py": '''
        """A module."""
        WIDTH = 1
        class One: pass
        ''',
    "models/deep/b.py": """
        WIDTH = 2
        class Two:
            class Inner: pass
        class Three: pass
        """,
    "agent/log.py": """
        class Log:
            size: int = 0
            def add(self): pass
            def read(self): pass
            def _hidden(self): pass
        class Other:
            def method(self): pass
        """,
    "policy.py": """
        from adadim.core.arrays import is_numpy
        class Learner(Base, of=Policy): pass
        class Second(Base, of=Policy): pass
        def add(): return is_numpy
        limit: int = 3
        """,
    "play.py": "limit = 4\n__all__ = []\ndef add(): pass\n",
}


@pytest.fixture
def checkout(tmp_path):
    for name, text in TREE.items():
        path = tmp_path / "src" / "adadim" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
    return tmp_path


COUNTED = {
    "lines of src": 3 + 4 + 7 + 5 + 3,
    "modules of src": 5,
    "lines of models": 3 + 4,
    "classes of models": 3,
    "lines of agent": 7,
    "public methods of Log": 2,
    "files that say is_numpy": 1,
    "learner classes patched in by of=": 2,
    "names defined in several modules": 3,  # WIDTH, add, limit
}


def test_a_tree_is_counted(checkout):
    assert COUNTED.items() <= house.counted(checkout).items()
    assert house.repeated_names(checkout / "src") == ["WIDTH", "add", "limit"]


def test_the_command_prints_what_it_counts(checkout):
    done = subprocess.run([sys.executable, house.__file__, checkout], capture_output=True, text=True, check=True)
    printed = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert {name: int(number.replace(",", "")) for number, name in printed} == house.counted(checkout)


def test_files_passed_by_a_call_are_counted(tmp_path):
    folder = tmp_path / "adadim"
    folder.mkdir()
    names = {}
    exec(compile("def inner(): pass\n", str(folder / "inner.py"), "exec"), names)
    exec(
        compile("def outer(): inner(); inner(); again()\ndef again(): pass\n", str(folder / "outer.py"), "exec"), names
    )
    assert house.walked(names["outer"]) == (2, 2)  # outer, inner twice, outer again
    assert house.walked(lambda: Path("elsewhere").name) == (0, 0)


def test_this_checkout_is_counted():
    counted = house.counted(house.HERE)
    assert set(counted) >= set(COUNTED)
    assert counted["lines of models"] < counted["lines of src"]
