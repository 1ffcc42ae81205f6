"""The script that counts the source counts what it says."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import house
import pytest

SOURCE = house.HERE / "src" / "adadim"

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
    "play.py": "limit, fifth = 4, 5\n__all__ = []\ndef add(): pass\n",
    "models/c.py": """
        class Regression(ABC):
            @abstractmethod
            def learn(self): pass
        class Half(Regression):
            @abstractmethod
            def mean(self): pass
            def learn(self): pass
        class Whole(Half):
            def mean(self): pass
        class RoundRegression: pass
        """,
    "core/ties.py": "def argmax(): pass\n",
    "policies/rule.py": """
        from adadim.core.ties import argmax as largest, argmax
        def pick(): return argmax()
        def other(numbers): return numbers.argmax()
        """,
}
TESTS = """
    def test_it(self, agent):
        assert agent._log.size == 1 and agent.log._size
        self._own, agent._replace(), agent.__dict__, super()._begin()
"""


@pytest.fixture
def checkout(tmp_path):
    for name, text in TREE.items():
        path = tmp_path / "src" / "adadim" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_agent.py").write_text(textwrap.dedent(TESTS))
    return tmp_path


COUNTED = {
    "lines of src": 3 + 4 + 7 + 5 + 3 + 10 + 1 + 3,
    "modules of src": 8,
    "lines of models": 3 + 4 + 10,
    "classes of models": 7,
    "regressions that keep state": 2,
    "functions that pick the largest score": 1,
    "lines of agent": 7,
    "public methods of Log": 2,
    "files that say is_numpy": 1,
    "learner classes patched in by of=": 2,
    "names defined in several modules": 3,  # WIDTH, add, limit
    "of these, names without a shared part": 3,
    "accesses of tests to private names": 2,
}


def test_a_tree_is_counted(checkout):
    assert COUNTED.items() <= house.counted(checkout).items()
    assert house.repeated_names(checkout / "src") == ["WIDTH", "add", "limit"]
    assert house.regressions(checkout / "src") == ["RoundRegression", "Whole"]
    assert house.pickers(checkout / "src") == ["adadim/policies/rule.py:pick"]
    assert house.private_accesses(checkout / "tests") == [
        "test_agent.py:3: agent._log",
        "test_agent.py:3: agent.log._size",
    ]


def test_the_command_prints_a_column_for_each_checkout(checkout):
    command = [sys.executable, house.__file__, checkout, checkout]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    for column in range(2):
        assert {row[2]: int(row[column].replace(",", "")) for row in printed} == house.counted(checkout)


def test_modules_are_counted_with_their_docstrings(checkout):
    expected = {"models/a.py": (3, 1), "models/c.py": (10, 0), "models/deep/b.py": (4, 0), "models": (17, 1)}
    assert house.by_module(checkout) == expected | {"agent/log.py": (7, 0), "agent": (7, 0)}
    command = [sys.executable, house.__file__, "--modules", checkout, checkout]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split() for line in done.stdout.splitlines()][3] == ["3", "(1)", "3", "(1)", "models/a.py"]


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


def test_calls_of_this_checkout_are_walked():
    done = subprocess.run([sys.executable, house.__file__, "--walks"], capture_output=True, text=True, check=True)
    walks = json.loads(done.stdout)
    assert 5 <= walks["files passed by LinUCB.select"] <= walks["changes of file by LinUCB.select"]
    assert walks["files passed by Agent.ask"] > walks["files passed by LinUCB.select"]


def test_a_name_has_one_meaning():
    assert house.homonyms(SOURCE) == [], "defined by several modules: join them, or say in SHARED_NAMES why they may"


def test_shared_names_are_shared():
    defined = house.definitions(SOURCE)
    for pattern, names, _ in house.SHARED_NAMES:
        for name in names:
            assert len(defined[name]) > 1, name
            assert any(path.relative_to(SOURCE).match(pattern) for path in defined[name]), name


def test_only_names_said_to_be_shared_may_be(checkout, monkeypatch):
    source = checkout / "src" / "adadim"
    monkeypatch.setattr(house, "SHARED_NAMES", (("models/*/b.py", {"WIDTH", "limit"}, ""),))
    assert house.homonyms(source) == ["add", "limit"]  # limit is defined by other modules


def test_this_checkout_is_counted():
    counted = house.counted(house.HERE)
    assert set(counted) >= set(COUNTED)
    assert counted["lines of models"] < counted["lines of src"]
