"""Contexts and arms by the names of their columns, over HTTP and from the client, and the examples that show them."""

import html
import json
import math
import re
import shlex

import numpy as np
import polars as pl
import pytest

from adadim.agent import Agent, Category
from adadim.errors import InvalidTypeError, InvalidValueError, ServiceError
from adadim.serve import Client, Settings

ARMS = {"mug": {"rating": 0.9, "price": 0.2}, "lamp": {"price": 0.7, "rating": 0.6}}
CONTEXT = {"hour": 0.4, "returning": 1}
NAMED = {"context": ["returning", "hour"], "arm": ["price", "rating"]}
BODIES = {"/ask": "Ask", "/ask/batch": "AskBatch", "/arms": "Arms", "/estimate": "Estimate", "/mask": "ArmName"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Serves a new agent with these settings; gives its file and a client of httpx."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("uvicorn")
    from adadim.serve import Service

    opened = []

    def start(settings=None, **made):
        path = tmp_path_factory.mktemp("named") / "shop.db"
        Agent.create(path, **made).close()
        service = Service(path, settings or Settings(port=0))
        service.__enter__()
        client = httpx.Client(base_url=service.url, timeout=20)
        opened.extend([client, service])
        return path, client

    yield start
    for each in opened:
        each.__exit__(None, None, None)


@pytest.fixture(scope="module")
def shop(start):
    return start(**NAMED)


@pytest.fixture
def client(shop):
    with Client(str(shop[1].base_url)) as opened:
        yield opened


def last_decision(path):
    """Arm, context and features of the last decision."""
    last = exported(path)[-1].to_dicts()[0]
    rows = np.reshape(last["offered_features"], (len(last["offered"]), -1))
    return last["arm"], last["context"], rows[last["offered"].index(last["arm"])].tolist()


def exported(path):
    """The log of an agent."""
    with Agent.open(path) as agent:
        return pl.read_parquet(agent.export(path.with_suffix(".parquet")))


def test_columns_tell_names_order_and_kinds(shop, start, client):
    _, service = shop
    columns = service.get("/columns").json()
    assert [(one["name"], one["kind"]) for one in columns["context"]] == [("returning", "number"), ("hour", "number")]
    assert [(one["name"], one["kind"]) for one in columns["arm"]] == [("price", "number"), ("rating", "number")]
    assert (columns["dim"], columns["features"][:3]) == (9, ["constant", "price", "rating"])
    assert client.columns() == columns
    _, ready_made = start(dim=3)
    assert ready_made.get("/columns").json() == {"dim": 3, "context": None, "arm": None, "features": None}


def test_categories_are_texts_in_every_path(start, tmp_path):
    device, kind = Category(["phone", "desktop"]), Category(["shoe", "hat"], unknown="error", missing="indicator")
    path, service = start(context={"device": device, "hour": float}, arm={"price": float, "kind": kind})
    columns = service.get("/columns").json()
    assert columns["context"] == [
        {"name": "device", "kind": "category", "values": ["phone", "desktop"]},
        {"name": "hour", "kind": "number", "values": None},
    ]
    arms = {"s-1": {"price": 3.5, "kind": "shoe"}, "s-2": {"price": 1.0, "kind": None}}
    assert service.post("/arms", json={"arms": arms}).status_code == 200
    listed = service.get("/arms").json()["arms"]
    assert {name: arm["values"] for name, arm in listed.items()} == arms
    context = {"hour": 0.4, "device": "tablet"}
    assert service.post("/ask", json={"context": context}).json()["id"] == 1
    assert service.post("/ask", json={"context": ["phone", 13]}).status_code == 422  # a list holds numbers
    assert service.post("/ask", json={"context": context | {"device": "phone"}}).json()["id"] == 2
    batch = {"contexts": [context, context], "arms": {"s-3": {"price": 2.0, "kind": "hat"}}}
    assert len(service.post("/ask/batch", json=batch).json()["decisions"]) == 2
    for wrong, message in (
        ({"hour": None, "device": "phone"}, "context has no value in column 'hour'"),
        ({"hour": 1.0, "device": 3}, "context must have a text in column 'device', got 3"),
        ({"hour": 1.0, "devise": "phone"}, "context has no column 'devise'; did you mean 'device'?"),
    ):
        answer = service.post("/ask", json={"context": wrong})
        assert (answer.status_code, message in answer.json()["error"]) == (422, True), answer.text
    answer = service.post("/arms", json={"arms": {"s-4": {"price": 1.0, "kind": "shoo"}}})
    assert (answer.status_code, "did you mean 'shoe'?" in answer.json()["error"]) == (422, True)
    schemas = service.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["Ask"]["examples"] == [{"context": {"device": "phone", "hour": 0.5}}]
    assert schemas["Arms"]["examples"] == [{"arms": arms}]
    with Client(str(service.base_url)) as client, Agent.open(path) as agent:
        assert client.ask(context={"device": "desktop", "hour": 2.0}).id == 5
        assert client.estimate(context=context) == agent.estimate(context=context)
        log = pl.read_parquet(agent.export(tmp_path / "log.parquet"))
    assert log["device"].to_list() == ["tablet", "phone", "tablet", "tablet", "desktop"]
    assert service.get("/overview").status_code == 200


def test_names_stand_for_positions_in_every_path(shop):
    path, service = shop
    catalogue = service.post("/arms", json={"arms": {**ARMS, "chair": [0.9, 0.3]}}).json()["arms"]
    assert {name: arm["features"] for name, arm in catalogue.items()} == {
        "mug": [0.2, 0.9],
        "lamp": [0.7, 0.6],
        "chair": [0.9, 0.3],
    }
    assert service.get("/arms").json()["arms"]["lamp"]["values"] == ARMS["lamp"]
    assert service.post("/ask", json={"context": CONTEXT}).status_code == 200
    arm, context, features = last_decision(path)
    assert (context, features) == ([1.0, 0.4], catalogue[arm]["features"])
    service.post("/ask", json={"context": {"returning": True, "hour": 3}, "arms": {"new": {"rating": 2, "price": 1}}})
    assert last_decision(path) == ("new", [1.0, 3.0], [1.0, 2.0])
    batch = service.post("/ask/batch", json={"contexts": [CONTEXT, [0.0, 0.7]], "names": ["mug"]})
    assert [one["arm"] for one in batch.json()["decisions"]] == ["mug", "mug"]
    assert last_decision(path)[1] == [0.0, 0.7]


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"context": {"hour": 0.4}}, "context", "context must have the column 'returning', which is missing"),
        ({"context": {**CONTEXT, "day": 3}}, "context", "context has no column 'day'; "),
        ({"context": {**CONTEXT, "hour": [1]}}, "context", "column 'hour' must be a finite number, a text, true, f"),
        ({"context": {**CONTEXT, "hour": math.nan}}, "context", "column 'hour' must be a finite number"),
        ({"context": {}}, "context", "at least 1 item"),
        ({"context": 3}, "context", "valid list"),
        ({"context": [1, "x"]}, "context.1", "valid number"),
        ({"context": CONTEXT, "arms": {"a": {"price": 1, "ratin": 2}}}, "arms.a", "'ratin'; did you mean 'rating'"),
        ({"context": CONTEXT, "arms": {"a": {"price": {}, "rating": 2}}}, "arms.a", "column 'price' must be"),
        ({"context": CONTEXT, "arms": {"a": {"": 1, "rating": 2}}}, "arms.a.", "at least 1 character"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(shop, body, field, words):
    _, service = shop
    before = service.get("/status").json()["decisions"]
    answer = service.post("/ask", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert words in answer.json()["error"]
    assert service.get("/status").json()["decisions"] == before


def test_the_client_takes_names_arrays_and_series(shop, client):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    path, _ = shop
    client.set_arms(
        {"mug": pd.Series({"rating": 0.9, "price": 0.2}), "lamp": {"price": np.float64(0.7), "rating": 0.6}}
    )
    contexts = [
        CONTEXT,
        pd.Series({"hour": 0.4, "returning": 1.0}),
        pd.Series([1.0, 0.4]),
        pl.Series([1.0, 0.4]),
        np.array([1.0, 0.4]),
        {"hour": np.float32(0.5) - np.float32(0.1), "returning": np.True_},
    ]
    for context in contexts:
        assert client.ask(context=context, arms=["mug", "lamp"]).arm in ARMS
        assert last_decision(path)[1] == pytest.approx([1.0, 0.4])
    decided = client.ask_many(contexts, ["mug"])
    assert [one.arm for one in decided] == ["mug"] * len(contexts)
    assert client.estimate(["mug"], contexts[1]) == client.estimate(["mug"], [1.0, 0.4])
    frame = pd.DataFrame({"hour": [0.4, 0.4], "returning": [1, 1]})
    for rows in (frame, pl.from_pandas(frame)):
        assert [one.arm for one in client.ask_many(rows, ["mug"])] == ["mug", "mug"]
        assert last_decision(path)[1] == pytest.approx([1.0, 0.4])
    with pytest.raises(ServiceError, match=r"'hour'.* missing"):
        client.ask(context=pd.Series({"hour": math.nan, "returning": 1.0}))
    with pytest.raises(ServiceError, match="context has no column 'day'"):
        client.ask(context=pd.Series({"day": 0.4, "returning": 1.0}))
    with pytest.raises(InvalidTypeError, match="'hour' of context must be numbers, or values by column, got <object"):
        client.ask(context={"hour": object(), "returning": 1})
    with pytest.raises(InvalidValueError, match="'hour' of context must be finite, got inf"):
        client.ask(context={"hour": math.inf, "returning": 1})


def test_true_and_false_are_rewards(shop, client):
    path, service = shop
    one, two, three = (client.ask(context=CONTEXT, arms=ARMS) for _ in range(3))
    assert service.post("/tell", json={"id": one.id, "reward": True}).json() == {"told": 1}
    assert service.post("/tell", json={"id": one.id, "reward": 1.0}).json() == {"told": 0}
    assert client.tell(two, np.False_)
    assert service.post("/tell/batch", json={"rewards": [{"id": three.id, "reward": False}]}).json() == {"told": 1}
    slate = client.ask(context=CONTEXT, arms=ARMS, slots=2)
    assert client.tell(slate, {slate.arms[0]: True, slate.arms[1]: False})
    assert exported(path)["reward"].to_list()[-5:] == [1.0, 0.0, 0.0, 1.0, 0.0]


def test_rewards_can_be_corrected(client):
    decision = client.ask(context=CONTEXT, arms=ARMS)
    with pytest.raises(ServiceError, match=r"409, reward: decision .* has no reward yet"):
        client.correct(decision.id, 1.0)
    client.tell(decision, True)
    with pytest.raises(ServiceError, match="409"):
        client.tell(decision, False)
    assert client.correct(decision, False) is True
    assert client.correct(decision.id, 0.0) is False
    assert client.tell(decision, 0.0) is False
    with pytest.raises(ServiceError, match="404, id: there is no decision"):
        client.correct(10**9, 1.0)


def assert_close(one, other):
    """Estimates are the same up to rounding: the agents read the same rewards in other portions."""
    assert list(one) == list(other)
    np.testing.assert_allclose(list(one.values()), list(other.values()), rtol=1e-9)


def test_estimates_are_those_of_the_agent(start):
    path, service = start(**NAMED)
    with Client(str(service.base_url)) as client:
        client.set_arms(ARMS)
        with Agent.open(path) as agent:
            assert client.estimate(context=CONTEXT) == agent.estimate(context=CONTEXT)
            assert all(math.isinf(deviation) for _, deviation in client.estimate(context=CONTEXT).values())
            for k in range(8):
                client.tell(client.ask(context=[k % 2, k / 8]), k % 3 == 0)
            found = client.estimate(context=CONTEXT)
            assert list(found) == list(ARMS)
            assert_close(found, agent.estimate(context=CONTEXT))
            assert_close(client.estimate({"x": [0.1, 0.2]}, CONTEXT), agent.estimate({"x": [0.1, 0.2]}, CONTEXT))
            described, there = client.describe(), agent.describe()
            learned, expected = described.pop("learner"), there.pop("learner")
            levels, expected_levels = learned.pop("levels"), expected.pop("levels")
            assert levels.keys() == expected_levels.keys()
            assert all(levels[name] == pytest.approx(expected_levels[name]) for name in levels)
            assert learned == pytest.approx(expected)
            assert described == there
            both = service.post("/estimate", json={"arms": ARMS, "names": ["mug"], "context": CONTEXT})
            assert (both.status_code, both.json()["field"]) == (422, "names")
            assert client.status()["decisions"] == 8  # nothing was decided


def test_arms_are_masked_and_come_back(shop, client):
    _, service = shop
    client.set_arms(ARMS)
    client.mask_arm("mug")
    assert client.arms()["mug"]["state"] == "masked"
    assert "mug" not in {one.arm for one in client.ask_many([CONTEXT] * 10)}
    assert service.post("/unmask", json={"name": "mug"}).json() == {"unmasked": "mug"}
    assert client.arms()["mug"]["state"] == "active"
    client.mask_arm("mug")
    client.unmask_arm("mug")
    for path in ("/mask", "/unmask"):
        answer = service.post(path, json={"name": "cup"})
        assert (answer.status_code, answer.json()["field"]) == (404, "name")
        assert answer.json()["error"] == "there is no arm 'cup' in the catalogue"


def test_the_share_that_explores_is_shown_and_changed(start):
    path, service = start(**NAMED, explore=1.0)
    with Client(str(service.base_url)) as client:
        client.set_arms(ARMS)
        assert client.status()["explore"] == 1.0
        assert {one.probability for one in client.ask_many([CONTEXT] * 20)} == {0.5}
        assert client.set_explore(0.5) == 2
        assert {one.probability for one in client.ask_many([CONTEXT] * 20)} == {0.25, 0.75}
        assert service.post("/explore", json={"explore": 0}).json() == {"explore": 0.0, "policy_version": 3}
        for share in (-0.1, 1.1, "0.1", None, True):
            answer = service.post("/explore", json={"explore": share})
            assert (answer.status_code, answer.json()["field"]) == (422, "explore")
    with Agent.open(path) as agent:
        assert agent.explore == 0.0


def examples(service, **options):
    document = service.get("/openapi.json", **options).json()
    schemas = document["components"]["schemas"]
    return {path: schemas[name]["examples"][0] for path, name in BODIES.items() if "examples" in schemas[name]}


@pytest.mark.parametrize(
    "made",
    [NAMED, {"dim": 3}, {"context": 0, "arm": ["price"]}, {"context": 2, "arm": 3}],
    ids=["named", "ready-made", "no context", "numbered"],
)
def test_the_examples_of_the_description_are_those_of_the_agent(start, made):
    """Each example can be sent as it is, before there is a catalogue and after."""
    path, service = start(**made)
    names = [*made.get("context", ()), *made["arm"]] if made is NAMED else []
    for _ in range(2):
        found = examples(service)
        assert set(found) == set(BODIES)
        assert all(f'"{name}"' in json.dumps([found["/ask/batch"], found["/arms"]]) for name in names)
        for call in ("/ask", "/ask/batch", "/estimate", "/arms", "/mask"):
            answer = service.post(call, json=found[call])
            assert answer.status_code == 200, (call, answer.text)
        service.post("/unmask", json=found["/mask"])
    assert "arms" not in found["/ask"]  # those of the catalogue are offered
    with Agent.open(path) as agent:
        assert agent.status()["decisions"] == 6
    # The page has the same as commands for curl.
    page = html.unescape(re.sub("<[^>]+>", "\n", service.get("/docs").text))
    lines = [shlex.split(line) for line in page.splitlines() if line.startswith("curl ")]
    bodies = {line[1]: json.loads(line[3]) for line in lines if "--json" in line}
    assert bodies[f"{service.base_url}/ask"] == found["/ask"]
    first = next(iter(found["/arms"]["arms"]))
    assert ["curl", "-X", "DELETE", f"{service.base_url}/arms?name={first}"] in lines


def test_examples_follow_features_that_are_appended(start):
    path, service = start(**NAMED)
    with Agent.open(path) as agent:
        agent.replace_features(context=["returning", "hour", "weekend"])
    assert [one["name"] for one in service.get("/columns").json()["context"]] == ["returning", "hour", "weekend"]
    assert list(examples(service)["/ask"]["context"]) == ["returning", "hour", "weekend"]


def test_without_the_token_the_description_has_no_names_of_the_agent(start):
    _, service = start(Settings(port=0, token="0123456789abcdef0123456789abcdef"), **NAMED)
    right = {"Authorization": "Bearer 0123456789abcdef0123456789abcdef"}
    for headers, shown in (({}, False), ({"Authorization": "Bearer wrong"}, False), (right, True)):
        for call in ("/openapi.json", "/docs"):
            answer = service.get(call, headers=headers)
            assert answer.status_code == 200
            assert ("returning" in answer.text) == shown, (call, headers)
    assert service.get("/columns").status_code == 401
    assert list(examples(service, headers=right)["/ask"]["context"]) == ["returning", "hour"]


def test_the_text_is_true_for_agents_that_make_products(shop):
    _, service = shop
    text = " ".join(service.get("/openapi.json").json()["paths"]["/ask"]["post"]["description"].split())
    assert "an object of values by column, or a list in the order of the columns, which GET /columns returns" in text
    assert "An agent made with `dim` has no named columns" in text
