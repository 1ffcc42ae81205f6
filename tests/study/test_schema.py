"""Files of a results folder with keys that are missing or of another type: refused, with the key and what to do."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path

import pytest
from small_studies import one_instance

from adadim.errors import StoreError
from adadim.study import load, run, status
from adadim.study.store import check_manifest, check_metadata, manifest_digest

VALUES = (None, True, 0, -1, 10**30, 1.5, "", "x", [], [1], {}, {"a": 1})


def places(value, path=()):
    """Paths of everything inside nested tables and lists."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(content, path, value=...):
    """A copy with another value at `path`, or none."""
    content = copy.deepcopy(content)
    at = content
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return content


def refused(content, *, digest):
    """Whether a manifest is refused; other errors than ours fail the test."""
    if digest:
        with contextlib.suppress(AttributeError, KeyError, TypeError):
            content["digest"] = manifest_digest(content)
    try:
        check_manifest(content, Path("manifest.json"))
    except StoreError as error:
        return str(error).startswith("manifest.json: ")
    return False


def test_every_change_of_a_manifest_is_refused(folder):
    good = json.loads((folder / "manifest.json").read_text())
    assert not refused(good, digest=False)
    for path in places(good):
        for value in (..., *VALUES):
            bad = changed(good, path, value)
            if path != ("adadim",) and bad != good:
                assert refused(bad, digest=False), (path, value)


def test_a_manifest_that_passes_can_be_read(folder):
    """A forged digest gets wrong values no further than the schema."""
    good = json.loads((folder / "manifest.json").read_text())
    for path in places(good):
        for value in (..., *VALUES):
            content = changed(good, path, value)
            if not refused(content, digest=True):
                (folder / "manifest.json").write_text(json.dumps(content))
                assert load(folder).trials == status(folder).cells[0].trials
                load(folder).parameters("easy")


def test_block_metadata_are_checked(folder):
    good = {"adadim": "0", "block": "x", "cell": one_instance().cells[0].identity, "digest": "0" * 64}
    good = json.loads(json.dumps(good))
    assert check_metadata(good, Path("x.parquet")) == good
    for path in [("block",), ("cell",), ("cell", "times"), ("cell", "instance"), ("cell", "instance", "kind")]:
        with pytest.raises(StoreError, match=r"x\.parquet: incomplete: .* is missing; delete it"):
            check_metadata(changed(good, path), Path("x.parquet"))
        with pytest.raises(StoreError, match=r"x\.parquet: .* must be .*, got 3; delete it"):
            check_metadata(changed(good, path, 3), Path("x.parquet"))
    for times in ([], [0], [2, 1], ["x"], [2**31]):
        with pytest.raises(StoreError, match=r"cell\.times must be increasing rounds"):
            check_metadata(changed(good, ("cell", "times"), times), Path("x.parquet"))


def test_labels_may_be_edited(tmp_path):
    run(one_instance(labels={"title": "old"}), tmp_path, jobs=1)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"old"', '"new"'))
    assert load(tmp_path).labels == {"title": "new"}
