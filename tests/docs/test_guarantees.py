"""What docs/ say is proved of a policy, and must be told to it, is what its docstring says and what it does."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from pages_of_docs import ROOT

import adadim
from adadim.experiments.comparison.plan import policies

sys.path.insert(0, str(ROOT / "benchmarks"))
field, listed = importlib.import_module("field"), importlib.import_module("_guarantees")

DENIALS = ("nothing is proved", "no guarantee", "without a guarantee", "no sublinear guarantee", "unverified")


def words(text: str) -> str:
    return " ".join(text.split())


def rows_of(page: str, before: str | None = None) -> dict[str, list[str]]:
    """Cells of the tables of a page, of those before a heading if one is given, by their first."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    lines = (text if before is None else text.partition(before)[0]).splitlines()
    cells = [re.split(r" *\| *", line.strip("| ")) for line in lines if line.startswith("|")]
    return {row[0]: row for row in cells if row[0] not in ("policy", "---")}


def compared() -> dict[str, adadim.Policy]:
    """The policies of the comparison; those told d* as LinUCB in two features."""
    return {name: p if isinstance(p, adadim.Policy) else adadim.LinUCB(dim=2) for name, p in policies().items()}


def test_every_policy_of_the_library_and_of_the_field_has_a_row():
    aside = {"Single", "ReleasedLinUCB", "ReleasedLinUCBPlusPlus", "ReleasedDynamicBalancing"}
    assert set(adadim.policies.kinds()) - aside <= {row.kind for row in listed.GUARANTEES}
    names = [name for row in listed.GUARANTEES for name in row.names]
    in_table = [name for name, row in rows_of("notebook/field.md").items() if len(row) == field.COLUMNS]
    assert sorted(names) == sorted(in_table)
    for name, row in listed.BY_NAME.items():
        assert row.kind in [kind.__name__ for kind in type(compared()[name]).__mro__], name


@pytest.mark.parametrize("row", listed.GUARANTEES, ids=lambda row: row.policy)
def test_a_row_rests_on_the_docstring(row):
    if not hasattr(adadim, row.kind):
        pytest.skip(f"there is no {row.kind} yet")
    said = words(inspect.getdoc(getattr(adadim, row.kind)))
    assert words(row.says) in said
    if row.verdict == "theorem":
        assert row.bound
        assert row.source
        assert row.assumes
        assert not any(denial in row.says.lower() for denial in DENIALS)
    elif row.verdict == "unverified":
        assert "unverified" in said.lower()
        assert row.source
    else:
        assert row.fails


@pytest.mark.parametrize("kind", [kind for name, kind in sorted(adadim.policies.kinds().items()) if name != "Single"])
def test_what_a_docstring_denies_no_row_claims(kind):
    """A docstring that denies a guarantee outright, not of a parameter, has no row "theorem"."""
    said = words(inspect.getdoc(kind))
    outright = [denial for denial in ("Nothing is proved about its regret", "No guarantee. ") if denial in said]
    rows = [row for row in listed.GUARANTEES if row.kind == kind.__name__]
    if outright:
        assert {row.verdict for row in rows} == {"nothing"}


def test_parameters_as_run_are_those_of_the_row():
    """Where a row's parameters decide, the comparison runs them."""
    run = compared()
    assert run["corral"].feedback == run["tsallis-corral"].feedback == "stochastic"
    assert run["bandit-combiner"].targets == "plain"
    assert run["linucb++"].solver == "linucb"
    assert run["linucb++reuse"].reuse
    assert (run["tapered"].radius, run["linucb"].radius) == ("noise", "noise")
    assert (run["osom"].variant, run["alb-norm"].variant) == ("ellipsoid", "ellipsoid")
    assert (run["modcb"].base, run["modcb"].test) == ("squarecb", "error")
    assert (run["suplinucb"].ridge, run["suplinucb"].radius, run["suplinucb"].scale) == (1.0, "full", 1.0)
    assert (run["regret-balancing-linear"].radius, run["regret-balancing-linear"].scale) == ("oful-2011", 1.0)
    assert (run["d3rb"].variant, run["d3rb"].d_min, run["ed2rb"].variant) == ("printed", 1.0, "printed")
    assert "ParallelMOSS" not in {type(policy).__name__ for policy in run.values()}


def test_labels_of_the_issue():
    """What was called a theorem and is none."""
    for name in ("emp-moss++", "corral", "tsallis-corral", "smooth-corral", "linucb++corral", "linucb++"):
        assert field.proved(name).startswith("nothing: "), name
    for name in ("moss++", "medzo"):
        assert field.proved(name).startswith("unverified: "), name


@pytest.mark.parametrize("name", sorted(listed.BY_NAME))
def test_the_table_of_the_field_says_it(name):
    row = rows_of("notebook/field.md")[name]
    assert row[-2:] == [field.asks(name), field.proved(name)]


def test_the_page_of_guarantees_is_made_from_this(tmp_path):
    Path(tmp_path, "notebook").mkdir()
    for page in ("notebook/field.md", "notebook/guarantees.md"):
        Path(tmp_path, page).write_bytes((ROOT / "docs" / page).read_bytes())
    field.write_guarantees(tmp_path)
    for page in ("notebook/field.md", "notebook/guarantees.md"):
        assert Path(tmp_path, page).read_bytes() == (ROOT / "docs" / page).read_bytes()
    rows = rows_of("notebook/guarantees.md")
    rows = {name: row for name, row in rows.items() if len(row) == 4}  # other tables are wider
    assert {f"`{row.policy}`" for row in listed.GUARANTEES} == set(rows)
    assert rows["`EvidenceLinUCB()`"][1] == "**nothing**"


def plays(policy: adadim.Policy, **unknown: None) -> bool:
    """Whether a policy plays where something is not known."""
    problem = adadim.Problem(np.eye(4), **{"horizon": 60, "noise": 0.1, "reward_range": 1.0, **unknown})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            learner = policy.start(problem, seed=1)
            for _ in range(50):
                learner.update(learner.select(), 0.1)
        except adadim.InvalidValueError:
            return False
    return True


@pytest.mark.parametrize("name", sorted(listed.BY_NAME))
def test_what_a_policy_must_be_told_is_tried_out(name):
    policy, told = compared()[name], field.asks(name).split(", ")
    assert ("noise" in told) == (not plays(policy, noise=None))
    assert ("range" in told) == (not plays(policy, reward_range=None))


def test_the_short_table_of_policies_has_the_numbers_of_the_whole_one():
    """Regret on held-out families over the oracle's, as published and tuned."""

    def first_word(cell: str) -> str:
        return re.sub(r"^`(\w+).*", r"\1", cell) + (" of d*" if "d*" in cell else "")

    lines = (ROOT / "docs" / "notebook" / "field.md").read_text(encoding="utf-8").partition("## As published")[2]
    cells = [re.split(r" *\| *", line.strip("| ")) for line in lines.splitlines() if line.startswith("| `")]
    whole = {first_word(row[0]): [cell.split(" / ")[0] for cell in row[3:5]] for row in cells}
    rows = rows_of("field.md", "## Newer systems").values()
    short = {first_word(row[0]): row[1:3] for row in rows}
    assert len(short) == 12
    assert short == {name: whole[name] for name in short}


def test_newer_systems_have_the_numbers_of_the_notebook():
    """Regret on held-out families over the oracle's, as published and tuned: those of the notebook's table."""
    text = (ROOT / "docs" / "field.md").read_text(encoding="utf-8").partition("## Newer systems")[2]
    rows = [re.split(r" *\| *", line.strip("| ")) for line in text.splitlines() if line.startswith("| `")]
    notebook = (ROOT / "docs" / "notebook" / "field.md").read_text(encoding="utf-8")
    table = notebook.partition("| system | development, published |")[2].partition("\n\n")[0]
    whole = {}
    for line in table.splitlines()[2:]:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if name.startswith("`") and not name.startswith("`Certified"):
            whole[re.sub(r"^(`[^`]+`).*", r"\1", name)] = [cell.split(" / ")[0] for cell in cells[3:5]]
    assert len(rows) == 11
    assert {name: numbers for name, *numbers in rows} == whole
