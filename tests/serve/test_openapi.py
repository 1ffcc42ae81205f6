"""OpenAPI is true: what every path answers, with success or with a refusal, fits the schema that it has there."""

import pytest

from adadim.agent import Agent, Features
from adadim.errors import FileError
from adadim.serve import Settings

ARMS = {"sku-1": [1.0, 0.2, 0.0], "sku-2": [1.0, 0.7, 0.1]}
SUCCESSES = {
    ("post", "/ask"): {"json": {"arms": ARMS}},
    ("post", "/ask/batch"): {"json": {"contexts": [None, None], "arms": ARMS}},
    ("post", "/tell"): {"json": {"id": 1, "reward": 0.5}},
    ("post", "/tell/batch"): {"json": {"rewards": [{"id": 1, "reward": 0.5}]}},
    ("post", "/correct"): {"json": {"id": 1, "reward": False}},
    ("post", "/arms"): {"json": {"arms": ARMS, "costs": {"sku-1": 0.5}}},
    ("get", "/arms"): {},
    ("post", "/mask"): {"json": {"name": "sku-1"}},
    ("post", "/unmask"): {"json": {"name": "sku-1"}},
    ("post", "/estimate"): {"json": {"names": ["sku-1"]}},
    ("post", "/explore"): {"json": {"explore": 0.1}},
    ("get", "/columns"): {},
    ("get", "/describe"): {},
    ("get", "/status"): {},
    ("get", "/dimension"): {},
    ("get", "/overview"): {},
    ("get", "/health"): {},
    ("get", "/ready"): {},
    ("get", "/metrics"): {},
    ("delete", "/arms"): {"params": {"name": "sku-1"}},
}
REFUSALS = {
    400: ("post", "/ask", {"content": b"{"}),
    404: ("post", "/tell", {"json": {"id": 10**9, "reward": 1.0}}),
    409: ("post", "/tell", {"json": {"id": 1, "reward": 9.0}}),
    413: ("post", "/ask", {"content": b" " * 2**22}),
    415: ("post", "/ask", {"json": {"arms": ARMS}, "headers": {"Content-Type": "text/plain"}}),
    421: ("get", "/status", {"headers": {"Host": "evil.example"}}),
    422: ("post", "/ask", {"json": {"arms": {"a": ["x"]}}}),
    503: ("get", "/dimension", {}),
}


@pytest.fixture(scope="module", params=[{"levels": {"price": 2, "text": 3}}, {"memory": 100.0}], ids=str)
def fresh(request, tmp_path_factory):
    """A client of a service that has not done anything yet."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("uvicorn")
    from adadim.serve import Service

    path = tmp_path_factory.mktemp("fresh") / "shop.db"
    Agent.create(path, dim=3, **request.param).close()
    with Service(path, Settings(port=0)) as service, httpx.Client(base_url=service.url, timeout=20) as client:
        yield client


def check(document, answer, method, path):
    """Hold an answer against what the document says of it."""
    jsonschema = pytest.importorskip("jsonschema")
    described = document["paths"][path][method]["responses"][str(answer.status_code)]["content"]
    kind = answer.headers["content-type"].partition(";")[0]
    assert set(described) == {kind}
    if kind == "application/json":
        schema = described[kind]["schema"]
        for one in schema.get("anyOf", [schema]):
            assert one.get("$ref") or one.get("type"), "this schema fits everything"
        jsonschema.validate(answer.json(), {**schema, "components": document["components"]})


def test_answers_fit_their_schemas(fresh):
    document = fresh.get("/openapi.json").json()
    assert set(SUCCESSES) == {(method, path) for path, entry in document["paths"].items() for method in entry}
    for path in ("/status", "/dimension", "/overview", "/arms", "/columns", "/describe"):  # before anything happened
        check(document, fresh.get(path), "get", path)
    for (method, path), content in SUCCESSES.items():
        answer = fresh.request(method, path, **content)
        assert answer.status_code == 200, answer.text
        check(document, answer, method, path)


def test_slates_fit_their_schemas(fresh):
    document = fresh.get("/openapi.json").json()
    slate = fresh.post("/ask", json={"arms": ARMS, "slots": 2})
    check(document, slate, "post", "/ask")
    number, arm = slate.json()["id"], slate.json()["decisions"][1]["arm"]
    for path, body in (
        ("/ask/batch", {"contexts": [None, None], "arms": ARMS, "slots": 1}),
        ("/tell", {"id": number, "rewards": {arm: 0.5}}),
        ("/tell/batch", {"rewards": [{"id": number, "rewards": {arm: 0.5}}, {"id": number, "reward": 1.0}]}),
    ):
        answer = fresh.post(path, json=body)
        assert answer.status_code == 200, answer.text
        check(document, answer, "post", path)
    page = fresh.get("/docs").text
    assert "The answer to a request with slots: the id of the slate" in page


def test_a_context_is_enough_where_the_agent_makes_its_features(tmp_path):
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("uvicorn")
    from adadim.serve import Client, Service

    path, arms = tmp_path / "home.db", {"a": [1.0, 2.0, 0.5], "b": [0.0, 1.0, -1.0]}
    Agent.create(path, context=2, arm=3, features=Features(own=4)).close()
    with Service(path, Settings(port=0)) as service, httpx.Client(base_url=service.url, timeout=20) as client:
        document = client.get("/openapi.json").json()
        calls = [
            ("/arms", {"arms": arms}),
            ("/ask", {"context": [0.5, -1.0]}),
            ("/ask", {"context": [0.5, -1.0], "names": ["b"]}),
            ("/ask", {"context": [0.5, -1.0], "arms": arms}),
            ("/ask/batch", {"contexts": [[1.0, 2.0], [0.0, 1.0]]}),
            ("/tell", {"id": 1, "reward": 1.0}),
        ]
        for call, body in calls:
            answer = client.post(call, json=body)
            assert answer.status_code == 200, answer.text
            check(document, answer, "post", call)
        for body, words in (
            ({"context": [0.5]}, "context must be 2 numbers, as the agent was created for, got 1"),
            ({}, "context must be 2 numbers, as the agent was created for, got none"),
            ({"context": [1, 2], "arms": {"c": [1.0]}}, "features of 'c' must be 3 numbers"),
        ):
            answer = client.post("/ask", json=body)
            assert (answer.status_code, words in answer.json()["error"]) == (422, True), answer.text
            check(document, answer, "post", "/ask")
        with Client(service.url) as caller:
            assert caller.ask(context=[0.1, 0.2]).arm in arms
        overview = client.get("/overview").json()
        assert {one["arm"] for one in overview["top"]} == set(arms)
        assert overview["dimension"]["names"] == ["arm", "context", "products", "own"]
    with Agent.open(path) as agent:
        assert agent.status()["decisions"] == 6
        agent.replace_features(context=3, arm=4)
        best = agent.estimate(context=[0.1, 0.2, 0.0])
    with Service(path, Settings(port=0)) as service, httpx.Client(base_url=service.url, timeout=20) as client:
        top = client.get("/overview").json()["top"]  # the last offer, made before there were so many features
        assert {one["arm"]: one["mean"] for one in top} == pytest.approx({arm: mean for arm, (mean, _) in best.items()})


def test_refusals_fit_their_schema(fresh, monkeypatch):
    def fail(self):
        raise FileError("cannot be read")

    fresh.post("/ask", json={"arms": ARMS})
    fresh.post("/tell", json={"id": 1, "reward": 0})
    monkeypatch.setattr(Agent, "dimension", fail)
    document = fresh.get("/openapi.json").json()
    for status, (method, path, content) in REFUSALS.items():
        answer = fresh.request(method, path, **{"headers": {"Content-Type": "application/json"}, **content})
        assert answer.status_code == status, answer.text
        check(document, answer, method, path)
