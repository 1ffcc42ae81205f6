"""Pipes, devices and files without measure, where a file is to be read: refused in one sentence, and at once."""

import os
import signal
import sys

import numpy as np
import pytest
from small_studies import one_instance

import adadim
from adadim.core.codec import MAX_TOML_BYTES, MAX_TOML_DEPTH
from adadim.core.files import read
from adadim.core.frames import read_frame
from adadim.errors import AdadimError, StoreError, StudyError
from adadim.study import Study, load, run, status

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs pipes")


@pytest.fixture(autouse=True)
def _no_hang():
    """Interrupt what waits for a pipe, or reads a device, without end."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path):
    os.mkfifo(path)


def device(path):
    os.symlink("/dev/zero", path)


ODD = [pytest.param(pipe, "got a pipe", id="pipe"), pytest.param(device, "got a device", id="device")]
READERS = {
    "block.bin": read,
    "study.toml": Study.from_toml,
    "table.csv": read_frame,
    "table.parquet": read_frame,
    "learner.npz": lambda path: adadim.load(path, adadim.Problem(np.eye(3), horizon=9)),
}


@pytest.mark.parametrize(("make", "message"), ODD)
@pytest.mark.parametrize("name", READERS)
def test_only_regular_files_are_read(name, make, message, tmp_path):
    make(tmp_path / name)
    with pytest.raises(AdadimError, match=rf"{name}: must be a regular file, {message}"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize(("make", "message"), ODD)
@pytest.mark.parametrize("which", ["block", "manifest"])
def test_results_that_are_no_files_are_refused(which, make, message, tmp_path):
    study = one_instance()
    run(study, tmp_path, jobs=1)
    paths = {"block": min((tmp_path / "blocks").glob("*.parquet")), "manifest": tmp_path / "manifest.json"}
    paths[which].unlink()
    make(paths[which])
    for reads in (lambda: load(tmp_path).frame(), lambda: run(study, tmp_path, jobs=1)):
        with pytest.raises(StoreError, match=rf"{paths[which].name}: must be a regular file, {message}"):
            reads()
    if which == "manifest":
        with pytest.raises(StoreError, match=message):
            status(tmp_path)


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    os.symlink(tmp_path / "file", tmp_path / "link")
    assert read(tmp_path / "link") == b"content"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".".join("a" * 75_000) + " = 1", "a name may have 32 parts"),
        ("x = {" + " . ".join(['"a"'] * 75_000) + " = 1}", "a name may have 32 parts"),
        ("[" + ".".join("a" * 75_000) + "]", "a name may have 32 parts"),
        ("#" * (MAX_TOML_BYTES + 1), "a TOML file may have 4194304 bytes"),
        ("x = " + "[" * 40 + "]" * 40, "at most 32 levels of tables and lists are allowed"),
        ("x = " + "[" * 200_000, "nested too deeply"),
        ("a" * 1_000_000, "not valid TOML"),
    ],
    ids=["dotted", "inline", "heading", "large", "deep", "brackets", "one word"],
)
def test_toml_without_measure_is_refused(text, message, tmp_path):
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(StudyError, match=rf"study\.toml: .*{message}"):
        Study.from_toml(tmp_path / "study.toml")


def test_names_of_as_many_parts_as_may_be(tmp_path):
    name = ".".join(["a"] * MAX_TOML_DEPTH)
    (tmp_path / "study.toml").write_text(f"{name} = 1")
    with pytest.raises(StudyError, match="a: a study has no such key"):
        Study.from_toml(tmp_path / "study.toml")
