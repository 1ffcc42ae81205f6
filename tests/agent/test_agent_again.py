"""Making an agent that may exist already, as a program does that is run twice; and where an agent can be made."""

import threading

import pytest

import adadim
from adadim import Agent, AgentExistsError, FileError
from adadim.core.design import Features
from refusals import assert_refuses

ARMS = {"a": [1.0, 0.5], "b": [0.2, 1.0]}
MADE = {
    "context": ["hour"],
    "arm": ["price", "size"],
    "features": Features(own=4),
    "policy": adadim.LinUCB(scale=0.5),
    "noise": 0.3,
    "explore": 0.1,
    "memory": 500.0,
    "expire_after": 60.0,
    "expired_reward": 0.0,
    "keep": "chosen",
    "seed": 3,
    "arms": 50,
}


def test_the_second_run_goes_on_where_the_first_ended(tmp_path):
    for run in range(3):
        with Agent.create(tmp_path / "shop.db", **MADE, exist_ok=True) as agent:
            agent.set_arms(ARMS)
            decision = agent.ask(context=[0.5])
            assert decision.id == run + 1
            agent.tell(decision.id, reward=1.0)
            assert agent.status()["rewards"] == run + 1
    assert_refuses(AgentExistsError, "exists already.*exist_ok=True", Agent.create, tmp_path / "shop.db", **MADE)


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"context": ["day"]}, r"context is \['hour'\] there, \['day'\] here"),
        ({"context": 2}, r"context is \['hour'\] there, 2 here"),
        ({"arm": ["price"]}, r"arm is \['price', 'size'\] there, \['price'\] here"),
        ({"features": Features(own=5)}, r"features is Features\(.*own=4\) there, Features\(.*own=5\) here"),
        ({"policy": adadim.LinUCB()}, r"policy is LinUCB\(.*scale=0.5.* there, LinUCB\(.*scale=1.0.* here"),
        ({"noise": 0.5}, "noise is 0.3 there, 0.5 here"),
        ({"explore": 0.0}, "explore is 0.1 there, 0.0 here"),
        ({"levels": {"first": 4}}, r"levels is \{'arm': 3.*\} there, \{'first': 4.*\} here"),
        ({"memory": None}, "memory is 500.0 there, None here"),
        ({"expire_after": 61.0}, "expire_after is 60.0 there, 61.0 here"),
        ({"expired_reward": None}, "expired_reward is 0.0 there, None here"),
        ({"keep": "all"}, "keep is chosen there, all here"),
        ({"seed": 4}, "seed is 3 there, 4 here"),
        ({"arms": 51}, "arms is 50 there, 51 here"),
        ({"dim": 9, "context": None, "arm": None, "features": None}, "dim is not given there, 9 here"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@pytest.mark.any_store
def test_other_settings_are_refused_in_one_sentence(tmp_path, change, phrase):
    Agent.create(tmp_path / "shop.db", **MADE).close()
    message = rf"shop.db: exists with other settings: .*{phrase}"
    assert_refuses(AgentExistsError, message, Agent.create, tmp_path / "shop.db", **MADE | change, exist_ok=True)
    with Agent.create(tmp_path / "shop.db", **MADE, exist_ok=True) as agent:  # it is as it was
        assert agent.policy == MADE["policy"]


@pytest.mark.any_store
def test_all_differences_are_named(tmp_path):
    Agent.create(tmp_path / "shop.db", dim=3).close()
    message = "settings: dim is 3 there, 4 here; seed is 0 there, 1 here; noise is None there, 0.5 here; open it with"
    assert_refuses(FileError, message, Agent.create, tmp_path / "shop.db", dim=4, seed=1, noise=0.5, exist_ok=True)


@pytest.mark.any_store
def test_what_was_replaced_is_compared_as_it_is_now(tmp_path):
    with Agent.create(tmp_path / "shop.db", context=1, arm=2) as agent:
        agent.replace_policy(adadim.Greedy())
        agent.set_explore(0.2)
        agent.replace_features(context=2)
    with Agent.create(tmp_path / "shop.db", context=2, arm=2, exist_ok=True) as agent:
        assert agent.policy == adadim.Greedy()  # none was given
    Agent.create(tmp_path / "shop.db", context=2, arm=2, policy=adadim.Greedy(), exist_ok=True).close()
    refused = {"context": 1, "arm": 2, "exist_ok": True}
    assert_refuses(FileError, "context is 2 there, 1 here", Agent.create, tmp_path / "shop.db", **refused)


def test_programs_that_start_together_share_one_agent(tmp_path):
    agents, barrier = [], threading.Barrier(4)

    def start():
        barrier.wait()
        agents.append(Agent.create(tmp_path / "shop.db", dim=2, exist_ok=True))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(agent.ask(ARMS).id for agent in agents) == [1, 2, 3, 4]
    for agent in agents:
        agent.close()


@pytest.mark.any_store
def test_exist_ok_is_a_flag(tmp_path):
    assert_refuses(TypeError, "exist_ok must be True or False", Agent.create, tmp_path / "a.db", dim=2, exist_ok="yes")


@pytest.mark.in_a_file
def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.db").write_text("milk, bread")
    message = "not a file that Agent.create made"
    assert_refuses(FileError, message, Agent.create, tmp_path / "notes.db", dim=2, exist_ok=True)
    assert (tmp_path / "notes.db").read_text() == "milk, bread"


@pytest.mark.in_a_file
@pytest.mark.parametrize(
    ("address", "message"),
    [
        (":memory:", "path must be a file such as shop.db, or postgresql://user@host/db, got ':memory:'"),
        ("sqlite:///shop.db", "path must be a file such as shop.db, or postgresql://user@host/db, got 'sqlite:///"),
        ("C:\\data\\shop.db", r"C:\\data\\shop.db: a Windows path; on this system folders are separated by /"),
        ("data/shop.db", "data/shop.db: the folder data does not exist; make it first, or choose another"),
    ],
)
@pytest.mark.parametrize("exist_ok", [False, True])
def test_what_is_no_place_for_an_agent_is_refused(working_folder, address, message, exist_ok):
    assert_refuses(ValueError, message, Agent.create, address, dim=2, exist_ok=exist_ok)
    assert list(working_folder.iterdir()) == []
