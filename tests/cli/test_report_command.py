"""The command `report`."""

import json
import re
import shlex
from pathlib import Path

import typer.main

from adadim import cli, paper, study
from adadim.experiments import comparison
from command_line import adadim_, refused


def data(path="report.html"):
    (found,) = re.findall(r'(?s)id="data">(.*?)</script>', Path(path).read_text())
    return json.loads(found)


def tiny_figure(variant, trials=6):
    """The paper's figure 2a at a size that takes no time, with its labels."""
    whole = paper.study("fig2a", variant, trials=trials)
    tables = {name: {**table, "arms": 20, "dim": 12, "horizon": 100} for name, table in whole.instances.items()}
    plan = study.Study.from_dict({**whole.to_dict(), "instances": tables})
    return study.run(plan, Path("all") / plan.name, jobs=1)


def test_a_study(results):
    printed, error = adadim_("report", results)
    assert (printed, error) == ("wrote report.html\n", "")
    page = data()
    assert [s["name"] for s in page["studies"]] == ["mine"]
    assert page["title"] == "mine"
    assert page["blocks"] == []
    assert page["studies"][0]["rerun"] == []


def test_title_and_place(results):
    adadim_("report", results, "--out", "new/page.html", "--title", "A & B")
    assert data("new/page.html")["title"] == "A & B"


def test_folders_two_levels_down_are_found_once(results):
    adadim_("report", "results", results, ".")
    assert [s["name"] for s in data()["studies"]] == ["mine"]


def test_reproduction_and_comparison():
    for variant in ("released", "theory"):
        tiny_figure(variant)
    plan = comparison.study("development", trials=2, policy=["random"], family=["lower-bound-35/50"])
    study.run(plan, "all/regret/regret-development", jobs=1)
    adadim_("report", "all")
    page = data()
    assert [s["name"] for s in page["studies"]] == ["fig2a-released", "fig2a-theory", "regret-development"]
    claims, heat, summary = page["blocks"]
    names = [c["name"] for c in claims["columns"]]
    expected = paper.claims([study.load(f"all/fig2a-{v}") for v in ("released", "theory")])
    assert [row[names.index("claim")] for row in claims["rows"]] == [v.claim for v in expected]
    assert [row[names.index("verdict")] for row in claims["rows"]] == [v.verdict for v in expected]
    assert {row[names.index("verdict")] for row in claims["rows"]} <= dict(claims["meanings"]).keys()
    assert heat["policies"] == ["oracle", "linucb++", "random"]
    assert heat["ratios"][0][0][0][0] == 1.0
    assert len(summary["rows"]) == 6
    # What the page says to type is a command with these options.
    typed = [shlex.split(line) for s in page["studies"] for line in s["rerun"]]
    assert [words[:3] for words in typed] == [["adadim", "reproduce", "fig2a"]] * 2 + [["adadim", "study", "regret"]]
    command = typer.main.get_command(cli.app)
    for words in typed:
        group, rest = (command.commands["study"], words[2:]) if words[1] == "study" else (command, words[1:])
        context = group.commands[rest[0]].make_context(rest[0], rest[1:])
        assert context.params["trials"] in (2, 6)


def test_what_is_not_there():
    refused("report", "nowhere", message="nowhere is not a folder")
    Path("empty").mkdir()
    refused("report", "empty", message="no results in empty; make some with 'adadim run'")
