"""What commands share: errors as exit codes, JSON, tables."""

import json
import math
from dataclasses import dataclass

import pytest
import typer
from rich.console import Console

from adadim.cli import kit
from adadim.errors import RunError, StoreError


@dataclass
class Row:
    name: str
    value: float


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (RunError("it broke"), 1, "error: it broke\n"),
        (StoreError("not [here]"), 2, "error: not [here]\n"),
        (ImportError("no such module"), 2, "error: no such module\n"),
        (
            KeyboardInterrupt(),
            130,
            "interrupted; finished results are kept, and the same command continues from there\n",
        ),
    ],
)
def test_errors_become_exit_codes_and_one_line(error, code, line, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(typer.Exit) as raised, kit.errors():
        raise error
    assert raised.value.exit_code == code
    assert capsys.readouterr().err == line


def test_errors_of_the_program_itself_are_not_hidden():
    with pytest.raises(AttributeError), kit.errors():
        raise AttributeError("a mistake in adadim")


def test_json_has_neither_nan_nor_infinity():
    text = kit.as_json_text([Row("a", math.nan), Row("b", -math.inf), Row("c", 0.5)])
    assert json.loads(text) == [{"name": "a", "value": None}, {"name": "b", "value": None}, {"name": "c", "value": 0.5}]


def test_only_one_column_of_a_compact_table_breaks_lines():
    row = ("a policy with a long name", "a family with a long name")
    table = kit.compact_table("title", ("policy", "where"), [row], wraps="where", least=6)
    screen = Console(width=40)
    with screen.capture() as shown:
        screen.print(table)
    lines = shown.get().splitlines()
    assert sum("a policy with a long name" in line for line in lines) == 1
    assert not any("a family with a long name" in line for line in lines)
