import shutil
from pathlib import Path

import pytest

from command_line import STUDY, adadim_, draw_quickly


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


@pytest.fixture(scope="session")
def computed(tmp_path_factory):
    """A results folder of the study in `STUDY`, computed once."""
    folder = tmp_path_factory.mktemp("computed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        draw_quickly(patch)
        Path("mine.toml").write_text(STUDY)
        adadim_("run", "mine.toml", "--jobs", 1, "--batch", 2, "--quiet")
    return folder / "results" / "mine"


@pytest.fixture
def results(file, computed):
    """A results folder of the study in `STUDY`, of the test's own."""
    return shutil.copytree(computed, Path("results/mine"))
