"""The program and the study to start from: they run as they are, and overwrite nothing."""

import runpy
from pathlib import Path

import pytest

import adadim
from adadim.study import Study
from command_line import adadim_, refused


def test_the_program_runs_and_runs_again(capsys):
    printed, error = adadim_("new", "agent")
    assert (printed, error) == ("wrote shop.py\nTry it: python shop.py\n", "")
    for decisions in (300, 600):
        runpy.run_path("shop.py", run_name="__main__")
        printed = capsys.readouterr().out
        assert f"{decisions} decisions so far; clicks in this run: " in printed
        assert "returning = 0: scarf" in printed  # the cheapest
        assert "returning = 1: boots" in printed  # new, and the better rated
    with adadim.Agent.open("shop.db") as agent:
        assert agent.status()["rewards"] == 600


def test_the_program_of_another_name_has_an_agent_of_that_name():
    adadim_("new", "agent", "front-page")
    assert '"front-page.db"' in Path("front-page.py").read_text()
    adadim_("new", "agent", "news", "--out", "programs/start.py")
    text = Path("programs/start.py").read_text()
    assert '"news.db"' in text
    assert "{" not in text.partition('"""')[2].partition('"""')[0]
    assert max(map(len, text.splitlines())) <= 120


def test_the_study_runs():
    printed, error = adadim_("new", "study")
    assert (printed, error) == ("wrote study.toml\nTry it: adadim run study.toml\n", "")
    assert Study.from_toml("study.toml").trials == 8
    printed, _ = adadim_("run", "study.toml", "--jobs", 1, "--trials", 1, "--quiet")
    adadim_("figure", "results/study")
    assert Path("results/study/figures/study.png").exists()
    adadim_("new", "study", "mine")
    assert "adadim run mine.toml" in Path("mine.toml").read_text()
    assert "results/mine" in Path("mine.toml").read_text()


@pytest.mark.parametrize(("kind", "file", "suffix"), [("agent", "shop.py", ".py"), ("study", "study.toml", ".toml")])
def test_nothing_is_overwritten(kind, file, suffix):
    adadim_("new", kind)
    refused("new", kind, message=f"{file} exists already and is not overwritten; choose another name, or --out")
    refused("new", kind, "other", "--out", "x.txt", message=rf"--out must end in \{suffix}, got x\.txt")


@pytest.mark.parametrize("name", ["", "../x", "a b", "a.b", "1st", "a\nb", "x" * 61])
@pytest.mark.parametrize("kind", ["agent", "study"])
def test_names_are_names_of_files(kind, name):
    refused("new", kind, name, message="NAME must be a letter, then letters, digits, - and _, at most 60, got")


@pytest.mark.parametrize("name", ["adadim", "json", "numpy"])
def test_the_program_does_not_hide_a_module(name):
    refused("new", "agent", name, message=f"Python has a module {name}, which {name}.py would replace")


def test_help_names_the_files():
    assert "adadim new agent" in adadim_("new", "agent", "--help")[0]
    assert "adadim run study.toml" in adadim_("new", "study", "--help")[0]
