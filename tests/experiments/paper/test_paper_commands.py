"""The commands `reproduce` and `claims`: what is printed, what is written, and what they refuse."""

import json
import re
from pathlib import Path

import polars as pl
import pytest
from tiny_paper import HORIZON

from adadim import paper, study
from adadim.study import engines
from command_line import STUDY, adadim_, blocks, contents, refused

VERDICTS = {"holds", "does not hold", "undecided"}

pytestmark = pytest.mark.usefixtures("working_folder", "tiny")


def test_reproduce_runs_draws_and_judges():
    arguments = ("reproduce", "fig2b", "--trials", 4, "--jobs", 1, "--out", "out")
    printed, error = adadim_(*arguments)
    assert error == ""
    wanted = [f"out/figures/fig2b-released.{kind}" for kind in ("png", "pdf", "svg", "csv")]
    assert re.findall("wrote (.*)", printed) == wanted
    verdicts = json.loads(Path("out/claims.json").read_text())
    assert {(v["figure"], v["variant"], v["trials"]) for v in verdicts} == {("fig2b", "released", 4)}
    assert Path("out/claims.md").read_text().count("\n| fig") == len(verdicts)
    for verdict in verdicts:
        assert f" {verdict['claim']} " in printed
        assert f"{verdict['value']:.3g}" in printed
    plan = paper.study("fig2b", "released", trials=4)
    assert len(plan.cells) == 18
    assert {cell.horizon for cell in plan.cells} == {HORIZON}
    assert [cell.id for cell in plan.cells] == [
        c["id"] for c in study.store.Store("out/fig2b-released").describe()["cells"]
    ]


def test_reproducing_again_computes_nothing_and_changes_no_byte(monkeypatch):
    arguments = ("reproduce", "fig2a", "--trials", 4, "--jobs", 1)
    first, _ = adadim_(*arguments)
    before = contents(Path("results"))
    assert {"claims.md", "claims.json", "figures/fig2a-released.pdf"} <= before.keys()
    with monkeypatch.context() as patch:
        patch.setattr(engines, "simulate", None)
        assert adadim_(*arguments)[0] == first
    assert contents(Path("results")) == before
    # More trials add; what was there stays, and the first four trials are the same.
    adadim_("export", "results/fig2a-released", "--out", "four.csv")
    adadim_("reproduce", "fig2a", "--trials", 6, "--jobs", 1, "--quiet")
    after = contents(Path("results"))
    old = {name for name in before if "/blocks/" in name}
    assert {name: after[name] for name in old} == {name: before[name] for name in old}
    new = [name for name in after if "/blocks/" in name and name not in old]
    assert len(new) == 6
    assert all(name.endswith("-000004-000006.parquet") for name in new)
    adadim_("export", "results/fig2a-released", "--out", "six.csv")
    six = pl.read_csv("six.csv")
    assert six["replication"].n_unique() == 6
    assert six.filter(pl.col("replication") < 4).equals(pl.read_csv("four.csv"))
    assert after["figures/fig2a-released.png"] != before["figures/fig2a-released.png"]


def test_reproduce_all_in_both_variants(one_format, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")  # no claim goes over two lines
    printed, error = adadim_("reproduce", "all", "--variant", "both", "--trials", 4, "--jobs", 1)
    assert error == ""
    names = [f"{figure}-{variant}" for figure in paper.FIGURES for variant in ("released", "theory")]
    assert re.findall(r"wrote results/figures/(.*)\.png", printed) == names
    printed, _ = adadim_("status", "results")
    assert printed.count(" complete") == 12
    verdicts = json.loads(adadim_("claims", "results", "--json")[0])
    assert verdicts == json.loads(Path("results/claims.json").read_text())
    assert len(verdicts) == 80
    assert {v["verdict"] for v in verdicts} == {"undecided"}  # four trials decide nothing
    assert [v["variant"] for v in verdicts] == ["released", "theory"] * 40
    assert {v["figure"] for v in verdicts} == set(paper.FIGURES)
    assert all(v["low"] <= v["high"] for v in verdicts)
    table, _ = adadim_("claims", "results")
    assert all(v["claim"] in table for v in verdicts)
    for name in names:
        assert study.load(f"results/{name}").trials == 4
    # Exporting many studies makes a table each; into one file they do not go.
    refused(
        "export", "results", "--out", "x.csv", message=r"results holds 12 studies; export one of them: results/fig2a"
    )
    adadim_("export", "results", "--format", "parquet")
    assert sorted(path.stem for path in Path().glob("*.parquet")) == sorted(names)


def test_claims_decide_when_there_are_trials_enough(one_format):
    adadim_("reproduce", "fig2a", "--trials", 8, "--jobs", 1, "--variant", "theory")
    verdicts = json.loads(Path("results/claims.json").read_text())
    assert {v["verdict"] for v in verdicts} <= VERDICTS
    assert {v["verdict"] for v in verdicts} != {"undecided"}
    for verdict in verdicts:
        decided = {True: "holds", False: "does not hold"}.get(
            True if verdict["low"] > 0 else False if verdict["high"] < 0 else None, "undecided"
        )
        assert verdict["verdict"] == decided


def test_json_of_one_trial_has_no_nan(one_format):
    adadim_("reproduce", "fig2a", "--trials", 1, "--jobs", 1)

    def no_constants(name):
        raise AssertionError(f"{name} is not JSON")

    for text in (adadim_("claims", "results", "--json")[0], Path("results/claims.json").read_text()):
        verdicts = json.loads(text, parse_constant=no_constants)
        assert {(v["value"], v["low"], v["verdict"]) for v in verdicts} == {(None, None, "undecided")}


def test_jobs_and_batches_do_not_change_what_is_exported(one_format):
    for jobs, batch in ((1, 4), (2, 1)):
        adadim_("reproduce", "fig3b", "--trials", 4, "--jobs", jobs, "--batch", batch, "--out", jobs, "--quiet")
        adadim_("export", f"{jobs}/fig3b-released", "--out", f"{jobs}.csv")
    assert Path("1.csv").read_bytes() == Path("2.csv").read_bytes()
    assert len(blocks(Path("1/fig3b-released"))) == 18
    assert len(blocks(Path("2/fig3b-released"))) == 72
    for name in ("figures/fig3b-released.png", "figures/fig3b-released.csv", "claims.json", "claims.md"):
        assert Path("1", name).read_bytes() == Path("2", name).read_bytes()


def test_seeds_and_bands(one_format):
    common = ("reproduce", "fig2a", "--trials", 2, "--jobs", 1, "--quiet")
    adadim_(*common, "--out", "zero")
    adadim_(*common, "--out", "one", "--seed", 1)
    adadim_(*common, "--out", "std", "--band", "std")
    tables = [Path(name, "figures/fig2a-released.csv").read_bytes() for name in ("zero", "one", "std")]
    pictures = [Path(name, "figures/fig2a-released.png").read_bytes() for name in ("zero", "one", "std")]
    assert [tables[0] == table for table in tables] == [True, False, True]
    assert len(set(pictures)) == 3


def test_claims_of_an_unfinished_run(one_format):
    adadim_("reproduce", "fig2a", "--trials", 8, "--jobs", 1, "--batch", 2, "--quiet")
    folder = Path("results/fig2a-released")
    oracle = next(cell for cell in paper.study("fig2a", "released").cells if cell.policy == "oracle")
    (folder / "blocks" / f"{oracle.id}-000002-000004.parquet").unlink()
    verdicts = json.loads(adadim_("claims", "results", "--json")[0])
    assert {v["trials"] for v in verdicts} == {6}
    results = study.load(folder)
    ours, theirs = (results.final("d3", policy)[[0, 1, 4, 5, 6, 7]] for policy in ("linucb++", "linucb"))
    assert verdicts[0]["claim"] == "LinUCB++ has less regret than LinUCB at d* = 3"
    assert verdicts[0]["value"] == pytest.approx((theirs - ours).mean())
    for path in (folder / "blocks").glob(f"{oracle.id}-*.parquet"):
        path.unlink()
    verdicts = json.loads(adadim_("claims", "results", "--json")[0])
    assert {v["verdict"] for v in verdicts} == {"undecided"}


def test_reproduce_refuses_bad_folders(one_format):
    common = ("reproduce", "fig2a", "--trials", 2, "--jobs", 1)
    Path("file").write_text("mine")
    refused(*common, "--out", "file", message=r"file/fig2a-released/blocks: Not a directory; .*choose another folder")
    adadim_(*common, "--quiet")
    folder = Path("results/fig2a-released")
    blocks(folder)[0].write_bytes(blocks(folder)[0].read_bytes()[:100])
    name = blocks(folder)[0].name
    refused("claims", "results", message=rf"results/fig2a-released/blocks/{name}: damaged .*; running the study again")
    _, error = adadim_(*common, "--quiet")
    assert f"results/fig2a-released/blocks/{name}: damaged" in error
    assert error.endswith("it is computed again\n")
    adadim_("claims", "results")


def test_quiet_prints_nothing(one_format):
    assert adadim_("reproduce", "fig2a", "--trials", 2, "--jobs", 1, "--quiet") == ("", "")


def test_names_that_look_like_the_papers(one_format):
    file = Path("mine.toml")
    for name in ("fig2a", "fig2a-mine", "fig2a-released-old"):
        file.write_text(f'name = "{name}"\n{STUDY}')
        adadim_("run", file, "--jobs", 1, "--trials", 1, "--quiet")
        assert Path(f"results/{name}/figures/{name}.png").exists()
    refused("claims", "results", message="no figure of the paper in results; try: adadim reproduce fig2a --out results")


def test_results_of_an_older_version_are_named_and_running_again_mends_them(one_format):
    run = ("reproduce", "fig2a", "--trials", 2, "--jobs", 1, "--quiet")
    adadim_(*run)
    before = contents(Path("results"))
    manifest = Path("results/fig2a-released/manifest.json")
    content = json.loads(manifest.read_text())
    del content["study"]["labels"]
    manifest.write_text(json.dumps(content))
    message = (
        r"results/fig2a-released: stored by an older adadim, without labels; run it again, which finds the stored "
        r"blocks: adadim reproduce fig2a --variant released --out results --trials 2$"
    )
    refused("claims", "results", message=message)
    adadim_(*run)
    assert contents(Path("results")) == before


def test_results_of_other_studies_next_to_the_papers(one_format):
    adadim_("reproduce", "fig2a", "--trials", 2, "--jobs", 1, "--quiet")
    Path("mine.toml").write_text(STUDY)
    adadim_("run", "mine.toml", "--jobs", 1, "--quiet")
    verdicts = json.loads(adadim_("claims", "results", "--json")[0])
    assert {(v["figure"], v["variant"]) for v in verdicts} == {("fig2a", "released")}
    Path("results/fig2a-released").rename("results/moved")  # what a folder is called does not matter
    assert json.loads(adadim_("claims", "results", "--json")[0]) == verdicts
