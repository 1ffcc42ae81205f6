"""examples/compose without containers: the database with its roles, the agent, the services by their own commands."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adadim.serve import Client

pytest.importorskip("uvicorn")
yaml = pytest.importorskip("yaml")
psycopg = pytest.importorskip("psycopg")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "compose"
SERVICES = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
PAGE = FOLDER.parents[1] / "docs" / "operate.md"


def test_the_parts_fit_together():
    (proxied,) = re.findall(r"reverse_proxy (.*) \{", (FOLDER / "Caddyfile").read_text())
    commands = {name: service["command"][2] for name, service in SERVICES.items() if name.startswith("service-")}
    ports = {name: re.search(r"--port (\d+)", command)[1] for name, command in commands.items()}
    assert sorted(proxied.split()) == sorted(f"{name}:{port}" for name, port in ports.items())
    assert "/health" in (FOLDER / "Caddyfile").read_text()
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            if volume.startswith("./"):
                assert (FOLDER / volume.partition(":")[0]).exists()
    copied = re.search(r"COPY (.*) \./", (FOLDER / "Dockerfile").read_text())[1].split()
    assert copied == ["create_agent.py", "grants.sql"]
    assert all((FOLDER / name).exists() for name in copied)
    assert (FOLDER / "grants.sql").read_text() in PAGE.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell")
def test_the_parts_run(tmp_path, database):
    words = {"owner_password": "owner-word-of-24-letters", "worker_password": "it's a 'worker' \\ word"}
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name, word in {**words, "token": "a-token-of-some-length"}.items():
        (secrets / name).write_text(f"{word}\n")
    server, running = database, []
    allowed = (server.folder / "pg_hba.conf").read_text()
    try:
        folder = server.url.partition("host=")[2]
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE owner LOGIN SUPERUSER PASSWORD '{words['owner_password']}'")
            connection.execute("CREATE DATABASE bandits OWNER owner")
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(server.bin), os.environ["PATH"]]),
            "POSTGRES_USER": "owner",
            "POSTGRES_DB": "bandits",
            "PGHOST": folder,
        }

        def shell(text, start=subprocess.run, **options):
            text = text.replace("$$", "$").replace("/run/secrets", str(secrets))
            text = text.replace("@db/bandits", f"@/bandits?host={folder}").replace("--port 8000", "--port 0")
            return start(["sh", "-c", text], cwd=FOLDER, env=environment, text=True, **options)

        shell((FOLDER / "roles.sh").read_text(), check=True, stdout=subprocess.DEVNULL)
        (server.folder / "pg_hba.conf").write_text("local all all scram-sha-256\n")
        server.control("reload")
        for _ in range(2):  # the second time the agent is there
            shell(SERVICES["agent"]["command"][2], check=True)
        clients = []
        for name in ("service-1", "service-2"):
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = shell(SERVICES[name]["command"][2], subprocess.Popen, **pipes)
            running.append(process)
            line = process.stdout.readline()
            assert "by 2 processes (with a token)" in line, process.stderr.read()
            url = re.search(r"http://\S+", line)[0].replace("0.0.0.0", "127.0.0.1")
            clients.append(Client(url, token="a-token-of-some-length", attempts=200, pause=0.05))
        one, other = clients
        first = one.ask(context=[0.3, 0.6])
        other.tell(first.id, 1.0)
        assert one.status()["rewards"] == 1
        running[0].send_signal(signal.SIGTERM)
        assert running[0].wait(40) == 0
        assert other.ask(context=[0.3, 0.6]).id > first.id
        with pytest.raises(OSError, match="401"), Client(clients[1].url) as without:
            without.status()
    finally:
        for process in running:
            process.terminate()
            process.communicate(timeout=40)
        (server.folder / "pg_hba.conf").write_text(allowed)
        server.control("reload")
