"""Results folders that cannot be used: not writable, damaged, foreign, of another version."""

import errno
import json
import os
import re
from pathlib import Path

import polars as pl
import pytest

import adadim
from adadim import study
from command_line import STUDY, adadim_, blocks, contents, refused


def test_folders_that_cannot_be_written_to(file, monkeypatch):
    refused("run", file, "--jobs", 1, "--out", "mine.toml", message=r"mine\.toml/blocks: .*choose another folder")
    refused("run", file, "--jobs", 1, "--out", "mine.toml/x", message=r"mine\.toml/x/blocks: .*choose another folder")

    def forbidden(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", forbidden)
    refused(
        "run", file, "--jobs", 1, message=r"results/mine/blocks: Permission denied; choose a folder you may write to"
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(file):
    Path("locked").mkdir(mode=0o500)
    refused(
        "run", file, "--jobs", 1, "--out", "locked/x", message=r"locked/x/blocks: Permission denied; choose a folder"
    )


def test_a_full_disk_loses_nothing(results, file, monkeypatch):
    before = contents(results)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        _, error = adadim_("run", file, "--jobs", 1, "--trials", 6, code=2)
    assert re.search(r"error: results/mine/.*: No space left on device; free some space and run again", error)
    assert contents(results) == before
    adadim_("run", file, "--jobs", 1, "--trials", 6)
    assert study.status(results).done == 18


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "short": lambda data: data[:-1],
    "text": lambda data: b"not a table\n" * 50,
    "one bit": lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:],
}


def reading(results, tmp_path):
    return (("status", results), ("figure", results), ("export", results, "--out", tmp_path / "x.csv"))


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_blocks_are_named_and_computed_again(results, file, damage, tmp_path):
    block = blocks(results)[0]
    good = block.read_bytes()
    block.write_bytes(DAMAGE[damage](good))
    for arguments in reading(results, tmp_path):
        refused(*arguments, message=rf"results/mine/blocks/{block.name}: damaged .*; running the study again")
    assert not (tmp_path / "x.csv").exists()
    _, error = adadim_("run", file, "--jobs", 1, "--quiet")
    assert re.fullmatch(rf"warning: results/mine/blocks/{block.name}: damaged \(.*\); it is computed again\n", error)
    assert block.read_bytes() == good


def test_foreign_blocks_are_named_and_left_alone(results, file, tmp_path):
    block = blocks(results)[0]
    pl.DataFrame({"replication": [0], "time": [1], "regret": [0.5]}).write_parquet(block)
    message = rf"results/mine/blocks/{block.name}: a Parquet file that adadim did not write; move it out of this folder"
    for arguments in (("run", file, "--jobs", 1), *reading(results, tmp_path)):
        refused(*arguments, message=message)


def test_a_foreign_file_among_the_blocks_is_named(results, file):
    pl.DataFrame({"a": [1]}).write_parquet(results / "blocks" / "holiday.parquet")
    for arguments in (("run", file, "--jobs", 1), ("status", results), ("figure", results), ("export", results)):
        message = r"results/mine/blocks/holiday\.parquet: not a result of adadim; move it out of this folder"
        refused(*arguments, message=message)


def test_a_folder_of_another_version_is_left_alone(results, file):
    manifest = results / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "format": 99, "adadim": "7.0"}))
    message = (
        r"results/mine/manifest\.json: results of format 99, by adadim 7\.0, but adadim "
        rf"{re.escape(adadim.__version__)} uses format \d+; choose another folder, or use that version"
    )
    for arguments in (("run", file, "--jobs", 1), ("status", results), ("figure", results), ("export", results)):
        refused(*arguments, message=message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"not readable as JSON .*; move it away and run the study again"),
        ('{"made_by": "someone"}', r"not written by adadim; choose another folder"),
        (
            '{"made_by": "adadim", "format": 2, "adadim": "0"}',
            r"incomplete: study is missing; move it away and run the study again",
        ),
    ],
)
def test_bad_manifests_are_named(results, file, text, message):
    (results / "manifest.json").write_text(text)
    for arguments in (("run", file, "--jobs", 1), ("status", results)):
        refused(*arguments, message=rf"results/mine/manifest\.json: {message}")


def test_a_folder_of_another_study_is_left_alone(results):
    Path("other.toml").write_text(STUDY)
    arguments = ("run", "other.toml", "--jobs", 1, "--out", results)
    refused(*arguments, message=r"this folder holds the results of the study 'mine', not of 'other'; choose another")


@pytest.mark.parametrize("name", ["status", "figure", "claims", "export"])
def test_folders_without_results(name):
    refused(name, "nowhere", message="nowhere is not a folder")
    Path("empty").mkdir()
    refused(name, "empty", message=r"no results in empty; make some with 'adadim run' or 'adadim reproduce'")
