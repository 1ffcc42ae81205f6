"""The tables in docs/ are what the source gives: where its digest is another, a little of each is computed again."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace

import pytest
from pages_of_docs import ROOT

from adadim.study import MadeBy

sys.path.insert(0, str(ROOT / "benchmarks"))
tables = importlib.import_module("tables")
TABLES = {table.file: table for table in tables.tables()}


@pytest.mark.parametrize("file", TABLES)
def test_no_table_is_out_of_date(file):
    assert tables.outdated(TABLES[file]) == ""


def test_every_csv_of_docs_has_its_note():
    files = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.csv")}
    assert files == {file for file in TABLES if file.endswith(".csv")}
    for note in {table.note for table in TABLES.values()}:
        said = json.loads(note.read_text(encoding="utf-8"))
        assert set(said) == {"adadim", "source", "page", "tables"}
        assert (ROOT / "docs" / said["page"]).is_file()


@pytest.fixture
def comparison_table(tmp_path, monkeypatch):
    """A table with its note in another place, and a source whose digest is new."""
    table = TABLES["comparison/regret-vs-oracle.csv"]
    note = tmp_path / "comparison" / tables.NOTE
    note.parent.mkdir()
    note.write_bytes(table.note.read_bytes())
    (tmp_path / table.file).write_bytes((ROOT / "docs" / table.file).read_bytes())
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    monkeypatch.setattr(tables, "present", lambda: MadeBy("9.9", "f" * 12))
    return table


def test_a_comment_is_no_news(comparison_table):
    assert tables.outdated(comparison_table) == ""


def test_a_changed_policy_is_and_one_that_is_gone(comparison_table):
    changed = {**comparison_table.study.policies, "tapered": {"kind": "TaperedLinUCB", "taper": 1.4}}
    del changed["greedy"]
    told = tables.outdated(replace(comparison_table, study=replace(comparison_table.study, policies=changed)))
    assert told.startswith("docs/comparison/regret-vs-oracle.csv has the numbers of adadim ")
    assert "adadim 9.9, source ffffffffffff gives others" in told
    assert "tapered: " in told
    assert "greedy: no longer in the study" in told
    assert "linucb++: " not in told
    page = "docs/notebook/how-the-default-was-chosen.md"
    assert f"the command in {page}, then python benchmarks/tables.py --record" in told


def test_whole_cells_are_compared_with_what_is_written(comparison_table):
    path = tables.DOCS / comparison_table.file
    few = [line for line in path.read_text().splitlines() if "family" in line or ",sphere-uniform-1/100," in line][:3]
    path.write_text("\n".join(few) + "\n")
    assert tables.compare_regrets(comparison_table) == []
    name, regret = few[1].split(",")[2], few[1].split(",")[4]
    path.write_text("\n".join(few).replace(f",{regret},", f",{float(regret) * 1.001},") + "\n")
    (told,) = tables.compare_regrets(comparison_table)
    assert told.startswith(f"{name}: ")
