"""What each policy can play is what docs/architecture.md says, and nothing fails in another way than by a refusal."""

from pathlib import Path

import pytest

from conformance import ASPECTS, OFFERS, row, written
from policy_examples import MADE_WITH, PUBLIC, by_default

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
COMMAND = "PYTHONPATH=tests python tests/conformance.py docs/architecture.md"


@pytest.fixture(scope="module")
def lines():
    head, _, *rows = written(PAGE.read_text(encoding="utf-8")).strip().splitlines()
    assert [cell.strip().replace(" ", "_") for cell in head.strip("|").split("|")][1:] == [*OFFERS, "torch", *ASPECTS]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]
    return {name.strip("`"): [cell == "yes" for cell in can] for name, *can in cells}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_table_is_true(name, lines):
    pytest.importorskip("torch")
    policy = (by_default(PUBLIC[name]) + MADE_WITH.get(name, []))[0]
    assert lines[name] == list(row(policy).values()), f"make the table anew: {COMMAND}"


def test_every_policy_is_in_the_table(lines):
    assert set(lines) == set(PUBLIC)
