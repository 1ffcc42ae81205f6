"""The command: what it says, what it refuses, and how it stops."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import adadim
from adadim.agent import Agent
from adadim.serve import Client
from command_line import adadim_, command, refused

ARMS = {"red": [1.0, 0.0], "blue": [0.0, 1.0]}


@pytest.fixture
def shop(working_folder):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    Agent.create("shop.db", dim=2).close()


@pytest.fixture
def start(shop):
    """Starts the command and gives the process, the line it printed and the address."""
    processes = []

    def run(*arguments, **environment):
        process = subprocess.Popen(
            command("serve", "shop.db", "--port", 0, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        processes.append(process)
        line = process.stdout.readline()
        assert line, process.stderr.read()
        return process, line, line.split(" at ")[1].split()[0]

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def test_help_teaches():
    printed, _ = adadim_("serve", "--help")
    for word in ("--token-file", "ADADIM_TOKEN", "curl", '"reward": 1.0', "adadim.serve.Client", "SIGTERM", "/docs"):
        assert word in printed
    assert '{"red": [1, 0.5]' in printed
    assert "adadim serve shop.db --context hour,weekend --arm price,rating" in printed


def test_it_serves_and_stops_in_good_order(start):
    process, line, url = start()
    assert "without a token, so for this machine only" in line
    with Client(url) as client:
        decision = client.ask(ARMS)
        client.tell(decision.id, 1.0)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
    assert (process.returncode, out, error) == (0, "", "")
    with Agent.open("shop.db") as agent:
        assert agent.status()["rewards"] == 1


def test_a_request_under_way_is_finished(start):
    process, _, url = start()
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        body = b'{"arms": {"red": [1, 0]}}'
        head = f"POST /ask HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:10])
        time.sleep(1.0)  # the request has begun
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        connection.sendall(body[10:])
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 OK")
    assert process.wait(timeout=30) == 0


def test_a_restart_in_the_middle_of_calls(start):
    first, _, url = start()
    port = url.rpartition(":")[2]
    done, failures = [], []

    def call():
        try:
            with Client(url, attempts=1000, pause=0.001) as client:
                for _ in range(30):
                    decision = client.ask(ARMS)
                    client.tell(decision.id, 1.0)
                    done.append(decision.id)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while len(done) < 10 and thread.is_alive():
        time.sleep(0.01)
    first.kill()  # the machine has failed
    first.communicate()
    start("--port", port)
    thread.join()
    assert not failures
    with Agent.open("shop.db") as agent:
        assert agent.status()["rewards"] == len(done) == 30


def test_a_token_from_a_file_and_from_the_environment(start):
    with open("token", "w") as file:
        file.write("correct-horse-battery\n")
    for process_line_url in (
        start(ADADIM_TOKEN="correct-horse-battery"),
        start("--host", "0.0.0.0", "--token-file", "token"),
    ):
        _, line, url = process_line_url
        assert "with a token" in line
        assert "correct-horse" not in line
        with Client(url.replace("0.0.0.0", "127.0.0.1"), token="correct-horse-battery") as client:
            assert client.status()["decisions"] == 0
        with Client(url.replace("0.0.0.0", "127.0.0.1")) as client, pytest.raises(OSError, match="401"):
            client.status()


def test_what_cannot_be_served(shop, monkeypatch):
    monkeypatch.delenv("ADADIM_TOKEN", raising=False)
    refused(
        "serve", "none.db", message="none.db: no such file; to create an agent, name the features of visitors and arms"
    )
    refused("serve", "shop.db", "--host", "0.0.0.0", message="without a token, got '0.0.0.0'; give a token")
    refused("serve", "shop.db", "--token-file", "none", message="the token file none cannot be read")
    with open("token", "w") as file:
        file.write("correct-horse-battery\n")
    for host in ("no.such.host.invalid", "x" * 300, ".."):
        message = f"cannot listen on {host[:100]}.*, port 8000: "
        refused("serve", "shop.db", "--host", host, "--token-file", "token", message=message)
    with open("text.db", "w") as file:
        file.write("no agent")
    refused("serve", "text.db", message="text.db: .*not a file that Agent.create made")
    monkeypatch.setenv("ADADIM_TOKEN", "short")
    refused("serve", "shop.db", message="ADADIM_TOKEN must have at least 16 characters")


def test_a_port_that_is_taken(shop, monkeypatch):
    monkeypatch.delenv("ADADIM_TOKEN", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _, error = adadim_("serve", "shop.db", "--port", port, code=2)
    assert error.startswith(f"error: cannot listen on 127.0.0.1, port {port}: ")


def test_without_the_packages_of_the_service(shop, monkeypatch):
    monkeypatch.delitem(sys.modules, "adadim.serve.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    message = r"the service needs FastAPI and uvicorn; install them with: pip install 'adadim\[serve\]'"
    refused("serve", "shop.db", message=message)
    with pytest.raises(ImportError, match=message):
        adadim.serve.Service("shop.db")


def test_the_client_needs_no_packages():
    code = (
        "import sys, adadim\n"
        "assert not {'fastapi', 'uvicorn', 'adadim.serve'} & set(sys.modules)\n"
        "sys.modules |= {'fastapi': None, 'uvicorn': None, 'httpx': None}\n"
        "assert adadim.serve.Client().url == 'http://127.0.0.1:8000'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def served_here(monkeypatch, *arguments):
    """What the command prints, where the server stops as soon as it runs."""
    pytest.importorskip("uvicorn")
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    printed, error = adadim_("serve", *arguments, "--port", 0)
    assert error == ""
    return printed


def test_one_command_makes_an_agent_and_serves_it(working_folder, monkeypatch):
    options = ("--context", "hour,weekend", "--arm", "price, rating", "--expire-after", 60, "--expired-reward", 0)
    first, second = (served_here(monkeypatch, "new.db", *options) for _ in range(2))
    assert first.startswith("made new.db: an agent with 9 features\nserving new.db at http://127.0.0.1:")
    assert second.startswith("serving new.db at")
    assert served_here(monkeypatch, "new.db").startswith("serving new.db at")  # an agent that is there needs no more
    with Agent.open("new.db") as agent:
        assert agent.columns[:5] == ["constant", "price", "rating", "hour", "weekend"]
        made = {"context": ["hour", "weekend"], "arm": ["price", "rating"], "expire_after": 60, "expired_reward": 0}
        Agent.create("new.db", **made, exist_ok=True).close()


def test_it_answers_at_once(working_folder):
    pytest.importorskip("uvicorn")
    started = command("serve", "new.db", "--port", 0, "--context", "hour", "--arm", "price")
    with subprocess.Popen(started, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "made new.db: an agent with 4 features\n"
            with Client(process.stdout.readline().split(" at ")[1].split()[0]) as client:
                client.set_arms({"red": [0.5], "blue": [0.1]})
                assert client.tell(client.ask(context=[0.3]).id, 1.0)
        finally:
            process.terminate()
    assert process.returncode == 0


def test_numbers_of_columns_will_do(working_folder, monkeypatch):
    served_here(monkeypatch, "a.db", "--context", "2", "--arm", "3")
    served_here(monkeypatch, "b.db", "--dim", 4, "--memory", 500, "--explore", 0.02)
    served_here(monkeypatch, "c.db", "--arm", 3)
    served_here(monkeypatch, "d.db", "--dim", 2, "--memory", "auto")
    served_here(monkeypatch, "e.db", "--dim", 2, "--memory", "none")
    served_here(monkeypatch, "f.db", "--dim", 2)
    for name, made in {
        "a": {"context": 2, "arm": 3},
        "b": {"dim": 4, "memory": 500, "explore": 0.02},
        "c": {"arm": 3},
        "d": {"dim": 2, "memory": "auto"},
        "e": {"dim": 2, "memory": None},
        "f": {"dim": 2, "memory": "auto"},
    }.items():
        Agent.create(f"{name}.db", **made, exist_ok=True).close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "new.db: no such file; to create an agent, .*: adadim serve new.db --context hour,weekend --arm price,ra"),
        (("--context", "hour"), "--context: to create an agent give --arm, and --context if there is one, or --dim"),
        (("--expire-after", 5), "--expire-after: to create an agent give --arm"),
        (("--dim", 3, "--arm", "price"), "give either dim= or context=, arm="),
        (("--arm", "price,,size"), "a column of arm must have a name of 1 to 200 characters"),
        (("--arm", "0"), "arm must be at least 1|arm must be .* 1"),
        (("--arm", "price", "--context", "price"), "columns must have different names, but 'price' appears twice"),
        (("--arm", "price", "--memory", -1), "memory must be a positive"),
        (("--arm", "price", "--memory", "long"), "memory must be a positive.*'auto' to find it.*got 'long'"),
    ],
)
def test_an_agent_is_not_made_of_wrong_options(working_folder, options, message):
    pytest.importorskip("uvicorn")
    refused("serve", "new.db", *options, message=message)


def test_an_agent_that_is_there_must_have_the_settings(shop):
    before = "shop.db: exists with other settings: dim is 2 there, 3 here"
    refused("serve", "shop.db", "--dim", 3, message=before)
    refused("serve", "shop.db", "--context", "hour", "--arm", 2, message="context is not given there, .'hour'. here")
