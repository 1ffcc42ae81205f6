"""Who may call: nobody without the token, and without one only this machine."""

from pathlib import Path

import pytest

from adadim.errors import FileError, InvalidValueError
from adadim.serve import Settings
from adadim.serve.settings import find_token

TOKEN = "correct-horse-battery-staple"
CLOSED = ["/status", "/dimension", "/overview", "/metrics", "/arms"]


@pytest.fixture(scope="module")
def guarded(serving):
    return serving(token=TOKEN)


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong"),
        bearer(TOKEN[:-1]),
        bearer(TOKEN + "x"),
        bearer(TOKEN.upper()),
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": b"Bearer \xff\xfe"},
        {"X-Token": TOKEN},
    ],
)
def test_without_the_token_nothing_is_said_or_written(guarded, log, headers):
    before = log()
    for path in CLOSED:
        answer = guarded.get(path, headers=headers)
        assert answer.status_code == 401
        assert "token" in answer.json()["error"]
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    arms = {"arms": {"a": [1, 2, 3]}}
    for path, body in (("/ask", arms), ("/arms", arms), ("/tell", {"id": 1, "reward": 1}), ("/tell/batch", {})):
        assert guarded.post(path, json=body, headers=headers).status_code == 401
    assert guarded.get(f"/status?token={TOKEN}", headers=headers).status_code == 401
    assert log() == before


def test_with_the_token_everything_is_there(guarded):
    for path in CLOSED:
        assert guarded.get(path, headers=bearer(TOKEN)).status_code == 200
    answer = guarded.post("/ask", json={"arms": {"a": [1.0, 2.0, 3.0]}}, headers=bearer(TOKEN))
    assert answer.json()["arm"] == "a"


def test_pages_and_health_need_no_token_and_show_nothing(guarded, file):
    for path in ("/", "/docs", "/openapi.json", "/health", "/ready"):
        answer = guarded.get(path)
        assert answer.status_code == 200
        assert file.name not in answer.text
        assert TOKEN not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8000", "", "[::2]:80"])
def test_without_a_token_other_names_of_this_machine_are_refused(service, log, host):
    before = log()
    answer = service.post("/ask", json={"arms": {"a": [1, 2, 3]}}, headers={"Host": host})
    assert answer.status_code == 421
    assert "127.0.0.1" in answer.json()["error"]
    assert log() == before


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9", "127.8.8.8", "[::1]:8000", "[::1]"])
def test_names_of_this_machine(service, host):
    assert service.get("/status", headers={"Host": host}).status_code == 200


def test_with_a_token_any_name_will_do(guarded):
    assert guarded.get("/status", headers={**bearer(TOKEN), "Host": "shop.example"}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "shop.example"])
def test_only_this_machine_without_a_token(host):
    with pytest.raises(InvalidValueError, match="without a token"):
        Settings(host=host)
    assert Settings(host=host, token=TOKEN).host == host


def test_where_a_token_comes_from(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    monkeypatch.delenv("ADADIM_TOKEN", raising=False)
    assert find_token(None) is None
    assert find_token(file) == TOKEN
    monkeypatch.setenv("ADADIM_TOKEN", "another-token-of-some-length")
    assert find_token(None) == "another-token-of-some-length"
    assert find_token(file) == TOKEN


@pytest.mark.parametrize(
    "text", ["", "short", "fifteen-letters", "with spaces in the middle of it", "ключключключключключ"]
)
def test_poor_tokens(tmp_path, text):
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidValueError, match=r"the token in .*token must") as error:
        find_token(file)
    assert not text or text not in str(error.value).replace(str(file), "")


def test_a_token_file_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        find_token(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="cannot be read"):
        find_token(tmp_path / "bytes")


def test_a_token_is_not_shown():
    assert TOKEN not in repr(Settings(token=TOKEN))


def test_a_token_file_without_end(tmp_path):
    (tmp_path / "long").write_text("x" * 20_000)
    for file in (tmp_path / "long", Path("/dev/zero")):
        if file.exists():
            with pytest.raises(FileError, match="must have at most 10000 characters"):
                find_token(file)
