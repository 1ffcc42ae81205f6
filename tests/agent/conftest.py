"""Tests of an agent run over both stores, but for those that look into the file itself or at the policy alone."""

import hashlib

import pytest

from adadim.agent import agent as module
from adadim.agent import stores


def pytest_generate_tests(metafunc):
    if "store" in metafunc.fixturenames:
        one = any(metafunc.definition.get_closest_marker(name) for name in ("in_a_file", "any_store"))
        metafunc.parametrize("store", ["sqlite"] if one else ["sqlite", "postgres"], indirect=True)


@pytest.fixture(autouse=True)
def store(request):
    """Where agents are kept: with PostgreSQL, what a test takes for a file is an agent of a database."""
    if request.param == "sqlite":
        yield "sqlite"
        return
    address = request.getfixturevalue("address_of")
    with pytest.MonkeyPatch.context() as patch:  # of its own: tests undo theirs
        patch.setattr(module, "open_log", lambda path, name=None: stores.open_log(address(path), name))
        patch.setattr(module, "create_log", lambda path, *rest: stores.create_log(address(path), *rest))
        yield "postgres"


@pytest.fixture
def address_of(request):
    """The address in the store of what a test takes for a file."""
    if request.node.callspec.params["store"] == "sqlite":
        return lambda path: path
    url = request.getfixturevalue("database").url

    def address(path):
        return path if stores.is_url(path) else f"{url}#t{hashlib.md5(str(path).encode()).hexdigest()}"

    return address
