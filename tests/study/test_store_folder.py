"""Results folders: what is written, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import math
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from small_studies import blocks, contents, done_by, one_instance

import adadim
from adadim import StoreWarning
from adadim.study import StoreError, Study, load, run, status
from adadim.study.executor import plan
from adadim.study.store import Store, encoded


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


def damaged(folder, path, reason):
    """Reading refuses the folder and names the block, and running computes that block again, with a warning."""
    for action in (lambda: load(folder).frame(), lambda: status(folder)):
        with pytest.raises(StoreError, match=rf"{path.name}: damaged \({reason}.*\); running the study again"):
            action()
    with pytest.warns(StoreWarning, match=rf"{path.name}: damaged \({reason}.*\); it is computed again"):
        done = done_by(one_instance(), folder, jobs=1, batch=2)
    assert [unit.id for unit in done] == [path.stem]


@pytest.mark.parametrize("kept", [0, 8, 1000, -1])
def test_a_truncated_block_is_named_and_computed_again(folder, kept):
    before = contents(folder)
    path = blocks(folder)[1]
    path.write_bytes(path.read_bytes()[:kept])
    damaged(folder, path, "it")
    assert contents(folder) == before


def test_every_flipped_bit_is_noticed(folder):
    path = blocks(folder)[0]
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        with pytest.raises(StoreError, match=path.name):
            load(folder).frame()
    damaged(folder, path, "it")
    assert path.read_bytes() == good


def forged(path, change, meta=None):
    """Write a block anew with other content, its metadata or others, and a digest that fits."""
    meta = pl.read_parquet_metadata(path)["adadim"] if meta is None else json.dumps(meta, sort_keys=True)
    blank = meta.replace(json.loads(meta)["digest"], "0" * 64)
    buffer = io.BytesIO()
    change(pl.read_parquet(path)).write_parquet(buffer, metadata={"adadim": blank})
    data = buffer.getvalue()
    path.write_bytes(data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode()))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "some regret is NaN"),
        (math.inf, "some regret is NaN or infinite"),
        (-1.0, "some regret is negative"),
        (None, "some regret is missing"),
    ],
)
def test_regret_that_cannot_be_is_refused(folder, value, reason):
    path = blocks(folder)[0]
    good = path.read_bytes()
    forged(
        path,
        lambda frame: frame.with_columns(regret=pl.Series([value, *frame["regret"].to_list()[1:]], dtype=pl.Float64)),
    )
    damaged(folder, path, reason)
    assert path.read_bytes() == good


def test_what_cannot_be_regret_is_not_stored(folder):
    unit = plan(one_instance(), {}, jobs=1, batch=2)[0]
    for value in (math.nan, math.inf, -1.0):
        with pytest.raises(StoreError, match=f"block {unit.id}: some regret is"):
            Store(folder).write(unit, encoded(unit, np.full((2, 2), value)))


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
    forged(path, lambda frame: frame.reverse())
    damaged(folder, path, "its rows are not those of this block")


def test_a_panic_of_polars_is_an_error_like_others(folder, monkeypatch):
    class PanicException(BaseException):
        pass

    def panics(*_, **__):
        raise PanicException("index out of bounds")

    monkeypatch.setattr(pl, "read_parquet", panics)
    with pytest.raises(StoreError, match=f"{blocks(folder)[0].name}: damaged .polars cannot read it"):
        load(folder).frame()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not readable as JSON.*move it away"),
        ("[1]", "not written by adadim; choose another folder"),
        ('{"name": "something else"}', "not written by adadim; choose another folder"),
        ('{"made_by": "adadim", "format": 2, "adadim": "0"}', "incomplete: study is missing; move it away"),
        ("[" * 100_000, "nested too deeply.*move it away"),
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
with Store(sys.argv[1]).claims.hold(sys.argv[2], (0, 2)) as claimed:
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
            with store.claims.hold(cell, span) as claimed:
                assert claimed is free
        run(one_instance(), folder, jobs=1, batch=2)
        assert leftover.exists()  # its owner lives
        assert not stray.exists()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with store.claims.hold(cell, (0, 2)) as claimed:
        assert claimed
    run(one_instance(), folder, jobs=1, batch=2)
    assert [path.name for path in folder.rglob("*.tmp")] == []
