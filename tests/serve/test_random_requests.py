"""Random requests, from wild to nearly right: never a failure of the service, and a refusal always has a reason."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

numbers = st.one_of(
    st.integers(-3, 3), st.floats(-5, 5), st.floats(allow_nan=True), st.sampled_from([1e300, -1e300, 5e-324, 2**70])
)
texts = st.one_of(st.sampled_from(["a", "b", "", "\x00", "' OR 1=1", "é"]), st.text(max_size=5))
anything = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
features = st.lists(numbers, min_size=3, max_size=3)
arms = st.dictionaries(texts, features | anything, max_size=3)
rewards = st.fixed_dictionaries({"id": st.integers(-1, 40) | anything, "reward": numbers | anything})
BODIES = {
    "/ask": st.fixed_dictionaries(
        {}, optional={"arms": arms, "names": anything, "context": anything, "costs": anything}
    ),
    "/tell": rewards,
    "/ask/batch": st.fixed_dictionaries({"contexts": st.lists(st.none() | anything, max_size=3) | anything}),
    "/tell/batch": st.fixed_dictionaries({"rewards": st.lists(rewards, max_size=3) | anything}),
    "/arms": st.fixed_dictionaries({"arms": arms}, optional={"costs": anything, "more": anything}),
}


@pytest.mark.parametrize("path", list(BODIES))
def test_whatever_is_sent(service, path):
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    @given(BODIES[path] | anything)
    def send(body):
        answer = service.post(path, content=as_json(body), headers={"Content-Type": "application/json"})
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.json()["error"]

    send()
    assert service.post("/ask", json={"arms": {"a": [1.0, 0.5, 0.2]}}).status_code == 200
    for look in ("/status", "/dimension", "/overview", "/arms", "/metrics"):
        assert service.get(look).status_code == 200


@pytest.mark.parametrize("size", [1e-300, 1e20, 1e150, 1e300])
def test_numbers_of_any_size_leave_the_service_able_to_go_on(service, size):
    for x, reward in (([size, 1.0, 0.0], 1.0), ([1.0, size, size], size), ([0.0, 1.0, 0.0], -size)):
        asked = service.post("/ask", json={"arms": {"a": x, "b": [1.0, 0.0, 0.0]}})
        assert asked.status_code in (200, 422), asked.text
        if asked.status_code == 200:
            told = service.post("/tell", json={"id": asked.json()["id"], "reward": reward})
            assert told.status_code in (200, 422), told.text
    for look in ("/status", "/dimension", "/overview"):
        assert service.get(look).status_code == 200
    assert service.post("/ask", json={"arms": {"a": [1.0, 0.5, 0.2]}}).status_code == 200


def as_json(value):
    """As a careless program would write it: with NaN, with whatever is in strings."""
    return json.dumps(value).encode()
