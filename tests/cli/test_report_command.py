"""The command `report`."""

import json
import re
import shlex
from pathlib import Path

from adadim import paper, study
from adadim.experiments import comparison
from command_line import adadim_, refused
from experiments.paper.tiny_paper import shrink


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
    assert [s["rerun"] for s in page["studies"][:2]] == [[], []]  # not as in the paper: smaller
    (line,) = page["studies"][2]["rerun"]
    chosen = "--families lower-bound-35/50 --policy oracle --policy linucb++ --policy random"
    assert line == f"adadim study regret {chosen} --trials 2 --seed 0"
    again = adadim_(*shlex.split(line)[1:], "--jobs", 1, "--out", "all/regret", "--quiet")
    assert again == ("", "")


def test_a_figure_of_the_paper_names_its_command(monkeypatch):
    shrink(monkeypatch)
    study.run(paper.study("fig2a", "theory", trials=2, seed=3), "all/mine", jobs=1)
    adadim_("report", "all")
    (line,) = data()["studies"][0]["rerun"]
    assert line == "adadim reproduce fig2a --variant theory --trials 2 --seed 3"
    adadim_(*shlex.split(line)[1:], "--jobs", 1, "--quiet")


def test_what_is_not_there():
    refused("report", "nowhere", message="nowhere is not a folder")
    Path("empty").mkdir()
    refused("report", "empty", message="no results in empty; make some with 'adadim run'")
