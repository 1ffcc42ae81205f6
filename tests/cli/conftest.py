from pathlib import Path

import pytest

from command_line import STUDY, adadim_


@pytest.fixture(autouse=True)
def _elsewhere(request, working_folder):
    """Whatever a command writes by default lands in a folder of the test's own; figures are PNG, if not marked."""
    if request.node.get_closest_marker("every_format") is None:
        request.getfixturevalue("one_format")


@pytest.fixture
def file():
    path = Path("mine.toml")
    path.write_text(STUDY)
    return path


@pytest.fixture
def results(file):
    """A results folder of the study in `STUDY`."""
    adadim_("run", file, "--jobs", 1, "--batch", 2, "--quiet")
    return Path("results/mine")
