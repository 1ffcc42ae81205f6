"""The service: bodies, headers, paths, tokens and clients of all kinds; refused with a reason, and nothing written."""

from __future__ import annotations

import contextlib
import json
import socket
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import adadim
from adadim.serve import Settings
from attack.agents import ARMS, DIM, NAMES, rows
from attack.damage import changed, damaged, generator
from attack.tally import Tally

VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, -0.0, float("nan"), float("inf"), 1e308, "x" * 100_000, [],
    [1], [[]], [None], {}, {"a": {}}, {"a": [1.0] * DIM}, [1.0] * DIM, "1", *NAMES,
)  # fmt: skip
BODIES: dict[str, Any] = {
    "/ask": [
        {"arms": ARMS, "costs": {"a": 0.1}},
        {"arms": {"a": [1.0, 0.2], "b": [0.5, 0.7]}, "context": [1.0]},
        {"names": ["x", "y"]},
    ],
    "/tell": [{"id": 1, "reward": 0.5}],
    "/ask/batch": [{"contexts": [None, None], "arms": {"a": [1.0, 0.2], "b": [1.0, 0.7]}}],
    "/tell/batch": [{"rewards": [{"id": 2, "reward": 0.5}, {"id": 3, "reward": 0.25}]}],
    "/arms": [{"arms": {"x": [1.0, 0.5, 0.25], "y": [0.0, 1.0, 0.0]}, "costs": {"x": 0.1}}],
}
READ_PATHS = ("/status", "/dimension", "/overview", "/arms", "/metrics", "/", "/docs", "/openapi.json")
OPEN = ("/", "/docs", "/openapi.json", "/health")  # they say nothing of the agent
PATHS = (
    "/ask/", "//ask", "/ask/..", "/../etc/passwd", "/%2e%2e/x", "/tell/batch/1", "/arms/x", "/%00", "/\u00e9",
    "/a" * 2000, "/status?x=1", "/arms?name=", "/arms?name=nobody", "/arms?name=%00", "/arms?name=" + "x" * 5000,
    "/docs/x",
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "get")
TYPES = ("", "text/plain", "application/xml", "application/json; charset=utf-16", "multipart/form-data", "x" * 500, "/")
TOKEN = "a-token-for-the-attack"
JSON = {"Content-Type": "application/json"}


def service(count: int, folder: Path) -> Tally:
    """Requests to the application itself, and one in twenty as bytes through a socket."""
    from adadim.serve.app import AgentThread, create_app

    tally, draw = Tally(), generator(30)
    path = folder / "served.db"
    with adadim.Agent.create(path, dim=DIM) as agent:
        agent.set_arms({"x": ARMS["a"], "y": ARMS["b"]})
        for _ in range(20):
            agent.ask(ARMS)
    for token in (None, TOKEN):
        thread = AgentThread(path)
        app = create_app(thread, Settings(rate=0.0, token=token, largest_body=200_000))
        with contextlib.closing(thread), _client(app) as client:
            for i in range(count // 2):
                _request(tally, client, path, token, i, draw)
    _sockets(tally, max(4, count // 20), path, draw)
    with adadim.Agent.open(path) as agent:
        drift: Any = tally.attempt("the agent afterwards", agent.rebuild, ("nothing is wrong",))
        tally.expect(drift is not None and drift < 1e-9, f"a rebuild changes the sums by {drift}")
    return tally


def _client(app: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends another package
        from starlette.testclient import TestClient

    return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)


def _request(tally: Tally, client: Any, path: Path, token: str | None, i: int, draw: np.random.Generator) -> None:
    words, what = _words(i, draw)
    must_refuse = False
    if token is not None:
        header, must_refuse = _token(token, draw)
        words["headers"] = {**words["headers"], **header}
    before = rows(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer: Any = tally.attempt(what, lambda: client.request(**words), ("nothing",))
    if answer is None:
        return
    status = answer.status_code
    tally.expect(status < 500, f"{what}: {status} {answer.text[:200]}")
    if must_refuse and answer.url.path not in OPEN:
        tally.expect(status >= 400, f"{what}: {status} without the token")
    if status == 405:
        asked, allowed = words["method"].upper(), answer.headers.get("allow", "").split(", ")
        tally.expect(bool(allowed) and asked not in allowed, f"{what}: 405, and Allow has {allowed}")
    if status == 415:
        tally.expect(words["method"] == "POST" and answer.url.path in BODIES, f"{what}: 415 where no body is taken")
    if status >= 400:
        reason = answer.json().get("error") if words["method"] != "HEAD" else "none for HEAD"
        tally.expect(bool(reason) and len(answer.content) < 2500, f"{what}: {status} without a reason, or a long one")
        tally.expect(rows(path) == before, f"{what}: refused and yet written")
    if i % 20 == 0:
        _healthy(tally, client, what, token)


def _words(i: int, draw: np.random.Generator) -> tuple[dict[str, Any], str]:
    """A request that is nearly right, and what it is called."""
    url = list(BODIES)[int(draw.integers(len(BODIES)))]
    good = BODIES[url][int(draw.integers(len(BODIES[url])))]
    words: dict[str, Any] = {"method": "POST", "url": url, "headers": dict(JSON), "content": _json(good)}
    kind = i % 8
    if kind < 4:
        bad = changed(good, draw, VALUES)
        words["content"] = _json(bad)
        return words, f"{url} {str(bad)[:80]}"
    if kind == 4:
        words["content"] = damaged(_json(good), draw)
        return words, f"{url} {words['content'][:80]!r}"
    if kind == 5:
        words["headers"] = {"Content-Type": TYPES[int(draw.integers(len(TYPES)))]}
        return words, f"{url} of type {words['headers']}"
    if kind == 6:
        words["method"] = METHODS[int(draw.integers(len(METHODS)))]
        words["url"] = (*READ_PATHS, *PATHS)[int(draw.integers(len(READ_PATHS) + len(PATHS)))]
        return words, f"{words['method']} {words['url'][:80]}"
    deep = int(draw.integers(10, 60_000))
    large = (
        b"[" * deep,
        b'{"arms":' * (deep // 8),
        b" " * 300_000,
        b'{"arms": {"a": [' + b"1," * 90_000,
        b"1" * 10_000,
    )
    words["content"] = large[int(draw.integers(len(large)))]
    return words, f"{url} {words['content'][:20]!r} ({len(words['content'])} bytes)"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _token(token: str, draw: np.random.Generator) -> tuple[dict[str, str], bool]:
    bad = (
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        f"Bearer {token[:-1]}",
        f"Bearer {token}x",
        f"bearer {token[::-1]}",
        "x" * 3000,
    )
    if draw.random() < 0.4:
        return {"Authorization": bad[int(draw.integers(len(bad)))]}, True
    return {"Authorization": f"Bearer {token}"}, False


def _healthy(tally: Tally, client: Any, what: str, token: str | None) -> None:
    """The service can still be asked and told."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    tally.expect(client.get("/health").json().get("status") == "ok", f"after {what}: not healthy")
    asked = client.post("/ask", json={"arms": ARMS}, headers=headers)
    told = client.post("/tell", json={"id": asked.json().get("id"), "reward": 0.5}, headers=headers)
    tally.expect(told.json() == {"told": 1}, f"after {what}: {asked.text[:100]} {told.text[:100]}")
    for path in READ_PATHS[:5]:
        tally.expect(client.get(path, headers=headers).status_code == 200, f"after {what}: {path} fails")


def _sockets(tally: Tally, count: int, path: Path, draw: np.random.Generator) -> None:
    """Damaged bytes and clients that stop halfway, through a socket."""
    import httpx

    from adadim.serve import Service

    body = _json({"arms": ARMS})
    lines = "POST /ask HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}"
    head = "\r\n".join((*lines, "", ""))
    settings = Settings(port=0, request_timeout=0.4, rate=0.0)
    with Service(path, settings) as served, httpx.Client(base_url=served.url) as client:
        port = int(served.url.rpartition(":")[2])
        for i in range(count):
            data = damaged(head.encode(), draw) + body if i % 2 else damaged(head.encode() + body, draw)
            what = f"bytes {data[:60]!r}"
            answer = tally.attempt(what, lambda data=data: _answer(port, data), ("nothing",))
            tally.expect(answer in (None, b"") or answer[9:10] in (b"2", b"4"), f"{what}: answered {answer[:60]!r}")
            if i % 5 == 0:
                _healthy(tally, client, what, None)


def _answer(port: int, data: bytes) -> bytes:
    """The start of the answer; nothing where the connection is closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(data)
        return connection.recv(4096)
    return b""
