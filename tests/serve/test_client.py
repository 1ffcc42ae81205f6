"""The client: what it sends, and what it does when calls fail on the way."""

import http.server
import json
import threading

import numpy as np
import pytest

from adadim.errors import InvalidTypeError, InvalidValueError, ServiceError
from adadim.serve import AnswerSlate, Client

ARMS = {"sku-1": [1.0, 0.2, 0.0], "sku-2": [1.0, 0.7, 0.1]}


@pytest.fixture
def client(service):
    with Client(str(service.base_url)) as opened:
        yield opened


def test_all_calls(client, service):
    decision = client.ask({name: np.array(features) for name, features in ARMS.items()})
    assert decision.arm in ARMS
    assert client.tell(decision.id, np.float64(0.5)) is True
    assert client.tell(decision.id, 0.5) is False
    ids = [client.ask(ARMS, costs={"sku-1": 9.0}).id for _ in range(2)]
    batch = client.ask_many([None, None], {"a": [1.0, 0.2, 0.0], "b": [0.0, 1.0, 0.0]})
    assert [answer.id for answer in batch] == [ids[-1] + 1, ids[-1] + 2]
    assert {answer.arm for answer in batch} <= {"a", "b"}
    assert client.tell_many(dict.fromkeys(ids, 1.0)) == 2
    assert client.tell_many([(i, 1.0) for i in ids]) == 0
    assert client.tell(batch[0], 0.25) is True
    assert client.tell(batch[0].id, 0.25) is False
    client.set_arms(ARMS, costs={"sku-2": 1.5})
    assert client.arms()["sku-2"] == {"features": ARMS["sku-2"], "values": None, "cost": 1.5, "state": "active"}
    assert client.ask().arm in ARMS
    assert client.ask(["sku-1"]).arm == "sku-1"
    client.retire_arm("sku-1")
    assert set(client.arms()) == {"sku-2"}
    client.set_arms({"кот & cat=1": [0.0, 0.0, 1.0]})
    client.retire_arm("кот & cat=1")
    assert client.ask({"x": [0.5, 0.5]}, context=np.ones(1)).arm == "x"
    assert client.status() == service.get("/status").json()
    assert client.dimension() == service.get("/dimension").json()
    assert client.health()["status"] == "ok"


def test_slates(client):
    slate = client.ask(ARMS, slots=np.int64(2))
    assert isinstance(slate, AnswerSlate)
    assert sorted(slate.arms) == sorted(ARMS)
    assert [one.id for one in slate.decisions] == [slate.id, slate.id + 1]
    assert client.tell(slate.id, {slate.arms[1]: np.float64(0.5)}) is True
    assert client.tell(slate, {slate.arms[1]: 0.5}) is False
    with pytest.raises(TypeError, match=r"the rewards of a slate are a dict by arm, got 1\.0 for slate"):
        client.tell(slate, 1.0)
    first, second = client.ask_many([None, None], ARMS, slots=1)
    assert client.tell_many([(first.id, {first.arms[0]: 1.0}), (second.id, 1.0), (slate.id, {slate.arms[0]: 0})]) == 3
    with pytest.raises(ServiceError, match=r"POST /tell: 404, id: arm 'x' is not in slate"):
        client.tell(slate.id, {"x": 1.0})
    with pytest.raises(ServiceError, match=r"slots must be an integer in 1\.\.2"):
        client.ask(ARMS, slots=3)


def test_refusals_are_errors_with_the_reason(client):
    with pytest.raises(ServiceError, match=r"POST /ask: 422, .*features of 'a' must be 3 numbers") as error:
        client.ask({"a": [1.0]})
    assert error.value.status == 422
    with pytest.raises(ServiceError, match="404") as error:
        client.tell(10**9, 1.0)
    assert error.value.status == 404
    with pytest.raises(ServiceError, match="404, name: there is no arm 'none'"):
        client.retire_arm("none")


def test_what_is_no_number_is_not_sent(client, log):
    before = log()
    with pytest.raises(InvalidValueError, match="features of 'a' must be finite"):
        client.ask({"a": [1.0, float("nan"), 0.0]})
    with pytest.raises(InvalidValueError, match="reward must be finite"):
        client.tell(1, float("inf"))
    with pytest.raises(InvalidTypeError, match="arms must be a dict"):
        client.ask("sku-1")
    with pytest.raises(InvalidValueError, match="costs must be finite"):
        client.set_arms(ARMS, costs={"sku-1": float("nan")})
    assert log() == before


def test_costs_of_numpy(client):
    client.set_arms(ARMS, costs={"sku-1": np.int64(2), "sku-2": np.float32(0.5)})
    assert {name: arm["cost"] for name, arm in client.arms().items()} == {"sku-1": 2.0, "sku-2": 0.5}
    for name in ARMS:
        client.retire_arm(name)


@pytest.mark.parametrize("url", ["ftp://x", "localhost:8000", "", 3, None])
def test_addresses_that_are_none(url):
    with pytest.raises(InvalidValueError, match="url must look like"):
        Client(url)


def test_threads_have_connections_of_their_own(client):
    before, failures = client.status(), []

    def work():
        try:
            for _ in range(5):
                client.tell(client.ask(ARMS).id, 1.0)
            client.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert client.status()["rewards"] == before["rewards"] + 20


class Unreliable(http.server.BaseHTTPRequestHandler):
    """Passes calls on to a service, but loses answers or is out of order, as the plan says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def pass_on(self):
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        what = self.server.plan.pop(0) if self.server.plan else "work"
        self.server.calls.append((self.command, self.path, body))
        if what == "drop":
            self.close_connection = True
            return
        if isinstance(what, int):
            self.send_response(what)
            self.send_header("Retry-After", "3")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        headers = {"Content-Type": "application/json"}
        answer = self.server.service.request(self.command, self.path, content=body, headers=headers)
        if what == "lose":  # done, but nobody hears of it
            self.close_connection = True
            return
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_POST = do_DELETE = pass_on


@pytest.fixture
def unreliable(service):
    """A bad way to the service; a client that goes that way, and how long it waited."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Unreliable)
    server.daemon_threads = True
    server.service, server.plan, server.calls, server.waits = service, [], [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    with Client(url, attempts=4, pause=0.1, sleep=server.waits.append) as server.client:
        yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("plan", [["lose"], ["drop", "lose", "lose"], [503, "lose"], ["lose", 502, 429]])
def test_a_reward_arrives_once_whatever_happens_on_the_way(unreliable, service, log, plan):
    decision = service.post("/ask", json={"arms": ARMS}).json()["id"]
    unreliable.plan = list(plan)
    unreliable.client.tell(decision, 0.5)
    assert len(unreliable.calls) == len(plan) + 1
    assert len({body for _, _, body in unreliable.calls}) == 1
    assert [row[3] for row in log()["rewards"] if row[1] == decision] == [0.5]


def test_a_lost_decision_stays_unanswered_and_teaches_nothing(unreliable, service):
    before = service.get("/status").json()
    unreliable.plan = ["lose"]
    answer = unreliable.client.ask(ARMS)
    unreliable.client.tell(answer.id, 1.0)
    after = service.get("/status").json()
    assert after["decisions"] == before["decisions"] + 2
    assert after["rewards"] == before["rewards"] + 1
    assert after["outstanding"] == before["outstanding"] + 1


def test_an_arm_whose_retirement_got_lost_is_retired(unreliable, service):
    service.post("/arms", json={"arms": {"old": [1.0, 0.0, 0.0]}})
    unreliable.plan = ["lose"]
    unreliable.client.retire_arm("old")
    assert "old" not in service.get("/arms").json()["arms"]


def test_pauses_grow_and_obey_the_service(unreliable):
    unreliable.plan = [429, "drop", 503]
    unreliable.client.status()
    first, second, third = unreliable.waits
    assert first == third == 3.0  # Retry-After
    assert 0.1 <= second <= 0.2 or second == 0.0  # at once if the connection had been used before


def test_the_end_of_patience(unreliable):
    unreliable.plan = [503] * 9
    with pytest.raises(ServiceError, match=r"was called 4 times without success: 503") as error:
        unreliable.client.status()
    assert error.value.status is None
    assert len(unreliable.calls) == 4
    assert len(unreliable.waits) == 3


def test_what_the_caller_did_wrong_is_not_repeated(unreliable):
    with pytest.raises(ServiceError, match="422"):
        unreliable.client.ask({"a": [1.0]})
    assert len(unreliable.calls) == 1


def test_nobody_there():
    waits = []
    with Client("http://127.0.0.1:9", attempts=3, sleep=waits.append) as client, pytest.raises(ServiceError) as error:
        client.status()
    assert "called 3 times" in str(error.value)
    assert len(waits) == 2
    assert isinstance(error.value, OSError)


def test_answers_that_are_not_of_the_service(unreliable, monkeypatch):
    def strange(self):
        self.send_response(404)
        body = b"<html>not found</html>"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    monkeypatch.setattr(Unreliable, "do_GET", strange)
    with pytest.raises(ServiceError, match="404, <html>not found"):
        unreliable.client.status()
    assert json.dumps(unreliable.waits) == "[]"
