"""The command `report`."""

import json
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from adadim import paper, study
from adadim.experiments import comparison, field
from command_line import adadim_, refused
from experiments.paper.tiny_paper import shrink


def data(path="report.html"):
    (found,) = re.findall(r'(?s)id="data">(.*?)</script>', Path(path).read_text())
    return json.loads(found)


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


def test_folders_in_object_stores(results):
    pytest.importorskip("fsspec")
    plan = study.Study.from_dict(study.load(results).study)
    for place in ("memory://report/mine", "memory://report/below/mine"):
        study.run(plan, place, jobs=1)
    adadim_("report", "memory://report", "memory://report/mine")
    assert [s["name"] for s in data()["studies"]] == ["mine", "mine"]
    refused("report", "memory://elsewhere", message="memory://elsewhere is not a folder")


def test_a_study_that_toml_cannot_say():
    study.run(field.study("arora21", trials=1, horizon=5), "results/arora21", jobs=1)
    adadim_("report", "results")
    (shown,) = data()["studies"]
    assert shown["toml"].startswith("# policies.tsallis.penalty: TOML has no way to write None")


def test_reproduction_and_comparison(monkeypatch):
    shrink(monkeypatch)
    for variant in ("released", "theory"):
        study.run(paper.study("fig2a", variant, trials=6, seed=3), f"all/fig2a-{variant}", jobs=1)
    plan = comparison.study("development", trials=2, policy=["random"], family=["lower-bound-35/50"])
    study.run(plan, "all/regret/regret-development", jobs=1)
    adadim_("report", "all")
    page = data()
    assert [s["name"] for s in page["studies"]] == ["fig2a-released", "fig2a-theory", "regret-development"]
    claims, heat, summary = page["blocks"]
    statistics = claims["statistics"]
    names = [c["name"] for c in statistics["columns"]]
    expected = paper.claims([study.load(f"all/fig2a-{v}") for v in ("released", "theory")])
    assert [row[names.index("claim")] for row in statistics["rows"]] == [v.claim for v in expected]
    assert [row[names.index("verdict")] for row in statistics["rows"]] == [v.verdict for v in expected]
    assert {row[names.index("verdict")] for row in statistics["rows"]} <= dict(statistics["meanings"]).keys()
    listed = [(group, claim, *pair) for group, claim, pairs in claims["claims"] for pair in pairs]
    assert sorted(listed) == sorted((v.figure, v.claim, v.variant, v.verdict) for v in expected)
    assert len(claims["claims"]) == len(expected) / 2  # both variants of a claim in one line
    counts = Counter(v.verdict for v in expected)
    words = {"holds": ("holds", "hold"), "does not hold": ("does not", "do not"), "undecided": ("undecided",) * 2}
    tally = ", ".join(f"{count} {words[verdict][count > 1]}" for verdict, count in counts.most_common())
    assert claims["text"][0] == f"{len(expected)} verdicts on {len(expected) // 2} claims: {tally}."
    assert heat["policies"] == ["oracle", "linucb++", "random"]
    assert heat["ratios"][0][0][0][0] == 1.0
    assert len(summary["rows"]) == 6
    assert len(statistics["text"]) == 3
    assert [policy["name"] for policy in page["studies"][0]["policies"] if policy["told"]] == ["oracle"]
    for found, variant in zip(page["studies"], ("released", "theory"), strict=False):
        assert found["rerun"] == [f"adadim reproduce fig2a --variant {variant} --trials 6 --seed 3"]
        adadim_(*shlex.split(found["rerun"][0])[1:], "--jobs", 1, "--out", "all", "--quiet")
    (line,) = page["studies"][2]["rerun"]
    chosen = "--families lower-bound-35/50 --policy oracle --policy linucb++ --policy random"
    assert line == f"adadim study regret {chosen} --trials 2 --seed 0"
    again = adadim_(*shlex.split(line)[1:], "--jobs", 1, "--out", "all/regret", "--quiet")
    assert again == ("", "")


def test_a_varied_figure_is_not_the_paper(monkeypatch):
    """It has neither claims nor the paper's command: its TOML file says how to run it."""
    whole = paper.study("fig2a", "theory", trials=6)
    tables = {name: {**table, "arms": 20, "dim": 12, "horizon": 100} for name, table in whole.instances.items()}
    plan = study.Study.from_dict({**whole.to_dict(), "instances": tables})
    study.run(plan, "all/mine", jobs=1)
    adadim_("report", "all")
    assert data()["blocks"] == []
    assert data()["studies"][0]["rerun"] == []


def test_what_is_not_there():
    refused("report", "nowhere", message="nowhere is not a folder")
    Path("empty").mkdir()
    refused("report", "empty", message="no results in empty; make some with 'adadim run'")
