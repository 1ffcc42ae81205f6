"""Copies of an agent's file, made while it is in use."""

import multiprocessing
import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from adadim.agent import Agent
from adadim.agent.sqlite import backup_file
from adadim.errors import FileError
from command_line import adadim_, refused
from refusals import assert_refuses

pytestmark = pytest.mark.in_a_file
ARMS = {"a": [1.0, 0.0], "b": [0.0, 1.0]}


@pytest.fixture
def agent(working_folder):
    agent = Agent.create("shop.db", dim=2)
    agent.set_arms(ARMS)
    agent.tell_many({decision.id: float(decision.id % 3) for decision in agent.ask_many([None] * 20)})
    yield agent
    agent.close()


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir() if "copy" in path.name)


def test_a_copy_is_an_agent_like_the_other(agent, working_folder):
    agent.ask()
    printed, _ = adadim_("backup", "shop.db", "backups/copy.db")
    assert "21 decisions" in printed
    assert leftovers(working_folder / "backups") == ["copy.db"]
    with Agent.open("backups/copy.db") as copy:
        same = ("decisions", "rewards", "outstanding", "policy", "arms")
        assert [copy.status()[key] for key in same] == [agent.status()[key] for key in same]
        assert copy.estimate() == agent.estimate()
        assert copy.rebuild() < 1e-9
        ours, theirs = copy.ask_many([None] * 5), agent.ask_many([None] * 5)
        assert [(d.id, d.arm) for d in ours] == [(d.id, d.arm) for d in theirs]


def write(path, stop):
    with Agent.open(path) as agent:
        while not stop.is_set():
            agent.tell_many({decision.id: 1.0 for decision in agent.ask_many([None] * 7)})


def test_copies_made_under_load_are_whole(agent, working_folder):
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    writers = [context.Process(target=write, args=("shop.db", stop)) for _ in range(2)]
    for writer in writers:
        writer.start()
    while agent.status()["decisions"] == 20:
        time.sleep(0.01)
    counts = [backup_file(working_folder / "shop.db", working_folder / f"copy-{k}.db") for k in range(10)]
    stop.set()
    for writer in writers:
        writer.join()
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] <= agent.status()["decisions"]
    for k, count in enumerate(counts):
        with Agent.open(f"copy-{k}.db") as copy:
            status = copy.status()
            assert status["decisions"] == count
            assert (status["rewards"] + status["outstanding"], status["outstanding"] % 7) == (count, 0)
            assert copy.rebuild() < 1e-9


def test_what_is_there_is_not_replaced(agent, working_folder):
    with open("copy.db", "w") as file:
        file.write("mine")
    refused("backup", "shop.db", "copy.db", message="copy.db: exists already")
    assert (working_folder / "copy.db").read_text() == "mine"


def test_what_cannot_be_copied_leaves_nothing(agent, working_folder):
    agent.close()
    refused("backup", "none.db", "copy.db", message="none.db: no such file")
    with open("text.db", "w") as file:
        file.write(
            "no agent, but long enough to have a head, which is a hundred bytes in all; it is that long now....."
        )
    refused("backup", "text.db", "copy.db", message="text.db: .*not a file that Agent.create made")
    refused("backup", ".", "copy.db", message="not a file")
    with closing(sqlite3.connect("shop.db", isolation_level=None)) as file:
        file.execute("DELETE FROM decisions WHERE number = 3")
    refused("backup", "shop.db", "copy.db", message="rewards of no decision")
    assert leftovers(working_folder) == []


def test_damaged_pages_are_noticed(agent, working_folder):
    agent.ask_many([None] * 2000)
    agent.close()
    path = working_folder / "shop.db"
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for page in range(4, len(content) // 4096):
        content[4096 * page : 4096 * page + 200] = rng.bytes(200)
    path.write_bytes(content)
    with pytest.raises(FileError, match="damaged"):
        backup_file(path, working_folder / "copy.db")
    assert leftovers(working_folder) == []


# Full disks and killed processes


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("full", ["000000.parquet", "joined"])
def test_an_export_to_a_full_disk_says_so(agent, working_folder, monkeypatch, full):
    def filling(write):
        return lambda frame, path, **options: write(frame, "/dev/full" if Path(path).name == full else path, **options)

    with monkeypatch.context() as patch:  # of its own: the folder is to stay
        for kind, name in ((pl.DataFrame, "write_parquet"), (pl.LazyFrame, "sink_parquet")):
            patch.setattr(kind, name, filling(getattr(kind, name)))
        assert_refuses(FileError, "log.parquet: No space left on device; free some space", agent.export, "log.parquet")
    assert [path.name for path in working_folder.iterdir() if "log" in path.name] == []
    assert agent.export("log.parquet").is_file()


def test_what_the_writer_of_an_export_fails_with_is_said(agent, monkeypatch):
    def fail(frame, path, **options):
        raise pl.exceptions.ComputeError("no memory\nfor this")

    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", fail)
    assert_refuses(FileError, r"log.parquet: cannot be written \(no memory\); check", agent.export, "log.parquet")


KILLED = """
import os, signal, sys
from pathlib import Path
from adadim.core.files import temporary_folder
with temporary_folder(Path(sys.argv[1])) as folder:
    (folder / "part").write_text("half")
    print(folder.name, flush=True)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("make", ["export", "backup"])
def test_what_killed_processes_left_is_removed_and_nothing_else(agent, working_folder, make):
    def start(name, fate):
        arguments = [sys.executable, "-c", KILLED, str(working_folder / name), fate]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return process, process.stdout.readline().strip()

    (dead, left), (living, working) = start("older.parquet", "killed"), start("copy.db", "waits")
    dead.communicate()
    host = socket.gethostname()
    (working_folder / f"x.adadim-{host}-{dead.pid}-0123456.tmp").mkdir()  # other names, and another machine
    (working_folder / f"x.adadim-{host}x-{dead.pid}-01234567.tmp").mkdir()
    again = working_folder / f"x.adadim-{host}-{os.getpid()}-01234567.tmp"  # of a process that had this number
    again.mkdir()
    assert (working_folder / left / "part").is_file()
    others = {path.name for path in working_folder.iterdir()} - {left, again.name}
    if make == "export":
        made = agent.export("log.parquet").name
    else:
        made = "later.db"
        backup_file(working_folder / "shop.db", working_folder / made)
    assert {path.name for path in working_folder.iterdir()} == others | {made}
    assert (working_folder / working / "part").is_file()
    living.communicate("")
    assert living.returncode == 0
    assert not (working_folder / working).exists()
