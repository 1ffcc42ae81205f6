"""Results folders on disks that refuse: wrong paths, no permission, no room."""

from __future__ import annotations

import errno
import os

import pytest
from small_studies import contents, one_instance

from adadim.study import StoreError, run


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("keep me")
    for path in (file, file / "results"):
        with pytest.raises(StoreError, match="a part of this path is a file; choose another folder"):
            run(one_instance(), path, jobs=1)
    assert file.read_text() == "keep me"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="choose a folder you may write to"):
        run(one_instance(), tmp_path / "results", jobs=1)
    tmp_path.chmod(0o700)


def test_a_read_only_file_system_is_refused(tmp_path, monkeypatch):
    def forbidden(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", forbidden)
    with pytest.raises(StoreError, match="Read-only file system; choose a folder you may write to"):
        run(one_instance(), tmp_path / "results", jobs=1)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_loses_nothing_and_leaves_nothing_half_written(tmp_path, monkeypatch, call):
    run(one_instance(), tmp_path / "whole", jobs=1, batch=1)
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
                return _FullFile(file, fail)
        return file

    def fsync(handle):
        if len(written) > 4:
            fail()

    monkeypatch.setattr("adadim.core.files.open", full_after_some, raising=False)
    if call == "fsync":
        monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match=r"\.parquet: No space left on device; free some space and run again"):
        run(one_instance(), folder, jobs=1, batch=1)
    kept = contents(folder)
    assert len(kept) == 4  # the manifest and three blocks
    assert kept.items() < whole.items()
    monkeypatch.undo()
    run(one_instance(), folder, jobs=1, batch=1)
    assert contents(folder) == whole


class _FullFile:
    """A file that cannot be written to any more."""

    def __init__(self, file, fail):
        self.file, self.fail = file, fail

    def write(self, data):
        self.fail()

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.file.close()
