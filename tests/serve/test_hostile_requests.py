"""Whatever comes in: a refusal that says why, nothing written, and the service goes on."""

import json
import math

import pytest

ARMS = {"sku-1": [1.0, 0.2, 0.0], "sku-2": [1.0, 0.7, 0.1]}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def asked(service):
    """A decision that waits for its reward."""
    return service.post("/ask", json={"arms": ARMS}).json()


@pytest.fixture
def refused(service, asked, log):
    """Sends a request that must be refused, and sees to the rest."""
    before = log()

    def send(status, path, content, method="POST", headers=JSON):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        answer = service.request(method, path, content=body, headers=headers)
        assert answer.status_code == status, answer.text
        assert set(answer.json()) == {"error", "field"}
        assert answer.json()["error"]
        assert len(answer.content) < 2000
        assert log() == before
        assert service.get("/health").json()["status"] == "ok"
        return answer.json()

    return send


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"arms": {"a": [1, 2, "3"]}}, "arms.a.2"),
        ({"arms": {"a": [1, None, 3]}}, "arms.a.1"),
        ({"arms": {"a": [1, True, 3]}}, "arms.a.1"),
        ({"arms": {"a": [1, [2], 3]}}, "arms.a.1"),
        ({"arms": {"a": {"0": 1}}}, None),  # values by column, but features come ready-made
        ({"arms": {"a": {"0": [1]}}}, "arms.a"),
        ({"arms": {"a": 1.0}}, "arms.a"),
        ({"arms": {"a": []}}, "arms.a"),
        ({"arms": {}}, "arms"),
        ({"arms": [[1, 2, 3]]}, "arms"),
        ({"arms": "sku-1"}, "arms"),
        ({"arms": {"": [1, 2, 3]}}, "arms."),
        ({"arms": {"x" * 10_000: [1, 2, 3]}}, None),
        ({"arms": ARMS, "path": "/etc/passwd"}, "path"),
        ({"arms": ARMS, "context": "now"}, "context"),
        ([1, 2, 3], None),
        ("arms", None),
        (3, None),
        (None, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_types_in_ask(refused, body, field):
    said = refused(422, "/ask", body)
    if field is not None:
        assert said["field"].startswith(field)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused_with_its_place(refused, asked, number):
    assert refused(422, "/ask", {"arms": {"a": [1.0, 2.0, number]}})["field"] == "arms.a.2"
    assert refused(422, "/tell", {"id": asked["id"], "reward": number})["field"] == "reward"
    batch = {"rewards": [{"id": asked["id"], "reward": number}]}
    assert refused(422, "/tell/batch", batch)["field"] == "rewards.0.reward"
    assert refused(422, "/arms", {"arms": {"a": [1.0, number, 0.0]}})["field"] == "arms.a.1"


@pytest.mark.parametrize("text", [b"1e999", b"1" + b"0" * 400, b"1" * 5000, b"-1e400"])
def test_numbers_beyond_all_bounds(refused, asked, text):
    identity = json.dumps(asked["id"]).encode()
    status = 400 if len(text) > 4300 else 422
    refused(status, "/tell", b'{"id": ' + identity + b', "reward": ' + text + b"}")


@pytest.mark.parametrize("reward", ["1", None, "true", [1], {"value": 1}])
def test_wrong_types_in_tell(refused, asked, reward):
    assert refused(422, "/tell", {"id": asked["id"], "reward": reward})["field"] == "reward"


def test_missing_and_unknown_fields(refused, asked):
    assert refused(422, "/tell", {"id": asked["id"]})["field"] == "reward"
    assert refused(422, "/tell", {"reward": 1.0})["field"] == "id"
    assert refused(422, "/tell", {"id": asked["id"], "reward": 1.0, "file": "x"})["field"] == "file"
    assert refused(422, "/tell/batch", {})["field"] == "rewards"
    assert refused(422, "/arms", b"", method="DELETE")["field"] == "name"


def test_unknown_decisions(refused):
    assert refused(404, "/tell", {"id": 10**9, "reward": 1.0})["field"] == "id"
    refused(404, "/tell/batch", {"rewards": [{"id": 10**9, "reward": 1.0}]})


@pytest.mark.parametrize(
    "identity", ["1; DROP TABLE decisions", "1", 1.5, None, True, [1], {"id": 1}, 0, -1, 2**63, 10**30]
)
def test_ids_that_are_none(refused, identity):
    assert refused(422, "/tell", {"id": identity, "reward": 1.0})["field"].startswith("id")


def test_a_batch_is_written_whole_or_not_at_all(refused, service, asked):
    other = service.post("/ask", json={"arms": ARMS}).json()["id"]
    before = service.get("/status").json()
    batch = [{"id": other, "reward": 1.0}, {"id": 10**9, "reward": 1.0}]
    assert service.post("/tell/batch", json={"rewards": batch}).status_code == 404
    assert service.get("/status").json() == before


def test_another_reward_is_a_conflict(service, asked, log):
    assert service.post("/tell", json={"id": asked["id"], "reward": 1.0}).status_code == 200
    before = log()
    answer = service.post("/tell", json={"id": asked["id"], "reward": 2.0})
    assert answer.status_code == 409
    assert answer.json()["error"]
    assert log() == before
    assert service.post("/tell", json={"id": asked["id"], "reward": 1.0}).status_code == 200
    assert log() == before


def test_ten_thousand_arms(refused):
    arms = {f"sku-{i}": [1.0, 0.0, 0.0] for i in range(10_000)}
    said = refused(422, "/ask", {"arms": arms})
    assert said == {"error": "at most 2000 in one request, got 10000", "field": "arms"}
    assert refused(422, "/arms", {"arms": arms})["field"] == "arms"
    assert refused(422, "/tell/batch", {"rewards": [{"id": 1, "reward": 0.0}] * 10_000})["field"] == "rewards"


def test_many_mistakes_are_no_more_work_than_one(refused):
    assert refused(422, "/tell/batch", {"rewards": [0] * 600_000})["field"] == "rewards"
    assert refused(422, "/ask", {"arms": {"a": ["x"] * 400_000}})["field"] == "arms.a.0"
    assert refused(422, "/ask", {"names": [0] * 600_000})["field"] == "names"
    names = b", ".join(b'"%d": 0' % i for i in range(100_000))
    said = refused(400, "/ask", b'{"arms": {' + names + b', "99999": 1}}')  # one of them is there twice
    assert said == {"error": "the name appears twice in one object", "field": "99999"}
    said = refused(422, "/tell", b'{"id": 1, "reward": 1, ' + names + b"}")
    assert "99999 more" in said["error"]


def test_a_wrong_number_of_features(refused):
    assert "sku-1" in refused(422, "/ask", {"arms": {"sku-1": [1.0, 2.0]}})["error"]
    assert "sku-9" in refused(422, "/arms", {"arms": {"sku-9": [1.0] * 4}})["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"arms",
        b"\x00\x01\x02",
        b"\xff\xfe{}",
        b'{"arms": {"a": [1, 2, 3]}',
        b"{'arms': None}",
        b'{"reward": 1} {"reward": 2}',
        b"[" * 100_000,
        b'{"arms":' * 50_000,
        b'{"arms": {"a": [1, 2, 3], "a": [4, 5, 6]}}',
    ],
    ids=lambda body: repr(body[:24]),
)
def test_what_is_not_json(refused, body):
    refused(422 if body == b"" else 400, "/ask", body)


def test_halves_of_characters_and_control_characters(refused):
    refused(422, "/ask", b'{"arms": {"\\ud800": [1, 2, 3]}}')
    refused(422, "/ask", b'{"arms": {"a\\u0000b": [1, 2, 3]}}')


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None])
def test_other_content_types(refused, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    assert "application/json" in refused(415, "/ask", {"arms": ARMS}, headers=headers)["error"]


def test_compressed_bodies(refused):
    refused(415, "/ask", b"\x1f\x8b", headers={**JSON, "Content-Encoding": "gzip"})


@pytest.mark.parametrize("size", [2**21 + 1, 2**23, 2**25])
def test_bodies_that_are_too_large(refused, size):
    refused(413, "/ask", b'{"arms": "' + b"x" * size + b'"}')


def test_a_body_that_hides_its_size(service, log):
    before = log()

    def parts():
        for _ in range(100):
            yield b" " * 2**16

    answer = service.post("/ask", content=parts(), headers=JSON)
    assert answer.status_code == 413
    assert log() == before


def test_paths_and_methods_that_do_not_exist(refused):
    for path in ("/nothing", "/ask/", "/../etc/passwd", "/%2e%2e/shop.db", "/shop.db"):
        refused(404, path, b"", method="GET")
    for path, method in (("/ask", "GET"), ("/status", "POST"), ("/arms", "PUT"), ("/", "DELETE")):
        assert refused(405, path, b"", method=method)["error"].startswith(method)


def test_a_path_without_posts_is_refused_as_such_whatever_the_content_type(refused):
    for headers in ({}, {"Content-Type": "text/plain"}, {**JSON, "Content-Encoding": "gzip"}):
        for path in ("/status", "/health", "/docs", "/"):
            assert refused(405, path, b"x", headers=headers)["error"] == f"POST is not for {path}"
        refused(404, "/nothing", b"x", headers=headers)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/arms", "DELETE, GET, POST"),
        ("/ask", "POST"),
        ("/status", "GET"),
        ("/", "GET"),
        ("/openapi.json", "GET, HEAD"),
    ],
)
def test_allow_names_all_methods_of_a_path(service, path, methods):
    for method in ("OPTIONS", "PUT", "PATCH"):
        answer = service.request(method, path)
        assert answer.status_code == 405
        assert answer.headers.get_list("allow") == [methods]


FEW = {"sku-1": [1.0, 0.2], "sku-2": [1.0, 0.7, 0.1]}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/ask", {"arms": FEW}, "arms.sku-1"),
        ("/ask", {"arms": {'it\'s "it"': [1.0]}}, 'arms.it\'s "it"'),
        ("/ask", {"arms": {**ARMS, "far": [1e200, 0.0, 0.0]}}, "arms.far"),
        ("/ask", {"arms": ARMS, "context": [1.0]}, "arms.sku-1"),
        ("/ask", {"arms": ARMS, "context": [1e200]}, "context"),
        ("/ask", {"arms": ARMS, "costs": {"sku-3": 1.0}}, "costs.sku-3"),
        ("/ask", {"arms": ARMS, "costs": {"sku-2": 1e200}}, "costs.sku-2"),
        ("/ask", {"arms": ARMS, "slots": 3}, "slots"),
        ("/ask", {"names": ["nobody"]}, "names.0"),
        ("/ask/batch", {"arms": FEW, "contexts": [None, None]}, "arms.sku-1"),
        ("/ask/batch", {"arms": {"a": [1.0]}, "contexts": [[1.0, 2.0], [1.0]]}, "contexts"),
        ("/ask/batch", {"arms": {"a": [1.0]}, "contexts": [[1.0, 2.0], [1.0, 1e200]]}, "contexts.1"),
        ("/arms", {"arms": {"new": [1.0, 0.2, 0.3, 0.4]}}, "arms.new"),
        ("/tell", {"id": 1, "reward": 1e200}, "reward"),
        ("/tell/batch", {"rewards": [{"id": 1, "reward": 0.5}, {"id": 7, "reward": 1e200}]}, "rewards.1.reward"),
    ],
)
def test_the_field_is_named_of_what_only_the_agent_can_refuse(refused, path, body, field):
    assert refused(422, path, body)["field"] == field


def test_features_of_the_catalogue_and_a_context_that_does_not_fit(service):
    service.post("/arms", json={"arms": {"sku-9": [1.0, 0.2, 0.1]}})
    answer = service.post("/ask", json={"names": ["sku-9"], "context": [1.0]})
    service.delete("/arms", params={"name": "sku-9"})
    assert (answer.status_code, answer.json()["field"]) == (422, "context")


NAMES = [
    "'; DROP TABLE decisions; --",
    '" OR 1=1 --',
    "../../../etc/passwd",
    "<script>alert(1)</script>",
    "%s%n{0}",
    "ключ 钥匙 🔑",
    "null",
    "a" * 200,
]


def test_names_are_names_whatever_they_say(service):
    before = service.get("/status").json()["decisions"]
    for i, name in enumerate(NAMES, start=1):
        answer = service.post("/ask", json={"arms": {name: [1.0, 0.0, 0.0]}})
        assert answer.status_code == 200, name
        assert answer.json()["arm"] == name
        assert service.get("/status").json()["decisions"] == before + i
    service.post("/arms", json={"arms": {name: [1.0, 0.0, 0.0] for name in NAMES}})
    assert set(service.get("/arms").json()["arms"]) == set(NAMES)
    assert service.get("/overview").status_code == 200
    for name in NAMES:
        assert service.delete("/arms", params={"name": name}).json() == {"retired": name}
    assert service.get("/arms").json() == {"arms": {}}


def test_arms_that_are_not_in_the_catalogue(refused):
    assert "sku-7" in refused(404, "/arms?name=sku-7", b"", method="DELETE")["error"]
    refused(422, "/ask", {})  # the catalogue is empty


def test_more_requests_than_the_rate(serving, log):
    client, before = serving(rate=1.0, burst=5), log()
    statuses = [client.get("/health").status_code for _ in range(7)]
    assert statuses[:5] == [200] * 5
    answer = client.post("/ask", json={"arms": ARMS})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert "1 requests per second" in answer.json()["error"]
    assert log() == before
