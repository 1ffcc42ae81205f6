"""A service whose agent is in PostgreSQL, several processes of a service, and the commands for both."""

import os
import signal
import subprocess
import threading
import time
import uuid

import pytest

from adadim.agent import Agent
from adadim.serve import Client, Settings
from agent_runs import state_of
from command_line import adadim_, command, refused
from postgres_server import start_or_skip

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

ARMS = {"red": [1.0, 0.0], "blue": [0.0, 1.0]}


@pytest.fixture
def address(database):
    made = f"{database.url}#s{uuid.uuid4().hex}"
    Agent.create(made, dim=2).close()
    return made


@pytest.fixture
def start(working_folder):
    """Starts the command and gives the process, the line it printed and the address."""
    processes = []

    def run(*arguments):
        process = subprocess.Popen(
            command("serve", *arguments, "--port", 0), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        line = process.stdout.readline()
        assert line, process.stderr.read()
        return process, line, line.split(" at http")[1].split()[0].join(["http", ""])

    yield run
    for process in processes:
        process.terminate()
        process.communicate(timeout=30)


def children(pid):
    psutil = pytest.importorskip("psutil")
    running = [one for one in psutil.Process(pid).children() if one.status() != psutil.STATUS_ZOMBIE]
    return [one.pid for one in running if "spawn_main" in " ".join(one.cmdline())]


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def test_two_services_of_one_agent(address):
    from adadim.serve import Service

    with (
        Service(address, Settings(port=0)) as one,
        Service(address, Settings(port=0)) as other,
        httpx.Client(base_url=one.url) as first,
        httpx.Client(base_url=other.url) as second,
    ):
        ids = [client.post("/ask", json={"arms": ARMS}).json()["id"] for client in (first, second, first)]
        assert ids == [1, 2, 3]
        assert first.post("/tell", json={"id": 2, "reward": 0.5}).json() == {"told": 1}
        assert second.post("/tell", json={"id": 2, "reward": 0.5}).json() == {"told": 0}
        assert second.post("/tell", json={"id": 2, "reward": 0.75}).status_code == 409
        assert second.post("/tell", json={"id": 9, "reward": 0.75}).status_code == 404
        for client in (first, second):
            status = client.get("/status").json()
            assert (status["decisions"], status["rewards"], status["outstanding"]) == (3, 1, 2)
            shown = client.get("/overview").json()
            assert shown["name"] == address.partition("#")[2]
            assert sum(one["decisions"] for one in shown["shares"]) == 3
            assert shown["trend"]["points"][0]["mean"] == 0.5
            assert "adadim_decisions 3\n" in client.get("/metrics").text
            assert client.get("/").status_code == 200


def test_a_database_that_is_away_is_503_until_it_is_back():
    from adadim.serve import Service

    server = start_or_skip("fsync = off")
    try:
        Agent.create(server.url, name="shop", dim=2).close()
        with Service(f"{server.url}#shop", Settings(port=0)) as service, httpx.Client(base_url=service.url) as client:
            number = client.post("/ask", json={"arms": ARMS}).json()["id"]
            server.control("stop")
            for method, path, body in (
                ("POST", "/ask", {"arms": ARMS}),
                ("POST", "/tell", {"id": number, "reward": 1.0}),
                ("GET", "/status", None),
                ("GET", "/overview", None),
            ):
                answer = client.request(method, path, json=body)
                assert answer.status_code == 503, (path, answer.text)
                assert answer.headers["Retry-After"] == "1"
                assert server.url not in answer.text
            assert client.get("/health").status_code == 200
            server.control("start")
            until(lambda: client.get("/status").status_code == 200)
            assert client.post("/tell", json={"id": number, "reward": 1.0}).json() == {"told": 1}
            assert client.post("/ask", json={"arms": ARMS}).json()["id"] == number + 1
            until(lambda: client.get("/overview").status_code == 200)
        with Agent.open(server.url, name="shop") as agent:
            assert state_of(agent) | {"decisions": 2, "rewards": 1} == state_of(agent)
    finally:
        server.delete()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_several_processes_on_one_port(start, store, request):
    if store == "sqlite":
        Agent.create("shop.db", dim=2).close()
        place, arguments = "shop.db", ["shop.db"]
    else:
        place = request.getfixturevalue("address")
        url, _, name = place.partition("#")
        arguments = [url, "--name", name]
    process, line, url = start(*arguments, "--workers", "2")
    assert "by 2 processes (without a token" in line
    assert ":@" not in line
    until(lambda: len(children(process.pid)) == 2)
    answers, failures = [], []

    def call():
        try:
            for _ in range(6):  # a client for each, so that both processes get some
                with Client(url, attempts=200, pause=0.02) as client:
                    decision = client.ask(ARMS)
                    answers.append((decision.id, client.tell(decision.id, 1.0)))
        except Exception as error:
            failures.append(error)

    def call_in_threads():
        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures

    call_in_threads()
    killed = children(process.pid)[0]
    os.kill(killed, signal.SIGKILL)
    call_in_threads()  # the other one is there
    until(lambda: len(set(children(process.pid)) - {killed}) == 2)  # and another takes the place of the first
    assert len({number for number, _ in answers}) == len(answers) == 36
    workers = children(process.pid)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=40)
    assert (process.returncode, out) == (0, "")
    until(lambda: not any(_alive(worker) for worker in workers))
    with Agent.open(place) as agent:
        status = agent.status()
        assert status["rewards"] == 36
        assert status["decisions"] >= 36  # a client that was cut off asks again
        assert agent.rebuild() < 1e-9


def _alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def test_processes_stop_when_the_one_that_started_them_is_killed(start):
    Agent.create("shop.db", dim=2).close()
    process, _, url = start("shop.db", "--workers", "2")
    workers = children(process.pid)
    assert len(workers) == 2
    with Client(url, attempts=200, pause=0.05) as client:
        client.ask(ARMS)
    process.kill()
    until(lambda: not any(_alive(worker) for worker in workers))


def test_copying_by_the_command(working_folder, database):
    url, name = database.url, f"c{uuid.uuid4().hex}"
    with Agent.create("shop.db", dim=2) as agent:
        for _ in range(5):
            agent.tell(agent.ask(ARMS).id, 0.5)
    printed, _ = adadim_("copy", "shop.db", url, "--name", name)
    assert printed.startswith("copied shop.db to postgresql://postgres@/postgres?host=")
    assert "5 decisions with 5 rewards" in printed.replace("\n", " ")
    adadim_("copy", f"{url}#{name}", "back.db")
    with Agent.open("back.db") as agent, Agent.open(url, name=name) as copied:
        assert agent.status()["rewards"] == copied.status()["rewards"] == 5
        assert agent.estimate(ARMS) == copied.estimate(ARMS)
    refused("copy", "shop.db", url, "--name", name, message=f"{name}: exists already")
    refused("copy", "none.db", "new.db", message="none.db: no such file")
    refused("copy", "shop.db", url, message="which agent of")


def test_one_command_makes_an_agent_of_a_database(working_folder, database, monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    call = ["serve", database.url, "--name", f"n{uuid.uuid4().hex}", "--port", 0]
    assert adadim_(*call, "--arm", "price,size")[0].startswith("made postgresql://")
    assert adadim_(*call, "--arm", "price,size")[0].startswith("serving postgresql://")
    refused(
        *call, "--arm", "price", message=r"exists with other settings: arm is \['price', 'size'\] there, \['price'\]"
    )


def test_what_cannot_be_served(working_folder, database):
    refused("serve", database.url, message="which agent of postgresql://postgres@/postgres")
    refused("serve", database.url, "--name", "nowhere", message="there is no agent 'nowhere'|no agent was made")
    refused("serve", "postgresql://x:secret@[::1/db", "--name", "a", message=r"x:\.\.\.@\[::1/db is no URL")
    refused("serve", "postgresql://u@127.0.0.1:1/db", "--name", "a", "--workers", "2", message="#a: cannot be read")
    refused("serve", "shop.db", "--name", "a", message="name='a' is for an agent in PostgreSQL")
