"""What whoever runs a service relies on: requests in groups, readiness, lines of JSON, and stopping in good order."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

from adadim.agent import Agent, AskCall
from adadim.agent.log import LoggedDecision
from adadim.agent.sqlite import SqliteLog
from adadim.errors import FileError, ServiceError
from adadim.serve import Client, Settings
from agent_runs import failing_writes, learner_of
from command_line import command

ARMS = {"red": [1.0, 0.0, 0.0], "blue": [0.0, 1.0, 0.0]}


@pytest.fixture
def shop(tmp_path):
    """A service of its own, and a client of it."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    from adadim.serve import Service

    path = tmp_path / "shop.db"
    Agent.create(path, dim=3).close()
    with Service(path, Settings(port=0)) as service, Client(service.url, attempts=1) as client:
        yield service, client


def at_once(*calls):
    """What calls give that are made at the same time; an exception where one raises."""
    results = [None] * len(calls)

    def run(at):
        try:
            results[at] = calls[at]()
        except Exception as error:
            results[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture
def held(shop, monkeypatch):
    """Holds the first group of the service back until the rest has come, and counts groups."""
    groups, go_on, done = [], threading.Event(), Agent.ask_and_tell

    def grouped(self, calls):
        groups.append(calls)
        if len(groups) == 1:
            go_on.wait(30)
        return done(self, calls)

    monkeypatch.setattr(Agent, "ask_and_tell", grouped)
    return groups, go_on


def waiting(service, count):
    """Wait until so many calls wait for the agent."""
    end = time.monotonic() + 30
    while len(service._agent._waiting) < count:
        assert time.monotonic() < end
        time.sleep(0.005)


def get(client, path):
    """What the service answers at a path for which the client has no method."""
    return client._call("GET", path)


# Groups


def test_requests_that_wait_together_are_written_together(shop, held):
    (service, client), (groups, go_on) = shop, held
    asking = [lambda: client.ask(ARMS)] * 9
    releasing = threading.Thread(target=lambda: (waiting(service, 8), go_on.set()))
    releasing.start()
    answers = at_once(*asking)
    releasing.join()
    assert sorted(answer.id for answer in answers) == list(range(1, 10))
    assert [len(group) for group in groups] == [1, 8]
    assert client.status()["decisions"] == 9


def test_a_bad_request_of_a_group_fails_alone(shop, held):
    (service, client), (groups, go_on) = shop, held
    releasing = threading.Thread(target=lambda: (waiting(service, 5), go_on.set()))
    releasing.start()
    first = threading.Thread(target=lambda: client.ask(ARMS))
    first.start()
    while not groups:
        time.sleep(0.005)
    results = at_once(
        lambda: client.ask(ARMS),
        lambda: client.ask(["nothing"]),
        lambda: client.tell(77, 1.0),
        lambda: client.tell_many([(1, 0.5), (78, 1.0)]),
        lambda: client.ask_many([None, None], ARMS),
    )
    first.join()
    releasing.join()
    one, nothing, unknown, batch, two = results
    assert len(groups[1]) == 5
    assert {one.id, *(each.id for each in two)} == {2, 3, 4}
    assert [type(error) for error in (nothing, unknown, batch)] == [ServiceError] * 3
    assert (nothing.status, unknown.status, batch.status) == (422, 404, 404)
    assert client.status()["rewards"] == 0
    assert client.tell_many([(1, 0.5), (2, 1.0)]) == 2


def test_nothing_is_answered_that_is_not_written(shop, monkeypatch):
    _, client = shop
    with monkeypatch.context() as patched:
        failing_writes(patched, LoggedDecision, FileError("disk is full"), written=4)
        results = at_once(*[lambda: client.ask(ARMS)] * 4)
    assert all(isinstance(result, ServiceError) and "503" in str(result) for result in results)
    assert client.status()["decisions"] == 0


def test_a_defect_is_answered_and_the_next_group_goes_on(shop, monkeypatch, caplog):
    _, client = shop

    def fail(self, calls):
        raise ZeroDivisionError("secret")

    with monkeypatch.context() as patched:
        patched.setattr(Agent, "ask_and_tell", fail)
        results = at_once(*[lambda: client.ask(ARMS)] * 3)
    assert [result.status for result in results] == [500] * 3
    assert "secret" not in str(results)
    assert "ZeroDivisionError" in caplog.text
    assert client.ask(ARMS).id == 1


def test_a_client_that_leaves_holds_up_nothing(shop, held):
    (service, client), (groups, go_on) = shop, held
    body = json.dumps({"arms": ARMS}).encode()
    head = f"POST /ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    host, port = service.url.removeprefix("http://").split(":")
    first = threading.Thread(target=lambda: client.ask(ARMS))
    first.start()
    while not groups:
        time.sleep(0.005)
    with socket.create_connection((host, int(port))) as leaving:
        leaving.sendall(head.encode() + b"\r\n" + body)
        waiting(service, 1)
    go_on.set()
    first.join()
    assert client.ask(ARMS).id == 3
    assert client.status()["decisions"] == 3


def test_learners_are_refreshed_in_the_background_until_they_have_all_rewards(shop, monkeypatch):
    service, client = shop
    monkeypatch.setattr("adadim.agent.policy.REFRESH_SECONDS", 0.0)
    agent = service._agent._agent
    for _ in range(30):
        first, second = at_once(lambda: client.ask(ARMS), lambda: client.ask(ARMS))
        at_once(lambda id=first.id: client.tell(id, 1.0), lambda id=second.id: client.tell(id, 0.5))
    end = time.monotonic() + 30
    while agent.is_behind:  # and nothing is asked any more
        assert time.monotonic() < end
        time.sleep(0.01)
    assert learner_of(agent).model.pulls[0] == 60
    assert client.status()["rewards"] == 60


# Readiness


def test_ready_says_whether_the_log_can_be_written(shop, tmp_path, monkeypatch):
    service, client = shop
    assert get(client, "/ready")["status"] == "ready"
    service._agent._ready_until = 0.0  # it is not asked again within a second
    blocker = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("adadim.serve.app.READY_SECONDS", 0.2)
    with pytest.raises(ServiceError, match="503"):
        get(client, "/ready")
    assert client.health()["status"] == "ok"
    blocker.execute("ROLLBACK")
    blocker.close()
    assert get(client, "/ready")["status"] == "ready"


def test_a_log_that_cannot_be_written_is_not_ready(shop, monkeypatch, caplog):
    _, client = shop

    def fail(self, whole):
        raise FileError("shop.db: cannot be read or written (database or disk is full)")

    monkeypatch.setattr(SqliteLog, "check", fail)
    with pytest.raises(ServiceError, match="503"):
        get(client, "/ready")
    assert "disk is full" in caplog.text
    assert client.health()["status"] == "ok"


def test_readiness_writes_at_most_once_a_second(shop, monkeypatch):
    _, client = shop
    checks, check = [], Agent.check_log
    monkeypatch.setattr(Agent, "check_log", lambda self: checks.append(check(self)))
    for _ in range(20):
        get(client, "/ready")
    assert 1 <= len(checks) <= 2


# The command: its log, and how it ends


@pytest.fixture
def start(working_folder):
    """Starts the command on a file, and gives the process and its address."""
    pytest.importorskip("uvicorn")
    Agent.create("shop.db", dim=3).close()
    processes = []

    def run(*arguments):
        process = subprocess.Popen(
            command("serve", "shop.db", "--port", 0, "--rate", 0, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        processes.append(process)
        line = process.stdout.readline()
        assert line, process.stderr.read()
        return process, line.split(" at ")[1].split()[0]

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def test_a_line_of_json_for_each_request_and_event(start):
    process, url = start("--log-format", "json")
    with Client(url, attempts=1) as client:
        decision = client.ask(ARMS)
        with pytest.raises(ServiceError):
            client.tell(decision.id + 1, 1.0)
        with pytest.raises(ServiceError):
            get(client, "/secret-name")
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["event"] for line in lines] == ["started", "request", "request", "request", "stopped"]
    assert [(line["path"], line["status"]) for line in lines[1:4]] == [("/ask", 200), ("/tell", 404), ("other", 404)]
    assert lines[0]["url"] == url
    for line in lines:
        assert line["time"].endswith("+00:00")
        assert (line["level"], line["logger"]) == ("info", "adadim.serve")
    assert all(0 < line["ms"] < 30_000 and line["client"] == "127.0.0.1" for line in lines[1:4])
    assert "secret-name" not in log


def test_a_log_of_errors_has_the_reason(start):
    process, url = start("--log-format", "json")
    with Client(url, attempts=1) as client:
        client.health()
        with sqlite3.connect("shop.db") as file:
            file.execute("DROP TABLE outstanding")
        with pytest.raises(ServiceError, match="503"):
            client.ask(ARMS)
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    errors = [line for line in map(json.loads, log.splitlines()) if line["level"] == "error"]
    assert len(errors) == 1
    assert "no such table: outstanding" in errors[0]["event"]


def test_plain_text_is_silent_about_requests(start):
    process, url = start()
    with Client(url) as client:
        client.ask(ARMS)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30) == ("", "")


def test_stopping_under_load_loses_nothing_that_was_acknowledged(start):
    process, url = start()
    acknowledged, refused = [], []

    def call():
        with Client(url, attempts=1) as client:
            while True:
                try:
                    decision = client.ask(ARMS)
                    acknowledged.append(("ask", decision.id))
                    client.tell(decision.id, 0.5)
                    acknowledged.append(("tell", decision.id))
                except OSError as error:
                    refused.append(error)
                    return

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 100:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    for thread in threads:
        thread.join()
    assert len(refused) == 8
    with Agent.open("shop.db") as agent, sqlite3.connect("shop.db") as file:
        asked = {row[0] for row in file.execute("SELECT number FROM decisions")}
        told = {row[0] for row in file.execute("SELECT decision FROM rewards")}
        assert {id for what, id in acknowledged if what == "ask"} <= asked
        assert {id for what, id in acknowledged if what == "tell"} <= told
        # Nothing that was finished went unanswered, either: no request was cut off.
        assert len(acknowledged) == len(asked) + len(told)
        assert agent.rebuild() < 1e-9


def test_a_group_that_ends_after_the_service_is_written(shop):
    service, client = shop
    client.ask(ARMS)
    agent = service._agent
    loop = type("Closed", (), {"call_soon_threadsafe": lambda *_: (_ for _ in ()).throw(RuntimeError("closed"))})()
    agent._thread.submit(agent._do_group, loop, [(AskCall([None], ARMS), None)]).result()
    assert client.status()["decisions"] == 2
