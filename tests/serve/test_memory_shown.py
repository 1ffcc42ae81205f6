"""The half-life in use and the moment of a change, over HTTP, in the metrics and on the live page."""

import numpy as np
import pytest

from adadim.agent import Agent

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


@pytest.fixture
def served(tmp_path, monkeypatch):
    """An agent that finds its memory, and a client of a service for it."""
    from adadim.serve import Service, Settings

    monkeypatch.setattr("adadim.serve.app.OVERVIEW_SECONDS", 0.0)  # every overview is made anew
    monkeypatch.setattr("adadim.serve.app.OVERVIEW_SHARE", np.inf)
    with (
        Agent.create(tmp_path / "a.db", dim=2, memory="auto") as agent,
        Service(tmp_path / "a.db", Settings(port=0)) as service,
        httpx.Client(base_url=service.url, timeout=20) as client,
    ):
        yield agent, client


def gauges(client):
    lines = client.get("/metrics").text.splitlines()
    return {
        line.split()[0]: float(line.split()[1]) for line in lines if line.startswith(("adadim_memory", "adadim_world"))
    }


def test_what_is_shown_before_and_after_a_change(served):
    agent, client = served
    assert gauges(client) == {"adadim_memory": np.inf, "adadim_memory_since": 0, "adadim_world_changed": 0}
    shown = client.get("/overview").json()
    assert shown["about"].endswith("2 features, forgets nothing")
    assert shown["status"]["world_changed"] is None
    rng = np.random.default_rng(0)
    x = rng.standard_normal((900, 2))
    sign = np.where(np.arange(900) < 800, 1.0, -1.0)
    agent.learn((x, sign * x[:, 0] + 0.3 * rng.standard_normal(900)))
    arms = {"a": [0.0, 1.0], "b": [0.0, -1.0]}  # of which nothing changes, so that the rewards do not fall
    agent.tell_many((decision.id, 0.3 * rng.standard_normal()) for decision in agent.ask_many([None] * 100, arms))
    status = agent.status()
    since, changed = status["half_life_since"], status["world_changed"]
    assert 800 < changed <= since <= 1000
    assert gauges(client) == {
        "adadim_memory": status["half_life"],
        "adadim_memory_since": since,
        "adadim_world_changed": changed,
    }
    shown = client.get("/overview").json()
    half_life = f"{status['half_life']:,.5g}"
    assert shown["about"].endswith(f"2 features, half-life {half_life} decisions since decision {since:,}")
    assert shown["status"]["world_changed"] == changed
    assert [point["last"] for point in shown["trend"]["points"]] == [point["at"] for point in shown["trend"]["points"]]
    assert shown["trend"]["points"][-1]["last"] == 1000
    described = client.get("/describe").json()
    assert (described["memory"], described["half_life"]) == ("auto", status["half_life"])
    assert client.get("/status").json()["memory"] == "auto"
