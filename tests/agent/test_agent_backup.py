"""Copies of an agent's file, made while it is in use."""

import multiprocessing
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest

from adadim.agent import Agent
from adadim.agent.sqlite import backup_file
from adadim.errors import FileError
from command_line import adadim_, refused

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
