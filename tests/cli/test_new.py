"""The skeleton of a policy: it runs, behaves like every other policy, and overwrites nothing."""

import copy
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim.study import load_plugin
from command_line import STUDY, adadim_, refused
from policy_examples import HORIZON, REPLICATIONS, instance, play


@pytest.fixture
def made():
    """The policy of a skeleton."""
    printed, error = adadim_("new", "policy", "MyLinUCB")
    assert error == ""
    assert printed.startswith("wrote my_lin_ucb.py\n")
    assert "adadim reproduce fig2a --trials 4 --plugin my_lin_ucb.py --policy MyLinUCB" in printed
    return load_plugin("my_lin_ucb.py")["MyLinUCB"]


def test_the_skeleton_runs_in_a_study(made):
    Path("mine.toml").write_text(STUDY + '\n[policies.mine]\nkind = "MyLinUCB"\nwidth = 0.3\n')
    printed, _ = adadim_("run", "mine.toml", "--plugin", "my_lin_ucb.py", "--jobs", 1)
    assert "mine" in printed


def test_the_skeleton_keeps_the_rules_of_policies(made):
    policy = made(width=0.2)
    assert policy == made(width=0.2)
    together = play(policy, instance())
    assert together == play(policy, instance())
    for r in REPLICATIONS:
        assert play(policy, instance([r]))[r] == together[r]
    learner = policy.start(adadim.Problem(np.eye(4), horizon=HORIZON, noise=0.1), seed=1)
    for reward in (0.1, 0.2):
        learner.tell(learner.ask(), reward)
    learner.learn([0, 1], [0.3, 0.4])
    twin = copy.deepcopy(learner)
    for _ in range(10):
        arm = learner.select()
        assert arm == twin.select()
        learner.update(arm, 0.1 * arm)
        twin.update(arm, 0.1 * arm)


def test_the_skeleton_is_formatted_and_commented(made):
    text = Path("my_lin_ucb.py").read_text()
    assert max(map(len, text.splitlines())) <= 120
    assert made.__doc__.startswith("Pull the arm")
    assert "adadim reproduce fig2a --trials 4 --plugin my_lin_ucb.py --policy MyLinUCB" in text


def test_the_skeleton_has_the_interface_of_the_tutorial(made):
    """The page that names `adadim new policy`, and the example on it."""
    page = (Path(__file__).parents[2] / "docs" / "tutorials" / "your-policy.md").read_text(encoding="utf-8")
    assert "adadim new policy" in page
    text = Path("my_lin_ucb.py").read_text()
    for line in re.findall(r"^    def .*:$|^from .*|^import .*", text, flags=re.MULTILINE):
        assert line in page
    assert "docs/tutorials/your-policy.md" in text


def test_the_skeleton_has_no_path_of_this_machine(monkeypatch):
    out = Path("deep", "mine.py").absolute()
    out.parent.mkdir()
    monkeypatch.setattr(sys, "argv", [str(Path("venv/bin/adadim").absolute())])
    adadim_("new", "policy", "Mine", "--out", out)
    adadim_("new", "policy", "Other", "--out", "deep/other.py")
    assert str(Path.cwd()) not in out.read_text() + Path("deep/other.py").read_text()
    assert "adadim reproduce fig2a --trials 4 --plugin mine.py --policy Mine\n" in out.read_text()
    assert (
        "    adadim reproduce fig2a --trials 4 --plugin deep/other.py --policy Other\n"
        in Path("deep/other.py").read_text()
    )


def test_the_skeleton_does_what_it_says(made):
    learner = made(width=0.5).start(adadim.Problem(np.eye(3), horizon=20))
    learner.learn([0, 0, 1, 1, 1, 1, 2], [0.4, 0.2, 0.5, 0.5, 0.5, 0.5, 0.0])
    scores = {0: 0.3 + 0.5 / 2**0.5, 1: 0.5 + 0.5 / 2, 2: 0.5}
    assert learner.select() == max(scores, key=scores.get)


def test_nothing_is_overwritten(made):
    refused("new", "policy", "MyLinUCB", message="my_lin_ucb.py exists already and is not overwritten")
    adadim_("new", "policy", "MyLinUCB", "--out", "other.py")
    refused("new", "policy", "MyLinUCB", "--out", "other.txt", message=r"--out must end in \.py, got other\.txt")


@pytest.mark.parametrize("name", ["my-policy", "1st", "", "class", "_Hidden", "a/b", "Mÿ", "My Policy"])
def test_names_are_identifiers(name):
    refused("new", "policy", name, message="NAME must be a name that Python takes for a class, such as MyPolicy")


@pytest.mark.parametrize("name", ["LinUCB", "sphere"])
def test_names_of_adadim_are_taken(name):
    refused("new", "policy", name, message=f"adadim has a {name} of its own; give yours another name")
