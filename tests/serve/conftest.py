import sqlite3

import pytest

from adadim.agent import Agent
from adadim.serve import Settings


# Starting and stopping takes a while: the tests of a module share a service, and count from where they begin.
@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The file of an agent with three features."""
    path = tmp_path_factory.mktemp("served") / "shop.db"
    Agent.create(path, dim=3, levels={"price": 2, "text": 3}).close()
    return path


@pytest.fixture(scope="module")
def serving(file):
    """Starts services for the file, and gives a client of httpx for each."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    from adadim.serve import Service

    opened = []

    def start(**settings):
        service = Service(file, Settings(port=0, **settings))
        service.__enter__()
        client = httpx.Client(base_url=service.url, timeout=20)
        opened.extend([client, service])
        return client

    yield start
    for each in opened:
        each.__exit__(None, None, None)


@pytest.fixture(scope="module")
def service(serving):
    """A client of a service with the settings that a user gets."""
    return serving()


@pytest.fixture(scope="module")
def log(file):
    """Reads all that is in the file."""

    def read():
        with sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True) as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in sorted(names)}

    return read
