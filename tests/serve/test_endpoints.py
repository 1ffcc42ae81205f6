"""What each path answers, held against the agent itself on the same file."""

import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from adadim.agent import Agent
from adadim.agent.sqlite import SqliteLog
from adadim.errors import FileError
from adadim.serve import Settings

ARMS = {"sku-1": [1.0, 0.2, 0.0], "sku-2": [1.0, 0.7, 0.1], "sku-3": [1.0, -0.4, 0.3]}


@pytest.fixture
def agent(file):
    """The same agent in this process."""
    with Agent.open(file) as opened:
        yield opened


def test_a_decision_and_its_reward_are_in_the_log(service, log):
    answer = service.post("/ask", json={"arms": {"twin 1": [1.0, 0.5, 0.0], "twin 2": [1.0, 0.5, 0.0]}}).json()
    assert set(answer) == {"id", "arm", "probability"}
    number, _, arm, *_ = log()["decisions"][-1]
    assert (number, arm) == (answer["id"], answer["arm"])
    assert answer["probability"] == 0.5
    before = service.get("/status").json()
    assert service.post("/tell", json={"id": answer["id"], "reward": 0.5}).json() == {"told": 1}
    assert service.post("/tell", json={"id": answer["id"], "reward": 0.5}).json() == {"told": 0}
    after = service.get("/status").json()
    assert after["rewards"] == before["rewards"] + 1
    assert after["outstanding"] == before["outstanding"] - 1
    assert log()["rewards"][-1][1:4:2] == (answer["id"], 0.5)


def test_batches(service):
    ids = [service.post("/ask", json={"arms": ARMS}).json()["id"] for _ in range(3)]
    rewards = [{"id": i, "reward": 0.25} for i in ids]
    assert service.post("/tell/batch", json={"rewards": rewards}).json() == {"told": 3}
    assert service.post("/tell/batch", json={"rewards": rewards}).json() == {"told": 0}
    assert service.post("/tell/batch", json={"rewards": []}).json() == {"told": 0}


def test_slates(service, agent, log):
    answer = service.post("/ask", json={"arms": ARMS, "slots": 2}).json()
    assert set(answer) == {"id", "decisions"}
    made = answer["decisions"]
    assert [one["id"] for one in made] == [answer["id"], answer["id"] + 1]
    assert [row[2] for row in log()["decisions"][-2:]] == [one["arm"] for one in made]
    table = {"id": answer["id"], "rewards": {made[1]["arm"]: 0.25}}
    assert service.post("/tell", json=table).json() == {"told": 1}
    assert service.post("/tell", json=table).json() == {"told": 0}
    assert not agent.tell(answer["id"], {made[1]["arm"]: 0.25})
    assert service.post("/tell", json={"id": answer["id"], "reward": 0.5}).json() == {"told": 1}  # the first slot
    batch = service.post("/ask/batch", json={"contexts": [None, None], "arms": ARMS, "slots": 3}).json()
    assert [len(slate["decisions"]) for slate in batch["slates"]] == [3, 3]
    first, second = batch["slates"]
    rewards = [
        {"id": first["id"], "rewards": {one["arm"]: 0.5 for one in first["decisions"]}},
        {"id": second["decisions"][2]["id"], "reward": 0.75},
    ]
    assert service.post("/tell/batch", json={"rewards": rewards}).json() == {"told": 4}


def test_slates_that_are_refused(service, log):
    slate = service.post("/ask", json={"arms": ARMS, "slots": 2}).json()
    before, arm = log(), slate["decisions"][0]["arm"]
    refusals = [
        ("/ask", {"arms": ARMS, "slots": 0}, 422, "slots", "greater than or equal to 1"),
        ("/ask", {"arms": ARMS, "slots": 1.5}, 422, "slots", "valid integer"),
        ("/ask", {"arms": ARMS, "slots": 4}, 422, "slots", "slots must be an integer in 1..3"),
        ("/ask", {"arms": ARMS, "slots": 10**400}, 422, "slots", "slots must be an integer in 1..3"),
        ("/ask/batch", {"contexts": [None] * 700, "arms": ARMS, "slots": 3}, 422, "slots", "got 3 x 700"),
        ("/tell", {"id": slate["id"], "rewards": {"other": 1.0}}, 404, "id", "arm 'other' is not in slate"),
        ("/tell", {"id": slate["id"] + 1, "rewards": {arm: 1.0}}, 404, "id", "there is no slate"),
        ("/tell", {"id": slate["id"], "rewards": {arm: "x"}}, 422, f"rewards.{arm}", "valid number"),
        ("/tell", {"id": slate["id"], "reward": 1.0, "rewards": {arm: 1.0}}, 422, "reward", "give either reward"),
        ("/tell", {"id": slate["id"]}, 422, "reward", "give either reward, a number, or rewards"),
        ("/tell/batch", {"rewards": [{"id": slate["id"]}]}, 422, "rewards.0.reward", "give either reward"),
    ]
    for path, body, status, field, words in refusals:
        answer = service.post(path, json=body)
        assert (answer.status_code, answer.json()["field"]) == (status, field), (body, answer.text)
        assert words in answer.json()["error"]
    assert log() == before


def test_context_costs_and_names(service, log):
    for reward in (0.1, 0.4, 0.2, 0.3):  # before the noise is known no arm is too expensive
        decision = service.post("/ask", json={"arms": ARMS}).json()
        service.post("/tell", json={"id": decision["id"], "reward": reward})
    short = {name: features[1:] for name, features in ARMS.items()}
    answer = service.post(
        "/ask", json={"arms": short, "context": [1.0], "costs": {"sku-1": 50.0, "sku-3": 50.0}}
    ).json()
    assert answer["arm"] == "sku-2"
    context, features = log()["decisions"][-1][4:6]
    assert np.frombuffer(context + features).tolist() == ARMS["sku-2"]
    assert service.post("/arms", json={"arms": ARMS}).status_code == 200
    assert service.post("/ask", json={"names": ["sku-3"]}).json()["arm"] == "sku-3"
    both = service.post("/ask", json={"names": ["sku-3"], "arms": ARMS})
    assert (both.status_code, both.json()["field"]) == (422, "names")
    missing = service.post("/ask", json={"names": ["sku-33"]})
    assert missing.status_code == 422
    assert "sku-33" in missing.json()["error"]


def test_the_catalogue(service, agent):
    answer = service.post("/arms", json={"arms": ARMS, "costs": {"sku-2": 0.5}})
    expected = {"features": ARMS["sku-2"], "values": None, "cost": 0.5, "state": "active"}
    assert answer.json()["arms"]["sku-2"] == expected
    assert service.get("/arms").json() == answer.json()
    assert {name: arm.features.tolist() for name, arm in agent.arms.items()} == ARMS
    service.post("/arms", json={"arms": {"sku-2": [1.0, 0.0, 0.0]}})
    assert agent.arms["sku-2"].features.tolist() == [1.0, 0.0, 0.0]
    assert service.delete("/arms", params={"name": "sku-2"}).json() == {"retired": "sku-2"}
    assert set(agent.arms) == {"sku-1", "sku-3"}
    assert service.delete("/arms", params={"name": "sku-2"}).status_code == 404
    assert service.post("/ask", json={}).json()["arm"] in ("sku-1", "sku-3")


def test_status_and_dimension_are_the_agents(service, agent):
    features = np.random.default_rng(0).standard_normal((30, 3))
    ids = [service.post("/ask", json={"arms": {"only": x.tolist()}}).json()["id"] for x in features]
    agent.tell_many(dict(zip(ids, features[:, 1].tolist(), strict=True)))  # by another connection
    expected = agent.status()
    assert service.get("/status").json() == {key: value for key, value in expected.items() if key != "path"}
    found, own = service.get("/dimension").json(), agent.dimension()
    assert found["probabilities"] == pytest.approx(own.probabilities.tolist())
    assert (found["mode"], found["median"], found["interval90"]) == (own.mode, own.median, list(own.interval(0.9)))
    assert found["levels"] == {"price": 2, "text": 3}
    assert found["text"] == str(own)


def test_health_says_the_version(service):
    from adadim import __version__

    assert service.get("/health").json() == {"status": "ok", "version": __version__}


LINE = re.compile(r'^[a-z_]+(\{[a-z_]+="[^"\n]*"(,[a-z_]+="[^"\n]*")*\})? (\+Inf|-?[0-9.]+(e[+-]?[0-9]+)?)$')


def test_metrics_are_prometheus_text(serving):
    client = serving()
    for _ in range(3):
        client.post("/ask", json={"arms": ARMS})
    client.post("/ask", json={"arms": 3})
    client.get("/nothing/at/all")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    for line in lines:
        assert line.startswith(("# HELP adadim_", "# TYPE adadim_")) or LINE.match(line), line
    assert values['adadim_requests_total{path="/ask",method="POST",status="200"}'] == "3"
    assert values['adadim_requests_total{path="/ask",method="POST",status="422"}'] == "1"
    assert values['adadim_requests_total{path="other",method="GET",status="404"}'] == "1"
    assert values['adadim_request_seconds_bucket{path="/ask",le="+Inf"}'] == "3"
    assert values['adadim_request_seconds_count{path="/ask"}'] == "3"
    buckets = [int(v) for k, v in values.items() if k.startswith('adadim_request_seconds_bucket{path="/ask"')]
    assert buckets == sorted(buckets)
    status = client.get("/status").json()
    assert values["adadim_decisions"] == str(status["decisions"])
    assert values["adadim_outstanding"] == str(status["outstanding"])


def test_openapi_names_every_path_and_the_page_shows_them(service):
    document = service.get("/openapi.json").json()
    expected = {
        "/ask",
        "/ask/batch",
        "/tell",
        "/tell/batch",
        "/correct",
        "/estimate",
        "/columns",
        "/arms",
        "/mask",
        "/unmask",
        "/explore",
        "/describe",
        "/status",
        "/dimension",
        "/overview",
        "/health",
        "/ready",
        "/metrics",
    }
    assert set(document["paths"]) == expected
    assert set(document["paths"]["/arms"]) == {"get", "post", "delete"}
    page = service.get("/docs").text
    for path in expected:
        assert path in page
    assert (
        service.post("/ask", json={"arms": ARMS}).json().keys()
        == document["components"]["schemas"]["Decided"]["properties"].keys()
    )


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_nothing_from_elsewhere(service, path):
    answer = service.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    addresses = re.findall(r"""(?:src|href)\s*=\s*['"]([^'"]*)""", answer.text)
    assert set(addresses) <= {"data:,", "/docs", "/", "/openapi.json"}
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "https://" not in answer.text
    assert not re.search(r"@import|url\(", answer.text)


def test_the_overview_has_what_the_page_shows(serving, file):
    client = serving()
    client.post("/ask", json={"arms": ARMS})
    data = client.get("/overview").json()
    assert data["name"] == file.name
    assert str(file.parent) not in client.get("/overview").text
    status = client.get("/status").json()
    assert data["status"]["decisions"] == status["decisions"]
    assert sum(share["share"] for share in data["shares"]) == pytest.approx(1)
    assert sum(data["dimension"]["probabilities"]) == pytest.approx(1)
    assert data["dimension"]["names"] == ["price", "text"]
    assert sum(day["rewards"] for day in data["days"]) == status["rewards"]
    for arm in data["top"]:
        assert arm["low"] < arm["mean"] < arm["high"]


def test_two_services_on_one_file_see_each_other(service, serving):
    other = serving()
    decision = service.post("/ask", json={"arms": ARMS}).json()
    assert other.post("/tell", json={"id": decision["id"], "reward": 1.0}).json() == {"told": 1}
    assert service.get("/status").json() == other.get("/status").json()


def test_a_file_that_cannot_be_written_is_no_fault_of_the_caller(service, file, monkeypatch, caplog):
    def fail(self, *_, **__):
        raise FileError(f"{file}: cannot be read or written (database or disk is full)")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteLog, "append", fail)
        answer = service.post("/ask", json={"arms": ARMS})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert str(file.parent) not in answer.text
    assert "disk is full" in caplog.text
    assert service.post("/ask", json={"arms": ARMS}).status_code == 200


def test_a_defect_of_the_service_is_not_shown_to_callers(service, monkeypatch, caplog):
    def fail(self):
        raise ZeroDivisionError("secret")

    with monkeypatch.context() as patched:
        patched.setattr(Agent, "dimension", fail)
        answer = service.get("/dimension")
    assert answer.status_code == 500
    assert answer.json() == {"error": "internal error; see the log of the service", "field": None}
    assert service.get("/dimension").status_code == 200
    assert "ZeroDivisionError: secret" in caplog.text


def test_a_batch_of_decisions(service, log):
    """As many decisions as contexts, in their order, all in the log; or none of them."""
    before = len(log()["decisions"])
    made = service.post("/ask/batch", json={"contexts": [None] * 4, "arms": ARMS}).json()["decisions"]
    rows = log()["decisions"][before:]
    assert [(row[0], row[2]) for row in rows] == [(one["id"], one["arm"]) for one in made]
    assert all(set(one) == {"id", "arm", "probability"} for one in made)
    assert service.post("/ask/batch", json={"contexts": []}).json() == {"decisions": []}
    refused = service.post("/ask/batch", json={"contexts": [None, [1.0]], "arms": ARMS})
    assert refused.status_code == 422
    assert "context" in refused.json()["error"]
    assert len(log()["decisions"]) == before + 4


def test_a_sequence_at_its_end_is_no_defect_of_the_service(tmp_path):
    """It is a file that cannot be written, and an answer says so."""
    httpx = pytest.importorskip("httpx")
    from adadim.serve import Service

    with Agent.create(tmp_path / "shop.db", dim=2) as agent:
        agent.set_arms({"a": [1.0, 0.0], "b": [0.0, 1.0]})
    with Service(tmp_path / "shop.db", Settings(port=0)) as service, httpx.Client(base_url=service.url) as client:
        assert client.post("/ask", json={}).status_code == 200
        with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
            for table in ("arms", "decisions"):
                connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (2**63 - 1, table))
        answers = [client.post("/arms", json={"arms": {"c": [1.0, 1.0]}}), client.post("/ask", json={})]
        assert [answer.status_code for answer in answers] == [503, 503]
        assert all("cannot be read or written" in answer.json()["error"] for answer in answers)
