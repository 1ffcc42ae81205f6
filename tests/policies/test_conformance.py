"""Every policy passes the conformance suite, and what each can play is what docs/architecture.md says."""

import ast
import re
from pathlib import Path

import pytest

import adadim
from adadim.core.code_text import is_string_statement
from adadim.testing.worlds import draw_arms
from conformance import HEADS, problem_of, row, shown_in_table, written
from policy_examples import PUBLIC, every_policy

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
FEATURES = draw_arms((0,))[0]
COMMAND = "PYTHONPATH=tests python tests/conformance.py docs/architecture.md"


# Settings by which other code runs, beside those of `policy_examples`.
FURTHER = [
    adadim.LinTS(dim=3, scale=0.5),
    adadim.TaperedLinUCB(size=1.0),
    adadim.Corral(feedback="importance", eta=0.2),
    adadim.DynamicBalancing(bound="sqrt", c=0.1),
    adadim.SmoothCorral(loss_range=(-0.5, 0.5)),
    adadim.SmoothCorral(replay=False, master="exp3p"),
    adadim.ED2RB(variant="released", bases=(adadim.LinTS(dim=2), adadim.LinUCB())),
    adadim.BanditCombiner(z=0.5),
    adadim.UCBCorral(copies=2),
    adadim.TsallisCorral(threshold=3.0, first_plays=1),
    adadim.TsallisCorral(feedback="importance", threshold=3.0, first_plays=2),
]


@pytest.fixture(scope="module")
def lines():
    head, _, *rows = written(PAGE.read_text(encoding="utf-8")).strip().splitlines()
    assert [cell.strip().replace(" ", "_") for cell in head.strip("|").split("|")][1:] == list(HEADS)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]
    return {name.strip("`"): [cell == "yes" for cell in can] for name, *can in cells}


@every_policy
def test_every_policy_conforms_and_the_table_is_true(policy, lines):
    pytest.importorskip("torch")
    plays, name = row(policy), type(policy).__name__
    if policy == shown_in_table(name):
        assert lines[name] == list(plays.values()), f"make the table anew: {COMMAND}"


@pytest.mark.parametrize("policy", FURTHER, ids=repr)
def test_further_settings_conform(policy):
    pytest.importorskip("torch")
    plays = row(policy)
    assert plays["contexts"]
    assert plays["masked"] or isinstance(policy, adadim.SmoothCorral)


def test_every_policy_is_in_the_table(lines):
    assert set(lines) == set(PUBLIC)


def test_what_errors_recommend_can_do_it():
    """Errors of all policies name `adadim.recommended(problem)` as the one that can do what they cannot."""
    pytest.importorskip("torch")
    assert all(row(adadim.recommended(problem_of("fixed", "numpy"))).values())
    problem = adadim.Problem(FEATURES, horizon=None, noise=None)
    learner = adadim.recommended(problem).start(problem)
    learner.learn([0, 1, 2, 0], [0.1, 0.2, 0.3, 0.1])
    assert learner.describe()["pulls"] == 4
    assert len(learner.dimension().probabilities) == FEATURES.shape[1]
    contextual = adadim.Problem(arms=6, dim=5, horizon=None, noise=None)
    learner = adadim.recommended(contextual).start(contextual)
    learner.learn(FEATURES, [0.1] * 6)
    assert learner.describe()["pulls"] == 6


SOURCE = Path(adadim.__file__).parent
BELOW = sorted(path for room in ("core", "models", "policies") for path in (SOURCE / room).rglob("*.py"))


@pytest.mark.parametrize("path", BELOW, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_text_names_a_policy_that_its_module_does_not_know(path):
    """A sentence on what others can do is wrong as soon as one of them changes; see the test above."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {node.value for node in ast.walk(tree) if is_string_statement(node)}
    known = {name for node in ast.walk(tree) for name in names_in(node)}
    strings = {n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)} - documentation
    sentences = [node.value for node in strings if len(node.value.split()) > 3 and "\n" not in node.value]
    others = "|".join(re.escape(name) for name in PUBLIC if name not in known)
    assert [text for text in sentences if re.search(rf"\b({others})\b", text)] == []


def names_in(node):
    """Classes that a module defines, and what it imports."""
    if isinstance(node, ast.ClassDef):
        return [node.name]
    return [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
