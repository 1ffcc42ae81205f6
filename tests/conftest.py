import compileall
import functools
import importlib.util
import os
import sqlite3
import sys

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from command_line import draw_quickly
from postgres_server import start_or_skip
from skips import pytest_terminal_summary  # noqa: F401 (pytest calls it)

# As modules with doctests, several files of that name would get in each other's way.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]

settings.register_profile("adadim", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("adadim")


def pytest_configure(config):
    """Compile the package once: tests start it some hundred times, also where Python is to keep nothing compiled."""
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        (folder,) = importlib.util.find_spec("adadim").submodule_search_locations
        compileall.compile_dir(folder, quiet=2)


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    with threadpool_limits(1, user_api="blas"):
        yield


class UnsynchronisedConnection(sqlite3.Connection):
    """A connection of an agent that does not wait for the disk."""

    def execute(self, sql, *values):
        if sql == "PRAGMA synchronous = FULL":
            sql = "PRAGMA synchronous = OFF"
        elif sql.startswith("PRAGMA application_id ="):  # the file is being made
            super().execute("PRAGMA synchronous = OFF")
        return super().execute(sql, *values)


@pytest.fixture(scope="session", autouse=True)
def unsynchronised():
    """Writing does not wait for the disk: no test cuts the power, and what is killed leaves what it has written.

    Processes that tests start wait as ever. The fixture `synchronised` takes this back.
    """
    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda handle: None)
    patch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=UnsynchronisedConnection))
    yield patch
    patch.undo()


@pytest.fixture
def synchronised(unsynchronised, monkeypatch):
    """Writing waits for the disk, as outside the tests."""
    for owner, name, original in list(unsynchronised._setattr):
        monkeypatch.setattr(owner, name, original)


@pytest.fixture(scope="session")
def database():
    """A PostgreSQL that the tests of one process share, each with agents of its own."""
    return start_or_skip("fsync = off")


@pytest.fixture(scope="session")
def torch():
    module = pytest.importorskip("torch")
    module.set_num_threads(1)
    return module


@pytest.fixture
def gpu(torch):
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA GPU")
    return torch


@pytest.fixture
def working_folder(tmp_path, monkeypatch):
    """An empty folder that commands run in, at a width of the terminal that does not vary."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    return folder


@pytest.fixture
def one_format(monkeypatch):
    """Figures as PNG alone and with few dots, which is faster."""
    draw_quickly(monkeypatch)
