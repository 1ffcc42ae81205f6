"""The commands and answers on the page docs/service.md are true."""

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim.serve import Client
from command_line import adadim_

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")


def calls():
    """The curl commands of the page: the agent that each calls, the command, and the answer below it, if any."""
    lines, agent = PAGE.splitlines(), "shop"
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if made := re.match(r"    adadim serve (visits|ready)\.db", line):
            agent = made[1]
        if line.startswith("## Errors"):
            agent = "shop"
        if line.startswith("    curl ") and "$(" not in line:
            yield agent, line.strip(), below.strip() if below.startswith("    {") else None


@pytest.fixture
def addresses(tmp_path, monkeypatch):
    """Addresses of services for the agents that the commands of the page make, in the present folder."""
    pytest.importorskip("uvicorn")
    from adadim.serve import Service, Settings

    monkeypatch.chdir(tmp_path)
    made = dict(re.findall(r"^    adadim serve (shop|ready).db (--(?:context|dim).*)$", PAGE, re.MULTILINE))
    with monkeypatch.context() as patch:  # the server stops as soon as it runs
        patch.setattr("uvicorn.Server.run", lambda server, sockets: None)
        for name, options in made.items():
            assert f"made {name}.db" in adadim_("serve", f"{name}.db", *shlex.split(options), "--port", 0)[0]
    exec("import adadim\n" + re.search(r"```python\n(device = .*?)```", PAGE, re.DOTALL)[1])  # makes visits.db
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(Service(f"{name}.db", Settings(port=0))).url for name in (*made, "visits")}


def test_the_calls_of_the_page(addresses):
    if shutil.which("curl") is None:
        pytest.skip("curl is needed")
    found = list(calls())
    assert len(found) == 21
    for served, call, answer in found:
        command = [*shlex.split(call.replace("http://127.0.0.1:8000", addresses[served])), "--silent"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        if answer is not None:
            assert done.stdout == answer, call
        else:
            assert done.stdout.startswith("{")
            assert '"error"' not in done.stdout, (call, done.stdout)


def test_the_log_of_the_shop_can_be_evaluated(addresses):
    """The commands below the calls, after some traffic."""
    rng = np.random.default_rng(0)
    with Client(addresses["shop"]) as client:
        client.set_arms({"mug": {"price": 0.2, "rating": 0.9}, "lamp": {"price": 0.7, "rating": 0.6}})
        for _ in range(10):
            visitors = [{"returning": int(k % 2), "hour": float(rng.random())} for k in range(60)]
            decisions = client.ask_many(visitors)
            clicks = [
                rng.random() < (0.7 if (d.arm == "mug") == v["returning"] else 0.3)
                for d, v in zip(decisions, visitors, strict=True)
            ]
            client.tell_many(zip([one.id for one in decisions], clicks, strict=True))
    export = next(line for line in PAGE.splitlines() if line.startswith('    python -c "import adadim; adadim.Agent'))
    subprocess.run([sys.executable, *shlex.split(export)[1:]], timeout=60, check=True)
    evaluate = next(line for line in PAGE.splitlines() if line.startswith("    adadim evaluate"))
    for policy, found in json.loads(adadim_(*shlex.split(evaluate)[1:], "--json")[0]).items():
        assert found["warnings"] == [], policy
        assert found["dr"]["low"] > 0.5  # better than any one article for all
        assert found["dr"]["high"] > 0.65


def test_the_page_names_all_limits(service):
    from adadim.serve import Settings

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


def test_the_metrics_are_those_of_the_page_about_operation(tmp_path):
    pytest.importorskip("fastapi")
    from adadim.serve.gate import Metrics
    from adadim.serve.messages import Status

    page = (Path(__file__).parents[2] / "docs" / "operate.md").read_text(encoding="utf-8")
    table = page.partition("| metric | meaning |")[2].partition("\n\n")[0]
    with contextlib.closing(adadim.Agent.create(tmp_path / "m.db", dim=2)) as agent:
        text = Metrics().text(Status.of(agent).gauges())
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(re.findall(r"# TYPE (\w+)", text))
