"""Clients that send slowly, or nothing at all, are let go, and nobody else waits for them."""

import json
import socket
import time

import pytest

REQUEST_TIMEOUT = 0.6
HEAD = b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"


@pytest.fixture(scope="module")
def hurried(serving):
    return serving(request_timeout=REQUEST_TIMEOUT)


@pytest.fixture
def connect(hurried):
    opened = []

    def open_one():
        opened.append(socket.create_connection((hurried.base_url.host, hurried.base_url.port), timeout=20))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def answer_of(connection):
    """All that the service sends until it closes the connection."""
    parts = []
    try:
        while part := connection.recv(4096):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /ask HT", HEAD[:-2], HEAD, HEAD + b'{"arms": '],
    ids=["nothing", "line", "head", "body", "part"],
)
def test_a_client_that_stops_halfway(connect, hurried, log, sent):
    before = log()
    connection = connect()
    connection.sendall(sent)
    assert hurried.get("/health").status_code == 200
    head, _, body = answer_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert "0.6 seconds" in json.loads(body)["error"]
    assert log() == before


def test_a_client_that_sends_a_byte_now_and_then(connect, hurried):
    connection = connect()
    begun = time.monotonic()
    try:
        for byte in HEAD * 10:
            connection.sendall(bytes([byte]))
            time.sleep(0.1)
    except OSError:
        pass
    assert time.monotonic() - begun < 20  # of about 100 seconds that it would have gone on for
    assert hurried.get("/health").status_code == 200


def test_many_idle_connections_keep_nobody_out(connect, hurried):
    for _ in range(100):
        connect()
    assert hurried.get("/health").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 30_000,
        b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    ],
    ids=["TLS", "line", "long head", "negative length"],
)
def test_what_is_no_request(connect, hurried, sent):
    connection = connect()
    connection.sendall(sent)
    head, _, body = answer_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]
    assert hurried.get("/health").status_code == 200


def test_a_client_that_leaves_in_the_middle(connect, hurried, log):
    before = log()
    connection = connect()
    connection.sendall(HEAD)
    connection.close()
    assert hurried.get("/health").status_code == 200
    assert log() == before
