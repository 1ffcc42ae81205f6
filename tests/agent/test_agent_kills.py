"""What was acknowledged survives SIGKILL; benchmarks/agent_kills.py does the same a hundred times."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.in_a_file

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "agent_kills.py"


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_killed_processes_lose_nothing_that_was_acknowledged(tmp_path):
    command = [sys.executable, str(SCRIPT), "--kills", "3", "--processes", "2", "--out", str(tmp_path / "kills.json")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "kills.json").read_text())["found"]
    assert found["acknowledged_decisions"] > 20
    assert found["acknowledged_rewards"] > 10
    assert (
        0 <= found["decisions_in_the_log"] - found["acknowledged_decisions"] <= 3 * (3 + 2)
    )  # a group for each process killed
    assert found["difference_from_a_rebuild"] < 1e-9


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_killed_processes_and_a_crashing_postgresql_lose_nothing_that_was_acknowledged(tmp_path, database):
    arguments = ["--postgres", "--kills", "3", "--crashes", "1", "--processes", "2", "--out", str(tmp_path / "k.json")]
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "k.json").read_text())["found"]
    assert found["acknowledged_decisions"] > 20
    assert found["acknowledged_rewards"] > 10
    # A group of three for each process killed, and for each of the two that the crash left without an answer.
    assert 0 <= found["decisions_in_the_log"] - found["acknowledged_decisions"] <= 3 * (3 + 2 + 2)
    assert found["difference_from_a_refit"] < 1e-9
