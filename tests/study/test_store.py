"""Results folders: what is written, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import adadim
from adadim.study import StoreError, Study, load, run, status
from adadim.study.store import Store

SPHERE = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}


def small(**changes):
    parts = {
        "name": "small",
        "instances": {"easy": SPHERE},
        "policies": {"LinUCB": adadim.LinUCB(), "random": adadim.Random()},
        "trials": 4,
        "record": [30, 60],
    }
    return Study(**{**parts, **changes})


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def blocks(folder):
    return sorted((folder / "blocks").glob("*.parquet"))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "results"
    run(small(), folder, jobs=1, batch=2)
    return folder


def test_results_are_those_of_simulate(folder):
    instance = adadim.instances.sphere(**{k: v for k, v in SPHERE.items() if k != "kind"}, replications=range(4))
    expected = adadim.simulate(adadim.LinUCB(), instance, record=[30, 60])
    results = load(folder)
    times, regret = results.curves("easy", "LinUCB")
    np.testing.assert_array_equal(times, expected.times)
    np.testing.assert_array_equal(regret, expected.regret)
    np.testing.assert_array_equal(results.final("easy", "LinUCB"), expected.final)
    frame = results.frame()
    assert frame.columns == ["instance", "policy", "replication", "time", "regret"]
    assert frame.height == 2 * 4 * 2
    chosen = frame.filter((pl.col("policy") == "LinUCB") & (pl.col("replication") == 3) & (pl.col("time") == 60))
    assert chosen["regret"].to_list() == [expected.regret[3, 1]]


def test_the_manifest_says_what_produced_the_folder(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["adadim"] == adadim.__version__
    assert Study.from_dict(manifest["study"]) == small()
    assert [cell["id"] for cell in manifest["cells"]] == [cell.id for cell in small().cells]
    results = load(folder)
    assert (results.name, results.trials, results.instances) == ("small", 4, ("easy",))
    assert results.parameters("easy")["noise"] == 0.1
    assert results.parameters("easy")["kind"] == "sphere"


def test_blocks_are_readable_without_adadim(folder):
    frame = pl.read_parquet(blocks(folder)[0])
    assert frame.columns == ["replication", "time", "regret"]
    assert frame["time"].to_list() == [30, 60] * 2


def test_status_counts_what_is_stored(folder):
    assert status(folder).complete
    blocks(folder)[0].unlink()
    state = status(folder)
    assert (state.name, state.done, state.total, state.complete) == ("small", 6, 8, False)
    assert sorted(cell.done for cell in state.cells) == [2, 4]


def test_incomplete_results_can_be_read(folder):
    first = small().cells[0]
    Store(folder).path(first.id, (0, 2)).unlink()
    results = load(folder)
    assert results.replications("easy", "LinUCB").tolist() == [2, 3]
    assert results.final("easy", "LinUCB").shape == (2,)


def test_overlapping_blocks_count_once(folder, tmp_path):
    other = tmp_path / "other"
    run(small(), other, jobs=1, batch=3)
    before = load(folder).frame()
    for path in blocks(other):
        (folder / "blocks" / path.name).write_bytes(path.read_bytes())
    assert load(folder).frame().equals(before)
    assert status(folder).done == 8


def test_unknown_names_are_refused(folder):
    results = load(folder)
    with pytest.raises(StoreError, match=r"no policy 'linucb'.*did you mean 'LinUCB'"):
        results.final("easy", "linucb")
    with pytest.raises(StoreError, match=r"no instance 'esay'.*did you mean 'easy'"):
        results.parameters("esay")


def test_a_policy_left_out_by_only_is_refused_by_name(tmp_path):
    study = small(instances={"easy": SPHERE, "b": {**SPHERE, "kind": "ball"}}, only={"random": ["b"]})
    results = run(study, tmp_path, jobs=1)
    assert results.cells() == (("easy", "LinUCB"), ("b", "LinUCB"), ("b", "random"))
    with pytest.raises(StoreError, match="'random' does not run on instance 'easy'"):
        results.final("easy", "random")


def refused(folder, message):
    """Running and reading are both refused, and nothing in the folder changes."""
    before = contents(folder)
    for action in (lambda: run(small(), folder, jobs=1, batch=2), lambda: load(folder).frame()):
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
    run(small(), folder, jobs=1, batch=2)
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
        run(small(name="other"), folder, jobs=1)
    assert contents(folder) == before


def test_a_folder_without_manifest_cannot_be_read_but_run_restores_it(folder):
    before = contents(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(StoreError, match="not a results folder"):
        load(folder)
    run(small(), folder, jobs=1, batch=2)
    assert contents(folder) == before


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("keep me")
    for place in (file, file / "results"):
        with pytest.raises(StoreError, match="a part of this path is a file; choose another folder"):
            run(small(), place, jobs=1)
    assert file.read_text() == "keep me"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="choose a folder you may write to"):
        run(small(), tmp_path / "results", jobs=1)
    tmp_path.chmod(0o700)


def test_a_read_only_file_system_is_refused(tmp_path, monkeypatch):
    def forbidden(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", forbidden)
    with pytest.raises(StoreError, match="Read-only file system; choose a folder you may write to"):
        run(small(), tmp_path / "results", jobs=1)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_loses_nothing_and_leaves_nothing_half_written(tmp_path, monkeypatch, call):
    run(small(), tmp_path / "whole", jobs=1, batch=1)
    whole = contents(tmp_path / "whole")
    folder, written = tmp_path / "results", []

    real_open = open

    def fail():
        raise OSError(errno.ENOSPC, "No space left on device")

    def full_after_some(path, mode="r", *args, **kwargs):
        file = real_open(path, mode, *args, **kwargs)
        if "x" in mode:
            written.append(path)
            if len(written) > 4 and call == "write":
                file.write(b"PAR1")
                return _Failing(file, fail)
        return file

    def fsync(handle):
        if len(written) > 4:
            fail()

    monkeypatch.setattr("adadim.study.store.open", full_after_some, raising=False)
    if call == "fsync":
        monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match=r"\.parquet: No space left on device; free some space and run again"):
        run(small(), folder, jobs=1, batch=1)
    kept = contents(folder)
    assert len(kept) == 4  # the manifest and three blocks
    assert kept.items() < whole.items()
    monkeypatch.undo()
    run(small(), folder, jobs=1, batch=1)
    assert contents(folder) == whole


class _Failing:
    """A file that cannot be written to any more."""

    def __init__(self, file, fail):
        self.file, self.fail = file, fail

    def write(self, data):
        self.fail()

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.file.close()


HOLDER = """
import sys, time
from adadim.study.store import Store
with Store(sys.argv[1]).claim(sys.argv[2], (0, 2)) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


def test_claims_exclude_other_processes_and_end_with_them(folder):
    cell, store = small().cells[0].id, Store(folder)
    leftover = folder / "blocks" / f"{cell}-000000-000002.parquet.0123abcd.tmp"
    stray = folder / "blocks" / f"{cell}-000002-000004.parquet.0123abcd.tmp"
    for path in (leftover, stray, folder / "manifest.json.0123abcd.tmp"):
        path.write_bytes(b"half a file")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, folder, cell], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "True\n"
        for span, free in (((0, 1), False), ((1, 5), False), ((2, 4), True)):
            with store.claim(cell, span) as mine:
                assert mine is free
        run(small(), folder, jobs=1, batch=2)
        assert leftover.exists()  # its owner lives
        assert not stray.exists()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with store.claim(cell, (0, 2)) as mine:
        assert mine
    run(small(), folder, jobs=1, batch=2)
    assert [path.name for path in folder.rglob("*.tmp")] == []
