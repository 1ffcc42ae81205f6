"""The commands and answers on the page docs/service.md are true."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from adadim.agent import Agent
from command_line import adadim_

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")


def calls():
    """The curl commands of the page, each with the answer that stands below it, if one does."""
    lines = PAGE.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("    curl ") and "$(" not in line:
            yield line.strip(), below.strip() if below.startswith("    {") else None


@pytest.fixture
def homepage(tmp_path):
    """Address of a service whose agent makes its features."""
    pytest.importorskip("uvicorn")
    from adadim.serve import Service, Settings

    with Agent.create(tmp_path / "home.db", context=["hour", "weekend"], arm=["price", "rating"]) as agent:
        agent.set_arms({"article-1": [1.0, 0.2], "article-2": [0.5, 0.3]})
    with Service(tmp_path / "home.db", Settings(port=0)) as service:
        yield service.url


def test_the_calls_of_the_page(serving, homepage):
    if shutil.which("curl") is None:
        pytest.skip("curl is needed")
    url, found = str(serving().base_url), list(calls())
    assert len(found) == 10
    for call, answer in found:
        address = homepage if '"context"' in call else url
        command = [*shlex.split(call.replace("http://127.0.0.1:8000", address)), "--silent"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        if answer is not None:
            assert done.stdout == answer
        else:
            assert done.stdout.startswith("{")
            assert '"error"' not in done.stdout


def test_the_page_names_all_paths_and_limits(service):
    from adadim.serve import Settings

    for path in service.get("/openapi.json").json()["paths"]:
        assert path in PAGE
    defaults = Settings()
    assert defaults.largest_body == 2 * 2**20
    for number in (defaults.most_arms, defaults.rate):
        assert f"{number:,.0f}" in PAGE
    assert f"{defaults.request_timeout:g} seconds" in PAGE
    printed, _ = adadim_("serve", "--help")
    options = set(re.findall(r"`(--[a-z-]+)` \|", PAGE))
    assert len(options) == 4
    for option in options:
        assert option in printed
