"""Results folders: what is written, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pytest
from small_studies import blocks, contents, one_instance

import adadim
from adadim.study import StoreError, Study, load, run, status
from adadim.study.store import Store


def test_the_manifest_says_what_produced_the_folder(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["adadim"] == adadim.__version__
    assert Study.from_dict(manifest["study"]) == one_instance()
    assert [cell["id"] for cell in manifest["cells"]] == [cell.id for cell in one_instance().cells]
    results = load(folder)
    assert (results.name, results.trials, results.instances) == ("small", 4, ("easy",))
    assert results.parameters("easy")["noise"] == 0.1
    assert results.parameters("easy")["kind"] == "sphere"


def test_blocks_are_readable_without_adadim(folder):
    frame = pl.read_parquet(blocks(folder)[0])
    assert frame.columns == ["replication", "time", "regret"]
    assert frame["time"].to_list() == [30, 60] * 2


def refused(folder, message):
    """Running and reading are both refused, and nothing in the folder changes."""
    before = contents(folder)
    for action in (lambda: run(one_instance(), folder, jobs=1, batch=2), lambda: load(folder).frame()):
        with pytest.raises(StoreError, match=message) as caught:
            action()
        assert isinstance(caught.value, ValueError)
    assert contents(folder) == before


@pytest.mark.parametrize("kept", [0, 8, 1000, -1])
def test_a_truncated_block_is_named_and_can_be_computed_again(folder, kept):
    before = contents(folder)
    path = blocks(folder)[1]
    path.write_bytes(path.read_bytes()[:kept])
    refused(folder, rf"{path.name}: damaged .*delete it, and running the study again")
    with pytest.raises(StoreError, match=path.name):
        status(folder)
    path.unlink()
    run(one_instance(), folder, jobs=1, batch=2)
    assert contents(folder) == before


def test_foreign_parquet_files_are_named(folder):
    strange = folder / "blocks" / "table.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(strange)
    refused(folder, r"table\.parquet: not a result of adadim; move it out")
    strange.unlink()
    path = blocks(folder)[0]
    pl.DataFrame({"a": [1]}).write_parquet(path)
    refused(folder, rf"{path.name}: a Parquet file that adadim did not write")


def test_a_renamed_block_is_refused(folder):
    first, second = blocks(folder)[:2]
    second.write_bytes(first.read_bytes())
    refused(folder, rf"{second.name}: holds '{first.stem}'")


def test_a_block_with_other_rows_is_refused(folder):
    path = blocks(folder)[0]
    meta = pl.read_parquet_metadata(path)
    pl.read_parquet(path).reverse().write_parquet(path, metadata={"adadim": meta["adadim"]})
    with pytest.raises(StoreError, match=f"{path.name}: damaged .*rows"):
        load(folder).frame()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not readable as JSON.*move it away"),
        ("[1]", "not written by adadim; choose another folder"),
        ('{"name": "something else"}', "not written by adadim; choose another folder"),
        ('{"made_by": "adadim", "format": 1}', "incomplete; move it away"),
        ('{"made_by": "adadim", "format": 99, "adadim": "7.0"}', "format 99, by adadim 7.0.*choose another folder"),
    ],
)
def test_a_manifest_that_is_not_ours_is_refused(folder, text, message):
    (folder / "manifest.json").write_text(text)
    refused(folder, rf"manifest\.json: .*{message}")


def test_a_folder_of_another_study_is_refused(folder):
    before = contents(folder)
    with pytest.raises(StoreError, match=r"manifest\.json: .*study 'small', not of 'other'; choose another folder"):
        run(one_instance(name="other"), folder, jobs=1)
    assert contents(folder) == before


def test_a_folder_without_manifest_cannot_be_read_but_run_restores_it(folder):
    before = contents(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(StoreError, match="not a results folder"):
        load(folder)
    run(one_instance(), folder, jobs=1, batch=2)
    assert contents(folder) == before


HOLDER = """
import sys, time
from adadim.study.store import Store
with Store(sys.argv[1]).claim(sys.argv[2], (0, 2)) as claimed:
    print(claimed, flush=True)
    time.sleep(60)
"""


def test_claims_exclude_other_processes_and_end_with_them(folder):
    cell, store = one_instance().cells[0].id, Store(folder)
    leftover = folder / "blocks" / f"{cell}-000000-000002.parquet.0123abcd.tmp"
    stray = folder / "blocks" / f"{cell}-000002-000004.parquet.0123abcd.tmp"
    for path in (leftover, stray, folder / "manifest.json.0123abcd.tmp"):
        path.write_bytes(b"half a file")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, folder, cell], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "True\n"
        for span, free in (((0, 1), False), ((1, 5), False), ((2, 4), True)):
            with store.claim(cell, span) as claimed:
                assert claimed is free
        run(one_instance(), folder, jobs=1, batch=2)
        assert leftover.exists()  # its owner lives
        assert not stray.exists()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with store.claim(cell, (0, 2)) as claimed:
        assert claimed
    run(one_instance(), folder, jobs=1, batch=2)
    assert [path.name for path in folder.rglob("*.tmp")] == []
