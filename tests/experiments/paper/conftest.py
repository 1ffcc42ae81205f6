import pytest
from tiny_paper import shrink


@pytest.fixture
def tiny(monkeypatch):
    """The paper's experiments at a size that takes no time."""
    shrink(monkeypatch)
